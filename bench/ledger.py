"""Ledger and view: cost of one more message, of a cold render, of an append, of opening 100 MB."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from bench.figures import Figure, at_least, at_most, median, p95, report, seconds

from lamina.ledger import edits, joining, log
from lamina.ledger.record import Ledger
from lamina.messages import Usage


def session(messages: int, size: int, *, path: Path | None = None) -> Ledger:
    """A coding session: questions, answers with calls, results; `size` bytes in all."""
    rng = random.Random(7)
    words = ["".join(rng.choices("abcdefghij ", k=97)) + "\n" for _ in range(200)]
    each = size // messages
    ledger = Ledger.open(path) if path else Ledger.of()
    batch: list[dict[str, Any]] = [edits.frame([{"type": "text", "text": "system"}], [], "m", {})]
    for n in range(messages // 2):
        body = "".join(rng.choices(words, k=max(1, each // 98)))
        if n % 2:
            batch.append(
                edits.message(
                    "user",
                    [{"type": "tool_result", "tool_use_id": f"t{n - 1}", "content": body}],
                    "tool",
                )
            )
            batch.append(edits.answer([{"type": "text", "text": body}], Usage(input=10, output=5)))
        else:
            batch.append(edits.message("user", body, "typed"))
            batch.append(
                edits.answer(
                    [
                        {"type": "text", "text": body},
                        {
                            "type": "tool_use",
                            "id": f"t{n}",
                            "name": "Read",
                            "input": {"file_path": "a.py"},
                        },
                    ],
                    Usage(input=10, output=5),
                )
            )
        if len(batch) >= 200:
            ledger.append(*batch)
            batch = []
    if batch:
        ledger.append(*batch)
    if ledger.open_calls:
        ledger.append(
            edits.message(
                "user",
                [
                    {"type": "tool_result", "tool_use_id": i, "content": "x"}
                    for i in ledger.open_calls
                ],
                "tool",
            )
        )
        ledger.append(edits.answer([{"type": "text", "text": "done"}], Usage()))
    return ledger


def one_more(ledger: Ledger, rounds: int = 300) -> float:
    """Milliseconds (p95) of a view after one new message, with the fingerprint a request needs."""
    ledger.view()
    ledger.fingerprint()
    times: list[float] = []
    for n in range(rounds):
        if n % 2:
            ledger.append(
                edits.answer(
                    [{"type": "text", "text": "an answer of some length " * 40}], Usage(output=5)
                )
            )
        else:
            ledger.append(edits.message("user", "a question of some length " * 40, "typed"))
        started = time.perf_counter()
        view = ledger.view()
        ledger.fingerprint()
        len(view.messages)
        times.append((time.perf_counter() - started) * 1000)
    return p95(times)


def cold_render() -> tuple[float, float]:
    """Seconds of parse + project + render, and of json.loads + json.dumps of the same lines."""
    lines = [log.encode(entry) for entry in session(1_000, 5_000_000).entries]

    def ours() -> None:
        joining.request_bytes(Ledger.of([log.decode(line) for line in lines]).view())

    def plain() -> None:
        for line in lines:
            json.dumps(json.loads(line))

    return median(lambda: seconds(ours)), median(lambda: seconds(plain))


def append_ratio() -> float:
    """Appends a second with fsync, against a bare write + fsync loop on the same disk, in turn."""
    entry = edits.message("user", "x" * 1_000, "typed")
    line = log.encode({**entry, "uuid": "u" * 36, "parentUuid": "p" * 36, "ts": "t" * 24}) + b"\n"
    with tempfile.TemporaryDirectory(dir=".") as folder:
        ledger = Ledger.open(Path(folder) / "s.jsonl")
        fd = os.open(Path(folder) / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        ours: list[float] = []
        bare: list[float] = []
        for _ in range(5):
            ours.append(seconds(lambda: [ledger.append(entry) for _ in range(60)]))
            bare.append(seconds(lambda: [(os.write(fd, line), os.fsync(fd)) for _ in range(60)]))
        os.close(fd)
        ledger.close()
    return sorted(bare)[2] / sorted(ours)[2]


def open_ratio() -> tuple[float, float]:
    """Seconds to open and repair 100 MB, and to read and parse its lines with msgspec."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder) / "s.jsonl"
        session(20_000, 100_000_000, path=path).close()
        with path.open("ab") as file:
            file.write(b'{"kind":"message","uu')  # torn
        whole = path.read_bytes()

        def ours() -> None:
            Ledger.open(path).close()

        def plain() -> None:
            decode = msgspec.json.Decoder().decode
            with path.open("rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        decode(line)

        times: list[tuple[float, float]] = []
        for _ in range(5):
            path.write_bytes(whole)
            parse = seconds(plain)  # before the open ends the torn line
            times.append((seconds(ours), parse))
    return sorted(t[0] for t in times)[2], sorted(t[1] for t in times)[2]


def main() -> int:
    short = median(lambda: one_more(session(1_000, 5_000_000)))
    long = median(lambda: one_more(session(10_000, 50_000_000)))
    ours, plain = cold_render()
    opened, parsed = open_ratio()
    figures: list[Figure] = [
        at_most("ledger.view_one_more_p95", short, "ms", 1.0),
        at_most("ledger.view_one_more_x10", long / short, "×", 1.5, ms_at_10x=round(long, 4)),
        at_most("ledger.cold_render", ours / plain, "× json", 1.5, json_s=round(plain, 3)),
        at_least("ledger.append_fsync", append_ratio(), "× bare", 0.8),
        at_most("ledger.open_100mb", opened / parsed, "× msgspec", 3.0, msgspec_s=round(parsed, 3)),
    ]
    return report("ledger", figures)


if __name__ == "__main__":
    raise SystemExit(main())
