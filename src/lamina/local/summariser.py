"""Summaries without a model: the nine parts of a compaction and the ten sections of the notes file,
copied from what happened, within a budget, with references to the ledger.

Pure. A model may add its own words to the parts that can't be copied; it never replaces what can.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lamina.ledger import tokens
from lamina.local.session_facts import Ran, Said, SessionFacts, Touched, words_in

# (key, heading) of the nine parts.
PARTS = (
    ("request", "Request and intent"),
    ("concepts", "Concepts"),
    ("files", "Files and code"),
    ("errors", "Errors and fixes"),
    ("solving", "Problem solving"),
    ("asked", "All user messages"),
    ("tasks", "Pending tasks"),
    ("current", "Current work"),
    ("next", "Next step"),
)
# What a model may write; the other parts are the ledger's.
MODEL_PARTS = ("concepts", "solving", "current", "next")
# Of a summary of earlier messages, the last two parts tell what was done before the rest.
UP_TO_HEADINGS = {"current": "Work completed", "next": "Context for continuing"}

_CORRECTING = re.compile("no[, ]|not |do ?n[o']t|stop|instead|wrong|actually|never")
_REFERENCE = re.compile(r"\s?(\[#[^\]]*\])$")
# Shares of the budget, set by hand, in the order in which the parts are made; what one leaves over
# goes to the next. The last one takes all: names in use, as many as fit.
_SHARES = {
    "request": 0.07,
    "asked": 0.20,
    "tasks": 0.04,
    "current": 0.04,
    "next": 0.02,
    "errors": 0.10,
    "solving": 0.16,
    "concepts": 0.07,
    "files": 0.30,
}
_HEADINGS_COST = 70  # tokens
_TOLD = 8  # commands, the last ones, whose outcome a summary tells


def nine_parts(
    what: SessionFacts,
    *,
    budget: int,
    model: Mapping[str, str] | None = None,
    up_to: bool = False,
    kept: str = "",
) -> str:
    """The summary: each part copied, or the model's words where only those serve. Names that stand
    in what is `kept` beside it are not listed again."""
    made = {
        "request": _request,
        "concepts": _concepts,
        "errors": _errors,
        "solving": _solving,
        "asked": _asked,
        "tasks": _tasks,
        "current": _current,
        "next": _next,
    }
    bodies: dict[str, str] = {}
    used: dict[str, int] = {}
    spare = -_HEADINGS_COST
    for key in [*_SHARES, "solving"]:  # what is left at last goes to the agent's own words
        room = (used[key] if key in used else int(budget * _SHARES[key])) + spare
        own = (model or {}).get(key, "").strip() if key in MODEL_PARTS else ""
        if key == "files":
            shown = _kept_words(kept) | words_in("\n".join(bodies.values()))
            body = _files(what, room, shown)
        else:
            body = "" if own and key == "next" else made[key](what, room)
        used[key] = tokens.of_text(body)
        spare = room - used[key]
        if own:  # a model's words come first, what is copied stays
            body = "\n".join(part for part in (_fit([own], budget // 4), body) if part)
        bodies[key] = body
    lines: list[str] = []
    for number, (key, heading) in enumerate(PARTS, 1):
        title = UP_TO_HEADINGS.get(key, heading) if up_to else heading
        lines.append(f"## {number}. {title}\n{bodies[key] or '(nothing)'}")
    return "\n\n".join(lines)


@lru_cache(maxsize=1)
def _kept_words(kept: str) -> frozenset[str]:
    """Of what stays in the view, whatever the summary's size."""
    return words_in(kept)


def ref(entry: str) -> str:
    """How an entry is named in a summary; `Expand` takes it."""
    return f"[#{entry[:8]}]" if entry else ""


# ---- the parts


def _request(what: SessionFacts, room: int) -> str:
    if not what.asked:
        return ""
    first, last = what.asked[0], what.asked[-1]
    lines = [f"First: {_quoted(first, room // 2)}"]
    if last is not first:
        lines.append(f"Last: {_quoted(last, room // 2)}")
    return "\n".join(lines)


def _concepts(what: SessionFacts, room: int) -> str:
    programs = list(
        dict.fromkeys(ran.command.split(" ", 1)[0] for ran in what.commands if ran.command)
    )
    lines = [f"Programs used: {', '.join(programs[:30])}"] if programs else []
    said = [m.words for m in what.mentioned.figures.values() if _telling(m.words)]
    figures = "; ".join(_fit(dict.fromkeys(said), room - 20, more=False).split("\n"))
    lines += [f"Figures: {figures}"] if figures else []
    return _fit(lines, room, joined=True)


@lru_cache(maxsize=4_096)
def _telling(words: str) -> bool:
    return any(len(word) > 2 and word.strip(",.:;()'").isalpha() for word in words.split())


def _files(what: SessionFacts, room: int, shown: frozenset[str] = frozenset()) -> str:
    """Every changed file by name, commands, then the names in use, each with its file, and what was
    changed or only read as far as it fits."""
    base = _base(list(what.files))
    newest = sorted(what.files.values(), key=lambda f: -f.order)
    changed = [file for file in newest if file.changes]
    top = [f"Paths are below {base}"] if base else []
    listed: dict[str, list[str]] = {file.path: [_named(file, base)] for file in changed}
    if _cost(top, *listed.values()) > room * 0.6:  # so many that their names alone must do
        top.append("Changed: " + ", ".join(file.path.removeprefix(base) for file in changed))
        return _fit(top, room, joined=True)
    brief = [f"- `{_shown(ran, 80)}` {ref(ran.entry)}" for ran in what.commands[:-_TOLD]]
    told = [*brief, *map(_command, what.commands[-_TOLD:])]
    commands = _fit(told, room // 2, from_end=True)
    left = room - _cost(top, *listed.values()) - tokens.of_text(commands)
    for file in changed:
        more = [f"  + {line}" for line in file.lines[-1:]]
        if _cost(more) <= left - room // 3:
            listed[file.path] += more
            left -= _cost(more)
    by_file, left = _names(what, left, {f.path: _cost([_named(f, base)]) for f in newest}, shown)
    for file in newest:
        found = by_file.pop(file.path, [])
        if found:
            listed.setdefault(file.path, [_named(file, base)]).append(f"  {', '.join(found)}")
    lines = [line for several in listed.values() for line in several]
    lines += [f"- elsewhere: {', '.join(by_file[''])}"] if by_file.get("") else []
    reads = [_named(file, base) for file in newest if file.path not in listed]
    lines += [_fit(reads, left)] if reads and left > 20 else []
    return "\n".join([*top, *lines]) + (f"\n\nCommands:\n{commands}" if commands else "")


def _names(
    what: SessionFacts, room: int, heads: Mapping[str, int], shown: frozenset[str]
) -> tuple[dict[str, list[str]], int]:
    """Names in use by their file, the likeliest to be needed again first, and the room left."""
    found: dict[str, list[str]] = {}
    left = room
    for name, mention in what.mentioned.names.items():
        if name in shown:
            continue
        path = mention.file if mention.file in heads else ""
        new = path not in found
        cost = len(name) / 4 + 0.5 + (heads.get(path, 4) + 1 if new else 0)
        if cost > left:
            break
        found.setdefault(path, []).append(name)
        left -= cost
    return found, int(left)


def _cost(*several: Iterable[str]) -> int:
    return sum(tokens.of_text(line) + 1 for lines in several for line in lines)


def _base(paths: Sequence[str]) -> str:
    """What all paths begin with, but for the last directory; "" if that saves nothing."""
    parts = [path.split("/")[:-1] for path in paths]
    if len(parts) < 2:
        return ""
    shared = 0
    while all(len(p) > shared and p[shared] == parts[0][shared] for p in parts):
        shared += 1
    base = "/".join(parts[0][: max(0, shared - 1)])
    return f"{base}/" if len(base) >= 8 else ""


def _named(file: Touched, base: str) -> str:
    path = file.path.removeprefix(base)
    if not file.changes:
        return f"- {path}: read {file.reads}× {ref(file.entry)}"
    done = "created" if file.created else f"changed {file.changes}×"
    return f"- {path}: {done} {ref(file.entry)}"


def _command(ran: Ran) -> str:
    times = f", {ran.runs} times" if ran.runs > 1 else ""
    said = f" → {ran.outcome[:80]}" if ran.outcome else ""
    return f"- `{_shown(ran, 120)}` exit {ran.exit}{times}{said} {ref(ran.entry)}"


def _shown(ran: Ran, most: int) -> str:
    return ran.command if len(ran.command) <= most else ran.command[: most - 1] + "…"


def _errors(what: SessionFacts, room: int) -> str:
    lines: list[str] = []
    for failure in what.failures:
        fix = f"; then {failure.fix}" if failure.fix else ""
        lines.append(f"- {failure.text} ({failure.about[:100]}){fix} {ref(failure.entry)}")
    return _fit(list(dict.fromkeys(lines)), room, from_end=True)


def _solving(what: SessionFacts, room: int) -> str:
    """The agent's own words at the end of each round, its remarks on the way too where there is room
    for them; newest kept longest."""
    finals = [said for said in what.answered if said.final]
    if not finals or sum(tokens.of_text(said.text) + 5 for said in finals) < room // 2:
        finals = what.answered
    if not finals:
        return ""
    each = max(60, room // len(finals))
    return _fit([f"- {_quoted(said, each)}" for said in finals], room, from_end=True)


def _asked(what: SessionFacts, room: int) -> str:
    if not what.asked:
        return ""
    whole = [f"- {_quoted(said, 10_000)}" for said in what.asked]
    if sum(map(tokens.of_text, whole)) <= room:
        return "\n".join(whole)
    each = max(40, room // len(what.asked))
    return _fit([f"- {_quoted(said, each)}" for said in what.asked], room, from_end=True)


def _tasks(what: SessionFacts, room: int) -> str:
    lines = [f"- [{status}] {task}" for status, task in what.tasks if task]
    still = [line for line in lines if not line.startswith(("- [completed]", "- [done]"))]
    return _fit(still, room)


def _current(what: SessionFacts, room: int) -> str:
    lines: list[str] = []
    if what.asked:
        lines.append(f"The user's last message: {_quoted(what.asked[-1], room // 3)}")
    if what.answered:
        lines.append(f"The agent's last words: {_quoted(what.answered[-1], room // 3)}")
    if what.changed:
        lines.append(f"Last file changed: {what.changed[-1].path}")
    if what.commands:
        lines.append(_command(what.commands[-1])[2:])
    return _fit(lines, room)


def _next(what: SessionFacts, room: int) -> str:
    """Nothing is invented: an open task, or the user's own last words."""
    if what.open_tasks:
        return _fit([f"The first open task: {what.open_tasks[0]}"], room)
    if what.asked:
        return _fit([f"Go on with what the user asked last {ref(what.asked[-1].entry)}."], room)
    return ""


# ---- the notes


def sections(what: SessionFacts, room: int = 1_500) -> dict[str, str]:
    """Bodies of the notes' sections that can be filled without a model, by their key."""
    title = what.asked[0].text.splitlines()[0][:80] if what.asked else ""
    tasks = _tasks(what, room // 2)
    corrections = [s for s in what.asked[1:] if _CORRECTING.search(s.text[:200].casefold())]
    failures = _errors(what, room // 2)
    corrected = _fit([f"- The user: {_quoted(s, 120)}" for s in corrections], room // 2)
    finals = [said for said in what.answered if said.final]
    return {
        "title": title,
        "state": _current(what, room),
        "task": _request(what, room // 2) + (f"\nOpen tasks:\n{tasks}" if tasks else ""),
        "files": _fit(
            [
                f"- {f.path}: {'created' if f.created else f'changed {f.changes}×'}"
                + (f", defines {', '.join(f.names[:8])}" if f.names else "")
                for f in reversed(what.changed)
            ]
            + [f"- {f.path}: read {f.reads}×" for f in what.files.values() if not f.changes],
            room,
        ),
        "workflow": _fit(map(_command, what.commands), room, from_end=True),
        "errors": "\n".join(part for part in (failures, corrected) if part),
        "results": _fit([f"- {_quoted(s, 200)}" for s in finals[-5:]], room, from_end=True),
        "worklog": _fit(_worklog(what), room, from_end=True),
    }


def _worklog(what: SessionFacts) -> list[str]:
    first = [(said, [*said.text.strip().splitlines(), ""][0][:120]) for said in what.asked]
    lines = [f"- asked: {line} {ref(said.entry)}" for said, line in first]
    lines += [f"- changed {f.path} {ref(f.entry)}" for f in what.changed]
    return lines


# ---- fitting


def _quoted(said: Said, room: int) -> str:
    """The words, or their beginning and end with the entry that holds them all."""
    text = " ".join(said.text.split()) if "\n" not in said.text.strip() else said.text.strip()
    most = max(40, room * 4)
    if len(text) <= most:
        return f"{text} {ref(said.entry)}"
    head, tail = text[: most * 2 // 3].rstrip(), text[-most // 3 :].lstrip()
    return f"{head} […] {tail} {ref(said.entry)}"


def _fit(
    lines: Iterable[str],
    room: int,
    *,
    from_end: bool = False,
    joined: bool = False,
    more: bool = True,
) -> str:
    """As many whole lines as the room takes; the newest when `from_end`."""
    chosen: list[str] = []
    left = max(room, 8)
    order: Sequence[str] = list(lines)
    dropped = 0
    for line in reversed(order) if from_end else order:
        cost = tokens.of_text(line) + 1
        if cost > left:
            if not chosen or joined:
                chosen.append(_excerpt(line, max(40, left * 4)))
                left = 0
            else:
                dropped += 1
            continue
        left -= cost
        chosen.append(line)
    if from_end:
        chosen.reverse()
    if dropped and more:
        chosen.append(f"({dropped} more in the record)")
    return "\n".join(chosen)


def short(what: SessionFacts, room: int = 150) -> str:
    """A few lines for one finished round."""
    lines: list[str] = []
    if what.asked:
        lines.append(f"Asked: {_quoted(what.asked[0], room // 3)}")
    if what.changed:
        lines.append("Changed: " + ", ".join(file.path for file in what.changed))
    lines += map(_command, what.commands[-3:])
    if what.answered:
        lines.append(f"Result: {_quoted(what.answered[-1], room // 2)}")
    return _fit(lines, room * 2)


def _excerpt(line: str, room: int) -> str:
    """A line cut to so many characters; the reference at its end stays whole."""
    found = _REFERENCE.search(line)
    if found is None:
        return line[:room] + "…"
    return f"{line[: found.start()][: max(20, room - len(found[1]))]}… {found[1]}"


_HEADING = re.compile(r"^# (.+?)\s*$", re.MULTILINE)

# Headings of the built-in template by the key that the local summariser fills.
KEYS = {
    "Session title": "title",
    "Current state": "state",
    "Task specification": "task",
    "Files and functions": "files",
    "Workflow": "workflow",
    "Errors and corrections": "errors",
    "Codebase and system documentation": "docs",
    "Learnings": "learnings",
    "Key results": "results",
    "Worklog": "worklog",
}


@dataclass(frozen=True, slots=True)
class Section:
    heading: str
    italic: str  # the line that says what belongs here
    body: str


def parse(text: str) -> list[Section]:
    """Sections in order; text before the first heading belongs to none."""
    marks = list(_HEADING.finditer(text))
    found: list[Section] = []
    for at, mark in enumerate(marks):
        end = marks[at + 1].start() if at + 1 < len(marks) else len(text)
        lines = text[mark.end() : end].strip("\n").split("\n")
        italic = lines[0].strip() if lines and _is_italic(lines[0].strip()) else ""
        body = "\n".join(lines[1:] if italic else lines).strip()
        found.append(Section(mark[1], italic, body))
    return found


def render(sections: list[Section]) -> str:
    parts = [
        f"# {s.heading}\n"
        + (f"{s.italic}\n" if s.italic else "")
        + (f"\n{s.body}\n" if s.body else "")
        for s in sections
    ]
    return "\n".join(parts)


def _is_italic(line: str) -> bool:
    return len(line) > 2 and line[0] == line[-1] and line[0] in "_*" and line[1] != line[0]


def same_frame(template: str, text: str) -> bool:
    """Are headings and italic lines, in order, those of the template?"""
    frame = [(s.heading, s.italic) for s in parse(template)]
    return frame == [(s.heading, s.italic) for s in parse(text)]


def empty(text: str) -> bool:
    """Nothing was noted yet."""
    return not any(section.body for section in parse(text))


def filled(template: str, bodies: Mapping[str, str]) -> str:
    """The template with bodies by key; sections without one keep what they have."""
    return render(
        [
            Section(s.heading, s.italic, (bodies.get(KEYS.get(s.heading, "")) or s.body).strip())
            for s in parse(template)
        ]
    )


def too_long(text: str, section_tokens: int, total_tokens: int) -> list[str]:
    """Sentences for the next update: what to shorten."""
    found = [
        f"The section '{s.heading}' has about {tokens.of_text(s.body):,} tokens; "
        f"shorten it below {section_tokens:,}."
        for s in parse(text)
        if tokens.of_text(s.body) > section_tokens
    ]
    total = tokens.of_text(text)
    if total > total_tokens:
        found.append(
            f"The whole file has about {total:,} tokens; shorten it below {total_tokens:,}."
        )
    return found


def shortened(text: str, section_tokens: int, total_tokens: int, path: str) -> str:
    """For a compaction: over-long sections cut, with a pointer to the file if there is a path."""
    sections, cut = parse(text), f"(cut; all of it is in {path})" if path else "(cut)"
    each = min(section_tokens, max(100, total_tokens // max(1, len(sections))))
    spare = sum(max(0, each - tokens.of_text(s.body)) for s in sections)
    result: list[Section] = []
    for section in sections:
        size = tokens.of_text(section.body)
        room = min(section_tokens, each + spare)
        if size > each:
            spare = max(0, spare - (min(size, room) - each))
        if size > room:
            body = section.body[: room * 4].rsplit("\n", 1)[0]
            section = Section(section.heading, section.italic, f"{body}\n{cut}")  # noqa: PLW2901
        result.append(section)
    return render([s for s in result if s.body])
