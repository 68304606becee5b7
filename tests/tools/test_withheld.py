"""A rule that keeps a folder from Read, Grep or Glob also holds for a search that begins above it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tools.conftest import Bench

from lamina.ports import ToolContext
from lamina.text.globs import left_below, matches
from lamina.tools.permissions import PermissionRules, make_permit
from lamina.tools.registry import Toolbox, builtin_tools

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F13", "F7")]

MODES = ("content", "files", "count")


def ruled(bench: Bench, *, deny: Sequence[str] = (), ask: Sequence[str] = ()) -> Bench:
    rules = PermissionRules.of(deny=deny, ask=ask)
    bench.context.permit = make_permit(rules, ask=None, interactive=False, sandboxed=True)
    return bench


@pytest.fixture
def tree(bench: Bench) -> Bench:
    for name in ("open/a.txt", "secret/key.txt", "secret/deep/key.txt", "open/.env", "Secret2/x"):
        path = bench.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"before\nCANARY {name}\nafter\n")
    (bench.project / "alias").symlink_to("secret")
    (bench.project / "open/alias").symlink_to("../secret/key.txt")
    return bench


async def searched(bench: Bench, **where: Any) -> list[str]:
    """What each kind of search says."""
    found = [
        await bench.text("Grep", pattern="CANARY", output_mode=mode, **{"-C": around}, **where)
        for mode in MODES
        for around in (0, 1)
    ]
    return [*found, await bench.text("Glob", pattern="**/*", include_ignored=True, **where)]


@pytest.mark.parametrize(
    "deny",
    [
        ["Read(secret/**)"],
        ["Read(secret)"],
        ["Read(SECRET/**)"],
        ["Read(alias/**)"],
        ["Read(**/key.txt)"],
        ["Read(s[a-e]cret/**)"],
        ["Read({secret,other}/**)"],
        ["Read(./secret/)"],
        ["Grep(secret/**)", "Glob(secret/**)"],
    ],
    ids=str,
)
async def test_what_is_denied_is_not_found_from_above(tree: Bench, deny: list[str]) -> None:
    ruled(tree, deny=deny)
    for said in await searched(tree):
        assert "secret/" not in said
        assert "open/a.txt" in said
    for said in await searched(tree, path=str(tree.root)):
        assert "secret/" not in said


async def test_read_holds_for_all_three_glob_for_grep_and_grep_for_itself(tree: Bench) -> None:
    async def shown() -> dict[str, bool]:
        grep = await tree.text("Grep", pattern="CANARY")
        glob = await tree.text("Glob", pattern="**/*")
        read = await tree.run("Read", file_path="secret/key.txt")
        return {"Read": not read.is_error, "Grep": "secret/" in grep, "Glob": "secret/" in glob}

    ruled(tree, deny=["Read(secret/**)"])
    assert await shown() == {"Read": False, "Grep": False, "Glob": False}
    ruled(tree, deny=["Glob(secret/**)"])
    assert await shown() == {"Read": True, "Grep": False, "Glob": False}
    ruled(tree, deny=["Grep(secret/**)"])
    assert await shown() == {"Read": True, "Grep": False, "Glob": True}
    ruled(tree, deny=["Read"])
    assert "denies it" in await tree.error("Grep", pattern="CANARY")


@pytest.mark.parametrize("path", ["secret", "alias", "secret/deep", "open/alias", "alias/deep"])
async def test_a_search_that_begins_in_a_denied_place_is_refused(tree: Bench, path: str) -> None:
    ruled(tree, deny=["Read(secret/**)"])
    assert "Read(secret/**)" in await tree.error("Grep", pattern="CANARY", path=path)
    assert "Read(secret/**)" in await tree.error("Glob", pattern="*", path=path)


@pytest.mark.parametrize(
    "name", ["we\nird", "a [b] {c}", "back\\slash", " lead", "trail ", "ünï", "-x", "!n", "a: b-1-"]
)
async def test_odd_names_are_kept_back_too(bench: Bench, name: str) -> None:
    for folder in (name, "open"):
        (bench.project / folder).mkdir()
        (bench.project / folder / "f").write_text("CANARY " + folder)
    escaped = "".join(f"[{one}]" if one in "[{" else one for one in name)
    ruled(bench, deny=[f"Read({escaped}/**)"])
    for said in await searched(bench):
        assert "open/f" in said
        assert name.rsplit("\n", maxsplit=1)[-1] + "/f" not in said
        assert f"CANARY {name.splitlines()[-1]}" not in said


async def test_denied_lines_leave_no_gap_that_tells_of_them(tree: Bench) -> None:
    ruled(tree, deny=["Read(s[e]cret/**)"])  # a glob that only the look at the answer can apply
    shown = await tree.text("Grep", pattern="CANARY", output_mode="content", **{"-C": 1})
    blocks = shown.split("\n--\n")
    assert len(blocks) == 3
    assert all(len(block.splitlines()) == 3 for block in blocks)


async def test_what_would_have_to_be_asked_is_left_out_and_named(tree: Bench) -> None:
    ruled(tree, ask=["Read(secret/**)"])
    for said in await searched(tree):
        assert "secret/key.txt" not in said
        assert "[Left out, because a rule asks first: Read(secret/**)." in said
    for said in await searched(tree, path="open"):
        assert "Left out" not in said
    assert "Nobody is here to ask" in await tree.error("Grep", pattern="x", path="secret")


@pytest.mark.parametrize(("answer", "shown_later"), [("once", False), ("always", True)])
async def test_an_answer_opens_the_place_that_was_asked_for(
    tree: Bench, answer: Literal["once", "always"], shown_later: bool
) -> None:
    asked: list[str] = []

    async def person(tool: str, question: str) -> Literal["once", "always", "no"]:
        asked.append(question)
        return answer

    rules = PermissionRules.of(ask=["Read(secret/**)"])
    tree.context.permit = make_permit(rules, ask=person, interactive=True, sandboxed=True)
    assert "secret/deep/key.txt" in await tree.text("Grep", pattern="CANARY", path="secret")
    assert asked == [str(tree.project / "secret")]
    assert ("secret/key.txt" in await tree.text("Grep", pattern="CANARY")) is shown_later


@pytest.mark.parametrize(
    ("pattern", "folder", "left"),
    [
        ("/p/secret/**", "/p", {"secret/**"}),
        ("/p/secret/**", "/p/secret", {"**"}),
        ("/p/secret/**", "/p/open", set[str]()),
        ("/p/**/.env/**", "/p/a/b", {"**/.env/**"}),
        ("/p/*/{x,y}", "/p/a", {"x", "y"}),
        ("/p/x", "/", {"p/x"}),
    ],
)
def test_what_a_glob_still_asks_below_a_folder(pattern: str, folder: str, left: set[str]) -> None:
    assert left_below(pattern, folder) == left


NAMES = ["a", "b", "A", "key.pem", ".env", "x y", "[c]"]
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
GLOBS = st.one_of(
    PATHS.filter(lambda path: "[" not in path),
    st.lists(
        st.sampled_from(["a", "b", "*", "**", "?", "[ab]", "{a,key}*", "*.pem", ".env"]),
        min_size=1,
        max_size=3,
    ).map("/".join),
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    paths=st.sets(PATHS, min_size=1, max_size=10),
    rules=st.lists(st.tuples(st.sampled_from(["Read", "Grep", "Glob"]), GLOBS), max_size=3),
    start=st.sampled_from([".", "a", "a/b", ".."]),
)
async def test_nothing_that_is_denied_is_in_any_answer(
    tmp_path_factory: pytest.TempPathFactory,
    paths: set[str],
    rules: list[tuple[str, str]],
    start: str,
) -> None:
    root = Path(os.path.realpath(tmp_path_factory.mktemp("denied")))
    project = root / "project"
    project.mkdir()
    made: dict[str, str] = {}
    for number, path in enumerate(sorted(paths, key=len, reverse=True)):
        if not (project / path).exists():
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            made[path] = f"CANARY{number}."
            (project / path).write_text(made[path] + "\n")
    permit = make_permit(
        PermissionRules.of(deny=[f"{tool}({glob})" for tool, glob in rules]),
        ask=None, interactive=False, sandboxed=True,
    )  # fmt: skip
    context = ToolContext(project, project, root, lambda _: None, permit)
    bench = Bench(root, context, Toolbox(builtin_tools()))

    def denied(path: str, *tools: str) -> bool:
        return any(
            matches(f"{glob}/**", path) or matches(f"{glob}/**".lower(), path.lower())
            for tool, glob in rules
            if tool in tools
        )

    content = await bench.run("Grep", pattern="CANARY", output_mode="content", path=start)
    names = await bench.run("Grep", pattern="CANARY", path=start)
    listed = await bench.run("Glob", pattern="**/*", path=start)
    for path, canary in made.items():
        hidden = denied(path, "Read", "Grep", "Glob")
        began_here = start in (".", "..") or path.startswith(f"{start}/")
        shown = began_here and not hidden and not content.is_error
        assert (canary in str(content.content)) is shown
        assert (path in str(names.content).splitlines()) is shown
        hidden = denied(path, "Read", "Glob")
        shown = began_here and not hidden and not listed.is_error
        assert (path in str(listed.content).splitlines()) is shown
