"""What a reader is asked before a model's memory counts as the user's word, and what its answer means.

The gate compares words. Whether they were meant (a part in a play, a joke, an errand of today) takes
somebody who reads: a model that sees the talk and the memory, and nothing of what its writer saw. It
can only object, so what talks it into something lets nothing in. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import cast

from lamina.memories import Proposal
from lamina.memory.evidence import Blocks, Record
from lamina.messages import Json

Files = Iterable[tuple[str, str]]  # by path, what they say
# Letters that are shown: of all the talk, of each turn by who speaks (a frame may stand in the middle of
# a long one), of each that the person typed at the least, of the memory, of the reason.
_ROOM, _LEAST, _LONGEST_MEMORY, _LONGEST_WHY = 24_000, 60, 25_000, 200
_ALL_FILES = 100_000  # what the model could not take in would be read by nobody
_SPEAKERS = {"typed": 6_000, "system": 6_000, "assistant": 4_000}  # who matters most comes first
_OTHERS = 1_500
_MOST = 8  # sessions; what rests on more was put together
_UNREAD = "a reader of it came to no verdict"


def question(proposal: Proposal, record: Record, before: str = "", files: Files = ()) -> str:
    """The talk around the words that a memory rests on, the `files` that it is put together from, and
    the memory; "" if it rests on neither. What its file said `before` came from elsewhere and is no new
    claim."""
    sessions: dict[str, dict[str, None]] = {}
    for one in proposal.evidence:
        sessions.setdefault(one.session or proposal.session, {})[one.entry] = None
    asked = [*sessions.items()][:_MOST]
    shown = [_talk(record, *one, _ROOM // len(asked)) for one in asked]
    talk = "\n\n[elsewhere]\n\n".join(filter(None, shown))
    every = [*files]
    each = min(_LONGEST_MEMORY, _ALL_FILES // (len(every) or 1))
    stood = "\n".join(f"{path}: {_quoted(said, each)}" for path, said in every)
    if not (talk or stood):
        return ""
    memory = (
        f"file: {proposal.path}\ntype: {proposal.type or 'none'}\ntitle: {proposal.name}\n"
        f"description: {proposal.description}\n\n{proposal.body.strip()}"
    )
    known = {*map(str.strip, before.splitlines())} - {"", "---"}
    lines = [(line.strip() in known, line) for line in memory.splitlines()]
    if len(memory) > _LONGEST_MEMORY:  # what is not in question makes room
        lines = [one for one in lines if not one[0]]
    memory = "\n".join(f"[stood there] {line}" if stands else line for stands, line in lines)
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


def _talk(record: Record, session: str, entries: Iterable[str], room: int) -> str:
    """What was said in a session, with the turns marked that the memory rests on."""
    mine, whole = set[int](), record.whole(session)
    blocks: Blocks = ()
    for entry in entries:
        own, before = record.origin_text(session, entry), record.before(session, entry)
        mine.update(range(len(before), len(before) + len(own)))
        blocks = max(blocks, [*before, *own, *whole[len(before) + len(own) :]], key=len)
    if not mine:
        return ""
    lines: list[str] = []
    for n, letters in enumerate(_letters(blocks, mine, room)):
        if letters:
            lines.append(f"{'>> ' * (n in mine)}{_turn(blocks[n], letters)}")
        elif blocks[n][1].strip() and lines[-1:] != ["…"]:
            lines.append("…")
    return "\n".join(lines)


def _letters(blocks: Blocks, mine: Collection[int], room: int) -> list[int]:
    """How much of each turn is shown: a little of all that was typed, then as much as there is room for, by who
    speaks and the nearest first."""
    typed = [n for n, (origin, _) in enumerate(blocks) if origin == "typed"]
    near = sorted(range(len(blocks)), key=lambda n: min(abs(n - one) for one in mine))
    most, shown = room // 2 // _LEAST, [0] * len(blocks)
    first = typed if len(typed) <= most else typed[: most // 2]
    for n in [*first, *[n for n in near if blocks[n][0] == "typed"][: most // 2]]:
        shown[n] = min(_LEAST, len(blocks[n][1].strip()))
    ranks = {speaker: rank for rank, speaker in enumerate(_SPEAKERS)}
    left = room - sum(shown)
    for n in sorted(near, key=lambda n: -1 if n in mine else ranks.get(blocks[n][0], len(ranks))):
        origin, said = blocks[n]
        wanted = min(len(said.strip()), _SPEAKERS.get(origin, _OTHERS))
        if wanted - shown[n] <= left:
            left -= wanted - shown[n]
            shown[n] = wanted
    return shown


def _turn(block: tuple[str, str], most: int) -> str:
    """One line, so that no text can look like a turn of somebody else's, or end the talk."""
    origin, text = block
    who = {"typed": "person", "assistant": "assistant"}.get(origin)
    return f"{who or f'[{origin}]'}: {_quoted(text, most)}"


def _quoted(text: str, most: int) -> str:
    if len(text := text.strip()) > most:
        text = f"{text[: most // 2]} […] {text[-most // 2 :]}"
    return json.dumps(text, ensure_ascii=False).replace("<", "‹").replace(">", "›")
