"""The inbox: writes that a person should look at first, one file each, with a diff to show.

It keeps proposals and touches only its own folder; accepting one is the store's work. It has a limit,
and what waits already stays: nothing that a person was told of vanishes for what came later.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from lamina.errors import InboxFull, UsageError
from lamina.memories import InboxItem, Memory, Proposal, Verdict
from lamina.memory.beneath import Beneath
from lamina.memory.drafts import without_secrets
from lamina.secrets import Rules

MOST = 200  # items that wait
MOST_BYTES = 10_000_000


class Inbox:
    """All that waits, oldest first."""

    def __init__(
        self,
        folder: Path,
        *,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
        secret_rules: Rules | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        self._files = Beneath(folder)
        self._secret_rules = secret_rules
        self._most = most
        self._most_bytes = most_bytes

    def close(self) -> None:
        self._files.close()

    def add(
        self,
        proposal: Proposal,
        verdict: Verdict,
        *,
        base: Memory | None,
        exact: bytes | None,
        removes: bool = False,
    ) -> InboxItem:
        """Keep a proposal, once and without its secrets; InboxFull if there is no more room."""
        proposal, exact = without_secrets(proposal, exact, base, self._secret_rules)
        waiting = self.items()
        for item in waiting:
            if _said(item.proposal) == _said(proposal) and item.removes == removes:
                return item
        item = InboxItem(
            # Items are shown in the order of their ids, whatever the session's clock says.
            id=f"{time.time_ns():x}{secrets.token_hex(2)}",
            when=self._now(),
            proposal=proposal,
            reason=verdict.reason,
            warnings=tuple(verdict.warnings),
            update_of=verdict.update_of,
            origin=verdict.origin,
            base=base,
            exact=exact,
            removes=removes,
        )
        content = msgspec.json.encode(item)
        self._demand_room(len(waiting), len(content))
        self._files.write(f"{item.id}.json", content, expected=None)
        return item

    def _demand_room(self, waiting: int, size: int) -> None:
        """By what lies in the folder: files that nobody can read take room as well."""
        sizes = [
            found.st_size
            for name, _ in self._files.listing()
            if (found := self._files.stat(name)) is not None
        ]
        if len(sizes) >= self._most or sum(sizes) + size > self._most_bytes:
            raise InboxFull(
                f"The inbox is full: {waiting} memories wait there, so this one was not kept. "
                "`lamina memory inbox` shows them; accept or reject some first."
            )

    def items(self) -> list[InboxItem]:
        names = sorted(name for name, _ in self._files.listing() if name.endswith(".json"))
        found: list[InboxItem] = []
        for name in names:
            content = self._files.read(name)
            try:
                if content is not None:
                    found.append(msgspec.json.decode(content, type=InboxItem))
            except msgspec.MsgspecError:
                continue  # not ours, or damaged: it stays where it is and is not offered
        return found

    def get(self, item_id: str) -> InboxItem:
        """One item by the beginning of its id; UsageError if none or several begin so."""
        found = [item for item in self.items() if item.id.startswith(item_id)] if item_id else []
        if len(found) != 1:
            many = "Several items begin" if found else "No item begins"
            raise UsageError(f"{many} with {item_id!r}. `lamina memory inbox` lists them.")
        return found[0]

    def remove(self, item: InboxItem) -> None:
        self._files.remove(f"{item.id}.json")


def _said(proposal: Proposal) -> tuple[str, ...]:
    """What two proposals of the same have in common: a tool and extraction write alike, not the same."""
    words = (proposal.path, proposal.body, proposal.description)
    return tuple(" ".join(one.casefold().split()).rstrip(" .!") for one in words)
