"""The policy `lamina`: a recording goes through the very layers of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.reach import checked
from hypothesis import given
from hypothesis import strategies as st
from tests.replay.conftest import Session

from lamina.cache.account import FETCHED
from lamina.config import Config, load
from lamina.layers.microcompact import CLEARED
from lamina.messages import Message, text_of
from lamina.replay.lamina_policy import LaminaPolicy, lamina_policy
from lamina.replay.policies import NAMES, open_policy
from lamina.replay.readers import read_recording
from lamina.replay.recording import RecordedMessage
from lamina.replay.results import PolicyResult, report_json, result_of
from lamina.replay.run import NonePolicy, RecordedTurn, Sent, replay
from lamina.replay.weigh import Weigher

Save = Callable[..., Path]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load(tmp_path, home=tmp_path / "home", env={})


class Watched:
    """Keeps what a policy sent."""

    def __init__(self, policy: LaminaPolicy) -> None:
        self.name = policy.name
        self._policy = policy
        self.sent: list[list[Message]] = []

    def send(self, turn: RecordedTurn) -> Sent:
        sent = self._policy.send(turn)
        self.sent.append(list(sent.messages))
        return sent


def put_through(
    path: Path, config: Config, *, uncut: bool = False, **options: Any
) -> tuple[PolicyResult, PolicyResult, list[list[Message]]]:
    weigher = Weigher(read_recording(path))
    weigher = weigher.uncut() if uncut else weigher
    window = options.get("window", 200_000)
    plain = replay(weigher.recording, NonePolicy(), weigher=weigher, window=window)
    with lamina_policy(weigher, config, **options) as policy:
        watched = Watched(policy)
        result = replay(weigher.recording, watched, weigher=weigher, window=window)
    return plain, result, watched.sent


def work(session: Session, rounds: int, output: str, tool: str = "Bash", start: int = 0) -> None:
    """Rounds of one tool call and its result each."""
    for number in range(start, start + rounds):
        call = {"command": f"make step{number}"}
        block = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": call}
        session.answer([block], usage=None)
        said = f"{number}: {output}"
        session.user([{"type": "tool_result", "tool_use_id": f"t{number}", "content": said}])


def finish(session: Session, words: str = "Done.") -> None:
    session.answer([{"type": "text", "text": words}], usage=None)


def results_in(messages: list[Message]) -> list[str]:
    return [
        text_of(block["content"])
        for message in messages
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]


@pytest.mark.spec("I4", "L1.1")
def test_a_large_result_of_the_recording_is_moved_to_disk_before_it_is_ever_sent(
    session: Session, save: Save, config: Config
) -> None:
    session.user("build it")
    work(session, 2, "line of output\n" * 4_000)
    finish(session)
    plain, result, sent = put_through(save(session), config)
    assert result.layers["tool_results"][0] == 2
    assert all("<persisted-output>" in words for words in results_in(sent[-1]))
    assert result.max_context < plain.max_context / 4
    assert result.cost < plain.cost


@pytest.mark.spec("I4", "L4.1")
@pytest.mark.parametrize("trigger", ["manual", "auto"])
def test_a_compaction_that_the_user_asked_for_is_made_in_a_whole_history_too(
    session: Session, save: Save, config: Config, trigger: str
) -> None:
    session.user("build it")
    for number in range(6):
        work(session, 1, f"{number} words of output " * 200, start=number)
    finish(session)
    boundary = {"subtype": "compact_boundary", "compactMetadata": {"trigger": trigger}}
    session.line("system", parent=None, **boundary)
    session.user("It was built.", isCompactSummary=True)
    session.user("go on")
    finish(session)
    _, result, sent = put_through(save(session), config, uncut=True)
    assert ("compaction" in result.layers) is (trigger == "manual")
    assert ("<summary>" in str(sent[-1])) is (trigger == "manual")


@pytest.mark.spec("I4", "L2.1")
def test_a_recorded_pause_longer_than_the_cache_lives_clears_old_results(
    session: Session, save: Save, config: Config
) -> None:
    session.user("build it")
    work(session, 9, "some words of output " * 200)
    finish(session)
    session.clock += 2 * 3600
    session.user("and now?")
    finish(session)
    _, result, sent = put_through(save(session), config)
    cleared = [sum(words.startswith(CLEARED) for words in results_in(one)) for one in sent[-2:]]
    assert cleared == [0, 4]
    [action] = [a for request in result.requests for a in request.actions if a.layer != "notes"]
    assert action.layer == "microcompact"
    assert action.tokens_saved > 3_000


@pytest.mark.spec("I4", "L4.1")
def test_what_is_sent_is_never_written_out_on_the_way(
    session: Session, save: Save, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task shows its result to whoever asks for its name: with all messages in it, that would
    take as long as the session is, at every request."""
    shown: list[object] = []

    def show(self: object) -> str:
        shown.append(self)
        return "sent"

    monkeypatch.setattr(Sent, "__repr__", show)
    session.user("the task")
    work(session, 3, "some output")
    finish(session)
    put_through(save(session), config)
    assert not shown


def test_near_the_end_of_the_window_it_compacts_and_never_sends_more_than_fits(
    session: Session, save: Save, config: Config
) -> None:
    session.user("Never touch the release branch.")
    work(session, 60, "some words of output " * 300)
    finish(session)
    plain, result, sent = put_through(save(session), config, window=60_000)
    assert plain.overflows > 0
    assert result.overflows == 0
    assert result.layers["compaction"][0] >= 1
    said = "\n".join(text_of(m["content"]) for m in sent[-1])
    assert "Never touch the release branch." in said
    assert all(message["content"] for message in sent[-1])


@pytest.mark.spec("I4")
def test_where_no_layer_acts_the_prompt_is_what_was_recorded(
    session: Session, save: Save, config: Config
) -> None:
    session.user("hello")
    finish(session, "Hi.")
    session.user("go on")
    work(session, 3, "short")
    finish(session)
    plain, result, _ = put_through(save(session), config)
    assert [f.context for f in result.requests] == [f.context for f in plain.requests]
    calls, picking = result.background.pop("recall")
    assert calls == 2  # one for each thing that was typed
    _, dreaming = result.background.pop("dream")
    assert result.cost == pytest.approx(plain.cost + picking + dreaming)


@pytest.mark.spec("I4")
def test_a_recording_that_goes_back_takes_the_ledger_back(
    session: Session, save: Save, config: Config
) -> None:
    session.user("first")
    [answered] = session.answer([{"type": "text", "text": "one"}], usage=None)
    session.user("left behind")
    finish(session, "two")
    session.user("taken instead", parent=answered)
    finish(session, "three")
    plain, result, sent = put_through(save(session), config)
    words = [text_of(message["content"]) for message in sent[-1]]
    assert words == ["first", "one", "taken instead"]
    assert result.max_context == plain.max_context


@pytest.mark.spec("I4")
def test_torn_recordings_still_give_prompts_that_can_be_sent(
    session: Session, save: Save, config: Config
) -> None:
    session.user("go")
    calls = [
        {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": "x"}}
        for name in ("a", "b")
    ]
    session.answer(calls, usage=None)
    session.user([{"type": "tool_result", "tool_use_id": "a", "content": ""}])
    session.user("a word in between")
    session.answer([{"type": "tool_use", "id": "a", "name": "Bash", "input": {}}], usage=None)
    session.user([{"type": "tool_result", "tool_use_id": "gone", "content": "late"}])
    finish(session)
    _, _, sent = put_through(save(session), config)
    for messages in sent:
        roles = [message["role"] for message in messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        asked = {b["id"] for m in messages for b in m["content"] if b["type"] == "tool_use"}
        told = {b["tool_use_id"] for m in messages for b in m["content"] if "tool_use_id" in b}
        assert asked == told


@pytest.mark.spec("I4")
def test_a_result_whose_call_was_lost_weighs_what_it_weighed(
    session: Session, save: Save, config: Config
) -> None:
    session.user("go")
    session.answer([{"type": "text", "text": "Looking."}], usage=(0, 1_000, 0))
    lost = {"type": "tool_result", "tool_use_id": "lost", "content": "a few dense words " * 2_000}
    session.user([lost])
    session.answer([{"type": "text", "text": "I see."}], usage=(0, 30_000, 1_000))
    session.user("and on")
    session.answer([{"type": "text", "text": "Yes."}], usage=(0, 100, 31_000))
    plain, result, sent = put_through(save(session), config)
    assert sent[-1][2]["content"][0]["type"] == "text"  # a session can't hold it as a result
    assert [f.context for f in result.requests] == [f.context for f in plain.requests]


@pytest.mark.spec("I4", "L1.4")
def test_results_of_no_known_form_fail_no_layer(
    session: Session, save: Save, config: Config
) -> None:
    odd = [[["x"]], 5, None, {"type": "text"}, {"type": "text", "text": 7}, {"text": "y"}]
    session.user("go")
    for name in ("a", "b"):
        call = {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": "x"}}
        session.answer([call], usage=None)
        session.user([{"type": "tool_result", "tool_use_id": name, "content": odd}])
    finish(session)
    _, result, sent = put_through(save(session), config)
    assert not [action for request in result.requests for action in request.actions]
    assert sent[-1][2]["content"][0]["content"] == odd


@pytest.mark.spec("I4")
def test_what_was_sent_unrecorded_with_a_message_weighs_the_same_under_every_policy(
    session: Session, save: Save, config: Config
) -> None:
    session.user("hello")
    session.answer([{"type": "text", "text": "Hi."}], usage=(0, 1_000, 0))
    session.user("with a long reminder that nobody wrote down")
    session.answer([{"type": "text", "text": "I see."}], usage=(0, 5_000, 1_000))
    session.user("and on")
    session.answer([{"type": "text", "text": "Yes."}], usage=(0, 100, 6_000))
    plain, result, _ = put_through(save(session), config)
    assert [f.context for f in plain.requests] == [1_000, 6_000, 6_100]
    assert [f.context for f in result.requests] == [1_000, 6_000, 6_100]


@pytest.mark.spec("I4")
@pytest.mark.parametrize("name", NAMES)
def test_every_policy_has_its_figures_in_the_json(
    name: str, session: Session, save: Save, config: Config
) -> None:
    session.user("build it")
    work(session, 12, "some words of output " * 100)
    finish(session)
    recording = read_recording(save(session))
    weigher = Weigher(recording)
    with open_policy(name, weigher, config, window=8_000) as policy:
        result = replay(recording, policy, weigher=weigher, window=8_000)
    value = report_json(result_of(recording, [result]))["policies"][name]
    assert {"input", "cache_read", "cache_write", "output", "cost", "max_context"} <= set(value)
    assert ("layers" in value) == (name != "none")
    assert value["overflows"] == sum(f.context > 8_000 for f in result.requests)


def test_clearing_by_count_breaks_the_cache_at_every_request(
    session: Session, save: Save, config: Config
) -> None:
    session.user("build it")
    work(session, 30, "some words of output " * 100)
    finish(session)
    recording = read_recording(save(session))
    weigher = Weigher(recording)
    shares: dict[str, float] = {}
    for name in ("none", "clear-oldest"):
        with open_policy(name, weigher, config) as policy:
            used = replay(recording, policy, weigher=weigher).usage
        shares[name] = used.cache_read / used.prompt
    assert shares["clear-oldest"] < shares["none"] - 0.1


def test_clearing_by_count_keeps_the_last_three_results(
    session: Session, save: Save, config: Config
) -> None:
    session.user("the task")
    work(session, 5, "some words of output")
    finish(session)
    recording = read_recording(save(session))
    weigher = Weigher(recording)
    with open_policy("clear-oldest", weigher, config) as policy:
        replay(recording, policy, weigher=weigher)
        last = policy.send(RecordedTurn(0, recording.requests[0], 10**6, [], False, 0))
    kept = [f"{n}: some words of output" for n in (2, 3, 4)]
    assert results_in(list(last.messages)) == ["[cleared]", "[cleared]", *kept]


def test_dropping_the_oldest_keeps_the_task_and_every_pair_of_call_and_result(
    session: Session, save: Save, config: Config
) -> None:
    session.user("the task")
    work(session, 40, "some words of output " * 100)
    finish(session)
    recording = read_recording(save(session))
    weigher = Weigher(recording)
    with open_policy("drop-oldest", weigher, config, window=10_000) as policy:
        result = replay(recording, policy, weigher=weigher, window=10_000)
        last = policy.send(RecordedTurn(0, recording.requests[0], 10**6, [], False, 0))
    assert 7_000 < result.max_context <= 8_500
    assert text_of(last.messages[0]["content"]) == "the task"
    asked = [b["id"] for m in last.messages for b in m["content"] if b["type"] == "tool_use"]
    told = [b["tool_use_id"] for m in last.messages for b in m["content"] if "tool_use_id" in b]
    assert asked == told
    assert 0 < len(asked) < 40


def test_dropping_the_oldest_starts_afresh_where_the_recorder_did(
    session: Session, save: Save, config: Config
) -> None:
    """After a compaction there is little, and none of it is what was left out before."""
    session.user("the task")
    work(session, 40, "some words of output " * 100)
    session.line("system", parent=None, subtype="compact_boundary")
    session.user("In short: the task is half done.", isCompactSummary=True)
    session.answer([{"type": "text", "text": "I go on."}], usage=None)
    session.user("Do that.")
    session.answer([{"type": "text", "text": "Done."}], usage=None)
    recording = read_recording(save(session))
    weigher = Weigher(recording)
    with open_policy("drop-oldest", weigher, config, window=10_000) as policy:
        replay(recording, policy, weigher=weigher, window=10_000)
        last = policy.send(RecordedTurn(0, recording.requests[0], 10**6, [], False, 0))
    assert [text_of(message["content"]) for message in last.messages] == [
        "In short: the task is half done.",
        "I go on.",
        "Do that.",
    ]


def test_going_back_into_a_row_of_results_gives_up_those_behind(
    session: Session, save: Save, config: Config
) -> None:
    session.user("look at both")
    calls = [{"type": "tool_use", "id": n, "name": "Read", "input": {"file_path": n}} for n in "ab"]
    lines = session.answer(calls, usage=None)
    for name, line in zip("ab", lines, strict=True):
        told = {"type": "tool_result", "tool_use_id": name, "content": f"contents of {name}"}
        session.user([told], parent=line)
    finish(session)
    recording = read_recording(save(session))
    assert [len(recording.context(request)) for request in recording.requests] == [1, 4]
    # The recorder went back to the first result and asked something else.
    tail = recording.requests[1].tail
    other: Message = {"role": "user", "content": [{"type": "text", "text": "only this one"}]}
    parent = recording.messages[tail].parent
    depth = recording.messages[parent].depth + 1
    messages = [*recording.messages, RecordedMessage(other, parent, depth, 1_700_000_100)]
    again = replace(recording.requests[1], tail=len(messages) - 1, time=1_700_000_100)
    branched = replace(recording, messages=messages, requests=[*recording.requests, again])
    weigher = Weigher(branched)
    with lamina_policy(weigher, config) as policy:
        watched = Watched(policy)
        replay(branched, watched, weigher=weigher)
    assert results_in(watched.sent[1]) == ["contents of a", "contents of b"]
    assert results_in(watched.sent[2])[0] == "contents of a"
    assert "contents of b" not in str(watched.sent[2])


def test_what_had_to_be_fetched_again_is_told_to_the_account(
    session: Session, save: Save, config: Config
) -> None:
    session.user("the task")
    for number in range(9):
        given = {"file_path": f"/f{number}"}
        block = {"type": "tool_use", "id": f"r{number}", "name": "Read", "input": given}
        session.answer([block], usage=None)
        told = "".join(f"line {n} of what the file number {number} says\n" for n in range(300))
        session.user([{"type": "tool_result", "tool_use_id": f"r{number}", "content": told}])
    finish(session)
    session.clock += 7200
    session.user("now change the first one")
    edit = {"file_path": "/f0", "old_string": "a", "new_string": "b"}
    session.answer([{"type": "tool_use", "id": "e", "name": "Edit", "input": edit}], usage=None)
    session.user([{"type": "tool_result", "tool_use_id": "e", "content": "done"}])
    finish(session)
    recording = read_recording(save(session))
    weigher = Weigher(recording)
    with lamina_policy(weigher, config) as policy:
        result = replay(recording, policy, weigher=weigher)
        entries = policy.ledger().entries
    [reread] = result.rereads
    assert (reread.kind, reread.what) == ("file", "/f0")
    [fetched] = [e["value"] for e in entries if e["kind"] == "state" and e["name"] == FETCHED]
    assert fetched == pytest.approx(reread.tokens, rel=0.5)


@pytest.mark.spec("I4", "L2.4")
def test_real_sessions_cost_less_with_lamina_and_fit_the_window(
    real_data: Path, config: Config
) -> None:
    paths = sorted(
        (real_data / "claude-code-sessions").glob("*.jsonl"), key=lambda p: p.stat().st_size
    )
    spent = saved = 0.0
    for path in paths[4:24:5]:
        plain, result, _ = put_through(path, config)
        assert result.overflows == 0
        spent, saved = spent + plain.cost, saved + plain.cost - result.cost
        assert result.cost <= plain.cost * 1.03
    assert saved > 0.02 * spent


@pytest.mark.spec("L1.5", "L2.1", "L1.6", "I4")
def test_every_marker_of_recorded_sessions_leads_back_to_its_bytes(
    real_data: Path, config: Config
) -> None:
    """A small sample; `make bench-reach` does all of them."""
    paths = sorted(
        (real_data / "claude-code-sessions").glob("*.jsonl"), key=lambda p: p.stat().st_size
    )
    count = 0
    for path in paths[2:14:6]:
        weigher = Weigher(read_recording(path))
        with lamina_policy(weigher, config) as policy:
            replay(weigher.recording, policy, weigher=weigher)
            found, wrong = checked(policy, (r.thread for r in weigher.recording.requests))
        assert wrong == []
        count += found
    assert count > 5


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ask", "call", "result", "say", "back"]),
            st.integers(0, 5),
        ),
        max_size=25,
    )
)
def test_any_order_of_recorded_lines_is_replayed_without_a_fault(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[str, int]]
) -> None:
    session = Session()
    seen: list[str | None] = [None]
    session.user("begin")
    for kind, number in moves:
        if kind == "ask":
            session.user(f"question {number}")
        elif kind == "call":
            block = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {}}
            session.answer([block], usage=None)
        elif kind == "result":
            block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "x" * number}
            session.user([block])
        elif kind == "say":
            session.answer([{"type": "text", "text": f"answer {number}"}], usage=None)
        else:
            session.last = seen[number % len(seen)]
        seen.append(session.last)
    finish(session)
    folder = tmp_path_factory.mktemp("any")
    path = folder / "s.jsonl"
    path.write_text(session.text())
    config = load(folder, home=folder / "home", env={})
    plain, result, _ = put_through(path, config)
    assert len(result.requests) == len(plain.requests)


def background(path: Path, folder: Path, changes: Mapping[str, object]) -> PolicyResult:
    config = load(folder, home=folder / "home", env={}, overrides=changes)
    weigher = Weigher(read_recording(path))
    with lamina_policy(weigher, config) as policy:
        return replay(weigher.recording, policy, weigher=weigher)


@pytest.mark.spec("I4", "F10")
def test_the_calls_that_layers_would_make_are_charged_by_the_profile(
    session: Session, save: Save, tmp_path: Path
) -> None:
    for number in range(12):
        session.user(f"Please always run step-{number} before a release.")
        said = "".join(f"line {line} of output {number}\n" for line in range(150))
        work(session, 2, said, start=2 * number)
        finish(session)
        session.clock += 400 if number == 3 else 30
    path = save(session)
    often = background(path, tmp_path, {"background.profile": "every-turn"})
    seldom = background(path, tmp_path, {"background.profile": "saving"})
    assert set(often.background) - {"keep_warm"} == {
        "notes",
        "extraction",
        "reading",
        "recall",
        "dream",
    }
    assert set(seldom.background) - {"keep_warm"} == {
        "extraction",
        "reading",
        "recall",
        "dream",
    }
    # A fifth of a dream: by the small model, or by one that reads the conversation at each call.
    assert seldom.background["dream"][1] < often.background["dream"][1] / 10
    # After each turn, against: at the pause, when results left the view, and on leaving. What is
    # found takes a second call.
    assert 12 <= often.background["extraction"][0] <= 24
    assert 2 <= seldom.background["extraction"][0] <= 6
    assert seldom.cost < often.cost
    asked = [call.usage for request in seldom.requests for call in request.calls]
    # The small model is told what is new; the cache is kept only out of what was saved.
    assert all(usage.cache_read or usage.prompt < 10_000 for usage in asked)


@pytest.mark.spec("I4", "F10")
@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, {"extraction", "reading", "recall", "dream"}),
        ({"extraction.enabled": False}, {"recall", "dream"}),
        ({"memory.reader": False}, {"extraction", "recall", "dream"}),
        ({"recall.enabled": False}, {"extraction", "reading", "dream"}),
        ({"dream.enabled": False}, {"extraction", "reading", "recall"}),
        ({"small_model": "none"}, {"extraction", "dream"}),
        ({"memory.enabled": False}, set[str]()),
        ({"bare": True}, set[str]()),
    ],
)
def test_a_call_that_the_settings_rule_out_is_not_charged(
    session: Session, save: Save, tmp_path: Path, changes: Mapping[str, object], asked: set[str]
) -> None:
    session.user("Please always run step-3 before a release.")
    finish(session)
    found = background(save(session), tmp_path, {"cache.keep_warm": 0, **changes})
    assert set(found.background) == asked


@pytest.mark.spec("F14", "I4")
def test_a_recorded_pause_is_bridged_with_what_the_session_has_saved(
    session: Session, save: Save, tmp_path: Path
) -> None:
    session.user("look at this " * 2_000)
    work(session, 1, "".join(f"line {line} of a long file\n" for line in range(4_000)))
    work(session, 6, "short", start=1)
    finish(session)
    session.clock += 400
    session.user("go on")
    work(session, 2, "short", start=7)
    finish(session)
    path, found = save(session), dict[int, PolicyResult]()
    for most in (0, 2):
        changes = {"cache.keep_warm": most, "extraction.enabled": False}
        found[most] = background(path, tmp_path, changes)
    calls, _ = found[2].background["keep_warm"]
    assert 1 <= calls <= 4  # one before he is back; nobody knows that the session has ended
    assert "keep_warm" not in found[0].background
    # The first request after the pause, of which the request that kept the cache is a part.
    cold, warm = (result.requests[8].usage for result in found.values())
    assert cold.cache_write > 5_000 > warm.cache_write
