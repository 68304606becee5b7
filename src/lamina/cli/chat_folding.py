"""`/compact`, `/snip` and `/undo` of a conversation. They tell the session what to fold or bring back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lamina.cli.interrupting import on_ctrl_c
from lamina.cli.terminal import harmless, one_line, out, style, width, wrapped
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.session import Session

_ROUNDS = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6}))?(?:\s+(.*))?", re.DOTALL)


async def compact(session: Session, argument: str) -> None:
    """Fold the conversation now; Ctrl-C stops it and leaves everything as it was."""
    from lamina.cli.sessions_folding import sentence

    async with on_ctrl_c(session.cancel):
        done = await session.compact(argument)
    out(wrapped(f"  {sentence(done)} /undo brings it back.", width()))


async def snip(session: Session, argument: str) -> None:
    """`N`, or `N-M`, then what it was; without an argument the rounds are listed."""
    if not argument:
        for line in session.rounds():
            out(f"  {one_line(line, max(20, width() - 4))}")
        out(style("  /snip 2-4 WHAT takes rounds 2 to 4 out of the view.", "dim"))
        return
    found = _ROUNDS.fullmatch(argument)
    if found is None:
        raise UsageError("Say which rounds: /snip 2, or /snip 2-4 and what they were about.")
    first = int(found[1])
    before = session.status().tokens
    session.snip(first, int(found[2] or first), found[3] or "")
    out(f"  {before - session.status().tokens:,} tokens left the view. /undo brings them back.")


async def undo(session: Session, argument: str) -> None:
    """Bring back the last fold, or the one with this id."""
    name = session.undo(argument)
    layer = next(e["layer"] for e in session.ledger.entries if e["uuid"] == name)
    tokens = session.status().tokens
    out(f"  Undone: {harmless(str(layer))}. The view has {tokens:,} tokens again.")
