"""The stand-ins of a background fork: the same specs, one directory, no shell without a sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sessions import Place, run

from lamina.errors import UsageError
from lamina.layers import fork_tools
from lamina.ports import ToolContext
from lamina.session import Session
from lamina.tools import sandbox
from lamina.tools.read_write import Read, Write
from lamina.tools.registry import Toolbox

pytestmark = pytest.mark.spec("L5.1")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def free(_path: str) -> str:
    return ""


class Kept:
    """What was handed over instead of being written."""

    def __init__(self) -> None:
        self.files: list[tuple[str, bytes, bytes | None]] = []

    def __call__(self, path: str, content: bytes, before: bytes | None) -> str:
        self.files.append((path, content, before))
        return "taken"


async def calls(session: Session, kept: Kept, *wanted: tuple[str, dict[str, Any]]) -> list[str]:
    """What the fork's toolbox answers to these calls."""
    from dataclasses import replace

    state = session.state
    store = state.deps.memory
    assert store is not None
    box = state.deps.toolbox.replacing(fork_tools.tools_for(state, kept))
    permit = fork_tools.permit_for(state, store.directory, free)
    context: ToolContext = replace(state.tools, files={}, permit=permit)
    return [str((await box.run(name, given, context)).content) for name, given in wanted]


def test_a_stand_in_needs_the_same_spec() -> None:
    box = Toolbox([Write()])
    assert box.replacing([Write()]).specs() == box.specs()
    assert box.replacing([Read()]).specs() == box.specs()  # not there, so nothing to replace

    class Other(Write):
        @property
        def spec(self) -> Any:
            from dataclasses import replace

            return replace(super().spec, description="another")

    with pytest.raises(UsageError):
        box.replacing([Other()])


def test_writes_are_handed_over_and_the_file_stays_as_it_was(place: Place) -> None:
    async def story() -> None:
        async with place.open("none") as session:
            store = session.state.deps.memory
            assert store is not None
            file = store.directory / "a.md"
            file.write_text("one\ntwo\n")
            kept = Kept()
            path = {"file_path": str(file)}
            said = await calls(
                session,
                kept,
                ("Write", {**path, "content": "x"}),
                ("Read", path),
                ("Write", {**path, "content": "three\n"}),
                ("Edit", {**path, "old_string": "two", "new_string": "2"}),
                ("Edit", {**path, "old_string": "nowhere", "new_string": "2"}),
            )
            assert "was not read yet" in said[0]
            assert said[2:4] == ["taken", "taken"]
            assert str(file) in said[4]
            assert "lamina-edit" not in said[4]
            assert kept.files == [
                ("a.md", b"three\n", b"one\ntwo\n"),
                ("a.md", b"one\n2\n", b"one\ntwo\n"),
            ]
            assert file.read_text() == "one\ntwo\n"

    run(story)


def test_a_link_out_of_the_directory_leads_nowhere(place: Place) -> None:
    async def story() -> None:
        async with place.open("none") as session:
            store = session.state.deps.memory
            assert store is not None
            target = place.project / "target.md"
            target.write_text("mine")
            (store.directory / "link.md").symlink_to(target)
            (store.directory / "up").symlink_to(place.project)
            kept = Kept()
            said = await calls(
                session,
                kept,
                ("Write", {"file_path": str(store.directory / "link.md"), "content": "x"}),
                ("Write", {"file_path": str(store.directory / "up" / "new.md"), "content": "x"}),
            )
            assert all("not permitted" in words for words in said)
            assert kept.files == []

    run(story)


@pytest.mark.parametrize("person", [True, False])
def test_a_fork_reads_no_further_than_what_runs_alone(place: Place, person: bool) -> None:
    """Also beside a person at work: nobody sees what it reads."""

    async def ask(tool: str, question: str) -> Any:
        raise AssertionError("nobody is asked")

    private = place.project.parent / "private"
    private.mkdir()
    (private / "key.txt").write_text("CANARY")
    (place.project / "mine.txt").write_text("mine")
    (place.project / "link").symlink_to(private)

    async def story() -> None:
        more = {"interactive": True, "ask": ask} if person else {}
        async with place.open("none", **more) as session:
            state = session.state
            store = state.deps.memory
            assert store is not None
            (store.directory / "a.md").write_text("remembered")
            (state.deps.transcript.parent / "old.jsonl").write_text("said")
            said = await calls(
                session,
                Kept(),
                ("Read", {"file_path": str(private / "key.txt")}),
                ("Read", {"file_path": "link/key.txt"}),
                ("Grep", {"pattern": "CANARY", "path": str(private), "output_mode": "content"}),
                ("Glob", {"pattern": "*", "path": str(private)}),
                ("Read", {"file_path": str(place.project / "mine.txt")}),
                ("Read", {"file_path": str(store.directory / "a.md")}),
                ("Grep", {"pattern": "said", "path": str(state.deps.transcript.parent)}),
            )
            assert all("sandbox.unattended_reach" in one for one in said[:4]), said
            assert not any("CANARY" in one for one in said)
            assert all("not permitted" not in one for one in said[4:]), said

    run(story)


def test_the_user_s_own_rules_hold_and_nobody_is_asked(place: Place) -> None:
    asked: list[str] = []

    async def ask(tool: str, question: str) -> Any:
        asked.append(tool)
        return "always"

    (place.project / "secret.txt").write_text("x")
    config = {"permissions.deny": ["Read(secret.txt)"], "permissions.ask": ["Glob"]}

    async def story() -> None:
        async with place.open("none", config=config, interactive=True, ask=ask) as session:
            said = await calls(
                session,
                Kept(),
                ("Read", {"file_path": str(place.project / "secret.txt")}),
                ("Glob", {"pattern": "*"}),
            )
            assert all("not permitted" in words for words in said)
            assert asked == []

    run(story)


def test_without_a_sandbox_there_is_no_shell(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: "this kernel has no Landlock")

    async def story() -> None:
        async with place.open("none") as session:
            [said] = await calls(session, Kept(), ("Bash", {"command": "echo hello"}))
            assert "no shell here: this kernel has no Landlock" in said

    run(story)
