"""What a reader is asked before a model's memory counts as the user's word, and what its answer means.

The gate compares words. Whether they were meant (a part in a play, a joke, an errand of today) takes
somebody who reads: a model that sees the talk and the memory, and nothing of what its writer saw. It
can only object, so what talks it into something lets nothing in. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import cast

from lamina.memories import Proposal
from lamina.memory.evidence import Blocks, Record
from lamina.messages import Json

Files = Iterable[tuple[str, str]]  # by path, what they say
_BEFORE, _AFTER = 12, 6  # turns around the words; of those farther off only what was typed
# Letters that are shown of each: a frame may stand in the middle of a long message or notice.
_WORDS, _TYPED, _NOTICE, _NEAR, _FAR, _UNTYPED = 6_000, 2_500, 3_000, 600, 200, 240
_ALL_FAR, _LEAST = 12_000, 60  # letters of all that is far off on one side; of each at the least
_LONGEST_MEMORY, _LONGEST_WHY = 3_000, 200
_MOST = 8  # places; what rests on more was put together
_UNREAD = "a reader of it came to no verdict"


def question(proposal: Proposal, record: Record, before: str = "", files: Files = ()) -> str:
    """The talk around the words that a memory rests on, the `files` that it is put together from, and
    the memory; "" if it rests on neither. What its file said `before` came from elsewhere and is no new
    claim."""
    places: dict[tuple[str, str], str] = {}
    for one in proposal.evidence:
        session = one.session or proposal.session
        places.setdefault((session, one.entry), "")
    shown = [_place(record, *place) for place in [*places][:_MOST]]
    talk = "\n\n[elsewhere]\n\n".join(filter(None, shown))
    stood = "\n".join(f"{path}: {_quoted(said, _WORDS)}" for path, said in files)
    if not (talk or stood):
        return ""
    memory = (
        f"file: {proposal.path}\ntype: {proposal.type or 'none'}\ntitle: {proposal.name}\n"
        f"description: {proposal.description}\n\n{proposal.body.strip()}"
    )
    known = {*map(str.strip, before.splitlines())} - {"", "---"}
    memory = "\n".join(
        f"[stood there] {line}" if line.strip() in known else line for line in memory.splitlines()
    )
    parts = {"talk": talk, "files": stood, "memory": memory[:_LONGEST_MEMORY]}
    return "\n\n".join(f"<{tag}>\n{part}\n</{tag}>" for tag, part in parts.items() if part)


def objection(answer: str) -> str:
    """Why the reader does not take it for meant; "" where it does, or nobody answered. What it says
    instead of a verdict it may have been talked into, so that is none in favour."""
    if not answer.strip():
        return ""
    try:
        said: object = json.loads(answer[answer.find("{") : answer.rfind("}") + 1])
    except (ValueError, RecursionError):
        return _UNREAD
    meant = cast("Json", said).get("meant") if isinstance(said, dict) else None
    if not isinstance(meant, bool):
        return _UNREAD
    if meant:
        return ""
    why = " ".join(str(cast("Json", said).get("why") or "it was not meant so").split())
    return f"read in its place it may not be meant so: {why[:_LONGEST_WHY]}"


def _place(record: Record, session: str, entry: str) -> str:
    own = record.origin_text(session, entry)
    before = record.before(session, entry)
    after = record.whole(session)[len(before) + len(own) :]
    if not own:
        return ""
    far, later = _far(before[:-_BEFORE]), _far(after[_AFTER:])
    return "\n".join([
        *far,
        *(["…"] if far else ()),
        *(_turn(one, _TYPED) for one in before[-_BEFORE:]),
        *(f">> {_turn(one, _WORDS)}" for one in own),
        *(_turn(one, _TYPED) for one in after[:_AFTER]),
        *(["…"] if later else ()),
        *later,
    ])  # fmt: skip


def _far(blocks: Blocks) -> list[str]:
    """All that was typed there, the more of it the shorter; beyond that the first and the last."""
    typed = [one for one in blocks if one[0] == "typed"]
    most = _ALL_FAR // _LEAST
    shown = typed if len(typed) <= most else [*typed[: most // 2], *typed[-most // 2 :]]
    each = min(_FAR, max(_LEAST, _ALL_FAR // (len(shown) or 1)))
    return [_turn(one, each) for one in shown]


def _turn(block: tuple[str, str], most: int) -> str:
    """One line, so that no text can look like a turn of somebody else's, or end the talk."""
    origin, text = block
    who = {"typed": "person", "assistant": "assistant"}.get(origin)
    longest = {"typed": most, "assistant": min(most, _NEAR), "system": _NOTICE}.get(
        origin, _UNTYPED
    )
    return f"{who or f'[{origin}]'}: {_quoted(text, longest)}"


def _quoted(text: str, most: int) -> str:
    if len(text := text.strip()) > most:
        text = f"{text[: most // 2]} […] {text[-most // 2 :]}"
    return json.dumps(text, ensure_ascii=False).replace("<", "‹").replace(">", "›")
