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
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from lamina.errors import SettingsError
from lamina.messages import as_list, as_object

# What the value must look like: whatever it is, digits with letters, drawn by a machine, or such as
# a person or a machine sets as a password.
Value: TypeAlias = Literal["any", "mixed", "coded", "drawn", "lone", "chosen"]

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

# Names that promise a secret, in the languages of people who keep notes.
_KEYS = (
    r"(?:api|app|access|secret|private|auth|encryption|signing|licen[cs]e|master|service|account"
    r"|deploy|shared|storage|wi-?fi|wlan|wpa2?|network|recovery|product)[_ .-]?(?:key|schlüssel)"
    r"|(?:recovery|backup)[_ -]?code|community string|jetons?(?: d['’]accès)?"
    r"|client[_ .-]?secret|secret|token|credentials?|_auth"
    r"|key for [\w ]{0,20}\bapi|authorization|(?:cookie|session|auth|secure)[_ -]?salt|api-?schlüssel"
    r"|clés? (?:d['’](?:api|accès)|secrète|privée)|clave (?:secreta|privada|(?:del? )?api|de acceso)"
    r"|chave (?:secreta|privada|de api)|chiave (?:segreta|privata|api)|密钥|密鑰|令牌"
    r"|(?:api|アクセス|秘密|シークレット)[ ]?キー|秘密鍵|トークン"
)
_PASSWORDS = (
    r"pass(?:word|wd|phrase|wort|code)|pwd|kennwort|contraseña|mot de passe|senha|wachtwoord"
    r"|lösenord|hasło|пароль|密码|密碼|口令|パスワード|비밀번호"
)
# … and abbreviations that must stand alone: DB_PASS, pw.
_SHORT = r"(?:\b|_)(?:pass|pw)(?:\b|_)"
_IS = (
    r"(?:\b(?:is|are|was|ist|war|hei(?:ß|ss)t|laute(?:t|n|te)|(?:c['’])?est|es|son)\b|é|è|это)"
    r"(?: (?:now|still|always|currently|jetzt|noch|immer|weiterhin|aktuell|toujours|encore|ahora)){0,2}"
    r":?[ \t]{1,2}|(?:是|为|為|は|改成了?|改为|改為|设为|設為)[ \t:：]{0,2}"
    r"|\b(?:set|changed?|reset|updated) to[ ]|\bwurde auf[ ]|\b(?:changée?|cambiad[oa]|changed) (?:en|à|a|por)[ ]"
)
# Whose it is, between the word and its sign: password for reporting =, contraseña del router:
_WHOSE = (
    r"(?:[ ](?:for|of|on|du|de|del|de la|von|vom|für|fürs|zum|zur|des|der|da|do)[ ][\w' -]{1,25}?"
    r"|[ ](?:root|admin))?"
)
# A value that goes on in the next line: YAML's `>-` and a shell's backslash.
_BREAK = r"(?:(?:[|>][+-]?|\\)[ \t]*\r?\n[ \t]*)?"
_SAID = (
    rf"(?:[\w.-]{{0,20}}{_WHOSE}[\"'`\]]{{0,2}}[ \t]{{0,3}}"
    r"(?:(?:=>|->|→|:=|\?=|=|:|：|>|\"? value=)[ \t]{0,3}"
    r"|[\"',]{0,2}\s{1,20}[\"']?value[\"']?[ ]?[:=][ ]?"
    rf"|,[ \t]{{0,3}}[\"']){_BREAK}(?:(?:bearer|token|apikey|basic)[ ])?"
    rf"|(?:[^\n.:;,=]{{0,40}}?(?:,?[ \t]))?(?:{_IS}))[\"'`“„«「『]{{0,2}}"
)
# With the letters of Latin scripts: a person thinks of a password in their own language.
_VALUE = r"([A-Za-z0-9À-ɏ!#%&*+,./:;=?@^_~$()-]{6,200})"
_NAMED_KEYS = (
    "string", "jeton", "key", "schlüssel", "secret", "token", "credential", "_auth", "authorization", "code",
    "密钥", "密鑰", "令牌", "salt", "clé", "clave", "chave", "chiave", "キー", "秘密鍵", "トークン",
)  # fmt: skip
_PASSWORD_KEYS = ("pass", "pwd", "pw", *(word for word in _PASSWORDS.split("|")[6:]))
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
_ALGORITHM = r"(?i)[ ](?:argon2|[bs]crypt|pbkdf2|jwt|[hr]s\d|oauth|sha-?\d|md5)\S*$"
# What only says where a secret is, or of what kind.
_NAMES_ONE = (
    r"(?i)[\w ](?:name|arn|path|ref|file|url|uri|type|format|length|version|algorithm"
    r"|policy|ttl|expiry|hint|scheme|provider)s?[\"'`]?[ ]?[:=]"
)
_PREFIXED = rf"{_START}([A-Za-z]{{2,12}}[_-][A-Za-z0-9_]{{28,120}})(?:[^\w.-]|\.(?:\s|$)|$)"
# On a command line, or in a sentence such as "ssh me@host password …", nothing stands between.
_FLAG = (
    r"(?:--?(?:pass(?:word|wd|phrase)?|pwd|token|secret|api-?key)[ =]|sshpass -p ?"
    r"|(?:mysql|mariadb)\w*\b[^\n|;&]{0,120}? -p"
    r"|\b(?:docker|podman|helm|oc)\b[^\n|;]{0,40}?\blogin\b[^\n|;]{0,80}? -p[ =]|\bredis-cli\b[^\n|;]{0,80}? -a "
    r"|\b(?:env|arg|setx|setenv) \w*(?:pass(?:word|wd)?|pwd|secret|token|key) |\buser(?:name)?[ :]{1,2}\S{2,40} pass "
    r"|\bcurl\b[^\n|;]{0,200}? (?:-u|--user)[ =][\"']?[\w.@+-]{1,60}:"
    # No path: /etc/passwd; but "user/password".
    rf"|(?:^|[^/]|(?:^|[\s(\"'])\w{{2,20}}/)(?:{_PASSWORDS}) (?:(?:to|auf|in|a|en) )?[„“«]?"
    r"|\b(?:log-?ins?|credentials|zugang|identifiants|acceso)[^\n/:]{0,30}"
    r"(?:[:：]|\b(?:are|sind|lauten?t?|son)\b)[ ]?[\w.@+-]{2,60} / )"
    r"[\"'`]?"
)
_FLAG_KEYS = (
    *_PASSWORD_KEYS, "token", "secret", "key", "mysql", "mariadb", "curl", "docker", "podman", "helm",
    "oc ", "redis-cli", "login", "log-in",
    "credentials", "zugang", "identifiants", "acceso",
)  # fmt: skip
_GROUPS = r"[^\n:=]{0,20}[:=][ ]?((?:[A-Z0-9]{4,6}-){2,9}[A-Z0-9]{4,6})(?:[^\w-]|$)"
# What only needs a word that says what it is: pattern, what is looked for first, its look.
_NAMED: dict[str, tuple[str, tuple[str, ...], Value]] = {
    "network-key": (
        r"(?i:(?:\bwi-?fi|wlan|\bwpa|ssid)[^\n]{0,60}?(?:key|schlüssel|clé|clave|chiave|chave|密钥|キー)"
        r"|(?:key|schlüssel|clé|clave|chiave|chave)\b[^\n.:=]{0,20}(?:\bwi-?fi|wlan))"
        r"[^\n:=]{0,30}?(?:[ \t]{0,2}[:=：][ \t]{0,3}|\b(?:is|ist|lautet|est|es|è|é)[ ]|[は为是])"
        r"[\"'`„“«]{0,2}" + _VALUE,
        ("wifi", "wi-fi", "wlan", "wpa", "ssid"), "chosen",
    ),
    "connection-password": (
        r"(?i:[;\"'](?:password|pwd) ?= ?)([^;\s\"'{}$<%*][^;\s\"']{5,100})", ("password", "pwd"), "chosen",
    ),
    "one-time-seed": (
        (r"(?i:2fa|totp|\botp\b|\bmfa\b|two-factor|authenticator|zwei-faktor)[^\n]{0,60}?[^\w-]"
        r"((?:[A-Za-z2-7]{4}[ -]){3,15}[A-Za-z2-7]{4}|[A-Z2-7]{16,64})(?:[^\w-]|$)"),
        ("2fa", "otp", "mfa", "factor", "authenticator", "faktor"), "coded",
    ),
    "recovery-codes": (
        (r"(?i:(?:recovery|backup|wiederherstellungs|notfall|récupération|recuperación|secours)[ -]?codes?"
        r"|codes? de (?:récupération|secours)|códigos? de (?:recuperación|respaldo)|恢复代码|バックアップコード)"
        r"[^\n]{0,40}?[:：\n][\s/]{0,4}((?:(?:[0-9]{1,2}[.)]|[-*•])?[ \t]{0,4}"
        r"(?:[a-zA-Z0-9]{4,8}(?:[ -][a-zA-Z0-9]{4,8}){1,5}|[a-zA-Z0-9]{6,12})[,;]?[\s/]{0,3}){2,20})"),
        ("code", "código", "代码", "コード"), "coded",
    ),
    "seed-phrase": (
        (r"(?i:(?:seed|recovery|mnemonic|wallet|backup|secret|wiederherstellungs)[ -]?(?:phrase|words|seed)"
        r"|mnemonic|phrase de récupération|frase semilla|助记词|シードフレーズ)[^\n:=]{0,30}"
        r"(?:[:=：]|is|ist|lautet|est|es)\s{1,4}[\"'`„“«]?((?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})\b"),
        ("phrase", "mnemonic", "seed", "words", "frase", "助记词", "シード"), "any",
    ),
    "personal-number": (
        (r"(?:(?i:\bpin(?:-?code|-?nummer)?)\b[^\n.;:=0-9]{0,40}?\b(?:is|ist|lautet|est|es)|\bPIN[ ]?[:=：]"
        r"|PUK[ ]?[:=：]|(?i:\b(?:door|alarm|gate|safe|access) code|türcode|zugangscode|digicode"
        r"|code (?:d['’]accès|de (?:la )?porte)|código de acceso)"
        r"\b[^\n.;:=0-9]{0,40}?(?:[:=：]|\b(?:is|ist|lautet|est|es)))"
        # At the end of what is said: what goes on has a unit ("2048 chars"), or counts something.
        r"[ ]([0-9]{4,8}[#*A-F]?)(?:[,;)\"'”»]|[.!](?:\s|$)|[ \t]*$)"),
        ("pin", "puk", "code", "código"), "any",
    ),
    "pin-cjk": (
        r"(?i:暗証番号|PIN码|PIN碼|取款密码|门禁密码)[^\n0-9]{0,10}([0-9]{4,8})(?:[^\w]|$)",
        ("暗証", "pin", "密码"), "any",
    ),
    "combination": (
        (r"(?i:\b(?:safe|lock|vault|locker|tresor)\b|schloss)[^\n]{0,20}"
        r"(?i:combination|combo|code|kombination)[^\n0-9]{0,12}"
        r"([0-9]{2}(?:[ -]{1,3}[0-9]{1,3}){2,5})(?:[^\w-]|$)"),
        ("combination", "combo", "code", "kombination"), "any",
    ),
    "product-key": (
        r"(?:^|[^\w-])((?:[A-Z0-9]{5}-){4}[A-Z0-9]{5})(?:[^\w-]|$)", ("-",), "coded",
    ),
    "recovery-key": (
        r"(?i:licen[cs]e|lizenz|recovery|activation)" + _GROUPS,
        ("licen", "lizenz", "recovery", "activation"), "coded",
    ),
    # Of digits alone, that is the number of a device or an order.
    "serial-key": (r"(?i:serial|product)" + _GROUPS, ("serial", "product"), "mixed"),
}  # fmt: skip


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
    import tomllib

    source = importlib.resources.files("lamina.secrets").joinpath("formats.toml")
    table: dict[str, Any] = tomllib.loads(source.read_text("utf-8"))
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


def _by_name() -> Iterator[Rule]:
    """Secrets that only the words before them give away."""
    for kind, pattern, keys, least in (
        ("named-secret", f"(?i:{_KEYS}){_SAID}{_VALUE}", _NAMED_KEYS, 2.9),
        ("password", f"(?i:{_PASSWORDS}|{_SHORT}){_SAID}{_VALUE}", _PASSWORD_KEYS, 2.2),
        ("password-flag", f"(?i:{_FLAG}){_VALUE}", _FLAG_KEYS, 2.2),
    ):
        yield Rule(
            kind, pattern, keys, folded=True, group=1, entropy=least, value="chosen",
            allowed=Allowed(match=(_NAMES_ONE, _ALGORITHM)),
        )  # fmt: skip
    for kind, (pattern, keys, value) in _NAMED.items():
        yield Rule(
            kind, pattern, keys, folded=True, group=1, value=value, placeholders=value == "any"
        )
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
