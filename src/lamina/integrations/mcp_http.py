"""`lamina mcp --http PORT`: the same tools over streamable HTTP, for agents that don't start programs.

The official package serves it; answers are those of `mcp_stdio`. Only this machine can connect, only
with the token that lies in the home (private to the user), and only under a local Host and Origin, so
that no web page can reach it through a browser.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lamina._version import __version__
from lamina.cli.terminal import note
from lamina.config import Config
from lamina.errors import LaminaError, UsageError, installing
from lamina.integrations.mcp_calls import Calls
from lamina.integrations.mcp_stdio import INSTRUCTIONS, TOOLS, unknown_tool, why_wrong
from lamina.machine import private_folder, serve_until_told, write_private
from lamina.messages import as_object

TOKEN = "mcp-token"  # noqa: S105 - the name of the file that holds it
_LOCAL = ("127.0.0.1", "localhost", "[::1]")


def serve(config: Config, port: int) -> int:
    """Serve until interrupted."""
    try:
        import uvicorn

        app = application(config, _token(config.own_home))
    except ImportError as error:
        raise UsageError(f"--http needs the extra mcp: {installing('mcp')}.") from error
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise LaminaError(f"Can't listen on port {port}: {error}.") from error
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        header = f'"Authorization: Bearer $(cat {config.own_home / TOKEN})"'

        def say() -> None:
            note(f"Serving {url}; the token is in {config.own_home / TOKEN}. In Claude Code:")
            note(f"claude mcp add --transport http lamina {url} --header {header}")

        serve_until_told(uvicorn.Server(uvicorn.Config(app, log_level="warning")), listening, say)
    return 0


def _token(home: Path) -> str:
    """The one that is there: clients keep it in their settings."""
    file = home / TOKEN
    try:
        if found := file.read_text("ascii").strip():
            return found
    except (OSError, ValueError):
        pass
    made = secrets.token_urlsafe(32)
    private_folder(home)
    write_private(file, made.encode(), lasting=True)
    return made


def application(config: Config, token: str) -> Any:
    """The ASGI application."""
    from mcp.server.lowlevel import Server
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.shared.exceptions import MCPError
    from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

    tools = [Tool.model_validate(tool) for tool in TOOLS]
    schemas = {tool["name"]: tool["inputSchema"] for tool in TOOLS}
    calls = _OneThread(config)

    async def listed(_context: Any, _params: Any) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def called(_context: Any, params: Any) -> CallToolResult:
        name, arguments = str(params.name), as_object(params.arguments)
        if name not in schemas:
            raise MCPError(*unknown_tool(name))
        wrong = why_wrong(schemas[name], arguments)
        said, failed = (f"{name}: {wrong}", True) if wrong else await calls(name, arguments)
        return CallToolResult(content=[TextContent(type="text", text=said)], is_error=failed)

    server: Any = Server(
        "lamina",
        version=__version__,
        title="Lamina memory",
        instructions=INSTRUCTIONS,
        on_list_tools=listed,
        on_call_tool=called,
    )
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[name for host in _LOCAL for name in (host, f"{host}:*")],
        allowed_origins=[f"http://{host}:*" for host in _LOCAL],
    )
    app = server.streamable_http_app(
        json_response=True, stateless_http=True, transport_security=security
    )
    return _WithToken(app, token)


class _OneThread:
    """Calls one after the other, in the thread that opened the memory."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._thread = ThreadPoolExecutor(1)
        self._calls: Calls | None = None

    async def __call__(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._call, name, arguments)

    def _call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        if self._calls is None:
            config = self._config
            self._calls = Calls(str(config.project), str(config.home), claude=config.claude)
        return self._calls.call(name, arguments)


class _WithToken:
    """Lets nobody in without the token."""

    def __init__(self, app: Any, token: str) -> None:
        self.app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                head = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
                await send({"type": "http.response.start", "status": 401, "headers": head})
                await send({"type": "http.response.body", "body": b"The token is missing.\n"})
                return
        await self.app(scope, receive, send)
