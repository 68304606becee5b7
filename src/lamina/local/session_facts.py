"""What happened in a stretch of a session, copied from its entries: what was asked and answered,
files touched, commands with their outcome, failures and what fixed them, open tasks.

Pure: entries in, values out, no model. Every item names the entry that it comes from. Notes,
summaries and probes are made from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from operator import itemgetter
from typing import Any, cast

from lamina.messages import Block, Json, as_object, dicts, text_of
from lamina.text.lists import Listed

READS = ("Read", "NotebookRead")
WRITES = ("Write", "Edit", "MultiEdit", "NotebookEdit")
SHELLS = ("Bash", "Shell")
_PATH_KEYS = ("file_path", "path", "notebook_path", "filename")
_EXIT = re.compile(
    r"(?:exit code|exited with|return code|exit status)\D{0,3}(-?\d{1,3})", re.IGNORECASE
)
_BAD = Listed("finders.failure")
_DEFINED = re.compile(
    r"\b(?:def|class|func|function|fn|interface|struct|enum|trait|module|const|type|let|var)"
    r"\s+(?:\([^)]*\)\s*)?([^\W\d]\w{2,})"
)
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[A-Za-z_]\w{3,}")
_SHAPED = re.compile(r"[a-z\d][A-Z]|[^\W_]_[^\W_]")  # camelCase, snake_case
# Not a line's number, a time, a part of a version or of a hash.
_NUMBER = re.compile(r"\d(?<![\w.,:-]\d)(?:[\d,.]*\d)?(?:%|\s?[KMG]?[Bms]+)?(?![\w→\t:-])")
# How much likelier it is that what was said or done is needed again than what was only seen: chosen
# on half of the recorded compactions, where 2 to 4 did equally well.
_DONE, _SEEN = 3.0, 1.0
_MOST = 2_000  # names, and figures, of a stretch; set by hand
_WRAPPED = re.compile(r"^\s*<(system-reminder|command-|local-command|task-notification)")


@dataclass(frozen=True, slots=True)
class Said:
    """Words of the user or of the agent, and their entry."""

    text: str
    entry: str
    final: bool = True  # an answer without a tool call; remarks on the way are not


@dataclass(slots=True)
class Touched:
    """One file and what was done to it."""

    path: str
    reads: int = 0
    changes: int = 0
    created: bool = False
    entry: str = ""  # the last change, else the last read
    names: list[str] = field(default_factory=list[str])  # defined in what was written
    lines: list[str] = field(default_factory=list[str])  # first line of each change
    order: int = 0


@dataclass(slots=True)
class Ran:
    """One command; run again, its last outcome counts."""

    command: str
    exit: int | None
    outcome: str
    entry: str
    runs: int = 1


@dataclass(slots=True)
class Failure:
    text: str  # the line that says what went wrong
    about: str  # the command or file
    entry: str
    fix: str = ""  # what made it pass later


@dataclass(slots=True)
class Mention:
    """A name or a figure, how likely it is to be needed again, and where it stood last."""

    weight: float = 0.0
    file: str = ""  # of a name
    words: str = ""  # around a figure
    entry: str = ""


@dataclass(slots=True)
class Mentions:
    """Names and figures of a stretch, the likeliest to be needed again first."""

    names: dict[str, Mention] = field(default_factory=dict[str, Mention])
    figures: dict[str, Mention] = field(default_factory=dict[str, Mention])


class _Tally:
    """Mentions of names, or of figures. Each weighs less the older it is, so that they are added up
    for every stretch anew; what they say is read once."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[str, str, str]] = {}  # file, words, entry of the last one
        self._numbers: dict[str, int] = {}
        self._which: list[int] = []
        self._weighs: list[int] = []  # twice the message's number; one more where it was done

    def add(self, found: Mapping[str, str], path: str, weighs: int, entry: str) -> None:
        for name, words in found.items():
            number = self._numbers.get(name)
            if number is None:
                number = self._numbers[name] = len(self._numbers)
                self._told[name] = (path, words, entry)
            else:
                file, around, _ = self._told[name]
                self._told[name] = (path or file, words or around, entry)
            self._which.append(number)
            self._weighs.append(weighs)

    def ranked(self, weights: Sequence[float]) -> dict[str, Mention]:
        """The heaviest: what comes after so many is in no summary, and weighs next to nothing."""
        sums = [0.0] * len(self._numbers)
        for number, weighs in zip(self._which, self._weighs, strict=True):
            sums[number] += weights[weighs]
        found = nlargest(_MOST, zip(self._numbers, sums, strict=True), key=itemgetter(1))
        return {name: Mention(weight, *self._told[name]) for name, weight in found}


class _Heard:
    """What messages mention, each read once: of a stretch that grows only the new ones."""

    def __init__(self) -> None:
        self._read_until = 0
        self._paths: dict[str, str] = {}
        self._shaped: dict[str, bool] = {}
        self._known: set[str] = set()  # figures
        self._names, self._figures = _Tally(), _Tally()

    def of(self, messages: Sequence[Json]) -> Mentions:
        """Each message that mentions it counts once, less the older it is; words and calls count
        more than results that were only seen."""
        count = len(messages)
        for number in range(self._read_until, count):
            entry, name = messages[number], str(messages[number]["uuid"])
            for words, path, done in _words(entry, self._paths):
                weighs = 2 * number + done
                self._names.add(
                    self._names_in(words, defined=done and bool(path)), path, weighs, name
                )
                self._figures.add(self._figures_in(words, done=done), "", weighs, name)
        self._read_until = count
        weights = [
            (count - number) ** -0.5 * by for number in range(count) for by in (_SEEN, _DONE)
        ]
        return Mentions(self._names.ranked(weights), self._figures.ranked(weights))

    def _names_in(self, words: str, *, defined: bool) -> dict[str, str]:
        names = [word for word in dict.fromkeys(_NAME.findall(words)) if self._is_name(word)]
        return dict.fromkeys([*names, *_DEFINED.findall(words)] if defined else names, "")

    def _is_name(self, word: str) -> bool:
        known = self._shaped.get(word)
        if known is None:
            known = self._shaped[word] = _SHAPED.search(word) is not None
        return known

    def _figures_in(self, words: str, *, done: bool) -> dict[str, str]:
        """Figures with what stands around them; two digits say something in words alone."""
        found: dict[str, str] = {}
        for match in _NUMBER.finditer(words):
            figure = match[0]
            if figure in found or sum(map(str.isdigit, figure)) < (2 if done else 3):
                continue
            told = done or figure not in self._known
            found[figure] = _around(words, match.start(), match.end()) if told else ""
        self._known.update(found)
        return found


@dataclass(slots=True)
class SessionFacts:
    asked: list[Said] = field(default_factory=list[Said])
    answered: list[Said] = field(default_factory=list[Said])
    files: dict[str, Touched] = field(default_factory=dict[str, Touched])
    ran: dict[str, Ran] = field(default_factory=dict[str, Ran])  # by command, the last one last
    failures: list[Failure] = field(default_factory=list[Failure])
    tasks: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # (status, content)
    searches: list[str] = field(default_factory=list[str])
    calls: int = 0
    first: str = ""  # time of the first entry
    last: str = ""
    messages: list[Json] = field(default_factory=list[Json], repr=False)
    unfixed: dict[str, list[Failure]] = field(default_factory=dict[str, list[Failure]], repr=False)
    _heard: _Heard = field(default_factory=_Heard, repr=False)
    _mentioned: Mentions | None = None

    @property
    def commands(self) -> list[Ran]:
        """In the order in which they ran last."""
        return list(self.ran.values())

    @property
    def mentioned(self) -> Mentions:
        """Every word is read for it, so only when it is asked for, and once."""
        if self._mentioned is None:
            self._mentioned = self._heard.of(self.messages)
        return self._mentioned

    @property
    def changed(self) -> list[Touched]:
        return sorted((f for f in self.files.values() if f.changes), key=lambda f: f.order)

    @property
    def open_tasks(self) -> list[str]:
        return [what for status, what in self.tasks if status not in ("completed", "done")]


def _around(text: str, start: int, end: int) -> str:
    """A few whole words of the same line before and after a figure."""
    before = text[max(0, start - 45) : start].rpartition("\n")
    after = text[end : end + 20].partition("\n")
    head = before[2] if before[1] or start <= 45 else before[2].partition(" ")[2]
    tail = after[0] if after[1] or end + 20 >= len(text) else after[0].rpartition(" ")[0]
    return " ".join(f"{head}{text[start:end]}{tail}".split())


def _words(entry: Json, paths: dict[str, str]) -> Iterable[tuple[str, str, bool]]:
    """(text, file that it belongs to, was it said or done?) of each block of a message."""
    origins: list[Any] = entry.get("origins") or []
    for number, block in enumerate(dicts(entry.get("content"))):
        kind = block.get("type")
        if kind == "text":
            typed = number >= len(origins) or origins[number] in ("typed", "pasted")
            words = str(block.get("text", ""))
            own = typed and not _WRAPPED.match(words)
            yield words, "", own or entry.get("role") == "assistant"
        elif kind == "tool_use":
            given = as_object(block.get("input"))
            path = next((str(given[k]) for k in _PATH_KEYS if isinstance(given.get(k), str)), "")
            paths[str(block.get("id"))] = path
            yield "\n".join(texts_in(given)), path, True
        elif kind == "tool_result":
            yield (
                "\n".join(texts_in(block.get("content"))),
                paths.get(str(block.get("tool_use_id")), ""),
                False,
            )


def words_in(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))


def texts_in(value: Any) -> Iterator[str]:
    """All texts in a message's content or a call's input."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from texts_in(item)
    elif isinstance(value, dict):
        for key, item in cast("Json", value).items():
            if key not in ("type", "id", "tool_use_id", "signature", "data"):
                yield from texts_in(item)


def session_facts(entries: Iterable[Json]) -> SessionFacts:
    """All of it, in one pass."""
    return SessionReader().read(entries)


class SessionReader:
    """The facts of a stretch that grows: what was read once is not read again."""

    def __init__(self) -> None:
        self._facts = SessionFacts()
        self._calls: dict[str, tuple[str, Json, str]] = {}
        self._tasks: dict[str, list[str]] = {}
        self._places: list[int] = []
        self._last = ""  # name of the last entry of these

    def at(self, entries: Sequence[Json], places: Sequence[int]) -> SessionFacts:
        """The facts of the entries at these places; only what was added since is read, if the
        others are those of the last time."""
        known = len(self._places)
        grown = self._places == places[:known]
        if known and not (grown and entries[self._places[-1]]["uuid"] == self._last):
            self.__init__()
            known = 0
        self._places = list(places)
        self._last = str(entries[places[-1]]["uuid"]) if places else ""
        return self.read(entries[place] for place in places[known:])

    def read(self, entries: Iterable[Json]) -> SessionFacts:
        """The facts with those of these entries, which follow."""
        facts = self._facts
        for entry in entries:
            if entry.get("kind") != "message":
                continue
            facts.messages.append(entry)
            stamp = str(entry.get("ts") or "")
            facts.first, facts.last = facts.first or stamp, stamp or facts.last
            if entry.get("role") == "assistant":
                _answer(facts, entry, self._calls, self._tasks)
            else:
                _question(facts, entry, self._calls)
        tasks = [(status, what) for what, status in map(tuple, self._tasks.values())]
        return replace(facts, tasks=[*facts.tasks, *tasks])


def _answer(
    result: SessionFacts,
    entry: Json,
    calls: dict[str, tuple[str, Json, str]],
    tasks: dict[str, list[str]],
) -> None:
    uuid = str(entry["uuid"])
    words = text_of(dicts(entry.get("content"))).strip()
    if words:
        final = all(block.get("type") != "tool_use" for block in dicts(entry.get("content")))
        result.answered.append(Said(words, uuid, final))
    for block in dicts(entry.get("content")):
        if block.get("type") != "tool_use":
            continue
        name, input_ = str(block.get("name")), as_object(block.get("input"))
        calls[str(block.get("id"))] = (name, input_, uuid)
        result.calls += 1
        _call(result, name, input_, uuid, tasks)


def _call(
    result: SessionFacts, name: str, given: Json, uuid: str, tasks: dict[str, list[str]]
) -> None:
    path = next((str(given[key]) for key in _PATH_KEYS if isinstance(given.get(key), str)), "")
    if path and name in (*READS, *WRITES):
        file = result.files.setdefault(path, Touched(path))
        file.order = result.calls
        if name in READS:
            file.reads += 1
            file.entry = file.entry or uuid
        else:
            _change(file, name, given, uuid)
    elif name in ("Grep", "Glob", "WebSearch", "WebFetch"):
        what = given.get("pattern") or given.get("query") or given.get("url") or ""
        result.searches.append(f"{name} {what}")
    elif name in ("Todo", "TodoWrite") and isinstance(given.get("todos"), list):
        result.tasks = [
            (str(row.get("status", "pending")), str(row.get("content", "")))
            for row in dicts(given["todos"])
        ]
    elif name == "TaskCreate":
        tasks[str(len(tasks) + 1)] = [str(given.get("subject", "")), "pending"]
    elif name == "TaskUpdate" and str(given.get("taskId")) in tasks:
        row = tasks[str(given.get("taskId"))]
        row[1] = str(given.get("status") or row[1])


def _change(file: Touched, name: str, given: Json, uuid: str) -> None:
    file.changes += 1
    file.entry = uuid
    file.created = file.created or (name == "Write" and not file.reads and file.changes == 1)
    new = str(given.get("new_string") or given.get("content") or given.get("new_source") or "")
    if edits := dicts(given.get("edits")):
        new = "\n".join(str(row.get("new_string", "")) for row in edits)
    for found in _DEFINED.findall(new):
        if found not in file.names:
            file.names.append(found)
    old = str(given.get("old_string") or "")
    kept = set(old.splitlines())
    fresh = [line.strip() for line in new.splitlines() if line.strip() and line not in kept]
    if fresh:
        file.lines.append(fresh[0][:160])


def _question(result: SessionFacts, entry: Json, calls: dict[str, tuple[str, Json, str]]) -> None:
    origins: list[Any] = entry.get("origins") or []
    for number, block in enumerate(dicts(entry.get("content"))):
        origin = origins[number] if number < len(origins) else "typed"
        if block.get("type") in ("image", "document") and origin in ("typed", "pasted"):
            result.asked.append(Said(f"[{block['type']}]", str(entry["uuid"])))
        elif block.get("type") == "tool_result":
            call = calls.get(str(block.get("tool_use_id")))
            if call:
                _result(result, entry, block, call)
        elif block.get("type") == "text" and origin in ("typed", "pasted"):
            words = str(block.get("text", "")).strip()
            if words and not _WRAPPED.match(words):
                result.asked.append(Said(words, str(entry["uuid"])))


def _result(result: SessionFacts, entry: Json, block: Block, call: tuple[str, Json, str]) -> None:
    name, given, _ = call
    content = block.get("content") or ""
    text = text_of(content if isinstance(content, str) else dicts(content))
    failed = bool(block.get("is_error"))
    meta: Mapping[str, Any] = entry.get("meta") or {}
    uuid = str(entry["uuid"])
    if name in SHELLS:
        command = " ".join(str(given.get("command", "")).split())
        code = _exit_code(text, meta, failed=failed)
        _ran(result, command, code, text, uuid)
        failed, about = failed or bool(code), command
    else:
        about = next((str(given[k]) for k in (*_PATH_KEYS, "pattern") if given.get(k)), name)
    if failed:
        failure = Failure(telling_line(text, bad=True), about[:200], uuid)
        result.failures.append(failure)
        result.unfixed.setdefault(failure.about, []).append(failure)
    elif unfixed := result.unfixed.pop(about[:200], None):
        fix = _fix(result, name)
        for failure in unfixed:
            failure.fix = fix


def _fix(result: SessionFacts, name: str) -> str:
    """What was changed before it passed."""
    latest = max(result.changed, key=lambda f: f.order, default=None)
    if name in SHELLS and latest:
        change = latest.lines[-1] if latest.lines else ""
        return f"{latest.path}: {change}" if change else latest.path
    return "passed when tried again"


def _ran(result: SessionFacts, command: str, code: int | None, text: str, uuid: str) -> None:
    ran = result.ran.pop(command, None) or Ran(command, code, "", uuid, 0)
    ran.exit, ran.outcome, ran.entry = code, telling_line(text, bad=bool(code)), uuid
    ran.runs += 1
    result.ran[command] = ran


def _exit_code(text: str, meta: Mapping[str, Any], *, failed: bool) -> int | None:
    if isinstance(meta.get("exit_code"), int):
        return meta["exit_code"]
    if not failed:
        return 0
    found = _EXIT.search(text[:300]) or _EXIT.search(text[-300:])
    return int(found[1]) if found else 1


def telling_line(text: str, *, bad: bool) -> str:
    """The one line of an output that says most: what went wrong, else how it ended."""
    if bad:
        for line in map(str.strip, text.splitlines()):
            if _BAD.search(line) and not _EXIT.fullmatch(line):
                return line[:240]
    # Only the end is split: outputs are long, and all of a session's are gone through at once.
    ended = text.rstrip()
    last = ended[ended.rfind("\n") + 1 :].splitlines()
    return last[-1].strip()[:240] if last else ""
