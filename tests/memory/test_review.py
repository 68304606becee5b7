"""The inbox, and changes that tools made behind the store's back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lamina.errors import Conflict, GateRefused, InboxFull, UsageError
from lamina.memories import LABEL, Evidence, Outcome, Proposal, Verdict
from lamina.memory.file_store import FileStore
from lamina.memory.gate import GateContext
from lamina.memory.inbox import Inbox
from lamina.memory.review import accept, attribute, inbox_diff, reject
from lamina.memory.topics import new_topic
from lamina.messages import Origin
from lamina.testing import a_memory

pytestmark = pytest.mark.spec("L5.6")

UNPROVEN = a_memory(
    "user_taste.md",
    type="user",
    name="Taste",
    description="Likes tabs",
    body="The user likes tabs.",
    writer="extraction",
)


def unproven(number: int) -> Proposal:
    words = ("tabs", "spaces", "tea", "long walks", "short functions")[number]
    return replace(
        UNPROVEN, path=f"user_{number}.md", description=f"Likes {words}", body=f"Likes {words}."
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    with FileStore(tmp_path / "memory") as opened:
        yield opened


def test_a_claim_about_the_user_without_evidence_waits_with_a_diff(store: FileStore) -> None:
    outcome = store.write(UNPROVEN)
    assert outcome.decision == "inbox"
    assert "inbox" in outcome.sentence
    assert list(store.list()) == []
    item = store.inbox.get(outcome.inbox_id)
    assert "+The user likes tabs." in inbox_diff(store, item)


def test_accepting_is_the_users_own_write(store: FileStore) -> None:
    item_id = store.write(UNPROVEN).inbox_id
    accept(store, item_id[:10])
    assert store.read("user_taste.md").body == "The user likes tabs."
    assert "(user_taste.md)" in store.index().text
    assert store.inbox.items() == []
    store.catch_up()
    commit = next(store.journal.history.log("user_taste.md"))
    assert (commit.writer, commit.reason) == ("user", "proposed by extraction, accepted")


def test_an_item_may_be_edited_before_it_is_accepted(store: FileStore) -> None:
    item_id = store.write(UNPROVEN).inbox_id
    edited = b"---\nname: Taste\ndescription: Likes spaces\ntype: user\n---\n\nSpaces.\n"
    accept(store, item_id, edited=edited)
    assert store.read_bytes("user_taste.md") == edited


def test_an_update_in_the_inbox_merges_with_what_was_written_since(store: FileStore) -> None:
    body = "one\ntwo\nthree\nfour"
    store.write(replace(UNPROVEN, writer="user", body=body))
    base = store.read(UNPROVEN.path)
    waiting = store.write(
        replace(UNPROVEN, body=body + "\nThe user hates tea."), base=base
    ).inbox_id
    assert waiting
    store.write(replace(UNPROVEN, writer="user", body="ONE\ntwo\nthree\nfour"), base=base)
    accept(store, waiting)
    assert store.read(UNPROVEN.path).body == "ONE\ntwo\nthree\nfour\nThe user hates tea."


def test_an_update_that_no_longer_fits_is_a_conflict_and_stays(store: FileStore) -> None:
    store.write(replace(UNPROVEN, writer="user", body="one"))
    base = store.read(UNPROVEN.path)
    waiting = store.write(replace(UNPROVEN, body="The user hates tea."), base=base).inbox_id
    store.write(replace(UNPROVEN, writer="user", body="ONE"), base=base)
    with pytest.raises(Conflict):
        accept(store, waiting)
    assert len(store.inbox.items()) == 1
    assert store.read(UNPROVEN.path).body == "ONE"


@pytest.mark.spec("M10")
def test_what_was_rejected_is_not_proposed_again(store: FileStore) -> None:
    reject(store, store.write(UNPROVEN).inbox_id)
    assert store.inbox.items() == []
    with pytest.raises(GateRefused, match="rejected"):
        store.write(replace(UNPROVEN, path="other.md"))


def test_a_full_inbox_keeps_what_waits_and_says_so(tmp_path: Path) -> None:
    with FileStore(tmp_path / "memory", inbox_most=3) as store:
        first = [store.write(unproven(number)).inbox_id for number in range(3)]
        with pytest.raises(InboxFull, match=r"full: 3 memories wait .* `lamina memory inbox`"):
            store.write(unproven(3))
        assert store.write(unproven(1)).inbox_id == first[1], "what waits already is no new item"
        assert [item.id for item in store.inbox.items()] == first
        reject(store, first[0])
        assert store.write(unproven(3)).decision == "inbox"
        (store.state / "inbox" / "damaged.json").write_text("{")
        store.inbox.remove(store.inbox.items()[0])
        with pytest.raises(InboxFull):
            store.write(unproven(4))


def test_large_proposals_fill_the_inbox_as_well(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "inbox", most_bytes=5_000)
    waits = Verdict("inbox", "why")
    inbox.add(replace(UNPROVEN, body="x" * 3_000), waits, base=None, exact=None)
    with pytest.raises(InboxFull):
        inbox.add(replace(UNPROVEN, body="y" * 3_000), waits, base=None, exact=None)
    assert len(inbox.items()) == 1
    inbox.close()


def test_what_a_tool_wrote_by_itself_goes_back_when_the_inbox_is_full(tmp_path: Path) -> None:
    with FileStore(tmp_path / "memory", inbox_most=1) as store:
        store.write(unproven(0))
        store.remember(a_memory("plain.md"))
        store.catch_up()
        content = b"---\nname: Taste\ndescription: Likes tea\ntype: user\n---\n\nTea.\n"
        (store.directory / "user_tea.md").write_bytes(content)
        [outcome] = attribute(store, writer="agent")
        assert isinstance(outcome, InboxFull)
        assert not (store.directory / "user_tea.md").exists()


def test_an_unknown_item_is_named(store: FileStore) -> None:
    for wrong in ("", "ffff"):
        with pytest.raises(UsageError, match="inbox"):
            accept(store, wrong)


@pytest.mark.spec("M9")
def test_what_a_tool_wrote_by_itself_is_attributed_and_gated(store: FileStore) -> None:
    store.remember(a_memory("old.md", body="As it was."))
    store.catch_up()
    fine = (
        "---\nname: Build\ndescription: Build time\ntype: project\n---\n\nIt takes nine minutes.\n"
    )
    (store.directory / "build.md").write_text(fine)
    (store.directory / "Bad Name.md").write_text(fine.replace("nine", "ten"))
    claim = "---\nname: T\ndescription: taste\ntype: user\n---\n\nThe user likes tabs.\n"
    (store.directory / "taste.md").write_text(claim)
    before = store.read_bytes("old.md")
    (store.directory / "old.md").write_bytes(before + "hidden\u202e".encode())
    outcomes = attribute(store, writer="agent", reason="Bash")
    refused = [str(outcome) for outcome in outcomes if isinstance(outcome, GateRefused)]
    judged = {one.path: one.decision for one in outcomes if not isinstance(one, GateRefused)}
    assert judged == {"build.md": "accept", "taste.md": "inbox"}
    assert len(refused) == 2
    assert sorted(file.name for file in store.directory.iterdir()) == [
        "MEMORY.md",
        "build.md",
        "old.md",
    ]
    assert store.read_bytes("old.md") == before
    assert store.catch_up() == []
    commit = next(store.journal.history.log("build.md"))
    assert (commit.writer, commit.reason) == ("agent", "Bash")
    for one in store.journal.history.log():
        for change in store.journal.history.changes(one.id):
            assert b"hidden" not in (change.after or b"")


@pytest.mark.spec("M9")
def test_a_wish_that_a_tool_carried_out_by_itself_lifts_the_tombstone(tmp_path: Path) -> None:
    wish = "Remember that I like tea with lemon."

    def blocks(_session: str, _entry: str) -> list[tuple[Origin, str]]:
        return [("typed", wish)]

    gate = GateContext(origin_text=blocks, said_at=lambda _session, _entry: time.time() + 60)
    words = b"---\nname: topic\ndescription: I like tea with lemon\ntype: user\n---\n\nI like tea with lemon.\n"
    with FileStore(tmp_path / "memory", gate=gate) as store:
        store.write_file("user_tea.md", words, writer="user", base=None)
        store.forget("user_tea.md")
        store.catch_up()
        assert len(store.tombstones.all()) == 1
        (store.directory / "user_tea.md").write_bytes(words)
        [outcome] = attribute(store, writer="agent", evidence=[Evidence(wish, "s", "1")])
        assert not isinstance(outcome, GateRefused)
        assert outcome.revived
        assert store.tombstones.all() == []


def test_a_tool_may_not_remove_what_is_pinned(store: FileStore) -> None:
    store.remember(a_memory("a.md"))
    store.remember(a_memory("b.md", body="The lab has port 80.", writer="agent"))
    store.pin("a.md")
    store.catch_up()
    (store.directory / "a.md").unlink()
    (store.directory / "b.md").unlink()
    attribute(store, writer="agent")
    assert [memory.path for memory in store.list()] == ["a.md"]


def test_everything_may_be_sent_to_the_inbox_and_accepted_one_by_one(tmp_path: Path) -> None:
    with FileStore(tmp_path / "memory", gate=GateContext(inbox_all=True)) as store:
        for number in range(3):
            proposal = a_memory(
                f"m{number}.md", writer="dream", body=f"Own words {number}{number}."
            )
            store.write(proposal)
        for item in store.inbox.items():
            accept(store, item.id)
        assert len(store.list()) == 3


def test_a_why_of_a_tool_that_writes_past_the_store_gets_its_label(tmp_path: Path) -> None:
    said = "Always run the tests before a commit."
    gate = GateContext(origin_text=lambda *_: [("typed", said)])
    content = new_topic(name=said[:-1], description=said, type="feedback", body=f"{said}\n\n**Why:** the build was red.")  # fmt: skip
    (tmp_path / "memory").mkdir()
    with FileStore(tmp_path / "memory", gate=gate) as store:
        store.note_outside()
        file = store.directory / "feedback_testing.md"
        for text in (content.decode(), None):
            label = f"**Why:** {LABEL} the build was red."
            file.write_text(text or file.read_text().replace(f"{LABEL} ", ""))
            [done] = attribute(
                store, writer="agent", session="s", evidence=[Evidence(said, "s", "0")]
            )
            assert isinstance(done, Outcome)
            assert done.decision == "accept"
            assert label in file.read_text()
