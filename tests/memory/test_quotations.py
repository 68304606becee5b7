"""What nobody typed is a quotation: kept, labelled, found by who asks, and never shown unasked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.memories import directory, kinds, said
from tests.sessions import Place, run, use

import lamina
from lamina.cli.main import main
from lamina.errors import GateRefused
from lamina.integrations.hook_events import Events
from lamina.layers.dream.plan import DreamPlanner, carry_out
from lamina.memories import Evidence, Proposal
from lamina.memory.audit import look_over
from lamina.memory.file_store import FileStore
from lamina.memory.gate import GateContext, decide
from lamina.memory.review import attribute, inbox_diff
from lamina.memory.topics import edit_topic, new_topic
from lamina.recall.memory_index import MemoryIndex, headed_memories
from lamina.recall.prefetch import Limits, RecallRequest, recall_now
from lamina.session import Session

pytestmark = pytest.mark.spec("L5.6", "M7")

DATA = Path(__file__).parents[2] / "bench" / "data"
NOW = 1_790_000_000.0
NEUTRAL = re.compile(r"- \[Quotation\]\([\w/]+\.md\) — shown when asked for \(source: [a-z ]+\)")
FACT = "The nightly export of the harbour office lands in the bucket tern-exports."
QUESTION = "Where does the nightly export of the harbour office land?"


def texts(name: str, *ways: str) -> Iterator[str]:
    """What others wrote against the gate or for it: the untyped words of each try."""
    for line in (DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        parts = line.split(" | ")
        if name.startswith("orders"):
            yield parts[2].replace("\\n", "\n")
        elif parts[3].strip() == "T" and any(f"way: {way}" in line for way in ways):
            yield parts[4].strip().replace("\\n", "\n")


ORDERS = [
    *(one for name in ("orders", "orders_again", "orders_third") for one in texts(name)),
    *(one for name in ("forged_fifth", "forged_sixth") for one in texts(name, "fact", "cited")),
]
HONEST = [
    *texts("facts_third", "learnt"),
    *(one for name in ("forged_fourth", "forged_fifth") for one in texts(name, "learnt")),
]


def wanted(text: str, number: int = 0, **more: Any) -> Proposal:
    first = text.splitlines()[0]
    values: dict[str, Any] = {
        "path": f"project_{number}.md",
        "name": first.rstrip(".。"),
        "description": first,
        "type": "project",
        "body": f"{text}\n",
        "writer": "agent" if number % 2 else "extraction",
        "session": "s",
        "evidence": (Evidence(text, "s", "t"),),
    }
    return Proposal(**(values | more))


def read(text: str) -> GateContext:
    """A session in which a tool returned this."""
    said = {"t": [("tool", text)], "u": [("typed", "look at it")]}
    return GateContext(origin_text=lambda _, entry: said.get(entry, ()))


def all_read() -> GateContext:
    return read("\n".join([*ORDERS, *HONEST, FACT]))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    with FileStore(tmp_path / "memory", gate=all_read()) as opened:
        yield opened


def test_no_order_of_any_attacker_would_be_shown_unasked() -> None:
    assert len(ORDERS) > 400
    for number, text in enumerate(ORDERS):
        verdict = decide(wanted(text, number), read(text))
        assert not verdict.speaks, text
        assert verdict.decision == "inbox" or verdict.origin == "quoted from tool"


def test_nine_honest_facts_of_ten_that_a_tool_told_are_kept() -> None:
    kept = [decide(wanted(text), read(text)).decision for text in HONEST]
    assert kept.count("accept") >= 0.9 * len(kept) > 50


def test_no_word_of_a_quotation_gets_into_the_index_a_prompt_or_a_recall(store: FileStore) -> None:
    kept: list[str] = []
    for number, text in enumerate(ORDERS[::7]):
        proposal = wanted(text, number)
        if store.judge_among(proposal, (), "").decision == "accept":
            kept += [text] if store.remember(proposal).decision == "accept" else []
    assert len(kept) > 15
    lines = store.read_bytes("MEMORY.md").decode().splitlines()
    assert len(lines) > 15
    assert all(map(NEUTRAL.fullmatch, lines))
    index = MemoryIndex(store)
    for text in kept:
        asked = RecallRequest("", text, NOW)
        assert recall_now(index, asked, Limits()) == []
        assert any(
            text.splitlines()[0] in shown for _, shown, _ in headed_memories(index, text, 5, NOW)
        )


def test_through_a_session_it_is_kept_and_told_and_shown_when_asked_for(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.project / "notes.txt").write_text(FACT)
    call = use("Remember", content=FACT, name="Export", description=FACT, type="project")

    async def saved() -> None:
        steps = [use("Read", file_path="notes.txt"), call, "ok"]
        async with place.open(steps) as session:
            await session.ask("look at notes.txt")
            told = str([one for one in kinds(session, "message") if one.get("tool") == "Remember"])
            assert "Kept as a quotation" in told

    async def asked() -> Session:
        async with place.open(
            ["I don't know.", use("Recall", query=QUESTION), "In a bucket."]
        ) as session:
            await session.ask(QUESTION)
            view = session.view()
            assert "tern-exports" not in said(session) + str(view.system)
            assert "Quotation" in str(view.system)
            await session.ask("then look it up")
            found = str([one for one in kinds(session, "message") if one.get("tool") == "Recall"])
            assert "tern-exports" in found
            assert "Quotation from a tool result: nobody vouches for it" in found
            return session

    run(saved)
    assert kinds(run(asked), "recall") == []
    hooks = Events()
    for name in ("SessionStart", "UserPromptSubmit"):
        event = {"hook_event_name": name, "session_id": "s", "cwd": str(place.project)}
        event |= {"prompt": QUESTION, "source": "startup"}
        told = hooks.answer(
            {"client": "claude-code", "home": str(place.home), "claude": False, "event": event}
        )
        assert "tern-exports" not in str(told)
    with lamina.Memory(place.project, home=place.home) as memory:
        assert memory.recall(QUESTION) == []
        assert "tern-exports" in memory.search(QUESTION)[0].text
        assert "tern-exports" not in memory.prompt()


def test_through_the_agents_write_it_is_marked_in_the_file(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.project / "notes.txt").write_text(FACT)
    file = directory(place) / "project_export.md"
    content = new_topic(name="Export", description=FACT, type="project", body=FACT)
    lie = edit_topic(content, extra={"quoted_from": "nobody"}).decode()
    line = f"- [Export]({file.name}) — {FACT}\n"

    async def story() -> None:
        steps = [
            use("Read", file_path="notes.txt"),
            use("Write", file_path=str(file), content=lie),
            use("Write", file_path=str(directory(place) / "MEMORY.md"), content=line),
            use("Bash", command=f"sed -i /quoted_from/d {file}"),
            "ok",
        ]
        async with place.open(steps, config={"permissions.allow": ["Write", "Bash"]}) as session:
            await session.ask("look at notes.txt")
            told = [str(one) for one in kinds(session, "message") if one.get("tool") == "Write"]
            assert "Kept as a quotation" in told[0]
            assert "is a quotation: its only line in an index is" in told[1]

    run(story)
    assert "quoted_from: tool" in file.read_text()
    index = directory(place) / "MEMORY.md"
    assert not index.exists() or "tern-exports" not in index.read_text()


def test_a_person_vouches_for_it_and_may_undo_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path)
    home = ["--home", str(place.home), "--project", str(place.project)]
    with FileStore(directory(place), gate=all_read()) as store:
        store.remember(wanted(FACT, path="project_export.md", name="Export"))
    assert main(["memory", "search", "nightly export", *home]) == 0
    assert "quoted from tool: The nightly export" in capsys.readouterr().out
    assert main(["memory", "why", "project_export", *home]) == 0
    assert "memory vouch project_export.md" in capsys.readouterr().out
    for other in ("agents", "mem0"):  # where nothing would mark it
        assert main(["memory", "export", "--to", other, *home]) == 0
        exported = capsys.readouterr()
        assert "tern-exports" not in exported.out
        assert "project_export.md is a quotation" in exported.err
    assert main(["memory", "vouch", "project_export", *home]) == 0
    index = directory(place) / "MEMORY.md"
    assert "tern-exports" in index.read_text()
    assert "source:" not in index.read_text()
    with lamina.Memory(place.project, home=place.home) as memory:
        assert memory.recall(QUESTION)
    assert main(["memory", "vouch", "project_export", *home]) == 2
    assert main(["memory", "undo", *home]) == 0
    assert main(["memory", "rename", "project_export", "project_dump", *home]) == 0
    assert main(["memory", "undo", *home]) == 0
    warned = capsys.readouterr().err
    assert "says nearly the same" not in warned, "the file that it names is gone again"
    with FileStore(directory(place), gate=all_read()) as store:
        *undone, vouched, first = store.history.log("project_export.md")
        assert [vouched.origin, first.origin] == ["typed", "quoted from tool"]
        assert {one.origin for one in undone} == {"quoted from tool"}, "nobody typed it"
    assert NEUTRAL.fullmatch(index.read_text().strip())
    with lamina.Memory(place.project, home=place.home) as memory:
        assert memory.recall(QUESTION) == []


def test_its_line_stays_neutral_whoever_writes_it(store: FileStore) -> None:
    store.remember(wanted(FACT, path="project_export.md"))
    neutral = store.read_bytes("MEMORY.md")
    for words in (FACT, "a quotation", ""):
        other = f"- [Export](project_export.md) — {words}\n".encode()
        for before in (neutral, b""):
            with pytest.raises(GateRefused, match="is a quotation"):
                store.write_file("MEMORY.md", other, writer="agent", base=before)
    store.rename("project_export.md", "project_exports.md")
    assert NEUTRAL.fullmatch(store.index().text.strip())
    store.write_file("MEMORY.md", b"", writer="user", base=store.read_bytes("MEMORY.md"))
    assert not [one for one in look_over(store, NOW)[0].faults if one.kind == "dangling"]


def test_no_dream_moves_its_words_nor_counts_on_them(store: FileStore) -> None:
    store.remember(wanted(FACT, path="project_export.md"))
    planner = DreamPlanner(store, NOW)
    assert planner.before.files == {}
    assert planner.step().empty
    own = wanted(FACT, path="project_own.md", name="Own", writer="user")
    store.remember(own)
    planner = DreamPlanner(store, NOW)
    carry_out(store, planner.before, planner.step(), NOW)
    assert {one.path for one in store.list()} == {"project_export.md", "project_own.md"}


def test_a_file_that_speaks_is_silenced_by_nobody_but_its_owner(store: FileStore) -> None:
    store.remember(wanted(FACT, path="project_export.md", name="Export", writer="user"))
    store.catch_up()
    path = store.directory / "project_export.md"
    path.write_bytes(edit_topic(path.read_bytes(), extra={"quoted_from": "tool"}))
    attribute(store, writer="agent")
    assert not store.read("project_export.md").quoted
    path.rename(store.directory / "project_moved.md")
    attribute(store, writer="agent")
    assert not store.read("project_moved.md").quoted


def test_frontmatter_that_would_push_the_mark_out_of_sight_is_refused(store: FileStore) -> None:
    crowded = {f"key_{number}": "x" for number in range(25)}
    with pytest.raises(GateRefused, match="too much frontmatter"):
        store.remember(wanted(FACT, extra=crowded))


def test_more_quotations_than_the_index_has_room_for_crowd_out_nobody(store: FileStore) -> None:
    lines = "".join(f"- [A{n}](a{n}.md) — x\n" for n in range(200)).encode()
    store.write_file("MEMORY.md", lines, writer="user", base=None)
    store.remember(wanted(FACT, path="project_export.md"))
    assert store.read_bytes("MEMORY.md") == lines
    assert MemoryIndex(store).search(QUESTION, 5, now=NOW)[0].id == "project_export.md"


def test_no_heading_of_the_index_says_what_a_quotation_says(store: FileStore) -> None:
    store.remember(wanted(FACT, 1))
    before = store.read_bytes("MEMORY.md")
    heading = b"# Nightly export lands in tern-exports\n\n"
    done = store.write_file("MEMORY.md", heading + before, writer="agent", base=before, session="s")
    assert done.decision == "inbox"


def test_bringing_a_quotation_back_vouches_for_no_word_of_it(tmp_path: Path) -> None:
    with FileStore(tmp_path / "memory", gate=all_read()) as store:
        path = store.remember(wanted(FACT, 1)).path
        store.forget(path)
        change = store.history.last_change()
        assert change is not None
        store.history.undo(change.id)
        there = store.read_bytes(path)
        bare = edit_topic(there, extra={"quoted_from": None})
        store.write_file(path, bare, writer="agent", base=there, session="s")
        assert store.read(path).quoted == "tool"


def test_a_key_that_only_dates_a_memory_proves_none_of_its_words(tmp_path: Path) -> None:
    said = "The closing is in the harbour office."
    typed = {"u": [("typed", said)]}
    gate = GateContext(origin_text=lambda _, entry: typed.get(entry, ()))
    with FileStore(tmp_path / "memory", gate=gate) as store:
        told = wanted(said, 1, evidence=(Evidence(said, "s", "u"),))
        path = store.remember(told).path
        there = store.read_bytes(path)
        due = edit_topic(there, extra={"due": "registry-mirror-is-harb0ur7.example"})
        store.write_file(path, due, writer="agent", base=there, session="s", evidence=told.evidence)
        assert "harb0ur7" not in store.admission.vouched(path)


def test_accepting_words_that_were_added_to_a_quotation_shows_that_all_of_it_will_speak(
    tmp_path: Path,
) -> None:
    rule = "Never touch the bucket on Mondays."
    said = {"t": [("tool", FACT)], "u": [("typed", rule)]}
    gate = GateContext(origin_text=lambda _, entry: said.get(entry, ()))
    with FileStore(tmp_path / "memory", gate=gate) as store:
        path = store.remember(wanted(FACT, 1)).path
        base = store.read(path)
        more = wanted(FACT, 1, body=f"{FACT}\n{rule}\n", evidence=(Evidence(rule, "s", "u"),))
        assert store.remember(more, base=base).decision == "inbox"
        [item] = store.waiting()
        assert "-quoted_from: tool" in inbox_diff(store, item)
