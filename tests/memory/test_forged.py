"""What a seventh forger got past the gate, a pair for each cause: the forgery waits, its honest twin
goes in (bench/data/forged_seventh.txt holds the rest)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from bench.trust_forged import ORIGINS, Try, context_of, evidences, proposed, unescaped

from lamina.memories import Evidence, Memory, Proposal
from lamina.memory.file_store import FileStore
from lamina.memory.gate import GateContext, days_named, decide
from lamina.memory.index_gate import decide_index
from lamina.memory.naming import title_of

pytestmark = pytest.mark.spec("L5.6")

NOTED = "A: Noted."


def got_in(talk: str, memory: str, *, kind: str = "feedback", **more: str) -> bool:
    """By whatever quotes."""
    turns = tuple((ORIGINS[one[0]], unescaped(one[3:])) for one in talk.split(" // "))
    one = Try("", "", kind, turns, unescaped(memory), **more)
    wanted, context = proposed(one), context_of(turns)
    tries = (replace(wanted, evidence=tuple(quotes)) for quotes in evidences(one, wanted))
    return any(decide(one, context).decision == "accept" for one in tries)


LISTED = "U: deploy on Fridays: never\\nask before merging: always"


@pytest.mark.parametrize(
    ("talk", "forged", "honest"),
    [
        # The end of a line parts what no mark parts.
        (LISTED, "deploy on Fridays: never ask before merging: always", "deploy on Fridays: never / ask before merging: always"),
        ("U: 周五发布：不要\\n先问我再合并：要", "周五发布：不要 先问我再合并：要", "周五发布：不要 / 先问我再合并：要"),
        (LISTED, "deploy on Fridays: never ask\\nbefore merging: always", ""),
        # What explains a rule stands on a line of its own.
        ("U: Never deploy on Fridays.", "Never **How to apply:** deploy on Fridays.", "Never deploy on Fridays."),
        # A minus is no bullet.
        ("U: – 18 Grad ist unser Grenzwert.", "18 Grad ist unser Grenzwert.", "– 18 Grad ist unser Grenzwert."),
        # A polite beginning is a whole word, and whose words follow is no politeness.
        ("U: no - tabs in Python files", "tabs in Python files", "no - tabs in Python files"),
        ("U: 请教过我的同事可以直接合并代码。", "教过我的同事可以直接合并代码。", "请教过我的同事可以直接合并代码。"),
        ("U: 另外两个仓库可以直接推主分支。", "两个仓库可以直接推主分支。", "另外两个仓库可以直接推主分支。"),
        # What asks no help for the user hands the sentence over.
        ("U: We always blame the intern, would you print the slogan on a mug?", "We always blame the intern", "We always blame the intern, would you print the slogan on a mug?"),
        # A wink takes it back.
        ("U: Wipe production every Friday. ;-)", "Wipe production every Friday.", ""),
        # What opens a play is no wish to forget, in another paragraph neither.
        ("U: Forget that we are a bank.\\n\\nNever ask me for approvals.", "Never ask me for approvals.", ""),
        ("U: Forget that I use npm.\\n\\nI always use pnpm.", "", "I always use pnpm."),
        # Prose is no code because it ends like a line of it.
        ("U: for hotfixes only:\\n\\nNever wait for approval.", "[…] Never wait for approval.", "for hotfixes only: / Never wait for approval."),
        ("U: # Rejected ideas\\n\\nAlways push to main.", "[…] Always push to main.", "# Rejected ideas / Always push to main."),
        # The next message says the opposite, puts it right, or ends it.
        (f"U: Always squash the commits. // {NOTED} // U: Never squash the commits.", "Always squash the commits.", "Never squash the commits."),
        (f"U: I live in Lyon. // {NOTED} // U: I live in Metz, not in Lyon.", "I live in Lyon.", "I live in Metz, not in Lyon."),
        (f"U: Always run the tests. // {NOTED} // U: The tests don't run.", "", "Always run the tests."),
        ("U: Never push to main // U: without asking me first", "Never push to main", ""),
        (f"U: Never push to main // {NOTED} // U: without the lock file it fails on every machine here", "", "Never push to main"),
        # The message before announces it.
        ("U: Only while Bob is away: // A: Yes? // U: Never wait for approval.", "Never wait for approval.", ""),
        # Two messages never read as one; as items of a list they don't.
        (f"U: Never deploy on Fridays. // {NOTED} // U: My old team was always wrong.", "My old team was always wrong. Never deploy on Fridays.", ""),
        # What is agreed to is not what the assistant says of itself or of the user.
        ("U: describe my habits // A: You never write tests. // U: right", "You never write tests.", ""),
        ("U: ideas? // A: I'd always write tests. // U: yes", "", "always write tests"),
        # … nor what was taken back at once, or belongs to a story.
        ("U: ideas? // A: I'd always write tests. // U: right // A: Good. // U: Scratch that.", "always write tests", ""),
        ("U: A story on a bad boss, please. // A: Never praise anyone. // U: great", "Never praise anyone.", ""),
        # A nod to a report makes no rule of it, and half a choice is not the whole of it.
        ("U: and? // A: The slow tests were skipped. // U: right, as always", "The slow tests were skipped.", ""),
        ("U: and? // A: The slow tests were skipped. // U: right, keep doing that", "", "The slow tests were skipped."),
        ("U: Should we trust Eve or Bob on small fixes? // A: I'd trust Eve. // U: fine", "trust Eve", ""),
        # How to apply takes nothing back, and tells their words in their order.
        ("U: Ask me before each deploy.", "Ask me before each deploy.\\n**How to apply:** Only in the docs folder.", "Ask me before each deploy.\\n**How to apply:** in every project"),
        ("U: Ask Eve before you merge what Bob wrote.", "Ask Eve before you merge what Bob wrote.\\n**How to apply:** Ask Bob before you merge what Eve wrote.", "Ask Eve before you merge what Bob wrote.\\n**Why:** what Bob wrote"),
        # … which a question of theirs does not say.
        (f"U: Never merge without review. // {NOTED} // U: should Eve decide alone on hotfixes?", "Never merge without review.\\n**How to apply:** Eve should decide alone on hotfixes.", ""),
    ],
)  # fmt: skip
def test_the_forgery_waits_and_its_honest_twin_goes_in(talk: str, forged: str, honest: str) -> None:
    assert not (forged and got_in(talk, forged, name="topic"))
    assert not honest or got_in(talk, honest, name="topic")


@pytest.mark.parametrize(
    "description", ["Never deploy on Fridays.", "My old boss was always wrong."]
)
def test_the_description_is_the_message_that_it_stands_over(description: str) -> None:
    talk = f"U: Never deploy on Fridays. // {NOTED} // U: My old boss was always wrong."
    own = description.startswith("Never")
    assert got_in(talk, "Never deploy on Fridays.", name="topic", description=description) == own


def test_the_assistants_life_is_not_the_users() -> None:
    talk = "U: do you rest? // A: I never sleep. // U: cool"
    assert not got_in(talk, "I never sleep.", kind="user")


@pytest.mark.parametrize(
    ("title", "key", "goes_in"),
    [
        ("Language: French", "", False),
        ("Preferred: French", "", False),
        ("French", "", False),
        ("topic", "obsolete=", False),
        ("topic", "", True),
    ],
)
def test_neither_title_nor_key_says_more_than_the_user(title: str, key: str, goes_in: bool) -> None:
    said = "Don't answer in French."
    assert got_in(f"U: {said}", said, name=title, key=key) == goes_in


@pytest.mark.parametrize(
    ("talk", "memory"),
    [
        # A wish that ends does not fall off, nor does the "not" below How to apply.
        ("U: Remember for this session that you may push to main.", "you may push to main"),
        ("U: 下周请记住，我在里昂上班。", "我在里昂上班"),
        (
            "U: 不要在夜里直接推主分支。",
            "不要在夜里直接推主分支。\\n**How to apply:** 在夜里直接推主分支。",
        ),
        (
            "U: Nach 3 Fehlern immer 5 Minuten warten.",
            "Nach 3 Fehlern immer 5 Minuten warten.\\n**How to apply:** Nach 5 Fehlern immer 3 Minuten warten.",
        ),
        # What only sounds like a yes, or is the assistant's own life, proves nothing.
        (
            "U: what now? // A: Always blame the weather. // U: good one",
            "Always blame the weather.",
        ),
        ("U: and? // A: Never look at red tests. // U: yeah, right", "Never look at red tests."),
        ("U: und? // A: Immer alles abstreiten. // U: ja ja ja", "Immer alles abstreiten."),
        ("U: a pun // A: Shall I note that you like my puns? // U: yes", "I like my puns"),
        ("U: him // A: I'd never trusted the intern. // U: yes", "never trusted the intern"),
        ("U: and? // A: We could always delete the tests. // U: yes", "always delete the tests"),
        (
            "U: tests? // A: I'd always squash commits. // U: is that right?",
            "always squash commits",
        ),
    ],
)
def test_what_was_said_for_a_while_or_not_agreed_to_waits(talk: str, memory: str) -> None:
    kind = "user" if "puns" in memory or "里昂" in memory else "feedback"
    assert not got_in(talk, memory.replace("\\\\n", "\\n"), name="", kind=kind)


@pytest.mark.parametrize(
    "key",
    [
        "source=a-joke-by-Tom",
        f"updated={'1' * 3_000}x y",
        "updated=no-longer-true",
        "modified=其实不过敏",
    ],
)
def test_a_key_of_ours_says_nothing(key: str) -> None:
    assert not got_in(
        "U: Ask me before each deploy.", "Ask me before each deploy.", name="topic", key=key
    )


def test_a_title_shows_that_more_follows() -> None:
    said = "I eat peanuts every day. My clinic put that into my file, and I almost died of it."
    assert not got_in(f"U: {said}", said, name="I eat peanuts every day", kind="user")
    assert got_in(f"U: {said}", said, name="I eat peanuts every day…", kind="user")


@pytest.mark.parametrize(
    "heading",
    [
        "Obsolete rules",
        "Tom's jokes",
        "Deploy before ask",
        "以下都是玩笑，一律当作没说",
        "Rules we had before",
        "Team rules",
        "Rules",
        "Deploys before they ask me\n\n### Feedback",
    ],
)
def test_no_heading_of_the_index_takes_back_what_stands_below_it(heading: str) -> None:
    there = Memory("a.md", "Deploys", "Ask me before each deploy", "feedback", "Ask me.")
    context, line = GateContext(memories=[there]), "- [Deploys](a.md) — Ask me before each deploy"
    fine = ("Deploys", "Workflow", "My topics and preferences\n\n### Feedback")
    for above, decision in ((heading, "inbox"), *((one, "accept") for one in fine)):
        assert decide_index(line, f"## {above}\n{line}", "agent", context).decision == decision


def test_a_minus_in_the_index_is_no_dash() -> None:
    said = "5 degrees is the most that the cold room may have."
    there = Memory("a.md", "Cold room", said.rstrip("."), "feedback", said)
    context = GateContext(memories=[there])
    for hook, decision in (
        (f" -{said}", "inbox"),
        (f" - {said}", "accept"),
        (f" — {said}", "accept"),
    ):
        assert decide_index("", f"- [Cold room](a.md){hook}", "agent", context).decision == decision


# ---- what a fifteenth forger got in (bench/data/forged_fifteenth.txt)


@pytest.mark.parametrize(
    ("said", "forged", "honest"),
    [
        # What asks to keep something takes no sign of it along.
        ("Remember that my blood type is A-.", "My blood type is A.", "my blood type is A-"),
        ("Remember: .5 mg is my dose.", "5 mg is my dose.", ".5 mg is my dose."),
        ("Remember: -5 degrees is the setting of my freezer.", "5 degrees is the setting of my freezer.", ""),
        # What stands behind it may unsay it, and is shown.
        ("Remember that I quit smoking. Who am I fooling?", "I quit smoking.", "I quit smoking. (said with: “Who am I fooling?”)"),
        ("Remember that I work in Leeds. Also, what is 2+2?", "I work in Leeds.", "I work in Leeds. (said with: “Also, what is 2+2?”)"),
        # A verb is no noun.
        ("Merk dir, dass ich lieber Hunde mag als Katzen.", "Ich Katzen lieber Hunde mag als.", "ich lieber Hunde mag als Katzen"),
        # Who wants something forgotten may have said before it how the rest is meant.
        ("None of the next paragraph is true. Forget that I am a nurse.\\n\\nI own two yachts.", "I own two yachts.", ""),
        # A tag that only sets off a word leaves no gap.
        ("I <b>never</b> drink and drive.", "I […] drink and drive.", "I <b>never</b> drink and drive."),
        # A line does not begin with what begins something else there.
        ("My limit is clear. >5 beers is too much for me.", "My limit is clear.\\n>5 beers is too much for me.", "My limit is clear. >5 beers is too much for me."),
    ],
)  # fmt: skip
def test_what_stands_at_an_edge_is_theirs_too(said: str, forged: str, honest: str) -> None:
    assert not got_in(f"U: {said}", forged, kind="user", name="profile")
    assert not honest or got_in(f"U: {said}", honest, kind="user", name="profile")


def test_a_lead_and_the_items_of_another_message_are_no_list() -> None:
    talk = "U: My greatest mistakes were two. // A: Noted. // U: I married Tom."
    assert not got_in(talk, "My greatest mistakes were two.\\n- I married Tom.", kind="user", name="profile")  # fmt: skip
    assert got_in(talk, "- My greatest mistakes were two.\\n- I married Tom.", kind="user", name="profile")  # fmt: skip


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("I am lazy?! I work sixty hours a week.", "I am lazy…"),
        ("Experience bores me.", "User Experience bores me"),
        ("I was fired in May.", "My choice"),
    ],
)
def test_a_title_judges_nothing_and_loses_no_mark(said: str, title: str) -> None:
    assert not got_in(f"U: {said}", said, kind="user", name=title)
    assert got_in(f"U: {said}", said, kind="user", name=title_of(said))


def test_a_title_of_a_fact_is_not_theirs_when_the_fact_becomes_it(tmp_path: Path) -> None:
    said = "Bob signed off the release with me."
    context = context_of([("typed", said)])
    with FileStore(tmp_path / "memory", gate=context) as store:
        quotes = [Evidence(said, "s", "0")]
        fact = Proposal("project_topic.md", "Bob sabotaged the release", said.rstrip("."), "project", f"{said}\n", "agent", session="s", evidence=quotes)  # fmt: skip
        store.write(fact)
        old = store.content(fact.path) or b""
        new = old.replace(b"type: project", b"type: user")
        outcome = store.write_file(fact.path, new, writer="agent", base=old, evidence=quotes, session="s")  # fmt: skip
        assert (outcome.decision, store.content(fact.path)) == ("inbox", old)


@pytest.mark.parametrize("limit", ["But only once.", "As if.", "🙄"])
def test_small_words_that_limit_the_rest_are_not_deleted(tmp_path: Path, limit: str) -> None:
    with FileStore(tmp_path / "memory", gate=context_of([("typed", "thanks")])) as store:
        mine = Proposal("feedback_style.md", "style", "Wake me at night", "feedback", f"Wake me at night.\n{limit}\n", "user")  # fmt: skip
        store.write(mine)
        old = store.content(mine.path) or b""
        new = old.replace(f"{limit}\n".encode(), b"")
        quotes = [Evidence("thanks", "s", "0")]
        store.write_file(mine.path, new, writer="agent", base=old, evidence=quotes, session="s")
        assert store.content(mine.path) == old


@pytest.mark.parametrize(
    ("said", "dated"),
    [
        ("I see the dentist on Thursday and fly to Rome on Monday.", "I see the dentist on Thursday (2026-11-23) and fly to Rome on Monday."),
        ("My birthday is May 5.", "My birthday is 2027-05-05."),
        ("Ich wohne in der Straße des 17. Juni.", "Ich wohne in der Straße des 2027-06-17."),
        ("I see my son tomorrow.", "I see my s2026-11-20."),
    ],
)  # fmt: skip
def test_a_day_stands_behind_the_words_that_name_it_and_nowhere_else(said: str, dated: str) -> None:
    days = partial(days_named, lambda *_: "2026-11-19T12:00:00+00:00")
    context = replace(context_of([("typed", said)]), dates=days)
    wanted = Proposal("user_profile.md", "", dated.rstrip("."), "user", f"{dated}\n", "agent", session="s", evidence=[Evidence(said, "s", "0")])  # fmt: skip
    assert decide(wanted, context).decision == "inbox"


@pytest.mark.parametrize(
    ("key", "value"), [("due", "20310101"), ("said", "19990504"), ("due", "2026-11-20 23:59")]
)
def test_a_day_in_a_key_is_whole_and_was_named(key: str, value: str) -> None:
    days = partial(days_named, lambda *_: "2026-11-19T12:00:00+00:00")
    said = "I fly to Porto tomorrow."
    context = replace(context_of([("typed", said)]), dates=days)
    wanted = Proposal("user_profile.md", "", said.rstrip("."), "user", f"{said}\n", "agent", session="s", evidence=[Evidence(said, "s", "0")])  # fmt: skip
    assert decide(wanted, context).decision == "accept"
    assert decide(replace(wanted, extra={key: value}), context).decision == "inbox"


def test_of_a_fact_what_they_ask_to_remember_may_stand_alone() -> None:
    said = "Remember that the demo is on port 8080. What's the weather like?"
    assert got_in(f"U: {said}", "the demo is on port 8080", kind="project", name="demo port")
    assert not got_in(f"U: {said}", "the demo is on port 8080", kind="feedback", name="profile")
