"""What a host adds by the port for the web, and skills."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lamina.messages import Json
from lamina.ports import Tool, ToolOutcome
from lamina.tools.functions import web_fetch, web_search
from lamina.tools.memory_tools import SkillTool, find_skills
from lamina.tools.registry import Toolbox

if TYPE_CHECKING:
    from tests.tools.conftest import Bench

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F7")]


async def run(bench: Bench, made: Tool, **given: str) -> ToolOutcome:
    return await Toolbox([made]).run(made.spec.name, dict(given), bench.context)


async def test_the_hosts_search_becomes_a_tool_whose_results_may_be_cleared(bench: Bench) -> None:
    asked: list[str] = []

    async def search(query: str) -> list[Json]:
        asked.append(query)
        return [
            {"title": f"Hit {n}", "url": f"https://x/{n}", "snippet": "a\n b"} for n in range(30)
        ]

    made = web_search(search)
    assert (made.spec.name, made.spec.clearable, made.spec.read_only) == ("WebSearch", True, False)
    shown = str((await run(bench, made, query="lamina")).content)
    assert asked == ["lamina"]
    assert shown.startswith("Hit 0 <https://x/0>\na b\n\nHit 1")
    assert shown.count("https://") == 20
    assert (await run(bench, made, query=" ")).is_error
    assert (await run(bench, web_search(lambda _: ""), query="x")).content == "Nothing was found."
    assert (await run(bench, web_search(lambda _: "text"), query="x")).content == "text"


async def test_the_hosts_fetch_becomes_a_tool_with_bounded_pages(bench: Bench) -> None:
    made = web_fetch(lambda url: url + "x" * 200_000)
    assert (made.spec.name, made.spec.clearable) == ("WebFetch", True)
    shown = str((await run(bench, made, url="https://example.org/a")).content)
    assert len(shown) < 100_100
    assert "more characters" in shown


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://x", "x", "http://", "http://me:pw@host/", "http://[bad"]
)
async def test_what_is_no_web_address_never_reaches_the_host(bench: Bench, url: str) -> None:
    def never(url: str) -> str:
        raise AssertionError(url)

    outcome = await run(bench, web_fetch(never), url=url)
    assert outcome.is_error
    assert "AssertionError" not in str(outcome.content)


async def test_skills_are_listed_and_loaded_when_called(bench: Bench) -> None:
    for place, name, text in [
        ("user", "review", "---\nname: review\ndescription: How to review\n---\nLook twice.\n"),
        ("user", "plain", "No frontmatter.\n"),
        ("project", "review", "---\ndescription: Ours\n---\nLook thrice.\n" + "x" * 50_000),
    ]:
        folder = bench.root / place / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(text)
    skills = find_skills([bench.root / "user", bench.root / "project", bench.root / "missing"])
    assert [(skill.name, skill.description) for skill in skills] == [
        ("plain", ""),
        ("review", "Ours"),
    ]
    made = SkillTool(skills)
    assert "- review: Ours" in made.spec.description
    assert not made.spec.clearable
    outcome = await run(bench, made, name="review")
    assert str(outcome.content).startswith("Look thrice.")
    assert "[… cut here]" in str(outcome.content)
    assert outcome.meta["skill"] == "review"
    assert "must be one of 'plain', 'review'" in str((await run(bench, made, name="x")).content)
    (bench.root / "user/plain/SKILL.md").unlink()
    assert "can't be read" in str((await run(bench, made, name="plain")).content)
