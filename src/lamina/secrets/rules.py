"""What counts as a secret: Lamina's own table of token formats, rule files in gitleaks' TOML format, and
what is let through.

Reads `formats.toml`, once, when first needed, and the files that it is given (and one that such a file
extends by path). Patterns are in RE2's language and compile lazily: most rules never meet the literal
that they look for first. A rule of a file that can't be taken (no pattern, or one that RE2 refuses) is
skipped and named in `Rules.skipped`.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from lamina.errors import SettingsError
from lamina.messages import as_list, as_object

# What the value must look like: whatever it is, digits with letters, drawn by a machine, such as a person
# or a machine sets as a password, or as stands behind a name for one; words in a row.
Value: TypeAlias = Literal[
    "any", "mixed", "coded", "drawn", "lone", "chosen", "assigned", "set", "phrase", "strong"
]

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
# What stands between a name and its value in code, settings and markup.
_ASSIGNED = r"[ \t\"'`\])]{0,3}(?:=>|->|\|\||:{1,3}=|\?=|=|:|>|,|\"? value=)[ \t=\"'`(\[]{0,5}"
_BETWEEN = r"[\w .-]{0,30}" + _ASSIGNED + r"(?:\\\r?\n[ \t]*)?"

_KEYED = "api_key|secret|token|password|access_key|auth_key|private_key|client_id|credential"
_DRAWN = r"[A-Za-z0-9_=+/.:~-]{14,500}"
# The issuers' first digits; in groups, or in one run where a word says what it is.
_ISSUER = r"(?:4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|6(?:011|5[0-9]{2})|35[0-9]{2})"
_CARD = (
    rf"(?:^|[^\w.-])({_ISSUER}(?:[ -][0-9]{{4}}){{3}}|3[47][0-9]{{2}}[ -][0-9]{{6}}[ -][0-9]{{5}})"
    r"(?:[^\w-]|$)"
)
_NAMED_CARD = (
    r"(?i:card|visa|mastercard|amex|karte|carte|tarjeta|cartão|卡)[^\n0-9]{0,40}"
    rf"({_ISSUER}[0-9]{{12}}|3[47][0-9]{{13}})(?:[^\w-]|$)"
)
# A value that is nothing but drawn, whatever stands before it.
_ANYTHING = (
    r"[\w-]{2,40}[ \t\"'`\])]{0,3}(?:=>|\|\||:{1,3}=|\?=|=|:)[ \t=\"'`]{0,5}"
    r"([A-Za-z0-9_=-]{20,100})(?:[\"'`\s;,]|\\[nr]|$)"
)
# Names of what is drawn too and no secret.
_PUBLIC = (
    r"(?i)^[\w-]*(?:signature|hash|sum|sha|md5|digest|id|etag|integrity|commit|rev|nonce|cursor"
    r"|version|src|href|url|data|path|file|branch|func|class|slug|anchor|name|public_?key|fingerprint)s?\d*\W"
)
# How passwords are kept, not one.
_ALGORITHM = r"(?i)[ \"'`](?:argon2|[bs]crypt|pbkdf2|jwt|[hr]s\d|oauth|sha-?\d|md5)\S*$"
# What only says where a secret is, or of what kind.
_NAMES_ONE = (
    r"(?i)[\w ](?:name|arn|path|ref|file|url|uri|type|format|length|version|algorithm"
    r"|policy|ttl|expiry|hint|scheme|provider|field|selector|input|label|header|param|column)s?[\"'`]?[ ]?[:=]"
)
_PREFIXED = rf"{_START}([A-Za-z]{{2,12}}[_-][A-Za-z0-9_]{{28,120}})(?:[^\w.-]|\.(?:\s|$)|$)"


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
    value: Value = "any"
    allowed: Allowed = Allowed()
    card: bool = False  # digits that must add up as those of a payment card do
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
    table = _own("formats.toml")
    found: dict[str, list[str]] = table["find"]
    tokens: dict[str, str] = table["tokens"]
    rules = [_token_rule(kind, pattern, found.get(kind, ())) for kind, pattern in tokens.items()]
    near: dict[str, tuple[str, str]] = table["near"]
    rules += [_near_rule(kind, names, pattern) for kind, (names, pattern) in near.items()]
    services: str = table["services"]["names"]
    rules += [
        _near_rule(f"{one}-credential", one, _DRAWN, value="drawn") for one in services.split()
    ]
    rules.append(_near_rule("keyed-secret", _KEYED, _DRAWN, value="drawn"))
    return Rules((*rules, *_by_name()))


def _own(name: str) -> dict[str, Any]:
    import tomllib

    source = importlib.resources.files("lamina.secrets").joinpath(name)
    return tomllib.loads(source.read_text("utf-8"))


# How much of a name's value must differ, where the value is not asked to be drawn.
_LEAST = {"assigned": 2.6, "chosen": 2.2, "set": 2.2}


_part = re.compile(r"<([a-z]+)>")


def _whole(pattern: str, parts: Mapping[str, str]) -> str:
    """The pattern with its parts, and theirs, in their places."""
    return _part.sub(lambda part: _whole(parts[part[1]], parts), pattern)


def _by_name() -> Iterator[Rule]:
    """Secrets that only the words before them give away."""
    table = _own("announced.toml")
    words: dict[str, list[str]] = {name: text.split() for name, text in table["words"].items()}
    parts: dict[str, str] = {
        name: "|".join(word.replace("_", "[ _.-]?") for word in any_of)
        for name, any_of in words.items()
    }
    parts |= table["parts"]
    rules: dict[str, tuple[Value, str, str]] = table["rules"]
    for kind, (look, pattern, keys) in rules.items():
        sought = _part.sub(lambda part: " ".join(words[part[1]]), keys).split()
        # The automaton of keywords folds the case of ASCII alone.
        cased = [one for word in sought for one in {word: 1, word.title(): 1, word.upper(): 1}]
        keywords = (word.replace("_", sign) for word in cased for sign in ("_", "", "-", " "))
        yield Rule(
            kind, expand(_whole(pattern, parts)), tuple(dict.fromkeys(keywords)), folded=True, group=1, value=look,
            entropy=_LEAST.get(look, 0), placeholders=look == "any",
            allowed=Allowed(match=(_NAMES_ONE, _ALGORITHM) if look in _LEAST else ()),
        )  # fmt: skip
    yield Rule(
        "assigned-secret", _ANYTHING, ("=", ":"), group=1, entropy=3.4, value="lone",
        allowed=Allowed(match=(_PUBLIC,)),
    )  # fmt: skip
    yield Rule("prefixed-token", _PREFIXED, ("_", "-"), group=1, entropy=3.6, value="lone")
    for kind, pattern in (("payment-card", _CARD), ("payment-card-named", _NAMED_CARD)):
        yield Rule(kind, pattern, tuple("23456"), group=1, card=True, placeholders=True)


# Bytes for one pattern: hundreds are kept, and with RE2's own 8 MB each grows. A long one is tried on
# every other text and is several times slower if it has to forget what it worked out.
_ROOM, _MORE_ROOM, _LONG_PATTERN = 1 << 20, 8 << 20, 500


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> Any:
    """The pattern over bytes, by RE2; raises `re2.error` for what RE2 does not take."""
    re2, options = quiet_re2()
    options.max_mem = _MORE_ROOM if len(pattern) > _LONG_PATTERN else _ROOM
    try:
        return re2.compile(pattern.encode(), options)
    except re2.error:  # of a company's own, perhaps, that is too long for that
        return re2.compile(pattern.encode(), quiet_re2()[1])


def quiet_re2() -> tuple[Any, Any]:
    """RE2, imported when first needed (it carries no types), and options that keep it quiet."""
    re2: Any = importlib.import_module("re2")
    options = re2.Options()
    options.log_errors = False
    return re2, options


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
    if kind == "labelled-token":
        return Rule(kind, f"{_START}{body}{_END}", keywords, group=1, entropy=3.2, value="drawn")
    if grouped:
        return Rule(kind, f"{_START}{body}", keywords, group=1, entropy=1.8)
    return Rule(kind, f"{_START}({body}){_END}", keywords, group=1, entropy=2.0)


def _near_rule(kind: str, names: str, pattern: str, value: Value = "mixed") -> Rule:
    """A value behind one of these names, in which `_` may be any sign or none. A short name must
    begin where a word does: three letters stand in many words."""
    words = names.split("|")
    keywords = tuple(word.replace("_", sign) for word in words for sign in ("_", "", "-", " "))
    shaped = "|".join(
        (r"\b|_" if len(word) <= 3 else "").join(("(?:", ")")) + word.replace("_", "[_ .-]?")
        for word in words
    )
    shaped = rf"(?i:{shaped}){_BETWEEN}({expand(pattern)}){_END}"
    return Rule(
        kind, shaped, tuple(dict.fromkeys(keywords)), folded=True, group=1, entropy=2.8, value=value
    )


# ---- rule files in gitleaks' format, so that a company's own rules apply here too

_MOST_BYTES = 4 * 1024 * 1024
_MOST_EXTENDS = 4


def load_gitleaks(path: str | Path, *, _depth: int = 0) -> Rules:
    """The rules of one file. `extend.useDefault` adds Lamina's own table, which takes their place."""
    path = Path(path)
    table = _read(path)
    rules: list[Rule] = []
    skipped: list[str] = []
    for index, entry in enumerate(map(as_object, as_list(table.get("rules")))):
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
    extend = as_object(table.get("extend"))
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
    for listed in map(as_object, [entry.get("allowlist"), *as_list(entry.get("allowlists"))]):
        if str(listed.get("condition", "OR")).upper() == "AND":
            continue  # it needs a path or a commit too, which text alone never has
        target = listed.get("regexTarget", "secret")
        for regex in _strings(listed.get("regexes")):
            with suppress(_Unusable):  # allowing less is the safe side
                found[target if target in ("match", "line") else "secret"].append(_checked(regex))
        found["stopwords"] += _strings(listed.get("stopwords"))
    return Allowed(**found)


def _checked(pattern: str) -> str:
    re2, _ = quiet_re2()
    try:
        compiled(pattern)
    except re2.error as error:
        raise _Unusable("RE2 does not take its regex") from error
    return pattern


def _strings(value: object) -> list[str]:
    return [item for item in as_list(value) if isinstance(item, str)]


# ---- the variables that commands get

OWN_KEYS = frozenset({"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"})
OWN_PREFIX = "LAMINA_"

# By the words of a name. Not TOKENS, which counts them (MAX_TOKENS), nor AUTH before another word
# (SSH_AUTH_SOCK), nor PWD alone, which is a directory. What a person chose may be any text; what a
# service issued is long and drawn, so that a value of another shape is none.
_CHOSEN = ("SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS")
_CHOSEN_AT_THE_END = ("_PW", "_PWD", "_SERVICE_ACCOUNT", "_SERVICE_ACCOUNT_JSON")
_ISSUED = ("TOKEN", "APIKEY", "ACCESSKEY", "PRIVATEKEY", "SECRETKEY", "ACCESSKEYS", "SECRETKEYS")
_ISSUED_ALONE = {"KEY", "KEYS", "PAT", "JWT", "BEARER", "COOKIE", "COOKIES", "DSN", "WEBHOOK"}
_ISSUED_AT_THE_END = ("_SK", "_AUTH", "_CONNECTION_STRING", "_CONNECTIONSTRING", "_AUTH_CONFIG")
_SPELLED = re.compile(r"v?\d{1,6}[a-z]{0,2}|[a-z]{0,20}\d{0,3}", re.IGNORECASE)
_UNSPOKEN = re.compile(r"[b-df-hj-np-tv-xz]{5}", re.IGNORECASE)  # what nobody can speak
_FIGURE = re.compile(r"v?[0-9][0-9.,]{0,15}[a-z%]{0,2}|[0-9.]+:[0-9]+|\[[0-9a-f:]+\](?::[0-9]+)?")
_NO_SECRETS = (
    " PORT HOST HOSTNAME SERVER DOMAIN NAME TYPE KIND FORMAT PREFIX SUFFIX LENGTH MIN MAX SIZE LIMIT COUNT TTL"
    " TIMEOUT LIFETIME EXPIRY AGE DAYS HOURS MINUTES SECONDS INTERVAL REGION ZONE ISSUER ALGORITHM ALG POLICY"
    " VERSION ENABLED DISABLED REQUIRED MODE LEVEL FILE PATH DIR HEADER FIELD COLUMN "
)
_PLAIN_VALUES = frozenset({"true", "false", "yes", "no", "on", "off", "localhost"})

# An address with a password in it, but for those of this machine and of proxies, which commands need.
_WITH_PASSWORD = re.compile(
    r"://(?P<user>[^\s/:@]*):(?P<password>[^\s/@]+)@"
    r"(?!(?:localhost|127[\d.]*|\[::1\])(?:[:/?#\s]|$))(?P<host>[^\s/:?#]*)"
)


def for_commands(environ: Mapping[str, str], passed: Iterable[str] = ()) -> dict[str, str]:
    """The variables that commands get; `passed` names those that only look like keys, by pattern."""
    wanted = tuple(passed)
    return {
        name: value
        for name, value in environ.items()
        if name not in OWN_KEYS
        and not name.startswith(OWN_PREFIX)
        and (not _is_a_key(name, value) or any(fnmatchcase(name, one) for one in wanted))
    }


def _is_a_key(name: str, value: str) -> bool:
    if not name.casefold().endswith("proxy") and _holds_a_password(value):
        return True
    name = name.upper()
    words = name.split("_")
    # Of what belongs to a secret the last word says what it is: WEBHOOK_PORT, SECRET_NAME.
    if not value or (f" {words[-1]} " in _NO_SECRETS and "://" not in value and _spelled(value)):
        return False
    chosen = any(one.endswith(_CHOSEN) or one == "PASS" for one in words) or name == "PW"
    if chosen or name.startswith("SERVICE_ACCOUNT") or name.endswith(_CHOSEN_AT_THE_END):
        return True
    at_the_end = name == "SK" or name.endswith(_ISSUED_AT_THE_END)
    issued = [one.endswith(_ISSUED) or one in _ISSUED_ALONE for one in words]
    if not at_the_end and not any(issued):
        return False
    if "://" in value:
        return not _spelled(value.partition("://")[2])
    # STRIPE_KEY=4711 may be one, as may KEY_MASTER=hunter.two; COOKIE_SECURE=true is none.
    return at_the_end or issued[-1] or not (value in _PLAIN_VALUES or _FIGURE.fullmatch(value))


def _holds_a_password(value: str) -> bool:
    """An address with one in it. What a container of this machine is set up with (one name, and the
    user's own as the password) is none."""
    found = _WITH_PASSWORD.search(value)
    return bool(found and not ("." not in found["host"] and found["user"] == found["password"]))


def _spelled(value: str) -> bool:
    """Is it an address, a host or a figure: of short words and numbers alone?"""
    pieces = re.split(r"[][.:/_-]", value)
    return all(_SPELLED.fullmatch(one) and not _UNSPOKEN.search(one) for one in pieces)
