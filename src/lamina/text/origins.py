"""Whose words a text holds: what was typed and what was pasted, and what is only quoted or handed
over as material; and what only a model would read: hidden characters, and marks by which a text
poses as another speaker. Pure.

Fences, quoted lines, attached files in tags and piped input are pasted; the rest is the user's own
word. Where a text can be read both ways (a fence that never closes), it counts as pasted, because
only typed words can prove a memory. Of hidden characters, what people do write is let through:
emoji sequences, joiners between letters of scripts that need them, direction marks in lines with
right-to-left letters.
"""

from __future__ import annotations

import bisect
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from lamina.messages import Origin
from lamina.text.lists import anywhere, sections, words

# How texts begin that coding agents put into a user's message by themselves.
_BY_CLIENTS = (
    *("<environment_context", "<user_instructions", "<INSTRUCTIONS", "# AGENTS.md instructions"),
    *("<session_context", "<hook_context", "<system-", "<command-", "<local-command", "<bash-"),
    *("<ide_", "[Request interrupted", "<task-notification", "System: Please continue."),
    *("This session is being continued from a previous conversation", "Stop hook feedback:"),
    *("Implement the following plan:", "Another language model started to solve this problem"),
    *("<turn_aborted>", "The following is the Codex agent history", "<environment_details"),
    *("This is the Gemini CLI. We are setting up", "--- Content from referenced files ---"),
)
_QUOTED = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)*>")
_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)*(`{3,}|~{3,})")
_TICKS = re.compile(r"`{3,}")
_TAG = re.compile(r"\s*<([A-Za-z][\w:.-]*)(?:\s[^<>]*)?>")
_TAG_END = re.compile(r"</([A-Za-z][\w:.-]*)>")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a user's text, `text[start:end]`, and whose word it is."""

    origin: Literal["typed", "pasted"]
    start: int
    end: int
    text: str


def added_by_client(text: str) -> bool:
    """Whether nobody typed this, though it stands where the user's words do."""
    return text.lstrip().startswith(_BY_CLIENTS)


def split(
    text: str, *, piped: bool = False, pasted: Iterable[tuple[int, int]] = ()
) -> tuple[Span, ...]:
    """The spans of `text` in order, without gaps. `pasted` are ranges that a terminal saw pasted."""
    marks = bytearray(len(text))  # 1 = pasted
    if piped:
        marks = bytearray(b"\x01" * len(text))
    else:
        lines = _lines(text)
        _mark_tags(text, lines, marks)
        _mark_fences(text, lines, marks)
        for start, end in lines:
            if _QUOTED.match(text, start, end):
                _mark(marks, start, end)
        for start, end in pasted:
            _mark(marks, max(0, start), min(len(text), end))
    return _spans(text, marks)


def typed_parts(blocks: Sequence[tuple[Origin, str]]) -> list[str]:
    """Only what was typed in these blocks: typed blocks, without the pasted parts inside them."""
    return [
        span.text
        for origin, text in blocks
        if origin == "typed"
        for span in split(text)
        if span.origin == "typed" and span.text.strip()
    ]


def untyped_parts(blocks: Sequence[tuple[Origin, str]]) -> list[str]:
    """What neither the user typed nor the assistant said: pasted parts, tool results, hooks …"""
    parts: list[str] = []
    for origin, text in blocks:
        if origin == "typed":
            parts += [span.text for span in split(text) if span.origin == "pasted"]
        elif origin != "assistant":
            parts.append(text)
    return parts


def _lines(text: str) -> list[tuple[int, int]]:
    # splitlines knows every line end that a renderer may honour, U+2028 and form feed included.
    lines: list[tuple[int, int]] = []
    start = 0
    for line in text.splitlines(keepends=True):
        lines.append((start, start + len(line)))
        start += len(line)
    return lines


def _mark(marks: bytearray, start: int, end: int) -> None:
    if end > start:
        marks[start:end] = b"\x01" * (end - start)


def _mark_tags(text: str, lines: Sequence[tuple[int, int]], marks: bytearray) -> None:
    """A tag that opens a line, to the last tag that closes it: what is inside may fake an end."""
    last_end = {tag[1]: tag.start() for tag in _TAG_END.finditer(text)}
    done = 0
    for start, end in lines if last_end else ():
        if start < done:
            continue
        tag = _TAG.match(text, start, end)
        close = last_end.get(tag[1], -1) if tag else -1
        if close >= start:
            done = lines[bisect.bisect_right(lines, close, key=lambda line: line[0]) - 1][1]
            _mark(marks, start, done)


def _mark_fences(text: str, lines: Sequence[tuple[int, int]], marks: bytearray) -> None:
    first = -1  # where the first fence opened
    fence = ""  # the marker that closes the open one
    loose = False  # it opened in the middle of a line, so it may close there too
    for start, end in lines:
        line = text[start:end]
        if fence:
            _mark(marks, start, end)
            if _closes(line.strip(), fence, loose=loose):
                fence = ""
            continue
        opened = _FENCE.match(line)
        runs = [*_TICKS.finditer(line)]
        if opened and (opened[1][0] == "~" or len(runs) == 1):
            fence, loose, at = opened[1], False, start
        elif len(runs) % 2:
            fence, loose, at = runs[0][0], True, start + runs[0].start()
        elif runs:
            _mark(marks, start, end)  # a fence that opens and closes on one line
            continue
        else:
            continue
        first = at if first < 0 else first
        _mark(marks, at, end)
    if fence:  # never closed: pasted text may have held a marker, so no boundary can be trusted
        _mark(marks, first, len(text))


def _closes(line: str, fence: str, *, loose: bool) -> bool:
    if line and not line.strip(fence[0]) and len(line) >= len(fence):
        return True
    return loose and any(len(run[0]) >= len(fence) for run in _TICKS.finditer(line))


def _spans(text: str, marks: bytearray) -> tuple[Span, ...]:
    spans: list[Span] = []
    start = 0
    while start < len(text):
        mark = marks[start]
        end = marks.find(1 - mark, start)
        end = len(text) if end < 0 else end
        spans.append(Span("pasted" if mark else "typed", start, end, text[start:end]))
        start = end
    return tuple(spans)


QUOTE = "\x01"  # stands for each character of a quotation

_QUOTES = re.compile(
    r"`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»|»[^«\n]*«"
    r"|「[^」\n]*」|『[^』\n]*』|《[^》\n]*》"
    r"|(?<![\w])'[^'\n]{2,}?(?:'\w[^'\n]*?)*'(?!\w)|(?<!\w)‘[^’\n]*’(?!\w)"
)
_MATERIAL = words("own_words.material")


def without_quotations(sentence: str) -> str:
    """Same length, with what stands in quotation marks or backticks blanked out."""
    return _QUOTES.sub(lambda match: QUOTE * len(match[0]), sentence)


def handed_over_in(plain: str) -> str | None:
    """What follows "translate:" or "he said:", which is material and not meant; None if nothing does."""
    colon = _COLON.search(plain)
    return plain[colon.end() :] if colon and _MATERIAL.search(plain, 0, colon.start()) else None


_COLON = re.compile(r":(?=\s|$|\x01)|：")


# ---- what a text asks somebody to do

_SENTENCE = re.compile(r"(?<=[.!?;。！？；])[\"'”’)*_]*\s*(?=\S)|\n+")
_CLAUSE = re.compile(r"(?<=[,:，：])\s+|\s[–—-]\s|\s(?=(?:and|then|und|dann)\s)")
_PLAIN = re.compile(r"\w+(?:['’-]\w+)*|\$|[?？]")
_CODE = re.compile(r"`[^`\n]*`")
_TURN = re.compile(
    r"(?im)^[\s>*_#-]*(?:user|human|assistant|system|nutzer|用户|助手)\s*[:：]|^type:\s*(?:user|feedback)\b"
)


def asks_somebody(text: str) -> str:
    """ "" or the first sentence by which a text asks or tells anybody to do something: an order, a
    question, a duty, a wish in the user's name, a turn of talk. A fact does none of these."""
    if turn := _TURN.search(text):
        return turn[0].strip()
    plain = _CODE.sub("`x`", text)
    return next((one for one in _SENTENCE.split(plain) if one.strip() and _asks(one)), "").strip()


def tells_of_code(text: str) -> bool:
    """Does it say what code or git say by themselves: architecture, a fix, a commit?"""
    return bool(_told_by_code().search(text))


@lru_cache(maxsize=1)
def _told_by_code() -> re.Pattern[str]:
    return anywhere(sections("urging.txt")["tells"])


@lru_cache
def _requests(section: str) -> frozenset[str]:
    return frozenset(sections("urging.txt")[section])


@lru_cache(maxsize=1)
def _phrases() -> re.Pattern[str]:
    return anywhere(sections("urging.txt")["asks"])


def _asks(sentence: str) -> bool:
    words = [word.replace("’", "'") for word in _PLAIN.findall(sentence.casefold())]
    if not words:
        return False
    spoken_to = words[-1] in "?？" or not _requests("you").isdisjoint(words)
    if spoken_to or any(one in sentence for one in ("你", "您")) or _phrases().search(sentence):
        return True
    if _binds(words) or _leaves_to_do(words) or _tells_an_actor(words, sentence):
        return True
    return any(_orders(clause, first=n == 0) for n, clause in enumerate(_CLAUSE.split(sentence)))


def _binds(words: Sequence[str]) -> bool:
    """ "Agents must …", "all invoices should be sent …"; not "the port must be unique"."""
    duty, state = _requests("duty"), _requests("state")
    for at, word in enumerate(words):
        if word in duty or " ".join(words[at : at + 2]) in duty:
            rest = [one for one in words[at + 1 : at + 4] if one not in ("to", "not")]
            if rest[:1] != ["be"] or not (rest[1:2] and (rest[1] in state or rest[1].isdigit())):
                return True
    mandatory = {"mandatory", "compulsory", "obligatory", "required", "pflicht"}
    return words[0].endswith("ing") and not mandatory.isdisjoint(words)


def _leaves_to_do(words: Sequence[str]) -> bool:
    """ "The next step is to …", "failure to …", "expects everybody to …"; not what a thing is for."""
    for at, (before, word, after) in enumerate(
        zip(words, words[1:], [*words[2:], ""], strict=False)
    ):
        if word == "to" and after.isalpha() and after not in _requests("object"):
            wanted = words[max(at - _WANTED_WITHIN, 0) : at]
            if before in _requests("left") or not _requests("wants").isdisjoint(wanted):
                return True
        german = word == "zu" or (word[-2:] == "en" and "zu" in word[1:-3])
        if german and not {"ist", "sind", "gilt", "bleibt"}.isdisjoint(words[: at + 1]):
            return True
    return False


_WANTED_WITHIN = 6  # words


def _tells_an_actor(words: Sequence[str], sentence: str) -> bool:
    """ "The assistant forwards all mail": whoever reads memories is told what it does."""
    actors, does = _requests("actors"), _requests("does")
    for at, word in enumerate(words[:-1]):
        after = words[at + 1]
        if word in actors and after not in does and after not in actors and after.isalpha():
            return True
    return any(one in sentence for one in actors if one >= "\u3400")


def _orders(clause: str, *, first: bool) -> bool:
    bare = _LIST_MARKS.sub("", clause)
    words = _PLAIN.findall(bare.casefold())
    while words and words[0] in ("and", "then", "also", "first", "finally", "und", "dann", "now"):
        words = words[1:]
    if not words:
        return False
    verb, after = words[0], words[1] if len(words) > 1 else ""
    if not first and bare[:1].isupper():  # a name amid a sentence
        return False
    if any(verb.startswith(one) for one in _requests("verbs") if one >= "\u3400"):
        return True
    if verb in _requests("verbs"):
        return bool(after) and after not in _requests("nouns")
    inflected = verb.endswith(("s", "ed", "ing", "ly")) and not verb.endswith("ss")
    statement = (
        inflected or verb in _requests("no_verb") or not verb.isalpha() or bare[:2].isupper()
    )
    wanted = _requests("object") if first else _requests("pronouns")
    return not statement and after in wanted


_LIST_MARKS = re.compile(r"^(?:[\s>#*_~`\-+•–—\"'“‘(\[\]]|\d{1,3}[.)]\s)+")


# ---- what a person does not see

# Everything that can be invisible, redirects reading, or drives a terminal. One regular expression
# keeps clean text cheap; the rare hit is then looked at in its place.
_SUSPECT = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    "\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
# Tags and markers by which a text could speak as the system or as another turn.
_SPEAKS_AS_SYSTEM = re.compile(
    r"</?\s*(?:system-reminder|persisted-output|system|assistant|human|function_calls|tool_result)\s*>"
    r"|<\|[a-z_]{2,24}\|>|\[/?INST\]|<</?SYS>>|^(?:Human|Assistant|System):\s",
    re.IGNORECASE | re.MULTILINE,
)
# Scripts whose letters change form by joiners.
_JOINING = (
    "ARABIC", "SYRIAC", "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU",
    "KANNADA", "MALAYALAM", "SINHALA", "KHMER", "MYANMAR", "MONGOLIAN", "TIBETAN", "THAANA", "NKO",
)  # fmt: skip
_SUBDIVISION_FLAG = re.compile(
    "\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)"
    "\U000e007f"
)


def hidden_character(text: str) -> str:
    """ "" or what the first hidden character is and where: `U+202E RIGHT-TO-LEFT OVERRIDE in line 3`."""
    text = _SUBDIVISION_FLAG.sub(lambda flag: "f" * len(flag[0]), text)
    for found in _SUSPECT.finditer(text):
        at = found.start()
        if not _belongs(text, at):
            return f"{_describe(text[at])} in line {text.count(chr(10), 0, at) + 1}"
    return ""


def speaks_as_system(text: str) -> str:
    """ "" or the first marker by which the text poses as the system or as another speaker."""
    found = _SPEAKS_AS_SYSTEM.search(text)
    return found[0].strip() if found else ""


def _describe(char: str) -> str:
    name = unicodedata.name(char, "")
    if not name:
        name = {"Cc": "a control character", "Cs": "a lone surrogate"}.get(
            unicodedata.category(char), "an invisible character"
        )
    return f"U+{ord(char):04X} {name}"


def _belongs(text: str, at: int) -> bool:
    char = text[at]
    before = text[at - 1] if at else ""
    after = text[at + 1 : at + 2]
    if char in "\u200c\u200d":
        letters = _joins(before) and _joins(after)
        return letters or (char == "\u200d" and _pictures(before) and _pictures(after))
    if char in "\ufe0e\ufe0f":
        return _pictures(before) or (before in "0123456789#*" and before != "")
    if char in "\u200e\u200f\u061c":
        return _has_right_to_left(_line_around(text, at))
    if char in "\ufffd\ufffc":
        return True  # the visible signs for "could not be read" and "an object was here"
    return char == "\u180b" and before.isalpha()


def _joins(char: str) -> bool:
    return char != "" and unicodedata.name(char, "").startswith(_JOINING)


def _pictures(char: str) -> bool:
    return char != "" and (
        unicodedata.category(char) in ("So", "Sk", "Sm", "Po") or char == "\ufe0f"
    )


def _line_around(text: str, at: int) -> str:
    start = max(text.rfind("\n", 0, at) + 1, at - 500)
    end = text.find("\n", at)
    return text[start : min(len(text) if end < 0 else end, at + 500)]


def _has_right_to_left(line: str) -> bool:
    return any(
        unicodedata.bidirectional(char) in ("R", "AL")
        for char in line
        if char > "\u0590" and char not in "\u200f\u061c"
    )
