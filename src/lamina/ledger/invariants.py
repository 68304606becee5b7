"""What always holds (F4, F5), as named functions: each returns what is wrong, or nothing.

Pure. The turn checks a request with `sendable` before each call; the tests check all of them over
arbitrary ledgers.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamina.ledger import joining
from lamina.ledger.joining import THINKING
from lamina.messages import Json, Message, Request


def roles_alternate(messages: Sequence[Message]) -> list[str]:
    """The first message is the user's, and roles take turns."""
    wrong: list[str] = []
    expected = "user"
    for n, message in enumerate(messages):
        if message["role"] != expected:
            wrong.append(f"message {n} is {message['role']}, not {expected}")
        expected = "user" if message["role"] == "assistant" else "assistant"
    return wrong


def calls_are_paired(messages: Sequence[Message]) -> list[str]:
    """Each tool_use is answered in the very next message, and each result answers one."""
    wrong: list[str] = []
    asked: list[str] = []
    for n, message in enumerate(messages):
        results = [b["tool_use_id"] for b in message["content"] if b.get("type") == "tool_result"]
        if sorted(results) != sorted(asked):
            wrong.append(f"message {n} answers {results}, but {asked} were asked")
        asked = [b["id"] for b in message["content"] if b.get("type") == "tool_use"]
        if len(set(asked)) != len(asked):
            wrong.append(f"message {n} asks twice by one id")
    if asked:
        wrong.append(f"the last message leaves {asked} open")
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
            known.add(joining.canonical(block))
        for item in entry.get("items") or ():
            known.add(joining.canonical(item.get("with")))
        for message in entry.get("messages") or ():
            known.update(joining.canonical(block) for block in message.get("content") or ())
    return [
        f"message {n} has a block from nowhere"
        for n, message in enumerate(messages)
        for block in message["content"]
        if joining.canonical(block) not in known
    ]


def is_prefix(old: Sequence[Message], new: Sequence[Message]) -> list[str]:
    """All blocks of the old view stand, unchanged and in order, at the start of the new one."""
    length = sum(len(message["content"]) for message in old)
    same = joining.prefix_length(old, new)
    return [] if same == length else [f"block {same} of {length} differs"]


def sendable(request: Request) -> list[str]:
    """Why a provider would refuse this request, checked on its last messages (growth is cheap)."""
    tail = request.messages[-3:] if len(request.messages) > 3 else request.messages
    if not request.messages:
        return ["there is no message"]
    start = 0 if len(request.messages) <= 3 else int(tail[0]["role"] == "user")
    part = tail[start:]
    wrong = calls_are_paired(part) if part else []
    return wrong + ([] if part and part[-1]["role"] == "user" else ["the last word is the model's"])
