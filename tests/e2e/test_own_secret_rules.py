"""A company's own secret rules hold for what the agent remembers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tests.sessions import Place, run

from lamina.errors import GateRefused
from lamina.memories import Proposal

RULES = """
[[rules]]
id = "acme-token"
description = "ACME's own tokens"
regex = '''acme_[a-z]{12}'''
keywords = ["acme_"]
"""


@pytest.mark.spec("L5.6")
def test_rules_named_in_the_settings_reach_the_gate_of_a_session(tmp_path: Path) -> None:
    place = Place(tmp_path)
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)

    async def story() -> None:
        async with place.open([], config={"secrets.rules": [str(rules)]}) as session:
            store = session.state.deps.memory
            assert store is not None
            wish = Proposal(
                "reference_key.md", "Key", "Where the key is", "reference",
                "The key is acme_abcdefghijkl\n", "user",
            )  # fmt: skip
            with pytest.raises(GateRefused, match="acme-token"):
                store.judge(wish, None, None)
            store.write(dataclasses.replace(wish, writer="extraction"))
            [item] = store.inbox.items()
            assert item.proposal.body == "The key is [secret removed: acme-token]\n"

    run(story)
