"""Money: what a model call costs by the table of models, and the ledger of spending (F10), which has
every call of every layer with its purpose and price.

Touches `<home>/spend/YYYY-MM.jsonl` only, one line a call, appended in one write so that several
processes can share the file. Caps stop background work, never the user's turn.
"""

from __future__ import annotations

import errno
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lamina.errors import SettingsError
from lamina.ledger.tokens import ModelRow, capabilities, model_table
from lamina.machine import open_to_append
from lamina.messages import BACKGROUND, Json, Usage

if TYPE_CHECKING:
    from lamina.config import Config

# ---- prices

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


def price_of(model: str, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> Price:
    """The newest known price of a model.

    A name may carry a provider prefix, a snapshot date or a `[1m]` suffix. A Claude model that no
    row names gets its family's newest row, any other unknown model the table's fallback row; both
    are marked `guessed`. Local and scripted models cost nothing. `overrides` maps a model's name
    to the figures that replace the table's; of a model in no row the others follow its input price.
    """
    name = plain_name(model)
    if name in FREE_NAMES or model.startswith(FREE_PREFIXES):
        price = _FREE
    else:
        price = _listed(name) or _family(name) or _table()[1]
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


def _listed(name: str) -> Price | None:
    """The row whose name is the longest whole-word beginning of `name`."""
    rows = _table()[0]
    while name:
        if name in rows:
            return rows[name]
        # "gpt-5.1-codex" is priced as "gpt-5.1", but "claude-opus-4-9" is no "claude-opus-4".
        name, _, last = name.rpartition("-")
        if last.isdigit() and last != "0":
            return None
    return None


def _family(name: str) -> Price | None:
    found = _FAMILY.match(name)
    if found is None:
        return None
    word = found.group(1)
    alike = [row for row in _table()[0].values() if word in row.model.split("-")]
    newest = max(alike, key=lambda row: (row.since, row.model), default=None)
    return replace(newest, guessed=True) if newest else None


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
def _table() -> tuple[dict[str, Price], Price]:
    """The newest row of each model, and the fallback row."""
    priced = [_price(row) for row in model_table()[0] if row.prices]
    rows = {price.model: price for price in sorted(priced, key=lambda price: price.since)}
    return rows, replace(rows.pop("fallback"), guessed=True)


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


# ---- the ledger

MOST = 1e9  # dollars that one call can't cost


class Spend:
    """Books calls and says whether background work may go on."""

    def __init__(
        self,
        folder: Path,
        *,
        daily_cap: float = 0.0,
        layer_caps: Mapping[str, float] | None = None,
        prices: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder = folder
        self._daily_cap = daily_cap
        self._layer_caps = dict(layer_caps or {})
        self._prices = prices
        self._today: tuple[str, int, dict[str, float]] = ("", 0, {})
        self.problem = ""  # why the last booking is not on disk

    @classmethod
    def of(cls, config: Config) -> Spend:
        """As the settings have it."""
        return cls(
            config.own_home / "spend",
            daily_cap=config.float("spend.daily_cap"),
            layer_caps=config.table("spend.layer_caps"),
            prices=config.table("prices"),
        )

    def book(
        self,
        *,
        purpose: str,
        model: str,
        usage: Usage,
        session: str,
        at: float,
        instead: Mapping[str, float] | None = None,
    ) -> float:
        """Write one call down; return its cost in dollars. A full disk never stops a turn. `instead`:
        dollars that it would have cost otherwise, where that was reckoned: `direct`, with nothing
        changed in it, or `acting`, had the gateway not only looked on."""
        dollars = cost(usage, price_of(model, self._prices))
        moment = datetime.fromtimestamp(at, UTC)
        stamp = moment.isoformat(timespec="milliseconds")
        line: Json = {
            "ts": stamp.replace("+00:00", "Z"),
            "purpose": purpose,
            "model": model,
            "session": session,
            **usage.to_json(),
            "cost": round(dollars, 8),
            **{name: round(other, 8) for name, other in (instead or {}).items()},
        }
        try:
            _append(f"{self._folder}/{stamp[:7]}.jsonl", msgspec.json.encode(line) + b"\n")
            self.problem = ""
        except OSError as error:
            self.problem = f"Can't write spending to {self._folder}: {error.strerror}."
        return dollars

    def refusal(self, purpose: str, at: float) -> str:
        """Why background work of this purpose must stop now, in one sentence; "" if it may go on."""
        if purpose not in BACKGROUND:
            return ""
        spent = self.background(at)
        layer_cap = self._layer_caps.get(purpose, 0.0)
        if layer_cap and spent.get(purpose, 0.0) >= layer_cap:
            return (
                f"Background work for {purpose} stopped: today's cap of ${layer_cap:g} is spent "
                "(spend.layer_caps)."
            )
        if self._daily_cap and sum(spent.values()) >= self._daily_cap:
            return (
                f"Background work stopped: today's cap of ${self._daily_cap:g} is spent "
                "(spend.daily_cap)."
            )
        return ""

    def background(self, at: float) -> dict[str, float]:
        """Dollars that each purpose of background work has cost on that day (UTC)."""
        spent = self._spent_on(datetime.fromtimestamp(at, UTC))
        return {name: spent[name] for name in BACKGROUND if name in spent}

    def _spent_on(self, day: datetime) -> dict[str, float]:
        """Dollars by purpose today, by all processes; only what was added since is read."""
        key = f"{day:%Y-%m-%d}"
        name, offset, sums = self._today
        if name != key:
            name, offset, sums = key, 0, {}
        path = self._folder / f"{day:%Y-%m}.jsonl"
        try:
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read()
        except OSError:
            data = b""
        end = data.rfind(b"\n") + 1
        for row in _rows(data[:end]):
            if str(row.get("ts", "")).startswith(key):
                purpose = str(row.get("purpose"))
                sums[purpose] = sums.get(purpose, 0.0) + _dollars(row)
        self._today = (key, offset + end, sums)
        return sums

    def calls(self) -> Iterator[Json]:
        """All calls ever booked, oldest first; lines that can't be read are passed over."""
        for path in sorted(self._folder.glob("*.jsonl")):
            try:
                yield from _rows(path.read_bytes())
            except OSError:
                continue


def _append(path: str, line: bytes) -> None:
    """In one write. Half a line that a full disk or a crash left before it costs only itself."""
    fd, _ = open_to_append(path)
    try:
        end = os.lseek(fd, 0, os.SEEK_END)
        torn = end > 0 and os.pread(fd, 1, end - 1) != b"\n"
        data = b"\n" + line if torn else line
        if os.write(fd, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(fd)


def _rows(data: bytes) -> Iterator[Json]:
    for line in data.splitlines():
        try:
            row = msgspec.json.decode(line)
        except msgspec.MsgspecError:
            continue
        if isinstance(row, dict):
            yield row


def _dollars(row: Json) -> float:
    """What a line says that it cost; one that was damaged costs nothing, and never less."""
    value = row.get("cost")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return float(value) if 0 <= value < MOST else 0.0


@dataclass(frozen=True, slots=True)
class Group:
    """Spending of one layer, day, session or model."""

    name: str
    calls: int
    usage: Usage
    cost: float


def grouped(calls: Iterable[Json], by: str) -> list[Group]:
    """Sums by `layer`, `day`, `session` or `model`; days in order, others dearest first."""
    field = {"layer": "purpose", "day": "ts"}.get(by, by)
    cut = 10 if by == "day" else None
    sums: defaultdict[str, _Sum] = defaultdict(_Sum)
    for row in calls:
        sums[str(row.get(field) or "?")[:cut]].take(row)
    groups = [
        Group(name, held.calls, Usage(*held.tokens), held.cost) for name, held in sums.items()
    ]
    return sorted(groups, key=lambda g: g.name if by == "day" else -g.cost)


class _Sum:
    """Adds up in place: there may be a million calls."""

    __slots__ = ("calls", "cost", "tokens")

    def __init__(self) -> None:
        self.calls, self.cost = 0, 0.0
        self.tokens = [0, 0, 0, 0, 0]

    def take(self, row: Json) -> None:
        self.calls += 1
        self.cost += _dollars(row)
        for at, kind in enumerate(_KINDS):
            value = row.get(kind)
            if isinstance(value, int) and value > 0:
                self.tokens[at] += value


_KINDS = tuple(Usage().to_json())  # in the order of Usage
