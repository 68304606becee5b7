"""The gateway's server (I7): everything goes through as it is, and only for programs on this machine."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.gateway.running import (
    WAIT,
    Provider,
    answers,
    asked,
    body_of,
    client_of,
    gateway_to,
    ok,
    read_message,
    request,
)
from tests.wire.server import nobodys_port

from lamina.cli.main import main
from lamina.errors import LaminaError, UsageError
from lamina.gateway.peers import Peer, Upstream
from lamina.gateway.server import Gateway
from lamina.models.heads import Head

pytestmark = pytest.mark.spec("I7")


def echoes(line: socket.socket, provider: Provider) -> None:
    while message := read_message(line):
        provider.received.append(message)
        line.sendall(ok(body_of(message)))


@pytest.fixture(scope="module")
def echo() -> Iterator[tuple[Provider, Gateway]]:
    with Provider(echoes) as provider, gateway_to(provider.url) as gateway:
        yield provider, gateway


@given(body=st.binary(max_size=5_000))
@examples(200)
def test_any_body_goes_out_and_comes_back_as_it_is(
    echo: tuple[Provider, Gateway], body: bytes
) -> None:
    provider, gateway = echo
    got = asked(gateway, request(gateway, body))
    assert body_of(provider.received[-1]) == body
    assert body_of(got) == body


def test_a_body_in_chunks_arrives_whole(echo: tuple[Provider, Gateway]) -> None:
    provider, gateway = echo
    head = request(gateway).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    got = asked(gateway, head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert body_of(provider.received[-1]) == b"abcde" == body_of(got)


def test_headers_keep_their_case_and_order_and_only_those_of_the_line_stay_behind(
    echo: tuple[Provider, Gateway],
) -> None:
    provider, gateway = echo
    own = [b"X-Api-Key: sk-1", b"anthropic-BETA: a,b", b"Accept-Encoding: br, zstd", b"X-b: 1"]
    asked(gateway, request(gateway, b"{}", *own, b"Connection: keep-alive, X-hop", b"X-hop: 2"))
    lines = provider.received[-1].partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert lines[0] == b"POST /v1/messages HTTP/1.1"
    assert lines[1] == b"Host: " + provider.url.removeprefix("http://").encode()
    assert [line for line in lines[2:] if not line.startswith(b"Content-Length")] == own


def test_a_path_of_the_provider_comes_before_that_of_the_request() -> None:
    with Provider(echoes) as provider, gateway_to(f"{provider.url}/own/v1/") as gateway:
        asked(gateway, request(gateway, b"", path=b"/odd%20one?beta=true&x=%2F", method=b"PUT"))
        assert provider.received[0].startswith(
            b"PUT /own/v1/odd%20one?beta=true&x=%2F HTTP/1.1\r\n"
        )


def test_a_compressed_answer_and_its_headers_come_back_untouched() -> None:
    packed = gzip.compress(b"words " * 1_000)
    answer = ok(packed, b"Content-Encoding: gzip", b"X-Request-ID: 1", b"x-Odd:  two  ")
    with Provider(answers(answer)) as provider, gateway_to(provider.url) as gateway:
        got = asked(gateway, request(gateway, b"{}"))
    head, _, body = got.partition(b"\r\n\r\n")
    assert body == packed
    assert head.split(b"\r\n")[:4] == [
        *(b"HTTP/1.1 200 Fine", b"Content-Encoding: gzip", b"X-Request-ID: 1", b"x-Odd: two"),
    ]


def test_head_has_the_length_and_no_body() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"
    with (
        Provider(answers(answer, answer)) as provider,
        gateway_to(provider.url) as gateway,
        client_of(gateway) as line,
    ):
        for _ in range(2):  # on one line: nobody waits for the 99 bytes
            line.sendall(request(gateway, method=b"HEAD", path=b"/"))
            got = line.recv(65_536)
            assert b"Content-Length: 99" in got
            assert got.endswith(b"\r\n\r\n")


def test_what_comes_behind_an_answer_is_nobodys() -> None:
    """A line on which more was said than was asked for is not used again."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = Peer(h11.CLIENT, ours)
        peer.say(h11.Request(method="GET", target="/", headers=[("Host", "h")]))
        peer.say(h11.EndOfMessage())
        theirs.sendall(b"HTTP/1.1 204 No\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL")
        while not isinstance(peer.next(), h11.EndOfMessage):
            pass
        assert not peer.rest()


POSTED = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\n"
ODD = [  # what stands behind the first lines of a request, or the whole head of an answer
    *(b"Content-Length: 05\r\n", b"Content-Length:5\r\n", b"Content-Length: 0\r\n", b""),
    *(b"Content-Length: 5\r\nContent-Length: 5\r\n", b"Content-Length: 5, 5\r\n"),
    *(b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Content-Length : 5\r\n"),
    *(b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"Content-Length: 5\r\nExpect: 100-continue\r\n", b"Content-Length: 5\r\nUpgrade: h2c\r\n"),
    *(b"Content-Length: 5\r\nConnection: close\r\n", b"Content-Length: 5\r\nHost: y\r\n"),
    *(
        b"Content-Length: 5\r\n folded\r\n",
        b"Content-Length: 5\nX: y\r\n",
        b"Content-Length: +5\r\n",
    ),
    *(b"Content-Length: 5\r\nX: a \r\n", b"Content-Length: 5\r\nX: \xff\r\n", b"X\0: a\r\n"),
    *(b"Content-Length: 5\r\nX: a\r\nx: b\r\n", b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n"),
    *(b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n", b"HTTP/1.1 200 OK\r\nX: y\r\n"),
    *(b"HTTP/1.1 304 No\r\nContent-Length: 5\r\n", b"HTTP/1.1 100 On\r\nContent-Length: 5\r\n"),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n",
]
ODD.append(b"HTTP/1.1 200 OK\r\nHost: x\r\n")  # says nothing of its length
USUAL = [
    *(
        b"Content-Length: 5\r\n",
        b"content-length: 123456789\r\nX-a: b: c\r\nConnection: keep-alive\r\n",
    ),
    *(b"HTTP/1.1 200 \r\nContent-Length: 5\r\n", b"HTTP/1.1 500 Bad: bad\r\nContent-Length: 5\r\n"),
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nDate: Tue, 17 Nov 2026 10:00:00 GMT\r\n",
]


@pytest.mark.parametrize("said", [*ODD, *USUAL])
def test_a_head_that_is_read_without_h11_is_what_h11_reads(said: bytes) -> None:
    asks = not said.startswith(b"HTTP/")
    data = (POSTED if asks else b"") + said + b"\r\n"
    found = Head.plain(data + b"{}", asks=asks)
    assert (found is not None) is (said in USUAL)
    assert Head.plain(data, asks=not asks) is None
    if found is None:
        return
    strict = h11.Connection(h11.SERVER if asks else h11.CLIENT)
    if not asks:
        strict.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    strict.receive_data(data)
    event, (head, end) = strict.next_event(), found
    assert (end, head.http_version) == (len(data), b"1.1")
    assert isinstance(event, h11.Request | h11.Response)
    assert head.headers == event.headers.raw_items()
    assert head.told == dict(event.headers)
    if isinstance(event, h11.Request):
        assert head.first == (event.method, event.target)
    else:
        assert (head.status, head.first[1]) == (event.status_code, event.reason)


def test_cutting_a_client_off_ends_who_is_asked_for_it() -> None:
    (client, one), (asked, other) = socket.socketpair(), socket.socketpair()
    with client, one, asked, other:
        peer = Peer(h11.SERVER, client)
        peer.asks = Peer(h11.CLIENT, asked)
        peer.cut()
        assert one.recv(1) == other.recv(1) == b""


def test_200_000_bytes_in_a_stream_have_the_same_hash() -> None:
    events = random.Random(3).randbytes(200_000)
    chunks = [events[at : at + 777] for at in range(0, len(events), 777)]
    body = b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in chunks) + b"0\r\n\r\n"
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with Provider(answers(head + body)) as provider, gateway_to(provider.url) as gateway:
        got = body_of(asked(gateway, request(gateway, b"{}")))
    assert hashlib.sha256(got).digest() == hashlib.sha256(events).digest()


def test_an_event_is_passed_on_before_the_next_one_exists() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

    def speak(line: socket.socket, provider: Provider) -> None:
        read_message(line)
        line.sendall(head + b"data: one\n\n")
        assert provider.go_on.wait(WAIT)  # the client has seen it
        line.sendall(b"data: two\n\n")

    with (
        Provider(speak) as provider,
        gateway_to(provider.url) as gateway,
        client_of(gateway) as line,
    ):
        line.sendall(request(gateway, b"{}"))
        got = b""
        while b"data: one\n\n" not in got:
            got += line.recv(65_536)
        provider.go_on.set()
        while b"data: two\n\n" not in got:
            got += line.recv(65_536)


def test_a_client_that_does_not_read_holds_the_provider_back() -> None:
    sent = [0]

    def speak(line: socket.socket, provider: Provider) -> None:
        read_message(line)
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        line.settimeout(0.5)
        try:
            while sent[0] < 1_000_000_000:
                sent[0] += line.send(bytes(1_000_000))
        except TimeoutError:
            provider.left.set()

    with (
        Provider(speak) as provider,
        gateway_to(provider.url) as gateway,
        client_of(gateway) as line,
    ):
        line.sendall(request(gateway, b"{}"))
        assert provider.left.wait(WAIT)
        assert sent[0] < 100_000_000, "most of it was never taken"


def test_a_client_that_leaves_ends_the_request_at_the_provider() -> None:
    def speak(line: socket.socket, provider: Provider) -> None:
        read_message(line)
        provider.go_on.set()
        if not line.recv(1):  # before a byte of the answer
            provider.left.set()

    with Provider(speak) as provider, gateway_to(provider.url) as gateway:
        with client_of(gateway) as line:
            line.sendall(request(gateway, b"{}"))
            assert provider.go_on.wait(WAIT)
        assert provider.left.wait(WAIT)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n9\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nnonsense\r\n",
    ],
)
def test_half_an_answer_looks_like_half_an_answer(answer: bytes) -> None:
    with (
        Provider(answers(answer)) as provider,
        gateway_to(provider.url) as gateway,
        client_of(gateway) as line,
    ):
        line.sendall(request(gateway, b"{}"))
        got = b""
        while piece := line.recv(65_536):
            got += piece
    assert got == answer, "all that came, and no end"


@pytest.mark.parametrize("answer", [b"", b"no HTTP at all\r\n\r\n", b"HTTP/1.1 200 OK\r\nA b\r\n"])
def test_what_is_no_answer_is_told_as_502(answer: bytes) -> None:
    with Provider(answers(answer)) as provider, gateway_to(provider.url) as gateway:
        assert asked(gateway, request(gateway, b"{}")).startswith(b"HTTP/1.1 502 ")


def test_a_provider_that_is_not_there_is_told_as_502() -> None:
    with nobodys_port() as port, gateway_to(f"http://127.0.0.1:{port}") as gateway:
        got = asked(gateway, request(gateway, b"{}"))
    assert got.startswith(b"HTTP/1.1 502 ")
    assert b"can't be reached" in got


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    for name in ("NO_PROXY", "no_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return lambda url: monkeypatch.setenv("HTTPS_PROXY", url)


def test_a_provider_behind_a_proxy_is_reached_through_it(proxied: Callable[[str], None]) -> None:
    def speak(line: socket.socket, proxy: Provider) -> None:
        proxy.received.append(read_message(line))
        line.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        proxy.received.append(line.recv(65_536))

    with Provider(speak) as proxy, gateway_to("https://api.example/v1") as gateway:
        proxied(proxy.url.replace("//", "//me:p%40ss@"))
        got = asked(gateway, request(gateway, b"{}", b"x-api-key: sk-secret"))
    asks, hello = proxy.received
    assert asks.startswith(b"CONNECT api.example:443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic bWU6cEBzcw==" in asks
    assert b"sk-secret" not in asks
    assert hello.startswith(b"\x16\x03")  # TLS from here on, for the provider
    assert b"api.example" in hello
    assert b" 502 " in got  # this one hung up


@pytest.mark.parametrize("answer", [b"HTTP/1.1 407 Who are you\r\n\r\n", b""])
def test_a_proxy_that_refuses_is_told_as_502(proxied: Callable[[str], None], answer: bytes) -> None:
    with Provider(answers(answer)) as proxy, gateway_to("https://api.example") as gateway:
        proxied(proxy.url)
        got = asked(gateway, request(gateway, b"{}"))
    assert b" 502 " in got
    assert b"the proxy 127.0.0.1 " in got


@pytest.mark.parametrize("login", ["me:hun/ter2", "me:hun#ter2", "[me:hunter2"])
def test_a_proxy_that_is_no_address_is_told_without_its_password(
    proxied: Callable[[str], None], login: str
) -> None:
    proxied(f"http://{login}@proxy.example:3128")
    with gateway_to("https://api.example") as gateway:
        got = asked(gateway, request(gateway, b"{}"))
    assert got.startswith(b"HTTP/1.1 502 ")
    assert b"HTTPS_PROXY" in got
    assert b"hun" not in got


def test_what_no_proxy_names_and_what_is_not_encrypted_goes_directly(
    proxied: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Provider(answers(ok(b"{}"))) as provider, gateway_to(provider.url) as gateway:
        proxied("http://proxy.example:3128")
        assert b" 200 " in asked(gateway, request(gateway, b"{}"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with gateway_to("https://127.0.0.1:9") as gateway:
        assert b"proxy" not in asked(gateway, request(gateway, b"{}"))


def test_errors_of_the_provider_come_back_at_once_and_whole() -> None:
    body = b'{"type":"error","error":{"type":"rate_limit_error"}}'
    answer = b"HTTP/1.1 429 Slow\r\nretry-after: 7\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )
    with Provider(answers(answer)) as provider, gateway_to(provider.url) as gateway:
        got = asked(gateway, request(gateway, b"{}"))
    assert got.startswith(b"HTTP/1.1 429 Slow\r\nretry-after: 7\r\n")
    assert got.endswith(body)
    assert len(provider.received) == 1


def test_a_line_serves_many_requests_and_so_does_the_one_to_the_provider(
    echo: tuple[Provider, Gateway],
) -> None:
    _, gateway = echo
    with client_of(gateway) as line:
        for number in range(5):
            line.sendall(request(gateway, b"%d" % number))
            assert body_of(read_message(line)) == b"%d" % number


def test_what_a_provider_says_unasked_is_nobody_s_answer() -> None:
    late = b"HTTP/1.1 408 Too slow\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    def speak(line: socket.socket, provider: Provider) -> None:
        provider.received.append(read_message(line))
        line.sendall(ok(b"%d" % len(provider.received)))
        provider.go_on.wait(WAIT)
        line.sendall(late)
        provider.left.set()
        line.recv(1)  # the gateway hangs up

    with Provider(speak) as provider, gateway_to(provider.url) as gateway:
        assert body_of(asked(gateway, request(gateway, b"{}"))) == b"1"
        provider.go_on.set()
        assert provider.left.wait(WAIT)
        assert body_of(asked(gateway, request(gateway, b"{}"))) == b"2"


def test_requests_that_were_sent_ahead_are_answered_in_turn(echo: tuple[Provider, Gateway]) -> None:
    _, gateway = echo
    with client_of(gateway) as line:
        line.sendall(b"".join(request(gateway, b"<%d>" % number) for number in range(3)))
        got = b""
        while b"<2>" not in got:
            got += line.recv(65_536)
    assert got.index(b"<0>") < got.index(b"<1>") < got.index(b"<2>")


def test_http_1_0_gets_an_answer_and_the_end_of_the_line(echo: tuple[Provider, Gateway]) -> None:
    _, gateway = echo
    with client_of(gateway) as line:
        line.sendall(b"POST /v1/x HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi")
        got = b""
        while piece := line.recv(65_536):
            got += piece
    assert got.startswith(b"HTTP/1.1 200")
    assert got.endswith(b"hi")


def test_headers_of_one_name_are_told_together() -> None:
    head = Head((b"GET", b"/"), [(b"A", b"1"), (b"b", b"2"), (b"a", b"3")])
    assert head.told == {b"a": b"1,3", b"b": b"2"}


def test_a_client_that_wants_the_end_of_the_line_among_other_things_gets_it(
    echo: tuple[Provider, Gateway],
) -> None:
    _, gateway = echo
    with client_of(gateway) as line:
        line.sendall(request(gateway, b"hi", b"Connection: close", b"Connection: keep-alive"))
        got = b""
        while piece := line.recv(65_536):
            got += piece
    assert got.endswith(b"\r\n\r\nhi")


def test_a_client_that_waits_for_a_go_gets_it(echo: tuple[Provider, Gateway]) -> None:
    _, gateway = echo
    with client_of(gateway) as line:
        line.sendall(request(gateway, b"abc", b"Expect: 100-continue").removesuffix(b"abc"))
        assert line.recv(65_536).startswith(b"HTTP/1.1 100 ")
        line.sendall(b"abc")
        assert body_of(read_message(line)) == b"abc"


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"Origin: https://evil.example", b"403"),
        (b"Origin: null", b"403"),
        (b"Sec-Fetch-Site: cross-site", b"403"),
        (b"Transfer-Encoding: chunked", b"400"),
        (b"Content-Length: 7", b"400"),
        (b"Host: 127.0.0.1", b"400"),
        (b"A\x00: b", b"400"),
    ],
)
def test_web_pages_and_requests_of_two_minds_are_refused(
    echo: tuple[Provider, Gateway], header: bytes, status: bytes
) -> None:
    provider, gateway = echo
    before = len(provider.received)
    got = asked(gateway, request(gateway, b"{}", header))
    assert got.split()[1] == status
    assert len(provider.received) == before


@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
@pytest.mark.parametrize("name", [b"evil.example", b"127.0.0.1", b"127.0.0.1:1", b"localhost.a:80"])
def test_a_name_that_is_not_this_machine_s_is_refused(
    echo: tuple[Provider, Gateway], name: bytes, version: bytes
) -> None:
    _, gateway = echo
    own = b"Host: 127.0.0.1:%d" % gateway.port
    said = request(gateway).replace(own, b"Host: " + name).replace(b"HTTP/1.1", version)
    got = asked(gateway, said)
    assert got.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "line", [b"GET http://127.0.0.1/ HTTP/1.1", b"CONNECT a:443 HTTP/1.1", b"GET * HTTP/1.1"]
)
def test_it_is_no_general_proxy(echo: tuple[Provider, Gateway], line: bytes) -> None:
    provider, gateway = echo
    before = len(provider.received)
    got = asked(gateway, request(gateway, method=b"@").replace(b"@ /v1/messages HTTP/1.1", line))
    assert got.startswith(b"HTTP/1.1 400 ")
    assert len(provider.received) == before


@pytest.mark.parametrize("junk", [b"\x16\x03\x01\x02", b"GET\r\n\r\n", b"A" * 400_000, b"\r\n" * 9])
def test_junk_ends_its_own_line_only(echo: tuple[Provider, Gateway], junk: bytes) -> None:
    _, gateway = echo
    with client_of(gateway) as line, suppress(OSError):
        line.sendall(junk)
        line.shutdown(socket.SHUT_WR)
        while line.recv(65_536):
            pass
    assert body_of(asked(gateway, request(gateway, b"still there"))) == b"still there"


@pytest.mark.parametrize(
    "url", ["api.example", "ftp://a", "http://", "https://key@a", "https://a?key=1", "http://a:x"]
)
def test_an_address_that_can_t_be_one_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        Upstream(url)


def test_a_port_that_is_taken_and_a_gateway_before_itself_are_told() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(LaminaError, match="Can't listen"),
    ):
        Gateway(Upstream("http://a.example")).start(taken.getsockname()[1])
    with nobodys_port() as port, pytest.raises(LaminaError, match="this gateway itself"):
        Gateway(Upstream(f"http://127.0.0.1:{port}")).start(port)


def test_a_line_that_waits_is_taken_up_and_one_that_was_cut_is_not() -> None:
    with Provider(echoes) as provider:
        upstream = Upstream(provider.url)
        peer = upstream.connect()
        peer.say(h11.Request(method="GET", target="/", headers=[("Host", "here")]))
        peer.say(h11.EndOfMessage())
        while not isinstance(peer.next(), h11.EndOfMessage):
            pass
        upstream.done_with(peer, last=False)
        assert upstream.connect() is peer
        assert peer.wakes()
        peer.cut()
        assert not peer.wakes()
        peer.close()


@pytest.mark.parametrize("how", ["it ends", "it speaks", "it breaks", "it is closed here"])
def test_a_line_that_broke_while_it_waited_is_not_taken_up(how: str) -> None:
    ours, theirs = socket.socketpair()
    with theirs, ours:
        peer = Peer(h11.CLIENT, ours)
        peer.since = time.monotonic()
        assert peer.wakes()
        if how == "it speaks":
            theirs.sendall(b"HTTP/1.1 408 Too slow")
        elif how == "it breaks":
            ours.sendall(b"unread")
            theirs.close()
        elif how == "it ends":
            theirs.shutdown(socket.SHUT_WR)
        else:
            ours.close()
        assert not peer.wakes()


TOKEN = "a-token-that-is-long-enough"


@pytest.fixture
def guarded() -> Iterator[tuple[Provider, Gateway]]:
    with Provider(echoes) as provider:
        gateway = Gateway(Upstream(provider.url), None, TOKEN)
        gateway.start(0, "0.0.0.0")
        yield provider, gateway
        gateway.close()


@pytest.mark.parametrize("host", [b"127.0.0.1:1", b"build-host.example:8787"])
@pytest.mark.parametrize(
    ("path", "header", "arrives"),
    [
        (f"/t/{TOKEN}/v1/messages?a=/t/", "A: b", b"/v1/messages?a=/t/"),
        (f"/t/{TOKEN}/t/x", f"X-Lamina-Token: {TOKEN}", b"/t/x"),
        ("/t/other/models", f"x-lamina-token: {TOKEN}", b"/t/other/models"),
        (f"/t/{TOKEN}/", "x-lamina-token: wrong", b"/"),
        (f"/t/{TOKEN}/v1", f"Referer: http://build-host:8787/t/{TOKEN}/page", b"/v1"),
    ],
)
def test_who_knows_the_token_gets_in_and_the_provider_never_sees_it(
    guarded: tuple[Provider, Gateway], path: str, header: str, arrives: bytes, host: bytes
) -> None:
    provider, gateway = guarded
    own = b"Host: 127.0.0.1:%d" % gateway.port
    said = request(gateway, b"{}", header.encode(), b"X-Api-Key: sk-1", path=path.encode())
    assert body_of(asked(gateway, said.replace(own, b"Host: " + host))) == b"{}"
    (came,) = provider.received
    assert came.split()[1] == arrives
    assert b"X-Api-Key: sk-1" in came
    assert TOKEN.encode() not in came
    assert b"lamina-token" not in came.lower()


@pytest.mark.parametrize(
    ("path", "header", "status"),
    [
        ("/v1/messages", "A: b", b"401"),
        ("/v1/messages", f"Authorization: Bearer {TOKEN}", b"401"),
        (f"/t/{TOKEN}", "A: b", b"401"),
        (f"/t/{TOKEN}/t/{TOKEN}/v1/messages", "A: b", b"401"),
        (f"/t/{TOKEN[:-1]}/v1/messages", "A: b", b"401"),
        (f"/t/{TOKEN}x/v1/messages", "x-lamina-token:", b"401"),
        (f"/T/{TOKEN}/v1/messages", "x-lamina-token: \xff", b"401"),
        (f"/t/{TOKEN}/v1/messages", "Origin: https://evil.example", b"403"),
        (f"/t/{TOKEN}/v1/messages", "Sec-Fetch-Site: cross-site", b"403"),
    ],
)
def test_without_the_token_nobody_gets_in_nor_a_web_page_with_it(
    guarded: tuple[Provider, Gateway], path: str, header: str, status: bytes
) -> None:
    provider, gateway = guarded
    said = request(gateway, b"{}", header.encode("latin-1"), path=path.encode())
    got = asked(gateway, said)
    assert got.split()[1] == status
    assert provider.received == []
    error = json.loads(body_of(got))["error"]
    assert error["message"].startswith("Lamina: ")
    assert TOKEN not in error["message"]
    assert (error["type"] == "authentication_error") == (status == b"401")


def test_a_stranger_who_says_nothing_holds_no_line_for_long(
    guarded: tuple[Provider, Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, gateway = guarded
    with client_of(gateway) as known:  # within the usual time
        known.sendall(request(gateway, b"{}", path=f"/t/{TOKEN}/v1".encode()))
        assert body_of(read_message(known)) == b"{}"
        monkeypatch.setattr("lamina.gateway.server._ASKS", 0.01)
        with client_of(gateway) as silent:
            assert silent.recv(1) == b""
        known.sendall(request(gateway, b"[]", path=f"/t/{TOKEN}/v1".encode()))
        assert body_of(read_message(known)) == b"[]"


def test_another_host_needs_a_token_that_can_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["gateway", "--home", str(tmp_path), "--port", "0", "--host", "0.0.0.0"]
    assert main(words) == 2
    assert "needs a token" in capsys.readouterr().err
    for bad in ("short", "with a space in it, and long", "ümläute-in-a-long-token"):
        monkeypatch.setenv("LAMINA_GATEWAY_TOKEN", bad)
        assert main(words) == 2
        assert "20 or more" in (said := capsys.readouterr().err)
        assert bad not in said
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    assert main([*words, "--token-file", str(file)]) == 2
    assert "chmod 600" in capsys.readouterr().err
    file.write_text("\n")
    file.chmod(0o600)
    for host in ("0.0.0.0", "127.0.0.1"):  # whoever names a file wants a token
        assert main([*words, "--host", host, "--token-file", str(file)]) == 2
        assert "20 or more" in capsys.readouterr().err
    assert main([*words, "--token-file", str(tmp_path)]) == 2
    assert "token" in capsys.readouterr().err


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """For 127.0.0.1, and trusted as programs on Node are told to."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed")
    key, proof = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    named = ["-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", proof]
    subprocess.run([*made, "-days", "2", *named], check=True, capture_output=True)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", proof)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(proof, key)
    return context


def test_an_encrypted_line_serves_many_requests_whole(certificate: ssl.SSLContext) -> None:
    lines: list[socket.socket] = []

    def speak(line: socket.socket, provider: Provider) -> None:
        lines.append(line)
        with certificate.wrap_socket(line, server_side=True) as spoken:
            echoes(spoken, provider)

    with Provider(speak) as provider:
        url = provider.url.replace("http://", "https://")
        with gateway_to(url) as gateway, client_of(gateway) as line:
            for size in (5, 700_000, 0, 70_000):
                body = random.Random(size).randbytes(size)
                line.sendall(request(gateway, body))
                assert body_of(read_message(line)) == body
    assert len(lines) == 1, "what the encryption says for itself is no answer"


def test_a_client_that_leaves_ends_its_request_on_an_encrypted_line(
    certificate: ssl.SSLContext,
) -> None:
    def speak(line: socket.socket, provider: Provider) -> None:
        with certificate.wrap_socket(line, server_side=True) as spoken:
            read_message(spoken)
            provider.go_on.set()
            if not spoken.recv(1):  # before a byte of the answer
                provider.left.set()

    with (
        Provider(speak) as provider,
        gateway_to(provider.url.replace("http://", "https://")) as gateway,
    ):
        with client_of(gateway) as line:
            line.sendall(request(gateway, b"{}"))
            assert provider.go_on.wait(WAIT)
        assert provider.left.wait(WAIT)


def test_an_answer_of_two_lengths_is_passed_on_with_the_one_that_counts() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    with (
        Provider(answers(head + b"4\r\nbody\r\n0\r\n\r\n")) as provider,
        gateway_to(provider.url) as gateway,
    ):
        got = asked(gateway, request(gateway, b"{}"))
    assert b"content-length" not in got.lower()
    assert body_of(got) == b"body"
