"""Money against kept content on the real sessions: each peer at several settings of its own, Lamina at
several of its own, every one costed by the same replay. Part of the cache benchmark.

A peer's setting beats Lamina where no setting of Lamina keeps at least as much for at most its price.
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
from lamina.replay.run import NonePolicy, Policy, replay
from lamina.replay.weigh import Weigher

LAMINA: dict[str, dict[str, str]] = {
    "as it comes": {},
    "worn off": {"LAMINA_MICROCOMPACT_WORN": "false"},
    "keep 1": {"LAMINA_MICROCOMPACT_KEEP": "1"},
    "keep 20": {"LAMINA_MICROCOMPACT_KEEP": "20"},
    "keep 60": {"LAMINA_MICROCOMPACT_KEEP": "60"},
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
) -> Iterator[tuple[tuple[str, str], Policy]]:
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


def cheaper_lamina(peer: Point, found: Sequence[Point]) -> Point | None:
    """The cheapest setting of Lamina that keeps as much and goes over the window no more often; None:
    the peer's is cheaper."""
    fair = [
        point
        for point in found
        if point.who == "lamina"
        and point.context >= peer.context * (1 - ALIKE)
        and point.over <= peer.over
        and point.money <= peer.money * (1 + ALIKE)
    ]
    return min(fair, key=lambda point: point.money, default=None)


def beaten_by(found: Sequence[Point]) -> list[Point]:
    """Peers' settings for which Lamina has no answer."""
    return [p for p in found if p.who != "lamina" and cheaper_lamina(p, found) is None]


def figures(found: Sequence[Point], *, uncut: bool) -> list[Figure]:
    what = "whole histories" if uncut else "as recorded"
    name = f"{what}: peers' settings cheaper than Lamina at equal kept content"
    return [at_most(name, len(beaten_by(found)), "", 0)]


def lines(found: Sequence[Point], *, uncut: bool) -> list[str]:
    plain = found[0]
    what = "recorder's compactions undone" if uncut else "as recorded"
    rows = [
        f"## Money against kept content, {what}",
        "",
        (
            "Each policy at several of its own settings. The last column names the cheapest setting "
            "of Lamina that keeps at least as much, goes over the window no more often and costs no "
            "more."
        ),
        "",
        "| policy | setting | money | against nothing | content kept | over the window | Lamina's answer |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for point in sorted(found, key=lambda point: -point.context):
        answer = cheaper_lamina(point, found) if point.who != "lamina" else None
        told = "" if point.who == "lamina" else "**none**"
        if answer is not None:
            told = f"{answer.setting}: ${answer.money:.2f}, {answer.kept(plain.context):.1%}"
        rows.append(
            f"| {point.who} | {point.setting} | ${point.money:.2f} "
            f"| {point.money / plain.money - 1:+.1%} | {point.kept(plain.context):.1%} "
            f"| {point.over} | {told} |"
        )
    unanswered = beaten_by(found)
    if unanswered:
        too_long = sum(point.over > 0 for point in unanswered)
        rows += [
            "",
            (
                f"{len(unanswered)} settings have no answer. {too_long} of them send requests that "
                "are too long for the window, which a provider refuses."
            ),
        ]
    return [*rows, ""]
