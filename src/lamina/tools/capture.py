"""A command's output as it is kept: bounded while it comes, whatever comes. Values only."""

from __future__ import annotations

CHUNK = 1 << 16


class Capture:
    """Output with its head and tail kept, the middle counted."""

    def __init__(self, cap: int) -> None:
        self._half = max(1, cap // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) > 2 * self._half + CHUNK:
                del self._tail[: -self._half]

    @property
    def omitted(self) -> int:
        return max(0, self.total - 2 * self._half)

    def parts(self) -> tuple[bytes, bytes]:
        """Head and tail; with nothing omitted they join to the whole."""
        tail = self._tail[-self._half :] if self.omitted else self._tail
        return bytes(self._head), bytes(tail)

    def whole(self) -> bytes:
        """Head and tail together."""
        return b"".join(self.parts())
