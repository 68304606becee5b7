"""Takes a shell command apart for the permission rules: its parts, or the word that it can't be.

This is no shell and no defence (the sandbox is): whatever it does not plainly understand it calls
unclear, and an unclear command is never allowed by a rule. It touches nothing.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

_SEPARATORS = ("&&", "||", "|&", ";", "|", "&", "\n")
# What makes the meaning of a text depend on more than the text.
_UNCLEAR = re.compile(r"[`(){}<>]|\$[({'\"]")
_HARMLESS_REDIRECTION = re.compile(
    r"(?:[012]?>{1,2}\s*/dev/null|&>\s*/dev/null|[012]?>&[12])(?=[\s;|&]|$)"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_KEYWORDS = frozenset(
    [
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "select",
        "function",
        "time",
        "coproc",
        "!",
        "[[",
        "eval",
        "exec",
        "source",
        ".",
        "trap",
        "alias",
        "builtin",
        "command",
        "env",
        "sudo",
        "doas",
        "nohup",
        "xargs",
        "setsid",
    ]
)
_ROUGH_BREAKS = re.compile(r"[;&|\n`(){}<>'\"$\\]+")


@dataclass(frozen=True, slots=True)
class Parts:
    """A command's simple commands, words joined by one space; `clear` if that is all there is."""

    commands: tuple[str, ...]
    clear: bool


def take_apart(text: str) -> Parts:
    """The simple commands of a line of shell."""
    pieces = _split(_HARMLESS_REDIRECTION.sub(" ", text))
    if pieces is None:
        return Parts((), clear=False)
    # A word with spaces keeps its quotes: `git "log x"` is not `git log x`.
    commands = tuple(
        shlex.join(piece) if _spaced(piece) else " ".join(piece) for piece in pieces if piece
    )
    clear = bool(commands) and all(_is_plain(piece) for piece in pieces if piece)
    return Parts(commands, clear)


def rough_parts(text: str) -> list[str]:
    """Everything in the text that might be run as a command, for rules that forbid.

    Each stretch between special characters, from each of its words on: too much rather than too
    little, so that `sudo rm x`, `$(rm x)` and `bash -c 'rm x'` all show `rm x`.
    """
    found: list[str] = []
    unquoted = re.sub(r"['\"\\]", "", text)
    for stretch in (*_ROUGH_BREAKS.split(text), *re.split(r"[;&|\n`(){}<>$]+", unquoted)):
        words = stretch.split()
        found += [" ".join(words[index:]) for index in range(min(len(words), 50))]
    return found


def _spaced(words: list[str]) -> bool:
    return any(not word or word != "".join(word.split()) for word in words)


def _is_plain(words: list[str]) -> bool:
    first = words[0]
    return not (first in _KEYWORDS or _ASSIGNMENT.match(first) or re.search(r"[$~*?\[]", first))


def _split(text: str) -> list[list[str]] | None:
    """Words of each simple command, quotes removed; None where the text is not plain."""
    pieces: list[list[str]] = [[]]
    word: str | None = None
    at = 0
    while at < len(text):
        char = text[at]
        separator = next((s for s in _SEPARATORS if text.startswith(s, at)), None)
        if separator or char in " \t":
            if word is not None:
                pieces[-1].append(word)
                word = None
            if separator:
                pieces.append([])
            at += len(separator or char)
        elif char in "'\"":
            end = _end_of_quote(text, at)
            if end is None:
                return None
            word = (word or "") + text[at + 1 : end]
            at = end + 1
        elif char == "\\" or _UNCLEAR.match(text, at) or (char == "#" and word is None):
            return None
        else:
            word = (word or "") + char
            at += 1
    if word is not None:
        pieces[-1].append(word)
    return pieces


def _end_of_quote(text: str, at: int) -> int | None:
    """Where the quoted stretch ends; None if it does not, or if the shell would look into it."""
    end = text.find(text[at], at + 1)
    if end < 0:
        return None
    inside = text[at + 1 : end]
    if text[at] == '"' and re.search(r"[\\`]|\$[({]", inside):
        return None
    return end
