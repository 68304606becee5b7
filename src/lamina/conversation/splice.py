"""Puts what was changed into the bytes of a request: of its text only the values that are replaced are
other bytes, everything else stays as the client wrote it. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from lamina.conversation.bodies import Form
from lamina.conversation.kept import Changes
from lamina.messages import Block, Message

Span = tuple[int, int]  # of a value within the body

_HELD = 4 * 2**20  # bytes of changed messages that are remembered, at most
members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.encode
_SPACE = b" \t\n\r"


class Splicer:
    """Remembers the messages that it has changed: they are the same in the next request."""

    def __init__(self) -> None:
        # By the message as it came and the blocks that stand in it instead; those are held, so that
        # their ids stay theirs.
        self._made: dict[object, tuple[Iterable[Block], bytes]] = {}
        self._bytes = 0

    def spliced(
        self,
        body: bytes,
        form: Form,
        messages: Sequence[Message],
        changes: Changes,
        parts: tuple[Mapping[str, msgspec.Raw], Sequence[msgspec.Raw]] | None = None,
    ) -> bytes:
        """The body with the changes in it. `messages` is what it says, `parts` its members and those
        messages undecoded, if they are at hand. Raises ValueError where it is written in a way that
        can't be followed."""
        by_message = changes.by_message()
        touched = sorted(by_message.keys() | changes.added.keys())
        if not touched:
            return body
        own, raws = parts or (members(body), None)
        said = _inside(body, (0, len(body)), form.said_in, own)
        spans = list(_spans(body, said, raws))
        pieces, done = list[bytes](), 0
        for number in touched:
            start, end = spans[number]
            new, added = by_message.get(number, {}), changes.added.get(number, ())
            pieces += (
                body[done:start],
                self._message(body[start:end], form, messages[number], new, added),
            )
            done = end
        return b"".join([*pieces, body[done:]])

    def _message(
        self,
        raw: bytes,
        form: Form,
        message: Message,
        new: Mapping[int, Block],
        added: Sequence[Block],
    ) -> bytes:
        key = (raw, *((at, id(block)) for at, block in new.items()), *map(id, added))
        if key not in self._made:
            made = _changed(raw, form, message, new, added)
            if self._bytes > _HELD:
                self._made, self._bytes = {}, 0
            self._made[key] = ([*new.values(), *added], made)
            self._bytes += len(raw) + len(made)
        return self._made[key][1]


def _changed(
    raw: bytes, form: Form, message: Message, new: Mapping[int, Block], added: Sequence[Block]
) -> bytes:
    """One message."""
    whole = (0, len(raw))
    changes: list[tuple[Span, bytes]] = []
    for path, value in form.changed(message, new):
        at = whole
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
    for name, raw in (own or members(memoryview(body)[span[0] : span[1]])).items():
        start = body.index(b'"', at)
        end = _string_end(body, start)
        if msgspec.json.decode(body[start:end]) != name:
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
    for raw in raws or elements(memoryview(body)[span[0] : span[1]]):
        size = memoryview(raw).nbytes
        yield at, at + size
        at = _past(body, at + size, b",")


def _past(body: bytes, at: int, mark: bytes) -> int:
    """Behind white space, one mark if it is there, and white space."""
    while body[at] in _SPACE:
        at += 1
    if body[at : at + 1] == mark:
        at += 1
        while body[at] in _SPACE:
            at += 1
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
