"""What a plain sentence asks for, without a model: read, list, search, run, remember, forget, recall. Pure
text rules in English (forgetting in German and Chinese too); what they don't know stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast

from lamina.memory import title_of
from lamina.messages import Json
from lamina.text.asks import forget_wish

Wish = Literal["read", "list", "search", "run", "remember", "forget", "recall"]

TOOL_OF: dict[Wish, str] = {
    "read": "Read",
    "list": "Glob",
    "search": "Grep",
    "run": "Bash",
    "remember": "Remember",
    "forget": "Forget",
    "recall": "Recall",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """One thing to do: the wish and its words (a path, a pattern, a command, a fact)."""

    wish: Wish
    words: str
    where: str = ""


_POLITE = re.compile(
    r"^(?:please|can you|could you|would you|kindly|now|then|hey|ok(?:ay)?)[,\s]+", re.IGNORECASE
)
_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)  # what is asked for does not depend on it
_FILE = r"[`'\"]?((?:[\w.@~+-]+/|/)*[\w.@+-]*\.\w+|(?:[\w.@~+-]+/|/)+[\w.@+-]+|Makefile|Dockerfile|LICENSE|README)[`'\"]?"
_FILES = re.compile(_FILE)

_RECALL = re.compile(
    r"^(?:what (?:do you|did you|can you) (?:remember|recall|know) (?:about|of)|recall|"
    r"do you (?:remember|recall|know) (?:anything about|about)?)\s*(.+?)[?.!]*$",
    re.IGNORECASE | re.DOTALL,
)
_RUN = re.compile(
    r"^(?:run|execute)\s+(?:the\s+command\s+)?(.+)$|^[$!]\s*(.+)$", re.IGNORECASE | re.DOTALL
)
_SEARCH = re.compile(
    r"^(?:search(?:\s+for)?|grep(?:\s+for)?|look\s+for|find\s+(?:uses|occurrences|mentions)\s+of|"
    r"where\s+is)\s+(.+?)(?:\s+(?:defined|used))?(?:\s+(?:in|under)\s+(\S+))?[?]?$",
    re.IGNORECASE | re.DOTALL,
)
_LIST = re.compile(
    r"^(?:list|show|find|which|what)\s+(?:me\s+)?(?:all\s+)?(?:the\s+)?"
    r"(?:([\w*?./\[\]{}-]*[*?][\w*?./\[\]{}-]*)(?:\s+files)?|(\w+)\s+files|files)"
    r"(?:\s+(?:named|matching|like|called)\s+(\S+))?(?:\s+(?:are\s+)?(?:in|under)\s+(\S+))?"
    r"(?:\s+(?:are\s+)?(?:here|there))?[?.]?$",
    re.IGNORECASE,
)
_GLOB = re.compile(r"^glob\s+(\S+)$", re.IGNORECASE)
_READ = re.compile(
    r"^(?:read|show|open|cat|print|display|look\s+at|view)\s+(?:me\s+)?(.+)$",
    re.IGNORECASE | re.DOTALL,
)

_ENDINGS = {"python": "py", "markdown": "md", "javascript": "js", "typescript": "ts", "rust": "rs"}


def understand(sentence: str) -> list[Wanted]:
    """What is asked for, in order; empty when no rule fits."""
    plain = sentence.strip()
    if wish := forget_wish(plain):
        return [Wanted("forget", wish.words)]
    if wanted := _remembering(plain):
        return wanted
    for _ in range(4):
        plain = _POLITE.sub("", plain, count=1)
    for rule in (_recalling, _running):
        if wanted := rule(plain):
            return wanted
    # The rest looks at every word, which takes quadratic time, and a long text asks for more.
    for rule in (_listing, _searching, _reading) if len(plain) <= 2_000 else ():
        if wanted := rule(plain):
            return wanted
    return []


def _remembering(message: str) -> list[Wanted]:
    """All that the message asks to have kept; after "remember this:" that is the whole rest."""
    # Their rules take a while to load.
    from lamina.text.hidden import hidden_character
    from lamina.text.own_words import asked_at, typed_sentences
    from lamina.text.wishes import wish_in

    typed = {"role": "user", "origin": "typed", "content": message}
    sentences = typed_sentences([typed], _ANY_DAY)
    found: list[Wanted] = []
    for place in range(len(sentences)):
        if asked := asked_at(sentences, place):
            if asked.wish.next_says:
                rest = message[message.index(asked.because[0].text) :]
                return [*found, Wanted("remember", rest.strip())]
            found.append(Wanted("remember", asked.text))
    if not found and hidden_character(message) and (wish := wish_in(message)):
        # No statement of anybody's, but the gate can say what is wrong with it.
        found.append(Wanted("remember", message[wish.start : wish.end]))
    return found


def _recalling(plain: str) -> list[Wanted]:
    match = _RECALL.match(plain)
    return [Wanted("recall", match[1].strip())] if match else []


def _running(plain: str) -> list[Wanted]:
    match = _RUN.match(plain)
    return [Wanted("run", _unquoted(match[1] or match[2]))] if match else []


def _listing(plain: str) -> list[Wanted]:
    if match := _GLOB.match(plain):
        return [Wanted("list", _unquoted(match[1]))]
    match = _LIST.match(plain)
    if not match:
        return []
    pattern = match[1] or match[3] or _ending(match[2]) or "**/*"
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    return [Wanted("list", pattern, _unquoted(match[4] or ""))]


def _ending(word: str | None) -> str:
    return "" if word is None else f"*.{_ENDINGS.get(word.lower(), word.lower())}"


def _searching(plain: str) -> list[Wanted]:
    match = _SEARCH.match(plain)
    return [Wanted("search", _unquoted(match[1]), _unquoted(match[2] or ""))] if match else []


def _reading(plain: str) -> list[Wanted]:
    match = _READ.match(plain)
    if not match:
        return []
    return [Wanted("read", file) for file in dict.fromkeys(_FILES.findall(match[1]))]


def _unquoted(words: str) -> str:
    stripped = words.strip()
    for mark in "`'\"":
        if len(stripped) > 1 and stripped[0] == stripped[-1] == mark:
            return stripped[1:-1]
    return stripped


# ---- the input of a tool, by its own schema

_PLACES = ("path", "directory", "dir", "folder", "cwd")
_WORDS: dict[Wish, tuple[str, ...]] = {
    "read": ("file_path", "path", "file"),
    "list": ("pattern", "glob"),
    "search": ("pattern", "query", "regex"),
    "run": ("command", "cmd"),
    "remember": ("content", "body", "text", "memory", "fact"),
    "forget": ("memory", "file", "path", "query", "text", "about"),
    "recall": ("query", "question", "about", "text", "topic"),
}


def input_for(wanted: Wanted, tool: Mapping[str, Any]) -> Json | None:
    """The tool's input for a wish, or None where its schema has no place for the words."""
    schema = cast("Json", tool.get("input_schema") or {})
    fields = cast("dict[str, Any]", schema.get("properties") or {})
    words = wanted.words
    if wanted.wish == "search":
        words = re.escape(words) if "regex" not in fields else words
    field = next((name for name in _WORDS[wanted.wish] if name in fields), None)
    if field is None:
        return None
    given: Json = {field: words}
    place = next((name for name in _PLACES if name in fields and name != field), None)
    if wanted.where and place:
        given[place] = wanted.where
    modes = cast("Json", fields.get("output_mode") or {}).get("enum") or ()
    if wanted.wish == "search" and "content" in modes:
        given["output_mode"] = "content"  # the lines themselves, not only where they are
    for name in cast("Sequence[str]", schema.get("required") or ()):
        if name not in given:
            given[name] = _filled(name, fields.get(name) or {}, wanted.words)
    return given


def _filled(name: str, schema: Mapping[str, Any], words: str) -> Any:
    """A value for a required field that the sentence doesn't name."""
    choices = [str(choice) for choice in schema.get("enum") or ()]
    if choices:
        from lamina.local.extractor import kind_of  # its rules take a while to load

        guess = kind_of(words)
        return guess if guess in choices else choices[0]
    match schema.get("type"):
        case "array":
            return [words]
        case "boolean":
            return False
        case "integer" | "number":
            return 0
        case _:
            return title_of(words) if name in ("name", "title") else " ".join(words.split())
