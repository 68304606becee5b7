"""Tells a tool's manual from a warning about it: an agent that uses a tool knows how to call it, but
not what went wrong with it last time. Pure functions of a memory's own words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lamina.recall.words import terms

_WARNING = re.compile(
    r"\b(?:warn\w*|gotchas?|pitfalls?|caveats?|bugs?|broken|breaks?|fail\w*|avoid|never|don'?t|"
    r"do not|must not|known issues?|careful|beware|trap|quirks?|limitations?|workarounds?|flaky|"
    r"crash\w*|hangs?|wrong|danger\w*|deprecated|instead of)\b"
    r"|注意|警告|避免|不要|禁止|陷阱|问题|失败|バグ|注意点|禁止|失敗|避け",
    re.IGNORECASE,
)
_MANUAL = re.compile(
    r"\b(?:manual|usage|how to (?:use|call|run)|reference|cheat ?sheet|api|docs?|documentation|"
    r"guide|options|flags|parameters|arguments|syntax|commands)\b|用法|手册|说明|使い方|手順",
    re.IGNORECASE,
)
# Servers prefix their tools: mcp__github__create_issue is the tool "create issue" of "github".
_PREFIX = re.compile(r"^mcp__")


def tool_terms(tools: Iterable[str]) -> list[frozenset[str]]:
    """The terms that name each tool; a server's tool also counts under the server's name."""
    named: set[frozenset[str]] = set()
    for tool in tools:
        bare = _PREFIX.sub("", tool)
        parts = bare.split("__") if bare != tool else [bare]
        for part in (bare, *parts):
            if found := frozenset(terms(part)):
                named.add(found)
    return sorted(named, key=sorted)


def is_manual(
    name: str, description: str, type_: str | None, tools: Iterable[frozenset[str]]
) -> bool:
    """Whether the memory only says how to use one of these tools. A warning always stays."""
    heading = f"{name} {description}"
    if _WARNING.search(heading) or type_ in ("user", "feedback"):
        return False
    if not _MANUAL.search(heading):
        return False
    about = frozenset(terms(heading))
    return any(tool <= about for tool in tools)
