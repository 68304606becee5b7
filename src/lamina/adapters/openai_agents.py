"""OpenAI Agents SDK: models that ask other models, for a whole run (`RunConfig(model_provider=…)`).
A model, not an input filter: it sees the tools and what a call cost, and behind it neither the run's
items nor the session's are ever touched.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from functools import partial
from inspect import signature
from typing import Any, Unpack

from lamina.adapters import needs
from lamina.adapters.core import EXPAND, Core, Options, aside, described, usage_of
from lamina.conversation.bodies import RESPONSES
from lamina.integrations.wrap import Call
from lamina.messages import Json, Usage, as_object

needs("openai-agents", "openai-agents", (0, 20), 1)

from agents.items import TResponseStreamEvent
from agents.tool_context import ToolContext
from openai.types.responses import Response, ResponseCompletedEvent

from agents import FunctionTool, Model, ModelProvider, ModelResponse, MultiProvider

_ASKED = signature(Model.get_response)


class LaminaProvider(ModelProvider):
    """Models by name, of the SDK's own provider or of another, each with folds, layers 3 and 4, recall
    and spend; layers 1 and 2 if an agent has `tools=[provider.expand]` or one that reads files here."""

    def __init__(self, provider: ModelProvider | None = None, **options: Unpack[Options]) -> None:
        self._provider = provider or MultiProvider()
        self._core = Core(options, files=None)
        self._expands: dict[str, str] = {}  # call of Expand → its conversation
        about = (EXPAND.name, EXPAND.description, EXPAND.input_schema)
        self.expand = FunctionTool(*about, self._expand, strict_json_schema=False)

    def get_model(self, model_name: str | None) -> Model:
        return self.around(self._provider.get_model(model_name), model_name or "")

    def around(self, model: Model, name: str = "") -> Model:
        """The same for a model that an agent was given as an object."""
        name = name or str(getattr(model, "model", ""))
        return LaminaModel(model, name, self._core, self._expands) if self._core.on else model

    async def aclose(self) -> None:
        await self._provider.aclose()

    async def _expand(self, context: ToolContext[Any], given: str) -> str:
        name = self._expands.pop(context.tool_call_id, "")
        return await aside(self._core.expand, as_object(json.loads(given)), name=name)


class LaminaModel(Model):
    def __init__(self, model: Model, name: str, core: Core, expands: dict[str, str]) -> None:
        self._model, self._name, self._core, self._expands = model, name, core, expands
        self.close, self.get_retry_advice = model.close, model.get_retry_advice

    async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
        given = _ASKED.bind(self, *args, **named).arguments
        call, changed = await aside(self._changed, given)

        async def ask(asked: Json) -> ModelResponse:
            return await self._model.get_response(**asked)

        answer = await self._core.sent_async(call, ask, changed, given, _usage)
        self._note(call, answer.output)
        return answer

    async def stream_response(
        self, *args: Any, **named: Any
    ) -> AsyncIterator[TResponseStreamEvent]:
        given = _ASKED.bind(self, *args, **named).arguments
        call, changed = await aside(self._changed, given)
        begun, todo = False, [given, changed]
        while todo:
            try:
                async for event in self._model.stream_response(**todo.pop()):
                    begun = True
                    if isinstance(event, ResponseCompletedEvent):
                        await aside(self._core.answered, call, partial(_usage, event.response))
                        self._note(call, event.response.output)
                    yield event
                return
            except Exception as error:
                if begun or not todo or not self._core.refused(call, error):
                    raise

    def _changed(self, given: Json) -> tuple[Call | None, Json]:
        """The call, and what to ask instead."""
        del given["self"]
        tools = [tool for tool in given["tools"] if isinstance(tool, FunctionTool)]
        body = {
            **given,
            "conversation": given.get("conversation_id"),
            "model": self._name,
            "instructions": given["system_instructions"],
            "tools": described(tools, "params_json_schema"),
        }
        call = self._core.body(RESPONSES, body, expands=any(t.name == EXPAND.name for t in tools))
        return call, given if call is None else {**given, "input": call.body["input"]}

    def _note(self, call: Call | None, output: Sequence[Any]) -> None:
        """Who asks for an original: the tool is told the id of its call and no more."""
        for item in output:
            if call is not None and getattr(item, "name", "") == EXPAND.name:
                self._expands[item.call_id] = call.conversation


def _usage(answer: ModelResponse | Response) -> Usage:
    told: Any = answer.usage
    if told is None:  # of a stream that did not ask for it
        return Usage()
    detail = told.input_tokens_details
    read, write = detail.cached_tokens or 0, getattr(detail, "cache_write_tokens", 0) or 0
    return usage_of(told.input_tokens, told.output_tokens, read, write)
