"""What all adapters share: the package they are for, and that Lamina itself asks for none (I1)."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from lamina.adapters import needs
from lamina.errors import LaminaError

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ("langchain", "langgraph", "agents", "pydantic_ai", "claude_agent_sdk", "llm")
pytestmark = pytest.mark.spec("I1")


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportError, match=r"needs the package nowhere: pip install 'lamina\[no\]'"):
        needs("nowhere", "no", (1, 0), 2)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for extra in ("langchain", "openai-agents", "pydantic-ai", "claude-agent-sdk", "llm"):
        assert extra in extras["optional-dependencies"]
    assert extras["entry-points"]["llm"] == {"lamina": "lamina.adapters.llm_plugin"}


@pytest.mark.parametrize(
    ("found", "known"),
    [("1.0", True), ("1.4.7", True), ("1.0rc1", True), ("0.3.27", False), ("2.0.0", False)],
)
def test_a_version_that_no_adapter_knows_is_told_in_a_sentence(
    found: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: found)
    if known:
        needs("langchain", "langchain", (1, 0), 2)
        return
    with pytest.raises(LaminaError, match=rf"langchain {found}: pip install 'langchain>=1.0,<2'"):
        needs("langchain", "langchain", (1, 0), 2)


def test_lamina_itself_imports_no_framework() -> None:
    program = (
        "import sys, lamina, lamina.adapters.core\n"
        "lamina.wrap, lamina.Memory, lamina.Session\n"
        f"print([name for name in {FRAMEWORKS} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
