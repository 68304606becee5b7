"""A quote that was typed proves only what its writer states of themselves: no question, no words of
somebody else, no role of somebody else, whatever type a model gives it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.memories import Evidence, MemoryType, Proposal, Verdict
from lamina.memory.gate import GateContext, decide
from lamina.messages import Origin
from lamina.text.about import Message, told_before, without_wish
from lamina.text.asks import question_in, told
from lamina.text.own_words import on_one_line, own_text, speaks_of
from lamina.text.wishes import wish_in

pytestmark = pytest.mark.spec("L5.6")


def verdict(said: str, claim: str, kind: MemoryType, quote: str = "") -> Verdict:
    """What the gate says of a memory that a model made of typed words."""
    proposal = Proposal(
        path="user_profile.md",
        name="",
        description=claim,
        type=kind,
        body="",
        writer="extraction",
        evidence=(Evidence(quote or said, "s", "1"),),
        session="s",
    )

    def blocks(_session: str, _entry: str) -> list[tuple[Origin, str]]:
        return [("typed", said)]

    return decide(proposal, GateContext(origin_text=blocks))


@pytest.mark.parametrize(
    ("said", "claim"),
    [
        ("Should we always squash commits?", "Always squash commits"),
        ("should we always squash commits", "Always squash commits"),
        ("So, is it better to use tabs here?", "Use tabs here"),
        ("What if you never wrote comments?", "Never write comments"),
        ("Do you always run the linter first?", "Always run the linter first"),
        ("Ok so why are functions short in this repo?", "Functions are short in this repo"),
        ("Sollen wir immer Tabs nehmen?", "Immer Tabs nehmen"),
        ("Wieso nehmen wir hier immer Tabs?", "Hier immer Tabs nehmen"),
        ("我们是不是应该总是用制表符？", "总是用制表符"),
        ("提交之前要跑测试吗？", "提交之前要跑测试"),
        # A proposal, or one that wants an answer: even as it was typed it is no rule.
        ("Can we keep functions short?", "Can we keep functions short?"),
        ("How about we use uv for everything?", "How about we use uv for everything?"),
        (
            "When I say ship, deploy to staging, right?",
            "When I say ship, deploy to staging, right?",
        ),
        ("Can you always squash commits?", "Always squash commits"),
    ],
)
def test_a_question_is_no_rule(said: str, claim: str) -> None:
    found = verdict(said, claim, "feedback")
    assert found.decision == "inbox"
    assert verdict(said, claim, "project").origin != "typed", "a fact is not the user's word either"


@pytest.mark.parametrize(
    ("said", "claim"),
    [
        ("Can you always squash commits?", "Can you always squash commits?"),
        ("please always squash commits", "Please always squash commits"),
        (
            "Might I suggest that you squash on every merge",
            "Might I suggest that you squash on every merge",
        ),
        ("Always squash commits, ok?", "Always squash commits, ok?"),
        ("What I want is short answers.", "What I want is short answers"),
        ("Do the migrations first, always.", "Do the migrations first, always"),
        ("Have the tests run before every commit.", "Have the tests run before every commit"),
        ("Kannst du bitte immer Tabs nehmen?", "Kannst du bitte immer Tabs nehmen?"),
        ("能不用中文注释吗？", "能不用中文注释吗？"),
    ],
)
def test_a_rule_in_any_form_is_one(said: str, claim: str) -> None:
    assert verdict(said, claim, "feedback").decision == "accept"


def test_what_is_stated_beside_a_question_counts_and_the_question_does_not() -> None:
    said = "I'm a nurse and new to Rust, how do I always squash commits?"
    whole = "I'm a nurse and new to Rust. (said with: “how do I always squash commits?”)"
    assert verdict(said, "The user is a nurse, new to Rust", "user").theirs == [whole]
    assert verdict(said, "Always squash commits", "feedback").decision == "inbox"
    two = "Should we use tabs everywhere? I work on the billing service."
    kept = "I work on the billing service. (said with: “Should we use tabs everywhere?”)"
    assert verdict(two, "I work on the billing service", "user").theirs == [kept]
    assert verdict(two, kept, "user").decision == "accept"
    assert verdict(two, "Use tabs everywhere", "feedback").decision == "inbox"


_STATEMENTS = (
    "I've been using PayPal for my freelance payments and the fees average 3% per transaction",
    "My sister Anna lives in Oslo",
    "We deploy on Fridays, mostly before noon",
    "I'm saving $400 a month for a trip to Lisbon",
    "Ich arbeite als Lehrerin in Bremen",
    "我用 Postgres 16 做后端",
)
_REQUESTS = (
    ", can you help me with this?",
    ", so could you give me some tips for the first week",
    ", but would you please show me a better way to do it?",
    ", is there a way to spend less or should I look for others?",
    ", what should I pack for the week?",
    ", how do I explain it to my boss?",
    ", which of the two plans should I take?",
    ", should I ask for a receipt?",
    " and I was wondering if you could suggest a book",
    ", kannst du mir dabei helfen?",
    "，你能帮我看看吗？",
    "，周末有什么好的推荐？",
    "，我应该怎么准备面试？",
)
_NO_REQUESTS = (
    ", right?",
    ", isn't it?",
    ", is that right?",
    ", is that true?",
    ", does it?",
    ", or not?",
    ", but can you ignore that for now?",
    ", or should we drop it?",
    ", could you stop that?",
    ", would you believe it?",
    ", what do you think?",
    ", should I do it instead?",
    ", can you help me unless it rains?",
    ", oder?",
    "，对吗？",
    "，哪有这回事？",
    "，怎么可能？",
    "，你凭什么这么说？",
    "，我什么时候这样说过？",
    "，除了什么情况？",
    "，有哪些情况例外？",
    "，哪个版本才对？",
)


@given(st.sampled_from(_STATEMENTS), st.sampled_from(_REQUESTS))
def test_a_statement_before_a_request_is_told_with_the_request(told: str, asked: str) -> None:
    assert told_before(told + asked) == told
    whole = Message(told + asked).ways()[0]
    assert whole.startswith((f"{told} (said with: “", f"{told}. (said with: “"))
    assert whole.endswith(f"{asked.strip(' ,，;')}”)")
    assert verdict(told + asked, whole, "user").decision == "accept"
    assert verdict(told + asked, told, "user").decision == "inbox"


@given(st.sampled_from(_STATEMENTS), st.sampled_from(_NO_REQUESTS))
def test_what_may_doubt_limit_or_unsay_a_statement_is_never_cut_off(told: str, asked: str) -> None:
    assert verdict(told + asked, told, "user").decision != "accept"


@pytest.mark.parametrize(
    "said",
    [
        "If I use PayPal for work, can you help me with the fees?",
        "Since I teach on Mondays, could you plan the week?",
        "We deploy on Fridays unless it rains, can you write that down for the team?",
        "I wonder whether I should sell my car, can you help me?",
        "I want to know, how do I run the tests?",
        "Wenn ich in Bremen bin, kannst du mir helfen?",
        "如果我用 Postgres，你能帮我看看吗？",
    ],
)
def test_what_is_no_clause_that_states_is_not_told_alone(said: str) -> None:
    assert told_before(said) == said


_CODE = "```python\nx = 1\n\ny = 2\n```"


@given(st.sampled_from(_STATEMENTS))
def test_pasted_code_takes_nothing_back_and_is_shown(told: str) -> None:
    amid = Message(own_text(f"{told}.\nHere is a sample of it:\n{_CODE}\nIt runs."))
    assert f"{told}." in amid.stated()
    assert [*map(on_one_line, amid.ways())] == [f"{told}. Here is a sample of it: / […] It runs."]
    last = Message(own_text(f"{told}.\nHere is a sample of it:\n{_CODE}"))
    assert [*map(on_one_line, last.ways())] == [f"{told}. Here is a sample of it: […]"]


@given(st.sampled_from(_STATEMENTS))
def test_what_stands_at_an_edge_unannounced_may_limit_the_rest(told: str) -> None:
    assert Message(own_text(f"{told}.\n{_CODE}")).ways() == []
    assert Message(own_text(f"{_CODE}\n{told}.")).ways() == []


def test_a_question_beside_its_answer_is_no_harm() -> None:
    talk: list[list[tuple[Origin, str]]] = [
        [("typed", "Should we not squash commits on every merge?")],
        [("assistant", "We should always squash commits on merge.")],
        [("typed", "Yes, do that.")],
    ]
    quotes = (Evidence("Yes, do that.", "s", "2"), Evidence(talk[0][0][1], "s", "0"))
    rule = Proposal(
        path="user_profile.md",
        name="",
        description="Always squash commits on merge",
        type="feedback",
        body="",
        writer="agent",
        evidence=quotes,
        session="s",
    )
    context = GateContext(
        origin_text=lambda _, entry: talk[int(entry)],
        before=lambda _, entry: [block for said in talk[: int(entry)] for block in said],
    )
    assert decide(rule, context).decision == "accept"


@pytest.mark.parametrize(
    ("said", "claim", "who"),
    [
        ("My colleague Anna is a data scientist.", "The user is a data scientist", "colleague"),
        ("anna is a data scientist", "The user is a data scientist", "anna"),
        ("She's a data scientist at Siemens.", "Data scientist at Siemens", "she"),
        ("I work with Anna, a data scientist.", "The user is a data scientist", "anna"),
        ("I sit beside Anna, who is a data scientist.", "The user is a data scientist", "anna"),
        ("The new intern from Lyon prefers Vim.", "The user prefers Vim", "intern"),
        ("Our team lead hates long meetings.", "The user hates long meetings", "lead"),
        ("Meine Frau ist Krankenschwester.", "Krankenschwester", "frau"),
        ("我同事是数据科学家", "用户是数据科学家", "同事"),
        ("他是数据科学家", "数据科学家", "他"),
        (
            "I'm a backend developer and my boss is a data scientist.",
            "The user is a data scientist",
            "boss",
        ),
    ],
)
def test_somebody_elses_role_is_not_the_users(said: str, claim: str, who: str) -> None:
    found = verdict(said, claim, "user")
    assert found.decision == "inbox"
    assert who in speaks_of(claim, [said])


@pytest.mark.parametrize(
    ("said", "claim"),
    [
        ("I'm a data scientist.", "I'm a data scientist"),
        ("my job is data science at Siemens.", "My job is data science at Siemens"),
        ("My colleague Anna is a data scientist.", "My colleague Anna is a data scientist"),
        ("Anna is a data scientist.", "Anna is a data scientist"),
        ("ich bin Krankenschwester.", "Ich bin Krankenschwester"),
        ("我是民宿老板，不懂技术", "我是民宿老板，不懂技术"),
    ],
)
def test_what_the_user_says_of_themselves_or_of_somebody_by_name_is_taken(
    said: str, claim: str
) -> None:
    assert verdict(said, claim, "user").decision == "accept"


@pytest.mark.parametrize(
    ("frame", "claim"),
    [
        ("My avatar in the larp introduces herself.", "I am a surgeon from Vienna."),
        ("Meine Figur im Krimidinner hat einen Auftritt.", "Ich bin Kommissarin aus Graz."),
        ("我的剧本杀角色有一句开场白。", "我是一名退休的外科医生。"),
    ],
)
def test_who_speaks_may_stand_in_the_sentence_before(frame: str, claim: str) -> None:
    said = f"{frame} {claim}"
    assert verdict(said, claim, "user").decision == "inbox"
    assert verdict(said, said, "user").decision == "accept"


def test_words_in_quotation_marks_are_somebody_elses_unless_asked_to_remember_them() -> None:
    rule = "always rebase onto main"
    for said in (
        f'The old README says "{rule}".',
        f"Anna wrote “{rule}” on the board.",
        f"Im Wiki steht „{rule}“.",
    ):
        assert verdict(said, "Always rebase onto main", "feedback", rule).decision == "inbox"
    asked = f'Remember: "{rule}".'
    assert verdict(asked, "Always rebase onto main", "feedback").theirs == [asked]
    assert verdict(asked, asked, "feedback").decision == "accept"
    said = 'Call me "Sam" from now on.'
    assert verdict(said, 'Call me "Sam" from now on', "user").decision == "accept"


@pytest.mark.parametrize(
    "sentence",
    [
        "Remember that we deploy on Fridays.",
        "Please remember: no mocks",
        "ok, could you remember that I like tea?",
        "Don't forget that I like tea",
        "Keep in mind that the host is pelican.",
        "Merk dir bitte, dass ich Tee mag.",
        "请记住我喜欢喝茶",
        "Retiens que je préfère le thé.",
    ],
)
def test_a_wish_to_remember_is_known(sentence: str) -> None:
    wish = wish_in(sentence)
    assert wish is not None
    assert not wish.bare


@pytest.mark.parametrize(
    "sentence",
    [
        "Do you remember that we deploy on Fridays?",
        "I remember that we deploy on Fridays.",
        "Remember the old parser?",
        "remember when we deployed on Fridays",
        "We should remember tests.",
        "Don't forget to run the tests",
        "Forget that I like tea.",
        "你记得我喜欢喝茶吗？",
        "你能记住我叫什么吗？",
        "",
    ],
)
def test_what_only_sounds_like_a_wish_to_remember_is_none(sentence: str) -> None:
    assert wish_in(sentence) is None


def test_the_word_that_asks_to_remember_in_chinese_is_no_part_of_what_is_kept() -> None:
    sentence = "你能记住我们的测试数据库叫 orion-stage 吗？"
    wish = wish_in(sentence)
    assert wish is not None
    assert sentence[wish.start : wish.end] == "我们的测试数据库叫 orion-stage"
    assert without_wish(sentence) == "我们的测试数据库叫 orion-stage"


@pytest.mark.parametrize("sentence", ["Remember that.", "please remember this!", "记住这个", "Merk dir das."])  # fmt: skip
def test_a_bare_wish_speaks_of_its_neighbour(sentence: str) -> None:
    wish = wish_in(sentence)
    assert wish is not None
    assert wish.bare
    found = told("We deploy on Fridays", [f"We deploy on Fridays. {sentence}"])
    assert found is not None
    assert found.wished


@given(st.text(max_size=200), st.text(max_size=60))
def test_any_words_are_looked_at_without_harm(text: str, quote: str) -> None:
    assert 0 <= question_in(text) <= len(text)
    found = told(quote, [text])
    assert found is None or isinstance(found.stated, str)
    assert isinstance(speaks_of(quote, [text]), str)
    wish = wish_in(text)
    assert wish is None or 0 <= wish.start <= wish.end <= len(text)
