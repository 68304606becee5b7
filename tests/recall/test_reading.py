"""A small model reads the turns that a search found; whatever goes wrong, all of them stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sessions import run
from tests.wire.server import WireServer, says

from lamina import prompts
from lamina.errors import RefusedError
from lamina.events import quiet
from lamina.messages import Request, Response
from lamina.models import open_model
from lamina.models.scripted import ScriptedModel, Step
from lamina.recall.prefetch import schema_params
from lamina.recall.reading import Reading, TurnReader, numbers_in
from lamina.recall.transcripts import FoundMessage

NOW = 1_790_000_000.0  # 21 September 2026, at noon and a bit


def turn(text: str, who: str = "user", when: float = NOW - 86_400, agent: str = "") -> FoundMessage:
    return FoundMessage("s", "e", who, text, when, 1.0, 0.9, agent)


FOUND = [
    turn("The walrus lives in Oslo."),
    turn("Noted. " + "Fine. " * 200 + "Its name is Wendell.", "assistant", agent="zoe"),
    turn("We feed it fish.", when=0.0),
    *(turn(f"Fish number {number}.") for number in range(4)),
]


def read(reply: Any, *, expect: Any = None, seconds: float = 5.0) -> Reading:
    model = ScriptedModel([Step(reply, expect or {}, purpose="recall")])

    async def ask(request: Request) -> Response:
        return await model.complete(request, quiet)

    async def story() -> Reading:
        reader = TurnReader(ask, "scripted", seconds=seconds)
        return await reader.read("what is the walrus's name?", FOUND, NOW)

    return run(story)


@pytest.mark.spec("M7")
def test_the_model_reads_the_best_five_with_day_and_speaker_cut_to_what_fits() -> None:
    expect = {
        "max_tokens": 256,
        "params": schema_params("scripted"),
        "last_user": [
            "The question, asked on Monday 2026-09-21:\nwhat is the walrus's name?",
            "[1] Sunday 2026-09-20, user: The walrus lives in Oslo.",
            "[2] Sunday 2026-09-20, zoe: …",
            "Its name is Wendell.\n[3] undated, user: We feed it fish.",
            "[5]",
        ],
        "lacks": "[6]",
        "system": "the empty list is the right answer",
        "messages": 1,
    }
    done = read('{"selected": ["2", "9"]}', expect=expect)
    assert done == Reading({0: False, 1: True, 2: False, 3: False, 4: False})


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        ('{"selected": []}', set()),
        ('{"selected": ["1", 3, "[2]"]}', {1, 2, 3}),
        ('So:\n```json\n{"selected": ["4"]}\n```', {4}),
        ('{"selected": ["7"]}', None),
        ('{"selected": [true]}', None),
        ('{"selected": "1"}', None),
        ('["1"]', None),
        ('{"chosen": []}', None),
        ("None of them.", None),
        ("{" * 100_000 + "}", None),
        ("", None),
    ],
)
def test_only_a_list_of_numbers_that_were_given_counts(
    answer: str, numbers: set[int] | None
) -> None:
    assert numbers_in(answer, 5) == numbers


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("I would take 1", "did not say which"),
        ({"text": '{"selected": []}', "stop_reason": "refusal"}, "did not say which"),
        ({"error": "unreachable", "message": "Nobody answers."}, "Nobody answers."),
        ({"hang": True}, "took over 0.01 s"),
    ],
)
def test_no_answer_is_no_choice(reply: Any, why: str) -> None:
    done = read(reply, seconds=0.01 if reply == {"hang": True} else 5.0)
    assert done.answers is None
    assert why in done.problem


def test_a_refusal_to_ask_is_told() -> None:
    async def ask(_: Request) -> Response:
        raise RefusedError("Today's cap is spent.")

    done = run(lambda: TurnReader(ask, "small").read("q", FOUND, NOW))
    assert done == Reading(None, "small could not be asked: Today's cap is spent.")


@pytest.mark.spec("M7", "F6")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_real_packages_send_the_schema_and_the_limit(wire: WireServer, provider: str) -> None:
    name = {"anthropic": "anthropic:claude-haiku-5-5", "openai": "openai:gpt-6-luna"}[provider]
    url = wire.anthropic_url if provider == "anthropic" else wire.openai_url
    model = open_model(name, options={"api_key": "k", "base_url": url})
    wire.will(says('{"selected": ["1"]}'))

    async def ask(request: Request) -> Response:
        return await model.complete(request, quiet)

    async def story() -> Reading:
        try:
            return await TurnReader(ask, name, seconds=120).read("where?", FOUND[:2], NOW)
        finally:
            await model.close()

    assert run(story) == Reading({0: True, 1: False})
    [received] = wire.received
    assert received.body["max_tokens"] == 256
    for field, value in schema_params(name).items():
        assert received.body[field] == value


def test_the_prompt_is_the_one_that_was_agreed_on() -> None:
    golden = Path(__file__).resolve().parents[1] / "golden" / "recall_turns.md"
    assert prompts.load("recall_turns") + "\n" == golden.read_text("utf-8")
