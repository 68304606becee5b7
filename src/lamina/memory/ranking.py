"""Finding memories by words: stems shared with the query, rare ones counting more. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lamina.memories import Hit, Memory
from lamina.text.wording import content_stems


def for_manifest(memories: Sequence[Memory], about: str, limit: int = 200) -> list[Memory]:
    """What a manifest shows where there are more memories than it may: the most relevant, then the
    newest, in the order given."""
    if len(memories) <= limit:
        return list(memories)
    chosen = {hit.memory.path for hit in search(memories, about, limit)}
    for memory in memories:
        if len(chosen) >= limit:
            break
        chosen.add(memory.path)
    return [memory for memory in memories if memory.path in chosen]


def search(memories: Sequence[Memory], query: str, limit: int) -> list[Hit]:
    """Memories that share words with the query, best first; name and description count double."""
    wanted = content_stems(query)
    if not wanted:
        return []
    texts = [
        (
            content_stems(f"{memory.path} {memory.name} {memory.description}"),
            content_stems(memory.body),
        )
        for memory in memories
    ]
    weight = {
        stem: math.log(
            1 + len(memories) / (1 + sum(stem in head or stem in body for head, body in texts))
        )
        for stem in wanted
    }
    hits = [
        Hit(memory, sum(weight[stem] * (2 * (stem in head) + (stem in body)) for stem in wanted))
        for memory, (head, body) in zip(memories, texts, strict=True)
    ]
    found = [hit for hit in hits if hit.score > 0]
    return sorted(found, key=lambda hit: (-hit.score, -hit.memory.mtime, hit.memory.path))[:limit]
