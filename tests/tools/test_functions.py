"""Host tools from functions, and the check of any tool's input."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import UsageError
from lamina.messages import Json
from lamina.ports import NoSession, Tool, ToolContext, ToolOutcome
from lamina.tools.functions import tool
from lamina.tools.registry import Toolbox, builtin_tools, problems

if TYPE_CHECKING:
    from tests.tools.conftest import Bench

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F7")]


class Colour(enum.Enum):
    red = "red"
    blue = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


@tool(clearable=True, read_only=True, threshold=9)
def weather(
    city: str, days: Annotated[int, "how many days"] = 1, unit: Literal["C", "F"] = "C"
) -> str:
    """Says how the weather will be.

    Args:
        city: where,
            with country
        unit: of temperature

    Returns:
        A sentence.
    """
    return f"{city} {days} {unit}"


async def run(bench: Bench, made: Tool, **given: Any) -> ToolOutcome:
    return await Toolbox([made]).run(made.spec.name, given, bench.context)


async def test_hints_and_docstring_become_what_the_model_is_told(bench: Bench) -> None:
    spec = weather.spec
    assert (spec.name, spec.description) == ("weather", "Says how the weather will be.")
    assert (spec.clearable, spec.read_only, spec.threshold, spec.parallel) == (True, True, 9, True)
    properties = spec.input_schema["properties"]
    assert properties["city"] == {"type": "string", "description": "where, with country"}
    assert properties["days"]["description"] == "how many days"
    assert properties["unit"]["enum"] == ["C", "F"]
    assert spec.input_schema["required"] == ["city"]
    jsonschema.Draft202012Validator.check_schema(spec.input_schema)
    assert (await run(bench, weather, city="Rome", days=2)).content == "Rome 2 C"


async def test_nested_values_arrive_as_their_types(bench: Bench) -> None:
    @tool
    async def paint(
        at: list[Point],
        colour: Colour,
        tags: list[str] = [],  # noqa: B006
        who: Named | None = None,
    ) -> Json:
        """Paints."""
        tags.append("new")
        assert isinstance(at[0], Point)
        return {"x": at[0].x, "colour": colour.value, "tags": tags, "who": who}

    for _ in range(2):  # a default list is fresh each time
        outcome = await run(bench, paint, at=[{"x": 3}], colour="red", who={"name": "Ann"})
        assert outcome.content == (
            '{"x": 3, "colour": "red", "tags": ["new"], "who": {"name": "Ann"}}'
        )
    bad = await run(bench, paint, at=[{"x": "3"}], colour="red")
    assert bad.is_error
    assert "`at[0].x` must be integer, not string" in str(bad.content)


async def test_the_context_is_passed_and_not_shown(bench: Bench) -> None:
    @tool
    def where(context: ToolContext) -> str:
        """Says where we are."""
        return str(context.project)

    assert where.spec.input_schema["properties"] == {}
    assert (await run(bench, where)).content == str(bench.project)


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (None, "Done."),
        ({"a": {1}}, '{"a": [1]}'),
        ([{"type": "text", "text": "x"}], [{"type": "text", "text": "x"}]),
        ([1, 2], "[1, 2]"),
        (Point(1), '{"x": 1, "y": 0}'),
        (ToolOutcome("as it is", is_error=True), "as it is"),
    ],
)
async def test_whatever_a_function_returns_becomes_a_result(
    bench: Bench, result: object, content: object
) -> None:
    @tool
    def give() -> Any:
        """Gives."""
        return result

    assert (await run(bench, give)).content == content


def test_functions_that_can_not_be_tools_are_refused_by_name() -> None:
    def silent(x: int) -> None: ...

    def untyped(x) -> None:  # pyright: ignore  # noqa: PGH003
        """Has no type."""

    def starred(*x: int) -> None:
        """Takes any number."""

    def strange(x: ToolOutcome | Point | list[Point]) -> None:
        """Has a type without a JSON form."""

    for function, word in [
        (silent, "no docstring"),
        (untyped, "has no type"),
        (starred, "name each parameter"),
        (strange, "without a JSON form"),
        (lambda: None, "can't name a tool"),
    ]:
        with pytest.raises(UsageError, match=word):
            tool(function)


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"type": "object", "required": ["a"]}, {}, "`a` is missing"),
        ({"type": ["string", "null"]}, 3, "must be string or null, not integer"),
        ({"type": "integer"}, True, "not boolean"),
        ({"type": "integer", "maximum": 3}, 4, "at most 3"),
        ({"exclusiveMaximum": 3}, 3, "below 3"),
        ({"minItems": 1}, [], "at least 1 items"),
        ({"maxItems": 1}, [1, 2], "at most 1 items"),
        ({"maxLength": 1}, "ab", "at most 1 characters"),
        ({"enum": ["a", "b"]}, "c", "one of 'a', 'b', not 'c'"),
        ({"const": 1}, True, "must be 1"),
        ({"items": {"type": "string"}}, ["a", 1], "`[1]` must be string"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "no other permitted form"),
        ({"allOf": [{"minimum": 2}]}, 1, "at least 2"),
        ({"additionalProperties": False}, {"a": 1}, "`a` is not known"),
        ({"additionalProperties": {"type": "string"}}, {"a": 1}, "`a` must be string"),
        ({"properties": {"a": False}}, {"a": 1}, "`a` is not allowed"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "string"}}}, 1, "must be string"),
        ({"$ref": "#"}, 1, "nested too deeply"),
    ],
)
def test_what_does_not_fit_is_named(schema: Json, value: object, said: str) -> None:
    assert said in "; ".join(problems(schema, value))


@pytest.mark.parametrize("schema", [{"$ref": "#/nowhere/x"}, {"$ref": "http://x"}, {"type": "new"}])
def test_what_is_not_known_is_left_to_the_tool(schema: Json) -> None:
    assert problems(schema, {"any": "thing"}) == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 700) | st.sampled_from(["", "a", "content", "x\0"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["file_path", "pattern", "command", "timeout", "todos", "status", "-A", "id"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(VALUES)
def test_the_check_agrees_with_a_complete_implementation(value: object) -> None:
    schemas = [made.spec.input_schema for made in [*builtin_tools(), weather]]
    for schema in schemas:
        complete = jsonschema.Draft202012Validator(schema)
        assert (problems(schema, value) == []) == complete.is_valid(value)


async def test_todo_replaces_and_reads_the_tasks_of_the_session(bench: Bench) -> None:
    assert "keeps no list" in await bench.error("Todo")
    kept: list[Json] = []

    class Tasks(NoSession):
        def todos(self, new: list[Json] | None) -> list[Json]:
            if new is not None:
                kept[:] = new
            return kept

    bench.context.session = Tasks()
    assert await bench.text("Todo") == "There are no tasks."
    tasks = [{"content": "one", "status": "completed"}, {"content": "two", "status": "in_progress"}]
    assert await bench.text("Todo", todos=tasks) == "[x] one\n[>] two"
    assert kept == tasks
    assert await bench.text("Todo") == "[x] one\n[>] two"
    assert "must be one of" in await bench.error("Todo", todos=[{"content": "x", "status": "done"}])


async def test_expand_shows_a_span_in_bounded_parts(bench: Bench) -> None:
    assert "Nothing is folded" in await bench.error("Expand", id="a")
    long = "".join(chr(97 + n % 26) for n in range(100_000))
    spans = {"a": "".join(f"line {n}\n" for n in range(1, 1_001)), "long": long}

    class Spans(NoSession):
        def expand(self, name: str) -> str:
            return spans[name]

    bench.context.session = Spans()
    shown = await bench.text("Expand", id="a", offset=10, limit=2)
    assert shown == "line 10\nline 11\n[Up to line 11 of 1000; continue with offset 12.]"
    assert (await bench.text("Expand", id="a")).count("\n") == 500
    assert await bench.text("Expand", id="a", search="LINE 77", offset=700) == "\n".join(
        f"line {n}" for n in range(770, 780)
    )
    assert "No line with 'q'" in await bench.text("Expand", id="a", search="q")
    pieces = [
        await bench.text("Expand", id="long", offset=1, column=column)
        for column in (1, 40_001, 80_001)
    ]
    assert "continue with offset 1 and column 40001." in pieces[0]
    assert "".join(piece.split("\n")[0] for piece in pieces) == long
    assert "KeyError" in await bench.error("Expand", id="unknown")
