"""`lamina hooks install | status | remove | plugin`: our hook in the settings of coding agents, or as a
plugin file of ours where an agent has no such settings.

Their files are theirs: a change is shown as a diff and asked about, the old bytes are kept, and
`remove` puts them back byte for byte where nobody has changed the file since. A file that can't be
read as plain JSON is left alone, and what to add by hand is printed.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from lamina._version import __version__
from lamina.cli.options import add_verb, config_of, flag
from lamina.cli.options import command as hint
from lamina.cli.terminal import harmless, note, out, out_json, print_diff
from lamina.errors import LaminaError, UsageError
from lamina.integrations.hook import CLIENTS, LOG
from lamina.machine import failing_as, private_folder, read_json, replace_file, write_private
from lamina.messages import Json, as_list, as_object

EXAMPLES = """
lamina hooks install claude-code         recall at each prompt, memories after each answer
lamina hooks install codex gemini --yes  no question
lamina hooks status                      what is set up, and recent errors
lamina hooks remove claude-code          the file as it was before
lamina hooks plugin ~/lamina-plugin      hooks and MCP server as a plugin: claude --plugin-dir …
"""


@dataclass(frozen=True, slots=True)
class Client:
    """Where a client keeps its hooks, and what it calls the moments that we serve."""

    title: str
    directory: str
    variable: str  # the environment's word for the directory
    file: str
    events: tuple[str, ...]  # none where the file is a plugin, wholly ours
    after: str = ""  # what is left for the user to do


KNOWN: Mapping[str, Client] = {
    "claude-code": Client(
        "Claude Code",
        "~/.claude",
        "CLAUDE_CONFIG_DIR",
        "settings.json",
        ("SessionStart", "UserPromptSubmit", "Stop", "PostCompact", "SessionEnd"),
    ),
    "codex": Client(
        "Codex",
        "~/.codex",
        "CODEX_HOME",
        "hooks.json",
        ("SessionStart", "UserPromptSubmit", "Stop", "PostCompact"),
        "Codex silently skips hooks you have not trusted: start `codex`, type /hooks and "
        "trust `lamina hook codex`.",
    ),
    "gemini": Client(
        "Gemini CLI",
        "~/.gemini",
        "",
        "settings.json",
        ("SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd"),
    ),
    "opencode": Client(
        "opencode", "~/.config", "XDG_CONFIG_HOME", "opencode/plugins/lamina.js", ()
    ),
    "pi": Client("pi", "~/.pi/agent", "PI_CODING_AGENT_DIR", "extensions/lamina.ts", ()),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    install = add_verb(verbs, "install", "add Lamina to an agent's hooks")
    remove = add_verb(verbs, "remove", "remove Lamina from an agent's hooks")
    add_verb(verbs, "status", "show what is set up, and recent errors")
    plugin = add_verb(verbs, "plugin", "write the hooks and the MCP server as a Claude Code plugin")
    plugin.add_argument("directory", help="a new or empty folder")
    for verb in (install, remove):
        names = ", ".join(CLIENTS)
        verb.add_argument("client", nargs="+", choices=CLIENTS, metavar="CLIENT", help=names)
        flag(verb, "--yes", "don't ask")


def run(args: argparse.Namespace) -> int | None:
    home = config_of(args).own_home
    if args.verb == "status":
        return _status(args, home)
    if args.verb == "plugin":
        return _write_plugin(args, Path(args.directory).expanduser())
    changed: list[Json] = []
    failed: list[LaminaError] = []
    for name in args.client:
        try:
            changed.append(_set_up(args, name, home))
        except LaminaError as error:  # the next one is another file
            failed.append(error)
    if args.json:
        out_json(changed)
    for error in failed[:-1]:
        note(harmless(f"lamina: {' '.join(str(error).split())}"))
    if failed:
        raise failed[-1]
    return 0 if all(one["done"] for one in changed) else 3


# ---- changing a client's file


def _set_up(args: argparse.Namespace, name: str, home: Path) -> Json:
    client, installing = KNOWN[name], args.verb == "install"
    path = settings_file(client)
    before = _read(path)
    command = f"{_program()} hook {name}" + _options(args)
    unchanged, old = _as_it_was(home, name, before)
    if not client.events:
        after = _own_file(path, before, name, command, changed=not unchanged)
        after = after if installing else None
    elif installing:
        after = with_hooks(before, path, client, name, command)
    else:
        after = old if unchanged else without_hooks(before, path, name)
    told = {"client": name, "file": str(path), "changed": before != after, "done": True}
    if before == after:
        _say(args, f"{client.title}: nothing to change in {path}.")
        return told
    if not args.json:
        print_diff(_diff(path, before, after))
    if not _agreed(args, path):
        _say(args, f"{path} is as it was.")
        return {**told, "changed": False, "done": False}
    _replace(path, before, after)
    if installing and after is not None:
        try:
            _keep(home, name, before, after)
        except LaminaError:  # else no `remove` could put the old bytes back
            _replace(path, after, before)
            raise
        undo = hint(args, f"hooks remove {name}")
        _say(args, f"{client.title} now calls `{command}`. {undo} undoes it.")
        if client.after:
            _say(args, client.after)
    else:
        _say(args, f"{client.title} no longer calls Lamina.")
    return told


def _agreed(args: argparse.Namespace, path: Path) -> bool:
    if args.yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"{path} would be changed as shown. Give --yes, or run this in a terminal."
        )
    note(f"Change {path}? [y/N]")
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def _say(args: argparse.Namespace, sentence: str) -> None:
    if not args.json:
        out(harmless(sentence))


def settings_file(client: Client) -> Path:
    """The file itself, also where people keep it behind a link."""
    return Path(os.path.realpath(_directory(client) / client.file))


def _directory(client: Client) -> Path:
    return Path(os.environ.get(client.variable) or client.directory).expanduser()


def _program() -> str:
    """As short as it can be: clients show it, and Codex asks for trust again when it changes."""
    here = os.path.realpath(os.path.join(os.path.dirname(sys.executable), "lamina"))
    found = shutil.which("lamina")
    return "lamina" if found and os.path.realpath(found) == here else shlex.quote(here)


def _options(args: argparse.Namespace) -> str:
    home = f" --home {shlex.quote(os.path.abspath(args.home))}" if args.home else ""
    return home + (" --claude" if args.claude else "")


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LaminaError(f"Can't read {path}: {error.strerror}.") from error


def _parsed(data: bytes | None, path: Path, by_hand: str = "") -> Json:
    if data is None or not data.strip():
        return {}
    try:
        value: object = json.loads(data)
    except ValueError as error:
        where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "some bytes"
        raise UsageError(
            f"{path} is not plain JSON ({where}; comments count): nothing was changed.{by_hand}"
        ) from error
    found = as_object(value)
    events = found.get("hooks", {})
    lists = all(type(one) is list for one in as_object(events).values())
    if type(value) is not dict or type(events) is not dict or not lists:
        raise UsageError(f"{path} has hooks in a format Lamina does not know; it was left alone.")
    return found


def _own_file(path: Path, before: bytes | None, name: str, command: str, *, changed: bool) -> bytes:
    """A plugin file as we write it. One that somebody else wrote or changed is left to them."""
    plugins = files("lamina.integrations").joinpath("plugins")
    text = plugins.joinpath(path.with_stem(name).name).read_text("utf-8")
    wanted = text.replace("COMMAND", json.dumps(shlex.split(command)), 1).encode()
    if before not in (None, wanted) and changed:
        raise UsageError(
            f"{path} was changed since Lamina wrote it, so it was left alone; delete it yourself if you don't need it."
        )
    return wanted


def with_hooks(before: bytes | None, path: Path, client: Client, name: str, command: str) -> bytes:
    """The file with our command at each moment, instead of an older one of ours."""
    entry: Json = {"hooks": [{"type": "command", "command": command}]}
    if name == "gemini":
        entry["hooks"][0]["name"] = "lamina"
    wanted = {event: [entry] for event in client.events}
    by_hand = f" To do it by hand, add:\n{json.dumps({'hooks': wanted}, indent=2)}"
    value = _parsed(before, path, by_hand)
    hooks = {event: _others(found, name) for event, found in as_object(value.get("hooks")).items()}
    for event in client.events:
        hooks[event] = [*hooks.get(event, []), entry]
    return _written({**value, "hooks": hooks}, before)


def without_hooks(before: bytes | None, path: Path, name: str) -> bytes | None:
    """The file without what is ours; what was empty before us goes too."""
    value = _parsed(before, path)
    old = as_object(value.get("hooks"))
    hooks = {event: _others(found, name) for event, found in old.items()}
    if hooks == old:
        return before
    left = {event: found for event, found in hooks.items() if found or not old[event]}
    rest = {key: one for key, one in value.items() if key != "hooks"}
    return _written({**rest, "hooks": left} if left else rest, before)


def _others(found: Any, name: str) -> list[Any]:
    """The entries of an event without our command; an entry that holds others' too keeps them."""
    kept: list[Any] = []
    for entry in as_list(found):
        commands = as_list(as_object(entry).get("hooks"))
        rest = [one for one in commands if not _is_ours(as_object(one), name)]
        if rest or not commands:
            kept.append(
                entry if len(rest) == len(commands) else {**as_object(entry), "hooks": rest}
            )
    return kept


def _is_ours(hook: Json, name: str) -> bool:
    command = str(hook.get("command") or "")
    return bool(re.search(rf"\blamina['\"]? hook {name}\b", command))


def _written(value: Json, before: bytes | None) -> bytes:
    """In the indentation that the file has."""
    text = (before or b"").decode("utf-8", "replace")
    indent = re.search(r"^([ \t]+)\"", text, re.MULTILINE)
    end = "\n" if not text or text.endswith("\n") else ""
    new = json.dumps(value, ensure_ascii=False, indent=indent[1] if indent else 2) + end
    return (new.replace("\n", "\r\n") if "\r\n" in text else new).encode()


def _diff(path: Path, before: bytes | None, after: bytes | None) -> str:
    old, new = (
        (data or b"").decode("utf-8", "replace").splitlines(True) for data in (before, after)
    )
    return "".join(difflib.unified_diff(old, new, str(path), str(path)))


def _replace(path: Path, before: bytes | None, after: bytes | None) -> None:
    """Put the new bytes in the old one's place at once; refused if somebody wrote meanwhile."""
    with failing_as(LaminaError, f"Can't change {path}"):
        if _read(path) != before:
            raise LaminaError(f"{path} was changed in the meantime; nothing was done. Try again.")
        replace_file(path, after)


# ---- a plugin of Claude Code


def _write_plugin(args: argparse.Namespace, folder: Path) -> None:
    """A folder that Claude Code takes with --plugin-dir, or from a marketplace."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty; name a new folder for the plugin.")
    program, options = _program(), _options(args)
    path = folder / "hooks" / "hooks.json"
    hooks = with_hooks(
        None, path, KNOWN["claude-code"], "claude-code", f"{program} hook claude-code{options}"
    )
    server = {"command": shlex.split(program)[0], "args": ["mcp", *shlex.split(options)]}
    about = {
        "name": "lamina",
        "version": __version__,
        "description": "Memory across sessions: recalled at each prompt, saved after each answer.",
    }
    parts = {
        folder / ".claude-plugin" / "plugin.json": json.dumps(about, indent=2).encode() + b"\n",
        path: hooks,
        folder / ".mcp.json": json.dumps({"mcpServers": {"lamina": server}}, indent=2).encode(),
    }
    for file, data in parts.items():
        _replace(file, None, data)
    if args.json:
        out_json([str(file) for file in parts])
    else:
        _say(args, f"Written. `claude --plugin-dir {shlex.quote(str(folder))}` uses it.")


# ---- the old bytes


def _keep(home: Path, name: str, before: bytes | None, after: bytes) -> None:
    """The bytes before our first change, and what we made of them."""
    folder = home / "hooks-installed"
    unchanged, old = _as_it_was(home, name, before)
    old = old if unchanged else before
    record = {
        "before": None if old is None else old.decode("latin-1"),
        "after": hashlib.sha256(after).hexdigest(),
    }
    with failing_as(LaminaError, f"Can't note in {folder} what was there before"):
        private_folder(home)
        private_folder(folder)
        write_private(folder / f"{name}.json", json.dumps(record).encode(), lasting=True)


def _as_it_was(home: Path, name: str, now: bytes | None) -> tuple[bool, bytes | None]:
    """Is the file still as we wrote it? Then also the bytes before us."""
    record = as_object(read_json(home / "hooks-installed" / f"{name}.json", object))
    if now is None or record.get("after") != hashlib.sha256(now).hexdigest():
        return False, None
    before = record.get("before")
    return True, before.encode("latin-1") if isinstance(before, str) else None


# ---- what is set up


def _status(args: argparse.Namespace, home: Path) -> None:
    rows = states()
    failures = recent_failures(home)
    if args.json:
        out_json({"clients": rows, "failures": failures})
        return
    for row in rows:
        out(harmless(f"{row['title']:<12} {row['state']}"))
    for line in failures:
        note(harmless(line))


def states() -> list[Json]:
    """For each client whether it is set up, and what is to be done."""
    return [_state_of(name) for name in CLIENTS]


def _state_of(name: str) -> Json:
    client = KNOWN[name]
    path = settings_file(client)
    row: Json = {"client": name, "title": client.title, "file": str(path)}
    row |= {"installed": False, "attention": False}
    if not client.events:
        there = path.is_file()
        missing = f"not set up (`lamina hooks install {name}`)"
        return {**row, "installed": there, "state": f"set up in {path}" if there else missing}
    before: bytes | None = None
    try:
        value = _parsed(before := _read(path), path)
    except LaminaError as error:
        by_hand = _is_ours({"command": (before or b"").decode("utf-8", "replace")}, name)
        state = f"set up by hand in {path}" if by_hand else str(error)
        return {**row, "installed": by_hand, "state": state}
    hooks = as_object(value.get("hooks"))
    there = [
        one for one in client.events if one in hooks and _others(hooks[one], name) != hooks[one]
    ]
    if not there:
        return {**row, "state": f"not set up (`lamina hooks install {name}`)"}
    missing = [event for event in client.events if event not in there]
    todo = ""
    if missing:
        todo = f"; not at {', '.join(missing)}: install it again"
    elif name == "codex" and not _codex_trusts(client, hooks):
        todo = f". {client.after}"
    return {**row, "installed": True, "attention": bool(todo), "state": f"set up in {path}{todo}"}


def _codex_trusts(client: Client, hooks: Json) -> bool:
    """Has the user trusted our command, as it stands there? Codex notes in its own settings, by place,
    a hash of what was trusted."""
    import tomllib

    try:
        value = tomllib.loads((_directory(client) / "config.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    states = as_object(as_object(value.get("hooks")).get("state"))
    known = {
        (key.rpartition("/")[2], str(as_object(v).get("trusted_hash"))) for key, v in states.items()
    }
    wanted = {
        (f"{client.file}:{snake}:{group}:{number}", _codex_hash(snake, as_object(entry), handler))
        for event, entries in hooks.items()
        for snake in [re.sub(r"\B([A-Z])", r"_\1", event).lower()]
        for group, entry in enumerate(as_list(entries))
        for number, handler in enumerate(map(as_object, as_list(as_object(entry).get("hooks"))))
        if _is_ours(handler, "codex")
    }
    return wanted <= known


def _codex_hash(event: str, entry: Json, handler: Json) -> str:
    """Seen with 0.166.0, whose own list of hooks shows it."""
    matcher = {"matcher": entry["matcher"]} if entry.get("matcher") else {}
    known = {"event_name": event, "hooks": [{"async": False, "timeout": 600, **handler}], **matcher}
    text = json.dumps(known, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def recent_failures(home: Path, most: int = 5) -> list[str]:
    """The last lines of the hooks' log."""
    try:
        lines = (home / LOG).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return lines[-most:]
