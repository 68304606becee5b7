"""All languages by their code, from `lists/cues.*.txt`. Apart from the rest: compiling their patterns
takes a tenth of a second, which only what reads conversations has to wait for.
"""

from __future__ import annotations

import re
from dataclasses import fields

from lamina.text.cues.any_language import Cues, verbose
from lamina.text.lists import sections

_NAME = re.compile(r"\{([A-Z_]+)\}")


def _cues(lang: str) -> Cues:
    lists = sections(f"cues.{lang}.txt")
    shared = {name: f"(?:{'|'.join(lines)})" for name, lines in lists.items() if name.isupper()}
    if work := lists.get("work"):
        shared |= _verbs(work)
    return Cues(
        **{
            field.name: verbose(_NAME.sub(lambda m: shared[m[1]], "|".join(lists[field.name])))
            for field in fields(Cues)
        }
    )


def _verbs(work: tuple[str, ...]) -> dict[str, str]:
    """What an agent is told to do, and the same with "-ing"."""
    doing = {
        form
        for verb in work
        if verb not in {"go", "move", "push", "stay"}
        for form in (f"{verb}ing", f"{verb[:-1]}ing", f"{verb}{verb[-1]}ing")
    }
    return {
        "VERB": rf"(?:{_longest_first(work)})\b(?!\s(?:up|in\sto)\b)",
        "ING": rf"(?:{_longest_first(doing)})\b",
    }


def _longest_first(words: tuple[str, ...] | set[str]) -> str:
    return "|".join(sorted(words, key=lambda word: (-len(word), word)))


LANGUAGES: dict[str, Cues] = {lang: _cues(lang) for lang in ("en", "de", "zh")}
