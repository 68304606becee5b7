"""`lamina sessions grep`: every line that a regular expression fits in what was said, in calls and in
tool results, of Lamina's sessions and in Claude mode also of Claude Code's transcripts. Reads session
files, block by block, and keeps the derived sketches by which most blocks are passed over unread.
"""

from __future__ import annotations

import argparse
import re
import signal
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.cli.memory_history import count
from lamina.cli.moments import add_times
from lamina.cli.options import add_verb
from lamina.cli.progress import Progress
from lamina.cli.terminal import note, one_line, out, out_json, style, width
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.messages import Json
    from lamina.recall.sketches import Sketches

_DAY = 86_400.0
_SKETCHING = 0.25  # of the time allowed: what has no sketch then gets one next time


def add_verbs(verbs: Any) -> argparse.ArgumentParser:
    grep = add_verb(verbs, "grep", "search all that was said and all tool results, newest first")
    grep.add_argument("pattern", help="a regular expression")
    grep.add_argument("-i", "--ignore-case", action="store_true", help="a and A are the same")
    grep.add_argument("-n", "--number", type=count, default=50, help="hits at most (50); 0: all")
    grep.add_argument("--seconds", type=float, default=30.0, help="at most so long (30); 0: all")
    add_times(grep)
    return grep


@dataclass(frozen=True, slots=True)
class Hit:
    """One line of text that fits."""

    session: str
    who: str
    text: str
    when: float

    def to_json(self) -> dict[str, Any]:
        when = datetime.fromtimestamp(self.when, UTC).isoformat() if self.when else ""
        return {"session": self.session, "who": self.who, "text": self.text, "when": when}


def run(args: argparse.Namespace, config: Config, files: Sequence[Path]) -> int:
    try:
        pattern = re.compile(args.pattern, re.IGNORECASE if args.ignore_case else 0)
    except re.error as error:
        raise UsageError(f"{args.pattern!r} is no regular expression: {error}.") from error
    sketches = _sketches(config, files)
    files = _with_claude(files, config, everywhere=args.all)
    search = _Search(args, pattern, files, sketches)
    hits: list[Hit] = []
    try:
        for hit in search.hits():
            if args.number and len(hits) == args.number:
                search.more = True
                break
            hits.append(hit)
            if not args.json:
                search.progress.clear()
                room = max(20, width() - 22)
                head = f"{one_line(hit.session[:8], 8)} {one_line(hit.who, 9):9} "
                out(style(head, "dim") + _around(hit.text, pattern, room))
    finally:
        search.progress.clear()
    if args.json:
        out_json([hit.to_json() for hit in hits])
    if not args.quiet:
        search.tell(len(hits))
    return 0 if hits else 1


class _Search:
    """One pass over the files."""

    def __init__(
        self,
        args: argparse.Namespace,
        pattern: re.Pattern[str],
        files: Sequence[Path],
        sketches: Sketches,
    ) -> None:
        from lamina.recall.expressions import plain_of
        from lamina.recall.sketches import Wanted

        self._pattern = pattern
        self._plain = plain_of(pattern)
        self._wanted = Wanted(self._plain)
        self._files = files
        self._sketches = sketches
        self._seconds: float = args.seconds
        self._since: float = -inf if args.since is None else args.since
        self._until: float = inf if args.until is None else args.until
        self.progress = Progress("Searching sessions", quiet=args.quiet)
        self.more = False
        self._left = 0
        self._deadline = inf

    def tell(self, found: int) -> None:
        if self._left:
            many = "1 session was" if self._left == 1 else f"{self._left} sessions were"
            note(
                f"Stopped after {self._seconds:g} s: {many} not searched to the end. `--seconds 0` does."
            )
        elif self.more:
            note("There are more: `-n 0` shows all.")
        elif not found:
            note("Nothing found.")

    def hits(self) -> Iterator[Hit]:
        start, allowed = time.monotonic(), self._seconds if self._seconds > 0 else inf
        self._deadline = start + allowed
        self._sketches.begin(self._files, start + allowed * _SKETCHING)
        sizes = [_size(file) for file in self._files]
        done, total = 0, sum(sizes)
        for number, (file, size) in enumerate(zip(self._files, sizes, strict=True)):
            try:
                for read, found in self._in_file(file):
                    yield from found
                    self.progress(done + read, total)
                    if time.monotonic() > self._deadline:
                        raise _TimeIsUp
            except _TimeIsUp:
                self._left = len(self._files) - number
                return
            done += size

    def _in_file(self, file: Path) -> Iterator[tuple[int, list[Hit]]]:
        """(bytes passed, hits) block by block."""
        try:
            # What was written last in a file is no newer than the file; a day is for odd clocks.
            if file.stat().st_mtime < self._since - _DAY:
                return
            for end, block in self._sketches.blocks(file, self._wanted):
                hits: list[Hit] = []
                if block and self._plain.may_be_in(block):
                    for line in BytesIO(block):
                        if self._plain.may_be_in(line):
                            hits += self._in_line(file, line)
                yield end, hits
        except OSError as error:
            note(f"lamina: {file} can't be read: {error.strerror}.")

    def _in_line(self, file: Path, line: bytes) -> Iterator[Hit]:
        from lamina.recall.recorded import value_of

        value = value_of(line)
        if value is None:
            return
        when, texts = _said(value)
        if when < self._since or when > self._until:
            return
        for who, text in texts:
            with _alarm(self._deadline):
                rows = [row for row in text.splitlines() if self._pattern.search(row)]
            yield from (Hit(_session(file), who, row, when) for row in rows)


class _TimeIsUp(Exception):
    """The time allowed is over."""


@contextmanager
def _alarm(until: float) -> Generator[None]:
    """Ends even one match that takes for ever: `(a+)+b` tries a line of a's in more ways than there
    are seconds. Signals reach only the main thread."""
    if until == inf or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: object) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(until - time.monotonic(), 1e-3))
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _said(value: Json) -> tuple[float, Iterator[tuple[str, str]]]:
    from lamina.cli.transcript import texts_of
    from lamina.ledger.edits import written_at
    from lamina.recall.recorded import claude_texts, claude_time

    if value.get("kind") == "message":
        return written_at(value), texts_of(value)
    return claude_time(value), claude_texts(value)


def _sketches(config: Config, files: Sequence[Path]) -> Sketches:
    """They lie beside our sessions; those of Claude Code's transcripts in our own home."""
    from lamina.ledger.places import find_project_folder
    from lamina.recall.sketches import FOLDER, Sketches

    folders = {find_project_folder(config.own_home, config.project), *(f.parent for f in files)}
    places = {folder: folder / FOLDER for folder in folders}
    if config.claude:
        places[config.home / "projects"] = config.own_home / FOLDER
    return Sketches(places)


def _with_claude(files: Sequence[Path], config: Config, *, everywhere: bool) -> list[Path]:
    """In Claude mode also Claude Code's transcripts and those of its agents, newest first."""
    if not config.claude:
        return list(files)
    from lamina.recall.recorded import claude_folders

    everything = (config.home / "projects").glob("*")
    folders = everything if everywhere else claude_folders(config.home, config.project)
    theirs = [
        file
        for folder in folders
        for pattern in ("*.jsonl", "*/subagents/*.jsonl")
        for file in folder.glob(pattern)
        if file.is_file()
    ]
    return sorted([*files, *theirs], key=_changed, reverse=True)


def _session(file: Path) -> str:
    return file.parent.parent.name if file.parent.name == "subagents" else file.stem


def _changed(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _around(text: str, pattern: re.Pattern[str], room: int) -> str:
    """A long line, cut so that the hit is in it."""
    found = pattern.search(text)
    start = max(0, (found.start() if found else 0) - room // 3)
    shown = text[start : start + 4 * room]  # more than fits: a line may be a hundred megabytes
    return one_line(("…" if start else "") + shown, room)
