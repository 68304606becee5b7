"""The marks of a window, and the table of what models can do."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.config import load
from lamina.ledger.tokens import (
    LONG_BETA,
    Window,
    bare_name,
    capabilities,
    needs_long_beta,
    window_of,
)

sizes = st.integers(min_value=512, max_value=3_000_000)
outputs = st.integers(min_value=1, max_value=400_000)


@pytest.mark.spec("F3")
def test_the_marks_of_the_default_window_are_those_of_the_spec() -> None:
    window = Window(200_000, 32_000)
    assert window.effective == 180_000
    assert window.autocompact == 167_000
    assert window.warning == 147_000
    assert window.blocking == 177_000


@pytest.mark.spec("F3")
@given(size=st.integers(min_value=60_000, max_value=3_000_000), max_output=outputs)
def test_every_window_that_holds_the_margins_follows_the_formula(
    size: int, max_output: int
) -> None:
    window = Window(size, max_output)
    assert window.effective == size - min(20_000, max_output)
    assert window.autocompact == window.effective - 13_000
    assert window.warning == window.autocompact - 20_000
    assert window.blocking == window.effective - 3_000


@pytest.mark.spec("F3")
@given(size=sizes, max_output=outputs, percent=st.none() | st.floats(min_value=1, max_value=100))
def test_marks_are_ordered_and_positive_for_any_window(
    size: int, max_output: int, percent: float | None
) -> None:
    window = Window(size, max_output, percent)
    assert 0 <= window.warning <= window.autocompact < window.blocking < window.effective < size
    assert Window(size, max_output).autocompact > 0


@pytest.mark.spec("F3")
@given(
    size=sizes,
    max_output=outputs,
    percent=st.none() | st.floats(allow_nan=False),
    compact_size=st.none() | st.integers(min_value=-10, max_value=3_000_000),
)
def test_overrides_can_only_lower_autocompaction(
    size: int, max_output: int, percent: float | None, compact_size: int | None
) -> None:
    plain = Window(size, max_output)
    overridden = Window(size, max_output, percent, compact_size)
    assert 0 <= overridden.autocompact <= plain.autocompact
    assert overridden.effective == plain.effective
    assert overridden.blocking == plain.blocking


@pytest.mark.spec("F3")
def test_a_percentage_counts_from_the_effective_window() -> None:
    assert Window(200_000, 32_000, percent=50).autocompact == 90_000
    assert Window(200_000, 32_000, percent=99).autocompact == 167_000


@given(size=sizes, bigger=st.integers(min_value=0, max_value=100_000), max_output=outputs)
def test_a_larger_window_never_compacts_much_earlier(
    size: int, bigger: int, max_output: int
) -> None:
    # One token of slack: below the margins, marks are shares of the window and round down.
    smaller, larger = Window(size, max_output), Window(size + bigger, max_output)
    assert larger.autocompact + 1 >= smaller.autocompact
    assert larger.effective >= smaller.effective


@pytest.mark.spec("F3")
def test_the_window_comes_from_suffix_then_table_then_header_then_override_then_default() -> None:
    betas = [LONG_BETA]
    # The suffix beats the table.
    assert capabilities("claude-haiku-4-5[1m]").window == 1_000_000
    # The table beats header and override.
    assert capabilities("claude-haiku-4-5", betas=betas, override=90_000).window == 200_000
    # Where the table leaves it open, the header beats the override.
    assert capabilities("claude-sonnet-4-5", betas=betas, override=90_000).window == 1_000_000
    assert capabilities("claude-sonnet-4-5", override=90_000).window == 90_000
    assert capabilities("claude-sonnet-4-5").window == 200_000
    assert capabilities("somebody/some-model", override=32_768).window == 32_768
    assert capabilities("somebody/some-model").window == 200_000
    assert capabilities("somebody/some-model", override=-1).window == 200_000


@pytest.mark.parametrize(
    ("name", "window", "max_output", "cache"),
    [
        ("anthropic:claude-opus-5-5", 1_000_000, 128_000, "anthropic"),
        ("anthropic:claude-sonnet-4-6", 1_000_000, 128_000, "anthropic"),
        ("claude-haiku-4-5-20251001", 200_000, 64_000, "anthropic"),
        ("claude-opus-4-1-20250805", 200_000, 32_000, "anthropic"),
        ("anthropic:anthropic/claude-opus-4-5", 200_000, 64_000, "anthropic"),
        ("openai:gpt-6.1-sol", 922_000, 128_000, "openai"),
        ("openai:gpt-5.4-mini-2026-03-17", 272_000, 128_000, "openai"),
        ("openai:gpt-5.4", 922_000, 128_000, "openai"),
        ("gpt-4", 8_192, 8_192, "openai"),
        ("gpt-4.5-preview", 200_000, 32_000, "none"),
        ("o3-mini", 200_000, 100_000, "openai"),
        ("openai:my-local-model", 200_000, 32_000, "none"),
        ("anthropic:claude-next", 200_000, 32_000, "anthropic"),
    ],
)
def test_the_longest_prefix_in_the_table_decides(
    name: str, window: int, max_output: int, cache: str
) -> None:
    known = capabilities(name)
    assert (known.window, known.max_output, known.cache) == (window, max_output, cache)


@pytest.mark.spec("F3", "L2.3")
def test_the_table_says_which_models_keep_earlier_thinking_and_manage_context() -> None:
    assert capabilities("claude-opus-4-5").keeps_thinking
    assert not capabilities("claude-sonnet-4-5").keeps_thinking
    assert capabilities("claude-sonnet-4-5").context_management
    assert not capabilities("claude-3-5-haiku-latest").context_management
    assert not capabilities("gpt-5.5").context_management


def test_every_model_name_of_the_installed_sdks_is_in_the_table() -> None:
    from typing import get_args

    from anthropic.types.model_param import ModelParam
    from openai.types.shared.chat_model import ChatModel

    anthropic_names = [n for part in get_args(ModelParam) for n in get_args(part)]
    assert anthropic_names
    for name in anthropic_names:
        assert capabilities(name).cache == "anthropic", name
    for name in get_args(ChatModel):
        if "audio" not in name or name.startswith("gpt-4o"):
            assert capabilities(name).cache == "openai", name


def test_names_lose_provider_and_suffix_only() -> None:
    assert bare_name("anthropic:claude-sonnet-4-5[1m]") == "claude-sonnet-4-5"
    assert bare_name("openai:llama3:8b") == "llama3:8b"
    assert bare_name("llama3:8b") == "llama3:8b"
    assert needs_long_beta("anthropic:claude-sonnet-4-5[1m]")
    assert not needs_long_beta("anthropic:claude-sonnet-4-5")
    assert not needs_long_beta("anthropic:claude-opus-5-5[1m]")


def test_a_window_is_made_of_capabilities_and_settings(tmp_path: Path) -> None:
    def made(**settings: int) -> Window:
        flags = {f"compact.{name}": value for name, value in settings.items()}
        config = load(tmp_path, env={"HOME": str(tmp_path)}, managed=None, overrides=flags)
        return window_of(capabilities("claude-opus-5"), config)

    assert made(percent=10).autocompact == 98_000
    plain, own = made(), made(margin=20_000, warning_margin=1_000, blocking_margin=5_000)
    assert own.autocompact == plain.autocompact - 7_000
    assert own.warning == own.autocompact - 1_000
    assert own.blocking == plain.blocking - 2_000
    assert made(output_reserve=0).effective == plain.effective + 20_000
