"""A date made absolute counts as said when it follows from the quote and its time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lamina.memories import Evidence, Proposal
from lamina.memory.gate import GateContext, days_named, decide
from lamina.text.dates import Days

SAID = "The shop goes live on Friday."


def _proposal(day: str) -> Proposal:
    return Proposal(
        path="project_shop_live.md",
        name="The shop goes live",
        description=f"The shop goes live on Friday ({day})",
        type="project",
        body=f"The shop goes live on Friday ({day}).\n",
        writer="extraction",
        evidence=[Evidence(SAID, "s", "e")],
        session="s",
    )


def _dates(quote: str, session: str, entry: str) -> Sequence[Days]:
    assert (session, entry) == ("s", "e")
    return days_named(lambda *_: "2026-11-18T12:00:00+00:00", quote, session, entry)


@pytest.mark.spec("L5.6", "L5.8")
@pytest.mark.parametrize(
    ("day", "origin"), [("2026-11-20", "typed"), ("2026-11-27", "quoted from assistant")]
)
def test_a_date_counts_as_typed_only_if_it_follows_from_what_was_typed(
    day: str, origin: str
) -> None:
    context = GateContext(origin_text=lambda *_: [("typed", SAID)], dates=_dates)
    assert decide(_proposal(day), context).origin == origin


@pytest.mark.spec("L5.6")
def test_without_a_calendar_no_date_is_taken_for_said() -> None:
    context = GateContext(origin_text=lambda *_: [("typed", SAID)])
    assert decide(_proposal("2026-11-20"), context).origin == "quoted from assistant"


@pytest.mark.spec("L5.6")
@pytest.mark.parametrize("kind", ["feedback", "project"])
@pytest.mark.parametrize("form", ["{said} ({day})", "{day}"])
@pytest.mark.parametrize(("first", "second"), [(19, 20), (20, 19)])
def test_two_dates_stay_with_what_they_were_said_of(
    kind: str, form: str, first: int, second: int
) -> None:
    # Of the user's word a weekday gets no day: what is so on Fridays is often so on all of them.
    then = "Friday" if kind == "project" else "the day after tomorrow"
    said = f"Remember: we freeze everything tomorrow and ship the shop {then}."
    assert _dates(said, "s", "e") == ["2026-11-19 2026-11-20"]
    one, other = (
        form.format(said=word, day=f"2026-11-{day}")
        for word, day in (("tomorrow", first), (then, second))
    )
    line = f"we freeze everything {one} and ship the shop {other}"
    proposal = Proposal(
        path=f"{kind}_topic.md",
        name="topic",
        description=line,
        type=kind,
        body=f"{line}.\n",
        writer="extraction",
        evidence=[Evidence(said, "s", "e"), Evidence(said, "s", "e")],
        session="s",
    )
    context = GateContext(origin_text=lambda *_: [("typed", said)], dates=_dates)
    verdict = decide(proposal, context)
    assert (verdict.decision == "accept" and verdict.origin == "typed") == (first < second)
