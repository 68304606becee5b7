"""Forget: removes a memory so that it stays away, its file and its line in the index, in one call.

It works through the store. A memory that is the user's own word goes only if the user's words ask for
it; they are looked up in the session's record. Touches nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio.to_thread

from lamina.errors import GateRefused, MemoryStoreError
from lamina.memories import Memory
from lamina.memory.forget_wishes import forget_wish
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec
from lamina.tools.memory_evidence import asked_to_forget, last_typed

if TYPE_CHECKING:
    from lamina.memory.file_store import FileStore
    from lamina.memory.forgetting import Forgotten
    from lamina.memory.parting import Parted

_SPEC = ToolSpec(
    name="Forget",
    description=(
        "Removes a memory for good: its file and its line in MEMORY.md in one call, and what it said "
        "is not saved again from past talk. Use it when you are asked to forget something. Of a memory "
        "that says other things too only the part that you name goes, where it can be told apart. If "
        "several memories fit, none goes and they are listed."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "memory": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1_000,
                "description": "The file's name, such as user_role.md, or what the memory says.",
            },
        },
        "required": ["memory"],
        "additionalProperties": False,
    },
    parallel=False,
)
_HOW = "To forget one of them, name its file: “forget FILE.md”."


class Forget:
    def __init__(
        self, store: FileStore, session: str, entries: Callable[[], Sequence[Json]]
    ) -> None:
        self._store = store
        self._session = session
        self._entries = entries

    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        entries = list(self._entries())
        wish = " ".join(str(input["memory"]).split())
        try:
            done = await anyio.to_thread.run_sync(self._forget, wish, context.tool_use_id, entries)
        except (GateRefused, MemoryStoreError) as error:
            decision = "refuse" if isinstance(error, GateRefused) else "failed"
            meta = {"decision": decision, "reason": str(error)}
            return ToolOutcome(f"Not forgotten: {error}", is_error=True, meta=meta)
        decision = "forgotten" if done.path else done.fit
        return ToolOutcome(done.sentence, meta={"decision": decision, "memory": done.path})

    def _forget(self, wish: str, call: str, entries: Sequence[Json]) -> Forgotten:
        from lamina.memory import forgetting

        found = forgetting.meant(self._store, wish)
        if found.fit == "certain":
            return self._forget_one(found.memories[0], found.part, call, entries)
        told = forgetting.not_forgotten(found, wish, _HOW)
        if found.fit in ("near", "none") and self._keep_away(entries, found.memories):
            return forgetting.and_kept_away(told)
        return told

    def _forget_one(
        self, memory: Memory, part: Parted | None, call: str, entries: Sequence[Json]
    ) -> Forgotten:
        from lamina.memory import forgetting

        evidence = asked_to_forget(memory, entries, self._session)
        if memory.path in self._store.pinned():
            raise GateRefused(
                f"{memory.path} is pinned: only the user may change it, "
                f"with `lamina memory forget {memory.path}`."
            )
        facts = memory.type in ("project", "reference")
        if not evidence and (not facts or self._store.admission.would_lose(memory)):
            raise GateRefused(
                f"{memory.path} holds the user's own words, and nothing they said here asks to forget "
                "it. Ask them first."
            )
        return forgetting.forget(
            self._store,
            memory,
            part=part,
            writer="agent",
            session=self._session,
            reason=f"the agent called Forget ({call})" if call else "the agent called Forget",
            evidence=evidence,
            asked=bool(evidence),
        )

    def _keep_away(self, entries: Sequence[Json], near: Sequence[Memory]) -> bool:
        """The user's last words wish a statement away that no memory holds yet."""
        from lamina.memory import forgetting

        wished = forget_wish(last_typed(entries))
        if wished is None or not wished.claim:
            return False
        return forgetting.keep_away(self._store, wished.words, near)
