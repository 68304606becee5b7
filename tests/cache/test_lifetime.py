"""What a provider's cache really does: asked over HTTP, kept, and used only where it was proven."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from tests.models.talk import StillClock

from lamina.cache import lifetime
from lamina.cache.spend import Spend
from lamina.cli.doctor import try_cache
from lamina.config import Config, load
from lamina.errors import UsageError
from lamina.events import Emit
from lamina.messages import Request, Response, Usage, text
from lamina.ports import Capabilities
from lamina.wiring import open_model

if TYPE_CHECKING:
    from tests.wire.plugin import CacheProvider

MODEL = "anthropic:claude-sonnet-4-6"


class Together(StillClock):
    """Time passes here and at the provider."""

    def __init__(self, provider: CacheProvider) -> None:
        super().__init__()
        self._provider = provider

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self._provider.advance(seconds)


def config_for(place: Path, url: str, model: str = MODEL) -> Config:
    overrides = {"model": model, "anthropic.base_url": url}
    return load(
        place, home=place / "home", env={"ANTHROPIC_API_KEY": "test-key"}, overrides=overrides
    )


@pytest.mark.spec("F14", "F10")
def test_what_the_provider_does_is_asked_kept_booked_and_used(
    cache_provider: CacheProvider, tmp_path: Path
) -> None:
    config, clock = config_for(tmp_path, cache_provider.url), Together(cache_provider)
    assert not open_model(MODEL, config, clock).capabilities.cache_upgrades
    check = try_cache(config, clock, lambda _: None)
    assert check.state == "ok"
    assert "gets the hour" in check.detail
    assert 500 < sum(clock.slept) < 600
    assert open_model(MODEL, config, clock).capabilities.cache_upgrades
    elsewhere = config_for(tmp_path, "http://127.0.0.1:1")
    assert not open_model(MODEL, elsewhere, clock).capabilities.cache_upgrades
    [booked] = Spend(config.own_home / "spend").calls()
    assert booked["purpose"] == "probe"
    assert 0 < booked["cost"] < 0.05


class Answers:
    """A provider that reads so much of each prompt from its cache."""

    name = MODEL
    capabilities = Capabilities(cache="anthropic")

    def __init__(self, reads: Sequence[bool]) -> None:
        self._reads = iter(reads)

    async def complete(self, request: Request, emit: Emit) -> Response:
        read = next(self._reads)
        hour = 10 if request.cache_ttl > 300 else 0
        used = Usage(1, 1, 2_000, 10, hour) if read else Usage(1, 1, 0, 2_000, 0)
        return Response([text("ok")], "end_turn", used)

    async def close(self) -> None: ...


@pytest.mark.spec("F14")
@pytest.mark.parametrize(
    ("later", "proven"),
    [
        # read again, marked again; left alone, read again; marked again
        ([True, True, False, True, True], True),
        ([True, True, False, True, False], False),  # only what was written for an hour lives one
        ([True, False, False, True, True], False),  # the mark wrote all of it anew
        ([True, True, True, True, True], False),  # it forgets nothing: so this proves nothing
    ],
)
def test_an_hour_counts_as_given_only_where_nothing_else_explains_it(
    tmp_path: Path, later: list[bool], proven: bool
) -> None:
    async def ask() -> lifetime.Findings:
        model = Answers([False, False, False, *later])
        return await lifetime.ask_provider(model, StillClock(), lambda _: None)

    lifetime.keep(tmp_path, MODEL, "", anyio.run(ask), "2026-11-17")
    assert lifetime.upgrades(tmp_path, MODEL, "") is proven


@pytest.mark.spec("F14")
def test_a_model_without_such_a_cache_is_not_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no cache with a lifetime to choose"):
        try_cache(config_for(tmp_path, "", "none"), StillClock(), lambda _: None)
