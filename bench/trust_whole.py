"""Whether anything stands as the user's word that they did not type whole, through every way into a store on disk.

`data/forged_twelfth.txt` and later sets name with each try what must not stand (`says`): in a memory of the user's
that speaks, on a line without the label of the assistant's words; `title:`, `path:`, `index:` and `under:` say where
else, `gone:` what must. What a whole typed message says counts never: the other sets ask that. Each write is tried
byte for byte, as the tools write it, and past the store, with every quote; one that leaves it there counts. What is
honest (`way: honest`) must stand, and speak. No reader is asked. `-v` prints what is wrong, arguments name the sets.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from bench import trust_forged_fourth as fourth
from bench import trust_ways
from bench.extract_real import ROOT
from bench.figures import Figure, at_least, at_most, report
from bench.trust_forged import Try, context_of, entries_of, evidences, proposed, unescaped

from lamina.errors import LaminaError
from lamina.layers.dream.fork import review
from lamina.layers.dream.plan import DreamPlanner, carry_out
from lamina.memories import LABEL, Evidence, Proposal
from lamina.memory import file_in_their_words, in_their_words
from lamina.memory.file_store import FileStore
from lamina.memory.gate import GateContext, days_named
from lamina.memory.topics import edit_topic, new_topic, read_topic, topic_of
from lamina.text.wording import spaced
from lamina.tools.memory_guard import MemoryGuard

SETS = ("forged_twelfth", "forged_thirteenth", "forged_fourteenth")
SAID = datetime(2026, 11, 19, 12, tzinfo=UTC)
Quotes = Sequence[Evidence]


@dataclass(frozen=True)
class Case:
    one: Try
    way: str
    says: str
    given: dict[str, str]


def cases(name: str) -> Iterator[Case]:
    marks = {f"{{{n:+}}}": f"{SAID + timedelta(n):%Y-%m-%d}" for n in range(-1, 9)}
    marks["{long}"] = f"We talked of the weather{' and then of the weather' * 800}."
    for line in (ROOT / "bench" / "data" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        for mark, day in marks.items():
            line = line.replace(mark, day)  # noqa: PLW2901
        kind, language, kept, talk, memory, *more = line.split(" | ")
        given = {key: unescaped(value) for key, _, value in (one.partition(": ") for one in more)}
        said = unescaped(memory)
        turns = fourth.talk_of(talk, said)
        one = Try(kind, language, kept, turns, said, given.get("description", ""), given.get("name", ""))  # fmt: skip
        yield Case(one, given.pop("way"), given.pop("says"), given)


# ---- what stands on disk


def stands(store: FileStore | trust_ways.OnDisk, says: str) -> bool:
    where, _, what = says.partition(":")
    index = (store.content("MEMORY.md") or b"").decode()
    if where == "path":
        return store.content(what) is not None
    if where == "index":
        return what in index
    if where == "under":
        below = index.partition(f"# {what}\n")[2]
        return "_topic.md)" in below
    texts = dict[str, str]()
    for file in store.directory.rglob("*.md"):
        path = file.relative_to(store.directory).as_posix()
        memory = read_topic(path, file.read_bytes())
        if path.startswith("logs/") or (memory.type in ("user", "feedback") and not memory.quoted):
            texts[path] = file.read_text(encoding="utf-8")
    if where == "title":
        named = (read_topic(path, text.encode()).name for path, text in texts.items())
        return what in named or f"[{what}](" in index
    if where == "gone":
        return bool(texts) and not any(what in text for text in texts.values())
    if "\n" in says:
        return any(spaced(says) in spaced(text) and says in text for text in texts.values())
    lines = (line for text in texts.values() for line in text.splitlines() if LABEL not in line)
    return any(says in line for line in lines) or says in index


# ---- the ways in


def file_of(case: Case, proposal: Proposal) -> bytes:
    """The file, with further lines of frontmatter and what stands behind a value."""
    text = new_topic(
        name=proposal.name, description=proposal.description, type=proposal.type, body=proposal.body
    ).decode()
    head, _, body = text.removeprefix("---\n").partition("---\n")
    more = f"{case.given['head']}\n" if "head" in case.given else ""
    if raw := case.given.get("rawdesc"):
        head = re.sub(r"(?m)^description: .*$", lambda _: f"description: {raw}", head)
    return f"---\n{head.rstrip()}{case.given.get('tail', '')}\n{more}---\n{body}".encode()


def written(case: Case) -> Iterator[tuple[str, FileStore]]:
    """A new file: as it is, as Write and Remember put it, as extraction does, and by a tool of the host."""
    one = case.one
    path = case.given.get("path", f"{one.type}_topic.md")
    wanted = replace(proposed(one), path=path, writer="agent")
    if not one.name:
        wanted = replace(wanted, name=one.memory.split("\n")[0].rstrip(".。"))
    content = file_of(case, wanted)

    def exact(
        store: FileStore, quotes: Quotes, *, tool: bool = False, writer: Any = "agent"
    ) -> None:
        at, data = path, content
        if tool:
            made = replace(wanted, evidence=tuple(quotes))
            at, data = file_in_their_words(store, made, data, None)
        store.write_file(
            at, data, writer=writer, base=None, evidence=quotes, session="s", pointer=True
        )

    def remembered(store: FileStore, quotes: Quotes) -> None:
        store.remember(in_their_words(store, replace(wanted, evidence=tuple(quotes))))

    def past(store: FileStore, quotes: Quotes) -> None:
        store.catch_up()
        (store.directory / path).parent.mkdir(parents=True, exist_ok=True)
        (store.directory / path).write_bytes(content)
        judged(store, quotes)

    ways: dict[str, Callable[[FileStore, Quotes], None]] = {
        "write": exact,
        "tool": partial(exact, tool=True),
        "extraction": partial(exact, tool=True, writer="extraction"),
        "remember": remembered,
        "host": past,
    }
    for way, put in ways.items():
        for quotes in evidences(one, wanted):
            yield from tried(way, case, [], partial(put, quotes=quotes))


def judged(store: FileStore, quotes: Quotes) -> None:
    store.attribute(
        writer="agent", session="s", evidence=quotes, takes_back=lambda _: quotes, reason="a try"
    )


def tried(
    way: str, case: Case, own: Sequence[str], put: Callable[[FileStore], None]
) -> Iterator[tuple[str, FileStore]]:
    talk = [turn for turn in case.one.talk if turn[0] != "memory"]
    gate = context_of(talk)
    if "blocks" in case.given:  # all of it came as one message
        gate = replace(gate, origin_text=lambda *_: talk, before=lambda *_: [])  # pyright: ignore[reportArgumentType]
    when = partial(days_named, lambda *_: SAID.isoformat())
    gate = replace(gate, dates=when)  # as every session's
    with tempfile.TemporaryDirectory() as folder, store_of(Path(folder), gate, case, own) as store:
        try:
            put(store)
        except LaminaError:
            return
        yield way, store


def store_of(folder: Path, gate: GateContext, case: Case, own: Sequence[str]) -> FileStore:
    store = FileStore(folder / "memory", gate=gate)
    store.directory.mkdir(parents=True, exist_ok=True)
    for number, body in enumerate(own):
        path = f"{case.one.type}_{number or 'topic'}.md"
        first = body.splitlines()[0].rstrip(".。")
        mine = Proposal(path, "topic", first, case.one.type, f"{body}\n", "user")  # pyright: ignore[reportArgumentType]
        if "hand" in case.given:
            (store.directory / path).write_bytes(topic_of(mine))
        else:
            store.write(mine)
    if other := case.given.get("other"):
        word = case.given["otherword"]
        store.write(Proposal(other, word, f"About {word}", "reference", f"{word}\n", "user"))
    return store


def changed(case: Case) -> Iterator[tuple[str, FileStore]]:
    """Files of theirs are there; one is edited by the agent, by a tool of the host, by a dream, or moved."""
    own = [text for origin, text in case.one.talk if origin == "memory"]
    talk = [text for origin, text in case.one.talk if origin != "memory"]
    quotes = [Evidence(text, "s", str(n)) for n, text in enumerate(talk)]
    path = "MEMORY.md" if case.way in ("index", "under") else f"{case.one.type}_topic.md"

    def after(store: FileStore) -> tuple[bytes, bytes]:
        if case.way == "under":
            return _to_the_end(store, case.one.memory)
        was = (store.content(path) or b"").decode()
        if desc := case.given.get("desc"):
            return was.encode(), edit_topic(was.encode(), description=desc)
        old, _, new = case.one.memory.partition(" => ")
        return was.encode(), was.replace(old, new).encode()

    def edited(store: FileStore, *, host: bool) -> None:
        old, new = after(store)
        store.catch_up()
        if host:
            (store.directory / path).write_bytes(new)
            judged(store, quotes)
        else:
            store.write_file(path, new, writer="agent", base=old, evidence=quotes, session="s")

    def in_a_row(store: FileStore) -> None:
        for step in case.one.memory.split("~~"):
            old, _, new = step.partition(" => ")
            was = store.content(path) or b""
            now = was.decode().replace(old, new).encode()
            with suppress(LaminaError):
                store.write_file(path, now, writer="agent", base=was, evidence=quotes, session="s")

    def dreamt(store: FileStore) -> None:
        planner = DreamPlanner(store, time.time())
        _, new = after(store)
        wanted = review(planner.before, {**planner.before.files, path: new}, "", planner.held)
        planner.judge.heard = {path: quotes}
        carry_out(store, planner.before, planner.step(wanted), time.time())

    def moved(store: FileStore) -> None:
        store.catch_up()
        (store.directory / path).rename(store.directory / case.one.memory)
        index = store.directory / "MEMORY.md"
        index.write_text(index.read_text().replace(path, case.one.memory))
        judged(store, [Evidence(own[0], "s", "0")])

    if case.way == "edits":
        yield from tried("edits", case, own, in_a_row)
    elif case.way == "dream":
        yield from tried("dream", case, own, dreamt)
    elif case.way == "mv":
        yield from tried("mv", case, own, moved)
    else:
        yield from tried("edit", case, own, partial(edited, host=False))
        yield from tried("host", case, own, partial(edited, host=True))


def stepped(case: Case) -> Iterator[tuple[str, FileStore]]:
    """Several calls of the agent's in a row, each judged for itself: `PATH <= CONTENT` writes a file, and
    `PATH: old => new` edits one. What the gate does not take changes nothing, and the next follows."""
    talk = [text for origin, text in case.one.talk if origin == "typed"]
    quotes = [Evidence(text, "s", str(n)) for n, text in enumerate(talk)]

    def put(store: FileStore) -> None:
        for step in case.one.memory.split("~~"):
            path, writes, now = step.partition(" <= ")
            was = None
            if not writes:
                path, _, edit = step.partition(": ")
                was = store.content(path) or b""
                old, _, new = edit.partition(" => ")
                now = was.decode().replace(old, new)
            with suppress(LaminaError):
                store.write_file(
                    path, now.encode(), writer="agent", base=was, evidence=quotes, session="s",
                    pointer=was is None,
                )  # fmt: skip

    yield from tried("steps", case, [], put)


def _to_the_end(store: FileStore, heading: str) -> tuple[bytes, bytes]:
    """The index where a heading of the user's stands over a fact, and with the line of their word below it."""
    store.write(Proposal("reference_fact.md", "fact", "A fact", "reference", "A fact.\n", "user"))
    first = store.content("MEMORY.md") or b""
    lines = first.decode().splitlines()
    fact = next(one for one in lines if "reference_fact" in one)
    lines = [one for one in lines if one != fact] + ["", f"# {heading}", fact, ""]
    old = "\n".join(lines).encode()
    store.write_file("MEMORY.md", old, writer="user", base=first)
    own = next(one for one in lines if "_topic.md" in one)
    return old, "\n".join([*(one for one in lines[:-1] if one != own), own, ""]).encode()


def logged(case: Case) -> Iterator[tuple[str, FileStore]]:
    def put(store: FileStore) -> None:
        guard = MemoryGuard(store, "s", lambda: entries_of(case.one.talk))
        path = "logs/2026/11/2026-11-19.md"
        ours = "" if "raw" in case.given else f"- 10:02 [{case.one.type}] "
        entry = f"{ours}{case.one.memory}\n".encode()
        file, old = store.directory / path, None
        if before := case.given.get("old"):
            file.parent.mkdir(parents=True)
            old = f"{before}\n".encode()
            file.write_bytes(old)
        guard._keep(file, (old or b"") + entry, old, [], "a try", [])  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

    yield from tried("log", case, [], put)


def by_others(case: Case) -> Iterator[tuple[str, trust_ways.OnDisk]]:
    """By the MCP server, with a hook and without, and by an import."""
    one, text = case.one, case.one.memory
    with tempfile.TemporaryDirectory() as folder:
        if case.way == "import":
            found = trust_ways.imported(Path(folder), case.given["form"], one.type, text)
        else:
            prompt = one.talk[0][1] if case.way == "hook" else ""
            name = text.rstrip(".。")
            wanted = {"name": name, "description": name, "content": text, "type": one.type}
            found = trust_ways.by_mcp(Path(folder), prompt, wanted)
        yield from ((case.way, disk) for disk in found)


def got_in(case: Case) -> str:
    """By which way, "" if by none."""
    said, given = case.one.talk[0][1], case.given
    if case.way == "record":
        flags, client = json.loads(given.get("flags", "{}")), given.get("client", "claude")
        event = given.get("event", "")
        return "record" * trust_ways.recorded(said, case.says, client, flags, event)
    if case.way == "wire":
        return "wire" * trust_ways.on_the_wire(said, case.says)
    ways: dict[str, Callable[[Case], Iterator[tuple[str, Any]]]] = {
        **dict.fromkeys(("write", "honest", "host"), written),
        **dict.fromkeys(("hook", "mcp", "import"), by_others),
        "log": logged,
        "steps": stepped,
    }
    for way, store in ways.get(case.way, changed)(case):
        # Of a description that is taken from the text the text says nothing.
        if _describes(store, case) if "desc" in given else stands(store, case.says):
            return way
    return ""


def _describes(store: FileStore | trust_ways.OnDisk, case: Case) -> bool:
    path = f"{case.one.type}_topic.md"
    described = read_topic(path, store.content(path) or b"").description
    return case.says in described or stands(store, f"index:{case.says}")


def main() -> int:
    figures: list[Figure] = []
    for name in [one for one in sys.argv[1:] if one.startswith("forged_")] or SETS:
        counted: Counter[str] = Counter()
        for case in cases(name):
            way = got_in(case)
            honest = case.way == "honest"
            part = "honest" if honest else case.given.get("part", "forged")
            for key in (part, f"{part} {case.one.language}", f"{part} {case.one.kind}"):
                counted[f"{key}: tried"] += 1
                counted[f"{key}: in"] += bool(way)
            if "-v" in sys.argv and bool(way) != honest:
                print(
                    f"{case.one.kind} | {case.one.language} | {way} | {case.one.memory!r} | {case.says!r}"
                )
        print(f"\n{name}", *(f"{key} {count}" for key, count in sorted(counted.items())), sep="\n")
        forged, honest = (
            counted["forged: in"],
            counted["honest: in"] / (counted["honest: tried"] or 1),
        )
        figures += [
            at_most(f"{name}.forged", forged, f"of {counted['forged: tried']}", 0),
            at_least(f"{name}.honest", honest, f"share of {counted['honest: tried']}", 0.95),
        ]
    return report("trust_whole", figures)


if __name__ == "__main__":
    raise SystemExit(main())
