"""Extraction and dream through the official packages, against a server that speaks their wire formats:
what is sent, what is kept, what a failing provider and a spent cap do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.memories import directory
from tests.sessions import Place, run
from tests.wire.server import Answer, WireServer, fails, says

from lamina.errors import ModelError
from lamina.events import Event, Warned
from lamina.layers import dream
from lamina.layers.dream import runner
from lamina.memory.file_store import FileStore
from lamina.testing import a_memory

MODELS = {"anthropic": "anthropic:claude-sonnet-4-6", "openai": "openai:gpt-5.4-mini"}
SAID = "Please never mock the database in integration tests."
RULE = (
    "---\nname: No mocked database\ndescription: never mock the database in integration tests\n"
    "type: feedback\n---\n\nNever mock the database in integration tests.\n\n"
    f"```evidence\nm1: {SAID}\n```\n"
)
DOUBTED = RULE.replace("never mock", "always mock").replace("Never mock", "Always mock")


@pytest.fixture
def place(tmp_path: Path, wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> Place:
    for provider, url in (("ANTHROPIC", wire.anthropic_url), ("OPENAI", wire.openai_url)):
        monkeypatch.setenv(f"{provider}_API_KEY", "k")
        monkeypatch.setenv(f"{provider}_BASE_URL", url)
    return Place(tmp_path)


def writes(*files: tuple[Path, str]) -> Answer:
    return Answer(
        content=[
            {
                "type": "tool_use",
                "id": f"call_{number}",
                "name": "Write",
                "input": {"file_path": str(path), "content": content},
            }
            for number, (path, content) in enumerate(files)
        ]
    )


async def talk(place: Place, model: str, *words: str, **wishes: Any) -> list[Event]:
    heard: list[Event] = []
    async with place.open(model, interactive=True, on_event=heard.append, **wishes) as session:
        for said in words:
            await session.ask(said)
            await session.drain()  # the server answers in the order in which it is asked
    return heard


def texts(body: Any) -> str:
    return str(body["messages"])


@pytest.mark.spec("L5.1", "L5.5", "L5.6")
@pytest.mark.parametrize("provider", [*MODELS])
def test_extraction_keeps_what_was_typed_and_asks_on_the_parents_prompt(
    place: Place, wire: WireServer, provider: str
) -> None:
    memory = directory(place)
    wire.will(
        says("I won't."),
        writes((memory / "feedback_no_mocks.md", RULE), (memory / "feedback_turned.md", DOUBTED)),
        says('{"meant": true}'),
        says("done"),
    )
    config = {"background.profile": "every-turn"}
    heard = run(lambda: talk(place, MODELS[provider], SAID, config=config))
    assert [event.files for event in heard if event.kind == "memory_updated"] == [  # type: ignore[attr-defined]
        ("feedback_no_mocks.md",)
    ]
    with FileStore(memory) as store:
        assert [one.path for one in store.list()] == ["feedback_no_mocks.md"]
        assert [one.proposal.path for one in store.inbox.items()] == ["feedback_turned.md"]
    parent, fork, reading, after = [received.body for received in wire.received]
    assert "<fork-directive>" in texts(fork)
    assert f'>> person: "{SAID}"' in texts(reading)  # the small model, and nothing of the fork's
    assert "<fork-directive>" not in texts(reading)
    assert not reading.get("tools")
    assert f"m1 (Monday 2026-09-21): {SAID}" in texts(fork)
    assert "Memory updated: feedback_no_mocks.md" in texts(after)
    assert "waits in the inbox" in texts(after)
    if provider == "anthropic":
        assert [tool["name"] for tool in fork["tools"]] == [t["name"] for t in parent["tools"]]


HARBOUR = ("The harbour office closes at five.", "The ferry leaves from pier three.")


async def dreamt(place: Place, model: str, **wishes: Any) -> tuple[Any, list[Event], list[str]]:
    """A dream over two facts: how it ended, what was heard, and the files there are then."""
    heard: list[Event] = []
    async with place.open(model, on_event=heard.append, **wishes) as session:
        store = session.state.deps.memory
        assert store is not None
        for name, words in zip(("harbour.md", "ferry.md"), HARBOUR, strict=True):
            store.write(a_memory(name, name=name[:-3], description=words, body=f"{words}\n"))
        try:
            done = await dream.run(session.state)
        except ModelError as error:
            done = error
        return done, heard, sorted(one.path for one in store.list())


@pytest.fixture
def copy(place: Place, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the next dream works; it has its name from chance otherwise."""

    def token_hex(_bytes: int) -> str:
        return "f00d"

    monkeypatch.setattr(runner, "secrets", SimpleNamespace(token_hex=token_hex))
    return directory(place).with_name("memory.lamina") / "dream" / "copy-f00d"


def reads(copy: Path, *names: str) -> Answer:
    return Answer(
        content=[
            {
                "type": "tool_use",
                "id": name,
                "name": "Read",
                "input": {"file_path": str(copy / name)},
            }
            for name in names
        ]
    )


@pytest.mark.spec("L6.3", "L6.4")
@pytest.mark.parametrize("provider", [*MODELS])
def test_a_dream_takes_over_what_a_provider_made_of_the_copy(
    place: Place, wire: WireServer, copy: Path, provider: str
) -> None:
    head = f"---\nname: harbour\ndescription: {HARBOUR[0]}\ntype: project\n---\n\n"
    both = f"{head}{HARBOUR[0]}\n\n{HARBOUR[1]}\n"
    wire.will(
        reads(copy, "harbour.md", "ferry.md"),
        writes((copy / "harbour.md", both), (copy / "ferry.md", "gone: it is in harbour.md")),
        says("done"),
    )
    done, _, files = run(lambda: dreamt(place, MODELS[provider]))
    assert (done.status, done.by, done.problems) == ("completed", "model", ())
    assert files == ["harbour.md"]
    assert not copy.exists()


@pytest.mark.spec("L6.4", "L6.5", "F10")
def test_a_provider_that_fails_in_the_middle_leaves_memory_as_it_was(
    place: Place, wire: WireServer, copy: Path
) -> None:
    wire.will(
        reads(copy, "ferry.md"),
        writes((copy / "ferry.md", "gone: nobody needs it")),
        fails(400, "invalid_request_error", "no more"),
        fails(400, "invalid_request_error", "no more"),  # once more, with the conversation's model
    )
    done, heard, files = run(lambda: dreamt(place, MODELS["anthropic"]))
    assert isinstance(done, ModelError)
    assert files == ["ferry.md", "harbour.md"]
    assert [event.status for event in heard if event.kind == "dream_changed"][-1] == "failed"  # type: ignore[attr-defined]
    assert not copy.exists()
    asked = len(wire.received)
    again, _, _ = run(lambda: dreamt(place, "none"))
    assert again.status in ("nothing", "completed")
    assert len(wire.received) == asked


@pytest.mark.spec("L5.1", "F10")
def test_at_its_cap_in_dollars_background_work_makes_no_further_call(
    place: Place, wire: WireServer
) -> None:
    memory = directory(place)
    dear = writes((memory / "feedback_no_mocks.md", RULE))
    dear.usage = {"input_tokens": 50_000, "output_tokens": 20_000}
    wire.will(says("I won't."), dear, *[says("Good.")] * 3)
    config = {"spend.daily_cap": 0.2, "recall.enabled": False}
    again = [f"Word {n} is enough." for n in range(2)]
    heard = run(lambda: talk(place, MODELS["anthropic"], SAID, *again, config=config))
    assert len(wire.received) == 4, "three turns, and the one call that reached the cap"
    told = [event.message for event in heard if isinstance(event, Warned)]
    assert [word for word in told if "cap of $0.2 is spent" in word] == told
    assert len(told) == 1
    assert "feedback_no_mocks.md" in (memory / "MEMORY.md").read_text(), "what was done stays"
