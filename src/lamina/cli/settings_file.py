"""Changing one setting in a TOML file so that everything else in it, comments included, stays. The new
text is read back before it replaces the file, whole or not at all. Touches that one file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, cast

from lamina.config.layers import read_small
from lamina.errors import SettingsError, StorageError


def change(path: Path, name: str, value: Any) -> None:
    """Set `name` to a value in the file, which is made if it is not there."""
    document = _document(path)
    *parents, last = name.split(".")
    place = document
    for part in parents:
        place = _child(place, part, path, name)
    place[last] = value
    _save(path, document, name, value)


def remove(path: Path, name: str) -> bool:
    """Take `name` out of the file; False if it was not there. Tables left empty go as well."""
    document = _document(path)
    steps: list[tuple[MutableMapping[str, Any], str]] = []
    place: Any = document
    for part in name.split("."):
        if not isinstance(place, MutableMapping) or part not in place:
            return False
        steps.append((cast("MutableMapping[str, Any]", place), part))
        place = steps[-1][0][part]
    for number, (parent, key) in enumerate(reversed(steps)):
        if number == 0 or not parent[key]:
            del parent[key]
    _save(path, document, name, None)
    return True


def _document(path: Path) -> MutableMapping[str, Any]:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    text = read_small(path) or ""
    try:
        tomllib.loads(text)
        return cast("MutableMapping[str, Any]", tomlkit.parse(text))
    except (tomllib.TOMLDecodeError, TOMLKitError, RecursionError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}. Correct it by hand.") from error


def _child(
    place: MutableMapping[str, Any], part: str, path: Path, name: str
) -> MutableMapping[str, Any]:
    import tomlkit

    if part not in place:
        place[part] = tomlkit.table()
    child = place[part]
    if not isinstance(child, MutableMapping):
        raise SettingsError(
            f"{path} has {part} as a value, so {name} can't be set in it. Correct it."
        )
    return cast("MutableMapping[str, Any]", child)


def _save(path: Path, document: MutableMapping[str, Any], name: str, value: Any) -> None:
    import tomlkit

    text = tomlkit.dumps(document)
    if _found(text, name) != value:  # the library could not express it in this file's layout
        raise StorageError(f"{path} is laid out so that {name} can't be changed. Edit it by hand.")
    target = Path(os.path.realpath(path))  # a link to a dotfiles folder stays a link
    temporary = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with open(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"Can't write {path}: {error.strerror}.") from error


def _found(text: str, name: str) -> Any:
    try:
        place: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    for part in name.split("."):
        place = cast("Mapping[str, Any]", place).get(part) if isinstance(place, Mapping) else None
    return place
