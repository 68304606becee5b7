"""Carries out what an audit found safe to repair, step by step, through the store and its gate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lamina.errors import LaminaError, MemoryStoreError
from lamina.memory import index
from lamina.memory.audit import Step
from lamina.memory.drafts import for_index
from lamina.memory.index import index_of, with_pointer, without_pointer
from lamina.memory.topics import edit_topic, memory_type
from lamina.ports import MemoryStore


@dataclass(frozen=True, slots=True)
class Repaired:
    step: Step
    failure: str = ""  # why it was not done


def repair(store: MemoryStore, steps: Iterable[Step]) -> list[Repaired]:
    """Do the steps one by one; one that fails is named and the others go on."""
    done: list[Repaired] = []
    for step in steps:
        try:
            _carry_out(store, step)
            done.append(Repaired(step))
        except LaminaError as error:
            done.append(Repaired(step, str(error)))
    return done


def _carry_out(store: MemoryStore, step: Step) -> None:
    reason = f"audit: {step.reason}"
    if step.action == "delete":
        store.forget(step.path, writer="user", tombstone=False, reason=reason)
        return
    if step.action == "set_type":
        old = store.read_bytes(step.path)
        new = edit_topic(old, type=memory_type(step.value))
        store.write_file(step.path, new, writer="user", base=old, reason=reason)
        return
    name, link = index_of(step.path), index.link_of(step.path)
    before = store.content(name)
    if step.action == "drop_pointer":
        after = without_pointer(before or b"", link)
    else:
        memory = for_index(store.read(step.path), store.secret_rules)
        title, hook = index.told_of(link, memory.name, memory.description, quoted=memory.quoted)
        after = with_pointer(before or b"", link, title, hook, section=memory.type or "")
        if index.load_index(after).warning:
            raise MemoryStoreError(f"{name} is full: a new line would hide another one")
    store.write_file(name, after, writer="user", base=before, reason=reason, subject=reason)
