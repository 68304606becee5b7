"""What is known of an agent from outside, running or not: a card in its ledger, by which other
processes list it, and the line that says what it does. Reads `<session>/subagents/`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from lamina.cache.spend import cost, price_of
from lamina.events import AgentChanged
from lamina.ledger import log
from lamina.messages import Json, Origin, Usage, as_object
from lamina.tools.registry import words_for

CARD, LINE = log.CARD, "agent.line"  # names of `state` entries
REMOTE = "remote"  # the type of a card whose task is done elsewhere
KILLED = "its process ended"
_FOLDER, _WATCHED = "subagents", "subagents/watched"
_LOOKS = 5.0  # seconds for which a look counts
_TAGS = ("message", "agent-notification", "system-reminder")


@dataclass(frozen=True, slots=True)
class Card:
    """One agent, as a list shows it."""

    id: str
    name: str
    type: str
    task: str
    parent: str = ""  # id of the agent that started it; "": the conversation
    depth: int = 1
    base: str = ""  # a fork's: the last entry that it shares with its parent; who does it elsewhere
    background: bool = False
    worktree: bool = False  # it works in one of its own
    status: str = "running"  # done | failed | stopped | cancelled
    reason: str = ""
    kept: str = ""  # where its worktree is
    started: float = 0.0
    ended: float = 0.0
    number: int = 0  # of the agents of its session
    tokens: int = 0
    dollars: float = 0.0

    def booked(self, usage: Usage, cost: float) -> Card:
        return replace(self, tokens=self.tokens + usage.total, dollars=self.dollars + cost)

    def changed(self) -> AgentChanged:
        return AgentChanged(self.id, self.name, self.type, self.status, self.reason or self.task)

    def to_json(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Order:
    """What the caller wants done."""

    prompt: str
    type: str = "general"
    name: str = ""
    task: str = ""  # a few words for people
    background: bool = False
    worktree: bool = False
    remote: str = ""  # a teammate that does it
    origin: Origin = "agent"  # of the prompt


def new_card(name: str, type_: str, task: str, *, taken: Collection[str], **more: Any) -> Card:
    """A card with an id, and a name that no other agent has."""
    number, free = 1, name
    while free in taken or free in ("main", "*"):
        number += 1
        free = f"{name}-{number}"
    return Card(secrets.token_hex(4), free, type_, " ".join(task.split()), **more)


def ledger_path(session: Path, id_: str) -> Path:
    """Where an agent's ledger is, below the session's folder."""
    return session / _FOLDER / f"agent-{id_}.jsonl"


def agent_ledgers(session: Path) -> Iterator[Path]:
    return (one for one in (session / _FOLDER).glob("agent-*.jsonl") if one.is_file())


def read_cards(session: Path) -> list[Card]:
    """All agents of a session, in the order in which they were started."""
    found: list[Card] = []
    for path in agent_ledgers(session):
        cards = [
            as_object(entry.get("value"))
            for entry in log.read(path).entries
            if entry.get("kind") == "state" and entry.get("name") == CARD
        ]
        with suppress(msgspec.ValidationError, IndexError):
            card = msgspec.convert(cards[-1], Card)
            # One that wrote no last word was killed with its process, or runs in another.
            cut = card.status == "running" and card.type != REMOTE
            if path.stem == f"agent-{card.id}":
                found.append(replace(card, status="stopped", reason=KILLED) if cut else card)
    return sorted(found, key=lambda card: (card.number, card.id))


def look(session: Path) -> None:
    """Tell a session of another process that somebody looks at its agents."""
    with suppress(OSError):
        (session / _WATCHED).touch(0o600)


def is_watched(session: Path) -> bool:
    with suppress(OSError):
        return time.time() - (session / _WATCHED).lstat().st_mtime < _LOOKS
    return False


def live_card(session: Path, card: Card) -> tuple[Card, str]:
    """The card of an agent that runs in another process, and what it does, by its ledger so far."""
    entries = log.read(ledger_path(session, card.id)).entries
    model = next((str(e["model"]) for e in reversed(entries) if e["kind"] == "frame"), "")
    price, doing = price_of(model), ""
    cards = [n for n, e in enumerate(entries) if e["kind"] == "state" and e.get("name") == CARD]
    for entry in entries[cards[-1] :]:  # what was before is booked on it
        if entry["kind"] == "state" and entry.get("name") == LINE:
            doing = str(entry.get("value"))
        if entry["kind"] != "message" or entry.get("role") != "assistant":
            continue
        used = Usage.from_json(as_object(entry.get("usage")))
        card = card.booked(used, cost(used, price))
        calls = [block for block in entry["content"] if block.get("type") == "tool_use"]
        doing = words_for(calls[-1]["name"], as_object(calls[-1].get("input"))) if calls else doing
    return replace(card, status="running", reason=""), doing


def enclosed(tag: str, words: str, about: Mapping[str, str] | None = None) -> str:
    """What an agent wrote, in a tag that its words can neither end nor open: they would pass for the
    user's, for another agent's or for ours."""
    for one in _TAGS:
        words = words.replace(f"<{one}", f"&lt;{one}").replace(f"</{one}", f"&lt;/{one}")
    given = "".join(f' {key}="{escape(value)}"' for key, value in (about or {}).items() if value)
    return f"<{tag}{given}>\n{words}\n</{tag}>"
