"""Gateways side by side: recorded sessions as streams of requests, sent direct, through `lamina gateway`
(observe, act) and through headroom-ai in three modes, to a local provider with a prompt cache of its own.
Writes `bench/out/gateway.json` and `bench/results/gateway.md`.

The provider keeps a cache by Anthropic's published rules and shares no code with `lamina.cache`: what it
bills is the truth that a gateway's claims are held against. It does not know that an agent reads a file
again because its result went out of view; `bench-bill` charges that. Sessions of `claude-code-sessions-2`
that nothing was chosen on. The peer is optional: LAMINA_PEER names the Python of an environment
that has headroom-ai.
"""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.bill import CHOSEN, LEFT_OUT, files
from bench.figures import at_least, at_most, report

from lamina.replay.readers import read_recording

Json = dict[str, Any]
NAMES = ("Task", "Bash", "Glob", "Grep", "Read", "Edit", "Write", "WebFetch", "TodoWrite")
ANYTHING: Json = {"type": "object"}
# An agent whose tools do not say that they read files keeps all results: so does a real one say it.
TAKES: dict[str, Json] = {"Read": {**ANYTHING, "properties": {"file_path": {"type": "string"}}}}
STAND_IN = "The instructions of a coding agent stand here, and are the same in every request. "
DOLLARS = {"opus": 5.0, "sonnet": 3.0, "haiku": 1.0}  # a million tokens of input
WRITES = {300.0: 1.25, 3600.0: 2.0}
READS, FEWEST, LOOK_BACK = 0.1, 1024, 20
SHORT = 45  # requests
DAY = 86_400.0
FEWEST_REQUESTS = 3
PEERS = {"headroom": [], "headroom token": ["--mode", "token"], "headroom lossless": ["--lossless"]}
_NUMBERED = re.compile(r"^ *\d+[→\t:-]")
_PATH = re.compile(r"/\S+?/tool-results/[^\s\])]+")


# ---- sessions as requests


@dataclass
class Asked:
    body: Json
    time: float
    answer: list[Json]


def stream(path: Path) -> list[Asked]:
    """The requests of a recording, as a coding agent sends them: whole lists, marks on the last two
    messages of the user."""
    recording = read_recording(path)
    used = {b["name"] for m in recording.messages for b in m.message["content"] if b.get("name")}
    tools = [
        {"name": name, "description": STAND_IN * 12, "input_schema": TAKES.get(name, ANYTHING)}
        for name in [*NAMES, *sorted({*map(str, used)} - {*NAMES})]
    ]
    held: dict[Any, list[int]] = {}
    found: list[Asked] = []
    for step in recording.steps():
        place = held.setdefault(step.request.thread, [])
        place[step.keep :] = step.new
        long = step.request.ttl >= 3600
        mark = {"type": "ephemeral", **({"ttl": "1h"} if long else {})}
        system = [{"type": "text", "text": STAND_IN * 150, "cache_control": mark}]
        messages = _merged([recording.messages[at].message for at in place], mark)
        if not messages or messages[-1]["role"] != "user":
            continue
        head = {"model": step.request.model, "max_tokens": 32_000, "system": system, "tools": tools}
        answer = step.request.answer
        said = recording.messages[answer].message["content"] if answer >= 0 else []
        said = list(said) or [{"type": "text", "text": "ok"}]
        found.append(Asked({**head, "messages": messages}, step.request.time, said))
    return found


def _merged(messages: Sequence[Any], mark: Json) -> list[Json]:
    found: list[Json] = []
    for message in messages:
        blocks = [dict(block) for block in message["content"]]
        if found and found[-1]["role"] == message["role"]:
            found[-1]["content"] += blocks
        elif blocks:
            found.append({"role": message["role"], "content": blocks})
    for message in [one for one in found if one["role"] == "user"][-2:]:
        message["content"][-1]["cache_control"] = mark
    return found


# ---- the provider


def weight(block: Any) -> int:
    return max(1, len(json.dumps(block, ensure_ascii=False)) // 4)


@dataclass
class Provider:
    """A prompt cache by the published rules, and what it has billed."""

    clock: float = 0.0
    entries: dict[bytes, float] = field(default_factory=dict)  # hash of a beginning → its end
    bills: list[float] = field(default_factory=list)
    received: list[Json] = field(default_factory=list)
    usage: Json = field(default_factory=dict)
    malformed: int = 0

    def serve(self, body: Json) -> Json:
        self.received.append(body)
        self.malformed += not well_formed(body)
        flat = _flat(body)
        marks = [at for at, (_, _, life) in enumerate(flat) if life]
        hit = -1
        for mark in reversed(marks):
            near = range(mark, max(-1, mark - LOOK_BACK - 1), -1)
            hit = next((at for at in near if self.entries.get(flat[at][0], 0) > self.clock), -1)
            if hit >= 0:
                break
        sizes = [size for _, size, _ in flat]
        last = marks[-1] if marks else -1
        if sum(sizes[: last + 1]) < FEWEST:
            last = hit = -1
        written = dict.fromkeys(WRITES, 0)
        for at in range(hit + 1, last + 1):
            life = next(flat[mark][2] for mark in marks if mark >= at)
            written[life] += sizes[at]
        for at in [mark for mark in marks if mark <= last] + ([hit] if hit >= 0 else []):
            life = flat[at][2] or next((flat[m][2] for m in marks if m >= at), 300.0)
            self.entries[flat[at][0]] = max(self.entries.get(flat[at][0], 0), self.clock + life)
        read, fresh = sum(sizes[: hit + 1]), sum(sizes[last + 1 :])
        paid = fresh + READS * read + sum(WRITES[life] * size for life, size in written.items())
        price = next((p for name, p in DOLLARS.items() if name in str(body.get("model"))), 3.0)
        self.bills.append(paid * price / 1e6)
        self.usage = {
            "input_tokens": fresh,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": sum(written.values()),
            "cache_creation": {
                "ephemeral_5m_input_tokens": written[300.0],
                "ephemeral_1h_input_tokens": written[3600.0],
            },
            "output_tokens": 50,
        }
        return self.usage


def _flat(body: Json) -> list[tuple[bytes, int, float]]:
    """Each block with the hash of all up to it, its weight, and the seconds of its mark or 0."""
    system = body.get("system") or []
    blocks = [("tool", tool) for tool in body.get("tools") or []]
    blocks += [("system", b) for b in (system if isinstance(system, list) else [system])]
    for message in body["messages"]:
        content = message["content"]
        content = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks += [(message["role"], block) for block in content]
    link, found = json.dumps([body.get("model"), body.get("thinking")]).encode(), []
    for role, block in blocks:
        bare = {k: v for k, v in block.items() if k != "cache_control"}
        data = json.dumps([role, bare], ensure_ascii=False, sort_keys=True)
        link = blake2b(link + data.encode("utf-8", "replace"), digest_size=16).digest()
        mark = block.get("cache_control")
        life = 0.0 if not mark else 3600.0 if mark.get("ttl") == "1h" else 300.0
        found.append((link, max(1, len(data) // 4), life))
    return found


def well_formed(body: Json) -> bool:
    """Roles alternate, each call has its result in the next message and no result is without a call."""
    waiting: set[str] = set()
    before = ""
    for message in body["messages"]:
        content = message["content"]
        blocks = content if isinstance(content, list) else []
        results = {b["tool_use_id"] for b in blocks if b.get("type") == "tool_result"}
        if message["role"] == before or not content or results != waiting:
            return False
        before = message["role"]
        waiting = {b["id"] for b in blocks if b.get("type") == "tool_use"}
    return not waiting


_OK: list[Json] = [{"type": "text", "text": "ok"}]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider: Provider
    answer: list[Json]

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        self._reply({"data": []})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if not self.path.partition("?")[0].endswith("/messages"):
            self._reply({"input_tokens": 1})
            return
        kind = type(self)
        body = json.loads(raw)
        usage = kind.provider.serve(body)
        stop = "tool_use" if any(b.get("type") == "tool_use" for b in kind.answer) else "end_turn"
        head = {"id": f"msg_{len(kind.provider.bills)}", "type": "message", "role": "assistant"}
        about = {"model": body["model"], "stop_reason": stop, "stop_sequence": None}
        self._reply({**head, **about, "content": kind.answer, "usage": usage})

    def _reply(self, value: Json) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def provider_server() -> Iterator[tuple[type[_Handler], str]]:
    class Handler(_Handler):
        provider = Provider()
        answer = _OK

    with serving(Handler) as url:
        yield Handler, url


@contextmanager
def serving(handler: type[_Handler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


# ---- what is tried


@dataclass
class Tried:
    """What one way of sending a session came to."""

    bills: list[float]
    malformed: int = 0
    claimed: float | None = None  # saved, by its own word
    in_view: float = 1.0  # of the tool output, at the end
    in_reach: float = 1.0
    restored: tuple[int, int] = (0, 0)  # changed results that come back to the byte, of so many


def send(stream_: Sequence[Asked], url: str, handler: type[_Handler], clock: Any = None) -> Tried:
    handler.provider = provider = Provider()
    line = HTTPConnection(url.removeprefix("http://"), timeout=120)
    headers = {
        "content-type": "application/json",
        "x-api-key": "sk-ant-none",
        "anthropic-version": "2023-06-01",
    }
    for asked in stream_:
        provider.clock = asked.time
        if clock is not None:
            clock(asked.time)
        handler.answer = asked.answer
        data = json.dumps(asked.body, ensure_ascii=False).encode("utf-8", "replace")
        line.request("POST", "/v1/messages", data, headers)
        answer = line.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{url} answered {answer.status}")
    line.close()
    recorded = sum(not well_formed(asked.body) for asked in stream_)  # some begin in the middle
    tried = Tried(provider.bills, max(0, provider.malformed - recorded))
    if stream_:
        tried.in_view, tried.in_reach = _kept(stream_[-1].body, provider.received[-1])
    return tried


def _kept(original: Json, sent: Json) -> tuple[float, float]:
    """The share of tool output that the last request shows, and what it shows or names a file for. A line
    is shown where it stands whole, with or without the number that a tool puts before it, in a
    result, a call of the model's or a message; a search's line also under its file's name."""
    before, after = _results(original), _results(sent)
    words = " ".join(after.values())
    lines = {_bare(line) for text in _said(sent) for line in _ungrouped(text)}
    total = shown = reached = 0
    for call, text in before.items():
        now = after.get(call, "")
        named = _PATH.search(now)
        held = (
            set(Path(named[0]).read_text("utf-8", "replace").splitlines())
            if named and Path(named[0]).exists()
            else set[str]()
        )
        for line in text.splitlines():
            size = len(line)
            total += size
            here = _bare(line) in lines or line.strip() in words
            shown += size * here
            reached += size * (here or line in held)
    return (shown / total, reached / total) if total else (1.0, 1.0)


def _bare(line: str) -> str:
    return _NUMBERED.sub("", line).strip()


def _ungrouped(text: str) -> Iterator[str]:
    """Lines, and those of a search, whose file is named once above them, as they were printed."""
    path = ""
    for line in text.splitlines():
        yield line
        if path and line.startswith("  "):
            yield f"{path}:{line[2:]}"
        else:
            path = line[:-1] if line.endswith(":") else ""


def _said(body: Json) -> Iterator[str]:
    """Every text of the messages: what was said, what calls were given, what tools gave."""
    waiting: list[Any] = [message["content"] for message in body["messages"]]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as parts:
                waiting += parts.values()
            case list() as parts:
                waiting += parts
            case _:
                pass


def _results(body: Json) -> dict[str, str]:
    found: dict[str, str] = {}
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block.get("type") == "tool_result":
                content = block.get("content")
                parts = content if isinstance(content, list) else [{"text": content}]
                text = "\n".join(str(p.get("text") or "") for p in parts if isinstance(p, dict))
                found[str(block.get("tool_use_id"))] = text
    return found


class OwnGateway:
    """`lamina gateway` in this process, by the recording's clock."""

    def __init__(self, folder: Path, upstream: str, *, acts: bool) -> None:
        from lamina.config import load
        from lamina.gateway.command import desk_for
        from lamina.gateway.peers import Upstream
        from lamina.gateway.server import Gateway

        self.now = 0.0
        folder.mkdir(parents=True, exist_ok=True)
        self.config = config = load(folder, home=folder / "home", env={})
        desk = desk_for(config, acts=acts, tell=lambda _: None, now=lambda: self.now)
        self.desk = desk
        self._gateway = Gateway(Upstream(upstream), desk)
        self._gateway.start()
        self.url = self._gateway.url

    def at(self, now: float) -> None:
        self.now = now

    def close(self) -> None:
        self._gateway.close()


def through_lamina(
    asked: Sequence[Asked], handler: type[_Handler], upstream: str, *, acts: bool
) -> Tried:
    with tempfile.TemporaryDirectory() as folder:
        gateway = OwnGateway(Path(folder), upstream, acts=acts)
        try:
            tried = send(asked, gateway.url, handler, gateway.at)
            totals = gateway.desk.totals
            tried.claimed = totals.direct - totals.billed if totals.edited else 0.0
        finally:
            gateway.close()
        if acts and asked:
            tried.restored = _restored(gateway, asked[-1].body, handler.provider.received[-1])
    return tried


def _restored(gateway: OwnGateway, original: Json, sent: Json) -> tuple[int, int]:
    """How many of the results that were changed the conversations give back to the byte, read anew from
    disk a week later; and how many there are."""
    from lamina.conversation.kept import Conversations
    from lamina.errors import UsageError
    from lamina.ledger.places import find_project_folder

    config = gateway.config
    folder = find_project_folder(config.own_home, config.project) / "conversations"
    kept = Conversations(folder, config, now=lambda: gateway.now + 7 * DAY)

    def whole(call: str) -> Iterator[str]:
        for name in gateway.desk.totals.out:
            with suppress(UsageError):
                yield kept.expanded((), call, name)

    before, after = _results(original), _results(sent)
    changed = {call: text for call, text in before.items() if after.get(call) != text}
    return sum(text in whole(call) for call, text in changed.items()), len(changed)


# ---- the peer

SHIM = """
import os, time
_real = time.time
def _shifted():
    try:
        return _real() + float(open(os.environ["SHIFT"]).read() or 0)
    except (OSError, ValueError, KeyError):
        return _real()
time.time = _shifted
"""


@contextmanager
def peer(python: str, arguments: Sequence[str], upstream: str) -> Iterator[tuple[str, Any]]:
    """headroom-ai with a home of its own, offline, with a clock that follows the recording."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home = tempfile.TemporaryDirectory()
    folder = Path(home.name)
    (folder / "sitecustomize.py").write_text(SHIM)
    shift = folder / "shift"
    shift.write_text("0")
    bin_ = Path(python).parent
    tokenizers = next(
        bin_.parent.glob("lib/*/site-packages/litellm/litellm_core_utils/tokenizers"), ""
    )
    env = {
        **{k: v for k, v in os.environ.items() if k in ("PATH", "LANG")},
        "HOME": str(folder),
        "PYTHONPATH": str(folder),
        "SHIFT": str(shift),
        "TIKTOKEN_CACHE_DIR": str(tokenizers),
        "HF_HUB_OFFLINE": "1",
        "HEADROOM_TELEMETRY": "off",
        "HEADROOM_UPDATE_CHECK": "0",
        "HEADROOM_BEACON": "off",
        "DO_NOT_TRACK": "1",
    }
    command = [str(bin_ / "headroom"), "proxy", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--no-rate-limit", "--no-cache", "--no-telemetry", "--no-subscription-tracking"]
    command += ["--anthropic-api-url", upstream, *arguments]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    last = shifted = 0.0

    def at(now: float) -> None:
        """Its clock goes on as the recording's does; a day lies between two sessions."""
        nonlocal last, shifted
        shifted += now - last if 0 <= now - last < DAY else DAY
        last = now
        shift.write_text(str(shifted))

    try:
        _wait_for(port, process)
        yield f"http://127.0.0.1:{port}", at
    finally:
        process.terminate()
        process.wait(30)
        home.cleanup()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    import socket

    for _ in range(3000):
        if process.poll() is not None:
            raise RuntimeError("the peer ended at once")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the peer does not listen")


def cpu_of(pid: int) -> float:
    """Seconds of all its threads, those that have ended too, to the nanosecond."""
    return time.clock_gettime(~pid << 3 | 2)  # Linux's number for the clock of another process


def resident(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


# ---- money


@dataclass
class Row:
    name: str
    hour: bool
    requests: int
    tried: dict[str, Tried]

    def saved(self, mode: str) -> float:
        direct = sum(self.tried["direct"].bills)
        return 1 - sum(self.tried[mode].bills) / direct if direct else 0.0

    def worst_prefix(self, mode: str) -> float:
        """By how much it was dearer than direct after any request of it."""
        ours = direct = worst = 0.0
        for own, plain in zip(self.tried[mode].bills, self.tried["direct"].bills, strict=True):
            ours, direct = ours + own, direct + plain
            worst = max(worst, ours / direct - 1)
        return worst


def measured(python: str, modes: Sequence[str], most: int | None) -> list[Row]:
    rows: list[Row] = []
    with provider_server() as (handler, url), ExitStack() as running:
        peers = {mode: running.enter_context(peer(python, PEERS[mode], url)) for mode in modes}
        for path in files()[LEFT_OUT][:most]:
            asked = stream(path)
            if len(asked) < FEWEST_REQUESTS:
                continue
            tried = {
                "direct": send(asked, url, handler),
                "observe": through_lamina(asked, handler, url, acts=False),
                "act": through_lamina(asked, handler, url, acts=True),
                **{mode: send(asked, own, handler, at) for mode, (own, at) in peers.items()},
            }
            hour = any(b.get("cache_control", {}).get("ttl") for b in asked[0].body["system"])
            row = Row(path.stem, hour, len(asked), tried)
            rows.append(row)
            saved = ", ".join(f"{mode} {row.saved(mode):.1%}" for mode in row.tried)
            print(f"{row.name}: {row.requests} requests; {saved}", file=sys.stderr, flush=True)
    return rows


def total_saved(rows: Sequence[Row], mode: str) -> float:
    direct = sum(sum(row.tried["direct"].bills) for row in rows)
    return 100 * (1 - sum(sum(row.tried[mode].bills) for row in rows) / direct) if direct else 0.0


# ---- processor time, memory, first byte

BARE = """
import asyncio, sys
host, port = sys.argv[1].removeprefix("http://").split(":")
async def pipe(reader, writer):
    while data := await reader.read(262144):
        writer.write(data)
        await writer.drain()
    writer.close()
async def serve(reader, writer):
    there, back = await asyncio.open_connection(host, int(port))
    await asyncio.gather(pipe(reader, back), pipe(there, writer), return_exceptions=True)
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print("http://127.0.0.1:%d" % server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""
LARGE = (400_000, 500_000)  # bytes of a body
MB = 24  # of a stream


@contextmanager
def running(*command: str) -> Iterator[tuple[int, str]]:
    """A program that prints its address first."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        yield process.pid, process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def acting(upstream: str) -> Iterator[tuple[int, str]]:
    program = str(Path(sys.executable).parent / "lamina")
    with tempfile.TemporaryDirectory() as home:
        command = [program, "--home", home, "--project", home, "gateway", "--act", "--port", "0"]
        with running(*command, "--upstream", upstream) as found:
            yield found


def post(line: HTTPConnection, data: bytes) -> None:
    line.request("POST", "/v1/messages", data, {"content-type": "application/json"})
    line.getresponse().read()


def speed(half: str) -> dict[str, float]:
    """CPU of a gateway that acts, in a process of its own, on recorded requests of about 450 KB, each in
    times of `json.loads` of it. Sessions of one half: left out, or that choices were made on. Each request
    goes to three equal gateways, and the middle one counts: two differ by 30% in one request of ten."""
    times: list[float] = []
    single: list[float] = []
    parsing: list[float] = []
    with serving(_Plain) as url, ExitStack() as stack:
        found = [stack.enter_context(acting(url)) for _ in range(3)]
        lines = [HTTPConnection(own.removeprefix("http://"), timeout=60) for _, own in found]
        for path in files()[half]:
            sent = [json.dumps(one.body).encode() for one in stream(path)]
            if sum(LARGE[0] < len(data) < LARGE[1] for data in sent) < 15:
                continue
            for data in sent:
                took: list[float] = []
                parsed: list[float] = []
                for (pid, _), line in zip(found, lines, strict=True):
                    before = time.process_time()
                    json.loads(data)
                    parsed.append(time.process_time() - before)
                    began = cpu_of(pid)
                    post(line, data)
                    if LARGE[0] < len(data) < LARGE[1]:
                        time.sleep(0.02)  # what is done beside the answer
                    took.append(cpu_of(pid) - began)
                if LARGE[0] < len(data) < LARGE[1]:
                    parsing.append(statistics.median(parsed))
                    times.append(statistics.median(took) / parsing[-1])
                    single.append(took[0] / parsed[0])
    return {
        "requests": len(times),
        "parse": 1000 * statistics.median(parsing),
        "median": statistics.median(times),
        "p95": sorted(times)[int(0.95 * len(times))],
        "single p95": sorted(single)[int(0.95 * len(single))],
    }


def memory(requests: int = 10_000) -> dict[str, float]:
    """MB after a tenth of so many requests and after all: 50 conversations at once that grow, and begin
    anew after 40 turns. They begin at 50 different turns, so that there is as much of them at any time."""
    tenth = requests // 10
    found: dict[str, float] = {}
    head = {"model": "claude-sonnet-4-6", "max_tokens": 9, "system": "Do it."}
    tools = [{"name": "Read", "input_schema": TAKES["Read"]}]
    with serving(_Plain) as url, acting(url) as (pid, own):
        line = HTTPConnection(own.removeprefix("http://"), timeout=60)
        for number in range(requests):
            who, turn = number % 50, number // 50 + number % 50 * 40 // 50
            said: list[Json] = [{"role": "user", "content": f"Task {who} of {turn // 40}: go on."}]
            for at in range(turn % 40):
                said += _turn(who, turn - turn % 40 + at)
            post(line, json.dumps({**head, "tools": tools, "messages": said}).encode())
            if number + 1 in (tenth, requests):
                found["first" if number + 1 == tenth else "last"] = resident(pid)
    return found


def _turn(who: int, turn: int) -> list[Json]:
    call = {"type": "tool_use", "id": f"t{turn}", "name": "Read", "input": {}}
    text = "".join(f"{who}.{turn}.{at} = compute({at * turn})\n" for at in range(60))
    result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": text}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


class _Plain(_Handler):
    """Answers at once, and says of every request that it was read from the cache."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self._reply({"usage": {"input_tokens": 9, "cache_read_input_tokens": 90_000}})


class _Streaming(_Handler):
    disable_nagle_algorithm = True  # as real servers do

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        event = b"event: content_block_delta\ndata: %b\n\n" % (b"x" * 400)
        many = int(self.headers.get("x-megabytes") or 0) * 2**20 // len(event) or 1
        for _ in range(many):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")


def streaming() -> dict[str, float]:
    """CPU a MB of a stream, and the time to an answer's first byte: through the gateway and through a
    bare proxy on asyncio."""
    data = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Go on."}]}).encode()
    found: dict[str, float] = {}
    with (
        serving(_Streaming) as url,
        acting(url) as gateway,
        running(sys.executable, "-c", BARE, url) as bare,
    ):
        waits: dict[str, list[float]] = {"gateway": [], "bare": []}
        for _ in range(100):
            for name, (_, own) in (("gateway", gateway), ("bare", bare)):
                line = HTTPConnection(own.removeprefix("http://"), timeout=60)
                line.connect()
                began = time.perf_counter()
                line.request("POST", "/v1/messages", data)
                line.getresponse().read(1)
                waits[name].append(1000 * (time.perf_counter() - began))
                line.close()
        for name, (pid, own) in (("gateway", gateway), ("bare", bare)):
            took: list[float] = []
            for _ in range(5):
                line = HTTPConnection(own.removeprefix("http://"), timeout=60)
                began = cpu_of(pid)
                line.request("POST", "/v1/messages", data, {"x-megabytes": str(MB)})
                answer = line.getresponse()
                while answer.read(262_144):
                    pass
                took.append(1000 * (cpu_of(pid) - began) / MB)
            found[f"{name} MB"] = statistics.median(took)
            found[f"{name} first"] = statistics.median(waits[name])
        found["bare p95"] = sorted(waits["bare"])[95]
    return found


def main() -> int:
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    python = os.environ.get("LAMINA_PEER", "")
    modes = list(PEERS) if python else []
    most = int(os.environ.get("LAMINA_SESSIONS", "0")) or None
    rows = measured(python, modes, most)
    chosen = {f"chosen {name}": value for name, value in speed(CHOSEN).items()}
    return _report(rows, modes, {**speed(LEFT_OUT), **chosen, **memory(), **streaming()})


def _report(rows: Sequence[Row], modes: Sequence[str], cost: dict[str, float]) -> int:
    short = [row for row in rows if row.requests < SHORT]
    act = total_saved(rows, "act")
    best = max([total_saved(rows, mode) for mode in modes], default=None)
    claims = sum(row.tried["act"].claimed or 0.0 for row in rows)
    truth = sum(sum(row.tried["direct"].bills) - sum(row.tried["act"].bills) for row in rows)
    worst = 100 * max((row.worst_prefix("act") for row in rows), default=0.0)
    reach = 100 * statistics.mean([row.tried["act"].in_reach for row in rows] or [1.0])
    malformed = sum(row.tried["act"].malformed for row in rows)
    back, changed = map(sum, zip(*(row.tried["act"].restored for row in rows), strict=True))
    figures = [
        at_least("gateway.saved", act, "%", 9.0),
        at_least(
            "gateway.saved.5min", total_saved([r for r in rows if not r.hour], "act"), "%", 9.0
        ),
        at_least("gateway.saved.1h", total_saved([r for r in rows if r.hour], "act"), "%", 9.0),
        at_least("gateway.saved.short", total_saved(short, "act"), "%", 3.0),
        at_most("gateway.dearer.at_any_prefix", worst, "%", 0.2),
        at_least("gateway.in_reach", reach, "%", 99.0),
        at_least("gateway.restored", 100 * back / changed if changed else 100.0, "%", 100.0),
        at_most("gateway.malformed", malformed, "requests", 0),
        at_most("gateway.claim", 100 * abs(claims / truth - 1) if truth else 0.0, "% off", 5.0),
        at_most("gateway.cpu.450k, p95", cost["p95"], "x json.loads", 3.0),
        at_most("gateway.cpu.450k, p95, choosing half", cost["chosen p95"], "x json.loads", 3.0),
        at_most("gateway.cpu.stream", cost["gateway MB"] / cost["bare MB"], "x bare proxy", 2.0),
        at_most(
            "gateway.first_byte",
            cost["gateway first"] - cost["bare first"],
            "ms later",
            cost["bare p95"],
        ),
        at_most("gateway.memory, 1,000 requests", cost["first"], "MB", 80.0),
        at_most("gateway.memory, 10,000 requests", cost["last"] / cost["first"], "x", 1.1),
        at_most("gateway.observe", abs(total_saved(rows, "observe")), "% changed", 0.0),
    ]
    if best is not None:
        figures.append(at_least("gateway.ahead_of_peer", act - best, "points", 5.0))
    _notes(rows, modes, cost, claims, truth)
    return report("gateway", figures)


def _notes(
    rows: Sequence[Row], modes: Sequence[str], cost: dict[str, float], claims: float, truth: float
) -> None:
    lines = [
        f"{len(rows)} sessions that nothing was chosen on, billed by a provider of our own, re-reads not in it.",
        "",
        "| | saved | 5 min | 1 h | < 45 requests | dearer by > 0.2% | in view | in reach | malformed |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for mode in ["act", *modes]:
        parts = [rows, [r for r in rows if not r.hour], [r for r in rows if r.hour]]
        parts.append([r for r in rows if r.requests < SHORT])
        saved = " | ".join(f"{total_saved(part, mode):.1f}%" for part in parts)
        dearer = sum(row.saved(mode) < -0.002 for row in rows)
        tried = [row.tried[mode] for row in rows]
        view = 100 * statistics.mean([one.in_view for one in tried] or [1.0])
        reach = 100 * statistics.mean([one.in_reach for one in tried] or [1.0])
        bad = sum(one.malformed for one in tried)
        name = "Lamina" if mode == "act" else mode
        lines.append(f"| {name} | {saved} | {dearer} | {view:.1f}% | {reach:.1f}% | {bad} |")
    lines.append("")
    lines.append(f"Claimed ${claims:.2f}, true ${truth:.2f} on the sessions left out.")
    lines.append(
        f"{cost['requests']:.0f} recorded requests of about 450 KB: {cost['median']:.1f} × json.loads "
        f"({cost['parse']:.1f} ms) in the median, p95 {cost['single p95']:.1f} by one process alone, "
        f"{cost['chosen median']:.1f} on {cost['chosen requests']:.0f} of the choosing half; "
        f"{cost['first']:.0f} MB after 1,000 requests in 50 "
        f"conversations at once, {cost['last']:.0f} after 10,000."
    )
    place = Path(__file__).parent / "results" / "gateway.md"
    place.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
