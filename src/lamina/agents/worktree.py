"""A git worktree of its own for an agent: made from the last commit, kept if the agent changed
something, removed if not. Touches the repository through git, and one folder under the session's.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from lamina.errors import ToolError
from lamina.machine import private_folder

_SECONDS = 120.0
_OBEYS_NOTHING = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
_BRANCHES = "lamina"


@dataclass(frozen=True, slots=True)
class Worktree:
    path: Path  # the worktree's root
    place: Path  # the project inside it
    branch: str
    base: str  # the commit that it began with
    repository: Path
    git: Path  # where git keeps what all its worktrees share
    writes: tuple[Path, ...]  # of that, by a commit here

    def asked(self, *words: str) -> str:
        """Of git, by its folder as it was made: the agent could write there, and in `.git`."""
        own = self.git / "worktrees" / self.path.name
        for name, line in (("commondir", "../.."), ("gitdir", f"{self.path}/.git")):
            if own in self.writes:
                (own / name).unlink(missing_ok=True)
                (own / name).write_text(f"{line}\n")
        return _git(self.path, f"--git-dir={own}", f"--work-tree={self.path}", *words)


def make(project: Path, path: Path, name: str) -> Worktree:
    """A new one, or what an earlier life of the agent left there. A ToolError says why there can't be
    one."""
    root = Path(_git(project, "rev-parse", "--show-toplevel"))
    branch, base = f"{_BRANCHES}/{name}", ""  # one that was kept is kept again
    if not path.exists():
        private_folder(path.parent)
        begin = ["--force", str(path), branch]  # of a worktree that somebody deleted
        if not _git(root, "branch", "--list", branch):
            base = _git(root, "log", "-1", "--format=%H", "--no-show-signature")
            begin = ["-b", branch, str(path), base]
        _git(root, "worktree", "add", "--quiet", *begin)
    place = path / project.resolve().relative_to(root.resolve())
    if not place.is_dir():  # the project's folder is not committed yet
        place = path
    git = root / _git(root, "rev-parse", "--git-common-dir")
    heads = f"refs/heads/{_BRANCHES}"
    writes = (f"worktrees/{path.name}", "objects", heads, f"logs/{heads}")
    if _git(root, "config", "--default=", "extensions.worktreeConfig"):  # it obeys a file there
        writes = ()
    return Worktree(path, place, branch, base, root, git, tuple(git / one for one in writes))


def finish(tree: Worktree) -> str:
    """Remove it if nothing changed; else say where it is. It stays if git won't say or won't let go."""
    try:
        # A submodule obeys settings that the agent may have written; a worktree with one stays anyway.
        changed = tree.asked("status", "--porcelain", "-uall", "--ignore-submodules=all")
        tips = tree.asked("rev-parse", "HEAD", f"refs/heads/{tree.branch}")
        if not changed and set(tips.split()) == {tree.base}:
            _git(tree.repository, "worktree", "remove", str(tree.path))
            _git(tree.repository, "branch", "-D", tree.branch)
            return ""
    except (OSError, ToolError) as error:
        return f"Its worktree {tree.path} was kept: {error}"
    return f"Its changes are in the worktree {tree.path} (branch {tree.branch})."


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *_OBEYS_NOTHING, *words]
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
