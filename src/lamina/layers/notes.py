"""Layer 3: running notes of the session, in one Markdown file that compaction can stand on.

Checked after every answer; written in the background by a fork that may edit that one file, or by
the local summariser where there is no model. Touches `<session>/session-memory/summary.md` and a
`state` entry with the cursor; reads a user's own template and prompt.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio.to_thread

from lamina import prompts
from lamina.errors import StorageError
from lamina.events import LayerActed, Warned
from lamina.ledger import edits
from lamina.ledger.places import NOTES
from lamina.local import summariser
from lamina.machine import write_private
from lamina.messages import Json, Response, as_object
from lamina.ports import Decision, Fork
from lamina.state import State
from lamina.tools.files import seen as as_seen

LAYER = "notes"
# While a model that costs money is spared; all set by hand. From this share of the autocompact
# threshold on the rules keep the notes up to date, and the model is asked once a compaction: when
# that is so many requests away, at the session's pace.
_NEAR = 0.9
_ASKED_BEFORE = 2
_WRITTEN = 700  # tokens of an update
_NEW_SHARE = 1 / 3  # of the record that must be new, so that reading it all stays linear


def check(state: State, response: Response) -> None:
    """Start an update if enough has happened since the last one. Never waits."""
    due, ask = _due(state, response)
    if due:
        state.background.start(LAYER, lambda: update(state, by_model=ask))


def keep(state: State, response: Response) -> None:
    """The same by the rules alone, at once: for a conversation that another program leads."""
    if _due(state, response, may_ask=False)[0]:
        upto, size, path = _last_shown(state), state.ledger.tokens(), notes_path(state)
        before = _ensure(path, _template(state))
        _by_hand(state, path, before)
        _move_cursor(state, upto, size)
        if _read(path) != before:
            state.emit(LayerActed(LAYER, "notes updated from the record"))


def _due(state: State, response: Response, *, may_ask: bool = True) -> tuple[bool, bool]:
    """Whether an update is due, and whether the model is asked for it."""
    if not state.served or not state.flags.on("notes") or not state.flags.on("autocompact"):
        return False, False
    last = _since_compaction(state, _cursor(state))
    now = state.ledger.tokens()
    ask = not state.thrifty or (not last.get("asked") and _compacts_soon(state))
    ask = ask and may_ask
    if not last:
        due = now >= state.flags.value("notes.first_tokens")
    else:
        grown = now - int(last.get("tokens") or 0)
        if grown < 0:  # the view became smaller: count from there
            last = {**last, "tokens": now}
        if last != _cursor(state):
            state.ledger.append(edits.state("notes", last))
        due = grown >= state.flags.value("notes.every_tokens") and _enough(state, last, response)
        due = due or (ask and state.thrifty)
    return due, ask


def _since_compaction(state: State, last: Json) -> Json:
    """After a compaction the model may be asked again; results that were cleared are no reason."""
    folded = max((end for _, end in state.ledger.projection.folds), default=-1)
    if not last or last.get("folded", -1) == folded:
        return last
    return {**last, "folded": folded, "asked": False}


def _enough(state: State, last: Json, response: Response) -> bool:
    """Has enough been done since the last update? Where the rules write the notes, which read the
    whole record, it must have grown by a share of itself; near a compaction they keep up with it."""
    start = state.ledger.projection.position.get(str(last.get("entry")), -1) + 1
    new = len(state.ledger.entries) - start
    if state.thrifty and new < _NEW_SHARE * start and not _near(state):
        return False
    calls = state.flags.value("notes.tool_calls")
    return not response.tool_uses or _calls_since(state, start) >= calls


def _compacts_soon(state: State) -> bool:
    """Is a compaction so near that notes by the model will most likely be used?"""
    account = state.balance()
    if not _near(state) or account is None:
        return _near(state)
    grows = _ASKED_BEFORE * account.pace * state.weight
    soon = state.whole_tokens + grows >= state.window.autocompact
    return soon and account.affords(_price(state))


def _price(state: State) -> float:
    """What asking the model costs, in tokens of plain input."""
    size = state.flags.value("notes.total_tokens") // 2
    account = state.balance()
    write = account.rates.write * size if account is not None else 0.0
    return state.price_aside("", apart=False, output=_WRITTEN) + write


def _near(state: State) -> bool:
    return state.whole_tokens >= _NEAR * state.window.autocompact


async def update(state: State, *, by_model: bool = True) -> None:
    """One update; the cursor moves when it succeeded."""
    path = notes_path(state)
    upto = _last_shown(state)
    tokens_now = state.ledger.tokens()
    template = await anyio.to_thread.run_sync(_template, state)
    before = await anyio.to_thread.run_sync(_ensure, path, template)
    asked = by_model and state.fork is not None and state.deps.model.name != "none"
    if asked and state.fork is not None:
        by_model = await _by_fork(state, state.fork, path, before, template)
    else:
        by_model = False
    if not by_model:
        await anyio.to_thread.run_sync(_by_hand, state, path, before)
    after = await anyio.to_thread.run_sync(_read, path)
    _move_cursor(state, upto, tokens_now, by_model=by_model, asked=asked)
    if after != before:
        who = "by the model" if by_model else "from the record"
        state.emit(LayerActed(LAYER, f"notes updated {who}"))


def _last_shown(state: State) -> str:
    """The last message that a fork sees now: results that came while others are awaited, it does
    not."""
    waiting = bool(state.ledger.open_calls)
    for entry in reversed(state.ledger.entries):
        if entry["kind"] == "message" and (not waiting or entry.get("role") == "assistant"):
            return str(entry["uuid"])
    return ""


def notes_path(state: State) -> Path:
    return state.deps.folder / NOTES


# ---- by a fork


async def _by_fork(state: State, fork: Fork, path: Path, before: str, template: str) -> bool:
    shorten = summariser.too_long(
        before, state.flags.value("notes.section_tokens"), state.flags.value("notes.total_tokens")
    )
    _, own = _own_file(state, "prompt")
    directive = prompts.fill(
        prompts.load("notes") if own is None else own,
        {"currentNotes": before, "notesPath": str(path), "shorten": "\n".join(shorten)},
    )
    state.ledger.append(state.paid_for(directive, output=_WRITTEN))
    seen = as_seen(before.encode(), path.stat(), whole=True)

    async def only_the_notes(spec: Any, input: Json, context: Any) -> Decision:  # noqa: A002, ARG001
        given = str(input.get("file_path") or "")
        if spec.name == "Edit" and os.path.realpath(given) == os.path.realpath(path):
            return Decision(allow=True)
        return Decision(allow=False, reason=f"only {path} may be edited here")

    result = await fork(
        directive,
        purpose="notes",
        permit=only_the_notes,
        max_calls=4,
        files={str(path): seen},
        ends_with=("Edit",) if state.thrifty else (),
    )
    if result.stop == "error" or (result.stop == "refused" and not result.calls):
        return False  # a cap that was reached on the way leaves what was done
    after = _read(path)
    if after == before:
        return False
    if not summariser.same_frame(template, after):
        _write(path, before)
        state.layer_failed(LAYER, StorageError("the update changed the notes' headings; undone"))
        return False
    return True


# ---- without a model


def _by_hand(state: State, path: Path, before: str) -> None:
    """Fill what can be copied. A model's words stay; only the current state is brought up to date."""
    mixed, entries = _cursor(state).get("by") == "model", list(state.ledger.entries)
    bodies = summariser.sections(state.noted.at(entries, list(range(len(entries)))))
    if mixed:
        empty = {summariser.KEYS.get(s.heading) for s in summariser.parse(before) if not s.body}
        bodies = {key: body for key, body in bodies.items() if key in empty or key == "state"}
    _write(path, summariser.filled(before, bodies))


# ---- files


def _template(state: State) -> str:
    """The user's own template, if it has headings; else the built-in one."""
    path, text = _own_file(state, "template")
    if text is not None and summariser.parse(text):
        return text
    if text is not None:
        what = f"The notes' template {path} has no `# ` headings; the built-in one is used."
        _complain(state, what)
    return prompts.load("notes_template")


def _own_file(state: State, name: str) -> tuple[Path, str | None]:
    """Where the user's own template or prompt would be, and its text if it can be read."""
    path = state.config.own_home / "session-memory" / "config" / f"{name}.md"
    try:
        return path, path.read_text("utf-8")
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as error:
        _complain(state, f"The notes' {name} {path} can't be read ({error}).")
    return path, None


def _complain(state: State, sentence: str) -> None:
    if sentence not in state.said:
        state.said.add(sentence)
        state.emit(Warned(sentence))


def _ensure(path: Path, template: str) -> str:
    """The notes as they are; written from the template when they are not there."""
    try:
        return _read(path)
    except FileNotFoundError:
        text = summariser.render(summariser.parse(template))
        _write(path, text)
        return text


def _read(path: Path) -> str:
    """The notes; a user's editor may have left bytes that are no UTF-8."""
    return path.read_text("utf-8", "replace")


def _write(path: Path, text: str) -> None:
    try:
        write_private(path, text.encode("utf-8"))
    except OSError as error:
        raise StorageError(f"Can't write the notes {path}: {error.strerror}.") from error


# ---- the cursor


def _move_cursor(
    state: State, upto: str, size: int, *, by_model: bool = False, asked: bool = False
) -> None:
    if upto:
        last = _cursor(state)
        by = "model" if by_model or last.get("by") == "model" else "record"
        asked = asked or bool(last.get("asked"))
        cursor = {**last, "entry": upto, "tokens": size, "by": by, "asked": asked}
        state.ledger.append(edits.state("notes", cursor))


def _cursor(state: State) -> Json:
    return as_object(state.ledger.state("notes"))


def _calls_since(state: State, start: int) -> int:
    return sum(
        block.get("type") == "tool_use"
        for later in state.ledger.entries[start:]
        if later["kind"] == "message" and later.get("role") == "assistant"
        for block in later["content"]
    )
