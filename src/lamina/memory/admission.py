"""Whether a write is let in: tells the gate what the store knows, and asks it. Every write passes here.

It reads pins, tombstones, what is known of the memories, and the history; it changes nothing.
"""

from __future__ import annotations

import dataclasses

from lamina.errors import GateRefused, SaidAlready
from lamina.memories import Memory, Proposal, Verdict, Writer
from lamina.memory.blame import blame, users_word
from lamina.memory.gate import GateContext, decide, decide_index, nothing_vouched
from lamina.memory.history import HistoryDamaged
from lamina.memory.index import is_index
from lamina.memory.journal import Journal
from lamina.memory.known import KnownMemories
from lamina.memory.leaks import secrets_of
from lamina.memory.pins import Pins
from lamina.memory.tombstones import Tombstones
from lamina.memory.topics import read_topic, why_ambiguous


class Admission:
    def __init__(
        self,
        rules: GateContext,
        known: KnownMemories,
        tombstones: Tombstones,
        pins: Pins,
        journal: Journal,
    ) -> None:
        # Without what is known of the memories: a dream adds its own view of them.
        self.rules = rules
        self._known = known
        self._tombstones = tombstones
        self._pins = pins
        self._journal = journal

    def judge(self, proposal: Proposal, current: bytes | None, exact: bytes | None) -> Verdict:
        """Accept or inbox; refusals are raised. `current` is the file before the change, `exact` the
        bytes after it where the writer gave those."""
        path = proposal.path
        if exact is not None and proposal.writer != "user" and not is_index(path):
            shown = secrets_of(proposal, self.rules.secret_rules).mask(path)
            demand_clear(shown, exact, current)
        if is_index(path):
            before, after = (
                (content or b"").decode("utf-8", "replace") for content in (current, exact)
            )
            verdict = decide_index(
                before,
                after,
                proposal.writer,
                self._context(path, None),
                allow_secret=proposal.allow_secret,
            )
        else:
            old = None if current is None else read_topic(path, current)
            verdict = decide(proposal, self._context(path, old))
        return _let_in(verdict)

    def judge_moved(self, proposal: Proposal, old: str) -> Verdict:
        """Moving says nothing new: only what no memory may be called or hold is in the way."""
        proposal = dataclasses.replace(proposal, allow_secret=True)
        return _let_in(decide(proposal, self._context(old, None)))

    def demand_unpinned(self, path: str, writer: Writer) -> None:
        if writer != "user" and path in self._pins.all():
            raise GateRefused(f"{path} is pinned: only the user may change it.")

    def _context(self, path: str, old: Memory | None) -> GateContext:
        """What the gate knows, with the memory at this path as it was before the change."""
        return dataclasses.replace(
            self.rules,
            familiar=self._known.but(path, old),
            pinned=self._pins.all(),
            forgotten=self._tombstones.why,
            forgotten_at=self._tombstones.when,
            # Where there is no file yet, nobody can have vouched for it.
            vouched=self.vouched if old is not None else nothing_vouched,
            origin_of=self.origin_of,
        )

    def origin_of(self, path: str) -> str:
        """Whose word a memory is, by the last commit that says so."""
        try:
            self._journal.settle()
            for commit in self._journal.history.log(path):
                if commit.writer not in ("dream", "outside") and commit.origin:
                    return commit.origin
        except HistoryDamaged:
            return ""
        return ""

    def vouched(self, path: str) -> str:
        """The lines of a file that, by its history, rest on the user's word."""
        try:
            self._journal.settle()
            return users_word(blame(self._journal.history.versions(path)), path)
        except HistoryDamaged:
            return ""


def demand_clear(path: str, content: bytes, before: bytes | None) -> None:
    """Frontmatter that others could read in another way is refused; what stood there may stay."""
    why = why_ambiguous(content)
    if why and (before is None or not why_ambiguous(before)):
        raise GateRefused(f"{path} can be read in two ways: {why}. Write plain `key: value` lines.")


def _let_in(verdict: Verdict) -> Verdict:
    if verdict.decision == "refuse" and verdict.update_of:
        raise SaidAlready(verdict.reason, verdict.update_of)
    if verdict.decision == "refuse":
        raise GateRefused(verdict.reason)
    return verdict
