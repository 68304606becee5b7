"""The gateway looks on (I7): every request goes out as it is, is recorded once, and its money booked."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import brotli
import pytest
import zstandard
from tests.gateway.running import Agent, asking, work
from tests.wire.server import Answer, WireServer, fails

from lamina.cache.spend import Spend
from lamina.cache.usage import Tee
from lamina.cli.main import main
from lamina.conversation.bodies import form_of
from lamina.messages import Usage
from lamina.replay.readers import read_recording

pytestmark = pytest.mark.spec("I7")


@pytest.fixture
def agent(tmp_path: Path, wire: WireServer) -> Iterator[Agent]:
    with Agent(tmp_path / "work", wire, acts=False) as agent:
        yield agent


def booked(agent: Agent) -> list[dict[str, Any]]:
    agent.restart()  # what is done beside the answers is done
    return list(Spend(agent.folder / "home" / "spend").calls())


def test_a_session_goes_through_byte_for_byte_and_is_recorded_once(agent: Agent) -> None:
    messages = work(8)
    for rounds in range(8, 12):
        body = json.dumps(asking(messages), indent=3, ensure_ascii=False).encode()
        assert agent.post(body)[0] == 200
        assert agent.wire.received[-1].raw == body
        agent.now += 4_000 if rounds == 9 else 10
        messages += work(1, start=rounds)
    assert [row["purpose"] for row in booked(agent)] == ["main"] * 4
    (ledger,) = agent.ledgers()
    text = ledger.read_text("utf-8")
    assert text.count("3.199 is 597") == 1
    assert agent.told == []
    recording = read_recording(ledger)
    assert len(recording.requests) == 11, "an answer is known when the next request holds it"


def test_sessions_replay_and_extract_read_what_was_recorded(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "Please remember that the staging database is PostgreSQL 16."
    messages = [{"role": "user", "content": [{"type": "text", "text": said}]}, *work(3, start=1)]
    for end in (3, 5, 7):
        agent.ask(messages[:end])
    (ledger,) = agent.ledgers()
    agent.restart()
    where = ["--home", str(agent.folder / "home"), "--project", str(agent.folder)]
    assert main(["sessions", "list", "--json", *where]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["id"], row["title"]) == (ledger.stem, said)
    assert main(["replay", str(ledger), "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["policies"]["none"]["cost"] > 0
    assert main(["extract", ledger.stem, *where]) == 0
    assert "Memory updated" in capsys.readouterr().out


def test_titles_sub_agents_branches_and_compacted_histories_are_kept_apart(agent: Agent) -> None:
    messages = work(4)
    agent.ask(messages)
    title = [{"type": "text", "text": "A title for this?"}]
    agent.ask([{"role": "user", "content": title}], tools=[])
    assert len(agent.ledgers()) == 1, "a title has no conversation"
    agent.ask(work(2, topic="of another agent "))
    assert len(agent.ledgers()) == 2
    agent.ask([*messages[:5], *work(1, start=30)])  # went back
    assert len(agent.ledgers()) == 3
    summary = [{"role": "user", "content": [{"type": "text", "text": "This is a summary."}]}]
    agent.ask([*summary, *work(1, start=40)])
    assert len(agent.ledgers()) == 4
    agent.ask([*messages, *work(1, start=4)])
    assert len(agent.ledgers()) == 4, "the first goes on"
    assert [row["purpose"] for row in booked(agent)].count("side") == 1


def test_what_a_sub_agent_is_told_is_not_taken_for_the_users_words(agent: Agent) -> None:
    def ask(messages: list[dict[str, Any]], system: str) -> list[str]:
        """Whose words the conversations hold, one each."""
        billing = {"type": "text", "text": f"x-anthropic-billing-header: v={len(messages)};"}
        agent.ask(messages, system=[billing, {"type": "text", "text": system}])
        files = [map(json.loads, file.read_bytes().splitlines()) for file in agent.ledgers()]
        origins = [{o for entry in file for o in entry.get("origins") or ()} for file in files]
        return sorted(",".join(sorted(some & {"typed", "agent"})) for some in origins)

    said = {"role": "user", "content": [{"type": "text", "text": "And tell me why."}]}
    own, helpers = work(2), work(1, topic="of a helper ")
    agent.headers["X-Claude-Code-Session-Id"] = "s-1"
    ask(own, "You are a coding agent.")
    assert ask([*own, *work(1, start=7)], "You are a coding agent.") == ["typed"]
    assert ask(helpers, "You search.") == ["agent", "typed"]
    agent.restart()  # whose it is stays known, though its session is seen for the first time
    assert ask([*helpers, *work(1, start=9), said], "You search.") == ["agent", "typed"]
    assert ask([*own, *work(2, start=7), said], "You are another.") == ["agent", "typed"]
    agent.headers["X-Claude-Code-Session-Id"] = "s-2"
    assert ask(work(1, topic="of today "), "You search.") == ["agent", "typed", "typed"]


def test_no_key_and_no_header_is_in_any_file(agent: Agent) -> None:
    agent.headers |= {"authorization": "Bearer oauth-secret", "cookie": "c-secret"}
    agent.ask(work(2))
    agent.post(b"{}", path="/v1/models?key=q-secret")
    nameless = {name: value for name, value in asking(work(1)).items() if name != "model"}
    agent.post(json.dumps(nameless).encode(), path="/v1/messages?key=/models/q-secret")
    agent.restart()
    files = [Path(at, name) for at, _, names in os.walk(agent.folder) for name in names]
    assert files
    assert [file for file in files if b"secret" in file.read_bytes()] == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"messages": 7}',
        b'{"messages": [7]}',
        b'{"messages": [{"role": "user", "content": [7]}], "tools": [1]}',
        b'{"messages": [{"role": "user", "content": "\\ud800"}], "tools": [{}]}',
        b'{"messages": []}',
        "\ufeff{}".encode(),
        b"[" * 100_000,
    ],
)
def test_what_is_no_request_goes_through_as_it_is(agent: Agent, body: bytes) -> None:
    agent.wire.rule = None
    raw: list[bytes] = []
    agent.wire.answer_to = lambda received: raw.append(received.raw) or fails(400)  # type: ignore[method-assign]
    assert agent.post(body)[0] == 400
    assert raw == [body]


def test_a_full_disk_is_told_once_and_stops_nothing(agent: Agent) -> None:
    agent.ask(work(1))
    agent.restart()  # what is done beside the answer would make the folder anew
    folder = agent.ledgers()[0].parent
    folder.rename(folder.with_name("moved"))
    folder.write_text("no folder")
    messages = work(3, topic="other ")
    for end in (3, 5, 7):
        assert agent.ask(messages[:end])["messages"][:-1] == messages[:end][:-1]
    agent.restart()
    assert agent.told
    assert len(set(agent.told)) == len(agent.told)


def test_a_broken_answer_is_booked_as_far_as_it_came(agent: Agent) -> None:
    usage = {"input_tokens": 700, "output_tokens": 1}
    agent.wire.rule = lambda _: Answer(usage=usage, fault="drop", after=2)
    with pytest.raises(Exception, match=r"incomplete|IncompleteRead"):
        agent.post(json.dumps(asking(work(1))).encode())
    assert [row["input"] for row in booked(agent)] == [700]


# ---- what an answer used

_SSE = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":7,'
    b'"cache_read_input_tokens":90,"output_tokens":1}}}\n\n'
    b'event: content_block_delta\ndata: {"delta":{"text":"\\"usage\\": {}"}}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":40}}\n\n'
)
_CHAT = b'data: {"usage":null}\r\n\r\ndata: {"usage":{"prompt_tokens":97,"completion_tokens":40,"prompt_tokens_details":{"cached_tokens":90}}}\r\n\r\ndata: [DONE]\r\n\r\n'  # fmt: skip
_WHOLE = b'{"usage":{"input_tokens":7,"cache_read_input_tokens":90,"output_tokens":40}}'
_RESPONSES = b'data: {"type":"response.completed","response":{"usage":{"input_tokens":97,"input_tokens_details":{"cached_tokens":90},"output_tokens":40}}}'  # fmt: skip
_GEMINI = b'data: {"usageMetadata":{"promptTokenCount":97}}\n\ndata: {"usageMetadata":{"promptTokenCount":97,"cachedContentTokenCount":90,"candidatesTokenCount":30,"thoughtsTokenCount":10}}\n\n'  # fmt: skip
PACKED = {
    "": bytes,
    "gzip": gzip.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize(
    ("path", "kind", "answer"),
    [
        ("/messages", "text/event-stream; charset=utf-8", _SSE),
        ("/messages", "application/json", _WHOLE),
        ("/chat/completions", "text/event-stream", _CHAT),
        ("/responses", "text/event-stream", _RESPONSES),
        (":generateContent", "text/event-stream", _GEMINI),
    ],
)
def test_usage_is_read_from_every_form_however_it_comes(
    path: str, kind: str, answer: bytes, size: int, encoding: str
) -> None:
    packed = PACKED[encoding](answer)
    tee, form = Tee(kind, encoding), form_of(path)
    for at in range(0, len(packed), size):
        tee.take(packed[at : at + size])
    assert form is not None
    assert form.usage(tee.end()) == Usage(7, 40, 90)


@pytest.mark.parametrize("encoding", ["", "gzip", "br", "zstd", "unheard-of"])
def test_nonsense_tells_nothing_and_breaks_nothing(encoding: str) -> None:
    tee = Tee("text/event-stream", encoding)
    for piece in (b"\xff\x00", b"data: {usage\n", b'data: "usage"\n', b"data: usage", b"\n"):
        tee.take(piece)
    assert list(tee.end()) == []


def test_what_a_killed_observer_left_goes_with_the_next_start(
    tmp_path: Path, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, held, young, others = (tmp_path / f"lamina-observes-{n}" for n in "abcd")
    for folder in (left, held, young):
        (folder / "c").mkdir(parents=True)
    others.symlink_to(tmp_path / "elsewhere")
    for folder in (left, held):
        os.utime(folder, (1_000_000, 1_000_000))
    fd = os.open(held, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)  # its process is alive
    try:
        with Agent(tmp_path / "work", wire, acts=False) as agent:
            agent.ask(work(1))
            (own,) = set(tmp_path.glob("lamina-observes-*")) - {left, held, young, others}
            assert list(own.rglob("*.jsonl"))
    finally:
        os.close(fd)
    assert [one.exists() for one in (left, held, young, own)] == [False, True, True, False]
    assert others.is_symlink()


def test_a_sub_agent_is_known_by_the_call_for_it_and_stands_below_its_parent(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(words: str) -> dict[str, Any]:
        reminder = {"type": "text", "text": "<system-reminder>Today.</system-reminder>"}
        return {"role": "user", "content": [reminder, {"type": "text", "text": words}]}

    wish = "Find out who lands at noon."
    given = {"n": 1, "prompt": wish, "description": "Who else?"}
    call = {"type": "tool_use", "id": "t1", "name": "Task", "input": given}
    found = {"type": "tool_result", "tool_use_id": "t1", "content": "The pelican."}
    agent.ask([said("Who is it?")])
    agent.ask([said("Who else?")])  # somebody types what is a task's title elsewhere
    agent.ask([said(wish)])  # its parent tells of the call when it has the answer
    agent.ask([said(wish), *work(2)[1:]])
    parent = [said("Who is it?"), {"role": "assistant", "content": [call]}]
    agent.ask([*parent, {"role": "user", "content": [found]}])
    agent.restart()
    where = ["--home", str(agent.folder / "home"), "--project", str(agent.folder)]
    main(["sessions", "list", "--json", *where])
    rows = json.loads(capsys.readouterr().out)
    assert [row["title"] for row in rows] == ["Who is it?", wish, "Who else?"]
    assert [row["parent"] for row in rows] == ["", rows[0]["id"], ""]
    main(["sessions", "list", *where])
    assert f"└ {wish}" in capsys.readouterr().out
