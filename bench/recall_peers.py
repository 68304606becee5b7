"""Runs one peer of the recall benchmark over a job file and prints its rankings as JSON.

Started by bench/recall.py with the interpreter of the peers' own environment, because their
dependencies contradict ours and each other's (see bench/peers.md). Writes only to a temporary folder.

    python bench/recall_peers.py PEER JOB.json

The job: {"corpora": [{"items": [[id, text], …], "questions": [text, …]}, …], "k": 10}
The answer: {"rankings": [[[id, …], …], …], "build_s": seconds, "query_ms": [milliseconds, …],
"query_cpu_ms": the same as processor time}
"""

# pyright: basic, reportMissingImports=false
# ruff: noqa: SLF001 - memsearch has no public way to take many files at once
from __future__ import annotations

import asyncio
import json
import os
import pickle
import re
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Search = Callable[[str, int], list[str]]
Build = Callable[[list[list[str]], Path], Search]


def bm25s_plain(items: list[list[str]], _folder: Path) -> Search:
    """bm25s with PyStemmer and its longer list of stop words: the best plain setting."""
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    texts = [text for _, text in items]
    index = bm25s.BM25()
    index.index(
        bm25s.tokenize(texts, stopwords="en_plus", stemmer=stemmer, show_progress=False),
        show_progress=False,
    )

    def search(query: str, k: int) -> list[str]:
        words = bm25s.tokenize([query], stopwords="en_plus", stemmer=stemmer, show_progress=False)
        places, _ = index.retrieve(words, k=min(k, len(items)), show_progress=False)
        return [items[place][0] for place in places[0]]

    return search


def fts5(items: list[list[str]], _folder: Path) -> Search:
    """SQLite's full-text search, porter stems, any word may match."""
    base = sqlite3.connect(":memory:", check_same_thread=False)
    base.execute(
        "CREATE VIRTUAL TABLE memory USING fts5(id UNINDEXED, text, tokenize='porter unicode61')"
    )
    base.executemany("INSERT INTO memory VALUES (?, ?)", items)

    def search(query: str, k: int) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
        rows = base.execute(
            "SELECT id FROM memory WHERE memory MATCH ? ORDER BY rank LIMIT ?", (words, k)
        )
        return [row[0] for row in rows]

    return search


def _as_files(items: list[list[str]], folder: Path) -> dict[str, str]:
    """One Markdown file a memory; returns ids by file name."""
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[str, str] = {}
    for number, (id_, text) in enumerate(items):
        name = f"m{number:06}.md"
        (folder / name).write_text(text + "\n")
        names[name] = id_
    return names


def reme(items: list[list[str]], folder: Path) -> Search:
    """ReMe's own search job with its default settings, one file a memory."""
    from reme.application import Application
    from reme.config import resolve_app_config

    names = _as_files(items, folder / "digest")
    loop = asyncio.new_event_loop()
    config = resolve_app_config(
        log_config=False,
        workspace_dir=str(folder),
        enable_logo=False,
        log_to_console=False,
        log_to_file=False,
    )
    for job in list(config["jobs"]):
        if job not in ("search", "index_update_loop", "reindex"):
            del config["jobs"][job]
    application = Application(**config)
    loop.run_until_complete(application.start())

    def ask(query: str, k: int) -> list[str]:
        response = loop.run_until_complete(application.run_job("search", query=query, limit=k))
        found = [
            names[name] for name in re.findall(r"m\d{6}\.md", str(response.answer)) if name in names
        ]
        return list(dict.fromkeys(found))[:k]

    groups = application.context.components
    store = next(
        group["default"] for kind, group in groups.items() if "file_store" in str(kind).lower()
    )

    def wait_until_indexed() -> None:
        """The index grows in the background: done when the store knows every file."""
        for _ in range(1_200):
            if len(loop.run_until_complete(store.get_nodes())) >= len(items):
                return
            loop.run_until_complete(asyncio.sleep(0.5))
        raise TimeoutError("ReMe did not index all files")

    wait_until_indexed()
    return ask


class MiniLM:
    """all-MiniLM-L6-v2 by ONNX, behind an OpenAI-compatible address, with a memory of its own."""

    def __init__(self, folder: Path) -> None:
        import numpy as np
        import onnxruntime
        from tokenizers import Tokenizer

        self._np = np
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(folder / "onnx" / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(256)
        self._tokenizer.enable_padding()
        # Two peers embed the same texts: the second takes what the first worked out.
        self._kept = Path(os.environ.get("LAMINA_MINILM_CACHE") or os.devnull)
        self._known: dict[str, list[float]] = (
            pickle.loads(self._kept.read_bytes()) if self._kept.is_file() else {}
        )
        self._lock = threading.Lock()

    def embed(self, texts: list[str]) -> list[list[float]]:
        with self._lock:
            new = sorted({text for text in texts if text not in self._known}, key=len)
            for first in range(0, len(new), 32):
                batch = new[first : first + 32]
                self._known.update(zip(batch, self._run(batch), strict=True))
            if len(new) > 100 and os.environ.get("LAMINA_MINILM_CACHE"):
                self._kept.write_bytes(pickle.dumps(self._known))
            return [self._known[text] for text in texts]

    def _run(self, texts: list[str]) -> list[list[float]]:
        np = self._np
        encoded = self._tokenizer.encode_batch(texts)
        ids = np.array([one.ids for one in encoded], dtype=np.int64)
        mask = np.array([one.attention_mask for one in encoded], dtype=np.int64)
        hidden = self._session.run(
            None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        )[0]
        mean = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return (mean / np.linalg.norm(mean, axis=1, keepdims=True)).tolist()

    def serve(self) -> str:
        """Answers POST /v1/embeddings on a free local port; returns the base address."""
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
                data = [
                    {"object": "embedding", "index": number, "embedding": vector}
                    for number, vector in enumerate(model.embed(texts))
                ]
                body = json.dumps(
                    {
                        "object": "list",
                        "model": "minilm",
                        "data": data,
                        "usage": {"prompt_tokens": 0, "total_tokens": 0},
                    }
                ).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}/v1"


@cache
def _minilm() -> tuple[MiniLM, str]:
    """The model, started once, and its address."""
    model = MiniLM(Path(os.environ["LAMINA_MINILM"]))
    return model, model.serve()


def _embeddings(texts: list[str]) -> str:
    """Embeds all texts beforehand, so that the peer's own work is what is timed."""
    model, address = _minilm()
    model.embed(texts)
    return address


def memsearch(items: list[list[str]], folder: Path) -> Search:
    """memsearch's hybrid search (Milvus Lite) with MiniLM, one file a memory.

    Its `index()` first asks, file by file, what is stored of that file, which reads all that is
    stored: time grows with the square of the files. Here nothing is stored yet, so the same chunks
    go in by its own batches; what is stored, and every search, is the same.
    """
    from memsearch.chunker import chunk_markdown
    from memsearch.core import MemSearch
    from memsearch.scanner import scan_paths

    names = _as_files(items, folder / "notes")
    address = _embeddings([text for _, text in items])
    loop = asyncio.new_event_loop()
    engine = MemSearch(
        [str(folder / "notes")],
        embedding_provider="openai",
        embedding_model="minilm",
        embedding_base_url=address,
        embedding_api_key="none",
        milvus_uri=str(folder / "milvus.db"),
    )
    chunks = [
        chunk
        for file in scan_paths([str(folder / "notes")])
        for chunk in chunk_markdown(
            file.path.read_text(),
            source=str(file.path),
            max_chunk_size=engine._max_chunk_size,
            overlap_lines=engine._overlap_lines,
        )
    ]
    engine._store._ensure_collection_for_write()
    loop.run_until_complete(engine._embed_and_store(chunks))

    def search(query: str, k: int) -> list[str]:
        found = loop.run_until_complete(engine.search(query, top_k=k))
        return list(dict.fromkeys(names[Path(hit["source"]).name] for hit in found))

    return search


def mem0(items: list[list[str]], folder: Path) -> Search:
    """mem0 without its model (`infer=False`), local Qdrant, MiniLM."""
    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ["MEM0_DIR"] = str(folder / "mem0")
    from mem0 import Memory

    address = _embeddings([text for _, text in items])
    engine = Memory.from_config(
        {
            "history_db_path": str(folder / "history.db"),
            "vector_store": {
                "provider": "qdrant",
                "config": {
                    "path": str(folder / "qdrant"),
                    "embedding_model_dims": 384,
                    "on_disk": False,
                },
            },
            "embedder": {
                "provider": "openai",
                "config": {
                    "model": "minilm",
                    "openai_base_url": address,
                    "api_key": "none",
                    "embedding_dims": 384,
                },
            },
            "llm": {
                "provider": "openai",
                "config": {"api_key": "none", "openai_base_url": address},
            },
        }
    )
    for _, text in items:
        engine.add(text, user_id="bench", infer=False)
    ids = {text: id_ for id_, text in items}

    def search(query: str, k: int) -> list[str]:
        found = engine.search(query, filters={"user_id": "bench"}, top_k=k)
        return [ids[hit["memory"]] for hit in found["results"] if hit["memory"] in ids]

    return search


PEERS: dict[str, Build] = {
    "bm25s": bm25s_plain,
    "fts5": fts5,
    "reme": reme,
    "memsearch": memsearch,
    "mem0": mem0,
}


def answer_job() -> None:
    peer, job = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
    rankings: list[list[list[str]]] = []
    build, times, cpu = 0.0, list[float](), list[float]()
    for corpus in job["corpora"]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            start = time.perf_counter()
            search = PEERS[peer](corpus["items"], Path(folder))
            build += time.perf_counter() - start
            if peer in ("memsearch", "mem0"):
                _embeddings(corpus["questions"])  # the query's own embedding is not counted
            ranked: list[list[str]] = []
            for question in corpus["questions"]:
                start, used = time.perf_counter(), time.process_time()
                ranked.append(search(question, job["k"]))
                cpu.append((time.process_time() - used) * 1000)
                times.append((time.perf_counter() - start) * 1000)
            rankings.append(ranked)
    answer = {"rankings": rankings, "build_s": build, "query_ms": times, "query_cpu_ms": cpu}
    sys.stdout.write("\n" + json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)  # some peers leave threads behind that never end


if __name__ == "__main__":
    answer_job()
