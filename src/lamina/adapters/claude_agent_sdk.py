"""Claude Agent SDK: the hooks of `lamina hooks install claude-code`, in the program itself.

    options = ClaudeAgentOptions(hooks=lamina_hooks(user="alice"))

The index comes with a session's first prompt, memories with the prompts that they fit. The transcript
is the agent's own and stays as it is.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from lamina.adapters import needs
from lamina.adapters.core import aside
from lamina.integrations.hook import log
from lamina.integrations.hook_events import Events
from lamina.integrations.library import settings_for
from lamina.integrations.wrap import switched_off
from lamina.messages import Json

_CLIENT = "claude-agent-sdk"


def lamina_hooks(
    project: str | Path | None = None,
    user: str | None = None,
    *,
    home: str | Path | None = None,
    remember: bool = False,
) -> dict[Any, list[Any]]:
    """Hooks for `ClaudeAgentOptions(hooks=…)`; merge them with your own by event.

    `project` is the agent's directory if it is left out. `remember`: the prompts are a person's own
    words, to be looked through for what to keep. With LAMINA_DISABLED set there are no hooks.
    """
    needs(_CLIENT, _CLIENT, (0, 2), 1)
    if switched_off():
        return {}
    matcher = import_module("claude_agent_sdk").HookMatcher
    own = _Hooks(project, user, str(settings_for(project, user, home).home), remember=remember)
    return {
        "UserPromptSubmit": [matcher(hooks=[own.prompt])],
        "Stop": [matcher(hooks=[own.stop])],
        "PreCompact": [matcher(hooks=[own.compact])],
    }


class _Hooks:
    """Nothing here raises: the agent goes on, and `lamina doctor` shows what went wrong."""

    def __init__(
        self, project: str | Path | None, user: str | None, home: str, *, remember: bool
    ) -> None:
        self._project, self._user, self._home, self._remember = project, user, home, remember
        self._begun: set[str] = set()  # sessions that have the index
        self._aside = ThreadPoolExecutor(1, "lamina")
        self._looking: Future[str] | None = None  # for memories in what was said last

    async def prompt(self, given: Json, *_: Any) -> Json:
        event, session = dict(given), str(given.get("session_id"))
        if self._looking is not None:
            await aside(self._looking.result)
        first = ["SessionStart"] if session not in self._begun else []
        self._begun.add(session)
        said = [
            await aside(self._answered, event, moment) for moment in (*first, "UserPromptSubmit")
        ]
        words = "\n\n".join(filter(None, said))
        told = {"hookEventName": "UserPromptSubmit", "additionalContext": words}
        return {"hookSpecificOutput": told} if words else {}

    async def stop(self, given: Json, *_: Any) -> Json:
        if self._remember:  # nobody waits for it, but the program's end
            self._looking = self._aside.submit(self._answered, dict(given), "Stop")
        return {}

    async def compact(self, given: Json, *_: Any) -> Json:
        self._begun.discard(str(given.get("session_id")))  # what was shown leaves the view
        return {}

    def _answered(self, event: Json, moment: str) -> str:
        """What the agent is told at a moment, "" if nothing."""
        asked: Json = {"client": _CLIENT, "home": self._home, "claude": False}
        asked |= {"user": self._user, "project": self._project, "typed": self._remember}
        try:
            events = Events()
            answer = events.answer({**asked, "event": {**event, "hook_event_name": moment}})
            events.afterwards()
            return str(answer.get("hookSpecificOutput", {}).get("additionalContext") or "")
        except Exception as error:  # noqa: BLE001 - the agent goes on
            log(self._home, f"{_CLIENT}: {type(error).__name__}: {error}")
            return ""
