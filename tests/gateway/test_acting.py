"""The gateway sends less (I7): in batches, the same bytes for ever, with a way back; and when anything is
wrong, what the client wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.running import READ, Agent, asking, work
from tests.wire.cache import PromptCache
from tests.wire.server import Answer, WireServer, fails

from lamina.cache import simulate
from lamina.cache.spend import Spend, cost, money_text, price_of
from lamina.cache.usage import anthropic_usage
from lamina.cli.main import main
from lamina.conversation import kept
from lamina.integrations.library import Memory
from lamina.integrations.mcp_calls import Calls
from lamina.integrations.mcp_stdio import TOOLS
from lamina.messages import Usage

pytestmark = pytest.mark.spec("I7")
BILLING = "x-anthropic-billing-header"
NAMED = re.compile(r"\[Old tool result content cleared; all of it is in (\S+)\]")


@pytest.fixture
def agent(tmp_path: Path, wire: WireServer) -> Iterator[Agent]:
    with Agent(tmp_path / "work", wire) as agent:
        yield agent


def contents(body: dict[str, Any]) -> list[str]:
    return [m["content"][0].get("content", "") for m in body["messages"] if m["role"] == "user"]


def paused(agent: Agent, rounds: int = 8) -> list[dict[str, Any]]:
    """A conversation that is about to go on after an hour."""
    messages = work(rounds)
    agent.ask(messages, seconds=3_700)
    return [*messages, *work(1, start=rounds)]


def test_after_a_pause_old_results_are_out_and_the_rest_is_the_client_s_bytes(agent: Agent) -> None:
    messages = paused(agent)
    body = json.dumps(asking(messages), indent=2).encode()
    agent.post(body)
    sent = agent.wire.received[-1].raw
    out = NAMED.findall(sent.decode())
    assert len(out) == 4, "all but the last five"
    for number, path in enumerate(out):
        whole = messages[2 * number + 2]["content"][0]["content"]
        assert Path(path).read_text("utf-8") == whole
        assert Path(path).stat().st_mode & 0o077 == 0
        sent = sent.replace(
            json.dumps(f"[Old tool result content cleared; all of it is in {path}]").encode(),
            json.dumps(whole).encode(),
        )
    assert sent == body


@pytest.mark.parametrize("tools", ["files", "only ours"])
def test_what_is_out_comes_back_over_mcp_by_its_id_or_its_file(agent: Agent, tools: str) -> None:
    (words,) = [one["description"] for one in TOOLS if one["name"] == "expand"]
    expand = {"name": "mcp__lamina_results__expand", "description": words}
    given = {"tools": [expand]} if tools == "only ours" else {}
    agent.ask(work(8), seconds=3_700, **given)
    messages = [*work(8), *work(1, start=8)]
    sent = agent.ask(messages, **given)
    shown = [m["content"][0]["content"] for m in sent["messages"][2::2]]
    out = [re.findall(r"Expand (\w+) brings|is in (\S+)\]", one)[0] for one in shown[:4]]
    calls = Calls(str(agent.folder), str(agent.folder / "home"))
    for number, (name, path) in enumerate(out):
        assert bool(name) == (tools == "only ours")
        whole = messages[2 * number + 2]["content"][0]["content"]
        assert calls.call("expand", {"id": name or path}) == (whole, False)
    assert calls.call("expand", {"id": "0123456789"})[1], "an error"
    calls.close()
    fetches = {"type": "tool_use", "id": "e", "name": expand["name"], "input": {"id": "x"}}
    agent.ask([*messages, {"role": "assistant", "content": [fetches]}, *work(1)[:1]], **given)
    assert len(agent.desk.totals.fetched) == 1


@pytest.mark.parametrize("kind", ["image", "document"])
def test_a_result_with_more_than_words_stays_as_no_file_would_hold_all_of_it(
    agent: Agent, kind: str
) -> None:
    messages = paused(agent, rounds=3)
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    seen = messages[2]["content"][0]
    seen["content"] = [{"type": "text", "text": seen["content"]}, {"type": kind, "source": source}]
    messages = [*messages, *work(6, start=4)]
    agent.ask(messages, seconds=3_700)
    sent = agent.ask([*messages, *work(1, start=10)])["messages"]
    assert sent[2] == messages[2]
    assert NAMED.search(str(sent[4]))


def test_what_was_changed_stays_so_to_the_byte_through_restarts_and_pauses(agent: Agent) -> None:
    messages = paused(agent)
    last = agent.ask(messages)
    for start in range(9, 15):
        agent.restart()
        messages += work(1, start=start)
        body = agent.ask(messages, seconds=4_000 if start == 12 else 10)
        if start != 13:  # then the cache is cold again, and more may go
            assert contents(body)[: start - 1] == contents(last)[: start - 1]
        last = body
    assert agent.told == []


def test_a_warm_cache_is_never_broken_unpaid(agent: Agent) -> None:
    messages = work(1)
    used: list[Usage] = []

    def bill(body: dict[str, Any]) -> Answer:
        agent.cache.now = agent.now
        usage, _ = agent.cache.serve({**body, "system": []})
        used.append(anthropic_usage(usage) or Usage())
        return Answer(usage=usage)

    agent.wire.rule = bill
    for start in range(1, 30):
        agent.ask(messages, seconds=1_000 if start == 20 else 20)
        messages += work(1, start=start)
    missed = [n for n, (a, b) in enumerate(pairwise(used), 1) if b.cache_read < a.cache_read]
    assert missed == [20], "but where the cache was cold"


def test_the_same_edits_are_counted_as_are_sent(agent: Agent) -> None:
    messages = paused(agent)
    sent = agent.ask(messages)
    counted = asking([*messages, *work(1, start=9)])
    agent.post(json.dumps(counted).encode(), path="/v1/messages/count_tokens?beta=true")
    body = agent.wire.received[-1].body
    assert contents(body)[:9] == contents(sent)[:9]
    assert NAMED.search(contents(body)[1])
    assert len(agent.ledgers()) == 1


def test_a_changed_request_that_is_refused_goes_out_once_more_as_it_was(agent: Agent) -> None:
    messages = paused(agent)
    bodies: list[bytes] = []
    serve = agent.wire.rule
    assert serve is not None

    def picky(body: dict[str, Any]) -> Answer | None:
        bodies.append(agent.wire.received[-1].raw)
        return fails(400, "invalid_request_error") if NAMED.search(str(body)) else serve(body)

    agent.wire.rule = picky
    own = json.dumps(asking(messages)).encode()
    assert agent.post(own)[0] == 200
    assert bodies[1] == own != bodies[0]
    agent.restart()
    messages += work(1, start=9)
    agent.now += 4_000
    own = json.dumps(asking(messages)).encode()
    assert agent.post(own)[0] == 200
    assert bodies[2:] == [own], "its conversation is left alone"
    assert len(agent.told) == 1


def test_a_400_for_the_original_too_is_no_reason_to_leave_a_conversation_alone(
    agent: Agent,
) -> None:
    messages, serve = paused(agent), agent.wire.rule
    agent.wire.rule = lambda _: fails(400, "invalid_request_error")  # the credit is used up
    assert agent.post(json.dumps(asking(messages)).encode())[0] == 400
    agent.wire.rule = serve
    assert NAMED.search(str(agent.ask(messages)))
    assert agent.told == []


def test_a_400_that_is_not_ours_comes_back_at_once(agent: Agent) -> None:
    agent.wire.rule = lambda _: fails(400, "invalid_request_error")
    assert agent.post(json.dumps(asking(work(1))).encode())[0] == 400
    assert len(agent.wire.received) == 1


def test_two_gateways_in_a_row_edit_once(agent: Agent, tmp_path: Path, wire: WireServer) -> None:
    with Agent(tmp_path / "first", wire) as first:
        first.upstream = agent.gateway.url
        first.restart()
        messages = paused(first)
        agent.now = first.now
        first.ask(messages)
        body = wire.received[-1].raw.decode()
        assert len(NAMED.findall(body)) == 4
        assert "/first/" in body
        assert "/work/" not in body.replace("/first/", "")


def test_a_provider_that_clears_by_itself_is_not_helped(agent: Agent) -> None:
    clears = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    keeps = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    for context, count in ((clears, 0), (keeps, 4)):
        messages = work(8, topic=f"{count} ")
        agent.ask(messages, seconds=4_000, context_management=context)
        more = [*messages, *work(1, start=8)]
        body = agent.ask(more, context_management=context)
        assert len(NAMED.findall(json.dumps(body))) == count


def test_thinking_words_and_system_messages_are_never_touched(agent: Agent) -> None:
    messages = work(8)
    messages[1]["content"].insert(0, {"type": "thinking", "thinking": "x" * 900, "signature": "s"})
    messages.insert(3, {"role": "system", "content": [{"type": "text", "text": "y" * 9_000}]})
    billing = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1;"}
    agent.ask(messages, seconds=4_000, system=[billing])
    body = agent.ask([*messages, *work(1, start=8)], system=[billing])
    assert body["messages"][1] == messages[1]
    assert body["messages"][3] == messages[3]
    assert body["system"] == [billing]
    assert len(NAMED.findall(json.dumps(body))) == 4


@pytest.mark.parametrize("room", [None, 0], ids=["in memory", "from disk each time"])
def test_eight_agents_at_once_break_no_prefix_of_each_other(
    agent: Agent, room: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if room is not None:
        monkeypatch.setattr(kept, "_IN_MEMORY", room)
    lists = [work(8, topic=f"agent {n} ") for n in range(8)]
    for one in lists:
        agent.ask(one, seconds=1)
    agent.now += 4_000
    forms: list[list[str]] = []
    for one in lists:
        forms.append(contents(agent.ask([*one, *work(1, start=8)], seconds=1)))
        assert NAMED.search(forms[-1][1])
    for n, one in enumerate(lists):
        again = agent.ask([*one, *work(2, start=8)], seconds=1)
        assert contents(again)[:10] == forms[n]
    assert len(agent.ledgers()) == 8


@pytest.mark.parametrize("most", [20_000, 60])
def test_what_it_says_it_saved_is_what_a_direct_run_would_have_cost_more(
    agent: Agent,
    tmp_path: Path,
    wire: WireServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    most: int,
) -> None:
    monkeypatch.setattr(simulate, "_MOST_PREFIXES", most)  # what is remembered has an end

    def run(one: Agent) -> float:
        total = 0.0
        serve = one.serve

        def bill(body: dict[str, Any]) -> Answer:
            nonlocal total
            answer = serve(body)
            total += cost(anthropic_usage(answer.usage) or Usage(), price_of(body["model"]))
            return answer

        wire.rule = bill
        messages = work(12)
        for start in range(12, 30):
            one.ask(messages, seconds=4_000 if start in (15, 22) else 20)
            messages += work(1, start=start)
        return total

    with Agent(tmp_path / "direct", wire, acts=False) as bare:
        direct = run(bare)
        bare.restart()
        looked_on = list(Spend(bare.folder / "home" / "spend").calls())
    billed = run(agent)
    agent.restart()
    rows = list(Spend(agent.folder / "home" / "spend").calls())
    assert sum(row["cost"] for row in rows) == pytest.approx(billed, rel=0.001)
    claimed = sum(row["direct"] for row in rows) - billed
    assert direct - billed > 0.1 * direct
    assert claimed == pytest.approx(direct - billed, rel=0.05)
    missed = direct - sum(row["acting"] for row in looked_on)
    assert missed == pytest.approx(direct - billed, rel=0.1)  # paths have other lengths
    assert main(["spend", "--home", str(bare.folder / "home")]) == 0
    assert f"--act would have saved {money_text(missed)}" in _words(capsys)
    assert main(["spend", "--home", str(agent.folder / "home")]) == 0
    assert f"left out saved {money_text(claimed)}" in _words(capsys)


def _words(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_memories_that_fit_are_added_at_the_end_once_and_where_no_hook_has_done_it(
    tmp_path: Path, wire: WireServer
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    note = "The staging database is PostgreSQL 16 on port 5433."
    memory = Memory(folder, home=folder / "home")
    memory.remember(note)
    directory = str(memory.store.directory)
    memory.close()
    typed = "Which port does the staging database listen on?"
    messages = [{"role": "user", "content": [{"type": "text", "text": typed}]}]
    with Agent(folder, wire, recalls=True) as agent:
        sent = agent.ask(messages)["messages"]
        assert sent[0]["content"][0]["text"] == typed
        assert note in sent[0]["content"][-1]["text"]
        later = agent.ask([*messages, *work(1, start=1)])["messages"]
        assert later[0]["content"][-1] == sent[0]["content"][-1]
        assert note not in str(later[1:])
        hooked = {"type": "text", "text": f"<system-reminder>{directory}/a.md</system-reminder>"}
        messages[0]["content"].insert(0, hooked)
        assert note not in str(agent.ask(messages)["messages"])
        assert agent.told == []
    with Agent(folder, wire) as unasked:
        del messages[0]["content"][0]
        assert note not in str(unasked.ask([*messages, *work(1, start=5)])["messages"][1:])


def test_adding_needs_leave_to_act(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", "--recall", "--home", str(tmp_path)]) != 0
    assert "needs --act" in capsys.readouterr().err


def test_what_the_client_does_to_its_own_history_is_noticed_and_named(agent: Agent) -> None:
    agent.headers["x-claude-code-session-id"] = "s1"
    messages = work(12)
    agent.ask(messages)
    rewritten = [dict(message) for message in messages]
    rewritten[6] = {"role": "user", "content": [{**messages[6]["content"][0], "content": "(gone)"}]}
    agent.ask(rewritten)
    agent.ask([{"role": "user", "content": [{"type": "text", "text": "A summary."}]}])
    assert agent.told == [
        "The client changed its history: the first 6 of 25 messages stay.",
        "The client compacted its history: 25 messages became 1.",
    ]


def test_a_session_that_begins_with_the_words_of_another_has_changed_nothing(agent: Agent) -> None:
    for session in ("s1", "s2", ""):
        agent.headers["x-claude-code-session-id"] = session
        agent.ask(work(0))
        if session == "s1":
            agent.ask(work(12))
    assert agent.told == []


@pytest.mark.parametrize(
    ("change", "whose"),
    [
        ({"model": "claude-opus-4-8"}, "the client changed its model, instructions or tools"),
        ({"system": "Today is Tuesday."}, "the client changed its model, instructions or tools"),
        (
            {"tools": [{**READ, "name": "View"}]},
            "the client changed its model, instructions or tools",
        ),
        ({"marked": False}, "the client did not ask for it"),
        ({"forgets": True}, "the provider lost it"),
        ({"system": f"{BILLING}: cch=2;", "forgets": True}, "the provider lost it"),
        ({}, ""),
    ],
)
def test_a_cache_that_was_not_read_is_told_with_whose_doing_it_was(
    agent: Agent, change: dict[str, Any], whose: str
) -> None:
    system = f"{BILLING}: cch=1;" if BILLING in str(change.get("system")) else "Today is Monday. "
    messages = work(12)
    agent.ask(messages, system=[{"type": "text", "text": system}])
    messages += work(1, start=12)
    more = {"system": system} | {k: v for k, v in change.items() if k not in ("marked", "forgets")}
    body = asking(messages, **more | {"system": [{"type": "text", "text": more["system"]}]})
    if change.get("marked") is False:
        body["messages"] = messages
    if change.get("forgets"):
        agent.cache = PromptCache(now=agent.now)
    agent.post(json.dumps(body, indent=1).encode())
    agent.restart()  # what is booked beside it is booked
    assert [one.partition("not read: ")[2] for one in agent.told] == (
        [f"{whose}."] if whose else []
    )
