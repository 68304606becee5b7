"""From rows to messages: the last step of the projection, kept up to date row by row, and the
canonical bytes that define "the same prompt".

Pure bookkeeping. Neighbouring rows of one role form a *run*. A run is cleaned of what no provider
takes (a call without its result, a result without its call, empty text, an answer before any
question), and runs are joined until roles alternate. Only runs that changed are joined again, and
snapshots handed out earlier never change. A view's hash is a chain over (role, bytes of a block)
without cache breakpoints, so growth costs only what is new.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import msgspec

from lamina.ledger.edits import Shared
from lamina.messages import Block, Json, Message, Request

if TYPE_CHECKING:
    from lamina.ledger.view import Row

_encode = msgspec.json.Encoder(order="deterministic").encode

START = b"\0" * 16
THINKING = ("thinking", "redacted_thinking")


def canonical(value: Any) -> bytes:
    """The bytes that are compared: keys in order, no spaces, no `cache_control`."""
    if isinstance(value, dict) and "cache_control" in value:
        value = {key: item for key, item in cast("Json", value).items() if key != "cache_control"}
    return _encode(value)


def link(previous: bytes, role: str, block: bytes) -> bytes:
    """The chain's next hash."""
    return blake2b(block, digest_size=16, key=previous, person=role.encode()[:16]).digest()


def flat(messages: Iterable[Message]) -> Iterator[tuple[str, Block]]:
    """(role, block) in order: what a prefix is made of."""
    for message in messages:
        role = message["role"]
        for block in message["content"]:
            yield role, block


def digest(request: Request) -> str:
    """A hash of all that the model is sent: system, tools, messages."""
    return blake2b(request_bytes(request), digest_size=16).hexdigest()


def request_bytes(request: Request) -> bytes:
    """The whole request as canonical bytes: one line for system, tools and each block."""
    lines = [
        canonical(list(request.system)),
        canonical(list(request.tools)),
        *(role.encode() + b" " + canonical(block) for role, block in flat(request.messages)),
    ]
    return b"\n".join(lines)


@dataclass(slots=True)
class Run:
    start: int  # its first row
    role: str
    content: list[Block]  # what is left after cleaning
    message: int = -1  # the message that it went into; -1: none

    def same_as(self, other: Run) -> bool:
        return (
            self.start == other.start
            and self.role == other.role
            and len(self.content) == len(other.content)
            and all(a is b for a, b in zip(self.content, other.content, strict=True))
        )


class Joiner:
    """Runs and messages over a list of rows that somebody else changes."""

    def __init__(self) -> None:
        self.open: list[str] = []  # calls that wait for their results
        self._runs: Shared[Run] = Shared()
        self._messages: Shared[Message] = Shared()
        self._seen = 0  # rows at the last update
        self._sums: Shared[tuple[int, bytes]] = Shared()  # (blocks, chain) up to each message

    def copy(self) -> Joiner:
        other = Joiner()
        other.open, other._seen = list(self.open), self._seen
        other._runs, other._messages = self._runs.copy(), self._messages.copy()
        other._sums = self._sums.copy()
        return other

    def snapshot(self) -> Shared[Message]:
        """Later changes don't reach it."""
        return self._messages.copy()

    def chain(self) -> tuple[int, bytes]:
        """Number of blocks in all messages, and the hash over (role, bytes) of each."""
        sums = self._sums
        count, value = sums[-1] if sums else (0, START)
        for message in self._messages[len(sums) :]:
            role = message["role"]
            for block in message["content"]:
                value = link(value, role, canonical(block))
                count += 1
            sums.append((count, value))
        return count, value

    def update(self, rows: Sequence[Row], changed: int) -> None:
        """Rows from `changed` on are new or different, or rows were taken away there."""
        if changed == self._seen and (self._next_run(rows) or self._more_words(rows)):
            return
        runs = self._runs
        if changed == self._seen:  # nothing but new rows: the last answer's calls may close
            base = max(0, len(runs) - 2)
        else:  # a run's content depends on its neighbours, two back
            base = max(0, bisect_right(runs, changed, key=lambda run: run.start) - 3)
        self._seen, old = len(rows), runs[base:]
        fresh = self._clean(rows, base, old[0].start if old else 0)
        pairs = enumerate(zip(old, fresh, strict=False))
        differ = (n for n, (a, b) in pairs if not a.same_as(b))
        same = next(differ, min(len(old), len(fresh)))
        if same == len(old) == len(fresh):
            return
        runs.cut(base + same)
        self._join(fresh[same:])

    def _next_run(self, rows: Sequence[Row]) -> bool:
        """Behind a run that stays as it is another one begins. False if it is not so simple."""
        last, new = self._runs[-1] if self._runs else None, rows[self._seen :]
        role = new[0].role if new else ""
        answers, calls = role == "assistant", _calls(last.content) if last is not None else []
        if last is None or not last.content or not new or role == last.role:
            return False
        if (answers and self.open) or any(row.role != role for row in new):
            return False
        blocks = [row.block for row in new]
        if answers:
            content = _clean_answer(blocks, set(), keep_open=True)
            self.open = _calls(content)
        else:
            content = _clean_question(blocks, calls)
            came = {str(b.get("tool_use_id")) for b in blocks if b.get("type") == "tool_result"}
            self.open = [call for call in calls if call not in came]
        self._join([Run(self._seen, role, content)])
        self._seen = len(rows)
        return True

    def _more_words(self, rows: Sequence[Row]) -> bool:
        """The user says more in the last message: only that grows. False if it is not so simple."""
        last = self._runs[-1] if self._runs else None
        if last is None or last.role != "user" or not last.content:
            return False
        new = rows[self._seen :]
        if any(row.role != "user" or row.block.get("type") == "tool_result" for row in new):
            return False
        self._seen = len(rows)
        fresh = [row.block for row in new if _is_words(row.block)]
        if fresh:
            before: list[Block] = self._messages[-1]["content"]
            joined = [*before, *fresh]
            content = joined if before is last.content else [*last.content, *fresh]
            self._runs[-1] = replace(last, content=content)
            self._cut(last.message)
            self._messages.append({"role": "user", "content": joined})
        return True

    def _clean(self, rows: Sequence[Row], base: int, start: int) -> list[Run]:
        """Runs from number `base`, which begins at the row `start`, made anew."""
        rows = rows[start:]
        spans = list(_spans(rows))
        before = self._runs[base - 1].content if base else []
        asked = _calls(before)
        begun = bool(before) or any(self._runs[at].content for at in range(base - 1))
        fresh: list[Run] = []
        self.open = []
        for n, (first, stop) in enumerate(spans):
            blocks = [row.block for row in rows[first:stop]]
            if rows[first].role == "assistant":
                after = spans[n + 1] if n + 1 < len(spans) else (stop, stop)
                answered = {
                    str(row.block.get("tool_use_id"))
                    for row in rows[slice(*after)]
                    if row.block.get("type") == "tool_result"
                }
                waiting = n + 2 >= len(spans)  # no answer came after: its calls may be open
                content = _clean_answer(blocks, answered, keep_open=waiting) if begun else []
                asked = _calls(content)
                if waiting:
                    self.open = [call for call in asked if call not in answered]
            else:
                content, asked = _clean_question(blocks, asked), []
            begun = begun or bool(content)
            fresh.append(Run(start + first, rows[first].role, content))
        return fresh

    def _join(self, fresh: list[Run]) -> None:
        count = self._cut_to_runs()
        for run in fresh:
            self._runs.append(run)
            if not run.content:
                continue
            if count and self._messages[count - 1]["role"] == run.role:
                joined = [*self._messages[count - 1]["content"], *run.content]
                self._cut(count - 1)
                self._messages.append({"role": run.role, "content": joined})
            else:
                self._messages.append({"role": run.role, "content": run.content})
                count += 1
            run.message = count - 1

    def _cut_to_runs(self) -> int:
        """Leave only what the kept runs gave; return the number of messages."""
        last: Run | None = None
        content: list[Block] = []
        for run in reversed(self._runs):
            if run.content:
                last = last or run
                if run.message != last.message:
                    break
                content = [*run.content, *content]
        if last is None:
            self._cut(0)
            return 0
        self._cut(last.message + 1)
        if len(self._messages[-1]["content"]) != len(content):
            self._cut(last.message)
            self._messages.append({"role": last.role, "content": content})
        return last.message + 1

    def _cut(self, count: int) -> None:
        self._messages.cut(count)
        self._sums.cut(count)


def _spans(rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    start = 0
    for _, run in groupby(rows, key=attrgetter("role")):
        stop = start + sum(1 for _ in run)
        yield start, stop
        start = stop


def _calls(blocks: Sequence[Block]) -> list[str]:
    return [str(b.get("id")) for b in blocks if b.get("type") == "tool_use"]


def _blank(block: Block) -> bool:
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def _is_words(block: Block) -> bool:
    """May it stand in a user's message beside results?"""
    return not _blank(block) and block.get("type") not in ("tool_use", *THINKING)


def _clean_answer(blocks: list[Block], answered: set[str], *, keep_open: bool) -> list[Block]:
    seen: set[str] = set()
    content: list[Block] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            continue
        if block.get("type") == "tool_use":
            name = str(block.get("id"))
            if name in seen or not (keep_open or name in answered):
                continue
            seen.add(name)
        elif _blank(block):
            continue
        content.append(block)
    # An answer of nothing but thinking is refused by providers, and thinking is never altered.
    return content if any(b.get("type") not in THINKING for b in content) else []


def _clean_question(blocks: list[Block], asked: Iterable[str]) -> list[Block]:
    """Results first, as providers demand, each for a call of the answer just before, once."""
    waiting = set(asked)
    results: list[Block] = []
    others: list[Block] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            name = str(block.get("tool_use_id"))
            if name in waiting:
                waiting.discard(name)
                results.append(block)
        elif _is_words(block):
            others.append(block)
    return results + others


# ---- where a prompt cache is marked

NEAR = 10  # blocks: a provider looks back twice as far from a breakpoint for what it has cached


def breakpoints(cached: int, stable: int, end: int, shared: int = 0) -> list[int]:
    """After how many blocks of the messages a request is marked, three places at most. `cached`: up
    to there an earlier request was marked and nothing has changed. `stable`: where the last change
    ends; marked in each request, it is still cached when the next change begins behind it. `shared`:
    up to there other forks of the same answer send the same."""
    if shared:
        wanted = {cached, shared, end}
    elif stable > cached:  # this request is the first with that change
        wanted = {cached, stable, end}
    else:
        wanted = {cached if end - cached > NEAR or not stable else stable, end}
    return sorted(place for place in wanted if 0 < place <= end)


def settled(old: Sequence[Hashable], new: Sequence[Hashable]) -> int:
    """Behind how many of the new blocks the old ones go on as they were; all, if none is left."""
    places: dict[Hashable, list[int]] = {}
    for place, key in enumerate(old):
        places.setdefault(key, []).append(place)
    at = changed = 0
    found = False
    ends = 0
    for number, key in enumerate(new, 1):
        known = places.get(key, ())
        place = bisect_left(known, at)
        if place < len(known):
            at, found, ends = known[place] + 1, True, changed
        else:
            changed = number
    return ends if found else len(new)


# State entry: for how many seconds system prompt and tools are marked (`life`), and their `tokens`.
FRAME_LIFE = "cache.frame_life"


class Marks:
    """What a conversation's requests have marked so far (F4)."""

    def __init__(self) -> None:
        self._ends = array("q")  # of earlier requests, as far as nothing before them changed
        self.stable = 0

    def copy(self) -> Marks:
        other = Marks()
        other._ends, other.stable = self._ends[:], self.stable
        return other

    def after(self, keep: int, stable: int) -> Marks:
        """The same once the prompt has changed between these two places."""
        other = Marks()
        other._ends = self._ends[: bisect_right(self._ends, keep)]
        if 0 < self.stable <= keep and self.stable not in other._ends:
            insort(other._ends, self.stable)  # also before others: the next change may take those
        other.stable = stable
        return other

    @property
    def cached(self) -> int:
        return self._ends[-1] if self._ends else 0

    def sent(self, end: int) -> None:
        """A request of so many blocks went out."""
        self.stable = min(self.stable, end) or end
        if end > self.cached:
            self._ends.append(end)


def marks_for(marks: Marks, old: Sequence[Message] | None, new: Sequence[Message]) -> Marks:
    """The marks for a request that sends `new` after one that sent `old`."""
    if old is None:
        return marks
    same = old.shared(new) if isinstance(old, Shared) else 0
    most = min(len(old), len(new))
    while same < most and old[same] is new[same]:
        same += 1
    before = [block for _, block in flat(old[same:])]
    now = [block for _, block in flat(new[same:])]
    pairs = zip(before, now, strict=False)
    parts = (n for n, (a, b) in enumerate(pairs) if a is not b and canonical(a) != canonical(b))
    keep = next(parts, min(len(before), len(now)))
    if keep == len(before):
        return marks
    start = keep + sum(len(message["content"]) for message in new[:same])
    rest = [[canonical(block) for block in blocks[keep:]] for blocks in (before, now)]
    return marks.after(start, start + settled(*rest))


def as_list(messages: Any) -> list[Message]:
    """Messages as a plain list of their own, for those who change it."""
    return [{"role": m["role"], "content": list(m["content"])} for m in messages]


# ---- what a provider would refuse


def calls_are_paired(messages: Sequence[Message]) -> list[str]:
    """Each tool_use is answered in the very next message, and each result answers one."""
    wrong: list[str] = []
    asked: list[str] = []
    for n, message in enumerate(messages):
        results = [b["tool_use_id"] for b in message["content"] if b.get("type") == "tool_result"]
        if sorted(results) != sorted(asked):
            wrong.append(f"message {n} answers {results}, but {asked} were asked")
        asked = [b["id"] for b in message["content"] if b.get("type") == "tool_use"]
        if len(set(asked)) != len(asked):
            wrong.append(f"message {n} asks twice by one id")
    if asked:
        wrong.append(f"the last message leaves {asked} open")
    return wrong


def sendable(request: Request, *, paused: bool = False) -> list[str]:
    """Why a provider would refuse this request, checked on its last messages (growth is cheap). A
    model that paused goes on from its own last word."""
    tail = request.messages[-3:] if len(request.messages) > 3 else request.messages
    if not request.messages:
        return ["there is no message"]
    start = 0 if len(request.messages) <= 3 else int(tail[0]["role"] == "user")
    part = tail[start:]
    wrong = calls_are_paired(part) if part else []
    theirs = not part or part[-1]["role"] != "user"
    return [*wrong, *(["the last word is the model's"] if theirs and not paused else [])]
