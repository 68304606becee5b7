"""What counts as a secret: Lamina's own table of token formats, and what is let through.

Reads `formats.toml`, once, when first needed. Patterns are in RE2's language and compile lazily:
most rules never meet the literal that they look for first.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_CLASSES = {
    "w": "[A-Za-z0-9]",
    "u": "[A-Z0-9]",
    "l": "[a-z0-9]",
    "h": "[a-f0-9]",
    "x": "[A-Fa-f0-9]",
    "b": "[A-Za-z0-9_-]",
    "s": "[A-Za-z0-9+/]",
    "d": "[0-9]",
    "g": "[a-fA-F0-9]{8}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{12}",
}
# A token starts where a word may, or behind a written-out line end, and nothing of it follows.
_START = r"(?:^|[^A-Za-z0-9]|\\[nrt])"
_END = r"(?:[^A-Za-z0-9]|$)"
# What stands between a name and its value: quotes, brackets, = : => or a space.
_BETWEEN = r"[\w .-]{0,30}[\"'`\])]{0,2}\s{0,3}(?:=>|:=|=|:|,|\s)\s{0,3}[\"'`(\[]{0,2}"

# A name that promises a secret, and a value that may be one (judged by its entropy).
_NAMED = (
    r"(?i:(?:(?:api|access|secret|private|auth|encryption|signing)[_ -]?key"
    r"|client[_ -]?secret|secret|token|password|passwd|passphrase|pwd|credentials?|_auth))"
    r"[\w.-]{0,20}[\"'`\]]{0,2}[ \t]{0,3}(?::=|=>|=|:|\bis\b:?)[ \t]{0,3}[\"'`]{0,2}"
    r"([A-Za-z0-9!#%&*+,./:;=?@^_~$-]{8,200})"
)
_NAMED_KEYS = ("key", "secret", "token", "passw", "passp", "pwd", "credential", "_auth")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What is let through: RE2 patterns over the secret, the whole match or its line, and words."""

    secret: Sequence[str] = ()
    match: Sequence[str] = ()
    line: Sequence[str] = ()
    stopwords: Sequence[str] = ()

    def __add__(self, other: Allowed) -> Allowed:
        return Allowed(
            (*self.secret, *other.secret),
            (*self.match, *other.match),
            (*self.line, *other.line),
            (*self.stopwords, *other.stopwords),
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret. Group `group` of the pattern is the secret itself (0: all of the match)."""

    id: str
    pattern: str
    keywords: Sequence[str] = ()  # one of them must be in the text; () = always tried
    folded: bool = False  # keywords are compared in lower case
    group: int = 0
    entropy: float = 0.0  # bits a character that the secret must have at least
    mixed: bool = False  # the value must hold a digit and a letter, and look made by a machine
    allowed: Allowed = Allowed()
    placeholders: bool = False  # what people write in the place of a secret is reported too


@dataclass(frozen=True, slots=True)
class Rules:
    """A set of rules with what is allowed for all of them."""

    rules: Sequence[Rule]
    allowed: Allowed = Allowed()
    skipped: Sequence[str] = ()  # rules of a file that could not be taken, and why

    def __add__(self, other: Rules) -> Rules:
        rules, skipped = (*self.rules, *other.rules), (*self.skipped, *other.skipped)
        return Rules(rules, self.allowed + other.allowed, skipped)


@lru_cache(maxsize=1)
def own_rules() -> Rules:
    """The rules that come with Lamina."""
    import tomllib

    source = importlib.resources.files("lamina.secrets").joinpath("formats.toml")
    table: dict[str, Any] = tomllib.loads(source.read_text("utf-8"))
    found: dict[str, list[str]] = table["find"]
    tokens: dict[str, str] = table["tokens"]
    rules = [_token_rule(kind, pattern, found.get(kind, ())) for kind, pattern in tokens.items()]
    near: dict[str, tuple[str, str]] = table["near"]
    rules += [_near_rule(kind, names, pattern) for kind, (names, pattern) in near.items()]
    named = Rule("named-secret", _NAMED, _NAMED_KEYS, folded=True, group=1, entropy=3.0, mixed=True)
    return Rules((*rules, named))


def expand(pattern: str) -> str:
    """Lamina's short classes written out: `%h{40}` is forty hex digits."""
    return re.sub(r"%([wulhxbsdg])(?![^\[\]]*\])", lambda short: _CLASSES[short[1]], pattern)


def _token_rule(kind: str, pattern: str, find: Sequence[str]) -> Rule:
    literal = re.match(r"(?:[\w=:/ -]|\\[.+$])*", pattern)
    prefix = literal[0].replace("\\", "") if literal else ""
    # A quantifier belongs to the last character before it, which is then no part of the literal.
    follows = pattern[len(literal[0]) if literal else 0 :]
    if follows.startswith(("?", "*", "{")):
        prefix = prefix[:-1]
    keywords = tuple(find) or (prefix,)
    if min(map(len, keywords)) < 1:
        raise ValueError(f"formats.toml: {kind} needs a line in [find]")
    body = expand(pattern)
    grouped = re.search(r"(?<!\\)\((?!\?)", body) is not None
    if grouped:
        return Rule(kind, f"{_START}{body}", keywords, group=1, entropy=1.8)
    return Rule(kind, f"{_START}({body}){_END}", keywords, group=1, entropy=2.0)


def _near_rule(kind: str, names: str, pattern: str) -> Rule:
    keywords = tuple(name.replace("_?", "").replace("\\", "") for name in names.split("|"))
    keywords += tuple(name.replace("_?", "_") for name in names.split("|") if "_?" in name)
    shaped = rf"(?i:{names}){_BETWEEN}({expand(pattern)}){_END}"
    return Rule(kind, shaped, keywords, folded=True, group=1, entropy=2.8, mixed=True)
