"""Teammates as processes of their own: started, written to, killed, started again and stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.agents.test_agents import ON
from tests.agents.test_roads import until
from tests.layers.talks import NO_NOTES, filler, summary
from tests.sessions import Place, run

from lamina.agents.mailboxes import Maildirs, new_id
from lamina.agents.roads import mail_of, posts_of
from lamina.agents.roster import read_cards
from lamina.agents.runner import Order
from lamina.cli.chat_commands import run_command
from lamina.cli.main import main
from lamina.config import load
from lamina.errors import UsageError
from lamina.models.scripted import ScriptedModel, Step
from lamina.ports import Presence

Start = Callable[..., "subprocess.Popen[str]"]


class Home(Place):
    """A place whose agents are scripted, by name."""

    @property
    def words(self) -> list[str]:
        return ["--home", str(self.home), "--project", str(self.project)]

    def script(self, reply: Any) -> Path:
        """Of a list each is said once, and the last from then on."""
        *first, last = reply if isinstance(reply, list) else [reply]
        steps = [{"reply": one, "purpose": "agent"} for one in first]
        path = self.project.parent / f"{new_id()}.json"
        path.write_text(json.dumps({"steps": steps, "otherwise": {"agent": last}}))
        return path

    def present(self) -> dict[str, Presence]:
        found = Maildirs(mail_of(load(self.project, home=self.home))).present()
        return {one.name: one for one in found}


@pytest.fixture
def start() -> Iterator[Start]:
    """`lamina agents start`, ready; whatever is left at the end is ended."""
    begun: list[subprocess.Popen[str]] = []

    def go(home: Home, name: str, reply: Any, *more: str) -> subprocess.Popen[str]:
        words = ["agents", "start", name, "--model", f"scripted:{home.script(reply)}"]
        process = subprocess.Popen(
            [sys.executable, "-m", "lamina.cli.main", *words, *more, *home.words],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "LAMINA_AGENTS_BRIDGE": home.config.get("agents.bridge", "")},
        )
        begun.append(process)
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "is listening at" in line or process.wait() != 0, line
        return process

    yield go
    for process in begun:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.spec("L7.2", "L7.3")
def test_a_teammate_is_started_listed_written_to_and_stopped(
    home: Home, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start(home, "anna", "All is well.")
    assert main(["agents", "send", "anna", "Look", "at", "main.", *home.words]) == 0

    async def done() -> None:
        await until(lambda: home.present()["anna"].status == "done")

    run(done)
    capsys.readouterr()
    assert main(["agents", "list", *home.words]) == 0
    shown = capsys.readouterr().out
    assert shown.split()[:7] == ["name", "type", "state", "tokens", "cost", "age", "doing"]
    assert "anna  general  done" in shown
    assert main(["agents", "list", "--json", *home.words]) == 0
    [one] = json.loads(capsys.readouterr().out)
    assert (one["name"], one["alive"], one["tokens"] > 0) == ("anna", True, True)
    assert main(["agents", "show", "anna", *home.words]) == 0
    shown = capsys.readouterr().out
    assert "teammate: <message id=" in shown
    assert "Look at main." in shown
    [ledger] = home.home.rglob("agent-*.jsonl")
    assert main(["replay", str(ledger), "--json", *home.words]) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 1
    assert main(["agents", "stop", "anna", *home.words]) == 0
    assert process.wait(60) == 0
    assert not home.present()["anna"].alive
    assert main(["agents", "list", *home.words]) == 0
    assert "anna  general  not running" in capsys.readouterr().out
    assert main(["agents", "stop", "anna", *home.words]) == 2  # it would end at its next start
    assert "anna is not running" in capsys.readouterr().err


@pytest.mark.spec("L7.2")
def test_a_name_that_is_taken_and_a_type_that_is_not_there_are_named(
    home: Home, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    start(home, "anna", "ok")
    assert main(["agents", "start", "anna", *home.words]) == 2
    assert "anna is already running" in capsys.readouterr().err
    assert main(["agents", "start", "ben", "--type", "none", *home.words]) == 2
    assert "There is no agent type 'none'" in capsys.readouterr().err
    for bad in ("a b", "main", "user", ""):
        assert main(["agents", "start", bad, *home.words]) == 2
        assert f"{bad!r} is not a valid name" in capsys.readouterr().err
    assert main(["agents", "send", "anna", " ", *home.words]) == 2
    assert "nothing to send" in capsys.readouterr().err
    assert main(["agents", "send", "anna", "\udcff is no text", *home.words]) == 0
    assert "Sent." in capsys.readouterr().err
    assert main(["agents", "send", "carl", "hello", *home.words]) == 2
    assert "No other process has an agent 'carl'. Running: anna." in capsys.readouterr().err


@pytest.mark.spec("L7.2", "L7.4")
def test_a_task_survives_the_kill_of_the_one_who_does_it_between_two_homes(
    tmp_path: Path, start: Start, postgresql: str
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    mine, other = Home(tmp_path / "a"), Home(tmp_path / "b")
    name = "anna-" + new_id()[-12:]
    mine.config = {**ON, "agents.bridge": postgresql}
    other.config = {"agents.bridge": postgresql}
    first = start(other, name, {"hang": True})
    config = load(mine.project, home=mine.home).with_(**{"agents.bridge": postgresql})
    *_, bridge = posts_of(config, "user").values()

    async def story() -> None:
        async with mine.open([]) as session:
            there = await until(lambda: [p.name for p in bridge.present() if name in p.name])
            order = Order("Find the port.", name="p", remote=f"bridge:{there[0]}", background=True)
            agent = await session.agents.start(order)

            def running() -> bool:
                return any(p.status == "running" for p in bridge.present() if name in p.name)

            await until(running)
            first.send_signal(signal.SIGKILL)
            first.wait()
            # The database hears of it when the system has closed the dead one's connection.
            await until(lambda: not next(p.alive for p in bridge.present() if name in p.name))
            start(other, name, "It is 8080.")
            await until(lambda: agent.card.status == "done")
            await until(lambda: session.state.queue)
            assert "It is 8080." in session.state.queue[0][0]
            assert len(session.state.queue) == 1

    run(story)
    bridge.close()


@pytest.mark.spec("L7.2", "L7.4")
def test_a_second_task_survives_the_kill_too(home: Home, start: Start) -> None:
    first = start(home, "anna", ["It is red.", {"hang": True}])

    async def story() -> None:
        async with home.open([], config=ON) as session:
            done = await session.agents.start(Order("Find the colour.", remote="anna"))
            assert done.result == "It is red."
            order = Order("Find the port.", remote="anna", background=True)
            agent = await session.agents.start(order)

            def doing() -> tuple[str, str]:
                one = home.present()["anna"]
                return one.status, one.line

            await until(lambda: doing() == ("running", "Find the port."))
            first.send_signal(signal.SIGKILL)
            first.wait()
            start(home, "anna", "It is 8080.")
            await until(lambda: agent.card.status == "done")
            assert agent.result == "It is 8080."  # not what it said last before

    run(story)


@pytest.mark.spec("L7.2")
def test_a_signal_ends_a_teammate_and_what_it_began_goes_on_when_it_is_started_again(
    home: Home, start: Start
) -> None:
    first = start(home, "anna", {"hang": True})

    async def story() -> None:
        async with home.open([], config=ON) as session:
            agent = await session.agents.start(Order("port?", remote="anna", background=True))
            await until(lambda: home.present()["anna"].status == "running")
            first.send_signal(signal.SIGTERM)
            assert await anyio.to_thread.run_sync(first.wait, 60) == 0
            start(home, "anna", "It is 8080.")
            await until(lambda: agent.card.status == "done")
            assert agent.result == "It is 8080."

    run(story)


@pytest.mark.spec("L7.3")
def test_an_agent_of_a_session_that_is_open_elsewhere_is_listed_written_to_and_stopped(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedModel([], otherwise={"agent": {"hang": True}})

    async def command(*words: str) -> str:
        assert await anyio.to_thread.run_sync(main, [*words, *home.words]) == 0
        return capsys.readouterr().out

    async def story() -> None:
        async with home.open(model, config=ON) as session:
            one = await session.agents.start(Order("look", name="ben", background=True))
            await until(lambda: model.requests)
            assert "ben" in await command("agents", "list")
            listed = json.loads(await command("agents", "list", "--json"))
            assert [(a["name"], a["status"]) for a in listed[:1]] == [("ben", "running")]
            assert "ben  running  look" in await command("agents", "tree")
            await command("agents", "send", "ben", "Look at ports too.")
            assert one.state is not None
            await until(lambda: one.state and one.state.queue)
            assert one.state.queue[0][1] == "teammate"
            await command("agents", "stop", "ben")
            await until(lambda: not one.running)
            assert one.card.status == "cancelled"

    run(story)


@pytest.mark.spec("L7.3")
def test_a_chat_lists_and_writes_to_those_of_other_processes(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        async with (
            home.open([], config=ON) as mine,
            home.open([], config={**ON, "agents.name": "anna"}) as other,
        ):
            await run_command(mine, "/agents")
            assert "anna  session  open" in capsys.readouterr().out
            await run_command(mine, "/agents send anna Look at ports.")
            await until(lambda: other.state.queue)
            [(words, origin)] = other.state.queue
            assert "Look at ports." in words
            assert origin == "teammate"
            with pytest.raises(UsageError, match="'ben'"):
                await run_command(mine, "/agents send ben hello")

    run(story)


PARENT = """
import sys, anyio, lamina
from lamina.agents.runner import Order
from lamina.errors import UsageError
from lamina.models.scripted import ScriptedModel, Step

async def main():
    project, home, mark = sys.argv[1:]
    call = {"name": "Bash", "input": {"command": f"setsid sh -c 'sleep 1000 # {mark}' & sleep 999 # {mark}"}}
    model = ScriptedModel([Step({"tool_use": [call]}, purpose="agent") for _ in range(2)])
    on = {"agents.enabled": True, "permissions.allow": ["Bash"], "background.drain_seconds": 0}
    async with lamina.Session.open(project, model, home=home, config=on) as session:
        for _ in range(2):
            await session.agents.start(Order("look", background=True))
        print("started", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read)

anyio.run(main)
"""


def left(mark: str) -> list[str]:
    """Processes whose command line has the mark."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"python" not in words[0] and mark.encode() in b" ".join(words):
            found.append(path.parent.name)
    return found


@pytest.mark.spec("L7.2", "F11")
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by their mark")
@pytest.mark.parametrize("how", ["close", "kill"])
def test_no_process_of_an_agent_outlives_a_parent_that_closes_or_is_killed(
    home: Home, how: str
) -> None:
    mark = f"mark-{new_id()}"
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(home.project), str(home.home), mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"

    async def story() -> None:
        await until(lambda: len(left(mark)) >= 4)
        if how == "kill":
            process.kill()
        await anyio.to_thread.run_sync(process.communicate, "")
        await until(lambda: not left(mark))

    run(story)


@pytest.mark.spec("L7.2")
def test_a_parent_that_compacts_keeps_its_agents(home: Home) -> None:
    going = anyio.Event()

    async def gate(payload: Any) -> None:
        await going.wait()

    model = ScriptedModel(
        [
            *(f"Parser {n}. " + filler(n, 4_000) for n in range(3)),
            Step(summary(), purpose="summary"),
            "Heard.",
            Step({"tool_use": [{"name": "Read", "input": {"file_path": "a"}}]}, purpose="agent"),
            Step("It is 8080.", purpose="agent"),
        ]
    )

    async def story() -> None:
        config = {**NO_NOTES, **ON}
        async with home.open(model, config=config, hooks={"PreToolUse": gate}) as session:
            one = await session.agents.start(Order("port?", name="anna", background=True))
            for n in range(3):
                await session.ask(f"question {n}: measure the last port")
            await session.compact()
            going.set()
            await until(lambda: not one.running)
            await session.ask("and?")
            assert "It is 8080." in str(session.view().messages)
            assert [card.status for card in read_cards(session.folder)] == ["done"]

    run(story)
