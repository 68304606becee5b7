"""The fork (L7.1): an agent that shares its parent's prompt, and so the provider's cached prefix.

It sees the parent's last request byte for byte, the parent's open answer if there is one, and one
user message: a placeholder for each open call, then its directive. Ledger, read files and tool
context are its own; refusals happen at run time by one permission function, never by another tool
list. It leaves no transcript, and it can't fork. Touches what its permission function allows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import anyio

from lamina import turn
from lamina.errors import LaminaError, PromptTooLong, UsageError
from lamina.events import (
    AttemptBroke,
    Emit,
    Event,
    ModelCalled,
    PermissionRefused,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    TurnEnded,
    Warned,
    quiet,
)
from lamina.layers import snip
from lamina.ledger import edits
from lamina.ledger.record import Ledger
from lamina.ledger.spans import expand
from lamina.messages import Json, Purpose, text, text_of, tool_result
from lamina.ports import ForkResult, NoSession, Permit, SeenFile, Tool
from lamina.state import State

TAG = "fork-directive"
_LEAD_SECONDS = 10.0  # a first fork that hangs holds the others up no longer
_SAID = "spend.said"  # caps that the user was told of
PLACEHOLDER = "[Not run: this is a side task on the same conversation]"

_ON_FILES = {"Read", "Write", "Edit", "Grep", "Glob"}  # of a fork apart that is to end by itself


class Forks:
    """Makes forks of one agent; `ports.Fork` for the layers."""

    def __init__(self, parent: State) -> None:
        self._parent = parent

    async def __call__(
        self,
        directive: str,
        *,
        purpose: Purpose,
        permit: Permit,
        max_calls: int,
        files: Mapping[str, SeenFile] | None = None,
        instead: Sequence[Tool] = (),
        changes: Sequence[Json] = (),
        ends_with: Collection[str] = (),
        apart: bool = False,
        hear: Emit | None = None,
    ) -> ForkResult:
        parent = self._parent
        if parent.forked:
            raise UsageError("A fork can't fork.")
        spend, now = parent.deps.spend, parent.deps.clock.now()
        if reason := spend.refusal(purpose, now):
            _say_once(parent, reason)
            return ForkResult("", "refused", error=reason)
        child = branch_of(parent, purpose, permit, max_calls, instead)
        child.listeners += [hear] if hear else []
        if apart:
            _set_apart(parent, child, ends_with)
        if ends_with:
            child.listeners.append(_Ending(child, ends_with))
        child.tools.files.update(files or {})
        start = len(child.ledger.entries)  # what is before is the parent's
        try:
            child.ledger.append(*changes)
            say_directive(child, directive)
            if not apart:  # its prompt is its own
                await behind_the_first(parent, child, str(parent.ledger.head))
            stop = await turn.run(child)
        except PromptTooLong as error:
            return _result(child, start, "error", str(error), too_long=error.gap or 0)
        except LaminaError as error:
            return _result(child, start, "error", str(error))
        if stop == "blocked":  # not sent at all: it can't fit
            over = child.ledger.tokens() - child.window.size + child.window.least_answer
            return _result(child, start, stop, "the prompt is too long", too_long=max(1, over))
        if stop == "max_calls" and (reason := spend.refusal(purpose, parent.deps.clock.now())):
            _say_once(parent, reason)
            return _result(child, start, "refused", reason)
        return _result(child, start, stop, "")


def is_fork(state: State) -> bool:
    """Is there a fork's directive in the record? The tag counts only where the program said it: words
    of a person or a file make no fork."""
    mark, entries = f"<{TAG}>", state.ledger.entries
    for entry in entries[state.asked_until :]:
        if entry["kind"] == "message" and "system" in (entry.get("origins") or ()):
            said = zip(entry["content"], entry["origins"], strict=False)
            if any(o == "system" and str(b.get("text", "")).startswith(mark) for b, o in said):
                return True
    state.asked_until = len(entries)
    return False


def branch_of(
    parent: State,
    purpose: Purpose,
    permit: Permit,
    max_calls: int,
    instead: Sequence[Tool] = (),
) -> State:
    """A state of its own over the same past."""
    toolbox = parent.deps.toolbox.replacing(instead) if instead else parent.deps.toolbox
    child = State(
        deps=replace(parent.deps, hooks=None, toolbox=toolbox),
        ledger=parent.ledger.branch(at_answer=True),
        tools=replace(
            parent.tools, files=dict(parent.tools.files), permit=permit, emit=quiet, agent=None
        ),
        background=parent.background,
        purpose=purpose,
        max_calls=max_calls,
        forked=True,
    )
    child.tools.emit = child.emit
    child.tools.session = ForkToolSession(child)
    child.listeners.append(lambda event: pass_on(parent, event))

    def mind_the_cap(event: Event) -> None:
        """The call that reaches a cap is the last one: a fork of thirty would go far beyond it."""
        booked = isinstance(event, (AttemptBroke, ModelCalled))
        if booked and child.deps.spend.refusal(purpose, child.deps.clock.now()):
            child.max_calls = child.calls

    child.listeners.append(mind_the_cap)
    return child


def _set_apart(parent: State, child: State, tools: Collection[str]) -> None:
    """A prompt of its own, for the small model: the instructions and the few tools that it needs,
    without the conversation."""
    frame = parent.ledger.projection.frame or {"system": [], "tools": []}
    model = parent.deps.small(parent.deps.model) if parent.deps.small else parent.deps.model
    names = {"Read", *tools} if tools else _ON_FILES
    kept = [tool for tool in frame["tools"] if tool["name"] in names]
    child.deps = replace(child.deps, model=model)
    child.ledger = Ledger.of(now=parent.deps.clock.now)
    child.ledger.append(edits.frame(frame["system"], kept, model.name, {}))


class _Ending:
    """Ends a fork after an answer all of whose calls did what the fork was for: one more answer
    would only say so."""

    def __init__(self, child: State, tools: Collection[str]) -> None:
        self._child, self._tools = child, tools
        self._most, self._well, self._ended = child.max_calls, True, False

    def __call__(self, event: Event) -> None:
        child = self._child
        if isinstance(event, ModelCalled):
            self._well = True
        elif isinstance(event, ToolFinished):
            done = event.name in self._tools and not (event.is_error or event.refused)
            self._well = self._well and done
            if self._well and child.max_calls > child.calls:
                child.max_calls, self._ended = child.calls, True
            elif self._ended and not self._well:
                child.max_calls, self._ended = self._most, False


def say_directive(child: State, directive: str) -> None:
    """One user message: placeholders for what is open, then the words. What stands before the words
    is the same for all forks of one answer."""
    closing = [tool_result(name, PLACEHOLDER) for name in child.ledger.open_calls]
    words = text(f"<{TAG}>\n{directive}\n</{TAG}>")
    child.ledger.append(edits.message("user", [*closing, words], "system"))
    child.shared_blocks = child.ledger.fingerprint()[0] - 1


async def behind_the_first(parent: State, child: State, head: str) -> None:
    """Of the forks of one answer the first goes ahead: what it sends is in the provider's cache only
    once its answer begins, and forks that all start at once would each pay for the whole of it."""
    known = parent.leads.get(head)
    if known is not None:
        with anyio.move_on_after(_LEAD_SECONDS):
            await known.wait()
        return
    lead = anyio.Event()
    parent.leads = {head: lead}

    def begun(event: Event) -> None:
        if isinstance(event, (TextDelta, ThinkingDelta, ModelCalled, TurnEnded)):
            lead.set()

    child.listeners.append(begun)


def _result(
    child: State, start: int, stop: str, error: str, too_long: int | None = None
) -> ForkResult:
    last = last_words(child.ledger, start)
    refused = [f"{e.tool}: {e.reason}" for e in child.events if isinstance(e, PermissionRefused)]
    return ForkResult(last, stop, child.calls, child.usage, refused, error, too_long)


def last_words(ledger: Ledger, start: int = 0) -> str:
    """Of its agent, from this entry on."""
    for entry in reversed(ledger.entries[start:]):
        if entry["kind"] == "message" and entry.get("role") == "assistant":
            return text_of(entry["content"])
    return ""


def pass_on(parent: State, event: Event) -> None:
    """The parent's listeners hear of calls and refusals, not of a fork's own words."""
    if isinstance(event, (AttemptBroke, ModelCalled, PermissionRefused)):
        for listener in list(parent.listeners):
            listener(event)


def _say_once(parent: State, reason: str) -> None:
    """One sentence to the user when a cap is reached, not one at each try, nor after a restart of
    the session; on another day the cap is another one."""
    day = datetime.fromtimestamp(parent.deps.clock.now(), UTC).date().isoformat()
    known: Json = parent.ledger.state(_SAID) or {}
    reasons: list[str] = known.get("reasons", []) if known.get("day") == day else []
    if reason not in reasons:
        parent.ledger.append(edits.state(_SAID, {"day": day, "reasons": [*reasons, reason]}))
        parent.emit(Warned(reason))


class ForkToolSession(NoSession):
    """A fork sees what its parent folded; tasks and view are its parent's to change."""

    def __init__(self, state: State) -> None:
        self._state = state

    def expand(self, name: str) -> str:
        return expand(self._state.ledger.projection, name)


class MainToolSession(ForkToolSession):
    def todos(self, new: list[Json] | None) -> list[Json]:
        ledger = self._state.ledger
        if new is not None:
            ledger.append(edits.state("todos", new))
        return list(ledger.state("todos", []))

    def snip(self, first: int, last: int, what: str) -> str:
        return snip.by_agent(self._state, first, last, what)
