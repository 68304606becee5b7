"""Bash: runs a shell command in the project, inside the sandbox profile that the context names.

The next command starts where the last one left off, as long as that is inside the project or the
session's own folder. Everything that a command starts ends with it. Output over a megabyte loses its
middle; layer 1 moves what is over its own threshold to disk.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from pathlib import Path
from typing import Literal

import anyio.to_thread

from lamina.errors import ToolError
from lamina.events import Warned
from lamina.machine import failing_as, private_folder
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec
from lamina.tools import takes
from lamina.tools.permissions import alone, holds_what_steers, named_to_steer
from lamina.tools.process import Command, Finished, run_command
from lamina.tools.sandbox import sandbox_for

SECONDS = 120
MOST_SECONDS = 600
CAP = 1_000_000  # bytes kept of the output
LONGEST_COMMAND = 100_000  # characters; Linux takes 128 KiB as one argument


_ABOUT = (
    "Runs a command in bash and returns what it prints, stdout and stderr together, and its exit code "
    "if that is not 0. cd lasts until the next call. There is no input and no terminal. Processes left "
    "in the background are ended with the command. Depending on the session, writing outside of the "
    "project and the network may be blocked. Use Read, Grep, Glob and Edit rather than cat, grep, find "
    "and sed."
)


class Bash:
    def __init__(self, seconds: float = SECONDS, most: float = MOST_SECONDS) -> None:
        self._seconds = min(seconds, most)
        ended = f"Seconds until it is ended; {self._seconds:g} if not given."
        timeout: Json = {"type": "number", "exclusiveMinimum": 0, "maximum": most}
        schema = takes(
            "command",
            command={"type": "string", "minLength": 1, "maxLength": LONGEST_COMMAND},
            timeout={**timeout, "description": ended},
            description={"type": "string", "description": "What it does, in a few words."},
        )
        self.spec = ToolSpec(
            "Bash", _ABOUT, schema, clearable=True, threshold=30_000, parallel=False
        )

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        text: str = input["command"]
        if "\0" in text:
            raise ToolError("A command can't contain NUL.")
        command = await anyio.to_thread.run_sync(
            _prepare, text, float(input.get("timeout") or self._seconds), context
        )
        # Where nothing can be written, what changes meanwhile is somebody else's work.
        watched = alone(context) and context.sandbox != "read-only"
        places, kept, back = (context.project, context.writes), None, list[str]()
        with anyio.CancelScope(shield=True):  # what is begun is ended
            kept = await anyio.to_thread.run_sync(Steering.of, *places) if watched else None
        try:
            finished = await run_command(command)
        except OSError as error:
            raise ToolError(f"The command could not be started: {error.strerror}.") from error
        finally:
            with anyio.CancelScope(shield=True):
                back = await anyio.to_thread.run_sync(kept.put_back) if kept else []
        moved = await anyio.to_thread.run_sync(_follow, finished.report, context)
        outcome = _outcome(finished, command, moved, context)
        if not back:
            return outcome
        more = f" and {len(back) - 5} more" if len(back) > 5 else ""
        what = f"{', '.join(back[:5])}{more} put back as before the command"
        context.emit(Warned(f"{what}. What stood there is kept beside as NAME.aside."))
        told = (
            f"[{what}, what stood there kept as NAME.aside: nobody is here to allow changes to what "
            "runs or steers later. The user can, with the setting sandbox.unattended_reach.]"
        )
        return replace(outcome, content=f"{outcome.content}\n{told}", is_error=True)


def _prepare(text: str, timeout: float, context: ToolContext) -> Command:
    private_tmp = context.scratch / "tmp"
    with failing_as(ToolError, f"Can't make {private_tmp}"):
        private_folder(private_tmp)
    if not context.cwd.is_dir():
        context.cwd = context.project  # the command before may have removed it
    env = dict(context.env)
    env.setdefault("PATH", os.defpath)
    env.update(TMPDIR=str(private_tmp), PAGER="cat", GIT_PAGER="cat", GIT_TERMINAL_PROMPT="0")
    env.update(TERM="dumb", PWD=str(context.cwd))
    reads = context.reads if alone(context) else None
    if reads is not None:
        # Git gives up on a configuration that it may not read; what it writes there goes with the rest.
        env["GIT_CONFIG_GLOBAL"] = str(private_tmp / "gitconfig")
        env["GIT_OPTIONAL_LOCKS"] = "0"  # else `git status` freshens the index, which is put back
    return Command(
        argv=_shell(text, env["PATH"]),
        cwd=context.cwd,
        env=env,
        timeout=timeout,
        cap=CAP,
        sandbox=sandbox_for(
            context.sandbox,
            project=context.project,
            private_tmp=private_tmp,
            network=context.network,
            writes=context.writes,
            reads=reads,
            path=env["PATH"],
        ),
        report=True,
    )


def _shell(text: str, path: str) -> list[str]:
    """bash, which also tells where it ended up; plain sh where there is none."""
    bash = shutil.which("bash", path=path) or shutil.which("bash", path=os.defpath)
    if bash is None:
        return ["/bin/sh", "-c", text]
    told = r'{ pwd -P && printf "\0"; } >&"$LAMINA_REPORT"'
    inner = f"trap '{{ {told}; }} 2>/dev/null' EXIT\n{text}"
    return [bash, "--noprofile", "--norc", "-c", inner]


def _follow(report: bytes, context: ToolContext) -> str:
    """Keep the directory in which the command ended; says so in words where that is not allowed."""
    *_, named, end = b"", *report.split(b"\n\0")  # a name may hold a line's end
    if not named or end:
        return ""
    place = Path(os.fsdecode(named))
    if not place.is_dir():
        context.cwd = context.project
        return f"The directory is gone; the next command starts in {context.project}."
    for root in (context.project, context.scratch):
        if place.is_relative_to(os.path.realpath(root)):
            context.cwd = place
            return ""
    context.cwd = context.project
    return f"{shlex.quote(str(place))} is outside; the next command starts in {context.project}."


def _outcome(finished: Finished, command: Command, moved: str, context: ToolContext) -> ToolOutcome:
    gap = f"\n\n[… {finished.out.omitted:,} bytes left out …]\n\n" if finished.out.omitted else ""
    body = gap.encode().join(finished.out.parts()).decode("utf-8", "replace").rstrip("\n")
    notes: list[str] = []
    if finished.timed_out:
        notes.append(f"Ended after {command.timeout:g} seconds, its time limit.")
    elif finished.code:
        code = finished.code
        notes.append(f"Exit code {code}." if code > 0 else f"Ended by signal {-code}.")
    if finished.left_over:
        notes.append(f"{finished.left_over} processes left in the background were ended.")
    if moved:
        notes.append(moved)
    if not body and not notes:
        body = "(no output)"
    bad = finished.timed_out or finished.code != 0
    meta = {
        "exit_code": finished.code,
        "seconds": round(finished.seconds, 3),
        "timed_out": finished.timed_out,
        "bytes": finished.out.total,
        "omitted": finished.out.omitted,
        "cwd": str(context.cwd),
        "sandbox": context.sandbox,
    }
    text = "\n".join([*([body] if body else []), *(f"[{note}]" for note in notes)])
    return ToolOutcome(text, is_error=bad, meta=meta)


# ---- what runs or steers later

_SKIPPED = frozenset({"node_modules", ".venv", "venv", "__pycache__", ".tox", "site-packages"})
# Of a repository: what a commit writes. Nothing in it is run, and the user may commit meanwhile.
_RECORDS = frozenset({"objects", "logs", "refs", "lfs", "annex"})
_OF_WORKTREE = ("commondir", "gitdir", "config.worktree")  # by them git finds its settings
_TODO = "git-rebase-todo"  # its `exec` lines run when the rebase goes on
_CLOCKS_TICK = 0.02  # seconds that the clock of a file system may be behind
_LARGEST = 2**24  # bytes of a file that are kept to be put back
_MOST_LOOKED_AT = 100_000  # entries; a walk must not cost more than the command

# What is looked for in a folder: files by their name; every file, here and below or here alone; what
# git obeys, and with it files by their name where a repository is not called `.git`; repositories alone.
_In = Literal["project", "steering", "settings", "git", "info", "bare", "skipped"]
_RUNNING: dict[tuple[Path, tuple[Path, ...]], Steering] = {}
_TURN = threading.Lock()


@dataclass(slots=True)
class Steering:
    """The files of a project that something runs or obeys later, as they were before a command, and its
    repositories: a new one would be obeyed by the user's own git as soon as an index names it."""

    project: Path
    writes: Sequence[Path]  # of its repository, by a commit in a worktree
    files: dict[Path, tuple[bytes | None, os.stat_result]]  # what a file holds, or a link names
    repositories: dict[tuple[int, int], Path] = field(default_factory=dict[tuple[int, int], Path])
    closed: set[str] = field(default_factory=set[str])  # folders that could not be read
    whole: bool = True  # were all looked at?
    started: float = field(default_factory=lambda: time.time() - _CLOCKS_TICK)
    commands: int = 0  # that run now

    @classmethod
    def of(cls, project: Path, writes: Sequence[Path] = ()) -> Steering:
        """Before a command. One that starts while another runs has its view: its own could hold what
        that one has changed, and would bring it back in the end."""
        place = Path(os.path.realpath(project)), tuple(writes)
        with _TURN:
            found = _RUNNING[place] = _RUNNING.get(place) or cls._seen(*place)
            found.commands += 1
            return found

    @classmethod
    def _seen(cls, project: Path, writes: Sequence[Path]) -> Steering:
        found = cls(project, writes, {})
        for path in found._all(_MOST_LOOKED_AT):
            with suppress(OSError):
                status = path.lstat()
                found.files[path] = (_held(path, status), status)
        return found

    def _all(self, most: float) -> Iterator[Path]:
        """Every file that steers. Folders that steer come first, those of packages last: a walk that
        ends early has seen what matters most."""
        looked_at, inner, last = 0, list[tuple[str, _In]](), list[tuple[str, _In]]()
        yield from (folder / one for folder in self.writes for one in _OF_WORKTREE)
        todo: list[tuple[str, _In]] = [(str(one / "modules"), "git") for one in self.writes]
        todo.insert(0, (str(self.project), "project"))
        while inner or todo or last:
            folder, inside = (inner or todo or last).pop()
            entries = self._entries(folder)
            looked_at += len(entries)
            if looked_at > most:
                self.whole = False
                return
            names = {one.name for one in entries}
            repository = "HEAD" in names and (names >= {"objects", "refs"} or "commondir" in names)
            if repository:
                inside = "bare" if inside in ("project", "skipped") else inside
                with suppress(OSError):
                    status = os.lstat(folder)
                    self.repositories[status.st_dev, status.st_ino] = Path(folder)
            for one in entries:
                if not one.is_dir(follow_symlinks=False):
                    if _matters(one.name, inside):
                        yield Path(one.path)
                elif inside == "git" and repository and one.name in _RECORDS:
                    continue
                elif (then := _below(one.name, inside)) == "skipped":
                    last.append((one.path, then))
                elif then is not None:
                    (todo if then == "project" else inner).append((one.path, then))

    def put_back(self) -> list[str]:
        """Undo every change to them; the names of those that were changed. However many files the
        command has made, none hides behind them, and no link that it made is followed. What stood
        there is kept beside: the user may have written it meanwhile."""
        with _TURN:
            self.commands -= 1
            if not self.commands:
                del _RUNNING[self.project, tuple(self.writes)]
            return self._put_back()

    def _put_back(self) -> list[str]:
        now = self._now()
        if named := self._put_repositories_back(now):
            now = self._now()
        made = now.files.keys() - self.files.keys()
        made = {path for path in made if not self._harmless(path, now)}
        if not self.whole:  # what was not seen before may have been there all the same
            made = {path for path in made if now.files[path][1].st_ctime > self.started}
        changed = {path for path, before in self.files.items() if not _same(path, *before)}
        changed = {path for path in changed if path.name != _TODO or not self._harmless(path, now)}
        for path in sorted(made | changed, reverse=True):  # what is in a folder before the folder
            self._clear(path)
        told = {os.path.relpath(path, self.project): path for path in named | made | changed}
        for name in sorted(told):
            if told[name] in changed and (why := _restored(told[name], *self.files[told[name]])):
                told[f"{name} (not, for it could not be written: {why})"] = told.pop(name)
        return sorted(told)

    def _harmless(self, path: Path, now: Steering) -> bool:
        """Does it belong to a worktree of a repository that was there before, and obey that alone?"""
        if path.name == _TODO:  # a rebase at work, as long as it has no command that it had not
            had, has = (
                (self.files.get(path, (None,))[0] or b"").splitlines(),
                _line(path).splitlines(),
            )
            return all(one in had for one in has if one.split()[:1] in ([b"x"], [b"exec"]))
        if path.name != ".git":
            return path.name != "config.worktree" and _of_other_worktree(path.parent)
        there = Path(os.fsdecode(_line(path)).removeprefix("gitdir: "))
        known = there.parent.parent in self.repositories.values()
        known = known and there in now.repositories.values() and _of_other_worktree(there)
        return known and _line(there / "gitdir") == os.fsencode(path)

    def _put_repositories_back(self, now: Steering) -> set[Path]:
        """One that was moved to its place; a new one loses its HEAD, without which it is none."""
        named: set[Path] = set()
        for one, here in now.repositories.items():
            there = self.repositories.get(one, here)
            if there != here:
                named.add(there)
                self._clear(there)
                with suppress(OSError):
                    there.parent.mkdir(parents=True, exist_ok=True)
                    here.rename(there)
            elif one not in self.repositories and here not in self.repositories.values():
                head = here / "HEAD"
                with suppress(OSError):
                    old = not self.whole and head.lstat().st_ctime <= self.started
                    if old or _of_other_worktree(here):
                        continue
                    named.add(here)
                    self._clear(head)
                    if here.name.casefold() == ".git":  # else git stumbles over it
                        self._clear(here)
        return named

    def _now(self) -> Steering:
        now = Steering(self.project, self.writes, {})
        for path in now._all(inf if self.whole else _MOST_LOOKED_AT):
            with suppress(OSError):
                now.files[path] = (b"", path.lstat())
        if hidden := now.closed - self.closed:
            self.closed |= hidden
            for folder in map(Path, hidden):
                with suppress(OSError):
                    folder.chmod(0o700)
            return self._now()
        return now

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except OSError as error:
            self.closed |= {folder} if isinstance(error, PermissionError) else set()
        return []

    def _clear(self, path: Path) -> None:
        """Move aside what stands in a path, and take away links and files that stand for its folders:
        what was looked at before was below real folders."""
        base = next((one for one in self.writes if path.is_relative_to(one)), self.project)
        with suppress(OSError):
            for place in [base / one for one in reversed(path.relative_to(base).parents[:-1])]:
                if place.is_symlink() or (place.exists() and not place.is_dir()):
                    _put_aside(place)
            held, before = self.files.get(path, (None, None))
            status = path.lstat()
            if before and stat.S_ISREG(status.st_mode) and held == _held(path, status) is not None:
                path.chmod(stat.S_IMODE(before.st_mode))  # nothing else was changed
            else:
                _put_aside(path)


def _put_aside(path: Path) -> None:
    for number in count():
        aside = path.with_name(f"{path.name}.aside{number or ''}")
        if not os.path.lexists(aside):
            path.rename(aside)
            return
        if _same(aside, _held(path, status := path.lstat()), status):
            path.unlink()  # kept already, as often as a command may try
            return


def _matters(name: str, inside: _In) -> bool:
    if inside == "skipped":
        return name.casefold() == ".git"
    if inside in ("git", "bare") and (name.startswith("config") or name in (_TODO, *_OF_WORKTREE)):
        return True
    if inside in ("project", "bare"):
        return named_to_steer(name) or holds_what_steers(name)
    return inside != "git" and (inside, name) != ("info", "refs")  # which git gc writes for servers


def _below(name: str, inside: _In) -> _In | None:
    """What is looked for in a folder of that name; None for nothing."""
    if name.casefold() == ".git":
        return "git"
    if inside in ("git", "bare") and name in ("hooks", "info"):
        return "info" if name == "info" else "steering"
    if inside == "settings":  # a home may lie there, which is written all the time
        return "steering" if name in ("agents", "rules", "skills") else None
    if inside == "skipped" or name in _SKIPPED:
        return "skipped"
    if name == ".lamina":
        return "settings"
    if inside == "steering" and name == "worktrees":
        return "project"  # where agents keep theirs, at work
    if inside == "project" and holds_what_steers(name):
        return "steering"
    return "project" if inside == "bare" else inside


def _of_other_worktree(folder: Path) -> bool:
    """Made beside the command, by git or an agent: it obeys the repository that it lies in."""
    place, common = folder.parent, folder / "commondir"
    there = place.name == "worktrees" and place.parent.name == ".git"
    return there and (_line(common) == b"../.." or not os.path.lexists(common))  # not yet


def _line(path: Path) -> bytes:
    with suppress(OSError):
        status = path.lstat()
        return (_held(path, status) or b"").strip() if stat.S_ISREG(status.st_mode) else b""
    return b""


def _held(path: Path, status: os.stat_result) -> bytes | None:
    """None: it can't be read, is too large or no file."""
    if stat.S_ISLNK(status.st_mode):
        return os.fsencode(os.readlink(path))
    with suppress(OSError):
        if stat.S_ISREG(status.st_mode) and status.st_size <= _LARGEST:
            return path.read_bytes()
    return None


def _same(path: Path, held: bytes | None, before: os.stat_result) -> bool:
    try:
        now = path.lstat()
        if (now.st_mode, now.st_size) != (before.st_mode, before.st_size):
            return False
        # The time of a change of any kind is the kernel's: no command sets it.
        untouched = (now.st_ino, now.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)
        return untouched or (_held(path, now) == held is not None)
    except OSError:
        return False


def _restored(path: Path, held: bytes | None, status: os.stat_result) -> str:
    """Why it could not be; "" if it was."""
    if _same(path, held, status):
        return ""
    if held is None:
        return "it was too large, or not to be read"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if stat.S_ISLNK(status.st_mode):
            path.symlink_to(os.fsdecode(held))
            return ""
        path.write_bytes(held)
        path.chmod(stat.S_IMODE(status.st_mode))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    except OSError as error:
        with suppress(OSError):
            path.unlink()  # half of it would be obeyed as well
        return str(error.strerror)
    return ""
