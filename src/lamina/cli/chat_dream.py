"""`/dream` of a conversation: memory is tidied now, or shown as it would be. Ctrl-C ends the dream and
leaves memory as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from lamina.cli.interrupting import on_ctrl_c
from lamina.cli.terminal import harmless, note, out
from lamina.errors import LaminaError, UsageError

if TYPE_CHECKING:
    from lamina.session import Session


async def dream(session: Session, argument: str) -> None:
    """Whatever the gates say; `--dry-run` changes nothing."""
    from lamina.layers import dream as layer
    from lamina.layers.dream.record import DreamRecord

    if argument not in ("", "--dry-run"):
        raise UsageError("/dream takes nothing, or --dry-run to only show what would change.")
    store = session.state.deps.memory
    if store is None:
        raise UsageError("Memory is off here. `lamina settings --explain` says why.")
    with anyio.CancelScope() as scope:
        async with on_ctrl_c(scope.cancel):
            done = await layer.run(session.state, apply=not argument)
        for line in done.diff.splitlines() if argument else ():
            out(f"  {harmless(line)}")
        if done.status not in ("completed", "nothing"):
            raise LaminaError(done.text)
        if argument or done.status == "nothing":
            out(f"  {harmless(done.text)}")  # what was improved is told as an event
        for doubt in done.step.doubtful:
            note(f"  doubtful: {harmless(doubt)}")
        for problem in done.problems:
            note(f"  not taken over: {harmless(problem)}")
    if scope.cancelled_caught:
        note(f"  {harmless(str(DreamRecord(store.state).status().get('text', '')))}")
