"""The conversation in `lamina chat`: a line editor with history, streamed answers, a status line,
questions about permissions. Ctrl-C stops a turn, Ctrl-D leaves. Touches the terminal and, in the
home, the history of what was typed.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

import anyio
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app_session
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document  # noqa: TC002 - it is loaded anyway
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import patch_stdout

from lamina._version import __version__
from lamina.agents.summary import shown
from lamina.cli import sessions, transcript
from lamina.cli.chat_commands import Next, completions, run_command
from lamina.cli.chat_events import called, line_of, on_ctrl_c
from lamina.cli.main import DONE
from lamina.cli.terminal import (
    StatusLine,
    WordWrap,
    given_back,
    harmless,
    note,
    one_line,
    out,
    plural,
    stream,
    style,
    unread,
    width,
    wrapped,
)
from lamina.config import Config
from lamina.config.table import NO_MODEL
from lamina.errors import LaminaError
from lamina.events import Event, LayerActed, PermissionRefused, TextDelta, ToolFinished, ToolStarted
from lamina.layers import dream
from lamina.machine import private_folder
from lamina.memory import team_news
from lamina.messages import dicts, text_of
from lamina.session import Session

# A paste of more lines or characters than this is not taken for the user's own words.
LONGEST_TYPED_PASTE = 300
_SILENCE = 2.0  # seconds without a word after which a line says what is waited for
_LAST_LINES = 8  # of an answer, shown when its session goes on
# Questions about a permission; the detail below says what exactly.
_ASKED = {"Bash": "Run this command?", "Write": "Write this file?", "Edit": "Edit this file?"}


@contextmanager
def keys_as_pressed() -> Generator[None]:
    """Else a terminal makes Enter another key, and takes Ctrl-D for itself, between two prompts and
    while something is printed above the line."""
    terminal = get_app_session().input
    with terminal.raw_mode():
        vars(terminal)["cooked_mode"] = nullcontext
        try:
            yield
        finally:
            vars(terminal).pop("cooked_mode", None)  # an agent's question ends within a line


def _typed_ahead() -> list[KeyPress]:
    """The keys that were pressed while nobody read them, in order."""
    keys = get_typeahead(get_app_session().input)
    parser = Vt100Parser(keys.append)
    parser.feed(unread(sys.stdin.fileno()).decode(errors="replace"))
    parser.flush()
    # A terminal that nobody reads raw ends its lines with \n; to the prompt that is another key.
    return [KeyPress(Keys.Enter, "\r") if one.key == Keys.ControlJ else one for one in keys]


def _type(keys: list[KeyPress]) -> None:
    """Let the next prompt find these keys pressed."""
    terminal = get_app_session().input
    store_typeahead(terminal, [*keys, *get_typeahead(terminal)])


class Editor:
    """Reads messages and short answers."""

    def __init__(self, config: Config, status: Callable[[], str]) -> None:
        self._config = config
        self._status = status
        self._pastes: dict[str, str] = {}  # the mark in the line → what was pasted
        self._prompt: PromptSession[str] | None = None

    async def read(self) -> tuple[str, str]:
        """What was typed, and what was pasted into it. EOFError and KeyboardInterrupt as at a prompt."""
        self._pastes.clear()
        prompt = self._prompt = self._prompt or self._make()
        with patch_stdout(raw=True), keys_as_pressed():  # background talk goes above the line
            _type(_typed_ahead())
            line = await prompt.prompt_async(
                "› ", bottom_toolbar=lambda: [("", self._status())], handle_sigint=False
            )
        found = {mark: text for mark, text in self._pastes.items() if mark in line}
        if len(found) == 1 and line.strip() in found:
            return "", found[line.strip()]
        return line, "\n\n".join(f"{mark}\n{text}" for mark, text in found.items())

    async def choose(self, ask: Callable[[], None]) -> Literal["once", "always", "no"]:
        """y, a or n, until one of them is typed. What was typed before the question stood there is
        no answer to it: it waits for the next message."""
        answers: dict[str, Literal["once", "always", "no"]] = {
            "y": "once", "yes": "once", "a": "always", "always": "always", "n": "no", "no": "no",
        }  # fmt: skip
        question, choices = PromptSession[str](enable_suspend=True), "  y(es), a(lways) or n(o)? "
        with keys_as_pressed():
            ahead = _typed_ahead()
            ask()
            try:
                while True:
                    word = await question.prompt_async(choices, handle_sigint=False)
                    if (answer := answers.get(word.strip().lower())) is not None:
                        return answer
            finally:
                _type(ahead)

    def _make(self) -> PromptSession[str]:
        return PromptSession(
            history=self._history(),
            multiline=True,
            key_bindings=self._keys(),
            prompt_continuation="  ",
            enable_history_search=False,
            completer=self._completer(),
            enable_suspend=True,
            complete_while_typing=False,  # only at Tab
        )

    def _completer(self) -> Completer:
        config = self._config

        class ByTab(Completer):
            def get_completions(
                self,
                document: Document,
                complete_event: CompleteEvent,  # noqa: ARG002 - prompt_toolkit passes it
            ) -> Iterator[Completion]:
                for whole, typed in completions(document.text_before_cursor, config):
                    yield Completion(whole, -len(typed))

        return ByTab()

    def _history(self) -> History:
        """What was typed before, in a file that only the user reads; in memory where that fails."""
        path = self._config.own_home / "history"
        try:
            private_folder(path.parent)
            path.touch(mode=0o600)
            with path.open("ab"):
                return FileHistory(str(path))
        except OSError:
            return InMemoryHistory()

    def _keys(self) -> KeyBindings:
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
        lines = plural(text.strip("\n").count("\n") + 1, "line")
        mark = f"[pasted {len(self._pastes) + 1}: {lines}]"
        self._pastes[mark] = text
        return mark


def warm_up(model: str) -> None:
    """Import the provider's package while the user types: it takes a second or more."""
    provider = model.partition(":")[0]
    if provider in ("anthropic", "openai") and importlib.util.find_spec(provider):
        threading.Thread(target=importlib.import_module, args=(provider,), daemon=True).start()


def talk(wish: dict[str, Any], *, quiet: bool) -> int:
    """Talk until the user leaves; returns the exit code."""
    with given_back():
        return anyio.run(Conversation(wish, quiet=quiet).run)


class Conversation:
    """One stay at the prompt; it may go through several sessions."""

    def __init__(self, wish: dict[str, Any], *, quiet: bool) -> None:
        self._wish = wish
        self._quiet = quiet
        self._config: Config = wish["config"]
        self._editor = Editor(self._config, self._status)
        self._session: Session | None = None
        self._streamed: WordWrap | None = None  # an answer that stands on the line
        self._refused = False  # the last event said so
        self._compacting = False  # by hand: the command itself reports the result
        self._asking = anyio.Lock()  # one question at a time
        self._waiting = StatusLine(quiet=quiet)
        self._running: dict[str, str] = {}  # tools at work
        self._heard = 0.0  # when something was printed last

    async def run(self) -> int:
        warm_up(self._config.str("model"))
        left, following = await self._visit(self._wish)
        while following.wish is not None:
            wish = {"config": self._config, **following.wish}
            try:
                left, following = await self._visit(wish)
            except LaminaError as error:  # that session can't be opened; the one before can
                self._complain(error)
                back = {"config": self._config, "session_id": left, "resume": True}
                left, following = await self._visit(back)
        return DONE

    async def _visit(self, wish: dict[str, Any]) -> tuple[str, Next]:
        """One session, from its greeting to the end of its background work."""
        async with Session.open(
            **wish, interactive=True, ask=self._may, on_event=self._hear
        ) as session:
            self._session = session
            if dream.due(session.state):  # it finds what was typed into other agents
                threading.Thread(target=sessions.others, args=(self._config,), daemon=True).start()
            self._greet(session, resumed=bool(wish.get("resume")))
            following = await self._stay(session)
            await self._finish(session)
        self._session = None
        return session.id, following

    async def _finish(self, session: Session) -> None:
        """Background work may take its time; Ctrl-C leaves it for the next open."""
        if not (names := session.leaving()):
            return
        said = f"  Finishing {', '.join(names)} (Ctrl-C leaves it for next time) …"
        enough = anyio.CancelScope()
        async with on_ctrl_c(enough.cancel):
            note(style(wrapped(said, width()), "dim", sys.stderr))
            with enough:
                await session.drain()
            if enough.cancelled_caught:
                await session.drain(0)

    async def _stay(self, session: Session) -> Next:
        """Lines of one session, until it is left or changed."""
        while True:
            if (memory := session.state.deps.memory) is not None:
                for told in team_news(memory.state):
                    out(style(wrapped(f"  {harmless(told)}", width()), "yellow"))
            try:
                line, pasted = await self._editor.read()
            except EOFError:
                return Next(leave=True)
            except KeyboardInterrupt:
                note(style("  Ctrl-D leaves.", "dim", sys.stderr))
                continue
            try:
                if line.startswith("/") and not pasted:
                    self._compacting = line.startswith("/compact")
                    following = await run_command(session, line.strip()) or Next()
                    if following.model:
                        self._config = self._config.with_(model=following.model)
                    if following.leave:
                        return following
                elif line.strip() or pasted:
                    await self._turn(session, line, pasted)
            except LaminaError as error:
                self._end_line()
                self._complain(error)
            finally:
                self._compacting = False

    async def _turn(self, session: Session, line: str, pasted: str) -> None:
        self._running.clear()
        self._heard = time.monotonic()
        async with on_ctrl_c(session.cancel, self._show_life):
            reply = await session.ask(line, pasted=pasted)
        self._end_line()
        if reply.stop == "cancelled":
            out(style("  Stopped. What was done so far is kept.", "yellow"))

    async def _show_life(self) -> None:
        """What is waited for and for how long, on a line that goes when something is printed."""
        while True:
            await anyio.sleep(0.5)
            waited = time.monotonic() - self._heard
            if waited < _SILENCE or self._streamed is not None or self._asking.locked():
                continue
            model = self._session.status().model if self._session else ""
            doing = ", ".join(self._running.values()) or f"waiting for {model}"
            stops = f" · {waited:.0f} s · Ctrl-C stops it"
            doing = one_line(doing, max(10, width() - 1 - len(stops)))
            self._waiting.say(f"{doing}{stops}", now=True)

    def _hear(self, event: Event) -> None:
        if isinstance(event, ToolStarted):
            self._running[event.id] = called(event)
        elif isinstance(event, ToolFinished):
            self._running.pop(event.id, None)
        if isinstance(event, TextDelta):
            self._begin_printing()
            self._streamed = self._streamed or WordWrap(width())
            stream(self._streamed.feed(harmless(event.text)))
            return
        refused, self._refused = self._refused, isinstance(event, PermissionRefused)
        if refused and isinstance(event, ToolFinished):
            return  # the refusal has been reported
        if self._compacting and isinstance(event, LayerActed) and event.layer == "compaction":
            return
        line = line_of(event)
        if line is not None and not (self._quiet and line.style == "dim"):
            self._begin_printing()
            self._end_line()
            out(style(wrapped(line.text, width()), line.style))

    def _begin_printing(self) -> None:
        self._waiting.clear()
        self._heard = time.monotonic()

    def _end_line(self) -> None:
        self._waiting.clear()
        if self._streamed is not None:
            end = "" if self._streamed.at_start else "\n"
            stream(self._streamed.end() + end)
            self._streamed = None

    def _complain(self, error: LaminaError) -> None:
        sentence = wrapped(f"lamina: {harmless(str(error))}", width())
        note(style(sentence, "red", sys.stderr))

    async def _may(self, tool: str, detail: str) -> Literal["once", "always", "no"]:
        """A question about a permission; Ctrl-C says no and stops the turn."""

        def ask() -> None:
            self._end_line()
            asked = _ASKED.get(tool) or f"Allow {one_line(tool, width() - 12)}?"
            out(style(f"? {asked}", "yellow"))
            for line in harmless(detail).splitlines()[:20]:
                out(f"    {line[: width() - 4]}")
            if allows := getattr(detail, "always", ""):
                out(style(f"  always: {harmless(allows)}, until this session ends", "dim"))

        async with self._asking:
            try:
                return await self._editor.choose(ask)
            except (KeyboardInterrupt, EOFError):
                if self._session is not None:
                    self._session.cancel()
                return "no"

    # ---- what stands around it

    def _greet(self, session: Session, *, resumed: bool) -> None:
        if self._quiet:
            return
        model = session.status().model
        model = "no model: memory and search" if model == NO_MODEL else harmless(model)
        about = f"{__version__} · {model} · session {session.id[:8]}"
        out(style("Lamina", "bold") + wrapped(f"Lamina {about} · /help", width())[6:])
        if resumed:
            said = sum("typed" in (e.get("origins") or ()) for _, e in session.ledger.messages())
            out(style(f"  continuing: {plural(said, 'message')} from you so far", "dim"))
            self._show_last(session)

    def _show_last(self, session: Session) -> None:
        """The last exchange, as the user left it."""
        entries = [entry for _, entry in session.ledger.messages()]
        typed = [at for at, entry in enumerate(entries) if transcript.typed_text(entry)]
        if not typed:
            return
        asked = one_line(transcript.typed_text(entries[typed[-1]]), width() - 7)
        out(style(f"  you: {asked}", "dim"))
        answers = [
            text_of([block for block in dicts(entry.get("content")) if block.get("type") == "text"])
            for entry in entries[typed[-1] + 1 :]
            if entry.get("role") == "assistant"
        ]
        lines = wrapped(harmless("\n".join(filter(None, answers))), width() - 2).splitlines()
        for line in lines[-_LAST_LINES:]:
            out(style(f"  {line}", "dim"))

    def _status(self) -> str:
        """The line at the bottom: model, tokens of window, cache hit rate, background tasks, agents."""
        if self._session is None:
            return ""
        status = self._session.status()
        parts = [status.model, f"{_short(status.tokens)} of {_short(status.window)} tokens"]
        if status.cache_hit_rate is not None:
            parts.append(f"cache {status.cache_hit_rate:.0%}")
        if status.fidelity is not None:
            parts.append(f"summary keeps only {status.fidelity:.0%} (/undo)")
        beside = [name for name in status.background if not name.startswith("agent ")]
        if beside:
            parts.append("background: " + ", ".join(beside))
        if len(beside) < len(status.background):
            parts += shown(self._session.agents)
        return " · ".join(harmless(part) for part in parts)


def _short(tokens: int) -> str:
    """1,234 as 1.2k, 200,000 as 200k, 1,000,000 as 1M."""
    if tokens < 1_000:
        return str(tokens)
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.2f}".rstrip("0").rstrip(".") + "M"
    return f"{tokens / 1000:.1f}k" if tokens < 100_000 else f"{tokens // 1000}k"
