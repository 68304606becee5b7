"""What the MCP tools do: the agent's own tools Remember, Forget and Recall on the project's memory,
with the prompts that a hook recorded as the only proof of the user's word; and reading recorded
sessions. Opened at the first call, one for the whole connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lamina.cli import sessions_search
from lamina.errors import GateRefused, LaminaError, UsageError
from lamina.integrations import typed_prompts
from lamina.integrations.library import Memory, linked_from
from lamina.ledger.log import read
from lamina.ledger.places import NOTES, RESULTS, find_project_folder
from lamina.ledger.record import Ledger
from lamina.ledger.spans import expand
from lamina.memory import blame, sync_team
from lamina.messages import Json
from lamina.recall.memory_index import MemoryIndex, headed_memories
from lamina.recall.transcripts import headed_messages
from lamina.tools.memory_guard import evidence_for
from lamina.tools.memory_tools import Forget, Remember, Remembered, shown_memory, told

_SHOWN_CHARACTERS = 40_000


class Calls:
    """One client's calls on one project."""

    def __init__(self, project: str, home: str | None, *, claude: bool = False) -> None:
        memory = Memory(project, home=home, claude=claude)
        self._config, self._store = memory.config, memory.store
        sync_team(self._config, self._store.state)
        self._index = MemoryIndex(self._store)
        self._tools: dict[str, Callable[[Json], str]] = {
            "recall": self._recall,
            "remember": self._remember,
            "forget": self._forget,
            "why": self._why,
            "inbox": self._inbox,
            "sessions_search": self._search_sessions,
            "expand": self._expand,
            "notes": self._notes,
        }

    def close(self) -> None:
        self._store.close()

    def call(self, name: str, arguments: Json) -> tuple[str, bool]:
        """What a tool answers, and whether it is an error. Never raises: the client goes on."""
        try:
            return self._tools[name](arguments), False
        except GateRefused as error:
            return f"Refused: {error}", True
        except LaminaError as error:
            return str(error), True
        except Exception as error:  # noqa: BLE001 - one call failed, the connection must not
            return f"{name} failed: {type(error).__name__}: {error}", True

    # ---- memory

    def _recall(self, asked: Json) -> str:
        limit = int(asked.get("limit") or 5)
        found = headed_memories(self._index, str(asked["query"]), limit, time.time())
        shown = [shown_memory(Remembered(*one)) for one in found]
        shown += linked_from(self._store, shown)
        return "\n\n".join(shown) or (
            "No memory says anything about that. sessions_search looks at what was said before."
        )

    def _remember(self, asked: Json) -> str:
        claim = f"{asked['name']}\n{asked['description']}\n{asked['content']}"
        users_word, recent = (
            asked["type"] in ("user", "feedback"),
            typed_prompts.recent(self._config),
        )
        # The session whose typed words bear the claim out; else the one typed into last.
        proven = (r for r in recent if evidence_for(claim, r[1], r[0], users_word=users_word))
        session, entries = next(proven, None) or next(iter(recent), ("", ()))
        with_index = self._config.bool("memory.index")
        log = time.time if self._config.bool("memory.daily_log") else None
        tool = Remember(self._store, session, lambda: entries, with_index=with_index, log=log)
        return told(tool.save(asked, "", entries))

    def _forget(self, asked: Json) -> str:
        wish = " ".join(str(asked["memory"]).split())
        session, entries = next(iter(typed_prompts.recent(self._config)), ("", ()))
        return Forget(self._store, session, lambda: entries).forget(wish, "", entries).sentence

    def _why(self, asked: Json) -> str:
        name = str(asked["memory"])
        path = name if name.endswith(".md") else f"{name}.md"
        memory = self._store.read(path)
        history = self._store.history
        if history is None:
            return f"{path}: this memory keeps no history."
        self._store.catch_up()
        lines = [f"{path}: {memory.description or memory.name}"]
        for commit in history.log(path):
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(commit.when))
            where = f", session {commit.session[:8]}" if commit.session else ""
            whose = f", whose word: {commit.origin}" if commit.origin else ""
            reason = f": {commit.reason}" if commit.reason else ""
            lines.append(f"{commit.id[:8]} {when} by {commit.writer}{where}{whose}{reason}")
        blamed = {line.commit.id for line in blame(history.versions(path))}
        lines.append(f"What it says now comes from {', '.join(sorted(one[:8] for one in blamed))}.")
        return "\n".join(lines)

    def _inbox(self, _asked: Json) -> str:
        waiting = self._store.waiting()
        rows = [f"{one.id}  {one.proposal.path}: {one.reason}" for one in waiting]
        how = "The user decides: `lamina memory inbox`."
        return "\n".join([*rows, how]) if rows else "Nothing waits in the inbox."

    # ---- sessions

    def _search_sessions(self, asked: Json) -> str:
        limit = int(asked.get("limit") or 5)
        indexes = sessions_search.indexes(self._config)
        found = headed_messages(indexes, str(asked["query"]), limit, time.time())
        shown = [shown_memory(Remembered(*one)) for one in found]
        return "\n\n".join(shown) or "No past session says anything about that."

    def _expand(self, asked: Json) -> str:
        path = Path(str(asked["id"]))
        wanted = path.name.removesuffix(".txt")
        # Some providers number the calls of each session from 1: a path says which it is.
        named = {"session": path.parent.parent.name} if path.parent.name == RESULTS else asked
        for file in self._session_files(named, "*.jsonl", "conversations/*.jsonl"):
            with suppress(LaminaError):
                text = expand(Ledger.of(read(file).entries).projection, wanted)
                end = (start := int(asked.get("from") or 0)) + _SHOWN_CHARACTERS
                rest = f"\n[Cut here: go on from {end}, of {len(text)} characters in all.]"
                return text[start:end] + rest * (end < len(text))
        raise UsageError(f"Nothing in the record has the id {wanted}.")

    def _notes(self, asked: Json) -> str:
        files = self._session_files(asked, "*.jsonl", "conversations/*.jsonl")
        for file in files:
            with suppress(OSError):
                return (file.with_suffix("") / NOTES).read_text("utf-8", "replace")
        return f"Session {files[0].stem} has no notes."

    def _session_files(self, asked: Json, *patterns: str) -> list[Path]:
        """The session that was named, or all; the latest first."""
        folder = find_project_folder(self._config.own_home, self._config.project)
        wanted = str(asked.get("session") or "")
        files = [one for pattern in patterns for one in folder.glob(pattern)]
        files.sort(key=lambda one: one.stat().st_mtime, reverse=True)
        found = [one for one in files if one.stem.startswith(wanted)]
        if not found:
            named = f"session {wanted}" if wanted else "recorded session"
            raise UsageError(f"This project has no {named}.")
        return found
