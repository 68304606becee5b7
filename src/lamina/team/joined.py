"""What a project knows of its team: where it joined, as which repository, what it has of the server's,
and the conflicts. All of it lies in the store's own folder, never among the memories.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lamina.errors import UsageError
from lamina.machine import open_private, private_folder, read_json, write_private
from lamina.memory import TEAM_AUTHORS, TEAM_NEWS, canonical_root
from lamina.team.entries import EMPTY, is_repository, sha256

_SEEN = 50


class Joined(msgspec.Struct, frozen=True):
    url: str
    repo: str


class Known(msgspec.Struct):
    """The server's version of one file, as this machine last saw it."""

    sha256: str
    author: str = ""
    seen: list[str] = []  # earlier versions: what an undo brings back is no news for the team
    why: str = ""  # it is not in team/ here, and why


class Progress(msgspec.Struct):
    etag: str = EMPTY
    you: str = ""  # the name of this user's token
    files: dict[str, Known] = {}
    unconfirmed: dict[str, str] = {}  # lay in team/ before anybody joined: key → sha256
    refused: dict[str, tuple[str, str]] = {}  # the server would not have it: key → sha256, sentence
    reached: float = 0.0
    tried: float = 0.0
    problem: str = ""


class Clash(msgspec.Struct, frozen=True):
    """A local edit that the team's version took the place of."""

    id: str
    key: str
    when: float
    mine: str
    theirs: str | None
    author: str


@dataclass(frozen=True, slots=True)
class Place:
    """The folder `team` beside a memory's history."""

    folder: Path
    now: Callable[[], float] = time.time

    def joined(self) -> Joined | None:
        return read_json(self.folder / "joined.json", Joined)

    def join(self, joined: Joined, token: str, progress: Progress) -> None:
        """`token` "": it comes from the environment each time."""
        self.save(progress)
        if token:
            write_private(self.folder / "token", token.encode())
        write_private(self.folder / "joined.json", msgspec.json.encode(joined), lasting=True)

    def leave(self) -> None:
        for name in ("joined.json", "token", "progress.json"):
            (self.folder / name).unlink(missing_ok=True)

    def token(self) -> str:
        with contextlib.suppress(OSError):
            return (self.folder / "token").read_text("utf-8").strip()
        return ""

    def progress(self) -> Progress:
        return read_json(self.folder / "progress.json", Progress) or Progress()

    def save(self, progress: Progress) -> None:
        write_private(self.folder / "progress.json", msgspec.json.encode(progress), lasting=True)
        theirs = {
            f"team/{key}": known.author
            for key, known in progress.files.items()
            if not known.why and known.author not in ("", progress.you)
        }
        write_private(self.folder / TEAM_AUTHORS, msgspec.json.encode(theirs))

    @contextlib.contextmanager
    def locked(self, name: str = "lock", *, wait: bool = True) -> Generator[bool]:
        """One process at a time; False where another has it and we don't wait."""
        private_folder(self.folder)
        with open(self.folder / name, "ab", opener=open_private) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            yield True

    def tell(self, lines: list[str]) -> None:
        """At the next prompt; `lamina.memory.team_news` takes it from there."""
        if lines:
            with open(self.folder / TEAM_NEWS, "a", encoding="utf-8", opener=open_private) as file:
                file.writelines(f"{line}\n" for line in lines)

    # ---- the server's versions, for merging

    def keep_base(self, content: str) -> None:
        data = content.encode()
        path = self.folder / "base" / sha256(data)
        if not path.exists():
            write_private(path, data)

    def base(self, digest: str) -> bytes | None:
        with contextlib.suppress(OSError):
            content = (self.folder / "base" / digest).read_bytes()
            return content if sha256(content) == digest else None
        return None

    def drop_bases(self, progress: Progress) -> None:
        needed = {known.sha256 for known in progress.files.values()}
        with contextlib.suppress(OSError):
            for name in os.listdir(self.folder / "base"):
                if name not in needed:
                    (self.folder / "base" / name).unlink()

    # ---- conflicts

    def clash(self, key: str, mine: bytes, theirs: str | None, author: str) -> None:
        text = mine.decode("utf-8", "replace")
        identity = sha256(f"{key}\n{text}\n{theirs}".encode())[:8]
        clash = Clash(identity, key, self.now(), text, theirs, author)
        write_private(self.folder / "conflicts" / f"{identity}.json", msgspec.json.encode(clash))

    def clashes(self) -> list[Clash]:
        folder = self.folder / "conflicts"
        found = [read_json(path, Clash) for path in sorted(folder.glob("*.json"))]
        return sorted((one for one in found if one), key=lambda one: (one.when, one.id))

    def settled(self, clash: Clash) -> None:
        (self.folder / "conflicts" / f"{clash.id}.json").unlink(missing_ok=True)


def noted(known: Known | None, digest: str, author: str, why: str = "") -> Known:
    """The server has a newer version."""
    seen = [*known.seen, known.sha256][-_SEEN:] if known else []
    return Known(digest, author, [one for one in seen if one != digest], why)


def repository_of(project: Path, given: str = "", names: Mapping[str, str] | None = None) -> str:
    """`owner/name` of the canonical remote: `upstream` where a fork has one, else `origin`. `names`
    has other ones, by what the remote says or by the project's folder."""
    if not given:
        root = canonical_root(project)
        remotes = _remotes(root)
        address = remotes.get("upstream") or remotes.get("origin")
        if not address and len(remotes) == 1:
            address = next(iter(remotes.values()))
        found, names = _named_by(address or ""), names or {}
        given = names.get(str(root)) or names.get(found) or found
        if not given:
            what = f"Its remote {_bare(address)} names none" if address else "It has no remote"
            raise UsageError(f"Which repository is this? {what}: give --repo owner/name.")
    if not is_repository(given.lower()):
        raise UsageError(f"{given} is not a repository name: write owner/name.")
    return given.lower()


def _remotes(root: Path) -> dict[str, str]:
    from dulwich.config import ConfigFile

    for place in (root / ".git" / "config", root / "config"):
        try:
            config = ConfigFile.from_path(str(place))
        except (OSError, ValueError):
            continue
        found: dict[str, str] = {}
        for section in config.sections():
            if section[0] == b"remote" and len(section) == 2:
                with contextlib.suppress(KeyError):
                    url = config.get(section, b"url").decode("utf-8", "replace")
                    found[section[1].decode("utf-8", "replace")] = url
        return found
    return {}


def _named_by(address: str) -> str:
    """ssh and https alike; "" for a folder, or what is no address."""
    if "://" in address:
        if address.startswith("file:"):
            return ""
        path = address.split("://", 1)[1].partition("/")[2]
    else:  # git@host:owner/name
        host, _, path = address.partition(":")
        if "/" in host or len(host) < 2 or path.startswith("/"):
            return ""
    name = path.split("?")[0].strip("/").removesuffix(".git").strip("/").lower()
    return name if is_repository(name) else ""


def _bare(address: str | None) -> str:
    """Without a password that somebody put in."""
    scheme, found, rest = (address or "").partition("://")
    return f"{scheme}{found}{rest.rpartition('@')[2]}" if found else scheme
