"""`lamina memory audit`: what is wrong with the memories, and the safe repairs. Writes with --fix only."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from lamina.cli.terminal import harmless, note, one_line, out, out_json, style, table
from lamina.memory import Audit, Repaired, Step, look_over, repair
from lamina.ports import MemoryStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fix", action="store_true", help="do the repairs that are certain")


def run(args: argparse.Namespace, store: MemoryStore, *, with_index: bool = True) -> int:
    """0: nothing wrong (or all of it repaired); 1: something is left that a person should look at."""
    found, steps = look_over(store, time.time(), with_index=with_index)
    done: Sequence[Repaired] = ()
    if args.fix and steps:
        done = repair(store, steps)
        found, steps = look_over(store, time.time(), with_index=with_index)
    if args.json:
        out_json(_as_json(found, steps, done))
    else:
        _show(found, steps, done, fixing=args.fix, quiet=args.quiet)
    return 1 if found.faults else 0


def _show(
    found: Audit, steps: Sequence[Step], done: Sequence[Repaired], *, fixing: bool, quiet: bool
) -> None:
    for item in done:
        what = f"{item.step.action.replace('_', ' ')} {harmless(item.step.path)}"
        if item.failure:
            note(f"not done: {what}: {harmless(item.failure)}")
        else:
            out(f"{style('done', 'green')}  {what}: {harmless(item.step.reason)}")
    rows = [
        [
            fault.kind + ("?" if fault.doubtful else ""),
            one_line(fault.path, 250),
            one_line(fault.reason, 1000),
        ]
        for fault in found.faults
    ]
    if rows:
        out(table(rows))
    counts = ", ".join(f"{count} {kind}" for kind, count in found.counts.items() if count)
    what = "1 memory" if found.checked == 1 else f"{found.checked:,} memories"
    out(style(f"{what} looked at: {counts or 'nothing wrong'}", "dim"))
    if found.counts["secret"] and not quiet:
        note("A secret: change it where it is used, then `lamina memory forget FILE --purge`.")
    if steps and not fixing and not quiet:
        note(
            f"`lamina memory audit --fix` would do {len(steps)} repair{'s' * (len(steps) != 1)}; "
            "a ? marks what you judge."
        )


def _as_json(found: Audit, steps: Sequence[Step], done: Sequence[Repaired]) -> dict[str, object]:
    return {
        "checked": found.checked,
        "counts": dict(found.counts),
        "faults": [
            {
                "kind": fault.kind,
                "path": fault.path,
                "reason": fault.reason,
                "doubtful": fault.doubtful,
                "other": fault.other,
                **({"line": fault.line, "rule": fault.rule} if fault.rule else {}),
            }
            for fault in found.faults
        ],
        "steps": [_step(step) for step in steps],
        "done": [{**_step(item.step), "failure": item.failure} for item in done],
    }


def _step(step: Step) -> dict[str, str]:
    return {"action": step.action, "path": step.path, "reason": step.reason, "value": step.value}
