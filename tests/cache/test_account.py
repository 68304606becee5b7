"""The account of a session: what the layers saved, and what their breaks and re-reads cost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.cache.account import ASIDE, FETCHED, LIFE, Account, Rates, rates
from lamina.ledger import edits, tokens
from lamina.ledger.joining import FRAME_LIFE
from lamina.ledger.record import Ledger
from lamina.messages import text, tool_result, tool_use
from lamina.ports import Capabilities

PRICE = Rates(read=0.1, write=1.25, output=5.0, life=300)
CACHED = Capabilities(cache="anthropic", cache_ttl=300)


class Talk:
    """A ledger that grows by whole requests, on a clock of its own."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.ledger = Ledger.of(now=lambda: self.now)
        self.ledger.append(edits.message("user", "go", "typed"))

    def result(self, number: int, size: int, tool: str = "Bash", **given: Any) -> str:
        call = tool_use(f"t{number}", tool, given)
        self.ledger.append(edits.message("assistant", [call], "assistant"))
        block = tool_result(f"t{number}", "x" * 4 * size)
        [entry] = self.ledger.append(edits.message("user", [block], "tool", tool=tool))
        return str(entry["uuid"])

    def ask(self, seconds: float = 10) -> None:
        self.now += seconds
        self.ledger.append(edits.request(self.ledger.head, "", "main", 0, 0))

    def replace(self, entry: str, size: int, *, changes_prefix: bool = False) -> str:
        at = self.ledger.projection.position[entry]
        name = str(self.ledger.entries[at]["content"][0]["tool_use_id"])
        new = tool_result(name, "y" * 4 * size)
        told = edits.replace([(entry, 0, new)], "l", changes_prefix=changes_prefix)
        [edit] = self.ledger.append(told)
        return str(edit["uuid"])

    @property
    def account(self) -> Account:
        return Account().follow(self.ledger.entries, PRICE)


@pytest.mark.spec("L1.1", "L2.4")
def test_what_never_was_sent_saves_its_writing_and_then_its_reading() -> None:
    talk = Talk()
    talk.ask()
    talk.replace(talk.result(1, 10_000), 500)
    talk.ask()
    assert talk.account.saved == pytest.approx(1.25 * 9_500)
    talk.ask()
    assert talk.account.saved == pytest.approx(1.25 * 9_500 + 0.1 * 9_500)


@pytest.mark.spec("L2.4")
def test_a_break_of_a_warm_cache_costs_the_writing_of_what_follows_the_last_mark() -> None:
    talk = Talk()
    talk.ask()
    first = talk.result(1, 10_000)
    talk.result(2, 1_000)
    talk.ask()
    talk.replace(first, 0, changes_prefix=True)
    talk.ask()
    calls = 2 * tokens.of_block(tool_use("t2", "Bash", {}))  # one of them before the change
    assert talk.account.saved == pytest.approx(0.1 * 10_000 - 1.15 * (1_000 + calls))
    assert talk.account.dropped == 10_000


@pytest.mark.spec("L2.4", "F4")
def test_behind_a_summary_there_is_a_mark_and_the_next_at_the_end_of_the_request() -> None:
    talk = Talk()
    talk.ask()
    entries = [talk.result(number, 1_000) for number in range(1, 4)]
    talk.ask()
    first, call = (talk.ledger.entries[n]["uuid"] for n in (0, 4))
    told = edits.message("user", [text("s" * 400)], "system")
    talk.ledger.append(edits.fold(first, entries[0], [told], "compaction"))
    talk.ask()
    second = talk.ledger.projection.position[entries[1]]
    assert talk.ledger.entries[second - 1]["uuid"] == call
    summary = talk.ledger.projection.rows[0].tokens
    assert talk.account.written_again(second) == talk.ledger.projection.tokens - summary
    last = talk.ledger.projection.position[talk.result(4, 1_000)]
    assert talk.account.written_again(last) == 0  # nothing of it has been sent


@pytest.mark.spec("L4.1")
def test_what_is_held_back_is_counted_from_the_last_summary_on() -> None:
    talk = Talk()
    moved = talk.result(1, 5_000)
    talk.replace(moved, 100)
    talk.ask()
    assert talk.account.kept_out == 4_900
    told = edits.message("user", [text("so far")], "system")
    talk.ledger.append(edits.fold(talk.ledger.entries[0]["uuid"], moved, [told], "compaction"))
    assert talk.account.kept_out == 0
    talk.replace(talk.result(2, 2_000), 100)
    assert talk.account.kept_out == 1_900


@pytest.mark.spec("L2.1")
def test_a_break_of_a_cold_cache_costs_nothing_and_saves_the_writing() -> None:
    talk = Talk()
    talk.ask()
    first = talk.result(1, 10_000)
    talk.result(2, 1_000)
    talk.ask()
    talk.replace(first, 0, changes_prefix=True)
    talk.ask(seconds=301)
    assert talk.account.pauses == 1
    assert talk.account.saved == pytest.approx(1.25 * 10_000)
    assert talk.account.warm_run == 1.5


@pytest.mark.spec("L2.1")
def test_the_cache_is_cold_when_its_life_is_exceeded_since_the_last_answer() -> None:
    talk = Talk()
    talk.ask()
    talk.now += 200
    talk.ledger.append(edits.message("assistant", [text("so")], "assistant"))
    talk.ask(seconds=300)  # 500 after the last request
    assert talk.account.pauses == 0
    talk.ask(seconds=301)
    assert talk.account.pauses == 1


def test_what_a_compaction_says_once_more_is_no_saving_and_no_growth() -> None:
    talk = Talk()
    talk.ask()
    before = talk.account
    talk.ledger.append(edits.message("user", "x" * 4_000, "system", compaction="c"))
    talk.ask()
    account = talk.account
    assert account.saved == pytest.approx(before.saved - 1.25 * 1_000)
    assert account.pace == before.pace == 0


def test_the_pace_is_that_of_the_later_half_of_the_requests() -> None:
    talk = Talk()
    talk.ask()
    for number, size in enumerate((5_000, 1_000, 3_000)):
        talk.ledger.append(edits.message("user", "x" * 4 * size, "typed"))
        talk.ask()
        if number == 1:
            assert talk.account.pace == 1_000  # of three: the last one
    assert talk.account.pace == 2_000  # of four: the last two


@pytest.mark.spec("L2.4")
@pytest.mark.parametrize(
    ("tool", "given"),
    [("Expand", {"id": "abc"}), ("Read", {"file_path": "/h/s/tool-results/t1.txt"})],
)
def test_fetching_something_back_is_charged(tool: str, given: dict[str, str]) -> None:
    talk = Talk()
    talk.ask()
    talk.replace(talk.result(1, 10_000), 500)
    talk.ask()
    before = talk.account.saved
    talk.result(2, 10_000, tool, **given)
    talk.ask()
    account = talk.account
    assert account.fetched == 10_000
    # Its writing, the view read once more, and it is no saving any longer.
    assert account.saved < before - 1.25 * 10_000 + 0.1 * 9_500
    assert account.saved > before - 1.25 * 10_200 - 0.1 * 2_000


@pytest.mark.spec("I4")
def test_a_replay_says_apart_what_would_have_been_fetched_back() -> None:
    talk = Talk()
    talk.ask()
    talk.replace(talk.result(1, 10_000), 500)
    talk.ask()
    before = talk.account.saved
    talk.ledger.append(edits.state(FETCHED, 9_500))
    talk.ask()
    assert talk.account.fetched == 9_500
    assert talk.account.saved < before - 1.25 * 9_000


@pytest.mark.spec("F4")
def test_an_undo_takes_the_saving_back() -> None:
    talk = Talk()
    talk.ask()
    edit = talk.replace(talk.result(1, 10_000), 500)
    talk.ask()
    talk.ledger.append(edits.revoke(edit, "l"))
    talk.ask()
    saved = talk.account.saved
    talk.ask()
    assert talk.account.saved == saved


@pytest.mark.spec("F4")
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["result", "replace", "undo"]), st.integers(0, 3_000)),
        max_size=30,
    )
)
def test_what_left_the_view_is_what_the_view_has_less_than_was_said(
    steps: list[tuple[str, int]],
) -> None:
    """Whatever is replaced, undone, undone again and replaced once more."""
    talk, entries, made = Talk(), list[str](), list[str]()
    for number, (what, size) in enumerate(steps):
        if what == "result":
            entries.append(talk.result(number, size))
        elif what == "replace" and entries:
            made.append(talk.replace(entries[size % len(entries)], size, changes_prefix=True))
        elif what == "undo" and made:
            [undo] = talk.ledger.append(edits.revoke(made.pop(size % len(made)), "l"))
            made.append(str(undo["uuid"]))
    said = Ledger.of([e for e in talk.ledger.entries if e["kind"] == "message"])
    left = said.projection.tokens - talk.ledger.projection.tokens
    assert talk.account.dropped == left


def test_an_undo_of_what_was_never_done_changes_nothing() -> None:
    talk = Talk()
    talk.replace(talk.result(1, 500), 10)
    before = talk.account.dropped
    account = Account()
    itself = {**edits.revoke("u-itself", "l"), "uuid": "u-itself"}
    account.follow(
        [*talk.ledger.entries, edits.revoke("u-nobody", "l") | {"uuid": "u1"}, itself], PRICE
    )
    assert account.dropped == before


@pytest.mark.spec("F1")
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["result", "ask", "pause", "move", "drop", "fold"]),
                  st.integers(1, 3_000)),
        max_size=30,
    ),
    cuts=st.lists(st.integers(0, 100), max_size=5),
)  # fmt: skip
def test_an_account_that_grew_equals_one_made_at_once(
    steps: list[tuple[str, int]], cuts: list[int]
) -> None:
    talk, grown, entries = Talk(), Account(), list[str]()
    same = {"_position": None}
    for number, (what, size) in enumerate(steps):
        if what == "result":
            entries.append(talk.result(number, size))
        elif what in ("ask", "pause"):
            talk.ask(301 if what == "pause" else 5)
        elif entries and what in ("move", "drop"):
            talk.replace(entries[size % len(entries)], 3, changes_prefix=True)
        elif entries:
            first = talk.ledger.entries[talk.ledger.projection.position[entries[0]] - 1]["uuid"]
            told = edits.message("user", [text("sum")], "system")
            talk.ledger.append(edits.fold(first, entries[-1], [told], "l"))
            entries.clear()
        if number in cuts:
            grown.follow(talk.ledger.entries, PRICE)
            branch = talk.ledger.branch()
            branched = grown.branch(branch.entries)
            branch.append(edits.message("user", "a word aside", "typed"))
            assert branched.follow(branch.entries, PRICE).__dict__ | same == (
                Account().follow(branch.entries, PRICE).__dict__ | same
            )
    grown.follow(talk.ledger.entries, PRICE)
    made = talk.account
    assert (grown.saved, grown.requests, grown.pauses, grown.dropped, grown.pace) == (
        made.saved,
        made.requests,
        made.pauses,
        made.dropped,
        made.pace,
    )


def test_rates_come_from_the_price_table_of_the_model() -> None:
    assert rates("", CACHED) == Rates(0.1, 1.25, 5.0, 300)
    hour = rates("claude-opus-4-6", Capabilities(cache="anthropic", cache_ttl=3600))
    assert (hour.read, hour.write) == pytest.approx((0.1, 2.0))
    other = rates("m", CACHED, {"m": {"input": 4, "cache_read": 2, "cache_write_5m": 0}})
    assert (other.read, other.write) == (0.5, 1.0)


# ---- background work, and caches that are kept


def asked(talk: Talk, seconds: float, size: int = 40_000) -> None:
    talk.now += seconds
    talk.ledger.append(edits.request(talk.ledger.head, "", "main", 0, size))


def keep(talk: Talk, seconds: float, price: int = 4_000, life: int = 300) -> None:
    talk.now += seconds
    talk.ledger.append(edits.state(ASIDE, {"price": price, "kept": life}))


@pytest.mark.spec("F14", "I7")
def test_an_answer_that_is_known_only_with_the_next_request_keeps_no_cache_itself() -> None:
    talk = Talk()
    asked(talk, 10)
    keep(talk, 280)
    talk.ledger.append(edits.message("assistant", [text("said long ago")], "model"))
    asked(talk, 200)
    assert talk.account.saved == pytest.approx(1.15 * 40_000 - 4_000)


@pytest.mark.spec("F14", "F10")
def test_a_pause_that_was_bridged_earns_the_writing_and_costs_what_bridged_it() -> None:
    talk = Talk()
    asked(talk, 10)
    keep(talk, 280)
    assert talk.account.saved == pytest.approx(-4_000)
    asked(talk, 200)
    assert talk.account.saved == pytest.approx(1.15 * 40_000 - 4_000)
    assert talk.account.pauses == 0
    keep(talk, 280)
    asked(talk, 3_600)  # he came too late: nothing is earned
    assert talk.account.saved == pytest.approx(1.15 * 40_000 - 8_000)
    assert talk.account.pauses == 1


@pytest.mark.spec("F14")
def test_what_lives_an_hour_anyway_is_nothing_that_keeping_the_cache_earns() -> None:
    talk = Talk()
    asked(talk, 10)
    talk.ledger.append(edits.state(FRAME_LIFE, {"life": 3_600, "tokens": 15_000}))
    keep(talk, 280)
    asked(talk, 200)
    assert talk.account.saved == pytest.approx(1.15 * 25_000 - 4_000)
    price = 0.1 * 40_000 + talk.account.rates.output
    assert talk.account.back_soon() * 1.15 * 40_000 > price
    assert talk.account.keeps_paying(40_000, 300)
    talk.ledger.append(edits.state(FRAME_LIFE, {"life": 3_600, "tokens": 39_000}))
    assert not talk.account.keeps_paying(40_000, 300)


@pytest.mark.spec("F10")
def test_what_is_spent_beside_a_session_is_what_it_has_saved_and_half_a_percent() -> None:
    talk = Talk()
    for _ in range(10):
        asked(talk, 10)
    bill = 1.25 * 40_000 + 9 * 0.1 * 40_000
    assert talk.account.bill == pytest.approx(bill)
    assert talk.account.affords(0.005 * bill)
    assert not talk.account.affords(0.006 * bill)


@pytest.mark.spec("F14")
def test_a_pause_is_bridged_by_other_sessions_odds_until_this_one_has_its_own() -> None:
    talk = Talk()
    asked(talk, 10)
    fresh = talk.account.back_soon()
    assert fresh == pytest.approx(0.34)
    for _ in range(30):
        asked(talk, 400)
    assert talk.account.back_soon() > 0.7  # he is always back after seven minutes
    talk = Talk()
    for _ in range(60):
        asked(talk, 7_000)
    assert talk.account.back_soon() < 0.1
    account = talk.account
    account.saved = 1e6
    assert not account.keeps_paying(40_000, 300)


@pytest.mark.spec("F14")
def test_an_hour_is_chosen_once_the_sessions_own_pauses_cost_more() -> None:
    talk = Talk()
    for _ in range(8):
        asked(talk, 60)
    assert talk.account.best_life(40_000) == 300
    for pause in (1_000, 4_000, 900):  # an hour would have bridged two of them
        asked(talk, pause)
    assert (talk.account.breaks, talk.account.best_life(40_000)) == (2, 3600)
    talk.ledger.append(edits.message("user", "x" * 4 * 400_000, "typed"))
    asked(talk, 60)
    assert talk.account.best_life(40_000) == 300  # so much is written that an hour costs too much


@pytest.mark.spec("F14")
def test_a_life_that_was_chosen_sets_prices_and_end_from_there_on() -> None:
    talk = Talk()
    asked(talk, 10)
    talk.ledger.append(edits.state(LIFE, 3600))
    asked(talk, 400)
    account = talk.account
    assert (account.rates.write, account.rates.life) == (2.0, 3600)
    assert account.warm_until == talk.now + 3600
    assert account.pauses == 1  # by the life that it had until then
