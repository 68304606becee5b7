"""`lamina completion`: scripts that a real shell runs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


def complete(script: str, line: str) -> list[str]:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    program = (
        f"{script}\nCOMP_WORDS=({' '.join(repr(word) for word in words)}); "
        f"COMP_CWORD={len(words) - 1}; _lamina; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.split()


@pytest.mark.spec("I2")
@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_commands_options_and_settings(lamina: Run) -> None:
    script = lamina("completion", "bash").out
    assert complete(script, "lamina set") == ["settings"]
    assert complete(script, "lamina settings compact.a") == ["compact.auto"]
    assert complete(script, "lamina settings unset mode") == ["model"]
    assert complete(script, "lamina sessions ") >= ["--all"]
    assert complete(script, "lamina sessions g") == ["grep"]
    assert complete(script, "lamina --home /tmp sessions gr") == ["grep"]
    assert complete(script, "lamina completion z") == ["zsh"]
    assert "/tmp" in complete(script, "lamina --home /tm")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_get_a_script_that_names_every_command(lamina: Run, shell: str) -> None:
    ran = lamina("completion", shell)
    assert ran.code == 0
    for word in ("settings", "doctor", "compact.auto", "--project", "grep"):
        assert word.removeprefix("--") in ran.out
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=ran.out, text=True, timeout=30, check=True)


def test_an_unknown_shell_is_refused(lamina: Run) -> None:
    ran = lamina("completion", "csh")
    assert ran.code == 2
    assert "csh" in ran.err
