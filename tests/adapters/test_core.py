"""What all adapters share: the package they are for, and that Lamina itself asks for none (I1)."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.adapters.conftest import FACT, QUESTION, lines

from lamina.adapters import needs
from lamina.adapters.core import Core, usage_of
from lamina.cache.spend import Spend
from lamina.errors import LaminaError
from lamina.integrations import typed_prompts
from lamina.integrations.library import settings_for
from lamina.messages import Json, Usage

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ("langchain", "langgraph", "agents", "pydantic_ai", "claude_agent_sdk", "llm")
pytestmark = pytest.mark.spec("I1")


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportError, match=r"needs the package nowhere: .*pip install .*\[no\]'"):
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


# ---- the core, with messages that need no translation


def own(message: Json) -> Json:
    return message


def put(message: Json, blocks: list[Json]) -> Json:
    return {**message, "content": blocks}


def sum_up(_: Sequence[Json], summary: str) -> list[Json]:
    return [said(summary)]


def frame(**more: Any) -> Callable[[], Json]:
    return lambda: {"model": "claude-sonnet-4-6", "tools": [], "system": "", **more}


def said(words: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": words}]}


def read(number: int, words: str) -> list[Json]:
    call = {"type": "tool_use", "id": f"call{number}", "name": "fetch", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"call{number}", "content": words}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


LONG = lines("log", 2000)


def test_the_core_gives_an_edited_view_and_expand_leads_back(home: Path) -> None:
    core = Core({"user": "alice", "home": home})
    talk = [said(QUESTION), *read(1, LONG)]
    core.view(talk[:1], own, put, sum_up, frame())
    shown, call = core.view(talk, own, put, sum_up, frame())
    assert FACT in shown[0]["content"][1]["text"]
    result = shown[2]["content"][0]["content"]
    assert len(result) < 4000
    assert str(home) not in result, "nobody is sent to a file that no tool can read"
    name = result.partition("Expand ")[2].partition(" ")[0]
    more = [*talk, *read(2, "")[:1]]
    assert core.expand({"id": name, "search": "step_77("}, more) == LONG.splitlines()[77]
    assert core.expand({"id": "call1", "offset": 2000}, more) == LONG.splitlines()[1999]
    assert call is not None
    assert core.expand({"id": name, "offset": 2000}, name=call.conversation) != ""
    again, _ = core.view([*talk, said("And?")], own, put, sum_up, frame())
    assert again[:3] == shown, "what was changed stays so"
    assert talk == [said(QUESTION), *read(1, LONG)], "and what was given is as it was"


@pytest.mark.spec("L4.1")
def test_near_the_end_of_the_window_a_summary_stands_for_the_beginning_and_expand_for_all_of_it(
    small: Path,
) -> None:
    talk = [said(QUESTION)]
    for number in range(12):
        talk += read(number, lines(str(number), 400))
        core = Core({"user": "alice", "home": small})  # a new process each time
        shown, call = core.view(talk, own, put, sum_up, frame(model="claude-haiku-4-5"))
        assert call is not None
        if call.folded:
            break
    summary = shown[0]["content"][0]["text"]
    assert summary.startswith("<summary>")
    assert QUESTION in summary
    assert shown[1:] == talk[-len(shown) + 1 :], "the rest is the framework's own"
    assert shown[1]["role"] == "assistant"
    name = re.search(r"\[#(\w+)\] shows everything", summary)
    assert name
    whole = core.expand({"id": name[1], "search": "step_399("}, talk)
    assert lines("0", 400).splitlines()[399] in whole
    bare = Core({"user": "alice", "home": small, "compact": False})
    assert len(bare.view(talk, own, put, sum_up, frame(model="claude-haiku-4-5"))[0]) == len(talk)


@pytest.mark.parametrize(
    "asked", [{}, {"id": "ffffffff"}, {"id": "x"}, {"id": "call1", "offset": "no"}]
)
def test_expand_answers_a_wrong_question_with_a_sentence(asked: Json, home: Path) -> None:
    core = Core({"user": "alice", "home": home})
    assert core.expand(asked, [said("Never seen.")]).startswith("Expand found nothing: ")
    core.view([said("Seen."), *read(1, LONG)], own, put, sum_up, frame())
    words = core.expand(asked, [said("Seen."), *read(1, LONG)])
    assert words.startswith("Expand found nothing: ")
    assert "\n" not in words


def test_a_session_keeps_apart_what_begins_alike(home: Path) -> None:
    core = Core({"user": "alice", "home": home})
    for session in ("one", "two"):
        core.view([said(QUESTION), *read(1, LONG)], own, put, sum_up, frame(session=session))
    folder = next((home / "projects").glob("*/conversations/*"))
    assert len(list(folder.glob("*.jsonl"))) == 2
    both = [core.expand({"id": "call1"}, [said(QUESTION)], one)[:9] for one in ("one", "three")]
    assert both == ["def step_", "Expand fo"]


def test_a_fault_of_ours_and_being_off_leave_the_messages_as_they_are(home: Path) -> None:
    talk = [said(QUESTION)]

    def broken(_: Json) -> Json:
        raise RuntimeError("no luck today")

    core = Core({"user": "alice", "home": home})
    with pytest.warns(RuntimeWarning, match="no luck today"):
        assert core.view(talk, broken, put, sum_up, frame()) == (talk, None)
    off = Core({"user": "alice", "home": home, "enabled": False})
    assert off.view(talk, own, put, sum_up, frame()) == (talk, None)


def test_what_the_provider_refuses_is_sent_again_and_usage_that_fails_costs_no_answer(
    home: Path,
) -> None:
    core = Core({"user": "alice", "home": home})
    talk = [said(QUESTION)]
    shown, call = core.view(talk, own, put, sum_up, frame())
    sent: list[Any] = []

    class BadRequest(Exception):
        status_code = 400

    def send(messages: list[Json]) -> str:
        sent.append(messages)
        if messages is shown:
            raise BadRequest
        return "ok"

    with pytest.raises(BadRequest):  # of both: the fault was not in what was changed
        core.sent(call, send, shown, shown, lambda _: Usage())
    shown, call = core.view(talk, own, put, sum_up, frame())
    assert shown != talk
    sent.clear()
    with pytest.warns(RuntimeWarning, match="left alone"):
        assert core.sent(call, send, shown, talk, lambda _: Usage()) == "ok"
    assert sent == [shown, talk]
    with pytest.raises(BadRequest):
        core.sent(None, send, shown, talk, lambda _: Usage())
    assert core.view(talk, own, put, sum_up, frame())[0] == talk, "left alone from then on"

    async def ask(_: object) -> str:
        return "ok"

    other = Core({"user": "alice", "home": home})
    _, call = other.view([said("Hello there, friend.")], own, put, sum_up, frame())

    def usage(_: str) -> Usage:
        raise ValueError("no usage today")

    with pytest.warns(RuntimeWarning, match="no usage today"):
        assert anyio.run(other.sent_async, call, ask, talk, talk, usage) == "ok"
    assert list(Spend(home / "spend").calls()) == []
    assert (
        anyio.run(other.sent_async, call, ask, talk, talk, lambda _: usage_of(9, 1, 5, 3)) == "ok"
    )
    (booked,) = Spend(home / "spend").calls()
    assert [booked[kind] for kind in ("input", "cache_read", "cache_write", "output")] == [
        1,
        5,
        3,
        1,
    ]


def test_what_one_user_of_a_program_typed_is_no_word_of_anybody_else(home: Path) -> None:
    alice, bob, project = (settings_for(None, user, home) for user in ("alice", "bob", None))
    typed_prompts.record(alice, "claude-agent-sdk", "s", "I am allergic to peanuts.", 1.0)
    assert [len(typed_prompts.recent(whose)) for whose in (alice, bob, project)] == [1, 0, 0]
