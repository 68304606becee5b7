"""Tokens: estimates of what blocks take (F2), and how much of a model's window a session may fill: what
each model can do, and the marks that the layers act at (F3).

Text is 4 bytes a token, JSON 2, an image or document 2,000 tokens. The provider's own count anchors
the total; estimates only bridge the gap between one answer and the next request. Reads the table of
models beside this file; overrides come in as arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from lamina.messages import Block, Json
from lamina.ports import Capabilities

if TYPE_CHECKING:
    from lamina.config import Config

DEFAULT_WINDOW = 200_000
MILLION = 1_000_000
LONG_SUFFIX = "[1m]"
LONG_BETA = "context-1m-2025-08-07"
MEDIA_TOKENS = 2_000

# Of blocks: how many, bytes, escapes, signs that are no letter or digit, bytes of sealed thinking.
Traits = tuple[float, ...]

_encode = msgspec.json.Encoder().encode
_LETTERS = bytes(sign for sign in range(256) if sign > 127 or chr(sign).isalnum()) + b" "
_SEALED = ("signature", "data")
_UNCOUNTED = frozenset(("cache_control", *_SEALED))
_BEGIN = (4.0, 0.25, 0.0, 0.0, 0.0)  # tokens for each trait, before a provider has counted anything
_LIKELY = (0.1, 1.0)  # tokens a byte; what was counted beside that has another cause
_skip = msgspec.json.Decoder(msgspec.Raw).decode


def of_text(value: str) -> int:
    """4 bytes a token, rounded up."""
    return (len(value) if value.isascii() else len(value.encode("utf-8", "replace"))) + 3 >> 2


def of_json(value: Any) -> int:
    """2 bytes a token of its compact form, rounded up."""
    return len(_encode(value)) + 1 >> 1


def of_block(block: Block) -> int:
    kind = block.get("type")
    if kind == "text":
        return of_text(str(block.get("text", "")))
    if kind in ("image", "document"):
        return MEDIA_TOKENS
    if kind == "tool_result":
        content: Any = block.get("content", "")
        if isinstance(content, str):
            return of_output(content)
        parts = cast("list[Any]", content) if isinstance(content, list) else None
        return of_json(content) if parts is None else sum(map(_of_part, parts))
    if kind == "tool_use":
        return of_text(str(block.get("name", ""))) + of_json(block.get("input"))
    if kind == "thinking":
        return of_text(str(block.get("thinking", "")))
    return of_json(block)


def of_output(value: str) -> int:
    """What a tool printed: JSON is as dense there as anywhere else."""
    return of_text(value) * (2 if _is_json(value) else 1)


def _is_json(value: str) -> bool:
    """One JSON value with parts, or a line each."""
    if value[:1] not in ("{", "[") or value.rstrip()[-1:] not in ("}", "]"):
        return False
    for parts in ([value], value.split("\n", 2)[:2]):
        with suppress(msgspec.DecodeError):
            return all(isinstance(_skip(part), msgspec.Raw) for part in parts if part.strip())
    return False


def _of_part(part: Any) -> int:
    if not isinstance(part, dict):
        return of_json(part)
    block = cast("Block", part)
    return of_output(str(block.get("text", ""))) if block.get("type") == "text" else of_block(block)


def of_blocks(blocks: Iterable[Block]) -> int:
    return sum(of_block(block) for block in blocks)


def of_frame(system: Iterable[Block], tools: Iterable[Json]) -> int:
    return of_blocks(system) + sum(of_json(tool) for tool in tools)


def traits(blocks: Iterable[Block]) -> Traits:
    """What a tokenizer's count goes by. Media count nothing: nobody knows what they weigh."""
    count = size = escapes = signs = sealed = 0
    for block in blocks:
        if block.get("type") not in ("image", "document"):
            said = block
            if not _UNCOUNTED.isdisjoint(block):
                said = {name: value for name, value in block.items() if name not in _UNCOUNTED}
                sealed += sum(len(str(block.get(name) or "")) for name in _SEALED)
            data = _encode(said)
            count, size = count + 1, size + len(data)
            escapes += data.count(b"\\")
            signs += len(data.translate(None, _LETTERS))
    return count, size, escapes, signs, sealed


class Counted:
    """A provider's own count of tokens, learnt from how much more each request is counted than the one
    before it: least squares, one row at a time."""

    def __init__(self) -> None:
        self._each, self.rows = list(_BEGIN), 0
        spread = (4.0, 0.1, 0.3, 0.3, 0.3)  # how far off the beginning may be
        self._doubt = [[s * s * (i == j) for j in range(5)] for i, s in enumerate(spread)]

    def of(self, traits: Traits) -> int:
        return max(0, round(sum(map(float.__mul__, self._each, map(float, traits)))))

    def learn(self, more: Sequence[float], counted: int) -> None:
        size = more[1]
        if not size or not _LIKELY[0] < counted / size < _LIKELY[1]:
            return
        self.rows += 1
        row = [one / abs(size) ** 0.5 for one in more]
        moved = [sum(map(float.__mul__, doubt, row)) for doubt in self._doubt]
        whole = 0.01 + sum(map(float.__mul__, moved, row))
        off = counted / abs(size) ** 0.5 - sum(map(float.__mul__, self._each, row))
        self._each = [one + gain / whole * off for one, gain in zip(self._each, moved, strict=True)]
        for held, gain in zip(self._doubt, moved, strict=True):
            held[:] = [one - gain * other / whole for one, other in zip(held, moved, strict=True)]


# ---- the marks of a window


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


def window_of(known: Capabilities, config: Config) -> Window:
    """The marks as the settings have them."""
    return Window(
        known.window,
        known.max_output,
        config.float("compact.percent") or None,
        config.int("compact.window") or None,
        Margins(
            config.int("compact.output_reserve"),
            config.int("compact.margin"),
            config.int("compact.warning_margin"),
            config.int("compact.blocking_margin"),
        ),
    )


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
