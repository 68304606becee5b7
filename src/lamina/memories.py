"""What a memory is: frozen values that the store, the gate, recall, extraction and dream share.

Nothing here touches files, clocks or the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

MemoryType = Literal["user", "feedback", "project", "reference"]
MEMORY_TYPES: tuple[MemoryType, ...] = ("user", "feedback", "project", "reference")

# Who writes. It is the author of the commit and decides what counts as evidence.
Writer = Literal["user", "agent", "extraction", "dream", "team", "outside"]


@dataclass(frozen=True, slots=True)
class Memory:
    """One topic file, parsed: bounded frontmatter and a Markdown body."""

    path: str  # relative to the memory directory, "/" as separator: "user_role.md", "team/x.md"
    name: str
    description: str
    type: MemoryType | None
    body: str
    extra: Mapping[str, str] = field(default_factory=dict[str, str])  # other flat keys
    mtime: float = 0.0
    size: int = 0

    @property
    def team(self) -> bool:
        return self.path.startswith("team/")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Words that a memory rests on: a quote, and the ledger entry and session that hold it."""

    quote: str
    session: str = ""
    entry: str = ""  # uuid of the ledger entry


@dataclass(frozen=True, slots=True)
class Proposal:
    """A wish to write a memory. Extractors, dream, agent and user make these; the gate decides."""

    path: str
    name: str
    description: str
    type: MemoryType | None
    body: str
    writer: Writer
    evidence: Sequence[Evidence] = ()
    takes_back: Sequence[Evidence] = ()  # the user's words for what it drops of the file
    session: str = ""
    reason: str = ""  # why it was proposed, in words, for the log and the inbox
    hook: str = ""  # the index line's text after the dash; "" = the description
    extra: Mapping[str, str] = field(default_factory=dict[str, str])
    allow_secret: bool = False  # the user insists on what looks like a secret


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says of a write."""

    decision: Literal["accept", "inbox", "refuse"]
    reason: str  # one sentence; "" for a plain accept
    warnings: Sequence[str] = ()
    update_of: str = ""  # path of the near-duplicate that this should update instead
    origin: str = ""  # whose word it is (an Origin of messages.py); "typed" = the user's own
    revives: bool = False  # the user had it forgotten and has now asked to remember it
