"""The price table and the sum for one call."""

from __future__ import annotations

from datetime import date

import pytest

from lamina.cache.spend import checked_on, cost, plain_name, price_of
from lamina.errors import SettingsError
from lamina.ledger.tokens import model_table
from lamina.messages import Usage

MILLION = 1_000_000


def rows() -> list[tuple[str, str]]:
    """Model and first day of every row with a price."""
    return [(row.name, row.prices[0]) for row in model_table()[0][:-1] if row.prices]


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic:claude-opus-4-6", "claude-opus-4-6"),
        ("anthropic:claude-opus-4-6[1m]", "claude-opus-4-6"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("claude-opus-4-0", "claude-opus-4"),
        ("openai:gpt-5.4-mini-2026-03-05", "gpt-5.4-mini"),
        ("gpt-5.1-codex", "gpt-5.1"),
        ("openai/gpt-4o-2024-08-06", "gpt-4o"),
    ],
)
def test_a_name_with_prefix_or_date_finds_its_row(asked: str, row: str) -> None:
    price = price_of(asked)
    assert price.model == row
    assert not price.guessed


def test_every_kind_of_token_is_charged_at_its_own_price() -> None:
    price = price_of("claude-opus-4-5")
    assert cost(Usage(input=MILLION), price) == pytest.approx(5.0)
    assert cost(Usage(output=MILLION), price) == pytest.approx(25.0)
    assert cost(Usage(cache_read=MILLION), price) == pytest.approx(0.5)
    assert cost(Usage(cache_write=MILLION), price) == pytest.approx(6.25)
    assert cost(Usage(cache_write=MILLION, cache_write_1h=MILLION), price) == pytest.approx(10.0)
    assert cost(Usage(cache_write=MILLION, cache_write_1h=400_000), price) == pytest.approx(
        0.6 * 6.25 + 0.4 * 10
    )


def test_a_long_prompt_costs_more_where_the_provider_says_so() -> None:
    price = price_of("claude-sonnet-4-5")
    short, long = Usage(input=200_000, output=1000), Usage(input=200_001, output=1000)
    assert cost(short, price) == pytest.approx((200_000 * 3 + 1000 * 15) / MILLION)
    assert cost(long, price) == pytest.approx((200_001 * 6 + 1000 * 22.5) / MILLION)


def test_more_written_for_an_hour_than_written_at_all_is_no_discount() -> None:
    price = price_of("claude-opus-4-5")
    odd = Usage(cache_write=MILLION, cache_write_1h=3 * MILLION)
    assert cost(odd, price) == pytest.approx(10.0)


def test_writes_are_billed_only_where_they_cost_more_than_input() -> None:
    assert price_of("claude-opus-4-5").bills_writes
    assert not price_of("gpt-4o").bills_writes


def test_of_several_prices_the_newest_counts() -> None:
    newest = price_of("claude-sonnet-5-5")
    assert (newest.since, newest.cache_read) == ("2026-10-07", 0.1)


def test_an_unknown_claude_takes_its_familys_newest_row_and_says_so() -> None:
    price = price_of("claude-opus-9-1")
    assert (price.model, price.guessed) == ("claude-opus-5-5", True)
    assert price_of("claude-opus-4-9").guessed


def test_any_other_unknown_model_takes_the_fallback_row_and_says_so() -> None:
    price = price_of("google/gemini-3-pro-preview")
    assert (price.model, price.provider, price.guessed) == ("fallback", "unknown", True)


@pytest.mark.parametrize("model", ["none", "gguf:qwen", "scripted:turns.json", "<synthetic>"])
def test_local_models_cost_nothing(model: str) -> None:
    price = price_of(model)
    assert cost(Usage(MILLION, MILLION, MILLION, MILLION), price) == 0.0
    assert not price.guessed
    assert price_of(price_of(model).model) == price_of(model)  # a replay books its forks so


def test_settings_override_single_figures_by_name() -> None:
    overrides = {"house-model": {"input": 1.0, "output": 2.0}, "claude-opus-4-5": {"input": 7}}
    assert price_of("house-model", overrides).input == 1.0
    assert not price_of("house-model", overrides).guessed
    mine = price_of("anthropic:claude-opus-4-5-20251101", overrides)
    assert (mine.input, mine.output) == (7, 25)


def test_figures_that_an_unlisted_models_price_leaves_open_follow_its_input_price() -> None:
    mine = price_of("house-model", {"house-model": {"input": 0.3, "output": 9}})
    assert mine.output == 9
    assert (mine.cache_read, mine.cache_write_5m, mine.cache_write_1h) == pytest.approx(
        (0.03, 0.375, 0.6)
    )
    free = price_of("house-model", {"house-model": {"input": 0}})
    assert cost(Usage(MILLION, MILLION, MILLION, MILLION), free) == 0.0
    listed = price_of("claude-opus-4-5", {"claude-opus-4-5": {"input": 7}})
    assert (listed.cache_read, listed.cache_write_1h) == (0.5, 10)


@pytest.mark.parametrize("changes", [{"inptu": 1}, {"input": -1}, {"input": "3"}, {"model": 2}])
def test_a_wrong_override_is_named(changes: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=f"house.*{next(iter(changes))}"):
        price_of("house", {"house": changes})


def test_the_table_is_sound() -> None:
    date.fromisoformat(checked_on())
    assert len(set(rows())) == len(rows()) > 50
    for model, since in rows():
        assert date.fromisoformat(since) <= date.fromisoformat(checked_on())
        price = price_of(model)
        assert plain_name(price.model) == price.model
        assert 0 < price.cache_read <= price.input <= price.cache_write_5m <= price.cache_write_1h
        assert price.input < price.output
        assert 512 <= price.min_cacheable <= 4096
