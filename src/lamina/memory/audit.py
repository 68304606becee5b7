"""Looks at a whole memory directory and lists what is wrong with it, with the reason. Pure.

Secrets, junk, duplicates, contradictions, stale, dangling, oversized, unlabelled. What only a reader can judge
is marked as doubtful; only what is certain gets a step in the plan of fixes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from typing import Literal, cast, get_args

from lamina.errors import LaminaError, MemoryStoreError
from lamina.memories import MEMORY_TYPES, Memory
from lamina.memory import index
from lamina.memory.index import (
    ADVISED_LINE,
    INDEX,
    LOADED_BYTES,
    LOADED_LINES,
    Resolve,
    files_named,
    index_of,
    links_of,
    pointers_of,
    resolver,
    short_hook,
    with_pointer,
    without_pointer,
)
from lamina.memory.journalled import INDEX_READ
from lamina.memory.leaks import Leak, for_index, leaks_in
from lamina.memory.scan import LARGEST
from lamina.memory.topics import age_days, edit_topic, is_binary, memory_type, read_topic
from lamina.ports import MemoryStore
from lamina.secrets import Rules, secrets_in
from lamina.text import wording
from lamina.text.claims import fenced_blocks
from lamina.text.likeness import alike_pairs, contradictions
from lamina.text.lists import Listed


@dataclass(frozen=True, slots=True)
class Repaired:
    step: Step
    failure: str = ""  # why it was not done


def look_over(
    store: MemoryStore,
    now: float,
    *,
    with_index: bool = True,
    last_used: Mapping[str, float] | None = None,
    exists: Callable[[str], bool] | None = None,
) -> tuple[Audit, Sequence[Step]]:
    """What is wrong, and what can be repaired without a reader. `last_used` says when a memory was last
    of use, and `exists` whether the project has a file."""
    memories, texts = _with_bodies(store)
    indexes = [store.content(path, INDEX_READ + 1) or b"" for path in (INDEX, f"team/{INDEX}")]
    # Of one that is far too large only that is said: its lines are not what is wrong with it.
    whole = all(len(content) <= INDEX_READ for content in indexes)
    found = audit(
        memories,
        indexes[0],
        now=now,
        team_index=indexes[1],
        last_used=last_used,
        exists=exists,
        with_index=with_index and whole,
        texts=texts,
        secret_rules=store.secret_rules,
        others=[*store.unreadable(), *store.stamps().keys() - {one.path for one in memories}],
    )
    return found, plan_fixes(memories, found)


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


def _with_bodies(store: MemoryStore) -> tuple[list[Memory], dict[str, str]]:
    """All memories, newest first, and the files that hold a secret, as they are: all files at once may
    be more than there is room for. Copies of a file share one text."""
    memories: list[Memory] = []
    texts: dict[str, str] = {}
    known: dict[bytes, tuple[Memory, str]] = {}
    stamps, rules = store.stamps(), store.secret_rules
    for path in sorted(stamps, key=lambda path: (-stamps[path][0], path.rpartition("/")[::2])):
        with suppress(MemoryStoreError):  # can't be read, perhaps only now
            content = store.content(path, LARGEST)
            if content is None or is_binary(content):
                continue
            mark = blake2b(content, digest_size=16).digest()
            if mark not in known:
                text = content.decode("utf-8", "replace")
                known[mark] = read_topic("", content), text if leaks_in(text, "", rules) else ""
            same, text = known[mark]
            texts |= {path: text} if text else {}
            name = same.name or path.rsplit("/", 1)[-1].removesuffix(".md")
            memories.append(replace(same, path=path, name=name, mtime=stamps[path][0] / 1e9))
    return memories, texts


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
        hook = short_hook(link, memory.name, memory.description)
        after = with_pointer(before or b"", link, memory.name, hook, section=memory.type or "")
        if index.load_index(after).warning:
            raise MemoryStoreError(f"{name} is full: a new line would hide another one")
    store.write_file(name, after, writer="user", base=before, reason=reason, subject=reason)


FaultKind = Literal[
    "secret", "junk", "duplicate", "contradiction", "stale", "dangling", "oversized", "unlabelled"
]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

_ALIKE = 0.72  # as the gate judges near-duplicates
_SHOWN_LINES, _SHOWN_BYTES = 200, 4_096  # what recall shows of a memory
_OLD = 180  # days
_PLACEHOLDERS = Listed("audit.placeholders")
_SMALL_TALK = Listed("audit.small_talk")
_WIKI_LINK = re.compile(r"\[\[([\w ./-]+)(?:\|[^]\n]*)?\]\]")
_NAMED_FILE = re.compile(r"`([\w.-]+(?:/[\w.-]+)+\.\w+)`")
_SUPERSEDES = re.compile(r"(?i)\b(?:supersedes|replaces|ersetzt)\W+([\w./-]+)")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, and why."""

    kind: FaultKind
    path: str
    reason: str
    doubtful: bool = False  # a reader must judge
    other: str = ""  # the second memory of a pair
    line: int = 0  # of a secret in its file
    rule: str = ""  # the rule that knows the secret


@dataclass(frozen=True, slots=True)
class Step:
    """One safe repair."""

    action: Literal["delete", "drop_pointer", "add_pointer", "set_type"]
    path: str
    reason: str
    value: str = ""  # the type to set


@dataclass(frozen=True, slots=True)
class Audit:
    checked: int
    faults: Sequence[Fault]

    @property
    def counts(self) -> Mapping[FaultKind, int]:
        """Every kind, those without a fault too."""
        return {kind: sum(fault.kind == kind for fault in self.faults) for kind in KINDS}


def audit(
    memories: Sequence[Memory],
    index: bytes = b"",
    *,
    now: float,
    team_index: bytes = b"",
    last_used: Mapping[str, float] | None = None,
    exists: Callable[[str], bool] | None = None,
    with_index: bool = True,
    texts: Mapping[str, str] | None = None,
    secret_rules: Rules | None = None,
    others: Iterable[str] = (),
) -> Audit:
    """All faults by kind, then by path, with no secret in their reasons. `memories` have their bodies,
    `texts` are their files, for secrets; `others` are files that are there and no memories."""
    indexes = {"MEMORY.md": index, "team/MEMORY.md": team_index}
    decoded = {path: one.decode("utf-8", "replace") for path, one in indexes.items()}
    texts = {**(texts or {}), **decoded}
    said = _stems_by_text(memories)
    resolve = resolver([*(memory.path for memory in memories), *others])
    faults = [
        *_secrets(texts, secret_rules),
        *_junk(memories, said),
        *_duplicates(memories, {path for path, _ in _listed(index, team_index)}, said),
        *_contradictions(memories),
        *_stale(memories, now, last_used or {}, cache(exists) if exists else None, resolve),
        *(_dangling(memories, index, team_index, resolve) if with_index else ()),
        *_dead_links(memories, resolve),
        *_oversized(memories, index, team_index),
        *_unlabelled(memories),
        *(_text_in_index(index, team_index) if with_index else ()),
    ]
    hide = secrets_in(*{texts[one.path] for one in faults if one.rule}, rules=secret_rules)
    reasons = "\n".join(fault.reason for fault in faults)
    if hide.mask(reasons) != reasons:
        faults = [replace(fault, reason=hide.mask(fault.reason)) for fault in faults]
    faults.sort(key=lambda fault: (KINDS.index(fault.kind), fault.path, fault.line, fault.reason))
    return Audit(len(memories), tuple(faults))


def plan_fixes(memories: Sequence[Memory], found: Audit) -> tuple[Step, ...]:
    """What can be repaired without a reader: nothing that holds words of its own is ever deleted."""
    by_path = {memory.path: memory for memory in memories}
    steps: list[Step] = []
    gone: set[str] = set()
    for fault in found.faults:
        memory = by_path.get(fault.path)
        if fault.doubtful:
            continue
        if fault.kind in ("junk", "duplicate") and memory and fault.path not in gone:
            if fault.other in gone:
                continue  # one of the two must stay
            gone.add(fault.path)
            steps.append(Step("delete", fault.path, fault.reason))
        elif fault.kind == "dangling":
            action = "add_pointer" if memory else "drop_pointer"
            steps.append(Step(action, fault.path, fault.reason))
        elif fault.kind == "unlabelled" and memory and memory.type is None:
            guess = _type_by_name(memory.path)
            if guess:
                steps.append(Step("set_type", fault.path, f"its name begins with {guess}", guess))
    return tuple(step for step in steps if step.action == "delete" or step.path not in gone)


def _secrets(texts: Mapping[str, str], rules: Rules | None) -> Iterator[Fault]:
    known: dict[str, Sequence[Leak]] = {}
    for path, text in texts.items():
        if text not in known:
            known[text] = leaks_in(text, "", rules)
        for leak in known[text]:
            reason = f"line {leak.line} looks like a secret ({leak.rule})"
            yield Fault("secret", path, reason, line=leak.line, rule=leak.rule)


def _prose(body: str) -> str:
    if "```" not in body and "~~~" not in body:
        return body
    for block in fenced_blocks(body):
        body = body.replace(block, "")
    return body


def _stems_by_text(memories: Iterable[Memory]) -> dict[tuple[str, str], tuple[str, ...]]:
    """What each memory says as stems, once for all that say the same."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for memory in memories:
        key = (memory.description, memory.body)
        if key not in found:
            found[key] = tuple(wording.content_stems("\n".join(key)))
    return found


def _junk(
    memories: Iterable[Memory], said: Mapping[tuple[str, str], Collection[str]]
) -> Iterator[Fault]:
    for memory in memories:
        body = memory.body.strip()
        stems = said[memory.description, memory.body]
        if not body and not memory.description.strip():
            yield Fault("junk", memory.path, "it is empty")
        elif _PLACEHOLDERS.fullmatch(body) and len(stems) < 4:
            yield Fault("junk", memory.path, "it holds a placeholder only")
        elif _SMALL_TALK.fullmatch(body):
            yield Fault("junk", memory.path, "it records small talk", doubtful=True)
        elif len(stems) < 2:
            yield Fault("junk", memory.path, "it says next to nothing", doubtful=True)
        elif len(body) > 200 and len(_prose(body).strip()) < 0.05 * len(body):
            yield Fault("junk", memory.path, "it is code or output only", doubtful=True)


def _duplicates(
    memories: Sequence[Memory],
    listed: Collection[str],
    said: Mapping[tuple[str, str], Collection[str]],
) -> Iterator[Fault]:
    def staying(memory: Memory) -> tuple[bool, float, str]:
        """The one that the index does not know is to go, else the older."""
        return memory.path in listed, _written(memory), memory.path

    # Of copies one stays and speaks for all: a fault for each pair would be too many to read.
    same: dict[tuple[object, ...], list[Memory]] = {}
    folded = cache(_folded)
    for memory in memories:
        if said[memory.description, memory.body]:
            key = (memory.type, folded(memory.description), folded(memory.body), memory.team)
            same.setdefault(key, []).append(memory)
    stay: list[Memory] = []
    for group in same.values():
        *older, newest = sorted(group, key=staying)
        stay.append(newest)
        for memory in older:
            reason = f"{newest.path} says the same word for word"
            yield Fault("duplicate", memory.path, reason, other=newest.path)
    sets = [said[memory.description, memory.body] for memory in stay]
    for one, other, likeness in alike_pairs(sets, _ALIKE):
        older, newer = sorted((stay[one], stay[other]), key=staying)
        reason = f"{newer.path} says the same to {likeness:.0%}"
        yield Fault("duplicate", older.path, reason, doubtful=True, other=newer.path)


def _folded(text: str) -> bytes:
    return blake2b(wording.fold(text).encode("utf-8", "replace"), digest_size=16).digest()


def _contradictions(memories: Sequence[Memory]) -> Iterator[Fault]:
    for one, other, reason in contradictions(map(contradicting, memories), len(memories)):
        yield Fault("contradiction", one, f"against {other}: {reason}", doubtful=True, other=other)


def contradicting(memory: Memory) -> tuple[str, str, str]:
    """A memory as the detector of contradictions reads it: path, what it is about, what it says."""
    head = f"{memory.path} {memory.name} {memory.description}"
    return memory.path, head, f"{memory.description}\n\n{memory.body}"


def _written(memory: Memory) -> float:
    """When it was last written: by its own word if it has one, since copies lose file times."""
    for key in ("modified", "metadata.modified"):
        try:
            return datetime.fromisoformat(memory.extra[key]).astimezone(UTC).timestamp()
        except (KeyError, ValueError, OverflowError):
            continue
    return memory.mtime


def _stale(
    memories: Sequence[Memory],
    now: float,
    last_used: Mapping[str, float],
    exists: Callable[[str], bool] | None,
    resolve: Resolve,
) -> Iterator[Fault]:
    """What drifted from the code, what another memory took the place of, and what is both old and not
    used. Age alone says nothing: of a store whose use nobody counts no memory is old."""
    later = superseded(memories, resolve)
    for memory in memories:
        missing = missing_files(memory, exists) if exists else []
        if missing:
            reason = f"it names {', '.join(missing[:3])}, which the project has no more"
        elif memory.path in later:
            reason = later[memory.path]
        elif last_used and (days := _days_unused(memory, now, last_used)) > _OLD:
            reason = f"neither written nor used for {days:,} days"
        else:
            continue
        yield Fault("stale", memory.path, reason, doubtful=True)


def _days_unused(memory: Memory, now: float, last_used: Mapping[str, float]) -> int:
    written = _written(memory)
    return age_days(max(written, last_used.get(memory.path, 0.0)), now) if written > 0 else 0


def superseded(memories: Sequence[Memory], resolve: Resolve) -> dict[str, str]:
    """Memories that say themselves, or of which another says, that something took their place."""
    found: dict[str, str] = {}
    for memory in memories:
        for key in ("superseded_by", "metadata.superseded_by"):
            if by := memory.extra.get(key, ""):
                found[memory.path] = f"{by} supersedes it"
        folded = memory.body.casefold()
        says = any(word in folded for word in ("supersedes", "replaces", "ersetzt"))
        for name in _SUPERSEDES.findall(memory.body) if says else ():
            if (old := resolve(name)) and old != memory.path:
                found.setdefault(old, f"{memory.path} says that it supersedes it")
    return found


def missing_files(memory: Memory, exists: Callable[[str], bool]) -> list[str]:
    """Files that a memory names in folders of the project, and that are not there any more."""
    named = dict.fromkeys(_NAMED_FILE.findall(f"{memory.description}\n{memory.body}"))
    return [name for name in named if exists(name.split("/", 1)[0]) and not exists(name)]


def _listed(index: bytes, team_index: bytes) -> Iterator[tuple[str, int]]:
    """(path, line) of every link of both indexes."""
    for prefix, content in (("", index), ("team/", team_index)):
        for link in links_of(content):
            yield prefix + link.file, link.line


def _dangling(
    memories: Iterable[Memory], index: bytes, team_index: bytes, resolve: Resolve
) -> Iterator[Fault]:
    paths = sorted(memory.path for memory in memories)
    folders = {"", "team", *(path.rpartition("/")[0] for path in paths)}
    for path, line in _listed(index, team_index):
        # A link into another folder leads elsewhere, perhaps into the project.
        if not resolve(path) and path.rpartition("/")[0] in folders:
            reason = f"line {line} of {index_of(path)} points to it, but it is not there"
            yield Fault("dangling", path, reason)
    for prefix, content in (("team/", team_index), ("", index)):
        here = [p.removeprefix(prefix) for p in paths if index_of(p) == f"{prefix}MEMORY.md"]
        named = files_named(content, here)
        for path in here:
            if path not in named and path.casefold() != "readme.md":
                yield Fault("dangling", prefix + path, f"{prefix}MEMORY.md does not point to it")


def _dead_links(memories: Sequence[Memory], by_path: Resolve) -> Iterator[Fault]:
    names = {_link_key(memory.name) for memory in memories}
    for memory in memories:
        if "[[" not in memory.body:
            continue
        for target in dict.fromkeys(_WIKI_LINK.findall(_prose(memory.body))):
            if not by_path(target) and _link_key(target) not in names:
                reason = f"its link [[{target}]] leads nowhere"
                yield Fault("dangling", memory.path, reason, doubtful=True)


def _link_key(name: str) -> str:
    return name.strip().removesuffix(".md").casefold().replace("_", "-").replace(" ", "-")


def _oversized(memories: Iterable[Memory], index: bytes, team_index: bytes) -> Iterator[Fault]:
    for memory in memories:
        lines, size = memory.body.count("\n") + 1, len(memory.body.encode("utf-8", "replace"))
        if lines > _SHOWN_LINES or size > _SHOWN_BYTES:
            reason = (
                f"{lines:,} lines, {size:,} bytes: recall shows {_SHOWN_LINES} and {_SHOWN_BYTES:,}"
            )
            yield Fault("oversized", memory.path, reason)
    for path, content in (("MEMORY.md", index), ("team/MEMORY.md", team_index)):
        lines = content.splitlines()
        if len(lines) > LOADED_LINES or len(content) > LOADED_BYTES:
            has = f"{len(lines):,} lines, {len(content):,} bytes"
            reason = f"{has}: only {LOADED_LINES} and {LOADED_BYTES:,} are loaded"
            yield Fault("oversized", path, reason)
        long = [
            n
            for n, line in enumerate(lines, 1)
            if len(line.decode("utf-8", "replace")) > ADVISED_LINE
        ]
        if long:
            reason = (
                f"{len(long):,} lines exceed {ADVISED_LINE} characters, the first is line {long[0]}"
            )
            yield Fault("oversized", path, reason)


def _unlabelled(memories: Iterable[Memory]) -> Iterator[Fault]:
    for memory in memories:
        missing: list[str] = []
        if memory.type is None:
            missing.append("type")
        if not memory.description.strip():
            missing.append("description")
        if missing:
            yield Fault("unlabelled", memory.path, f"it has no {' and no '.join(missing)}")


def _text_in_index(index: bytes, team_index: bytes) -> Iterator[Fault]:
    for path, content in (("MEMORY.md", index), ("team/MEMORY.md", team_index)):
        pointers = {one.line for one in (*pointers_of(content), *links_of(content))}
        text = [
            number
            for number, line in enumerate(content.split(b"\n"), 1)
            if line.strip() and not line.lstrip().startswith(b"#") and number not in pointers
        ]
        if text:
            reason = f"{len(text):,} lines are no pointers, the first is line {text[0]}: give them topic files"
            yield Fault("unlabelled", path, reason)


def _type_by_name(path: str) -> str:
    start = re.split(r"[_-]", path.rsplit("/", 1)[-1], maxsplit=1)[0]
    return start if start in cast("tuple[str, ...]", MEMORY_TYPES) else ""
