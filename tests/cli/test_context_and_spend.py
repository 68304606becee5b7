"""`lamina context` and `lamina spend`: a session's fuel gauge, and what all calls have cost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Ran
from tests.layers.test_tool_results import saying
from tests.sessions import StillClock, run, use
from tests.test_turn import Probe

from lamina.cache.account import Account, rates
from lamina.cli.context import living, parts_of, savings_of
from lamina.cli.terminal import bar, columns, fitted
from lamina.ledger import edits
from lamina.ledger.record import Ledger
from lamina.messages import Usage, text
from lamina.models.scripted import ScriptedModel
from lamina.ports import Capabilities
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


@pytest.mark.spec("I2", "F14")
def test_context_says_how_long_the_cache_lives_where_the_session_chooses() -> None:
    able = Capabilities(cache="anthropic", cache_ttl=3600, cache_choice="all")
    price = rates("claude-sonnet-4-6", replace(able, cache_ttl=300))
    assert price is not None
    account = Account().follow([], price)
    [row] = living(account, 40_000, able)
    assert row["when"].startswith(
        "the provider's cache lives 1 h; after a pause that outlasts it, 5 min"
    )
    assert not list(living(account, 40_000, replace(able, cache_choice="")))
    [row] = living(account, 40_000, replace(able, cache_choice="frame"))
    assert row["when"].endswith("after a pause that outlasts it system prompt and tools 1 h")


@pytest.mark.spec("I2")
def test_context_says_what_layers_took_out(lamina: Lamina, world: Path) -> None:
    name = talk(world, 2, "a long line of output\n" * 4_000)
    value = lamina("context", "--json").json
    assert value["saved"]["tool_results"]["count"] == 2
    assert value["saved"]["tool_results"]["tokens"] > 30_000
    text = lamina("context").out
    assert "Taken out of the context" in text
    assert value["balance"] is None  # a scripted model has no cache that costs anything
    assert "What comes next" in text
    assert "█" in text
    assert "░" in text
    [file] = (world / "home").rglob(f"{name}.jsonl")
    file.write_text(file.read_text().replace('"model":"scripted"', '"model":"claude-opus-4-6"'))
    priced = lamina("context", "--json").json
    assert priced["balance"] > 1.25 * 30_000  # never written to the cache, and read no more
    assert "tokens of input saved" in lamina("context").out


@pytest.mark.spec("I2")
@pytest.mark.parametrize("prompt", range(1_200, 1_240))
def test_parts_add_up_to_the_provider_s_own_count(prompt: int) -> None:
    ledger = Ledger.of()
    ledger.append(edits.frame([text("s" * 301)], [{"name": "Read", "x": "y" * 77}], "m", {}))
    ledger.append(edits.message("user", "q" * 103, "typed"))
    ledger.append(edits.answer([text("a" * 59)], Usage(prompt, 41)))
    ledger.append(edits.message("user", "r" * 17, "system"))
    assert sum(parts_of(ledger).values()) == ledger.tokens() > prompt


@pytest.mark.spec("I2")
def test_what_was_undone_was_not_taken_out() -> None:
    ledger = Ledger.of()
    [said] = ledger.append(edits.message("user", "q" * 4_000, "typed"))
    [edit] = ledger.append(edits.replace([(said["uuid"], 0, text("q"))], "microcompact"))
    assert savings_of(ledger.entries) == {"microcompact": (1, 999)}
    ledger.append(edits.revoke(edit["uuid"], "undo"))
    assert savings_of(ledger.entries) == {"microcompact": (0, 0)}


def test_context_without_a_session_says_so(lamina: Lamina, world: Path) -> None:
    ran = lamina("context")
    assert ran.code == 2
    assert "There are no sessions here yet" in ran.err


def book(world: Path, others: Sequence[str] = ()) -> None:
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
    for name in others:
        usage = Usage(3_000_000, 10, 90_000_000)
        spend.book(purpose=name, model=name, usage=usage, session=name, at=1_790_000_000.0)


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


def settings_file(world: Path, text: str) -> None:
    path = world / "home" / "settings.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.spec("F10")
def test_spend_says_how_much_of_the_caps_today_has_used(lamina: Lamina, world: Path) -> None:
    from lamina.cache.spend import Spend
    from lamina.messages import Usage

    settings_file(world, "[spend]\ndaily_cap = 4.0\nlayer_caps = { notes = 1.0, dream = 2.0 }\n")
    assert [cap["today"] for cap in lamina("spend", "--json").json["caps"]] == [0, 0, 0]
    book(world)  # long ago
    assert "Background work" not in lamina("spend").out
    now = time.time()
    for day in (now, now + 86_400):  # it may be midnight
        spend = Spend(world / "home" / "spend", prices={"m": {"input": 1.5}})
        for purpose in ("main", "notes"):
            usage = Usage(1_000_000)
            spend.book(purpose=purpose, model="m", usage=usage, session="s", at=day)
    caps = lamina("spend", "--json").json["caps"]
    assert [(cap["of"], cap["cap"], cap["today"]) for cap in caps] == [
        ("all", 4.0, 1.5),
        ("notes", 1.0, 1.5),
        ("dream", 2.0, 0),
    ]
    told = [line for line in lamina("spend").out.splitlines() if "Background" in line]
    assert told == [
        "Background work today: $1.50 of $4.00 (spend.daily_cap)",
        "Background work for notes today: $1.50 of $1.00 (spend.layer_caps), stopped until midnight UTC",
    ]


@pytest.mark.spec("F10")
def test_the_longest_bar_is_the_dearest_and_the_others_are_in_proportion() -> None:
    assert bar(10, 10, 20) == "█" * 20
    assert bar(5, 10, 20) == "█" * 10
    assert len(bar(0.1, 10, 20)) == 1
    assert bar(0, 0, 20) == ""


def test_spend_before_the_first_call_says_so(lamina: Lamina, world: Path) -> None:
    ran = lamina("spend")
    assert ran.code == 0
    assert "No model calls have been made yet." in ran.err


NAMES = [
    "a short one",
    "a name that is far too long for most terminals and must be cut",
    "日本語の長い名前" * 4,
]


@pytest.mark.spec("F10", "I2")
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*NAMES, "x"]),
            st.integers(0, 10**9),
            st.floats(0, 1e6),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(24, 140),
)
def test_a_table_with_bars_never_is_wider_than_the_terminal(rows: Any, room: int) -> None:
    shown = fitted(
        [[name, f"{count:,}", f"{cost:.2f}"] for name, count, cost in rows],
        ["name", "count", "cost"],
        room,
        gives_way=(2, 1),
        cut=0,
        right=(1, 2),
        bars=[cost for _, _, cost in rows],
        bar_after=1,
    )
    lines = shown.splitlines()
    assert len(lines) == len(rows) + 1
    assert all(columns(line) <= room for line in lines)
    if room >= 60 and max(cost for _, _, cost in rows) > 0:
        assert "█" in shown


@pytest.mark.spec("F10", "I2")
@pytest.mark.parametrize("room", [40, 60, 80, 120])
@pytest.mark.parametrize("words", [["spend"], ["spend", "--by", "model"], ["context"]])
def test_no_line_is_wider_than_the_terminal(
    lamina: Lamina, world: Path, monkeypatch: pytest.MonkeyPatch, room: int, words: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(room))
    book(world, [*NAMES, "main"])
    talk(world, 2, "a long line of output\n" * 4_000)
    shown = lamina(*words).out
    assert "█" in shown
    assert [line for line in shown.splitlines() if columns(line) > room] == []


@pytest.mark.spec("F10")
@pytest.mark.parametrize(
    ("by", "first", "last"),
    [("session", "s999", "961 others"), ("day", "961 others", "2026-09-26")],
)
def test_of_very_many_the_dearest_or_the_latest_are_shown_and_the_rest_is_one_row(
    lamina: Lamina, world: Path, by: str, first: str, last: str
) -> None:
    folder = world / "home" / "spend"
    folder.mkdir(parents=True)
    days = [
        (datetime(2024, 1, 1, tzinfo=UTC) + timedelta(n)).strftime("%Y-%m-%d") for n in range(1_000)
    ]
    with (folder / "2026-01.jsonl").open("w") as file:
        for n in range(1_000):
            row = {"ts": days[n], "purpose": "main", "session": f"s{n}", "input": n, "cost": n}
            file.write(json.dumps(row) + "\n")
        file.write('{"torn\n[1]\nnot json\n')
    lines = lamina("spend", "--by", by).out.splitlines()
    assert len(lines) == 42
    assert lines[1].startswith(first)
    assert lines[-2].startswith(last)
    assert "█" not in next(line for line in lines if "others" in line)
    assert lines[-1].startswith("$499,500.00 in 1,000 calls of all projects, 499,500 tokens in")
    value = lamina("spend", "--by", by, "--json").json
    assert len(value["groups"]) == 1_000
    assert value["cost"] == 499_500
