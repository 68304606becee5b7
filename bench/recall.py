"""Recall: does the ranker find the memory or the turn that answers, how fast, and does it keep quiet
when nothing does? Peers run on the same texts and questions in the same run, in an environment of
their own (bench/peers.md); without it their columns stay empty and the goals against them are not
claimed. Times of ours are CPU time of one thread: nothing here waits, and other work on the machine
does not count.
"""

from __future__ import annotations

import ast
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.figures import Figure, at_least, at_most, median, p95, report
from bench.recall_data import (
    DATA,
    Corpus,
    Item,
    Question,
    locomo,
    longmemeval,
    memory_directories,
    memory_questions,
    mixed,
)
from bench.recall_grep import grep_figures

from lamina.ledger.places import find_project_folder
from lamina.memory.file_store import FileStore
from lamina.recall import CONFIDENT
from lamina.recall.memory_index import INDEX_FILE, MemoryIndex
from lamina.recall.rank import Document, Ranker
from lamina.recall.turns import Turn, TurnIndex

HERE = Path(__file__).resolve().parent
PEERS = tuple(os.environ.get("LAMINA_BENCH_PEERS", "bm25s,fts5,reme,mem0,memsearch").split(","))
PATIENCE = float(os.environ.get("LAMINA_PEER_SECONDS") or 3_600)
PEER_PYTHON = Path(os.environ.get("LAMINA_PEERS") or HERE / ".peers" / "bin" / "python")
# Answers of peers, kept until their job or adapter changes: some take an hour. Delete to run anew.
KEPT = HERE / "out" / "peers"
TUNED = 5  # conversations that the confidence was fitted on
EVERY = 8  # of the questions put to the mix of 10,000, because some peers take seconds for each
DAY = 86_400.0

Search = Callable[[Question], list[str]]


@dataclass
class Scores:
    """Shares of the expected found among the first 5 and 10, and one over the first one's rank."""

    at5: list[float]
    at10: list[float]
    first: list[float]

    @classmethod
    def of(cls, questions: Iterable[Question], rankings: Iterable[Sequence[str]]) -> Scores:
        scores = cls([], [], [])
        for question, ids in zip(questions, rankings, strict=True):
            expected = question.expected
            scores.at5.append(len(expected & set(ids[:5])) / len(expected))
            scores.at10.append(len(expected & set(ids[:10])) / len(expected))
            ranks = [1 / rank for rank, id_ in enumerate(ids[:10], 1) if id_ in expected]
            scores.first.append(max(ranks, default=0.0))
        return scores

    def __add__(self, other: Scores) -> Scores:
        return Scores(self.at5 + other.at5, self.at10 + other.at10, self.first + other.first)


def mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)


def session_index(items: Iterable[Item], *, dates: bool = True) -> TurnIndex:
    index = TurnIndex()
    for item in items:
        said = item.said if dates else 0.0
        index.add(Turn(item.id, item.session, item.text, item.speaker, said))
    return index


def memory_index(items: Iterable[Item]) -> Ranker:
    index = Ranker()
    for item in items:
        index.add(Document(item.id, body=item.whole))
    return index


def asked_at(corpus: Corpus, question: Question) -> float:
    return question.asked or max(item.said for item in corpus.items) + DAY


def score(index: TurnIndex | Ranker, corpus: Corpus, questions: Sequence[Question]) -> Scores:
    now = [asked_at(corpus, question) for question in questions]
    found = [index.search(q.text, 10, now=at) for q, at in zip(questions, now, strict=True)]
    return Scores.of(questions, [[hit.id for hit in hits] for hits in found])


def adapter(script: Path, peer: str) -> str:
    """What a peer's answers depend on in the script: all of it but the other peers' functions."""
    return "\n".join(
        ast.unparse(node)
        for node in ast.parse(script.read_text()).body
        if not isinstance(node, ast.FunctionDef)
        or not (node.returns and ast.unparse(node.returns) == "Search")
        or node.name.startswith(peer)
    )


def ask_peer(
    peer: str, corpora: Sequence[tuple[Iterable[Any], Sequence[Question]]], *, anew: bool = False
) -> dict[str, Any] | None:
    """A peer's rankings and times over corpora of (texts, questions), as kept from an earlier run of
    the same unless asked anew; None where it can't run."""
    job = {
        "corpora": [
            {
                "items": [[item.id, item.whole] for item in items],
                "questions": [q.text for q in asked],
            }
            for items, asked in corpora
        ],
        "k": 10,
    }
    asked = json.dumps(job)
    script = HERE / "recall_peers.py"
    kept = KEPT / f"{peer}-{sha256((adapter(script, peer) + asked).encode()).hexdigest()[:16]}.json"
    if kept.exists() and not anew:
        return json.loads(kept.read_text())
    if not PEER_PYTHON.exists() or (
        peer in ("memsearch", "mem0") and "LAMINA_MINILM" not in os.environ
    ):
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "job.json")
        path.write_text(asked)
        try:
            done = subprocess.run(
                [str(PEER_PYTHON), str(script), peer, str(path)],
                capture_output=True,
                text=True,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
                check=False,
                timeout=PATIENCE,
            )
        except subprocess.TimeoutExpired:
            print(f"{peer} was stopped after {PATIENCE:.0f} s", file=sys.stderr)
            return None
    if done.returncode != 0 or not done.stdout.strip():
        print(f"{peer} failed: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    KEPT.mkdir(parents=True, exist_ok=True)
    kept.write_text(done.stdout.strip().splitlines()[-1])
    return json.loads(kept.read_text())


def peer_scores(
    corpora: Sequence[tuple[Iterable[Any], Sequence[Question]]], peers: Sequence[str] = PEERS
) -> dict[str, tuple[Scores, dict[str, Any]]]:
    found: dict[str, tuple[Scores, dict[str, Any]]] = {}
    for peer in peers:
        started = time.perf_counter()
        answer = ask_peer(peer, corpora)
        if answer is not None:
            total = Scores([], [], [])
            for (_, questions), rankings in zip(corpora, answer["rankings"], strict=True):
                total += Scores.of(questions, rankings)
            found[peer] = total, answer
            took = time.perf_counter() - started
            print(f"  {peer}: recall@5 {mean(total.at5):.4f} in {took:.0f} s", file=sys.stderr)
    return found


def ahead(figure: Figure) -> Figure:
    """The goal also asks to be ahead of every peer."""
    figure.holds = figure.holds and all(figure.value > value for value in figure.peers.values())
    figure.goal += ", ahead" if figure.peers else ""
    return figure


def rounded(peers: dict[str, tuple[Scores, Any]], part: str) -> dict[str, float]:
    return {name: round(mean(getattr(scores, part)), 4) for name, (scores, _) in peers.items()}


def dialogue_figures() -> list[Figure]:
    conversations = locomo()
    ours = [score(session_index(c.items), c, c.questions) for c in conversations]
    plain = [score(memory_index(c.items), c, c.questions) for c in conversations]
    total = sum(ours[1:], ours[0])
    peers = peer_scores([(c.items, c.questions) for c in conversations])
    figures = [
        ahead(at_least("locomo.recall@5", mean(total.at5), "", 0.60, **rounded(peers, "at5"))),
        Figure("locomo.recall@10", round(mean(total.at10), 4), "", peers=rounded(peers, "at10")),
        Figure("locomo.mrr", round(mean(total.first), 4), "", peers=rounded(peers, "first")),
        Figure(
            "locomo.recall@5.memory_ranker",
            round(mean(sum(plain[1:], plain[0]).at5), 4),
            "",
            peers=rounded(peers, "at5"),
        ),
    ]
    mix = mixed()
    questions = mix.questions[::EVERY]
    peers = peer_scores([(mix.items, questions)])
    figures.append(
        ahead(
            at_least(
                "mix10000.recall@5",
                mean(score(session_index(mix.items), mix, questions).at5),
                "",
                0.471,
                **rounded(peers, "at5"),
            )
        )
    )
    figures.append(
        Figure(
            "mix10000.recall@5.memory_ranker",
            round(mean(score(memory_index(mix.items), mix, questions).at5), 4),
            "",
            peers=rounded(peers, "at5"),
        )
    )
    index, slow = (
        ranker_of(10_000),
        {n: round(p95(a["query_ms"]), 3) for n, (_, a) in peers.items()},
    )
    figures.append(speed("query_p95.10000.memories", index, 2.0))
    # Beside peers only wall time is fair, and only as a rough order: theirs is from their own run.
    wall = median(lambda: query_p95(index, time.perf_counter))
    figures.append(Figure("query_p95.10000.wall", round(wall, 3), "ms", peers=slow))
    if "bm25s" in slow:
        ratio = median(lambda: times_bm25s(mix, questions), 3)
        figures.append(at_most("query_p95.10000.of_bm25s", ratio, "×", 3))
    return figures


def times_bm25s(mix: Corpus, questions: Sequence[Question]) -> float:
    """How many times the processor time of bm25s the slower of our two takes, on the same texts."""
    answer = ask_peer("bm25s", [(mix.items, questions)], anew=True)
    ours = [session_index(mix.items), memory_index(mix.items)]
    slower = max(query_p95(index, time.process_time) for index in ours)
    return slower / p95(answer["query_cpu_ms"]) if answer else 0.0


def evidence_figures() -> list[Figure]:
    corpus = longmemeval()
    dated = score(session_index(corpus.items), corpus, corpus.questions)
    bare = score(session_index(corpus.items, dates=False), corpus, corpus.questions)
    plain = score(memory_index(corpus.items), corpus, corpus.questions)
    peers = peer_scores([(corpus.items, corpus.questions)])
    return [
        ahead(at_least("longmemeval.recall@5", mean(dated.at5), "", 0.80, **rounded(peers, "at5"))),
        Figure(
            "longmemeval.recall@10", round(mean(dated.at10), 4), "", peers=rounded(peers, "at10")
        ),
        Figure("longmemeval.recall@5.no_dates", round(mean(bare.at5), 4), ""),
        Figure("longmemeval.recall@5.memory_ranker", round(mean(plain.at5), 4), ""),
    ]


def directory_index(names: Iterable[str]) -> Ranker:
    index = Ranker()
    for name in names:
        for file in memory_directories()[name]:
            id_ = f"{name}/{file.path}"
            index.add(Document(id_, file.name, file.description, file.body, file.type))
    return index


def found_in(index: Ranker, questions: Sequence[Question]) -> Scores:
    found = [[hit.id for hit in index.search(q.text, 10, now=0.0)] for q in questions]
    return Scores.of(questions, found)


@dataclass(frozen=True)
class _Named:
    id: str
    whole: str


def directory_figures() -> list[Figure]:
    names = sorted(memory_directories())
    asked = {
        name: [q for directory, q in memory_questions() if directory == name] for name in names
    }
    asked = {name: questions for name, questions in asked.items() if questions}
    everything = directory_index(names)
    apart, pooled = Scores([], [], []), Scores([], [], [])
    for name, questions in asked.items():
        apart += found_in(directory_index([name]), questions)
        pooled += found_in(everything, questions)
    files = {n: [_Named(f"{n}/{f.path}", f.whole) for f in memory_directories()[n]] for n in asked}
    peers = peer_scores([(files[n], asked[n]) for n in asked])
    return [
        at_least("memory_dirs.recall@5", mean(apart.at5), "", 0.90, **rounded(peers, "at5")),
        Figure("memory_dirs.mrr", round(mean(apart.first), 4), "", peers=rounded(peers, "first")),
        Figure("memory_dirs.recall@5.all_in_one", round(mean(pooled.at5), 4), ""),
        *abstention("memory_dirs", [_directory_case(name, asked) for name in asked]),
    ]


@dataclass
class Case:
    """Questions that belong to an index, and questions that don't."""

    search: Callable[[str, float], list[str]]  # (question, confidence) -> ids
    own: Sequence[Question]
    strange: Sequence[str]


def _directory_case(name: str, asked: dict[str, list[Question]]) -> Case:
    index = directory_index([name])
    strange = [q.text for other, questions in asked.items() if other != name for q in questions]
    return Case(
        lambda text, sure: [h.id for h in index.search(text, 5, now=0.0, at_least=sure)],
        asked[name],
        strange,
    )


def abstention(id_: str, cases: Sequence[Case], goals: bool = False) -> list[Figure]:
    """How often a strange question finds nothing, and what that costs the fitting ones."""
    quiet: list[bool] = []
    loss: list[float] = []
    for case in cases:
        quiet += [not case.search(text, CONFIDENT) for text in case.strange]
        for question in case.own:
            all_, sure = (
                len(question.expected & set(case.search(question.text, c)))
                for c in (0.0, CONFIDENT)
            )
            loss.append((all_ - sure) / len(question.expected))
    share, points = mean(quiet), 100 * mean(loss)
    if goals:
        return [
            at_least(f"{id_}.abstains", share, "", 0.80),
            at_most(f"{id_}.abstention_loss", points, "points", 3),
        ]
    return [
        Figure(f"{id_}.abstains", round(share, 4), ""),
        Figure(f"{id_}.abstention_loss", round(points, 2), "points"),
    ]


def abstention_figures() -> list[Figure]:
    """Questions about another conversation's people, with their names and without any name."""
    conversations = locomo()[TUNED:]
    figures: list[Figure] = []
    for label, build in (("turns", session_index), ("memories", memory_index)):
        for names in (True, False):
            cases: list[Case] = []
            for corpus in conversations:
                index = build(corpus.items)
                now = max(item.said for item in corpus.items) + DAY
                others = [c for c in conversations if not c.people & corpus.people]
                strange = [_nameless(q.text, c, names) for c in others for q in c.questions[::4]]
                own = [
                    Question(_nameless(q.text, corpus, names), q.expected) for q in corpus.questions
                ]
                cases.append(
                    Case(
                        lambda text, sure, index=index, now=now: [
                            hit.id for hit in index.search(text, 5, now=now, at_least=sure)
                        ],
                        own,
                        strange,
                    )
                )
            id_ = f"locomo.{label}" + ("" if names else ".nameless")
            figures += abstention(id_, cases, goals=names)
    return figures


def _nameless(text: str, corpus: Corpus, names: bool) -> str:
    return text if names else re.sub("|".join(sorted(corpus.people)) + "|'s", "", text)


def many(size: int) -> list[Document]:
    """Memories made of two turns each, so that none equals another."""
    items = mixed().items
    step = len(items) // 2 + 1
    return [
        Document(
            f"m{n}.md",
            body=f"{items[n % len(items)].text} {items[(n * 7 + n // len(items) + step) % len(items)].text}",
            mtime=float(n),
        )
        for n in range(size)
    ]


def speed(id_: str, index: Ranker | TurnIndex, goal: float) -> Figure:
    return at_most(id_, median(lambda: query_p95(index, time.process_time)), "ms", goal)


def query_p95(index: Ranker | TurnIndex, clock: Callable[[], float]) -> float:
    questions = [question.text for question in mixed().questions[:: EVERY * 2]]
    index.search(questions[0], now=DAY)
    times: list[float] = []
    for question in questions:
        started = clock()
        index.search(question, 5, now=DAY)
        times.append((clock() - started) * 1000)
    return p95(times)


def ranker_of(size: int) -> Ranker:
    index = Ranker()
    for document in many(size):
        index.add(document)
    return index


def turns_of(size: int) -> TurnIndex:
    """Sessions of twenty turns by two speakers."""
    index = TurnIndex()
    for number, document in enumerate(many(size)):
        speaker = ("Alma", "Bruno")[number % 2]
        index.add(
            Turn(document.id, f"s{number // 20}", document.body, speaker, DAY * (number // 20))
        )
    return index


def build_time(documents: Sequence[Document]) -> float:
    """Seconds for 1,000 memories until the first search is answered."""

    def run() -> float:
        index = Ranker()
        started = time.process_time()
        for document in documents:
            index.add(document)
        index.search("anything at all", now=DAY)
        return (time.process_time() - started) / len(documents) * 1000

    return median(run)


def real_files() -> list[Document]:
    """1,000 memories as people have them: the files of real directories, over and over."""
    listed = [file for files in memory_directories().values() for file in files]
    files = [file for file in listed if len(file.body) < 8_192]
    return [
        Document(f"{n}/{file.path}", file.name, file.description, file.body, file.type)
        for n in range(1000 // len(files) + 1)
        for file in files
    ][:1000]


def disk_build_time() -> float:
    """Seconds for 1,000 such files in a directory: listed, read, indexed, asked once, saved."""
    with tempfile.TemporaryDirectory() as folder:
        store = FileStore(Path(folder, "memory"))
        listed = (DATA / "memory-dirs").glob("*/.claude/memory/*.md")
        contents = [path.read_bytes() for path in sorted(listed) if path.name != "MEMORY.md"]
        contents = [content for content in contents if len(content) < 8_192]
        store.directory.mkdir(parents=True)
        for number in range(1_000):
            path = store.directory / f"topic_{number}.md"
            path.write_bytes(contents[number % len(contents)])
            os.utime(path, (DAY, DAY))

        def run() -> float:
            (store.state / INDEX_FILE).unlink(missing_ok=True)
            started = time.process_time()
            MemoryIndex(store).search("anything at all", 5, now=DAY)
            return time.process_time() - started

        return median(run)


_MESSAGES = 100_000


def grep_time(pattern: str) -> float:
    """Seconds for `lamina sessions grep` over one session of 100,000 messages (50 MB), start
    included."""
    with tempfile.TemporaryDirectory() as home:
        folder = find_project_folder(Path(home), home)
        folder.mkdir(parents=True)
        texts = [item.text for item in mixed().items]
        with (folder / "0.jsonl").open("w") as file:
            for number in range(_MESSAGES):
                words = f"{texts[number % len(texts)]} {number}"
                entry = {
                    "kind": "message",
                    "uuid": f"u{number}",
                    "ts": "2026-01-01T00:00:00Z",
                    "role": "user",
                    "content": [{"type": "text", "text": words}],
                    "origins": ["typed"],
                }
                file.write(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n")
        lamina = str(Path(sys.executable).with_name("lamina"))
        command = [lamina, "--home", home, "--project", home, "sessions", "grep", pattern]

        def run() -> float:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, capture_output=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        return median(run)


def alone(what: str) -> float:
    """A figure taken in a process of its own, which holds nothing that other figures need."""
    code = f"import sys; sys.path[:0] = [{str(HERE.parent)!r}]; from bench.recall import *; print({what})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


_MEASURE_MEMORY = """
import sys, numpy
sys.path.insert(0, {root!r})
from bench.recall import many
documents = many(10_000)
def used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
from lamina.recall.rank import Ranker
before = used()
index = Ranker()
for document in documents:
    index.add(document)
index.search("warm up the whole index", now=0.0)
print((used() - before) / 1e6)
"""


def added_memory() -> float:
    code = _MEASURE_MEMORY.format(root=str(HERE.parent))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def install_size() -> float:
    """Megabytes of Lamina and all that a default installation brings, numpy left out."""
    wanted, seen, total = ["lamina"], set[str](), 0
    while wanted:
        name = re.split(r"[^\w.-]", wanted.pop())[0].lower().replace("_", "-")
        if name in seen or name == "numpy":
            continue
        seen.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # a dependency of another platform or Python
        wanted += [line for line in found.requires or [] if "extra ==" not in line]
        if name != "lamina":
            paths = [Path(str(found.locate_file(file))) for file in found.files or []]
            total += sum(p.stat().st_size for p in paths if p.is_file() and p.suffix != ".pyc")
    own = (HERE.parent / "src" / "lamina").rglob("*")
    total += sum(p.stat().st_size for p in own if p.is_file() and p.suffix != ".pyc")
    return total / 1e6


def cost_figures() -> list[Figure]:
    return [
        speed("query_p95.10000.turns", turns_of(10_000), 2.0),
        speed("query_p95.100000.memories", ranker_of(100_000), 15.0),
        speed("query_p95.100000.turns", turns_of(100_000), 15.0),
        at_most("build.turns", alone("build_time(many(5_000))"), "s/1,000", 0.2),
        at_most("build.real_files", alone("build_time(real_files())"), "s/1,000", 0.2),
        Figure("build.from_disk", round(alone("disk_build_time()"), 4), "s/1,000"),
        Figure("grep.100000.plain", round(grep_time("zzz not there"), 3), "s"),
        Figure("grep.100000.any", round(grep_time("[q]zz\\d"), 3), "s"),
        at_most("memory.10000", added_memory(), "MB", 150),
        at_most("install", install_size(), "MB", 60),
    ]


def main() -> int:
    if not (DATA / "locomo").is_dir():
        print(
            f"No data at {DATA}: set LAMINA_DATA to the folder with locomo. Skipped.",
            file=sys.stderr,
        )
        return 0
    from bench.recall_left_out import left_out_figures, reliability_figures, silence_figures

    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("LAMINA_MINILM_CACHE", str(Path(folder, "minilm.pickle")))
        figures = [
            *left_out_figures(),
            *dialogue_figures(),
            *evidence_figures(),
            *directory_figures(),
            *abstention_figures(),
            *silence_figures(),
            *reliability_figures(),
            *cost_figures(),
            *grep_figures(),
        ]
    return report("recall", figures)
