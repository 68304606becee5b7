"""Turns text into the terms that the ranker indexes and asks for: words split, folded and stemmed,
irregular forms mapped to their stem, scripts without spaces cut into pairs of characters. Pure text
in, terms out; touches no files, clocks or network."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import permutations
from typing import TYPE_CHECKING

from lamina.text.lists import Listed
from lamina.text.wording import content_stems

if TYPE_CHECKING:
    from collections.abc import Callable

# One document never costs more than this to index, whatever somebody put into a file.
LONGEST_TEXT = 200_000
LONGEST_QUERY = 4_000
LONGEST_WORD = 64

_RUN = re.compile(r"[^\W_]+")
# Every ASCII character that is no letter, digit or underscore becomes a space.
_ASCII_MARKS = bytes(
    code if code >= 128 or chr(code).isalnum() or code == 95 else 32 for code in range(256)
)
_HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\WA-Za-z\d_]+")
_ACCENT = re.compile("[\u0300-\u036f]")


@cache
def _scripts() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Runs that are written without spaces, or glued together (Han, kana, Hangul, Thai, Lao, Khmer,
    Burmese), and Han alone. Made when first met: they cost a search that never meets them 2 ms."""
    han = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ffff"
    others = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\uac00-\ud7af"
    return re.compile(f"[{others}{han}]+"), re.compile(f"[{han}]")


def word_list(words: str) -> frozenset[str]:
    return frozenset(words.split())


STOP_WORDS = word_list(
    """a about also am an and any are as at be been being but by can could did do does doing done
    for from had has have having he her hers him his how i if in into is it its itself just may me
    might mine more most must my no nor not of off on only or our ours own s same shall she should
    so some such t than that the their theirs them then there these they this those to too us very
    was we were what when where which who whom whose why will with would you your yours d ll m o re
    ve y aren couldn didn doesn don hadn hasn haven isn shouldn wasn weren won wouldn didnt dont
    im ive cant"""
)

# Words that shape a question more than they say what it is about: they count, but less.
FRAME_WORDS = word_list(
    """many much total number kind type name ago day week month year before after first last past
    between pass since mention happen current recent order early late again suggest recommend tip
    remind tell think know get go make take use time new one two three other another different
    still ever long often old like want need thing something anything way during while because
    upcoming previous conversation talk discuss say idea help give advice should explain write show
    please find add let look come put try work become keep"""
)

_IRREGULAR = """be: been was were; become: became; begin: began begun; bend: bent; bite: bit bitten;
blow: blew blown; break: broke broken; bring: brought; build: built; buy: bought; catch: caught;
choose: chose chosen; come: came; deal: dealt; dig: dug; draw: drew drawn; drink: drank drunk;
drive: drove driven; eat: ate eaten; fall: fell fallen; feed: fed; feel: felt; fight: fought;
find: found; fly: flew flown; forget: forgot forgotten; forgive: forgave forgiven;
freeze: froze frozen; get: got gotten; give: gave given; go: went gone; grow: grew grown;
hang: hung; hear: heard; hide: hid hidden; hold: held; keep: kept; know: knew known; lay: laid;
lead: led; learn: learnt; leave: left; lend: lent; light: lit; lose: lost; make: made;
mean: meant; meet: met; pay: paid; ride: rode ridden; ring: rang rung; rise: rose risen;
run: ran; say: said; see: saw seen; sell: sold; send: sent; shake: shook shaken; shoot: shot;
show: shown; sing: sang sung; sink: sank sunk; sit: sat; sleep: slept; speak: spoke spoken;
spend: spent; stand: stood; steal: stole stolen; stick: stuck; strike: struck; swear: sworn;
sweep: swept; swim: swam swum; swing: swung; take: took taken; teach: taught; tear: tore torn;
tell: told; think: thought; throw: threw thrown; understand: understood; wake: woke woken;
wear: wore worn; win: won; wind: wound; withdraw: withdrew withdrawn; write: wrote written;
child: children kids kid; man: men; woman: women; person: people; foot: feet; tooth: teeth;
mouse: mice; life: lives; wife: wives; knife: knives; shelf: shelves; leaf: leaves; half: halves;
criterion: criteria; datum: data; photo: photograph photographs photography picture pictures;
mother: mom mum moms; father: dad dads; grandmother: grandma; grandfather: grandpa;
bike: bicycle bicycles; phone: telephone; tv: television; fridge: refrigerator;
repository: repo repos; directory: dir dirs; configuration: config configs; database: db;
documentation: docs doc; environment: env; authentication: auth; application: app apps;
kubernetes: k8s; javascript: js; typescript: ts; colour: color; favourite: favorite"""


@cache
def _irregular() -> Mapping[str, str]:
    forms: dict[str, str] = {}
    for entry in _IRREGULAR.split(";"):
        root, _, others = entry.partition(":")
        forms.update(dict.fromkeys(others.split(), root.strip()))
    return forms


@cache
def _stemmer() -> Callable[[str], str]:
    import Stemmer

    # Without its own cache, which costs more than it saves: whoever asks here keeps the answer.
    return Stemmer.Stemmer("english", 0).stemWord  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """The term for one lower-case word: its irregular form undone, then the suffixes cut."""
    return _stemmer()(_irregular().get(word, word))


@cache
def frame_terms() -> frozenset[str]:
    return frozenset(stem(word) for word in FRAME_WORDS)


def _composed(text: str) -> str:
    """Letters and their marks as one character each, so that no mark splits a word."""
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text
    return unicodedata.normalize("NFC", text)


def folded(run: str) -> str:
    """One form for full-width, composed and accented spellings of the same letters."""
    bare = _ACCENT.sub("", unicodedata.normalize("NFKD", run))
    return unicodedata.normalize("NFC", bare)


def _pairs(run: str) -> list[str]:
    """Characters in pairs; a Han character also counts alone, for a word may be one character."""
    pairs = [run[i : i + 2] for i in range(len(run) - 1)]
    return pairs + (_scripts()[1].findall(run) if pairs else [run])


def terms_of(run: str) -> tuple[str, ...]:
    """The terms of one run, as it stands in a `spaced` text."""
    if run.isalnum():
        return _terms_of_run(run)
    return tuple(term for part in _RUN.findall(run) for term in _terms_of_run(part))


@lru_cache(maxsize=20_000)
def _short_run_terms(run: str) -> tuple[str, ...]:
    return terms_of(run)


def _terms_of_run(run: str) -> tuple[str, ...]:
    if not run.isascii():
        if (plain := folded(run)) != run:
            return tuple(term for part in _RUN.findall(plain) for term in _terms_of_run(part))
        glued, _ = _scripts()
        if spaceless := glued.findall(run):
            rest = _RUN.findall(glued.sub(" ", run))
            return tuple(
                [term for part in spaceless for term in _pairs(part)]
                + [term for part in rest for term in _terms_of_run(part)]
            )
    lower = run.lower()
    if lower in STOP_WORDS or len(lower) > LONGEST_WORD:
        return ()
    if run == lower or len(run) < 4 or run[1:] == lower[1:] or run.isupper():
        return (stem(lower),)
    parts = [part.lower() for part in _HUMP.findall(run)]
    if len(parts) < 2:
        return (stem(lower),)
    return (stem(lower), *(stem(part) for part in parts if part not in STOP_WORDS))


def terms(text: str, limit: int = LONGEST_TEXT) -> list[str]:
    """All terms of a text in order, repeats included, stop words left out.

    `resetKeyCache` gives the whole and its parts, `a_b` its parts, `記憶` its pairs.
    """
    found: list[str] = []
    for run in spaced(text, limit).decode().split():
        found += _short_run_terms(run) if len(run) <= LONGEST_WORD else terms_of(run)
    return found


def spaced(text: str, limit: int = LONGEST_TEXT) -> bytes:
    """A text with spaces where ASCII marks stand, and between runs of letters therefore; what other
    marks join (a dash, a quotation mark) is taken apart when the terms of a run are asked for."""
    return _composed(text[:limit]).encode(errors="replace").translate(_ASCII_MARKS)


_SENTENCE_START = re.compile(r"(?:^|[.!?:;\"“”'‘(\n])\s*$")


def proper_names(query: str) -> list[str]:
    """Terms of capitalised words that don't open a sentence: most likely names."""
    text = _composed(query[:LONGEST_QUERY])
    names: list[str] = []
    for match in _RUN.finditer(text):
        word, start = match.group(), match.start()
        if (
            word[0].isupper()
            and word[1:].islower()
            and not _SENTENCE_START.search(text[max(0, start - 4) : start])
        ):
            names.extend(_terms_of_run(word))
    return names


# ---- lines of code for a question

# Beginnings of words that ask what is done with something, not with what.
DOINGS = frozenset(
    {"handl", "defin", "implement", "configur", "creat", "stor", "check", "call", "set"}
)
_DEFINING = "def|class|func|function|fn|type|struct|interface"
_DEFINES = re.compile(r":\s*(?:async )?(?:" + _DEFINING + r")\b")


def beginning(word: str) -> str:
    """What other forms of a word begin with: handl for handled, handler, handling."""
    for ending in ("ing", "ies", "ed", "er", "es", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and word.isalpha():
            return word[: -len(ending)]
    return word


def _with_paths(lines: Sequence[str]) -> Iterator[str]:
    """Lines of one file may stand below its name, and remarks on the whole in brackets."""
    path = ""
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("  "):
            yield path + line[2:]
        elif line.endswith(":") and below.startswith("  "):
            path = line
        elif not (line.startswith("[") and line.endswith("]")):
            yield line


def narrower(stems: Sequence[str]) -> str:
    """A pattern for the lines that `best_lines` puts first: two of the words, or a definition."""
    pairs = (f"{one}.*{other}" for one, other in permutations(stems[:5], 2))
    return "|".join([*pairs, rf"\b(?:{_DEFINING})\s.*(?:{'|'.join(stems)})"])


def best_lines(lines: Sequence[str], stems: Sequence[str], most: int) -> list[str]:
    """The lines, as `path:number:text`, that hold the most and the rarest of the words, in files that
    speak of all of them; definitions before uses, and of each file two at most."""
    lines = [*dict.fromkeys(line for line in _with_paths(lines) if line != "No matches.")]
    paths = [line.partition(":")[0] for line in lines]
    held = [{stem for stem in stems if stem.replace("\\", "") in line.lower()} for line in lines]
    spoken: dict[str, set[str]] = {}
    for path, one in zip(paths, held, strict=True):
        spoken.setdefault(path, set()).update(one)
    rare = {
        stem: math.log(1 + len(lines) / (1 + sum(stem in one for one in held))) for stem in stems
    }
    scores = [
        sum(rare[stem] for stem in one)
        * sum(rare[stem] for stem in spoken[path])
        * (1.3 if _DEFINES.search(line) else 1.0)
        for path, one, line in zip(paths, held, lines, strict=True)
    ]
    best: list[str] = []
    shown = Counter[str]()
    for at in sorted(range(len(lines)), key=lambda at: -scores[at]):
        shown[paths[at]] += 1
        if shown[paths[at]] <= 2 and len(best) < most:
            best.append(lines[at])
    return best


# ---- what a plain question asks for

_PLAIN_WORD = re.compile(r"[a-z0-9][a-z0-9_-]+")
_EMPTY_WORDS = Listed("requests.empty")


def words_asked(sentence: str) -> set[str]:
    """The words of a plain question that say what it is about."""
    found = {
        _singular(word)
        for word in _PLAIN_WORD.findall(sentence.lower())
        if not _EMPTY_WORDS.fullmatch(word)
    }
    return found if sentence.isascii() else found | content_stems(sentence)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
