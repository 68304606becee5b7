"""`lamina demo`: a whole life in under a minute. Two coding sessions with a scripted model and real
tools, what the rules save from them, a dream that tidies the memories, and a third session that
recalls them; then what each layer did, and the cost. It works in a temporary project and home, which
stay there for what it says to try next; with --json or --quiet only its report does.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.cli import terminal
from lamina.cli.terminal import WordWrap, harmless, out, out_wrapped, picked, stream, style, width
from lamina.errors import LaminaError, UsageError

if TYPE_CHECKING:
    from lamina.events import Event
    from lamina.models.scripted import Step
    from lamina.session import Opening

EXAMPLES = """
lamina demo
lamina demo --keep ./lamina-demo     keep the files, to look at them
lamina demo --json
"""
PRICED_AS = "anthropic:claude-sonnet-4-6"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", metavar="DIR", help="keep project and home in this new folder")


def run(args: argparse.Namespace) -> int:
    import anyio

    from lamina.machine import failing_as

    if args.keep and Path(args.keep).exists() and any(Path(args.keep).iterdir()):
        raise UsageError(f"{args.keep} exists already and is not empty. Name a new folder.")
    show = not (args.json or args.quiet)
    with failing_as(LaminaError, "Can't make the demo's files"):
        root = Path(args.keep) if args.keep else Path(tempfile.mkdtemp(prefix="lamina-demo-"))
        life = _Life(root.resolve(), show=show, keep=show or bool(args.keep))
        life.unpack()
    try:
        result = anyio.run(life.live)
    finally:
        if not life.keep:
            shutil.rmtree(root, ignore_errors=True)
    if args.json:
        terminal.out_json(result)
    elif show:
        _farewell(result)
    return 0 if result["fixed"] and result["recalled"] else 1


class _Life:
    def __init__(self, root: Path, *, show: bool, keep: bool) -> None:
        self.project = root / "project"
        self.home = root / "home"
        self.show = show
        self.keep = root if keep else None
        self.events: list[Event] = []
        self._streamed: WordWrap | None = None  # an answer whose line has not ended

    def unpack(self) -> None:
        self.project.mkdir(parents=True, exist_ok=True)
        for name, content in FILES.items():
            (self.project / name).write_text(content)

    async def live(self) -> dict[str, Any]:
        import anyio.to_thread

        self._title("The first session", "a bug is fixed, and the user corrects the agent")
        one = await self._talk(_first(sys.executable), FIRST)
        self._title("The second session", "a large result goes to disk")
        two = await self._talk(_second(), SECOND)
        self._title("Extraction", "what the user said that is worth keeping; by rules, no model")
        kept = [path for id_ in (one, two) for path in await self._extract(id_)]
        self._title("A dream", "duplicates are merged and dead links dropped")
        dreamt = await self._dream()
        self._title("The third session", "what was said in the first is remembered")
        await self._talk(_third(), THIRD)
        ledgers = [next(self.home.glob(f"projects/*/{id_}.jsonl")) for id_ in (one, two)]
        report = await anyio.to_thread.run_sync(self._report, ledgers)
        about = {"report": report, "session": str(ledgers[0]), "replayed": str(ledgers[1])}
        return {**self._summary(kept, dreamt), **about}

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
                self._line(f"> {question}", "bold", 2)
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
            self._line(f"    {line}", "dim", 6)
        return {"status": done.status, "text": done.text, "files": files}

    # ---- showing it

    def _title(self, name: str, about: str) -> None:
        self._line(f"\n── {name}: {about}", "bold", 3)

    def _line(self, words: str, styled: str, indent: int = 4) -> None:
        self._end_line()
        if self.show:
            out_wrapped(words, indent, styled)

    def _end_line(self) -> None:
        if self._streamed is not None:
            stream(self._streamed.end() + "\n")
            self._streamed = None

    def _hear(self, event: Event) -> None:
        from lamina.cli.chat_events import line_of
        from lamina.events import TextDelta

        if isinstance(event, TextDelta):
            if self.show:
                self._streamed = self._streamed or WordWrap(width())
                stream(self._streamed.feed(harmless(event.text)))
        elif line := line_of(event):
            self._line(line.text, line.style)

    # ---- what it comes to

    def _summary(self, kept: list[str], dreamt: dict[str, Any]) -> dict[str, Any]:
        from lamina.cache.spend import Spend, cost, grouped, price_of
        from lamina.events import LayerActed, MemoryRecalled
        from lamina.messages import Usage

        calls = [c for c in Spend(self.home / "spend").calls() if c["model"] != "none"]
        total = grouped(calls, "model")[0]
        used = total.usage
        uncached = Usage(input=used.prompt, output=used.output)
        layers = [e for e in self.events if isinstance(e, LayerActed)]
        cart = (self.project / "cart.py").read_text()
        return {
            "calls": total.calls,
            "prompt_tokens": used.prompt,
            "read_from_cache": used.cache_read,
            "cost": round(total.cost, 4),
            "cost_without_cache": round(cost(uncached, price_of(PRICED_AS)), 4),
            "layers": [picked(e, "layer what tokens_saved") for e in layers],
            "remembered": kept,
            "dream": dreamt,
            "fixed": "(1 - discount / 100)" in cart,
            "recalled": [f for e in self.events if isinstance(e, MemoryRecalled) for f in e.files],
            "home": str(self.home),
            "project": str(self.project),
        }

    def _report(self, ledgers: Sequence[Path]) -> str:
        """Write a page about both coding sessions, replayed, to the folder that is kept, or among
        temporary files; its path, or "" if that fails. A new name each time: in a folder that all share,
        a known one may be somebody else's link."""
        from lamina.config import load
        from lamina.replay.policies import replayed
        from lamina.replay.readers import read_recording
        from lamina.replay.report import render_report

        config = load(self.project, home=self.home, env={})
        named = enumerate(ledgers, 1)
        read = [replace(read_recording(one), file=f"session {n}") for n, one in named]
        results = [replayed(("none", "lamina"), one, config, model=PRICED_AS) for one in read]
        try:
            descriptor, path = tempfile.mkstemp(".html", "lamina-demo-report-", self.keep)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(render_report(results, title="Lamina demo"))
        except OSError:
            return ""
        return path


def _farewell(result: dict[str, Any]) -> None:
    share = result["read_from_cache"] / max(1, result["prompt_tokens"])
    out("\n" + style("What happened", "bold"))
    prompt = f"{result['prompt_tokens']:,} prompt tokens"
    told = [f"{result['calls']} model calls with {prompt}, {share:.0%} of them read from the cache"]
    for layer in result["layers"]:
        saved = layer["tokens_saved"]
        kept_out = f", {saved:,} tokens kept out of the context" if saved > 0 else ""
        told.append(f"{layer['layer']}: {layer['what']}{kept_out}")
    told.append(f"memory: {', '.join(result['dream']['files'])}")
    told.append(
        f"${result['cost']:.4f} at the prices of {PRICED_AS.partition(':')[2]}; "
        f"${result['cost_without_cache']:.4f} without the cache"
    )
    if result["report"]:
        told.append(f"both sessions with and without Lamina: {Path(result['report']).as_uri()}")
    told.append(f"ledgers, memories and history: {result['home']}")
    for line in told:
        out_wrapped(f"  {line}", 4)
    out("\n" + style("What to try next, in the demo's project", "bold"))
    lamina = _program()
    place = f"cd {shlex.quote(result['project'])}; export LAMINA_HOME={shlex.quote(result['home'])}"
    for command, why in (
        (place, ""),
        (f"{lamina} memory list", "what it remembers"),
        (f"{lamina} memory why {result['remembered'][0]}", "from whose words, and when"),
        (f"{lamina} sessions show {Path(result['session']).stem[:8]}", "the first session"),
        (f'{lamina} chat -p "May prices be rounded?"', "no key needed: it quotes what you said"),
        (f"{lamina} replay {result['replayed']}", "what Lamina saved in the second session"),
        (f"{lamina} doctor", "does everything work on this machine?"),
    ):
        out(f"  {command}" + style(f"  # {why}" if why else "", "dim"))
    keys = "with ANTHROPIC_API_KEY or OPENAI_API_KEY set it has a model"
    yours = f"  In a project of yours: unset LAMINA_HOME, then {lamina} chat ({keys})."
    out_wrapped(yours, 4)


def _program() -> str:
    """Lamina as this shell finds it: a virtual environment need not be on the path."""
    if shutil.which("lamina"):
        return "lamina"
    beside, whole = Path(sys.executable).parent / "lamina", "-P -m lamina.cli.main"
    return shlex.quote(str(beside)) if beside.exists() else f"{sys.executable} {whole}"


# ---- the script


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

# What somebody left in the memory directory by hand: the same thing twice, and a dead link.
_BOARD = (
    "description: Bugs are tracked in the SHOP board\ntype: reference\n---\n"
    "Bugs of the shop are tracked in the SHOP board.\n"
)
BY_HAND = {
    "reference_tracker.md": f"---\nname: Issue tracker\n{_BOARD}",
    "reference_bug_board.md": f"---\nname: Bug board\n{_BOARD}",
}
INDEX_BY_HAND = "- [Old plan](project_old_plan.md) — a file that is gone\n"

FIRST = (
    "The discount test fails. Please fix it.",
    "No, don't round prices anywhere in this project. The shop goes live in three weeks.",
)
SECOND = ("Does orders.log show the same problem?",)
THIRD = ("Can I round prices in the monthly report?",)


def _call(tool: str, **given: str) -> dict[str, Any]:
    return {"name": tool, "input": given}


def _says(text: str, *calls: dict[str, Any], **expected: Any) -> Step:
    """An answer, and what its request is expected to hold."""
    from lamina.models.scripted import Step

    said = {"text": text} if text else {}
    return Step({**said, "tool_use": list(calls)} if calls else text, expected)


def _first(python: str) -> list[Step]:
    test = _call("Bash", command=f"{shlex.quote(python)} -m unittest -q")
    wrong, rounded = "(1 + discount / 100)", "round((1 - discount / 100), 2)"
    fix = _call("Edit", file_path="cart.py", old_string=wrong, new_string=rounded)
    plain = {**fix["input"], "old_string": rounded, "new_string": "(1 - discount / 100)"}
    undo = _call("Edit", **plain)
    read, tools = _call("Read", file_path="cart.py"), ["Read", "Edit", "Bash"]
    begin = "I'll run the tests and read the code."
    fixed = "Fixed in cart.py:6: the discount is now subtracted, and the factor rounded. "
    done = "Done: nothing is rounded, and the tests pass."
    failed = ["FAILED", "def total"]
    return [
        _says(begin, test, read, last_user="discount test fails", tools=tools),
        _says("The discount is added instead of subtracted.", fix, last_result=failed, prefix=True),
        _says("", test, prefix=True),
        _says(f"{fixed}Both tests pass.", last_result="OK", prefix=True),
        _says("Without rounding, then.", undo, last_user="don't round", prefix=True),
        _says("", test, prefix=True),
        _says(done, last_result="OK", prefix=True),
    ]


def _second() -> list[Step]:
    cat = _call("Bash", command="cat orders.log")
    search = _call("Grep", pattern="REJECTED", path="orders.log", output_mode="count")
    long = "The log is long, so it went to disk; I'll search it."
    found = "Yes: ten orders were rejected for a negative discount, which is the same sign error."
    return [
        _says("Let me look at the log.", cat, last_user="orders.log"),
        _says(long, search, last_result="<persisted-output>", prefix=True),
        _says(found, last_result="10", prefix=True),
    ]


def _third() -> list[Step]:
    look = _call("Glob", pattern="*.py")
    said = "No. You said not to round prices anywhere in this project."
    return [
        _says("Let me see what you told me.", look, last_user="round prices"),
        _says(said, contains=["Memory (saved", "round prices"], prefix=True),
    ]
