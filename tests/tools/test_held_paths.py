"""What was permitted is what is used: a path that is swapped meanwhile makes the call fail."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lamina import machine
from lamina.messages import Json, text_of
from lamina.ports import Decision, ToolContext, ToolSpec
from lamina.tools.grep import Grep
from lamina.tools.permissions import PermissionRules, make_permit
from lamina.tools.registry import Toolbox
from lamina.tools.sandbox import available

if TYPE_CHECKING:
    from tests.tools.conftest import Bench

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F7", "F13")]

SECRET = "CANARY outside\n"
MINE = "one\ntwo\n"


@pytest.fixture(params=["kernel", "portable"], autouse=True)
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kernel's own resolution, and part by part."""
    if request.param == "portable":

        def absent(*_: object) -> None:
            raise machine.Unsupported("not here")

        monkeypatch.setattr(machine, "openat2", absent)
        monkeypatch.setattr(machine, "renameat2", absent)


@pytest.fixture
def world(bench: Bench) -> Bench:
    """A file two folders down, and the same names outside of the project."""
    for folder, text in ((bench.project, MINE), (bench.root / "outside", SECRET)):
        (folder / "a/b").mkdir(parents=True)
        (folder / "a/b/f.txt").write_text(text)
        (folder / "a/b/other.txt").write_text(text)
    return bench


def during_the_permission(bench: Bench, swap: Callable[[], None]) -> list[Json]:
    """From now on a person thinks, and somebody swaps; then the answer is yes."""
    asked: list[Json] = []

    async def permit(spec: ToolSpec, input: Json, context: ToolContext) -> Decision:
        asked.append(input)
        swap()
        return Decision(allow=True)

    bench.context.permit = permit
    return asked


def move_aside(path: Path) -> None:
    path.rename(path.with_name(path.name + ".aside"))


def to_a_link_outside(bench: Bench, at: str) -> None:
    move_aside(bench.project / at)
    (bench.project / at).symlink_to(bench.root / "outside" / at)


def to_a_copy_inside(bench: Bench, at: str) -> None:
    path = bench.project / at
    move_aside(path)
    if at.endswith(".txt"):
        (bench.project / "a/b/other.txt").rename(path)
    else:
        below = Path("a/b").relative_to(at)
        (path / below).mkdir(parents=True, exist_ok=True)
        (path / below / "f.txt").write_text(MINE)


def to_a_link_to_where_it_was_moved(bench: Bench, at: str) -> None:
    move_aside(bench.project / at)
    (bench.project / at).symlink_to(bench.project / f"{at}.aside")


def to_a_pipe(bench: Bench, at: str) -> None:
    move_aside(bench.project / at)
    os.mkfifo(bench.project / at)


def to_nothing(bench: Bench, at: str) -> None:
    move_aside(bench.project / at)


SWAPS = [
    to_a_link_outside,
    to_a_copy_inside,
    to_a_link_to_where_it_was_moved,
    to_a_pipe,
    to_nothing,
]
CALLS: dict[str, dict[str, Any]] = {
    "Read": {},
    "Write": {"content": "EVIL"},
    "Edit": {"old_string": "one", "new_string": "EVIL"},
}


def everything(root: Path) -> dict[str, bytes]:
    """All files below, by content; pipes and links are not followed."""
    found: dict[str, bytes] = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                found[str(path)] = path.read_bytes()
    return found


@pytest.mark.parametrize("at", ["a/b/f.txt", "a/b", "a"])
@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("tool", CALLS)
async def test_a_file_swapped_while_the_permission_is_decided_is_not_used(
    world: Bench, tool: str, swap: Callable[[Bench, str], None], at: str
) -> None:
    path = world.project / "a/b/f.txt"
    await world.text("Read", file_path=str(path))
    after: dict[str, bytes] = {}

    def swapped() -> None:
        swap(world, at)
        after.update(everything(world.root))

    asked = during_the_permission(world, swapped)
    said = await world.error(tool, file_path="a/b/f.txt", **CALLS[tool])
    assert [one["file_path"] for one in asked] == [str(path)]
    assert "moved or replaced" in said
    assert "CANARY" not in said
    assert everything(world.root) == after


@pytest.mark.parametrize("at", ["a/b", "a"])
@pytest.mark.parametrize("swap", SWAPS)
async def test_a_new_file_is_not_made_where_another_folder_stands_now(
    world: Bench, swap: Callable[[Bench, str], None], at: str
) -> None:
    during_the_permission(world, lambda: swap(world, at))
    said = await world.error("Write", file_path="a/b/new/deep.txt", content="EVIL")
    assert "moved or replaced" in said
    assert not any(b"EVIL" in content for content in everything(world.root).values())
    assert not list(world.root.rglob("new"))


async def test_a_link_that_appears_where_a_folder_would_be_made_is_refused(world: Bench) -> None:
    link = world.project / "a/new"
    during_the_permission(world, lambda: link.symlink_to(world.root / "outside"))
    await world.error("Write", file_path="a/new/f.txt", content="EVIL")
    assert not (world.root / "outside/f.txt").exists()


async def test_a_file_that_appears_meanwhile_is_kept(world: Bench) -> None:
    path = world.project / "a/new.txt"
    during_the_permission(world, lambda: path.write_text("theirs"))
    assert "appeared meanwhile" in await world.error("Write", file_path=str(path), content="x")
    assert path.read_text() == "theirs"


async def test_a_folder_that_appears_meanwhile_is_used(world: Bench) -> None:
    during_the_permission(world, (world.project / "a/new").mkdir)
    await world.text("Write", file_path="a/new/f.txt", content="x")
    assert (world.project / "a/new/f.txt").read_text() == "x"


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize(("path", "at"), [("a/b", "a/b"), ("a/b", "a"), ("a/b/f.txt", "a/b/f.txt")])
async def test_a_search_does_not_begin_where_something_else_stands_now(
    world: Bench, swap: Callable[[Bench, str], None], path: str, at: str
) -> None:
    during_the_permission(world, lambda: swap(world, at))
    said = await world.error("Grep", pattern="CANARY|one", path=path, output_mode="content")
    assert "CANARY" not in said
    assert "moved or replaced" in said


@pytest.mark.skipif(available() is not None, reason="no sandbox here")
async def test_what_searches_can_t_open_what_lies_outside(world: Bench) -> None:
    """A link that takes the place of a file just after it was listed, and is gone before the answer is
    looked through, leads ripgrep nowhere."""
    outside = world.root / "outside" / "f.txt"
    outside.write_text(SECRET)
    (world.project / "f.txt").write_text(MINE)
    stand_in = world.root / "programs" / "rg"
    stand_in.parent.mkdir()
    stand_in.write_text(f"#!/bin/sh\ncat {outside} > /dev/null && printf 'f.txt\\0'\n")
    stand_in.chmod(0o755)
    search = Toolbox([Grep(str(stand_in))])
    found = await search.run("Grep", {"pattern": "CANARY"}, world.context)
    assert "f.txt" not in text_of(found.content)


@pytest.mark.parametrize("swap", SWAPS)
async def test_a_listing_does_not_begin_where_something_else_stands_now(
    world: Bench, swap: Callable[[Bench, str], None]
) -> None:
    during_the_permission(world, lambda: swap(world, "a"))
    assert "moved or replaced" in await world.error("Glob", pattern="a/b/*")


async def test_rules_are_about_the_file_that_is_held(world: Bench) -> None:
    """The permission does not resolve the path again: a swap before it changes nothing."""
    permit = make_permit(
        PermissionRules.of(deny=["Read(a/b/**)"]), ask=None, interactive=False, sandboxed=True
    )

    async def swapping(spec: ToolSpec, input: Json, context: ToolContext) -> Decision:
        to_a_link_outside(world, "a")
        return await permit(spec, input, context)

    world.context.permit = swapping
    assert "denies it" in await world.error("Read", file_path="a/b/f.txt")


async def test_no_descriptor_is_left_open(world: Bench) -> None:
    await world.run("Grep", pattern="one", path="a")  # from the first command on a guard has a pipe
    before = len(os.listdir("/dev/fd"))
    for path in ("a/b/f.txt", "missing/x", "a", "a/b/f.txt/x", "..", "/"):
        for tool, call in CALLS.items():
            await world.run(tool, file_path=path, **call)
        if path != "/":  # they would look through the whole machine
            await world.run("Grep", pattern="one", path=path)
            await world.run("Glob", pattern="*", path=path)
    assert len(os.listdir("/dev/fd")) == before


_SWAPPER = """
import os, sys
project, outside = sys.argv[1:]
os.chdir(project)
print("ready", flush=True)
while os.getppid() == int(os.environ["PARENT"]):
    os.rename("d", "real"); os.symlink(outside, "d")
    os.unlink("d"); os.rename("real", "d")
"""


@contextlib.contextmanager
def swapping_process(project: Path, outside: Path) -> Generator[None]:
    """While it runs, `d` in the project is now a folder and now a link to the outside."""
    swapper = subprocess.Popen(
        [sys.executable, "-c", _SWAPPER, str(project), str(outside)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PARENT": str(os.getpid())},
    )
    try:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        yield
    finally:
        swapper.kill()
        swapper.communicate()


async def test_a_race_against_a_swapping_process_never_leads_outside(world: Bench) -> None:
    outside, inside = world.root / "outside", world.project / "d"
    inside.mkdir()
    (inside / "f.txt").write_text(MINE)
    (outside / "f.txt").write_text(SECRET)
    kept = everything(outside)
    permit = make_permit(PermissionRules(), ask=None, interactive=False, sandboxed=True)
    world.context.permit = permit
    with swapping_process(world.project, outside):
        for number in range(60):
            await world.run("Write", file_path=f"d/new{number}", content="EVIL")
            shown = await world.run("Read", file_path=str(inside / "f.txt"))
            if not shown.is_error:
                outside_was_named = shown.meta["path"].startswith(str(outside))
                assert ("CANARY" in text_of(shown.content)) is outside_was_named
    assert everything(outside) == kept
