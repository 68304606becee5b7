"""Agent types: Markdown files whose frontmatter says what a kind of agent may do, and whose body is its
prompt. From `<home>/agents/`, and from a project's `.lamina/agents/` and `.claude/agents/`.

A project's file may have come with a repository: it can narrow what an agent may do, never widen it,
nor choose a model; before its first use the user is asked. What we don't know in another tool's file
is left out. Reads those folders, and keeps the user's yes under the home.
"""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from stat import S_ISREG
from typing import Literal

from lamina.config import Config
from lamina.errors import UsageError
from lamina.ledger.places import find_project_folder
from lamina.machine import read_json, write_private
from lamina.memory import canonical_root, read_topic
from lamina.messages import MODELS, names_model

Scope = Literal["user", "project", "local"]
READING = ("Read", "Grep", "Glob")
FORK = "fork"  # no type: a copy of the agent that starts it
NAMED = "use letters, digits, - and _; main and user are taken"

_LARGEST = 200_000  # bytes of a file
_MOST = 200  # files of a folder
_LETTERS = frozenset(string.ascii_letters + string.digits + "-_:")
# Another tool's names of tools that we have.
_CALLED = {"TodoWrite": "Todo", "Task": "Agent", "MultiEdit": "Edit"}
_LIMITS = ("max_calls", "max_minutes", "max_dollars")
_KEYS = frozenset({"name", "description", "tools", "model", "memory", "plan", "agents", *_LIMITS})
_NOT_FROM_A_PROJECT = ("model", "base_url", "hooks", "permissions", "permissionMode", "mcpServers")


@dataclass(frozen=True, slots=True)
class AgentType:
    """A kind of agent."""

    name: str
    description: str
    prompt: str = ""
    tools: tuple[str, ...] | None = None  # None: those of whoever starts it
    without: tuple[str, ...] = ()  # but not these
    model: str = ""  # "": that of whoever starts it
    memory: Scope | None = None
    plan: bool = False  # it may only read until its plan is approved
    agents: tuple[str, ...] = ()  # types that it may start itself
    max_calls: int = 0  # 0: the setting
    max_minutes: float = 0.0
    max_dollars: float = 0.0
    file: Path | None = None  # None: built in
    of_project: bool = False
    digest: str = ""


BUILT_IN = (
    AgentType(
        "general",
        "Any task of several steps, with the tools of whoever starts it.",
        "Do the task you are given, wholly, and nothing beyond it.",
    ),
    AgentType(
        "explore",
        "Finds out where and how something is done in the project; changes nothing.",
        "Find what you are asked for. You can only read. Answer with file paths and line numbers.",
        READING,
    ),
)


class BadType(UsageError):
    """Why a file can't be used as an agent type: a sentence that names it."""


@dataclass(frozen=True, slots=True)
class AgentTypes:
    """All that can be started by name, and what is wrong with the rest."""

    known: Mapping[str, AgentType]
    bad: Mapping[str, str] = field(default_factory=dict[str, str])  # name → why
    warnings: Sequence[str] = ()

    def get(self, name: str) -> AgentType:
        """The type of that name; a UsageError says what is wrong, or lists those that there are."""
        if name in self.known:
            return self.known[name]
        if name in self.bad:
            raise BadType(self.bad[name])
        raise UsageError(f"There is no agent type {name!r}. Types: {', '.join(self.known)}.")


def is_name(word: str) -> bool:
    """Can a type, or an agent, be called so? main is the conversation, user who writes to agents."""
    fits = set(word) <= _LETTERS and len(word) <= 64
    return fits and word[:1].isalnum() and word not in ("main", "user")


def load_types(config: Config, tools: Collection[str]) -> AgentTypes:
    """Every type of this project; `tools` are the names that exist."""
    warnings: list[str] = []
    mine = [_Folder(config.own_home / "agents", tools, warnings)]
    if config.claude:
        mine.append(_Folder(config.home / "agents", tools, warnings, foreign=True))
    brought = [
        _Folder(config.project / ".lamina" / "agents", tools, warnings, of_project=True),
        _Folder(config.project / ".claude" / "agents", tools, warnings, True, True),
    ]
    found: dict[str, AgentType] = {one.name: one for one in BUILT_IN}
    bad: dict[str, str] = {}
    for folders in (mine, brought):
        named: dict[str, list[AgentType]] = {}
        for one in (one for folder in folders for one in folder.types(bad)):
            named.setdefault(one.name, []).append(one)
        for name, (one, *more) in named.items():
            if more:  # nobody knows which is meant
                files = f"{one.file} and {more[0].file}"
                bad[name] = f"{files} are both the agent type {name!r}. Rename one of them."
            elif one.of_project and name in found:  # it takes nobody's place
                whose = f"{name!r} ({found[name].file or 'a built-in one'})"
                bad[f"{name} of the project"] = (
                    f"{one.file} has the name of another agent type, {whose}, and is left out. "
                    "Rename it."
                )
            elif name not in bad:
                found[name] = one
    _without_loops(found, bad)
    return AgentTypes(found, bad, tuple(warnings))


def _without_loops(found: dict[str, AgentType], bad: dict[str, str]) -> None:
    """Types that could start each other for ever are no types."""
    try:
        TopologicalSorter({name: one.agents for name, one in found.items()}).prepare()
    except CycleError as error:
        loop: list[str] = error.args[1][:0:-1]
        for at, name in enumerate(loop):
            trail = " → ".join([*loop[at:], *loop[:at], name])
            bad[name] = f"{found.pop(name).file} starts itself: {trail}. Take one out of `agents`."
        _without_loops(found, bad)


@dataclass(frozen=True, slots=True)
class _Folder:
    """Where files of types are."""

    path: Path
    tools: Collection[str]
    warnings: list[str]
    of_project: bool = False
    foreign: bool = False  # another tool's

    def types(self, bad: dict[str, str]) -> Iterator[AgentType]:
        try:
            files = sorted(path for path in self.path.iterdir() if path.suffix == ".md")[:_MOST]
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            bad[str(self.path)] = f"Can't read the agent types in {self.path}: {error.strerror}."
            return
        for path in files:
            try:
                yield self._type(path)
            except BadType as error:
                bad[path.stem] = str(error)

    def _type(self, path: Path) -> AgentType:
        data = _bytes(path)
        topic = read_topic(path.name, data)
        name, keys = topic.name, dict(topic.extra)
        if not is_name(name) or name == FORK:
            raise BadType(
                f"{path}: {name!r} can't be the name of an agent type: {NAMED}, fork too."
            )
        if not topic.description:
            raise BadType(f"{path} has no description. Say in one line what the agent is for.")
        if self.of_project:
            self._narrow(path, keys)
        if not self.foreign and (unknown := sorted(set(keys) - _KEYS)):
            known = ", ".join(sorted(_KEYS))
            raise BadType(f"{path} sets {unknown[0]}, which is not known. Keys: {known}.")
        memory, model = keys.get("memory") or "none", keys.get("model", "")
        if memory not in ("none", "user", "project", "local"):
            raise BadType(f"{path}: memory must be user, project or local, not {memory!r}.")
        if model == "inherit" or (self.foreign and not names_model(model)):
            model = ""
        if model and not names_model(model):
            raise BadType(f"{path}: model must be {MODELS}, or inherit; not {model!r}.")
        denied = (one.partition("(")[0] for one in _words(keys.get("disallowedTools", "")))
        return AgentType(
            name,
            topic.description,
            topic.body,
            tools=self._tools(path, keys.get("tools")),
            without=tuple(_CALLED.get(one, one) for one in denied),
            model=model,
            memory=None if memory == "none" else memory,
            plan=keys.get("plan", "").lower() == "true",
            agents=tuple(_words(keys.get("agents", ""))),
            max_calls=int(_limit(path, keys, "max_calls")),
            max_minutes=_limit(path, keys, "max_minutes"),
            max_dollars=_limit(path, keys, "max_dollars"),
            file=path,
            of_project=self.of_project,
            digest=hashlib.sha256(data).hexdigest(),
        )

    def _narrow(self, path: Path, keys: dict[str, str]) -> None:
        """What a file that came with the project may not set."""
        if keys.get("memory") == "user":  # it would carry words from one project into another
            raise BadType(
                f"{path} is inside the project: its memory can be project or local, not user."
            )
        for key in [one for one in keys if one.partition(".")[0] in _NOT_FROM_A_PROJECT]:
            if key == "model" and keys[key] == "inherit":
                continue
            if not self.foreign:
                raise BadType(
                    f"{path} is inside the project and may not set {key}. "
                    "Delete that line, or move the file to the agents folder of your home."
                )
            del keys[key]
            self.warnings.append(f"{path} is inside the project: its {key} was left out.")

    def _tools(self, path: Path, given: str | None) -> tuple[str, ...] | None:
        names = [_CALLED.get(name, name) for name in _words(given or "")]
        if given is None or names == ["*"]:
            return None
        kept = tuple(dict.fromkeys(name for name in names if name in self.tools))
        if listed := ", ".join(name for name in names if name not in self.tools):
            if not self.foreign or not kept:
                known = ", ".join(self.tools)
                raise BadType(f"{path} names tools that don't exist: {listed}. Tools: {known}.")
            told = f"{path}: these tools don't exist here and were left out: {listed}."
            self.warnings.append(told)
        return kept


def _bytes(path: Path) -> bytes:
    try:
        if not S_ISREG(path.stat().st_mode):  # a pipe would never end
            raise BadType(f"The agent type {path} is no file. Move it away.")
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:  # a link that leads to itself is one of them
        raise BadType(f"Can't read the agent type {path}: {error.strerror}.") from error
    if len(data) > _LARGEST:
        raise BadType(f"{path} is too large for an agent type: at most {_LARGEST:,} bytes.")
    return data


def _words(value: str) -> list[str]:
    """`a, b`, `[a, b]` or a list of lines."""
    for mark in ",[]\"'":
        value = value.replace(mark, " ")
    return [word for word in value.split() if word != "-"]


def _limit(path: Path, keys: Mapping[str, str], key: str) -> float:
    with suppress(ValueError):
        number = float(keys.get(key, "0"))
        if 0 <= number < float("inf"):
            return number
    raise BadType(f"{path}: {key} must be a number, not {keys[key]!r}.")


# ---- the user's yes to what came with a project


class Trust:
    """Which files of this project the user has agreed to use: types, and memories that others wrote.
    By their content, so that a file that changes is asked about again."""

    def __init__(self, config: Config) -> None:
        root = canonical_root(config.project)
        self._file = find_project_folder(config.own_home, root) / "agent-trust.json"
        self._always = config.bool("agents.trust")
        self._once: set[str] = set()

    def allows(self, one: AgentType) -> bool:
        return self._always or not one.of_project or self.has(one.digest)

    def has(self, digest: str) -> bool:
        return digest in self._once or digest in self._kept()

    def add(self, digests: Iterable[str], *, lasting: bool) -> None:
        """For this session, or for good."""
        agreed = set(digests)
        self._once |= agreed
        if lasting:
            write_private(self._file, json.dumps(sorted(self._kept() | agreed)).encode())

    def _kept(self) -> set[str]:
        return read_json(self._file, set[str]) or set()
