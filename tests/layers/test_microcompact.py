"""Layer 2: old results are cleared when the cache is cold anyway, or where the provider can do it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.layers.test_tool_results import results, saying
from tests.ledger.strategies import foreign_entries
from tests.sessions import Place, run, use
from tests.test_turn import Probe

from lamina import flags
from lamina.config import load
from lamina.layers.microcompact import CLEARED, LAYER, api_management, old_results
from lamina.ledger import edits
from lamina.ledger.record import Ledger
from lamina.ledger.tokens import Window
from lamina.messages import Json, dicts, tool_result
from lamina.models.scripted import ScriptedModel, Step
from lamina.ports import Capabilities
from lamina.state import OldResults

LONG = "a result of some length " * 40
MOVED = LONG * 600  # layer 1 moves it to disk: so much is saved from the beginning


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.config = {"folds.enabled": False}  # the same words again and again are what is cleared
    return place


def is_cleared(block: dict[str, Any]) -> bool:
    return block["content"].startswith(CLEARED)


def brought_back(session: Any, marker: str) -> str:
    """What Expand gives for the id in a marker, which has the one form (L2.1)."""
    found = re.fullmatch(
        r"\[Old tool result content cleared; Expand (\S+) brings it back\]", marker
    )
    assert found, marker
    return session.state.tools.session.expand(found[1])


def rounds(count: int, tool: str = "Probe") -> list[Any]:
    return [*(use(tool, f"r{n}", n=n) for n in range(count)), "done"]


@pytest.mark.spec("L2.1", "F12")
def test_after_a_pause_longer_than_the_cache_lives_old_results_are_cleared_and_the_break_is_named(
    place: Place,
) -> None:
    async def story() -> None:
        model = ScriptedModel(
            [*rounds(8), Step("fresh", {"contains": CLEARED})],
            capabilities=Capabilities(cache="anthropic", min_cacheable=0, cache_ttl=300),
        )
        async with place.open(model, tools=[Probe(saying(LONG * 20), clearable=True)]) as session:
            await session.ask("work")
            place.clock.at += 301
            reply = await session.ask("go on")
            contents = [b["content"] for b in results(session)]
            assert [brought_back(session, words) for words in contents[:3]] == [LONG * 20] * 3
            assert contents[3:] == [LONG * 20] * 5
            [acted] = [e for e in reply.events if e.kind == "layer_acted"]
            assert acted.count == 3
            assert acted.tokens_saved > 3_000
            [broke] = [e for e in reply.events if e.kind == "cache_broke"]
            assert broke.registered
            assert "pause of 5 min" in broke.cause

    run(story)


@pytest.mark.spec("L2.1")
def test_within_the_cache_s_life_nothing_is_cleared(place: Place) -> None:
    async def story() -> None:
        async with place.open(
            [*rounds(8), Step("ok", {"prefix": True, "lacks": CLEARED})],
            tools=[Probe(saying(LONG), clearable=True)],
        ) as session:
            await session.ask("work")
            place.clock.at += 299
            await session.ask("go on")

    run(story)


@pytest.mark.spec("L2.4")
def test_only_results_of_tools_that_allow_it_are_cleared(place: Place) -> None:
    async def story() -> None:
        steps = [*rounds(4, "Probe"), *rounds(8, "Mine"), "ok"]
        for n, step in enumerate(steps):
            if isinstance(step, dict):
                step["tool_use"][0]["id"] = f"id{n}"
        model = ScriptedModel(steps)
        async with place.open(
            model, tools=[Probe(saying(LONG)), Probe(saying(LONG), "Mine", clearable=True)]
        ) as session:
            await session.ask("first")
            await session.ask("second")
            before = [m for m in session.view().messages if m["role"] == "assistant"]
            place.clock.at += 10_000
            await session.ask("third")
            cleared = {b["tool_use_id"] for b in results(session) if is_cleared(b)}
            assert cleared == {"id5", "id6", "id7"}
            after = [m for m in session.view().messages if m["role"] == "assistant"]
            assert after[: len(before)] == before

    run(story)


@pytest.mark.spec("L2.1")
def test_a_picture_stays_since_expand_would_not_bring_it_back(place: Place) -> None:
    (place.project / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(5_000))
    (place.project / "a.txt").write_text(LONG * 5)

    async def story() -> None:
        names = ["a.png", *["a.txt"] * 7]
        reads = [use("Read", f"r{n}", file_path=name) for n, name in enumerate(names)]
        async with place.open([*reads, "done", "ok"]) as session:
            await session.ask("work")
            place.clock.at += 10_000
            await session.ask("go on")
            first, *others = [b["content"] for b in results(session)]
            assert [part["type"] for part in first] == ["image"]
            assert [words.startswith(CLEARED) for words in others] == [True] * 2 + [False] * 5

    run(story)


@pytest.mark.spec("L2.1")
def test_it_never_keeps_fewer_than_one_and_short_results_are_left_alone(place: Place) -> None:
    async def story() -> None:
        config = {"microcompact.keep": 1}
        async with place.open(
            [*rounds(3), "ok"],
            tools=[Probe(saying([LONG, "short", LONG]), clearable=True)],
            config=config,
        ) as session:
            await session.ask("work")
            place.clock.at += 10_000
            await session.ask("on")
            first, *kept = [b["content"] for b in results(session)]
            assert brought_back(session, first) == LONG
            assert kept == ["short", LONG]

    run(story)


@pytest.mark.spec("L2.2")
def test_where_the_provider_can_the_oldest_are_named_for_deletion_and_local_messages_stay(
    place: Place,
) -> None:
    can = Capabilities(cache="anthropic", min_cacheable=0, cache_edits=True)

    async def story() -> None:
        model = ScriptedModel(rounds(14), capabilities=can)
        async with place.open(model, tools=[Probe(saying(LONG), clearable=True)]) as session:
            await session.ask("work")
            deleted = [list(r.cache_deletions) for r in model.requests]
            assert deleted[:12] == [[]] * 12
            assert deleted[12] == [f"r{n}" for n in range(7)]
            assert deleted[-1] == deleted[12]
            assert [b["content"] for b in results(session)] == [LONG] * 14
            assert not [e for e in session.ledger.entries if e["kind"] == "edit"]

    run(story)


@pytest.mark.spec("L2.2")
def test_a_result_that_left_the_view_is_no_longer_named_for_deletion(place: Place) -> None:
    can = Capabilities(cache="anthropic", min_cacheable=0, cache_edits=True)

    async def story() -> None:
        steps = [*rounds(12), "ok", *(use("Probe", f"s{n}", n=n) for n in range(9)), "done"]
        model = ScriptedModel(steps, capabilities=can)
        async with place.open(model, tools=[Probe(saying(LONG), clearable=True)]) as session:
            await session.ask("work")
            assert list(model.requests[-1].cache_deletions) == [f"r{n}" for n in range(7)]
            entries = [e for e in session.ledger.entries if e["kind"] == "message"]
            calls = [e for e in entries if e["role"] == "assistant"]
            told = [e for e in entries if e.get("tool") == "Probe"]
            summary = edits.message("user", "what was done before", "system")
            session.state.leave(edits.fold(calls[0]["uuid"], told[3]["uuid"], [summary], "test"))
            await session.ask("go on")
            assert list(model.requests[-1].cache_deletions) == ["r4", "r5", "r6"]
            await session.ask("more")
            # With the next ones, what is gone is forgotten.
            assert session.ledger.state("cache_edits") == [
                *("r4", "r5", "r6"),
                *(f"r{n}" for n in range(7, 12)),
                "s0",
                "s1",
            ]

    run(story)


@pytest.mark.spec("L2.1")
def test_what_was_brought_back_by_undo_is_not_cleared_again(place: Place) -> None:
    async def story() -> None:
        config = {"microcompact.keep": 1}
        steps = [
            *(use("Probe", f"r{n}", n=n) for n in range(2)), "one",
            *(use("Probe", f"s{n}", n=n) for n in range(2)), "two",
            *(use("Probe", f"t{n}", n=n) for n in range(2)), "three", "four",
        ]  # fmt: skip
        async with place.open(
            steps, tools=[Probe(saying(LONG), clearable=True)], config=config
        ) as session:
            for words in ("one", "two", "three"):
                await session.ask(words)
                place.clock.at += 10_000
            cleared = [b["tool_use_id"] for b in results(session) if is_cleared(b)]
            assert cleared == ["r0", "r1", "s0"]
            first = next(e for e in session.ledger.entries if e["kind"] == "edit")
            session.state.leave(edits.revoke(first["uuid"], LAYER))
            await session.ask("four")
            cleared = [b["tool_use_id"] for b in results(session) if is_cleared(b)]
            assert cleared == ["r1", "s0", "s1", "t0"]

    run(story)


@pytest.mark.spec("L2.2")
def test_only_the_main_thread_can_name_deletions(place: Place) -> None:
    can = Capabilities(cache="anthropic", min_cacheable=0, cache_edits=True)

    async def story() -> None:
        from lamina.agents.fork import branch_of
        from lamina.layers import microcompact

        model = ScriptedModel(rounds(11), capabilities=can)
        async with place.open(model, tools=[Probe(saying(LONG), clearable=True)]) as session:
            await session.ask("work")
            child = branch_of(session.state, "notes", session.state.tools.permit, 3)
            microcompact.act(child)
            assert microcompact.deletions(child) == ()
            assert session.ledger.state("cache_edits") is None

    run(story)


@pytest.mark.spec("L2.2", "F8")
def test_without_the_capability_nothing_is_named(place: Place) -> None:
    async def story() -> None:
        model = ScriptedModel(rounds(14))
        async with place.open(model, tools=[Probe(saying(LONG), clearable=True)]) as session:
            await session.ask("work")
            assert all(not r.cache_deletions for r in model.requests)

    run(story)


@pytest.mark.spec("L2.3")
@pytest.mark.parametrize(("size", "trigger"), [(1_000_000, 180_000), (200_000, 150_300)])
def test_the_provider_s_own_clearing_is_set_below_the_autocompact_threshold(
    tmp_path: Path, size: int, trigger: int
) -> None:
    config = load(tmp_path, home=tmp_path / "h", env={})
    window = Window(size, 64_000)
    can = Capabilities(window=size, context_management=True)
    params = api_management(flags.read(config), window, can, {})
    [rule] = params["context_management"]["edits"]
    assert rule["type"] == "clear_tool_uses_20250919"
    assert rule["trigger"]["value"] == trigger < window.autocompact
    assert rule["clear_at_least"]["value"] < rule["trigger"]["value"]
    assert api_management(flags.read(config), window, Capabilities(), {}) == {}


@pytest.mark.spec("L2.3", "L2.4")
def test_the_provider_is_told_which_tools_results_it_must_not_clear(place: Place) -> None:
    async def story() -> None:
        model = ScriptedModel(["ok"], capabilities=Capabilities(context_management=True))
        tools = [Probe(saying("x")), Probe(saying("x"), "Mine", clearable=True)]
        async with place.open(model, tools=tools) as session:
            await session.ask("work")
        [rule] = model.requests[0].params["context_management"]["edits"]
        kept = rule["exclude_tools"]
        assert {"Probe", "Expand", "Todo"} <= set(kept)
        assert not {"Mine", "Read", "Bash", "Grep", "Glob", "Edit", "Write"} & set(kept)

    run(story)


@pytest.mark.spec("L2.3")
def test_thinking_is_cleared_first_and_only_where_the_model_thinks(tmp_path: Path) -> None:
    env = {"LAMINA_MICROCOMPACT_THINKING_TURNS": "2"}
    read = flags.read(load(tmp_path, home=tmp_path / "h", env=env))
    can = Capabilities(context_management=True)

    def kinds(params: dict[str, Any]) -> list[str]:
        rules = api_management(read, Window(), can, params)["context_management"]["edits"]
        return [rule["type"] for rule in rules]

    assert kinds({}) == ["clear_tool_uses_20250919"]
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 2_000}}
    assert kinds(thinking) == ["clear_thinking_20251015", "clear_tool_uses_20250919"]
    [first, _] = api_management(read, Window(), can, thinking)["context_management"]["edits"]
    assert first["keep"] == {"type": "thinking_turns", "value": 2}


@pytest.mark.spec("L2.1")
def test_one_result_is_kept_whatever_is_asked_for(place: Place) -> None:
    async def story() -> None:
        async with place.open(rounds(3), tools=[Probe(saying(LONG), clearable=True)]) as session:
            await session.ask("work")
            old = old_results(session.ledger, lambda tool: tool == "Probe", 0)
            assert [row.block["tool_use_id"] for row in old] == ["r0", "r1"]

    run(story)


@pytest.mark.spec("L2.3", "F12")
def test_what_the_server_cleared_is_booked_as_a_registered_break_never_as_an_edit(
    place: Place,
) -> None:
    report = {
        "context_management": {
            "applied_edits": [
                {
                    "type": "clear_tool_uses_20250919",
                    "cleared_tool_uses": 4,
                    "cleared_input_tokens": 90_000,
                }
            ]
        }
    }
    first = {
        "text": "a",
        "usage": {"input": 10, "output": 5, "cache_read": 0, "cache_write": 100_000},
    }
    second = {
        "text": "b",
        "usage": {"input": 10, "output": 5, "cache_read": 3_000, "cache_write": 9_000},
        "extra": report,
    }

    async def story() -> None:
        async with place.open([first, second]) as session:
            await session.ask("one")
            reply = await session.ask("two")
            [acted] = [e for e in reply.events if e.kind == "layer_acted"]
            assert (acted.count, acted.tokens_saved) == (4, 90_000)
            [broke] = [e for e in reply.events if e.kind == "cache_broke"]
            assert broke.registered
            assert not [e for e in session.ledger.entries if e["kind"] == "edit"]
            assert session.ledger.tokens() == 12_015

    run(story)


CACHED = Capabilities(cache="anthropic", min_cacheable=0, cache_ttl=300)


@pytest.mark.spec("L2.3", "F12")
def test_a_report_that_is_repeated_counts_once_and_does_not_hide_a_loss_of_the_cache(
    place: Place,
) -> None:
    def said(cleared: int, read: int) -> dict[str, Any]:
        edit = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": cleared // 10_000}
        report = {"applied_edits": [{**edit, "cleared_input_tokens": cleared}]}
        usage = {"input": 10, "output": 5, "cache_read": read, "cache_write": 40_000 - read}
        return {"text": "a", "usage": usage, "extra": {"context_management": report}}

    async def story() -> None:
        answers = [said(50_000, 0), said(50_000, 39_000), said(50_000, 0), said(70_000, 1_000)]
        model = ScriptedModel(answers[:3], capabilities=CACHED)
        async with place.open(model) as session:
            asked = [await session.ask("go on") for _ in range(3)]
            name = session.id
        async with place.open(
            ScriptedModel(answers[3:], capabilities=CACHED), session_id=name
        ) as session:
            asked.append(await session.ask("go on"))
        acted = [[e for e in reply.events if e.kind == "layer_acted"] for reply in asked]
        assert [[(e.count, e.tokens_saved) for e in some] for some in acted] == [
            [(5, 50_000)],
            [],
            [],
            [(2, 20_000)],
        ]
        [broke] = [e for e in asked[2].events if e.kind == "cache_broke"]
        assert not broke.registered
        assert "lost its cache" in broke.cause

    run(story)


@pytest.mark.spec("L2.4", "F12")
def test_results_that_cost_more_to_carry_than_to_drop_are_dropped_with_a_line_that_names_them(
    place: Place,
) -> None:
    async def story() -> None:
        model = ScriptedModel(rounds(41), capabilities=CACHED)
        tools = [Probe(saying([MOVED, *[LONG * 12] * 40]), clearable=True)]
        async with place.open(model, tools=tools) as session:
            reply = await session.ask("work")
            acted = [e for e in reply.events if e.kind == "layer_acted" and e.layer == LAYER]
            assert acted
            assert all("worn" in e.what for e in acted)
            assert not [e for e in reply.events if e.kind == "cache_broke" and not e.registered]
            contents = [b["content"] for b in results(session)][1:]
            dropped = [words for words in contents if words.startswith(CLEARED)]
            assert contents[: len(dropped)] == dropped
            assert len(dropped) >= 20
            assert contents[-3:] == [LONG * 12] * 3
            # Nothing is lost: the model can ask for each by the name that stands there.
            for words in dropped:
                assert brought_back(session, words) == LONG * 12

    run(story)


@pytest.mark.spec("L2.4")
def test_a_session_that_has_just_begun_drops_nothing_however_much_was_saved(place: Place) -> None:
    """What was saved would pay for it; that it will pay is not likely yet."""

    async def story() -> None:
        model = ScriptedModel(rounds(8), capabilities=CACHED)
        tools = [Probe(saying([MOVED, *[LONG * 24] * 7]), clearable=True)]
        async with place.open(model, tools=tools) as session:
            reply = await session.ask("work")
            assert session.ledger.projection.tokens > 30_000
            assert not [e for e in reply.events if e.kind == "layer_acted" and e.layer == LAYER]

    run(story)


@pytest.mark.spec("L2.4")
def test_dropping_worn_results_costs_less_in_the_end_than_carrying_them(place: Place) -> None:
    """The bill of the whole session, at the provider's factors for reading and writing."""

    def bill(requests: list[Any]) -> float:
        total, last = 0.0, []
        for request in requests:
            blocks = [b for message in request.messages for b in message["content"]]
            same = 0
            for old, new in zip(last, blocks, strict=False):
                if old != new:
                    break
                same += 1
            sizes = [len(str(block)) for block in blocks]
            total += 0.1 * sum(sizes[:same]) + 1.25 * sum(sizes[same:])
            last = blocks
        return total

    async def story(worn: bool) -> float:
        model = ScriptedModel(rounds(60), capabilities=CACHED)
        tools = [Probe(saying([MOVED, *[LONG * 12] * 59]), clearable=True)]
        async with place.open(model, tools=tools, config={"microcompact.worn": worn}) as session:
            await session.ask("work")
        return bill(model.requests)

    assert run(story, True) < 0.8 * run(story, False)


@pytest.mark.spec("L2.4")
def test_a_break_that_no_saving_covers_is_not_made(place: Place) -> None:
    async def story() -> None:
        model = ScriptedModel(rounds(40), capabilities=CACHED)
        tools = [Probe(saying(LONG * 12), clearable=True)]
        async with place.open(model, tools=tools) as session:
            await session.ask("work")
            account = session.state.balance()
            assert account is not None
            assert account.requests == 41
            assert account.saved == 0
            assert all(b["content"] == LONG * 12 for b in results(session))

    run(story)


@pytest.mark.spec("L2.4", "F1")
def test_a_resumed_session_has_the_same_account(place: Place) -> None:
    async def story() -> None:
        tools = [Probe(saying([MOVED, *[LONG * 12] * 60]), clearable=True)]
        first = ScriptedModel(rounds(30), capabilities=CACHED)
        async with place.open(first, tools=tools) as session:
            await session.ask("work")
            name, before = session.id, session.state.balance()
            assert before is not None
        again = ScriptedModel(["done"], capabilities=CACHED)
        async with place.open(again, tools=tools, session_id=name) as session:
            after = session.state.balance()
            assert after is not None
            assert before.saved > 0
            assert (after.saved, after.requests, after.dropped) == (
                before.saved,
                before.requests,
                before.dropped,
            )

    run(story)


@pytest.mark.spec("L2.4", "F8")
@pytest.mark.parametrize(
    ("config", "can"),
    [
        ({"microcompact.worn": False}, CACHED),
        ({}, Capabilities()),
        ({"microcompact.worn_tokens": 500_000}, CACHED),
    ],
    ids=["switched off", "nothing cached", "too little to free"],
)
def test_worn_results_stay_where_dropping_is_off_or_nothing_is_cached(
    place: Place, config: dict[str, Any], can: Capabilities
) -> None:
    async def story() -> None:
        model = ScriptedModel(rounds(30), capabilities=can)
        tools = [Probe(saying(LONG * 12), clearable=True)]
        async with place.open(model, tools=tools, config=config) as session:
            await session.ask("work")
            assert [b["content"] for b in results(session)] == [LONG * 12] * 30

    run(story)


@pytest.mark.spec("L2.1")
def test_a_pause_clears_nothing_where_that_would_free_next_to_nothing(place: Place) -> None:
    async def story() -> None:
        answers = [LONG, *([LONG * 40] * 5), "ok"]
        async with place.open(
            [*rounds(6), "ok"], tools=[Probe(saying(answers), clearable=True)]
        ) as session:
            await session.ask("work")
            place.clock.at += 10_000
            await session.ask("go on")
            assert all(CLEARED not in b["content"] for b in results(session))

    run(story)


@examples(400)
@given(foreign_entries(), st.data())
def test_old_results_found_as_a_view_grows_are_those_found_at_once(
    entries: list[Json], data: Any
) -> None:
    ledger, known = Ledger(None, lambda: 0.0), OldResults()
    for entry in entries:
        for block in dicts(entry.get("content")):
            block["content"] = LONG
        for item in dicts(entry.get("items")):
            item["with"]["content"] = data.draw(st.sampled_from([CLEARED, LONG]))
        ledger.projection.add(entry)
        if data.draw(st.booleans()):
            grown = old_results(ledger, lambda _: True, 1, known)
            assert grown == old_results(ledger, lambda _: True, 1)


def test_what_is_no_longer_cleared_brings_the_results_before_it_back_into_sight() -> None:
    ledger, known = Ledger(None, lambda: 0.0), OldResults()
    for n in range(4):
        block = tool_result(f"r{n}", LONG)
        made = {"kind": "message", "role": "user", "content": [block], "uuid": f"e{n}"}
        ledger.projection.add(made)
    for n, words in enumerate([CLEARED, LONG]):
        items = [("e1", 0, tool_result("r1", words))]
        ledger.projection.add(edits.replace(items, LAYER, changes_prefix=True, uuid=f"x{n}"))
        found = old_results(ledger, lambda _: True, 1, known)
        assert found == old_results(ledger, lambda _: True, 1)
    assert [row.entry for row in found] == [0, 1, 2]
