"""The gate: one function that says of every write to memory, by anyone, accept, inbox or refuse.

It touches nothing: what it must know (the memories there are, tombstones, pins, what the ledger
says of a quote) comes in as plain data and callables in a `GateContext`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from lamina.memories import Memory, Proposal, Verdict
from lamina.messages import Origin

Scope = Literal["personal", "team"]

# Blocks of one ledger entry, or of all entries before one: (origin, text), oldest first.
OriginTexts: TypeAlias = Sequence[tuple[Origin, str]]


def _nothing_recorded(_session: str, _entry: str) -> OriginTexts:
    return ()


def _never_forgotten(_proposal: Proposal) -> str:
    return ""


def _nothing_vouched(_path: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class GateContext:
    """What the gate needs to know. Every default is the strict one: nothing known, nothing proven."""

    memories: Sequence[Memory] = ()  # all that exist, the file to be overwritten among them
    pinned: Collection[str] = ()  # paths that only the user may change
    # "" or, if the proposal says what was forgotten, a few words on the tombstone ("on 2026-01-02").
    forgotten: Callable[[Proposal], str] = _never_forgotten
    # The blocks of one ledger entry with their origins. A typed block may hold pasted parts: the
    # gate splits it again. An unknown entry gives ().
    origin_text: Callable[[str, str], OriginTexts] = _nothing_recorded
    # Everything recorded in that session before the entry, oldest first: for confirmations.
    before: Callable[[str, str], OriginTexts] = _nothing_recorded
    # Text at a path that, by the history, already rests on the user's word: an update need not
    # prove those lines again. What only `outside` wrote is not among it.
    vouched: Callable[[str], str] = _nothing_vouched
    scope: Scope = "personal"
    inbox_all: bool = False  # a setting: nothing but the user's own writes goes straight in
    max_bytes: int = 250_000


def decide(proposal: Proposal, context: GateContext) -> Verdict:
    """Accept, inbox or refuse, with one sentence why. Pure; never raises for a bad proposal.

    `Verdict.origin` is whose word the memory is (`typed` for the user's own): the store records it
    and shows it in the index line where it is not `typed`. `Verdict.update_of` names the memory that
    an inbox entry should update instead of doubling it.
    """
    raise NotImplementedError
