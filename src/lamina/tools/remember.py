"""Remember: saves a memory, its topic file and its line in the index, in one call.

It writes through the store, so that the gate decides; what the memory rests on is looked up in the
session's record. Touches nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import anyio.to_thread

from lamina.errors import GateRefused, MemoryStoreError
from lamina.memories import MEMORY_TYPES, Memory, MemoryType, Proposal
from lamina.memory.naming import file_name
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec
from lamina.tools.memory_evidence import evidence_for, taken_back

if TYPE_CHECKING:
    from lamina.memory.file_store import FileStore
    from lamina.memory.store import Outcome

_SPEC = ToolSpec(
    name="Remember",
    description=(
        "Saves a memory for later sessions: its file and its line in MEMORY.md in one call. Use it "
        "at once when you are asked to remember something. Keep to the person's own words for "
        "`user` and `feedback`: what they did not say themselves waits for them in an inbox. "
        "`feedback` and `project` say the rule or fact first, then **Why:** and **How to apply:**. "
        "To change a memory, read it, then give its file and the whole new text."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "content": {
                "type": "string",
                "minLength": 1,
                "maxLength": 100_000,
                "description": "The memory itself, in Markdown.",
            },
            "name": {
                "type": "string",
                "minLength": 1,
                "maxLength": 200,
                "description": "A short title.",
            },
            "description": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1_000,
                "description": "One line that says exactly what is in it, to find it by.",
            },
            "type": {"type": "string", "enum": list(MEMORY_TYPES)},
            "file": {
                "type": "string",
                "maxLength": 500,
                "description": "The file's name, such as user_role.md; needed only to change one.",
            },
        },
        "required": ["content", "name", "description", "type"],
        "additionalProperties": False,
    },
    parallel=False,
)


class Remember:
    def __init__(
        self,
        store: FileStore,
        session: str,
        entries: Callable[[], Sequence[Json]],
        *,
        with_index: bool = True,  # False: MEMORY.md is not kept
    ) -> None:
        self._store = store
        self._with_index = with_index
        self._session = session
        self._entries = entries

    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        entries = list(self._entries())
        try:
            outcome = await anyio.to_thread.run_sync(
                self._remember, input, context.tool_use_id, entries
            )
        except (GateRefused, MemoryStoreError) as error:
            decision = "refuse" if isinstance(error, GateRefused) else "failed"
            meta = {"decision": decision, "reason": str(error)}
            return ToolOutcome(f"Not remembered: {error}", is_error=True, meta=meta)
        return _told(outcome)

    def _remember(self, input: Json, call: str, entries: Sequence[Json]) -> Outcome:  # noqa: A002
        kind = cast("MemoryType", str(input["type"]))
        name, description = _line(input["name"]), _line(input["description"])
        content = str(input["content"]).strip()
        path = str(input.get("file") or "").strip() or file_name(kind, name, description)
        base = self._existing(path) if input.get("file") else None
        claim = f"{name}\n{description}\n{content}"
        evidence = evidence_for(
            claim, entries, self._session, users_word=kind in ("user", "feedback")
        )
        after = Memory(path, name, description, kind, content, base.extra if base else {})
        proposal = Proposal(
            path=path,
            name=name,
            description=description,
            type=kind,
            body=f"{content}\n",
            writer="agent",
            evidence=tuple(evidence),
            takes_back=taken_back(base, after, entries, self._session),
            session=self._session,
            reason=f"the agent called Remember ({call})" if call else "the agent called Remember",
        )
        return self._store.remember(proposal, base=base, pointer=self._with_index)

    def _existing(self, path: str) -> Memory | None:
        """The memory that is to be changed; of a name that can't be one, the gate says why."""
        with suppress(MemoryStoreError):
            return self._store.read(path)
        return None


def _line(value: object) -> str:
    return " ".join(str(value).split())


def _told(outcome: Outcome) -> ToolOutcome:
    """Accepted, or in the inbox and why."""
    words = [outcome.sentence]
    if outcome.decision == "inbox":
        words.append(
            "It is not remembered yet: `lamina memory inbox` shows it, and "
            f"`lamina memory inbox accept {outcome.inbox_id}` saves it."
        )
        if outcome.update_of:
            words.append(f"Or change {outcome.update_of}, after a look at what it says.")
    words += outcome.warnings
    meta = {"decision": outcome.decision, "memory": outcome.path, "origin": outcome.origin}
    return ToolOutcome("\n".join(words), meta=meta)
