"""What a reader is asked before a model's memory counts as the user's word, and what its answer means.

The gate compares words. Whether they were meant (a part in a play, a joke, an errand of today) takes
somebody who reads: a model that sees the talk and the memory, and nothing of what its writer saw. It
can only object, so what talks it into something lets nothing in. Pure.
"""

from __future__ import annotations

import json
from typing import cast

from lamina.memories import Proposal
from lamina.memory.evidence import Blocks, Record
from lamina.messages import Json

_BEFORE, _AFTER = 12, 6  # turns around the words; of those farther off only what was typed
_FIRST, _EARLIER, _LATER = (
    6,
    30,
    20,
)  # such messages: the first of all, the last before, the next after
_WORDS, _NEAR, _FAR, _UNTYPED = 6_000, 600, 200, 240  # letters that are shown of each
_LONGEST_MEMORY, _LONGEST_WHY = 3_000, 200
_MOST = 8  # places; what rests on more was put together


def question(proposal: Proposal, record: Record, before: str = "") -> str:
    """The talk around the words that a memory rests on, and the memory; "" if it rests on none. What
    its file said `before` came from elsewhere and is no new claim."""
    places: dict[tuple[str, str], str] = {}
    for one in proposal.evidence:
        session = one.session or proposal.session
        places.setdefault((session, one.entry), "")
    shown = [_place(record, *place) for place in [*places][:_MOST]]
    talk = "\n\n[elsewhere]\n\n".join(filter(None, shown))
    if not talk:
        return ""
    memory = (
        f"file: {proposal.path}\ntype: {proposal.type or 'none'}\ntitle: {proposal.name}\n"
        f"description: {proposal.description}\n\n{proposal.body.strip()}"
    )
    known = {*map(str.strip, before.splitlines())} - {"", "---"}
    memory = "\n".join(
        f"[stood there] {line}" if line.strip() in known else line for line in memory.splitlines()
    )
    return f"<talk>\n{talk}\n</talk>\n\n<memory>\n{memory[:_LONGEST_MEMORY]}\n</memory>"


def objection(answer: str) -> str:
    """Why the reader does not take it for meant; "" where it does, or said nothing of use."""
    try:
        said: object = json.loads(answer[answer.find("{") : answer.rfind("}") + 1])
    except (ValueError, RecursionError):
        return ""
    if not isinstance(said, dict) or cast("Json", said).get("meant") is not False:
        return ""
    why = " ".join(str(cast("Json", said).get("why") or "it was not meant so").split())
    return f"read in its place it may not be meant so: {why[:_LONGEST_WHY]}"


def _place(record: Record, session: str, entry: str) -> str:
    own = record.origin_text(session, entry)
    before = record.before(session, entry)
    after = record.whole(session)[len(before) + len(own) :]
    if not own:
        return ""
    far, later = _typed(before[:-_BEFORE]), _typed(after[_AFTER:])
    far = [*far[:_FIRST], *far[_FIRST:][-_EARLIER:]]
    return "\n".join([
        *(_turn(one, _FAR) for one in far),
        *(["…"] if far else ()),
        *(_turn(one, _NEAR) for one in before[-_BEFORE:]),
        *(f">> {_turn(one, _WORDS)}" for one in own),
        *(_turn(one, _NEAR) for one in after[:_AFTER]),
        *(["…"] if later else ()),
        *(_turn(one, _FAR) for one in later[:_LATER]),
    ])  # fmt: skip


def _typed(blocks: Blocks) -> Blocks:
    return [one for one in blocks if one[0] == "typed"]


def _turn(block: tuple[str, str], most: int) -> str:
    """One line, so that no text can look like a turn of somebody else's, or end the talk."""
    origin, text = block
    who = {"typed": "person", "assistant": "assistant"}.get(origin)
    most, text = most if who else _UNTYPED, text.strip()
    if len(text) > most:
        text = f"{text[: most // 2]} […] {text[-most // 2 :]}"
    quoted = json.dumps(text, ensure_ascii=False).replace("<", "‹").replace(">", "›")
    return f"{who or f'[{origin}]'}: {quoted}"
