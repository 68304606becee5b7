"""The page in a world of its own, served by this process, and a browser that is only as good as a test
needs it: it keeps the cookie, follows redirects and fills in forms."""

from __future__ import annotations

import argparse
import http.client
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from lamina.cli.main import main
from lamina.web.command import make_server
from lamina.web.server import Server


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that holds `home` and `project`."""
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LAMINA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


@pytest.fixture
def lamina(world: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command line here; what it printed."""

    def run(*words: str) -> str:
        capfd.readouterr()
        assert main(list(words)) == 0
        return capfd.readouterr().out

    return run


@dataclass(frozen=True)
class Got:
    status: int
    body: bytes
    headers: Mapping[str, str]
    path: str = ""

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def words(self) -> str:
        """What a person reads."""
        reader = _Words()
        reader.feed(self.text)
        return " ".join(" ".join(reader.said).split())


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def handle_data(self, data: str) -> None:
        self.said.append(data)


@dataclass
class Page:
    """One browser at the page."""

    server: Server
    cookie: str = ""
    open: list[http.client.HTTPConnection] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Got:
        sent = {"Host": f"127.0.0.1:{self.server.port}", "Cookie": self.cookie}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            connection.request(method, path, body, {k: v for k, v in sent.items() if v})
            answer = connection.getresponse()
            return Got(answer.status, answer.read(), dict(answer.getheaders()), path)
        finally:
            connection.close()

    def enter(self) -> Page:
        got = self.ask("GET", f"/?token={self.server.token}")
        self.cookie = got.headers["Set-Cookie"].partition(";")[0]
        return self

    def get(self, path: str = "", **headers: str) -> Got:
        """A page of the project, or an address with a slash before it."""
        return self._followed(self.ask("GET", self._of(path), **headers))

    def post(self, path: str, /, **form: str) -> Got:
        body = urlencode({"csrf": self.server.csrf, **form}).encode()
        got = self.ask("POST", self._of(path), body, Origin=self.origin)
        return self._followed(got)

    def _of(self, path: str) -> str:
        here = f"/p/{self.server.pages._world.here}"
        return path if path.startswith("/") else f"{here}/{path}".rstrip("/")

    def _followed(self, got: Got) -> Got:
        while got.status == 303:
            split = urlsplit(got.headers["Location"])
            got = self.ask("GET", f"{split.path}?{split.query}" if split.query else split.path)
        return got


@pytest.fixture
def serve(world: Path) -> Iterator[Callable[..., Server]]:
    """Start the page as `lamina ui` would."""
    begun: list[tuple[Server, threading.Thread]] = []

    def start(**options: Any) -> Server:
        given = {"home": None, "project": ".", "json": False, "claude": False, "quiet": True}
        server = make_server(argparse.Namespace(**{**given, "port": 0, **options}))
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        begun.append((server, thread))
        return server

    yield start
    for server, thread in begun:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def page(serve: Callable[..., Server]) -> Page:
    """A browser that was let in."""
    return Page(serve()).enter()


@pytest.fixture
def memory_dir(world: Path) -> Callable[[], Path]:
    def find() -> Path:
        (found,) = (world / "home" / "projects").glob("*/memory")
        return found

    return find
