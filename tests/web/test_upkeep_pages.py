"""Inbox, audit and dreams on the page, and what their forms do on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lamina.memories import Evidence, Proposal, Verdict

if TYPE_CHECKING:
    from tests.web.conftest import Page

pytestmark = pytest.mark.spec("I5")


@pytest.fixture
def project(page: Page) -> Any:
    world = page.server.pages._world
    return world.project(world.here)


def propose(project: Any, name: str, body: str) -> str:
    """Something that an agent would like to remember and may not by itself; its id."""
    proposal = Proposal(
        path=f"feedback_{name}.md",
        name=name,
        description=body,
        type="feedback",
        body=body,
        writer="agent",
        evidence=(Evidence(body),),
        reason="a page said so",
    )
    with project.store() as store:
        store.remember(
            Proposal("project_base.md", "base", "base", "project", "A base.", writer="user")
        )
        content = f"---\nname: {name}\ndescription: {body}\ntype: feedback\n---\n{body}\n".encode()
        return store.hold(proposal, Verdict("inbox", "It is not the user's word."), content).id


def test_an_empty_inbox_an_audit_without_faults_and_no_dream_say_so(page: Page) -> None:
    assert "Nothing is waiting" in page.get("inbox").words
    assert "Nothing is wrong" in page.get("audit").words
    assert "See what a dream would change" in page.get("dream").words


def test_what_waits_is_accepted_changed_or_refused(
    page: Page, project: Any, memory_dir: Any
) -> None:
    taken = propose(project, "taken", "Always squash commits.")
    changed = propose(project, "changed", "Always rebase branches.")
    refused = propose(project, "refused", "Always force-push to main.")
    shown = page.get("inbox")
    assert "It is not your word." in shown.words
    assert "+Always squash commits." in shown.words
    assert ">3<" in shown.text, "the menu counts what waits"
    assert "Accepted" in page.post("inbox", item=taken, action="accept").words
    editor = page.get(f"inbox/{changed}").text
    assert "Always rebase branches." in editor
    said = (
        "---\nname: changed\ndescription: x\ntype: feedback\n---\nNever rebase shared branches.\n"
    )
    page.post(f"inbox/{changed}", content=said)
    assert "Refused" in page.post("inbox", item=refused, action="reject").words
    assert "Refused by you 1" in page.get("money").words
    folder: Path = memory_dir()
    assert "squash" in (folder / "feedback_taken.md").read_text()
    assert "Never rebase shared" in (folder / "feedback_changed.md").read_text()
    assert not (folder / "feedback_refused.md").exists()
    assert "Nothing is waiting" in page.get("inbox").words


def test_all_that_waits_is_accepted_at_once(page: Page, project: Any, memory_dir: Any) -> None:
    for name, body in (("one", "Squash the commits."), ("two", "Tests run before each merge.")):
        propose(project, name, body)
    shown = page.get("inbox").text.partition('name="items" value="')[2].partition('"')[0]
    propose(project, "unseen", "Secrets belong into the log.")  # after the page was loaded
    assert "Accepted: 2." in page.post("inbox", action="accept-all", items=shown).words
    there = {one.name for one in memory_dir().iterdir()}
    assert {"feedback_one.md", "feedback_two.md"} <= there
    assert "feedback_unseen.md" not in there
    assert "Secrets belong into the log." in page.get("inbox").words


def test_the_audit_makes_the_repairs_that_it_names(
    page: Page, lamina: Any, memory_dir: Any
) -> None:
    lamina("memory", "add", "Deploys never happen on Fridays")
    index: Path = memory_dir() / "MEMORY.md"
    index.write_text(index.read_text() + "- [Gone](project_gone.md) — nothing is there\n")
    shown = page.get("audit").words
    assert "Make 1 repair" in shown
    assert "project_gone.md" in shown
    assert "Repaired: 1." in page.post("audit").words
    assert "project_gone" not in index.read_text()


@pytest.fixture
def doubles(page: Page, lamina: Any, memory_dir: Any) -> Path:
    """Memories that a dream would merge."""
    lamina("memory", "add", "Deploys never happen on Fridays")
    folder: Path = memory_dir()
    (one,) = folder.glob("project_*.md")
    (folder / "project_again.md").write_text(one.read_text())
    return folder


def mark_of(shown: Any) -> str:
    """By which the form that applies a dream knows what its page shows."""
    return shown.text.split('name="shown" value="')[1].split('"')[0]


def test_a_dream_is_shown_applied_and_undone(page: Page, doubles: Path) -> None:
    before = {one.name: one.read_bytes() for one in doubles.glob("*.md")}
    shown = page.post("dream", action="preview")
    assert "What it would change" in shown.words
    assert "Would" in shown.words
    assert {one.name: one.read_bytes() for one in doubles.glob("*.md")} == before
    applied = page.post("dream", action="apply", shown=mark_of(shown))
    assert "The last dream" in applied.words
    assert len([*doubles.glob("project_*.md")]) == 1
    commit = applied.text.split('name="commit" value="')[1].split('"')[0]
    page.post("undo", commit=commit)
    assert len([*doubles.glob("project_*.md")]) == 2


def test_a_discarded_dream_leaves_memory_as_it_was(page: Page, doubles: Path) -> None:
    page.post("dream", action="preview")
    assert "Discarded" in page.post("dream", action="discard").words
    assert len([*doubles.glob("project_*.md")]) == 2
    assert "nothing to apply" in page.post("dream", action="apply").words


def test_only_what_was_shown_is_applied(page: Page, doubles: Path) -> None:
    first = mark_of(page.post("dream", action="preview"))
    (doubles / "project_new.md").write_text("---\nname: new\ntype: project\n---\nA new one.\n")
    said = page.post("dream", action="apply", shown=first).words
    assert "Memory has changed since this was worked out" in said
    page.post("dream", action="preview")  # in another tab
    assert "nothing to apply" in page.post("dream", action="apply", shown=first).words
    assert len([*doubles.glob("project_*.md")]) == 3
