"""Claude mode: the settings keys and variables of the other tool, mapped to Lamina's, so that both
work on one memory. Reads that tool's JSON files and never writes them; keys that are not mapped
are the other tool's own business.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from lamina.config.layers import Layer, Source, SourceKind, accept, parsed, read_small
from lamina.config.table import BY_NAME
from lamina.errors import SettingsError

MANAGED = Path("/etc/claude-code/managed-settings.json")

KEYS: dict[str, str] = {
    "autoMemoryEnabled": "memory.enabled",
    "autoMemoryDirectory": "memory.directory",
    "autoCompactEnabled": "compact.auto",
    "autoCompactWindow": "compact.window",
    "claudeMdExcludes": "instructions.excludes",
    "autoDreamEnabled": "dream.enabled",
}
VARIABLES: dict[str, str] = {
    "CLAUDE_CODE_SIMPLE": "bare",
    "CLAUDE_CODE_REMOTE": "remote",
    "CLAUDE_CODE_REMOTE_MEMORY_DIR": "memory.remote_directory",
    "CLAUDE_COWORK_MEMORY_PATH_OVERRIDE": "memory.directory",
    "CLAUDE_COWORK_MEMORY_EXTRA_GUIDELINES": "memory.guidelines",
    "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "compact.percent",
    "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "compact.window",
}
DISABLE_MEMORY = "CLAUDE_CODE_DISABLE_AUTO_MEMORY"


def config_directory(env: Mapping[str, str], user_home: Path) -> Path:
    """Where the other tool keeps its configuration."""
    return Path(env.get("CLAUDE_CONFIG_DIR") or user_home / ".claude")


def is_config_directory(home: Path, env: Mapping[str, str]) -> bool:
    """Whether a home is the other tool's: by its name, by the variable, or by its settings file."""
    named = env.get("CLAUDE_CONFIG_DIR")
    if named and os.path.realpath(named) == os.path.realpath(home):
        return True
    # os.path: a directory that can't be looked into is no error here; whoever opens a file there says so.
    return home.name == ".claude" or os.path.isfile(home / "settings.json")


def json_layer(kind: SourceKind, path: Path, warn: Callable[[str], None]) -> Layer:
    """The mapped keys of one of its settings files."""
    source = Source(kind, str(path))
    content = read_small(path)
    if content is None or not content.strip():
        return Layer(source)
    try:
        table = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not valid JSON: {error}. Correct that line.") from error
    if not isinstance(table, dict):
        raise SettingsError(f"{path} must hold a JSON object.")
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for key, name in KEYS.items():
        value = cast("dict[str, Any]", table).get(key)
        if value is None:
            continue
        if source.in_project and BY_NAME[name].refused_from_project(value):
            # That file can't be corrected for our sake.
            warn(f"{path} is inside the project: its {key} was left out.")
            continue
        values[name] = accept(BY_NAME[name], value, source, f"{path} ({key})")
        places[name] = f"{path} ({key})"
    return Layer(source, values, places)


def environment_layer(env: Mapping[str, str]) -> Layer:
    """The mapped variables."""
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for variable, name in VARIABLES.items():
        if text := env.get(variable):
            values[name] = parsed(BY_NAME[name], text, f"the variable {variable}")
            places[name] = variable
    return Layer(Source("environment"), values, places)
