"""Takes secrets that are known out of any text: whole, cut short, or folded into a file's name. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lamina.secrets.rules import Rules
from lamina.secrets.scanner import BLANK, scan

_RUN = re.compile(r"[A-Za-z0-9]{8,}")
_LONG = 16  # letters in a row that no ordinary word has


class Secrets:
    """Secrets by value, each with the rule that found it."""

    def __init__(self, found: Mapping[str, str]) -> None:
        self._found = dict(sorted(found.items(), key=lambda one: -len(one[0])))
        self._bare = {_bare(value): rule for value, rule in self._found.items()}

    def __bool__(self) -> bool:
        return bool(self._found)

    def __contains__(self, value: str) -> bool:
        return value in self._found

    def beyond(self, text: str) -> Secrets:
        """Those that do not stand in this text already."""
        return Secrets({value: rule for value, rule in self._found.items() if value not in text})

    def mask(self, text: str, blank: str = BLANK) -> str:
        """The text with the name of a rule in the place of each secret, and of each part of one that
        is long enough to give it away."""
        for value, rule in self._found.items():
            for piece in (value, *filter(_telling, value.split())):
                text = text.replace(piece, blank.format(rule))
        if not self._found:
            return text
        return _RUN.sub(lambda run: blank.format(rule) if (rule := self._rule(run[0])) else run[0], text)  # fmt: skip

    def named_by(self, path: str) -> bool:
        """Does a file's name give one away, in whatever case and however it is cut?"""
        bare = _bare(path)
        return any(one in bare for one in self._bare) or any(
            self._rule(run) for run in _RUN.findall(path)
        )

    def _rule(self, run: str) -> str:
        folded = run.casefold()
        for bare, rule in self._bare.items():
            if folded == bare or (_telling(folded) and folded in bare):
                return rule
        return ""


def secrets_in(*texts: str, rules: Rules | None = None) -> Secrets:
    """All secrets of some texts."""
    return Secrets(
        {text[found.start : found.end]: found.rule for text in texts for found in scan(text, rules)}
    )


def _bare(value: str) -> str:
    return re.sub(r"[^a-z0-9]", "", value.casefold()) or value


def _telling(piece: str) -> bool:
    """Words that people use give nothing away, though a secret holds them."""
    return len(piece) >= _LONG or (len(piece) >= 8 and any(map(str.isdigit, piece)))
