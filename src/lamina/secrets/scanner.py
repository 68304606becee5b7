"""Finds secrets in a text, and takes those that are known out of any text: whole, cut short, or
folded into a file's name. Pure, but for compiling patterns when first needed.

RE2 does the matching, so that no text and no rule can make it slow. A finding says which rule and
where, never what.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from lamina.secrets.rules import Rule, Rules, Value, compiled, own_rules, quiet_re2

BLANK = "[secret removed: {}]"

# Values that people write where a secret would stand.
_PLACEHOLDER = re.compile(
    rb"example|sample|dummy|placeholder|change[_-]?me|your|fake|redacted|removed|insert|replace"
    rb"|xxxx|\*\*\*|\.\.\.|<[^>]*>|^%\w+%|\$\{|\{\{|%\(|1234567|abcdefg|abcd1234|deadbeef|foobar|foo_bar"
    rb"|^(?:[a-z]+[_-]|[0-9])?(?:password|passwd|passwort|secret)[0-9]{0,4}[.,;!?)]*$"
    rb"|process\.env|os\.environ|getenv|secrets\.|vault\.",
    re.IGNORECASE,
)
_REPEATED = re.compile(rb"([^A])\1{6,}")  # a run of A is zeros in base64
_CODE = re.compile(
    rb"(?:age|npub|bc)1[a-z0-9]+$|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\("
    rb"|[A-Za-z_]\w*(?:(?:\.|->|::|/)[A-Za-z_]\w*)+[,;)]*$"
    rb"|\$[A-Za-z_]|[a-z][a-z+.-]*://|/[\w.-]+/|[~.]{1,2}/|@"
    rb"|~?[0-9][0-9.,]*[A-Za-z%]{0,3}\**$|[0-9]{4}-[0-9]{2}-[0-9]{2}T"
    rb"|(?:\w+_)?(?:toolu|msg|req|call|chatcmpl|resp)[_-]"
    rb"|arn:|x-|(?:A?L?GPL|MPL|BSD|Apache)-|[a-z]{2}-[a-z]+-[0-9]:[0-9]{12}:|refs/"
    rb"|Test[A-Z]\w*[/_]|\w+=(?:[0-9]+,?$|[.~$/])"
)
_WORDS = re.compile(rb"[A-Z]?[a-z]{3,}|[A-Z]{4,}")
_SUM = re.compile(
    rb"[0-9a-fA-F_-]+|(?:[0-9a-z]+-)+[0-9a-z]+|.*={1,2}|(?:sha|md5|id).*", re.IGNORECASE
)
_DIGIT, _LETTER = re.compile(rb"[0-9]"), re.compile(rb"[A-Za-z]")
_LOWER, _UPPER, _SIGN = re.compile(rb"[a-z]"), re.compile(rb"[A-Z]"), re.compile(rb"[!#%&*?@^~$+]")
_SWITCH = re.compile(rb"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])|[a-z](?=[A-Z])")
_UNSPEAKABLE = re.compile(rb"[A-Za-z]*[b-df-hj-np-tv-xz]{4}[A-Za-z]*", re.IGNORECASE)
_JOINED = re.compile(rb"[A-Za-z]{3,}-")
_ALL_DIGITS = re.compile(rb"[0-9](?:[ -]?[0-9]){5,19}")
_HYPHENED = re.compile(rb"[a-z]+(?:-[a-z]+){2,5}")
_ABOUT = re.compile(
    rb"\b(?:the|your|an?|to|must|not|or|and|enter|please|for|of|is|are|was|it|this|do|does|der|die|muss"
    rb"|bitte|ist|und|oder|nicht|le|est|et|pas|el|es|no)\b|passwor[dt]|token|key|secret",
    re.IGNORECASE,
)
_RUN = re.compile(r"[A-Za-z0-9]{8,}")
_LONG = 16  # letters in a row that no ordinary word has


@dataclass(frozen=True, slots=True)
class Finding:
    """Where a secret stands and which rule says so; lines and columns count from 1."""

    rule: str
    line: int
    column: int
    start: int  # offsets into the text, in characters
    end: int

    def __str__(self) -> str:
        return f"{self.rule} in line {self.line}, column {self.column}"


def scan(text: str, rules: Rules | None = None) -> list[Finding]:
    """All secrets in `text` in order, overlapping ones once."""
    rules = own_rules() if rules is None else rules
    data = text.encode("utf-8", "replace")
    spans: list[tuple[int, int, str]] = []
    keywords, always = _keywords_of(rules)  # one pass for all of them together
    for number in sorted({*always, *(keywords.Match(data) or ())}):
        spans += _matches(rules.rules[number], rules, data)
    spans.sort(key=lambda span: (span[0], -span[1]))
    return _located(data, spans)


def redact(text: str, rules: Rules | None = None) -> str:
    """The text with every secret replaced by the name of its rule."""
    parts: list[str] = []
    done = 0
    for found in scan(text, rules):
        parts += (text[done : found.start], BLANK.format(found.rule))
        done = found.end
    return "".join((*parts, text[done:])) if parts else text


def entropy(value: bytes) -> float:
    """Shannon's bits a character."""
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values()) if total else 0.0


_last_rules: list[tuple[Rules, Any, list[int]]] = []  # thousands of texts go by the same ones


def _keywords_of(rules: Rules) -> tuple[Any, list[int]]:
    """The automaton of all keywords, and the rules that have none."""
    for known, keywords, always in _last_rules:
        if known is rules:
            return keywords, always
    keywords = _keyword_set(tuple((rule.keywords, rule.folded) for rule in rules.rules))
    always = [number for number, rule in enumerate(rules.rules) if not rule.keywords]
    _last_rules[:] = [(rules, keywords, always)]
    return keywords, always


@lru_cache(maxsize=16)
def _keyword_set(rules: tuple[tuple[Sequence[str], bool], ...]) -> Any:
    re2, options = quiet_re2()
    options.max_mem = 64 << 20  # the keywords of all rules in one automaton: RE2's 8 MB are too few
    options.encoding = options.Encoding.LATIN1  # bytes as they are
    keywords = re2.Set.SearchSet(options)
    for words, folded in rules:
        any_of = "|".join(re2.escape(word) for word in words) or "tried anyway"
        keywords.Add(f"(?i:{any_of})" if folded else any_of)
    keywords.Compile()
    return keywords


def _matches(rule: Rule, rules: Rules, data: bytes) -> Iterator[tuple[int, int, str]]:
    pattern = compiled(rule.pattern)
    at = 0
    while at <= len(data):
        match = pattern.search(data, at)
        if match is None:
            return
        start, end = match.span(rule.group)
        if start < 0:
            start, end = match.span()
        at = max(end, match.start() + 1)  # the character behind a token may open the next one
        if start < end and not _harmless(rule, rules, data, match.span(), (start, end)):
            yield start, end, rule.id


def _harmless(
    rule: Rule, rules: Rules, data: bytes, whole: tuple[int, int], span: tuple[int, int]
) -> bool:
    secret = data[span[0] : span[1]]
    if not _LOOKS[rule.value](secret) or (rule.card and not _adds_up(secret)):
        return True
    if rule.entropy and entropy(secret) < rule.entropy:
        return True
    if not rule.placeholders and (_PLACEHOLDER.search(secret) or _REPEATED.search(secret)):
        return True
    lowered, allowed = secret.lower(), rule.allowed + rules.allowed
    if any(word.lower().encode() in lowered for word in allowed.stopwords):
        return True
    targets = (
        (allowed.secret, secret),
        (allowed.match, data[whole[0] : whole[1]]),
        (allowed.line, _line_of(data, span[0])),
    )
    return any(compiled(regex).search(target) for regexes, target in targets for regex in regexes)


def _mixed(secret: bytes) -> bool:
    return bool(_DIGIT.search(secret) and _LETTER.search(secret))


def _coded(secret: bytes) -> bool:
    """Codes, one behind the other, with no word among them."""
    codes = re.split(rb"[\s,;/-]+", secret)
    return 3 * sum(bool(_DIGIT.search(one)) for one in codes) >= len(codes)


def _drawn(secret: bytes) -> bool:
    """Letters and digits alternate as no person would have them."""
    if not _mixed(secret) or _CODE.match(secret):
        return False
    switches = len(_SWITCH.findall(secret))
    # A name's words can be spoken: letters are drawn where four consonants meet.
    words = _spelled(_UNSPEAKABLE.sub(b"0", secret))
    return switches >= (max(3, 0.1 * len(secret)) if words else 1) and words < 0.65 * len(secret)


def _lone(secret: bytes) -> bool:
    """Drawn, and no checksum, identifier or encoded text, of which the world is full."""
    return (
        _drawn(secret)
        and not _SUM.fullmatch(secret)
        and len(_SWITCH.findall(secret)) >= 0.2 * len(secret)
    )


def _chosen(secret: bytes) -> bool:
    """What somebody sets as a password: digits with letters, or signs within, and no code."""
    secret = secret.rstrip(b".,;:!?)")
    if len(secret) < 6 or not _LETTER.search(secret) or _CODE.match(secret):
        return False
    if _DIGIT.search(secret) and len(_JOINED.findall(secret)) >= 4:
        return True  # words in a row: a passphrase
    if not _DIGIT.search(secret):
        switches = sum(a != b for a, b in pairwise(65 <= byte <= 90 for byte in secret))
        return len(secret) >= 16 and switches >= 6 and _spelled(secret) < 0.5 * len(secret)
    return _kinds(secret) >= 3 or _spelled(secret) < 0.75 * len(secret)


def _kinds(secret: bytes) -> int:
    return sum(bool(kind.search(secret)) for kind in (_LOWER, _UPPER, _DIGIT, _SIGN))


def _assigned(secret: bytes) -> bool:
    """What stands behind a name for a secret: letters with digits, and no code."""
    secret = secret.rstrip(b".,;:!?)")
    return (len(secret) >= 6 and _mixed(secret) and not _CODE.match(secret)) or _chosen(secret)


def _set(secret: bytes) -> bool:
    """What stands behind a name for a password: that, digits alone, or words in a row."""
    return _assigned(secret) or bool(_ALL_DIGITS.fullmatch(secret) or _HYPHENED.fullmatch(secret))


def _strong(secret: bytes) -> bool:
    """Such as a person sets as a password who was asked for a sign, a digit and a capital."""
    return _chosen(secret) and bool(_DIGIT.search(secret)) and _kinds(secret) >= 3


def _phrase(secret: bytes) -> bool:
    """Words in a row that say nothing about passwords."""
    return not _ABOUT.search(secret)


def _spelled(secret: bytes) -> int:
    """How many of its letters are in words."""
    return sum(len(word) for word in _WORDS.findall(secret) if _pronounceable(word))


def _adds_up(secret: bytes) -> bool:
    """The check digit of payment cards, and not one group three times, as in numbers for tests."""
    digits = [int(chr(byte)) for byte in reversed(secret) if 48 <= byte <= 57]
    groups = Counter(tuple(digits[at : at + 4]) for at in range(0, len(digits), 4))
    return max(groups.values()) < 3 and (
        sum(n if at % 2 == 0 else sum(divmod(2 * n, 10)) for at, n in enumerate(digits)) % 10 == 0
    )


_LOOKS: dict[Value, Callable[[bytes], bool]] = {
    "any": bool,
    "mixed": _mixed,
    "coded": _coded,
    "drawn": _drawn,
    "lone": _lone,
    "chosen": _chosen,
    "assigned": _assigned,
    "set": _set,
    "phrase": _phrase,
    "strong": _strong,
}


def _pronounceable(word: bytes) -> bool:
    vowels = sum(byte in b"aeiouyAEIOUY" for byte in word)
    return 0.2 <= vowels / len(word) <= 0.7 and (word[1:].islower() or word.isupper())


def _line_of(data: bytes, at: int) -> bytes:
    start = data.rfind(b"\n", 0, at) + 1
    end = data.find(b"\n", at)
    return data[start : len(data) if end < 0 else end][:4096]


def _located(data: bytes, spans: Sequence[tuple[int, int, str]]) -> list[Finding]:
    """Byte offsets as characters, lines and columns, in one pass over the text; what begins within
    another is left out."""
    found: list[Finding] = []
    byte_at = char_at = 0
    line = 1
    for start, end, rule in spans:
        if start < byte_at:
            continue
        between = data[byte_at:start]
        line += between.count(b"\n")
        begin = char_at + len(between.decode("utf-8", "replace"))
        line_start = data.rfind(b"\n", 0, start) + 1
        column = len(data[max(line_start, start - 65536) : start].decode("utf-8", "replace")) + 1
        stop = begin + len(data[start:end].decode("utf-8", "replace"))
        found.append(Finding(rule, line, column, begin, stop))
        line += data[start:end].count(b"\n")
        byte_at, char_at = end, stop
    return found


class Secrets:
    """Secrets by value, each with the rule that found it."""

    def __init__(self, found: Mapping[str, str]) -> None:
        self._found = dict(sorted(found.items(), key=lambda one: -len(one[0])))
        self._bare = {_bare(value): rule for value, rule in self._found.items()}

    def __bool__(self) -> bool:
        return bool(self._found)

    def __contains__(self, value: str) -> bool:
        return value in self._found

    def beyond(self, text: str) -> Secrets:
        """Those that do not stand in this text already."""
        return Secrets({value: rule for value, rule in self._found.items() if value not in text})

    def among(self, text: str) -> list[tuple[str, str]]:
        """Those that stand in a text as words of their own, each with its rule."""
        return [
            (value, rule)
            for value, rule in self._found.items()
            if value in text and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text)
        ]

    def mask(self, text: str, blank: str = BLANK) -> str:
        """The text with the name of a rule in the place of each secret, and of each part of one that
        is long enough to give it away."""
        for value, rule in self._found.items():
            for piece in (value, *filter(_telling, value.split())):
                text = text.replace(piece, blank.format(rule))
        if not self._found:
            return text

        rule_of = cache(self._rule)  # a long text has the same words many times

        def masked(run: re.Match[str]) -> str:
            rule = rule_of(run[0])
            return blank.format(rule) if rule else run[0]

        return _RUN.sub(masked, text)

    def named_by(self, path: str) -> bool:
        """Does a file's name give one away, in whatever case and however it is cut?"""
        bare = _bare(path)
        return any(one in bare for one in self._bare) or any(
            self._rule(run) for run in _RUN.findall(path)
        )

    def _rule(self, run: str) -> str:
        folded = run.casefold()
        for bare, rule in self._bare.items():
            if folded == bare or (_telling(folded) and folded in bare):
                return rule
        return ""


def secrets_in(*texts: str, rules: Rules | None = None) -> Secrets:
    """All secrets of some texts."""
    return Secrets(
        {text[found.start : found.end]: found.rule for text in texts for found in scan(text, rules)}
    )


def _bare(value: str) -> str:
    return re.sub(r"[^a-z0-9]", "", value.casefold()) or value


def _telling(piece: str) -> bool:
    """Words that people use give nothing away, though a secret holds them."""
    return len(piece) >= _LONG or (len(piece) >= 8 and any(map(str.isdigit, piece)))
