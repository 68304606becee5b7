"""What a provider counts is learnt from what it says of each request (I7)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from lamina.ledger.tokens import Counted, traits
from lamina.messages import Block, text, tool_result, tool_use

pytestmark = pytest.mark.spec("I7")


def _words(block: Block) -> str:
    return str(block.get("text") or block.get("content") or block.get("input"))


COUNTS: dict[str, Callable[[Block], float]] = {
    "by bytes": lambda block: 3 + len(_words(block)) / 3,
    "by words and signs": lambda block: 9 + len(re.findall(r"\w{1,5}|[^\w ]|\n", _words(block))),
    "by bytes as JSON, thinking sealed": lambda block: len(str(block)) / 4,
}


def _said(number: int) -> list[Block]:
    """Prose, code and numbers, each time in another measure."""
    prose = "It reads the file and changes what the plan says. " * (number * 7 % 11 + 1)
    code = f"def step_{number}(a, b):\n    return {{'a': a[0], 'b': b}}\n" * (number * 5 % 13 + 1)
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "Zm9v" * (number % 4 * 50)}
    call = tool_use(f"t{number}", "Bash", {"command": f"grep -n step_{number} src | head"})
    return [thinking, text(prose), call, tool_result(f"t{number}", code)]


@pytest.mark.parametrize("kind", COUNTS)
def test_after_some_requests_the_weight_of_what_never_went_out_is_known(kind: str) -> None:
    sealed = 0.25 if "sealed" in kind else 0.0

    def count(blocks: list[Block]) -> int:
        extra = sum(sealed * len(str(block.get("signature", ""))) for block in blocks)
        bare = [{k: v for k, v in block.items() if k != "signature"} for block in blocks]
        return round(extra + sum(map(COUNTS[kind], bare)))

    counted, unsent = Counted(), _said(77)[1:]
    for number in range(30):
        counted.learn(traits(_said(number)), count(_said(number)))
    assert counted.of(traits(unsent)) == pytest.approx(count(unsent), rel=0.05)


def test_what_a_picture_or_lost_thinking_adds_or_takes_teaches_nothing() -> None:
    counted, said = Counted(), _said(5)
    before = counted.of(traits(said))
    counted.learn(traits(said), 90_000)
    counted.learn(traits(said), -4_000)
    counted.learn(traits([{"type": "image"}]), 1_500)
    assert counted.of(traits(said)) == before
