"""Looks at a whole memory directory and lists what is wrong with it, with the reason. Pure.

Secrets, junk, duplicates, contradictions, stale, dangling, oversized, unlabelled. What only a reader can judge
is marked as doubtful; only what is certain gets a step in the plan of fixes.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from itertools import count
from typing import Any, Literal, NamedTuple, cast, get_args

from lamina.errors import MemoryStoreError
from lamina.memories import MEMORY_TYPES, Memory, Stamp
from lamina.memory.drafts import Leak, leaks_in
from lamina.memory.index import (
    ADVISED_LINE,
    INDEX,
    LOADED_BYTES,
    LOADED_LINES,
    Resolve,
    files_named,
    index_of,
    lines_of_text,
    links_of,
    resolver,
)
from lamina.memory.journalled import INDEX_READ
from lamina.memory.scan import LARGEST
from lamina.memory.topics import age_days, is_binary, read_topic
from lamina.ports import MemoryStore
from lamina.secrets import Rules, secrets_in
from lamina.text import wording
from lamina.text.claims import fenced_blocks, files_named_in, superseding
from lamina.text.contradictions import quarrels, told_sentences
from lamina.text.lists import Listed
from lamina.text.pairs import alike_pairs


def look_over(
    store: MemoryStore,
    now: float,
    *,
    with_index: bool = True,
    last_used: Mapping[str, float] | None = None,
    exists: Callable[[str], bool] | None = None,
    ask_history: bool = True,
) -> tuple[Audit, Sequence[Step]]:
    """What is wrong, and what can be repaired without a reader; if the history isn't asked, and there is much
    to delete, what could be if no person wrote it. `last_used`: when a memory was of use; `exists`: is a file there?"""
    stamps = store.stamps()
    heard, texts = _heard_in(store, stamps)
    memories = [one.memory for one in heard]
    indexes = [store.content(path, INDEX_READ + 1) or b"" for path in (INDEX, f"team/{INDEX}")]
    # Of one that is far too large only that is said: its lines are not what is wrong with it.
    whole = all(len(content) <= INDEX_READ for content in indexes)
    found = _audit(
        heard,
        indexes[0],
        now=now,
        team_index=indexes[1],
        last_used=last_used,
        exists=exists,
        with_index=with_index and whole,
        texts=texts,
        secret_rules=store.secret_rules,
        others=[*store.aside(), *stamps.keys() - {one.path for one in memories}],
    )
    steps = plan_fixes(memories, found)
    ask = ask_history or sum(step.action == "delete" for step in steps) <= FEW_TO_ASK
    return found, plan_fixes(memories, found, store.by_hand) if ask else steps


def _heard_in(
    store: MemoryStore, stamps: Mapping[str, Stamp]
) -> tuple[list[_Heard], dict[str, str]]:
    """All memories, newest first, and the files that hold a secret, as they are: all files at once may
    be more than there is room for. Of copies one is taken apart."""
    heard: list[_Heard] = []
    texts: dict[str, str] = {}
    known: dict[bytes, tuple[_Heard, str]] = {}
    rules = store.secret_rules
    hear = _Ear(len(stamps))
    for path in sorted(stamps, key=lambda path: (-stamps[path][0], path.rpartition("/")[::2])):
        with suppress(MemoryStoreError):  # can't be read, perhaps only now
            content = store.content(path, LARGEST)
            if content is None or is_binary(content):
                continue
            mark = blake2b(content, digest_size=16).digest()
            if mark not in known:
                text = content.decode("utf-8", "replace")
                leaks = leaks_in(text, "", rules)
                known[mark] = hear(read_topic("", content)), text if leaks else ""
            same, text = known[mark]
            texts |= {path: text} if text else {}
            name = same.memory.name or path.rsplit("/", 1)[-1].removesuffix(".md")
            mtime = stamps[path][0] / 1e9
            memory = replace(same.memory, path=path, name=name, mtime=mtime)
            heard.append(same._replace(memory=memory))
    return heard, texts


class _Heard(NamedTuple):
    """A memory without its body, and what the body comes to: all bodies at once are too much to hold."""

    memory: Memory
    stems: array[int]  # numbers of what it says, each once
    mark: bytes  # the same for what says the same word for word
    told: Sequence[str]  # sentences that others may contradict
    junk: tuple[str, bool] | None  # why it is, and whether a reader must judge
    lines: int
    size: int
    links: Sequence[str]
    replaces: Sequence[str]  # names of memories
    replaced_by: str  # what the memory itself says took its place
    files: Sequence[str]  # of the project


class _Ear:
    """Takes memories apart, of which there are so many; numbers their stems."""

    def __init__(self, many: int) -> None:
        self._many = many
        self._numbers = defaultdict[str, int](count().__next__)

    def __call__(self, memory: Memory) -> _Heard:
        stems = wording.content_stems(f"{memory.description}\n{memory.body}")
        body = memory.body
        return _Heard(
            replace(memory, body=""),
            array("I", map(self._numbers.__getitem__, stems)),
            _folded(memory.description) + _folded(body),
            told_sentences(contradicting(memory)[2], self._many),
            _junk(memory, len(stems)),
            body.count("\n") + 1,
            len(body.encode("utf-8", "replace")),
            tuple(dict.fromkeys(_WIKI_LINK.findall(_prose(body)))) if "[[" in body else (),
            *superseding(body),
            files_named_in(f"{memory.description}\n{memory.body}"),
        )


FaultKind = Literal[
    "secret", "junk", "duplicate", "contradiction", "stale", "dangling", "oversized", "unlabelled"
]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

FEW_TO_ASK = 50  # files about which the history is asked in any case
_ALIKE = 0.72  # as the gate judges near-duplicates
_SHOWN_LINES, _SHOWN_BYTES = 200, 4_096  # what recall shows of a memory
_OLD = 180  # days
_PLACEHOLDERS = Listed("audit.placeholders")
_SMALL_TALK = Listed("audit.small_talk")
_WIKI_LINK = re.compile(r"\[\[([\w ./-]+)(?:\|[^]\n]*)?\]\]")


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


def audit(memories: Sequence[Memory], index: bytes = b"", **more: Any) -> Audit:
    """The same of memories that are at hand, with their bodies; `more` as in `_audit`."""
    return _audit([*map(_Ear(len(memories)), memories)], index, **more)


def _audit(
    heard: Sequence[_Heard],
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
    """All faults by kind, then by path, with no secret in their reasons. `texts` are files, for secrets;
    `others` are files that are there and no memories."""
    memories = [one.memory for one in heard]
    indexes = {"MEMORY.md": index, "team/MEMORY.md": team_index}
    decoded = {path: one.decode("utf-8", "replace") for path, one in indexes.items()}
    texts = {**(texts or {}), **decoded}
    resolve = resolver([*(memory.path for memory in memories), *others])
    later = _superseded(heard, resolve)
    faults = [
        *_secrets(texts, secret_rules),
        *(Fault("junk", one.memory.path, *one.junk) for one in heard if one.junk),
        *_duplicates(heard, {path for path, _ in _listed(index, team_index)}),
        *_contradictions(one for one in heard if one.memory.path not in later),
        *_stale(heard, now, last_used or {}, cache(exists) if exists else None, later),
        *(_dangling(memories, index, team_index, resolve) if with_index else ()),
        *_dead_links(heard, resolve),
        *_oversized(heard, index, team_index),
        *_unlabelled(memories),
        *(_text_in_index(index, team_index, resolve) if with_index else ()),
    ]
    hide = secrets_in(*{texts[one.path] for one in faults if one.rule}, rules=secret_rules)
    reasons = "\n".join(fault.reason for fault in faults)
    if hide.mask(reasons) != reasons:
        faults = [replace(fault, reason=hide.mask(fault.reason)) for fault in faults]
    faults.sort(key=lambda fault: (KINDS.index(fault.kind), fault.path, fault.line, fault.reason))
    return Audit(len(memories), tuple(faults))


def plan_fixes(
    memories: Sequence[Memory], found: Audit, by_hand: Callable[[str], bool] = lambda _: False
) -> tuple[Step, ...]:
    """What can be repaired without a reader: nothing that holds words of its own is ever deleted, nor
    a file that a person made or changed: an empty one may be waiting for its words, and gets its line in
    the index with them."""
    by_path = {memory.path: memory for memory in memories}
    junk = {fault.path for fault in found.faults if fault.kind == "junk"}
    steps: list[Step] = []
    gone: set[str] = set()
    for fault in found.faults:
        memory = by_path.get(fault.path)
        if fault.doubtful:
            continue
        if fault.kind in ("junk", "duplicate") and memory and fault.path not in gone:
            if fault.other in gone or by_hand(fault.path):  # one of the two must stay
                continue
            gone.add(fault.path)
            steps.append(Step("delete", fault.path, fault.reason))
        elif fault.kind == "dangling" and fault.path not in junk:
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


def _junk(memory: Memory, stems: int) -> tuple[str, bool] | None:
    body = memory.body.strip()
    if not body and not memory.description.strip():
        return "it is empty", False
    if _PLACEHOLDERS.fullmatch(body) and stems < 4:
        return "it holds a placeholder only", False
    if _SMALL_TALK.fullmatch(body):
        return "it records small talk", True
    if stems < 1 + (memory.type not in ("user", "feedback")):  # "I am a nurse"
        return "it says next to nothing", True
    if len(body) > 200 and len(_prose(body).strip()) < 0.05 * len(body):
        return "it is code or output only", True
    return None


def _duplicates(heard: Sequence[_Heard], listed: Collection[str]) -> Iterator[Fault]:
    def staying(one: _Heard) -> tuple[bool, bool, float, str]:
        """A quotation is to go, then the one that the index does not know, else the older."""
        path, speaks = one.memory.path, not one.memory.quoted
        return speaks, path in listed, _written(one.memory), path

    # Of copies one stays and speaks for all: a fault for each pair would be too many to read.
    same: dict[tuple[object, ...], list[_Heard]] = {}
    for one in heard:
        if one.stems:
            same.setdefault((one.memory.type, one.mark, one.memory.team), []).append(one)
    stay: list[_Heard] = []
    for group in same.values():
        *older, newest = sorted(group, key=staying)
        stay.append(newest)
        there = newest.memory.path
        for one in older:
            yield Fault(
                "duplicate", one.memory.path, f"{there} says the same word for word", other=there
            )
    for first, second, likeness in alike_pairs([one.stems for one in stay], _ALIKE):
        old, new = (one.memory.path for one in sorted((stay[first], stay[second]), key=staying))
        reason = f"{new} says the same to {likeness:.0%}"
        yield Fault("duplicate", old, reason, doubtful=True, other=new)


def _folded(text: str) -> bytes:
    return blake2b(wording.fold(text).encode("utf-8", "replace"), digest_size=16).digest()


def _contradictions(heard: Iterable[_Heard]) -> Iterator[Fault]:
    told = ((*contradicting(one.memory)[:2], one.told) for one in heard)
    for one, other, reason in quarrels(told):
        yield Fault("contradiction", one, f"against {other}: {reason}", doubtful=True, other=other)


def contradicting(memory: Memory) -> tuple[str, str, str]:
    """A memory as the detector of contradictions reads it: path, what it is about, what it says."""
    head = f"{memory.name}\n{memory.path} {memory.description}"
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
    heard: Sequence[_Heard],
    now: float,
    last_used: Mapping[str, float],
    exists: Callable[[str], bool] | None,
    later: Mapping[str, str],
) -> Iterator[Fault]:
    """What drifted from the code, what another memory took the place of, and what is both old and not
    used. Age alone says nothing: of a store whose use nobody counts no memory is old."""
    for one in heard:
        memory, missing = one.memory, _missing(one.files, exists) if exists else []
        if missing:
            reason = f"it names {', '.join(missing[:3])}, which the project does not have"
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


def _superseded(heard: Iterable[_Heard], resolve: Resolve) -> dict[str, str]:
    """Memories that say themselves, or of which another says, that something took their place."""
    found: dict[str, str] = {}
    for one in heard:
        memory = one.memory
        for key in ("superseded_by", "metadata.superseded_by"):
            if by := memory.extra.get(key, ""):
                found[memory.path] = f"{by} supersedes it"
        if (by := resolve(one.replaced_by)) and by != memory.path:
            found.setdefault(memory.path, f"{by} supersedes it")
        for name in one.replaces:
            if (old := resolve(name)) and old != memory.path:
                found.setdefault(old, f"{memory.path} says that it supersedes it")
    return found


def missing_files(memory: Memory, exists: Callable[[str], bool]) -> list[str]:
    """Files that a memory names in folders of the project, and that are not there any more."""
    return _missing(files_named_in(f"{memory.description}\n{memory.body}"), exists)


def _missing(named: Iterable[str], exists: Callable[[str], bool]) -> list[str]:
    return [name for name in named if exists(name.split("/", 1)[0]) and not exists(name)]


def _listed(index: bytes, team_index: bytes) -> Iterator[tuple[str, int]]:
    """(path, line) of every link of both indexes."""
    for prefix, content in (("", index), ("team/", team_index)):
        for link in links_of(content):
            yield prefix + link.file, link.line


def _dangling(
    memories: Iterable[Memory], index: bytes, team_index: bytes, resolve: Resolve
) -> Iterator[Fault]:
    paths = sorted(one.path for one in memories if not one.quoted)  # which are found without a line
    folders = {"", "team", *(path.rpartition("/")[0] for path in paths)}
    for path, line in _listed(index, team_index):
        # A link into another folder leads elsewhere, perhaps into the project.
        if not resolve(path) and path.rpartition("/")[0] in folders:
            reason = f"line {line} of {index_of(path)} points to it, but it is not there"
            yield Fault("dangling", path, reason)
    # A folder of that name without an index of its own is no team's: whoever keeps it names its files.
    for prefix, content in (*([("team/", team_index)] if team_index else ()), ("", index)):
        here = [p.removeprefix(prefix) for p in paths if index_of(p) == f"{prefix}MEMORY.md"]
        named = files_named(content, here)
        if prefix:  # a folder of that name need not be a team's: the index beside may point there
            pointed = files_named(index, [*map(prefix.__add__, here)])
            named |= {path.removeprefix(prefix) for path in pointed}
        for path in here:
            if path not in named and path.casefold() != "readme.md":
                yield Fault("dangling", prefix + path, f"{prefix}MEMORY.md does not point to it")


def _dead_links(heard: Sequence[_Heard], by_path: Resolve) -> Iterator[Fault]:
    names = {_link_key(one.memory.name) for one in heard}
    for one in heard:
        for target in one.links:
            if not by_path(target) and _link_key(target) not in names:
                reason = f"its link [[{target}]] leads nowhere"
                yield Fault("dangling", one.memory.path, reason, doubtful=True)


def _link_key(name: str) -> str:
    return name.strip().removesuffix(".md").casefold().replace("_", "-").replace(" ", "-")


def _oversized(heard: Iterable[_Heard], index: bytes, team_index: bytes) -> Iterator[Fault]:
    for memory, lines, size in ((one.memory, one.lines, one.size) for one in heard):
        if lines > _SHOWN_LINES or size > _SHOWN_BYTES:
            shown = f"recall shows {_SHOWN_LINES} and {_SHOWN_BYTES:,}"
            yield Fault("oversized", memory.path, f"{_size(lines, size)}: {shown}")
    for path, content in (("MEMORY.md", index), ("team/MEMORY.md", team_index)):
        lines = content.splitlines()
        if len(lines) > LOADED_LINES or len(content) > LOADED_BYTES:
            has = _size(len(lines), len(content))
            reason = f"{has}: only {LOADED_LINES} and {LOADED_BYTES:,} are loaded"
            yield Fault("oversized", path, reason)
        told = [line.decode("utf-8", "replace") for line in lines]
        if long := [n for n, line in enumerate(told, 1) if len(line) > ADVISED_LINE]:
            reason = f"more than {ADVISED_LINE} characters in {_which(long)}"
            yield Fault("oversized", path, reason)


def _size(lines: int, size: int) -> str:
    return f"{lines:,} line{'s' * (lines != 1)}, {size:,} bytes"


def _which(lines: Sequence[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    return f"{len(lines):,} lines, the first is line {lines[0]}"


def _unlabelled(memories: Iterable[Memory]) -> Iterator[Fault]:
    for memory in memories:
        missing: list[str] = []
        if memory.type is None:
            missing.append("type")
        if not memory.description.strip():
            missing.append("description")
        if missing:
            yield Fault("unlabelled", memory.path, f"it has no {' and no '.join(missing)}")


def _text_in_index(index: bytes, team_index: bytes, resolve: Resolve) -> Iterator[Fault]:
    for path, content in (("MEMORY.md", index), ("team/MEMORY.md", team_index)):
        if text := lines_of_text(content, resolve):
            reason = f"no pointer in {_which(text)}: what it says belongs in topic files"
            yield Fault("unlabelled", path, reason)


def _type_by_name(path: str) -> str:
    start = re.split(r"[_-]", path.rsplit("/", 1)[-1], maxsplit=1)[0]
    return start if start in cast("tuple[str, ...]", MEMORY_TYPES) else ""
