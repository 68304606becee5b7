"""The variables of the environment that the agent's commands get: all but what are keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

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
_DRAWN = re.compile(r"[b-df-hj-np-tv-xz]{5}", re.IGNORECASE)  # what nobody can speak
_FIGURE = re.compile(r"v?[0-9][0-9.,]{0,15}[a-z%]{0,2}|[0-9.]+:[0-9]+|\[[0-9a-f:]+\](?::[0-9]+)?")
_NO_SECRET = re.compile(
    "PORT|HOST|HOSTNAME|SERVER|DOMAIN|NAME|TYPE|KIND|FORMAT|PREFIX|SUFFIX|LENGTH|MIN|MAX|SIZE|LIMIT|COUNT|TTL"
    "|TIMEOUT|LIFETIME|EXPIRY|AGE|DAYS|HOURS|MINUTES|SECONDS|INTERVAL|REGION|ZONE|ISSUER|ALGORITHM|ALG|POLICY"
    "|VERSION|ENABLED|DISABLED|REQUIRED|MODE|LEVEL|FILE|PATH|DIR|HEADER|FIELD|COLUMN"
)
_PLAIN = frozenset({"true", "false", "yes", "no", "on", "off", "localhost"})

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
    if not value or (_NO_SECRET.fullmatch(words[-1]) and "://" not in value and _spelled(value)):
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
    return at_the_end or issued[-1] or not (value in _PLAIN or _FIGURE.fullmatch(value))


def _holds_a_password(value: str) -> bool:
    """An address with one in it. What a container of this machine is set up with (one name, and the
    user's own as the password) is none."""
    found = _WITH_PASSWORD.search(value)
    return bool(found and not ("." not in found["host"] and found["user"] == found["password"]))


def _spelled(value: str) -> bool:
    """Is it an address, a host or a figure: of short words and numbers alone?"""
    pieces = re.split(r"[][.:/_-]", value)
    return all(_SPELLED.fullmatch(one) and not _DRAWN.search(one) for one in pieces)
