"""The page in a real browser, Debian's Chromium: every page with real data is free of errors and usable
by everybody, every button does on disk what it says, and hostile text does nothing."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.web.test_session_pages import session  # noqa: F401 - a fixture
from tests.web.test_upkeep_pages import propose

from lamina.layers import dream
from lamina.layers.dream.record import DreamRecord, Progress

if TYPE_CHECKING:
    from lamina.web.server import Server

pytestmark = pytest.mark.spec("I5")
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium here (apt-get install chromium)")
    with api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def project(serve: Callable[..., Server], lamina: Any, session: Path) -> Any:  # noqa: F811
    """The world that a page is opened on: memories, something in the inbox, a fault, doubles."""
    lamina("memory", "add", "Deploys never happen on Fridays", "--type", "project")
    lamina("memory", "add", "I prefer tabs over spaces in Makefiles", "--type", "user")
    server = serve()
    world: Any = server.pages._world  # type: ignore[union-attr]
    found = world.project(world.here)
    propose(found, "waits", "Always squash commits.")
    return server, found


@pytest.fixture
def tab(browser: Any, project: Any) -> Iterator[Any]:
    """A tab at the page; whatever the browser complains of fails the test."""
    server, found = project
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(60_000)
    tab = context.new_page()
    wrong: list[str] = []
    tab.complaints = []  # that a test expects
    tab.on(
        "console",
        lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None,
    )
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}") or dialog.dismiss())
    tab.on(
        "request", lambda asked: None if server_has(server, asked.url) else wrong.append(asked.url)
    )
    tab.goto(server.url)
    tab.wait_for_url("**/p/**")
    tab.here = tab.url.split("?")[0]
    tab.project, tab.server = found, server
    yield tab
    context.close()
    assert [one for one in wrong if not any(part in one for part in tab.complaints)] == []


def server_has(server: Any, url: str) -> bool:
    return url.startswith((f"http://127.0.0.1:{server.port}/", "data:"))


def memories(project: Any) -> dict[str, str]:
    with project.store() as store:
        return {path: store.read_bytes(path).decode() for path in store.stamps()}


def test_every_page_is_free_of_errors_fits_and_can_be_used_by_everybody(
    tab: Any,
    session: Path,  # noqa: F811
) -> None:
    path = next(one for one in memories(tab.project) if "deploys" in one)
    pages = ["", "?q=deploys", "?q=zebra", f"/m/{path}", f"/edit/{path}", "/inbox", "/history", "/audit", "/dream",
             "/sessions", f"/s/{session.stem}", f"/s/{session.stem}/view/2", "/money"]  # fmt: skip
    axe = AXE.read_text("utf-8")
    for number, page in enumerate(pages):
        wide, scheme = ((390, "dark"), (1440, "light"))[number % 2]
        tab.set_viewport_size({"width": wide, "height": 900})
        tab.emulate_media(color_scheme=scheme)
        assert tab.goto(tab.here + page).status == 200
        assert tab.evaluate("document.documentElement.scrollWidth") <= wide, page
        tab.evaluate(axe)
        found = tab.evaluate("axe.run().then(r => r.violations)")
        serious = [
            (one["id"], [node["html"][:120] for node in one["nodes"][:3]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == [], page


def press(tab: Any, name: str, *, within: str = "main") -> None:
    """Press a button that posts, and wait for the page that follows."""
    with tab.expect_navigation():
        tab.locator(within).get_by_role("button", name=name, exact=True).click()


def test_buttons_do_on_disk_what_they_say(tab: Any) -> None:
    path = next(one for one in memories(tab.project) if "deploys" in one)
    tab.goto(f"{tab.here}/m/{path}")
    tab.keyboard.press("e")
    tab.wait_for_url("**/edit/**")
    field = tab.locator("textarea")
    field.fill(field.input_value().replace("Fridays", "Mondays"))
    press(tab, "Save")
    assert "Mondays" in memories(tab.project)[path]
    press(tab, "Undo", within=".told")
    assert "Fridays" in memories(tab.project)[path]
    tab.goto(f"{tab.here}/m/{path}")
    press(tab, "Pin")
    assert pinned(tab.project) == {path}
    press(tab, "Unpin")
    assert pinned(tab.project) == set()
    tab.get_by_text("Forget…").click()
    press(tab, "Forget it")
    assert path not in memories(tab.project)
    press(tab, "Undo", within=".told")
    assert path in memories(tab.project)
    quotation = "---\nname: Ports\ntype: project\nquoted_from: tool\n---\n\nStaging is on 8081.\n"
    with tab.project.store() as store:
        (store.directory / "project_ports.md").write_text(quotation)
    tab.goto(f"{tab.here}/m/project_ports.md")
    tab.get_by_text("Vouch…").click()
    press(tab, "It is true")
    assert "quoted_from" not in memories(tab.project)["project_ports.md"]
    press(tab, "Undo", within=".told")
    assert memories(tab.project)["project_ports.md"] == quotation
    tab.goto(f"{tab.here}/inbox")
    press(tab, "Accept")
    assert "feedback_waits.md" in memories(tab.project)
    tab.keyboard.press("?")
    tab.locator("dialog").get_by_role("button", name="Close").click()
    assert not tab.locator("dialog").is_visible()


def test_what_looks_like_a_secret_is_saved_when_told_to(tab: Any) -> None:
    path = next(one for one in memories(tab.project) if "deploys" in one)
    tab.goto(f"{tab.here}/edit/{path}")
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    tab.locator("textarea").fill(memories(tab.project)[path] + f"token {token}\n")
    tab.complaints.append("409 (Conflict)")  # a browser logs that it was refused
    press(tab, "Save")
    assert token not in memories(tab.project)[path]
    tab.get_by_label("save it even if it looks like a secret").check()
    press(tab, "Save")
    assert token in memories(tab.project)[path]


def pinned(project: Any) -> set[str]:
    with project.store() as store:
        return set(store.pinned())


def waiting(project: Any) -> int:
    with project.store() as store:
        return len(store.waiting())


def test_the_inbox_the_audit_and_the_history_do_on_disk_what_they_say(tab: Any) -> None:
    for name in ("other", "third", "fourth"):
        propose(tab.project, name, f"Always tag the {name} release.")
    tab.goto(f"{tab.here}/inbox")
    press(tab, "Refuse", within="li:has-text('feedback_other.md')")
    assert waiting(tab.project) == 3
    tab.locator("li:has-text('feedback_third.md')").get_by_text("Change…").click()
    tab.wait_for_url("**/inbox/**")
    field = tab.locator("textarea")
    field.fill(field.input_value().replace("Always tag", "Tag"))
    press(tab, "Save")
    assert "\nTag the third release." in memories(tab.project)["feedback_third.md"]
    press(tab, "Accept all 2")
    assert waiting(tab.project) == 0
    assert {"feedback_waits.md", "feedback_fourth.md"} <= memories(tab.project).keys()
    assert "feedback_other.md" not in memories(tab.project)
    with tab.project.store() as store:
        index = store.directory / "MEMORY.md"
        index.write_text("- [Gone](project_gone.md) — no more\n")
    tab.goto(f"{tab.here}/audit")
    tab.locator("main").get_by_role("button", name="Make").click()
    tab.get_by_text("Repaired:").wait_for()
    assert "project_gone.md" not in index.read_text()
    assert "feedback_fourth.md" in index.read_text()
    tab.goto(f"{tab.here}/history")
    tab.locator("li:has-text('feedback_fourth.md')").last.get_by_text("What it changed").click()
    tab.wait_for_url("**/change/**")
    press(tab, "Undo this change")
    assert "feedback_fourth.md" not in memories(tab.project)


def test_a_memory_is_purged_and_a_dream_discarded(tab: Any) -> None:
    path = next(one for one in memories(tab.project) if "tabs" in one)
    tab.goto(f"{tab.here}/m/{path}")
    tab.get_by_text("Forget…").click()
    tab.get_by_label("from the history too, for good").check()
    press(tab, "Forget it")
    assert path not in memories(tab.project)
    with tab.project.store() as store:
        assert [*store.history.log(path)] == []
        (one,) = [path for path in store.stamps() if "deploys" in path]
        (store.directory / "project_again.md").write_bytes(store.read_bytes(one))
    before = memories(tab.project)
    tab.goto(f"{tab.here}/dream")
    press(tab, "See what a dream would change")
    press(tab, "Discard it")
    assert memories(tab.project) == before
    assert tab.get_by_role("button", name="See what a dream would change").is_visible()


def test_a_dream_that_finds_nothing_is_closed(tab: Any) -> None:
    before = memories(tab.project)
    tab.goto(f"{tab.here}/dream")
    press(tab, "See what a dream would change")
    press(tab, "Close")
    assert memories(tab.project) == before
    assert tab.get_by_role("button", name="See what a dream would change").is_visible()


def test_a_dream_that_runs_is_asked_to_end(tab: Any) -> None:
    with tab.project.store() as store:
        record, path = DreamRecord(store.state), store.directory / dream.LOCK
    held = dream.acquire(path, now=1.0)
    try:
        record.show(Progress("d1", os.getpid(), 1.0, text="Looking at memory"))
        tab.goto(f"{tab.here}/dream")
        assert tab.get_by_text("Looking at memory").is_visible()
        press(tab, "Stop it")
        assert record.asked_to_end("d1")
    finally:
        held.release()
    tab.reload()
    assert tab.get_by_role("button", name="Stop it").count() == 0


def test_a_dream_is_seen_applied_and_undone(tab: Any) -> None:
    with tab.project.store() as store:
        (one,) = [path for path in store.stamps() if "deploys" in path]
        (store.directory / "project_again.md").write_bytes(store.read_bytes(one))
    tab.goto(f"{tab.here}/dream")
    press(tab, "See what a dream would change")
    before = memories(tab.project)
    press(tab, "Apply it")
    assert len([path for path in memories(tab.project) if path.startswith("project_")]) == 2
    press(tab, "Undo this dream")
    assert memories(tab.project) == before
    assert tab.get_by_role("button", name="Undo this dream").count() == 0


def test_every_button_and_box_of_the_templates_is_pressed_here() -> None:
    here = Path(__file__).read_text("utf-8")
    folder = resources.files("lamina.web") / "templates"
    templates = "".join(one.read_text("utf-8") for one in folder.iterdir())
    shown = re.findall(r"<button[^>]*>(.*?)</button>", templates)
    named = [one.partition("{{")[0].strip() for one in shown]
    named += re.findall(r'"([A-Z][^"]*)"', " ".join(one for one in shown if "{{" in one))
    named += re.findall(r'undo\([^)]*"(.*?)"\)', templates)
    named += re.findall(r'words="(.*?)"\)', templates)
    named += re.findall(r'type="checkbox"[^>]*> (.*?)</label>', templates)
    assert len(set(named)) > 15
    calls = re.findall(r'press\(tab, "(.*?)"|="([^"]*)"\)\.click|label\("(.*?)"\)\.check', here)
    pressed = {re.sub(r" \d+$", "", one) for call in calls for one in call}
    assert set(named) - pressed == set()


def test_typing_searches_and_keys_lead_everywhere(tab: Any) -> None:
    tab.keyboard.press("/")
    tab.keyboard.type("makefiles")
    tab.wait_for_url("**?q=makefiles")  # what half the word finds may have been there before
    assert tab.get_by_text("found by").is_visible()
    assert tab.locator("#results .row").count() == 1
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/m/**")
    tab.keyboard.press("g")
    tab.keyboard.press("s")
    tab.wait_for_url("**/sessions")
    tab.keyboard.press("j")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/s/**")
    tab.locator("summary", has_text="took out").first.click()
    tab.get_by_text("line of a long result").first.wait_for()
    tab.keyboard.press("?")
    assert tab.locator("dialog").is_visible()


def test_commands_that_an_empty_page_names_are_shown_as_they_are_typed(
    browser: Any, serve: Callable[..., Server]
) -> None:
    server = serve()
    tab = browser.new_page()
    tab.goto(server.url)
    tab.wait_for_url("**/p/**")
    assert tab.locator("dt code").first.inner_text() == "lamina chat"
    tab.close()


def test_news_appear_by_themselves(tab: Any) -> None:
    while not tab.server.watch._waiting:  # until the stream is open
        tab.wait_for_timeout(10)
    with tab.project.store() as store:
        from lamina.memory import proposed

        text = "The staging server is rebooted on Sundays"
        store.remember(proposed(text, type="project", store=store, reason="a test"))
    tab.get_by_text("rebooted on Sundays").first.wait_for()


def test_news_take_no_button_away_from_under_the_mouse(tab: Any) -> None:
    path = next(one for one in memories(tab.project) if "deploys" in one)
    tab.goto(f"{tab.here}/m/{path}")
    while not tab.server.watch._waiting:
        tab.wait_for_timeout(10)
    with tab.project.store() as store:
        file = store.directory / path
    tab.locator("main").get_by_role("button", name="Pin", exact=True).hover()
    tab.mouse.down()
    with tab.expect_response(lambda got: "x-fragment" in got.request.headers) as fresh:
        file.write_text("---\nname: deploys\n---\nNever.\n")
    fresh.value.finished()
    tab.wait_for_timeout(50)  # by then it would have been put in place
    with tab.expect_navigation():
        tab.mouse.up()
    assert pinned(tab.project) == {path}


def test_the_first_memory_of_a_home_that_was_not_there_appears_by_itself(
    browser: Any, serve: Callable[..., Server], lamina: Any, world: Path
) -> None:
    server = serve()
    tab = browser.new_page()
    tab.goto(server.url)
    tab.wait_for_url("**/p/**")
    tab.get_by_text("Nothing is remembered here yet").wait_for()
    while not server.watch._waiting:
        tab.wait_for_timeout(10)
    assert not (world / "home").exists()
    lamina("memory", "add", "Deploys never happen on Fridays")
    tab.get_by_text("Deploys never happen on Fridays").first.wait_for()
    tab.close()


def test_hostile_text_does_nothing(tab: Any) -> None:
    script = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    name = "project_<img src=x onerror=alert(3)>.md"
    with tab.project.store() as store:
        (store.directory / name).write_text(
            f"---\nname: {script}\n---\n{script}\njavascript:alert(4)\n"
        )
    for page in ("", "?q=alert", "/history", "/audit"):
        tab.goto(tab.here + page)
        assert tab.locator("img").count() == 0
    tab.goto(tab.here)
    tab.locator(".row", has_text="<script>").first.click()
    tab.wait_for_url("**/m/**")
    assert "<script>alert(1)</script>" in tab.locator("article").inner_text()
