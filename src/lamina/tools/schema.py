"""Checks a tool's input against its JSON schema before the tool sees it, in words a model can act on.

It knows the part of JSON Schema that tools use: types, properties, required, items, enum, const,
limits, anyOf, oneOf, allOf and local references. Keywords that it does not know are left to the
tool. It touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, cast

from lamina.messages import Json

DEEPEST = 64
MOST_PROBLEMS = 8

_TYPES: dict[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}


def problems(schema: Json, value: object) -> list[str]:
    """What is wrong with the value, one sentence each; an empty list means that it fits."""
    found: list[str] = []
    for problem in _check(schema, value, "", schema, 0):
        found.append(problem)
        if len(found) == MOST_PROBLEMS:
            break
    return found


def _check(schema: object, value: object, where: str, root: Json, depth: int) -> Iterator[str]:
    if schema is False:
        yield f"{_named(where)} is not allowed"
    if not isinstance(schema, dict):
        return
    if depth > DEEPEST:
        yield f"{_named(where)} is nested too deeply"
        return
    rules = cast("Json", schema)
    if isinstance(reference := rules.get("$ref"), str):
        yield from _check(_resolve(reference, root), value, where, root, depth + 1)
    wrong_type = list(_check_type(rules, value, where))
    if wrong_type:
        yield from wrong_type
        return
    yield from _check_choice(rules, value, where, root, depth)
    if isinstance(value, dict):
        yield from _check_object(rules, cast("Json", value), where, root, depth)
    elif isinstance(value, list):
        yield from _check_array(rules, cast("list[object]", value), where, root, depth)
    elif isinstance(value, str):
        yield from _check_length(rules, value, where)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _check_number(rules, value, where)


def _check_type(rules: Json, value: object, where: str) -> Iterator[str]:
    wanted: object = rules.get("type")
    if isinstance(wanted, str):
        names = [wanted]
    elif isinstance(wanted, list):
        names = [str(name) for name in cast("list[object]", wanted)]
    else:
        return
    known = [name for name in names if name in _TYPES]
    if known and not any(_TYPES[name](value) for name in known):
        yield f"{_named(where)} must be {' or '.join(known)}, not {_type_name(value)}"


def _check_choice(rules: Json, value: object, where: str, root: Json, depth: int) -> Iterator[str]:
    choices: object = rules.get("enum")
    if isinstance(choices, list) and not any(
        _same(value, c) for c in cast("list[object]", choices)
    ):
        shown = ", ".join(_shown(choice) for choice in cast("list[object]", choices)[:20])
        yield f"{_named(where)} must be one of {shown}, not {_shown(value)}"
    if "const" in rules and not _same(value, rules["const"]):
        yield f"{_named(where)} must be {_shown(rules['const'])}, not {_shown(value)}"
    for part in _list_of(rules, "allOf"):
        yield from _check(part, value, where, root, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        options = _list_of(rules, keyword)
        if not options:
            continue
        misses = [list(_check(option, value, where, root, depth + 1)) for option in options]
        if all(misses):
            yield min(misses, key=len)[0] + " (no other permitted form fits either)"


def _check_object(rules: Json, value: Json, where: str, root: Json, depth: int) -> Iterator[str]:
    properties = cast("Json", rules.get("properties") or {})
    for name in _list_of(rules, "required"):
        if name not in value:
            yield f"{_named(_below(where, str(name)))} is missing"
    rest: object = rules.get("additionalProperties", True)
    for name, item in value.items():
        if name in properties:
            yield from _check(properties[name], item, _below(where, name), root, depth + 1)
        elif rest is False:
            known = ", ".join(properties) or "none"
            yield f"{_named(_below(where, name))} is not known (known: {known})"
        else:
            yield from _check(rest, item, _below(where, name), root, depth + 1)


def _check_array(
    rules: Json, value: list[object], where: str, root: Json, depth: int
) -> Iterator[str]:
    if len(value) < (least := _limit(rules, "minItems", 0)):
        yield f"{_named(where)} needs at least {least:g} items, and has {len(value)}"
    if len(value) > (most := _limit(rules, "maxItems", math.inf)):
        yield f"{_named(where)} may have at most {most:g} items, and has {len(value)}"
    for index, item in enumerate(value):
        yield from _check(rules.get("items", True), item, f"{where}[{index}]", root, depth + 1)


def _check_length(rules: Json, value: str, where: str) -> Iterator[str]:
    if len(value) < (least := _limit(rules, "minLength", 0)):
        yield f"{_named(where)} needs at least {least:g} characters"
    if len(value) > (most := _limit(rules, "maxLength", math.inf)):
        yield f"{_named(where)} may have at most {most:g} characters"


def _check_number(rules: Json, value: float, where: str) -> Iterator[str]:
    if value < (least := _limit(rules, "minimum", -math.inf)):
        yield f"{_named(where)} must be at least {least:g}, not {value:g}"
    if value > (most := _limit(rules, "maximum", math.inf)):
        yield f"{_named(where)} must be at most {most:g}, not {value:g}"
    if value <= (above := _limit(rules, "exclusiveMinimum", -math.inf)):
        yield f"{_named(where)} must be above {above:g}, not {value:g}"
    if value >= (below := _limit(rules, "exclusiveMaximum", math.inf)):
        yield f"{_named(where)} must be below {below:g}, not {value:g}"


def _limit(rules: Json, keyword: str, default: float) -> float:
    value: object = rules.get(keyword)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    return default


def _list_of(rules: Json, keyword: str) -> list[object]:
    value: object = rules.get(keyword)
    return cast("list[object]", value) if isinstance(value, list) else []


def _resolve(reference: str, root: Json) -> object:
    """A local reference (`#/$defs/Name`); one that leads nowhere permits anything."""
    if not reference.startswith("#"):
        return True
    found: Any = root
    for part in reference[1:].split("/")[1:]:
        if not isinstance(found, dict):
            return True
        found = cast("Json", found).get(part.replace("~1", "/").replace("~0", "~"), True)
    return found


def _same(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _named(where: str) -> str:
    return f"`{where}`" if where else "the input"


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "…"


def _type_name(value: object) -> str:
    for name, fits in _TYPES.items():
        if fits(value):
            return name
    return type(value).__name__
