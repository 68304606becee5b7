"""The ledger of one session: entries on disk, the view over them, the rules of appending, and the
words of its entries by origin, as evidence.

Touches only its own log file (none for a branch, which lives in memory). Everything that a session
knows goes through `append`, which refuses what would break the view, writes, and only then counts.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from lamina.errors import EditRefused, LedgerError
from lamina.ledger import edits, joining, log, tokens
from lamina.ledger.edits import Places, Shared
from lamina.ledger.view import Projection
from lamina.machine import failing_as, open_private, private_folder
from lamina.messages import (
    Block,
    Json,
    Message,
    Origin,
    Purpose,
    Request,
    Usage,
    as_object,
    dicts,
    text_of,
)


class Ledger:
    def __init__(self, file: log.LogFile | None, now: Callable[[], float]) -> None:
        self.problems: Sequence[log.Problem] = ()
        self.marked = True  # False: nobody will ask what its requests have marked for the cache
        self.unsaved: list[bytes] | None = None  # lines, for whoever writes them to a file itself
        self.projection = Projection()
        self.seen = -1  # position of the last entry that the model was shown
        self._file = file
        self._now = now
        self._reset()

    def _reset(self) -> None:
        self.seen = -1
        self._ids: Places[str] = Places()  # tool calls ever made
        self._states: dict[str, _Said] = {}  # last `state` and `job` entries by name
        self._anchor = _Anchor()
        self.frame_tokens = 0  # of system prompt and tools
        self._sent: Sequence[Message] | None = None  # what the last request showed
        self._marks = joining.Marks()
        self._next: tuple[object, object, joining.Marks] | None = None  # see `_marks_for`

    # ---- opening and closing

    @classmethod
    def open(cls, path: Path, *, now: Callable[[], float] = time.time) -> Ledger:
        """Open for writing: locked, read, repaired. Raises SessionBusy or LedgerError."""
        file, reading = log.LogFile.open(path)
        ledger = cls(file, now)
        for entry in reading.entries:
            ledger._take(entry)
        ledger.problems = [p for p in reading.problems if not p.known]
        if ledger.problems:
            told = ("line", "offset", "length", "reason")
            lines = ({name: getattr(one, name) for name in told} for one in ledger.problems)
            ledger.append(*({"kind": "repair", **line} for line in lines))
        return ledger

    @classmethod
    def of(cls, entries: Sequence[Json] = (), *, now: Callable[[], float] = time.time) -> Ledger:
        """In memory, from entries that were read elsewhere."""
        ledger = cls(None, now)
        for entry in entries:
            ledger._take(entry)
        return ledger

    def branch(self, *, at_answer: bool = False) -> Ledger:
        """A copy in memory that shares all entries so far; the original never sees its own.

        `at_answer`: while calls are open it ends with the answer that made them, whichever results
        came since, so that all branches of one answer are equal.
        """
        end = self._end_of_answer() if at_answer and self.open_calls else len(self.entries)
        if any(entry["kind"] in ("edit", "frame") for entry in self.entries[end:]):
            return Ledger.of(self.entries[:end], now=self._now)  # a tool changed the view
        other = Ledger(None, self._now)
        other.projection = self.projection.branch(end)
        other.seen, other._ids = self.seen, self._ids.branch(end)
        said = ((name, one.until(end)) for name, one in self._states.items())
        other._states = {name: one for name, one in said if one is not None}
        other._anchor, other.frame_tokens = replace(self._anchor), self.frame_tokens
        other._sent, other._marks = self._sent, self._marks.copy()
        return other

    def kept_in(self, path: Path) -> Ledger:
        """This branch, with what is in the file taken, and what comes written to it."""
        self._file, reading = log.LogFile.open(path)
        for entry in reading.entries:
            self._take(entry)
        return self

    @property
    def answer_head(self) -> str | None:
        """The last entry of a branch `at_answer`, without making one."""
        end = self._end_of_answer() if self.open_calls else len(self.entries)
        return str(self.entries[end - 1]["uuid"]) if end else None

    def _end_of_answer(self) -> int:
        for at in range(len(self.entries) - 1, -1, -1):
            if self.entries[at].get("role") == "assistant":
                return at + 1
        return len(self.entries)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    # ---- reading

    @property
    def entries(self) -> Shared[Json]:
        return self.projection.entries

    @property
    def head(self) -> str | None:
        return self.projection.head

    @property
    def open_calls(self) -> list[str]:
        """Tool calls without a result: such a ledger is not sendable."""
        return self.projection.open

    def messages(self) -> Iterator[tuple[int, Json]]:
        """(position, entry) of all messages ever recorded."""
        for at, entry in enumerate(self.entries):
            if entry["kind"] == "message":
                yield at, entry

    def state(self, name: str, default: Any = None) -> Any:
        said = self._states.get("state:" + name)
        return default if said is None else said.entry.get("value", default)

    def job(self, name: str) -> Json | None:
        """The last entry of a background job."""
        said = self._states.get("job:" + name)
        return None if said is None else said.entry

    @property
    def called(self) -> bool:
        """Was any tool ever called?"""
        return bool(self._ids)

    def knows_call(self, id_: str) -> bool:
        return id_ in self._ids

    def view(self, purpose: Purpose = "main") -> Request:
        """What the model would be sent now. Cost: what was added since the last view."""
        frame = self.projection.frame or {}
        messages = self.projection.messages
        marks = self._marks_for(messages)
        return Request(
            system=frame.get("system") or [],
            tools=frame.get("tools") or [],
            messages=messages,
            model=str(frame.get("model") or ""),
            params=frame.get("params") or {},
            purpose=purpose,
            cached_blocks=marks.cached,
            stable_blocks=marks.stable if purpose == "main" else 0,  # a fork changes nothing later
            frame_ttl=int(as_object(self.state(joining.FRAME_LIFE)).get("life") or 0),
        )

    def fingerprint(self) -> tuple[int, str]:
        """Blocks in the view, and a hash of all that the model is sent."""
        blocks, chain = self.projection.chain()
        frame = self.projection.frame or {}
        head = joining.canonical([frame.get("system") or [], frame.get("tools") or []])
        return blocks, joining.link(chain, "frame", head).hex()

    def tokens(self) -> int:
        """Size of the view (F2): the last answer's usage, plus what came, less what went since."""
        return self._anchor.count(self.projection.tokens + self.frame_tokens)

    # ---- appending

    def append(self, *entries: Json) -> list[Json]:
        """Write entries together; return them stamped. All are acknowledged, or none is kept."""
        start, lines, taken = len(self.entries), list[bytes](), list[Json]()
        try:
            for value in entries:
                line = log.encode(self._stamped(value))
                if len(line) > log.MAX_LINE:
                    raise LedgerError(
                        f"An entry of {len(line)} bytes is too long for the session file; "
                        f"the limit is {log.MAX_LINE}."
                    )
                entry = log.decode(line)  # what a later open will read, to the byte
                self._check(entry)
                self._take(entry)
                lines.append(line)
                taken.append(entry)
            if self._file is not None:
                self._file.write(b"\n".join(lines) + b"\n")
            elif self.unsaved is not None:
                self.unsaved += lines
        except BaseException:
            self._roll_back(start)
            raise
        return taken

    def _stamped(self, value: Json) -> Json:
        stamped: Json = {
            "kind": value["kind"],
            "uuid": value.get("uuid") or _new_id(),
            "parentUuid": self.head,
            "ts": _stamp(self._now()),
        }
        return {**stamped, **value, **stamped}

    def _check(self, entry: Json) -> None:
        if entry["uuid"] in self.projection.position:
            raise EditRefused(f"The session has an entry {entry['uuid']} already.")
        if entry["kind"] == "message":
            self._check_message(entry)
        elif entry["kind"] == "edit":
            self._check_edit(entry)

    def _check_message(self, entry: Json) -> None:
        waiting = set(self.open_calls)
        kinds = [block.get("type") for block in entry["content"]]
        if entry["role"] == "assistant":
            if waiting:
                raise EditRefused("An answer can't follow while tool calls wait for their results.")
            for block in entry["content"]:
                if block.get("type") == "tool_use" and block.get("id") in self._ids:
                    raise EditRefused(f"The tool call {block.get('id')} was made before.")
            return
        for block in entry["content"]:
            if block.get("type") == "tool_result":
                if block.get("tool_use_id") not in waiting:
                    raise EditRefused(
                        f"No tool call {block.get('tool_use_id')} waits for a result."
                    )
                waiting.discard(block["tool_use_id"])
        if waiting and any(kind != "tool_result" for kind in kinds):
            raise EditRefused("A message can't follow while tool calls wait for their results.")

    def _check_edit(self, edit: Json) -> None:
        if reason := self.projection.why_not(edit):
            raise EditRefused(f"The edit of {edit.get('layer')} is refused: {reason}.")
        if not edit.get("changesPrefix") and self.projection.earliest(edit) <= self.seen:
            raise EditRefused(
                f"The edit of {edit.get('layer')} changes what the model has seen, unannounced."
            )

    def _take(self, entry: Json) -> None:
        """Count an entry that is (or is about to be) on disk."""
        before = self.projection.tokens
        self.projection.add(entry)
        kind = entry["kind"]
        if kind == "message":
            for block in dicts(entry.get("content")):
                if block.get("type") == "tool_use":
                    self._ids.add(str(block.get("id")), len(self.entries) - 1)
            now = self.projection.tokens
            self._anchor.message(entry, now - before, now + self.frame_tokens)
        elif kind == "frame":
            measured = entry.get("tokens")
            self.frame_tokens = (
                measured
                if isinstance(measured, int)
                else tokens.of_frame(entry.get("system") or [], entry.get("tools") or [])
            )
        elif kind == "request":
            self._take_request(entry)
        elif kind in ("state", "job"):
            name, at = f"{kind}:{entry.get('name')}", len(self.entries) - 1
            self._states[name] = _Said(entry, at, self._states.get(name))

    def _take_request(self, entry: Json) -> None:
        if entry.get("purpose") not in ("main", "agent"):
            return
        self.seen = max(self.seen, self.projection.position.get(str(entry.get("head")), -1))
        if not self.marked:
            return
        messages = self.projection.messages
        self._marks = self._marks_for(messages)
        self._marks.sent(int(entry.get("blocks") or 0))
        self._sent = messages

    def _marks_for(self, messages: Shared[Message]) -> joining.Marks:
        """For a request that shows these. It is first looked at, then sent: worked out once."""
        known = self._next
        if known is None or known[0] is not messages or known[1] is not self._sent:
            marks = joining.marks_for(self._marks, self._sent, messages)
            known = self._next = (messages, self._sent, marks)
        return known[2]

    def _roll_back(self, length: int) -> None:
        """Forget entries that never reached the disk."""
        kept = self.entries[:length]
        if len(kept) == len(self.entries):
            return
        self.projection = Projection()
        self._reset()
        for entry in kept:
            self._take(entry)


class _Said(NamedTuple):
    """A `state` or `job` entry, and the one of its name before it."""

    entry: Json
    at: int
    before: _Said | None

    def until(self, end: int) -> _Said | None:
        """The last of its name before `end`."""
        found: _Said | None = self
        while found is not None and found.at >= end:
            found = found.before
        return found


@dataclass(slots=True)
class _Anchor:
    """The last answer's usage, and our own estimate of the view at that moment."""

    usage: int = 0
    estimate: int = 0
    id: str = ""

    def message(self, entry: Json, added: int, estimate: int) -> None:
        if entry.get("role") != "assistant":
            return
        if (
            self.id and entry.get("id") == self.id
        ):  # a further record of the same answer: its tokens are in that usage already
            self.estimate += added
            return
        used = Usage.from_json(as_object(entry.get("usage")))
        if used.prompt:  # some servers tell only what they wrote
            self.usage, self.estimate, self.id = used.total, estimate, str(entry.get("id") or "")

    def count(self, estimate: int) -> int:
        """Added tokens count as estimated; removed ones by what they really weighed then."""
        if not self.usage:
            return estimate
        change = estimate - self.estimate
        if change < 0:
            ratio = self.usage / max(1, self.estimate)
            change = round(change * min(max(ratio, 1.0), 4.0))
        return max(0, self.usage + change)


def _new_id() -> str:
    """A random UUID (version 4), three times faster than by the uuid module."""
    hexed = os.urandom(16).hex()
    variant = "89ab"[int(hexed[16], 16) & 3]
    return f"{hexed[:8]}-{hexed[8:12]}-4{hexed[13:16]}-{variant}{hexed[17:20]}-{hexed[20:]}"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _stamp(now: float) -> str:
    seconds, milliseconds = divmod(int(now * 1000), 1000)
    return f"{_second(seconds)}.{milliseconds:03}Z"


def fork_file(source: Path, target: Path) -> None:
    """Copy a session's record to a new one; a torn last line is repaired when that is opened."""
    with failing_as(LedgerError, f"Can't copy the session {source.stem} to {target}"):
        private_folder(target.parent)
        with source.open("rb") as old, open(target, "xb", opener=open_private) as new:
            shutil.copyfileobj(old, new, 1024 * 1024)


Said = tuple[tuple[Origin, str], ...]
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class Quotes:
    """Looks entries up; `origin_text` and `before` are what the gate asks for."""

    def __init__(self, folder: Path, session: str = "", live: Ledger | None = None) -> None:
        self._folder = folder
        self._session = session
        self._live = live
        self._read: Callable[[Path, int, int], Sequence[Json]] = lru_cache(maxsize=4)(_recorded)

    def origin_text(self, session: str, entry: str) -> Said:
        entries, at = self._find(session, entry)
        return blocks_of_entry(entries[at]) if at >= 0 else ()

    def before(self, session: str, entry: str) -> Said:
        entries, at = self._find(session, entry)
        return tuple(block for one in entries[: max(at, 0)] for block in blocks_of_entry(one))

    def whole(self, session: str) -> Said:
        entries, _ = self._find(session, "")
        return tuple(block for one in entries for block in blocks_of_entry(one))

    def when(self, session: str, entry: str) -> str:
        """The time of an entry as it was recorded; "" for one that nobody has."""
        entries, at = self._find(session, entry)
        return str(entries[at].get("ts") or "") if at >= 0 else ""

    def said_at(self, session: str, entry: str) -> float:
        """The same in seconds; 0.0 if nobody knows."""
        return edits.written_at({"ts": self.when(session, entry)})

    def _find(self, session: str, entry: str) -> tuple[Sequence[Json], int]:
        if self._live is not None and session == self._session:
            return self._live.entries, self._live.projection.position.get(entry, -1)
        entries = self._recorded(session)
        return entries, next((n for n, one in enumerate(entries) if one.get("uuid") == entry), -1)

    def _recorded(self, session: str) -> Sequence[Json]:
        path = self._folder / f"{session}.jsonl"
        # `hooks/NAME`: another agent's session, as far as our hooks saw what was typed there.
        name = session.removeprefix("hooks/")
        if not _SESSION_ID.fullmatch(name) or not path.is_file():
            return ()
        now = path.stat()  # a session that another process records grows meanwhile
        return self._read(path, now.st_size, now.st_mtime_ns)


def _recorded(path: Path, _size: int, _changed: int) -> Sequence[Json]:
    return log.read(path).entries


def blocks_of_entry(entry: Json) -> Said:
    """Origin and text of each block of a message that says something."""
    if entry.get("kind") != "message":
        return ()
    content = cast("list[Block]", entry.get("content") or [])
    origins = cast("list[Origin]", entry.get("origins") or [])
    said: list[tuple[Origin, str]] = []
    for block, origin in zip(content, origins, strict=False):
        words = text_in(block)
        if words.strip():
            said.append(("tool" if block.get("type") == "tool_result" else origin, words))
    return tuple(said)


def text_in(block: Block) -> str:
    """Of a text or a result; other blocks have none."""
    if block.get("type") == "text":
        return str(block.get("text") or "")
    content = block.get("content") if block.get("type") == "tool_result" else ""
    return content if isinstance(content, str) else text_of(dicts(content))
