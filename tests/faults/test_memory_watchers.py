"""A change that a tool of ours makes is the agent's, even while other processes look for changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from lamina.events import quiet
from lamina.memory.file_store import FileStore
from lamina.messages import Json
from lamina.ports import Decision, ToolContext, ToolOutcome, ToolSpec
from lamina.tools.memory_guard import MemoryGuard
from lamina.tools.read_write import Edit, Write
from lamina.tools.registry import Toolbox

# Opens the memory again and again, as sessions do that start at that moment.
_WATCHER = """
import sys
from pathlib import Path
from lamina.memory.file_store import FileStore
print("ready", flush=True)
while not Path(sys.argv[2]).exists():
    with FileStore(Path(sys.argv[1])) as store:
        store.catch_up()
"""


async def _allow(spec: ToolSpec, input: Json, context: ToolContext) -> Decision:
    del spec, input, context
    return Decision(allow=True)


def _text(number: int) -> str:
    return (
        f"---\nname: Berth {number}\ndescription: The pelican{number} is at berth {number}\n"
        "type: project\n---\n\nIts crane is the first.\n"
    )


@pytest.mark.spec("M9")
def test_write_and_edit_are_the_agents_though_another_process_opens_the_memory_meanwhile(
    tmp_path: Path,
) -> None:
    directory, stop = tmp_path / "memory", tmp_path / "stop"
    directory.mkdir()
    context = ToolContext(tmp_path, tmp_path, tmp_path, quiet, _allow)
    box = Toolbox([Write(), Edit()])

    async def call(guard: MemoryGuard, name: str, **given: str) -> ToolOutcome:
        spec = next(spec for spec in box.specs() if spec.name == name)
        return await guard.around(spec, given, context, lambda: box.run(name, given, context))

    async def story(store: FileStore) -> None:
        guard = MemoryGuard(store, "", tuple)
        for number in range(12):
            path = str(directory / f"project_{number}.md")
            made = await call(guard, "Write", file_path=path, content=_text(number))
            assert not made.is_error, made
            changed = await call(
                guard, "Edit", file_path=path, old_string="first.", new_string="second."
            )
            assert not changed.is_error, changed

    watcher = subprocess.Popen(
        [sys.executable, "-c", _WATCHER, str(directory), str(stop)], stdout=subprocess.PIPE
    )
    try:
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == b"ready\n"
        with FileStore(directory) as store:
            anyio.run(story, store)
    finally:
        stop.touch()
        assert watcher.wait(60) == 0
        if watcher.stdout is not None:
            watcher.stdout.close()
    with FileStore(directory) as store:
        assert store.catch_up() == []
        commits = list(store.journal.history.log())
    assert {commit.writer for commit in commits} == {"agent"}
    assert len(commits) == 24


@pytest.mark.spec("M9")
def test_what_the_gate_does_not_take_is_never_in_the_directory(tmp_path: Path) -> None:
    directory = tmp_path / "memory"
    context = ToolContext(tmp_path, tmp_path, tmp_path, quiet, _allow)
    box = Toolbox([Write(), Edit()])
    path = directory / "user_role.md"
    text = "---\nname: role\ndescription: The user is an admin\ntype: user\n---\n\nAdmin.\n"

    async def story(store: FileStore) -> ToolOutcome:
        guard = MemoryGuard(store, "session", tuple)
        given = {"file_path": str(path), "content": text}
        return await guard.around(
            Write().spec, given, context, lambda: box.run("Write", given, context)
        )

    with FileStore(directory) as store:
        outcome = anyio.run(story, store)
        assert outcome.is_error
        assert len(store.inbox.items()) == 1
    assert not path.exists()
    assert str(path) not in context.files


@pytest.mark.spec("M9", "L6.7")
@pytest.mark.parametrize("name", ["logs/2026/11/2026-11-16.md", "notes.txt", ".hidden.md"])
def test_files_that_are_no_memories_are_written_as_anywhere(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "memory"
    context = ToolContext(tmp_path, tmp_path, tmp_path, quiet, _allow)
    box = Toolbox([Write(), Edit()])
    given = {"file_path": str(directory / name), "content": "10:04 deployed\n"}

    async def story(store: FileStore) -> ToolOutcome:
        guard = MemoryGuard(store, "session", tuple)
        return await guard.around(
            Write().spec, given, context, lambda: box.run("Write", given, context)
        )

    with FileStore(directory) as store:
        assert not anyio.run(story, store).is_error
    assert (directory / name).read_text() == "10:04 deployed\n"
