"""Carries out what an audit found safe to repair, through the store and its gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamina.errors import LaminaError, MemoryStoreError
from lamina.memory import index
from lamina.memory.audit import Step
from lamina.memory.drafts import for_index
from lamina.memory.index import index_of, with_pointers, without_pointer
from lamina.memory.topics import edit_topic, memory_type
from lamina.ports import MemoryStore


@dataclass(frozen=True, slots=True)
class Repaired:
    step: Step
    failure: str = ""  # why it was not done


def repair(store: MemoryStore, steps: Sequence[Step]) -> list[Repaired]:
    """Do the steps one by one, those on one index in one write; one that fails is named and the others
    go on."""
    done: dict[Step, str] = {}
    lines: dict[str, list[Step]] = {}
    for step in steps:
        if step.action in ("drop_pointer", "add_pointer"):
            lines.setdefault(index_of(step.path), []).append(step)
            continue
        try:
            _carry_out(store, step)
            done[step] = ""
        except LaminaError as error:
            done[step] = str(error)
    for name, some in lines.items():
        done |= _repair_lines(store, name, some)
    return [Repaired(step, done[step]) for step in steps]


def _carry_out(store: MemoryStore, step: Step) -> None:
    reason = f"audit: {step.reason}"
    if step.action == "delete":
        store.forget(step.path, writer="user", tombstone=False, reason=reason)
    else:
        old = store.read_bytes(step.path)
        new = edit_topic(old, type=memory_type(step.value))
        store.write_file(step.path, new, writer="user", base=old, reason=reason)


def _repair_lines(store: MemoryStore, name: str, steps: Sequence[Step]) -> dict[Step, str]:
    """All of one index in one pass over it, as there may be thousands."""
    before = store.content(name)
    drops = [step for step in steps if step.action == "drop_pointer"]
    after = without_pointer(before or b"", *(index.link_of(step.path) for step in drops))
    done = dict.fromkeys(drops, "")
    new: list[tuple[str, str, str, str]] = []
    end = 2 if b"\r\n" in after else 1
    lines = after.count(b"\n") + (after[-1:] not in (b"", b"\n"))
    size = len(after) + end * (after[-1:] not in (b"", b"\n"))
    for step in steps:
        if step in done:
            continue
        try:
            if lines >= index.LOADED_LINES:
                raise MemoryStoreError(_full(name))
            pointer = _pointer(store, step)
            larger = size + len(index.pointer_line(*pointer[:3]).encode()) + end
            if larger > index.LOADED_BYTES:
                raise MemoryStoreError(_full(name))
        except LaminaError as error:
            done[step] = str(error)
            continue
        new.append(pointer)
        lines, size, done[step] = lines + 1, larger, ""
    mended = [step for step in steps if not done[step]]
    if mended:
        more = f", and {len(mended) - 1} more" if mended[1:] else ""
        reason = f"audit: {mended[0].reason}{more}"
        after = with_pointers(after, new)
        try:
            store.write_file(name, after, writer="user", base=before, reason=reason, subject=reason)
        except LaminaError as error:
            done |= dict.fromkeys(mended, str(error))
    return done


def _full(name: str) -> str:
    return f"{name} is full: a new line would hide another one"


def _pointer(store: MemoryStore, step: Step) -> tuple[str, str, str, str]:
    link = index.link_of(step.path)
    memory = for_index(store.read(step.path), store.secret_rules)
    title, hook = index.told_of(link, memory.name, memory.description, quoted=memory.quoted)
    return link, title, hook, memory.type or ""
