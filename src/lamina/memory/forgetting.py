"""Which memory a wish to forget means, and forgetting it: one that certainly fits goes, or the part of
it that is meant; of several, or of one that only may be meant, nothing goes and they are named. Works
through the store.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from lamina.errors import Conflict, MemoryStoreError
from lamina.memories import (
    Change,
    Evidence,
    Forgotten,
    Meant,
    Memory,
    Note,
    Parted,
    Proposal,
    Writer,
)
from lamina.memory import drafts
from lamina.memory.history import names_of, purge_copies
from lamina.memory.history import purge as purge_commits
from lamina.memory.index import adding, is_index, renaming
from lamina.memory.journalled import JournalledFiles
from lamina.memory.naming import free_names, printable
from lamina.memory.removal import SAYS_IT, TOUCHES_IT, parted, share
from lamina.memory.scan import is_memory_path
from lamina.memory.topics import edit_topic, read_topic
from lamina.text import wording
from lamina.text.asks import turned_round

_LOOKED_AT = 20  # the best of the store's search
_SHOWN = 5
_OTHER_THINGS = 3  # statements about something else that make a memory more than what is meant
_FEWEST = 3  # content words from which a statement is known again
# Words of German wishes that say nothing by themselves; the English ones fall out with the stems.
_EMPTY = frozenset(
    """ich du wir mich mir mein meine meinen meinem meiner unser unsere bei der die das den dem ein
    eine einen einem einer und oder bin ist sind war habe hat haben zu zum zur im in am an auf mit für
    von""".split()  # noqa: SIM905 - reads better as a text
)
_NAMES = re.compile(r"(?<=\s)[A-ZÄÖÜ][\w-]+|\S*\d\S*")


def meant(store: JournalledFiles, wish: str) -> Meant:
    """The memories that these words, or this name, mean."""
    wish = wish.strip().removeprefix(f"{store.directory}/")
    if named := _named(store, wish):
        return Meant("certain", (named,))
    wanted = wording.content_stems(wish) - _EMPTY
    if not wanted:
        return Meant("none")
    found = [(hit.memory, share(wanted, _text(hit.memory))) for hit in store.search(wish, _LOOKED_AT)]  # fmt: skip
    best = max((said for _, said in found), default=0.0)
    fitting = [one for one, said in found if said == best and _certain(one, said, wish)]
    if len(fitting) > 1:
        return Meant("several", tuple(fitting))
    if fitting:
        if part := _part(store, fitting[0], wanted):
            return Meant("certain", tuple(fitting), part)
        return Meant("among" if _says_more(fitting[0], wanted) else "certain", tuple(fitting))
    near = [one for one, said in sorted(found, key=lambda row: -row[1]) if said >= TOUCHES_IT]
    return Meant("near", tuple(near)) if near else Meant("none")


def holds(wish: str, text: str) -> bool:
    """Does a text say most of what is to be forgotten?"""
    wanted = wording.content_stems(wish) - _EMPTY
    return bool(wanted) and share(wanted, text) >= SAYS_IT


def _named(store: JournalledFiles, wish: str) -> Memory | None:
    if is_index(wish):
        raise MemoryStoreError(f"{wish} is the index of the memories, not one of them.")
    for path in (wish, f"{wish}.md"):
        with suppress(MemoryStoreError):
            if (
                not is_index(path)
                and is_memory_path(path)
                and store.files.read(path, 1) is not None
            ):
                return store.read(path)
    called = [one for one in store.list() if one.name.casefold() == wish.casefold()]
    return store.read(called[0].path) if len(called) == 1 else None


def _text(memory: Memory) -> str:
    return f"{memory.path} {memory.name} {memory.description}\n{memory.body}"


def _certain(memory: Memory, likely: float, wish: str) -> bool:
    """Most words, every name and number, and not the opposite. A file's name that is not there is
    never certain."""
    names = wording.content_stems(" ".join(_NAMES.findall(f" {wish}")))
    said = f"{memory.description}\n{memory.body}"
    return (
        likely >= SAYS_IT
        and names <= wording.content_stems(_text(memory))
        and not wish.endswith(".md")
        and not turned_round(wish, [said])
    )


def _says_more(memory: Memory, wanted: frozenset[str]) -> bool:
    """Is what is meant only a part of it? Not where its name and description are about just that."""
    if share(wanted, f"{memory.name} {memory.description}") >= SAYS_IT:
        return False
    pieces = [wording.content_stems(one) for one in wording.sentences(memory.body)]
    return sum(len(one) > 1 and not one & wanted for one in pieces) >= _OTHER_THINGS


def _part(store: JournalledFiles, memory: Memory, wanted: frozenset[str]) -> Parted | None:
    """What is meant of a memory that says something else too. Not of one that others wrote: a line
    that the user's wish leaves over would count as theirs."""
    if store.admission.origin_of(memory.path) != "typed":
        return None
    part = parted(memory, wanted)
    return part if part and not store.tombstones.says_again(_unsaid(part.gone), part.rest) else None


def _unsaid(claim: str) -> Proposal:
    """A statement, as tombstones take it."""
    return Proposal(path="unsaid.md", name="", description=claim, type=None, body="", writer="user")


# ---- doing it


def forget(
    store: JournalledFiles,
    memory: Memory,
    *,
    part: Parted | None = None,
    writer: Writer,
    session: str = "",
    reason: str = "",
    evidence: Sequence[Evidence] = (),
    asked: bool = True,
) -> Forgotten:
    """Forget one memory, or a part of it, for good. `asked`: the user wanted it; else its writer may
    save it again."""
    kind = "forgotten" if asked else "removed"
    note = Note(
        writer=writer,
        subject=f"forget a part of {memory.path}",
        session=session,
        entries=tuple(dict.fromkeys(one.entry for one in evidence if one.entry)),
        origin="typed",
        reason=reason,
    )
    if part is not None:
        rest = _forget_part(store, memory, part, note, kind)
        gone = f"“{_short(part.gone)}”, a part of {memory.path}. What else it said is in {rest}"
    else:
        rest = ""
        store.forget(
            memory.path, writer=writer, session=session, reason=reason, evidence=evidence, kind=kind
        )
        said = _short(memory.description or memory.body)
        gone = memory.path + (f" (“{said}”)" if said else "")
    undo = f"lamina memory undo {store.journal.newest_of_ours(rest or memory.path)}".rstrip()
    sentence = f"Forgotten: {gone}. It won't come back by itself. `{undo}` takes this back."
    return Forgotten("certain", sentence, memory.path, rest)


def _short(text: str) -> str:
    return " ".join(text.split())[:200]


def _forget_part(
    store: JournalledFiles, memory: Memory, part: Parted, note: Note, kind: str
) -> str:
    """The memory as it is without it, in one step of the journal; the path where that is now."""
    old = memory.path
    store.make_state()
    with store.journal.writing():
        content = store.read_bytes(old)
        if read_topic(old, content).body != memory.body:
            raise Conflict(f"{old} was changed just now, so nothing was forgotten. Ask again.")
        store.admission.demand_unpinned(old, note.writer)
        rest = dataclasses.replace(part.rest, path=_free(store, old, part.rest.path))
        proposal = drafts.proposal_of(rest, note.writer, note.session)
        store.admission.judge_moved(proposal, old)
        after = edit_topic(content, name=rest.name, description=rest.description, body=rest.body)
        moved = rest.path != old
        changes = [Change(rest.path, None if moved else content, after)]
        changes += [Change(old, content, None)] if moved else []

        def rework(path: str, index: bytes | None) -> bytes | None:
            index = renaming(old, rest.path, memory)(path, index) if moved else index
            return adding(proposal, "typed", None)(path, index)

        store.journal.apply(
            [*changes, store.index_change(rest.path, rework)],
            msgspec.structs.replace(
                note, marks={"Renamed": f"{old} -> {rest.path}"} if moved else {}
            ),
            tombstone=store.tombstones.new(
                _unsaid(part.gone), kind=kind, entry=next(iter(note.entries), "")
            ),
            rework=rework,
        )
        store.move_pin(old, rest.path)
    return rest.path


def _free(store: JournalledFiles, old: str, wanted: str) -> str:
    """The wanted path, with a number if another memory has it."""
    if wanted == old:
        return old
    names = free_names(wanted, old)
    return next((name for name in names if store.files.read(name, 1) is None), old)


def not_forgotten(found: Meant, wish: str, how: str) -> Forgotten:
    """Why nothing was forgotten. `how` forgets a memory by its name, as `/forget NAME`."""
    named = "\n".join(
        f"- {one.path}: {' '.join((one.description or one.name).split())[:150]}"
        for one in found.memories[:_SHOWN]
    )
    if len(found.memories) > _SHOWN:
        named += f"\n- … and {len(found.memories) - _SHOWN} more"
    match found.fit:
        case "several":
            head = "Several memories fit, so none was forgotten:"
        case "among":
            path = found.memories[0].path
            head = (
                f"{path} says this among other things, so it was not forgotten. "
                f"`lamina memory edit {path}` takes out a part of it. The whole:"
            )
        case "near":
            head = "No memory certainly means this, so none was forgotten. Nearest:"
        case _:
            return Forgotten("none", f"No memory says anything about “{printable(wish)[:200]}”.")
    return Forgotten(found.fit, f"{head}\n{named}\n{how}")


def and_kept_away(told: Forgotten) -> Forgotten:
    return dataclasses.replace(
        told, sentence=f"{told.sentence}\nIt won't be saved from what was said so far either."
    )


def keep_away(store: JournalledFiles, claim: str, near: Sequence[Memory] = ()) -> bool:
    """The user wants a statement forgotten that was not saved yet: what was said of it in a session
    stays out of memory. False where it has too few words to be known again, or where it would keep
    one of the memories that may be meant, and stay, from being changed."""
    if len(wording.content_stems(claim) - _EMPTY) < _FEWEST:
        return False
    unsaid = _unsaid(claim)
    store.make_state()
    with store.journal.writing():
        if any(store.tombstones.says_again(unsaid, one) for one in near):
            return False
        if not store.tombstones.matching(unsaid):
            store.tombstones.put_up(store.tombstones.new(unsaid))
    return True


def purge(store: JournalledFiles, path: str) -> None:
    """Take a memory out of the history, the inbox and what is derived, too."""
    with store.journal.recording() as history:
        names = names_of(history, path)
        said = [content for name in names for _, content in history.versions(name) if content]
        purge_commits(history, names)
        purge_copies(store.state, names, said)
    for item in store.inbox.items():
        if item.proposal.path in names:
            store.inbox.remove(item)
    store.scanner.forget_index()
