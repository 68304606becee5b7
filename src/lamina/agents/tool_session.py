"""What the tools of a session's agents may ask of it (`ports.ToolSession`): the main agent may do
everything, a fork may only look. Touches the ledger of the agent's state.
"""

from __future__ import annotations

from lamina.layers import snip
from lamina.ledger import edits
from lamina.ledger.spans import expand
from lamina.messages import Json
from lamina.ports import NoSession
from lamina.state import State


class ForkToolSession(NoSession):
    """A fork sees what its parent folded; tasks and view are its parent's to change."""

    def __init__(self, state: State) -> None:
        self._state = state

    def expand(self, name: str) -> str:
        return expand(self._state.ledger.projection, name)


class MainToolSession(ForkToolSession):
    def todos(self, new: list[Json] | None) -> list[Json]:
        ledger = self._state.ledger
        if new is not None:
            ledger.append(edits.state("todos", new))
        return list(ledger.state("todos", []))

    def snip(self, first: int, last: int, what: str) -> str:
        return snip.by_agent(self._state, first, last, what)
