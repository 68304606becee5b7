"""Which conversation a request belongs to, told by what its messages begin with; and what of an earlier
conversation holds for one that left it on the way.

Touches one file: a line for each message that was ever seen, with the hash of all up to it.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import cast

import msgspec

from lamina.machine import open_to_append
from lamina.messages import Json, as_list, as_object, blocks_of, dicts

_MOST = 5_000  # beginnings in memory; older ones are looked up in the file
_encode = msgspec.json.Encoder(order="sorted").encode


def linked(digests: Iterable[bytes], seed: str = "", last: str = "") -> list[str]:
    """For each message a hash of it and of all before it. `last`: that of the message before."""
    link, hashes = bytes.fromhex(last) or seed.encode(), list[str]()
    for digest in digests:
        link = hashlib.blake2b(link + digest, digest_size=16).digest()
        hashes.append(link.hex())
    return hashes


def digest_of(message: Json, *, bare: bool = False) -> bytes:
    """A hash of what a message says. Marks for the cache move from request to request, and a client's
    own objects write out what is null: neither counts. `bare`: it is known to have neither."""
    said = {key: value for key, value in message.items() if key != "content"}
    content = message.get("content")
    blocks = blocks_of(content) if isinstance(content, str) else as_list(content)
    data = _encode([said, blocks] if bare else [_bare(said), [_block(one) for one in blocks]])
    return hashlib.blake2b(data, digest_size=16).digest()


def _block(block: object) -> object:
    if not isinstance(block, dict):
        return block
    bare = {k: v for k, v in cast("Json", block).items() if k != "cache_control"}
    if bare.get("type") == "tool_result" and isinstance(bare.get("content"), list):
        bare["content"] = [_block(part) for part in as_list(bare["content"])]
    return _bare(bare)


def _bare(value: object) -> object:
    if isinstance(value, dict):
        return {k: _bare(v) for k, v in cast("Json", value).items() if v is not None}
    if isinstance(value, list):
        return [_bare(part) for part in cast("list[object]", value)]
    return value


class Lineages:
    """Hash of a beginning → the conversation that had it first, and how many messages it has. Written
    once each, the shorter before the longer: so of those that share one the longest is forgotten last."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = self._found = 0
        self._known: dict[str, tuple[str, int]] = {}

    def find(self, hashes: Sequence[str]) -> tuple[str, int]:
        """The conversation that shares the longest beginning, and its length; ("", 0): none."""
        self._refresh()
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        found = next((self._known[h] for h in reversed(hashes) if h in self._known), ("", 0))
        found = found if found[0] else self._on_disk(hashes)
        self._found = found[1]
        return found

    def _on_disk(self, hashes: Sequence[str]) -> tuple[str, int]:
        """Among all that were ever written."""
        with suppress(OSError, ValueError), self._file.open("rb") as file:
            data = mmap(file.fileno(), 0, access=ACCESS_READ)
            count = bisect_left(hashes, True, key=lambda one: data.find(one.encode()) < 0)
            if count:
                data.seek(data.find(hashes[count - 1].encode()))
                _, conversation, depth = data.readline().decode("ascii").split()
                return conversation, int(depth)
        return "", 0

    def add(self, conversation: str, hashes: Iterable[tuple[int, str]]) -> None:
        """(number of messages, hash) of beginnings that a conversation has: of the one that was last
        looked for. Raises OSError."""
        rows = [(hash_, depth) for depth, hash_ in hashes if depth > self._found]
        self._known |= {hash_: (conversation, depth) for hash_, depth in rows}
        if not rows:
            return
        data = "".join(f"{hash_} {conversation} {depth}\n" for hash_, depth in rows).encode()
        fd, _ = open_to_append(self._file)
        try:
            written = os.write(fd, data)
            if os.lseek(fd, 0, os.SEEK_CUR) == self._read + written:  # nobody else wrote meanwhile
                self._read += written
        finally:
            os.close(fd)

    def _refresh(self) -> None:
        """Take what this or another process has written since."""
        data = b""
        with suppress(OSError):
            size = os.stat(self._file).st_size
            if size == self._read:
                return
            if size < self._read:  # somebody took it away
                self._read, self._known = 0, {}
            with self._file.open("rb") as file:
                data = os.pread(file.fileno(), size, self._read)
        end = data.rfind(b"\n") + 1
        self._read += end
        for parts in map(str.split, data[:end].decode("ascii", "replace").splitlines()):
            if len(parts) == 3 and parts[2].isdecimal():  # else half a line that a crash left
                self._known.setdefault(parts[0], (parts[1], int(parts[2])))


def branch(entries: Sequence[Json], end: int) -> list[Json]:
    """The first entries of a ledger, with what later edits changed in them: so they are, for the one
    that goes another way from there, byte for byte what was sent last."""
    inside = {str(entry["uuid"]) for entry in entries[:end]}
    kept = list(entries[:end])
    for entry in entries[end:]:
        if entry.get("op") == "fold" and inside >= {entry["first"], entry["last"]}:
            kept.append(entry)
        if entry["kind"] != "edit" or entry.get("op") != "replace":
            continue
        items = [item for item in dicts(entry.get("items")) if _within(item, inside)]
        if items:
            kept.append({**entry, "items": items, "changesPrefix": True})
    return kept


def _within(item: Json, inside: set[str]) -> bool:
    leans = (as_list(other) for other in as_list(as_object(item).get("needs")))
    return item.get("entry") in inside and all(other[0] in inside for other in leans)
