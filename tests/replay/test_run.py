"""A recording goes through a policy request by request, and every token and dollar is accounted for."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.cache.simulate import PaperCache
from lamina.cache.spend import cost, price_of
from lamina.messages import Message, Usage
from lamina.replay.policies import RecordedPolicy
from lamina.replay.readers import read_recording
from lamina.replay.recording import Frame, RecordedMessage, RecordedRequest, Recording
from lamina.replay.results import Action, Fork, OwnCall, PolicyResult, report_json, result_of
from lamina.replay.run import (
    CALL_TOKENS,
    NonePolicy,
    RecordedTurn,
    Sent,
    SentPrompt,
    replay,
)
from lamina.replay.weigh import KINDS, USUAL, Scales, Weigher, calibrate, piece_of

pytestmark = pytest.mark.spec("I4")

Json = dict[str, Any]
MODEL = "claude-sonnet-4-5"


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def call(name: str, path: str, tool: str = "Read") -> Json:
    return {"type": "tool_use", "id": name, "name": tool, "input": {"file_path": path}}


def result(name: str, words: str) -> Json:
    return {"type": "tool_result", "tool_use_id": name, "content": words}


def recording_of(
    turns: Sequence[tuple[list[Json], list[Json]]],
    *,
    gap: float = 10.0,
    usages: Sequence[Usage | None] = (),
) -> Recording:
    """A straight conversation: for each turn what was said to the model and what it answered."""
    messages: list[RecordedMessage] = []
    requests: list[RecordedRequest] = []
    for number, (said, answer) in enumerate(turns):
        for role, content in (("user", said), ("assistant", answer)):
            message: Message = {"role": role, "content": content}
            last = len(messages) - 1
            messages.append(RecordedMessage(message, last, last + 2, number * gap))
        usage = usages[number] if usages else None
        end = len(messages)
        requests.append(RecordedRequest(number * gap, end - 2, end - 1, usage, MODEL))
    frame = Frame([text("You are helpful. " * 400)])
    return Recording("made.json", "made", messages, requests, (), (frame,))


def reading_session(turns: int, last: Json | None = None) -> Recording:
    said: list[tuple[list[Json], list[Json]]] = [([text("start")], [call("t0", "/f0")])]
    for number in range(1, turns):
        words = f"contents of file number {number - 1}\n" * 300
        said.append(([result(f"t{number - 1}", words)], [call(f"t{number}", f"/f{number}")]))
    if last is not None:
        said[-1] = (said[-1][0], [last])
    return recording_of(said)


class ClearOld:
    """Clears all results but the newest as soon as they are old: the kind of policy to beat."""

    name = "clear"

    def __init__(self, keep: int = 1) -> None:
        self._held: list[Message] = []
        self._keep = keep

    def send(self, turn: RecordedTurn) -> Sent:
        del self._held[turn.keep :]
        self._held.extend(turn.new)
        places = [i for i, m in enumerate(self._held) if m["content"][0]["type"] == "tool_result"]
        sent = list(self._held)
        for place in places[: -self._keep]:
            old = sent[place]["content"][0]
            sent[place] = {"role": "user", "content": [{**old, "content": "[cleared]"}]}
        actions = [Action("microcompact", "cleared one", 100)] if len(places) > self._keep else []
        return Sent(sent, actions)


class Summarise(NonePolicy):
    name = "summary"

    def send(self, turn: RecordedTurn) -> Sent:
        calls = [OwnCall("summary", MODEL, Usage(input=1000, output=10))] * (turn.number == 1)
        return Sent(super().send(turn).messages, calls=calls)


def test_sending_everything_reads_all_but_what_is_new() -> None:
    recording = reading_session(6)
    figures = replay(recording, NonePolicy()).requests
    assert figures[0].usage.cache_read == 0
    for before, now in pairwise(figures):
        assert now.usage.cache_read == before.context
        assert now.usage.cache_write == now.context - before.context
        assert now.usage.input == 0


def test_money_is_the_sum_of_priced_usage() -> None:
    done = replay(reading_session(5), NonePolicy())
    price = price_of(MODEL)
    assert done.cost == pytest.approx(sum(cost(f.usage, price) for f in done.requests))
    assert done.usage.output > 0


def test_requests_over_the_window_are_counted() -> None:
    recording = reading_session(8)
    whole = replay(recording, NonePolicy())
    assert whole.overflows == 0
    narrow = replay(recording, NonePolicy(), window=whole.requests[4].context)
    assert narrow.overflows == 3
    assert narrow.max_context == whole.requests[-1].context


def test_a_policy_that_rewrites_the_past_breaks_the_prefix() -> None:
    recording = reading_session(8)
    cleared = replay(recording, ClearOld())
    plain = replay(recording, NonePolicy())
    assert cleared.max_context < plain.max_context
    # What the layers are said to have taken out is what the prompts lack.
    missing = plain.requests[-1].context - cleared.requests[-1].context
    assert cleared.layers == {"microcompact": (6, missing)}
    last, before = cleared.requests[-1], cleared.requests[-2]
    assert last.usage.cache_read < before.context - 500


def test_a_removed_file_that_is_edited_later_is_read_again_for_one_more_call() -> None:
    edit = call("e", "/f1", "Edit")
    recording = reading_session(6, last=edit)
    cleared = replay(recording, ClearOld())
    (reread,) = cleared.rereads
    assert (reread.kind, reread.what) == ("file", "/f1")
    weigher = Weigher(recording)
    held = recording.messages[recording.requests[2].tail].message
    assert reread.tokens == weigher.tokens(held)

    harmless = replay(reading_session(6, last=call("e", "/other", "Edit")), ClearOld())
    more = cleared.requests[-1].usage.prompt - harmless.requests[-1].usage.prompt
    # The whole prompt a second time, now with the call and what it brought.
    assert more == harmless.requests[-1].context + CALL_TOKENS + reread.tokens
    assert cleared.requests[-1].usage.output - harmless.requests[-1].usage.output >= CALL_TOKENS - 5
    assert cleared.cost > harmless.cost


def test_sending_everything_never_pays_for_a_reread() -> None:
    recording = reading_session(6, last=call("e", "/f1", "Edit"))
    assert replay(recording, NonePolicy()).rereads == []


def test_what_was_read_again_stays_and_is_not_charged_twice() -> None:
    class ClearOnce(NonePolicy):
        """Clears the first result from the third request on, and leaves the rest alone."""

        def __init__(self) -> None:
            super().__init__()
            self._cleared: Message | None = None

        def send(self, turn: RecordedTurn) -> Sent:
            sent = list(super().send(turn).messages)
            if turn.number >= 2:
                old = sent[2]["content"][0]
                self._cleared = self._cleared or {
                    "role": "user",
                    "content": [{**old, "content": "[cleared]"}],
                }
                sent[2] = self._cleared
            return Sent(sent)

    edit = call("e", "/f0", "Edit")
    turns: list[tuple[list[Json], list[Json]]] = [
        ([text("start")], [call("t0", "/f0")]),
        ([result("t0", "what the first file says\n" * 100)], [text("fine")]),
        ([text("now change it")], [edit]),
        ([result("e", "ok")], [{**edit, "id": "e2"}]),
        ([result("e2", "ok")], [text("what the first file says")]),
    ]
    done = replay(recording_of(turns), ClearOnce())
    assert [len(figures.rereads) for figures in done.requests] == [0, 0, 1, 0, 0]
    # It stays in the prompt, so that the next request is longer by it and reads it from the cache.
    assert done.requests[3].usage.cache_read == done.requests[2].context

    class MadeAnew(ClearOnce):
        """Equal messages, but never the same objects."""

        def send(self, turn: RecordedTurn) -> Sent:
            return Sent([copy.deepcopy(message) for message in super().send(turn).messages])

    again = replay(recording_of(turns), MadeAnew())
    assert [figures.rereads for figures in again.requests] == [
        figures.rereads for figures in done.requests
    ]


def test_what_is_shown_once_more_after_a_reread_is_there() -> None:
    class ClearForATurn(NonePolicy):
        def send(self, turn: RecordedTurn) -> Sent:
            sent = list(super().send(turn).messages)
            if turn.number == 2:
                old = sent[2]["content"][0]
                sent[2] = {"role": "user", "content": [{**old, "content": "[cleared]"}]}
            return Sent(sent)

    edit = call("e", "/f0", "Edit")
    turns: list[tuple[list[Json], list[Json]]] = [
        ([text("start")], [call("t0", "/f0")]),
        ([result("t0", "what the first file says\n" * 100)], [text("fine")]),
        ([text("now change it")], [edit]),
        ([result("e", "ok")], [text("what the first file says")]),
    ]
    done = replay(recording_of(turns), ClearForATurn())
    assert [len(figures.rereads) for figures in done.requests] == [0, 0, 1, 0]


def test_words_of_a_policys_own_that_are_gone_are_not_fetched_again() -> None:
    told = "Up to now the invoices were settled at the rate of last year."

    class SaysOnce(NonePolicy):
        def send(self, turn: RecordedTurn) -> Sent:
            own: list[Message] = [{"role": "user", "content": [text(told)]}]
            return Sent([*super().send(turn).messages, *(own if turn.number == 0 else [])])

    turns: list[tuple[list[Json], list[Json]]] = [
        ([text("start")], [text("fine")]),
        ([text("go on")], [text(told)]),
    ]
    assert replay(recording_of(turns), SaysOnce()).rereads == []


def test_a_turn_of_more_blocks_than_a_breakpoint_looks_back_reads_what_was_sent() -> None:
    many = [text(f"attachment number {n}") for n in range(30)]
    turns = [([text("start " * 2000)], [text("yes")]), (many, [text("no")])]
    first, second = replay(recording_of(turns), NonePolicy()).requests
    assert second.usage.cache_read == first.context


def test_going_back_reads_what_was_sent_before_the_way_parted() -> None:
    """From the place where it parted, not from where the other way had ended."""
    texts = [[text(f"{word} {n}") for n in range(30)] for word in ("one", "other")]
    said: list[tuple[str, int, list[Json]]] = [
        ("user", -1, [text("start " * 2000)]),
        ("assistant", 0, [text("yes")]),
        ("user", 1, texts[0]),
        ("assistant", 2, [text("no")]),
        ("user", 1, texts[1] * 2),
        ("assistant", 4, [text("well")]),
    ]
    messages = [
        RecordedMessage({"role": role, "content": content}, parent, (1, 2, 3, 4, 3, 4)[n], n)
        for n, (role, parent, content) in enumerate(said)
    ]
    requests = [RecordedRequest(10.0 * n, n, n + 1, None, MODEL) for n in (0, 2, 4)]
    recording = Recording("made.json", "made", messages, requests)
    first, _, third = replay(recording, NonePolicy()).requests
    assert third.usage.cache_read == first.context


def test_output_is_what_was_said_where_the_recorder_noted_less() -> None:
    turns = [([text("start")], [text("a long answer " * 300)])]
    noted = [Usage(input=9000, output=1)]
    assert replay(recording_of(turns, usages=noted), NonePolicy()).usage.output > 800
    noted = [Usage(input=9000, output=5000)]
    assert replay(recording_of(turns, usages=noted), NonePolicy()).usage.output == 5000


def test_a_first_request_finds_what_others_had_put_into_the_cache() -> None:
    turns = [([text("start")], [text("fine")])] * 2
    noted = [Usage(100, 5, 4000, 300), Usage(10, 5, 4300, 200)]
    figures = replay(recording_of(turns, usages=noted), NonePolicy()).requests
    assert figures[0].usage.cache_read == 4000
    noted = [Usage(100, 5, 4000, 300), Usage(10, 5, 1500, 3000)]  # less was left after a break
    figures = replay(recording_of(turns, usages=noted), NonePolicy()).requests
    assert figures[0].usage.cache_read == 4000
    cold = [Usage(100, 5, 0, 4300), Usage(10, 5, 4300, 200)]
    assert replay(recording_of(turns, usages=cold), NonePolicy()).requests[0].usage.cache_read == 0


def test_the_life_of_the_cache_is_the_recorded_one() -> None:
    recording = reading_session(3)
    hour = [replace(r, time=1000.0 * n, ttl=3600.0) for n, r in enumerate(recording.requests)]
    recording = replace(recording, requests=hour)
    assert replay(recording, NonePolicy()).requests[1].usage.cache_read > 0
    short = replace(recording, requests=[replace(r, ttl=0.0) for r in hour])
    assert replay(short, NonePolicy()).requests[1].usage.cache_read == 0


def test_a_recording_that_names_no_model_is_priced_by_a_guess() -> None:
    recording = reading_session(3)
    nameless = replace(recording, requests=[replace(r, model="") for r in recording.requests])
    done = replay(nameless, NonePolicy())
    assert (done.prices, done.guessed_price) == (["claude-sonnet-4-6"], True)
    assert not replay(nameless, NonePolicy(), model=MODEL).guessed_price


def test_a_policys_own_calls_are_charged_to_it() -> None:
    recording = reading_session(4)
    plain, own = replay(recording, NonePolicy()), replay(recording, Summarise())
    extra = cost(Usage(input=1000, output=10), price_of(MODEL))
    assert own.cost == pytest.approx(plain.cost + extra)
    assert own.usage.input == plain.usage.input + 1000


def test_a_gap_longer_than_the_life_of_the_cache_writes_all_again() -> None:
    recording = recording_of([([text("a" * 9000)], [text("b")])] * 3, gap=301)
    assert replay(recording, NonePolicy()).usage.cache_read == 0
    hour = [replace(request, ttl=3600.0) for request in recording.requests]
    assert replay(replace(recording, requests=hour), NonePolicy()).usage.cache_read > 0


def test_model_and_prices_can_be_overridden_and_a_guess_is_marked() -> None:
    recording = reading_session(4)
    openai = replay(recording, NonePolicy(), model="gpt-5.4")
    assert openai.requests[-1].usage.cache_read % 128 == 0
    assert not openai.guessed_price
    assert replay(recording, NonePolicy(), model="mystery").guessed_price
    free = replay(
        recording,
        NonePolicy(),
        prices={
            MODEL: dict.fromkeys(
                ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h"), 0.0
            )
        },
    )
    assert free.cost == 0


def test_the_json_object_has_the_promised_fields() -> None:
    recording = reading_session(6)
    done = [replay(recording, NonePolicy()), replay(recording, ClearOld())]
    value = report_json(result_of(recording, done))
    assert list(value) == ["file", "format", "requests", "skipped", "recorded", "policies"]
    assert value["requests"] == 6
    assert value["recorded"]["input"] is None
    none, clear = value["policies"]["none"], value["policies"]["clear"]
    sums = {"input", "cache_read", "cache_write", "output", "cost", "max_context", "overflows"}
    assert sums <= none.keys()
    assert "layers" not in none
    assert clear["layers"]["microcompact"]["count"] == 4
    usages = [Usage(10, 1, 0, 5000), Usage(3, 2, 5010, 40)]
    with_usage = recording_of([([text("a")], [text("b")])] * 2, usages=usages)
    told = report_json(result_of(with_usage, []))["recorded"]
    assert told == {"input": 13, "cache_read": 5010, "cache_write": 5040, "output": 3}


def test_scales_are_fitted_to_the_sessions_own_usage() -> None:
    # A tokeniser with 2 bytes a token for results and nothing else to count.
    turns: list[tuple[list[Json], list[Json]]] = [([text("go")], [call("t0", "/f")])]
    usages = [Usage(input=8000)]
    total = 8000
    for number in range(1, 60):
        size = 200 + 911 * (number % 13)
        turns.append(([result(f"t{number - 1}", "x" * size)], [call(f"t{number}", "/f")]))
        total += size // 2 + 60
        usages.append(Usage(input=total))
    scales = calibrate(recording_of(turns, usages=usages))
    assert scales.fitted == 59
    assert 1 / scales.weights[KINDS.index("result")] == pytest.approx(2.0, rel=0.1)
    assert calibrate(recording_of(turns[:2])).weights == USUAL


def test_prompts_add_up_to_what_the_provider_reported() -> None:
    usages = [Usage(input=9000), Usage(input=9700), Usage(input=30_000), Usage(input=30_400)]
    turns = [([text(f"question {n} " * 40)], [text("answer " * 30)]) for n in range(4)]
    done = replay(recording_of(turns, usages=usages), NonePolicy())
    for figures, usage in zip(done.requests, usages, strict=True):
        assert figures.context == pytest.approx(usage.prompt, abs=3)


def test_equal_content_weighs_the_same_in_a_message_of_a_policys_own() -> None:
    usages = [Usage(input=9000), Usage(input=12_000)]
    rounds = [([text(f"{n} some words " * 90)], [text(f"{n} more " * 50)]) for n in range(2)]
    recording = recording_of(rounds, usages=usages)
    weigher = Weigher(recording)
    block = recording.messages[2].message["content"][0]
    copied: Message = {"role": "user", "content": [dict(block)]}
    assert weigher.paper(copied)[0] == weigher.recorded(2)[0]


def test_content_that_stands_there_twice_weighs_its_mean_in_a_message_of_a_policys_own() -> None:
    usages = [Usage(input=9000), Usage(input=12_000)]
    rounds = [([text("some words " * 90)], [text("more " * 50)])] * 2
    recording = recording_of(rounds, usages=usages)
    weigher = Weigher(recording)
    block = recording.messages[2].message["content"][0]
    copied: Message = {"role": "user", "content": [dict(block)]}
    (_, first), (_, second) = weigher.recorded(0)[0], weigher.recorded(2)[0]
    assert first != second
    assert weigher.paper(copied)[0][1] == round((first + second) / 2)


@given(
    block=st.dictionaries(
        st.sampled_from(["type", "text", "input", "content", "signature", "data", "name"]),
        st.recursive(
            st.none() | st.integers(-9, 9) | st.text(max_size=8)
            | st.sampled_from(["text", "tool_use", "tool_result", "thinking", "image"]),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
            max_leaves=8,
        ),
    )
)  # fmt: skip
def test_any_block_can_be_weighed(block: Json) -> None:
    piece = piece_of(block)
    assert Scales().tokens(piece) >= 1
    assert piece_of({**block, "cache_control": {"type": "ephemeral"}}).key == piece_of(block).key


@examples(60)
@given(
    sizes=st.lists(st.integers(0, 4000), min_size=1, max_size=12),
    prompts=st.lists(st.integers(0, 60_000), min_size=12, max_size=12),
    keep=st.integers(1, 3),
)
def test_every_token_is_read_written_or_missed_under_any_policy(
    sizes: list[int], prompts: list[int], keep: int
) -> None:
    turns = [([result(f"t{n}", "y" * size)], [text("ok " * 9)]) for n, size in enumerate(sizes)]
    usages = [Usage(input=prompt) for prompt in prompts[: len(turns)]]
    recording = recording_of(turns, usages=usages)
    for policy in (NonePolicy(), ClearOld(keep)):
        for figures in replay(recording, policy).requests:
            if not figures.rereads:
                assert figures.usage.prompt == figures.context
            assert min(figures.usage.to_json().values()) >= 0


def test_a_long_session_is_replayed_in_linear_time() -> None:
    def seconds(calls: int) -> float:
        recording = reading_session(calls)
        started = time.process_time()
        replay(recording, NonePolicy())
        return time.process_time() - started

    seconds(50)
    small, large = min(seconds(100) for _ in range(3)), min(seconds(800) for _ in range(3))
    # Eight times the work; a quadratic one would take sixty-four times as long.
    assert large < 24 * small


def test_real_sessions_are_predicted_as_they_were_billed(real_data: Path) -> None:
    worst: list[float] = []
    for path in sorted((real_data / "claude-code-sessions").glob("*.jsonl"))[::4]:
        recording = read_recording(path)
        done: PolicyResult = replay(recording, NonePolicy())
        told = recording.usage()
        worst.append(abs(done.usage.cache_read - told.cache_read) / told.prompt)
    assert sorted(worst)[len(worst) // 2] < 0.03


def test_branches_and_compactions_of_a_real_shape_are_followed(
    session: Any, save: Callable[..., Path]
) -> None:
    session.user("one " * 2000)
    fork = session.answer([text("first")], (2100, 0, 0))[0]
    session.user("left " * 500)
    session.answer([text("L")], (2700, 0, 0))
    session.user("right " * 500, parent=fork)
    session.answer([text("R")], (2800, 0, 0))
    session.line("system", parent=None, subtype="compact_boundary")
    session.user("summary of it all", isCompactSummary=True)
    session.answer([text("on")], (900, 0, 0))
    recording = read_recording(save(session))
    done = replay(recording, NonePolicy())
    assert [f.context for f in done.requests] == pytest.approx([2100, 2700, 2800, 900], abs=40)
    weigher = Weigher(recording).uncut()
    whole = replay(weigher.recording, NonePolicy(), weigher=weigher)
    assert [f.context for f in whole.requests[:3]] == [f.context for f in done.requests[:3]]
    # Everything that was said, the last answer included, but not the summary.
    answer = recording.messages[recording.requests[2].answer].message
    assert whole.requests[-1].context == done.requests[2].context + weigher.tokens(answer)
    assert replay(recording.without_compactions(), NonePolicy()).requests[-1].context > 2700


def growing(sizes: Sequence[int], words: Sequence[str], **first: int) -> Recording:
    """A conversation whose prompts had these sizes, whatever was said."""
    turns = [([text(said)], [text("fine")]) for said in words]
    usages = [Usage(input=size) for size in sizes]
    usages[0] = replace(usages[0], **first) if first else usages[0]
    return recording_of(turns, usages=usages)


def test_what_was_sent_unrecorded_is_no_part_of_the_words_beside_it() -> None:
    """A reminder of thousands of tokens came with two words: these stay two words."""
    weigher = Weigher(growing([9_000, 14_000], ["start", "go on, please"]))
    [said, unrecorded] = weigher.paper(weigher.recording.messages[2].message)
    assert said[1] < 100
    assert unrecorded[1] > 4_500


def test_of_two_equal_messages_neither_takes_the_others_reminder_along() -> None:
    recording = growing([9_000, 14_000, 20_000], ["start", "go on", "go on"])
    weigher = Weigher(recording)
    assert all(weigher.tokens(recording.messages[at].message) > 4_000 for at in (2, 4))
    assert weigher.tokens({"role": "user", "content": [text("go on")]}) < 100


def test_a_prompt_that_shrank_without_a_word_has_its_recorded_size() -> None:
    """A restart of the recorder rebuilt it with less."""
    said = ["start", "a long story " * 3_000, "go on", "and on"]
    sizes = [9_000, 20_000, 12_000, 12_100]
    figures = replay(growing(sizes, said), NonePolicy()).requests
    assert [f.context for f in figures] == [pytest.approx(size, abs=60) for size in sizes]


@pytest.mark.spec("I4")
def test_what_layers_are_said_to_have_saved_is_what_the_prompts_lack() -> None:
    """Also where the recorder's own prompt got lighter meanwhile, and whatever the layer told."""

    class Forgetting:
        name = "forgetting"

        def __init__(self) -> None:
            self._held: dict[str, list[Message]] = {}

        def send(self, turn: RecordedTurn) -> Sent:
            held = turn.held_in(self._held)
            told = [Action("microcompact", "dropped", 3)] if turn.number in (2, 4) else []
            return Sent([*held[:2], *held[4:]] if turn.number > 1 else held, told)

    said = ["start", "a long story " * 3_000, "go on", "and on", "and on and on"]
    recording = growing([9_000, 20_000, 12_000, 12_100, 12_300], said)
    whole = replay(recording, NonePolicy()).requests
    less = replay(recording, Forgetting()).requests
    gone = [all_.context - some.context for all_, some in zip(whole, less, strict=True)]
    assert gone[2] > 1_000
    told = accumulate(sum(action.tokens_saved for action in one.actions) for one in less)
    assert list(told) == gone


def test_a_file_that_begins_in_the_middle_has_its_recorded_sizes_after_a_compaction_too() -> None:
    """What stood before its first line goes with the compaction; the system prompt stays."""
    recording = growing(
        [90_000, 14_000], ["go on", "In short: a story"], input=0, cache_read=10_000
    )
    first = replace(recording.requests[0], usage=Usage(80_000, 1, 10_000))
    summary = replace(recording.messages[2], parent=-1, depth=1, summary=True, after=1)
    answer = replace(recording.messages[3], depth=2)
    messages = [*recording.messages[:2], summary, answer]
    cut = replace(recording, messages=messages, requests=[first, recording.requests[1]])
    figures = replay(cut, NonePolicy()).requests
    assert [f.context for f in figures] == [90_000, 14_000]
    assert figures[1].usage.cache_read == 10_000
    weigher = Weigher(cut)
    weigher.at(1)
    assert weigher.losses == ()  # nothing that was said got lighter by it


def test_what_was_fetched_stays_where_it_was_put_when_the_last_message_grows() -> None:
    recording = recording_of([([text("start"), text("and more")], [text("fine")])])
    weigher = Weigher(recording)
    whole = recording.messages[0].message
    cache = PaperCache()
    prompt = SentPrompt(weigher)
    prompt.update(cache, weigher.at(0), [{**whole, "content": whole["content"][:1]}])
    prompt.fetch([("key", ("again", 500))])
    before = prompt.tokens
    gone, _ = prompt.update(cache, weigher.at(0), [whole])
    assert prompt.fetched == 500
    assert gone == []
    assert prompt.tokens == before + weigher.block(whole["content"][1])[1]
    prompt.update(cache, weigher.at(0), [{"role": "user", "content": [text("anew")]}])
    assert prompt.fetched == 0


def test_the_whole_history_has_one_frame_however_often_the_recorder_began_anew() -> None:
    recording = growing(
        [90_000, 14_000], ["go on", "In short: a story"], input=80_000, cache_read=10_000
    )
    summary = replace(recording.messages[2], parent=-1, depth=1, summary=True, after=1)
    cut = replace(
        recording,
        messages=[*recording.messages[:2], summary, replace(recording.messages[3], depth=2)],
    )
    weigher = Weigher(cut)
    whole = weigher.uncut()
    assert whole.at(0) == whole.at(1) == weigher.at(0)
    contexts = [
        figures.context for figures in replay(whole.recording, NonePolicy(), weigher=whole).requests
    ]
    assert contexts[1] > contexts[0] == 90_000


def begun_in_the_middle(read: int) -> Recording:
    """Of its first prompt 90,000 tokens are a conversation and a system prompt of some 13,000."""
    recording = growing([90_000, 14_000], ["go on", "In short: a story"], input=0)
    first = replace(recording.requests[0], usage=Usage(90_000 - read, 1, read))
    last = replace(recording.requests[1], usage=Usage(4_000, 1, 10_000))
    summary = replace(recording.messages[2], parent=-1, depth=1, summary=True, after=1)
    messages = [*recording.messages[:2], summary, replace(recording.messages[3], depth=2)]
    return replace(recording, messages=messages, requests=[first, last])


@pytest.mark.parametrize("read", [0, 10_000, 89_990])
def test_the_lost_beginning_of_a_conversation_is_no_system_prompt(read: int) -> None:
    """A policy may take it out with the first message, as the recorder did."""
    recording = begun_in_the_middle(read)
    weigher = Weigher(recording)
    assert sum(tokens for _, tokens in weigher.at(0)) < 14_500
    first, second = replay(recording, NonePolicy(), weigher=weigher).requests
    assert (first.context, second.context) == (90_000, 14_000)
    assert first.usage.cache_read == pytest.approx(read, abs=100)
    assert second.usage.cache_read == 10_000
    whole = weigher.uncut()
    turn = RecordedTurn(1, whole.recording.requests[1], 0, (), False, 0)
    without = SentPrompt(whole)
    without.update(PaperCache(), whole.at(turn.number), [text_message("a summary")])
    assert without.tokens < 15_000


def text_message(words: str) -> Message:
    return {"role": "user", "content": [text(words)]}


def test_a_changed_result_weighs_as_much_for_its_bytes_as_it_did() -> None:
    """A fold that only shortens a block never makes a prompt longer, whatever its anchor says."""
    words = "".join(f"line {n} of a log that tokenises badly\n" for n in range(400))
    turns = [([text("start")], [call("a", "/f")]), ([result("a", words)], [text("fine")])]
    scale = 0.6  # of the tokens that the usual scales would give
    plain = Weigher(recording_of(turns))
    guess = plain.tokens(plain.recording.messages[2].message)
    noted = [Usage(9_000), Usage(9_000 + 40 + round(scale * guess))]
    recording = recording_of(turns, usages=noted)
    weigher = Weigher(recording)
    whole = weigher.block(recording.messages[2].message["content"][0])[1]
    half = weigher.block(result("a", words[: len(words) // 2]))[1]
    assert whole < 0.7 * guess
    assert half == pytest.approx(whole / 2, rel=0.1)
    other = weigher.block(result("never recorded", words))[1]
    assert other == pytest.approx(whole, rel=0.1)  # as its kind does on the average


def test_two_requests_are_too_few_to_fit_scales_to() -> None:
    assert calibrate(growing([9_000, 14_000, 16_000], ["a", "b", "c"])).fitted == 0
    assert calibrate(growing([9_000, 14_000, 16_000, 17_000], ["a", "b", "c", "d"])).fitted == 3


def test_a_request_that_carried_something_unrecorded_hardly_moves_the_scales() -> None:
    def scale(extra: int) -> float:
        sizes, words = [9_000], ["start"]
        for number in range(12):
            words.append("some words of a person " * (40 + 10 * number))
            grown = len(words[-1]) // 3 + 60 + (extra if number == 6 else 0)
            sizes.append(sizes[-1] + grown)
        return 1 / calibrate(growing(sizes, words)).weights[KINDS.index("text")]

    assert scale(extra=40_000) == pytest.approx(scale(extra=0), rel=0.05)


class Aside(NonePolicy):
    """Sends all, and has one side task at a time of its own before the second request."""

    name = "aside"

    def __init__(self, at: float, outputs: tuple[int, ...] = (400,)) -> None:
        super().__init__()
        self._fork = Fork("notes", 4_000, outputs, at)

    def send(self, turn: RecordedTurn) -> Sent:
        return replace(super().send(turn), forks=[self._fork] * (turn.number == 1))


def test_a_side_task_reads_what_was_sent_last_and_leaves_the_prompt_as_it_was() -> None:
    recording = reading_session(4)
    plain, aside = replay(recording, NonePolicy()), replay(recording, Aside(2.0, (400, 0)))
    assert aside.background["notes"][0] == 2
    first, second = aside.requests[1].calls
    assert first.usage.cache_read == plain.requests[0].context
    assert 900 < first.usage.cache_write < 1_300  # the answer and the directive
    assert second.usage.cache_read == first.usage.prompt
    paid = aside.background["notes"][1]
    assert paid == pytest.approx(first.cost + second.cost)
    assert aside.cost == pytest.approx(plain.cost + paid)
    assert [f.context for f in aside.requests] == [f.context for f in plain.requests]
    told = report_json(result_of(recording, [aside]))["policies"]["aside"]
    assert told["background"]["calls"] == 2
    assert told["cost"] == pytest.approx(aside.cost, abs=1e-5)


def test_a_side_task_in_a_pause_keeps_the_cache_for_who_comes_back() -> None:
    turns = reading_session(3)
    late = [replace(r, time=500.0 * n) for n, r in enumerate(turns.requests)]
    recording = replace(turns, requests=late)
    cold, kept = replay(recording, NonePolicy()), replay(recording, Aside(280.0))
    assert cold.requests[1].usage.cache_read == 0
    assert kept.requests[1].usage.cache_read >= cold.requests[0].context


def test_what_the_tool_did_has_the_calls_of_its_own_compactions_in_it() -> None:
    recording = begun_in_the_middle(0)
    none, recorded = replay(recording, NonePolicy()), replay(recording, RecordedPolicy(recording))
    assert none.background == {}
    calls, dollars = recorded.background["summary"]
    assert calls == 1
    assert recorded.cost == pytest.approx(none.cost + dollars)
    [call] = recorded.requests[1].calls
    assert call.usage.prompt > 90_000  # it read all that it summed up


def test_nothing_that_a_provider_would_refuse_goes_unmarked() -> None:
    recording = reading_session(6)
    for window, refused in ((1_000_000, False), (2_000, True)):
        value = report_json(result_of(recording, [replay(recording, NonePolicy(), window=window)]))
        assert value["policies"]["none"]["refused"] is refused
