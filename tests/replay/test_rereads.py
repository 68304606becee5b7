"""Where a turn leans on content that a policy removed, the saving is charged for it."""

from __future__ import annotations

from typing import Any

import pytest

from lamina.replay.rereads import Rereads, quotable

pytestmark = pytest.mark.spec("I4")

Json = dict[str, Any]
LISTING = "total 12\n-rw-r--r-- 1 me me 512 notes-about-the-release.md\n"
SOURCE = "     1→def settle_invoice(order, rate):\n     2→    return order.total * rate\n"


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def call(name: str, tool: str, **given: Any) -> Json:
    return {"type": "tool_use", "id": name, "name": tool, "input": given}


def result(name: str, words: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": name, "content": words}


def told() -> Rereads:
    """A conversation that read one file and ran one command."""
    rereads = Rereads()
    rereads.add("call-read", call("t1", "Read", file_path="/app/billing.py"), 20)
    rereads.add("read", result("t1", SOURCE), 900)
    rereads.add("call-ls", call("t2", "Bash", command="ls -l /app"), 20)
    rereads.add("ls", result("t2", [{"type": "text", "text": LISTING}]), 400)
    return rereads


def kinds(rereads: Rereads, *answer: Json) -> list[tuple[str, str, int]]:
    return [(found.kind, found.what, found.tokens) for _, found in rereads.found(answer)]


EDIT = call("e", "Edit", file_path="/app/billing.py", old_string="x", new_string="y")


def test_nothing_is_charged_while_nothing_is_missing() -> None:
    quoted = text("def settle_invoice(order, rate):")
    assert kinds(told(), EDIT, quoted, text("`ls -l /app` showed it")) == []


def test_changing_a_file_whose_view_was_removed_needs_it_again() -> None:
    rereads = told()
    rereads.hide("read")
    assert kinds(rereads, EDIT) == [("file", "/app/billing.py", 900)]


def test_a_shell_command_on_the_file_counts_unless_it_reads_it() -> None:
    rereads = told()
    rereads.hide("read")
    assert kinds(rereads, call("b", "Bash", command="black /app/billing.py")) == [
        ("file", "/app/billing.py", 900)
    ]
    assert kinds(rereads, call("b", "Bash", command="sed -n 1,9p /app/billing.py")) == []


def test_a_call_that_reads_it_itself_is_no_extra() -> None:
    rereads = told()
    rereads.hide("read")
    assert kinds(rereads, call("r", "Read", file_path="/app/billing.py")) == []


def test_a_newer_view_of_the_file_is_enough() -> None:
    rereads = told()
    rereads.add("call-again", call("t3", "Read", file_path="/app/billing.py"), 20)
    rereads.add("read-again", result("t3", SOURCE + "     3→# and a new line at the end\n"), 950)
    rereads.hide("read")
    assert kinds(rereads, EDIT, text("def settle_invoice(order, rate):")) == []


def test_speaking_of_a_command_whose_output_was_removed_needs_it_again() -> None:
    rereads = told()
    rereads.hide("ls")
    assert kinds(rereads, text("As `ls -l /app` showed, it is there.")) == [
        ("command", "ls -l /app", 400)
    ]


@pytest.mark.parametrize(
    "answer",
    [
        text("It says:\n  def settle_invoice(order, rate):\n"),
        call("w", "Write", file_path="/new.py", content="    def settle_invoice(order, rate):\n"),
        call("m", "Multi", edits=[{"old": "  def settle_invoice(order, rate):"}]),
    ],
)
def test_a_quoted_line_that_stands_nowhere_else_needs_its_source_again(answer: Json) -> None:
    rereads = told()
    rereads.hide("read")
    line = "def settle_invoice(order, rate):"
    assert kinds(rereads, answer) == [("quote", line, 900)]


def test_a_quote_that_still_stands_elsewhere_is_no_extra() -> None:
    rereads = told()
    rereads.add("words", text("we have\ndef settle_invoice(order, rate):\nthere"), 30)
    rereads.hide("read")
    assert kinds(rereads, text("def settle_invoice(order, rate):")) == []


@pytest.mark.parametrize("name", ["file_path", "command", "description"])
def test_a_path_command_or_description_in_a_call_is_no_quote(name: str) -> None:
    line = "/srv/app/reports/settle_invoice_of_the_month.py"
    rereads = Rereads()
    rereads.add("call", call("t1", "Other", **{name: line}), 20)
    rereads.add("listing", result("t2", f"{line}\nand another line that is long enough"), 700)
    for key in ("call", "listing"):
        rereads.hide(key)
    assert kinds(rereads, call("c", "Other", **{name: line})) == []
    assert kinds(rereads, call("c", "Other", edits=[{name: line}])) == []
    assert kinds(rereads, text(line)) == [("quote", line, 700)]  # said in an answer it is one


LONG = "".join(f"     {n}→the {n}. line of a file that is read once\n" for n in range(1, 41))


def long_read() -> Rereads:
    rereads = Rereads()
    rereads.add("call-read", call("t1", "Read", file_path="/app/billing.py"), 20)
    rereads.add("read", result("t1", LONG + "<system-reminder>mind the dog</system-reminder>"), 900)
    rereads.hide("read")
    return rereads


@pytest.mark.parametrize(("lines", "charged"), [(40, 0), (38, 0), (30, 1), (3, 1)])
def test_a_result_of_which_nearly_all_lines_are_in_view_is_no_re_read(
    lines: int, charged: int
) -> None:
    """A policy's shorter form of it, such as one without its reminder, is a view of the file."""
    rereads = long_read()
    rereads.tell("shorter", result("t1", "".join(LONG.splitlines(keepends=True)[:lines])))
    assert len(kinds(rereads, EDIT)) == charged


def test_lines_that_another_result_in_view_says_are_not_missing() -> None:
    rereads = long_read()
    rereads.add("elsewhere", result("t9", LONG), 900)
    assert kinds(rereads, EDIT) == []
    rereads.hide("elsewhere")
    assert len(kinds(rereads, EDIT)) == 1


def test_thinking_and_short_lines_are_no_quotes() -> None:
    rereads = told()
    rereads.hide("read")
    thought = {"type": "thinking", "thinking": "def settle_invoice(order, rate):"}
    assert kinds(rereads, thought, text("return order\n}\nelse:")) == []


def test_each_block_is_charged_once_a_turn() -> None:
    rereads = told()
    rereads.hide("read")
    quote = text("def settle_invoice(order, rate):\n    return order.total * rate")
    assert len(kinds(rereads, EDIT, quote, quote)) == 1


def test_a_block_that_is_fetched_tells_also_what_a_larger_one_would() -> None:
    rereads = told()
    rereads.add("short", text("a line that stands in both of them\nand one that is only here"), 50)
    rereads.add("long", text("a line that stands in both of them"), 700)
    for key in ("short", "long"):
        rereads.hide(key)
    quotes = text("and one that is only here\na line that stands in both of them")
    assert [found.tokens for _, found in rereads.found([quotes])] == [50]
    alone = text("a line that stands in both of them")
    assert [found.tokens for _, found in rereads.found([alone])] == [700]


def test_what_is_shown_again_or_given_up_by_the_recording_is_not_missing() -> None:
    rereads = told()
    rereads.hide("read")
    rereads.show("read")
    assert kinds(rereads, EDIT) == []
    rereads.hide("read")
    rereads.forget("read")
    assert kinds(rereads, EDIT) == []
    rereads.hide("never heard of")
    assert kinds(rereads, EDIT) == []


def test_giving_up_one_of_two_equal_blocks_leaves_the_other_to_be_missed() -> None:
    rereads = told()
    rereads.add("read", result("t1", SOURCE), 900)  # said twice, and taken back once
    rereads.forget("read")
    rereads.hide("read")
    assert kinds(rereads, EDIT) == [("file", "/app/billing.py", 900)]
    rereads.forget("read")
    rereads.hide("read")
    assert kinds(rereads, EDIT) == []


def test_numbering_of_tools_is_not_part_of_a_line() -> None:
    lines = [
        "    12→    return order.total * rate",
        "src/app.py:12:    return order.total * rate",
        "12: return order.total * rate",
        "return order.total * rate",
    ]
    assert set(quotable(lines)) == {"return order.total * rate"}


def test_long_hostile_text_is_looked_through_in_linear_time() -> None:
    import time

    rereads = told()
    rereads.hide("read")
    started = time.process_time()
    for words in ("a" * 2_000_000, "`" * 200_000, "9 " * 500_000, "./" * 500_000):
        rereads.found([text(words), call("b", "Bash", command=words)])
        list(quotable([words]))
    assert time.process_time() - started < 10
