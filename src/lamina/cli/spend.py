"""`lamina spend`: what all model calls have cost, by layer, day, session or model, with bars. Reads the
ledger of spending under the home; changes nothing.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from lamina.cli.fitting import fitted
from lamina.cli.options import config_of
from lamina.cli.terminal import harmless, note, out, out_json, style, width
from lamina.cli.wrapping import wrapped

if TYPE_CHECKING:
    from lamina.cache.spend import Group

MOST_ROWS = 40  # --json has all of them

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
    kept = _shown(groups, args.by)
    named = {id(group) for group in groups}
    shown = fitted(
        [_row(group) for group in kept],
        [args.by, "cost", "calls", "tokens in", "cached", "tokens out"],
        width(),
        gives_way=(5, 4, 3, 2),
        cut=0,
        right=(1, 2, 3, 4, 5),
        bars=[group.cost if id(group) in named else 0.0 for group in kept],
        bar_after=1,
    )
    out(shown)
    used = sum((group.usage for group in groups), Usage())
    calls = sum(group.calls for group in groups)
    many = "call" if calls == 1 else "calls"
    words = f"{_money(total)} in {calls:,} {many}, {used.prompt:,} tokens in, {used.output:,} out"
    out(style(wrapped(words, width(), 2), "bold"))
    return 0


def _shown(groups: list[Group], by: str) -> list[Group]:
    """What a person is shown: the dearest, or the latest days, and all others as one."""
    from lamina.cache.spend import Group
    from lamina.messages import Usage

    if len(groups) <= MOST_ROWS:
        return groups
    days = by == "day"
    kept = groups[-MOST_ROWS + 1 :] if days else groups[: MOST_ROWS - 1]
    others = groups[: -MOST_ROWS + 1] if days else groups[MOST_ROWS - 1 :]
    rest = Group(
        f"{len(others):,} others",
        sum(group.calls for group in others),
        sum((group.usage for group in others), Usage()),
        sum(group.cost for group in others),
    )
    return [rest, *kept] if days else [*kept, rest]


def _row(group: Group) -> list[str]:
    usage = group.usage
    return [
        harmless(group.name),
        _money(group.cost),
        f"{group.calls:,}",
        f"{usage.prompt:,}",
        f"{usage.cache_read / usage.prompt:.0%}" if usage.prompt else "–",
        f"{usage.output:,}",
    ]


def _money(dollars: float) -> str:
    return f"${dollars:,.2f}" if dollars >= 1 or not dollars else f"${dollars:.4f}"
