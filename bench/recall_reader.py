"""Questions that nothing answers, after a model has read what was found: how many are refused, and what that
costs in recall, for past turns and for memories. Nothing is fitted, so every set is a left-out one.

    python -m bench.recall_reader --sheet FOLDER    what a reader would be asked, in parts, shuffled by hash
    python -m bench.recall_reader --keep FILE…      takes answers (key, tab, JSON) into data/recall_reader.tsv
    python -m bench.recall_reader                   the figures, with the answers that are kept
    python -m bench.recall_reader --local MODEL.gguf   40 of the turns' cases by a real local model

The sheets are made by the product's own code, and the answers are read by it. What nobody answered
counts as found without a model. Turns stand for memories as a file each, its line in the manifest the
turn itself, cut as any description; the manifest is the 25 that the ranker puts first.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
from bench.figures import Figure, at_least, at_most, report
from bench.recall import DAY, HERE, memory_index, session_index
from bench.recall_data import DATA, Corpus, Item
from bench.recall_left_out import corpora

from lamina.errors import LaminaError
from lamina.messages import Request, Response, Usage, text
from lamina.recall import LIKELY
from lamina.recall.prefetch import Candidate, RecallRequest, Selector, at_once, by_rank
from lamina.recall.reading import READ, TurnReader
from lamina.recall.transcripts import FoundMessage

ANSWERS = HERE / "data" / "recall_reader.tsv"
NAMES = ("LoCoMo", "LongMemEval", "BEAM")
# Of each set, unanswerable and answerable questions in the order of their hashes.
TAKEN = {"turns": {"LoCoMo": (60, 80), "LongMemEval": (30, 80), "BEAM": (40, 80)},
         "memories": {"LoCoMo": (80, 80), "LongMemEval": (30, 120), "BEAM": (40, 80)}}  # fmt: skip
PART = {"turns": 62, "memories": 38}
MANIFEST, MOST = 25, 5
LOCAL = 40
_TURNS_SHOWN = 4_000  # characters that the product keeps of a turn


@dataclass(frozen=True)
class Asked:
    """One question with what the product would ask of it, and what it would do with an answer."""

    of: str
    where: str  # turns or memories
    expected: frozenset[str]  # none: unanswerable
    alone: tuple[str, ...]  # what is shown without a model
    at_once: bool  # and whether some of it is shown before a model could answer
    request: Request | None  # None: nothing was found
    chosen: Callable[[str], Sequence[str] | None]  # from the answer; None: it is of no use

    @property
    def told(self) -> str:
        assert self.request is not None
        return self.request.messages[0]["content"][0]["text"]

    @property
    def system(self) -> str:
        assert self.request is not None
        return self.request.system[0]["text"]

    @property
    def key(self) -> str:
        return digest(f"{self.system}\n{self.told}")[:16] if self.request else ""


def digest(words: str) -> str:
    return sha256(words.encode()).hexdigest()


class _Heard(LaminaError):
    """The request is known; nobody answers it."""


def _heard(
    ask: Callable[[Callable[[Request], Awaitable[Response]]], Awaitable[Any]],
) -> Request:
    """The request that the product makes."""
    heard: list[Request] = []

    async def listen(request: Request) -> Response:
        heard.append(request)
        raise _Heard

    anyio.run(ask, listen)
    return heard[0]


def _answered(
    ask: Callable[[Callable[[Request], Awaitable[Response]]], Awaitable[Any]], answer: str
) -> Any:
    async def say(_: Request) -> Response:
        return Response([text(answer)], "end_turn", Usage())

    return anyio.run(ask, say)


def of_turns(name: str, items: dict[str, Item], index: Any, q: tuple[str, frozenset[str], float]) -> Asked:  # fmt: skip
    words, expected, now = q
    hits = [hit for hit in index.search(words, READ, now=now) if hit.confidence >= LIKELY]
    found = [
        FoundMessage(one.session, one.id, one.speaker, one.text[:_TURNS_SHOWN], one.said, hit.score, hit.confidence)
        for hit in hits
        for one in (items[hit.id],)
    ]  # fmt: skip
    ids = tuple(one.entry for one in found)

    async def ask(how: Any) -> Any:
        return await TurnReader(how, "anthropic:small").read(words, found, now)

    def chosen(answer: str) -> Sequence[str] | None:
        answers = _answered(ask, answer).answers
        return None if answers is None else [ids[place] for place, yes in answers.items() if yes]

    return Asked(name, "turns", expected, ids, False, _heard(ask) if ids else None, chosen)


def of_memories(name: str, items: dict[str, Item], index: Any, q: tuple[str, frozenset[str], float]) -> Asked:  # fmt: skip
    words, expected, now = q
    names = {id_: f"turn_{place}.md" for place, id_ in enumerate(items)}
    ids = {file: id_ for id_, file in names.items()}
    offered = [
        Candidate(replace(hit, id=names[hit.id]), "", items[hit.id].whole, items[hit.id].said)
        for hit in index.search(words, MANIFEST, now=now)
    ]

    async def ask(how: Any) -> Any:
        asked = RecallRequest("", words, now)
        return await Selector(how, "anthropic:small").pick(asked, offered, MOST)

    def chosen(answer: str) -> Sequence[str] | None:
        picked = _answered(ask, answer)
        return None if picked.by == "ranker" else [ids[path] for path in picked.paths]

    alone = tuple(ids[path] for path in by_rank(offered, MOST, "").paths)
    early = bool(at_once(offered, (), MOST, "").paths)
    return Asked(name, "memories", expected, alone, early, _heard(ask) if offered else None, chosen)


def _questions(name: str) -> Iterator[tuple[Corpus, str, frozenset[str], float]]:
    for corpus, questions in corpora(name):
        latest = max(item.said for item in corpus.items) + DAY
        times = {one.text: one.asked for one in questions if one.asked}
        for one in questions:
            if not one.id.endswith("_abs"):
                yield corpus, one.text, one.expected, one.asked or latest
        for words in corpus.unanswerable:
            yield corpus, words, frozenset(), times.get(words, latest)


@cache
def every() -> list[Asked]:
    found: list[Asked] = []
    for name in NAMES:
        rows = sorted(_questions(name), key=lambda row: digest(f"{row[0].name} {row[1]}"))
        for where, taken in TAKEN.items():
            strange, own = taken[name]
            # Memories from the other end: the first ones were read with the prompt before.
            rows = rows[:: 1 if where == "turns" else -1]
            chosen = [row for row in rows if not row[2]][:strange] + [r for r in rows if r[2]][:own]
            by_corpus: dict[str, list[Any]] = {}
            for row in chosen:
                by_corpus.setdefault(row[0].name, []).append(row)
            for asked in by_corpus.values():
                corpus = asked[0][0]
                items = {item.id: item for item in corpus.items}
                make, build = (of_turns, session_index) if where == "turns" else (of_memories, memory_index)  # fmt: skip
                index = build(corpus.items)
                found += [make(name, items, index, row[1:]) for row in asked]
    return found


def sheets(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    known, number = answers(), 0
    for where in TAKEN:
        open_ = {one.key: one for one in every() if one.where == where and one.request}
        keys = sorted(key for key in open_ if key not in known)
        parts = -(-len(keys) // PART[where])
        for part in range(parts):
            mine = keys[part::parts]
            cases = [f"===== CASE {key} =====\n{open_[key].told}\n" for key in mine]
            whole = "\n".join([open_[mine[0]].system, "", *cases])
            number += 1
            (folder / f"sheet{number}.txt").write_text(whole, encoding="utf-8")
            print(f"sheet{number}: {len(mine)} of {where}, {len(whole):,} characters")


def answers() -> dict[str, str]:
    rows = ANSWERS.read_text(encoding="utf-8").splitlines() if ANSWERS.exists() else []
    return {key: said for key, _, said in (row.split("\t") for row in rows)}


def keep(files: Sequence[Path]) -> None:
    wanted, known = {one.key for one in every()} - {""}, answers()
    with ANSWERS.open("a", encoding="utf-8") as kept:
        for file in files:
            for line in file.read_text(encoding="utf-8").splitlines():
                key, _, answer = line.strip().partition("\t")
                if key in wanted and key not in known:
                    known[key] = " ".join(answer.split())  # as it came: the product reads it
                    kept.write(f"{key}\t{file.stem}\t{known[key]}\n")
    print(f"{len(wanted & known.keys())} of {len(wanted)} answered.")


def figures(said: dict[str, str], cases: Sequence[Asked], label: str = "reader") -> list[Figure]:
    made: list[Figure] = []
    for where in TAKEN:
        for name in NAMES:
            here = [one for one in cases if (one.where, one.of) == (where, name)]
            if here:
                made += _of_set(said, here, f"{label}.{where}.{name}")
    return made


def _of_set(said: dict[str, str], here: Sequence[Asked], id_: str) -> list[Figure]:
    shown: dict[int, Sequence[str]] = {}
    for place, one in enumerate(here):
        chosen = one.chosen(said[one.key]) if one.key in said else None
        shown[place] = one.alone if chosen is None else chosen
    strange = [place for place, one in enumerate(here) if not one.expected]
    own = [place for place, one in enumerate(here) if one.expected]

    def recall(of: Callable[[int], Sequence[str]]) -> float:
        hit = [len(here[n].expected & {*of(n)}) / len(here[n].expected) for n in own]
        return 100 * sum(hit) / max(len(hit), 1)

    before, after = recall(lambda n: here[n].alone), recall(lambda n: shown[n])
    kept = recall(lambda n: [one for one in here[n].alone if one in shown[n]])
    held = [n for n in own if here[n].expected & {*here[n].alone}]
    silent = sum(not shown[n] for n in strange) / max(len(strange), 1)
    late = sum(not shown[n] and not here[n].at_once for n in strange) / max(len(strange), 1)
    print(
        f"{id_}: read {sum(one.key in said for one in here)} of {len(here)}; unanswerable refused "
        f"{sum(not shown[n] for n in strange)} of {len(strange)}, without a model "
        f"{sum(not here[n].alone for n in strange)}; recall {before:.1f} -> {after:.1f}, dropped "
        f"{before - kept:.1f} points; answerable refused with evidence "
        f"{sum(not shown[n] for n in held)} of {len(held)}, without "
        f"{sum(not shown[n] for n in own if n not in held)} of {len(own) - len(held)}"
    )
    if here[0].where == "memories":
        print(f"    nothing shown at once either: {late:.2f} of the unanswerable")
    return [
        at_least(f"{id_}.refused", silent, f"of {len(strange)}", 0.60),
        at_most(f"{id_}.lost", before - kept, f"points of {len(own)}", 3),
        Figure(
            f"{id_}.recall", round(after / 100, 4), f"of {len(own)}, {before / 100:.3f} without"
        ),
    ]


# ---- a real local model, on a few


def local(path: str) -> dict[str, str]:
    """Its answers to the first cases by key, kept in bench/out; goes on where it stopped."""
    from bench.recall_answers import server

    file = HERE / "out" / "recall_reader_local.tsv"
    rows = file.read_text().splitlines() if file.exists() else []
    known = dict(row.split("\t") for row in rows)
    wanted = sorted((one for one in every() if one.where == "turns" and one.request), key=lambda one: one.key)  # fmt: skip
    model = None
    for one in wanted[:LOCAL]:
        if one.key in known:
            continue
        model = model or server(path)
        schema = one.request.params["output_config"]["format"]["schema"]  # type: ignore[union-attr]
        body = {
            "messages": [{"role": "system", "content": one.system}, {"role": "user", "content": one.told}],
            "max_tokens": 64, "temperature": 0, "cache_prompt": True,
            "response_format": {"type": "json_schema", "json_schema": {"name": "m", "schema": schema}},
        }  # fmt: skip
        started = time.monotonic()
        done = model.handle_chat_completions(body)
        value = json.loads(done) if isinstance(done, str | bytes) else done
        known[one.key] = " ".join(value["choices"][0]["message"]["content"].split())
        with file.open("a") as kept:
            kept.write(f"{one.key}\t{known[one.key]}\n")
        print(f"{one.key} {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return known


def main() -> int:
    if not (DATA / "beam-100k").is_dir():
        print("No data. Skipped.", file=sys.stderr)
        return 0
    os.environ["TZ"] = (
        "UTC"  # days are shown in the reader's own time; the cases must not depend on it
    )
    time.tzset()
    given = sys.argv[1:]
    if "--sheet" in given:
        sheets(Path(given[-1]))
        return 0
    if "--keep" in given:
        keep([Path(one) for one in given[given.index("--keep") + 1 :]])
        return 0
    if "--local" in given:
        said = local(given[-1])
        figures(said, [one for one in every() if one.key in said], "local")
        return 0
    return report("recall_reader", figures(answers(), every()))


if __name__ == "__main__":
    sys.exit(main())
