"""Two filled sheets of blind readers are read as they were meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import extract_real, extract_sheets

from lamina.local.extractor import extract

TALK = [
    {
        "role": "user",
        "origin": "typed",
        "content": "I'm a nurse in Leeds. What can I cook tonight?",
        "uuid": "0",
    }
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = extract(TALK, now=extract_real.NOW)
    talk = extract_real.Saved("BEAM", "one", TALK, [(one, one) for one in found])
    monkeypatch.setattr(extract_real, "saved", lambda _half: iter([talk]))
    return tmp_path


def test_found_and_the_verdicts_of_two_sheets_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extract_sheets.draw(folder, set())
    assert "1 memories" in capsys.readouterr().out
    for sheet, marks in {"statements": ("durable", "not"), "memories": ("useful",)}.items():
        lines = (folder / f"{sheet}.tsv").read_text("utf-8").splitlines()
        head = [line for line in lines if line.startswith(("#", "mark"))]
        rows = [f"{mark}{line}" for mark, line in zip(marks, lines[len(head) :], strict=True)]
        (folder / f"{sheet}_1.tsv").write_text("\n".join([*head, *rows]), "utf-8")
    filled = [folder / f"{sheet}_1.tsv" for sheet in ("statements", "memories")]
    extract_sheets.score(folder, [filled[0]] * 2, [filled[1]] * 2)
    said = capsys.readouterr().out
    assert "both: durable 1, quoted by a saved memory 1 (100%)" in said
    assert "'useful': '100.0%'" in said


def test_a_sheet_with_an_empty_mark_is_not_counted(folder: Path) -> None:
    extract_sheets.draw(folder, set())
    sheets = [folder / "statements.tsv"] * 2
    with pytest.raises(SystemExit, match="none of durable, torn, not at BEAM:"):
        extract_sheets.score(folder, sheets, sheets)
