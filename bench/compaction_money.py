"""What the order (notes first, or in full) and the threshold of a compaction cost.

Whole histories of the recorded sessions that were compacted, replayed with Lamina's layers under each
setting, against what the recording tool did. Replay charges our calls; the recording tool's own
is added here: it reads the whole view from the cache and writes so many tokens.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lamina.cache.spend import price_of
from lamina.config import load
from lamina.replay.lamina_policy import lamina_policy
from lamina.replay.readers import read_recording
from lamina.replay.results import PolicyResult
from lamina.replay.run import NonePolicy, replay
from lamina.replay.weigh import Weigher

FULL = {"LAMINA_COMPACT_FROM_NOTES": "false"}
LONG_TAIL = {"LAMINA_NOTES_KEEP_TOKENS": "10000"}  # the specification's figure
EARLY = {"LAMINA_AUTOCOMPACT_PERCENT": "85"}
SETTINGS = {
    "notes first": {},
    "notes first, tail of 10,000": LONG_TAIL,
    "in full": FULL,
    "notes first, at 85%": EARLY,
    "notes first, tail of 10,000, at 85%": LONG_TAIL | EARLY,
    "in full, at 85%": FULL | EARLY,
}
WRITTEN = 2_000  # tokens that a model writes into a full summary


@dataclass
class Bill:
    money: float = 0.0
    calls: float = 0.0  # of summaries, within the money
    compactions: int = 0
    rereads: int = 0
    context: int = 0


def bills(paths: Iterable[Path]) -> dict[str, Bill]:
    """By setting, the recording tool's own first; all in dollars of the recorded models."""
    found = {"the recording tool": Bill(), **{name: Bill() for name in SETTINGS}}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        configs = {name: load(Path(folder), home=home, env=env) for name, env in SETTINGS.items()}
        for path in paths:
            recording = read_recording(path)
            weigher = Weigher(recording)
            done = replay(recording, NonePolicy(), weigher=weigher)
            _add(found["the recording tool"], done, {"recorder"})
            whole = weigher.uncut()
            for name, config in configs.items():
                with lamina_policy(whole, config) as policy:
                    done = replay(whole.recording, policy, weigher=whole)
                _add(found[name], done, {"compaction"})
    return found


def _add(bill: Bill, done: PolicyResult, layers: set[str]) -> None:
    price = price_of(done.prices[0] if done.prices else "")
    bill.money += done.cost
    bill.rereads += len(done.rereads)
    before = 0
    for request in done.requests:
        for action in request.actions:
            if action.layer in layers and "compacted" in action.description:
                bill.compactions += 1
                if layers == {"recorder"}:  # replay has charged our own calls already
                    call = (before * price.cache_read + WRITTEN * price.output) / 1e6
                    bill.calls += call
                    bill.money += call
        bill.calls += sum(call.cost for call in request.calls if call.purpose == "summary")
        before = request.context
        bill.context += request.context
