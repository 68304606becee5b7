"""Agents: how soon a fork is ready, what an agent weighs, what a message between processes costs, what
`kill -9` of senders and readers does to 16,000 messages on files and on PostgreSQL, and what 64 forks of
one answer send to a provider over HTTP.

Nothing is tuned on these runs. The script of kills is random with a fixed seed; how often it strikes
depends on the machine, so the number of kills is printed.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from bench.figures import ROOT, Figure, at_least, at_most, report

from lamina.agents.bridge import Bridge
from lamina.agents.mailboxes import Maildirs, new_id
from lamina.agents.runner import Order
from lamina.agents.types import FORK
from lamina.events import Emit
from lamina.ledger import edits
from lamina.ledger.record import Ledger
from lamina.messages import Request, Response, Usage, text, tool_result, tool_use
from lamina.models.scripted import ScriptedModel, Step
from lamina.ports import Letter, Post, Presence
from lamina.session import Session

AGENTS, FORKS = 64, 64
SENDERS, EACH, READERS = 4, 4_000, 2
MESSAGES = 200  # whose cost is measured
ON = {"agents.enabled": True, "notes.enabled": False, "agents.at_once": 200}


def main() -> int:
    figures = [fork_ready(), weight()]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        root = Path(folder)
        figures += cost(root)
        figures += campaign("files", lambda: Maildirs(root / "campaign"), root / "files")
        from tests.team.people import running_postgresql

        if address := stack.enter_context(running_postgresql()):
            figures += campaign("postgresql", lambda: Bridge(address), root / "postgresql")
            figures.append(cost_on_bridge(address))
        else:
            print("No PostgreSQL on this machine: its figures are left out.", file=sys.stderr)
    figures += forks_over_http()
    return report("agents", figures)


# ---- a fork, and what an agent weighs


def fork_ready() -> Figure:
    """Processor time from the order to the request that reaches the model: the fork's state, ledger,
    directive, every layer before the call, and the view."""
    rounds = [[anyio.run(_ready, number) for number in (100, 10_000)] for _ in range(5)]
    small, large = sorted(rounds, key=lambda one: one[1] / one[0])[2]
    print(f"fork ready: {small:.2f} ms at 100 messages, {large:.2f} ms at 10,000")
    return at_most("fork ready, 10,000 messages against 100", large / small, "×", 1.2)


class _Reached(ScriptedModel):
    """Notes when a fork's request comes."""

    at = 0.0

    async def complete(self, request: Request, emit: Emit) -> Response:
        if request.purpose == "agent":
            self.at = time.process_time()
            request = replace(request, messages=[])  # it keeps a copy of what it gets
        return await super().complete(request, emit)


async def _ready(messages: int) -> float:
    """Milliseconds, the median of many forks of a conversation with a call in every other answer."""
    with tempfile.TemporaryDirectory() as folder:
        model = _Reached([], otherwise={"agent": "my part", "main": "go on"})
        async with Session.open(folder, model, home=f"{folder}/h", config=ON) as one:
            for n in range(messages // 4):
                call = tool_use(f"c{n}", "Read", {"file_path": f"{n}.txt"})
                one.ledger.append(
                    edits.message("user", f"question {n}", "typed"),
                    edits.answer([text("I look."), call], Usage(output=5)),
                    edits.message("user", [tool_result(f"c{n}", f"result {n}")], "tool"),
                    edits.answer([text(f"answer {n}")], Usage(output=5)),
                )
            await one.ask("in parts")
            spent: list[float] = []
            for _ in range(40):
                started = time.process_time()
                await one.agents.start(Order("Do your part.", FORK))
                spent.append(1000 * (model.at - started))
            return sorted(spent)[20]


def weight() -> Figure:
    """Memory of 64 agents at once, each after reading a file of 20 KB, in a process of its own."""
    code = "import anyio; from bench.agents import _weigh; anyio.run(_weigh)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return at_most("64 agents at once, each", float(done.stdout), "MB", 3)


async def _weigh() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.txt").write_text("twenty characters ..\n" * 1_000)
        read = {"tool_use": [{"name": "Read", "input": {"file_path": "a.txt"}}]}
        steps = [Step(read, purpose="agent") for _ in range(AGENTS + 1)]
        model = ScriptedModel(steps, otherwise={"agent": {"hang": True}})
        async with Session.open(folder, model, home=f"{folder}/h", config=ON) as session:

            async def start(number: int) -> None:
                for _ in range(number):
                    await session.agents.start(Order("read a.txt", background=True))

            async def all_hang(number: int) -> None:
                with anyio.fail_after(60):
                    while len(model.requests) < 2 * number:
                        await anyio.lowlevel.checkpoint()

            await start(1)  # what is loaded once is no agent's
            await all_hang(1)
            before = _resident()
            await start(AGENTS)
            await all_hang(AGENTS + 1)
            print((_resident() - before) / AGENTS)
            session.agents.stop_all()


def _resident() -> float:
    """Megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1_000_000


# ---- what a message costs


def in_child(work: Callable[[], Any]) -> float:
    """Processor time of some work in a process of its own, in seconds."""
    listen, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            started = time.process_time()
            work()
            os.write(tell, repr(time.process_time() - started).encode())
        finally:
            os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)
    spent = float(os.read(listen, 100))
    os.close(listen)
    return spent


def _letters(number: int) -> list[Letter]:
    return [Letter(new_id(), "ben", "ben", "Look at the ports. " * 20) for _ in range(number)]


def _sent_and_read(post: Callable[[], Post], name: str) -> float:
    """Microseconds of processor time a message: one process sends, another reads."""
    post().read(Presence(name), print).close()
    letters = _letters(MESSAGES)

    def send() -> None:
        mine = post()
        for one in letters:
            mine.send(name, one)

    def read() -> None:
        got: list[Letter] = []
        post().read(Presence(name), print).take(got.append)
        assert [one.message for one in got] == [one.message for one in letters]

    return 1e6 * (in_child(send) + in_child(read)) / MESSAGES


def _bare(root: Path) -> float:
    """The same with nothing but files: written, fsynced, renamed; read and removed."""
    data = [(one.id, one.packed()) for one in _letters(MESSAGES)]
    folder = Path(tempfile.mkdtemp(dir=root))

    def send() -> None:
        held = os.open(folder, os.O_RDONLY)
        for name, body in data:
            path = f"{folder}/.{name}"
            file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            os.write(file, body)
            os.fsync(file)
            os.close(file)
            os.replace(path, f"{folder}/{name}")
            os.fsync(held)

    def read() -> None:
        for name in sorted(os.listdir(folder)):
            path = f"{folder}/{name}"
            file = os.open(path, os.O_RDONLY)
            os.read(file, 1_000_000)
            os.close(file)
            os.unlink(path)

    return 1e6 * (in_child(send) + in_child(read)) / MESSAGES


def cost(root: Path) -> list[Figure]:
    names = iter(range(100))
    rounds = [
        (_sent_and_read(lambda: Maildirs(root / "cost"), f"anna{next(names)}"), _bare(root))
        for _ in range(5)
    ]
    ours, bare = (sorted(column)[2] for column in zip(*rounds, strict=True))
    return [
        at_most("a message, against a bare fsynced file", ours / bare, "×", 3),
        Figure("a message on files", round(ours), "µs CPU", peers={"bare": round(bare)}),
    ]


def cost_on_bridge(address: str) -> Figure:
    spent = _sent_and_read(lambda: Bridge(address), "cost")
    return Figure("a message on PostgreSQL, client side", round(spent), "µs CPU")


# ---- kill -9


def _body(id_: str) -> str:
    return hashlib.sha256(id_.encode()).hexdigest() * (1 + len(id_) % 40)


def _send_all(post: Post, number: int, folder: Path) -> None:
    """2,000 messages; each is noted once it is acknowledged, and one that was not is sent again."""
    path = folder / f"sender-{number}"
    begun = len(path.read_bytes().splitlines()) if path.exists() else 0
    with path.open("ab", buffering=0) as noted:
        for n in range(begun, EACH):
            id_ = f"s{number}-{n:06d}"
            post.send(f"box{n % READERS}", Letter(id_, "ben", "ben", _body(id_)))
            noted.write(b"x\n")


def _read_all(post: Post, number: int, folder: Path) -> None:
    """Into a session's own kind of ledger, as `Roads` does it."""
    ledger = Ledger.open(folder / f"reader-{number}.jsonl")
    known = {entry["value"]["id"] for entry in ledger.entries if entry["kind"] == "state"}
    again = (folder / f"again-{number}").open("ab", buffering=0)

    def hand_over(letter: Letter) -> None:
        if letter.id in known:
            again.write(b"x\n")
            return
        whole = letter.message == _body(letter.id)
        ledger.append(edits.state("letter", {"id": letter.id, "whole": whole}))
        known.add(letter.id)

    reader = post.read(Presence(f"box{number}"), lambda _: again.write(b"torn\n"))
    while len(known) < SENDERS * EACH // READERS:
        reader.take(hand_over)
        time.sleep(0.002)
    reader.close()


@contextmanager
def _children(make: Callable[[], Post], folder: Path) -> Any:
    """The processes by what they do, and how to start one anew."""
    work: dict[tuple[str, int], Callable[[Post, int, Path], None]] = {
        **{("sender", n): _send_all for n in range(SENDERS)},
        **{("reader", n): _read_all for n in range(READERS)},
    }
    running: dict[tuple[str, int], int] = {}

    def start(what: tuple[str, int]) -> None:
        child = os.fork()
        if not child:
            code = 1
            try:
                work[what](make(), what[1], folder)
                code = 0
            except BaseException as error:  # noqa: BLE001 - a child must not go on as its parent
                (folder / "errors").open("a").write(f"{what}: {error!r}\n")
            finally:
                os._exit(code)
        running[what] = child

    try:
        for what in work:
            start(what)
        yield running, start
    finally:
        for child in running.values():
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def campaign(name: str, make: Callable[[], Post], folder: Path) -> list[Figure]:
    folder.mkdir()
    for n in range(READERS):
        post = make()
        post.read(Presence(f"box{n}"), print).close()
        post.close()
    rng, kills = random.Random(16), Counter[str]()
    with _children(make, folder) as (running, start):
        while running:
            time.sleep(rng.uniform(0.02, 0.3))
            for what, child in list(running.items()):
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    del running[what]
                    if status:
                        start(what)  # it could not begin yet: the one before is still dying
            if running:
                victim = rng.choice(sorted(running))
                os.kill(running[victim], signal.SIGKILL)
                os.waitpid(running.pop(victim), 0)
                kills[victim[0]] += 1
                start(victim)
    entries = [
        entry["value"]
        for n in range(READERS)
        for entry in Ledger.open(folder / f"reader-{n}.jsonl").entries
        if entry["kind"] == "state"
    ]
    counts = Counter(entry["id"] for entry in entries)
    again = sum(len((folder / f"again-{n}").read_bytes().split()) for n in range(READERS))
    errors = (folder / "errors").read_text() if (folder / "errors").exists() else ""
    print(
        f"{name}: {len(entries)} messages, {kills['sender']} senders and {kills['reader']} readers "
        f"killed, {again} letters came again and were known; {len(errors.splitlines())} could not "
        "begin at once"
    )
    if "runs already" not in errors and "on the bridge already" not in errors and errors:
        print(errors[:2_000], file=sys.stderr)
    return [
        at_most(f"{name}: lost", SENDERS * EACH - len(counts), "messages", 0),
        at_most(f"{name}: doubled", sum(counts.values()) - len(counts), "messages", 0),
        at_most(f"{name}: torn", sum(not entry["whole"] for entry in entries), "messages", 0),
        at_least(f"{name}: kills", sum(kills.values()), "", 20),
    ]


# ---- 64 forks of one answer, over HTTP


def forks_over_http() -> list[Figure]:
    """Half of the calls of the answer are answered while forks are still being started. What they send
    is compared as it leaves; the cache is that of a server, through the real package."""
    from tests.agents import test_frozen_prefix as forks
    from tests.sessions import Place
    from tests.wire.plugin import cache_server

    from lamina.events import ModelCalled
    from lamina.models.anthropic import AnthropicModel

    called: list[ModelCalled] = []

    def hear(event: Any) -> None:
        if isinstance(event, ModelCalled) and event.purpose == "agent":
            called.append(event)

    async def story(model: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            place, sessions = Place(Path(folder)), list[Any]()
            tools = forks.forking_tools(place, sessions)
            config = {"notes.enabled": False}
            async with place.open(model, tools=tools, on_event=hear, config=config) as session:
                sessions.append(session)
                await session.ask("hi")
                await session.ask("go")

    parts = {"text": "In parts.", "tool_use": forks.both_kinds()}
    scripted = ScriptedModel(["hello", parts, "done"], otherwise={"agent": "a part"})
    anyio.run(story, scripted)
    sent = {forks.prefix(one) for one in scripted.requests if one.purpose == "agent"}
    called.clear()
    with cache_server() as provider:
        calls = [tool_use(call["id"], call["name"], call["input"]) for call in forks.both_kinds()]
        provider.script([text("hello " * 3_000)], [text("Many parts. " * 2_000), *calls])
        url = provider.url
        anyio.run(story, AnthropicModel("claude-sonnet-4-5", api_key="k", base_url=url, retries=0))
    # Without the one that filled the cache, which is not always the first to be told of.
    shares = sorted(event.usage.cache_read / event.usage.prompt for event in called)[1:]
    return [
        at_least("forks of one answer over HTTP", len(called), "", FORKS),
        at_most("different prefixes that they send", len(sent), "", 1),
        at_least("cached share of the second to the last, least", min(shares), "", 0.99),
    ]
