"""Peers of `make bench-compaction` in a process of their own: LangChain's `trim_messages`.

Reads from stdin a list of jobs, each {"texts": [[role, text], …], "tokens": N}; writes for each the
indexes of the messages that the peer keeps. Needs `langchain-core` in the interpreter that runs it.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def _count(messages: Any) -> int:
    return sum((len(message.content.encode()) + 3) // 4 for message in messages)


def _kept(texts: list[list[str]], tokens: int) -> list[int]:
    from langchain_core.messages import AIMessage, HumanMessage, trim_messages

    kinds = {"user": HumanMessage, "assistant": AIMessage}
    messages = [kinds[role](content=words, id=str(n)) for n, (role, words) in enumerate(texts)]
    kept = trim_messages(messages, max_tokens=tokens, token_counter=_count, strategy="last")
    return [int(message.id or 0) for message in kept]


if __name__ == "__main__":
    jobs = json.load(sys.stdin)
    json.dump([_kept(job["texts"], job["tokens"]) for job in jobs], sys.stdout)
