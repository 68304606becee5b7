"""The store of memories in files, as the other rooms see it: `ports.MemoryStore` and its history.

Every verb here hands on to the part that does the work; those that few commands need load late.
"""

from __future__ import annotations

import builtins
import dataclasses
import stat
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lamina.errors import GateRefused
from lamina.events import Emit, MemoryUpdated, Warned
from lamina.machine import make_private
from lamina.memories import (
    Change,
    Evidence,
    Forgotten,
    InboxItem,
    Meant,
    Memory,
    Note,
    Outcome,
    Parted,
    Proposal,
    Stamps,
    Verdict,
    Writer,
)
from lamina.memory.gate import GateContext
from lamina.memory.journalled import JournalledFiles
from lamina.memory.paths import claim, place_of, prepare, team_is_on

if TYPE_CHECKING:
    from subprocess import Popen

    from lamina.config import Config
    from lamina.memory.undo import FileHistory
    from lamina.secrets import Rules


_syncing: list[Popen[bytes]] = []  # kept, so that those that ended are reaped


class FileStore(JournalledFiles):
    """Memories in one directory."""

    in_files = True

    # ---- reading

    def content(self, path: str, limit: int = -1) -> bytes | None:
        return self.files.read(path, limit)

    def mtime(self, path: str) -> float:
        stat = self.files.stat(path)
        return stat.st_mtime if stat else 0.0

    def stamps(self) -> Stamps:
        return self.scanner.stamps()

    def newest(self, count: int) -> builtins.list[Memory]:
        return self.scan().newest(count)

    def read_only(self) -> Sequence[str]:
        closed = ((path, self.files.stat(path)) for path in self.stamps())
        return [path for path, found in closed if found and not found.st_mode & stat.S_IWUSR]

    def unreadable(self) -> Sequence[str]:
        return self.scan().unreadable

    def aside(self) -> Sequence[str]:
        return self.scanner.aside()

    # ---- the gate

    @property
    def secret_rules(self) -> Rules | None:
        return self.admission.rules.secret_rules

    @property
    def max_bytes(self) -> int:
        return self.admission.rules.max_bytes

    def judge(self, proposal: Proposal, current: bytes | None, exact: bytes | None) -> Verdict:
        return self.admission.judge(proposal, current, exact)

    def doubt(self, proposal: Proposal, files: Iterable[tuple[str, str]] = ()) -> str:
        return self.admission.doubt(proposal, files=files)

    def would_lose(self, memory: Memory) -> bool:
        return self.admission.would_lose(memory)

    def by_hand(self, path: str) -> bool:
        return self.admission.by_hand(path)

    # ---- writing

    def apply(self, changes: Sequence[Change], note: Note, *, first: Callable[[], object]) -> bool:
        with self.journal.writing():
            first()
            return self.journal.apply(changes, note)

    def pin(self, path: str, *, on: bool = True) -> None:
        self.read_bytes(path)
        self.make_state()
        with self.journal.writing():
            self._pins.set(self.pinned() | {path} if on else self.pinned() - {path})

    def attribute(
        self,
        *,
        writer: Writer,
        session: str,
        evidence: Sequence[Evidence],
        takes_back: Callable[[Change], Sequence[Evidence]],
        reason: str,
    ) -> Sequence[Outcome | GateRefused]:
        from lamina.memory.review import attribute

        return attribute(
            self,
            writer=writer,
            session=session,
            evidence=evidence,
            takes_back=takes_back,
            reason=reason,
        )

    # ---- forgetting what somebody means

    def meant(self, wish: str) -> Meant:
        from lamina.memory.forgetting import meant

        return meant(self, wish)

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
        from lamina.memory.forgetting import forget

        return forget(
            self,
            memory,
            part=part,
            writer=writer,
            session=session,
            reason=reason,
            evidence=evidence,
            asked=asked,
        )

    def keep_away(self, claim: str, near: Sequence[Memory] = ()) -> bool:
        from lamina.memory.forgetting import keep_away

        return keep_away(self, claim, near)

    # ---- what waits for a person

    def waiting(self) -> Sequence[InboxItem]:
        return self.inbox.items()

    def waiting_item(self, beginning: str) -> InboxItem:
        return self.inbox.get(beginning)

    def hold(self, proposal: Proposal, verdict: Verdict, content: bytes) -> InboxItem:
        return self.inbox.add(proposal, verdict, base=None, exact=content)

    def proposed_content(self, item: InboxItem) -> bytes:
        from lamina.memory.review import proposed_content

        return proposed_content(self, item)

    def inbox_diff(self, item: InboxItem) -> str:
        from lamina.memory.review import inbox_diff

        return inbox_diff(self, item)

    def accept(
        self, item_id: str, *, edited: bytes | None = None, allow_secret: bool = False
    ) -> Outcome:
        from lamina.memory.review import accept

        return accept(self, item_id, edited=edited, allow_secret=allow_secret)

    def reject(self, item_id: str, *, for_good: bool = True) -> InboxItem:
        from lamina.memory.review import reject

        return reject(self, item_id, for_good=for_good)

    @property
    def refused(self) -> int:
        """How many proposals a person turned down."""
        return sum(one.kind == "rejected" for one in self.tombstones.all())

    # ---- history

    @property
    def history(self) -> FileHistory:
        from lamina.memory.undo import FileHistory

        return FileHistory(self)

    def newest_change(self, path: str = "") -> str:
        return self.journal.newest_of_ours(path)


def open_store(
    config: Config,
    emit: Emit,
    *,
    gate: GateContext | None = None,
    in_session: bool = False,
    now: Callable[[], float] = time.time,
) -> FileStore:
    """The project's memory as the settings have it. In a session its directory is made at once and
    changes are recorded in the background; a command makes nothing before it writes."""
    place = place_of(config)
    if not in_session:
        if place.state.is_dir():
            claim(place)
    elif problem := prepare(place):
        emit(Warned(problem))
    else:
        claim(place)
    team = team_is_on(config, place.state)
    rules = dataclasses.replace(
        gate or GateContext(),
        team=team,
        inbox_all=config.bool("memory.inbox_all"),
        max_bytes=config.int("memory.max_file"),
        secret_rules=_secret_rules(config),
    )
    if in_session:
        sync_team(config, place.state)
    store = FileStore(
        place.directory,
        place.state,
        gate=rules,
        emit=emit,
        background=in_session,
        before_first_write=None if in_session else partial(claim, place),
        inbox_most=config.int("memory.inbox_most"),
        now=now,
    )
    if team and config.bool("team.sync"):
        store.journal.share = partial(_share, config)
    return store


def _share(config: Config, event: MemoryUpdated) -> None:
    """What is written to team/ here goes to the team soon after."""
    if event.writer != "team" and any(path.startswith("team/") for path in event.files):
        _sync(config, "--soon")


def sync_team(config: Config, state: Path) -> None:
    """Fetch what the team has new, where there is one. Nobody waits for it."""
    if team_is_on(config, state) and config.bool("team.sync"):
        _sync(config)


def _sync(config: Config, *options: str) -> None:
    """In a process of its own: no turn waits for the network, and it outlives a short command."""
    import subprocess

    words = ["team", "sync", "--project", str(config.project), "--home", str(config.home), *options]
    words += ["--claude"] if config.claude else []
    with suppress(OSError):
        _syncing.append(
            subprocess.Popen(
                [sys.executable, "-P", "-m", "lamina.cli.main", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
    _syncing[:] = [one for one in _syncing if one.poll() is None]


def open_agent_store(
    config: Config,
    directory: Path,
    state: Path,
    *,
    owner: str,
    heard: Callable[[], Iterable[str]],
    emit: Emit,
) -> FileStore:
    """The memory of an agent type, whose own learnings need no proof."""
    make_private(directory)
    gate = GateContext(
        max_bytes=config.int("memory.max_file"),
        secret_rules=_secret_rules(config),
        owner=owner,
        heard=heard,
        team=False,
    )
    return FileStore(directory, state, gate=gate, emit=emit)


def _secret_rules(config: Config) -> Rules | None:
    """The user's own rules beside ours; None: ours alone."""
    if not (paths := config.strings("secrets.rules")):
        return None
    from lamina.secrets import all_rules

    return all_rules([Path(path).expanduser() for path in paths])
