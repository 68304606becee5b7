"""Settings as one source gives them: a TOML file, the environment, options of a command. Each source
becomes a Layer whose values are checked; what can't be taken is refused by name, place and, for a
name that nobody knows, with the nearest one. Reads the files that it is given, and nothing else.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from lamina.config.setting import FALSE, BadValue, Setting, Value
from lamina.config.table import BY_NAME, SETTINGS
from lamina.errors import SettingsError

SourceKind = Literal["default", "user", "project", "local", "environment", "flag", "managed"]

# A settings file is small; anything larger is not one, and reading it would only hurt.
LARGEST_FILE = 1_000_000


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
    return Layer(source, dict(_taken(table, source)))


def environment_layer(env: Mapping[str, str]) -> Layer:
    """What the variables named in the table set."""
    values: dict[str, Value] = {}
    places: dict[str, str] = {}
    for setting in SETTINGS:
        text = env.get(setting.environment)
        if not text:
            continue
        values[setting.name] = parsed(setting, text, f"the variable {setting.environment}")
        places[setting.name] = setting.environment
    return Layer(Source("environment"), values, places)


def override_layer(overrides: Mapping[str, Any]) -> Layer:
    """Options of a command, or what a program passes: values, or text as the environment has it."""
    source = Source("flag", "given on opening")
    values: dict[str, Value] = {}
    for name, value in overrides.items():
        setting = known(name, "the given settings")
        if isinstance(value, str) and setting.kind != "str":
            values[name] = parsed(setting, value, "the given settings")
        else:
            values[name] = accept(setting, _plain(value), source, "the given settings")
    return Layer(source, values)


def _plain(value: object) -> object:
    """A program may pass a tuple where a file has a list."""
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value


def read_small(path: Path) -> str | None:
    """A settings file's text; None where there is none. Trouble is a sentence."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise SettingsError(
                f"{path} is larger than 1 MB, so it is no settings file. Shorten it."
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


def known(name: str, place: str) -> Setting:
    """The setting of that name, or a refusal with the nearest one."""
    setting = BY_NAME.get(name)
    if setting is not None:
        return setting
    near = nearest(name, BY_NAME)
    hint = f"Did you mean {near}?" if near else "`lamina settings` lists them all."
    raise SettingsError(f"There is no setting {name} (in {place}). {hint}")


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


def _taken(table: Mapping[str, Any], source: Source) -> Iterator[tuple[str, Value]]:
    """Every setting of a nested table, checked."""
    for name, value in _leaves(table, ""):
        setting = known(name, source.where)
        yield name, accept(setting, value, source, source.where)


def _leaves(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = prefix + key
        if name in BY_NAME or not isinstance(value, dict):
            yield name, value
        elif not any(other.startswith(name + ".") for other in BY_NAME):
            yield name, value  # an unknown table is refused by its own name, not by its first key
        else:
            yield from _leaves(cast("dict[str, Any]", value), name + ".")


def switch_text(text: str | None) -> bool | None:
    """A variable that is a switch: set to anything but a word for no means on; None if not set."""
    if text is None or text == "":
        return None
    return text.strip().lower() not in FALSE
