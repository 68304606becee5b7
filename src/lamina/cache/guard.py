"""The cache guard (F12): knows before a call where the prompt parts from the last one and why, and
after it whether the provider's cache read what it should have.

Pure values in, values out; it keeps the last request and its usage. Layers register their breaks
beforehand. Comparing costs what is new: unchanged messages are the same objects.
"""

from __future__ import annotations

from lamina.cache.parting import Parting, part
from lamina.events import CacheBroke
from lamina.messages import Block, Request, Response, Usage
from lamina.ports import Capabilities

DROP_SHARE = 0.05
DROP_TOKENS = 2_000


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
        expected = _readable(self._usage, capabilities) if self._last is not None else 0
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


def _readable(usage: Usage, capabilities: Capabilities) -> int:
    """Tokens of the last prompt that the cache holds now."""
    if capabilities.cache == "openai":
        return usage.prompt // 128 * 128
    return usage.cache_read + usage.cache_write


def _drops_thinking(old: Request, new: Request) -> bool:
    """A new question makes such a model forget the thinking of the answers before it."""
    if len(new.messages) <= len(old.messages):
        return False
    fresh = new.messages[-1]["content"]
    if any(block.get("type") == "tool_result" for block in fresh):
        return False
    earlier: list[Block] = new.messages[-2]["content"] if len(new.messages) > 1 else []
    return any(block.get("type") == "thinking" for block in earlier)
