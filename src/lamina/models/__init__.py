"""Models behind one protocol. `open_model` chooses by prefix and imports a provider's package only
then; everything that a provider needs (keys, base URLs) comes in as options, except that the
official packages read their own environment variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

from lamina.errors import ModelConfigError
from lamina.ports import Model

_PACKAGES = {"anthropic": "anthropic", "openai": "openai", "gguf": "xllamacpp"}
_KINDS = "anthropic:NAME, openai:NAME, gguf:PATH-OR-NAME, scripted:FILE or none"


def open_model(spec: str, *, options: Mapping[str, Any] | None = None) -> Model:
    """The model that `spec` names. Nothing is sent yet; a wrong name shows at the first call.

    Options, all optional: `api_key`, `base_url`, `timeout` (seconds of silence), `retries`,
    `headers`, `betas`, `window`, `max_output`, `cache_ttl` ("5m" or "1h"), `cache_edits`,
    `diagnostics`, `clock`, `random`; docs/models.md says which provider takes which.
    """
    kind, _, name = spec.strip().partition(":")
    given = dict(options or {})
    match kind:
        case "none" if not name:
            from lamina.models.none import NoModel

            return NoModel()
        case "scripted" if name:
            from lamina.models.scripted import ScriptedModel

            return ScriptedModel.from_file(name)
        case "anthropic" | "openai" | "gguf" if name:
            _require(kind)
            make = cast("Callable[..., Model]", import_module(f"lamina.models.{kind}").open_model)
            return make(name, given)
        case _:
            raise ModelConfigError(f"There is no model {spec!r}; write {_KINDS}.")


def _require(kind: str) -> None:
    if find_spec(_PACKAGES[kind]) is None:
        raise ModelConfigError(
            f"Models of the kind {kind}: need the package {_PACKAGES[kind]}; "
            f"run: pip install 'lamina[{kind}]'"
        )
