"""Sessions of all agents that Lamina reads, one of them request by request: what was in the view, what
each layer took out before it, what the cache gave and what it cost; folded spans as they were; agents
as a tree. And what all model calls have cost, what was saved, and how well cache, compaction and
memory do: the figures of `lamina spend`. Reads ledgers, changes nothing.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from lamina.agents.roster import Card, ledger_path, look, read_cards
from lamina.cache.spend import Spend
from lamina.cli import agents, context, sessions, spend, transcript
from lamina.errors import LaminaError
from lamina.ledger import log, spans
from lamina.ledger.record import Ledger
from lamina.messages import Json
from lamina.web.memory_pages import on_page
from lamina.web.pages import LONGEST, Project, Screen
from lamina.web.server import Asked, NotThere

_A_PAGE = 40  # sessions
_CALLS = 100  # requests on a page
_ROWS, _DAYS = 12, 30  # of what was spent
_PATIENCE = 2.0  # seconds in which sessions of other agents are read for the list


def files_of(project: Project) -> list[Path]:
    """All sessions of the project, newest first."""
    found = [*sessions.find(project.config), *sessions.others(project.config, seconds=_PATIENCE)]
    return sorted(found, key=sessions.changed, reverse=True)


def _list(asked: Asked, project: Project) -> Screen:
    files = files_of(project)
    kinds = Counter(map(transcript.agent_of, files))
    present = [one for one in agents.present(project.config)[0] if one.alive]
    agent = asked.query.get("agent", "")
    chosen = [one for one in files if agent in ("", transcript.agent_of(one))]
    shown, pages = on_page(asked, chosen, _A_PAGE)
    rows: list[Json] = []
    for file in shown:
        with suppress(OSError, LaminaError):  # gone meanwhile
            stat = file.stat()
            rows.append({**_summary(file, stat.st_mtime_ns, stat.st_size), "when": stat.st_mtime})
    values: dict[str, Any] = {
        "rows": rows, "agents": kinds if len(kinds) > 1 else {}, "agent": agent, "present": present,
        "count": len(files), **pages,
    }  # fmt: skip
    return Screen("sessions.html", "Sessions", "sessions", values)


@lru_cache(1_000)
def _summary(file: Path, _changed: int, _size: int) -> Json:
    return transcript.summary(file)


def _file(project: Project, name: str) -> Path:
    for find in (partial(sessions.find, project.config), partial(files_of, project)):
        for file in find():
            if file.stem == name:
                return file
    raise NotThere(f"There is no session {name}.")


def _one(asked: Asked, project: Project) -> Screen:
    """`s/ID`, and below it `s/ID/view/N`, `s/ID/entry/ID` and `s/ID/agent/ID`."""
    match [*asked.parts[3:]]:
        case [name]:
            return _timeline(asked, project, _file(project, name))
        case [name, "view", number]:
            return _view(project, _file(project, name), number)
        case [name, "entry", entry]:
            return _expanded(_file(project, name), entry)
        case [name, "agent", agent]:
            file = _file(project, name)
            for card in read_cards(file.with_suffix("")):
                if card.id == agent:
                    return _timeline(asked, project, file, card)
            raise NotThere(f"There is no agent {agent} in this session.")
        case _:
            raise NotThere("There is no such page.")


def _timeline(asked: Asked, project: Project, file: Path, agent: Card | None = None) -> Screen:
    folder = file.with_suffix("")
    entries = log.read(ledger_path(folder, agent.id) if agent else file).entries
    calls = transcript.requests_of(entries, project.config.table("prices"))
    newest, pages = on_page(asked, [*reversed(calls)], _CALLS)
    typed = f"Agent {agent.name}" if agent else next((x.typed for x in calls if x.typed), "")
    there = [] if agent else agents.present(project.config)[0]
    if any(one.alive and one.session == file.stem for one in there):
        look(folder)  # so they sum up what they do
    cards = [] if agent else agents.live_cards(folder, there)
    values: dict[str, Any] = {
        "id": file.stem, "agent": transcript.agent_of(file), "sub": agent,
        "every": calls, "calls": newest, **pages,
        "saved": sum(less for call in calls for _, less in call.edits),
        "breaks": sum(not one.get("registered") for call in calls for one in call.breaks),
        "cards": [card for card, _ in cards], "doing": {card.id: doing for card, doing in cards},
        "words": transcript.edit_words, "when": file.stat().st_mtime,
    }  # fmt: skip
    title = " ".join(typed.split())[:90] or f"Session {file.stem[:8]}"
    return Screen("session.html", title, "sessions", values)


def _view(project: Project, file: Path, number: str) -> Screen:
    """What was in the view when a request was sent."""
    entries = log.read(file).entries
    calls = transcript.requests_of(entries, project.config.table("prices"))
    call = next((one for one in calls if str(one.number) == number), None)
    if call is None:
        raise NotThere(f"There is no request {number} in this session.")
    ledger = Ledger.of(entries[: call.position])
    rows = [
        {"role": row.role, "kind": row.block.get("type"), "tokens": row.tokens,
         "text": spans.shown_block(row.block)[:300], "edited": bool(row.edit) or row.number < 0,
         "entry": f"{ledger.entries[row.entry]['uuid']}.{row.number + 1}" if row.number >= 0 else row.edit}
        for row in ledger.projection.rows
    ]  # fmt: skip
    parts = {name: size for name, size in context.parts_of(ledger).items() if size}
    values: dict[str, Any] = {
        "id": file.stem, "call": call, "parts": parts, "rows": rows, "whole": sum(parts.values()),
    }  # fmt: skip
    return Screen("view.html", f"Request {number}", "sessions", values)


def _expanded(file: Path, entry: str) -> Screen:
    """What an edit took out of the view, or an entry, as it was recorded."""
    ledger = Ledger.of(log.read(file).entries)
    said = spans.expand(ledger.projection, entry)
    values = {"text": said[:LONGEST], "left": max(0, len(said) - LONGEST), "id": file.stem}
    return Screen("expanded.html", f"Entry {entry[:8]}", "sessions", values)


# ---- money


def _money(_: Asked, project: Project) -> Screen:
    layers, background, caps = spend.report(project.config, "layer")
    groups = {by: spend.report(project.config, by)[0][:_ROWS] for by in ("model", "project")}
    files = sessions.find(project.config)[: spend.LAST_SESSIONS]
    measured: list[Any] = []
    for file in files:
        with suppress(OSError, LaminaError):  # gone meanwhile, or no session of ours
            measured.append(_measured(project, file))
    with project.store() as store:
        memory = spend.memory_health(store)
    values = {
        "total": sum(one.cost for one in layers), "calls": sum(one.calls for one in layers),
        "background": background, "caps": caps, "memory": memory, "sessions": len(measured),
        "days": spend.report(project.config, "day")[0][-_DAYS:], "health": spend.health(measured),
        "gateway": spend.told_of(*spend.saved_in(Spend(project.config.own_home / "spend").calls())),
        "groups": {"layer": layers[:_ROWS], **groups},
    }  # fmt: skip
    return Screen("money.html", "Money and health", "money", values)


def _measured(project: Project, file: Path) -> Any:
    """One session, anew only when it has changed."""
    kept, stat = project.world.measured, file.stat()
    state = stat.st_mtime_ns, stat.st_size
    if kept.get(file, (None,))[0] != state:
        kept[file] = state, spend.session_health(project.config, file)
    return kept[file][1]


SHOWN = {"sessions": _list, "s": _one, "money": _money}
DONE: dict[str, Any] = {}
