"""How much of a model's window a session may fill: what each model can do, and the marks that the
layers act at (F3). Pure values; overrides come in as arguments, nothing is read from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lamina.ports import Capabilities

DEFAULT_WINDOW = 200_000
MILLION = 1_000_000
LONG_SUFFIX = "[1m]"
LONG_BETA = "context-1m-2025-08-07"

# ---- the marks


@dataclass(frozen=True, slots=True)
class Margins:
    """Tokens kept free; settings can change each."""

    output: int = 20_000  # for an answer, or the model's most if that is less
    compact: int = 13_000  # from autocompact to effective
    warning: int = 20_000  # from warning to autocompact
    blocking: int = 3_000  # from blocking to effective


@dataclass(frozen=True, slots=True)
class Window:
    """The marks of one window, in tokens: warning < autocompact < blocking < effective < size."""

    size: int = DEFAULT_WINDOW
    max_output: int = 32_000
    percent: float | None = None  # autocompact at this share of effective, if that is lower
    compact_size: int | None = None  # autocompact as if the window were this small
    margins: Margins = Margins()

    @property
    def effective(self) -> int:
        return self._effective(self.size)

    @property
    def autocompact(self) -> int:
        mark = self._autocompact(self.effective)
        if self.compact_size is not None and 0 < self.compact_size < self.size:
            mark = min(mark, self._autocompact(self._effective(self.compact_size)))
        if self.percent is not None and 0 < self.percent <= 100:
            mark = min(mark, int(self.effective * self.percent / 100))
        return mark

    @property
    def warning(self) -> int:
        margin = self.margins.warning
        return self.autocompact - margin if self.autocompact > margin else self.autocompact // 2

    @property
    def blocking(self) -> int:
        if self._roomy(self.effective):
            return self.effective - self.margins.blocking
        return self.effective * 30 // 33

    def _effective(self, size: int) -> int:
        # The last bound matters only for small local models: half is kept for the prompt.
        return size - min(self.margins.output, self.max_output, size // 2)

    def _autocompact(self, effective: int) -> int:
        if self._roomy(effective):
            return effective - self.margins.compact
        return effective * 20 // 33

    def _roomy(self, effective: int) -> bool:
        """Do the fixed margins fit? Else they shrink with the window."""
        return effective > self.margins.compact + self.margins.warning


# ---- what models can do


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the table. `window` None: it depends on the beta header or an override."""

    prefix: str
    window: int | None
    max_output: int
    min_cacheable: int = 1_024
    images: bool = True
    keeps_thinking: bool = True
    manages_context: bool = True


# Published limits as of 2026-11. The longest matching prefix counts.
_ANTHROPIC = (
    _Row("claude-fable-5", MILLION, 128_000, 512),
    _Row("claude-mythos-5", MILLION, 128_000, 512),
    _Row("claude-mythos-preview", MILLION, 128_000, 4_096),
    _Row("claude-opus-5", MILLION, 128_000, 512),
    _Row("claude-sonnet-5", MILLION, 128_000, 1_024),
    _Row("claude-haiku-5", MILLION, 128_000, 4_096),
    _Row("claude-opus-4-8", MILLION, 128_000, 1_024),
    _Row("claude-opus-4-7", MILLION, 128_000, 2_048),
    _Row("claude-opus-4-6", MILLION, 128_000, 4_096),
    _Row("claude-sonnet-4-6", MILLION, 128_000, 1_024),
    _Row("claude-opus-4-5", 200_000, 64_000, 4_096),
    _Row("claude-haiku-4-5", 200_000, 64_000, 4_096, keeps_thinking=False),
    _Row("claude-sonnet-4-5", None, 64_000, 1_024, keeps_thinking=False),
    _Row("claude-sonnet-4", None, 64_000, 1_024, keeps_thinking=False),
    _Row("claude-opus-4", 200_000, 32_000, 1_024, keeps_thinking=False),
    _Row("claude-3-7-sonnet", 200_000, 64_000, keeps_thinking=False, manages_context=False),
    _Row("claude-3-5-sonnet", 200_000, 8_192, keeps_thinking=False, manages_context=False),
    _Row("claude-3-5", 200_000, 8_192, 2_048, keeps_thinking=False, manages_context=False),
    _Row("claude-3", 200_000, 4_096, 2_048, keeps_thinking=False, manages_context=False),
)

# OpenAI publishes input and output together; `window` is the part that a prompt may fill.
_OPENAI = (
    _Row("gpt-6.1", 922_000, 128_000),
    _Row("gpt-6", 922_000, 128_000),
    _Row("gpt-5.6", 922_000, 128_000),
    _Row("gpt-5.5", 922_000, 128_000),
    _Row("gpt-5.4", 922_000, 128_000),
    _Row("gpt-5.4-mini", 272_000, 128_000),
    _Row("gpt-5.4-nano", 272_000, 128_000),
    _Row("gpt-5.3-chat", 128_000, 16_384),
    _Row("gpt-5.2-chat", 128_000, 16_384),
    _Row("gpt-5.1-chat", 128_000, 16_384),
    _Row("gpt-5-chat", 128_000, 16_384),
    _Row("gpt-5.3", 272_000, 128_000),
    _Row("gpt-5.2", 272_000, 128_000),
    _Row("gpt-5.1", 272_000, 128_000),
    _Row("gpt-5", 272_000, 128_000),
    _Row("gpt-4.1", 1_047_576, 32_768),
    _Row("gpt-4o", 128_000, 16_384),
    _Row("chatgpt-4o", 128_000, 16_384),
    _Row("gpt-4-turbo", 128_000, 4_096),
    _Row("gpt-4-0125", 128_000, 4_096, images=False),
    _Row("gpt-4-1106", 128_000, 4_096, images=False),
    _Row("gpt-4-vision", 128_000, 4_096),
    _Row("gpt-4-32k", 32_768, 32_768, images=False),
    _Row("gpt-4", 8_192, 8_192, images=False),
    _Row("gpt-3.5-turbo", 16_385, 4_096, images=False),
    _Row("codex-mini", 200_000, 100_000),
    _Row("o4-mini", 200_000, 100_000),
    _Row("o3", 200_000, 100_000),
    _Row("o3-mini", 200_000, 100_000, images=False),
    _Row("o1", 200_000, 100_000),
    _Row("o1-mini", 128_000, 65_536, images=False),
    _Row("o1-preview", 128_000, 32_768, images=False),
)

_PROVIDERS = ("anthropic", "openai", "gguf", "scripted", "none")


def bare_name(name: str) -> str:
    """The provider's own name of a model: without `anthropic:` and without `[1m]`."""
    provider, colon, rest = name.partition(":")
    bare = rest if colon and provider in _PROVIDERS else name
    return bare.removesuffix(LONG_SUFFIX)


def capabilities(
    name: str, *, betas: Sequence[str] = (), override: int | None = None
) -> Capabilities:
    """What the model called `name` can do.

    Its window: the `[1m]` suffix, else the table, else the beta header for a million, else the
    override, else 200,000.
    """
    row, cache = _find(bare_name(name))
    known = Capabilities() if row is None else _from_row(row, cache)
    if row is None and name.startswith("anthropic:"):
        known = Capabilities(cache="anthropic", context_management=True)
    window = None if row is None else row.window
    if name.endswith(LONG_SUFFIX) or (window is None and LONG_BETA in betas):
        window = MILLION
    elif window is None and override is not None and override > 0:
        window = override
    return replace(known, window=window or DEFAULT_WINDOW)


def needs_long_beta(name: str) -> bool:
    """Is `[1m]` asked of a model that grants it only with the beta header?"""
    row, cache = _find(bare_name(name))
    return name.endswith(LONG_SUFFIX) and cache != "openai" and (row is None or row.window is None)


def window_of(
    known: Capabilities, *, percent: float | None = None, compact_size: int | None = None
) -> Window:
    return Window(known.window, known.max_output, percent, compact_size)


def _from_row(row: _Row, cache: Literal["anthropic", "openai", "none"]) -> Capabilities:
    return Capabilities(
        max_output=row.max_output,
        images=row.images,
        cache=cache,
        min_cacheable=row.min_cacheable,
        context_management=cache == "anthropic" and row.manages_context,
        keeps_thinking=cache == "anthropic" and row.keeps_thinking,
    )


def _find(bare: str) -> tuple[_Row | None, Literal["anthropic", "openai", "none"]]:
    # Gateways put a path before the name (`vendor/model`); the family starts after it.
    family = bare.rsplit("/", 1)[-1]
    if row := _longest(_ANTHROPIC, family):
        return row, "anthropic"
    if row := _longest(_OPENAI, family):
        return row, "openai"
    return None, "none"


def _longest(table: Sequence[_Row], family: str) -> _Row | None:
    fitting = [row for row in table if _is_family(row.prefix, family)]
    return max(fitting, key=lambda row: len(row.prefix), default=None)


def _is_family(prefix: str, family: str) -> bool:
    return family.startswith(prefix) and family[len(prefix) : len(prefix) + 1] in (
        "",
        "-",
        "@",
        ":",
    )
