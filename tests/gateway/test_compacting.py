"""The gateway with --compact (I7, L4.1): near the end of the window a summary stands in the place of the
oldest messages; nothing is lost, and what is claimed is what a direct run would have cost more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.running import Agent, asking
from tests.wire.cache import PromptCache
from tests.wire.server import Answer, WireServer, fails

from lamina.cache.spend import Spend, cost, price_of
from lamina.cache.usage import anthropic_usage
from lamina.cli.main import main
from lamina.integrations.mcp_calls import Calls
from lamina.integrations.mcp_stdio import TOOLS
from lamina.ledger.tokens import LONG_BETA
from lamina.messages import Usage

pytestmark = [pytest.mark.spec("I7"), pytest.mark.spec("L4.1")]
Json = dict[str, Any]
MODEL, WINDOW = "claude-haiku-4-5", 200_000
NO_OTHER_LAYER = "[tool_results]\nenabled = false\n[microcompact]\nworn = false\n"
ROUNDS = 15
OURS = {
    "name": "mcp__lamina_results__expand",
    "description": next(one["description"] for one in TOOLS if one["name"] == "expand"),
}
ASKED = "Find the part that breaks the build."


@pytest.fixture
def agent(tmp_path: Path, wire: WireServer) -> Iterator[Agent]:
    with Agent(a_home(tmp_path / "work", window=60_000), wire, compacts=True) as agent:
        yield agent


def a_home(folder: Path, window: int = 0) -> Path:
    (folder / "home").mkdir(parents=True)
    settings = f"[compact]\nwindow = {window}\n{NO_OTHER_LAYER}"
    (folder / "home" / "settings.toml").write_text(settings)
    return folder


def reading(rounds: int, lines: int = 40, width: int = 270) -> list[Json]:
    """A client that reads file after file."""
    messages: list[Json] = [{"role": "user", "content": [{"type": "text", "text": ASKED}]}]
    for n in range(rounds):
        given = {"file_path": f"/src/part_{n}.py"}
        call = {"type": "tool_use", "id": f"call{n}", "name": "Read", "input": given}
        words = "\n".join(f"part {n} line {at} holds ".ljust(width, "x") for at in range(lines))
        result = {"type": "tool_result", "tool_use_id": f"call{n}", "content": words}
        messages.append({"role": "assistant", "content": [call]})
        messages.append({"role": "user", "content": [result]})
    return messages


def run(agent: Agent, *, restarts: bool = False, **given: Any) -> list[bytes]:
    """What came to the provider of a conversation, request by request."""
    sent: list[bytes] = []
    whole = reading(ROUNDS)
    for end in range(1, len(whole) + 1, 2):
        agent.ask(whole[:end], model=MODEL, **given)
        sent.append(agent.wire.received[-1].raw)
        if restarts:
            agent.restart()
    return sent


def said(raw: bytes) -> list[Json]:
    return json.loads(raw)["messages"]


def is_summary(message: Json) -> bool:
    return message["role"] == "user" and str(message["content"]).startswith("<summary>")


@pytest.mark.parametrize("tools", ["files", "only ours"])
def test_beyond_the_window_a_summary_goes_before_the_client_s_own_last_messages(
    agent: Agent, tools: str
) -> None:
    given = {"tools": [OURS]} if tools == "only ours" else {}
    sent = run(agent, **given)
    folded = [is_summary(said(raw)[0]) for raw in sent]
    assert folded == sorted(folded), "once there is one, it stays"
    assert (folded[0], folded[-1]) == (False, True)
    whole = reading(ROUNDS)
    summary, *rest = said(sent[-1])
    made = json.dumps(summary, separators=(",", ":"), ensure_ascii=False).encode()
    head, found, tail = sent[-1].partition(made)
    assert found
    body = json.dumps(asking(whole, model=MODEL, **given), indent=1).encode()
    assert body.startswith(head), "everything around it is what the client wrote"
    assert body.endswith(tail)
    gone = [message["content"][0]["content"] for message in whole[2 : len(whole) - len(rest) : 2]]
    assert len(gone) > 3
    (ledger,) = agent.ledgers()
    held = ledger.read_text("utf-8")
    assert all(json.dumps(one) in held for one in gone), "the record is whole"
    _leads_back(agent, summary["content"], gone)
    (told,) = agent.told
    assert "Lamina replaced the oldest messages with a summary" in told


def _leads_back(agent: Agent, summary: str, gone: list[str]) -> None:
    """By the file or the id that the summary names for all that it stands for."""
    found = re.search(r"All of them are in (\S+),|\[#(\w+)\] shows everything", summary)
    assert found
    calls = Calls(str(agent.folder), str(agent.folder / "home"))
    back, start = "", 0
    while start >= 0:
        shown, failed = calls.call("expand", {"id": found[1] or found[2], "from": start})
        assert not failed
        part, _, more = shown.partition("\n[Cut here: go on from ")
        back, start = back + part, int(more.partition(",")[0] or -1)
    calls.close()
    assert all(one in back for one in gone)


def test_the_same_bytes_go_out_after_a_restart(agent: Agent) -> None:
    sent = [said(raw) for raw in run(agent, restarts=True)]
    folded = [messages for messages in sent if is_summary(messages[0])]
    assert len(folded) == 6
    for one, later in pairwise(folded):
        assert one[:-1] == later[: len(one) - 1], "but for the mark on the last"


def test_what_is_counted_is_what_is_sent(agent: Agent) -> None:
    last = said(run(agent)[-1])
    counted = asking(reading(ROUNDS + 1), model=MODEL)
    agent.post(json.dumps(counted).encode(), "/v1/messages/count_tokens")
    seen = agent.wire.received[-1].body["messages"]
    assert seen[: len(last) - 1] == last[:-1]
    short = asking(reading(2), model=MODEL)
    agent.post(json.dumps(short).encode(), "/v1/messages/count_tokens")
    assert agent.wire.received[-1].body == short, "it is shorter than what the summary stands for"


@pytest.mark.parametrize("betas", ["", f"other-2025-01-01, {LONG_BETA}"])
def test_a_larger_window_that_the_client_asks_for_by_a_beta_header_counts(
    tmp_path: Path, wire: WireServer, betas: str
) -> None:
    with Agent(a_home(tmp_path / "work"), wire, compacts=True) as agent:
        agent.headers |= {"anthropic-beta": betas} if betas else {}
        whole = reading(20, lines=90, width=500)
        agent.ask(whole[:-2], model="claude-sonnet-4-5")
        sent = agent.ask(whole, model="claude-sonnet-4-5")["messages"]
    assert is_summary(sent[0]) == (not betas)


def test_it_needs_act(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", "--compact", "--home", str(tmp_path), "--port", "0"]) == 2
    assert "--compact changes what is sent, so it needs --act." in capsys.readouterr().err


def test_what_it_claims_is_what_a_direct_run_costs_while_the_window_holds_it(
    tmp_path: Path, wire: WireServer
) -> None:
    direct, refused, billed = 0.0, 0, 0.0
    with Agent(a_home(tmp_path / "work"), wire, compacts=True) as agent:
        bare, price = PromptCache(now=agent.now), price_of(MODEL)

        def bill(body: Json) -> Answer:
            nonlocal billed
            if len(json.dumps(body)) / 4 > WINDOW:
                return fails(400, "invalid_request_error", "prompt is too long")
            answer = agent.serve(body)
            billed += cost(anthropic_usage(answer.usage) or Usage(), price)
            return answer

        wire.rule = bill
        whole = reading(32, lines=90, width=350)
        for end in range(1, len(whole) + 1, 2):
            before = billed
            body = asking(whole[:end], model=MODEL)
            bare.now = agent.now
            used = anthropic_usage(bare.serve({**body, "system": []})[0]) or Usage()
            agent.ask(whole[:end], model=MODEL)
            possible = used.prompt <= WINDOW
            refused += not possible
            direct += cost(used, price) if possible else billed - before
    rows = list(Spend(agent.folder / "home" / "spend").calls())
    assert refused > 3
    assert sum(row["cost"] for row in rows) == pytest.approx(billed, rel=0.001)
    assert sum(row["direct"] for row in rows) == pytest.approx(direct, rel=0.05)
