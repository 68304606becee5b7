"""`lamina doctor`: it finds what is broken, and says so in its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamina.cli import doctor
from lamina.local import embedder

Run = Callable[..., Any]


def states(ran: Any) -> dict[str, str]:
    return {check["name"]: check["state"] for check in ran.json["checks"]}


@pytest.mark.spec("I6")
def test_a_healthy_machine_passes_and_nothing_is_left_behind(lamina: Run, world: Path) -> None:
    (world / "home").mkdir()
    ran = lamina("doctor", "--json")
    assert ran.code == 0, ran.out
    assert ran.json["ok"] is True
    found = states(ran)
    for name in ("settings", "python", "home", "fsync", "locks", "memory", "git", "ripgrep"):
        assert found[name] == "ok", ran.out
    assert list((world / "home").iterdir()) == []


def test_before_there_is_a_home_its_place_is_tried_and_no_home_is_made(
    lamina: Run, world: Path
) -> None:
    ran = lamina("doctor")
    assert ran.code == 0
    assert f"tried in {world}" in ran.out
    assert not (world / "home").exists()


@pytest.mark.spec("I6")
def test_broken_settings_fail_the_check_and_the_rest_is_still_checked(
    lamina: Run, world: Path
) -> None:
    (world / "home").mkdir()
    (world / "home" / "settings.toml").write_text("compact.atuo = 1")
    ran = lamina("doctor", "--json")
    assert ran.code == 1
    assert states(ran)["settings"] == "fail"
    assert states(ran)["locks"] == "ok"
    quiet = lamina("doctor", "--quiet")
    assert "compact.auto" in quiet.out
    assert "locks" not in quiet.out


@pytest.mark.spec("I6")
def test_a_home_that_can_not_be_written_fails(lamina: Run) -> None:
    ran = lamina("doctor", "--json", "--home", "/proc/lamina")
    assert ran.code == 1
    assert states(ran)["home"] == "fail"


@pytest.mark.spec("I6")
def test_a_disk_that_takes_no_byte_more_is_said_in_words(world: Path) -> None:
    (world / "home").mkdir()
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); "
    program = limited + "import sys; from lamina.cli.main import main; sys.exit(main(['doctor']))"
    ran = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert ran.returncode == 1
    [line] = [line for line in ran.stdout.splitlines() if line.startswith("fail  home")]
    assert line.endswith(
        "can't be tried: File too large. Make room, or choose another home with --home."
    )


@pytest.mark.spec("I6")
def test_a_model_without_its_key_fails_and_no_key_is_ever_shown(
    lamina: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_MODEL", "openai:x")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-sesame")
    ran = lamina("doctor", "--json")
    assert ran.code == 1
    found = states(ran)
    assert (found["model"], found["ANTHROPIC_API_KEY"], found["OPENAI_API_KEY"]) == (
        "fail",
        "ok",
        "-",
    )
    assert "sesame" not in ran.out


@pytest.mark.spec("I6")
@pytest.mark.parametrize("setting", ["model", "small_model"])
@pytest.mark.parametrize("name", ["openai:x", "scripted:nowhere.json", "gguf:/nowhere.gguf"])
def test_a_model_that_could_not_answer_is_no_ready_machine(
    lamina: Run, stdin: Any, monkeypatch: pytest.MonkeyPatch, setting: str, name: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    monkeypatch.setenv("LAMINA_MODEL", "none")
    monkeypatch.setenv(f"LAMINA_{setting.upper()}", name)
    monkeypatch.setattr("lamina.models.find_spec", lambda _: None)  # no provider's package is here
    ran = lamina("doctor", "--json")
    assert ran.code == 1
    assert states(ran)[setting] == "fail"
    asked = ("chat", "-p", "hi", "--model", name)
    told = {one["name"]: one["detail"] for one in ran.json["checks"]}[setting]
    assert lamina(*asked).err == f"lamina: {told}\n", "as a chat would say it"


@pytest.mark.spec("I6")
def test_memory_switched_off_or_misplaced_is_named(
    lamina: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_DISABLE_MEMORY", "1")
    assert "switched off by environment: LAMINA_DISABLE_MEMORY" in lamina("doctor").out
    monkeypatch.setenv("LAMINA_DISABLE_MEMORY", "0")
    monkeypatch.setenv("LAMINA_MEMORY_DIR", "relative")
    ran = lamina("doctor", "--json")
    assert (ran.code, states(ran)["memory"]) == (1, "fail")


@pytest.mark.spec("I6")
def test_locks_that_two_processes_can_hold_are_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A second process that does not see the first one's lock, as on a broken network file system.
    monkeypatch.setattr(doctor, "_TRY_LOCK", "import sys; sys.exit(0)")
    checks = {check.name: check for check in doctor.check_home(tmp_path)}
    assert checks["locks"].state == "fail"
    assert "Put the home on a local disk" in checks["locks"].detail


def test_programs_and_packages_that_are_missing_are_warnings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    for extra in ("anthropic", "openai", "mcp", "gateway", "gguf", "team", "ui"):
        first = extras["optional-dependencies"][extra][0].partition(">")[0]
        assert first in doctor.PACKAGES, "doctor tells of every extra that README names"
    monkeypatch.setattr(doctor, "PACKAGES", {"no-such-package-anywhere": "nothing"})
    assert [check.state for check in doctor.check_packages()] == ["-"]
    missing = doctor.check_program("x", ["no-such-program-anywhere"], "never mind")
    assert (missing.state, missing.detail) == ("warn", "not found; never mind")


def test_without_ripgrep_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.tools.grep.find_ripgrep", lambda: "no-such-program-anywhere")
    found = doctor.check_ripgrep()
    assert found.state == "warn"
    assert "install the package ripgrep" in found.detail


def test_a_terminal_that_is_not_utf_8_is_a_warning(world: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [sys.executable, "-m", "lamina.cli.main", "doctor"],
        env=env,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert b"warn  terminal" in done.stdout


@pytest.mark.spec("L6.7")
def test_a_daily_log_that_nothing_distils_is_named(
    lamina: Run, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(world / "config"))
    assert "daily log" not in lamina("doctor").out
    lamina("settings", "set", "memory.daily_log", "true")
    assert "nothing distils it" in " ".join(lamina("doctor").out.split())
    units = lamina("dream", "--install-timer", "--print", "--json").json["units"]
    folder = world / "config" / "systemd" / "user"
    folder.mkdir(parents=True)
    for name, text in units.items():
        (folder / name).write_text(text)
    assert "a timer distils it every night" in lamina("doctor").out


@pytest.mark.spec("I6")
@pytest.mark.parametrize(
    ("installed", "model", "state", "said"),
    [
        (False, None, "-", "by their words"),
        (True, None, "warn", "Reinstall lamina[semantic]"),
        (True, object(), "ok", "words and meaning"),
    ],
)
def test_it_says_whether_memories_are_found_by_meaning(
    installed: bool, model: object, state: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder, "has_sentence_model", lambda: installed)
    monkeypatch.setattr(embedder, "sentence_model", lambda: model)
    check = doctor.check_ranker()
    assert check.state == state
    assert said in check.detail
