"""All forks of one answer send one prefix, however many of its calls were answered meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.sessions import Place, run

from lamina import tool
from lamina.agents import fork as fork_module
from lamina.agents.fork import PLACEHOLDER, Forks
from lamina.agents.runner import Order
from lamina.events import ModelCalled
from lamina.ledger import edits, joining
from lamina.ledger.record import Ledger
from lamina.messages import Request, blocks_of, text, tool_result, tool_use
from lamina.models.anthropic import AnthropicModel
from lamina.models.scripted import ScriptedModel
from lamina.ports import Decision

if TYPE_CHECKING:
    from tests.wire.plugin import CacheProvider

FORKS = 64


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def reads_only(spec: Any, input: Any, context: Any) -> Decision:
    return Decision(spec.read_only, "a fork only reads")


def prefix(request: Request) -> bytes:
    """All that is sent before the directive."""
    parts = [
        [message["role"], block]
        for message in request.messages
        for block in blocks_of(message["content"])
    ]
    return joining.canonical([list(request.system), list(request.tools), parts[:-1]])


def both_kinds() -> list[dict[str, Any]]:
    """Calls that start a fork, each after one that is answered at once."""
    calls: list[dict[str, Any]] = []
    for n in range(FORKS):
        calls.append({"name": "quick", "input": {"n": n}, "id": f"q{n}"})
        calls.append({"name": "fork", "input": {"n": n}, "id": f"f{n}"})
    return calls


def forking_tools(place: Place, sessions: list[Any]) -> list[Any]:
    @tool(read_only=True)
    def quick(n: int) -> str:
        """Answer at once."""
        return f"done {n}"

    @tool(read_only=True)
    async def fork(n: int) -> str:
        """Give the task to a fork."""
        start = Forks(sessions[0].state)
        result = await start(f"Part {n}.", purpose="agent", permit=reads_only, max_calls=1)
        assert not result.error
        return result.text

    return [quick, fork]


@pytest.mark.spec("L7.1")
def test_sixty_four_forks_of_one_answer_send_one_prefix_though_calls_are_answered(
    place: Place,
) -> None:
    model = ScriptedModel(
        [{"text": "In parts.", "tool_use": both_kinds()}, "all done"], otherwise={"agent": "a part"}
    )
    sessions: list[Any] = []

    async def story() -> None:
        tools = forking_tools(place, sessions)
        async with place.open(model, tools=tools) as session:
            sessions.append(session)
            assert (await session.ask("go")).text == "all done"

    run(story)
    forks = [request for request in model.requests if request.purpose == "agent"]
    assert len(forks) == FORKS
    assert len({prefix(request) for request in forks}) == 1
    closing = forks[-1].messages[-1]["content"][:-1]
    assert [block["content"] for block in closing] == [PLACEHOLDER] * 2 * FORKS
    # The conversation itself goes on with the real results.
    results = [block["content"] for block in model.requests[-1].messages[-1]["content"]]
    assert sorted(results) == sorted([*(f"done {n}" for n in range(FORKS)), *["a part"] * FORKS])


@pytest.mark.spec("L7.1")
def test_a_provider_s_cache_serves_nearly_all_of_it_from_the_second_fork_on(
    place: Place, cache_provider: CacheProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP, through the real package, against a server that keeps a cache by the rules."""
    monkeypatch.setattr(fork_module, "_LEAD_SECONDS", 600.0)  # a busy machine is no fork that hangs
    words = [text("Many parts. " * 2_000)]
    calls = [tool_use(call["id"], call["name"], call["input"]) for call in both_kinds()]
    cache_provider.script([text("hello " * 3_000)], [*words, *calls])
    model = AnthropicModel("claude-sonnet-4-5", api_key="k", base_url=cache_provider.url, retries=0)
    sessions: list[Any] = []
    called: list[ModelCalled] = []

    async def story() -> None:
        def hear(event: Any) -> None:
            if isinstance(event, ModelCalled):
                called.append(event)

        config = {"notes.enabled": False}
        tools = forking_tools(place, sessions)
        async with place.open(model, tools=tools, on_event=hear, config=config) as session:
            sessions.append(session)
            await session.ask("hi")
            await session.ask("go")

    run(story)
    # The one that went ahead need not be the first that ends.
    usages = [call.usage for call in called if call.purpose == "agent"]
    first, *rest = sorted(usages, key=lambda usage: usage.cache_read / usage.prompt)
    assert len(rest) == FORKS - 1
    assert first.cache_read > 0.3 * first.prompt  # what its parent sent before
    assert min(usage.cache_read / usage.prompt for usage in rest) >= 0.99


@examples(100)
@given(st.permutations(["a", "b", "c"]), st.integers(0, 3))
@pytest.mark.spec("L7.1")
def test_branches_of_one_answer_are_equal_whatever_was_answered(
    order: list[str], answered: int
) -> None:
    ledger = Ledger.of([], now=lambda: 0.0)
    ledger.append(edits.state("seen", "nothing"), edits.message("user", "go", "typed"))
    calls = [tool_use(name, "Read", {}) for name in ("a", "b", "c")]
    ledger.append(edits.message("assistant", [text("looking"), *calls], "assistant"))
    whole = joining.request_bytes(ledger.branch(at_answer=True).view())
    tokens = ledger.branch(at_answer=True).tokens()
    for name in order[: min(answered, 2)]:
        ledger.append(edits.state("seen", name), edits.state("new", name))
        ledger.append(edits.message("user", [tool_result(name, f"result of {name}")], "tool"))
    branch = ledger.branch(at_answer=True)
    assert joining.request_bytes(branch.view()) == whole
    assert branch.tokens() == tokens
    assert branch.open_calls == ["a", "b", "c"]
    assert (branch.state("seen"), branch.state("new")) == ("nothing", None)


@pytest.mark.spec("L7.1")
def test_an_edit_that_a_tool_of_the_same_answer_made_is_not_in_the_branch() -> None:
    ledger = Ledger.of([], now=lambda: 0.0)
    [question] = ledger.append(edits.message("user", "an old question", "typed"))
    [old] = ledger.append(edits.message("assistant", "an old answer", "assistant"))
    ledger.append(edits.message("user", "go", "typed"))
    calls = [tool_use("a", "Snip", {}), tool_use("b", "Agent", {})]
    ledger.append(edits.message("assistant", calls, "assistant"))
    whole = joining.request_bytes(ledger.branch(at_answer=True).view())
    folded = [{"role": "user", "content": "[snipped]"}]
    ledger.append(edits.fold(question["uuid"], old["uuid"], folded, "snip"))
    ledger.append(edits.message("user", [tool_result("a", "snipped")], "tool"))
    assert joining.request_bytes(ledger.branch(at_answer=True).view()) == whole
    assert "snipped" in str(list(ledger.branch().view().messages))


@pytest.mark.spec("L7.1")
def test_a_fork_with_a_prompt_of_its_own_waits_for_no_other(place: Place) -> None:
    model = ScriptedModel(["hello"], otherwise={"notes": "noted"})

    async def story() -> None:
        async with place.open(model, config={"notes.enabled": False}) as session:
            await session.ask("hi")
            state = session.state
            state.leads = {str(state.ledger.head): anyio.Event()}  # of a first one that hangs
            with anyio.fail_after(5):
                result = await Forks(state)(
                    "Note it.", purpose="notes", permit=reads_only, max_calls=1, apart=True
                )
            assert result.text == "noted"

    run(story)


@pytest.mark.spec("L7.1")
def test_a_fork_after_a_pause_clears_nothing_of_what_it_shares_before_its_first_answer(
    place: Place,
) -> None:
    """Layer 2 would clear old results then: of its own, not of the prefix that others share."""
    (place.project / "a.txt").write_text("words of the file\n" * 200)
    reads = [{"tool_use": [{"name": "Read", "input": {"file_path": "a.txt"}}]} for _ in range(8)]
    model = ScriptedModel([*reads, "read"], otherwise={"agent": "a part"})

    async def story() -> None:
        config = {"agents.enabled": True, "notes.enabled": False, "folds.enabled": False}
        async with place.open(model, config=config) as session:
            await session.ask("read it")
            sent = joining.request_bytes(session.view())
            place.clock.at += 3_600
            agent = await session.agents.start(Order("Look.", "fork"))
            assert agent.card.status == "done"
            assert joining.request_bytes(model.requests[-1]).startswith(sent)

    run(story)
