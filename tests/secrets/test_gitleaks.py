"""Rule files in gitleaks' format hold here too, and what can't be taken is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.errors import SettingsError
from lamina.secrets import all_rules, load_gitleaks, own_rules, scan

RULES = r"""
title = "company rules"
[allowlist]
regexes = ['''acme-0{8}''']
stopwords = ["sandbox"]

[[rules]]
id = "acme-token"
regex = '''(?i)acme_key\s*=\s*["']?(acme-[a-z0-9]{8})'''
keywords = ["acme"]
entropy = 2.0

[[rules.allowlists]]
regexTarget = "line"
regexes = ['''pragma: allow''']

[[rules]]
id = "looks-back"
regex = '''(?<=x)y'''

[[rules]]
id = "by-path"
path = '''\.pem$'''

[[rules]]
id = "no-such-group"
regex = '''abc'''
secretGroup = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gitleaks.toml"
    path.write_text(RULES)
    return path


@pytest.mark.spec("L5.6")
def test_a_rule_finds_its_secret_group_only(file: Path) -> None:
    text = "ACME_KEY = 'acme-a1b2c3d4'"
    (found,) = scan(text, load_gitleaks(file))
    assert (found.rule, text[found.start : found.end]) == ("acme-token", "acme-a1b2c3d4")


@pytest.mark.parametrize(
    "text",
    [
        "acme_key=acme-00000000",  # allowed for all rules
        "acme_key=acme-sandbox1",  # a stop word
        "acme_key=acme-a1b2c3d4 # pragma: allow",  # the line is allowed for this rule
        "acme_key=acme-aaaaaaaa",  # too little entropy
        "key=acme-a1b2c3d4",
    ],
)
def test_allow_lists_stop_words_and_entropy_hold(file: Path, text: str) -> None:
    assert scan(text, load_gitleaks(file)) == []


def test_rules_that_cannot_be_taken_are_named_with_the_reason(file: Path) -> None:
    skipped = load_gitleaks(file).skipped
    assert [line.split(": ")[1] for line in skipped] == ["looks-back", "by-path", "no-such-group"]
    assert "RE2" in skipped[0]


def test_the_default_rules_are_extended_and_single_ones_switched_off(tmp_path: Path) -> None:
    path = tmp_path / "more.toml"
    path.write_text('[extend]\nuseDefault = true\ndisabledRules = ["github-personal"]\n')
    ids = {rule.id for rule in load_gitleaks(path).rules}
    assert ids == {rule.id for rule in own_rules().rules} - {"github-personal"}


def test_a_file_extends_another_by_path_and_a_circle_is_stopped(file: Path) -> None:
    child = file.with_name("child.toml")
    child.write_text('[extend]\npath = "gitleaks.toml"\n')
    assert [rule.id for rule in load_gitleaks(child).rules] == ["acme-token"]
    child.write_text('[extend]\npath = "child.toml"\n')
    with pytest.raises(SettingsError, match="too deeply"):
        load_gitleaks(child)


def test_a_companys_rules_stand_beside_our_own_and_beat_them_by_id(
    file: Path, tmp_path: Path
) -> None:
    ours = tmp_path / "ours.toml"
    ours.write_text('[[rules]]\nid = "github-personal"\nregex = "gh-none"\n')
    rules = all_rules([file, ours])
    ids = [rule.id for rule in rules.rules]
    assert len(ids) == len(set(ids)) == len(own_rules().rules) + 1
    assert [f.rule for f in scan("acme_key=acme-a1b2c3d4 gh-none", rules)] == [
        "acme-token",
        "github-personal",
    ]
    assert len(rules.skipped) == 3
    assert all_rules().rules


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[[rules", b"rules = 3\nid ="])
def test_a_broken_file_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"bad\.toml"):
        load_gitleaks(path)


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"secrets\.rules"):
        load_gitleaks(tmp_path / "none.toml")


@examples(40)
@given(
    value=st.sampled_from(["3", '"x"', "[1, 2]", "true", "{a = 1}", '["a", 3]']),
    key=st.sampled_from(["rules", "allowlist", "allowlists", "extend", "title"]),
)
def test_values_of_any_kind_never_break_the_reader(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: str
) -> None:
    path = tmp_path_factory.mktemp("odd") / "odd.toml"
    path.write_text(f"{key} = {value}\n")
    assert scan("acme_key=acme-a1b2c3d4", load_gitleaks(path)) == []
