"""Where the body of an answer ends: it is passed on as it comes, and only followed. Pure."""

from __future__ import annotations

from contextlib import suppress

import h11

from lamina.models.heads import Head

_LONGEST = 65_536  # bytes of a line between chunks
Followed = tuple[bytes, int]  # what it says, and where in the data the message ends; -1: not yet


class Counted:
    """A body whose length was told."""

    def __init__(self, size: int) -> None:
        self._left = size

    def follow(self, data: bytes) -> Followed:
        size = len(data)
        self._left -= size
        return (data, -1) if self._left > 0 else (data[: size + self._left], size + self._left)


class Chunked:
    """A body in chunks."""

    def __init__(self) -> None:
        self._left, self._line, self._last = 0, b"", False  # of a chunk, with two bytes behind it

    def follow(self, data: bytes) -> Followed:
        """Raises h11.RemoteProtocolError."""
        said, at, size = list[bytes](), 0, len(data)
        while at < size:
            if self._left:
                said.append(data[at : at + max(0, self._left - 2)])
                step = min(self._left, size - at)
                self._left -= step
                at += step
                continue
            if not self._line and not self._last:
                at = _whole(data, at, said)
            end = data.find(b"\n", at) + 1
            self._line += data[at : end or size]
            if len(self._line) > _LONGEST:
                raise h11.RemoteProtocolError("a chunk has no size")
            at = end or size
            if end and self._over():
                return b"".join(said), at
        return b"".join(said), -1

    def _over(self) -> bool:
        """Whether a whole line was the last one."""
        line, self._line = self._line.strip(), b""
        if self._last:
            return not line
        length = -1
        with suppress(ValueError):
            length = int(line.partition(b";")[0], 16)
        if length < 0:
            raise h11.RemoteProtocolError("a chunk has no size")
        self._last, self._left = length == 0, length + 2 if length else 0
        return False


def _whole(data: bytes, at: int, said: list[bytes]) -> int:
    """Take the chunks that are here as a whole, as most are; where the rest begins."""
    find, add, most = data.find, said.append, len(data) - 1
    with suppress(ValueError):
        while (end := find(b"\n", at) + 1) and end < (stop := end + int(data[at:end], 16)) < most:
            add(data[end:stop])
            at = stop + 2
    return at


def framing_of(answer: Head, asked: Head) -> Counted | Chunked | None:
    """How to follow the body; None: h11 must, since there is none, or only the line's end ends it."""
    if asked.first[0] == b"HEAD" or answer.status in (204, 304) or asked.http_version != b"1.1":
        return None
    if b"transfer-encoding" in answer.told:
        return Chunked()
    size = int(answer.told.get(b"content-length", b"0"))
    return Counted(size) if size else None
