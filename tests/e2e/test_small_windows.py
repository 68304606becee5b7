"""Windows at their edges, with default settings: a small one, one that turns out smaller than was
thought, one that the summary needs to the last token, and one that a name claims in vain.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.layers.talks import answers, filler, model, summary, talk
from tests.sessions import Place, run
from tests.wire.server import Answer, WireServer, fails, says

from lamina.errors import ModelConfigError
from lamina.ledger import tokens
from lamina.models import open_model
from lamina.models.scripted import ScriptedModel, Step
from lamina.ports import Capabilities
from lamina.session import Session

SMALL = Capabilities(window=8_192, max_output=2_048, images=False)


@pytest.mark.spec("F3", "F6")
def test_a_model_with_a_small_window_talks_and_remembers_with_default_settings(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    said = {
        "tool_use": [
            {
                "name": "Remember",
                "input": {
                    "content": "I want tabs in all files.",
                    "name": "tabs",
                    "description": "I want tabs in all files.",
                    "type": "feedback",
                },
            }
        ]
    }

    async def story() -> None:
        scripted = ScriptedModel([said, "I keep that.", *["ok"] * 9], capabilities=SMALL)
        async with place.open(scripted) as session:
            assert (await session.ask("Remember: I want tabs in all files.")).text == "I keep that."
            for n in range(9):
                reply = await session.ask(f"Question {n}: what is next?")
                assert (reply.text, reply.stop) == ("ok", "end_turn")
            assert session.ledger.frame_tokens < SMALL.window // 4
        first = scripted.requests[0]
        assert {"Read", "Write", "Edit", "Bash", "Remember", "Recall"} <= {
            tool["name"] for tool in first.tools
        }
        again = ScriptedModel(["hello"], capabilities=SMALL)
        async with place.open(again) as session:
            await session.ask("hello")
        assert "want tabs in all files" in str(again.requests[0].system)

    run(story)


@pytest.mark.spec("F3")
def test_a_frame_that_is_larger_than_the_window_is_told_with_its_size(tmp_path: Path) -> None:
    place = Place(tmp_path)
    tiny = Capabilities(window=1_200, max_output=300)

    async def story() -> None:
        scripted = ScriptedModel(["never"], capabilities=tiny)
        async with place.open(scripted) as session:
            reply = await session.ask("hello")
            assert reply.stop == "blocked"
            [told] = [e.message for e in reply.events if e.kind == "warned"]
            assert f"{session.ledger.frame_tokens:,} tokens" in told
            assert "1,200" in told
        assert not scripted.requests

    run(story)


def _endpoint(limit: int, seen: list[int]) -> Any:
    """An endpoint with a window of so many tokens, 4 bytes each."""

    def rule(body: dict[str, Any]) -> Answer:
        size = len(json.dumps([body["messages"], body.get("tools")])) // 4
        seen.append(size)
        if size > limit:
            message = f"This model's maximum context length is {limit} tokens. However, your "
            message += f"messages resulted in {size} tokens."
            return fails(400, "invalid_request_error", message, code="context_length_exceeded")
        usage = {"prompt_tokens": size, "completion_tokens": 5, "total_tokens": size + 5}
        return says("fine", usage=usage)

    return rule


@pytest.mark.spec("F3", "F11")
def test_a_limit_that_an_endpoint_names_is_remembered_for_that_model_and_address(
    wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", wire.openai_url)
    seen: list[int] = []
    limit = 4_096
    wire.rule = _endpoint(limit, seen)

    async def story(turns: int) -> None:
        async with Session.open(
            tmp_path / "project", "openai:house-model", home=tmp_path / "home"
        ) as session:
            for n in range(turns):
                reply = await session.ask(f"Question {n}: " + filler(n, 150))
                assert (reply.text, reply.stop) == ("fine", "end_turn")
            assert session.state.window.size == limit

    run(story, 20)
    assert sum(size > limit for size in seen) == 1
    seen.clear()
    run(story, 3)
    assert not [size for size in seen if size > limit]
    other = open_model(
        "openai:other", options={"base_url": wire.openai_url, "limits": tmp_path / "home" / "x"}
    )
    assert other.capabilities.window == 200_000


@pytest.mark.spec("F3")
def test_a_long_window_is_sent_for_refused_or_had_anyway() -> None:
    with pytest.raises(ModelConfigError, match=r"200,000 tokens and no longer one"):
        open_model("anthropic:claude-opus-4-5[1m]")
    assert open_model("anthropic:claude-sonnet-4-5[1m]").capabilities.window == 1_000_000
    assert open_model("anthropic:claude-sonnet-4-6[1m]").capabilities.window == 1_000_000


@pytest.mark.spec("L4.1", "L4.6", "F3")
def test_the_summary_may_use_the_room_that_is_kept_for_it(tmp_path: Path) -> None:
    """One result jumps past the blocking mark: the summariser still sees all of it."""
    place = Place(tmp_path)
    can = Capabilities(window=60_000, max_output=8_000, cache="anthropic", min_cacheable=0)

    async def story() -> None:
        scripted = model([*answers(2, 22_300), "done"], can=can, summary=summary())
        config = {"notes.enabled": False, "memory.enabled": False, "compact.auto": False}
        async with place.open(scripted, config=config) as session:
            await talk(session, 2)
            tokens_now, window = session.ledger.tokens(), session.state.window
            assert window.blocking < tokens_now < window.size - 3_000
            done = await session.compact()
            assert done.source == "model"
        [asked] = [r for r in scripted.requests if r.purpose == "summary"]
        assert filler(0, 50) in str(asked.messages)
        assert 0 < asked.max_tokens < can.window - tokens_now

    run(story)


@pytest.mark.spec("F2")
@pytest.mark.parametrize(
    ("printed", "bytes_a_token"),
    [
        (json.dumps([{"n": n, "name": f"row {n}"} for n in range(500)]), 2),
        ("\n".join(json.dumps({"n": n}) for n in range(500)), 2),
        ("[x] done\n[ ] open\n" * 500 + "[ ]", 4),
        ("plain words " * 500, 4),
        ("{" * 5_000 + "}", 4),
    ],
)
def test_json_in_a_result_counts_two_bytes_a_token(printed: str, bytes_a_token: int) -> None:
    for content in (printed, [{"type": "text", "text": printed}]):
        block = {"type": "tool_result", "tool_use_id": "t", "content": content}
        assert abs(tokens.of_block(block) - len(printed) / bytes_a_token) <= 2


@pytest.mark.spec("F8", "F11")
@pytest.mark.parametrize("recover", [False, True])
def test_with_everything_off_a_refused_prompt_is_told_unless_recovery_is_on(
    tmp_path: Path, *, recover: bool
) -> None:
    from tests.sessions import use

    from lamina.errors import PromptTooLong

    place = Place(tmp_path)
    (place.project / "a.txt").write_text("some words\n" * 500)
    off = dict.fromkeys(
        (
            "microcompact.time_based",
            "microcompact.worn",
            "microcompact.cache_edits",
            "microcompact.api_management",
            "compact.auto",
        ),
        False,
    )

    async def story() -> None:
        reads = [use("Read", f"c{n}", file_path="a.txt") for n in range(8)]
        steps = [*reads, "read", Step({"error": "prompt_too_long"}), "recovered"]
        config = {**off, "turn.recover": recover, "memory.enabled": False}
        async with place.open(model(steps), config=config) as session:
            await session.ask("read it again and again")
            edits = [e for e in session.ledger.entries if e["kind"] == "edit"]
            if recover:
                assert (await session.ask("and?")).text == "recovered"
                return
            with pytest.raises(PromptTooLong):
                await session.ask("and?")
            assert [e for e in session.ledger.entries if e["kind"] == "edit"] == edits

    run(story)
