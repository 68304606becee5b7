"""Bytes and text of files: what kind of file it is, its encoding and its line ends, both ways.

Text that is not valid UTF-8 keeps its bytes through an edit (surrogate escapes); nothing is
touched here but values.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

SNIFFED = 8_192
NUMBER_WIDTH = 6

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def image_type(head: bytes) -> str | None:
    """The media type, for the kinds of image that models take."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGES if head.startswith(magic)), None)


def utf16(head: bytes) -> str | None:
    """The encoding that a UTF-16 byte order mark names."""
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    return "utf-16-be" if head.startswith(codecs.BOM_UTF16_BE) else None


def is_binary(head: bytes) -> bool:
    return b"\0" in head and utf16(head) is None


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text and what is needed to turn it into the same bytes again."""

    text: str
    encoding: str
    mark: bytes = b""

    @classmethod
    def of(cls, data: bytes) -> Text:
        """Raises UnicodeDecodeError for broken UTF-16 only."""
        if encoding := utf16(data):
            return cls(data[2:].decode(encoding), encoding, data[:2])
        mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        return cls(data[len(mark) :].decode("utf-8", "surrogateescape"), "utf-8", mark)

    def encode(self, text: str) -> bytes:
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        return self.mark + text.encode(self.encoding, errors)

    @property
    def newline(self) -> str:
        """The line end that most lines have."""
        pairs = self.text.count("\r\n")
        return "\r\n" if pairs * 2 > self.text.count("\n") else "\n"


def numbered(lines: list[str], first: int) -> str:
    """Lines with their numbers before them, a tab between."""
    return "\n".join(f"{first + index:>{NUMBER_WIDTH}}\t{line}" for index, line in enumerate(lines))


def shown(text: str) -> str:
    """Text that can be shown and stored: lone surrogates become U+FFFD."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def is_whole_unicode(text: str) -> bool:
    """False for text with lone surrogates, which no encoding can store."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
