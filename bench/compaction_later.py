"""What the work needed after a compaction, and which texts still hold it.

The probe: facts of the removed span (files, names, numbers, commands, demands of the user) that the
recorded work uses after the cut, in the agent's words and calls or in the user's words, up to the
next compaction. A text holds a fact if it says it. The rules are not the product's: a fact is a word
of a certain shape, wherever in the span it stands, and nothing is known of how it got there.

The recorded work ran on the recorded summary, so the probe favours that summary a little: what it
forgot could be used only where it was found again. And any list of names does well; so every table
has the same text with names drawn by lot.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.compaction_probes import MODAL, WRAPPER, close_together, fold

if TYPE_CHECKING:
    from bench.compaction_cuts import Entry

KINDS = ("files", "names", "numbers", "commands", "constraints")
_WORD = re.compile(r"[A-Za-z_]\w{3,39}")
_HUMP = re.compile(r"[a-z\d][A-Z]|[A-Za-z\d]_[A-Za-z\d]")
_NUMBER = re.compile(r"(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w-])")
_LINE_NUMBER = re.compile(r"(?m)^\s*\d+(?:→|\t|: )")
_PATH = re.compile(r"(?:[\w.@-]+/)+[\w.@-]*[A-Za-z]\w*\.[A-Za-z]\w{0,5}\b")
_CD = re.compile(r"^cd \S+ (?:&&|;) ")

Facts = dict[str, set[str]]


def half(name: str) -> str:
    """Everything was chosen on `choose`; `report` was looked at for the tables alone."""
    return "report" if hashlib.sha256(name.encode()).digest()[0] % 2 else "choose"


# ---- facts


def texts(entry: Entry, *, results: bool) -> Iterator[str]:
    """What an entry says; only the agent and the user where results are left out."""
    for block in entry["content"]:
        kind = block.get("type")
        if kind == "text" and (results or entry["role"] == "assistant" or entry["typed"]):
            if entry["role"] == "assistant" or not WRAPPER.match(str(block["text"])):
                yield str(block["text"])
        elif kind == "tool_use":
            yield "\n".join(_strings(block.get("input")))
        elif kind == "tool_result" and results:
            yield _LINE_NUMBER.sub("", "\n".join(_strings(block.get("content"))))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in ("type", "id", "tool_use_id", "signature", "data", "media_type"):
                yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def names(text: str) -> set[str]:
    return {word for word in _WORD.findall(text) if _HUMP.search(word)}


def numbers(text: str) -> set[str]:
    """Of three digits at least: shorter ones stand everywhere."""
    return {n for n in _NUMBER.findall(text) if sum(c.isdigit() for c in n) >= 3}


def files(text: str) -> set[str]:
    """Paths by their last two parts."""
    return {"/".join(path.split("/")[-2:]) for path in _PATH.findall(text)}


def commands(entries: Iterable[Entry]) -> set[str]:
    """Program and first word after it."""
    found: set[str] = set()
    for entry in entries:
        for block in entry["content"]:
            if block.get("type") == "tool_use" and block.get("name") == "Bash":
                line = str((block.get("input") or {}).get("command") or "").strip().split("\n")[0]
                words = [w for w in _CD.sub("", line).split() if not w.startswith("-")][:2]
                if len(words) == 2:
                    found.add(" ".join(words))
    return found


def demands(entries: Iterable[Entry]) -> set[str]:
    return {
        sentence.strip()
        for entry in entries
        if entry["role"] == "user" and entry["typed"]
        for words in texts(entry, results=False)
        for sentence in re.split(r"(?<=[.!?])\s+|\n+", words)
        if 4 <= len(sentence.split()) <= 40 and MODAL.search(sentence)
    }


def used_later(span: Sequence[Entry], later: Sequence[Entry]) -> Facts:
    """The facts of a span that the work after it uses."""
    before = "\n".join(t for entry in span for t in texts(entry, results=True))
    after = "\n".join(t for entry in later for t in texts(entry, results=False))
    folded = fold(after)
    return {
        "files": files(before) & files(after),
        "names": names(before) & names(after),
        "numbers": numbers(before) & numbers(after),
        "commands": commands(span) & commands(later),
        "constraints": {d for d in demands(span) if close_together(d, folded)},
    }


# ---- what a text holds


@dataclass(frozen=True, slots=True)
class Held:
    """(held, all) by kind, of one text at one cut."""

    of: dict[str, tuple[int, int]]

    @property
    def by_kind(self) -> float:
        shares = [held / all_ for held, all_ in self.of.values() if all_]
        return sum(shares) / len(shares) if shares else 1.0

    @property
    def together(self) -> float:
        count = sum(all_ for _, all_ in self.of.values())
        return sum(held for held, _ in self.of.values()) / count if count else 1.0


def held(facts: Facts, view: str) -> Held:
    folded = fold(view)
    words = set(re.findall(r"\w+", view))
    figures = set(_NUMBER.findall(view))
    alone = [path.rsplit("/", 1)[-1] for path in facts["files"]]
    tests: dict[str, Callable[[str], bool]] = {
        # A name that no other file shares says enough.
        "files": lambda path: (
            path in view or (alone.count(name := path.rsplit("/", 1)[-1]) == 1 and name in view)
        ),
        "names": words.__contains__,
        "numbers": figures.__contains__,
        "commands": lambda command: fold(command) in folded,
        "constraints": lambda sentence: close_together(sentence, folded),
    }
    return Held({k: (sum(map(tests[k], facts[k])), len(facts[k])) for k in KINDS})


def by_lot(span: Sequence[Entry], count: int, seed: str) -> list[str]:
    """So many names of a span, drawn by lot."""
    every = sorted({n for e in span for t in texts(e, results=True) for n in names(t)})
    return random.Random(seed).sample(every, min(count, len(every)))
