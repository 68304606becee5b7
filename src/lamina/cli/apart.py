"""A session's parts without a transcript, for commands that work on memory with the user's model.

Its record lives in memory only; spending is booked as usual.
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from lamina import opening
from lamina.events import Emit
from lamina.ledger.places import project_folder
from lamina.ledger.record import Ledger
from lamina.state import State
from lamina.wiring import Options


@asynccontextmanager
async def parts(args: argparse.Namespace, hear: Emit) -> AsyncGenerator[State]:
    """Everything that a fork needs: model, tools, memory, and a system prompt to begin with."""
    options = Options(
        project=Path(args.project),
        model=getattr(args, "model", None),
        home=args.home,
        claude=args.claude,
        on_event=hear,
    )
    config = opening.load_config(options)
    name = f"apart-{uuid.uuid4()}"
    path = project_folder(config.own_home, config.project) / f"{name}.jsonl"
    async with AsyncExitStack() as stack:
        ledger = Ledger.of(now=options.clock.now)
        state = await opening.make_state(options, config, ledger, path, stack)
        state.ledger.append(opening.first_frame(state))
        yield state
