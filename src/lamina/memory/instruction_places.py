"""Where instruction files are looked for, by the settings. Looks for `.git`; reads nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lamina.memory.instructions import Places

if TYPE_CHECKING:
    from lamina.config import Config

_MANAGED = (Path("/etc/lamina/AGENTS.md"),)
_MANAGED_CLAUDE = (Path("/etc/claude-code/CLAUDE.md"),)


def places_for(config: Config, cwd: Path | None = None) -> Places:
    """The places of a session in `config.project`; `cwd` if it stands further down."""
    cwd = cwd or config.project
    trust = config.bool("instructions.trust")
    return Places(
        project=checkout_root(config.project),
        cwd=cwd,
        home=config.home,
        managed=(*_MANAGED, *(_MANAGED_CLAUDE if config.claude else ())),
        excludes=config.strings("instructions.excludes"),
        trusted=lambda _path: trust,
        depth=config.int("instructions.depth"),
        warn_characters=config.int("instructions.warn_characters"),
    )


def checkout_root(folder: Path) -> Path:
    """The top of the checkout that holds the folder (a worktree is its own), else the folder."""
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            return parent
    return folder
