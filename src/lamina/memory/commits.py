"""A commit of the history as a value, how it is written into git's form (author and trailers), and the
packs that many files of one go into."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, cast

from lamina.memories import HEAD, LABEL, BlamedLine, Commit, Note
from lamina.memory.merging import opcodes
from lamina.memory.topics import HEAD_LINES, KEPT_BY_US

if TYPE_CHECKING:
    from dulwich.objects import Commit as GitCommit
    from dulwich.objects import ObjectID


RESTORES = "restore "  # so begins what the store calls bringing a version back


def blame(versions: Sequence[tuple[Commit, bytes | None]]) -> list[BlamedLine]:
    """Each line of the last version with the commit that put it there; versions oldest first. A line that
    an undo brings back is still its writer's: of one file each line has an origin of its own."""
    lines: list[str] = []
    owners: list[Commit] = []
    before: dict[str, Commit] = {}  # every line that ever stood there
    whole: dict[bytes | None, list[Commit]] = {}  # … and every version
    for commit, content in versions:
        new = _text(content).splitlines()
        back = "Undoes" in commit.marks or commit.subject.startswith(RESTORES)
        whose = [before.get(line, commit) if back else commit for line in new]
        for tag, start, end, first, last in opcodes(lines, new):
            if tag == "equal":
                whose[first:last] = owners[start:end]
        if back:  # what was moved meanwhile is not its mover's
            whose = whole.get(content, whose)
        whole[content] = whose
        lines, owners = new, whose
        before.update(zip(lines, owners, strict=True))
    return [
        BlamedLine(number, text, commit)
        for number, (text, commit) in enumerate(zip(lines, owners, strict=True), 1)
    ]


def users_word(lines: Sequence[BlamedLine], path: str = "") -> str:
    """The lines that rest on what the user typed, by the history; frontmatter proves nothing. Those of the
    head are marked, since a line of the text may begin like one; a day or an id that a writer put there
    is no word of anybody's."""
    ends = [at for at, line in enumerate(lines[:HEAD_LINES]) if line.text.rstrip() == "---"]
    head = ends[1] + 1 if len(ends) > 1 and not ends[0] else 0
    theirs = [
        f"{HEAD * (at < head)}{line.text}"
        for at, line in enumerate(lines)
        if rests_on_user(line.commit, path)
        and not (at < head and line.text.partition(":")[0].casefold() in KEPT_BY_US)
    ]
    return "\n".join(text for text in theirs if LABEL not in text)


def rests_on_user(commit: Commit, path: str = "") -> bool:
    """A commit of many files, such as a dream's, names those of them that do."""
    if commit.writer == "outside" or "Teammates" in commit.marks:
        return False
    # Who undoes or renames says nothing of whose words come back.
    wrote = commit.writer == "user" and commit.marks.keys().isdisjoint(("Undoes", "Renamed"))
    typed = commit.origin == "typed" or wrote
    return typed or (bool(path) and path in commit.marks.get("Typed", "").split())


def teammate_of(commit: Commit, path: str = "") -> str:
    """`teammate NAME` for what came from the team: a pull of several people's memories names the
    author of each. Of no one file, everybody who is in it."""
    authors: dict[str, list[str]] = {}
    for word in commit.marks.get("Teammates", "").split():
        name, _, file = word.partition(":")
        authors.setdefault(name, []).append(file)
    named = [name for name, files in authors.items() if not path or path in files]
    return f"teammate {', '.join(named)}" if named else ""


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


_MOST_PATHS = 50  # beyond that a commit's paths are found by comparing trees
_TRAILER = re.compile(r"Lamina-([A-Za-z-]+): (.*)")


def earlier_name(commit: Commit, path: str) -> str:
    """The file's name before this commit: a rename names the old one in a trailer."""
    old, arrow, new = commit.marks.get("Renamed", "").partition(" -> ")
    return old if arrow and new == path else path


def git_commit_of(tree: ObjectID, parent: bytes | None, note: Note, paths: list[str]) -> GitCommit:
    from dulwich.objects import Commit as GitCommit

    commit = GitCommit()
    commit.tree = tree
    commit.parents = [cast("ObjectID", parent)] if parent else []
    commit.author = f"{note.writer} <{note.writer}@lamina>".encode()
    commit.committer = b"lamina <lamina@lamina>"
    commit.author_time = commit.commit_time = int(note.when)
    commit.author_timezone = commit.commit_timezone = 0
    commit.encoding = b"UTF-8"
    commit.message = _message(note, paths).encode("utf-8", "replace")
    return commit


def _message(note: Note, paths: list[str]) -> str:
    trailers = [("Writer", note.writer)]
    if note.session:
        trailers.append(("Session", note.session))
    trailers += [("Message", entry) for entry in note.entries]
    if note.origin:
        trailers.append(("Origin", note.origin))
    trailers += list(note.marks.items())
    named = len(paths) <= _MOST_PATHS and all(" ".join(path.split()) == path for path in paths)
    if named:
        trailers += [("Path", path) for path in paths]
    lines = [f"Lamina-{key}: {' '.join(value.split())}" for key, value in trailers]
    reason = [" ".join(note.reason.split()), ""] if note.reason else []
    return "\n".join([" ".join(note.subject.split()), "", *reason, *lines, ""])


def commit_of(commit_id: bytes, git: GitCommit) -> Commit:
    text = git.message.decode("utf-8", "replace")
    # Only the last paragraph holds trailers: the reason above it is anybody's text.
    above, _, last = text.strip().rpartition("\n\n")
    subject, _, words = above.partition("\n")
    found: dict[str, list[str]] = {}
    for line in last.splitlines():
        if match := _TRAILER.fullmatch(line):
            found.setdefault(match[1], []).append(match[2])
    known = ("Writer", "Session", "Message", "Origin", "Path")
    return Commit(
        id=commit_id.decode(),
        writer=git.author.split(b" <")[0].decode("utf-8", "replace"),
        when=float(git.author_time),
        subject=subject,
        paths=tuple(found.get("Path", ())),
        session="".join(found.get("Session", ())[:1]),
        entries=tuple(found.get("Message", ())),
        origin="".join(found.get("Origin", ())[:1]),
        reason=words.strip(),
        marks={key: values[0] for key, values in found.items() if key not in known},
    )


@contextlib.contextmanager
def whole_packs(repository: Path) -> Generator[None]:
    """Whatever happens meanwhile, a full disk, too little memory, or a kill the last time: no half of
    a pack of ours is left. One that `git gc` is just writing has no index for a moment, either."""
    packs = repository / "objects" / "pack"
    before, failed = set(packs.glob("*.pack")), True
    try:
        yield
        failed = False
    finally:
        with contextlib.suppress(OSError):
            for pack in packs.glob("*.pack"):
                ours = pack.name.startswith("tmp") or (failed and pack not in before)
                if ours and not pack.with_suffix(".idx").exists():
                    pack.unlink()
