"""Layer 3: notes written beside the conversation, and compactions that stand on them without a call."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.layers.talks import (
    answer,
    answers,
    boundaries,
    filler,
    model,
    question,
    summary,
    talk,
    view_text,
    warnings,
)
from tests.sessions import Place, run, use

from lamina import prompts
from lamina.ledger import joining
from lamina.local import summariser
from lamina.models.scripted import ScriptedModel, Step
from lamina.ports import Capabilities

HEADINGS = [
    "Session title",
    "Current state",
    "Task specification",
    "Files and functions",
    "Workflow",
    "Errors and corrections",
    "Codebase and system documentation",
    "Learnings",
    "Key results",
    "Worklog",
]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def notes_of(session: Any) -> Path:
    return session.folder / "session-memory" / "summary.md"


def notes_calls(scripted: ScriptedModel) -> list[Any]:
    return [request for request in scripted.requests if request.purpose == "notes"]


async def settle(session: Any) -> None:
    """Let the background finish."""
    with anyio.fail_after(60):
        while session.state.background.running():
            await anyio.lowlevel.checkpoint()


def edit_of(request: Any, heading: str, words: str) -> Any:
    """A step's reply that writes below a heading, as a model would."""
    directive = request.messages[-1]["content"][-1]["text"]
    path = re.search(r"The file is (\S+)\. Its", directive)
    assert path
    italic = next(s.italic for s in summariser.parse(_template()) if s.heading == heading)
    return use("Edit", file_path=path[1], old_string=italic, new_string=f"{italic}\n\n{words}")


def _template() -> str:
    return prompts.load("notes_template")


def writes(heading: str, words: str) -> Step:
    return Step(lambda request: edit_of(request, heading, words), purpose="notes")


@pytest.mark.spec("L3.1", "F10")
def test_a_cap_that_is_reached_on_the_way_leaves_what_the_model_wrote(place: Place) -> None:
    async def story() -> None:
        scripted = model([*answers(4), writes("Learnings", "Ports are numbers.")])
        config = {
            "spend.layer_caps": {"notes": 0.000001},
            "prices": {"scripted": {"input": 5.0, "output": 5.0}},
            "background.profile": "every-turn",
        }
        async with place.open(scripted, config=config) as session:
            await talk(session, 2)
            await settle(session)
            sections = summariser.parse(notes_of(session).read_text())
            assert sections[7].body == "Ports are numbers."
            assert len(notes_calls(scripted)) == 1

    run(story)


@pytest.mark.spec("L3.1", "L3.3")
def test_a_fork_writes_into_one_file_of_ten_fixed_sections(place: Place) -> None:
    async def story() -> None:
        steps = [
            *answers(4),
            writes("Learnings", "Ports are numbers."),
            Step("ok", purpose="notes"),
        ]
        scripted = model(steps)
        async with place.open(scripted) as session:
            await talk(session, 2)
            await settle(session)
            text = notes_of(session).read_text()
            sections = summariser.parse(text)
            assert [s.heading for s in sections] == HEADINGS
            assert all(s.italic for s in sections)
            assert summariser.same_frame(_template(), text)
            assert sections[7].body == "Ports are numbers."
            first = notes_calls(scripted)[0]
            assert {t["name"] for t in first.tools} >= {"Bash", "Write", "Edit"}

    run(story)


@pytest.mark.spec("L3.3")
def test_the_fork_may_edit_nothing_else(place: Place) -> None:
    (place.project / "a.txt").write_text("one")

    async def story() -> None:
        tries = [
            use("Write", file_path="b.txt", content="x"),
            use("Edit", file_path="a.txt", old_string="one", new_string="two"),
            use("Bash", command="echo x > c.txt"),
            use("Read", file_path="a.txt"),
        ]
        scripted = model([*answers(4), *(Step(t, purpose="notes") for t in tries)])
        refused: list[Any] = []

        def hear(event: Any) -> None:
            if event.kind == "permission_refused":
                refused.append(event.tool)

        async with place.open(scripted, on_event=hear) as session:
            await talk(session, 2)
            await settle(session)
        assert refused == ["Write", "Edit", "Bash", "Read"]
        assert sorted(p.name for p in place.project.iterdir()) == ["a.txt"]
        assert (place.project / "a.txt").read_text() == "one"

    run(story)


@pytest.mark.spec("L3.1", "L3.3")
def test_an_update_that_changes_a_heading_is_undone_and_the_record_serves(place: Place) -> None:
    def breaks(request: Any) -> Any:
        return {
            "tool_use": {
                "name": "Edit",
                "input": {
                    **edit_of(request, "Worklog", "x")["tool_use"][0]["input"],
                    "old_string": "# Worklog",
                    "new_string": "# My own log",
                },
            }
        }

    async def story() -> None:
        steps = [*answers(4), Step(breaks, purpose="notes"), Step("done", purpose="notes")]
        async with place.open(model(steps)) as session:
            await talk(session, 2)
            await settle(session)
            text = notes_of(session).read_text()
            assert summariser.same_frame(_template(), text)
            failed = [e for e in session.ledger.entries if e["kind"] == "event"]
            assert "headings" in str(failed)
            assert question(0) in text

    run(story)


@pytest.mark.spec("L3.2")
def test_it_is_first_due_at_ten_thousand_tokens_then_every_five_thousand_more(
    place: Place,
) -> None:
    async def story() -> None:
        scripted = model(answers(12, 1_500))
        async with place.open(scripted) as session:
            sizes: list[tuple[int, int]] = []
            for n in range(12):
                await talk(session, 1, first=n)
                await settle(session)
                sizes.append((session.ledger.tokens(), len(notes_calls(scripted))))
            assert all(calls == 0 for tokens, calls in sizes if tokens < 10_000)
            updates = [b for (_, a), (b, c) in itertools.pairwise(sizes) if c > a]
            assert updates[0] >= 10_000
            assert all(b - a >= 5_000 for a, b in itertools.pairwise(updates))
            assert len(updates) >= 3

    run(story)


@pytest.mark.spec("L3.2")
def test_in_the_middle_of_work_it_also_needs_three_tool_calls(place: Place) -> None:
    (place.project / "big.txt").write_text("\n".join(filler(7, 5_500).split(" ")))

    async def story() -> None:
        at: list[int] = []
        reads = [use("Bash", command="cat big.txt") for _ in range(5)]
        scripted = model([*answers(1, 6_000), *reads, "done"])
        original = scripted.complete

        async def watching(request: Any, listen: Any) -> Any:
            if request.purpose == "notes":
                at.append(sum(r.purpose == "main" for r in scripted.requests))
            return await original(request, listen)

        scripted.complete = watching  # type: ignore[method-assign]
        async with place.open(scripted, config={"tool_results.enabled": False}) as session:
            await talk(session, 1)
            await settle(session)
            await session.ask("read it five times")
            await settle(session)
        assert at[0] == 1
        assert at[1] == 4  # 5,000 tokens were there after two calls, the third call made it due

    run(story)


@pytest.mark.spec("L3.2")
@pytest.mark.parametrize("switch", ["notes.enabled", "compact.auto"])
def test_switched_off_nothing_is_written(place: Place, switch: str) -> None:
    async def story() -> None:
        async with place.open(model(answers(6)), config={switch: False}) as session:
            await talk(session, 5)
            await settle(session)
            assert not notes_of(session).exists()

    run(story)


@pytest.mark.spec("L3.2", "F11")
def test_an_update_that_hangs_never_delays_the_turn_and_none_runs_beside_it(place: Place) -> None:
    async def story() -> None:
        scripted = model(answers(9), notes={"hang": True})
        async with place.open(scripted, config={"background.drain_seconds": 0.0}) as session:
            replies = await talk(session, 8)
            assert [r.stop for r in replies] == ["end_turn"] * 8
            with anyio.fail_after(60):
                while not notes_calls(scripted):
                    await anyio.lowlevel.checkpoint()
            await talk(session, 1, first=8)
            assert len(notes_calls(scripted)) == 1
            assert "notes" in session.status().background
            assert (await session.compact()).source == "local"  # half-written notes don't serve

    run(story)


@pytest.mark.spec("L3.3")
def test_a_section_that_grew_too_long_is_named_in_the_next_update(place: Place) -> None:
    async def story() -> None:
        steps = [
            *answers(9),
            writes("Learnings", filler(99, 2_600)),
            Step("ok", purpose="notes"),
        ]
        scripted = model(steps)
        async with place.open(scripted) as session:
            await talk(session, 2)
            await settle(session)
            await talk(session, 2, first=2)
            await settle(session)
            last = str(notes_calls(scripted)[-1].messages[-1])
            assert "The section 'Learnings' has about" in last
            assert "shorten it below 2,000" in last

    run(story)


@pytest.mark.spec("L3.4")
def test_own_template_and_prompt_are_used_names_filled_once_and_dollars_left_alone(
    place: Place,
) -> None:
    folder = place.home / "session-memory" / "config"
    folder.mkdir(parents=True)
    (folder / "template.md").write_text(
        "# Plan\n_What comes._\n\n# Costs $1 {{notesPath}}\n_Money._\n"
    )
    (folder / "prompt.md").write_text(
        "Mine: {{currentNotes}} | {{notesPath}} | {{unknown}} | $0 \\1 {{ spaced }}"
    )

    async def story() -> None:
        scripted = model(answers(4))
        async with place.open(scripted) as session:
            await talk(session, 2)
            await settle(session)
            directive = notes_calls(scripted)[0].messages[-1]["content"][-1]["text"]
            assert "{{unknown}} | $0 \\1 {{ spaced }}" in directive
            assert "# Costs $1 {{notesPath}}" in directive  # what is put in is not expanded
            assert f"| {notes_of(session)} |" in directive
            assert notes_of(session).read_text().startswith("# Plan\n_What comes._")

    run(story)


@pytest.mark.spec("L3.4")
@pytest.mark.parametrize("bad", ["no headings at all", b"\xff\xfe\x00", None])
def test_a_template_that_can_t_serve_is_told_of_once_and_the_built_in_one_is_used(
    place: Place, bad: Any
) -> None:
    path = place.home / "session-memory" / "config" / "template.md"
    path.parent.mkdir(parents=True)
    if bad is None:
        path.mkdir()
    else:
        path.write_bytes(bad if isinstance(bad, bytes) else bad.encode())

    async def story() -> None:
        heard: list[Any] = []
        async with place.open(model(answers(9)), on_event=heard.append) as session:
            for n in range(6):
                await talk(session, 1, first=n)
                await settle(session)
            told = [w for w in warnings(heard) if "template" in w]
            assert len(told) == 1
            assert [s.heading for s in summariser.parse(notes_of(session).read_text())] == HEADINGS

    run(story)


@pytest.mark.spec("L3.1", "F6")
def test_without_a_model_the_record_fills_what_can_be_copied(place: Place) -> None:
    (place.project / "calc.py").write_text("def add(a, b):\n    return a - b\n")

    async def story() -> None:
        steps = [
            use("Read", file_path="calc.py"),
            use("Bash", command="grep -q 'a + b' calc.py || { echo 'error: wrong sign'; exit 1; }"),
            use("Edit", file_path="calc.py", old_string="a - b", new_string="a + b"),
            use("Bash", command="grep -q 'a + b' calc.py || { echo 'error: wrong sign'; exit 1; }"),
            use("Todo", todos=[{"content": "write the changelog", "status": "pending"}]),
            "Fixed: 12 tests pass. " + filler(1, 6_000),
            "Right, spaces. " + filler(2, 6_000),
        ]
        async with place.open(model(steps, notes={"error": "unreachable"})) as session:
            await session.ask("Fix add in calc.py")
            await session.ask("No, don't use tabs there.")
            await settle(session)
            body = {s.heading: s.body for s in summariser.parse(notes_of(session).read_text())}
            assert body["Session title"] == "Fix add in calc.py"
            assert "No, don't use tabs there." in body["Current state"]
            assert "write the changelog" in body["Task specification"]
            assert "calc.py: changed 1×" in body["Files and functions"]
            assert "exit 0, 2 times" in body["Workflow"]
            assert "error: wrong sign" in body["Errors and corrections"]
            assert "calc.py: a + b" in body["Errors and corrections"]  # what fixed it
            assert "The user: No, don't use tabs there." in body["Errors and corrections"]
            assert "12 tests pass" in body["Key results"]
            assert "asked: Fix add in calc.py" in body["Worklog"]

    run(story)


@pytest.mark.spec("L3.3")
def test_when_the_model_fails_later_its_own_words_stay(place: Place) -> None:
    def both(request: Any) -> Any:
        written = ("Worklog", "The model's own log."), ("Current state", "Nothing is begun.")
        edits = [edit_of(request, heading, words) for heading, words in written]
        return {"tool_use": [call for edit in edits for call in edit["tool_use"]]}

    async def story() -> None:
        steps = [
            *answers(9),
            Step(both, purpose="notes"),
            Step("ok", purpose="notes"),
        ]
        scripted = model(steps, notes={"error": "unreachable"})
        async with place.open(scripted) as session:
            await talk(session, 2)
            await settle(session)
            assert "Nothing is begun." in notes_of(session).read_text()
            await talk(session, 3, first=2)
            await settle(session)
            assert len(notes_calls(scripted)) >= 3
            body = {s.heading: s.body for s in summariser.parse(notes_of(session).read_text())}
            assert body["Worklog"] == "The model's own log."
            assert question(4) in body["Current state"]  # what is stale gives way
            assert "Nothing is begun." not in body["Current state"]
            assert question(0) in body["Task specification"]  # what was empty is filled

    run(story)


@pytest.mark.spec("L3.3")
def test_notes_that_an_editor_left_in_another_encoding_are_updated_all_the_same(
    place: Place,
) -> None:
    async def story() -> None:
        failed: list[Any] = []

        def hear(event: Any) -> None:
            if event.kind == "background_changed" and event.state == "failed":
                failed.append(event)

        async with place.open(model(answers(9), notes="nothing to add"), on_event=hear) as session:
            await talk(session, 2)
            await settle(session)
            path = notes_of(session)
            path.write_bytes(path.read_bytes() + b"\nna\xefve\n")
            await talk(session, 3, first=2)
            await settle(session)
            assert failed == []
            assert question(4) in path.read_text("utf-8")

    run(story)


# ---- compaction from notes


@pytest.mark.spec("L3.5")
def test_a_compaction_from_notes_makes_no_call(place: Place) -> None:
    async def story() -> None:
        big = Capabilities(window=200_000, max_output=8_000)
        scripted = model(answers(24), can=big)
        async with place.open(scripted) as session:
            for n in range(24):
                await talk(session, 1, first=n)
                await settle(session)
            calls = len(scripted.requests)
            before = list(session.view().messages)
            done = await session.compact()
            assert done.source == "notes"
            assert len(scripted.requests) == calls
            shown = view_text(session)
            assert "# Worklog" in shown
            kept = [m for m in session.view().messages[1:] if m in before]
            texts = sum(b["type"] == "text" for m in kept for b in m["content"])
            size = sum(len(str(m)) for m in kept) // 4
            assert texts >= 4
            assert 9_000 <= size <= 41_000
            [boundary] = boundaries(session)
            assert boundary["source"] == "notes"

    run(story)


@pytest.mark.spec("L3.5")
def test_over_long_sections_are_cut_with_a_pointer_to_the_file(place: Place) -> None:
    async def story() -> None:
        big = Capabilities(window=200_000, max_output=8_000)
        long = "\n".join(f"line {n} of the log" for n in range(3_000))
        steps = [*answers(24), writes("Worklog", long), Step("ok", purpose="notes")]
        async with place.open(model(steps, can=big)) as session:
            for n in range(20):
                await talk(session, 1, first=n)
                await settle(session)
            assert (await session.compact()).source == "notes"
            shown = view_text(session)
            assert f"(cut; all of it is in {notes_of(session)})" in shown
            assert "line 2999 of the log" not in shown

    run(story)


@pytest.mark.spec("L3.5")
@pytest.mark.parametrize("doubt", ["emptied", "removed", "instructions", "switched off"])
def test_any_doubt_means_a_full_compaction(place: Place, doubt: str) -> None:
    async def story() -> None:
        big = Capabilities(window=200_000, max_output=8_000)
        config = {"compact.from_notes": doubt != "switched off"}
        scripted = model(answers(20), can=big, summary=summary())
        async with place.open(scripted, config=config) as session:
            for n in range(16):
                await talk(session, 1, first=n)
                await settle(session)
            if doubt == "emptied":
                notes_of(session).write_text(_template())
            elif doubt == "removed":
                notes_of(session).unlink()
            told = "Stress the table." if doubt == "instructions" else ""
            assert (await session.compact(told)).source == "model"

    run(story)


@pytest.mark.spec("L3.5", "L4.8")
def test_notes_that_hold_less_than_head_and_tail_give_way_to_a_full_compaction(
    place: Place,
) -> None:
    async def story() -> None:
        big = Capabilities(window=200_000, max_output=8_000)
        chatter = "\n".join(f"line {n} of the log" for n in range(3_000))
        steps = [*answers(24), writes("Worklog", chatter), Step("ok", purpose="notes")]
        config = {"compact.fidelity": 0.0, "notes.section_tokens": 8_000}
        scripted = model(steps, can=big, summary=summary())
        async with place.open(scripted, config=config) as session:
            for n in range(20):
                await session.ask(" ".join(f"field_{n}_{k}" for k in range(250)))
                await settle(session)
            assert (await session.compact()).source != "notes"

    run(story)


@pytest.mark.spec("L3.5", "L4.8")
def test_what_held_too_little_is_tried_again_only_once_the_record_is_twice_as_long(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes by the rules, and the summary of plain size: nothing is ever enough here. Who resumes
    the session knows of it, an undo takes it back, and another window is another room."""
    sizes: list[int] = []

    def made(*args: Any, budget: int, **more: Any) -> str:
        sizes.append(budget)
        return nine_parts(*args, budget=budget, **more)

    nine_parts = summariser.nine_parts
    monkeypatch.setattr(summariser, "nine_parts", made)
    config = {"compact.fidelity": 1.0}
    out = {"error": "unreachable"}

    async def compacted(session: Any, first: int, count: int) -> int:
        """How many summaries are made for a compaction after so many more questions."""
        for n in range(first, first + count):
            await session.ask(" ".join(f"field_{n}_{k}" for k in range(800)))
            await settle(session)
        sizes.clear()
        assert (await session.compact()).source == "local"
        assert sizes[-1] == max(sizes)
        return len(sizes)

    def opened(window: int = 200_000, **wishes: Any) -> Any:
        big = Capabilities(window=window, max_output=8_000)
        steps = [answer(n, 2_000) for n in range(30)]
        return place.open(model(steps, can=big, notes=out, summary=out), config=config, **wishes)

    async def story() -> None:
        async with opened() as session:
            assert await compacted(session, 0, 7) == 3  # notes, plain, twice the room
            assert await compacted(session, 7, 2) == 1
            session.undo_compact()
            session.undo_compact()
            assert await compacted(session, 9, 1) == 3
            name = session.id
        async with opened(session_id=name) as session:
            assert await compacted(session, 10, 2) == 1
            assert await compacted(session, 12, 14) == 3
        async with opened(session_id=name) as session:
            assert await compacted(session, 26, 2) == 1
        async with opened(180_000, session_id=name) as session:
            assert await compacted(session, 28, 2) == 3

    run(story)


@pytest.mark.spec("L3.5", "L3.2")
def test_an_update_that_runs_during_a_compaction_harms_neither(place: Place) -> None:
    async def story() -> None:
        go = anyio.Event()
        scripted = model(answers(16), summary=summary())
        original = scripted.complete

        async def slow_notes(request: Any, listen: Any) -> Any:
            if request.purpose == "notes" and len(notes_calls(scripted)) >= 1:
                await go.wait()
            return await original(request, listen)

        scripted.complete = slow_notes  # type: ignore[method-assign]
        async with place.open(scripted) as session:
            await talk(session, 9)
            assert "notes" in session.status().background
            done = await session.compact()
            compacted = joining.request_bytes(session.view())
            go.set()
            await settle(session)
            assert joining.request_bytes(session.view()) == compacted
            assert done.tokens_after < done.tokens_before
            await talk(session, 4, first=9)
            await settle(session)
            cursor = session.ledger.state("notes")
            assert cursor["tokens"] <= session.ledger.tokens()  # counted from the smaller view
            assert question(12) in notes_of(session).read_text()

    run(story)


# ---- the file's form

words = st.text(
    st.characters(exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=80
)


@pytest.mark.spec("L3.1")
@given(st.dictionaries(st.sampled_from(sorted(summariser.KEYS.values())), words))
def test_whatever_is_filled_in_the_frame_stays(bodies: dict[str, str]) -> None:
    safe = {k: re.sub(r"(?m)^(\s*#)", r".\1", v) for k, v in bodies.items()}
    filled = summariser.filled(_template(), safe)
    assert summariser.same_frame(_template(), filled)
    assert summariser.filled(filled, {}) == filled


@pytest.mark.spec("L3.5")
@given(st.lists(st.integers(0, 9_000), min_size=1, max_size=12), st.integers(500, 12_000))
def test_shortened_notes_fit_their_room(sizes: list[int], total: int) -> None:
    text = "\n".join(f"# Part {n}\n_i_\n\n{filler(n, size)}\n" for n, size in enumerate(sizes))
    cut = summariser.shortened(text, 2_000, total, "/notes.md")
    each = 60  # tokens of headings and pointers
    assert len(cut) / 4 <= max(total, 100 * len(sizes)) + each * len(sizes)
