"""What comes through a gateway is not always nice (I7): other providers' forms, huge bodies, jumping clocks,
clients that share a name, kills in the middle.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import Any

import anthropic
import pytest
import zstandard
from tests.gateway.running import (
    READ,
    WAIT,
    Agent,
    Provider,
    answers,
    asking,
    body_of,
    client_of,
    ok,
    read_message,
    request,
    work,
)
from tests.wire.server import WireServer, fails

import lamina

pytestmark = pytest.mark.spec("I7")
NAMED = re.compile(r"\[Old tool result content cleared; all of it is in (\S+?)\]")
Json = dict[str, Any]


@pytest.fixture
def agent(tmp_path: Path, wire: WireServer) -> Iterator[Agent]:
    with Agent(tmp_path / "work", wire) as agent:
        yield agent


def result(number: int) -> str:
    return "\n".join(f"{number}.{line} is {number * line}" for line in range(200))


def chat(rounds: int) -> Json:
    messages: list[Json] = [{"role": "system", "content": "s"}, {"role": "user", "content": "Go."}]
    for n in range(rounds):
        function = {"name": "read", "arguments": json.dumps({"filePath": f"/{n}"})}
        call = {"id": f"c{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": result(n)})
    takes = {"type": "object", "properties": {"filePath": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "read", "parameters": takes}}
    return {"model": "gpt-5.2", "messages": messages, "tools": [tool]}


def responses(rounds: int) -> Json:
    items: list[Json] = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "s"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go."}]},
    ]
    for n in range(rounds):
        given = json.dumps({"cmd": f"cat {n}"})
        items.append({"type": "reasoning", "encrypted_content": "e" * 50, "summary": []})
        items.append(
            {
                "type": "function_call",
                "call_id": f"c{n}",
                "name": "exec_command",
                "arguments": given,
            }
        )
        items.append({"type": "function_call_output", "call_id": f"c{n}", "output": result(n)})
    takes = {"type": "object", "properties": {"cmd": {"type": "string"}}}
    tool = {"type": "function", "name": "exec_command", "parameters": takes}
    return {"model": "gpt-5.2-codex", "input": items, "tools": [tool], "store": False}


def gemini(rounds: int) -> Json:
    contents: list[Json] = [{"role": "user", "parts": [{"text": "Go."}]}]
    for n in range(rounds):
        call = {"name": "read_file", "args": {"absolute_path": f"/{n}"}, "id": f"f{n}"}
        given = {"name": "read_file", "id": f"f{n}", "response": {"output": result(n)}}
        contents.append(
            {"role": "model", "parts": [{"functionCall": call, "thoughtSignature": "s"}]}
        )
        contents.append({"role": "user", "parts": [{"functionResponse": given}]})
    takes = {"type": "object", "properties": {"absolute_path": {"type": "string"}}}
    tool = {"name": "read_file", "parametersJsonSchema": takes}
    return {"contents": contents, "tools": [{"functionDeclarations": [tool]}]}


@pytest.mark.parametrize(
    ("path", "made"),
    [
        ("/v1/chat/completions", chat),
        ("/v1/responses", responses),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", gemini),
    ],
)
def test_other_providers_forms_are_served_alike(
    agent: Agent, path: str, made: Callable[[int], Json]
) -> None:
    bodies = [json.dumps(made(rounds), indent=1).encode() for rounds in (8, 9, 10)]
    with Provider(answers(ok(b"{}"))) as provider:
        agent.upstream = provider.url
        for number, body in enumerate(bodies):
            agent.restart()
            assert agent.post(body, path)[0] == 200
            agent.now += 90_000 if number == 0 else 10
        raw = [body_of(one) for one in provider.received]
    assert raw[0] == bodies[0]
    out = NAMED.findall(raw[1].decode())
    assert len(out) == 4
    assert [Path(one).read_text("utf-8") for one in out] == [result(n) for n in range(4)]
    assert NAMED.findall(raw[2].decode()) == out
    again = raw[1].decode()
    for n, name in enumerate(out):
        marker = json.dumps(f"[Old tool result content cleared; all of it is in {name}]")
        again = again.replace(marker, json.dumps(result(n)))
    assert again.encode() == bodies[1], "nothing else is other bytes"


def test_a_hundred_megabytes_go_through_unread(agent: Agent) -> None:
    size = 100 * 2**20
    piece = b"x" * 2**20
    with client_of(agent.gateway) as line:
        head = request(agent.gateway, path=b"/v1/messages").replace(
            b"Content-Length: 0", b"Content-Length: %d" % size
        )
        line.sendall(head)
        for _ in range(size // len(piece)):
            line.sendall(piece)
        got = read_message(line)
    assert got.startswith(b"HTTP/1.1 ")
    assert agent.ledgers() == []
    assert len(agent.wire.received[-1].raw) == size


@pytest.mark.parametrize(
    ("name", "packed"), [("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress)]
)
def test_a_compressed_request_goes_through_unread(
    agent: Agent, name: str, packed: Callable[[bytes], bytes]
) -> None:
    body, raw = packed(json.dumps(asking(work(8))).encode()), list[bytes]()
    agent.headers["Content-Encoding"] = name
    agent.wire.answer_to = lambda received: raw.append(received.raw) or fails(400)  # type: ignore[method-assign]
    assert agent.post(body)[0] == 400
    assert raw == [body]
    assert agent.ledgers() == []


@pytest.mark.parametrize("wrong", [(b"},\n  {", b"}\n  {"), (b"\n ]", b",\n ]"), (b"\n ]", b"")])
def test_what_begins_with_what_is_known_and_is_no_json_goes_through_as_it_is(
    agent: Agent, wrong: tuple[bytes, bytes]
) -> None:
    def body(said: list[Json]) -> bytes:
        return json.dumps({**asking(said), "messages": said}, indent=1).encode()

    messages, raw = work(8), list[bytes]()
    agent.post(body(messages))
    (ledger,) = agent.ledgers()
    agent.now += 4_000
    agent.wire.answer_to = lambda received: raw.append(received.raw) or fails(400)  # type: ignore[method-assign]
    good = body([*messages, {"role": "assistant", "content": "Well."}])
    at = good.rindex(wrong[0])
    bad = good[:at] + wrong[1] + good[at + len(wrong[0]) :]
    assert agent.post(bad)[0] == 400
    assert raw == [bad]
    agent.restart()
    assert b"Well." not in ledger.read_bytes()
    assert len(agent.told) == 1


def test_a_client_in_lamina_wrap_is_not_edited_once_more(agent: Agent, tmp_path: Path) -> None:
    messages = work(2)
    messages[-1]["content"][0]["content"] = "\n".join(f"{n} is {n * n}" for n in range(20_000))
    given: Json = {"model": "claude-sonnet-4-6", "max_tokens": 9, "tools": [READ]}
    with anthropic.Anthropic(base_url=agent.gateway.url, api_key="k", max_retries=0) as bare:
        wrapped = lamina.wrap(bare, tmp_path, home=tmp_path / "own")
        wrapped.messages.create(**given, messages=messages)
    assert "<persisted-output>" in agent.wire.received[-1].raw.decode()
    assert agent.desk.totals.edited == 0
    agent.ask(messages)
    assert "<persisted-output>" in agent.wire.received[-1].raw.decode()
    agent.restart()
    assert "/own/" in agent.wire.received[0].raw.decode()
    assert "/work/" in agent.wire.received[-1].raw.decode()


def test_a_clock_that_jumps_breaks_nothing(agent: Agent) -> None:
    messages = work(8)
    agent.ask(messages)
    for start, jump in enumerate((-5_000_000, 9_000_000_000, -1), 8):
        agent.now += jump
        messages += work(1, start=start)
        body = agent.ask(messages)
        assert len(body["messages"]) == len(messages)
    assert agent.told == []
    assert len(agent.ledgers()) == 1


def test_two_clients_of_one_name_never_see_each_other(agent: Agent) -> None:
    agent.headers["x-claude-code-session-id"] = "same"
    one, other = work(8, topic="one "), work(8, topic="other ")
    for messages in (one, other):
        agent.ask(messages, seconds=1)
    agent.now += 4_000
    for messages, topic in ((one, "other "), (other, "one ")):
        body = json.dumps(agent.ask([*messages, *work(1, start=8)], seconds=1))
        for path in NAMED.findall(body):
            assert f"{topic}0.1 " not in Path(path).read_text("utf-8")
        assert f"{topic}7.1 " not in body
    assert len(agent.ledgers()) == 2


def started(agent: Agent, *more: str) -> tuple[subprocess.Popen[str], int]:
    """The command itself, as a process."""
    words = ["gateway", "--port", "0", "--upstream", agent.wire.anthropic_url, *more]
    home = ["--home", str(agent.folder / "home"), "--project", str(agent.folder)]
    gateway = subprocess.Popen(
        [str(Path(sys.executable).parent / "lamina"), *words, *home],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOME": str(agent.folder)},
    )
    assert gateway.stdout is not None
    return gateway, int(gateway.stdout.readline().rsplit(":", 1)[1])


def test_a_gateway_that_is_killed_loses_no_request_and_the_next_one_goes_on(agent: Agent) -> None:
    messages = work(2)
    sent: list[bytes] = []
    for killed in (True, False):
        gateway, port = started(agent, "--act")
        with gateway:
            for _ in range(2):
                line = HTTPConnection("127.0.0.1", port, timeout=WAIT)
                body = json.dumps(asking(messages)).encode()
                line.request("POST", "/v1/messages", body, agent.headers)
                assert line.getresponse().read()
                line.close()
                sent.append(body)
                messages += work(1, start=len(messages) // 2)
            gateway.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
            told = gateway.communicate(timeout=WAIT)[1]
    assert [one.raw for one in agent.wire.received] == sent
    assert len(agent.ledgers()) == 1
    assert gateway.returncode == 0
    assert "billed in 2 requests" in told


def test_a_token_is_made_and_shown_once_and_stands_in_its_own_file_alone(agent: Agent) -> None:
    file, told, token = agent.folder / "token", list[str](), ""
    for _ in range(2):
        words = "--act", "--host", "0.0.0.0", "--token-file", str(file)
        gateway, port = started(agent, *words)
        with gateway:
            token = file.read_text()
            for path in ("/v1/messages", f"/t/{token}/v1/messages"):
                line = HTTPConnection("127.0.0.1", port, timeout=20)
                line.request("POST", path, json.dumps(asking(work(2))).encode(), agent.headers)
                answer = line.getresponse()
                answer.read()
                assert answer.status == (200 if token in path else 401)
                line.close()
            gateway.send_signal(signal.SIGTERM)
            told.append("".join(gateway.communicate(timeout=20)))
    assert [one.count(token) for one in told] == [1, 0]
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(agent.wire.received) == 2
    assert not any(token in str(one.headers) + one.path for one in agent.wire.received)
    others = [one for one in agent.folder.rglob("*") if one.is_file() and one != file]
    assert len(others) > 1
    assert not any(token.encode() in one.read_bytes() for one in others)


def test_an_answer_in_one_piece_reaches_a_client_that_pipelines(agent: Agent) -> None:
    body = json.dumps(asking(work(1), stream=False)).encode()
    with client_of(agent.gateway) as line:
        line.sendall(request(agent.gateway, body) * 2)
        first = read_message(line)
        assert b"usage" in body_of(first)


def test_a_provider_that_hangs_up_on_a_request_is_told_as_502(
    tmp_path: Path, wire: WireServer
) -> None:
    def speak(line: socket.socket, _: Provider) -> None:
        line.recv(1)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with Provider(speak) as provider:
        agent = Agent(tmp_path / "work", wire)
        agent.upstream = provider.url
        with agent, client_of(agent.gateway) as line:
            line.sendall(request(agent.gateway, b"x" * 20_000_000))  # more than waits in a line
            assert read_message(line).startswith(b"HTTP/1.1 502 ")


@pytest.fixture
def bodies() -> list[bytes]:
    return [json.dumps(asking(work(2), number=number)).encode() for number in range(3)]


def test_a_body_that_is_looked_at_ends_where_its_length_says(
    tmp_path: Path, wire: WireServer, bodies: list[bytes]
) -> None:
    answer = [b"HTTP/1.1 204 Nothing\r\n\r\n", ok(b"two"), ok(b"three")]
    with Provider(answers(*answer)) as provider:
        agent = Agent(tmp_path / "work", wire)
        agent.upstream = provider.url
        with agent, client_of(agent.gateway) as line:
            sent = b"".join(request(agent.gateway, body) for body in bodies)
            cuts = [0, sent.index(bodies[0]), len(sent) // 2, len(sent)]
            for start, end in pairwise(cuts):  # the end of one, and others
                line.sendall(sent[start:end])
            got = b""
            while not got.endswith(b"three"):
                got += line.recv(65_536)
        assert [body_of(one) for one in provider.received] == bodies
    assert got.startswith(b"HTTP/1.1 204 ")
    assert b"\r\n\r\ntwoHTTP/1.1 200 " in got


def test_an_answer_to_http_1_0_that_comes_in_one_piece_has_its_body(
    tmp_path: Path, wire: WireServer, bodies: list[bytes]
) -> None:
    agent = Agent(tmp_path, wire)
    with Provider(answers(ok(b"hello"))) as provider:
        agent.upstream = provider.url
        with agent, client_of(agent.gateway) as line:
            sent = request(agent.gateway, bodies[0])
            line.sendall(sent.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
            got = b""
            while piece := line.recv(65_536):
                got += piece
    assert got.endswith(b"\r\n\r\nhello")


def test_who_is_looked_at_may_wait_for_a_go(agent: Agent, bodies: list[bytes]) -> None:
    whole = request(agent.gateway, bodies[0], b"Expect: 100-continue")
    with client_of(agent.gateway) as line:
        line.sendall(whole.removesuffix(bodies[0]))
        assert line.recv(65_536) == b"HTTP/1.1 100 \r\n\r\n"
        line.sendall(bodies[0])
        assert b" 200 " in line.recv(65_536)
    assert agent.wire.received[-1].body["number"] == 0


def test_half_a_body_is_no_request(agent: Agent, bodies: list[bytes]) -> None:
    with client_of(agent.gateway) as line:
        line.sendall(request(agent.gateway, bodies[0])[:-1])
        line.shutdown(socket.SHUT_WR)
        assert read_message(line).startswith(b"HTTP/1.1 400 ")
    assert not agent.wire.received


@pytest.mark.parametrize("looked_at", [True, False])
def test_a_client_that_left_before_its_request_went_out_ends_it(
    tmp_path: Path, wire: WireServer, bodies: list[bytes], looked_at: bool
) -> None:
    def speak(line: socket.socket, provider: Provider) -> None:
        read_message(line)
        if not line.recv(1):  # nothing was said to it
            provider.left.set()

    with Provider(speak) as provider:
        agent = Agent(tmp_path / "work", wire)
        agent.upstream = provider.url
        path = b"/v1/messages" if looked_at else b"/v1/other"
        with agent, client_of(agent.gateway) as line:
            first = request(agent.gateway, bodies[0], path=path)
            line.sendall(first + first)  # the second stays unread
            line.shutdown(socket.SHUT_WR)
            assert provider.left.wait(WAIT)
