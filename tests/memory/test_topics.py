"""Topic files: tolerant and bounded reading, and edits that keep every other byte."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import MemoryStoreError
from lamina.memory.topics import (
    edit_topic,
    is_binary,
    new_topic,
    read_header,
    read_topic,
    why_ambiguous,
)

pytestmark = pytest.mark.spec("M3")

ODD = b"""\xef\xbb\xbf---\r
# who wrote this: me\r
type:   user   # one of four\r
x-later: [a, b]\r
name: "Role: \\"data\\" person"  # quoted\r
description: works with SQL, see issue #12\r
tags:\r
  - one\r
  - two\r
---\r
\r
\r
Writes SQL.  \r
\tand \xff\xfe bytes\r
"""


def test_a_plain_topic_file_is_read() -> None:
    memory = read_topic(
        "team/user_role.md",
        b"---\nname: Role\ndescription: Data engineer\ntype: user\nmodified: 2026-01-01\n---\n\nText.\n",
        mtime=5.0,
    )
    assert (memory.name, memory.description, memory.type) == ("Role", "Data engineer", "user")
    assert (memory.body, memory.extra, memory.mtime) == ("Text.", {"modified": "2026-01-01"}, 5.0)
    assert memory.team


def test_quotes_comments_lists_and_nesting_are_understood() -> None:
    memory = read_topic("odd.md", ODD)
    assert memory.name == 'Role: "data" person'
    assert memory.description == "works with SQL, see issue #12"
    assert memory.type == "user"
    assert memory.extra == {"x-later": "[a, b]", "tags": "one, two"}
    assert memory.body.startswith("Writes SQL.  \n\tand \ufffd")
    nested = b"---\nname: n\nmetadata:\n  node_type: memory\n  type: feedback\n---\nx"
    assert read_topic("n.md", nested).type == "feedback"
    folded = b"---\ndescription: >-\n  two\n  lines\nname: 'it''s'\n---\n"
    assert read_topic("f.md", folded).description == "two lines"
    assert read_topic("f.md", folded).name == "it's"


@pytest.mark.parametrize("word", ["", "User story", "admin", "[user]"])
def test_an_unknown_type_is_none(word: str) -> None:
    assert read_topic("a.md", f"---\ntype: {word}\n---\nx".encode()).type is None


def test_a_name_that_is_missing_is_the_files_own() -> None:
    assert read_topic("team/build_notes.md", b"just text").name == "build_notes"


def test_one_value_changes_and_every_other_byte_stays() -> None:
    changed = edit_topic(ODD, description="works with Spark")
    assert changed == ODD.replace(b"works with SQL, see issue #12", b"works with Spark")
    changed = edit_topic(ODD, type="project")
    assert changed == ODD.replace(b"type:   user   #", b"type:   project   #")
    changed = edit_topic(ODD, name="Plain")
    assert changed == ODD.replace(b'"Role: \\"data\\" person"', b"Plain")
    changed = edit_topic(ODD, extra={"tags": None})
    assert changed == ODD.replace(b"tags:\r\n  - one\r\n  - two\r\n", b"")
    changed = edit_topic(ODD, extra={"pinned": "yes"})
    assert changed == ODD.replace(b"  - two\r\n", b'  - two\r\npinned: "yes"\r\n')
    changed = edit_topic(ODD, body="New.\nText.")
    assert changed == ODD[: ODD.index(b"Writes")] + b"New.\r\nText.\r\n"


def test_a_nested_type_is_changed_where_it_stands() -> None:
    old = b"---\nmetadata: \n  type: user # kind\n  id: 7\n---\nx\n"
    assert edit_topic(old, type="project") == old.replace(b"user", b"project")


def test_a_folded_value_is_replaced_whole() -> None:
    old = b"---\ndescription: |\n  two\n  lines\nname: n\n---\nx\n"
    assert edit_topic(old, description="one") == b"---\ndescription: one\nname: n\n---\nx\n"


def test_frontmatter_is_added_where_there_was_none() -> None:
    assert edit_topic(b"# Title\n", name="N", type="user") == (
        b"---\nname: N\ntype: user\n---\n\n# Title\n"
    )


def test_values_as_they_are_leave_the_file_as_it_is() -> None:
    memory = read_topic("odd.md", ODD)
    same = edit_topic(
        ODD, name=memory.name, description=memory.description, type=memory.type, extra=memory.extra
    )
    assert same == ODD


@pytest.mark.parametrize(
    "bomb",
    [
        b"---\n" + b"name: x\n" * 40 + b"---\nbody",
        b"---\nname: " + b"x" * 5000 + b"\n---\nbody",
        b"---\nname: x\n",
        b"---\n" * 3 + b"name: x",
        b"---\na: &a [x,x]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\nname: bomb\n---\n",
        b"---" * 100_000,
        b"---\n" + b'"' * 4000,
        b"---\nname: '" + b"''" * 1900,
        b"---\nname: " + b"\\" * 3000 + b"\n---\n",
        b"\x00" * 1000,
    ],
)
def test_a_frontmatter_bomb_costs_nothing_and_loses_nothing(bomb: bytes) -> None:
    started = time.process_time()
    memory = read_topic("bomb.md", bomb)
    assert time.process_time() - started < 5
    assert len(memory.name) <= 4096
    assert memory.size == len(bomb)


def test_frontmatter_without_an_end_is_not_edited_by_guessing() -> None:
    with pytest.raises(MemoryStoreError, match="does not end"):
        edit_topic(b"---\n" + b"name: x\n" * 40, name="y")


def test_a_key_that_would_break_the_file_is_refused() -> None:
    with pytest.raises(MemoryStoreError, match="key"):
        edit_topic(b"x", extra={"a: b\nname": "evil"})


def test_binary_content_is_seen() -> None:
    assert is_binary(b"ab\x00c")
    assert not is_binary("ünïcode".encode())


@given(st.binary(max_size=6000), st.integers(0, 4))
def test_any_bytes_are_read_and_an_empty_edit_returns_them(content: bytes, form: int) -> None:
    content = (b"", b"---\n", b"---\nname: a\n---\n", b"\xef\xbb\xbf---\r\n", b"---\nname:")[
        form
    ] + content
    read_topic("a.md", content)
    try:
        assert edit_topic(content) == content
    except MemoryStoreError:
        assert content.startswith((b"---", b"\xef\xbb\xbf---"))


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), max_size=60)


@given(TEXT, TEXT, TEXT)
def test_what_is_written_is_read_again(name: str, description: str, body: str) -> None:
    content = new_topic(
        name=name, description=description, type="project", body=body, extra={"k": description}
    )
    memory = read_topic("a.md", content)
    assert memory.name == (" ".join(name.split()) or "a")
    assert memory.description == " ".join(description.split())
    assert memory.type == "project"
    assert memory.body == body.strip("\n")


@given(st.binary(max_size=8000))
def test_the_first_4_kb_give_the_same_header_as_the_whole_file(tail: bytes) -> None:
    content = b"---\nname: n\ndescription: " + "ü".encode() * 1990 + tail + b"\n---\n" + tail
    whole, head = read_topic("a.md", content), read_topic("a.md", content[:4096])
    assert (whole.name, whole.description, whole.type) == (head.name, head.description, head.type)


PIECES = st.lists(
    st.sampled_from(
        [
            "---",
            "\n",
            "\n",
            "\r\n",
            "name",
            "description",
            "type",
            ": ",
            ":",
            " ",
            "\t",
            "user",
            "#",
            " # x",
            "'",
            '"',
            "|",
            ">",
            "- ",
            "ü",
            "\x1f",
            "\ufeff",
            "metadata:\n  type: user\n",
            "name: n\n",
            "type: feedback\n",
            "description: d # e\n",
            "\n---\n",
            "key: value\n",
            "name: n\ndescription: d\ntype: user\n---\n",
            "name: ",
            "description: ",
            "\ntype: user\n",
        ]
    ),
    max_size=40,
)


@given(PIECES)
def test_the_quick_header_is_the_slow_one(pieces: list[str]) -> None:
    check_header(("---\n" + "".join(pieces)).encode())


@given(st.binary(max_size=30), st.binary(max_size=30), st.sampled_from(["user", "userx", "USER"]))
def test_the_usual_header_is_the_slow_one(name: bytes, description: bytes, kind: str) -> None:
    check_header(
        b"---\nname: %s\ndescription: %s\ntype: %s\n---\nx" % (name, description, kind.encode())
    )


def check_header(content: bytes) -> None:
    content = content[:4096]
    memory = read_topic("team/a.md", content)
    assert read_header("team/a.md", content) == (memory.name, memory.description, memory.type)


@pytest.mark.spec("M13")
def test_real_memory_files_keep_all_bytes_but_the_value_that_is_changed(memory_dirs: Path) -> None:
    files = [file for file in memory_dirs.rglob("*.md") if file.name != "MEMORY.md"]
    assert files
    for file in files:
        content = file.read_bytes()
        memory = read_topic(file.name, content)
        assert memory.type is not None, file
        assert memory.description, file
        assert edit_topic(content) == content
        kept = edit_topic(
            content,
            name=memory.name,
            description=memory.description,
            type=memory.type,
            body=memory.body,
        )
        assert kept == content
        changed = edit_topic(content, description="another one")
        assert read_topic(file.name, changed).description == "another one"
        old, new = content.splitlines(True), changed.splitlines(True)
        assert len(old) == len(new)
        assert sum(one != two for one, two in zip(old, new, strict=True)) == 1


@pytest.mark.parametrize(
    "head",
    [
        "type: project\ntype: user",
        "type: &t user",
        "type: !!str user",
        "? type\n: user",
        "{type: user}",
        '"type": user',
        "<<: *other",
        "type: project\nmetadata:\n  type: user",
        "type: user\n" + "x: y\n" * 40,
        "type: user\n# the user: never ask",
        "type: user # struck off the register",
        "type: user\nstruck off the register",
        "type: user\ntags:\n  - a # b",
    ],
)
def test_frontmatter_that_others_read_in_another_way_is_told(head: str) -> None:
    assert why_ambiguous(f"---\nname: a\n{head}\n---\n\nBody.\n".encode())


@pytest.mark.parametrize(
    "content",
    [
        "---\nname: a\ndescription: '*Never* mock: it lies'\ntype: user\n---\n\nBody.\n",
        "---\nname: a\ntype: |\n  user\ntags:\n- one\n- two\n---\n\nBody.\n",
        "---\nname: a\nmetadata:\n  type: user\n  node: x\n---\n\nBody.\n",
        "---\nname: a\ntype: preference\n\n---\n\ntype: user\ntype: user\n",
        "No frontmatter.\n---\n? type\n",
        "---\n",
        "",
    ],
)
def test_plain_frontmatter_is_clear(content: str) -> None:
    assert why_ambiguous(content.encode()) == ""


@pytest.mark.parametrize("body", ["one\ntwo", "one\r\ntwo\n\xe4", "\none\ntwo"])
def test_a_line_that_is_added_brings_no_blank_line_with_it(body: str) -> None:
    content = f"---\nname: n\n---\n{body}\n".encode("latin-1")
    there = read_topic("a.md", content).body
    assert edit_topic(content, body=there) == content
    assert edit_topic(content, body=f"{there}\nthree").startswith(content)
