"""`lamina demo`: a short coding session with a scripted model and real tools, in a temporary project
and home. It shows the turn, what each layer did and what a provider would have charged. Touches
nothing outside its temporary folder, which goes away unless --keep names a place for it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.cli import terminal
from lamina.cli.demo_script import FILES, PRICED_AS, QUESTIONS, steps
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.events import Event
    from lamina.session import Session

EXAMPLES = """
lamina demo
lamina demo --keep ./lamina-demo     and look at the files it leaves
lamina demo --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", metavar="DIR", help="leave project and home in this new folder")


def run(args: argparse.Namespace) -> int:
    import anyio

    if args.keep and Path(args.keep).exists() and any(Path(args.keep).iterdir()):
        raise UsageError(f"{args.keep} is there already and not empty. Name a new folder.")
    root = Path(args.keep) if args.keep else Path(tempfile.mkdtemp(prefix="lamina-demo-"))
    try:
        result = anyio.run(_play, root.resolve(), not (args.json or args.quiet))
    finally:
        if not args.keep:
            shutil.rmtree(root, ignore_errors=True)
    if args.json:
        terminal.out_json(result)
    elif not args.quiet:
        _farewell(result, args.keep)
    return 0 if result["fixed"] else 1


async def _play(root: Path, show: bool) -> dict[str, Any]:
    from lamina.models.scripted import ScriptedModel
    from lamina.ports import Capabilities
    from lamina.session import Session

    project = root / "project"
    project.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        (project / name).write_text(content)
    model = ScriptedModel(
        steps(sys.executable), name=PRICED_AS, capabilities=Capabilities(cache="anthropic")
    )
    events: list[Event] = []
    opened = Session.open(
        project,
        model,
        home=root / "home",
        on_event=_shower(show),
        config={"permissions.allow": ["Bash"]},  # its own commands, in its own folder
    )
    async with opened as session:
        for question in QUESTIONS:
            if show:
                terminal.out("\n" + terminal.style(f"> {question}", "bold"))
            reply = await session.ask(question)
            events += reply.events
            if show:
                terminal.out()
        model.assert_finished()
        return _summary(session, events)


def _shower(show: bool) -> Any:
    from lamina.cli.chat_events import line_of
    from lamina.events import TextDelta

    at_start = [True]

    def hear(event: Event) -> None:
        if not show:
            return
        if isinstance(event, TextDelta):
            sys.stdout.write(event.text)
            at_start[0] = False
        elif line := line_of(event):
            if not at_start[0]:
                terminal.out()
            terminal.out(terminal.style(line.text, line.style))
            at_start[0] = True

    return hear


def _summary(session: Session, events: list[Event]) -> dict[str, Any]:
    from lamina.cache.prices import cost, price_of
    from lamina.cache.spend import grouped
    from lamina.events import LayerActed
    from lamina.messages import Usage

    calls = list(session.state.deps.spend.calls())
    total = grouped(calls, "model")[0]
    used = total.usage
    uncached = cost(Usage(input=used.prompt, output=used.output), price_of(PRICED_AS))
    layers = [
        {"layer": e.layer, "what": e.what, "tokens_saved": e.tokens_saved}
        for e in events
        if isinstance(e, LayerActed)
    ]
    tested = [e for _, e in session.ledger.messages() if e.get("tool") == "Bash"]
    return {
        "calls": total.calls,
        "prompt_tokens": used.prompt,
        "read_from_cache": used.cache_read,
        "cost": round(total.cost, 4),
        "cost_without_cache": round(uncached, 4),
        "layers": layers,
        "context_tokens": session.ledger.tokens(),
        "session": session.id,
        "ledger": str(session.folder.with_suffix(".jsonl")),
        "fixed": bool(tested) and tested[-1]["meta"].get("exit_code") == 0,
    }


def _farewell(result: dict[str, Any], kept: str | None) -> None:
    share = result["read_from_cache"] / max(1, result["prompt_tokens"])
    bold = terminal.style
    terminal.out("\n" + bold("What happened", "bold"))
    terminal.out(
        f"  {result['calls']} model calls with {result['prompt_tokens']:,} prompt tokens, "
        f"{share:.0%} of them read from the prompt cache"
    )
    for layer in result["layers"]:
        terminal.out(
            f"  {layer['layer']}: {layer['what']}, {layer['tokens_saved']:,} tokens kept out"
        )
    terminal.out(
        f"  at {PRICED_AS.partition(':')[2]}'s prices ${result['cost']:.4f}; "
        f"${result['cost_without_cache']:.4f} without the cache"
    )
    if kept:
        terminal.out(f"  the whole session: {result['ledger']}")
    terminal.out("\n" + bold("What to try next", "bold"))
    for command, why in (
        ("lamina chat", "talk in this directory; no key is needed to look around"),
        ("ANTHROPIC_API_KEY=… lamina chat", "the same with a model"),
        ("lamina settings --explain", "every setting, and who set it"),
        ("lamina doctor", "does everything work on this machine?"),
    ):
        terminal.out(f"  {command:<34} {why}")
