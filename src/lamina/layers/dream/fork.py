"""The dream with a model: a fork that works on a copy of the memory, and the review of what it left.

The fork writes in the copy alone. What comes back is taken file by file: nothing removed without a
reason, nothing said that stood nowhere before. Whether all still stands is judged at the end, by
`dream.judge`. Touches the copy, which it makes and removes.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

import anyio.to_thread

from lamina import prompts
from lamina.errors import LaminaError, ModelError
from lamina.events import Event
from lamina.layers import fork_tools
from lamina.layers.dream.judge import MemorySnapshot
from lamina.layers.dream.plan import DreamPlanner, WantedMemory, named
from lamina.layers.dream.record import new_logs
from lamina.ledger import log
from lamina.ledger.record import blocks_of_entry
from lamina.machine import private_folder, write_private
from lamina.memories import Evidence, Memory, Proposal, Verdict
from lamina.memory import (
    INDEX,
    file_in_their_words,
    free_names,
    manifest,
    missing_files,
    proposal_of,
    read_topic,
    topic_of,
)
from lamina.messages import Json
from lamina.ports import Decision, MemoryStore, Permit, ToolContext, ToolSpec
from lamina.secrets import Rules, secrets_in
from lamina.state import State
from lamina.text import wording
from lamina.text.claims import statements
from lamina.text.origins import typed_parts

MOST_CALLS = 30
_GONE = re.compile(r"\s*gone:[ \t]*(\S[^\n]*)\s*")
_MOST_NAMED = 20
_TYPED_IN = ("*", "hooks/*", "other-agents/*/*")
_MOST_SESSIONS = 200  # the newest, in which the user's words are looked for
_LARGEST_COPY = 1_000_000
_HEARD = 0.7  # of a statement's words in one sentence: worth showing to the gate
_MOST_HEARD = 40  # sentences for one file, the newest

T = TypeVar("T")
Tell = Callable[[str, str], None]  # a tool, and the file it works on


async def dream(
    state: State,
    planner: DreamPlanner,
    copy: Path,
    logs: Mapping[str, str],
    tell: Tell,
    hear: Callable[[Event], None],
) -> WantedMemory | None:
    """What the model makes of memory; None where no model can be asked."""
    if state.fork is None or state.deps.model.name == "none":
        return None
    await anyio.to_thread.run_sync(make_copy, planner.before, copy)
    sessions = sessions_of(state, planner)
    directive = await aside(lambda: _directive(state, planner, copy, logs))
    ask = partial(
        state.fork,
        directive,
        purpose="dream",
        permit=_told(fork_tools.permit_for(state, copy, why_not, unread=sessions), copy, tell),
        max_calls=MOST_CALLS,
        instead=fork_tools.tools_for(state, None, unread=sessions),
        hear=hear,
    )
    # Memory is not in the conversation: each call would read that for nothing.
    apart = state.cheaper_apart(directive, directive)
    result = await ask(apart=apart)
    if apart and result.error:
        await anyio.to_thread.run_sync(make_copy, planner.before, copy)
        result = await ask()
    if result.stop == "refused" or result.too_long is not None:
        return None  # no money, or a window too small for it: the rules serve
    if result.error:
        raise ModelError(result.error)
    left = await anyio.to_thread.run_sync(read_copy, copy)
    rules = planner.store.secret_rules

    def reviewed() -> WantedMemory:
        planner.judge.heard = heard_in(state.deps.transcript.parent, planner.before, left)
        left.update(_in_their_words(planner, left))
        typed = [one.quote for heard in planner.judge.heard.values() for one in heard]
        corrected = corrections(planner.before, left, state.config.project)
        planner.judge.correct(corrected)
        right = [content.decode("utf-8", "replace") for content in corrected.values()]
        told = [*logs.values(), *typed, *planner.dated(), *right]
        wanted = review(planner.before, left, "\n".join(told), planner.held)
        return _masked(wanted, left, rules)

    return await aside(reviewed)


def _in_their_words(
    planner: DreamPlanner, left: Mapping[str, bytes]
) -> Iterator[tuple[str, bytes]]:
    """New files in what the user typed in past sessions, where the model's words would wait. What a
    memory says already is only moved, and stays as it is now."""
    known = {
        wording.fold(line) for one in planner.before.memories() for line in one.body.splitlines()
    }
    for path, heard in planner.judge.heard.items():
        memory = read_topic(path, left[path])
        new = {*map(wording.fold, memory.body.splitlines())} - known - {""}
        if heard and new and path not in planner.before.files:
            made = replace(proposal_of(memory, "dream", ""), evidence=tuple(heard))
            _, content = file_in_their_words(planner.store, made, left[path], None)
            yield path, content  # its name is the dream's; if it says more than they did it waits


def _masked(wanted: WantedMemory, left: Mapping[str, bytes], rules: Rules | None) -> WantedMemory:
    """With nothing in its sentences, which are kept and shown, of secrets that the fork wrote."""
    texts = [content.decode("utf-8", "replace") for content in left.values()]
    names = [name for path in left for name in (path, path.upper())]
    hide = secrets_in(*texts, *names, rules=rules)
    gone = {path: hide.mask(reason) for path, reason in wanted.gone.items()}
    return WantedMemory(wanted.files, gone, [hide.mask(problem) for problem in wanted.problems])


async def aside(work: Callable[[], T]) -> T:
    """In a thread that a kill does not wait for: nothing in it writes."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


def _directive(state: State, planner: DreamPlanner, copy: Path, logs: Mapping[str, str]) -> str:
    memories = planner.before.memories()
    return prompts.load(
        "dream",
        directory=str(copy),
        today=f"{datetime.fromtimestamp(planner.now, UTC).astimezone():%A %Y-%m-%d}",
        manifest=manifest(memories, state.config.int("memory.manifest_files")) or "(none)",
        team=f"\n{prompts.load('dream_team')}\n" if any(one.team for one in memories) else "",
        logs=", ".join(f"`{planner.store.directory / name}`" for name in logs) or "none is new.",
        drifted=_listed(drifted(memories, state.config.project)),
        sessions=str(sessions_of(state, planner)),
        doubts=_listed(
            [f"{named(one.paths)}: {one.reason}" for one in planner.plan(compare=True).doubtful]
        ),
    )


def why_not(path: str) -> str:
    """Files of the copy that the fork does not write."""
    if path.rsplit("/", 1)[-1] == INDEX:
        return "MEMORY.md is made anew from the files."
    if path.startswith(("team/", "logs/")):
        return "only personal topic files are changed here."
    return "" if path.endswith(".md") else "memories are Markdown files, such as topic.md."


def _told(permit: Permit, copy: Path, tell: Tell) -> Permit:
    """The same permission function, which also says what goes on."""

    async def telling(spec: ToolSpec, input: Json, context: ToolContext) -> Decision:  # noqa: A002
        decision = await permit(spec, input, context)
        if decision.allow:
            path = Path(str(input.get("file_path") or input.get("path") or ""))
            inside = path.is_relative_to(copy.resolve()) and path != copy.resolve()
            file = path.relative_to(copy.resolve()).as_posix() if inside else ""
            hide = secrets_in(str(input.get("content") or ""), file, file.upper())
            tell(spec.name, hide.mask(file))
        return decision

    return telling


# ---- the copy


def make_copy(before: MemorySnapshot, copy: Path) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    private_folder(copy)
    files = {**before.files, **({INDEX: before.index} if before.index is not None else {})}
    for path, content in files.items():
        write_private(copy / path, content)


def read_copy(copy: Path) -> dict[str, bytes]:
    """The topic files of the copy: plain files only."""
    found: dict[str, bytes] = {}
    for path in sorted(copy.rglob("*.md")):
        plain = path.is_file() and not path.is_symlink()
        if plain and path.name != INDEX and path.stat().st_size <= _LARGEST_COPY:
            found[path.relative_to(copy).as_posix()] = path.read_bytes()
    return found


# ---- gathering


def sessions_of(state: State, planner: DreamPlanner) -> Path:
    """Where past sessions lie: in Claude mode beside the memory of that tool."""
    beside = planner.store.directory.parent
    return beside if state.config.claude else state.deps.transcript.parent


def heard_in(
    folder: Path, before: MemorySnapshot, left: Mapping[str, bytes]
) -> dict[str, list[Evidence]]:
    """For each changed file, sentences that the user typed in past sessions and that may carry what
    it says: the gate decides. Only our own recordings tell what was typed from what was pasted; what
    hooks saw of other agents' sessions is among them, and so are the copies of those sessions."""
    wanted: list[tuple[frozenset[str], list[Evidence]]] = []
    found: dict[str, list[Evidence]] = {}
    for path, content in left.items():
        if content != before.files.get(path):
            memory = read_topic(path, content)
            found[path] = []
            lines = {memory.description, *(part.text for part in statements(memory.body))}
            wanted += [(wording.content_stems(line), found[path]) for line in lines]
    wanted = [one for one in wanted if one[0]]
    for session, entries in _recorded(folder, _TYPED_IN) if wanted else ():
        for entry in entries:
            for part in typed_parts(blocks_of_entry(entry)):
                for said in wording.sentences(part):
                    stems = wording.content_stems(said)
                    quote = Evidence(said, session, str(entry.get("uuid")))
                    for needed, heard in wanted:
                        if len(needed & stems) >= _HEARD * len(needed):
                            heard.append(quote)
    return {path: heard[-_MOST_HEARD:] for path, heard in found.items()}


def _recorded(
    folder: Path, where: Sequence[str], since: float = 0.0
) -> Iterator[tuple[str, Sequence[Json]]]:
    """The newest sessions, oldest first, and what was said in them; none if none is newer than that."""
    times: dict[Path, float] = {}
    for path in chain.from_iterable(folder.glob(f"{one}.jsonl") for one in where):
        with contextlib.suppress(OSError):
            times[path] = path.stat().st_mtime
    if max(times.values(), default=0.0) <= since:
        return
    for path in sorted(times, key=times.__getitem__)[-_MOST_SESSIONS:]:
        with contextlib.suppress(LaminaError, OSError):
            yield path.relative_to(folder).with_suffix("").as_posix(), log.read(path).entries


def said_again(
    folder: Path, store: MemoryStore, now: float, since: float
) -> list[tuple[Proposal, Verdict, bytes]]:
    """What the user said in several sessions, Lamina's and other agents', and no memory says: for the
    inbox, where a person decides. What they rejected or had forgotten is not brought up again."""
    sessions = {
        session: [_message(entry) for entry in entries if entry.get("kind") == "message"]
        for session, entries in _recorded(folder, (*_TYPED_IN, "conversations/*"), since)
    }
    if len(sessions) < 2:
        return []
    from lamina.local.dream_finds import said_again as repeated

    waiting = [f"{one.proposal.description}\n{one.proposal.body}" for one in store.waiting()]
    found: list[tuple[Proposal, Verdict, bytes]] = []
    for one in repeated(sessions, now=datetime.fromtimestamp(now, UTC).astimezone()):
        said = f"{one.description}\n{one.body}"
        quotes = (quote.quote for quote in one.evidence)
        if secrets_in(said, *quotes, rules=store.secret_rules):
            continue  # nor in its reason, which quotes the beginnings
        if any(wording.likeness(said, other) >= _HEARD for other in waiting):
            continue
        with contextlib.suppress(LaminaError):
            free = free_names(one.path, one.body)
            path = next(name for name in free if store.content(name) is None)
            verdict = store.judge(replace(one, path=path), None, None)
            verdict = replace(verdict, decision="inbox", reason=one.reason)
            found.append((replace(one, path=path), verdict, topic_of(one)))
            waiting.append(said)
    return found


def _message(entry: Json) -> Json:
    """An entry as the extractor reads it."""
    said = blocks_of_entry(entry)
    return {
        "role": entry.get("role"),
        "content": [{"type": "text", "text": text, "origin": origin} for origin, text in said],
        "time": entry.get("ts"),
        "uuid": entry.get("uuid"),
    }


def read_logs(directory: Path, since: float) -> dict[str, str]:
    """Days of the diary that were written to since then."""
    contents = {path: path.read_bytes()[:_LARGEST_COPY] for path in new_logs(directory, since)}
    return {
        path.relative_to(directory).as_posix(): content.decode("utf-8", "replace")
        for path, content in contents.items()
    }


def drifted(memories: Sequence[Memory], project: Path) -> list[str]:
    """Memories that name files which the project does not have."""
    found = {
        one.path: missing_files(one, lambda name: (project / name).exists()) for one in memories
    }
    return [f"{path} names {', '.join(missing[:5])}" for path, missing in found.items() if missing]


def paths_in(text: str) -> list[str]:
    """Files in folders that a text names; not what stands in links."""
    bare = [word.strip("`'\"“”*_()[]{}<>,;:.!?") for word in text.replace("`", " ` ").split()]
    return [one for one in bare if "/" in one and "." in Path(one).name and "://" not in one]


def corrections(
    before: MemorySnapshot, left: Mapping[str, bytes], project: Path
) -> dict[str, bytes]:
    """Files as they were, but for paths that the project has no more: in their place what the fork
    wrote, if that is there and is called the same, or is the one new path of that kind."""
    root = os.path.realpath(project)

    def exists(name: str) -> bool:
        real = Path(os.path.realpath(project / name))
        return real.is_relative_to(root) and real.exists()

    found: dict[str, bytes] = {}
    for path, content in left.items():
        was = before.files.get(path)
        if was is None or content == was:
            continue
        text, new = (one.decode("utf-8", "surrogateescape") for one in (was, content))
        old, now = paths_in(text), paths_in(new)
        fresh = [one for one in dict.fromkeys(now) if one not in old and exists(one)]
        for gone in dict.fromkeys(one for one in old if one not in now and not exists(one)):
            fits = [one for one in fresh if Path(one).name == Path(gone).name]
            if not fits and exists(gone.split("/", 1)[0]):
                fits = [one for one in fresh if Path(one).suffix == Path(gone).suffix]
            if len(fits) == 1:
                # Not in lib/{gone}, nor in {gone}c or {gone}.bak: those are other files.
                alone = rf"(?<![\w./~-]){re.escape(gone)}(?![\w/~-]|\.\w)"
                text = re.sub(alone, lambda _, now=fits[0]: now, text)
        if (right := text.encode("utf-8", "surrogateescape")) != was:
            found[path] = right
    return found


def _listed(lines: Sequence[str]) -> str:
    shown = [f"\n  - {line}" for line in lines[:_MOST_NAMED]]
    return "".join(shown) if shown else "none."


# ---- the review


def review(
    before: MemorySnapshot, left: Mapping[str, bytes], diary: str, held: set[str]
) -> WantedMemory:
    """What of the fork's work may go on to the gate. Each file that may not is as it was before."""
    files: dict[str, bytes] = dict(before.files)
    gone: dict[str, str] = {}
    problems: list[str] = []
    said = "\n".join([diary, *(_text(memory) for memory in before.memories())])
    said += "\n" + said.replace("_", " ")  # as claims are compared
    known = wording.content_stems(said.replace("_", " "))
    for path, content in left.items():
        if content == before.files.get(path):
            continue
        text = content.decode("utf-8", "replace")
        reason = _GONE.fullmatch(text)
        if text.encode() != content:
            problems.append(f"{path} would hold what is no text")
        elif path in held or path.startswith("team/"):
            problems.append(f"{path} is not the dream's to change")
        elif reason:
            if path in files:
                gone[path] = reason[1].strip()
                del files[path]
        elif claim := _new_claim(path, content, said, known):
            problems.append(f"{path} says what stood nowhere before: “{claim[:80]}”")
        else:
            files[path] = content
    problems += [
        f"{path} would be lost without a reason" for path in before.files if path not in left
    ]
    return WantedMemory(files, gone, tuple(problems))


def _new_claim(path: str, content: bytes, said: str, known: frozenset[str]) -> str:
    """A statement whose names, numbers or words stand in no memory, diary or word of the user."""
    memory = read_topic(path, content)
    for line in (memory.name, memory.description, *(s.text for s in statements(memory.body))):
        bare = re.sub(r"\*\*(?:Why|How to apply):?\*\*:?", " ", line.replace("_", " "))
        stems = wording.content_stems(bare)
        if len(stems & known) < 0.7 * len(stems) or wording.missing_tokens(bare, said):
            return line
    return ""


def _text(memory: Memory) -> str:
    extra = "\n".join(memory.extra.values())
    return f"{memory.path}\n{memory.name}\n{memory.description}\n{memory.body}\n{extra}"
