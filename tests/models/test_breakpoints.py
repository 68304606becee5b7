"""Where the prompt cache is marked: the adapter and the simulated cache by one rule, for any ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.ledger.strategies import play, steps

from lamina.cache.simulate import PaperCache, Prompt
from lamina.ledger import edits, joining
from lamina.ledger.record import Ledger
from lamina.messages import Json, Request, Usage, text, tool_result, tool_use
from lamina.models.anthropic import with_breakpoints
from lamina.replay.recording import Recording
from lamina.replay.run import SentPrompt
from lamina.replay.weigh import Weigher

FRAME = [("system", 2_000)]
READ = {"name": "Read", "description": "", "input_schema": {"type": "object"}}


class Marked(PaperCache):
    """A simulated cache that remembers where the last request was marked."""

    marks: tuple[tuple[int, float], ...] = ()

    def send(self, prompt: Prompt, at: float, breakpoints: Any, **more: Any) -> Usage:
        self.marks = tuple(breakpoints)
        return super().send(prompt, at, breakpoints, **more)


def marks_of(request: Request) -> list[tuple[int, str]]:
    """After how many blocks of the messages, of which the frame is none, the adapter marks a request,
    and for how long."""
    tools, system, messages = with_breakpoints(request)
    flat = [block for message in messages for block in message["content"]]
    framed = [(0, block) for block in (*tools, *system)]
    marked = [*framed, *enumerate(flat, 1)]
    return [(at, b["cache_control"]["ttl"]) for at, b in marked if "cache_control" in b]


def marked_blocks(request: Request) -> list[int]:
    return [at for at, _ in marks_of(request) if at]


def all_marks(request: Request) -> int:
    return len(marks_of(request))


def send(ledger: Ledger) -> Request:
    request = ledger.view()
    blocks, hash_ = ledger.fingerprint()
    ledger.append(edits.request(ledger.head, hash_, "main", blocks, ledger.tokens()))
    return request


@pytest.mark.spec("F4", "I4")
@examples(300)
@given(steps(), st.sampled_from([0, 3_600]))
def test_adapter_and_simulator_mark_alike_for_any_ledger(script: list[Any], life: int) -> None:
    ledger = Ledger.of()
    ledger.append(edits.state(joining.FRAME_LIFE, {"life": life, "tokens": 0}))
    ledger.append(edits.frame([text("system")], [READ], "m", {}))
    cache, prompt = Marked(), SentPrompt(Weigher(Recording("", "", (), ())))
    for _ in play(ledger, [step for step in script if step[0] != "request"]):
        if joining.sendable(ledger.view()):
            continue
        request = send(ledger)
        prompt.update(cache, FRAME, list(request.messages))
        prompt.frame_life = request.frame_ttl
        prompt.send(0.0, 300.0, 0)
        alike = [(at - len(FRAME), "5m" if life == 300 else "1h") for at, life in cache.marks]
        assert alike == sorted(set(marks_of(request)))
        assert all_marks(request) <= 4


def working(rounds: int, calls: int = 1) -> tuple[Ledger, list[str]]:
    """A session of so many tool rounds, each of them sent; and its results' entries."""
    ledger, results = Ledger.of(), []
    ledger.append(edits.frame([text("system")], [READ], "m", {}))
    ledger.append(edits.message("user", "work", "typed"))
    for number in range(rounds):
        send(ledger)
        names = [f"t{number}-{n}" for n in range(calls)]
        ledger.append(edits.answer([tool_use(name, "Read", {}) for name in names], Usage()))
        for name in names:
            ledger.append(edits.message("user", [tool_result(name, "words " * 50)], "tool"))
            results.append(str(ledger.head))
    return ledger, results


def clear(ledger: Ledger, entries: Sequence[str]) -> None:
    items: list[tuple[str, int, Json]] = []
    for name in entries:
        found = ledger.projection.entry(name)
        assert found is not None
        items.append((name, 0, {**found["content"][0], "content": "cleared"}))
    ledger.append(edits.replace(items, "test", changes_prefix=True))


@pytest.mark.spec("F4")
@pytest.mark.parametrize("calls", [1, 12], ids=["few blocks", "more blocks than are looked back"])
def test_an_edit_leaves_what_stands_before_it_in_the_cache(calls: int) -> None:
    """Before, a request after any edit of the prefix was marked at its end alone."""
    ledger, results = working(6, calls)
    send(ledger)
    clear(ledger, results[2 * calls : 4 * calls])
    request = send(ledger)
    unchanged = 1 + 2 * (2 * calls)  # the question and two rounds, which a request ended with
    changes_end = 1 + 4 * (2 * calls)
    total = 1 + 6 * (2 * calls)
    assert marked_blocks(request) == [unchanged, changes_end, total]
    assert all_marks(request) == 4


@pytest.mark.spec("F4")
def test_the_end_of_the_last_change_stays_marked_so_that_the_next_one_finds_it_cached() -> None:
    ledger, results = working(12)
    clear(ledger, results[:9])
    send(ledger)
    for number in range(30, 60):
        ledger.append(edits.answer([tool_use(f"t{number}", "Read", {})], Usage()))
        ledger.append(edits.message("user", [tool_result(f"t{number}", "more")], "tool"))
        request = send(ledger)
        assert marked_blocks(request) == [19, len(list(joining.flat(request.messages)))]
    clear(ledger, results[9:])
    assert marked_blocks(send(ledger))[0] == 19


@pytest.mark.spec("F4", "F1")
def test_a_resumed_session_marks_where_the_first_process_would_have() -> None:
    ledger, results = working(8)
    clear(ledger, results[:4])
    send(ledger)
    clear(ledger, results[4:6])
    again = Ledger.of(ledger.entries)
    assert marked_blocks(again.view()) == marked_blocks(ledger.view())
    assert marked_blocks(ledger.branch().view()) == marked_blocks(ledger.view())


@pytest.mark.spec("F4", "L7.1")
@pytest.mark.parametrize("system", [[text("system")], []], ids=["system", "tools alone"])
def test_forks_mark_where_what_they_share_ends(system: list[Json]) -> None:
    """Also after an edit, whose marks would be a fifth: a fork changes nothing later."""
    ledger, results = working(6)
    clear(ledger, results[2:4])
    request = replace(ledger.view("agent"), system=system, shared_blocks=12)
    assert marked_blocks(request) == [5, 12, 13]
    assert all_marks(request) == 4
    assert marked_blocks(replace(request, stable_blocks=9)) == [5, 12, 13]
