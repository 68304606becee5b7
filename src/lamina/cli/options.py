"""What all commands share in parsing: the common options, help pages with their commands in groups,
a parser whose complaints are one sentence, numbers and times as arguments, and the settings that
the options lead to. Reads nothing until `config_of` is called.
"""

from __future__ import annotations

import argparse
import math
import re
import shlex
from typing import TYPE_CHECKING, Any, NoReturn

from lamina.cli.terminal import note
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.config import Config
    from lamina.messages import Json

# With their defaults: parsers suppress their own, so that an option counts before and after a command.
COMMON: Json = {"home": None, "project": ".", "json": False, "claude": False, "quiet": False}


class _Help(argparse.RawDescriptionHelpFormatter):
    """argparse forgets that names of commands are indented once more, and breaks long ones. A command
    that begins a group has the group's heading above it."""

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        self._action_max_length = max(self._action_max_length, len("instructions") + 4)

    def _format_action(self, action: argparse.Action) -> str:
        heading = getattr(action, "heading", "")
        return (f"\n  {heading}:\n" if heading else "") + super()._format_action(action)


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of printing its usage and leaving."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", _Help)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        verbs = next((one.choices for one in self._actions if one.nargs == argparse.PARSER), None)
        if verbs and message.startswith("the following arguments are required"):
            raise UsageError(
                f"`{self.prog}` needs one of: {', '.join(verbs)}. See `{self.prog} --help`."
            )
        word = message.partition("invalid choice: '")[2].partition("'")[0] if verbs else ""
        if verbs and word:
            import difflib

            near = difflib.get_close_matches(word, [*verbs], n=1)
            hint = f"`{self.prog} --help` lists what there is."
            hint = f"Did you mean `{self.prog} {near[0]}`?" if near else hint
            raise UsageError(f"There is no `{self.prog} {word}`. {hint}")
        sentence = message[:1].upper() + message[1:].rstrip(".")
        raise UsageError(f"{sentence}. See `{self.prog} --help`.")


def add_common(parser: argparse.ArgumentParser) -> None:
    """The options that every command takes."""
    group = parser.add_argument_group("common options")
    off: Any = argparse.SUPPRESS
    option(group, "--home DIR", "Lamina's home (~/.lamina)", default=off)
    option(group, "--project DIR", "the project's directory (this one)", default=off)
    flag(group, "--json", "print JSON", default=off)
    flag(group, "--claude", "use Claude Code's directory and memories", default=off)
    flag(group, "--quiet", "print only results", default=off)


def add_verb(
    verbs: argparse._SubParsersAction[Any],  # pyright: ignore[reportPrivateUsage] - it has no other name
    name: str,
    help: str,  # noqa: A002 - argparse's own name
) -> argparse.ArgumentParser:
    """A command's own sub-command, with the common options."""
    parser = verbs.add_parser(name, help=help, description=f"{help[:1].upper()}{help[1:]}.")
    add_common(parser)
    return parser


def flag(parser: Any, name: str, help: str, **more: Any) -> None:  # noqa: A002
    """An option that is there or not."""
    parser.add_argument(name, action="store_true", help=help, **more)


def option(parser: Any, name: str, help: str, **more: Any) -> None:  # noqa: A002
    """An option with a value: `--model NAME`."""
    name, _, metavar = name.partition(" ")
    parser.add_argument(name, metavar=metavar, help=help, **more)


def choose_model(
    parser: Any, words: str = "use this model instead of the one in the settings"
) -> None:
    option(parser, "--model NAME", words, type=_model)


def _model(name: str) -> str:
    from lamina.messages import MODELS, names_model

    if not names_model(name):
        raise argparse.ArgumentTypeError(f"there is no model {name!r}; write {MODELS}")
    return name


def optional(parser: Any, name: str, help: str, metavar: str | None = None) -> None:  # noqa: A002
    """A word that may be left out."""
    parser.add_argument(name, nargs="?", default="", metavar=metavar, help=help)


def begin_group(commands: Any, heading: str) -> None:
    """The command added last begins a group in the list of commands."""
    commands._choices_actions[-1].heading = heading  # noqa: SLF001 - argparse has no such groups


def examples(text: str) -> str:
    """The end of a help page."""
    lines = [line.strip() for line in text.strip().splitlines()]
    return "examples:\n" + "\n".join(f"  {line}" for line in lines)


def command(args: argparse.Namespace, words: str) -> str:
    """A command for a hint, quoted, with the options that lead to the same memory."""
    options = ["--claude"] if args.claude else []
    options += [f"--home {shlex.quote(args.home)}"] if args.home else []
    options += [f"--project {shlex.quote(args.project)}"] if args.project != "." else []
    return f"`{' '.join(['lamina', words, *options])}`"


def hint(args: argparse.Namespace, text: str) -> None:
    """A remark that --quiet leaves out."""
    if not args.quiet:
        note(text)


def config_of(args: argparse.Namespace, **overrides: Any) -> Config:
    """The settings for a command's options. Imported here: `--version` needs none of it."""
    from lamina.config import load

    config = load(args.project, home=args.home, claude=args.claude, overrides=overrides)
    if not config.project.is_dir():
        from lamina.ledger.places import find_project_folder

        # A deleted project may still be looked at; a path that never was one is a mistake.
        homes = {config.own_home, config.home}
        if not any(find_project_folder(home, config.project).is_dir() for home in homes):
            why = f"There is no directory {args.project}. --project takes the project's directory."
            raise UsageError(why)
    return config


def count(word: str) -> int:
    if not word.isascii() or not word.isdigit():
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number, 0 or more")
    return int(word)


def port(word: str) -> int:
    if count(word) > 65_535:
        raise argparse.ArgumentTypeError(f"{word} is not a port; the highest is 65535")
    return int(word)


_AGO = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add_times(parser: argparse.ArgumentParser) -> None:
    """`--since` and `--until`."""
    begins = "from then on: 2026-11-01, 12h, 3d, 2w, yesterday"
    option(parser, "--since TIME", begins, type=since, default=-math.inf)
    ends = "up to then, that day included"
    option(parser, "--until TIME", ends, type=until, default=math.inf)


def since(words: str) -> float:
    """When it begins."""
    return _moment(words)[0]


def until(words: str) -> float:
    """When it ends: a day is over when the next one begins."""
    return _moment(words)[1]


def _moment(words: str) -> tuple[float, float]:
    """Beginning and end of what the words name, by local time."""
    from datetime import datetime, timedelta

    now = datetime.now().astimezone()
    word = words.strip().lower()
    try:
        if match := _AGO.fullmatch(word):
            then = now - timedelta(**{_UNITS[match[2]]: int(match[1])})
            return then.timestamp(), then.timestamp()
        if word in ("today", "yesterday"):
            day = now.replace(hour=0, minute=0, second=0, microsecond=0)
            then, whole = day - timedelta(days=word == "yesterday"), True
        else:
            then = datetime.fromisoformat(words.strip())
            whole = len(word) <= len("2026-11-01")
        last = then.replace(tzinfo=None) + timedelta(days=1, microseconds=-1) if whole else then
        return then.timestamp(), last.timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{words!r} is not a time; write 2026-11-01, 2026-11-01T14:30, 12h, 3d, 2w, today or yesterday"
        ) from None
