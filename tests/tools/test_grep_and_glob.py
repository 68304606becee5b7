"""Grep searches with ripgrep; Glob finds the newest first, and ignores what ripgrep ignores."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.held import hold
from lamina.text.globs import literal_prefix, matches
from lamina.tools import glob
from lamina.tools.glob import Walk
from lamina.tools.grep import MOST_OUTPUT, Grep, find_ripgrep
from lamina.tools.registry import Toolbox

if TYPE_CHECKING:
    from tests.tools.conftest import Bench

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F7")]


@pytest.fixture
def tree(bench: Bench) -> Bench:
    """A project with what makes searching hard."""
    contents: dict[str, bytes] = {
        "a.py": b"import os\nx = 1\ndef needle():\n    pass\ny = 2\nneedle()\n",
        "b/c.ts": b"// Needle\nneedle\r\nlast needle",
        "b/deep/er/d.md": b"# needle\n",
        "b/x:1:y.txt": b"needle in an odd name\n",
        ".github/ci.yml": b"run: needle\n",
        ".git/config": b"needle\n",
        "build/out.js": b"needle\n",
        "keep/build.log": b"needle\n",
        "keep/very.log": b"needle\n",
        ".gitignore": b"build/\n*.log\n!very.log\n/top.txt\n",
        "b/deep/.gitignore": b"er/skipped\n",
        "top.txt": b"needle\n",
        "b/top.txt": b"needle\n",
        "b/deep/er/skipped": b"needle\n",
        "binary": b"needle\0needle\n",
        "latin": "Käse needle\n".encode("latin-1"),
        "wide": "needle grün\n".encode("utf-16"),
        "long.min": b"x" * 2_000 + b"needle\n",
        "empty": b"",
        "sub/.ignore": b"hidden_by_ignore\n",
        "sub/hidden_by_ignore": b"needle\n",
        "sub/ü.txt": "needle ünïcode\n".encode(),
    }
    for name, content in contents.items():
        path = bench.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (bench.project / "link").symlink_to("a.py")
    (bench.root / "outside.txt").write_text("needle outside\n")
    return bench


async def test_ripgrep_may_be_a_link_to_another_folder(tree: Bench) -> None:
    """So Homebrew and people who keep programs together put it."""
    found = find_ripgrep()
    assert found
    lies, link = tree.root / "Cellar" / "rg", tree.root / "bin" / "rg"
    for one in (lies, link):
        one.parent.mkdir()
    shutil.copy2(found, lies)
    link.symlink_to(lies)
    said = await Toolbox([Grep(str(link))]).run("Grep", {"pattern": "needle"}, tree.context)
    assert not said.is_error, said.content


EVERYWHERE = [
    ".github/ci.yml", "a.py", "b/c.ts", "b/deep/er/d.md", "b/top.txt", "b/x:1:y.txt",
    "keep/very.log", "latin", "long.min", "sub/ü.txt", "wide",
]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"pattern": "needle"}, EVERYWHERE),
        ({"pattern": "needle$"}, [one for one in EVERYWHERE if one not in
                                  ("a.py", "b/x:1:y.txt", "sub/ü.txt", "wide")]),
        ({"pattern": "NEEDLE", "-i": True}, EVERYWHERE),
        ({"pattern": "ünï"}, ["sub/ü.txt"]),
        ({"pattern": "grün"}, ["wide"]),
        ({"pattern": "needle", "glob": "*.{py,ts}"}, ["a.py", "b/c.ts"]),
        ({"pattern": "needle", "glob": "b/**/*.md"}, ["b/deep/er/d.md"]),
        ({"pattern": "needle", "glob": "!b/", "type": "txt"}, ["sub/ü.txt"]),
        ({"pattern": "needle", "type": "py"}, ["a.py"]),
        ({"pattern": "needle", "path": "b", "glob": "deep/**"},  # stronger than .gitignore
         ["b/deep/er/d.md", "b/deep/er/skipped"]),
        ({"pattern": "needle", "path": "b/c.ts"}, ["b/c.ts"]),
        ({"pattern": "needle", "path": "b/c.ts", "glob": "*.py", "type": "py"}, ["b/c.ts"]),
        ({"pattern": "needle", "path": "b/x:1:y.txt"}, ["b/x:1:y.txt"]),
        ({"pattern": "needle", "path": "build"}, ["build/out.js"]),
        ({"pattern": "needle", "path": "build/out.js"}, ["build/out.js"]),
        ({"pattern": "needle", "path": ".git/config"}, [".git/config"]),
        ({"pattern": "needle", "path": "binary"}, ["No matches."]),
        ({"pattern": "nothing at all like this"}, ["No matches."]),
    ],
    ids=str,
)  # fmt: skip
async def test_files_that_match_are_named_by_path(
    tree: Bench, query: dict[str, Any], expected: list[str]
) -> None:
    assert (await tree.text("Grep", **query)).splitlines() == expected
    counted = (await tree.text("Grep", output_mode="count", **query)).splitlines()
    assert [line.rpartition(":")[0] or line for line in counted] == expected


async def test_a_search_outside_the_project_names_whole_paths(tree: Bench) -> None:
    outside = tree.root / "outside.txt"
    assert await tree.text("Grep", pattern="needle", path="../outside.txt") == str(outside)


ODD = ["a b ", "we\nird", "[x]", "{a,b}", "a*", "!not", "#hash", "back\\slash", "-x", "q?", "a: b",
       "a", "a-2-b", "a:2:b", os.fsdecode(b"latin\xe4")]  # fmt: skip


@pytest.mark.parametrize("name", ODD)
async def test_a_file_with_an_odd_name_is_searched_by_itself(bench: Bench, name: str) -> None:
    for one in ODD:
        (bench.project / one).write_text(f"needle {ODD.index(one)}\n")
    shown = await bench.text("Grep", pattern="needle", path=name, output_mode="content")
    assert shown.endswith(f":1:needle {ODD.index(name)}")
    assert shown.count("needle") == 1


async def test_a_file_that_turns_out_binary_does_not_spoil_the_next_one(bench: Bench) -> None:
    (bench.project / "a").write_text("needle\n" + "y\n" * 60_000 + "\0\n")
    (bench.project / "b").write_text("needle\n")
    for around in (0, 1):
        shown = await bench.text("Grep", pattern="needle", output_mode="content", **{"-B": around})
        assert [line for line in shown.splitlines() if line != "--"] == ["a:1:needle", "b:1:needle"]


async def test_without_ripgrep_the_package_is_named(bench: Bench) -> None:
    bench.toolbox = Toolbox([Grep(None)])
    assert "Install the package ripgrep" in await bench.error("Grep", pattern="x")


async def test_content_names_file_line_and_text_and_marks_context(tree: Bench) -> None:
    shown = await tree.text(
        "Grep", pattern="needle", path="a.py", output_mode="content", **{"-C": 1}
    )
    assert shown.splitlines() == [
        "a.py-2-x = 1",
        "a.py:3:def needle():",
        "a.py-4-    pass",
        "a.py-5-y = 2",
        "a.py:6:needle()",
    ]


async def test_ignored_files_are_left_out_and_hidden_ones_are_not(tree: Bench) -> None:
    shown = (await tree.text("Grep", pattern="needle")).splitlines()
    assert ".github/ci.yml" in shown
    assert "keep/very.log" in shown
    assert "b/top.txt" in shown
    for name in ("build/out.js", "keep/build.log", "top.txt", ".git/config", "link", "binary"):
        assert name not in shown
    assert "b/deep/er/skipped" not in shown
    assert "sub/hidden_by_ignore" not in shown


async def test_long_lines_are_cut_and_the_limit_is_named(tree: Bench) -> None:
    shown = await tree.text("Grep", pattern="xneedle|x+", path="long.min", output_mode="content")
    assert len(shown) < 600
    (tree.project / "all.min").write_bytes(b"needle" + b"x" * MOST_OUTPUT + b"\n")
    shown = await tree.text("Grep", pattern="needle", output_mode="content")
    assert f"all.min:1:{'needle':x<500}…\n" in shown
    assert "a.py:3:def needle():" in shown
    assert "Stopped" not in shown
    shown = await tree.text("Grep", pattern="needle", head_limit=2)
    assert len(shown.splitlines()) == 3
    assert "2 of " in shown


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ({"pattern": "(unclosed"}, "is not a regular expression"),
        ({"pattern": r"(a)\1"}, "is not a regular expression"),
        ({"pattern": "x", "type": "no_such_type"}, "no_such_type"),
        ({"pattern": "x", "path": "missing"}, "does not exist"),
        ({"pattern": "x", "output_mode": "all"}, "must be one of"),
    ],
)
async def test_bad_queries_are_one_sentence(tree: Bench, query: dict[str, Any], word: str) -> None:
    assert word in await tree.error("Grep", **query)


async def test_a_search_over_its_time_is_stopped_and_says_so(
    tree: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tree.root / "rg"
    slow.write_text("#!/bin/sh\nprintf 'a.py\\0'\nsleep 1000\n")
    slow.chmod(0o755)
    tree.context.env = {}
    monkeypatch.setenv("PATH", os.environ["PATH"])
    tree.toolbox = Toolbox([Grep(str(slow))])
    shown = await tree.text("Grep", pattern="x", timeout=1)
    assert shown.startswith("a.py\n[Stopped after")


NAMES = ["a", "b", "ab", "a.log", "x.py", "build", "z"]
RULES = st.lists(
    st.sampled_from(
        ["a", "b/", "/a", "*.log", "!a.log", "build", "a/b", "**/z", "a/**", "!x.py", "*", "!*/",
         "a/*/b", "# a", "", "b ", "[ab]", "!/build/", "\\#a", "a*"]
    ),
    max_size=5,
)  # fmt: skip


@examples(150)
@example(rules=["*", "!*/", "!x.py"], inner=[], paths={"a/x.py", "a/b/x.py", "z"})
@given(
    rules=RULES,
    inner=RULES,
    paths=st.sets(
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join), max_size=12
    ),
)
def test_ignore_files_mean_the_same_to_glob_and_to_ripgrep(
    tmp_path_factory: pytest.TempPathFactory, rules: list[str], inner: list[str], paths: set[str]
) -> None:
    import subprocess

    root = Path(os.path.realpath(tmp_path_factory.mktemp("ignore")))
    for path in sorted(paths, key=len, reverse=True):
        if not (root / path).exists():
            try:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text("needle\n")
            except OSError:
                continue
    (root / ".gitignore").write_text("\n".join(rules))
    if (root / "a").is_dir():
        (root / "a/.gitignore").write_text("\n".join(inner))
    ripgrep = find_ripgrep()
    assert ripgrep is not None
    done = subprocess.run(
        [ripgrep, "--no-config", "-l", "--hidden", "--no-require-git", "--sort=path", "needle", "."],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    expected = [line.removeprefix("./") for line in done.stdout.splitlines()]
    with hold(root) as held:
        found = [below for below, _ in Walk(root).files(held.pin)]
    assert [path for path in found if not path.endswith(".gitignore")] == expected


def test_braces_in_an_ignore_file_are_plain_characters_as_they_are_to_git(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.{a,b}\n")
    for name in ("x.a", "x.{a,b}"):
        (tmp_path / name).touch()
    with hold(tmp_path) as held:
        assert [below for below, _ in Walk(tmp_path).files(held.pin)] == [".gitignore", "x.a"]


async def test_glob_lists_the_newest_first_and_skips_what_is_ignored(tree: Bench) -> None:
    for age, name in enumerate(["a.py", "b/c.ts", "b/deep/er/d.md"]):
        os.utime(tree.project / name, (1_000 - age, 1_000 - age))
    shown = (await tree.text("Glob", pattern="**/*.{py,ts,md,js}")).splitlines()
    assert shown == ["a.py", "b/c.ts", "b/deep/er/d.md"]
    with_ignored = await tree.text("Glob", pattern="**/*.js", include_ignored=True)
    assert with_ignored == "build/out.js"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("d.md", "b/deep/er/d.md"),
        ("*.ts", "b/c.ts"),
        ("b/*.ts", "b/c.ts"),
        ("b/deep/**/*.md", "b/deep/er/d.md"),
        ("*/c.ts", "b/c.ts"),
        ("./a.py", "a.py"),
        (".github/*", ".github/ci.yml"),
        ("no*where", "No files found."),
    ],
)
async def test_glob_patterns(tree: Bench, pattern: str, expected: str) -> None:
    assert await tree.text("Glob", pattern=pattern) == expected


async def test_glob_tells_the_rules_where_it_looks(tree: Bench) -> None:
    tool = glob.Glob()
    prepared = tool.prepare({"pattern": f"{tree.root}/*.txt"}, tree.context)
    assert prepared == {"pattern": "./*.txt", "path": str(tree.root)}
    assert await tree.text("Glob", pattern=f"{tree.root}/*.txt") == str(tree.root / "outside.txt")
    assert "not a directory" in await tree.error("Glob", pattern="*", path="a.py")


async def test_glob_is_bounded(tree: Bench) -> None:
    for number in range(250):
        (tree.project / f"many{number}.dat").touch()
    shown = (await tree.text("Glob", pattern="*.dat")).splitlines()
    assert len(shown) == 201
    assert "200 of 250 shown" in shown[-1]


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("a/**", "a", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("**/b", "b", True),
        ("*", "a/b", False),
        ("{a,b}/{c,d}", "b/c", True),
        ("[!a]b", "cb", True),
        ("[^a]b", "cb", True),
        ("a?", "a/", False),
        ("a**b", "axb", True),
        ("a**b", "a/b", False),  # only a whole part crosses directories
        ("{a}", "{a}", True),
        ("{a}", "a", False),  # no comma, no choice
    ],
)
def test_globs_over_paths(pattern: str, path: str, fits: bool) -> None:
    assert matches(pattern, path) is fits


def test_a_nasty_glob_takes_no_time() -> None:
    assert not matches("*a" * 40 + "b", "a" * 200)
    assert not matches("**/a/" * 30 + "b", "a/" * 100 + "c")
    assert not matches("{a,b}" * 30, "c")


@pytest.mark.parametrize(
    ("pattern", "prefix", "rest"),
    [
        ("*.py", "", "*.py"),
        ("a.py", "", "a.py"),
        ("src/a/*.py", "src/a", "*.py"),
        ("/etc/*", "/etc", "*"),
        ("/*", "/", "*"),
        ("a{b,c}/d", "", "a{b,c}/d"),
        ("**", "", "**"),
    ],
)
def test_the_directories_before_the_first_magic_part(pattern: str, prefix: str, rest: str) -> None:
    assert literal_prefix(pattern) == (prefix, rest)
