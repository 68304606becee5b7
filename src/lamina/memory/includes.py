"""Reads an instruction file's text: its frontmatter, comments, code, and the `@path`s in it. Pure."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass

MOST_BYTES = 4 * 1024 * 1024


class NotText(Exception):
    """Why a file was not read, in words for the user."""


@dataclass(frozen=True, slots=True)
class TextFile:
    path: str  # where it really lies, links resolved
    text: str
    size: int
    key: tuple[int, int]  # device and inode: the same file under any name


def read_text(path: str, most: int = MOST_BYTES) -> TextFile | None:
    """The file's text; None if there is none; `NotText` with the reason if it can't be taken."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name holds a NUL"
        raise NotText(f"it can't be opened ({reason})") from error
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            return None
        if not stat.S_ISREG(status.st_mode):
            raise NotText("it is no regular file")
        if status.st_size > most:
            raise NotText(f"it has {status.st_size:,} bytes, more than {most:,}")
        data = _read(descriptor, most)
        real = _real_path(descriptor, path)
    except OSError as error:
        raise NotText(f"it can't be read ({error.strerror})") from error
    finally:
        os.close(descriptor)
    if b"\x00" in data:
        raise NotText("it is no text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotText("it is no UTF-8 text") from error
    return TextFile(real, text, len(data), (status.st_dev, status.st_ino))


def _read(descriptor: int, most: int) -> bytes:
    parts: list[bytes] = []
    left = most
    while left > 0:
        part = os.read(descriptor, min(left, 1 << 20))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _real_path(descriptor: int, path: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        pass
    try:  # macOS
        import fcntl

        name = fcntl.fcntl(descriptor, getattr(fcntl, "F_GETPATH", 50), b"\x00" * 1024)
        return os.fsdecode(name.rstrip(b"\x00"))
    except OSError:
        return os.path.realpath(path)


_FENCE = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+|>[ \t]?)*(`{3,}|~{3,})")
_LIST = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]")
_TICKS = re.compile(r"`+")
_INCLUDE = re.compile(
    r"(?:^|(?<=[\s(\[>,;:*_\"']))@((?:\\ |[^\s@`<>\"'|*?])(?:\\ |[^\s`<>\"'|*?])*)"
)
_COMMENT = re.compile(r"^[ \t]{0,3}<!--", re.MULTILINE)
_MOST_HEAD = 4_096


@dataclass(frozen=True, slots=True)
class Parsed:
    """An instruction file taken apart: the text for the model, what it includes, its `paths:`."""

    text: str
    includes: tuple[str, ...]
    paths: tuple[str, ...] = ()


def parse(source: str, *, rule: bool = False) -> Parsed:
    """`rule`: the file may open with frontmatter that says for which paths it holds."""
    text = source.removeprefix("\ufeff")
    paths: tuple[str, ...] = ()
    if rule:
        head, text = _frontmatter(text)
        paths = _paths(head)
    text = strip_comments(text)
    return Parsed(text, find_includes(text), paths)


def strip_comments(text: str) -> str:
    """Without the HTML comments that begin a line; those in code stay, and one without an end."""
    if "<!--" not in text:
        return text
    code = code_mask(text, inline=False)
    kept: list[str] = []
    at = 0
    for opened in _COMMENT.finditer(text):
        start = opened.end() - 4
        if start < at or code[start]:
            continue
        end = text.find("-->", start + 4)
        if end < 0:
            break
        kept.append(text[at : opened.start()])
        at = end + 3
        rest = re.compile(r"[ \t]*\r?\n").match(text, at)
        at = rest.end() if rest else at
    return "".join((*kept, text[at:]))


def find_includes(text: str) -> tuple[str, ...]:
    """The targets of `@path` outside code, each once, in order, as they are written."""
    if "@" not in text:
        return ()
    code = code_mask(text)
    found = [
        match[1].replace("\\ ", " ")
        for match in _INCLUDE.finditer(text)
        if not code[match.start(1)]
    ]
    return tuple(dict.fromkeys(found))


def code_mask(text: str, *, inline: bool = True) -> bytearray:
    """1 for each character that stands in a fence, an indented code block or a `code` span."""
    mask = bytearray(len(text))
    fence = ""
    after_blank, in_code, in_list = True, False, False
    at = 0
    for line in text.splitlines(keepends=True):
        end = at + len(line)
        bare = line.strip()
        opened = _FENCE.match(line)
        if fence:
            mask[at:end] = b"\x01" * len(line)
            if bare and not bare.strip(fence[0]) and len(bare) >= len(fence):
                fence = ""
        elif opened and not (opened[1][0] == "`" and "`" in line[opened.end() :]):
            fence = opened[1]
            mask[at:end] = b"\x01" * len(line)
        elif bare:
            indented = line.startswith(("    ", "\t"))
            in_list = bool(_LIST.match(line)) or (in_list and (indented or not after_blank))
            in_code = indented and not in_list and (after_blank or in_code)
            if in_code:
                mask[at:end] = b"\x01" * len(line)
            elif inline and "`" in line:
                _mask_spans(line, at, mask)
        after_blank = not bare
        at = end
    return mask


def _mask_spans(line: str, at: int, mask: bytearray) -> None:
    runs = [*_TICKS.finditer(line)]
    index = 0
    while index < len(runs):
        width = len(runs[index][0])
        # Only a run of the same width closes a span. Looking a little ahead keeps this linear.
        later = range(index + 1, min(len(runs), index + 100))
        close = next((n for n in later if len(runs[n][0]) == width), None)
        if close is None:
            index += 1
            continue
        start, end = runs[index].start(), runs[close].end()
        mask[at + start : at + end] = b"\x01" * (end - start)
        index = close + 1


def _frontmatter(text: str) -> tuple[str, str]:
    opened = re.compile(r"---[ \t]*\r?\n").match(text)
    if opened is None:
        return "", text
    closed = re.compile(r"^---[ \t]*(?:\r?\n|$)", re.MULTILINE).search(
        text, opened.end(), opened.end() + _MOST_HEAD
    )
    return (text[opened.end() : closed.start()], text[closed.end() :]) if closed else ("", text)


def _paths(head: str) -> tuple[str, ...]:
    """`paths:` as a word, a list with commas, `[a, b]`, or lines with dashes."""
    found: list[str] = []
    inside = False
    for line in head.splitlines():
        key = re.match(r"(paths|globs):[ \t]*(.*)$", line)
        item = re.match(r"[ \t]*-[ \t]+(.+)$", line)
        if key:
            inside = True
            found += _pieces(key[2].strip().removeprefix("[").removesuffix("]"))
        elif inside and item:
            found.append(_unquoted(item[1]))
        elif line.strip() and not line.startswith((" ", "\t", "#")):
            inside = False
    return tuple(path for path in found if path)


def _pieces(value: str) -> list[str]:
    """Split at commas that are not inside {a,b}."""
    return [_unquoted(piece) for piece in re.split(r",(?![^{}]*\})", value)]


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
