"""How long a provider's prompt cache really lives: asked of the provider itself, with a few prompts
that cost cents, because no recording can tell; and what it answered, kept by model and address. And how
another program's request says it: the marks in its body, in Anthropic's form.

Talks to one model. Touches `<home>/cache-test.json`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from lamina.cache.simulate import FIVE_MINUTES, ONE_HOUR
from lamina.cache.spend import Price, cost, price_of
from lamina.events import quiet
from lamina.machine import read_json, write_private
from lamina.messages import Json, Message, Request, Usage, as_object, dicts, text
from lamina.ports import Clock, Model

FILE = "cache-test.json"
# Seconds after the first prompts: when two of them are used again, when the first lives are over, and
# when only an hour that the second one was given can still hold.
_AGAIN, _LATE, _LAST = 240.0, 330.0, 570.0
_LINE = "{number}: the quick brown fox jumps over the lazy dog, and nobody needs to know why.\n"
_LINE_TOKENS = 18  # at least
_SPARE = 1.3  # times the least that is cached at all
_MARK = b'"cache_control"'  # never within a string: its last quote would have a slash before it
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(frozen=True, slots=True)
class Findings:
    """What the provider did. Only what `forgets` was put to the test at all."""

    forgets: bool  # an unused prompt was gone after five minutes
    renews: bool  # reading one gives it five minutes more
    upgrades: bool  # a request that marks an hour gives it to all that stands before the mark
    cost: float = 0.0  # dollars
    usage: Usage = field(default_factory=Usage)

    def told(self) -> str:
        if not self.forgets:
            return "prompts that nobody used were still cached after 5:30: nothing can be told"
        renewed = "is" if self.renews else "is not"
        hour = "gets the hour" if self.upgrades else "does not get the hour"
        return f"a prompt that is read {renewed} kept for longer; one before a mark of 1h {hour}"


class _Asked:
    """Prompts of our own, each in its own words, and what they cost."""

    def __init__(self, model: Model, price: Price) -> None:
        self._model, self._price = model, price
        lines = int(_SPARE * max(1024, model.capabilities.min_cacheable) / _LINE_TOKENS)
        self._body = "".join(_LINE.format(number=number) for number in range(lines))
        self._salt = secrets.token_hex(8)
        self.usage = Usage()
        self.dollars = 0.0

    async def ask(self, name: str, *, further: int = 0, ttl: float = FIVE_MINUTES) -> Usage:
        """`further`: so many words behind the prompt as it was first; its end is what is marked."""
        said = [text(f"{self._salt} {name}\n{self._body}"), text("Answer with the one word: ok")]
        said += [text(f"Nothing else, please ({number}).") for number in range(further)]
        messages: list[Message] = [{"role": "user", "content": said}]
        request = Request(
            system=(),
            tools=(),
            messages=messages,
            model=self._model.name,
            max_tokens=16,
            purpose="probe",
            cache_ttl=int(ttl),
        )
        used = (await self._model.complete(request, quiet)).usage
        self.usage, self.dollars = self.usage + used, self.dollars + cost(used, self._price)
        return used


async def ask_provider(
    model: Model, clock: Clock, say: Callable[[str], None], prices: Any = None
) -> Findings:
    """Eight requests in ten minutes. Raises ModelError when one of them fails."""
    asked = _Asked(model, price_of(model.name, prices))
    began = clock.monotonic()

    async def until(seconds: float) -> None:
        say(f"waiting until {seconds // 60:.0f}:{seconds % 60:02.0f}")
        await clock.sleep(max(0.0, began + seconds - clock.monotonic()))

    for name in ("left alone", "read again", "marked again"):
        await asked.ask(name)
    await until(_AGAIN)
    await asked.ask("read again")
    marked = await asked.ask("marked again", further=1, ttl=ONE_HOUR)
    await until(_LATE)
    alone = await asked.ask("left alone")
    read = await asked.ask("read again")
    await until(_LAST)
    hour = await asked.ask("marked again", further=2)  # as the next question would
    return Findings(
        forgets=_missed(alone),
        renews=not _missed(read),
        # Where the hour was billed for the whole prompt it was written anew, and proves nothing.
        upgrades=not _missed(hour) and not _missed(marked) and marked.cache_write_1h > 0,
        cost=round(asked.dollars, 6),
        usage=asked.usage,
    )


def _missed(usage: Usage) -> bool:
    return usage.cache_read < usage.prompt / 2


# ---- what is known


def keep(home: Path, model: str, address: str, found: Findings, day: str) -> None:
    known = {**_read(home), _name(model, address): {**asdict(found), "day": day}}
    write_private(home / FILE, msgspec.json.format(msgspec.json.encode(known)))


def upgrades(home: Path, model: str, address: str) -> bool:
    """Was it proven here that a mark of one hour holds for all that stands before it?"""
    found = _read(home).get(_name(model, address), {})
    return found.get("forgets") is True and found.get("upgrades") is True


def _name(model: str, address: str) -> str:
    return f"{model} {address}".strip()


def _read(home: Path) -> dict[str, dict[str, Any]]:
    return read_json(home / FILE, dict[str, dict[str, Any]]) or {}


# ---- another program's request


def ours_to_choose(raw: bytes, given: Json, marked: Iterable[Message]) -> bool:
    """Whether a body has marks of which none says how long, and nothing else that looks like one.
    `marked`: its messages that have some."""
    parts = [given, *dicts(given.get("tools")), *dicts(given.get("system"))]
    parts += [block for message in marked for block in dicts(message.get("content"))]
    marks = [as_object(part["cache_control"]) for part in parts if "cache_control" in part]
    plain = all(mark.get("type") == "ephemeral" and "ttl" not in mark for mark in marks)
    return bool(marks) and plain and raw.count(_MARK) == len(marks)


def for_an_hour(raw: bytes) -> bytes:
    """A body that has such marks, with the hour put into each; all else stays as it is written."""
    pieces, done = list[bytes](), 0
    while (at := raw.find(_MARK, done)) >= 0:
        end = raw.index(b"}", at)
        pieces += (raw[done:end], b',"ttl":"1h"')
        done = end
    return b"".join([*pieces, raw[done:]])


def asked_again(raw: bytes) -> bytes:
    """The same request for one token of an answer, in one piece: it reads the cache, and so keeps it.
    b"": not without other instructions for the model, which the cache does not know."""
    try:
        given = _members(raw)
    except msgspec.MsgspecError:
        return b""
    thinking = bytes(given.get("thinking", b""))
    if "max_tokens" not in given or b"budget_tokens" in thinking:  # it must be less than max_tokens
        return b""
    less = {"max_tokens": msgspec.Raw(b"1"), "stream": msgspec.Raw(b"false")}
    return msgspec.json.encode(given | {name: less[name] for name in less.keys() & given.keys()})
