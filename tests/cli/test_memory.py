"""`lamina memory` over a real directory: every verb, for people and for scripts."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamina.cli.memory import open_store
from lamina.config import load
from lamina.ledger.places import find_project_folder
from lamina.testing import a_memory

Run = Callable[..., Any]
pytestmark = pytest.mark.spec("I2")


@pytest.fixture
def directory(world: Path) -> Path:
    return find_project_folder(world / "home", world / "project") / "memory"


def set_editor(world: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """An editor that is a shell script: `$1` is the file."""
    file = world / "editor.sh"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(stat.S_IRWXU)
    monkeypatch.setenv("EDITOR", str(file))
    monkeypatch.delenv("VISUAL", raising=False)


def test_the_first_memory_makes_folders_for_its_owner_alone(
    lamina: Run, world: Path, directory: Path
) -> None:
    assert lamina("memory", "add", "Deploys never happen on Fridays.").code == 0
    made = [
        folder for folder in (directory, *directory.parents) if (world / "home") in folder.parents
    ]
    assert directory in made
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in made} == {0o700}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("I prefer short answers.", "feedback"),
        ("I'm a nurse at the harbour clinic.", "user"),
        ("Deploys never happen on Fridays.", "project"),
    ],
)
def test_what_is_added_without_a_type_is_of_the_project_unless_it_is_of_the_user(
    lamina: Run, said: str, kind: str
) -> None:
    assert lamina("memory", "add", said).code == 0
    assert [one["type"] for one in lamina("memory", "list", "--json").json] == [kind]


def test_a_memory_is_added_listed_shown_found_and_forgotten(lamina: Run, directory: Path) -> None:
    ran = lamina("memory", "add", "Deploys never happen on Fridays. Ask Ines.", "--type", "project")
    assert (ran.code, ran.out) == (
        0,
        "Memory updated: project_deploys_never_happen_fridays.md\n",
    )
    assert (directory.parent / "project.json").exists()
    listed = lamina("memory", "list").out.splitlines()
    assert listed[0].split() == ["type", "file", "changed", "what"]
    assert "Deploys never" in listed[1]
    shown = lamina("memory", "show", "project_deploys_never_happen_fridays")
    assert shown.out == (directory / "project_deploys_never_happen_fridays.md").read_text()
    assert "fridays.md)" in lamina("memory", "show").out
    found = lamina("memory", "search", "deployment", "friday", "--json").json
    assert [hit["path"] for hit in found] == ["project_deploys_never_happen_fridays.md"]
    ran = lamina("memory", "forget", "project_deploys_never_happen_fridays")
    assert (ran.code, ran.out[:10]) == (0, "Forgotten:")
    assert lamina("memory", "list", "--json").json == []


def test_an_empty_memory_is_a_remark_and_creates_nothing(lamina: Run, world: Path) -> None:
    for words in (
        ("list",),
        ("search", "x"),
        ("log",),
        ("inbox",),
        ("pin",),
        ("diff",),
        ("undo",),
        ("export",),
        ("audit",),
    ):
        ran = lamina("memory", *words)
        assert ran.code == 0, (words, ran)
    assert not (world / "home").exists()


def test_text_comes_from_stdin_too(lamina: Run, stdin: Any) -> None:
    stdin(b"The staging host is called otter.\n")
    ran = lamina("memory", "add", "--type", "reference", "--file", "staging", "--name", "Staging")
    assert ran.out == "Memory updated: staging.md\n"
    stdin(b"")
    ran = lamina("memory", "add")
    assert (ran.code, ran.err) == (
        2,
        "lamina: There is no text to remember. Give it as an argument or on stdin.\n",
    )


def test_the_gate_refuses_with_exit_code_3(lamina: Run) -> None:
    for words in (
        ("add", "x", "--file", "../evil"),
        ("add", "x", "--file", "UPPER"),
        ("add", "hidden \u202e text"),
        ("add", "about me", "--type", "user", "--team"),
    ):
        ran = lamina("memory", *words)
        assert (ran.code, ran.out) == (3, ""), words
        assert ran.err.startswith("lamina: ")
        assert ran.err.count("\n") == 1


def test_a_memory_is_edited_in_the_users_editor(
    lamina: Run, world: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lamina("memory", "add", "First words.", "--file", "a")
    set_editor(world, monkeypatch, "sed -i 's/First words[.]$/Second words./' \"$1\"")
    assert lamina("memory", "edit", "a").out == "Memory updated: a.md\n"
    assert "Second words." in (directory / "a.md").read_text()
    set_editor(world, monkeypatch, "true")
    assert lamina("memory", "edit", "a").err == "Nothing was changed.\n"
    set_editor(world, monkeypatch, 'echo more >> "$1"; exit 3')
    ran = lamina("memory", "edit", "a")
    assert ran.code == 1
    kept = ran.err.split()[-1].rstrip(".")
    assert Path(kept).read_text().endswith("more\n")
    Path(kept).unlink()
    monkeypatch.setenv("EDITOR", "/nowhere/editor")
    assert lamina("memory", "edit", "a").code == 2
    assert lamina("memory", "edit", "absent").code == 1
    monkeypatch.delenv("EDITOR")
    monkeypatch.delenv("VISUAL", raising=False)
    ran = lamina("memory", "edit", "a")
    assert (ran.code, ran.out) == (2, "")
    assert "There is no terminal to edit in." in ran.err


def test_the_history_is_shown_blamed_undone_and_restored(lamina: Run, directory: Path) -> None:
    lamina("memory", "add", "One line.", "--file", "a")
    (directory / "a.md").write_text((directory / "a.md").read_text() + "By hand.\n")
    log = lamina("memory", "log", "--json").json
    assert [commit["writer"] for commit in log] == ["outside", "user"]
    assert "outside" in lamina("memory", "log", "a").out
    assert "+By hand." in lamina("memory", "diff").out
    blamed = lamina("memory", "blame", "a", "--json").json
    assert {line["text"]: line["commit"]["writer"] for line in blamed}["By hand."] == "outside"
    assert "By hand." in lamina("memory", "blame", "a").out
    ran = lamina("memory", "undo", log[0]["id"])
    assert ran.out.startswith("Undone ")
    assert "By hand." not in (directory / "a.md").read_text()
    ran = lamina("memory", "restore", "a", log[0]["id"][:8])
    assert ran.out == "Memory updated: a.md\n"
    assert "By hand." in (directory / "a.md").read_text()
    assert lamina("memory", "undo", "ffffffff").code == 2


@pytest.mark.spec("M11", "M9")
@pytest.mark.usefixtures("stdin")
def test_log_blame_and_why_say_who_from_which_words_in_which_session_and_why(
    lamina: Run, world: Path
) -> None:
    assert lamina("chat", "-p", "remember that the mascot is a walrus", "--model", "none").code == 0
    [memory] = lamina("memory", "list", "--json").json
    [commit] = lamina("memory", "log", memory["path"], "--json").json
    [log] = (world / "home" / "projects").glob(f"*/{commit['session']}.jsonl")
    log.write_text(re.sub(r'"ts":"[^"]+"', '"ts":"2026-05-12T12:00:00Z"', log.read_text()))
    words = "You typed “remember that the mascot is a walrus” on 12 May 2026 in session "
    words += f"{commit['session'][:8]}."
    name = memory["path"].removesuffix(".md")
    for ran in (
        lamina("memory", "log"),
        lamina("memory", "blame", name),
        lamina("memory", "why", name),
    ):
        assert ran.code == 0
        assert words in ran.out, ran
        assert not commit["reason"] or f"because: {commit['reason']}" in ran.out
    grounds = lamina("memory", "why", memory["path"], "--json").json["changes"][0]["grounds"]
    assert grounds[0] == words
    for word in ("nothing.md", "3f2a", "beef"):
        ran = lamina("memory", "why", word)
        assert ran.code == 2
        assert f"There is no memory {word} in " in ran.err
        assert ran.err.endswith("No session has that id either.\n")
    for word in ("../x", "/dev/null", "a" * 5_000, "\udcff"):
        assert lamina("memory", "why", word).err.endswith("No session has that id either.\n")


@pytest.mark.spec("I2")
@pytest.mark.parametrize("verb", ["why", "show", "log", "blame", "forget", "vouch", "pin"])
def test_a_name_that_no_memory_has_is_answered_with_those_that_are_near(
    lamina: Run, verb: str
) -> None:
    lamina("memory", "add", "Deploys never happen on Fridays.", "--file", "project_deploys_fridays")
    for word in ("deploys", "project_deploy_fridays", "fridays deploys"):
        ran = lamina("memory", verb, word)
        assert (ran.code, ran.out) == (2 if verb == "why" else 1, "")
        assert f"There is no memory {word}" in ran.err
        assert "Did you mean project_deploys_fridays.md?" in ran.err
    assert "`lamina memory list` shows all" in lamina("memory", verb, "zebra").err


@pytest.mark.spec("I2")
@pytest.mark.parametrize(
    "words", [["forget", "MEMORY"], ["forget", "MEMORY.md", "--purge"], ["rename", "MEMORY", "x"]]
)
def test_the_index_is_no_memory_to_forget_or_rename(
    lamina: Run, directory: Path, words: list[str]
) -> None:
    lamina("memory", "add", "Deploys never happen on Fridays.")
    before = (directory / "MEMORY.md").read_bytes()
    ran = lamina("memory", *words)
    assert (ran.code, ran.out) == (3, "")
    assert "lists the memories and is none itself" in ran.err
    assert (directory / "MEMORY.md").read_bytes() == before


def test_nothing_to_accept_is_said(lamina: Run) -> None:
    assert "The inbox is empty." in lamina("memory", "inbox", "accept", "--all").err


@pytest.mark.spec("M11")
def test_where_nothing_can_be_recorded_log_blame_and_why_show_what_was(
    lamina: Run, world: Path
) -> None:
    lamina("memory", "add", "The mascot is a walrus.", "--file", "mascot.md")
    [lock] = world.glob("home/projects/*/memory.lamina/history.lock")
    lock.unlink()
    lock.mkdir()  # as on a read-only disk: it can't be opened
    for verb in ("log", "blame", "why"):
        ran = lamina("memory", verb, "mascot.md")
        assert ran.code == 0, ran
        assert "lamina memory add" in ran.out
        assert "What was recorded before is shown." in ran.err


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_text_that_is_no_utf_8_comes_with_its_letters(
    lamina: Run, stdin: Any, encoding: str
) -> None:
    said = "Die Größe der Tür in Köln ist 42 cm."
    stdin(said.encode(encoding))
    assert lamina("memory", "add").code == 0
    again = said.replace("Tür", "Brücke")
    if encoding == "latin-1":  # an argument in an older terminal
        assert lamina("memory", "add", os.fsdecode(again.encode(encoding))).code == 0
    found = [one["body"] for one in lamina("memory", "export").json["memories"]]
    assert {one.strip() for one in found} == ({said, again} if encoding == "latin-1" else {said})
    stdin("Bitte merke dir, dass die Höhe 3 m ist.".encode(encoding))
    assert "die Höhe 3 m ist" in lamina("chat", "--model", "none").out + str(
        lamina("memory", "list", "--json").out
    )


def test_a_closed_input_is_an_empty_one(lamina: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["memory", "add"], ["chat"], ["replay", "-"], ["hooks", "install", "pi"]):
        monkeypatch.setattr("sys.stdin", None)
        ran = lamina(*words)
        sys.stdin.close()
        assert ran.code in (1, 2), ran
        assert "hit a bug" not in ran.err


def test_what_is_far_too_long_for_a_memory_is_not_read_to_its_end(lamina: Run, stdin: Any) -> None:
    stdin(b"a" * 2_000_000)
    ran = lamina("memory", "add")
    assert (ran.code, ran.out) == (3, "")
    assert "at most 250,000 bytes, and far more is piped in" in ran.err


@pytest.mark.spec("M10")
def test_forget_then_purge_works_in_that_order_by_the_name_without_its_ending(lamina: Run) -> None:
    lamina("memory", "add", "Quokka habitats are classified.", "--file", "a")
    assert lamina("memory", "forget", "a").code == 0
    ran = lamina("memory", "forget", "a", "--purge")
    assert (ran.code, ran.out) == (0, "Forgotten: a.md, and removed from the history for good.\n")
    assert "new ids" in ran.err, "hints that were printed before name ids that are gone"


def test_a_purge_of_what_never_was_says_so(lamina: Run) -> None:
    lamina("memory", "add", "Quokka habitats are classified.", "--file", "a")
    for name in ("b", "b.md"):
        ran = lamina("memory", "forget", name, "--purge")
        assert (ran.code, ran.out) == (1, "")
        assert f"There is no memory {name}" in ran.err


def test_a_purge_names_the_days_of_the_diary_that_still_say_it(
    lamina: Run, directory: Path
) -> None:
    lamina("memory", "add", "Quokka habitats are classified.", "--file", "a")
    for day, words in (("01", "Quokka habitats are classified."), ("02", "Lunch was late.")):
        log = directory / "logs" / "2026" / "05" / f"2026-05-{day}.md"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"- 09:12 [project] {words}\n")
    ran = lamina("memory", "forget", "a", "--purge")
    assert "logs/2026/05/2026-05-01.md" in ran.err
    assert "2026-05-02" not in ran.err


def test_a_forgotten_memory_comes_back_by_undo_but_not_after_a_purge(
    lamina: Run, directory: Path
) -> None:
    lamina("memory", "add", "Quokka habitats are classified.", "--file", "a")
    lamina("memory", "forget", "a")
    lamina("memory", "undo")
    assert (directory / "a.md").exists()
    lamina("memory", "forget", "a")
    assert lamina("memory", "forget", "a.md", "--purge").code == 0
    state = b"".join(file.read_bytes() for file in directory.parent.rglob("*") if file.is_file())
    assert b"uokka" not in state
    assert "uokka" not in lamina("memory", "log", "-n", "0", "--json").out
    assert lamina("memory", "forget", "a").code == 1


def test_the_inbox_shows_diffs_and_takes_decisions(
    lamina: Run, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(load(world / "project", home=world / "home")) as store:
        for number, word in enumerate(["tabs", "tea", "trains", "tulips"]):
            claim = a_memory(
                f"user_{word}.md",
                type="user",
                name=word,
                description=f"Likes {word}",
                body=f"The user likes {word} number {number}.",
                writer="extraction",
            )
            assert store.write(claim).decision == "inbox"
    shown = lamina("memory", "inbox").out
    assert "+The user likes tabs number 0." in shown
    assert "4 waiting" in lamina("memory", "list").err
    items = lamina("memory", "inbox", "--json").json
    assert lamina("memory", "inbox", "accept", items[0]["id"]).out == "Accepted: user_tabs.md\n"
    assert lamina("memory", "inbox", "reject", items[1]["id"]).out == "Rejected: user_tea.md\n"
    set_editor(world, monkeypatch, "sed -i 's/number 2/very much/' \"$1\"")
    assert lamina("memory", "inbox", "edit", items[2]["id"]).code == 0
    assert "very much" in lamina("memory", "show", "user_trains").out
    assert lamina("memory", "inbox", "accept").code == 2
    assert lamina("memory", "inbox", "accept", "--all", "--json").json[0]["done"] == "accepted"
    assert lamina("memory", "inbox", "--json").json == []
    assert lamina("memory", "inbox", "accept", "zz").code == 2


def test_memories_are_pinned_renamed_exported_and_audited(
    lamina: Run, world: Path, directory: Path
) -> None:
    lamina("memory", "add", "The queue is drained at noon.", "--file", "a")
    assert lamina("memory", "pin", "a").out == "a.md\n"
    assert lamina("memory", "list", "--json").json[0]["pinned"] is True
    assert lamina("memory", "rename", "a", "b").out == "Memory updated: b.md\n"
    assert lamina("memory", "pin", "--json").json == ["b.md"]
    assert lamina("memory", "pin", "b", "--off").out == ""
    exported = lamina("memory", "export").json
    assert exported["memories"][0]["body"] == "The queue is drained at noon."
    assert "(b.md)" in exported["index"]
    assert lamina("memory", "export", "-o", str(world / "m.json")).code == 0
    assert (world / "m.json").read_text().startswith("{\n")
    assert lamina("memory", "export", "-o", str(world / "no" / "m.json")).code == 2
    assert lamina("memory", "audit", "--json").json["checked"] == 1
    (directory / "MEMORY.md").write_text("- [gone](gone.md)\n")
    assert lamina("memory", "audit").code == 1


@pytest.mark.spec("M13")
def test_another_tools_directory_is_used_in_place(lamina: Run, world: Path) -> None:
    from lamina.ledger.places import slug

    folder = world / ".claude" / "projects" / slug(world / "project")
    (folder / "memory").mkdir(parents=True)
    (folder / "memory" / "a.md").write_text("---\nname: A\ntype: user\n---\n\nText.\n")
    home = ("--claude", "--home", str(world / ".claude"))
    assert [one["path"] for one in lamina("memory", "list", "--json", *home).json] == ["a.md"]
    lamina("memory", "add", "More words for both.", "--file", "b", *home)
    assert sorted(os.listdir(folder)) == ["memory"]
    assert sorted(os.listdir(folder / "memory")) == ["MEMORY.md", "a.md", "b.md"]
    assert (world / ".claude" / "lamina" / "projects").is_dir()


def test_recorded_text_cannot_steer_the_terminal(lamina: Run, directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "a.md").write_text("---\nname: \x1b[2J\ndescription: \x1b]0;x\x07\n---\n\x1b[31m")
    for words in (("list",), ("search", "a"), ("log",), ("blame", "a"), ("diff",)):
        assert "\x1b" not in lamina("memory", *words).out


def test_what_is_not_there_has_no_blame_and_a_count_is_a_number(lamina: Run) -> None:
    lamina("memory", "add", "Deploys never happen on Fridays.")
    ran = lamina("memory", "blame", "nothing")
    assert (ran.code, ran.out) == (1, "")
    assert "There is no memory nothing.md" in ran.err
    for verb in (["log"], ["list"], ["search", "deploys"]):
        ran = lamina("memory", *verb, "-n", "-5")
        assert ran.code == 2
        assert "'-5' is not a whole number, 0 or more" in ran.err


def test_a_history_that_cannot_be_written_is_told_and_the_memory_is_kept(
    lamina: Run, directory: Path
) -> None:
    lamina("memory", "add", "Deploys never happen on Fridays.")
    lock = directory.with_name("memory.lamina") / "history.lock"
    lock.unlink()
    lock.mkdir()
    ran = lamina("memory", "add", "The mascot is a walrus called Wendell.")
    assert (ran.code, ran.out) == (
        0,
        "Memory updated: project_mascot_walrus_called_wendell.md\n",
    )
    assert "The memories are safe; the history follows later." in ran.err
    ran = lamina("memory", "list", "--json")
    assert (ran.code, len(ran.json)) == (0, 2)
    ran = lamina("memory", "log", "--json")
    assert [commit["subject"] for commit in ran.json] == [
        "remember project_deploys_never_happen_fridays.md"
    ]
    lock.rmdir()
    assert len(lamina("memory", "log", "--json").json) == 2


def test_what_was_typed_in_the_editor_is_not_lost_when_somebody_was_faster(
    lamina: Run, directory: Path, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lamina("memory", "add", "The mascot is a walrus.", "--file", "mascot")
    monkeypatch.setattr("tempfile.tempdir", str(world))
    file = directory / "mascot.md"
    set_editor(
        world, monkeypatch, f"sed -i 's/walrus/heron/' {file}; sed -i 's/walrus/crane/' \"$1\""
    )
    ran = lamina("memory", "edit", "mascot")
    assert ran.code == 1
    assert "mascot.md was changed by somebody else" in ran.err
    assert "heron" in file.read_text()
    kept = Path(ran.err.rpartition("What you typed is in ")[2].strip().rstrip("."))
    assert "The mascot is a crane." in kept.with_suffix(".md").read_text()
