"""Other libraries' ways to keep a context, each run on the same conversation. A script for the peers' own
environment, which has no Lamina: reads one JSON file, writes one, imports only the peers.

    python cache_peers.py "PEER [setting=number …]" IN OUT

IN: a list of {"messages": [message in Anthropic's form], "requests": [[index of each message sent]]}
OUT: for each {"seconds": [of each call], "sent": [[part]]}, a part being [message, block] (as it was),
[message, block, text] (changed) or ["text"] (the peer's own words); null: the peer sent nothing.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

WINDOW = 200_000
FULL = int(WINDOW * 0.85)
SUMMARY = "Summary of the work so far: several parts were looked at; the API stays as it is."


def said(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or [] if isinstance(part, dict))


def pieces(messages: list[dict]) -> list[list[tuple[int, int, dict]]]:
    """(message, block, block) of each message; an answer's blocks stay together under its first."""
    return [
        [(index, number, block) for number, block in enumerate(message["content"])]
        for index, message in enumerate(messages)
    ]


# ---- LangChain's form


def to_langchain(messages: list[dict]) -> list[list[Any]]:
    """For each message its LangChain messages, whose ids tell where they come from."""
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    made: list[list[Any]] = []
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            calls = [
                {"name": b["name"], "args": b["input"], "id": b["id"]}
                for b in message["content"]
                if b["type"] == "tool_use"
            ]
            words = said(message["content"])
            made.append([AIMessage(words, tool_calls=calls, id=f"{index}.all")])
            continue
        row: list[Any] = []
        for number, block in enumerate(message["content"]):
            name = f"{index}.{number}"
            if block["type"] == "tool_result":
                content = said(block.get("content"))
                row.append(ToolMessage(content, tool_call_id=block["tool_use_id"], id=name))
            else:
                row.append(HumanMessage(str(block.get("text", "(image)")), id=name))
        made.append(row)
    return made


def from_langchain(sent: list[Any], originals: dict[str, Any]) -> list[list[Any]]:
    parts: list[list[Any]] = []
    for message in sent:
        if message.type == "system":
            continue
        known = originals.get(message.id or "")
        if known is None and message.type == "tool":
            known = originals.get(message.tool_call_id)
        if known is None and message.type == "ai" and message.tool_calls:
            known = originals.get("ai:" + message.tool_calls[0]["id"])
        if known is None:
            known = originals.get("text:" + message.text)
        if known is None:
            parts.append([message.text])
            continue
        index, _, number = known.id.partition(".")
        where: list[Any] = [int(index), -1 if number == "all" else int(number)]
        parts.append(where if message.text == known.text else [*where, message.text])
    return parts


def lookup(rows: list[list[Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for message in (m for row in rows for m in row):
        found[message.id] = message
        if message.type == "tool":
            found[message.tool_call_id] = message
        elif message.type == "ai" and message.tool_calls:
            found["ai:" + message.tool_calls[0]["id"]] = message
        else:
            found["text:" + message.text] = message
    return found


def clear_tool_uses(data: dict, **settings: int) -> dict:
    """LangChain's ContextEditingMiddleware; its own defaults are 100,000 tokens, 3 kept."""
    from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
    from langchain.agents.middleware.types import ModelRequest
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(**settings)])
    model = GenericFakeChatModel(messages=iter([]))
    rows = to_langchain(data["messages"])
    originals = lookup(rows)
    seconds, sent = [], []
    for indexes in data["requests"]:
        request = ModelRequest(
            model=model, messages=[m for i in indexes for m in rows[i]], state={"messages": []}
        )
        got: list[Any] = []

        def take(edited: Any, got: list[Any] = got) -> Any:
            got.extend(edited.messages)
            return AIMessage("ok")

        began = time.process_time()
        middleware.wrap_model_call(request, take)
        seconds.append(time.process_time() - began)
        sent.append(from_langchain(got, originals))
    return {"seconds": seconds, "sent": sent}


def trim(data: dict, max_tokens: int = FULL) -> dict:
    """LangChain's trim_messages: the newest that fit, by default into 85% of the window."""
    from langchain_core.messages import trim_messages
    from langchain_core.messages.utils import count_tokens_approximately

    rows = to_langchain(data["messages"])
    originals = lookup(rows)
    seconds, sent = [], []
    for indexes in data["requests"]:
        messages = [m for i in indexes for m in rows[i]]
        began = time.process_time()
        got = trim_messages(
            messages,
            max_tokens=max_tokens,
            strategy="last",
            token_counter=count_tokens_approximately,
            start_on=("human", "ai"),
        )
        seconds.append(time.process_time() - began)
        sent.append(from_langchain(got, originals))
    return {"seconds": seconds, "sent": sent}


# ---- whole agents, with a model that plays back the recording


def scripted_model(answers: list[Any], seen: list[list[Any]], spent: list[float]) -> Any:
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Played(BaseChatModel):
        """Gives the next recorded answer; asked for a summary, a fixed sentence."""

        @property
        def _llm_type(self) -> str:
            return "played"

        def bind_tools(self, tools: Any, **more: Any) -> Any:  # noqa: ARG002 - theirs to name
            return self.bind(main=True)

        def _generate(
            self,
            messages: Any,
            stop: Any = None,  # noqa: ARG002 - theirs to name
            run_manager: Any = None,  # noqa: ARG002
            **more: Any,
        ) -> ChatResult:
            began = time.process_time()
            if more.get("main"):
                seen.append(list(messages))
                message = answers.pop(0).model_copy() if answers else AIMessage("done")
            else:
                message = AIMessage(SUMMARY)
            spent.append(time.process_time() - began)
            return ChatResult(generations=[ChatGeneration(message=message)])

    return Played(profile={"max_input_tokens": WINDOW})


def play(data: dict, build: Any) -> dict:
    """Let an agent work through the recording; what its model was sent is the result."""
    from langchain_core.tools import StructuredTool
    from langgraph.checkpoint.memory import InMemorySaver

    rows = to_langchain(data["messages"])
    originals = lookup(rows)
    outputs = {m.tool_call_id: m.text for row in rows for m in row if m.type == "tool"}
    answers = [row[0] for row in rows if row and row[0].type == "ai"]
    names = {call["name"] for answer in answers for call in answer.tool_calls}
    by_args = {
        json.dumps([call["name"], call["args"]], sort_keys=True): outputs[call["id"]]
        for answer in answers
        for call in answer.tool_calls
    }

    def tool(name: str) -> Any:
        def run(**given: Any) -> str:
            given = {k: v for k, v in given.items() if v is not None}
            return by_args[json.dumps([name, given], sort_keys=True)]

        schema = {
            "type": "object",
            "properties": {
                key: {"type": "string"} for key in ("command", "file_path", "pattern", "path")
            },
        }
        return StructuredTool.from_function(run, name=name, description=name, args_schema=schema)

    seen: list[list[Any]] = []
    spent: list[float] = []
    model = scripted_model(list(answers), seen, spent)
    agent = build(model, [tool(name) for name in sorted(names)], InMemorySaver())
    settings = {"configurable": {"thread_id": "1"}, "recursion_limit": 10_000}
    humans = [row[-1] for row in rows if row and row[-1].type == "human" and len(row) == 1]
    began = time.process_time()
    for human in humans:
        agent.invoke({"messages": [human]}, settings)
    total = time.process_time() - began - sum(spent)
    count = len(data["requests"])
    sent = [from_langchain(messages, originals) for messages in seen[:count]]
    return {"seconds": [total / max(1, len(seen))] * len(sent), "sent": sent}


def deep_agent(data: dict) -> dict:
    """deepagents as it comes."""
    from deepagents import create_deep_agent

    return play(
        data, lambda m, tools, saver: create_deep_agent(model=m, tools=tools, checkpointer=saver)
    )


def summarise(data: dict) -> dict:
    """LangChain's SummarizationMiddleware at 85% of the window, 20 messages kept."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import SummarizationMiddleware

    def build(model: Any, tools: list[Any], saver: Any) -> Any:
        middleware = SummarizationMiddleware(model, trigger=("tokens", FULL), keep=("messages", 20))
        return create_agent(model, tools=tools, middleware=[middleware], checkpointer=saver)

    return play(data, build)


# ---- OpenAI Agents


def trimmer(data: dict, **settings: int) -> dict:
    """OpenAI Agents' ToolOutputTrimmer, by default with its own settings."""
    from agents.extensions import ToolOutputTrimmer
    from agents.run_config import CallModelData, ModelInputData

    from agents import Agent

    rows: list[list[dict]] = []
    for index, message in enumerate(data["messages"]):
        row: list[dict] = []
        for number, block in enumerate(message["content"]):
            where = {"_at": [index, number]}
            if block["type"] == "tool_use":
                row.append(
                    {
                        "type": "function_call",
                        "call_id": block["id"],
                        "name": block["name"],
                        "arguments": json.dumps(block["input"]),
                        **where,
                    }
                )
            elif block["type"] == "tool_result":
                row.append(
                    {
                        "type": "function_call_output",
                        "call_id": block["tool_use_id"],
                        "output": said(block.get("content")),
                        **where,
                    }
                )
            else:
                row.append(
                    {"role": message["role"], "content": str(block.get("text", "")), **where}
                )
        rows.append(row)
    trim_outputs, agent = ToolOutputTrimmer(**settings), Agent(name="a")
    seconds, sent = [], []
    for indexes in data["requests"]:
        items: Any = [item for i in indexes for item in rows[i]]
        given = CallModelData(
            model_data=ModelInputData(input=items, instructions=""), agent=agent, context=None
        )
        began = time.process_time()
        got = trim_outputs(given)
        seconds.append(time.process_time() - began)
        parts: list[list[Any]] = []
        for item in got.input:
            original = rows[item["_at"][0]][item["_at"][1]]
            same = item.get("output") == original.get("output")
            parts.append(item["_at"] if same else [*item["_at"], str(item.get("output"))])
        sent.append(parts)
    return {"seconds": seconds, "sent": sent}


PEERS = {
    "langchain_clear": clear_tool_uses,
    "langchain_trim": trim,
    "langchain_summary": summarise,
    "deepagents": deep_agent,
    "openai_trimmer": trimmer,
}


def main(arguments: list[str]) -> int:
    asked, source, target = arguments
    name, *given = asked.split()
    settings = {key: int(value) for key, _, value in (pair.partition("=") for pair in given)}
    conversations = json.loads(Path(source).read_text("utf-8"))
    sent = [PEERS[name](data, **settings) for data in conversations]
    Path(target).write_text(json.dumps(sent), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
