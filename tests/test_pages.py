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

from lamina.cli.main import build_parser

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
