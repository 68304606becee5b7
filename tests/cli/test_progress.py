"""The line that says how far a long reading is: only on a terminal, only after a while, and gone."""

from __future__ import annotations

import io

import pytest

from lamina.cli.terminal import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_it_shows_after_a_second_and_not_too_often(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    progress = Progress("Reading")
    clock[0] += 0.9
    progress(1_000_000, 50_000_000)
    progress.clear()
    assert screen.getvalue() == ""
    clock[0] += 0.2
    progress(7_000_000, 50_000_000)
    progress(8_000_000, 50_000_000)
    assert screen.getvalue() == "\r\x1b[KReading: 7 of 50 MB (Ctrl-C stops)"
    progress.clear()
    progress.clear()
    assert screen.getvalue().endswith("stops)\r\x1b[K")


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True)])
def test_nobody_is_told_who_did_not_look_or_asked_for_quiet(
    monkeypatch: pytest.MonkeyPatch, clock: list[float], stream: io.StringIO, quiet: bool
) -> None:
    monkeypatch.setattr("sys.stderr", stream)
    progress = Progress("Reading", quiet=quiet)
    clock[0] += 5
    progress(1, 2)
    progress.clear()
    assert stream.getvalue() == ""
