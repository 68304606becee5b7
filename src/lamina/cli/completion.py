"""`lamina completion`: a script that completes commands, options and settings, for bash, zsh or
fish. It is made from the parsers themselves, so it is never out of date. Prints only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

from lamina.cli.terminal import out

EXAMPLES = """
mkdir -p ~/.local/share/bash-completion/completions
lamina completion bash > ~/.local/share/bash-completion/completions/lamina
mkdir -p ~/.zfunc && lamina completion zsh > ~/.zfunc/_lamina
mkdir -p ~/.config/fish/completions
lamina completion fish > ~/.config/fish/completions/lamina.fish
"""

Words: TypeAlias = dict[tuple[str, ...], list[str]]  # command and sub-command → what may follow

SHELLS = ("bash", "zsh", "fish")
_DIRECTORIES = frozenset({"--home", "--project"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="bash, zsh or fish")


def run(args: argparse.Namespace) -> None:
    from lamina.cli.main import build_parser
    from lamina.config import SETTINGS

    words = dict(_words(build_parser(everything=True), ()))
    words[("settings",)] += [*("set", "unset", "path"), *(row.name for row in SETTINGS)]
    out({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](words))


def _words(
    parser: argparse.ArgumentParser, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """For each command and sub-command, the words that may follow it."""
    own: list[str] = []
    actions: Any = parser._actions  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    for action in actions:  # argparse offers no other way to list what it takes
        own += action.option_strings
        if isinstance(action.choices, dict):  # of sub-commands
            children = cast("dict[str, argparse.ArgumentParser]", action.choices)
            own += children
            for name, child in children.items():
                yield from _words(child, (*path, name))
        elif action.choices:
            own += [str(choice) for choice in action.choices]
    yield path, own


def _bash(words: Words) -> str:
    return f"""_lamina() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} route="" list="" at word
  case "${{COMP_WORDS[COMP_CWORD-1]}}" in
    {"|".join(sorted(_DIRECTORIES))}) COMPREPLY=($(compgen -d -- "$current")); return ;;
  esac
  for ((at = 1; at < COMP_CWORD; at++)); do
    word=${{COMP_WORDS[at]}}
{_cases(words)}
  COMPREPLY=($(compgen -W "$list" -- "$current"))
  if [ -z "${{COMPREPLY[*]}}" ]; then COMPREPLY=($(compgen -f -- "$current")); fi
}}
complete -F _lamina lamina"""


def _zsh(words: Words) -> str:
    return f"""#compdef lamina
_lamina() {{
  local route="" list="" at word
  case "${{words[CURRENT-1]}}" in
    {"|".join(sorted(_DIRECTORIES))}) _files -/; return ;;
  esac
  for ((at = 2; at < CURRENT; at++)); do
    word=${{words[at]}}
{_cases(words)}
  compadd -- ${{=list}} || _files
}}
if [ "$funcstack[1]" = "_lamina" ]; then _lamina "$@"; else compdef _lamina lamina; fi"""


def _cases(words: Words) -> str:
    """The part that both shells share: the commands so far, and the words that may follow them."""
    known = " ".join(sorted({name for path in words for name in path}))
    lines = "\n".join(
        f'    "{" ".join(path)}") list="{" ".join(sorted(listed))}" ;;'
        for path, listed in sorted(words.items())
    )
    return f"""    case " {known} " in
      *" $word "*) route="${{route:+$route }}$word" ;;
    esac
  done
  case "$route" in
{lines}
  esac"""


def _fish(words: Words) -> str:
    lines = ["complete -c lamina -f"]
    for path, listed in sorted(words.items()):
        condition = (
            "; and ".join(f"__fish_seen_subcommand_from {name}" for name in path)
            or "__fish_use_subcommand"
        )
        for word in sorted(listed):
            if word in _DIRECTORIES:
                argument = f"-l {word[2:]} -r -a '(__fish_complete_directories)'"
            elif word.startswith("--"):
                argument = f"-l {word[2:]}"
            elif word.startswith("-"):
                argument = f"-s {word[1:]}"
            else:
                argument = f"-a '{word}'"
            lines.append(f"complete -c lamina -n '{condition}' {argument}")
    return "\n".join(lines)
