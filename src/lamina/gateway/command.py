"""`lamina gateway`: serves until it is interrupted. Loads the server only when it runs."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from lamina.cache.prices import money_text
from lamina.cli.options import config_of
from lamina.cli.terminal import note, out, out_json, plural
from lamina.errors import LaminaError, UsageError, installing

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
_MORE = {
    "--recall": "with --act: add memories that fit what was typed, where no hook of Lamina's does",
    "--compact": "with --act: near the end of the model's window put a summary in the place of the "
    "oldest messages",
    "--lifetime": "choose how long Anthropic's cache lives; with --act also keep it in pauses, by "
    "requests of Lamina's own that are paid from what was saved",
}
PORT = 8787
EXAMPLES = """
lamina gateway                             before Anthropic: look, record, change nothing
ANTHROPIC_BASE_URL=http://127.0.0.1:8787 claude
lamina gateway --act                       and send less where that pays
lamina gateway --act --lifetime            and keep the provider's cache through short pauses
lamina gateway --upstream openai --port 0  on any free port
lamina gateway --upstream http://127.0.0.1:8080/v1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_doing(parser)
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"where to listen ({PORT}); 0: any free port"
    )
    parser.add_argument(
        "--upstream",
        default="anthropic",
        metavar="WHERE",
        help="anthropic, openai, gemini, or an address (anthropic; the usual variable for its "
        "address counts, as ANTHROPIC_BASE_URL)",
    )


def add_doing(parser: argparse.ArgumentParser) -> None:
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument(
        "--observe", action="store_true", help="change nothing: record and reckon (the default)"
    )
    doing.add_argument(
        "--act", action="store_true", help="leave out what can be left out, where that pays"
    )
    for name, does in _MORE.items():
        parser.add_argument(name, action="store_true", help=does)


def run(args: argparse.Namespace) -> int:
    desk = desk_for(config_of(args), **doing(args))
    gateway = gateway_to(upstream_url(args.upstream), desk)
    asyncio.run(_serve(gateway, args))
    if args.json:
        out_json(told(desk.totals))
    elif not args.quiet:
        note(summed_up(desk.totals))
    return 0


def doing(args: argparse.Namespace) -> Json:
    """What `desk_for` is to do."""
    found = {"acts": args.act, "recalls": args.recall, "compacts": args.compact}
    return {**found, "lives": args.lifetime}


def upstream_url(name: str) -> str:
    variable, usual = PROVIDERS.get(name, ("", name))
    return os.environ.get(variable) or usual


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
    from lamina.ledger.places import find_project_folder, make_private, project_folder

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


def gateway_to(url: str, desk: Desk | None) -> Gateway:
    import ctypes

    try:
        from lamina.gateway.peers import Upstream
        from lamina.gateway.server import Gateway
    except ImportError as error:
        raise UsageError(f"This needs the extra gateway: {installing('gateway')}.") from error
    with suppress(OSError, AttributeError):  # glibc: what a body takes is kept for the next one
        for option in (-3, -1):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
            ctypes.CDLL(None).mallopt(option, 4 * 2**20)
    return Gateway(Upstream(url), desk)


async def _serve(gateway: Gateway, args: argparse.Namespace) -> None:
    leave = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, leave.set)
    await gateway.start(args.port)
    out(gateway.url)
    sys.stdout.flush()
    if not args.quiet:
        observing = "changes nothing (--act does)" if not args.lifetime else "only marks caches"
        doing = "sends less where that pays" if args.act else observing
        note(f"The gateway stands before {upstream_url(args.upstream)} and {doing}.")
    try:
        await leave.wait()
    finally:
        await gateway.close()


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
        words += f"; {count} shortened or out, {len(totals.fetched)} fetched back"
    if (less := totals.billed - totals.acting) > 0:
        words += f"; --act would have saved {money_text(less)} ({less / totals.billed:.0%})"
    if totals.kept:
        words += f"; {plural(totals.kept, 'request')} of Lamina's own kept the cache"
    if totals.misses:
        words += f", {plural(totals.misses, 'time')} the cache was not read as it should have been"
    return words + "."
