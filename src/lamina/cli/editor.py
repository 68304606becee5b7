"""Text changed in the user's own editor: `$VISUAL`, `$EDITOR`, else `vi`. Touches one temporary file."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from lamina.errors import LaminaError, UsageError


def edited_text(text: str, ending: str) -> str:
    """What the user made of the text. The file is removed unless the editor failed."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    descriptor, name = tempfile.mkstemp(suffix=ending, prefix="lamina-")
    file = Path(name)
    with open(descriptor, "wb") as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))
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
