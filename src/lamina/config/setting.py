"""One setting: its name, type, default, limits and who may set it; and the checks that a value from
any file, variable or option passes, down to the shape of a table (hooks, MCP servers, prices). What
is wrong is a BadValue that names the place inside the value. Touches nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal, TypeAlias, cast

from lamina.messages import HOOKS, MODELS, names_model

Kind = Literal["str", "int", "float", "bool", "strings", "table"]
Value: TypeAlias = Any  # what the setting's kind says, checked

# What a file inside the project may do with it. A repository that somebody cloned brings such files
# along, so a new setting is closed to them until its row says otherwise: what runs, reads, sends,
# spends, or hides something of the user's stays closed.
ProjectMay = Literal["nothing", "switch off", "lower", "set"]

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})

_KINDS: dict[Kind, tuple[type, str]] = {
    "str": (str, "a string"),
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "bool": (bool, "true or false"),
    "strings": (list, "a list of strings"),
    "table": (dict, "a table"),
}
_KIND_OF: dict[type, Kind] = {made_of: kind for kind, (made_of, _) in _KINDS.items()}


class BadValue(ValueError):
    """Why a value can't be taken; the loader adds the setting's name and the file."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the table of settings."""

    name: str  # dotted, as in the files
    default: Value  # its type is the setting's
    help: str
    project_may: ProjectMay = "nothing"
    choices: tuple[str, ...] = ()
    least: float = -inf
    most: float = inf
    variable: str = ""  # by default LAMINA_ and the name in capitals
    flag: str = ""  # the name of the mechanism that it switches, or of the value that flags may set
    adds_up: bool = False  # lists and tables of all files count together; none can drop another's
    check: Callable[[Any], None] | None = None  # what its type does not say, as a table's shape
    default_text: str = ""  # for the docs, where the default depends on something
    kind: Kind = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", _KIND_OF[type(self.default)])

    @property
    def environment(self) -> str:
        return self.variable or "LAMINA_" + re.sub(r"\W", "_", self.name).upper()

    @property
    def from_project(self) -> bool:
        """May a file inside the project set it (be it only to switch it off or lower it)?"""
        return self.project_may != "nothing"

    def refused_from_project(self, value: object) -> str:
        """Why a file inside the project may not set this value, as the rest of a sentence that names
        the file; empty if it may."""
        match self.project_may:
            case "nothing":
                return (
                    f"may not set {self.name}. "
                    "Set it with `lamina settings set --user`, or delete it there."
                )
            case "switch off" if value is not False:
                return f"may only switch {self.name} off. Write false, or delete it there."
            case "lower" if isinstance(value, (int, float)) and value > self.default:
                return (
                    f"may only lower {self.name}. "
                    f"Write at most {self.default:g}, or delete it there."
                )
            case _:
                return ""

    def checked(self, value: object) -> Value:
        """The value in the setting's type; BadValue says what is wrong with it."""
        if self.kind == "float" and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not _has_kind(value, self.kind):
            raise BadValue(f"must be {_KINDS[self.kind][1]}, not {_shown(value)}")
        if self.choices and value not in self.choices:
            raise BadValue(f"must be one of {', '.join(self.choices)}, not {_shown(value)}")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if value != value:  # noqa: PLR0124 - NaN, the one number that no limit holds
                raise BadValue("must be a number, not nan")
            if value < self.least:
                raise BadValue(f"must be at least {self.least:g}, not {value:g}")
            if value > self.most:
                raise BadValue(f"must be at most {self.most:g}, not {value:g}")
        if self.check is not None:
            self.check(value)
        return cast("Value", value)

    def parsed(self, text: str) -> Value:
        """The value that a variable or a command's argument spells."""
        return self.checked(_read(text, self.kind))


def _has_kind(value: object, kind: Kind) -> bool:
    if not isinstance(value, _KINDS[kind][0]) or (isinstance(value, bool) and kind != "bool"):
        return False
    if isinstance(value, str):
        return "\0" not in value
    if isinstance(value, list):
        return all(_has_kind(item, "str") for item in cast("list[object]", value))
    keys = cast("dict[object, object]", value) if isinstance(value, dict) else ()
    return all(isinstance(key, str) for key in keys)


def _read(text: str, kind: Kind) -> object:
    """Text as a value of the kind, or as it is if it can't be read so."""
    stripped = text.strip()
    match kind:
        case "str":
            return text
        case "bool":
            low = stripped.lower()
            return True if low in TRUE else False if not low or low in FALSE else stripped
        case "int" | "float":
            try:
                return int(stripped.replace("_", "")) if kind == "int" else float(stripped)
            except ValueError:
                return stripped
        case "strings":
            if stripped.startswith("["):
                return _json(stripped)
            return [part.strip() for part in stripped.split(",") if part.strip()]
        case "table":
            return _json(stripped) if stripped else {}


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadValue(f"must be JSON, not {_shown(text)}") from None


def _shown(value: object) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


def model(name: str) -> None:
    if not names_model(name):
        raise BadValue(f"must be {MODELS}, not {_shown(name)}")


def figures(
    *, whole: bool, most: float = inf, names: tuple[str, ...] = ()
) -> Callable[[Mapping[str, Any]], None]:
    """A table of numbers from 0 on, by name."""

    def check(table: Mapping[str, Any]) -> None:
        for key, value in table.items():
            if names and key not in names:
                raise BadValue(f"has no {key}; it knows {', '.join(names)}")
            _figure(key, value, whole=whole, most=most)

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
            pattern = entry.get("match", "")
            try:
                re.compile("" if pattern == "*" else pattern)
            except re.error as error:
                raise BadValue(
                    f"has a bad regular expression as a match of {name}: {error}"
                ) from None


def texts(table: Mapping[str, Any]) -> None:
    """A table of strings, by name."""
    for name, value in table.items():
        if not isinstance(value, str) or any(char in name + value for char in "\0\r\n"):
            raise BadValue(f"must give {name} one line of text")


def servers(table: Mapping[str, Any]) -> None:
    """MCP server → {command, args, env, cwd} or {url, headers}."""
    known: dict[str, type] = dict.fromkeys(("type", "command", "cwd", "url"), str)
    known |= {"args": list, "env": dict, "headers": dict, "clearable": bool}
    for name, entry in table.items():
        _fields(name, entry, known)
        if bool(entry.get("command")) == bool(entry.get("url")):
            raise BadValue(f"must give {name} either a command or a url")
        for key in ("args", "env", "headers"):
            value = entry.get(key, [])
            words: list[Any] = [*(value.values() if key != "args" else value)] if value else []
            if not all(isinstance(word, str) and "\0" not in word for word in words):
                raise BadValue(f"must hold only strings in {name}.{key}")


def _fields(name: str, entry: object, known: Mapping[str, Any]) -> None:
    if not isinstance(entry, dict):
        raise BadValue(f"must give {name} a table")
    for key, value in cast("dict[str, Any]", entry).items():
        if key not in known:
            raise BadValue(f"has no {name}.{key}; {name} knows {', '.join(known)}")
        wrong_bool = isinstance(value, bool) and known[key] is not bool
        if wrong_bool or not isinstance(value, known[key]):
            raise BadValue(f"has a {name}.{key} of the wrong type")


def _figure(name: str, value: object, *, whole: bool, most: float = inf) -> None:
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not value >= 0:
        raise BadValue(f"must give {name} a {'whole ' if whole else ''}number from 0 on")
    if value > most:
        raise BadValue(f"must give {name} at most {most:g}")
