"""The interface of the team's server, as OpenAPI has it. Data only."""

from __future__ import annotations

from typing import Any

from lamina._version import __version__

PATHS = ("/api/team_memory", "/api/claude_code/team_memory")

_STRING = {"type": "string"}
_WHOLE = {"type": "integer", "minimum": 0}
_ENTRY: dict[str, Any] = {
    "type": "object",
    "required": ["author", "at", "version"],
    "properties": {
        "content": _STRING,
        "sha256": _STRING,
        "author": _STRING,
        "at": {"type": "number"},
        "version": _WHOLE,
        "removed": {"type": "boolean"},
    },
}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": [*properties], "properties": properties}


_STANDING = {"repo": _STRING, "version": _WHOLE, "etag": _STRING}
_PAGE = _object(
    **_STANDING,
    you=_STRING,
    whole={"type": "boolean"},
    more={"type": "boolean"},
    entries={"type": "object", "additionalProperties": _ENTRY},
)
_HASHES = _object(**_STANDING, hashes={"type": "object", "additionalProperties": _STRING})
_REFUSAL = _object(error=_STRING, details={"type": "object", "additionalProperties": _STRING})
_WHY = {
    "400": "The request can't be read.",
    "401": "No valid token.",
    "403": "The token may not write.",
    "404": "There is no such thing, or the token does not reach it.",
    "408": "The body took too long.",
    "412": "The team's memory has changed: pull first.",
    "413": "Too large, or too many.",
    "422": "A file may not be shared; `details` says which and why.",
    "428": "If-Match is missing.",
    "429": "Too many requests.",
    "503": "The database is away.",
}


def _parameter(name: str, where: str = "query", **more: Any) -> dict[str, Any]:
    return {"name": name, "in": where, "schema": _STRING, **more}


_REPO = _parameter("repo", required=True, description="owner/name")
_KEY = _parameter("key", description="a memory's path below team/")
_SECURITY: Any = [{"token": []}]
_IF_MATCH = _parameter("If-Match", "header", required=True, description="the ETag last seen")


def _operation(
    summary: str, answer: dict[str, Any], *parameters: Any, **more: Any
) -> dict[str, Any]:
    refusals: dict[str, Any] = {
        status: {"description": why, "content": {"application/json": {"schema": _REFUSAL}}}
        for status, why in _WHY.items()
    }
    good: Any = {"description": "Done.", "content": {"application/json": {"schema": answer}}}
    responses: dict[str, Any] = {"200": good, **more.pop("also", {}), **refusals}
    return {
        "summary": summary,
        "security": _SECURITY,
        "parameters": [_REPO, *parameters],
        "responses": responses,
        **more,
    }


def _routes(start: str) -> dict[str, Any]:
    view = {**_parameter("view"), "schema": {"type": "string", "enum": ["hashes"]}}
    etag = _parameter("If-None-Match", "header", description="the ETag last seen")
    since = _parameter("since", description="the etag from which changes are wanted")
    put = _object(
        entries={
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["content"],
                "properties": {"content": _STRING, "sha256": _STRING},
            },
        }
    )
    body = {"required": True, "content": {"application/json": {"schema": put}}}
    number = {**_parameter("version", required=True), "schema": _WHOLE}
    written = _object(**_STANDING, you=_STRING)
    same = {"304": {"description": "Nothing new."}}
    versions = _object(repo=_STRING, versions={"type": "array", "items": _ENTRY})
    member = _object(name=_STRING, writes={"type": "boolean"})
    members = _object(repo=_STRING, members={"type": "array", "items": member})
    needed = {**_KEY, "required": True}
    read = {"anyOf": [_PAGE, _HASHES]}
    return {
        start: {
            "get": _operation("Memories, all or changed", read, view, since, etag, also=same),
            "put": _operation("Write memories", written, _IF_MATCH, requestBody=body),
            "delete": _operation("Remove one for everybody", written, needed, _IF_MATCH),
        },
        f"{start}/history": {"get": _operation("Versions, newest first", versions, _KEY)},
        f"{start}/version": {"get": _operation("One version", _ENTRY, needed, number)},
        f"{start}/members": {"get": _operation("Who shares it", members)},
    }


def _plain(summary: str, kind: str = "application/json") -> dict[str, Any]:
    good: Any = {"description": "Done.", "content": {kind: {"schema": {}}}}
    return {
        "get": {"summary": summary, "responses": {"200": good, "503": {"description": "Away."}}}
    }


DESCRIPTION: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Lamina team memory", "version": __version__},
    "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    "paths": {
        **_routes(PATHS[0]),
        **_routes(PATHS[1]),
        "/healthz": _plain("Is it well?"),
        "/metrics": _plain("Counters for Prometheus", "text/plain"),
        "/openapi.json": _plain("This description"),
    },
}
