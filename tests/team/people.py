"""A real server in a process of its own, and people with a home and a clone each."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.cli.main import main
from lamina.team.database import Database

if TYPE_CHECKING:
    import pytest

GITHUB = "ghp_" + "q7Lm2Xc9Rt4Vb8Nz1Kd6Wf3Hs5Jg0Pa2Ye4U"


def topic(body: str, *, name: str = "A thing", kind: str = "project") -> str:
    return f"---\nname: {name}\ndescription: about {name}\ntype: {kind}\n---\n\n{body}\n"


@dataclass(frozen=True)
class Server:
    url: str
    database: Database
    address: str  # of the database

    def token(self, name: str, tenant: str, repo: str = "*", *, writes: bool = True) -> str:
        return self.database.create_token(tenant, name, repo, writes=writes)[1]

    def ask(
        self,
        method: str,
        path: str,
        token: str = "",
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, body as JSON (or text) and headers of one real request."""
        host, _, port = self.url.removeprefix("http://").partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        every = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        try:
            connection.request(method, path, sent, every)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        kind = answer.headers.get("content-type", "")
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, json.loads(text) if "json" in kind else text, found


def start(address: str, *options: str) -> tuple[subprocess.Popen[str], str]:
    """A server on a free port if none is named, and its address."""
    words = [sys.executable, "-m", "lamina.cli.main", "team", "serve", "--db", address]
    process = subprocess.Popen([*words, "--port", "0", *options], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.search(r"http://[\d.:]+\d", line)
    assert found, line
    return process, found[0]


def stop(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stderr is not None
    process.stderr.close()


@dataclass
class Person:
    name: str
    folder: Path
    token: str
    url: str
    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]
    said: str = ""
    claude: bool = False  # its home is Claude Code's

    def __post_init__(self) -> None:
        git = self.project / ".git"
        for part in ("objects", "refs"):
            (git / part).mkdir(parents=True)
        (git / "HEAD").write_text("ref: refs/heads/main\n")
        (git / "config").write_text('[remote "origin"]\n\turl = git@github.com:Acme/Shop.git\n')

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def team(self) -> Path:
        return next((self.folder / "home" / "projects").iterdir()) / "memory" / "team"

    @property
    def words(self) -> list[str]:
        words = ["--home", str(self.folder / "home"), "--project", str(self.project)]
        return [*words, "--claude"] if self.claude else words

    def run(self, *words: str, code: int = 0) -> Any:
        """A command line in this process; its output as JSON where it is."""
        self.patch.setenv("LAMINA_TEAM_TOKEN", self.token)
        self.patch.setenv("LAMINA_TEAM_SYNC", "false")
        self.capture.readouterr()
        ended = main([*words, *self.words])
        shown = self.capture.readouterr()
        self.said = shown.err
        assert ended == code, shown
        return json.loads(shown.out) if "--json" in words else shown.out

    def join(self, *words: str) -> Any:
        return self.run("team", "join", self.url, "--json", *words)

    def add(self, text: str, file: str, kind: str = "project", code: int = 0) -> None:
        self.run("memory", "add", text, "--file", file, "--type", kind, "--team", code=code)

    def pull(self) -> Any:
        return self.run("team", "pull", "--json")

    def push(self, code: int = 0) -> Any:
        return self.run("team", "push", "--json", code=code)

    def share(self, text: str, file: str, kind: str = "project") -> None:
        self.add(text, file, kind)
        self.push()

    def read(self, file: str) -> str:
        return (self.team / file).read_text("utf-8")

    def write(self, file: str, text: str) -> None:
        """By hand, as with an editor."""
        self.team.mkdir(parents=True, exist_ok=True)
        (self.team / file).write_text(text, "utf-8")

    def edit(self, file: str, old: str, new: str) -> None:
        text = self.read(file)
        assert old in text
        self.write(file, text.replace(old, new))


@contextmanager
def running_postgresql() -> Iterator[str]:
    """Its address; "" where none is installed. It refuses to run as root, so root lends it a user."""
    bare = shutil.which("initdb") or ""
    initdb = next(iter(sorted(glob("/usr/lib/postgresql/*/bin/initdb"))), bare)
    if not initdb:
        yield ""
        return
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # a socket's path must be short
    user = "nobody" if os.geteuid() == 0 else None
    if user:
        shutil.chown(folder, user)
    data, log = str(folder / "data"), str(folder / "log")

    def run(program: str, *words: str) -> None:
        path = str(Path(initdb).with_name(program))
        done = subprocess.run(
            [path, "-D", data, *words],
            user=user,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == 0, (program, Path(log).exists() and Path(log).read_text())

    try:
        run("initdb", "-U", "lamina", "-A", "trust", "--no-sync", "-E", "UTF8")
        run("pg_ctl", "-l", log, "-w", "-o", f"-c listen_addresses= -k {folder} -F", "start")
        yield f"postgresql://lamina@/postgres?host={folder}"
        run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
