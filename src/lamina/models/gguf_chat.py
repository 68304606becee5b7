"""A conversation with a small local model: plain chat messages, tools described in words, and answers
held to a JSON schema so that even a tiny model calls a tool in a form that can be read. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from lamina.messages import Block, Json, Request, blocks_of, text, text_of, tool_use

_HOW = (
    'Answer with one JSON object: {"say": "…"} to speak, or {"tool": "NAME", "input": {…}} to use'
    " one of these tools:"
)


def plain_chat(request: Request) -> list[Json]:
    """Roles and text only: many templates of small models know nothing else."""
    system = text_of(request.system)
    if request.tools:
        system = f"{system}\n\n{_described(request.tools)}".strip()
    chat: list[Json] = [{"role": "system", "content": system}] if system else []
    names: dict[str, str] = {}
    for message in request.messages:
        parts: list[str] = []
        for block in blocks_of(message["content"]):
            if block.get("type") == "tool_use":
                names[str(block["id"])] = str(block["name"])
            parts.append(_words(block, names, as_json=bool(request.tools), role=message["role"]))
        chat.append({"role": message["role"], "content": "\n".join(filter(None, parts))})
    return chat


def _words(block: Block, names: dict[str, str], *, as_json: bool, role: str) -> str:
    match block.get("type"):
        case "text" if as_json and role == "assistant":
            return _compact({"say": block.get("text", "")})
        case "text":
            return str(block.get("text", ""))
        case "tool_use":
            return _compact({"tool": block["name"], "input": block.get("input") or {}})
        case "tool_result":
            name = names.get(str(block.get("tool_use_id")), "the tool")
            verb = "failed" if block.get("is_error") else "answered"
            return f"{name} {verb}:\n{text_of(block.get('content') or '')}"
        case "image" | "document":
            return "[a picture or document, which this model can't see]"
        case _:
            return ""


def _described(tools: Sequence[Json]) -> str:
    lines = [_HOW]
    for tool in tools:
        schema = cast("Json", tool.get("input_schema") or {})
        fields = cast("Json", schema.get("properties") or {})
        first = str(tool.get("description", "")).strip().partition("\n")[0]
        lines.append(f"- {tool['name']}({', '.join(fields)}): {first}")
    return "\n".join(lines)


def answer_schema(tools: Sequence[Json], choice: Json | None = None, *, exact: bool = True) -> Json:
    """Either words or one tool call; `choice` (`tool_choice`) may leave only calls, or only one.
    `exact` False: any object as input, for schemas that the run-time can't turn into a grammar.
    """
    chosen = (choice or {}).get("type", "auto")
    say = {"say": {"type": "string"}}
    forms = [
        {"type": "object", "properties": say, "required": ["say"], "additionalProperties": False}
    ]
    if chosen in ("any", "tool"):
        forms = []
    for tool in tools:
        if chosen == "none" or (chosen == "tool" and tool["name"] != (choice or {}).get("name")):
            continue
        schema: Any = tool.get("input_schema") if exact else None
        fields = {"tool": {"const": tool["name"]}, "input": schema or {"type": "object"}}
        forms.append(
            {
                "type": "object",
                "properties": fields,
                "required": ["tool", "input"],
                "additionalProperties": False,
            }
        )
    return {"oneOf": forms}


def read_answer(said: str, *, number: int, cut_off: bool) -> tuple[list[Block], str | None]:
    """Blocks of an answer under `answer_schema`, and the name of a call that was cut off.
    Raises ValueError for what is neither words nor a call.
    """
    try:
        value: Any = json.loads(said)
    except ValueError:
        if not cut_off:
            raise
        return _read_part(said)
    if isinstance(value, dict):
        answer = cast("Json", value)
        if isinstance(answer.get("say"), str):
            return [text(answer["say"])], None
        if isinstance(answer.get("tool"), str) and isinstance(answer.get("input"), dict):
            return [tool_use(f"gguf_{number:04d}", answer["tool"], answer["input"])], None
    raise ValueError("neither words nor a call")


class Speech:
    """Hears an answer under `answer_schema` piece by piece, and passes on the words in it as they
    become readable; a call stays silent.
    """

    def __init__(self, speak: Callable[[str], None]) -> None:
        self._speak = speak
        self._raw = ""  # what is not passed on yet
        self._begun = self._ended = False
        self.said = ""

    def hear(self, piece: str) -> None:
        self._raw += piece
        if not self._begun:
            head = _SAY.match(self._raw)
            if head is None:
                return
            self._begun, self._raw = True, self._raw[head.end() :]
        whole = _READABLE.match(self._raw)
        if self._ended or whole is None:
            return
        self._ended = self._raw[whole.end() : whole.end() + 1] == '"'
        self._raw = self._raw[whole.end() :]
        if words := str(json.loads(f'"{whole[0]}"', strict=False)):
            self.said += words
            self._speak(words)


_SAY = re.compile(r'\s*\{\s*"say"\s*:\s*"')
# Whole characters and escapes; half of an escaped pair waits for the other half.
_READABLE = re.compile(
    r'(?:[^"\\]|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|(?:\\u[dD][89a-fA-F][0-9a-fA-F]{2}){2})*'
)
_OPEN_SAY = re.compile(r'^\s*\{\s*"say"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)
_OPEN_TOOL = re.compile(r'^\s*\{\s*"tool"\s*:\s*"([^"]*)"')


def _read_part(said: str) -> tuple[list[Block], str | None]:
    """What can be kept of an answer that broke off."""
    if match := _OPEN_SAY.match(said):
        # The end may be half an escape, or half of a pair of them.
        words = re.sub(r"\\u[0-9a-fA-F]{0,3}$", "", match[1])
        words = re.sub(r"\\u[dD][89abAB][0-9a-fA-F]{2}$", "", words)
        return [text(str(json.loads(f'"{words}"', strict=False)))] if words else [], None
    match = _OPEN_TOOL.match(said)
    return [], match[1] if match else ""


def _compact(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
