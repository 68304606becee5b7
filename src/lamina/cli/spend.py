"""`lamina spend`: what all model calls have cost, by layer, day, session or model. Reads the record
of spending under the home; changes nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lamina.cache.prices import money_text
from lamina.cli.options import config_of
from lamina.cli.terminal import fitted, harmless, note, out, out_json, plural, style, width, wrapped

if TYPE_CHECKING:
    from lamina.cache.spend import Group
    from lamina.config import Config
    from lamina.messages import Json

MOST_ROWS = 40  # --json has all of them

EXAMPLES = """
lamina spend                     by layer
lamina spend --by day            one row per day
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
    from lamina.cache.spend import BACKGROUND, Spend, grouped
    from lamina.messages import Usage

    config = config_of(args)
    spend = Spend(config.own_home / "spend")
    groups = grouped(spend.calls(), args.by)
    total = sum(group.cost for group in groups)
    aside = [g for g in grouped(spend.calls(), "layer") if g.name in BACKGROUND]
    background = {"calls": sum(g.calls for g in aside), "cost": sum(g.cost for g in aside)}
    caps = list(_caps(config, spend.background(time.time())))
    if args.json:
        rows = [
            {"name": g.name, "calls": g.calls, **g.usage.to_json(), "cost": round(g.cost, 6)}
            for g in groups
        ]
        told = {**background, "cost": round(background["cost"], 6)}
        sums = {"cost": round(total, 6), "saved": round(_saved(spend.calls()), 6)}
        out_json({"by": args.by, "groups": rows, **sums, "background": told, "caps": caps})
        return 0
    if not groups:
        note("No model calls have been made yet.")
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
    words = (
        f"{money_text(total)} in {plural(calls, 'call')} of all projects, "
        f"{used.prompt:,} tokens in, {used.output:,} out"
    )
    out(style(wrapped(words, width(), 2), "bold"))
    if background["calls"]:
        share = background["cost"] / total if total else 0.0
        words = (
            f"Of it background work: {money_text(background['cost'])} in "
            f"{plural(int(background['calls']), 'call')}, {share:.0%} of the whole"
        )
        out(style(wrapped(words, width(), 2), "dim"))
    _show_saved(_saved(spend.calls()))
    for cap in caps:
        _show_cap(cap)
    return 0


def _show_saved(saved: float) -> None:
    if saved:
        what = f"saved {money_text(saved)}" if saved > 0 else f"cost {money_text(-saved)} more"
        words = f"What the gateway left out {what}, against the same requests sent whole"
        out(style(wrapped(words, width(), 2), "dim"))


def _saved(calls: Iterable[Json]) -> float:
    """Dollars that requests which were changed on their way would have cost more unchanged."""
    told = ((row.get("direct"), row.get("cost")) for row in calls)
    return sum(
        float(direct) - float(paid)
        for direct, paid in told
        if isinstance(direct, int | float) and isinstance(paid, int | float)
    )


def _caps(config: Config, spent: dict[str, float]) -> Iterator[Json]:
    """Each cap on background work that is set, and how much of it is used up today."""
    if daily := config.float("spend.daily_cap"):
        used = round(sum(spent.values()), 6)
        yield {"of": "all", "setting": "spend.daily_cap", "cap": daily, "today": used}
    for layer, cap in config.table("spend.layer_caps").items():
        if cap:
            used = round(spent.get(layer, 0.0), 6)
            yield {"of": layer, "setting": "spend.layer_caps", "cap": cap, "today": used}


def _show_cap(cap: Json) -> None:
    """A line for a cap of which something is used."""
    if not cap["today"]:
        return
    of = "" if cap["of"] == "all" else f" for {cap['of']}"
    words = (
        f"Background work{of} today: {money_text(cap['today'])} of {money_text(cap['cap'])} "
        f"({cap['setting']})"
    )
    stopped = cap["today"] >= cap["cap"]
    words += ", stopped until midnight UTC" if stopped else ""
    out(style(wrapped(words, width(), 2), "yellow" if stopped else "dim"))


def _shown(groups: list[Group], by: str) -> list[Group]:
    """What a person is shown: the dearest groups, or the latest days, and all others as one."""
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
        money_text(group.cost),
        f"{group.calls:,}",
        f"{usage.prompt:,}",
        f"{usage.cache_read / usage.prompt:.0%}" if usage.prompt else "–",
        f"{usage.output:,}",
    ]
