"""A recorded session as people read it: who said what, which tools ran, what layers took out of the
context. Reads one ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from lamina.cache.spend import cost, price_of
from lamina.cli.terminal import harmless, out, plural, style
from lamina.errors import UsageError
from lamina.ledger import log
from lamina.ledger.edits import written_at
from lamina.ledger.spans import whole_text
from lamina.ledger.view import Projection
from lamina.messages import Json, Usage, as_object, dicts, text, text_of

_SOURCES = {"notes": "notes", "model": "model and the record", "local": "record"}
_NEAR = 300.0  # seconds between two records of the same moment
_REMINDERS = {"system", "hook", "recalled"}  # origins of what is added beside
LONGEST_RESULT = 2_000  # characters of a tool result that a conversation shows


def summary(file: Path) -> dict[str, Any]:
    """One row of the list."""
    entries = log.read(file).entries
    messages = [entry for entry in entries if entry["kind"] == "message"]
    title = ""
    for entry in messages:
        asked = ["typed" if one == "agent" else one for one in entry.get("origins") or ()]
        if entry.get("role") == "user" and (title := typed_text({**entry, "origins": asked})):
            break
    parents = [entry.get("value") for entry in entries if entry.get("name") == log.PARENT]
    changed = datetime.fromtimestamp(file.stat().st_mtime).astimezone()
    return {
        "id": file.stem,
        "agent": agent_of(file),
        "file": str(file),
        "changed": changed.isoformat(timespec="seconds"),
        # What Lamina or a hook added, nobody said.
        "messages": sum(not {*(entry.get("origins") or "?")} <= _REMINDERS for entry in messages),
        "bytes": file.stat().st_size,
        "title": title,
        "parent": str(parents[0]) if parents else "",
    }


def not_among(passed: Sequence[Path], copied: Sequence[Path]) -> list[Path]:
    """The conversations that went through us and are not in their agent's own record as well: those
    that begin with the same words, while that session was under way, and got the same answer."""
    begun: dict[str, list[tuple[float, float, str]]] = {}
    for file in copied if passed else ():
        words, when, answer = _beginning(file)
        with suppress(OSError):
            span = (when - _NEAR, file.stat().st_mtime + _NEAR, answer)
            for one in words:
                begun.setdefault(one, []).append(span)
    kept: list[Path] = []
    for file in passed:
        words, when, said = _beginning(file)
        spans = [span for one in words for span in begun.get(one, ())]
        if not any(a <= when <= b and (said == answer or not said) for a, b, answer in spans):
            kept.append(file)
    return kept


def _beginning(file: Path) -> tuple[list[str], float, str]:
    """What the user said first, and when: of a copy what was typed, of a conversation every text; and
    the first words that came back, if any did."""
    words, when = list[str](), 0.0
    with suppress(OSError, ValueError), file.open("rb") as lines:
        for line in lines:
            entry = as_object(log.decode(line))
            texts = [str(block.get("text", "")).strip() for block in _blocks(entry)]
            if words and entry.get("role") == "assistant" and any(texts):
                return words, when, next(filter(None, texts))
            if not words and entry.get("role") == "user":
                texts = texts if agent_of(file) == "lamina" else [typed_text(entry).strip()]
                words, when = [one for one in texts if one], written_at(entry)
    return words, when, ""


def agent_of(file: Path) -> str:
    """Who recorded a session: copies of other agents' stand in a folder of that name."""
    return file.parent.name if file.parent.parent.name == "other-agents" else "lamina"


def show(entries: Iterable[Json]) -> None:
    """Print a conversation; a mark before each line says who speaks."""
    for entry in entries:
        edit = [("edit: ", edit_words(entry))] if entry["kind"] == "edit" else []
        for mark, words in _message(entry) if entry["kind"] == "message" else edit:
            out(style(mark, "bold") + harmless(words))


def texts_of(entry: Json) -> Iterator[tuple[str, str]]:
    """(who, text) of everything said in an entry and every tool result: the record holds them whole,
    whatever the model sees of them."""
    if entry.get("kind") != "message":
        return
    for origin, block in _with_origins(entry, "typed"):
        match block.get("type"):
            case "text":  # what nobody typed is not the user's, though it stands in their message
                who = str(entry.get("role")) if origin == "typed" else origin
                yield who, str(block.get("text", ""))
            case "tool_use":
                yield "call", json.dumps(block.get("input"), ensure_ascii=False)
            case "tool_result":
                yield "result", whole_text(block)
            case _:
                pass


def whole_result(entries: Iterable[Json], session: str, tool_use_id: str) -> bytes:
    """A tool result's bytes, from the record: the file it was moved to is only a copy."""
    for entry in entries:
        for block in _blocks(entry) if entry["kind"] == "message" else ():
            if block.get("type") == "tool_result" and block.get("tool_use_id") == tool_use_id:
                return whole_text(block).encode("utf-8", "replace")
    raise UsageError(f"The session {session} has no tool result {tool_use_id}.")


def _message(entry: Json) -> Iterator[tuple[str, str]]:
    who = "you: " if entry.get("role") == "user" else "agent: "
    for origin, block in _with_origins(entry, ""):
        match block.get("type"):
            case "text":
                said = "another agent" if origin == "agent" else origin
                mark = who if said in ("", "typed", "assistant") else f"{said}: "
                yield mark, str(block.get("text", ""))
            case "tool_use":
                given = json.dumps(block.get("input"), ensure_ascii=False)
                yield "call: ", f"{block.get('name')} {given}  [{block.get('id')}]"
            case "tool_result":
                yield "result: ", _shortened(whole_text(block), block)
            case "thinking" | "redacted_thinking":
                pass  # not meant for readers
            case other:
                yield who, f"[{other}]"


def _shortened(text: str, block: Json) -> str:
    text = ("failed: " if block.get("is_error") else "") + text
    if len(text) <= LONGEST_RESULT:
        return text
    rest, name = len(text) - LONGEST_RESULT, block.get("tool_use_id")
    return f"{text[:LONGEST_RESULT]}\n[{rest:,} more characters: --result {name} prints them all]"


def edit_words(entry: Json) -> str:
    """What a layer did, in a few words."""
    layer, done = entry.get("layer"), entry.get("op")
    if done == "replace":
        return f"{layer} replaced {plural(len(dicts(entry.get('items'))), 'block')}"
    if done == "fold":
        return f"{layer} folded a span [{str(entry['uuid'])[:8]}]{_kept(entry)}"
    return f"{layer} undid an edit" if done == "revoke" else f"{layer}: {done}"


def _kept(fold: Json) -> str:
    """How a compaction was made, and how many of the probed facts it kept."""
    boundary: Json = fold.get("boundary") or {}
    found: Json = boundary.get("fidelity") or {}
    if not found:
        return ""
    kinds = cast("dict[str, float]", found.get("by_kind") or {})
    each = ", ".join(f"{kind} {share:.0%}" for kind, share in kinds.items())
    return (
        f": {boundary.get('trigger')}, from the {_SOURCES.get(str(boundary.get('source')), 'record')}, "
        f"{boundary.get('tokens_before'):,} tokens before; fidelity {found.get('score'):.0%} of "
        f"{found.get('probes')} probes" + (f" ({each})" if each else "")
    )


def typed_text(entry: Json) -> str:
    for origin, block in _with_origins(entry, "typed"):
        if block.get("type") == "text" and origin == "typed":
            return str(block.get("text", ""))
    return ""


def _with_origins(entry: Json, otherwise: str) -> Iterator[tuple[str, Json]]:
    """Each block and who said it, as far as that is known."""
    origins: list[Any] = entry.get("origins") or []
    for number, block in enumerate(_blocks(entry)):
        yield str(origins[number]) if number < len(origins) else otherwise, block


def _blocks(entry: Json) -> list[Json]:
    content: Any = entry.get("content")
    return [text(content)] if isinstance(content, str) else dicts(content)


# ---- request by request


@dataclass(slots=True)
class Call:
    """One request of a session, and what happened since the one before."""

    number: int
    at: float
    position: int  # entries before it
    tokens: int = 0  # of the view, as counted before it was sent
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    typed: str = ""
    answer: str = ""
    tools: list[str] = field(default_factory=list[str])
    edits: list[tuple[Json, int]] = field(default_factory=list["tuple[Json, int]"])  # less tokens
    breaks: list[Json] = field(default_factory=list["Json"])


def requests_of(
    entries: Sequence[Json], prices: Mapping[str, Mapping[str, Any]] | None = None
) -> list[Call]:
    """All requests of a session, oldest first. Recordings of other agents have none: there each
    answer stands for one."""
    calls: list[Call] = []
    projection, model = Projection(), ""
    edits: list[tuple[Json, int]] = []
    breaks: list[Json] = []
    typed = ""
    waiting: Call | None = None
    for position, entry in enumerate(entries):
        kind, before = entry["kind"], projection.tokens
        projection.add(entry)
        answers = kind == "message" and entry.get("role") == "assistant"
        if kind == "frame":
            model = str(entry.get("model") or "")
        elif kind == "edit":
            edits.append((entry, before - projection.tokens))
        elif kind == "event" and as_object(entry.get("event")).get("kind") == "cache_broke":
            breaks.append(as_object(entry.get("event")))
        elif kind == "message" and not answers:
            typed = typed_text(entry) or typed
        if (kind == "request" and entry.get("purpose") in ("main", "agent")) or (
            answers and waiting is None
        ):
            waiting = Call(len(calls) + 1, written_at(entry), position, typed=typed, edits=edits)
            waiting.tokens, edits, typed = int(entry.get("tokens") or 0), [], ""
            calls.append(waiting)
        if answers and waiting is not None:
            content = dicts(entry.get("content"))
            waiting.usage = Usage.from_json(entry.get("usage"))
            waiting.cost = cost(waiting.usage, price_of(model, prices)) if model else 0.0
            waiting.answer = text_of([b for b in content if b.get("type") == "text"])
            waiting.tools = [str(b.get("name")) for b in content if b.get("type") == "tool_use"]
            waiting = None
        if breaks and calls:  # told after the answer that showed it
            calls[-1].breaks += breaks
            breaks = []
    return calls
