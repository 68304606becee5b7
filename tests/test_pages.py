"""The documentation holds what it shows: links lead somewhere, commands are ones that the program takes,
programs run, files parse. What can't be tried carries a mark with the reason.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import NamedTuple

import pytest

from lamina.cli.main import build_parser, main
from lamina.ledger import edits, log
from lamina.ledger.places import project_folder
from lamina.ledger.record import Ledger
from lamina.messages import Usage, text

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Pages that are made from the code, and the code that a test compares with its source.
GENERATED = {"commands.md", "architecture.md", "settings.md", "events.md", "api.md"}
MOST_UNTRIED = 0.15


def _sections(text: str) -> list[str]:
    parser = ConfigParser()
    parser.read_string(text)
    return parser.sections()


PARSED = {"json": json.loads, "toml": tomllib.loads, "ini": _sections}
_BLOCK = re.compile(r"(?ms)^(?:<!-- (?P<mark>[^\n]*?) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```")
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]*))?\)")


class Block(NamedTuple):
    page: str
    mark: str
    kind: str
    text: str


def blocks() -> Iterator[Block]:
    for page in PAGES:
        if page.name not in GENERATED and page.parent.name != "decisions":
            for met in _BLOCK.finditer(page.read_text("utf-8")):
                yield Block(page.name, met["mark"] or "", met["kind"], met["text"])


BLOCKS = list(blocks())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    lost: list[str] = []
    for path, anchor in _LINK.findall(_BLOCK.sub("", page.read_text("utf-8"))):
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            lost.append(path)
        elif anchor and target.suffix == ".md" and anchor not in _anchors(target):
            lost.append(f"{path}#{anchor}")
    assert lost == []


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"(?m)^#+ (.+)$", page.read_text("utf-8"))
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def test_few_blocks_are_not_tried_and_each_says_why() -> None:
    untried = [block for block in BLOCKS if block.mark.startswith("not run: ")]
    assert len(untried) <= MOST_UNTRIED * len(BLOCKS)
    known = {"sh", "python", "json", "toml", "ini", "markdown"}
    assert [b.text[:60] for b in BLOCKS if b not in untried and b.kind not in known] == []


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.kind == "sh" and not b.mark], ids=str)
def test_every_command_is_one_that_the_program_takes(block: Block) -> None:
    for line in block.text.splitlines():
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"\w+=\S*", words[0]):
            del words[0]
        if not words:
            continue
        program = Path(words[0]).name
        if program == "lamina":
            words = words[: words.index("--")] if "--" in words else words  # another program's own
            parser = build_parser(next((w for w in words[1:] if not w.startswith("-")), None))
            parser.parse_args(words[1:])  # SystemExit: there is no such command or option
        elif program == "make":
            assert re.search(rf"(?m)^{words[1]}:", (ROOT / "Makefile").read_text("utf-8")), line
        elif program == "pip":
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
            asked = re.findall(r"\[([\w,]+)\]", line.partition("#")[0])
            named = {name for found in asked for name in found.split(",")}
            assert named <= {*extras["optional-dependencies"]}, line
        else:
            assert program in {"git", "claude", "codex", "createdb"}, line


# Commands that serve until they are ended, talk with a person, or need another program or a server,
# and the tests that run them.
ELSEWHERE = {
    "agents": "tests/agents",
    "chat": "tests/conversation",
    "gateway": "tests/gateway",
    "team": "tests/team",
    "ui": "tests/web",
    "wrap": "tests/gateway",
}


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.kind == "sh" and not b.mark], ids=str)
def test_every_command_that_ends_by_itself_does_its_work(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a home and a project that hold what the pages name."""
    project = tmp_path / "project"
    (project / "notes").mkdir(parents=True)
    for name in ("AGENTS.md", "notes/deploy.md"):
        (project / name).write_text("Deploys never happen on Fridays.\n")
    (project / "mem0.json").write_text('[{"memory": "Deploys never happen on Fridays."}]')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LAMINA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(project)
    session = (
        project_folder(tmp_path / "home", project) / "01a1e712-0000-4000-8000-000000000000.jsonl"
    )
    recorded = Ledger.of()
    recorded.append(edits.frame([], [], "none", {}))
    recorded.append(edits.message("user", [text("What did we decide about the cache?")], ["typed"]))
    recorded.append(edits.answer([text("That it stays warm.")], Usage(5, 5)))
    written = b"".join(log.encode(entry) + b"\n" for entry in recorded.entries)
    claudes = tmp_path / ".claude" / "projects" / session.parent.name / "memory"
    claudes.mkdir(parents=True)
    (claudes / "deploys.md").write_text(
        "---\nname: Deploys\ntype: project\n---\n\nNever on Fridays.\n"
    )
    for path in (session, project / "SESSION.jsonl", claudes.with_name(session.name)):
        path.write_bytes(written)
    for line in block.text.splitlines():
        words = shlex.split(line, comments=True)
        if not words or Path(words[0]).name != "lamina":
            continue
        kind = "team" if "--team" in words else words[1]
        if kind in ELSEWHERE:
            assert (ROOT / ELSEWHERE[kind]).is_dir()
            continue
        given = [str(Path(word).expanduser()) if word[0] == "~" else word for word in words[1:]]
        answer = ["--yes"] if words[2:3] in (["install"], ["remove"]) else []  # it asks
        assert main([*given, *answer]) == 0, line


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.kind in PARSED], ids=str)
def test_every_file_that_is_shown_parses(block: Block) -> None:
    assert PARSED[block.kind](block.text) is not None


def test_the_first_program_that_a_reader_meets_runs(tmp_path: Path) -> None:
    (program,) = {
        b.text for b in BLOCKS if b.kind == "python" and b.page in ("README.md", "index.md")
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "LAMINA_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "peanuts" in done.stdout


def test_every_page_is_in_the_site_or_a_decision() -> None:
    nav = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.name not in nav]
    assert [page.name for page in pages] == []
