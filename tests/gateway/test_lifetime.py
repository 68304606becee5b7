"""The gateway with `--lifetime` (I7): how long the provider's cache lives is chosen by the conversation's own
pauses, and a short one is kept through a pause where that pays; by nothing that the user was not told of.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from tests.gateway.running import WAIT, Agent, asking, client_of, work
from tests.wire.server import Answer, WireServer, fails

from lamina.cache.spend import Spend
from lamina.gateway import server
from lamina.gateway.peers import Upstream

pytestmark = pytest.mark.spec("I7")
Json = dict[str, Any]
NEAR = 285.0  # seconds after a request: the cache is about to end
HOUR = {"type": "ephemeral", "ttl": "1h"}


@pytest.fixture
def agent(tmp_path: Path, wire: WireServer) -> Iterator[Agent]:
    with Agent(tmp_path / "work", wire, lives=True) as agent:
        yield agent


def saved_something(agent: Agent, **more: Any) -> list[Json]:
    """A conversation in which old results have been left out; its last request was just answered."""
    messages = work(8)
    agent.ask(messages, seconds=3_700, **more)
    messages += work(1, start=8)
    agent.ask(messages, seconds=0, **more)
    return messages


def booked(agent: Agent) -> list[str]:
    return [str(row["purpose"]) for row in Spend(agent.folder / "home" / "spend").calls()]


def test_before_the_cache_ends_the_last_request_is_sent_again_for_one_token(agent: Agent) -> None:
    messages = saved_something(agent)
    last = agent.wire.received[-1]
    assert agent.away(200) == [], "the cache lives on by itself"
    assert "Lamina" not in str(agent.told)
    [kept] = agent.away(NEAR - 200)
    assert kept == {**last.body, "max_tokens": 1, "stream": False}
    again = agent.wire.received[-1]
    assert again.headers["x-api-key"] == "sk-secret"
    parts = msgspec.json.decode(again.raw, type=dict[str, msgspec.Raw])
    assert all(bytes(parts[name]) in last.raw for name in ("tools", "messages")), "as written"
    assert booked(agent) == ["main", "main", "keep_warm"]
    assert [words for words in agent.told if "keep_warm" in words] == agent.told

    agent.now += 200  # longer than the cache would have lived
    used: list[Json] = []

    def serve(body: Json) -> Answer:
        answer = Agent.serve(agent, body)
        used.append(answer.usage or {})
        return answer

    agent.wire.rule = serve
    agent.ask([*messages, *work(1, start=9)])
    assert used[0]["cache_read_input_tokens"] > 5 * used[0]["cache_creation_input_tokens"]
    totals = agent.desk.totals
    assert totals.kept == 1
    assert totals.direct > totals.billed, "what was spent on it is in there"


def test_what_it_costs_comes_from_what_was_saved(agent: Agent) -> None:
    agent.ask(work(9), seconds=0)  # nothing was left out yet
    assert agent.away(NEAR) == []


def test_the_gateway_looks_by_itself(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_LOOKS", 0.01)
    agent.restart()
    saved_something(agent)
    came = threading.Event()

    def serve(body: Json) -> Answer:
        came.set()
        return Agent.serve(agent, body)

    agent.wire.rule = serve
    agent.now += NEAR
    assert came.wait(WAIT)
    assert agent.wire.received[-1].body["max_tokens"] == 1


def test_a_gateway_that_is_ended_just_when_such_a_request_is_answered_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    class Due:
        lives = True

        def due(self, *, there: bool) -> list[Any]:
            return [(None, self)]

        def ended(self) -> None:
            return

        catch_up = close = ended

    def asked_again(request: Any, call: Any) -> None:
        begun.set()
        assert goes_on.wait(WAIT)

    gateway = server.Gateway(Upstream("http://a.example"), cast("Any", Due()))
    monkeypatch.setattr(server, "_LOOKS", 0)
    monkeypatch.setattr(gateway, "_asked_again", asked_again)
    gateway.start()
    assert begun.wait(WAIT)
    ending = threading.Thread(target=gateway.close, daemon=True)
    ending.start()
    goes_on.set()
    ending.join(WAIT)
    assert not ending.is_alive()


@pytest.mark.parametrize("there", [True, False])
def test_who_may_have_left_gets_one_such_request_and_who_is_there_two(
    agent: Agent, there: bool
) -> None:
    saved_something(agent)
    agent.gateway.stays = there  # as `lamina wrap` says while its agent runs
    sent = [len(agent.away(NEAR)) for _ in range(5)]
    assert sent == [1, int(there), 0, 0, 0]


def test_an_open_connection_tells_that_the_client_is_there(agent: Agent) -> None:
    messages = saved_something(agent)
    with client_of(agent.gateway) as line:
        agent.ask(messages, seconds=0)  # by then the line has been taken
        line.sendall(b"POST ")
        assert [len(agent.away(NEAR)) for _ in range(3)] == [1, 1, 0]


def test_a_cache_that_is_gone_is_not_written_anew(agent: Agent) -> None:
    saved_something(agent)
    assert agent.away(400) == [], "the machine slept"
    assert agent.away(NEAR) == []


def test_the_next_request_ends_the_wait_and_begins_another(agent: Agent) -> None:
    messages = saved_something(agent)
    agent.now += 270
    agent.ask([*messages, *work(1, start=9)], seconds=0)
    assert agent.away(20) == []
    assert len(agent.away(NEAR - 20)) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"thinking": {"type": "enabled", "budget_tokens": 50}},
        {"model": "made-up-model"},
    ],
)
def test_what_can_t_be_asked_for_one_token_or_has_no_price_is_left_to_end(
    agent: Agent, more: Json
) -> None:
    saved_something(agent, **more)
    assert agent.away(NEAR) == []


@pytest.mark.parametrize(
    ("acts", "lives"), [(True, False), (False, True)], ids=["--act", "--lifetime"]
)
def test_no_request_of_our_own_without_both(
    tmp_path: Path, wire: WireServer, acts: bool, lives: bool
) -> None:
    with Agent(tmp_path / "work", wire, acts=acts, lives=lives) as agent:
        saved_something(agent)
        assert agent.away(NEAR) == []


def test_a_cap_stops_it_in_a_sentence(tmp_path: Path, wire: WireServer) -> None:
    home = tmp_path / "work" / "home"
    home.mkdir(parents=True)
    (home / "settings.toml").write_text("[spend.layer_caps]\nkeep_warm = 0.000001\n")
    with Agent(tmp_path / "work", wire, lives=True) as agent:
        agent.gateway.stays = True
        saved_something(agent)
        assert len(agent.away(NEAR)) == 1
        assert agent.away(NEAR) == []
        assert "today's cap" in agent.told[-1]


def test_one_that_fails_is_told_once_and_costs_the_client_nothing(agent: Agent) -> None:
    messages = saved_something(agent)
    agent.wire.rule = None
    agent.wire.will(fails(400))
    assert len(agent.away(NEAR)) == 1
    assert "left to end" in agent.told[-1]
    assert agent.away(NEAR) == []
    agent.wire.rule = agent.serve
    agent.ask([*messages, *work(1, start=9)])
    assert booked(agent).count("keep_warm") == 0


def test_a_sub_agent_that_has_done_its_work_is_not_kept(agent: Agent) -> None:
    agent.headers["x-claude-code-session-id"] = "one"
    agent.ask(work(1), system=[{"type": "text", "text": "You lead."}])
    saved_something(agent, system=[{"type": "text", "text": "You serve."}])
    assert agent.away(NEAR) == []


def test_the_key_is_in_memory_only(agent: Agent) -> None:
    saved_something(agent)
    assert agent.away(NEAR)
    files = [path for path in agent.folder.rglob("*") if path.is_file()]
    assert len(files) > 3
    assert not [path for path in files if b"sk-secret" in path.read_bytes()]


def test_what_it_says_it_saved_is_what_a_direct_run_would_have_cost_more(
    tmp_path: Path, wire: WireServer
) -> None:
    billed: dict[bool, Any] = {}
    for lives in (False, True):
        with Agent(tmp_path / str(lives), wire, acts=lives, lives=lives) as agent:
            agent.gateway.stays = True
            messages = saved_something(agent)
            for start in range(9, 24):
                for _ in range(2):  # nine minutes, now and then
                    agent.away(NEAR if start % 3 == 0 else 10)
                messages += work(1, start=start)
                agent.ask(messages, seconds=3_700 if start == 15 else 5)
            agent.away(0)
            billed[lives] = agent.desk.totals
    assert billed[True].kept > 3
    assert billed[True].direct == pytest.approx(billed[False].billed, rel=0.05)
    spent = Spend(tmp_path / "True" / "home" / "spend").calls()
    assert billed[True].billed == pytest.approx(sum(row["cost"] for row in spent))
    assert billed[True].billed < billed[False].billed


# ---- marks


SYSTEM = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]


def after_pauses(agent: Agent, count: int = 4, **more: Any) -> tuple[list[Json], bytes, bytes]:
    """The last request of a conversation with such pauses: its messages, as written, as sent."""
    for n in range(3, 3 + count):
        agent.ask(work(n), seconds=1_200, **more)
    messages = work(3 + count)
    body = json.dumps(asking(messages, **more), indent=3).encode()
    assert agent.post(body)[0] == 200
    return messages, body, agent.wire.received[-1].raw


@pytest.fixture
def marks(tmp_path: Path, wire: WireServer) -> Iterator[Agent]:
    with Agent(tmp_path / "work", wire, acts=False, lives=True) as agent:
        yield agent


def test_after_pauses_that_an_hour_would_bridge_the_client_s_marks_say_an_hour(
    marks: Agent,
) -> None:
    messages, body, sent = after_pauses(marks, system=SYSTEM)
    assert body.count(b'"cache_control"') == 2
    assert sent.replace(b',"ttl":"1h"', b"") == body, "and nothing else changes"
    told = json.loads(sent)
    assert told["system"][0]["cache_control"] == HOUR
    assert told["messages"][-1]["content"][-1]["cache_control"] == HOUR
    for wait in (2_000, 20):  # it is read after a pause, and stays so
        marks.now += wait
        messages += work(1, start=len(messages) // 2)
        again = marks.ask(messages, system=SYSTEM)
        assert again["system"][0]["cache_control"] == HOUR
    assert marks.away(NEAR) == []
    assert marks.told == []
    *_, paused, last = Spend(marks.folder / "home" / "spend").calls()
    assert paused["cache_read"] > paused["cache_write"]
    assert paused["direct"] > 2 * paused["cost"], "else it would have been written anew"
    assert last["direct"] < last["cost"], "an hour costs more to write"


def test_a_restart_goes_on_with_the_hour_and_without_the_option_ends_it(marks: Agent) -> None:
    messages, *_ = after_pauses(marks)
    marks.restart()
    sent = marks.ask([*messages, *work(1, start=7)])
    assert sent["messages"][-1]["content"][-1]["cache_control"] == HOUR
    marks.lives = False
    marks.restart()
    messages += work(2, start=7)
    sent = marks.ask(messages)
    assert "ttl" not in str(sent["messages"][-1]["content"][-1]["cache_control"])


@pytest.mark.parametrize(
    "more",
    [
        {
            "system": [
                {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "5m"}}
            ]
        },
        {"metadata": {"cache_control": {"type": "ephemeral"}}},
        {"tools": [{"name": "cache_control", "input_schema": {"required": ["cache_control"]}}]},
    ],
    ids=["its client chose", "something like a mark", "its name as a word"],
)
def test_marks_that_are_not_ours_to_change_stay(marks: Agent, more: Json) -> None:
    _, body, sent = after_pauses(marks, **more)
    assert sent == body


def test_words_about_marks_are_words(marks: Agent) -> None:
    system = [{"type": "text", "text": json.dumps(SYSTEM)}]
    _, body, sent = after_pauses(marks, system=system)
    assert json.loads(sent)["system"] == system
    assert sent.replace(b',"ttl":"1h"', b"") == body
    assert sent != body


def test_without_long_pauses_nothing_changes(marks: Agent) -> None:
    for n in range(3, 9):
        marks.ask(work(n), seconds=60)
    assert b"ttl" not in marks.wire.received[-1].raw


def test_a_provider_that_refuses_the_hour_gets_the_client_s_own_words(marks: Agent) -> None:
    def serve(body: Json) -> Answer:
        return fails(400) if '"1h"' in json.dumps(body) else Agent.serve(marks, body)

    marks.wire.rule = serve
    messages, body, sent = after_pauses(marks)
    assert sent == body
    count = len(marks.wire.received)
    marks.now += 1_200
    marks.ask([*messages, *work(1, start=7)])
    assert len(marks.wire.received) == count + 1, "it is not tried again"
