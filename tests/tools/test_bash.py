"""Bash: output, exit codes, time limits, cancellation, the directory, and nothing left over."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from lamina.messages import text_of
from lamina.secrets.rules import for_commands
from lamina.tools.process import Capture, Command, marked, run_command, started_at
from lamina.tools.sandbox import Sandbox, available, spawn

if TYPE_CHECKING:
    from tests.tools.conftest import Bench

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F7")]


def alive(pid: int) -> bool:
    """Running, not merely waiting for its parent to take note of its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_output_of_both_streams_comes_in_order(bench: Bench) -> None:
    assert await bench.text("Bash", command="echo a; echo b >&2; echo c") == "a\nb\nc"


async def test_the_exit_code_is_in_the_text_and_the_meta(bench: Bench) -> None:
    outcome = await bench.shell("echo out; exit 3")
    assert outcome.is_error
    assert outcome.content == "out\n[Exit code 3.]"
    assert outcome.meta["exit_code"] == 3
    assert (await bench.shell("true")).content == "(no output)"


async def test_there_is_no_input_and_no_terminal(bench: Bench) -> None:
    assert await bench.text("Bash", command="cat; test -t 0 || echo none") == "none"


async def test_bytes_that_are_not_text_are_replaced(bench: Bench) -> None:
    assert await bench.text("Bash", command=r"printf 'a\377b'") == "a\ufffdb"


async def test_the_directory_lasts_inside_the_project_only(bench: Bench) -> None:
    await bench.text("Bash", command="mkdir -p sub/deep && cd sub/deep")
    assert await bench.text("Bash", command="pwd") == str(bench.project / "sub/deep")
    await bench.text("Bash", command=r"mkdir $'two\nlines' && cd $'two\nlines'")
    assert bench.context.cwd == bench.project / "sub/deep/two\nlines"
    assert "is outside" in await bench.text("Bash", command="cd /")
    assert await bench.text("Bash", command="pwd") == str(bench.project)


async def test_a_failing_command_still_moves_and_a_removed_directory_is_left(bench: Bench) -> None:
    await bench.shell("mkdir d && cd d && exit 7")
    assert bench.context.cwd == bench.project / "d"
    await bench.shell("rmdir ../d")
    assert await bench.text("Bash", command="pwd") == str(bench.project)


async def test_output_over_the_cap_keeps_head_and_tail(bench: Bench) -> None:
    outcome = await bench.shell(
        "echo begin; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo end"
    )
    text = text_of(outcome.content)
    assert text.startswith("begin\n")
    assert text.endswith("\nend")
    assert "bytes left out" in text
    assert len(text) < 1_000_200
    assert outcome.meta["omitted"] == 5_000_011 - 1_000_000


async def test_a_command_over_its_time_is_ended_with_all_its_children(bench: Bench) -> None:
    outcome = await bench.shell("echo begun; sleep 1000 | sleep 1000", timeout=3)
    assert outcome.is_error
    assert outcome.meta["timed_out"]
    assert outcome.content == "begun\n[Ended after 3 seconds, its time limit.]"


@pytest.mark.parametrize(
    "start",
    [
        "sleep 1000 & echo $! > pid",
        "setsid sleep 1000 & echo $! > pid",
        "(setsid bash -c 'echo $$ > pid; exec sleep 99' &>/dev/null &); until [ -s pid ]; do :; done",
        "trap '' TERM; sleep 1000 & echo $! > pid",
    ],
)
async def test_what_a_command_leaves_in_the_background_ends_with_it(
    bench: Bench, start: str
) -> None:
    outcome = await bench.shell(start)
    assert not alive(int((bench.project / "pid").read_text()))
    assert "1 processes left in the background" in text_of(outcome.content)


@pytest.mark.skipif(bool(available()), reason="the kernel has no sandbox here")
@pytest.mark.parametrize(
    "start",
    [
        "env -i setsid -f sh -c 'echo $$ > pid; exec sleep 1000' &>/dev/null",
        "env -i sh -c '(setsid sh -c \"echo \\$\\$ > pid; sleep 1000\" &)' &>/dev/null",
    ],
)
async def test_what_takes_off_its_mark_and_leaves_the_group_ends_with_the_command(
    bench: Bench, start: str
) -> None:
    await bench.shell(f"{start}; until [ -s pid ]; do :; done")
    assert not alive(int((bench.project / "pid").read_text()))
    await bench.shell("true")
    children = Path("/proc/self/task").glob("*/children")
    states = [
        Path(f"/proc/{one}/stat").read_text()
        for file in children
        for one in file.read_text().split()
    ]
    assert not any(") Z " in one for one in states)  # all are buried


async def test_a_command_may_wait_until_one_that_it_orphaned_is_gone(bench: Bench) -> None:
    orphaned = "bash -c 'sleep 1000 &>/dev/null & echo $! > pid'; p=$(cat pid); kill $p"
    told = await bench.shell(
        f"{orphaned}; while kill -0 $p 2>/dev/null; do sleep .01; done; echo gone"
    )
    assert "gone" in text_of(told.content)


@pytest.mark.skipif(bool(available()), reason="the kernel has no sandbox here")
@pytest.mark.parametrize("new_session", [True, False])
async def test_what_the_host_started_itself_in_a_sandbox_lives_on(
    bench: Bench, new_session: bool
) -> None:
    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "1000"], start_new_session=new_session)

    host = spawn(Sandbox(), start)
    try:
        await bench.shell("env -i setsid -f sleep 1000")
        assert host.poll() is None
    finally:
        host.kill()
        host.wait()


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "])
async def test_cancelling_ends_the_whole_group_and_passes_through(bench: Bench, trap: str) -> None:
    pids = bench.project / "pids"
    command = f"{trap}(sleep 1000 & echo $! >> pids; wait) & echo $! >> pids; echo $$ >> pids; wait"
    finished = False

    async def work() -> None:
        nonlocal finished
        await bench.shell(command)
        finished = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        while not pids.exists() or len(pids.read_text().split()) < 3:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert not finished
    assert [pid for pid in map(int, pids.read_text().split()) if alive(pid)] == []


async def test_only_the_given_environment_reaches_a_command(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "hidden")
    bench.context.env = {**bench.context.env, "GIVEN": "yes"}
    shown = await bench.text("Bash", command="echo $GIVEN $SECRET_KEY; echo $TMPDIR")
    assert shown == f"yes\n{bench.context.scratch / 'tmp'}"


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"command": "x", "timeout": 601}, "at most 600"),
        ({"command": "x", "timeout": 0}, "above 0"),
        ({"command": ""}, "at least 1 characters"),
        ({"command": "a\0b"}, "NUL"),
        ({"cmd": "x"}, "`command` is missing"),
    ],
)
async def test_bad_input_is_said_in_words(
    bench: Bench, given: dict[str, object], word: str
) -> None:
    assert word in await bench.error("Bash", **given)


async def test_a_large_input_is_fed_while_output_is_taken(tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    finished = await run_command(
        Command(["/bin/cat"], tmp_path, {}, timeout=30, cap=8_000_000, stdin=data)
    )
    assert finished.out.whole() == data


async def test_a_command_that_does_not_read_its_input_is_no_trouble(tmp_path: Path) -> None:
    finished = await run_command(
        Command(["/bin/true"], tmp_path, {}, timeout=30, stdin=b"x" * 3_000_000)
    )
    assert finished.code == 0


async def test_a_command_that_said_enough_is_ended(tmp_path: Path) -> None:
    finished = await run_command(
        Command(["yes"], tmp_path, {"PATH": os.environ["PATH"]}, timeout=30, stop_at=100_000)
    )
    assert finished.enough
    assert not finished.timed_out


async def test_nothing_is_left_open_by_a_command_that_can_not_start(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(FileNotFoundError):
            await run_command(Command(["/no/such"], tmp_path, {}, timeout=1, report=True))
        await run_command(Command(["/bin/true"], tmp_path, {}, timeout=9, report=True, stdin=b""))
    assert len(os.listdir("/proc/self/fd")) <= before + 2  # the event loop keeps a pair


def test_a_mark_nobody_has_finds_nobody() -> None:
    assert marked("nobody-has-this") == []
    assert started_at(os.getpid()) > 0
    assert started_at(2**30) == 0


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 1_000])
@pytest.mark.parametrize("step", [1, 3, 1_000])
def test_a_capture_keeps_head_and_tail_and_counts_the_rest(size: int, step: int) -> None:
    data = bytes(n % 251 for n in range(size))
    capture = Capture(10)
    for at in range(0, size, step):
        capture.feed(data[at : at + step])
    head, tail = capture.parts()
    assert head == data[:5]
    assert len(head) + len(tail) + capture.omitted == size
    assert data.endswith(tail)


KEYS = """
GITHUB_TOKEN GH_TOKEN AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_SESSION_TOKEN HF_TOKEN
STRIPE_API_KEY STRIPE_KEY GEMINI_APIKEY NPM_TOKEN npm_config__auth npm_config_//r/:_authToken
PGPASSWORD MYSQL_PWD DB_PASS DB_PASSWORD CLIENT_SECRET DJANGO_SECRET_KEY SECRET TOKEN GITHUB_PAT
GOOGLE_APPLICATION_CREDENTIALS SENTRY_DSN GPG_PASSPHRASE SSH_PRIVATE_KEY SESSION_COOKIE MY_JWT
VAULT_TOKEN_OF_TEAM KEYS SIGNING_KEY KEYCHAIN_PW STRIPE_SK SLACK_WEBHOOK_URL DOCKER_AUTH_CONFIG
AZURE_STORAGE_CONNECTION_STRING GOOGLE_SERVICE_ACCOUNT_JSON
"""
NO_KEYS = """
PATH HOME LANG LC_ALL USER SHELL TERM TZ PWD OLDPWD SSH_AUTH_SOCK SSH_AGENT_PID SSH_ASKPASS
GIT_ASKPASS XAUTHORITY DBUS_SESSION_BUS_ADDRESS AWS_PROFILE AWS_REGION VIRTUAL_ENV PYTHONPATH
TOKENIZERS_PARALLELISM MAX_TOKENS KEYBOARD_LAYOUT MONKEY COMPASS_URL PATTERN HTTPS_PROXY CI EDITOR
PASSENGER_COUNT DATABASE_URL GOPATH AUTHOR PW_TEST_HTML_REPORT_OPEN
"""


@pytest.mark.spec("F7")
def test_commands_get_the_users_environment_without_keys() -> None:
    given = dict.fromkeys(
        [*KEYS.split(), *NO_KEYS.split(), "OPENAI_API_KEY", "LAMINA_TEAM_TOKEN"], "x"
    )
    assert sorted(for_commands(given)) == sorted(NO_KEYS.split())


@pytest.mark.spec("F7")
def test_an_address_with_a_password_is_a_key_but_for_this_machine_and_proxies() -> None:
    given = {
        "DATABASE_URL": "postgres://app:Fig-Leaf7@db.corp.example:5432/x",
        "PIP_INDEX_URL": "https://ci:s3cret@pypi.corp.example/simple",
        "REDIS_URL": "redis://:s3cret@cache:6379",
        "IRC_URL": "irc://anna:s3cret@localhost.chat.example",
        "TEST_DATABASE_URL": "postgres://app:app@localhost:5432/test",
        "https_proxy": "http://anna:s3cret@proxy:8080",
        "HOMEPAGE": "https://acme.org/a:b@c",
    }
    assert list(for_commands(given)) == ["TEST_DATABASE_URL", "https_proxy", "HOMEPAGE"]
    assert "DATABASE_URL" in for_commands(given, ["DATABASE_URL"])


@pytest.mark.spec("F7")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WEBHOOK_PORT", "8080"),
        ("WEBHOOK_HOST", "hooks.corp.example"),
        ("WEBHOOK_HOST", "example.com"),
        ("WEBHOOK_HOST", "localhost:9000"),
        ("KEY_SERVER", "10.0.0.12"),
        ("WEBHOOK_HOST", "[::1]:8080"),
        ("TOKEN_TTL", "604800"),
        ("TOKEN_LIFETIME", "15m"),
        ("COOKIE_SECURE", "true"),
        ("JWT_VERIFY", "off"),
        ("WEBHOOK_URL", "https://hooks.corp.example:8443/incoming/builds"),
        ("TOKEN_URL", "https://login.corp.example/oauth2/v1/token/"),
        ("DATABASE_DSN", "postgres://localhost:5432/shop"),
        ("DATABASE_URL", "postgres://db.corp.example:5432/shop"),
        ("REDIS_HOST", "cache-2.eu-west-1.corp.example"),
        ("PUBLIC_KEY_SERVER", "keys.openpgp.org"),
        ("EMPTY_TOKEN", ""),
        ("KEY_PREFIX", "shop"),
        ("SECRET_NAME", "shop-db-credentials"),
        ("PASSWORD_MIN_LENGTH", "12"),
        ("PRIMARY_KEY_TYPE", "uuid"),
        ("DB_PASSWORD_FILE", "/run/secrets/db_password"),
        ("DATABASE_URL", "postgres://postgres:postgres@db:5432/app"),
        ("EMPTY_PASSWORD", ""),
    ],
)
def test_a_value_that_can_be_no_secret_reaches_commands(name: str, value: str) -> None:
    assert for_commands({name: value}) == {name: value}


@pytest.mark.spec("F7")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DB_PASSWORD", "12345"),
        ("DB_PASSWORD_PROD", "12345"),
        ("DB_PASSWORD_TEST", "true"),
        ("PASS", "dragon.fire"),
        ("SMTP_PASS_2", "dragon.fire"),
        ("JWT_SECRET", "localhost"),
        ("SECRET_HOST_KEY", "abc.def"),
        ("STRIPE_KEY", "4711"),
        ("KEY_MASTER", "hunter.two"),
        ("KEY_NAME", "qwkjzpxvtr"),
        ("SECRET_SERVER", "Fig-Leaf7!"),
        ("DATABASE_URL", "postgres://app:app@db.corp.example/shop"),
        ("DATABASE_URL", "postgres://app:Fig-Leaf7@db/shop"),
        ("DOOR_TOKEN", "localhost"),
        ("API_KEY_LIVE", "9f8e7d6c5b4a39281706"),
        ("API_KEY_LIVE", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcDEF"),
        ("GITHUB_TOKEN_2", "ghp_0123456789abcdefABCDEF0123456789abcd"),
        ("TELEGRAM_TOKEN_BOT", "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"),
        ("WEBHOOK_URL", "https://hooks.slack.com/services/T01AB2CD3/B01AB2CD3/x1Y2z3A4b5C6"),
        ("WEBHOOK_URL", "https://hooks.zapier.com/hooks/catch/1234567/abcdef/"),
        ("WEBHOOK_URL", "https://discord.com/api/webhooks/123456789012345678/Abc-xyz"),
        ("WEBHOOK_URL", "https://eo1a2b3c4d5e6f.m.pipedream.net"),
        ("WEBHOOK_URL", "https://hooks.corp.example/qwkjzpxvtr"),
        ("WEBHOOK_URL", "https://hooks.corp.example/in?key=abc"),
        ("SENTRY_DSN", "https://0a1b2c3d@o12.ingest.sentry.io/34"),
        ("DATABASE_DSN", "app:Fig-Leaf7@tcp(db.corp.example:3306)/shop"),
        ("DATABASE_URL", "postgres://app:Fig-Leaf7@db.corp.example/shop"),
        ("SSH_PRIVATE_KEY", "/home/anna/.ssh/id_ed25519"),
    ],
)
def test_a_value_that_may_be_a_secret_does_not(name: str, value: str) -> None:
    assert for_commands({name: value}) == {}


@pytest.mark.spec("F7")
def test_listed_variables_are_passed_on_but_never_the_agents_own_keys() -> None:
    given = dict.fromkeys(
        [*KEYS.split(), "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "LAMINA_HOME"], "x"
    )
    assert list(for_commands(given, ["GITHUB_TOKEN", "AWS_*"])) == [
        *("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"),
    ]
    assert sorted(for_commands(given, ["*"])) == sorted(KEYS.split())


@pytest.mark.parametrize("command", ["echo out; exit 3", "sleep 1000", "sleep 1000 & echo out"])
async def test_a_kernel_without_process_descriptors_serves_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def refuse(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    env, timeout = {"PATH": os.environ["PATH"]}, 0.5 if command == "sleep 1000" else 60
    finished = await run_command(Command(["bash", "-c", command], tmp_path, env, timeout=timeout))
    assert finished.timed_out == (command == "sleep 1000")
    assert finished.out.whole() == (b"" if finished.timed_out else b"out\n")
    assert finished.code == {"e": 3, "s": -15 if finished.timed_out else 0}[command[0]]
