"""Expand: whatever left the view can be looked at again, by the agent and by a person."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.layers.talks import NO_NOTES, answer, answers, model, question, summary, talk, view_text
from tests.sessions import Place, run, use

from lamina.errors import UsageError
from lamina.ledger.record import Ledger
from lamina.ledger.spans import expand, find, shown
from lamina.models.scripted import Step


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.spec("L4.8", "L4.10")
def test_the_agent_looks_into_a_summary_by_the_id_that_it_shows(place: Place) -> None:
    async def story() -> None:
        seen: list[str] = []

        def look(request: object) -> object:
            words = str(list(request.messages))  # type: ignore[attr-defined]
            name = words.split("and [#")[1][:8]
            seen.append(name)
            return use("Expand", id=f"[#{name}]", search="port 7001 took")

        steps = [
            *answers(9),
            Step(look),
            Step("found", {"last_result": "The parser for port 7001 took 1001 ms."}),
        ]
        async with place.open(model(steps, summary=summary()), config=NO_NOTES) as session:
            await talk(session, 9)
            done = await session.compact()
            assert answer(1) not in view_text(session)
            before = len(session.ledger.projection.rows)
            assert (await session.ask("what was it?")).text == "found"
            assert seen == [done.edit[:8]]
            assert len(session.ledger.projection.rows) > before

    run(story)


@pytest.mark.spec("L4.2")
def test_every_reference_in_a_summary_leads_to_its_entry(place: Place) -> None:
    import re

    async def story() -> None:
        async with place.open(model(answers(9), summary=summary()), config=NO_NOTES) as session:
            await talk(session, 9)
            await session.compact()
            found = set(re.findall(r"\[#([0-9a-f]{8})\]", view_text(session)))
            assert len(found) >= 9
            for name in found:
                assert expand(session.ledger.projection, name)
            assert any(question(0) in expand(session.ledger.projection, name) for name in found)

    run(story)


@pytest.mark.spec("L4.8")
def test_an_unknown_short_or_doubtful_id_is_refused_in_one_sentence() -> None:
    ledger = Ledger.of(
        [
            {"kind": "message", "uuid": "aaaa1111", "role": "user", "content": [], "origins": []},
            {"kind": "message", "uuid": "aaaa2222", "role": "user", "content": [], "origins": []},
        ]
    )
    with pytest.raises(UsageError, match="too short"):
        find(ledger.projection, "aa")
    with pytest.raises(UsageError, match="no entry"):
        find(ledger.projection, "bbbb")
    with pytest.raises(UsageError, match="2 entries begin"):
        find(ledger.projection, "aaaa")
    assert find(ledger.projection, "[#aaaa1]")["uuid"] == "aaaa1111"


blocks = st.one_of(
    st.builds(lambda t: {"type": "text", "text": t}, st.text(max_size=50)),
    st.builds(
        lambda t: {"type": "tool_result", "tool_use_id": "x", "content": t},
        st.one_of(st.text(max_size=50), st.none(), st.integers(), st.lists(st.text(max_size=5))),
    ),
    st.just({"type": "image"}),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)


@pytest.mark.spec("L4.8")
@given(st.lists(blocks, max_size=6))
def test_any_content_can_be_shown_and_texts_are_shown_whole(
    content: list[dict[str, object]],
) -> None:
    entry = {"kind": "message", "uuid": "u" * 8, "role": "user", "content": content, "ts": None}
    words = "\n".join(shown([entry]))
    for block in content:
        if block.get("type") == "text":
            assert str(block["text"]) in words
