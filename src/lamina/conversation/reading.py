"""Reads the bodies of requests, and puts what was changed into their bytes. Each message of a conversation
is read once: what came before has the same bytes in the next request, so only what is new is decoded and
hashed. Of an edited body only the values that are replaced are other bytes, everything else stays as the
client wrote it. Touches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from lamina.conversation.bodies import HOUR, Form
from lamina.conversation.kept import Asked, Changes
from lamina.conversation.lineage import digest_of, linked
from lamina.messages import Block, Json, Message, dicts

Span = tuple[int, int]  # of a value within its text

_HELD = 3 * 2**20  # bytes of bodies that are remembered
_MOVING = 6  # messages at the end that a client may write anew: its marks have moved on
_decode, _encode = msgspec.json.Decoder().decode, msgspec.json.encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_SPACE = b"[ \\t\\n\\r]*"
_PAST = {
    m: re.compile(_SPACE + b"(?:[%b]%b)?" % (b"\\" + m, _SPACE)).match for m in b"{ [ , :".split()
}
_LONG = re.compile(rb'"ttl"\s*:\s*"1h"')  # a quote within a string has a slash before it
# What another Lamina before this one leaves in a request.
_MADE_BEFORE = (b"[Old tool result content cleared; ", b"<persisted-output>\\nThis result has ")


@dataclass(slots=True)
class Said:
    """A message."""

    value: Message
    digest: bytes  # of what it says, see `lineage.digest_of`
    made_before: bool
    marked: bool  # for the cache
    long: bool  # for an hour
    read: Message  # in our form
    # Blocks that were last replaced in it and added to it, and what stood in its place.
    made: tuple[object, object, bytes] = (None, None, b"")


@dataclass(slots=True)
class Around:
    """What stands before the first message and behind the last, and the members in it."""

    head: bytes
    tail: bytes
    given: Json  # all but the messages, if they are a list
    asked: Asked | None = None  # a request that has this around it, without messages

    def fits(self, raw: bytes) -> bool:
        size = len(self.head) + len(self.tail)
        return len(raw) >= size and raw.startswith(self.head) and raw.endswith(self.tail)


class Body(msgspec.Struct, frozen=True, eq=False):
    """A request as it is written."""

    raw: bytes
    form: Form
    around: Around
    start: int  # where the first message stands; 0: they are no list
    said: list[Said]
    own: list[Message]  # each in our form
    spans: list[Span]  # from there
    hashes: list[str]  # of all up to each of them, see `lineage.linked`
    noted: list[int]  # numbers of those with a mark, or with something that another Lamina made

    def asked(self) -> Asked | None:
        """The request in our form."""
        given, like = self.around.given, self.around.asked
        if not self.said:
            return self.form.asked(given) if self.form.said_in in given else None
        if like is None:
            like = self.around.asked = self.form.asked(given, known=([], []))
        if like is None:
            return None
        life = HOUR if any(one.long for one in self.said[-3:]) else like.life
        return replace(like, messages=self.own, hashes=self.hashes, life=life)

    def shared(self, raw: bytes, start: int) -> int:
        """How many messages are the same bytes in another body, where they begin at `start`."""
        low, high, done, middle, own = 0, len(self.spans), 0, 1, memoryview(self.raw)[self.start :]
        likely = high - 3  # as most go on
        while low < high:
            end = self.spans[middle - 1][1]
            if raw.startswith(own[done:end], start + done):
                low, done = middle, end
            else:
                high = middle - 1
            middle, likely = max(likely, (low + high + 1) // 2) if low else 0, 0
        return low

    def spliced(self, changes: Changes) -> bytes:
        """The body with the changes in it. Raises ValueError where it is written in a way that can't be
        followed."""
        whole, form, all_added = memoryview(self.raw), self.form, changes.added
        raw, done, pieces = whole[self.start :], 0, list[bytes | memoryview]([whole[: self.start]])
        if changes.folded:
            spans, done = self.spans[: changes.folded], self.spans[changes.folded - 1][1]
            roles = [one.value.get("role") for one in self.said[: changes.folded]]
            first = [msgspec.Raw(raw[start:end]) for start, end in spans]
            pieces.append(_encode(form.summed_up(first, roles, changes.summary))[1:-1])
        changed, all_said, all_spans = changes.replaced.items(), self.said, self.spans
        if all_added:
            numbers = sorted({**changes.replaced, **all_added})
            changed = [(number, changes.replaced.get(number)) for number in numbers]
        for number, new in changed:
            (start, end), one = all_spans[number], all_said[number]
            added = all_added.get(number) if all_added else None
            if one.made[0] is not new or one.made[1] != added:
                own = bytes(raw[start:end])
                one.made = new, added, _changed(own, form, one.value, new or {}, added or ())
            pieces += (raw[done:start], one.made[2])
            done = end
        return b"".join([*pieces, raw[done:]]) if len(pieces) > 1 else self.raw


class Reader:
    """Remembers the last bodies."""

    def __init__(self) -> None:
        self._bodies: list[Body] = []

    def read(self, raw: bytes, form: Form) -> Body:
        """Raises msgspec.MsgspecError, ValueError, KeyError."""
        around, old, same, start = self._nearest(raw, form)
        # What was read before is not gone through again: the rest is read without it.
        at = _behind(raw, start + old.spans[same - 1][1]) if old else start
        rest = b"[%b]" % raw[at : len(raw) - len(around.tail)] if around else b""
        array, less, raws = (0, len(rest)), at - start - 1, None
        with suppress(msgspec.MsgspecError):
            raws = _elements(rest)
        if around is None or raws is None:  # it only ends with the same bytes
            rest, less = raw[:start] + raw[at:], at - start - start
            own = _members(rest)
            array = _inside(rest, (0, len(rest)), form.said_in, own) if start else (0, 0)
            raws = _elements(own.pop(form.said_in)) if start else []
            kept = {name: _decode(raw) for name, raw in own.items()}
            around = Around(raw[:start], rest[array[1] - 1 :], kept)
        spans = [(a + less, b + less) for a, b in _spans(rest, array, raws)] if start else []
        said, own, hashes, known = list[Said](), list[Message](), list[str](), dict[bytes, Said]()
        if old is not None:
            said, own, hashes = old.said[:same], old.own[:same], old.hashes[:same]
            spans = old.spans[:same] + spans
            near = slice(same, same + _MOVING)  # behind a mark that moved, others are as they were
            at, rows = old.start, zip(old.spans[near], old.said[near], strict=True)
            known = {old.raw[at + start : at + end]: one for (start, end), one in rows}
        new = [known.get(data := bytes(part)) or _read(data, form) for part in raws]
        hashes += linked([one.digest for one in new], f"{form.path} ", hashes[-1] if said else "")
        noted = [n for n in old.noted if n < same] if old is not None else []
        noted += [n for n, one in enumerate(new, same) if one.marked or one.made_before]
        own += [one.read for one in new]
        body = Body(raw, form, around, start, said + new, own, spans, hashes, noted)
        self._remember(body, old)
        return body

    def _nearest(self, raw: bytes, form: Form) -> tuple[Around | None, Body | None, int, int]:
        """What is around the messages, if it was so before; the body that begins with the most of the
        same messages, how many, and where these begin; 0: they are no list."""
        bodies = [one for one in self._bodies if one.form is form]
        around = next((one.around for one in bodies if one.around.fits(raw)), None)
        start = len(around.head) if around else _first_message(raw, form)
        best, same = None, 0
        for one in bodies if start else ():
            if (shared := one.shared(raw, start)) > same:
                best, same = one, shared
                if same > len(one.spans) - _MOVING:
                    break
        return around, best, same, start

    def _remember(self, body: Body, old: Body | None) -> None:
        """A body in the place of the one that it goes on from."""
        goes_on = old is not None and old.hashes[-1] in body.hashes[len(old.hashes) - 1 :][:1]
        self._bodies = [one for one in self._bodies if one is not old or not goes_on]
        if body.said:
            self._bodies.insert(0, body)
        while len(self._bodies) > 1 and sum([len(one.raw) for one in self._bodies]) > _HELD:
            self._bodies.pop()


def _read(raw: bytes, form: Form) -> Said:
    value = _decode(raw)
    made = any(mark in raw for mark in _MADE_BEFORE)
    marked = any("cache_control" in block for block in dicts(value.get("content")))
    long = b'"ttl"' in raw and _LONG.search(raw) is not None
    bare = b"null" not in raw and b"cache_control" not in raw
    return Said(value, digest_of(value, bare=bare), made, marked, long, form.read(value))


def _first_message(raw: bytes, form: Form) -> int:
    """Where the first message begins; 0: there is none."""
    own = _members(raw)
    if form.said_in not in own:
        return 0
    at = _inside(raw, (0, len(raw)), form.said_in, own)[0]
    return _past(raw, at, b"[") if raw[at : at + 1] == b"[" else 0


def _changed(
    raw: bytes, form: Form, message: Message, new: Mapping[int, Block], added: Sequence[Block]
) -> bytes:
    """One message."""
    whole = (0, len(raw))
    changes: list[tuple[Span, bytes]] = []
    for number, block in new.items():
        at, (path, value) = whole, form.put(message, number, block)
        for step in path:
            at = _inside(raw, at, step)
        changes.append((at, _encode(value)))
    if added:
        more = form.append(message, added)
        at = _inside(raw, whole, form.parts_in)
        if isinstance(more, str) or raw[at[0] : at[0] + 1] != b"[":
            changes.append((at, _encode(more)))
        else:  # before the bracket that ends them
            parts = b"".join(b"," + _encode(part) for part in more)
            changes.append(((at[1] - 1, at[1] - 1), parts))
    return b"".join(_pieces(raw, sorted(changes)))


def _pieces(raw: bytes, new: list[tuple[Span, bytes]]) -> Iterator[bytes]:
    done = 0
    for (start, end), value in new:
        if start < done:
            raise ValueError("two changes meet in one place")
        yield raw[done:start]
        yield value
        done = end
    yield raw[done:]


def _inside(
    body: bytes, span: Span, step: str | int, own: Mapping[str, msgspec.Raw] | None = None
) -> Span:
    """Where a member of an object, or an element of an array, stands."""
    if isinstance(step, int):
        return list(_spans(body, span))[step]
    at, found = _past(body, span[0], b"{"), None
    for name, raw in (own or _members(memoryview(body)[span[0] : span[1]])).items():
        start = body.index(b'"', at)
        end = _string_end(body, start)
        if _decode(body[start:end]) != name:
            raise ValueError("a name is there twice")
        at = _past(body, end, b":")
        size = memoryview(raw).nbytes
        if name == step:
            found = (at, at + size)
        at = _past(body, at + size, b",")
    if found is None or body[at : at + 1] != b"}":
        raise ValueError(f"{step} is not where it should be")
    return found


def _spans(body: bytes, span: Span, raws: Sequence[msgspec.Raw] | None = None) -> Iterator[Span]:
    """The elements of an array: between them stand commas and white space only."""
    at = _past(body, span[0], b"[")
    for raw in _elements(memoryview(body)[span[0] : span[1]]) if raws is None else raws:
        size = memoryview(raw).nbytes
        yield at, at + size
        at = _past(body, at + size, b",")


def _past(body: bytes, at: int, mark: bytes) -> int:
    """Behind white space, one mark if it is there, and white space."""
    return found.end() if (found := _PAST[mark](body, at)) else at


def _behind(body: bytes, end: int) -> int:
    """Where what follows a message of the list begins."""
    at = _past(body, end, b",")
    if (b"," in body[end:at]) == (body[at : at + 1] == b"]"):
        raise ValueError("the messages are no list")
    return at


def _string_end(body: bytes, start: int) -> int:
    at = start
    while True:
        at = body.index(b'"', at + 1)
        slashes = at - 1
        while body[slashes : slashes + 1] == b"\\":
            slashes -= 1
        if (at - slashes) % 2:
            return at + 1
