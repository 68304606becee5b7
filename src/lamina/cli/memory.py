"""`lamina memory`: list, show, add, edit, rename, vouch for, forget and pin memories; the other verbs
are in `memory_reports`, `memory_history` and `memory_transfer`. Every change goes through the store
and its gate, as the user's own word.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lamina.cli import memory_history, memory_reports, memory_transfer, terminal
from lamina.cli.chat_events import adopted
from lamina.cli.memory_history import edited_text, kept_if_refused
from lamina.cli.options import add_verb, begin_group, command, config_of, count, flag, hint, option
from lamina.cli.terminal import (
    fitted,
    harmless,
    letters_of,
    moment,
    note,
    one_line,
    out,
    out_json,
    picked,
)
from lamina.errors import RefusedError, UsageError
from lamina.events import Event, MemoryAdopted, Warned
from lamina.ledger.places import known_projects, slug
from lamina.memories import MEMORY_TYPES, QUOTED, Memory, Outcome

if TYPE_CHECKING:
    from lamina.agents.scopes import AgentMemory
    from lamina.config import Config
    from lamina.ports import MemoryStore

EXAMPLES = """
lamina memory list                       all memories, newest first
lamina memory show user_role             one file as it is
lamina memory search deploy friday
lamina memory search deploy friday --all   in all projects
lamina memory add "Deploys never happen on Fridays" --type project
lamina memory edit user_role             in $EDITOR
lamina memory forget user_role           it will not come back by itself
lamina memory forget user_role --purge   remove it from the history too, for good
lamina memory log user_role              who wrote what, and when
lamina memory blame user_role            line by line
lamina memory undo                       undo the last change made through Lamina
lamina memory undo 3f2a91                undo any change; of an undo: redo it
lamina memory vouch project_ports        it is true: show it unasked, as my own word
lamina memory inbox                      what is waiting for your review
lamina memory inbox accept --all
lamina memory why                        what was recalled in the last session, and why
lamina memory why user_role              where a memory comes from: who, from which words, when
lamina memory audit --fix
lamina memory export > memories.json
lamina memory export --to mem0           or agents, or folder -o DIR
lamina memory import claude --dry-run    what Claude Code remembers about this project
lamina memory import AGENTS.md --mine    my own words: nothing waits in the inbox
lamina memory import --undo              undo the last import
"""


_OF_AGENTS = ("list", "search", "show", "forget", "undo", "edit", "rename", "pin", "log", "blame")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = add_verb(verbs, "list", "list memories, newest first")
    begin_group(verbs, "the common ones")
    listing.add_argument("--type", choices=MEMORY_TYPES, help="only memories of this type")
    listing.add_argument("-n", "--number", type=count, default=50, help="how many (50); 0: all")
    search = memory_reports.add_search(verbs)
    show = add_verb(verbs, "show", "print a memory as it is, or the index")
    show.add_argument("path", nargs="?", default="MEMORY.md", help="the file (MEMORY.md)")
    add = _add_adding(verbs)
    forget = add_verb(verbs, "forget", "remove a memory so that it stays away")
    forget.add_argument("path", nargs="+", help="one file or several")
    flag(forget, "--purge", "remove it from the history too")
    memory_history.add_undo(verbs)
    memory_reports.add_why(verbs)
    edit = add_verb(verbs, "edit", "change a memory in $EDITOR")
    begin_group(verbs, "more")
    edit.add_argument("path", help="the file")
    for verb in (add, edit):
        flag(verb, "--allow-secret", "save it even if it looks like a secret")
    rename = add_verb(verbs, "rename", "give a memory another file name")
    rename.add_argument("path", help="the file")
    rename.add_argument("new", help="its new name")
    vouch = add_verb(verbs, "vouch", "make what nobody typed your own word, shown unasked")
    vouch.add_argument("path", help="the file of the quotation")
    pin = add_verb(verbs, "pin", "let nobody but you change a memory")
    pin.add_argument("path", nargs="?", help="the file; without it, list the pinned ones")
    flag(pin, "--off", "let others change it again")
    memory_history.add_verbs(verbs)
    memory_history.add_inbox(verbs)
    audit = memory_reports.add_audit(verbs)
    for verb in (listing, search, audit):
        flag(verb, "--all", "in all projects")
    memory_transfer.add_verbs(verbs)
    for name in _OF_AGENTS:
        about = "in the memory of this type of agent"
        option(verbs.choices[name], "--agent TYPE", about, default="")


def _add_adding(verbs: Any) -> argparse.ArgumentParser:
    add = add_verb(verbs, "add", "write a memory and its line in the index")
    add.add_argument("text", nargs="?", help="the text; without it, read from stdin or $EDITOR")
    of_itself = "its type (project; detected if the text is about you)"
    add.add_argument("--type", choices=MEMORY_TYPES, help=of_itself)
    add.add_argument("--name", help="its title (the first words)")
    add.add_argument("--description", help="one line to find it by (the first sentence)")
    add.add_argument("--file", help="the file's name (made from type and title)")
    flag(add, "--team", "share it with the team")
    return add


def run(args: argparse.Namespace) -> int | None:
    config = config_of(args)
    if args.verb == "why":
        return memory_reports.why(args, config)
    if getattr(args, "all", False) and args.verb in ("list", "search", "audit"):
        return _everywhere(args, config)
    agent = getattr(args, "agent", "")
    with open_store(config, quiet=args.quiet or args.json, agent=agent) as store:
        if args.verb == "audit":
            return memory_reports.audit(args, store, config)
        if args.verb == "import":
            return memory_transfer.take_over(args, config, store)
        return _VERBS[args.verb](args, store)


def _everywhere(args: argparse.Namespace, config: Config) -> int:
    """The same for each project that has memories, under its name."""
    codes: list[int] = []
    values: list[dict[str, object]] = []
    own = [(project, "", dict[str, object]()) for project in known_projects(config.own_home)]
    for project, agent, where in own if config.claude else [*own, *_of_claude_code(config)]:
        here = argparse.Namespace(**{**vars(args), "project": project, "all": False, **where})
        with open_store(config_of(here)) as store:
            if not store.list():
                continue
        if not args.json:
            out(terminal.style(harmless(f"{project}{agent and f' ({agent})'}"), "bold"))
            codes.append(run(here) or 0)
            continue
        with contextlib.redirect_stdout(io.StringIO()) as said:
            codes.append(run(here) or 0)
        about = {"project": project, "agent": agent or "Lamina"}
        values.append({**about, args.verb: json.loads(said.getvalue())})
    if args.json:
        out_json(values)
    elif not codes:
        note("No project has memories yet.")
    return max(codes, default=0)


def _of_claude_code(config: Config) -> Iterator[tuple[str, str, dict[str, object]]]:
    """The projects of which Claude Code has memories, and the options that lead to them. A folder's name
    does not say where its project is: a session in it does, or one of ours, or a path stands in."""
    from lamina.recall.transcripts import began_in

    home = memory_transfer.claude_home()
    for folder in sorted((home / "projects").glob("*/memory")):
        named = map(began_in, folder.parent.glob("*.jsonl"))
        known = (*named, str(config.project), *known_projects(config.own_home))
        name = folder.parent.name
        project = next((one for one in known if slug(one) == name), f"/{name[1:]}")
        yield project, "Claude Code", {"home": str(home), "claude": True}


def open_store(config: Config, *, quiet: bool = True, agent: str = "") -> MemoryStore:
    """The project's memory for a command, or that of a type of agent: history is recorded at the end,
    not in the background."""
    from lamina.memory import open_store as open_it

    def tell(event: Event) -> None:
        """Warnings of the store go to stderr, whatever is printed."""
        if isinstance(event, Warned):
            note(harmless(event.message))
        elif isinstance(event, MemoryAdopted) and not quiet:
            note(adopted(len(event.files), "written by Claude Code" if config.claude else ""))

    if not agent:
        return open_it(config, tell)
    known = agent_memories(config)
    if agent not in known:
        kept, type_ = ", ".join(map(harmless, known)) or "none", harmless(agent)
        raise UsageError(f"Agents of type {type_} have no memory here. Types that do: {kept}.")
    return known[agent].open(config, tell, tuple)


def agent_memories(config: Config) -> dict[str, AgentMemory]:
    """Where each type of agent keeps what it learned, of those that learned something."""
    from lamina.agents.scopes import AgentMemory
    from lamina.agents.types import Trust
    from lamina.cli.agents import types_of

    known, trust = types_of(config).known.values(), Trust(config)
    places = {kind.name: AgentMemory.of(kind, config, trust) for kind in known}
    return {name: one for name, one in places.items() if one and one.directory.is_dir()}


def _list(args: argparse.Namespace, store: MemoryStore) -> None:
    memories = [one for one in store.list() if args.type in (None, one.type)]
    shown, pinned = memories[: args.number or None], store.pinned()
    if args.json:
        out_json([as_json(one, pinned=pinned) for one in shown])
        return
    rows: list[list[str]] = []
    for one in shown:
        file = one_line(one.path, min(40, terminal.width() // 2)) + " *" * (one.path in pinned)
        told_as = memory_reports.told_as(one, one.name)
        rows.append([one.type or "-", file, moment(one.mtime, day_only=True), told_as])
    if rows:
        out(fitted(rows, ["type", "file", "changed", "what"], gives_way=(2, 0), cut=3))
    if not memories:
        hint(
            args,
            f"No memories in {harmless(str(store.directory))} yet. `lamina memory add` writes one.",
        )
    if more := len(memories) - len(shown):
        hint(args, f"{more} more; `-n 0` shows all.")
    if unreadable := store.unreadable():
        names = ", ".join(map(harmless, unreadable[:5]))
        many = terminal.plural(len(unreadable), "file")
        hint(args, f"{many} can't be read as memories: {names}.")
    if waiting := len(store.waiting()):
        hint(args, f"{waiting} waiting for review: `lamina memory inbox`.")


def _show(args: argparse.Namespace, store: MemoryStore) -> None:
    path = find(store, args.path)
    content = store.read_bytes(path)
    if args.json:
        out_json(as_json(store.read(path), pinned=store.pinned(), body=True))
    elif sys.stdout.isatty():
        out(harmless(content.decode("utf-8", "replace").rstrip("\n")))
    else:
        terminal.out_bytes(content)


def _add(args: argparse.Namespace, store: MemoryStore) -> None:
    from lamina.local.extractor import kind_added
    from lamina.memory import proposed

    in_editor = args.text is None and sys.stdin.isatty()
    if in_editor:
        text = edited_text("")
    elif args.text is not None:
        text = letters_of(os.fsencode(args.text))
    else:
        piped = sys.stdin.buffer.read(2 * store.max_bytes)
        if len(piped) == 2 * store.max_bytes:  # to look at the rest would only cost time
            most = f"at most {store.max_bytes:,} bytes, and far more is piped in"
            raise RefusedError(f"One memory has {most}. Split it by topic.")
        text = letters_of(piped)
    text = text.strip()
    if not text:
        raise UsageError("There is no text to remember. Give it as an argument or on stdin.")
    proposal = proposed(
        text,
        type=args.type or kind_added(text),
        store=store,
        name=args.name or "",
        description=args.description or "",
        reason="lamina memory add",
    )
    folder = "team/" if args.team else ""
    path = folder + (md(args.file) if args.file else proposal.path)
    proposal = replace(proposal, path=path, allow_secret=args.allow_secret)
    with kept_if_refused(text) if in_editor else contextlib.nullcontext():
        # A name that the user chose is used as it is, or refused if another memory has it.
        outcome = store.write(proposal) if args.file else store.remember(proposal)
    told(args, outcome, store)


def md(name: str) -> str:
    return name if name.endswith(".md") else f"{name}.md"


def _edit(args: argparse.Namespace, store: MemoryStore) -> None:
    path = find(store, args.path)
    old = store.read_bytes(path)
    new = edited_text(old.decode("utf-8", "surrogateescape"))
    content = new.encode("utf-8", "surrogateescape")
    if content == old:
        note("Nothing was changed.")
        return
    with kept_if_refused(new):
        outcome = save_edited(
            store, path, content, old, reason="lamina memory edit", allow_secret=args.allow_secret
        )
    told(args, outcome, store)


def save_edited(
    store: MemoryStore, path: str, content: bytes, base: bytes, *, reason: str, allow_secret: bool
) -> Outcome:
    """A memory or an index as its user changed it, by hand, from what `base` was."""
    index = path.rsplit("/", 1)[-1] == "MEMORY.md"
    return store.write_file(
        path,
        content,
        writer="user",
        base=base,
        reason=reason,
        pointer=not index,
        allow_secret=allow_secret,
    )


def _vouch(args: argparse.Namespace, store: MemoryStore) -> None:
    told(args, vouch(store, find(store, args.path), reason="lamina memory vouch"), store)


def vouch(store: MemoryStore, path: str, *, reason: str) -> Outcome:
    """What nobody typed becomes the user's own word: it is shown unasked from now on."""
    from lamina.memory import edit_topic

    if not store.read(path).quoted:
        raise UsageError(f"{harmless(path)} is no quotation: it speaks already.")
    old = store.read_bytes(path)
    new = edit_topic(old, extra={QUOTED: None})
    return save_edited(store, path, new, old, reason=reason, allow_secret=True)


def _rename(args: argparse.Namespace, store: MemoryStore) -> None:
    told(args, store.rename(find(store, args.path), md(args.new)), store)


def _forget(args: argparse.Namespace, store: MemoryStore) -> None:
    forgotten: dict[str, str] = {}  # path → the commit whose undo brings it back
    days: set[str] = set()
    for word in args.path:
        path = (_gone(store, word) if args.purge else "") or find(store, word)
        days |= _days_that_say(store, path)
        forgotten[path] = forget(store, path, purge=args.purge, reason="lamina memory forget")
    if args.json:
        out_json({"forgotten": [*forgotten], "purged": args.purge, "undo": [*forgotten.values()]})
        return
    for_good = ", and removed from the history for good" if args.purge else ""
    out(f"Forgotten: {', '.join(map(harmless, forgotten))}{for_good}.")
    if args.purge:
        for day in sorted(days):
            note(f"{harmless(day)} in {store.directory} still says it: take the line out there.")
        hint(
            args, "The history was written anew: `lamina memory log` lists the new ids of changes."
        )
        return
    for path, commit in forgotten.items():
        if commit:
            hint(args, f"{command(args, f'memory undo {commit}')} brings {harmless(path)} back.")
    names = " ".join(shlex.quote(path) for path in forgotten)
    purge = command(args, f"memory forget {names} --purge")
    hint(args, harmless(f"{purge} removes it from the history too, for good."))


def forget(store: MemoryStore, path: str, *, purge: bool, reason: str) -> str:
    """Forget one memory; the change whose undo brings it back, "" where nothing does."""
    store.forget(path, purge_history=purge, reason=reason)
    if not purge:
        return store.newest_change(path)
    from lamina.recall.memory_index import MemoryIndex

    MemoryIndex(store).drop_the_gone()
    return ""


def _days_that_say(store: MemoryStore, path: str) -> set[str]:
    """Days of the diary with words of a memory: they are the user's to change, even in a purge."""
    words = {line.strip() for line in (store.content(path) or b"").splitlines() if line.strip()}
    logs = store.directory.glob("logs/*/*/*.md") if store.in_files else ()
    return {
        log.relative_to(store.directory).as_posix()
        for log in logs
        if log.is_file()
        and any(row.partition(b"] ")[2].strip() in words for row in log.read_bytes().splitlines())
    }


def _gone(store: MemoryStore, word: str) -> str:
    """The path of a memory that is left only in the history or the inbox, so that it can still be
    purged; "" if the memory exists, or if nothing is known of it."""
    path = md(word)
    if any(store.content(one, 1) is not None for one in (word, path)):
        return ""
    waits = any(item.proposal.path == path for item in store.waiting())
    return path if waits else known(store, word)


def known(store: MemoryStore, word: str) -> str:
    """The path of a memory that exists, or did; "" if nothing is known of it."""
    from lamina.memory import is_memory_path

    for path in (word, md(word), f"team/{md(word)}"):
        if is_memory_path(path) and store.content(path, 1) is not None:
            return path
    if store.history is None:
        return ""
    store.history.settle()
    return md(word) if any(store.history.log(md(word))) else ""


def _pin(args: argparse.Namespace, store: MemoryStore) -> None:
    if args.path:
        store.pin(find(store, args.path), on=not args.off)
    pinned = sorted(store.pinned())
    if args.json:
        out_json(pinned)
        return
    for path in pinned:
        out(harmless(path))
    if not pinned:
        hint(args, "Nothing is pinned.")


_VERBS = {
    "list": _list, "show": _show, "search": memory_reports.search, "add": _add, "edit": _edit,
    "rename": _rename, "vouch": _vouch, "forget": _forget, "pin": _pin,
    "export": memory_transfer.export, "inbox": memory_history.review,
    **dict.fromkeys(memory_history.VERBS, memory_history.run),
}  # fmt: skip


def find(store: MemoryStore, word: str) -> str:
    """The path that the user means: as given, or without `.md`."""
    for path in (word, f"{word}.md"):
        if store.content(path, 1) is not None:
            return path
    store.read_bytes(word)  # raises: there is none
    return word


def told(args: argparse.Namespace, outcome: Outcome, store: MemoryStore) -> None:
    """Say what became of a write, and how to undo it."""
    commit = store.newest_change(outcome.path) if outcome.changed else ""
    if args.json:
        told_of = picked(outcome, "path decision changed reason warnings")
        out_json({**told_of, "commit": commit})
        return
    out(outcome.sentence)
    for warning in outcome.warnings:
        hint(args, harmless(warning))
    if commit:
        hint(args, f"{command(args, f'memory undo {commit}')} undoes it.")


def as_json(
    memory: Memory, *, pinned: set[str] | None = None, body: bool = False
) -> dict[str, object]:
    value: dict[str, object] = picked(memory, "path name description type")
    value |= {"changed": memory.mtime, "bytes": memory.size}
    if pinned is not None:
        value["pinned"] = memory.path in pinned
    if memory.quoted:
        value["quoted_from"] = memory.quoted
    if body:
        value |= {"body": memory.body, "extra": dict(memory.extra)}
    return value
