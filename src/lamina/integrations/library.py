"""`lamina.Memory`: memory for a program that has an agent of its own, with no session of ours.

Opens the same store as the command line, behind the same gate and history. With a user it has a
directory of its own, so one server can serve many people and never mix what they said.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial, wraps
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast

from lamina import prompts
from lamina.config import Config, load
from lamina.errors import UsageError
from lamina.events import Emit, quiet
from lamina.integrations import typed_prompts
from lamina.ledger import edits
from lamina.ledger.places import slug
from lamina.ledger.record import Quotes
from lamina.memories import BlamedLine, Commit, MemoryType, Outcome, Proposal
from lamina.memories import Memory as StoredMemory
from lamina.memory import (
    GateContext,
    blame,
    canonical_root,
    days_named,
    known_lines,
    open_store,
    proposed,
)
from lamina.messages import Origin
from lamina.ports import MemoryStore

if TYPE_CHECKING:
    from lamina.recall.memory_index import MemoryIndex

_MOST_LINKS = 5
_LONGEST_QUERY = 20_000  # characters; a question is never longer, a pasted log may be


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that answers a question."""

    path: str
    type: MemoryType | None
    description: str
    text: str
    confidence: float  # 0 to 1: how likely it belongs to the question at all
    saved: float  # when it was last changed, in seconds since 1970
    reminder: str  # the block for a model: text, age, and whose word it is


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, with what speaks for it."""

    path: str
    type: MemoryType | None
    description: str
    text: str
    confidence: float
    reasons: dict[str, float]


@dataclass(frozen=True, slots=True)
class Explained:
    """Where a memory comes from."""

    path: str
    text: str
    changes: Sequence[Commit]  # newest first: who, when, from which session, why it was accepted
    lines: Sequence[BlamedLine]  # each line with the change that brought it


class Memory:
    """Memories of a project, of a user, or of one user in one project.

        memory = lamina.Memory(user="alice")
        memory.remember("I am allergic to peanuts.")
        memory.recall("Any allergies? Peanuts?")[0].text

    `home` is Lamina's home (`~/.lamina`). Safe to use from several threads and processes.
    """

    def __init__(
        self,
        project: str | Path | None = None,
        user: str | None = None,
        *,
        home: str | Path | None = None,
        claude: bool = False,
        on_event: Emit | None = None,
    ) -> None:
        self._config = settings_for(project, user, home, claude=claude)
        self._users = user is not None
        self._typed: dict[str, str] = {}  # what a person typed, by the id that evidence names
        self._quotes = Quotes(typed_prompts.folder_of(self._config))
        # Nothing `before`: what else the other agent had in view is not known, so no "yes" lends it
        # the words of an answer.
        gate = GateContext(
            origin_text=self._origin_text,
            whole=self._quotes.whole,
            dates=partial(days_named, self._when),
            said_at=lambda session, entry: edits.written_at({"ts": self._when(session, entry)}),
        )
        self._store: MemoryStore = open_store(self._config, on_event or quiet, gate=gate)
        self._index: MemoryIndex | None = None
        self._writing = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish what is still being recorded."""
        self._store.close()

    @property
    def directory(self) -> Path:
        """Where the memories are, as Markdown files."""
        return self._store.directory

    @property
    def config(self) -> Config:
        """The settings that it was opened with."""
        return self._config

    @property
    def store(self) -> MemoryStore:
        """The store itself, for what has no method here; `Session.open(memory=…)` takes it."""
        return self._store

    # ---- writing

    def remember(
        self,
        text: str,
        *,
        type: MemoryType | None = None,  # noqa: A002 - the word in the file itself
        name: str = "",
        description: str = "",
        said_by: str = "user",
        typed: str | Iterable[str] = (),
        allow_secret: bool = False,
    ) -> Outcome:
        """Save a memory; `decision` of the outcome says whether it was accepted or waits in the inbox.

        `said_by="user"` takes the text as the person's own word. `said_by="program"` is your program's:
        facts, labelled so, and never `user` or `feedback`. With `said_by="agent"` the words are a
        model's: `typed` are then the messages that the person typed, and what they don't bear out
        waits. GateRefused says why something can't be saved.
        """
        from lamina.memory import in_their_words

        proposal = proposed(
            text,
            type=type or ("user" if self._users and said_by != "program" else "project"),
            name=name,
            description=description,
            store=self._store,
        )
        if said_by == "user":
            proposal = replace(proposal, allow_secret=allow_secret)
        elif said_by not in ("agent", "program"):
            raise UsageError(f"said_by can't be {said_by!r}: it is 'user', 'program' or 'agent'.")
        elif allow_secret:
            raise UsageError("Only the user may insist on a secret: leave out allow_secret.")
        with self._writing:  # the gate looks the typed words up while it decides
            if said_by == "program":
                proposal = replace(proposal, writer="program")
            elif said_by == "agent":
                proposal = in_their_words(self._store, self._with_evidence(proposal, typed))
            return self._store.remember(proposal, pointer=self._config.bool("memory.index"))

    def forget(self, what: str, *, purge: bool = False) -> list[str]:
        """Forget a memory by its file or by words that mean just one; it won't come back by itself.

        `purge` takes it out of the history too. Returns the files; UsageError if nothing, or more
        than one memory, is meant.
        """
        if self._store.content(path := _file(what), 1) is None:
            meant = [one.path for one in self._store.meant(what).memories]
            if len(meant) > 1:
                raise UsageError(f"{what!r} may mean {', '.join(meant)}. Give the file's name.")
            if not meant:
                wrong = f"No memory is meant by {what!r}"
                raise UsageError(f"{wrong}. Give the file's name, or other words.")
            path = meant[0]
        self._store.forget(path, purge_history=purge, reason="lamina.Memory.forget")
        if purge:
            self._recall_index().drop_the_gone()
        return [path]

    def undo(self, change: str = "") -> list[str]:
        """Take back a change by its id, else the last one made through Lamina; returns the files."""
        history = self._store.history
        if history is None:
            raise UsageError("This memory keeps no history.")
        self._store.catch_up()
        commit = history.named(str(change)) if change else history.last_change()
        return history.undo(commit.id) if commit else []

    # ---- reading

    def recall(self, question: str, *, limit: int = 5) -> list[Recalled]:
        """The few memories that belong to a question, and none if none does. For a prompt: quotations,
        which nobody typed, are found by `search` alone."""
        from lamina.recall import CONFIDENT
        from lamina.recall.memory_index import sources
        from lamina.recall.prefetch import Limits, reminder

        now, limits = time.time(), Limits(files=limit)
        fits = self._fitting(question, limit, now, unasked=True)
        found = [one for one in fits if one[0] >= CONFIDENT]
        known = sources(self._store) if found else {}
        shown: list[Recalled] = []
        for confidence, _, memory in found:
            block = reminder(
                memory,
                known.get(memory.path, ""),
                directory=str(self._store.directory),
                now=now,
                limits=limits,
            ).block
            about = (memory.path, memory.type, memory.description, memory.body.strip())
            shown.append(Recalled(*about, confidence, memory.mtime, str(block["text"])))
        return shown

    def search(self, words: str, *, limit: int = 10) -> list[Found]:
        """Memories that fit, best first, the merely likely ones too."""
        return [
            Found(
                memory.path,
                memory.type,
                memory.description,
                memory.body.strip(),
                confidence,
                {name: value for name, value in parts.items() if value},
            )
            for confidence, parts, memory in self._fitting(words, limit, time.time())
        ]

    def all(self) -> list[StoredMemory]:
        """Every memory, newest first, without its text."""
        return list(self._store.list())

    def read(self, path: str) -> StoredMemory:
        """One memory, whole."""
        return self._store.read(_file(path))

    def why(self, path: str) -> Explained:
        """Who wrote a memory, from which words, and why it was accepted."""
        memory = self.read(path)
        history = self._store.history
        if history is None:
            return Explained(memory.path, memory.body.strip(), (), ())
        self._store.catch_up()
        versions = history.versions(memory.path)
        changes = tuple(history.log(memory.path))
        return Explained(memory.path, memory.body.strip(), changes, tuple(blame(versions)))

    def history(self, path: str = "", *, limit: int = 20) -> list[Commit]:
        """The changes, newest first, of one memory or of all."""
        history = self._store.history
        if history is None:
            return []
        self._store.catch_up()
        return list(islice(history.log(path), max(0, limit)))

    def prompt(self) -> str:
        """The section on memory for a system prompt: what it is for, and the index of what is known.

        Render it once for a conversation: a text that changes between calls breaks the prompt cache.
        """
        known = known_lines(self._store, self._config) or "Nothing is known yet."
        return f"{prompts.load('memory_known').strip()}\n\n{known}"

    # ----

    def _with_evidence(self, proposal: Proposal, typed: str | Iterable[str]) -> Proposal:
        """What a model wants kept, with the typed sentences that bear it out."""
        from lamina.tools.memory_guard import evidence_for

        messages = [typed] if isinstance(typed, str) else list(typed or ())
        if wrong := [one for one in messages if not isinstance(one, str)]:
            raise UsageError(f"`typed` can't hold a {type(wrong[0]).__name__}: give texts.")
        self._typed = {
            hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:32]: words
            for words in messages
        }
        entries = [edits.message("user", said, "typed", uuid=n) for n, said in self._typed.items()]
        claim = f"{proposal.name}\n{proposal.description}\n{proposal.body}"
        users_word = proposal.type in ("user", "feedback")
        evidence = evidence_for(claim, entries, "", users_word=users_word)
        return replace(proposal, writer="agent", evidence=tuple(evidence), session="library")

    def _origin_text(self, session: str, entry: str) -> Sequence[tuple[Origin, str]]:
        if entry in self._typed:
            return (("typed", self._typed[entry]),)
        return self._quotes.origin_text(session, entry)

    def _when(self, session: str, entry: str) -> str:
        """When an entry was typed: what a call hands over, now."""
        if entry in self._typed:
            return datetime.now(UTC).isoformat()
        return self._quotes.when(session, entry)

    def _recall_index(self) -> MemoryIndex:
        from lamina.recall.memory_index import MemoryIndex

        if self._index is None:
            self._index = MemoryIndex(self._store)
        return self._index

    def _fitting(
        self, query: str, limit: int, now: float, *, unasked: bool = False
    ) -> list[tuple[float, dict[str, float], StoredMemory]]:
        from lamina.recall.memory_index import fitting

        if not isinstance(limit, int) or limit < 1:
            raise UsageError(f"limit can't be {limit!r}: it is 1 or more.")
        if not isinstance(query, str):
            raise UsageError(f"What is asked can't be a {type(query).__name__}: give a text.")
        query = query[:_LONGEST_QUERY]
        found = fitting(self._recall_index(), query, limit, now, unasked=unasked)
        return [(match.confidence, dict(match.parts), memory) for match, memory in found]


_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def _waited_for(
    method: Callable[Concatenate[Memory, _Given], _Made],
) -> Callable[Concatenate[AsyncMemory, _Given], Coroutine[Any, Any, _Made]]:
    """The same method, run in a thread so that the event loop goes on."""

    @wraps(method)
    async def waits(self: AsyncMemory, *args: _Given.args, **named: _Given.kwargs) -> _Made:
        import anyio.to_thread

        return await anyio.to_thread.run_sync(partial(method, self.sync, *args, **named))

    return cast("Any", waits)


class AsyncMemory:
    """`Memory` for async code: the same methods, awaited."""

    def __init__(
        self,
        project: str | Path | None = None,
        user: str | None = None,
        *,
        home: str | Path | None = None,
        claude: bool = False,
        on_event: Emit | None = None,
    ) -> None:
        self.sync = Memory(project, user, home=home, claude=claude, on_event=on_event)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def directory(self) -> Path:
        """Where the memories are, as Markdown files."""
        return self.sync.directory

    remember = _waited_for(Memory.remember)
    forget = _waited_for(Memory.forget)
    undo = _waited_for(Memory.undo)
    recall = _waited_for(Memory.recall)
    search = _waited_for(Memory.search)
    all = _waited_for(Memory.all)
    read = _waited_for(Memory.read)
    why = _waited_for(Memory.why)
    history = _waited_for(Memory.history)
    prompt = _waited_for(Memory.prompt)
    close = _waited_for(Memory.close)


# ---- where it is, and what is proposed


def settings_for(
    project: str | Path | None,
    user: str | None,
    home: str | Path | None,
    *,
    claude: bool = False,
) -> Config:
    """Settings whose memory directory is the project's, the user's, or the user's in the project."""
    if not isinstance(project, str | Path | None) or (project and not Path(project).is_dir()):
        raise UsageError(f"There is no directory {project}. `project` is the project's directory.")
    config = load(project or ".", home=home, claude=claude)
    if user is None:
        return config
    if claude:
        raise UsageError("Claude Code's memory has no users: leave out `user` or `claude`.")
    folder = config.home / "users" / own_name(user)
    if project is not None:
        folder = folder / "projects" / own_name(str(canonical_root(project)))
    overrides = {"memory.directory": str(folder / "memory")}
    return load(project or ".", home=home, overrides=overrides)


def _file(name: str) -> str:
    if not isinstance(name, str):
        raise UsageError(f"A memory can't be a {type(name).__name__}: give the name of its file.")
    return name if name.endswith(".md") else f"{name}.md"


def own_name(given: str) -> str:
    """A folder's name that no two different names share, and that a person can still read."""
    if not isinstance(given, str) or not given.strip():
        raise UsageError(f"`user` can't be {given!r}: give a name or an id, as a text.")
    readable = slug(given.casefold()).strip("-")[-40:]
    return f"{readable}-{hashlib.sha256(given.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def linked_from(store: MemoryStore, texts: Iterable[str]) -> list[str]:
    """A line for each memory that the texts name as [[name]] and that is not among them."""
    texts = list(texts)
    named = [part.partition("]]")[0] for text in texts for part in text.split("[[")[1:]]
    wanted = {_link(name.partition("|")[0]): None for name in named if "\n" not in name}
    if not wanted:
        return []
    by_name: dict[str, StoredMemory] = {}
    for memory in store.list():
        for name in (memory.path, memory.path.rpartition("/")[2], memory.name):
            by_name.setdefault(_link(name), memory)
    found = {by_name[name].path: by_name[name] for name in wanted if name in by_name}
    return [
        f"Linked: {memory.path}: {memory.description or memory.name}"
        for path, memory in list(found.items())[:_MOST_LINKS]
        if not memory.quoted and not any(path in text for text in texts)
    ]


def _link(name: str) -> str:
    return name.strip().removesuffix(".md").casefold().replace("_", "-")  # as the audit reads it
