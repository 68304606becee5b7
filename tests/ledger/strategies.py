"""Arbitrary ledgers: what our own code may append, and what a foreign or damaged file may hold."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from lamina.errors import EditRefused
from lamina.ledger import edits
from lamina.ledger.record import Ledger
from lamina.messages import Json, Usage

words = st.text(st.characters(codec="utf-8"), max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
extra = st.dictionaries(st.sampled_from(["future", "x-y", "ünïcode"]), json_values, max_size=2)
call_ids = st.sampled_from([f"c{n}" for n in range(6)])


@st.composite
def blocks(draw: st.DrawFn) -> Json:
    kind = draw(st.sampled_from(["text", "tool_use", "tool_result", "thinking", "image", "novel"]))
    block: dict[str, Any] = {"type": kind, **draw(extra)}
    if kind == "text":
        block["text"] = draw(words)
    elif kind == "tool_use":
        block |= {"id": draw(call_ids), "name": "Read", "input": draw(extra)}
    elif kind == "tool_result":
        block |= {"tool_use_id": draw(call_ids), "content": draw(words)}
    elif kind == "thinking":
        block |= {"thinking": draw(words), "signature": "s"}
    elif kind == "image":
        block["source"] = {"type": "base64", "data": "AA=="}
    return block


@st.composite
def foreign_entries(draw: st.DrawFn) -> list[Json]:
    """Anything that a file could hold, edits of all sorts included."""
    entries: list[Json] = []
    for n in range(draw(st.integers(0, 14))):
        names = [e["uuid"] for e in entries] or ["e0"]
        name = st.sampled_from([*names, "nowhere"])
        kind = draw(st.sampled_from(["message"] * 5 + ["replace", "fold", "revoke", "odd"]))
        if kind == "message":
            entry: Json = {
                "kind": "message",
                "role": draw(st.sampled_from(["user", "assistant"])),
                "content": draw(st.lists(blocks(), max_size=4)),
            }
        elif kind == "replace":
            items = st.tuples(name, st.integers(0, 3), blocks())
            entry = edits.replace(draw(st.lists(items, max_size=3)), "test", changes_prefix=True)
        elif kind == "fold":
            new = [
                {
                    "role": draw(st.sampled_from(["user", "assistant"])),
                    "content": draw(st.lists(blocks(), max_size=2)),
                }
            ]
            entry = edits.fold(draw(name), draw(name), new, "test")
        elif kind == "revoke":
            entry = edits.revoke(draw(name), "test")
        else:
            entry = {"kind": "novelty", "op": draw(words), **draw(extra)}
        entries.append({**entry, "uuid": f"e{n}"})
    return entries


@st.composite
def steps(draw: st.DrawFn) -> list[Any]:
    """A script for `play`: choices only, so that each step can look at the ledger as it is."""
    return draw(
        st.lists(
            st.tuples(
                st.sampled_from(
                    ["ask", "answer", "call", "result", "replace", "fold", "revoke", "request"]
                ),
                st.integers(0, 99),
                st.integers(0, 99),
                words,
                extra,
            ),
            max_size=25,
        )
    )


def play(ledger: Ledger, script: list[Any]) -> Any:
    """Append what each step wants where the rules allow it; yield after each that was taken."""
    for n, (what, a, b, word, more) in enumerate(script):
        entry = _entry(ledger, n, what, a, b, word, more)
        if entry is None:
            continue
        try:
            ledger.append(entry)
        except EditRefused:
            continue
        yield entry


def _entry(ledger: Ledger, n: int, what: str, a: int, b: int, word: str, more: Json) -> Json | None:
    said = [e for _, e in ledger.messages()]
    changes = [e for e in ledger.entries if e["kind"] == "edit"]
    if what == "ask":
        return edits.message("user", word or "?", "typed", **more)
    if what == "answer":
        usage = Usage(input=a * 10, output=b)
        return edits.answer([{"type": "text", "text": word or "!", **more}], usage)
    if what == "call":
        calls = [
            {"type": "tool_use", "id": f"t{n}-{i}", "name": "Read", "input": more}
            for i in range(a % 3 + 1)
        ]
        thought = [{"type": "thinking", "thinking": word, "signature": "s"}]
        return edits.answer(thought + calls, Usage(input=a, output=b))
    if what == "result" and ledger.open_calls:
        chosen = ledger.open_calls[: b % len(ledger.open_calls) + 1]
        results = [
            {"type": "tool_result", "tool_use_id": i, "content": word, **more} for i in chosen
        ]
        return edits.message("user", results, "tool")
    if what == "replace" and said:
        entry = said[a % len(said)]
        number = b % max(1, len(entry["content"]))
        old = entry["content"][number] if entry["content"] else {}
        new = (
            {**old, "content": word}
            if old.get("type") == "tool_result"
            else {"type": "text", "text": word}
        )
        return edits.replace([(entry["uuid"], number, new)], "test", changes_prefix=bool(b % 2))
    if what == "fold" and said:
        first, last = sorted((a % len(said), b % len(said)))
        new = [{"role": "user", "content": f"[folded {word}]"}]
        return edits.fold(
            said[first]["uuid"], said[last]["uuid"], new, "test", changes_prefix=bool(a % 3)
        )
    if what == "revoke" and changes:
        return edits.revoke(changes[a % len(changes)]["uuid"], "test", changes_prefix=bool(b % 3))
    if what == "request":
        blocks, hash_ = ledger.fingerprint()
        return edits.request(ledger.head, hash_, "main", blocks, ledger.tokens())
    return None
