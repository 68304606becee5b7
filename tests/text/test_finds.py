"""What the rules keep of two strangers' sets does not get worse unseen, whatever moves around them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lamina.local.extractor import extract
from lamina.memories import Proposal

DATA = Path(__file__).parents[2] / "bench" / "data"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def is_right(proposal: Proposal, wanted: dict[str, Any]) -> bool:
    text = f"{proposal.name} {proposal.description} {proposal.body}".casefold()
    return (
        proposal.type in {wanted["type"], *wanted.get("or_type", ())}
        and all(word.casefold() in text for word in wanted["must_contain"])
        and all(day in proposal.body for day in wanted["absolute_dates"])
    )


@pytest.mark.spec("L5.8")
@pytest.mark.parametrize(
    ("name", "least_right", "most_wrong"),
    [("extract_blind_e", 154, 16), ("extract_blind_g", 114, 9)],
)
def test_as_much_is_found_and_no_more_is_wrong(
    name: str, least_right: int, most_wrong: int
) -> None:
    right = wrong = 0
    for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines():
        exchange = json.loads(line)
        left = extract(exchange["messages"], now=NOW, session="s")
        for wanted in exchange["expect"]:
            if hit := next((one for one in left if is_right(one, wanted)), None):
                left.remove(hit)
                right += 1
        also = exchange.get("also", ())
        wrong += sum(not any(is_right(one, wanted) for wanted in also) for one in left)
    assert right >= least_right
    assert wrong <= most_wrong
