"""The toolbox: check, permission, run; every failure is a result, only cancellation passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from lamina.errors import ToolError, UsageError
from lamina.events import PermissionRefused, Warned
from lamina.messages import Json
from lamina.ports import Decision, ToolContext, ToolOutcome, ToolSpec
from lamina.tools.registry import Toolbox, builtin_tools

if TYPE_CHECKING:
    from tests.tools.conftest import Bench

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F7")]


class Breaks:
    """A host's tool that fails in the way that it is told."""

    spec = ToolSpec("Breaks", "Fails.", {"type": "object", "required": ["how"]})

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:
        if input["how"] == "tool":
            raise ToolError("It can't be done here.")
        if input["how"] == "hang":
            await anyio.sleep_forever()
        raise ValueError("first line\nsecond line " + "x" * 1_000)


async def test_an_unknown_tool_is_answered_with_the_known_ones(bench: Bench) -> None:
    assert "There is no tool called 'Raed'. Tools: Read, " in await bench.error("Raed")


async def test_input_that_does_not_fit_never_reaches_tool_or_permission(bench: Bench) -> None:
    async def never(spec: ToolSpec, input: Json, context: ToolContext) -> Decision:
        raise AssertionError

    bench.context.permit = never
    sentence = await bench.error("Read", path="x", limit="all")
    assert "`file_path` is missing" in sentence
    assert "`path` is not known" in sentence
    assert "`limit` must be integer, not string" in sentence


async def test_a_refusal_is_a_result_and_an_event(bench: Bench) -> None:
    async def refuse(spec: ToolSpec, input: Json, context: ToolContext) -> Decision:
        return Decision(allow=False, reason="rule Write(**) denies it.")

    bench.context.permit = refuse
    assert "rule Write(**)" in await bench.error("Write", file_path="a", content="x")
    assert bench.events == [PermissionRefused("Write", "rule Write(**) denies it.")]
    assert not (bench.project / "a").exists()


async def test_the_permission_sees_the_path_that_will_be_opened(bench: Bench) -> None:
    asked: list[str] = []

    async def look(spec: ToolSpec, input: Json, context: ToolContext) -> Decision:
        asked.append(input["file_path"])
        return Decision(allow=False)

    (bench.project / "link").symlink_to("/etc")
    bench.context.permit = look
    await bench.error("Read", file_path="../project/link/passwd")
    assert asked == ["/etc/passwd"]


async def test_a_tool_that_breaks_gives_one_sentence_and_an_event(bench: Bench) -> None:
    bench.toolbox.add(Breaks())
    assert await bench.error("Breaks", how="tool") == "It can't be done here."
    assert bench.events == []
    sentence = await bench.error("Breaks", how="value")
    assert sentence.startswith("Breaks failed: ValueError: first line second line")
    assert len(sentence) < 600
    assert bench.events == [Warned(sentence)]


async def test_cancellation_passes_through(bench: Bench) -> None:
    bench.toolbox.add(Breaks())
    with anyio.move_on_after(0) as scope:
        await bench.run("Breaks", how="hang")
    assert scope.cancelled_caught
    assert bench.events == []


async def test_two_tools_can_not_share_a_name(bench: Bench) -> None:
    with pytest.raises(UsageError, match="Two tools are called Read"):
        bench.toolbox.add(builtin_tools()[0])


async def test_specs_say_what_the_layers_need_to_know() -> None:
    specs = {spec.name: spec for spec in Toolbox(builtin_tools()).specs()}
    thresholds = {name: spec.threshold for name, spec in specs.items()}
    assert thresholds == {
        "Read": 0,
        "Bash": 30_000,
        "Grep": 20_000,
        **dict.fromkeys(("Write", "Edit", "Glob", "Todo", "Expand", "Snip")),
    }
    assert all(specs[name].clearable for name in ("Read", "Write", "Edit", "Bash", "Grep", "Glob"))
    assert [spec.name for spec in specs.values() if spec.read_only] == [
        "Read",
        "Grep",
        "Glob",
        "Expand",
    ]
