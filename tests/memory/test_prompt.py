"""The memory section of the system prompt: every variant word for word, in the promised order."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina import prompts
from lamina.memory.prompt import Index, MemorySection, render
from lamina.memory.topics import age_words, caveat, heading

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "memory"
DAY = 86_400.0

PERSONAL = MemorySection(
    directory="/home/ada/.lamina/projects/-src-engine/memory",
    index=Index("# Memory\n- [Profession](user_profession.md) — accountant, does not program\n"),
    sessions="/home/ada/.lamina/projects/-src-engine",
)
TEAM = replace(
    PERSONAL,
    team_directory=f"{PERSONAL.directory}/team",
    team_index=Index("- [Commits](feedback_commits.md) — keep them separate\n"),
)
VARIANTS = {
    "personal": PERSONAL,
    "personal_empty": replace(PERSONAL, index=Index()),
    "personal_cut": replace(PERSONAL, index=Index("- [A](a.md) — a\n", "Only 1 of 900 lines.")),
    "without_index": replace(PERSONAL, with_index=False),
    "without_past_context": replace(PERSONAL, past_context=False),
    "guidelines": replace(PERSONAL, guidelines="Costs $5 & {{directory}}: write in French."),
    "team": TEAM,
    "daily_log": replace(TEAM, daily_log=True),
    "off": replace(TEAM, daily_log=True, enabled=False),
}


@pytest.mark.spec("M5")
@pytest.mark.parametrize("name", VARIANTS)
def test_each_variant_is_word_for_word_as_reviewed(name: str) -> None:
    """After a wanted change: `GOLDEN=write pytest tests/memory/test_prompt.py`, and review."""
    rendered = render(VARIANTS[name]) + "\n"
    file = GOLDEN / f"{name}.md"
    if os.environ.get("GOLDEN") == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(rendered, "utf-8")
    assert rendered == file.read_text("utf-8")


@pytest.mark.spec("M5")
def test_the_parts_come_in_the_promised_order() -> None:
    text = render(TEAM)
    order = [
        "# Memory",
        "## What is worth keeping",
        "**user**",
        "**feedback**",
        "**project**",
        "**reference**",
        "## What not to save",
        "## How to save",
        "## When to read",
        "## Before you recommend from memory",
        "## Memory, plans and tasks",
        "## Searching the past",
        "## MEMORY.md",
        "## Team MEMORY.md",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


@pytest.mark.spec("M5")
def test_variants_have_their_precedence() -> None:
    assert TEAM.variant == "team"
    assert replace(TEAM, daily_log=True).variant == "daily_log"
    assert replace(TEAM, enabled=False).variant == "off"
    assert PERSONAL.variant == "personal"
    assert render(replace(TEAM, enabled=False)) == ""


@pytest.mark.spec("M5")
def test_only_the_team_variant_speaks_of_scopes_and_credentials() -> None:
    assert "credentials" in render(TEAM)
    assert "team" not in render(PERSONAL).lower()


@pytest.mark.spec("M5")
def test_without_an_index_nothing_of_one_is_said() -> None:
    assert "MEMORY.md" not in render(replace(PERSONAL, with_index=False))


def test_no_variant_contains_a_date_of_today() -> None:
    import datetime as dt

    today = dt.datetime.now(dt.UTC).date().isoformat()
    assert all(today not in render(section) for section in VARIANTS.values())
    assert "YYYY-MM-DD" in render(VARIANTS["daily_log"])


@pytest.mark.spec("M5")
@given(st.text(), st.text())
def test_what_is_put_into_a_prompt_is_never_expanded_again(directory: str, index: str) -> None:
    trap = f"$1 \\1 {{{{sessions}}}} {directory}"
    text = render(replace(PERSONAL, directory=trap, index=Index(f"{{{{directory}}}} x{index}x")))
    assert trap in text
    assert f"{{{{directory}}}} x{index}x" in text


def test_an_unknown_name_in_a_template_stays() -> None:
    assert prompts.fill("a {{b}} {{c}}", {"b": "{{c}}$0", "c": "d"}) == "a {{c}}$0 d"
    assert prompts.fill("{{unknown}} { {x} }", {}) == "{{unknown}} { {x} }"


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    ("age", "words", "stale"),
    [
        (-DAY, "today", False),
        (0, "today", False),
        (0.9 * DAY, "today", False),
        (DAY, "yesterday", False),
        (1.5 * DAY, "yesterday", True),
        (2 * DAY, "2 days ago", True),
        (1_234.5 * DAY, "1,234 days ago", True),
        (float("inf"), "today", False),
        (float("nan"), "today", False),
    ],
)
def test_age_is_told_in_words_and_an_old_memory_has_a_caveat(
    age: float, words: str, stale: bool
) -> None:
    now = 2e9
    assert age_words(now - age, now) == words
    assert bool(caveat(now - age, now)) is stale
    head = heading("user_role.md", now - age, now)
    assert head.splitlines()[0] == f"Memory (saved {words}): user_role.md"
    assert len(head.splitlines()) == 1 + stale
