"""Takes text apart: sentences, words, stems, and the tokens that must never be made up. Pure functions.

The gate compares a memory with its evidence by these, and gate and audit compare memories with one
another. The stemmer loads when first used.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from lamina.memories import HEAD
from lamina.text.lists import Listed

# Words that carry no claim of their own. "user" stands where the user said "I". Negations are not
# here: they carry the claim.
_STOP = frozenset(
    """a about after again all also am an and any are as at be because been before being both but by
    can could did do does doing done down during each else for from had has have having he her here
    hers him his how i if in into is it its itself just let like me mine more most my myself of off
    on once one only or other our ours out over own per rather same say says said she should so some
    such than that the their theirs them then there these they this those through to told too
    under until up upon us user users very via was we were what when where whether which while who
    whom whose why will with would yes you your yours im ive id
    ill youre theyre thats""".split()  # noqa: SIM905 - 140 words
)

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# ASCII in lower case, with a space for every sign that is part of no word. What is left whole of other
# letters and signs is taken apart by `_WORD`: nothing that it looks at reaches across such a space.
_BARE = bytes(
    code if code >= 128 or code == 39 else ord(chr(code).lower()) if chr(code).isalnum() else 32
    for code in range(256)
)
_ANY = "utf-8", "surrogatepass"
_CJK = re.compile(r"[぀-ヿ㐀-䶿一-鿿가-힣豈-﫿]")
_URL = re.compile(
    r"(?i)(?:[a-z][a-z0-9+.-]{1,20}://|www\.)[^\s<>\"'`|]+|[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]+"
)
_TOKEN = re.compile(r"[^\s<>\"“”‘’()\[\]{}|;!?*=]+")
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_EDGE = ".,:;!?'\"”’)]}>…"
_CAMEL = re.compile(r"[a-zß-ÿ][A-Z]|[A-Z]{2,}[a-z]{2,}")
_EXTENSION = re.compile(r"\w\.[A-Za-z][A-Za-z0-9]{0,9}$")


def fold(text: str) -> str:
    """NFKC with every run of white space as one space: how quotes are compared."""
    return " ".join(_normal(text).split())


def spaced(text: str) -> str:
    """Every run of white space as one space, all letters as they are: how words are compared that must
    be the same."""
    return " ".join(text.split())


def _normal(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def words(text: str) -> list[str]:
    """All words in order, folded for comparison; identifiers fall apart at their underscores."""
    found = text.encode(*_ANY).translate(_BARE).decode(*_ANY).split()
    if text.isascii() and "'" not in text:
        return found
    return [
        word
        for run in found
        for word in ((run,) if run.isascii() and run.isalnum() else _words_in(run))
    ]


def _words_in(run: str) -> list[str]:
    return [word.replace("’", "'") for word in _WORD.findall(_normal(run).casefold())]


@lru_cache(maxsize=1)
def _stemmer() -> Callable[[list[str]], list[str]]:
    import Stemmer

    return Stemmer.Stemmer("english").stemWords  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class _Stems(dict[bytes, Sequence[str]]):
    """The stems of what stands between two spaces: one, none if it says nothing, or several. Each is
    taken apart once, and all texts share one copy of its stems."""

    def __missing__(self, run: bytes) -> Sequence[str]:
        if len(self) > _MOST_WORDS:
            self.clear()
        said = (stem for word in words(run.decode(*_ANY)) for stem in _stems_of_word(word))
        found = self[run] = tuple(map(sys.intern, said))
        return found


def _stems_of_word(word: str) -> Sequence[str]:
    bare = word.removesuffix("'s").replace("'", "")
    if _CJK.search(bare):
        return [bare[i : i + 2] for i in range(max(1, len(bare) - 1))]
    return [stem(bare)] if bare not in _STOP and (len(bare) > 1 or bare.isdigit()) else ()


_MOST_WORDS = 200_000
_stems = _Stems()


def content_stems(text: str) -> frozenset[str]:
    """The distinct stems of the words that say something; scripts without spaces give pairs."""
    return _short_stems(text) if len(text) < _SHORT else _distinct_stems(text)


_SHORT = 400  # longer texts are whole files, of which few come back and each would hold much


def _distinct_stems(text: str) -> frozenset[str]:
    return _gathered(set(text.encode(*_ANY).translate(_BARE).split()))


def stems_of(words: Iterable[str]) -> frozenset[str]:
    """The stems of words as `words` gives them."""
    return _gathered(word.encode(*_ANY) for word in words)


def _gathered(runs: Iterable[bytes]) -> frozenset[str]:
    return frozenset(chain.from_iterable(map(_stems.__getitem__, runs)))


_short_stems = lru_cache(maxsize=2_048)(_distinct_stems)


_UNSPACED = re.compile(r"[\u3400-\u9fff]+")


def runs(text: str, count: int) -> set[str]:
    """Words in a row, or as many characters of a script without spaces: they show where a text is from."""
    said, wide = words(text), _UNSPACED.findall(text)
    found = {" ".join(said[at : at + count]) for at in range(len(said) - count + 1)}
    return found | {one[at : at + count] for one in wide for at in range(len(one) - count + 1)}


def stem(word: str) -> str:
    """The stem of one plain word."""
    return _stemmer()([word])[0]


def likeness(one: str, other: str) -> float:
    """0 to 1: how much two memories say the same, by the stems that they share (Jaccard)."""
    first, second = content_stems(one), content_stems(other)
    shared = len(first & second)
    return shared / (len(first) + len(second) - shared) if shared else 0.0


def hard_tokens(text: str) -> set[str]:
    """Numbers, paths, URLs and identifiers, folded: each one must be found in the evidence."""
    text = _normal(text)
    found: set[str] = set()

    def keep_url(match: re.Match[str]) -> str:
        found.add(match[0].rstrip(_EDGE).casefold())
        return " "

    plain, code = _code_apart(_URL.sub(keep_url, text))
    found.update(part.casefold() for part in code if any(map(str.isalnum, part)))
    for raw in _TOKEN.findall(plain):
        found.update(_token_kinds(raw.strip("_*").rstrip(_EDGE)))
    return found


def _code_apart(text: str) -> tuple[str, list[str]]:
    """Text without its `code`, and the code's parts; a lone backtick is no code."""
    plain: list[str] = []
    code: list[str] = []
    for line in text.splitlines():
        pieces = re.split(r"`+", line)
        if len(pieces) % 2 == 0:
            pieces = [line.replace("`", " ")]
        plain += pieces[::2]
        for piece in pieces[1::2]:
            code += piece.split()
    return "\n".join(plain), code


def _token_kinds(token: str) -> Iterable[str]:
    if not any(map(str.isalnum, token)):
        return ()
    if _NUMBER.match(token):
        return _numbers(token)
    if _is_identifier(token):
        return (token.casefold(),)
    return _numbers(token)


def _is_identifier(token: str) -> bool:
    if "/" in token or "\\" in token or token.startswith(("~", "--", "@", "#", "$", ".")):
        return not re.fullmatch(r"[^\W\d_]+/[^\W\d_]+", token)  # "and/or", "read/write" are words
    core = token.strip("'’")
    if "_" in core or _CAMEL.search(core) or _EXTENSION.search(core) or "::" in core:
        return True
    letters = any(map(str.isalpha, core))
    return letters and any(map(str.isdigit, core)) and "-" not in core


def _numbers(token: str) -> list[str]:
    return [number_key(number) for number in _NUMBER.findall(token)]


def number_key(number: str) -> str:
    """1,000 and 1000 are one number."""
    return re.sub(r"(?<=\d),(?=\d{3}\b)", "", number)


def missing_tokens(text: str, evidence: str) -> set[str]:
    """The hard tokens of `text` that do not occur, whole, anywhere in `evidence`."""
    folded, known = _heard(evidence)
    return {
        token for token in hard_tokens(text) if token not in known and not _inside(token, folded)
    }


@lru_cache(maxsize=4)  # a dream holds every line against all that was ever said
def _heard(evidence: str) -> tuple[str, frozenset[str]]:
    folded = fold(evidence).casefold()
    known = hard_tokens(evidence)
    for number in _NUMBER.findall(folded):
        known.update({number_key(number), *re.split(r"[:/-]", number)})
    return folded, frozenset(known)


def _inside(token: str, folded: str) -> bool:
    if _NUMBER.fullmatch(token):
        return False  # a number is found as a number, not as a part of another
    at = folded.find(token)
    while at >= 0:
        if bounded(folded, at, at + len(token)):
            return True
        at = folded.find(token, at + 1)
    return False


def bounded(text: str, start: int, end: int) -> bool:
    """Whether `text[start:end]` begins and ends at the edge of a word or number."""
    return not _joined(text, start) and not _joined(text, end)


def _joined(text: str, at: int) -> bool:
    if not 0 < at < len(text):
        return False
    left, right = text[at - 1], text[at]
    if _CJK.match(left) or _CJK.match(right):
        return False
    if _wordlike(left) and _wordlike(right):
        return True
    number_ahead = left in ".,:" and right.isdigit() and at > 1 and text[at - 2].isdigit()
    number_behind = (
        right in ".,:" and left.isdigit() and at + 1 < len(text) and text[at + 1].isdigit()
    )
    return number_ahead or number_behind


def _wordlike(char: str) -> bool:
    return char.isalnum() or char == "_"


_WIDE = "[一-鿿]"


def _ends(wide: str, marks: str) -> re.Pattern[str]:
    """Where sentences end; a question amid wide characters has no space behind it."""
    return re.compile(
        rf"[{wide}]+[”」』]?|(?<={_WIDE})[?]+(?={_WIDE})"
        rf"|[.{marks}…]+[)\"'’”“]?(?=\s|$)|\n+|\x00+"
    )


_END = _ends("。！？", "!?")
_END_OR_SEMICOLON = _ends("。！？；", "!?;")
_SHORTENED = Listed("finders.shortened")
_NUMBER_FOLLOWS = re.compile(r"\b(?:no|nr|art|fig|abs)\.$", re.IGNORECASE)
_COUNTED = re.compile(r"(?<![\d.])(\d{1,2})\.$")
_GERMAN_ORDINAL = Listed("finders.before_an_ordinal")
_BEHIND_AN_ORDINAL = Listed("finders.behind_an_ordinal")
_COUNTS = re.compile(
    r"(?:^|[:,;(“\"–—-])[\s*>•“\"(-]*$"
)  # what stands before the number of a point


def _goes_on(own: str, start: int, stop: re.Match[str]) -> bool:
    """A full stop that ends no sentence: "e.g. this", "no. 5", "am 24. kommt"."""
    if stop[0] != ".":
        return False
    before, after = (
        own[max(start, stop.start() - 14) : stop.end()],
        own[stop.end() : stop.end() + 10],
    )
    if _SHORTENED.search(before):
        return bool(re.match(r"\s\w", after))
    if _NUMBER_FOLLOWS.search(before):
        return bool(re.match(r"\s\d", after))
    number = _COUNTED.search(before)
    if not number or not re.match(r"\s[^\W\d]", after):
        return False
    if _GERMAN_ORDINAL.search(before):
        return True
    if not after[1].islower():
        return False
    # Who writes all in small letters ends sentences with numbers, too: "on march 2. second, …"
    ahead = own[start : stop.start() - len(number[1])]
    follows = f" {int(number[1]) - 1}. " in f" {ahead}"
    return follows or bool(_COUNTS.search(ahead) or _BEHIND_AN_ORDINAL.match(after))


def spans(text: str, *, semicolons: bool = True) -> Iterator[tuple[int, int]]:
    """Begin and end of each sentence, in order; lines are sentences of their own. NUL stands for what
    is not the user's word, and ends one. `semicolons`: they end one too, as what is kept should be
    short; what a quote proves may reach across."""
    start = 0
    for match in (_END_OR_SEMICOLON if semicolons else _END).finditer(text):
        if _goes_on(text, start, match):
            continue
        yield start, match.start() if match[0].startswith("\x00") else match.end()
        start = match.end()
    yield start, len(text)


def sentences(text: str, *, semicolons: bool = False) -> list[str]:
    """The sentences and lines of a text, bare of the space around them."""
    pieces = (text[start:end].strip() for start, end in spans(text, semicolons=semicolons))
    return [piece for piece in pieces if piece]


def days_in_order(claim: str, runs: Iterable[str]) -> bool:
    """Are the days of these runs that a claim names all of one run, and in its order? "Freeze tomorrow,
    ship on Friday" must not become the other way round."""
    known = [run.split() for run in runs]
    named = [day for day in _ISO_DAY.findall(claim) if any(day in run for run in known)]
    # `in` on an iterator goes on behind what it found
    return not named or any(all(day in rest for day in named) for rest in map(iter, known))


_ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d")


# ---- lines of a file, and what they are read under


def read_under(lines: Sequence[str], *, titled: bool | None = None) -> list[tuple[str, ...]]:
    """Of each line the headings above it (of `#`, bold or underlined), the last line below them that a
    colon, a dash or a list makes a lead, and the lines that it is indented under. `titled`: whether the
    first line is a title, if that is not to be guessed."""
    found: list[tuple[str, ...]] = []
    heads: list[tuple[int, str]] = []
    hung: list[tuple[int, str]] = []
    lead, of_list = "", False
    next_said = [""]  # from the end
    for line in reversed(lines):
        next_said.append(line if line.strip() else next_said[-1])
    for line, below in zip(lines, [*lines, ""][1:], strict=True):
        next_said.pop()
        bare, indent = spaced(line), len(line) - len(line.lstrip())
        level = _level(bare, spaced(below))
        if of_list and bare and not indent and not LIST_ITEM.match(line):
            lead = ""
        if level:
            heads, lead, hung = [one for one in heads if one[0] < level], "", []
        hung = [one for one in hung if one[0] < indent] if bare else hung
        found.append((*(text for _, text in (*heads, *hung)), *([lead] if lead else ())))
        if level:
            heads = [*heads, (level, bare)]
        elif bare.rstrip(" *").endswith((":", "：", "–", "—", " -")):
            lead, of_list = bare, False
        elif LIST_ITEM.match(next_said[-1]) and not LIST_ITEM.match(line) and _LEADS.search(bare):
            lead, of_list = bare, True
        elif bare:
            hung = [*hung, (indent, bare)]
    return [(*above, *more) for above, more in zip(found, _around(lines, titled), strict=True)]


def _first_said(lines: Sequence[str]) -> str:
    return next((one for one in map(spaced, lines) if one and not one.startswith(HEAD)), "")


def _around(lines: Sequence[str], titled: bool | None) -> Iterator[tuple[str, ...]]:
    """Of each line what else says how it is meant: a title, the head of its table, an open fence, and
    lines anywhere that speak of others by their place ("everything above", "point 2")."""
    said = list(map(spaced, lines))
    first = _first_said(lines)
    if titled is None and not first.endswith(_SENTENCE_ENDS) and not LIST_ITEM.match(first):
        marks = (HEAD, "**", "|", "#")
        titled = any(one.endswith(_SENTENCE_ENDS) for one in said if not one.startswith(marks))
    refers = [one for one in said if _REFERS.search(one)]
    table, fenced = "", False
    for line in said:
        table = (table or line) if line.startswith("|") else ""
        under = (first if titled else "", table, "```" if fenced else "", *refers)
        yield tuple(one for one in under if one and one != line)
        fenced ^= line.startswith("```")


def _level(line: str, below: str) -> int:
    """How deep a heading is; 0 for other lines."""
    if line and len(below) > 2 and ({*below} == {"="} or {*below} == {"-"}):
        return 1 + (below[0] == "-")
    if _EMPHASISED.fullmatch(line):
        return _BOLD
    return len(line) - len(line.lstrip("#"))


_BOLD = 7  # deeper than `######`
_EMPHASISED, _LEADS = Listed("proof.emphasised"), Listed("proof.leads")
_REFERS = Listed("proof.refers")
_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？", ":", "：")
LIST_ITEM = re.compile(r"\s*(?:[-*+•–]|\d{1,3}[.)])\s+")


def in_place(lines: Sequence[str], before: Sequence[str]) -> list[bool]:
    """Which lines stand as they stood before: in the same order and below the same words."""
    known, first = list(map(spaced, before)), _first_said(lines)
    # A first line that both have was above the others before as well. What is added must speak of the
    # same thing: below "Rejected ideas" it would say the opposite.
    stood_somewhere = {*known}
    added = " ".join(line for line in lines if spaced(line) not in stood_somewhere)
    same = first == _first_said(before) and content_stems(first) <= content_stems(added)
    above, stood = (read_under(text, titled=False if same else None) for text in (lines, before))
    places = defaultdict[tuple[str, tuple[str, ...]], deque[int]](deque)
    for n, one in enumerate(zip(known, stood, strict=True)):
        places[one].append(n)
    at, found = 0, list[bool]()
    for one in zip(map(spaced, lines), above, strict=True):
        left = places[one]
        while left and left[0] < at:
            left.popleft()
        found.append(bool(left))
        at = left.popleft() + 1 if left else at
    return found


# ---- negations, in sentences and in the names of files

# Words that tell nothing. No negation is among them: a name must never say the opposite.
SMALL_WORDS = frozenset(
    """a an the to of in on at for and or but so is are was be been i im my me we our you your it
    its this that these with as by from please do does der die das den dem des ein eine einen einem
    einer und oder aber ich bin du wir ist sind im am zum zur mit bei fuer von auf dass bitte es zu
    mir dir""".split()  # noqa: SIM905 - a word list
)

NEGATION = Listed("persons.negation", flags=re.NOFLAG)

# "特别" (especially), "别人" (others), "不过" (but), "不错" (good) and the like deny nothing.
CHINESE_NO = Listed("persons.chinese_no", flags=re.NOFLAG)

_APOSTROPHES = re.compile(r"['’‘`´]")

_INTERJECTION = re.compile(r"(?i)^(?:nope|no|nein)[,!.;:–—-]+\s*")  # "No, use pnpm" denies nothing

_TRANSLITERATED = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"}
)


def negates(text: str) -> bool:
    """Does it say no, in English, German or Chinese? Made for sentences and for the names of files."""
    return denials(text) > 0


def denials(text: str) -> int:
    """How often it says no."""
    return sum(NEGATION.fullmatch(word) is not None for word, _ in plain_words(text))


def plain_words(text: str) -> list[tuple[str, bool]]:
    """The words in order, in plain letters, and whether each tells something."""
    plain = CHINESE_NO.sub(" not ", _INTERJECTION.sub("", fold(text)))
    plain = _APOSTROPHES.sub("", plain).translate(_TRANSLITERATED)
    plain = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    found = list(re.finditer(r"[A-Za-z0-9]+", plain))
    return [
        (one[0].lower(), one[0].lower() not in SMALL_WORDS or _is_label(one, found))
        for one in found
    ]


def _is_label(word: re.Match[str], words: Sequence[re.Match[str]]) -> bool:
    """The A of "shop A is closed" and of "shop a" is no article."""
    if word is words[0]:
        return False
    return word[0] == "A" or (word[0] == "a" and word is words[-1])
