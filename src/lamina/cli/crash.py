"""What an unforeseen error leaves behind: a file under the home with the traceback, and one
sentence that names it. Writes that one file. A module of its own, so that only a crash pays for its
imports.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from lamina._version import __version__
from lamina.errors import SettingsError

# Options whose value is the user's own words: a crash log is meant to be sent to others.
_PRIVATE = frozenset({"-p", "--print"})


def record(error: BaseException, words: Sequence[str]) -> str:
    """Write the log; return the sentence for the user."""
    pairs = zip(["", *words], words, strict=False)
    shown = ["…" if before in _PRIVATE else word for before, word in pairs]
    name = f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    content = "\n".join(
        [
            f"lamina {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"command: {' '.join(shown)}",
            "",
            *traceback.format_exception(error),
        ]
    )
    from lamina.machine import write_private

    for folder in _folders(words):
        path = folder / name
        try:
            write_private(path, content.encode("utf-8", "backslashreplace"))
        except OSError:
            continue
        return f"Lamina hit a bug ({type(error).__name__}). Please report it with the file {path}."
    return f"Lamina hit a bug: {type(error).__name__}: {error}."


def _folders(words: Sequence[str]) -> list[Path]:
    """The home's folder for such files, then the system's."""
    from lamina.config import find_home

    given = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--home"]
    try:
        home, claude = find_home(
            given[-1] if given else None, os.environ, claude="--claude" in words
        )
    except (SettingsError, OSError):
        return [Path(tempfile.gettempdir())]
    return [(home / "lamina" if claude else home) / "logs", Path(tempfile.gettempdir())]
