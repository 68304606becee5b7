"""What is known of an agent from outside, running or not: a card in its ledger, by which other
processes list it, and the line that says what it does. Reads `<session>/subagents/`.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from lamina.ledger import log
from lamina.messages import Json, Usage, as_object

CARD = "agent"  # the name of the `state` entry
_FOLDER = "subagents"


@dataclass(frozen=True, slots=True)
class Card:
    """One agent, as a list shows it."""

    id: str
    name: str
    type: str
    task: str
    parent: str = ""  # id of the agent that started it; "": the conversation
    depth: int = 1
    base: str = ""  # a fork's: the last entry that it shares with its parent
    background: bool = False
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

    def to_json(self) -> Json:
        return asdict(self)


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


def read_cards(session: Path) -> list[Card]:
    """All agents of a session, in the order in which they were started."""
    found: list[Card] = []
    for path in (session / _FOLDER).glob("agent-*.jsonl"):
        cards = [
            as_object(entry.get("value"))
            for entry in log.read(path).entries
            if entry.get("kind") == "state" and entry.get("name") == CARD
        ]
        if cards and (card := _card(cards[-1])) is not None:
            # One that wrote no last word was killed with its process, or runs in another.
            found.append(replace(card, status="stopped") if card.status == "running" else card)
    return sorted(found, key=lambda card: (card.number, card.id))


def _card(value: Mapping[str, Any]) -> Card | None:
    known = {one.name for one in fields(Card)}
    try:
        return Card(**{key: item for key, item in value.items() if key in known})
    except TypeError:
        return None


_DOES = {
    "Read": "Reading",
    "Write": "Writing",
    "Edit": "Editing",
    "Grep": "Searching for",
    "Glob": "Looking for",
    "Bash": "Running",
    "Agent": "Starting",
    "SendMessage": "Writing to",
}
_ABOUT = ("file_path", "pattern", "command", "name", "to", "path", "query")


def line_of(tool: str, input_: Mapping[str, Any]) -> str:
    """What a tool call does, in a few words: `Reading runner.py`."""
    about = next((str(input_[key]) for key in _ABOUT if input_.get(key)), "")
    if "/" in about and " " not in about:
        about = about.rstrip("/").rpartition("/")[2]
    words = " ".join(about.split()[:3])
    return f"{_DOES.get(tool, f'Using {tool} on' if words else f'Using {tool}')} {words}".strip()
