"""What a store of memories can do: the protocol that everything above uses, and its values.

`FileStore` is the one that Lamina brings; `lamina.testing` holds the checks that any other must pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lamina.memories import Hit, Memory, Outcome, Proposal, Writer


class MemoryStore(Protocol):
    """Memories by path. Every write passes the gate; every one can be undone where there is history.

    Refusals raise GateRefused, a change by somebody else that does not fit raises Conflict, anything
    the disk does raises MemoryStoreError; in all three cases nothing was changed.
    """

    def list(self) -> Sequence[Memory]:
        """All memories, newest first, without bodies."""
        ...

    def read(self, path: str) -> Memory:
        """One memory, whole. MemoryStoreError if there is none."""
        ...

    def write(
        self, proposal: Proposal, *, base: Memory | None = None, replace: bool = False
    ) -> Outcome:
        """Write a memory and its pointer in the index.

        `base` is the memory that the writer had read (None: there is none yet). What others changed
        since is kept: both changes are merged, or Conflict is raised. `replace` overwrites blindly.
        """
        ...

    def rename(self, old: str, new: str, *, writer: Writer = "user") -> Outcome:
        """Give a memory another path; its pointer follows."""
        ...

    def forget(self, path: str, *, writer: Writer = "user") -> None:
        """Remove a memory and its pointer; what it said can't come back by itself."""
        ...

    def search(self, query: str, limit: int = 10) -> Sequence[Hit]:
        """Memories that share words with the query, best first."""
        ...
