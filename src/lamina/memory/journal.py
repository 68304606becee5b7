"""How a change reaches the files and then the history, such that a crash at any point loses nothing.

Intent on disk → files renamed into place → acknowledged → commit → intent removed. The last two
steps run in a background thread, or when asked; whoever opens the memory next finishes what was left.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from lamina.errors import Conflict, LaminaError, MemoryStoreError
from lamina.events import Emit, LayerFailed, MemoryAdopted, MemoryUpdated, Warned
from lamina.machine import is_alive
from lamina.memories import Change, Note
from lamina.memory.beneath import TEMPORARY_PREFIX, Beneath
from lamina.memory.history import History, HistoryDamaged
from lamina.memory.index import INDEX, Rework, is_index
from lamina.memory.merging import merge_text
from lamina.memory.own_files import Busy, Intent, IntentLog, Tombstones, exclusive

_PAUSE = 0.05  # seconds without a write after which recording begins
_LATEST = 10.0  # seconds after which it begins even if writes go on


class Journal:
    """The only way by which the store changes memory files."""

    def __init__(
        self,
        files: Beneath,
        state: Path,
        tombstones: Tombstones,
        emit: Emit,
        *,
        background: bool,
        found: Callable[[], Mapping[str, bytes]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        self._files = files
        self._state = state
        self._tombstones = tombstones
        self._emit = emit
        self.share: Callable[[MemoryUpdated], None] | None = (
            None  # with the team, where there is one
        )
        self.intents = IntentLog(state / "intents", lambda sentence: emit(Warned(sentence)))
        self.history = History(state / "history.git", now)
        self._background = background
        self._wake = threading.Event()
        self._stop = False
        self._thread: threading.Thread | None = None
        self._first: Callable[[], object] | None = None
        self._looking = threading.Lock()
        self._found = found  # every file as it was before the first write
        self._all_ours = False
        self._swept = False  # of what killed writers left
        self._unmarked = False  # is a change in the files whose intent does not say so?

    # ---- changing files

    @contextlib.contextmanager
    def writing(self, *, wait: bool = True) -> Generator[None]:
        """Hold the store's lock; what a writer that died left half done is finished first."""
        with exclusive(self._state / "lock", wait=wait):
            left = self.intents.unapplied()
            if left or not self._swept:
                self.sweep(left)
            for intent in left:
                self._finish(intent)
            yield

    def sweep(self, left: Sequence[Intent] = ()) -> None:
        """Remove the temporary files of dead writers. The caller holds the store's lock."""
        self.intents.sweep()
        self._clear_strays(left)
        for path in _of_dead_processes(self._state):
            _delete(path)
        self._swept = True

    def recover(self) -> None:
        """Finish and sweep what killed writers left, also where memory is only read. One that is at
        work is waited for only if its change may be half done; its temporary files are its own."""
        if self.intents.unapplied():
            with self.writing():
                return
        if self.intents.strays() or self._strays() or _of_dead_processes(self._state):
            with contextlib.suppress(Busy), self.writing(wait=False):
                pass

    def apply(
        self,
        changes: Sequence[Change],
        note: Note,
        *,
        tombstone: str = "",
        lifted: Sequence[str] = (),
        rework: Rework | None = None,
    ) -> bool:
        """Bring the changes into the files, all or none; False if there was nothing to change.

        When this returns the change is on disk for good. Conflict means that another program
        changed the first file meanwhile and nothing was done. The caller holds `writing()`.
        """
        wanted = [change for change in changes if change.before != change.after]
        if not wanted and not tombstone and not lifted:
            return False
        _demand_utf8(wanted)
        note = note if note.when else replace(note, when=self._now())
        intent = self.intents.write(wanted, note, tombstone=tombstone, lifted=lifted)
        done: list[Change] = []
        try:
            for change in wanted:
                again = rework if done and change.path.endswith(INDEX) else None
                made = self._put(change, again, flush=False)
                done.append(made)
                if made != change:  # the intent must say what was really written
                    now = [*done, *wanted[len(done) :]]
                    intent = self.intents.write(
                        now, note, tombstone=tombstone, lifted=lifted, replaces=intent
                    )
            for folder in {change.path.rpartition("/")[0] for change in done}:
                self._files.flush_directory(folder)
        except LaminaError:
            self._take_back(done, intent)
            raise
        try:
            self._mark(intent)
        except LaminaError as error:
            # It is in the files for good, so it was done; whoever comes next marks it.
            self._unmarked = True
            self._emit(Warned(f"{error} The memories are written; the history follows later."))
        self._announce(done, note)
        self._wake_up()
        return True

    def _announce(self, changes: Sequence[Change], note: Note) -> None:
        topics = [change for change in changes if not change.path.endswith(INDEX)]
        kept = [change.path for change in topics if change.after is not None]
        removed = tuple(change.path for change in topics if change.after is None)
        if not topics:
            return
        event = MemoryUpdated(kept, note.writer, removed)
        if self.share is not None:
            self.share(event)
        # In a session, layers 5 and 6 write many files and tell of them once, at their end.
        if not (self._background and note.writer in ("extraction", "dream")):
            self._emit(event)

    def adopt(self, changes: Sequence[Change], note: Note, *, lifted: Sequence[str] = ()) -> None:
        """Have changes recorded that are in the files already. The caller holds `writing()`."""
        note = note if note.when else replace(note, when=self._now())
        self._mark(self.intents.write(changes, note, lifted=lifted))
        self._wake_up()

    def _put(self, change: Change, rework: Rework | None, *, flush: bool = True) -> Change:
        for attempt in range(5):
            try:
                if change.after is None:
                    self._files.remove(change.path, expected=change.before, flush=flush)
                else:
                    self._files.write(
                        change.path, change.after, expected=change.before, flush=flush
                    )
            except Conflict:
                if rework is None or attempt == 4:
                    raise
                current = self._files.read(change.path)
                change = Change(change.path, current, rework(change.path, current))
                if change.before == change.after:
                    break
            else:
                break
        return change

    def _take_back(self, done: list[Change], intent: Intent) -> None:
        """Undo the first changes of a write whose later ones failed; else recovery will finish it."""
        with contextlib.suppress(LaminaError):
            for change in reversed(done):
                self._put(Change(change.path, change.after, change.before), None)
            self.intents.drop(intent)

    def _mark(self, intent: Intent) -> None:
        if intent.tombstone:
            self._tombstones.put_up(intent.tombstone)
        self._tombstones.lift(intent.lifted)
        self.intents.mark_applied(intent)

    # ---- after a crash

    def _finish(self, intent: Intent) -> None:
        """Bring what is missing of a dead writer's intent into the files."""
        due: list[Change] = []
        for change in intent.changes:
            current = self._files.read(change.path)
            if current in (change.before, change.after):
                due.append(change)
                continue
            # Somebody edited the file between the crash and now: keep both changes if they fit.
            merged = merge_contents(change.before, current, change.after, change.path)
            if merged is None:
                self._rescue(intent, change)
            else:
                due.append(Change(change.path, current, merged))
        if due != list(intent.changes):  # the history must say what is really written
            intent = self.intents.write(
                due,
                intent.note,
                tombstone=intent.tombstone,
                lifted=intent.lifted,
                replaces=intent,
            )
        for change in due:
            if self._files.read(change.path) != change.after:
                self._put(change, None)
        self._mark(intent)

    def _clear_strays(self, left: Sequence[Intent]) -> None:
        """Remove temporary files of dead writers; one that holds somebody else's words is kept."""
        changes = [change for intent in left for change in intent.changes]
        for path in self._strays():
            content = self._files.read(path) or b""
            ours = any(_ours(content, change) for change in changes)
            if content and not ours and not self.history.holds(content):
                aside = path.rpartition("/")[2].removeprefix(".")
                self._keep_aside(aside, content, "a file found after a crash")
            self._files.remove(path)

    def _strays(self) -> list[str]:
        """Temporary files among the memories, in every folder but hidden ones."""
        found: list[str] = []
        folders = [""]
        while folders:
            folder = folders.pop()
            names: list[str] = []
            with contextlib.suppress(MemoryStoreError):  # a link, or a folder that is closed to us
                names = self._files.names(folder)
            for name in names:
                path = f"{folder}/{name}" if folder else name
                if name.startswith(TEMPORARY_PREFIX):
                    found.append(path)
                elif "." not in name and (self._files.root / path).is_dir():
                    folders.append(path)
        return found

    def _rescue(self, intent: Intent, change: Change) -> None:
        if change.after is not None:
            name = f"{intent.id}-{change.path.replace('/', '-')}"
            what = f"{change.path} was edited after a crash; the version that was being written"
            self._keep_aside(name, change.after, what)

    def _keep_aside(self, name: str, content: bytes, what: str) -> None:
        with Beneath(self._state / "rescued") as rescued:
            if rescued.read(name) is None:
                rescued.write(name, content, expected=None)
        self._emit(Warned(f"{what} is kept as {self._state / 'rescued' / name}."))

    # ---- history

    @contextlib.contextmanager
    def recording(self) -> Generator[History]:
        """Hold the history's lock, with everything that is in the files and due recorded."""
        with exclusive(self._state / "history.lock"):
            for intent in self.intents.applied():
                self._record_safely(intent)
                self.intents.settle(intent)
            yield self.history

    def settle(self) -> None:
        """Record what is due. Cheap if nothing is."""
        if self._state.is_dir() and self.intents.any_applied():
            with self.recording():
                pass

    def _record_safely(self, intent: Intent) -> None:
        try:
            self.history.demand_whole()
            self._record(intent)
        except HistoryDamaged as error:
            aside = self.history.put_aside()
            self._emit(Warned(f"{error} It is now {aside}."))
            self._record(intent)

    def record_first_sight(self) -> list[str]:
        """Adopt what is there as the first commit, all at once; the paths. The caller holds the
        history's lock."""
        found = self._found()
        if found:
            self.history.commit(found, _adoption_note(len(found)))
            self._emit(MemoryAdopted([path for path in found if not is_index(path)]))
        return sorted(found)

    def nothing_to_adopt(self) -> None:
        """What is in the directory now came through Lamina, though nothing is recorded yet."""
        self._all_ours = True

    def newest_of_ours(self, path: str = "") -> str:
        """The short id of the last change made through Lamina, for a hint that stays right whatever
        is written meanwhile; "" where the history can't tell."""
        with contextlib.suppress(MemoryStoreError):
            self.settle()
            ours = (one.id[:8] for one in self.history.log(path) if one.writer != "outside")
            return next(ours, "")
        return ""

    def _record(self, intent: Intent) -> None:
        last = next(self.history.log(), None)
        if last is None and not self._all_ours:
            self.record_first_sight()
        if last and last.marks.get("Intent") == intent.id:
            return  # recorded just before a crash
        outside = self.history.unlike({change.path: change.before for change in intent.changes})
        if outside:
            self.history.commit(outside, outside_note(len(outside)))
        marks = {**intent.note.marks, "Intent": intent.id}
        if intent.tombstone:
            marks["Tombstone"] = intent.tombstone.partition('"id":"')[2].partition('"')[0]
        if intent.lifted:
            marks["Lifted"] = " ".join(intent.lifted)
        self.history.commit(
            {change.path: change.after for change in intent.changes},
            replace(intent.note, marks=marks),
        )

    # ---- background

    def start(self, first: Callable[[], object]) -> None:
        """Do `first` in the background, then record what an earlier process left."""
        self._first = first
        self._wake_up()

    def first_now(self) -> None:
        """Do what was put off until the background has time, or wait until it has done it."""
        with self._looking:
            if self._first is not None:
                self._first()
                self._first = None

    def _wake_up(self) -> None:
        if not self._background:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="lamina-history", daemon=True)
            self._thread.start()
        self._wake.set()

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            # A burst of writes comes first: recording would take the processor from it.
            latest = time.monotonic() + _LATEST
            while not self._stop and time.monotonic() < latest and self._wake.wait(_PAUSE):
                self._wake.clear()
            try:
                self.first_now()
                self.settle()
            except Exception as error:  # noqa: BLE001 - the edge of a background task
                self._emit(LayerFailed("memory history", f"{type(error).__name__}: {error}"))
            if self._stop:
                return

    def close(self) -> None:
        """Record what is due and stop."""
        self._stop = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        try:
            try:
                if self._unmarked:
                    self.recover()
                self.settle()
            except MemoryStoreError as error:
                # What was acknowledged is in the files and its intent on the disk: nothing is lost.
                self._emit(Warned(f"{error} The memories are safe; the history follows later."))
            if self.history.in_use:
                with contextlib.suppress(MemoryStoreError), self.recording() as history:
                    history.tidy()
        finally:
            self.history.close()
            self.intents.close()


def merge_contents(
    base: bytes | None, ours: bytes | None, theirs: bytes | None, path: str
) -> bytes | None:
    """Both changes in one file, None where they don't fit (or one of them removed it)."""
    if base is None or ours is None or theirs is None:
        return None
    text = [content.decode("utf-8", "surrogateescape") for content in (base, ours, theirs)]
    is_index = path.rsplit("/", 1)[-1] == INDEX
    merged = merge_text(text[0], text[1], text[2], both_insert=is_index)
    return None if merged is None else merged.encode("utf-8", "surrogateescape")


def _of_dead_processes(state: Path) -> list[Path]:
    """What processes that are no more left half written in the store's own folder: their number is
    in its name."""
    found = [path for at in (state, state / "dream", state / "inbox") for path in at.glob("*")]
    makers = {path: _maker(path.name) for path in found}
    return [path for path, process in makers.items() if process and not is_alive(int(process))]


def _maker(name: str) -> str:
    """The process that makes `.NAME.PID`, `NAME.PID-THREAD.tmp` or `NAME.begin-PID`; "": another."""
    last = name.removesuffix(".tmp").rpartition(".")[2]
    process = last.removeprefix("begin-").partition("-")[0]
    ours = name.startswith(".") or name.endswith(".tmp") or last.startswith("begin-")
    return process if ours and process.isdecimal() else ""


def _delete(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _ours(content: bytes, change: Change) -> bool:
    return content == change.before or (change.after or b"").startswith(content)


def _adoption_note(count: int) -> Note:
    return Note(writer="outside", subject=f"adopt {count} file{'s' * (count != 1)} found here")


def outside_note(count: int) -> Note:
    """For changes that nobody told us of: they are no evidence of the user's word."""
    return Note(writer="outside", subject=f"change outside, {count} file{'s' * (count != 1)}")


def _demand_utf8(changes: Sequence[Change]) -> None:
    for change in changes:
        try:
            change.path.encode()
        except UnicodeEncodeError:
            raise MemoryStoreError(
                f"The name {change.path!r} is not UTF-8. Rename the file by hand first."
            ) from None
