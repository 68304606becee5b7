"""OpenHands' condenser on the same conversation, condensing when the prompt has too many tokens. A script
for an environment of its own (`openhands-sdk` needs Python 3.12), with the files of `cache_peers.py`:

    python cache_openhands.py "openhands [max_tokens=number]" IN OUT

Its summary is one fixed sentence, as with the other peers, and is not charged.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

WINDOW = 200_000
FULL = int(WINDOW * 0.85)
MANY = 1_000_000  # events: so that tokens alone are the reason
SUMMARY = "Summary of the work so far: several parts were looked at; the API stays as it is."


def said(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or [] if isinstance(part, dict))


def events_of(index: int, message: dict, asked: dict[str, tuple[str, str]]) -> list[Any]:
    """A recorded message as events; their ids tell which block they come from."""
    from openhands.sdk.event import ActionEvent, MessageEvent, ObservationEvent
    from openhands.sdk.llm import Message, MessageToolCall, TextContent
    from openhands.sdk.tool.schema import Observation

    class Told(Observation):
        """Any tool's result."""

    made: list[Any] = []
    calls = [block for block in message["content"] if block["type"] == "tool_use"]
    words = TextContent(text=said(message["content"]))
    if message["role"] == "assistant" and not calls:
        told = Message(role="assistant", content=[words])
        return [MessageEvent(id=f"{index}.-1", source="agent", llm_message=told)]
    for number, block in enumerate(message["content"]):
        name = f"{index}.{number}"
        if block["type"] == "tool_use":
            asked[block["id"]] = (name, block["name"])
            call = MessageToolCall(
                id=block["id"],
                name=block["name"],
                arguments=json.dumps(block["input"]),
                origin="completion",
            )
            made.append(
                ActionEvent(
                    id=name,
                    thought=[words] if not made and words.text else [],
                    tool_name=block["name"],
                    tool_call_id=block["id"],
                    tool_call=call,
                    llm_response_id=f"answer{index}",
                )
            )
        elif block["type"] == "tool_result":
            action, tool = asked[block["tool_use_id"]]
            seen = Told(content=[TextContent(text=said(block.get("content")))])
            made.append(
                ObservationEvent(
                    id=name,
                    observation=seen,
                    action_id=action,
                    tool_name=tool,
                    tool_call_id=block["tool_use_id"],
                )
            )
        elif message["role"] == "user":
            told = Message(role="user", content=[TextContent(text=str(block.get("text", "")))])
            made.append(MessageEvent(id=name, source="user", llm_message=told))
    return made


def condense(data: dict, max_tokens: int = FULL) -> dict:
    """`LLMSummarizingCondenser`, else as it comes; each request is one step of its agent's loop."""
    from openhands.sdk.context.condenser import LLMSummarizingCondenser
    from openhands.sdk.context.view import View
    from openhands.sdk.event import Condensation
    from openhands.sdk.llm import Message, TextContent
    from openhands.sdk.testing import TestLLM

    answer = Message(role="assistant", content=[TextContent(text=SUMMARY)])
    model = TestLLM.from_messages([answer] * 1000)
    condenser = LLMSummarizingCondenser(llm=model, max_size=MANY, max_tokens=max_tokens)
    asked: dict[str, tuple[str, str]] = {}
    view, taken = View(), 0
    seconds, sent = [], []
    for indexes in data["requests"]:
        for index in indexes[taken:]:
            for event in events_of(index, data["messages"][index], asked):
                view.append_event(event)
        taken = len(indexes)
        began = time.process_time()
        while isinstance(done := condenser.condense(view, agent_llm=model), Condensation):
            view.append_event(done)
        seconds.append(time.process_time() - began)
        sent.append(parts_of(done.events, data["messages"]))
    return {"seconds": seconds, "sent": sent}


def parts_of(events: list[Any], messages: list[dict]) -> list[list[Any]]:
    parts: list[list[Any]] = []
    for event in events:
        index, dot, number = str(event.id).partition(".")
        if not dot:
            parts.append([event.summary])
            continue
        blocks = messages[int(index)]["content"]
        if messages[int(index)]["role"] == "assistant" and int(number) >= 0:
            # An action carries the words before it.
            first = next(n for n, block in enumerate(blocks) if block["type"] == "tool_use")
            if int(number) == first:
                parts += [[int(index), n] for n in range(first)]
        parts.append([int(index), int(number)])
    return parts


def main(arguments: list[str]) -> int:
    asked, source, target = arguments
    given = (pair.partition("=") for pair in asked.split()[1:])
    settings = {key: int(value) for key, _, value in given}
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # nothing from the network
    os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
    os.environ.setdefault("LOG_LEVEL", "ERROR")
    conversations = json.loads(Path(source).read_text("utf-8"))
    sent = [condense(data, **settings) for data in conversations]
    Path(target).write_text(json.dumps(sent), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
