"""Secrets: how many made-up tokens the scanner finds, and how often real text raises a false alarm.

Samples are made from the published formats by a generator of its own, each put into a place where
secrets are found (settings files, code, headers, prose). The real text is read from the shared data.
Peers run when they are installed (`uv pip install detect-secrets` in the bench environment).
"""

from __future__ import annotations

import json
import os
import random
import re
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.figures import at_least, at_most, median, report

from lamina.secrets import scan

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("LAMINA_DATA") or ROOT.parent / "shared" / "data")
SEED = 20_260_101
PER_KIND = 5
_INTRODUCTION = """\
Samples are made from the table of formats by a generator: they show that tokens are found in the
places where they stand, not that the table is complete. Every finding in real text counts as a false
alarm. The peer is asked whether it reports any line of a sample.

"""

_ALPHABETS = {
    "w": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    "u": "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "l": "abcdefghijklmnopqrstuvwxyz0123456789",
    "h": "abcdef0123456789",
    "x": "ABCDEFabcdef0123456789",
    "b": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-",
    "s": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    "d": "0123456789",
}
_ANY = _ALPHABETS["w"] + "-_."

# Where a token that is known by itself may stand …
_PLACES = (
    "export SERVICE_VALUE={}\n",
    '{{"value": "{}", "port": 8080}}\n',
    "value: {}\nregion: eu\n",
    'client = connect("{}")\n',
    "The deploy uses `{}` since last week.\n",
    "I pasted {} there by mistake, please rotate it.\n",
    "| name | {} | rotated |\n",
    "curl -H 'X-Auth: {}' https://api.internal/v1\n",
)
# … and one that is known by the name before it.
_NAMED_PLACES = (
    "{name}_API_KEY={value}\n",
    "{name}_token: {value}\n",
    '{{"{name}_secret": "{value}"}}\n',
    '{name}Key = "{value}"\n',
    "The {name} key: `{value}`\n",
    "export {name}_TOKEN='{value}'\n",
)


class _Sampler:
    """Makes a random text that a pattern of formats.toml describes."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def make(self, pattern: str) -> str:
        made, rest = self._choices(pattern)
        if rest:
            raise ValueError(f"can't read {rest!r} of {pattern!r}")
        return made

    def _choices(self, text: str) -> tuple[str, str]:
        options: list[str] = []
        made, text = self._sequence(text)
        options.append(made)
        while text.startswith("|"):
            made, text = self._sequence(text[1:])
            options.append(made)
        return self.chance.choice(options), text

    def _sequence(self, text: str) -> tuple[str, str]:
        made = ""
        while text and text[0] not in "|)":
            source = text
            one, text = self._one(text)
            counted = re.match(r"\{(\d+)(,?)(\d*)\}|\?|\*|\+", text)
            if counted is None:
                made += one
                continue
            text = text[counted.end() :]
            low, high = {"?": (0, 1), "*": (0, 3), "+": (1, 6)}.get(counted[0], (0, 0))
            if counted[1]:
                low = int(counted[1])
                high = int(counted[3] or low + 20) if counted[2] else low
            for _ in range(self.chance.randint(low, high)):
                made += self._one(source)[0]
        return made, text

    def _one(self, text: str) -> tuple[str, str]:
        if text.startswith("%g"):
            made = "-".join(self._some("h", n) for n in (8, 4, 4, 4, 12))
            return made, text[2:]
        if text[0] == "%" and text[1] in _ALPHABETS:
            return self._some(text[1], 1), text[2:]
        if text[0] == "(":
            made, text = self._choices(re.sub(r"^\((?:\?:)?", "", text))
            return made, text[1:]
        if text[0] == "[":
            end = re.compile(r"(?<!\\)\]").search(text, 2).start()
            return self.chance.choice(_members(text[1:end])), text[end + 1 :]
        if text[0] == "\\":
            return {"s": " ", "n": " ", "b": ""}.get(text[1], text[1]), text[2:]
        return text[0], text[1:]

    def _some(self, kind: str, count: int) -> str:
        return "".join(self.chance.choices(_ALPHABETS[kind], k=count))


def _members(inside: str) -> str:
    if inside.startswith("^"):
        return _ANY
    members = ""
    inside = inside.replace("\\s", " ").replace("\\", "")
    while inside:
        if len(inside) >= 3 and inside[1] == "-":
            members += "".join(map(chr, range(ord(inside[0]), ord(inside[2]) + 1)))
            inside = inside[3:]
        else:
            members += inside[0]
            inside = inside[1:]
    return members.strip() or " "


def make_samples(seed: int = SEED, per_kind: int = PER_KIND) -> list[tuple[str, str, str]]:
    """(kind, secret, text that holds it), the same for the same seed."""
    chance = random.Random(seed)
    sampler = _Sampler(chance)
    source = ROOT / "src" / "lamina" / "secrets" / "formats.toml"
    table: dict[str, Any] = tomllib.loads(source.read_text("utf-8"))
    samples: list[tuple[str, str, str]] = []
    for kind, pattern in table["tokens"].items():
        for _ in range(per_kind):
            secret = sampler.make(pattern)
            samples.append((kind, secret, chance.choice(_PLACES).format(secret)))
    for kind, (names, pattern) in table["near"].items():
        for _ in range(per_kind):
            name = chance.choice(names.split("|")).replace("_?", "_").strip('"\\')
            secret = sampler.make(pattern)
            place = chance.choice(_NAMED_PLACES)
            samples.append((kind, secret, place.format(name=name, value=secret)))
    return samples


def found_share(samples: list[tuple[str, str, str]]) -> tuple[float, list[str]]:
    """How many samples have a finding inside the secret, and the kinds of those that have none."""
    missed = [kind for kind, secret, text in samples if not _found(secret, text)]
    return 1 - len(missed) / len(samples), missed


def _found(secret: str, text: str) -> bool:
    start = text.index(secret)
    return any(
        found.start < start + len(secret) and found.end > start and found.end - found.start >= 6
        for found in scan(text)
    )


def memory_files() -> Iterator[tuple[str, str]]:
    for folder in ("memory-dirs", "claude-md"):
        for path in sorted((DATA / folder).rglob("*.md")):
            yield str(path.relative_to(DATA)), path.read_text("utf-8", "replace")


def session_messages() -> Iterator[tuple[str, str]]:
    for path in sorted((DATA / "claude-code-sessions").glob("*.jsonl")):
        for number, line in enumerate(path.read_text("utf-8").splitlines()):
            message = json.loads(line).get("message")
            if isinstance(message, dict):
                text = "\n".join(_strings(message.get("content")))
                if text:
                    yield f"{path.name}:{number + 1}", text


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in ("id", "tool_use_id", "signature", "data", "type"):
                yield from _strings(item)


def alarm_share(texts: Iterator[tuple[str, str]]) -> tuple[float, int, dict[str, int]]:
    """Share of texts with any finding, how many texts there were, and the rules that fired."""
    rules: dict[str, int] = {}
    count = alarms = 0
    for _, text in texts:
        count += 1
        found = scan(text)
        alarms += bool(found)
        for rule in {finding.rule for finding in found}:
            rules[rule] = rules.get(rule, 0) + 1
    return alarms / max(1, count), count, dict(sorted(rules.items(), key=lambda item: -item[1]))


def seconds_per_megabyte(lines: int) -> float:
    """CPU time of scanning made-up notes that hold the words that rules look for."""
    text = "".join(
        f"line {n}: the token is taken from the store, password={n}; see http://x.io/{n}\n"
        for n in range(lines)
    )

    def once() -> float:
        start = time.process_time()
        scan(text)
        return (time.process_time() - start) / (len(text) / 1e6)

    once()
    return median(once)


def detect_secrets_share(samples: list[tuple[str, str, str]]) -> float | None:
    """The peer, if installed: a sample is found when it reports any line of it."""
    try:
        from detect_secrets.core.scan import scan_file
        from detect_secrets.settings import default_settings
    except ImportError:
        return None
    found = 0
    with tempfile.TemporaryDirectory() as folder, default_settings():
        path = Path(folder) / "sample.txt"
        for _, _, text in samples:
            path.write_text(text)
            found += any(True for _ in scan_file(str(path)))
    return found / len(samples)


def main() -> int:
    samples = make_samples()
    kinds = {kind for kind, _, _ in samples}
    share, missed = found_share(samples)
    peer = detect_secrets_share(samples)
    peers = {} if peer is None else {"detect-secrets": round(peer, 4)}
    figures = [
        at_least("secrets.kinds", len(kinds), "kinds", 150),
        at_least("secrets.found", share, "share", 0.95, **peers),
    ]
    notes = [
        f"{len(samples)} samples of {len(kinds)} kinds; missed kinds: {sorted(set(missed)) or 'none'}"
    ]
    readers: tuple[tuple[str, Callable[[], Iterator[tuple[str, str]]]], ...] = (
        ("files", memory_files),
        ("messages", session_messages),
    )
    for name, texts in readers if DATA.is_dir() else ():
        alarms, count, rules = alarm_share(texts())
        figures.append(at_most(f"secrets.alarms.{name}", alarms, "share", 0.05))
        notes.append(f"{count} {name}; rules that fired: {rules or 'none'}")
    if not DATA.is_dir():
        notes.append("no shared data here: false alarms were not measured")
    small, large = seconds_per_megabyte(10_000), seconds_per_megabyte(80_000)
    figures.append(at_most("secrets.growth", large / small, "ratio", 2))
    notes.append(
        f"{large:.2f} s of CPU a megabyte; 8 times the text costs {large / small:.2f} times as much a byte"
    )
    print(*notes, sep="\n")
    results = ROOT / "bench" / "results" / "secrets.md"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(_INTRODUCTION + "\n".join(f"- {note}" for note in notes) + "\n")
    return report("secrets", figures)


if __name__ == "__main__":
    raise SystemExit(main())
