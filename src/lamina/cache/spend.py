"""The ledger of spending (F10): every model call of every layer, with its purpose and money; and what
a call used, as its provider tells it.

Touches `<home>/spend/YYYY-MM.jsonl` only, one line a call, appended in one write so that several
processes can share the file. Caps stop background work, never the user's turn.
"""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from lamina.cache.prices import cost, price_of
from lamina.ledger.places import open_to_append
from lamina.messages import BACKGROUND, Json, Usage, as_list, as_object, dicts

if TYPE_CHECKING:
    from lamina.config import Config

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


# ---- what a call used, as providers report it


def anthropic_usage(value: object) -> Usage | None:
    """Usage as Anthropic's API reports it."""
    usage = as_object(value)
    if not usage:
        return None
    detail = as_object(usage.get("cache_creation"))
    return Usage(
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")),
        count(usage.get("cache_read_input_tokens")),
        count(usage.get("cache_creation_input_tokens")),
        count(detail.get("ephemeral_1h_input_tokens")),
    )


def openai_usage(value: object) -> Usage | None:
    """Usage as OpenAI's two APIs report it: the prompt's count includes what was cached. Routers
    that speak for Anthropic report in the same form, what was written to the cache besides.
    """
    usage = as_object(value)
    if not usage:
        return None
    prompt = count(usage.get("prompt_tokens", usage.get("input_tokens")))
    detail = as_object(usage.get("prompt_tokens_details", usage.get("input_tokens_details")))
    written = (
        count(detail.get("cache_write_tokens"))
        or count(detail.get("cache_creation_tokens"))
        or count(usage.get("cache_creation_input_tokens"))
    )
    read = min(prompt, count(detail.get("cached_tokens")))
    write = min(prompt - read, written)
    output = count(usage.get("completion_tokens", usage.get("output_tokens")))
    return Usage(prompt - read - write, output, read, write)


def count(value: object) -> int:
    right = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12
    return value if right and isinstance(value, int) else 0


def gemini_usage(value: object) -> Usage | None:
    """Usage as Google's API reports it: the prompt's count includes what was cached, thoughts are
    counted apart from the answer."""
    usage = as_object(value)
    if not usage:
        return None
    prompt = count(usage.get("promptTokenCount"))
    read = min(prompt, count(usage.get("cachedContentTokenCount")))
    thought = count(usage.get("thoughtsTokenCount"))
    return Usage(prompt - read, count(usage.get("candidatesTokenCount")) + thought, read)


# ---- and from a copy of its answer; never raises: what can't be read is not known

_TOLD = b"usage"  # `usage` and `usageMetadata`: nothing else is looked at
_LONGEST = 64 * 2**20  # bytes of a line, or of an answer in one piece


class Tee:
    """The events of a stream, or the one value of an answer, that tell of usage."""

    def __init__(self, kind: str, encoding: str) -> None:
        self.told: list[Json] = []
        self._streams = "event-stream" in kind
        self._pieces: list[bytes] = []
        self._held = 0
        packed = encoding not in ("", "identity")
        self._unpacked = _unpacker(encoding) if packed else None
        self._blind = packed and self._unpacked is None

    def take(self, data: bytes) -> None:
        if self._blind:
            return
        try:
            if self._unpacked is not None:
                data = self._unpacked(data)
            self._read(data)
        except Exception:  # noqa: BLE001 - it is only a copy
            self._blind = True

    def _read(self, data: bytes) -> None:
        if self._streams and (end := data.rfind(b"\n") + 1):
            first = data.find(b"\n")
            self._line(b"".join([*self._pieces, data[:first]]))
            if data.find(_TOLD, first, end) >= 0:  # most pieces tell nothing, and are not copied
                for line in data[first:end].split(b"\n"):
                    self._line(line)
            self._pieces, self._held = [], 0
            data = data[end:]
        self._held += len(data)
        if self._held > _LONGEST:
            self._blind = True
        else:
            self._pieces.append(bytes(data))

    def _line(self, line: bytes) -> None:
        if _TOLD in line and line.startswith(b"data:"):
            self._value(line[5:])

    def _value(self, data: bytes) -> None:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            value: object = msgspec.json.decode(data)
            # Some answers to a plain request are lists of what a stream would have said.
            self.told += dicts(as_list(value) or [value])

    def end(self) -> Iterator[Json]:
        """Nothing more comes."""
        if not self._blind:
            rest = b"".join(self._pieces)
            self._pieces = []
            if self._streams:
                self._line(rest)
            elif _TOLD in rest:
                self._value(rest)
        yield from self.told


def _unpacker(encoding: str) -> Callable[[bytes], bytes] | None:
    """Piece by piece; None for what nobody here can unpack."""
    if encoding in ("gzip", "x-gzip", "deflate"):
        import zlib

        return zlib.decompressobj(47).decompress  # either of the two
    with suppress(ImportError):
        if encoding == "zstd":
            from zstandard import ZstdDecompressor

            return ZstdDecompressor().decompressobj().decompress
        if encoding == "br":
            import brotli

            return cast("Any", brotli).Decompressor().process
    return None
