"""What a model call costs: the list prices of the table of models, and the sum for one call's usage.
Touches nothing else; settings' overrides are passed in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from typing import Any

from lamina.errors import SettingsError
from lamina.ledger.tokens import ModelRow, capabilities, model_table
from lamina.messages import Usage

# Models that run here, or not at all: no bill.
FREE_PREFIXES = ("gguf:", "scripted:")
FREE_NAMES = frozenset({"none", "scripted", "<synthetic>", "local"})  # the last is `_FREE` itself

_SNAPSHOT = re.compile(r"(-\d{8}|-\d{4}-\d{2}-\d{2}|-latest)$")
_FAMILY = re.compile(r"claude-(?:\d[\d-]*-)?(opus|sonnet|haiku|fable|mythos)\b")


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens, by kind, and the caching limits that go with a model."""

    model: str  # the row that was used: it may be a family's, not the name asked for
    provider: str  # anthropic | openai | local | unknown
    since: str  # the day from which the row holds, YYYY-MM-DD
    input: float
    output: float
    cache_read: float
    cache_write_5m: float
    cache_write_1h: float
    min_cacheable: int = 1024
    long_above: int = 0  # prompts over this many tokens cost more; 0: no such limit
    long_input: float = 1.0
    long_output: float = 1.0
    guessed: bool = False  # no row names this model: say so wherever the figure is shown

    @property
    def bills_writes(self) -> bool:
        """Whether writing the cache costs more than plain input."""
        return self.cache_write_5m > self.input


_FREE = Price("local", "local", "2026-01-01", 0.0, 0.0, 0.0, 0.0, 0.0)
_AMOUNTS = ("output", "cache_read", "cache_write_5m", "cache_write_1h")
_FIGURES = frozenset(field.name for field in fields(Price)) - {"model", "since", "guessed"}


def price_of(
    model: str, overrides: Mapping[str, Mapping[str, Any]] | None = None, *, on: str = ""
) -> Price:
    """The price of a model, on a day (YYYY-MM-DD) or, by default, the newest known.

    A name may carry a provider prefix, a snapshot date or a `[1m]` suffix. A Claude model that no
    row names gets its family's newest row, any other unknown model the table's fallback row; both
    are marked `guessed`. Local and scripted models cost nothing. `overrides` maps a model's name
    to the figures that replace the table's; of a model in no row the others follow its input price.
    """
    name = plain_name(model)
    if name in FREE_NAMES or model.startswith(FREE_PREFIXES):
        price = _FREE
    else:
        price = _listed(name, on) or _family(name, on) or _table()[1]
    changes = (overrides or {}).get(model) or (overrides or {}).get(name)
    return _overridden(price, name, changes) if changes else price


def cost(usage: Usage, price: Price) -> float:
    """Dollars for one call."""
    long = bool(price.long_above) and usage.prompt > price.long_above
    written_1h = min(usage.cache_write_1h, usage.cache_write)
    prompt = (
        usage.input * price.input
        + usage.cache_read * price.cache_read
        + (usage.cache_write - written_1h) * price.cache_write_5m
        + written_1h * price.cache_write_1h
    )
    answer = usage.output * price.output
    if long:
        prompt *= price.long_input
        answer *= price.long_output
    return (prompt + answer) / 1_000_000


def money_text(dollars: float) -> str:
    """$12.30; small sums to a hundredth of a cent."""
    return f"${dollars:,.2f}" if dollars >= 1 or not dollars else f"${dollars:.4f}"


@lru_cache(256)
def plain_name(model: str) -> str:
    """A model's name without provider, region, snapshot date and window suffix."""
    name = model.strip().lower().removesuffix("[1m]")
    name = name.rsplit("/", 1)[-1].split("@", 1)[0]
    for mark in ("anthropic:", "openai:", "anthropic."):
        name = name.split(mark, 1)[-1]
    name = re.sub(r"-v\d+(:\d+)?$", "", name).split(":", 1)[0] if "claude" in name else name
    name = _SNAPSHOT.sub("", name)
    # Routers write a version with a dot where the provider has a dash.
    return name.replace(".", "-") if name.startswith("claude") else name


def _listed(name: str, on: str) -> Price | None:
    """The row whose name is the longest whole-word beginning of `name`."""
    rows = _table()[0]
    while name:
        if name in rows:
            return _valid_on(rows[name], on)
        # "gpt-5.1-codex" is priced as "gpt-5.1", but "claude-opus-4-9" is no "claude-opus-4".
        name, _, last = name.rpartition("-")
        if last.isdigit() and last != "0":
            return None
    return None


def _family(name: str, on: str) -> Price | None:
    found = _FAMILY.match(name)
    if found is None:
        return None
    word = found.group(1)
    alike = [row for rows in _table()[0].values() for row in rows if word in row.model.split("-")]
    newest = sorted(alike, key=lambda row: (row.since, row.model))
    return replace(_valid_on(newest, on), guessed=True) if newest else None


def _valid_on(rows: list[Price], on: str) -> Price:
    """The row in force on a day; before the oldest row's day, the oldest."""
    held = [row for row in rows if not on or row.since <= on]
    return held[-1] if held else rows[0]


def _overridden(price: Price, name: str, changes: Mapping[str, Any]) -> Price:
    for key, value in changes.items():
        right = isinstance(value, str) if key == "provider" else _is_amount(value)
        if key not in _FIGURES or not right:
            raise SettingsError(
                f"The price of {name!r} has a wrong entry {key!r} = {value!r}; "
                f"use one of {', '.join(sorted(_FIGURES))} with an amount in dollars per million."
            )
    if price.guessed and price.input > 0 and "input" in changes:
        # Figures of another model say nothing about this one's; their proportions are common.
        factor = changes["input"] / price.input
        price = replace(price, **{kind: getattr(price, kind) * factor for kind in _AMOUNTS})
    return replace(price, **{**changes, "model": name, "guessed": False})


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


@cache
def _table() -> tuple[dict[str, list[Price]], Price]:
    """Rows by model, oldest first, and the fallback row."""
    rows: dict[str, list[Price]] = {}
    for row in model_table()[0]:
        if row.prices:
            rows.setdefault(row.name, []).append(_price(row))
    for priced in rows.values():
        priced.sort(key=lambda price: price.since)
    return rows, replace(rows.pop("fallback")[0], guessed=True)


def _price(row: ModelRow) -> Price:
    since, *dollars, long = row.prices
    above, times_in, times_out = (0, 1.0, 1.0) if long == "-" else long.split(":")
    return Price(
        row.name,
        row.provider,
        since,
        *map(float, dollars),
        min_cacheable=capabilities(row.name).min_cacheable,
        long_above=int(above),
        long_input=float(times_in),
        long_output=float(times_out),
    )


def checked_on() -> str:
    """The day on which the table was last compared with the providers' pages."""
    return model_table()[1]
