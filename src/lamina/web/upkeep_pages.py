"""What keeps a memory in order: the inbox with what waits for a person, the audit with its repairs, and
dreams, whose changes are shown before they are made. Through the same doors as the commands.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lamina.cli import dream, memory_reports
from lamina.errors import Conflict, GateRefused, LaminaError, UsageError, alone
from lamina.web.memory_pages import WRITERS, editable, editor, told, typed
from lamina.web.pages import Project, Screen, done
from lamina.web.server import Answer, Asked, Message

if TYPE_CHECKING:
    from lamina.layers.dream.runner import DreamResult
    from lamina.memories import InboxItem
    from lamina.memory import Audit

_MOMENT = 1.0  # seconds that a form waits for a dream; most are done by then
_DREAMS = 20  # that have ended, in the list


# ---- the inbox


def _inbox(asked: Asked, project: Project) -> Screen:
    with project.store() as store:
        if asked.parts[3:]:
            return _change_item(project, store.waiting_item(asked.parts[3]), asked)
        items = [
            {"item": one, "diff": store.inbox_diff(one), "who": _who(one)}
            for one in store.waiting()
        ]
    return Screen("inbox.html", "Inbox", "inbox", {"items": items})


def _who(item: InboxItem) -> str:
    return WRITERS.get(item.proposal.writer, item.proposal.writer)


def _change_item(
    project: Project, item: InboxItem, _: Asked, said: str = "", why: str = ""
) -> Screen:
    with project.store() as store:
        proposed = editable(store.proposed_content(item), item.proposal.path)
    to = project.url("inbox", item.id)
    return editor(item.proposal.path, proposed, to, project.url("inbox"), said, why)


def _review(asked: Asked, project: Project) -> Screen | Answer:
    """Accept as it is or as edited, or reject; one, or all of them."""
    action, back = asked.form.get("action", ""), project.url("inbox")
    with project.store() as store:
        if action == "accept-all":
            return Answer(to=back, message=_accept_all(project, [*store.waiting()]))
        name = asked.parts[3] if asked.parts[3:] else asked.form.get("item", "")
        item = store.waiting_item(name)
        if action == "reject":
            store.reject(item.id)
            return done(
                back, f"Refused: {item.proposal.path}. The same words won't be proposed again."
            )
        edited = typed(asked, "content") if "content" in asked.form else None
        try:
            secret = bool(asked.form.get("secret"))
            outcome = store.accept(item.id, edited=edited, allow_secret=secret)
        except (GateRefused, Conflict) as error:
            return _change_item(project, item, asked, (edited or b"").decode(), str(error))
        return done(back, f"Accepted. {told(outcome)}", store.newest_change(outcome.path))


def _accept_all(project: Project, items: list[InboxItem]) -> Message:
    failed: list[str] = []
    with project.store() as store:
        for item in items:
            try:
                store.accept(item.id)
            except LaminaError as error:  # one that no longer applies must not hold up the others
                failed.append(f"{item.proposal.path}: {error}")
    words = [f"Accepted: {len(items) - len(failed)}.", *failed]
    return Message(" ".join(words), bad=bool(failed))


# ---- the audit


def _audit(_: Asked, project: Project) -> Screen:
    with project.store() as store:
        found, steps = _auditor(project, store)()
    values = {"found": found, "steps": steps, "kinds": _kinds(found)}
    return Screen("audit.html", "Audit", "audit", values)


def _auditor(project: Project, store: Any) -> Any:
    with_index = project.config.bool("memory.index")
    return memory_reports.auditor(store, with_index=with_index, project=project.config.project)


def _kinds(found: Audit) -> Mapping[str, list[Any]]:
    kinds: dict[str, list[Any]] = {}
    for fault in found.faults:
        kinds.setdefault(fault.kind, []).append(fault)
    return kinds


def _repair(_: Asked, project: Project) -> Answer:
    """Make the repairs that are certain."""
    from lamina.memory import repair

    with project.store() as store:
        made = repair(store, _auditor(project, store)()[1])
    failed = [f"{one.step.path}: {one.failure}" for one in made if one.failure]
    words = " ".join([f"Repaired: {len(made) - len(failed)}.", *failed])
    return Answer(to=project.url("audit"), message=Message(words, bad=bool(failed)))


# ---- dreams


@dataclass(slots=True)
class Dreaming:
    """A dream that was begun from the page."""

    thread: threading.Thread
    dry: bool
    result: DreamResult | None = None
    failure: str = ""


def _dream(_: Asked, project: Project) -> Screen:
    from lamina.layers.dream import lock
    from lamina.layers.dream.record import DreamRecord

    with project.store() as store:
        record = DreamRecord(store.state)
        status = record.status()
        running = status.get("status") == "running" and lock.is_held(store.directory / lock.NAME)
        last = dream.last_change(store)
    own = project.world.dreams.get(project.slug)
    values = {
        "status": status if running else None,
        "preview": own.result if own and own.dry and own.result else None,
        "busy": bool(own and own.thread.is_alive()),
        "failure": own.failure if own else "",
        "last": last,
        "log": record.log()[:_DREAMS],
        "enabled": project.config.bool("memory.enabled"),
    }
    return Screen("dream.html", "Dream", "dream", values)


def _dream_on(asked: Asked, project: Project) -> Answer:
    action, back = asked.form.get("action", ""), project.url("dream")
    own = project.world.dreams.get(project.slug)
    if action == "discard":
        project.world.dreams.pop(project.slug, None)
        return done(back, "Discarded. Memory is as it was.")
    if action == "stop":
        return _stop(project)
    if own and own.thread.is_alive():
        return done(back, "A dream is running already.")
    if action == "preview":
        begun = _begin(project, dry=True)
    elif action == "apply" and own and own.result:
        begun = _begin(project, dry=False, prepared=own.result)
    else:
        raise UsageError("There is nothing to apply. Look first what a dream would change.")
    begun.thread.join(_MOMENT)
    if begun.dry or begun.result is None:
        return Answer(to=back)
    bad = begun.result.status != "completed"
    return Answer(to=back, message=Message(begun.result.text, begun.result.commit, bad=bad))


def _begin(project: Project, *, dry: bool, prepared: DreamResult | None = None) -> Dreaming:
    import anyio

    given = {"dry_run": dry, "model": None, "quiet": True, "json": True}
    args = argparse.Namespace(**{**vars(project.args), **given})

    def work() -> None:
        try:
            begun.result = anyio.run(dream.dreamt, args, prepared)
            if not dry and begun.result.status in ("failed", "gave way", "refused"):
                begun.failure = begun.result.text
        except Exception as error:  # noqa: BLE001 - the edge of a thread: the page says it
            begun.failure = str(alone(error))
        project.world.changed(project.slug)

    begun = Dreaming(threading.Thread(target=work, name="lamina-ui-dream", daemon=True), dry)
    project.world.dreams[project.slug] = begun
    begun.thread.start()
    return begun


def _stop(project: Project) -> Answer:
    from lamina.layers.dream.record import DreamRecord

    with project.store() as store:
        record = DreamRecord(store.state)
        record.ask_to_end(str(record.status().get("id", "")))
    return done(project.url("dream"), "The dream was asked to end. Memory stays as it was.")


SHOWN = {"inbox": _inbox, "audit": _audit, "dream": _dream}
DONE = {"inbox": _review, "audit": _repair, "dream": _dream_on}
