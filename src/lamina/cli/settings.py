"""`lamina settings`: shows what is set and by which file or variable, and changes it. Reads all
settings; `set` and `unset` write one file and keep its comments.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, cast

from lamina.cli.options import config_of, flag
from lamina.cli.terminal import note, out, out_json, picked, style
from lamina.config import BY_NAME, MANAGED, SETTINGS, Config, Setting, absolute, find_home
from lamina.config.layers import Source, SourceKind, accept, known, parsed, read_small
from lamina.config.load import settings_files
from lamina.errors import SettingsError, StorageError, UsageError
from lamina.machine import failing_as, make_private, replace_file

EXAMPLES = """
lamina settings                          every setting and its value
lamina settings compact                  the settings of one group
lamina settings model                    one value, for scripts
lamina settings --explain                which file or variable set what
lamina settings set model none           in your own file
lamina settings set compact.auto false --local
lamina settings unset model
lamina settings path                     the files, strongest first
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    words = "a setting or a group; or: set KEY VALUE, unset KEY, path"
    parser.add_argument("what", nargs="*", metavar="KEY", help=words)
    flag(parser, "--explain", "show where each value comes from, and what it overrides")
    files = parser.add_mutually_exclusive_group()
    for option, kind, words in (
        ("--user", "user", "change your own file (the default)"),
        ("--project-file", "project", "change the project's file, shared with others"),
        ("--local", "local", "change your own file in the project"),
    ):
        files.add_argument(option, dest="file", action="store_const", const=kind, help=words)


def run(args: argparse.Namespace) -> None:
    match args.what:
        case ["set", name, value]:
            return _set(args, name, value)
        case ["unset", name]:
            return _unset(args, name)
        case ["path"]:
            return _paths(args)
        case [] | [_] if args.what not in (["set"], ["unset"]):
            return _show(args, args.what[0] if args.what else "")
        case _:
            raise UsageError(
                "That is not how this command is used. Give a KEY, `set KEY VALUE`, `unset KEY` or `path`."
            )


def _show(args: argparse.Namespace, name: str) -> None:
    group = [row for row in SETTINGS if not name or row.name.startswith(name + ".")]
    rows = [BY_NAME[name]] if name in BY_NAME else group or [known(name)]
    config = config_of(args)
    for warning in () if args.quiet else config.warnings:
        note(f"lamina: {warning}")
    if args.json:
        shown = [_as_json(config, row) for row in rows]
        out_json(shown[0] if name in BY_NAME else shown)
    elif args.explain:
        for row in rows:
            _explain(config, row)
    elif name in BY_NAME:
        value = config.value(name)
        out(value if isinstance(value, str) else as_text(value))
    else:
        for row in rows:
            changed = config.source(row.name).kind != "default"
            text = f"{row.name} = {as_text(config.value(row.name))}"
            out(f"{style(text, 'bold')}  ({config.source(row.name)})" if changed else text)


def _as_json(config: Config, row: Setting) -> dict[str, Any]:
    return {
        "name": row.name,
        "value": config.value(row.name),
        "default": row.default,
        "type": row.kind,
        "source": picked(config.source(row.name), "kind where"),
        "variable": row.environment,
        **picked(row, "from_project help"),
    }


def _explain(config: Config, row: Setting) -> None:
    out(f"{style(row.name, 'bold')} = {as_text(config.value(row.name))}")
    out(f"    {row.help}")
    out(f"    set by {config.source(row.name)}")
    for layer in config.layers:
        if row.name in layer.values and layer.source_of(row.name) != config.source(row.name):
            word = "combined with" if row.adds_up else "overrides"
            value = as_text(layer.values[row.name])
            out(style(f"    {word} {value} from {layer.source_of(row.name)}", "dim"))


def as_text(value: Any) -> str:
    """A value as files and the command line write it."""
    return json.dumps(value, ensure_ascii=False)


def _set(args: argparse.Namespace, name: str, text: str) -> None:
    setting, kind = known(name), args.file or "user"
    path = _files(args)[kind]
    value = parsed(setting, text, "the command")
    accept(setting, value, Source(kind, str(path)), str(path))
    if kind == "user":
        make_private(path.parent)
    change(path, name, value)
    _check_effect(args, name, kind, f"{name} = {as_text(value)} in {path}")


def _unset(args: argparse.Namespace, name: str) -> None:
    kind = args.file or "user"
    path = _files(args)[kind]
    if not remove(path, name):
        raise UsageError(
            f"{name} is not set in {path}. `lamina settings --explain` says where it is."
        )
    _check_effect(args, name, kind, f"{name} is no longer set in {path}")


def _check_effect(args: argparse.Namespace, name: str, kind: SourceKind, done: str) -> None:
    """Say what was done, and if it has no effect, or if settings still can't be read."""
    if not args.quiet:
        out(done)
    try:
        config = config_of(args)
    except SettingsError as error:
        note(f"lamina: The change was saved, but: {error}")
        return
    if name not in BY_NAME or args.quiet:
        return
    stronger: list[SourceKind] = ["managed", "flag", "environment", "local", "project", "user"]
    source = config.source(name)
    if source.kind in stronger[: stronger.index(kind)]:
        note(f"lamina: It has no effect now, because {source} overrides it.")


def _files(args: argparse.Namespace) -> dict[SourceKind, Any]:
    """The files that can be changed; found without reading them, so that a broken one can be fixed."""
    home, claude = find_home(args.home, claude=args.claude)
    return settings_files(absolute(args.project), home / "lamina" if claude else home)


def _paths(args: argparse.Namespace) -> None:
    files = {"managed": MANAGED, **_files(args)}
    if args.json:
        out_json({kind: str(path) for kind, path in files.items()})
        return
    for kind, path in files.items():
        out(f"{kind:8} {path}" + ("" if path.exists() else style("  (does not exist)", "dim")))


# ---- the file


def change(path: Path, name: str, value: Any) -> None:
    """Set `name` to a value in the file, which is created if need be."""
    import tomlkit

    document = _document(path)
    *parents, last = name.split(".")
    place = document
    for part in parents:
        child = place.setdefault(part, tomlkit.table())
        if not isinstance(child, MutableMapping):
            wrong = f"In {path}, {part} is a value, so {name} can't be set"
            raise SettingsError(f"{wrong}. Fix the file by hand.")
        place = cast("MutableMapping[str, Any]", child)
    place[last] = value
    _save(path, document, name, value)


def remove(path: Path, name: str) -> bool:
    """Remove `name` from the file; False if it was not there. Tables left empty are removed too."""
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
        raise SettingsError(f"{path} is not valid TOML: {error}. Fix it by hand.") from error


def _save(path: Path, document: MutableMapping[str, Any], name: str, value: Any) -> None:
    import tomlkit

    text = tomlkit.dumps(document)
    if _found(text, name) != value:  # the library could not express it in this file's layout
        raise StorageError(
            f"{path} is laid out in a way that {name} can't be changed in. Edit it by hand."
        )
    with failing_as(StorageError, f"Can't write {path}"):
        replace_file(path, text.encode())


def _found(text: str, name: str) -> Any:
    try:
        place: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    for part in name.split("."):
        place = cast("Mapping[str, Any]", place).get(part) if isinstance(place, Mapping) else None
    return place
