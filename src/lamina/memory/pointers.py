"""Which index line belongs to which memory: what a write, rename or removal does to MEMORY.md.

A team memory's pointer stands in the team's own index. Each function gives a rework: a function
from an index as it stands to the index as it should be, so that it can be done again when somebody
else changed the index meanwhile. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from lamina.memories import Memory, Proposal
from lamina.memory.index import (
    INDEX,
    harmless_hook,
    pointers_of,
    short_hook,
    with_pointer,
    with_renamed,
    without_pointer,
)

Rework = Callable[[str, bytes | None], bytes | None]


def index_of(path: str) -> str:
    """The index that points at this memory."""
    return f"team/{INDEX}" if path.startswith("team/") else INDEX


def link_of(path: str) -> str:
    """The memory's path as its index writes it."""
    return path.removeprefix("team/")


def adding(proposal: Proposal, origin: str, base: Memory | None) -> Rework:
    """A pointer to the written memory. A line that is there stays unless name or text changed."""
    link = link_of(proposal.path)
    # Whose word it is shows in the line, unless it is the user's own.
    suffix = "" if origin in ("", "typed") else f" (source: {origin})"
    hook = (
        f"{proposal.hook if proposal.writer == 'user' else harmless_hook(proposal.hook)}{suffix}"
        if proposal.hook
        else short_hook(link, proposal.name, proposal.description, suffix=suffix)
    )
    same = base is not None and (base.name, base.description) == (
        proposal.name,
        proposal.description,
    )

    def rework(_path: str, index: bytes | None) -> bytes:
        unchanged = same and not proposal.hook
        if unchanged and any(pointer.file == link for pointer in pointers_of(index or b"")):
            return index or b""
        return with_pointer(index or b"", link, proposal.name, hook, section=proposal.type or "")

    return rework


def removing(path: str) -> Rework:
    def rework(_path: str, index: bytes | None) -> bytes | None:
        return None if index is None else without_pointer(index, link_of(path))

    return rework


def renaming(old: str, new: str, memory: Memory) -> Rework:
    same_index = index_of(old) == index_of(new)

    def rework(path: str, index: bytes | None) -> bytes | None:
        if same_index:
            return None if index is None else with_renamed(index, link_of(old), link_of(new))
        if path == index_of(old):
            return None if index is None else without_pointer(index, link_of(old))
        hook = short_hook(link_of(new), memory.name, memory.description)
        return with_pointer(
            index or b"", link_of(new), memory.name, hook, section=memory.type or ""
        )

    return rework
