"""The log of a day: it only grows, and what is added to it is in the history."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.memories import directory, put
from tests.sessions import Place, run, use

from lamina.memory.file_store import FileStore

DAY = "logs/2026/09/2026-09-21.md"
FIRST, SECOND = "- 09:00 The mascot is a walrus.\n", "- 10:00 The harbour has nine cranes.\n"


@pytest.mark.spec("L6.7")
def test_a_past_line_of_a_log_stays_and_what_is_added_is_in_the_history(tmp_path: Path) -> None:
    place = Place(tmp_path)
    put(place, "project_host.md", "The build host is called pelican.")
    file = directory(place) / DAY
    steps = [
        use("Write", file_path=str(file), content=FIRST),
        use("Write", file_path=str(file), content="- gone\n"),
        use("Edit", file_path=str(file), old_string="walrus", new_string="seal"),
        use("Write", file_path=str(file), content=FIRST + SECOND),
        "ok",
    ]

    async def story() -> str:
        config = {"memory.daily_log": True, "permissions.allow": ["Write", "Edit"]}
        async with place.open(steps, config=config) as session:
            await session.ask("keep a diary")
            return str([*session.view().messages])

    view = run(story)
    assert view.count("whose lines stay as they are") == 2
    assert file.read_text() == FIRST + SECOND
    with FileStore(directory(place)) as store:
        assert store.catch_up() == [], "a log is not taken for a memory that somebody removed"
        logged = list(store.history.log(DAY))
        assert [one.writer for one in logged] == ["agent", "agent"]
        assert store.history.content(DAY, logged[-1].id) == FIRST.encode()
