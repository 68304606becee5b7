"""Which page has which address, the project that it is about, and the frame around it. Projects are
those of the home; their settings are read anew for each page, as a command would. Templates escape
whatever is put into them, so that text of memories and sessions stays text.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lamina.cache.spend import money_text
from lamina.cli.memory import open_store
from lamina.cli.memory_history import to_you
from lamina.cli.options import config_of
from lamina.cli.terminal import harmless, plural
from lamina.errors import LaminaError
from lamina.ledger.places import find_project_folder, known_projects
from lamina.web.server import Answer, Asked, Message, NotThere, Watch

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.layers.dream.runner import DreamResult
    from lamina.ports import MemoryStore
    from lamina.recall.memory_index import MemoryIndex

_PAUSE = 1.0  # seconds: whoever types again after it sees files and settings as they are then
_MOST_PROJECTS = 12  # in the menu
_OF_AGENTS = ("", "m", "history", "change", "edit", "pin", "forget", "undo")  # pages of a type's


@dataclass(frozen=True, slots=True)
class Screen:
    """What a page shows within its frame: a template and its values."""

    template: str
    title: str
    section: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: int = 200


@dataclass(frozen=True, slots=True)
class Project:
    """One project, as a command with these options would see it."""

    slug: str
    path: str
    args: argparse.Namespace
    config: Config
    world: World
    agent: str = ""  # the type whose memory it is about, and not the project's

    def url(self, *parts: str, **query: object) -> str:
        return url("p", self.slug, *parts, **query)

    @property
    def name(self) -> str:
        return Path(self.path).name or self.path

    def store(self) -> MemoryStore:
        return open_store(self.config, agent=self.agent)

    @property
    def folder(self) -> Path:
        return self.config.own_home / "projects" / self.slug.partition("~")[0]


class World:
    """The home with its projects."""

    def __init__(self, args: argparse.Namespace) -> None:
        config = config_of(args)
        self.home = config.own_home
        self.here = find_project_folder(self.home, config.project).name
        self._args = args
        self._here_path = str(config.project)
        self.dreams: dict[str, DreamResult] = {}  # shown and not applied yet, by project
        self.measured: dict[Path, Any] = {}  # a session's state and its figures
        self.read: dict[str, Any] = {}  # by project: its folders' state, and what was found
        self._indexes: dict[str, MemoryIndex] = {}
        self._typed: dict[str, tuple[Project, float]] = {}  # and when somebody typed last
        self._lock = threading.Lock()

    def typed_in(self, slug: str, *, typing: bool) -> tuple[Project, bool]:
        """The project that somebody types in, and whether they just began: between two key strokes
        settings and files are not looked at again."""
        now, (known, last) = time.monotonic(), self._typed.get(slug, (None, 0.0))
        began = not typing or known is None or now - last > _PAUSE
        project = known if known and not began else self.project(slug)
        self._typed[slug] = project, now if typing else 0.0  # another page may change something
        return project, began

    def project(self, slug: str) -> Project:
        bare, _, agent = slug.partition("~")  # no slug has that sign
        path = self._here_path if bare == self.here else dict(self.projects()).get(bare, "")
        if not path:
            raise NotThere(f"There is no project {slug} in {self.home}.")
        args = argparse.Namespace(**{**vars(self._args), "project": path})
        return Project(slug, path, args, config_of(args), self, agent)

    def projects(self) -> list[tuple[str, str]]:
        """(slug, path), the one that the command was started in first."""
        found = [
            (find_project_folder(self.home, one).name, one) for one in known_projects(self.home)
        ]
        return [(self.here, self._here_path), *(one for one in found if one[0] != self.here)]

    def index(self, project: Project) -> MemoryIndex:
        """The index of a project's memories, loaded once."""
        from lamina.recall.memory_index import MemoryIndex

        with self._lock:
            if project.slug not in self._indexes:
                self._indexes[project.slug] = MemoryIndex(project.store())
            return self._indexes[project.slug]

    def close(self) -> None:
        for index in self._indexes.values():
            index.store.close()


Show = Callable[[Asked, Project], Screen | Answer]


class Site:
    """All pages of the server."""

    def __init__(self, args: argparse.Namespace, watch: Watch) -> None:
        from lamina.web import memory_pages, session_pages, upkeep_pages

        rooms = (memory_pages, upkeep_pages, session_pages)
        self._world = World(args)
        self._watch = watch
        self._shown: Mapping[str, Show] = ChainMap(*(room.SHOWN for room in rooms))
        self._done: Mapping[str, Show] = ChainMap(*(room.DONE for room in rooms))

    def get(self, asked: Asked) -> Answer:
        match [*asked.parts]:
            case []:
                return Answer(to=url("p", self._world.here))
            case ["projects"]:
                return self._framed(asked, _projects(self._world), None)
            case ["p", slug, "events"]:
                self._follow(self._world.project(slug))
                return Answer(listen=slug)
            case ["p", slug, *rest]:
                return self._answer(asked, slug, rest[0] if rest else "", self._shown)
            case _:
                raise NotThere("There is no such page.")

    def post(self, asked: Asked) -> Answer:
        match [*asked.parts]:
            case ["p", slug, name, *_]:
                return self._answer(asked, slug, name, self._done)
            case _:
                raise NotThere("There is no such form.")

    def _answer(self, asked: Asked, slug: str, name: str, table: Mapping[str, Show]) -> Answer:
        if name not in table:
            raise NotThere("There is no such page.")
        if "~" in slug and name not in _OF_AGENTS:
            return Answer(to=url("p", slug.partition("~")[0], *asked.parts[2:]))
        typing = bool(asked.fragment and asked.query.get("q"))
        project, asked.began = self._world.typed_in(slug, typing=typing)
        if asked.fragment and not typing:  # something changed: perhaps a folder came
            self._follow(project)
        shown = table[name](asked, project)
        return shown if isinstance(shown, Answer) else self._framed(asked, shown, project)

    def _follow(self, project: Project) -> None:
        """Report what changes in a project: memories, inbox, dreams, sessions, agents, money."""
        with project.store() as store:
            folders = [
                project.folder, *project.folder.glob("*/subagents"), *project.folder.glob("mail/*"),
                store.directory, store.directory / "team", store.state, store.state / "inbox",
                store.state / "dream", self._world.home, self._world.home / "spend",
            ]  # fmt: skip
        self._watch.folders(project.slug, folders)

    def close(self) -> None:
        self._world.close()

    # ---- the frame

    def sorry(self, sentence: str, asked: Asked, title: str = "That did not work") -> str:
        back = url(*asked.parts[:2]) if asked.parts[:1] == ["p"] else "/"
        screen = Screen("sorry.html", title, None, {"sentence": sentence, "back": back})
        return str(self._framed(asked, screen, None).body)

    def _framed(self, asked: Asked, screen: Screen, project: Project | None) -> Answer:
        values: dict[str, Any] = {
            **screen.values, "title": screen.title, "section": screen.section, "asked": asked,
            "here": url(*asked.parts), "project": project,
            "frame": "bare.html" if asked.fragment else "frame.html",
        }  # fmt: skip
        if project is not None and not asked.fragment:
            with replace(project, agent="").store() as store:  # an agent's memory has no inbox
                values["waiting"] = len(store.waiting())
            known = self._world.projects()
            values["others"] = [one for one in known[:_MOST_PROJECTS] if one[0] != project.slug]
            values["known"] = len(known)
        return Answer(render(screen.template, values), screen.status)


def done(to: str, words: str, undo: str = "") -> Answer:
    """A form did its work: go there and say so."""
    return Answer(to=to, message=Message(words, undo))


def _projects(world: World) -> Screen:
    rows: list[tuple[str, str, str]] = []
    for slug, path in world.projects():
        try:
            with world.project(slug).store() as store:
                count, waiting = len(store.stamps()), len(store.waiting())
            about = f"{count:,} memories" + (f", {waiting} to review" if waiting else "")
        except LaminaError as error:
            about = str(error)
        rows.append((slug, path, about))
    return Screen("projects.html", "Projects", None, {"rows": rows})


# ---- how a page becomes HTML

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
