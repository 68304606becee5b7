"""Finds the instruction files that hold for a session, in order, with what they include.

Managed, user, project root down to the working directory, local: later is stronger. It reads files
and nothing else; where to look, what to leave out and what is trusted come in as `Places`. Patterns
of rules may come from a cloned repository, so RE2 matches them, in linear time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lamina.memory import includes
from lamina.memory.includes import NotText, TextFile, read_text
from lamina.text import globs
from lamina.text.origins import hidden_character

if TYPE_CHECKING:
    from lamina.config import Config


_MANAGED = (Path("/etc/lamina/AGENTS.md"),)
_MANAGED_CLAUDE = (Path("/etc/claude-code/CLAUDE.md"),)


def places_for(config: Config, cwd: Path | None = None) -> Places:
    """The places of a session in `config.project`; `cwd` if it stands further down."""
    cwd = cwd or config.project
    trust = config.bool("instructions.trust")
    return Places(
        project=checkout_root(config.project),
        cwd=cwd,
        home=config.home,
        managed=(*_MANAGED, *(_MANAGED_CLAUDE if config.claude else ())),
        excludes=config.strings("instructions.excludes"),
        trusted=lambda _path: trust,
        depth=config.int("instructions.depth"),
        warn_characters=config.int("instructions.warn_characters"),
    )


def checkout_root(folder: Path) -> Path:
    """The top of the checkout that holds the folder (a worktree is its own), else the folder."""
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            return parent
    return folder


Scope = Literal["managed", "user", "project", "local"]

_NAMES = ("AGENTS.md", "CLAUDE.md")
_LOCAL_NAMES = ("AGENTS.local.md", "CLAUDE.local.md")
_FOLDERS = (".claude", ".lamina")
_MOST_FILES = 1_000
_MOST_INCLUDES = 500  # names after an @ in one file
_INTRODUCTION = (
    "These instruction files hold for this project and this user. Follow them; where two disagree, "
    "the later one wins."
)


def _trust_nothing(_path: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Places:
    """Where instructions are looked for. Paths are absolute."""

    project: Path  # the root of the project
    cwd: Path
    home: Path | None = None  # Lamina's home (or a Claude config directory): the user's own files
    managed: Sequence[Path] = ()  # files that an administrator put there
    user_home: Path | None = None  # what "~" means; None: the account's own
    excludes: Sequence[str] = ()  # globs over absolute paths; managed files can't be excluded
    trusted: Callable[[str], bool] = _trust_nothing  # may this file outside the project be included
    depth: int = 4  # how many files deep includes go
    warn_characters: int = 40_000


@dataclass(frozen=True, slots=True)
class Instruction:
    """One file's text as the model gets it."""

    path: str  # the real file
    scope: Scope
    size: int  # bytes of the file
    text: str
    why: str  # "CLAUDE.md of the project", "included by …", "rule for src/**"
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Instructions:
    """What was loaded, in order (later is stronger), and what was left out and why."""

    loaded: Sequence[Instruction] = ()
    skipped: Sequence[Skipped] = ()


def load(places: Places) -> Instructions:
    """All that holds from the start. Rules with `paths:` and sub-directories wait for `touched`."""
    loading = _Loading(places)
    for path in places.managed:
        loading.add(str(path), "managed", "managed by the administrator")
    if places.home is not None:
        for name in _NAMES:
            loading.add(str(places.home / name), "user", f"your own {name}")
        loading.add_rules(places.home / "rules", "user", None)
    folders = _from_root(places.project, places.cwd)
    for folder in folders:
        loading.add_folder(folder, None)
    for folder in folders:
        loading.add_local(folder)
    return loading.result()


def touched(places: Places, path: str | Path, loaded: Collection[str] = ()) -> Instructions:
    """What a file that is now read or written brings in: its folders' files, and rules for it.

    `loaded` are paths of instructions that the session has already; those are not given again.
    """
    file = Path(os.path.normpath(places.cwd / path))
    loading = _Loading(places, loaded)
    if not file.is_relative_to(places.project):
        return loading.result()
    above = _from_root(places.project, places.cwd)
    below = [folder for folder in _from_root(places.project, file.parent) if folder not in above]
    relative = file.relative_to(places.project).as_posix()
    if places.home is not None:
        loading.add_rules(places.home / "rules", "user", relative, only_named=True)
    for folder in above:
        for kind in _FOLDERS:
            loading.add_rules(folder / kind / "rules", "project", relative, only_named=True)
    for folder in below:
        loading.add_folder(folder, relative)
    for folder in below:
        loading.add_local(folder)
    return loading.result()


def as_reminder(instructions: Sequence[Instruction]) -> str:
    """The text that goes before the first user message; "" if there is nothing to say."""
    if not instructions:
        return ""
    parts = ["<system-reminder>", _INTRODUCTION]
    for instruction in instructions:
        text = instruction.text.strip().replace("</system-reminder", "&lt;/system-reminder")
        parts.append(f"# {instruction.path} ({instruction.scope}: {instruction.why})\n\n{text}")
    return "\n\n".join((*parts, "</system-reminder>"))


def _from_root(root: Path, folder: Path) -> list[Path]:
    """The folders from the root down to `folder`; only the folder itself if it lies elsewhere."""
    if not folder.is_relative_to(root):
        return [root] if folder == root else [root, folder]
    folders = [root]
    for part in folder.relative_to(root).parts:
        folders.append(folders[-1] / part)
    return folders


@dataclass(slots=True)
class _Loading:
    """One run over the places: what was taken so far, and which files were met."""

    places: Places
    known: Collection[str] = ()
    loaded: list[Instruction] = field(default_factory=list[Instruction])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    met: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])

    def result(self) -> Instructions:
        return Instructions(tuple(self.loaded), tuple(self.skipped))

    def add_folder(self, folder: Path, relative: str | None) -> None:
        where = "the project" if folder == self.places.project else folder.name
        for name in _NAMES:
            self.add(str(folder / name), "project", f"{name} of {where}")
        for kind in _FOLDERS:
            for name in _NAMES:
                self.add(str(folder / kind / name), "project", f"{kind}/{name} of {where}")
            self.add_rules(folder / kind / "rules", "project", relative)

    def add_local(self, folder: Path) -> None:
        for name in _LOCAL_NAMES:
            self.add(str(folder / name), "local", f"your own {name} here")
            self.add(str(folder / ".lamina" / name), "local", f"your own .lamina/{name} here")

    def add_rules(
        self, folder: Path, scope: Scope, touched_path: str | None, *, only_named: bool = False
    ) -> None:
        """Rules without `paths:` hold always; the others once a path that they name is touched."""
        for path in _rule_files(folder):
            file = self._open(path, scope, included=False)
            if file is None:
                continue
            parsed = includes.parse(file.text, rule=True)
            if not parsed.paths and not only_named:
                self._take(file, parsed, scope, "rule", ())
            elif parsed.paths and touched_path and globs.matches_any(parsed.paths, touched_path):
                self._take(file, parsed, scope, f"rule for {', '.join(parsed.paths)}", ())

    def add(self, path: str, scope: Scope, why: str, trail: tuple[str, ...] = ()) -> bool:
        """One file, if it is there and may be read. `trail` are the files that led to it."""
        file = self._open(path, scope, included=bool(trail))
        if file is None:
            return False
        self._take(file, includes.parse(file.text), scope, why, trail)
        return True

    def _take(
        self,
        file: TextFile,
        parsed: includes.Parsed,
        scope: Scope,
        why: str,
        trail: tuple[str, ...],
    ) -> None:
        """The included files come first, so that the one that includes them is stronger."""
        if file.key in self.met or file.path in self.known:
            return  # a link to it, or a circle of includes
        if len(self.met) == _MOST_FILES:
            self.skipped.append(Skipped(file.path, f"{_MOST_FILES} files are loaded already"))
            return
        self.met.add(file.key)
        for target in parsed.includes[:_MOST_INCLUDES]:
            self._include(target, file, scope, (*trail, file.path))
        if len(parsed.includes) > _MOST_INCLUDES:
            why = f"only the first {_MOST_INCLUDES} of its includes were looked for"
            self.skipped.append(Skipped(file.path, why))
        warnings = _warnings(parsed.text, self.places.warn_characters)
        self.loaded.append(Instruction(file.path, scope, file.size, parsed.text, why, warnings))

    def _include(self, target: str, file: TextFile, scope: Scope, trail: tuple[str, ...]) -> None:
        if len(trail) > self.places.depth:
            why = f"includes go no deeper than {self.places.depth} files"
            self.skipped.append(Skipped(target, why))
            return
        seen = len(self.skipped)
        for candidate in _spellings(target):
            path = self._resolve(candidate, os.path.dirname(file.path))
            if path and self.add(path, scope, f"included by {file.path}", trail):
                return
            if len(self.skipped) > seen:
                return
        if target.startswith(("./", "../", "~/", "/")):
            self.skipped.append(Skipped(target, f"{file.path} includes it, but it is not there"))

    def _resolve(self, target: str, folder: str) -> str:
        if target.startswith("~/"):
            return os.path.join(str(self.places.user_home or Path.home()), target[2:])
        return "" if target.startswith("~") else os.path.normpath(os.path.join(folder, target))

    def _open(self, path: str, scope: Scope, *, included: bool) -> TextFile | None:
        if scope != "managed" and globs.matches_any(self.places.excludes, path):
            if os.path.lexists(path):
                self.skipped.append(Skipped(path, "excluded by your settings"))
            return None
        try:
            file = read_text(path)
        except NotText as reason:
            self.skipped.append(Skipped(path, str(reason)))
            return None
        if file is None:
            return None
        if scope != "managed" and globs.matches_any(self.places.excludes, file.path):
            self.skipped.append(Skipped(file.path, "excluded by your settings"))
            return None
        if scope in ("project", "local") and not self._may_be_read(file.path):
            how = "included" if included else "a link"
            why = f"{how}, but it lies outside the project and is not trusted"
            self.skipped.append(Skipped(file.path, why))
            return None
        return file

    def _may_be_read(self, path: str) -> bool:
        root = os.path.realpath(self.places.project)
        return path.startswith(root.rstrip("/") + "/") or self.places.trusted(path)


def _spellings(target: str) -> Iterator[str]:
    """A target as written, then without what a sentence or a heading link may have added."""
    yield target
    bare = target.partition("#")[0].rstrip(".,;:!?)]}'\"")
    if bare and bare != target:
        yield bare


def _warnings(text: str, most: int) -> tuple[str, ...]:
    warnings: list[str] = []
    if len(text) > most:
        warnings.append(
            f"{len(text):,} characters, more than {most:,}: it crowds out the work, shorten it"
        )
    if hidden := hidden_character(text):
        warnings.append(f"it holds {hidden}, which a person can't see")
    return tuple(warnings)


def _rule_files(folder: Path) -> Iterator[str]:
    """All Markdown files beneath, by name; folders are not followed through links."""
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            if name.endswith(".md"):
                yield os.path.join(parent, name)
