"""One dream, from its lock to its end: looked at, worked out, checked, and brought in as one step.

Everything but the last step happens apart from the files. Progress goes to events and to the record
beside the memory; every way in which a dream can end leads through one place and is booked.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import anyio
import anyio.to_thread

from lamina.errors import LaminaError, MemoryStoreError, alone
from lamina.events import DreamChanged, Event, MemoryUpdated, ModelCalled, TextDelta, Warned
from lamina.layers.dream import DreamLock, fork
from lamina.layers.dream.judge import digest_of
from lamina.layers.dream.plan import DreamPlanner, DreamStep, GaveWay, WantedMemory, carry_out
from lamina.layers.dream.record import DreamRecord, Progress
from lamina.memory import diff_text, free_names, safe_path, topic_of
from lamina.messages import Json
from lamina.ports import MemoryStore
from lamina.secrets import redact
from lamina.state import State

T = TypeVar("T")
_LOOK = 0.1  # seconds between two looks whether somebody wants it to end
_SHOWN = 500  # characters of what the model says
NO_CHANGE = DreamStep()


@dataclass(frozen=True, slots=True)
class DreamResult:
    """How a dream ended."""

    status: str  # completed | nothing | refused | gave way | failed | killed
    text: str
    # asyncio puts a task's result into words when Ctrl-C is handed back: thousands of files, twice.
    step: DreamStep = field(default=NO_CHANGE, repr=False)
    commit: str = ""
    by: str = "rules"
    problems: tuple[str, ...] = ()
    # What a dry run must remember to be carried out later, just as it was shown.
    digest: str = ""  # of the memory that it looked at
    diary: float = 0.0
    marks: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def diff(self) -> str:
        parts = [diff_text(c.path, c.before, c.after) for c in self.step.changes]
        return "\n".join(part for part in parts if part)

    def to_json(self) -> Json:
        merged = set(self.step.merged)
        return {
            "status": self.status,
            "text": self.text,
            "by": self.by,
            "commit": self.commit,
            "files": self.step.files,
            "improved": self.step.improved,
            "merged": list(self.step.merged),
            "removed": [path for path in self.step.removed if path not in merged],
            "reasons": list(self.step.reasons),
            "doubtful": list(self.step.doubtful),
            "inbox": [proposal.path for proposal, _, _ in self.step.inbox],
            "problems": list(self.problems),
        }


KILLED = DreamResult("killed", "The dream was ended. Memory is as it was.")


class DreamRun:
    """One dream, from its lock to its end."""

    def __init__(
        self,
        state: State,
        store: MemoryStore,
        lock: DreamLock,
        *,
        apply: bool,
        prepared: DreamResult | None = None,
    ) -> None:
        self._state, self._store, self._lock = state, store, lock
        self._apply, self._prepared = apply, prepared
        self._record = DreamRecord(store.state)
        clock = state.deps.clock
        self._ends = clock.monotonic() + state.config.float("dream.max_minutes") * 60
        self._progress = Progress(secrets.token_hex(6), os.getpid(), clock.now())
        self._killed = False
        self._brought_in: DreamResult | None = None  # from then on nothing ends it any more
        self._by = "rules"
        self._words = ""  # of the model, not shown yet
        self._diary = self._record.diary_since(lock.last_ns / 1e9)
        self._marks: dict[str, str] = {}  # entries of the diary that the rules work in now

    async def dream(self) -> DreamResult:
        """Every way in which a dream can end leads through here, and is booked."""
        self._record.book_left()
        self._tell("orient", "Looking at memory")
        try:
            dreamt = await self._watched()
        except GaveWay as error:
            dreamt = DreamResult("gave way", str(error))
        except anyio.get_cancelled_exc_class():
            self._end(self._brought_in or KILLED)
            raise
        except Exception as error:  # booked whatever it is, and raised again
            named = "" if isinstance(error, LaminaError) else f"{type(error).__name__}: "
            self._end(DreamResult("failed", f"{named}{error}"))
            raise
        self._end(dreamt)
        return dreamt

    async def _watched(self) -> DreamResult:
        """The dream, while another task watches the time and whether somebody wants it to end."""
        done: list[DreamResult] = []
        self._record.forget_wish()
        try:
            with anyio.move_on_after(self._left()):
                async with anyio.create_task_group() as group:
                    group.start_soon(self._look_out, group.cancel_scope)
                    done.append(await self._dream())
                    group.cancel_scope.cancel()
        except BaseExceptionGroup as errors:
            raise alone(errors) from None
        if done:
            return done[0]
        if self._killed:
            return KILLED
        minutes = self._state.config.float("dream.max_minutes")
        return DreamResult("failed", f"The dream ended itself after {minutes:g} minutes.")

    async def _look_out(self, scope: anyio.CancelScope) -> None:
        while not self._record.asked_to_end(self._progress.id):  # noqa: ASYNC110 - it comes from another process
            await anyio.sleep(_LOOK)
        self._killed = True
        scope.cancel()

    def _left(self) -> float:
        return self._ends - self._state.deps.clock.monotonic()

    async def _dream(self) -> DreamResult:
        planner = await fork.aside(self._look)
        if self._prepared is not None:
            return await self._as_shown(planner, self._prepared)
        self._tell("gather", "Looking for what is new, double or past")
        known = self._record.left_behind() == planner.before.digest
        logs = await fork.aside(lambda: fork.read_logs(self._store.directory, self._diary))
        self._tell("consolidate", "Bringing together what belongs together")
        # Memory as the last dream left it needs no model, only what the calendar brings.
        wanted = None if known and not logs else await self._asked(planner, logs)
        if wanted is None and logs:
            wanted = await fork.aside(lambda: self._distilled(planner, logs))
        self._tell("prune", "Checking the result and the index")
        step = await fork.aside(lambda: self._with_what_was_repeated(planner.step(wanted)))
        for warning in step.warnings:
            self._state.emit(Warned(warning))
        if step.empty:
            return self._nothing(step)
        if not self._apply:
            seen = planner.before.digest, self._diary, self._marks
            told = "completed", would_do(step), step, "", self._by, step.problems
            return DreamResult(*told, *seen)
        return await self._carried_out(planner, step)

    def _with_what_was_repeated(self, step: DreamStep) -> DreamStep:
        """Sessions that were looked at by the last dream and not touched since say nothing new."""
        folder, now = self._state.deps.transcript.parent, self._state.deps.clock.now()
        heard = fork.said_again(folder, self._store, now, self._lock.last_ns / 1e9)
        return replace(step, inbox=(*step.inbox, *heard))

    async def _as_shown(self, planner: DreamPlanner, shown: DreamResult) -> DreamResult:
        """Carry out what a dry run found, and nothing else."""
        if planner.before.digest != shown.digest:
            raise GaveWay("Memory has changed since this was worked out. Look at it again.")
        self._by, self._diary, self._marks = shown.by, shown.diary, dict(shown.marks)
        return await self._carried_out(planner, shown.step)

    def _look(self) -> DreamPlanner:
        self._store.catch_up()
        now = self._state.deps.clock.now()
        planner = DreamPlanner(self._store, now)
        planner.held |= self._record.taken_back(planner.before.files)
        return planner

    def _distilled(self, planner: DreamPlanner, logs: Mapping[str, str]) -> WantedMemory | None:
        """What the rules make of new entries. They stay new to a model, which may see more in them."""
        from lamina.local.dream_finds import distil

        files = dict(planner.before.files)
        for mark, proposals in distil(logs, self._record.distilled()):
            self._marks[mark] = ""
            for one in proposals:
                path = safe_path(one, self._store.secret_rules)
                name = next(free for free in free_names(path, mark) if free not in files)
                files[name] = topic_of(one)
                self._marks[mark] = name
        folder = self._state.deps.transcript.parent
        planner.judge.heard = fork.heard_in(folder, planner.before, files)
        return WantedMemory(files) if len(files) > len(planner.before.files) else None

    async def _asked(self, planner: DreamPlanner, logs: Mapping[str, str]) -> WantedMemory | None:
        copy = self._record.folder / f"copy-{self._progress.id}"
        for left in self._record.folder.glob("copy-*"):  # of dreams that were killed
            shutil.rmtree(left, ignore_errors=True)
        try:
            wanted = await fork.dream(self._state, planner, copy, logs, self._tool, self._hear)
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        if wanted is not None:
            self._by = "model"
            self._diary = self._progress.started
        return wanted

    def _hear(self, event: Event) -> None:
        """What the model says while it works."""
        if isinstance(event, TextDelta):
            self._words += event.text
        elif isinstance(event, ModelCalled) and self._words.strip():
            words = redact(" ".join(self._words.split())[:_SHOWN], self._store.secret_rules)
            self._words = ""
            self._progress.turn(words)
            self._tell("consolidate", words)

    def _tool(self, name: str, file: str) -> None:
        self._progress.tools += 1
        self._progress.turn(f"{name} {file}".strip())
        if name in ("Write", "Edit") and file not in self._progress.files:
            self._progress.phase = "updating"
            self._progress.files.append(file)
        self._tell("consolidate", self._progress.text)

    async def _carried_out(self, planner: DreamPlanner, step: DreamStep) -> DreamResult:
        """The one moment in which files change: short, and not to be interrupted."""
        if self._left() <= 0:  # stopped for hours, and woken up here
            raise MemoryStoreError("The dream took too long and ended itself. Nothing was changed.")
        self._progress.phase = "updating"
        self._progress.files = step.files
        self._tell("prune", "Writing")
        now = self._state.deps.clock.now()

        def write() -> DreamResult:
            commit, no_room = carry_out(self._store, planner.before, step, now)
            self._lock.succeeded(now)
            full = (f"the inbox is full: {no_room} found no room there",) if no_room else ()
            problems = (*step.problems, *full)
            return DreamResult("completed", _summary(step), step, commit, self._by, problems)

        done = await self._to_the_end(write)
        if step.files:
            self._state.emit(MemoryUpdated(tuple(step.improved), "dream", tuple(step.removed)))
        return done

    async def _to_the_end(self, work: Callable[[], DreamResult]) -> DreamResult:
        """In a thread that is waited for, whatever ends us: Ctrl-C gets through every scope, and
        nobody may let go of the lock, or say that nothing was changed, while files are written."""
        wrong: list[BaseException] = []

        def run() -> None:
            try:
                self._brought_in = work()
            except BaseException as error:  # noqa: BLE001 - it is raised again by whoever waits
                wrong.append(error)

        thread = threading.Thread(target=run, name="lamina-dream")
        thread.start()
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(thread.join)
        finally:
            thread.join()
        if self._brought_in is None:
            raise wrong[0]
        return self._brought_in

    def _nothing(self, step: DreamStep) -> DreamResult:
        if self._apply:
            self._lock.succeeded(self._state.deps.clock.now())
        text = "Nothing to do: memory is in order."
        if step.problems or step.doubtful:
            text = "Nothing was changed."
        return DreamResult("nothing", text, step, by=self._by, problems=step.problems)

    # ---- saying so

    def _tell(self, step: str, text: str) -> None:
        self._progress.step, self._progress.text = step, text
        self._show()

    def _show(self) -> None:
        now = self._progress
        self._record.show(now)
        told = now.status, now.phase, now.step, now.text, now.tools
        self._state.emit(DreamChanged(*told, tuple(now.files)))

    def _end(self, dreamt: DreamResult) -> None:
        progress, clock = self._progress, self._state.deps.clock
        ended = {"killed": "killed", "failed": "failed", "gave way": "failed"}
        progress.status = ended.get(dreamt.status, "completed")
        progress.text = dreamt.text
        line: Json = {
            "id": progress.id,
            "when": clock.now(),
            "started": progress.started,
            "applied": self._apply,
            **dreamt.to_json(),
        }
        if self._apply and dreamt.status in ("completed", "nothing"):
            with contextlib.suppress(MemoryStoreError):  # then the next dream looks at everything
                line |= {"digest": digest_of(self._store), "diary": self._diary}
            if self._marks and self._by == "rules":
                self._record.note_distilled(self._marks)
        if self._apply:
            self._record.ended(line)
        self._show()


def would_do(step: DreamStep) -> str:
    """The end of a dry run."""
    done = ", ".join(_counted(step, "improve", "merge", "remove"))
    if not done:
        done = "put the index in order" if step.changes else "leave something in the inbox"
    return f"Would {done}. Nothing was changed."


def _summary(step: DreamStep) -> str:
    done = _counted(step, "Improved", "Merged", "Removed")
    if not done:
        done = ["Put the index in order" if step.changes else "Left something in the inbox"]
    return " ".join(f"{one}." for one in done)


def _counted(step: DreamStep, improved: str, merged: str, removed: str) -> list[str]:
    """A removal is no improvement, whatever it is good for: each is counted as what it is."""
    counts = (
        (improved, len(step.improved), ""),
        (merged, len(step.merged), " into others"),
        (removed, len(step.removed) - len(step.merged), ""),
    )
    return [
        f"{verb} {count} {'memory' if count == 1 else 'memories'}{where}"
        for verb, count, where in counts
        if count
    ]
