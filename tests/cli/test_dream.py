"""`lamina dream` and `lamina extract`: what they print, change, undo and end."""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.sessions import Place

from lamina.cli.chat_commands import run_command
from lamina.cli.chat_events import line_of
from lamina.errors import LaminaError, MemoryStoreError, UsageError
from lamina.events import Event
from lamina.layers import dream
from lamina.memory.history import History
from lamina.models.scripted import ScriptedModel, Step
from lamina.session import Session
from lamina.testing import a_memory

Run = Callable[..., Any]
FACT = "We deploy the warehouse service from the release branch."
TYPED = "No, don't mock the database in integration tests because the migration broke."


def memory_of(world: Path) -> Path:
    [found] = world.glob("home/projects/*/memory")
    return found


@pytest.fixture
def doubles(lamina: Run) -> None:
    for name in ("a", "b"):
        assert lamina("memory", "add", FACT, "--file", f"deploy_{name}.md").code == 0


@pytest.mark.spec("L6.4")
@pytest.mark.usefixtures("doubles")
def test_a_dry_run_prints_a_diff_and_changes_nothing(lamina: Run, world: Path) -> None:
    ran = lamina("dream", "--dry-run")
    assert ran.code == 0
    assert "--- a/deploy_b.md\n+++ /dev/null" in ran.out
    assert "Would merge 1 memory into others. Nothing was changed." in ran.err
    assert (memory_of(world) / "deploy_b.md").exists()
    assert "--- a/deploy_b.md" in lamina("dream", "--dry-run", "--json").json["diff"]


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below, but for the index of headers, which every look at memory brings up to date."""
    found = [path for path in root.rglob("*") if not path.name.startswith("headers.sqlite")]
    return {
        str(path): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in found
    }


@pytest.mark.spec("L6.4")
def test_a_dry_run_of_a_directory_that_lamina_never_saw_leaves_nothing_behind(
    lamina: Run, world: Path
) -> None:
    lamina("memory", "add", FACT, "--file", "deploy_a.md")
    directory = memory_of(world)
    for left in directory.parent.iterdir():
        if left != directory:
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    (directory / "MEMORY.md").unlink()
    before = {path: path.stat().st_mtime_ns for path in (world / "home/projects").rglob("*")}
    assert "+- [" in lamina("dream", "--dry-run").out
    assert {
        path: path.stat().st_mtime_ns for path in (world / "home/projects").rglob("*")
    } == before


@pytest.mark.spec("L6.4")
def test_what_is_done_and_only_remarked_on_is_not_called_not_applied(
    lamina: Run, world: Path
) -> None:
    lamina("memory", "add", FACT, "--file", "deploy_a.md")
    (memory_of(world) / "diary.md").write_text("# 2026-02-03\nThe auditor calls tomorrow.\n")
    ran = lamina("dream", "--now")
    assert "tomorrow (2026-02-04)" in (memory_of(world) / "diary.md").read_text()
    assert "diary.md has no description" in ran.err
    assert "not applied" not in ran.out + ran.err


@pytest.mark.spec("L6.4")
@pytest.mark.usefixtures("doubles")
def test_a_dry_run_leaves_nothing_behind(lamina: Run, world: Path) -> None:
    before = tree(world)
    assert "Would merge" in lamina("dream", "--dry-run").err
    assert tree(world) == before, "where nobody ever dreamt"
    script = world / "script.json"
    script.write_text('[{"purpose": "dream", "reply": "Nothing to do."}]')
    assert lamina("dream", "--now", "--model", f"scripted:{script}").code == 0
    lamina("memory", "add", FACT, "--file", "deploy_c.md")
    lock = memory_of(world) / dream.LOCK
    before, last = tree(world), dream.last_dream(lock)
    for _ in range(2):
        assert lamina("dream", "--dry-run", "--model", f"scripted:{script}").code == 0
        left = {path for path, kept in tree(world).items() if kept != before.get(path)}
        assert {path for path in left if "/spend/" not in path} == set(), "calls are paid for"
    assert dream.last_dream(lock) == last


@pytest.mark.spec("L6.4", "L6.5")
@pytest.mark.usefixtures("doubles")
def test_a_dream_is_logged_shown_and_undone_with_one_command(lamina: Run, world: Path) -> None:
    ran = lamina("dream")
    assert ran.out.splitlines()[0] == "Merged 1 memory into others."
    assert "deploy_b.md merged into deploy_a.md" in ran.out
    assert not (memory_of(world) / "deploy_b.md").exists()
    assert "Not due" in lamina("dream").out
    assert lamina("dream", "log", "--json").json[0]["status"] == "completed"
    assert "completed" in lamina("dream", "log").out
    assert "--- a/deploy_b.md" in lamina("dream", "diff").out
    undone = lamina("dream", "undo")
    assert undone.code == 0
    assert (memory_of(world) / "deploy_b.md").exists()
    again = lamina("dream", "--now", "--json").json
    assert again["status"] == "nothing"
    nothing_left = lamina("dream", "undo")
    assert nothing_left.code == 2
    assert "no dream to undo" in nothing_left.err


@pytest.mark.spec("L6.4", "L5.9")
def test_what_a_dream_refused_is_named_with_its_reason_wherever_it_is_looked_at(
    lamina: Run, world: Path
) -> None:
    """Two doubles that together are larger than a memory may be."""
    more = "Marta keeps the list of drivers." + " It is long." * 200
    assert lamina("settings", "set", "memory.max_file", "1000").code == 0
    assert lamina("memory", "add", FACT, "--file", "deploy_a.md").code == 0
    hand = memory_of(world) / "deploy_b.md"
    hand.write_text(
        f"---\nname: deploy\ndescription: {FACT}\ntype: project\n---\n{FACT}\n\n{more}\n"
    )
    before = hand.read_bytes()
    for given in (("--dry-run",), ("--now",)):
        ran = lamina("dream", *given)
        assert "not applied: deploy_a.md stays as it was: " in ran.err
        assert hand.read_bytes() == before
    [problem] = lamina("dream", "--now", "--json").json["problems"]
    assert "1,000" in problem
    assert lamina("dream", "log", "--json").json[0]["problems"] == [problem]
    assert "not applied: deploy_a.md" in lamina("dream", "log").out


@pytest.mark.spec("L6.2")
@pytest.mark.usefixtures("doubles")
def test_while_another_dreams_it_is_refused_in_one_sentence(lamina: Run, world: Path) -> None:
    lock = dream.acquire(memory_of(world) / dream.LOCK, now=time.time())
    ran = lamina("dream", "--now")
    lock.release()
    assert ran.code == 1
    assert ran.err == f"lamina: No dream now: process {os.getpid()} dreams already.\n"


def test_there_is_nothing_to_kill_or_show_before_a_dream(lamina: Run) -> None:
    assert lamina("dream", "kill").err == "lamina: No dream is running.\n"
    assert lamina("dream", "diff").code == 2
    assert lamina("dream", "log", "--json").json == []
    assert lamina("dream", "--print").code == 2


@pytest.mark.spec("L6.5")
@pytest.mark.usefixtures("doubles")
def test_a_kill_from_another_process_ends_it_and_leaves_memory(
    lamina: Run, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lamina.cli.dream._WAIT", 60.0)
    script = world / "hang.json"
    script.write_text('[{"purpose": "dream", "reply": {"hang": true}}]')
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "lamina.cli.main",
            "dream",
            "--now",
            "--model",
            f"scripted:{script}",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as sleeper:
        status = memory_of(world).with_name("memory.lamina") / "dream" / "status.json"
        until = time.monotonic() + 60
        while not (status.exists() and '"consolidate"' in status.read_text()):
            assert time.monotonic() < until
            assert sleeper.poll() is None
        assert f"running in process {sleeper.pid}" in lamina("dream", "log").err
        ran = lamina("dream", "kill")
        _, err = sleeper.communicate(timeout=60)
    assert ran.code == 0
    assert ran.out == "The dream was ended. Memory is as it was.\n"
    assert (sleeper.returncode, "Memory is as it was" in err) == (1, True)
    assert (memory_of(world) / "deploy_b.md").exists()
    assert dream.last_dream(memory_of(world) / dream.LOCK) == 0


@pytest.mark.spec("L6.5")
@pytest.mark.usefixtures("doubles")
def test_on_a_terminal_the_progress_is_live() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "lamina.cli.main", "dream", "--now"]
    done = subprocess.run(command, stderr=theirs, stdout=subprocess.PIPE, check=True)
    os.close(theirs)
    shown = ""
    with suppress(OSError):  # Linux says so at the end; what was written comes in pieces until then
        while True:
            shown += os.read(ours, 100_000).decode()
    os.close(ours)
    assert "starting · orient · Looking at memory" in shown
    assert "updating · prune · Writing" in shown
    assert b"Merged 1 memory into others." in done.stdout


@pytest.mark.spec("L6.7")
def test_the_timer_is_printed_for_systemd_and_cron(lamina: Run, world: Path) -> None:
    ran = lamina("dream", "--install-timer", "--print")
    assert ran.code == 0
    assert "OnCalendar=*-*-* 03:00:00" in ran.out
    assert f'"--project" "{world / "project"}"' in ran.out
    assert ran.out.splitlines()[-1].startswith("0 3 * * * ")
    assert not (world / ".config").exists()


@pytest.mark.spec("L6.7")
def test_any_folder_has_a_timer_of_its_own(lamina: Run, world: Path) -> None:
    odd = world / "100%  of 'it' $HOME"
    odd.mkdir()
    printed = lamina("dream", "--install-timer", "--print", "--project", str(odd), "--json").json
    [service, timer] = printed["units"].values()
    start = next(line for line in service.splitlines() if line.startswith("ExecStart="))
    path = str(odd).replace("%", "%%").replace("$", "$$")
    assert f'"--project" "{path}" ' in start, "two spaces stay two, and systemd fills nothing in"
    for line in (service + timer).splitlines():
        assert "%" not in line.replace("%%", "")
    assert shlex.split(printed["cron"].replace("\\%", "%"))[-3] == str(odd)


@pytest.mark.spec("L6.5")
@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize(
    "line",
    [
        '{"when": "x", "diary": "q"}',
        '{"when": 1e300}',
        '{"diary": -1}',
        "[]",
        "\x00",
        '{"started": {}}',
    ],
)
def test_a_damaged_record_of_dreams_stops_none(lamina: Run, world: Path, line: str) -> None:
    folder = memory_of(world).with_name("memory.lamina") / "dream"
    folder.mkdir()
    (folder / "log.jsonl").write_text(f"{line}\n")
    (folder / "status.json").write_text('{"status": "running", "started": "never"}')
    (folder / "diary.json").write_text("[3]")
    (folder / "undone.json").write_text('{"deploy_a.md": 3}')
    assert lamina("dream", "log").code == 0
    assert lamina("dream", "kill").code == 2
    assert lamina("dream", "--now").out.startswith("Merged 1 memory into others.")
    assert lamina("dream", "log", "--json").json[0]["status"] == "completed"


@pytest.mark.spec("L6.7")
def test_without_systemd_the_cron_line_is_named(
    lamina: Run, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(world))
    ran = lamina("dream", "--install-timer")
    assert ran.code == 1
    assert "0 3 * * * " in ran.err


@pytest.mark.spec("L6.7")
def test_with_systemd_the_timer_is_put_in_place_and_started(
    lamina: Run, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = world / "bin" / "systemctl"  # this machine may have none; what is called is recorded
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$@" >> {world}/called\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    assert lamina("dream", "--install-timer").code == 0
    units = sorted(path.name for path in (world / ".config/systemd/user").iterdir())
    assert [unit.rpartition(".")[2] for unit in units] == ["service", "timer"]
    assert f"--user enable --now {units[1]}" in (world / "called").read_text()
    ran = lamina("dream", "--uninstall-timer")
    assert (ran.code, ran.out) == (0, f"{units[1]} is removed: no more nightly dreams.\n")
    assert [*(world / ".config/systemd/user").iterdir()] == []
    called = (world / "called").read_text().splitlines()
    assert called[-2:] == [f"--user disable --now {units[1]}", "--user daemon-reload"]
    assert lamina("dream", "--install-timer", "--json").json["timer"] == units[1]
    assert lamina("dream", "--uninstall-timer", "--json").json["status"] == "removed"
    again = lamina("dream", "--uninstall-timer")
    assert again.code == 2
    assert "crontab -e" in again.err


@pytest.mark.spec("L6.7")
def test_units_that_systemd_refuses_to_stop_stay_and_are_named(
    lamina: Run, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = world / "bin" / "systemctl"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\ncase "$2" in disable) echo "Unit is masked" >&2; exit 1;; esac\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    assert lamina("dream", "--install-timer").code == 0
    ran = lamina("dream", "--uninstall-timer")
    assert (ran.code, ran.err) == (1, "lamina: systemctl disable failed: Unit is masked.\n")
    assert len([*(world / ".config/systemd/user").iterdir()]) == 2


@pytest.mark.spec("L5.8", "L5.2")
def test_extract_takes_what_is_new_once(lamina: Run, world: Path) -> None:
    with Session.open(world / "project", home=world / "home") as session:
        session.ask(TYPED)
    dry = lamina("extract", "--dry-run", "--json").json
    assert [one["decision"] for one in dry["proposals"]] == ["accept"]
    assert "accept" in lamina("extract", "--dry-run").out
    assert not [*memory_of(world).glob("feedback*")]
    ran = lamina("extract")
    assert ran.out.startswith("Memory updated: feedback_")
    assert len([*memory_of(world).glob("feedback*")]) == 1
    assert lamina("extract").out == "Nothing to remember: the user said nothing new.\n"
    assert lamina("extract", "zzz").code == 2


def test_with_memory_off_both_say_so(lamina: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_DISABLE_MEMORY", "1")
    for command in ("dream", "extract"):
        ran = lamina(command)
        assert ran.code == 2
        assert "Memory is off" in ran.err


@pytest.mark.spec("L6.5", "I2")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--now", "undo"], "can't be used with `undo`"),
        (["--dry-run", "log"], "can't be used with `log`"),
        (["log", "-n", "-3"], "is not a whole number, 0 or more"),
        (["--install-timer", "--uninstall-timer"], "can't be used with"),
        (["--uninstall-timer", "--now"], "--uninstall-timer can't be used with --now"),
        (["--install-timer", "kill"], "--install-timer can't be used with `kill`"),
        (["--uninstall-timer", "--print"], "can't be used with --print"),
        (["--print"], "--print needs --install-timer"),
    ],
)
def test_words_that_do_not_go_together_are_wrong_use(
    lamina: Run, words: list[str], sentence: str
) -> None:
    ran = lamina("dream", *words)
    assert ran.code == 2
    assert sentence in ran.err


# ---- in a conversation


def twice(session: Session) -> Path:
    store = session.state.deps.memory
    assert store is not None
    for name in ("a", "b"):
        store.remember(a_memory(f"deploy_{name}.md", description=FACT, body=FACT))
    return store.directory


@pytest.mark.spec("L6.4", "L6.7", "I2")
def test_a_conversation_dreams_when_it_is_told_to(
    world: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place, heard = Place(world), list[Event]()

    async def story() -> None:
        async with place.open("none", on_event=heard.append) as session:
            directory = twice(session)
            await run_command(session, "/dream --dry-run")
            assert (directory / "deploy_b.md").exists()
            await run_command(session, "/dream")
            assert not (directory / "deploy_b.md").exists()
            await run_command(session, "/dream")
            with pytest.raises(UsageError, match="takes no argument"):
                await run_command(session, "/dream of electric sheep")
            lock = dream.acquire(directory / dream.LOCK, now=place.clock.now())
            with pytest.raises(LaminaError, match="dreams already"):
                await run_command(session, "/dream")
            lock.release()
        async with place.open("none", config={"memory.enabled": False}) as session:
            with pytest.raises(UsageError, match="Memory is off"):
                await run_command(session, "/dream")

    anyio.run(story)
    told = capfd.readouterr().out
    assert "  --- a/deploy_b.md" in told
    assert "Would merge 1 memory into others. Nothing was changed." in told
    assert told.endswith("  Nothing to do: memory is in order.\n")
    lines = [line.text for event in heard if (line := line_of(event))]
    assert "  dream: Merged 1 memory into others. `lamina dream diff` shows it." in lines


@pytest.mark.spec("L6.5")
def test_ctrl_c_ends_the_dream_and_not_the_conversation(
    world: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedModel([Step({"hang": True}, purpose="dream"), Step("Still here.")])

    async def story() -> None:
        async with Place(world).open(model) as session:
            directory = twice(session)

            async def press() -> None:
                with anyio.fail_after(60):
                    while not model.requests:
                        await anyio.lowlevel.checkpoint()
                signal.raise_signal(signal.SIGINT)

            async with anyio.create_task_group() as group:
                group.start_soon(press)
                await run_command(session, "/dream")
            assert (directory / "deploy_b.md").exists()
            assert (await session.ask("Are you there?")).text == "Still here."

    anyio.run(story)
    assert "The dream was ended. Memory is as it was." in capfd.readouterr().err


@pytest.mark.spec("L6.4")
@pytest.mark.usefixtures("doubles")
def test_a_dream_whose_history_alone_fails_is_done_and_the_history_follows(
    lamina: Run, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = History.commit

    def fails(self: History, changes: Any, note: Any) -> str:
        if note.writer == "dream":
            raise MemoryStoreError("Can't use the history: Input/output error.")
        return real(self, changes, note)

    with monkeypatch.context() as patched:
        patched.setattr(History, "commit", fails)
        ran = lamina("dream", "--now")
    assert (ran.code, len([*memory_of(world).glob("deploy_*.md")])) == (0, 1), ran
    assert "the history follows later" in ran.err
    assert any(one["writer"] == "dream" for one in lamina("memory", "log", "--json").json)


@pytest.mark.spec("L6.5")
def test_a_dream_is_watched_and_ended_where_the_user_sits(
    world: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def reads(_request: Any) -> dict[str, Any]:
        [copy] = world.rglob("dream/copy-*")
        call = {"name": "Read", "input": {"file_path": str(copy / "deploy_a.md")}}
        return {"text": "I look at deployments first.", "tool_use": [call]}

    model = ScriptedModel([Step(reads, purpose="dream"), Step({"hang": True}, purpose="dream")])

    async def story() -> None:
        async with Place(world).open(model) as session:
            directory = twice(session)
            await run_command(session, "/dream status")

            async def look() -> None:
                with anyio.fail_after(60):
                    while len(model.requests) < 2:
                        await anyio.lowlevel.checkpoint()
                await run_command(session, "/dream status")
                await run_command(session, "/dream stop")

            async with anyio.create_task_group() as group:
                group.start_soon(look)
                with pytest.raises(LaminaError, match="Memory is as it was"):
                    await run_command(session, "/dream")
            assert (directory / "deploy_b.md").exists()
            with pytest.raises(UsageError, match="No dream is running"):
                await run_command(session, "/dream stop")

    anyio.run(story)
    told = capfd.readouterr().out
    assert told.startswith("  No dream is running.\n")
    assert "I look at deployments first." in told
    assert "1 tool call, 0 files touched" in told
    assert "Read deploy_a.md" in told


def test_the_status_of_a_dream_is_a_command(lamina: Run) -> None:
    lamina("memory", "add", FACT)
    assert lamina("dream", "status").out == "No dream is running.\n"
    assert lamina("dream", "status", "--json").json["running"] is False


@pytest.mark.spec("L6.6")
def test_a_dream_that_changes_nothing_still_says_what_is_doubtful(lamina: Run) -> None:
    for name, port in (("a", 3000), ("b", 5173)):
        said = f"The dev server of the warehouse listens on port {port}."
        lamina("memory", "add", said, "--file", f"project_{name}.md", "--type", "project")
    lamina("dream", "--now")
    again = lamina("dream", "--now", "--json").json
    assert (again["status"], again["text"]) == ("nothing", "Nothing was changed.")
    assert "3000 / 5173" in again["doubtful"][0]
