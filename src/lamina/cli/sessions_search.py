"""`lamina sessions grep | search`: what was said in Lamina's sessions and in those of other coding
agents here. `grep` prints every line that a regular expression matches, tool calls
and results included: ripgrep finds the entries that may hold one, and Python's own expression
decides. `search` ranks by meaning and keeps its derived index up to date. Nothing else is written.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from stat import S_ISREG
from typing import Any

from lamina.agents.roster import agent_ledgers
from lamina.cli.options import add_times, add_verb, count, flag
from lamina.cli.terminal import Progress, moment, note, one_line, out, out_json, style, width
from lamina.cli.transcript import texts_of
from lamina.config import Config
from lamina.errors import UsageError
from lamina.ledger import log
from lamina.ledger.edits import written_at
from lamina.ledger.places import find_project_folder
from lamina.recall import chances, transcripts
from lamina.recall.transcripts import FoundMessage, TranscriptIndex

_DAY = 86_400.0
# What ripgrep is given at a time: 20 ms of work. When the time is up only whole batches are known to
# be searched; the names must fit on a command line.
_BATCH_BYTES = 64_000_000
_BATCH_FILES = 200
_MOST_FOUND = 1_000_000  # with `search -n 0`


def add_verbs(verbs: Any) -> Sequence[argparse.ArgumentParser]:
    """`grep` and `search`."""
    grep = add_verb(verbs, "grep", "find a regular expression in all sessions and tool results")
    grep.add_argument("pattern", help="a regular expression")
    grep.add_argument("-i", "--ignore-case", action="store_true", help="ignore case")
    grep.add_argument("-n", "--number", type=count, default=50, help="how many (50); 0: all")
    grep.add_argument(
        "--seconds", type=float, default=30.0, help="stop after this many seconds (30); 0: never"
    )
    add_times(grep)
    search = add_verb(verbs, "search", "find what was said by its meaning, best match first")
    search.add_argument("words", nargs="+", help="a question or a few words")
    search.add_argument("-n", "--number", type=count, default=10, help="how many (10); 0: all")
    search.add_argument(
        "--seconds", type=float, default=10.0, help="seconds to spend on new sessions (10)"
    )
    flag(search, "--ask", "have the small model read the best five and show what answers")
    add_times(search)
    return grep, search


@dataclass(frozen=True, slots=True)
class MatchingLine:
    """A line of text that matches, and who said it."""

    session: str
    who: str
    text: str
    when: float
    agent: str = ""  # its name, where it is an agent's record

    def to_json(self) -> dict[str, Any]:
        when = datetime.fromtimestamp(self.when, UTC).isoformat() if self.when else ""
        return {**asdict(self), "when": when}


def grep(args: argparse.Namespace, config: Config, files: Sequence[Path]) -> int:
    try:
        pattern = re.compile(args.pattern, re.IGNORECASE if args.ignore_case else 0)
    except re.error as error:
        raise UsageError(f"{args.pattern!r} is not a regular expression: {error}.") from error
    files = _with_others(files, config, everywhere=args.all, quiet=args.quiet)
    search = _Search(args, pattern, files)
    found: list[MatchingLine] = []
    try:
        with closing(search.lines()) as lines:
            for line in lines:
                if args.number and len(found) == args.number:
                    search.more = True
                    break
                found.append(line)
                if not args.json:
                    search.progress.clear()
                    room = max(20, width() - 22)
                    who = one_line(_speaker(line), 9)
                    head = f"{one_line(line.session[:8], 8)} {who:9} "
                    out(style(head, "dim") + _around(line.text, pattern, room))
    finally:
        search.progress.clear()
    if args.json:
        out_json([line.to_json() for line in found])
    if not args.quiet:
        search.tell(len(found))
    return 0 if found else 1


class _Search:
    """One pass over the files."""

    def __init__(
        self, args: argparse.Namespace, pattern: re.Pattern[str], files: Sequence[Path]
    ) -> None:
        self._pattern = pattern
        self._candidates = candidate_pattern(pattern)
        self._files = files
        self._seconds: float = args.seconds
        self._since: float = args.since
        self._until: float = args.until
        self.progress = Progress("Searching sessions", quiet=args.quiet)
        self.more = False
        self._left = 0
        self._deadline = inf

    def tell(self, found: int) -> None:
        if self._left:
            many = "1 session was" if self._left == 1 else f"{self._left} sessions were"
            stopped = f"Stopped after {self._seconds:g} s: {many} not searched to the end."
            note(f"{stopped} `--seconds 0` sets no limit.")
        elif self.more:
            note("There are more; `-n 0` shows all.")
        elif not found:
            note("Nothing found.")

    def lines(self) -> Generator[MatchingLine]:
        self._deadline = time.monotonic() + self._seconds if self._seconds > 0 else inf
        readable = self._readable()
        total, done, searched = sum(size for _, size in readable), 0, 0
        for batch in _batches(readable):
            place = {file: number for number, (file, _) in enumerate(batch)}
            reached = 0
            try:
                for file, line in self._entries([file for file, _ in batch]):
                    reached = place[file]
                    yield from self._in_entry(file, line)
                    self._check_time()
                self._check_time()
            except _TimeIsUp:
                self._left = len(readable) - searched - reached
                return
            searched += len(batch)
            done += sum(size for _, size in batch)
            self.progress(done, total)

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise _TimeIsUp

    def _readable(self) -> list[tuple[Path, int]]:
        """The files that can be searched, with their sizes."""
        found: list[tuple[Path, int]] = []
        for file in self._files:
            try:
                stat = file.stat()
                # Nothing in a file is newer than the file; the day allows for odd clocks.
                if S_ISREG(stat.st_mode) and stat.st_mtime >= self._since - _DAY:
                    file.open("rb").close()
                    found.append((file, stat.st_size))
            except OSError as error:
                note(f"lamina: {file} can't be read: {error.strerror}.")
        return found

    def _entries(self, files: Sequence[Path]) -> Iterator[tuple[Path, bytes]]:
        """The lines of these files that may hold a hit, in order."""
        from lamina.tools.grep import find_ripgrep  # its sandbox is not for `list`

        ripgrep = find_ripgrep()
        if self._candidates and ripgrep:
            works = yield from self._by_ripgrep(ripgrep, self._candidates, files)
            if works:
                return

        for file in files:
            try:
                yield from ((file, line) for _, line in transcripts.lines(file))
            except OSError as error:
                note(f"lamina: {file} can't be read: {error.strerror}.")

    def _by_ripgrep(
        self, ripgrep: str, candidates: str, files: Sequence[Path]
    ) -> Generator[tuple[Path, bytes], None, bool]:
        """The same by ripgrep; False if it failed before it found anything."""
        # One thread keeps the files in order; no encoding is guessed, and no file is called binary.
        how = "--no-config --no-messages --threads=1 --text --encoding=none --no-mmap --null"
        shown = "--with-filename --no-heading --no-line-number --color=never"
        limits = [f"--max-columns={log.MAX_LINE}", f"--regexp={candidates}", "--"]
        arguments = [ripgrep, *how.split(), *shown.split(), *limits, *files]
        nothing = subprocess.DEVNULL
        try:
            process = subprocess.Popen(
                arguments, stdin=nothing, stdout=subprocess.PIPE, stderr=nothing
            )
        except OSError:
            return False
        allowed = min(max(self._deadline - time.monotonic(), 0.0), threading.TIMEOUT_MAX)
        alarm = threading.Timer(allowed, process.kill)
        alarm.daemon = True
        alarm.start()
        try:
            held, found = b"", False
            for piece in process.stdout or ():
                held += piece
                name, named, line = held.partition(b"\0")
                if not named:
                    continue  # a file name with a newline in it
                held, found = b"", True
                yield Path(os.fsdecode(name)), line
            failed = process.wait() == 2
            if failed and found:
                note("lamina: some sessions changed or were deleted while they were searched.")
            return found or not failed
        finally:
            alarm.cancel()
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()

    def _in_entry(self, file: Path, line: bytes) -> Iterator[MatchingLine]:
        value = transcripts.value_of(line)
        if value.get("kind") == "message":
            when, texts = written_at(value), texts_of(value)
        else:
            when, texts = transcripts.claude_time(value), transcripts.claude_texts(value)
        if when < self._since or when > self._until:
            return
        for who, text in texts:
            with _alarm(self._deadline):
                rows = [row for row in text.splitlines() if self._pattern.search(row)]
            below = bool(rows) and file.parent.name == "subagents"
            session, agent = (
                (file.parts[-3], transcripts.agent_in(file)) if below else (file.stem, "")
            )
            yield from (MatchingLine(session, who, row, when, agent) for row in rows)


class _TimeIsUp(Exception):
    """The time allowed is used up."""


@contextmanager
def _alarm(until: float) -> Generator[None]:
    """Ends even a single match that takes forever, such as `(a+)+b` on a long line of a's. Signals reach
    only the main thread."""
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


def _with_others(
    files: Sequence[Path], config: Config, *, everywhere: bool, quiet: bool
) -> list[Path]:
    """Their agents' records and other agents' sessions too, newest first; in Claude mode also those of
    Claude Code's agents."""
    from lamina.cli.sessions import changed, others

    files = [*files, *(one for file in files for one in agent_ledgers(file.with_suffix("")))]
    without = ("claude-code",) if config.claude else ()
    copied = others(config, without=without, everywhere=everywhere, quiet=quiet)
    if not config.claude:
        return sorted([*files, *copied], key=changed, reverse=True)

    everything = (config.home / "projects").glob("*")
    folders = everything if everywhere else transcripts.claude_folders(config.home, config.project)
    theirs = [
        file
        for folder in folders
        for pattern in ("*.jsonl", "*/subagents/*.jsonl")
        for file in folder.glob(pattern)
        if file.is_file()
    ]
    return sorted([*files, *copied, *theirs], key=changed, reverse=True)


def _speaker(one: MatchingLine | FoundMessage) -> str:
    """Who said it: an agent by its name."""
    return one.agent if one.agent and one.who == "assistant" else one.who


def _batches(files: Sequence[tuple[Path, int]]) -> Iterator[list[tuple[Path, int]]]:
    batch: list[tuple[Path, int]] = []
    size = 0
    for file in files:
        if batch and (size + file[1] > _BATCH_BYTES or len(batch) == _BATCH_FILES):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file[1]
    if batch:
        yield batch


def _around(text: str, pattern: re.Pattern[str], room: int) -> str:
    """A long line, cut so that the match is in it."""
    found = pattern.search(text)
    start = max(0, (found.start() if found else 0) - room // 3)
    shown = text[start : start + 4 * room]  # more than fits: a line may be a hundred megabytes
    return one_line(("…" if start else "") + shown, room)


# ---- which entries may hold a hit

_LONGEST, _MOST_WAYS = 64, 200  # ripgrep refuses expressions without bound
_PLAIN = re.compile(r"[A-Za-z0-9_.-]")
_ESCAPED_PLAIN = ("\\.", "\\-", "\\_")
_CODE = re.compile(r"\\[xuUN0-9]")  # a character by its number, or a group again
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?|[()|]|\{[\d,]*\}|[*+?]|[^\\]", re.DOTALL)
# Python writes the numbers of a call anew (1e2 as 100.0, 1e400 as Infinity): any call may hold
# them.
_NUMBER = re.compile(r"[0-9.e-]+|[infty]+", re.IGNORECASE)
_CALL = '"input"'
_ASCII_BY_NUMBER = r"\\u00[2-7]"  # we don't write that, but JSON allows it
# i, s and k also fit these when case is ignored; ripgrep knows of two of the four.
_OTHER_CASES = r"[\u0130\u0131]|\\u0(?:13[01]|17f)|\\u212a"


def candidate_pattern(pattern: re.Pattern[str]) -> str:
    """What ripgrep is to look for in the JSON of entries so that no match is missed; "" where only reading
    all of them is safe. A match of each branch must contain its longest stretch of letters, digits
    and `_.-`. Nothing else counts: how the file writes what is between two words is not known."""
    folds = bool(pattern.flags & re.IGNORECASE)
    ways: list[str] = []
    for stretches in _branches(pattern, folds=folds):
        longest = max(stretches, key=len)[:_LONGEST]
        if not longest:
            return ""
        ways.append("".join(map(_in_json, longest)))
        if _NUMBER.fullmatch(longest):
            ways.append(_CALL)
    if len(ways) > _MOST_WAYS:
        return ""
    ways += [_ASCII_BY_NUMBER, *([_OTHER_CASES] if folds else [])]
    return f"(?i:{'|'.join(ways)})" if folds else "|".join(ways)


def _in_json(letter: str) -> str:
    """A letter as it is, or by its number."""
    if letter.isascii():
        return re.escape(letter)
    return f"(?:{letter}|(?i:{re.escape(json.dumps(letter)[1:-1])}))"


def _branches(pattern: re.Pattern[str], *, folds: bool) -> list[list[str]]:
    """For each branch outside of groups its plain stretches; one empty one where none is sure."""
    if pattern.flags & re.VERBOSE or "(?#" in pattern.pattern:
        return [[""]]
    branches, depth = [[""]], 0
    for sign in _TOKEN.findall(pattern.pattern):
        stretches = branches[-1]
        if _CODE.fullmatch(sign):
            return [[""]]
        if sign in ("(", "(?"):
            depth += 1
        elif sign == "|" and depth == 0:
            branches.append([""])
            continue
        elif sign in ("*", "?") or (sign[0] == "{" and len(sign) > 1):
            stretches[-1] = stretches[-1][:-1]  # what stands before may be missing
        letter = sign[1:] if sign in _ESCAPED_PLAIN else sign
        if depth == 0 and sign != "." and _is_plain(letter, folds=folds):
            stretches[-1] += letter
        else:
            stretches.append("")
        if sign == ")":
            depth -= 1
    return branches


def _is_plain(sign: str, *, folds: bool) -> bool:
    if len(sign) != 1 or sign.isascii():
        return _PLAIN.fullmatch(sign) is not None
    return sign.isalnum() and not (folds and not sign.lower() == sign == sign.upper())


# ---- search by meaning


def search(args: argparse.Namespace, config: Config) -> None:
    from lamina.recall.scoring import question_terms  # it loads numpy: the other verbs need none

    words = " ".join(args.words)
    if not question_terms(words):
        raise UsageError(
            "There is no word in that to search for. Give a word of what was said, or look for "
            "punctuation with `lamina sessions grep`."
        )
    progress = Progress("Reading new sessions", quiet=args.quiet)

    def meaning(done: int, total: int) -> None:
        progress.say(f"Reading for meaning: {done:,} of {total:,} turns (Ctrl-C stops)")

    answers: Mapping[int, bool] | None = None
    number = args.number or _MOST_FOUND
    searched = indexes(config, everywhere=args.all)
    try:
        found = transcripts.said_in(
            searched,
            words,
            number,
            now=time.time(),
            seconds=args.seconds,
            since=args.since,
            until=args.until,
            progress=progress,
            meaning=meaning,
        )
        if args.ask and found:
            progress.say("The small model reads what was found (Ctrl-C stops)", now=True)
            with contextlib.suppress(KeyboardInterrupt):  # what was found is there
                answers = _answers(args, config, words, found)
    finally:
        progress.clear()
    _print_found(args, found, answers)
    for file in (file for past in searched for file in past.unreadable):
        note(f"lamina: {file} can't be read.")
    if not all(past.complete for past in searched) and not args.quiet:
        note("Not all sessions are in the index yet. Search again, or give more --seconds.")
    if (unread := sum(past.unread for past in searched)) and not args.quiet:
        note(
            f"{unread:,} turns are not read for meaning yet. Search again, or give more --seconds."
        )


def _answers(
    args: argparse.Namespace, config: Config, question: str, found: Sequence[FoundMessage]
) -> Mapping[int, bool] | None:
    """By place, whether it answers, as the small model reads them; None where it says nothing."""
    from lamina.wiring import read_turns

    read = read_turns(config, question, found)
    if read.answers is None and not args.quiet:
        note(f"Not read, so all are shown: {one_line(read.problem.rstrip('.'), 500)}.")
    return read.answers


def _print_found(
    args: argparse.Namespace, found: Sequence[FoundMessage], answers: Mapping[int, bool] | None
) -> None:
    rows = list(enumerate(zip(found, chances(found), strict=True)))
    if args.json:
        rounded = ("score", "confidence", "chance")
        values = [{**asdict(said), "chance": chance} for _, (said, chance) in rows]
        values = [{k: round(v, 3) if k in rounded else v for k, v in one.items()} for one in values]
        if answers is not None:
            values = [{**one, "answers": answers.get(n)} for n, one in enumerate(values)]
        out_json(values)
        return
    for place, (said, chance) in rows:
        if answers is not None and not answers.get(place):
            continue
        day = moment(said.when, day_only=True) if said.when else "undated"
        who = one_line(_speaker(said), 9)
        head = f"{chance:4.0%} {one_line(said.session[:8], 8)} {day:10} {who:9} "
        out(style(head, "dim") + one_line(said.text, max(20, width() - len(head))))
    if not found:
        note("Nothing found.")
    elif answers is not None and (near := len(found) - sum(answers.values())):
        told = "" if any(answers.values()) else "Nothing there answers that. "
        note(f"{told}Without --ask, what came near is shown too ({near}).")


def indexes(config: Config, *, everywhere: bool = False) -> list[TranscriptIndex]:
    """Lamina's own sessions, here or in all projects, and the copies of other agents'. In Claude mode
    Claude Code's own files, whose index is kept with ours."""
    from lamina.cli.sessions import others

    own = find_project_folder(config.own_home, config.project)
    claude = transcripts.claude_folders(config.home, config.project) if config.claude else ()
    without = ("claude-code",) if config.claude else ()
    folders = {file.parent for file in others(config, without=without, everywhere=everywhere)}
    if everywhere:
        folders |= {*(config.own_home / "projects").glob("*/")} - {own}
    return [*transcripts.transcript_indexes(own, claude), *map(TranscriptIndex, sorted(folders))]
