"""Path patterns of rules and excludes: `**`, `*`, `?`, `[a-z]`, `{a,b}`; matched in linear time.

Pure. Patterns may come from a cloned repository, so RE2 matches them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

_MOST = 1_000  # characters of a pattern


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether any pattern matches the whole path; one without "/" matches the last part anywhere."""
    return any(_matches(path, pattern) for pattern in patterns)


def _matches(path: str, pattern: str) -> bool:
    pattern = pattern.strip().removeprefix("./")
    if not pattern or len(pattern) > _MOST:
        return False
    if pattern.endswith("/"):
        pattern += "**"
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    return _compiled(pattern).fullmatch(path) is not None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> Any:
    import re2

    options: Any = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(translate(pattern), options)  # pyright: ignore[reportUnknownMemberType] - re2 carries no types
    except re2.error:  # pyright: ignore[reportUnknownMemberType] - re2 carries no types
        return re.compile(re.escape(pattern))  # a pattern that makes no sense matches itself only


def translate(pattern: str) -> str:
    """The pattern as a regular expression over the whole path."""
    out: list[str] = ["(?s)"]
    at = depth = 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            out.append("(?:.*/)?")
            at += 3
            continue
        if pattern.startswith("**", at):
            out.append(".*")
            at += 2
            continue
        close = pattern.find("]", at + 2) if char == "[" else -1
        if close > 0:
            inside = pattern[at + 1 : close].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"[{'^' + inside[1:] if inside[0] in '!^' else inside}]")
            at = close + 1
            continue
        piece, depth = _one(char, depth)
        out.append(piece)
        at += 1
    return "".join(out) + ")" * depth


def _one(char: str, depth: int) -> tuple[str, int]:
    if char == "{":
        return "(?:", depth + 1
    if char == "}" and depth:
        return ")", depth - 1
    if char == "," and depth:
        return "|", depth
    return {"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char), depth
