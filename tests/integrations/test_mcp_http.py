"""`lamina mcp --http` (I3): the official package's server answers as ours over stdio does, and only
whoever has the token, under a local Host and Origin."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from lamina.config import load
from lamina.integrations import mcp_http, mcp_stdio
from lamina.integrations.mcp_calls import Calls

httpx = pytest.importorskip("httpx2")
pytestmark = pytest.mark.spec("I3")
TOKEN = "a-token-for-this-test"
VERSION = "2025-06-18"
HEAD = {
    "Authorization": f"Bearer {TOKEN}",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": VERSION,
}
MEMORY = {
    "content": "Deploys run from the release branch.",
    "name": "Deploys",
    "description": "Deploys run from the release branch",
    "type": "project",
}
ASKED: list[tuple[str, dict[str, Any]]] = [
    (
        "initialize",
        {
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    ),
    ("tools/list", {}),
    ("ping", {}),
    ("tools/call", {"name": "remember", "arguments": MEMORY}),
    ("tools/call", {"name": "recall", "arguments": {"query": "where do deploys run from"}}),
    ("tools/call", {"name": "recall", "arguments": {"query": 5}}),
    ("tools/call", {"name": "recall", "arguments": {}}),
    ("tools/call", {"name": "recall", "arguments": {"query": "x", "odd": 1}}),
    ("tools/call", {"name": "inbox", "arguments": {}}),
    ("tools/call", {"name": "no_such_tool", "arguments": {}}),
]


def _posted(place: Path, *messages: Any, **head: str) -> list[Any]:
    """What the HTTP server says to each of these."""
    (place / "shop").mkdir(exist_ok=True)
    app = mcp_http.application(load(place / "shop", home=place / "home"), TOKEN)

    async def post() -> list[Any]:
        transport = httpx.ASGITransport(app=app)
        inner = app.app
        async with (
            inner.router.lifespan_context(inner),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as client,
        ):
            return [
                await client.post("/mcp", json=one, headers={**HEAD, **head}) for one in messages
            ]

    return anyio.run(post)


def _over_stdio(place: Path, *messages: Any) -> Iterator[Any]:
    (place / "shop").mkdir(exist_ok=True)
    calls = Calls(str(place / "shop"), str(place / "home"))
    try:
        for one in messages:
            yield mcp_stdio.answer_to(json.dumps(one).encode(), calls.call)
    finally:
        calls.close()


def test_both_servers_give_the_same_answers(tmp_path: Path) -> None:
    messages = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(ASKED, 1)
    ]
    places = tmp_path / "first", tmp_path / "other"
    for place in places:
        place.mkdir()
    over_http = [json.loads(one.content) for one in _posted(places[0], *messages)]
    for asked, one, other in zip(ASKED, over_http, _over_stdio(places[1], *messages), strict=True):
        ours = json.loads(json.dumps(other).replace("other", "first"))
        assert one == ours, asked


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer another"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:8765"}, 200),
        ({}, 200),
    ],
)
def test_only_the_token_and_a_local_name_are_let_in(
    tmp_path: Path, head: dict[str, str], status: int
) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}
    (answer,) = _posted(tmp_path, ping, **head)
    assert answer.status_code == status


def test_the_token_is_private_and_stays(tmp_path: Path) -> None:
    first = mcp_http._token(tmp_path / "home")
    assert mcp_http._token(tmp_path / "home") == first
    assert len(first) > 40
    assert stat.S_IMODE((tmp_path / "home" / mcp_http.TOKEN).stat().st_mode) == 0o600
