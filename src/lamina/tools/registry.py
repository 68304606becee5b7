"""The toolbox: an agent's tools in order, and the one way to run them.

Every call goes input check → permission → tool, and every failure becomes a result that the model
can read; only cancellation passes through. Events are emitted for refusals and for tools that
break; ToolStarted and ToolFinished belong to the turn, which also runs the hooks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import anyio.to_thread

from lamina.errors import LaminaError, RefusedError, UsageError
from lamina.events import PermissionRefused, Warned
from lamina.messages import Json
from lamina.ports import Tool, ToolContext, ToolOutcome, ToolSpec
from lamina.tools.schema import problems

LONGEST_COMPLAINT = 500


@runtime_checkable
class PreparesInput(Protocol):
    """A tool whose input is made definite before anyone decides on it.

    A path is resolved here once and held open by the context, so that what was permitted and what
    is used are the same.
    """

    def prepare(self, input: Json, context: ToolContext) -> Json: ...  # noqa: A002


class Toolbox:
    """Tools by name, in the order in which the model is told of them."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> None:
        name = tool.spec.name
        if name in self._tools:
            raise UsageError(f"Two tools are called {name}. Rename or remove one of them.")
        self._tools[name] = tool

    def replacing(self, others: Iterable[Tool]) -> Toolbox:
        """The same tools, some of them done by others that the model can't tell apart."""
        by_name = {tool.spec.name: tool for tool in others}
        for name, tool in by_name.items():
            if name in self._tools and tool.spec != self._tools[name].spec:
                raise UsageError(f"{name} can only be replaced by a tool with the same spec.")
        return Toolbox(by_name.get(name, tool) for name, tool in self._tools.items())

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def specs(self) -> Sequence[ToolSpec]:
        return tuple(tool.spec for tool in self._tools.values())

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    async def run(self, name: str, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        """Check, ask for permission, run. Never raises but for cancellation."""
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            return failed(f"There is no tool called {name!r}. Tools: {known}.")
        if wrong := problems(tool.spec.input_schema, input):
            return failed(f"{name} was not run, its input does not fit: {'; '.join(wrong)}.")
        call, started_in = replace(context, held=None, withheld=None), context.cwd
        try:
            if isinstance(tool, PreparesInput):
                input = await anyio.to_thread.run_sync(tool.prepare, input, call)  # noqa: A001
            decision = await context.permit(tool.spec, input, call)
            if not decision.allow:
                reason = decision.reason or "a permission rule refused it"
                context.emit(PermissionRefused(tool=name, reason=reason))
                return refused(f"{name} was not permitted: {reason}")
            call.withheld = decision.withheld
            return await tool.run(input, call)
        except RefusedError as error:
            return refused(str(error))
        except LaminaError as error:
            return failed(str(error))
        except Exception as error:  # noqa: BLE001 - a host's tool may raise anything; it is booked
            complaint = f"{name} failed: {_one_line(error)}"
            context.emit(Warned(complaint))
            return failed(complaint)
        finally:
            if call.cwd != started_in:
                context.cwd = call.cwd  # where a command's cd left us
            if call.held is not None:
                call.held.close()


def failed(sentence: str) -> ToolOutcome:
    """An outcome that tells the model what went wrong."""
    return ToolOutcome(sentence, is_error=True)


def refused(sentence: str) -> ToolOutcome:
    """The same where it was a rule that said no."""
    return ToolOutcome(sentence, is_error=True, meta={"decision": "refuse", "reason": sentence})


def _one_line(error: Exception) -> str:
    words = " ".join(str(error).split())
    shown = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return shown if len(shown) <= LONGEST_COMPLAINT else shown[: LONGEST_COMPLAINT - 1] + "…"


def builtin_tools(bash_seconds: float = 120, bash_most: float = 600) -> list[Tool]:
    """The tools that every session has, in the order in which the model is told of them."""
    from lamina.tools.bash import Bash
    from lamina.tools.edit import Edit
    from lamina.tools.expand import Expand
    from lamina.tools.glob import Glob
    from lamina.tools.grep import Grep
    from lamina.tools.read import Read
    from lamina.tools.snip import Snip
    from lamina.tools.todo import Todo
    from lamina.tools.write import Write

    return [
        Read(),
        Write(),
        Edit(),
        Grep(),
        Glob(),
        Bash(bash_seconds, bash_most),
        Todo(),
        Expand(),
        Snip(),
    ]
