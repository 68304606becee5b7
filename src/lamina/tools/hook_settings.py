"""Reads the `hooks` setting into hooks, naming what is wrong and the file that says it."""

from __future__ import annotations

import re
from typing import cast, get_args

from lamina.errors import SettingsError
from lamina.messages import Json
from lamina.ports import HookName
from lamina.tools.hooks import CommandHook

NAMES: tuple[HookName, ...] = get_args(HookName)


def hooks_from_settings(value: object, source: str) -> dict[HookName, list[CommandHook]]:
    """The `hooks` setting: {event: [{"matcher": …, "hooks": [{"command": …, "timeout": …}]}]}."""
    found: dict[HookName, list[CommandHook]] = {}
    for name, groups in _object(value, "hooks", source).items():
        if name not in NAMES:
            known = ", ".join(NAMES)
            raise SettingsError(f"{source}: there is no hook {name!r}. Hooks: {known}.")
        for group in _array(groups, f"hooks.{name}", source):
            fields = _object(group, f"hooks.{name}", source)
            matcher = _matcher(fields.get("matcher", ""), name, source)
            for one in _array(fields.get("hooks"), f"hooks.{name}.hooks", source):
                hook = _command_hook(_object(one, f"hooks.{name}", source), matcher, name, source)
                found.setdefault(name, []).append(hook)
    return found


def _command_hook(fields: Json, matcher: str, name: str, source: str) -> CommandHook:
    command: object = fields.get("command")
    timeout: object = fields.get("timeout")
    if fields.get("type", "command") != "command" or not isinstance(command, str) or not command:
        raise SettingsError(f'{source}: a hook of {name} needs "command", a shell command.')
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float))):
        raise SettingsError(f"{source}: the timeout of {command[:100]!r} must be in seconds.")
    if timeout is not None and timeout <= 0:
        raise SettingsError(f"{source}: the timeout of {command[:100]!r} must be above 0.")
    return CommandHook(command, matcher, timeout)


def _matcher(value: object, name: str, source: str) -> str:
    if not isinstance(value, str):
        raise SettingsError(f"{source}: the matcher of {name} must be a string.")
    try:
        re.compile("" if value == "*" else value)
    except re.error as error:
        raise SettingsError(
            f"{source}: the matcher {value!r} of {name} is not a regular expression: {error}."
        ) from error
    return value


def _object(value: object, where: str, source: str) -> Json:
    if not isinstance(value, dict):
        raise SettingsError(f"{source}: {where} must be an object.")
    return cast("Json", value)


def _array(value: object, where: str, source: str) -> list[object]:
    if not isinstance(value, list):
        raise SettingsError(f"{source}: {where} must be a list.")
    return cast("list[object]", value)
