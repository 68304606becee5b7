"""Made-up secrets of published formats, and a look at every byte that Lamina wrote for memory.

They are built when the tests run, so that none stands in the repository.
"""

from __future__ import annotations

import base64
import binascii
import json
import random
import re
import string
import zlib
from collections.abc import Iterator
from pathlib import Path

from dulwich.repo import Repo

_BASE64 = re.compile(rb"[A-Za-z0-9+/]{16,}={0,2}")


def _made(characters: str, length: int, seed: str) -> str:
    chance = random.Random(seed)
    return "".join(chance.choice(characters) for _ in range(length))


_WORD = string.ascii_letters + string.digits


def _jwt() -> str:
    head = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = base64.urlsafe_b64encode(json.dumps({"sub": _made(_WORD, 30, "sub")}).encode())
    return ".".join([head.decode().rstrip("="), body.decode().rstrip("="), _made(_WORD, 43, "jwt")])


SECRETS = {
    "github": "ghp" + "_" + _made(_WORD, 36, "github"),
    "aws": "AKI" + "A" + _made(string.ascii_uppercase + "234567", 16, "aws"),
    "npm": "npm" + "_" + _made(_WORD, 36, "npm"),
    "stripe": "sk_" + "live_" + _made(_WORD, 24, "stripe"),
    "slack": "xox" + "b-" + "-".join(_made(string.digits, 12, one) for one in "ab") + "-" + _made(_WORD, 24, "slack"),
    "jwt": _jwt(),
    "named": _made(_WORD, 12, "named") + "7x",
}  # fmt: skip


def places_of(secret: str, *roots: Path) -> list[str]:
    """Every file below that holds the secret, or a telling part of it, by its name or in whatever
    form. Ledgers are left out: they record what the user typed."""
    part = secret[len(secret) // 2 - 5 :][:10].casefold().encode()
    return [
        str(path)
        for root in roots
        for path in sorted(root.rglob("*"))
        if not _ledger(path)
        and (part in path.name.casefold().encode() or any(part in one.lower() for one in _bytes(path)))
    ]  # fmt: skip


def _ledger(path: Path) -> bool:
    return path.suffix == ".jsonl" and path.parent.parent.name == "projects"


def _bytes(path: Path) -> Iterator[bytes]:
    if path.is_dir():
        if path.name.startswith("history.git"):
            with Repo(str(path)) as repo:
                for name in repo.object_store:
                    yield repo.object_store[name].as_raw_string()
        return
    if not path.is_file():
        return
    content = path.read_bytes()
    yield content
    for found in _BASE64.findall(content):
        try:
            yield base64.b64decode(found + b"=" * (-len(found) % 4))
        except binascii.Error:
            continue
    try:
        yield zlib.decompress(content)
    except zlib.error:
        return
