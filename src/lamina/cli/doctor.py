"""`lamina doctor`: tries what Lamina needs on this machine and says what works, what to mind and what
is broken. It writes temporary files in the home (or, before there is one, in the folder that will
hold it) and removes them again; it shows no key.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from lamina.cli.doctor_checks import Check, all_checks
from lamina.cli.options import config_of
from lamina.cli.terminal import out, out_json, style, table
from lamina.config import Config
from lamina.errors import LaminaError

EXAMPLES = """
lamina doctor
lamina doctor --json
lamina doctor --home /mnt/shared/lamina     are locks safe there?
"""

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults()  # the common options are all it takes


def run(args: argparse.Namespace) -> int:
    checks = [*_settings(args), *all_checks(_config(args))]
    failed = any(check.state == "fail" for check in checks)
    if args.json:
        out_json({"ok": not failed, "checks": [asdict(check) for check in checks]})
        return 1 if failed else 0
    shown = [check for check in checks if not args.quiet or check.state != "ok"]
    out(table([[style(c.state, _COLOURS[c.state]), c.name, c.detail] for c in shown]))
    return 1 if failed else 0


def _settings(args: argparse.Namespace) -> list[Check]:
    try:
        config = config_of(args)
    except LaminaError as error:
        return [Check("settings", "fail", str(error))]
    if config.warnings:
        return [Check("settings", "warn", " ".join(config.warnings))]
    return [Check("settings", "ok", "all files and variables can be read")]


def _config(args: argparse.Namespace) -> Config:
    """The settings for the other checks; where they are broken, the defaults."""
    try:
        return config_of(args)
    except LaminaError:
        from lamina.config import defaults, find_home

        home, claude = find_home(args.home, claude=args.claude)
        return defaults(args.project, home, claude=claude)
