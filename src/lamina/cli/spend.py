"""`lamina spend`: what all model calls have cost, by layer, day, session or model, with bars. Reads the
ledger of spending under the home; changes nothing.
"""

from __future__ import annotations

import argparse

from lamina.cli.options import config_of
from lamina.cli.terminal import harmless, note, out, out_json, style, table, width

EXAMPLES = """
lamina spend                     by layer: what each is called for
lamina spend --by day            one row a day
lamina spend --by session
lamina spend --by model --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by",
        choices=("layer", "day", "session", "model"),
        default="layer",
        help="layer, day, session or model (layer)",
    )


def run(args: argparse.Namespace) -> int:
    from lamina.cache.spend import Spend, grouped
    from lamina.messages import Usage

    config = config_of(args)
    groups = grouped(Spend(config.own_home / "spend").calls(), args.by)
    total = sum(group.cost for group in groups)
    if args.json:
        rows = [
            {"name": g.name, "calls": g.calls, **g.usage.to_json(), "cost": round(g.cost, 6)}
            for g in groups
        ]
        out_json({"by": args.by, "groups": rows, "cost": round(total, 6)})
        return 0
    if not groups:
        note("No model call has been booked yet.")
        return 0
    used = sum((group.usage for group in groups), Usage())
    most = max(group.cost for group in groups)
    names = [_short(group.name) for group in groups]
    room = max(10, min(40, width() - max(map(len, names)) - 50))
    rows = [
        [
            name,
            _money(group.cost),
            bar(group.cost, most, room),
            f"{group.calls:,}",
            f"{group.usage.prompt:,}",
            f"{group.usage.cache_read / group.usage.prompt:.0%}" if group.usage.prompt else "–",
            f"{group.usage.output:,}",
        ]
        for name, group in zip(names, groups, strict=True)
    ]
    heading = [args.by, "cost", "", "calls", "tokens in", "cached", "tokens out"]
    out(table(rows, [style(word, "dim") for word in heading]))
    calls = sum(group.calls for group in groups)
    words = f"{_money(total)} in {calls:,} calls, {used.prompt:,} tokens in, {used.output:,} out"
    out(style(words, "bold"))
    return 0


_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(value: float, most: float, room: int) -> str:
    """A bar whose length is the value's share of `most`, to an eighth of a character."""
    eighths = round(8 * room * value / most) if most > 0 else 0
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def _money(dollars: float) -> str:
    return f"${dollars:,.2f}" if dollars >= 1 or not dollars else f"${dollars:.4f}"


def _short(name: str) -> str:
    return harmless(name if len(name) <= 40 else name[:39] + "…")
