"""`lamina instructions`: which instruction files apply here, from where, in which order. Reads
only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lamina.cli.options import config_of, flag, option
from lamina.cli.terminal import harmless, note, out, out_json, picked, plural, style, table
from lamina.memory import Instructions, as_reminder, load, places_for, touched

EXAMPLES = """
lamina instructions                      what is loaded, weakest first
lamina instructions --for src/api/x.py   with what working on that file adds
lamina instructions --text               the text as the model gets it
lamina instructions --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    option(parser, "--for PATH", "include what working on this file adds", dest="file")
    flag(parser, "--text", "print the text that the model gets")


def run(args: argparse.Namespace) -> None:
    config = config_of(args)
    here = Path.cwd()
    cwd = here if here.is_relative_to(config.project) else config.project
    places = places_for(config, cwd)
    found = load(places)
    if args.file:
        more = touched(places, args.file, [item.path for item in found.loaded])
        found = Instructions((*found.loaded, *more.loaded), (*found.skipped, *more.skipped))
    if args.json:
        loaded = [
            picked(item, "path scope")
            | {"bytes": item.size, "characters": len(item.text)}
            | picked(item, "why warnings")
            for item in found.loaded
        ]
        out_json({"loaded": loaded, "skipped": [picked(one, "path why") for one in found.skipped]})
    elif args.text:
        out(harmless(as_reminder(found.loaded)))
    else:
        _show(found)
    if args.quiet or args.json:
        return
    for item in found.loaded:
        for warning in item.warnings:
            note(f"{harmless(item.path)}: {harmless(warning)}")
    for item in found.skipped:
        note(f"not loaded: {harmless(item.path)}: {harmless(item.why)}")


def _show(found: Instructions) -> None:
    if not found.loaded:
        none = "There are no instruction files here"
        return out(f"{none}. AGENTS.md or CLAUDE.md in the project would be read.")
    rows = [
        [str(number), item.scope, f"{item.size:,}", harmless(item.path), harmless(item.why)]
        for number, item in enumerate(found.loaded, 1)
    ]
    out(table(rows, ["", "scope", "bytes", "file", "why"]))
    total = sum(item.size for item in found.loaded)
    files = plural(len(rows), "file")
    return out(style(f"{files}, {total:,} bytes; where two disagree, the later one wins", "dim"))
