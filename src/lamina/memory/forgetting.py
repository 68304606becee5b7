"""Which memory a wish to forget means, and forgetting it: one that certainly fits goes; of several,
or of one that only may be meant, nothing goes and they are named. Works through the store.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from lamina.errors import MemoryStoreError
from lamina.memories import Evidence, Memory, Proposal, Writer
from lamina.memory import polarity, wording
from lamina.memory.file_store import FileStore
from lamina.memory.index import is_index
from lamina.memory.naming import printable
from lamina.memory.scan import is_memory_path

CERTAIN = 0.8  # share of the wish's content words that the memory must hold
NEAR = 0.5  # from here on it is worth naming
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

Fit = Literal["certain", "several", "among", "near", "none"]


@dataclass(frozen=True, slots=True)
class Meant:
    """`certain`: one memory; `several`: all of them fit; `among`: it says much else too; `near`: they
    may be meant."""

    fit: Fit
    memories: tuple[Memory, ...] = ()


def meant(store: FileStore, wish: str) -> Meant:
    """The memories that these words, or this name, mean."""
    wish = wish.strip().removeprefix(f"{store.directory}/")
    if named := _named(store, wish):
        return Meant("certain", (named,))
    wanted = wording.content_stems(wish) - _EMPTY
    if not wanted:
        return Meant("none")
    found = [(hit.memory, _share(wanted, _text(hit.memory))) for hit in store.search(wish, _LOOKED_AT)]  # fmt: skip
    best = max((share for _, share in found), default=0.0)
    fitting = [one for one, share in found if share == best and _certain(one, share, wish)]
    if len(fitting) > 1:
        return Meant("several", tuple(fitting))
    if fitting:
        return Meant("among" if _says_more(fitting[0], wanted) else "certain", tuple(fitting))
    near = [one for one, share in sorted(found, key=lambda row: -row[1]) if share >= NEAR]
    return Meant("near", tuple(near)) if near else Meant("none")


def holds(wish: str, text: str) -> bool:
    """Does a text say most of what is to be forgotten?"""
    wanted = wording.content_stems(wish) - _EMPTY
    return bool(wanted) and _share(wanted, text) >= CERTAIN


def _named(store: FileStore, wish: str) -> Memory | None:
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


def _share(wanted: frozenset[str], text: str) -> float:
    return len(wanted & wording.content_stems(text)) / len(wanted)


def _certain(memory: Memory, share: float, wish: str) -> bool:
    """Most words, every name and number, and not the opposite. A file's name that is not there is
    never certain."""
    names = wording.content_stems(" ".join(_NAMES.findall(f" {wish}")))
    said = f"{memory.description}\n{memory.body}"
    return (
        share >= CERTAIN
        and names <= wording.content_stems(_text(memory))
        and not wish.endswith(".md")
        and not polarity.turned_round(wish, [said])
    )


def _says_more(memory: Memory, wanted: frozenset[str]) -> bool:
    """Is what is meant only a part of it? Not where its name and description are about just that."""
    if _share(wanted, f"{memory.name} {memory.description}") >= CERTAIN:
        return False
    pieces = [
        wording.content_stems(one) for one in re.split(r"(?<=[.!?。！？])\s*|\n+", memory.body)
    ]
    return sum(len(one) > 1 and not one & wanted for one in pieces) >= _OTHER_THINGS


# ---- doing it


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What became of a wish, in one sentence or a short list for the user or the model."""

    fit: Fit
    sentence: str
    path: str = ""


def forget(
    store: FileStore,
    memory: Memory,
    *,
    writer: Writer,
    session: str = "",
    reason: str = "",
    evidence: Sequence[Evidence] = (),
    asked: bool = True,
) -> Forgotten:
    """Forget one memory for good. `asked`: the user wanted it; else its writer may save it again."""
    store.forget(
        memory.path,
        writer=writer,
        session=session,
        reason=reason,
        evidence=evidence,
        kind="forgotten" if asked else "removed",
    )
    commit = _commit_of(store, memory.path)
    said = " ".join((memory.description or memory.body).split())[:200]
    about = f" (“{said}”)" if said else ""
    undo = f"lamina memory undo {commit}".rstrip()
    return Forgotten(
        "certain",
        f"Forgotten: {memory.path}{about}. It won't come back by itself. `{undo}` takes this back.",
        memory.path,
    )


def _commit_of(store: FileStore, path: str) -> str:
    """So that the right change is undone whatever is written meanwhile; "" without a history."""
    with suppress(MemoryStoreError):
        store.journal.settle()
        commit = next(store.journal.history.log(path), None)
        return commit.id[:8] if commit and commit.subject.startswith("forget ") else ""
    return ""


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


def keep_away(store: FileStore, claim: str, near: Sequence[Memory] = ()) -> bool:
    """The user wants a statement forgotten that was not saved yet: what was said of it in a session
    stays out of memory. False where it has too few words to be known again, or where it would keep
    one of the memories that may be meant, and stay, from being changed."""
    if len(wording.content_stems(claim) - _EMPTY) < _FEWEST:
        return False
    unsaid = Proposal(
        path="unsaid.md", name="", description=claim, type=None, body="", writer="user"
    )
    store.make_state()
    with store.journal.writing():
        if any(store.tombstones.says_again(unsaid, one) for one in near):
            return False
        if not store.tombstones.matching(unsaid):
            store.tombstones.put_up(store.tombstones.new(unsaid))
    return True
