"""Reads Claude Code's session files: one JSON object a line, chained by parentUuid, one assistant
line per content block, sub-agents inside the file or in files beside it. Touches only the lines that
it is handed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lamina.cache.usage import anthropic_usage
from lamina.messages import Block, Json, Usage, as_object
from lamina.replay.files import Lines
from lamina.replay.recording import SECONDS_APART, Builder, RecordedRequest, as_blocks, moment_of

NAME = "claude-code"

# Kinds that hold nothing which the model is sent.
SILENT_KINDS = frozenset({
    "agent-color", "agent-name", "ai-title", "custom-title", "file-history-snapshot",
    "last-prompt", "mode", "permission-mode", "pr-link", "queue-operation", "summary", "tag",
})  # fmt: skip
# Kinds that stand in the chain without being a message. Progress may show a sub-agent's messages,
# but those are copies: the agent has a file of its own.
LINK_KINDS = frozenset({"system", "progress"})


@dataclass(slots=True)
class _Answer:
    """An assistant's message under way: its lines come one by one."""

    node: int
    results: int = -1  # the last result of its tool calls

    @property
    def last(self) -> int:
        return self.results if self.results >= 0 else self.node


class ClaudeCodeReader:
    """Turns lines into the tree of a recording. One reader serves a session and its agents."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._place: dict[str, int | _Answer] = {}  # where the chain stands after a line
        self._answers: dict[str, _Answer] = {}  # by message id
        self._callers: dict[str, _Answer] = {}  # by tool use id
        self._request_of: dict[int, int] = {}  # answer's node -> number of its request
        self._last: dict[str, int] = {}  # the last message of each thread
        self._time = 0.0
        self._ttl: dict[str, float] = {}
        self._before: dict[str, int] = {}  # boundary's uuid -> last message before it
        self._asked: set[str] = set()  # boundaries of compactions that the user asked for
        self._side_chains: dict[str, str] = {}  # uuid of a side chain's line -> its thread

    def read(self, lines: Lines, prefix: str = "") -> None:
        for where, value in self._builder.readable(lines, prefix):
            line = as_object(value)
            kind, told = str(line.get("type", "")), moment_of(line.get("timestamp"))
            self._time = told or self._time
            self._builder.timed = self._builder.timed or told > 0
            if not line:
                self._builder.skip(where, "not an object")
            elif kind in ("user", "assistant"):
                self._message(where, line, prefix)
            elif kind == "attachment":
                self._attachment(where, line, prefix)
            elif kind in LINK_KINDS:
                self._link(line)
            elif kind not in SILENT_KINDS:
                self._builder.unknown_kind(where, kind)
                self._pass_on(line)

    def _link(self, line: Json) -> None:
        uuid = line.get("uuid")
        if line.get("subtype") == "compact_boundary" and isinstance(uuid, str):
            self._before[uuid] = self._last.get(self._thread(line, ""), -1)
            self._place[uuid] = -1
            if as_object(line.get("compactMetadata")).get("trigger") == "manual":
                self._asked.add(uuid)
        else:
            self._pass_on(line)

    def _pass_on(self, line: Json) -> None:
        parent = line.get("parentUuid")
        unknown = self._last.get(self._thread(line, ""), -1) if parent else -1
        self._set_place(line, self._place.get(str(parent), unknown))

    def _message(self, where: str, line: Json, prefix: str) -> None:
        message = as_object(line.get("message"))
        blocks = as_blocks(message.get("content"))
        if blocks is None:
            self._builder.skip(where, "a message without content")
            self._pass_on(line)
        elif isinstance(line.get("uuid"), str) and line["uuid"] in self._place:
            self._builder.skip(where, "repeats an earlier line")
        elif line["type"] == "assistant":
            self._assistant(where, line, message, [*filter(_is_sent, blocks)], prefix)
        else:
            self._user(where, line, blocks, prefix)

    def _assistant(
        self, where: str, line: Json, message: Json, blocks: list[Block], prefix: str
    ) -> None:
        if message.get("model") == "<synthetic>":
            self._builder.skip(where, "a notice of the program, not an answer of a model")
            self._pass_on(line)
            return
        thread = self._thread(line, prefix)
        name = str(message.get("id") or line.get("uuid") or where)
        answer = self._answers.get(name)
        if answer is None:
            answer = self._begin_answer(where, line, message, thread, blocks)
            self._answers[name] = answer
        else:
            self._builder.messages[answer.node].message["content"].extend(blocks)
            self._grow_usage(answer, message)
        for block in blocks:
            if block.get("type") == "tool_use":
                self._callers[str(block.get("id"))] = answer
        self._set_place(line, answer)

    def _begin_answer(
        self, where: str, line: Json, message: Json, thread: str, blocks: list[Block]
    ) -> _Answer:
        builder = self._builder
        if not builder.timed:
            self._time += SECONDS_APART
        parent = self._parent(where, line, thread)
        node = builder.add("assistant", blocks, parent, self._time)
        usage = anthropic_usage(message.get("usage"))
        asked = builder.messages[parent].time if parent >= 0 and builder.timed else 0.0
        self._request_of[node] = len(builder.requests)
        model, life = str(message.get("model") or ""), self._life(thread, usage)
        sent = asked or self._time
        builder.request(where, RecordedRequest(sent, parent, node, usage, model, thread, ttl=life))
        self._last[thread] = node
        return _Answer(node)

    def _life(self, thread: str, usage: Usage | None) -> float:
        """How long the cache lives that a thread writes; 0: it has not said so yet."""
        if usage is not None and usage.cache_write:
            self._ttl[thread] = 3600.0 if usage.cache_write_1h else 300.0
        return self._ttl.get(thread, 0.0)

    def _grow_usage(self, answer: _Answer, message: Json) -> None:
        """Later lines of one answer repeat its usage with the output that had come by then."""
        usage = anthropic_usage(message.get("usage"))
        if usage is None:
            return
        number = self._request_of[answer.node]
        request = self._builder.requests[number]
        if request.usage is not None:
            usage = replace(request.usage, output=max(usage.output, request.usage.output))
        life = self._life(request.thread, usage)
        self._builder.requests[number] = replace(request, usage=usage, ttl=life)

    def _user(self, where: str, line: Json, blocks: list[Block], prefix: str) -> None:
        thread = self._thread(line, prefix)
        summary = line.get("isCompactSummary") is True
        caller = self._caller(blocks)
        # Parallel calls: each result names its own line, yet all are sent in one row.
        parent = caller.last if caller is not None else self._parent(where, line, thread)
        after, boundary = -1, str(line.get("parentUuid"))
        if summary and parent < 0:
            after = self._before.get(boundary, self._last.get(thread, -1))
        asked = summary and boundary in self._asked
        node = self._builder.add(
            "user", blocks, parent, self._time, summary=summary, after=after, asked=asked
        )
        if caller is not None:
            caller.results = node
        self._set_place(line, caller if caller is not None else node)
        self._last[thread] = node

    def _caller(self, blocks: list[Block]) -> _Answer | None:
        for block in blocks:
            if block.get("type") == "tool_result":
                # A second result for one call belongs to another branch: it keeps its own place.
                return self._callers.pop(str(block.get("tool_use_id")), None)
        return None

    def _attachment(self, where: str, line: Json, prefix: str) -> None:
        """What the program adds on its own; its wording is not in the file, only its matter."""
        import msgspec

        content = as_object(line.get("attachment")).get("content")
        if not content:
            self._pass_on(line)
            return
        text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
        self._user(where, line, [{"type": "text", "text": text}], prefix)

    def _parent(self, where: str, line: Json, thread: str) -> int:
        """The message that a line follows."""
        name = line.get("parentUuid")
        if name is None:
            return -1
        place = self._place.get(str(name))
        if place is None:
            # A summary begins anew, also where the boundary before it was lost.
            anew = line.get("isCompactSummary") is True
            last = -1 if anew else self._last.get(thread, -1)
            joined = "joined to the message before" if last >= 0 else "taken as the first"
            self._builder.skip(where, f"the line that it follows is not in the file: {joined}")
            return last
        return place.last if isinstance(place, _Answer) else place

    def _thread(self, line: Json, prefix: str) -> str:
        if not line.get("isSidechain"):
            return prefix.removesuffix(": ")
        agent = line.get("agentId")
        if isinstance(agent, str):
            return f"agent {agent}"
        uuid = str(line.get("uuid"))
        thread = self._side_chains.get(str(line.get("parentUuid"))) or f"side chain {uuid[:8]}"
        self._side_chains[uuid] = thread
        return thread

    def _set_place(self, line: Json, place: int | _Answer) -> None:
        uuid = line.get("uuid")
        if isinstance(uuid, str):
            self._place[uuid] = place


def _is_sent(block: Block) -> bool:
    """Models begin with empty lines at times; the API takes no text of them back."""
    return block.get("type") != "text" or bool(str(block.get("text") or "").strip())
