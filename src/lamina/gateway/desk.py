"""Where requests on their way through the gateway are looked at: which conversation each belongs to, what of
it is sent instead, what its answer used. Whatever goes wrong here, the request goes out as its client wrote
it, and the failure is told once. Touches the conversations' folder and the record of spending, through
`Conversations`. Keys stand in headers, and of those only a session's name is read.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace as struct_with

from lamina.cache import lifetime
from lamina.cache.guard import DROP_SHARE, DROP_TOKENS
from lamina.cache.simulate import Paid, Paper, Sent
from lamina.cache.spend import cost, price_of
from lamina.cache.usage import Tee
from lamina.conversation.bodies import ANTHROPIC, Form, form_of
from lamina.conversation.kept import Asked, Changes, Conversations
from lamina.conversation.reading import Reader
from lamina.layers import pauses
from lamina.ledger.places import RESULTS
from lamina.machine import scratch_folder
from lamina.messages import Json, Usage, as_object, blocks_of

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.models.heads import Head
    from lamina.recall.memory_index import MemoryIndex

_MOST = 512  # conversations and sessions that are remembered
_LONG = 10  # messages; what is shorter is not compacted
_RESULTS = f"/{RESULTS}/"
_SESSION = (b"x-claude-code-session-id", b"x-session-id", b"session-id")
_BILLING = "x-anthropic-billing-header"  # begins a block that changes from request to request
Again = pauses.Held | None  # of a request that is sent once more
_COUNTING = ("/count_tokens", ":countTokens")


@dataclass(slots=True)
class Totals:
    """What went through since the start."""

    requests: int = 0
    billed: float = 0.0
    direct: float = 0.0
    acting: float = 0.0  # what would have been billed with --act
    edited: int = 0
    misses: int = 0
    out: dict[str, int] = field(default_factory=dict[str, int])  # results, by conversation
    fetched: set[str] = field(default_factory=set[str])  # calls that brought one back
    kept: int = 0  # requests of our own that kept the cache


class Call:
    """One request on its way. What its methods do happens in the middle of the bytes: they never wait
    and never raise, the work is done beside the server."""

    def __init__(
        self, desk: Desk, form: Form, body: bytes, *, counts: bool = False, repeats: Again = None
    ) -> None:
        self.body = self.original = body
        self.form, self.model = form, ""
        self.life = self.messages = 0  # seconds of its cache, and of what it is made
        self.changes = Changes("")
        self.frame: tuple[str, int, int] = ("", 0, 0)  # model, hashes of instructions and tools
        self.marks = True  # it wants to be cached
        self.thought_of = ""  # the conversation in which acting is only thought of
        self.paid: Paid | None = None
        # It only asks how long it is; it is our own: what it is to keep.
        self._desk, self.counts, self.repeats = desk, counts, repeats
        self.request: Head | None = None  # of one that may be sent again, with its key
        self.tee: Tee | None = None
        self.over, self.usage = 0.0, Usage()  # when the answer had come, and what it used

    def refused(self, *, takes_original: bool) -> None:
        """Not what was changed. If the original fares no better, the fault was not in the changes."""
        self.body, self.paid = self.original, None
        if takes_original:
            self._desk.later(self._desk.leave_alone, self)

    def answer(self, head: Head) -> None:
        if 200 <= head.status < 300:
            said = (head.told.get(name, b"") for name in (b"content-type", b"content-encoding"))
            kind, packed = (one.decode("latin-1") for one in said)
            self.tee = Tee(kind, packed.strip().lower())

    def take(self, data: bytes) -> None:
        if self.tee is not None and not self.counts:
            self.tee.take(data)

    def ended(self) -> None:
        """Nothing more comes, whether it was whole or not."""
        if not self.over:
            self.over = self._desk.now()
            self._desk.later(self._desk.answered, self)


class Desk:
    """`acts`: what can be left out is; `lives`: the cache's life is chosen, and kept in pauses. With neither
    it is only looked at."""

    def __init__(
        self,
        folder: Path,
        config: Config,
        *,
        acts: bool,
        tell: Callable[[str], None],
        now: Callable[[], float] = time.time,
        memory: MemoryIndex | None = None,
        lives: bool = False,
        compacts: bool = False,
    ) -> None:
        self._acts, self._tell, self.now, self.folder = acts or lives, tell, now, folder
        self._edits, self.lives, self._compacts = acts, lives, compacts
        self.totals, self._told = Totals(), set[str]()
        self._memory = str(memory.store.directory).encode() if memory is not None else b""
        self._conversations = talks = Conversations(
            folder, config, memory=memory, compacts=compacts, tell=self._complain, now=now
        )
        self._acting: Conversations | None = None
        self._room = ExitStack()
        if not self._acts:
            with suppress(OSError):
                room = self._room.enter_context(scratch_folder("lamina-observes"))
                aside = replace(config, home=room, claude=False)
                self._acting = Conversations(room / "c", aside, now=now)
        self._prices = config.table("prices")
        self._paper, self._reader = Paper(self._prices), Reader()
        self._served: dict[str, Call] = {}  # the last of each conversation, without its body
        # By header: a hash of the instructions, the conversation, and its messages.
        self._sessions: dict[bytes, tuple[int, str, int]] = {}
        self._begun: dict[int, str] = {}  # hash of first words → their conversation
        self._tools: tuple[object, int] = (None, 0)  # of the last request, and their hash
        self._away = pauses.Away(talks.spend, talks.beside, self._complain, self._prices)
        # One at a time: what an answer used is booked before the next request is looked at.
        self._turn, self._behind = RLock(), deque[tuple[Callable[[Call], None], Call]]()

    # ---- on the way; these never raise

    def wants(self, request: Head) -> bool:
        plain = request.first[0] == b"POST" and b"content-encoding" not in request.told
        return plain and self._form(request)[0] is not None

    def before(self, request: Head, body: bytes) -> Call | None:
        with self._turn:
            self.catch_up()
            return self._looked_at(request, body)

    def later(self, work: Callable[[Call], None], call: Call) -> None:
        self._behind.append((work, call))

    def catch_up(self) -> None:
        """Do what was left for later, now that the client has its answer."""
        with self._turn:
            while self._behind:
                work, call = self._behind.popleft()
                try:
                    work(call)
                except Exception as error:  # noqa: BLE001 - the answer is on its way
                    self._complain(f"{type(error).__name__}: {error}")

    def due(self, *, there: bool) -> list[tuple[Head, Call]]:
        """What to send now, so that the provider keeps what it has cached."""
        with self._turn:
            self.catch_up()
            due = self._away.due(self.now(), there=there)
        again = lifetime.asked_again
        return [(one.head, Call(self, ANTHROPIC, again(one.body), repeats=one)) for one in due]

    def close(self) -> None:
        self.catch_up()
        self._room.close()

    def _form(self, request: Head) -> tuple[Form | None, bool]:
        """The form of a request, and whether it only asks how long it is."""
        path = request.first[1].partition(b"?")[0].decode("latin-1")
        if counts := path.endswith(_COUNTING):
            path = path.removesuffix(_COUNTING[0]).replace(_COUNTING[1], ":generateContent")
        return form_of(path), counts

    def _looked_at(self, request: Head, body: bytes) -> Call | None:
        form, counts = self._form(request)
        if form is None:
            return None
        call = Call(self, form, body, counts=counts)
        try:
            self._decide(call, request)
        except Exception as error:  # noqa: BLE001 - the client's request goes out as it is
            call.body = body
            self._complain(f"a request was left as it was: {type(error).__name__}: {error}")
        return call

    def _decide(self, call: Call, request: Head) -> None:
        form, body = call.form, call.original
        given = (read := self._reader.read(body, form)).around.given
        call.model = str(given.get("model") or _model_in(request.first[1]))
        asked = read.asked()
        if asked is None or not asked.messages:
            return
        if call.counts:
            if self._edits:
                call.body = read.spliced(self._conversations.known(asked))
            return
        if not given.get("tools") and all(m["role"] != "assistant" for m in asked.messages):
            return  # a title, a check of the quota: it has no conversation
        # Two Laminas in a row edit once, and a hook of ours has recalled what there is.
        marked = [n for n in read.noted if read.said[n].marked]
        ours = any(read.said[n].made_before for n in read.noted)
        acts = asked.acts and bool(read.said) and not ours
        session, own, parent = self._session(request, given)
        if (tools := given.get("tools")) is not self._tools[0]:
            self._tools = tools, hash(msgspec.json.encode(tools))
        call.frame = call.model, own, self._tools[1]
        recalls, lives = self._memory not in body, False
        if self.lives and not parent and form is ANTHROPIC:
            lives = lifetime.ours_to_choose(body, given, (read.said[n].value for n in marked))
        own_terms = {"recalls": recalls, "lives": lives, "acts": acts and self._edits}
        asked = struct_with(asked, model=call.model, parent=parent, **own_terms)
        if self._compacts:
            betas = request.told.get(b"anthropic-beta", b"")
            asked = struct_with(asked, betas=betas.decode("latin-1").replace(" ", "").split(","))
        changes = self._conversations.changes(asked)
        self._away.over(changes.conversation)
        if not parent:
            self._notice(session, own, changes, len(asked.messages))
        if not self._edits:
            changes = Changes(changes.conversation, life=changes.life)
        call.body = read.spliced(changes)
        if lives and changes.life > asked.life:
            call.body = lifetime.for_an_hour(call.body)
        self._count(asked, changes)
        call.life, call.changes = changes.life or asked.life, changes
        call.messages = len(asked.messages)
        call.request = request if lives else None
        if self._acting is not None:
            changes = self._acting.changes(struct_with(asked, acts=acts))
            call.thought_of = changes.conversation
        call.marks = bool(marked) or form is not ANTHROPIC or "cache_control" in given
        own = changes.conversation, asked.model, asked.frame_tokens, asked.life, asked.hashes
        sent = asked.messages, changes.replaced, marked, self._acts, changes.life, changes.folded
        more = changes.summary, changes.window if changes.folded else 0
        call.paid = self._paper.send(Sent(*own, *sent, *more), self.now())

    def _session(self, request: Head, given: Json) -> tuple[bytes, int, str]:
        """The client's name for its session, a hash of its instructions, and if these are others than
        the session's own, as a sub-agent has them, the conversation of the session."""
        session = next((value for name, value in request.told.items() if name in _SESSION), b"")
        words = [str(b.get("text")) for b in blocks_of(given.get("system") or "")]
        own = hash(tuple(said for said in words if not said.startswith(_BILLING)))
        first, name, _ = self._sessions.get(session, (own, "", 0))
        return session, own, name if first != own else ""

    def _notice(self, session: bytes, own: int, changes: Changes, count: int) -> None:
        """Name what the client itself did to its history."""
        (kept, of), before = changes.left, self._sessions.pop(session, (own, "", 0))[1:]
        if session:
            _keep(self._sessions, session, (own, changes.conversation, count))
        if count > kept > 0 and of - kept > 1:  # else it begins like another one
            self._tell(f"The client changed its history: the first {kept} of {of} messages stay.")
        elif before[1] > max(count, _LONG) and not kept and before[0] != changes.conversation:
            self._tell(f"The client compacted its history: {before[1]} messages became {count}.")

    def _count(self, asked: Asked, changes: Changes) -> None:
        totals, name = self.totals, changes.conversation
        if changes.replaced:
            out = sum(map(len, changes.replaced.values()))
            totals.out[name] = max(totals.out.get(name, 0), out)
        for message in asked.messages[-3:]:  # older calls were counted with the requests before
            for block in (one for one in message["content"] if one.get("type") == "tool_use"):
                given = as_object(block.get("input"))
                if changes.replaced and (_RESULTS in str(given) or "expand" in str(block["name"])):
                    totals.fetched.add(f"{name} {block.get('id')}")
                for key, said in given.items():
                    task = hash(str(said)) if key == "prompt" or len(str(said)) > 80 else 0
                    if self._begun.get(task, name) != name:
                        self._conversations.adopt(agent := self._begun.pop(task), name)
                        self._away.over(agent)  # it has done its work
        for block in asked.messages[0]["content"] if len(asked.messages) < 3 else ():
            _keep(self._begun, hash(block.get("text")), name)

    def leave_alone(self, call: Call) -> None:
        self._complain("the provider refused a changed request; its conversation is left alone now")
        self._conversations.leave_alone(call.changes.conversation)

    def answered(self, call: Call) -> None:
        totals, now, saved = self.totals, call.over, 0.0
        call.usage = usage = call.form.usage(call.tee.end()) if call.tee is not None else Usage()
        if call.repeats is not None:
            billed = self._away.paid(call.repeats, usage, now)
            totals.billed, totals.acting = totals.billed + billed, totals.acting + billed
            totals.kept += billed > 0
        if call.repeats is not None or call.counts or not usage.total:
            return
        if not (name := call.changes.conversation):
            spend = self._conversations.spend
            billed = spend.book(purpose="side", model=call.model, usage=usage, session="", at=now)
        else:
            billed = cost(usage, price_of(call.model, self._prices))
            saved = call.paid.saved(usage) if call.paid is not None else 0.0
            instead = {"direct": billed + saved} if self._acts else {"acting": billed - saved}
            self._conversations.answered(name, usage, call.model, at=now, instead=instead)
            if self._acting is not None and call.paid is not None:
                self._acting.answered(call.thought_of, call.paid.sent, call.model, at=now)
            if call.request is not None and call.paid is not None:
                last = name, call.model, call.body, call.request
                self._away.begin(pauses.Held(*last, call.paid.again))
            self._watch(call)
        totals.requests += 1
        totals.billed += billed
        totals.direct += billed + saved * self._acts
        totals.acting += billed - saved * (not self._acts)
        totals.edited += call.body is not call.original
        call.body = call.original = b""
        call.paid = call.tee = call.request = None

    def _watch(self, call: Call) -> None:
        """Tell of a cache that should have been read and was not, and whose doing it is."""
        changes = call.changes
        last = self._served.pop(changes.conversation, None)
        _keep(self._served, changes.conversation, call)
        if last is None or call.over - last.over > last.life:
            return
        expected = last.usage.cache_read + last.usage.cache_write
        lost = expected - call.usage.cache_read
        if lost <= max(DROP_TOKENS, DROP_SHARE * expected):
            return
        self.totals.misses += 1
        before = {at: own for at, own in changes.replaced.items() if at < last.messages}
        if changes.folded != last.changes.folded:
            whose = "Lamina replaced the oldest messages with a summary"
        elif before != last.changes.replaced:
            whose = "Lamina changed what was sent before, paid for from its savings"
        elif last.frame != call.frame:
            whose = "the client changed its model, instructions or tools"
        elif not call.marks:
            whose = "the client did not ask for it"
        else:
            whose = "the provider lost it"
        self._tell(f"{lost:,} of {expected:,} cached tokens were not read: {whose}.")

    def _complain(self, what: str) -> None:
        """Once: a disk that is full stays so, and whoever was told of it knows."""
        if what not in self._told and len(self._told) < 20:
            self._told.add(what)
            self._tell(what)


def _keep(held: dict[Any, Any], key: object, value: object) -> None:
    """As the newest; of very many the oldest goes."""
    held[key] = value
    if len(held) > _MOST:
        del held[next(iter(held))]


def _model_in(target: bytes) -> str:
    """Google's API names the model in the path; a key may stand behind that."""
    return target.partition(b"?")[0].partition(b"/models/")[2].partition(b":")[0].decode("latin-1")
