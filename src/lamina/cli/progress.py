"""One line on a terminal that says how far a long reading has come. Shown only after a second, only
where somebody looks at a terminal, and gone when the work is done.
"""

from __future__ import annotations

import sys
import time

_PATIENCE = 1.0
_EVERY = 0.2


class Progress:
    """Told bytes done and bytes in all, as often as the work likes."""

    def __init__(self, doing: str, *, quiet: bool = False) -> None:
        self._doing = doing
        self._next = time.monotonic() + _PATIENCE if not quiet and sys.stderr.isatty() else None
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        if self._next is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY
        self._shown = True
        share = f"{done / 1e6:.0f} of {max(done, total) / 1e6:.0f} MB"
        sys.stderr.write(f"\r\x1b[K{self._doing}: {share} (Ctrl-C stops)")
        sys.stderr.flush()

    def clear(self) -> None:
        """Takes the line away, before a result is printed or at the end."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False
