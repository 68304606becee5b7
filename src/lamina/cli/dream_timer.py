"""The nightly dream: a systemd user timer where there is systemd, else the line for cron."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from lamina.cli.terminal import note, out, out_json
from lamina.config import Config
from lamina.errors import LaminaError, UsageError
from lamina.ledger.places import slug

_HOUR = 3


def install(args: argparse.Namespace, config: Config) -> int:
    """Print it, or put it in place."""
    name = _name(config)
    command = _command(args, config)
    units = {f"{name}.service": _service(command, config), f"{name}.timer": _timer(config)}
    cron = f"0 {_HOUR} * * * {shlex.join(command)}".replace("%", "\\%")
    if args.print:
        if args.json:
            out_json({"units": units, "cron": cron})
            return 0
        for file, text in units.items():
            out(f"# ~/.config/systemd/user/{file}\n{text}")
        out(f"# or, for cron:\n{cron}")
        return 0
    if not _has_systemd():
        raise LaminaError(
            f"There is no systemd for users here. Add this line by `crontab -e`: {cron}"
        )
    folder = _folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in units.items():
            (folder / file).write_text(text, "utf-8")
    except OSError as error:
        raise LaminaError(f"Can't write {folder}: {error.strerror}.") from error
    _systemctl("daemon-reload")
    _systemctl("enable", "--now", f"{name}.timer")
    if args.json:
        out_json({"status": "installed", "timer": f"{name}.timer", "hour": _HOUR})
        return 0
    out(f"{name}.timer runs every night at {_HOUR}:00.")
    if not args.quiet:
        note("`lamina dream --uninstall-timer` ends that.")
    return 0


def uninstall(args: argparse.Namespace, config: Config) -> int:
    """Take it away again."""
    name = _name(config)
    folder = _folder()
    there = [path for kind in ("timer", "service") if (path := folder / f"{name}.{kind}").is_file()]
    if not there:
        raise UsageError(
            f"There is no {name}.timer in {folder}. A line that you gave to cron goes by `crontab -e`."
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
    if args.json:
        out_json({"status": "removed", "timer": f"{name}.timer"})
    else:
        out(f"{name}.timer is removed: no more dreams at night.")
    return 0


def _name(config: Config) -> str:
    return f"lamina-dream{slug(config.project)}"


def _systemctl(*words: str) -> None:
    done = subprocess.run(
        ["systemctl", "--user", *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise LaminaError(f"systemctl {words[0]} failed: {' '.join(done.stderr.split())}.")


def _command(args: argparse.Namespace, config: Config) -> list[str]:
    words = [sys.executable, "-m", "lamina.cli.main", "dream", "--now", "--quiet"]
    words += ["--project", str(config.project), "--home", str(config.home)]
    return [*words, "--claude"] if args.claude else words


def _service(command: list[str], config: Config) -> str:
    start = " ".join(_quoted(word) for word in command)
    return (
        f"[Unit]\nDescription=Lamina tidies the memory of {_described(config)}\n\n"
        f"[Service]\nType=oneshot\nExecStart={start}\nNice=10\n"
    )


def _timer(config: Config) -> str:
    return (
        f"[Unit]\nDescription=Nightly dream of {_described(config)}\n\n"
        f"[Timer]\nOnCalendar=*-*-* 0{_HOUR}:00:00\nPersistent=true\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )


def _quoted(word: str) -> str:
    """A word as systemd reads it: in quotes, with its own special characters escaped."""
    for char, instead in {
        "\\": "\\\\",
        '"': '\\"',
        "%": "%%",
        "$": "$$",
        "\n": "\\n",
        "\t": "\\t",
    }.items():
        word = word.replace(char, instead)
    return f'"{word}"'


def _described(config: Config) -> str:
    """The project on one line; to systemd a single % is the start of a name to fill in."""
    return " ".join(str(config.project).split()).replace("%", "%%")


def _folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "systemd" / "user"


def _has_systemd() -> bool:
    if shutil.which("systemctl") is None:
        return False
    done = subprocess.run(
        ["systemctl", "--user", "show-environment"], capture_output=True, check=False
    )
    return done.returncode == 0
