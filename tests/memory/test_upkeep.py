"""The audit over a real store: repairs go through the gate, leave a history, and end."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lamina.cli import memory_reports
from lamina.config import defaults
from lamina.memories import Change, Note
from lamina.memory.audit import look_over
from lamina.memory.file_store import FileStore
from lamina.memory.index import with_pointers
from lamina.memory.repairs import repair
from lamina.memory.topics import read_topic, topic_of

pytestmark = pytest.mark.spec("M12")

FILES = {
    "MEMORY.md": "# Memory\n- [Gone](gone.md) — away\n- [Role](user_role.md) — accountant\n",
    "user_role.md": "---\nname: Role\ndescription: Accountant\ntype: user\n---\nKeeps the books.\n",
    "copy.md": "---\nname: Role\ndescription: Accountant\ntype: user\n---\nKeeps the books.\n",
    "empty.md": "---\nname: x\ntype: user\n---\n",
    "feedback_commits.md": "# Commits\n\nKeep them separate, auditors read each one.\n",
}

LEFT_BY_US = ("copy.md", "empty.md")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    folder = tmp_path / "memory"
    folder.mkdir()
    for name, text in FILES.items():
        if name not in LEFT_BY_US:
            (folder / name).write_text(text)
    with FileStore(folder) as opened:
        opened.make_state()
        for name in LEFT_BY_US:
            with opened.journal.writing():
                content = topic_of(read_topic(name, FILES[name].encode()))
                note = Note(writer="dream", subject=name)
                opened.journal.apply([Change(name, None, content)], note)
        yield opened


def test_safe_repairs_are_done_and_a_second_run_has_none(store: FileStore) -> None:
    found, steps = look_over(store, time.time())
    assert found.checked == 4
    assert {(step.action, step.path) for step in steps} == {
        ("delete", "copy.md"),
        ("delete", "empty.md"),
        ("drop_pointer", "gone.md"),
        ("add_pointer", "feedback_commits.md"),
        ("set_type", "feedback_commits.md"),
    }
    assert [item.failure for item in repair(store, steps)] == [""] * 5
    names = {memory.path for memory in store.list()}
    assert names == {"user_role.md", "feedback_commits.md"}
    index = (store.directory / "MEMORY.md").read_text()
    assert "gone.md" not in index
    assert "](feedback_commits.md)" in index
    assert store.read("feedback_commits.md").type == "feedback"
    assert look_over(store, time.time())[1] == ()


def test_a_file_that_a_person_made_or_changed_is_never_removed(store: FileStore) -> None:
    by_hand = {
        "later.md": "",
        "frame.md": "---\nname: frame\ntype: project\n---\n",
        "twin.md": FILES["user_role.md"],
        "empty.md": "---\nname: mine now\ntype: user\n---\n",
    }
    for name, text in by_hand.items():
        (store.directory / name).write_text(text)
    index = store.directory / "MEMORY.md"
    index.write_text(index.read_text() + "- [Later](later.md) — to be written\n")
    repair(store, look_over(store, time.time())[1])
    assert {name: (store.directory / name).read_text() for name in by_hand} == by_hand
    assert "(later.md)" in index.read_text()
    found, steps = look_over(store, time.time())
    assert {"later.md", "frame.md"} <= {one.path for one in found.faults if one.kind == "junk"}
    assert not [step for step in steps if step.action == "delete"]


def test_a_step_that_fails_is_named_and_the_others_go_on(store: FileStore) -> None:
    steps = look_over(store, time.time())[1]
    (store.directory / "copy.md").unlink()
    done = repair(store, steps)
    assert [item.step.path for item in done if item.failure] == ["copy.md"]
    assert not (store.directory / "empty.md").exists()


def test_a_full_index_gets_no_line_that_would_push_another_out_of_sight(tmp_path: Path) -> None:
    for name in ("billing", "search", "uploads"):
        (tmp_path / f"project_{name}.md").write_text(f"The service for {name} is written in Go.\n")
    lines = [f"What {number} is for.\n" for number in range(199)]
    (tmp_path / "MEMORY.md").write_text("".join(lines))
    with FileStore(tmp_path) as store:
        steps = [step for step in look_over(store, time.time())[1] if step.action == "add_pointer"]
        done = repair(store, steps)
    assert [bool(item.failure) for item in done] == [False, True, True]
    after = (tmp_path / "MEMORY.md").read_text().splitlines(keepends=True)
    assert after[:199] == lines
    assert len(after) == 200


def test_the_lines_of_one_index_are_repaired_in_one_commit(tmp_path: Path) -> None:
    (tmp_path / "search.md").write_text("The service for search is written in Go.\n")
    lines = "".join(f"- [Gone {number}](gone_{number}.md) — was here\n" for number in range(9))
    (tmp_path / "MEMORY.md").write_text(lines)
    with FileStore(tmp_path) as store:
        done = repair(store, look_over(store, time.time())[1])
        assert len(done) == 10
        assert not any(item.failure for item in done)
        store.journal.settle()
        made, adopted = store.history.log()
        assert (made.writer, adopted.writer) == ("user", "outside")
    assert (tmp_path / "MEMORY.md").read_text().startswith("- [search](search.md)")


def test_the_lines_of_a_large_index_are_mended_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []

    def counted(content: bytes, wanted: list[tuple[str, str, str, str]]) -> bytes:
        passes.append(len(wanted))
        return with_pointers(content, wanted)

    monkeypatch.setattr("lamina.memory.repairs.with_pointers", counted)
    for number in range(30):
        (tmp_path / f"note_{number}.md").write_text(f"Part {number} is written in Go.\n")
    lines = [f"- [Gone {number}](gone_{number}.md) — was here\n" for number in range(300)]
    (tmp_path / "MEMORY.md").write_text("".join(lines) + "x" * 24_500 + "\n")
    with FileStore(tmp_path) as store:
        steps = [step for step in look_over(store, time.time())[1] if "pointer" in step.action]
        done = repair(store, steps)
    failed = [item for item in done if item.failure]
    assert {item.step.action for item in failed} == {"add_pointer"}
    assert passes == [30 - len(failed)]
    assert 24_000 < (tmp_path / "MEMORY.md").stat().st_size <= 25_000


def test_only_a_repair_asks_who_wrote_many_files(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("lamina.memory.audit.FEW_TO_ASK", 1)
    monkeypatch.setattr(store, "by_hand", lambda path: bool(asked.append(path)))
    steps = look_over(store, time.time(), ask_history=False)[1]
    assert not asked
    assert look_over(store, time.time())[1] == steps
    assert asked


def test_what_is_superseded_contradicts_nothing(tmp_path: Path) -> None:
    (tmp_path / "mail.md").write_text("Outgoing mail leaves through Postmark.\n")
    (tmp_path / "old_mail.md").write_text("Outgoing mail leaves through Postfix.\n")

    def found() -> list[str]:
        with FileStore(tmp_path) as store:
            faults = look_over(store, time.time())[0].faults
        return [one.kind for one in faults if one.kind in ("contradiction", "stale")]

    assert found() == ["contradiction"]
    (tmp_path / "old_mail.md").write_text(
        "Outgoing mail leaves through Postfix.\n\nSuperseded by the [new way](mail.md).\n"
    )
    assert found() == ["stale"]


def audit(
    store: FileStore, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    parser = argparse.ArgumentParser()
    for option in ("--fix", "--json", "--quiet"):
        parser.add_argument(option, action="store_true")
    config = defaults(store.directory, store.directory)
    code = memory_reports.audit(parser.parse_args(words), store, config)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_lists_counts_and_tells_scripts_by_its_code(
    store: FileStore, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = audit(store, capsys)
    assert code == 1
    assert "4 memories checked: " in out.splitlines()[-1]
    assert "5 repairs" in err
    assert (store.directory / "empty.md").exists()
    code, out, _ = audit(store, capsys, "--json")
    value = json.loads(out)
    assert value["counts"]["junk"] == 1
    assert len(value["steps"]) == 5
    code, out, _ = audit(store, capsys, "--fix")
    assert out.count("repaired") == 5
    for path in ("feedback_commits.md", "MEMORY.md"):
        (store.directory / path).unlink()
    (store.directory / "MEMORY.md").write_text("- [Role](user_role.md) — accountant\n")
    assert audit(store, capsys)[:2] == (0, "1 memory checked: nothing wrong\n")


def test_an_index_of_many_megabytes_is_one_fault_and_is_not_read_whole(store: FileStore) -> None:
    line = "- [Gone](gone.md) — " + "y" * 1000 + "\n"
    (store.directory / "MEMORY.md").write_text(line * 3000)
    found, steps = look_over(store, time.time())
    index = [fault for fault in found.faults if fault.path == "MEMORY.md"]
    assert {fault.kind for fault in index} == {"oversized"}
    assert found.counts["dangling"] == 0
    assert not any(step.action.endswith("pointer") for step in steps)


def test_a_name_with_a_line_break_does_not_break_the_table(
    store: FileStore, capsys: pytest.CaptureFixture[str]
) -> None:
    (store.directory / "two\nlines.md").write_text("short")
    args = argparse.Namespace(fix=False, json=False, quiet=True)
    memory_reports.audit(args, store, defaults(store.directory, store.directory))
    printed = capsys.readouterr().out.splitlines()
    assert any("two lines.md" in line for line in printed)
    assert not any(line.startswith("lines.md") for line in printed)
