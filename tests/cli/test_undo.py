"""`lamina memory undo` on a directory that others wrote in: what it takes back, and what it says."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamina.ledger.places import find_project_folder, slug

Run = Callable[..., Any]
pytestmark = pytest.mark.spec("M9")

FOREIGN = {
    "MEMORY.md": "- [Profile](user_profile.md) — who I am\n",
    "user_profile.md": "---\nname: Profile\ntype: user\n---\n\nWrites a blog.\n",
    **{f"feedback_{n}.md": f"Rule number {n} of the blog is rule {n}.\n" for n in range(6)},
}


class Place:
    """A memory that somebody else filled, and the command line on it."""

    def __init__(self, lamina: Run, directory: Path, options: tuple[str, ...]) -> None:
        self.directory = directory
        self.options = options
        self._lamina = lamina
        directory.mkdir(parents=True)
        for name, text in FOREIGN.items():
            (directory / name).write_text(text)

    def memory(self, *words: str) -> Any:
        ran = self._lamina("memory", *words, *self.options)
        assert ran.code in (0, 1, 2), ran
        return ran

    def files(self) -> dict[str, str]:
        return {file.name: file.read_text() for file in self.directory.glob("*.md")}

    def commits(self) -> list[dict[str, Any]]:
        return self.memory("log", "--json").json


@pytest.fixture(params=["home", "claude"])
def place(request: pytest.FixtureRequest, lamina: Run, world: Path) -> Place:
    if request.param == "home":
        folder = find_project_folder(world / "home", world / "project")
        return Place(lamina, folder / "memory", ())
    folder = world / ".claude" / "projects" / slug(world / "project")
    return Place(lamina, folder / "memory", ("--claude", "--home", str(world / ".claude")))


def hinted(text: str) -> list[str]:
    """What a hint tells the user to type after `lamina memory`."""
    found = re.search(r"`lamina memory (undo [0-9a-f]{8}[^`]*)`", text)
    assert found, text
    return found[1].split()


def test_undo_after_the_first_add_leaves_every_file_of_others(place: Place, lamina: Run) -> None:
    added = place.memory("add", "Posts are reviewed by Anna", "--file", "review")
    whose = "written by Claude Code" if place.options else "that Lamina did not write"
    assert f"Found 7 memories {whose}; now tracked.\n" in added.err
    undone = place.memory("undo")
    assert undone.out.endswith("(remember review.md): MEMORY.md, review.md.\n")
    assert "outside" not in undone.err
    assert place.files() == FOREIGN
    assert [one["writer"] for one in place.commits()] == ["user", "user", "outside"]
    again = place.memory("undo")
    assert (again.code, again.out) == (0, "")
    assert "There is no change made through Lamina left to undo." in again.err
    assert place.files() == FOREIGN
    assert lamina("memory", *hinted(undone.err)).code == 0, "the hint as it stands redoes it"
    assert "review.md" in place.files()


def test_undo_as_the_very_first_command_changes_nothing(place: Place) -> None:
    ran = place.memory("undo")
    assert (ran.code, ran.out) == (0, "")
    assert "Found 7 memories" in ran.err
    assert place.files() == FOREIGN


def test_what_was_there_first_is_not_undone_by_its_id_either(place: Place) -> None:
    place.memory("add", "Posts are reviewed by Anna", "--file", "review")
    ran = place.memory("undo", place.commits()[-1]["id"])
    assert (ran.code, ran.out) == (2, "")
    assert "would delete 8 files that Lamina did not write" in ran.err
    assert FOREIGN.keys() < place.files().keys()


def test_a_file_written_by_hand_after_the_add_stays(place: Place, lamina: Run) -> None:
    added = place.memory("add", "Posts are reviewed by Anna", "--file", "review")
    (place.directory / "project_hand.md").write_text("By hand.\n")
    assert lamina("memory", *hinted(added.err)).code == 0
    assert place.files() == {**FOREIGN, "project_hand.md": "By hand.\n"}


@pytest.mark.spec("M10")
@pytest.mark.parametrize("by_hint", [True, False])
def test_a_forgotten_memory_comes_back_though_others_wrote_meanwhile(
    place: Place, lamina: Run, by_hint: bool
) -> None:
    forgotten = place.memory("forget", "user_profile")
    assert "user_profile.md" not in place.files()
    (place.directory / "project_new.md").write_text("Claude wrote this meanwhile.\n")
    undone = lamina("memory", *hinted(forgotten.err)) if by_hint else place.memory("undo")
    assert "Changed outside Lamina since last time, now recorded: project_new.md." in undone.err
    assert place.files() == {**FOREIGN, "project_new.md": "Claude wrote this meanwhile.\n"}


def test_each_of_several_forgotten_memories_has_its_own_hint(place: Place, lamina: Run) -> None:
    ran = place.memory("forget", "feedback_0", "feedback_1", "feedback_2")
    [middle] = [line for line in ran.err.splitlines() if "brings feedback_1.md back" in line]
    lamina("memory", *hinted(middle))
    assert FOREIGN.keys() - place.files().keys() == {"feedback_0.md", "feedback_2.md"}


def test_a_change_from_outside_is_undone_by_its_id_and_says_what_that_does(place: Place) -> None:
    place.memory("log")
    (place.directory / "project_hand.md").write_text("By hand.\n")
    (place.directory / "feedback_0.md").write_text("Changed by hand.\n")
    (place.directory / "feedback_1.md").unlink()
    after = place.files()
    commit = place.commits()[0]["id"]
    undone = place.memory("undo", commit)
    assert (
        f"{commit[:8]} was not made through Lamina. Undoing it deletes project_hand.md; "
        "brings back feedback_1.md; changes feedback_0.md.\n"
    ) in undone.err
    assert place.files() == FOREIGN
    place.memory("undo")
    assert place.files() == FOREIGN, "without an id an undo is not taken back"
    place.memory(*[word for word in hinted(undone.err) if word not in place.options])
    assert place.files() == after
    place.memory("undo")
    assert place.files() == after, "nor is the redo of what came from outside"


def test_undo_twice_takes_back_two_changes(place: Place) -> None:
    for word in ("review", "release"):
        place.memory("add", f"All that there is about the {word} of posts", "--file", word)
    assert "release.md" in place.memory("undo").out
    assert "review.md" in place.memory("undo").out
    assert place.files() == FOREIGN


def test_json_names_the_commits_and_stays_silent_otherwise(place: Place) -> None:
    added = place.memory("add", "Posts are reviewed by Anna", "--file", "review", "--json")
    assert added.err == ""
    undone = place.memory("undo", "--json")
    assert undone.json["undone"].startswith(added.json["commit"])
    assert undone.json["paths"] == ["MEMORY.md", "review.md"]
    assert place.memory("undo", undone.json["redo"], "--json").json["paths"]
    assert place.memory("forget", "review", "--json").json["undo"] == [place.commits()[0]["id"][:8]]


@pytest.mark.spec("M10")
def test_forget_and_then_purge_work_in_this_order_by_the_short_name(place: Place) -> None:
    place.memory("forget", "user_profile")
    purged = place.memory("forget", "user_profile", "--purge")
    assert purged.out == ("Forgotten: user_profile.md, and removed from the history for good.\n")
    assert "user_profile" not in place.memory("log", "-n", "0", "--json").out
    assert place.memory("forget", "user_profile", "--purge").code == 1
    rest = {name: text for name, text in FOREIGN.items() if name != "user_profile.md"}
    assert place.files() == {**rest, "MEMORY.md": ""}


def test_blame_dates_an_adopted_file_by_the_file(place: Place) -> None:
    os.utime(place.directory / "feedback_0.md", (1_600_000_000, 1_600_000_000))
    assert " outside    2020-09-1" in place.memory("blame", "feedback_0").out


@pytest.mark.spec("L6.4")
def test_a_dream_over_the_files_of_others_is_one_change_to_undo(place: Place, lamina: Run) -> None:
    for name in ("a", "b"):
        text = "---\nname: Deploy\ndescription: Deploys\ntype: project\n---\n\n"
        text += "We deploy the warehouse service from the release branch.\n"
        (place.directory / f"deploy_{name}.md").write_text(text)
    before = place.files()
    dreamt = lamina("dream", "--now", *place.options)
    assert place.files() != before
    (place.directory / "project_hand.md").write_text("By hand.\n")
    undo = re.search(r"`lamina (dream undo [0-9a-f]{8}[^`]*)`", dreamt.err)
    assert undo, dreamt
    undone = lamina(*undo[1].split())
    assert place.files() == {**before, "project_hand.md": "By hand.\n"}
    lamina("memory", *hinted(undone.err))
    assert place.files().keys() != {*before, "project_hand.md"}
    place.memory("undo")
    assert place.files() == {**before, "project_hand.md": "By hand.\n"}
    lamina("dream", "--now", *place.options)
    assert {"deploy_a.md", "deploy_b.md"} < place.files().keys(), "what came back is left alone"
