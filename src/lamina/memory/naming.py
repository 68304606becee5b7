"""The names of memories: what may be a path, the path and title made from a sentence, the next path
where one is taken, links by name, what an index line may call a memory, and what the keys of its file
say. Whoever writes a memory names it here. Pure.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, pairwise
from typing import TYPE_CHECKING, TypeAlias

from lamina.memories import MEMORY_TYPES, Memory, Proposal
from lamina.memory.index import short_hook
from lamina.memory.topics import KEPT_BY_US
from lamina.secrets import secrets_in
from lamina.text.about import limits, narrowed_by
from lamina.text.asks import find_order, permits, turned_round
from lamina.text.lists import words
from lamina.text.wording import (
    NEGATION,
    content_stems,
    fold,
    missing_tokens,
    negates,
    plain_words,
    sentences,
    spaced,
)
from lamina.text.wording import words as text_words

if TYPE_CHECKING:
    from lamina.memory.evidence import Record

# What a file's name may call a memory of the user's beside their own words, and a heading a group of
# them. "Rules" and "Team" would say something of what they name.
TOPIC = words("proof.topics")
_NAMES = frozenset(
    (*MEMORY_TYPES, *"memory memories index topics preferences & and my the und meine 和".split())  # noqa: SIM905
)
HEADINGS = (*_NAMES, "title team notes rules facts references")
_APART = str.maketrans("_/-", "   ")
_PLAIN_MARKS = frozenset(" -–—_,/&()'’.:")
_PART = re.compile(r"[a-z0-9_-]{1,80}")
_MOST_PARTS = 5
# Names that some file systems give to devices, whatever their ending.
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$", "clock$"]
    + [f"{port}{number}" for port in ("com", "lpt") for number in range(10)]
)

_NAME_WORDS = 6
_NAME_LETTERS = 60
_TITLE_LETTERS = 60
_LONGEST_TITLE = 200
_LINK = re.compile(r"\[\[([^\[\]\n]{1,200})\]\]")
_CLAUSE = re.compile(r"[,;.:!?，。；：]|\b(?:but|aber)\b|但")
_STATES = frozenset("i am is are was we ich bin ist sind war wir".split())  # noqa: SIM905
_ITEMS = re.compile(r"(?:^|\n\s*| / )[-*+•] (?=[^\W\d])")
_NUMBERED = 50  # files of one name that get a number; the next ones get a hash


def near_names(word: str, paths: Iterable[str]) -> list[str]:
    """Up to three memories that a name may mean: those that hold its parts, else those spelt nearly so."""
    name = word.lower().removesuffix(".md")
    parts, known = name.replace("_", " ").split(), sorted(paths)
    holding = [path for path in known if len(name) > 2 and all(part in path for part in parts)]
    return holding[:3] or difflib.get_close_matches(f"{name}.md", known, 3)


def file_name(kind: str, title: str, says: str = "") -> str:
    """`feedback_dont_mock_database.md`: readable where the script allows it, else with a short hash.

    Negations, numbers and letters that tell two things apart ("shop A") stay in. Where a title
    turns round what the memory `says`, the name is made from that.
    """
    text = says if says and turned_round(title, [says]) else title
    text = secrets_in(text).mask(text, "")  # a name is shown, listed and kept in many places
    words = _fitting(text, _NAME_LETTERS - len(kind))
    stem = "_".join((kind, *words))
    latin = sum(char.isascii() for char in text if char.isalnum())
    if not words or latin * 2 < sum(char.isalnum() for char in text):
        stem += f"_{_hash(text)}"
    return f"{stem}.md"


def title_of(text: str) -> str:
    """The first words of a text for a heading; as many as it takes to keep its negation, and what it
    is limited to."""
    first = next(iter(sentences(text)), "")
    if len(_ITEMS.findall(text)) > 1:  # one dash may be a minus
        first = _ITEMS.sub("", first, count=1)
    more = len(spaced(text)) > len(spaced(first)) + 2
    whole = spaced(first)[:_LONGEST_TITLE]
    short = whole
    if len(whole) > _TITLE_LETTERS:
        short = whole[: max(whole.rfind(" ", 0, _TITLE_LETTERS + 1), 0) or _TITLE_LETTERS]
    cut = whole[len(short) :]
    kept = whole if limits(cut) or negates(short) != negates(whole) else short
    bare = kept.rstrip(" .,;:。，")  # "I am lazy?" is not "I am lazy"
    # "Never suggest a Friday" is no rule, and what follows a sentence may say whose it is.
    return f"{bare}…" if more or len(kept) < len(whole) else bare


def free_names(path: str, text: str = "") -> Iterator[str]:
    """The path, then the ones to try when another memory has it; the last is the text's own."""
    stem = path.removesuffix(".md")
    yield path
    yield from (f"{stem}-{number}.md" for number in range(2, _NUMBERED))
    yield f"{stem[:70]}-{_hash(text)}.md"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def _fitting(text: str, room: int) -> list[str]:
    """The words for a name in the order of the text: before all others what a reader must not miss,
    which is a negation with the word that it denies, and a number or letter with what it numbers."""
    words = [word for word, tells in plain_words(text) if tells]
    denied = [
        at + step for at, word in enumerate(words) if NEGATION.fullmatch(word) for step in (0, 1)
    ]
    marks = [
        at - step
        for at, word in enumerate(words)
        if word.isdigit() or len(word) == 1
        for step in (0, 1)
    ]
    chosen: set[int] = set()
    for at in (*denied, *marks[:_NAME_WORDS], *range(len(words))):
        essential = at in denied or at in marks[:_NAME_WORDS]
        if not 0 <= at < len(words) or at in chosen:
            continue
        if (essential or len(chosen) < _NAME_WORDS) and len(words[at]) < room:
            chosen.add(at)
            room -= len(words[at]) + 1
    return [words[at] for at in sorted(chosen)]


def why_bad_name(path: str, existing: Iterable[str] = ()) -> str:
    """ "" or why no memory may be written at this path. A file that is there already may be updated."""
    existing = list(existing)
    if path in existing:
        return ""
    *folders, file = path.split("/")
    stem = file.removesuffix(".md")
    if stem == file:
        return f"{printable(path)} does not end in .md"
    if len(folders) >= _MOST_PARTS:
        return f"{printable(path)} lies more than {_MOST_PARTS} folders deep"
    for part in (*folders, stem):
        if part.casefold() in _DEVICES:
            return f"{printable(path)} has the name of a device"
        if not _PART.fullmatch(part):
            return (
                f"{printable(path)} is not a memory name: "
                "use 1 to 80 of a-z, 0-9, _ and - before .md"
            )
    if stem == "memory":
        return f"{printable(path)} would collide with the index MEMORY.md"
    folded = path.casefold()
    for other in existing:
        if other.casefold() == folded:
            return f"{printable(path)} differs from {printable(other)} only in upper and lower case"
    return ""


There: TypeAlias = Callable[[str], object]


def never(_path: str) -> None:
    return None


def why_misnamed(proposal: Proposal, there: There = never) -> str:
    """ "" or why the name of a new memory or of its file says what the memory does not. A name of the
    user's word is held against theirs elsewhere, one with spaces is judged as a sentence. `there`: the
    memory at a path, which another of that name is told from by a number."""
    kind, name = proposal.type or "project", proposal.name
    theirs = kind in ("user", "feedback")
    folder = proposal.path.rpartition("/")[0]
    if theirs and folder not in ("", "team"):
        return f"the folder “{folder[:60]}” would say something of it: leave it out"
    texts = (proposal.description, *proposal.body.splitlines())
    says_more = theirs and _names_more(proposal, (name, *texts, proposal.body), there)
    if says_more or misnames(proposal.path, kind, (name, *texts)):
        better = file_name(kind, proposal.description)
        return f"its file's name says what it does not: call it {better}"
    stands = any(name.rstrip("…") in fold(one) for one in texts)  # and is judged there
    judged = not theirs and " " not in name and not stands
    if judged and misnames(f"{kind}_{name}.md", kind, texts):
        return f"its name says what it does not: “{name[:60]}”"
    return ""


def only_topics(text: str) -> bool:
    """Does it name topics and types of memories, and say nothing else, by a word or by a sign?"""
    marks = {one for one in text if not (one.isalnum() or one.isspace())}
    named = not text.strip() or any(map(str.isalnum, text))
    rest = TOPIC.sub(" ", f"{text} ".translate(_APART)).replace("’", "'").replace("'s ", " ")
    return named and marks <= _PLAIN_MARKS and _NAMES.issuperset(text_words(rest))


def _names_more(proposal: Proposal, texts: Sequence[str], there: There) -> bool:
    """Has the name of a file of the user's a word that neither stands in it nor names a topic?"""
    stem = _unnumbered(proposal.path, texts, there).removeprefix("team/")
    said = {word for one in texts for word, _ in plain_words(one)}
    stems = frozenset[str]().union(*map(_plain_stems, texts))
    parts = stem.removeprefix(proposal.type or "").translate(_APART).split()
    # One letter may be the name of a thing; of several a word is spelled.
    single = [one for one in parts if len(one) == 1 and one.isalpha()]
    parts = [one for one in parts if single[1:] or one not in single]
    told = [one for one in parts if not (NEGATION.fullmatch(one) or only_topics(one))]
    holding = [text for text in texts if _in_order(told, text)]
    # "Speed above safety" of "speed above safety only in demos" is more than they said.
    ours = any(file_name(proposal.type or "", one) == f"{stem}.md" for one in texts)
    cut = told[1:] and not ours and all(narrowed_by(one).difference(told) for one in holding)
    return (
        not holding
        or bool(cut)
        or not all(
            one in said
            or NEGATION.fullmatch(one)  # of what, `misnames` asks
            or only_topics(one)
            or frozenset() != content_stems(one) <= stems
            for one in parts
        )
    )


def _in_order(told: Sequence[str], text: str) -> bool:
    """Does a text say these words, one after the other? "Spaces over tabs" is the opposite of theirs."""
    said = iter((word, _plain_stems(word)) for word, _ in plain_words(text))
    return all(
        any(one == word or not content_stems(one).isdisjoint(stems) for word, stems in said)
        for one in told
    )


def _unnumbered(path: str, texts: Sequence[str], there: There = bool) -> str:
    """The name without what tells it from the one of that name that is `there`."""
    stem = path.removesuffix(".md")
    first = re.sub(r"-(?:[2-9]|[1-4]\d)$", "", stem)
    stem = first if there(f"{first}.md") else stem
    known = {_hash(text) for one in texts for text in (one, one.strip())}
    return stem[:-9] if stem[-9:-8] in ("_", "-") and stem[-8:] in known else stem


def misnames(path: str, kind: str, titles: Sequence[str]) -> bool:
    """Does a file's name order, allow or deny what the memory does not say so in one clause? One that
    only names a topic says nothing."""
    stem = _unnumbered(path, titles)
    if any(file_name(kind, one).startswith(stem) for one in titles):
        return False
    name = re.sub(r"[_/-]+", " ", stem.removeprefix("team/").removeprefix(f"{kind}_"))
    if not _STATES.isdisjoint(name.split()):  # a sentence, which is not how theirs begins
        return True
    parts = [part for one in titles for part in _CLAUSE.split(one)]
    said = [(_plain_stems(part), negates(part)) for part in parts]
    denied = [b for a, b in pairwise(name.split()) if NEGATION.fullmatch(a)]
    if denied:
        return not all(any(no and content_stems(one) <= had for had, no in said) for one in denied)
    wanted = content_stems(name)
    holding = [no for had, no in said if wanted <= had]
    if holding:
        return len(wanted) > 1 and all(holding)
    says_no = negates(name) and not any(no for _, no in said)
    return says_no or bool(find_order(name) or permits(name, " ".join(titles)))


def _plain_stems(text: str) -> frozenset[str]:
    """Its stems, and those of its words without umlauts: a file's name has none."""
    return content_stems(f"{text} {' '.join(word for word, _ in plain_words(text))}")


def printable(path: str) -> str:
    """A path as it may be shown: what is not plain is escaped, and length is bounded."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in path[:120])
    return shown + ("…" if len(path) > 120 else "")


# ---- what links and index lines call a memory


def without_links(text: str, targets: set[str], *, alone: bool = False) -> str:
    """Without links to memories there are; the words that a link shows are a claim like others. `alone`:
    only where a line is links, since amid a sentence the name of a file is a word of it."""
    if alone:
        bare = ((line, without_links(line, targets)) for line in text.split("\n"))
        return "\n".join(
            "" if rest != line and not rest.strip(" -*,") else line for line, rest in bare
        )

    def shown(link: re.Match[str]) -> str:
        target, _, words = link[1].partition("|")
        title = " " in target.strip() or not target.isascii()  # a file's name says nothing
        named = target if title else ""
        return f" {named} {words} " if _link_key(target) in targets else link[0]

    return _LINK.sub(shown, text)


def link_targets(memories: Iterable[Memory]) -> set[str]:
    targets: set[str] = set()
    for memory in memories:
        targets.update((_link_key(memory.name), _link_key(memory.path)))
    return targets


def _link_key(target: str) -> str:
    return target.partition("|")[0].removesuffix(".md").strip().casefold().replace("_", "-")


def sums_up(title: str, hook: str, memory: Memory, stood: Sequence[str]) -> bool:
    """Whether an index line may say this of a memory. The user's own words are told as they are, in the
    memory or in the line before: a line is always in view, and one "never" less is a lie."""
    if memory.type in ("user", "feedback"):
        short = short_hook(memory.path, memory.name, memory.description)
        known = {"", memory.path, memory.name, memory.description, short, *stood}
        told = {spaced(one).rstrip(". ") for one in known}
        return all(spaced(one).rstrip(". ") in told for one in (title, hook))
    says = f"{memory.name} {memory.path} {memory.description}\n{memory.body}"
    return grounded(f"{title}\n{hook}", says)


def grounded(claim: str, source: str, *, of: float = 0.7) -> bool:
    stems = content_stems(claim)
    shared = len(stems & content_stems(re.sub(r"[_-]+", " ", source)))
    return shared >= of * len(stems) and not missing_tokens(claim, source)


# ---- what the keys of a file say beside naming it

# A day, a number, an id, or one of our own words: what such a key holds, and no statement.
_ID = re.compile(r"[0-9a-fA-F-]{8,}")
_OUR_VALUES = frozenset(
    """true false memory tool page pasted assistant recalled system hook agent teammate outside
    program user t z tz""".split()  # noqa: SIM905 - a word list
)
_ISO = len("2026-11-19")
_DAYS = frozenset(("said", "due", "modified", "created", "updated"))
_OF_AN_ID = 3  # letters to a digit, at most
_WORD_ENDS = re.compile(r"[_.-]+|(?<=[a-z])(?=[A-Z])")


def day_of_nobody(proposal: Proposal, record: Record, memories: Iterable[Memory]) -> str:
    """ "" or what a key of ours says of when, where neither that was said nor anything said then, and no
    other memory has it. Where nobody recorded when anything was said, no day can be held against it."""
    dated = {
        one: key
        for key, one in proposal.extra.items()
        if key.casefold() in KEPT_BY_US and any(map(str.isdigit, one))
        if key.casefold() in _DAYS or not _ID.fullmatch(one) or len(one) == _ISO
    }
    if not dated or proposal.type not in ("user", "feedback"):
        return ""
    said, now = (
        " ".join(
            run
            for one in proposal.evidence
            for run in record.dates(words or one.quote, one.session or proposal.session, one.entry)
        )
        for words in ("", "today")
    )
    moved = {one.extra.get(key) for one in memories for key in dated.values()}
    new = [one for one in dated if one not in moved] if said + now or not proposal.evidence else []
    # Said or saved it may be on that day; that it is due then they must have said.
    known = {one: said if dated[one].casefold() == "due" else f"{said} {now}" for one in new}
    whole = (one for one in new if dated[one].casefold() == "due" and len(one) > _ISO)
    told = (one for one in new if not _is_moment(one) or one[:_ISO] not in known[one])
    return next(chain(told, whole), "")


def _is_moment(value: str) -> bool:
    try:
        return value[4:5] == "-" and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


def said_by_keys(extra: Mapping[str, str]) -> list[str]:
    """What further frontmatter says, in keys ("obsolete:") as in values."""
    said: list[str] = []
    for key, value in extra.items():
        spelled, ours = " ".join(_WORD_ENDS.split(key)), key.casefold() in KEPT_BY_US
        if not ours:
            said.append(spelled)
        if not (ours and _keeps_only(value)):
            said.append(value)
    return said


def _keeps_only(value: str) -> bool:
    """Is it nothing, a day, a number, an id, or a word of ours? A sign ("❌") says something, and so does what
    is spelled with the letters of an id."""
    letters = "".join(filter(str.isalpha, value)).casefold()
    digits = sum(map(str.isdigit, value))
    if _ID.fullmatch(value):
        return _OF_AN_ID * digits >= len(letters)
    plain = value.isascii() and set(value) <= {*" -+:.,/_'\"", *filter(str.isalnum, value)}
    return plain and (not letters or letters in _OUR_VALUES)
