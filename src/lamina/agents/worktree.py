"""A git worktree of its own for an agent: made from the last commit, kept if the agent changed
something, removed if not. Touches the repository through git, and one folder under the session's.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lamina.errors import ToolError
from lamina.machine import private_folder

_SECONDS = 120.0
_OBEYS_NOTHING = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "submodule.recurse=false",
)  # fmt: skip
# A blob that is missing would be fetched by a command that the repository names.
_FETCHES_NOTHING = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
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
        return _git(self.path, *words, at=(f"--git-dir={own}", f"--work-tree={self.path}"))


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


def _git(folder: Path, *words: str, at: Sequence[str] = ()) -> str:
    """Git outside of the sandbox: it runs nothing that the repository's own settings name, since
    those may have come with a download. The user's own (git-lfs, say) hold."""
    begin = ["git", "-C", str(folder), *_OBEYS_NOTHING, *at]
    listed = _run(
        [*begin, "config", "-z", "--show-scope", "--name-only", "--get-regexp", "^filter"]
    )
    if listed.returncode == 129:
        raise ToolError("A worktree needs git 2.31 or newer.")
    pairs = pairwise(listed.stdout.split("\0"))
    names = dict.fromkeys(name for scope, name in pairs if scope in ("local", "worktree"))
    count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    env = {"GIT_CONFIG_COUNT": str(count + len(names))}
    for number, name in enumerate(names, count):
        value = "false" if name.endswith(".required") else ""
        env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    done = _run([*begin, *words], env)
    if done.returncode:
        told = (done.stderr.strip() or done.stdout.strip()).encode(errors="replace").decode()
        said = told.splitlines()
        raise ToolError(f"git {words[0]} in {folder}: {said[-1] if said else 'failed'}")
    return done.stdout.strip()


def _run(
    command: list[str], env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            env={**os.environ, **_FETCHES_NOTHING, **(env or {})},
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError as error:
        raise ToolError("A worktree needs git, which is not installed.") from error
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"git in {command[2]} took too long.") from error
