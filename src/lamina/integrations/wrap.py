"""`lamina.wrap(client)`: an Anthropic or OpenAI client for a program that has a loop of its own.

It is the client's own class with its own answers and streams; only `messages` of what it posts is
changed, and the usage of what comes back is read. The program keeps passing its whole list. Whatever
goes wrong on our side, the request goes out as the program made it.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, TypeVar, cast

from anyio.to_thread import run_sync
from msgspec.structs import replace

from lamina.conversation.bodies import FORMS, Form, once, plain
from lamina.conversation.kept import Conversations
from lamina.errors import UsageError
from lamina.events import CacheBroke, quiet
from lamina.integrations.library import own_name, settings_for
from lamina.layers.extraction import save_by_rules
from lamina.ledger.places import find_project_folder, project_folder
from lamina.ledger.record import Quotes
from lamina.memory import GateContext, days_named, open_store
from lamina.messages import Json, Usage, as_object
from lamina.ports import MemoryStore
from lamina.recall.memory_index import MemoryIndex

DISABLED = "LAMINA_DISABLED"
_NO = ("", "0", "false", "no", "off")
_MARK = "_lamina"
# The SDKs have no public place for it: every method of a resource posts through the one, every kind of
# stream reads from the other.
_DOOR, _ITEMS, _RAW = "_post", "_iterator", "http_response"
_LAST = ("message_stop", "response.completed", "response.incomplete", "response.failed")
_Client = TypeVar("_Client")
_Sends = Callable[..., Any]
_Asks = Callable[[str, Json], "Call | None"]


def wrap(
    client: _Client,
    project: str | Path | None = None,
    user: str | None = None,
    *,
    session: str = "",
    remember: bool = False,
    recall: bool = True,
    files: bool | None = None,
    compact: bool = True,
    enabled: bool = True,
    home: str | Path | None = None,
) -> _Client:
    """The same client, whose requests cost less and know what is remembered.

        client = lamina.wrap(anthropic.Anthropic())

    A conversation is recognised by what it begins with; `session` keeps one apart that begins like
    another. `remember` saves what user messages ask to keep. `files` says whether the program's tools
    can read files on this machine: only then do long and old tool results leave the prompt, with
    the path of the file that has them (None: told by the tools' names). A list that nears the end of
    the model's window is sent with a summary of its older part (`compact=False`: never). With
    `enabled=False`, or LAMINA_DISABLED set, the client itself comes back.
    """
    if not enabled or switched_off():
        return client
    forms = FORMS.get(_maker(client))
    if forms is None or not hasattr(client, "copy"):
        raise UsageError(
            f"`client` can't be a {type(client).__name__}: give an anthropic.Anthropic, "
            "AsyncAnthropic, openai.OpenAI or AsyncOpenAI."
        )
    if hasattr(client, _MARK):
        return client
    given: Json = {"session": session, "remember": remember, "recall": recall, "files": files}
    between = Between(project, user, **given, compact=compact, home=home)
    return _attached(client, forms, between)


def switched_off() -> bool:
    """Whether the environment says that programs go without us."""
    return os.environ.get(DISABLED, "").strip().lower() not in _NO


def _maker(client: object) -> str:
    """The package that a client's class, or one that it is made from, comes from."""
    packages = [kind.__module__.partition(".")[0] for kind in type(client).__mro__]
    return next((name for name in packages if name in FORMS), "")


def _attached(client: _Client, forms: Mapping[str, Form], between: Between) -> _Client:
    """A copy of the client, with us at the door through which each of its resources posts."""
    own: Any = cast("Any", client).copy()
    post = _post_async if iscoroutinefunction(own.post) else _post
    known = False
    for path, form in forms.items():
        resource = own
        for name in path.split("."):
            resource = getattr(resource, name, None)
        if resource is not None and hasattr(resource, _DOOR):
            asks = partial(_asks, form, between, own)
            setattr(resource, _DOOR, partial(post, getattr(resource, _DOOR), asks, between))
            known = True
    if not known:
        between.tell(f"this version of {_maker(client)} is not known, so nothing is wrapped")
    made = own.copy

    def copy(**given: Any) -> Any:
        return _attached(made(**given), forms, between)

    own.copy = own.with_options = copy
    setattr(own, _MARK, between)
    return cast("_Client", own)


def _post(send: _Sends, asks: _Asks, between: Between, path: str, **given: Any) -> Any:
    if (call := asks(path, given)) is None:
        return send(path, **given)
    try:
        answer = send(path, **{**given, "body": call.body})
    except Exception as error:
        if not between.refused(call, error):
            raise
        answer = send(path, **given)
    return between.watched(call, answer)


async def _post_async(send: _Sends, asks: _Asks, between: Between, path: str, **given: Any) -> Any:
    if (call := await run_sync(asks, path, given)) is None:
        return await send(path, **given)
    try:
        answer = await send(path, **{**given, "body": call.body})
    except Exception as error:
        if not between.refused(call, error):
            raise
        answer = await send(path, **given)
    return await run_sync(between.watched, call, answer)


def _asks(form: Form, between: Between, client: Any, path: str, given: Json) -> Call | None:
    if not form.at(path):
        return None
    own = as_object(as_object(given.get("options")).get("headers"))
    headers = {name.lower(): value for name, value in {**client.default_headers, **own}.items()}
    betas = [one.strip() for one in str(headers.get("anthropic-beta", "")).split(",")]
    return between.before(form, given.get("body"), betas=betas)


@dataclass(slots=True)
class Call:
    """One request on its way."""

    form: Form
    conversation: str
    body: Json
    edited: bool  # and not yet turned down
    folded: int = 0  # so many of the first messages have a summary in their place
    summary: str = ""
    refused: bool = False


class Between:
    """What stands between a client and its provider. Nothing here raises."""

    def __init__(
        self,
        project: str | Path | None,
        user: str | None,
        *,
        session: str = "",
        remember: bool = False,
        recall: bool = True,
        files: bool | None = None,
        compact: bool = True,
        home: str | Path | None = None,
    ) -> None:
        self._config = config = settings_for(project, user, home)
        self._folder = find_project_folder(config.own_home, config.project) / "conversations"
        if user is not None:
            self._folder /= own_name(user)
        self._session = session
        self._files, self._remember, self._recall = files, remember, recall
        self._compact = compact
        self._told = set[str]()  # first words of it
        self._made: Conversations | None = None
        self._store: MemoryStore | None = None
        self._looking: Future[None] | None = None  # for memories in what was said last
        self._aside: ThreadPoolExecutor | None = None

    def before(
        self, form: Form, body: object, *, session: str = "", expands: bool = False, **more: Any
    ) -> Call | None:
        """What to send instead; None: nothing of this is ours. `expands`: it has the tool Expand."""
        if not isinstance(body, dict):
            return None
        try:
            if self._looking is not None:
                self._looking.result()
            given = cast("Json", body)
            if not given.get(form.said_in):  # a prompt that the provider keeps
                return None
            if once(given[form.said_in]):
                given[form.said_in] = plain(given[form.said_in])
            said = {**given, form.said_in: plain(given[form.said_in])}
            asked = form.asked(said, session or self._session, self._files)
            if asked is None:
                return None
            asked = replace(asked, expands=expands, **more)
            made = self._conversations().changes(asked)
            new = form.spliced(given, made)
            return Call(form, made.conversation, new, new is not given, made.folded, made.summary)
        except Exception as error:  # noqa: BLE001 - the program's request goes out as it is
            self.tell(f"left a request as it was: {type(error).__name__}: {error}")
            return None

    def expanded(
        self, form: Form, body: Json, wanted: str, session: str = "", conversation: str = ""
    ) -> str:
        """What Expand answers in a conversation: by name, else that of a request. Raises LaminaError."""
        asked = None if conversation else form.asked(body, session or self._session, self._files)
        hashes = asked.hashes if asked is not None else ()
        return self._conversations().expanded(hashes, wanted, conversation)

    def refused(self, call: Call, error: Exception) -> bool:
        """Whether the provider may have turned a request down for what we made of it: an answer to
        what the program made of it will tell."""
        call.refused = call.edited and getattr(error, "status_code", None) == 400
        call.edited = call.edited and not call.refused
        return call.refused

    def watched(self, call: Call, answer: Any) -> Any:
        """The answer itself; a stream tells what it cost when it has ended."""
        with suppress(Exception):
            if (items := getattr(answer, _ITEMS, None)) is not None:
                self._look(call)
                tee = _tee_async if hasattr(items, "__aiter__") else _tee
                tee(_Told(self, call), answer, items)
            elif hasattr(answer, _RAW):  # what it says is known when the program reads it
                self._look(call)
                answer.parse = _parsed(self, call, answer.parse)
            else:
                self.answered(call, [answer])
        return answer

    def answered(self, call: Call, told: Callable[[], Usage] | Sequence[Any]) -> None:
        """It came in whole; what was told with it says what it cost."""
        try:
            usage = told() if callable(told) else call.form.usage(map(plain, told))
            model = str(call.body.get("model") or "")
            if call.refused:
                self.tell("a changed request was refused; its conversation is left alone now")
                self._conversations().leave_alone(call.conversation)
            self._conversations().answered(call.conversation, usage, model)
            self._look(call)
        except Exception as error:  # noqa: BLE001 - the answer is there
            self.tell(f"{type(error).__name__}: {error}")

    def _look(self, call: Call) -> None:
        """For memories, in what was said by now: a program may never read the answer to its end."""
        if self._remember:
            self._aside = self._aside or ThreadPoolExecutor(1, "lamina")
            self._looking = self._aside.submit(self._extract, call.conversation)

    def _extract(self, conversation: str) -> None:
        """Beside the program: the rules take most of a second to load."""
        try:
            entries = self._conversations().typed_since_last_look(conversation)
            if entries and self._store is not None:
                daily = self._config.bool("memory.daily_log")
                save_by_rules(self._store, entries, conversation, time.time(), daily=daily)
        except Exception as error:  # noqa: BLE001 - nobody waits for it
            self.tell(f"{type(error).__name__}: {error}")

    def _conversations(self) -> Conversations:
        if self._made is None:
            with suppress(Exception):  # what can't be written is told when it is tried
                project_folder(self._config.own_home, self._config.project)
            index = None
            if self._config.bool("memory.enabled"):
                gate = GateContext(
                    # Conversations grow: each look reads the file as it is then.
                    origin_text=lambda session, entry: Quotes(self._folder).origin_text(
                        session, entry
                    ),
                    before=lambda session, entry: Quotes(self._folder).before(session, entry),
                    dates=partial(days_named, lambda of, at: Quotes(self._folder).when(of, at)),
                )
                self._store = open_store(self._config, quiet, gate=gate)
                index = MemoryIndex(self._store) if self._recall else None
            told: Json = {"tell": self.tell, "broke": self._cache_broke, "compacts": self._compact}
            self._made = Conversations(self._folder, self._config, memory=index, **told)
        return self._made

    def _cache_broke(self, broke: CacheBroke) -> None:
        read, of = f"{broke.read:,}", f"{broke.expected:,}"
        self.tell(f"{broke.cause}: only {read} of {of} cached tokens were read")

    def tell(self, what: str) -> None:
        """Once for each kind, by its first word: what happens once happens with every request, and the
        program's log is not ours."""
        if (kind := what.partition(" ")[0]) not in self._told:
            self._told.add(kind)
            with suppress(Warning):  # a program may have made errors of warnings
                warnings.warn(f"Lamina: {what}", RuntimeWarning, stacklevel=2)


def _parsed(between: Between, call: Call, parse: Callable[..., Any]) -> Callable[..., Any]:
    """`parse` of a raw answer, looked at the first time."""
    new = [call]

    def seen(answer: Any) -> Any:
        return between.watched(new.pop(), answer) if new else answer

    async def later(**given: Any) -> Any:
        return await run_sync(seen, await parse(**given))

    def now(**given: Any) -> Any:
        return seen(parse(**given))

    return later if iscoroutinefunction(parse) else now


@dataclass(slots=True)
class _Told:
    """What a stream tells of its cost, until it ends or the program leaves it."""

    between: Between
    call: Call
    seen: list[Any] = field(default_factory=list[Any])
    over: bool = False

    def last(self, item: object) -> bool:
        self.call.form.note(self.seen, item)
        return getattr(item, "type", None) in _LAST

    def end(self) -> None:
        if not self.over:
            self.over = True
            self.between.answered(self.call, self.seen)


def _tee(told: _Told, answer: Any, items: Iterator[Any]) -> None:
    shut = answer.close

    def each() -> Iterator[Any]:
        for item in items:
            if told.last(item):
                told.end()
            yield item
        told.end()

    def close() -> None:
        shut()
        told.end()

    setattr(answer, _ITEMS, each())
    answer.close = close


def _tee_async(told: _Told, answer: Any, items: AsyncIterator[Any]) -> None:
    shut = answer.close

    async def each() -> AsyncIterator[Any]:
        async for item in items:
            if told.last(item):
                await run_sync(told.end)
            yield item
        await run_sync(told.end)

    async def close() -> None:
        await shut()
        await run_sync(told.end)

    setattr(answer, _ITEMS, each())
    answer.close = close
