"""The view over arbitrary ledgers: pairing, prefix growth, purity, nothing invented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.ledger import invariants
from tests.ledger.strategies import foreign_entries, play, steps

from lamina.errors import EditRefused
from lamina.ledger import edits, joining
from lamina.ledger.edits import Shared
from lamina.ledger.joining import Marks
from lamina.ledger.record import Ledger
from lamina.ledger.view import Projection
from lamina.messages import Json, Usage, text, tool_result, tool_use

MANY = examples(1_000)


def _project(entries: list[Json]) -> Projection:
    projection = Projection()
    for entry in entries:
        projection.add(entry)
    return projection


@pytest.mark.spec("F5")
@MANY
@given(foreign_entries())
def test_any_ledger_gives_a_view_that_a_provider_takes_or_names_its_open_calls(
    entries: list[Json],
) -> None:
    view = _project(entries)
    messages = list(view.messages)
    assert invariants.roles_alternate(messages) == []
    assert invariants.nothing_is_empty(messages) == []
    assert invariants.results_come_first(messages) == []
    assert invariants.nothing_is_invented(entries, messages) == []
    unpaired = joining.calls_are_paired(messages)
    assert bool(unpaired) == bool(view.open)


@pytest.mark.spec("F4")
@examples(1_000)
@given(foreign_entries(), st.data())
def test_a_projection_grown_and_looked_at_between_equals_one_made_at_once(
    entries: list[Json], data: Any
) -> None:
    grown = Projection()
    for entry in entries:
        grown.add(entry)
        if data.draw(st.booleans()):
            grown.chain()
            _ = grown.messages
    whole = _project(entries)
    assert list(grown.messages) == list(whole.messages)
    assert grown.chain() == whole.chain()
    assert grown.tokens == whole.tokens == sum(row.tokens for row in whole.rows)
    assert grown.open == whole.open
    assert grown.inert == whole.inert


@pytest.mark.spec("F4")
@MANY
@given(steps())
def test_the_old_view_is_a_prefix_of_the_new_unless_an_edit_says_so(script: list[Any]) -> None:
    ledger = Ledger.of()
    seen: list[Json] = []
    sent = False
    for entry in play(ledger, script):
        messages = ledger.view().messages
        if entry.get("changesPrefix"):
            seen, sent = [], False
        if sent and not ledger.open_calls:
            assert invariants.is_prefix(seen, messages) == []
        if entry["kind"] == "request" and not ledger.open_calls:
            seen, sent = list(messages), True


@pytest.mark.spec("F4")
@examples(300)
@given(steps())
def test_a_snapshot_never_changes_and_the_chain_names_its_blocks(script: list[Any]) -> None:
    ledger = Ledger.of()
    taken: list[tuple[Any, bytes]] = []
    for _ in play(ledger, script):
        view = ledger.view()
        taken.append((view, joining.request_bytes(view)))
        count, chain = ledger.projection.chain()
        expected = joining.START
        for role, block in joining.flat(view.messages):
            expected = joining.link(expected, role, joining.canonical(block))
        assert chain == expected
        assert count == sum(len(m["content"]) for m in view.messages)
    for view, before in taken:
        assert joining.request_bytes(view) == before


@pytest.mark.spec("F4")
@examples(300)
@given(steps(), steps())
def test_a_branch_sees_the_past_and_neither_side_sees_the_others_future(
    past: list[Any], future: list[Any]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lamina.ledger.edits._SIZE", 3)  # so that a short record has several parts
        _branched(past, future)


def _branched(past: list[Any], future: list[Any]) -> None:
    ledger = Ledger.of()
    list(play(ledger, past))
    branch = ledger.branch()
    before = joining.request_bytes(ledger.view())
    assert joining.request_bytes(branch.view()) == before
    assert branch.tokens() == ledger.tokens()
    list(play(branch, future))
    assert joining.request_bytes(ledger.view()) == before
    ahead = joining.request_bytes(branch.view())
    list(play(ledger, future[::-1]))
    assert joining.request_bytes(branch.view()) == ahead
    for one in (branch, ledger):
        again = Ledger.of(one.entries)
        assert joining.request_bytes(again.view()) == joining.request_bytes(one.view())
        assert again.tokens() == one.tokens()
        names = [entry["uuid"] for entry in again.entries]
        assert [one.projection.position.get(name) for name in names] == list(range(len(names)))


@examples(200)
@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "set", "cut", "splice", "copy"]),
                  st.integers(0, 20), st.integers(0, 20)),
        max_size=25,
    )
)  # fmt: skip
def test_a_list_in_parts_does_what_a_list_does_and_its_copies_stay_as_they_were(
    changes: list[tuple[str, int, int]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lamina.ledger.edits._SIZE", 3)
        mine, plain, copies = Shared(range(4)), list(range(4)), list[tuple[Any, list[int]]]()
        for what, a, b in changes:
            low, high = sorted((min(a, len(plain)), min(b, len(plain))))
            if what == "append":
                mine.append(a)
                plain.append(a)
            elif what == "set" and plain:
                mine[a % len(plain)] = plain[a % len(plain)] = b
            elif what == "cut":
                mine.cut(a)
                del plain[a:]
            elif what == "splice":
                mine.splice(low, high, [a, b])
                plain[low:high] = [a, b]
            elif what == "copy":
                copies.append((mine.copy(a), plain[:a]))
            assert list(mine) == plain == [mine[n] for n in range(len(mine))]
            assert list(reversed(mine)) == plain[::-1]
            assert [mine[n] for n in range(-len(plain), 0)] == plain
            assert (mine[low:high], mine[-a:], mine[:-b]) == (
                plain[low:high],
                plain[-a:],
                plain[:-b],
            )
            assert mine[::2] == plain[::2]
            assert mine.shared(mine.copy(a)) == min(a, len(plain))
        for copy, then in copies:
            assert copy == then
        with pytest.raises(IndexError):
            mine[len(plain)]
        with pytest.raises(IndexError):
            mine[-len(plain) - 1]


@pytest.mark.spec("F5")
def test_thinking_and_its_signature_pass_through_untouched() -> None:
    thought = {"type": "thinking", "thinking": " deep ", "signature": "sig=="}
    ledger = Ledger.of()
    ledger.append(edits.message("user", "hi", "typed"))
    ledger.append(edits.answer([thought, text("hello")], Usage(output=1)))
    assert ledger.view().messages[1]["content"][0] == thought
    entry = ledger.entries[-1]["uuid"]
    with pytest.raises(EditRefused, match="never replaced"):
        ledger.append(edits.replace([(entry, 0, text("x"))], "test", changes_prefix=True))


@pytest.mark.spec("F5")
def test_a_call_is_closed_before_anything_else_can_follow() -> None:
    ledger = Ledger.of()
    ledger.append(edits.message("user", "hi", "typed"))
    ledger.append(edits.answer([tool_use("a", "Read", {}), tool_use("b", "Read", {})], Usage()))
    with pytest.raises(EditRefused, match="wait for their results"):
        ledger.append(edits.message("user", "more", "typed"))
    with pytest.raises(EditRefused, match="No tool call z"):
        ledger.append(edits.message("user", [tool_result("z", "x")], "tool"))
    ledger.append(edits.message("user", [tool_result("b", "second")], "tool"))
    assert ledger.open_calls == ["a"]
    ledger.append(edits.message("user", [tool_result("a", "first")], "tool"))
    ledger.append(edits.message("user", "more", "typed"))
    kinds = [block["type"] for block in ledger.view().messages[-1]["content"]]
    assert kinds == ["tool_result", "tool_result", "text"]
    assert joining.sendable(ledger.view()) == []


@pytest.mark.spec("F4")
def test_an_edit_that_changes_what_was_seen_must_say_so() -> None:
    ledger = Ledger.of()
    ledger.append(edits.message("user", "hi", "typed"))
    first = ledger.head
    assert first
    swap = [(first, 0, text("bye"))]
    ledger.append(edits.replace(swap, "test"))  # not yet seen
    ledger.append(edits.request(ledger.head, "h", "main", 1, 1))
    with pytest.raises(EditRefused, match="unannounced"):
        ledger.append(edits.replace(swap, "test"))
    assert ledger.view().cached_blocks == 1
    ledger.append(edits.replace([(first, 0, text("other"))], "test", changes_prefix=True))
    assert ledger.view().cached_blocks == 0


@pytest.mark.spec("F4")
def test_a_fold_makes_whole_what_leant_on_it_even_before_it() -> None:
    ledger = Ledger.of()
    for n in range(3):
        ledger.append(edits.message("user", f"q{n}", "typed"), edits.answer([text("a")], Usage()))
    first, last = ledger.entries[0]["uuid"], ledger.entries[4]["uuid"]
    leans = {(first, 0): [(last, 0)]}
    ledger.append(edits.replace([(first, 0, text("as below"))], "test", needs=leans))
    assert "as below" in str(ledger.view().messages)
    ledger.append(edits.fold(last, last, [{"role": "user", "content": "summary"}], "test"))
    for one in (ledger, Ledger.of(ledger.entries)):
        assert "as below" not in str(one.view().messages)


@pytest.mark.spec("F4")
def test_undo_brings_the_view_back_to_the_byte_and_undo_of_undo_takes_it_again() -> None:
    ledger = Ledger.of()
    for n in range(3):
        ledger.append(
            edits.message("user", f"q{n}", "typed"), edits.answer([text(f"a{n}")], Usage())
        )
    before = joining.request_bytes(ledger.view())
    first, last = ledger.entries[0]["uuid"], ledger.entries[3]["uuid"]
    [fold] = ledger.append(
        edits.fold(first, last, [{"role": "user", "content": "summary"}], "compaction")
    )
    folded = joining.request_bytes(ledger.view())
    assert folded != before
    [undo] = ledger.append(edits.revoke(fold["uuid"], "user"))
    assert joining.request_bytes(ledger.view()) == before
    ledger.append(edits.revoke(undo["uuid"], "user"))
    assert joining.request_bytes(ledger.view()) == folded


@pytest.mark.spec("F5")
def test_a_fold_never_parts_a_call_from_its_result() -> None:
    ledger = Ledger.of()
    ledger.append(edits.message("user", "q", "typed"))
    [call] = ledger.append(edits.answer([tool_use("a", "Read", {})], Usage()))
    ledger.append(edits.message("user", [tool_result("a", "x")], "tool"))
    with pytest.raises(EditRefused, match="part a tool call"):
        ledger.append(edits.fold(ledger.entries[0]["uuid"], call["uuid"], [], "compaction"))


@pytest.mark.spec("F5")
def test_a_fold_leaves_calls_whose_results_are_still_to_come() -> None:
    ledger = Ledger.of()
    [first] = ledger.append(edits.message("user", "q", "typed"))
    [call] = ledger.append(edits.answer([tool_use("a", "Read", {})], Usage()))
    with pytest.raises(EditRefused, match="part a tool call"):
        ledger.append(edits.fold(first["uuid"], call["uuid"], [], "compaction"))
    ledger.append(edits.message("user", [tool_result("a", "x")], "tool"))
    assert joining.sendable(ledger.view()) == []


@pytest.mark.spec("F2")
def test_tokens_are_the_last_usage_plus_what_came_less_what_went() -> None:
    ledger = Ledger.of()
    ledger.append(edits.message("user", "x" * 4_000, "typed"))
    assert ledger.tokens() == 1_000
    usage = Usage(input=10, cache_read=900, cache_write=200, output=50)
    ledger.append(edits.answer([tool_use("a", "Read", {"p": 1})], usage, id="m1"))
    assert ledger.tokens() == 1_160
    ledger.append(edits.message("user", [tool_result("a", "y" * 2_000)], "tool"))
    assert ledger.tokens() == 1_660
    entry = ledger.head
    assert entry
    ledger.append(edits.replace([(entry, 0, tool_result("a", "z" * 400))], "tool_results"))
    assert ledger.tokens() == 1_260


@pytest.mark.spec("F2")
def test_records_that_share_a_message_id_anchor_on_the_first() -> None:
    usage = Usage(input=100, output=40).to_json()
    entries = [
        {**edits.message("user", "q", "typed"), "uuid": "1"},
        {
            **edits.message(
                "assistant", [tool_use("a", "R", {})], "assistant", usage=usage, id="m"
            ),
            "uuid": "2",
        },
        {**edits.message("user", [tool_result("a", "x" * 400)], "tool"), "uuid": "3"},
        {
            **edits.message(
                "assistant", [tool_use("b", "R", {})], "assistant", usage=usage, id="m"
            ),
            "uuid": "4",
        },
        {**edits.message("user", [tool_result("b", "x" * 40)], "tool"), "uuid": "5"},
    ]
    assert Ledger.of(entries).tokens() == 140 + 100 + 10


def test_two_opens_of_one_file_give_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    ledger = Ledger.open(path)
    ledger.append(edits.frame([text("sys")], [{"name": "Read"}], "m", {}))
    ledger.append(edits.message("user", "hi \ud800 there", "typed"))
    assert "\ufffd" in ledger.view().messages[0]["content"][0]["text"]
    before = (joining.request_bytes(ledger.view()), ledger.fingerprint())
    ledger.close()
    again = Ledger.open(path)
    assert (joining.request_bytes(again.view()), again.fingerprint()) == before
    again.close()


@pytest.mark.spec("F4")
def test_a_mark_behind_a_summary_is_not_forgotten_for_later_changes() -> None:
    marks = Marks().after(0, 3)  # the summary's block is the third
    marks.sent(28)
    marks = marks.after(28, 36)  # at the end something else changes
    marks.sent(40)
    assert marks.after(6, 9).cached == 3  # close behind the summary, this is what is still cached
