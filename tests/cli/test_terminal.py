"""What people see: colours only where they are wanted, recorded text that can't steer a terminal."""

from __future__ import annotations

import io
import os
import pty
import sys
from collections.abc import Iterator
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina import events
from lamina.cli import terminal
from lamina.cli.chat_events import line_of
from lamina.messages import Usage


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    master, slave = pty.openpty()
    with open(slave, "w") as stream:
        yield stream
    os.close(master)


@pytest.mark.spec("I2")
def test_colours_show_on_a_terminal_and_nowhere_else(
    screen: TextIO, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert terminal.style("x", "red", screen) == "\x1b[31mx\x1b[0m"
    assert terminal.style("x", "red") == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.style("x", "red", screen) == "x"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert terminal.style("x", "red", screen) == "x"


@given(st.text())
def test_harmless_text_holds_nothing_that_steers_a_terminal(text: str) -> None:
    shown = terminal.harmless(text)
    assert not any(ord(c) < 0x20 and c not in "\t\n" for c in shown)
    assert not any(0x7F <= ord(c) < 0xA0 for c in shown)
    assert len(shown) == len(text)


@given(st.text(), st.integers(1, 40))
def test_one_line_is_one_line_and_fits(text: str, room: int) -> None:
    line = terminal.one_line(text, room)
    assert len(line) <= room
    assert len(line.splitlines()) <= 1


def test_columns_line_up_whatever_their_colours() -> None:
    rows = [["\x1b[31ma\x1b[0m", "b"], ["long", "c"]]
    assert terminal.table(rows) == "\x1b[31ma\x1b[0m     b\nlong  c"
    assert terminal.table([]) == ""


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (events.ToolStarted("1", "Bash", {"command": "ls\n-l"}), "• Bash ls -l"),
        (events.ToolStarted("1", "Odd", {"n": 3, "what": "it"}), "• Odd it"),
        (events.ToolStarted("1", "Odd", {}), "• Odd"),
        (events.ToolFinished("1", "Bash", is_error=False, size=3), None),
        (events.ToolFinished("1", "Bash", is_error=True, size=3), "  Bash failed"),
        (events.PermissionRefused("Bash", "no"), "  Bash refused: no"),
        (events.Warned("Mind \x1b[2J."), "Mind ␛[2J."),
        (events.Retrying(1, 2.4, "busy"), "  trying again in 2 s: busy"),
        (events.StreamRestarted("cut"), "  the answer starts again: cut"),
        (events.LayerActed("notes", "wrote", 1200), "  notes: wrote, 1,200 tokens saved"),
        (events.LayerActed("notes", "wrote"), "  notes: wrote"),
        (events.LayerFailed("notes", "why"), "  notes failed: why"),
        (events.PromptRecovered("cleared"), "  the prompt was too long: cleared"),
        (events.CacheBroke("tools", 9, 1), "  the prompt cache broke: tools"),
        (events.CacheBroke("tools", 9, 1, registered=True), None),
        (events.MemoryUpdated(["a.md", "b.md"], "extraction"), "  Memory updated: a.md, b.md"),
        (events.MemoryUpdated([], "agent", ["a.md"]), "  Memory removed: a.md"),
        (
            events.MemoryUpdated(["b.md"], "agent", ["a.md"]),
            "  Memory updated: b.md; removed: a.md",
        ),
        (events.MemoryUpdated([], "user", ["a.md"]), None),  # the command says it itself
        (
            events.MemoryAdopted(["a.md"]),
            "  Found 1 memory that Lamina did not write; now tracked.",
        ),
        (events.BackgroundChanged("dream", "failed", "why"), "  dream failed: why"),
        (events.BackgroundChanged("dream", "done"), None),
        (events.ModelCalled("main", "m", Usage()), None),
    ],
)
def test_an_event_is_one_line_or_none(event: events.Event, shown: str | None) -> None:
    line = line_of(event)
    assert (line.text if line else None) == shown


def test_a_terminal_without_unicode_gets_question_marks_not_a_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))
    terminal.stream("Grüße …\x1b[31m")
    terminal.out("Grüße")
    sys.stdout.flush()
    assert written.getvalue() == b"Gr??e ??[31mGr??e\n"


@pytest.mark.spec("I2")
def test_wide_characters_and_accents_count_as_a_terminal_shows_them() -> None:
    assert [terminal.columns(text) for text in ("abc", "世界", "e\u0301", "é…")] == [3, 4, 1, 2]
    assert terminal.one_line("世界世界", 8) == "世界世界"
    assert terminal.one_line("世界世界", 6) == "世界…"
    assert terminal.one_line("a long line", 6) == "a lon…"
    assert terminal.one_line("abc", 0) == "…"
    assert terminal.table([["世界", "x"], ["ab", "y"]]) == "世界  x\nab    y"
