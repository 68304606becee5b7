"""What a memory says, whether it is still said, and whether the user's words take it back. Pure.

A write may drop what a person said only if another text carries it or the person took it back: a newer
statement that says otherwise, or a wish to forget it. In doubt nothing is taken back: asking costs less
than losing. Where one statement of a memory is to be forgotten ("I use vim and I live in Oslo" without
where), the rest is kept if it stands by itself; else nothing is parted.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lamina.memories import LABEL, Memory, Parted
from lamina.memory.topics import KEPT_BY_US
from lamina.text import wording
from lamina.text.asks import asks_to_forget, told, wishes_in
from lamina.text.claims import carries, fenced_blocks, judge, overturns, said_in, statements
from lamina.text.lists import Listed, words
from lamina.text.wishes import wish_in

_CLAUSES = re.compile(r"[,;]\s+|(?<=[.!?])\s+")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.*?)[ \t#]*$", re.MULTILINE)
_SHOWN = re.compile(r"`[^`\n]*\s[^`\n]*`")
_FEWEST = 2  # content words of a title that says something
# What somebody has only one of, so that a new one takes the old one's place.
_ONE_OF = Listed("removal.one_of")
_LATELY = words("removal.lately")


_DONT_FORGET = Listed("removal.dont_forget")


# "If the user is not allergic, show the menu" speaks of a program, or of what might be.
_SUPPOSES = words("removal.supposes")
# Plainer than a wish that starts a search for what is meant: here something is named to compare with.
_FORGET = Listed("removal.forget")


@dataclass(frozen=True, slots=True)
class Saying:
    """One thing that a memory says."""

    text: str
    head: bool = False  # of its title or description, which go along with what they sum up
    key: bool = False  # of another frontmatter key, which few read
    since: float = math.inf  # when it was said; by default nothing is newer


def sayings(memory: Memory) -> list[Saying]:
    """Everything that a memory says: statements, headings, code, description, title, other keys."""
    body = [one.text for one in statements(memory.body)]
    titles = [one[1] for one in _HEADING.finditer(_without_code(memory.body))]
    body += [one for one in titles if len(wording.content_stems(one)) >= _FEWEST]
    body += fenced_blocks(memory.body)
    # "🙄" and "👎" are no statements, and take back what stands above them.
    body += [one for one in memory.body.splitlines() if _is_picture(one)]
    extra = [v for k, v in memory.extra.items() if k.casefold() not in KEPT_BY_US]
    heads = clauses(memory.description)
    name = memory.name.replace("_", " ")
    if _own_words(name, f"{memory.path}\n{memory.description}\n{memory.body}"):
        heads.append(name)
    # Of the user's word the smallest may limit the rest: "But only once."
    theirs = memory.type in ("user", "feedback")
    said = [
        Saying(one, key=key)
        for key, texts in ((False, body), (True, extra))
        for one in texts
        if theirs or wording.content_stems(one) or wording.hard_tokens(one)
    ]
    return [*said, *(Saying(one, head=True) for one in heads)]


def _is_picture(line: str) -> bool:
    signs = {unicodedata.category(one) for one in line}
    return "So" in signs and not any(map(str.isalnum, line))


def clauses(description: str) -> list[str]:
    """What a description sums up, one by one."""
    return [part for part in _CLAUSES.split(description) if part.strip()]


def _without_code(body: str) -> str:
    for block in fenced_blocks(body):
        body = body.replace(block, "")
    return body


def _own_words(name: str, rest: str) -> bool:
    stems = wording.content_stems(name)
    return len(stems) >= _FEWEST and not stems <= wording.content_stems(re.sub(r"[_-]", " ", rest))


def still_said(saying: str, memories: Iterable[Memory], *, key: bool = False) -> bool:
    """Does one of these memories carry what was said? `key`: it stood in a frontmatter key, and may
    stay there; what a body or a description said is not said by a key, nor as a piece of code."""
    return any(carrying(saying, memory, key=key) for memory in memories)


def carrying(saying: str, memory: Memory, *, key: bool = False) -> list[str]:
    """What of a memory carries what was said."""
    if fenced_blocks(saying):
        return [memory.body] if wording.fold(saying) in wording.fold(memory.body) else []
    texts = [*_texts(memory), *(memory.extra.values() if key else ())]
    if not (wording.content_stems(saying) or wording.hard_tokens(saying)):
        return [
            one for one in (memory.body, *texts) if wording.spaced(saying) in wording.spaced(one)
        ]
    return [one for one in texts if carries(_without_quoted(one, saying), saying)]


def _without_quoted(text: str, saying: str) -> str:
    """Without stretches of several words in backticks, which show words and don't say them."""
    return _SHOWN.sub(lambda shown: shown[0] if shown[0] in saying else " ", text)


def _texts(memory: Memory) -> list[str]:
    headings = [one[1] for one in _HEADING.finditer(memory.body)]
    return [*said_in(memory), *headings]


def left_out(before: Memory, after: Memory | None) -> list[Saying]:
    """What the one says and the other does not; a label is no part of what is said."""
    before = replace(before, body=before.body.replace(LABEL, ""))
    others = [replace(after, body=after.body.replace(LABEL, ""))] if after is not None else []
    return [one for one in sayings(before) if not still_said(one.text, others, key=one.key)]


def takes_back(typed: str, said: str, path: str) -> bool:
    """Do these typed words end what was said: a wish to forget it, or the contrary?"""
    plain = _DONT_FORGET.sub("", typed)
    wishes = [wish.words for wish in wishes_in(plain)]
    wishes += [found["what"] for one in wording.sentences(plain) if (found := _FORGET.match(one))]
    if any(_meant(wish, said, path) for wish in wishes):
        return True
    for sentence in wording.sentences(typed):
        place = told(sentence, [typed])
        stated = place.stated if place is not None else ""
        if (
            stated
            and not _SUPPOSES.search(stated)
            and (_says_otherwise(stated, said) or _calls_it_wrong(stated, said))
        ):
            return True
    return False


def _meant(wish: str, said: str, path: str) -> bool:
    if wish.endswith(".md"):
        return wish in (path, path.rsplit("/", 1)[-1])
    wanted, stems = wording.content_stems(wish), wording.content_stems(said)
    return bool(wanted) and len(wanted & stems) >= SAYS_IT * len(wanted)


def _calls_it_wrong(stated: str, said: str) -> bool:
    """ "Remove the peanut allergy, that is wrong": all that was said is named."""
    only_by_that = asks_to_forget(stated, about_it=True) and not asks_to_forget(
        stated, about_it=False
    )
    stems = wording.content_stems(said)
    named = bool(stems) and stems <= wording.content_stems(stated)
    return only_by_that and named and wish_in(stated) is None


def _says_otherwise(stated: str, said: str) -> bool:
    stated = _DONT_FORGET.sub("", stated)
    if judge(stated, said) == "sure" or overturns(stated, said):
        return True
    bare = (" ".join(_LATELY.sub("", one).split()).strip(" .!,。，") for one in (stated, said))
    new, old = map(_ONE_OF.fullmatch, bare)
    if new is None or old is None:
        return False
    same = new["what"][:3].casefold() == old["what"][:3].casefold()  # wohne in, wohnt in
    values = [wording.content_stems(one["value"]) for one in (new, old)]
    return same and all(values) and not values[1] <= values[0]


def taken_back(
    lost: Sequence[Saying], typed: Sequence[tuple[float, str]], path: str
) -> list[Saying]:
    """Those of the sayings that the typed words end: (when, words), each newer than what it ends. A
    title or description goes along with the statements that it mostly repeats."""
    gone = [
        one
        for one in lost
        if any(when >= one.since and takes_back(words, one.text, path) for when, words in typed)
    ]
    ended = frozenset[str]().union(*(wording.content_stems(one.text) for one in gone))
    return gone + [one for one in lost if one.head and one not in gone and _sums_up(one, ended)]


def _sums_up(head: Saying, ended: frozenset[str]) -> bool:
    stems = wording.content_stems(head.text)
    return 2 * len(stems & ended) >= len(stems) > 0


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
_BOUND = words("removal.bound")
_LEANS = words("removal.leans")
_LINE = re.compile(
    r"^([ \t]*(?:[-*+][ \t]+|\d{1,3}[.)][ \t]+)?(?:\*\*[^*\n]{1,40}\*\*:?[ \t]*)?)(.*)$"
)


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
    if any(_LEANS.search(one) or share(wanted, one) >= TOUCHES_IT for one in body.left):
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


def share(wanted: frozenset[str], text: str) -> float:
    """How many of the words that are meant a text says."""
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
    for sentence in wording.sentences(words):
        kept = ""
        for joint, clause in _clauses(sentence):
            if share(wanted, clause) >= SAYS_IT:
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
