"""Which repository does a directory belong to: the canonical root that all its worktrees share.

It reads `.git` files and directories, never runs git, and believes a pointer only when the
repository pointed at confirms it: an unpacked archive can't name somebody else's memory as its own.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

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
