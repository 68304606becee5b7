"""What a memory that the agent writes rests on: the user's own sentences that carry it, found in the
record. The gate checks them again; this only looks them up. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lamina.ledger.quotes import blocks_of_entry
from lamina.memories import Evidence, Memory
from lamina.memory import wording
from lamina.memory.evidence import is_plain_confirmation
from lamina.memory.forget_wishes import asks_to_forget
from lamina.memory.origins import typed_parts, untyped_parts
from lamina.memory.removal import left_out, takes_back
from lamina.messages import Json

_MOST_QUOTES = 4
_LOOKED_AT = 400  # entries, newest first
_RUN = 5  # words in a row that show where a text came from
_SNIPPET = 8


def evidence_for(
    claim: str, entries: Sequence[Json], session: str, *, users_word: bool
) -> list[Evidence]:
    """Quotes for what a memory claims. `users_word`: its type promises that, so only the user's
    sentences count; else what it repeats from tools, pastes and memories is named as well."""
    recent = [entry for entry in entries[-_LOOKED_AT:] if entry.get("kind") == "message"]
    found = _typed(claim, recent, session)
    if not users_word:
        found += _echoed(claim, recent, session)
    return found


def taken_back(
    before: Memory | None, after: Memory | None, entries: Sequence[Json], session: str
) -> list[Evidence]:
    """The user's sentences that end what a change drops of a memory, the newest for each."""
    lost = left_out(before, after) if before is not None else []
    recent = [entry for entry in entries[-_LOOKED_AT:] if entry.get("kind") == "message"]
    typed = list(_sentences(recent)) if lost else []
    path = before.path if before is not None else ""
    found = [
        next((spoken for spoken in typed if takes_back(spoken[1], one.text, path)), None)
        for one in lost
    ]
    return [Evidence(words, session, entry) for entry, words in dict.fromkeys(filter(None, found))]


def asked_to_forget(memory: Memory, entries: Sequence[Json], session: str) -> list[Evidence]:
    """The user's sentence for which a memory is forgotten: in their last message one that asks to
    forget, or a plain yes; before, one that asks for this."""
    recent = [entry for entry in entries[-_LOOKED_AT:] if entry.get("kind") == "message"]
    sentences = list(_sentences(recent))
    if not sentences:
        return []
    last = sentences[0][0]
    said = wording.content_stems(f"{memory.name} {memory.description}\n{memory.body}")
    for entry, words in sentences:
        about = bool(wording.content_stems(words) & said)
        yes = entry == last and is_plain_confirmation([words])
        if yes or ((about or entry == last) and asks_to_forget(words, about_it=about)):
            return [Evidence(words, session, entry)]
    return []


def last_typed(entries: Sequence[Json]) -> str:
    """What the user typed last, "" if nothing."""
    for entry in reversed(entries[-_LOOKED_AT:]):
        if entry.get("kind") == "message":
            words = "\n".join(typed_parts(blocks_of_entry(entry))).strip()
            if words:
                return words
    return ""


def _typed(claim: str, entries: Sequence[Json], session: str) -> list[Evidence]:
    """The fewest sentences that hold most of the claim's words, the newest first among equals."""
    wanted = set(wording.content_stems(claim))
    sentences = list(_sentences(entries))
    chosen: list[Evidence] = []
    if sentences and is_plain_confirmation([sentences[0][1]]):
        chosen.append(Evidence(sentences[0][1], session, sentences[0][0]))
    while wanted and len(chosen) < _MOST_QUOTES:
        gains = [len(wanted & wording.content_stems(words)) for _, words in sentences]
        if not gains or not max(gains):
            break
        entry, words = sentences[gains.index(max(gains))]
        chosen.append(Evidence(words, session, entry))
        wanted -= wording.content_stems(words)
    return chosen


def _sentences(entries: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """(entry, sentence) of everything that was typed, newest message first."""
    for entry in reversed(entries):
        for part in typed_parts(blocks_of_entry(entry)):
            for sentence in wording.sentences(part):
                yield str(entry.get("uuid")), sentence


def _echoed(claim: str, entries: Sequence[Json], session: str) -> list[Evidence]:
    """Texts that nobody here said, which the claim repeats: it is labelled by the worst of them.
    What the user typed as well is their own word, however like a memory it sounds."""
    runs = {run for line in claim.splitlines() for run in _runs(line)}
    for _, sentence in _sentences(entries) if runs else ():
        runs -= _runs(sentence)
    found: list[Evidence] = []
    for entry in reversed(entries) if runs else ():
        for text in untyped_parts(blocks_of_entry(entry)):
            if not runs.isdisjoint(_runs(text)):
                quote = " ".join(wording.fold(text).split()[:_SNIPPET])
                found.append(Evidence(quote, session, str(entry.get("uuid"))))
        if len(found) >= _MOST_QUOTES:
            break
    return found


def _runs(text: str) -> set[tuple[str, ...]]:
    words = wording.words(text)
    return {tuple(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)}
