"""Pages made from tables are the committed ones, and name everything that there is."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, get_args

import pytest
from tests.wire.knowing import KnowingModel

from lamina import steps, turn
from lamina.cli.main import COMMANDS
from lamina.config import SETTINGS
from lamina.events import EVENTS, TurnEnd, TurnEnded

if TYPE_CHECKING:
    from tests.wire.server import WireServer

DOCS = Path(__file__).parent.parent / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(generator().PAGES))
def test_the_committed_page_is_the_generated_one(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == generator().PAGES[name](), "run `make docs`"


@pytest.mark.spec("F9")
def test_every_setting_event_and_command_is_in_the_docs() -> None:
    pages = {path.name: path.read_text("utf-8") for path in DOCS.glob("*.md")}
    for setting in SETTINGS:
        assert f"| `{setting.name}` |" in pages["settings.md"]
        assert f"`{setting.environment}`" in pages["settings.md"]
    for kind in EVENTS:
        assert f"| `{kind}` |" in pages["events.md"]
    for name in COMMANDS:
        assert f"## lamina {name}\n" in pages["commands.md"]


@pytest.mark.spec("F9")
def test_every_reason_a_turn_can_end_with_is_in_the_docs_and_no_other() -> None:
    tree = ast.parse(inspect.getsource(turn))
    returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
    assigned = [
        node.value for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign)
    ]
    values = [
        leaf.value
        for value in (*returned, *assigned)
        for leaf in ((value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,))
        if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)
    ]
    ends = {*values, *steps.NO_ANSWER} - {turn.CONTINUE}
    assert ends == set(get_args(TurnEnd))
    told = re.sub(r"\s+|\([^)]*\)", " ", (TurnEnded.__doc__ or "").partition("why:")[2])
    assert {reason.strip(" .") for reason in told.split(",")} == ends


def test_the_turn_fits_on_one_screen() -> None:
    turn = DOCS.parent / "src" / "lamina" / "turn.py"
    assert len(turn.read_text("utf-8").splitlines()) <= 120


PROGRAMS = re.findall(
    r"<!-- run: (\w+) -->\n```python\n(.*?)```", (DOCS / "library.md").read_text("utf-8"), re.DOTALL
)


# A notebook: each cell by itself, in one namespace and one event loop, with await at the top.
CELLS = """
import ast, asyncio, inspect, sys
names = {"__name__": "__main__"}
async def notebook(cells):
    for cell in cells:
        code = compile(cell, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if inspect.iscoroutine(ran := eval(code, names)):
            await ran
asyncio.run(notebook(sys.stdin.read().split("# %%")))
"""
NEEDS = {"langgraph": ("langchain", "langchain_openai")}


@pytest.mark.spec("I1")
@pytest.mark.parametrize(("name", "program"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
def test_a_program_in_the_docs_runs_as_printed(
    name: str, program: str, tmp_path: Path, wire: WireServer
) -> None:
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package, reason=f"needs {package}: pip install 'lamina[langchain]'")
    if name == "loop":
        for number in range(12):
            (tmp_path / f"file{number}.py").write_text(
                "".join(f"step_{n} = {n * number}\n" for n in range(2000))
            )
    wire.rule = KnowingModel()
    done = subprocess.run(
        [sys.executable, "-c", CELLS if name == "notebook" else program],
        cwd=tmp_path,
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "LAMINA_HOME": str(tmp_path / "home"),
            "ANTHROPIC_BASE_URL": wire.anthropic_url,
            "ANTHROPIC_API_KEY": "none",
            "OPENAI_BASE_URL": wire.openai_url,
            "OPENAI_API_KEY": "none",
        },
        input=program,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    if name == "wrap":
        (prompt,) = wire.received[-1].body["messages"]
        assert "PostgreSQL 16" in prompt["content"][1]["text"]


def test_there_are_the_five_programs_and_each_asserts_what_it_recalled() -> None:
    five = dict(PROGRAMS)
    for name in ("chatbot", "loop", "streaming", "langgraph", "notebook"):
        assert "assert " in five[name]


def test_every_python_block_of_the_library_page_is_run() -> None:
    assert len(PROGRAMS) == (DOCS / "library.md").read_text("utf-8").count("```python")


def test_the_docs_name_the_retries_and_guessed_prices_that_the_code_has() -> None:
    from lamina.cache.spend import price_of
    from lamina.config import SETTINGS
    from lamina.models.remote import Policy

    models, replay = (
        " ".join((DOCS / name).read_text().split()) for name in ("models.md", "replay.md")
    )
    policy = Policy()
    for said in (
        f"after a temporary failure; {policy.retries} (sessions pass their setting)",
        f"doubles from {policy.first:g} to {policy.longest:g} seconds",
        f"(up to {policy.longest_asked:g} seconds)",
        f"gets {policy.retries_unreached} more tries",
        f"can't be parsed {policy.retries_malformed}.",
    ):
        assert said in models
    [row] = [row for row in SETTINGS if row.name == "api.retries"]
    assert f"| `api.retries` | int | `{row.default}` |" in (DOCS / "settings.md").read_text()
    assert "marks its prices as guessed" in replay
    assert price_of("anthropic:claude-nobody-9").guessed
    assert not price_of("anthropic:claude-sonnet-4-6").guessed
