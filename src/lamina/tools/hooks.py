"""Hooks: the user's commands and the host's functions that run at eight moments of a session.

A command gets JSON on stdin and answers by exit code and stdout; a function gets the same value and
returns the same fields. Those of one moment run side by side, their answers are joined in order. A
hook that fails, hangs or floods is reported as an event and never breaks the turn.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

import anyio

from lamina.errors import HookError, SettingsError
from lamina.events import Emit, HookRan, Warned
from lamina.machine import failing_as
from lamina.messages import Json
from lamina.ports import HookName, HookResult
from lamina.tools.functions import called
from lamina.tools.process import Command, run_command

NAMES: tuple[HookName, ...] = get_args(HookName)
SECONDS = 600.0
SECONDS_OF: Mapping[str, float] = {"UserPromptSubmit": 30.0, "SessionEnd": 1.5}
TEXT_IS_CONTEXT = frozenset({"SessionStart", "UserPromptSubmit"})
LONGEST_TEXT = 10_000
MOST_OUTPUT = 2_000_000  # bytes; a hook that prints more is ended
BLOCKS = 2  # the exit code

Answer = HookResult | Json | str | None


@dataclass(frozen=True, slots=True)
class CommandHook:
    """A shell command. `matcher`: a regular expression for the tool's whole name, "" for any."""

    command: str
    matcher: str = ""
    timeout: float | None = None

    @property
    def name(self) -> str:
        return self.command


@dataclass(frozen=True, slots=True)
class FunctionHook:
    """A Python callable, async or not; raising HookError blocks."""

    function: Callable[[Json], Any]
    matcher: str = ""
    timeout: float | None = None

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", repr(self.function))


Hook = CommandHook | FunctionHook


@dataclass(frozen=True, slots=True)
class HookSet:
    """All hooks of a session, behind `ports.Hooks`."""

    hooks: Mapping[HookName, Sequence[Hook]]
    cwd: Path
    emit: Emit
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    session: Json = field(default_factory=dict[str, Any])  # told to every hook

    def __post_init__(self) -> None:
        for name, hooks in self.hooks.items():
            if name not in NAMES:
                raise SettingsError(f"There is no hook {name!r}. Hooks: {', '.join(NAMES)}.")
            for one in hooks:
                try:
                    re.compile("" if one.matcher == "*" else one.matcher)
                except re.error as error:
                    raise SettingsError(
                        f"{one.matcher!r}, the matcher of the {name} hook {_short(one.name)}, is not a "
                        f"regular expression: {error}."
                    ) from error

    async def run(self, hook: HookName, payload: Json, *, match: str = "") -> HookResult:
        """Run the hooks of one moment; `match` is what matchers are about (a tool's name)."""
        hooks = self.hooks.get(hook, ())
        chosen = [h for h in hooks if h.matcher in ("", "*") or re.fullmatch(h.matcher, match)]
        if not chosen:
            return HookResult()
        told = {"hook_event_name": hook, "cwd": str(self.cwd), **self.session, **payload}
        results = [HookResult()] * len(chosen)

        async def work(index: int, one: Hook) -> None:
            results[index] = await self._run_one(one, hook, told)

        async with anyio.create_task_group() as tasks:
            for index, one in enumerate(chosen):
                tasks.start_soon(work, index, one)
        return join(results)

    async def _run_one(self, one: Hook, hook: HookName, told: Json) -> HookResult:
        began = time.monotonic()
        timeout = one.timeout or SECONDS_OF.get(hook, SECONDS)
        outcome = "ok"
        result = HookResult()
        try:
            if isinstance(one, CommandHook):
                result = await self._run_command(one, hook, told, timeout)
            else:
                result = await _run_function(one, hook, told, timeout)
            outcome = "blocked" if result.blocked else outcome
        except TimeoutError:
            outcome = "timed out"
            self.emit(Warned(f"The {hook} hook {_short(one.name)} was ended after {timeout:g} s."))
        except HookError as error:
            outcome = "failed"
            self.emit(Warned(f"The {hook} hook {_short(one.name)} failed: {error}"))
        self.emit(HookRan(hook, one.name, outcome, round(time.monotonic() - began, 3)))
        return result

    async def _run_command(
        self, one: CommandHook, hook: HookName, told: Json, seconds: float
    ) -> HookResult:
        command = Command(
            argv=["/bin/sh", "-c", one.command],
            cwd=self.cwd,
            env=self.env,
            timeout=seconds,
            cap=2 * MOST_OUTPUT,
            stdin=json.dumps(told, default=str).encode(),
            join_streams=False,
            stop_at=MOST_OUTPUT,
        )
        with failing_as(HookError, "it could not be started"):
            finished = await run_command(command)
        if finished.timed_out:
            raise TimeoutError
        if finished.enough:
            raise HookError(f"it printed more than {MOST_OUTPUT:,} bytes and was ended.")
        said = finished.out.whole().decode("utf-8", "replace").strip()
        complaint = finished.err.whole()[:MOST_OUTPUT].decode("utf-8", "replace").strip()
        if finished.code == BLOCKS:
            return HookResult(blocked=True, reason=_cut(complaint or f"{one.command} said no."))
        if finished.code != 0:
            raise HookError(f"exit code {finished.code}. {_short(complaint)}".strip())
        if not said.startswith("{"):
            return _from_answer(said, hook)
        try:
            return _from_fields(json.loads(said))
        except (ValueError, RecursionError) as error:
            raise HookError("what it printed begins like JSON and is not.") from error


async def _run_function(
    one: FunctionHook, hook: HookName, told: Json, seconds: float
) -> HookResult:
    try:
        with anyio.fail_after(seconds):
            answer = await called(one.function, told)
    except HookError as error:
        return HookResult(blocked=True, reason=_cut(str(error)))
    except TimeoutError:
        raise
    except Exception as error:  # a host's function may raise anything; it is booked as an event
        raise HookError(f"{type(error).__name__}: {_short(str(error))}") from error
    return _from_answer(cast("Answer", answer), hook)


def _from_answer(answer: Answer, hook: HookName) -> HookResult:
    if answer is None:
        return HookResult()
    if isinstance(answer, HookResult):
        return answer
    if isinstance(answer, str):
        tells = bool(answer) and hook in TEXT_IS_CONTEXT
        return HookResult(context=(_cut(answer),) if tells else ())
    if isinstance(answer, dict):
        return _from_fields(answer)
    raise HookError(f"it returned a {type(answer).__name__}.")


def _from_fields(fields: Json) -> HookResult:
    own: object = fields.get("hookSpecificOutput")
    specific = cast("Json", own) if isinstance(own, dict) else {}
    stop = fields.get("continue") is False
    denied = specific.get("permissionDecision") == "deny"
    blocked = fields.get("decision") == "block" or denied
    reasons = [
        _text(fields, "stopReason") if stop else "",
        _text(fields, "reason") if blocked else "",
        _text(specific, "permissionDecisionReason") if denied else "",
    ]
    context = _text(specific, "additionalContext")
    updated: object = specific.get("updatedInput")
    return HookResult(
        blocked=blocked,
        reason="\n".join(reason for reason in reasons if reason),
        context=(context,) if context else (),
        message=_text(fields, "systemMessage"),
        stop=stop,
        updated_input=cast("Json", updated) if isinstance(updated, dict) else None,
    )


def join(results: Sequence[HookResult]) -> HookResult:
    """Several answers as one: any may block or stop, texts in order, the last new input counts."""
    inputs = [one.updated_input for one in results if one.updated_input is not None]
    return HookResult(
        blocked=any(one.blocked for one in results),
        reason="\n".join(one.reason for one in results if one.reason),
        context=tuple(text for one in results for text in one.context),
        message="\n".join(one.message for one in results if one.message),
        stop=any(one.stop for one in results),
        updated_input=inputs[-1] if inputs else None,
    )


def _text(fields: Json, name: str) -> str:
    value: object = fields.get(name)
    return _cut(value) if isinstance(value, str) else ""


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"
