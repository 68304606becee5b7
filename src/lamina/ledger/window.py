"""How much of a model's window a session may fill: what each model can do, and the marks that the
layers act at (F3). Reads the table of models beside this file; overrides come in as arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Literal, cast

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

    @property
    def frame(self) -> int:
        """What system prompt and tools may take; above it they are given in their short form."""
        return self.size // 4

    @property
    def least_answer(self) -> int:
        """The shortest answer that is worth a call."""
        return min(1_000, self.max_output, self.size // 8)

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
class ModelRow:
    """A line of `models.txt`, the one table of models. `limits` and `prices` may be empty."""

    name: str
    provider: str
    limits: Sequence[str]  # window, output, cacheable, lacks
    prices: Sequence[str]  # since, input, output, read, write_5m, write_1h, long


@cache
def model_table() -> tuple[tuple[ModelRow, ...], str]:
    """All rows, and the day on which they were last compared with the providers' pages."""
    text = files("lamina.ledger").joinpath("models.txt").read_text("utf-8")
    checked, rows = "", list[ModelRow]()
    for line in text.splitlines():
        if line.startswith("# checked: "):
            checked = line.removeprefix("# checked: ")
        elif line and not line.startswith("#"):
            name, provider, *rest = line.split()
            limits = () if rest[1] == "-" else rest[:4]
            prices = () if rest[4] == "-" else rest[4:]
            rows.append(ModelRow(name, provider, limits, prices))
    return tuple(rows), checked


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
    row = _find(bare_name(name))
    known = Capabilities() if row is None else _from_row(row)
    if row is None and name.startswith("anthropic:"):
        known = Capabilities(cache="anthropic", context_management=True)
    window = None if row is None or row.limits[0] == "beta" else int(row.limits[0])
    if name.endswith(LONG_SUFFIX) or (window is None and LONG_BETA in betas):
        window = MILLION
    elif window is None and override is not None and override > 0:
        window = override
    return replace(known, window=window or DEFAULT_WINDOW)


def needs_long_beta(name: str) -> bool:
    """Is `[1m]` asked of a model that grants it only with the beta header?"""
    row = _find(bare_name(name))
    return name.endswith(LONG_SUFFIX) and (
        row is None or (row.provider == "anthropic" and row.limits[0] == "beta")
    )


def no_long_window(name: str) -> str:
    """Why `[1m]` can't be had of this model, in one sentence; "" if it can."""
    row = _find(bare_name(name))
    known = row is not None and row.limits[0] != "beta" and int(row.limits[0])
    if not name.endswith(LONG_SUFFIX) or not known or known >= MILLION:
        return ""
    return (
        f"{bare_name(name)} has a window of {known:,} tokens and no longer one: "
        f"write its name without {LONG_SUFFIX}."
    )


def window_of(
    known: Capabilities, *, percent: float | None = None, compact_size: int | None = None
) -> Window:
    return Window(known.window, known.max_output, percent, compact_size)


def _from_row(row: ModelRow) -> Capabilities:
    _, max_output, cacheable, lacks = row.limits
    return Capabilities(
        max_output=int(max_output),
        images="images" not in lacks,
        cache=cast("Literal['anthropic', 'openai']", row.provider),
        min_cacheable=int(cacheable),
        context_management=row.provider == "anthropic" and "context" not in lacks,
        keeps_thinking=row.provider == "anthropic" and "thinking" not in lacks,
    )


def _find(bare: str) -> ModelRow | None:
    """The row with limits whose name is the longest beginning of the model's."""
    # Gateways put a path before the name (`vendor/model`); the family starts after it.
    family = bare.rsplit("/", 1)[-1]
    fitting = [row for row in model_table()[0] if row.limits and _is_family(row.name, family)]
    return max(fitting, key=lambda row: len(row.name), default=None)


def _is_family(name: str, family: str) -> bool:
    return family.startswith(name) and family[len(name) : len(name) + 1] in ("", "-", "@", ":")
