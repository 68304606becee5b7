"""MEMORY.md: pointers, what is loaded of it, and changes of single lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.memory.index import (
    files_named,
    load_index,
    pointers_of,
    short_hook,
    with_pointer,
    with_pointers,
    with_renamed,
    without_pointer,
)

pytestmark = pytest.mark.spec("M4")

SECTIONS = (
    b"# Memory\r\n\r\n## User\r\n\r\n## Feedback notes\r\n\r\n"
    b"- [Tests](feedback_tests.md) - real ones\r\n\r\n## Project\r\n* [Plan](./plan%20b.md): by May\r\n"
)


def test_pointers_are_read_in_the_forms_that_people_write() -> None:
    found = [(one.line, one.file, one.title, one.hook) for one in pointers_of(SECTIONS)]
    assert found == [
        (7, "feedback_tests.md", "Tests", "real ones"),
        (10, "plan b.md", "Plan", "by May"),
    ]
    assert pointers_of(b"- [A [b] c](x.md)\n")[0].title == "A [b] c"
    assert pointers_of("- [T](x.md) — two — dashes\n".encode())[0].hook == "two — dashes"
    assert pointers_of(b"text [T](x.md)\n# - [T](x.md)\n") == []


WANTED = st.tuples(
    st.sampled_from(["a.md", "b.md", "c.md", "feedback_tests.md", "plan b.md"]),
    st.just("Title"),
    st.sampled_from(["", "hook"]),
    st.sampled_from(["", "user", "feedback", "project"]),
)


@given(
    st.lists(WANTED, unique_by=lambda one: one[0]),
    st.sampled_from([b"", b"- [A](a.md)", b"text about [A](a.md) and [C](c.md)", SECTIONS]),
)
def test_many_pointers_at_once_are_as_one_after_another(
    wanted: list[tuple[str, str, str, str]], index: bytes
) -> None:
    one_by_one = index
    for file, title, hook, section in wanted:
        one_by_one = with_pointer(one_by_one, file, title, hook, section=section)
    assert with_pointers(index, wanted) == one_by_one


def test_a_pointer_is_added_under_the_heading_of_its_type() -> None:
    added = with_pointer(SECTIONS, "feedback_new.md", "New", "hook", section="feedback")
    line = "- [New](feedback_new.md) — hook\r\n".encode()
    assert added == SECTIONS.replace(b"real ones\r\n", b"real ones\r\n" + line)
    added = with_pointer(SECTIONS, "u.md", "U", "", section="user")
    assert added == SECTIONS.replace(b"## User\r\n\r\n", b"## User\r\n\r\n- [U](u.md)\r\n")
    added = with_pointer(SECTIONS, "r.md", "R", "", section="reference")
    assert added == SECTIONS + b"- [R](r.md)\r\n"


def test_a_file_without_a_last_line_end_gets_one() -> None:
    assert with_pointer(b"# M\n- [A](a.md)", "b.md", "B", "") == b"# M\n- [A](a.md)\n- [B](b.md)\n"
    assert with_pointer(b"", "b.md", "B", "h") == "- [B](b.md) — h\n".encode()


def test_a_pointer_that_exists_is_changed_in_its_line_alone() -> None:
    changed = with_pointer(SECTIONS, "feedback_tests.md", "Tests", "no mocks")
    assert changed == SECTIONS.replace(b"real ones", b"no mocks")
    changed = with_pointer(SECTIONS, "plan b.md", "The plan", "")
    assert changed == SECTIONS.replace(b"[Plan]", b"[The plan]")
    assert with_pointer(SECTIONS, "plan b.md", "Plan", "by May") == SECTIONS


def test_a_pointer_is_removed_or_renamed_and_nothing_else() -> None:
    removed = without_pointer(SECTIONS, "feedback_tests.md")
    assert removed == SECTIONS.replace(b"- [Tests](feedback_tests.md) - real ones\r\n", b"")
    renamed = with_renamed(SECTIONS, "plan b.md", "plan_c.md")
    assert renamed == SECTIONS.replace(b"./plan%20b.md", b"plan_c.md")
    assert without_pointer(SECTIONS, "absent.md") == SECTIONS


def test_titles_and_hooks_cannot_break_out_of_their_line() -> None:
    added = with_pointer(b"", "a.md", "x](evil.md)\n# y", "one\ntwo")
    assert added.count(b"\n") == 1
    assert [one.file for one in pointers_of(added)] == ["a.md"]


def test_long_descriptions_become_short_hooks() -> None:
    hook = short_hook("a.md", "Title", "word " * 100, suffix=" (from a tool)")
    assert len(f"- [Title](a.md) — {hook}") <= 150
    assert hook.endswith("… (from a tool)")
    assert short_hook("a.md", "Title", "short") == "short"


def test_a_line_holds_no_link_but_its_pointer_and_no_comment() -> None:
    hook = short_hook("a.md", "Title", "see [x](https://e.x/) ![p](p.png) <!-- hides the rest")
    assert hook == "see [x] (https://e.x/) ![p] (p.png) <! -- hides the rest"
    index = with_pointer(b"", "a.md", "T](b.md) <!--", hook)
    assert [pointer.file for pointer in pointers_of(index)] == ["a.md"]
    assert index.count(b"](") == 1
    assert b"<!--" not in index
    by_hand = "- [A](a.md) — see [wiki](https://w.x/)\n".encode()
    assert with_pointer(by_hand, "b.md", "B", "two").startswith(by_hand), "a person's line stays"


def test_a_small_index_is_loaded_whole_without_a_warning() -> None:
    loaded = load_index(SECTIONS)
    assert (loaded.text.encode(), loaded.warning) == (SECTIONS, "")
    assert load_index(b"").text == ""
    exactly = b"- [a](a.md)\n" * 200
    assert load_index(exactly).warning == ""


def test_lines_are_cut_first_and_then_bytes_at_a_line_end() -> None:
    many = load_index(b"- [a](a.md)\n" * 201)
    assert many.text.count("\n") == 200
    assert "201 lines" in many.warning
    assert "topic files" in many.warning
    wide = load_index(("- " + "ü" * 100 + "\n").encode() * 190)
    assert len(wide.text.encode()) <= 25_000
    assert wide.text.endswith("ü\n")
    assert "190 lines" in wide.warning
    one_line = load_index("ü".encode() * 30_000)
    assert one_line.text == "ü" * 12_500
    assert one_line.warning


def test_the_beginning_of_a_huge_index_is_enough() -> None:
    loaded = load_index(b"- [a](a.md)\n" * 10_000, total_bytes=100_000_000)
    assert "more than 10,000 lines and 100,000,000 bytes" in loaded.warning
    assert loaded.text.count("\n") == 200


FILES = st.from_regex(r"[a-z0-9_-]{1,20}\.md", fullmatch=True)


@given(st.binary(max_size=400), FILES, st.text(max_size=40), st.text(max_size=40))
def test_adding_and_removing_a_pointer_returns_the_bytes(
    content: bytes, file: str, title: str, hook: str
) -> None:
    before = without_pointer(content, file)
    after = with_pointer(before, file, title, hook)
    assert [one.file for one in pointers_of(after)].count(file) == 1
    back = without_pointer(after, file)
    assert back.rstrip(b"\r\n") == before.rstrip(b"\r\n")


@pytest.mark.spec("M13")
def test_real_indexes_keep_every_byte(memory_dirs: Path) -> None:
    files = list(memory_dirs.rglob("MEMORY.md"))
    assert files
    pointing = 0
    for file in files:
        content = file.read_bytes()
        assert load_index(content).text.encode() == content
        for pointer in pointers_of(content):
            pointing += 1
            assert with_pointer(content, pointer.file, pointer.title, pointer.hook) == content
            assert len(without_pointer(content, pointer.file).splitlines()) < len(
                content.splitlines()
            )
        added = with_pointer(content, "new.md", "New", "hook")
        assert without_pointer(added, "new.md").rstrip() == content.rstrip()
    assert pointing > 30


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("- [amp](a&amp;b.md)", "a&b.md"),
        ("- [umlaut](u\u0308ber.md)", "\u00fcber.md"),
        ("- see `u\u0308ber.md`", "\u00fcber.md"),
        ("- [no ending](plain-name)", "plain-name.md"),
    ],
)
def test_a_link_is_read_however_its_file_is_spelt(line: str, file: str) -> None:
    assert files_named(line.encode(), [file, "other.md"]) == {file}


@pytest.mark.spec("M4")
def test_a_new_pointer_does_not_go_between_the_title_of_all_and_its_first_part() -> None:
    index = b"# Project Memory\n\n## Rules\n- [A](a.md) \xe2\x80\x94 a\n"
    after = with_pointer(index, "b.md", "B", "b", section="project")
    assert after == index + "- [B](b.md) — b\n".encode()
