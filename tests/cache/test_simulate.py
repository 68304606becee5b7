"""The prompt cache on paper keeps the providers' rules, for any sequence of requests."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.cache.simulate import (
    FIVE_MINUTES,
    ONE_HOUR,
    CacheRules,
    PaperBlock,
    PaperCache,
    rules_for,
)
from lamina.cache.spend import price_of
from lamina.errors import UsageError
from lamina.messages import Usage

ANTHROPIC = CacheRules(min_tokens=1024)
OPENAI = CacheRules("openai")
BOTH = pytest.mark.parametrize(
    "rules", [ANTHROPIC, OPENAI, CacheRules("openai", bills_writes=True)], ids=["a", "o", "ow"]
)

blocks_of_any_size = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 3000)), min_size=1, max_size=60
)


@dataclass(frozen=True, slots=True)
class PaperRequest:
    """One request with its whole block list, for callers that don't grow a `Prompt` themselves."""

    time: float
    blocks: Sequence[PaperBlock]
    breakpoints: Sequence[int] = ()  # each the number of blocks that lie before it
    ttl: float = FIVE_MINUTES
    output: int = 0


def simulate(requests: Iterable[PaperRequest], rules: CacheRules | None = None) -> list[Usage]:
    """What each request of one conversation would read, write and miss."""
    cache = PaperCache(rules)
    prompt = cache.prompt()
    last: Sequence[PaperBlock] = ()
    booked: list[Usage] = []
    for request in requests:
        same = 0
        for old, new in zip(last, request.blocks, strict=False):
            if old != new:
                break
            same += 1
        prompt.rewind(same)
        prompt.extend(request.blocks[same:])
        last = request.blocks
        booked.append(
            cache.send(
                prompt, request.time, request.breakpoints, ttl=request.ttl, output=request.output
            )
        )
    return booked


def prompt_of(count: int, tokens: int = 500) -> list[PaperBlock]:
    return [(f"block {n}", tokens) for n in range(count)]


@st.composite
def request_sequences(draw: st.DrawFn) -> list[PaperRequest]:
    at = 0.0
    sent: list[PaperRequest] = []
    for _ in range(draw(st.integers(1, 8))):
        at += draw(st.sampled_from([-30.0, 0.0, 1.0, 200.0, 301.0, 3601.0]))
        blocks = draw(blocks_of_any_size)
        if sent and draw(st.booleans()):
            blocks = [*sent[-1].blocks, *blocks]
        marks = draw(st.lists(st.integers(0, len(blocks) + 3), max_size=4))
        ttl = draw(st.sampled_from([FIVE_MINUTES, ONE_HOUR]))
        sent.append(PaperRequest(at, blocks, marks, ttl))
    return sent


@BOTH
@given(requests=request_sequences())
def test_read_written_and_missed_make_up_the_prompt(
    rules: CacheRules, requests: list[PaperRequest]
) -> None:
    for request, usage in zip(requests, simulate(requests, rules), strict=True):
        assert usage.prompt == sum(tokens for _, tokens in request.blocks)
        assert min(usage.input, usage.cache_read, usage.cache_write, usage.cache_write_1h) >= 0
        assert usage.cache_write_1h <= usage.cache_write


@given(blocks=blocks_of_any_size, data=st.data(), ttl=st.sampled_from([FIVE_MINUTES, ONE_HOUR]))
def test_the_same_request_within_the_life_reads_up_to_its_last_breakpoint(
    blocks: list[PaperBlock], data: st.DataObject, ttl: float
) -> None:
    marks = data.draw(st.lists(st.integers(1, len(blocks)), min_size=1, max_size=4))
    gap = data.draw(st.floats(0, ttl - 1))
    first, second = simulate(
        [PaperRequest(0, blocks, marks, ttl), PaperRequest(gap, blocks, marks, ttl)], ANTHROPIC
    )
    upto = sum(tokens for _, tokens in blocks[: max(marks)])
    assert second.cache_read == (upto if upto >= ANTHROPIC.min_tokens else 0)
    assert second.cache_write == 0
    assert first.cache_write == second.cache_read


@given(blocks=blocks_of_any_size, gap=st.floats(0, 599))
def test_openai_reads_the_same_prompt_in_steps_of_128(blocks: list[PaperBlock], gap: float) -> None:
    total = sum(tokens for _, tokens in blocks)
    first, second = simulate([PaperRequest(0, blocks), PaperRequest(gap, blocks)], OPENAI)
    assert first.cache_read == 0
    assert second.cache_read == (total // 128 * 128 if total >= 1024 else 0)


@BOTH
@given(blocks=blocks_of_any_size, late=st.floats(0, 10_000))
def test_after_the_life_nothing_is_read(
    rules: CacheRules, blocks: list[PaperBlock], late: float
) -> None:
    life = rules.life if rules.kind == "openai" else FIVE_MINUTES
    marks = [len(blocks)]
    _, second = simulate(
        [PaperRequest(0, blocks, marks), PaperRequest(life + late, blocks, marks)], rules
    )
    assert second.cache_read == 0


@BOTH
@given(blocks=blocks_of_any_size, data=st.data())
def test_a_change_at_block_k_never_reads_past_k(
    rules: CacheRules, blocks: list[PaperBlock], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(blocks) - 1))
    changed = [*blocks[:place], ("changed", blocks[place][1]), *blocks[place + 1 :]]
    marks = data.draw(st.lists(st.integers(1, len(blocks)), max_size=4))
    _, second = simulate([PaperRequest(0, blocks, marks), PaperRequest(1, changed, marks)], rules)
    assert second.cache_read <= sum(tokens for _, tokens in blocks[:place])


@given(requests=request_sequences())
def test_growing_a_prompt_gives_the_same_as_sending_it_whole(
    requests: list[PaperRequest],
) -> None:
    cache = PaperCache(ANTHROPIC)
    afresh: list[Usage] = []
    for request in requests:
        prompt = cache.prompt()
        prompt.extend(request.blocks)
        afresh.append(cache.send(prompt, request.time, request.breakpoints, ttl=request.ttl))
    assert afresh == simulate(requests, ANTHROPIC)


def test_every_use_renews_the_life() -> None:
    blocks = prompt_of(4)
    times = [0.0, 200.0, 400.0, 600.0, 901.0]
    reads = [
        usage.cache_read
        for usage in simulate([PaperRequest(at, blocks, [4]) for at in times], ANTHROPIC)
    ]
    assert reads == [0, 2000, 2000, 2000, 0]


def test_openai_keeps_a_prompt_that_goes_on_growing() -> None:
    sent = [PaperRequest(400.0 * n, prompt_of(4 + n, 512)) for n in range(4)]
    assert [usage.cache_read for usage in simulate(sent, OPENAI)] == [0, 2048, 2560, 3072]


def test_reading_a_longer_prefix_renews_a_marked_one_inside_it() -> None:
    blocks = prompt_of(4, 1000)
    other = [*blocks[:2], ("another", 1000)]
    sent = [
        PaperRequest(0, blocks, [2, 4]),
        PaperRequest(200, blocks, [2, 4]),
        PaperRequest(400, other, [2]),  # 400 s after it was written, 200 s after it was used
    ]
    assert [usage.cache_read for usage in simulate(sent, ANTHROPIC)] == [0, 4000, 2000]


def test_a_prefix_that_was_found_by_looking_back_is_renewed() -> None:
    blocks = prompt_of(6, 1000)
    other = [*blocks[:4], ("another", 1000)]
    sent = [
        PaperRequest(0, blocks[:4], [4]),
        PaperRequest(200, blocks, [6]),
        PaperRequest(400, other, [5]),
    ]
    assert [usage.cache_read for usage in simulate(sent, ANTHROPIC)] == [0, 4000, 4000]


def test_a_prompt_that_grows_writes_only_what_is_new() -> None:
    short, longer = prompt_of(4), prompt_of(7)
    first, second = simulate(
        [PaperRequest(0, short, [4]), PaperRequest(9, longer, [4, 7])], ANTHROPIC
    )
    assert first == Usage(cache_write=2000)
    assert second == Usage(cache_read=2000, cache_write=1500)


@pytest.mark.parametrize(("added", "read"), [(19, 2000), (20, 0)])
def test_a_breakpoint_looks_back_twenty_positions_itself_included(added: int, read: int) -> None:
    longer = prompt_of(4 + added)
    _, second = simulate(
        [PaperRequest(0, prompt_of(4), [4]), PaperRequest(1, longer, [len(longer)])], ANTHROPIC
    )
    assert second.cache_read == read


def test_marking_the_old_end_again_bridges_more_than_twenty_blocks() -> None:
    longer = prompt_of(40)
    _, second = simulate(
        [PaperRequest(0, prompt_of(4), [4]), PaperRequest(1, longer, [4, 40])], ANTHROPIC
    )
    assert second == Usage(cache_read=2000, cache_write=18_000)


def test_five_breakpoints_are_refused_with_a_sentence() -> None:
    with pytest.raises(UsageError, match=r"5 cache breakpoints.*at most 4"):
        simulate([PaperRequest(0, prompt_of(9), [1, 2, 3, 4, 5])], ANTHROPIC)


def test_a_prefix_below_the_models_minimum_is_neither_written_nor_read() -> None:
    blocks = prompt_of(4)
    opus = rules_for(price_of("claude-opus-4-5"))
    sonnet = rules_for(price_of("claude-sonnet-4-5"))
    for rules, read in ((opus, 0), (sonnet, 2000)):
        requests = [PaperRequest(0, blocks, [4]), PaperRequest(1, blocks, [4])]
        assert simulate(requests, rules)[1].cache_read == read


def test_breakpoints_of_two_lives_are_written_and_expire_each_by_its_own() -> None:
    cache = PaperCache(ANTHROPIC)
    prompt = cache.prompt()
    prompt.extend(prompt_of(10))
    marks = [(4, ONE_HOUR), (10, FIVE_MINUTES)]
    assert cache.send(prompt, 0, marks) == Usage(cache_write=5000, cache_write_1h=2000)
    assert cache.send(prompt, 299, marks).cache_read == 5000
    assert cache.send(prompt, 1000, marks) == Usage(cache_read=2000, cache_write=3000)


def test_two_conversations_share_their_common_prefix() -> None:
    for rules, read in ((ANTHROPIC, 3000), (OPENAI, 2944)):
        cache = PaperCache(rules)
        frame = [("system", 3000)]
        parent, child = cache.prompt(), cache.prompt()
        parent.extend([*frame, ("hello", 800)])
        child.extend([*frame, ("task", 900)])
        cache.send(parent, 0, [1, 2])
        assert cache.send(child, 5, [1, 2]).cache_read == read


def test_openai_keeps_a_branch_that_was_left_and_taken_up_again() -> None:
    first, other = prompt_of(4), [*prompt_of(3), ("another way", 500)]
    times_and_blocks = [(0.0, first), (1.0, other), (2.0, first), (3.0, other)]
    reads = [
        usage.cache_read
        for usage in simulate([PaperRequest(at, blocks) for at, blocks in times_and_blocks], OPENAI)
    ]
    assert reads == [0, 1408, 1920, 1920]


def test_older_openai_models_report_and_bill_no_writes() -> None:
    first, second = simulate([PaperRequest(0, prompt_of(4)), PaperRequest(5, prompt_of(6))], OPENAI)
    assert first == Usage(input=2000)
    assert second == Usage(input=3000 - 1920, cache_read=1920)


def test_newer_openai_models_report_what_they_write() -> None:
    rules = rules_for(price_of("gpt-6.1-sol"))
    first, second = simulate([PaperRequest(0, prompt_of(4)), PaperRequest(1, prompt_of(6))], rules)
    assert first == Usage(input=80, cache_write=1920)
    assert second == Usage(input=56, cache_read=1920, cache_write=1024)


@pytest.mark.parametrize(("model", "life"), [("gpt-6.1-sol", 1800), ("gpt-4o", 600)])
def test_openai_keeps_a_prefix_longer_where_writing_it_is_billed(model: str, life: float) -> None:
    rules = rules_for(price_of(model))
    sent = [PaperRequest(at, prompt_of(4)) for at in (0, life - 1, 2 * life)]
    assert [usage.cache_read for usage in simulate(sent, rules)] == [0, 1920, 0]


@BOTH
def test_growth_costs_only_what_is_new(rules: CacheRules) -> None:
    def seconds(requests: int) -> float:
        cache = PaperCache(rules)
        prompt = cache.prompt()
        started = time.process_time()
        for number in range(requests):
            prompt.extend([((number, part), 50) for part in range(4)])
            cache.send(prompt, float(number), [max(1, len(prompt) - 4), len(prompt)])
        return time.process_time() - started

    seconds(500)
    small, large = min(seconds(1000) for _ in range(3)), min(seconds(8000) for _ in range(3))
    # Eight times the work; a quadratic rescan would take sixty-four times as long.
    assert large < 24 * small
