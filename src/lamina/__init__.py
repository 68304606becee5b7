"""Lamina: seven-layer memory for LLM agents.

    async with lamina.Session.open(project=".") as session:
        reply = await session.ask("…")

Names load when first used: `import lamina` itself loads nothing heavy.
"""

from __future__ import annotations

from lamina._version import __version__

TYPE_CHECKING = False  # as in typing, whose import alone doubles the time of this one
if TYPE_CHECKING:
    from typing import Any

    from lamina.errors import LaminaError
    from lamina.integrations.library import AsyncMemory, Memory
    from lamina.integrations.wrap import wrap
    from lamina.ledger.record import Ledger
    from lamina.messages import Request, Response, Usage
    from lamina.ports import Capabilities, Model, Tool, ToolContext, ToolOutcome, ToolSpec
    from lamina.session import Reply, Session, Status
    from lamina.tools.functions import tool

_HOMES = {
    "lamina.errors": ("LaminaError",),
    "lamina.integrations.library": ("AsyncMemory", "Memory"),
    "lamina.integrations.wrap": ("wrap",),
    "lamina.ledger.record": ("Ledger",),
    "lamina.messages": ("Request", "Response", "Usage"),
    "lamina.ports": ("Capabilities", "Model", "Tool", "ToolContext", "ToolOutcome", "ToolSpec"),
    "lamina.session": ("Reply", "Session", "Status"),
    "lamina.tools.functions": ("tool",),
}

__all__ = [
    "AsyncMemory",
    "Capabilities",
    "LaminaError",
    "Ledger",
    "Memory",
    "Model",
    "Reply",
    "Request",
    "Response",
    "Session",
    "Status",
    "Tool",
    "ToolContext",
    "ToolOutcome",
    "ToolSpec",
    "Usage",
    "__version__",
    "tool",
    "wrap",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'lamina' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
