"""A replay's figures as lines for a terminal: a table a file, then all files together. Pure but for
colours, which follow the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from lamina.cache.prices import money_text
from lamina.cli.fitting import fitted
from lamina.cli.terminal import one_line, style, width
from lamina.cli.wrapping import wrapped
from lamina.replay.charts import layer_name, tokens_text
from lamina.replay.results import PolicyResult, ReplayResult, merged

HEADING = ("policy", "cost", "", "from cache", "largest", "over window", "re-reads")


def lines(results: Sequence[ReplayResult], *, quiet: bool = False) -> Iterator[str]:
    for result in results:
        many = "request" if result.requests == 1 else "requests"
        about = f"{result.format}, {result.requests:,} {many}"
        name = one_line(PurePath(result.file).name, max(12, width() - len(about) - 2))
        yield f"{style(name, 'bold')}  {style(about, 'dim')}"
        yield from _indented(result.policies)
        if result.skipped and not quiet:
            yield style(f"  {_skipped(result)}", "dim")
        yield ""
    if len(results) > 1:
        requests = sum(result.requests for result in results)
        yield style(f"All {len(results)} files, {requests:,} requests", "bold")
        yield from _indented(merged(results))


def _indented(policies: Sequence[PolicyResult]) -> Iterator[str]:
    plain = next((policy for policy in policies if policy.policy == "none"), None)
    rows = [_row(policy, plain) for policy in policies]
    kept = [at for at in range(len(HEADING)) if HEADING[at] or any(row[at] for row in rows)]
    shown = fitted(
        [[row[at] for at in kept] for row in rows],
        [HEADING[at] for at in kept],
        width() - 2,
        gives_way=[kept.index(at) for at in (4, 6, 5, 3)],
        cut=0,
        right=range(1, len(kept)),
    )
    for line in shown.splitlines():
        yield f"  {_coloured(line)}"
    yield from _acted(policies)
    if any(policy.guessed_price for policy in policies):
        prices = ", ".join(dict.fromkeys(name for p in policies for name in p.prices))
        words = f"  Prices are guessed ({one_line(prices, 60)}): --model names another."
        yield style(wrapped(words, width(), 4), "dim")


def _row(policy: PolicyResult, plain: PolicyResult | None) -> list[str]:
    usage, rereads = policy.usage, policy.rereads
    change = ""
    if plain is not None and policy is not plain and plain.cost:
        share = policy.cost / plain.cost - 1
        change = f"{share:+.1%}"
    again = f"{len(rereads)} ({tokens_text(sum(r.tokens for r in rereads))})" if rereads else "0"
    return [
        policy.policy,
        money_text(policy.cost),
        change,
        f"{usage.cache_read / max(1, usage.prompt):.1%}",
        tokens_text(policy.max_context),
        str(policy.overflows),
        again,
    ]


def _acted(policies: Sequence[PolicyResult]) -> Iterator[str]:
    """What the layers of each policy did, where they did something."""
    for policy in policies:
        told = ", ".join(
            f"{layer_name(name)} {times}×" + (f" {tokens_text(saved)}" if saved else "")
            for name, (times, saved) in policy.layers.items()
        )
        if told:
            words = f"  {policy.policy} did: {told}"
            yield "\n".join(style(line, "dim") for line in wrapped(words, width(), 4).split("\n"))


def _coloured(line: str) -> str:
    """What a policy costs less in green, and more in red."""
    found = re.search(r" ([+-])[\d.,]+%(?= |$)", line)
    if found is None or found.group().strip(" +-0.%") == "":
        return line
    colour = "green" if found.group(1) == "-" else "red"
    return line[: found.start()] + style(found.group(), colour) + line[found.end() :]


def _skipped(result: ReplayResult) -> str:
    first, others = result.skipped[0], len(result.skipped) - 1
    before, more = "Not used: ", f", and {others} more" if others else ""
    room = width() - 2 - len(before) - len(more)
    return before + one_line(f"{first.where}: {first.reason}", max(20, room)) + more
