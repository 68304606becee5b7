"""`lamina settings`: showing, explaining, changing files without losing what is in them."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lamina.cli.settings import change, remove
from lamina.config import SETTINGS
from lamina.errors import LaminaError

Run = Callable[..., Any]


@pytest.mark.spec("F9", "I2")
def test_all_settings_are_shown_and_those_changed_say_by_whom(lamina: Run, world: Path) -> None:
    lamina("settings", "set", "recall.max_files", "7")
    ran = lamina("settings")
    lines = ran.out.splitlines()
    assert len(lines) == len(SETTINGS)
    assert f"recall.max_files = 7  (user: {world / 'home' / 'settings.toml'})" in lines
    assert "recall.max_lines = 200" in lines
    assert "\x1b" not in ran.out


@pytest.mark.spec("I2")
@pytest.mark.parametrize(
    "words",
    [("settings", "set", "recall.max_files", "7"), ("hooks", "install", "claude-code", "--yes")],
)
def test_a_device_behind_a_link_stays_one(
    lamina: Run, world: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """`settings.toml -> /dev/null` is how people switch a file off; as root a rename replaced it."""
    device = world / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root can make a device")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(world / ".claude"))
    for file in (world / "home" / "settings.toml", world / ".claude" / "settings.json"):
        file.parent.mkdir()
        file.symlink_to(device)
    ran = lamina(*words)
    assert ran.code == 1
    assert "it is a device" in ran.err
    assert stat.S_ISCHR(device.stat().st_mode)


def test_one_setting_is_printed_bare_for_scripts(lamina: Run) -> None:
    assert lamina("settings", "model").out == "none\n"
    assert lamina("settings", "compact.auto").out == "true\n"
    assert lamina("settings", "snip").out == "snip.enabled = true\n"


def test_json_has_one_object_a_setting_with_its_source(lamina: Run) -> None:
    rows = lamina("settings", "--json").json
    assert [row["name"] for row in rows] == [row.name for row in SETTINGS]
    one = lamina("settings", "compact.auto", "--json").json
    assert one == {
        "name": "compact.auto",
        "value": True,
        "default": True,
        "type": "bool",
        "source": {"kind": "default", "where": ""},
        "variable": "LAMINA_COMPACT_AUTO",
        "from_project": True,
        "help": one["help"],
    }


@pytest.mark.spec("F9")
def test_explain_names_the_winner_and_those_that_it_beat(
    lamina: Run, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lamina("settings", "set", "bash.timeout", "7")
    lamina("settings", "set", "bash.timeout", "8", "--project-file")
    monkeypatch.setenv("LAMINA_BASH_TIMEOUT", "9")
    lines = lamina("settings", "bash.timeout", "--explain").out.splitlines()
    assert lines[0] == "bash.timeout = 9.0"
    assert lines[2:] == [
        "    set by environment: LAMINA_BASH_TIMEOUT",
        f"    overrides 8.0 from project: {world / 'project' / '.lamina' / 'settings.toml'}",
        f"    overrides 7.0 from user: {world / 'home' / 'settings.toml'}",
    ]


@pytest.mark.parametrize("option", [("--user",), ("--user", "--quiet")])
def test_an_option_may_stand_anywhere(lamina: Run, option: tuple[str, ...]) -> None:
    assert lamina("settings", "set", *option, "recall.max_files", "3").code == 0
    assert lamina("settings", *option, "recall.max_files").out == "3\n"
    between = lamina("settings", "set", *option, "recall.max_files", "4", "--project", ".")
    assert between.code == 0, between.err
    assert lamina("settings", "recall.max_files").out == "4\n"
    wrong = lamina("settings", "set", *option, "recall.max_files", "--bogus", "3")
    assert (wrong.code, "--bogus" in wrong.err) == (2, True)


def test_set_keeps_comments_and_everything_else(lamina: Run, world: Path) -> None:
    path = world / "home" / "settings.toml"
    path.parent.mkdir()
    path.write_text('# mine\nmodel = "none"  # for now\n\n[compact]\n# why\nauto = true\n')
    assert lamina("settings", "set", "compact.auto", "off").code == 0
    assert lamina("settings", "set", "dream.hours", "2").code == 0
    text = path.read_text()
    assert text.startswith('# mine\nmodel = "none"  # for now\n\n[compact]\n# why\nauto = false\n')
    assert tomllib.loads(text)["dream"]["hours"] == 2.0


def test_set_says_so_when_something_stronger_makes_it_useless(
    lamina: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_DREAM_HOURS", "3")
    ran = lamina("settings", "set", "dream.hours", "2")
    assert ran.code == 0
    assert "environment: LAMINA_DREAM_HOURS overrides it" in ran.err
    assert lamina("settings", "set", "dream.hours", "2", "--quiet").err == ""


@pytest.mark.spec("F9")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["set", "compact.atuo", "1"], "Did you mean compact.auto?"),
        (["set", "compact.auto", "maybe"], "compact.auto in the command must be true or false"),
        (["set", "memory.directory", "/a/b", "--local"], "inside the project"),
        (["set", "hooks", "{}", "--project-file"], "inside the project"),
        (["set", "compact.auto"], "not how this command is used"),
        (["unset", "compact.auto"], "is not set in"),
        (["compactt"], "There is no setting compactt."),
        (["set"], "not how this command is used"),
        (["set", "a", "b", "--local", "--user"], "not allowed with"),
    ],
)
def test_what_can_not_be_set_is_refused_and_nothing_is_written(
    lamina: Run, world: Path, words: list[str], said: str
) -> None:
    ran = lamina("settings", *words)
    assert ran.code == 2
    assert said in ran.err
    assert not (world / "home").exists()
    assert not (world / "project" / ".lamina").exists()


def test_unset_mends_a_file_that_can_not_be_loaded(lamina: Run, world: Path) -> None:
    path = world / "home" / "settings.toml"
    path.parent.mkdir()
    path.write_text("[wrong]\nkey = 1\n[dream]\nhours = 3\n")
    assert lamina("settings").code == 2
    assert lamina("settings", "unset", "wrong.key").code == 0
    assert lamina("settings", "dream.hours").out == "3.0\n"


def test_a_change_beside_another_fault_is_made_and_the_fault_named(
    lamina: Run, world: Path
) -> None:
    path = world / "home" / "settings.toml"
    path.parent.mkdir()
    path.write_text("wrong = 1\n")
    ran = lamina("settings", "set", "dream.hours", "3")
    assert ran.code == 0
    assert "The change was saved, but: There is no setting wrong" in ran.err


def test_files_that_can_not_be_changed_are_left_as_they_are(lamina: Run, world: Path) -> None:
    path = world / "home" / "settings.toml"
    path.parent.mkdir()
    path.write_text("model = \n")
    ran = lamina("settings", "set", "dream.hours", "3")
    assert (ran.code, path.read_text()) == (2, "model = \n")
    assert "not valid TOML" in ran.err
    path.write_text("dream = 3\n")
    assert "dream is a value" in lamina("settings", "set", "dream.hours", "3").err
    assert path.read_text() == "dream = 3\n"
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("a file")
    ran = lamina("settings", "set", "dream.hours", "3")
    assert ran.code in (1, 2)
    assert ran.err.count("\n") == 1


def test_a_linked_file_stays_a_link_and_keeps_its_mode(lamina: Run, world: Path) -> None:
    real = world / "dotfiles.toml"
    real.write_text("")
    real.chmod(0o640)
    path = world / "home" / "settings.toml"
    path.parent.mkdir()
    path.symlink_to(real)
    lamina("settings", "set", "dream.hours", "3")
    assert path.is_symlink()
    assert tomllib.loads(real.read_text()) == {"dream": {"hours": 3.0}}
    assert real.stat().st_mode & 0o777 == 0o640


def test_warnings_about_variables_go_to_stderr(
    lamina: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_MODLE", "x")
    ran = lamina("settings", "model")
    assert ran.out == "none\n"
    assert "did you mean LAMINA_MODEL?" in ran.err
    assert lamina("settings", "model", "--quiet").err == ""


NAMES = ["model", "compact.auto", "dream.hours", "tool_results.thresholds.Bash", "a.b.c", "a.b.d"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    before=st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9)),
    tables=st.booleans(),
    name=st.sampled_from(NAMES),
    value=st.integers(0, 9),
)
def test_a_change_changes_one_value_or_nothing_whatever_the_layout(
    tmp_path: Path, before: dict[str, int], tables: bool, name: str, value: int
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("# first\n" + _layout(before, tables=tables))
    try:
        change(path, name, value)
    except LaminaError:
        assert path.read_text() == "# first\n" + _layout(before, tables=tables)
        return
    text = path.read_text()
    assert text.startswith("# first\n")
    assert _flat(tomllib.loads(text)) == {**before, name: value}
    assert remove(path, name)
    assert _flat(tomllib.loads(path.read_text())) == {k: v for k, v in before.items() if k != name}
    assert not remove(path, name)


def _layout(values: dict[str, int], *, tables: bool) -> str:
    """The same values as dotted keys, or under table headings."""
    if not tables:
        return "".join(f"{name} = {value}  # c\n" for name, value in values.items())
    lines = [f"{name} = {value}\n" for name, value in values.items() if "." not in name]
    groups: dict[str, list[str]] = {}
    for name, value in values.items():
        head, dot, last = name.rpartition(".")
        if dot:
            groups.setdefault(head, []).append(f"{last} = {value}\n")
    return "".join(lines) + "".join(f"\n[{head}]\n{''.join(g)}" for head, g in groups.items())


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= (
            _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        )
    return flat


NO_MODEL = ["foo:bar", "claude-sonnet-5-5", "anthropic:", ":x", ""]


@pytest.mark.spec("F9")
@pytest.mark.parametrize("key", ["model", "small_model"])
@pytest.mark.parametrize("name", NO_MODEL)
def test_a_model_of_no_known_provider_is_refused_where_it_is_written(
    lamina: Run, world: Path, monkeypatch: pytest.MonkeyPatch, key: str, name: str
) -> None:
    kinds = "anthropic:NAME, openai:NAME, gguf:PATH-OR-NAME, scripted:FILE or none"
    ran = lamina("settings", "set", key, name)
    told = f'must be {kinds}, not "{name}".'
    assert (ran.code, ran.err) == (2, f"lamina: {key} in the command {told}\n")
    file = world / "home" / "settings.toml"
    assert not file.exists()
    file.parent.mkdir()
    file.write_text(f'{key} = "{name}"\n')
    assert lamina("memory", "list").err == f"lamina: {key} in {file} {told}\n"
    assert lamina("settings", "set", key, "none").code == 0, "a wrong file can be mended"
    if name:  # an empty variable is none
        variable = f"LAMINA_{key.upper()}"
        monkeypatch.setenv(variable, name)
        assert lamina("memory", "list").err == f"lamina: {key} in the variable {variable} {told}\n"


@pytest.mark.parametrize("name", NO_MODEL)
@pytest.mark.parametrize(
    "words",
    [
        ("chat", "-p", "hi"),
        ("dream", "--now"),
        ("extract",),
        ("sessions", "compact"),
        ("agents", "start", "anna"),
    ],
)
def test_an_option_that_names_no_model_is_refused(
    lamina: Run, words: tuple[str, ...], name: str
) -> None:
    ran = lamina(*words, f"--model={name}")
    assert ran.code == 2
    assert (
        f"--model: there is no model '{name}'; write anthropic:NAME, openai:NAME, gguf:" in ran.err
    )


@pytest.mark.spec("F9")
def test_a_setting_that_a_newer_lamina_wrote_is_refused_with_the_way_out(
    lamina: Run, world: Path
) -> None:
    file = world / "home" / "settings.toml"
    file.parent.mkdir()
    file.write_text("[future]\nwings = 2\n")
    told = lamina("memory", "list").err
    assert told.endswith(
        f"There is no setting future (in {file}). `lamina settings` lists them all. "
        "If a newer Lamina wrote it: update, or `lamina settings unset future`.\n"
    )
    assert lamina("settings", "unset", "future").code == 0
    assert lamina("memory", "list").code == 0
