"""What the settings files inside a project may do: they come with whatever repository was cloned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.config import BY_NAME, SETTINGS, Config, load, settings_files
from lamina.config.layers import CLAUDE_KEYS as KEYS
from lamina.config.layers import Layer, Source
from lamina.config.load import resolve
from lamina.config.setting import Setting
from lamina.errors import SettingsError

# Every key, decided by hand and not read from the table: a new one fails here until somebody asks
# what a hostile repository could do with it.
SWITCH_OFF = """
memory.enabled memory.past_context memory.daily_log recall.enabled notes.enabled snip.enabled
compact.auto compact.full collapse.enabled extraction.enabled extraction.non_interactive
dream.enabled sandbox.network team.enabled team.sync agents.enabled agents.coordinator
"""
LOWER = """
recall.max_files recall.max_lines recall.max_bytes recall.session_bytes extraction.max_calls
dream.max_minutes cache.keep_warm agents.depth agents.at_once agents.max_calls agents.max_minutes
"""
# Rules that only narrow, and a timeout that bash.max_timeout bounds.
SET = "permissions.ask permissions.deny bash.timeout"
NOTHING = """
model small_model max_output anthropic.base_url anthropic.cache_edits openai.base_url api.timeout
api.retries cache.ttl window.tokens turn.max_calls turn.continuations background.profile
background.turns background.drain_seconds
tool_results.enabled tool_results.threshold tool_results.thresholds tool_results.message_limit
tool_results.preview_bytes folds.enabled folds.least microcompact.time_based microcompact.gap_minutes microcompact.keep
microcompact.worn microcompact.worn_tokens microcompact.worn_keep microcompact.cache_edits
microcompact.edits_trigger microcompact.edits_keep microcompact.api_management
microcompact.api_trigger microcompact.api_clear_at_least microcompact.thinking_turns
notes.first_tokens notes.every_tokens notes.tool_calls notes.section_tokens notes.total_tokens
notes.keep_tokens notes.keep_messages notes.keep_most_tokens compact.from_notes compact.window
compact.percent compact.output_reserve compact.margin compact.warning_margin
compact.blocking_margin compact.tries compact.failures compact.fidelity compact.restore_files
compact.restore_file_tokens compact.restore_files_tokens compact.restore_skill_tokens
compact.restore_skills_tokens collapse.stage_percent collapse.commit_percent
extraction.every_turns dream.hours dream.sessions dream.non_interactive dream.scan_minutes memory.directory
memory.remote_directory memory.guidelines memory.inbox_all memory.inbox_most memory.index memory.reader
memory.manifest_files memory.max_file recall.stale_days recall.max_tokens recall.timeout recall.wait
instructions.excludes instructions.trust instructions.depth instructions.warn_characters
permissions.allow sandbox.profile sandbox.unattended_reach bash.environment bash.max_timeout hooks mcp.servers
mcp.wait_seconds secrets.rules anthropic.thinking anthropic.thinking_tokens anthropic.betas anthropic.headers
anthropic.diagnostics openai.headers openai.cache_key skills.directories web.search web.fetch
turn.recover spend.daily_cap spend.layer_caps prices bare remote
agents.trust agents.max_dollars agents.name agents.serves agents.bridge team.repositories
"""
DECIDED = {
    name: may
    for may, names in (
        ("switch off", SWITCH_OFF),
        ("lower", LOWER),
        ("set", SET),
        ("nothing", NOTHING),
    )
    for name in names.split()
}
INSIDE = pytest.mark.parametrize("kind", ["project", "local"])


def _loaded(root: Path, kind: Any, name: str, value: object) -> tuple[Config, Path]:
    """The settings of a project of which one file sets one value."""
    path = settings_files(root / "project", root / "home")[kind]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{name} = {json.dumps(value)}\n")
    return load(root / "project", home=root / "home", env={}, managed=None), path


def _tries(setting: Setting) -> tuple[list[Any], list[Any]]:
    """Values that a file inside the project may set, and some that it may not."""
    match DECIDED.get(setting.name, "undecided"):
        case "nothing":
            return [], [{} if setting.kind == "table" else setting.default, False]
        case "switch off":
            return [False], [True]
        case "lower":
            return [setting.default, setting.minimum], [setting.default + 1]
        case "set":
            return [["Bash"] if setting.kind == "strings" else setting.default], []
        case _:
            pytest.fail(f"Decide what a cloned repository may do with {setting.name}.")


@pytest.mark.spec("F9")
@INSIDE
@pytest.mark.parametrize("name", sorted({*DECIDED, *BY_NAME}))
def test_a_file_inside_the_project_sets_only_what_was_decided_for_this_key(
    tmp_path: Path, kind: str, name: str
) -> None:
    accepted, refused = _tries(BY_NAME[name])
    for value in accepted:
        config, path = _loaded(tmp_path, kind, name, value)
        assert (config.value(name), config.source(name)) == (value, Source(kind, str(path)))  # type: ignore[arg-type]
    for value in refused:
        with pytest.raises(SettingsError, match="inside the project") as caught:
            _loaded(tmp_path, kind, name, value)
        said = str(caught.value)
        assert name in said
        assert str(settings_files(tmp_path / "project", tmp_path / "home")[kind]) in said  # type: ignore[index]


def test_a_setting_that_nobody_opened_is_closed_to_projects() -> None:
    assert Setting("new", "bool", False, "New.").from_project is False


@pytest.mark.spec("F9")
@given(st.integers(1, 50), st.integers(1, 5), st.integers(1, 5))
def test_of_values_that_may_only_be_lowered_the_lowest_counts(
    user: int, project: int, local: int
) -> None:
    given_values = {"local": local, "project": project, "user": user}
    layers = [
        Layer(Source(kind, kind), {"recall.max_files": value})  # type: ignore[arg-type]
        for kind, value in given_values.items()
    ]
    assert resolve(layers, (), None)["recall.max_files"][0] == min(given_values.values())
    above = Layer(Source("environment"), {"recall.max_files": 50})
    assert resolve([above, *layers], (), None)["recall.max_files"][0] == 50


@pytest.mark.spec("F9", "M13")
@pytest.mark.parametrize("file", ["settings.json", "settings.local.json"])
@pytest.mark.parametrize("key", sorted(KEYS))
def test_the_other_tools_project_files_are_held_to_the_same_and_named(
    tmp_path: Path, file: str, key: str
) -> None:
    path = tmp_path / "project" / ".claude" / file
    path.parent.mkdir(parents=True)
    setting = BY_NAME[KEYS[key]]
    for value in _tries(setting)[1]:
        path.write_text(json.dumps({key: value, "model": "scripted:m.json"}))
        config = load(tmp_path / "project", env={"HOME": str(tmp_path)}, claude=True, managed=None)
        assert config.source(setting.name).kind == "default"
        assert config.source("model").kind == "default"
        assert config.warnings == (f"{path} is inside the project: its {key} was left out.",)


def test_the_list_names_no_setting_that_is_gone() -> None:
    assert set(DECIDED) == {setting.name for setting in SETTINGS}
