"""Probes of the compaction benchmark, by rules that are not the product's.

They are drawn from the raw transcript, evenly over its length, and answered by any text that says
the same in any form: a file by its name alone, a command by its program and first argument, a
sentence when most of its words stand close together. So no summary is measured by its own format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

KINDS = ("files", "commands", "user messages", "constraints", "numbers", "errors", "names", "tasks")
_WORD = re.compile(r"[^\W\d_][\w-]{3,}|\d+")
_NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w-])")
MODAL = re.compile(
    r"\b(must|never|always|don't|do not|should|only|instead|make sure|without|avoid|keep|no need)\b",
    re.IGNORECASE,
)
_DEFINED = re.compile(r"\b(?:def|class|func|function|fn|interface|struct|type|const)\s+(\w{4,})")
_ERROR = re.compile(r"\b(\w*(?:Error|Exception)|undefined|panic|FAIL\w*|not found)\b[^\n]{0,120}")
WRAPPER = re.compile(r"^\s*<(?:system-reminder|command-|local-command|task-notification|bash-)")
_WINDOW = 400  # characters within which the words of a sentence must stand
NEEDED = 0.6  # of its words

Probe = tuple[str, str]  # (kind, what must be found)


def probes(entries: list[dict[str, Any]], each: int = 20) -> list[Probe]:
    found: dict[str, dict[str, None]] = {kind: {} for kind in KINDS}
    for kind, what in _facts(entries):
        if what:
            found[kind].setdefault(what)
    return [(kind, what) for kind in KINDS for what in _evenly(list(found[kind]), each)]


def _evenly(items: list[str], most: int) -> list[str]:
    if len(items) <= most:
        return items
    return [items[i * len(items) // most] for i in range(most)]


def _facts(entries: list[dict[str, Any]]) -> Iterator[Probe]:
    todos: list[str] = []
    for entry in entries:
        for block in entry["content"]:
            kind = block.get("type")
            if kind == "text" and entry["role"] == "user" and entry.get("typed"):
                yield from _user(str(block["text"]))
            elif kind == "text" and entry["role"] == "assistant":
                for number in _NUMBER.findall(str(block["text"])):
                    if sum(c.isdigit() for c in number) >= 2:
                        yield "numbers", number
            elif kind == "tool_use":
                given = block.get("input") or {}
                if block.get("name") == "TodoWrite":
                    todos = [
                        str(t.get("content"))
                        for t in given.get("todos") or []
                        if isinstance(t, dict) and t.get("status") != "completed"
                    ]
                yield from _call(str(block.get("name")), given)
            elif kind == "tool_result" and block.get("is_error"):
                error = _ERROR.search(_text(block.get("content")))
                yield "errors", error[0].strip() if error else ""
    for todo in todos:
        yield "tasks", todo


def _user(words: str) -> Iterator[Probe]:
    if WRAPPER.match(words):
        return
    if len(words.split()) >= 3:
        yield "user messages", words[:300]
    for sentence in re.split(r"(?<=[.!?])\s+|\n+", words):
        if 4 <= len(sentence.split()) <= 40 and MODAL.search(sentence):
            yield "constraints", sentence


def _call(name: str, given: dict[str, Any]) -> Iterator[Probe]:
    path = str(given.get("file_path") or given.get("notebook_path") or "")
    if name in ("Edit", "MultiEdit", "Write", "NotebookEdit") and path:
        yield "files", path.rsplit("/", 1)[-1]
        new = str(given.get("new_string") or given.get("content") or "")
        for found in _DEFINED.findall(new):
            yield "names", found
    if name == "Bash":
        line = str(given.get("command") or "").split("\n")[0]
        line = re.sub(r"^cd \S+ && ", "", line).strip()
        words = [w for w in line.split() if not w.startswith("-")][:2]
        yield "commands", " ".join(words) if len(words) == 2 else ""


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(p.get("text", "")) for p in content or [] if isinstance(p, dict))


def answered(probe: Probe, view: str) -> bool:
    """Does a text know it? `view` is folded already."""
    kind, what = probe
    wanted = fold(what)
    if kind == "numbers":
        return re.search(rf"(?<![\d.,]){re.escape(wanted)}(?![\d])", view) is not None
    if kind in ("files", "names"):
        return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", view) is not None
    if kind == "commands" or wanted in view:
        return wanted in view
    return close_together(wanted, view)


def close_together(sentence: str, view: str) -> bool:
    """Do most of a sentence's words stand near each other? `view` is folded already."""
    words = list(dict.fromkeys(_WORD.findall(fold(sentence))))[:15]
    if not words:
        return True
    needed = max(1, round(NEEDED * len(words)))
    places = sorted((m.start(), word) for word in words for m in re.finditer(re.escape(word), view))
    start = 0
    held: dict[str, int] = {}
    for at, word in places:
        held[word] = held.get(word, 0) + 1
        while places[start][0] < at - _WINDOW:
            gone = places[start][1]
            held[gone] -= 1
            start += 1
        if sum(count > 0 for count in held.values()) >= needed:
            return True
    return False


def fold(text: str) -> str:
    return re.sub(r"\s+", " ", text).casefold()


def score(found: list[Probe], view: str) -> dict[str, float]:
    """Share answered by kind, and `all`: the mean over the kinds that there are."""
    text = fold(view)
    hits: dict[str, list[bool]] = {}
    for probe in found:
        hits.setdefault(probe[0], []).append(answered(probe, text))
    shares = {kind: sum(rows) / len(rows) for kind, rows in hits.items()}
    shares["all"] = sum(shares.values()) / len(shares) if shares else 1.0
    return shares
