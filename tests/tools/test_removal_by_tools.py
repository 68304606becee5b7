"""Whatever tool the agent takes, and whatever extraction writes: what a person said stays."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.memories import directory
from tests.sessions import Place, run, use

from lamina.memories import Proposal
from lamina.memory.file_store import FileStore
from lamina.memory.paths import memory_place
from lamina.memory.review import accept, inbox_diff
from lamina.models.scripted import ScriptedModel, Step

pytestmark = pytest.mark.spec("L5.9", "M9")

ROLE = "The user is a senior data scientist."
TYPED = "I am also allergic to peanuts"
NUTS = "I am also allergic to peanuts."
BASH = {"permissions.allow": ["Bash"], "sandbox.profile": "full"}


def topic(body: str, description: str, kind: str = "user", name: str = "role") -> str:
    return f"---\nname: {name}\ndescription: {description}\ntype: {kind}\n---\n\n{body}\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.clock.at = time.time() + 60  # after what lies in memory already
    return place


def saved(place: Place, how: str, kind: str, text: str = ROLE) -> Path:
    """A memory at role.md: by hand, or by `lamina memory add`."""
    where = memory_place(place.home, place.project)
    file = where.directory / "role.md"
    description = text.rstrip(".")
    if how == "by hand":
        file.parent.mkdir(parents=True)
        file.write_text(topic(text, description, kind))
    else:
        wish = Proposal("role.md", "role", description, kind, f"{text}\n", "user")  # type: ignore[arg-type]
        with FileStore(where.directory, where.state) as store:
            store.write(wish)
    return file


def calls(tool: str, file: Path, body: str, description: str, kind: str) -> list[Any]:
    """Steps by which the agent puts one text in the place of the other."""
    new = topic(body, description, kind)
    read = use("Read", file_path=str(file))
    whole = file.read_text()
    remembered = {
        "content": body, "name": "role", "description": description, "type": kind, "file": "role.md",
    }  # fmt: skip
    return {
        "Write": [read, use("Write", file_path=str(file), content=new)],
        "Edit": [read, use("Edit", file_path=str(file), old_string=whole, new_string=new)],
        "Remember": [{"tool_use": [{"name": "Remember", "input": remembered}]}],
        "Bash >": [use("Bash", command=f"cat > {file} <<'END'\n{new}END")],
        "Bash rm": [use("Bash", command=f"rm {file}")],
    }[tool]  # fmt: skip


TOOLS = ["Write", "Edit", "Remember", "Bash >", "Bash rm"]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("how", "kind"), [("by hand", "user"), ("by command", "user"), ("by hand", "project")]
)
def test_no_tool_replaces_a_memory_whole(place: Place, tool: str, how: str, kind: str) -> None:
    file = saved(place, how, kind)
    before = file.read_text()
    steps = calls(tool, file, NUTS, TYPED, kind)

    async def story() -> None:
        async with place.open([*steps, "ok"], config=BASH) as session:
            await session.ask(TYPED)
            assert file.read_text() == before
            store = session.state.deps.memory
            assert store is not None
            [item] = store.inbox.items()
            assert f"-{ROLE}" in inbox_diff(store, item)
            accept(store, item.id)
        if tool == "Bash rm":
            assert not file.exists()
        else:
            assert ROLE not in file.read_text()
            assert NUTS in file.read_text()

    run(story)


@pytest.mark.parametrize("tool", ["Write", "Edit", "Remember"])
@pytest.mark.parametrize("how", ["by hand", "by command"])
def test_what_the_user_typed_is_added_to_what_stands_there(
    place: Place, tool: str, how: str
) -> None:
    file = saved(place, how, "user")
    steps = calls(tool, file, f"{ROLE}\n{NUTS}", ROLE.rstrip("."), "user")

    async def story() -> None:
        async with place.open([*steps, "ok"]) as session:
            await session.ask(TYPED)
        assert f"{ROLE}\n{NUTS}" in file.read_text()

    run(story)


@pytest.mark.parametrize("tool", ["Write", "Edit", "Remember"])
@pytest.mark.parametrize("how", ["by hand", "by command"])
def test_a_newer_typed_word_takes_the_place_of_the_old_one(
    place: Place, tool: str, how: str
) -> None:
    file = saved(place, how, "user", "The user lives in Oslo.")
    new = "I live in Berlin now"
    steps = calls(tool, file, f"{new}.", new, "user")

    async def story() -> None:
        async with place.open([*steps, "ok"]) as session:
            await session.ask("I live in Berlin now")
        assert "Oslo" not in file.read_text()
        assert f"{new}." in file.read_text()

    run(story)


# Not `Bash >`: of what a command writes nothing is known that would prove it.
@pytest.mark.parametrize("tool", ["Write", "Edit", "Remember", "Bash rm"])
def test_a_wish_to_forget_it_lets_any_tool_remove_it(place: Place, tool: str) -> None:
    file = saved(place, "by command", "user")
    steps = calls(tool, file, NUTS, TYPED, "user")

    async def story() -> None:
        async with place.open([*steps, "ok"], config=BASH) as session:
            await session.ask(f"Forget that I am a senior data scientist. {TYPED}.")
        assert ROLE not in (file.read_text() if file.exists() else "")

    run(story)


@pytest.mark.parametrize("how", ["by hand", "by command"])
def test_extraction_adds_to_a_memory_and_replaces_none(place: Place, how: str) -> None:
    file = saved(place, how, "user")
    before = file.read_text()
    proof = f"\n```evidence\nm1: {TYPED}\n```\n"
    read = use("Read", file_path=str(file))
    whole = use("Write", file_path=str(file), content=topic(NUTS, TYPED, name=TYPED) + proof)
    more = use("Edit", file_path=str(file), old_string=ROLE, new_string=f"{ROLE}\n{NUTS}{proof}")

    async def story(call: Any) -> None:
        steps = [Step(one, purpose="extraction") for one in (read, call, "done")]
        model = ScriptedModel(["ok", *steps])
        async with place.open(model, interactive=True) as session:
            await session.ask(TYPED)

    run(story, whole)
    assert file.read_text() == before
    run(story, more)
    assert f"{ROLE}\n{NUTS}" in file.read_text()


def test_the_memory_of_another_tool_is_kept_as_well(place: Place) -> None:
    where = memory_place(place.home, place.project, claude=True)
    where.directory.mkdir(parents=True)
    file = where.directory / "role.md"
    file.write_text(topic(ROLE, "Who they are", "reference"))
    new = topic("The office is in Oslo.", "Where", "reference")
    with FileStore(where.directory, where.state) as store:
        old = file.read_bytes()
        outcome = store.write_file("role.md", new.encode(), writer="extraction", base=old)
        assert outcome.decision == "inbox"
        assert file.read_bytes() == old


@pytest.mark.parametrize("kind", ["user", "project"])
def test_the_agent_forgets_nothing_that_a_person_wrote_unless_they_ask(
    place: Place, kind: str
) -> None:
    file = saved(place, "by hand", kind)
    forget = use("Forget", memory="role.md")

    async def story() -> None:
        async with place.open([forget, "ok", forget, "ok"]) as session:
            await session.ask("tidy up the build folder")
            assert file.exists()
            await session.ask("forget that I am a senior data scientist")
        assert not file.exists()
        assert directory(place).is_dir()

    run(story)
