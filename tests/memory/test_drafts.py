"""What the user typed speaks, whatever else the message asks for and whatever it is called."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lamina.local.extractor import extract
from lamina.memories import Evidence, Memory, Proposal
from lamina.memory.drafts import going_on, in_their_words
from lamina.memory.file_store import FileStore
from lamina.memory.gate import GateContext
from lamina.memory.naming import title_of
from lamina.text.own_words import main_clause

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


@pytest.mark.spec("L5.6", "L5.8")
@pytest.mark.parametrize(
    ("fact", "more"),
    [
        (
            "The error budgets of all services are on grafana.lan/d/slo-board, one row a team.",
            "Why is checkout in the red there?",
        ),
        (
            "Bugs of the scanner app are kept in YouTrack, project SCAN, not in GitHub.",
            "Write a title for this one, please.",
        ),
        (
            "Die Prüfprotokolle liegen auf Laufwerk T: unter Labor\\Pruefung, nach Monat sortiert.",
            "Schreib mir ein Skript, das die von gestern zählt.",
        ),
        ("设计稿都放在蓝湖的“会员中心”项目里，仓库里的截图早就过时了。", "帮我写个按钮样式"),
    ],
)
def test_a_typed_fact_speaks_in_its_own_sentence(tmp_path: Path, fact: str, more: str) -> None:
    said = f"{fact} {more}"
    messages = [{"role": "user", "origin": "typed", "content": said, "uuid": "0"}]
    gate = GateContext(origin_text=lambda *_: [("typed", said)])
    with FileStore(tmp_path / "memory", gate=gate) as store:
        [found] = extract(messages, now=NOW, session="s")
        path = store.remember(in_their_words(store, found)).path
        kept = store.read(path)
        assert (kept.type, kept.quoted) == ("reference", "")
        assert kept.body.strip().casefold() == fact.casefold()
        assert more not in kept.description


@pytest.mark.spec("L5.6", "L5.8")
@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (
            "make a note that I want release notes with the breaking changes first and the rest by room",
            "I want release notes with the breaking changes first and the rest by room",
        ),
        (
            "Merk dir: in der Filiale Ulm ist freitags schon ab zwölf zu, da gehen nie Lieferungen hin",
            "in der Filiale Ulm ist freitags schon ab zwölf zu, da gehen nie Lieferungen hin",
        ),
        (
            "Behalte bitte im Hinterkopf, dass wir Gutscheine nicht erstatten. Das steht in den AGB.",
            "wir erstatten Gutscheine nicht. Das steht in den AGB.",
        ),
        (
            "Remember for good: my surname is written Mac Allan with a space. Two badges were wrong.",
            "my surname is written Mac Allan with a space. Two badges were wrong.",
        ),
    ],
)
def test_a_long_wish_is_kept_without_the_words_that_ask_for_it(
    tmp_path: Path, said: str, kept: str
) -> None:
    messages = [{"role": "user", "origin": "typed", "content": said, "uuid": "0"}]
    gate = GateContext(origin_text=lambda *_: [("typed", said)])
    with FileStore(tmp_path / "memory", gate=gate) as store:
        [found] = extract(messages, now=NOW, session="s")
        done = store.remember(in_their_words(store, found))
        assert done.decision == "accept", done.reason
        lines = store.read(done.path).body.strip().splitlines()
        assert lines[0].casefold().rstrip(".") == kept.casefold().rstrip(".")


@pytest.mark.spec("L5.6")
@pytest.mark.parametrize("kind", ["project", "reference"])
@pytest.mark.parametrize(
    "frame", ["It is a lie that", "I doubt that", "Only on staging", "In the novel", "False:"]
)
def test_a_fact_keeps_the_words_that_turn_it_round(tmp_path: Path, frame: str, kind: Any) -> None:
    cut = "the tokens of all teams are kept in vault.lan/team."
    said = f"{frame} {cut}"
    gate = GateContext(origin_text=lambda *_: [("typed", said)])
    told = Proposal(
        path=f"{kind}_tokens.md",
        name="topic",
        description=cut,
        type=kind,
        body=f"{cut}\n",
        writer="extraction",
        evidence=[Evidence(said, "s", "e")],
        session="s",
    )
    with FileStore(tmp_path / "memory", gate=gate) as store:
        for one in (told, replace(told, name=title_of(cut))):
            worded = in_their_words(store, one)
            assert not store.judge_among(one, (), "").speaks
            assert frame in worded.body


@pytest.mark.spec("L5.6")
def test_a_misnamed_file_of_the_team_is_not_filed_elsewhere(tmp_path: Path) -> None:
    said = "Never rebase the release branch."
    gate = GateContext(origin_text=lambda *_: [("typed", said)])
    path = "team/feedback_always_push.md"
    evidence = [Evidence(said, "s", "e")]
    told = Proposal(path, "push", said, "feedback", said, "agent", evidence=evidence, session="s")
    with FileStore(tmp_path / "memory", gate=gate) as store:
        assert in_their_words(store, told).path == path


@pytest.mark.spec("L5.8")
@pytest.mark.parametrize(
    "kept", ["wir Gutscheine erstatten? Nein", "wir z. B. Gutscheine erstatten"]
)
def test_no_verb_moves_out_of_what_is_no_plain_clause(kept: str) -> None:
    assert main_clause(kept, "merk dir, dass") == ""


@pytest.mark.spec("L5.9", "M9")
def test_what_is_added_to_a_hand_written_file_keeps_its_own_lines_and_code() -> None:
    more = "Steps:\n\n- tag it\n- push it\n\n```sh\nmake deploy   X=1\n    undo\n```"
    known = Memory("deploys.md", "Deploys", "How", "user", "Deploys run on Friday.", {})
    said = f"{known.body} Never on Monday.\n\n{more}"
    added = going_on(
        Proposal(known.path, "Deploys", "", "user", said, writer="user", session=""),
        known,
        lambda _: True,
    )
    assert added
    assert added.body == f"{known.body}\nNever on Monday.\n\n{more}"
