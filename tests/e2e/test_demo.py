"""`lamina demo`, as a new user starts it: an empty home, no key, a real process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

LAMINA = str(Path(sys.executable).parent / "lamina")


def _demo(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    return subprocess.run(
        [LAMINA, "demo", *words],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.spec("I2", "L5.8", "L6.6", "M7")
def test_the_demo_lives_a_whole_life_and_leaves_only_its_report(tmp_path: Path) -> None:
    done = _demo(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["fixed"] is True
    assert len(result["remembered"]) == 2
    assert result["recalled"] == ["feedback_dont_round_prices_anywhere_project.md"]
    assert result["dream"]["status"] == "completed"
    tracked = [name for name in result["dream"]["files"] if name.startswith("reference_")]
    assert len(tracked) == 1  # said twice by hand, merged
    assert "tool_results" in [layer["layer"] for layer in result["layers"]]
    assert result["cost"] < result["cost_without_cache"]
    page = Path(result["report"]).read_text("utf-8")
    assert ">session 2<" in page
    assert Path(result["report"]).stat().st_mode & 0o077 == 0
    assert [path.name for path in tmp_path.iterdir()] == [Path(result["report"]).name]


@pytest.mark.spec("I2")
def test_it_speaks_plainly_and_can_leave_its_files(tmp_path: Path) -> None:
    done = _demo(tmp_path, "--keep", "kept")
    assert done.returncode == 0, done.stderr
    assert "What to try next" in done.stdout
    assert "\x1b" not in done.stdout  # no colours in a pipe
    assert (tmp_path / "kept" / "project" / "cart.py").exists()
    [report] = (tmp_path / "kept").glob("lamina-demo-report-*.html")
    assert report.as_uri() in done.stdout
    index = next((tmp_path / "kept").glob("home/projects/*/memory/MEMORY.md")).read_text()
    assert re.search(r"goes live in three weeks \(20\d\d-\d\d-\d\d\)", index)
    nowhere = _demo(tmp_path, "--keep", "kept/project/cart.py/inside")
    assert nowhere.returncode == 1
    assert nowhere.stderr == "lamina: Can't make the demo's files: Not a directory.\n"
    again = _demo(tmp_path, "--keep", "kept")
    assert again.returncode == 2
    assert "not empty" in again.stderr


@pytest.mark.spec("I2")
def test_what_to_try_next_runs_as_printed_and_shows_memories_with_their_source(
    tmp_path: Path,
) -> None:
    done = _demo(tmp_path)
    _, _, after = done.stdout.partition("What to try next")
    script = "set -e\n" + after.partition("project\n")[2].partition("  In a project")[0]
    script += f"{LAMINA} memory why project_shop_goes_live_three_weeks\n"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    ran = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "feedback_dont_round_prices_anywhere" in ran.stdout
    assert re.search(
        r"You typed “No, don't round prices[^”]*” on \d+ \w+ \d+ in session \w+", ran.stdout
    )
    assert "The assistant said it" not in ran.stdout
    assert re.search(
        r"reading of what you typed: “No, don't round[^”]* in three weeks\.”", ran.stdout
    )
    [saved] = re.findall(r"^  lamina +\$\S+ +([-+][\d.]+)%", ran.stdout, re.MULTILINE)
    assert float(saved) < -10  # what it is told to look at for savings has some
    assert "don't round prices anywhere in this project." in ran.stdout
    assert not (tmp_path / ".lamina").exists()
