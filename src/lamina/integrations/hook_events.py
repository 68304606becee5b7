"""What happens at each event of a coding agent: the index at the start, recall at a prompt, a look
for memories after an answer. Only what the person typed counts as typed: clients put instruction
files, reminders and our own text into the same message, and those are cut off or not recorded.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from lamina.errors import LaminaError
from lamina.integrations import hook, typed_prompts
from lamina.integrations.library import Memory, linked_from
from lamina.machine import read_json, write_private
from lamina.memory import sync_team
from lamina.messages import as_object
from lamina.recall.memory_index import MemoryIndex
from lamina.recall.prefetch import Limits, RecallRequest, attachments, question_in, recall_now
from lamina.text.origins import added_by_client

# What each client calls the same moment. One table: a hook of any client may send any of them.
MOMENTS = {
    "SessionStart": "start",
    "UserPromptSubmit": "prompt",
    "BeforeAgent": "prompt",
    "Stop": "answer",
    "AfterAgent": "answer",
    "PostCompact": "compacted",
    "SessionEnd": "end",
}
_ADDED = ("hook_context", "system-reminder")  # tags around what a client puts into a prompt
_HOW = (
    "The tools of the MCP server lamina save and find memories; without it, `lamina memory add` and "
    "`lamina memory search` do."
)


class Events:
    """Answers events; in a resident process, one after the other."""

    def __init__(self) -> None:
        self.due: list[dict[str, Any]] = []  # for afterwards

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The client's answer to one event, `{}` where there is nothing to say."""
        event = as_object(asked.get("event"))
        name = str(event.get("hook_event_name") or "")
        moment = MOMENTS.get(name)
        if moment is None or not event.get("cwd"):
            return {}
        with _Here(asked, event) as here:
            if moment == "start":
                said = here.start()
            elif moment == "prompt":
                said = here.prompt()
            else:
                if moment == "compacted":
                    here.forget_shown()
                elif here.saves():
                    self.due.append(asked)
                said = ""
        if not said:
            return {}
        return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": said}}

    def afterwards(self) -> None:
        """What nobody waits for: look for memories in what was typed since last time."""
        for asked in self.due:
            try:
                with _Here(asked, as_object(asked.get("event"))) as here:
                    here.extract()
            except (LaminaError, OSError) as error:
                home = hook.own_home(str(asked["home"]), claude=bool(asked["claude"]))
                hook.log(home, f"{asked['client']}: {error}")
        self.due.clear()


class _Here:
    """One event, in its project."""

    def __init__(self, asked: dict[str, Any], event: dict[str, Any]) -> None:
        self._event, self._client = event, str(asked["client"])
        # A program may say whose memory it is; a user's own goes with no directory.
        self._in_process, user = "user" in asked, asked.get("user")
        self._typed = bool(asked.get("typed", True))
        project = asked.get("project") or (None if user else Path(str(event["cwd"])))
        home, claude = str(asked["home"]), bool(asked["claude"])
        self._memory = Memory(project, user, home=home, claude=claude)
        self._config = self._memory.config
        self._session = str(event.get("session_id") or "")
        self._shown_file = typed_prompts.file_of(
            self._config, self._client, self._session
        ).with_suffix(".shown.json")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.close()

    def start(self) -> str:
        """The index; after a compaction also what was recalled, which has left the view."""
        self.forget_shown()
        if not self._config.bool("memory.enabled"):
            return ""
        sync_team(self._config, self._memory.store.state)
        said = self._memory.prompt() if self._in_process else f"{self._memory.prompt()}\n\n{_HOW}"
        if self._event.get("source") == "compact":
            typed = typed_prompts.last(self._config, self._client, self._session)
            said = "\n\n".join([said, *self._recalled(typed)])
        return said

    def prompt(self) -> str:
        """Memories that fit what was typed, each once a session."""
        typed = _without_added(str(self._event.get("prompt") or ""))
        if not typed or not self._config.bool("memory.enabled"):
            return ""
        if not self._typed:  # a program's words are nobody's
            return "\n\n".join(self._recalled(typed))
        try:
            typed_prompts.record(self._config, self._client, self._session, typed, time.time())
        except (LaminaError, OSError) as error:  # one can recall from a read-only home
            hook.log(str(self._config.own_home), f"{self._client}: not recorded: {error}")
        return "\n\n".join(self._recalled(typed))

    def saves(self) -> bool:
        """Do the settings let it look for memories? The answer itself is not kept: what its tools
        showed the agent is not known here, so a "yes" to it proves nothing."""
        return self._config.bool("extraction.enabled") and self._config.bool("memory.enabled")

    def extract(self) -> None:
        from lamina.layers.extraction import save_by_rules

        session, entries = typed_prompts.since_last_look(self._config, self._client, self._session)
        if any("typed" in one["origins"] for one in entries):
            daily = self._config.bool("memory.daily_log")
            done = save_by_rules(self._memory.store, entries, session, time.time(), daily=daily)
            for reason in done.not_kept:
                hook.log(str(self._config.own_home), f"not kept: {reason}")
        typed_prompts.mark_looked(self._config, self._client, self._session)

    def forget_shown(self) -> None:
        """What was shown has left the view: it may be shown again."""
        with suppress(OSError):
            self._shown_file.unlink(missing_ok=True)

    def _recalled(self, typed: str) -> list[str]:
        question = question_in(typed)
        on = self._config.bool("memory.enabled") and self._config.bool("recall.enabled")
        if not question or not on:
            return []
        shown = read_json(self._shown_file, dict[str, int]) or {}
        limits = Limits.of(self._config)
        request = RecallRequest("", question, time.time(), exclude=set(shown))
        found = recall_now(MemoryIndex(self._memory.store), request, limits)
        blocks = attachments(
            found,
            directory=str(self._memory.directory),
            now=request.now,
            limits=limits,
            room=limits.session_bytes - sum(shown.values()),
        )
        if blocks:
            shown |= {one.path: one.bytes for one in blocks}
            with suppress(LaminaError, OSError):
                write_private(self._shown_file, json.dumps(shown).encode())
        texts = [str(one.block["text"]) for one in blocks]
        return [*texts, *linked_from(self._memory.store, texts)]


def _without_added(prompt: str) -> str:
    """What was typed. From the first tag to the last: text in between may close one by itself."""
    for tag in _ADDED:
        start, end = prompt.find(f"<{tag}>"), prompt.rfind(f"</{tag}>")
        if start >= 0:
            prompt = prompt[:start] + (prompt[end + len(tag) + 3 :] if end > start else "")
    return "" if added_by_client(prompt) else prompt.strip()
