"""Which conversation a request belongs to, told by what its messages begin with; and what of an earlier
conversation holds for one that left it on the way.

Touches one file: a line for each message that was ever seen, with the hash of all up to it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import msgspec

from lamina.ledger.places import open_private, private_folder
from lamina.messages import Json, as_list, as_object, blocks_of, dicts

_encode = msgspec.json.Encoder(order="sorted").encode


def linked(digests: Iterable[bytes], seed: str = "", last: str = "") -> list[str]:
    """For each message a hash of it and of all before it. `last`: that of the message before."""
    link, hashes = bytes.fromhex(last) or seed.encode(), list[str]()
    for digest in digests:
        link = hashlib.blake2b(link + digest, digest_size=16).digest()
        hashes.append(link.hex())
    return hashes


def digest_of(message: Json) -> bytes:
    """A hash of what a message says. Marks for the cache move from request to request, and a client's
    own objects write out what is null: neither counts."""
    said = {key: value for key, value in message.items() if key != "content"}
    content = message.get("content")
    blocks = blocks_of(content) if isinstance(content, str) else as_list(content)
    data = _encode([_bare(said), [_block(block) for block in blocks]])
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
    """Hash of a beginning → the conversation that had it first, and how many messages it has."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self._known: dict[str, tuple[str, int]] = {}

    def find(self, hashes: Sequence[str]) -> tuple[str, int]:
        """The conversation that shares the longest beginning, and its length; ("", 0): none."""
        self._refresh()
        return next((self._known[h] for h in reversed(hashes) if h in self._known), ("", 0))

    def add(self, conversation: str, hashes: Iterable[tuple[int, str]]) -> None:
        """(number of messages, hash) of beginnings that a conversation has. Raises OSError."""
        rows = [(hash_, depth) for depth, hash_ in hashes if hash_ not in self._known]
        self._known |= {hash_: (conversation, depth) for hash_, depth in rows}
        if not rows:
            return
        private_folder(self._file.parent)
        data = "".join(f"{hash_} {conversation} {depth}\n" for hash_, depth in rows).encode()
        fd = open_private(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)

    def _refresh(self) -> None:
        """Take what this or another process has written since."""
        try:
            with self._file.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return
        end = data.rfind(b"\n") + 1
        self._read += end
        for line in data[:end].decode("ascii", "replace").splitlines():
            match line.split():
                case [hash_, conversation, depth] if depth.isdecimal():
                    self._known.setdefault(hash_, (conversation, int(depth)))
                case _:
                    continue  # half a line that a crash left


def branch(entries: Sequence[Json], end: int) -> list[Json]:
    """The first entries of a ledger, with what later edits changed in them: so they are, for the one
    that goes another way from there, byte for byte what was sent last."""
    inside = {str(entry["uuid"]) for entry in entries[:end]}
    kept = list(entries[:end])
    for entry in entries[end:]:
        if entry["kind"] != "edit" or entry.get("op") != "replace":
            continue
        items = [item for item in dicts(entry.get("items")) if _within(item, inside)]
        if items:
            kept.append({**entry, "items": items, "changesPrefix": True})
    return kept


def _within(item: Json, inside: set[str]) -> bool:
    leans = (as_list(other) for other in as_list(as_object(item).get("needs")))
    return item.get("entry") in inside and all(other[0] in inside for other in leans)
