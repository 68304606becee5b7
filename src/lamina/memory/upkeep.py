"""Audits a store and carries out the safe repairs, each through the store and its gate.

It reads all memories and both indexes; it writes only what a step of the plan names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lamina.errors import LaminaError, MemoryStoreError
from lamina.memories import Memory
from lamina.memory import pointers
from lamina.memory.audit import Audit, Step, audit, plan_fixes
from lamina.memory.file_store import INDEX_READ, FileStore
from lamina.memory.index import INDEX, short_hook, with_pointer, without_pointer
from lamina.memory.leaks import for_index
from lamina.memory.outside import LARGEST
from lamina.memory.topics import edit_topic, memory_type, read_topic


@dataclass(frozen=True, slots=True)
class Repaired:
    step: Step
    failure: str = ""  # why it was not done


def look_over(
    store: FileStore, now: float, *, with_index: bool = True
) -> tuple[Audit, Sequence[Step]]:
    """What is wrong, and what can be repaired without a reader."""
    memories, texts = _with_bodies(store)
    indexes = [store.files.read(path, INDEX_READ + 1) or b"" for path in (INDEX, f"team/{INDEX}")]
    # Of one that is far too large only that is said: its lines are not what is wrong with it.
    whole = all(len(content) <= INDEX_READ for content in indexes)
    found = audit(
        memories,
        indexes[0],
        now=now,
        team_index=indexes[1],
        with_index=with_index and whole,
        texts=texts,
        secret_rules=store.admission.rules.secret_rules,
    )
    return found, plan_fixes(memories, found)


def repair(store: FileStore, steps: Iterable[Step]) -> list[Repaired]:
    """Do the steps one by one; one that fails is named and the others go on."""
    done: list[Repaired] = []
    for step in steps:
        try:
            _carry_out(store, step)
            done.append(Repaired(step))
        except LaminaError as error:
            done.append(Repaired(step, str(error)))
    return done


def _with_bodies(store: FileStore) -> tuple[list[Memory], dict[str, str]]:
    """All memories, and their files as they are."""
    memories: list[Memory] = []
    texts: dict[str, str] = {}
    for memory in store.list():
        try:
            content = store.files.read(memory.path, LARGEST)
            if content is not None:
                memories.append(read_topic(memory.path, content, mtime=memory.mtime))
                texts[memory.path] = content.decode("utf-8", "replace")
        except MemoryStoreError:
            continue  # gone meanwhile
    return memories, texts


def _carry_out(store: FileStore, step: Step) -> None:
    reason = f"audit: {step.reason}"
    if step.action == "delete":
        store.forget(step.path, writer="user", tombstone=False, reason=reason)
        return
    if step.action == "set_type":
        old = store.read_bytes(step.path)
        new = edit_topic(old, type=memory_type(step.value))
        store.write_file(step.path, new, writer="user", base=old, reason=reason)
        return
    index = pointers.index_of(step.path)
    before = store.files.read(index)
    link = pointers.link_of(step.path)
    if step.action == "drop_pointer":
        after = without_pointer(before or b"", link)
    else:
        memory = for_index(store.read(step.path), store.admission.rules.secret_rules)
        hook = short_hook(link, memory.name, memory.description)
        after = with_pointer(before or b"", link, memory.name, hook, section=memory.type or "")
    store.write_file(index, after, writer="user", base=before, reason=reason, subject=reason)
