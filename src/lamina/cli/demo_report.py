"""The demo's last page: its sessions replayed without and with Lamina. Writes one HTML file."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.replay.results import PolicyResult, ReplayResult


def write_report(ledgers: Sequence[Path], config: Config, keep: Path | None) -> str:
    """Write the report into this folder, or among temporary files; its path, or "" if that fails.

    A new file each time: at a known name in a folder that all share, somebody else's link may wait.
    """
    from lamina.replay.report import render_report

    results = [
        _replayed(ledger, f"session {number}", config) for number, ledger in enumerate(ledgers, 1)
    ]
    try:
        descriptor, path = tempfile.mkstemp(".html", "lamina-demo-report-", keep)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(render_report(results, title="Lamina demo"))
    except OSError:
        return ""
    return path


def _replayed(ledger: Path, name: str, config: Config) -> ReplayResult:
    from dataclasses import replace

    from lamina.cli.demo_script import PRICED_AS
    from lamina.replay.policies import open_policy
    from lamina.replay.readers import read_recording
    from lamina.replay.results import result_of
    from lamina.replay.run import replay
    from lamina.replay.weigh import Weigher

    weigher = Weigher(replace(read_recording(ledger), file=name))
    done: list[PolicyResult] = []
    for policy_name in ("none", "lamina"):
        with open_policy(policy_name, weigher, config, model=PRICED_AS) as policy:
            done.append(replay(weigher.recording, policy, model=PRICED_AS, weigher=weigher))
    return result_of(weigher.recording, done)
