"""Reads plain message lists, as agents send them to Anthropic's or OpenAI's APIs, and logs of them.
Each answer is taken as one request. Touches only the values that it is handed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lamina.messages import Block, Json, Usage
from lamina.replay.builder import SECONDS_APART, Builder, as_blocks
from lamina.replay.entry_words import (
    any_usage,
    begins_answer,
    blocks_from,
    format_of,
    goes_on,
    looks_like_message,
    messages_of,
    model_of,
    recorded_time,
    role_of,
    tools_of,
    usage_of,
)
from lamina.replay.files import Unreadable, as_list, as_object
from lamina.replay.recording import RecordedRequest

OPEN = 16  # conversations of a log that may go on: agents at work at the same time


@dataclass(frozen=True, slots=True)
class _Around:
    """What a conversation brings beside its messages."""

    thread: str
    model: str
    system: object
    tools: object


@dataclass(slots=True)
class ListReader:
    """One conversation after another into a builder."""

    builder: Builder
    clock: float = 0.0  # of recordings without times
    timed: bool = False  # whether any entry brought a time of its own
    _system: list[Block] = field(default_factory=list[Block])
    _asked_at: float = 0.0  # when the last entry came, where it says so

    def read(
        self,
        messages: Sequence[object],
        *,
        where: str = "",
        thread: str = "",
        model: str = "",
        system: object = None,
        tools: object = None,
        usage: Usage | None = None,
        known: int = 0,
        last: int = -1,
    ) -> int:
        """`usage` is that of the last answer, for bodies that were logged with their response. The
        first `known` messages were read before, up to node `last`; returns the node that now is it.
        """
        around = _Around(thread, model, system, tools)
        self._system = list(as_blocks(system) or [])
        self._asked_at = 0.0
        answers = [at for at in range(known, len(messages)) if begins_answer(messages, at)]
        final = answers[-1] if answers else -1
        lead = True  # system messages before all others belong to the frame
        for number, value in enumerate(messages):
            place = f"{where}[{number}]" if where else f"message {number + 1}"
            entry, new = as_object(value), number >= known
            if not looks_like_message(value):
                if new:
                    self.builder.skip(place, "not a message")
                continue
            if lead and role_of(entry) == "system":
                self._frame(place, entry)
                continue
            lead = lead and role_of(entry) not in ("user", "assistant")
            if new:
                last = self._entry(place, entry, last, grows=goes_on(messages, number))
            if new and last >= 0 and begins_answer(messages, number):
                self._request(place, entry, last, around, usage if number == final else None)
            self._asked_at = recorded_time(entry)
        return last

    def _request(
        self, place: str, entry: Json, answer: int, around: _Around, told: Usage | None
    ) -> None:
        """Sent when the entry before the answer came; where that is not known, when the answer did."""
        answered = recorded_time(entry)
        sent = self._asked_at or answered
        self.timed = self.timed or sent > 0
        self.clock = sent or self.clock + SECONDS_APART
        self.builder.request(
            place,
            RecordedRequest(
                self.clock,
                self.builder.messages[answer].parent,
                answer,
                usage_of(entry) or told,
                model_of(entry) or around.model,
                around.thread,
                self.builder.frame(self._system, tools_of(around.tools)),
            ),
        )
        self.clock = max(self.clock, answered)

    def _frame(self, place: str, entry: Json) -> None:
        blocks = blocks_from(entry)
        if blocks is None:
            self.builder.skip(place, "a message without content")
        else:
            self._system.extend(blocks)

    def _entry(self, place: str, entry: Json, last: int, *, grows: bool) -> int:
        """Adds one entry to the tree; returns the message that now is the last."""
        role, blocks, held = role_of(entry), blocks_from(entry), self.builder.messages
        if blocks is None:
            self.builder.skip(place, "a message without content")
            return last
        if role == "system":
            role = "user"  # in the middle it is read where it stands
        if role not in ("user", "assistant"):
            self.builder.unknown_kind(place, role)
            return last
        if grows and last >= 0 and held[last].message["role"] == "assistant":
            held[last].message["content"].extend(blocks)
            return last
        if role == "assistant" and not blocks:
            blocks = [{"type": "text", "text": ""}]
        return self.builder.add(role, blocks, last, recorded_time(entry) or self.clock)


# ---- logs


@dataclass(slots=True)
class _Conversation:
    """One of a log, as far as it has been told."""

    thread: str
    messages: list[object]
    last: int = -1


class BodyLog:
    """A log of whole conversations, or of request bodies, one a line. A body that begins with all of
    an earlier one carries that conversation on: what both hold was sent once.
    """

    def __init__(self, reader: ListReader, builder: Builder) -> None:
        self._reader, self._builder = reader, builder
        self._open: list[_Conversation] = []

    def read(self, lines: Iterable[tuple[int, Any | Unreadable]]) -> None:
        for number, value in lines:
            body = as_object(value)
            messages = messages_of(body)
            if messages is None:
                reason = value.reason if isinstance(value, Unreadable) else "holds no messages"
                self._builder.skip(f"line {number}", reason)
                continue
            self._builder.format = self._builder.format or format_of(messages)
            held = self._conversation(f"line {number}", messages)
            held.last = read_body(
                body,
                self._reader,
                where=f"line {number}",
                thread=held.thread,
                known=len(held.messages),
                last=held.last,
            )
            held.messages = list(map(_unmarked, messages))

    def _conversation(self, where: str, messages: list[object]) -> _Conversation:
        said = list(map(_unmarked, messages))
        for held in reversed(self._open):
            same = held.messages == said[: len(held.messages)]
            # What is told once more in full is another run; without its answer, another try.
            if same and (len(said) > len(held.messages) or role_of(said[-1]) != "assistant"):
                return held
        new = _Conversation(where, [])
        self._open = [*self._open[-OPEN + 1 :], new]
        return new


def read_body(
    body: Json,
    reader: ListReader,
    *,
    where: str,
    thread: str = "",
    known: int = 0,
    last: int = -1,
) -> int:
    """One request's body; see `ListReader.read`."""
    messages, model = messages_of(body) or [], body.get("model")
    answered = bool(messages) and role_of(messages[-1]) == "assistant"
    return reader.read(
        messages,
        where=where,
        thread=thread,
        model=model if isinstance(model, str) else "",
        system=body.get("system") or body.get("instructions"),
        tools=body.get("tools"),
        usage=any_usage(body.get("usage")) if answered else None,
        known=known,
        last=last,
    )


def _unmarked(message: object) -> object:
    """A message without cache breakpoints: they move on with every request."""
    entry = as_object(message)
    if not isinstance(entry.get("content"), list):
        return message
    return {**entry, "content": [_bare(part) for part in as_list(entry["content"])]}


def _bare(part: object) -> object:
    block = as_object(part)
    if "cache_control" not in block:
        return part
    return {key: value for key, value in block.items() if key != "cache_control"}
