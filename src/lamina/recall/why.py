"""Why a memory was recalled (a `recall` entry of the ledger), whether the answer used it (a
`recall_use` entry that follows), and how people are told of both. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lamina.local.embedder import word_vectors
from lamina.messages import Json, as_list, as_object, dicts, text_of
from lamina.recall.prefetch import Candidate, Selection
from lamina.text.terms import terms

# Set by hand; no benchmark measures them.
_USED_SHARE = 0.3  # of one statement's own words, rare ones counting more
_TELLING = 0.9  # a word this rare shows by itself where it came from
_REPEATED = 3  # words of a statement in the answer one after the other: it is the memory
_STATEMENT = re.compile(r"[\n]+|(?<=[.!?。！？])\s+")
_MOST_WORDS = 8  # of the shared words, in the record


def recall_entry(
    question: str,
    candidates: Sequence[Candidate],
    selection: Selection | None,
    *,
    attached: str = "",
    shown: Sequence[Json] = (),
    left: str = "",
    in_view: Sequence[str] = (),
) -> Json:
    """`left` says why nothing was attached, where something might have been; `in_view` is what fits
    and was shown before. Of what was only offered
    to a model the number is kept."""
    picks = selection.paths if selection else ()
    entry: Json = {
        "kind": "recall",
        "query": question,
        "offered": len(candidates),
        "candidates": [
            {
                "path": match.id,
                "score": round(match.score, 3),
                "confidence": round(match.confidence, 3),
                "parts": {name: round(value, 3) for name, value in match.parts.items() if value},
            }
            for match in (one.match for one in candidates)
            if match.score or match.id in picks
        ],
        "picks": list(picks),
        "by": selection.by if selection else "",
        "attached": attached,
        "shown": list(shown),
    }
    more: Json = {"said": selection.said, "why": selection.why} if selection else {}
    more |= {"left": left, "in_view": list(in_view)}
    return entry | {name: words for name, words in more.items() if words}


def use_entry(recall: str, uses: Mapping[str, MemoryUse]) -> Json:
    return {
        "kind": "recall_use",
        "recall": recall,
        "uses": {
            path: {"used": use.used, "share": round(use.share, 3), "words": list(use.words)}
            for path, use in uses.items()
        },
    }


# ---- was it used?


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """How much of a memory's own words the answer holds."""

    used: bool
    share: float
    words: Sequence[str] = ()


def used(memory: str, question: str, answer: str) -> MemoryUse:
    """Whether the answer says something that stands in the memory and not in the question.

    One statement of the memory is enough: its words are weighed by how rare they are in English.
    """
    rarity = word_vectors().rarity
    asked, said = set(terms(question)), set(terms(answer))
    whole = " ".join(answer.casefold().split())
    best = MemoryUse(used=False, share=0.0)
    for statement in _STATEMENT.split(memory):
        # In the order of the text: that of a set, and with it the last bit of a sum, would differ.
        words = terms(statement)
        plain = statement.casefold().split()
        if len(plain) >= _REPEATED and " ".join(plain) in whole:
            return MemoryUse(used=True, share=1.0, words=tuple(dict.fromkeys(words))[:_MOST_WORDS])
        own = [word for word in dict.fromkeys(words) if word not in asked]
        shared = [word for word in own if word in said]
        if not shared:
            continue
        share = sum(map(rarity, shared)) / sum(map(rarity, own))
        telling = len(shared) > 1 or max(map(rarity, shared)) >= _TELLING
        enough = telling and share >= _USED_SHARE
        if (enough, share) > (best.used, best.share):
            rarest = sorted(shared, key=lambda word: (-rarity(word), word))
            best = MemoryUse(enough, share, tuple(rarest[:_MOST_WORDS]))
    return best


def answer_after(entries: Sequence[Json], entry: str) -> str:
    """Everything that the agent said or called after an entry, for the comparison."""
    start = next((at for at, one in enumerate(entries) if one.get("uuid") == entry), len(entries))
    said: list[str] = []
    for one in entries[start + 1 :]:
        if one.get("kind") != "message" or one.get("role") != "assistant":
            continue
        content = dicts(one.get("content"))
        said.append(text_of(content))
        said += [str(block.get("input")) for block in content if block.get("type") == "tool_use"]
    return "\n".join(said)


# ---- for people


@dataclass(slots=True)
class RecallRecord:
    """One recall with all that is known of it."""

    turn: int
    question: str
    entry: Json
    uses: Json = field(default_factory=dict[str, Any])

    def to_json(self) -> Json:
        return {"turn": self.turn, "question": self.question, **self.entry, "uses": self.uses}


def recalls_of(entries: Sequence[Json]) -> list[RecallRecord]:
    """All recalls of a session, oldest first; turns are counted by the messages that were typed."""
    turns: dict[str, tuple[int, str]] = {}
    found: dict[str, RecallRecord] = {}
    for entry in entries:
        kind = entry.get("kind")
        if _is_typed(entry):
            pairs = zip(as_list(entry.get("content")), entry["origins"], strict=False)
            typed = dicts([block for block, origin in pairs if origin == "typed"])
            turns[str(entry.get("uuid"))] = (len(turns) + 1, text_of(typed))
        elif kind == "recall":
            turn, question = turns.get(str(entry.get("query")), (len(turns), ""))
            found[str(entry.get("uuid"))] = RecallRecord(turn, question, entry)
        elif kind == "recall_use" and (recalled := found.get(str(entry.get("recall")))):
            recalled.uses = as_object(entry.get("uses"))
    return list(found.values())


def turns_of(entries: Sequence[Json]) -> int:
    """How many messages were typed."""
    return sum(map(_is_typed, entries))


def _is_typed(entry: Json) -> bool:
    return entry.get("kind") == "message" and "typed" in as_list(entry.get("origins"))


def lines(recalled: RecallRecord) -> Iterator[str]:
    """A recall in words."""
    entry = recalled.entry
    yield f"turn {recalled.turn}: {' '.join(recalled.question.split())[:200]}"
    picks = as_list(entry.get("picks"))
    for one in dicts(entry.get("candidates")):
        values = as_object(one.get("parts")).items()
        parts = ", ".join(
            f"{name} {v:g}" if isinstance(v, float) else f"{name} {v}" for name, v in values
        )
        mark, path = "*" if one.get("path") in picks else " ", _on_one_line(one.get("path"))
        yield f"  {mark} {path}  score {one.get('score')}, sure {one.get('confidence')} ({parts})"
    rest = entry.get("offered", 0)
    if isinstance(rest, int) and (rest := rest - len(dicts(entry.get("candidates")))) > 0:
        yield f"    and {rest} more that share no words with it were offered"
    by = entry.get("by") or "nobody"
    chosen = ", ".join(map(_on_one_line, picks)) or "none of them"
    reason = f" ({entry['why']})" if entry.get("why") else ""
    yield f"  {by} picked {chosen}{reason}"
    if entry.get("said"):
        yield f"  it said: {' '.join(str(entry['said']).split())}"
    for path in as_list(entry.get("in_view")):
        yield f"  {_on_one_line(path)} fits too and was in view already"
    if entry.get("left"):
        yield f"  not shown: {entry['left']}"
    for one in dicts(entry.get("shown")):
        yield "  " + _shown_line(one, entry, recalled.uses)


def _shown_line(one: Json, entry: Json, uses: Json) -> str:
    cut = ", cut" if one.get("cut") else ""
    path, message = _on_one_line(one.get("path")), str(entry.get("attached"))[:8]
    where = f"{path} went into message {message} ({one.get('bytes')} bytes{cut})"
    use = as_object(uses.get(str(one.get("path"))))
    if not use:
        return f"{where}; the answer has not come"
    words = ", ".join(map(str, as_list(use.get("words"))))
    if use.get("used"):
        return f"{where}; the answer used it: {words}"
    return f"{where}; the answer did not use it" + (f" (only: {words})" if words else "")


def _on_one_line(name: object) -> str:
    return " ".join(str(name).split())
