"""Pins: which memories nobody but the user may change. Touches one file in the store's folder."""

from __future__ import annotations

import msgspec

from lamina.errors import MemoryStoreError
from lamina.memory.beneath import Beneath

_FILE = "pins.json"


class Pins:
    """Whoever changes them holds the store's lock."""

    def __init__(self, files: Beneath) -> None:
        self._files = files

    def all(self) -> set[str]:
        content = self._files.read(_FILE)
        try:
            return set(msgspec.json.decode(content, type=list[str])) if content else set()
        except msgspec.MsgspecError as error:
            # Taking it for empty would open every pinned memory to anybody.
            raise MemoryStoreError(
                f"{self._files.root / _FILE} is damaged: {error}. "
                "Correct it (a list of paths), or delete it and pin again."
            ) from error

    def set(self, paths: set[str]) -> None:
        old = self._files.read(_FILE)
        new = msgspec.json.encode(sorted(paths))
        if new != old:
            self._files.write(_FILE, new, expected=old)
