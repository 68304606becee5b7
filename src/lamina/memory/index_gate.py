"""The gate for MEMORY.md, which every prompt holds: what a direct edit of it may put there.

Pure as `gate` is: what must be known comes in as a `GateContext`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from lamina.memories import Memory, Verdict, Writer
from lamina.memory.drafts import leaks_in
from lamina.memory.gate import MASKED, GateContext, leave_out, sentence_of
from lamina.memory.index import links_of, pointer_line, pointers_of, told_of
from lamina.memory.known_memories import Familiar
from lamina.memory.naming import HEADINGS, TOPIC, grounded, only_topics, sums_up
from lamina.text import wording
from lamina.text.asks import find_order
from lamina.text.origins import hidden_character

_LONGEST_HEADING = 60
_SHORT_HEADING = 2  # words


def decide_index(
    before: str, after: str, writer: Writer, context: GateContext, *, allow_secret: bool = False
) -> Verdict:
    """The same for a direct edit of MEMORY.md: new lines must point to memories that exist."""
    if len(after.encode("utf-8", "replace")) > context.max_bytes:
        return Verdict("refuse", f"MEMORY.md would exceed {context.max_bytes:,} bytes.")
    if hidden := hidden_character(after):
        return Verdict("refuse", f"MEMORY.md would hold {hidden}: remove it.")
    leaks = leaks_in(after, "MEMORY.md", context.secret_rules)
    warnings = [leak.sentence for leak in leaks]
    if warnings and context.scope == "team":
        return Verdict("refuse", warnings[0])
    new = [leak for leak in leaks if leak.value not in before]
    if new and not allow_secret and writer in ("user", "agent", "program"):
        return Verdict("refuse", leave_out(new[0], writer))
    if writer == "user":
        return Verdict("accept", "", warnings, origin="typed")
    if words := _words_of_quotation(before, after, context.known):
        return Verdict("refuse", words)
    reason = MASKED if new else _why_bad_index(before, after, context)
    decision = "inbox" if reason else "accept"
    return Verdict(decision, sentence_of(reason) if reason else "", warnings, origin="assistant")


def _words_of_quotation(before: str, after: str, known: Familiar) -> str:
    """ "" or the line that a quotation has, where a new one would put its words, or any, into view."""
    for line in set(after.splitlines()) - set(before.splitlines()):
        for link in links_of(line.encode("utf-8", "replace")):
            for one in _pointed_at(link.file, known):
                told = pointer_line(link.file, *told_of(link.file, "", "", quoted=one.quoted))
                if one.quoted and line.strip() != told:
                    return f"{one.path} is a quotation: its only line in an index is “{told}”."
    return ""


def _why_bad_index(before: str, after: str, context: GateContext) -> str:
    """New lines are pointers whose words come from their memory, and keep the label of its origin."""
    known = {line.strip() for line in before.splitlines()}
    old = pointers_of(before.encode("utf-8", "replace"))
    labels = {p.file: _label(p.hook) for p in old}
    lines = after.splitlines()
    moved = _put_below(before.splitlines(), lines, context.known)
    for place, line in enumerate(lines):
        bare = line.strip()
        if head := moved.get(place):
            return f"the user's word would stand below “{head[:60]}”"
        if not bare or bare in known:
            continue
        if "<!--" in bare:
            return f"a new index line would hide others: “{bare[:60]}”"
        if bare.startswith("#") and _is_topic(bare, lines[place + 1 :], context.known):
            continue
        pointer = next(iter(pointers_of(bare.encode("utf-8", "replace"))), None)
        about = _pointed_at(pointer.file, context.known) if pointer else []
        if pointer is None or not about or f"]({pointer.file})" not in bare.replace("](./", "]("):
            return f"a new index line points to no memory: “{bare[:60]}”"
        label = labels.get(pointer.file, "") or _source_of(pointer.file, context)
        if label and _label(pointer.hook) != label:
            return f"the line for {pointer.file} would lose {label}"
        hook = pointer.hook.removesuffix(label)
        stood = [text for one in old if one.file == pointer.file for text in (one.title, one.hook)]
        if not any(sums_up(pointer.title, hook, one, stood) for one in about):
            return f"the line for {pointer.file} says what its memory does not: “{hook[:60]}”"
    return ""


def _put_below(before: Sequence[str], after: Sequence[str], known: Familiar) -> dict[int, str]:
    """The places of lines on the user's word that did not stand below this heading or line, and what it
    says beside naming a topic."""
    stood = {*zip(map(str.strip, before), wording.read_under(before, titled=False), strict=True)}
    found: dict[int, str] = {}
    for place, under in enumerate(wording.read_under(after, titled=False)):
        line = after[place].strip()
        links = links_of(line.encode("utf-8", "replace")) if (line, under) not in stood else ()
        about = [one for link in links for one in _pointed_at(link.file, known)]
        if any(one.type in ("user", "feedback") for one in about):
            names = {wording.spaced(one.name) for one in about}
            heads = (one.strip("# *:：") for one in under)
            said = [one for one in heads if one not in names and not only_topics(one)]
            found |= {place: said[0]} if said else {}
    return found


def _source_of(file: str, context: GateContext) -> str:
    """What the line ends with by the history: a label that was taken off with its line comes back."""
    bare = file.removeprefix("team/")
    origin = context.origin_of(bare) or context.origin_of(f"team/{bare}")
    return "" if origin in ("", "typed") else f"(source: {origin})"


def _is_topic(heading: str, below: Sequence[str], known: Familiar) -> bool:
    """A heading groups memories, by words of a type, a topic or of memories; never an order. Over facts
    a word or two may be any; over the user's word "Obsolete" would take it back, and any word of it say
    the opposite, so there it names types and topics alone."""
    if len(heading) > _LONGEST_HEADING or find_order(heading):
        return False
    over = takewhile(lambda line: not 0 < _level(line) <= _level(heading), below)
    links = [link.file for line in over for link in links_of(line.encode("utf-8", "replace"))]
    pointed = [one for file in links for one in _pointed_at(file, known)]
    if any(one.type in ("user", "feedback") for one in pointed):
        named = wording.spaced(heading.lstrip("# ")) in {
            wording.spaced(one.name) for one in pointed
        }
        return named or only_topics(heading.strip("# "))
    short = len(wording.words(heading)) <= _SHORT_HEADING and not wording.hard_tokens(heading)
    if short and not any(one.type in ("user", "feedback") for one in known):
        return True
    heading = TOPIC.sub(" ", heading)
    said = " ".join(
        [*HEADINGS, *(f"{one.name} {one.description}" for one in known if not one.quoted)]
    )
    return grounded(heading, said)


def _level(line: str) -> int:
    return len(line) - len(line.lstrip("#"))


def _pointed_at(file: str, known: Familiar) -> list[Memory]:
    """The memory that it names; two, where the team has one of that name as well."""
    bare = file.removeprefix("team/")
    return [*filter(None, map(known.get, (bare, f"team/{bare}")))]


def _label(hook: str) -> str:
    found = re.search(r"\(source: [^()]*\)$", hook.strip())
    return found[0] if found else ""
