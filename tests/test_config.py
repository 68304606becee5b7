"""Settings: order, types, refusals, Claude mode, keys."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.config import BY_NAME, KEYS, SETTINGS, Config, load, settings_files
from lamina.config.layers import Layer, Source, SourceKind
from lamina.config.load import resolve
from lamina.config.setting import BadValue
from lamina.config.table import MODELS_BY_KEY
from lamina.errors import SettingsError


class Place:
    """A home, a project and a managed file, all empty at first."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = root / "project"
        self.managed = root / "etc" / "settings.toml"
        self.env: dict[str, str] = {"HOME": str(root)}
        for folder in (self.home, self.project / ".lamina", self.managed.parent):
            folder.mkdir(parents=True)

    def write(self, kind: str, text: str) -> Path:
        files = {**settings_files(self.project, self.home), "managed": self.managed}
        files[kind].write_text(text)  # type: ignore[index]
        return files[kind]  # type: ignore[index]

    def load(self, **kwargs: Any) -> Config:
        kwargs.setdefault("home", self.home)
        return load(self.project, env=self.env, managed=self.managed, **kwargs)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# ---- order


KINDS: list[SourceKind] = ["managed", "flag", "environment", "local", "project", "user"]


@pytest.mark.spec("F9")
def test_each_source_beats_those_below_it(place: Place) -> None:
    place.write("user", "[bash]\ntimeout = 1\n")
    assert place.load().float("bash.timeout") == 1
    path = place.write("project", "[bash]\ntimeout = 2\n")
    config = place.load()
    assert (config.float("bash.timeout"), config.source("bash.timeout")) == (
        2,
        Source("project", str(path)),
    )
    place.write("local", "bash.timeout = 3\n")
    assert place.load().float("bash.timeout") == 3
    place.env["LAMINA_BASH_TIMEOUT"] = "4"
    config = place.load()
    assert config.float("bash.timeout") == 4
    assert config.source("bash.timeout") == Source("environment", "LAMINA_BASH_TIMEOUT")
    assert place.load(overrides={"bash.timeout": 5}).float("bash.timeout") == 5
    place.write("managed", "bash.timeout = 6\n")
    assert place.load(overrides={"bash.timeout": 5}).float("bash.timeout") == 6
    assert place.load().with_(**{"bash.timeout": 7}).float("bash.timeout") == 6


@pytest.mark.spec("F9")
@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 50)), unique_by=lambda pair: pair[0])
)
def test_the_strongest_source_that_speaks_decides(
    given_values: list[tuple[SourceKind, int]],
) -> None:
    by_kind = dict(given_values)
    layers = [
        Layer(Source(kind, kind), {"bash.timeout": by_kind[kind]} if kind in by_kind else {})
        for kind in KINDS
    ]
    value, source = resolve(layers, (), None)["bash.timeout"]
    speaking = [kind for kind in KINDS if kind in by_kind]
    if speaking:
        assert (value, source.kind) == (by_kind[speaking[0]], speaking[0])
    else:
        assert (value, source.kind) == (120, "default")


@pytest.mark.spec("F9")
@given(st.dictionaries(st.sampled_from(KINDS), st.lists(st.text("ab(*)", min_size=1), max_size=4)))
def test_no_source_can_drop_another_ones_deny_rule(rules: dict[SourceKind, list[str]]) -> None:
    layers = [
        Layer(Source(kind, kind), {"permissions.deny": rules.get(kind, [])}) for kind in KINDS
    ]
    denied = resolve(layers, (), None)["permissions.deny"][0]
    assert set(denied) == {rule for listed in rules.values() for rule in listed}


def test_tables_add_up_by_key_and_hooks_of_all_files_run(place: Place) -> None:
    place.write(
        "user",
        '[tool_results.thresholds]\nBash = 1000\n[[hooks.Stop]]\ncommand = "a"\n',
    )
    place.write(
        "managed",
        '[tool_results.thresholds]\nMine = 7\n[[hooks.Stop]]\ncommand = "b"\n',
    )
    config = place.load()
    thresholds = {"Bash": 1000, "Grep": 20_000, "Read": 0, "Mine": 7}
    assert config.table("tool_results.thresholds") == thresholds
    assert config.table("hooks") == {"Stop": [{"command": "a"}, {"command": "b"}]}


# ---- types


def test_every_setting_is_read_from_its_variable_in_its_type(place: Place) -> None:
    samples = {
        "str": "text",
        "int": "7",
        "float": "7.5",
        "bool": "on",
        "strings": "a, b",
        "table": "{}",
    }
    expected = {
        "str": "text",
        "int": 7,
        "float": 7.5,
        "bool": True,
        "strings": ["a", "b"],
        "table": {},
    }
    for setting in SETTINGS:
        text = setting.choices[0] if setting.choices else samples[setting.kind]
        if setting.name.endswith("model"):
            text = "none"
        elif setting.least > 7:
            text = str(int(setting.least))
        elif setting.most < 7:
            text = str(int(setting.most))
        value = setting.parsed(text)
        assert type(value) is type(expected[setting.kind])
        place.env = {"HOME": place.env["HOME"], setting.environment: text}
        assert place.load().source(setting.name).where == setting.environment


def test_defaults_pass_their_own_checks_and_names_are_unambiguous() -> None:
    names = [setting.name for setting in SETTINGS]
    assert len(set(names)) == len(names)
    variables = [setting.environment for setting in SETTINGS]
    assert len(set(variables)) == len(variables)
    for setting in SETTINGS:
        assert setting.checked(setting.default) == setting.default
        assert not any(other.startswith(setting.name + ".") for other in names)
        assert setting.help.endswith(".")


@pytest.mark.spec("F9")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("compact.atuo = true", ["compact.atuo", "Did you mean compact.auto?"]),
        ("max_files = 3", ["max_files", "recall.max_files"]),
        ("[nothing_like_it]\nx = 1", ["nothing_like_it", "lamina settings"]),
        ('compact.auto = "yes"', ["compact.auto", "true or false", '"yes"']),
        ("recall.max_files = true", ["recall.max_files", "whole number"]),
        ("recall.max_files = 0", ["recall.max_files", "at least 1"]),
        ("recall.max_files = 51", ["recall.max_files", "at most 50"]),
        ("compact.percent = nan", ["compact.percent", "nan"]),
        ('cache.ttl = "2h"', ["cache.ttl", "5m, 1h"]),
        ("permissions.deny = [1]", ["permissions.deny", "list of strings"]),
        ('model = "a\\u0000b"', ["model", "a string"]),
        ("model = 1\nmodel =\n", ["not valid TOML", "line 2"]),
        ("[tool_results.thresholds]\nBash = 50001", ["Bash", "at most 50000"]),
        ("[tool_results.thresholds]\nBash = true", ["Bash", "whole number"]),
        ("compact = 3", ["compact", "There is no setting"]),
    ],
)
def test_what_can_not_be_taken_is_refused_by_name_and_file(
    place: Place, text: str, words: list[str]
) -> None:
    path = place.write("user", text)
    with pytest.raises(SettingsError) as caught:
        place.load()
    for word in [*words, str(path)]:
        assert word in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[hooks.PreToolUse]]\nmatch = "Bash"', ["a command"]),
        ('[[hooks.OnTuesday]]\ncommand = "x"', ["OnTuesday", "PreToolUse"]),
        ('[hooks.Stop]\ncommand = "x"', ["[[hooks.Stop]]"]),
        ('[[hooks.Stop]]\ncommand = "x"\ntimeout = 0', ["timeout"]),
        ('[[hooks.Stop]]\ncommand = "x"\ntimeout = true', ["Stop.timeout"]),
        ('[[hooks.Stop]]\ncommand = "x"\nmatch = "("', ["bad regular expression"]),
        ('[[hooks.Stop]]\ncommand = "x"\nshell = true', ["Stop.shell"]),
        ("[[hooks.Stop]]\ncommand = [1]", ["Stop.command"]),
        ("hooks.Stop = [3]", ["a table"]),
        ("[mcp.servers.a]\ncwd = '/'", ["either a command or a url"]),
        ("[mcp.servers.a]\ncommand = 'x'\nurl = 'y'", ["either a command or a url"]),
        ("[mcp.servers.a]\ncommand = 'x'\nargs = [1]", ["a.args"]),
        ("[mcp.servers.a]\ncommand = 'x'\nargs = '1'", ["a.args", "wrong type"]),
        ("[mcp.servers.a]\ncommand = 'x'\narg = []", ["no a.arg"]),
        ("[mcp.servers.a]\ncommand = ''", ["either a command or a url"]),
        ("[mcp.servers]\na = 3", ["a table"]),
        ("[spend.layer_caps]\nlunch = 3", ["lunch", "extraction"]),
        ("[spend.layer_caps]\ndream = -1", ["dream"]),
        ("[prices]\nx = 3", ["table of prices"]),
        ("[prices.x]\ninput = true", ["x.input"]),
    ],
)
def test_structured_settings_are_checked_inside(place: Place, text: str, words: list[str]) -> None:
    place.write("user", text)
    with pytest.raises(SettingsError) as caught:
        place.load()
    assert all(word in str(caught.value) for word in words)


def test_structured_settings_that_are_right_arrive_whole(place: Place) -> None:
    place.write(
        "user",
        """
        [[hooks.PreToolUse]]
        command = "check --fast"
        match = "Bash|Edit"
        timeout = 5
        [mcp.servers.files]
        command = "serve"
        args = ["."]
        env = { A = "1" }
        clearable = true
        [mcp.servers.web]
        url = "http://localhost:1"
        headers = { X = "y" }
        [prices."my-model"]
        input = 1
        provider = "openai"
        """,
    )
    config = place.load()
    assert config.table("hooks")["PreToolUse"][0]["command"] == "check --fast"
    assert set(config.table("mcp.servers")) == {"files", "web"}
    assert config.table("prices") == {"my-model": {"input": 1, "provider": "openai"}}


@pytest.mark.parametrize("variable", ["LAMINA_RECALL_MAX_FILES", "LAMINA_HOOKS"])
def test_a_bad_variable_is_refused_by_its_name(place: Place, variable: str) -> None:
    place.env[variable] = "many"
    with pytest.raises(SettingsError, match=variable):
        place.load()


def test_an_unknown_variable_is_a_warning_because_others_may_own_it(place: Place) -> None:
    place.env["LAMINA_COMPCT_AUTO"] = "0"
    place.env["LAMINA_ZZZZZZZZ"] = "0"
    assert place.load().warnings == (
        "The variable LAMINA_COMPCT_AUTO is not a setting; did you mean LAMINA_COMPACT_AUTO?",
        "The variable LAMINA_ZZZZZZZZ is not a setting.",
    )


def test_files_that_are_no_settings_are_refused_in_a_sentence(place: Place) -> None:
    path = place.write("user", "")
    path.write_bytes(b"model = '\xff'")
    with pytest.raises(SettingsError, match="not UTF-8"):
        place.load()
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(SettingsError, match="larger than 1 MB"):
        place.load()
    path.write_text("a = " + "[" * 100_000)
    with pytest.raises(SettingsError, match="not valid TOML"):
        place.load()
    path.unlink()
    path.mkdir()
    with pytest.raises(SettingsError, match="is not a file"):
        place.load()
    path.rmdir()
    os.mkfifo(path)  # opened, it would wait for a writer for ever
    with pytest.raises(SettingsError, match="is not a file"):
        place.load()


@given(st.text())
def test_any_text_for_any_kind_is_taken_or_refused_never_a_crash(text: str) -> None:
    for name in (
        "model",
        "compact.auto",
        "dream.hours",
        "dream.sessions",
        "permissions.deny",
        "hooks",
    ):
        with contextlib.suppress(BadValue):
            BY_NAME[name].parsed(text)


# ---- what a project may not do


@pytest.mark.spec("F9", "M2")
@pytest.mark.parametrize("kind", ["project", "local"])
def test_a_file_inside_the_project_can_switch_memory_off(place: Place, kind: str) -> None:
    place.write("user", "memory.enabled = true")
    place.write(kind, "memory.enabled = false")
    assert place.load().bool("memory.enabled") is False


def test_with_the_users_directory_as_project_the_user_file_keeps_its_rights(tmp_path: Path) -> None:
    home = tmp_path / ".lamina"
    home.mkdir()
    (home / "settings.toml").write_text('permissions.allow = ["Read"]')
    config = load(tmp_path, env={"HOME": str(tmp_path)}, managed=None)
    assert config.strings("permissions.allow") == ("Read",)
    assert config.source("permissions.allow").kind == "user"


# ---- memory on and off


@pytest.mark.spec("M2")
@pytest.mark.parametrize(
    ("env", "user", "enabled", "where"),
    [
        ({}, "", True, ""),
        ({"LAMINA_DISABLE_MEMORY": "1"}, "", False, "LAMINA_DISABLE_MEMORY"),
        ({"LAMINA_DISABLE_MEMORY": "0", "LAMINA_BARE": "1"}, "", True, "LAMINA_DISABLE_MEMORY"),
        ({"LAMINA_DISABLE_MEMORY": ""}, "", True, ""),
        ({"LAMINA_BARE": "1"}, "memory.enabled = true", False, "bare mode, LAMINA_BARE"),
        ({"LAMINA_REMOTE": "1"}, "", False, "a remote run without memory.remote_directory"),
        ({"LAMINA_REMOTE": "1", "LAMINA_REMOTE_MEMORY_DIR": "/mnt/memory"}, "", True, ""),
        ({}, "memory.enabled = false", False, "settings.toml"),
    ],
)
def test_the_chain_that_switches_memory_off_says_which_link_did_it(
    place: Place, env: dict[str, str], user: str, enabled: bool, where: str
) -> None:
    place.env |= env
    place.write("user", user)
    config = place.load()
    assert config.bool("memory.enabled") is enabled
    assert config.source("memory.enabled").where.endswith(where)


@pytest.mark.spec("M2", "F9")
def test_managed_settings_win_over_the_variables(place: Place) -> None:
    place.env["LAMINA_DISABLE_MEMORY"] = "0"
    place.write("managed", "memory.enabled = false")
    assert place.load().bool("memory.enabled") is False


@pytest.mark.spec("M2")
def test_memory_place_and_guidelines_come_from_the_environment(place: Place) -> None:
    place.env |= {"LAMINA_MEMORY_DIR": "/a/b/c", "LAMINA_MEMORY_GUIDELINES": "Be brief."}
    config = place.load()
    assert config.str("memory.directory") == "/a/b/c"
    assert config.str("memory.guidelines") == "Be brief."


# ---- models and keys


@pytest.mark.parametrize(
    ("env", "model", "small"),
    [
        ({}, "none", "none"),
        ({"ANTHROPIC_API_KEY": "k"}, "anthropic:claude-sonnet-5-5", "anthropic:claude-haiku-5-5"),
        ({"OPENAI_API_KEY": "k"}, "openai:gpt-6-luna", "openai:gpt-6-luna"),
        (
            {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "LAMINA_MODEL": "openai:x"},
            "openai:x",
            "openai:gpt-6-luna",
        ),
        (
            {"OPENAI_BASE_URL": "http://x", "LAMINA_MODEL": "openai:llama"},
            "openai:llama",
            "openai:llama",
        ),
        ({"ANTHROPIC_API_KEY": "k", "LAMINA_MODEL": "gguf:a"}, "gguf:a", "none"),
        ({"ANTHROPIC_API_KEY": "", "LAMINA_MODEL": ""}, "none", "none"),
    ],
)
def test_the_default_model_follows_the_keys_that_are_there(
    place: Place, env: dict[str, str], model: str, small: str
) -> None:
    place.env |= env
    config = place.load()
    assert (config.str("model"), config.str("small_model")) == (model, small)


def test_default_models_are_names_that_the_installed_packages_know() -> None:
    # Their lists are read as text: importing both packages takes seconds.
    lists = {"anthropic": "types/model.py", "openai": "types/shared/chat_model.py"}
    for provider, names in MODELS_BY_KEY.items():
        spec = importlib.util.find_spec(provider)
        assert spec is not None
        assert spec.origin is not None
        known = (Path(spec.origin).parent / lists[provider]).read_text()
        for name in names:
            assert f'"{name.partition(":")[2]}"' in known


def test_keys_are_handed_out_but_never_shown(place: Place) -> None:
    place.env |= {variable: f"sesame-{name}" for name, variable in KEYS.items()}
    config = place.load()
    for name in KEYS:
        assert config.secret(name) == f"sesame-{name}"
    assert "sesame" not in repr(config) + str(config) + repr(config.layers)
    with pytest.raises(KeyError):
        config.secret("nobody")


# ---- a Config's own habits


def test_with_gives_another_config_and_keeps_earlier_overrides(place: Place) -> None:
    first = place.load(overrides={"compact.auto": False})
    second = first.with_(**{"recall.max_files": 9, "permissions.deny": ("Bash",)})
    assert first.int("recall.max_files") == 5
    assert (second.bool("compact.auto"), second.int("recall.max_files")) == (False, 9)
    assert second.strings("permissions.deny") == ("Bash",)
    assert second.source("recall.max_files").kind == "flag"
    with pytest.raises(SettingsError, match=r"recall\.max_file\b"):
        first.with_(**{"recall.max_file": 1})
    with pytest.raises(SettingsError, match="at least"):
        first.with_(**{"recall.max_files": "0"})


def test_what_a_config_hands_out_can_not_change_it(place: Place) -> None:
    config = place.load()
    config.table("tool_results.thresholds")["Bash"] = 1
    config.value("tool_results.thresholds")["Bash"] = 1
    assert config.table("tool_results.thresholds")["Bash"] == 30_000
    assert BY_NAME["tool_results.thresholds"].default["Bash"] == 30_000


def test_asking_for_the_wrong_type_is_a_programmers_error(place: Place) -> None:
    config = place.load()
    with pytest.raises(TypeError, match=r"compact\.auto is a bool"):
        config.int("compact.auto")
    with pytest.raises(KeyError):
        config.int("compact.nothing")


def test_the_home_is_the_variable_or_a_folder_of_the_user(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert load(".", env=env, managed=None).home == tmp_path / ".lamina"
    env["LAMINA_HOME"] = str(tmp_path / "other")
    assert load(".", env=env, managed=None).home == tmp_path / "other"
    assert load(".", env=env, home=tmp_path / "given", managed=None).home == tmp_path / "given"
    with pytest.raises(SettingsError, match="NUL"):
        load(".", env=env, home="a\0b", managed=None)
    with pytest.raises(SettingsError, match="no such user"):
        load(".", env=env, home="~nobody-of-that-name/x", managed=None)


def test_an_empty_home_is_no_home(tmp_path: Path) -> None:
    account = Path(pwd.getpwuid(os.getuid()).pw_dir)
    for env in ({"HOME": ""}, dict[str, str]()):
        assert load(tmp_path, env=env, managed=None).home == account / ".lamina"


# ---- Claude mode


@pytest.mark.spec("M13")
def test_claude_mode_reads_the_other_tools_keys_from_its_files(tmp_path: Path) -> None:
    home = tmp_path / ".claude"
    home.mkdir()
    (home / "settings.json").write_text(
        json.dumps(
            {
                "autoMemoryDirectory": "~/notes/mine",
                "autoCompactEnabled": False,
                "autoCompactWindow": 100_000,
                "claudeMdExcludes": ["**/a.md"],
                "autoDreamEnabled": False,
                "hooks": {"Stop": [{"hooks": []}]},
                "model": "opus",
            }
        )
    )
    project = tmp_path / "project"
    (project / ".claude").mkdir(parents=True)
    (project / ".claude" / "settings.json").write_text(
        json.dumps({"autoMemoryEnabled": False, "autoMemoryDirectory": "/evil/place"})
    )
    (project / ".claude" / "settings.local.json").write_text('{"autoMemoryEnabled": true}')
    config = load(project, env={"HOME": str(tmp_path)}, claude=True, managed=None)
    assert (config.home, config.own_home, config.claude) == (home, home / "lamina", True)
    assert config.str("memory.directory") == "~/notes/mine"
    assert config.bool("memory.enabled") is False
    assert config.bool("compact.auto") is False
    assert config.int("compact.window") == 100_000
    assert config.strings("instructions.excludes") == ("**/a.md",)
    assert config.bool("dream.enabled") is False
    assert config.table("hooks") == {}
    assert config.str("model") == "none"
    assert len(config.warnings) == 2
    assert "autoMemoryDirectory" in " ".join(config.warnings)


@pytest.mark.spec("M13", "M2")
def test_claude_mode_knows_the_other_tools_variables_and_ours_come_first(tmp_path: Path) -> None:
    env = {
        "HOME": str(tmp_path),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "conf"),
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_COWORK_MEMORY_PATH_OVERRIDE": "/a/b/theirs",
        "CLAUDE_COWORK_MEMORY_EXTRA_GUIDELINES": "theirs",
        "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "50",
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "90000",
        "CLAUDE_CODE_REMOTE": "1",
        "CLAUDE_CODE_REMOTE_MEMORY_DIR": "/a/b/remote",
        "LAMINA_MEMORY_DIR": "/a/b/ours",
    }
    config = load(".", env=env, claude=True, managed=None)
    assert config.home == tmp_path / "conf"
    assert config.str("memory.directory") == "/a/b/ours"
    assert config.str("memory.guidelines") == "theirs"
    assert config.float("compact.percent") == 50
    assert config.int("compact.window") == 90_000
    assert config.bool("remote") is True
    assert config.bool("memory.enabled") is False
    assert config.source("memory.enabled").where == "CLAUDE_CODE_DISABLE_AUTO_MEMORY"
    plain = load(".", env=env, managed=None)
    assert plain.bool("memory.enabled") is True
    assert plain.float("compact.percent") == 0


@pytest.mark.spec("M13")
def test_a_home_that_is_the_other_tools_directory_switches_the_mode_on(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "conf")}
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "settings.json").write_text("")
    for name, expected in ((".claude", True), ("conf", True), ("third", True), ("plain", False)):
        assert load(".", env=env, home=tmp_path / name, managed=None).claude is expected


@pytest.mark.spec("M13")
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "not valid JSON"),
        ("[]", "JSON object"),
        ('{"autoMemoryEnabled": "on"}', "true or false"),
    ],
)
def test_a_damaged_file_of_the_other_tool_is_named(tmp_path: Path, text: str, word: str) -> None:
    home = tmp_path / ".claude"
    home.mkdir()
    (home / "settings.json").write_text(text)
    with pytest.raises(SettingsError, match=word) as caught:
        load(".", env={"HOME": str(tmp_path)}, claude=True, managed=None)
    assert str(home / "settings.json") in str(caught.value)
