"""Reads the trajectories of SWE-agent, mini-swe-agent and tau-bench: each a message list in a shell
of its own. Touches only the values that it is handed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lamina.messages import Json
from lamina.replay.builder import Builder
from lamina.replay.files import Unreadable, as_list, as_object
from lamina.replay.message_lists import ListReader

SWE_AGENT = "swe-agent"
MINI_SWE_AGENT = "mini-swe-agent"
TAU_BENCH = "tau-bench"

_SPEAKERS = {"user": "user", "assistant": "assistant", "tool": "tool", "system": "system"}


def read_swe_agent(value: Json, reader: ListReader) -> None:
    history = as_list(value["history"])
    config = value.get("replay_config")
    model = _find_model(config) or _find_model(value.get("info"))
    reader.read(history, where="history", model=model)


def read_mini_swe_agent(value: Json, reader: ListReader) -> None:
    reader.read(
        as_list(value["messages"]),
        where="messages",
        model=_find_model(value.get("info")),
    )


def read_tau_bench(runs: Sequence[object], reader: ListReader, builder: Builder) -> None:
    """A list of runs, each with its messages under `traj`."""
    for number, value in enumerate(runs):
        run = as_object(value)
        if not isinstance(run.get("traj"), list):
            builder.skip(f"run {number + 1}", "holds no messages")
            continue
        thread = f"task {run.get('task_id', number)} trial {run.get('trial', 0)}"
        reader.read(as_list(run["traj"]), where=f"run {number + 1}", thread=thread)


def read_tau_display(
    lines: Iterable[tuple[int, Any | Unreadable]], reader: ListReader, builder: Builder
) -> None:
    """One run a line, shown as text: `speaker: words`. The calls' arguments are not in there."""
    for number, value in lines:
        text = as_object(value).get("messages_display")
        if not isinstance(text, str):
            reason = value.reason if isinstance(value, Unreadable) else "holds no conversation"
            builder.skip(f"line {number}", reason)
            continue
        reader.read(_spoken(text), where=f"line {number}", thread=f"line {number}")


def _spoken(text: str) -> list[Json]:
    entries: list[Json] = []
    calls = 0
    for line in text.split("\n"):
        speaker, colon, words = line.partition(": ")
        if colon and speaker in _SPEAKERS:
            entries.append({"role": _SPEAKERS[speaker], "content": words})
        elif entries:
            entries[-1]["content"] += "\n" + line
    for entry, following in zip(entries, [*entries[1:], {}], strict=True):
        if entry["role"] == "assistant" and following.get("role") == "tool":
            calls += 1
            entry["content"] = None if entry["content"] == "None" else entry["content"]
            function = {"name": "tool", "arguments": "{}"}
            entry["tool_calls"] = [{"id": f"call_{calls}", "function": function}]
            following["tool_call_id"] = f"call_{calls}"
    return entries


def _find_model(value: object, depth: int = 4) -> str:
    """The first `model_name` or model `name` in a configuration, wherever it is kept."""
    config = as_object(value)
    if depth == 0 or not config:
        return ""
    model = as_object(config.get("model"))
    named = config.get("model_name") or model.get("name") or model.get("model_name")
    if isinstance(named, str):
        return named
    return next(filter(None, (_find_model(inner, depth - 1) for inner in config.values())), "")
