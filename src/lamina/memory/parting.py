"""What is left of a memory when one statement of it is to be forgotten: "I use vim and I live in Oslo"
without where. Only where the rest stands by itself; else nothing is parted. Pure: values in, values out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from lamina.memories import Memory, Parted
from lamina.text import wording

SAYS_IT = 0.8  # share of the wish's content words that a statement holds if it is meant
TOUCHES_IT = 0.5  # from here on a statement may say it too
_LONGEST_NAME, _LONGEST_DESCRIPTION = 60, 150

# Who a clause is about, so that it can stand alone.
_ME = r"(?:i|i['’]m|i['’]ve|i['’]d|we|we['’]re|we['’]ve|the user|ich|wir)\b(?!\s+(?:and|or|und|oder)\b)|我"
_MINE = r"(?:my|our|mein\w*|unser\w*)\s"
_OWN = re.compile(rf"(?i){_ME}|{_MINE}")
_VERB = r"(?:is|are|was|were|has|have|uses?|runs?|lives?|likes?|prefers?|works?|needs?|wants?|ist|sind|hat|haben)\b"
_SUBJECT = re.compile(rf"(?i){_ME}|(?:{_MINE}|the\s)(?:[\w-]+\s){{1,2}}{_VERB}")
_JOINT = re.compile(r"[,;]?\s(?:and|but|und|aber)\s|[,;]\s|[，；]", re.IGNORECASE)
# A clause behind one of these holds only together with the others.
_BOUND = re.compile(
    r"(?i)\b(?:if|unless|whether|when|whenever|that|because|since|although|while|until|wenn|falls|dass|weil|ob|obwohl|bis)\b"
    r"|如果|因为|虽然|要是"
)
_LEANS = re.compile(
    r"(?i)\b(?:it|its|this|that|these|those|there|they|them|their|he|she|him|her|his|then|so|therefore|both|either|too|also"
    r"|es|das|dies\w*|dort|deshalb|daher|beides?|auch)\b|它|这|那|所以|也"
)
_LINE = re.compile(
    r"^([ \t]*(?:[-*+][ \t]+|\d{1,3}[.)][ \t]+)?(?:\*\*[^*\n]{1,40}\*\*:?[ \t]*)?)(.*)$"
)
_SENTENCE = re.compile(r"\S.*?(?:[.!?。！？]+(?=\s|$|(?<=[。！？]))|$)")


@dataclass(slots=True)
class _Split:
    """A text taken apart: what stays of it, and its statements, those that go and those that stay."""

    kept: str = ""
    gone: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])
    tells_more: bool = False  # what stays may be about what goes


def parted(memory: Memory, wanted: frozenset[str]) -> Parted | None:
    """The memory without the statement that these stems mean; None if it says nothing else, or what
    else it says can't be told apart for sure."""
    if "```" in memory.body or "~~~" in memory.body or "due" in memory.extra or memory.team:
        return None
    body = _without(memory.body, wanted)
    description = _without(memory.description, wanted)
    if not body.gone or not body.left or body.tells_more:
        return None
    if description.gone and not description.left and not all(map(_OWN.match, body.left)):
        return None  # it is about just that, and the rest tells more of it
    if any(_LEANS.search(one) or _share(wanted, one) >= TOUCHES_IT for one in body.left):
        return None
    first = body.left[0]
    rest = replace(
        memory,
        path=_path_without(memory.path, wanted),
        name=_head(memory.name, first, wanted, _LONGEST_NAME),
        description=_head(memory.description, first, wanted, _LONGEST_DESCRIPTION),
        body=body.kept,
    )
    return Parted(rest, "; ".join(body.gone))


def _share(wanted: frozenset[str], text: str) -> float:
    return len(wanted & wording.content_stems(text)) / len(wanted)


def _without(text: str, wanted: frozenset[str]) -> _Split:
    whole = _Split()
    lines: list[str] = []
    for line in text.splitlines():
        found = _LINE.match(line)
        head, words = (found[1], found[2]) if found else ("", line)
        split = _of_line(words, wanted)
        if "**" in head:  # **Why:** is about all that stands above, unless it says the same
            whole.tells_more |= not split.gone
        else:
            whole.gone += split.gone
            whole.left += split.left
            whole.tells_more |= split.tells_more
        if split.kept or not words.strip():
            lines.append(f"{head}{split.kept}".rstrip())
    kept = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    whole.kept = f"{kept}\n" if text.endswith("\n") else kept
    return whole


def _of_line(words: str, wanted: frozenset[str]) -> _Split:
    line = _Split()
    for sentence in _SENTENCE.findall(words):
        kept = ""
        for joint, clause in _clauses(sentence):
            if _share(wanted, clause) >= SAYS_IT:
                line.gone.append(clause.strip(" .!?。！？"))
                continue
            # "… The flat is near the zoo": behind what goes only what is of somebody's own counts.
            line.tells_more |= bool(line.gone) and not _OWN.match(clause)
            line.left.append(clause.strip())
            kept += joint + clause if kept else clause[:1].upper() + clause[1:]
        end = sentence[-1] if kept and sentence[-1] in ".!?。！？" else ""
        kept = kept if kept.endswith(end) else kept + end
        line.kept = f"{line.kept} {kept}".strip()
    return line


def _clauses(sentence: str) -> Iterator[tuple[str, str]]:
    """Each clause with what joins it to the one before; a sentence in which not every clause can
    stand alone is one."""
    parts: list[tuple[str, str]] = []
    start, joint = 0, ""
    for found in _JOINT.finditer(sentence):
        if _SUBJECT.match(sentence, found.end()):
            parts.append((joint, sentence[start : found.start()]))
            start, joint = found.end(), found[0]
    parts.append((joint, sentence[start:]))
    alone = all(_SUBJECT.match(clause) for _, clause in parts) and not _BOUND.search(sentence)
    yield from parts if alone else [("", sentence)]


def _head(text: str, instead: str, wanted: frozenset[str], longest: int) -> str:
    """A name or description without it, else what is left of the body."""
    split = _without(text, wanted)
    if split.left and not wording.content_stems(split.kept) & wanted:
        return split.kept
    words = instead.rstrip(".!?。！？").split()
    while len(words) > 1 and len(" ".join(words)) > longest:
        words.pop()
    return " ".join(words)[:longest]


def _path_without(path: str, wanted: frozenset[str]) -> str:
    """The file's name without the words of it: names are read, too."""
    folder, _, file = path.rpartition("/")
    words: Sequence[str] = re.split(r"[_-]", file.removesuffix(".md"))
    kept = [word for word in words if not wording.content_stems(word) & wanted]
    if len(kept) == len(words):
        return path
    name = "_".join(kept) if len(kept) > 1 else "_".join([*kept, "rest"])
    return f"{folder}/{name}.md" if folder else f"{name}.md"
