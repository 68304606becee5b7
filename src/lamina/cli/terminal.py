"""How the commands write, for people and for programs: styles that show only on a terminal,
recorded text made harmless, counts and times in words, tables that fit the width, text wrapped as
it streams in, a line of progress, JSON. Touches stdout and stderr.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import termios
import time
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, TextIO

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STYLED = re.compile(r"\x1b\[\d+m")
UTF_16 = b"\xff\xfe", b"\xfe\xff"  # how it begins
_NO_UTF8 = re.compile("[\udc80-\udcff]")
# Everything that could steer a terminal: C0 but tab and newline, DEL, C1.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal that shows them and the user wants them."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def style(text: str, name: str, stream: TextIO | None = None) -> str:
    """The text in a colour, where the stream (stdout by default) shows colours."""
    if not colours(stream or sys.stdout):
        return text
    return f"\x1b[{_STYLES[name]}m{text}\x1b[0m"


def harmless(text: str) -> str:
    """Recorded text for a terminal: control characters become visible instead of taking effect."""
    return _CONTROL.sub(lambda x: chr(0x2400 + ord(x[0])) if x[0] < " " else "\ufffd", text)


def letters_of(content: bytes) -> str:
    """Text from elsewhere: UTF-16 where its mark says so, else UTF-8, and Windows' own or Latin-1 where it
    is none."""
    if content.startswith(UTF_16):
        return content.decode("utf-16", "replace")
    escaped = content.decode("utf-8-sig", "surrogateescape")
    return _NO_UTF8.sub(lambda x: bytes([ord(x[0]) & 0xFF]).decode("cp1252", "replace"), escaped)


def columns(text: str) -> int:
    """How many columns of a terminal it takes: two for a wide character, none for an accent."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


@lru_cache(maxsize=4096)
def _columns_of(character: str) -> int:
    import unicodedata

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def one_line(text: str, width: int) -> str:
    """The text on one line of at most `width` columns."""
    whole = harmless(" ".join(text.split()))
    line = whole[: 4 * max(0, width) + 1]  # accents take no column, but nobody has more of them
    if line == whole and columns(line) <= width:
        return line
    while columns(line) > max(0, width - 1):
        line = line[:-1]
    return line + "…"


def width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def out(text: str = "") -> None:
    """A line of result. Recorded text in it went through `harmless` or `one_line`."""
    sys.stdout.write(_safe(text, sys.stdout) + "\n")


def stream(text: str) -> None:
    """A piece of an answer, as it comes."""
    sys.stdout.write(_safe(harmless(text), sys.stdout))
    sys.stdout.flush()


def note(text: str) -> None:
    """A remark beside the result, on stderr; where nobody reads that, nothing else fails for it."""
    with suppress(OSError, ValueError):
        sys.stderr.write(_safe(text, sys.stderr) + "\n")


def out_json(value: Any, *, pretty: bool | None = None) -> None:
    """One JSON value: on many lines for a person, on one for a pipe."""
    pretty = sys.stdout.isatty() if pretty is None else pretty
    plain = (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8"
    text = json.dumps(value, ensure_ascii=plain, indent=2 if pretty else None, default=str)
    # A lone surrogate (a file name that is not UTF-8) has no bytes of its own.
    sys.stdout.write(text.encode("utf-8", "replace").decode() + "\n")


def picked(one: object, names: str) -> dict[str, Any]:
    """Some fields of a value, for JSON."""
    return {name: getattr(one, name) for name in names.split()}


def out_bytes(content: bytes) -> None:
    """A result byte for byte."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def out_result(value: Any, words: str, *, as_json: bool) -> None:
    """A result for a program, or in words for a person."""
    out_json(value) if as_json else out(words)


def _safe(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


# ---- counts, times and diffs


def plural(count: int, one: str, many: str = "") -> str:
    """ "1 file", "2 files", "3 memories"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def moment(when: float, *, day_only: bool = False) -> str:
    """A time as all commands print it."""
    return time.strftime("%Y-%m-%d" if day_only else "%Y-%m-%d %H:%M", time.localtime(when))


def print_diff(text: str) -> None:
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in text.splitlines():
        name = "bold" if line.startswith(("+++", "---")) else colours.get(line[:1], "")
        out(style(harmless(line), name) if name else harmless(line))


def table(rows: Sequence[Sequence[str]], heading: Sequence[str] = ()) -> str:
    """Columns as wide as their longest cell."""
    return "\n".join(table_lines([heading, *rows] if heading else rows))


def table_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The same, line by line, for thousands of rows: all of them at once take much memory."""
    sizes = [[columns(_STYLED.sub("", cell)) for cell in row] for row in rows]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    for row, own in zip(rows, sizes, strict=True):
        cells = zip(row, own, widths, strict=True)
        yield "  ".join(cell + " " * (wide - size) for cell, size, wide in cells).rstrip()


GAP = 2  # columns between two cells
LEAST = 12  # columns that a name keeps while other columns can give way
SHORTEST_BAR = 6
LONGEST_BAR = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(value: float, most: float, room: int) -> str:
    """A bar whose length is the value's share of `most`, to an eighth of a character."""
    eighths = round(8 * room * value / most) if most > 0 else 0
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def fitted(
    rows: Sequence[Sequence[str]],
    heading: Sequence[str],
    room: int = 0,
    *,
    gives_way: Sequence[int] = (),
    cut: int = 0,
    right: Collection[int] = (),
    bars: Sequence[float] = (),
    bar_after: int = -1,
) -> str:
    """A table of at most `room` columns (the terminal's). Those of `gives_way` leave, the first first,
    until `cut` has room; `right` ones are flush right. `bars` are drawn behind column `bar_after` in
    what is left."""
    room = room or width()
    cells = [list(map(_plain, heading)), *(list(map(_plain, row)) for row in rows)]
    widths = [max(columns(line[at]) for line in cells) for at in range(len(heading))]
    wanted = max(SHORTEST_BAR, room // 8) + GAP if bars else 0
    kept, wide = fit(widths, room - wanted, gives_way, cut)
    left = room - GAP * len(kept) - sum(widths[at] for at in kept if at != cut) - wide
    most = min(LONGEST_BAR, left) if bars else 0
    if most < SHORTEST_BAR:
        most, wide = 0, max(1, wide + min(0, left + GAP))
    lines: list[list[str]] = []
    for number, line in enumerate(cells):
        line[cut] = one_line(line[cut], wide)
        shown: list[str] = []
        for at in kept:
            space = " " * (widths[at] - columns(line[at])) if at in right else ""
            cell = space + line[at]
            shown.append(cell if number else style(cell, "dim"))
            if at == bar_after and most:
                shown.append(bar(bars[number - 1], max(bars), most) if number else "")
        lines.append(shown)
    return table(lines)


def out_decisions(rows: Sequence[Mapping[str, str]], margin: int) -> None:
    """What the gate decides of each proposal, and why."""
    room = max(20, width() - margin)
    out(table([[row["decision"], row["path"], one_line(row["reason"], room)] for row in rows]))


def fit(
    widths: Sequence[int], room: int, gives_way: Sequence[int], cut: int
) -> tuple[list[int], int]:
    """Which columns stay, and how wide the one that may be cut is then."""
    kept = list(range(len(widths)))
    least = min(LEAST, widths[cut])
    for at in (*gives_way, -1):
        others = sum(widths[column] + GAP for column in kept if column != cut)
        if room - others >= least or at < 0:
            return kept, max(1, min(widths[cut], room - others))
        kept.remove(at)
    return kept, least


def _plain(cell: str) -> str:
    return " ".join(cell.split())


# ---- wrapping

_BULLET = re.compile(r"(?:[-*+•?]|\d{1,3}[.)])")
_FENCES = ("```", "~~~")
_CODE_INDENT = 4
_NARROWEST = 10  # columns; below that, breaking between words helps nobody


class WordWrap:
    """Takes pieces of text and gives back what can be shown; a word stands once it is whole."""

    def __init__(self, width: int, indent: int | None = None) -> None:
        self._width = width
        self._indent = indent  # of continued lines; None: like the line that is continued
        self._fenced = False
        self._begin_line()

    def _begin_line(self) -> None:
        self._column = 0
        self._margin = self._indent or 0
        self._gap = ""  # white space before the word
        self._word = ""
        self._first = True  # no word of this line stands yet
        self._as_is = self._fenced or self._width < _NARROWEST

    @property
    def at_start(self) -> bool:
        """Whether nothing stands on the line."""
        return self._first and not self._word

    def feed(self, text: str) -> str:
        return "".join(map(self._take, text))

    def end(self) -> str:
        """What was held back; the next text begins anew."""
        shown = self._place() + self._gap
        self._fenced = False
        self._begin_line()
        return shown

    def _take(self, character: str) -> str:
        if character == "\n":
            shown = self._place() + self._gap
            self._begin_line()
            return shown + "\n"
        if character in " \t":
            shown = self._place()
            self._gap += character
            return shown
        if columns(character) > 1:  # scripts without spaces break anywhere
            shown = self._place()
            self._word = character
            return shown + self._place()
        self._word += character
        return self._place() if self._as_is and not self._first else ""

    def _place(self) -> str:
        """The word that is whole now, on this line or on the next."""
        word, gap = self._word, self._gap
        if not word:
            return ""
        self._word = self._gap = ""
        if self._first:
            self._begin_with(gap, word)
        wide = columns(gap) + columns(word)
        starts = self._column <= self._margin
        if self._as_is or starts or self._column + wide <= self._width:
            self._column += wide
            return gap + word
        self._column = self._margin + columns(word)
        return "\n" + " " * self._margin + word

    def _begin_with(self, gap: str, word: str) -> None:
        """The first word says what kind of line this is."""
        self._first = False
        if self._indent is not None:  # our own lines
            return
        if word.startswith(_FENCES):
            self._fenced = not self._fenced
        code = "\t" in gap or len(gap) >= _CODE_INDENT or word.startswith(("|", *_FENCES))
        self._as_is = self._as_is or code
        margin = len(gap) + (len(word) + 1 if _BULLET.fullmatch(word) else 0)
        self._margin = margin if margin <= self._width // 2 else 0


def wrapped(text: str, width: int, indent: int | None = None) -> str:
    """The whole text, with lines of at most `width` columns where its words allow it."""
    wrap = WordWrap(width, indent)
    return wrap.feed(text) + wrap.end()


def out_wrapped(text: str, indent: int | None = None, styled: str = "") -> None:
    """A paragraph of result, broken between words."""
    shown = wrapped(text, width(), indent)
    out(style(shown, styled) if styled else shown)


class StatusLine:
    """One line on a terminal's stderr about work that takes longer than a moment."""

    def __init__(self, *, quiet: bool = False, patience: float = 1.0) -> None:
        on = not quiet and sys.stderr.isatty()
        self._next: float | None = time.monotonic() + patience if on else None
        self._shown = False

    def say(self, text: str, *, now: bool = False) -> None:
        """Show this instead; `now` does not wait until the work has taken a moment."""
        if self._next is None or (time.monotonic() < self._next and not now):
            return
        self._shown = True
        self._write("\r\x1b[K" + one_line(text, width() - 1))  # a second line would stay

    def clear(self) -> None:
        """Take the line away, before a result is printed and at the end."""
        if self._shown:
            self._shown = False
            self._write("\r\x1b[K")

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(_safe(text, sys.stderr))
        sys.stderr.flush()


class Progress(StatusLine):
    """A status line in bytes done and bytes in all; called as often as the work likes."""

    def __init__(self, doing: str, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._doing = doing

    def __call__(self, done: int, total: int) -> None:
        if self._next is not None and time.monotonic() >= self._next:
            share = f"{done / 1e6:.0f} of {max(done, total) / 1e6:.0f} MB"
            self.say(f"{self._doing}: {share} (Ctrl-C stops)")
            self._next = time.monotonic() + 0.2


# ---- the terminal itself


@contextmanager
def given_back() -> Generator[None]:
    """Whoever is stopped (Ctrl-Z) or ended inside gives the terminal back as it was."""
    from prompt_toolkit.application import get_app_session

    session, terminal = get_app_session(), sys.stdin.fileno()
    as_it_was = termios.tcgetattr(terminal)

    def give_back(number: int, _: object) -> None:
        now = termios.tcgetattr(terminal)
        if session.app is not None:
            session.app.renderer.erase()
        termios.tcsetattr(terminal, termios.TCSANOW, as_it_was)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, give_back)  # it was stopped, and goes on
        termios.tcsetattr(terminal, termios.TCSANOW, now)

    numbers = (signal.SIGTERM, signal.SIGTSTP)
    before = [(number, signal.signal(number, give_back)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def unread(terminal: int) -> bytes:
    """All that waits in the terminal, also a line that has not been ended."""
    if not os.isatty(terminal):
        return b""
    as_it_was = termios.tcgetattr(terminal)
    at_once = [*as_it_was[:3], as_it_was[3] & ~termios.ICANON, *as_it_was[4:6], [*as_it_was[6]]]
    at_once[6][termios.VMIN] = at_once[6][termios.VTIME] = 0
    termios.tcsetattr(terminal, termios.TCSANOW, at_once)
    try:
        found = b""
        while more := os.read(terminal, 65_536):
            found += more
        return found.replace(b"\0", b"\x04")  # what Linux makes of Ctrl-D while nobody reads
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, as_it_was)
