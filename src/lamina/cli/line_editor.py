"""The line editor of a conversation, on prompt_toolkit: history, several lines, the status line, and
pasted text kept apart from what was typed. Touches the terminal and the history file.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from lamina.config import Config
from lamina.ledger.places import private_folder

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

# A paste of more lines or characters than this is not taken for the user's own words.
LONGEST_TYPED_PASTE = 300


class Editor:
    """Reads messages and short answers."""

    def __init__(self, config: Config, status: Callable[[], str]) -> None:
        self._config = config
        self._status = status
        self._pastes: dict[str, str] = {}  # the mark in the line → what was pasted
        self._prompt: PromptSession[str] | None = None

    async def read(self) -> tuple[str, str]:
        """What was typed, and what was pasted into it. EOFError and KeyboardInterrupt as at a prompt."""
        from prompt_toolkit.patch_stdout import patch_stdout

        self._pastes.clear()
        prompt = self._prompt = self._prompt or self._make()
        with patch_stdout(raw=True):  # what the background says goes above the line being typed
            line = await prompt.prompt_async(
                "› ", bottom_toolbar=self._toolbar, handle_sigint=False
            )
        found = {mark: text for mark, text in self._pastes.items() if mark in line}
        if len(found) == 1 and line.strip() in found:
            return "", found[line.strip()]
        return line, "\n\n".join(f"{mark}\n{text}" for mark, text in found.items())

    async def choose(self) -> Literal["once", "always", "no"]:
        """y, a or n, until one of them is typed."""
        from prompt_toolkit import PromptSession

        answers: dict[str, Literal["once", "always", "no"]] = {
            "y": "once", "yes": "once", "a": "always", "always": "always", "n": "no", "no": "no",
        }  # fmt: skip
        question: PromptSession[str] = PromptSession()
        while True:
            word = await question.prompt_async("  y(es), a(lways) or n(o)? ", handle_sigint=False)
            if (answer := answers.get(word.strip().lower())) is not None:
                return answer

    def _make(self) -> PromptSession[str]:
        from prompt_toolkit import PromptSession

        return PromptSession(
            history=self._history(),
            multiline=True,
            key_bindings=self._keys(),
            prompt_continuation="  ",
            enable_history_search=False,
        )

    def _toolbar(self) -> Any:
        return [("", self._status())]

    def _history(self) -> History:
        """What was typed before, in a file that only the user reads; in memory where that fails."""
        from prompt_toolkit.history import FileHistory, InMemoryHistory

        path = self._config.own_home / "history"
        try:
            private_folder(path.parent)
            path.touch(mode=0o600)
            with path.open("ab"):
                return FileHistory(str(path))
        except OSError:
            return InMemoryHistory()

    def _keys(self) -> KeyBindings:
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.keys import Keys

        keys = KeyBindings()

        @keys.add("enter")
        def send(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            buffer = event.current_buffer
            if buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @keys.add("escape", "enter")
        @keys.add("c-j")
        def new_line(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            event.current_buffer.insert_text("\n")

        @keys.add(Keys.BracketedPaste)
        def paste(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            event.current_buffer.insert_text(self._mark(text))

        return keys

    def _mark(self, text: str) -> str:
        """A long paste stands in the line as a mark and travels beside it."""
        if "\n" not in text.strip("\n") and len(text) <= LONGEST_TYPED_PASTE:
            return text.strip("\n")
        lines = text.strip("\n").count("\n") + 1
        mark = f"[pasted {len(self._pastes) + 1}: {lines} lines]"
        self._pastes[mark] = text
        return mark


def warm_up(model: str) -> None:
    """Import the provider's package while the user types: it takes a second or more."""
    provider = model.partition(":")[0]
    if provider in ("anthropic", "openai") and importlib.util.find_spec(provider):
        threading.Thread(target=importlib.import_module, args=(provider,), daemon=True).start()
