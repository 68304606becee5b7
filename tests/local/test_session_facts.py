"""What happened in a session, copied: nothing invented, nothing broken by odd entries."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.local.session_facts import SessionReader, session_facts, telling_line
from lamina.messages import text, tool_result, tool_use


def said(role: str, *blocks: Any, n: int = 0, **more: Any) -> dict[str, Any]:
    origin = "assistant" if role == "assistant" else "typed"
    return {
        "kind": "message",
        "uuid": f"entry-{n}",
        "role": role,
        "content": list(blocks),
        "origins": [origin] * len(blocks),
        **more,
    }


def call(
    id_: str, name: str, result: str, *, error: bool = False, n: int = 0, **input_: Any
) -> Any:
    return [
        said("assistant", tool_use(id_, name, input_), n=n),
        said("user", tool_result(id_, result, is_error=error), n=n + 1),
    ]


@pytest.mark.spec("L4.2")
def test_words_files_commands_failures_and_tasks_are_copied_with_their_entries() -> None:
    what = session_facts(
        [
            said("user", text("Fix it"), n=1),
            *call("a", "Read", "old", n=2, file_path="x.py"),
            *call("b", "Bash", "Error: boom\nexit code 2", error=True, n=4, command="make  test"),
            *call(
                "c", "Edit", "ok", n=6, file_path="x.py", old_string="a", new_string="def grow(): b"
            ),
            *call("d", "Bash", "3 passed", n=8, command="make test"),
            *call(
                "e",
                "TodoWrite",
                "ok",
                n=10,
                todos=[
                    {"content": "ship", "status": "pending"},
                    {"content": "x", "status": "done"},
                ],
            ),
            said("assistant", text("Done in 12 s."), n=12),
        ]
    )
    assert [(s.text, s.entry) for s in what.asked] == [("Fix it", "entry-1")]
    assert [(s.text, s.final) for s in what.answered] == [("Done in 12 s.", True)]
    [file] = what.files.values()
    assert (file.path, file.reads, file.changes, file.names) == ("x.py", 1, 1, ["grow"])
    assert file.entry == "entry-6"
    [ran] = what.commands
    assert (ran.command, ran.exit, ran.outcome, ran.runs) == ("make test", 0, "3 passed", 2)
    [failure] = what.failures
    assert failure.text == "Error: boom"
    assert failure.fix.startswith("x.py: def grow")
    assert what.open_tasks == ["ship"]


@pytest.mark.spec("L4.2")
def test_what_nobody_typed_is_not_the_user_s_word() -> None:
    entry = said("user", text("typed"), text("from a hook"), text("a memory"))
    entry["origins"] = ["typed", "hook", "recalled"]
    reminder = said("user", text("<system-reminder>be good</system-reminder>"))
    assert [s.text for s in session_facts([entry, reminder]).asked] == ["typed"]


@pytest.mark.spec("L4.1")
def test_an_image_is_told_as_a_word() -> None:
    picture = {"type": "image", "source": {"data": "abc"}}
    assert [s.text for s in session_facts([said("user", text("see"), picture)]).asked] == [
        "see",
        "[image]",
    ]


@pytest.mark.spec("L4.2")
def test_the_tool_s_own_exit_code_counts_more_than_words() -> None:
    entries = call("a", "Bash", "tests said exit code 0", command="x")
    entries[1]["meta"] = {"exit_code": 9}
    assert session_facts(entries).commands[0].exit == 9


def test_the_telling_line_is_the_first_that_complains_else_the_last() -> None:
    assert telling_line("a\nValueError: no\nb", bad=True) == "ValueError: no"
    assert telling_line("a\nb\n\n", bad=False) == "b"
    assert telling_line("", bad=True) == ""


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
odd_blocks = st.one_of(
    values,
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "tool_use", "tool_result", "image", "thinking"])},
        optional={
            "text": values,
            "id": values,
            "name": st.sampled_from(
                ["Read", "Edit", "Bash", "TodoWrite", "TaskCreate", "TaskUpdate"]
            ),
            "input": values,
            "tool_use_id": values,
            "content": values,
            "is_error": values,
        },
    ),
)


@pytest.mark.spec("L4.2")
@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.lists(odd_blocks, max_size=3)))
)
def test_entries_of_any_shape_are_read_without_a_fault(shape: list[tuple[str, list[Any]]]) -> None:
    entries = [said(role, n=n) | {"content": blocks} for n, (role, blocks) in enumerate(shape)]
    what = session_facts(entries)
    known = {entry["uuid"] for entry in entries}
    assert {s.entry for s in (*what.asked, *what.answered)} <= known
    assert {f.entry for f in what.files.values()} <= known


@pytest.mark.spec("L4.2")
def test_names_rank_by_what_was_said_or_done_with_them_and_how_lately() -> None:
    entries = [
        said("assistant", text("old_name is set."), n=1),
        *call("a", "Read", "seen_name = 1", n=2, file_path="src/a.py"),
        *call("b", "Edit", "ok", n=4, file_path="src/b.py", new_string="def tower(newName): ..."),
        said("assistant", text("Done with newName."), n=6),
    ]
    names = session_facts(entries).mentioned.names
    assert list(names) == ["newName", "tower", "old_name", "seen_name"]
    assert names["newName"].file == "src/b.py"
    assert names["seen_name"].file == "src/a.py"


@pytest.mark.spec("L4.2")
def test_figures_come_with_their_words_and_are_no_lines_times_or_parameters() -> None:
    listing = "   101→first\n   102→second\nlistening on port 8080 at 12:30:55, 7 files"
    entries = [
        *call("a", "Read", listing, n=1, file_path="a.py", limit=2_000),
        said("assistant", text("It took 1,250 ms in v1.2.3."), n=3),
    ]
    figures = session_facts(entries).mentioned.figures
    assert set(figures) == {"1,250 ms", "8080"}
    assert figures["1,250 ms"].words == "It took 1,250 ms in v1.2.3."
    assert figures["8080"].words.startswith("listening on port 8080")


@pytest.mark.spec("L4.2")
def test_a_command_stands_where_it_ran_last() -> None:
    entries = [
        *call("a", "Bash", "1 failed", error=True, n=1, command="make test"),
        *call("b", "Bash", "ok", n=3, command="make lint"),
        *call("c", "Bash", "2 passed", n=5, command="make test"),
    ]
    ran = session_facts(entries).commands
    assert [(r.command, r.runs, r.outcome) for r in ran] == [
        ("make lint", 1, "ok"),
        ("make test", 2, "2 passed"),
    ]


@given(st.lists(st.integers(0, 40), max_size=6), st.integers(2, 12))
def test_a_stretch_that_grows_is_read_as_if_at_once(ends: list[int], rounds: int) -> None:
    entries = [
        entry
        for n in range(rounds)
        for entry in (
            said("user", text(f"Mend part_{n % 3}; it took 1{n} ms"), n=3 * n),
            *call(f"c{n}", "Bash", f"exit code {n % 2}", n=3 * n + 1, command=f"make {n % 4}"),
        )
    ]
    reader = SessionReader()
    for end in ends:
        found = reader.at(entries, list(range(min(end, len(entries)))))
        plain = session_facts(entries[:end])
        assert (found.ran, found.asked, found.failures) == (plain.ran, plain.asked, plain.failures)
        assert list(found.mentioned.names.items()) == list(plain.mentioned.names.items())
        assert list(found.mentioned.figures.items()) == list(plain.mentioned.figures.items())
