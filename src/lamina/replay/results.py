"""What a replay found: frozen values for the report, and the object that `lamina replay --json`
prints. Nothing here touches files or clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lamina.messages import Json, Usage
from lamina.replay.recording import Recording, SkippedPart


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a layer did before a request."""

    layer: str  # tool_results | microcompact | notes | compaction | …
    description: str
    tokens_saved: int = 0


@dataclass(frozen=True, slots=True)
class Reread:
    """Content that had been removed and is referred to again: it must be fetched once more."""

    kind: str  # file | command | quote
    what: str  # the path, the command, the quoted line
    tokens: int


@dataclass(frozen=True, slots=True)
class Fork:
    """A side task on the prompt as it was sent last: the answer, a directive, then its calls one
    after the other, each with what the call before it wrote."""

    purpose: str
    directive: int  # bytes
    outputs: Sequence[int] = (0,)  # bytes that each of its calls writes
    at: float = 0.0  # when it began; 0: with the request that it is handed in with
    sees_new: bool = False  # what came after the answer as well
    keeps: float = 0.0  # only keeps the cache, for so many seconds
    model: str = ""  # asked apart: another model, and the directive is all of its prompt
    share: float = 1.0  # of it, that this session bears


@dataclass(frozen=True, slots=True)
class OwnCall:
    """A model call of a policy's own, such as a summary."""

    purpose: str
    model: str
    usage: Usage
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestFigures:
    """One request under one policy; re-reads and the policy's own calls are included."""

    time: float
    context: int  # tokens of the prompt
    usage: Usage
    cost: float
    thread: str = ""
    actions: Sequence[Action] = ()
    rereads: Sequence[Reread] = ()
    calls: Sequence[OwnCall] = ()


@dataclass(frozen=True, slots=True)
class PolicyResult:
    policy: str
    window: int
    requests: Sequence[RequestFigures]
    prices: Sequence[str] = ()  # the models whose prices were used
    guessed_price: bool = False  # some request's model is unnamed or in no price list

    @property
    def usage(self) -> Usage:
        return sum((request.usage for request in self.requests), Usage())

    @property
    def cost(self) -> float:
        return sum(request.cost for request in self.requests)

    @property
    def background(self) -> dict[str, tuple[int, float]]:
        """Number of calls besides the conversation's own and dollars, by purpose; in `cost` too."""
        calls = (call for request in self.requests for call in request.calls)
        return _summed((call.purpose, call.cost) for call in calls)

    @property
    def max_context(self) -> int:
        return max((request.context for request in self.requests), default=0)

    @property
    def overflows(self) -> int:
        """Requests that the model's window would not have held."""
        return sum(request.context > self.window for request in self.requests)

    @property
    def rereads(self) -> list[Reread]:
        return [reread for request in self.requests for reread in request.rereads]

    @property
    def layers(self) -> dict[str, tuple[int, int]]:
        """Number of actions and tokens saved, by layer."""
        actions = (action for request in self.requests for action in request.actions)
        return _summed((action.layer, action.tokens_saved) for action in actions)


_Amount = TypeVar("_Amount", int, float)


def _summed(pairs: Iterable[tuple[str, _Amount]]) -> dict[str, tuple[int, _Amount]]:
    """By name, how often it comes and how much that is together."""
    sums: dict[str, tuple[int, _Amount]] = {}
    for name, amount in pairs:
        times, total = sums.get(name, (0, 0))
        sums[name] = (times + 1, total + amount)
    return sums


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """One file under every policy that was asked for."""

    file: str
    format: str
    requests: int
    skipped: Sequence[SkippedPart]
    recorded: Usage | None  # None: the recording carries no usage
    policies: Sequence[PolicyResult]
    timed: bool = True  # False: the times are made up
    began: float = 0.0


def result_of(recording: Recording, policies: Sequence[PolicyResult]) -> ReplayResult:
    return ReplayResult(
        recording.file,
        recording.format,
        len(recording.requests),
        recording.skipped,
        recording.usage(),
        policies,
        recording.timed,
        recording.requests[0].time if recording.requests else 0.0,
    )


def compared_with(policies: Sequence[PolicyResult]) -> PolicyResult | None:
    """What the others are measured against: what the tool did or, if nobody asked for it, nothing."""
    by_name = {policy.policy: policy for policy in policies}
    return by_name.get("recorded") or by_name.get("none")


def merged(results: Sequence[ReplayResult]) -> list[PolicyResult]:
    """One result a policy over all files."""
    found: dict[str, list[PolicyResult]] = {}
    for result in results:
        for policy in result.policies:
            found.setdefault(policy.policy, []).append(policy)
    return [
        PolicyResult(
            name,
            parts[0].window,
            [request for part in parts for request in part.requests],
            list(dict.fromkeys(price for part in parts for price in part.prices)),
            any(part.guessed_price for part in parts),
        )
        for name, parts in found.items()
    ]


def report_json(result: ReplayResult) -> Json:
    """The object for one file. Sums that the recording doesn't carry are null."""
    return {
        "file": result.file,
        "format": result.format,
        "requests": result.requests,
        "skipped": [{"where": s.where, "reason": s.reason} for s in result.skipped],
        "recorded": _counts(result.recorded),
        "policies": {policy.policy: _policy_json(policy) for policy in result.policies},
    }


def _counts(usage: Usage | None) -> Json:
    kinds = ("input", "cache_read", "cache_write", "output")
    return {kind: getattr(usage, kind, None) for kind in kinds}


def _policy_json(result: PolicyResult) -> Json:
    rereads, told = result.rereads, result.background
    value: Json = {
        **_counts(result.usage),
        "cost": round(result.cost, 6),
        "max_context": result.max_context,
        "overflows": result.overflows,
        "rereads": {"count": len(rereads), "tokens": sum(reread.tokens for reread in rereads)},
        "prices": list(result.prices),
        "price_guessed": result.guessed_price,
        "background": {
            "calls": sum(calls for calls, _ in told.values()),
            "cost": round(sum(dollars for _, dollars in told.values()), 6),
            "purposes": {
                purpose: {"calls": calls, "cost": round(dollars, 6)}
                for purpose, (calls, dollars) in told.items()
            },
        },
    }
    if result.policy == "none":
        value["refused"] = result.overflows > 0  # a provider would not have taken such a prompt
    else:
        value["layers"] = {
            layer: {"count": times, "tokens_saved": saved}
            for layer, (times, saved) in result.layers.items()
        }
    return value
