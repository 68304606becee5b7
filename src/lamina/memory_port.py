"""The port of memory: what a store can do, and its history. Others import it from `ports`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from lamina.errors import GateRefused
from lamina.memories import (
    Change,
    Commit,
    Evidence,
    Forgotten,
    Hit,
    InboxItem,
    InForce,
    LoadedIndex,
    Meant,
    Memory,
    Note,
    Outcome,
    Parted,
    Proposal,
    Stamp,
    Verdict,
    Writer,
)

if TYPE_CHECKING:
    from lamina.secrets import Rules


class MemoryStore(Protocol):
    """Memories by path. Every write passes the gate and can be undone where there is history.

    Refusals raise GateRefused, a change by somebody else that does not fit raises Conflict, and
    anything the disk does raises MemoryStoreError; in all three cases nothing was changed.
    `FileStore` is the store that Lamina brings; `lamina.testing` holds the checks for any other.
    """

    @property
    def directory(self) -> Path:
        """Where the memories are; of a store without files, a name for it that people are shown."""
        ...

    @property
    def state(self) -> Path:
        """A folder for what is derived from them: the recall index, the record of dreams."""
        ...

    @property
    def in_files(self) -> bool:
        """May tools and people open the memories in `directory`? Without files there is no dream,
        and a fork has nothing to write to."""
        ...

    @property
    def history(self) -> MemoryHistory | None:
        """None: the store keeps none, and nothing can be undone."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None: ...

    # reading

    def list(self) -> Sequence[Memory]:
        """All memories, newest first, without bodies."""
        ...

    def newest(self, count: int) -> Sequence[Memory]:
        """The first so many of `list()`, in the time that these take."""
        ...

    def read_only(self) -> Sequence[str]:
        """Memories that a person closed to writing: nothing that works unasked changes those."""
        ...

    def unreadable(self) -> Sequence[str]:
        """What lies among the memories and can't be read as one."""
        ...

    def aside(self) -> Sequence[str]:
        """Of that what is seen without reading: links, devices, names not in UTF-8."""
        ...

    def stamps(self) -> Mapping[str, Stamp]:
        """Every memory, and the state that it is in."""
        ...

    def read(self, path: str) -> Memory:
        """One memory, whole. MemoryStoreError if there is none."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """A memory or an index as a file. MemoryStoreError if there is none."""
        ...

    def content(self, path: str, limit: int = -1) -> bytes | None:
        """The same, or its first `limit` bytes; None if there is none."""
        ...

    def mtime(self, path: str) -> float:
        """When it was last changed; 0 if there is none."""
        ...

    def index(self, folder: str = "") -> LoadedIndex:
        """MEMORY.md as it goes into the prompt (`team` for the team's)."""
        ...

    def search(self, query: str, limit: int = 10) -> Sequence[Hit]:
        """Memories that share words with the query, best first."""
        ...

    # writing

    def write(
        self,
        proposal: Proposal,
        *,
        base: Memory | None = None,
        replace: bool = False,
        pointer: bool = True,
    ) -> Outcome:
        """Write a memory and, with `pointer`, its line in the index.

        `base` is the memory that the writer had read (None: there is none yet). What others changed
        since is kept: both changes are merged, or Conflict is raised. `replace` overwrites blindly.
        """
        ...

    def remember(
        self,
        proposal: Proposal,
        *,
        base: Memory | None = None,
        replace: bool = False,
        pointer: bool = True,
    ) -> Outcome:
        """Write what was not looked up first: known already, it is not written again; where another
        memory has the name, it gets the next one."""
        ...

    def write_file(
        self,
        path: str,
        content: bytes,
        *,
        writer: Writer,
        base: bytes | None,
        evidence: Sequence[Evidence] = (),
        takes_back: Sequence[Evidence] = (),
        session: str = "",
        reason: str = "",
        pointer: bool = False,
        subject: str = "",
        allow_secret: bool = False,
    ) -> Outcome:
        """A memory or an index byte for byte, through the same gate. `base` is what its writer had
        read (None: no file)."""
        ...

    def rename(self, old: str, new: str, *, writer: Writer = "user") -> Outcome:
        """Give a memory another path; its pointer follows."""
        ...

    def apply(self, changes: Sequence[Change], note: Note, *, first: Callable[[], object]) -> bool:
        """Bring in changes that were judged already, all or none; False if there was nothing to
        change. `first` runs when nobody else can write any more, and raises to stop it."""
        ...

    def pinned(self) -> set[str]:
        """Paths that only the user may change."""
        ...

    def pin(self, path: str, *, on: bool = True) -> None: ...

    # forgetting

    def forget(
        self,
        path: str,
        *,
        writer: Writer = "user",
        tombstone: bool = True,
        purge_history: bool = False,
        reason: str = "",
    ) -> None:
        """Remove a memory and its pointer. `tombstone`: what it said can't come back by itself;
        `purge_history` takes it out of the history too."""
        ...

    def meant(self, wish: str) -> Meant:
        """The memories that these words, or this name, mean."""
        ...

    def forget_meant(
        self,
        memory: Memory,
        *,
        part: Parted | None = None,
        writer: Writer,
        session: str = "",
        reason: str = "",
        evidence: Sequence[Evidence] = (),
        asked: bool = True,
    ) -> Forgotten:
        """Forget what `meant` found. Unless the user `asked`, its writer may save it again."""
        ...

    def keep_away(self, claim: str, near: Sequence[Memory] = ()) -> bool:
        """Keep a statement out that no memory holds yet; False where that can't be done safely."""
        ...

    def would_lose(self, memory: Memory) -> bool:
        """Does it hold words of the user that stand nowhere else?"""
        ...

    def by_hand(self, path: str) -> bool:
        """Has a person written in this file, or given it another form than ours?"""
        ...

    # the gate

    @property
    def secret_rules(self) -> Rules | None:
        """The user's own rules beside ours; None: ours alone."""
        ...

    @property
    def max_bytes(self) -> int:
        """The longest memory that is taken."""
        ...

    def judge(self, proposal: Proposal, current: bytes | None, exact: bytes | None) -> Verdict:
        """What the gate would say of it, where `current` stands now; refusals are raised."""
        ...

    def judge_among(self, proposal: Proposal, memories: Sequence[Memory], vouched: str) -> Verdict:
        """What the gate would say if memory held just these, and the user vouched for these words."""
        ...

    def doubt(self, proposal: Proposal, files: Iterable[tuple[str, str]] = ()) -> str:
        """What a reader of the talk, and of the `files` (path, text) that it is put together from, has
        against taking it for the user's word; "" if nothing, or if nobody reads."""
        ...

    # what waits for a person

    def waiting(self) -> Sequence[InboxItem]:
        """Everything that waits, oldest first."""
        ...

    def waiting_item(self, beginning: str) -> InboxItem:
        """One item by the beginning of its id; UsageError if none or several begin so."""
        ...

    def hold(self, proposal: Proposal, verdict: Verdict, content: bytes) -> InboxItem:
        """Have a proposal wait; InboxFull if there is no more room."""
        ...

    def proposed_content(self, item: InboxItem) -> bytes:
        """The file as it would be after accepting it."""
        ...

    def inbox_diff(self, item: InboxItem) -> str:
        """What accepting it would change."""
        ...

    def accept(
        self, item_id: str, *, edited: bytes | None = None, allow_secret: bool = False
    ) -> Outcome:
        """Write it as the user's own word, as it is or as they edited it."""
        ...

    def reject(self, item_id: str, *, for_good: bool = True) -> InboxItem:
        """Drop it; `for_good`, and the same words won't be proposed again."""
        ...

    # what did not come through the store

    def catch_up(self) -> Sequence[str]:
        """Record everything that is due, and what was changed outside; the paths of the latter."""
        ...

    def note_outside(self) -> None:
        """Before a tool runs: what others changed up to now is theirs."""
        ...

    def changed_outside(self) -> bool: ...

    def attribute(
        self,
        *,
        writer: Writer,
        session: str,
        evidence: Sequence[Evidence],
        takes_back: Callable[[Change], Sequence[Evidence]],
        reason: str,
    ) -> Sequence[Outcome | GateRefused]:
        """After it ran: gate what it changed by itself, and take back what is not accepted."""
        ...

    def newest_change(self, path: str = "") -> str:
        """The short id of the last change made through Lamina, "" where no history can tell."""
        ...


class MemoryHistory(Protocol):
    """What a store recorded of its changes, and how they are taken back."""

    @property
    def empty(self) -> bool: ...

    def settle(self) -> None:
        """Record what is due. Cheap if nothing is."""
        ...

    def log(self, path: str = "") -> Iterator[Commit]:
        """Newest first, of all files or of one."""
        ...

    def find(self, beginning: str) -> str:
        """The id that begins so; UsageError if none or several do."""
        ...

    def changes(self, commit: str) -> Sequence[Change]: ...

    def content(self, path: str, commit: str) -> bytes | None:
        """The file as it was after the commit."""
        ...

    def versions(self, path: str) -> Sequence[tuple[Commit, bytes | None]]:
        """Oldest first, under earlier names too."""
        ...

    def in_force(self) -> Sequence[InForce]:
        """Changes that were not taken back, newest first."""
        ...

    def named(self, beginning: str) -> Commit:
        """The commit that the user means; UsageError where it can't be taken back."""
        ...

    def last_change(self) -> Commit | None:
        """What an undo without an id takes back."""
        ...

    def effect(self, commit: Commit) -> Sequence[Change]:
        """What undoing it would do to the files as they are now."""
        ...

    def undo(self, commit: str) -> list[str]:
        """Take one commit back; what was changed since stays. The paths that changed. Conflict, and
        nothing is changed, where a later change touched the same lines."""
        ...

    def restore(self, path: str, commit: str) -> Outcome:
        """Bring a file back as it was after a commit."""
        ...
