"""What a memory is: frozen values that the store, the gate, recall, extraction and dream share.

Nothing here touches files, clocks or the network.
"""

from __future__ import annotations

from array import array
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

import msgspec

MemoryType = Literal["user", "feedback", "project", "reference"]
MEMORY_TYPES: tuple[MemoryType, ...] = ("user", "feedback", "project", "reference")

# Who writes. It is the author of the commit and decides what counts as evidence.
# Stands behind **Why:** and **How to apply:** where the user did not say it. Plain words, so that it
# outlives every editor.
LABEL = "(assistant's words)"
# Stands before the lines of a file's head where they are given together with those of its text, which
# may begin like one.
HEAD = "\0"
# The frontmatter key of what nobody typed, and what its origin begins with. Kept in the file itself, so
# that it outlives index, history, renames and other tools.
QUOTED, _QUOTED_FROM = "quoted_from", "quoted from "
_SOURCES = frozenset(
    "teammate agent hook tool pasted recalled system assistant outside program".split()  # noqa: SIM905 - a word list
)
Writer = Literal["user", "agent", "extraction", "dream", "team", "program", "outside"]


Stamp: TypeAlias = tuple[int, int, int]  # differs between two states of a file: mtime, size, inode


class Stamps(Mapping[str, Stamp]):
    """The stamps of a directory as it was listed, names and numbers apart, so that they are compared
    with another list's in one step; no stamp is an object of its own until somebody asks for one."""

    def __init__(self, names: Sequence[str], numbers: array[int]) -> None:
        self.numbers = numbers  # three for each name
        self._names = names
        self._known: dict[str, Stamp] | None = None

    @classmethod
    def of(cls, known: Mapping[str, Stamp]) -> Stamps:
        return cls([*known], array("q", chain.from_iterable(known.values())))

    @classmethod
    def read(cls, joined: bytes, numbers: bytes) -> Stamps:
        """What `joined` and `numbers` gave."""
        names = joined.decode().split("\0") if joined else []
        return cls(names, array("q", numbers))

    def joined(self) -> bytes:
        return "\0".join(self._names).encode()

    def _all(self) -> dict[str, Stamp]:
        if self._known is None:
            numbers = iter(self.numbers)
            threes = zip(numbers, numbers, numbers, strict=True)
            self._known = dict(zip(self._names, threes, strict=True))
        return self._known

    def __getitem__(self, path: str) -> Stamp:
        return self._all()[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, path: object) -> bool:
        return path in self._all()

    def keys(self) -> KeysView[str]:
        return self._all().keys()

    def items(self) -> ItemsView[str, Stamp]:
        return self._all().items()


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

    @property
    def quoted(self) -> str:
        """Where a quotation comes from: it is found by whoever asks, and never shown unasked."""
        source = self.extra.get(QUOTED, "")
        return source if source in _SOURCES else source and "elsewhere"


def as_quoted(origin: str) -> str:
    """The origin of a quotation of this."""
    return _QUOTED_FROM + origin.removeprefix(_QUOTED_FROM)


def quoted_from(origin: str) -> str:
    """What an origin quotes; "" if it is no quotation's."""
    return origin.removeprefix(_QUOTED_FROM) if origin.startswith(_QUOTED_FROM) else ""


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
    teammate: str = ""  # whose it is, by the token that the team's server knows
    doubt: str = ""  # why a reader of the talk does not take it for what the user meant


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says of a write."""

    decision: Literal["accept", "inbox", "refuse"]
    reason: str  # one sentence; "" for a plain accept
    warnings: Sequence[str] = ()
    update_of: str = ""  # path of the near-duplicate that this should update instead
    origin: str = ""  # whose word it is (an Origin of messages.py); "typed" = the user's own
    revives: bool = False  # the user had it forgotten and has now asked to remember it
    # Lines (Why, How to apply) of a memory in the user's word that nothing they typed proves.
    unproven: Sequence[str] = ()
    theirs: Sequence[str] = ()  # what waits in the user's own whole sentences, if they said it

    @property
    def speaks(self) -> bool:
        """Will it be shown unasked?"""
        return self.decision == "accept" and not quoted_from(self.origin)


# ---- what a store answers


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a write that was not refused."""

    path: str
    decision: Literal["accept", "inbox"]
    reason: str = ""  # why it waits in the inbox
    warnings: Sequence[str] = ()
    changed: bool = True  # False: the memory said exactly this already
    inbox_id: str = ""
    update_of: str = ""  # the memory that says nearly the same
    origin: str = ""
    revived: bool = False  # it had been forgotten, and the user asked for it again

    @property
    def sentence(self) -> str:
        """For the user or the model."""
        if self.decision == "inbox":
            return f"{self.path} waits in the inbox ({self.inbox_id}): {self.reason}"
        if not self.changed:
            return f"{self.path} says this already."
        if quoted_from(self.origin):
            return f"Kept as a quotation: {self.path}. Nobody typed it, so it is shown only when asked for."
        return f"Memory updated: {self.path}"


class Hit(NamedTuple):
    """A memory that a search found; higher scores are better."""

    memory: Memory
    score: float


@dataclass(frozen=True, slots=True)
class LoadedIndex:
    """What of MEMORY.md goes into the prompt, and a warning where that is not all of it."""

    text: str
    warning: str
    total_lines: int
    total_bytes: int


class InboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal that waits."""

    id: str
    when: float
    proposal: Proposal
    reason: str
    warnings: tuple[str, ...] = ()
    update_of: str = ""
    origin: str = ""
    base: Memory | None = None  # what its writer had read; None: a new memory
    exact: bytes | None = None  # the whole file, where its writer gave one
    removes: bool = False  # the file is to go; the proposal is what it says


Fit = Literal["certain", "several", "among", "near", "none"]


@dataclass(frozen=True, slots=True)
class Parted:
    """A memory as it is without what is to be forgotten, and that, in its own words."""

    rest: Memory
    gone: str


@dataclass(frozen=True, slots=True)
class Meant:
    """`certain`: one memory, or the part of it that is named; `several`: all of them fit; `among`: it
    says much else too; `near`: they may be meant."""

    fit: Fit
    memories: tuple[Memory, ...] = ()
    part: Parted | None = None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What became of a wish, in one sentence or a short list for the user or the model."""

    fit: Fit
    sentence: str
    path: str = ""
    rest: str = ""  # the file that holds what was not to be forgotten of it


# ---- its history


class Change(NamedTuple):
    """One file before and after; None where there is no file."""

    path: str
    before: bytes | None
    after: bytes | None


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Who made a change and what it rests on: it becomes the commit's author and trailers."""

    writer: Writer
    subject: str
    session: str = ""
    entries: tuple[str, ...] = ()  # uuids of ledger entries
    origin: str = ""
    reason: str = ""
    marks: dict[str, str] = {}  # further trailers: what it undoes, what it was renamed from
    when: float = 0.0


@dataclass(frozen=True, slots=True)
class Commit:
    """One recorded change."""

    id: str
    writer: str
    when: float
    subject: str
    paths: tuple[str, ...] = ()  # () where there were too many to name
    session: str = ""
    entries: tuple[str, ...] = ()
    origin: str = ""
    reason: str = ""
    marks: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class BlamedLine:
    number: int  # counted from 1
    text: str
    commit: Commit


class InForce(NamedTuple):
    """A change that was not taken back, and the commit that brought it in last: itself, or a redo."""

    change: Commit
    by: Commit
