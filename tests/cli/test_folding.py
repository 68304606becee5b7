"""Folding as people do it: `lamina sessions compact | expand | undo-compact`, /compact, /snip, /undo."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.screen import PROMPT
from tests.cli.test_chat_talk import Talk, talk  # noqa: F401, TC002 - a fixture and its type

from lamina.ledger import edits, joining
from lamina.ledger.log import read
from lamina.ledger.places import project_folder
from lamina.ledger.record import Ledger
from lamina.messages import Usage, text

Run = Callable[..., Any]


def words(n: int) -> str:
    return f"Answer {n} took {3000 + n} ms. " + " ".join(f"w{n}q{i}" for i in range(1_500))


@pytest.fixture
def session(world: Path) -> Path:
    """A session of twelve rounds, as the real ledger writes it."""
    path = project_folder(world / "home", world / "project") / "3f2a-1.jsonl"
    ledger = Ledger.open(path)
    ledger.append(edits.frame([text("system")], [], "none", {}))
    for n in range(12):
        ledger.append(
            edits.message("user", f"Question {n}: never drop port {7000 + n}.", "typed"),
            edits.answer([text(words(n))], Usage()),
        )
    ledger.close()
    return path


def view_of(path: Path) -> bytes:
    return joining.request_bytes(Ledger.of(read(path).entries).view())


@pytest.mark.spec("L4.8", "I2")
def test_compact_expand_show_and_undo(lamina: Run, session: Path) -> None:
    done = lamina("sessions", "compact", "3f2a", "--json")
    assert done.code == 0, done.err
    made = done.json
    assert made["source"] == "local"
    assert made["tokens_after"] < made["tokens_before"]
    folded = view_of(session)
    assert b"w0q900" not in folded

    whole = lamina("sessions", "expand", "3f2a").out
    assert words(0) in whole
    assert lamina("sessions", "expand", "3f2a", "1").out == whole
    assert lamina("sessions", "expand", "3f2a", made["edit"][:8]).out == whole

    shown = lamina("sessions", "show", "3f2a").out
    line = next(line for line in shown.splitlines() if line.startswith("edit: compaction"))
    assert made["edit"][:8] in line
    assert f"fidelity {made['score']:.0%}" in line
    assert "numbers" in line

    back = lamina("sessions", "undo-compact", "3f2a")
    assert "back in the context" in back.out
    again = view_of(session)
    assert b"w0q900" in again
    assert b"<summary>" not in again
    assert lamina("sessions", "undo-compact", "3f2a").code == 2


@pytest.mark.spec("L4.5", "I2")
def test_partial_by_the_beginning_of_an_entry_s_id(lamina: Run, session: Path) -> None:
    typed = [e for e in read(session).entries if e.get("origins") == ["typed"]]
    done = lamina("sessions", "compact", "--up-to", typed[6]["uuid"][:8])
    assert "Compacted from the record" in done.out
    view = view_of(session).decode()
    assert "Work completed" in view
    assert words(6) in view
    assert words(5) not in view


@pytest.mark.spec("L4.8", "I2")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("expand", "3f2a"), "Nothing was compacted or snipped"),
        (("expand", "3f2a", "beef1234"), "no entry"),
        (("undo-compact", "3f2a"), "no compaction"),
        (("compact", "nowhere"), "There is no session nowhere"),
        (("compact", "--from", "zzzz9999"), "no entry"),
        (("compact", "--from", "a", "--up-to", "b"), "not allowed with"),
    ],
)
def test_what_can_t_be_done_is_one_sentence(
    lamina: Run, session: Path, line: tuple[str, ...], said: str
) -> None:
    before = view_of(session)
    ran = lamina("sessions", *line)
    assert ran.code == 2
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert view_of(session) == before


@pytest.mark.spec("L4.8", "I2")
def test_a_fold_that_is_not_there_is_named_with_how_many_there_are(
    lamina: Run, session: Path
) -> None:
    lamina("sessions", "compact")
    assert "this session has 1" in lamina("sessions", "expand", "3f2a", "7").err


@pytest.mark.spec("L2.5", "L4.1", "I2")
def test_in_a_conversation(talk: Talk, world: Path) -> None:  # noqa: F811
    steps = [{"reply": words(n)} for n in range(4)]
    screen = talk(*steps, otherwise={"main": "More.", "notes": "-", "extraction": "-"})
    for n in range(4):
        screen.say(f"Question {n} about ports")
        screen.expect(f"w{n}q1499")
        screen.expect(PROMPT)
    screen.say("/snip")
    screen.expect("1. Question 0 about ports")
    screen.expect("4. Question 3 about ports")
    screen.say("/snip 1-2 the first two")
    screen.expect("tokens left the context")
    screen.say("/snip nonsense")
    screen.expect("Say which rounds")
    screen.say("/undo")
    screen.expect("Undone: snip")
    screen.say("/undo")
    screen.expect("There is no compaction or snip to undo")
    screen.say("/compact stress the ports")
    said = screen.expect("of the probed facts kept. /undo brings it")
    assert "tokens saved" not in said, "what came of it is said once"
    screen.say("/undo")
    screen.expect("Undone: compaction")
    screen.expect(PROMPT)
    screen.press("\x04")
    assert screen.leave() == 0


@pytest.mark.spec("L4.8")
def test_a_low_score_stands_in_the_status_line(talk: Talk, world: Path) -> None:  # noqa: F811
    settings = world / "home" / "settings.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text("[compact]\nfidelity = 1.0\n[notes]\nenabled = false\n")
    figures = [" ".join(f"{k + 1}{n:04d}" for n in range(1_500)) for k in range(4)]
    replies = [{"reply": f"{figures[n]} {words(n)}"} for n in range(4)]
    screen = talk(*replies, otherwise={"extraction": "-"})
    for n in range(4):
        screen.say(f"Question {n} about ports")
        screen.expect(f"w{n}q1499")
        screen.expect(PROMPT)
    screen.say("/compact")
    screen.expect("of the probed facts kept")
    screen.expect("summary keeps only ")
    screen.press("\x04")
    assert screen.leave() == 0


def test_the_json_of_show_has_the_score(lamina: Run, session: Path) -> None:
    lamina("sessions", "compact")
    entries = json.loads(lamina("sessions", "show", "--json").out)["entries"]
    [boundary] = [e["boundary"] for e in entries if "boundary" in e]
    assert 0 < boundary["fidelity"]["score"] <= 1
