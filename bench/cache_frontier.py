"""Money against kept content on the real sessions: each peer at several settings of its own, Lamina at
several of its own, every one costed by the same replay. Part of the cache benchmark.

A peer's setting beats Lamina where all its requests fit the window and it is cheaper than every setting of
Lamina that keeps at least as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.cache_policies import PeerPolicy, sent_by
from bench.figures import Figure, at_most

from lamina.config import Config, load
from lamina.replay.lamina_policy import lamina_policy
from lamina.replay.policies import ClearOldest, DropOldest
from lamina.replay.run import ContextPolicy, NonePolicy, replay
from lamina.replay.weigh import Weigher

LAMINA: dict[str, dict[str, str]] = {
    "as it comes": {},
    "worn off": {"LAMINA_MICROCOMPACT_WORN": "false"},
    "keep 1": {"LAMINA_MICROCOMPACT_KEEP": "1"},
    "keep 20": {"LAMINA_MICROCOMPACT_KEEP": "20"},
    "keep 60": {"LAMINA_MICROCOMPACT_KEEP": "60"},
    "compaction alone": {
        "LAMINA_MICROCOMPACT_WORN": "false",
        "LAMINA_MICROCOMPACT_TIME_BASED": "false",
        "LAMINA_TOOL_RESULTS_ENABLED": "false",
    },
    "all layers off": {
        "LAMINA_MICROCOMPACT_WORN": "false",
        "LAMINA_MICROCOMPACT_TIME_BASED": "false",
        "LAMINA_TOOL_RESULTS_ENABLED": "false",
        "LAMINA_COMPACT_AUTO": "false",
    },
}
PEERS = (
    "langchain_clear",
    "langchain_clear trigger=50000 keep=3",
    "langchain_clear trigger=50000 keep=10",
    "langchain_trim max_tokens=100000",
    "langchain_trim max_tokens=50000",
    "openai_trimmer",
    "openai_trimmer recent_turns=5",
)
CLEARED = (1, 3, 10, 30)  # results that clear-oldest keeps
ALIKE = 0.001  # of content or money: no difference
DROPPED = (200_000, 120_000, 80_000)  # windows of drop-oldest


@dataclass(slots=True)
class Point:
    """One policy at one setting, over all sessions."""

    who: str
    setting: str
    money: float = 0.0
    context: int = 0
    over: int = 0

    def kept(self, whole: int) -> float:
        return self.context / whole


def points(weighers: Sequence[Weigher], folder: Path, python: str | None) -> list[Point]:
    """All policies; the first is doing nothing."""
    configs = {
        name: load(folder, home=folder / "home", env=settings) for name, settings in LAMINA.items()
    }
    sent = {
        name: sent_by(name, [weigher.recording for weigher in weighers], str(python))
        for name in (PEERS if python else ())
    }
    found: dict[tuple[str, str], Point] = {}
    for number, weigher in enumerate(weighers):
        peers = {name: values[number] for name, values in sent.items()}
        for (who, setting), policy in _policies(weigher, configs, peers):
            point = found.setdefault((who, setting), Point(who, setting))
            result = replay(weigher.recording, policy, weigher=weigher)
            point.money += result.cost
            point.context += sum(request.context for request in result.requests)
            point.over += result.overflows
    return list(found.values())


def _policies(
    weigher: Weigher, configs: dict[str, Config], peers: dict[str, object]
) -> Iterator[tuple[tuple[str, str], ContextPolicy]]:
    yield ("nothing", ""), NonePolicy()
    for setting, config in configs.items():
        with lamina_policy(weigher, config) as policy:
            yield ("lamina", setting), policy
    for keep in CLEARED:
        yield ("clear-oldest", f"keep {keep}"), ClearOldest(keep)
    for window in DROPPED:
        yield ("drop-oldest", f"window {window:,}"), DropOldest(weigher, window)
    for name, value in peers.items():
        who, _, setting = name.partition(" ")
        yield (who, setting or "as it comes"), PeerPolicy(who, weigher.recording, value)


def answer(peer: Point, found: Sequence[Point]) -> Point | None:
    """The cheapest setting of Lamina that keeps as much and sends nothing that a provider refuses (or,
    where the peer does, no more of it); None: none keeps so much."""
    fair = [
        point
        for point in found
        if point.who == "lamina"
        and point.context >= peer.context * (1 - ALIKE)
        and point.over <= peer.over
    ]
    return min(fair, key=lambda point: point.money, default=None)


def beats(peer: Point, found: Sequence[Point]) -> bool:
    """Whether the peer's requests all fit, and it is cheaper than what Lamina needs to keep as much; a
    peer that keeps more than any of ours beats us where it is cheaper than the fullest of ours."""
    return peer.who != "lamina" and not peer.over and _costs_less(peer, found)


def _costs_less(peer: Point, found: Sequence[Point]) -> bool:
    fitting = [point for point in found if point.who == "lamina" and not point.over]
    enough = [point for point in fitting if point.context >= peer.context * (1 - ALIKE)]
    fullest = max(fitting, key=lambda point: point.context)
    own = min(enough, key=lambda point: point.money, default=fullest)
    return peer.money < own.money * (1 - ALIKE)


def keeps_more(peer: Point, found: Sequence[Point]) -> bool:
    """Fits, keeps more than any setting of ours that fits, and costs more than it."""
    apart = peer.who == "lamina" or peer.over > 0 or answer(peer, found) is not None
    return not apart and not beats(peer, found)


def figures(found: Sequence[Point], *, uncut: bool) -> list[Figure]:
    what = "whole histories" if uncut else "as recorded"
    refused = sum(point.over > 0 for point in found if point.who != "lamina")
    more = sum(keeps_more(point, found) for point in found)
    return [
        at_most(
            f"{what}: peers' settings cheaper than Lamina at equal or larger kept content",
            sum(beats(point, found) for point in found),
            "",
            0,
        ),
        Figure(f"{what}: peers' settings that send refused requests", refused, ""),
        Figure(f"{what}: peers' settings that keep more, for more money", more, ""),
    ]


def lines(found: Sequence[Point], *, uncut: bool) -> list[str]:
    plain = found[0]
    what = "recorder's compactions undone" if uncut else "as recorded"
    rows = [
        f"## Money against kept content, {what}",
        "",
        (
            "Each policy at several of its own settings. A request that is over the window is refused "
            "by a provider, so that such a setting could not have done the work. The last column names "
            "the cheapest setting of Lamina that keeps at least as much and goes over the window no "
            "more often."
        ),
        "",
        "| policy | setting | money | against nothing | content kept | over the window | Lamina's answer |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for point in sorted(found, key=lambda point: -point.context):
        rows.append(
            f"| {point.who} | {point.setting} | ${point.money:.2f} "
            f"| {point.money / plain.money - 1:+.1%} | {point.kept(plain.context):.1%} "
            f"| {point.over} | {_told(point, found)} |"
        )
    return [*rows, "", _summed_up(found), ""]


def _told(point: Point, found: Sequence[Point]) -> str:
    """How Lamina answers a peer's setting."""
    if point.who == "lamina":
        return ""
    own = answer(point, found)
    if own is None:
        return (
            "**cheaper**" if beats(point, found) else "keeps more" + " (refused)" * (point.over > 0)
        )
    told = f"{own.setting}: ${own.money:.2f}, {own.kept(found[0].context):.1%}"
    return f"**cheaper** than {told}" if own.money > point.money * (1 + ALIKE) else told


def _number(points: Sequence[Point]) -> str:
    return str(len(points) or "none")


def _summed_up(found: Sequence[Point]) -> str:
    peers = [point for point in found if point.who != "lamina"]
    refused = [point for point in peers if point.over]
    better = [point for point in peers if beats(point, found)]
    more = [point for point in peers if keeps_more(point, found)]
    words = (
        f"Of {len(peers)} other settings {_number(refused)} send requests that a provider refuses"
    )
    if refused:
        still = [point for point in refused if _costs_less(point, found)]
        words += f" ({_number(still)} of them would be cheaper than Lamina if it did not)"
    words += f". Of the rest {_number(better)} cost less than Lamina needs to keep as much"
    whole = found[0]
    for point in more:
        words += (
            f"; {point.who} ({point.setting}) keeps more than any setting of ours that fits, "
            f"{point.kept(whole.context):.1%}, for {point.money / whole.money - 1:+.1%} against nothing"
        )
    return words + "."
