"""`lamina demo`: a whole life in under a minute. Two coding sessions with a scripted model and real
tools, what the rules take into memory from them, a dream that tidies it, and a third session that
recalls it; what each layer did, and the money. In a temporary project and home: touches nothing else
but the report that it leaves in the system's folder for temporary files.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.cli import terminal
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.events import Event
    from lamina.replay.results import PolicyResult, ReplayResult
    from lamina.session import Opening


PRICED_AS = "anthropic:claude-sonnet-4-6"

_LOG = "".join(
    f"2026-11-{n % 28 + 1:02} 12:{n % 60:02} order {10_000 + n} quantity {n % 13} "
    f"net {n * 7 % 900}.{n % 100:02} EUR {'ok' if n % 97 else 'REJECTED: negative discount'}\n"
    for n in range(900)
)

FILES = {
    "cart.py": '''"""A shopping cart."""


def total(prices, discount=0):
    """The sum of the prices, less a discount in percent."""
    return sum(prices) * (1 + discount / 100)
''',
    "test_cart.py": """import unittest

from cart import total


class Total(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(total([1, 2, 3]), 6)

    def test_discount(self):
        self.assertEqual(total([100], discount=10), 90)


if __name__ == "__main__":
    unittest.main()
""",
    "orders.log": _LOG,
}

# What somebody left in the memory directory by hand: said twice, and a pointer to nothing.
BY_HAND = {
    "reference_tracker.md": (
        "---\nname: Issue tracker\ndescription: Bugs are tracked in the SHOP board\n"
        "type: reference\n---\nBugs of the shop are tracked in the SHOP board.\n"
    ),
    "reference_bug_board.md": (
        "---\nname: Bug board\ndescription: Bugs are tracked in the SHOP board\n"
        "type: reference\n---\nBugs of the shop are tracked in the SHOP board.\n"
    ),
}
INDEX_BY_HAND = "- [Old plan](project_old_plan.md) — a file that is gone\n"

FIRST = (
    "The discount test fails. Please fix it.",
    "No, don't round prices anywhere in this project. The shop goes live in three weeks.",
)
SECOND = ("Does orders.log show the same problem?",)
THIRD = ("Can I round prices in the monthly report?",)


def first(python: str) -> list[Any]:
    from lamina.models.scripted import Step

    tests = f"{shlex.quote(python)} -m unittest -q"
    old, new = "(1 + discount / 100)", "round((1 - discount / 100), 2)"
    plain = "(1 - discount / 100)"
    return [
        Step(
            {
                "text": "I run the tests and read the code.",
                "tool_use": [
                    {"name": "Bash", "input": {"command": tests}},
                    {"name": "Read", "input": {"file_path": "cart.py"}},
                ],
            },
            {"last_user": "discount test fails", "tools": ["Read", "Edit", "Bash"]},
        ),
        Step(
            {
                "text": "The discount is added instead of taken off.",
                "tool_use": _edit(old, new),
            },
            {"last_result": ["FAILED", "def total"], "prefix": True},
        ),
        Step({"tool_use": {"name": "Bash", "input": {"command": tests}}}, {"prefix": True}),
        Step(
            "Fixed in cart.py:6: the discount is now subtracted, and the factor rounded. "
            "Both tests pass.",
            {"last_result": "OK", "prefix": True},
        ),
        Step(
            {"text": "Then without rounding.", "tool_use": _edit(new, plain)},
            {"last_user": "don't round", "prefix": True},
        ),
        Step({"tool_use": {"name": "Bash", "input": {"command": tests}}}, {"prefix": True}),
        Step(
            "Done: nothing is rounded, and the tests pass.", {"last_result": "OK", "prefix": True}
        ),
    ]


def _edit(old: str, new: str) -> dict[str, Any]:
    given = {"file_path": "cart.py", "old_string": old, "new_string": new}
    return {"name": "Edit", "input": given}


def second() -> list[Any]:
    from lamina.models.scripted import Step

    return [
        Step(
            {
                "text": "I look at the log.",
                "tool_use": {"name": "Bash", "input": {"command": "cat orders.log"}},
            },
            {"last_user": "orders.log"},
        ),
        Step(
            {
                "text": "The log is long; it is on disk now, and I search it.",
                "tool_use": {
                    "name": "Grep",
                    "input": {"pattern": "REJECTED", "path": "orders.log", "output_mode": "count"},
                },
            },
            {"last_result": "<persisted-output>", "prefix": True},
        ),
        Step(
            "Yes: ten orders were rejected for a negative discount, which is the same sign error.",
            {"last_result": "10", "prefix": True},
        ),
    ]


def third() -> list[Any]:
    from lamina.models.scripted import Step

    return [
        Step(
            {
                "text": "Let me see what you told me.",
                "tool_use": {"name": "Glob", "input": {"pattern": "*.py"}},
            },
            {"last_user": "round prices"},
        ),
        Step(
            "No. You said not to round prices anywhere in this project.",
            {"contains": ["Memory (saved", "round prices"], "prefix": True},
        ),
    ]


def write_report(ledgers: Sequence[Path], config: Config, keep: Path | None) -> str:
    """Write the report into this folder, or among temporary files; its path, or "" if that fails.

    A new file each time: at a known name in a folder that all share, somebody else's link may wait.
    """
    from lamina.replay.report import render_report

    results = [
        _replayed(ledger, f"session {number}", config) for number, ledger in enumerate(ledgers, 1)
    ]
    try:
        descriptor, path = tempfile.mkstemp(".html", "lamina-demo-report-", keep)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(render_report(results, title="Lamina demo"))
    except OSError:
        return ""
    return path


def _replayed(ledger: Path, name: str, config: Config) -> ReplayResult:
    from dataclasses import replace

    from lamina.replay.policies import open_policy
    from lamina.replay.readers import read_recording
    from lamina.replay.results import result_of
    from lamina.replay.run import replay
    from lamina.replay.weigh import Weigher

    weigher = Weigher(replace(read_recording(ledger), file=name))
    done: list[PolicyResult] = []
    for policy_name in ("none", "lamina"):
        with open_policy(policy_name, weigher, config, model=PRICED_AS) as policy:
            done.append(replay(weigher.recording, policy, model=PRICED_AS, weigher=weigher))
    return result_of(weigher.recording, done)


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
    life = _Life(root.resolve(), show=not (args.json or args.quiet), keep=bool(args.keep))
    try:
        result = anyio.run(life.live)
    finally:
        if not args.keep:
            shutil.rmtree(root, ignore_errors=True)
    if args.json:
        terminal.out_json(result)
    elif not args.quiet:
        _farewell(result, args.keep)
    return 0 if result["fixed"] and result["recalled"] else 1


class _Life:
    def __init__(self, root: Path, *, show: bool, keep: bool) -> None:
        self.project = root / "project"
        self.home = root / "home"
        self.show = show
        self.keep = root if keep else None
        self.events: list[Event] = []
        self._at_start = True

    async def live(self) -> dict[str, Any]:
        import anyio.to_thread

        self.project.mkdir(parents=True, exist_ok=True)
        for name, content in FILES.items():
            (self.project / name).write_text(content)
        self._title("The first session", "a bug is fixed, and the user corrects the agent")
        one = await self._talk(first(sys.executable), FIRST)
        self._title("The second session", "a large result goes to disk")
        two = await self._talk(second(), SECOND)
        self._title("Extraction", "what the user said that is worth keeping, by rules, no model")
        kept = [path for id_ in (one, two) for path in await self._extract(id_)]
        self._title("A dream", "memory is tidied: said twice, pointing at nothing")
        dreamt = await self._dream()
        self._title("The third session", "what was said is there again")
        await self._talk(third(), THIRD)
        report = await anyio.to_thread.run_sync(self._report, (one, two))
        return {**self._summary(kept, dreamt), "report": report}

    # ---- the acts

    def _open(self, model: Any, **wishes: Any) -> Opening:
        from lamina.session import Session

        config = {"permissions.allow": ["Bash"], "small_model": "none", "dream.enabled": False}
        return Session.open(
            self.project, model, home=self.home, on_event=self._hear, config=config, **wishes
        )

    async def _talk(self, steps: list[Any], questions: tuple[str, ...]) -> str:
        from lamina.models.scripted import ScriptedModel
        from lamina.ports import Capabilities

        can = Capabilities(cache="anthropic")
        model = ScriptedModel(steps, name=PRICED_AS, capabilities=can)
        async with self._open(model) as session:
            for question in questions:
                self._line(f"> {question}", "bold")
                reply = await session.ask(question)
                self.events += reply.events
                self._end_line()
            model.assert_finished()
            return session.id

    async def _extract(self, session_id: str) -> list[str]:
        from lamina.layers import extraction

        async with self._open("none", session_id=session_id, resume=True) as session:
            done = await extraction.run(session.state, str(session.ledger.head))
        return done.files

    async def _dream(self) -> dict[str, Any]:
        from lamina.layers import dream

        async with self._open("none") as session:
            store = session.state.deps.memory
            if store is None:
                raise UsageError("Memory is off; the demo needs it.")
            for name, content in BY_HAND.items():
                (store.directory / name).write_text(content)
            index = store.directory / "MEMORY.md"
            before = index.read_text() if index.exists() else ""
            index.write_text(before + INDEX_BY_HAND)
            done = await dream.run(session.state)
            files = sorted(p.name for p in store.directory.glob("*.md"))
            index_now = index.read_text()
        self._line("  MEMORY.md now:", "dim")
        for line in index_now.splitlines():
            self._line(f"    {line}", "dim")
        return {"status": done.status, "text": done.text, "files": files}

    # ---- showing it

    def _title(self, name: str, about: str) -> None:
        if self.show:
            terminal.out("\n" + terminal.style(f"── {name}: {about}", "bold"))

    def _line(self, words: str, style: str) -> None:
        self._end_line()
        if self.show:
            terminal.out(terminal.style(words, style))

    def _end_line(self) -> None:
        if self.show and not self._at_start:
            terminal.out()
        self._at_start = True

    def _hear(self, event: Event) -> None:
        from lamina.cli.chat_events import line_of
        from lamina.events import TextDelta

        if isinstance(event, TextDelta):
            if self.show:
                terminal.stream(event.text)
            self._at_start = False
        elif line := line_of(event):
            self._line(line.text, line.style)

    # ---- what it comes to

    def _summary(self, kept: list[str], dreamt: dict[str, Any]) -> dict[str, Any]:
        from lamina.cache.prices import cost, price_of
        from lamina.cache.spend import Spend, grouped
        from lamina.events import LayerActed, MemoryRecalled
        from lamina.messages import Usage

        calls = [c for c in Spend(self.home / "spend").calls() if c["model"] != "none"]
        total = grouped(calls, "model")[0]
        used = total.usage
        price = price_of(PRICED_AS)
        layers = [e for e in self.events if isinstance(e, LayerActed)]
        cart = (self.project / "cart.py").read_text()
        return {
            "calls": total.calls,
            "prompt_tokens": used.prompt,
            "read_from_cache": used.cache_read,
            "cost": round(total.cost, 4),
            "cost_without_cache": round(
                cost(Usage(input=used.prompt, output=used.output), price), 4
            ),
            "layers": [
                {"layer": e.layer, "what": e.what, "tokens_saved": e.tokens_saved} for e in layers
            ],
            "remembered": kept,
            "dream": dreamt,
            "fixed": "(1 - discount / 100)" in cart,
            "recalled": [f for e in self.events if isinstance(e, MemoryRecalled) for f in e.files],
            "home": str(self.home),
        }

    def _report(self, sessions: tuple[str, ...]) -> str:
        """Both coding sessions replayed, as a page that stays."""
        from lamina.config import load

        folders = self.home / "projects"
        ledgers = [next(folders.glob(f"*/{session}.jsonl")) for session in sessions]
        return write_report(ledgers, load(self.project, home=self.home, env={}), self.keep)


def _farewell(result: dict[str, Any], kept: str | None) -> None:
    share = result["read_from_cache"] / max(1, result["prompt_tokens"])
    terminal.out("\n" + terminal.style("What happened", "bold"))
    terminal.out(
        f"  {result['calls']} model calls with {result['prompt_tokens']:,} prompt tokens, "
        f"{share:.0%} of them read from the prompt cache"
    )
    for layer in result["layers"]:
        saved = layer["tokens_saved"]
        kept_out = f", {saved:,} tokens kept out" if saved > 0 else ""
        terminal.out(f"  {layer['layer']}: {layer['what']}{kept_out}")
    terminal.out(f"  memory: {', '.join(result['dream']['files'])}")
    terminal.out(
        f"  at {PRICED_AS.partition(':')[2]}'s prices ${result['cost']:.4f}; "
        f"${result['cost_without_cache']:.4f} without the cache"
    )
    if result["report"]:
        terminal.out(f"  both sessions with and without Lamina: {Path(result['report']).as_uri()}")
    if kept:
        terminal.out(f"  ledgers, memory and history: {result['home']}")
    terminal.out("\n" + terminal.style("What to try next", "bold"))
    for command, why in (
        ("lamina chat", "talk in this directory; no key is needed to look around"),
        ("ANTHROPIC_API_KEY=… lamina chat", "the same with a model"),
        ("lamina memory list", "what this project remembers, and where from"),
        ("lamina replay FILE.jsonl", "what Lamina would have saved in a recorded session"),
        ("lamina doctor", "does everything work on this machine?"),
    ):
        terminal.out(f"  {command:<34} {why}")
