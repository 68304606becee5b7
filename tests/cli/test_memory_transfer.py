"""`lamina memory import | export` (I3): dry run, whose word it is, duplicates, undo."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamina.cli.main import main

pytestmark = pytest.mark.spec("I3")
Run = Callable[..., Any]
MEM0 = [
    {"id": "1", "memory": "Prefers window seats", "user_id": "ada"},
    {"memory": "The office is in Porto"},
    {"memory": " "},
    {"other": 1},
]
AGENTS = """# Shop

Use tea for breaks.

## Builds
- Builds run on the host QUINCE,
  never elsewhere.
* Always run the tests first.

```sh
- not a memory
```
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Run:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "shop").mkdir()

    def run(*words: str, code: int = 0, of: str = "own", project: str = "shop") -> Any:
        places = ["--home", str(tmp_path / of), "--project", str(tmp_path / project), "--json"]
        assert main(["memory", *words, *places]) == code
        said = capsys.readouterr()
        return json.loads(said.out) if said.out else said.err

    return run


def _bodies(run: Run, **where: str) -> list[str]:
    return sorted(one["body"].strip() for one in run("export", **where)["memories"])


@pytest.mark.parametrize("shape", [MEM0, {"results": MEM0}])
def test_mem0s_export_waits_for_the_user_unless_they_vouch_for_it(
    run: Run, tmp_path: Path, shape: Any
) -> None:
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps(shape))
    dry = run("import", str(file), "--dry-run")
    assert [row["decision"] for row in dry] == ["inbox", "inbox"]
    assert run("list") == []
    run("import", str(file))
    assert (run("list"), len(run("inbox"))) == ([], 2)
    assert {row["decision"] for row in run("import", str(file), "--mine")} == {"accept"}
    assert _bodies(run) == ["Prefers window seats", "The office is in Porto"]
    assert {row["decision"] for row in run("import", str(file), "--mine")} == {"same"}


def test_an_agents_file_is_taken_item_by_item_and_its_orders_wait(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text(AGENTS)
    rows = run("import", str(file), "--type", "project")
    decided = {row["from"]: row["decision"] for row in rows}
    assert len(rows) == 3
    assert decided["Builds"] == "inbox", "an order"
    run("import", "--undo")
    run("import", str(file), "--mine")
    assert _bodies(run) == [
        "Always run the tests first.",
        "Builds run on the host QUINCE, never elsewhere.",
        "Use tea for breaks.",
    ]


def test_claude_codes_memory_comes_over_with_its_types_and_stays_as_it_is(
    run: Run, tmp_path: Path
) -> None:
    slug = str(tmp_path / "shop").replace("/", "-").replace("_", "-")
    folder = tmp_path / ".claude" / "projects" / slug / "memory"
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text("- [Host](host.md)\n")
    text = (
        "---\nname: Build host\ndescription: Where builds run\nmetadata:\n  type: reference\n---\n"
    )
    (folder / "host.md").write_text(f"{text}Builds run on QUINCE. See [[Deploys]].\n")
    before = {one: (one.read_bytes(), one.stat().st_mtime_ns) for one in folder.iterdir()}
    assert [row["decision"] for row in run("import", "claude")] == ["accept"]
    (memory,) = run("export")["memories"]
    about = memory["path"], memory["name"], memory["type"]
    assert about == ("host.md", "Build host", "reference")
    assert {one: (one.read_bytes(), one.stat().st_mtime_ns) for one in folder.iterdir()} == before
    (commit, *_) = run("log")
    assert commit["origin"] == "program", "not the user's word"


def test_a_project_that_claude_code_remembers_is_told_so(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Claude Code has no memory" in run("import", "claude", code=2)
    places = ["--project", str(tmp_path / "shop"), "--home", str(tmp_path / "own")]
    assert main(places) == 0
    assert "Claude Code" not in capsys.readouterr().err
    slug = str(tmp_path / "shop").replace("/", "-").replace("_", "-")
    folder = tmp_path / ".claude" / "projects" / slug / "memory"
    folder.mkdir(parents=True)
    (folder / "host.md").write_text("Builds run on QUINCE.\n")
    assert main(places) == 0
    told = capsys.readouterr().err
    assert "lamina memory import claude" in told
    # With a home of one's own --claude alone would look there; as printed it finds them.
    words = told.partition("`lamina ")[2].partition("`")[0].split()
    assert main(words) == 0
    assert "host.md" in capsys.readouterr().out


def test_all_projects_are_looked_at_together(run: Run, tmp_path: Path) -> None:
    assert run("list", "--all") == []
    for name in ("bakery", "chandler"):
        (tmp_path / name).mkdir()
        words = f"The {name} server is called QUINCE."
        run("add", words, "--type", "reference", project=name)
    names = [str(tmp_path / name) for name in ("bakery", "chandler")]
    for verb in (["list"], ["search", "quince"]):
        rows = run(*verb, "--all")
        assert [row["project"] for row in rows] == names
        assert [len(row[verb[0]]) for row in rows] == [1, 1]
    assert [row["audit"]["checked"] for row in run("audit", "--all")] == [1, 1]


def test_all_projects_are_those_of_claude_code_too_and_its_files_are_only_read(
    run: Run, tmp_path: Path
) -> None:
    run("add", "The bakery server is called QUINCE.", "--type", "reference")
    other, here = (
        tmp_path / ".claude" / "projects" / str(place).replace("/", "-").replace("_", "-")
        for place in (tmp_path / "an.other", tmp_path / "shop")
    )
    other = other.with_name(other.name.replace(".", "-"))
    for folder in (other, here):
        (folder / "memory").mkdir(parents=True)
        (folder / "memory" / "host.md").write_text("Builds run on QUINCE.\n")
    (other / "s.jsonl").write_text(json.dumps({"cwd": str(tmp_path / "an.other")}) + "\n")
    os.mkfifo(here / "pipe.jsonl")  # nobody writes there
    before = {one: one.stat().st_mtime_ns for one in (tmp_path / ".claude").rglob("*")}
    for verb in (["list"], ["search", "quince"]):
        rows = run(*verb, "--all")
        assert sorted((row["project"], row["agent"], len(row[verb[0]])) for row in rows) == [
            (str(tmp_path / "an.other"), "Claude Code", 1),
            (str(tmp_path / "shop"), "Claude Code", 1),
            (str(tmp_path / "shop"), "Lamina", 1),
        ]
        if verb == ["list"]:
            now = {one: one.stat().st_mtime_ns for one in (tmp_path / ".claude").rglob("*")}
            assert now == before


def test_what_an_import_left_waiting_goes_with_it_and_may_come_again(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "one.txt").write_text("The user prefers tea.\n")
    taken = ("import", str(tmp_path / "one.txt"), "--type", "user")
    for _ in range(2):
        assert [row["decision"] for row in run(*taken)] == ["inbox"]
        assert len(run("inbox")) == 1
        assert len(run("import", "--undo")["undone"]) == 1
        assert run("inbox") == []
    assert "Nothing was imported" in run("import", "--undo", code=2)


def test_what_waits_from_an_import_waits_no_more_once_its_user_vouches_for_it(
    run: Run, tmp_path: Path
) -> None:
    rules = tmp_path / "AGENTS.md"
    rules.write_text("# Rules\n- Use pnpm\n- Never push to main\n")
    assert {row["decision"] for row in run("import", str(rules))} == {"inbox"}
    rules.write_text("# Rules\n- Use pnpm\n")
    run("import", str(rules), "--mine", "--dry-run")
    assert len(run("inbox")) == 2
    run("import", str(rules), "--mine")
    assert ["push" in row["path"] for row in run("inbox")] == [True]


def test_one_command_takes_an_import_back_and_the_next_the_one_before(
    run: Run, tmp_path: Path
) -> None:
    run("add", "Deploys never happen on Fridays.")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for part in ("a", "b"):
            words = f"The {name} {part} server is called {name.upper()}{part.upper()}."
            (tmp_path / name / f"{part}.txt").write_text(words)
        assert len(run("import", str(tmp_path / name))) == 2
    assert len(_bodies(run)) == 5
    assert len(run("import", "--undo")["undone"]) >= 2
    assert [one for one in _bodies(run) if "two" in one] == []
    assert len(_bodies(run)) == 3
    run("import", "--undo")
    assert _bodies(run) == ["Deploys never happen on Fridays."]
    assert "Nothing was imported" in run("import", "--undo", code=2)


def test_an_import_that_was_taken_back_is_none_whatever_came_into_the_index_since(
    run: Run, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for part in ("a", "b"):
            (tmp_path / name / f"{part}.txt").write_text(f"The {name} {part} server is {part * 5}.")
        run("import", str(tmp_path / name))
        run("add", f"The mascot of {name} is an otter.")
        run("import", "--undo")
    assert "Nothing was imported" in run("import", "--undo", code=2)


@pytest.mark.parametrize("form", ["json", "mem0", "folder"])
def test_what_is_exported_can_be_imported_elsewhere(run: Run, tmp_path: Path, form: str) -> None:
    run("add", "Deploys never happen on Fridays.")
    run("add", "The mascot is an otter.", "--type", "reference", "--file", "animals/mascot")
    target = tmp_path / ("out" if form == "folder" else "out.json")
    run("export", "--to", form, "-o", str(target))
    run("import", str(target), "--mine", of="other")
    assert _bodies(run, of="other") == _bodies(run)
    for one in (here := run("list")), (there := run("list", of="other")):
        assert {row["path"]: row["type"] for row in one}["animals/mascot.md"] == "reference"
    assert {row["path"] for row in here} == {row["path"] for row in there}, "links still lead there"
    undone = run("import", "--undo", of="other")["undone"]
    assert sorted(undone) == sorted(row["path"] for row in here), "each once, and no index"


@pytest.mark.parametrize("form", ["json", "mem0", "agents"])
def test_an_export_writes_over_nothing(run: Run, tmp_path: Path, form: str) -> None:
    run("add", "Deploys never happen on Fridays.")
    file = tmp_path / "mine.json"
    file.write_text("my own notes\n")
    said = run("export", "--to", form, "-o", str(file), code=2)
    assert "mine.json holds something already" in said
    assert file.read_text() == "my own notes\n"
    file.write_text("")
    run("export", "--to", form, "-o", str(file))
    assert "Fridays" in file.read_text()


def test_a_section_for_agents_md_has_a_line_a_memory(run: Run, tmp_path: Path) -> None:
    run("add", "Deploys never happen on Fridays.")
    run("export", "--to", "agents", "-o", str(tmp_path / "A.md"))
    text = (tmp_path / "A.md").read_text()
    assert text == "## What is remembered\n\n- Deploys never happen on Fridays.\n"
    assert run("export", "--to", "agents") == text, "with --json, as JSON"
    (tmp_path / "A.md").write_text("# Our own rules\n")
    assert "holds something" in run(
        "export", "--to", "agents", "-o", str(tmp_path / "A.md"), code=2
    )
    assert (tmp_path / "A.md").read_text() == "# Our own rules\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [("no", None), ("x.json", b"garbage"), ("x.json", b"[]"), ("x.md", b""), ("x.bin", b"\xff")],
)
def test_what_cannot_be_imported_gets_a_sentence(
    run: Run, tmp_path: Path, name: str, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    said = run("import", str(tmp_path / name), code=2)
    assert name in said
    assert "Traceback" not in said


def test_a_folder_that_holds_something_is_not_exported_into(run: Run, tmp_path: Path) -> None:
    run("add", "Deploys never happen on Fridays.")
    assert "empty folder" in run("export", "--to", "folder", "-o", str(tmp_path), code=2)


def test_an_import_writes_into_no_memory_that_is_there_and_into_no_log(
    run: Run, tmp_path: Path
) -> None:
    run("add", "The build host is bob.lan", "--type", "project", "--file", "project_build_host")
    (before,) = run("export")["memories"]
    more = "Vendors have read access to the vault by default."
    rows = [
        {"path": path, "type": "project", "name": "Build host", "description": text, "body": text}
        for path, text in (
            ("project_build_host.md", f"The build host is bob.lan.\n{more}"),
            ("logs/2026/11/2026-11-18.md", "The wiki moved to pear.lan."),
        )
    ]
    mem0 = [{"memory": row["body"], "metadata": row} for row in rows]
    (tmp_path / "ours.json").write_text(json.dumps({"memories": rows}))
    (tmp_path / "mem0.json").write_text(json.dumps(mem0))
    for name in ("ours.json", "mem0.json"):
        taken = [row["path"] for row in run("import", str(tmp_path / name))]
        assert not {"project_build_host.md", "logs/2026/11/2026-11-18.md"} & {*taken}
        after = {one["path"]: one for one in run("export")["memories"]}
        assert after["project_build_host.md"]["body"] == before["body"]


def test_metadata_of_somebody_elses_export_names_nothing(run: Run, tmp_path: Path) -> None:
    row = {"memory": "The office is in Ulm.", "metadata": {"name": "alice", "description": "x"}}
    (tmp_path / "mem0.json").write_text(json.dumps([row]))
    run("import", str(tmp_path / "mem0.json"), "--mine")
    (memory,) = run("export")["memories"]
    assert (memory["name"], memory["description"]) != ("alice", "x")


FOREIGN = {
    "harbour.md": b"---\r\nname: Harbour\r\ntype: project\r\ncolour: blue\r\n---\r\n\r\n"
    b"The ferry leaves from pier 9.\r\n\r\n  - Dogs pay half.  \r\n",
    "cafe.md": b"The caf\xe9 on pier 9 sells na\xefve maps.\n\n\n\tClosed on Mondays.\n",
    "mark.md": b"\xef\xbb\xbfThe lighthouse was painted in 1931.\r\nIt is white.\n",
    "bare.md": b"\n\nThe crane lifts forty tons.",
}


@pytest.mark.parametrize("mine", [True, False])
def test_files_that_are_taken_over_whole_keep_their_bytes(
    run: Run, tmp_path: Path, mine: bool
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    for name, content in FOREIGN.items():
        (folder / name).write_bytes(content)
    rows = run("import", str(folder), *(["--mine"] if mine else []))
    assert {one["decision"] for one in rows} == {"accept"}, rows
    [memory] = {p.parent for p in (tmp_path / "own").rglob("harbour.md")}
    for name, content in FOREIGN.items():
        head = content.partition(b"---\r\n\r\n")[0] if content.startswith(b"---") else b""
        body = content.removeprefix(b"\xef\xbb\xbf").removeprefix(head)
        kept = (memory / name).read_bytes()
        assert kept.endswith(body), name
        assert all(line in kept for line in head.split(b"\r\n")), name
    assert "pier 9" in str(run("search", "ferry pier"))
    assert {one["decision"] for one in run("import", str(folder))} == {"same"}
    run("import", "--undo")
    assert not [*memory.glob("[!M]*.md")]
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == FOREIGN


@pytest.mark.spec("I3")
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("name", ["notes/tür.md", "notes/bare.md", "AGENTS.md", "x.json"])
def test_what_is_no_utf_8_comes_in_with_its_letters(
    run: Run, tmp_path: Path, encoding: str, name: str
) -> None:
    said = "Jürgen prüft die Größe der Tür."
    forms = {
        "notes/tür.md": f"---\nname: Jürgens Tür\ndescription: {said}\ntype: project\n---\n\nGrün.\n",
        "notes/bare.md": said,
        "AGENTS.md": f"# Straßen\n\n- {said}\n",
        "x.json": json.dumps({"memories": [{"body": said}]}, ensure_ascii=False),
    }
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(forms[name].encode(encoding))
    source = str(file.parent if name.startswith("notes") else file)
    assert "same" not in {one["decision"] for one in run("import", source)}
    run("import", source, "--mine")
    assert run("inbox") == []
    [one] = run("list")
    assert one["description"] == said
    assert one["name"] in ("Jürgens Tür", "Jürgen prüft die Größe der Tür")
    [index] = (tmp_path / "own").rglob("MEMORY.md")
    assert said in index.read_text("utf-8")
    assert {one["decision"] for one in run("import", source)} == {"same"}


def test_a_link_out_of_the_folder_brings_nothing_in(run: Run, tmp_path: Path) -> None:
    (tmp_path / "private.md").write_text("The diary says CANARY.\n")
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "fact.md").write_text("The crane on the east pier is green.\n")
    (folder / "diary.md").symlink_to(tmp_path / "private.md")
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "up").symlink_to(tmp_path)
    rows = run("import", str(folder), "--mine")
    assert [one["from"] for one in rows] == ["fact.md"]
    assert not any("CANARY" in body for body in _bodies(run))


@pytest.mark.usefixtures("run")
def test_what_of_a_frontmatter_can_not_come_over_is_told(tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    head = "---\nname: Crane\ndescription: The crane is green.\n# Since 1931, says Anna.\n---\n"
    (folder / "crane.md").write_text(f"{head}\nThe crane on the east pier is green.\n")
    (folder / "ferry.md").write_text("The ferry to the island leaves at noon.\n")
    places = ["--home", str(tmp_path / "own"), "--project", str(tmp_path / "shop")]
    assert main(["memory", "import", str(folder), *places]) == 0
    told = capsys.readouterr().err
    assert "crane.md comes over without the rest of its frontmatter: " in told
    assert "line 4 " in told
    assert "ferry.md" not in told
