"""The server over real HTTP: who may do what, what is kept, and what bad input gets."""

from __future__ import annotations

import itertools
import json
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.team.people import GITHUB, Server, start, stop, topic

from lamina.cli.main import main
from lamina.errors import UsageError
from lamina.team.database import Database, DatabaseAway, Stale, Token, engine_at
from lamina.team.entries import EMPTY, LARGEST_FILE, sha256

API = "/api/team_memory"
SHOP = f"{API}?repo=acme/shop"
FACT = topic("The mill stands in Lyon")


def put(
    server: Server, token: str, entries: Any, etag: str = EMPTY, path: str = SHOP
) -> tuple[int, Any, dict[str, str]]:
    body = {"entries": {key: {"content": text} for key, text in entries.items()}}
    return server.ask("PUT", path, token, body, {"If-Match": f'"{etag}"'})


@pytest.fixture(params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest) -> Server:
    """One suite for both databases."""
    sqlite = request.param == "sqlite"
    return request.getfixturevalue("sqlite_server" if sqlite else "postgresql_server")


@pytest.fixture
def ana(server: Server, tenant: str) -> str:
    return server.token("ana", tenant, "acme/*")


@pytest.mark.spec("T2", "T3")
def test_a_write_needs_the_state_that_it_was_made_on(server: Server, ana: str) -> None:
    body = {"entries": {"a.md": {"content": FACT}}}
    assert server.ask("PUT", SHOP, ana, body)[0] == 428
    status, first, headers = put(server, ana, {"a.md": FACT})
    assert status == 200
    assert headers["etag"] == f'"{first["etag"]}"'
    assert put(server, ana, {"b.md": FACT})[0] == 412
    assert put(server, ana, {"b.md": topic("Another")}, first["etag"])[0] == 200


@pytest.mark.spec("T2")
def test_a_pull_with_nothing_new_is_one_small_answer(server: Server, ana: str) -> None:
    etag = put(server, ana, {"a.md": FACT})[1]["etag"]
    status, text, headers = server.ask("GET", SHOP, ana, None, {"If-None-Match": f'"{etag}"'})
    assert (status, text) == (304, "")
    assert sum(len(name) + len(value) + 4 for name, value in headers.items()) < 2_000


@pytest.mark.spec("T2")
@pytest.mark.parametrize("start", [API, "/api/claude_code/team_memory"])
def test_memories_come_whole_as_hashes_or_since_a_state(
    server: Server, ana: str, start: str
) -> None:
    path = f"{start}?repo=Acme/Shop"
    first = put(server, ana, {"a.md": FACT}, path=path)[1]["etag"]
    second = put(server, ana, {"b.md": topic("Another")}, first, path)[1]
    whole = server.ask("GET", path, ana)[1]
    assert {*whole["entries"]} == {"a.md", "b.md"}
    assert whole["entries"]["a.md"]["author"] == whole["you"] == "ana"
    assert whole["entries"]["a.md"]["sha256"] == sha256(FACT.encode())
    hashes = server.ask("GET", f"{path}&view=hashes", ana)[1]["hashes"]
    assert hashes["a.md"] == sha256(FACT.encode())
    since = server.ask("GET", f"{path}&since={first}", ana)[1]
    assert ([*since["entries"]], since["whole"], since["etag"]) == (["b.md"], False, second["etag"])
    lost = server.ask("GET", f"{path}&since=of-a-lost-database", ana)[1]
    assert (len(lost["entries"]), lost["whole"]) == (2, True)


@pytest.mark.spec("T2")
def test_every_version_is_kept_with_its_author_even_of_what_was_removed(
    server: Server, ana: str, tenant: str
) -> None:
    bob = server.token("bob", tenant, "acme/shop")
    etag = put(server, ana, {"a.md": FACT})[1]["etag"]
    etag = put(server, bob, {"a.md": topic("The mill moved to Nantes")}, etag)[1]["etag"]
    gone = server.ask("DELETE", f"{SHOP}&key=a.md", ana, None, {"If-Match": f'"{etag}"'})
    assert gone[0] == 200
    assert server.ask("GET", SHOP, ana)[1]["entries"] == {}
    assert server.ask("GET", f"{SHOP}&since={etag}", ana)[1]["entries"]["a.md"]["removed"]
    versions = server.ask("GET", f"{API}/history?repo=acme/shop&key=a.md", ana)[1]["versions"]
    kept = [(one["version"], one["author"], one.get("removed", False)) for one in versions]
    assert kept == [(3, "ana", True), (2, "bob", False), (1, "ana", False)]
    old = server.ask("GET", f"{API}/version?repo=acme/shop&key=a.md&version=1", ana)
    assert old[1]["content"] == FACT
    assert server.ask("DELETE", f"{SHOP}&key=a.md", ana, None, {"If-Match": "x"})[0] == 404


ROUTES = [
    ("GET", SHOP),
    ("PUT", SHOP),
    ("DELETE", f"{SHOP}&key=a.md"),
    ("GET", f"{API}/history?repo=acme/shop"),
    ("GET", f"{API}/version?repo=acme/shop&key=a.md&version=1"),
    ("GET", f"{API}/members?repo=acme/shop"),
]
ROUTES += [(method, path.replace("/api/", "/api/claude_code/")) for method, path in ROUTES]


@pytest.mark.spec("T2")
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_unknown_and_forbidden_look_alike_on_every_route(
    server: Server, ana: str, tenant: str, method: str, path: str
) -> None:
    put(server, ana, {"a.md": FACT})
    elsewhere = server.token("eve", tenant, "acme/other")
    other = path.replace("acme/shop", "acme/nothing")
    with_state = {"If-Match": f'"{EMPTY}"'}
    body = {"entries": {"a.md": {"content": FACT}}} if method == "PUT" else None
    there = server.ask(method, path, elsewhere, body, with_state)[:2]
    assert there == server.ask(method, other, elsewhere, body, with_state)[:2]
    assert there[0] == 404
    revoked = server.database.create_token(tenant, "old", "*", writes=True)
    assert server.database.revoke(revoked[0].id)
    answers = [server.ask(method, path, token, body)[:2] for token in ("", "wrong", revoked[1])]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] == 401


@pytest.mark.spec("T2")
def test_another_tenant_has_another_repository_of_the_same_name(
    server: Server, ana: str, tenant: str
) -> None:
    put(server, ana, {"a.md": FACT})
    stranger = server.token("eve", f"{tenant}-other", "*")
    assert server.ask("GET", SHOP, stranger)[1]["entries"] == {}
    assert server.ask("GET", f"{API}/history?repo=acme/shop", stranger)[1]["versions"] == []
    members = server.ask("GET", f"{API}/members?repo=acme/shop", stranger)[1]["members"]
    assert members == [{"name": "eve", "writes": True}]
    assert put(server, stranger, {"a.md": topic("Mine")})[0] == 200
    assert server.ask("GET", SHOP, ana)[1]["entries"]["a.md"]["content"] == FACT


@pytest.mark.spec("T2")
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_token_of_another_tenant_learns_and_changes_nothing_on_any_route(
    server: Server, ana: str, tenant: str, method: str, path: str
) -> None:
    etag = put(server, ana, {"a.md": FACT})[1]["etag"]
    stranger = server.token("eve", f"{tenant}-other", "*")
    body = {"entries": {"a.md": {"content": topic("Mine")}}} if method == "PUT" else None
    answer = server.ask(method, path, stranger, body, {"If-Match": f'"{etag}"'})
    assert answer[0] in (200, 404, 412)
    told = json.dumps(answer[1:])
    assert not [
        word for word in ("Lyon", "a.md", etag, '"ana"', sha256(FACT.encode())) if word in told
    ]
    there = server.ask("GET", SHOP, ana)[1]
    assert (there["etag"], there["entries"]["a.md"]["content"]) == (etag, FACT)


@pytest.mark.spec("T2")
def test_a_token_that_may_read_may_not_write(server: Server, ana: str, tenant: str) -> None:
    put(server, ana, {"a.md": FACT})
    reader = server.token("eve", tenant, "acme/*", writes=False)
    assert server.ask("GET", SHOP, reader)[0] == 200
    assert put(server, reader, {"a.md": topic("Mine")})[0] == 403
    gone = server.ask("DELETE", f"{SHOP}&key=a.md", reader, None, {"If-Match": "x"})
    assert gone[0] == 403


BAD_KEYS = ["../x.md", "/etc/x.md", "a/../b.md", "memory.md", "X.md", "a.txt", "", ".md",
            "a\\b.md", "con.md", "a b.md", "a\u0000.md", "a/b/c/d/e/f.md", "x" * 300 + ".md", "ä.md"]  # fmt: skip


@pytest.mark.spec("T2")
@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_key_that_is_no_memory_name_is_refused(server: Server, ana: str, key: str) -> None:
    status, said, _ = put(server, ana, {"good.md": FACT, key: FACT})
    assert status == 422
    assert [*said["details"]] == [key[:200]]
    assert server.ask("GET", SHOP, ana)[1]["entries"] == {}, "all or nothing"


@pytest.mark.spec("T5")
def test_the_server_refuses_secrets_by_rule_and_line(server: Server, ana: str) -> None:
    status, said, _ = put(server, ana, {"a.md": topic(f"Use\n{GITHUB}")})
    assert status == 422
    assert "Line 8" in said["details"]["a.md"]
    assert "github" in said["details"]["a.md"]
    assert GITHUB not in json.dumps(said)


@pytest.mark.spec("T2")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"", 400),
        (b"[]", 400),
        (b'{"entries": []}', 400),
        (b'{"entries": {}}', 400),
        (b'{"entries": {"a.md": "text"}}', 400),
        (b'{"entries": {"a.md": {"content": 7}}}', 400),
        (b'{"entries": {"a.md": {"content": "\xff"}}}', 400),
        (b'{"entries": {"a.md": {"content": "x", "sha256": "wrong"}}}', 422),
        (b'{"entries": {"a.md": {"content": ""}}}', 422),
        (b'{"entries": {"a.md": {"content": "\\u0000"}}}', 422),
        (b"[" * 100_000, 400),
    ],
)
def test_a_body_that_is_none_is_refused(server: Server, ana: str, body: bytes, status: int) -> None:
    answer = server.ask("PUT", SHOP, ana, body, {"If-Match": f'"{EMPTY}"'})
    assert answer[0] == status, answer
    assert answer[1]["error"]


@pytest.mark.spec("T3")
def test_sizes_have_limits(server: Server, ana: str) -> None:
    assert put(server, ana, {"a.md": "x" * (LARGEST_FILE + 1)})[0] == 422
    assert put(server, ana, {f"{n}.md": "x " * 60_000 for n in range(2)})[0] == 413
    assert put(server, ana, {f"{n}.md": "x" for n in range(10_000)})[0] == 413
    try:
        status = server.ask("PUT", SHOP, ana, b"x" * 8_000_000, {"If-Match": "x"})[0]
    except OSError:  # it hung up while we still sent
        status = 413
    assert status == 413
    assert put(server, ana, {"a.md": "y " * (LARGEST_FILE // 2)})[0] == 200, "a large one, alone"


@pytest.mark.spec("T2")
@pytest.mark.parametrize(
    "query",
    [
        "",
        "repo=",
        "repo=shop",
        "repo=a/../b",
        "repo=/x",
        "repo=a/b/c/d/e/f",
        "repo=%00/x",
        "repo=a//b",
    ],
)
def test_a_repository_that_is_none_is_refused(server: Server, ana: str, query: str) -> None:
    assert server.ask("GET", f"{API}?{query}", ana)[0] == 400


@pytest.mark.spec("T2")
def test_health_metrics_and_the_description_are_there(server: Server, ana: str) -> None:
    server.ask("GET", SHOP, ana)
    assert server.ask("GET", "/healthz")[:2] == (200, {"status": "ok"})
    assert 'route="/api/team_memory",method="GET",status="200"' in server.ask("GET", "/metrics")[1]
    described = server.ask("GET", "/openapi.json")[1]
    kept = {(method, path) for path, methods in described["paths"].items() for method in methods}
    tried = {(method.lower(), path.partition("?")[0]) for method, path in ROUTES}
    assert kept - tried == {("get", "/healthz"), ("get", "/metrics"), ("get", "/openapi.json")}
    assert not tried - kept


@pytest.mark.spec("T2")
def test_too_many_requests_are_turned_away(server: Server, tenant: str) -> None:
    from lamina.team.server import Rates, Refusal

    clock = itertools.count()
    rates = Rates(60, now=lambda: next(clock) / 1_000)
    for _ in range(60):
        rates.demand("ana")
    with pytest.raises(Refusal) as refused:
        rates.demand("ana")
    assert refused.value.status == 429
    assert "Retry-After" in refused.value.headers
    rates.demand("bob")


@pytest.mark.spec("T2")
def test_who_sends_half_a_request_is_hung_up_on_and_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip("lamina.team.server", reason="the server needs lamina[team]")
    monkeypatch.setattr(module, "BODY_SECONDS", 1.0)
    address = f"sqlite://{tmp_path}/team.db"
    database = Database(address)
    _, token = database.create_token("acme", "ana", "*", writes=True)
    made = module.make_server(database, requests_a_minute=1_000)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        thread = threading.Thread(target=made.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        head = f"PUT {SHOP} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nIf-Match: x\r\n"
        body = f"{head}Content-Length: 100\r\n\r\n{{".encode()
        half: list[socket.socket] = []
        for said in (b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", body, b""):
            half.append(socket.create_connection((host, port), timeout=60))
            half[-1].sendall(said)
        here = Server(f"http://{host}:{port}", database, address)
        assert here.ask("GET", SHOP, token)[0] == 200
        assert half[0].recv(100) == b""
        assert b" 408 " in half[1].recv(100)
        assert half[2].recv(100) == b"", "nor is one kept that never says a word"
        for one in half:
            one.close()
        made.should_exit = True
        thread.join()
    database.close()


def test_so_many_who_say_nothing_keep_nobody_out(server: Server, tenant: str) -> None:
    token = server.token("ana", tenant)
    host, _, port = server.url.removeprefix("http://").partition(":")
    silent: list[socket.socket] = []
    try:
        for _ in range(520):
            silent.append(socket.create_connection((host, int(port)), timeout=60))
            silent[-1].sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        assert server.ask("GET", SHOP, token)[0] == 200
    finally:
        for one in silent:
            one.close()


# ---- the database


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    sqlite = request.param == "sqlite"
    address = f"sqlite://{tmp_path}/team.db" if sqlite else request.getfixturevalue("postgresql")
    with closing(Database(address)) as made:
        yield made


def writer(database: Database, tenant: str = "acme") -> Token:
    return database.create_token(tenant, "ana", "*", writes=True)[0]


@pytest.mark.spec("T2")
def test_of_writers_at_once_one_wins_and_the_others_are_told(
    database: Database, tenant: str
) -> None:
    ana = writer(database, tenant)

    def write(number: int) -> bool:
        try:
            database.write(ana, "acme/shop", {f"{number}.md": FACT}, EMPTY)
        except Stale:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(write, range(8))) == 1
    assert len(database.hashes(tenant, "acme/shop")[1]) == 1


@pytest.mark.spec("T2")
def test_a_database_that_goes_away_and_comes_back_is_said_and_forgiven(tmp_path: Path) -> None:
    database = Database(f"sqlite://{tmp_path}/a/team.db")
    ana = writer(database)
    database.write(ana, "acme/shop", {"a.md": FACT}, EMPTY)
    (tmp_path / "a").rename(tmp_path / "b")
    assert not database.answers()
    with pytest.raises(DatabaseAway):
        database.state("acme", "acme/shop")
    (tmp_path / "b").rename(tmp_path / "a")
    assert database.state("acme", "acme/shop").version == 1
    database.close()


@pytest.mark.spec("T2")
def test_while_the_database_is_away_the_server_says_so_and_finds_back(tmp_path: Path) -> None:
    pytest.importorskip("lamina.team.server", reason="the server needs lamina[team]")
    address = f"sqlite://{tmp_path}/a/team.db"
    with closing(Database(address)) as database:
        process, url = start(address)
        try:
            here = Server(url, database, address)
            ana = here.token("ana", "acme")
            etag = put(here, ana, {"a.md": FACT})[1]["etag"]
            (tmp_path / "a").rename(tmp_path / "b")
            status, said, headers = put(here, ana, {"b.md": FACT}, etag)
            assert (status, headers["retry-after"]) == (503, "5")
            assert str(tmp_path) not in json.dumps(said)
            assert here.ask("GET", "/healthz")[0] == 503
            (tmp_path / "b").rename(tmp_path / "a")
            assert [*here.ask("GET", SHOP, ana)[1]["entries"]] == ["a.md"]
            assert put(here, ana, {"b.md": FACT}, etag)[0] == 200
        finally:
            stop(process)


@pytest.mark.spec("T2")
def test_connections_that_postgresql_has_ended_are_replaced(postgresql: str, tenant: str) -> None:
    import psycopg

    named = f"{postgresql}&application_name={tenant}"
    with closing(Database(named)) as database, psycopg.connect(postgresql) as other:
        ana = writer(database, tenant)
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            (tenant,),
        )
        with pytest.raises(DatabaseAway):
            database.write(ana, "acme/shop", {"a.md": FACT}, EMPTY)
        assert database.write(ana, "acme/shop", {"a.md": FACT}, EMPTY).version == 1


@pytest.mark.parametrize("verb", [["list"], ["revoke", "x"]])
def test_a_database_that_is_not_there_is_not_made_by_a_look(
    tmp_path: Path, verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["team", "token", *verb, "--db", f"sqlite://{tmp_path}/typo.db"]) == 2
    assert "There is no database" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.spec("T2")
def test_tokens_are_kept_as_hashes_alone(tmp_path: Path) -> None:
    database = Database(f"sqlite://{tmp_path}/team.db")
    _, secret = database.create_token("acme", "ana", "*", writes=True)
    assert database.token(secret) is not None
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    database.close()
    assert secret.encode() not in kept
    assert (tmp_path / "team.db").stat().st_mode & 0o077 == 0


@pytest.mark.spec("T2")
def test_pages_end_between_two_writes_and_meet(
    database: Database, tenant: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr("lamina.team.database.PAGE_BYTES", 10)
    ana, etag = writer(database, tenant), EMPTY
    for number in range(5):
        both = {f"{number}_{half}.md": f"{FACT}{number}" for half in "ab"}
        etag = database.write(ana, "acme/shop", both, etag).etag
    seen: list[str] = []
    since, more = "", True
    while more:
        page = database.changes(tenant, "acme/shop", since)
        assert len(page.entries) % 2 == 0
        seen += [entry.key for entry in page.entries]
        since, more = page.state.etag, page.more
    assert since == etag
    assert seen == [f"{number}_{half}.md" for number in range(5) for half in "ab"]


@pytest.mark.spec("T2")
def test_the_same_again_is_no_new_version_and_a_late_writer_is_told(
    database: Database, tenant: str
) -> None:
    ana = writer(database, tenant)
    first = database.write(ana, "acme/shop", {"a.md": FACT}, EMPTY)
    assert database.write(ana, "acme/shop", {"a.md": FACT}, first.etag) == first
    with pytest.raises(Stale):
        database.write(ana, "acme/shop", {"a.md": "other"}, EMPTY)
    assert len(database.history(tenant, "acme/shop")) == 1


@pytest.mark.spec("T2")
def test_a_repository_has_room_for_so_many_files(
    database: Database, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lamina.team.database import TooMany

    monkeypatch.setattr("lamina.team.database.MOST_KEYS", 3)
    ana = writer(database, tenant)
    with pytest.raises(TooMany):
        database.write(
            ana, "acme/shop", dict.fromkeys(("a.md", "b.md", "c.md", "d.md"), "x"), EMPTY
        )
    assert database.state(tenant, "acme/shop").version == 0, "all or nothing"
    assert database.write(ana, "acme/shop", {"a.md": "x"}, EMPTY).version == 1


@pytest.mark.spec("T2")
def test_a_database_of_a_newer_version_or_of_another_kind_is_not_touched(tmp_path: Path) -> None:
    Database(f"sqlite://{tmp_path}/team.db").close()
    with sqlite3.connect(tmp_path / "team.db") as connection:
        connection.execute("INSERT INTO migrations VALUES (99)")
    connection.close()
    with pytest.raises(UsageError, match="newer"):
        Database(f"sqlite://{tmp_path}/team.db")
    for address in ("mysql://x/y", "team.db", "sqlite://", "sqlite:///"):
        with pytest.raises(UsageError):
            Database(address)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DatabaseAway, match="can't be opened: file is not a database"):
        Database(f"sqlite://{tmp_path}/notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "hello"


@pytest.mark.spec("T2")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_database_of_an_earlier_version_is_brought_up_to_date_with_all_that_it_holds(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from lamina.team import database as module

    address = f"sqlite://{tmp_path}/team.db"
    if kind == "postgresql":
        import psycopg

        base = request.getfixturevalue("postgresql")
        with psycopg.connect(base, autocommit=True) as connection:
            connection.execute("CREATE DATABASE earlier")
        address = base.replace("/postgres?", "/earlier?")
    with monkeypatch.context() as patch:
        patch.setattr(module, "MIGRATIONS", module.MIGRATIONS[:1])
        Database(address).close()
        with closing(engine_at(address)) as engine, engine.connected() as sql:
            sql.execute("INSERT INTO repositories VALUES ('r', 'acme', 'acme/shop', 3, 'e3')")
            for version, content in ((1, "old"), (2, "new")):
                row = ("r", "a.md", version, content, sha256(content.encode()), "ana", 0.0)
                sql.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            sql.execute("INSERT INTO versions VALUES ('r', 'b.md', 3, NULL, '', 'ana', 0)")
            sql.execute("INSERT INTO current VALUES ('r', 'a.md', 2, 0), ('r', 'b.md', 3, 1)")
            for version in (1, 2, 3):
                sql.execute("INSERT INTO states VALUES ('r', ?, ?)", (f"e{version}", version))
    monkeypatch.setattr(module, "MOST_KEYS", 2)
    with closing(Database(address)) as new:
        page = new.changes("acme", "acme/shop", "e1")
        assert [(one.key, one.content) for one in page.entries] == [("a.md", "new"), ("b.md", None)]
        assert len(new.history("acme", "acme/shop")) == 3
        ana = writer(new, "acme")
        etag = new.write(ana, "acme/shop", {"b.md": FACT}, "e3").etag
        assert [*new.hashes("acme", "acme/shop")[1]] == ["a.md", "b.md"]
        with pytest.raises(module.TooMany):
            new.write(ana, "acme/shop", {"c.md": FACT}, etag)


IMPATIENT = """
import signal, sys
from lamina.cli.main import main
from lamina.team import serving

def note(said):
    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)
    signal.raise_signal(signal.SIGINT)

serving.note = note
sys.exit(main(["team", "serve", "--db", sys.argv[1], "--port", "0"]))
"""


@pytest.mark.spec("T2")
def test_whoever_reads_the_address_may_stop_the_server_at_once(tmp_path: Path) -> None:
    """In a process of its own: a worker of the tests need not run them where signals arrive."""
    pytest.importorskip("lamina.team.server", reason="the server needs lamina[team]")
    words = [sys.executable, "-c", IMPATIENT, f"sqlite://{tmp_path}/team.db"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "False\n", ""), "it was heard"
