"""Text changed in the user's own editor: `$VISUAL`, `$EDITOR`, else `vi`. Touches one temporary file."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

from lamina.errors import LaminaError, UsageError


def edited_text(text: str, ending: str) -> str:
    """What the user made of the text. The file is removed unless the editor failed."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    name = _temporary(text, ending)
    file = Path(name)
    try:
        done = subprocess.run([*shlex.split(command), name], check=False)
    except (OSError, ValueError) as error:
        file.unlink()
        raise UsageError(f"Can't start the editor {command!r}. Set EDITOR to one.") from error
    if done.returncode != 0:
        raise LaminaError(
            f"The editor {command!r} failed with {done.returncode}. Nothing was changed; "
            f"what you typed is in {name}."
        )
    changed = file.read_bytes().decode("utf-8", "surrogateescape")
    file.unlink()
    return changed


@contextlib.contextmanager
def kept_if_refused(text: str, ending: str) -> Generator[None]:
    """What was typed is not lost when it can't be taken: the error says where it is."""
    try:
        yield
    except LaminaError as error:
        try:
            name = _temporary(text, ending)
        except OSError:
            raise error from None
        raise type(error)(f"{error} What you typed is in {name}.") from error


def _temporary(text: str, ending: str) -> str:
    descriptor, name = tempfile.mkstemp(suffix=ending, prefix="lamina-")
    with open(descriptor, "wb") as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))
    return name
