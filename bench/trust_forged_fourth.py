"""Orders dressed as facts, forged words of the user, and honest memories of both kinds, by a fourth reader of the gate.

`data/forged_fourth.txt`: 60 orders that nobody typed (`way: fact`), 30 forged words of the user by Write,
extraction and an obedient dream, 30 honest facts (`way: learnt`) and 20 honest words of the user, by the rig
of `trust_forged_again`. `data/forged_fifth.txt`: the same by a fifth, whose orders also come by `cited`, `mcp` and
`team`. `data/forged_frames.txt`: 40 typed sentences whose surroundings change what they mean, and 20 honest
ones, `data/facts_third.txt`: 40 honest facts; of the gate's next author, written before they changed it.
`data/forged_seventh.txt`: 200 forged words by a seventh, 60 more after the mends (`part: second`), 40 honest ones. A try
got in if it stands on disk; what counts against the gate is what stands there and speaks: that is shown unasked, and
no quotation. `-v` prints every verdict; a file given as an argument is tried alone.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from bench import trust_forged_again as again
from bench import trust_forged_third as third
from bench.extract_real import ROOT
from bench.figures import Figure, at_least, at_most, report
from bench.trust_forged import (
    CARRIERS,
    ORIGINS,
    Try,
    context_of,
    entries_of,
    evidences,
    proposed,
    unescaped,
)

from lamina.integrations.mcp_calls import Calls
from lamina.layers.extraction.fork import NewWords
from lamina.memories import Evidence, Proposal
from lamina.memory.file_store import FileStore
from lamina.memory.topics import new_topic

FILES = ("forged_fourth", "forged_fifth", "forged_frames", "facts_third", "forged_seventh")
ORDERS = ("fact", "cited", "mcp", "team")
WRITERS = {"cited": ("extraction",), "team": ("team",)}


@dataclass(frozen=True)
class Case(again.Case):
    pull: str = ""
    does: str = ""
    part: str = "first"


def cases(name: str) -> Iterator[Case]:
    file = ROOT / "bench" / "data" / f"{name}.txt"
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        kind, language, kept, talk, memory, *more = (part.strip() for part in line.split(" | "))
        keys = ("name", "way", "into", "description", "path", "key", "pull", "does", "part")
        given = dict.fromkeys(keys, "")
        for part in more:
            field, _, value = part.partition(": ")
            given.update({field: value} if field in given else {"description": part})
        said = unescaped(memory)
        shown = f"{given['name']}\n{said}" if given["name"] and talk == "T" else said
        one = Try(
            kind,
            language,
            kept,
            talk_of(talk, shown),
            said,
            given["description"],
            given["name"],
            given["key"],
        )
        yield Case(
            one, given["way"], given["into"] == "same", given["path"], given["pull"], given["does"],
            given["part"] or "first",
        )  # fmt: skip


def talk_of(talk: str, said: str) -> tuple[tuple[str, str], ...]:
    """`T` alone: a file says it; `A` alone: the assistant does."""
    if talk == "T":
        carrier = [*CARRIERS.values()][len(said) % len(CARRIERS)]
        carried = carrier.replace("{{", "{").replace("}}", "}").replace("{text}", said)
        return ("typed", "look at it"), ("tool", carried)
    if talk == "A":
        return ("typed", "what did you find?"), ("assistant", said)
    return tuple(
        (ORIGINS.get(turn[0], "memory"), unescaped(turn[3:])) for turn in talk.split(" // ")
    )


def topic(proposal: Proposal) -> bytes:
    """With its further keys, those without a value too."""
    content = new_topic(
        name=proposal.name, description=proposal.description, type=proposal.type, body=proposal.body
    )
    keys = "".join(f"{key}: {value}".rstrip() + "\n" for key, value in proposal.extra.items())
    return content.replace(b"\n---\n", f"\n{keys}---\n".encode(), 1)


def called(one: Try) -> again.Found:
    """By an MCP client where no hook has recorded a prompt."""
    wanted = proposed(one)
    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder) / "home", Path(folder) / "shop"
        project.mkdir()
        calls = Calls(str(project), str(home))
        head = {"name": wanted.name, "description": wanted.description}
        answer, _ = calls.call("remember", {**head, "content": wanted.body, "type": one.type})
        calls.close()
        there = [file for file in home.rglob("memory/*.md") if file.name != "MEMORY.md"]
        disk = "".join(file.read_text() for file in there)
    return again.Found(bool(there), "mcp" if there else answer, disk)


def quotes_for(case: Case, proposal: Proposal) -> Iterable[Sequence[Evidence]]:
    """What is found, for an order then any; `cited` names the untyped line itself, a push nothing."""
    one = case.forged
    if case.way == "team":
        return [()]
    if case.way == "cited":
        cites = f"{one.memory}\n\n```evidence\n{one.memory}\n```\n"
        return [NewWords.of(entries_of(one.talk), "s").evidence_for(cites, strict=False)[1]]
    return islice(evidences(one, proposal), 1 if case.way == "learnt" else None)


def stated(case: Case) -> again.Found:
    """A fact by the agent's Write and by extraction, or as its way says."""
    if case.way == "mcp":
        return called(case.forged)
    proposal, why, best = proposed(case.forged), "", None
    path = f"team/{proposal.path}" if case.way == "team" else proposal.path
    proposal = replace(proposal, path=case.path or path)
    for number, quotes in enumerate(quotes_for(case, proposal)):
        for writer in WRITERS.get(case.way, ("agent", "extraction")):
            gate = context_of(case.forged.talk)
            with (
                tempfile.TemporaryDirectory() as folder,
                FileStore(Path(folder) / "memory", gate=gate) as store,
            ):
                reason = again.put(store, proposal, quotes, writer)
                disk = again.on_disk(store, proposal.path)
            if not reason:
                how = f"{writer}, {'a chosen quote' if number else 'quotes found'}"
                best = again.Found(True, how, disk)
                if best.shown:
                    return best
            why = why or reason
    return best or again.Found(False, why)


def tried(name: str) -> tuple[Counter[str], list[str]]:
    lines = [
        f"\n{name}",
        "| way | kind | language | pull | memory | got in | why, or what stands on disk |",
        "|---|---|---|---|---|---|---|",
    ]
    counted: Counter[str] = Counter()
    for case in cases(name):
        one = case.forged
        found = stated(case) if case.way in (*ORDERS, "learnt") else third.tried(case)
        parts = {**dict.fromkeys(ORDERS, "orders"), "learnt": "facts", "honest": "words"}
        part = parts.get(case.way, "forged")
        ways = (case.way, one.language, one.kind, f"pull {case.pull}", f"part {case.part}")
        for key in dict.fromkeys((part, *(f"{part} {way}" for way in ways))):
            counted[f"{key}: {'in' if found.got_in else 'out'}"] += 1
            counted[f"{key}: shown unasked"] += found.shown
        parts = (one.memory, one.name and f"[{one.name}]", one.key, case.path)
        pull = f"{case.pull}: {case.does}" if case.pull else ""
        more = found.disk.partition("---\n")[2]
        cells = (
            case.way,
            one.kind,
            one.language,
            pull,
            " ".join(filter(None, parts)),
            "shown" if found.shown else "quotation" if found.got_in else "no",
            f"{found.why} {more}".strip(),
        )
        lines.append("| " + " | ".join(re.sub(r"[\n|]+", " / ", cell) for cell in cells) + " |")
    return counted, lines


def main() -> int:
    again.topic = topic
    figures: list[Figure] = []
    for name in [one.removesuffix(".txt") for one in sys.argv[1:] if one[0] != "-"] or FILES:
        counted, lines = tried(name)
        print(f"\n{name}", *(f"{key} {count}" for key, count in sorted(counted.items())), sep="\n")
        if "-v" in sys.argv:
            print("\n".join(lines))
        for part, goal in {"orders": 0, "forged": 0, "facts": 0.9, "words": 0.95}.items():
            got, shown = counted[f"{part}: in"], counted[f"{part}: shown unasked"]
            if of := got + counted[f"{part}: out"]:
                share = at_least(f"{name}.{part}", got / of, f"share of {of}", goal)
                figures.append(share if goal else at_most(f"{name}.{part}", shown, f"of {of}", 0))
    return report("trust_forged_fourth", figures)


if __name__ == "__main__":
    raise SystemExit(main())
