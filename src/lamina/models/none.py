"""The engine without a model: it reads plain requests by rules (read, list, search, run, remember,
forget, recall), calls the tools that it is offered, reports what they gave, and otherwise says that
no model is configured. Deterministic; no network, no files, no clock. It is the default where no
key is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, cast

from lamina import messages
from lamina.events import Emit, TextDelta
from lamina.ledger import tokens
from lamina.memory import title_of
from lamina.messages import Block, Json, Request, Response, as_object, blocks_of, text, text_of
from lamina.ports import Capabilities
from lamina.text.asks import classify
from lamina.text.lists import Listed
from lamina.text.own_words import asked_in
from lamina.text.terms import DOINGS, beginning, best_lines, narrower, words_asked
from lamina.text.wording import fold

Wish = Literal["read", "list", "search", "run", "remember", "forget", "recall", "about", "where"]

TOOL_OF: dict[Wish, str] = {
    "read": "Read", "list": "Glob", "search": "Grep", "run": "Bash", "remember": "Remember",
    "forget": "Forget", "recall": "Recall", "about": "Glob", "where": "Grep",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wanted:
    """One thing to do: the wish and its words (a path, a pattern, a command, a fact)."""

    wish: Wish
    words: str
    where: str = ""


_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)  # what is asked for does not depend on it
_POLITE = Listed("requests.polite")
_FILES = Listed("requests.file", flags=re.NOFLAG)
_PLAIN: tuple[tuple[Wish, Listed], ...] = (
    ("recall", Listed("requests.recall", flags=re.IGNORECASE | re.DOTALL)),
    ("run", Listed("requests.run", flags=re.IGNORECASE | re.DOTALL)),
    ("run", Listed("requests.command", flags=re.NOFLAG)),
    ("about", Listed("requests.about")),
)
# These look at every word, which takes quadratic time, and a long text asks for more.
_SHORT: tuple[tuple[Wish, Listed], ...] = (
    ("list", Listed("requests.list")),
    ("search", Listed("requests.search", flags=re.IGNORECASE | re.DOTALL)),
    ("where", Listed("requests.where")),
    ("read", Listed("requests.read", flags=re.IGNORECASE | re.DOTALL)),
)
_STATES = Listed("requests.states")
_GREETS = Listed("requests.greets")
_THANKS = Listed("requests.thanks")
_CODE = "!*.{md,rst,txt,json,jsonl,csv,tsv,lock,svg,html,log}"  # where something is handled
_READMES = "{README*,readme*,docs/README*}"
_LONGEST = 2_000
_ALL_KNOWN = "me"  # names nothing to look for: Recall then shows the newest, those about them first
_ENDINGS = {"python": "py", "markdown": "md", "javascript": "js", "typescript": "ts", "rust": "rs"}


def understand(sentence: str) -> list[Wanted]:
    """What is asked for, in order; empty when no rule fits."""
    plain = sentence.strip()
    if wish := classify(plain).forgets:
        return [Wanted("forget", wish.words)]

    if kept := asked_in(plain, _ANY_DAY):
        return [Wanted("remember", words) for words in kept]
    for _ in range(4):
        plain = _POLITE.sub("", plain, count=1)
    for wish, form in (*_PLAIN, *(_SHORT if len(plain) <= _LONGEST else ())):
        match = form.match(plain)
        if wanted := [*_wanted(wish, match)] if match else []:
            return wanted
    return []


def _wanted(wish: Wish, match: re.Match[str]) -> Iterator[Wanted]:
    found = match.groupdict()
    place = _unquoted(found.get("place") or "")
    if wish == "list":
        yield Wanted(wish, _glob(found), place)
    elif wish == "about":
        yield Wanted(wish, _READMES)
    elif wish == "where":
        if stems := {beginning(word) for word in words_asked(match["words"])}:
            yield Wanted(wish, "|".join(map(re.escape, sorted(stems - DOINGS or stems))), _CODE)
    elif wish == "read":
        for file in dict.fromkeys(one["file"] for one in _FILES.finditer(match["words"])):
            named = file.upper() == "README"  # whatever its ending is
            yield Wanted("about", _READMES) if named else Wanted(wish, file)
    else:
        words = (match["words"] or _ALL_KNOWN).strip()
        yield Wanted(wish, words if wish == "recall" else _unquoted(words), place)


def _glob(found: Mapping[str, str | None]) -> str:
    if given := found["pattern"]:
        return _unquoted(given)
    pattern = found["glob"] or found["named"] or found["sought"]
    if pattern is None:
        word = found["language"]
        pattern = f"*.{_ENDINGS.get(word.lower(), word.lower())}" if word else "**/*"
    return pattern if "/" in pattern else f"**/{pattern}"


def _unquoted(words: str) -> str:
    bare = words.strip()
    return bare[1:-1] if len(bare) > 1 and bare[0] == bare[-1] in ("`", "'", '"') else bare


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
_LIKE: dict[Wish, Wish] = {"about": "list", "where": "search"}


def input_for(wanted: Wanted, tool: Mapping[str, Any]) -> Json | None:
    """The tool's input for a wish, or None where its schema has no place for the words."""
    schema = cast("Json", tool.get("input_schema") or {})
    fields = cast("dict[str, Any]", schema.get("properties") or {})
    words = wanted.words
    if wanted.wish == "search":
        words = re.escape(words) if "regex" not in fields else words
    elif wanted.wish == "where":
        words = f"(?i){words}"
    named = _WORDS[_LIKE.get(wanted.wish, wanted.wish)]
    field = next((name for name in named if name in fields), None)
    if field is None:
        return None
    given: Json = {field: words}
    place = next((name for name in _PLACES if name in fields and name != field), None)
    if wanted.wish == "where" and {"glob", "head_limit"} <= fields.keys():
        given |= {"glob": wanted.where, "head_limit": 150} if wanted.where else {}
    elif wanted.where and place:
        given[place] = wanted.where
    modes = cast("Json", fields.get("output_mode") or {}).get("enum") or ()
    if wanted.wish in ("search", "where") and "content" in modes:
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
    plain = title_of(words) if name in ("name", "title") else " ".join(words.split())
    others: Json = {"array": [words], "boolean": False, "integer": 0, "number": 0}
    return others.get(str(schema.get("type")), plain)


SHOWN_LINES = 20
# What stands in the place of a result when the turn or the session ended first.
CUT_SHORT = ("[Interrupted by the user]", "[The session ended before this call did]")

HOW_TO_SET = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or use --model gguf:FILE"
NO_MODEL = (
    f"I can't answer that: there is no model here, only memory and search ({HOW_TO_SET}; "
    "/help lists what works without one)."
)
HELLO = (
    "Hello. There is no model here, only memory and search: tell me what to remember, ask what I "
    f"remember, read, list or search files, or run a command. For answers, {HOW_TO_SET}."
)
WELCOME = "You're welcome."
_FOUND_NONE = f"I can't answer that without a model ({HOW_TO_SET}), and no file mentions it."
FOR_NOW = "\n(For this session only; say “remember that …” to keep it.)"
TO_KEEP = " If it is to be kept, say “remember that …”."
NO_MEMORY = "\n(For this session only: memory is off.)"

TO_THE_MODEL = " Ask what to do instead."  # behind a user's no

_FORGOTTEN = re.compile(r"(?m)^(?:Forgotten: |The user had the memory )([\w/.-]+\.md)\b")
_REMINDER = re.compile(r"<system-reminder>(.*?)</system-reminder>", re.DOTALL)
_NUMBERED = re.compile(r"\s*\d+\t")
_PART = re.compile(r"\[L(ines [\d,]+ to [\d,]+ of [\d,]+);.*\]")  # what Read says of a long file
_SAVED = re.compile(r"Memory \(saved ([^)]*)\): (.*)")
_NOTHING = ("", "No matches.", "No files found.", "(no output)")
_BEST = 8  # lines that answer "where is …?"


class NoModel:
    """`none`: what can be done by rules."""

    name = "none"
    capabilities = Capabilities(images=False, cache="none", min_cacheable=0)

    def __init__(self, *, saves: bool = True) -> None:
        self._saves = saves  # plain statements are kept after the answer

    async def complete(self, request: Request, emit: Emit) -> Response:
        content, failed = answer(request, saves=self._saves)
        if words := text_of(content):
            emit(TextDelta(words))
        uses = any(block["type"] == "tool_use" for block in content)
        prompt = tokens.of_frame(request.system, request.tools) + sum(
            tokens.of_blocks(blocks_of(message["content"])) for message in request.messages
        )
        return Response(
            content=content,
            stop_reason="tool_use" if uses else "unanswered" if failed else "end_turn",
            usage=messages.Usage(input=prompt, output=tokens.of_blocks(content)),
            id=f"none_{len(request.messages):06d}",
            model="none",
        )

    async def close(self) -> None:
        return None


def answer(request: Request, *, saves: bool = True) -> tuple[list[Block], bool]:
    """The whole answer to a request (tool calls, a report of their results, or plain words), and
    whether it is none: nothing that was asked for could be done."""
    if not request.messages:
        return [text(NO_MODEL)], True
    fresh = _fresh(request)
    results = [block for block in fresh if block.get("type") == "tool_result"]
    sentence, more = _typed(fresh)
    wanted = understand(sentence)
    if wanted and not (wanted[0].wish == "about" and more):  # what was piped in is not the project
        return _act(request, wanted)
    if then := _then(request, results):
        return then, False
    closed = [_failed(one) and text_of(one.get("content") or "") in CUT_SHORT for one in results]
    if results and not (sentence and all(closed)):
        report = _report(request, results)
        return [text(report)], all(map(_failed, results)) or report.startswith(_FOUND_NONE)
    return _to_plain_words(request, sentence, saves=saves)


def _to_plain_words(request: Request, sentence: str, *, saves: bool) -> tuple[list[Block], bool]:
    """An answer to what asks for no tool: to a greeting, to a statement, or from memories."""
    for form, said in ((_GREETS, HELLO), (_THANKS, WELCOME)):
        if form.fullmatch(sentence):
            return [text(said)], False
    kind, worth = classify(plain := fold(sentence)), _worth_keeping(sentence)
    keeps = any(tool.get("name") == TOOL_OF["remember"] for tool in request.tools)
    noted = [f"Noted: {words}" for words in worth] if keeps and saves else []
    # A memory that shares a word with what somebody tells is no answer to it.
    if not kind.asks:
        if noted:
            return [text("\n".join(noted))], False
        if worth or (_STATES.match(sentence) and kind.states and not plain.endswith("?")):
            return [text(f"Noted: {sentence}{FOR_NOW if keeps else NO_MEMORY}")], False
    found = _remembered(request, sentence)
    told = kind.states and keeps and not (kind.asks or found)  # by what words, no rule knows
    said = "\n".join([*noted, found or NO_MODEL])
    return [text(said + TO_KEEP if told else said)], not found


def _worth_keeping(statement: str) -> list[str]:
    """What extraction will keep of a plain statement, in the words that were typed."""
    from lamina.local.extractor import extract  # its rules take a while to load

    said = {"role": "user", "origin": "typed", "content": statement, "uuid": "said"}
    found = extract([said], now=_ANY_DAY)
    return [*dict.fromkeys(quote.quote for one in found for quote in one.evidence[:1])]


def _then(request: Request, results: Sequence[Block]) -> list[Block]:
    """The README that was looked for is read; what no code speaks of is looked for in all files; and
    where there is more than was shown, the lines that would come first are looked for."""
    use = _uses(request).get(str(results[0].get("tool_use_id"))) if len(results) == 1 else None
    given = as_object(use["input"]) if use and not _failed(results[0]) else {}
    found = text_of(results[0].get("content") or "") if given else ""
    stems = str(given.get("pattern"))[4:]
    if _is_where(given) and "(" not in stems:
        if given.get("glob") == _CODE and found.partition("\n")[0] in _NOTHING:
            return _act(request, [Wanted("where", stems)])[0]
        if "Narrow the search" in found[-200:]:
            place = str(given.get("glob") or "")
            calls, failed = _act(request, [Wanted("where", narrower(stems.split("|")), place)])
            return [] if failed else calls
    if _READMES not in given.values():
        return []
    files = [] if found in _NOTHING else [line for line in found.split("\n") if "." in line]
    return _act(request, [Wanted("read", min(files, key=len))])[0] if files else []


def _fresh(request: Request) -> Sequence[Block]:
    """What was added since the last request. An earlier question that got no answer stands in the
    same message, because roles alternate, and is not asked again."""
    last = blocks_of(request.messages[-1]["content"])
    before = sum(len(blocks_of(message["content"])) for message in request.messages[:-1])
    return last[max(0, request.cached_blocks - before) :] or last


def _typed(blocks: Sequence[Block]) -> tuple[str, list[str]]:
    """The user's own words: the first text after the results that is more than a reminder; and what
    follows it, which was piped in, pasted or said by a hook, and gives no orders."""
    last = max((at for at, b in enumerate(blocks, 1) if b.get("type") == "tool_result"), default=0)
    texts = [b["text"] for b in blocks[last:] if b.get("type") == "text"]
    words, *more = [said for one in texts if (said := _REMINDER.sub("", one).strip())] or [""]
    return words, more


def _failed(result: Block) -> bool:
    return bool(result.get("is_error"))


def _act(request: Request, wanted: Sequence[Wanted]) -> tuple[list[Block], bool]:
    offered = {str(tool.get("name")): tool for tool in request.tools}
    calls: list[Block] = []
    for number, one in enumerate(wanted, 1):
        name = TOOL_OF[one.wish]
        tool: Json | None = offered.get(name)
        given = None if tool is None else input_for(one, tool)
        if given is None:
            if one.wish == "recall" and (found := _remembered(request, one.words)):
                return [text(found)], False
            missing = f"That needs the tool {name}, which is not offered in this session."
            return [text(missing)], True
        calls.append(messages.tool_use(f"none_{len(request.messages):04d}_{number}", name, given))
    return calls, False


def _report(request: Request, results: Sequence[Block]) -> str:
    uses = _uses(request)
    asked = [*uses.values()][-2:]
    if len(asked) == 2 and all(_is_where(as_object(one["input"])) for one in asked):
        first, second = (str(one["input"]["pattern"])[4:] for one in asked)
        if second == narrower(first.split("|")):  # together they are the answer
            said = {str(one.get("tool_use_id")): one for one in _blocks(request)}
            found = [text_of(said[str(one["id"])].get("content") or "") for one in asked]
            return _lines_found(f"(?i){first}", "\n".join(found))
    parts = [_report_one(uses.get(str(result.get("tool_use_id"))), result) for result in results]
    return "\n\n".join(parts)


def _is_where(given: Json) -> bool:
    """Is it a search for where something is, not for these very words?"""
    return str(given.get("pattern") or "").startswith("(?i)")


def _blocks(request: Request) -> Iterator[Block]:
    return (block for said in request.messages for block in blocks_of(said["content"]))


def _uses(request: Request) -> dict[str, Block]:
    return {str(one.get("id")): one for one in _blocks(request) if one.get("type") == "tool_use"}


def _report_one(use: Block | None, result: Block) -> str:
    name = str(use["name"]) if use else "The tool"
    given: dict[str, Any] = use["input"] if use else {}
    subject = str(next(iter(given.values()), ""))
    output = text_of(result.get("content") or "").strip("\n")
    if _failed(result):
        return _failure(name, subject, output)
    lines = [] if output in _NOTHING else output.splitlines()
    match name:
        case "Read":
            numbered = [line for line in lines if _NUMBERED.match(line)]  # the rest is remarks
            part = _PART.fullmatch(lines[-1]) if lines else None
            count = f"l{part[1]}" if part else _count(numbered or lines, "line")
            head = f"{subject} ({count}):"
        case "Glob" if subject == _READMES:
            head, lines = "This project has no README.", []
        case "Glob":
            head = f"{_count(lines, 'file')} for {subject}:" if lines else f"No file for {subject}."
        case "Grep":
            return _lines_found(subject, output)
        case "Recall":
            return _quoted(output.partition(" Past sessions may:")[0])  # how, is for a model
        case "Bash":
            head = f"`{subject}` ran:" if lines else f"`{subject}` ran and printed nothing."
        case _:
            return output or f"{name} is done."
    return "\n".join([head, *_clipped(lines)])


def _failure(name: str, subject: str, output: str) -> str:
    if name in ("Remember", "Forget"):
        return output or "Not remembered."  # why, and not what: that may be a secret
    if output.startswith(f"{name} was not permitted: "):
        return f"Not done: {output.partition(': ')[2].removesuffix(TO_THE_MODEL)}"
    return f"{name} {subject} failed: {output or 'no reason was given'}".rstrip()


def _lines_found(subject: str, output: str) -> str:
    asked = _is_where({"pattern": subject})
    lines = output.splitlines()
    if output.partition("\n")[0] in _NOTHING:
        return _FOUND_NONE if asked else f"Nothing for {_plain(subject)}."
    if asked:
        lines = best_lines(lines, subject[4:].split("|"), _BEST)
        return "\n".join([f"{_count(lines, 'line')}, the best first:", *lines])
    return "\n".join([f"{_count(lines, 'line')} for {_plain(subject)}:", *_clipped(lines)])


def _plain(pattern: str) -> str:
    return re.sub(r"\\(.)", r"\1", pattern.removeprefix("(?i)")).replace("|", ", ")


def _quoted(recalled: str) -> str:
    """Recalled memories for a person: what they say, then the file."""
    parts = [part for part in re.split(r"(?m)^(?=Memory \(saved )", recalled) if part.strip()]
    shown: list[str] = []
    for part in parts:
        head, _, body = part.strip().partition("\n")
        if not (met := _SAVED.fullmatch(head)):
            return recalled
        said = dict.fromkeys(line.strip() for line in body.splitlines() if line.strip())
        shown.append("\n".join([*said, f"  ({met[2].rpartition('/')[2]}, saved {met[1]})"]))
    return "\n\n".join(shown)


def _clipped(lines: Sequence[str]) -> list[str]:
    more = len(lines) - SHOWN_LINES
    return [*lines[:SHOWN_LINES], *[f"… and {more} more lines."] * (more > 0)]


def _count(lines: Sequence[str], what: str) -> str:
    return f"{len(lines)} {what}{'' if len(lines) == 1 else 's'}"


# ---- answering from memories in the view


def _remembered(request: Request, question: str) -> str:
    """The lines of recalled memories that share the most words with the question."""
    wanted = words_asked(question)
    lines = [line for said in _reminders(request) for line in _told(said)]
    shared = [len(wanted & words_asked(line)) for line in lines]
    if not (most := max(shared, default=0)):
        return ""
    best = dict.fromkeys(line for line, count in zip(lines, shared, strict=True) if count == most)
    head = "From memory (no model is configured, so I only quote):"
    return "\n".join([head, *islice(best, 5)])


def _told(reminder: str) -> list[str]:
    """What a memory says, without when it was saved, where, and whose word it is."""
    head, parted, body = reminder.partition("\n\n")
    said = body if parted else head.partition("\n")[2]
    return [line.strip() for line in said.splitlines()]


def _reminders(request: Request) -> list[str]:
    """Memories in the view, without those that were forgotten after they were shown."""
    found: list[str] = []
    for message in request.messages:
        if message["role"] != "user":
            continue
        for block in blocks_of(message["content"]):
            said = text_of([block] if block.get("type") == "text" else block.get("content") or "")
            gone = tuple(_FORGOTTEN.findall(said))
            found = [one for one in found if not (gone and one.split("\n", 1)[0].endswith(gone))]
            found += [one.strip() for one in _REMINDER.findall(said) if "Memory (saved" in one]
    return found
