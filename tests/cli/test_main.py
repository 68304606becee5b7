"""The command itself: names, common options, exit codes, errors in one sentence, cold start."""

from __future__ import annotations

import argparse
import errno
import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from lamina.cli.main import COMMANDS, build_parser
from lamina.errors import GateRefused, LedgerError, SettingsError

Run = Callable[..., SimpleNamespace]


def command(name: str, run: Callable[[argparse.Namespace], int]) -> SimpleNamespace:
    return SimpleNamespace(EXAMPLES=f"lamina {name}", add_arguments=lambda parser: None, run=run)


@pytest.fixture
def install(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[argparse.Namespace], int]], None]:
    """A command `probe` that does what the test says."""

    def add(run: Callable[[argparse.Namespace], int]) -> None:
        monkeypatch.setitem(COMMANDS, "probe", ("probe_module", "try it"))
        monkeypatch.setitem(sys.modules, "probe_module", command("probe", run))  # type: ignore[arg-type]

    return add


@pytest.mark.spec("I2")
def test_a_project_that_never_was_is_named_and_one_that_is_gone_can_be_looked_at(
    lamina: Run, world: Path
) -> None:
    gone = world / "gone"
    for words in (["memory", "list"], ["sessions", "list"], ["dream", "--now"]):
        ran = lamina(*words, "--project", str(gone))
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert f"There is no directory {gone}" in ran.err
    gone.mkdir()
    assert lamina("memory", "add", "--project", str(gone), "Pelicans deploy on Fridays").code == 0
    gone.rmdir()
    ran = lamina("memory", "list", "--project", str(gone))
    assert ran.code == 0
    assert "elican" in ran.out


@pytest.mark.spec("I2")
def test_the_version_is_printed_without_loading_anything_else() -> None:
    code = (
        "import sys; before = set(sys.modules);"
        "from lamina.cli.main import main; code = main(['--version']);"
        "heavy = {'argparse', 'json', 'typing', 're', 'tomllib', 'asyncio', 'anyio', 'msgspec', 'rich', 'numpy',"
        "'prompt_toolkit', 'anthropic', 'openai', 'lamina.config'} & (set(sys.modules) - before);"
        "print(sorted(heavy)); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    version, heavy = done.stdout.splitlines()
    assert version.startswith("lamina 0.")
    assert heavy == "[]"


def test_importing_the_library_loads_nothing_heavy() -> None:
    code = (
        "import sys, lamina;"
        "sys.exit(bool({'numpy', 'anthropic', 'openai', 'rich', 'prompt_toolkit', 'mcp', 'dulwich',"
        "'tomlkit'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-I", "-c", code], timeout=60, check=False).returncode == 0
    )


@pytest.mark.spec("I2")
@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("agents types", "lamina.turn"),
        ("context", "lamina.state"),
        ("memory list", "lamina.ledger.record"),
        ("sessions list", "lamina.state"),
        ("spend", "lamina.ledger.record"),
    ],
)
def test_a_command_does_not_load_what_only_its_siblings_need(
    world: Path, words: str, part: str
) -> None:
    code = (
        "import sys; from lamina.cli.main import main; main(sys.argv[2:]);"
        "sys.exit(sys.argv[1] in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, part, *words.split(), "--home", str(world / "h")],
        cwd=world,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)


@pytest.mark.spec("I2")
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples_and_the_common_options(
    lamina: Run, name: str
) -> None:
    ran = lamina(name, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"lamina {name}" in ran.out.split("examples:")[1]
    for option in ("--home", "--project", "--json", "--claude", "--quiet"):
        assert option in ran.out


@pytest.mark.spec("I2")
def test_every_sub_command_takes_the_common_options_too() -> None:
    def parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
        children = [
            child
            for action in parser._actions
            if isinstance(action, argparse._SubParsersAction)
            for child in action.choices.values()
        ]
        return [parser, *(deeper for child in children for deeper in parsers(child))]

    for parser in parsers(build_parser(everything=True)):
        assert "--quiet" in parser.format_help()


def test_only_commands_that_exist_are_listed(lamina: Run) -> None:
    help_page = lamina().out
    assert help_page == lamina("--help").out
    for name, (module, _) in COMMANDS.items():
        assert re.search(rf"^    {name} +\w", help_page, re.MULTILINE)
        assert importlib.util.find_spec(module)


def test_common_options_count_before_and_after_the_command(lamina: Run, world: Path) -> None:
    for words in (("--home", "h", "settings", "path"), ("settings", "path", "--home", "h")):
        ran = lamina(*words, "--json")
        assert ran.json["user"] == str(world / "project" / "h" / "settings.toml")


@pytest.mark.spec("I2")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["setings"], "lamina: There is no command 'setings'. Did you mean `lamina settings`?\n"),
        (["zzz"], "lamina: There is no command 'zzz'. `lamina --help` lists the commands.\n"),
        (
            ["settings", "--bogus"],
            "lamina: Unknown argument --bogus. See `lamina settings --help`.\n",
        ),
        (
            ["mcp", "--only", "zzz"],
            (
                "lamina: Argument --only: invalid choice: 'zzz' (choose from 'recall', 'remember', "
                "'forget', 'why', 'inbox', 'sessions_search', 'expand', 'notes'). "
                "See `lamina mcp --help`.\n"
            ),
        ),
        (
            ["team", "token"],
            (
                "lamina: `lamina team token` needs one of: create, list, revoke. "
                "See `lamina team token --help`.\n"
            ),
        ),
        (
            ["memory", "lst"],
            "lamina: There is no `lamina memory lst`. Did you mean `lamina memory list`?\n",
        ),
        (
            ["dream", "zzz"],
            "lamina: There is no `lamina dream zzz`. `lamina dream --help` lists what there is.\n",
        ),
        (
            ["sessions", "list", "-n", "-3"],
            (
                "lamina: Argument -n/--number: '-3' is not a whole number, 0 or more. "
                "See `lamina sessions list --help`.\n"
            ),
        ),
        (["--home"], "lamina: Argument --home: expected one argument. See `lamina --help`.\n"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(
    lamina: Run, words: list[str], sentence: str
) -> None:
    ran = lamina(*words)
    assert (ran.code, ran.out, ran.err) == (2, "", sentence)


@pytest.mark.spec("I2")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LedgerError("The disk is\nfull."), 1),
        (SettingsError("The disk is full."), 2),
        (GateRefused("The disk is full."), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_an_error_becomes_its_sentence_and_its_exit_code(
    lamina: Run,
    install: Callable[[Callable[[argparse.Namespace], int]], None],
    error: BaseException,
    code: int,
) -> None:
    def fail(args: argparse.Namespace) -> int:
        raise error

    install(fail)
    before = signal.getsignal(signal.SIGINT)
    ran = lamina("probe")
    signal.signal(signal.SIGINT, before)
    assert ran.code == code
    assert ran.err in ("lamina: The disk is full.\n", "lamina: Interrupted.\n")


@pytest.mark.spec("I2")
def test_what_nobody_foresaw_is_a_sentence_and_a_log_never_a_traceback(
    lamina: Run, install: Callable[[Callable[[argparse.Namespace], int]], None], world: Path
) -> None:
    def fail(args: argparse.Namespace) -> int:
        raise ZeroDivisionError("by nobody")

    install(fail)
    ran = lamina("probe")
    assert ran.code == 1
    assert "Traceback" not in ran.err
    assert ran.err.count("\n") == 1
    (log,) = (world / "home" / "logs").iterdir()
    assert str(log) in ran.err
    assert "ZeroDivisionError: by nobody" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0
    elsewhere = lamina("probe", "--home", "/proc/nowhere")
    assert elsewhere.code == 1
    assert "Please report it" in elsewhere.err
    Path(elsewhere.err.rsplit(" ", 1)[1].strip().rstrip(".")).unlink()


@pytest.mark.spec("I2")
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ImportError("libz.so: cannot read", path="/usr/lib/libz.so"), "libz.so: cannot read"),
        (OSError(errno.EIO, "Input/output error", "/data/x"), "/data/x: Input/output error"),
        (MemoryError(), "not enough memory"),
    ],
)
def test_what_the_machine_did_is_not_called_a_bug(
    lamina: Run,
    install: Callable[[Callable[[argparse.Namespace], int]], None],
    world: Path,
    error: BaseException,
    says: str,
) -> None:
    def fail(args: argparse.Namespace) -> int:
        raise error

    install(fail)
    ran = lamina("probe")
    assert ran.code == 1
    assert says in ran.err
    assert "bug" not in ran.err
    assert ran.err.count("\n") == 1
    assert not (world / "home" / "logs").exists()


@pytest.mark.spec("I2")
def test_a_hash_that_cannot_be_loaded_shows_no_traceback(world: Path) -> None:
    program = (
        "import sys; sys.modules['_blake2'] = sys.modules['_hashlib'] = None\n"
        "sys.modules.pop('hashlib', None)\n"
        "from lamina.cli.main import main; sys.exit(main(['settings', 'get', 'model']))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in ran.stderr
    assert ran.returncode == 0 or ran.stderr.count("\n") == 1


def test_a_crash_log_does_not_repeat_what_the_user_asked(
    lamina: Run, install: Callable[[Callable[[argparse.Namespace], int]], None], world: Path
) -> None:
    from lamina.cli import crash

    crash.record(ValueError("x"), ["chat", "-p", "my secret plan", "--quiet"])
    (log,) = (world / "home" / "logs").iterdir()
    assert "my secret plan" not in log.read_text()
    assert "chat -p … --quiet" in log.read_text()


@pytest.mark.spec("I2")
def test_a_reader_that_leaves_early_is_no_error(world: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "lamina.cli.main", "settings", "--explain"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 0


@pytest.mark.spec("I2")
def test_an_interrupt_ends_a_command_with_130(world: Path) -> None:
    code = (
        "import sys, types; from lamina.cli import main as m;"
        # A pause that begins just after the signal came would last for ever; a loop hears it.
        "wait = lambda args: (print('ready', flush=True), any(one for one in iter(int, 1)))[1];"
        "sys.modules['w'] = types.SimpleNamespace(EXAMPLES='w', add_arguments=lambda p: None, run=wait);"
        "m.COMMANDS['w'] = ('w', 'waits'); sys.exit(m.main(['w']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.stderr.read() == b"lamina: Interrupted.\n"
        assert process.wait(60) == 130


@pytest.mark.spec("I2")
@pytest.mark.parametrize("words", ["gateway --port 0", "mcp --http 0", "team serve --port 0"])
def test_a_server_that_ctrl_c_ends_is_done(world: Path, words: str) -> None:
    pytest.importorskip("uvicorn", reason="the servers need lamina[team], lamina[gateway]")
    database = [f"--db=sqlite:///{world}/team.db"] if words.startswith("team") else []
    command = [sys.executable, "-m", "lamina.cli.main", *words.split(), *database]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        assert b"http://" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert b"Interrupted" not in process.stdout.read()
        assert process.wait(60) == 0


@pytest.mark.spec("I2")
def test_a_second_interrupt_on_the_way_out_shows_no_traceback(world: Path) -> None:
    program = """
import signal, sys
from lamina.cli import doctor, main
def interrupted(args): raise KeyboardInterrupt
doctor.run = interrupted
code = main.main(["doctor"])
signal.raise_signal(signal.SIGINT)  # as it were while Python waits for its threads
sys.exit(code)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr) == (-signal.SIGINT, "lamina: Interrupted.\n")


@pytest.mark.spec("I2")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", [["--version"], ["settings"], ["chat", "-p", "hi"]])
def test_output_that_can_not_be_written_is_one_sentence(world: Path, words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "lamina.cli.main", *words],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    said = "lamina: Can't write the output: No space left on device.\n"
    assert (ran.returncode, ran.stderr) == (1, said)
    assert not (world / "home" / "logs").exists()


@pytest.mark.spec("I2")
def test_streams_that_were_closed_from_the_start_are_no_fault(world: Path) -> None:
    command = f"{sys.executable} -m lamina.cli.main settings >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 0


@pytest.mark.spec("I3")
def test_whoever_comes_from_claude_code_is_told_of_its_memory(lamina: Run, world: Path) -> None:
    slug = str(world / "project").replace("/", "-").replace("_", "-").replace(".", "-")
    memory = world / ".claude" / "projects" / slug / "memory"
    memory.mkdir(parents=True)
    (memory / "MEMORY.md").write_text("- [db](db.md)\n")
    assert "Claude Code has" not in lamina().err
    (memory / "db.md").write_text("---\nname: db\n---\nThe database is PostgreSQL 16.\n")
    said = lamina().err
    assert "a memory of this project (1 file): `lamina memory list --claude " in said


@pytest.mark.spec("I2")
@pytest.mark.parametrize(
    "words",
    ["ui --port", "gateway --port", "mcp --http", "team serve --db postgresql://x/y --port"],
)
def test_a_port_that_cant_be_is_refused_in_the_same_words_everywhere(
    lamina: Run, words: str
) -> None:
    ran = lamina(*words.split(), "99999")
    assert ran.code == 2
    assert "99999 is not a port; the highest is 65535. See `lamina " in ran.err


@pytest.mark.spec("I2")
@pytest.mark.parametrize(
    "words",
    [
        ("sessions", "show", "{}"),
        ("chat", "-p", "hi", "--model", "scripted:{}"),
        ("settings", "{}"),
        ("{}",),
        ("memory", "show", "{}"),
    ],
)
def test_an_error_neither_steers_the_terminal_nor_fills_it(
    lamina: Run, words: tuple[str, ...]
) -> None:
    for odd in ("a\x1b[31m\x07b\nc", "x" * 100_000):
        ran = lamina(*(word.format(odd) for word in words))
        assert ran.code in (1, 2)
        assert not {"\x1b", "\x07"} & {*ran.err}
        assert len(ran.err) < 2_100
        assert ran.err.count("\n") == 1
        assert ran.err.endswith(".\n")
