"""The server does what its own description says, whatever is sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.examples import examples
from tests.team.people import Server, topic

from lamina.team.entries import EMPTY

served: Any = pytest.importorskip("lamina.team.server", reason="the server needs lamina[team]")
schemathesis: Any = pytest.importorskip("schemathesis", reason="it is in lamina[dev]")
OPERATIONS = [
    found.ok()
    for found in schemathesis.openapi.from_dict(served.description()).get_all_operations()
    if "claude_code" not in found.ok().path  # the same handlers
]
LIKELY = st.fixed_dictionaries(
    {"repo": st.sampled_from(["acme/shop", "acme/shop", "acme/shop", "other/shop", "\x00/ä"])},
    optional={
        "key": st.sampled_from(["a.md", "../a.md", "\x00", "gone.md"]),
        "version": st.sampled_from(["1", "0", "-1", "9" * 30, "٣"]),
        "If-Match": st.sampled_from([f'"{EMPTY}"', "*", '"', "ä"]),
    },
)


@pytest.mark.spec("T2")
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
def test_whatever_is_sent_the_answer_is_described_and_no_failure(
    request: pytest.FixtureRequest, tenant: str, operation: Any, database: str
) -> None:
    server: Server = request.getfixturevalue(f"{database}_server")
    token, secret = server.database.create_token(tenant, "ana", "acme/*", writes=True)
    server.database.write(token, "acme/shop", {"a.md": topic("A mill")}, EMPTY)
    described = operation.definition.raw["responses"]

    @examples(400, suppress=[HealthCheck.too_slow, HealthCheck.filter_too_much])
    @given(case=operation.as_strategy(), likely=LIKELY)
    def try_it(case: Any, likely: dict[str, str]) -> None:
        """What is drawn alone hardly ever gets past the first check."""
        for name, value in likely.items():
            part = case.headers if name == "If-Match" else case.query
            if part is not None and name in part:
                part[name] = value
        answer = case.call(base_url=server.url, headers={"Authorization": f"Bearer {secret}"})
        assert answer.status_code < 500, answer.text
        assert str(answer.status_code) in described, answer.text

    try_it()
