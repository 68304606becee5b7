"""Remember saves a memory, Forget removes one, Recall searches memories and past sessions.

Writing goes through the store, so that the gate decides; the user's words that a memory rests on, or
that ask to forget it, are looked up in the session's record.

Skill loads instructions for a kind of work, kept as `NAME/SKILL.md`. The model is told names and
descriptions; the text comes by calling the tool, which leaves the path in the record, so that
compaction can bring invoked skills back. It reads the directories that it is given, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import anyio.to_thread

from lamina.errors import GateRefused, MemoryStoreError, ToolError
from lamina.machine import failing_as
from lamina.memories import MEMORY_TYPES, Forgotten, Memory, MemoryType, Outcome, Parted, Proposal
from lamina.memory import (
    and_kept_away,
    file_name,
    in_their_words,
    not_forgotten,
    read_header,
    read_topic,
    title_of,
)
from lamina.messages import Json
from lamina.ports import MemoryStore, ToolContext, ToolOutcome, ToolSpec
from lamina.text.asks import forget_wish
from lamina.text.own_words import on_one_line
from lamina.tools import memory_guard, takes, words

_HOW = "To forget one of them, name its file: “forget FILE.md”."


@dataclass(frozen=True, slots=True)
class Forget:
    spec = ToolSpec(
        name="Forget",
        description=(
            "Removes a memory for good: its file and its line in MEMORY.md in one call, and what it said "
            "is not saved again from past talk. Use it when you are asked to forget something. Of a memory "
            "that says other things too only the part that you name goes, where it can be told apart. If "
            "several memories fit, none goes and they are listed."
        ),
        input_schema=takes(
            "memory",
            memory=words(1_000, "The file's name, such as user_role.md, or what the memory says."),
        ),
        parallel=False,
    )

    store: MemoryStore
    session: str
    entries: Callable[[], Sequence[Json]]

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        entries = list(self.entries())
        wish = _line(input["memory"])
        try:
            done = await anyio.to_thread.run_sync(self.forget, wish, context.tool_use_id, entries)
        except (GateRefused, MemoryStoreError) as error:
            return _not_done("Not forgotten", error)
        decision = "forgotten" if done.path else done.fit
        return ToolOutcome(done.sentence, meta={"decision": decision, "memory": done.path})

    def forget(self, wish: str, call: str, entries: Sequence[Json]) -> Forgotten:
        """Forget what these words mean, if the entries show that the user wants it."""
        found = self.store.meant(wish)
        if found.fit == "certain":
            return self._forget_one(found.memories[0], found.part, call, entries)
        told = not_forgotten(found, wish, _HOW)
        # The user's last words may wish a statement away that no memory holds yet.
        new = found.fit in ("near", "none")
        wished = forget_wish(memory_guard.last_typed(entries)) if new else None
        kept = wished and wished.claim and self.store.keep_away(wished.words, found.memories)
        return and_kept_away(told) if kept else told

    def _forget_one(
        self, memory: Memory, part: Parted | None, call: str, entries: Sequence[Json]
    ) -> Forgotten:
        evidence = memory_guard.asked_to_forget(memory, entries, self.session)
        if memory.path in self.store.pinned():
            raise GateRefused(
                f"{memory.path} is pinned: only the user may change it, "
                f"with `lamina memory forget {memory.path}`."
            )
        facts = memory.type in ("project", "reference")
        if not evidence and (not facts or self.store.would_lose(memory)):
            raise GateRefused(
                f"{memory.path} holds the user's own words, and nothing they said here asks to forget "
                "it. Ask them first."
            )
        return self.store.forget_meant(
            memory,
            part=part,
            writer="agent",
            session=self.session,
            reason=f"the agent called Forget ({call})" if call else "the agent called Forget",
            evidence=evidence,
            asked=bool(evidence),
        )


SHOWN_CHARACTERS = 1_500  # of one memory or turn
_MOST = 20


@dataclass(frozen=True, slots=True)
class Remembered:
    """One thing that a search found."""

    heading: str  # what it is, where it stands and how old it is
    text: str
    path: str = ""  # of a memory, relative


Search = Callable[[str, int], Sequence[Remembered]]


class Recall:
    spec = ToolSpec(
        name="Recall",
        description=(
            "Searches what you remember: the memories that fit the query best, with their files. With "
            "where `sessions`, searches what was said in past sessions of this project instead, for "
            "when the memories don't say it. Use plain words, narrow ones first."
        ),
        input_schema=takes(
            "query",
            query={"type": "string", "minLength": 1, "maxLength": 2_000},
            where={"type": "string", "enum": ["memories", "sessions"]},
            limit={"type": "integer", "minimum": 1, "maximum": _MOST},
        ),
        read_only=True,
    )

    def __init__(self, memories: Search, sessions: Search) -> None:
        self._memories = memories
        self._sessions = sessions

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002, ARG002
        query, limit = str(input["query"]), int(input.get("limit") or 5)
        past = input.get("where") == "sessions"
        search = self._sessions if past else self._memories
        # A search changes nothing: a turn that is cancelled need not wait for it.
        found = await anyio.to_thread.run_sync(search, query, limit, abandon_on_cancel=True)
        if not found:
            where = "past session" if past else "memory"
            more = "" if past else " Past sessions may: where `sessions` looks there."
            return ToolOutcome(f"No {where} says anything about that.{more}", meta={"found": 0})
        whole = [one.path for one in found if one.path and len(one.text) <= SHOWN_CHARACTERS]
        meta = {"found": len(found), "memories": whole}
        return ToolOutcome("\n\n".join(map(shown_memory, found)), meta=meta)


def shown_memory(one: Remembered) -> str:
    text = one.text.strip()
    if len(text) > SHOWN_CHARACTERS:
        text = f"{text[:SHOWN_CHARACTERS].rstrip()} …\n[Cut here.]"
    return f"{one.heading}\n{text}"


@dataclass(frozen=True, slots=True)
class Remember:
    spec = ToolSpec(
        name="Remember",
        description=(
            "Saves a memory for later sessions: its file and its line in MEMORY.md in one call. Use it "
            "at once when you are asked to remember something. Keep to the person's own words for "
            "`user` and `feedback`: what they did not say themselves waits for them in an inbox. "
            "`feedback` and `project` say the rule or fact first, then **Why:** and **How to apply:**. "
            "To change a memory, read it, then give its file and the whole new text."
        ),
        input_schema=takes(
            "content name description type",
            content=words(100_000, "The memory itself, in Markdown."),
            name=words(200, "A short title."),
            description=words(1_000, "One line that says exactly what is in it, to find it by."),
            type={"type": "string", "enum": list(MEMORY_TYPES)},
            file={
                "type": "string",
                "maxLength": 500,
                "description": "The file's name, such as user_role.md; needed only to change one.",
            },
        ),
        parallel=False,
    )

    store: MemoryStore
    session: str
    entries: Callable[[], Sequence[Json]]
    with_index: bool = True  # False: MEMORY.md is not kept
    log: Callable[[], float] | None = None  # the clock of a diary: it is logged instead

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        entries = list(self.entries())
        try:
            outcome = await anyio.to_thread.run_sync(self.save, input, context.tool_use_id, entries)
        except (GateRefused, MemoryStoreError) as error:
            return _not_done("Not remembered", error)
        meta = {"decision": outcome.decision, "memory": outcome.path, "origin": outcome.origin}
        return ToolOutcome(told(outcome), meta=meta)

    def save(self, input: Json, call: str, entries: Sequence[Json]) -> Outcome:  # noqa: A002
        """Save it, with what of the entries bears it out."""
        kind = cast("MemoryType", str(input["type"]))
        name, description = _line(input["name"]), _line(input["description"])
        # How far the first line of a memory is indented may be what is to change.
        content = str(input["content"]).strip("\r\n").rstrip()
        path = str(input.get("file") or "").strip() or file_name(kind, name, description)
        base = None
        with suppress(MemoryStoreError):  # of a name that can't be one, the gate says why
            base = self.store.read(path) if input.get("file") else None
        if base and kind in ("user", "feedback"):
            # No model names what the user said.
            name = base.name if description == _line(base.description) else title_of(description)
        claim = f"{name}\n{description}\n{content}"
        evidence = memory_guard.evidence_for(
            claim, entries, self.session, users_word=kind in ("user", "feedback")
        )
        proposal = Proposal(
            path=path,
            name=name,
            description=description,
            type=kind,
            body=f"{content if base else content.lstrip()}\n",
            writer="agent",
            evidence=tuple(evidence),
            session=self.session,
            reason=f"the agent called Remember ({call})" if call else "the agent called Remember",
        )
        worded = in_their_words(self.store, proposal, base)
        after = Memory(path, worded.name, worded.description, kind, worded.body)
        after = replace(after, extra=base.extra) if base else after
        back = memory_guard.taken_back(base, after, entries, self.session)
        worded = replace(worded, takes_back=back)
        logged = memory_guard.log_instead(self.store, worded, self.log()) if self.log else None
        outcome = logged or self.store.remember(worded, base=base, pointer=self.with_index)
        known = {*proposal.body.splitlines(), *(base.body.splitlines() if base else ())}
        theirs = on_one_line("\n".join(one for one in worded.body.splitlines() if one not in known))
        if not theirs:
            return outcome
        note = f"It says so in the user's own words: “{theirs.rstrip('.')}”"
        return replace(outcome, warnings=[*outcome.warnings, note])


def _not_done(what: str, error: GateRefused | MemoryStoreError) -> ToolOutcome:
    decision = "refuse" if isinstance(error, GateRefused) else "failed"
    meta = {"decision": decision, "reason": str(error)}
    return ToolOutcome(f"{what}: {error}", is_error=True, meta=meta)


def _line(value: object) -> str:
    return " ".join(str(value).split())


def told(outcome: Outcome) -> str:
    """Accepted, or in the inbox and why."""
    words = [outcome.sentence]
    if outcome.decision == "inbox":
        words.append(
            "It is not remembered yet: `lamina memory inbox` shows it, and "
            f"`lamina memory inbox accept {outcome.inbox_id}` saves it."
        )
        if outcome.update_of:
            words.append(f"Or change {outcome.update_of}, after a look at what it says.")
    return "\n".join([*words, *outcome.warnings])


# ---- skills

SKILL_FILE = "SKILL.md"
MOST_SKILLS = 100
LONGEST_DESCRIPTION = 300
LONGEST_SKILL = 40_000
_SKILL_HEAD = 4_096


@dataclass(frozen=True, slots=True)
class Skill:
    name: str
    description: str
    path: Path


def find_skills(directories: Sequence[Path]) -> list[Skill]:
    """The skills below these directories, by name; of two with one name the later directory's."""
    found: dict[str, Skill] = {}
    for directory in directories:
        for path in sorted(directory.glob(f"*/{SKILL_FILE}")):
            try:
                with path.open("rb") as file:
                    name, description, _ = read_header(path.parent.name, file.read(_SKILL_HEAD))
            except OSError:
                continue  # unreadable: the model is not offered what it can't have
            found[name] = Skill(name, " ".join(description.split())[:LONGEST_DESCRIPTION], path)
    return [found[name] for name in sorted(found)][:MOST_SKILLS]


class SkillTool:
    """The tool over some skills. The list is fixed, so that the prompt's bytes are."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = {skill.name: skill for skill in skills}
        listed = "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)
        self.spec = ToolSpec(
            name="Skill",
            description=(
                "Loads the instructions of a skill. Do so before work that one of these describes, "
                f"then follow them:\n{listed}"
            ),
            input_schema=takes("name", name={"type": "string", "enum": list(self._skills)}),
            read_only=True,
        )

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002, ARG002
        skill = self._skills[input["name"]]
        text = await anyio.to_thread.run_sync(_load_skill, skill)
        folder = f"Files that it names are in {skill.path.parent}."
        meta = {"skill": skill.name, "path": str(skill.path)}
        return ToolOutcome(f"{text}\n\n[{folder}]", meta=meta)


def _load_skill(skill: Skill) -> str:
    telling = failing_as(ToolError, f"The skill {skill.name} can't be read")
    with telling, skill.path.open("rb") as file:
        data = file.read(4 * LONGEST_SKILL)
    body = read_topic(str(skill.path), data).body.strip()
    return body if len(body) <= LONGEST_SKILL else f"{body[:LONGEST_SKILL]}\n\n[… cut here]"
