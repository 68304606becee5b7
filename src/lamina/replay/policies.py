"""The policies that `lamina replay` knows by name: Lamina's own, sending everything, and two plain ways
that agents commonly use, for comparison. Touches nothing; `lamina` has a temporary folder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from lamina import prompts
from lamina.config import Config
from lamina.errors import UsageError
from lamina.messages import Block, Json, Message, Purpose
from lamina.ports import ForkResult
from lamina.replay.recording import Recording
from lamina.replay.results import Action, Fork, PolicyResult, ReplayResult, result_of
from lamina.replay.run import DEFAULT_WINDOW, ContextPolicy, NonePolicy, RecordedTurn, Sent, replay
from lamina.replay.weigh import Weigher, piece_of

# What each does, as the report's reader is told.
NAMES = {
    "recorded": "what the tool did",
    "none": "everything is sent",
    "lamina": "its layers at work",
    "clear-oldest": "old results are emptied",
    "drop-oldest": "old messages are left out",
}
PLACEHOLDER = "[cleared]"
KEPT_RESULTS = 3
FULL = 0.85  # share of the window that a trimmed prompt may fill


@contextmanager
def open_policy(
    name: str, weigher: Weigher, config: Config, *, window: int = DEFAULT_WINDOW, model: str = ""
) -> Generator[ContextPolicy]:
    """The policy of that name, made for one recording."""
    if name == "lamina":
        from lamina.replay.lamina_policy import lamina_policy

        with lamina_policy(weigher, config, window=window, model=model) as policy:
            yield policy
    elif name == "none":
        yield NonePolicy()
    elif name == "recorded":
        yield RecordedPolicy(weigher.recording)
    elif name == "clear-oldest":
        yield ClearOldest()
    elif name == "drop-oldest":
        yield DropOldest(weigher, window)
    else:
        raise UsageError(f"There is no policy {name!r}; there are {', '.join(NAMES)}.")


def replayed(
    names: Iterable[str],
    recording: Recording,
    config: Config,
    *,
    window: int = DEFAULT_WINDOW,
    model: str = "",
    uncut: bool = False,
) -> ReplayResult:
    """A recording under each of these policies; `uncut`: without its own compactions, but for what the
    tool did. `names` is asked for the next one when the last is done."""
    as_recorded = Weigher(recording)
    whole = as_recorded.uncut() if uncut else as_recorded
    limits: Json = {"window": window, "model": model}
    done: list[PolicyResult] = []
    for name in names:
        weigher = as_recorded if name == "recorded" else whole
        with open_policy(name, weigher, config, **limits) as policy:
            more: Json = {**limits, "weigher": weigher, "prices": config.table("prices")}
            done.append(replay(weigher.recording, policy, **more))
    return result_of(recording, done)


class RecordedPolicy(NonePolicy):
    """What the recorder itself did: its compactions, and the call that each of them took."""

    name = "recorded"

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._times = {id(m.message): m.time for m in recording.messages if m.summary}

    def send(self, turn: RecordedTurn) -> Sent:
        sent = super().send(turn)
        if not turn.compacted:
            return sent
        summary = sum(piece_of(block).size for block in sent.messages[0]["content"])
        asked = len(prompts.load("summary", instructions="").encode())  # as long as ours
        at = self._times.get(id(sent.messages[0]), turn.request.time)
        forks = [Fork("summary", asked, (summary,), at)]
        return replace(sent, forks=forks)


class PaperForks:
    """Stands where a session has its forks: takes down what each would be asked and when, and
    refuses, so that the layer does its work by rules. What the work comes to is then what a model
    would have written."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._taken: list[Fork] = []

    async def __call__(
        self, directive: str, *, purpose: Purpose, ends_with: Collection[str] = (), **_: Any
    ) -> ForkResult:
        asked, new = len(directive.encode()), purpose == "summary"
        closing = () if ends_with or new else (0,)  # the call that says that all is done
        self._taken.append(Fork(purpose, asked, (0, *closing), self._now(), sees_new=new))
        return ForkResult("", "refused", error="a replay asks no model")

    def add(self, fork: Fork) -> None:
        self._taken.append(fork)

    def asked(self, purpose: str) -> bool:
        return any(fork.purpose == purpose for fork in self._taken)

    def wrote(self, purpose: str, size: int) -> None:
        """How many bytes the first call of forks for this purpose would have written."""
        for at, fork in enumerate(self._taken):
            if fork.purpose == purpose:
                self._taken[at] = replace(fork, outputs=(size, *fork.outputs[1:]))

    def take(self) -> list[Fork]:
        taken, self._taken = self._taken, []
        return sorted(taken, key=lambda fork: fork.at)


class ClearOldest:
    """Before every request, all tool results but the last few are emptied."""

    name = "clear-oldest"

    def __init__(self, keep: int = KEPT_RESULTS) -> None:
        self._keep = keep
        self._held: dict[str, list[Message]] = {}
        self._cleared: dict[int, tuple[Message, Message]] = {}  # by id of the recorded message

    def send(self, turn: RecordedTurn) -> Sent:
        held = turn.held_in(self._held)
        left, sent = self._keep, list(held)
        for at in range(len(held) - 1, -1, -1):
            count = sum(block.get("type") == "tool_result" for block in held[at]["content"])
            if count and left <= 0:
                sent[at] = self._emptied(held[at])
            left -= count
        return Sent(sent)

    def _emptied(self, message: Message) -> Message:
        known = self._cleared.get(id(message))
        if known is None:
            content = [_emptied(block) for block in message["content"]]
            known = self._cleared[id(message)] = (message, {**message, "content": content})
        return known[1]


def _emptied(block: Block) -> Block:
    return {**block, "content": PLACEHOLDER} if block.get("type") == "tool_result" else block


class DropOldest:
    """When the prompt would be too long, the oldest messages after the first are left out."""

    name = "drop-oldest"

    def __init__(self, weigher: Weigher, window: int) -> None:
        self._weigher, self._most = weigher, int(window * FULL)
        self._held: dict[str, list[Message]] = {}
        self._start: dict[str, int] = {}  # messages from 1 up to this one are left out

    def send(self, turn: RecordedTurn) -> Sent:
        thread = turn.request.thread
        held = turn.held_in(self._held)
        before = self._start.get(thread, 1)
        if turn.keep < before:
            before = 1  # the recorder went back behind what is left out: nothing of that is there
        total = sum(tokens for _, tokens in self._weigher.at(turn.number)) + sum(
            self._weigher.tokens(message) for message in (*held[:1], *held[before:])
        )
        start, saved = before, 0
        while total - saved > self._most and (after := _next_answer(held, start)):
            saved += sum(map(self._weigher.tokens, held[start:after]))
            start = after
        self._start[thread] = start
        what = f"{start - before} oldest messages left out"
        actions = [Action("dropped", what, saved)] if saved else []
        return Sent([*held[:1], *held[start:]], actions)


def _next_answer(held: list[Message], start: int) -> int:
    """Where the next answer begins: a cut there parts no call from its result. 0: nowhere."""
    after = range(start + 1, len(held))
    return next((at for at in after if held[at]["role"] == "assistant"), 0)
