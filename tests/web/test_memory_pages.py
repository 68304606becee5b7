"""Memory on the page: what it shows, and what its forms do on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from tests.web.test_upkeep_pages import propose

from lamina.web.pages import diff_lines

if TYPE_CHECKING:
    from tests.web.conftest import Page

pytestmark = pytest.mark.spec("I5")

SCRIPT = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"


@pytest.fixture
def deploys(page: Page, lamina: Any, memory_dir: Any) -> str:
    """One memory; its file's name."""
    lamina("memory", "add", "Deploys never happen on Fridays", "--type", "project")
    (found,) = memory_dir().glob("project_*.md")
    return found.name


def test_an_empty_memory_says_what_to_do(page: Page) -> None:
    got = page.get()
    assert got.status == 200
    assert "Nothing is remembered here yet" in got.words
    assert "lamina memory import claude" in got.words


def test_the_list_shows_every_memory_and_filters_by_type(
    page: Page, lamina: Any, deploys: str
) -> None:
    lamina("memory", "add", "I prefer tabs over spaces", "--type", "user")
    assert "Deploys never happen on Fridays" in page.get().words
    only = page.get("?type=user").words
    assert "tabs over spaces" in only
    assert "Fridays" not in only


def test_a_name_that_is_how_the_description_begins_is_not_shown_beside_it(
    page: Page, deploys: str, memory_dir: Any
) -> None:
    said = "Please never run migrations against otter"
    head = f"name: Please never run…\ndescription: {said}\ntype: feedback"
    (memory_dir() / "rule.md").write_text(f"---\n{head}\n---\n\n{said}.\n")
    shown = page.get().words
    assert said in shown
    assert "never run…" not in shown
    assert "never run…" not in page.get("m/rule.md").words.partition("Edit")[0]


def test_search_gives_the_reason_and_the_share_of_each_hit(page: Page, deploys: str) -> None:
    got = page.get("?q=when+are+deploys+forbidden", X_Fragment="1")
    assert "<html" not in got.text, "a key stroke gets the results alone"
    assert "Fridays" in got.words
    assert "%" in got.words
    assert "found by" in got.words
    assert "Nothing found" in page.get("?q=zebra").words


def test_a_word_that_is_half_typed_finds_what_it_begins(page: Page, deploys: str) -> None:
    for words in ("dep", "deplo", "deploys on fri", "deployi"):
        assert "Fridays" in page.get(f"?q={quote(words)}", X_Fragment="1").words, words
    assert "Nothing found" in page.get("?q=depth", X_Fragment="1").words


def test_what_is_typed_right_after_an_edit_finds_what_was_written(
    page: Page, deploys: str, memory_dir: Any
) -> None:
    assert "Nothing found" in page.get("?q=flamingo", X_Fragment="1").words
    base = (memory_dir() / deploys).read_text()
    page.post(f"edit/{deploys}", base=base, content=f"{base}\nAsk the flamingo first.\n")
    assert "Fridays" in page.get("?q=flamingo", X_Fragment="1").words


def test_what_goes_or_is_replaced_between_two_key_strokes_is_seen_at_the_second(
    page: Page, deploys: str, memory_dir: Any
) -> None:
    file: Path = memory_dir() / deploys
    os.utime(memory_dir(), (1, 1))  # so that the next change of the folder has another time
    assert "Fridays" in page.get("?q=deploys", X_Fragment="1").words
    fresh = file.with_name(".fresh")
    fresh.write_text(file.read_text().replace("Fridays", "Mondays"))
    fresh.replace(file)
    words = page.get("?q=deploys", X_Fragment="1").words
    assert "Mondays" in words
    assert "Fridays" not in words
    os.utime(memory_dir(), (1, 1))
    page.get("?q=deploys", X_Fragment="1")
    file.unlink()
    assert "Nothing found" in page.get("?q=deploys", X_Fragment="1").words


def test_a_difference_names_its_file_once_and_takes_no_line_of_it_for_a_heading() -> None:
    rows = ["--- a/x.md", "+++ b/x.md", "@@ -1,2 +1,2 @@", "----", "-name: x", "+++ y", "+name: y"]
    assert [*diff_lines("\n".join(rows))] == [
        ("file", "x.md"), ("at", "@@ -1,2 +1,2 @@"), ("del", "----"), ("del", "-name: x"),
        ("add", "+++ y"), ("add", "+name: y"),
    ]  # fmt: skip
    new = ["--- /dev/null", "+++ b/x.md", "@@ -0,0 +1 @@", "+x"]
    assert [*diff_lines("\n".join(new))] == [("file", "x.md"), ("add", "+x")]


def test_one_memory_shows_who_wrote_it_when_and_why(page: Page, deploys: str) -> None:
    words = page.get(f"m/{deploys}").words
    assert deploys in words
    assert "you today" in words
    assert "because: lamina memory add" in words
    assert "MEMORY.md points to it." in words


def test_a_memory_is_edited_and_the_edit_undone(
    page: Page, deploys: str, memory_dir: Any, lamina: Any
) -> None:
    file: Path = memory_dir() / deploys
    before = file.read_text()
    assert "Deploys never" in page.get(f"edit/{deploys}").text
    after = before.replace("Fridays", "Mondays")
    got = page.post(
        f"edit/{deploys}", base=before.replace("\n", "\r\n"), content=after.replace("\n", "\r\n")
    )
    assert got.status == 200
    assert file.read_text() == after
    assert "Memory updated" in got.words
    assert "lamina ui" in lamina("memory", "log", deploys)
    commit = lamina("memory", "log", deploys, "--json").split('"id": "')[1][:12]
    undone = page.post("undo", commit=commit)
    assert "Undone" in undone.words
    assert file.read_text() == before


def test_what_others_changed_meanwhile_is_kept(page: Page, deploys: str, memory_dir: Any) -> None:
    file: Path = memory_dir() / deploys
    base = file.read_text()
    file.write_text(base + "\nA line of somebody else.\n")
    page.post(f"edit/{deploys}", base=base, content=base.replace("Fridays", "Mondays"))
    assert "somebody else" in file.read_text()
    assert "Mondays" in file.read_text()


def test_a_refused_edit_keeps_what_was_typed_and_says_why(
    page: Page, deploys: str, memory_dir: Any
) -> None:
    file: Path = memory_dir() / deploys
    base = file.read_text()
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    got = page.post(f"edit/{deploys}", base=base, content=f"{base}\ntoken {secret}\n")
    assert got.status == 409
    assert secret in got.text, "what was typed is still in the field"
    assert "secret" in got.words
    assert file.read_text() == base


def test_a_file_that_a_browser_would_spoil_is_not_edited_here(
    page: Page, deploys: str, memory_dir: Any
) -> None:
    file: Path = memory_dir() / deploys
    for content in (b"a\r\nb\nc\n", b"caf\xe9\n", b"a\rb\n", b"x" * 300_000):
        file.write_bytes(content)
        got = page.get(f"edit/{deploys}")
        assert got.status == 400
        assert "lamina memory edit" in got.words
    file.write_bytes(b"one\r\ntwo\r\n")
    page.post(f"edit/{deploys}", crlf="1", base="one\r\ntwo\r\n", content="one\r\nthree\r\n")
    assert b"one\r\nthree\r\n" in file.read_bytes()


@pytest.mark.spec("I5", "M11")
def test_a_quotation_is_vouched_for_by_its_form_alone_and_that_is_undone(
    page: Page, memory_dir: Any, lamina: Any
) -> None:
    lamina("memory", "add", "Lunch is at noon.")
    quotation = "---\nname: Ports\ntype: project\nquoted_from: tool\n---\n\nStaging is on 8081.\n"
    (memory_dir() / "project_ports.md").write_text(quotation)
    assert "Vouch…" in page.get("m/project_ports.md").words
    assert page.get("vouch", X_Fragment="").status == 404
    to = page._of("vouch")
    assert page.ask("POST", to, b"path=project_ports.md", Origin=page.origin).status == 403
    assert "quoted_from" in (memory_dir() / "project_ports.md").read_text()
    got = page.post("vouch", path="project_ports.md")
    assert "is your own word now" in got.words
    assert "Vouch…" not in got.words
    assert "quoted_from" not in (memory_dir() / "project_ports.md").read_text()
    assert page.post("vouch", path="project_ports.md").status == 409
    lamina("memory", "undo")
    assert (memory_dir() / "project_ports.md").read_text() == quotation


def test_a_pinned_memory_is_marked_and_let_go_again(page: Page, deploys: str, lamina: Any) -> None:
    assert "is pinned" in page.post("pin", path=deploys, on="1").words
    assert deploys in lamina("memory", "pin")
    assert "no longer pinned" in page.post("pin", path=deploys, on="").words
    assert deploys not in lamina("memory", "pin")


def test_a_forgotten_memory_comes_back_by_the_undo_that_the_page_offers(
    page: Page, deploys: str, memory_dir: Any
) -> None:
    got = page.post("forget", path=deploys)
    assert f"Forgotten: {deploys}" in got.words
    assert not (memory_dir() / deploys).exists()
    assert "It was forgotten" in page.get(f"m/{deploys}").words
    commit = got.text.split('name="commit" value="')[1].split('"')[0]
    page.post("undo", commit=commit)
    assert (memory_dir() / deploys).exists()


def test_a_purged_memory_is_in_no_history(page: Page, deploys: str, lamina: Any) -> None:
    assert "for good" in page.post("forget", path=deploys, purge="1").words
    assert page.get(f"m/{deploys}").status == 404


def test_the_history_never_offers_to_delete_what_others_wrote_without_saying_so(
    page: Page, deploys: str, memory_dir: Any
) -> None:
    (memory_dir() / "feedback_mine.md").write_text("Written by hand.\n")
    log = page.get("history")
    assert "outside Lamina" in log.words
    outside = log.text.split("outside Lamina")[1]
    commit = outside.split("/change/")[1].split('"')[0]
    assert commit not in log.text.replace(f"/change/{commit}", "")
    shown = page.get(f"change/{commit}").words
    assert "Undoing it deletes feedback_mine.md" in shown


def test_hostile_text_stays_text(page: Page, deploys: str, memory_dir: Any) -> None:
    name = "project_<img src=x onerror=alert(1)>&\"'.md"
    (memory_dir() / name).write_text(f"---\nname: {SCRIPT}\ndescription: {SCRIPT}\n---\n{SCRIPT}\n")
    pages = ["", "history", "audit", "?q=owned", f"m/{quote(name)}", "?q=" + quote(SCRIPT)]
    for path in pages:
        got = page.get(path)
        assert got.status == 200, path
        assert "<script>" not in got.text
        assert "<img" not in got.text
        assert "owned" in got.text or path in ("audit", "history")


def test_five_megabytes_on_one_line_make_no_large_page(
    page: Page, deploys: str, memory_dir: Any
) -> None:
    line = "x" * 5_000_000
    (memory_dir() / "project_long.md").write_text(
        f"---\nname: long\ndescription: {line[:9000]}\n---\n{line}"
    )
    for path in ("", "m/project_long.md", "history", "audit"):
        assert len(page.get(path).body) < 300_000, path
    whole = page.get("m/project_long.md?raw=1")
    assert line in whole.text
    assert whole.headers["Content-Type"].startswith("text/plain")


def test_control_characters_and_broken_names_are_shown_not_obeyed(
    page: Page, deploys: str, memory_dir: Any
) -> None:
    (memory_dir() / "project_odd.md").write_bytes(
        b"---\nname: a\x1b[31mb\xff\n---\nbody \x00\x07\n"
    )
    for path in ("", "m/project_odd.md"):
        got = page.get(path)
        assert got.status == 200
        assert "\x1b" not in got.text


def test_an_undo_goes_back_to_where_it_was_asked_for_whatever_the_name(
    page: Page, deploys: str, memory_dir: Any
) -> None:
    name = "project_日本 &?#.md"
    (memory_dir() / deploys).rename(memory_dir() / name)
    shown = page.get(f"m/{quote(name)}")
    base = (memory_dir() / name).read_text()
    edited = page.post(f"edit/{quote(name)}", base=base, content=base.replace("Fridays", "Mondays"))
    commit, back = (
        edited.text.split(f'name="{field}" value="')[1].split('"')[0]
        for field in ("commit", "back")
    )
    assert shown.status == edited.status == 200
    undone = page.post("undo", commit=commit, back=back)
    assert "Undone" in undone.words
    assert quote(name) in undone.path
    for foreign in ("https://evil.example", "//evil.example", f"{page._of('')}\r\nSet-Cookie: a=b"):
        redo = undone.text.split('name="commit" value="')[1].split('"')[0]
        undone = page.post("undo", commit=redo, back=foreign)
        assert undone.path.partition("?")[0] == page._of("history")


def test_what_a_type_of_agent_learned_is_a_scope_of_its_own(page: Page, world: Path) -> None:
    """The same pages, and the same doors as `lamina memory --agent`."""
    types, kept = (
        world / "project" / ".lamina" / one for one in ("agents", "agent-memory/reviewer")
    )
    types.mkdir(parents=True)
    (types / "reviewer.md").write_text(
        "---\nname: reviewer\ndescription: reviews\nmemory: project\ntools: Read\n---\nReview.\n"
    )
    kept.mkdir(parents=True)
    (kept / "project_tabs.md").write_text(
        "---\nname: Tabs\ndescription: This code has tabs\ntype: project\n---\n\nTabs.\n"
    )
    listed = page.get()
    assert "agent reviewer" in listed.words
    assert "This code has tabs" not in listed.words
    address = f"{page._of('')}~reviewer".replace("/~", "~")
    assert "This code has tabs" in page.ask("GET", address).text
    assert "Tabs" in page.ask("GET", f"{address}?q=tabs").text
    assert "agents of type reviewer" in page.ask("GET", f"{address}/m/project_tabs.md").text
    assert page.ask("GET", f"{address}/inbox").headers["Location"] == page._of("inbox")
    found = page.server.pages._world
    propose(found.project(found.here), "waits", "Always squash commits.")
    assert ">1<span" in page.ask("GET", address).text, "the project's inbox is a click away"
    assert page.ask("GET", f"{address}~nobody").status == 400
