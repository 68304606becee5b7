"""A replay's figures as lines for a terminal: a table a file, then all files together. Pure but for
colours, which follow the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from lamina.cli.terminal import one_line, style, table, width
from lamina.replay.charts import layer_name, money_text, tokens_text
from lamina.replay.results import PolicyResult, ReplayResult

HEADING = ("policy", "cost", "", "from cache", "largest", "over window", "re-reads", "layers")


def lines(results: Sequence[ReplayResult], *, quiet: bool = False) -> Iterator[str]:
    for result in results:
        name = one_line(PurePath(result.file).name, max(20, width() - 50))
        many = "request" if result.requests == 1 else "requests"
        about = f"{result.format}, {result.requests:,} {many}"
        yield f"{style(name, 'bold')}  {style(about, 'dim')}"
        yield from _indented(result.policies)
        if result.skipped and not quiet:
            yield style(f"  {_skipped(result)}", "dim")
        yield ""
    if len(results) > 1:
        requests = sum(result.requests for result in results)
        yield style(f"All {len(results)} files, {requests:,} requests", "bold")
        yield from _indented(merged(results))


def merged(results: Sequence[ReplayResult]) -> list[PolicyResult]:
    """One result a policy over all files."""
    names = dict.fromkeys(policy.policy for result in results for policy in result.policies)
    found = {name: [p for r in results for p in r.policies if p.policy == name] for name in names}
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


def _indented(policies: Sequence[PolicyResult]) -> Iterator[str]:
    plain = next((policy for policy in policies if policy.policy == "none"), None)
    rows = [_row(policy, plain) for policy in policies]
    heading = [style(word, "dim") for word in HEADING]
    for line in table(rows, heading).splitlines():
        yield f"  {line}"
    if any(policy.guessed_price for policy in policies):
        prices = ", ".join(dict.fromkeys(name for p in policies for name in p.prices))
        yield style(f"  Prices are guessed ({one_line(prices, 60)}): --model names another.", "dim")


def _row(policy: PolicyResult, plain: PolicyResult | None) -> list[str]:
    usage, rereads = policy.usage, policy.rereads
    change = ""
    if plain is not None and policy is not plain and plain.cost:
        share = policy.cost / plain.cost - 1
        change = style(f"{share:+.1%}", "green" if share <= 0 else "red")
    again = f"{len(rereads)} ({tokens_text(sum(r.tokens for r in rereads))})" if rereads else "0"
    layers = ", ".join(
        f"{layer_name(name)} {times}× {tokens_text(saved)}"
        if saved
        else f"{layer_name(name)} {times}×"
        for name, (times, saved) in policy.layers.items()
    )
    return [
        policy.policy,
        money_text(policy.cost),
        change,
        f"{usage.cache_read / max(1, usage.prompt):.1%}",
        tokens_text(policy.max_context),
        str(policy.overflows),
        again,
        style(layers, "dim"),
    ]


def _skipped(result: ReplayResult) -> str:
    first = result.skipped[0]
    many = len(result.skipped)
    where = one_line(f"{first.where}: {first.reason}", max(20, width() - 40))
    return f"Not used: {where}" + (f", and {many - 1} more" if many > 1 else "")
