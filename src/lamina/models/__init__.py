"""Models behind one protocol. `open_model` chooses by prefix and imports a provider's package only
then; everything that a provider needs (keys, base URLs) comes in as options, except that the
official packages read their own environment variables.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

from lamina.errors import ModelConfigError, UsageError, installing
from lamina.messages import MODELS
from lamina.ports import Model

_PACKAGES = {"anthropic": "anthropic", "openai": "openai", "gguf": "xllamacpp"}
_MODELS = {"anthropic": "AnthropicModel", "openai": "OpenAIModel", "gguf": "GgufModel"}

# What `options` may hold; each kind takes what it has a use for (docs/models.md).
OPTIONS = frozenset(
    {"api_key", "base_url", "headers", "betas", "timeout", "retries", "window", "max_output"}
    | {"cache_ttl", "cache_edits", "cache_upgrades", "cache_key", "diagnostics", "threads"}
    | {"clock", "chance", "limits"}
)


def open_model(spec: str, *, options: Mapping[str, Any] | None = None) -> Model:
    """The model that `spec` names. Nothing is sent yet; a wrong name shows at the first call."""
    kind, _, name = spec.strip().partition(":")
    given = {key: value for key, value in (options or {}).items() if value is not None}
    if unknown := sorted(set(given) - OPTIONS):
        raise UsageError(
            f"Models have no option {unknown[0]!r}; they have: {', '.join(sorted(OPTIONS))}."
        )
    match kind:
        case "none" if not name:
            from lamina.models.none import NoModel

            return NoModel()
        case "scripted" if name:
            from lamina.models.scripted import ScriptedModel

            return ScriptedModel.from_file(name)
        case "anthropic" | "openai" | "gguf" if name:
            return _provider(kind, name, given)
        case _:
            raise ModelConfigError(f"There is no model {spec!r}; write {MODELS}.")


def _provider(kind: str, name: str, given: Mapping[str, Any]) -> Model:
    if find_spec(_PACKAGES[kind]) is None:
        raise ModelConfigError(
            f"{kind}: models need the {_PACKAGES[kind]} package: {installing(kind)}."
        )
    module = import_module(f"lamina.models.{kind}")
    make = cast("type[Any]", getattr(module, _MODELS[kind]))
    kinds = make.__mro__[:-1]  # its own options, and those of what it is made from
    taken = {option for made in kinds for option in inspect.signature(made).parameters}
    return make(name, **{key: value for key, value in given.items() if key in taken})
