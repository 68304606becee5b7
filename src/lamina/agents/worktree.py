"""A git worktree of its own for an agent: made from the last commit, kept if the agent changed
something, removed if not. Touches the repository through git, and one folder under the session's.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from lamina.errors import ToolError
from lamina.ledger.places import private_folder

_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Worktree:
    path: Path  # the worktree's root
    place: Path  # the project inside it
    branch: str
    base: str  # the commit that it began with
    repository: Path


def make(project: Path, path: Path, name: str) -> Worktree:
    """A new one, or what an earlier life of the agent left there. A ToolError says why there can't be
    one."""
    root = Path(_git(project, "rev-parse", "--show-toplevel"))
    branch, base = f"lamina/{name}", ""  # one that was kept is kept again
    if not path.exists():
        base = _git(root, "rev-parse", "--verify", "HEAD^{commit}")
        private_folder(path.parent)
        _git(root, "worktree", "add", "--quiet", "-b", branch, str(path), base)
    place = path / project.resolve().relative_to(root.resolve())
    if not place.is_dir():  # the project's folder is not committed yet
        place = path
    return Worktree(path, place, branch, base, root)


def finish(tree: Worktree) -> str:
    """Remove it if nothing changed; else say where it is. It stays if git won't say or won't let go."""
    try:
        changed = _git(tree.path, "status", "--porcelain", "--untracked-files=all")
        moved = _git(tree.path, "rev-parse", "HEAD") != tree.base
        if not changed and not moved:
            _git(tree.repository, "worktree", "remove", str(tree.path))
            _git(tree.repository, "branch", "-D", tree.branch)
            return ""
    except ToolError as error:
        return f"Its worktree {tree.path} was kept: {error}"
    return f"Its changes are in the worktree {tree.path} (branch {tree.branch})."


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "core.hooksPath=/dev/null", *words]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError as error:
        raise ToolError("A worktree needs git, which is not installed.") from error
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"git {words[0]} in {folder} took too long.") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise ToolError(f"git {words[0]} in {folder}: {said[-1] if said else 'failed'}")
    return done.stdout.strip()
