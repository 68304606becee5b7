"""What keeps a memory in order: the inbox with what waits for a person, the audit with its repairs, and
dreams, whose changes are shown before they are made. Through the same doors as the commands.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import anyio

from lamina.cli import memory_reports
from lamina.errors import Conflict, GateRefused, LaminaError, UsageError
from lamina.web.memory_pages import editable, editor, told, typed
from lamina.web.pages import Project, Screen, done
from lamina.web.server import Answer, Asked, Message

if TYPE_CHECKING:
    from lamina.layers.dream.runner import DreamResult
    from lamina.memories import InboxItem
    from lamina.ports import MemoryStore

_DREAMS = 20  # that have ended, in the list


# ---- the inbox


def _inbox(asked: Asked, project: Project) -> Screen:
    with project.store() as store:
        if asked.parts[3:]:
            return _change_item(project, store.waiting_item(asked.parts[3]))
        items = [(one, store.inbox_diff(one)) for one in store.waiting()]
    return Screen("inbox.html", "Inbox", "inbox", {"items": items})


def _change_item(project: Project, item: InboxItem, said: str = "", why: str = "") -> Screen:
    with project.store() as store:
        proposed = editable(store.proposed_content(item), item.proposal.path)
    to = project.url("inbox", item.id)
    return editor(item.proposal.path, proposed, to, project.url("inbox"), said, why)


def _review(asked: Asked, project: Project) -> Screen | Answer:
    """Accept as it is or as edited, or reject; one, or all of them."""
    action, back = asked.form.get("action", ""), project.url("inbox")
    with project.store() as store:
        if action == "accept-all":
            shown = asked.form.get("items", "").split()  # what came later was not seen
            items = [one for one in store.waiting() if one.id in shown]
            return Answer(to=back, message=_accept_all(store, items))
        item = store.waiting_item([*asked.parts[3:], asked.form.get("item", "")][0])
        if action == "reject":
            store.reject(item.id)
            path = item.proposal.path
            return done(back, f"Refused: {path}. The same words won't be proposed again.")
        edited = typed(asked, "content") if "content" in asked.form else None
        try:
            outcome = store.accept(item.id, edited=edited, allow_secret="secret" in asked.form)
        except (GateRefused, Conflict) as error:
            return _change_item(project, item, (edited or b"").decode(), str(error))
        return done(back, f"Accepted. {told(outcome)}", store.newest_change(outcome.path))


def _accept_all(store: MemoryStore, items: list[InboxItem]) -> Message:
    failed: list[str] = []
    for item in items:
        try:
            store.accept(item.id)
        except LaminaError as error:  # one that no longer applies must not hold up the others
            failed.append(f"{item.proposal.path}: {error}")
    words = " ".join([f"Accepted: {len(items) - len(failed)}.", *failed])
    return Message(words, bad=bool(failed))


# ---- the audit


def _audit(_: Asked, project: Project) -> Screen:
    with project.store() as store:
        found, steps = memory_reports.auditor(store, project.config)()
    return Screen("audit.html", "Audit", "audit", {"found": found, "steps": steps})


def _repair(_: Asked, project: Project) -> Answer:
    """Make the repairs that are certain."""
    from lamina.memory import repair

    with project.store() as store:
        made = repair(store, memory_reports.auditor(store, project.config)()[1])
    failed = [f"{one.step.path}: {one.failure}" for one in made if one.failure]
    words = " ".join([f"Repaired: {len(made) - len(failed)}.", *failed])
    return Answer(to=project.url("audit"), message=Message(words, bad=bool(failed)))


# ---- dreams


def _dream(_: Asked, project: Project) -> Screen:
    from lamina.layers.dream import LOCK, is_held
    from lamina.layers.dream.record import DreamRecord, last_change

    with project.store() as store:
        record = DreamRecord(store.state)
        status = record.status()
        running = status.get("status") == "running" and is_held(store.directory / LOCK)
        last = last_change(store)
    values = {
        "status": status if running else None, "preview": project.world.dreams.get(project.slug),
        "last": last, "log": record.log()[:_DREAMS], "enabled": project.config.bool("memory.enabled"),
    }  # fmt: skip
    return Screen("dream.html", "Dream", "dream", values)


def _dream_on(asked: Asked, project: Project) -> Answer:
    """Look what a dream would change; apply just that, or discard it; stop one that runs."""
    action, back = asked.form.get("action", ""), project.url("dream")
    shown = project.world.dreams.pop(project.slug, None)
    if action == "discard":
        return done(back, "Discarded. Memory is as it was.")
    if action == "stop":
        from lamina.cli.dream import stop  # it brings the whole session along

        with project.store() as store:
            stop(store)
        return done(back, "The dream was asked to end. Memory stays as it was.")
    if action == "preview":
        project.world.dreams[project.slug] = _dreamt(project, dry=True)
        return Answer(to=back)
    if action != "apply" or shown is None or asked.form.get("shown") != shown.digest:
        raise UsageError("There is nothing to apply. First see what a dream would change.")
    made = _dreamt(project, dry=False, prepared=shown)
    return Answer(to=back, message=Message(made.text, made.commit, bad=made.status != "completed"))


def _dreamt(project: Project, *, dry: bool, prepared: DreamResult | None = None) -> DreamResult:
    """Here and now: whoever waits for it sees it run in the list of dreams."""
    from lamina.cli.dream import dreamt

    given = {"dry_run": dry, "model": None, "quiet": True, "json": True}
    args = argparse.Namespace(**{**vars(project.args), **given})
    return anyio.run(dreamt, args, prepared)


SHOWN = {"inbox": _inbox, "audit": _audit, "dream": _dream}
DONE = {"inbox": _review, "audit": _repair, "dream": _dream_on}
