"""What a background fork may do: one permission function, and tools that stand in for the parent's.

Layers 5 and 6 share it. Reading goes as far as it does with nobody there to ask; a shell runs
read-only and without network, or not at all; Write and Edit reach one directory, through whatever
function keeps it. Everything else is refused at run time, and the refusal is booked.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import anyio.to_thread

from lamina.errors import ToolError
from lamina.held import Held, hold
from lamina.messages import Json, text_of
from lamina.ports import Decision, Permit, Tool, ToolContext, ToolOutcome, ToolSpec
from lamina.state import State
from lamina.tools import files, sandbox

# Keeps a file: its path below the directory, its new content, what stood there (None: nothing).
# Returns a sentence for the model; refusals are raised.
Keep = Callable[[str, bytes, bytes | None], str]
# Why a file below the directory may not be written; "" if it may.
WhyNot = Callable[[str], str]

_SEARCHED = "transcripts are searched with Grep, not read."
_LAST_HITS = 50
_MOST_LINES = 100_000  # of one search, before the last are taken
READING = ("Read", "Grep", "Glob")
WRITING = ("Write", "Edit")


def permit_for(state: State, root: Path, why_not: WhyNot, *, unread: Path | None = None) -> Permit:
    """The permission function of a fork that writes below `root` alone.

    `unread`: a folder of transcripts, which may be searched but not read whole.
    """
    real = Path(os.path.realpath(root))

    async def permit(spec: ToolSpec, input: Json, context: ToolContext) -> Decision:  # noqa: A002
        if spec.name in WRITING:
            path = Path(str(input.get("file_path")))
            if not path.is_relative_to(real) or path == real:
                return Decision(allow=False, reason=f"background work writes only in {real}.")
            reason = why_not(path.relative_to(real).as_posix())
            return Decision(allow=not reason, reason=reason)
        if spec.name == "Bash" and (missing := sandbox.available()):
            return Decision(allow=False, reason=f"background work has no shell here: {missing}.")
        reads = {"Read": _transcript, "Bash": _names}.get(spec.name)
        if reads is not None and unread is not None and reads(input, unread):
            return Decision(allow=False, reason=_SEARCHED)
        if spec.name in (*READING, "Bash") and state.deps.unattended is not None:
            own = [real, *([unread] if unread is not None else [])]
            return await state.deps.unattended(spec, input, _shut(context, own))
        return Decision(allow=False, reason="background work may only read, and write memory.")

    return permit


def tools_for(state: State, keep: Keep | None, *, unread: Path | None = None) -> list[Tool]:
    """What runs instead of the parent's tools. Without `keep`, Write and Edit write themselves.

    `unread`: a folder of transcripts, of which a search shows the last hits alone.
    """
    box = state.deps.toolbox
    found: list[Tool] = []
    if unread is not None and (grep := box.get("Grep")):
        found.append(NarrowGrep(grep, unread))
    if bash := box.get("Bash"):
        found.append(ShutBash(bash))
    if keep is not None:
        if write := box.get("Write"):
            found.append(KeptWrite(write, keep, state))
        if edit := box.get("Edit"):
            found.append(KeptEdit(edit, keep, state))
    return found


def _transcript(input: Json, folder: Path) -> bool:  # noqa: A002
    path = Path(os.path.realpath(str(input.get("file_path"))))
    return path.suffix == ".jsonl" and path.is_relative_to(os.path.realpath(folder))


def _names(input: Json, folder: Path) -> bool:  # noqa: A002
    """Does a command speak of transcripts? It need not be watertight: it keeps a model that means
    well to narrow searches, and nothing that it reads can prove a memory."""
    command = str(input.get("command"))
    return ".jsonl" in command or bool(
        re.search(rf"{re.escape(str(folder))}/?(?:\*|\s|$)", command)
    )


def _shut(context: ToolContext, also: Sequence[Path] = ()) -> ToolContext:
    reads = [*context.reads, *also]
    return replace(context, sandbox="read-only", network=False, attended=False, reads=reads)


class _StandIn:
    """Runs in the place of a tool, with the same spec: the model is told nothing new."""

    def __init__(self, tool: Tool) -> None:
        self._tool, self.spec = tool, tool.spec


class NarrowGrep(_StandIn):
    """Grep, which shows of transcripts the last hits and nothing around them."""

    def __init__(self, tool: Tool, folder: Path) -> None:
        super().__init__(tool)
        self._folder = Path(os.path.realpath(folder))

    def prepare(self, input: Json, context: ToolContext) -> Json:  # noqa: A002
        return files.with_real_path({"path": str(context.cwd), **input}, "path", context)

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        root = Path(str(input.get("path")))
        apart = not (root.is_relative_to(self._folder) or self._folder.is_relative_to(root))
        if apart or input.get("output_mode") != "content":
            return await self._tool.run(input, context)
        bare = {key: value for key, value in input.items() if key not in ("-A", "-B", "-C")}
        outcome = await self._tool.run({**bare, "head_limit": _MOST_LINES}, context)
        lines = text_of(outcome.content).splitlines()
        if len(lines) <= _LAST_HITS:
            return outcome
        note = f"[The last {_LAST_HITS} of {len(lines):,} shown. Narrow the search.]"
        return replace(outcome, content="\n".join([*lines[-_LAST_HITS:], note]))


class ShutBash(_StandIn):
    """A shell that can change nothing and reach nobody."""

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        return await self._tool.run(input, _shut(context))


class KeptWrite(_StandIn):
    """Write, whose content goes to a function instead of the file."""

    def __init__(self, tool: Tool, keep: Keep, state: State) -> None:
        super().__init__(tool)
        if state.deps.memory is None:
            raise ToolError("Memory is off.")
        self._keep = keep
        self._root = Path(os.path.realpath(state.deps.memory.directory))

    def prepare(self, input: Json, context: ToolContext) -> Json:  # noqa: A002
        return files.with_real_path(input, "file_path", context)

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        def work(place: Held) -> ToolOutcome:
            path, before = place.path, None
            if place.status is not None:
                before, _ = files.load(place)
                if not files.require_unchanged(path, before, context, "overwrite").whole:
                    raise ToolError(f"Only a part of {path} was read. Read all of it first.")
            content = str(input["content"]).encode("utf-8", "replace")
            return self._kept(path, content, before, context)

        with files.held(input["file_path"], context) as place:
            return await anyio.to_thread.run_sync(work, place)

    def _kept(
        self, path: Path, content: bytes, before: bytes | None, context: ToolContext
    ) -> ToolOutcome:
        sentence = self._keep(path.relative_to(self._root).as_posix(), content, before)
        with hold(path) as now:
            if now.status is not None:  # it counts as seen: the function may have changed it
                data, status = files.load(now)
                context.files[str(path)] = files.seen(data, status, whole=True)
        return ToolOutcome(sentence, meta={"path": str(path)})


class KeptEdit(KeptWrite):
    """Edit, done on a copy whose new content goes to the function."""

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        with files.held(input["file_path"], context) as place:
            path = place.path
            before, _ = await anyio.to_thread.run_sync(files.load, place)
        seen = files.require_unchanged(path, before, context, "edit")
        with tempfile.TemporaryDirectory(prefix="lamina-edit-") as folder:
            copy = Path(os.path.realpath(folder)) / "copy.md"
            copy.write_bytes(before)
            mine = replace(context, files={str(copy): seen})
            try:
                await self._tool.run({**input, "file_path": str(copy)}, mine)
            except ToolError as error:
                raise ToolError(str(error).replace(str(copy), str(path))) from None
            content = copy.read_bytes()
        return await anyio.to_thread.run_sync(self._kept, path, content, before, context)
