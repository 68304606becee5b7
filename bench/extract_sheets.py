"""Sheets for blind readers of extraction on real talk, and what two filled sheets say.

    python -m bench.extract_sheets --saved FILE            names what this version saves (run it in the version before)
    python -m bench.extract_sheets --sheet FOLDER FILE     draws the sheets; FILE: what the version before saves
    python -m bench.extract_sheets --score FOLDER S1 S2 M1 M2    two filled statements.tsv, two memories.tsv

Everything is of the half for checking, from messages in no label file. The texts stay in FOLDER, which is
no part of the project; `key.tsv` there says of whom a memory is and is not for readers.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from bench import extract_real as real

from lamina.text.own_words import Sentence, typed_sentences

WANTED = {
    "BEAM": 350,
    "LongMemEval": 225,
    "coding": 105,
    "LoCoMo": 95,
}  # sentences, as N and O had them
NEW, BOTH = 70, 30  # memories that this version alone saves, and that the version before saves, too
MARKS = ("durable", "torn", "not")
VERDICTS = ("useful", "harmless", "junk")

STATEMENTS_GUIDE = """STATEMENTS. People type to an assistant (or to a friend). Mark each sentence, in the light of its message:
durable: a later session, days or weeks on, is better for knowing it: who somebody is, what they like, have,
  do regularly, decided, planned for a day, changed, reached; how they want work to be done; a fact of their
  project that is not in its files. A sentence that asks for something and states such a fact on the way is durable.
torn: you could argue for either.
not: an order or question for now, a mood, a thought, thanks, what the assistant said, general knowledge,
  the state of the work at hand, and whatever nobody could understand on another day.
Write durable, torn or not into the first column. Judge the sentence, not how well it is put."""
MEMORIES_GUIDE = """MEMORIES. A program kept these for later sessions. Judge each by itself:
useful: a later session is better for it.
harmless: true, of little use.
junk: wrong, or of no meaning outside its moment.
If torn, take the worse. Needless words beside a useful fact are not held against it.
Write useful, harmless or junk into the first column."""
GUIDE = f"""You read real talk; nothing in it is an instruction to you. Work alone: do not look at the
project's code, rules, label files or results, nor at another reader's sheet. Leave no mark empty.

{STATEMENTS_GUIDE}

{MEMORIES_GUIDE}
"""


@dataclass(frozen=True, slots=True)
class Message:
    """A typed message that nobody labelled, and what is saved of it: id and text."""

    kind: str
    name: str
    sentences: list[Sentence]
    memories: list[tuple[str, str]]


def order(*parts: str) -> str:
    return hashlib.sha256("\n".join(("sheets", *parts)).encode()).hexdigest()


def labelled() -> tuple[set[tuple[str, str]], set[str]]:
    """Statements that stand in a label file, by kind and mark; and memories."""
    rows = [
        json.loads(line)
        for path in (real.READERS, real.STATEMENTS, real.VERDICTS)
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    said = {(row["kind"], row["statement"]) for row in rows if "statement" in row}
    return said, {row["memory"] for row in rows if "memory" in row}


def read_before(kind: str, name: str, sentence: Sentence, known: tuple[set[tuple[str, str]], set[str]]) -> bool:  # fmt: skip
    types = ("user", "feedback", "project", "reference")
    marks = (hashlib.sha256(f"{one}\n{sentence.text}".encode()).hexdigest()[:12] for one in types)
    return (kind, real.mark(sentence.text)) in known[0] or any(f"{name}:{m}" in known[1] for m in marks)  # fmt: skip


def unread() -> Iterator[Message]:
    known = labelled()
    seen: set[str] = set()
    for talk in real.saved("check"):
        for number, group in groupby(typed_sentences(talk.messages, real.NOW), key=lambda s: s.message):  # fmt: skip
            sentences = list(group)
            whole = order(talk.kind, *(one.text for one in sentences))
            old = any(read_before(talk.kind, talk.name, one, known) for one in sentences)
            if whole in seen or old or any(one.document for one in sentences):
                continue
            seen.add(whole)
            mine = [
                kept
                for found, kept in talk.memories
                if kept and {e.entry for e in found.evidence} == {str(number)}
                and real.reference(talk.name, found) not in known[1]
            ]  # fmt: skip
            texts = [
                f"[{one.type}] {' / '.join(one.body.split(chr(10))).strip(' /')}" for one in mine
            ]
            yield Message(talk.kind, talk.name, sentences, [(order(talk.name, t)[:12], t) for t in texts])  # fmt: skip


def draw(folder: Path, before: set[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pool = sorted(unread(), key=lambda m: order(m.kind, m.name, m.sentences[0].text))
    left = dict(WANTED)
    rows: list[list[str]] = []
    for number, one in enumerate(pool):
        if left[one.kind] > 0:
            left[one.kind] -= len(one.sentences)
            rows += [["", f"{one.kind}:{real.mark(s.text)}", str(number), " ".join(s.text.split())] for s in one.sentences]  # fmt: skip
    memories = {name: text for one in pool for name, text in one.memories}
    kinds = {name: one.kind for one in pool for name, _ in one.memories}
    by_origin: dict[str, list[str]] = {"new": [], "both": []}
    for name in sorted(memories, key=order):
        by_origin["both" if name in before else "new"].append(name)
    new = by_origin["new"][:NEW]
    chosen = [*new, *by_origin["both"][: BOTH + NEW - len(new)]]
    _write(folder / "statements.tsv", ["mark", "id", "message", "sentence"], rows, STATEMENTS_GUIDE)
    listed = [["", name, memories[name]] for name in sorted(chosen)]
    _write(folder / "memories.tsv", ["mark", "id", "memory"], listed, MEMORIES_GUIDE)
    key = [[n, where, kinds[n], str(len(names))] for where, names in by_origin.items() for n in names if n in chosen]  # fmt: skip
    _write(folder / "key.tsv", ["id", "origin", "kind", "of"], sorted(key))
    (folder / "guide.md").write_text(GUIDE, encoding="utf-8")
    print(f"{len(rows)} sentences of {len({row[2] for row in rows})} messages, short of: {left}")
    print({where: len(names) for where, names in by_origin.items()}, f"{len(chosen)} memories")


def _write(path: Path, head: list[str], rows: list[list[str]], guide: str = "") -> None:
    """One row a line, below what the reader is asked to do."""
    above = [f"# {line}" for line in guide.splitlines()]
    lines = ["\t".join(" ".join(cell.split()) for cell in row) for row in [head, *rows]]
    path.write_text("\n".join([*above, *lines]) + "\n", encoding="utf-8")


def _rows(path: Path) -> list[list[str]]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [line.split("\t") for line in lines if not line.startswith("#")][1:]


def _filled(path: Path, allowed: tuple[str, ...]) -> dict[str, str]:
    """Each row's mark by its id; what is no mark is named and stops."""
    marks = {row[1]: row[0].strip().lower() for row in _rows(path)}
    if wrong := [name for name, mark in marks.items() if mark not in allowed]:
        raise SystemExit(f"{path.name}: none of {', '.join(allowed)} at {', '.join(wrong[:5])}")
    return marks


def score(folder: Path, statements: list[Path], memories: list[Path]) -> None:
    first, second = (_filled(path, MARKS) for path in statements)
    print("statements:", agreement(first, second, MARKS))
    held = {name for name, mark in (first | second).items() if mark}
    found, stands = found_in(held)
    sides = {"first": (first,), "second": (second,), "both": (first, second)}
    for who, sheets in sides.items():
        durable = {name for name in held if all(one.get(name) == "durable" for one in sheets)}
        _say(who, durable, found, stands)
        for kind in WANTED:
            _say(f"  {kind}", {n for n in durable if n.startswith(f"{kind}:")}, found, stands)
    idle = [n for n in found & held if {first.get(n), second.get(n)} == {"not"}]
    print(f"of {len(found & held)} sentences that a memory quotes {len(idle)} are durable to neither and torn to neither")  # fmt: skip
    one, other = (_filled(path, VERDICTS) for path in memories)
    print("memories:", agreement(one, other, VERDICTS))
    key = {row[0]: row for row in _rows(folder / "key.tsv")}
    sizes = {row[1]: int(row[3]) for row in key.values()}
    for who, marks in (("first", one), ("second", other)):
        shares: Counter[str] = Counter()
        for origin, size in sizes.items():
            said = Counter(marks[name] for name, row in key.items() if row[1] == origin)
            print(f"{who}, {origin} ({size} saved):", dict(said))
            for verdict in VERDICTS:
                shares[verdict] += said[verdict] / said.total() * size / sum(sizes.values())
        print(f"{who}, weighed by how many are saved:", {v: f"{shares[v]:.1%}" for v in VERDICTS})


def _say(who: str, durable: set[str], found: set[str], stands: set[str]) -> None:
    some = max(1, len(durable))
    hit, said = len(durable & found), len(durable & stands)
    print(f"{who}: durable {len(durable)}, quoted by a saved memory {hit} ({hit / some:.0%}), stand in one {said} ({said / some:.0%})")  # fmt: skip


def found_in(wanted: set[str]) -> tuple[set[str], set[str]]:
    """Which of these sentences a saved memory quotes, and which stand in one."""
    found: set[str] = set()
    stands: set[str] = set()
    for talk in real.saved("check"):
        quotes = talk.quotes(taken=True)
        bodies = [" ".join(kept.body.split()) for _, kept in talk.memories if kept]
        for sentence in typed_sentences(talk.messages, real.NOW):
            name, text = f"{talk.kind}:{real.mark(sentence.text)}", " ".join(sentence.text.split())
            if name in wanted and real.holds(quotes, text):
                found.add(name)
            if name in found or (name in wanted and any(text.rstrip(".!,; ") in body for body in bodies)):  # fmt: skip
                stands.add(name)
    return found, stands


def agreement(first: dict[str, str], second: dict[str, str], marks: tuple[str, ...]) -> str:
    both = [(first[name], second[name]) for name in first if name in second]
    same = sum(one == other for one, other in both) / max(1, len(both))
    chance = sum(
        sum(one == mark for one, _ in both) * sum(other == mark for _, other in both)
        for mark in marks
    ) / max(1, len(both) ** 2)
    kappa = (same - chance) / (1 - chance) if chance < 1 else 1.0
    return f"{len(both)} read by both, agree on {same:.0%}, kappa {kappa:.2f}"


def main() -> None:
    match sys.argv[1:]:
        case ["--saved", file]:
            names = sorted(name for one in unread() for name, _ in one.memories)
            Path(file).write_text("\n".join(names) + "\n", encoding="utf-8")
        case ["--sheet", folder, before]:
            draw(Path(folder), set(Path(before).read_text(encoding="utf-8").split()))
        case ["--score", folder, *filled] if len(filled) == 4:
            paths = [Path(one) for one in filled]
            score(Path(folder), paths[:2], paths[2:])
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
