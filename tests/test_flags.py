"""Flags: from settings, from a real OpenFeature provider, recorded and read back."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openfeature import api
from openfeature.provider.in_memory_provider import InMemoryFlag, InMemoryProvider

from lamina import flags
from lamina.config import FLAGS, Config, Flags, load

if TYPE_CHECKING:
    from openfeature.evaluation_context import EvaluationContext


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load(tmp_path, env={"HOME": str(tmp_path)}, managed=None)


@pytest.fixture(autouse=True)
def _clean_openfeature() -> Iterator[None]:
    yield
    api.clear_providers()


def provider(**values: Any) -> InMemoryProvider:
    return InMemoryProvider(
        {
            name.replace("__", "."): InMemoryFlag("on", {"on": value})
            for name, value in values.items()
        }
    )


@pytest.mark.spec("F8")
def test_every_mechanism_has_a_switch_and_a_default() -> None:
    mechanisms = {
        "tool_results": True,
        "folds": True,
        "time_clearing": True,
        "worn_clearing": True,
        "cache_edits": True,
        "api_management": True,
        "snip": True,
        "collapse": False,
        "notes": True,
        "notes_compaction": True,
        "full_compaction": True,
        "autocompact": True,
        "recall": True,
        "past_context": True,
        "extraction": True,
        "extraction_non_interactive": False,
        "dream": True,
        "daily_log": False,
        "team": False,
        "agents": False,
    }
    switches = {name: row.default for name, row in FLAGS.items() if row.kind == "bool"}
    assert switches == mechanisms


@pytest.mark.spec("F8")
def test_a_flag_follows_its_setting(config: Config) -> None:
    assert flags.read(config).on("notes") is True
    off = flags.read(config.with_(**{"notes.enabled": False, "dream.hours": 2}))
    assert off.on("notes") is False
    assert off.value("dream.hours") == 2.0
    assert off.sources["notes"].startswith("flag")
    with pytest.raises(TypeError):
        off.on("dream.hours")
    with pytest.raises(KeyError):
        off.on("noets")


@pytest.mark.spec("F8")
def test_a_provider_of_the_user_decides_over_files_and_environment(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "LAMINA_NOTES_ENABLED": "1"}
    config = load(tmp_path, env=env, managed=None)
    before = api.get_client().provider
    seen = flags.read(
        config,
        provider(
            notes=False, dream__hours=3, notes__first_tokens=7, tool_results__thresholds={"Bash": 9}
        ),
    )
    assert seen.on("notes") is False
    assert seen.value("dream.hours") == 3.0
    assert seen.value("notes.first_tokens") == 7
    assert seen.value("tool_results.thresholds") == {"Bash": 9}
    assert seen.on("recall") is True
    assert seen.sources["notes"] == "provider: In-Memory Provider"
    assert seen.sources["recall"] == "default"
    assert seen.problems == ()
    assert api.get_client().provider is before


@pytest.mark.spec("F8", "F9")
def test_what_is_managed_or_given_on_opening_is_not_the_providers_to_change(tmp_path: Path) -> None:
    managed = tmp_path / "managed.toml"
    managed.write_text("notes.enabled = true")
    config = load(tmp_path, env={"HOME": str(tmp_path)}, managed=managed)
    seen = flags.read(config.with_(**{"recall.enabled": True}), provider(notes=False, recall=False))
    assert (seen.on("notes"), seen.on("recall")) == (True, True)


@pytest.mark.spec("F8")
def test_a_provider_that_the_host_set_for_our_domain_is_used_and_its_global_one_is_not(
    config: Config,
) -> None:
    api.set_provider_and_wait(provider(notes=False))
    assert flags.read(config).on("notes") is True
    api.set_provider_and_wait(provider(notes=False), flags.DOMAIN)
    assert flags.read(config).on("notes") is False


def test_a_provider_s_bad_value_is_named_and_the_settings_value_stays(config: Config) -> None:
    seen = flags.read(config, provider(notes="yes", dream__sessions=-1, dream__hours="x"))
    assert (seen.on("notes"), seen.value("dream.sessions")) == (True, 5)
    assert seen.value("dream.hours") == 24.0
    assert len(seen.problems) == 3
    assert any("dream.sessions must be at least 0" in problem for problem in seen.problems)


class Broken(InMemoryProvider):
    def initialize(self, evaluation_context: EvaluationContext) -> None:
        raise RuntimeError("no connection")


class Hanging(InMemoryProvider):
    release = threading.Event()

    def initialize(self, evaluation_context: EvaluationContext) -> None:
        self.release.wait(30)


def test_a_provider_that_does_not_come_up_leaves_the_settings(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = flags.read(config, Broken({}))
    assert seen.on("notes") is True
    assert "could not start" in seen.problems[0]
    monkeypatch.setattr(flags, "PROVIDER_SECONDS", 0.01)
    seen = flags.read(config, Hanging({}))
    Hanging.release.set()
    assert seen.on("notes") is True
    assert "not ready" in seen.problems[0]


@pytest.mark.spec("F8")
@given(
    st.fixed_dictionaries(
        {
            "notes.enabled": st.booleans(),
            "collapse.enabled": st.booleans(),
            "dream.hours": st.floats(0, 1e6),
            "dream.sessions": st.integers(0, 10**6),
            "tool_results.thresholds": st.dictionaries(st.text(max_size=5), st.integers(0, 50_000)),
        }
    )
)
def test_flags_survive_their_record(overrides: dict[str, Any]) -> None:
    config = load("/", env={"HOME": "/nowhere-at-all"}, managed=None, overrides=overrides)
    seen = flags.read(config)
    again = Flags.from_json(json.loads(json.dumps(seen.to_json())))
    assert again == seen


def test_a_record_of_another_version_gets_defaults_for_what_it_lacks() -> None:
    seen = Flags.from_json(
        {"values": {"notes": False, "dream.hours": "soon", "gone": 1}, "sources": 3}
    )
    assert (seen.on("notes"), seen.value("dream.hours"), seen.on("recall")) == (False, 24.0, True)
    assert Flags.from_json({"values": None}).on("notes") is True


def test_without_a_provider_openfeature_is_not_even_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from lamina import config, flags; flags.read(config.load('.', env={}));"
        "sys.exit(any(name.startswith('openfeature') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=30, check=False)
    assert done.returncode == 0


@pytest.mark.spec("F8")
def test_a_provider_given_to_one_session_rules_no_other(config: Config) -> None:
    mine = flags.read(config, provider(snip=False, tool_results=False))
    assert not mine.on("snip")
    other = flags.read(config, provider(snip=True, tool_results=False))
    assert other.on("snip")
    assert not other.on("tool_results")
    plain = flags.read(config)
    assert plain.on("snip")
    assert plain.on("tool_results")
    assert plain.sources["snip"] == "default"
