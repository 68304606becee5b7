"""Recorded sessions, Lamina's own with what their agents said, and Claude Code's: their lines, who said
what in them and when, and the index by which that is searched. Reads session files, passing over what it
can't understand; writes the index alone, a derived file that may be deleted.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from io import BytesIO
from itertools import islice
from math import inf
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from lamina.errors import StorageError
from lamina.ledger import log
from lamina.ledger.edits import written_at
from lamina.ledger.places import slug
from lamina.ledger.record import blocks_of_entry
from lamina.memory import age_words
from lamina.messages import Json, as_object, dicts, text_of
from lamina.recall import LIKELY
from lamina.text.origins import typed_parts

if TYPE_CHECKING:
    from lamina.recall.index_files import MeaningFile
    from lamina.recall.turns import TurnIndex

# ---- lines

_BLOCK = 1 << 20


def lines(path: Path, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The lines of a file from a place on, each with its place; only the very last may lack its
    end. A line that is too long for anybody to read is left out."""
    with path.open("rb") as file:
        for place, block in _blocks(file, start):
            here = place
            for line in BytesIO(block):
                yield here, line
                here += len(line)


def _blocks(file: BinaryIO, start: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines, many at a time."""
    held: list[bytes] = []  # the beginning of a line whose end is not read yet
    size = 0
    file.seek(start)
    while piece := file.read(_BLOCK):
        first, end = piece.find(b"\n") + 1, piece.rfind(b"\n") + 1
        if not end:
            size += len(piece)
            held = [*held, piece] if size <= log.MAX_LINE else []
            continue
        if size + first <= log.MAX_LINE:
            yield start, b"".join([*held, piece[:end]])
        elif first < end:
            yield start + size + first, piece[first:end]
        start += size + end
        held, size = [piece[end:]], len(piece) - end
    if size <= log.MAX_LINE and any(held):
        yield start, b"".join(held)


def value_of(line: bytes) -> Json:
    """The object on a line; {} where there is none."""
    try:
        return as_object(log.decode(line))
    except (ValueError, RecursionError):
        return {}


# ---- who said what

_SPEAKERS = {"typed": "user", "assistant": "assistant"}


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """What somebody told somebody: who and when, in their own words."""

    uuid: str
    who: str  # user or assistant
    text: str
    when: float


_ASIDE = (
    *("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly"),
    *("sourceToolUseID", "sourceToolAssistantUUID", "planContent"),
)


def is_aside(value: Json) -> bool:
    """Did Claude Code, a task, a tool or a hook put a line there, and nobody say it?"""
    sender = as_object(value.get("origin")).get("kind", "human")
    by_itself = value.get("promptSource") == "system"
    return any(value.get(mark) for mark in _ASIDE) or sender != "human" or by_itself


def message_in(value: Json) -> TranscriptMessage | None:
    """What user or assistant said on a line; tool results, reminders and hooks are left out."""
    if value.get("kind") == "message":
        said = blocks_of_entry(value) if _is_whole(value) else ()
        who = next((_SPEAKERS[origin] for origin, _ in said if origin in _SPEAKERS), "")
        words = [text for origin, text in said if _SPEAKERS.get(origin) == who]
        when = written_at(value)
    elif value.get("type") in ("user", "assistant"):
        who = "" if is_aside(value) else str(value["type"])
        words = [text for kind, text in claude_texts(value) if kind == who]
        words = typed_parts([("typed", text) for text in words]) if who == "user" else words
        when = claude_time(value)
    else:
        return None
    text = "\n".join(words)
    if not who or not text.strip():
        return None
    return TranscriptMessage(str(value.get("uuid") or ""), who, text, when)


def _is_whole(entry: Json) -> bool:
    """Whether a message is built as one: files are edited by hand, and torn by crashes."""
    content, origins = entry.get("content"), entry.get("origins")
    of_text = isinstance(origins, list) and all(
        isinstance(one, str) for one in cast("list[Any]", origins)
    )
    return of_text and dicts(content) == content


def began_in(path: Path) -> str:
    """Where a session began; the name of its folder does not say it exactly."""
    with suppress(OSError):  # one that can't be read hides no other
        for _, line in islice(lines(path) if path.is_file() else (), 50):  # a pipe would never end
            if directory := value_of(line).get("cwd"):
                return str(directory)
    return str(path.parent)


def claude_folders(home: Path, project: Path) -> list[Path]:
    """Where Claude Code keeps a project's transcripts: by the path as given and by the real one. A
    long name ends in a hash of its own kind there."""
    folders: dict[Path, None] = {}
    for path in (project, project.resolve()):
        name = slug(path)
        plain = home / "projects" / name
        long = sorted(plain.parent.glob(f"{name[:200]}-*")) if len(name) > 200 else []
        folders.update(dict.fromkeys(folder for folder in (plain, *long) if folder.is_dir()))
    return list(folders)


def claude_time(value: Json) -> float:
    try:
        return datetime.fromisoformat(str(value.get("timestamp"))).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def claude_texts(value: Json) -> Iterator[tuple[str, str]]:
    """(who, text) of everything on a line of Claude Code's: what was said, calls and results."""
    message: Any = value.get("message")
    if value.get("type") not in ("user", "assistant") or not isinstance(message, dict):
        return
    who, content = str(value["type"]), cast("Json", message).get("content")
    if isinstance(content, str):
        yield who, content
        return
    for block in dicts(content):
        match block.get("type"):
            case "text":
                yield who, str(block.get("text") or "")
            case "tool_use":
                yield "call", json.dumps(block.get("input"), ensure_ascii=False)
            case "tool_result":
                inner: Any = block.get("content")
                text = inner if isinstance(inner, str) else text_of(dicts(inner))
                if text.startswith("<persisted-output>"):
                    # The model was shown a preview; the line often holds all of it as well.
                    told: Any = value.get("toolUseResult")
                    parts = cast("Json", told).values() if isinstance(told, dict) else [told]
                    text = max((text, *(part for part in parts if isinstance(part, str))), key=len)
                yield "result", text
            case _:
                pass


@lru_cache(64)
def agent_in(path: Path) -> str:
    """The name of the agent whose record this is; "" in that of a session."""
    with suppress(OSError):
        for value in (value_of(line) for _, line in islice(lines(path), 8)):
            if value.get("kind") == "state" and value.get("name") == log.CARD:
                return str(as_object(value.get("value")).get("name") or "")
    return ""


# ---- the index

INDEX_FILE = "sessions.index"
_LONGEST_TURN = 4_000
# Share of new turns that is worth writing the index: fewer are read again sooner. Set by hand.
_SAVED_SHARE = 0.02
_LOOK_UP = 64  # lines between two looks at the clock
# How many bytes are read, of how many; called now and then.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """One thing that was said, and how well it fits."""

    session: str
    entry: str
    who: str
    text: str
    when: float
    score: float
    confidence: float
    agent: str = ""  # its name, where an agent of that session said it


class TranscriptIndex:
    """The sessions in some folder. Their index lies there too, if no other place is given. It grows
    by what is new, newest files first; what a search has no time for waits for the next."""

    def __init__(self, folder: Path, *, without: str = "", index: Path | None = None) -> None:
        self._folder = folder
        self._index = index or folder / INDEX_FILE
        self._agents = index is None  # Claude Code marks what its own said as asides
        self._without = without  # the running session knows what was said in it
        self._indexed: _IndexedTurns | None = None
        self._meanings: MeaningFile | None = None  # with the first search
        self._lock = threading.Lock()
        self.complete = True  # did the last search know every session?
        self.unread = 0  # turns that it could only find by their words
        self.unreadable: list[Path] = []  # those that it could not read

    def search(
        self,
        query: str,
        limit: int,
        *,
        now: float,
        seconds: float = 2.0,
        since: float = -inf,
        until: float = inf,
        progress: Progress | None = None,
        meaning: Progress | None = None,
    ) -> list[FoundMessage]:
        """The turns that answer best, best first, of those said within a time. `meaning` is told of
        the turns that the model of sentences has read, where there is one."""
        from lamina.recall.index_files import MeaningFile, load
        from lamina.recall.turns import TurnIndex

        with self._lock:
            indexed = self._indexed or load(_IndexedTurns, self._index)
            indexed = self._indexed = indexed or _IndexedTurns(TurnIndex(), {})
            file = self._index.with_suffix(".meanings")
            meanings = self._meanings = self._meanings or MeaningFile(file, self._text_of)
            late = time.monotonic() + seconds
            meanings.forget(self._catch_up(indexed, late, progress))
            left = late - time.monotonic()
            known = meanings.of(indexed.turns.ids, seconds=left, progress=meaning)
            indexed.turns.meanings = known
            self.unread = 0 if known is None else len(indexed.turns) - len(known)
            matches = indexed.turns.search(
                query, limit, now=now, without=self._without, since=since, until=until
            )
        found: list[FoundMessage] = []
        for match in matches:
            record, _, place = match.id.rpartition("/")
            said = self._message_at(record, int(place))
            if said is not None:
                session, below, _ = record.partition("/")
                agent = agent_in(self._folder / f"{record}.jsonl") if below else ""
                about = session, said.uuid, said.who, said.text[:_LONGEST_TURN], said.when
                found.append(FoundMessage(*about, match.score, match.confidence, agent))
        return found

    def _text_of(self, id_: str) -> str | None:
        record, _, place = id_.rpartition("/")
        said = self._message_at(record, int(place))
        return said and said.text[:_LONGEST_TURN]

    def _message_at(self, record: str, place: int) -> TranscriptMessage | None:
        try:
            with (self._folder / f"{record}.jsonl").open("rb") as file:
                file.seek(place)
                return message_in(value_of(file.readline(log.MAX_LINE)))
        except OSError:
            return None

    def _catch_up(
        self, indexed: _IndexedTurns, until: float, progress: Progress | None
    ) -> Collection[str]:
        """Reads what is new; gives the turns of sessions that are gone, or not the same."""
        from lamina.recall.index_files import save

        files = _files(self._folder, agents=self._agents)
        lost = indexed.forget_lost(files)
        known = len(indexed.turns)
        left = {name: stat.st_size - indexed.place(name) for name, stat in files.items()}
        waiting = [session for session, size in left.items() if size > 0]
        total, done = sum(left[session] for session in waiting), 0

        def late(read: int) -> bool:
            """Told every few lines; at least a few are read, however little time there is."""
            if progress is not None:
                progress(done + read, total)
            return done + read > 0 and time.monotonic() > until

        self.complete, self.unreadable = True, []
        for session in waiting:
            start, path = indexed.place(session), self._folder / f"{session}.jsonl"
            try:
                if not indexed.read_on(session, path, files[session].st_ino, late):
                    self.complete = False
                    break
            except FileNotFoundError:
                pass  # it went meanwhile
            except OSError:
                self.unreadable.append(path)
            done += indexed.place(session) - start
        if lost or len(indexed.turns) - known > known * _SAVED_SHARE:
            with suppress(StorageError):  # the next process builds it again
                save(indexed, self._index)
        return lost


def _files(folder: Path, *, agents: bool) -> dict[str, os.stat_result]:
    """Session files and those of their agents, by their path here without its end, newest first. A pipe
    would never end, and a name that is no text (no session of ours has one) can't be kept in the
    index."""
    found: dict[str, os.stat_result] = {}
    with suppress(OSError):
        below = folder.glob("*/subagents/agent-*.jsonl") if agents else ()
        for path in (*folder.glob("*.jsonl"), *below):
            with suppress(OSError, UnicodeEncodeError):
                name = path.relative_to(folder).with_suffix("").as_posix()
                name.encode()
                stat = path.stat()
                if S_ISREG(stat.st_mode):
                    found[name] = stat
    return dict(sorted(found.items(), key=lambda one: (-one[1].st_mtime_ns, one[0])))


class _IndexedTurns:
    """The index and, by session, how far its file is read (inode, place)."""

    def __init__(self, turns: TurnIndex, read: dict[str, tuple[int, int]]) -> None:
        self.turns = turns
        self._read = read

    def place(self, session: str) -> int:
        return self._read.get(session, (0, 0))[1]

    def read_on(self, session: str, path: Path, inode: int, late: Callable[[int], bool]) -> bool:
        """Takes the lines of a file that are new; False if it got too late for all of them."""
        from lamina.recall.turns import Turn

        start = self.place(session)
        for number, (place, line) in enumerate(lines(path, start)):
            if not line.endswith(b"\n"):
                break  # still being written
            if number % _LOOK_UP == 0 and late(place - start):
                return False
            said = message_in(value_of(line))
            if said is not None:
                name, text = f"{session}/{place:012d}", said.text[:_LONGEST_TURN]
                self.turns.add(Turn(name, session, text, said.who, said.when))
            self._read[session] = (inode, place + len(line))
        return True

    def forget_lost(self, files: Mapping[str, os.stat_result]) -> Sequence[str]:
        """Drops sessions whose file went, or is not the one that was read; gives the ids of their
        turns."""
        lost = [
            session
            for session, (inode, place) in self._read.items()
            if (stat := files.get(session)) is None or stat.st_ino != inode or stat.st_size < place
        ]
        for session in lost:
            del self._read[session]
        gone = {f"{session}/" for session in lost}
        turns = [id_ for id_ in self.turns.ids if id_[: id_.rfind("/") + 1] in gone] if gone else []
        self.turns.remove_sessions(lost)
        return turns

    def to_state(self) -> dict[str, Any]:
        return {"turns": self.turns.to_state(), "read": self._read}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> _IndexedTurns:
        from lamina.recall.turns import TurnIndex

        read = {str(name): (int(a), int(b)) for name, (a, b) in state["read"].items()}
        return cls(TurnIndex.from_state(state["turns"]), read)


# ---- searching on request, for the tool Recall and the command line


def transcript_indexes(
    own: Path, claude: Sequence[Path] = (), *, without: str = ""
) -> list[TranscriptIndex]:
    """A project's sessions and, from these folders, Claude Code's transcripts, whose indexes lie
    with ours: nothing is written beside them."""
    theirs = [
        TranscriptIndex(folder, index=own / f"claude-sessions-{number}.index")
        for number, folder in enumerate(claude, 1)
    ]
    return [TranscriptIndex(own, without=without), *theirs]


def said_in(
    everywhere: Sequence[TranscriptIndex], query: str, limit: int, *, now: float, **how: Any
) -> list[FoundMessage]:
    """What was said in all of these, best first, without noise; `how` is what
    `TranscriptIndex.search` takes."""
    found = [said for index in everywhere for said in index.search(query, limit, now=now, **how)]
    likely = [said for said in found if said.confidence >= LIKELY]
    return sorted(likely, key=lambda said: -said.score)[:limit]


def headed_messages(
    everywhere: Sequence[TranscriptIndex], query: str, limit: int, now: float
) -> Iterator[tuple[str, str]]:
    """The same with a heading each, for the tool Recall."""
    for said in said_in(everywhere, query, limit, now=now):
        day = f"{datetime.fromtimestamp(said.when, UTC).astimezone():%Y-%m-%d}"
        age = age_words(said.when, now)
        who = f"its agent {said.agent}" if said.agent else said.who
        yield f"Session {said.session}, {day} ({age}), {who}:", said.text
