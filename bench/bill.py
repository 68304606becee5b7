"""The bill, with every call in it: what recorded sessions cost with Lamina, background included, against
what the recorded tool really did. Also how replay's time grows with a session. Writes `bench/out/bill.json`
and `bench/results/bill.md`.

Sessions of `claude-code-sessions-2` are split by a hash of their file's name. What was chosen, was chosen on
one half of them and on `claude-code-sessions`; the other half is reported first.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from os import environ
from pathlib import Path
from time import process_time

from bench.figures import ROOT, Figure, at_least, at_most, report

from lamina.cache import lifetime
from lamina.cache.spend import price_of
from lamina.config import Config, load
from lamina.messages import text, tool_result, tool_use
from lamina.replay.policies import open_policy
from lamina.replay.readers import read_recording
from lamina.replay.recording import RecordedMessage, RecordedRequest, Recording
from lamina.replay.results import Fork, PolicyResult
from lamina.replay.run import (
    DEFAULT_MODEL,
    ContextPolicy,
    EndingPolicy,
    RecordedTurn,
    Sent,
    replay,
)
from lamina.replay.weigh import Weigher

DATA = Path(environ.get("LAMINA_DATA") or ROOT.parent / "shared" / "data")
CHOSEN, LEFT_OUT = "chosen on", "left out"
NO_BACKGROUND = {"notes.enabled": False, "extraction.enabled": False}
NO_CLEARING = {"microcompact.time_based": False, "microcompact.worn": False}
NO_RESULTS = {"tool_results.enabled": False}
NO_FOLDS = {"folds.enabled": False}
NO_KEEPING = {"cache.keep_warm": 0}
PROVEN = "all, if a provider's mark of one hour is proven"
# Each lever alone, then all of them with the background in either profile.
LEVERS: dict[str, Mapping[str, object]] = {
    "large results on disk (layer 1) alone": {
        **NO_BACKGROUND,
        **NO_CLEARING,
        **NO_FOLDS,
        **NO_KEEPING,
    },
    "folds alone": {**NO_BACKGROUND, **NO_CLEARING, **NO_RESULTS, **NO_KEEPING},
    "clearing (layer 2) alone": {**NO_BACKGROUND, **NO_RESULTS, **NO_FOLDS, **NO_KEEPING},
    "folds and what keeps the cache": {**NO_BACKGROUND, **NO_CLEARING, **NO_RESULTS},
    "background alone, saving": {**NO_CLEARING, **NO_RESULTS, **NO_FOLDS, **NO_KEEPING},
    "all but background": {**NO_BACKGROUND, **NO_KEEPING},
    "all but what keeps the cache": NO_KEEPING,
    "all, background every turn": {"background.profile": "every-turn"},
    "all, 5 min or 1 h by the session's own pauses": {"cache.ttl": "auto"},
    "all, system prompt and tools 1 h after a first pause": {"cache.ttl": "mixed"},
    "all, saving, Haiku 4.5 as small model": {"small_model": "claude-haiku-4-5"},
    PROVEN: {},  # in a home of its own, in which that was found
    "all, saving (the default)": {},
}
DEFAULT = "all, saving (the default)"
DEARER = 0.005


@dataclass
class Session:
    """One file's bills for input, in dollars, by policy; and background's part of them."""

    name: str
    hour: bool  # its cache lived an hour
    bills: dict[str, float]
    background: dict[str, float]
    kept: dict[str, float]  # and that of requests which only keep the cache
    overflows: int  # requests of `none` that would be refused, whole history

    def share(self, what: str) -> float:
        return self.bills[what] / self.bills["recorded"] - 1


def home_of(lever: str) -> str:
    return "proven" if lever == PROVEN else "home"


def half_of(name: str) -> str:
    return CHOSEN if int(sha256(name.encode()).hexdigest(), 16) % 2 == 0 else LEFT_OUT


def files() -> dict[str, list[Path]]:
    first = sorted((DATA / "claude-code-sessions").glob("*.jsonl"))
    second = sorted((DATA / "claude-code-sessions-2").glob("*.jsonl"))
    return {
        LEFT_OUT: [path for path in second if half_of(path.name) == LEFT_OUT],
        CHOSEN: [*first, *(path for path in second if half_of(path.name) == CHOSEN)],
    }


def input_bill(result: PolicyResult) -> tuple[float, float, float]:
    """Dollars for input, what of that is background's, and what only kept the cache."""
    main = price_of(result.prices[0] if result.prices else DEFAULT_MODEL).output / 1e6
    written = aside = kept = paid = 0.0
    for request in result.requests:
        own = sum(call.usage.output for call in request.calls)
        written += (request.usage.output - own) * main
        for call in request.calls:
            answer = call.usage.output * price_of(call.model).output / 1e6
            written += answer
            if call.purpose == "keep_warm":
                kept += call.cost - answer
            else:
                aside += call.cost - answer
        paid += request.cost
    return paid - written, aside, kept


def costed(path: Path, configs: dict[str, Config]) -> Session:
    weigher = Weigher(read_recording(path))
    whole = weigher.uncut()
    life = max((request.ttl for request in weigher.recording.requests), default=0.0)
    bills: dict[str, float] = {}
    background: dict[str, float] = {}
    kept: dict[str, float] = {}
    for model in {request.model for request in weigher.recording.requests}:
        found = lifetime.Findings(forgets=True, renews=True, upgrades=True)
        if PROVEN in configs:
            lifetime.keep(configs[PROVEN].own_home, f"anthropic:{model}", "", found, "")

    def book(what: str, policy: str, config: Config, scales: Weigher) -> PolicyResult:
        with open_policy(policy, scales, config) as opened:
            result = replay(scales.recording, opened, weigher=scales)
        bills[what], background[what], kept[what] = input_bill(result)
        return result

    plain = configs[DEFAULT]
    book("recorded", "recorded", plain, weigher)
    for name, config in configs.items():
        book(name, "lamina", config, weigher)
    none = book("whole: none", "none", plain, whole)
    book("whole: lamina", "lamina", plain, whole)
    return Session(path.stem, life > 300, bills, background, kept, none.overflows)


def row(what: str, sessions: Sequence[Session]) -> str:
    def change(some: Sequence[Session]) -> str:
        bill = sum(s.bills["recorded"] for s in some)
        return f"{sum(s.bills[what] for s in some) / bill - 1:+.1%}" if bill else "–"

    bill = sum(session.bills["recorded"] for session in sessions)
    aside = sum(session.background.get(what, 0.0) for session in sessions) / bill
    kept = sum(session.kept.get(what, 0.0) for session in sessions) / bill
    dearer = [s.share(what) for s in sessions if s.share(what) > DEARER]
    five = [s for s in sessions if not s.hour]
    hour = [s for s in sessions if s.hour]
    return (
        f"| {what} | {change(sessions)} | {change(five)} | {change(hour)} | {aside:.2%} | {kept:.2%} "
        f"| {len(dearer)} | {max(dearer, default=0):.1%} |"
    )


def lines_of(name: str, sessions: Sequence[Session], asked: Collection[str]) -> Iterator[str]:
    bill = sum(session.bills["recorded"] for session in sessions)
    hours = sum(session.hour for session in sessions)
    refused = sum(session.overflows > 0 for session in sessions)
    yield f"## {name.capitalize()}: {len(sessions)} sessions, ${bill:,.2f} for input as recorded"
    yield ""
    yield (
        f"{len(sessions) - hours} with 5-minute caches, {hours} with 1-hour ones. Against what the "
        "recorded tool did, its own compactions and their calls included."
    )
    yield ""
    yield "| policy | all | 5 min | 1 h | background | kept warm | dearer by > 0.5% | the worst |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    yield from (row(what, sessions) for what in (*asked, "whole: lamina"))
    yield row("whole: none", sessions) + f" refused in {refused} sessions"
    yield ""


def figures_of(name: str, sessions: Sequence[Session]) -> list[Figure]:
    def saved(what: str, some: Sequence[Session]) -> float:
        bill = sum(session.bills["recorded"] for session in some)
        return 100 * (1 - sum(session.bills[what] for session in some) / bill)

    shares = sorted(s.background[DEFAULT] / s.bills["recorded"] for s in sessions)
    bill = sum(session.bills["recorded"] for session in sessions)
    aside = sum(session.background[DEFAULT] for session in sessions)
    dearer = [session for session in sessions if session.share(DEFAULT) > DEARER]
    worst = max(session.share(DEFAULT) for session in sessions)
    five, hour = [s for s in sessions if not s.hour], [s for s in sessions if s.hour]
    return [
        at_most(f"{name}: background of the recorded bill", 100 * aside / bill, "%", 3),
        at_most(f"{name}: background, p90", 100 * shares[int(0.9 * len(shares))], "%", 5),
        at_least(f"{name}: all together below recorded", saved(DEFAULT, sessions), "%", 10),
        at_least(f"{name}: 5-minute sessions", saved(DEFAULT, five), "%", 13),
        at_least(f"{name}: 1-hour sessions", saved(DEFAULT, hour), "%", 6),
        at_most(f"{name}: dearer by > 0.5%", 100 * len(dearer) / len(sessions), "% of sessions", 2),
        at_most(f"{name}: the dearest", 100 * worst, "%", 2),
        at_least(
            f"{name}: whole histories below recorded", saved("whole: lamina", sessions), "%", 3
        ),
    ]


# ---- how replay's time grows

SHORT, LONG = 500, 5_000


def long_recording(messages: int) -> Recording:
    """A question and five tool calls, again and again."""
    held: list[RecordedMessage] = []
    asks: list[RecordedRequest] = []
    for number in range(messages // 2):
        first, last = number % 6 == 0, number % 6 == 5
        said = [text(f"question {number}: do this and that, please")]
        words = f"line of output {number} of the build\n" * 20
        said = said if first else [tool_result(f"t{number - 1}", words)]
        answer = [text(f"answer {number}")]
        answer += [] if last else [tool_use(f"t{number}", "Bash", {"command": f"make {number}"})]
        for role, content in (("user", said), ("assistant", answer)):
            entry = {"role": role, "content": content}
            held.append(RecordedMessage(entry, len(held) - 1, len(held) + 1, 10.0 * number))
        asks.append(
            RecordedRequest(10.0 * number, len(held) - 2, len(held) - 1, None, DEFAULT_MODEL)
        )
    return Recording("made", "made", held, asks)


def replayed(
    messages: int, policy: str, config: Config, between: Callable[[], None]
) -> list[float]:
    """CPU time of each `SHORT` messages of a replay; before each something else is done."""
    recording = long_recording(messages)
    weigher = Weigher(recording)
    with open_policy(policy, weigher, config) as opened:
        noted = _Noted(opened, between)
        replay(recording, noted, weigher=weigher)
        return [*noted.times, process_time() - noted.began]


class _Noted:
    """A policy that notes what each `SHORT` messages take."""

    def __init__(self, policy: ContextPolicy, between: Callable[[], None]) -> None:
        self._policy, self.name, self._between = policy, policy.name, between
        self.times: list[float] = []
        self.began = 0.0

    def send(self, turn: RecordedTurn) -> Sent:
        if turn.number % (SHORT // 2) == 0:
            self.times += [process_time() - self.began] if turn.number else []
            self._between()
            self.began = process_time()
        return self._policy.send(turn)

    def end(self) -> Mapping[str, Sequence[Fork]]:
        return self._policy.end() if isinstance(self._policy, EndingPolicy) else {}


def growth(config: Config, rounds: int = 3) -> list[Figure]:
    """A long replay, with a short one before each of its parts: what else the machine does changes
    from second to second, and would decide if one followed the other. Of each the least counts."""
    found: list[Figure] = []
    for policy in ("none", "lamina"):
        short: list[float] = []

        def between(policy: str = policy, short: list[float] = short) -> None:
            short.extend(replayed(SHORT, policy, config, lambda: None))

        between()  # what loads once is loaded
        short.clear()
        long = [replayed(LONG, policy, config, between) for _ in range(rounds)]
        parts = LONG // SHORT
        few = sum(min(short[part::parts]) for part in range(parts)) / LONG
        many = sum(map(min, zip(*long, strict=True))) / LONG
        name = f"replay, {policy}: CPU a message at 5,000 messages for that at 500"
        found.append(at_most(name, many / few, "×", 1.3, at_500_us=round(1e6 * few, 1)))
    return found


def main() -> int:
    lines = ["# The bill, with every call in it", ""]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        configs = {
            name: load(place, home=place / home_of(name), env={}, overrides=dict(changes))
            for name, changes in LEVERS.items()
        }
        figures = growth(configs[DEFAULT])
        if not (DATA / "claude-code-sessions-2").is_dir():
            print("bill: the recorded sessions are not on this machine (LAMINA_DATA)")
            return report("bill", figures)
        for name, paths in files().items():
            # Each lever alone is asked for only where nothing was chosen.
            asked = configs if name == LEFT_OUT else {DEFAULT: configs[DEFAULT]}
            sessions = [costed(path, asked) for path in paths]
            figures += figures_of(name, sessions)
            lines += lines_of(name, sessions, asked)
            (ROOT / "bench" / "results" / "bill.md").write_text("\n".join(lines), "utf-8")
    return report("bill", figures)


if __name__ == "__main__":
    sys.exit(main())
