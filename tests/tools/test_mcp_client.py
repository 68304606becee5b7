"""MCP servers as a client: real servers of the same package, as processes, over both transports; and
for what goes wrong with a server one that speaks the older protocol by itself, since it starts at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from tests.wire.server import nobodys_port

from lamina.events import Warned
from lamina.messages import text_of
from lamina.ports import Tool, ToolOutcome
from lamina.tools.mcp_client import McpServer, McpServers, connect, server_of, tool_name
from lamina.tools.registry import Toolbox

if TYPE_CHECKING:
    from tests.tools.conftest import Bench

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F7")]

SERVER = '''
import os, sys, time
from mcp.server import MCPServer
from mcp.types import ImageContent, TextContent, EmbeddedResource, TextResourceContents

server = MCPServer("shop", instructions="Prices are in euros.")

@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b

@server.tool()
def fail(why: str) -> str:
    """Fails."""
    raise ValueError(why)

@server.tool()
def pid() -> int:
    return os.getpid()

@server.tool()
def show() -> list:
    """Shows a picture."""
    return [TextContent(type="text", text="look"),
            ImageContent(type="image", data="aGk=", mime_type="image/png"),
            ImageContent(type="image", data="aGk=", mime_type="image/tiff"),
            EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///a", text="in a"))]

@server.tool()
def flood() -> str:
    return "x" * 1_500_000

@server.tool()
def env() -> str:
    return os.environ.get("GIVEN", "") + os.environ.get("SECRET_KEY", "")

print("a word on stderr", file=sys.stderr)
if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run("stdio")
'''

PLAIN = """
import json, os, sys

ADD = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
TOOLS = [{"name": n, "inputSchema": ADD if n == "add" else {"type": "object"}}
         for n in ("add", "die", "hang", "pid")]

def call(name, arguments={}):
    if name == "die":
        os._exit(3)
    value = os.getpid() if name == "pid" else arguments["a"] + arguments["b"]
    return {"content": [{"type": "text", "text": str(value)}]}

def result(method, params):
    if method == "initialize":
        about = {"name": "shop", "version": "1"}
        return {**params, "capabilities": {"tools": {}}, "serverInfo": about}
    return {"tools": TOOLS} if method == "tools/list" else call(params["name"], params["arguments"])

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked or asked.get("params", {}).get("name") == "hang":
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] in ("initialize", "tools/list", "tools/call"):
        answer["result"] = result(asked["method"], asked.get("params", {}))
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def plain_script(tmp_path: Path) -> Path:
    path = tmp_path / "plain.py"
    path.write_text(PLAIN)
    return path


@pytest.fixture
def plain(plain_script: Path) -> McpServer:
    return McpServer("my shop", sys.executable, [str(plain_script)])


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "shop.py"
    path.write_text(SERVER)
    return path


@pytest.fixture
def stdio(script: Path) -> McpServer:
    given = {"GIVEN": "yes"}
    return McpServer("my shop", sys.executable, [str(script)], given, seconds_to_connect=300)


class Shop:
    """An agent's toolbox with a server's tools."""

    def __init__(self, bench: Bench, tools: Sequence[Tool]) -> None:
        self.toolbox = Toolbox(tools)
        self.context = bench.context

    async def call(self, tool: str, **given: Any) -> ToolOutcome:
        return await self.toolbox.run(f"mcp__my_shop__{tool}", given, self.context)

    async def text(self, tool: str, **given: Any) -> str:
        return text_of((await self.call(tool, **given)).content)


async def test_a_servers_tools_work_like_any_other(
    bench: Bench,
    stdio: McpServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SECRET_KEY", "hidden")
    async with McpServers([stdio], bench.events.append) as mcp:
        shop = Shop(bench, await mcp.arrived(60))
        assert mcp.instructions == {"my shop": "Prices are in euros."}
        specs = {spec.name: spec for spec in shop.toolbox.specs()}
        assert list(specs) == sorted(specs)
        add = specs["mcp__my_shop__add"]
        assert add.description == "Adds two numbers."
        assert not add.clearable
        assert not add.read_only
        assert await shop.text("add", a=2, b=3) == "5"
        assert "`b` is missing" in await shop.text("add", a=2)
        failed = await shop.call("fail", why="no stock")
        assert failed.is_error
        assert "fail" in text_of(failed.content)
        assert await shop.text("env") == "yes"
        flood = await shop.text("flood")
        assert len(flood) < 1_001_000
        assert "characters left out" in flood
        shown = (await shop.call("show")).content
        assert shown == [
            {"type": "text", "text": "look"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
            },
            {"type": "text", "text": "[image content, not shown]"},
            {"type": "text", "text": "file:///a:\nin a"},
        ]
    assert "a word on stderr" not in capfd.readouterr().err
    assert bench.events == []


async def test_a_server_that_dies_is_said_and_started_again_once(
    bench: Bench, plain: McpServer
) -> None:
    async with McpServers([plain], bench.events.append) as mcp:
        shop = Shop(bench, await mcp.arrived(60))
        first = int(await shop.text("pid"))
        with anyio.fail_after(30):
            died = await shop.call("die")
        assert died.is_error
        assert "ended or can't be reached" in text_of(died.content)
        second = int(await shop.text("pid"))
        assert second != first
        os.kill(second, signal.SIGKILL)
        outcomes = [await shop.text("add", a=1, b=1), await shop.text("add", a=1, b=1)]
        assert "ended or can't be reached" in outcomes[0]
        assert outcomes[1] == "2"


async def test_calls_can_be_cancelled_or_take_too_long_and_servers_end_with_the_session(
    bench: Bench, plain: McpServer, plain_script: Path
) -> None:
    async with McpServers([plain], bench.events.append) as mcp:
        shop = Shop(bench, await mcp.arrived(60))
        pid = int(await shop.text("pid"))
        with anyio.move_on_after(0.2) as scope:
            await shop.call("hang")
        assert scope.cancelled_caught
        object.__setattr__(plain, "seconds_to_answer", 0.2)
        assert "did not answer within 0.2 s" in await shop.text("hang")
        object.__setattr__(plain, "seconds_to_answer", 60)
        assert int(await shop.text("pid")) == pid
        plain_script.write_text("raise SystemExit(1)")
        await shop.call("die")
        for _ in range(2):
            outcome = await shop.call("add", a=1, b=1)
            assert outcome.is_error
            assert "The MCP server my shop can't be used" in text_of(outcome.content)
    assert not os.path.exists(f"/proc/{pid}")


async def test_servers_that_can_not_be_used_are_left_out_and_the_others_serve(
    bench: Bench, plain: McpServer
) -> None:
    bad = [
        (McpServer("gone", "/no/such/program"), "can't be used"),
        (McpServer("mute", "sleep", ["1000"], seconds_to_connect=0.3), "did not answer"),
        (McpServer("quits", "false"), "can't be used"),
        (McpServer("babble", "echo", ["not json"]), "can't be used"),
        (McpServer("closed", url="http://127.0.0.1:1/mcp"), "can't be used"),
    ]
    servers = [*(server for server, _ in bad), plain, plain]
    with anyio.fail_after(60):
        async with McpServers(servers, bench.events.append) as mcp:
            assert await Shop(bench, await mcp.arrived(60)).text("add", a=1, b=1) == "2"
    said = [event.message for event in bench.events if isinstance(event, Warned)]
    for server, word in bad:
        assert [m for m in said if server.name in m and word in m], server.name
    assert any("exists twice" in message for message in said)


async def test_nothing_waits_for_a_silent_server_and_its_tools_join_when_it_answers(
    bench: Bench, tmp_path: Path
) -> None:
    go, slow = tmp_path / "go", tmp_path / "slow.py"
    os.mkfifo(go)
    slow.write_text(f"open({str(go)!r}).read()\n{PLAIN}")
    late = McpServer("late", sys.executable, [str(slow)])
    with anyio.fail_after(60):
        async with McpServers([late], bench.events.append) as mcp:
            assert [await mcp.arrived(0) for _ in range(2)] == [[], []]
            (said,) = [event.message for event in bench.events if isinstance(event, Warned)]
            assert "late has not answered yet" in said
            await anyio.to_thread.run_sync(go.write_text, "")
            names = [tool.spec.name for tool in await mcp.arrived(60)]
            assert "mcp__late__add" in names
            assert await mcp.arrived(60) == []
        assert len(bench.events) == 1


async def test_a_server_that_prints_on_stdout_serves_and_is_told_of_once(
    bench: Bench, plain_script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plain_script.write_text(PLAIN.replace("    print(", "    print('noise')\n    print("))
    server = McpServer("my shop", sys.executable, [str(plain_script)])
    async with McpServers([server], bench.events.append) as mcp:
        assert await Shop(bench, await mcp.arrived(60)).text("add", a=1, b=1) == "2"
    said = [event.message for event in bench.events if isinstance(event, Warned)]
    assert len(said) == 1
    assert "my shop prints on stdout" in said[0]
    assert capfd.readouterr().err == ""


@pytest.fixture
def http(script: Path) -> Iterator[McpServer]:
    command = [sys.executable, str(script)]
    with (
        nobodys_port() as port,
        subprocess.Popen([*command, str(port)], stderr=subprocess.DEVNULL) as process,
    ):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None
        yield McpServer("my shop", url=f"http://127.0.0.1:{port}/mcp", headers={"X-Key": "k"})
        process.kill()


async def test_the_same_over_http(bench: Bench, http: McpServer) -> None:
    table = {"my shop": {"url": http.url, "headers": {"X-Key": "k"}}}
    async with contextlib.AsyncExitStack() as stack:
        mcp = await connect(table, stack, bench.events.append)
        shop = Shop(bench, await mcp.arrived(60))
        assert mcp.instructions == {"my shop": "Prices are in euros."}
        assert await shop.text("add", a=2, b=3) == "5"
        os.kill(int(await shop.text("pid")), signal.SIGKILL)
        with anyio.fail_after(60):
            outcomes = [await shop.call("add", a=1, b=1) for _ in range(2)]
        assert all(outcome.is_error for outcome in outcomes)
        assert all("my shop" in text_of(outcome.content) for outcome in outcomes)


def test_names_are_what_providers_take_and_stay_distinct() -> None:
    assert tool_name("my shop", "a.b/c") == "mcp__my_shop__a_b_c"
    long = [tool_name("s" * 60, f"tool{n}") for n in range(3)]
    assert len(set(long)) == 3
    assert all(len(name) == 64 for name in long)


def test_a_server_is_made_of_its_settings() -> None:
    local = {"command": "x", "args": ["1"], "env": {"K": "v"}, "cwd": "/tmp"}
    assert server_of("a", local) == McpServer("a", "x", ["1"], {"K": "v"}, Path("/tmp"))
    remote = {"type": "http", "url": "http://h", "headers": {"H": "v"}, "clearable": True}
    assert server_of("b", remote) == McpServer(
        "b", url="http://h", headers={"H": "v"}, clearable=True
    )
