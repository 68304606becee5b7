"""Extraction by a model: a fork that shares the parent's cached prefix, and what the files that it
writes rest on, which is its quotes, found in the new messages of the record.

A file ends with a fenced `evidence` list, one `label: quote` a line; it is taken off before saving.
What cites nothing and repeats nothing rests on nothing, and the gate sends it to the inbox.
Touches the memory directory through the store alone. See docs/decisions/evidence-of-extraction.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from lamina import prompts
from lamina.cache.account import keep_warm_after
from lamina.errors import GateRefused, ModelError
from lamina.layers import fork_tools
from lamina.layers.extraction import Extracted, Unwanted, log_of, said_at
from lamina.ledger.record import blocks_of_entry
from lamina.memories import Evidence, Outcome, Proposal
from lamina.memory import (
    edit_topic,
    file_in_their_words,
    manifest,
    proposal_of,
    read_topic,
    team_is_on,
    topic_at,
)
from lamina.messages import Json, text_of
from lamina.secrets import secrets_in
from lamina.state import State
from lamina.text import wording
from lamina.text.origins import typed_parts
from lamina.tools.memory_guard import echoed, log_instead, taken_back

if TYPE_CHECKING:
    from lamina.ports import Fork, MemoryStore

_FENCE = re.compile(
    r"(?<!\n)\n*^(`{3,}|~{3,})[ \t]*evidence[ \t]*\n(.*?)(?:^\1[ \t]*$|\Z)\n?",
    re.MULTILINE | re.DOTALL,
)
_LINE = re.compile(r"\s*(?:[-*]\s+)?(m\d+)\s*:\s*(.+?)\s*")
_LONGEST_MESSAGE, _LONGEST = 2_000, 16_000  # characters of typed words in the prompt
_MOST_FILES = 30  # of one run; a fork that proposes more is doing what a text told it to
_MOST_SOURCES = 20
_MOST_QUOTES = 50  # each is looked for in the record; a memory rests on a few


async def by_fork(
    state: State, ask: Fork, store: MemoryStore, entries: Sequence[Json]
) -> Extracted | None:
    """None where the fork had no money, or a window too small for it."""
    done = Extracted(by="model")
    words = NewWords.of(entries, state.deps.session_id)
    calls = state.config.int("extraction.max_calls")
    known = await anyio.to_thread.run_sync(_manifest, state, store, words)
    team = state.flags.on("team") and team_is_on(state.config, store.state)
    log = log_of(state, store)
    directive = directive_for(
        words, str(store.directory), known, calls, team=team, daily=log is not None
    )
    ask_it = partial(
        ask,
        purpose="extraction",
        permit=fork_tools.permit_for(state, store.directory, why_not),
        max_calls=calls,
        instead=fork_tools.tools_for(state, partial(_keep, store, words, done, log)),
        ends_with=fork_tools.WRITING if state.thrifty else (),
    )
    alone = f"<conversation>\n{told(entries)}\n</conversation>\n\n{directive}"
    apart = cheaper_apart(state, alone)
    state.ledger.append(state.paid_for(alone if apart else directive, apart=apart))
    result = await ask_it(alone if apart else directive, apart=apart)
    if apart and result.error:
        result = await ask_it(directive)
    done.refused += result.refused
    if result.stop == "refused" or result.too_long is not None:
        # The rules serve, unless something is done already.
        return done if done.files or done.inbox else None
    if result.error:
        raise ModelError(result.error)
    return done


def cheaper_apart(state: State, prompt: str) -> bool:
    """Is the small model, which sees what is new alone, cheaper than reading the conversation from
    the cache? Where the cache would be lost soon, the reading also keeps it, which is worth more on
    the average; it is a bet, and so paid out of what the session has saved."""
    account = state.balance()
    if account is None:
        return False
    now, life = state.deps.clock.now(), state.capabilities.cache_ttl
    if state.kept_for and account.used_at + keep_warm_after(life) <= now <= account.warm_until:
        return False
    return state.cheaper_apart(prompt)


def directive_for(
    words: NewWords,
    directory: str,
    known: str,
    calls: int,
    *,
    team: bool = False,
    daily: bool = False,
) -> str:
    """What a fork is asked, given the files that it may already find."""
    more = [name for name, on in (("extraction_daily", daily), ("extraction_team", team)) if on]
    return prompts.load(
        "extraction",
        count=str(len(words.entries)),
        directory=directory,
        team="".join(f" {prompts.load(name)}" for name in more[:1]),
        manifest=known or "(no files yet)",
        calls=str(calls),
        words=words.shown,
    )


def why_not(path: str) -> str:
    """Files of the memory directory that no fork writes."""
    if path.rsplit("/", 1)[-1] == "MEMORY.md":
        return "the lines of MEMORY.md are kept by themselves; write topic files only."
    if path.startswith("logs/"):
        return "the diary is the agent's own."
    return "" if path.endswith(".md") else "memories are Markdown files, such as topic.md."


def _keep(
    store: MemoryStore,
    words: NewWords,
    done: Extracted,
    log: Callable[[], float] | None,
    path: str,
    content: bytes,
    before: bytes | None,
) -> str:
    """One file of the fork, on its way through the gate."""
    rules = store.secret_rules
    shown = secrets_in(path, path.upper(), rules=rules).mask(path)
    if len(content) > 2 * store.max_bytes:  # the rest would only cost time
        error = GateRefused(f"{shown}: {len(content):,} bytes are too many for a memory.")
        done.turn_away(error)
        raise error
    text = content.decode("utf-8", "replace")
    shown = secrets_in(text, shown, rules=rules).mask(shown)
    strict = read_topic(path, content).type in ("user", "feedback")
    body, evidence = words.evidence_for(text, strict=strict)
    try:
        if len(done.files) + len(done.inbox) >= _MOST_FILES:
            raise GateRefused(f"{shown}: one look at a conversation keeps {_MOST_FILES} at most.")
        if Unwanted(words.entries)(body, evidence):
            raise GateRefused(f"{shown}: the user asked to forget this.")
        data = words.dated(path, body.encode(), before, evidence)
        made = _proposed(words, path, data, evidence)
        path, data = file_in_their_words(store, made, data, before)
        data = words.dated(path, data, before, evidence)  # theirs name days, too
        proposal = _proposed(words, path, data, evidence)
        if log is not None and (logged := _logged(store, proposal, before, log())):
            return done.take(logged)
        versions = topic_at(path, before), topic_at(path, data)
        outcome = store.write_file(
            path,
            data,
            writer="extraction",
            base=before,
            evidence=evidence,
            takes_back=taken_back(*versions, words.entries, words.session),
            session=words.session,
            reason="extracted from the conversation",
            pointer=True,
        )
    except GateRefused as error:
        done.turn_away(error)
        raise
    return done.take(outcome)


def _proposed(words: NewWords, path: str, data: bytes, evidence: Sequence[Evidence]) -> Proposal:
    made = proposal_of(read_topic(path, data), "extraction", words.session)
    return replace(made, evidence=tuple(evidence), reason="extracted from the conversation")


def _logged(
    store: MemoryStore, proposal: Proposal, before: bytes | None, now: float
) -> Outcome | None:
    """What a file says beyond what it said, as an entry of the day's log."""
    old = topic_at(proposal.path, before)
    known = old.body.splitlines() if old is not None else []
    body = "\n".join(line for line in proposal.body.splitlines() if line not in known)
    return log_instead(store, replace(proposal, body=f"{body}\n"), now)


def _manifest(state: State, store: MemoryStore, words: NewWords) -> str:
    """The newest files; where there are too many, those that share words with what was said."""
    most = state.config.int("memory.manifest_files")
    newest = store.newest(most + 1)
    if len(newest) <= most:
        return manifest(newest, most)
    found = [hit.memory for hit in store.search(words.shown, most)]
    known = {memory.path for memory in found}
    rest = [memory for memory in newest if memory.path not in known]
    return manifest([*found, *rest], most)


# ---- what its files rest on


@dataclass(frozen=True, slots=True)
class NewWords:
    """The messages that an extraction is about."""

    entries: Sequence[Json]
    session: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])  # m1 → uuid of the entry
    shown: str = ""  # the typed words with their labels, for the prompt

    @classmethod
    def of(cls, entries: Sequence[Json], session: str) -> NewWords:
        labels: dict[str, str] = {}
        lines: list[str] = []
        room = _LONGEST
        for entry in entries:
            words = "\n".join(typed_parts(blocks_of_entry(entry))).strip()
            if not words or room <= 0:
                continue
            label = f"m{len(labels) + 1}"
            labels[label] = str(entry["uuid"])
            shown = words if len(words) <= _LONGEST_MESSAGE else words[:_LONGEST_MESSAGE] + " […]"
            room -= len(shown)
            said = said_at(entry)
            day = f"{said:%A %Y-%m-%d}" if said else "no date"
            lines.append(f"{label} ({day}): {shown}")
        return cls(entries, session, labels, "\n".join(lines))

    def evidence_for(self, content: str, *, strict: bool) -> tuple[str, list[Evidence]]:
        """The file without its evidence, and that evidence as the gate takes it.

        `strict`: the type promises the user's own word, so only its quotes speak for it.
        """
        body, quotes = take_evidence(content)
        cited = [self._found(label, quote) for label, quote in quotes]
        if strict:
            return body, cited
        return body, [*cited, *echoed(body, self.entries, self.session, most=_MOST_SOURCES)]

    def dated(
        self, path: str, content: bytes, before: bytes | None, evidence: Sequence[Evidence]
    ) -> bytes:
        """A fact with its relative dates written out, from the day of the words it rests on. What
        stood there before was said on another day, and the user's own words stay as they are."""
        from lamina.text.written_dates import dated

        memory, cited = read_topic(path, content), {one.entry for one in evidence}
        days = [at.date() for one in self.entries if one["uuid"] in cited and (at := said_at(one))]
        days = days or [at.date() for one in self.entries if (at := said_at(one))]
        if memory.type in ("user", "feedback") or not days:
            return content
        known = {*(before or b"").decode("utf-8", "replace").splitlines()}
        lines = zip(memory.body.split("\n"), dated(memory.body, days[-1]).split("\n"), strict=True)
        body = "\n".join(old if old in known else new for old, new in lines)
        description = dated(memory.description, days[-1])
        if before is not None and read_topic(path, before).description == memory.description:
            description = memory.description
        if (body, description) == (memory.body, memory.description):
            return content
        # What does not change is not written anew: the gate is to see it as it was given.
        return edit_topic(
            content,
            body=body if body != memory.body else None,
            description=description if description != memory.description else None,
        )

    def _found(self, label: str, quote: str) -> Evidence:
        if label in self.labels:
            return Evidence(quote, self.session, self.labels[label])
        needle = wording.fold(quote)
        for entry in self.entries:
            if any(needle in wording.fold(text) for _, text in blocks_of_entry(entry)):
                return Evidence(quote, self.session, str(entry["uuid"]))
        return Evidence(quote, self.session, "")


def take_evidence(content: str) -> tuple[str, list[tuple[str, str]]]:
    """The text without its evidence fences, and their lines as (label, quote)."""
    quotes: list[tuple[str, str]] = []
    for fence in _FENCE.finditer(content):
        for line in fence[2].splitlines():
            if match := _LINE.fullmatch(line):
                quotes.append((match[1], match[2].strip("\"“”'‘’ ")))
            elif line.strip():
                quotes.append(("", line.strip(" -*\"“”'‘’")))
    body = _FENCE.sub("\n", content)
    return (body.rstrip("\n") + "\n" if quotes else body), quotes[:_MOST_QUOTES]


_LONGEST_TOLD = 2_000  # characters of one message that the small model is shown


def told(entries: Sequence[Json]) -> str:
    """What was said in messages, without what tools said."""
    said = [
        (entry["role"], words.strip())
        for entry in entries
        for words in (
            [text_of(entry["content"])]
            if entry["role"] == "assistant"
            else typed_parts(blocks_of_entry(entry))
        )
    ]
    return "\n\n".join(f"{role}: {words[:_LONGEST_TOLD]}" for role, words in said if words)
