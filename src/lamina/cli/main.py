"""The `lamina` command: finds the named command, loads only that module, runs it, and turns
whatever goes wrong into one sentence on stderr and an exit code. Nothing heavy is imported here: a
fast start of `lamina --version` is a promise.
"""

from __future__ import annotations

import os
import sys

from lamina._version import __version__
from lamina.errors import LaminaError, UsageError, alone

TYPE_CHECKING = False  # as in typing, whose import alone would take a tenth of the cold start
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any, Protocol, TypeAlias

    Commands: TypeAlias = dict[str, tuple[str, str]]  # name → module, and a line of help

    class Module(Protocol):
        EXAMPLES: str

        def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

        def run(self, args: argparse.Namespace) -> int | None: ...


DONE, FAILED, WRONG_USE, REFUSED, INTERRUPTED = 0, 1, 2, 3, 130


# A command's module has `EXAMPLES`, `add_arguments(parser)` and `run(args)`, which
# returns an exit code where that may be another than 0.
GROUPS: dict[str, Commands] = {
    "talk": {
        "chat": ("lamina.cli.chat", "talk with an agent, or ask one question"),
        "demo": ("lamina.cli.demo", "watch a short session: no key, no network"),
    },
    "look": {
        "memory": ("lamina.cli.memory", "list, search, change and undo memories"),
        "sessions": ("lamina.cli.sessions", "list, show and search recorded sessions"),
        "agents": ("lamina.cli.agents", "list, show, start and message agents"),
        "context": ("lamina.cli.context", "show what fills a session's context"),
        "spend": ("lamina.cli.spend", "show what all model calls have cost"),
        "replay": ("lamina.cli.replay", "estimate what Lamina would have saved in past sessions"),
        "instructions": ("lamina.cli.instructions", "show which instruction files apply here"),
        "ui": ("lamina.web.command", "see and change all of this in a browser"),
    },
    "other agents": {
        "mcp": ("lamina.integrations.mcp_stdio", "serve the memory to any agent that speaks MCP"),
        "hooks": ("lamina.integrations.hooks_setup", "let coding agents call Lamina automatically"),
        "gateway": (
            "lamina.gateway.command",
            "run a proxy that records an agent's costs and can lower them",
        ),
        "wrap": ("lamina.gateway.wrap", "start a coding agent behind the gateway"),
        "hook": ("lamina.integrations.hook", "answer one hook event; coding agents call it"),
    },
    "together": {"team": ("lamina.team.command", "share memories with everyone on a repository")},
    "upkeep": {
        "dream": ("lamina.cli.dream", "tidy the memories; show, undo or stop a dream"),
        "extract": ("lamina.cli.extract", "save memories from a recorded session"),
    },
    "setup": {
        "settings": ("lamina.cli.settings", "show, explain and change settings"),
        "doctor": ("lamina.cli.doctor", "check that everything Lamina needs works here"),
        "completion": ("lamina.cli.completion", "print a completion script for your shell"),
    },
}
_LONGEST = 2_000  # characters of an error
COMMANDS: Commands = {name: command for group in GROUPS.values() for name, command in group.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _have_all_streams()
    try:
        if words in (["--version"], ["-V"]):
            sys.stdout.write(f"lamina {__version__}\n")
            code = DONE
        else:
            code = _run(words)
        sys.stdout.flush()
    except LaminaError as error:
        # Coding agents take a hook's 2 as "stop": a prompt would be lost over a mistake in its call.
        code = FAILED if words[:1] == ["hook"] else error.exit_code
        return _complain(str(error), code)
    except (KeyboardInterrupt, BaseExceptionGroup) as error:
        return _report(error, words)
    except BrokenPipeError:  # whoever read our output has seen enough
        _write_no_more()
        return DONE
    except Exception as error:  # noqa: BLE001 - the edge of the program: nobody sees a traceback
        return _report(error, words)
    return code


def _report(error: BaseException, words: Sequence[str]) -> int:
    """A task group wraps what went wrong inside it; anything unknown is a bug of ours."""
    cause = alone(error)
    if isinstance(cause, LaminaError):
        return _complain(str(cause), cause.exit_code)
    if isinstance(cause, KeyboardInterrupt):
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one ends it, without a traceback
        return _complain("Interrupted.", INTERRUPTED)
    if isinstance(cause, OSError) and _came_from_output(cause):
        _write_no_more()
        return _complain(f"Can't write the output: {cause.strerror}.", FAILED)
    if fault := _of_the_machine(cause):
        return _complain(fault, FAILED)
    from lamina.cli import crash

    return _complain(crash.record(error, words), FAILED)


def _of_the_machine(error: BaseException) -> str:
    """What a failing disk or full memory did, as a sentence; "" if it may be a bug of ours."""
    if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
        ours = os.path.dirname(os.path.dirname(__file__))
        if not (error.path or ours).startswith(ours):
            return (
                f"A library that Lamina needs can't be loaded ({error}). Try again; if it stays so, "
                "check the disk and install Lamina anew."
            )
    if isinstance(error, MemoryError):
        return "There is not enough memory. Close other programs and try again."
    import errno

    worn = (errno.EIO, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
    if isinstance(error, OSError) and error.errno in worn:
        where = f"Can't use {error.filename}" if error.filename else "The system gave up"
        return f"{where}: {error.strerror}. Check disk, memory and open files, and try again."
    return ""


def _load_hashes() -> None:
    """The standard library prints a traceback for every hash whose shared library can't be loaded, and
    goes on without it. Whoever needs that hash then fails, and says so in a sentence."""
    told, sys.stderr = sys.stderr, None  # pyright: ignore[reportAttributeAccessIssue]
    try:
        __import__("hashlib")
    finally:
        sys.stderr = told


def _have_all_streams() -> None:
    """A stream that was closed before we began is None: nothing comes from it, and what is written
    there goes nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _came_from_output(error: OSError) -> bool:
    """Raised where a command writes: an error about a file would name the file."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    here = os.path.dirname(__file__)
    written = last is not None and os.path.dirname(last.tb_frame.f_code.co_filename) == here
    return written and error.filename is None


def _write_no_more() -> None:
    """What is left in the buffer goes nowhere: Python would complain about it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> int:
    if (code := _at_once(words)) is not None:
        return code
    _load_hashes()
    name = _command_name(words)
    parser = build_parser(name)
    end = words.index("--") if name == "wrap" and "--" in words else len(words)
    try:
        args, unknown = _parsed(parser, words[:end])
        args.behind = words[end + 1 :]  # another program's own
    except SystemExit as leaving:  # --help and --version have printed
        return int(leaving.code or DONE)
    if unknown:
        page = f"lamina {name} --help" if name else "lamina --help"
        raise UsageError(f"Unknown argument {' '.join(unknown)}. See `{page}`.")
    if name is None:
        parser.print_help()
        _tell_of_claude_code(args)
        return DONE
    return _module(name).run(args) or DONE


def _parsed(
    parser: argparse.ArgumentParser, words: list[str]
) -> tuple[argparse.Namespace, list[str]]:
    """argparse takes the words of one argument only side by side: those that come behind an option
    (`settings set --local KEY VALUE`) are put before it."""
    args, unknown = parser.parse_known_args(words)
    count = len(unknown)
    runs = [at for at in range(len(words)) if unknown and words[at : at + count] == unknown]
    if not runs or unknown[0].startswith("-"):
        return args, unknown
    others = [*words[: runs[-1]], *words[runs[-1] + count :]]
    for at in reversed(range(runs[-1])):
        if others[at].startswith("-"):
            tried = parser.parse_known_args([*others[:at], *unknown, *others[at:]])
            if not tried[1]:
                return tried
    return args, unknown


def _tell_of_claude_code(args: argparse.Namespace) -> None:
    """Whoever comes from Claude Code has memories of this project already."""
    from lamina.cli.memory_transfer import claude_home, claude_memory
    from lamina.cli.options import command, config_of
    from lamina.cli.terminal import note, plural

    config = config_of(args)
    folder = claude_memory(config)
    found = [one for one in folder.glob("*.md") if one.name != "MEMORY.md" and not args.claude]
    if found:
        files = plural(len(found), "file")
        elsewhere = args.home or os.environ.get("LAMINA_HOME")  # --claude alone would mean that one
        theirs = {"claude": True, "home": str(claude_home()) if elsewhere else None}
        shows = command(type(args)(**vars(args) | theirs), "memory list")
        takes = command(args, "memory import claude")
        there = f"Claude Code has a memory of this project ({files})"
        note(f"\n{there}: {shows} shows it, {takes} imports it.")


def _at_once(words: list[str]) -> int | None:
    """Commands whose start another program waits for, with plain options: argparse takes longer than
    the rest of them. None if it is another command, or an option that only the parser knows."""
    name, rest = (words[0], words[1:]) if words else ("", [])
    options: dict[str, Any] = {"project": ".", "home": None, "claude": False}
    if name == "hook":
        options["client"] = rest.pop(0) if rest else None
    while name in ("mcp", "hook") and rest:
        word = rest.pop(0)
        if word == "--claude":
            options["claude"] = True
        elif word in ("--project", "--home", *(["--only"] if name == "mcp" else [])) and rest:
            options[word[2:]] = rest.pop(0)
        else:
            return None
    module: Any = _module(name) if name in ("mcp", "hook") else None
    if module is None or (name == "hook" and options["client"] not in module.CLIENTS):
        return None
    if "only" in options and all(options["only"] != one["name"] for one in module.TOOLS):
        return None
    return module.at_once(**options)


def build_parser(name: str | None = None, *, everything: bool = False) -> argparse.ArgumentParser:
    """The parser: whole for the named command (or for all), the others by name and help alone."""
    from lamina.cli.options import COMMON, Parser, add_common, begin_group, examples

    told = "lamina chat\nlamina COMMAND --help\nlamina doctor\nlamina settings --explain"
    about = "Seven-layer memory for LLM agents."
    parser = Parser(prog="lamina", description=about, epilog=examples(told))
    parser.add_argument("-V", "--version", action="version", version=f"lamina {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for known, (_, help_line) in COMMANDS.items():
        if everything or known == name:
            module, about = _module(known), f"{help_line[:1].upper()}{help_line[1:]}."
            end = examples(module.EXAMPLES)
            child = commands.add_parser(known, help=help_line, description=about, epilog=end)
            add_common(child)
            module.add_arguments(child)
        else:
            commands.add_parser(known, help=help_line, add_help=False)
        for heading, group in GROUPS.items():
            if known == next(iter(group)):
                begin_group(commands, heading)
    add_common(parser)
    parser.set_defaults(**COMMON)
    return parser


def _command_name(words: Sequence[str]) -> str | None:
    """The first word that is neither an option nor its value; an unknown command is refused."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("--home", "--project"):
            skip = True
        elif not word.startswith("-"):
            if word in COMMANDS:
                return word
            import difflib

            near = difflib.get_close_matches(word, COMMANDS, n=1)
            hint = "`lamina --help` lists the commands."
            hint = f"Did you mean `lamina {near[0]}`?" if near else hint
            raise UsageError(f"There is no command {word!r}. {hint}")
    return None


def _module(name: str) -> Module:
    import importlib

    module: Any = importlib.import_module(COMMANDS[name][0])
    return module


def _complain(sentence: str, code: int) -> int:
    from lamina.cli.terminal import harmless, note, width, wrapped

    line = harmless(f"lamina: {' '.join(sentence.split())}")
    if len(line) > _LONGEST:  # what was typed may be: the advice is at the end
        line = f"{line[: _LONGEST // 2]} … {line[-_LONGEST // 2 :]}"
    note(wrapped(line, width(), 0) if sys.stderr.isatty() else line)
    return code


if __name__ == "__main__":
    sys.exit(main())
