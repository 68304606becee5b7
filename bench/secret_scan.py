"""Secrets: how many made-up tokens the scanner finds, and how often real text raises a false alarm.

Samples are made from our own table, each put into a place where secrets are found (settings files,
code, headers, prose), and from the regexes of a published rule file that is no part of the project:
`Strings` makes texts that a rule matches, its names and operators included. Our rules were chosen on
one half of those rules; the half that is left out, by the hash of a rule's id, was never looked at.
The real text is read from the shared data and from installed packages.
Peers run when they are installed (`uv pip install detect-secrets` in the bench environment).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import random
import re
import string
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from re import _constants as sre  # pyright: ignore[reportAttributeAccessIssue]
from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any

from bench.figures import at_least, at_most, median, report

from lamina.secrets import Rules, all_rules, scan
from lamina.secrets.scanner import entropy

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("LAMINA_DATA") or ROOT.parent / "shared" / "data")
FORMS = ROOT / "bench" / "data" / "secret_forms.txt"
# What was found, and raised an alarm, at first sight: before what they showed was mended.
FIRST = (
    "a 93 of 120 and 1 of 120, b 33 of 60 and 1 of 60, c 40 of 60 and 2 of 60, d 54 of 60 and 1 of 60,"
    " h 27 of 30 and 1 of 60"
)
SEED = 20_260_101
PER_KIND = 5
UNSEEN = ("anthropic", "openai", "rich", "prompt_toolkit")
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
    for name in table["services"]["names"].split():
        secret = sampler.make(chance.choice(("%w{32}", "%h{40}", "%l{24}")))
        text = chance.choice(_NAMED_PLACES).format(name=name, value=secret)
        samples.append((f"{name}-credential", secret, text))
    return samples


class Strings:
    """Random texts that a regex matches, by Python's own parser of regexes."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def make(self, tree: Any) -> str:
        return "".join(self._one(op, value) for op, value in tree)

    def _one(self, op: Any, value: Any) -> str:
        if op is sre.LITERAL:
            return chr(value)
        if op is sre.ANY:
            return self._chance.choice(string.ascii_letters + string.digits + " ")
        if op is sre.NOT_LITERAL:
            return self._chance.choice(_SEEN.replace(chr(value), ""))
        if op is sre.IN:
            return self._chance.choice(_members_of(value))
        if op is sre.BRANCH:
            return self.make(self._chance.choice(value[1]))
        if op is sre.SUBPATTERN:
            return self.make(value[3])
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            low, high, tree = value
            times = self._chance.randint(low, min(int(high), low + 20))
            return "".join(self.make(tree) for _ in range(times))
        return ""  # a boundary


_SEEN = string.ascii_letters + string.digits + string.punctuation + " "
_CATEGORIES = {
    "DIGIT": string.digits,
    "WORD": string.ascii_letters + string.digits + "_",
    "SPACE": " ",
}


def _members_of(items: Sequence[tuple[Any, Any]]) -> str:
    found = ""
    for op, value in items:
        if op is sre.LITERAL:
            found += chr(value)
        elif op is sre.RANGE:
            found += "".join(map(chr, range(value[0], value[1] + 1)))
        elif op is sre.CATEGORY:
            named = _CATEGORIES[str(value).rsplit("_", 1)[1]]
            without = "".join(one for one in _SEEN if one not in named)
            found += without if "NOT" in str(value) else named
    if items[0][0] is sre.NEGATE:
        return "".join(one for one in _SEEN if one not in found)
    return "".join(one for one in found if one not in "\t\n\r") or found


def pythons(pattern: str) -> str:
    """A regex of Go as Python takes it: flags in the middle hold to the end of their group."""
    made, at, owed = "", 0, [0]
    pattern = pattern.replace(r"\z", r"\Z").replace("[[:alnum:]]", "[A-Za-z0-9]")
    while at < len(pattern):
        if flags := re.compile(r"\(\?([ims]+)\)").match(pattern, at):
            made, at = f"{made}(?{flags[1]}:", flags.end()
            owed[-1] += 1
            continue
        part = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL).match(pattern, at)
        assert part
        if part[0] == "(":
            owed.append(0)
        made += ")" * (1 + owed.pop()) if part[0] == ")" else part[0]
        at = part.end()
    return made + ")" * owed[0]


def left_out(rule: str) -> bool:
    return hashlib.sha256(rule.encode()).digest()[0] & 1 == 1


def published_samples(path: Path, seed: int = SEED, each: int = 6) -> list[tuple[str, str, str]]:
    """(rule, secret, text) for every rule that speaks of text, with its keyword and its entropy."""
    strings = Strings(random.Random(seed))
    samples: list[tuple[str, str, str]] = []
    for rule in tomllib.loads(path.read_text("utf-8"))["rules"]:
        if not rule.get("regex") or rule.get("path"):
            continue
        pattern = pythons(rule["regex"])
        tree, matcher = parser.parse(pattern), re.compile(pattern)
        made: list[tuple[str, str, str]] = []
        for _ in range(300):
            if len(made) == each:
                break
            text = strings.make(tree)
            if not (match := matcher.search(text)):
                continue
            secret = match[rule.get("secretGroup") or min(1, matcher.groups)] or match[0]
            keyed = any(word.lower() in text.lower() for word in rule.get("keywords", [""]))
            if keyed and entropy(secret.encode()) > rule.get("entropy", 0):
                made.append((rule["id"], secret, text))
        samples += made
    return samples


def found_share(
    samples: list[tuple[str, str, str]], rules: Rules | None = None
) -> tuple[float, list[str]]:
    """How many samples have a finding inside the secret, and the kinds of those that have none."""
    missed = [kind for kind, secret, text in samples if not _found(secret, text, rules)]
    return 1 - len(missed) / len(samples), missed


def _found(secret: str, text: str, rules: Rules | None) -> bool:
    start = text.index(secret)
    return any(
        found.start < start + len(secret) and found.end > start and found.end - found.start >= 4
        for found in scan(text, rules)
    )


def data_files() -> Iterator[tuple[str, str]]:
    """Every file of the shared data but the rules: of JSON, the strings that people read."""
    for path in sorted(DATA.rglob("*")):
        if not path.is_file() or "gitleaks" in path.parts:
            continue
        text = path.read_text("utf-8", "replace")
        if path.suffix in (".json", ".jsonl"):
            lines = text.split("\n") if path.suffix == ".jsonl" else [text]
            with contextlib.suppress(ValueError):  # what is no JSON is read as it is
                values = [json.loads(line) for line in lines if line]
                text = "\n".join(one for value in values for one in _strings(value))
        yield str(path.relative_to(DATA)), text


def package_files() -> Iterator[tuple[str, str]]:
    """Sources of installed packages: the first three chose a rule, the others did not."""
    for name in ("anyio", "dulwich", "hypothesis", *UNSEEN):
        spec = importlib.util.find_spec(name)
        for folder in (spec and spec.submodule_search_locations) or ():
            for path in sorted(Path(folder).rglob("*.py")):
                yield f"{name}/{path.name}", path.read_text("utf-8", "replace")


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
    share, count, _, rules = alarms_of(texts)
    return share, count, rules


def alarms_of(texts: Iterator[tuple[str, str]]) -> tuple[float, int, float, dict[str, int]]:
    """The same, and how many findings there are in 100 KB."""
    rules: dict[str, int] = {}
    count = alarms = findings = size = 0
    for _, text in texts:
        count += 1
        size += len(text)
        found = scan(text)
        alarms += bool(found)
        findings += len(found)
        for rule in {finding.rule for finding in found}:
            rules[rule] = rules.get(rule, 0) + 1
    sorted_rules = dict(sorted(rules.items(), key=lambda item: -item[1]))
    return alarms / max(1, count), count, findings / max(1, size) * 1e5, sorted_rules


def seconds_per_megabyte(lines: int) -> float:
    """CPU time of scanning made-up notes that hold the words that rules look for."""
    text = "".join(
        f"line {n}: the token is taken from the store, password={n:07}; see http://x.io/{n}\n"
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


def filled(text: str, chance: random.Random) -> str:
    """A line of data as it is meant: with bodies drawn for its tokens, and with its line ends."""

    def drawn(class_: re.Match[str]) -> str:
        return "".join(chance.choices(_members(class_[1]), k=int(class_[2])))

    text = re.sub(r"‹(.+?)\*(\d+)›", drawn, text)
    return re.sub(r"\\(.)", lambda one: {"n": "\n"}.get(one[1], one[1]), text)


def forms() -> Iterator[tuple[str, str, str]]:
    """(list, secret or nothing, text) of lines that were written before they were run."""
    chance = random.Random(SEED)
    for line in FORMS.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            name, *_, text = line.split("\t", 4)
            text = filled(text, chance)
            secret = re.search("⟦(.*?)⟧", text, re.DOTALL)
            yield name, secret[1] if secret else "", re.sub("[⟦⟧]", "", text)


def lines_figures() -> tuple[list[Any], list[str]]:
    """On lines by readers who had not seen the rules: values, ids and talk about passwords."""
    lines = list(forms())
    honest = [text for _, secret, text in lines if not secret]
    hidden = [one for one in lines if one[1]]
    alarms, (share, _) = sum(bool(scan(text)) for text in honest), found_share(hidden)
    figures = [
        at_most("secrets.lines.alarms", alarms / len(honest), "share", 0.05),
        at_least("secrets.lines.found", share, "share", 0.85),
    ]
    note = f"{len(hidden)} lines with a secret, {share:.0%} found, {len(honest)} honest ones, {alarms} alarms"
    return figures, [f"{note}: after mending on them, no test any more; at first sight: {FIRST}"]


def published_figures() -> tuple[list[Any], list[str]]:
    """On strings from the published rules, and on all text at hand."""
    path = DATA / "gitleaks" / "gitleaks.toml"
    if not path.exists():
        return [], ["no published rules here: only our own table was measured"]
    figures: list[Any] = []
    notes: list[str] = []
    samples = published_samples(path)
    halves = {"left out": True, "chosen on": False}
    for name, out in halves.items():
        half = [one for one in samples if left_out(one[0]) is out]
        share, missed = found_share(half)
        kinds = len({kind for kind, _, _ in half})
        figures.append(at_least(f"secrets.published.{name}", share, "share", 0.85))
        notes.append(
            f"rules that are {name}: {len(half)} strings of {kinds} rules, {share:.1%} found; "
            f"{len(set(missed))} rules with a miss" + ("" if out else f": {sorted(set(missed))}")
        )
    loaded, _ = found_share(samples, all_rules([path]))
    figures.append(at_least("secrets.published.loaded", loaded, "share", 0.95))
    for name, texts in (("data", data_files()), ("packages", package_files())):
        share, count, dense, rules = alarms_of(texts)
        figures.append(at_most(f"secrets.alarms.{name}", share, "share", 0.01))
        figures.append(at_most(f"secrets.alarms.{name}.100KB", dense, "findings", 1))
        notes.append(f"{count} files of {name}: {dense:.3f} alarms in 100 KB; rules: {rules}")
    return figures, notes


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
    for more_figures, more_notes in (lines_figures(), published_figures()):
        figures += more_figures
        notes += more_notes
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
    results.write_text(f"{__doc__}\n" + "\n".join(f"- {note}" for note in notes) + "\n")
    return report("secrets", figures)


if __name__ == "__main__":
    raise SystemExit(main())
