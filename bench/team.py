"""The team's server: how fast it is beside a bare route, whether `kill -9` loses anything, whether a
pull costs more where more is stored, and what a pull with nothing new sends.

The bare route runs on the same uvicorn and database: a GET does one read of the same rows, a PUT reads
one row and writes one, with no token, hash, history, rate or check. Both get the same load one after
the other. `LAMINA_SECONDS` shortens the runs (60). Nothing is tuned on them.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import secrets
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from bench.figures import ROOT, Figure, at_least, at_most, report
from tests.team.people import running_postgresql, start, stop, topic

from lamina.team.database import Database, engine_at
from lamina.team.entries import EMPTY, lines_of, sha256, with_lines

SECONDS = float(os.environ.get("LAMINA_SECONDS", "60"))
REPOSITORIES, KEYS = int(os.environ.get("LAMINA_REPOSITORIES", "10000")), 50
WRITERS, READERS, KILLS, ROUNDS = 4, 8, 20, 4
UNLIMITED = ("--rate", "100000000")
API = "/api/team_memory?repo=acme/"
TEXT = "The order service is owned by the crew in Lyon, and asks the ledger before it ships. " * 8


def main() -> int:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        kept = {"sqlite": lambda name: f"sqlite://{folder}/{name}.db"}
        if address := stack.enter_context(running_postgresql()):
            kept["postgresql"] = lambda name: _new_postgresql(address, name)
        else:
            print("No PostgreSQL on this machine: its figures are left out.", file=sys.stderr)
        for kind, made in kept.items():
            figures += beside_a_bare_route(kind, made)
        for kind, made in kept.items():
            figures += killed(kind, made("killed"))
        for kind, made in kept.items():
            figures += among_many(kind, made("one"), made("many"))
        figures += nothing_new(Path(folder), kept["sqlite"]("quiet"))
        figures.append(first_pull(Path(folder), kept["sqlite"]("first")))
    figures.append(merged_index())
    return report("team", figures)


def _new_postgresql(address: str, name: str) -> str:
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    return address.replace("/postgres?", f"/{name}?")


# ---- a client that costs next to nothing


class Wire:
    """One connection that is kept. http.client would take as long as the server."""

    def __init__(self, url: str, token: str = "") -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = f"Host: {host}\r\nAuthorization: Bearer {token}\r\n"

    def ask(self, method: str, path: str, body: bytes = b"", more: str = "") -> tuple[int, Any]:
        size = f"Content-Length: {len(body)}\r\n" if body else ""
        head = f"{method} {path} HTTP/1.1\r\n{self._head}{more}{size}\r\n"
        self._socket.sendall(head.encode() + body)
        got = b""
        while b"\r\n\r\n" not in got:
            got += self._received()
        head, _, rest = got.partition(b"\r\n\r\n")
        status = int(head[9:12])
        if status == 304:
            return status, None
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        while len(rest) < length:
            rest += self._received()
        return status, json.loads(rest)

    def _received(self) -> bytes:
        if part := self._socket.recv(1_000_000):
            return part
        raise ConnectionError("The server hung up.")

    def close(self) -> None:
        self._socket.close()


def _pull(wire: Wire, repo: str, etag: str) -> tuple[int, Any]:
    return wire.ask("GET", f"{API}{repo}&since={etag}", more=f'If-None-Match: "{etag}"\r\n')


def _put(wire: Wire, repo: str, files: dict[str, str], etag: str) -> tuple[int, Any]:
    entries = {
        key: {"content": text, "sha256": sha256(text.encode())} for key, text in files.items()
    }
    body = json.dumps({"entries": entries}).encode()
    return wire.ask("PUT", API + repo, body, f'If-Match: "{etag}"\r\n')


# ---- run 1: beside a bare route


@dataclass
class Times:
    """Milliseconds of every request."""

    reads: list[float] = field(default_factory=list[float])
    writes: list[float] = field(default_factory=list[float])

    def p99(self, kind: str) -> float:
        return sorted(getattr(self, kind))[int(len(getattr(self, kind)) * 0.99)]


def beside_a_bare_route(kind: str, made: Callable[[str], str]) -> list[Figure]:
    """Rounds alternate, so that a busy moment of the machine does not strike one alone."""
    ours, bare = Times(), Times()
    address, bare_address = made("load"), made("bare")
    with closing(Database(address)) as database:
        _, token = database.create_token("acme", "ana", "*", writes=True)
    for _ in range(ROUNDS):
        process, url = start(address, *UNLIMITED)
        _load(url, token, ours)
        stop(process)
        process, url = _start_bare(bare_address)
        _load(url, "", bare)
        stop(process)
    rates = {
        name: len(getattr(ours, name)) / len(getattr(bare, name)) for name in ("reads", "writes")
    }
    total = (len(ours.reads) + len(ours.writes)) / SECONDS
    bare_total = (len(bare.reads) + len(bare.writes)) / SECONDS
    print(f"{kind}: {total:.0f} requests/s, bare {bare_total:.0f}; {rates}", file=sys.stderr)
    return [
        at_least(f"{kind}: requests, against a bare route", total / bare_total, "×", 0.6, **rates),
        *(
            at_most(
                f"{kind}: p99 of {name}, against a bare route",
                ours.p99(name) / bare.p99(name),
                "×",
                2,
                ms=round(ours.p99(name), 2),
                bare_ms=round(bare.p99(name), 2),
            )
            for name in ("reads", "writes")
        ),
    ]


def _load(url: str, token: str, times: Times) -> None:
    """A repository for each writer; two readers follow each."""
    until = time.monotonic() + 1 + SECONDS / ROUNDS
    jobs = [(_written, n) for n in range(WRITERS)] + [(_read, n % WRITERS) for n in range(READERS)]
    with ProcessPoolExecutor(len(jobs), multiprocessing.get_context("fork")) as pool:
        running = [pool.submit(job, url, token, f"shop{n}", until) for job, n in jobs]
        for (job, _), one in zip(jobs, running, strict=True):
            (times.writes if job is _written else times.reads).extend(one.result())


def _timed(ask: Callable[[], None], until: float) -> list[float]:
    begin = until - SECONDS / ROUNDS
    found: list[float] = []
    while (began := time.monotonic()) < until:
        ask()
        if began >= begin:  # until then everybody connects, and the server warms up
            found.append(1000 * (time.monotonic() - began))
    return found


def _written(url: str, token: str, repo: str, until: float) -> list[float]:
    wire, counted = Wire(url, token), iter(range(10**9))
    _, now = _pull(wire, repo, EMPTY)
    etag = EMPTY if now is None else now["etag"]

    def write() -> None:
        nonlocal etag
        n = next(counted)
        files = {f"fact_{n % KEYS}.md": topic(f"{TEXT}{secrets.token_hex(4)} {n}")}
        status, done = _put(wire, repo, files, etag)
        assert status == 200, (status, done)
        etag = done["etag"]

    return _timed(write, until)


def _read(url: str, token: str, repo: str, until: float) -> list[float]:
    wire, etag = Wire(url, token), EMPTY

    def read() -> None:
        nonlocal etag
        status, page = _pull(wire, repo, etag)
        assert status in (200, 304), page
        etag = page["etag"] if page else etag

    return _timed(read, until)


def _start_bare(address: str) -> tuple[subprocess.Popen[str], str]:
    code = f"from bench.team import serve_bare; serve_bare({address!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    return process, process.stderr.readline().strip()


def serve_bare(address: str) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request  # noqa: TC002 - its routes are read at run time
    from starlette.responses import Response
    from starlette.routing import Route

    engine, mine = engine_at(address), threading.local()
    with engine.connected() as first:
        first.execute(
            "CREATE TABLE IF NOT EXISTS bare (repo TEXT, key TEXT, version INTEGER, content TEXT, "
            "PRIMARY KEY (repo, key))"
        )
        first.execute("CREATE INDEX IF NOT EXISTS by_version ON bare (repo, version)")

    def connection() -> Any:
        """One for each thread, never closed."""
        if not hasattr(mine, "connection"):
            mine.stack = ExitStack()
            mine.connection = mine.stack.enter_context(engine.connected())
        return mine.connection

    def answer(value: Any) -> Response:
        return Response(msgspec.json.encode(value), media_type="application/json")

    def get(request: Request) -> Response:
        rows = (
            connection()
            .execute(
                "SELECT key, content, version FROM bare WHERE repo = ? AND version > ? "
                "ORDER BY version",
                (request.query_params["repo"], int(request.query_params["since"])),
            )
            .fetchall()
        )
        if not rows:
            return Response(status_code=304)
        entries = {row[0]: {"content": row[1]} for row in rows}
        return answer({"etag": str(rows[-1][2]), "entries": entries})

    def put(repo: str, body: bytes) -> Response:
        ((key, item),) = msgspec.json.decode(body)["entries"].items()
        mine = connection()
        mine.execute(engine.begin_writing)
        (version,) = mine.execute(
            "SELECT MAX(version) FROM bare WHERE repo = ?", (repo,)
        ).fetchone()
        mine.execute(
            "INSERT INTO bare VALUES (?, ?, ?, ?) ON CONFLICT (repo, key) "
            "DO UPDATE SET version = excluded.version, content = excluded.content",
            (repo, key, (version or 0) + 1, item["content"]),
        )
        mine.execute("COMMIT")
        return answer({"etag": str((version or 0) + 1)})

    async def write(request: Request) -> Response:
        from anyio.to_thread import run_sync

        return await run_sync(put, request.query_params["repo"], await request.body())

    path = API.partition("?")[0]
    app = Starlette(routes=[Route(path, get), Route(path, write, methods=["PUT"])])
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
        config = uvicorn.Config(app, http="h11", log_level="warning", access_log=False)
        uvicorn.Server(config).run(sockets=[listening])


# ---- run 2: the server is killed


def killed(kind: str, address: str) -> list[Figure]:
    """All write to one repository, each a line of their own to files that they share, and note a line
    once it is acknowledged; so a lost update is a noted line that is not there."""
    with closing(Database(address)) as database:
        _, token = database.create_token("acme", "ana", "*", writes=True)
        process, url = start(address, *UNLIMITED)
        port = url.rpartition(":")[2]
        fork, dice = multiprocessing.get_context("fork"), random.Random(17)
        with (
            tempfile.TemporaryDirectory() as folder,
            ProcessPoolExecutor(WRITERS + READERS, fork) as pool,
        ):
            done = Path(folder, "done")
            writing = [pool.submit(_append, url, token, n, done) for n in range(WRITERS)]
            reading = [pool.submit(_follow, url, token, done) for _ in range(READERS)]
            for _ in range(KILLS):
                time.sleep(SECONDS / KILLS * dice.uniform(0.5, 1.5))
                stop(process)
                process, url = start(address, *UNLIMITED, "--port", port)
            done.touch()
            noted = [line for one in writing for line in one.result()]
            copies = [one.result() for one in reading]
        stop(process)
        page = database.changes("acme", "acme/shared")
        assert not page.more
        there = {entry.key: entry.content for entry in page.entries}
    lines = {line for text in there.values() for line in (text or "").splitlines()}
    lost = [line for line in noted if line not in lines]
    behind = sum(copy != there for copy in copies)
    print(f"{kind}: {len(noted)} lines acknowledged, {KILLS} kills", file=sys.stderr)
    return [
        at_most(f"{kind}: updates lost in {KILLS} kills", len(lost), "", 0, written=len(noted)),
        at_most(f"{kind}: readers that did not catch up", behind, "", 0, readers=READERS),
    ]


class _Copy:
    """What one client has of the repository, over as many connections as it takes."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token
        self._wire: Wire | None = None
        self.etag, self.files = EMPTY, dict[str, str]()

    def pull(self) -> bool:
        """Whether it is known to be in step."""
        status, page = self._asked(lambda wire: _pull(wire, "shared", self.etag))
        if status == 200:
            self.etag = page["etag"]
            self.files |= {key: item["content"] for key, item in page["entries"].items()}
        return status == 304 or (status == 200 and not page["more"])

    def put(self, files: dict[str, str]) -> bool:
        status, done = self._asked(lambda wire: _put(wire, "shared", files, self.etag))
        assert status in (200, 412, 503, 0), (status, done)
        if status == 200:
            self.etag = done["etag"]
            self.files |= files
        return status == 200

    def _asked(self, ask: Callable[[Wire], tuple[int, Any]]) -> tuple[int, Any]:
        try:
            self._wire = self._wire or Wire(self._url, self._token)
            return ask(self._wire)
        except (OSError, ValueError):  # killed before it answered, or while it did
            if self._wire:
                self._wire.close()
            self._wire = None
            time.sleep(0.02)
            return 0, None


def _append(url: str, token: str, number: int, done: Path) -> list[str]:
    copy, noted = _Copy(url, token), list[str]()
    while not done.exists():
        key, line = f"list_{len(noted) % 40}.md", f"writer {number} line {len(noted)}"
        while True:
            if copy.pull():
                before = copy.files.get(key, topic("Lines"))
                # An answer that was lost may have been a yes.
                if line in before.splitlines() or copy.put({key: f"{before}{line}\n"}):
                    break
        noted.append(line)
    return noted


def _follow(url: str, token: str, done: Path) -> dict[str, str]:
    copy = _Copy(url, token)
    while not done.exists():
        copy.pull()
    last = ""
    until = time.monotonic() + 30
    while time.monotonic() < until:  # writers end with the line that they are at
        if copy.pull() and copy.etag == last:
            break
        last = copy.etag
        time.sleep(1)
    return copy.files


# ---- many repositories


def among_many(kind: str, alone: str, crowded: str) -> list[Figure]:
    """A pull of all keys, where this is all, and among the others: CPU of both ends, and the clock,
    which on a busy machine also says how long one waited to be let on."""
    names = [f"acme/shop{n}" for n in range(REPOSITORIES)]
    _fill(alone, names[:1])
    _fill(crowded, names)
    with closing(Database(alone)) as one, closing(Database(crowded)) as many:
        one.changes("acme", names[0])
        many.changes("acme", names[0])
        sides = [
            (database, _backends(address), list[tuple[float, float]]())
            for database, address in ((one, alone), (many, crowded))
        ]
        dice = random.Random(17)
        for turn in range(1_000):  # turn by turn, now this first and now that
            name = dice.choice(names)
            pair = [*zip(sides, (names[0], name), strict=True)]
            for (database, _, _), repo in pair:  # reading from the disk is not what is compared
                database.changes("acme", repo)
            for (database, backends, times), repo in pair[:: 1 if turn % 2 else -1]:
                before, began = _used(backends), time.perf_counter()
                page = database.changes("acme", repo)
                database.state("acme", repo)
                took = time.perf_counter() - began
                times.append((1000 * (_used(backends) - before), 1000 * took))
                assert len(page.entries) == KEYS
    figures: list[Figure] = []
    for nth, what in enumerate(("CPU", "time")):
        ms, among = (
            round(statistics.median(one[nth] for one in times), 3) for _, _, times in sides
        )
        title = f"{kind}: {what} of a pull among {REPOSITORIES:,} repositories, against one alone"
        figures.append(at_most(title, among / ms, "×", 1.25, ms=among, alone_ms=ms))
    return figures


def _backends(address: str) -> list[Path]:
    """Where Linux counts the nanoseconds of PostgreSQL's processes for this database."""
    if address.startswith("sqlite"):
        return []
    import psycopg

    with psycopg.connect(address) as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchall()
    return [Path(f"/proc/{pid}/schedstat") for (pid,) in found]


def _used(backends: list[Path]) -> float:
    there = sum(int(file.read_text().split()[0]) for file in backends)
    return there / 1e9 + time.thread_time()


def _fill(address: str, names: list[str]) -> None:
    """As so many first pushes leave it, by the tables: over HTTP it would take hours."""
    Database(address).close()
    text = topic(TEXT)
    digest, now = sha256(text.encode()), time.time()
    tables: dict[str, Callable[[str, str], list[tuple[Any, ...]]]] = {
        "repositories": lambda id_, name: [(id_, "acme", name, 1, id_ * 2, KEYS)],
        "states": lambda id_, _: [(id_, id_ * 2, 1)],
        "versions": lambda id_, _: [
            (id_, f"fact_{n}.md", 1, text, digest, "ana", now, 1) for n in range(KEYS)
        ],
    }
    known = [(secrets.token_hex(8), name) for name in names]
    for table, rows in tables.items():
        _insert(address, table, (row for id_, name in known for row in rows(id_, name)))


def _insert(address: str, table: str, rows: Iterator[tuple[Any, ...]]) -> None:
    if address.startswith("sqlite"):
        with closing(sqlite3.connect(address.removeprefix("sqlite://"))) as connection, connection:
            first = next(rows)
            marks = ", ".join("?" * len(first))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", chain([first], rows))
        return
    import psycopg

    with (
        psycopg.connect(address) as connection,
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} FROM STDIN") as copy,  # type: ignore[arg-type]
    ):
        for row in rows:
            copy.write_row(row)
    # What a database does by itself once it was filled, it does before it is measured, not meanwhile.
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"VACUUM (ANALYZE) {table}")  # type: ignore[arg-type]
        connection.execute("CHECKPOINT")


# ---- nothing new


def nothing_new(folder: Path, address: str) -> list[Figure]:
    """`lamina team pull` itself, through a listener that counts."""
    with closing(Database(address)) as database:
        token, secret = database.create_token("acme", "ana", "*", writes=True)
        files = {f"fact_{n}.md": topic(f"{TEXT}{n}") for n in range(KEYS)}
        database.write(token, "acme/shop", files, EMPTY)
    process, url = start(address)
    with _counting(url) as (counted_url, counted):
        lamina = _as_user(folder / "quiet", secret)
        assert len(lamina("join", counted_url, "--repo", "acme/shop")["taken"]) == KEYS
        counted.clear()
        assert lamina("pull")["taken"] == {}
    stop(process)
    asked = sum(b" HTTP/1.1\r\n" in part for part in counted)
    return [
        at_most("a pull with nothing new: round trips", asked, "", 1),
        at_most("a pull with nothing new: both ways", sum(map(len, counted)), "bytes", 2_000),
    ]


def first_pull(folder: Path, address: str) -> Figure:
    """`lamina team join` in Claude mode, where the index is judged line by line: CPU a file."""
    ms: list[float] = []
    with closing(Database(address)) as database:
        token, _ = database.create_token("acme", "bea", "*", writes=True)
        _, secret = database.create_token("acme", "ana", "*", writes=True)
        process, url = start(address)
        for count in (500, 2_000):
            texts = {f"fact_{n}.md": topic(f"{TEXT}{n}", name=f"Fact {n}") for n in range(count)}
            lines = (f"- [Fact {n}](fact_{n}.md) \u2014 about Fact {n}\n" for n in range(count))
            texts["MEMORY.md"] = f"# Facts\n{''.join(lines)}"
            database.write(token, f"acme/shop{count}", texts, EMPTY)
            lamina = _as_user(folder / f"of{count}", secret, "--claude")
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            assert len(lamina("join", url, "--repo", f"acme/shop{count}")["taken"]) == count
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            ms.append(round(1000 * used / count, 2))
        stop(process)
    title = "CPU a file of a first pull of 2,000, against 500"
    return at_most(title, ms[1] / ms[0], "×", 1.25, ms=ms[1], few_ms=ms[0])


def _as_user(folder: Path, secret: str, *options: str) -> Callable[..., dict[str, Any]]:
    (folder / "project").mkdir(parents=True)
    place = ["--project", str(folder / "project"), "--home", str(folder / "home"), *options]
    environment = {**os.environ, "HOME": str(folder), "LAMINA_TEAM_TOKEN": secret}

    def lamina(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "lamina.cli.main", "team", *words, "--json", *place],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    return lamina


@contextmanager
def _counting(url: str) -> Iterator[tuple[str, list[bytes]]]:
    """Passes on what comes, and keeps it: each request is one part, each answer another."""
    parts: list[bytes] = []
    host, _, port = url.removeprefix("http://").partition(":")

    def pass_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while part := source.recv(1_000_000):
                parts.append(part)
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection((host, int(port)))
                back = threading.Thread(target=pass_on, args=(server, client), daemon=True)
                back.start()
                pass_on(client, server)
                back.join()
                client.close()
                server.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", parts


# ---- an index of another agent's


def merged_index() -> Figure:
    """Every second line is new to one of two: against taking the lines of both apart."""
    ours, theirs = (
        "".join(f"- [Fact {n}](fact_{n}.md) \u2014 told\n" for n in range(0, 20_000, step)).encode()
        for step in (2, 1)
    )
    reading: list[float] = []
    merging: list[float] = []
    for _ in range(5):
        began = time.process_time()
        lines_of(ours), lines_of(theirs)
        read = time.process_time()
        with_lines(ours, theirs, lambda _, line: line)
        merging.append(time.process_time() - read)
        reading.append(read - began)
    ms, bare_ms = (round(1000 * min(times), 1) for times in (merging, reading))
    title = "merging 20,000 lines into 10,000, against reading both"
    return at_most(title, ms / bare_ms, "\u00d7", 3, ms=ms, bare_ms=bare_ms)
