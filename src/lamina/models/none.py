"""The engine without a model: it reads plain requests by rules, calls the tools that it is offered,
reports what they gave, and otherwise says that no model is configured. Deterministic; no network,
no files, no clock. It is the default where no key is set.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lamina.events import Emit, TextDelta
from lamina.ledger import tokens
from lamina.messages import (
    Block,
    Json,
    Request,
    Response,
    Usage,
    blocks_of,
    text,
    text_of,
    tool_use,
)
from lamina.models.plain_requests import TOOL_OF, Wanted, input_for, understand
from lamina.ports import Capabilities
from lamina.text.wording import content_stems

SHOWN_LINES = 20
# What stands in the place of a result when the turn or the session ended first.
CUT_SHORT = ("[Interrupted by the user]", "[The session ended before this call did]")

WHAT_I_CAN = (
    "Without one I can still: read a file (read FILE), list files (find *.py), search (search for "
    "WORDS), run a command (run COMMAND), and remember, recall or forget facts (remember that …, "
    "what do you remember about …, forget that …)."
)
HOW_TO_SET = (
    "Set ANTHROPIC_API_KEY or OPENAI_API_KEY, or choose a local model with --model gguf:FILE."
)
NO_MODEL = f"No model is configured, so I can't work this out. {WHAT_I_CAN} {HOW_TO_SET}"

_FORGOTTEN = re.compile(r"(?m)^(?:Forgotten: |The user had the memory )([\w/.-]+\.md)\b")
_REMINDER = re.compile(r"<system-reminder>(.*?)</system-reminder>", re.DOTALL)
_NUMBERED = re.compile(r"\s*\d+\t")
_PART = re.compile(r"\[L(ines [\d,]+ to [\d,]+ of [\d,]+);.*\]")  # what Read says of a long file
_WORD = re.compile(r"[a-z0-9][a-z0-9_-]+")
_EMPTY_WORDS = re.compile(
    "an?|and|are|about|as|at|be|but|by|can|could|did|do|does|for|from|had|has|have|how|i|in|is|"
    "it|its|me|my|not|of|on|or|our|please|should|so|tell|that|the|their|them|there|they|this|to|"
    "was|we|were|what|when|where|which|who|why|will|with|would|you|your|know|remember|recall"
)


class NoModel:
    """`none`: what can be done by rules."""

    @property
    def name(self) -> str:
        return "none"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(images=False, cache="none", min_cacheable=0)

    async def complete(self, request: Request, emit: Emit) -> Response:
        content, failed = answer(request)
        if words := text_of(content):
            emit(TextDelta(words))
        uses = any(block["type"] == "tool_use" for block in content)
        prompt = tokens.of_frame(request.system, request.tools) + sum(
            tokens.of_blocks(blocks_of(message["content"])) for message in request.messages
        )
        return Response(
            content=content,
            stop_reason="tool_use" if uses else "unanswered" if failed else "end_turn",
            usage=Usage(input=prompt, output=tokens.of_blocks(content)),
            id=f"none_{len(request.messages):06d}",
            model="none",
        )

    async def close(self) -> None:
        return None


def answer(request: Request) -> tuple[list[Block], bool]:
    """The whole answer to a request (tool calls, a report of their results, or plain words), and
    whether it is none: nothing that was asked for could be done."""
    if not request.messages:
        return [text(NO_MODEL)], True
    fresh = _fresh(request)
    results = [block for block in fresh if block.get("type") == "tool_result"]
    sentence = _typed(fresh)
    if wanted := understand(sentence):
        return _act(request, wanted)
    if results and not (sentence and all(map(_cut_short, results))):
        return [text(_report(request, results))], all(map(_failed, results))
    if found := _remembered(request, sentence):
        return [text(found)], False
    return [text(NO_MODEL)], True


def _fresh(request: Request) -> Sequence[Block]:
    """What was added since the last request. An earlier question that got no answer stands in the
    same message, because roles alternate, and is not asked again."""
    last = blocks_of(request.messages[-1]["content"])
    before = sum(len(blocks_of(message["content"])) for message in request.messages[:-1])
    return last[max(0, request.cached_blocks - before) :] or last


def _typed(blocks: Sequence[Block]) -> str:
    """The user's own words: the first text after the results that is more than a reminder. What
    follows it was piped in, pasted or said by a hook, and gives no orders."""
    words = ""
    for block in blocks:
        if block.get("type") == "tool_result":
            words = ""
        elif block.get("type") == "text" and not words:
            words = _REMINDER.sub("", block["text"]).strip()
    return words


def _failed(result: Block) -> bool:
    return bool(result.get("is_error"))


def _cut_short(result: Block) -> bool:
    """Whether a call was closed because its turn or session ended, not by its tool."""
    return _failed(result) and text_of(result.get("content") or "") in CUT_SHORT


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
        calls.append(tool_use(f"none_{len(request.messages):04d}_{number}", name, given))
    return calls, False


# ---- reporting results


def _report(request: Request, results: Sequence[Block]) -> str:
    uses: dict[str, Block] = {}
    for message in request.messages:
        for block in blocks_of(message["content"]):
            if block.get("type") == "tool_use":
                uses[str(block.get("id"))] = block
    parts = [_report_one(uses.get(str(result.get("tool_use_id"))), result) for result in results]
    return "\n\n".join(parts)


def _report_one(use: Block | None, result: Block) -> str:
    name = str(use["name"]) if use else "The tool"
    given: dict[str, Any] = use["input"] if use else {}
    subject = str(next(iter(given.values()), ""))
    output = text_of(result.get("content") or "").strip("\n")
    if _failed(result):
        if name in ("Remember", "Forget"):
            return output or "Not remembered."  # why, and not what: that may be a secret
        return f"{name} {subject} failed: {output or 'no reason was given'}".rstrip()
    lines = output.splitlines()
    match name:
        case "Read":
            numbered = [line for line in lines if _NUMBERED.match(line)]  # the rest is remarks
            part = _PART.fullmatch(lines[-1]) if lines else None
            count = f"l{part[1]}" if part else _count(numbered or lines, "line")
            head = f"{subject} ({count}):"
        case "Glob":
            head = f"{_count(lines, 'file')} for {subject}:" if lines else f"No file for {subject}."
        case "Grep":
            head = f"{_count(lines, 'line')} for {subject}:" if lines else f"Nothing for {subject}."
        case "Bash":
            head = f"`{subject}` ran:" if lines else f"`{subject}` ran and printed nothing."
        case _:
            return output or f"{name} is done."
    return "\n".join([head, *_clipped(lines)])


def _clipped(lines: Sequence[str]) -> list[str]:
    if len(lines) <= SHOWN_LINES:
        return list(lines)
    return [*lines[:SHOWN_LINES], f"… and {len(lines) - SHOWN_LINES} more lines."]


def _count(lines: Sequence[str], what: str) -> str:
    return f"{len(lines)} {what}{'' if len(lines) == 1 else 's'}"


# ---- answering from memories in the view


def _remembered(request: Request, question: str) -> str:
    """The lines of recalled memories that share the most words with the question."""
    wanted = _content_words(question)
    best: list[tuple[int, int, str]] = []
    place = 0
    for reminder in _reminders(request):
        for line in reminder.splitlines():
            place += 1
            score = len(wanted & _content_words(line))
            if score:
                best.append((-score, place, line.strip()))
    if not best:
        return ""
    top = min(best)[0]
    lines = list(dict.fromkeys(line for score, _, line in sorted(best) if score == top))[:5]
    return "\n".join(["From memory (no model is configured, so I only quote):", *lines])


def _reminders(request: Request) -> list[str]:
    """Memories in the view, without those that were forgotten after they were shown."""
    found: list[str] = []
    for message in request.messages:
        if message["role"] != "user":
            continue
        for block in blocks_of(message["content"]):
            said = text_of([block]) if block.get("type") == "text" else text_of(block.get("content") or "")  # fmt: skip
            gone = tuple(_FORGOTTEN.findall(said))
            found = [one for one in found if not (gone and one.split("\n", 1)[0].endswith(gone))]
            found += [one.strip() for one in _REMINDER.findall(said) if "Memory (saved" in one]
    return found


def _content_words(sentence: str) -> set[str]:
    found = {
        _stem(word) for word in _WORD.findall(sentence.lower()) if not _EMPTY_WORDS.fullmatch(word)
    }
    return found if sentence.isascii() else found | content_stems(sentence)


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
