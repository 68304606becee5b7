"""From layers to values: the strongest layer's value of each setting, with its source; defaults that
depend on other settings; and the chain that switches memory off. Pure.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lamina.config.layers import Layer, Source
from lamina.config.setting import Setting, Value
from lamina.config.table import KEYS, MODELS_BY_KEY, NO_MODEL, SETTINGS

Values = Mapping[str, tuple[Value, Source]]


def resolve(
    layers: Sequence[Layer], keys: Collection[str], disable: tuple[bool, str] | None
) -> Values:
    """Layers come strongest first. `keys`: the providers whose key is there. `disable`: the variable
    that switches memory off (or, set to a word for no, on)."""
    values = {setting.name: _resolve(setting, layers) for setting in SETTINGS}
    if values["model"][1].kind == "default":
        values["model"] = _default_model(keys)
    if values["small_model"][1].kind == "default":
        values["small_model"] = _default_small_model(values)
    values["memory.enabled"] = _memory_enabled(values, disable)
    return values


def _resolve(setting: Setting, layers: Sequence[Layer]) -> tuple[Value, Source]:
    found = [layer for layer in layers if setting.name in layer.values]
    if not found:
        return setting.default, Source("default")
    source = found[0].source_of(setting.name)
    if not setting.adds_up:
        value = found[0].values[setting.name]
        if setting.project_may == "lower" and source.in_project:
            return min((value, source), _resolve(setting, found[1:]), key=lambda one: one[0])
        return value, source
    total: Value = copy.deepcopy(setting.default)
    for layer in reversed(found):
        total = _added(total, layer.values[setting.name])
    where = ", ".join(layer.source_of(setting.name).where for layer in found)
    return total, Source(source.kind, where)


def _added(weaker: Any, stronger: Any) -> Any:
    """Lists together without doubles; tables by key, where lists grow and else the stronger counts."""
    if isinstance(weaker, list):
        return [*weaker, *(item for item in stronger if item not in weaker)]
    result = dict(weaker)
    for key, value in stronger.items():
        both = isinstance(value, list) and isinstance(result.get(key), list)
        result[key] = _added(result[key], value) if both else value
    return result


def _default_model(keys: Collection[str]) -> tuple[str, Source]:
    for name, (model, _) in MODELS_BY_KEY.items():
        if name in keys:
            return model, Source("default", f"{KEYS[name]} is set")
    return NO_MODEL, Source("default", "no key is set")


def _default_small_model(values: Values) -> tuple[str, Source]:
    model: str = values["model"][0]
    provider = model.partition(":")[0]
    if provider == "openai" and values["openai.base_url"][0]:
        return model, Source("default", "openai.base_url is set")
    if provider in MODELS_BY_KEY:
        return MODELS_BY_KEY[provider][1], Source("default", f"the model is {model}")
    return NO_MODEL, Source("default", f"the model is {model}")


def _memory_enabled(values: Values, disable: tuple[bool, str] | None) -> tuple[bool, Source]:
    """The chain of M2: the variable, bare mode, remote runs, the setting. What is managed or given wins."""
    value, source = values["memory.enabled"]
    if source.kind in ("managed", "flag"):
        return value, source
    if disable is not None:
        off, variable = disable
        return not off, Source("environment", variable)
    bare, bare_source = values["bare"]
    if bare:
        return False, Source(bare_source.kind, f"bare mode, {bare_source.where}")
    remote, remote_source = values["remote"]
    if remote and not values["memory.remote_directory"][0]:
        return False, Source(remote_source.kind, "a remote run without memory.remote_directory")
    return value, source
