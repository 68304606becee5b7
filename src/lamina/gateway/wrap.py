"""`lamina wrap CLIENT -- ARGS`: starts a coding agent with a gateway before it, on a free port, and ends
with it. The agent's environment and command line are all that is changed: no file of the user's is
touched. What the gateway has to say waits for the end: the screen is the agent's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from lamina.cli.options import config_of
from lamina.cli.terminal import harmless, note, out_json
from lamina.errors import UsageError
from lamina.gateway.clients import CLIENTS, Back, Launch, Setting, kept_off_proxies
from lamina.gateway.command import add_doing, desk_for, doing, gateway_to, summed_up, told

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.gateway.server import Gateway

EXAMPLES = """
lamina wrap claude                         Claude Code as usual, with its cost at the end
lamina wrap claude --act -- -p "Fix the build"
lamina wrap codex -- exec "Fix the build"
lamina wrap opencode --act -- run --model openai/gpt-5.2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "lamina wrap CLIENT [options] [-- ARGS]"
    parser.add_argument(
        "client", metavar="CLIENT", help=f"{', '.join(CLIENTS)}; its own arguments follow --"
    )
    add_doing(parser)
    own = "the provider (by default, the one the agent would use)"
    parser.add_argument("--upstream", default="", metavar="URL", help=own)


def run(args: argparse.Namespace) -> int:
    if args.client not in CLIENTS:
        raise UsageError(
            f"{args.client} is not one of {', '.join(CLIENTS)}; for others, start `lamina gateway` "
            "and give them its address."
        )
    if (program := shutil.which(str(args.client))) is None:
        raise UsageError(f"{args.client} is not installed, or not on your PATH.")
    config = config_of(args)
    found = Setting(args.behind, dict(os.environ), config.project, upstream=args.upstream)
    launch = CLIENTS[args.client](found)
    said: list[str] = []
    desk = desk_for(config, **doing(args), tell=said.append)
    gateway = gateway_to(launch.upstream, desk)
    gateway.stays = True
    if args.lifetime and args.act and not args.quiet:
        note("Lamina: during pauses, Lamina may send requests of its own (--lifetime).")
    back = _way_back(config, str(desk.folder)) if args.act else None
    code = _wrapped(gateway, launch, [program, *args.behind], back)
    if args.json:
        out_json({**told(desk.totals), "exit": code})
    elif not args.quiet:
        for sentence in said:
            note(harmless(f"Lamina: {sentence}"))
        nothing = f"nothing went through the gateway; {args.client} may be set to another address."
        note(f"Lamina: {summed_up(desk.totals) if desk.totals.requests else nothing}")
    return code


def _way_back(config: Config, folder: str) -> Back:
    served = ["mcp", "--only", "expand", "--project", str(config.project), "--home"]
    served += [str(config.home), *["--claude"] * config.claude]
    return folder, [sys.executable, "-P", "-m", "lamina.cli.main", *served]


def _wrapped(gateway: Gateway, launch: Launch, command: list[str], back: Back | None) -> int:
    gateway.start()
    program, *rest = command
    env = {**os.environ, **kept_off_proxies(os.environ), **launch.environment(gateway.url, back)}
    try:
        child = subprocess.Popen([program, *launch.arguments(gateway.url, back), *rest], env=env)
        for name in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, lambda name, _: child.send_signal(name))
        signal.signal(signal.SIGINT, lambda _name, _: None)  # the terminal tells the child itself
        code = child.wait()
    finally:
        gateway.close()
    return code if code >= 0 else 128 - code
