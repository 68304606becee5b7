"""`lamina dream`: tidy the memories, show what a dream changed, undo it, stop a running one, and
install a nightly timer. Memories change only through the dream itself or the store's undo; the
timer's units are written to systemd's folder for users.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from lamina import opening
from lamina.cli import terminal
from lamina.cli.options import (
    add_verb,
    choose_model,
    command,
    config_of,
    count,
    flag,
    hint,
    optional,
)
from lamina.cli.sessions import others
from lamina.cli.terminal import harmless, note, one_line, out, out_json, out_result, plural, width
from lamina.config import Config
from lamina.errors import LaminaError, MemoryStoreError, UsageError
from lamina.events import DreamChanged, Emit, Event, Warned
from lamina.layers import dream
from lamina.layers.dream import LOCK, last_dream, repair
from lamina.layers.dream.record import DreamRecord, last_change, take_back
from lamina.ledger.places import find_project_folder, project_folder, slug
from lamina.ledger.record import Ledger
from lamina.machine import failing_as
from lamina.memory import place_of
from lamina.messages import as_list
from lamina.ports import MemoryStore
from lamina.state import State
from lamina.wiring import Options

if TYPE_CHECKING:
    from lamina.layers.dream.runner import DreamResult

EXAMPLES = """
lamina dream                             if one is due
lamina dream --now                       even if none is due
lamina dream --dry-run                   show what it would change, as a diff
lamina dream diff                        what the last one changed
lamina dream status                      what a running one is doing
lamina dream log
lamina dream undo                        undo the last one
lamina dream kill                        stop a running one; memories stay as they were
lamina dream --install-timer --print     how to dream every night, by systemd or cron
lamina dream --uninstall-timer           stop dreaming every night
"""

_COLOURS = {"completed": "green", "nothing": "dim", "failed": "red", "killed": "yellow"}
_WAIT = 10.0  # seconds to wait for a dream to stop


def add_arguments(parser: argparse.ArgumentParser) -> None:
    flag(parser, "--now", "dream even if none is due")
    flag(parser, "--dry-run", "only show what would change")
    choose_model(parser)
    flag(parser, "--install-timer", "dream every night")
    flag(parser, "--print", "with --install-timer: only print the timer")
    flag(parser, "--uninstall-timer", "stop dreaming every night")
    names = "status | diff | log | undo | kill"
    verbs = parser.add_subparsers(dest="verb", metavar=names, required=False)
    add_verb(verbs, "status", "show what a running dream is doing: its words, tools and files")
    add_verb(verbs, "diff", "show what the last dream changed")
    log = add_verb(verbs, "log", "list dreams, newest first")
    log.add_argument("-n", "--number", type=count, default=20, help="how many (20); 0: all")
    undo = add_verb(verbs, "undo", "undo the last dream, or the one you name")
    optional(undo, "commit", "its id or a prefix of it (the last)")
    add_verb(verbs, "kill", "stop a running dream")


def run(args: argparse.Namespace) -> int | None:
    config = config_of(args)
    if args.install_timer or args.uninstall_timer:
        return _set_timer(args, config)
    if args.print:
        raise UsageError("--print needs --install-timer.")
    if args.verb:
        if args.now or args.dry_run or args.model:
            raise UsageError(f"--now, --dry-run and --model can't be used with `{args.verb}`.")
        from lamina.cli.memory import open_store

        with open_store(config) as store:
            return _VERBS[args.verb](args, store)
    if not config.bool("memory.enabled"):
        raise UsageError(f"Memory is off ({config.source('memory.enabled').where}).")
    if not (args.now or args.dry_run) and (why := _not_due(config)):
        return _say(args, {"status": "not due", "text": why})
    done = anyio.run(dreamt, args)
    if args.dry_run and not args.json and done.status == "completed":
        terminal.print_diff(done.diff)
        note(done.text)
        _show_problems(done.problems)
        return 0
    return _say(args, {**done.to_json(), **({"diff": done.diff} if args.dry_run else {})})


def _set_timer(args: argparse.Namespace, config: Config) -> None:
    given = {
        "--install-timer": args.install_timer,
        "--uninstall-timer": args.uninstall_timer,
        "--now": args.now,
        "--dry-run": args.dry_run,
        "--model": args.model,
        f"`{args.verb}`": args.verb,
        "--print": args.print and args.uninstall_timer,
    }
    first, *others = [name for name, value in given.items() if value]
    if others:
        raise UsageError(f"{first} can't be used with {others[0]}.")
    (_install if args.install_timer else _uninstall)(args, config)


def _not_due(config: Config) -> str:
    from lamina.cli.memory import open_store

    with open_store(config) as store:
        repair(store.directory / LOCK)
        since = time.time() - last_dream(store.directory / LOCK)
    hours = config.float("dream.hours")
    if not 0 <= since < hours * 3600:
        return ""
    last = f"the last dream was {since / 3600:.1f} hours ago, and the next is due after {hours:g}"
    return f"Not due: {last}. `--now` dreams anyway."


async def dreamt(args: argparse.Namespace, prepared: DreamResult | None = None) -> DreamResult:
    """Dream as the options say; with `prepared`, do what an earlier dry run found."""
    line = terminal.StatusLine(quiet=args.quiet or args.json, patience=0)

    def hear(event: Event) -> None:
        if isinstance(event, Warned):
            line.clear()
            note(f"lamina: {harmless(event.message)}")
        elif isinstance(event, DreamChanged) and event.status == "running":
            tools = f", {plural(event.tools, 'tool call')}" if event.tools else ""
            files = f", {plural(len(event.files), 'file')}" if event.files else ""
            line.say(f"{event.phase} · {event.step} · {event.text}{tools}{files}")

    async with _outside_sessions(args, hear) as state:
        try:
            return await dream.run(state, apply=not args.dry_run, prepared=prepared)
        finally:
            line.clear()


@asynccontextmanager
async def _outside_sessions(args: argparse.Namespace, hear: Emit) -> AsyncGenerator[State]:
    """What a fork needs outside of any session: model, tools, memory and a system prompt."""
    options = Options(
        project=Path(args.project),
        model=getattr(args, "model", None),
        home=args.home,
        claude=args.claude,
        on_event=hear,
    )
    config = opening.load_config(options)
    if config.bool("memory.enabled"):
        others(config)  # what is typed into other agents is evidence, and may be said there again
    async with AsyncExitStack() as stack:
        place = place_of(config)
        if getattr(args, "dry_run", False) and not (place.state / "history.git").exists():
            # Nothing of Lamina's is here yet, and a look must not bring it: it is had on a copy.
            apart = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lamina-")))
            _copy(place.directory, apart / "memory")
            options = replace(options, config={"memory.directory": str(apart / "memory")})
            config = opening.load_config(options)
            folder = find_project_folder(config.own_home, config.project)
        else:
            folder = project_folder(config.own_home, config.project)
        path = folder / f"apart-{uuid.uuid4()}.jsonl"
        ledger = Ledger.of(now=options.clock.now)
        state = await opening.make_state(options, config, ledger, path, stack)
        state.ledger.append(opening.first_frame(state))
        yield state


def _copy(directory: Path, target: Path) -> None:
    if directory.is_dir():
        with failing_as(MemoryStoreError, f"Can't copy {directory} for a look"):
            shutil.copytree(directory, target, symlinks=True, copy_function=_copy_file)
    else:
        target.mkdir()


def _copy_file(source: str, target: str) -> None:
    """What can't be read is there, and can't be read."""
    try:
        shutil.copy2(source, target)
    except OSError:
        Path(target).touch(mode=0)


def _say(args: argparse.Namespace, value: dict[str, Any]) -> int:
    status = str(value["status"])
    failed = status in ("refused", "gave way", "failed", "killed")
    if args.json:
        out_json(value)
        return int(failed)
    if failed:
        raise LaminaError(str(value["text"]))
    out(harmless(str(value["text"])))
    if not args.quiet:
        doubts = [f"doubtful: {doubt}" for doubt in value.get("doubtful", ())]
        for line in [*value.get("reasons", ()), *doubts]:
            out(terminal.style(f"  {one_line(line, max(40, width() - 2))}", "dim"))
        _show_problems(value.get("problems", ()))
        if value.get("commit"):
            undo = f"dream undo {value['commit'][:8]}"
            note(f"{command(args, undo)} undoes it.")
    return 0


def _show_problems(problems: Sequence[str]) -> None:
    for line in problems:
        note(f"not applied: {harmless(line)}")


# ---- looking back


def _diff(args: argparse.Namespace, store: MemoryStore) -> None:
    if (found := last_change(store)) is None:
        raise UsageError(
            "There is no dream to show: none has changed anything, or the last was undone."
        )
    commit, text = found
    if args.json:
        out_json({"commit": commit.id, **terminal.picked(commit, "when reason"), "diff": text})
    else:
        terminal.print_diff(text)


def _log(args: argparse.Namespace, store: MemoryStore) -> None:
    lines = DreamRecord(store.state).log()[: args.number or None]
    if args.json:
        out_json(lines)
        return
    for line in running(store):
        note(line)
    if not lines:
        note("No dreams yet.")
        return
    room = max(20, width() - 45)
    rows: list[list[str]] = []
    for line in lines:
        status = str(line.get("status"))
        how = terminal.style(status, _COLOURS.get(status, "bold"))
        by = str(line.get("by")) + ("" if line.get("applied") else ", dry run")
        text = one_line(str(line.get("text")), room)
        rows.append([terminal.moment(float(line.get("when") or 0)), how, by, text])
        problems = as_list(line.get("problems"))  # none if the record is damaged
        rows += [["", "", "", one_line(f"not applied: {one}", room)] for one in problems]
    out(terminal.table(rows))


def running(store: MemoryStore) -> list[str]:
    """What a running dream does, line by line; none where nobody dreams."""
    status = DreamRecord(store.state).status()
    if status.get("status") != "running" or not dream.is_held(store.directory / LOCK):
        return []
    words = harmless(f"{status['phase']} · {status['step']} · {status['text']}")
    tools, files = plural(status["tools"], "tool call"), plural(len(status["files"]), "file")
    return [
        f"A dream is running in process {status['process']}: {words}",
        f"  since {terminal.moment(float(status['started']))}, {tools}, {files} touched",
        *(f"  {one_line(str(turn), max(40, width() - 2))}" for turn in status["turns"]),
    ]


def stop(store: MemoryStore) -> None:
    if not running(store):
        raise UsageError("No dream is running.")
    record = DreamRecord(store.state)
    record.ask_to_end(str(record.status()["id"]))


def _status(args: argparse.Namespace, store: MemoryStore) -> None:
    lines, status = running(store), DreamRecord(store.state).status()
    words = "\n".join(lines or ["No dream is running."])
    out_result({"running": bool(lines), **status}, words, as_json=args.json)


def _undo(args: argparse.Namespace, store: MemoryStore) -> None:
    commit, paths = take_back(store, args.commit)
    redo = store.newest_change() if paths else ""
    if args.json:
        out_json({"commit": commit.id, "files": paths, "redo": redo})
        return
    restored = f"{plural(len(paths), 'file')} {'is' if len(paths) == 1 else 'are'} as before"
    out(f"The dream {commit.id[:8]} is undone: {restored}.")
    if redo:
        hint(args, f"{command(args, f'memory undo {redo}')} redoes it.")


def _kill(args: argparse.Namespace, store: MemoryStore) -> int:
    record = DreamRecord(store.state)
    status = record.status()
    stop(store)
    until = time.monotonic() + _WAIT
    while time.monotonic() < until:
        now = record.status()
        if now.get("id") != status["id"] or now.get("status") != "running":
            ended = str(now.get("text") or "")
            by_itself = now.get("id") != status["id"] or now.get("status") != "killed"
            text = f"The dream had already ended: {ended}" if by_itself else ended
            return _say(args, {"status": "done", "text": text})
        time.sleep(0.05)
    raise LaminaError(
        f"The dream in process {status.get('process')} does not respond. If it hangs, end that "
        "process: memories stay as they were."
    )


_VERBS = {"status": _status, "diff": _diff, "log": _log, "undo": _undo, "kill": _kill}


# ---- the nightly timer

_HOUR = 3


def has_timer(config: Config) -> bool:
    """Does something dream every night here, as far as systemd knows?"""
    return (_folder() / f"{_name(config)}.timer").exists()


def _install(args: argparse.Namespace, config: Config) -> None:
    name, folder = _name(config), _folder()
    words = [sys.executable, "-P", "-m", "lamina.cli.main", "dream", "--now", "--quiet"]
    words += ["--project", str(config.project), "--home", str(config.home)]
    words += ["--claude"] if args.claude else []
    units = {f"{name}.{kind}": text for kind, text in _units(words, config).items()}
    cron = f"0 {_HOUR} * * * {shlex.join(words)}".replace("%", "\\%")
    if args.print:
        shown = [f"# ~/.config/systemd/user/{file}\n{text}" for file, text in units.items()]
        shown.append(f"# or, for cron:\n{cron}")
        out_result({"units": units, "cron": cron}, "\n".join(shown), as_json=args.json)
        return
    if not _has_systemd():
        raise LaminaError(
            f"There is no systemd for users here. Add this line with `crontab -e`: {cron}"
        )
    with failing_as(LaminaError, f"Can't write {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in units.items():
            (folder / file).write_text(text, "utf-8")
    _systemctl("daemon-reload")
    _systemctl("enable", "--now", f"{name}.timer")
    if args.json:
        out_json({"status": "installed", "timer": f"{name}.timer", "hour": _HOUR})
        return
    out(f"{name}.timer runs every night at {_HOUR}:00.")
    hint(args, "`lamina dream --uninstall-timer` removes it.")


def _uninstall(args: argparse.Namespace, config: Config) -> None:
    name, folder = _name(config), _folder()
    there = [path for kind in ("timer", "service") if (path := folder / f"{name}.{kind}").is_file()]
    if not there:
        raise UsageError(
            f"There is no {name}.timer in {folder}. Remove a line of cron's with `crontab -e`."
        )
    systemd = _has_systemd()
    if systemd:
        _systemctl("disable", "--now", f"{name}.timer")
    try:
        for path in there:
            path.unlink()
    except OSError as error:
        raise LaminaError(f"Can't remove {error.filename}: {error.strerror}.") from error
    if systemd:
        _systemctl("daemon-reload")
    removed = f"{name}.timer is removed: no more nightly dreams."
    out_result({"status": "removed", "timer": f"{name}.timer"}, removed, as_json=args.json)


def _name(config: Config) -> str:
    return f"lamina-dream{slug(config.project)}"


def _systemctl(*words: str) -> None:
    asked = ["systemctl", "--user", *words]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LaminaError(f"systemctl {words[0]} failed: {' '.join(done.stderr.split())}.")


def _units(command: list[str], config: Config) -> dict[str, str]:
    # To systemd a single % starts a placeholder; words are quoted, special characters escaped.
    project = " ".join(str(config.project).split()).replace("%", "%%")
    special = {"\\": "\\\\", '"': '\\"', "%": "%%", "$": "$$", "\n": "\\n", "\t": "\\t"}
    start = " ".join(f'"{word.translate(str.maketrans(special))}"' for word in command)
    return {
        "service": f"[Unit]\nDescription=Lamina tidies the memory of {project}\n\n"
        f"[Service]\nType=oneshot\nExecStart={start}\nNice=10\n",
        "timer": f"[Unit]\nDescription=Nightly dream of {project}\n\n"
        f"[Timer]\nOnCalendar=*-*-* 0{_HOUR}:00:00\nPersistent=true\n\n"
        "[Install]\nWantedBy=timers.target\n",
    }


def _folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "systemd" / "user"


def _has_systemd() -> bool:
    if shutil.which("systemctl") is None:
        return False
    asked = ["systemctl", "--user", "show-environment"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0
