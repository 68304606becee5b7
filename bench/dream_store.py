"""Makes a memory store for the dream benchmark: facts of our own invention, with planted duplicates,
contradictions and dangling pointers. The same seed gives the same store. Only values; no files."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from lamina.memories import Memory, MemoryType
from lamina.memory.index import pointer_line

SEED = 20_260_301
_WORDS = {
    "thing": "parcel scanner invoice ferry greenhouse turbine ledger kiosk glacier orchard lantern sawmill tannery beacon",
    "part": "importer gateway scheduler archive mirror printer registry queue console exporter sampler router vault",
    "person": "Marta Ivo Chen Aisha Tomas Greta Noor Pavel Lucia Henrik Yuki Samir Olga Bram Edda",
    "verb": "reviews maintains pays documents restarts audits translates packages monitors funds",
    "place": "Lisbon Oslo Riga Porto Turin Ghent Split Bergen Cork Malmo Graz Bilbao",
}
_THINGS, _PARTS, _PEOPLE, _VERBS, _PLACES = (words.split() for words in _WORDS.values())
_WHEN = (
    "before lunch", "after the night shift", "during stocktaking", "at the end of a quarter",
    "in the slow season", "on request", "once a month", "while the harbour is closed",
)  # fmt: skip


@dataclass
class Store:
    """The store, and what must come of it."""

    memories: list[Memory] = field(default_factory=list)
    index: str = ""
    duplicates: list[tuple[str, str]] = field(default_factory=list)  # original, its copy
    contradictions: list[tuple[str, str, str]] = field(default_factory=list)  # old, new, form
    facts: dict[str, str] = field(default_factory=dict)  # a code word that must survive -> its path
    dangling: list[str] = field(default_factory=list)


def make(duplicates: int = 100, contradictions: int = 50, dangling: int = 30, size: int = 500) -> Store:  # fmt: skip
    rng = random.Random(SEED)
    store = Store()
    plain = size - duplicates - 2 * contradictions
    for number in range(plain):
        _add(store, _plain(rng, number))
    for number in range(contradictions):
        _contradict(store, rng, number)
    for original in rng.sample(store.memories[:plain], duplicates):
        _duplicate(store, rng, original)
    _write_index(store, rng, dangling)
    return store


def _add(store: Store, memory: Memory) -> None:
    store.memories.append(memory)
    for word in memory.body.split():
        bare = word.strip(".,:;")
        if bare.startswith("QX"):
            store.facts[bare] = memory.path


def _code(number: int, part: int) -> str:
    return f"QX{number:03}{chr(97 + part)}"


def _plain(rng: random.Random, number: int) -> Memory:
    """One to three sentences; each carries a code word that occurs nowhere else."""
    thing, part = rng.choice(_THINGS), rng.choice(_PARTS)
    kind: MemoryType = rng.choice(("feedback", "project", "reference", "user"))
    sentences: list[str] = []
    for piece in range(rng.randint(1, 3)):
        code = _code(number, piece)
        who, verb, place, when = (rng.choice(words) for words in (_PEOPLE, _VERBS, _PLACES, _WHEN))
        sentences.append(
            rng.choice(
                (
                    f"{who} {verb} the {thing} {part} {code} in {place} {when}.",
                    f"For the {thing} {part} {code}, {who} in {place} {verb} everything {when}.",
                    f"{when.capitalize()} {who} {verb} {code}, the {thing} {part} of {place}.",
                )
            )
        )
    body = "\n\n".join(sentences) + "\n"
    path = f"{kind}_{thing}_{part}_{number:03}.md"
    return Memory(path, f"{thing} {part} {number:03}", sentences[0][:140], kind, body, {}, 1.7e9 + number)  # fmt: skip


def _duplicate(store: Store, rng: random.Random, original: Memory) -> None:
    """The same in other order, case and small words; every fifth copy knows one thing more."""
    sentences = [line for line in original.body.split("\n") if line]
    rng.shuffle(sentences)
    changed = [_reworded(rng, sentence) for sentence in sentences]
    path = original.path.replace(".md", f"-{rng.choice(('copy', 'again', 'notes'))}.md")
    if len(store.duplicates) % 5 == 0 and len(changed) > 1:
        changed.append(f"QXDUP{len(store.duplicates):03} was added later.")
    copy = replace(original, path=path, name=original.name.title(), description=changed[0][:140], body="\n\n".join(changed) + "\n", mtime=original.mtime + 5000)  # fmt: skip
    _add(store, copy)
    store.duplicates.append((original.path, path))


def _reworded(rng: random.Random, sentence: str) -> str:
    words = sentence.rstrip(".").split()
    if rng.random() < 0.6:
        at = rng.randint(1, len(words) - 1)
        words.insert(at, rng.choice(("also", "just", "the", "very")))
    if rng.random() < 0.5:
        words = [*words[len(words) // 2 :], *words[: len(words) // 2]]
    if rng.random() < 0.3:
        words.append("regularly")
    text = " ".join(words)
    return text[:1].upper() + text[1:] + rng.choice((".", "", "!"))


def _contradict(store: Store, rng: random.Random, number: int) -> None:
    """An old and a new memory of one subject; the old value may go, what else it says may not."""
    subject = f"{rng.choice(_THINGS)} {rng.choice(_PARTS)} {chr(65 + number % 26)}{chr(97 + number // 26)}"
    forms = {
        "number": (f"The {subject} port is {4000 + number}.", f"The {subject} port is {5000 + number}."),
        "day": (f"The {subject} release day is Tuesday.", f"The {subject} release day is Thursday."),
        "place": (f"The {subject} wiki is at https://old.example/{number}.", f"The {subject} wiki is at https://new.example/{number}."),
        "name": (f"The {subject} owner is {_PEOPLE[number % 7]}.", f"The {subject} owner is {_PEOPLE[7 + number % 7]}."),
        "over": (f"We deploy the {subject} on Fridays.", f"We no longer deploy the {subject} on Fridays."),
        "rule": (f"Always mock the {subject} in tests.", f"Never mock the {subject} in tests."),
        "loose": (f"The {subject} uses Postgres.", f"The {subject} uses Redis."),
    }  # fmt: skip
    form = list(forms)[number % len(forms)]
    old, new = forms[form]
    kept = f"\n\nIts cellar holds QXOLD{number:03}." if number % 3 == 0 else ""
    kind: MemoryType = "feedback" if form == "rule" else "project"
    for text, age, at in ((old + kept, "old", 1.6e9), (new, "new", 1.75e9)):
        path = f"{kind}_{subject.lower().replace(' ', '_')}_{age}.md"
        _add(store, Memory(path, f"{subject} {age}", text[:140], kind, text + "\n", {}, at + number))  # fmt: skip
    first, second = store.memories[-2:]
    store.contradictions.append((first.path, second.path, form))


def _write_index(store: Store, rng: random.Random, dangling: int) -> None:
    """Pointers to a part of the memories, some with hooks far too long, and to files that are not there."""
    lines: list[str] = []
    for memory in rng.sample(store.memories, 150):
        hook = memory.description if rng.random() < 0.8 else " ".join([memory.description] * 3)
        lines.append(pointer_line(memory.path, memory.name, hook))
    for number in range(dangling):
        path = f"project_lost_{number:02}.md"
        store.dangling.append(path)
        lines.append(pointer_line(path, f"Lost {number}", "moved away"))
    rng.shuffle(lines)
    store.index = "\n".join(lines) + "\n"
