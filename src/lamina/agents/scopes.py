"""The memory of an agent type, in one of three scopes: the user's (all projects), the project's (shared
by version control) and local (this project on this machine).

It is a store like the conversation's, with a rule of its own at the gate: what an agent learned is
accepted as `agent NAME`, and shown to agents of that type alone. What somebody else put into a
project's folder, as a `git pull` does, the user sees first. Touches those folders, and the home.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lamina import prompts
from lamina.agents.types import AgentType, BadType, Scope, Trust
from lamina.config import Config
from lamina.events import Emit
from lamina.ledger.places import find_project_folder, slug
from lamina.ledger.record import Ledger, blocks_of_entry
from lamina.memory import canonical_root, open_agent_store
from lamina.messages import Json
from lamina.ports import MemoryStore, Tool, ToolContext, ToolOutcome
from lamina.tools.memory_tools import Remember

_LARGEST = 1_000_000  # bytes of a file that are looked at
_ADVICE: dict[Scope, str] = {
    "user": "It serves every project: keep it general.",
    "project": "It is shared with everybody who works on this project: keep it to this project.",
    "local": "It is about this project on this machine.",
}


@dataclass(frozen=True, slots=True)
class AgentMemory:
    """Where one type's memory is."""

    type: str
    scope: Scope
    directory: Path
    state: Path  # history and tombstones, under the home
    trust: Trust

    @classmethod
    def of(cls, kind: AgentType, config: Config, trust: Trust) -> AgentMemory | None:
        if kind.memory is None or not config.bool("memory.enabled"):
            return None
        name = kind.name.replace(":", "-")
        root = canonical_root(config.project)
        own = find_project_folder(config.own_home, root)
        there = root / (".claude" if config.claude else ".lamina")
        remote = config.str("memory.remote_directory")
        directory = {
            "user": config.home / "agent-memory" / name,
            "project": there / "agent-memory" / name,
            "local": there / "agent-memory-local" / name,
        }[kind.memory]
        if kind.memory == "local" and remote:
            base = Path(remote).expanduser() / "projects" / slug(root)
            directory = base / "agent-memory-local" / name
        elif kind.memory != "user" and (real := directory.resolve()) != root.resolve() / (
            directory.relative_to(root)
        ):  # a link that came with the project
            raise BadType(f"{directory} is a link and leads to {real}. Remove the link.")
        home = config.own_home if kind.memory == "user" else own
        state = home / "agent-memory.lamina" / kind.memory / name
        return cls(name, kind.memory, directory, state, trust)

    # ---- what came from elsewhere

    def strange(self) -> dict[str, bytes]:
        """Files that are there and that neither Lamina wrote nor the user agreed to."""
        found: dict[str, bytes] = {}
        for path in () if self.scope == "user" else sorted(self.directory.rglob("*.md")):
            name, data = path.relative_to(self.directory).as_posix(), b""
            with suppress(OSError):
                if path.is_file():  # a pipe would never end
                    with path.open("rb") as file:
                        data = file.read(_LARGEST)
            if not self.trust.has(self._digest(name, data)):
                found[name] = data
        return found

    def agree(self, seen: Mapping[str, bytes]) -> None:
        """These files, as they were seen, may be shown to agents."""
        self.trust.add((self._digest(*one) for one in seen.items()), lasting=True)

    def _digest(self, name: str, data: bytes) -> str:
        path = self.directory / name
        return hashlib.sha256(str(path).encode() + b"\0" + data).hexdigest()

    # ---- in use

    def open(self, config: Config, emit: Emit, heard: Callable[[], Iterable[str]]) -> MemoryStore:
        """The store; `heard` is text that the agent did not think of itself."""
        owner = f"agent {self.type}"
        place = config, self.directory, self.state
        store = open_agent_store(*place, owner=owner, heard=heard, emit=emit)
        if self.scope == "local":
            ignore = self.directory.parent / ".gitignore"
            if not os.path.lexists(ignore):  # not through a link that leads elsewhere
                ignore.write_text("*\n", "utf-8")
        return store

    def section(self, store: MemoryStore) -> str:
        """For the system prompt: where, what, how, and the index as it is."""
        loaded = store.index("")
        return prompts.load(
            "agent_memory",
            type=self.type,
            directory=str(self.directory),
            advice=_ADVICE[self.scope],
            types=prompts.load("memory_types"),
            index="\n\n".join(part for part in (loaded.text, loaded.warning) if part) or "(empty)",
        )


class AgentRemember:
    """Remember, into the agent's own memory. What it writes, the user need not be shown."""

    def __init__(self, memory: AgentMemory, store: MemoryStore, session: str) -> None:
        self._memory = memory
        self._tool: Tool = Remember(store, session, tuple)
        self.spec = self._tool.spec

    async def run(self, input: Json, context: ToolContext) -> ToolOutcome:  # noqa: A002
        had = self._memory.strange()
        outcome = await self._tool.run(input, context)
        self._memory.agree({n: data for n, data in self._memory.strange().items() if n not in had})
        return outcome


def heard_by(ledger: Ledger) -> Iterable[str]:
    """What tools, files, hooks and other agents said to an agent, in its record."""
    for _, entry in ledger.messages():
        for origin, words in blocks_of_entry(entry):
            if origin not in ("assistant", "typed"):
                yield words
