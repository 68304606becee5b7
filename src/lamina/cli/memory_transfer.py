"""`lamina memory import | export`: memories from and for other programs. Reads Markdown folders (Claude
Code's memory is one), a single Markdown file such as AGENTS.md, mem0's export and Lamina's own. What
is imported passes the gate as somebody else's word, unless the user says that it is theirs: then what
speaks of them waits in the inbox. One import is undone with one command.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lamina.cli.options import add_verb, command, flag, hint
from lamina.cli.terminal import (
    UTF_16,
    harmless,
    letters_of,
    note,
    out_decisions,
    out_json,
    out_result,
    picked,
    plural,
)
from lamina.config import Config
from lamina.errors import (
    Conflict,
    GateRefused,
    InboxFull,
    LaminaError,
    MemoryStoreError,
    SaidAlready,
    UsageError,
)
from lamina.machine import failing_as
from lamina.memories import MEMORY_TYPES, QUOTED, Commit, MemoryType, Outcome, Proposal
from lamina.messages import as_list, as_object
from lamina.ports import MemoryHistory, MemoryStore

_FORMS = ("json", "mem0", "agents", "folder")
_INDEX = "MEMORY.md"
_LARGEST = 50_000_000  # bytes of one file
_TEXTS = (".md", ".txt", ".mdx", ".markdown")
_MARK = "import "
_THERE = ("accept", "same")


def add_verbs(verbs: Any) -> None:
    taking = add_verb(verbs, "import", "import memories from another program")
    sources = "a folder, AGENTS.md, a JSON export of mem0 or Lamina; `claude`: Claude Code's here"
    taking.add_argument("source", nargs="?", help=sources)
    flag(taking, "--dry-run", "only show what would happen")
    flag(taking, "--mine", "I vouch for all of it: no inbox")
    kinds = "type of what has none (project; of an AGENTS.md feedback, of mem0 user)"
    taking.add_argument("--type", choices=MEMORY_TYPES, help=kinds)
    flag(taking, "--undo", "undo the last import")
    export = add_verb(verbs, "export", "print every memory, or write them for another program")
    export.add_argument("-o", "--output", metavar="FILE", help="write here; for `folder`, a folder")
    forms = "json; mem0: a list of {memory}; agents: a section for AGENTS.md; folder: files as Claude Code's"
    export.add_argument("--to", choices=_FORMS, default="json", help=forms)


# ---- import


@dataclass(frozen=True, slots=True)
class Found:
    """A memory as it stands elsewhere."""

    where: str
    body: str
    type: MemoryType | None = None
    name: str = ""
    description: str = ""
    path: str = ""  # what its file is called there, which others link to
    file: bytes | None = None  # all of that file, if it holds this memory alone


def take_over(args: argparse.Namespace, config: Config, store: MemoryStore) -> None:
    if args.undo:
        return _undo(args, store)
    if not args.source:
        raise UsageError("Say what to import: a folder, a file, or `claude`. See --help.")
    claude = args.source == "claude"
    source = claude_memory(config) if claude else Path(args.source).expanduser()
    if claude and not source.is_dir():
        raise UsageError(f"Claude Code has no memory of this project ({source}).")
    otherwise, found = _read(source)
    if not found:
        raise UsageError(f"There are no memories in {source}.")
    mark = f"{_MARK}{secrets.token_hex(4)} from {source.name}"
    rows = [_take(args, store, one, args.type or otherwise, mark) for one in found]
    if args.mine and not args.dry_run:
        saved = [one for one, row in zip(found, rows, strict=True) if row["decision"] in _THERE]
        _no_longer_wait(store, saved)
    if args.json:
        return out_json(rows)
    out_decisions(rows, 50)
    if args.dry_run:
        return hint(args, "Nothing was written. Leave out --dry-run to import.")
    became = Counter(row["decision"] for row in rows)
    if saved := became["accept"]:
        undo = command(args, "memory import --undo")
        many = plural(saved, "memory", "memories")
        hint(args, f"{many} imported. {undo} removes them again.")
    if waiting := became["inbox"]:
        hint(args, f"{waiting} waiting for review: `lamina memory inbox`. --mine vouches for all.")
    return None


def _no_longer_wait(store: MemoryStore, saved: Sequence[Found]) -> None:
    """What an earlier import had wait and this one vouches for waits for nobody."""
    bodies = [words for one in saved for words in _wordings(one.body, one.file)]
    for item in store.waiting():
        ours = item.proposal.reason.startswith(_MARK)
        if ours and item.proposal.body.split() in bodies:
            store.reject(item.id, for_good=False)


def _take(
    args: argparse.Namespace, store: MemoryStore, one: Found, kind: MemoryType, mark: str
) -> dict[str, str]:
    from lamina.memory import free_names, is_memory_path, proposed, why_bad_name, why_misnamed

    head = picked(one, "name description")
    reason = f"{mark}, {one.where}" if one.where else mark
    proposal = proposed(one.body, type=one.type or kind, store=store, reason=reason, **head)
    proposal = replace(proposal, writer="user" if args.mine else "program")
    named = replace(proposal, path=one.path)
    amiss = why_bad_name(one.path) or (not args.mine and why_misnamed(named))
    ours = not one.path.startswith("team/")  # the team's files come by joining it
    if ours and not amiss and is_memory_path(one.path):
        proposal = named

    def other(path: str) -> bool:  # an import never goes on with a memory that says something else
        there = store.content(path, 1) is not None
        return there and store.read(path).body.strip() != proposal.body.strip()

    names = (one for one in free_names(proposal.path, proposal.body) if not other(one))
    proposal = replace(proposal, path=next(names, proposal.path))
    path, decision, reason = _outcome(args, store, proposal, one.file)
    return {"from": one.where, "path": path, "decision": decision, "reason": reason}


def _outcome(
    args: argparse.Namespace, store: MemoryStore, proposal: Proposal, file: bytes | None
) -> tuple[str, str, str]:
    """(path, accept | inbox | same | refuse, why)."""
    try:
        if same := _same(store, proposal, file):
            return same, "same", "it is remembered already"
        if args.dry_run:
            verdict = store.judge(proposal, store.content(proposal.path), None)
            return proposal.path, verdict.decision, verdict.reason or proposal.description
        outcome = _keep(store, proposal, file)
    except SaidAlready as said:
        return said.path, "same", "it is remembered already"
    except (GateRefused, InboxFull) as error:
        return proposal.path, "refuse", str(error)
    decision = outcome.decision if outcome.changed or outcome.decision == "inbox" else "same"
    return outcome.path, decision, outcome.reason or proposal.description


def _keep(store: MemoryStore, proposal: Proposal, file: bytes | None) -> Outcome:
    """A whole file keeps its bytes: line ends, letters of another encoding, keys that others read."""
    from lamina.memory import edit_topic

    why = ""
    if file is not None and store.content(proposal.path, 1) is None:
        try:
            whole = edit_topic(file, **picked(proposal, "name description type"))
            by = picked(proposal, "writer reason")
            return store.write_file(proposal.path, whole, base=None, pointer=True, **by)
        except (GateRefused, MemoryStoreError) as error:  # perhaps only for its keys
            why = str(error)
    outcome = store.remember(proposal)
    if why:
        note(
            f"{harmless(proposal.path)} comes over without the rest of its frontmatter: {harmless(why)}"
        )
    return outcome


def _same(store: MemoryStore, proposal: Proposal, file: bytes | None) -> str:
    """The memory that says the same word for word, "" if none does."""
    wanted = _wordings(proposal.body, file)
    near = [one.path for one in store.list() if one.size < 4 * len(proposal.body) + 4_096]
    return next((path for path in near if store.read(path).body.split() in wanted), "")


def _wordings(body: str, file: bytes | None) -> list[list[str]]:
    """Its words, and those that a store reads which keeps the bytes of a file."""
    from lamina.memory import read_topic

    return [body.split(), read_topic("", file).body.split()] if file else [body.split()]


def _undo(args: argparse.Namespace, store: MemoryStore) -> None:
    history = store.history
    if history is None:
        raise UsageError("This memory keeps no history, so an import can't be undone.")
    history.settle()
    ours = [one for one in history.in_force() if one.change.reason.startswith(_MARK)]
    saved = [one for one in ours if _something_left(history, one.by)]
    waiting = [one for one in store.waiting() if one.proposal.reason.startswith(_MARK)]
    done = [(one.change.when, one.change.reason) for one in saved]
    done += [(one.when, one.proposal.reason) for one in waiting]
    if not done:
        raise UsageError("Nothing was imported here.")
    # A commit's time is whole seconds; of those in one, the log has the last first.
    last = max(done, key=lambda one: int(one[0]))[1]
    mark = _MARK + last.removeprefix(_MARK).partition(" ")[0]
    paths: list[str] = []  # without the index, which every one of them changes
    for one in (one for one in saved if one.change.reason.startswith(mark)):
        try:
            paths += [path for path in history.undo(one.by.id) if path != _INDEX]
        except LaminaError as error:
            note(f"{one.by.id[:8]} stays: {harmless(str(error))}")
    for item in (one for one in waiting if one.proposal.reason.startswith(mark)):
        paths.append(store.reject(item.id, for_good=False).proposal.path)
    back = f"Taken back: {', '.join(map(harmless, paths)) or 'none of it was left'}."
    out_result({"undone": paths}, back, as_json=args.json)


def _something_left(history: MemoryHistory, commit: Commit) -> bool:
    try:
        return bool(history.effect(commit))
    except Conflict:
        return True  # undoing it says so


# ---- reading what others wrote


def claude_home() -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude").expanduser()


def claude_memory(config: Config) -> Path:
    """Where Claude Code keeps what it remembers of this project, whether there is any or not."""
    from lamina.memory import memory_place

    return memory_place(claude_home(), config.project, claude=True).directory


def _read(source: Path) -> tuple[MemoryType, list[Found]]:
    """What is there, and the type of what has none."""
    with failing_as(UsageError, f"Can't read {source}"):
        if source.is_dir():
            return "project", list(_in_folder(source))
        if not source.is_file():
            raise UsageError(f"There is no file or folder {source}.")
        content = _content(source)
    text = letters_of(content)
    if source.suffix in _TEXTS:
        return "feedback", list(_sections(text))
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{source} is neither Markdown nor JSON.") from error
    own = as_object(value).get("memories")
    if own is not None:
        return "project", [one for row in as_list(own) if (one := _own(as_object(row)))]
    rows = as_list(as_object(value).get("results")) or as_list(value)
    found = (_own(_as_ours(as_object(row), number)) for number, row in enumerate(rows, 1))
    return "user", [one for one in found if one]


def _content(file: Path) -> bytes:
    with file.open("rb") as opened:
        content = opened.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise UsageError(f"{file} is over {_LARGEST // 1_000_000} MB.")
    return content


def _in_folder(folder: Path) -> Iterator[Found]:
    from lamina.memory import read_topic

    for file in sorted(folder.rglob("*")):
        if file.suffix in _TEXTS and file.is_file() and file.name != _INDEX:
            if not file.resolve().is_relative_to(folder.resolve()):  # into the user's own, perhaps
                note(f"{harmless(str(file))} is a link out of the folder: it is left out.")
                continue
            content = _content(file)
            text = letters_of(content).encode()
            content = text if content.startswith(UTF_16) else content
            memory = read_topic(file.name, text)
            if memory.quoted:
                _left_out(str(file.relative_to(folder)))
            elif memory.body.strip():
                path = file.relative_to(folder).as_posix()
                # A title that was only made from the file's name would make a worse one.
                title = "" if memory.name == file.stem else memory.name
                head = memory.type, title, memory.description
                yield Found(path, memory.body, *head, path, content)


def _left_out(path: str) -> None:
    note(f"{path} is a quotation, for which nobody vouches: it is left out.")


def _as_ours(row: Any, number: int) -> dict[str, Any]:
    """A row of mem0's, with what an export of ours put into its metadata: others mean other things."""
    ours = as_object(row.get("metadata"))
    ours = ours if ours.get("type") in MEMORY_TYPES else {}
    return {"where": f"number {number}", **ours, "body": row.get("memory")}


def _own(row: Any) -> Found | None:
    kind = row.get("type")
    body = str(row.get("body") or "").strip()
    if QUOTED in as_object(row.get("extra")):
        _left_out(str(row.get("path") or ""))
        return None
    if not body:
        return None
    known: Any = kind if kind in MEMORY_TYPES else None
    name, description = str(row.get("name") or ""), str(row.get("description") or "")
    path = str(row.get("path") or "")
    return Found(path or str(row.get("where") or ""), body, known, name, description, path)


def _sections(text: str) -> Iterator[Found]:
    """Each item and each paragraph of a Markdown file, under its heading; code stays out."""
    heading, held, fenced = "", list[str](), False

    def taken() -> Iterator[Found]:
        if body := " ".join(held).strip():
            yield Found(heading, body)
        held.clear()

    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith(("```", "~~~")):
            fenced = not fenced
            yield from taken()
        elif fenced:
            continue
        elif bare.startswith("#") or not bare:
            yield from taken()
            heading = bare.lstrip("# ") or heading
        elif bare.startswith(("- ", "* ", "+ ")):
            yield from taken()
            held.append(bare[2:].strip())
        else:
            held.append(bare)
    yield from taken()


def export(args: argparse.Namespace, store: MemoryStore) -> None:
    from lamina.cli.memory import as_json

    memories = [store.read(one.path) for one in store.list()]
    if left := store.unreadable():
        names = ", ".join(map(harmless, left[:5]))
        note(f"{plural(len(left), 'file')} can't be read as memories and stay out: {names}.")
    if args.to == "folder":
        return _write_folder(args, store)
    if args.to in ("agents", "mem0"):  # neither form can mark a quotation
        for one in memories:
            if one.quoted:
                _left_out(one.path)
        memories = [one for one in memories if not one.quoted]
    if args.to == "agents":
        lines = [f"- {' '.join(one.body.split())}" for one in memories]
        text = "\n".join(["## What is remembered", "", *lines]) + "\n"
    else:
        pinned = store.pinned()
        rows = [as_json(one, pinned=pinned, body=True) for one in memories]
        about = {"directory": str(store.directory), "index": store.index().text}
        value: Any = {**about, "memories": rows}
        if args.to == "mem0":
            meta = ("name", "description", "type", "path")
            value = [{"memory": row["body"], "metadata": {k: row[k] for k in meta}} for row in rows]
        text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
        if not args.output:
            return out_json(value)
    if not args.output:
        return out_result(text, harmless(text.rstrip("\n")), as_json=args.json)
    file = Path(args.output).expanduser()
    if file.is_file() and file.stat().st_size:
        how = (
            "Add the section with >> instead of -o" if args.to == "agents" else "Give another name"
        )
        raise UsageError(f"{file} holds something already. {how}.")
    with failing_as(UsageError, f"Can't write {file}"):
        file.write_text(text, "utf-8")
    return hint(args, f"{plural(len(memories), 'memory', 'memories')} written to {file}.")


def _write_folder(args: argparse.Namespace, store: MemoryStore) -> None:
    """The files as they are, with the index; into a folder that holds nothing else."""
    folder = Path(args.output or "").expanduser()
    if not args.output or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise UsageError("Give a new or empty folder with -o.")
    paths = [one.path for one in store.list()]
    with failing_as(UsageError, f"Can't write to {folder}"):
        for path in [*paths, _INDEX]:
            content = store.content(path)
            if content is not None:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content)
    hint(args, f"{plural(len(paths), 'memory', 'memories')} written to {folder}.")
