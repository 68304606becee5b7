"""`lamina mcp` over stdio: Lamina's memory as MCP tools for any agent that speaks the protocol.

Answers `initialize` and `tools/list` with the standard library alone. A client sends its first
request to the model as soon as it has started: a server that is still importing then is not in it,
and when its tools come later the prompt's cached prefix breaks. What a tool does is loaded with the
first call (`mcp_calls`).
"""

from __future__ import annotations

import json
import os
import sys

from lamina._version import __version__

TYPE_CHECKING = False  # as in typing, whose import would take a third of the start
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any, BinaryIO

    # A tool and its arguments → the text, and whether it is an error.
    Call = Callable[[str, dict[str, Any]], tuple[str, bool]]

EXAMPLES = """
lamina mcp                               for a client that starts it itself
claude mcp add lamina -- lamina mcp      in Claude Code
codex mcp add lamina -- lamina mcp       in Codex
lamina mcp --project ~/work/shop         for a client that starts it elsewhere
lamina mcp --http 8765                   for clients that connect to it, with a token
"""
LONGEST_LINE = 10_000_000  # bytes of one message; a longer one is refused unread
NEWEST = "2025-11-25"  # the protocol's version where a client names none
_PARSE_ERROR, _BAD_REQUEST, _NO_METHOD, _BAD_PARAMS = -32700, -32600, -32601, -32602

INSTRUCTIONS = (
    "Lamina remembers across sessions. Before you answer a question about the user, their "
    "preferences, decisions, deadlines or earlier work, call recall with plain words. When the user "
    "asks you to remember something, call remember at once with their own words; when they ask you "
    "to forget, call forget. What the user did not say themselves waits in an inbox for them: say "
    "so. Use sessions_search when recall finds nothing and the answer may have been said before."
)

_TYPES = ["user", "feedback", "project", "reference"]


def _text(description: str, longest: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": longest, "description": description}


def _tool(
    name: str,
    description: str,
    properties: dict[str, Any],
    required: tuple[str, ...] = (),
    *,
    writes: bool = False,
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    schema |= {"required": list(required), "additionalProperties": False}
    hints = {
        "readOnlyHint": not writes,
        "destructiveHint": name == "forget",
        "openWorldHint": False,
    }
    return {"name": name, "description": description, "inputSchema": schema, "annotations": hints}


TOOLS: tuple[dict[str, Any], ...] = (
    _tool(
        "recall",
        "Finds what is remembered about a question: the memories that fit best, with their files and "
        "age. Use plain words.",
        {
            "query": _text("What to look for, in plain words.", 2_000),
            "limit": {"type": "integer", "minimum": 1, "maximum": 20},
        },
        ("query",),
    ),
    _tool(
        "remember",
        "Saves a memory for later sessions. Keep to the user's own words for user and feedback: what "
        "they did not say themselves waits for them in an inbox.",
        {
            "content": _text("The memory itself, in Markdown.", 100_000),
            "name": _text("A short title.", 200),
            "description": _text("One line that says what is in it, to find it by.", 1_000),
            "type": {
                "type": "string",
                "enum": _TYPES,
                "description": "user: who they are; feedback: how they want you to work; project: "
                "facts, decisions and dates of the work; reference: where to find something.",
            },
            "file": _text("The file's name; needed only to change an existing memory.", 500),
        },
        ("content", "name", "description", "type"),
        writes=True,
    ),
    _tool(
        "forget",
        "Forgets a memory when the user asks for it; it does not come back by itself. If several "
        "memories fit, none goes and they are listed.",
        {"memory": _text("The file's name, or what the memory says.", 1_000)},
        ("memory",),
        writes=True,
    ),
    _tool(
        "why",
        "Says where a memory comes from: who wrote each change, when, from which words, and why it "
        "was accepted.",
        {"memory": _text("The file's name, such as user_role.md.", 500)},
        ("memory",),
    ),
    _tool("inbox", "Lists what waits for the user's decision; only the user can accept it.", {}),
    _tool(
        "sessions_search",
        "Searches what was said in past sessions of this project.",
        {
            "query": _text("What to look for, in plain words.", 2_000),
            "limit": {"type": "integer", "minimum": 1, "maximum": 20},
        },
        ("query",),
    ),
    _tool(
        "expand",
        "Brings back the original of something that was folded, cleared or moved out of a recorded "
        "session, by the id in its place, or the name of the file that is named there.",
        {
            "id": _text("The id shown in the marker.", 1_000),
            "from": {"type": "integer", "minimum": 0, "maximum": 10**9},
            "session": _text("The session's id, if it is not the latest.", 200),
        },
        ("id",),
    ),
    _tool(
        "notes",
        "Shows the running notes of a recorded session.",
        {"session": _text("The session's id, if it is not the latest with notes.", 200)},
    ),
)


def serve(source: BinaryIO, sink: BinaryIO, call: Call, only: str = "") -> None:
    """Answer message by message until the client leaves. `only`: the one tool that there is."""
    while line := source.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            while line and not line.endswith(b"\n"):
                line = source.readline(LONGEST_LINE)
            answer: Any = _error(None, _BAD_REQUEST, f"The message is over {LONGEST_LINE:,} bytes.")
        elif not line.strip():
            continue
        else:
            answer = answer_to(line, call, only)
        if answer is not None:
            try:
                sink.write(json.dumps(answer, ensure_ascii=True).encode() + b"\n")
                sink.flush()
            except (BrokenPipeError, ValueError):  # the client has left in the middle
                return


def answer_to(line: bytes, call: Call, only: str = "") -> Any:
    """The answer to one line; None where none is due."""
    try:
        message: Any = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, _PARSE_ERROR, "The message is not JSON.")
    if isinstance(message, list):
        parts: list[Any] = [*message]  # pyright: ignore[reportUnknownArgumentType]
        answers = [one for part in parts if (one := _answer(part, call, only)) is not None]
        return answers or (None if parts else _error(None, _BAD_REQUEST, "The batch is empty."))
    return _answer(message, call, only)


def _answer(message: Any, call: Call, only: str) -> Any:
    said = _object(message) or {}
    method = said.get("method")
    if not isinstance(method, str):
        if "result" in said or "error" in said:
            return None  # an answer to something we never asked
        return _error(None, _BAD_REQUEST, "A message needs a method.")
    if "id" not in said:
        return None  # a notification
    number, params = said["id"], _object(said.get("params") or {})
    if params is None:
        return _error(number, _BAD_PARAMS, "params must be an object.")
    if method == "tools/call":
        return _called(number, params, call, only)
    asked = params.get("protocolVersion")
    answers: dict[str, Any] = {
        "initialize": lambda: {
            "protocolVersion": asked if isinstance(asked, str) and asked else NEWEST,
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "lamina", "title": "Lamina memory", "version": __version__},
            "instructions": "" if only else INSTRUCTIONS,
        },
        "ping": dict,
        "tools/list": lambda: {"tools": [one for one in TOOLS if only in ("", one["name"])]},
    }
    if method not in answers:
        return _error(number, _NO_METHOD, f"There is no method {method}.")
    return _result(number, answers[method]())


def _called(number: Any, params: dict[str, Any], call: Call, only: str) -> Any:
    name: Any = params.get("name")
    arguments: Any = params.get("arguments") or {}
    tool = next((one for one in TOOLS if one["name"] == name and only in ("", name)), None)
    if tool is None:
        return _error(number, *unknown_tool(name))
    wrong = why_wrong(tool["inputSchema"], arguments)
    text, failed = (f"{name}: {wrong}", True) if wrong else call(str(name), arguments)
    return _result(number, {"content": [{"type": "text", "text": text}], "isError": failed})


def unknown_tool(name: Any) -> tuple[int, str]:
    """The code and the message for a tool that there is not."""
    known = ", ".join(one["name"] for one in TOOLS)
    return _BAD_PARAMS, f"There is no tool {name}. There are: {known}."


def why_wrong(schema: dict[str, Any], arguments: Any) -> str:
    """What is wrong with a call's arguments, "" if nothing: all that our schemas can say."""
    given = _object(arguments)
    if given is None:
        return "the arguments must be an object."
    for name in schema["required"]:
        if name not in given:
            return f"`{name}` is missing."
    for name, value in given.items():
        rule = schema["properties"].get(name)
        if rule is None:
            return f"there is no argument `{name}`."
        if reason := _why_not(rule, value):
            return f"`{name}` {reason}."
    return ""


def _why_not(rule: dict[str, Any], value: Any) -> str:
    if rule["type"] == "integer":
        if not isinstance(value, int) or isinstance(value, bool):
            return "must be a whole number"
        low, high = rule["minimum"], rule["maximum"]
        return "" if low <= value <= high else f"must be from {low} to {high}"
    if not isinstance(value, str):
        return "must be text"
    if "enum" in rule:
        return "" if value in rule["enum"] else f"must be one of {', '.join(rule['enum'])}"
    if not value.strip():
        return "is empty"
    return "" if len(value) <= rule["maxLength"] else f"is over {rule['maxLength']:,} characters"


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def _result(number: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _error(number: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from lamina.cli.options import port

    parser.description = (
        "Serve the memory as MCP tools over stdin and stdout: recall, remember, forget, why, inbox, "
        "sessions_search, expand and notes. The client starts and stops this command."
    )
    parser.add_argument(
        "--only",
        default="",
        choices=[one["name"] for one in TOOLS],
        metavar="TOOL",
        help="serve this one tool, as `lamina wrap` does with expand",
    )
    parser.add_argument(
        "--http", type=port, metavar="PORT", help="serve HTTP on this machine instead; 0: any port"
    )


def run(args: argparse.Namespace) -> int:
    if args.http is not None:
        from lamina.cli.options import config_of
        from lamina.integrations import mcp_http

        return mcp_http.serve(config_of(args), args.http)
    return at_once(project=args.project, home=args.home, claude=args.claude, only=args.only)


def at_once(*, project: str, home: str | None, claude: bool = False, only: str = "") -> int:
    """Serve this process's stdin and stdout. What a library prints must not get between messages."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    sys.stdout = sys.stderr
    os.dup2(2, 1)
    calls: Any = None

    def call(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        nonlocal calls
        if calls is None:
            from lamina.integrations.mcp_calls import Calls

            calls = Calls(project, home, claude=claude)
        return calls.call(name, arguments)

    try:
        serve(source, sink, call, only)
    finally:
        if calls is not None:
            calls.close()
    return 0
