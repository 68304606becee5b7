"""Nothing leaves the view on any path before it is in the ledger and was offered to extraction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.layers.talks import NO_NOTES, answers, filler, model, question, summary, talk
from tests.sessions import Place, run, use
from tests.test_turn import Probe

from lamina.errors import LedgerError
from lamina.ledger import log
from lamina.ledger.record import Ledger
from lamina.models.scripted import ScriptedModel, Step
from lamina.ports import Capabilities

LARGE = filler(77, 14_000)  # characters over every threshold of layer 1


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def texts(entries: list[Any]) -> list[str]:
    """Every text and tool result of the messages, in order."""
    found: list[str] = []
    for entry in entries:
        if entry["kind"] == "message":
            for block in entry["content"]:
                found.append(str(block.get("text") or block.get("content") or ""))
    return [words for words in found if words]


def in_view(ledger: Ledger) -> set[str]:
    return {
        str(row.block.get("text") or row.block.get("content") or "")
        for row in ledger.projection.rows
        if row.number >= 0 and not row.edit
    }


def audit(path: Path) -> int:
    """Replay the file entry by entry: whatever disappears from the view at an edit was written
    before it, whole, and an offer that covers it stands before the edit. Returns how often."""
    entries = log.read(path).entries
    ledger = Ledger.of([])
    offered = -1
    left = 0
    for position, entry in enumerate(entries):
        before = {
            (row.entry, row.number, str(row.block))
            for row in ledger.projection.rows
            if row.number >= 0 and not row.edit
        }
        ledger._take(entry)
        if entry["kind"] == "job" and entry["name"] == "extraction.offer":
            offered = ledger.projection.position[entry["cursor"]]
        after = {
            (row.entry, row.number, str(row.block))
            for row in ledger.projection.rows
            if row.number >= 0 and not row.edit
        }
        gone = before - after
        if not gone:
            continue
        left += 1
        assert entry["kind"] == "edit", f"entry {position} ({entry['kind']}) took content away"
        for at, number, block in gone:
            assert str(entries[at]["content"][number]) == block  # the record has it whole
            assert at <= offered, f"block {number} of entry {at} left before it was offered"
    return left


Path_ = Callable[[Any], Awaitable[None]]


async def by_layer_1(session: Any) -> None:
    await session.ask("a large result, please")


async def by_layer_2(session: Any) -> None:
    await session.ask("many results, please")
    session.state.deps.clock.at += 100_000
    await session.ask("after a pause")


async def by_snip(session: Any) -> None:
    await talk(session, 4)
    session.snip(1, 2, "done")


async def by_collapse(session: Any) -> None:
    await talk(session, 16)


async def by_notes(session: Any) -> None:
    for n in range(16):
        await talk(session, 1, first=n)
        with anyio.fail_after(60):
            while session.state.background.running():
                await anyio.lowlevel.checkpoint()
    assert (await session.compact()).source == "notes"


async def in_full(session: Any) -> None:
    await talk(session, 9)
    assert (await session.compact()).source == "model"


async def in_part(session: Any) -> None:
    await talk(session, 8)
    typed = [e["uuid"] for _, e in session.ledger.messages() if e["origins"] == ["typed"]]
    await session.compact(from_entry=typed[5])
    await session.compact(up_to_entry=typed[3])


async def by_overflow(session: Any) -> None:
    await talk(session, 8)
    assert (await session.ask("too long?")).text == "after all"


async def by_a_giant(session: Any) -> None:
    await session.ask(filler(5, 150_000))


async def by_undo(session: Any) -> None:
    await talk(session, 9)
    await session.compact()
    session.undo()


async def cancelled(session: Any) -> None:
    await talk(session, 9)

    async def stop() -> None:
        model_: Any = session.state.deps.model
        with anyio.fail_after(60):
            while not [r for r in model_.requests if r.purpose == "summary"]:
                await anyio.lowlevel.checkpoint()
        session.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        with pytest.raises(Exception, match="cancelled"):
            await session.compact()
    session.snip(1, 1)


PATHS: dict[str, tuple[Path_, list[Any], dict[str, Any], dict[str, Any]]] = {
    "L1": (by_layer_1, [use("Probe", "big"), "ok"], NO_NOTES, {}),
    "L2": (by_layer_2, [*(use("Probe", f"p{n}") for n in range(8)), "ok", "ok"], NO_NOTES, {}),
    "snip": (by_snip, answers(5), NO_NOTES, {}),
    "collapse": (by_collapse, answers(20), {**NO_NOTES, "collapse.enabled": True}, {}),
    "notes": (by_notes, answers(20), {}, {}),
    "full": (in_full, answers(10), NO_NOTES, {"summary": summary()}),
    "partial": (in_part, answers(10), NO_NOTES, {"summary": summary()}),
    "overflow": (
        by_overflow,
        [*answers(8), Step({"error": "prompt_too_long"}), "after all"],
        NO_NOTES,
        {"summary": summary()},
    ),
    "giant": (by_a_giant, ["ok"], NO_NOTES, {}),
    "undo": (by_undo, answers(10), NO_NOTES, {"summary": summary()}),
    "cancel": (cancelled, answers(10), NO_NOTES, {"summary": {"hang": True}}),
}
BIG = ("notes",)


def scripted_for(name: str, steps: list[Any], otherwise: dict[str, Any]) -> ScriptedModel:
    if name in BIG:
        return model(steps, can=Capabilities(window=200_000, max_output=8_000), **otherwise)
    return model(steps, **otherwise)


async def large(input: Any) -> str:
    return LARGE


@pytest.mark.spec("L4.9")
@pytest.mark.parametrize("name", PATHS)
def test_on_every_path_the_ledger_has_what_left_and_extraction_was_offered_it(
    place: Place, name: str
) -> None:
    work, steps, config, otherwise = PATHS[name]

    async def story() -> None:
        scripted = scripted_for(name, list(steps), otherwise)
        tools = [Probe(large, clearable=True)]
        async with place.open(scripted, config=config, tools=tools) as session:
            await work(session)
            path = session.folder.with_suffix(".jsonl")
            memory = texts(session.ledger.entries)
        assert texts(log.read(path).entries) == memory  # what was said is on disk, all of it
        assert audit(path) >= 1, "nothing left the view: this path was not driven"

    run(story)


@pytest.mark.spec("L4.9", "F5")
def test_a_crash_at_any_byte_of_a_compaction_leaves_the_old_view_or_the_new_one(
    place: Place,
) -> None:
    """The file is cut at each line, and in the middle of each line, that a compaction wrote."""
    (place.project / "a.txt").write_text("alpha")

    async def story() -> None:
        scripted = model([use("Read", file_path="a.txt"), *answers(9)], summary=summary())
        async with place.open(scripted, config=NO_NOTES) as session:
            await talk(session, 8)
            path = session.folder.with_suffix(".jsonl")
            size = path.stat().st_size
            await session.compact()
        data = path.read_bytes()
        added = data[size:]
        assert added.count(b'"op":"fold"') == 1
        ends = [size + n + 1 for n, byte in enumerate(added) if byte == 10]
        torn = [(a + b) // 2 for a, b in zip([size, *ends], ends, strict=False)]
        for cut in sorted([size, *ends, *torn]):
            copy = place.project.parent / "cut.jsonl"
            copy.write_bytes(data[:cut])
            ledger = Ledger.open(copy)
            shown = in_view(ledger)
            folded = ledger.projection.folds != []
            assert (question(0) in shown) is not folded
            assert texts(ledger.entries)[:17] == texts(session.ledger.entries)[:17]
            ledger.close()
            audit(copy)

    run(story)


@pytest.mark.spec("L4.9")
def test_when_the_disk_is_full_the_view_stays_as_it_was(place: Place) -> None:
    async def story() -> None:
        scripted = model(answers(9), summary=summary())
        async with place.open(scripted, config=NO_NOTES) as session:
            await talk(session, 9)
            before = list(session.view().messages)
            file = session.ledger._file
            assert file
            write = file.write

            def full(data: bytes) -> None:
                if b'"op":"fold"' in data:
                    raise LedgerError("No space left on device.")
                write(data)

            file.write = full  # type: ignore[method-assign]
            with pytest.raises(LedgerError, match="No space"):
                await session.compact()
            assert list(session.view().messages) == before
            file.write = write  # type: ignore[method-assign]
            assert (await session.compact()).source == "model"

    run(story)
