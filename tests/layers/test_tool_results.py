"""Layer 1: large results go to disk, stay readable to the byte, and never change once seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sessions import Place, run, use
from tests.test_turn import Probe

from lamina.layers.tool_results import act, head, tail
from lamina.ledger import edits, joining
from lamina.messages import tool_result, tool_use
from lamina.models.scripted import ScriptedModel, Step


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.config = {"folds.enabled": False}  # many results here have the same words
    return place


def results(session: Any) -> list[Any]:
    return [b for m in session.view().messages for b in m["content"] if b["type"] == "tool_result"]


def saying(words: Any) -> Any:
    async def work(input: Any) -> Any:
        return words[input["n"]] if isinstance(words, (list, dict)) else words

    return work


@pytest.mark.spec("L1.1", "L1.5", "F7")
def test_a_large_result_goes_to_disk_with_a_preview_and_can_be_read_back_whole(
    place: Place,
) -> None:
    whole = "".join(f"line {n} äöü\n" for n in range(6_000))

    async def story() -> None:
        steps = [
            use("Probe", "call1", n=0),
            Step("seen", {"last_result": ["<persisted-output>", "call1.txt"]}),
        ]
        async with place.open(steps, tools=[Probe(saying([whole]))]) as session:
            reply = await session.ask("go")
            [block] = results(session)
            path = session.folder / "tool-results" / "call1.txt"
            assert path.read_text("utf-8") == whole
            assert str(path) in block["content"]
            preview = block["content"].split("It begins:\n")[1].rsplit("\n…", 1)[0]
            assert 1_000 <= len(preview.encode()) <= 2_000
            assert whole.startswith(preview + "\n")  # cut at a line end
            [acted] = [e for e in reply.events if e.kind == "layer_acted"]
            assert acted.layer == "tool_results"
            assert acted.tokens_saved > 15_000
            back = await session.state.deps.toolbox.run(
                "Read", {"file_path": str(path), "limit": 3}, session.state.tools
            )
            assert "line 2 äöü" in back.content

    run(story)


@pytest.mark.spec("L1.1")
@pytest.mark.parametrize(
    ("tool", "size", "moved"),
    [
        ("Bash", 30_001, True),
        ("Bash", 30_000, False),
        ("Grep", 20_001, True),
        ("Grep", 20_000, False),
        ("Read", 90_000, False),
        ("Other", 50_001, True),
        ("Other", 50_000, False),
    ],
)
def test_each_tool_has_its_own_threshold(place: Place, tool: str, size: int, moved: bool) -> None:
    async def story() -> None:
        async with place.open(
            [use("Probe", n=0), "ok"], tools=[Probe(saying("x" * size))]
        ) as session:
            session.state.deps.toolbox._tools[tool] = Probe(saying("x" * size), tool)
            session.state.deps.toolbox._tools.pop("Probe")
            session.state.deps.model._steps[0].reply["tool_use"][0]["name"] = tool
            await session.ask("go")
            assert ("<persisted-output>" in results(session)[0]["content"]) is moved

    run(story)


@pytest.mark.spec("L1.1", "F8")
def test_a_threshold_can_be_overridden_by_tool_but_never_above_the_default(place: Place) -> None:
    async def story() -> None:
        config = {"tool_results.thresholds": {"Probe": 100}}
        async with place.open(
            [use("Probe", n=0), "ok"], tools=[Probe(saying("word " * 2_000))], config=config
        ) as session:
            await session.ask("go")
            assert "<persisted-output>" in results(session)[0]["content"]
        async with place.open(
            [use("Big", n=0), "ok"], tools=[Probe(saying("x" * 60_000), "Big", threshold=90_000)]
        ) as session:
            await session.ask("go")
            assert "<persisted-output>" in results(session)[0]["content"]

    run(story)


@pytest.mark.spec("L1.2")
def test_the_results_of_one_message_stay_under_their_limit_largest_first(place: Place) -> None:
    sizes = [49_000, 45_000, 48_000, 47_000, 46_000]

    async def story() -> None:
        calls = [{"name": "Probe", "input": {"n": n}, "id": f"c{n}"} for n in range(5)]
        async with place.open(
            [{"tool_use": calls}, "ok"], tools=[Probe(saying(["x" * s for s in sizes]))]
        ) as session:
            await session.ask("go")
            by_call = {b["tool_use_id"]: b["content"] for b in results(session)}
            moved = {name for name, content in by_call.items() if "<persisted-output>" in content}
            assert moved == {"c0"}
            assert sum(map(len, by_call.values())) <= 200_000

    run(story)


@pytest.mark.spec("L1.2")
@pytest.mark.parametrize(
    ("sizes", "gone"),
    [
        (
            (26_000, 55_000, 35_000, 29_000, 25_000, 46_000),
            {"c5"},
        ),  # asked for last, nearly as large
        ((26_000, 56_000, 30_000, 60_000, 38_000), {"c3"}),  # size tells more than one place
        ((49_000,) * 5, {"c4"}),
        ((60_000, 60_000, 60_000, 60_000, 60_000), {"c4", "c3"}),  # no more than must go
    ],
)
def test_of_files_that_together_are_too_long_one_asked_for_late_goes(
    place: Place, sizes: tuple[int, ...], gone: set[str]
) -> None:
    async def story() -> None:
        calls = [{"name": "Probe", "input": {"n": n}, "id": f"c{n}"} for n in range(len(sizes))]
        async with place.open(
            [{"tool_use": calls}, "ok"],
            tools=[Probe(saying(["x" * size for size in sizes]))],
            config={"tool_results.thresholds": {"Probe": 0}},
        ) as session:
            await session.ask("go")
            by_call = {b["tool_use_id"]: b["content"] for b in results(session)}
            moved = {name for name, content in by_call.items() if "<persisted-output>" in content}
            assert moved == gone
            assert sum(map(len, by_call.values())) <= 200_000

    run(story)


@pytest.mark.spec("L1.2")
def test_what_a_command_printed_leaves_a_message_before_any_file(place: Place) -> None:
    sizes = [90_000, 90_000, 28_000]

    async def story() -> None:
        names = ["Probe", "Probe", "Shell"]
        calls = [{"name": name, "input": {"n": n}, "id": f"c{n}"} for n, name in enumerate(names)]
        words = saying(["x" * size for size in sizes])
        async with place.open(
            [{"tool_use": calls}, "ok"],
            tools=[Probe(words), Probe(words, "Shell")],
            config={"tool_results.thresholds": {"Probe": 0}},
        ) as session:
            await session.ask("go")
            moved = [b["tool_use_id"] for b in results(session) if "<persisted" in b["content"]]
            assert moved == ["c2"]

    run(story)


@pytest.mark.spec("L1.3")
def test_what_the_model_saw_whole_stays_whole_and_what_was_moved_keeps_its_bytes(
    place: Place,
) -> None:
    async def story() -> None:
        config = {"tool_results.thresholds": {"Probe": 0}}
        async with place.open(
            [use("Probe", n=0), "ok"], tools=[Probe(saying("y" * 70_000))], config=config
        ) as session:
            await session.ask("go")
        # Now the threshold would move it, but it was seen.
        steps = [use("Probe", n=0), Step("ok", {"prefix": True})]
        model = ScriptedModel(steps)
        async with place.open(model, tools=[Probe(saying("z" * 70_000))], resume=True) as again:
            await again.ask("more")
            first, second = results(again)
            assert first["content"] == "y" * 70_000
            assert "<persisted-output>" in second["content"]
            before = joining.request_bytes(again.view())
            branch = again.ledger.branch()
            assert joining.request_bytes(branch.view()) == before
        async with place.open([], resume=True) as third:
            assert joining.request_bytes(third.view()) == before

    run(story)


@pytest.mark.spec("L1.4")
def test_images_stay_empty_results_say_so_and_failures_keep_their_end(place: Place) -> None:
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "A" * 90_000},
    }

    async def work(input: Any) -> Any:
        from lamina.ports import ToolOutcome

        if input["n"] == 0:
            return ToolOutcome([image])
        if input["n"] == 1:
            return ToolOutcome("")
        return ToolOutcome("start\n" + "noise\n" * 20_000 + "the real error\n", is_error=True)

    async def story() -> None:
        calls = [{"name": "Probe", "input": {"n": n}, "id": f"c{n}"} for n in range(3)]
        async with place.open([{"tool_use": calls}, "ok"], tools=[Probe(work)]) as session:
            await session.ask("go")
            by_call = {b["tool_use_id"]: b for b in results(session)}
            assert by_call["c0"]["content"] == [image]
            assert by_call["c1"]["content"] == "(Probe gave no output)"
            assert by_call["c2"]["is_error"] is True
            assert "start" in by_call["c2"]["content"]
            assert "the real error" in by_call["c2"]["content"]

    run(story)


@pytest.mark.spec("L1.1")
def test_a_preview_ends_with_a_line_unless_that_would_cost_half_of_it() -> None:
    early, late = b"short\n" + b"x" * 200, b"x" * 60 + b"\n" + b"y" * 200
    assert head(early, 100) == early[:100].decode()
    assert head(late, 100) == "x" * 60
    assert tail(early[::-1], 100) == early[::-1][-100:].decode()
    assert tail(late[::-1], 100) == "x" * 60
    assert head(b"a\nb", 100) == "a\nb"


@pytest.mark.spec("L1.1")
def test_a_result_that_is_shorter_than_its_preview_would_be_stays(place: Place) -> None:
    async def story() -> None:
        config = {"tool_results.threshold": 1_000}
        tools = [Probe(saying(["x" * 1_500]))]
        async with place.open(
            [use("Probe", "a", n=0), "ok"], tools=tools, config=config
        ) as session:
            await session.ask("go")
            assert results(session)[0]["content"] == "x" * 1_500
            assert not (session.folder / "tool-results").exists()

    run(story)


@pytest.mark.spec("L1.2")
@pytest.mark.parametrize(("more", "moved"), [(0, 0), (1, 1)])
def test_results_that_just_fill_a_message_stay(place: Place, more: int, moved: int) -> None:
    async def story() -> None:
        config = {"tool_results.message_limit": 20_000}
        tools = [Probe(saying(["x" * 10_000, "y" * (10_000 + more)]))]
        steps = [{"tool_use": [use("Probe", n, n=at)["tool_use"][0] for at, n in enumerate("ab")]}]
        async with place.open([*steps, "ok"], tools=tools, config=config) as session:
            await session.ask("go")
            told = [block["content"] for block in results(session)]
            assert sum("<persisted-output>" in words for words in told) == moved

    run(story)


@pytest.mark.spec("L1.3")
def test_what_was_moved_is_not_moved_again_before_it_was_sent(place: Place) -> None:
    async def story() -> None:
        config = {"tool_results.message_limit": 1_000}
        async with place.open(["ok"], tools=[Probe(saying([]))], config=config) as session:
            await session.ask("go")
            state = session.state
            state.ledger.append(
                edits.message("assistant", [tool_use("a", "Probe", {})], "assistant"),
                edits.message("user", [tool_result("a", "x" * 60_000)], "tool", tool="Probe"),
            )
            act(state)
            [first] = results(session)
            act(state)
            [again] = results(session)
            assert first == again
            assert (session.folder / "tool-results" / "a.txt").stat().st_size == 60_000

    run(story)


@pytest.mark.spec("F8")
def test_switched_off_it_leaves_everything_as_it_is(place: Place) -> None:
    async def story() -> None:
        config = {"tool_results.enabled": False}
        async with place.open(
            [use("Probe", n=0), "ok"], tools=[Probe(saying("x" * 99_000))], config=config
        ) as session:
            await session.ask("go")
            assert results(session)[0]["content"] == "x" * 99_000
            assert not [e for e in session.ledger.entries if e["kind"] == "edit"]

    run(story)


@pytest.mark.spec("L1.1", "F11")
def test_a_disk_that_can_t_take_it_is_booked_and_the_result_stays(place: Place) -> None:
    async def story() -> None:
        async with place.open(
            [use("Probe", n=0), "ok"], tools=[Probe(saying("x" * 99_000))]
        ) as session:
            session.folder.parent.mkdir(parents=True, exist_ok=True)
            session.folder.write_text("a file where the folder should be")
            reply = await session.ask("go")
            assert reply.text == "ok"
            [failed] = [e for e in reply.events if e.kind == "layer_failed"]
            assert "Can't keep a tool result" in failed.error
            assert results(session)[0]["content"] == "x" * 99_000
            assert any(e["kind"] == "event" for e in session.ledger.entries)

    run(story)


@pytest.mark.spec("L1.1")
def test_an_id_that_is_no_file_name_never_leaves_the_folder(place: Place) -> None:
    async def story() -> None:
        step = {"tool_use": [{"name": "Probe", "input": {"n": 0}, "id": "../../evil/../x"}]}
        async with place.open([step, "ok"], tools=[Probe(saying("x" * 99_000))]) as session:
            await session.ask("go")
            [file] = (session.folder / "tool-results").iterdir()
            assert file.stat().st_size == 99_000

    run(story)


@pytest.mark.spec("L1.1")
@given(st.text(max_size=400), st.integers(10, 200))
def test_previews_are_parts_of_the_text_cut_at_lines_when_that_costs_less_than_half(
    text: str, size: int
) -> None:
    data = text.encode("utf-8", "replace")
    begin, end = head(data, size), tail(data, size)
    assert data.startswith(begin.encode())
    assert data.endswith(end.encode())
    assert len(begin.encode()) <= size
    if len(data) > size and b"\n" in data[size // 2 : size]:
        assert data[len(begin.encode()) : len(begin.encode()) + 1] == b"\n"


# What a command may do to the files, $R being their folder.
TAMPERING = {
    "other bytes": "echo EVIL > $R/big.txt",
    "other bytes of the same length": "printf X | dd of=$R/big.txt conv=notrunc",
    "old times": "printf X | dd of=$R/big.txt conv=notrunc; touch -d @1 $R/big.txt",
    "gone": "rm -r $R",
    "a link": "echo EVIL > evil; ln -sf $PWD/evil $R/big.txt",
    "a link as folder": "mkdir e; echo EVIL > e/big.txt; rm -r $R; ln -s $PWD/e $R",
    "not to be read": "chmod 0 $R/big.txt",
    "moved away": "mv $R $R.old; mkdir $R; echo EVIL > $R/big.txt",
}


@pytest.mark.spec("L1.5")
@pytest.mark.parametrize("how", TAMPERING)
@pytest.mark.parametrize("place_of_home", ["elsewhere", "inside the project", "no sandbox"])
def test_a_result_on_disk_is_read_back_whole_whatever_a_command_did_to_it(
    place: Place, how: str, place_of_home: str
) -> None:
    if place_of_home == "inside the project":
        place.home = place.project / "home"
    config: dict[str, Any] = {}
    if place_of_home == "no sandbox":
        config = {"sandbox.profile": "full", "permissions.allow": ["Bash"]}
    whole = "".join(f"line {n}\n" for n in range(9_000))

    async def story() -> None:
        attack = "R=$(dirname $TMPDIR)/tool-results\n" + TAMPERING[how]
        steps = [use("Probe", "big", n=0), use("Bash", "attack", command=attack), "ok"]
        async with place.open(steps, tools=[Probe(saying([whole]))], config=config) as session:
            reply = await session.ask("go")
            file = session.folder / "tool-results" / "big.txt"
            assert file.read_bytes() == whole.encode()
            assert not file.is_symlink()
            assert not file.parent.is_symlink()
            told = [
                e.message for e in reply.events if e.kind == "warned" and "put back" in e.message
            ]
            if how != "not to be read":  # root reads it nevertheless
                assert len(told) == (place_of_home != "elsewhere")

    run(story)


@pytest.mark.spec("L1.5")
def test_a_resumed_session_finds_its_results_as_they_were(place: Place) -> None:
    whole = "".join(f"line {n}\n" for n in range(9_000))

    async def story() -> None:
        async with place.open(
            [use("Probe", "big", n=0), "ok"], tools=[Probe(saying([whole]))]
        ) as session:
            await session.ask("go")
            file, id_ = session.folder / "tool-results" / "big.txt", session.id
        file.write_text("EVIL")
        read = use("Read", "back", file_path=str(file), limit=1)
        async with place.open([read, "ok"], resume=id_) as session:
            await session.ask("read it")
            assert "line 0" in results(session)[-1]["content"]
        assert file.read_text() == whole

    run(story)
