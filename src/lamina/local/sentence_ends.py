"""Says where a sentence ends, and parts what is told in it from what is asked. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_END = re.compile(r"[。！？；]+[”」』]?|[.!?;…]+[)\"'’”“]?(?=\s|$)|\n+|\x00+")
_SHORTENED = re.compile(
    r"\b(?:e\.g|i\.e|etc|vs|approx|z\. ?B|d\. ?h|u\. ?a|bzw|ca|Nr|Dr|Mr|Ms|St)\.$", re.IGNORECASE
)
_NUMBER_FOLLOWS = re.compile(r"\b(?:no|nr|art|fig|abs)\.$", re.IGNORECASE)
_COUNTED = re.compile(r"(?<![\d.])\d{1,2}\.$")
_GERMAN_ORDINAL = re.compile(
    r"\b(?:am|den|dem|der|die|das|des|zum|vom|bis|ab|im|und|seit|beim)\s\d{1,2}\.$", re.IGNORECASE
)


def _goes_on(own: str, start: int, stop: re.Match[str]) -> bool:
    """A full stop that ends no sentence: "e.g. this", "no. 5", "am 24. kommt"."""
    if stop[0] != ".":
        return False
    before, after = (
        own[max(start, stop.start() - 14) : stop.end()],
        own[stop.end() : stop.end() + 2],
    )
    if _SHORTENED.search(before):
        return bool(re.match(r"\s\w", after))
    if _NUMBER_FOLLOWS.search(before):
        return bool(re.match(r"\s\d", after))
    if not _COUNTED.search(before):
        return False
    letter = r"\s[^\W\d]" if _GERMAN_ORDINAL.search(before) else r"\s[a-zäöü]"
    return bool(re.match(letter, after))


def spans(own: str) -> Iterator[tuple[int, int]]:
    """Begin and end of each sentence, in order. NUL stands for what is not the user's word, and ends one."""
    start = 0
    for match in _END.finditer(own):
        if _goes_on(own, start, match):
            continue
        end = match.start() if match[0].startswith("\x00") else match.end()
        yield from _statement_and_question(own, start, end)
        start = match.end()
    yield from _statement_and_question(own, start, len(own))


def _statement_and_question(own: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """ "I teach music, where do I start?" tells something and asks something else."""
    asked = own[start:end]
    cuts = [*_ASKED.finditer(asked)] if _ASKING.search(asked) else []
    if not cuts or _CONDITION.match(asked) or not _TELLS.search(asked[: cuts[-1].start()]):
        yield start, end
    else:
        yield start, start + cuts[-1].start()
        yield start + cuts[-1].end(), end


_ASKING = re.compile(
    r"[?？]\s*$|(?i:\b(?:can|could|would|will) you\b|\b(?:kannst|könntest) du\b)|[吗呢]\s*$|怎么|什么|咋|啥|哪|为什么|如何"
)
_QUESTION = (
    "could can would will what what's whats how why where which who when is are do does did should shall any "
    "wie was warum wieso weshalb wo wer wann welche welcher welches welchen kannst könntest kann können "
    "könnten könnte ist sind gibt hast hilfst soll sollen sollte geht magst"
).replace(" ", "|")
_ASKED = re.compile(
    r"(?i)(?:[,;:–—]|\s-|\s(?=(?:and|und)\s(?:can|could|would|how|what|where|why|which|kannst|könntest|wie|was|wo)\b))\s+"
    rf"(?=(?:(?:and|so|but|now|then|und|also|aber|nun|jetzt|dann)\s,?\s?)?(?:{_QUESTION})\s+[^\s,]+\s+[^\s,])"
    r"|(?<=[\u3400-\u9fff])[，,](?=[^，,]{4,}$)(?=[^，,]*(?:[?？吗呢]|怎么|什么|咋|啥|哪|为什么|如何))"
)
_CONDITION = re.compile(
    r"(?i)\s*(?:and |but |so |und |aber )?(?:if|when|suppose|imagine|assuming|say|whether|wenn|falls|angenommen|ob)\b|\s*(?:如果|要是|假如|假设|当)"
)
_TELLS = re.compile(r"\w+\W+\w+\W+\w|[\u3400-\u9fff]{4}")
