"""Recorded messages as ledger entries."""

from __future__ import annotations

import pytest

from lamina.conversation.entries import entries_of
from lamina.ledger.record import Ledger
from lamina.messages import Message


def record(ledger: Ledger, run: list[Message]) -> None:
    ledger.append(*(entry for entry, _ in entries_of(run, ledger)))


@pytest.mark.spec("I4")
def test_an_id_that_a_recorder_uses_twice_keeps_both_calls_and_their_results() -> None:
    ledger = Ledger.of()
    asked: Message = {"role": "user", "content": [{"type": "text", "text": "go"}]}
    record(ledger, [asked])
    for n in range(3):
        call = {"type": "tool_use", "id": "x", "name": "bash", "input": {"command": f"run {n}"}}
        record(ledger, [{"role": "assistant", "content": [call]}])
        result = {"type": "tool_result", "tool_use_id": "x", "content": f"out {n}"}
        record(ledger, [{"role": "user", "content": [result]}])
    blocks = [b for m in ledger.view().messages for b in m["content"]]
    assert [b["input"]["command"] for b in blocks if b["type"] == "tool_use"] == [
        "run 0", "run 1", "run 2",
    ]  # fmt: skip
    assert [b["content"] for b in blocks if b["type"] == "tool_result"] == [
        "out 0",
        "out 1",
        "out 2",
    ]
    assert {e.get("tool") for e in ledger.entries if e.get("tool")} == {"bash"}


@pytest.mark.spec("I4", "F5")
def test_calls_of_one_answer_that_share_an_id_each_get_a_result() -> None:
    ledger = Ledger.of()
    asked: Message = {"role": "user", "content": [{"type": "text", "text": "go"}]}
    record(ledger, [asked])
    call = {"type": "tool_use", "id": "x", "name": "bash", "input": {}}
    record(ledger, [{"role": "assistant", "content": [call, call, call]}])
    result = {"type": "tool_result", "tool_use_id": "x", "content": "out"}
    more = {"type": "text", "text": "and on"}
    record(ledger, [{"role": "user", "content": [result, result, more]}])
    blocks = [b for m in ledger.view().messages for b in m["content"]]
    told = [(b["tool_use_id"], b["content"]) for b in blocks if b["type"] == "tool_result"]
    assert told == [("x", "out"), ("x~2", "out"), ("x~3", "(no result was recorded)")]
