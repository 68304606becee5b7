"""Finds the sentences that the user typed in their own words, and leaves out all that only passed through their hands.

Fences, quoted lines, wrapped text, material after "translate:" and pasted documents are not the
user's word, nor is anything of another origin than `typed`. Each sentence is an exact substring of
its message. Pure functions; nothing here touches files, clocks or the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, cast

from lamina.text.asks import classify
from lamina.text.lists import Listed, sections, words
from lamina.text.origins import handed_over_in, hidden_character, split, without_quotations
from lamina.text.wishes import Wish, meant_by, wish_in
from lamina.text.wording import LIST_ITEM, content_stems, fold, spans


def _statement_and_question(own: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """ "I teach music, where do I start?" tells something and asks something else."""
    asked = own[start:end]
    cuts = [*_ASKED.finditer(asked)] if _ASKING.search(asked) else []
    if not cuts or _CONDITION.match(asked) or not _TELLS.search(asked[: cuts[0].start()]):
        yield start, end
    else:
        yield start, start + cuts[0].start()
        yield start + cuts[0].end(), end


_ASKING = Listed("own_words.asking", flags=re.NOFLAG)
_ASKED = Listed("own_words.asked")
_CONDITION = Listed("own_words.condition")
_TELLS = re.compile(r"\w+\W+\w+\W+\w|[\u3400-\u9fff]{4}")


ENDS = tuple(".!?。！？")  # marks that end a sentence
_LONGEST_MESSAGE = 20_000  # characters looked at; nobody types more in one go
_LONGEST_SENTENCE = 600
_DOCUMENT = 2_500  # a message above this is a document: only an explicit wish in it counts


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence in the user's own words, with what the rules need to know of its surroundings."""

    text: str  # exactly as typed
    plain: str  # same length, with what stands in quotation marks or backticks blanked out
    lang: str  # "en" | "de" | "zh"
    said: datetime
    entry: str  # id of the ledger entry, "" where the caller gave none
    message: int  # which typed message, so that rules can look at neighbours
    answers: str  # the assistant's text right before that message
    material: bool  # handed over to be worked on ("translate: …"), so not meant
    document: bool  # part of a long or structured text that was probably pasted


def typed_sentences(
    messages: Sequence[Mapping[str, Any]], now: datetime, *, speaker: str = "typed"
) -> list[Sentence]:
    """All sentences typed by the user, in order. A message without an origin is not trusted.
    `speaker`: another origin whose words are read instead, and stay its own."""
    found: list[Sentence] = []
    said_before = ""
    for number, message in enumerate(messages):
        if message.get("role") == "assistant":
            said_before = "\n".join(_texts(message, "assistant")) or said_before
            continue
        texts = _texts(message, speaker)
        for text in texts:
            found += _sentences(text[:_LONGEST_MESSAGE], message, number, said_before, now)
        if texts:
            said_before = ""
    return found


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asks to have kept, in their words, and the sentences that say so."""

    text: str
    because: tuple[Sentence, ...]
    wish: Wish


@cache
def _doer() -> re.Pattern[str]:
    """Who does it, as far as that shows: a pronoun, or names and nouns before a word that is none."""
    behind = "|".join(sections("wishes.de.txt")["behind"])
    return re.compile(
        r"(?:(?i:ich|wir|er|es|man)|(?:(?:[Dd](?:er|ie|as)|(?:[Mm]ein|[Uu]nser)e?) )?[A-ZÄÖÜ]\w+"
        rf"(?: [A-ZÄÖÜ]\w+)*(?= (?:{behind}) ))(?= )"
    )


def main_clause(kept: str, asking: str) -> str:
    """ "…, dass ich in Köln wohne" says "ich wohne in Köln"; "" where more than one word would move."""
    if not asking.rstrip().endswith("dass"):
        return kept
    first = next((kept[:end] for _, end in spans(kept, semicolons=False)), kept)
    clause = first.rstrip(" .!")  # what comes behind it stays as it is
    who = _doer().match(clause)
    apart = sections("wishes.de.txt")["apart"]
    *between, verb = clause[who.end() :].split() if who else [""]
    moves = (
        len(verb) > 2 and verb[0].islower() and not verb.startswith(apart) and clause[-1:].isalpha()
    )
    if not (who and moves) or {"und", "oder"} & {*between} or "," in clause:
        return ""
    return " ".join([who[0], verb, *between]) + kept[len(clause) :]


_MARKDOWN = "#*>|<`~=_"  # signs that begin something else where they begin a line


def on_one_line(text: str, end: str = " / ") -> str:
    """With a stroke where a line ends that no mark ends, and dots before what is indented: a heading and
    what hangs below another item would say something else in a row."""
    shown = ""
    for line in filter(str.strip, text.splitlines()):
        bare = " ".join(line.split())
        depth = (len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip()) + 1) // 2
        depth = 0 if bare.startswith("[…]") else depth  # nobody typed that
        hangs = depth or bare[0] in _MARKDOWN or LIST_ITEM.match(line)
        stroke = " " if shown.endswith(ENDS) and not hangs else end
        shown += f"{stroke if shown else ''}{'·' * depth if shown else ''}{bare}"
    return shown


def asked_at(message: Sequence[Sentence], place: int) -> Asked | None:
    """What one sentence of a message asks to have kept; None if it asks for no such thing."""
    sentence = message[place]
    wish = None if sentence.material else classify(sentence.text).keeps
    if wish is None or (sentence.document and 0 < place < len(message) - 1):
        return None  # amid a document it is the document that speaks
    meant = meant_by(wish, place, len(message))
    told = message[meant]
    if meant == place:
        what = sentence.text[wish.start : wish.end]
        said = main_clause(what, wish.asking) or what
        return Asked(said, (sentence,), wish) if what else None
    # "Can you keep this in mind, we …?": the mark belongs to the wish.
    said = told.text.rstrip("?？ ") if meant > place and wish.bare else told.text
    if told.material or classify(said).asks or said.rstrip().endswith(("?", "？", "吗")):
        return None
    return Asked(told.text.strip(), (told, sentence), wish)


def asked_in(message: str, now: datetime) -> list[str]:
    """All that a typed message asks to have kept; after "remember this:" that is the whole rest."""
    sentences = typed_sentences([{"role": "user", "origin": "typed", "content": message}], now)
    found: list[str] = []
    for place in range(len(sentences)):
        if asked := asked_at(sentences, place):
            if asked.wish.next_says:
                rest = message[message.index(asked.because[0].text) :]
                return [*found, rest.strip()]
            found.append(asked.text)
    if not found and hidden_character(message) and (wish := classify(message).keeps):
        # No statement of anybody's, but the gate can say what is wrong with it.
        found.append(message[wish.start : wish.end])
    return found


def untyped_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Everything that came from tools, files, hooks or others: what must not speak through the assistant."""
    kept: list[str] = []
    for message in messages:
        for block in _blocks(message):
            origin = _origin(message, block)
            if origin not in {"typed", "assistant"}:
                kept.append(_any_text(block))
            elif origin == "typed":
                text = str(block.get("text", ""))
                kept += [span.text for span in split(text) if span.origin == "pasted"]
    return "\n".join(kept)


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [block for block in cast("list[Any]", content) if isinstance(block, Mapping)]


def _origin(message: Mapping[str, Any], block: Mapping[str, Any]) -> str:
    if block.get("type") != "text":
        return "assistant" if block.get("type") in {"tool_use", "thinking"} else "tool"
    origin = block.get("origin", message.get("origin"))
    if message.get("role") == "assistant":
        return "assistant"
    return origin if isinstance(origin, str) else "unknown"


def _any_text(block: Mapping[str, Any]) -> str:
    if isinstance(block.get("text"), str):
        return str(block["text"])
    content = block.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(_any_text(part) for part in _blocks({"content": content}))


def _texts(message: Mapping[str, Any], origin: str) -> list[str]:
    return [
        str(block["text"])
        for block in _blocks(message)
        if _origin(message, block) == origin and isinstance(block.get("text"), str)
    ]


# --- what inside a typed message is not the user's word ---

_WRAPPER = Listed("own_words.wrapper", flags=re.MULTILINE)
_INLINE_TAG = re.compile(r"<([a-zA-Z][\w-]{0,40})(?:\s[^<>\n]{0,200})?>[^<\n]{0,2000}</\1>")
# Tags that only set off a word of theirs, which is typed as it stands.
_SETS_OFF = frozenset("b i u s em strong del ins mark small sub sup kbd code q span font".split())  # noqa: SIM905
_INDENTED = re.compile(r"^(?: {4,}|\t)[^\n]*$", re.MULTILINE)
# A line of a log, a diff, a stack trace, a shell prompt or code.
_MACHINE_LINE = Listed("own_words.machine_line", flags=re.MULTILINE)
_SPEECH = re.compile(
    r"(?<![\w\"])\"[^\"\x00]{5,3000}\"|“[^“”\x00]{5,3000}”|„[^„“”\x00]{5,3000}[“”]"
    r"|[«»][^«»\x00]{5,3000}[«»]|「[^「」\x00]{5,3000}」"
)
_SPEAKS_ON = re.compile(r"[.!?…][ \n]+\S|[。！？，][^”」]{2}")


_HEADING = re.compile(r"^#{1,6} \S|^\*\*[^*\n]+\*\*:?$", re.MULTILINE)
_BULLET = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)]) ", re.MULTILINE)
# Lines as programs print them; two of these and the message is somebody's output, not speech.
_OUTPUT_LINE = Listed("own_words.output_line", flags=re.IGNORECASE | re.MULTILINE)
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffd\ud800-\udfff"
    r"\U000e0000-\U000e007f]"
)


def own_text(text: str) -> str:
    """Same length, with NUL where it is not the user's word: pasted, printed by a program, speech."""
    marked = "".join(
        span.text.replace("\x00", "\ufffd") if span.origin == "typed" else _blanked(span.text)
        for span in split(text)
    )
    wrapped = _WRAPPER.search(marked)
    if wrapped:  # a program's own wrapping that never closes: nothing after it can be trusted
        marked = marked[: wrapped.start()] + _blanked(marked[wrapped.start() :])
    marked = _INLINE_TAG.sub(
        lambda tag: tag[0] if tag[1].lower() in _SETS_OFF else _blanked(tag[0]), marked
    )
    for pattern in (_INDENTED, _MACHINE_LINE):
        marked = pattern.sub(lambda match: _blanked(match[0]), marked)
    return _SPEECH.sub(_without_speech, marked)


def _without_speech(quoted: re.Match[str]) -> str:
    """Several sentences in quotation marks are somebody else's speech."""
    return _blanked(quoted[0]) if _SPEAKS_ON.search(quoted[0]) else quoted[0]


def _blanked(text: str) -> str:
    return re.sub(r"[^\n]", "\x00", text)


def _is_document(text: str, own: str) -> bool:
    return (
        len(own) > _DOCUMENT
        or bool(_HEADING.search(text))
        or sum(1 for _ in _BULLET.finditer(own)) > 5
        or sum(1 for _ in _OUTPUT_LINE.finditer(text)) > 1
    )


def _sentences(
    text: str, message: Mapping[str, Any], number: int, answers: str, now: datetime
) -> Iterator[Sentence]:
    own = own_text(text)
    document = _is_document(text, own)
    entry = message.get("uuid") or message.get("id") or ""
    said = _time(message.get("time") or message.get("timestamp"), now)
    material_until = ""  # "" none · "paragraph" to the next blank line · "all" to the end
    pieces = (
        piece for begin, stop in spans(own) for piece in _statement_and_question(own, begin, stop)
    )
    for start, end in pieces:
        raw = text[start:end]
        if material_until == "paragraph" and re.search(
            r"\n\s*\n", text[max(0, start - 2) : start + 1]
        ):
            material_until = ""
        sentence = raw.strip()
        if "\x00" in own[start:end].strip("\x00\n ") or not sentence or _HIDDEN.search(sentence):
            continue
        if own[start:end].strip("\x00\n ") == "" or len(sentence) > _LONGEST_SENTENCE:
            continue
        plain = without_quotations(sentence)
        tail = handed_over_in(plain)
        handed_over = tail is not None and wish_in(sentence) is None
        yield Sentence(
            sentence, plain, _language(sentence), said, str(entry), number, answers,
            bool(material_until) or handed_over, document,
        )  # fmt: skip
        if handed_over and not material_until:
            material_until = "paragraph" if tail and tail.strip("\x01 .。") else "all"


def _time(value: object, now: datetime) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, str):
        try:
            said = datetime.fromisoformat(value)
            return said if said.tzinfo else said.replace(tzinfo=now.tzinfo)
        except ValueError:
            return now
    return now


_GERMAN = frozenset(
    """ich bin du wir ihr sie der die das den dem ein eine einen nicht und oder bitte immer nie
    niemals ab jetzt für mit auf ist sind wird werden muss mir mich dir dich dass wenn weil
    auch noch nur künftig kein keine bei uns unser unsere im am zum zur von vom merk merke
    merken ja genau nein super passt morgen bis hör lass mach nutze verwende mehr antworten
    übermorgen denk""".split()  # noqa: SIM905 - a word list
)
_ENGLISH = frozenset(
    """i i'm im am you we the a an not and or please always never from now on for with is are
    will be must me my that this if because also only no our in at to of it remember don't
    dont by have has use""".split()  # noqa: SIM905 - a word list
)


def _language(text: str) -> str:
    if re.search(r"[\u3400-\u9fff]", text):
        return "zh"
    words = re.findall(r"[^\W\d_]+(?:'[a-z]+)?", text.lower())
    german = sum(word in _GERMAN for word in words) + 2 * bool(re.search("[äöüß]", text.lower()))
    return "de" if german > sum(word in _ENGLISH for word in words) else "en"


# ---- of whom a sentence speaks

_KNOWN = Listed("persons.known", flags=re.NOFLAG)
_PRONOUN = Listed("persons.pronoun", flags=re.NOFLAG)
_SOMEBODY = Listed("persons.named", flags=re.NOFLAG)
_CHINESE = Listed("persons.chinese_person", flags=re.NOFLAG)
_WHO = Listed("persons.who", flags=re.NOFLAG)
_NOT_SOMEBODY = frozenset(
    """i im we it this that there here what who which whose my our you your everything nothing all name
    work job role title position nickname location timezone email age experience employer city
    language me us them him her mir uns mich dir profession background focus home office stack degree major team company
    today now ich wir das es dies hier was mein meine name beruf arbeit one someone anyone never always
    and or so because""".split()  # noqa: SIM905 - a word list
)
_SELF = words("persons.self")
_PART = Listed("persons.clause")
_ABOUT_ANYBODY = words("persons.about_anybody")


def speaks_of(claim: str, sentences: Iterable[str]) -> str:
    """ "" or the one whom the words are about that a claim about the user rests on."""
    stems = content_stems(claim)
    own: set[str] = set()
    others: list[tuple[str, frozenset[str]]] = []
    for sentence in sentences:
        for clause in filter(str.strip, _PART.split(fold(sentence))):
            who, name, said = _subject(clause.strip())
            mine = content_stems(clause[: len(clause) - len(said)] if who else clause)
            own |= mine
            if who and not _names(claim, who, name):
                others.append((f"{who} {name}".strip(), content_stems(said)))
    for who, said in others:
        if 2 * len(stems & (said - own)) >= len(stems) > 0:
            return who
    return ""


def _subject(clause: str) -> tuple[str, str, str]:
    """Somebody else whom a clause speaks of, their name, and the words about them."""
    plain = clause.casefold()
    for rule in (_KNOWN, _PRONOUN, _CHINESE):
        if found := rule.match(plain):
            about = clause[found.end() :]
            name = found.groupdict().get("name") or ""
            return ("", "", "") if _SELF.search(about) else (found["who"], name.strip(), about)
    if found := _WHO.search(plain):
        who = found["who"] or found["name"]
        if who not in _NOT_SOMEBODY:
            return who, "", clause[found.end() :]
    found = _SOMEBODY.match(plain)
    if found and found["who"] not in _NOT_SOMEBODY and not _SELF.search(clause):
        return found["who"], "", clause[found.end() :]
    return "", "", ""


def _names(claim: str, who: str, name: str) -> bool:
    """Does the claim say whom it is about?"""
    if who in ("he", "she", "they", "er", "sie", "il", "elle", "él", "ella", "他", "她"):
        return bool(_ABOUT_ANYBODY.search(claim))
    return bool(content_stems(f"{who} {name}") & content_stems(claim))
