"""The page of `lamina ui`: what the first page, a key stroke and a long session cost against the plain
work beneath them, how much is sent, whether it sleeps while nobody asks; and a picture of every page at
three widths, light and dark, in bench/out/web/ where there is a browser.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.figures import OUT, Figure, at_most, report

from lamina.ledger import edits, log
from lamina.ledger.places import project_folder, slug
from lamina.ledger.record import Ledger
from lamina.messages import Usage

MEMORIES, SESSIONS, REQUESTS, IDLE = 10_000, 1_000, 5_000, 60.0
QUERIES = ("deploy staging server", "who reviews migrations", "flaky test", "billing rounding rule")
WORDS = ["deploy", "staging", "server", "review", "migration", "flaky", "test", "billing", "rounding",
         "rule", "cache", "index", "token", "prompt", "agent", "branch", "merge", "release", "invoice",
         "latency", "timeout", "retry", "queue", "worker", "schema"]  # fmt: skip
LAMINA = [sys.executable, "-m", "lamina.cli.main"]


# ---- what the pages are opened on


def seed(root: Path) -> tuple[Path, Path]:
    """A home with many memories and sessions; the home and the project."""
    home, project = root / "home", root / "project"
    project.mkdir(parents=True)
    folder = project_folder(home, project)
    memory = folder / "memory"
    memory.mkdir()
    for number in range(MEMORIES):
        some = [WORDS[(number * step + step) % len(WORDS)] for step in (1, 3, 5, 7, 11, 13)]
        name, kind = f"{some[0]} {some[1]} {number}", ("user", "feedback", "project")[number % 3]
        text = f"The {some[2]} of {some[3]} needs a {some[4]} before the {some[5]}. Case {number}."
        head = f"---\nname: {name}\ndescription: {text}\ntype: {kind}\n---\n\n"
        (memory / f"{kind}_{number:05}.md").write_text(f"{head}{text}\n")
    for number in range(SESSIONS - 1):
        _session(folder / f"{number:08x}-0000-4000-8000-000000000000.jsonl", 2)
    _session(folder / "ffffffff-0000-4000-8000-000000000000.jsonl", REQUESTS)
    return home, project


def _session(path: Path, requests: int) -> None:
    """With a tool's result at each request, the large ones moved to disk."""
    ledger = Ledger.of()
    ledger.append(edits.frame([], [], "anthropic:claude-sonnet-4-6", {}))
    ledger.append(
        edits.message("user", [{"type": "text", "text": "Find the slow query."}], ["typed"])
    )
    for number in range(requests):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "ls"}}
        ledger.append(edits.request(ledger.head, "h", "main", number, 100 * number))
        ledger.append(edits.answer([call], Usage(0, 20, 90 * number, 100)))
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "a line\n" * 60}
        (said,) = ledger.append(edits.message("user", [result], ["tool"]))
        if number % 10 == 0:
            short = {**result, "content": "on disk"}
            ledger.append(edits.replace([(said["uuid"], 0, short)], "tool_results"))
    path.write_bytes(b"".join(log.encode(entry) + b"\n" for entry in ledger.entries))


# ---- a server, and what it uses


class Served:
    """`lamina ui` in a process of its own, and a plain client that was let in."""

    def __init__(self, home: Path, project: Path) -> None:
        given = ["ui", "--no-open", "--json", "--home", str(home), "--project", str(project)]
        environment = {**os.environ, "HOME": str(home.parent)}
        self.process = subprocess.Popen(
            [*LAMINA, *given], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        self.url: str = json.loads(self.process.stdout.readline())["url"]
        self.port = int(self.url.split(":")[2].split("/")[0])
        self.here = f"/p/{project_folder(home, project).name}"
        self.cookie = ""
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def enter(self) -> None:
        answer = self.ask(self.url.partition(str(self.port))[2])[1]
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]

    def ask(self, path: str, **headers: str) -> tuple[bytes, http.client.HTTPResponse]:
        """On one connection that is kept, as a browser does."""
        sent = {"Cookie": self.cookie, **{name.replace("_", "-"): v for name, v in headers.items()}}
        self.connection.request("GET", path, headers=sent)
        answer = self.connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (path, answer.status, body[:300])
        return body, answer

    def cpu(self) -> float:
        """Seconds that the process has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def served(home: Path, project: Path, *, enter: bool = True) -> Iterator[Served]:
    server = Served(home, project)
    try:
        if enter:
            server.enter()
        yield server
    finally:
        server.connection.close()
        server.process.kill()
        server.process.communicate()


def cpu_of_list(home: Path, project: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    where = ["--home", str(home), "--project", str(project)]
    subprocess.run(
        [*LAMINA, "memory", "list", "--json", *where], stdout=subprocess.DEVNULL, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# ---- figures


def first_page(home: Path, project: Path) -> list[Figure]:
    """Whole processes, from their start: what a person waits for."""
    cpu_of_list(home, project)  # the index of headers is there then, for both
    pages: list[float] = []
    lists: list[float] = []
    sent = 0
    for _ in range(3):
        lists.append(cpu_of_list(home, project))
        with served(home, project) as server:
            body = server.ask(server.here)[0]
            assets = [
                server.ask(f"/assets/{name}")[0] for name in ("page.css", "page.js", "icon.svg")
            ]
            pages.append(server.cpu())
            sent = len(body) + sum(map(len, assets))
    ratio = min(pages) / min(lists)
    return [
        at_most("first page, CPU against memory list --json", ratio, "x", 2, page=round(min(pages), 3),
                list=round(min(lists), 3)),
        at_most("first page, sent", sent / 1000, "KB", 300),
    ]  # fmt: skip


def key_stroke(home: Path, project: Path) -> Figure:
    from lamina.cli.memory import open_store
    from lamina.cli.options import config_of
    from lamina.recall.memory_index import MemoryIndex
    from lamina.web.memory_pages import FOUND  # of both the same number is wanted

    rounds = 50
    strokes: list[float] = []
    bares: list[float] = []
    options = argparse.Namespace(home=str(home), project=str(project), claude=False)
    with open_store(config_of(options)) as store, served(home, project) as server:
        index = MemoryIndex(store)
        began = time.process_time()
        for query in QUERIES * 2:
            index.search(query, FOUND, now=time.time())
        fresh = (time.process_time() - began) / len(QUERIES) / 2
        ranker: Any = index._indexed.ranker  # type: ignore[union-attr] # noqa: SLF001
        asked = [f"{server.here}?q={query.replace(' ', '+')}" for query in QUERIES]
        for address in asked:  # files are looked at now, and not again while somebody types
            server.ask(address, X_Fragment="1")
        for _ in range(9):
            bare, before = 0.0, server.cpu()
            for query, address in [*zip(QUERIES, asked, strict=True)] * rounds:
                server.ask(address, X_Fragment="1")  # turn by turn: both find the caches as cold
                began = time.process_time()
                ranker.search(query, FOUND, now=time.time())
                bare += time.process_time() - began
            bares.append(bare / len(asked) / rounds)
            strokes.append((server.cpu() - before) / len(asked) / rounds)
    ratio = statistics.median(one / other for one, other in zip(strokes, bares, strict=True))
    typed, bare = statistics.median(strokes), statistics.median(bares)
    told = {"page_ms": typed, "ranker_ms": bare, "ranker_with_fresh_files_ms": fresh}
    peers = {name: round(value * 1000, 2) for name, value in told.items()}
    return at_most("key stroke, CPU against a bare query", ratio, "x", 1.5, **peers)


def long_session(home: Path, project: Path) -> Figure:
    file = project_folder(home, project) / "ffffffff-0000-4000-8000-000000000000.jsonl"

    def timed(work: Any) -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    whole = min(timed(lambda: Ledger.of(log.read(file).entries)) for _ in range(3))
    lines = min(timed(lambda: log.read(file)) for _ in range(3))
    with served(home, project) as server:
        address = f"{server.here}/s/{file.stem}"
        server.ask(server.here)
        server.ask(address)
        used: list[float] = []
        for _ in range(3):
            before = server.cpu()
            server.ask(address)
            used.append(server.cpu() - before)
    peers = {
        "page_s": round(min(used), 3),
        "ledger_s": round(whole, 3),
        "its_lines_alone_s": round(lines, 3),
    }
    name = f"session of {REQUESTS:,} requests, CPU against reading its ledger"
    return at_most(name, min(used) / whole, "x", 1.5, **peers)


def idle(home: Path, project: Path, seconds: float = IDLE) -> Figure:
    """With a page open that listens for news, and nobody there: system calls that returned, by strace."""
    with served(home, project) as server, tempfile.TemporaryDirectory() as folder:
        server.ask(server.here)
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", f"{server.here}/events", headers={"Cookie": server.cookie})
        stream = connection.getresponse()
        time.sleep(1)
        calls = Path(folder, "calls")
        words = ["strace", "-f", "-qq", "-o", str(calls), "-p", str(server.process.pid)]
        traced = subprocess.Popen(words)
        time.sleep(seconds)
        woken = calls.read_text().count(") = ")
        server.ask("/assets/icon.svg")
        time.sleep(1)
        assert calls.read_text().count(") = ") > woken, "strace sees what happens"
        traced.terminate()
        traced.wait()
        stream.close()
        connection.close()
    return at_most(f"wake-ups in {seconds:.0f} s, one page open", woken, "", 0)


# ---- pictures


def pictures(root: Path) -> int:
    """Every page with real memories and sessions, at three widths, light and dark."""
    chromium, data = shutil.which("chromium"), os.environ.get("LAMINA_DATA", "")
    if not chromium or not data:
        print("No pictures: they need chromium and LAMINA_DATA.")
        return 0
    from playwright.sync_api import sync_playwright

    subprocess.run([*LAMINA, "demo", "--keep", str(root), "--quiet"], check=True)
    home, project = root / "home", root / "project"
    folder = project_folder(home, project)
    dirs = Path(data, "memory-dirs-2").glob("*/memory")
    real = max(dirs, key=lambda directory: len([*directory.iterdir()]))
    shutil.copytree(real, folder / "memory", dirs_exist_ok=True)
    copies = root / ".claude" / "projects" / slug(str(project.resolve()))
    copies.mkdir(parents=True)
    for file in sorted(Path(data, "claude-code-sessions-2").glob("*.jsonl"))[:12]:
        shutil.copy(file, copies)
    own = max(folder.glob("*.jsonl"), key=lambda file: file.stat().st_size).stem
    memory = next(one.name for one in (folder / "memory").glob("feedback_dont*.md"))
    pages = {"memory": "", "search": "?q=deploy", "one": f"/m/{memory}", "edit": f"/edit/{memory}",
             "inbox": "/inbox", "history": "/history", "audit": "/audit", "dream": "/dream",
             "sessions": "/sessions", "session": f"/s/{own}", "view": f"/s/{own}/view/2",
             "money": "/money"}  # fmt: skip
    out = OUT / "web"
    out.mkdir(parents=True, exist_ok=True)
    with served(home, project, enter=False) as server, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto(server.url)
        tab.wait_for_url("**/p/**")
        for name, path in pages.items():
            for width in (390, 768, 1440):
                tab.set_viewport_size({"width": width, "height": 900})
                tab.goto(f"http://127.0.0.1:{server.port}{server.here}{path}")
                for scheme in ("light", "dark"):
                    tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                    tab.screenshot(path=str(out / f"{name}-{width}-{scheme}.png"))
        browser.close()
    return 6 * len(pages)


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        home, project = seed(Path(place) / "many")
        found = [
            *first_page(home, project),
            key_stroke(home, project),
            long_session(home, project),
            idle(home, project),
        ]
        print(f"{pictures(Path(place) / 'real')} pictures in {OUT / 'web'}")
    return report("web", found)


if __name__ == "__main__":
    sys.exit(main())
