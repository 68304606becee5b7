"""MCP servers of the host as tools: started or reached once a session, by the official package.

Each server is a child process (stdio) or a URL (streamable HTTP) with a task of its own that holds
the connection. A session opens without waiting for them: `arrived` hands their tools over. A server
that ends gives a clear error; the next call starts it again, once. What servers say is a stranger's
word: names, descriptions and results are bounded, never trusted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import anyio
import anyio.abc

from lamina.errors import ToolError, UsageError, installing
from lamina.events import Emit, Warned
from lamina.machine import open_private
from lamina.messages import Block, Json, text
from lamina.ports import Tool, ToolContext, ToolOutcome, ToolSpec

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.session import MessageHandlerFnT
    from mcp.types import Tool as ListedTool


LONGEST_NAME = 64  # what providers take
LONGEST_DESCRIPTION = 2_000
LONGEST_INSTRUCTIONS = 10_000
MOST_PAGES = 50  # of a list of tools: a server may answer with a next page for ever
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class McpServer:
    """Where a server is: a command to start, or a URL."""

    name: str
    command: str = ""
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: Path | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    clearable: bool = False  # may layer 2 clear its old results?
    seconds_to_connect: float = 30
    seconds_to_answer: float = 300


async def connect(
    table: Mapping[str, Any], stack: contextlib.AsyncExitStack, emit: Emit
) -> McpServers:
    """The servers of the setting `mcp.servers`, open until the stack closes."""
    servers = [server_of(name, fields) for name, fields in table.items()]
    return await stack.enter_async_context(McpServers(servers, emit))


def server_of(name: str, fields: Mapping[str, Any]) -> McpServer:
    """A row of the setting, which the settings have checked."""
    known = {key: value for key, value in fields.items() if key not in ("type", "cwd")}
    cwd = Path(fields["cwd"]) if "cwd" in fields else None
    return McpServer(name, cwd=cwd, **known)


class McpServers:
    """All servers of a session: `async with McpServers(…) as mcp: await mcp.arrived(seconds)`."""

    def __init__(
        self, servers: Sequence[McpServer], emit: Emit, *, log: Path | None = None
    ) -> None:
        """`log`: the file for what child processes print to stderr; None drops it."""
        self._servers = servers
        self._emit = emit
        self._log = log
        self._stack = contextlib.AsyncExitStack()
        self._connections: list[_Connection] = []
        self._waiting: list[_Connection] = []  # whose tools nobody has yet, in the settings' order
        self._late: set[str] = set()  # of which the user was told
        self._begun = 0.0
        self._names: set[str] = set()
        self.instructions: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        """Begin to connect to all, side by side. One that can't be reached is reported and left
        out."""
        if self._servers:
            _require_package()
        tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._stack.callback(tasks.cancel_scope.cancel)
        self._connections = [
            _Connection(one, tasks, self._log, self._emit) for one in self._servers
        ]
        self._waiting, self._begun = list(self._connections), anyio.current_time()
        for connection in self._connections:
            tasks.start_soon(self._open, connection)
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.close()
        await self._stack.aclose()

    async def arrived(self, seconds: float) -> list[Tool]:
        """The tools of servers that answered since the last call. The others are waited for until
        so many seconds after their start; theirs come with a later call."""
        with anyio.move_on_after(max(0.0, self._begun + seconds - anyio.current_time())):
            for connection in self._waiting:
                await connection.tried.wait()
        there = [one for one in self._waiting if one.tried.is_set()]
        self._waiting = [one for one in self._waiting if not one.tried.is_set()]
        for name in (one.server.name for one in self._waiting):
            if name not in self._late:
                self._late.add(name)
                self._emit(
                    Warned(
                        f"The MCP server {name} has not answered yet. This goes on without it; its "
                        "tools join with your first message after it does."
                    )
                )
        return self._tools_of(there)

    async def _open(self, connection: _Connection) -> None:
        try:
            await connection.open()
        except ToolError as error:
            self._emit(Warned(str(error)))
        finally:
            connection.tried.set()

    def _tools_of(self, connections: Sequence[_Connection]) -> list[Tool]:
        tools: list[Tool] = []
        for connection in connections:
            for listed in sorted(connection.listed, key=lambda one: one.name):
                made = _McpTool(spec_of(connection.server, listed), listed.name, connection)
                if made.spec.name in self._names:
                    self._emit(Warned(f"The MCP tool {made.spec.name} exists twice; one is used."))
                    continue
                self._names.add(made.spec.name)
                tools.append(made)
            if connection.instructions:
                self.instructions[connection.server.name] = connection.instructions
        return tools


@dataclass(frozen=True, slots=True)
class _McpTool:
    spec: ToolSpec
    name: str
    connection: _Connection

    async def run(
        self,
        input: Json,  # noqa: A002
        context: ToolContext,  # noqa: ARG002 - a server is told nothing of the session
    ) -> ToolOutcome:
        return outcome_of(await self.connection.call(self.name, input))


class _Connection:
    """One server and the task that holds it open."""

    def __init__(
        self, server: McpServer, tasks: anyio.abc.TaskGroup, log: Path | None, emit: Emit
    ) -> None:
        self.server = server
        self.listed: list[ListedTool] = []
        self.instructions = ""
        self.tried = anyio.Event()  # the first connection stands, or can't be had
        self._tasks = tasks
        self._log = log
        self._emit = emit
        self._babbles = False
        self._client: Client | None = None
        self._closing = anyio.Event()
        self._opening = anyio.Lock()

    async def open(self) -> None:
        """Connect and list the tools. Raises ToolError with the reason."""
        self._closing = anyio.Event()
        try:
            with anyio.fail_after(self.server.seconds_to_connect):
                await self._tasks.start(self._hold, self._closing)
        except TimeoutError as error:
            raise ToolError(
                f"The MCP server {self.server.name} did not answer within "
                f"{self.server.seconds_to_connect:g} s."
            ) from error
        except Exception as error:  # the package lets many kinds through
            raise ToolError(
                f"The MCP server {self.server.name} can't be used: {_reason(error)}."
            ) from error

    def close(self) -> None:
        self._closing.set()

    async def call(self, tool: str, arguments: Json) -> Any:
        """Call a tool. A server that ended before is started again, once."""
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        name = self.server.name
        client = await self._connected()
        try:
            with anyio.fail_after(self.server.seconds_to_answer):
                return await client.call_tool(tool, arguments)
        except TimeoutError as error:
            raise ToolError(
                f"{tool} of the MCP server {name} did not answer within "
                f"{self.server.seconds_to_answer:g} s."
            ) from error
        except MCPError as error:
            if error.code != CONNECTION_CLOSED:
                raise ToolError(
                    f"The MCP server {name} refused {tool}: {_reason(error)}."
                ) from error
            self._drop(client)
            raise self._ended(tool) from error
        except (
            OSError,
            RuntimeError,
            anyio.ClosedResourceError,
            anyio.BrokenResourceError,
        ) as error:
            self._drop(client)
            raise self._ended(tool) from error

    def _ended(self, tool: str) -> ToolError:
        return ToolError(
            f"The MCP server {self.server.name} ended or can't be reached, so nobody knows whether "
            f"{tool} was done. The next call starts it again."
        )

    def _drop(self, client: Client) -> None:
        if self._client is client:
            self._client = None
            self.close()

    async def _connected(self) -> Client:
        async with self._opening:
            if self._client is None:
                await self.open()
            if self._client is None:
                raise ToolError(f"The MCP server {self.server.name} ended at once.")
            return self._client

    async def _hear(self, message: object) -> None:
        """What is no answer; of lines that are no messages it is told once."""
        if isinstance(message, ValueError) and not self._babbles:
            self._babbles = True
            self._emit(
                Warned(
                    f"The MCP server {self.server.name} prints on stdout what is no message; that is "
                    "passed over."
                )
            )

    async def _hold(self, closing: anyio.Event, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        started = False
        try:
            async with _connect(self.server, self._log, self._hear) as client:
                self.listed = await _list_tools(client)
                self.instructions = (client.instructions or "")[:LONGEST_INSTRUCTIONS]
                self._client = client
                started = True
                task_status.started()
                await closing.wait()
        except Exception:
            # Before the start it is the caller's error. Later on the connection broke by itself,
            # which the next call finds and says; it must not end the other servers.
            if not started:
                raise
        finally:
            if closing is self._closing:
                self._client = None


@contextlib.asynccontextmanager
async def _connect(
    server: McpServer, log: Path | None, hear: MessageHandlerFnT
) -> AsyncGenerator[Client]:
    from mcp import Client, StdioServerParameters, stdio_client
    from mcp.client.stdio import logger
    from mcp.client.streamable_http import streamable_http_client

    if server.url:
        import httpx2

        timeout = httpx2.Timeout(server.seconds_to_connect, read=server.seconds_to_answer)
        async with (
            httpx2.AsyncClient(headers=dict(server.headers), timeout=timeout) as http,
            Client(streamable_http_client(server.url, http_client=http)) as client,
        ):
            yield client
        return
    parameters = StdioServerParameters(
        command=server.command, args=list(server.args), env=dict(server.env), cwd=server.cwd
    )
    if not logger.handlers:  # else Python prints what it logs: each line that `hear` is told of
        logger.addHandler(logging.NullHandler())
    target = log or os.devnull
    with open(target, "a", encoding="utf-8", opener=open_private) as errors:  # noqa: ASYNC230
        async with Client(stdio_client(parameters, errlog=errors), message_handler=hear) as client:
            yield client


async def _list_tools(client: Client) -> list[ListedTool]:
    found: list[ListedTool] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return found


def spec_of(server: McpServer, listed: ListedTool) -> ToolSpec:
    """What the model is told of a server's tool. A server's own hints grant it nothing."""
    schema: Json = {"type": "object", **dict(listed.input_schema or {})}
    return ToolSpec(
        name=tool_name(server.name, listed.name),
        description=(listed.description or listed.title or listed.name)[:LONGEST_DESCRIPTION],
        input_schema=schema,
        clearable=server.clearable,
    )


def tool_name(server: str, tool: str) -> str:
    """`mcp__server__tool`, with what no provider takes replaced; cut ones stay distinct."""
    name = f"mcp__{_NOT_IN_NAMES.sub('_', server)}__{_NOT_IN_NAMES.sub('_', tool)}"
    if len(name) <= LONGEST_NAME:
        return name
    mark = hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9]}_{mark}"


MOST_CHARACTERS = 1_000_000  # of one result, as for Bash
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def outcome_of(result: Any) -> ToolOutcome:
    """A CallToolResult of the package, bounded."""
    items: list[Any] = result.content or []
    blocks = [_block(item) for item in items]
    if not blocks and result.structured_content is not None:
        blocks = [text(json.dumps(result.structured_content, ensure_ascii=False))]
    is_error = bool(result.is_error)
    if any(block["type"] != "text" for block in blocks):
        return ToolOutcome(blocks, is_error=is_error)
    whole = "\n".join(block["text"] for block in blocks)
    return ToolOutcome(_bounded(whole) or "(no output)", is_error=is_error)


def _block(item: Any) -> Block:
    if item.type == "text":
        return text(_bounded(item.text))
    if item.type == "image" and item.mime_type in IMAGES:
        source = {"type": "base64", "media_type": item.mime_type, "data": item.data}
        return {"type": "image", "source": source}
    if item.type == "resource":
        resource = item.resource
        inside = getattr(resource, "text", None)
        if inside is not None:
            return text(_bounded(f"{resource.uri}:\n{inside}"))
        return text(f"[{resource.uri}: {resource.mime_type or 'binary'} data, not shown]")
    if item.type == "resource_link":
        return text(f"[{item.name}: {item.uri}]")
    return text(f"[{item.type} content, not shown]")


def _bounded(words: str) -> str:
    if len(words) <= MOST_CHARACTERS:
        return words
    half = MOST_CHARACTERS // 2
    left_out = len(words) - 2 * half
    return f"{words[:half]}\n\n[… {left_out:,} characters left out …]\n\n{words[-half:]}"


def _reason(error: BaseException) -> str:
    """The innermost cause in one line, without a full stop."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        error = group.exceptions[0]
    words = " ".join(str(error).split()) or type(error).__name__
    return words.rstrip(".")[:300]


def _require_package() -> None:
    try:
        import mcp
    except ImportError as error:
        raise UsageError(f"MCP servers need the mcp package: {installing('mcp')}.") from error
    if not hasattr(mcp, "Client"):
        raise UsageError("MCP servers need version 2 of the mcp package: pip install -U 'mcp>=2'.")
