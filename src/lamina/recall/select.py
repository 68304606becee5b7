"""Picks from the ranker's candidates: a small model does, else the ranker's own confidence.
Whatever goes wrong with the model (no JSON, names that were not offered, a refusal, no answer in
time), the ranker's choice stands. Pure but for the one call through the port that it is given.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import anyio

from lamina import prompts
from lamina.errors import LaminaError
from lamina.memory import age_words
from lamina.messages import Json, Request, Response, text
from lamina.recall import CONFIDENT, SURE, Match

# Sends one request to the small model and books it; raises LaminaError if that can't be.
Ask = Callable[[Request], Awaitable[Response]]

_SCHEMA: Json = {
    "type": "object",
    "properties": {"selected": {"type": "array", "items": {"type": "string"}}},
    "required": ["selected"],
    "additionalProperties": False,
}
_LONGEST_QUESTION = 2_000
_LONGEST_LINE = 300
_LONGEST_WORD = 500  # of the selector's answer, in the record


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """One message of the user, and what is to be known about the moment."""

    entry: str  # its id in the record
    question: str
    now: float
    tools: Collection[str] = ()  # in use
    exclude: Collection[str] = ()  # memories that were shown or read already
    vouched: Collection[str] = ()  # what a model picked for the message before, too late for it


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that the ranker offers, with what the selector is told of it."""

    match: Match
    type: str = ""
    description: str = ""
    saved: float = 0.0

    @property
    def path(self) -> str:
        return self.match.id


@dataclass(frozen=True, slots=True)
class Selection:
    """What was picked, by whom, and in which words."""

    paths: Sequence[str]
    by: str  # the model's name, or "ranker"
    said: str = ""  # the model's answer as it came, shortened
    why: str = ""  # why the ranker chose


@dataclass(frozen=True, slots=True)
class Selector:
    """A small model that picks."""

    ask: Ask
    model: str
    max_tokens: int = 256
    seconds: float = 10.0

    async def pick(
        self, asked: RecallRequest, candidates: Sequence[Candidate], most: int
    ) -> Selection:
        """Up to `most` of the candidates; the ranker's choice if the model is of no help."""
        request = self._request(asked, candidates, most)
        response: Response | None = None
        with anyio.move_on_after(self.seconds):
            try:
                response = await self.ask(request)
            except LaminaError as error:
                return by_rank(candidates, most, f"{self.model} could not be asked: {error}")
        if response is None:
            return by_rank(candidates, most, f"{self.model} took over {self.seconds:g} s")
        return _read(response, candidates, most, self.model)

    def _request(self, asked: RecallRequest, candidates: Sequence[Candidate], most: int) -> Request:
        words = [f"The message:\n{asked.question[:_LONGEST_QUESTION]}"]
        words += [f"\nTools in use: {', '.join(sorted(asked.tools))}"] if asked.tools else []
        words.append("\nThe memories:")
        for one in candidates:
            kind = f"[{one.type}] " if one.type else ""
            about = " ".join(one.description.split())[:_LONGEST_LINE]
            words.append(f"- {kind}{one.path} (saved {age_words(one.saved, asked.now)}): {about}")
        return Request(
            system=[text(prompts.load("recall", most=str(most)))],
            tools=[],
            messages=[{"role": "user", "content": [text("\n".join(words))]}],
            model=self.model,
            max_tokens=self.max_tokens,
            params=schema_params(self.model),
            purpose="recall",
        )


def by_rank(candidates: Sequence[Candidate], most: int, why: str) -> Selection:
    """What the ranker is sure of; for an unrelated question that is nothing."""
    sure = [one.path for one in candidates if one.match.confidence >= CONFIDENT]
    return Selection(tuple(sure[:most]), "ranker", why=why)


def at_once(
    candidates: Sequence[Candidate], vouched: Collection[str], most: int, model: str
) -> Selection:
    """What a call should not miss while the model is still thinking: the best candidate where the
    ranker is sure of it, and those that fit again after the model picked them too late."""
    best = [one.path for one in candidates[:1] if one.match.confidence >= SURE]
    again = [
        one.path
        for one in candidates
        if one.path in vouched and one.match.confidence >= CONFIDENT and one.path not in best
    ]
    return Selection((*best, *again)[:most], "ranker", why=f"{model} had not answered yet")


def _read(response: Response, candidates: Sequence[Candidate], most: int, model: str) -> Selection:
    said = response.text.strip()
    names, offered = _names(said), {one.path for one in candidates}
    known = [name for name in dict.fromkeys(names or ()) if name in offered]
    if response.stop_reason == "refusal":
        problem = "refused"
    elif names is None:
        problem = "gave no list of names"
    elif known or not names:
        return Selection(tuple(known[:most]), model, said[:_LONGEST_WORD])
    else:
        problem = "named what was not offered"
    return replace(by_rank(candidates, most, f"{model} {problem}"), said=said[:_LONGEST_WORD])


def _names(said: str) -> list[str] | None:
    try:
        value: Any = json.loads(said)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        value = cast("Json", value).get("selected")
    if not isinstance(value, list):
        return None
    items = cast("list[Any]", value)
    return cast("list[str]", items) if all(isinstance(item, str) for item in items) else None


def schema_params(model: str) -> Json:
    """How the provider is told to answer by the schema."""
    if model.startswith("anthropic:"):
        return {"output_config": {"format": {"type": "json_schema", "schema": _SCHEMA}}}
    named = {"name": "memories", "schema": _SCHEMA, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}
