"""Where a project's memory is kept: the directory, its overrides, and whether memory is on at all.

Values of environment and settings come in as plain arguments (`config.py` reads them). It looks at
links and makes the directory; it writes no memory. A project's own files have no say in it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lamina.errors import MemoryStoreError, SettingsError, StorageError
from lamina.ledger import places
from lamina.machine import make_private

if TYPE_CHECKING:
    from lamina.config import Config

_POINTER_LIMIT = 4096


def canonical_root(start: str | os.PathLike[str]) -> Path:
    """The repository's root for memory; outside any repository the directory itself.

    Worktrees give the root of the main checkout (or the bare repository), a submodule gives its own
    directory, a directory inside a bare repository gives that repository.
    """
    here = Path(os.path.realpath(Path(start).expanduser()))
    for directory in (here, *here.parents):
        dot_git = directory / ".git"
        if dot_git.is_file():
            return _behind_pointer(directory, dot_git)
        if _is_git_directory(dot_git) or _is_bare(directory):
            return directory
    return here


def _behind_pointer(checkout: Path, dot_git: Path) -> Path:
    """The root for a checkout whose `.git` is a file: a worktree, a submodule, or a moved git dir."""
    git_dir = _follow(_first_line(dot_git).removeprefix("gitdir:"), checkout)
    if git_dir is None or not _is_git_directory(git_dir, worktree=True):
        return checkout
    common = _follow(_first_line(git_dir / "commondir"), git_dir)
    if common is None:
        # A pointer to a git directory inside the checkout is the bare-plus-worktrees layout. One
        # that leads elsewhere (submodule, separate git dir) has nothing to confirm it: stay here.
        return git_dir if _inside(git_dir, checkout) and git_dir.name != ".git" else checkout
    confirmed = git_dir.parent == common / "worktrees" and _points_back(git_dir, dot_git)
    if not confirmed or not _is_git_directory(common):
        return checkout
    return _main_checkout(common)


def _main_checkout(common: Path) -> Path:
    if common.name == ".git":
        return common.parent
    configured = _worktree_setting(common / "config")
    main = _follow(configured, common) if configured else None
    if main is not None and _follow(_first_line(main / ".git").removeprefix("gitdir:"), main) == (
        common
    ):
        return main  # a submodule's worktree belongs to the submodule
    return common


def _points_back(git_dir: Path, dot_git: Path) -> bool:
    back = _follow(_first_line(git_dir / "gitdir"), git_dir)
    return back == Path(os.path.realpath(dot_git))


def _follow(text: str, relative_to: Path) -> Path | None:
    text = text.strip()
    if not text or "\x00" in text:
        return None
    return Path(os.path.realpath(relative_to / text))


def _first_line(file: Path) -> str:
    try:
        with open(file, "rb") as stream:
            content = stream.read(_POINTER_LIMIT)
    except OSError:
        return ""
    return os.fsdecode(content.split(b"\n", 1)[0]).rstrip("\r")


def _is_git_directory(path: Path, *, worktree: bool = False) -> bool:
    try:
        if not (path / "HEAD").is_file():
            return False
        return worktree or ((path / "objects").is_dir() and (path / "refs").is_dir())
    except OSError:  # no permission to look: nothing that we could take for a repository
        return False


def _is_bare(path: Path) -> bool:
    """A bare repository, not the `.git` of a checkout (whose parent is found by the next step)."""
    return path.name != ".git" and (path / "config").is_file() and _is_git_directory(path)


def _worktree_setting(config: Path) -> str:
    """`core.worktree` of a git config file, "" if it is not set plainly."""
    try:
        text = config.read_bytes()[:65536].decode("utf-8", "surrogateescape")
    except OSError:
        return ""
    section = ""
    for line in text.splitlines():
        if header := re.match(r"\s*\[\s*([^\]]*)\]", line):
            section = header.group(1).strip().lower()
        elif section == "core" and (
            match := re.match(r"\s*worktree\s*=\s*(.*?)\s*$", line, re.IGNORECASE)
        ):
            return match.group(1).strip('"')
    return ""


def _inside(path: Path, directory: Path) -> bool:
    return directory in path.parents


_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """The memory directory of one project and, beside it, the store's own files."""

    directory: Path
    state: Path  # history, intents, inbox, tombstones, derived index
    root: Path  # the canonical root of the project
    chosen_by: str  # "default", or the variable or setting that names the directory
    boundary: Path  # a link at or above the directory may not lead out of this
    record_home: Path | None = None  # where `project.json` says whose folder it is


def memory_place(
    home: Path,
    project: str | os.PathLike[str],
    *,
    environment: str = "",
    setting: str = "",
    remote: str = "",
    claude: bool = False,
) -> MemoryPlace:
    """Where this project's memory is. Overrides by their order: environment, setting, remote home.

    With `claude` the home is another tool's: the memory directory is shared with it, and what is
    Lamina's alone goes under `<home>/lamina/`. Nothing is created.
    """
    root = canonical_root(project)
    overrides = (("LAMINA_MEMORY_DIR", environment), ("memory.directory", setting))
    for named_by, value in overrides:
        if value:
            directory = checked_directory(value, named_by)
            state = directory.with_name(f"{directory.name}.lamina")
            return MemoryPlace(directory, state, root, named_by, directory.parent)
    chosen_by = "default"
    if remote:
        home, chosen_by = checked_directory(remote, "LAMINA_REMOTE_MEMORY_DIR"), "remote"
    home = Path(os.path.realpath(home.expanduser()))
    # The other tool's folder has no record of ours in it, and gets none.
    folder = (
        home / "projects" / places.slug(root) if claude else places.find_project_folder(home, root)
    )
    record_home = home / "lamina" if claude else home
    own = places.find_project_folder(record_home, root) if claude else folder
    directory = folder / "memory"
    _refuse_leaving_link(directory, home, chosen_by)
    return MemoryPlace(directory, own / "memory.lamina", root, chosen_by, home, record_home)


def place_of(config: Config) -> MemoryPlace:
    """Where the settings have it."""
    by_variable = config.source("memory.directory").kind == "environment"
    chosen = config.str("memory.directory")
    return memory_place(
        config.home,
        config.project,
        environment=chosen if by_variable else "",
        setting="" if by_variable else chosen,
        remote=config.str("memory.remote_directory") if config.bool("remote") else "",
        claude=config.claude,
    )


def prepare(place: MemoryPlace) -> str:
    """Make the directory; "" or, where that is not allowed, a sentence for the log.

    It is no error before something is written: reading an absent memory is reading an empty one.
    """
    try:
        _refuse_leaving_link(place.directory, place.boundary, place.chosen_by)
        make_private(place.directory)
    except (StorageError, SettingsError) as error:
        return str(error)
    return ""


def claim(place: MemoryPlace) -> None:
    """Record in `project.json` whose folder this is, before the first write to a default place."""
    if place.record_home is None:
        return
    folder = places.project_folder(place.record_home, place.root)
    if folder != place.state.parent:
        raise MemoryStoreError(
            f"{place.state.parent} was taken by another project meanwhile. Start again."
        )


JOINED = "joined.json"
TEAM_NEWS = "news"
TEAM_AUTHORS = "authors.json"


def team_folder(state: Path) -> Path:
    """What belongs to team memory alone: where this project joined, what was pulled, conflicts."""
    return state / "team"


def team_news(state: Path) -> list[str]:
    """What syncing in the background has to tell a person, once."""
    file = team_folder(state) / TEAM_NEWS
    taken = file.with_name(f"{TEAM_NEWS}.{os.getpid()}")
    try:
        file.rename(taken)
        lines = taken.read_text("utf-8", "replace").splitlines()
        taken.unlink()
    except OSError:
        return []
    return [*dict.fromkeys(lines)]


def team_authors(state: Path) -> dict[str, str]:
    """Whose words lie in team/, by path: who wrote what came from the server, by their token."""
    try:
        kept = (team_folder(state) / TEAM_AUTHORS).read_bytes()
        return msgspec.json.decode(kept, type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def team_is_on(config: Config, state: Path) -> bool:
    """Team memory is for projects that joined a team, while the user leaves it switched on."""
    return config.bool("team.enabled") and (team_folder(state) / JOINED).is_file()


def checked_directory(value: str, named_by: str) -> Path:
    """An override as a path, or SettingsError that names what is wrong with it."""
    refusal = _refusal(value)
    if refusal:
        raise SettingsError(
            f"{named_by} can't be {value!r}: {refusal}. Give an absolute path at least two levels deep."
        )
    path = Path(value).expanduser() if value.startswith("~/") else Path(value)
    if len(path.parts) < 3:
        raise SettingsError(
            f"{named_by} can't be {value!r}: it is the root or one level below. "
            "Give an absolute path at least two levels deep."
        )
    # What lies above is the user's own choice; the last part must stay where it was put.
    parent = Path(os.path.realpath(path.parent))
    _refuse_leaving_link(parent / path.name, parent, named_by)
    return parent / path.name


def _refusal(value: str) -> str:
    parts = [part for part in value.split("/") if part not in ("", ".")]
    faults = {
        "it holds a NUL": "\x00" in value,
        "it is a UNC path": value.startswith(("\\\\", "//")),
        "it is the root of a drive": bool(_DRIVE.match(value)) and not value[2:].strip("\\/"),
        "it is a path on a drive": bool(_DRIVE.match(value)),
        "it is the home directory itself": parts == ["~"],
        "only ~/ is expanded, not another user's home": value.startswith("~")
        and not value.startswith("~/"),
        "it is relative": not value.startswith(("/", "~/")),
        "it has a '..' in it": ".." in parts,
        "a part of it is longer than 255 bytes": any(
            len(part.encode("utf-8", "surrogatepass")) > 255 for part in parts
        ),
    }
    return next((words for words, found in faults.items() if found), "")


def _refuse_leaving_link(directory: Path, boundary: Path, named_by: str) -> None:
    real = os.path.realpath(directory)
    if real != str(boundary) and not real.startswith(f"{str(boundary).rstrip('/')}/"):
        raise SettingsError(
            f"{directory} ({named_by}) is a link that leaves {boundary}: it leads to {real}. "
            "Name that place itself if memory should be there."
        )
