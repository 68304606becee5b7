"""How coding agents are told to go through a gateway: by their environment and command line alone, with
the address that they would have used as the gateway's own. Reads their settings, changes none.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lamina.errors import UsageError
from lamina.gateway.command import PROVIDERS, upstream_url
from lamina.messages import Json, as_object

_HERE = "127.0.0.1,localhost"
_SERVER = "lamina_results"  # the name by which a client knows our MCP server
# First words of Claude Code's command line that are no prompt: they take no options of a session.
_CLAUDE_VERBS = (
    "agents auth config doctor install mcp migrate-installer plugin setup-token update upgrade"
)
# Else it sends all its tools each time, and takes a window of a million for one of 200,000.
_CLAUDE_OWN = {"ENABLE_TOOL_SEARCH": "true", "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL": "1"}
# The ways to what was left out: a folder, and a command that serves the tool expand by MCP.
Back = tuple[str, Sequence[str]]
_OPENCODE = {
    "anthropic": "https://api.anthropic.com/v1",
    "openai": "https://api.openai.com/v1",
    "google": "https://generativelanguage.googleapis.com/v1beta",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a client is started: what it would do by itself."""

    args: Sequence[str]
    environment: Mapping[str, str]
    project: Path
    upstream: str = ""  # that the user named

    def upstream_of(self, provider: str) -> str:
        return self.upstream or upstream_url(provider, self.environment)

    def home(self, variable: str, name: str) -> Path:
        own = self.environment.get(variable)
        return Path(own) if own else Path(self.environment.get("HOME") or "~").expanduser() / name


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start, once it is known where the gateway listens."""

    upstream: str
    # From the gateway's address, and the ways back if anything is left out, to what to add.
    arguments: Callable[[str, Back | None], Sequence[str]] = lambda _url, _back: ()
    environment: Callable[[str, Back | None], Mapping[str, str]] = lambda _url, _back: {}


def _claude(found: Setting) -> Launch:
    upstream = found.upstream_of("anthropic")
    verb = bool(found.args) and found.args[0] in _CLAUDE_VERBS.split()

    def arguments(_: str, back: Back | None) -> Sequence[str]:
        if back is None or verb:
            return ()
        folder, (program, *rest) = back
        served = {"mcpServers": {_SERVER: {"command": program, "args": rest}}}
        given = ("--add-dir", folder), ("--mcp-config", json.dumps(served))
        # With a space between them it would take a prompt for one more.
        return [f"{a}={b}" for a, b in (*given, ("--allowedTools", f"mcp__{_SERVER}__expand"))]

    own: dict[str, str] = {}
    if upstream == PROVIDERS["anthropic"][1]:  # it is, though the address no longer says so
        own = {name: yes for name, yes in _CLAUDE_OWN.items() if name not in found.environment}
    return Launch(upstream, arguments, lambda url, _: {"ANTHROPIC_BASE_URL": url, **own})


def _codex(found: Setting) -> Launch:
    config: Json = {}
    with suppress(OSError, ValueError):
        text = (found.home("CODEX_HOME", ".codex") / "config.toml").read_text("utf-8")
        config = tomllib.loads(text)
    name = str(config.get("model_provider") or "openai")
    for word in found.args:
        if word.startswith("model_provider="):
            name = word.partition("=")[2].strip("\"'")
    own = as_object(as_object(config.get("model_providers")).get(name))
    if not own and name != "openai":
        raise UsageError(f"Codex's settings have no model provider {name}.")
    if not own and not found.upstream and "OPENAI_API_KEY" not in found.environment:
        raise UsageError(
            "Codex may be logged in through ChatGPT or with a key, which decides its address. Set "
            "OPENAI_API_KEY, or give the address: --upstream https://chatgpt.com/backend-api/codex."
        )

    def arguments(url: str, back: Back | None) -> Sequence[str]:
        made = f'{{name="OpenAI",base_url="{url}",wire_api="responses",requires_openai_auth=true}}'
        said = [f'model_providers.{name}.base_url="{url}"']
        said = said if own else ['model_provider="lamina"', f"model_providers.lamina={made}"]
        if back is not None:
            program, *rest = (json.dumps(w, ensure_ascii=False) for w in back[1])  # as in TOML
            said.append(f"mcp_servers.{_SERVER}={{command={program},args=[{','.join(rest)}]}}")
        return [word for one in said for word in ("-c", one)]

    upstream = found.upstream or str(own.get("base_url") or "") if own else ""
    return Launch(upstream or found.upstream_of("openai"), arguments)


def _gemini(found: Setting) -> Launch:
    return Launch(
        found.upstream_of("gemini"),
        lambda _, back: [f"--include-directories={back[0]}"] if back else [],
        lambda url, _: {"GOOGLE_GEMINI_BASE_URL": url},
    )


def _opencode(found: Setting) -> Launch:
    content = found.environment.get("OPENCODE_CONFIG_CONTENT") or "{}"
    try:
        inline = as_object(json.loads(content))
    except ValueError as error:
        raise UsageError(f"OPENCODE_CONFIG_CONTENT is not JSON: {error}.") from error
    named = found.environment.get("OPENCODE_CONFIG") or "/"
    users = found.home("XDG_CONFIG_HOME", ".config") / "opencode" / "opencode.json"
    configs = [inline]
    for place in (found.project / "opencode.json", Path(named), users):
        with suppress(OSError, ValueError):
            configs.append(as_object(json.loads(place.read_text("utf-8"))))
    model = next((str(config["model"]) for config in configs if config.get("model")), "")
    for flag, value in zip(found.args, found.args[1:], strict=False):
        model = value if flag in ("-m", "--model") else model
    name = model.partition("/")[0]
    if not name:
        raise UsageError("opencode's settings name no model; say which: -- run --model openai/…")
    urls = (_options(config, name).get("baseURL") for config in configs)
    upstream = found.upstream or str(next(filter(None, urls), _OPENCODE.get(name, "")))
    if not upstream:
        raise UsageError(f"opencode's settings have no address for {name}; give --upstream URL.")

    def environment(url: str, back: Back | None) -> Mapping[str, str]:
        provider = as_object(inline.get("provider"))
        options = {**_options(inline, name), "baseURL": url}
        own = {**as_object(provider.get(name)), "options": options}
        made = {**inline, "provider": {**provider, name: own}}
        if back is not None:
            served = {"type": "local", "command": [*back[1]]}
            made["mcp"] = {**as_object(inline.get("mcp")), _SERVER: served}
            # One word for all of them, in whichever settings, would be replaced by ours.
            if not any(isinstance(one.get("permission"), str) for one in configs):
                reads = {"external_directory": {f"{back[0]}/**": "allow"}}
                made["permission"] = {**reads, **as_object(inline.get("permission"))}
        return {"OPENCODE_CONFIG_CONTENT": json.dumps(made)}

    return Launch(upstream, environment=environment)


def _options(config: Json, provider: str) -> Json:
    return as_object(as_object(as_object(config.get("provider")).get(provider)).get("options"))


CLIENTS = {"claude": _claude, "codex": _codex, "gemini": _gemini, "opencode": _opencode}


def kept_off_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """A gateway on this machine is not reached through a proxy that the user has for the rest."""
    if not any(name.lower().endswith("_proxy") for name in environment):
        return {}
    own = environment.get("no_proxy") or environment.get("NO_PROXY")
    return dict.fromkeys(("no_proxy", "NO_PROXY"), f"{own},{_HERE}" if own else _HERE)
