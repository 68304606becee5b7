"""Reads rule files in gitleaks' TOML format, so that a company's own rules apply here too.

Touches only the file that it is given (and one that it extends by path). A rule that can't be taken
(no pattern, or one that RE2 refuses) is skipped and named in `Rules.skipped`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from lamina.errors import SettingsError
from lamina.secrets.rules import Allowed, Rule, Rules, own_rules
from lamina.secrets.scanner import compiled

_MOST_BYTES = 4 * 1024 * 1024
_MOST_EXTENDS = 4


def load_gitleaks(path: str | Path, *, _depth: int = 0) -> Rules:
    """The rules of one file. `extend.useDefault` adds Lamina's own table, which takes their place."""
    path = Path(path)
    table = _read(path)
    rules: list[Rule] = []
    skipped: list[str] = []
    for index, entry in enumerate(_tables(table.get("rules"))):
        name = str(entry.get("id") or entry.get("description") or f"rule {index + 1}")
        try:
            rules.append(_rule(name, entry))
        except _Unusable as reason:
            skipped.append(f"{path.name}: {name}: {reason}")
    return _extended(Rules(rules, _allowed(table), skipped), table, path, _depth)


def all_rules(paths: Iterable[str | Path] = ()) -> Rules:
    """Lamina's own rules and those of these files (the setting `secrets.rules`), each id once."""
    together = own_rules()
    for path in paths:
        together = load_gitleaks(path) + together
    once = {rule.id: rule for rule in reversed(together.rules)}
    return replace(together, rules=tuple(once.values()))


class _Unusable(Exception):
    pass


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        if path.stat().st_size > _MOST_BYTES:
            raise SettingsError(f"The secret rules {path} are larger than 4 MiB: split them.")
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(
            f"The secret rules {path} can't be read ({error.strerror}): correct `secrets.rules`."
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"The secret rules {path} are not valid TOML: {error}.") from error


def _extended(own: Rules, table: Mapping[str, Any], path: Path, depth: int) -> Rules:
    extend = _table(table.get("extend"))
    disabled = set(_strings(extend.get("disabledRules")))
    base = Rules(())
    if extend.get("useDefault") is True:
        base = own_rules()
    elif isinstance(extend.get("path"), str):
        if depth >= _MOST_EXTENDS:
            raise SettingsError(f"The secret rules {path} extend one another too deeply.")
        base = load_gitleaks(path.parent / extend["path"], _depth=depth + 1)
    mine = {rule.id for rule in own.rules}
    kept = [rule for rule in base.rules if rule.id not in disabled and rule.id not in mine]
    return own + replace(base, rules=kept)


def _rule(name: str, entry: Mapping[str, Any]) -> Rule:
    pattern = entry.get("regex")
    if not isinstance(pattern, str) or not pattern:
        raise _Unusable("it has no regex (rules by path alone say nothing about text)")
    if entry.get("path"):
        raise _Unusable("it holds for certain file paths only")
    pattern = _checked(pattern)
    group = entry.get("secretGroup", 0)
    groups = int(compiled(pattern).groups)
    if not isinstance(group, int) or not 0 <= group <= groups:
        raise _Unusable("its secretGroup is not in the regex")
    if group == 0 and groups:
        group = 1
    entropy = entry.get("entropy", 0)
    return Rule(
        name,
        pattern,
        tuple(word.lower() for word in _strings(entry.get("keywords"))),
        folded=True,
        group=group,
        entropy=float(entropy) if isinstance(entropy, int | float) else 0.0,
        allowed=_allowed(entry),
        placeholders=True,  # such a file brings its own allow-list
    )


def _allowed(entry: Mapping[str, Any]) -> Allowed:
    """What the allow-lists of a file or of one of its rules let through."""
    found: dict[str, list[str]] = {"secret": [], "match": [], "line": [], "stopwords": []}
    for listed in [_table(entry.get("allowlist")), *_tables(entry.get("allowlists"))]:
        if str(listed.get("condition", "OR")).upper() == "AND":
            continue  # it needs a path or a commit too, which text alone never has
        target = listed.get("regexTarget", "secret")
        for regex in _strings(listed.get("regexes")):
            with suppress(_Unusable):  # allowing less is the safe side
                found[target if target in ("match", "line") else "secret"].append(_checked(regex))
        found["stopwords"] += _strings(listed.get("stopwords"))
    return Allowed(**found)


def _checked(pattern: str) -> str:
    re2: Any = importlib.import_module("re2")
    try:
        compiled(pattern)
    except re2.error as error:
        raise _Unusable("RE2 does not take its regex") from error
    return pattern


def _table(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _tables(value: object) -> list[Mapping[str, Any]]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [_table(item) for item in items]


def _strings(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]
