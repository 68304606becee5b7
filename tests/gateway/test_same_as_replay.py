"""The gateway decides as `lamina replay` does (I7): a recording sent through the real server, request by
request and at its own times, comes out with the very edits that the policy of a replay makes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.running import READ, Agent, work
from tests.wire.server import Answer, WireServer

from lamina.config import load
from lamina.conversation.entries import NO_OUTPUT
from lamina.conversation.kept import _WAITING, _ForeignTools, _without
from lamina.conversation.thread import Conversation
from lamina.messages import Message
from lamina.replay.lamina_policy import LaminaPolicy, lamina_policy
from lamina.replay.readers import read_recording
from lamina.replay.recording import Recording
from lamina.replay.run import RecordedTurn
from lamina.replay.weigh import Weigher
from lamina.tools.registry import builtin_tools

pytestmark = pytest.mark.spec("I7")
_ASIDE = (*_WAITING, "notes", "extraction", "recall", "keep_warm")  # a gateway asks no model
_FILE = re.compile(r"/\S*/tool-results/[^\s\]]+")  # its name is the entry's own


@dataclass
class Request:
    """One of a recording: what is asked, when it was answered, and what a replay sends instead."""

    messages: Sequence[Message]
    time: float
    answered: float
    usage: tuple[int, int]
    edits: dict[str, str]


def edits(original: Sequence[Message], sent: Sequence[Message]) -> dict[str, str]:
    """By call, the results that are other words than they were."""
    before, after = _results(original), _results(sent)
    return {
        call: words
        for call, words in after.items()
        if words != before.get(call) and json.loads(words) != NO_OUTPUT
    }


def _results(messages: Sequence[Message]) -> dict[str, str]:
    blocks = [b for m in messages for b in m["content"] if b.get("type") == "tool_result"]
    return {b["tool_use_id"]: _FILE.sub("FILE", json.dumps(b.get("content"))) for b in blocks}


def put_through(
    recording: Recording, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Request]:
    """What the policy of a replay makes of a recording, in a gateway's surroundings: no model for side
    tasks, no Expand, tools of another program."""
    made = LaminaPolicy.new_conversation

    def new(self: LaminaPolicy, place: Path, model: str) -> Conversation:
        talk = made(self, place, model)
        state = talk.state
        state.expands = False
        toolbox = _ForeignTools(builtin_tools())
        state.deps = replace(
            state.deps, toolbox=toolbox, flags=_without(state.flags, _ASIDE), small=None
        )
        return talk

    monkeypatch.setattr(LaminaPolicy, "new_conversation", new)
    weigher = Weigher(recording)
    steps, found = list(recording.steps()), list[Request]()
    with lamina_policy(weigher, load(folder, home=folder / "home", env={})) as policy:
        policy._flags = _without(policy._flags, _ASIDE)
        for step, later in zip(steps, [*steps[1:], None], strict=True):
            new_ones = [recording.messages[at].message for at in step.new]
            turn = RecordedTurn(step.number, step.request, step.keep, new_ones, False, 0)
            whole = recording.context(step.request)
            sent = policy.send(turn)
            answer = []
            for at in later.new if later is not None else ():
                if recording.messages[at].message["role"] != "assistant":
                    break
                answer.append(recording.messages[at])
            when = max([one.time for one in answer] or [0.0])
            if later is not None:
                when = min(later.request.time, when)
            output = sum(weigher.tokens(one.message) for one in answer)
            thread: Any = policy._threads[step.request.thread]
            usage = (thread._sent, output)
            changed = edits(whole, sent.messages)
            found.append(Request(whole, step.request.time, when, usage, changed))
    return found


def compared(requests: Sequence[Request], agent: Agent) -> int:
    """Send them all; returns how many results a replay changed in the end."""
    for number, one in enumerate(requests):
        agent.now = one.time

        def serve(_: Any, one: Request = one) -> Answer:
            agent.now = max(agent.now, one.answered)
            return Answer(usage={"input_tokens": one.usage[0], "output_tokens": one.usage[1]})

        agent.wire.rule = serve
        body = {"model": "claude-sonnet-4-6", "tools": [READ], "messages": list(one.messages)}
        assert agent.post(json.dumps(body).encode())[0] == 200
        sent = agent.wire.received[-1].body["messages"]
        assert edits(one.messages, sent) == one.edits, f"request {number} of {len(requests)}"
        if number % 10 == 9:
            agent.restart()
    return len(requests[-1].edits)


def test_a_session_with_pauses_comes_out_as_in_a_replay(
    tmp_path: Path, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Agent(tmp_path / "first", wire, acts=False) as recorder:
        messages = work(1)
        for start in range(1, 25):
            recorder.ask(messages, seconds=4_000 if start in (9, 18) else 20)
            messages += work(1, start=start)
            if start % 5 == 0:  # what was said before, said again
                messages[-1]["content"][0]["content"] = messages[2]["content"][0]["content"]
        (ledger,) = recorder.ledgers()
    requests = put_through(read_recording(ledger), tmp_path, monkeypatch)
    with Agent(tmp_path / "second", wire) as agent:
        assert compared(requests, agent) > 10
        assert agent.told == []


def test_recorded_sessions_come_out_as_in_a_replay(
    tmp_path: Path, wire: WireServer, monkeypatch: pytest.MonkeyPatch, shared_data: Path
) -> None:
    files = sorted((shared_data / "claude-code-sessions-2").glob("*.jsonl"), key=_size)
    tried = changed = 0
    for file in files:
        recording = read_recording(file)
        if not 15 < len(recording.requests) < 60 or not _only_grows(recording):
            continue
        requests = put_through(recording, tmp_path, monkeypatch)
        monkeypatch.undo()
        with Agent(tmp_path / file.stem, wire) as agent:
            changed += compared(requests, agent)
        tried += 1
        if tried == 2:
            break
    assert tried == 2
    assert changed


def _size(file: Path) -> int:
    return file.stat().st_size


def _only_grows(recording: Recording) -> bool:
    held = 0
    for step in recording.steps():
        if step.keep != held or step.request.thread != recording.requests[0].thread:
            return False
        held = step.keep + len(step.new)
    return True
