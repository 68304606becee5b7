"""The house, measured: lines, modules, doors, walks, regexes, dead code; before and after.

Everything is read from the source, but for the walks: a turn with a tool and a sentence that becomes
a memory run for real, and every file of the package that they enter is counted. `BEFORE` holds what
the same counts gave at 64a8835, when the house was rebuilt.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import re
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, cast
from unittest.mock import patch

import anyio
from bench.figures import ROOT, Figure, at_most, report

SRC = ROOT / "src" / "lamina"
# Modules whose public names are for hosts, beside lamina's own.
EXPORTED = (
    "lamina.testing",
    "lamina.adapters.claude_agent_sdk",
    "lamina.adapters.langchain",
    "lamina.adapters.llm_plugin",
    "lamina.adapters.openai_agents",
    "lamina.adapters.pydantic_ai",
)
# Packages that came after the house was rebuilt have a budget of lines of their own; the figures for
# lines, modules, importers and regexes are those of what was there then.
LATER = {
    "agents": 3_120,  # 2,500 were asked for: docs/decisions/agents-elsewhere.md
    "team": 2_500,
    "conversation": 1_633,
    "integrations": 3_500,
    "gateway": 1_500,
    "web": 1_500,
    "adapters": 700,
}
DATA = (".toml", ".txt", ".tsv")  # word lists and tables: an entry is a line
BEFORE = {
    "lines": 47_835,
    "modules": 322,
    "modules over 500 lines": 0,
    "functions over 60 lines": 0,
    "modules with one importer": 107,
    "doors of memory": 28,
    "reach-throughs": 35,
    "files on the walk of a sentence": 91,
    "files on the walk of a turn": 59,
    "regex characters": 33_375,
    "detectors of a wish": 4,
    "dead definitions": 14,
    "lines over 120 characters": 325,
}
LIMITS = {
    "lines": 42_000,
    "modules": 210,
    "modules over 500 lines": 0,
    "functions over 60 lines": 0,
    "modules with one importer": 40,
    "doors of memory": 1,
    "reach-throughs": 0,
    "files on the walk of a sentence": 50,
    "files on the walk of a turn": 45,
    "regex characters": 12_000,
    "detectors of a wish": 1,
    "dead definitions": 0,
    "lines over 120 characters": 0,
}


@cache
def modules() -> dict[str, tuple[Path, str, ast.Module]]:
    """Every module of the package: path, text, tree."""
    found: dict[str, tuple[Path, str, ast.Module]] = {}
    for path in sorted(SRC.rglob("*.py")):
        parts = path.relative_to(SRC.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text("utf-8")
        found[name] = (path, text, ast.parse(text))
    return found


@cache
def nodes() -> dict[str, list[ast.AST]]:
    """Every node of every module."""
    return {name: list(ast.walk(tree)) for name, (_, _, tree) in modules().items()}


# Modules that stand in another room than the one in whose budget they are.
_IN_BUDGET_OF = {
    "lamina.replay.client_logs": "integrations",
    "lamina.replay.agent_sessions": "integrations",
    "lamina.cli.memory_transfer": "integrations",
    "lamina.cli.agents": "agents",
}


def _came_later(name: str) -> bool:
    if name in _IN_BUDGET_OF:
        return True
    room = name.removeprefix("lamina.").partition(".")[0]
    return room in LATER and name not in ("lamina.agents", "lamina.agents.fork")


def rebuilt() -> dict[str, tuple[Path, str, ast.Module]]:
    """The modules that were there when the house was rebuilt."""
    return {name: found for name, found in modules().items() if not _came_later(name)}


def lines_of_later() -> dict[str, int]:
    """Lines of Python of each package that came later."""
    found = dict.fromkeys(LATER, 0)
    for name, (_, text, _) in modules().items():
        if _came_later(name):
            room = _IN_BUDGET_OF.get(name) or name.split(".")[1]
            found[room] += len(text.splitlines())
    return found


def lines() -> int:
    """Lines of Python, and of data that rules were moved into."""
    data = [path for path in SRC.rglob("*") if path.suffix in DATA]
    texts = [text for _, text, _ in rebuilt().values()]
    return sum(len(t.splitlines()) for t in [*texts, *(p.read_text("utf-8") for p in data)])


def long_functions(limit: int = 60) -> list[str]:
    return [
        f"{name}:{node.name}"
        for name, found in nodes().items()
        for node in found
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > limit
    ]


@cache
def imports() -> dict[str, set[str]]:
    """Module -> modules of the package that it imports, lazy and type-only imports included."""
    known = modules()
    found: dict[str, set[str]] = {name: set() for name in known}
    for name in known:
        for node in nodes()[name]:
            if isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names if alias.name in known}
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names} & known.keys()
                found[name] |= inner or ({node.module} & known.keys())
    return {name: targets - {name} for name, targets in found.items()}


def single_importers() -> list[str]:
    counts = Counter(target for targets in imports().values() for target in targets)
    return [
        n for n, (path, _, _) in rebuilt().items() if counts[n] == 1 and path.stem != "__init__"
    ]


def doors(room: str = "lamina.memory") -> set[str]:
    """Modules of a room that other rooms import."""
    return {
        target
        for name, targets in imports().items()
        if not name.startswith(room)
        for target in targets
        if target == room or target.startswith(f"{room}.")
    }


_PARTS = re.compile(
    r"\b(?:store|memory|_store|_memory)\.(?:journal|admission|tombstones|inbox|files|gate|scan)\."
)


def reach_throughs() -> list[str]:
    """Places outside memory/ that reach through the store into its parts."""
    return [
        f"{name}:{number}"
        for name, (_, text, _) in modules().items()
        if not name.startswith("lamina.memory")
        for number, line in enumerate(text.splitlines(), 1)
        for _ in _PARTS.finditer(line)
    ]


def regex_characters() -> int:
    """Characters of patterns that are compiled or matched, as written in the code."""
    total = 0
    for found in nodes().values():
        for node in found:
            if isinstance(node, ast.Call) and _is_regex(node.func) and node.args:
                total += sum(
                    len(part.value)
                    for part in ast.walk(node.args[0])
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                )
    return total


# An alternative that is words alone: between bars, or at the edge of its group.
_CHOICE = re.compile(r"(?<=[|(:])[^\W\d_](?:[^\W\d_]|[ ?'’-])+(?=[|)])")


def word_regexes(most: int = 3) -> list[str]:
    """Patterns outside the rooms of language that choose between more than `most` words."""
    return [
        f"{name}:{node.lineno}"
        for name, found in nodes().items()
        if not name.startswith(("lamina.text", "lamina.secrets"))
        for node in found
        if isinstance(node, ast.Call) and _is_regex(node.func) and node.args
        if _words_to_choose_from(node.args[0]) > most
    ]


def _words_to_choose_from(pattern: ast.expr) -> int:
    written = "".join(
        part.value
        for part in ast.walk(pattern)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )
    return len(_CHOICE.findall(f"|{written}|".replace(r"\b", ""))) if "|" in written else 0


def _is_regex(function: ast.expr) -> bool:
    names = (
        "compile",
        "match",
        "search",
        "fullmatch",
        "sub",
        "subn",
        "split",
        "findall",
        "finditer",
    )
    return (
        isinstance(function, ast.Attribute)
        and function.attr in names
        and isinstance(function.value, ast.Name)
        and function.value.id in ("re", "re2")
    )


def long_lines(limit: int = 120) -> list[str]:
    return [
        f"{name}:{number}"
        for name, (_, text, _) in modules().items()
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > limit
    ]


# ---- dead code


def dead() -> list[str]:
    """Functions, classes and settings that nothing in the package reaches, by name, from a command,
    an export or a port. A name that alive code mentions anywhere keeps every definition of that
    name alive, so what is listed here is dead for certain."""
    reach = _Reach(_alive_modules())
    return sorted([*reach.unreached(), *unread_settings()])


def excused() -> dict[str, str]:
    """What only a base class of somebody else's calls, each with its reason."""
    return tomllib.loads((ROOT / "bench" / "floor.toml").read_text("utf-8"))["house"]["dead"]


def _alive_modules() -> dict[str, ast.Module]:
    """Modules that an import, or their name in a string (lazy commands, workers), leads to."""
    known, graph = modules(), imports()
    alive: set[str] = set()
    todo = ["lamina", "lamina.cli.main", *(name for name in EXPORTED if name in known)]
    while todo:
        name = todo.pop()
        if name in alive:
            continue
        alive.add(name)
        text = known[name][1]
        package = name if known[name][0].stem == "__init__" else name.rpartition(".")[0]
        named = {
            other
            for other in known
            if f'"{other}"' in text or f'"{other.removeprefix(package + ".")}"' in text
        }
        todo += (graph[name] | named | {package}) & known.keys()
    return {name: known[name][2] for name in alive}


class _Reach:
    """Which definitions the alive code mentions."""

    def __init__(self, trees: dict[str, ast.Module]) -> None:
        self._bodies: dict[str, set[str]] = {}  # definition -> names that its code mentions
        self._names: dict[str, set[str]] = {}  # bare name -> definitions
        self._members: dict[str, list[str]] = {}  # class -> its methods
        self._roots: set[str] = set()
        for module, tree in trees.items():
            self._roots |= self._walk(tree.body, module)
        missing = modules().keys() - trees.keys()
        self._dead_modules = [f"{name} (module)" for name in sorted(missing)]

    def _walk(self, body: list[ast.stmt], prefix: str) -> set[str]:
        """Book the definitions of a body; returns what its own code mentions."""
        mentioned: set[str] = set()
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}.{node.name}"
                outer = [*node.decorator_list]
                if isinstance(node, ast.ClassDef):
                    outer += [*node.bases, *(k.value for k in node.keywords)]
                    inner = self._walk(node.body, name)
                else:
                    inner = _mentions(node)
                self._bodies[name] = inner | {m for n in outer for m in _mentions(n)}
                self._names.setdefault(node.name, set()).add(name)
                self._members.setdefault(prefix, []).append(node.name)
            elif isinstance(node, ast.If | ast.Try):
                mentioned |= self._walk([*_statements(node)], prefix)
                if isinstance(node, ast.If):
                    mentioned |= _mentions(node.test)
            elif not isinstance(node, ast.Import | ast.ImportFrom) and not _is_all(node):
                mentioned |= _mentions(node)
        return mentioned

    def unreached(self) -> Iterator[str]:
        exported = set(re.findall(r'"(\w+)":', modules()["lamina"][1]))  # the lazy table of exports
        for definition in self._bodies:
            module, _, name = definition.rpartition(".")
            if module in EXPORTED and name[0] != "_":
                exported.add(name)
        seen: set[str] = set()
        todo = list(self._roots | exported | {"main"})
        reached: set[str] = set()
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            for definition in self._names.get(name, ()):
                reached.add(definition)
                todo += self._bodies[definition]
                todo += self._called_by_others(definition, public=name in exported)
        yield from self._dead_modules
        for definition in self._bodies.keys() - reached:
            name, owner = definition.rsplit(".", 1)[1], definition.rsplit(".", 1)[0]
            if owner in self._bodies and owner not in reached:
                continue  # the class is told of once
            if not definition.endswith((".__getattr__", ".__dir__")):
                yield definition

    def _called_by_others(self, owner: str, *, public: bool) -> Iterator[str]:
        """Methods of a class that Python calls, or the callers of the library."""
        for name in self._members.get(owner, ()):
            if name.startswith("__") or (public and name[0] != "_"):
                yield name


def _statements(node: ast.If | ast.Try) -> Iterator[ast.stmt]:
    yield from node.body
    yield from node.orelse
    if isinstance(node, ast.Try):
        yield from node.finalbody
        for handler in node.handlers:
            yield from handler.body


def _is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
    )


def _mentions(node: ast.AST) -> set[str]:
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Attribute):
            found.add(part.attr)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            found |= set(re.findall(r"[A-Za-z_]\w*", part.value[:200]))
    return found


def unread_settings() -> list[str]:
    """Settings that no code outside the table asks for."""
    from lamina.config import SETTINGS

    rest = "\n".join(
        text for name, (_, text, _) in modules().items() if name != "lamina.config.table"
    )

    def read(name: str, flag: str) -> bool:
        # `f"{provider}.base_url"` reads a setting of every provider.
        last = name.rpartition(".")[2]
        return any(word in rest for word in (f'"{name}"', f'"{flag}"', "}." + last + '"'))

    return [f"setting {s.name}" for s in SETTINGS if not read(s.name, s.flag or s.name)]


# ---- walks


class Watch:
    """Files of the package whose functions are entered between `start` and `stop`, in any thread
    that begins after `ready`. Bodies of modules don't count: an import is no step of a walk."""

    def __init__(self) -> None:
        self._on = False
        self._codes: set[CodeType] = set()

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        if self._on and event == "call":
            self._codes.add(frame.f_code)

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        gc.disable()  # what an earlier session left is closed when it is collected
        self._on = True
        try:
            yield
        finally:
            self._on = False
            gc.enable()

    def files(self) -> set[str]:
        entered = {c.co_filename for c in self._codes if c.co_name != "<module>"}
        return {name for name in entered if name.startswith(f"{SRC}/")}


def walk(model: Callable[[], Any], warm: str, words: str, **wishes: Any) -> tuple[set[str], str]:
    """The files that one turn enters, with what runs behind it until all is still; and the first
    memory that it left. Another home is asked other words before, so that every import is done."""
    import lamina
    from lamina.memory import known_memories

    async def story(folder: Path, prompt: str, watch: Watch) -> None:
        project = folder / "project"
        project.mkdir(parents=True)
        opened = lamina.Session.open(project, model(), home=folder / "home", **wishes)
        async with opened as session:
            with watch.watching():
                await session.ask(prompt)
                await session.drain()
                if (memory := cast("Any", session.state.deps.memory)) is not None:
                    memory.journal.settle()  # else the history's own thread is seen where it is quick enough

    with tempfile.TemporaryDirectory() as place:
        anyio.run(story, Path(place) / "warm", warm, Watch())
        watch = Watch()
        # A slow machine takes over a second, and then the directory is looked at once more.
        trusted = patch.object(known_memories, "_TRUSTED", 3_600.0)
        with watch.ready(), trusted:
            anyio.run(story, Path(place) / "walk", words, watch)
        kept = sorted((Path(place) / "walk" / "home").glob("projects/*/memory/*_*.md"))
        return watch.files(), kept[0].read_text("utf-8") if kept else ""


def walk_of_a_turn() -> set[str]:
    """Message, model, Bash with a result that goes to disk, model."""
    from lamina.models.scripted import ScriptedModel

    script = [
        {"tool_use": [{"name": "Bash", "input": {"command": "seq 1 25000"}}]},
        {"text": "Done."},
    ]
    files, _ = walk(
        lambda: ScriptedModel(list(script)),
        "Count to many thousands.",
        "Count to twenty-five thousand.",
        config={"permissions.allow": ["Bash"]},
    )
    if not any(name.endswith("tools/bash.py") for name in files):
        raise SystemExit("The turn ran no command: its walk shows nothing.")
    return files


def walk_of_a_sentence() -> set[str]:
    """A sentence, a turn, extraction without a model, a memory on disk."""
    files, kept = walk(
        lambda: "none",
        "I like short commit messages in every repository.",
        "I prefer tabs over spaces in every Makefile.",
        interactive=True,
    )
    if "tabs" not in kept:
        raise SystemExit("The sentence did not become a memory: its walk shows nothing.")
    return files


def by_room(files: set[str]) -> str:
    """How many of the files stand in which room, and which."""
    rooms: dict[str, list[str]] = {}
    for name in sorted(files):
        room, _, rest = str(Path(name).relative_to(SRC).with_suffix("")).rpartition("/")
        rooms.setdefault(room or "lamina", []).append(rest)
    ordered = sorted(rooms.items(), key=lambda room: (-len(room[1]), room[0]))
    return "\n".join(f"  {len(found):3} {room}: {' '.join(found)}" for room, found in ordered)


def figures(walks: Mapping[str, set[str]]) -> dict[str, float]:
    known = modules()
    return {
        "lines": lines(),
        "modules": len(rebuilt()),
        "modules over 500 lines": sum(len(t.splitlines()) > 500 for _, t, _ in known.values()),
        "functions over 60 lines": len(long_functions()),
        "modules with one importer": len(single_importers()),
        "doors of memory": len(doors()),
        "reach-throughs": len(reach_throughs()),
        **{f"files on the walk of a {name}": len(files) for name, files in walks.items()},
        "regex characters": regex_characters(),
        "dead definitions": len([name for name in dead() if name not in excused()]),
        "lines over 120 characters": len(long_lines()),
    }


def main() -> int:
    walks = {"sentence": walk_of_a_sentence(), "turn": walk_of_a_turn()}
    found: list[Figure] = [
        at_most(name, value, "", LIMITS[name], before=BEFORE[name])
        for name, value in figures(walks).items()
    ]
    for name, files in walks.items():
        print(f"walk of a {name}, {len(files)} files:\n{by_room(files)}")
    for title, names in (("one importer", single_importers()), ("dead", dead())):
        print(f"{title}: {', '.join(names)}")
    return report("house", found)


if __name__ == "__main__":
    sys.exit(main())
