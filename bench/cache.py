"""The cache benchmark: what Lamina's layers save on real sessions and on one long made-up session, beside
other libraries' ways in the same run, and how fast they are. Writes `bench/out/cache.json` and
`bench/results/cache.md`.

Peers run in an environment of their own (`.venv-bench`, from the extra `bench`: they bring some sixty packages), each in a process of
its own, on the same messages; every policy is costed by the same replay, re-reads included.
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import environ
from pathlib import Path
from time import process_time
from typing import Any

from bench import cache_frontier, cache_session
from bench.cache_policies import PeerPolicy, apart_python, peer_python, sent_by
from bench.figures import ROOT, Figure, at_least, at_most, p95, report
from bench.start import BARE, cpu_of

from lamina.cache.spend import cost, price_of
from lamina.config import Config, load
from lamina.errors import LaminaError
from lamina.layers import microcompact, tool_results
from lamina.ledger import edits
from lamina.ledger.spans import expand
from lamina.messages import Message, Response, Usage, text, tool_result, tool_use
from lamina.replay.lamina_policy import LaminaPolicy, lamina_policy
from lamina.replay.policies import open_policy
from lamina.replay.readers import read_recording
from lamina.replay.recording import RecordedMessage, RecordedRequest, Recording
from lamina.replay.results import PolicyResult
from lamina.replay.run import ContextPolicy, RecordedTurn, Sent, replay
from lamina.replay.weigh import Weigher

DATA = Path(environ.get("LAMINA_DATA") or ROOT.parent / "shared" / "data")
REAL_PEERS = ("langchain_clear", "langchain_trim")
PEERS = ("deepagents", "langchain_clear", "langchain_summary", "openai_trimmer", "langchain_trim")
OPENHANDS = "openhands max_tokens=85000"  # of 85,000, 120,000 and 170,000 the cheapest
HISTORY = "/conversation_history/"  # where deepagents puts what a summary stands for
LARGE = "/large_tool_results/"  # and large results
SUMMARY = "<summary>"  # its first reference gives all of its span back
ROUNDING = 0.0005  # of a bill: blocks are weighed in whole tokens
BREAKS = ("microcompact", "compaction", "collapse", "snip")


def equivalents(usage: Usage) -> float:
    """Millions of tokens of plain input that cost as much: writes 1.25, reads 0.1."""
    return (1.25 * usage.cache_write + 0.1 * usage.cache_read + usage.input) / 1e6


def paid(result: PolicyResult) -> float:
    """The same of all that a policy sent. What another model was sent counts by that one's price."""
    calls = [call for request in result.requests for call in request.calls]
    plain = price_of(cache_session.MODEL).input / 1e6
    found = equivalents(result.usage)
    for call in calls:
        if call.model != cache_session.MODEL:
            asked = replace(call.usage, output=0)
            found += cost(asked, price_of(call.model)) / plain / 1e6 - equivalents(call.usage)
    return found


# ---- real sessions


@dataclass
class Sums:
    """One policy over all sessions."""

    cost: float = 0.0
    read: int = 0
    prompt: int = 0
    context: int = 0
    over: int = 0
    rereads: int = 0
    dearer: list[str] = field(default_factory=list)
    calm_read: int = 0  # between expected breaks
    calm_prompt: int = 0

    def add(self, name: str, result: PolicyResult, plain: PolicyResult, life: float) -> None:
        usage = result.usage
        self.cost += result.cost
        self.read, self.prompt = self.read + usage.cache_read, self.prompt + usage.prompt
        self.context += sum(figures.context for figures in result.requests)
        self.over += result.overflows
        self.rereads += len(result.rereads)
        if result.cost > plain.cost * (1 + ROUNDING):
            self.dearer.append(f"{name} {result.cost / plain.cost - 1:+.1%}")
        last: dict[str, float] = {}
        for figures in result.requests:
            before = last.get(figures.thread)
            last[figures.thread] = figures.time
            broke = any(action.layer in (*BREAKS, "recorder") for action in figures.actions)
            if before is None or broke or figures.time - before > life:
                continue
            self.calm_read += figures.usage.cache_read
            self.calm_prompt += figures.usage.prompt


def weighed(*, uncut: bool) -> tuple[list[Path], list[Weigher]]:
    paths = sorted((DATA / "claude-code-sessions").glob("*.jsonl"))
    found = [Weigher(read_recording(path)) for path in paths]
    return paths, [weigher.uncut() for weigher in found] if uncut else found


def real_sessions(
    config: Config, python: str | None, *, uncut: bool
) -> tuple[int, dict[str, Sums]]:
    sums: dict[str, Sums] = {}
    paths, weighers = weighed(uncut=uncut)
    peers = {}
    for name in REAL_PEERS if python else ():
        peers[name] = sent_by(name, [weigher.recording for weigher in weighers], str(python))
    for number, (path, weigher) in enumerate(zip(paths, weighers, strict=True)):
        recording = weigher.recording
        life = max((r.ttl for r in recording.requests), default=0) or 300
        results: dict[str, PolicyResult] = {}
        for name in ("none", "lamina", "clear-oldest", "drop-oldest"):
            with open_policy(name, weigher, config) as policy:
                results[name] = replay(recording, policy, weigher=weigher)
        for name, values in peers.items():
            peer = PeerPolicy(name, recording, values[number])
            results[name] = replay(recording, peer, weigher=weigher)
        for name, result in results.items():
            sums.setdefault(name, Sums()).add(path.stem, result, results["none"], life)
    return len(paths), sums


# ---- the long session


@dataclass
class LongRun:
    equivalents: float
    over: int
    largest: int
    kept: float  # share of the input read from the cache
    rereads: int
    in_view: int
    named: int  # not in the view, but the view says where it is
    lost: int
    again: int  # of the lost: the call is still there and could be made again
    milliseconds: float
    p95: float  # of these
    bare: float  # milliseconds of CPU that a bare start of Python took just after


class Asked:
    """Looks, at each planted question, whether the view answers it or says where the answer is."""

    def __init__(self, policy: Any, facts: Sequence[cache_session.Fact]) -> None:
        self.name = policy.name
        self._policy = policy
        self._facts = {fact.request: fact for fact in facts}
        self.in_view = self.named = self.lost = self.again = 0

    def send(self, turn: RecordedTurn) -> Sent:
        sent = self._policy.send(turn)
        fact = self._facts.get(turn.number)
        if fact is not None:
            self._look(fact, sent.messages)
        return sent

    def _look(self, fact: cache_session.Fact, messages: Sequence[Message]) -> None:
        shown = [str(block) for message in messages for block in message["content"]]
        if any(fact.line in words for words in shown):
            self.in_view += 1
        elif any(self._place_holds(words, fact) for words in shown):
            self.named += 1
        else:
            self.lost += 1
            asked = f"'id': '{fact.call}'"
            self.again += any(asked in words for words in shown)

    def _place_holds(self, words: str, fact: cache_session.Fact) -> bool:
        """Whether the place that the view names gives the fact back; a peer is taken at its word."""
        if not isinstance(self._policy, LaminaPolicy):
            return HISTORY in words or LARGE + fact.call in words
        if fact.call not in words and SUMMARY not in words[:60]:
            return False
        for name in re.findall(r"(?:#|Expand )([0-9a-f]{8})", words):
            try:
                if fact.line in expand(self._policy.ledger().projection, name):
                    return True
            except LaminaError:
                continue
        files = re.findall(r"\S+/tool-results/\S+?\.txt", words)
        return any(fact.line in Path(file).read_text("utf-8") for file in files)


def long_session(config: Config, python: str | None, *, even: bool) -> dict[str, LongRun]:
    made = cache_session.make(even=even)
    weigher = Weigher(made.recording, cache_session.SCALES)
    runs: dict[str, LongRun] = {}
    with lamina_policy(weigher, config) as policy:
        runs["lamina"] = asked_run(policy, made, weigher, policy.seconds)
    with open_policy("none", weigher, config) as none:
        runs["nothing"] = asked_run(none, made, weigher, [0.0])
    pythons = dict.fromkeys(PEERS, python) | {OPENHANDS: apart_python("openhands")}
    for asked, own in pythons.items():
        name = asked.partition(" ")[0]
        if own is None:
            print(f"cache: {name} can't be installed here and is left out")
            continue
        [value] = sent_by(asked, [made.recording], own)
        peer = PeerPolicy(name, made.recording, value)
        runs[name] = asked_run(peer, made, weigher, peer.seconds)
    return runs


def asked_run(
    policy: ContextPolicy, made: cache_session.LongSession, weigher: Weigher, seconds: list[float]
) -> LongRun:
    asked = Asked(policy, made.facts)
    result = replay(made.recording, asked, weigher=weigher)
    usage = result.usage
    return LongRun(
        paid(result),
        result.overflows,
        result.max_context,
        usage.cache_read / usage.prompt,
        len(result.rereads),
        asked.in_view,
        asked.named,
        asked.lost,
        asked.again,
        1000 * statistics.mean(seconds),
        1000 * p95(seconds),
        1000 * statistics.median(cpu_of(BARE, b"", dict(environ)) for _ in range(10)),
    )


BARE_MS = 15  # on the machine for which the goal was set
UNSEEN = (103, 105, 106, 107)  # never looked at while layer 2 was tuned
TUNING = (
    "## How far to trust this\n\n"
    "Worn results are dropped out of what a session has saved so far (`docs/decisions/"
    "cache-account.md`). Some fifteen forms of that rule were tried, and the bill of each was looked "
    "at on long sessions (seeds 7, 101, 104) and on these 34 real ones; this one is dearer than "
    "nothing least often. The odds that a break must have are round figures; of those with savings "
    "four in five were better than two in three on both. `worn_keep` 2 was chosen on seeds 7 and 102 with either size of results and on the 53 sessions that choose (3 before: the same bill there); the quarter that is reckoned to come back is from an earlier tuning on "
    "the long session (seed 7) and these 34 sessions. Which file leaves a message that is too long was decided on "
    "these sessions too (`docs/decisions/message-limit.md`). So those figures are not a blind test; the "
    "unseen seeds below are one of the long session. On 45 other recordings (SWE-agent, "
    "mini-swe-agent, tau-bench; short, without pauses) no break was made under either cache lifetime "
    "and none is dearer. The size of results (few large ones) is our choice too; with even sizes "
    "the OpenAI trimmer is about as cheap, though it loses facts. OpenHands' "
    "condenser (`openhands-sdk`, in an environment with Python 3.12) runs at 85,000 tokens by its own "
    "count: at 120,000 and 170,000 it costs 6.44 and 7.84 M and, with what had to be fetched back, "
    "goes over the window. What peers fetched back stands in their prompts, as it does in ours; they "
    "were recorded without knowing of it, so that theirs can grow larger than they meant.\n"
)


def unseen_seeds(config: Config) -> list[float]:
    """Token-equivalents of Lamina on long sessions that no setting was chosen by."""
    found: list[float] = []
    for seed in UNSEEN:
        made = cache_session.make(seed=seed)
        weigher = Weigher(made.recording, cache_session.SCALES)
        with lamina_policy(weigher, config) as policy:
            found.append(paid(replay(made.recording, policy, weigher=weigher)))
    return found


def unseen_lines(found: list[float]) -> list[str]:
    told = ", ".join(f"{value:.2f}" for value in found)
    words = f"Long sessions of {len(found)} seeds on which nothing was chosen: {told} M."
    return [TUNING, words, ""]


# ---- speed


def speed(config: Config, python: str | None) -> tuple[float, float]:
    """p95 in milliseconds of layers 1, 2 and the guard over the last 100 turns of a session with 1,000
    messages and 400 results, and LangChain's middleware on the same messages."""
    messages = short_messages()
    with (
        tempfile.TemporaryDirectory() as folder,
        lamina_policy(Weigher(Recording("", "", (), ())), config) as policy,
    ):
        own = [own_speed(policy, Path(folder) / str(n), messages) for n in range(5)]
    other = 0.0
    if python:
        held = [RecordedMessage(m, i - 1, i + 1, float(i)) for i, m in enumerate(messages)]
        asks = [
            RecordedRequest(float(i), i, i + 1)
            for i in range(len(held) - 200, len(held) - 1)
            if messages[i]["role"] == "user"
        ]
        [value] = sent_by("langchain_clear", [Recording("", "", held, asks)], python)
        other = 1000 * p95(value["seconds"])
    return statistics.median(own), other


def short_messages() -> list[Message]:
    """A question, four tool rounds and an answer, a hundred times."""
    messages: list[Message] = []
    for number in range(100):
        messages.append({"role": "user", "content": [text(f"question {number} " * 10)]})
        for part in range(4):
            name = f"toolu_{number}_{part}"
            call = tool_use(name, "Bash", {"command": f"make {number}.{part}"})
            messages.append({"role": "assistant", "content": [text("next"), call]})
            words = f"line of output {number}.{part}\n" * 60
            messages.append({"role": "user", "content": [tool_result(name, words)]})
        messages.append({"role": "assistant", "content": [text(f"answer {number} " * 20)]})
    return messages


def own_speed(policy: LaminaPolicy, folder: Path, messages: list[Message]) -> float:
    state = policy.new_conversation(folder, cache_session.MODEL).state
    able, times = state.capabilities, []
    for message in messages:
        if message["role"] == "assistant":
            told = edits.answer(message["content"], Usage())
        else:
            kinds = {block["type"] for block in message["content"]}
            origin = "tool" if "tool_result" in kinds else "typed"
            told = edits.message("user", message["content"], origin, tool="Bash")
        state.ledger.append(told)
        if message["role"] == "assistant":
            continue
        began = process_time()
        tool_results.act(state)
        microcompact.act(state)
        request = state.ledger.view()
        state.guard.before(request, 0.0, able)
        response = Response([], "end_turn", Usage(10, 10, 1_000, 100))
        state.guard.after(request, response, 0.0, able)
        times.append(process_time() - began)
        state.ledger.append(edits.request(state.ledger.head, "", "main", 0, 0))
    return 1000 * p95(times[-100:])


# ---- reporting


def main() -> int:
    python = peer_python()
    figures: list[Figure] = []
    lines = ["# The prompt cache: what the layers save", ""]
    with tempfile.TemporaryDirectory() as folder:
        config = load(Path(folder), home=Path(folder) / "home", env={})
        milliseconds, other = speed(config, python)
        figures += speed_figures(milliseconds, other)
        for even in (False, True):
            runs = long_session(config, python, even=even)
            figures += long_figures(runs, even=even)
            lines += long_lines(runs, even=even)
        unseen = unseen_seeds(config)
        figures.append(at_most("long session, unseen seeds: worst", max(unseen), "M", 2.3))
        if (DATA / "claude-code-sessions").is_dir():
            for uncut in (False, True):
                count, sums = real_sessions(config, python, uncut=uncut)
                figures += real_figures(count, sums, uncut=uncut)
                lines += real_lines(count, sums, uncut=uncut)
                found = cache_frontier.points(weighed(uncut=uncut)[1], Path(folder), python)
                figures += cache_frontier.figures(found, uncut=uncut)
                lines += cache_frontier.lines(found, uncut=uncut)
        else:
            print("cache: the recorded sessions are not on this machine (LAMINA_DATA)")
    lines += speed_lines(milliseconds, other)
    lines += ["", *unseen_lines(unseen)]
    path = ROOT / "bench" / "results" / "cache.md"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return report("cache", figures)


def speed_figures(milliseconds: float, other: float) -> list[Figure]:
    peers = {"langchain_clear": round(other, 2)} if other else {}
    found = [at_most("layers 1, 2 and guard, p95 a turn", milliseconds, "ms", 1.0, **peers)]
    if other:
        found.append(at_least("times faster than LangChain", other / milliseconds, "×", 20))
    return found


def long_figures(runs: dict[str, LongRun], *, even: bool) -> list[Figure]:
    own = runs["lamina"]
    others = {name: run for name, run in runs.items() if name != "lamina"}
    peers = {name: round(run.equivalents, 2) for name, run in others.items()}
    what = "long session, even results" if even else "long session"
    most = 3.0 if even else 2.3
    cost = at_most(f"{what}: token-equivalents", own.equivalents, "M", most, **peers)
    slow = {name: round(run.milliseconds, 2) for name, run in others.items() if name != "nothing"}
    gone = {name: run.lost for name, run in others.items()}
    return [
        cost,
        at_most(f"{what}: planted facts lost", own.lost, "", 0, **gone),
        at_most(f"{what}: mean time a call", own.milliseconds, "ms", 1.0, **slow),
        Figure(f"{what}: p95 a call", round(own.p95, 2), "ms"),
        at_most(
            f"{what}: p95 a call, at {BARE_MS} ms for a bare start of Python",
            own.p95 * BARE_MS / own.bare,
            "ms",
            1.0,
            bare_ms=round(own.bare, 1),
        ),
    ]


def long_lines(runs: dict[str, LongRun], *, even: bool) -> list[str]:
    shape = (
        "all results of about the same size" if even else "few large results hold most of the text"
    )
    head = (
        f"## Long session, {shape}\n\n{cache_session.REQUESTS} requests, "
        f"{cache_session.RESULT_TOKENS:,} tokens of tool results, window 200,000, "
        f"{cache_session.QUESTIONS} questions about facts of earlier results. Token-equivalents: "
        "writes at 1.25, reads at 0.1, re-reads charged. *Within reach*: not in the view, but the "
        "view names a place that gives it back (checked for Lamina by looking there; for what a "
        "summary stands for that is the summary's own reference). *Lost*: "
        "neither; in brackets how many of these calls could be made again. Peers' summaries are one "
        "fixed sentence and are not charged. Times are CPU time: the machine was busy.\n"
    )
    rows = [
        "| policy | token-equivalents | over the window | largest | from cache | facts in view | within reach | lost | ms a call |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, run in sorted(runs.items(), key=lambda item: item[1].equivalents):
        rows.append(
            f"| {name} | {run.equivalents:.2f} M | {run.over} | {run.largest:,} | {run.kept:.1%} "
            f"| {run.in_view} | {run.named} | {run.lost} ({run.again}) | {run.milliseconds:.2f} |"
        )
    return [head, *rows, ""]


def real_figures(count: int, sums: dict[str, Sums], *, uncut: bool) -> list[Figure]:
    what = "whole histories" if uncut else "as recorded"
    own, plain = sums["lamina"], sums["none"]
    others = {name: round(s.cost, 2) for name, s in sums.items() if name != "lamina"}
    cheapest = min(others.values())
    calm = 100 * own.calm_read / max(1, own.calm_prompt)
    return [
        at_most(f"{what}: money for {count} sessions", own.cost, "$", cheapest, **others),
        at_least(f"{what}: read from cache between breaks", calm, "%", 95),
        at_most(f"{what}: sessions dearer than doing nothing", len(own.dearer), "", 0),
        Figure(f"{what}: saved", round(100 * (1 - own.cost / plain.cost), 2), "%"),
    ]


def real_lines(count: int, sums: dict[str, Sums], *, uncut: bool) -> list[str]:
    what = (
        "the recorder's own compactions undone, so that every policy faces the whole history"
        if uncut
        else "as they were recorded, the recorder's own compactions included"
    )
    plain = sums["none"]
    rows = [
        f"## {count} real sessions, {what}",
        "",
        "| policy | money | against nothing | from cache | between breaks | content kept | over the window | re-reads charged | sessions dearer |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, s in sorted(sums.items(), key=lambda item: item[1].cost):
        rows.append(
            f"| {name} | ${s.cost:.2f} | {s.cost / plain.cost - 1:+.1%} | {s.read / s.prompt:.1%} "
            f"| {s.calm_read / max(1, s.calm_prompt):.1%} | {s.context / plain.context:.1%} "
            f"| {s.over} | {s.rereads} | {len(s.dearer)} |"
        )
    dearer = ", ".join(sums["lamina"].dearer) or "none"
    words = f"Dearer with Lamina than with nothing, by more than {ROUNDING:.2%}: {dearer}."
    return [*rows, "", words, ""]


def speed_lines(milliseconds: float, other: float) -> list[str]:
    beside = (
        f"; LangChain's ContextEditingMiddleware on the same messages {other:.1f} ms"
        if other
        else ""
    )
    return [
        "## Speed",
        "",
        (
            "Layers 1, 2 and the guard, p95 of the last 100 turns of a session with 1,000 messages "
            f"and 400 results, CPU time, median of 5 runs: {milliseconds:.3f} ms{beside}."
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
