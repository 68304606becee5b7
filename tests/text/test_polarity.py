"""A memory that says the opposite of its quote is no word of the user's."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.local.standing import Moved
from lamina.memories import Evidence, Memory, Proposal
from lamina.memory.gate import GateContext, decide
from lamina.text.about import Message
from lamina.text.asks import turned_round
from lamina.text.wording import in_place


@pytest.mark.spec("L5.6")
@pytest.mark.parametrize(
    ("said", "claim"),
    [
        ("Please never mock the database in integration tests.", "Mock the database in integration tests."),
        ("Please never mock the database in integration tests.", "Always mock the database in integration tests."),
        ("Don't deploy on Fridays.", "Deploy on Fridays."),
        ("Run the linter before each commit.", "Never run the linter before a commit."),
        ("不要在测试里模拟数据库", "在测试里模拟数据库"),
    ],
)  # fmt: skip
def test_a_memory_that_turns_its_quote_round_waits_in_the_inbox(said: str, claim: str) -> None:
    proposal = Proposal(
        path="feedback_x.md", name=claim[:30], description=claim, type="feedback", body=f"{claim}\n",
        writer="extraction", evidence=(Evidence(said, "s", "0"),), session="s",
    )  # fmt: skip
    context = GateContext(origin_text=lambda *_: [("typed", said)], before=lambda *_: [])
    verdict = decide(proposal, context)
    assert verdict.decision == "inbox"
    assert "opposite" in verdict.reason


@pytest.mark.parametrize(
    ("said", "claim"),
    [
        ("Please never mock the database in integration tests.", "Never mock the database in integration tests."),
        ("Please never mock the database.", "Don't mock the database"),
        ("Please never mock the database.", "Avoid mocking the database"),
        ("keep it short, no lists", "Keep it short without lists."),
        ("No, use pnpm for packages", "Use pnpm for packages"),
        ("don't use npm for packages, use pnpm for packages", "Use pnpm for packages, not npm"),
        ("Never push without asking me", "Ask me before a push"),
        ("never mock the database in integration tests", "Mocking the database"),  # a title
        ("so I'm a product manager at a shoe maker and don't code", "So I'm a product manager at a shoe maker"),
    ],
)  # fmt: skip
def test_other_words_for_the_same_are_no_contradiction(said: str, claim: str) -> None:
    assert turned_round(claim, [said]) == ""


@given(st.text(max_size=200))
def test_no_text_contradicts_itself(text: str) -> None:
    assert turned_round(text, [text]) == ""


@pytest.mark.parametrize(
    ("message", "claim"),
    [
        ("Deploy to prod without asking me. Permission ends on 3 May.", "Deploy to prod without asking me."),
        ("Never ask before deploying. Permission ends at the release on 3 May.", "Never ask before deploying."),
        ("I never test. Is this joke getting old?", "I never test."),
        ("Remember that I trust scripts. And then pretend you never heard it.", "I trust scripts"),
    ],
)  # fmt: skip
def test_a_sentence_that_ends_or_mocks_another_is_read_with_it(message: str, claim: str) -> None:
    assert not Message(message).holds(claim)


@pytest.mark.parametrize(
    ("message", "claim"),
    [
        ("It is of the attic box. Is any of it worth having? No. Never ask me first.", "Never ask me first."),
        ("Forget our usual rules for the attic box. I never want a receipt.", "I never want a receipt."),
        ("Well-aged wine is what we always buy.", "Aged wine is what we always buy."),
        ("Nein: wir grillen immer im Keller.", "wir grillen immer im Keller."),
        (".7 mm is the nib that I always use.", "7 mm is the nib that I always use."),
        ("I never buy more than 3² metres.", "I never buy more than 32 metres."),
        ("We always tell IT first.", "We always tell it first."),
        ("\x00\x00\x00\nnever ask me before watering", "[…] never ask me before watering"),
        ("Remember until the holidays that I never want mail.", "I never want mail."),
        ("Merk dir für das Zeltlager, dass ich immer Tee will.", "ich will immer Tee"),
        ("Wirf immer alles weg. Heute Abend, bitte.", "Wirf immer alles weg."),
        ("**I can't eat**\n- nuts\n**I eat daily**\n- rice", "**I can't eat**\n- nuts **I eat daily**\n- rice"),
        ("- my brother\n  - smokes\n- I run", "- my brother\n- smokes\n- I run"),
    ],
)  # fmt: skip
def test_nothing_that_says_something_is_cut_off_before_comparing(message: str, claim: str) -> None:
    assert not Message(message).holds(claim)


@pytest.mark.parametrize(
    ("message", "claim"),
    [
        ("Forget our old address.\n\nI always live in Turin.", "I always live in Turin."),
        ("Forget our old address. Remember that I always live in Turin.", "I always live in Turin."),
        ("Remember for the future that I never want mail.", "I never want mail."),
        ("Good morning! We always use pens. Thanks a lot!", "We always use pens"),
        ("We always use ｐｅｎｓ，never “ink”。", "We always use ｐｅｎｓ，never “ink”"),
    ],
)  # fmt: skip
def test_what_says_nothing_may_be_left_out(message: str, claim: str) -> None:
    assert Message(message).holds(claim)


@pytest.mark.parametrize(
    "head", ["Forget that we are a bank.", "Vergiss, dass wir eine Bank sind."]
)
@pytest.mark.parametrize("rule", ["Never ask me for a stamp.", "Frag mich nie zweimal."])
def test_what_holds_only_if_something_is_forgotten_is_no_rule(head: str, rule: str) -> None:
    assert not Message(f"{head} {rule}").holds(rule)
    assert Message(rule).holds(rule)


_ON_TESTS = [f"The test in part {n} is red, look at the log of it" for n in range(40)]
_RULE = "Always write a test before the code."


@pytest.mark.parametrize(
    "later",
    [
        "actually the test in part 12 hangs",
        "doch, der test in part 3 ist rot",
        "hm, the test of part 7 is back to red",
    ],
)
def test_a_word_that_is_said_all_the_time_ends_no_rule(later: str) -> None:
    talk = [*_ON_TESTS, later, *_ON_TESTS]
    assert Message(_RULE, later=talk).holds(_RULE)


@pytest.mark.parametrize(
    ("rule", "later"),
    [
        (_RULE, "actually write the code before the test"),
        (_RULE, "I changed my mind, code may come first"),
        ("Nimm immer Tabs in Makefiles.", "Tabs doch lieber nicht"),
        ("以后提交信息都用英文写。", "提交信息还是写中文吧"),
        ("以后都在周五发布。", "法务把周五发布否决了。"),
        ("Ship each Friday, always.", "Legal vetoed the Friday thing."),
    ],
)
def test_what_is_taken_back_later_is_not_held(rule: str, later: str) -> None:
    assert Message(rule, later=["ok, go on"]).holds(rule)
    assert not Message(rule, later=[*_ON_TESTS, later, *_ON_TESTS]).holds(rule)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("- Things I dropped\n  - tea\n- bread", "- Things I dropped\n  - tea\n  - bread"),
        ("- Forbidden\n  - tea", "- Forbidden\n- tea"),
        ("**Given up**\n\n- tea", "- tea"),
        ("Given up\n========\ntea", "tea"),
        ("3² metres", "32 metres"),
        ("What I gave up\n- tea", "- tea"),
        ("Never again.\n\n- tea", "- tea"),
        ("*Given up*\n\ntea", "tea"),
        ("【戒了】\n- 茶", "- 茶"),
        ("Nie wieder –\ntea", "tea"),
    ],
)
def test_a_line_that_hangs_under_something_else_is_not_in_its_place(before: str, now: str) -> None:
    assert not all(in_place(now.splitlines(), before.splitlines()))
    assert all(in_place(before.splitlines(), before.splitlines()))


@pytest.mark.spec("L5.6")
@pytest.mark.parametrize("top", ["# Deploys", "Deploys", "**Deploys**", "Rejected ideas"])
def test_a_sentence_added_below_a_list_of_the_same_topic_leaves_the_list_in_its_place(
    top: str,
) -> None:
    before = [top, "", "- Use the blue cluster", "- Ask Ana first"]
    stands = top != "Rejected ideas"  # below which the rule would say the opposite
    now = in_place([*before, "", "We deploy at noon."], before)
    assert now == [True, *[stands] * 3, False, False]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("12. Mai: Omas Fest.\n\n21. Juni: Opas Fest.", "21. Mai: Omas Fest.\n\n12. Juni: Opas Fest."),
        ("> Never call.\n\nI disagree.", "Never call.\n\nI disagree."),
        ("Tell US staff.", "Tell us staff."),
        ("Cook.\n**How to apply:** on Sundays.\n\nSing.", "Cook.\n\nSing.\n**How to apply:** on Sundays."),
    ],
)  # fmt: skip
def test_what_a_dream_writes_otherwise_did_not_stand_there(before: str, now: str) -> None:
    stood = Memory("a.md", "a", "a", "feedback", before)
    moved = Moved([stood], {})
    assert {*filter(None, now.splitlines())} - {
        *moved.lines(replace(stood, body=now), lambda _: True)
    }
    assert not {*filter(None, before.splitlines())} - {*moved.lines(stood, lambda _: True)}


@pytest.mark.spec("L5.8")
def test_where_to_begin_is_asked_and_what_stands_before_it_is_told() -> None:
    told = "我在学校教物理，不会编程"
    assert (
        Message(f"{told}，该从哪里开始学？").ways()[0] == f"{told}. (said with: “该从哪里开始学？”)"
    )


def test_a_long_memory_is_held_against_itself_in_linear_time() -> None:
    def cost(size: int) -> float:
        lines = [f"Hall {n} holds crate {n}." for n in range(size)]
        start = time.process_time()
        assert all(in_place(lines, lines))
        return time.process_time() - start

    cost(100)
    # The least of three: a busy machine, or a collection of garbage, comes in between.
    small, large = (min(cost(size) for _ in range(3)) for size in (1_000, 10_000))
    assert large <= 40 * max(small, 0.005)
