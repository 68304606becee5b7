"""`lamina spend`: what all model calls have cost, by layer, day, session or model. Reads the record
of spending under the home; changes nothing.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from lamina.cache.spend import Group, Spend, grouped, money_text, price_of
from lamina.cli.options import config_of, flag
from lamina.cli.terminal import fitted, harmless, note, out, out_json, out_wrapped, picked, plural
from lamina.config import Config
from lamina.ledger.places import find_project_folder, known_projects
from lamina.messages import BACKGROUND, Json, Usage, as_object
from lamina.ports import MemoryStore

LAST_SESSIONS = 20  # that health is about
MOST_CHANGES = 1_000  # of the history
MOST_ROWS = 40  # --json has all of them

EXAMPLES = """
lamina spend                     by layer
lamina spend --by day            one row per day
lamina spend --by session
lamina spend --by project
lamina spend --health            how cache, layers and memory did in the last sessions here
lamina spend --by model --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    groups = ("layer", "day", "session", "model", "project")
    about = "layer, day, session, model or project (layer)"
    parser.add_argument("--by", choices=groups, default="layer", help=about)
    flag(parser, "--health", "show how cache, layers and memory are doing in this project")


def run(args: argparse.Namespace) -> None:
    config = config_of(args)
    if args.health:
        return _show_health(args, config)
    saved, missed = saved_in(Spend(config.own_home / "spend").calls())
    groups, background, caps = report(config, args.by)
    whole = _together("", groups)
    if args.json:
        rows = [
            {"name": g.name, "calls": g.calls, **g.usage.to_json(), "cost": round(g.cost, 6)}
            for g in groups
        ]
        told = {**background, "cost": round(background["cost"], 6)}
        sums = {"cost": round(whole.cost, 6), "saved": round(saved, 6), "missed": round(missed, 6)}
        told_all = {"by": args.by, "groups": rows, **sums, "background": told, "caps": caps}
        return out_json(told_all)
    if not groups:
        return note("No model calls have been made yet.")
    kept, right = _shown(groups, args.by), (1, 2, 3, 4, 5)
    rows, heading = (
        [*map(_row, kept)],
        [args.by, "cost", "calls", "tokens in", "cached", "tokens out"],
    )
    bars = [group.cost if group in groups else 0.0 for group in kept]
    out(fitted(rows, heading, gives_way=(5, 4, 3, 2), right=right, bars=bars, bar_after=1))
    used, calls = whole.usage, plural(whole.calls, "call")
    tokens = f"{used.prompt:,} tokens in, {used.output:,} out"
    out_wrapped(f"{money_text(whole.cost)} in {calls} of all projects, {tokens}", 2, "bold")
    if background["calls"]:
        share = background["cost"] / whole.cost if whole.cost else 0.0
        aside = f"{money_text(background['cost'])} in {plural(background['calls'], 'call')}"
        out_wrapped(f"Of it background work: {aside}, {share:.0%} of the whole", 2, "dim")
    for words in told_of(saved, missed):
        out_wrapped(words, 2, "dim")
    for cap in caps:
        _show_cap(cap)
    return None


def report(config: Config, by: str) -> tuple[list[Group], Json, list[Json]]:
    """What was spent, in groups; how much of it on background work; the caps on that."""
    spend = Spend(config.own_home / "spend")
    by_layer = grouped(spend.calls(), "layer")
    background = picked(_together("", [g for g in by_layer if g.name in BACKGROUND]), "calls cost")
    caps = list(_caps(config, spend.background(time.time())))
    if by == "project":
        return _by_project(config, grouped(spend.calls(), "session")), background, caps
    return grouped(spend.calls(), by), background, caps


def _by_project(config: Config, by_session: list[Group]) -> list[Group]:
    """Sessions summed up by the folder in which their ledger lies, dearest first."""
    from lamina.cli.sessions import find

    home = config.own_home
    known = {find_project_folder(home, one).name: Path(one).name for one in known_projects(home)}
    files = find(config, everywhere=True)
    owner = {file.stem: known.get(file.parent.name, file.parent.name) for file in files}
    found: dict[str, list[Group]] = {}
    for one in by_session:
        found.setdefault(owner.get(one.name, "elsewhere"), []).append(one)
    sums = (_together(name, groups) for name, groups in found.items())
    return sorted(sums, key=lambda group: -group.cost)


def _together(name: str, groups: Sequence[Group]) -> Group:
    usage = sum((group.usage for group in groups), Usage())
    return Group(name, sum(g.calls for g in groups), usage, sum(g.cost for g in groups))


def told_of(saved: float, missed: float) -> Iterator[str]:
    """What the gateway saved, and what it would have had it acted, in a sentence each."""
    if saved:
        what = f"saved {money_text(saved)}" if saved > 0 else f"cost {money_text(-saved)} more"
        yield f"What the gateway left out {what}, against the same requests sent whole"
    if missed > 0:
        yield f"Where the gateway only looked on, --act would have saved {money_text(missed)}"


def saved_in(calls: Iterable[Json]) -> tuple[float, float]:
    """Dollars that requests which were changed on their way would have cost more unchanged; and that
    those which were not would have cost less changed."""
    sums = {"direct": 0.0, "acting": 0.0}
    for row in calls:
        paid = row.get("cost")
        for name in sums:
            other = row.get(name)
            if isinstance(other, int | float) and isinstance(paid, int | float):
                sums[name] += float(other) - float(paid)
    return sums["direct"], 0.0 - sums["acting"]  # never "-0.0"


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
    spent = f"{money_text(cap['today'])} of {money_text(cap['cap'])} ({cap['setting']})"
    stopped = cap["today"] >= cap["cap"]
    until = ", stopped until midnight UTC" if stopped else ""
    out_wrapped(f"Background work{of} today: {spent}{until}", 2, "yellow" if stopped else "dim")


def _shown(groups: list[Group], by: str) -> list[Group]:
    """What a person is shown: the dearest groups, or the latest days, and all others as one."""
    if len(groups) <= MOST_ROWS:
        return groups
    days = by == "day"
    kept = groups[-MOST_ROWS + 1 :] if days else groups[: MOST_ROWS - 1]
    others = groups[: -MOST_ROWS + 1] if days else groups[MOST_ROWS - 1 :]
    rest = _together(f"{len(others):,} others", others)
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


def session_health(config: Config, file: Path) -> Json:
    """One session: cache, what the layers took out and earned, what compactions kept."""
    from lamina.cli.context import state_of
    from lamina.ledger import log
    from lamina.ledger.record import Ledger

    ledger = Ledger.of(log.read(file).entries)
    state = state_of(config, file.stem, ledger)
    price = price_of(state["model"], config.table("prices")).input / 1e6
    strange = [one for one in state["cache"]["breaks"] if not one["expected"]]
    folds = [one for one in ledger.entries if one["kind"] == "edit" and one.get("op") == "fold"]
    scores = [
        as_object(as_object(one.get("boundary")).get("fidelity")).get("score") for one in folds
    ]
    return {
        "input": state["cache"]["input"],
        "read": state["cache"]["read"],
        "saved": (state["balance"] or 0) * price,  # dollars, its own cost off
        "background": (state["background"] or 0) * price,
        "layers": {layer: one["tokens"] for layer, one in state["saved"].items()},
        "misses": {one["cause"]: one["count"] for one in strange},
        "fidelity": [one for one in scores if isinstance(one, float | int)],
    }


def health(sessions: Sequence[Json]) -> Json:
    """Several sessions as one."""
    summed = ("input", "read", "saved", "background")
    found: Json = {name: sum(one[name] for one in sessions) for name in summed}
    for name in ("layers", "misses"):
        sums: Counter[str] = Counter()
        for one in sessions:
            sums.update(one[name])
        found[name] = dict(sums.most_common())
    return {**found, "fidelity": [score for one in sessions for score in one["fidelity"]]}


def memory_health(store: MemoryStore) -> Json:
    """What became of memories that Lamina wrote by itself, as far as the last changes tell."""
    commits = [*islice(store.history.log(), MOST_CHANGES)] if store.history is not None else []
    own = {
        path
        for one in commits
        if one.writer in ("agent", "extraction", "dream")
        for path in one.paths
        if not path.endswith("MEMORY.md")
    }
    forgetting = [one for one in commits if one.subject.startswith("forget ")]
    gone = {path for one in forgetting for path in one.paths}
    by_user = [one for one in commits if one.writer == "user" and one not in forgetting]
    fixed = {path for one in by_user for path in one.paths}
    return {
        "written": len(own),
        "corrected": len(own & fixed - gone),
        "forgotten": len(own & gone),
        "refused": int(getattr(store, "refused", 0)),  # not every store counts them
        "waiting": len(store.waiting()),
    }


def _show_health(args: argparse.Namespace, config: Config) -> None:
    from lamina.cli.memory import open_store
    from lamina.cli.sessions import find

    files = find(config)[:LAST_SESSIONS]
    found = health([session_health(config, file) for file in files])
    with open_store(config) as store:
        value: Json = {"sessions": len(files), **found, "memory": memory_health(store)}
    if args.json:
        return out_json(value)
    share = found["read"] / found["input"] if found["input"] else 0.0
    kept = found["fidelity"]
    rows = [
        ["read from the cache", f"{share:.0%} of {found['input']:,} tokens"],
        ["cache breaks without a known cause", f"{sum(found['misses'].values()):,}"],
        ["saved, its own cost off", money_text(found["saved"])],
        ["compactions", f"{len(kept)}" + (f", {sum(kept) / len(kept):.0%} kept" if kept else "")],
        *([f"memories {name}", f"{count:,}"] for name, count in value["memory"].items()),
    ]
    return out(fitted(rows, ["health", f"in the last {plural(len(files), 'session')}"]))
