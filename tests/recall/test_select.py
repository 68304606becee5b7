"""The selector: a small model picks from what the ranker offers; whatever goes wrong, the ranker does."""

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
from lamina.recall import Match
from lamina.recall.prefetch import (
    Candidate,
    RecallRequest,
    Selection,
    Selector,
    by_rank,
    schema_params,
)

NOW = 1_790_000_000.0
CANDIDATES = [
    Candidate(Match("a.md", 3.0, {"body": 3.0}, 0.9), "project", "About apples", NOW - 3 * 86_400),
    Candidate(Match("b.md", 2.0, {"body": 2.0}, 0.5), "user", "About bread", NOW),
    Candidate(Match("c.md", 1.0, {"body": 1.0}, 0.1), "", "About cheese", NOW),
]


def pick(reply: Any, *, most: int = 5, expect: Any = None, seconds: float = 5.0) -> Selection:
    model = ScriptedModel([Step(reply, expect or {}, purpose="recall")])

    async def ask(request: Request) -> Response:
        return await model.complete(request, quiet)

    selector = Selector(ask, "scripted", seconds=seconds)

    async def story() -> Selection:
        return await selector.pick(
            RecallRequest("", "which bread?", NOW, ["Grep"]), CANDIDATES, most
        )

    return run(story)


@pytest.mark.spec("M7")
def test_the_model_is_asked_by_schema_with_few_tokens_and_its_names_are_taken_in_its_order() -> (
    None
):
    expect = {
        "max_tokens": 256,
        "params": schema_params("scripted"),
        "last_user": [
            "which bread?",
            "- [project] a.md (saved 3 days ago): About apples",
            "- c.md (saved today): About cheese",
            "Tools in use: Grep",
        ],
        "system": "At most 5 files",
        "messages": 1,
    }
    chosen = pick('{"selected": ["c.md", "a.md", "c.md"]}', expect=expect)
    assert (chosen.paths, chosen.by) == (("c.md", "a.md"), "scripted")


@pytest.mark.spec("M7")
def test_of_a_long_description_the_model_is_shown_what_fits_the_message() -> None:
    long = (
        f"{'Flour is stored dry. ' * 20}The rye bread is baked on Mondays. {'Ovens are hot. ' * 20}"
    )
    offered = [Candidate(Match("a.md", 1.0, {}, 0.5), "", long, NOW)]
    heard: list[Request] = []

    async def ask(request: Request) -> Response:
        heard.append(request)
        raise RefusedError("no")

    async def story() -> Selection:
        return await Selector(ask, "s").pick(
            RecallRequest("", "when is rye bread baked?", NOW), offered, 1
        )

    run(story)
    [line] = [
        one for one in str(heard[0].messages[0]["content"][0]["text"]).splitlines() if "a.md" in one
    ]
    assert "…" in line
    assert "The rye bread is baked on Mondays." in line
    assert len(line) < 350


@pytest.mark.spec("M7")
def test_none_is_a_good_answer_and_five_are_the_most() -> None:
    assert pick('{"selected": []}').paths == ()
    assert pick("[]").by == "scripted"
    assert pick('["a.md", "b.md", "c.md"]', most=2).paths == ("a.md", "b.md")


@pytest.mark.spec("M7")
def test_an_answer_that_can_t_be_used_leaves_the_ranker_s_choice() -> None:
    cases: list[tuple[Any, str]] = [
        ("I would take a.md", "gave no list of names"),
        ('{"selected": "a.md"}', "gave no list of names"),
        ('{"selected": [1]}', "gave no list of names"),
        ("[" * 100_000, "gave no list of names"),
        ('{"selected": ["../secret.md"]}', "named what was not offered"),
        ({"text": "No.", "stop_reason": "refusal"}, "refused"),
        ({"error": "unreachable", "message": "Nobody answers."}, "Nobody answers."),
        ({"text": '{"selected": ["a.m', "stop_reason": "max_tokens"}, "gave no list of names"),
    ]
    for reply, why in cases:
        chosen = pick(reply)
        assert (chosen.paths, chosen.by) == (("a.md", "b.md"), "ranker")
        assert why in chosen.why


@pytest.mark.spec("M7")
def test_known_names_are_kept_beside_unknown_ones() -> None:
    assert pick('["x.md", "b.md"]').paths == ("b.md",)


@pytest.mark.spec("M7")
def test_no_answer_in_time_leaves_the_ranker_s_choice() -> None:
    chosen = pick({"hang": True}, seconds=0.01)
    assert (chosen.paths, chosen.by) == (("a.md", "b.md"), "ranker")
    assert "took over 0.01 s" in chosen.why


def test_a_refusal_to_ask_is_told() -> None:
    async def ask(_: Request) -> Response:
        raise RefusedError("Today's cap is spent.")

    async def story() -> Selection:
        return await Selector(ask, "small").pick(RecallRequest("", "q", NOW), CANDIDATES, 1)

    chosen = run(story)
    assert chosen.paths == ("a.md",)
    assert "cap" in chosen.why


@pytest.mark.spec("M7")
def test_the_ranker_picks_only_what_it_is_sure_of() -> None:
    assert by_rank(CANDIDATES, 5, "").paths == ("a.md", "b.md")
    assert by_rank(CANDIDATES[2:], 5, "").paths == ()


def test_each_provider_gets_the_schema_in_its_own_form() -> None:
    anthropic = schema_params("anthropic:claude-haiku-5-5")["output_config"]["format"]
    openai = schema_params("openai:gpt-6-luna")["response_format"]["json_schema"]
    assert anthropic["schema"] == openai["schema"]
    assert anthropic["schema"]["additionalProperties"] is False


@pytest.mark.spec("M7", "F6")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_real_packages_send_the_schema_and_the_limit(wire: WireServer, provider: str) -> None:
    name = {"anthropic": "anthropic:claude-haiku-5-5", "openai": "openai:gpt-6-luna"}[provider]
    url = wire.anthropic_url if provider == "anthropic" else wire.openai_url
    model = open_model(name, options={"api_key": "k", "base_url": url})
    wire.will(says('{"selected": ["b.md"]}'))

    async def ask(request: Request) -> Response:
        return await model.complete(request, quiet)

    async def story() -> Selection:
        try:
            patient = Selector(ask, name, seconds=120)  # importing a package takes its time
            return await patient.pick(RecallRequest("", "which bread?", NOW), CANDIDATES, 5)
        finally:
            await model.close()

    chosen = run(story)
    assert (chosen.paths, chosen.why) == (("b.md",), "")
    [received] = wire.received
    body = received.body
    assert body["max_tokens"] == 256
    assert "which bread?" in str(body["messages"])
    for field, value in schema_params(name).items():
        assert body[field] == value


def test_the_prompt_is_the_one_that_was_agreed_on() -> None:
    golden = Path(__file__).resolve().parents[1] / "golden" / "recall.md"
    assert prompts.load("recall", most="5") + "\n" == golden.read_text("utf-8")
