"""Prefetch: starts with what the user typed, waits for a small model alone and not for long, and is taken once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.memories import directory, kinds, put, said
from tests.sessions import Place, run, use

from lamina.errors import MemoryStoreError
from lamina.memory.file_store import FileStore
from lamina.messages import Request, Response, Usage, text_of
from lamina.models.scripted import ScriptedModel, Step
from lamina.ports import ToolOutcome, ToolSpec
from lamina.recall.memory_index import MOST_AT_ONCE, MemoryIndex
from lamina.recall.prefetch import Limits, Prefetch, RecallRequest, Selector, question_in
from lamina.recall.why import lines, recalls_of

STAGING = "The staging database runs on the host pelican"


class Waiting(ScriptedModel):
    """The same script, but the selector's calls answer when the test says so."""

    def __init__(self, steps: list[Any], **more: Any) -> None:
        super().__init__(steps, **more)
        self.may_answer = anyio.Event()
        self.asked = anyio.Event()
        self.cancelled = 0

    async def complete(self, request: Request, emit: Any) -> Response:
        if request.purpose == "recall":
            self.asked.set()
            try:
                await self.may_answer.wait()
            except anyio.get_cancelled_exc_class():
                self.cancelled += 1
                raise
        return await super().complete(request, emit)


class Probe:
    """A host's tool whose behaviour a test decides."""

    spec = ToolSpec("Probe", "probe", {"type": "object"}, read_only=True)

    def __init__(self, work: Any) -> None:
        self._work = work

    async def run(self, input: Any, context: Any) -> ToolOutcome:
        await self._work()
        return ToolOutcome("done")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    put(place, "project_staging.md", STAGING, days=3)
    put(place, "user_cooking.md", "The user bakes sourdough bread at weekends", type="user")
    put(place, "reference_dashboards.md", "Latency dashboards live in Grafana", type="reference")
    return place


SMALL = {"small_model": "scripted", "recall.wait": 0.0}
SURE = "which host has the staging database?"
UNSURE = (
    "is our database slow or the network?"  # the ranker would offer the memory, not swear to it
)


@pytest.mark.spec("M7")
def test_a_memory_that_fits_is_at_the_end_of_the_view_before_the_first_call(place: Place) -> None:
    steps = [Step("On pelican.", {"last_user": ["staging database", "pelican"]})]

    async def story() -> None:
        async with place.open(steps) as session:
            reply = await session.ask("which host has the staging database?")
            last = session.view().messages[0]["content"][-1]["text"]
            path = directory(place) / "project_staging.md"
            assert last.startswith(f"<system-reminder>\nMemory (saved 3 days ago): {path}\n")
            assert "may be out of date" in last
            assert [e.kind for e in reply.events].count("memory_recalled") == 1
            [message] = [e for e in kinds(session, "message") if e.get("recalled")]
            assert message["origins"] == ["recalled"]

    run(story)


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    "question", ["how do I sort a list in python?", "staging", "thanks", "> staging database host"]
)
def test_an_unrelated_question_one_word_or_a_quote_recalls_nothing(
    place: Place, question: str
) -> None:
    async def story() -> None:
        async with place.open(["ok"]) as session:
            await session.ask(question)
            assert "Memory (saved" not in said(session)

    run(story)


@pytest.mark.spec("M7")
def test_a_question_in_a_longer_message_finds_what_it_finds_alone(place: Place) -> None:
    more = (
        "I had a long day with the build server and two meetings. {} Remember that I prefer tabs. "
        "Then rename the helper in parser.py and run the tests again."
    )

    async def story() -> None:
        async with place.open(["pelican", "ok"]) as session:
            await session.ask(more.format("The weather was fine."))
            assert "Memory (saved" not in said(session)
            await session.ask(more.format("Which host has the staging database?"))
            assert STAGING in said(session)

    run(story)


@pytest.mark.spec("M7")
def test_what_was_not_typed_asks_for_nothing(place: Place) -> None:
    async def story() -> None:
        hooks = {"UserPromptSubmit": lambda _: {"additionalContext": "staging database host"}}
        async with place.open(["ok"], hooks=hooks) as session:
            await session.ask("good morning to you", pasted="where is the staging database host")
            assert "Memory (saved" not in said(session)
            assert kinds(session, "recall") == []

    run(story)


def test_scripts_without_spaces_are_more_than_one_word() -> None:
    assert question_in("部署流程是什么") == "部署流程是什么"
    assert question_in("deploy") == ""
    assert question_in("> quoted words only\n") == ""
    assert question_in("see this\n```\ncode\n```\n").strip() == "see this"


@pytest.mark.spec("M7", "F11")
def test_a_selector_that_hangs_delays_nothing_and_is_cancelled_with_the_turn(place: Place) -> None:
    async def story() -> None:
        model = Waiting([Step("Here you are.", {"lacks": "Memory (saved"})])
        async with place.open(model, config=SMALL) as session:
            with anyio.fail_after(30):
                reply = await session.ask(UNSURE)
            assert reply.text == "Here you are."
            assert reply.stop == "end_turn"
            [why] = kinds(session, "recall")
            assert why["left"] == "the turn ended before they were picked"
        assert model.cancelled <= 1
        assert [r.purpose for r in model.requests] == ["main"]

    run(story)


@pytest.mark.spec("M7", "F11")
def test_a_slow_selector_s_choice_comes_before_a_later_call_and_once(place: Place) -> None:
    async def story() -> None:
        steps = [
            Step(use("Probe"), {"lacks": "Memory (saved"}),
            Step(use("Probe"), {"contains": "Memory (saved", "prefix": True}),
            Step("On pelican.", {"prefix": True}),
            Step('{"selected": ["project_staging.md"]}', purpose="recall"),
        ]
        model = Waiting(steps)

        async def answer_now() -> None:
            model.may_answer.set()
            while "recall" in session.state.background.running():
                await anyio.lowlevel.checkpoint()

        async with place.open(model, config=SMALL, tools=[Probe(answer_now)]) as session:
            await session.ask(UNSURE)
            assert said(session).count("Memory (saved") == 1
            model.assert_finished()
            [why] = kinds(session, "recall")
            assert (why["by"], why["picks"]) == ("scripted", ["project_staging.md"])

    run(story)


@pytest.mark.spec("M7", "F11")
def test_what_the_ranker_is_sure_of_is_there_in_time_and_the_selector_adds_the_rest(
    place: Place,
) -> None:
    put(place, "project_pool.md", "The database pool of the network gateway is slow", days=1)

    async def story() -> None:
        steps = [
            Step(use("Probe"), {"contains": "host pelican", "lacks": "project_pool.md"}),
            Step("On pelican.", {"contains": "project_pool.md", "prefix": True}),
            Step('{"selected": ["project_staging.md", "project_pool.md"]}', purpose="recall"),
        ]
        model = Waiting(steps)

        async def answer_now() -> None:
            model.may_answer.set()
            while "recall" in session.state.background.running():
                await anyio.lowlevel.checkpoint()

        async with place.open(model, config=SMALL, tools=[Probe(answer_now)]) as session:
            await session.ask(SURE)
            assert said(session).count("Memory (saved") == 2
            early, late = kinds(session, "recall")
            assert early["by"] == "ranker"
            assert early["why"] == "scripted had not answered yet"
            assert [one["path"] for one in early["shown"]] == ["project_staging.md"]
            assert late["by"] == "scripted"
            assert [one["path"] for one in late["shown"]] == ["project_pool.md"]
            assert len(kinds(session, "recall_use")) == 2

    run(story)


@pytest.mark.spec("M7")
@pytest.mark.parametrize(("reply", "by"), [("[]", "scripted"), ({"hang": True}, "ranker")])
def test_a_first_call_that_waits_for_the_selector_is_shown_its_choice_alone(
    place: Place, reply: Any, by: str
) -> None:
    async def story() -> None:
        shown = {"lacks": "Memory (saved"} if by == "scripted" else {"contains": "host pelican"}
        steps = [Step(use("Probe"), shown), Step("I see.", shown), Step(reply, purpose="recall")]
        waits = 30.0 if by == "scripted" else 0.01
        config = {**SMALL, "recall.wait": waits}
        model = ScriptedModel(steps)
        async with place.open(
            model, config=config, tools=[Probe(anyio.lowlevel.checkpoint)]
        ) as session:
            await session.ask(SURE)
            model.assert_finished()
            assert kinds(session, "recall")[0]["by"] == by

    run(story)


@pytest.mark.spec("M7")
def test_what_goes_at_once_counts_towards_the_files_of_its_message(place: Place) -> None:
    names = [f"project_pool_{number}.md" for number in range(3)]
    for number, name in enumerate(names):
        put(place, name, f"The database pool {number} of the gateway is slow", days=1)

    async def story() -> None:
        chosen = json.dumps({"selected": names})
        model = Waiting([use("Probe"), "On pelican.", Step(chosen, purpose="recall")])

        async def answer_now() -> None:
            model.may_answer.set()
            while "recall" in session.state.background.running():
                await anyio.lowlevel.checkpoint()

        config = {**SMALL, "recall.max_files": 3}
        async with place.open(model, config=config, tools=[Probe(answer_now)]) as session:
            await session.ask(SURE)
            early, late = kinds(session, "recall")
            assert [one["path"] for one in early["shown"]] == ["project_staging.md"]
            assert [one["path"] for one in late["shown"]] == names[:2]

    run(story)


class Late(ScriptedModel):
    """The selector answers while the turn's only call is under way."""

    def __init__(self, steps: list[Any], **more: Any) -> None:
        super().__init__(steps, **more)
        self.picked = anyio.Event()

    async def complete(self, request: Request, emit: Any) -> Response:
        if request.purpose == "main":
            await self.picked.wait()
        response = await super().complete(request, emit)
        if request.purpose == "recall":
            self.picked.set()
        return response


@pytest.mark.spec("M7", "F10")
@pytest.mark.parametrize(
    ("follow_up", "shown"),
    [("so the database is slow, not the network?", True), ("thank you, have a nice day", False)],
)
def test_a_choice_that_came_too_late_serves_the_next_message_if_it_asks_for_it_too(
    place: Place, follow_up: str, shown: bool
) -> None:
    async def story() -> None:
        expect = {"contains": "host pelican"} if shown else {"lacks": "Memory (saved"}
        steps = [
            Step("No idea.", {"lacks": "Memory (saved"}),
            Step("Pelican is slow.", {**expect, "prefix": True}),
        ]
        chosen = '{"selected": ["project_staging.md"]}'
        model = Late(steps, otherwise={"recall": chosen})
        async with place.open(model, config=SMALL) as session:
            await session.ask(UNSURE)
            first = kinds(session, "recall")[-1]
            assert (first["by"], first["picks"]) == ("scripted", ["project_staging.md"])
            assert first["left"] == "they were picked after the turn's last call"
            await session.ask(follow_up)
            assert ("project_staging.md" in said(session)) == shown

    run(story)


@pytest.mark.spec("M7")
def test_a_cancelled_turn_cancels_its_search(place: Place) -> None:
    async def story() -> None:
        model = Waiting([Step({"hang": True}), Step("fine")])
        async with place.open(model, config=SMALL) as session:
            async with anyio.create_task_group() as group:
                group.start_soon(session.ask, "which host has the staging database?")
                await model.asked.wait()
                session.cancel()
            await session.ask("thanks")
            assert model.cancelled == 1
            assert session.state.recalls is not None
            assert session.state.recalls.underway == []

    run(story)


@pytest.mark.spec("M7")
def test_what_was_shown_or_read_is_not_shown_again(place: Place) -> None:
    read = use("Read", file_path=str(directory(place) / "reference_dashboards.md"))

    async def story() -> None:
        steps = ["one", "two", read, "three", "four"]
        async with place.open(steps) as session:
            await session.ask("which host has the staging database?")
            await session.ask("say again, which host has the staging database?")
            assert said(session).count("Memory (saved") == 1
            await session.ask("read that file there")
            await session.ask("where are the latency dashboards in Grafana?")
            assert said(session).count("Memory (saved") == 1

    run(story)


@pytest.mark.spec("M7")
def test_a_compaction_resets_what_counts_as_shown_and_the_budget(place: Place) -> None:
    async def story() -> None:
        long = "I looked at many things, and here is what they were. " * 800
        model = ScriptedModel([*[long] * 5, "ok"], otherwise={"*": "no"})
        config = {"recall.session_bytes": 450}
        async with place.open(model, config=config) as session:
            await session.ask("which host has the staging database?")
            await session.ask("where are the latency dashboards in Grafana?")
            shown = said(session).count("Memory (saved")
            assert shown == 1, "the second exceeds what a session may show"
            for _ in range(3):
                await session.ask("go on with it please")
            await session.compact()
            assert "Memory (saved" not in said(session)
            await session.ask("so which host has the staging database?")
            assert said(session).count("Memory (saved") == 1

    run(story)


@pytest.mark.spec("M7")
def test_manuals_of_tools_in_use_stay_out_and_warnings_come(place: Place) -> None:
    put(place, "reference_grep.md", "Grep usage manual: flags and options of the Grep tool")
    put(place, "project_grep_trap.md", "Warning: Grep fails on the generated fixtures folder")

    async def story() -> None:
        grep = use("Grep", pattern="x", path=".")
        async with place.open([grep, "none", "ok"]) as session:
            await session.ask("look for it")
            await session.ask("what do I know about Grep flags and fixtures?")
            assert "project_grep_trap.md" in said(session)
            assert "reference_grep.md" not in said(session)

    run(story)


@pytest.mark.spec("M7", "F8")
def test_switched_off_it_is_as_if_it_did_not_exist(place: Place) -> None:
    async def story() -> None:
        config = {"recall.enabled": False}
        async with place.open(["ok"], config=config) as session:
            await session.ask("which host has the staging database?")
            assert "Memory (saved" not in said(session)
            assert kinds(session, "recall") == []
            assert session.state.recalls is None

    run(story)


@pytest.mark.spec("M7")
def test_the_index_follows_the_files_and_may_be_deleted(place: Place) -> None:
    async def story() -> None:
        async with place.open(["ok", "ok", "ok"]) as session:
            await session.ask("which host has the staging database?")
            index = session.state.deps.memory_index
            assert index is not None
            saved = index.store.state / "recall.index"
            assert saved.is_file()
            put(place, "project_release.md", "Releases are cut on the second Tuesday")
            (directory(place) / "user_cooking.md").unlink()
            await session.ask("on which Tuesday are releases cut?")
            assert "project_release.md" in said(session)
            await session.ask("who bakes sourdough bread at weekends?")
            assert "user_cooking.md" not in said(session)
            saved.write_bytes(b"torn")
        async with place.open(["ok"]) as session:
            await session.ask("which host has the staging database?")
            assert "project_staging.md" in said(session)

    run(story)


@pytest.mark.spec("M7")
def test_a_large_directory_is_looked_over_in_a_thread_and_comes_before_a_later_call(
    place: Place,
) -> None:
    for number in range(MOST_AT_ONCE):
        put(place, f"project_{number}.md", f"Ticket {number} is about the colour of a button")

    async def story() -> None:
        async def wait() -> None:
            while session.state.background.running():
                await anyio.lowlevel.checkpoint()

        steps = [
            Step(use("Probe"), {"lacks": "pelican"}),
            Step("On pelican.", {"contains": "pelican", "prefix": True}),
        ]
        async with place.open(steps, tools=[Probe(wait)]) as session:
            index = session.state.deps.memory_index
            assert index is not None
            await anyio.to_thread.run_sync(index.refresh)
            assert not index.quick
            await session.ask("which host has the staging database?")

    run(story)


@pytest.mark.spec("F11", "M7")
def test_forks_recall_nothing(place: Place) -> None:
    async def deny(spec: Any, input: Any, context: Any) -> Any:
        raise AssertionError("no tools here")

    async def story() -> None:
        model = ScriptedModel(["ok"], otherwise={"notes": "fine"})
        async with place.open(model) as session:
            await session.ask("good morning to you")
            fork = session.state.fork
            assert fork is not None
            await fork("the staging database host", purpose="notes", permit=deny, max_calls=1)
            request = model.requests[-1]
            words = "".join(text_of(m["content"]) for m in request.messages)
            assert "Memory (saved" not in words

    run(story)


@pytest.mark.spec("M7", "F10")
def test_a_spent_cap_leaves_the_choice_to_the_ranker(place: Place) -> None:
    async def story() -> None:
        model = ScriptedModel(["ok", use("Probe"), "ok"], otherwise={"recall": "[]"})
        config = {**SMALL, "spend.layer_caps": {"recall": 0.01}}

        async def wait() -> None:
            while session.state.background.running():
                await anyio.lowlevel.checkpoint()

        async with place.open(model, config=config, tools=[Probe(wait)]) as session:
            session.state.deps.spend.book(
                purpose="recall",
                model="claude-sonnet-5-5",
                usage=Usage(input=1_000_000),
                session="x",
                at=place.clock.now(),
            )
            await session.ask("good morning to you")
            await session.ask("which host has the staging database?")
            assert "recall" not in [r.purpose for r in model.requests]
            assert "project_staging.md" in said(session)
            assert "cap" in kinds(session, "recall")[-1]["why"]

    run(story)


@pytest.mark.spec("M7", "M11", "F11")
def test_a_memory_that_goes_between_the_choice_and_the_reading_is_left_out_and_told(
    place: Place,
) -> None:
    async def story() -> None:
        steps = [
            Step(use("Probe")),
            Step("I don't know.", {"lacks": "Memory (saved"}),
            Step('{"selected": ["project_staging.md"]}', purpose="recall"),
        ]
        model = Waiting(steps)

        async def it_goes() -> None:
            (directory(place) / "project_staging.md").unlink()
            model.may_answer.set()
            while "recall" in session.state.background.running():
                await anyio.lowlevel.checkpoint()

        async with place.open(model, config=SMALL, tools=[Probe(it_goes)]) as session:
            reply = await session.ask(UNSURE)
            assert (reply.text, reply.stop) == ("I don't know.", "end_turn")
            [why] = kinds(session, "recall")
            assert why["picks"] == ["project_staging.md"]
            assert why["shown"] == []
            assert why["left"] == "they were gone when they were to be read"

    run(story)


@pytest.mark.spec("M7", "M11", "F11")
def test_where_uses_cannot_be_counted_the_turn_is_none_the_worse(place: Place) -> None:
    async def story() -> None:
        state = directory(place).with_name("memory.lamina")
        (state / "recall-uses.lock").mkdir(parents=True)
        (state / "recall.index").mkdir()
        async with place.open(["On pelican.", "On pelican."]) as session:
            for _ in range(2):
                reply = await session.ask(SURE)
                assert reply.text == "On pelican."
            assert said(session).count("Memory (saved") == 1
            [used] = kinds(session, "recall_use")
            assert used["uses"]["project_staging.md"]["used"]
            assert "layer_failed" not in str(session.ledger.entries)

    run(story)


@pytest.mark.spec("M7")
def test_whoever_waits_for_a_search_is_told_of_its_end_even_if_it_fails(place: Place) -> None:
    directory(place).parent.mkdir(parents=True, exist_ok=True)
    gone = directory(place).with_name("elsewhere")
    gone.write_text("no directory")
    request = RecallRequest("entry", "which host has the staging database?", 0.0)

    async def story() -> None:
        prefetch = Prefetch(MemoryIndex(FileStore(gone)), request, Limits())
        with pytest.raises(MemoryStoreError):
            await prefetch.work()
        assert prefetch.ended.is_set()
        assert not prefetch.take()

    run(story)


@pytest.mark.spec("M7")
def test_the_selector_chooses_from_the_manifest_not_only_from_what_shares_words(
    place: Place,
) -> None:
    put(place, "project_freeze.md", "Merge freeze from 14 December until 6 January", days=2)
    line = "- [project] project_freeze.md (saved 2 days ago): Merge freeze"

    async def story() -> None:
        steps = [
            Step(
                '{"selected": ["project_freeze.md"]}',
                {"last_user": [line, "user_cooking.md"]},
                purpose="recall",
            ),
            Step(use("Probe")),
            Step("No, there is a freeze.", {"contains": "project_freeze.md"}),
        ]

        async def selector_answers() -> None:
            while "recall" in session.state.background.running():
                await anyio.lowlevel.checkpoint()

        async with place.open(steps, config=SMALL, tools=[Probe(selector_answers)]) as session:
            await session.ask("can I ship my PR next week?")
            assert "Memory (saved 2 days ago)" in said(session)
            [recall] = kinds(session, "recall")
            assert recall["picks"] == ["project_freeze.md"]
            assert recall["offered"] == 4

    run(story)


@pytest.mark.spec("M7")
def test_of_more_than_200_memories_the_ranked_and_the_newest_are_offered(place: Place) -> None:
    for number in range(230):
        put(place, f"project_n{number:03}.md", f"Note {number} on nothing much", days=10 + number)
    paths: list[str] = []

    async def selected(request: Request) -> Response:
        return Response([{"type": "text", "text": "[]"}], "end_turn", Usage())

    async def story() -> None:
        with FileStore(directory(place)) as store:
            request = RecallRequest("e", SURE, place.clock.at, exclude=["project_n000.md"])
            selector = Selector(selected, "scripted")
            prefetch = Prefetch(MemoryIndex(store), request, Limits(), selector)
            await prefetch.work()
            paths.extend(one.path for one in prefetch.candidates)

    run(story)
    assert len(paths) == len(set(paths)) == 200
    assert paths[0] == "project_staging.md"
    assert {"user_cooking.md", "project_n001.md"} <= {*paths}
    assert not {"project_n000.md", "project_n229.md"} & {*paths}


@pytest.mark.spec("M11")
def test_a_memory_that_fits_and_is_in_view_already_is_named_so(place: Place) -> None:
    async def story() -> None:
        async with place.open(["On pelican.", "As I said."]) as session:
            await session.ask(SURE)
            await session.ask("so which host is the staging database on?")
            recalls = recalls_of(session.ledger.entries)
            assert "fits too and was in view already" in "\n".join(lines(recalls[-1]))
            assert recalls[-1].entry["in_view"] == ["project_staging.md"]

    run(story)
