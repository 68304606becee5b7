"""`lamina gateway`: serves until it is interrupted. Loads the server only when it runs."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from lamina.cache.spend import money_text
from lamina.cli.options import config_of, port
from lamina.cli.terminal import note, out, out_json, plural
from lamina.errors import LaminaError, UsageError, installing
from lamina.ledger.places import find_project_folder, project_folder
from lamina.machine import make_private, write_private

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.gateway.desk import Desk, Totals
    from lamina.gateway.server import Gateway
    from lamina.messages import Json

PROVIDERS = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "gemini": ("GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"),
}
_DOES = {
    "--observe": "change nothing; record, and estimate savings (default)",
    "--act": "send less where that saves money",
    "--recall": "with --act: add memories that fit the prompt, unless Lamina's hooks do",
    "--compact": "with --act: replace the oldest messages with a summary when the model's window "
    "is nearly full",
    "--lifetime": "choose how long Anthropic's cache lives; with --act also keep it alive "
    "through pauses, with extra requests paid for from what was saved",
}
_WHERE = {
    "--host": ("127.0.0.1", "where to listen (127.0.0.1); other addresses need a token"),
    "--token-file": ("", "file with the token clients must send; made and shown once if missing"),
    "--upstream": ("anthropic", "anthropic (or ANTHROPIC_BASE_URL), openai, gemini, an address"),
}
_HERE = ("127.0.0.1", "localhost", "::1")
EXAMPLES = """
lamina gateway                             in front of Anthropic: record, change nothing
ANTHROPIC_BASE_URL=http://127.0.0.1:8787 claude
lamina gateway --act                       also send less where that saves money
lamina gateway --act --lifetime            also keep the provider's cache through short pauses
lamina gateway --upstream openai --port 0  on any free port
lamina gateway --host 0.0.0.0 --token-file gateway-token
ANTHROPIC_BASE_URL=http://build-host:8787/t/$TOKEN claude     on another machine
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_doing(parser)
    own = parser.add_argument
    own("--port", type=port, default=8787, help="where to listen (8787); 0: any free port")
    for name, (usual, what) in _WHERE.items():
        own(name, default=usual, metavar="FILE" if name.endswith("file") else "WHERE", help=what)


def add_doing(parser: argparse.ArgumentParser) -> None:
    either = parser.add_mutually_exclusive_group()
    for name, does in _DOES.items():
        group = either if name in ("--observe", "--act") else parser
        group.add_argument(name, action="store_true", help=does)


def run(args: argparse.Namespace) -> int:
    config = config_of(args)
    token = _token(args, config.secret("gateway"))
    desk = desk_for(config, **doing(args))
    gateway = gateway_to(upstream_url(args.upstream), desk, token)
    _serve(gateway, args)
    if args.json:
        out_json(told(desk.totals))
    elif not args.quiet:
        note(summed_up(desk.totals))
    return 0


def doing(args: argparse.Namespace) -> Json:
    """What `desk_for` is to do."""
    found = {"acts": args.act, "recalls": args.recall, "compacts": args.compact}
    return {**found, "lives": args.lifetime}


def upstream_url(name: str, environment: Mapping[str, str] = os.environ) -> str:
    variable, usual = PROVIDERS.get(name, ("", name))
    return environment.get(variable) or usual


def desk_for(
    config: Config,
    *,
    acts: bool,
    recalls: bool = False,
    compacts: bool = False,
    lives: bool = False,
    tell: Callable[[str], None] = lambda what: note(f"Lamina: {what}"),
    now: Callable[[], float] = time.time,
) -> Desk:
    """A desk that keeps conversations with those of the project. `now`: another clock, for replays."""
    from lamina.gateway.desk import Desk

    if not acts and (wish := "--recall" * recalls or "--compact" * compacts):
        raise UsageError(f"{wish} changes what is sent, so it needs --act.")
    memory = None
    if recalls and config.bool("memory.enabled"):
        from lamina.events import quiet
        from lamina.memory import open_store
        from lamina.recall.memory_index import MemoryIndex

        memory = MemoryIndex(open_store(config, quiet))
    folder = find_project_folder(config.own_home, config.project) / "conversations"
    try:
        project_folder(config.own_home, config.project)
        make_private(folder)
    except LaminaError as error:
        tell(str(error))  # and everything goes through
    does = {"acts": acts, "lives": lives, "compacts": compacts}
    return Desk(folder, config, **does, tell=tell, now=now, memory=memory)


def _token(args: argparse.Namespace, said: str) -> str:
    """What clients must show; "": nothing."""
    if args.token_file:
        file = Path(args.token_file).expanduser()
        try:
            if not file.exists():
                write_private(file, secrets.token_urlsafe(32).encode(), lasting=True)
                note(f"The token, now in {file} and not shown again, is {file.read_text()}")
            if file.stat().st_mode & 0o077:
                raise UsageError(f"Others may read {file}. Make it private: chmod 600 {file}")
            said = file.read_text("ascii").strip()
        except (OSError, ValueError) as error:
            raise UsageError(f"{file} can't be used as the token file: {error}.") from error
    if (said or args.token_file) and (len(said) < 20 or quote(said, safe="") != said):
        raise UsageError("A token needs 20 or more of the characters A-Z a-z 0-9 - . _ ~")
    if not said and args.host not in _HERE:
        way = "give --token-file FILE, or set LAMINA_GATEWAY_TOKEN"
        raise UsageError(f"Other machines may reach {args.host}, so it needs a token: {way}.")
    return said


def gateway_to(url: str, desk: Desk | None, token: str = "") -> Gateway:
    import ctypes
    import gc

    try:
        from lamina.gateway.peers import Upstream
        from lamina.gateway.server import Gateway
    except ImportError as error:
        raise UsageError(f"This needs the extra gateway: {installing('gateway')}.") from error
    with suppress(OSError, AttributeError):  # glibc: what a body takes is kept for the next one
        for option, size in ((-3, 4 * 2**20), (-1, 4 * 2**20), (-8, 1)):  # and one heap for all
            ctypes.CDLL(None).mallopt(option, size)  # M_MMAP_THRESHOLD, M_TRIM_, M_ARENA_MAX
    gc.freeze()  # and what is loaded is not gone through in search of what is not
    gc.set_threshold(20_000, 20, 20)
    return Gateway(Upstream(url), desk, token)


def _serve(gateway: Gateway, args: argparse.Namespace) -> None:
    leave = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, leave)  # in all threads: here they end it
    try:
        gateway.start(args.port, args.host)
        out(gateway.url)
        sys.stdout.flush()
        if not args.quiet:
            observing = "changes nothing (--act does)" if not args.lifetime else "only marks caches"
            doing = "sends less where that saves money" if args.act else observing
            note(f"The gateway is in front of {upstream_url(args.upstream)} and {doing}.")
        signal.sigwait(leave)
    finally:
        gateway.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def told(totals: Totals) -> dict[str, float]:
    named = ("requests", "edited", "billed", "direct", "acting", "misses", "kept")
    found = {name: round(getattr(totals, name), 6) for name in named}
    return {**found, "out": sum(totals.out.values()), "fetched": len(totals.fetched)}


def summed_up(totals: Totals) -> str:
    """One line for the end."""
    saved = totals.direct - totals.billed
    words = f"{money_text(totals.billed)} billed in {plural(totals.requests, 'request')}"
    if totals.edited:
        sign = "saved" if saved >= 0 else "lost"
        words += f", direct {money_text(totals.direct)}: {money_text(abs(saved))} {sign}"
        count = plural(sum(totals.out.values()), "result")
        words += f"; {count} shortened or left out, {len(totals.fetched)} fetched back"
    if (less := totals.billed - totals.acting) > 0:
        words += f"; --act would have saved {money_text(less)} ({less / totals.billed:.0%})"
    if totals.kept:
        words += f"; {plural(totals.kept, 'request')} sent by Lamina kept the cache alive"
    if totals.misses:
        words += f"; {plural(totals.misses, 'unexpected cache miss', 'unexpected cache misses')}"
    return words + "."
