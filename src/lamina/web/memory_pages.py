"""The memory of a project: listed, searched, one memory with who wrote which line and on whose words,
its history and links; edited, pinned, vouched for, forgotten, and every change undone. All of it through the store
and its gate, as `lamina memory` does.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import groupby, islice
from typing import Any

from markupsafe import Markup

from lamina.cli import memory, memory_history
from lamina.errors import Conflict, GateRefused, UsageError
from lamina.memories import MEMORY_TYPES, Commit, Memory, Outcome
from lamina.ports import MemoryHistory, MemoryStore
from lamina.web.pages import LONGEST, Project, Screen, done, one_line, render
from lamina.web.server import Answer, Asked, NotThere

_A_PAGE = 100  # memories
FOUND = 12  # as many as a person reads before typing on
_VERSIONS = 20  # of one memory that are shown with their differences
_CHANGES = 50  # in the history of all
_PARTS = {"name": "its name", "description": "its description", "body": "its text",
          "embedding": "related words", "recency": "fresh", "use": "used before",
          "type": "about you"}  # fmt: skip
_HITS = """<p class="soft">%d found. The share says how likely each is the one you mean.</p>
<ul class="rows">%s</ul>"""
_HIT = """<li class="row">%s<span class="when" title="score %.2f"><span class="unseen">Chance: </span>
%.0f%%</span><span class="why">found by %s</span></a></li>"""
EDITED = 256_000  # bytes of a file that a browser's text field takes well


# ---- the list


def _list(asked: Asked, project: Project) -> Screen | Answer:
    words = asked.query.get("q", "").strip()[:1_000]
    found = _found(project, words, look=asked.began) if words else ""
    typing = asked.fragment and "q" in asked.query
    if typing and found:
        return Answer(found)
    values = {"words": words, "found": found, **({} if words else _page(asked, project))}
    return Screen("found.html" if typing else "memories.html", "Memory", "", values)


def on_page(asked: Asked, every: Sequence[Any], most: int) -> tuple[Any, dict[str, int]]:
    """What is on the page that was asked for, and its number among how many."""
    number = asked.query.get("page", "1")
    page = max(1, int(number)) if number.isascii() and number.isdigit() and len(number) < 7 else 1
    return every[(page - 1) * most : page * most], {"page": page, "pages": -(-len(every) // most)}


def kind_of(one: Memory) -> str:
    return "team" if one.team else one.type or "untyped"


def _page(asked: Asked, project: Project) -> dict[str, Any]:
    kind = asked.query.get("type", "")
    with project.store() as store:
        everything = store.list()
        pinned, unreadable, directory = store.pinned(), store.unreadable(), store.directory
    counts = Counter(map(kind_of, everything))
    chosen = [one for one in everything if not kind or kind == kind_of(one)]
    tabs = [(one, counts[one]) for one in (*MEMORY_TYPES, "untyped", "team") if counts[one]]
    shown, pages = on_page(asked, chosen, _A_PAGE)
    rows = [(_row(project, one, pinned=one.path in pinned), one.mtime) for one in shown]
    return {
        "all": len(everything), "rows": rows, "tabs": tabs, "kind": kind, **pages,
        "unreadable": unreadable, "directory": directory,
        "agents": [*memory.agent_memories(project.config)], "bare": project.slug.partition("~")[0],
    }  # fmt: skip


def _found(project: Project, words: str, *, look: bool) -> Markup:
    """What the ranker finds, how likely each is meant, and what speaks for it. No text of others' but
    in rows that are drawn: a template at each key stroke takes a tenth of the query's time."""
    from lamina.recall import likeliest
    from lamina.recall.memory_index import fitting

    index = project.world.index(project)
    read, row = _read_before(project, index.store, look=look)
    found = fitting(index, words, FOUND, time.time(), look=look, read=read, unfinished=True)
    rows = [
        _HIT % (row(match.id), match.score, 100 * chance, _why(match.parts))
        for match, _, chance in likeliest(found)
    ]
    return Markup(_HITS % (len(rows), "".join(rows)) if rows else "")  # noqa: S704


def _read_before(project: Project, store: MemoryStore, *, look: bool) -> Sequence[Any]:
    """What reads a memory that is found and what draws it, each once until a file comes or goes or is
    replaced, which its folder tells: asking each hit's file takes a tenth of the query's time."""
    state: list[int] = []
    for folder in ("", "team"):
        with suppress(OSError):
            state.append(os.stat(f"{store.directory}/{folder}").st_mtime_ns)
    known = project.world.read.get(project.slug)
    if look or not state or known is None or known[0] != state:
        read = cache(store.read)

        @cache
        def row(path: str) -> str:
            return _row(project, read(path))

        known = project.world.read[project.slug] = state, read, row
    return known[1:]


def title_of(one: Memory) -> str:
    """Its name; of a name that is only how the description begins, all of it."""
    title = one.name or one.path.removesuffix(".md")
    begins = title.endswith("…") and one.description.startswith(title[:-1])
    return one.description if begins else title


def _row(project: Project, one: Memory, *, pinned: bool = False) -> str:
    """What a row shows whatever was searched for."""
    title = title_of(one)
    same = one.description.strip(". ") == title.strip(". ")  # said once is enough
    about = {"title": title, "pinned": pinned, "quoted": one.quoted, "kind": kind_of(one),
             "about": one_line(one.body if same else one.description or one.body)}  # fmt: skip
    return render("row.html", {**about, "to": project.url("m", one.path)})


def _why(parts: Mapping[str, float]) -> str:
    told = sorted([(-x, name) for name, x in parts.items() if x >= 0.005])
    return ", ".join([f"{_PARTS.get(name, name)} {-x:.2f}" for x, name in told])


# ---- one memory


def path_of(asked: Asked) -> str:
    return "/".join(asked.parts[3:])


def _one(asked: Asked, project: Project) -> Screen | Answer:
    path = path_of(asked)
    with project.store() as store:
        if store.content(path, 1) is None:
            return _gone(project, store, path)
        content = store.read_bytes(path)
        if "raw" in asked.query:
            return Answer(content, kind="text/plain; charset=utf-8")
        versions: Sequence[tuple[Commit, bytes | None]] = ()
        if store.history is not None:
            store.catch_up()
            versions = store.history.versions(path)
        one, mtime = store.read(path), store.mtime(path)
        values = {
            "one": one, "kind": kind_of(one), "pinned": path in store.pinned(),
            **_links(store, path, content),
            **_blamed(content.decode("utf-8", "replace"), versions, path, mtime),
            **_changes(project, versions, path, mtime),
        }  # fmt: skip
    return Screen("memory.html", title_of(one), "", values)


def _gone(project: Project, store: MemoryStore, path: str) -> Screen:
    """A memory that is only history: what it was, and how it comes back."""
    known = memory.known(store, path)
    if not known or store.history is None:
        raise NotThere(f"There is no memory {path}.")
    changes = _changes(project, store.history.versions(known), known, 0.0)
    return Screen("gone.html", known, "", {"path": known, **changes})


def _links(store: MemoryStore, path: str, content: bytes) -> dict[str, Any]:
    """Memories that this one names, and whether the index names it."""
    from lamina.memory import links_of, resolver

    resolve = resolver(store.stamps())
    named = dict.fromkeys(resolve(one.file) for one in links_of(content[:LONGEST]))
    index = links_of(store.content("MEMORY.md", LONGEST) or b"")
    return {
        "links": [one for one in named if one and one != path],
        "listed": any(resolve(one.file) == path for one in index),
    }


def _blamed(
    said: str, versions: Sequence[tuple[Commit, bytes | None]], path: str, mtime: float
) -> dict[str, Any]:
    """The file as it is, in spans of lines with who wrote them; its beginning, if it is too long."""
    from lamina.memory import blame

    lines = blame(versions) if versions and len(said) <= LONGEST else []
    spans: list[dict[str, Any]] = []
    if [one.text for one in lines] == said.splitlines():
        for _, group in groupby(lines, key=lambda one: one.commit.id):
            span = [*group]
            text = "\n".join(one.text for one in span)
            spans.append({"text": text, **_told_by(span[0].commit, path, mtime)})
    return {"spans": spans, "text": said[:LONGEST], "left": max(0, len(said) - LONGEST)}


def _told_by(commit: Commit, path: str, mtime: float) -> dict[str, Any]:
    from lamina.memory import teammate_of, written_at

    mate = teammate_of(commit, path) if commit.writer == "team" else ""
    return {"commit": commit, "who": mate or commit.writer, "at": written_at(commit, mtime)}


# ---- history


def _changes(
    project: Project, versions: Sequence[tuple[Commit, bytes | None]], path: str, mtime: float
) -> dict[str, Any]:
    """The last changes of one memory, newest first, each with what it did."""
    from lamina.memory import diff_text

    pairs = zip(versions, [(None, None), *versions], strict=False)
    rows = [
        _change(project, commit, path, mtime, diff_text(path, before, after))
        for (commit, after), (_, before) in islice(reversed([*pairs]), _VERSIONS)
    ]
    return {"changes": rows, "older": max(0, len(versions) - len(rows))}


def _change(
    project: Project, commit: Commit, path: str, mtime: float, diff: str = ""
) -> dict[str, Any]:
    quotes = memory_history.quotes_of(project.config)
    grounds = [*memory_history.grounds(commit, quotes)]
    return {**_told_by(commit, path, mtime), "grounds": grounds, "diff": diff}


def _log(_: Asked, project: Project) -> Screen:
    with project.store() as store:
        history = _kept(store)
        store.catch_up()
        commits = [*islice(history.log(), _CHANGES + 1)]
    rows = [_change(project, one, "", 0.0) for one in commits[:_CHANGES]]
    values = {"changes": rows, "older": len(commits) > _CHANGES}
    return Screen("history.html", "History", "history", values)


def _changed(asked: Asked, project: Project) -> Screen:
    from lamina.memory import diff_text

    with project.store() as store:
        history = _kept(store)
        name = history.find(path_of(asked))
        changes = history.changes(name)
        commit = next(one for one in history.log() if one.id == name)
        outside = commit.writer == "outside"
        effect = memory_history.announced(history.effect(commit)) if outside else ""
    files = [(one.path, diff_text(one.path, one.before, one.after)) for one in changes]
    values = {"id": name, "files": files, "effect": effect}
    return Screen("change.html", f"Change {name[:8]}", "history", values)


def _kept(store: MemoryStore) -> MemoryHistory:
    if store.history is None:
        raise UsageError("This memory keeps no history.")
    return store.history


# ---- changing


def _edit(asked: Asked, project: Project) -> Screen:
    path = path_of(asked)
    with project.store() as store:
        content = store.read_bytes(path)
    return editor(path, editable(content, path), project.url("edit", path), project.url("m", path))


def editable(content: bytes, path: str) -> str:
    """The text for a browser's field, which must give back the same bytes."""
    said = content.decode("utf-8", "ignore")
    bare = said.replace("\r\n", "")
    mixed = "\r" in bare or ("\n" in bare and bare != said) or "\0" in said
    if len(content) > EDITED or mixed or said.encode() != content:
        why = f"{path} is too large for this page, or not plain text."
        raise UsageError(f"{why} Use `lamina memory edit {path}`.")
    return said


def editor(path: str, base: str, to: str, back: str, said: str = "", why: str = "") -> Screen:
    """A text field for a file. What was refused is still in it, and why."""
    crlf = "1" if "\r\n" in base else ""
    values = {"path": path, "base": base, "to": to, "back": back, "crlf": crlf, "why": why}
    shown = {**values, "said": said or base}
    return Screen("editor.html", f"Edit {path}", "", shown, 409 if why else 200)


def typed(asked: Asked, name: str) -> bytes:
    """A field as bytes: a form ends its lines with CRLF, whatever they had."""
    said = asked.form.get(name, "").replace("\r\n", "\n")
    return (said.replace("\n", "\r\n") if asked.form.get("crlf") else said).encode()


def _save(asked: Asked, project: Project) -> Screen | Answer:
    path = path_of(asked)
    base, content = typed(asked, "base"), typed(asked, "content")
    back = project.url("m", path)
    if content == base:
        return done(back, "Nothing was changed.")
    with project.store() as store:
        try:
            outcome = memory.save_edited(
                store, path, content, base, reason="lamina ui", allow_secret="secret" in asked.form
            )
        except (GateRefused, Conflict) as error:
            to = project.url("edit", path)
            return editor(path, base.decode(), to, back, content.decode(), str(error))
        undo = store.newest_change(outcome.path) if outcome.changed else ""
        return done(back, told(outcome), undo)


def told(outcome: Outcome) -> str:
    return " ".join([f"{outcome.sentence.rstrip('.')}.", *outcome.warnings])


def _pin(asked: Asked, project: Project) -> Answer:
    with project.store() as store:
        path, on = memory.find(store, asked.form.get("path", "")), bool(asked.form.get("on"))
        store.pin(path, on=on)
    said = "is pinned: nobody but you changes it." if on else "is no longer pinned."
    return done(project.url("m", path), f"{path} {said}")


def _vouch(asked: Asked, project: Project) -> Answer:
    with project.store() as store:
        path = memory.find(store, asked.form.get("path", ""))
        memory.vouch(store, path, reason="lamina ui")
        return done(
            project.url("m", path), f"{path} is your own word now.", store.newest_change(path)
        )


def _forget(asked: Asked, project: Project) -> Answer:
    purge = bool(asked.form.get("purge"))
    with project.store() as store:
        path = memory.find(store, asked.form.get("path", ""))
        commit = memory.forget(store, path, purge=purge, reason="lamina ui")
    for_good = ", and removed from the history for good" if purge else ""
    return done(project.url(), f"Forgotten: {path}{for_good}.", commit)


def _undo(asked: Asked, project: Project) -> Answer:
    with project.store() as store:
        history = _kept(store)
        store.catch_up()
        commit = history.named(asked.form.get("commit", ""))
        paths, redo = memory_history.undone(store, history, commit)
    back = asked.form.get("back", "")
    ours = back.startswith(project.url()) and back.isascii() and back.isprintable()
    to = back if ours else project.url("history")
    files = ", ".join(paths) or "none of it was left"
    return done(to, f"Undone: {one_line(commit.subject, 80)} ({files}).", redo)


SHOWN = {"": _list, "m": _one, "history": _log, "change": _changed, "edit": _edit}
DONE = {"edit": _save, "pin": _pin, "vouch": _vouch, "forget": _forget, "undo": _undo}
