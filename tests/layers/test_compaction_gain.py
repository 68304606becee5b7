"""Autocompaction does not run again and again where little can be folded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.layers.talks import answers, boundaries, model, summary, talk
from tests.sessions import Place, run

from lamina.config import load
from lamina.conversation.thread import Conversation, UnaskedModel
from lamina.flags import read
from lamina.layers import compaction, notes
from lamina.ledger import edits
from lamina.messages import tool_result, tool_use
from lamina.models.scripted import ScriptedModel
from lamina.ports import Capabilities, NoBackground
from lamina.state import State

SMALL = Capabilities(window=40_000, max_output=4_000)  # autocompact at 23,000, blocking at 33,000


def _answer(tokens: int) -> dict[str, Any]:
    return {"text": "an answer", "usage": {"input": tokens, "output": 5}}


@pytest.mark.spec("L4.1")
@pytest.mark.parametrize(("tokens", "compacts"), [(24_000, False), (33_500, True)])
def test_a_fold_that_would_free_little_waits_until_the_window_is_full(
    tmp_path: Path, tokens: int, compacts: bool
) -> None:
    async def story() -> None:
        # Most of the prompt is outside the messages, so that folding them frees next to nothing.
        model = ScriptedModel(
            [_answer(100), _answer(tokens), _answer(100)],
            capabilities=SMALL,
            otherwise={"summary": "no", "notes": "no"},
        )
        config = {"notes.enabled": False, "memory.enabled": False}
        async with Place(tmp_path).open(model, config=config) as session:
            await session.ask("a question of some length " * 160)
            await session.ask("another question of some length " * 130)
            reply = await session.ask("go on")
            acted = [e for e in reply.events if e.kind == "layer_acted" and e.layer == "compaction"]
            assert bool(acted) is compacts

    run(story)


CACHED = Capabilities(window=40_000, max_output=4_000, cache="anthropic", cache_ttl=3600)


@pytest.mark.spec("L4.1", "F3")
@pytest.mark.parametrize(
    ("can", "tokens", "compacts"),
    # A model that caches counts 15,200 tokens of the prompt by itself.
    [(CACHED, 9_000, False), (CACHED, 14_000, True), (SMALL, 24_000, True)],
    ids=["nothing saved yet", "half of the room is gone", "nothing is cached"],
)
def test_a_fold_that_no_saving_pays_for_waits_a_little(
    tmp_path: Path, can: Capabilities, tokens: int, compacts: bool
) -> None:
    async def story() -> None:
        model = ScriptedModel(
            [_answer(100), _answer(200), _answer(tokens), _answer(100)],
            capabilities=can,
            otherwise={"summary": "no", "notes": "no"},
        )
        config = {"notes.enabled": False, "memory.enabled": False}
        async with Place(tmp_path).open(model, config=config) as session:
            for number in range(3):
                await session.ask(f"question {number} of some length " * 600)
            reply = await session.ask("go on")
            acted = [e for e in reply.events if e.kind == "layer_acted" and e.layer == "compaction"]
            assert bool(acted) is compacts

    run(story)


LARGE = Capabilities(window=200_000, max_output=8_000)


@pytest.mark.spec("L4.1", "L3.5")
@pytest.mark.parametrize(
    ("tail", "by_hand", "can", "source"),
    [
        (16_000, False, LARGE, "model"),
        (1_000, False, LARGE, "notes"),
        (16_000, True, LARGE, "notes"),
        (20_000, False, LARGE, "notes"),
        (20_000, False, replace(LARGE, cache="anthropic", cache_ttl=3600), "model"),
    ],
    ids=[
        "the notes would keep most of it",
        "they free enough",
        "someone asked for it",
        "writing a longer tail costs nothing more",
        "writing it costs more than the model's summary",
    ],
)
def test_notes_that_free_too_little_give_way_to_a_full_compaction(
    tmp_path: Path, tail: int, by_hand: bool, can: Capabilities, source: str
) -> None:
    long = tail == 20_000

    async def story() -> None:
        config = {
            "memory.enabled": False,
            "notes.keep_tokens": tail,
            "notes.keep_messages": 1,
            # 24,000 tokens, the tail of the notes is most of that; or 57,000
            "compact.percent": 0 if by_hand else 32 if long else 12.5,
        }
        scripted = model(answers(12, 7_000 if long else 3_000), can=can, summary=summary())
        async with Place(tmp_path).open(scripted, config=config) as session:
            for number in range(7 if by_hand else 10):
                await talk(session, 1, first=number)
                with anyio.fail_after(60):  # the notes know all that was said
                    while session.state.background.running():
                        await anyio.lowlevel.checkpoint()
                if boundaries(session):
                    break
            if by_hand:
                await session.compact()
            [boundary] = boundaries(session)
            assert boundary["source"] == source
            assert boundary["trigger"] == ("manual" if by_hand else "auto")

    run(story)


def _worked(folder: Path, requests: int, *, held_back: bool, pause: float = 0) -> State:
    """So many requests that fill 14,000 tokens, and as many again that layer 1 held back, or that
    were never there."""
    config = load(folder, home=folder, env={}, overrides={"notes.enabled": False})
    able = replace(CACHED, cache_ttl=300)
    talk = Conversation(config, read(config), folder, UnaskedModel(able), NoBackground())
    ledger = talk.state.ledger
    ledger.append(edits.message("user", "go", "typed"))
    for number in range(requests):
        talk.clock.move(1e6 + number)
        calls = [tool_use(f"{kind}{number}", "Bash", {}) for kind in "ab"]
        ledger.append(edits.message("assistant", calls, "assistant"))
        words = " ".join(f"w{number}x{n}" for n in range(7_600 // requests))
        results = [tool_result(f"a{number}", words), tool_result(f"b{number}", words)]
        if not held_back:
            results[1] = tool_result(f"b{number}", "moved")
        [entry] = ledger.append(edits.message("user", results, "tool", tool="Bash"))
        if held_back:
            moved = tool_result(f"b{number}", "moved")
            ledger.append(edits.replace([(entry["uuid"], 1, moved)], "tool_results"))
        talk.note_request()
    talk.clock.move(talk.clock.now() + pause)
    if pause:  # rules wrote them meanwhile
        run(lambda: notes.update(talk.state, by_model=False))
    run(lambda: compaction.act(talk.state))
    return talk.state


@pytest.mark.spec("L4.1", "F3")
@pytest.mark.parametrize(
    ("requests", "held_back", "compacts"),
    [(240, True, True), (240, False, False), (40, True, False), (120, True, True)],
    ids=[
        "carrying it would cost more",
        "the view is not full",
        "the session is young",
        "carrying it has cost as much",
    ],
)
def test_layers_that_hold_back_much_do_not_put_off_a_summary_that_is_cheaper(
    tmp_path: Path, requests: int, held_back: bool, compacts: bool
) -> None:
    state = _worked(tmp_path, requests, held_back=held_back)
    assert bool(state.ledger.projection.folds) is compacts


@pytest.mark.spec("L4.1", "F3")
@pytest.mark.parametrize(("pause", "compacts"), [(200, False), (400, True)])
def test_a_summary_that_will_come_is_made_before_a_cold_cache_is_written_anew(
    tmp_path: Path, pause: int, compacts: bool
) -> None:
    state = _worked(tmp_path, 40, held_back=True, pause=pause)
    assert bool(state.ledger.projection.folds) is compacts
