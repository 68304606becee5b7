"""Where the host's MCP servers are, as a value and as the setting that says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from lamina.errors import SettingsError
from lamina.messages import Json


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


def servers_from_settings(value: object, source: str) -> list[McpServer]:
    """The `mcpServers` setting: {name: {"command", "args", "env"} or {"url", "headers"}}."""
    if not isinstance(value, dict):
        raise SettingsError(f"{source}: mcpServers must be an object.")
    return [_from_settings(n, f, source) for n, f in cast("dict[str, object]", value).items()]


def _from_settings(name: str, value: object, source: str) -> McpServer:
    where = f"{source}: the MCP server {name!r}"
    if not isinstance(value, dict):
        raise SettingsError(f"{where} must be an object.")
    fields = cast("Json", value)
    known = {"type", "command", "args", "env", "cwd", "url", "headers", "clearable"}
    if unknown := sorted(fields.keys() - known):
        raise SettingsError(f"{where} has the unknown key {unknown[0]!r}.")
    if bool(fields.get("command")) == bool(fields.get("url")):
        raise SettingsError(f'{where} needs either "command" or "url".')
    kinds = {"command": str, "url": str, "cwd": str, "args": list, "env": dict, "headers": dict}
    for key, kind in (kinds | {"clearable": bool}).items():
        if key in fields and not isinstance(fields[key], kind):
            raise SettingsError(f"{where}: {key} must be a {kind.__name__}.")
    return McpServer(
        name=name,
        command=fields.get("command", ""),
        args=[str(argument) for argument in fields.get("args", [])],
        env={str(key): str(item) for key, item in fields.get("env", {}).items()},
        cwd=Path(fields["cwd"]) if "cwd" in fields else None,
        url=fields.get("url", ""),
        headers={str(key): str(item) for key, item in fields.get("headers", {}).items()},
        clearable=fields.get("clearable", False),
    )
