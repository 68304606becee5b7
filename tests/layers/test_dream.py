"""Layer 6: its gates, its lock, what it changes, what it refuses, and that one command undoes it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.memories import by_hand, directory
from tests.sessions import Place, run, use

from lamina import prompts
from lamina.errors import LaminaError, MemoryStoreError
from lamina.events import DreamChanged, Event, MemoryUpdated
from lamina.layers import dream
from lamina.layers.dream import fork, plan, runner
from lamina.layers.dream.fork import drifted
from lamina.layers.dream.record import DreamRecord, Progress, take_back
from lamina.ledger import log
from lamina.memories import Memory
from lamina.memory.file_store import FileStore
from lamina.memory.index import LOADED_BYTES, LOADED_LINES, pointers_of
from lamina.memory.topics import new_topic
from lamina.models.scripted import ScriptedModel, Step
from lamina.recall.memory_index import USES_FILE, count_uses
from lamina.session import Session
from lamina.state import State
from lamina.testing import a_memory

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "dream.md"
DAY = 86_400.0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.clock.at = time.time()
    place.config = {"dream.non_interactive": True}
    return place


def store_of(session: Session) -> FileStore:
    store = session.state.deps.memory
    assert store is not None
    return store


def lock_of(session: Session) -> Path:
    return store_of(session).directory / dream.LOCK


def topic(path: str, body: str, kind: Any = "project", **extra: str) -> Any:
    first = body.partition("\n")[0]
    return a_memory(path, name=path[:-3], description=first, body=body, type=kind, extra=extra)


LONG_RULE = (
    "Always run the linter and the formatter over every changed file of the warehouse service before "
    "a commit reaches the shared release branch, since broken style blocks nightly packaging there."
)
DOUBLES = [
    topic("deploy.md", "We deploy the warehouse service from the release branch."),
    topic("deploying.md", "The warehouse service: we deploy it from the release branch."),
    topic("invoices.md", "Invoices are rounded up to the next cent."),
]


def fill(session: Session, *proposals: Any) -> None:
    for proposal in proposals or DOUBLES:
        store_of(session).write(proposal, replace=True)


def contents(store: FileStore) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(store.directory.glob("*.md"))}


async def until(holds: Any) -> None:
    with anyio.fail_after(30):
        while not holds():
            await anyio.lowlevel.checkpoint()


def story_of(place: Place, model: Any = "none", **wishes: Any) -> Any:
    """Runs a story inside an open session."""

    def deco(story: Any) -> Any:
        async def whole() -> Any:
            heard: list[Event] = []
            async with place.open(model, on_event=heard.append, **wishes) as session:
                return await story(session, heard)

        return run(whole)

    return deco


# ---- gates


def other_sessions(session: Session, count: int, at: float) -> None:
    for number in range(count):
        path = session.state.deps.transcript.parent / f"other{number}.jsonl"
        path.touch()
        os.utime(path, (at, at))


def dreams(state: State) -> bool:
    dream.after_turn(state)
    return "dream" in state.background.running()


@pytest.mark.spec("L6.1")
@pytest.mark.parametrize(("asked", "interactive"), [(False, False), (True, False), (False, True)])
def test_a_programs_session_does_not_dream_unless_it_asks(
    place: Place, *, asked: bool, interactive: bool
) -> None:
    config = {"dream.non_interactive": asked}

    @story_of(place, config=config, interactive=interactive)
    async def _(session: Session, heard: list[Event]) -> None:
        other_sessions(session, 5, place.clock.now())
        assert dreams(session.state) == (asked or interactive)


@pytest.mark.spec("L6.1")
def test_every_gate_has_to_be_open(place: Place) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        state, now = session.state, place.clock.now()
        other_sessions(session, 4, now)
        assert not dreams(state)  # four sessions are not five, and the present one does not count
        other_sessions(session, 5, now)
        assert not dreams(state)  # looked a moment ago
        place.clock.at += 601
        lock = lock_of(session)
        lock.touch()
        os.utime(lock, (now - DAY + 700, now - DAY + 700))
        assert not dreams(state)  # dreamt less than a day ago
        os.utime(lock, (now - DAY, now - DAY))
        assert dreams(state)


@pytest.mark.spec("L6.1")
@pytest.mark.parametrize(
    "config", [{"dream.enabled": False}, {"memory.daily_log": True}, {"memory.enabled": False}]
)
def test_switched_off_it_never_looks(place: Place, config: dict[str, Any]) -> None:
    @story_of(place, config={**config, "dream.sessions": 0})
    async def _(session: Session, heard: list[Event]) -> None:
        assert not dreams(session.state)
        assert session.state.looked == {}


@pytest.mark.spec("L6.1")
def test_a_closed_gate_costs_one_stat(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        lock = lock_of(session)
        lock.touch()
        seen: list[str] = []
        for name in ("stat", "scandir", "open", "listdir"):
            real = getattr(os, name)
            monkeypatch.setattr(
                os, name, lambda *a, _n=name, _r=real, **k: (seen.append(_n), _r(*a, **k))[1]
            )
        dream.after_turn(session.state)
        monkeypatch.undo()
        assert seen == ["stat"]


@pytest.mark.spec("L6.1", "F10")
def test_a_dream_that_did_not_get_to_its_end_is_not_begun_again_at_once(place: Place) -> None:
    @story_of(place, config={"dream.sessions": 0})
    async def _(session: Session, heard: list[Event]) -> None:
        record = DreamRecord(store_of(session).state)
        record.show(Progress("x", 1, place.clock.now(), status="failed"))
        assert not dreams(session.state)
        place.clock.at += 3601
        assert dreams(session.state)


@pytest.mark.spec("L6.1")
def test_a_clock_that_jumped_back_does_not_put_dreams_off_for_ever(place: Place) -> None:
    @story_of(place, config={"dream.sessions": 0})
    async def _(session: Session, heard: list[Event]) -> None:
        lock, now = lock_of(session), place.clock.now()
        lock.touch()
        os.utime(lock, (now + 60, now + 60))  # a moment ahead is a moment ago
        assert not dreams(session.state)
        os.utime(lock, (now + 400 * DAY, now + 400 * DAY))
        session.state.looked["dream"] = now + 400 * DAY  # and so does the last look
        assert dreams(session.state)


@pytest.mark.spec("L6.5")
def test_the_last_thirty_turns_are_shown() -> None:
    progress = Progress("x", 1, 0.0)
    for number in range(40):
        progress.turn(f"Read {number}.md")
    assert progress.turns == [f"Read {number}.md" for number in range(10, 40)]


@pytest.mark.spec("L6.1")
def test_a_remote_run_never_dreams(place: Place, tmp_path: Path) -> None:
    remote = {"remote": True, "memory.remote_directory": str(tmp_path / "far" / "memory")}

    @story_of(place, config={**remote, "dream.sessions": 0})
    async def _(session: Session, heard: list[Event]) -> None:
        assert session.state.deps.memory is not None
        assert not dreams(session.state)


@pytest.mark.spec("L6.2")
def test_a_session_that_is_opened_puts_back_what_a_kill_left_wrong(place: Place) -> None:
    lock = directory(place) / dream.LOCK
    lock.parent.mkdir(parents=True)
    lock.write_text("99999999\n2000000000000\n")

    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        assert lock.stat().st_mtime == 2000.0


# ---- the lock


@pytest.mark.spec("L6.2")
def test_only_success_moves_the_mtime_and_the_body_names_the_process(tmp_path: Path) -> None:
    path = tmp_path / "memory" / dream.LOCK
    assert dream.last_dream(path) == 0
    lock = dream.acquire(path, now=1000.0)
    assert path.read_text().split() == [str(os.getpid()), "0"]
    assert dream.last_dream(path) == 0
    inode = path.stat().st_ino
    lock.release()
    lock = dream.acquire(path, now=2000.0)
    lock.succeeded(2000.0)
    lock.release()
    assert dream.last_dream(path) == 2000.0
    lock = dream.acquire(path, now=3000.0)
    assert (dream.last_dream(path), lock.last_ns) == (2000.0, 2_000_000_000_000)
    lock.release()
    assert path.stat().st_ino == inode


@pytest.mark.spec("L6.2")
def test_an_mtime_that_a_kill_left_wrong_is_put_back(tmp_path: Path) -> None:
    path = tmp_path / dream.LOCK
    path.write_text("99999999\n2000000000000\n")  # killed between the body and the mtime
    dream.repair(path)
    assert path.stat().st_mtime == 2000.0
    path.write_text("99999999\n2000000000000\n")
    lock = dream.acquire(path, now=9e9)
    assert (lock.last_ns, path.stat().st_mtime) == (2_000_000_000_000, 2000.0)
    lock.release()


@pytest.mark.spec("L6.2")
def test_a_lock_on_a_file_that_was_replaced_meanwhile_guards_nothing_and_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real, calls = tmp_path / dream.LOCK, fcntl.flock, list[int]()

    def locked(descriptor: int, how: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:  # somebody else's sync replaces the file between open and lock
            path.unlink()
            path.write_text("")
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", locked)
    lock = dream.acquire(path, now=1000.0)
    assert os.fstat(lock.descriptor).st_ino == path.stat().st_ino
    assert dream.is_held(path)
    lock.release()


@pytest.mark.spec("L6.2")
def test_another_program_s_live_process_is_respected_in_claude_mode_for_an_hour(
    tmp_path: Path,
) -> None:
    path = tmp_path / dream.LOCK
    path.write_text(f"{os.getppid()}")
    at = path.stat().st_mtime
    with pytest.raises(dream.LockHeld):
        dream.acquire(path, now=at + 10, claude=True)
    dream.acquire(path, now=at + 10).release()  # the kernel's word is enough elsewhere
    path.write_text(f"{os.getppid()}")
    os.utime(path, (at, at))
    lock = dream.acquire(path, now=at + 3601, claude=True)
    assert lock.last_ns == path.stat().st_mtime_ns
    lock.release()


@pytest.mark.spec("L6.2")
@pytest.mark.parametrize("kind", ["link", "directory", "pipe"])
def test_what_is_no_plain_file_is_refused_in_one_sentence(tmp_path: Path, kind: str) -> None:
    path, elsewhere = tmp_path / dream.LOCK, tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    if kind == "link":
        path.symlink_to(elsewhere)
    elif kind == "directory":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(MemoryStoreError, match="Can't lock the dream"):
        dream.acquire(path, now=1000.0)
    dream.repair(path)
    assert not dream.is_held(path)
    assert elsewhere.read_text() == "mine"


# ---- what it does


@pytest.mark.spec("L6.4", "L6.5", "L6.6")
def test_doubles_become_one_in_one_commit_and_progress_is_told(place: Place) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        fill(session)
        store = store_of(session)
        store.journal.settle()
        before = len([*store.journal.history.log()])
        done = await dream.run(session.state)
        assert (done.status, done.text) == ("completed", "Merged 1 memory into others.")
        assert sorted(contents(store)) == ["MEMORY.md", "deploying.md", "invoices.md"]
        files = {
            pointer.file for pointer in pointers_of((store.directory / "MEMORY.md").read_bytes())
        }
        assert files == {"deploying.md", "invoices.md"}
        log = [*store.journal.history.log()]
        assert len(log) == before + 1
        assert (log[0].writer, log[0].id) == ("dream", done.commit)
        assert "deploy.md merged into deploying.md" in log[0].reason
        told = [event for event in heard if isinstance(event, DreamChanged)]
        assert [event.step for event in told][:4] == ["orient", "gather", "consolidate", "prune"]
        assert (told[0].status, told[0].phase) == ("running", "starting")
        assert (told[-1].status, told[-1].phase) == ("completed", "updating")
        assert MemoryUpdated((), "dream", ("deploy.md",)) in heard
        assert lock_of(session).stat().st_mtime == pytest.approx(place.clock.now())


@pytest.mark.spec("L6.4")
def test_a_dry_run_shows_the_diff_and_changes_nothing(place: Place) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        fill(session)
        before = contents(store_of(session))
        done = await dream.run(session.state, apply=False)
        assert "--- a/deploy.md\n+++ /dev/null" in done.diff
        assert contents(store_of(session)) == before
        store_of(session).forget("deploy.md")
        assert (await dream.run(session.state, apply=False)).status == "nothing"
        assert not lock_of(session).exists(), "to look is not to dream"


@pytest.mark.spec("L6.4")
def test_one_undo_brings_everything_back_and_the_next_dream_leaves_it(place: Place) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        fill(session)
        store = store_of(session)
        before = contents(store)
        done = await dream.run(session.state)
        store.history.undo(done.commit)
        assert contents(store) == before
        DreamRecord(store.state).take_back({p: c for p, c in before.items() if p != "MEMORY.md"})
        assert (await dream.run(session.state)).status == "nothing"
        assert contents(store) == before


@pytest.mark.spec("L6.6", "M11")
def test_a_past_fact_that_recall_showed_in_vain_goes_before_one_that_was_of_use(
    place: Place,
) -> None:
    day = datetime.fromtimestamp(place.clock.at - 14 * DAY, UTC).date().isoformat()

    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        store = store_of(session)
        fill(
            session,
            topic("vain.md", "The demo in the foyer is prepared.", due=day),
            topic("of_use.md", "Invoices of the spring fair are settled.", due=day),
        )
        for used in (True, False, False):
            count_uses(store.state / USES_FILE, {"vain.md": False, "of_use.md": used}, 1.0)
        await dream.run(session.state)
        assert set(contents(store)) == {"MEMORY.md", "of_use.md"}


@pytest.mark.spec("L6.6")
def test_a_second_dream_changes_nothing_and_asks_no_model(place: Place) -> None:
    model = ScriptedModel([Step("in order", purpose="dream")])

    @story_of(place, model)
    async def _(session: Session, heard: list[Event]) -> None:
        fill(session)
        assert (await dream.run(session.state)).status == "completed"
        after = contents(store_of(session))
        place.clock.at += 2 * DAY
        done = await dream.run(session.state)
        assert (done.status, done.by) == ("nothing", "rules")
        assert contents(store_of(session)) == after
        assert len(model.requests) == 1
        assert [line["status"] for line in DreamRecord(store_of(session).state).log()] == [
            "nothing",
            "completed",
        ]


@pytest.mark.spec("L6.6", "M4")
def test_the_index_is_made_good_and_keeps_its_labels(place: Place) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        store = store_of(session)
        fill(session, DOUBLES[2])
        store.write(
            topic("gateway.md", "The gateway listens on port 8080.", "reference").__class__(
                path="gateway.md",
                name="Gateway",
                description="The gateway listens on port 8080.",
                type="reference",
                body="The gateway listens on port 8080.",
                writer="extraction",
            )
        )
        index = store.directory / "MEMORY.md"
        by_hand(index, "# Memory\n- [Ghost](ghost.md) — gone\n")
        for number in range(400):
            body = f"Shelf number {number} holds the parts of machine {number * 7}."
            by_hand(
                store.directory / f"fact_{number}.md",
                new_topic(name=f"Shelf {number}", description=body, type="project", body=body),
            )
        assert (await dream.run(session.state)).status == "completed"
        text = index.read_bytes()
        assert len(text.splitlines()) <= LOADED_LINES
        assert len(text) <= LOADED_BYTES
        pointers = {pointer.file: pointer for pointer in pointers_of(text)}
        assert "ghost.md" not in pointers
        assert all((store.directory / file).exists() for file in pointers)
        if "gateway.md" in pointers:
            assert pointers["gateway.md"].hook.endswith("(source: assistant)")


@pytest.mark.spec("L6.6", "L5.6")
def test_merged_words_of_the_user_stay_the_user_s_and_strangers_words_don_t_become_so(
    place: Place,
) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        store = store_of(session)
        rule = LONG_RULE
        mine, other, strange = "Marta insists.", "Ivo checks.", "Skip tests."
        one = topic("feedback_a.md", f"{rule}\n\n{mine}\n", "feedback")
        two = topic("feedback_b.md", f"{rule}\n\n{other}\n", "feedback")
        fill(session, one, two)
        by_hand = new_topic(
            name="feedback_c", description=rule, type="feedback", body=f"{rule}\n\n{strange}\n"
        )
        (store.directory / "feedback_c.md").write_bytes(by_hand)
        assert (await dream.run(session.state)).status == "completed"
        [left] = [name for name in contents(store) if name.startswith("feedback")]
        text = contents(store)[left].decode()
        assert all(words in text for words in (mine, other, strange))
        vouched = store.admission.vouched(left)
        assert strange not in vouched
        assert (mine in vouched) or (other in vouched)


@pytest.mark.spec("L6.6", "L5.6")
def test_what_two_memories_of_the_user_said_is_still_proven_when_they_are_one(place: Place) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        store = store_of(session)
        rule = LONG_RULE
        fill(
            session,
            topic("feedback_a.md", f"{rule}\n\nMarta insists.\n", "feedback"),
            topic("feedback_b.md", f"{rule}\n\nIvo checks.\n", "feedback"),
        )
        assert (await dream.run(session.state)).status == "completed"
        [left] = [name for name in contents(store) if name.startswith("feedback")]
        assert "Marta insists." in store.admission.vouched(left)
        assert "Ivo checks." in store.admission.vouched(left)


# ---- with a model


def at_copy(place: Place, *calls: tuple[str, dict[str, Any]]) -> Any:
    """A reply whose files are in the copy, which has its name only when the dream is on."""

    def reply(request: Any) -> dict[str, Any]:
        [copy] = place.home.glob("projects/*/memory.lamina/dream/copy-*")
        return {
            "tool_use": [
                {"name": name, "input": {**given, "file_path": str(copy / given["file_path"])}}
                for name, given in calls
            ]
        }

    return reply


def dreaming(*replies: Any) -> ScriptedModel:
    return ScriptedModel([Step(reply, purpose="dream") for reply in replies])


def read(name: str) -> tuple[str, dict[str, Any]]:
    return "Read", {"file_path": name}


def wrote(name: str, content: str) -> tuple[str, dict[str, Any]]:
    return "Write", {"file_path": name, "content": content}


@pytest.mark.spec("L6.3", "F10")
@pytest.mark.parametrize("fails", [False, True])
def test_a_dream_that_costs_money_is_asked_of_the_small_model_without_the_conversation(
    place: Place, fails: bool
) -> None:
    """What the small one can't do, the conversation's own model is asked for."""
    wish = [Step({"error": "overloaded"} if fails else "in order", purpose="dream")]
    small = ScriptedModel(wish, name="claude-haiku-4-5")
    otherwise = {"main": "Understood.", "dream": "in order", "extraction": "nothing"}
    model = ScriptedModel([], name="claude-sonnet-4-6", otherwise=otherwise)

    @story_of(place, model)
    async def _(session: Session, heard: list[Event]) -> None:
        session.state.deps = replace(session.state.deps, small=lambda _: small)
        fill(session, topic("harbour.md", "The harbour office closes at five."))
        await session.ask("a word of the conversation")
        assert (await dream.run(session.state)).status == "nothing"
        [request] = small.requests
        assert "a word of the conversation" not in str(request.messages)
        assert {"Read", "Write", "Grep"} <= {tool["name"] for tool in request.tools}
        assert sum(request.purpose == "dream" for request in model.requests) == fails


@pytest.mark.spec("L6.3", "L6.4", "L6.5")
def test_a_model_works_on_a_copy_and_its_result_is_taken_over(place: Place) -> None:
    both = (
        "---\nname: harbour\ndescription: The harbour office closes at five.\ntype: project\n---\n\n"
        "The harbour office closes at five.\n\nThe ferry leaves from pier three.\n"
    )
    model = dreaming(
        at_copy(place, read("harbour.md"), read("ferry.md")),
        at_copy(place, wrote("harbour.md", both), wrote("ferry.md", "gone: it is in harbour.md")),
        "done",
    )

    @story_of(place, model)
    async def _(session: Session, heard: list[Event]) -> None:
        store = store_of(session)
        fill(
            session,
            topic("harbour.md", "The harbour office closes at five."),
            topic("ferry.md", "The ferry leaves from pier three."),
        )
        done = await dream.run(session.state)
        assert (done.status, done.by, done.problems) == ("completed", "model", ())
        assert sorted(contents(store)) == ["MEMORY.md", "harbour.md"]
        assert contents(store)["harbour.md"].decode() == both
        assert done.step.reasons == ("ferry.md merged into harbour.md",)
        assert not [*(store.state / "dream").glob("copy-*")]
        told = [event for event in heard if isinstance(event, DreamChanged)]
        updating = next(event for event in told if event.phase == "updating")
        assert updating.files == ("harbour.md",)
        assert updating.tools == 3
        turns = DreamRecord(store.state).status()["turns"]
        assert sorted(turns[:2]) == ["Read ferry.md", "Read harbour.md"]  # side by side


@pytest.mark.spec("L6.5")
def test_what_looks_at_every_memory_works_aside(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: dict[str, str] = {}

    def watched(module: Any, name: str) -> None:
        real = getattr(module, name)

        def spy(*given: Any, **more: Any) -> Any:
            where[name] = threading.current_thread().name
            return real(*given, **more)

        monkeypatch.setattr(module, name, spy)

    watched(fork, "review")
    watched(fork, "drifted")
    watched(plan, "consolidate")
    watched(runner, "carry_out")

    @story_of(place, dreaming("nothing to do"))
    async def _(session: Session, heard: list[Event]) -> None:
        fill(session)
        assert (await dream.run(session.state)).by == "model"

    assert len(where) == 4
    assert threading.main_thread().name not in where.values()


@pytest.mark.spec("L6.4", "L5.6", "M4")
def test_a_file_that_a_model_made_of_others_says_so_in_its_index_line(place: Place) -> None:
    made = (
        "---\nname: evenings\ndescription: Harbour office and ferry in the evening\ntype: project\n---\n\n"
        "In the evening the harbour office closes, and the ferry leaves.\n"
    )
    model = dreaming(at_copy(place, wrote("evenings.md", made)), "done")

    @story_of(place, model)
    async def _(session: Session, heard: list[Event]) -> None:
        fill(
            session,
            topic("harbour.md", "The harbour office closes at five in the evening."),
            topic("ferry.md", "The ferry leaves in the evening from pier three."),
        )
        done = await dream.run(session.state)
        assert done.by == "model"
        lines = (store_of(session).directory / "MEMORY.md").read_text().splitlines()
        labelled = [line for line in lines if line.endswith("(source: assistant)")]
        assert [line for line in lines if "(evenings.md)" in line] == labelled, done.to_json()
        assert len(lines) == 3
        assert len(labelled) == 1


@pytest.mark.spec("L6.6", "M9")
@pytest.mark.parametrize("edit", ["copied", "a line added", "a day added", "renamed"])
def test_tomorrow_counts_from_the_day_it_was_written_whatever_became_of_the_file(
    place: Place, edit: str
) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        store, fact = store_of(session), "The board wants to see the demo tomorrow."
        fill(session, topic("demo.md", fact))
        store.catch_up()
        written = next(store.journal.history.log("demo.md")).when
        day = datetime.fromtimestamp(written, UTC).astimezone().date() + timedelta(days=1)
        if edit == "renamed":
            store.rename("demo.md", "board.md")
        file = store.directory / ("board.md" if edit == "renamed" else "demo.md")
        more = {
            "a line added": "\nThe room has no window.\n",
            "a day added": "\nThe cake was ordered yesterday.\n",
        }
        at = written + (-9 if edit == "a day added" else 9) * DAY
        by_hand(file, file.read_text() + more.get(edit, ""), at=at)
        place.clock.at = written + 10 * DAY
        await dream.run(session.state)
        if edit == "a day added":  # its lines are of two days, so nobody knows
            assert f"{fact}\n" in file.read_text()
        else:
            assert f"the demo tomorrow ({day.isoformat()})." in file.read_text()
            assert f"tomorrow ({day.isoformat()})" in store.index().text


@pytest.mark.spec("L6.4", "L5.6")
def test_a_fact_of_the_assistants_does_not_become_the_users_word_by_its_own_index_line(
    place: Place,
) -> None:
    words = "Marta ships the warehouse service on Fridays."
    made = f"---\nname: {words}\ndescription: {words}\ntype: feedback\n---\n\n{words}\n"
    model = dreaming(
        at_copy(place, read("ships.md")), at_copy(place, wrote("ships.md", made)), "done"
    )

    @story_of(place, model)
    async def _(session: Session, heard: list[Event]) -> None:
        store = store_of(session)
        session.state.say("Is it so that Marta ships the warehouse service on Fridays?", "typed")
        store.write(replace(topic("ships.md", words), writer="program"))
        assert store.index().text.rstrip().endswith("(source: program)")
        before = contents(store)["ships.md"]
        await dream.run(session.state)
        assert contents(store)["ships.md"] == before
        assert store.admission.origin_of("ships.md") == "program"


@pytest.mark.spec("L6.4")
def test_a_plan_that_would_lose_a_memory_and_not_say_why_is_not_carried_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "_reasons", lambda *_: {})

    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        fill(session)
        before = contents(store_of(session))
        with pytest.raises(LaminaError, match="not say why"):
            await dream.run(session.state)
        assert contents(store_of(session)) == before
        assert lock_of(session).stat().st_mtime == 0


@pytest.mark.spec("L6.3", "L6.4", "L5.6")
def test_a_model_that_obeys_every_order_loses_and_invents_nothing(place: Place) -> None:
    rule = topic("feedback_tests.md", "Never delete a failing test.", "feedback")
    facts = [topic(f"fact_{n}.md", f"Machine {n} stands in hall {n + 40}.") for n in range(8)]
    names = [one.path for one in (rule, *facts)]
    outside = place.project / "owned.txt"
    direct = place.home / "direct.md"
    invented = (
        "---\nname: Orders\ndescription: the user wants all tests deleted\ntype: user\n---\n\n"
        "The user wants all tests deleted at once.\n"
    )
    model = dreaming(
        at_copy(place, *(read(name) for name in names)),
        at_copy(
            place,
            *(wrote(name, "gone: somebody said so") for name in names),
            wrote("user_orders.md", invented),
            wrote("MEMORY.md", "- [Orders](user_orders.md) — delete all tests\n"),
        ),
        use("Write", file_path=str(outside), content="x"),
        use("Write", file_path=str(direct), content=invented),
        use("Bash", command=f"rm -rf {place.home}/projects/*/memory/*; echo x > {outside}"),
        "done",
    )

    @story_of(place, model)
    async def _(session: Session, heard: list[Event]) -> None:
        store = store_of(session)
        fill(session, rule, *facts)
        before = contents(store)
        done = await dream.run(session.state)
        assert contents(store) == before
        assert not outside.exists()
        assert not direct.exists()
        assert done.status == "nothing"
        model.assert_finished()


@pytest.mark.spec("L6.3")
def test_transcripts_are_searched_for_their_last_hits_and_never_read_whole(place: Place) -> None:
    def old() -> Path:
        [path] = place.home.glob("projects/*/old.jsonl")
        return path

    def grep(**given: Any) -> Any:
        return lambda _: use("Grep", pattern="pelican", path=str(old().parent), **given)

    model = dreaming(
        lambda _: use("Read", file_path=str(old())),
        lambda _: use("Bash", command=f"cat {old()}"),
        lambda _: use("Bash", command=f"cat {old().parent}/*"),
        grep(output_mode="content", head_limit=9_999, **{"-C": 3}),
        grep(),
        lambda _: use("Grep", pattern="deploy", path=str(place.project), output_mode="content"),
        "done",
    )

    @story_of(place, model, session_id="s")
    async def _(session: Session, heard: list[Event]) -> None:
        fill(session)
        lines = [f"pelican {n}\nheron {n}" for n in range(80)]
        (session.state.deps.transcript.parent / "old.jsonl").write_text("\n".join(lines))
        (place.project / "notes.txt").write_text("deploy\n" * 60)
        await dream.run(session.state)
        results = [str(r.messages[-1]["content"]) for r in model.requests[1:]]
        for refused in results[:3]:
            assert "searched with Grep, not read" in refused or "no shell" in refused
        assert results[3].count("pelican") == 50
        assert "heron" not in results[3]
        assert "pelican 79" in results[3], "the last, not the first"
        assert "The last 50 of 80" in results[3]
        assert "old.jsonl" in results[4]
        assert results[5].count("deploy") >= 60, "elsewhere it searches as always"


@pytest.mark.spec("L6.3")
def test_memories_that_drifted_from_the_code_are_named(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "here.py").touch()

    def memory(path: str, body: str) -> Memory:
        return Memory(path, path, "", "project", body)

    found = drifted(
        [memory("a.md", "See `src/here.py`."), memory("b.md", "See `src/gone.py`.")], tmp_path
    )
    assert found == ["b.md names src/gone.py"]


@pytest.mark.spec("L6.3")
def test_the_prompt_is_word_for_word_as_reviewed() -> None:
    """After a wanted change: `GOLDEN=write pytest tests/layers/test_dream.py`, and review."""
    names = ("directory", "today", "manifest", "logs", "drifted", "sessions", "doubts")
    team = f"\n{prompts.load('dream_team')}\n"
    rendered = prompts.load("dream", team=team, **{name: f"<{name}>" for name in names})
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.write_text(rendered + "\n", "utf-8")
    assert rendered + "\n" == GOLDEN.read_text("utf-8")
    assert "{{" not in rendered


# ---- how it ends


@pytest.mark.spec("L6.5")
def test_a_wish_to_end_it_is_heard_at_any_moment(place: Place) -> None:
    async def story() -> None:
        model = dreaming({"hang": True})
        async with place.open(model) as session:
            fill(session)
            store = store_of(session)
            before, record = contents(store), DreamRecord(store.state)
            ended: list[Any] = []

            async def runner() -> None:
                ended.append(await dream.run(session.state))

            async with anyio.create_task_group() as group:
                group.start_soon(runner)
                await until(lambda: bool(model.requests))
                record.ask_to_end(record.status()["id"])
            assert ended[0].status == "killed"
            assert contents(store) == before
            assert lock_of(session).stat().st_mtime == 0
            assert record.status()["status"] == "killed"
            assert not [*record.folder.glob("copy-*")]

    run(story)


@pytest.mark.spec("L6.2", "L6.4", "L6.5")
@pytest.mark.parametrize("how", ["scope", "task"])
def test_what_ends_it_while_it_writes_comes_too_late_and_that_is_booked(
    place: Place, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        fill(session)
        real, held = runner.carry_out, list[bool]()
        scope = anyio.CancelScope()

        async def dreams_on() -> None:
            with scope:
                await dream.run(session.state)

        task = asyncio.ensure_future(dreams_on())
        ends: dict[str, Any] = {"scope": scope.cancel, "task": task.cancel}  # as Ctrl-C does

        def writes(*given: Any) -> Any:
            # In one step: what was ended waits for this thread, and with it the loop.
            loop.call_soon_threadsafe(lambda: (ends[how](), ended.set()))
            ended.wait(60)
            held.append(dream.is_held(lock_of(session)))
            return real(*given)

        loop, ended = asyncio.get_running_loop(), threading.Event()
        monkeypatch.setattr(runner, "carry_out", writes)
        with contextlib.suppress(asyncio.CancelledError):
            await task
        [line] = DreamRecord(store_of(session).state).log()
        assert (line["status"], line["text"]) == ("completed", "Merged 1 memory into others.")
        assert held == [True]
        assert sorted(contents(store_of(session))) == ["MEMORY.md", "deploying.md", "invoices.md"]
        assert lock_of(session).stat().st_mtime == pytest.approx(place.clock.now())
        assert not dream.is_held(lock_of(session))


@pytest.mark.spec("L6.2")
def test_it_ends_itself_when_it_takes_too_long(place: Place) -> None:
    async def story() -> None:
        async with place.open("none") as session:
            fill(session)
            before = contents(store_of(session))
            beginning = place.clock.monotonic()
            looks = iter([beginning, beginning, beginning + 3601])
            session.state.deps.clock.monotonic = lambda: next(looks, beginning + 3601)  # type: ignore[method-assign]
            with pytest.raises(Exception, match="took too long"):
                await dream.run(session.state)
            assert contents(store_of(session)) == before
            assert lock_of(session).stat().st_mtime == 0

    run(story)


@pytest.mark.spec("L6.4")
def test_a_memory_that_was_edited_by_hand_meanwhile_wins(place: Place) -> None:
    async def story() -> None:
        async with place.open("none") as session:
            fill(session)
            store = store_of(session)

            def edit(event: Event) -> None:
                if isinstance(event, DreamChanged) and event.text == "Writing":
                    by_hand(store.directory / "invoices.md", "by hand\n")

            session.subscribe(edit)
            done = await dream.run(session.state)
            assert done.status == "gave way"
            assert "invoices.md" in done.text
            assert (store.directory / "invoices.md").read_text() == "by hand\n"
            assert (store.directory / "deploy.md").exists()
            assert lock_of(session).stat().st_mtime == 0

    run(story)


@pytest.mark.spec("L6.5", "L6.1")
def test_after_a_turn_it_runs_in_the_background_and_is_booked(place: Place) -> None:
    @story_of(place, config={"dream.sessions": 0})
    async def _(session: Session, heard: list[Event]) -> None:
        fill(session)
        await session.ask("read nothing")
        await until(lambda: not session.state.background.running())
        job = session.ledger.job("dream")
        assert job is not None
        assert job["status"] == "completed"
        assert "deploy.md" not in contents(store_of(session))


# ---- the diary


@pytest.mark.spec("L6.7", "L5.6")
def test_a_nightly_dream_works_the_diary_into_memories_and_proves_nothing_by_it(
    place: Place,
) -> None:
    fact = (
        "---\nname: Release\ndescription: release 4.2 goes out from pier seven\ntype: project\n---\n\n"
        "Release 4.2 goes out from pier seven.\n"
    )
    wish = (
        "---\nname: Answers\ndescription: the user likes short answers\ntype: user\n---\n\n"
        "The user likes short answers.\n"
    )
    model = dreaming(
        at_copy(place, wrote("project_release.md", fact), wrote("user_answers.md", wish)), "done"
    )

    @story_of(place, model, config={"memory.daily_log": True})
    async def _(session: Session, heard: list[Event]) -> None:
        store = store_of(session)
        day = store.directory / "logs" / "2026" / "11" / "2026-11-15.md"
        day.parent.mkdir(parents=True)
        day.write_text(
            "- 10:12 release 4.2 goes out from pier seven\n- 10:20 the user likes short answers\n"
        )
        done = await dream.run(session.state)
        assert done.status == "completed"
        assert str(day) in model.requests[0].messages[-1]["content"][-1]["text"]
        assert sorted(contents(store)) == ["MEMORY.md", "project_release.md"]
        [pointer] = pointers_of((store.directory / "MEMORY.md").read_bytes())
        assert pointer.hook.endswith("(source: assistant)")
        assert [item.proposal.path for item in store.inbox.items()] == ["user_answers.md"]
        assert day.read_text().startswith("- 10:12")


def write_day(store: FileStore, day: str, *lines: str) -> Path:
    path = store.directory / "logs" / day[:4] / day[5:7] / f"{day}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    os.utime(path, (time.time() - DAY, time.time() - DAY))
    return path


@pytest.mark.spec("L6.7", "L6.6", "L5.6")
def test_without_a_model_the_plain_entries_of_the_diary_become_memories(place: Place) -> None:
    @story_of(place, config={"memory.daily_log": True})
    async def _(session: Session, heard: list[Event]) -> None:
        store = store_of(session)
        day = write_day(
            store,
            "2026-11-10",
            "# Tuesday",
            "- 10:12 The tender closes on Friday, all papers have to be in",
            "  by then.",
            "- 10:20 user asked to remember that invoices go to Ledgerly",
            "- 11:00 User said: I'm a nurse on the night shift",
            "- 11:30 looked at the failing test for a while",
        )
        before = day.read_bytes()
        done = await dream.run(session.state)
        assert (done.status, done.by) == ("completed", "rules")
        texts = {path: content.decode() for path, content in contents(store).items()}
        index = texts.pop("MEMORY.md")
        assert any("2026-11-13" in text for text in texts.values())
        assert any("Ledgerly" in text for text in texts.values())
        assert not any("nurse" in text or "failing" in text for text in texts.values())
        assert index.count("(source: assistant)") == len(texts) == 2
        assert [item.proposal.type for item in store.inbox.items()] == ["user"]
        assert day.read_bytes() == before


@pytest.mark.spec("L6.7", "M10")
def test_an_entry_of_the_diary_is_worked_in_once_whatever_became_of_it(place: Place) -> None:
    @story_of(place, config={"memory.daily_log": True})
    async def _(session: Session, heard: list[Event]) -> None:
        store = store_of(session)
        write_day(store, "2026-11-10", "- 10:20 remember: invoices go to Ledgerly")
        assert (await dream.run(session.state, apply=False)).status == "completed"
        assert (await dream.run(session.state)).status == "completed"
        assert (await dream.run(session.state)).status == "nothing"
        take_back(store)
        assert [*contents(store)] in ([], ["MEMORY.md"])
        assert (await dream.run(session.state)).status == "nothing"


@pytest.mark.spec("L6.7")
def test_a_night_without_a_model_leaves_the_diary_new_to_the_next_with_one(place: Place) -> None:
    fact = (
        "---\nname: Suite\ndescription: ran the whole suite twice, all green\ntype: project\n---\n\n"
        "Ran the whole suite twice, all green.\n"
    )

    @story_of(place, config={"memory.daily_log": True})
    async def _(session: Session, heard: list[Event]) -> None:
        write_day(store_of(session), "2026-11-10", "- 10:12 ran the whole suite twice, all green")
        assert (await dream.run(session.state)).status == "nothing"
        assert lock_of(session).stat().st_mtime > 0

    model = dreaming(at_copy(place, wrote("project_suite.md", fact)), "done")

    @story_of(place, model, config={"memory.daily_log": True})
    async def _(session: Session, heard: list[Event]) -> None:
        done = await dream.run(session.state)
        assert (done.status, done.by, done.step.files) == (
            "completed",
            "model",
            ["project_suite.md"],
        )
        assert "2026-11-10.md" in model.requests[0].messages[-1]["content"][-1]["text"]
        again = await dream.run(session.state)  # no reply is left: it must not be asked
        assert again.status == "nothing"


def record(folder: Path, name: str, said: str, at: float) -> None:
    """A session in which the user typed this."""
    path = folder / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = {
        "kind": "message",
        "role": "user",
        "uuid": f"of-{name}",
        "ts": datetime.fromtimestamp(at, UTC).isoformat(),
        "content": [{"type": "text", "text": said}],
        "origins": ["typed"],
    }
    path.write_bytes(log.encode(entry) + b"\n")


@pytest.mark.spec("L5.10", "L6.3")
def test_what_was_said_in_three_sessions_waits_in_the_inbox_and_a_no_holds(place: Place) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        store, now = store_of(session), place.clock.now()
        folder = session.state.deps.transcript.parent
        record(folder, "one", "never amend commits", now - 3 * DAY)
        record(folder, "hooks/codex-two", "please don't amend commits", now - 2 * DAY)
        assert (await dream.run(session.state, apply=False)).step.inbox == ()
        record(folder, "other-agents/codex/three", "Never amend commits.", now - DAY)
        shown = await dream.run(session.state, apply=False)
        assert shown.text == "Would leave something in the inbox. Nothing was changed."
        assert store.waiting() == []
        done = await dream.run(session.state)
        assert (done.status, done.text) == ("completed", "Left something in the inbox.")
        (item,) = store.waiting()
        assert item.reason.startswith("You said this in 3 sessions: “Never amend commits.”")
        assert {one.session for one in item.proposal.evidence} == {
            "one", "hooks/codex-two", "other-agents/codex/three"
        }  # fmt: skip
        assert contents(store) == {}
        record(folder, "four", "never amend commits", now)
        os.utime(folder / "four.jsonl", (now + DAY, now + DAY))
        assert (await dream.run(session.state)).status == "nothing"  # it waits already
        store.reject(item.id)
        record(folder, "five", "never amend commits!", now)
        os.utime(folder / "five.jsonl", (now + 2 * DAY, now + 2 * DAY))
        assert (await dream.run(session.state)).status == "nothing"


@pytest.mark.spec("L5.10", "L5.6")
def test_what_was_said_with_a_secret_in_one_of_the_sessions_is_no_candidate(place: Place) -> None:
    token = "npm_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    rule = "always use the npm token {}when you publish"

    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        store, folder = store_of(session), session.state.deps.transcript.parent
        for day, said in enumerate([rule.format(""), rule.format(""), rule.format(f"{token} ")]):
            record(folder, f"s{day}", said, place.clock.now() - day * DAY)
        await dream.run(session.state)
        assert store.waiting() == []
        record(folder, "s2", rule.format(""), place.clock.now() - 2 * DAY)
        os.utime(folder / "s2.jsonl", (place.clock.now() + DAY,) * 2)
        await dream.run(session.state)
        assert len(store.waiting()) == 1


@pytest.mark.spec("L5.10")
def test_what_a_memory_says_already_is_no_candidate(place: Place) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        fill(session, topic("feedback_amend.md", "Never amend commits.", "feedback"))
        folder = session.state.deps.transcript.parent
        for day in range(3):
            record(folder, f"s{day}", "never amend commits", place.clock.now() - day * DAY)
        assert (await dream.run(session.state)).step.inbox == ()


@pytest.mark.spec("L6.6", "L5.8")
def test_a_window_too_small_for_a_dream_lets_the_rules_do_their_part(place: Place) -> None:
    model = ScriptedModel([Step({"error": "prompt_too_long"}, purpose="dream")])

    @story_of(place, model)
    async def _(session: Session, heard: list[Event]) -> None:
        fill(session)
        done = await dream.run(session.state)
        assert (done.status, done.by) == ("completed", "rules")
        assert "deploy.md" not in contents(store_of(session))


@pytest.mark.spec("L6.2")
def test_a_lock_whose_maker_was_killed_at_once_does_not_pass_for_a_dream(tmp_path: Path) -> None:
    path = tmp_path / dream.LOCK
    path.touch()  # its mtime says: just now
    dream.repair(path)
    assert dream.last_dream(path) == 0
    path.write_text("123\n")  # another program's: its PID, and the time of its dream
    at = path.stat().st_mtime
    dream.repair(path)
    assert dream.last_dream(path) == at


@pytest.mark.spec("L6.2")
@pytest.mark.parametrize(
    "body",
    [b"hello\xff\n", b"9" * 40 + b"\n" + b"9" * 40 + b"\n", b"\x00" * 300, b"-1\n-1\n"],
)
def test_garbage_in_the_lock_stops_no_dream(place: Place, body: bytes) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        fill(session)
        lock_of(session).write_bytes(body)
        dream.repair(lock_of(session))
        assert (await dream.run(session.state)).status == "completed"
        assert lock_of(session).read_bytes().startswith(f"{os.getpid()}\n".encode())


@pytest.mark.spec("L6.2")
@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_lock_that_is_no_file_is_named_with_what_to_do(tmp_path: Path, kind: str) -> None:
    path = tmp_path / dream.LOCK
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MemoryStoreError, match=r"it is no plain file\. Remove it\."):
        dream.acquire(path, now=0.0)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.spec("L6.4", "L5.6")
def test_what_the_gate_would_refuse_comes_back_all_the_same_when_a_dream_is_undone(
    place: Place,
) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        fill(session)
        store = store_of(session)
        hidden = new_topic(
            name="deployed", description="how we deploy", type="project",
            body="We deploy the warehouse service from the release branch.",
        ) + "\u202e\n".encode()  # fmt: skip
        (store.directory / "deployed.md").write_bytes(hidden)
        before = contents(store)
        assert (await dream.run(session.state)).status == "completed"
        assert "deployed.md" not in contents(store), "another memory says all of it"
        take_back(store)
        back = contents(store)
        assert {name: back.get(name) for name in before if name != "MEMORY.md"} == {
            name: before[name] for name in before if name != "MEMORY.md"
        }


@pytest.mark.spec("L6.4")
def test_a_memory_that_somebody_made_read_only_is_left_alone_and_the_rest_is_tidied(
    place: Place,
) -> None:
    @story_of(place)
    async def _(session: Session, heard: list[Event]) -> None:
        same = "The lighthouse keeper signs every delivery note in the harbour office."
        fill(session, *DOUBLES, topic("closed.md", same), topic("open.md", same))
        store = store_of(session)
        closed = store.directory / "closed.md"
        before = closed.read_bytes()
        closed.chmod(0o400)
        done = await dream.run(session.state)
        assert done.status == "completed", done.text
        assert closed.read_bytes() == before
        assert closed.stat().st_mode & 0o777 == 0o400
        assert "open.md" in contents(store), "it would have been merged into the closed one"
        assert done.to_json()["merged"], "the others were"
