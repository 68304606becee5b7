"""Who said what: the running session's ledger, other sessions' files, and nothing beyond them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.ledger import edits
from lamina.ledger.record import Ledger, Quotes
from lamina.messages import text, tool_result, tool_use

pytestmark = pytest.mark.spec("L5.6")


def conversation(path: Path) -> tuple[Ledger, list[str]]:
    ledger = Ledger.open(path)
    entries = ledger.append(
        edits.message("user", [text("typed words"), text("piped")], ["typed", "pasted"]),
        edits.message("assistant", [tool_use("t", "Read", {"file_path": "a"})], "assistant"),
        edits.message("user", [tool_result("t", "what the file says")], "tool"),
        edits.message("assistant", "the answer", "assistant"),
    )
    return ledger, [entry["uuid"] for entry in entries]


def test_each_block_has_its_origin(tmp_path: Path) -> None:
    ledger, ids = conversation(tmp_path / "s.jsonl")
    quotes = Quotes(tmp_path, "s", ledger)
    assert quotes.origin_text("s", ids[0]) == (("typed", "typed words"), ("pasted", "piped"))
    assert quotes.origin_text("s", ids[2]) == (("tool", "what the file says"),)
    assert quotes.origin_text("s", ids[1]) == ()
    assert quotes.before("s", ids[3])[-1] == ("tool", "what the file says")
    ledger.close()


def test_another_session_is_read_from_its_file(tmp_path: Path) -> None:
    ledger, ids = conversation(tmp_path / "other.jsonl")
    ledger.close()
    quotes = Quotes(tmp_path, "s", Ledger.of())
    assert quotes.origin_text("other", ids[0])[0] == ("typed", "typed words")
    assert len(quotes.before("other", ids[3])) == 3


@pytest.mark.parametrize("session", ["", "nobody", "../other", "other/../other", "a b", "."])
def test_nothing_comes_from_elsewhere(tmp_path: Path, session: str) -> None:
    ledger, ids = conversation(tmp_path / "other.jsonl")
    ledger.close()
    quotes = Quotes(tmp_path / "folder", "s", Ledger.of())
    assert quotes.origin_text(session, ids[0]) == ()
    assert quotes.before(session, ids[3]) == ()


def test_what_a_branch_says_is_no_evidence(tmp_path: Path) -> None:
    ledger, _ = conversation(tmp_path / "s.jsonl")
    branch = ledger.branch()
    [entry] = branch.append(edits.message("user", "said in a fork", "typed"))
    assert Quotes(tmp_path, "s", ledger).origin_text("s", entry["uuid"]) == ()
    ledger.close()
