"""Grep by ripgrep and by Python find the same and say it the same; Glob finds the newest first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.messages import text_of
from lamina.tools import glob
from lamina.tools.globs import literal_prefix, matches
from lamina.tools.grep import Grep, Query, find_ripgrep
from lamina.tools.grep_fallback import TYPES, search
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


async def both(bench: Bench, **query: Any) -> str:
    """The answer of ripgrep, after making sure that Python's is the same."""
    answers: list[str] = []
    for ripgrep in (find_ripgrep(), None):
        bench.toolbox = Toolbox([Grep(ripgrep)])
        answers.append(await bench.text("Grep", **query))
    assert find_ripgrep() is not None
    assert answers[0].splitlines() == answers[1].splitlines()
    return answers[0]


@pytest.mark.parametrize("mode", ["content", "files", "count"])
@pytest.mark.parametrize(
    "query",
    [
        {"pattern": "needle"},
        {"pattern": "needle$"},
        {"pattern": "^needle"},
        {"pattern": "NEEDLE", "-i": True},
        {"pattern": r"ne+dle\(\)|K.se"},
        {"pattern": "ünï"},
        {"pattern": "needle", "-C": 1},
        {"pattern": "needle", "-A": 2},
        {"pattern": "needle", "-B": 1},
        {"pattern": "[xy] = |needle", "-A": 1, "-B": 0},
        {"pattern": "needle", "glob": "*.{py,ts}"},
        {"pattern": "needle", "glob": "b/**/*.md"},
        {"pattern": "needle", "glob": "!*.py"},
        {"pattern": "needle", "glob": "*.log"},
        {"pattern": "needle", "glob": "*.js"},
        {"pattern": "needle", "glob": "build/**"},
        {"pattern": "needle", "glob": "**/build/*"},
        {"pattern": "needle", "glob": "/b/*.txt"},
        {"pattern": "needle", "glob": "!b/"},
        {"pattern": "needle", "glob": "!b/deep"},
        {"pattern": "needle", "type": "py"},
        {"pattern": "needle", "path": "b"},
        {"pattern": "needle", "path": "b", "glob": "deep/**"},
        {"pattern": "needle", "path": "b/c.ts"},
        {"pattern": "needle", "path": "build"},
        {"pattern": "needle", "path": "../outside.txt"},
        {"pattern": "nothing at all like this"},
    ],
    ids=str,
)
async def test_ripgrep_and_python_give_the_same_answer(
    tree: Bench, mode: str, query: dict[str, Any]
) -> None:
    await both(tree, output_mode=mode, **query)


async def test_content_names_file_line_and_text_and_marks_context(tree: Bench) -> None:
    shown = await both(tree, pattern="needle", path="a.py", output_mode="content", **{"-C": 1})
    assert shown.splitlines() == [
        "a.py-2-x = 1",
        "a.py:3:def needle():",
        "a.py-4-    pass",
        "a.py-5-y = 2",
        "a.py:6:needle()",
    ]


async def test_ignored_files_are_left_out_and_hidden_ones_are_not(tree: Bench) -> None:
    shown = (await both(tree, pattern="needle")).splitlines()
    assert ".github/ci.yml" in shown
    assert "keep/very.log" in shown
    assert "b/top.txt" in shown
    for name in ("build/out.js", "keep/build.log", "top.txt", ".git/config", "link", "binary"):
        assert name not in shown
    assert "b/deep/er/skipped" not in shown
    assert "sub/hidden_by_ignore" not in shown


async def test_long_lines_are_cut_and_the_limit_is_named(tree: Bench) -> None:
    shown = await both(tree, pattern="xneedle|x+", path="long.min", output_mode="content")
    assert len(shown) < 600
    shown = await both(tree, pattern="needle", head_limit=2)
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
@pytest.mark.parametrize("ripgrep", ["find", None])
async def test_bad_queries_are_one_sentence(
    tree: Bench, query: dict[str, Any], word: str, ripgrep: str | None
) -> None:
    tree.toolbox = Toolbox([Grep(ripgrep)])
    assert word in await tree.error("Grep", **query)


async def test_a_search_over_its_time_is_stopped_and_says_so(
    tree: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = search(Query("needle", tree.project, timeout=-1), tree.project)
    assert not found.complete
    slow = tree.root / "rg"
    slow.write_text("#!/bin/sh\nprintf 'a.py\\0'\nsleep 1000\n")
    slow.chmod(0o755)
    tree.context.env = {}
    monkeypatch.setenv("PATH", os.environ["PATH"])
    tree.toolbox = Toolbox([Grep(str(slow))])
    shown = await tree.text("Grep", pattern="x", timeout=1)
    assert shown.startswith("a.py\n[Stopped after")


async def test_every_type_of_the_fallback_is_one_of_ripgrep(tree: Bench) -> None:
    tree.toolbox = Toolbox([Grep()])
    for name in TYPES:
        assert "needle" not in text_of((await tree.run("Grep", pattern="q", type=name)).content)


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
def test_ignore_files_mean_the_same_to_both(
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
    assert search(Query("needle", root), root).lines == expected


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
        ("a?", "a/", False),
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
