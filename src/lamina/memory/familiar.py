"""What the gate asks of the memories there are, and the plain answer to it from a list of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Protocol

from lamina.memories import Memory
from lamina.memory import wording

ALIKE = 0.72  # share of common stems from which two memories are one


class Familiar(Protocol):
    """The memories there are, the one that is about to be overwritten among them."""

    def __iter__(self) -> Iterator[Memory]:
        """All of them, at least with path, name and description."""
        ...

    def get(self, path: str) -> Memory | None:
        """One with its body, None if there is none."""
        ...

    def spellings(self, path: str) -> Sequence[str]:
        """The paths that are the same but for upper and lower case, this one included if it is there."""
        ...

    def nearest(self, stems: frozenset[str]) -> tuple[str, float]:
        """The memory that shares the most stems, and how alike the two are; ("", 0.0) below `ALIKE`."""
        ...


class Listed:
    """The answers from a list of whole memories: every one is compared."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        self._memories = memories

    def __iter__(self) -> Iterator[Memory]:
        return iter(self._memories)

    def get(self, path: str) -> Memory | None:
        return next((memory for memory in self._memories if memory.path == path), None)

    def spellings(self, path: str) -> list[str]:
        folded = path.casefold()
        return [one.path for one in self._memories if one.path.casefold() == folded]

    def nearest(self, stems: frozenset[str]) -> tuple[str, float]:
        best, at = 0.0, ""
        for memory in self._memories if stems else ():
            other = stems_said(memory.description, memory.body)
            small, large = sorted((len(stems), len(other)))
            if small < ALIKE * large - 1e-9:
                continue
            shared = len(stems & other)
            alike = shared / (len(stems) + len(other) - shared)
            if alike > best or (alike == best and memory.path < at):
                best, at = alike, memory.path
        return (at, best) if best >= ALIKE else ("", 0.0)


@lru_cache(maxsize=8192)
def stems_said(description: str, body: str) -> frozenset[str]:
    """What a memory says, as stems. Kept by the two texts: a dream asks for the same ones often."""
    return wording.content_stems(f"{description}\n{body}")
