"""What all model calls have cost, what the layers and the gateway saved, and how well cache, compaction and
memory do in a project: the figures of `lamina spend`. Changes nothing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from lamina.cache.spend import Spend
from lamina.cli import sessions, spend
from lamina.errors import LaminaError
from lamina.web.pages import Project, Screen
from lamina.web.server import Asked

_ROWS, _DAYS = 12, 30


def _money(_: Asked, project: Project) -> Screen:
    layers, background, caps = spend.report(project.config, "layer")
    groups = {by: spend.report(project.config, by)[0][:_ROWS] for by in ("model", "project")}
    files = sessions.find(project.config)[: spend.LAST_SESSIONS]
    measured: list[Any] = []
    for file in files:
        with suppress(OSError, LaminaError):  # gone meanwhile, or no session of ours
            measured.append(_measured(project, file))
    with project.store() as store:
        memory = spend.memory_health(store)
    values = {
        "total": sum(one.cost for one in layers), "calls": sum(one.calls for one in layers),
        "background": background, "caps": caps, "memory": memory, "sessions": len(measured),
        "days": spend.report(project.config, "day")[0][-_DAYS:], "health": spend.health(measured),
        "gateway": spend.told_of(*spend.saved_in(Spend(project.config.own_home / "spend").calls())),
        "groups": {"layer": layers[:_ROWS], **groups},
    }  # fmt: skip
    return Screen("money.html", "Money and health", "money", values)


def _measured(project: Project, file: Path) -> Any:
    """One session, anew only when it has changed."""
    kept, stat = project.world.measured, file.stat()
    state = stat.st_mtime_ns, stat.st_size
    if kept.get(file, (None,))[0] != state:
        kept[file] = state, spend.session_health(project.config, file)
    return kept[file][1]


SHOWN = {"money": _money}
DONE: dict[str, Any] = {}
