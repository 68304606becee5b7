"""Settings as one source gives them: a TOML file, the environment, options of a command, and in
Claude mode the other tool's JSON files and variables, so that both work on one memory. Each source
becomes a Layer of checked values; what can't be taken is refused with its name, its place and, if
the name is unknown, the nearest known one. Reads the files that it is given, and writes none.
"""

from __future__ import annotations

import difflib
import json
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from lamina.config.setting import BadValue, Setting, Value, model
from lamina.config.table import BY_NAME, SETTINGS
from lamina.errors import SettingsError

SourceKind = Literal["default", "user", "project", "local", "environment", "flag", "managed"]

# Bytes. A settings file is small: anything larger is not one, and reading it would only hurt.
LARGEST_FILE = 1_000_000

# Keys and variables of the other tool that mean a setting of ours; the rest is its own business.
CLAUDE_KEYS = {
    "autoMemoryEnabled": "memory.enabled",
    "autoMemoryDirectory": "memory.directory",
    "autoCompactEnabled": "compact.auto",
    "autoCompactWindow": "compact.window",
    "claudeMdExcludes": "instructions.excludes",
    "autoDreamEnabled": "dream.enabled",
}
CLAUDE_VARIABLES = {
    "CLAUDE_CODE_SIMPLE": "bare",
    "CLAUDE_CODE_REMOTE": "remote",
    "CLAUDE_CODE_REMOTE_MEMORY_DIR": "memory.remote_directory",
    "CLAUDE_COWORK_MEMORY_PATH_OVERRIDE": "memory.directory",
    "CLAUDE_COWORK_MEMORY_EXTRA_GUIDELINES": "memory.guidelines",
    "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "compact.percent",
    "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "compact.window",
}
VARIABLES = {setting.environment: setting.name for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Source:
    """Who set a value: the kind of source, and the file, variable or option."""

    kind: SourceKind
    where: str = ""

    @property
    def in_project(self) -> bool:
        """Did whoever wrote the repository perhaps write this?"""
        return self.kind in ("project", "local")

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}" if self.where else self.kind


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source sets. `places` names the variable where values come from several."""

    source: Source
    values: Mapping[str, Value] = field(default_factory=dict[str, Value])
    places: Mapping[str, str] = field(default_factory=dict[str, str])

    def source_of(self, name: str) -> Source:
        return Source(self.source.kind, self.places.get(name, self.source.where))


def toml_layer(kind: SourceKind, path: Path) -> Layer:
    """The settings of one TOML file; a file that is not there sets nothing."""
    source = Source(kind, str(path))
    content = read_small(path)
    if content is None:
        return Layer(source)
    try:
        table = tomllib.loads(content)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}. Correct that line.") from error
    return Layer(
        source,
        {
            name: accept(known(name, source.where), value, source, source.where)
            for name, value in _leaves(table, "")
        },
    )


def claude_layer(kind: SourceKind, path: Path, warn: Callable[[str], None]) -> Layer:
    """The mapped keys of one of the other tool's settings files."""
    source = Source(kind, str(path))
    content = read_small(path)
    if content is None or not content.strip():
        return Layer(source)
    try:
        table = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not valid JSON: {error}. Correct that line.") from error
    if not isinstance(table, dict):
        raise SettingsError(f"{path} must hold a JSON object.")
    values: dict[str, Value] = {}
    places: dict[str, str] = {}
    for key, name in CLAUDE_KEYS.items():
        value = cast("dict[str, Any]", table).get(key)
        if value is None:
            continue
        if source.in_project and BY_NAME[name].refused_from_project(value):
            # That file can't be corrected for our sake.
            warn(f"{path} is inside the project: its {key} was left out.")
            continue
        places[name] = f"{path} ({key})"
        values[name] = accept(BY_NAME[name], value, source, places[name])
    return Layer(source, values, places)


def environment_layer(env: Mapping[str, str], variables: Mapping[str, str] = VARIABLES) -> Layer:
    """What variables set; `variables` maps their names to settings."""
    values: dict[str, Value] = {}
    places: dict[str, str] = {}
    for variable, name in variables.items():
        if text := env.get(variable):
            values[name] = parsed(BY_NAME[name], text, f"the variable {variable}")
            places[name] = variable
    return Layer(Source("environment"), values, places)


def override_layer(overrides: Mapping[str, Any]) -> Layer:
    """Options of a command, or what a program passes: values, or text as the environment has it."""
    source = Source("flag", "given on opening")
    values: dict[str, Value] = {}
    for name, value in overrides.items():
        setting = known(name, "the given settings")
        if isinstance(value, str) and setting.kind != "str":
            values[name] = parsed(setting, value, "the given settings")
            continue
        if isinstance(value, str) and setting.check is model:
            values[name] = value  # perhaps that of a program's own: who opens it looks
            continue
        # A program may pass a tuple where a file has a list.
        given = list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
        values[name] = accept(setting, given, source, "the given settings")
    return Layer(source, values)


def read_small(path: Path) -> str | None:
    """A settings file's text; None where there is none. Trouble is a sentence."""
    try:
        found = path.stat()
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISCHR(found.st_mode)):  # /dev/null is fine
            raise SettingsError(f"{path} is not a file. Move it away.")
        if found.st_size > LARGEST_FILE:
            raise SettingsError(
                f"{path} is larger than 1 MB, too large for a settings file. Shorten it."
            )
        return path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{path} is not UTF-8 text (byte {error.start}). Save it as UTF-8."
        ) from error
    except OSError as error:
        raise SettingsError(
            f"Can't read {path}: {error.strerror}. Check its permissions."
        ) from error


def known(name: str, place: str = "") -> Setting:
    """The setting of that name, or a refusal with the nearest one."""
    setting = BY_NAME.get(name)
    if setting is not None:
        return setting
    near = nearest(name, BY_NAME)
    hint = f"Did you mean {near}?" if near else "`lamina settings` lists them all."
    if place and not near:
        hint += f" If a newer Lamina wrote it: update, or `lamina settings unset {name}`."
    raise SettingsError(f"There is no setting {name}{place and f' (in {place})'}. {hint}")


def nearest(name: str, names: Mapping[str, Any]) -> str:
    """The name that was probably meant, or an empty string."""
    by_end = [known for known in names if known.endswith("." + name)]
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    return (by_end or close or [""])[0]


def accept(setting: Setting, value: object, source: Source, place: str) -> Value:
    """The value, checked for type, limits and for who may set it."""
    if source.in_project and (reason := setting.refused_from_project(value)):
        raise SettingsError(f"{place} is inside the project and {reason}")
    try:
        return setting.checked(value)
    except BadValue as error:
        raise SettingsError(f"{setting.name} in {place} {error}.") from None


def parsed(setting: Setting, text: str, place: str) -> Value:
    try:
        return setting.parsed(text)
    except BadValue as error:
        raise SettingsError(f"{setting.name} in {place} {error}.") from None


def _leaves(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Every setting of a nested table."""
    for key, value in table.items():
        name = prefix + key
        # An unknown table is refused by its own name, not by its first key.
        group = any(other.startswith(name + ".") for other in BY_NAME)
        if name in BY_NAME or not isinstance(value, dict) or not group:
            yield name, value
        else:
            yield from _leaves(cast("dict[str, Any]", value), name + ".")
