"""Agent types from files: what they may say, whose word counts, and what is wrong with bad ones."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.sessions import Place

from lamina.agents.states import narrowed
from lamina.agents.types import AgentTypes, BadType, Trust, load_types
from lamina.config import Config, load
from lamina.errors import UsageError
from lamina.ports import Tool, ToolSpec
from lamina.tools.registry import Toolbox, builtin_tools

TOOLS = ("Read", "Write", "Grep", "Glob", "Bash", "Todo", "Agent")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def write(folder: Path, file: str, *lines: str, body: str = "Be thorough.") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    path.write_text("\n".join(["---", *lines, "---", body, ""]))
    return path


def settings(place: Place, **values: object) -> Config:
    return load(place.project, home=place.home, overrides=values)


def types(place: Place) -> AgentTypes:
    return load_types(settings(place), TOOLS)


@pytest.mark.spec("L7.2")
def test_a_type_of_the_home_says_everything_about_its_agents(place: Place) -> None:
    write(
        place.home / "agents",
        "reviewer.md",
        "name: reviewer",
        "description: Reads changes and finds mistakes",
        "tools: [Read, Grep]",
        "model: anthropic:claude-haiku-4-5",
        "memory: project",
        "plan: true",
        "max_calls: 12",
        "max_minutes: 2.5",
        "max_dollars: 0.4",
    )
    one = types(place).get("reviewer")
    assert (one.tools, one.model, one.memory) == (
        ("Read", "Grep"),
        "anthropic:claude-haiku-4-5",
        "project",
    )
    assert (one.plan, one.max_calls, one.max_minutes, one.max_dollars) == (True, 12, 2.5, 0.4)
    assert one.prompt == "Be thorough."


@pytest.mark.spec("L7.2")
def test_a_type_whose_model_nobody_offers_is_none(place: Place) -> None:
    head = ("name: a", "description: d", "model: nobody:x")
    path = write(place.home / "agents", "a.md", *head)
    with pytest.raises(BadType, match=r"model must be anthropic:NAME, openai:NAME, .*'nobody:x'"):
        types(place).get("a")
    path.unlink()
    write(place.project / ".claude" / "agents", "a.md", *head)
    assert types(place).get("a").model == "", "another tool's names are its own"


@pytest.mark.spec("L7.2")
def test_lists_of_tools_are_read_in_each_of_the_usual_forms(place: Place) -> None:
    folder = place.home / "agents"
    head = "description: d"
    write(folder, "a.md", "name: a", head, "tools: Read, Grep")
    write(folder, "b.md", "name: b", head, "tools:", "  - Read", "  - Grep")
    write(folder, "c.md", "name: c", head, 'tools: ["Read", "Grep"]')
    found = types(place)
    assert {found.get(name).tools for name in "abc"} == {("Read", "Grep")}


@pytest.mark.spec("L7.2")
@pytest.mark.parametrize("value", ["[]", "", '""'])
def test_a_list_of_no_tools_means_none(place: Place, value: str) -> None:
    write(place.home / "agents", "a.md", "name: a", "description: d", f"tools: {value}")
    write(place.home / "agents", "b.md", "name: b", "description: d")
    found, box = types(place), Toolbox(builtin_tools())
    assert found.get("a").tools == ()
    assert list(narrowed(box, found.get("a"))) == []
    assert len(list(narrowed(box, found.get("b")))) > 3


@pytest.mark.spec("L7.2")
@pytest.mark.parametrize("key", ["model", "base_url", "hooks", "permissions", "permissionMode"])
def test_a_file_of_the_project_may_not_set_what_spends_or_widens(place: Place, key: str) -> None:
    path = write(
        place.project / ".lamina" / "agents", "a.md", "name: a", "description: d", f"{key}: x"
    )
    with pytest.raises(BadType, match=f"may not set {key}") as caught:
        types(place).get("a")
    assert str(path) in str(caught.value)


@pytest.mark.spec("L7.2")
def test_another_tool_s_file_is_taken_without_what_we_don_t_have(place: Place) -> None:
    write(
        place.project / ".claude" / "agents",
        "a.md",
        "name: a",
        "description: d",
        "tools: Read, NotebookEdit, TodoWrite",
        "model: opus",
        "color: red",
    )
    denies = ("name: b", "description: d", "disallowedTools: Bash(rm:*), Write")
    write(place.project / ".claude" / "agents", "b.md", *denies)
    found = types(place)
    has = {tool.spec.name for tool in narrowed(Toolbox(builtin_tools()), found.get("b"))}
    assert "Read" in has
    assert not {"Bash", "Write"} & has  # what such a file denies stays denied
    assert found.get("a").tools == ("Read", "Todo")
    assert found.get("a").model == ""
    assert any("NotebookEdit" in warning for warning in found.warnings)
    assert any("model was left out" in warning for warning in found.warnings)


@pytest.mark.spec("L7.2")
def test_what_another_tool_s_file_denies_by_its_own_names_is_denied_too(place: Place) -> None:
    denied = "disallowedTools: Task, MultiEdit, TodoWrite, mcp__shop, mcp__post__*"
    write(place.project / ".claude" / "agents", "b.md", "name: b", "description: d", denied)
    kind = types(place).get("b")
    specs = [ToolSpec(f"mcp__{one}__go", "d", {}) for one in ("shop", "post", "shops")]
    box = Toolbox([*builtin_tools(), *(cast("Tool", SimpleNamespace(spec=s)) for s in specs)])
    has = {tool.spec.name for tool in narrowed(box, kind)}
    assert {"Read", "Write", "mcp__shops__go"} <= has
    assert not {"Edit", "Todo", "mcp__shop__go", "mcp__post__go"} & has
    assert "Agent" in kind.without


@pytest.mark.spec("L7.2")
@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("name: bad", "description: d", "tools: Read, Fly"), "tools that don't exist: Fly"),
        (("name: bad",), "has no description"),
        (("name: two words", "description: d"), "can't be the name"),
        (("name: fork", "description: d"), "can't be the name"),
        (("name: bad", "description: d", "memory: team"), "memory must be"),
        (("name: bad", "description: d", "max_calls: many"), "max_calls must be a number"),
        (("name: bad", "description: d", "tols: Read"), "sets tols, which is not known"),
    ],
)
def test_a_bad_file_is_a_sentence_that_names_it(
    place: Place, lines: tuple[str, ...], why: str
) -> None:
    path = write(place.home / "agents", "bad.md", *lines)
    with pytest.raises(BadType, match=why) as caught:
        types(place).get("bad")
    assert str(path) in str(caught.value)
    assert types(place).get("general")  # the others are there


@pytest.mark.spec("L7.2")
def test_two_of_one_name_are_none_and_a_project_s_never_takes_the_user_s_place(
    place: Place,
) -> None:
    write(place.home / "agents", "one.md", "name: same", "description: first")
    write(place.home / "agents", "two.md", "name: same", "description: second")
    with pytest.raises(BadType, match="both the agent type 'same'"):
        types(place).get("same")
    write(place.home / "agents", "mine.md", "name: mine", "description: my own")
    write(place.project / ".lamina" / "agents", "mine.md", "name: mine", "description: not mine")
    found = types(place)
    assert found.get("mine").description == "my own"
    assert any("is left out" in why for why in found.bad.values())


@pytest.mark.spec("L7.2")
def test_types_that_start_each_other_for_ever_and_links_in_a_circle_are_named(
    place: Place,
) -> None:
    folder = place.home / "agents"
    write(folder, "a.md", "name: a", "description: d", "agents: b")
    write(folder, "b.md", "name: b", "description: d", "agents: a")
    (folder / "circle.md").symlink_to(folder / "circle.md")
    os.mkfifo(folder / "pipe.md")  # to open it would wait for ever
    with pytest.raises(BadType, match=r"pipe\.md is no file"):
        types(place).get("pipe")
    with pytest.raises(BadType, match="a → b → a"):
        types(place).get("a")
    with pytest.raises(BadType, match="Can't read the agent type"):
        types(place).get("circle")


@pytest.mark.spec("L7.2")
def test_an_unknown_type_lists_the_known_ones(place: Place) -> None:
    with pytest.raises(UsageError, match="Types: general, explore"):
        types(place).get("nobody")


@pytest.mark.spec("L7.2")
def test_the_user_s_yes_holds_until_the_file_changes(place: Place) -> None:
    folder = place.project / ".lamina" / "agents"
    write(folder, "a.md", "name: a", "description: d")
    config = settings(place)
    trust, one = Trust(config), types(place).get("a")
    assert not trust.allows(one)
    trust.add([one.digest], lasting=False)
    assert trust.allows(one)
    assert not Trust(config).allows(one)
    trust.add([one.digest], lasting=True)
    assert Trust(config).allows(one)
    write(folder, "a.md", "name: a", "description: d", body="Now do something else.")
    assert not Trust(config).allows(types(place).get("a"))
    assert Trust(settings(place, **{"agents.trust": True})).allows(types(place).get("a"))
    assert Trust(config).allows(types(place).get("general"))
