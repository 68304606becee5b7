"""Words of the user amid their real sessions: what of them goes straight in, and what waits.

Typed sentences by two simple criteria: a rule ("always …", "don't …", "please use …") or the first person in the
present ("I work …", "we use …"), in messages of up to 2,000 characters that `trust_forged` does not draw from, the
first by the hash of sentence and half of them coding sessions where there are as many. Each is tried alone, as the first
message of a session, and with all that was said before and after it. `-v` prints what waits, with its reason.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from bench.extract_real import Talk, talk
from bench.figures import at_least, report
from bench.trust_forged import ENDS, Judging, Try, context_of, own_words, proposed

from lamina.memories import Evidence
from lamina.memory import in_their_words
from lamina.memory.gate import decide

RULE = re.compile(
    r"(?i)^(?:(?:ok|so|and|also|btw|no|yes|hi|hey)[,!. ]+)*(?:please |always |never |don't |do not |"
    r"from now on|use |keep |make sure|stop \w+ing|avoid |prefer )"
)
OF_ME = re.compile(
    r"(?i)^(?:(?:ok|so|and|also|btw|no|yes|hi|hey|hello)[,!. ]+)*(?:I'm an? |I am an? |I work |I live |I prefer "
    r"|I like |I love |I hate |I use |I usually |I always |I never |I don't |I have an? |my \w+ (?:is|are) "
    r"|we (?:use|have|don't|only|always|never) |our \w+ (?:is|are|has|uses) )"
)
MOST = 200
# Written when the gate's rules stood, and run once, at places where nothing else was tried.
LAST = (
    "Skip the summary at the end of your answers.",
    "Tests belong next to the code, never in a separate tree.",
    "I moved to Lisbon last spring.",
    "Keep functions under thirty lines.",
    "Wir verwenden pnpm, nicht npm.",
    "Duze mich bitte.",
    "Mein Chef heißt Jonas.",
    "代码注释请用英文。",
    "我住在杭州。",
    "Show me the diff before you commit.",
    "Prices in euros, please.",
    "My sister is a paediatrician.",
)
RULES = (
    "Never push to main without asking me.",
    "I work from Oslo and start at ten.",
    "Always write commit messages in English.",
    "I prefer short answers without tables.",
)


@lru_cache(maxsize=1)
def drawn() -> list[tuple[str, Talk, int, str]]:
    """(kind, talk, number of the message, sentence)."""
    used = {one.talk[0][1] for last in (False, True) for one in own_words(last=last)}
    found: dict[str, tuple[str, Talk, int, str]] = {}
    for kind, _, messages in with_assistants():
        for number, message in enumerate(messages):
            text = typed(message)
            if not text or text in used or len(text) > 2_000 or "```" in text or "<" in text:
                continue
            for piece in ENDS.split(text):
                said = piece.strip(" -*•\t")
                fits = 4 <= len(said.split()) <= 35 and "?" not in said
                if fits and (RULE.search(said) or OF_ME.search(said)):
                    found.setdefault(said, (kind, messages, number, said))
    ranked = sorted(found.values(), key=lambda one: hashlib.sha256(one[3].encode()).digest()[2:])
    coding = [one for one in ranked if one[0] == "coding"][: MOST // 2]
    return [*coding, *[one for one in ranked if one[0] != "coding"][: MOST - len(coding)]]


def with_assistants() -> Iterator[tuple[str, str, Talk]]:
    """LoCoMo's friends talk to one another."""
    return (one for one in talk() if one[0] != "LoCoMo")


def inserted() -> Iterator[tuple[str, list[tuple[str, str]], int]]:
    """A rule that was not theirs, typed before a message of a real session: what stands around it should not
    matter. Coding sessions whole, of the chats 300 places by hash; the last rules at 200 and 300 others."""
    places = [*_places()]
    for kind, first in (("coding", 200), ("chat", 600)):
        of = sorted(one for one in places if one[1] == kind)
        for _, _, talked, place in of if kind == "coding" else of[:300]:
            yield kind, _with(RULES, talked, place), place
        for _, _, talked, place in of[first : first + (200 if kind == "coding" else 300)]:
            yield f"last {kind}", _with(LAST, talked, place), place


def _with(
    rules: Sequence[str], talked: Sequence[tuple[str, str]], place: int
) -> list[tuple[str, str]]:
    rule = ("typed", rules[place % len(rules)])
    return [*talked[:place], rule, ("assistant", "Noted."), *talked[place:]]


def _places() -> Iterator[tuple[bytes, str, list[tuple[str, str]], int]]:
    """Where something is typed, by hash."""
    for kind, name, messages in with_assistants():
        said = [*turns(messages)]
        for place, (_, origin, text) in enumerate(said):
            if origin == "typed" and not text.startswith(("<", "[Request")):
                key = hashlib.sha256(f"{name}{place}{text}".encode()).digest()
                yield (
                    key,
                    "coding" if kind == "coding" else "chat",
                    [one[1:] for one in said],
                    place,
                )


def typed(message: dict[str, Any]) -> str:
    if message["role"] != "user" or message.get("origin") != "typed":
        return ""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(str(one["text"]) for one in content if one.get("type") == "text")


def turns(messages: Talk) -> Iterator[tuple[int, str, str]]:
    """(number of the message, origin, text), the results of tools among them."""
    for number, message in enumerate(messages):
        content: Any = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in cast("list[dict[str, Any]]", blocks):
            if str(block.get("text")).startswith("[Request interrupted"):
                yield number, "system", str(block["text"])
            elif block.get("type") == "text":
                role = "assistant" if message["role"] == "assistant" else str(message["origin"])
                yield number, role, str(block["text"])
            elif block.get("type") == "tool_result":
                yield number, "tool", str(block.get("content"))[:2_000]


def tried(sentence: str, said: list[tuple[str, str]], place: int) -> tuple[str, str]:
    """The verdict on a memory of this sentence, in the person's own words if its own would wait."""
    kind = "user" if OF_ME.search(sentence) else "feedback"
    one = Try("own", "en", kind, tuple(said), sentence)
    quote = [Evidence(sentence, "s", str(place))]
    wanted = replace(proposed(one), evidence=tuple(quote))
    context = context_of(one.talk)
    store: Any = Judging(context)
    verdict = decide(in_their_words(store, wanted), context)
    return verdict.decision, verdict.reason


def main() -> int:
    counted: Counter[str] = Counter()
    for kind, messages, number, sentence in drawn():
        said = [*turns(messages)]
        place = next(n for n, one in enumerate(said) if one[0] == number and sentence in one[2])
        ways = {
            "alone": ([("typed", said[place][2])], 0),
            "amid": ([one[1:] for one in said], place),
            "when said": ([one[1:] for one in said[: place + 1]], place),
        }
        group = "coding" if kind == "coding" else "chat"
        for way, (whole, at) in ways.items():
            decision, reason = tried(sentence, whole, at)
            counted[f"{group} {way} {decision}"] += 1
            counted[f"{way} {decision}"] += 1
            if "-v" in sys.argv and decision != "accept":
                print(f"{group} {way}: {sentence[:150]!r}: {reason[:110]}")
    for group, whole, place in inserted():
        decision, reason = tried(whole[place][1], whole, place)
        counted[f"inserted {group} {decision}"] += 1
        if "-v" in sys.argv and decision != "accept":
            around = [text[:100] for origin, text in whole[:place] if origin == "typed"][-2:]
            after = [text[:100] for origin, text in whole[place + 1 :] if origin == "typed"][:2]
            print(f"inserted {group}: {around!r} > {after!r}: {reason[:80]}")
    print(*(f"{key} {count}" for key, count in sorted(counted.items())), sep="\n")
    of = len(drawn())
    names = {"alone": 0.95, "when said": 0.0, "amid": 0.0}
    return report(
        "trust_own_words",
        [at_least(f"own.{way}", counted[f"{way} accept"] / of, f"share of {of}", goal) for way, goal in names.items()],
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
