"""The environment that commands get: the user's own, without the keys that Lamina itself uses."""

from __future__ import annotations

from collections.abc import Mapping

# A command could print or send them, and no command needs the agent's own.
OWN_KEYS = frozenset({"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"})
OWN_PREFIX = "LAMINA_"


def for_commands(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name not in OWN_KEYS and not name.startswith(OWN_PREFIX)
    }
