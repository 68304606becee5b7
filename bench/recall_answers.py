"""From end to end, once: a real local model answers 80 questions over BEAM's chats from the five
turns that Lamina finds, from those that bm25s finds, and from none.

    python -m bench.recall_answers MODEL.gguf     goes on where it stopped; `--table` only counts

An answer is right when it says what bench/data/beam_answers.tsv asks for: values that were read from
the evidence turns before any answer was made (for "how many days between" the number, or both days).
Turns of either engine are shown in the order of the talk, each cut to the same length around the
question's words. Needs xllamacpp and bm25s; answers are kept in bench/out, one a line.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import json
import re
import sys
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.recall import DAY, HERE, session_index
from bench.recall_data import DATA, Item, beam
from bench.recall_peers import bm25s_plain

from lamina.text.terms import terms

ANSWERS = HERE / "out" / "recall_answers.jsonl"
WHOSE = ("lamina", "bm25s", "none")
SHOWN = 260  # characters of a turn: the model reads 27 tokens a second
ASK = (
    "Notes from earlier talks with the user are given, oldest first; they may be beside the point, "
    "and of two values the later one holds. Answer the user's question from them in one short "
    'sentence. If they do not say, answer "I don\'t know".'
)
NO_NOTES = "Answer the user's question in one short sentence, or with \"I don't know\"."


def keys() -> dict[tuple[str, int], str]:
    rows = (HERE / "data" / "beam_answers.tsv").read_text().splitlines()
    cells = [row.split("\t") for row in rows if row and not row.startswith("#")]
    return {(chat, int(place)): rule for chat, place, rule in cells}


def kind_of(id_: str) -> str:
    chat, place = id_.split("#")
    return json.loads((DATA / "beam-100k" / f"{chat}.json").read_text())["questions"][int(place)][
        "kind"
    ]


def is_right(answer: str, rule: str) -> bool:
    return any(
        all(re.search(part.strip(), answer, re.IGNORECASE) for part in one.split("&&"))
        for one in rule.split("||")
    )


def cut(text: str, question: str) -> str:
    """The sentences from the one on that shares most words with the question."""
    sentences = re.split(r"(?<=[.?!])\s+|\n+", text)
    asked = set(terms(question))
    best = max(range(len(sentences)), key=lambda at: len(asked & set(terms(sentences[at]))))
    return " ".join(sentences[best:])[:SHOWN]


def prompts() -> list[tuple[str, str, str]]:
    """(question's id, whose turns, prompt), one question's after the other's."""
    made: list[tuple[str, str, str]] = []
    for corpus in beam():
        path = DATA / "beam-100k" / f"{corpus.name}.json"
        chat = json.loads(path.read_text())
        index = session_index(corpus.items)
        now = max(item.said for item in corpus.items) + DAY
        plain = bm25s_plain([[item.id, item.whole] for item in corpus.items], Path())
        order = {item.id: place for place, item in enumerate(corpus.items)}
        for place, entry in enumerate(chat["questions"]):
            if (str(chat["chat"]), place) not in keys():
                continue
            question = entry["question"]
            found = {
                "lamina": [hit.id for hit in index.search(question, 5, now=now)],
                "bm25s": plain(question, 5),
                "none": [],
            }
            for whose, ids in found.items():
                turns: list[Item] = [corpus.items[at] for at in sorted(order[id_] for id_ in ids)]
                notes = [f"[{t.date}, {t.speaker}] {cut(t.text, question)}" for t in turns]
                told = "\n".join([ASK if notes else NO_NOTES, "", *notes, "", f"User: {question}"])
                made.append((f"{chat['chat']}#{place}", whose, told))
    # Chats in turn, so that a run that is cut short has asked all of them.
    return sorted(made, key=lambda one: (hash_of(one[0]), one[1] == "none"))


def hash_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def kept() -> dict[tuple[str, str], dict[str, Any]]:
    rows = ANSWERS.read_text().splitlines() if ANSWERS.exists() else []
    return {(row["id"], row["from"]): row for row in map(json.loads, rows)}


def server(path: str) -> Any:
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.verbosity = 0
    return xllamacpp.Server(params)


def run(path: str) -> None:
    known, model = kept(), None
    by_prompt = {row["prompt"]: row["answer"] for row in known.values()}
    ANSWERS.parent.mkdir(parents=True, exist_ok=True)
    for id_, whose, told in prompts():
        if (id_, whose) in known:
            continue
        if told not in by_prompt:  # both engines often find the same five
            model = model or server(path)
            asked = {
                "messages": [{"role": "user", "content": told}],
                "max_tokens": 40,
                "temperature": 0,
                "cache_prompt": True,
            }
            done = model.handle_chat_completions(asked)
            value = json.loads(done) if isinstance(done, str | bytes) else done
            by_prompt[told] = value["choices"][0]["message"]["content"]
        row = {"id": id_, "from": whose, "prompt": told, "answer": by_prompt[told]}
        with ANSWERS.open("a") as file:
            file.write(json.dumps(row) + "\n")


def table() -> None:
    """Right answers by kind, and how often the notes that were shown say what is asked for."""
    found, rules = kept(), {f"{chat}#{place}": rule for (chat, place), rule in keys().items()}
    whole = [id_ for id_ in rules if all((id_, whose) in found for whose in WHOSE)]
    days = {id_ for id_ in whole if "temporal" in kind_of(id_)}
    print(f"{len(whole)} of {len(rules)} answered from all three, {len(days)} of them count days")
    for whose in WHOSE:
        answers = {id_: found[id_, whose]["answer"] for id_ in whole}
        right = {id_ for id_, answer in answers.items() if is_right(answer, rules[id_])}
        unknown = sum("don't know" in answer for answer in answers.values())
        shown = {id_ for id_, by, told in prompts() if by == whose and is_right(told, rules[id_])}
        print(
            f"  {whose}: {len(right)} right ({len(right - days)} facts, {len(right & days)} days), "
            f"{unknown} don't know; the notes say it in {len(shown & set(whole))}, of all {len(shown)}"
        )


if __name__ == "__main__":
    if "--table" not in sys.argv:
        run(sys.argv[1])
    table()
