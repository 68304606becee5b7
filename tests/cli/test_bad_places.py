"""Homes and projects that can't be read or written: one sentence, an exit code, no traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LAMINA = [sys.executable, "-m", "lamina.cli.main"]
# Root reads everything, unless it gives that up.
POWERLESS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", "--"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """A command line of somebody whom file permissions hold back."""
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root needs setpriv to be held back by permissions")
    before = POWERLESS if os.geteuid() == 0 else []
    return subprocess.run(
        [*before, *LAMINA, *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.spec("I2")
@pytest.mark.parametrize("words", [("chat", "-p", "hi"), ("sessions", "list"), ("settings",)])
def test_an_unreadable_home_is_named(world: Path, words: tuple[str, ...]) -> None:
    home = world / "home"
    home.mkdir(mode=0o000)
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr == (
        f"lamina: Can't read {home}/settings.toml: Permission denied. Check its permissions.\n"
    )


@pytest.mark.spec("I2", "I6")
def test_the_doctor_says_what_is_wrong_with_an_unreadable_home(world: Path) -> None:
    (world / "home").mkdir(mode=0o000)
    done = run("doctor")
    assert done.returncode == 1
    assert "Permission denied" in done.stdout
    assert not done.stderr


@pytest.mark.spec("I2", "F1")
def test_a_home_that_can_not_be_written_keeps_what_it_has(world: Path) -> None:
    assert run("chat", "-p", "run true").returncode == 0
    [ledger] = (world / "home" / "projects").glob("*/*.jsonl")
    before = ledger.read_bytes()
    ledger.chmod(0o400)
    ledger.parent.chmod(0o500)
    for more in ((), ("--continue",)):
        done = run("chat", "-p", "hi", *more)
        assert done.returncode == 1
        assert "for writing: Permission denied. Check the folder's permissions" in done.stderr
        assert done.stderr.count("\n") == 1
    assert run("sessions", "list").returncode == 0  # reading still works
    assert ledger.read_bytes() == before
    ledger.parent.chmod(0o700)


@pytest.mark.spec("I2")
def test_a_home_that_can_not_be_made_is_named(world: Path) -> None:
    (world / "closed").mkdir(mode=0o500)
    done = run("chat", "-p", "hi", "--home", str(world / "closed" / "home"))
    assert done.returncode == 1
    assert "Permission denied. Check the folder's permissions, or choose another" in done.stderr


@pytest.mark.spec("I2")
@pytest.mark.parametrize("option", ["--home", "--project"])
def test_a_name_that_is_too_long_is_one_sentence(world: Path, option: str) -> None:
    done = run("chat", "-p", "hi", option, "/" + "a" * 5_000)
    assert done.returncode == 2
    assert "File name too long" in done.stderr
    assert done.stderr.count("\n") == 1
