"""LangChain, LangGraph and deepagents: middleware for `create_agent` and `create_deep_agent`. The state
keeps every message as it was; what the model is sent is Lamina's view of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Unpack

from lamina.adapters import needs
from lamina.adapters.core import EXPAND, Core, Options, aside, usage_of
from lamina.integrations.wrap import Call
from lamina.messages import Block, Json, Message, Usage, text, text_of, tool_result, tool_use

needs("langchain", "langchain", (1, 0), 2)

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config

_Request = ModelRequest[Any]
_Response = ModelResponse[Any]


class LaminaMiddleware(AgentMiddleware[Any, Any, Any]):
    """Folds, layers 1 to 4, recall and spend for an agent, and the tool Expand. A thread of LangGraph
    is a conversation; without one they are told apart by their first messages."""

    def __init__(self, **options: Unpack[Options]) -> None:
        super().__init__()
        self._core = core = Core(options)

        @tool(EXPAND.name, description=EXPAND.description)
        def expand(
            id: str,  # noqa: A002 - the name that the tool has everywhere
            runtime: ToolRuntime[Any, Any],
            offset: int = 1,
            column: int = 1,
            search: str = "",
        ) -> str:
            asked = {"id": id, "offset": offset, "column": column, "search": search}
            said = [_read(one) for one in runtime.state["messages"]]
            return core.expand(asked, said, _thread(runtime.config))

        self.tools = [expand] if core.on else []

    def wrap_model_call(
        self, request: _Request, handler: Callable[[_Request], _Response]
    ) -> _Response:
        changed, call = self._view(request)
        return self._core.sent(call, handler, changed, request, _usage)

    async def awrap_model_call(
        self, request: _Request, handler: Callable[[_Request], Awaitable[_Response]]
    ) -> _Response:
        changed, call = await aside(self._view, request)
        return await self._core.sent_async(call, handler, changed, request, _usage)

    def _view(self, request: _Request) -> tuple[_Request, Call | None]:
        def frame() -> Json:
            names = (getattr(request.model, name, None) for name in ("model_name", "model"))
            tools = [convert_to_openai_tool(one) for one in request.tools]
            about = {"model": next(filter(None, names), ""), "session": _thread(get_config())}
            return {**about, "tools": tools, "system": str(request.system_prompt or "")}

        shown, call = self._core.view(request.messages, _read, _put, _sum_up, frame)
        return request.override(messages=shown), call


def _thread(config: Mapping[str, Any]) -> str:
    return str(config.get("configurable", {}).get("thread_id") or "")


def _usage(response: _Response) -> Usage:
    for message in response.result:
        if isinstance(message, AIMessage) and (one := message.usage_metadata):
            detail = one.get("input_token_details") or {}
            read, write = detail.get("cache_read") or 0, detail.get("cache_creation") or 0
            return usage_of(one["input_tokens"], one["output_tokens"], read, write)
    return Usage()


def _read(message: AnyMessage) -> Message:
    match message:
        case HumanMessage():
            return {"role": "user", "content": _parts(message.content)}
        case ToolMessage(tool_call_id=name, content=said, status=status):
            said = said if isinstance(said, str) else _parts(said)
            return {
                "role": "user",
                "content": [tool_result(name, said, is_error=status == "error")],
            }
        case AIMessage():
            words = [text(str(message.text))] if message.text else []
            calls = [tool_use(str(c["id"]), c["name"], c["args"]) for c in message.tool_calls]
            return {"role": "assistant", "content": [*words, *calls]}
        case _:  # instructions: never touched
            return {"role": "system", "content": str(message.text)}


def _parts(content: Any) -> list[Block]:
    if isinstance(content, str):
        return [text(content)]
    words = [text(part) if isinstance(part, str) else part for part in content]
    return [part if part.get("type") == "text" else {"type": "image"} for part in words]


def _put(message: AnyMessage, blocks: list[Block]) -> AnyMessage:
    was: Any = message.content
    if isinstance(message, ToolMessage):
        now: Any = text_of(blocks[0]["content"])
    elif isinstance(was, str):  # some models take nothing else
        now = "\n\n".join(str(block["text"]) for block in blocks)
    else:
        pairs = zip_longest(was, blocks)
        now = [new if new["type"] == "text" else own for own, new in pairs]
    return message.model_copy(update={"content": now})


def _sum_up(messages: Sequence[AnyMessage], summary: str) -> list[AnyMessage]:
    return [*(one for one in messages if isinstance(one, SystemMessage)), HumanMessage(summary)]
