"""A model for programs in the docs: it knows only what it is sent, calls the tools that it is given a few
times, and charges by a prompt cache. Whoever forgets to send it a memory does not hear of it.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from tests.wire.cache import PromptCache
from tests.wire.server import Answer, says

Json = dict[str, Any]
ROUNDS = {"read_file": 24, "read_log": 5}


class KnowingModel:
    """The rule of a WireServer."""

    def __init__(self) -> None:
        self._cache = PromptCache()

    def __call__(self, body: Json) -> Answer:
        said = body.get("messages") or body["input"]
        self._check(said)
        tools = [one.get("function", one).get("name", "") for one in body.get("tools") or []]
        done = sum(one.get("role") == "assistant" for one in said)
        tool = next((name for name in ROUNDS if name in tools), "")
        if tool and done < ROUNDS[tool]:
            given = {"path": f"file{done % 12}.py"} if tool == "read_file" else {"day": done}
            call = {"type": "tool_use", "id": f"call{done}", "name": tool, "input": given}
            return Answer([call], "tool_use", self._usage(body, said))
        return says(_known(said), usage=self._usage(body, said))

    def _check(self, said: Any) -> None:
        """As a provider does: a result answers a call of the message before it."""
        for before, message in pairwise(said if isinstance(said, list) else []):
            asked = {call["id"] for call in before.get("tool_calls") or ()}
            if message.get("role") == "tool" and before.get("role") == "assistant":
                assert message["tool_call_id"] in asked

    def _usage(self, body: Json, said: Any) -> Json | None:
        if "max_tokens" in body:
            if len(said) == 1:
                self._cache = PromptCache()
            blocks = all(isinstance(message["content"], list) for message in said)
            return self._cache.serve({**body, "system": []})[0] if blocks else None
        count = len(json.dumps(said)) // 4
        if "messages" not in body:
            return None
        return {"prompt_tokens": count, "completion_tokens": 5, "total_tokens": count + 5}


def _known(said: Any) -> str:
    """The memories in it, whichever message they came with."""
    parts = json.dumps(said, ensure_ascii=False).split("Memory (saved ")[1:]
    facts = [part.partition("/system-reminder>")[0] for part in parts]
    return "As far as I was told: " + " ".join(facts) if facts else "I was told nothing of that."
