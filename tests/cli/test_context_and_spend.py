"""`lamina context` and `lamina spend`: a session's fuel gauge, and what all calls have cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ran
from tests.layers.test_tool_results import saying
from tests.sessions import StillClock, run, use
from tests.test_turn import Probe

from lamina.cli.spend import bar
from lamina.models.scripted import ScriptedModel
from lamina.session import Session

Lamina = Callable[..., Ran]


def talk(world: Path, rounds: int = 8, output: str = "a line of output\n" * 200) -> str:
    """A recorded session with tool results; its id."""

    async def story() -> str:
        steps = [use("Probe", f"t{n}", n=n) for n in range(rounds)]
        model = ScriptedModel([*steps, "Done."])
        tools = [Probe(saying(output), clearable=True)]
        home, clock = world / "home", StillClock()
        async with Session.open(
            world / "project", model, home=home, tools=tools, clock=clock
        ) as session:
            await session.ask("Do it, please.")
            return session.id

    return run(story)


@pytest.mark.spec("I2")
def test_context_says_what_fills_the_window_and_its_parts_add_up(
    lamina: Lamina, world: Path
) -> None:
    name = talk(world)
    value = lamina("context", name[:6], "--json").json
    assert value["session"] == name
    assert sum(value["parts"].values()) == value["tokens"]
    assert list(value["parts"]) == [
        "system",
        "tools",
        "instructions",
        "memory",
        "summaries",
        "messages",
        "results",
        "attachments",
    ]
    assert value["parts"]["results"] > value["parts"]["messages"] > 0
    assert value["marks"]["warning"] < value["marks"]["autocompact"] < value["marks"]["blocking"]
    layers = {row["layer"]: row for row in value["next"]}
    left = value["marks"]["autocompact"] - value["tokens"]
    assert layers["compaction"]["in_tokens"] == left


@pytest.mark.spec("I2")
def test_context_says_what_layers_took_out(lamina: Lamina, world: Path) -> None:
    name = talk(world, 2, "a long line of output\n" * 4_000)
    value = lamina("context", "--json").json
    assert value["saved"]["tool_results"]["count"] == 2
    assert value["saved"]["tool_results"]["tokens"] > 30_000
    text = lamina("context").out
    assert "Taken out of the view" in text
    assert value["balance"] is None  # a scripted model has no cache that costs anything
    assert "What comes next" in text
    assert "█" in text
    assert "░" in text
    [file] = (world / "home").rglob(f"{name}.jsonl")
    file.write_text(file.read_text().replace('"model":"scripted"', '"model":"claude-opus-4-6"'))
    priced = lamina("context", "--json").json
    assert priced["balance"] > 1.25 * 30_000  # never written to the cache, and read no more
    assert "tokens of input saved so far" in lamina("context").out


def test_context_without_a_session_says_so(lamina: Lamina, world: Path) -> None:
    ran = lamina("context")
    assert ran.code == 2
    assert "There are no sessions here yet" in ran.err


def book(world: Path) -> None:
    from lamina.cache.spend import Spend
    from lamina.messages import Usage

    spend = Spend(world / "home" / "spend")
    for purpose, tokens, at in (
        ("main", 900_000, 0),
        ("main", 100_000, 90_000),
        ("notes", 50_000, 0),
    ):
        spend.book(
            purpose=purpose,
            model="anthropic:claude-sonnet-4-6",
            usage=Usage(tokens, 1_000),
            session="s1",
            at=1_790_000_000.0 + at,
        )


@pytest.mark.spec("F10")
@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("layer", ["main", "notes"]),
        ("day", ["2026-09-21", "2026-09-22"]),
        ("session", ["s1"]),
        ("model", ["anthropic:claude-sonnet-4-6"]),
    ],
)
def test_spend_groups_all_calls_and_sums_them_up(
    lamina: Lamina, world: Path, by: str, names: list[str]
) -> None:
    book(world)
    value = lamina("spend", "--by", by, "--json").json
    assert [row["name"] for row in value["groups"]] == names
    assert sum(row["calls"] for row in value["groups"]) == 3
    assert value["cost"] == pytest.approx(sum(row["cost"] for row in value["groups"]))
    assert value["cost"] > 3
    text = lamina("spend", "--by", by).out
    assert all(name in text for name in names)
    assert "█" in text
    assert "in 3 calls" in text


@pytest.mark.spec("F10")
def test_the_longest_bar_is_the_dearest_and_the_others_are_in_proportion() -> None:
    assert bar(10, 10, 20) == "█" * 20
    assert bar(5, 10, 20) == "█" * 10
    assert len(bar(0.1, 10, 20)) == 1
    assert bar(0, 0, 20) == ""


def test_spend_before_the_first_call_says_so(lamina: Lamina, world: Path) -> None:
    ran = lamina("spend")
    assert ran.code == 0
    assert "No model call has been booked yet." in ran.err
