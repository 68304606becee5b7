"""What every adapter is made of: messages in Anthropic's form go in, one for each of the framework's,
and the framework's own come back with only those exchanged that Lamina changed. Nothing here raises: on
any fault of ours the framework's messages go out as they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import anyio.to_thread

from lamina.conversation.bodies import ANTHROPIC, Form
from lamina.errors import LaminaError
from lamina.integrations.wrap import Between, Call, switched_off
from lamina.messages import Block, Json, Message, Usage, dicts
from lamina.tools import view_tools
from lamina.tools.files import shown as printable

EXPAND = view_tools.Expand.spec
_Own = TypeVar("_Own")
_Made = TypeVar("_Made")
_Asked = TypeVar("_Asked")


def described(tools: Sequence[Any], schema: str) -> list[Json]:
    """Tools, as a provider is told of them; `schema` is what a framework calls that of the input."""
    found = [(one.name, one.description or "", getattr(one, schema)) for one in tools]
    return [{"name": name, "description": about, "input_schema": it} for name, about, it in found]


def usage_of(total: int, output: int, read: int, write: int) -> Usage:
    """Where the prompt's count includes what was cached."""
    return Usage(max(0, total - read - write), output, read, write)


async def aside(function: Callable[..., _Made], *given: Any, **named: Any) -> _Made:
    """The same, in a thread, so that the event loop goes on."""
    return await anyio.to_thread.run_sync(partial(function, *given, **named))


class Options(TypedDict, total=False):
    """What every adapter takes, by the names and with the meanings that `lamina.wrap` has."""

    project: str | Path
    user: str
    session: str
    remember: bool
    recall: bool
    files: bool
    compact: bool
    home: str | Path
    enabled: bool


class Core:
    """One adapter's conversations; recognised by what they begin with, as those of `lamina.wrap`."""

    def __init__(self, options: Options, *, files: bool | None = False) -> None:
        given: dict[str, Any] = {"project": None, "user": None, "files": files, **options}
        self.on: bool = given.pop("enabled", True) and not switched_off()
        self._between = Between(**given)

    def view(
        self,
        own: Sequence[_Own],
        read: Callable[[_Own], Message],
        put: Callable[[_Own, list[Block]], _Own],
        sum_up: Callable[[Sequence[_Own], str], Sequence[_Own]],
        frame: Callable[[], Json],
    ) -> tuple[list[_Own], Call | None]:
        """The framework's messages as its model is to see them. `read` gives one in Anthropic's form,
        `put` one with these blocks, `sum_up` what stands for some with this summary (instructions
        among them stay), `frame` model, system, tools, and a session if there is one."""
        try:
            given = [read(one) for one in own] if self.on else []
            body = {**frame(), "messages": given} if given else {}
            session = str(body.pop("session", None) or "")
            call = self.body(ANTHROPIC, body, expands=True, session=session) if body else None
            if call is not None:
                at, said = call.folded, call.body["messages"]
                head = sum_up(own[:at], call.summary) if at else ()
                trios = zip(own[at:], given[at:], said[at - len(own) :], strict=True)
                tail = [a if new is was else put(a, dicts(new["content"])) for a, was, new in trios]
                return [*head, *tail], call
        except Exception as error:  # noqa: BLE001 - the framework's messages go out as they are
            self._between.tell(f"left a request as it was: {type(error).__name__}: {error}")
        return list(own), None

    def body(self, form: Form, body: Json, **more: Any) -> Call | None:
        """The same for a framework that has a provider's own form."""
        return self._between.before(form, body, **more) if self.on else None

    def sent(
        self,
        call: Call | None,
        send: Callable[[_Asked], _Made],
        changed: _Asked,
        given: _Asked,
        usage: Callable[[_Made], Usage],
    ) -> _Made:
        """The model's answer. What it cost is booked, and memories are looked for. Where the provider
        turned down what we made of a request, it is asked again with what the program made."""
        try:
            answer = send(changed)
        except Exception as error:
            if not self.refused(call, error):
                raise
            answer = send(given)
        self.answered(call, lambda: usage(answer))
        return answer

    async def sent_async(
        self,
        call: Call | None,
        send: Callable[[_Asked], Awaitable[_Made]],
        changed: _Asked,
        given: _Asked,
        usage: Callable[[_Made], Usage],
    ) -> _Made:
        """The same, awaited."""
        try:
            answer = await send(changed)
        except Exception as error:
            if not self.refused(call, error):
                raise
            answer = await send(given)
        await aside(self.answered, call, lambda: usage(answer))
        return answer

    def answered(self, call: Call | None, usage: Callable[[], Usage]) -> None:
        """The model answered, at this cost."""
        if call is not None:
            self._between.answered(call, usage)

    def refused(self, call: Call | None, error: Exception) -> bool:
        """Whether to ask again with what the program made."""
        return call is not None and self._between.refused(call, error)

    def expand(
        self, asked: Json, said: Sequence[Message] = (), session: str = "", name: str = ""
    ) -> str:
        """What the tool Expand answers: in the conversation of these messages, or in one by name."""
        try:
            body, wanted = {"messages": said}, str(asked["id"])
            found = self._between.expanded(ANTHROPIC, body, wanted, session, name)
            offset, column = int(asked.get("offset") or 1), int(asked.get("column") or 1)
            limit, words = int(asked.get("limit") or view_tools.LINES), asked.get("search")
            lines = view_tools.lines_shown(printable(found), offset, column, limit, words or "")
            return str(lines.content)
        except (LaminaError, KeyError, ValueError, TypeError) as error:
            return f"Expand found nothing: {error}"
