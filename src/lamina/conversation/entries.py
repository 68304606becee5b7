"""Messages of another program as a session would have written them into its ledger: one entry a tool
result with the tool's name, results before words, ids that are used once. Pure: looks at the ledger,
adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lamina.ledger import edits
from lamina.ledger.record import Ledger
from lamina.messages import (
    Block,
    Json,
    Message,
    Origin,
    as_list,
    as_object,
    text,
    text_of,
    tool_result,
)
from lamina.text.origins import added_by_client

NO_OUTPUT = "(no output)"
_AGAIN = "~"  # a repeated id: `call~2`
# An entry, and for each of its blocks its place among those of the messages; -1: it has none.
Placed = tuple[Json, Sequence[int]]


def entries_of(run: Sequence[Message], ledger: Ledger, asker: Origin = "typed") -> list[Placed]:
    """Entries for neighbouring messages of one role; [] where they hold nothing. The blocks of an
    answer are never changed, so nobody asks for their places. `asker`: whose the words are."""
    blocks = [as_object(block) for message in run for block in message["content"]]
    if run[0]["role"] == "assistant":
        content = list(_answer(blocks, ledger))
        said = edits.message("assistant", content, "assistant")
        return [(said, [-1] * len(content))] if content else []
    return _question(blocks, ledger, asker)


def _answer(blocks: Sequence[Block], ledger: Ledger) -> Iterator[Block]:
    """Some recorders use an id for several calls; in a ledger each gets one of its own."""
    seen: set[str] = set()
    for block in blocks:
        kind = block.get("type")
        if kind == "tool_result":
            continue
        if kind == "tool_use":
            recorded = name = str(block.get("id"))
            number = 1
            while name in seen or ledger.knows_call(name):
                number += 1
                name = f"{recorded}{_AGAIN}{number}"
            seen.add(name)
            block = block if name == recorded else {**block, "id": name}  # noqa: PLW2901
        yield block


def _question(blocks: Sequence[Block], ledger: Ledger, asker: Origin) -> list[Placed]:
    waiting: dict[str, list[str]] = {}  # several calls of one answer may have had the same id
    for name in ledger.open_calls:
        waiting.setdefault(name.partition(_AGAIN)[0], []).append(name)
    tools = _tool_names(ledger)
    results: list[Placed] = []
    others: list[Block] = []
    places: list[int] = []
    origins: list[Origin] = []
    for place, block in enumerate(blocks):
        if block.get("type") != "tool_result":
            others.append(block)
            places.append(place)
            added = block.get("origin") == "system" or added_by_client(_said(block))
            origins.append("system" if added else asker)
            continue
        name = str(block.get("tool_use_id"))
        if not waiting.get(name):
            others.append(as_text(block))
            places.append(-1)
            origins.append("tool")
            continue
        own = waiting[name].pop(0)
        if own != name:
            block = {**block, "tool_use_id": own}  # noqa: PLW2901
        if block.get("content") in ("", [], None):
            block = {**block, "content": NO_OUTPUT}  # noqa: PLW2901
        said = edits.message("user", [block], "tool", tool=tools.get(own, ""))
        results.append((said, [place]))
    if not others:
        return results  # the rest may still come
    for name in (name for names in waiting.values() for name in names):
        nothing = tool_result(name, "(no result was recorded)", is_error=True)
        results.append((edits.message("user", [nothing], "tool"), [-1]))
    return [*results, (edits.message("user", others, origins), places)]


def as_text(result: Block) -> Block:
    """A result without its call: what it says."""
    return text(_said(result) or NO_OUTPUT)


def _tool_names(ledger: Ledger) -> dict[str, str]:
    """Names of the tools that the last answer called, by the call's id."""
    for entry in reversed(ledger.entries):
        if entry["kind"] == "message" and entry.get("role") == "assistant":
            return {str(b.get("id")): str(b.get("name")) for b in entry["content"] if "id" in b}
    return {}


def _said(block: Block) -> str:
    content = block.get("content") if block.get("type") == "tool_result" else [block]
    return content if isinstance(content, str) else text_of(list(map(as_object, as_list(content))))
