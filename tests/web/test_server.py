"""Who may come in, from where, and what every answer tells the browser."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.web.conftest import Page

from lamina.ledger.places import project_folder

pytestmark = pytest.mark.spec("I5")


def test_nobody_comes_in_without_the_token_and_it_works_once(serve: Callable[..., Any]) -> None:
    server = serve()
    stranger = Page(server)
    refused = stranger.ask("GET", "/")
    assert refused.status == 401
    assert "lamina ui" in refused.text
    assert stranger.ask("GET", "/?token=wrong").status == 401
    token = server.token
    first = stranger.ask("GET", f"/?token={token}")
    cookie = first.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert token not in cookie
    assert Page(server).ask("GET", f"/?token={token}").status == 401, "it was used up"
    known = Page(server, cookie.partition(";")[0])
    assert known.get("/").status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", ""]
)
def test_a_name_that_is_not_ours_is_refused_even_with_the_cookie(page: Page, host: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", page.server.port, timeout=60)
    connection.putrequest("GET", "/", skip_host=True)
    if host:
        connection.putheader("Host", host)
    connection.putheader("Cookie", page.cookie)
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 421
    assert b"<" not in answer.read()
    connection.close()


def test_a_token_does_not_open_the_door_under_a_foreign_name(serve: Callable[..., Any]) -> None:
    server = serve()
    assert Page(server).ask("GET", f"/?token={server.token}", Host="evil.example").status == 421
    assert server.token, "and it is not used up by that"


def test_a_foreign_page_can_neither_read_nor_post(page: Page, lamina: Any, memory_dir: Any) -> None:
    lamina("memory", "add", "Deploys never happen on Fridays")
    (path,) = (one.name for one in memory_dir().glob("project_*.md"))
    for headers in (
        {"Origin": "https://evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Origin": "null"},
    ):
        assert page.get("", **headers).status == 403
        body = f"csrf={page.server.csrf}&path={path}".encode()
        assert page.ask("POST", page._of("forget"), body, **headers).status == 403
    assert (memory_dir() / path).exists()


def test_a_post_needs_the_cookie_an_origin_and_the_pages_own_mark(
    page: Page, lamina: Any, memory_dir: Any
) -> None:
    lamina("memory", "add", "Deploys never happen on Fridays")
    (path,) = (one.name for one in memory_dir().glob("project_*.md"))
    to, form = page._of("forget"), f"path={path}"
    marked = f"{form}&csrf={page.server.csrf}".encode()
    assert page.ask("POST", to, form.encode(), Origin=page.origin).status == 403
    assert page.ask("POST", to, f"{form}&csrf=x".encode(), Origin=page.origin).status == 403
    assert page.ask("POST", to, marked).status == 403
    assert Page(page.server).ask("POST", to, marked, Origin=page.origin).status == 401
    assert (memory_dir() / path).exists()
    assert page.ask("POST", to, marked, Origin=page.origin).status == 303
    assert not (memory_dir() / path).exists()


def test_a_get_changes_nothing_that_a_form_changes(
    page: Page, lamina: Any, memory_dir: Any
) -> None:
    lamina("memory", "add", "Deploys never happen on Fridays")
    for name in ("forget", "pin", "undo"):
        assert page.get(name, X_Fragment="").status == 404
    assert [*memory_dir().glob("project_*.md")]


@pytest.mark.parametrize("path", ["", "/projects", "inbox", "audit", "dream", "history", "nothing"])
def test_every_answer_forbids_what_the_page_does_not_need(page: Page, path: str) -> None:
    got = page.get(path)
    policy = got.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    assert got.headers["Cache-Control"] == "no-store"
    assert got.headers["Referrer-Policy"] == "same-origin"
    for inline in (
        "<style",
        " style=",
        " onclick=",
        "javascript:",
        "<script>",
        "//cdn",
        "https://",
    ):
        assert inline not in got.text


def test_assets_come_from_the_package_and_from_nowhere_else(page: Page) -> None:
    css = page.get("/assets/page.css").text + page.get("/assets/page.js").text
    assert "http" not in css.replace("http-equiv", "")
    assert "@import" not in css
    for path in (
        "/assets/../server.py",
        "/assets/%2e%2e/server.py",
        "/assets/",
        "/assets/templates",
    ):
        assert page.get(path).status == 404


def test_too_large_a_form_and_an_unknown_page_are_refused_in_a_sentence(page: Page) -> None:
    big = page.ask("POST", page._of("forget"), b"", Origin=page.origin, Content_Length="99999999")
    assert big.status == 413
    assert "Traceback" not in page.get("m/nothing.md").text
    assert page.get("m/nothing.md").status == 404
    assert page.get("/p/no-such-project").status == 404
    assert page.get("/p/..%2f..%2fetc").status == 404
    assert page.get("m/../../../etc/passwd").status in (400, 404)
    assert page.get("m/..%2f..%2f..%2fetc%2fpasswd").status in (400, 404)


def test_the_command_prints_an_address_and_ends_with_ctrl_c(world: Path) -> None:
    command = [sys.executable, "-m", "lamina.cli.main", "ui", "--no-open", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert told["url"].startswith(f"http://127.0.0.1:{told['port']}/?token=")
        connection = http.client.HTTPConnection("127.0.0.1", told["port"], timeout=60)
        connection.request("GET", told["url"].partition(str(told["port"]))[2])
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_a_port_that_is_taken_is_told_in_a_sentence(page: Page, capfd: Any) -> None:
    from lamina.cli.main import main

    assert main(["ui", "--no-open", "--port", str(page.server.port)]) == 1
    said = capfd.readouterr().err
    assert "--port" in said
    assert "Traceback" not in said
    assert main(["ui", "--no-open", "--port", "99999"]) == 2


def listen(page: Page) -> socket.socket:
    """An open stream of what changes in the project."""
    stream = socket.create_connection(("127.0.0.1", page.server.port), timeout=60)
    host = f"Host: 127.0.0.1:{page.server.port}"
    asked = f"GET {page._of('events')} HTTP/1.1\r\n{host}\r\nCookie: {page.cookie}\r\n\r\n"
    stream.sendall(asked.encode())
    said = b""
    while b": listening" not in said:
        said += stream.recv(4096)
    assert b"text/event-stream" in said
    return stream


def until(true: Callable[[], object]) -> None:
    """Gives up when a test would hang."""
    ends = time.monotonic() + 60
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.001)


@pytest.mark.skipif(sys.platform != "linux", reason="news come from inotify")
def test_a_change_on_disk_is_told_and_looking_is_no_change(page: Page, lamina: Any) -> None:
    lamina("memory", "add", "Deploys never happen on Fridays")
    page.get("?q=deploys")
    with listen(page) as stream:
        until(lambda: page.server.watch._waiting)
        for path in ("", "history", "sessions", "money", "inbox", "?q=deploys"):
            page.get(path)
        stream.settimeout(0.1)
        with pytest.raises(TimeoutError):
            stream.recv(4096)
        stream.settimeout(60)
        lamina("memory", "add", "Staging is rebooted on Sundays")
        assert b"event: changed" in stream.recv(4096)
    until(lambda: not page.server.watch._waiting)  # whoever left is not waited for


@pytest.mark.skipif(sys.platform != "linux", reason="news come from inotify")
def test_what_comes_into_a_folder_that_was_not_there_is_told_too(page: Page, world: Path) -> None:
    project_folder(world / "home", world / "project")
    with listen(page) as stream:
        until(lambda: page.server.watch._waiting)
        spend = world / "home" / "spend"
        spend.mkdir()
        assert b"event: changed" in stream.recv(4096)
        page.get("money", X_Fragment="1")  # as the page does then
        (spend / "2026-11.jsonl").write_text("{}\n")
        assert b"event: changed" in stream.recv(4096)


@pytest.mark.skipif(sys.platform != "linux", reason="news come from inotify")
def test_each_step_towards_the_first_memory_of_a_home_is_told(page: Page, world: Path) -> None:
    memory = world / "home" / "projects" / page.server.pages._world.here / "memory"
    with listen(page) as stream:
        until(lambda: page.server.watch._waiting)
        for folder in (world / "home", world / "home" / "projects", memory.parent, memory):
            folder.mkdir()
            assert b"event: changed" in stream.recv(4096)
            page.get(X_Fragment="1")  # as the page does then
        (memory / "project_first.md").write_text("The first.\n")
        assert b"event: changed" in stream.recv(4096)


def test_the_stream_of_changes_needs_the_cookie(page: Page) -> None:
    assert Page(page.server).ask("GET", page._of("events")).status == 401


def test_without_its_package_the_page_says_how_to_get_it(
    world: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    from lamina.cli.main import main
    from lamina.errors import installing

    monkeypatch.setitem(sys.modules, "jinja2", None)
    for name in ("lamina.web.pages", "lamina.web.pages"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert main(["ui", "--no-open"]) == 2
    assert f"Install it: {installing('ui')}." in capfd.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose socket it is")
def test_another_user_of_the_machine_gets_no_answer_even_with_the_token(
    serve: Callable[..., Any],
) -> None:
    server = serve()
    nobody: dict[str, Any] = {}
    if root := os.getuid() == 0:
        nobody = {"user": 65_534, "extra_groups": []}
    else:
        server.owner = os.getuid() + 1  # so we are another
    asks = (
        "import sys, urllib.request\n"
        "try: print(urllib.request.urlopen(sys.argv[1], timeout=60).status)\n"
        "except OSError as error: print(type(error).__name__)"
    )
    command = ["/usr/bin/env", "python3", "-c", asks, server.url]
    told = subprocess.run(command, capture_output=True, text=True, cwd="/", check=True, **nobody)
    assert told.stdout.strip() != "200"
    assert server.token, "the owner can still come in"
    if root:
        assert Page(server).enter().get().status == 200


def test_what_is_no_address_and_no_form_is_refused_in_a_sentence(page: Page, capfd: Any) -> None:
    host = f"Host: 127.0.0.1:{page.server.port}"
    for first in ("GET http://[ HTTP/1.1", "GET http://[x]y/ HTTP/1.1"):
        with socket.create_connection(("127.0.0.1", page.server.port), timeout=60) as stream:
            stream.sendall(f"{first}\r\n{host}\r\n\r\n".encode())
            assert stream.recv(4096).startswith(b"HTTP/1.1 400")
    for head in (f"GET / HTTP/1.1\r\n{host}\r\nhost: evil.example", f"GET / HTTP/2.0\r\n{host}",
                 f"GET / HTTP/1.1 x\r\n{host}", f"GET / HTTP/1.1\r\n{host}\r\nno colon", "GET /",
                 f"GET / HTTP/1.1\r\n{host}" + "".join(f"\r\nx{n}: y" for n in range(100))):  # fmt: skip
        with socket.create_connection(("127.0.0.1", page.server.port), timeout=60) as stream:
            stream.sendall(f"{head}\r\nCookie: {page.cookie}\r\n\r\n".encode())
            assert stream.recv(4096).startswith(b"HTTP/1.1 400"), head[:80]
    many = "&".join(["a=b"] * 2_000).encode()
    assert page.ask("POST", page._of("pin"), many, Origin=page.origin).status == 400
    assert capfd.readouterr().err == ""


def test_without_news_from_the_kernel_the_page_works_and_ends_quietly(
    page: Page, monkeypatch: pytest.MonkeyPatch, recwarn: Any
) -> None:
    class Exhausted:
        def inotify_init1(self, _flags: int) -> int:
            return -1

    monkeypatch.setattr("lamina.machine._libc", Exhausted)
    with listen(page):
        assert page.get().status == 200
    assert page.server.watch._thread is None
    assert not [one for one in recwarn if "Thread" in str(one.category)]


def test_a_browser_that_stays_in_the_terminal_is_answered_meanwhile(
    world: Path, tmp_path: Path
) -> None:
    shown = tmp_path / "shown"
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable}\nimport sys, urllib.request\n"
        "try: said = urllib.request.urlopen(sys.argv[1], timeout=60).read()\n"
        "except OSError: said = b''\n"
        f"open({str(shown)!r}, 'wb').write(said)\n"
    )
    browser.chmod(0o700)
    os.mkfifo(shown)
    command = [sys.executable, "-m", "lamina.cli.main", "ui", "--json"]
    env = {**os.environ, "BROWSER": f"{browser} %s"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        try:
            assert b"Lamina" in shown.read_bytes()
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
