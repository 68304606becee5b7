"""Memory files that a tool of ours changed by itself (Write, Edit, Bash …) pass the same gate as
everything else: the change is attributed to the call, and what the gate does not accept is taken
back. Touches the memory through its store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from lamina.errors import GateRefused, LaminaError
from lamina.events import Warned
from lamina.memories import Evidence
from lamina.memory.outside import nothing_new
from lamina.memory.review import attribute
from lamina.memory.topics import HEAD_BYTES, read_topic
from lamina.messages import Json, text_of
from lamina.ports import ToolContext, ToolOutcome, ToolSpec
from lamina.tools.memory_evidence import evidence_for

if TYPE_CHECKING:
    from lamina.memory.file_store import FileStore

T = TypeVar("T")
Work = Callable[[], Awaitable[ToolOutcome]]

# They write through the store, or nothing at all.
_HARMLESS = frozenset({"Remember", "Recall", "Todo", "Expand", "Snip", "SendMessage"})


class MemoryGuard:
    """Stands around the tool calls of one session."""

    def __init__(
        self, store: FileStore, session: str, entries: Callable[[], Sequence[Json]]
    ) -> None:
        self._store = store
        self._session = session
        self._entries = entries

    async def around(
        self, spec: ToolSpec, input_: Json, context: ToolContext, work: Work
    ) -> ToolOutcome:
        """Run a tool; gate what it changed in memory, even if it is cancelled on the way."""
        if spec.read_only or spec.name in _HARMLESS:
            return await work()
        reason = f"the agent called {spec.name} ({context.tool_use_id})"
        said: list[str] = []
        try:
            await self._in_thread(self._before, context)
            outcome = await work()
        finally:
            with anyio.CancelScope(shield=True):
                said = await self._in_thread(lambda: self._after(input_, reason), context) or []
        if not said:
            return outcome
        return replace(outcome, content="\n".join([text_of(outcome.content), *said]), is_error=True)

    async def _in_thread(self, look: Callable[[], T], context: ToolContext) -> T | None:
        try:
            return await anyio.to_thread.run_sync(look)
        except LaminaError as error:
            context.emit(Warned(f"Changes of memory files could not be checked: {error}"))
            return None

    def _before(self) -> None:
        """What others changed up to now is theirs, not the call's."""
        self._store.journal.first_now()
        if self._changed():
            self._store.catch_up()

    def _after(self, input_: Json, reason: str) -> list[str]:
        """Gate what the call changed; a sentence for the model about each file that was not taken."""
        if not self._changed():
            return []
        outcomes = attribute(
            self._store,
            writer="agent",
            session=self._session,
            evidence=self._evidence(input_),
            reason=reason,
        )
        said: list[str] = []
        for outcome in outcomes:
            if isinstance(outcome, GateRefused):
                said.append(f"Taken back, the memory gate refused it: {outcome}")
            elif outcome.decision == "inbox":
                said.append(f"Taken back for now: {outcome.sentence}")
        return said

    def _changed(self) -> bool:
        store = self._store
        return store.directory.is_dir() and not nothing_new(store.files, store.scanner)

    def _evidence(self, input_: Json) -> list[Evidence]:
        """Write and Edit say what they put in; of a command nothing is known."""
        claim = str(input_.get("content") or input_.get("new_string") or "")
        if not claim:
            return []
        try:
            whole = Path(str(input_.get("file_path"))).read_bytes()[:HEAD_BYTES]
        except OSError:
            whole = claim.encode("utf-8", "replace")
        kind = read_topic("memory.md", whole).type
        entries = list(self._entries())
        users_word = kind not in ("project", "reference")
        return evidence_for(claim, entries, self._session, users_word=users_word)
