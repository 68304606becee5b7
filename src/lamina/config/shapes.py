"""The shapes of settings that are tables: hooks, MCP servers, prices, figures by tool or layer.
Each check raises BadValue with the place inside the table. Touches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from lamina.config.setting import BadValue

# As in `ports.HookName`; importing the ports for it would slow every hook's start.
HOOKS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PreCompact",
    "PostCompact",
    "Stop",
    "SessionEnd",
)


def figures(
    *, whole: bool, maximum: float | None = None, names: tuple[str, ...] = ()
) -> Callable[[Mapping[str, Any]], None]:
    """A table of numbers from 0 on, by name."""

    def check(table: Mapping[str, Any]) -> None:
        for key, value in table.items():
            if names and key not in names:
                raise BadValue(f"has no {key}; it knows {', '.join(names)}")
            _figure(key, value, whole=whole, maximum=maximum)

    return check


def prices(table: Mapping[str, Any]) -> None:
    """Model → figures that replace the price table's (dollars per million tokens)."""
    for model, row in table.items():
        if not isinstance(row, dict):
            raise BadValue(f"must give {model} a table of prices")
        for key, value in cast("dict[str, Any]", row).items():
            if not isinstance(value, str):
                _figure(f"{model}.{key}", value, whole=False)


def hooks(table: Mapping[str, Any]) -> None:
    """Hook → list of {command, match, timeout}."""
    for name, entries in table.items():
        if name not in HOOKS:
            raise BadValue(f"has no hook {name}; there are {', '.join(HOOKS)}")
        if not isinstance(entries, list):
            raise BadValue(f"must give {name} a list: write [[hooks.{name}]]")
        for entry in cast("list[Any]", entries):
            _fields(name, entry, {"command": str, "match": str, "timeout": (int, float)})
            if not entry.get("command"):
                raise BadValue(f"must give every {name} a command")
            if not entry.get("timeout", 1) > 0:
                raise BadValue(f"must give {name} a timeout over 0 seconds")
            _regular_expression(name, entry.get("match", ""))


def _regular_expression(name: str, pattern: str) -> None:
    try:
        re.compile("" if pattern == "*" else pattern)
    except re.error as error:
        raise BadValue(f"has a match of {name} that is no regular expression: {error}") from None


def servers(table: Mapping[str, Any]) -> None:
    """MCP server → {command, args, env, cwd} or {url, headers}."""
    known = {
        "type": str,
        "command": str,
        "args": list,
        "env": dict,
        "cwd": str,
        "url": str,
        "headers": dict,
    }
    for name, entry in table.items():
        _fields(name, entry, {**known, "clearable": bool})
        if ("command" in entry) == ("url" in entry):
            raise BadValue(f"must give {name} either a command or a url")
        for key in ("args", "env", "headers"):
            value = entry.get(key, [])
            _words(f"{name}.{key}", list(value.values()) if isinstance(value, dict) else value)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _fields(name: str, entry: object, known: Mapping[str, Any]) -> None:
    if not isinstance(entry, dict):
        raise BadValue(f"must give {name} a table")
    for key, value in cast("dict[str, Any]", entry).items():
        if key not in known:
            raise BadValue(f"has no {name}.{key}; {name} knows {', '.join(known)}")
        wrong_bool = isinstance(value, bool) and known[key] is not bool
        if wrong_bool or not isinstance(value, known[key]):
            raise BadValue(f"has a {name}.{key} of the wrong type")


def _words(name: str, value: object) -> None:
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not all(isinstance(item, str) and "\0" not in item for item in items):
        raise BadValue(f"must hold only strings in {name}")


def _figure(name: str, value: object, *, whole: bool, maximum: float | None = None) -> None:
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not value >= 0:
        raise BadValue(f"must give {name} a {'whole ' if whole else ''}number from 0 on")
    if maximum is not None and value > maximum:
        raise BadValue(f"must give {name} at most {maximum:g}")
