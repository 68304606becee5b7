"""Puts what was changed into the bytes of a request: of its text only the values that are replaced are
other bytes, everything else stays as the client wrote it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from lamina.conversation.bodies import Form
from lamina.conversation.kept import Changes
from lamina.messages import Json, as_list

Span = tuple[int, int]  # of a value within the body

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.encode
_SPACE = b" \t\n\r"


def spliced(body: bytes, form: Form, given: Json, changes: Changes) -> bytes:
    """The body with the changes in it; `given` is what it says. Raises ValueError where it is written
    in a way that can't be followed."""
    by_message = changes.by_message()
    touched = sorted(by_message.keys() | changes.added.keys())
    if not touched:
        return body
    messages = list(_spans(body, _inside(body, (0, len(body)), form.said_in)))
    new: list[tuple[Span, bytes]] = []
    for number in touched:
        message, span = as_list(given[form.said_in])[number], messages[number]
        for path, value in form.changed(message, by_message.get(number, {})):
            at = span
            for step in path:
                at = _inside(body, at, step)
            new.append((at, _encode(value)))
        if added := changes.added.get(number):
            more = form.append(message, added)
            at = _inside(body, span, form.parts_in)
            if isinstance(more, str) or body[at[0] : at[0] + 1] != b"[":
                new.append((at, _encode(more)))
            else:  # before the bracket that ends them
                parts = b"".join(b"," + _encode(part) for part in more)
                new.append(((at[1] - 1, at[1] - 1), parts))
    return b"".join(_pieces(body, sorted(new)))


def _pieces(body: bytes, new: list[tuple[Span, bytes]]) -> Iterator[bytes]:
    done = 0
    for (start, end), value in new:
        if start < done:
            raise ValueError("two changes meet in one place")
        yield body[done:start]
        yield value
        done = end
    yield body[done:]


def _inside(body: bytes, span: Span, step: str | int) -> Span:
    """Where a member of an object, or an element of an array, stands."""
    if isinstance(step, int):
        return list(_spans(body, span))[step]
    view = memoryview(body)[span[0] : span[1]]
    at, found = span[0] + 1, None
    for name, raw in _members(view).items():
        start = body.index(b'"', at)
        end = _string_end(body, start)
        if msgspec.json.decode(body[start:end]) != name:
            raise ValueError("a name is there twice")
        at = _past(body, end, b":")
        size = memoryview(raw).nbytes
        if name == step:
            found = (at, at + size)
        at = _past(body, at + size, b",")
    if found is None or at != span[1] - 1:
        raise ValueError(f"{step} is not where it should be")
    return found


def _spans(body: bytes, span: Span) -> Iterator[Span]:
    """The elements of an array: between them stand commas and white space only."""
    at = _past(body, span[0], b"[")
    for raw in _elements(memoryview(body)[span[0] : span[1]]):
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
