"""Makes the long session of the cache benchmark: 300 requests, 1.2 million tokens of tool results, and
questions about facts that stood in earlier results. Deterministic; touches nothing.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from lamina.messages import Message, text, tool_result, tool_use
from lamina.replay.recording import Frame, RecordedMessage, RecordedRequest, Recording
from lamina.replay.weigh import Scales

REQUESTS = 300
RESULT_TOKENS = 1_200_000
QUESTIONS = 24
ASK_EVERY = 12
SECONDS = 20.0
MODEL = "claude-sonnet-4-6"
# Four bytes a token for everything, so that all policies and peers count alike.
SCALES = Scales((0.25, 0.25, 0.25, 0.25, 4.0))
LONGEST = 100_000  # characters of one result
WORDS = [
    "cache",
    "ledger",
    "view",
    "prefix",
    "summary",
    "request",
    "token",
    "window",
    "layer",
    "edit",
    "fold",
    "turn",
    "model",
    "index",
    "store",
    "journal",
    "branch",
    "commit",
    "reader",
    "writer",
    "queue",
    "worker",
    "signal",
    "socket",
    "buffer",
    "page",
    "frame",
    "block",
    "chunk",
    "parser",
    "lexer",
    "schema",
    "column",
    "row",
    "table",
    "cursor",
    "cluster",
    "shard",
    "replica",
    "leader",
    "follower",
    "timeout",
]


@dataclass(frozen=True)
class Fact:
    """A line of one result that a later request asks for."""

    request: int  # the request whose answer quotes it
    line: str
    call: str  # id of the call whose result holds it


@dataclass(frozen=True)
class LongSession:
    recording: Recording
    facts: tuple[Fact, ...]


def make(*, even: bool = False, seed: int = 7) -> LongSession:
    """`even`: all results have about the same size; else few large ones hold most of the text, as
    in real sessions.
    """
    chance = random.Random(seed)
    asks = {ASK_EVERY * (n + 1) for n in range(QUESTIONS)}
    sizes = _sizes(chance, REQUESTS - len(asks), even=even)
    build = _Builder(chance)
    build.say("user", text("Find out why the nightly build is slow, and mend it. Keep the API."))
    planted: list[tuple[str, str]] = []  # (line, call), not asked for yet
    facts: list[Fact] = []
    for number in range(REQUESTS):
        build.request(number)
        if number in asks:
            line, call = planted.pop(chance.randrange(max(1, len(planted) - 3)))
            facts.append(Fact(number, line, call))
            build.say("assistant", text(f"An earlier result said so:\n{line}"))
            build.say("user", text(f"Good, note it as point {number}, and go on."))
            continue
        name = f"toolu_{number:04d}"
        line = f"measurement {number:03d} came to {chance.randrange(10**9):09d} microseconds"
        planted.append((line, name))
        build.call(name, number)
        ask = f"What did measurement {line[12:15]} come to?" if number + 1 in asks else ""
        build.result(name, line, sizes.pop(), ask)
    return LongSession(build.recording(), tuple(facts))


def _sizes(chance: random.Random, count: int, *, even: bool) -> list[int]:
    """Characters of each result."""
    spread = 0.15 if even else 1.1
    raw = [chance.lognormvariate(0, spread) for _ in range(count)]
    wanted = 4 * RESULT_TOKENS
    for _ in range(20):  # the longest are cut, the others share what that leaves
        factor = wanted / sum(raw)
        raw = [min(LONGEST, size * factor) for size in raw]
    return [max(200, round(size)) for size in raw]


class _Builder:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._messages: list[RecordedMessage] = []
        self._requests: list[RecordedRequest] = []

    def say(self, role: str, *blocks: dict) -> None:
        message: Message = {"role": role, "content": list(blocks)}
        at = len(self._messages)
        time = len(self._requests) * SECONDS
        self._messages.append(RecordedMessage(message, at - 1, at + 1, time))

    def request(self, number: int) -> None:
        tail = len(self._messages) - 1
        time = (number + 1) * SECONDS
        self._requests.append(RecordedRequest(time, tail, tail + 1, model=MODEL, ttl=300.0))

    def call(self, name: str, number: int) -> None:
        # A third each; Grep and Bash have thresholds of their own in layer 1, Read is never moved.
        tool, given = (
            ("Bash", {"command": f"make trace PART={number} | tee part{number}.log"}),
            ("Read", {"file_path": f"/repo/src/part{number}/module{number}.py"}),
            ("Grep", {"pattern": f"slow_path_{number}", "path": "/repo/src"}),
        )[number % 3]
        said = f"Looking at part {number}: {self._line(8)}."
        self.say("assistant", text(said), tool_use(name, tool, given))

    def result(self, name: str, line: str, size: int, ask: str) -> None:
        lines: list[str] = []
        length = len(line)
        while length < size:
            lines.append(f"{len(lines):05d} {self._line(9)} {self._chance.randrange(10**6)}")
            length += len(lines[-1]) + 1
        # In the middle half: neither a preview nor a tail shows it by luck.
        lines.insert(self._chance.randrange(len(lines) // 4, max(1, 3 * len(lines) // 4) + 1), line)
        blocks = [tool_result(name, "\n".join(lines))]
        self.say("user", *blocks, *([text(ask)] if ask else []))

    def _line(self, count: int) -> str:
        return " ".join(self._chance.choice(WORDS) for _ in range(count))

    def recording(self) -> Recording:
        system = [text("You work on the repository of a build system. " + self._line(2_900))]
        frames = (Frame(system=tuple(system)),)
        return Recording("long session", "made", self._messages, self._requests, frames=frames)
