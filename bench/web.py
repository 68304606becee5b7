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

from lamina.agents.roster import Card, ledger_path
from lamina.cli.memory import open_store
from lamina.cli.options import config_of
from lamina.ledger import edits, log
from lamina.ledger.places import project_folder, slug
from lamina.ledger.record import Ledger
from lamina.memories import Evidence, Proposal, Verdict
from lamina.messages import Usage

MEMORIES, SESSIONS, REQUESTS, IDLE = 10_000, 1_000, 5_000, 60.0
QUERIES = ("deploy staging server", "who reviews migrations", "flaky test", "billing rounding rule")
WORDS = ["deploy", "staging", "server", "review", "migration", "flaky", "test", "billing", "rounding",
         "rule", "cache", "index", "token", "prompt", "agent", "branch", "merge", "release", "invoice",
         "latency", "timeout", "retry", "queue", "worker", "schema"]  # fmt: skip
# What Chromium sends with a key stroke.
BROWSER = {
    "User_Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36",
    "X_Fragment": "1", "Accept": "*/*", "Accept_Language": "en-US,en;q=0.9", "sec_ch_ua_mobile": "?0",
    "sec_ch_ua": '"Chromium";v="140", "Not=A?Brand";v="24"', "sec_ch_ua_platform": '"Linux"',
    "Sec_Fetch_Site": "same-origin", "Sec_Fetch_Mode": "cors", "Sec_Fetch_Dest": "empty",
}  # fmt: skip
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
        environment.pop("OPENBLAS_NUM_THREADS", None)  # as a person starts it
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
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((one / "schedstat").read_text().split()[0]) for one in tasks) / 1e9


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


def key_stroke(home: Path, project: Path) -> list[Figure]:
    """What the server does from request to answer, the whole process, against what the ranker alone
    does with the same words and as many hits, its index as warm. Every prefix of the queries is a
    stroke. Two ways: turn by turn, so that both find the processor's caches as cold, as people type;
    and each in a loop of its own, which favours the ranker, as nothing comes between its queries."""
    from lamina.recall.memory_index import MemoryIndex
    from lamina.web.memory_pages import FOUND

    typed = [query[:end] for query in QUERIES for end in range(1, len(query) + 1)]
    options = argparse.Namespace(home=str(home), project=str(project), claude=False)
    turns: list[tuple[float, float]] = []
    loops: list[tuple[float, float]] = []
    with open_store(config_of(options)) as store, served(home, project) as server:
        index = MemoryIndex(store)
        index.search(QUERIES[0], FOUND, now=time.time())
        ranker: Any = index._indexed.ranker  # type: ignore[union-attr] # noqa: SLF001

        def stroke(words: str) -> None:
            server.ask(f"{server.here}?q={words.replace(' ', '+')}", **BROWSER)

        def query(words: str) -> None:
            ranker.search(words, FOUND, now=time.time())

        for words in typed:
            stroke(words)
            query(words)
        for _ in range(9):
            bare, before = 0.0, server.cpu()
            for words in typed:
                stroke(words)
                began = time.process_time()
                query(words)
                bare += time.process_time() - began
            turns.append((server.cpu() - before, bare))
            before = server.cpu()
            for words in typed:
                stroke(words)
            page, began = server.cpu() - before, time.process_time()
            for words in typed:
                query(words)
            loops.append((page, time.process_time() - began))
    return [
        at_most(f"key stroke, CPU against a bare query, {how}",
                statistics.median(page / bare for page, bare in found), "x", 1.5,
                page_ms=_each(found, 0, len(typed)), ranker_ms=_each(found, 1, len(typed)))
        for how, found in (("turn by turn", turns), ("in loops", loops))
    ]  # fmt: skip


def _each(found: list[tuple[float, float]], which: int, strokes: int) -> float:
    return round(statistics.median(pair[which] for pair in found) / strokes * 1000, 2)


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


def lived_in(root: Path, data: Path) -> tuple[Path, Path]:
    """The demo's home with real memories and sessions, and something of everything else that a page
    shows: a waiting proposal, a teammate's memory, an agent's, agents that ran, another agent's session."""
    subprocess.run([*LAMINA, "demo", "--keep", str(root), "--quiet"], check=True)
    home, project = root / "home", root / "project"
    folder = project_folder(home, project)
    memory = folder / "memory"
    dirs = (one for one in (data / "memory-dirs-2").glob("*/memory") if _in_latin(one))
    shutil.copytree(max(dirs, key=lambda one: len([*one.iterdir()])), memory, dirs_exist_ok=True)
    copies = root / ".claude" / "projects" / slug(str(project.resolve()))
    copies.mkdir(parents=True)
    for file in sorted((data / "claude-code-sessions-2").glob("*.jsonl"))[:12]:
        shutil.copy(file, copies)
    said = {"type": "message", "role": "user"}
    said |= {"content": [{"type": "input_text", "text": "Make the build quicker."}]}
    about = {"id": "c0dex000-1111", "cwd": str(project)}
    rows = [("session_meta", about), ("response_item", said)]
    rollout = root / ".codex" / "sessions" / "2026" / "11" / "17" / "rollout-x-c0dex000-1111.jsonl"
    rollout.parent.mkdir(parents=True)
    lines = [{"timestamp": "2026-11-17T01:14:42Z", "type": k, "payload": v} for k, v in rows]
    rollout.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (memory / "team").mkdir(exist_ok=True)
    kept = "---\nname: Tabs\ndescription: Makefiles need tabs\ntype: project\n---\nMakefiles need tabs.\n"
    (memory / "team" / "project_tabs.md").write_text(kept)
    types, learned = (project / ".lamina" / x for x in ("agents", "agent-memory/reviewer"))
    for place in (types, learned):
        place.mkdir(parents=True)
    (learned / "project_tabs.md").write_text(kept)
    head = "name: reviewer\ndescription: Reviews\nmemory: project\n"
    (types / "reviewer.md").write_text(f"---\n{head}---\nReview.\n")
    for card in (Card("aa11", "anna", "explore", "Look at it", number=1, status="done", tokens=1_234),
                 Card("bb22", "bob", "explore", "Look deeper", parent="aa11", number=2, status="done")):  # fmt: skip
        own = max(folder.glob("*.jsonl"), key=lambda file: file.stat().st_size)
        path = ledger_path(own.with_suffix(""), card.id)
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(Ledger.open(path)) as ledger:
            ledger.append(edits.state("agent", card.to_json()))
            ledger.append(edits.answer([{"type": "text", "text": "Found it."}], Usage(5, 5)))
    options = argparse.Namespace(home=str(home), project=str(project), claude=False)
    with open_store(config_of(options)) as store:
        body = "Always squash commits before a merge."
        at = ("feedback_squash.md", "Squash commits", body, "feedback", body)
        told = f"---\nname: Squash commits\ndescription: {body}\ntype: feedback\n---\n{body}\n"
        proposal = Proposal(
            *at, writer="agent", evidence=(Evidence(body),), reason="a page said so"
        )
        store.hold(proposal, Verdict("inbox", "It is not the user's word."), told.encode())
    return home, project


def _in_latin(directory: Path) -> bool:
    """Chromium here has no fonts for more."""
    said = b"".join(one.read_bytes() for one in directory.glob("*.md")).decode("utf-8", "ignore")
    return sum(char > "\u2fff" for char in said) < len(said) / 100


def pictures(root: Path) -> int:
    """Every page of such a home, at three widths, light and dark."""
    chromium, data = shutil.which("chromium"), os.environ.get("LAMINA_DATA", "")
    if not chromium or not data:
        print("No pictures: they need chromium and LAMINA_DATA.")
        return 0
    from playwright.sync_api import sync_playwright

    home, project = lived_in(root, Path(data))
    folder = project_folder(home, project)
    own = max(folder.glob("*.jsonl"), key=lambda file: file.stat().st_size).stem
    memory = next(one.name for one in (folder / "memory").glob("feedback_dont*.md"))
    pages = {"memory": "", "search": "?q=screenshots+test", "one": f"/m/{memory}", "edit": f"/edit/{memory}",
             "inbox": "/inbox", "history": "/history", "audit": "/audit", "dream": "/dream",
             "sessions": "/sessions", "session": f"/s/{own}", "view": f"/s/{own}/view/2",
             "agent": f"/s/{own}/agent/bb22", "money": "/money", "scope": "~reviewer",
             "nothing": "?q=zzyzx", "gone": "/m/no_such_memory.md"}  # fmt: skip
    out = OUT / "web"
    out.mkdir(parents=True, exist_ok=True)
    with served(home, project, enter=False) as server, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto(server.url)
        tab.wait_for_url("**/p/**")
        addresses = {name: server.here + path for name, path in pages.items()}
        tab.goto(f"http://127.0.0.1:{server.port}{server.here}/dream")
        with tab.expect_navigation():
            tab.get_by_role("button", name="See what a dream would change").click()
        for name, address in {**addresses, "projects": "/projects"}.items():
            for width in (390, 768, 1440):
                tab.set_viewport_size({"width": width, "height": 900})
                tab.goto(f"http://127.0.0.1:{server.port}{address}")
                for scheme in ("light", "dark"):
                    tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                    tab.screenshot(path=str(out / f"{name}-{width}-{scheme}.png"), full_page=True)
        browser.close()
    return 6 * len(pages) + 6


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        home, project = seed(Path(place) / "many")
        found = [
            *first_page(home, project),
            *key_stroke(home, project),
            long_session(home, project),
            idle(home, project),
        ]
        print(f"{pictures(Path(place) / 'real')} pictures in {OUT / 'web'}")
    return report("web", found)


if __name__ == "__main__":
    sys.exit(main())
