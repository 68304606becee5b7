"""Heads of HTTP messages. As nearly all are written they are read here, at once; whatever is written
otherwise is for a strict parser to judge. Pure.
"""

from __future__ import annotations

import re

import msgspec

# They belong to one connection, not to the message (RFC 9110, 7.6.1). `expect` is answered here.
_HOP = frozenset(
    b"connection keep-alive proxy-connection proxy-authorization te trailer upgrade expect".split()
)
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))
_LINE = (
    rb"(?:(?i:connection: keep-alive|content-length: [1-9]\d{0,8}%b)|(?!(?i:connection|expect|upgrade|"
    rb"content-length|transfer-encoding):)[\w-]+: [!-~](?:[ -~]*[!-~])?)\r\n"
)
_ASKS = re.compile(rb"(POST) (/[!-~]*) HTTP/1\.1\r\n((?:%b)+)\r\n" % (_LINE % b""))
_CHUNKED = _LINE % b"|transfer-encoding: chunked"
_ANSWERS = re.compile(rb"HTTP/1\.1 (?!204)([245]\d\d) ([ -~]*)\r\n((?:%b)+)\r\n" % _CHUNKED)
_PAIR = re.compile(rb"(.+?): (.+)\r\n")
Headers = list[tuple[bytes, bytes]]


class Head(msgspec.Struct):
    """How a message begins: a request with method and target, an answer with status and reason."""

    first: tuple[bytes, bytes]
    headers: Headers
    http_version: bytes = b"1.1"
    status: int = 0
    told: dict[bytes, bytes] = {}  # by name in small letters, several of one with commas

    def __post_init__(self) -> None:
        several: dict[bytes, list[bytes]] = {}
        for name, value in self.headers:
            several.setdefault(name.lower(), []).append(value)
        self.told = {name: b",".join(values) for name, values in several.items()}

    @classmethod
    def plain(cls, data: bytes, *, asks: bool) -> tuple[Head, int] | None:
        """That of a POST, or of an answer, whose body has a length or comes in chunks, with the line going
        on behind it; and where it ends. None: it is not so simple."""
        if (found := (_ASKS if asks else _ANSWERS).match(data)) is None:
            return None
        first, status = (found[1], found[2]), 0 if asks else int(found[1])
        head = cls(first, _PAIR.findall(found[3]), status=status)
        framed = len(_FRAMING & head.told.keys()) == 1 and (b"host" in head.told or not asks)
        usual = len(head.told) == len(head.headers) and framed
        return (head, found.end()) if usual else None

    @property
    def ends_line(self) -> bool:
        """Whether this is the last message of its connection."""
        return self.http_version != b"1.1" or b"close" in self.told.get(b"connection", b"").lower()


def passed_on(head: Head, *, framed: bool = True) -> Headers:
    """What goes on to the other side; without `framed` the length is for the sender to say."""
    named = {word.strip() for word in head.told.get(b"connection", b"").lower().split(b",")}
    off = _HOP | (named - _FRAMING) if framed else _HOP | named | _FRAMING
    return [(name, value) for name, value in head.headers if name.lower() not in off]


def written(first: bytes, headers: Headers) -> bytes:
    """The head of a message, of what was read and found in order."""
    return b"\r\n".join([first, *(b"%b: %b" % pair for pair in headers), b"", b""])
