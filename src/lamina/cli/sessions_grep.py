"""`lamina sessions grep`: every line that a regular expression fits in what was said, in calls and in
tool results, of Lamina's sessions and in Claude mode also of Claude Code's transcripts. Reads session
files, block by block; most are passed over unread where they can't hold a hit.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator, Sequence
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

_DAY = 86_400.0
_RESULT = b'"tool_result"'
# Letters that others fold to when case is ignored: ı İ ſ and the Kelvin sign.
_FOLDED = ("\u0131", "\u0130", "\u017f", "\u212a")


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
    files = _with_claude(files, config, everywhere=args.all)
    search = _Search(args, pattern, files)
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
                head = f"{hit.session[:8]} {hit.who:9} "
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
        self, args: argparse.Namespace, pattern: re.Pattern[str], files: Sequence[Path]
    ) -> None:
        self._pattern = pattern
        self._files = files
        self._seconds: float = args.seconds
        self._since: float = -inf if args.since is None else args.since
        self._until: float = inf if args.until is None else args.until
        literal = literal_in(pattern)
        self._literal = (literal.lower() if args.ignore_case else literal).encode()
        self._fold: bool = args.ignore_case
        self.progress = Progress("Searching sessions", quiet=args.quiet)
        self.more = False
        self._left = 0

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
        until = time.monotonic() + self._seconds if self._seconds > 0 else inf
        sizes = [_size(file) for file in self._files]
        done, total = 0, sum(sizes)
        for number, (file, size) in enumerate(zip(self._files, sizes, strict=True)):
            for read, found in self._in_file(file):
                yield from found
                self.progress(done + read, total)
                if time.monotonic() > until:
                    self._left = len(self._files) - number
                    return
            done += size

    def _in_file(self, file: Path) -> Iterator[tuple[int, list[Hit]]]:
        """(bytes read, hits) block by block."""
        from lamina.cli.transcript import results_of
        from lamina.recall.recorded import blocks

        try:
            # What was written last in a file is no newer than the file; a day is for odd clocks.
            if file.stat().st_mtime < self._since - _DAY:
                return
            moved = results_of(file).is_dir()
            for place, block in blocks(file):
                hits: list[Hit] = []
                if self._may_hold(block, moved=moved):
                    for line in BytesIO(block):
                        if self._may_hold(line, moved=moved):
                            hits += self._in_line(file, line)
                yield place + len(block), hits
        except OSError as error:
            note(f"lamina: {file} can't be read: {error.strerror}.")

    def _may_hold(self, piece: bytes, *, moved: bool) -> bool:
        """Whether a hit can be in a piece of the file; a result that was moved out of it has only
        its beginning there."""
        if not self._literal or (moved and _RESULT in piece):
            return True
        if not self._fold:
            return self._literal in piece
        return self._literal in piece.lower() or (
            not piece.isascii() and any(letter.encode() in piece for letter in _FOLDED)
        )

    def _in_line(self, file: Path, line: bytes) -> Iterator[Hit]:
        from lamina.recall.recorded import value_of

        value = value_of(line)
        if value is None:
            return
        when, texts = _said(file, value)
        if when < self._since or when > self._until:
            return
        for who, text in texts:
            for row in text.splitlines():
                if self._pattern.search(row):
                    yield Hit(_session(file), who, row, when)


def _said(file: Path, value: Json) -> tuple[float, Iterator[tuple[str, str]]]:
    from lamina.cli.transcript import results_of, texts_of
    from lamina.ledger.edits import written_at
    from lamina.recall.recorded import claude_texts, claude_time

    if value.get("kind") == "message":
        return written_at(value), texts_of(value, results_of(file))
    return claude_time(value), claude_texts(value)


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


_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
_CODE = re.compile(r"\\[xuUN0-9]")  # a character by its number
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?|[()|]|\{[\d,]*\}|[*+?]|[^\\]", re.DOTALL)


def literal_in(pattern: re.Pattern[str]) -> str:
    """The longest plain stretch that every hit must hold, "" where there is none to be sure of.

    Only letters, digits and `_.-` count: all writers of JSON leave those as they are.
    """
    stretches, depth = [""], 0
    for sign in _TOKEN.findall(pattern.pattern):
        if (sign in ("|", "(?") and depth == 0) or _CODE.fullmatch(sign):
            return ""
        if sign in ("(", "(?"):
            depth += 1
        if sign in ("*", "?") or (sign[0] == "{" and len(sign) > 1):
            stretches[-1] = stretches[-1][:-1]  # what stands before may be missing
        plain = sign[1:] if sign in ("\\.", "\\-", "\\_") else sign
        if depth == 0 and _PLAIN.fullmatch(plain) and sign != ".":
            stretches[-1] += plain
        else:
            stretches.append("")
        if sign == ")":
            depth -= 1
    return max(stretches, key=len)
