"""Reads a script for the scripted model from a JSON file, and refuses by name what it doesn't know.
docs/scripted.md has the format.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec

from lamina.errors import UsageError
from lamina.messages import Json
from lamina.models.expectations import EXPECT_KEYS
from lamina.models.scripted import ScriptedModel, Step
from lamina.ports import Capabilities

REPLY_KEYS = frozenset(
    {"text", "thinking", "tool_use", "content", "stop_reason", "usage", "error", "gap"}
    | {"message", "retries", "restart", "extra", "hang"}
)
STEP_KEYS = frozenset({"name", "purpose", "expect", "reply"})
SCRIPT_KEYS = frozenset({"name", "capabilities", "steps", "otherwise"})


def read_script(kind: type[ScriptedModel], where: Path) -> ScriptedModel:
    try:
        script = msgspec.json.decode(where.read_bytes())
    except OSError as error:
        raise UsageError(
            f"The script {where} can't be read ({error.strerror}); give scripted: a JSON file."
        ) from error
    except msgspec.DecodeError as error:
        raise UsageError(f"The script {where} is not valid JSON ({error}); correct it.") from error
    return _model(kind, script, where)


def _model(kind: type[ScriptedModel], given: Any, where: Path) -> ScriptedModel:
    steps_only = isinstance(given, list)
    script = _known({"steps": given} if steps_only else given, SCRIPT_KEYS, where, "the script")
    steps: list[Step] = []
    for number, value in enumerate(cast("list[Any]", script.get("steps") or []), 1):
        step: Any = {"reply": value} if isinstance(value, str) else value
        step = _known(step, STEP_KEYS, where, f"step {number}")
        if "reply" not in step:
            raise UsageError(f"{where}: step {number} has no reply; see docs/scripted.md.")
        _known(step.get("expect") or {}, EXPECT_KEYS, where, f"expect of step {number}")
        _known_reply(step["reply"], where, f"reply of step {number}")
        steps.append(
            Step(
                reply=step["reply"],
                expect=step.get("expect") or {},
                purpose=str(step.get("purpose", "main")),
                name=str(step.get("name", "")),
            )
        )
    otherwise = cast("dict[str, Any]", script.get("otherwise") or {})
    for purpose, reply in otherwise.items():
        _known_reply(reply, where, f"otherwise of {purpose}")
    return kind(
        steps,
        name=str(script.get("name", "scripted")),
        capabilities=_capabilities(script.get("capabilities") or {}, where),
        otherwise=otherwise,
    )


def _capabilities(given: Any, where: Path) -> Capabilities:
    fields = frozenset(Capabilities.__dataclass_fields__)
    known = _known(given, fields, where, "capabilities")
    try:
        return msgspec.convert({"cache": "anthropic", "min_cacheable": 0, **known}, Capabilities)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: capabilities can't be taken ({error}); correct it.") from error


def _known_reply(reply: Any, where: Path, what: str) -> None:
    if not isinstance(reply, str):
        _known(reply, REPLY_KEYS, where, what)


def _known(value: Any, keys: frozenset[str], where: Path, what: str) -> Json:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: {what} must be an object; see docs/scripted.md.")
    given = cast("Json", value)
    if unknown := sorted(set(given) - keys):
        raise UsageError(
            f"{where}: {what} has the unknown key {unknown[0]!r}; it may have: "
            f"{', '.join(sorted(keys))}."
        )
    return given
