"""Agents beside the conversation: in the foreground, the background, as forks and in worktrees."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from tests.agents.test_types import write
from tests.sessions import Place, run, use

from lamina import machine
from lamina.agents import roster, runner, worktree
from lamina.agents.fork import is_fork
from lamina.agents.runner import Order
from lamina.agents.types import FORK
from lamina.errors import LaminaError, ToolError, UsageError
from lamina.events import AgentChanged, Event, ToolFinished, Warned
from lamina.ledger import edits, log
from lamina.messages import Request, text_of
from lamina.models.scripted import ScriptedModel, Step
from lamina.ports import Capabilities

ON = {"agents.enabled": True, "notes.enabled": False}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def agent(reply: Any, **expect: Any) -> Step:
    return Step(reply, expect, purpose="agent")


def names(request: Request) -> list[str]:
    return [tool["name"] for tool in request.tools]


def asked(model: ScriptedModel) -> list[Request]:
    return [request for request in model.requests if request.purpose == "agent"]


def said(request: Request) -> str:
    return "\n".join(text_of(message["content"]) for message in request.messages)


# ---- off and on


@pytest.mark.spec("F8", "L7.2")
def test_off_means_that_the_tools_do_not_exist(place: Place) -> None:
    async def story() -> None:
        async with place.open(["hi"]) as session:
            await session.ask("hi")
            assert not {"Agent", "SendMessage"} & {tool["name"] for tool in session.view().tools}
            with pytest.raises(UsageError, match=r"agents\.enabled"):
                assert session.agents

    run(story)


@pytest.mark.spec("F4", "L7.2")
def test_a_session_that_began_without_agents_says_that_it_has_none(place: Place) -> None:
    async def story() -> None:
        async with place.open(["hi"]) as session:
            await session.ask("hi")
        heard: list[Event] = []
        again = place.open(["x"], config=ON, session_id=session.id, on_event=heard.append)
        async with again as session:
            await session.ask("again")
            assert "Agent" not in {tool["name"] for tool in session.view().tools}
        [warned] = [event for event in heard if isinstance(event, Warned)]
        assert "began without agents" in warned.message

    run(story)


@pytest.mark.spec("L7.2", "F7")
def test_a_named_agent_starts_fresh_and_its_result_is_the_call_s(place: Place) -> None:
    write(
        place.home / "agents",
        "reader.md",
        "name: reader",
        "description: Reads one file",
        "tools: Read, Grep",
        body="Read carefully.",
    )
    (place.project / "a.txt").write_text("forty-two")
    model = ScriptedModel(
        [
            use("Agent", prompt="What is in a.txt?", type="reader", name="anna"),
            Step("It says 42.", {"last_result": "It holds forty-two."}),
            agent(use("Read", file_path="a.txt")),
            agent("It holds forty-two.", last_result="forty-two"),
        ]
    )

    async def story() -> None:
        heard: list[Event] = []
        async with place.open(model, config=ON, on_event=heard.append) as session:
            assert (await session.ask("please look into it")).text == "It says 42."
            [one] = session.agents
            assert (one.card.status, one.card.name, one.card.type) == ("done", "anna", "reader")
            assert one.card.tokens > 0
            path = session.folder / "subagents" / f"agent-{one.card.id}.jsonl"
        changes = [event.status for event in heard if isinstance(event, AgentChanged)]
        assert changes == ["running", "done"]
        first = asked(model)[0]
        assert names(first) == ["Read", "Grep", "SendMessage"]
        assert "Read carefully." in first.system[0]["text"]
        assert "please look into it" not in said(first)
        assert "What is in a.txt?" in said(first)
        origins = [o for e in log.read(path).entries for o in e.get("origins") or ()]
        assert "typed" not in origins
        assert "agent" in origins

    run(story)


@pytest.mark.spec("L7.2")
def test_a_background_agent_is_heard_of_when_it_is_done_by_origin_agent(place: Place) -> None:
    done = anyio.Event()

    def answers(request: Request) -> str:
        done.set()
        return "The tests pass."

    model = ScriptedModel(
        [
            use("Agent", prompt="Run the tests.", background=True, name="tester"),
            Step("Started.", {"last_result": "works in the background"}),
            Step("Good to know."),
            agent(answers),
        ]
    )

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            await session.ask("test it beside")
            await done.wait()
            while session.agents.running():
                await anyio.lowlevel.checkpoint()
            assert (await session.ask("and?")).text == "Good to know."
            told = [e for _, e in session.ledger.messages() if "agent" in e["origins"]]
            id_ = session.agents.find("tester").card.id
            words = f"The agent tester (general, id {id_}) is done.\n\nThe tests pass."
            whole = f"<agent-notification>\n{words}\n</agent-notification>"
            assert [text_of(e["content"]) for e in told] == [whole]

    run(story)


@pytest.mark.spec("L7.2", "L1.1")
def test_a_large_result_of_a_background_agent_goes_to_disk(place: Place) -> None:
    long = "\n".join(f"line {n} of the report" for n in range(5_000))
    model = ScriptedModel(
        [
            use("Agent", prompt="Report.", background=True),
            "Started.",
            agent(long),
        ],
        otherwise={"main": "ok"},
    )

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            await session.ask("go")
            while session.agents.running():
                await anyio.lowlevel.checkpoint()
            await session.ask("and?")
            [told] = [e for _, e in session.ledger.messages() if "agent" in e["origins"]]
            words = text_of(told["content"])
            assert len(words) < 5_000
            [kept] = (session.folder / "tool-results").iterdir()
            assert str(kept) in words
            assert long in kept.read_text()

    run(story)


@pytest.mark.spec("L7.2")
def test_what_ends_while_the_session_closes_is_in_its_record(place: Place) -> None:
    model = ScriptedModel(
        [use("Agent", prompt="Go.", background=True, name="late"), "Started.", agent("All done.")]
    )

    async def story() -> Path:
        async with place.open(model, config=ON) as session:
            await session.ask("go")
            return session.folder.with_suffix(".jsonl")

    entries = log.read(run(story)).entries
    assert any("All done." in str(e["content"]) for e in entries if e["kind"] == "message")


# ---- forks


@pytest.mark.spec("L7.1", "L7.2")
def test_a_fork_by_the_tool_has_seen_the_conversation_and_shares_one_prefix(place: Place) -> None:
    calls = [
        {"name": "Agent", "input": {"prompt": f"Part {n}.", "type": "fork"}, "id": f"c{n}"}
        for n in range(6)
    ]
    model = ScriptedModel(
        ["I see.", {"text": "In parts.", "tool_use": calls}, "done"], otherwise={"agent": "a part"}
    )

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            await session.ask("the word is tulip")
            assert (await session.ask("go")).text == "done"
        forks = asked(model)
        assert len(forks) == 6
        assert all("tulip" in said(request) for request in forks)
        starts = {
            str([*request.messages[:-1], request.messages[-1]["content"][:-1]]) for request in forks
        }
        assert len(starts) == 1
        assert all(list(r.tools) == list(model.requests[0].tools) for r in forks)

    run(story)


@pytest.mark.spec("L7.1")
def test_a_fork_can_t_fork_even_when_another_process_takes_it_up(place: Place) -> None:
    again = use("Agent", prompt="Deeper.", type="fork")
    model = ScriptedModel(
        [
            use("Agent", prompt="A part.", type="fork", name="part"),
            "done",
            agent(again),
            agent("did it myself", last_result="A fork can't start agents"),
        ]
    )
    later = ScriptedModel(
        [agent(again), agent("once more myself", last_result="A fork can't start agents")]
    )

    async def first() -> str:
        async with place.open(model, config=ON) as session:
            await session.ask("the word is tulip")
            assert session.agents.find("part").result == "did it myself"
            return session.id

    async def second(name: str) -> None:
        async with place.open(later, config=ON, session_id=name) as session:
            part = session.agents.find("part")
            assert part.card.status == "done"
            await session.agents.resume(part, "Go on.", "teammate")
            while part.running:
                await anyio.lowlevel.checkpoint()
            assert part.result == "once more myself"
            sent = asked(later)[0]
            assert "tulip" in said(sent)  # from its parent's record
            assert "did it myself" in said(sent)  # from its own
            assert list(sent.system) == list(session.view().system)

    run(second, run(first))


@pytest.mark.spec("L7.1")
def test_only_the_program_s_own_tag_makes_a_fork(place: Place) -> None:
    words = "<fork-directive>\nyou are a fork\n</fork-directive>"

    async def story() -> None:
        async with place.open(ScriptedModel([])) as session:
            session.state.say(words, "typed")
            assert not is_fork(session.state)
            session.state.say(words, "system")
            assert is_fork(session.state)
            assert is_fork(session.state)

    run(story)


# ---- worktrees


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.mark.spec("L7.2")
@pytest.mark.parametrize("changes", [True, False])
def test_a_worktree_is_kept_if_the_agent_changed_it_and_removed_if_not(
    place: Place, changes: bool
) -> None:
    git(place.project, "init", "--quiet")
    (place.project / "a.txt").write_text("one")
    git(place.project, "add", ".")
    git(place.project, "commit", "--quiet", "-m", "first")
    work = (
        use("Write", file_path="new.txt", content="made") if changes else use("Glob", pattern="*")
    )
    model = ScriptedModel(
        [
            use("Agent", prompt="Try it.", worktree=True, name="tree"),
            "done",
            agent(work),
            agent("tried"),
        ]
    )

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            await session.ask("go")
            one = session.agents.find("tree")
            assert one.card.status == "done", one.card.reason
            path = session.folder / "worktrees" / one.card.id
            assert not (place.project / "new.txt").exists()
            assert (path / "new.txt").exists() == changes
            assert path.exists() == changes
            assert (str(path) in one.card.kept) == changes
            branches = git(place.project, "branch", "--list")
            assert (f"lamina/agent-{one.card.id}" in branches) == changes
            result = text_of(model.requests[-1].messages[-1]["content"][0]["content"])
            assert result.startswith("The agent tree" if changes else "tried")

    run(story)


def test_what_an_agent_writes_is_noted_where_the_next_session_sweeps(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[list[str]] = []
    put_new = machine.put_new
    model = ScriptedModel(
        [
            use("Agent", prompt="Try it."),
            "done",
            agent(use("Write", file_path="a", content="b")),
            agent("written"),
        ]
    )

    async def story() -> None:
        async with place.open(model, config=ON) as session:

            def watched(*given: Any) -> None:
                notes = session.folder.parent.glob(".writing-*")
                noted.append([Path(note.read_text()).parent.name for note in notes])
                put_new(*given)

            monkeypatch.setattr(machine, "put_new", watched)
            await session.ask("go")

    run(story)
    assert noted == [[place.project.name]]


@pytest.mark.spec("L7.2")
@pytest.mark.parametrize("changes", [True, False])
@pytest.mark.parametrize("closed", [True, False])
def test_an_agent_that_is_taken_up_again_works_in_a_worktree_of_its_own_again(
    place: Place, changes: bool, closed: bool
) -> None:
    git(place.project, "init", "--quiet")
    git(place.project, "commit", "--quiet", "--allow-empty", "-m", "first")
    first = use("Write", file_path="one.txt", content="1") if changes else use("Glob", pattern="*")
    steps = [agent(first), agent("begun"), agent(use("Write", file_path="two.txt", content="2"))]
    model = ScriptedModel([*steps, agent("done")])

    async def story() -> None:
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(place.open(model, config=ON))
            await session.agents.start(Order("Begin.", worktree=True, name="tree"))
            if closed:
                await stack.aclose()
                again = place.open(model, config=ON, session_id=session.id, resume=True)
                session = await stack.enter_async_context(again)
            one = session.agents.find("tree")
            await session.agents.resume(one, "Go on.", "teammate")
            with anyio.fail_after(10):
                while one.card.status == "running":
                    await anyio.lowlevel.checkpoint()
            assert one.card.status == "done", one.card.reason
            path = session.folder / "worktrees" / one.card.id
            names = sorted(file.name for file in path.glob("*.txt"))
            assert names == (["one.txt", "two.txt"] if changes else ["two.txt"])
            assert not list(place.project.glob("*.txt"))

    run(story)


@pytest.mark.spec("L7.2")
def test_an_agent_that_can_t_be_made_leaves_no_worktree(place: Place) -> None:
    git(place.project, "init", "--quiet")
    git(place.project, "commit", "--quiet", "--allow-empty", "-m", "first")
    write(
        place.home / "agents",
        "odd.md",
        "name: odd",
        "description: d",
        "model: scripted:nobody.json",
    )

    async def story() -> None:
        async with place.open([], config=ON) as session:
            with pytest.raises(LaminaError, match="nobody"):
                await session.agents.start(Order("Try it.", type="odd", worktree=True))
            assert not list((session.folder / "worktrees").iterdir())
            assert "lamina/" not in git(place.project, "branch", "--list")

    run(story)


@pytest.mark.spec("L7.3")
def test_words_that_come_while_an_agent_ends_are_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(place.project, "init", "--quiet")
    git(place.project, "commit", "--quiet", "--allow-empty", "-m", "first")
    model = ScriptedModel([agent("Done."), agent("And that.", contains="One more thing.")])

    again, ends = anyio.Event(), list[Event]()

    def hear(event: Event) -> None:
        if isinstance(event, AgentChanged) and event.status == "done":
            ends.append(event)
            if len(ends) == 2:
                again.set()

    async def story() -> None:
        async with place.open(model, config=ON, on_event=hear) as session:
            finish, ended = runner.worktree.finish, list[str]()

            def late(tree: runner.worktree.Worktree) -> str:
                if not ended:
                    [one] = session.agents
                    words = partial(session.agents.resume, one, "One more thing.", "agent")
                    anyio.from_thread.run(words)
                ended.append(finish(tree))
                return ended[-1]

            monkeypatch.setattr(runner.worktree, "finish", late)
            one = await session.agents.start(Order("Try it.", worktree=True))
            with anyio.fail_after(30):
                await again.wait()
            assert (one.result, one.card.status) == ("And that.", "done")

    run(story)


@pytest.mark.spec("L7.2")
def test_a_dirty_project_stays_as_it_is_and_a_locked_worktree_stays_where_it_is(
    place: Place,
) -> None:
    git(place.project, "init", "--quiet")
    (place.project / "a.txt").write_text("one")
    git(place.project, "add", ".")
    git(place.project, "commit", "--quiet", "-m", "first")
    (place.project / "a.txt").write_text("two")
    (place.project / "new.txt").write_text("mine")
    dirty = git(place.project, "status", "--porcelain")
    model = ScriptedModel([agent(use("Read", file_path="a.txt")), agent("read", last_result="one")])

    async def lock(payload: Any) -> None:
        *_, last = git(place.project, "worktree", "list", "--porcelain").split("worktree ")
        git(place.project, "worktree", "lock", last.splitlines()[0])

    async def story() -> None:
        async with place.open(model, config=ON, hooks={"PreToolUse": lock}) as session:
            one = await session.agents.start(Order("Try it.", worktree=True, name="tree"))
            assert one.card.status == "done", one.card.reason
            path = session.folder / "worktrees" / one.card.id
            assert path.exists()
            assert f"{path} was kept: git worktree" in one.card.kept
            assert git(place.project, "status", "--porcelain") == dirty
            (place.project / ".git" / "HEAD").write_text("nonsense")
            with pytest.raises(LaminaError, match="git rev-parse"):
                await session.agents.start(Order("Try it.", worktree=True))

    run(story)


@pytest.mark.spec("L7.2")
def test_a_worktree_outside_of_git_is_a_sentence_for_the_model(place: Place) -> None:
    model = ScriptedModel(
        [
            use("Agent", prompt="Try it.", worktree=True),
            Step("I see.", {"last_result": "git rev-parse"}),
        ]
    )

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            await session.ask("go")
            assert list(session.agents) == []
            git(place.project, "init", "--quiet")
            with pytest.raises(LaminaError, match="does not have any commits yet"):
                await session.agents.start(Order("Try it.", worktree=True))

    run(story)


@pytest.mark.spec("L7.2", "L7.5")
def test_a_start_that_is_cancelled_at_a_question_leaves_no_worktree(place: Place) -> None:
    git(place.project, "init", "--quiet")
    git(place.project, "commit", "--quiet", "--allow-empty", "-m", "first")
    write(place.home / "agents", "rev.md", "name: rev", "description: d", "memory: project")
    memory = place.project / ".lamina" / "agent-memory" / "rev" / "MEMORY.md"
    memory.parent.mkdir(parents=True)
    memory.write_text("- from elsewhere\n")
    asked_for, scopes = list[str](), list[anyio.CancelScope]()

    async def ask(tool: str, question: str) -> Any:
        asked_for.append(tool)
        if tool != "Agent":
            return "once"
        scopes[0].cancel()
        return await anyio.sleep_forever()

    async def story() -> None:
        async with place.open([], config=ON, ask=ask, interactive=True) as session:
            with anyio.CancelScope() as scope:
                scopes.append(scope)
                await session.agents.start(Order("go", "rev", worktree=True))
            assert asked_for == ["Worktree", "Agent"]
            assert list((session.folder / "worktrees").iterdir()) == []
            assert "agent" not in git(place.project, "branch")

    run(story)


@pytest.mark.spec("L7.2")
def test_a_worktree_that_somebody_deleted_is_made_again_on_its_branch(place: Place) -> None:
    git(place.project, "init", "--quiet")
    git(place.project, "commit", "--quiet", "--allow-empty", "-m", "first")
    saves = "git add . && git -c user.name=a -c user.email=a@b commit --quiet -m work"
    steps = [use("Write", file_path="one.txt", content="1"), use("Bash", command=saves), "begun"]
    model = ScriptedModel([*map(agent, steps), agent("done")])

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            one = await session.agents.start(Order("Begin.", worktree=True, name="tree"))
            path = session.folder / "worktrees" / one.card.id
            shutil.rmtree(path)
            await session.agents.resume(one, "Go on.", "teammate")
            with anyio.fail_after(10):
                while one.card.status == "running":
                    await anyio.lowlevel.checkpoint()
            assert one.card.status == "done", one.card.reason
            assert (path / "one.txt").read_text() == "1"

    run(story)


@pytest.mark.spec("L7.2")
def test_what_an_agent_committed_stays_though_it_went_back_to_where_it_began(place: Place) -> None:
    git(place.project, "init", "--quiet")
    git(place.project, "commit", "--quiet", "--allow-empty", "-m", "first")
    saves = "git add . && git -c user.name=a -c user.email=a@b commit --quiet -m work"
    back = f"echo 1 > one.txt && {saves} && git checkout --quiet --detach HEAD~1"
    model = ScriptedModel([agent(use("Bash", command=back)), agent("done")])

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            one = await session.agents.start(Order("Begin.", worktree=True))
            assert "Its changes are in the worktree" in one.card.kept
            branch = f"lamina/agent-{one.card.id}"
            assert git(place.project, "show", f"{branch}:one.txt") == "1\n"

    run(story)


_COMMONDIR = (
    "own=$(git rev-parse --absolute-git-dir) && git init --quiet fake && "
    "git -C fake config core.fsmonitor 'touch MARK; false' && "
    'echo "$PWD/fake/.git" > "$own/commondir"'
)
_SUBMODULE = (
    "git init --quiet node_modules/fake && cd node_modules/fake && echo 1 > a && git add a && "
    "git -c user.name=a -c user.email=a@b commit --quiet -m a && "
    "echo '* filter=odd' > .gitattributes && echo 2 > a && "
    "git config filter.odd.clean 'touch MARK; cat' && cd ../.. && git update-index --add "
    "--cacheinfo 160000,$(git -C node_modules/fake rev-parse HEAD),node_modules/fake"
)


@pytest.mark.spec("L7.2")
@pytest.mark.parametrize("command", [_COMMONDIR, _SUBMODULE])
def test_nothing_that_an_agent_left_for_git_runs_when_its_worktree_is_looked_at(
    place: Place, tmp_path: Path, command: str
) -> None:
    git(place.project, "init", "--quiet")
    git(place.project, "commit", "--quiet", "--allow-empty", "-m", "first")
    mark = tmp_path / "ran"
    bash = use("Bash", command=command.replace("MARK", str(mark)))
    model = ScriptedModel([agent(bash), agent("done")])

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            one = await session.agents.start(Order("Begin.", worktree=True))
            said = asked(model)[-1].messages[-1]["content"]
            put_back = "/commondir" in text_of(said[0]["content"])
            assert "Exit code" not in text_of(said[0]["content"]), said
            assert put_back == ("commondir" in command)
            assert str(session.folder / "worktrees" / one.card.id) in one.card.kept
        assert not mark.exists()

    run(story)


_FILTER = '[filter "e"]\n\tclean = touch MARK; cat\n\tsmudge = touch MARK; cat\n\trequired = true\n'
_PROMISED = (
    "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n"
    '[remote "origin"]\n\turl = .\n\tpromisor = true\n\tuploadpack = touch MARK;git-upload-pack\n'
)


@pytest.mark.spec("L7.2")
@pytest.mark.parametrize(
    ("settings", "missing"),
    [(_FILTER, False), ("[include]\n\tpath = ../more\n", False), (_PROMISED, True)],
)
def test_a_worktree_runs_nothing_that_a_downloaded_repository_names(
    tmp_path: Path, settings: str, missing: bool
) -> None:
    project, mark = tmp_path / "downloaded", tmp_path / "ran"
    project.mkdir()
    git(project, "init", "--quiet")
    (project / ".gitattributes").write_text("* filter=e\n")
    (project / "a.txt").write_text("one")
    git(project, "add", ".")
    git(project, "commit", "--quiet", "-m", "first")
    (project / "more").write_text(_FILTER.replace("MARK", str(mark)))
    with (project / ".git" / "config").open("a") as file:
        file.write(settings.replace("MARK", str(mark)))
    if missing:
        blob = git(project, "rev-parse", "HEAD:a.txt").strip()
        (project / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        with pytest.raises(ToolError):
            worktree.make(project, tmp_path / "tree", "x")
    else:
        tree = worktree.make(project, tmp_path / "tree", "x")
        assert (tree.path / "a.txt").read_text() == "one"
        assert worktree.finish(tree) == ""
    assert not mark.exists()


# ---- limits, trust, cancel


@pytest.mark.spec("L7.2")
def test_an_agent_ends_at_its_limit_of_calls_and_of_dollars(place: Place) -> None:
    config = {**ON, "prices": {"scripted": {"input": 5.0, "output": 5.0}}}
    for name, limit in (("calls", "max_calls: 2"), ("money", "max_dollars: 0.0000001")):
        write(place.home / "agents", f"{name}.md", f"name: {name}", "description: d", limit)
    model = ScriptedModel(
        [use("Agent", prompt="x", type="calls"), "a", use("Agent", prompt="x", type="money"), "b"],
        otherwise={"agent": use("Glob", pattern="*")},
    )

    async def story() -> None:
        async with place.open(model, config=config) as session:
            await session.ask("go")
            assert len(asked(model)) == 2
            await session.ask("go on")
            assert len(asked(model)) == 3
            assert {one.card.status for one in session.agents} == {"stopped"}

    run(story)


@pytest.mark.spec("L7.2")
@pytest.mark.parametrize(
    ("setting", "most", "calls"), [("agents.max_calls", 2, 2), ("agents.max_dollars", 1e-7, 1)]
)
def test_the_settings_limit_agents_whose_type_says_nothing(
    place: Place, setting: str, most: float, calls: int
) -> None:
    config = {**ON, "prices": {"scripted": {"input": 5.0, "output": 5.0}}, setting: most}
    model = ScriptedModel(
        [use("Agent", prompt="x"), "done"], otherwise={"agent": use("Glob", pattern="*")}
    )

    async def story() -> None:
        async with place.open(model, config=config) as session:
            await session.ask("go")
            assert len(asked(model)) == calls
            assert [one.card.status for one in session.agents] == ["stopped"]

    run(story)


@pytest.mark.spec("L7.2")
def test_no_more_than_the_setting_says_run_at_once(place: Place) -> None:
    config = {**ON, "agents.at_once": 1}
    model = ScriptedModel(
        [
            use("Agent", prompt="x", background=True),
            use("Agent", prompt="y"),
            Step("refused", {"last_result": "agents.at_once"}),
        ],
        otherwise={"agent": {"hang": True}},
    )

    async def story() -> None:
        async with place.open(model, config=config) as session:
            assert (await session.ask("go")).text == "refused"
            assert len(list(session.agents)) == 1
            session.agents.stop_all("")

    run(story)


@pytest.mark.spec("L7.2", "L7.3")
def test_calls_of_one_answer_count_each_other_and_get_names_of_their_own(place: Place) -> None:
    calls = [{"name": "Agent", "input": {"prompt": "x", "name": "anna"}} for _ in range(5)]
    model = ScriptedModel([{"tool_use": calls}, "end"], otherwise={"agent": {"hang": True}})

    async def story() -> None:
        config = {**ON, "agents.at_once": 2}
        refused = anyio.Event()

        def hear(event: Event) -> None:
            if isinstance(event, ToolFinished) and event.is_error:
                refusals.append(event)
                if len(refusals) == 3:
                    refused.set()

        refusals: list[Event] = []
        opened = place.open(model, config=config, on_event=hear)
        async with opened as session, anyio.create_task_group() as tasks:
            tasks.start_soon(session.ask, "go")
            await refused.wait()
            assert [one.card.name for one in session.agents.running()] == ["anna", "anna-2"]
            assert sorted(one.card.number for one in session.agents) == [1, 2]
            session.agents.stop_all()

    run(story)


@pytest.mark.spec("L7.2")
def test_an_agent_has_no_tool_that_who_started_it_does_not_have(place: Place) -> None:
    kind = ("description: d", "tools: Read, Agent")
    write(place.home / "agents", "lead.md", "name: lead", *kind)
    inner = use("Agent", prompt="x", name="below")
    model = ScriptedModel([agent(inner), agent("inner"), agent("outer")])

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            await session.agents.start(Order("go", "lead"))
        assert [names(one) for one in asked(model)[:2]] == [
            ["Read", "Agent", "SendMessage"],
            ["Read", "SendMessage"],
        ]

    run(story)


@pytest.mark.spec("L7.2", "L7.3")
def test_an_agent_whose_type_is_gone_has_what_it_began_with_at_most(place: Place) -> None:
    file = place.home / "agents" / "reader.md"
    write(file.parent, file.name, "name: reader", "description: d", "tools: Read")

    async def first() -> str:
        async with place.open([agent("one")], config=ON) as session:
            await session.agents.start(Order("go", "reader", name="anna"))
            return session.id

    async def second(name: str) -> None:
        model = ScriptedModel([agent(use("Bash", command="touch taken")), agent("two")])
        async with place.open(model, config=ON, session_id=name) as session:
            await session.agents.resume(session.agents.find("anna"), "Go on.", "agent")
        assert "There is no tool called 'Bash'" in str(asked(model)[-1].messages[-1])
        assert not (place.project / "taken").exists()

    name = run(first)
    file.unlink()
    run(second, name)


@pytest.mark.spec("L7.2")
def test_time_is_limited_too(place: Place) -> None:
    config = {**ON, "agents.max_minutes": 0.01}
    model = ScriptedModel(
        [use("Agent", prompt="x"), Step("over", {"last_result": "minutes are over"})],
        otherwise={"agent": {"hang": True}},
    )

    async def story() -> None:
        async with place.open(model, config=config) as session:
            assert (await session.ask("go")).text == "over"

    run(story)


@pytest.mark.spec("L7.2")
def test_depth_and_number_are_limited(place: Place) -> None:
    folder = place.home / "agents"
    write(folder, "top.md", "name: top", "description: d", "agents: low")
    write(folder, "low.md", "name: low", "description: d", "tools: Agent, Read")
    deeper = use("Agent", prompt="deeper", type="low")
    model = ScriptedModel(
        [
            use("Agent", prompt="x", type="top"),
            "done",
            agent(use("Agent", prompt="x", type="general")),
            agent(deeper, last_result="may start only: low"),
            agent(deeper),  # the second one's
            agent("low is done", last_result="any deeper"),
            agent("top is done", last_result="low is done"),
        ]
    )

    async def story() -> None:
        config = {**ON, "agents.depth": 2}
        async with place.open(model, config=config) as session:
            await session.ask("go")
            model.assert_finished()
            assert [one.card.depth for one in session.agents] == [1, 2]
            low, top = session.agents.find("low"), session.agents.find("top")
            assert low.card.parent == top.card.id

    run(story)


@pytest.mark.spec("L7.2")
@pytest.mark.parametrize(("answer", "runs"), [("no", False), ("once", True), (None, False)])
def test_the_first_use_of_a_project_s_type_asks(
    place: Place, answer: str | None, runs: bool
) -> None:
    folder = place.project / ".lamina" / "agents"
    write(folder, "theirs.md", "name: theirs", "description: d", "tools: Read")
    model = ScriptedModel(
        [use("Agent", prompt="x", type="theirs"), "done"], otherwise={"agent": "did it"}
    )
    questions: list[str] = []

    async def ask(tool: str, question: str) -> Any:
        questions.append(question)
        return answer

    async def story() -> None:
        wishes: dict[str, Any] = {"ask": ask, "interactive": True} if answer else {}
        async with place.open(model, config=ON, **wishes) as session:
            await session.ask("go")
            assert bool(list(session.agents)) == runs
            assert len(questions) == bool(answer)
            if questions:
                assert "theirs.md" in questions[0]

    run(story)


@pytest.mark.spec("L7.2")
def test_a_cancel_of_the_turn_reaches_every_agent(place: Place) -> None:
    calls = [
        {"name": "Agent", "input": {"prompt": "x", "background": True, "name": "beside"}},
        {"name": "Agent", "input": {"prompt": "x", "name": "inside"}},
        {"name": "Agent", "input": {"prompt": "x", "type": "fork", "name": "copy"}},
    ]
    model = ScriptedModel([{"tool_use": calls}], otherwise={"agent": {"hang": True}})

    async def story() -> None:
        async with place.open(model, config=ON) as session:
            async with anyio.create_task_group() as group:
                group.start_soon(session.ask, "go")
                while len(asked(model)) < 3:
                    await anyio.lowlevel.checkpoint()
                session.cancel()
            while session.agents.running():
                await anyio.lowlevel.checkpoint()
            assert {one.card.status for one in session.agents} == {"cancelled"}
            assert not session.ledger.open_calls

    run(story)


@pytest.mark.spec("L7.2")
def test_a_program_can_start_agents_and_an_error_of_the_model_is_theirs_alone(
    place: Place,
) -> None:
    async def story() -> None:
        steps = [agent("found it"), agent({"error": "unreachable"})]
        async with place.open(steps, config=ON) as session:
            one = await session.agents.start(Order("look"))
            assert (one.result, one.card.status) == ("found it", "done")
            two = await session.agents.start(Order("look again"))
            assert two.card.status == "failed"
            assert two.card.name == "general-2"
            with pytest.raises(LaminaError, match="no agent type"):
                await session.agents.start(Order("look", type="nobody"))

    run(story)


# ---- layers


@pytest.mark.spec("L7.7")
def test_layers_serve_an_agent_that_lives_long_in_its_own_folder(place: Place) -> None:
    """A large result goes to its own folder, and its own view is compacted; the parent's is not."""
    (place.project / "big.txt").write_text("\n".join(f"row {n} " + "x" * 60 for n in range(900)))
    reads = [agent(use("Bash", command="cat big.txt"))]
    more = [agent(use("Read", file_path="big.txt", offset=1 + n * 100, limit=90)) for n in range(8)]
    model = ScriptedModel(
        [use("Agent", prompt="Read all of it.", name="long"), "done", *reads, *more, agent("read")],
        capabilities=Capabilities(
            window=19_000, max_output=2_000, cache="anthropic", min_cacheable=0
        ),
        otherwise={"summary": "A summary.", "probe": "-"},
    )
    config = {**ON, "compact.margin": 3_000, "compact.blocking_margin": 500}

    async def story() -> None:
        async with place.open(model, config=config) as session:
            await session.ask("go")
            one = session.agents.find("long")
            assert one.card.status == "done", one.card.reason
            folder = session.folder / "subagents" / f"agent-{one.card.id}"
            assert list((folder / "tool-results").iterdir())
            entries = log.read(folder.with_suffix(".jsonl")).entries
            layers = {e.get("layer") for e in entries if e["kind"] == "edit"}
            assert {"tool_results", "compaction"} <= layers
            assert not [e for e in session.ledger.entries if e["kind"] == "edit"]

    run(story)


@pytest.mark.spec("L7.2")
@pytest.mark.parametrize("kind", ["general", FORK])
def test_a_session_that_was_killed_hears_once_of_the_agents_that_worked(
    place: Place, kind: str
) -> None:
    model = ScriptedModel(["hello", agent("one")], otherwise={"agent": {"hang": True}})

    async def first() -> str:
        async with place.open(model, config=ON) as session:
            await session.ask("hi")
            one = await session.agents.start(Order("Look.", kind, name="anna"))
            await session.agents.resume(one, "Look again.", "teammate")
            with anyio.fail_after(10):
                while len(asked(model)) < 2:
                    await anyio.lowlevel.checkpoint()
            assert roster.read_cards(session.folder)[0].reason == roster.KILLED
            shutil.copytree(place.home, killed.home, ignore=shutil.ignore_patterns("mail"))
            session.agents.stop_all()
            return session.id

    async def again(name: str, *, told: bool) -> None:
        async with killed.open([], config=ON, session_id=name) as session:
            told_of = [words for words, origin in session.state.queue if origin == "agent"]
            assert any("anna" in one and "was killed" in one for one in told_of) == told
            assert session.agents.find("anna").card.status == "stopped"
            # Nobody asked anything the first time, and it is in the record all the same.
            assert ("was killed" in str(session.ledger.entries)) != told

    killed = Place(place.home.parent)
    killed.home = place.home.parent / "killed"
    name = run(first)
    run(partial(again, name, told=True))
    run(partial(again, name, told=False))


@pytest.mark.spec("L7.7")
def test_what_is_no_agent_s_record_keeps_no_session_from_opening(place: Place) -> None:
    async def story() -> None:
        async with place.open(["hi"], config=ON) as session:
            await session.ask("hi")
            folder = session.folder / "subagents"
        (folder / "agent-a.jsonl").mkdir(parents=True)
        os.mkfifo(folder / "agent-b.jsonl")  # to read it would wait for ever
        (folder / "agent-c.jsonl").symlink_to(folder / "agent-c.jsonl")
        (folder / "agent-d.jsonl").write_bytes(b"\xff\x00\n{}\n")
        card = roster.Card("../../e", "anna", "general", "look").to_json()
        line = {**edits.state(roster.CARD, card), "uuid": "u", "ts": "2026-01-01T00:00:00Z"}
        (folder / "agent-e.jsonl").write_text(json.dumps(line) + "\n")
        async with place.open(["hi"], config=ON, session_id=session.id) as session:
            await session.ask("again")
            assert list(session.agents) == []

    run(story)


@pytest.mark.spec("L7.7", "L6.1")
def test_an_agent_s_ledger_is_no_session(place: Place) -> None:
    async def story() -> None:
        async with place.open([agent("x")], config=ON) as session:
            await session.agents.start(Order("look"))
            assert len(list(session.folder.parent.glob("*.jsonl"))) == 1
            assert len(list(session.folder.parent.glob("*/subagents/agent-*.jsonl"))) == 1

    run(story)
