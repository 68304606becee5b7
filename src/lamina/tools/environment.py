"""The environment that shell commands get: the user's own without keys. A model chooses the commands,
and whatever it read may have chosen them for it; a key in their environment could be printed or sent.

Lamina's own keys are never passed on. Variables that by their names hold a key of another service
are passed on only if the setting `bash.environment` lists them. SSH_AUTH_SOCK stays: `git push`
needs the agent, and the agent gives no key away. An address with a password in it (DATABASE_URL,
HTTPS_PROXY) stays as well, since builds and tests rarely work without.

Hooks get the whole environment, because they are the user's own commands; MCP servers get a few
variables such as PATH and HOME, and what their `env` says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

OWN_KEYS = frozenset({"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"})
OWN_PREFIX = "LAMINA_"

# By the words of a name. Not TOKENS, which counts them (MAX_TOKENS), nor AUTH before another word
# (SSH_AUTH_SOCK), nor PWD alone, which is a directory.
_HOLDS_A_KEY = re.compile(
    r"(?:^|_)(?:[A-Z0-9]*(?:TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|APIKEY)"
    r"|(?:ACCESS|PRIVATE|SECRET)?KEYS?|PASS|PAT|JWT|BEARER|COOKIES?|DSN)(?:_|$)"
    r"|_(?:AUTH|PWD)$",
    re.IGNORECASE,
)


def for_commands(environ: Mapping[str, str], passed: Iterable[str] = ()) -> dict[str, str]:
    """`passed`: names or patterns of variables that commands get although they look like keys."""
    wanted = tuple(passed)
    return {
        name: value
        for name, value in environ.items()
        if name not in OWN_KEYS
        and not name.startswith(OWN_PREFIX)
        and (not _HOLDS_A_KEY.search(name) or any(fnmatchcase(name, one) for one in wanted))
    }
