"""The cache guard (F12): knows before a call where the prompt parts from the last one and why, and
after it whether the provider's cache read what it should have.

Pure values in, values out; it keeps the last request and its usage. Layers register their breaks
beforehand. Comparing costs what is new: unchanged messages are the same objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamina.events import CacheBroke
from lamina.ledger import joining
from lamina.ledger.edits import Shared
from lamina.messages import Block, Json, Message, Request, Response, Usage
from lamina.ports import Capabilities

AHEAD = 8  # messages or blocks that are looked at for the one that stood here
SHOWN = 40  # characters of a change
# A drop of the cache's reads by less than both counts as noise. Set by hand.
DROP_SHARE = 0.05
DROP_TOKENS = 2_000
_NAMES = ("tool_use_id", "id", "type")  # what tells blocks apart at a glance


@dataclass(frozen=True, slots=True)
class Parting:
    """Where two requests part: model, system, tools, or block `block` of message `message`; and why."""

    where: str
    message: int
    block: int
    cause: str


class Guard:
    def __init__(self) -> None:
        self._last: Request | None = None
        self._usage = Usage()
        self._at = 0.0
        self._registered: list[str] = []
        self._parting: Parting | None = None
        self._expired = ""

    def register(self, cause: str) -> None:
        """A layer says that its edit will break the prefix, and why."""
        self._registered.append(cause)

    def before(self, request: Request, now: float, capabilities: Capabilities) -> Parting | None:
        """Compare with the last request; remember the reason for `after`."""
        last, self._parting, self._expired = self._last, None, ""
        if last is not None:
            self._parting = part(last, request)
            if now - self._at > capabilities.cache_ttl:
                minutes = capabilities.cache_ttl // 60
                self._expired = f"TTL of {minutes} min passed ({(now - self._at) / 60:.0f} min)"
            if not capabilities.keeps_thinking and _drops_thinking(last, request):
                self.register("the model drops the thinking of earlier turns")
        return self._parting

    def after(
        self, request: Request, response: Response, now: float, capabilities: Capabilities
    ) -> CacheBroke | None:
        """Compare the provider's reads with what was there to be read."""
        usage, expected = self._usage, 0
        if self._last is not None:  # what the cache holds of the last prompt
            openai = capabilities.cache == "openai"
            expected = usage.prompt // 128 * 128 if openai else usage.cache_read + usage.cache_write
        read = response.usage.cache_read
        causes, parting = self._registered, self._parting
        self._last, self._usage, self._at = request, response.usage, now
        self._registered, self._parting = [], None
        lost = expected - read
        if expected < capabilities.min_cacheable or capabilities.cache == "none":
            return None
        if lost <= DROP_TOKENS or lost <= expected * DROP_SHARE:
            return None
        if causes:
            return CacheBroke("; ".join(dict.fromkeys(causes)), expected, read, registered=True)
        said = response.extra.get("cache_miss_reason")
        cause = (
            "; ".join(why for why in (parting.cause if parting else "", self._expired) if why)
            or (f"the provider says: {said}" if said else "")
            or "the provider lost its cache: the prompt only grew"
        )
        return CacheBroke(cause, expected, read, registered=False)


def _drops_thinking(old: Request, new: Request) -> bool:
    """A new question makes such a model forget the thinking of the answers before it."""
    if len(new.messages) <= len(old.messages):
        return False
    fresh = new.messages[-1]["content"]
    if any(block.get("type") == "tool_result" for block in fresh):
        return False
    earlier: list[Block] = new.messages[-2]["content"] if len(new.messages) > 1 else []
    return any(block.get("type") == "thinking" for block in earlier)


# ---- where two requests part


def part(old: Request, new: Request) -> Parting | None:
    """Where the new request stops being a continuation of the old one."""
    if old.model != new.model:
        return Parting("model", 0, 0, f"model changed: {old.model} to {new.model}")
    if old.tools is not new.tools and (cause := _tools_cause(old.tools, new.tools)):
        return Parting("tools", 0, 0, cause)
    if old.system is not new.system:
        for n, (a, b) in enumerate(zip(old.system, new.system, strict=False)):
            if not _same(a, b):
                return Parting("system", 0, n, f"system prompt changed: block {n}{_at(a, b)}")
        if len(old.system) != len(new.system):
            n = min(len(old.system), len(new.system))
            many = f"{len(new.system)} block{'s' * (len(new.system) != 1)}"
            return Parting("system", 0, n, f"system prompt changed: {many} now")
    return _part_messages(old.messages, new.messages)


def _same(one: object, other: object) -> bool:
    return one is other or joining.canonical(one) == joining.canonical(other)


def _at(old: Block, new: Block) -> str:
    """The words at which two texts part."""
    a, b = str(old.get("text") or ""), str(new.get("text") or "")
    pairs = enumerate(zip(a, b, strict=False))
    start = next((at for at, (x, y) in pairs if x != y), min(len(a), len(b)))
    words = " ".join(b[start : start + SHOWN].split())
    if not words:
        return f", cut after {start:,} characters" if len(a) > start else ""
    return f', at "{words}"'


def _tools_cause(old: Sequence[Json], new: Sequence[Json]) -> str:
    before = {str(tool.get("name")): tool for tool in old}
    after = {str(tool.get("name")): tool for tool in new}
    if gone := [name for name in before if name not in after]:
        return f"tool list changed: {', '.join(gone)} removed"
    if came := [name for name in after if name not in before]:
        return f"tool list changed: {', '.join(came)} added"
    for name, tool in before.items():
        for key in sorted({*tool, *after[name]} - {"cache_control"}):
            if not _same(tool.get(key), after[name].get(key)):
                return f"tool list changed: {name} {key.replace('_', ' ')}"
    return "" if list(before) == list(after) else "tool list changed: other order"


# ---- messages


def _part_messages(old: Sequence[Message], new: Sequence[Message]) -> Parting | None:
    start = old.shared(new) if isinstance(old, Shared) else 0
    for n in range(start, len(old)):
        if n >= len(new):
            return Parting("message", n, 0, _removed_messages(n, len(old)))
        if old[n] is not new[n] and (found := _part_blocks(old, new, n)):
            return found
    return None


def _part_blocks(old: Sequence[Message], new: Sequence[Message], n: int) -> Parting | None:
    a, b = old[n]["content"], new[n]["content"]
    if old[n]["role"] != new[n]["role"]:
        cause = _moved_messages(n, old, new) or f"message {n} is another one"
        return Parting("message", n, 0, cause)
    for m, block in enumerate(a):
        if m >= len(b):
            return Parting("message", n, m, _removed(a[m:], n))
        if not _same(block, b[m]):
            cause = ""
            call = block.get("tool_use_id")
            # Other words in a result of the same call: nothing was put in or taken out.
            if call is None or call != b[m].get("tool_use_id"):
                cause = _block_cause(n, m, a, b)
                cause = cause or (_moved_messages(n, old, new) if m == 0 else "")
            changed = f"message {n}, block {m} changed: {_kind(block)}"
            return Parting("message", n, m, cause or changed)
    if len(b) > len(a) and n < len(old) - 1:
        return Parting("message", n, len(a), _inserted(b[len(a) :], n + 1))
    return None


def _block_cause(n: int, m: int, old: Sequence[Block], new: Sequence[Block]) -> str:
    """Blocks put in before the one that stood here, or taken out."""
    for more in range(1, AHEAD + 1):
        if m + more < len(old) and _same(old[m + more], new[m]):
            return _removed(old[m : m + more], n)
        if m + more < len(new) and _same(new[m + more], old[m]):
            return _inserted(new[m : m + more], n)
    return ""


def _moved_messages(n: int, old: Sequence[Message], new: Sequence[Message]) -> str:
    """Whole messages put in before the one that stood here, or taken out."""
    for more in range(1, AHEAD + 1):
        if n + more < len(new) and _same_message(new[n + more], old[n]):
            blocks = [block for message in new[n : n + more] for block in message["content"]]
            what = _what(blocks) or f"{more} message{'s' * (more > 1)}"
            return f"{what} inserted before message {n}"
    for more in range(1, len(old) - n):
        if _same_message(old[n + more], new[n]):
            return _removed_messages(n, n + more)
    return ""


def _same_message(one: Message, other: Message) -> bool:
    a, b = one["content"], other["content"]
    if one["role"] != other["role"] or len(a) != len(b):
        return False
    if a and b and any(a[0].get(key) != b[0].get(key) for key in _NAMES):
        return False  # most of them: only the others need be rendered
    return all(_same(x, y) for x, y in zip(a, b, strict=True))


def _removed_messages(first: int, after: int) -> str:
    if after - first == 1:
        return f"message {first} was removed"
    return f"messages {first} to {after - 1} were removed"


def _removed(blocks: Sequence[Block], n: int) -> str:
    what = _what(blocks) or f"{len(blocks)} block{'s' * (len(blocks) > 1)}"
    return f"{what} removed from message {n}"


def _inserted(blocks: Sequence[Block], n: int) -> str:
    return f"{_what(blocks) or _kind(blocks[0])} inserted before message {n}"


def _what(blocks: Sequence[Block]) -> str:
    words = [str(block.get("text") or "") for block in blocks]
    if any("Memory (saved" in text for text in words):
        return "memory attachment"
    return "reminder" if any("<system-reminder>" in text for text in words) else ""


def _kind(block: Block) -> str:
    return str(block.get("type", "block")).replace("_", " ")
