"""What happens while the user is away: extraction that waited for a pause, and requests that keep the
provider's cache until he is back, few of them and paid from what the session has saved.

Waits beside the conversation, in interactive sessions; with each request the wait begins anew. Touches the ledger
(what a request cost) and the model.
"""

from __future__ import annotations

from dataclasses import replace

from lamina.cache.account import ASIDE, LIFE, SHORT_LIFE, keep_warm_after
from lamina.errors import ModelError
from lamina.events import LayerActed, quiet
from lamina.layers import extraction
from lamina.ledger import edits
from lamina.messages import Json, Request, text
from lamina.state import State

LAYER = "keep_warm"
TASK = "waiting for a pause"
WORDS = "(The user is away for a moment. Answer with the one word: ok)"
_BEGINS = 5.0  # seconds in which a run that was begun has charged its price; set by hand


def after_turn(state: State) -> None:
    """Extract what is due, and wait for a pause in which there is more to do. Never waits itself."""
    extraction.after_turn(state)
    if state.forked or state.purpose != "main":
        return
    if next_at(state, waits=_waits(state)) is not None:
        state.background.start(TASK, lambda: _wait(state))


def choose_life(state: State) -> None:
    """Where the whole prompt is written anew anyway: for how long, by the pauses so far."""
    account = state.balance() if state.served else None
    able, now = state.capabilities, state.deps.clock.now()
    if (
        account is None
        or not able.cache_choice
        or not account.requests
        or now <= account.warm_until
    ):
        return
    life = account.best_life(state.ledger.tokens())
    if life != able.cache_ttl:
        state.ledger.append(edits.state(LIFE, life))
        what = "an hour" if life > SHORT_LIFE else "five minutes"
        state.emit(LayerActed(LAYER, f"from now on the provider's cache lives for {what}"))


def over(state: State) -> None:
    """The user leaves: nothing is kept for him."""
    state.background.cancel(TASK)


def next_at(state: State, *, waits: bool) -> float | None:
    """When there will be something to do if nothing is asked until then; None: nothing more.
    `waits`: extraction waits for a pause."""
    account = state.balance()
    if account is None:
        return state.deps.clock.now() if waits else None
    if not waits and not state.kept_for:
        return None
    return account.used_at + keep_warm_after(state.capabilities.cache_ttl)


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
