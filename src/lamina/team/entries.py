"""What may be shared with a team: its names, sizes and content. The client asks before it sends, and
the server asks again. Pure.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from lamina.memory import INDEX, LARGEST, leaks_in, pointers_of, read_topic, why_bad_name
from lamina.secrets import Rules

LARGEST_FILE = 250_000  # bytes
LARGEST_BODY = 200_000  # bytes; a larger file travels alone
# One file alone, every character of it escaped as JSON may do.
LARGEST_ALONE = 6 * LARGEST_FILE + 10_000
MOST_KEYS = 5_000  # in one repository
MOST_AT_ONCE = 1_000
EMPTY = "0" * 32  # the etag of a repository that nobody has written to

_ALPHANUMERIC = frozenset(string.ascii_letters + string.digits)


@dataclass(frozen=True, slots=True)
class Entry:
    """One shared memory as the server has it."""

    key: str  # its path below team/
    content: str | None  # None: removed
    sha256: str
    author: str  # the name of the token that wrote it
    at: float
    version: int  # of the repository when it was written


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def is_name(word: str) -> bool:
    """May a person, or a tenant, be called so? The name stands in commits and labels."""
    return 0 < len(word) <= 64 and word[0] in _ALPHANUMERIC and {*word} <= _ALPHANUMERIC | {*"._@-"}


def is_repository(name: str) -> bool:
    """`owner/name`, or deeper where a host has groups within groups."""
    parts = name.split("/")
    plain = all(
        0 < len(part) <= 100 and part.strip(".") and {*part} <= _ALPHANUMERIC | {*"._-"}
        for part in parts
    )
    return plain and 2 <= len(parts) <= 5 and name == name.lower()


def why_not_shared(key: str, content: str, rules: Rules | None = None) -> str:
    """ "" or the one sentence that says why no team may hold this."""
    path = f"team/{key}"
    if key != INDEX and (bad := why_bad_name(path)):
        return f"{bad}."
    try:
        size = len(content.encode())
    except UnicodeEncodeError:
        return f"{key} is not valid UTF-8."
    if size > min(LARGEST_FILE, LARGEST):
        return f"{key} has {size:,} bytes of at most {LARGEST_FILE:,}: split it by topic."
    if "\x00" in content or not content.strip():
        return f"{key} is empty or not a text."
    if read_topic(path, content.encode()).type == "user":
        return f"{key} is about a person (type user): such memories are never shared."
    leaks = leaks_in(content, key, rules)
    return f"{leaks[0].sentence} Take it out; a team's memory never holds secrets." if leaks else ""


def lines_of(index: bytes) -> dict[str, str]:
    """Each line of an index by what it is about, the file or its own words, and without a label: whose
    word it is, everybody's history says for itself."""
    found: dict[str, str] = {}
    for line in index.decode("utf-8", "replace").splitlines():
        bare, label, _ = line.rstrip().partition(" (source: teammate ")
        bare = bare if label else line.rstrip()
        pointer = next(iter(pointers_of(bare.encode())), None)
        found.setdefault(pointer.file if pointer else bare.strip(), bare)
    found.pop("", None)
    return found


def with_lines(index: bytes, other: bytes, taken: Callable[[str, str], str]) -> bytes:
    """The index with the other's lines as `taken` has them ("": not), each where it stands there. No
    line goes, so two that are merged never clash, and what is not taken stays as it is to the byte."""
    lines, end, at = index.splitlines(keepends=True), b"\r\n" if b"\r\n" in index else b"\n", 0
    pieces = [[], *([line] for line in lines)]  # a line and what follows; first, what is above
    places = {next(iter(lines_of(line)), ""): n for n, line in reversed([*enumerate(lines, 1)])}
    for about, line in lines_of(other).items():
        known = places.get(about)
        at = known or at
        if new := taken(about, line).encode():
            if known:
                pieces[at][0] = new + end
            else:
                apart = new.startswith(b"#") and (at or pieces[0])
                pieces[at] += [end, new + end] if apart else [new + end]
    if pieces[-1][1:] and not pieces[-1][0].endswith((b"\n", b"\r")):
        pieces[-1][0] += end
    return b"".join(chain.from_iterable(pieces))
