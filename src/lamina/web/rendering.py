"""How a page becomes HTML: templates that escape whatever is put into them, so that text of memories
and sessions stays text, and the filters that they use. Reads the templates of this package.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lamina.cache.prices import money_text
from lamina.cli.memory_history import to_you
from lamina.cli.terminal import harmless, plural

LONGEST = 60_000  # characters of one text that a page shows; the rest is a link away
_LINES = 400  # of a diff
_NOT_SAID = ("--- /dev/null", "+++ /dev/null", "@@ -0,0")
_KINDS = {"+": "add", "-": "del", "@": "at"}


def url(*parts: str, **query: object) -> str:
    """An address of ours; only the slashes of a memory's path stay as they are."""
    path = "/" + "/".join(quote(part, safe="/", errors="surrogateescape") for part in parts)
    pairs = [f"{key}={quote(str(value), safe='')}" for key, value in query.items() if value]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


def render(template: str, values: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    made: Any = Environment(
        loader=PackageLoader("lamina.web"), autoescape=True, undefined=StrictUndefined,
        finalize=_visible, trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    made.filters |= {
        "when": when, "day": partial(when, day_only=True), "line": one_line, "diff": diff_lines,
        "you": to_you, "money": money_text, "plural": plural, "figure": "{:,}".format, "share": "{:.0%}".format,
    }  # fmt: skip
    made.globals["url"] = url
    return made


def _visible(value: object) -> object:
    """Control characters are seen instead of steering anything."""
    return harmless(value) if type(value) is str else value


# ---- filters


def when(moment: float, *, day_only: bool = False) -> Markup:
    """A time that a person takes in at a glance; the exact one is in its title."""
    if not moment:
        return Markup("–")
    local = time.localtime(moment)
    exact = time.strftime("%Y-%m-%d %H:%M", local)
    if time.strftime("%Y-%m-%d") == exact[:10]:
        words = "today" if day_only else exact[11:]
    elif abs(time.time() - moment) < 300 * 86_400:
        date = f"{local.tm_mday} {time.strftime('%b', local)}"
        words = date if day_only else f"{date}, {exact[11:]}"
    else:
        words = exact[:10]
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z", local)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(stamp, exact, words)


def one_line(value: str, most: int = 240) -> str:
    """One line of a text; the page cuts it to the room that there is."""
    words = " ".join(value[: 4 * most].split())
    return words if len(words) <= most and len(value) <= 4 * most else words[:most] + "…"


def diff_lines(words: str) -> Iterator[tuple[str, str]]:
    """A unified diff by lines: the kind and the text; a file is named once."""
    rows = words.splitlines()
    file = ""
    for row in rows[:_LINES]:
        if not row.startswith(_NOT_SAID):
            named = row[6:] if row.startswith(("--- a/", "+++ b/")) else ""
            kind = "file" if named else _KINDS.get(row[:1], "same")
            if not named or named != file:
                yield kind, named or row[:2_000]
            file = named or file
    if rows[_LINES:]:
        yield "at", f"… {len(rows) - _LINES:,} more lines"
