"""What happens while the user is away: extraction that waited for a pause, and requests that keep the
provider's cache until he is back, few of them and paid from what the session has saved. Also while he is away
from another program, by the same rules.

Waits beside the conversation, in interactive sessions; with each request the wait begins anew. Touches the ledger
(what a request cost) and the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lamina.cache.account import ASIDE, LIFE, LONG_LIFE, MARGIN, SHORT_LIFE, keep_warm_after
from lamina.cache.lifetime import asked_again
from lamina.cache.spend import Spend, price_of
from lamina.errors import ModelError
from lamina.events import LayerActed, quiet
from lamina.layers import extraction
from lamina.ledger import edits
from lamina.ledger.joining import FRAME_LIFE
from lamina.messages import Json, Request, Usage, text
from lamina.state import State

LAYER = "keep_warm"
TASK = "waiting for a pause"
WORDS = "(The user is away for a moment. Answer with the one word: ok)"
_ANNOUNCED = (
    "the provider is asked again for what it would soon forget, while you are away; `lamina spend` "
    "lists what that costs as keep_warm"
)
_MOST_HELD = 8  # requests of other programs that wait; set by hand
_BEGINS = 5.0  # seconds in which a run that was begun has charged its price; set by hand


def after_turn(state: State) -> None:
    """Wait for a pause in which there is something to do. Never waits itself."""
    if state.forked or state.purpose != "main":
        return
    if next_at(state, waits=_waits(state)) is not None:
        state.background.start(TASK, lambda: _wait(state))


def choose_life(state: State) -> None:
    """Where the whole prompt is written anew anyway: for how long, by the pauses so far."""
    account, able, now = state.balance(), state.capabilities, state.deps.clock.now()
    if account is None:
        return
    if able.cache_choice != "all" and state.ledger.state(LIFE):
        state.ledger.append(edits.state(LIFE, 0))  # it is no longer ours to choose
    if not able.cache_choice or not account.requests or now <= account.warm_until:
        return
    if able.cache_choice == "frame":
        if not state.ledger.state(FRAME_LIFE):
            value = {"life": LONG_LIFE, "tokens": state.ledger.frame_tokens}
            state.ledger.append(edits.state(FRAME_LIFE, value))
            what = "system prompt and tools stay in the provider's cache for an hour from now on"
            state.emit(LayerActed(LAYER, what))
        return
    life = account.best_life(state.ledger.tokens())
    if life != able.cache_ttl:
        state.ledger.append(edits.state(LIFE, life))
        what = "an hour" if life > SHORT_LIFE else "five minutes"
        state.emit(LayerActed(LAYER, f"from now on the provider's cache lives for {what}"))


def next_at(state: State, *, waits: bool) -> float | None:
    """When there will be something to do if nothing is asked until then; None: nothing more.
    `waits`: extraction waits for a pause."""
    account, entries = state.balance(), state.ledger.entries
    if not waits and (account is None or not state.kept_for):
        return None
    # Where nothing is cached a pause saves no reading, but many turns are still one call.
    now = state.deps.clock.now()
    last = account.used_at if account is not None else edits.written_at(entries[-1], now)
    return last + keep_warm_after(state.capabilities.cache_ttl)


def _waits(state: State) -> bool:
    return extraction.wanted(state) and bool(extraction.due_in(state))


async def _wait(state: State) -> None:
    clock, extracted = state.deps.clock, False
    while True:
        waits = not extracted and _waits(state)
        if (at := next_at(state, waits=waits)) is None:
            return
        if (left := at - clock.now()) > 0:
            await clock.sleep(left)
        elif waits:
            extraction.begin(state)  # reads the prompt where that pays, and so keeps it
            extracted = True
            await clock.sleep(_BEGINS)
        elif not await _keep(state):
            return


async def _keep(state: State) -> bool:
    """One request that reads the prompt from the cache, so that it lives on."""
    deps, life = state.deps, state.kept_for
    if not life or not state.answered or deps.spend.refusal(LAYER, deps.clock.now()):
        return False
    request = request_of(state)
    started = deps.clock.monotonic()
    try:
        response = await deps.model.complete(request, quiet)
    except ModelError as error:
        state.layer_failed(LAYER, error)
        return False
    state.book(request, response, started, aside=True)
    state.ledger.append(paid(state, life))
    state.emit(LayerActed(LAYER, f"the provider's cache is kept for {life // 60} more minutes"))
    return True


def paid(state: State, life: int) -> Json:
    """The entry that charges such a request to what the session has saved."""
    price = state.price_aside(WORDS, apart=False, output=1)
    return edits.state(ASIDE, {"price": round(price), "kept": life})


def request_of(state: State) -> Request:
    """The conversation as it stands and a word; what stands before the word is marked."""
    view = state.ledger.view(LAYER)
    blocks = sum(len(message["content"]) for message in view.messages)
    return replace(
        view,
        messages=[*view.messages, {"role": "user", "content": [text(WORDS)]}],
        cached_blocks=blocks,
        stable_blocks=0,
        cache_ttl=state.kept_for,
    )


# ---- other programs' conversations


@dataclass(slots=True)
class Held:
    """The last request of one: what to send again, and to whom."""

    name: str
    model: str
    body: bytes
    head: Any  # its headers, with the user's key in them: in memory only
    renew: Callable[[float], object]  # tells whoever reckons the cache on paper when it was used
    at: float = 0.0  # when it is due
    kept: int = 0  # how often it was sent again


class Away:
    """Which of them are sent again, and when. `beside` opens a conversation by its name."""

    def __init__(
        self,
        spend: Spend,
        beside: Callable[[str, Callable[[State], Json | None], float], None],
        tell: Callable[[str], None],
        prices: Mapping[str, Any],
    ) -> None:
        self._spend, self._beside, self._tell, self._prices = spend, beside, tell, prices
        self._held: dict[str, Held] = {}

    def begin(self, held: Held) -> None:
        """It was answered. Where the account says that keeping its cache pays, it waits."""
        due: list[float] = []

        def look(state: State) -> None:
            if (at := next_at(state, waits=False)) is not None:
                due.append(at)

        self._beside(held.name, look, 0.0)
        if due:
            held.at = due[0]
            self._held[held.name] = held
        while len(self._held) > _MOST_HELD:
            del self._held[next(iter(self._held))]

    def over(self, name: str) -> None:
        """The program asked something else, or has ended."""
        self._held.pop(name, None)

    def due(self, now: float, *, there: bool) -> list[Held]:
        """What is to be sent now. `there`: the program is connected; else once only, as it may be gone."""
        found = [held for held in self._held.values() if held.at <= now]
        for held in found:
            del self._held[held.name]
        found = [held for held in found if now <= held.at + MARGIN and asked_again(held.body)]
        found = [held for held in found if there or not held.kept]
        if found:
            refusal = self._spend.refusal(LAYER, now)
            self._tell(refusal or _ANNOUNCED)
            return [] if refusal else found
        return []

    def paid(self, held: Held, usage: Usage, at: float) -> float:
        """It was sent again: what that cost in dollars is taken from what was saved."""
        if not usage.total:
            self._tell("a request that was to keep the cache failed, so the cache is left to end")
            return 0.0
        book, name = self._spend.book, held.name
        cost = book(purpose=LAYER, model=held.model, usage=usage, session=name, at=at)
        price = cost / price_of(held.model, self._prices).input * 1e6
        entry = edits.state(ASIDE, {"price": round(price), "kept": SHORT_LIFE})
        self._beside(held.name, lambda _: entry, at)
        held.renew(at)
        held.kept += 1
        if usage.cache_read > usage.prompt / 2:  # else there was nothing to keep
            self.begin(held)
        return cost
