"""What always holds of a view (F4, F5), as named functions: each returns what is wrong, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

from lamina.ledger.joining import THINKING, canonical, flat
from lamina.messages import Json, Message


def roles_alternate(messages: Sequence[Message]) -> list[str]:
    """The first message is the user's, and roles take turns."""
    wrong: list[str] = []
    expected = "user"
    for n, message in enumerate(messages):
        if message["role"] != expected:
            wrong.append(f"message {n} is {message['role']}, not {expected}")
        expected = "user" if message["role"] == "assistant" else "assistant"
    return wrong


def nothing_is_empty(messages: Sequence[Message]) -> list[str]:
    """No message and no text block is empty, and no answer is nothing but thinking."""
    wrong: list[str] = []
    for n, message in enumerate(messages):
        if all(block.get("type") in THINKING for block in message["content"]):
            wrong.append(f"message {n} says nothing")
        if any(b.get("type") == "text" and not b["text"].strip() for b in message["content"]):
            wrong.append(f"message {n} has an empty text")
    return wrong


def results_come_first(messages: Sequence[Message]) -> list[str]:
    """In a user's message, tool results stand before anything else."""
    wrong: list[str] = []
    for n, message in enumerate(messages):
        kinds = [block.get("type") == "tool_result" for block in message["content"]]
        if kinds != sorted(kinds, reverse=True):
            wrong.append(f"message {n} has a result after other content")
    return wrong


def nothing_is_invented(entries: Sequence[Json], messages: Sequence[Message]) -> list[str]:
    """Each block of the view is, to the byte, in a message or an edit of the ledger."""
    known: set[bytes] = set()
    for entry in entries:
        for block in entry.get("content") or ():
            known.add(canonical(block))
        for item in entry.get("items") or ():
            known.add(canonical(item.get("with")))
        for message in entry.get("messages") or ():
            known.update(canonical(block) for block in message.get("content") or ())
    return [
        f"message {n} has a block from nowhere"
        for n, message in enumerate(messages)
        for block in message["content"]
        if canonical(block) not in known
    ]


def is_prefix(old: Sequence[Message], new: Sequence[Message]) -> list[str]:
    """All blocks of the old view stand, unchanged and in order, at the start of the new one."""
    length = sum(len(message["content"]) for message in old)
    same = prefix_length(old, new)
    return [] if same == length else [f"block {same} of {length} differs"]


def prefix_length(old: Sequence[Message], new: Sequence[Message]) -> int:
    """How many blocks, from the first, are the same in both."""
    count = 0
    for (old_role, old_block), (new_role, new_block) in zip(flat(old), flat(new), strict=False):
        if old_role != new_role:
            break
        if old_block is not new_block and canonical(old_block) != canonical(new_block):
            break
        count += 1
    return count
