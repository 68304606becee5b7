"""Which of the turns that a search found answer the question, by a small model that reads them. Words
can't tell a question that nothing answers from one that something does (docs/decisions/local-ranker.md).

It can only choose among what was found, and where it says nothing of use, all of that stands. Touches
nothing: the call is made, and booked, by whoever is given to ask.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from lamina import prompts
from lamina.messages import Json, Request
from lamina.recall.prefetch import LONGEST_QUESTION, SmallModel
from lamina.recall.scoring import fitting_part
from lamina.recall.transcripts import FoundMessage

READ = 5  # turns, best first
_LONGEST = 600  # characters of a turn that are shown


@dataclass(frozen=True, slots=True)
class Reading:
    """By the place of each turn that was read, whether it answers; None, and why, where no model
    said so."""

    answers: Mapping[int, bool] | None
    problem: str = ""


class TurnReader(SmallModel):
    """It reads what was found."""

    async def read(self, question: str, found: Sequence[FoundMessage], now: float) -> Reading:
        response = await self.answer(self.request(question, found, now))
        if isinstance(response, str):
            return Reading(None, response)
        named = numbers_in(response.text, len(found[:READ]))
        if named is None or response.stop_reason == "refusal":
            return Reading(None, f"{self.model} did not say which answer")
        return Reading({place: place + 1 in named for place in range(len(found[:READ]))})

    def request(self, question: str, found: Sequence[FoundMessage], now: float) -> Request:
        return self.to_choose(prompts.load("recall_turns"), shown(question, found, now))


def shown(question: str, found: Sequence[FoundMessage], now: float) -> str:
    """What the model is given to read."""
    lines = [f"The question, asked on {_day(now)}:\n{question[:LONGEST_QUESTION]}", "\nThe turns:"]
    for number, one in enumerate(found[:READ], 1):
        day = _day(one.when) if one.when else "undated"
        words = fitting_part(one.text, question, _LONGEST)
        lines.append(f"[{number}] {day}, {one.agent or one.who}: {words}")
    return "\n".join(lines)


def numbers_in(answer: str, most: int) -> set[int] | None:
    """The turns that an answer names, from 1; None where it is no such answer."""
    try:
        said: Any = json.loads(answer[answer.find("{") : answer.rfind("}") + 1])
    except (ValueError, RecursionError):
        return None
    names = cast("Json", said).get("selected") if isinstance(said, dict) else None
    if not isinstance(names, list):
        return None
    named = {str(name).strip("[] ") for name in cast("list[Any]", names)}
    known = {number for number in range(1, most + 1) if str(number) in named}
    return known if known or not named else None


def _day(when: float) -> str:
    return f"{datetime.fromtimestamp(when, UTC).astimezone():%A %Y-%m-%d}"
