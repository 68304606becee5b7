"""Bash: runs a shell command in the project, inside the sandbox profile that the context names, with
the variables of the user's environment that hold no key.

The next command starts where the last one left off, as long as that is inside the project or the
session's own folder. Everything that a command starts ends with it. Output over a megabyte loses its
middle; layer 1 moves what is over its own threshold to disk.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import inf
from pathlib import Path

import anyio.to_thread

from lamina.errors import ToolError
from lamina.ledger.places import private_folder
from lamina.messages import Json
from lamina.ports import ToolContext, ToolOutcome, ToolSpec
from lamina.tools.permissions import steers
from lamina.tools.process import Command, Finished, run_command
from lamina.tools.sandbox import sandbox_for

SECONDS = 120
MOST_SECONDS = 600
CAP = 1_000_000  # bytes kept of the output
LONGEST_COMMAND = 100_000  # characters; Linux takes 128 KiB as one argument


def _spec(seconds: float, most: float) -> ToolSpec:
    return ToolSpec(
        name="Bash",
        description=(
            "Runs a command in bash and returns what it prints, stdout and stderr together, and its "
            "exit code if that is not 0. cd lasts until the next call. There is no input and no "
            "terminal. Processes left in the background are ended with the command. Depending on the "
            "session, writing outside of the project and the network may be blocked. Use Read, Grep, "
            "Glob and Edit rather than cat, grep, find and sed."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "maxLength": LONGEST_COMMAND},
                "timeout": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": most,
                    "description": f"Seconds until it is ended; {seconds:g} if not given.",
                },
                "description": {"type": "string", "description": "What it does, in a few words."},
            },
            "required": ["command"],
            "additionalProperties": False,
        },
        clearable=True,
        threshold=30_000,
        parallel=False,
    )


class Bash:
    def __init__(self, seconds: float = SECONDS, most: float = MOST_SECONDS) -> None:
        self._seconds = min(seconds, most)
        self.spec = _spec(self._seconds, most)

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        text: str = input["command"]
        if "\0" in text:
            raise ToolError("A command can't contain NUL.")
        command = await anyio.to_thread.run_sync(
            _prepare, text, float(input.get("timeout") or self._seconds), context
        )
        watched, places = (
            not context.attended and not context.reach,
            (context.project, context.writes),
        )
        kept = await anyio.to_thread.run_sync(Steering.of, *places) if watched else None
        back: list[str] = []
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
        told = (
            f"[{', '.join(back[:5])} put back as it was: nobody is here to allow changes to what runs "
            "or steers later. The user can, with the setting sandbox.unattended_reach.]"
        )
        return replace(outcome, content=f"{outcome.content}\n{told}", is_error=True)


def _prepare(text: str, timeout: float, context: ToolContext) -> Command:
    private_tmp = context.scratch / "tmp"
    try:
        private_folder(private_tmp)
    except OSError as error:
        raise ToolError(f"Can't make {private_tmp}: {error.strerror}.") from error
    if not context.cwd.is_dir():
        context.cwd = context.project  # the command before may have removed it
    env = dict(context.env)
    env.setdefault("PATH", os.defpath)
    env.update(TMPDIR=str(private_tmp), PAGER="cat", GIT_PAGER="cat", GIT_TERMINAL_PROMPT="0")
    env.update(TERM="dumb", PWD=str(context.cwd))
    reads = None if context.attended or context.reach else context.reads
    if reads is not None:
        # Git gives up on a configuration that it may not read; what it writes there goes with the rest.
        env["GIT_CONFIG_GLOBAL"] = str(private_tmp / "gitconfig")
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
    inner = f"trap '{{ pwd -P >&\"$LAMINA_REPORT\"; }} 2>/dev/null' EXIT\n{text}"
    return [bash, "--noprofile", "--norc", "-c", inner]


def _follow(report: bytes, context: ToolContext) -> str:
    """Keep the directory in which the command ended; says so in words where that is not allowed."""
    if not report.endswith(b"\n"):
        return ""
    place = Path(os.fsdecode(report.splitlines()[-1]))
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
_OF_GIT = ("hooks", "info")  # of a repository; its objects, refs and index are records
_OF_WORKTREE = ("commondir", "gitdir", "config.worktree")  # by them git finds its settings
_MOST_LOOKED_AT = 100_000  # entries; a walk must not cost more than the command


@dataclass(slots=True)
class Steering:
    """The files of a project that something runs or obeys later, as they were before a command."""

    project: Path
    writes: Sequence[Path]  # of its repository, by a commit in a worktree
    files: dict[Path, tuple[bytes, int]]  # what a file holds, or a link names, and its mode
    whole: bool = True  # were all looked at?

    @classmethod
    def of(cls, project: Path, writes: Sequence[Path] = (), most: float | None = None) -> Steering:
        found = cls(Path(os.path.realpath(project)), writes, {})
        for path in found._all(_MOST_LOOKED_AT if most is None else most):
            with suppress(OSError):
                mode = path.lstat().st_mode
                linked = os.fsencode(os.readlink(path)) if stat.S_ISLNK(mode) else b""
                if linked or stat.S_ISREG(mode):
                    found.files[path] = (linked or path.read_bytes(), mode)
        return found

    def _all(self, most: float) -> Iterator[Path]:
        looked_at = 0
        yield from (folder / one for folder in self.writes for one in _OF_WORKTREE)
        for folder, folders, names in os.walk(self.project):
            here = Path(folder)
            looked_at += len(names) + len(folders)
            if looked_at > most:
                self.whole = False
                return
            links = [one for one in folders if (here / one).is_symlink()]
            folders[:] = [one for one in folders if one not in _SKIPPED and one not in links]
            folders.sort(key=lambda one: not one.startswith("."))  # those that steer come first
            if ".git" in here.parts[len(self.project.parts) :]:
                top = here.name == ".git" or here.parent.name == "modules"
                folders[:] = [one for one in folders if not top or one in (*_OF_GIT, "modules")]
                names = [one for one in names if not top or one.startswith("config")]  # noqa: PLW2901
            elif here.name == ".lamina":
                folders[:] = []  # a home may lie there; settings are its files
            yield from (here / one for one in [*names, *links] if steers(here / one, self.project))

    def put_back(self) -> list[str]:
        """Undo every change to them; the names of those that were changed. However many files the
        command has made, none hides behind them."""
        now = Steering.of(self.project, self.writes, inf if self.whole else None).files
        changed = [one for one in {**self.files, **now} if self.files.get(one) != now.get(one)]
        for path in changed:
            with suppress(OSError):
                path.unlink()
            with suppress(OSError):
                self._restore(path)
        return [os.path.relpath(path, self.project) for path in changed]

    def _restore(self, path: Path) -> None:
        if path not in self.files:
            return
        content, mode = self.files[path]
        path.parent.mkdir(parents=True, exist_ok=True)
        if stat.S_ISLNK(mode):
            path.symlink_to(os.fsdecode(content))
        else:
            path.write_bytes(content)
            path.chmod(stat.S_IMODE(mode))


OWN_KEYS = frozenset({"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"})
OWN_PREFIX = "LAMINA_"

# By the words of a name. Not TOKENS, which counts them (MAX_TOKENS), nor AUTH before another word
# (SSH_AUTH_SOCK), nor PWD alone, which is a directory.
_HOLDS_A_KEY = re.compile(
    r"(?:^|_)(?:[A-Z0-9]*(?:TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|APIKEY)"
    r"|(?:ACCESS|PRIVATE|SECRET)?KEYS?|PASS|PAT|JWT|BEARER|COOKIES?|DSN)(?:_|$)"
    r"|_(?:AUTH|PWD)$",
    re.IGNORECASE,
)


def for_commands(environ: Mapping[str, str], passed: Iterable[str] = ()) -> dict[str, str]:
    """The variables that commands get; `passed` names those that only look like keys, by pattern."""
    wanted = tuple(passed)
    return {
        name: value
        for name, value in environ.items()
        if name not in OWN_KEYS
        and not name.startswith(OWN_PREFIX)
        and (not _HOLDS_A_KEY.search(name) or any(fnmatchcase(name, one) for one in wanted))
    }
