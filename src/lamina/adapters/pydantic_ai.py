"""pydantic-ai: a capability of an agent.

    agent = Agent("anthropic:claude-sonnet-4-6", capabilities=[Lamina(user="alice")])

The message history keeps every part as it was; what the model is sent is Lamina's view of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self, Unpack

from lamina.adapters import needs
from lamina.adapters.core import EXPAND, Core, Options, aside, described, usage_of
from lamina.messages import Block, Json, Message, text, tool_result, tool_use

needs("pydantic-ai-slim", "pydantic-ai", (2, 60), 3)

from pydantic_ai import RetryModelRequest, RunContext, Tool, messages
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.toolsets import FunctionToolset

from lamina.integrations.wrap import Call


class Lamina(AbstractCapability[Any]):
    """Folds, layers 1 to 4, recall and spend for an agent, and the tool Expand."""

    def __init__(self, **options: Unpack[Options]) -> None:
        self._core = Core(options)
        self._call: Call | None = None  # of a run, which has one at a time

    async def for_run(self, ctx: RunContext[Any]) -> Self:
        return copy(self)

    def get_toolset(self) -> FunctionToolset[Any] | None:
        if not self._core.on:
            return None
        name, about, schema = EXPAND.name, EXPAND.description, EXPAND.input_schema
        tool = Tool[Any].from_schema(self._expand, name, about, schema, takes_ctx=True)
        return FunctionToolset[Any]([tool])

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        def frame() -> Json:
            asked = request_context.model_request_parameters
            said = "\n\n".join(part.content for part in asked.instruction_parts or ())
            tools = described(asked.function_tools, "parameters_json_schema")
            return {"model": request_context.model.model_name, "tools": tools, "system": said}

        if self._call is not None and self._call.refused:
            return request_context  # asked again, with what the program made
        said = request_context.messages
        shown, self._call = await aside(self._core.view, said, _read, _put, _sum_up, frame)
        return replace(request_context, messages=shown)

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        response: messages.ModelResponse,
    ) -> messages.ModelResponse:
        it = response.usage
        counts = it.input_tokens, it.output_tokens, it.cache_read_tokens, it.cache_write_tokens
        await aside(self._core.answered, self._call, partial(usage_of, *counts))
        self._call = None
        return response

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> messages.ModelResponse:
        if self._core.refused(self._call, error):
            raise RetryModelRequest from error
        raise error

    async def _expand(self, ctx: RunContext[Any], **asked: Any) -> str:
        return await aside(self._core.expand, asked, [_read(one) for one in ctx.messages])


def _read(message: messages.ModelMessage) -> Message:
    if isinstance(message, messages.ModelRequest):
        return {"role": "user", "content": [_block(part) for part in message.parts]}
    said: list[Block] = []
    for part in message.parts:
        if isinstance(part, messages.TextPart):
            said.append(text(part.content))
        elif isinstance(part, messages.ToolCallPart):
            said.append(tool_use(part.tool_call_id, part.tool_name, part.args_as_dict()))
    return {"role": "assistant", "content": said}


def _block(part: Any) -> Block:
    """One block a part, so that what was changed finds its way back."""
    match part:
        case messages.UserPromptPart(content=said):
            words = [said] if isinstance(said, str) else said
            return text("\n".join(one for one in words if isinstance(one, str)))
        case messages.ToolReturnPart(tool_kind=None, tool_call_id=name) if not part.files:
            failed = part.outcome != "success"
            return tool_result(name, part.model_response_str(), is_error=failed)
        case _:  # instructions, files, and what pydantic-ai says itself
            return {**text(str(getattr(part, "content", ""))), "origin": "system"}


def _put(message: messages.ModelMessage, blocks: list[Block]) -> messages.ModelMessage:
    if not isinstance(message, messages.ModelRequest):
        return message
    parts = list(message.parts)
    for at, part in enumerate(parts):
        if isinstance(part, messages.ToolReturnPart) and blocks[at] != _block(part):
            parts[at] = replace(part, content=blocks[at]["content"])
    added = [messages.UserPromptPart(str(block["text"])) for block in blocks[len(parts) :]]
    return replace(message, parts=[*parts, *added])


def _sum_up(said: Sequence[messages.ModelMessage], summary: str) -> list[messages.ModelMessage]:
    own = [p for one in said for p in one.parts if isinstance(p, messages.SystemPromptPart)]
    return [messages.ModelRequest([*own, messages.UserPromptPart(summary)])]
