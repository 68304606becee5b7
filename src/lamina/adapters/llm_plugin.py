"""A plugin of the `llm` program: memories as a fragment (`-f lamina:QUESTION`), as a tool (`-T
lamina_recall`), and Lamina's own commands behind `llm lamina`. `llm` loads it at every start, so it
imports nothing of ours before it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click
import llm

from lamina.adapters import needs

_NOTHING = "No memory says anything about that."


def lamina_recall(question: str) -> str:
    """Memories of this project and its user from earlier conversations that answer a question."""
    import lamina

    needs("llm", "llm", (0, 26), 1)  # not sooner: `llm` itself would not start
    with lamina.Memory() as memory:
        return "\n\n".join(found.reminder for found in memory.recall(question)) or _NOTHING


def _fragment(question: str) -> llm.Fragment:
    """The memories that fit a question: -f 'lamina:When do deploys happen?'"""
    return llm.Fragment(lamina_recall(question), source=f"lamina:{question}")


@llm.hookimpl
def register_tools(register: Callable[..., None]) -> None:
    register(lamina_recall)


@llm.hookimpl
def register_fragment_loaders(register: Callable[..., None]) -> None:
    register("lamina", _fragment)


@llm.hookimpl
def register_commands(cli: click.Group) -> None:
    @cli.command(
        "lamina",
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
        help="Lamina's commands; `llm lamina ask …` prompts with the memories that fit.",
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def lamina(words: tuple[str, ...]) -> Any:
        if words[:1] == ("ask",):
            return cli.main(["prompt", "-f", f"lamina:{words[-1]}", *words[1:]])
        from lamina.cli.main import main

        sys.exit(main(words))
