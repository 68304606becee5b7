"""Permission rules: deny over ask over allow over the default, by tool, real path and command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import SettingsError
from lamina.ports import Decision, ToolSpec
from lamina.tools.permissions import PermissionRules, make_permit, rough_parts, take_apart
from lamina.tools.registry import builtin_tools

if TYPE_CHECKING:
    from tests.tools.conftest import Bench

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F13", "F7")]

SPECS = {made.spec.name: made.spec for made in builtin_tools()}
HOST = ToolSpec("deploy", "Deploys.", {})
MCP = ToolSpec("mcp__files__write", "Writes.", {})
SPECS |= {HOST.name: HOST, MCP.name: MCP}


class Person:
    """Somebody who answers, and remembers the questions."""

    def __init__(self, *answers: Literal["once", "always", "no"]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, tool: str, question: str) -> Literal["once", "always", "no"]:
        self.asked.append((tool, question))
        await anyio.lowlevel.checkpoint()
        return self.answers.pop(0)


async def decide(
    bench: Bench,
    tool: str,
    *,
    sandboxed: bool = True,
    person: Person | None = None,
    deny: tuple[str, ...] = (),
    ask: tuple[str, ...] = (),
    allow: tuple[str, ...] = (),
    **given: Any,
) -> Decision:
    rules = PermissionRules.of(deny=deny, ask=ask, allow=allow)
    permit = make_permit(rules, ask=person, interactive=person is not None, sandboxed=sandboxed)
    return await permit(SPECS[tool], given, bench.context)


@pytest.mark.parametrize(
    ("tool", "given", "allowed"),
    [
        ("Read", {"file_path": "/etc/passwd"}, True),
        ("Grep", {"pattern": "x"}, True),
        ("Todo", {}, True),
        ("Write", {"file_path": "in.txt"}, True),
        ("Edit", {"file_path": "deep/in.txt"}, True),
        ("Write", {"file_path": "/etc/passwd"}, False),
        ("Write", {"file_path": "../out.txt"}, False),
        ("Write", {"file_path": ".git/hooks/pre-commit"}, False),
        ("Edit", {"file_path": ".lamina/settings.toml"}, False),
        ("Write", {"file_path": "AGENTS.md"}, False),
        ("Write", {"file_path": "deep/claude.local.md"}, False),
        ("Write", {"file_path": ".bashrc"}, False),
        ("Edit", {"file_path": ".vscode/tasks.json"}, False),
        *(
            ("Write", {"file_path": name}, False)
            for name in (
                ".gemini/settings.json",
                ".codex/config.toml",
                "opencode.json",
                ".opencode/plugin/x.js",
                ".github/copilot-instructions.md",
                ".windsurfrules",
                ".aider.conf.yml",
                ".zed/tasks.json",
                "p.code-workspace",
                ".lvimrc",
                ".vim/vimrc",
                ".tcshrc",
                ".login",
                ".xprofile",
                ".config/fish/config.fish",
                ".ssh/rc",
                ".hg/hgrc",
                "mise.toml",
                "lefthook.yml",
            )
        ),
        ("Write", {"file_path": "docs/agent.md"}, True),
        ("Write", {"file_path": "model.pth"}, True),
        ("Write", {"file_path": ".github/workflows/ci.yml"}, True),
        ("Bash", {"command": "anything"}, True),
        ("deploy", {}, True),
        ("mcp__files__write", {}, False),
    ],
)
async def test_with_nobody_there_writes_stay_in_the_project(
    bench: Bench, tool: str, given: dict[str, Any], allowed: bool
) -> None:
    decision = await decide(bench, tool, **given)
    assert decision.allow is allowed
    assert decision.reason


async def test_a_rule_of_the_users_opens_what_steers(bench: Bench) -> None:
    given = {"file_path": "AGENTS.md"}
    assert "Write(AGENTS.md)" in (await decide(bench, "Write", **given)).reason
    assert (await decide(bench, "Write", allow=("Write(AGENTS.md)",), **given)).allow
    assert (await decide(bench, "Write", person=Person("once"), **given)).allow


async def test_a_link_out_of_the_project_is_outside(bench: Bench) -> None:
    (bench.project / "link").symlink_to(bench.root)
    assert not (await decide(bench, "Write", file_path="link/x")).allow


async def test_an_unattended_shell_needs_the_sandbox_or_a_rule(bench: Bench) -> None:
    assert not (await decide(bench, "Bash", sandboxed=False, command="ls")).allow
    bench.context.sandbox = "full"
    assert not (await decide(bench, "Bash", command="ls")).allow
    assert (await decide(bench, "Bash", command="ls", allow=("Bash(ls:*)",))).allow


async def test_deny_over_ask_over_allow(bench: Bench) -> None:
    everything = {"allow": ("Write",), "ask": ("Write(src/**)",), "deny": ("Write(src/secret*)",)}
    person = Person("once")
    assert (await decide(bench, "Write", file_path="a", **everything)).allow
    asked = await decide(bench, "Write", file_path="src/a", person=person, **everything)
    assert asked.allow
    assert person.asked == [("Write", str(bench.project / "src/a"))]
    refused = await decide(bench, "Write", file_path="src/secret", person=person, **everything)
    assert refused == Decision(False, "the rule Write(src/secret*) denies it.")
    alone = await decide(bench, "Write", file_path="src/a", **everything)
    assert "Nobody is here to ask" in alone.reason


@pytest.mark.parametrize(
    ("rule", "path", "fits"),
    [
        ("Read(secrets)", "secrets", True),
        ("Read(secrets)", "secrets/deep/key", True),
        ("Read(secrets/**)", "secrets/deep/key", True),
        ("Read(**/.env)", ".env", True),
        ("Read(**/.env)", "a/b/.env", True),
        ("Read(.env)", "a/.env", False),
        ("Read(*)", "a/b", True),
        ("Read(*)", "../out", False),
        ("Read(../out)", "../out", True),
        ("Read(~/.ssh/**)", "~/.ssh/id", True),
        ("Read(/**)", "/etc/passwd", True),
        ("Read(linked/**)", "target/x", True),
        ("Read(target/**)", "linked/x", True),
        ("Read(*.{pem,key})", "a.key", True),
        ("Grep(src)", "src", False),
        ("R*", "x", True),
        ("*", "x", True),
    ],
)
async def test_globs_are_about_real_paths(
    bench: Bench, rule: str, path: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(bench.root))
    (bench.project / "target").mkdir()
    (bench.project / "linked").symlink_to("target")
    bench.toolbox.get("Read")
    prepared = bench.toolbox.get("Read").prepare({"file_path": path}, bench.context)  # type: ignore[union-attr]
    decision = await decide(bench, "Read", deny=(rule,), **prepared)
    assert decision.allow is not fits


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git status", True),
        ("git   status", True),
        ("git status && git log -3", True),
        ("git log --oneline | head -5", True),
        ("git log 2>/dev/null; git status 2>&1", True),
        ("git log --format='%h %s'", True),
        ("'git' log", True),
        ("git log\ngit status", True),
        ("git push", False),
        ("git status; rm -rf x", False),
        ("git status & rm x", False),
        ("git status | tee out", False),
        ("git log > file", False),
        ("git log >> file", False),
        ("git log < file", False),
        ("git log $(rm x)", False),
        ("git log `rm x`", False),
        ('git log "$(rm x)"', False),
        ("git log <(rm x)", False),
        ("git log ${x:-$(rm x)}", False),
        ("git log \\; rm x", False),
        ("git log 'unclosed", False),
        ("(git log)", False),
        ("{ git log; }", False),
        ("if git log; then git status; fi", False),
        ("PAGER=evil git log", False),
        ("$GIT log", False),
        ("eval git log", False),
        ("git 'log x'", False),
        ("git\\\nlog", False),
        ("git log # comment", False),
        ("git log <<EOF\nEOF", False),
        ("git logs", False),
        ("", False),
    ],
)
async def test_a_command_is_allowed_only_if_each_part_is(
    bench: Bench, command: str, allowed: bool
) -> None:
    decision = await decide(
        bench,
        "Bash",
        sandboxed=False,
        command=command,
        allow=("Bash(git status)", "Bash(git log:*)", "Bash(head *)"),
    )
    assert decision.allow is allowed


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf x",
        "ls; rm x",
        "ls && rm x",
        "echo $(rm x)",
        "echo `rm x`",
        "sudo rm x",
        "FOO=1 rm x",
        "bash -c 'rm x'",
        'bash -c "ls; rm x"',
        "if true; then rm x; fi",
        "r'm' x",
        'r"m" x; (',
        "xargs rm x",
        "(rm x)",
        "ls\nrm x",
    ],
)
async def test_a_denied_command_is_denied_wherever_it_hides(bench: Bench, command: str) -> None:
    decision = await decide(bench, "Bash", command=command, deny=("Bash(rm *)",), allow=("Bash",))
    assert not decision.allow


async def test_asking_is_the_default_when_somebody_is_there(bench: Bench) -> None:
    person = Person("no", "once", "once", "once")
    refused = await decide(bench, "Write", person=person, file_path="a")
    assert not refused.allow
    assert "the user said no" in refused.reason
    for tool, call in [("Bash", {"command": "ls"}), ("deploy", {"to": "x"}), (MCP.name, {})]:
        assert (await decide(bench, tool, person=person, **call)).allow
    assert person.asked[1:] == [("Bash", "ls"), ("deploy", "to='x'"), (MCP.name, "")]
    assert (await decide(bench, "Read", person=person, file_path="a")).allow


async def test_always_is_remembered_for_the_session_and_no_wider(bench: Bench) -> None:
    person = Person("always", "always", "always", "no", "no", "no")
    permit = make_permit(PermissionRules(), ask=person, interactive=True, sandboxed=True)

    async def may(tool: str, **given: Any) -> bool:
        return (await permit(SPECS[tool], given, bench.context)).allow

    assert await may("Write", file_path="a")
    assert await may("Write", file_path="b")
    assert await may("Write", file_path="/tmp/x")
    assert await may("Bash", command="make")
    assert await may("Bash", command="make")
    assert len(person.asked) == 3
    assert not await may("Bash", command="make install")
    assert not await may("Write", file_path="/tmp/y")
    assert not await may("Edit", file_path="a")


async def test_parallel_calls_are_asked_one_after_the_other(bench: Bench) -> None:
    person = Person("always")
    permit = make_permit(PermissionRules(), ask=person, interactive=True, sandboxed=True)
    decisions: list[bool] = []

    async def call(name: str) -> None:
        decisions.append((await permit(SPECS["Write"], {"file_path": name}, bench.context)).allow)

    async with anyio.create_task_group() as tasks:
        for name in ("a", "b", "c"):
            tasks.start_soon(call, name)
    assert decisions == [True] * 3
    assert len(person.asked) == 1


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [("mcp__files__*", True), ("mcp__files", True), ("mcp__*", True), ("mcp__other__*", False)],
)
async def test_rules_for_servers(bench: Bench, rule: str, allowed: bool) -> None:
    assert (await decide(bench, MCP.name, allow=(rule,))).allow is allowed


@pytest.mark.parametrize("text", ["", "Read(", "Read()", "deploy(x)", "a b", "Read(x) y", "(x)"])
def test_a_rule_that_can_not_be_read_is_named(text: str) -> None:
    with pytest.raises(SettingsError, match="rule"):
        PermissionRules.of(deny=[text])


@given(st.text("a ;&|\n'\"\\$(){}<>#`=", max_size=30))
def test_any_text_is_taken_apart_or_called_unclear(text: str) -> None:
    parts = take_apart(text)
    if parts.clear:
        assert parts.commands
        assert all(command.strip() for command in parts.commands)
    rough_parts(text)


# ---- reading with nobody there to ask


@pytest.fixture
def alone(bench: Bench) -> Bench:
    """A project beside something private, with links out of it."""
    private = bench.root / "private"
    private.mkdir()
    (private / "key.txt").write_text("CANARY")
    (bench.project / "mine.txt").write_text("mine CANARY")
    (bench.project / "folder").symlink_to(private)
    (bench.project / "file.txt").symlink_to(private / "key.txt")
    bench.context.attended = False
    bench.context.permit = make_permit(
        PermissionRules.of(), ask=None, interactive=False, sandboxed=True
    )
    return bench


OUTSIDE = (
    ("Read", {"file_path": "{root}/private/key.txt"}),
    ("Read", {"file_path": "../private/key.txt"}),
    ("Read", {"file_path": "sub/../../private/key.txt"}),
    ("Read", {"file_path": "file.txt"}),
    ("Read", {"file_path": "folder/key.txt"}),
    ("Read", {"file_path": "~/private/key.txt"}),
    ("Read", {"file_path": "{root}/private/missing.txt"}),
    ("Read", {"file_path": "{root}/project-twin/key.txt"}),
    ("Grep", {"pattern": "CANARY", "path": "{root}", "output_mode": "content"}),
    ("Grep", {"pattern": "CANARY", "path": ".."}),
    ("Grep", {"pattern": "CANARY", "path": "folder"}),
    ("Grep", {"pattern": "CANARY", "path": "file.txt", "output_mode": "content"}),
    ("Grep", {"pattern": "CANARY", "path": "/"}),
    ("Glob", {"pattern": "**/key.txt", "path": "{root}"}),
    ("Glob", {"pattern": "{root}/private/*"}),
    ("Glob", {"pattern": "../**/key.txt"}),
    ("Glob", {"pattern": "~/private/*"}),
    ("Glob", {"pattern": "*", "path": "folder"}),
)


@pytest.mark.parametrize(("tool", "given"), OUTSIDE)
async def test_alone_nothing_outside_the_project_is_read(
    alone: Bench, monkeypatch: pytest.MonkeyPatch, tool: str, given: dict[str, str]
) -> None:
    monkeypatch.setenv("HOME", str(alone.root))
    given = {key: value.replace("{root}", str(alone.root)) for key, value in given.items()}
    said = await alone.error(tool, **given)
    assert "CANARY" not in said
    assert "nobody is here to ask" in said
    assert "permissions.allow" in said
    assert "sandbox.unattended_reach" in said


@pytest.mark.parametrize(
    ("tool", "given"),
    [("Read", {"file_path": "{root}/private/key.txt"}), ("Glob", {"pattern": "{root}/private/*"})],
)
async def test_the_user_may_let_it_read_elsewhere(
    alone: Bench, tool: str, given: dict[str, str]
) -> None:
    given = {key: value.replace("{root}", str(alone.root)) for key, value in given.items()}
    rule = f"{tool}({alone.root}/private)"
    allowed = await decide(alone, tool, allow=(rule,), **given)
    assert allowed.allow
    alone.context.reach = True
    assert (await alone.text(tool, **given)).count("key.txt") + 1


async def test_alone_a_search_from_the_project_follows_no_link_out_of_it(alone: Bench) -> None:
    said = await alone.text("Grep", pattern="CANARY", output_mode="content")
    assert said == "mine.txt:1:mine CANARY"
    assert await alone.text("Glob", pattern="**/*.txt") == "mine.txt"


async def test_alone_what_a_session_needs_is_read(alone: Bench) -> None:
    places = [alone.root / "memory", alone.root / "sessions"]
    for place in places:
        place.mkdir()
        (place / "kept.txt").write_text("kept")
    alone.context.reads = places
    for place in (*places, alone.project):
        assert "kept" in await alone.text("Read", file_path=str(places[0] / "kept.txt"))
        assert "txt" in await alone.text("Glob", pattern="*", path=str(place))
    assert await alone.text("Read", file_path="/etc/passwd")
    assert await alone.text("Glob", pattern="*.conf", path="/etc")


async def test_a_person_at_work_is_not_held_back(alone: Bench) -> None:
    alone.context.attended = True
    assert "CANARY" in await alone.text("Read", file_path=str(alone.root / "private" / "key.txt"))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no such files here")
@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Read", {"file_path": "/proc/self/environ"}),
        ("Grep", {"pattern": "PATH", "path": "/proc/self/environ"}),
        ("Grep", {"pattern": "PATH", "path": "/proc"}),
        ("Glob", {"pattern": "/proc/*/environ"}),
    ],
)
async def test_what_processes_hold_is_no_file(
    alone: Bench, tool: str, given: dict[str, str]
) -> None:
    for attended in (False, True):
        alone.context.attended = attended
        assert "window into the system" in await alone.error(tool, **given)
