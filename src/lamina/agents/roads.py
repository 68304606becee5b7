"""How the agents of a session hear from other processes, and write to them: by mailboxes on files
(this home), a Unix socket (`uds:`, the same user), or the bridge (`bridge:`, other hosts).

By whatever road a letter comes, it goes from its mailbox to an entry of this session's ledger, and from
there to whoever it is for; what a crash leaves in between is taken up when the session is opened again.
Its words have the origin `teammate`. Touches the mailboxes, the socket, and the ledger.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.from_thread
import anyio.to_thread
import msgspec

from lamina.agents import roster
from lamina.agents.mailboxes import Maildirs, name_in, new_id
from lamina.agents.states import agent_ledger
from lamina.agents.types import is_name
from lamina.config import Config
from lamina.errors import LaminaError, PostAway, ToolError, UsageError
from lamina.events import AgentChanged, Event, ModelCalled, Warned
from lamina.layers import tool_results
from lamina.ledger import edits
from lamina.ledger.places import find_project_folder
from lamina.machine import private_folder
from lamina.messages import Json, as_object
from lamina.ports import LARGEST_LETTER, Letter, Post, Presence, Reader

if TYPE_CHECKING:
    from anyio.abc import SocketStream, TaskStatus

    from lamina.agents.roster import Card
    from lamina.agents.runner import Agent, Agents

LETTER, READ = "letter", "letter.read"  # names of `state` entries
_PATIENCE = 5.0  # seconds for which a bell is waited for
_SLOW = 10.0  # seconds that a peer may take over one letter
_TAKEN = "taken"
_MARK = '<message id="'  # how a letter begins in a record
_NOT_DONE = "not done"  # the summary of a letter that says why another could not be acted on


class Roads:
    def __init__(self, agents: Agents) -> None:
        config, self._main = agents.main.config, agents.main
        self.name = config.str("agents.name") or mailbox_of(self._main.deps.session_id)
        self.leader = ""  # whom a teammate calls main: who wrote to it last
        self.wrote = False  # somebody may answer, so the mailbox stays
        self.work = anyio.Event()  # set when letters may be acted on
        # What an object does, by its type; a teammate adds some.
        self.kinds: dict[str, Callable[[Letter], Awaitable[None]]] = {
            "stop": self._stop,
            "task_result": self._bring,
        }
        self._agents, self._began = agents, self._main.deps.clock.now()
        self._posts = posts_of(config, self.name)
        self._socket = _socket_of(mail_of(config) / self.name)
        self.open_at: dict[str, Reader] = {}  # by its names on the roads that reach it now
        self._scope, self._news = anyio.CancelScope(), anyio.Event()
        self._waiting: list[Letter] = []
        self._known: set[str] = set()
        self._awaited: dict[str, anyio.Event] = {}  # tasks elsewhere that somebody waits for
        self.work.set()

    # ---- listening

    async def listen(self, *, task_status: TaskStatus[None]) -> None:
        """Until `hang_up`. A session that can't be written to works all the same."""
        self._restore()
        self._main.listeners.append(self._hear)
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    files, *bridged = self._posts
                    await tasks.start(self._read, files)
                    for name in bridged:
                        tasks.start_soon(self._read, name)
                    await tasks.start(self._serve)
                    tasks.start_soon(self._work)
                    task_status.started()
                    await anyio.sleep_forever()
        finally:
            for post in self._posts.values():
                post.close()

    def hang_up(self) -> None:
        self._scope.cancel()

    def _hear(self, event: Event) -> None:
        if isinstance(event, (AgentChanged, ModelCalled)):
            self._news.set()

    async def _read(
        self, name: str, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Take what comes to one mailbox; a post that goes away is tried again."""
        post, wait, reader = self._posts[name], 1.0, None
        while True:
            try:
                seen = self.describe(Presence(name))
                reader = await _apart(post.read, seen, self._complain)
                self.open_at[name], wait = reader, 1.0
                with suppress(RuntimeError):  # it had started before
                    task_status.started()
                while True:
                    await _apart(reader.take, partial(anyio.from_thread.run_sync, self._receive))
                    with anyio.move_on_after(_PATIENCE):
                        await anyio.wait_readable(reader.bell)
                    reader.hush()
            except UsageError as error:  # trying again would not help
                self._main.emit(Warned(f"Nobody can write to {name} here: {error}"))
                wait = 3600.0
            except (LaminaError, OSError) as error:
                if wait == 1.0:
                    self._main.emit(Warned(f"Letters for {name} wait: {error}"))
                wait = min(30.0, 2 * wait)
            finally:
                if self.open_at.pop(name, None) is not None and reader is not None:
                    keep = self.wrote or not self.name.startswith("session-")
                    with anyio.CancelScope(shield=True), suppress(LaminaError):
                        await _apart(partial(reader.close, keep=keep))
            with suppress(RuntimeError):
                task_status.started()
            await anyio.sleep(wait)

    def _complain(self, problem: str) -> None:
        anyio.from_thread.run_sync(self._main.emit, Warned(problem))

    def _receive(self, letter: Letter) -> None:
        """Into the record, before its mailbox lets go of it."""
        if letter.id not in self._known:
            self._main.ledger.append(edits.state(LETTER, msgspec.to_builtins(letter)))
            self._known.add(letter.id)
            self._waiting.append(letter)
            self._news.set()

    def _restore(self) -> None:
        """What an earlier life of this session received and did not get round to."""
        states = [e for e in self._main.ledger.entries if e["kind"] == "state"]
        came = [as_object(e.get("value")) for e in states if e.get("name") == LETTER]
        done = {str(e.get("value")) for e in states if e.get("name") == READ}
        letters = [msgspec.convert(one, Letter) for one in came]
        self._known = {one.id for one in letters}
        left = [one for one in letters if one.id not in done]
        said = self._said() if left else set[str]()
        self._waiting = [one for one in left if one.kind == "task" or one.id not in said]

    def _said(self) -> set[str]:
        """The letters whose words stand in the records of this session."""
        texts = (
            str(block.get("text"))
            for ledger in [self._main.ledger, *map(self._agents.record_of, self._agents)]
            for _, entry in ledger.messages()
            for block, origin in zip(entry["content"], entry.get("origins") or (), strict=False)
            if origin == "teammate"
        )
        return {one[len(_MARK) :].partition('"')[0] for one in texts if one.startswith(_MARK)}

    # ---- acting on letters

    async def _work(self) -> None:
        await self.work.wait()
        shown: Presence | None = None
        while True:
            self._news = anyio.Event()
            while self._waiting:
                await self._act(self._waiting[0])
                self._waiting.pop(0)
            if (seen := self.describe(Presence(self.name))) != shown:
                shown = seen
                for name, reader in list(self.open_at.items()):
                    with suppress(PostAway, OSError):
                        await _apart(reader.show, replace(seen, name=name))
            await self._news.wait()

    async def _act(self, letter: Letter) -> None:
        """What can't be done is told to whoever asked for it."""
        try:
            if isinstance(letter.message, str):
                await self.tell(letter, letter.message)
            elif (act := self.kinds.get(letter.kind)) is None:
                raise ToolError(f"{self.name} can't do that ({letter.kind}).")
            else:
                await act(letter)
        except Exception as error:  # noqa: BLE001 - the edge of a background task
            self._main.emit(Warned(f"A letter from {letter.sender}: {error}"))
            with suppress(LaminaError):
                self.done(letter)
                answer = str(error) if letter.kind != "task" else failed(letter, str(error))
                if letter.summary != _NOT_DONE:
                    await self.send(letter.reply, answer, _NOT_DONE, id_=f"{letter.id}-e")

    def done(self, letter: Letter) -> None:
        """Nothing of it is left to do in another life of this session."""
        self._main.ledger.append(edits.state(READ, letter.id))

    async def tell(self, letter: Letter, words: str) -> None:
        told = letter_text(letter, words)
        if not letter.to:
            self._main.queue.append((told, "teammate"))
            about = letter.summary or words
            self._main.emit(AgentChanged(letter.id, letter.sender, "message", "wrote", about))
            return
        await self._agents.resume(self._agents.find(letter.to), told, "teammate")

    async def _stop(self, letter: Letter) -> None:
        if not letter.to:
            raise ToolError("A conversation is ended by whoever leads it.")
        self._agents.stop(letter.to)
        self.done(letter)

    # ---- tasks that are done elsewhere

    async def hand_out(self, agent: Agent, to: str, prompt: str) -> None:
        """Give a task to a teammate. Whoever started `agent` waits for the result, unless it is in
        the background or takes too long; then the result comes as a message."""
        back, card = anyio.Event(), agent.card
        self.book(agent, edits.message("user", prompt, "agent"))
        if not card.background:
            self._awaited[card.id] = back
        try:
            # The whole name: its result comes from nobody else.
            to = (await _apart(whereabouts, self._posts, to))[1].name
            card = agent.card = replace(card, base=to)
            await self.send(to, {"type": "task", "task": card.id, "prompt": prompt}, card.task)
            if not card.background:
                with anyio.move_on_after(60 * self._main.config.float("agents.max_minutes")):
                    await back.wait()
        except LaminaError as error:
            self.book(agent, card=replace(card, status="failed", reason=str(error)))
            raise
        except anyio.get_cancelled_exc_class():
            await self.call_off(agent)
            raise
        finally:
            self._awaited.pop(card.id, None)
        if agent.card.status == "running":
            self.book(agent, card=replace(card, background=True))

    async def call_off(self, agent: Agent) -> None:
        """Tell a teammate that nobody waits for its result any more."""
        with anyio.CancelScope(shield=True), suppress(LaminaError):
            await self.send(agent.card.base, {"type": "task_cancel", "task": agent.card.id})

    async def _bring(self, letter: Letter) -> None:
        value = as_object(letter.message)
        agent = self._agents.known.get(str(value.get("task")))
        if agent is None or agent.card.type != roster.REMOTE:
            raise ToolError("Nobody here gave that task.")
        if not letter.proven or name_in(letter.reply) != name_in(agent.card.base):
            raise ToolError(f"That task was given to {agent.card.base}.")
        agent.result = str(value.get("text"))
        ended = self._main.deps.clock.now()
        status, why = str(value.get("status")), str(value.get("reason") or "")
        card = replace(agent.card, status=status, reason=why, ended=ended)
        self.book(agent, edits.message("assistant", agent.result, "assistant"), card=card)
        self._main.emit(card.changed())
        if (back := self._awaited.get(card.id)) is not None:
            back.set()
            self.done(letter)
        else:
            report = self._agents.report(agent)
            words = tool_results.told(agent.caller, f"agent-{card.id}", report)
            agent.caller.queue.append((letter_text(letter, words), "teammate"))

    def book(self, agent: Agent, *entries: Json, card: Card | None = None) -> None:
        """Into the ledger of one that does not run here: that of a task elsewhere has its result."""
        agent.card = card or agent.card
        path = roster.ledger_path(self._main.deps.folder, agent.card.id)
        private_folder(path.parent)
        ledger = agent_ledger(self._agents, agent, agent.caller, path)
        ledger.append(*entries, edits.state(roster.CARD, agent.card.to_json()))
        ledger.close()

    # ---- who is there

    def describe(self, presence: Presence) -> Presence:
        return replace(
            presence,
            session=self._main.deps.session_id,
            address=f"uds:{self._socket}",
            status="open",
            started=self._began,
            line=", ".join(one.card.name for one in self._agents.running()),
            tokens=sum(one.card.tokens for one in self._agents),
            dollars=sum(one.card.dollars for one in self._agents),
        )

    def others(self) -> list[Presence]:
        """Who can be written to by name; those of the bridge have an @ in it. Blocks."""
        found = [one for post in self._posts.values() for one in post.present()]
        return [one for one in found if one.name not in self._posts]

    # ---- sending

    async def send(
        self, to: str, message: str | dict[str, Any], summary: str = "", by: str = "", id_: str = ""
    ) -> str:
        """To a name, `uds:PATH` or `bridge:ID`, or behind a `#` to an agent there; a sentence says how."""
        self.wrote = True
        where, _, inner = to.partition("#")
        send, one = await _apart(whereabouts, self._posts, where)
        mine = self.address(one.name, by)
        await _apart(send, Letter(id_ or new_id(), mine, mine, message, inner, summary))
        when = "after its present round" if one.alive else "when it is started again"
        return f"{to} will read it {when}."

    def address(self, to: str, by: str = "") -> str:
        """How whoever is at `to` can answer us, or the agent `by` of this session."""
        behind = f"#{by}" if by and by != self.name else ""
        if to.startswith("uds:"):
            return f"uds:{self._socket}{behind}"
        bridged = [f"bridge:{name}" for name in self._posts if "@" in name and "@" in to]
        return f"{(bridged or [self.name])[0]}{behind}"

    # ---- the socket

    async def _serve(self, *, task_status: TaskStatus[None]) -> None:
        path = Path(self._socket)
        try:
            private_folder(path.parent)
            status = os.lstat(path.parent)
            if (status.st_uid, status.st_mode) != (os.getuid(), 0o40700):  # a folder, and no link
                raise PostAway(f"{path.parent} is not yours alone. Remove it.")
            path.unlink(missing_ok=True)  # the lock of the mailbox says that nobody has it
            listener = await anyio.create_unix_listener(path, mode=0o600)
        except (OSError, LaminaError) as error:
            self._main.emit(Warned(f"No socket for other sessions: {error}"))
            task_status.started()
            return
        task_status.started()
        try:
            async with listener:
                await listener.serve(self._answer)
        finally:
            path.unlink(missing_ok=True)

    async def _answer(self, stream: SocketStream) -> None:
        said = _TAKEN
        async with stream:
            try:
                _check_peer(stream.extra(anyio.abc.SocketAttribute.raw_socket))  # noqa: S610
                with anyio.fail_after(_SLOW):
                    letter = Letter.unpacked(await _all_of(stream), "The letter")
                await _apart(self._posts[self.name].send, self.name, letter)
            except (LaminaError, TimeoutError) as error:
                said = str(error) or "The letter did not come in time."
                self._main.emit(Warned(f"Over the socket: {said}"))
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await stream.send(said.encode())


def mail_of(config: Config) -> Path:
    return find_project_folder(config.own_home, config.project) / "mail"


def mailbox_of(session: str) -> str:
    """The name of a session that has none of its own."""
    short = session[:8] if len(session) == 36 else session
    return f"session-{short if is_name(short) and len(short) < 50 else _digest(session)}"


def posts_of(config: Config, name: str) -> dict[str, Post]:
    """All posts, each by what its bearer is called there. The name on the bridge has an @."""
    posts: dict[str, Post] = {name: Maildirs(mail_of(config))}
    if address := config.str("agents.bridge"):
        from lamina.agents.bridge import Bridge

        host = "".join(c if c.isalnum() else "-" for c in socket.gethostname())[:40]
        posts[f"{name}@{host}"] = Bridge(address)
    return posts


def whereabouts(posts: Mapping[str, Post], name: str) -> tuple[Callable[[Letter], None], Presence]:
    """How to write to somebody, by a socket, the whole name, or what stands before the @. Blocks."""
    if name.startswith("uds:"):
        return partial(_to_socket, name.removeprefix("uds:")), Presence(name)
    if name.startswith("bridge:") and len(posts) == 1:
        raise UsageError("There is no bridge here. Set agents.bridge in your own settings.")
    name = name.removeprefix("bridge:")
    there = [(post, one) for post in posts.values() for one in post.present()]
    fitting = [found for found in there if found[1].name == name]
    fitting = fitting or [
        found for found in there if found[1].name.startswith(f"{name}@") and found[1].alive
    ]
    if len(fitting) == 1:
        post, one = fitting[0]
        return partial(post.send, one.name), one
    if fitting:
        which = ", ".join(one.name for _, one in fitting)
        raise UsageError(f"There are several {name!r}: {which}. Write the host too.")
    names = ", ".join(one.name for _, one in there if one.alive and one.name not in posts)
    raise UsageError(f"No other process has an agent {name!r}. Running: {names or 'none'}.")


def letter_text(letter: Letter, words: str) -> str:
    """As its reader sees it. The id is by what a record knows it again."""
    about = {"id": letter.id, "from": letter.sender, "summary": letter.summary}
    return roster.enclosed("message", words, about)


def failed(task: Letter, why: str) -> dict[str, Any]:
    """The result of a task that came to nothing."""
    name = as_object(task.message).get("task")
    return {"type": "task_result", "task": name, "status": "failed", "reason": why, "text": ""}


def _apart(work: Callable[..., Any], *values: Any) -> Awaitable[Any]:
    return anyio.to_thread.run_sync(work, *values)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _socket_of(mailbox: Path) -> str:
    """A socket's path must be short, and a home's need not be."""
    run = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return str(Path(run) / f"lamina-{os.getuid()}" / f"{_digest(str(mailbox))}.sock")


def _check_peer(raw: socket.socket) -> None:
    """Only the same user, as the kernel knows it."""
    if sys.platform == "linux":
        user = struct.unpack("3i", raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
    else:  # LOCAL_PEERCRED: a version, then the user
        user = struct.unpack("2I", raw.getsockopt(0, 1, 76)[:8])[1]
    if user != os.getuid():
        raise PostAway(f"Another user (id {user}) is at the other end.")


async def _all_of(stream: SocketStream) -> bytes:
    """Up to where the other end stops, or a byte more than a letter may have."""
    data = b""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while len(data) <= LARGEST_LETTER:
            data += await stream.receive(1 << 16)
    return data


def _to_socket(path: str, letter: Letter) -> None:
    """To whoever listens there, if it is the same user. Blocks."""
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(_SLOW)
            peer.connect(path)
            _check_peer(peer)
            peer.sendall(letter.packed())
            peer.shutdown(socket.SHUT_WR)
            said = peer.recv(1 << 16).decode(errors="replace")
    except OSError as error:
        why = error.strerror or "no answer"
        raise PostAway(f"Nobody listens at uds:{path} ({why}).") from error
    if said != _TAKEN:
        raise PostAway(f"uds:{path} did not take it: {said or 'it said nothing'}")
