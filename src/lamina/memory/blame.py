"""Which commit wrote which line of a memory, what the user's own word is in it, and diffs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff

from lamina.memory.commits import Commit


@dataclass(frozen=True, slots=True)
class BlamedLine:
    number: int  # counted from 1
    text: str
    commit: Commit


def blame(versions: Sequence[tuple[Commit, bytes | None]]) -> list[BlamedLine]:
    """Each line of the last version with the commit that put it there; versions oldest first."""
    lines: list[str] = []
    owners: list[Commit] = []
    for commit, content in versions:
        new = _text(content).splitlines()
        matcher = SequenceMatcher(None, lines, new, autojunk=False)
        whose = [commit] * len(new)
        for block in matcher.get_matching_blocks():
            whose[block.b : block.b + block.size] = owners[block.a : block.a + block.size]
        lines, owners = new, whose
    return [
        BlamedLine(number, text, commit)
        for number, (text, commit) in enumerate(zip(lines, owners, strict=True), 1)
    ]


def users_word(lines: Sequence[BlamedLine], path: str = "") -> str:
    """The lines that rest on what the user typed, by the history; frontmatter proves nothing."""
    return "\n".join(line.text for line in lines if rests_on_user(line.commit, path))


def rests_on_user(commit: Commit, path: str = "") -> bool:
    """A commit of many files, such as a dream's, names those of them that do."""
    if commit.writer == "outside":
        return False
    typed = commit.origin == "typed" or commit.writer == "user"
    return typed or (bool(path) and path in commit.marks.get("Typed", "").split())


def written_at(commit: Commit, mtime: float) -> float:
    """When the commit's lines came into a file that was last changed at `mtime`: what was written
    outside is older than the look that found it."""
    return min(commit.when, mtime) if commit.writer == "outside" and mtime else commit.when


def diff_text(path: str, before: bytes | None, after: bytes | None) -> str:
    """A unified diff of one file."""
    old, new = _text(before).splitlines(), _text(after).splitlines()
    names = (
        f"a/{path}" if before is not None else "/dev/null",
        f"b/{path}" if after is not None else "/dev/null",
    )
    return "\n".join(unified_diff(old, new, *names, lineterm=""))


def _text(content: bytes | None) -> str:
    return (content or b"").decode("utf-8", "replace")
