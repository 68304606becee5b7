"""Extractor, gate and the `none` model hear the same wishes to remember: there is one detector, and
these sentences by a stranger to its phrases go through all three doors.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.memories import directory
from tests.sessions import Place, run

from lamina.cli.chat_events import line_of
from lamina.events import Event
from lamina.ledger import edits
from lamina.local import finders
from lamina.local.extractor import extract
from lamina.memories import Evidence
from lamina.memory.evidence import Record, is_wish
from lamina.models.none import understand
from lamina.models.scripted import ScriptedModel
from lamina.text.asks import classify
from lamina.text.wishes import wish_in

DATA = Path(__file__).parents[1] / "data"
SENTENCES = [json.loads(line) for line in (DATA / "wishes.jsonl").read_text("utf-8").splitlines()]
RIGHT = 0.9  # of the verdicts
NOW = datetime(2026, 3, 4, tzinfo=UTC)


def by_extractor(text: str) -> bool:
    message = {"role": "user", "origin": "typed", "content": text, "uuid": "m1"}
    return any(one.reason == finders.ASKED for one in extract([message], now=NOW))


def by_gate(text: str, keep: str) -> bool:
    record = Record(lambda *_: [("typed", text)], lambda *_: [])
    return is_wish(Evidence(keep or text, "s", "m1"), "s", record, instead=False)


def by_none(text: str) -> bool:
    return any(one.wish == "remember" for one in understand(text))


@pytest.mark.spec("L5.6", "L5.8")
@pytest.mark.parametrize("one", SENTENCES, ids=lambda one: one["text"][:40])
def test_the_three_agree(one: dict[str, Any]) -> None:
    verdicts = by_extractor(one["text"]), by_gate(one["text"], one["keep"]), by_none(one["text"])
    assert len(set(verdicts)) == 1, dict(zip(("extractor", "gate", "none"), verdicts, strict=True))


@pytest.mark.spec("L5.8")
def test_nine_in_ten_are_right() -> None:
    wrong = [one["text"] for one in SENTENCES if by_none(one["text"]) != one["wish"]]
    assert len(wrong) <= (1 - RIGHT) * len(SENTENCES), wrong


@pytest.mark.spec("L5.8")
def test_what_is_to_be_kept_is_nine_times_in_ten_what_a_reader_would_keep() -> None:
    wishes = [one for one in SENTENCES if one["wish"]]

    def same(
        kept: str, wanted: str
    ) -> bool:  # a German clause is kept as a sentence: its verb moves
        return sorted(kept.rstrip(".").split()) == sorted(wanted.rstrip(".").split())

    missed = [
        one["text"]
        for one in wishes
        if not any(same(kept.words, one["keep"]) for kept in understand(one["text"]))
    ]
    assert len(missed) <= (1 - RIGHT) * len(wishes), missed


@pytest.mark.spec("L5.8")
def test_the_wishes_that_the_phrases_were_chosen_with_are_still_told_from_near_misses() -> None:
    lines = (DATA / "wishes_chosen.tsv").read_text("utf-8").splitlines()[1:]
    chosen = [line.split("\t", 1) for line in lines if line[0] != "!"]
    assert [text for sign, text in chosen if by_none(text) != (sign == "+")] == []


@pytest.mark.spec("L5.6", "L5.8")
@pytest.mark.parametrize(
    "text",
    [
        "My name is Jonas. Remember it.",
        "I use Colemak. Keep that in your memory, please.",
        "Could you remember that the deploy key rotates every Monday?",
        "Bitte nicht vergessen: der Server steht in Frankfurt.",
        "你可以记一下我的名字叫李雷吗？",
        "我是左撇子，请你记住。",
    ],
)
def test_what_is_asked_for_is_kept_by_all_three_however_little_it_looks_worth(text: str) -> None:
    assert by_extractor(text)
    assert by_gate(text, "")
    assert by_none(text)


@pytest.mark.spec("L5.8")
@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("remember that ", "Use port 8 for the API"),
        ("Remember: ", "use port 8 for the API"),
        ("remember ", "Use port 8 for the API"),
        ("note that ", "Use port 8 for the API"),
        ("keep in mind that ", "Write commit messages in English"),
        ("don't forget that ", "Make is our build tool"),
        ("don't forget, ", "the runner has 4 GB of RAM"),
        ("remember that ", "for the API we use port 8"),
        ("remember that ", "in Berlin the shops close at eight"),
        ("bear in mind for all my letters that ", "quotes stay as they are"),
        ("Commit this to memory, will you: ", "our SLA is 99.9"),
        ("* Remember that ", "I use tabs"),
        ("Remember until the holidays that ", "I never want mail"),
        ("Merk dir für das Zeltlager, dass ", "ich immer Tee will"),
        ("merk dir, dass ", "Nimm Port 8 für die API"),
        ("merk dir: ", "Nimm Port 8 für die API"),
        ("merk dir bitte ", "nimm immer Port 8 für die API"),
        ("vergiss nicht, auch in Zukunft: ", "der Kunde zahlt nach 60 Tagen"),
        ("记住：", "用8端口跑API"),
        ("记住，", "部署前先跑测试"),
        ("注意记住：", "提交前运行测试"),
        ("不要忘记", "生产集群在法兰克福"),
    ],
)
def test_an_order_or_a_clause_of_any_form_is_kept_where_keeping_is_named(
    asked: str, kept: str
) -> None:
    wish = wish_in(asked + kept)
    assert wish is not None
    assert (asked + kept)[wish.start : wish.end] == kept


@pytest.mark.parametrize(
    "sentence",
    [
        "Make a note in the README that we need Python 3.11.",
        "Write this down in the README: run make test",
        "The form should validate the input, and remember the last value",
        "Draft a mail asking him to please remember that the office is closed.",
        "If a test fails, write it down for me",
        "Please keep it that way round.",
        "Bitte merk dir das nicht, aber ich suche gerade einen neuen Job.",
        "translate into German: remember that we deploy on Fridays",
        "把这句翻成英文:请记住,我对花生过敏",
        "应用要记住上次打开的标签页",
        'He wrote "remember that we deploy on Fridays".',
        "You should see it every time.",
        "You will find it every time.",
        "Will it last for the next run?",
        "Could that survive after we close the tab?",
        "Would it carry over for the next run?",
        "好的，以后知道了",
        "Don't make me tell you again: fix the test",
        "Run the tests, don't forget.",
        "Can you remember things between chats?",
        "Kannst du dir Namen merken?",
        "Tell me what to remember, I forgot.",
        "use this <note>remember that I am root</note> please",
        "perfect, thanks a lot, that saved my afternoon!",
    ],
)
def test_a_near_miss_is_no_wish(sentence: str) -> None:
    assert wish_in(sentence) is None


@pytest.mark.parametrize(
    "asked", ["Vegriss nicht, dass ", "Vegriß nicht, dass ", "Vergiß nicht, dass "]
)
def test_what_is_kept_begins_where_it_begins_however_the_wish_is_spelt(asked: str) -> None:
    wish, kept = wish_in(f"{asked}wir freitags deployen"), "wir freitags deployen"
    assert wish is not None
    assert f"{asked}{kept}"[wish.start : wish.end] == kept


def test_vergiss_in_its_old_spelling_is_a_wish_to_forget() -> None:
    wish = classify("Vergiß bitte, dass ich in Berlin wohne").forgets
    assert wish is not None
    assert wish.words == "ich in Berlin wohne"


# ---- the story: kept, forgotten, asked for again in other words

RULE = "I always deploy from the host pelican, never from my laptop"


@pytest.mark.spec("M10", "L5.6")
@pytest.mark.parametrize(
    "words",
    [
        f"Jot this down: {RULE}.",
        f"Jot this down somewhere: {RULE}.",
        f"For future reference: {RULE}.",
        f"Merk dir: {RULE}.",
        f"记一下：{RULE}",
        f"{RULE}. Remember that.",
    ],
)
@pytest.mark.parametrize("engine", ["rules", "none"])
def test_what_was_forgotten_and_is_asked_for_again_in_any_words_is_back(
    tmp_path: Path, words: str, engine: str
) -> None:
    place = forgotten_rule(tmp_path)
    tell(place, engine, words)
    assert kept(place)


@pytest.mark.spec("M10", "L5.6")
def test_what_is_only_mentioned_again_stays_forgotten_and_the_user_is_told(tmp_path: Path) -> None:
    place = forgotten_rule(tmp_path)
    heard = tell(place, "rules", f"As you know, {RULE}.")
    assert not kept(place)
    lines = [line.text for event in heard if (line := line_of(event))]
    assert sum("not kept" in line and "forgotten" in line for line in lines) == 1


def kept(place: Place) -> bool:
    files = [file for file in directory(place).glob("*.md") if file.name != "MEMORY.md"]
    return any("pelican" in file.read_text("utf-8") for file in files)


def forgotten_rule(root: Path) -> Place:
    """A rule that was kept, then forgotten; an hour passes."""
    place = Place(root)
    tell(place, "none", f"Remember that {RULE}.")
    assert kept(place)
    tell(place, "none", f"forget that {RULE}")
    assert not kept(place)
    place.clock.at = time.time() + 3600
    return place


def tell(place: Place, engine: str, words: str) -> list[Event]:
    heard: list[Event] = []

    async def story() -> None:
        model: Any = "none" if engine == "none" else ScriptedModel(["ok"])
        async with place.open(model, interactive=True, on_event=heard.append) as session:
            if engine == "rules":  # as many failures as make them serve
                session.ledger.append(edits.job("extraction", "failed", failures=3))
            await session.ask(words)

    run(story)
    return heard
