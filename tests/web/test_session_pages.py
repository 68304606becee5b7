"""Sessions, agents and money on the page."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lamina.agents.mailboxes import Maildirs
from lamina.agents.roster import LINE, Card, is_watched, ledger_path
from lamina.ledger import edits
from lamina.ledger.places import project_folder, slug
from lamina.ledger.record import Ledger
from lamina.messages import Usage
from lamina.ports import Presence

if TYPE_CHECKING:
    from tests.web.conftest import Page

pytestmark = pytest.mark.spec("I5")
LONG = "line of a long result\n" * 400


@pytest.fixture
def session(world: Path) -> Path:
    """A session in which layer 1 moved a result away and a compaction folded the beginning."""
    folder = project_folder(world / "home", world / "project")
    path = folder / "11111111-aaaa-4bbb-8ccc-222222222222.jsonl"
    ledger = Ledger.open(path)
    text = {"type": "text", "text": "Why does <b>the test</b> fail?"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "make"}}
    ledger.append(edits.frame([], [], "anthropic:claude-sonnet-4-6", {}))
    (asked,) = ledger.append(edits.message("user", [text], ["typed"]))
    ledger.append(edits.request(ledger.head, "h", "main", 1, 1_000))
    ledger.append(edits.answer([call], Usage(0, 20, 0, 1_000)))
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": LONG}
    (said,) = ledger.append(edits.message("user", [result], ["tool"]))
    short = {**result, "content": "It is on disk."}
    ledger.append(edits.replace([(said["uuid"], 0, short)], "tool_results"))
    ledger.append(edits.request(ledger.head, "h2", "main", 3, 1_100))
    ledger.append(edits.answer([{"type": "text", "text": "A comma."}], Usage(0, 9, 1_000, 100)))
    broke = {"kind": "cache_broke", "cause": "the tools changed", "expected": 1_000, "read": 0}
    ledger.append(edits.event({**broke, "registered": False}))
    summary = [{"role": "user", "content": "A summary."}]
    ledger.append(edits.fold(asked["uuid"], said["uuid"], summary, "compaction"))
    ledger.append(edits.request(ledger.head, "h3", "main", 2, 90))
    ledger.append(edits.answer([{"type": "text", "text": "Done."}], Usage(90, 3)))
    ledger.close()
    return path


def test_no_session_and_no_spending_say_what_to_do(page: Page) -> None:
    assert "lamina chat" in page.get("sessions").words
    assert "Nothing was spent yet" in page.get("money").words


def test_a_session_is_shown_request_by_request(page: Page, session: Path) -> None:
    assert "Why does <b>the test</b> fail?" in page.get("sessions").words
    got = page.get(f"s/{session.stem}")
    assert "<b>the test" not in got.text
    assert "tool results took out" in got.words
    assert "the result was large, so it went to disk" in got.words
    assert "compaction took out" in got.words
    assert "The cache broke : the tools changed" in got.words.replace("broke:", "broke :")
    assert "1,000 read from the cache, 100 written, 0 neither" in got.text
    assert got.text.index('id="r3"') < got.text.index('id="r1"'), "newest first"


def test_what_a_layer_took_out_is_shown_as_it_was(page: Page, session: Path) -> None:
    got = page.get(f"s/{session.stem}")
    edits_ = [part.split('"')[0] for part in got.text.split(f"/s/{session.stem}/entry/")[1:]]
    shown = [page.get(f"s/{session.stem}/entry/{one}", X_Fragment="1") for one in {*edits_}]
    assert len(shown) == 2
    assert all("line of a long result" in one.text for one in shown)
    assert all("<html" not in one.text for one in shown)


def test_the_view_of_each_request_is_what_was_sent_then(page: Page, session: Path) -> None:
    first = page.get(f"s/{session.stem}/view/1").words
    assert "Why does <b>the test</b> fail?" in first
    assert "It is on disk." not in first
    second = page.get(f"s/{session.stem}/view/2").words
    assert "It is on disk." in second
    assert "line of a long result" not in second
    third = page.get(f"s/{session.stem}/view/3")
    assert "A summary." in third.words
    entry = third.text.split(f"/s/{session.stem}/entry/")[1].split('"')[0]
    folded = page.get(f"s/{session.stem}/entry/{entry}").words
    assert "Why does <b>the test</b> fail?" in folded
    assert "line of a long result" in folded, "all that the summary stands for"
    assert page.get(f"s/{session.stem}/view/9").status == 404
    assert page.get("s/nothing").status == 404
    assert page.get("s/..%2f..%2fx").status == 404


def test_agents_are_a_tree_and_each_is_a_session(page: Page, session: Path) -> None:
    for card in (
        Card("aa11", "anna", "explore", "look", number=1, status="done", tokens=1_234),
        Card(
            "bb22", "<i>bob</i>", "explore", "look deeper", parent="aa11", number=2, status="done"
        ),
    ):
        path = ledger_path(session.with_suffix(""), card.id)
        path.parent.mkdir(parents=True, exist_ok=True)
        ledger = Ledger.open(path)
        ledger.append(edits.state("agent", card.to_json()))
        ledger.append(edits.message("user", [{"type": "text", "text": "Look."}], ["typed"]))
        ledger.append(edits.answer([{"type": "text", "text": "Found it."}], Usage(5, 5)))
        ledger.close()
    got = page.get(f"s/{session.stem}")
    below = got.text.split(">anna<")[1].split("</ul>")[0]
    assert "&lt;i&gt;bob" in below, "in the list below the agent that started it"
    alone = page.get(f"s/{session.stem}/agent/bb22").words
    assert "Found it." in alone
    assert "Agent <i>bob</i>" in alone
    assert "explore: look deeper" in alone
    assert page.get(f"s/{session.stem}/agent/nobody").status == 404


def test_an_agent_that_runs_in_another_process_is_shown_as_running_while_it_does(
    page: Page, session: Path
) -> None:
    card = Card("aa11", "anna", "researcher", "look at it", started=1.0)
    path = ledger_path(session.with_suffix(""), "aa11")
    path.parent.mkdir(parents=True)
    with closing(Ledger.open(path)) as ledger:
        ledger.append(edits.state("agent", card.to_json()))
        call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "make"}}
        ledger.append(edits.answer([call], Usage(0, 20, 0, 1_000)))
    mail = Maildirs(session.parent / "mail")
    there = Presence("session-1", session=session.stem, status="busy", line="reads <b>it</b>")
    reader = mail.read(there, lambda _: None)
    try:
        listed = page.get("sessions").words
        assert "Running now" in listed
        assert "reads <b>it</b>" in listed
        assert not is_watched(session.with_suffix(""))
        assert "anna running researcher" in page.get(f"s/{session.stem}").words
        assert is_watched(session.with_suffix("")), "so its agents sum up what they do"
        with closing(Ledger.open(path)) as ledger:
            ledger.append(edits.state(LINE, "Building the whole project"))
        assert "Building the whole project" in page.get(f"s/{session.stem}").words
    finally:
        reader.close()
    assert "Running now" not in page.get("sessions").words
    assert "anna running researcher" not in page.get(f"s/{session.stem}").words


def test_sessions_of_other_agents_are_listed_and_shown(
    page: Page, world: Path, shared_data: Path
) -> None:
    recorded = min(
        (shared_data / "claude-code-sessions-2").glob("*.jsonl"), key=lambda f: f.stat().st_size
    )
    folder = world / ".claude" / "projects" / slug(str((world / "project").resolve()))
    folder.mkdir(parents=True)
    shutil.copy(recorded, folder)
    listed = page.get("sessions")
    assert "claude-code" in listed.words
    assert page.get(f"s/{recorded.stem}").status == 200


def test_money_is_shown_by_day_model_layer_and_project(
    page: Page, session: Path, lamina: Any, world: Path
) -> None:
    folder = world / "home" / "spend"
    folder.mkdir(parents=True)
    line = {
        "ts": "2026-11-02T10:00:00.000Z",
        "model": "anthropic:claude-sonnet-4-6",
        "input": 1_000,
    }
    calls = [
        {**line, "purpose": "main", "session": session.stem, "cost": 0.5},
        {**line, "purpose": "dream", "session": "gone", "cost": 0.25},
    ]
    (folder / "2026-11.jsonl").write_text("".join(json.dumps(call) + "\n" for call in calls))
    words = page.get("money").words
    for said in ("$0.75", "$0.25", "2026-11-02", "claude-sonnet-4-6", "dream", "elsewhere"):
        assert said in words, said
    assert "33% of the whole" in words
    assert "The cache broke 1 time: the tools changed" in words
    by_project = json.loads(lamina("spend", "--by", "project", "--json"))["groups"]
    assert [one["name"] for one in by_project] == ["project", "elsewhere"]
    health = json.loads(lamina("spend", "--health", "--json"))
    assert health["misses"] == {"the tools changed": 1}
    assert "cache breaks without a known cause" in lamina("spend", "--health")


def test_the_command_line_lists_the_same_requests(lamina: Any, session: Path) -> None:
    calls = json.loads(lamina("context", "--requests", "--json"))
    assert [one["number"] for one in calls] == [1, 2, 3]
    assert calls[1]["edits"][0]["layer"] == "tool_results"
    assert calls[1]["edits"][0]["tokens"] > 1_000
    assert calls[1]["breaks"][0]["cause"] == "the tools changed"
    assert "tool_results" in lamina("context", "--requests")
