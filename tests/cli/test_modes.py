"""Who may read what Lamina writes: its owner alone, whatever the umask and whatever was done."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_chat_once import script

from lamina.cli.crash import record
from lamina.machine import open_private, write_private

Run = Callable[..., Any]
FACT = "We deploy the warehouse service from the release branch."
TYPED = "No, don't mock the database in integration tests because the migration broke."


@pytest.fixture(params=[0o000, 0o022], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def open_to_others(root: Path) -> list[str]:
    """Everything under the root that somebody else could look into, with its mode."""
    return [
        f"{path.relative_to(root)} {stat.S_IMODE(path.lstat().st_mode):o}"
        for path in sorted([root, *root.rglob("*")])
        if not path.is_symlink() and path.lstat().st_mode & 0o077
    ]


def live(lamina: Run, world: Path, *more: str) -> None:
    """Everything that writes under a home."""

    def chat(*steps: Any, words: tuple[str, ...] = ()) -> None:
        model = script(world, *steps, otherwise={"*": "[]"})
        ran = lamina("chat", "-p", TYPED, *words, "--model", model, *more)
        assert ran.code == 0, ran.err

    big = {"tool_use": [{"name": "Bash", "input": {"command": "seq 20000; mktemp -u"}}]}
    for name in ("a", "b"):
        assert lamina("memory", "add", FACT, "--file", f"deploy_{name}.md", *more).code == 0
    chat({"reply": big}, {"reply": "Done."})
    chat({"reply": "A copy."}, words=("--continue", "--fork"))
    for command in (
        ("extract", "--model", "none"),
        ("dream", "--now"),
        ("dream", "log"),
        ("dream", "undo"),
        ("sessions", "search", "database"),
        ("sessions", "grep", "database"),
        ("memory", "forget", "deploy_a.md", "--purge"),
        ("memory", "search", "warehouse"),
        ("memory", "list"),
        ("settings", "set", "recall.max_files", "4"),
        ("replay", str(next(world.glob("**/projects/*/*.jsonl")))),
        ("spend",),
        ("doctor",),
    ):
        ran = lamina(*command, *more)
        assert ran.code == 0, (command, ran.err)


@pytest.mark.spec("F1")
@pytest.mark.usefixtures("stdin")
def test_after_a_whole_life_nothing_in_the_home_is_open_to_others(
    lamina: Run, world: Path, umask: int
) -> None:
    live(lamina, world)
    home = world / "home"
    assert open_to_others(home) == []
    kinds = {path.name for path in home.rglob("*")} | {path.suffix for path in home.rglob("*")}
    expected = {"tool-results", ".jsonl", "headers.sqlite", "history.git", "MEMORY.md", "spend"}
    assert expected <= kinds  # else this would look at an empty house
    assert len(list(home.glob("projects/*/*.jsonl"))) == 2
    assert os.umask(umask) == umask  # and nobody changed it meanwhile


@pytest.mark.spec("F1", "M13")
@pytest.mark.usefixtures("stdin")
def test_files_and_folders_of_another_tool_keep_their_modes(
    lamina: Run, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAMINA_HOME")
    theirs = world / ".claude"
    (theirs / "projects").mkdir(parents=True)
    (theirs / "settings.json").write_text("{}")
    lamina("memory", "add", "Ines decides what ships.", "--file", "ines.md", "--claude")
    [memory] = theirs.glob("projects/*/memory")
    for path in (theirs, theirs / "projects", memory.parent, memory):
        path.chmod(0o755)
    for path in (theirs / "settings.json", memory / "MEMORY.md", memory / "ines.md"):
        path.chmod(0o644)
    live(lamina, world, "--claude")
    for path in (theirs, theirs / "projects", memory.parent, memory):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
    for path in (theirs / "settings.json", memory / "MEMORY.md", memory / "ines.md"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert open_to_others(theirs / "lamina") == []


def test_a_file_that_is_there_keeps_its_mode_and_a_new_one_is_private(
    tmp_path: Path, umask: int
) -> None:
    there, new = tmp_path / "there", tmp_path / "deep" / "er" / "new"
    there.touch()
    there.chmod(0o644)
    with open(there, "ab", opener=open_private):
        assert stat.S_IMODE(there.stat().st_mode) == 0o644
    write_private(new, b"x", lasting=True)
    assert open_to_others(tmp_path / "deep") == []
    assert list(new.parent.iterdir()) == [new]


def test_a_crash_report_is_private(world: Path, umask: int) -> None:
    said = record(ValueError("x"), ["chat"])
    assert str(world / "home") in said
    assert open_to_others(world / "home") == []
