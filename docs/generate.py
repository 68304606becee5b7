"""Writes the pages that are generated from tables: docs/settings.md, docs/commands.md, docs/events.md,
docs/api.md, the drawings, and the copy of turn.py in docs/architecture.md.

`make docs` runs it; a test compares its pages with the committed ones. Writes those files.
"""

# ruff: noqa: INP001 - a script, not a package
from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_PROJECT_MAY = {"set": "yes", "lower": "only lower", "switch off": "only off", "nothing": "no"}
NOTE = "<!-- Made by docs/generate.py; change the table in the code instead. -->\n"


# ---- settings


def _switches() -> str:
    from lamina.config import FLAGS

    rows = [(name, row.name) for name, row in FLAGS.items() if name != row.name]
    return "\n".join(f"| `{name}` | `{setting}` |" for name, setting in rows)


def settings_page() -> str:
    from lamina.config import KEYS, MANAGED, SETTINGS
    from lamina.flags import DOMAIN

    groups: dict[str, list[str]] = {}
    for row in SETTINGS:
        group = row.name.partition(".")[0] if "." in row.name else "general"
        by_key = f"`{json.dumps(row.default, ensure_ascii=False)}`"
        default = row.default_text or by_key
        limits = _limits(row)
        project = _PROJECT_MAY[row.project_may]
        cells = (
            f"`{row.name}`",
            row.kind,
            default,
            row.help + limits,
            f"`{row.environment}`",
            project,
        )
        groups.setdefault(group, []).append("| " + " | ".join(map(_cell, cells)) + " |")
    head = "| setting | type | default | what | variable | project |\n|---|---|---|---|---|---|\n"
    tables = "\n".join(
        f"## {name}\n{head}" + "\n".join(rows) + "\n" for name, rows in groups.items()
    )
    keys = ", ".join(f"`{variable}`" for variable in KEYS.values())
    return f"""# Settings
{NOTE}
Settings are TOML. Of all sources that set a value, the first in this list wins:

1. managed: `{MANAGED}`
2. options of a command, or what a program passes when it opens a session
3. the environment
4. local: `.lamina/settings.local.toml` in the project, yours alone
5. project: `.lamina/settings.toml` in the project, shared
6. user: `settings.toml` in the home (`~/.lamina`, or `LAMINA_HOME`)

Lists and tables of all sources are combined. `lamina settings --explain` says where each value comes
from, `lamina settings set KEY VALUE` changes a file and keeps its comments. An unknown name or a bad
value is refused, and the error names the file. In variables, a list is JSON or separated by commas,
a table is JSON.

A file inside the project (project or local) comes with the repository, so it may set only what the
last column allows: nothing there can run, read, send or spend more than your own settings do, or hide
something of yours. If a value may only be lowered, the lower of two wins. Anything else is refused,
and the error names the setting and the file.

Keys are read only from the environment and never shown: {keys}.

Shell commands of the agent get your environment without these keys, without addresses that hold a
password (`DATABASE_URL`), and without variables whose names look like keys of other services
(`GITHUB_TOKEN`, `AWS_SECRET_ACCESS_KEY`, `*_API_KEY`, `*PASSWORD` and the like), unless the value can
be none: `WEBHOOK_PORT=8080`, `SECRET_NAME=shop-db`, a host, an address without credentials or with a
container's own (`postgres:postgres@db`). `bash.environment` lists those
that they may have: `GITHUB_TOKEN` for `gh`, `AWS_*` for `aws`. `SSH_AUTH_SOCK` is passed on, since the
agent behind it never reveals a key. Hooks are your own commands and get your
whole environment; MCP servers get `PATH`, `HOME` and a few more, and what their `env` sets.

`LAMINA_DISABLE_MEMORY=1` switches memory off, whatever the other sources say (`0` switches it on).

{tables}
## Feature flags
An OpenFeature provider (`pip install 'lamina[openfeature]'`), given as
`Session.open(flag_provider=…)` or set by the host for the domain `{DOMAIN}`, is asked for every switch
and figure of a layer when a session opens. It overrides files and environment, but not what is managed
or passed when opening. Figures have the name of their setting; the switches have short ones:

| flag | setting |
|---|---|
{_switches()}

## Claude mode
With `--claude`, or with a home that is Claude Code's directory, these are read as well, after Lamina's
own: {_claude()}. Lamina's own settings are then in `lamina/settings.toml` there.
"""


def _limits(row: Any) -> str:
    if row.choices:
        return " One of " + ", ".join(f"`{choice}`" for choice in row.choices) + "."
    if isfinite(row.least) and isfinite(row.most):
        return f" From {_number(row.least)} to {_number(row.most)}."
    if isfinite(row.least) and row.least:
        return f" At least {_number(row.least)}."
    return ""


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) or not value.is_integer() else f"{int(value):,}"


def _claude() -> str:
    from lamina.config.layers import CLAUDE_KEYS, CLAUDE_VARIABLES
    from lamina.config.load import CLAUDE_DISABLE_MEMORY

    mapped = [*CLAUDE_KEYS.items(), *CLAUDE_VARIABLES.items()]
    mapped.append((CLAUDE_DISABLE_MEMORY, "memory.enabled"))
    return ", ".join(f"`{theirs}` ({ours})" for theirs, ours in mapped)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# ---- commands


def commands_page() -> str:
    from lamina.cli.main import build_parser

    parts = [
        f"""# Commands
{NOTE}
Exit codes: 0 done, 1 failed, 2 usage error, 3 refused by the gate or a permission, or kept
for review, 130 interrupted.
`lamina chat -p` exits with 3 if the last tool call, or the last wish to remember or forget, was
refused or waits in the inbox (the answer, or stderr, says so with the command that saves it), and
with 1 if there was no answer: no model, and no rule that could help.
A search that finds nothing is done (0); `lamina sessions grep` exits with 1 then, as grep does.
`lamina ui`, `gateway`, `team serve`, `agents start` and `mcp --http` serve until Ctrl-C, which is
their end, not an interruption: 0.
Errors are one sentence on stderr. Results are on stdout, with `--json` as JSON. Colours are used only
on a terminal, and not with `NO_COLOR`.

Every command takes:

{_options(build_parser(), common=True)}
"""
    ]
    parts += _commands(build_parser(everything=True), 1)
    return "\n".join(parts)


def _commands(parser: argparse.ArgumentParser, depth: int) -> Iterator[str]:
    for action in parser._actions:  # noqa: SLF001 - argparse offers no other way
        if not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            continue
        for child in action.choices.values():
            options = _options(child, common=False)
            heading = "#" * (depth + 1) + f" {child.prog}\n{child.description}\n"
            epilog = (child.epilog or "").partition("\n")[2]
            examples = "\n".join(line.removeprefix("  ") for line in epilog.splitlines())
            yield (
                heading
                + (f"\n{options}\n" if options else "")
                + (f"\n```\n{examples}\n```\n" if examples else "")
            )
            yield from _commands(child, depth + 1)


def _options(parser: argparse.ArgumentParser, *, common: bool) -> str:
    from lamina.cli.options import COMMON

    rows: list[str] = []
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):  # noqa: SLF001
            continue
        if (action.dest in COMMON) != common:
            continue
        name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
        if action.option_strings and action.nargs != 0:
            name += f" {action.metavar or action.dest.upper()}"
        rows.append(f"| `{name}` | {_cell(action.help or '')} |")
    return "\n".join(["| argument | what |", "|---|---|", *rows]) if rows else ""


# ---- events


def events_page() -> str:
    from lamina.events import EVENTS

    rows: list[str] = []
    for kind, cls in EVENTS.items():
        fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(cls)) or "none"
        said = " ".join((cls.__doc__ or "").split())
        rows.append(f"| `{kind}` | {_cell(said)} | {fields} |")
    table = "\n".join(["| kind | what | fields |", "|---|---|---|", *rows])
    return f"""# Events
{NOTE}
What a session reports: `reply.events` in the library, one JSON object per line from
`lamina chat -p … --stream-json`. Each object has its `kind` and the fields below.

{table}
"""


# ---- architecture


def architecture_page() -> str:
    """The page as it is, with turn.py as it is now."""
    page = (HERE / "architecture.md").read_text("utf-8")
    before, _, rest = page.partition("<!-- turn.py -->")
    _, _, after = rest.partition("<!-- end -->")
    code = (HERE.parent / "src" / "lamina" / "turn.py").read_text("utf-8").strip()
    return f"{before}<!-- turn.py -->\n```python\n{code}\n```\n<!-- end -->{after}"


# ---- what can be imported


def api_page() -> str:
    """The public names of `lamina` with their signatures and the first paragraph on each."""
    import inspect

    import lamina

    parts = [f"# Python interface\n{NOTE}"]
    for name in sorted(lamina.__all__, key=str.lower):
        value = getattr(lamina, name)
        said = inspect.getdoc(value) or ""
        if not callable(value) or said == inspect.getdoc(type(value)):
            continue
        words = said.split("\n\n")[0]
        parts.append(f"## {name}\n" + (f"\n{words}\n" if words else ""))
        methods = [
            f"- `{one}`: {' '.join((inspect.getdoc(member) or '').split(chr(10) * 2)[0].split())}"
            for one, member in inspect.getmembers(value)
            if inspect.isclass(value) and not one.startswith("_") and inspect.isfunction(member)
            if member.__doc__
        ]
        parts += ["\n".join(methods) + "\n"] if methods else []
    return "\n".join(parts)


# ---- drawings: what goes into a layer, what comes out, and what it keeps

DRAWN = {
    1: ("a large tool result", "a preview with a path", "the whole result, in a file"),
    2: ("results of long ago", "one line with an id", "every byte, in the ledger"),
    3: ("the running session", "notes in ten sections", "summary.md beside the session"),
    4: ("a view near its limit", "a summary, then the end", "the whole history, in the ledger"),
    5: ("what you said", "memories, or the inbox", "topic files and MEMORY.md"),
    6: ("memories of many sessions", "fewer, truer memories", "each change as a commit"),
    7: ("a task", "a result, or a message", "its own ledger and memories"),
}
_STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#1c2b2b;text-anchor:middle}"
    "rect{fill:#e6f2f1;stroke:#2a8a82;stroke-width:1.5}path{stroke:#2a8a82;stroke-width:2;fill:none}"
    ".l{font-weight:600;fill:#fff}.m{fill:#2a8a82}.s{font-size:12px;fill:#2a8a82}"
    "@media(prefers-color-scheme:dark){text{fill:#dcebea}rect{fill:#17302e}.m{fill:#2a8a82}.s{fill:#5cc9bd}}"
)


def drawing(layer: int) -> str:
    into, out, kept = DRAWN[layer]

    def box(x: int, y: int, words: str, kind: str = "") -> str:
        mark, label = (' class="m"', ' class="l"') if kind else ("", "")
        return (
            f'<rect{mark} x="{x}" y="{y}" width="240" height="44" rx="8"/>'
            f'<text{label} x="{x + 120}" y="{y + 27}">{words}</text>'
        )

    tip = "l-8,-5 m8,5 l-8,5"
    lines = f"M250,32 H318 {tip} M560,32 H628 {tip} M440,54 V92 l-5,-8 m5,8 l5,-8"
    told = "".join(
        f'<text class="s" x="{x}" y="{y}">{word}</text>'
        for x, y, word in ((284, 24, "in"), (594, 24, "out"), (468, 78, "keeps"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 146" role="img">'
        f"<title>Layer {layer}. In: {into}. Out: {out}. It keeps: {kept}.</title>"
        f"<style>{_STYLE}</style>{box(10, 10, into)}{box(320, 10, f'layer {layer}', 'm')}"
        f'{box(630, 10, out)}{box(320, 94, kept)}<path d="{lines}"/>{told}</svg>\n'
    )


PAGES: dict[str, Callable[[], str]] = {
    "api.md": api_page,
    **{f"img/layer-{n}.svg": partial(drawing, n) for n in DRAWN},
    "settings.md": settings_page,
    "commands.md": commands_page,
    "events.md": events_page,
    "architecture.md": architecture_page,
}


def main() -> int:
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), "utf-8")
        sys.stdout.write(f"docs/{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
