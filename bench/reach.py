"""Whatever left the view can be brought back: every recorded session goes through the layers, its ledger is
written to a file and opened again as a new process would, and every id that a marker names is expanded,
part by part as the tool shows it, and compared with the recorded bytes. Beside it, what folds alone save.
Writes `bench/out/reach.json`.

Sessions are split by the hash of their file's name: on the one half `folds.least` was chosen, the
other is reported.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from os import environ
from pathlib import Path

from bench.figures import ROOT, Figure, at_least, at_most, report

from lamina.config import load
from lamina.errors import LaminaError
from lamina.ledger.log import encode
from lamina.ledger.record import Ledger
from lamina.ledger.spans import expand, whole_text
from lamina.messages import as_object, dicts
from lamina.replay.lamina_policy import LaminaPolicy, lamina_policy
from lamina.replay.readers import read_recording
from lamina.replay.run import NonePolicy, replay
from lamina.replay.weigh import Weigher
from lamina.tools.view_tools import LINES, lines_shown

DATA = Path(environ.get("LAMINA_DATA") or ROOT.parent / "shared" / "data")
NAMED = re.compile(r"Expand (\S+) brings")
GOES_ON = re.compile(
    r"\n\[Up to line \d+ of \d+; continue with offset (\d+)(?: and column (\d+))?\.\]$"
)
ALONE = {  # every other layer off
    f"LAMINA_{name}": "false"
    for name in (
        "TOOL_RESULTS_ENABLED",
        "MICROCOMPACT_TIME_BASED",
        "MICROCOMPACT_WORN",
        "NOTES_ENABLED",
        "COMPACT_AUTO",
    )
}


def checked(policy: LaminaPolicy, threads: Iterable[str]) -> tuple[int, list[str]]:
    """How many markers the resumed conversations have, and those that don't give their bytes back."""
    count, wrong = 0, list[str]()
    with tempfile.TemporaryDirectory() as folder:
        for number, thread in enumerate(dict.fromkeys(threads)):
            path = Path(folder) / f"{number}.jsonl"
            path.write_bytes(b"".join(encode(e) + b"\n" for e in policy.ledger(thread).entries))
            again = Ledger.open(path)
            found, bad = markers(again)
            again.close()
            count, wrong = count + found, [*wrong, *bad, *map(str, again.problems)]
    return count, wrong


def markers(again: Ledger) -> tuple[int, list[str]]:
    """How many a ledger has, and those that do not give their bytes back."""
    count, wrong = 0, list[str]()
    for edit in again.entries:
        if edit["kind"] != "edit" or edit.get("op") != "replace":
            continue
        for item in dicts(edit.get("items")):
            words = whole_text(item["with"])
            entry = as_object(again.projection.entry(str(item["entry"])))
            original = whole_text(dicts(entry.get("content"))[item["block"]])
            found = NAMED.search(words)
            count += 1
            try:
                if found is None or _expanded(again, found[1]) != original:
                    wrong.append(words[:80])
            except LaminaError as error:
                wrong.append(str(error))
    return count, wrong


def _expanded(ledger: Ledger, name: str) -> str:
    """All that Expand shows for an id, asked as often as it says that there is more."""
    text = expand(ledger.projection, name)
    said, offset, column = "", 1, 1
    while True:
        part = str(lines_shown(text, offset, column, LINES, "").content)
        more = GOES_ON.search(part)
        if more is None:
            return said + part + "\n" * text.endswith("\n")
        said += part[: more.start() + (more[2] is None)]
        offset, column = int(more[1]), int(more[2] or 1)


def half(path: Path) -> int:
    """0: settings were chosen on these; 1: nothing was."""
    return int(hashlib.sha256(path.name.encode()).hexdigest(), 16) % 2


def main() -> int:
    names = ("claude-code-sessions", "claude-code-sessions-2")
    paths = [path for name in names for path in sorted((DATA / name).glob("*.jsonl"))]
    cost: Counter[tuple[int, str]] = Counter()
    count, wrong, dearer, rereads = 0, list[str](), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        whole = load(Path(folder), home=home, env={})
        alone = load(Path(folder), home=home, env=ALONE)
        for path in paths:
            weigher = Weigher(read_recording(path))
            plain = replay(weigher.recording, NonePolicy(), weigher=weigher).cost
            with lamina_policy(weigher, alone) as policy:
                folded = replay(weigher.recording, policy, weigher=weigher)
            kinds = ["all", *(["short"] if len(weigher.recording.requests) < 45 else [])]
            for kind in kinds:
                cost[half(path), f"{kind} plain"] += plain
                cost[half(path), f"{kind} folded"] += folded.cost
            dearer += folded.cost > plain * 1.0005
            rereads += len(folded.rereads)
            if path.parent.name == names[0]:
                with lamina_policy(weigher, whole) as policy:
                    replay(weigher.recording, policy, weigher=weigher)
                    found, bad = checked(policy, (r.thread for r in weigher.recording.requests))
                count, wrong = count + found, wrong + bad
    print(*wrong[:5], sep="\n")
    figures = [
        at_least("markers of the recorded sessions, after a resume", count, "", 1),
        at_most("of them without a way back to the same bytes", len(wrong), "", 0),
        at_most("folds alone: sessions dearer than doing nothing", dearer, "", 0),
        Figure("folds alone: re-reads charged", rereads, ""),
    ]
    for part, told in ((1, "nothing chosen on these"), (0, "`folds.least` chosen on these")):
        for kind in ("all", "short"):
            saved = 100 * (1 - cost[part, f"{kind} folded"] / cost[part, f"{kind} plain"])
            what = "sessions under 45 requests" if kind == "short" else "all"
            figures.append(Figure(f"folds alone, saved, {what} ({told})", round(saved, 2), "%"))
    return report("reach", figures)
