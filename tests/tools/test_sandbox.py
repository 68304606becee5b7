"""The kernel sandbox, tried with real processes: the tricks that get round lesser ones fail here."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from lamina.errors import ToolError
from lamina.events import Warned
from lamina.messages import text_of
from lamina.tools import bash, sandbox
from lamina.tools.bash import Steering
from lamina.tools.sandbox import (
    SYSTEM_CALLS,
    Sandbox,
    available,
    filter_program,
    sandbox_for,
    spawn,
)

if TYPE_CHECKING:
    from tests.tools.conftest import Bench

    from lamina.tools.process import Command, Finished

Meanwhile = Callable[..., Awaitable[str]]

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.spec("F7"),
    pytest.mark.skipif(available() is not None, reason=f"no sandbox: {available()}"),
]

PYTHON = sys.executable

# Each tries to change $OUT (a file outside, holding "kept"), or to make $DIR/new beside it.
TRICKS = {
    "redirection": "echo x > $OUT",
    "append": "echo x >> $OUT",
    "make": "touch $DIR/new",
    "directory": "mkdir $DIR/new",
    "tee": "echo x | tee $OUT",
    "remove": "rm -f $OUT",
    "move over": "echo x > mine; mv -f mine $OUT",
    "move away": "mv $OUT mine",
    "move the directory": "mv $DIR moved",
    "truncate": "truncate -s 0 $OUT",
    "open to truncate": f"{PYTHON} -c \"import os; os.open('$OUT', os.O_RDONLY | os.O_TRUNC)\"",
    "symbolic link": "ln -s $OUT link; echo x > link",
    "link to a directory": "ln -s $DIR link; touch link/new",
    "link made there": "ln -s /etc/passwd $DIR/new",
    "hard link in": "ln $OUT mine; echo x > mine",
    "hard link out": "echo x > mine; ln mine $DIR/new",
    "root of a process": "echo x > /proc/self/root/$OUT",
    "directory of a process": "cd $DIR; echo x > /proc/self/cwd/new",
    "descriptor again": "exec 9<$OUT; echo x > /proc/self/fd/9",
    "root of the parent": "echo x > /proc/$PARENT/root$OUT",
    "memory of the parent": "echo x > /proc/$PARENT/mem && echo x > $OUT",
    "python": f"{PYTHON} -c \"open('$OUT', 'w').write('x')\"",
    "python in a thread": (
        f"{PYTHON} -c \"import threading; t = threading.Thread(target=lambda: open('$OUT', 'w'));"
        't.start(); t.join()"'
    ),
    "perl": "perl -e 'open(F, \">\", $ENV{OUT}) or exit 1; print F \"x\"'",
    "awk": "awk 'BEGIN { print \"x\" > ENVIRON[\"OUT\"] }'",
    "sed in place": "sed -i s/kept/x/ $OUT",
    "find": "find $DIR -name kept -delete",
    "git": "git init -q $DIR/new",
    "tar": "echo x > new; tar cf - new | tar xf - -C $DIR",
    "copy": "echo x > mine; cp mine $OUT",
    "install": "echo x > mine; install mine $OUT",
    "dd": "echo x | dd of=$OUT",
    "background": "(sleep 0.1; echo x > $OUT) & wait",
    "left in the background": "(echo x > $OUT) & disown",
    "own session": "setsid -w bash -c 'echo x > $OUT'",
    "no environment": "env -i bash -c \"echo x > $OUT\"",
    "another shell": "sh -c 'echo x > $OUT'",
    "a command by exec": "exec bash -c 'echo x > $OUT'",
    "new namespace": "unshare -rm bash -c 'echo x > $OUT'",
    "bind mount": "mkdir m; mount --bind $DIR m && touch m/new",
    "change of root": "chroot / bash -c \"echo x > $OUT\"",
    "device": "mknod disk b 8 0 && echo x > disk",
    "pipe outside": "mkfifo $DIR/new",
    "rename by exchange": (
        f'{PYTHON} -c "import ctypes, os; open(\'mine\', \'w\').write(\'x\');'
        "c = ctypes.CDLL(None); c.renameat2(-100, b'mine', -100, b'$OUT', 2)\""
    ),
    "copy by the kernel": (
        f"{PYTHON} -c \"import os; s = os.open('/etc/passwd', 0); os.copy_file_range(s,"
        " os.open('$OUT', os.O_WRONLY), 3)\""
    ),
    "temporary directory": "TMPDIR=$DIR mktemp",
}  # fmt: skip


@pytest.fixture
def outside(bench: Bench) -> Path:
    directory = bench.root / "outside"
    directory.mkdir()
    (directory / "kept").write_text("kept")
    bench.context.env = {
        **bench.context.env,
        "DIR": str(directory),
        "OUT": str(directory / "kept"),
        "PARENT": str(os.getpid()),
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }
    return directory


def untouched(directory: Path) -> bool:
    entries = [(entry.name, entry.read_text()) for entry in directory.iterdir()]
    return entries == [("kept", "kept")] and directory.stat().st_nlink == 2


@pytest.mark.parametrize("profile", ["workspace", "read-only"])
@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS)
async def test_no_trick_writes_outside(
    bench: Bench, outside: Path, trick: str, profile: str
) -> None:
    bench.context.sandbox = profile  # type: ignore[assignment]
    await bench.shell(trick)
    assert untouched(outside)


WORK_WITHOUT = [
    *("redirection", "truncate", "symbolic link", "hard link in", "python", "own session"),
    *("no environment", "rename by exchange", "copy by the kernel", "root of a process", "tar"),
]


@pytest.mark.parametrize("trick", WORK_WITHOUT)
async def test_the_same_tricks_do_write_without_a_sandbox(
    bench: Bench, outside: Path, trick: str
) -> None:
    bench.context.sandbox = "full"
    await bench.shell(TRICKS[trick])
    assert not untouched(outside)


async def test_workspace_allows_work_in_project_and_private_tmp(bench: Bench) -> None:
    shown = await bench.text(
        "Bash",
        command=(
            "echo a > a && mkdir d && mv a d/b && ln d/b c && ln -s c l && chmod +x c && rm d/b && "
            "t=$(mktemp) && echo x > $t && mv $t d/ && "
            "echo gone > /dev/null && git init -q . && cat c && echo fine"
        ),
    )
    assert shown == "a\nfine"


@pytest.mark.spec("L1.5")
async def test_workspace_keeps_the_rest_of_the_sessions_folder_as_it_is(bench: Bench) -> None:
    result = bench.context.scratch / "tool-results" / "call.txt"
    result.parent.mkdir()
    result.write_text("whole")
    for command in ("echo x > $F", "rm $F", "mv $F $F.old", "ln $F $TMPDIR/l", "echo x > $F.new"):
        await bench.error("Bash", command=command.replace("$F", str(result)))
    assert result.read_text() == "whole"
    assert list(result.parent.iterdir()) == [result]


async def test_read_only_reads_everything_and_writes_nothing(bench: Bench) -> None:
    (bench.project / "a").write_text("hello\n")
    bench.context.sandbox = "read-only"
    assert await bench.text("Bash", command="cat a; ls /etc/passwd") == "hello\n/etc/passwd"
    for command in (
        *("echo x > a", "rm a", "touch b", "mktemp", "chmod 777 a", "chown 1 a", "touch -d @1 a"),
        *(f"{PYTHON} -c \"import os; os.setxattr('a', 'user.x', b'1')\"", "truncate -s 0 a"),
    ):
        assert (await bench.shell(command)).is_error, command
    assert (bench.project / "a").read_text() == "hello\n"
    assert os.listdir(bench.project) == ["a"]


async def test_the_parent_can_not_be_looked_into_or_signalled(bench: Bench, outside: Path) -> None:
    for profile in ("workspace", "read-only"):
        bench.context.sandbox = profile
        for command in (
            "cat /proc/$PARENT/environ",
            "kill -0 $PARENT",
            "readlink /proc/$PARENT/fd/0",
        ):
            assert (await bench.shell(command)).is_error, command


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Listeners on TCP and UDP, a Unix socket by name and an abstract one."""
    monkeypatch.chdir(tmp_path)
    tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(type=socket.SOCK_DGRAM)
    unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    with tcp, udp, unix, abstract:
        udp.bind(("127.0.0.1", 0))
        unix.bind("sock")
        abstract.bind(f"\0lamina-{os.getpid()}")
        unix.listen()
        abstract.listen()
        yield {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1]}


def reach(ports: dict[str, int], root: Path) -> dict[str, str]:
    """For each kind of socket a program that says `reached` if it could use it."""
    head = "from socket import *; import os; "
    programs = {
        "tcp": f"create_connection(('127.0.0.1', {ports['tcp']}), 5)",
        "udp": f"socket(AF_INET, SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {ports['udp']}))",
        "tcp6": "socket(AF_INET6, SOCK_STREAM)",
        "listen": "create_server(('127.0.0.1', 0))",
        "unix": f"os.chdir('{root}'); socket(AF_UNIX).connect('sock')",
        "abstract": f"socket(AF_UNIX).connect(b'\\0lamina-{os.getpid()}')",
        "raw": "socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)",
        "packet": "socket(AF_PACKET, SOCK_RAW)",
        "vsock": "socket(AF_VSOCK, SOCK_STREAM)",
        "uring": "import ctypes; c = ctypes.CDLL(None, use_errno=True); "
        "assert c.syscall(425, 8, ctypes.create_string_buffer(120)) >= 0",
        "pair": "one, other = socketpair(); one.send(b'x')",
    }
    return {
        name: f"{PYTHON} -I -c \"{head}{code}; print('reached')\""
        for name, code in programs.items()
    }


@pytest.mark.parametrize(
    ("profile", "network", "reached"),
    [
        ("read-only", True, {"pair"}),
        ("workspace", False, {"pair"}),
        ("workspace", True, {"pair", "tcp", "udp", "tcp6", "listen"}),
    ],
)
async def test_sockets_are_cut_as_the_profile_says(
    bench: Bench,
    servers: dict[str, int],
    tmp_path: Path,
    profile: str,
    network: bool,
    reached: set[str],
) -> None:
    bench.context.sandbox = profile  # type: ignore[assignment]
    bench.context.network = network
    got = {
        name
        for name, command in reach(servers, tmp_path).items()
        if "reached" in text_of((await bench.shell(command)).content)
    }
    assert got == reached


async def test_without_a_sandbox_the_same_programs_reach_their_sockets(
    bench: Bench, servers: dict[str, int], tmp_path: Path
) -> None:
    bench.context.sandbox = "full"
    for name in ("tcp", "udp", "unix", "abstract"):
        outcome = await bench.shell(reach(servers, tmp_path)[name])
        assert outcome.content == "reached", name


async def test_root_loses_the_powers_that_would_undo_the_sandbox(bench: Bench) -> None:
    shown = await bench.text(
        "Bash", command="grep -E 'NoNewPrivs|CapEff|Seccomp:' /proc/self/status"
    )
    values = dict(line.split(":\t") for line in shown.splitlines())
    assert values["NoNewPrivs"] == "1"
    assert values["Seccomp"] == "2"
    effective = int(values["CapEff"], 16)
    assert not effective & (1 << 21 | 1 << 16 | 1 << 17 | 1 << 19 | 1 << 27 | 1 << 39)


def test_the_own_process_keeps_all_its_powers(tmp_path: Path) -> None:
    start = lambda: subprocess.Popen(["/bin/true"])  # noqa: E731
    assert spawn(Sandbox(), start).wait() == 0
    (tmp_path / "still").write_text("writable")
    socket.socket().close()
    names = [thread.name for thread in threading.enumerate()]
    assert "lamina-sandbox" not in names


def test_a_command_that_can_not_start_is_reported_to_the_caller() -> None:
    with pytest.raises(FileNotFoundError):
        spawn(Sandbox(), lambda: subprocess.Popen(["/no/such/program"]))


async def test_where_the_kernel_has_no_sandbox_nothing_runs_unprotected(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: "this kernel has no Landlock")
    assert "can't be sandboxed here" in await bench.error("Bash", command="touch x")
    assert not (bench.project / "x").exists()
    bench.context.sandbox = "full"
    await bench.text("Bash", command="touch x")


@pytest.mark.parametrize(
    ("attribute", "value", "word"),
    [
        ("_abi", lambda: -1, "has no Landlock"),
        ("_abi", lambda: 1, "version 1; 3"),
    ],
)
def test_an_old_kernel_is_named_as_the_reason(
    monkeypatch: pytest.MonkeyPatch, attribute: str, value: object, word: str
) -> None:
    monkeypatch.setattr(sandbox, attribute, value)
    reason = available.__wrapped__()
    assert reason is not None
    assert word in reason


def test_profiles(tmp_path: Path) -> None:
    def made(profile: str) -> Sandbox | None:
        return sandbox_for(
            profile,  # type: ignore[arg-type]
            project=tmp_path,
            private_tmp=tmp_path / "t",
            network=True,
        )

    assert made("full") is None
    assert made("read-only") == Sandbox((), network=False, metadata=False)
    workspace = made("workspace")
    assert workspace is not None
    assert (workspace.network, workspace.metadata, len(workspace.writable)) == (True, True, 2)


@pytest.mark.parametrize("machine", SYSTEM_CALLS)
def test_every_filter_is_a_whole_program(machine: str) -> None:
    sizes = {
        len(filter_program(machine, network=network, metadata=metadata))
        for network in (True, False)
        for metadata in (True, False)
    }
    assert len(sizes) == 4
    assert all(size % 8 == 0 and size // 8 < 4_096 for size in sizes)


def test_a_broken_set_up_is_an_error_and_not_a_weaker_sandbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox, "_prctl", lambda *_: -1)
    with pytest.raises(ToolError, match="could not be set up"):
        spawn(Sandbox(), lambda: subprocess.Popen(["/bin/true"]))


# ---- with nobody there to ask


@pytest.fixture
def alone(bench: Bench) -> Bench:
    bench.context.attended = False
    return bench


async def test_alone_a_command_reads_the_project_and_the_system_and_nothing_else(
    alone: Bench,
) -> None:
    (alone.root / "private.txt").write_text("CANARY")
    (alone.context.project / "mine.txt").write_text("mine")
    memory = alone.root / "memory"
    memory.mkdir()
    (memory / "user_role.md").write_text("a nurse")
    alone.context.reads = (memory,)
    outcome = await alone.shell(
        f"cat {alone.root}/private.txt; ls {alone.root}; cat mine.txt /etc/hostname {memory}/*.md; "
        f"{PYTHON} -c 'print(6 * 7)'; git --version"
    )
    text = text_of(outcome.content)
    assert "CANARY" not in text
    assert "private.txt" not in text.replace("/private.txt", "")
    assert all(one in text for one in ("mine", "a nurse", "42", "git version"))
    alone.context.reach = True
    assert "CANARY" in text_of((await alone.shell(f"cat {alone.root}/private.txt")).content)


async def test_alone_a_rebase_that_stops_goes_on_later(alone: Bench) -> None:
    identity = "-c user.name=a -c user.email=a@b"
    commits = f"for n in 1 2 3; do git {identity} commit -q --allow-empty -m $n; done"
    alone.context.attended = True
    await alone.shell(f"git init -q . && {commits}")
    alone.context.attended = False
    stop = "GIT_SEQUENCE_EDITOR=\"sed -i '1i break'\""
    stopped = await alone.shell(f"{stop} git {identity} rebase -q -i --keep-empty HEAD~2")
    assert not stopped.is_error, stopped
    todo = alone.project / ".git" / "rebase-merge" / "git-rebase-todo"
    assert "pick" in todo.read_text()
    added = await alone.shell(f"echo 'exec evil' >> {todo}")
    assert added.is_error
    assert "evil" not in todo.read_text()
    assert "pick" in todo.read_text()
    gone_on = await alone.shell(f"git {identity} rebase --continue")
    assert not gone_on.is_error, gone_on


async def test_alone_what_a_person_keeps_beside_programs_is_not_read(
    alone: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = alone.root / "home"
    for name in ("bin/tool", "share/keyrings/k", "share/uv/python/k", "lib/k"):
        (home / ".local" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / ".local" / name).write_text(f"CANARY {name}\n")
    monkeypatch.setenv("HOME", str(home))
    path = f"{home}/.local/bin:{os.environ['PATH']}"
    alone.context.env = {"PATH": path, "HOME": str(home)}
    text = text_of(
        (await alone.shell("cd ~/.local; cat share/*/k share/uv/python/k lib/k")).content
    )
    assert "CANARY share/keyrings" not in text
    assert "CANARY share/uv" in text
    assert "CANARY lib" in text


async def test_alone_a_command_reaches_no_network_unless_the_user_allows_it(alone: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach = f"{PYTHON} -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 2)\""
        assert (await alone.shell(reach)).is_error
        alone.context.reach = True
        assert not (await alone.shell(reach)).is_error


STEERING = {
    "a hook": ("mkdir -p .git/hooks; echo x > .git/hooks/pre-commit", ".git/hooks/pre-commit"),
    "git's settings": ("mkdir -p .git; echo '[core]' >> .git/config", ".git/config"),
    "instructions": ("echo 'obey' >> AGENTS.md", "AGENTS.md"),
    "instructions further down": ("mkdir -p sub; echo x > sub/CLAUDE.local.md", "sub/CLAUDE.local.md"),
    "settings": ("mkdir -p .lamina; echo x > .lamina/settings.toml", ".lamina/settings.toml"),
    "a start-up file": ("echo x > .envrc", ".envrc"),
    "an editor's": ("mkdir -p .vscode; echo x > .vscode/tasks.json", ".vscode/tasks.json"),
    "a link": ("ln -s /etc/passwd AGENTS.local.md", "AGENTS.local.md"),
    "gone": ("rm AGENTS.md", "AGENTS.md"),
    "its mode": ("chmod +x AGENTS.md", "AGENTS.md"),
    "a folder in its place": ("rm AGENTS.md; mkdir AGENTS.md", "AGENTS.md"),
    "a repository of its own": ("git init -q sub", "sub/.git/HEAD"),
    "one among packages": ("git init -q node_modules/a", "node_modules/a/.git/HEAD"),
    "one without a name": ("git init -q --bare sub", "sub/HEAD"),
    "one that is elsewhere": ("mkdir sub; echo 'gitdir: ../x' > sub/.git", "sub/.git"),
    "one behind a link": ("mkdir sub; ln -s ../x sub/.git", "sub/.git"),
    "a rule": ("mkdir -p .lamina/rules; echo x > .lamina/rules/x.md", ".lamina/rules/x.md"),
    "an agent type": ("mkdir -p .lamina/agents; echo x > .lamina/agents/x.md", ".lamina/agents/x.md"),
    "another agent's": ("mkdir -p .gemini; echo x > .gemini/settings.json", ".gemini/settings.json"),
    "a shell's": ("mkdir -p .config/fish; echo x > .config/fish/config.fish", ".config/fish/config.fish"),
    "a package manager's": ("echo x > .npmrc", ".npmrc"),
    "a container's": ("echo x > .devcontainer.json", ".devcontainer.json"),
    "a skill": ("mkdir -p x/skills; echo x > x/skills/SKILL.md", "x/skills/SKILL.md"),
    "a compiler's": ("mkdir .cargo; echo x > .cargo/config.toml", ".cargo/config.toml"),
    "what a rebase runs": (
        "mkdir -p .git/rebase-merge; echo 'exec x' > .git/rebase-merge/git-rebase-todo",
        ".git/rebase-merge/git-rebase-todo",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", STEERING)
async def test_alone_what_runs_or_steers_later_is_put_back(alone: Bench, change: str) -> None:
    command, name = STEERING[change]
    project = alone.context.project
    (project / "AGENTS.md").write_text("be kind\n")
    (project / "AGENTS.md").chmod(0o644)
    outcome = await alone.shell(f"{command}; echo plain > plain.txt")
    assert outcome.is_error
    assert name.removesuffix("/HEAD") in text_of(outcome.content)
    assert "sandbox.unattended_reach" in text_of(outcome.content)
    assert (project / "AGENTS.md").read_text() == "be kind\n"
    assert (project / "AGENTS.md").stat().st_mode & 0o777 == 0o644
    assert name == "AGENTS.md" or not os.path.lexists(project / name)
    assert (project / "plain.txt").exists()


def git(folder: Path, *words: str) -> str:
    """The user's own."""
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# What git obeys in a folder: a file says where the settings are, and a setting names a program.
OBEYED = {
    "fsmonitor": "git -C sub config core.fsmonitor 'touch {mark};'",
    "a filter": "git -C sub config filter.x.clean 'touch {mark}; cat'; echo '* filter=x' > sub/.gitattributes",
    "an include": "git -C sub config include.path ../../evil; printf '[core]\nfsmonitor = touch {mark};' > evil",
    "settings elsewhere": "git -C sub config core.fsmonitor 'touch {mark};'; mv sub/.git sub/git; echo 'gitdir: git' > sub/.git",
}  # fmt: skip


@pytest.mark.parametrize("place", ["sub", "node_modules/sub"])
@pytest.mark.parametrize("way", OBEYED)
async def test_alone_no_command_leaves_what_the_users_own_git_status_would_run(
    alone: Bench, way: str, place: str
) -> None:
    project, mark = alone.context.project, alone.root / "ran"
    git(project, "init", "-q")
    git(project, "commit", "-q", "--allow-empty", "-m", "first")
    commit = "git -c user.name=a -c user.email=a@b"
    await alone.shell(
        f"mkdir -p {place}; cd {place}/..; git init -q sub; echo a > sub/a; git -C sub add a; "
        f"{commit} -C sub commit -qm x; {OBEYED[way].format(mark=mark)}; echo b > sub/a; cd {project}; "
        f"git update-index --add --cacheinfo 160000,$(git -C {place} rev-parse HEAD),{place}"
    )
    assert place in git(project, "ls-files", "-s"), "a commit may be prepared; it is no program"
    for folder in (project, project / place):
        git(folder, "status")
    assert not mark.exists()


async def test_alone_a_link_in_place_of_a_folder_leads_nothing_outside(alone: Bench) -> None:
    project, home = alone.context.project, alone.root / "home"
    for folder, text in ((home, "mine"), (project / "sub", "theirs")):
        folder.mkdir()
        (folder / ".bashrc").write_text(text)
    await alone.shell(f"mv sub other; ln -s {home} sub")
    assert (home / ".bashrc").read_text() == "mine"
    assert (project / "sub" / ".bashrc").read_text() == "theirs"
    assert not (project / "sub").is_symlink()


async def test_alone_a_repository_that_a_command_moved_is_whole_again(alone: Bench) -> None:
    project = alone.context.project
    git(project, "init", "-q")
    git(project, "commit", "-q", "--allow-empty", "-m", "first")
    for command in (
        "mv .git away",
        "mkdir sub; mv .git sub; git init -q",
        "mv .git x; echo > .git",
    ):
        await alone.shell(command)
        assert git(project, "log", "--format=%s") == "first\n", command


async def test_alone_a_worktree_gets_no_submodules_settings_from_a_command(alone: Bench) -> None:
    own = alone.root / "git" / "worktrees" / "one"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..")
    alone.context.writes = (own,)
    outcome = await alone.shell(
        f"git init -q --bare {own}/modules/sub; echo x > {own}/commondir; echo 1 > {own}/index"
    )
    assert outcome.is_error
    assert (own / "commondir").read_text() == "../.."
    assert not (own / "modules" / "sub" / "config").exists()
    assert not (own / "modules" / "sub" / "HEAD").exists()
    assert (own / "index").exists(), "what a commit writes stays"


async def test_alone_a_commit_stays_and_looking_at_a_repository_changes_nothing(
    alone: Bench,
) -> None:
    project = alone.context.project
    (project / "a").write_text("a")
    git(project, "init", "-q")
    outcome = await alone.shell(
        "git add a; git -c user.name=a -c user.email=a@b commit -qm x && touch a && git status && git diff"
    )
    assert not outcome.is_error
    assert git(project, "log", "--format=%s") == "x\n"


async def test_alone_what_was_there_already_is_no_new_file_however_large_the_project(
    alone: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bash, "_MOST_LOOKED_AT", 5)
    monkeypatch.setattr(bash, "_CLOCKS_TICK", -60)  # all that is here was made long ago
    project = alone.context.project
    for name in ("a", "b", "c"):
        (project / name).mkdir()
        (project / name / "AGENTS.md").write_text("be kind")
        (project / f"{name}.txt").touch()  # more than is looked at, and less after the command
    outcome = await alone.shell("rm *.txt")
    assert not outcome.is_error
    assert all((project / name / "AGENTS.md").exists() for name in ("a", "b", "c"))


async def test_alone_nothing_that_steers_later_hides_behind_many_files(
    alone: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bash, "_MOST_LOOKED_AT", 30)
    project, many = alone.context.project, "for i in $(seq 40); do echo > f$i; done"
    hook = "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit"
    outcome = await alone.shell(f"{hook}; echo x > AGENTS.md; {many}")
    assert "put back" in text_of(outcome.content)
    assert not (project / ".git" / "hooks" / "pre-commit").exists()
    assert not (project / "AGENTS.md").exists()
    assert (project / "f40").exists()


async def test_with_a_person_or_by_their_settings_such_files_may_change(bench: Bench) -> None:
    await bench.shell("echo x > .envrc")
    bench.context.attended = False
    bench.context.reach = True
    await bench.shell("echo x > AGENTS.md")
    assert (bench.context.project / ".envrc").exists()
    assert (bench.context.project / "AGENTS.md").exists()


# ---- what somebody else does in the project while such a command runs


@pytest.fixture
def meanwhile(alone: Bench, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Runs a command alone; the user does something in the project before it ends."""
    run = bash.run_command

    async def both(act: Callable[[], object], command: str = "true") -> str:
        async def after_it(one: Command) -> Finished:
            finished = await run(one)
            act()
            return finished

        monkeypatch.setattr(bash, "run_command", after_it)
        return text_of((await alone.shell(command)).content)

    return both


USERS = ["AGENTS.md", ".vscode/settings.json", ".git/config", ".git/hooks/pre-commit"]


@pytest.mark.parametrize("name", USERS)
@pytest.mark.parametrize("before", ["the old one", None])
async def test_alone_what_the_user_writes_meanwhile_is_kept_beside(
    alone: Bench, meanwhile: Meanwhile, name: str, before: str | None
) -> None:
    file = alone.project / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if before is not None:
        file.write_text(before)
    told = await meanwhile(lambda: file.write_text("an hour's work"))
    assert name in told
    assert ".aside" in told
    (warned,) = [one.message for one in alone.events if isinstance(one, Warned)]
    assert name in warned, "the user is told too, not only the model"
    assert file.with_name(f"{file.name}.aside").read_text() == "an hour's work"
    assert (file.read_text() if file.exists() else None) == before
    for text in ("an hour's work", "more work"):
        await meanwhile(lambda text=text: file.write_text(text))
    kept = sorted(one.read_text() for one in file.parent.glob("*.aside*"))
    assert kept == ["an hour's work", "more work"], "each once"


async def test_alone_what_was_not_seen_of_a_huge_project_is_kept_as_the_user_left_it(
    alone: Bench, meanwhile: Meanwhile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bash, "_MOST_LOOKED_AT", 0)
    file = alone.project / "AGENTS.md"
    file.write_text("the old one")
    await meanwhile(lambda: file.write_text("an hour's work"))
    found = [one.read_text() for one in alone.project.glob("AGENTS.md*")]
    assert found == ["an hour's work"]


async def test_a_command_that_can_write_nothing_undoes_nobodys_work(
    alone: Bench, meanwhile: Meanwhile
) -> None:
    alone.context.sandbox = "read-only"
    file = alone.project / "AGENTS.md"
    assert "put back" not in await meanwhile(lambda: file.write_text("an hour's work"))
    assert file.read_text() == "an hour's work"


async def test_alone_what_is_no_file_or_not_readable_stays_where_it_is(
    alone: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = alone.project / ".vscode"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "closed.json").write_text("mine")
    read = Path.read_bytes

    def refused(path: Path) -> bytes:
        if path.name == "closed.json":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refused)  # root may read everything
    assert not (await alone.shell("true")).is_error
    assert sorted(one.name for one in folder.iterdir()) == ["closed.json", "pipe"]


async def test_alone_a_folder_that_vanishes_meanwhile_ends_no_command(
    alone: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(alone.project, "init", "-q", "sub")
    look = Steering._entries

    def then_gone(self: Steering, folder: str) -> list[os.DirEntry[str]]:
        found = look(self, folder)
        if folder.endswith("sub/.git"):
            shutil.rmtree(folder)
        return found

    monkeypatch.setattr(Steering, "_entries", then_gone)
    assert "hello" in text_of((await alone.shell("echo hello")).content)


async def test_alone_a_file_that_can_not_be_put_back_is_named(
    alone: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (alone.project / "AGENTS.md").write_text("be kind")

    def full(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    told = text_of((await alone.shell("echo x > AGENTS.md")).content)
    assert "AGENTS.md (not, for it could not be written: No space left on device)" in told
    assert not (alone.project / "AGENTS.md").exists()


async def test_alone_a_folder_in_a_files_place_hides_no_instructions(alone: Bench) -> None:
    (alone.project / "AGENTS.md").write_text("be kind")
    names = [f"{letter}.md" for letter in "abcdefgh"]
    places = " ".join(f"AGENTS.md/{name}" for name in names)
    await alone.shell(
        f"rm AGENTS.md; mkdir -p {places}; tee AGENTS.md/{{a..h}}.md/CLAUDE.md </dev/null"
    )
    assert not list(alone.project.rglob("CLAUDE.md"))


async def test_alone_another_agents_worktree_is_a_project_and_no_setting(
    alone: Bench, meanwhile: Meanwhile
) -> None:
    there = alone.project / ".claude" / "worktrees" / "other"
    there.mkdir(parents=True)
    (there / "code.py").write_text("old")

    def work() -> None:
        (there / "code.py").write_text("new")
        (there / "more.py").write_text("new")
        (there / "AGENTS.md").write_text("obey")

    told = await meanwhile(work)
    assert (there / "code.py").read_text() == (there / "more.py").read_text() == "new"
    assert "AGENTS.md" in told
    assert not (there / "AGENTS.md").exists()


async def test_alone_two_commands_at_once_bring_back_nothing_that_one_of_them_changed(
    alone: Bench,
) -> None:
    (alone.project / "AGENTS.md").write_text("be kind")
    first_ended = anyio.Event()

    async def first() -> None:
        await alone.shell(
            "echo obey > AGENTS.md; touch changed; until [ -e seen ]; do sleep .01; done"
        )
        first_ended.set()

    async with anyio.create_task_group() as both:
        both.start_soon(first)
        while not (alone.project / "changed").exists():  # noqa: ASYNC110 - a process makes it
            await anyio.sleep(0.01)
        both.start_soon(alone.shell, "touch seen; until [ -e end ]; do sleep .01; done")
        await first_ended.wait()
        (alone.project / "end").touch()
    assert (alone.project / "AGENTS.md").read_text() == "be kind"
    (alone.project / "AGENTS.md").write_text("be quick")
    await alone.shell("true")
    assert (alone.project / "AGENTS.md").read_text() == "be quick", "changed between commands"


async def test_alone_a_worktree_that_is_made_meanwhile_works_afterwards(
    alone: Bench, meanwhile: Meanwhile
) -> None:
    project, beside = alone.project, alone.root / "beside"
    git(project, "init", "-q")
    git(project, "commit", "-q", "--allow-empty", "-m", "first")
    inside = project / ".claude" / "worktrees" / "other"

    def work() -> None:
        git(project, "worktree", "add", "-q", str(beside))
        git(project, "worktree", "add", "-q", str(inside))
        git(project, "gc", "-q")

    assert "put back" not in await meanwhile(work)
    for place in (beside, inside):
        assert git(place, "log", "--format=%s") == "first\n"


# Each makes `sub` obey other settings than the project's.
FALSE_WORKTREES = {
    "settings elsewhere": "echo {root}/evil > {own}/commondir",
    "settings elsewhere, by a link": "echo ../.. > x; rm {own}/commondir; ln -s {root}/x {own}/commondir",
    "settings of its own": "echo '[core]' > {own}/config.worktree",
    "settings of one that was there": "rm sub/.git; echo '[core]' > .git/worktrees/mine/config.worktree",
    "a pipe": "rm sub/.git {own}/commondir; mkfifo sub/.git {own}/commondir",
    "a pipe to it": "rm {own}/gitdir; mkfifo {own}/gitdir",
    "no name": "printf 'gitdir: {root}/.git/worktrees/a\\0b' > sub/.git",
    "through a link": "ln -s . link; echo gitdir: {root}/link/.git/worktrees/sub > sub/.git",
    "of a repository of its own": "git init -q new; {commit}; git -C new worktree add -q {root}/other",
    "another's": "echo gitdir: {root}/.git/worktrees/mine > sub/.git",
}


@pytest.mark.parametrize("way", FALSE_WORKTREES)
async def test_alone_no_worktree_obeys_other_settings(alone: Bench, way: str) -> None:
    project = alone.project
    git(project, "init", "-q")
    git(project, "commit", "-q", "--allow-empty", "-m", "first")
    git(project, "worktree", "add", "-q", str(alone.root / "mine"))
    commit = "git -C new -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"
    named = {"root": project, "own": ".git/worktrees/sub", "commit": commit}
    outcome = await alone.shell(
        f"git worktree add -q {project}/sub; {FALSE_WORKTREES[way].format(**named)}"
    )
    assert "put back" in text_of(outcome.content)
    if way not in ("of a repository of its own", "settings of its own"):
        assert not (project / "sub" / ".git").exists()
    assert not (project / "other" / ".git").exists()
    assert not list(project.rglob("config.worktree"))
    assert git(alone.root / "mine", "log", "--format=%s") == "first\n"


async def test_alone_a_file_as_large_as_no_memory_is_put_aside_unread(alone: Bench) -> None:
    (alone.project / "AGENTS.md").write_text("be kind")
    for _ in range(2):
        await alone.shell(
            "truncate -s 8T AGENTS.md || truncate -s 1T AGENTS.md; truncate -s 1T .envrc"
        )
    assert (alone.project / "AGENTS.md").read_text() == "be kind"
    assert not (alone.project / ".envrc").exists()
