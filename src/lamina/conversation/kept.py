"""Conversations that go on from call to call and from process to process: a request comes in whole, as
its program holds it, and what to change in it goes out. What was once changed stays so, to the byte.

Touches `<folder>/`: a ledger for each conversation, with the results that were taken out of it beside
it, and the index of beginnings. Safe for several threads and processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from uuid import uuid4

import msgspec

from lamina import flags as flag_reader
from lamina.cache.account import LIFE
from lamina.cache.spend import Spend
from lamina.config import Config, Flags
from lamina.conversation.lineage import Lineages, branch
from lamina.conversation.thread import NO_RESULT, Conversation, Place, UnaskedModel
from lamina.errors import LaminaError, LedgerError, SessionBusy, UsageError
from lamina.events import CacheBroke, Event, LayerFailed, Warned, quiet
from lamina.layers import extraction, notes, pauses, recall
from lamina.ledger import edits, spans
from lamina.ledger.log import PARENT, LogFile, encode
from lamina.ledger.record import blocks_of_entry
from lamina.ledger.tokens import capabilities
from lamina.messages import Block, Json, Message, Usage, as_list, as_object, dicts, text_of
from lamina.ports import NoBackground, Tool, ToolContext, ToolOutcome, ToolSpec
from lamina.recall.memory_index import MemoryIndex
from lamina.recall.prefetch import Limits, RecallRequest, attachments, question_in, recall_now
from lamina.state import State
from lamina.steps import close_calls
from lamina.tools.registry import Toolbox, builtin_tools

_HELD = "conversation.held"  # state entry: messages that came in, and where they stand
_ANSWERED = "conversation.answered"  # state entry: when the last answer came, and its usage
_ALONE = "conversation.alone"  # state entry: the provider refused what we made of it
# Bytes of the conversations that were used last: in memory, at hand, and of one, at least.
_IN_MEMORY, _AT_HAND, _LEAST = 3_000_000, 1_000_000, 100_000
_WAITS = 2.0  # seconds for another process that writes the same conversation
_WAITING = ("autocompact", "collapse")  # its program shortens it; the first, unless we do
Instead = Mapping[str, float] | None  # see `Spend.book`
Replaced = dict[int, dict[int, Block]]
_TAKE_OUT = ("tool_results", "time_clearing", "worn_clearing")  # what needs a way back


class Asked(msgspec.Struct, frozen=True):
    """One request: its messages in Anthropic's form, one for one, and what decides besides."""

    messages: Sequence[Message]
    hashes: Sequence[str]  # of the messages as they came, see `lineage.chain`
    model: str
    frame_tokens: int = 0
    life: int = 300  # seconds that the cache lives which it writes
    reads_files: bool = False  # whether its tools can read a file that we name
    expands: bool = False  # whether it has the tool Expand, which `expanded` answers
    acts: bool = True  # False: nothing new is changed
    parent: str = ""  # if it begins a conversation, then one that this one's model leads
    warm: bool = False  # the cache is warm, whatever its own ledger says
    recalls: bool = True  # whether memories may be added to it
    lives: bool = False  # whether the life of its cache is ours to choose, and to keep
    output: int = 0  # tokens that its answer may have
    betas: Sequence[str] = ()
    frame: tuple[Sequence[Block], Sequence[Json]] = ((), ())  # instructions and tools


class Changes(msgspec.Struct, frozen=True):
    """What to send instead, by number of the message, in their order."""

    conversation: str
    # Blocks by their number in it: the very same object as long as they are the same.
    replaced: Replaced = {}
    added: dict[int, list[Block]] = {}
    life: int = 0  # seconds that its cache shall live; 0: as it is written
    left: tuple[int, int] = (0, 0)  # it left another one after so many messages, of so many
    folded: int = 0  # so many of the first messages, whose place
    summary: str = ""  # this takes
    window: int = 0  # tokens that the model takes, less those of a long answer


@dataclass(frozen=True, slots=True)
class _Foreign:
    """A tool that the other program runs. What it gave can be read again, so it may be cleared."""

    spec: ToolSpec

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002, ARG002
        return ToolOutcome("This tool belongs to another program.", is_error=True)


class _ForeignTools(Toolbox):
    def get(self, name: str) -> Tool | None:
        return super().get(name) or _Foreign(ToolSpec(name, "", {}, clearable=True))


class Kept:
    """A conversation and how much of it is on disk."""

    def __init__(self, talk: Conversation, name: str) -> None:
        self.talk, self.name = talk, name
        self.saved, self.size = 0, -1  # entries that are on disk, and their bytes
        self.asks: tuple[object, ...] = ()  # model, cache and tools of its last request
        self.hashes: list[str] = []
        self.added: dict[int, int] = {}  # message → the entry that was put behind it
        self._placed = 0  # messages whose blocks are in:
        self._stands: dict[Place, Place] = {}  # place in the ledger → (message, block)
        self._shown: tuple[object, int, Replaced] = None, 0, {}  # projection, its edits, and these
        for entry in talk.state.ledger.entries:
            if entry["kind"] == "state" and entry.get("name") == _HELD:
                held = as_object(entry.get("value"))
                start = int(held["from"])
                del self.hashes[start:], talk.ends[start:], talk.places[start:]
                self.hashes += held["hashes"]
                talk.ends += held["ends"]
                for places in as_list(held["places"]):
                    talk.places.append([None if p is None else (p[0], p[1]) for p in places])
                self.added |= dict(held["added"])

    def note_held(self, start: int, hashes: Sequence[str]) -> None:
        """Write down the messages from this one on."""
        talk, self.hashes[start:] = self.talk, hashes[start:]
        held = {
            "from": start,
            "hashes": self.hashes[start:],
            "ends": talk.ends[start:],
            "places": talk.places[start:],
            "added": [pair for pair in self.added.items() if pair[0] >= start],
        }
        talk.state.ledger.append(edits.state(_HELD, held))

    @property
    def alone(self) -> bool:
        return bool(self.talk.state.ledger.state(_ALONE))

    def _folded(self) -> int:
        """How many messages a summary stands for: it ends before an answer."""
        rows = self.talk.state.ledger.projection.rows
        if not rows or rows[0].number >= 0:
            return 0
        first = next((row.entry for row in rows if row.number >= 0), -1)
        return max((n for n, end in enumerate(self.talk.ends, 1) if 0 <= end <= first), default=0)

    def changes(self, *, compacted: bool = False) -> Changes:
        projection, places = self.talk.state.ledger.projection, self.talk.places
        for number, row in enumerate(places[self._placed :], self._placed):
            self._stands |= {place: (number, at) for at, place in enumerate(row) if place}
        self._placed = len(places)
        able, folded = self.talk.state.capabilities, self._folded() if compacted else 0
        summary = text_of([projection.rows[0].block]) if folded else ""
        shown = {n: at for n, at in self.added.items() if n >= folded}
        added = {n: dicts(projection.entries[at].get("content")) for n, at in shown.items()}
        own = self._edited(), added, able.cache_ttl
        return Changes(self.name, *own, (0, 0), folded, summary, able.window)

    def _edited(self) -> Replaced:
        projection, (known, edits_, before) = self.talk.state.ledger.projection, self._shown
        if known is not projection or edits_ < len(projection.edited):
            first = min(projection.edited[edits_:]) if known is projection else 0
            rows, ends, new = projection.rows, self.talk.ends, Replaced()
            # Messages whose entries all come before those that were changed are as they were.
            entry = rows[first].entry if first < len(rows) else len(projection.entries)
            count = next((n for n in range(len(ends), 0, -1) if 0 <= ends[n - 1] <= entry), 0)
            found = {n: own for n, own in before.items() if n < count}
            for row in projection.rows_of(ends[count - 1] if count else 0):
                if row.edit and (place := self._stands.get((row.entry, row.number))) is not None:
                    new.setdefault(place[0], {})[place[1]] = row.block
            for n in sorted(new):
                found[n] = before[n] if before.get(n) == new[n] else new[n]
            self._shown = projection, len(projection.edited), found
        return self._shown[2]


class Conversations:
    """All conversations of one project and user. `tell` gets what went wrong, in a sentence."""

    def __init__(
        self,
        folder: Path,
        config: Config,
        *,
        memory: MemoryIndex | None = None,
        compacts: bool = False,  # what nears the end of the model's window
        tell: Callable[[str], None] = lambda _: None,
        broke: Callable[[CacheBroke], None] = quiet,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._config, self._memory = folder, config, memory
        self._tell, self._now, self._broke = tell, now, broke
        self._flags = _without(flag_reader.read(config), _WAITING[compacts:])
        self._compacts = self._flags.on(_WAITING[0])
        self._folds_only = _without(self._flags, _TAKE_OUT)
        self._lineages, self._lock = Lineages(folder / "index"), Lock()
        self._known: dict[str, Kept] = {}  # in the order of use
        self.spend = Spend.of(config)

    def changes(self, asked: Asked) -> Changes:
        """What to send instead of a request, which is now taken to be sent."""
        with self._lock:
            self._forget()
            name, depth = self._lineages.find(asked.hashes)
            with self._opened(name or str(uuid4())) as (kept, log):
                if kept.hashes[depth - 1 : depth] != asked.hashes[depth - 1 : depth]:
                    depth = 0  # the index names what is no longer there
                if len(kept.hashes) == depth:
                    return self._sent(kept, log, asked)
                source = kept
            new = str(uuid4())
            made = self._branched(new, source, depth, asked) if depth else None
            if depth and self._now() - _last_asked(source) < asked.life:
                asked = msgspec.structs.replace(asked, warm=True)
            with self._opened(new, made) as (kept, log):
                changes = self._sent(kept, log, asked)
                return msgspec.structs.replace(changes, left=(depth, len(source.hashes)))

    def known(self, asked: Asked) -> Changes:
        """What was changed so far in as much of a request as was sent before. Nothing is noted."""
        with self._lock:
            name, depth = self._lineages.find(asked.hashes)
            if not name:
                return Changes("")
            with self._opened(name) as (kept, _):
                made = kept.changes(compacted=self._compacts)
                if kept.hashes[:depth] != asked.hashes[:depth] or depth < made.folded or kept.alone:
                    return Changes("")
                replaced = {at: blocks for at, blocks in made.replaced.items() if at < depth}
                added = {at: blocks for at, blocks in made.added.items() if at < depth}
                return msgspec.structs.replace(made, replaced=replaced, added=added)

    def answered(
        self, name: str, usage: Usage, model: str, *, at: float = 0.0, instead: Instead = None
    ) -> None:
        """An answer came in, now if it is not said when. `instead`: what it would have cost."""
        now = at or self._now()
        if usage.total:
            booked = self.spend.book
            booked(purpose="main", model=model, usage=usage, session=name, at=now, instead=instead)
        with self._lock, self._opened(name) as (kept, log):
            self._write(kept, log, edits.state(_ANSWERED, {"at": now, **usage.to_json()}), now)
            if (found := kept.talk.cache_broke(usage)) is not None:
                self._broke(found)

    def beside(self, name: str, work: Callable[[State], Json | None], at: float = 0.0) -> None:
        """Between two requests: the entry that `work` makes, if it makes one, is written down."""
        with self._lock, self._opened(name) as (kept, log):
            if (entry := work(kept.talk.state)) is not None:
                self._write(kept, log, entry, at or self._now())

    def expanded(self, hashes: Sequence[str], wanted: str, name: str = "") -> str:
        """The text behind an id that the view of a conversation shows: of the one with this name, else
        of the one that begins with these messages. UsageError: there is none."""
        with self._lock:
            name = name or self._lineages.find(hashes)[0]
            if not name:
                raise UsageError("Nothing was taken out of this conversation.")
            with self._opened(name) as (kept, _):
                return spans.expand(kept.talk.state.ledger.projection, wanted)

    def leave_alone(self, name: str) -> None:
        """The provider refused what we sent: from now on the program's own words go through."""
        self.beside(name, lambda _: edits.state(_ALONE, value=True))

    def adopt(self, name: str, parent: str) -> None:
        """Another conversation called for this one, as it turns out."""
        own = edits.state(PARENT, parent)
        self.beside(name, lambda state: None if state.ledger.state(PARENT) else own)

    def typed_since_last_look(self, name: str) -> Sequence[Json]:
        """What was said since memories were last looked for in it; this is such a look."""
        with self._lock, self._opened(name) as (kept, log):
            ledger = kept.talk.state.ledger
            entries = extraction.after_cursor(ledger)
            if not any("typed" in as_list(entry.get("origins")) for entry in entries):
                return ()
            self._write(kept, log, edits.state(extraction.CURSOR, ledger.head), self._now())
            return entries

    # ---- one request

    def _sent(self, kept: Kept, log: LogFile | None, asked: Asked) -> Changes:
        talk, state, start = kept.talk, kept.talk.state, len(kept.hashes)
        self._set_up(kept, asked)
        if asked.parent and not start:
            state.ledger.append(edits.state(PARENT, asked.parent))
        talk.asker = "agent" if state.ledger.state(PARENT) else "typed"
        talk.held.clear()  # nobody goes back in it
        told, now = as_object(state.ledger.state(_ANSWERED)), self._now()
        used = float(told.get("at") or _last_asked(kept) or now)  # when the cache was, last
        answer = asked.messages[start] if start < len(asked.messages) else None

        def time_of(run: Sequence[Message]) -> float:
            # When the rest was said nobody knows; what counts of it is how warm the cache is.
            return now if run[-1] is asked.messages[-1] else used

        def usage_of(run: Sequence[Message]) -> Usage:
            return Usage.from_json(told) if run[0] is answer else Usage()

        said = talk.append(asked.messages[start:], time_of, usage_of)
        talk.clock.move(now)
        close_calls(state, NO_RESULT)
        if not kept.alone:
            if asked.acts and asked.recalls and start < len(asked.messages):
                self._recall(kept)
            if asked.acts:
                talk.make_room(said)
        if asked.lives or state.ledger.state(LIFE):  # ours to choose, or no longer
            pauses.choose_life(state)
        if self._broke is not quiet:  # else nobody wants to know
            talk.watch_cache(*asked.frame)
        talk.note_request()
        kept.note_held(start, asked.hashes)
        self._save(kept, log)
        try:
            self._lineages.add(kept.name, enumerate(asked.hashes[start:], start + 1))
        except OSError as error:
            self._tell(f"can't write to {self._folder}: {error.strerror}")
        return Changes(kept.name) if kept.alone else kept.changes(compacted=self._compacts)

    def _set_up(self, kept: Kept, asked: Asked) -> None:
        """Model, cache and tools of this request."""
        talk, state, ledger = kept.talk, kept.talk.state, kept.talk.state.ledger
        frame = ledger.projection.frame or {}
        if (frame.get("model"), frame.get("tokens")) != (asked.model, asked.frame_tokens):
            ledger.append(edits.frame([], [], asked.model, {}, tokens=asked.frame_tokens))
        lives = "all" if asked.lives and not kept.alone else ""
        needs = asked.expands, asked.reads_files, asked.warm, asked.output, *asked.betas
        before, kept.asks = kept.asks, (asked.model, asked.life, lives, *needs)
        if kept.asks == before:
            return
        size = self._config.int("window.tokens") or None
        able = capabilities(asked.model, betas=asked.betas, override=size)
        # Prompt and answer share the window: a long answer needs more than the marks keep free.
        longer = max(0, asked.output - self._config.int("compact.output_reserve")) * self._compacts
        able = replace(able, window=able.window - min(longer, able.window // 2))
        able = replace(able, cache_ttl=asked.life, cache_choice=lives, context_management=False)
        talk.model = UnaskedModel(replace(able, cache_edits=False), asked.model)
        flags = self._flags if asked.reads_files or asked.expands else self._folds_only
        state.expands, state.names_files = asked.expands, asked.reads_files
        state.whole_rounds = True
        if asked.warm:
            flags = _without(flags, ("time_clearing",))
        state.deps = replace(state.deps, model=talk.model, flags=flags, interactive=lives)

    def _recall(self, kept: Kept) -> None:
        """Memories that fit what was typed go to the end of the last message, once and for good."""
        talk, state = kept.talk, kept.talk.state
        typed = talk.held[-1]["role"] == "user"
        if self._memory is None or not typed or not self._flags.on("recall"):
            return
        positions = {place[0] for place in talk.places[-1] if place is not None}
        said = [b for at in sorted(positions) for b in blocks_of_entry(state.ledger.entries[at])]
        question = question_in("\n".join(words for origin, words in said if origin == "typed"))
        if not question:
            return
        try:
            seen, spent = recall.in_view(state, self._memory)
            limits, now = Limits.of(self._config), self._now()
            found = recall_now(self._memory, RecallRequest("", question, now, exclude=seen), limits)
            place, room = str(self._memory.store.directory), limits.session_bytes - spent
            shown = attachments(found, directory=place, now=now, limits=limits, room=room)
        except (LaminaError, OSError) as error:
            self._tell(f"memories could not be looked up ({error})")
            return
        if shown:
            rows, blocks = [one.to_json() for one in shown], [one.block for one in shown]
            state.ledger.append(edits.message("user", blocks, "recalled", recalled=rows))
            kept.added[len(talk.ends) - 1] = len(state.ledger.entries) - 1
            talk.ends[-1] = len(state.ledger.entries)

    # ---- on disk

    @contextmanager
    def _opened(
        self, name: str, kept: Kept | None = None
    ) -> Generator[tuple[Kept, LogFile | None]]:
        """The conversation as it is now, locked against others. No file: only this process knows it.
        `kept`: one that was just made, instead of what is known by this name."""
        log, reading, deadline = None, None, time.monotonic() + _WAITS
        kept = kept or self._known.pop(name, None)
        path = kept.talk.state.deps.transcript if kept else self._folder / f"{name}.jsonl"
        while log is None:
            try:
                log, reading = LogFile.open(path, -1 if kept is None else kept.size)
            except SessionBusy:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            except LedgerError as error:
                self._tell(str(error))
                break
        try:
            entries = () if reading is None else reading.entries
            changed = reading is not None and kept is not None and reading.size != kept.size
            if kept is None or (changed and kept.saved != len(entries)):
                kept = self._made(name, entries)
            kept.size = -1 if log is None else log.size
            yield kept, log
            self._known[kept.name] = kept
        finally:
            if log is not None:
                log.close()

    def _forget(self) -> None:
        """What was not used for long is read again when it is needed."""
        size = 0
        for name, kept in reversed([*self._known.items()]):
            if size > _IN_MEMORY:
                del self._known[name]
            elif size > _AT_HAND:
                kept.talk.state.folding = None  # it takes ten times what it was made from
            size += max(_LEAST, kept.size)

    def _made(self, name: str, entries: Sequence[Json]) -> Kept:
        own = self._config, self._flags, self._folder / name, UnaskedModel(capabilities(""))
        tools = _ForeignTools(builtin_tools())
        talk = Conversation(*own, NoBackground(), entries=entries, spend=self.spend, toolbox=tools)
        talk.state.listeners.append(self._hear)
        talk.state.ledger.marked = self._broke is not quiet
        talk.clock.move(edits.written_at(entries[-1]) if entries else 0.0)
        kept = Kept(talk, name)
        kept.saved = len(entries)
        return kept

    def _branched(self, name: str, source: Kept, depth: int, asked: Asked) -> Kept:
        """A conversation of its own that shares the first messages of another, as last sent."""
        ledger, talk = source.talk.state.ledger, source.talk
        whole = depth
        while whole and talk.ends[whole - 1] < 0:
            whole -= 1
        end = talk.ends[whole - 1] if whole else 0
        made = self._made(name, branch(ledger.entries, end))
        made.saved = 0
        del made.hashes[whole:], made.talk.ends[whole:], made.talk.places[whole:]
        made.talk.ends += talk.ends[len(made.talk.ends) : whole]
        made.talk.places += talk.places[len(made.talk.places) : whole]
        made.added = {n: at for n, at in source.added.items() if n < whole}
        made.talk.note_request()
        looked = ledger.projection.position.get(str(ledger.state(extraction.CURSOR)), -1)
        if looked >= end > 0:
            cursor = made.talk.state.ledger.entries[end - 1]["uuid"]
            made.talk.state.ledger.append(edits.state(extraction.CURSOR, cursor))
        for own in (_ANSWERED, notes.LAYER):  # nobody knows of the next one; notes are the other's
            made.talk.state.ledger.append(edits.state(own, {}))
        made.note_held(0, asked.hashes[:whole])
        return made

    def _write(self, kept: Kept, log: LogFile | None, entry: Json, now: float) -> None:
        kept.talk.clock.move(now)
        kept.talk.state.ledger.append(entry)
        self._save(kept, log)

    def _save(self, kept: Kept, log: LogFile | None) -> None:
        """What is new goes to disk in one step; what can't is kept in memory until it can. What was said
        comes again with the next request; what was changed in it must outlast the power, too."""
        ledger = kept.talk.state.ledger
        new, lines, ledger.unsaved = ledger.entries[kept.saved :], ledger.unsaved, []
        if log is None or not new:
            return
        try:
            lines = lines if lines and len(lines) == len(new) else [*map(encode, new)]
            lasting = any(entry["kind"] == "edit" for entry in new)
            log.write(b"\n".join([*lines, b""]), lasting=lasting)
            kept.saved, kept.size = kept.saved + len(new), log.size
        except LedgerError as error:
            self._tell(str(error))

    def _hear(self, event: Event) -> None:
        if isinstance(event, LayerFailed | Warned):
            failed = isinstance(event, LayerFailed)
            self._tell(f"{event.layer} failed ({event.error})" if failed else event.message)


def _last_asked(kept: Kept) -> float:
    entries = reversed(kept.talk.state.ledger.entries)
    return next((edits.written_at(one) for one in entries if one["kind"] == "request"), 0.0)


def _without(flags: Flags, off: Sequence[str]) -> Flags:
    return Flags({**flags.values, **dict.fromkeys(off, False)}, flags.sources)
