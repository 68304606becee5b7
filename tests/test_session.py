"""The front of the library, as a host's program uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sessions import Place, run

from lamina.errors import LaminaError, ModelConfigError, SettingsError, UsageError


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


BAD: list[tuple[dict[str, Any], type[LaminaError]]] = [
    ({"model": "nobody:x"}, ModelConfigError),
    ({"model": "none", "hooks": {"BeforeTool": print}}, SettingsError),
    ({"model": "none", "tools": [3]}, UsageError),
]


@pytest.mark.spec("I1")
@pytest.mark.parametrize(("wishes", "kind"), BAD)
def test_what_can_not_be_opened_is_a_plain_error_and_leaves_no_session(
    place: Place, wishes: dict[str, Any], kind: type[LaminaError]
) -> None:
    model = wishes["model"]
    others = {name: value for name, value in wishes.items() if name != "model"}

    async def story() -> None:
        async with place.open(model, **others):
            pytest.fail("it opened")

    with pytest.raises(kind):
        run(story)
    with pytest.raises(kind), place.open(model, **others):
        pytest.fail("it opened")
    assert list(place.home.rglob("*.jsonl")) == []
