"""`lamina replay`: what recorded sessions would have cost with Lamina's layers and with other
policies. Reads the transcripts that it is given and writes only the report that is asked for. What
is piped in goes through a temporary file, since finding the format takes two passes.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

from lamina.cache.spend import money_text
from lamina.cli import terminal
from lamina.cli.options import config_of, flag, hint, option
from lamina.cli.terminal import StatusLine, harmless, note, one_line, plural, style, width, wrapped
from lamina.config import Config
from lamina.errors import LaminaError, TranscriptError, UsageError
from lamina.machine import failing_as
from lamina.replay.charts import layer_name, tokens_text
from lamina.replay.recording import Recording
from lamina.replay.results import PolicyResult, ReplayResult, compared_with, merged, report_json

EXAMPLES = """
lamina replay session.jsonl                       as recorded, and with Lamina
lamina replay ~/.claude/projects --html report.html
lamina replay run.traj --policy none,lamina,clear-oldest,drop-oldest
lamina replay session.jsonl --window 100000 --model claude-opus-4-6
lamina replay session.jsonl --json | jq .policies.lamina.cost
zcat session.jsonl.gz | lamina replay -
"""

SUFFIXES = (".jsonl", ".json", ".traj")
LARGE = 20_000_000  # bytes of a file from which on reading is announced at once
PIPED = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    read = "transcripts, or folders of them; - reads one from a pipe"
    parser.add_argument("paths", nargs="+", metavar="PATH", help=read)
    parser.add_argument(
        "--policy",
        action="append",
        metavar="NAMES",
        help="recorded (what the tool did, its own compactions with their calls), none (everything "
        "is sent), lamina, clear-oldest, drop-oldest; separate several by commas, or repeat it "
        "(recorded,none,lamina)",
    )
    window = "the model's context window, in tokens (200000)"
    option(parser, "--window N", window, type=int, default=200_000)
    option(parser, "--model M", "use this model's prices and limits", default="")
    whole = (
        "undo the recording's own compactions, so that every policy starts from the whole history"
    )
    flag(parser, "--uncut", whole)
    option(parser, "--html FILE", "write a report with charts")


def run(args: argparse.Namespace) -> None:
    names = _policies("recorded,none,lamina" if args.policy is None else ",".join(args.policy))
    if args.window < 1_000:
        raise UsageError(f"A window of {args.window} tokens is too small; give 1000 or more.")
    config = config_of(args)
    if args.html:
        _check_place(Path(args.html))
    with ExitStack() as open_files:
        args.piped = _piped(open_files) if PIPED in args.paths else None
        results = _results(list(_files(args.paths, args.piped, args.quiet)), names, args, config)
    for line in () if args.json else _lines(results, quiet=args.quiet):
        terminal.out(line)
    if args.html:
        from lamina.replay.report import render_report

        with failing_as(LaminaError, f"Can't write the report to {args.html}"):
            Path(args.html).write_text(render_report(results), "utf-8")
        hint(args, f"The report is in {args.html}.")


def _results(
    files: Sequence[tuple[Path, bool]], names: list[str], args: argparse.Namespace, config: Config
) -> list[ReplayResult]:
    progress = StatusLine(quiet=args.quiet)
    results: list[ReplayResult] = []
    for number, (path, asked) in enumerate(files, 1):
        label = f"{number}/{len(files)} {one_line(path.name, 40)}"
        try:
            result = _replayed(path, names, args, config, progress, label)
        except LaminaError as error:
            progress.clear()
            if len(files) == 1:
                raise
            if asked or not args.quiet:
                why = str(error) if asked else str(error).partition("; ")[0].rstrip(".") + "."
                note(f"lamina: not replayed: {harmless(why)}")
            continue
        progress.clear()
        results.append(result)
        if args.json:
            terminal.out_json(report_json(result))
            sys.stdout.flush()
    if not files:
        raise UsageError("None of these folders holds a transcript (*.jsonl, *.json, *.traj).")
    if not results:
        raise LaminaError(f"None of the {len(files)} files could be replayed.")
    return results


def _piped(open_files: ExitStack) -> Path:
    """What is piped in, as a file."""
    if sys.stdin.isatty():
        raise UsageError("Nothing is piped in. Give a file, or run `lamina replay - < FILE`.")
    folder = Path(open_files.enter_context(TemporaryDirectory(prefix="lamina-replay-")))
    path = folder / "stdin"
    with failing_as(LaminaError, "Can't store what is piped in"), path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def _check_place(path: Path) -> None:
    """If the report can't be written, say so before the work and not after it."""
    wrongs = {
        errno.EISDIR: path.is_dir(),
        errno.ENOENT: not path.parent.is_dir(),
        errno.EACCES: not os.access(path if path.exists() else path.parent, os.W_OK),
    }
    if wrong := next((code for code, is_so in wrongs.items() if is_so), 0):
        raise LaminaError(f"Can't write the report to {path}: {os.strerror(wrong)}.")


def _policies(text: str) -> list[str]:
    from lamina.replay.policies import NAMES

    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in NAMES:
            raise UsageError(f"There is no policy {name!r}. Choose from {', '.join(NAMES)}.")
    if not names:
        raise UsageError(f"Name at least one policy: {', '.join(NAMES)}.")
    return names


def _files(paths: Sequence[str], piped: Path | None, quiet: bool) -> Iterator[tuple[Path, bool]]:
    """Files to read, and whether the user named each one. Sub-agents come with their session."""
    for given in dict.fromkeys(paths):
        path = piped if given == PIPED and piped else Path(given).expanduser()
        if not path.is_dir():
            yield path, True
            continue
        closed: list[OSError] = []
        found = list(_transcripts(path, closed))
        if not found:
            wrong = f"There are no transcripts (*.jsonl, *.json, *.traj) in {path}."
            if closed:
                wrong = f"Can't open {closed[0].filename}: {closed[0].strerror}."
            if len(paths) == 1:
                raise UsageError(wrong)
            note(f"lamina: {harmless(wrong)}")
        elif closed and not quiet:
            more = f" and {plural(len(closed) - 1, 'more folder')}" * (len(closed) > 1)
            where = harmless(f"{closed[0].filename} ({closed[0].strerror})")
            note(f"lamina: can't open {where}{more}.")
        yield from ((file, False) for file in found)


def _transcripts(folder: Path, closed: list[OSError]) -> Iterator[Path]:
    """In order; links to folders are not followed, so that none is read twice."""
    for place, inner, names in os.walk(folder, onerror=closed.append):
        inner[:] = sorted(name for name in inner if name not in ("subagents", "tool-results"))
        files = (Path(place, name) for name in sorted(names) if name.endswith(SUFFIXES))
        yield from (file for file in files if file.is_file())


def _replayed(
    path: Path,
    names: Sequence[str],
    args: argparse.Namespace,
    config: Config,
    progress: StatusLine,
    label: str,
) -> ReplayResult:
    from lamina.replay.policies import replayed

    with suppress(OSError):
        progress.say(f"{label}: reading", now=path.stat().st_size > LARGE)
    recording = _read(path, piped=path == args.piped)

    def told() -> Iterator[str]:
        for name in names:
            progress.say(f"{label}: {name}, {len(recording.requests)} requests")
            yield name

    limits = {"window": args.window, "model": args.model, "uncut": args.uncut}
    return replayed(told(), recording, config, **limits)


def _read(path: Path, *, piped: bool) -> Recording:
    """The recording, by the name the user knows it by."""
    from lamina.replay.readers import read_recording

    if not piped:
        return read_recording(path)
    try:
        return replace(read_recording(path), file=path.name)
    except TranscriptError as error:
        raise TranscriptError(str(error).replace(str(path), path.name)) from error


# ---- for a person


HEADING = ("policy", "cost", "", "background", "from cache", "largest", "over window", "re-reads")


def _lines(results: Sequence[ReplayResult], *, quiet: bool = False) -> Iterator[str]:
    for result in results:
        about = f"{result.format}, {plural(result.requests, 'request')}"
        name = one_line(PurePath(result.file).name, max(12, width() - len(about) - 2))
        yield f"{style(name, 'bold')}  {style(about, 'dim')}"
        yield from _indented(result.policies)
        if result.skipped and not quiet:
            first, others = result.skipped[0], len(result.skipped) - 1
            more = f", and {others} more" if others else ""
            room = max(20, width() - len("  Not used: ") - len(more))
            what = one_line(f"{first.where}: {first.reason}", room)
            yield style(f"  Not used: {what}{more}", "dim")
        yield ""
    if len(results) > 1:
        requests = sum(result.requests for result in results)
        yield style(f"All {len(results)} files, {plural(requests, 'request')}", "bold")
        yield from _indented(merged(results))


def _indented(policies: Sequence[PolicyResult]) -> Iterator[str]:
    plain = compared_with(policies)
    rows = [_row(policy, plain) for policy in policies]
    kept = [at for at in range(len(HEADING)) if HEADING[at] or any(row[at] for row in rows)]
    shown = terminal.fitted(
        [[row[at] for at in kept] for row in rows],
        [HEADING[at] for at in kept],
        width() - 2,
        gives_way=[kept.index(at) for at in (5, 7, 4, 6, 3)],
        cut=0,
        right=range(1, len(kept)),
    )
    for line in shown.splitlines():
        yield f"  {_coloured(line)}"
    yield from _acted(policies)
    refused = next((p.overflows for p in policies if p.policy == "none" and p.overflows), 0)
    if refused:
        what = f"{plural(refused, 'prompt')} of none would be refused: they are over the window."
        yield style(wrapped(f"  {what}", width(), 4), "dim")
    if any(policy.guessed_price for policy in policies):
        prices = ", ".join(dict.fromkeys(name for p in policies for name in p.prices))
        words = f"  Prices are guessed ({one_line(prices, 60)}); --model chooses another model."
        yield style(wrapped(words, width(), 4), "dim")


def _row(policy: PolicyResult, plain: PolicyResult | None) -> list[str]:
    usage, rereads = policy.usage, policy.rereads
    base = plain.cost if plain is not None and policy is not plain else 0.0
    change = f"{policy.cost / base - 1:+.1%}" if base else ""
    aside = policy.background.values()  # calls beside the conversation; their cost is in the sum
    calls, dollars = sum(calls for calls, _ in aside), sum(dollars for _, dollars in aside)
    again = f"{len(rereads)} ({tokens_text(sum(r.tokens for r in rereads))})" if rereads else "0"
    return [
        policy.policy,
        money_text(policy.cost),
        change,
        f"{money_text(dollars)} ({plural(calls, 'call')})" if calls else "0",
        f"{usage.cache_read / max(1, usage.prompt):.1%}",
        tokens_text(policy.max_context),
        str(policy.overflows),
        again,
    ]


def _acted(policies: Sequence[PolicyResult]) -> Iterator[str]:
    """What the layers of each policy did, if anything."""
    for policy in policies:
        told = ", ".join(
            f"{layer_name(name)} {times}×" + (f" {tokens_text(saved)}" if saved else "")
            for name, (times, saved) in policy.layers.items()
        )
        asked = ", ".join(
            f"{layer_name(purpose)} {plural(calls, 'call')} {money_text(dollars)}"
            for purpose, (calls, dollars) in policy.background.items()
        )
        told = "; ".join(filter(None, (told, f"asked for {asked}" if asked else "")))
        if told:
            words = f"  {policy.policy} did: {told}"
            yield "\n".join(style(line, "dim") for line in wrapped(words, width(), 4).split("\n"))


def _coloured(line: str) -> str:
    """Savings in green, extra cost in red."""
    found = re.search(r" ([+-])[\d.,]+%(?= |$)", line)
    if found is None or found.group().strip(" +-0.%") == "":
        return line
    colour = "green" if found.group(1) == "-" else "red"
    return line[: found.start()] + style(found.group(), colour) + line[found.end() :]
