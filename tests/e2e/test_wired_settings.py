"""What settings promise of a provider and of tools, seen on the wire and in a running session."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from openfeature import api
from openfeature.provider.in_memory_provider import InMemoryFlag, InMemoryProvider
from tests.layers.talks import answer, model, question, summary, talk, view_text
from tests.sessions import Place, StillClock, run, use
from tests.wire.server import Answer, WireServer, fails, says

from lamina.agents import plan
from lamina.events import CacheBroke
from lamina.models.scripted import ScriptedModel, Step
from lamina.session import Opening, Session

QUIET = {"memory.enabled": False, "notes.enabled": False}
Open = Callable[..., Opening]


@pytest.fixture
def open_at(wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.anthropic_url)
    monkeypatch.setenv("OPENAI_BASE_URL", wire.openai_url)

    def open_(model: str, config: dict[str, Any], **wishes: Any) -> Opening:
        wishes.setdefault("clock", StillClock())
        home = tmp_path / "home"
        return Session.open(
            tmp_path / "project", model, home=home, config={**QUIET, **config}, **wishes
        )

    return open_


def asked(open_at: Open, wire: WireServer, model: str, **config: Any) -> tuple[Any, Any]:
    """Body and headers of one request under these settings."""
    given = {name.replace("__", "."): value for name, value in config.items()}

    async def story() -> None:
        async with open_at(model, given) as session:
            await session.ask("hello")

    run(story)
    return wire.received[-1].body, wire.received[-1].headers


@pytest.mark.spec("F6")
def test_thinking_betas_headers_and_diagnostics_reach_anthropic(
    wire: WireServer, open_at: Open
) -> None:
    opus = "anthropic:claude-opus-4-5"
    plain, headers = asked(open_at, wire, opus)
    assert "thinking" not in plain
    assert "diagnostics" not in plain
    assert "some-beta" not in headers.get("anthropic-beta", "")
    body, _ = asked(open_at, wire, opus, anthropic__thinking="adaptive")
    assert body["thinking"] == {"type": "adaptive"}
    body, _ = asked(
        open_at,
        wire,
        opus,
        anthropic__thinking="enabled",
        anthropic__thinking_tokens=4_000,
        microcompact__thinking_turns=1,
    )
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 4_000}
    rules = body["context_management"]["edits"]
    assert rules[0]["type"] == "clear_thinking_20251015"
    body, _ = asked(
        open_at, wire, opus, anthropic__thinking="enabled", max_output=3_000
    )  # the budget leaves room for an answer
    assert body["thinking"]["budget_tokens"] < body["max_tokens"] == 3_000
    _, headers = asked(open_at, wire, opus, anthropic__betas=["some-beta"])
    assert "some-beta" in headers["anthropic-beta"]
    _, headers = asked(open_at, wire, opus, anthropic__headers={"x-team": "blue"})
    assert headers["x-team"] == "blue"
    body, headers = asked(open_at, wire, opus, anthropic__diagnostics=True)
    assert body["diagnostics"] == {"previous_message_id": None}
    assert "cache-diagnosis" in headers["anthropic-beta"]
    _, headers = asked(open_at, wire, "anthropic:claude-sonnet-4-5[1m]")
    assert "context-1m-2025-08-07" in headers["anthropic-beta"]


@pytest.mark.spec("F12")
def test_the_providers_own_diagnosis_names_a_lost_cache(wire: WireServer, open_at: Open) -> None:
    read = {"input_tokens": 5, "output_tokens": 5, "cache_read_input_tokens": 20_000}
    lost = {"input_tokens": 20_005, "output_tokens": 5, "cache_read_input_tokens": 0}
    reason = {"cache_miss_reason": {"type": "unavailable"}}
    wire.will(says("one", usage=read), says("two", usage=lost, message={"diagnostics": reason}))

    async def story() -> None:
        config = {"anthropic.diagnostics": True}
        async with open_at("anthropic:claude-opus-4-5", config) as session:
            await session.ask("one?")
            reply = await session.ask("two?")
            [broke] = [e for e in reply.events if isinstance(e, CacheBroke)]
            assert "the provider says: unavailable" in broke.cause

    run(story)
    assert wire.received[1].body["diagnostics"] == {"previous_message_id": "msg_wire"}


@pytest.mark.spec("F6")
def test_the_cache_key_and_headers_reach_an_openai_endpoint(
    wire: WireServer, open_at: Open
) -> None:
    body, _ = asked(open_at, wire, "openai:gpt-5.4-mini")
    assert "prompt_cache_key" not in body
    body, headers = asked(
        open_at,
        wire,
        "openai:gpt-5.4-mini",
        openai__cache_key="team-7",
        openai__headers={"x-team": "blue"},
    )
    assert (body["prompt_cache_key"], headers["x-team"]) == ("team-7", "blue")


@pytest.mark.spec("F3")
def test_the_warning_mark_is_told_once_until_a_compaction_made_room(
    wire: WireServer, open_at: Open
) -> None:
    def used(tokens: int) -> Answer:
        usage = {"input_tokens": tokens, "output_tokens": 5}
        return says("ok", usage=usage, message={"id": f"msg_{tokens}"})

    wire.will(used(146_000), used(148_000), used(150_000), used(20_000), used(149_000))

    async def story() -> None:
        config = {"microcompact.api_management": False}
        async with open_at("anthropic:claude-opus-4-5", config) as session:
            told = [
                [e.message for e in (await session.ask("go on")).events if e.kind == "warned"]
                for _ in range(5)
            ]
        assert [len(lines) for lines in told] == [0, 1, 0, 0, 1]
        assert "167,000" in told[1][0]

    run(story)


# ---- tools


@pytest.mark.spec("F7", "L4.3")
def test_web_and_skills_of_the_settings_are_tools_and_survive_a_compaction(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    skill = tmp_path / "skills" / "brew"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: brew\ndescription: How tea is brewed.\n---\nNEVER BOIL GREEN TEA\n"
    )
    page = tmp_path / "page.py"
    page.write_text("import sys\nprint('PAGE', sys.argv[1])\n")
    steps = [
        {"tool_use": [{"name": "Skill", "input": {"name": "brew"}}]},
        use("WebFetch", url="https://example.org/tea"),
        use("WebSearch", query="--tea"),
        answer(0, 20_000),
        answer(1, 20_000),
        "done",
    ]

    async def story() -> None:
        config = {
            **QUIET,
            "skills.directories": [str(tmp_path / "skills")],
            "web.fetch": f"{sys.executable} {page}",
            "web.search": f"{sys.executable} {page}",
            "permissions.allow": ["WebFetch", "WebSearch"],
        }
        scripted = model(steps, summary=summary())
        async with place.open(scripted, config=config) as session:
            await talk(session, 1)
            shown = view_text(session)
            assert "PAGE https://example.org/tea" in shown
            assert "PAGE  --tea" in shown
            await talk(session, 1, first=1)
            await session.compact()
            assert "NEVER BOIL GREEN TEA" in view_text(session)
            await session.ask("go on")
        last = scripted.requests[-1]
        assert last.tools == scripted.requests[0].tools
        listing = next(tool for tool in last.tools if tool["name"] == "Skill")
        assert "brew: How tea is brewed." in listing["description"]
        assert "The skill brew, read again" in str(last.messages)

    run(story)


SERVER = '''
from mcp.server import MCPServer
server = MCPServer("shop", instructions="Prices are in euros.")
@server.tool()
def price(item: str) -> int:
    """The price of an item."""
    return 12
server.run("stdio")
'''


@pytest.mark.spec("L4.3")
def test_tools_and_words_of_mcp_servers_hooks_and_instructions_survive_a_compaction(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    (tmp_path / "shop.py").write_text(SERVER)
    (place.project / "AGENTS.md").write_text("ALWAYS WEIGH THE TEA\n")
    (place.project / "tea.txt").write_text("Assam\n")

    async def story() -> None:
        servers = {"shop": {"command": sys.executable, "args": [str(tmp_path / "shop.py")]}}
        config = {"notes.enabled": False, "mcp.servers": servers, "mcp.wait_seconds": 60}
        steps = [use("Read", file_path="tea.txt"), answer(0, 20_000), answer(1, 20_000), "done"]
        scripted = model(steps, summary=summary())
        hooks: Any = {"SessionStart": lambda told: f"BEGUN {told['source']}"}
        async with place.open(scripted, config=config, hooks=hooks) as session:
            await talk(session, 2)
            await session.compact()
            await session.ask("go on")
        first, last = scripted.requests[0], scripted.requests[-1]
        assert last.tools == first.tools
        assert any(tool["name"] == "mcp__shop__price" for tool in last.tools)
        assert "Prices are in euros." in str(last.system)
        view = str(last.messages)
        assert "The file" in view and "Assam" in view  # noqa: PT018
        assert "BEGUN compact" in view
        assert "ALWAYS WEIGH THE TEA" in view

    run(story)


@pytest.mark.spec("F8", "L2.5")
@pytest.mark.parametrize("snips", [True, False])
def test_there_is_no_snip_tool_where_snipping_is_off(tmp_path: Path, *, snips: bool) -> None:
    async def story() -> None:
        async with Place(tmp_path).open(["ok"], config={"snip.enabled": snips}) as session:
            names = {tool["name"] for tool in session.view().tools}
            assert ("Snip" in names) == snips

    run(story)


# ---- the background


@pytest.mark.spec("L7.1", "L3.2")
def test_a_cancel_stops_notes_that_are_being_taken(tmp_path: Path) -> None:
    async def story() -> None:
        steps: list[Any] = [answer(0, 12_000), Step({"hang": True}, purpose="notes")]
        async with Place(tmp_path).open(model(steps)) as session:
            await session.ask(question(0))
            while not any(r.purpose == "notes" for r in session.state.deps.model.requests):  # type: ignore[attr-defined]
                await anyio.lowlevel.checkpoint()
            session.cancel()
            with anyio.fail_after(60):
                while session.state.background.running():
                    await anyio.lowlevel.checkpoint()

    run(story)


@pytest.mark.spec("L3.5")
@pytest.mark.parametrize("keep", [10_000, 36_000])
def test_the_tail_after_notes_is_as_long_as_its_setting_says(tmp_path: Path, keep: int) -> None:
    async def story() -> None:
        steps: list[Any] = [answer(n, 3_000) for n in range(30)]
        scripted = ScriptedModel(steps, otherwise={"notes": "Nothing.", "extraction": "Nothing."})
        config = {"notes.keep_tokens": keep, "memory.enabled": False}
        async with Place(tmp_path).open(scripted, config=config) as session:
            for n in range(30):
                await session.ask(question(n))
                while session.state.background.running():
                    await anyio.lowlevel.checkpoint()
            done = await session.compact()
            assert done.source == "notes"
            fold = next(e for e in reversed(session.ledger.entries) if e.get("op") == "fold")
            last = session.ledger.projection.position[fold["last"]]
            rows = session.ledger.projection.rows
            kept = sum(row.tokens for row in rows if row.entry > last)
            assert keep <= kept <= keep + 4_000

    run(story)


@pytest.mark.spec("L3.5")
def test_a_tail_that_the_window_can_not_hold_is_not_lowered_in_silence(tmp_path: Path) -> None:
    async def story() -> None:
        scripted = model([answer(n, 3_000) for n in range(8)])  # a window of 60,000
        config = {"notes.keep_tokens": 36_000, "memory.enabled": False}
        async with Place(tmp_path).open(scripted, config=config) as session:
            for n in range(8):
                await session.ask(question(n))
                while session.state.background.running():
                    await anyio.lowlevel.checkpoint()
            session.state.events.clear()
            await session.compact()
            told = [e.message for e in session.state.events if e.kind == "warned"]  # type: ignore[attr-defined]
            assert any("notes.keep_tokens is 36,000" in words for words in told)

    run(story)


# ---- the provider's own clearing, flags, summaries: each as the provider sees it

OPUS = "anthropic:claude-opus-4-5"


@pytest.mark.spec("L2.3", "L2.4")
def test_protected_results_are_kept_out_of_the_clearing_that_is_asked_of_the_provider(
    wire: WireServer, open_at: Open
) -> None:
    body, headers = asked(open_at, wire, OPUS)
    [rule] = body["context_management"]["edits"]
    sent, kept = {tool["name"] for tool in body["tools"]}, set(rule["exclude_tools"])
    assert {"Expand", "Todo"} <= kept <= sent
    assert {"Read", "Bash", "Grep"} <= sent - kept
    assert "context-management" in headers["anthropic-beta"]
    body, _ = asked(open_at, wire, OPUS, microcompact__api_management=False)
    assert "context_management" not in body


@pytest.mark.spec("L2.3", "F12")
def test_a_clearing_that_the_provider_tells_of_twice_counts_once_and_hides_no_lost_cache(
    wire: WireServer, open_at: Open
) -> None:
    def told(read: int) -> Answer:
        edit = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 5}
        report = {"applied_edits": [{**edit, "cleared_input_tokens": 50_000}]}
        written = {"cache_read_input_tokens": read, "cache_creation_input_tokens": 40_000 - read}
        usage = {"input_tokens": 10, "output_tokens": 5, **written}
        return says("ok", usage=usage, end={"context_management": report})

    wire.will(told(0), told(39_000), told(0))

    async def story() -> None:
        async with open_at(OPUS, {}) as session:
            replies = [await session.ask("go on") for _ in range(3)]
        acted = [[e for e in r.events if e.kind == "layer_acted"] for r in replies]
        assert [[e.tokens_saved for e in some] for some in acted] == [[50_000], [], []]
        [broke] = [e for e in replies[2].events if isinstance(e, CacheBroke)]
        assert not broke.registered

    run(story)


@pytest.mark.spec("F8")
def test_a_flag_provider_rules_what_its_own_session_sends_and_no_other(
    wire: WireServer, open_at: Open
) -> None:
    off = InMemoryProvider({"api_management": InMemoryFlag("off", {"off": False})})

    async def story() -> None:
        async with open_at(OPUS, {}, flag_provider=off) as ruled, open_at(OPUS, {}) as free:
            for session in (ruled, free, ruled):
                await session.ask("hello")

    try:
        run(story)
    finally:
        api.clear_providers()
    assert ["context_management" in got.body for got in wire.received] == [False, True, False]


@pytest.mark.spec("L4.6")
def test_a_summary_that_is_refused_as_too_long_is_tried_three_times_more(
    wire: WireServer, open_at: Open
) -> None:
    long = "prompt is too long: 203000 tokens > 200000 maximum"
    refused = [fails(400, "invalid_request_error", long) for _ in range(3)]
    wire.will(*(says(answer(n)) for n in range(9)), *refused, says(summary()))

    async def story() -> None:
        async with open_at(OPUS, {}) as session:
            await talk(session, 9)
            before = len(wire.received)
            assert (await session.compact()).source == "model"
            sizes = [len(got.raw) for got in wire.received[before:]]
            assert len(sizes) == 4
            assert sizes == sorted(sizes, reverse=True)

    run(story)


@pytest.mark.spec("L4.3")
def test_agents_plan_tools_and_skills_stand_in_the_request_after_a_compaction(
    wire: WireServer, open_at: Open, tmp_path: Path
) -> None:
    agents, skill = tmp_path / "project/.lamina/agents", tmp_path / "skills/brew"
    for folder in (agents, skill):
        folder.mkdir(parents=True)
    (agents / "taster.md").write_text(
        "---\nname: taster\ndescription: Tastes the tea.\n---\nTaste it.\n"
    )
    (skill / "SKILL.md").write_text(
        "---\nname: brew\ndescription: How tea is brewed.\n---\nNEVER BOIL GREEN TEA\n"
    )
    called = {"type": "tool_use", "id": "t1", "name": "Skill", "input": {"name": "brew"}}
    wire.will(
        says("1. Warm the pot."),
        Answer([called], stop_reason="tool_use"),
        *(says(answer(n)) for n in range(4)),
        says(summary()),
        says("done"),
    )

    async def story() -> None:
        config = {"agents.enabled": True, "skills.directories": [str(tmp_path / "skills")]}
        async with open_at(OPUS, config) as session:
            plan.begin(session.state)
            await session.ask("how would you do it?")
            plan.approve(session.state)
            await talk(session, 4)
            assert (await session.compact()).source == "model"
            await session.ask("go on")

    run(story)
    first, last = wire.received[0].body, wire.received[-1].body
    tools = {tool["name"]: tool for tool in last["tools"]}
    assert [tool["name"] for tool in first["tools"]] == list(tools)
    assert [tool["input_schema"] for tool in first["tools"]] == [
        tool["input_schema"] for tool in last["tools"]
    ]
    assert "taster: Tastes the tea." in tools["Agent"]["description"]
    assert "brew: How tea is brewed." in tools["Skill"]["description"]
    shown = str(last["messages"])
    assert question(0) not in str(last["messages"][1:])
    assert "The skill brew, read again" in shown
    assert "NEVER BOIL GREEN TEA" in shown
    assert "The approved plan:" in shown
    assert "1. Warm the pot." in shown
