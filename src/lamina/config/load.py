"""Config: all settings of one project, each resolved to the value of the strongest source and with
that source named; Flags, those of one session, as its ledger records them; and `load`, which reads
settings. Besides flags.py nothing else reads settings files or the environment. Providers' keys are
read here too, and never shown.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from lamina.config.layers import (
    CLAUDE_VARIABLES,
    VARIABLES,
    Layer,
    Source,
    SourceKind,
    claude_layer,
    environment_layer,
    nearest,
    override_layer,
    toml_layer,
)
from lamina.config.setting import FALSE, BadValue, Kind, Setting, Value
from lamina.config.table import BY_NAME, KEYS, MODELS_BY_KEY, NO_MODEL, SETTINGS
from lamina.errors import SettingsError, UsageError
from lamina.messages import as_object

MANAGED = Path("/etc/lamina/settings.toml")
CLAUDE_MANAGED = Path("/etc/claude-code/managed-settings.json")
DISABLE_MEMORY = "LAMINA_DISABLE_MEMORY"
CLAUDE_DISABLE_MEMORY = "CLAUDE_CODE_DISABLE_AUTO_MEMORY"
# Variables of ours that are not settings.
_OTHERS = frozenset(
    {"LAMINA_HOME", "LAMINA_DATA", "LAMINA_DISABLED", DISABLE_MEMORY, *KEYS.values()}
)

# The getters below are named for types, so inside the class the types need other names.
_Str: TypeAlias = str
_Int: TypeAlias = int
_Float: TypeAlias = float
_Bool: TypeAlias = bool


Values = Mapping[str, tuple[Value, Source]]


@dataclass(frozen=True, slots=True)
class Config:
    """Settings, resolved. `with_` gives another; nothing changes this one."""

    home: Path
    project: Path
    claude: _Bool
    warnings: tuple[_Str, ...] = ()
    # Strongest first. The resolved values follow from them.
    layers: tuple[Layer, ...] = field(default=(), repr=False)
    _secrets: Mapping[_Str, _Str] = field(default_factory=dict[_Str, _Str], repr=False)
    _disable: tuple[_Bool, _Str] | None = field(default=None, repr=False)
    _values: Mapping[_Str, tuple[Value, Source]] = field(
        default_factory=dict[_Str, "tuple[Value, Source]"], repr=False
    )

    @property
    def own_home(self) -> Path:
        """Where Lamina's own files go: the home, or `lamina/` in another tool's directory."""
        return self.home / "lamina" if self.claude else self.home

    def str(self, name: _Str) -> _Str:
        return self._get(name, "str")

    def int(self, name: _Str) -> _Int:
        return self._get(name, "int")

    def float(self, name: _Str) -> _Float:
        return self._get(name, "float")

    def bool(self, name: _Str) -> _Bool:
        return self._get(name, "bool")

    def strings(self, name: _Str) -> tuple[_Str, ...]:
        return tuple(self._get(name, "strings"))

    def table(self, name: _Str) -> dict[_Str, Any]:
        return copy.deepcopy(self._get(name, "table"))

    def value(self, name: _Str) -> Value:
        """The value of any kind, as JSON has it."""
        return copy.deepcopy(self._values[name][0])

    def source(self, name: _Str) -> Source:
        return self._values[name][1]

    def secret(self, name: _Str) -> _Str:
        """A key by its name in `KEYS`; empty if there is none. Not for show."""
        if name not in KEYS:
            raise KeyError(name)
        return self._secrets.get(name, "")

    def with_(self, **overrides: Any) -> Config:
        """The same with some settings changed, as if given on opening; managed ones stay."""
        old = [one.values for one in self.layers if one.source.kind == "flag"]  # one at most
        managed = [layer for layer in self.layers if layer.source.kind == "managed"]
        others = [one for one in self.layers if one.source.kind not in ("flag", "managed")]
        layers = (*managed, override_layer({**dict(*old), **overrides}), *others)
        values = resolve(layers, self._secrets, self._disable)
        return replace(self, layers=layers, _values=MappingProxyType(values))

    def _get(self, name: _Str, kind: Kind) -> Any:
        setting = BY_NAME[name]
        if setting.kind != kind:
            raise TypeError(f"{name} is a {setting.kind}, not a {kind}")
        return self._values[name][0]


FLAGS: Mapping[str, Setting] = MappingProxyType(
    {setting.flag: setting for setting in SETTINGS if setting.flag}
)


@dataclass(frozen=True, slots=True)
class Flags:
    """All flags of one session, as they were at its opening."""

    values: Mapping[str, Value]
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: tuple[str, ...] = ()  # what the provider got wrong; the settings' value was taken

    def on(self, mechanism: str) -> bool:
        """Is the mechanism switched on? Its name is the row's `flag` in the table of settings."""
        value = self.values[mechanism]
        if not isinstance(value, bool):
            raise TypeError(f"{mechanism} is a value, not a switch")
        return value

    def value(self, name: str) -> Value:
        return self.values[name]

    def to_json(self) -> dict[str, Any]:
        return {"values": dict(self.values), "sources": dict(self.sources)}

    @classmethod
    def from_json(cls, recorded: Mapping[str, Any]) -> Flags:
        """Flags as a ledger recorded them; what it does not know, or not validly, is the default."""
        values, sources = as_object(recorded.get("values")), as_object(recorded.get("sources"))
        return cls(
            MappingProxyType(
                {name: _recorded(row, values.get(name)) for name, row in FLAGS.items()}
            ),
            MappingProxyType({name: str(sources.get(name, "default")) for name in FLAGS}),
        )


def _recorded(setting: Setting, value: object) -> Value:
    try:
        return setting.checked(value)
    except BadValue:
        return setting.default


def load(
    project: str | Path,
    *,
    home: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    claude: bool = False,
    managed: Path | None = MANAGED,
) -> Config:
    """Read every source of settings for a project. SettingsError says what can't be taken and where."""
    env = os.environ if env is None else env
    project = absolute(project)
    home, claude = find_home(home, env, claude=claude)
    warnings: list[str] = []
    layers: list[Layer] = [toml_layer("managed", managed)] if managed else []
    if claude and managed == MANAGED:
        layers.append(claude_layer("managed", CLAUDE_MANAGED, warnings.append))
    layers += [override_layer(overrides or {}), environment_layer(env)]
    if claude:
        layers.append(environment_layer(env, CLAUDE_VARIABLES))
    layers += _file_layers(project, home, warnings, claude=claude)
    warnings += _unknown_variables(env)
    secrets = {name: env[variable] for name, variable in KEYS.items() if env.get(variable)}
    disable = _disable_switch(env, claude=claude)
    return Config(
        home=home,
        project=project,
        claude=claude,
        warnings=tuple(warnings),
        layers=tuple(layers),
        _secrets=MappingProxyType(secrets),
        _disable=disable,
        _values=MappingProxyType(resolve(layers, secrets, disable)),
    )


def defaults(project: str | Path, home: Path, *, claude: bool = False) -> Config:
    """The table's own values, with nothing read: for a look at a machine whose settings are broken."""
    values = MappingProxyType(resolve((), (), None))
    return Config(home=home, project=absolute(project), claude=claude, _values=values)


def settings_files(project: Path, own_home: Path) -> dict[SourceKind, Path]:
    """The files that `lamina settings set` writes, strongest first."""
    return {
        "local": project / ".lamina" / "settings.local.toml",
        "project": project / ".lamina" / "settings.toml",
        "user": own_home / "settings.toml",
    }


def _file_layers(project: Path, home: Path, warnings: list[str], *, claude: bool) -> list[Layer]:
    """Local, project and user files, ours before the other tool's."""
    ours = settings_files(project, home / "lamina" if claude else home)
    theirs = {
        "local": project / ".claude" / "settings.local.json",
        "project": project / ".claude" / "settings.json",
        "user": home / "settings.json",
    }
    layers: list[Layer] = []
    for kind, path in ours.items():
        # With the user's directory as the project, the user's file is not taken for the project's.
        if kind == "user" or path != ours["user"]:
            layers.append(toml_layer(kind, path))
        if claude and (kind == "user" or theirs[kind] != theirs["user"]):
            layers.append(claude_layer(kind, theirs[kind], warnings.append))
    return layers


def find_home(
    given: str | Path | None = None, env: Mapping[str, str] | None = None, *, claude: bool = False
) -> tuple[Path, bool]:
    """The home directory, and whether it is in Claude mode."""
    env = os.environ if env is None else env
    if not isinstance(given, str | os.PathLike | None):
        raise UsageError(f"`home` can't be a {type(given).__name__}: give the path of a directory.")
    if given is None and not env.get("LAMINA_HOME"):
        user_home = Path(env.get("HOME") or _account_home())
        if claude:
            return absolute(env.get("CLAUDE_CONFIG_DIR") or user_home / ".claude"), True
        return user_home / ".lamina", False
    home = absolute(given if given is not None else env["LAMINA_HOME"])
    return home, claude or _is_claudes(home, env)


def _is_claudes(home: Path, env: Mapping[str, str]) -> bool:
    """Whether a home is the other tool's: by its name, by the variable, or by its settings file."""
    named = env.get("CLAUDE_CONFIG_DIR")
    if named and os.path.realpath(named) == os.path.realpath(home):
        return True
    # os.path: a directory that can't be looked into is no error here; whoever opens a file in it
    # says so.
    return home.name == ".claude" or os.path.isfile(home / "settings.json")


def _account_home() -> str:
    """Where HOME is unset or empty, what the account says: an empty one would mean the root."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise SettingsError(
            "HOME is not set, and the account has no home. Set HOME or LAMINA_HOME."
        ) from None


def absolute(path: str | Path) -> Path:
    """A path as settings take it: absolute, `~` expanded, links left alone."""
    text = os.fspath(path)
    if "\0" in text:
        raise SettingsError(f"{text!r} can't be a path: it holds a NUL.")
    try:
        return Path(os.path.abspath(Path(text).expanduser()))
    except RuntimeError as error:
        raise SettingsError(f"{text} can't be resolved: there is no such user.") from error


def _disable_switch(env: Mapping[str, str], *, claude: bool) -> tuple[bool, str] | None:
    """LAMINA_DISABLE_MEMORY, or in Claude mode the other tool's variable, if set."""
    for variable in (DISABLE_MEMORY, CLAUDE_DISABLE_MEMORY)[: 2 if claude else 1]:
        if text := env.get(variable):  # anything but a word for no
            return text.strip().lower() not in FALSE, variable
    return None


def _unknown_variables(env: Mapping[str, str]) -> list[str]:
    """Variables that look like settings and are none: warned of, since others may own the prefix."""
    names = {name for name in env if name.startswith("LAMINA_")}
    return [
        f"The variable {name} is not a setting" + (f"; did you mean {near}?" if near else ".")
        for name in sorted(names - VARIABLES.keys() - _OTHERS)
        for near in (nearest(name, {**VARIABLES, DISABLE_MEMORY: ""}),)
    ]


# ---- from layers to values


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
