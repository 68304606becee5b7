"""Finds plain facts: who the user is, what is due when, where things are kept. Pure."""

from __future__ import annotations

import re

from lamina.local import finding
from lamina.local.finding import (
    ASKED,
    CORRECTED,
    DATE,
    DECISION,
    HABIT,
    PLACE,
    ROLE,
    Find,
    content_words,
)
from lamina.memories import MemoryType
from lamina.text.cue_words import EMAIL, IDENTIFIER, LANGUAGES, PATH, SYSTEMS, URL, Cues
from lamina.text.dates import find_dates
from lamina.text.own_words import Asked, Sentence, asked_at


def wish(message: list[Sentence], place: int, rules: Cues) -> Find | None:
    """ "Remember that …", in any of its forms; a chore of this task is none."""
    asked = asked_at(message, place)
    if asked is None:
        return None
    kind = _kind_of(asked.text, message[place], rules)
    why = finding.reason_in(asked.text, rules)
    certain = kind is not None
    bar = _bar(asked, rules)
    return Find(kind or "project", asked.text, asked.because, ASKED, why, certain=certain, bar=bar)


def _bar(asked: Asked, rules: Cues) -> float | None:
    """How likely it must be worth keeping: nothing else is meant by "add to your notes"."""
    if asked.wish.plain:
        return 0.0
    soft = _SOFT.search(asked.wish.asking) and rules.this_time.search(asked.text)
    return _OF_THE_TASK if soft else None


# Said of the task at hand as well: "keep in mind that the beam here is fixed".
_OF_THE_TASK = 0.5
_SOFT = re.compile(r"(?i)\bin mind|\bforget|\bvergiss|\bdenk|别忘|不要忘")


def _kind_of(text: str, sentence: Sentence, rules: Cues) -> MemoryType | None:
    """Which of the four types a statement is that the user asked to keep, where its form says so."""
    if URL.search(text) or EMAIL.search(text) or _CONTACT.search(text):
        return "reference"
    if SYSTEMS.search(text) and rules.placed.search(text):
        return "reference"
    if any(hit.day >= sentence.said.date() for hit in find_dates(text, sentence.said.date())):
        return "project"
    return None


_CONTACT = re.compile(
    r"(?i)\b(?:contact|belongs to|point of contact|ansprechpartner\w*|zuständig ist|gehört)\b|负责人是|联系人|找.{1,8}要"
)


def role(sentence: Sentence, rules: Cues) -> Find | None:
    """Who the user is and what they know."""
    if not rules.role.search(sentence.plain) or _AT_WORK.search(sentence.plain):
        return None
    return Find("user", finding.without_opener(sentence.text), (sentence,), ROLE)


_AT_WORK = re.compile(
    r"(?i)\b(?:right now|at the moment|gerade|momentan|of this (?:bug|mess|commit|line|function|file|error|crash)|line \d+|error|exception)\b|正在|报错"
)


def decision(sentence: Sentence, rules: Cues) -> Find | None:
    """What was settled or is meant to be so: the code shows what is, never that it was wanted."""
    plain = sentence.plain
    if not rules.decided.search(plain) or rules.imagined.search(plain) or NAMELESS.match(plain):
        return None
    text = finding.without_opener(sentence.text)
    if UNSETTLED.search(plain) or len(content_words(text)) < 3:
        return None
    return Find("project", text, (sentence,), DECISION, finding.reason_in(text, rules))


def correction(message: list[Sentence], place: int, rules: Cues) -> Find | None:
    """ "No, we deploy with Nomad, not Kubernetes": how things are with the user, said against what the
    assistant took for true."""
    sentence = message[place]
    says_no = _SAYS_NO.match(sentence.plain)
    said_no = place > 0 and _SAYS_NO.fullmatch(f"{message[place - 1].plain} ")
    if not sentence.answers or not (says_no or said_no):
        return None
    start = says_no.end() if says_no else 0
    told = sentence.plain[start:]
    if not _WITH_US.match(told) or not _RATHER_THAN.search(told):
        return None
    if _AT_WORK.search(told) or UNSETTLED.search(told) or rules.this_time.search(told):
        return None
    if PATH.search(told) or _IN_CODE.search(told):  # a product's name may look like an identifier
        return None
    because = (sentence,) if says_no else (message[place - 1], sentence)
    text = sentence.text[start:]
    return Find("project", text, because, CORRECTED, finding.reason_in(text, rules))


_SAYS_NO = re.compile(
    r"(?i)(?:no+|nope|nah|wrong|incorrect|actually|not quite|that(?:'s| is) (?:wrong|not (?:right|true|correct|so))"
    r"|nein|nee|falsch|(?:das )?stimmt (?:so )?nicht|das ist falsch|不对|不是的?|错了|不)(?:[,.:;!–—-]+\s+|[，。！：]\s*)|actually\s"
)
_IN_CODE = re.compile(r"\w_\w|\w\(|\w\.\w|::")
_WITH_US = re.compile(
    r"(?i)we (?:all |only |always |actually )?(?:use|deploy|run|host|build|ship|release|work|keep|store|track|test|call|support|sell|bill|log|write|meet)\b"
    r"|we(?:'re| are) (?:on|with|in|using|called)\b"
    r"|(?:our (?:[\w-]+ ){1,3}|production |staging )(?:is|are|runs?|lives?|starts?|ends?|uses?|belongs?|sits?)\b(?! (?!called|named|kept|hosted)\w+(?:ing|ed)\b)"
    r"|wir (?:nutzen|verwenden|benutzen|deployen|arbeiten|bauen|hosten|testen|betreiben|sind (?:auf|bei|in)|heißen)\b"
    r"|bei uns (?:heißt|heißen|läuft|laufen|ist|sind|liegt|liegen)\b|unsere?\w* (?:[\w-]+ ){1,2}(?:ist|sind|läuft|laufen|liegt|liegen|heißt|beginnt)\b"
    r"|我们(?:这边|这里)?(?:一直|都)?(?:用|使用|部署|跑|托管|叫|是用|的.{1,12}(?:是|在|叫))"
)
_RATHER_THAN = re.compile(
    r"(?i)\s(?:(?:and |but )?not|instead of|rather than)\s\w|,\s(?:und |aber )?nicht\s\w|\s(?:und )?nicht\s(?:mit|auf|in|bei)\s|\sstatt\s|[，,]\s?(?:而)?不(?:是|用|在)"
)


UNSETTLED = re.compile(
    r"(?i)\b(?:had|were|went)\b.*\bdecided\b|\b(?:not sure|i think|i guess|maybe|perhaps|probably|might|seems?|looks like|whether|option \w{1,2}\b|yesterday|price"
    r"|loop|function|method|class|field|variable|array|index|im code|schleife|liste|feld|variable|vielleicht|wahrscheinlich|glaube|scheint|ob|gestern)\b|也许|可能|好像|是否|昨天"
)


def habit(sentence: Sentence, rules: Cues) -> Find | None:
    """How the user usually works or lives, said as such."""
    plain = sentence.plain
    if not rules.habit.search(plain) or _AT_WORK.search(plain) or UNSETTLED.search(plain):
        return None
    if PATH.search(plain) or IDENTIFIER.search(plain) or LEANS_ON.match(plain):
        return None
    return Find(
        "user",
        finding.without_opener(sentence.text),
        (sentence,),
        HABIT,
    )


# Speaks of a place or a thing that only the sentence before it names.
LEANS_ON = re.compile(
    r"(?i)(?:(?:when|while|if|since|because) (?:i'm |i am |i )?(?:there|it|that|this|they|then)\b|(?:they|he|she|that|it)(?:'s|'ve)?\b)"
    r"|.*\bi (?:\w+ly|mostly) \w+ (?:it|them|that|there)\b"
)


def date_that_matters(sentence: Sentence, rules: Cues) -> Find | None:
    """Something that happens on a day ahead, outside the code."""
    plain = sentence.plain
    if not rules.event.search(plain) or rules.not_event.search(plain):
        return None
    if PATH.search(plain) or IDENTIFIER.search(plain):
        return None
    if NAMELESS.match(plain):
        return None
    today = sentence.said.date()
    if not any(hit.day >= today for hit in find_dates(sentence.text, today)):
        return None
    text = finding.without_opener(sentence.text)
    why = finding.reason_in(text, rules)
    return Find("project", text, (sentence,), DATE, why, plain=bool(_NAMED_EVENT.match(text)))


_NAMED_EVENT = re.compile(
    r"(?i)(?:the|our|my|die|der|das|unser\w*|mein\w*)\s(?:[\w-]+\s){0,2}(?:deadline|release|launch|freeze|demo|audit|exam|defen[cs]e|go-?live|kick-?off|presentation|submission|migration|cutover"
    r"|abgabe|frist|präsentation|prüfung|abnahme|übergabe)\s(?:is|starts|begins|moved|got moved|was moved|has moved|ist|beginnt|startet|wurde)\b"
)


NAMELESS = re.compile(
    r"(?i)(?:fingers crossed,? |hopefully,? |i (?:really )?hope )?(?:this|that|it|das|es|dies)(?:'s|'ll)? "
)  # due is what, nobody will know


def place_of_things(sentence: Sentence) -> Find | None:
    """Where something is kept, outside the repository."""
    text, plain = sentence.text, sentence.plain
    system, url = SYSTEMS.search(plain), URL.search(text)
    if not (system or url) or CHORE_START.match(plain):
        return None
    labelled = _LABELLED_URL.match(text)
    if (url and _ONE_ITEM.search(url[0]) and not labelled) or TICKET.search(plain):
        return None
    if not labelled and not _placed(plain) and not _EQUATED.match(plain):
        return None
    if url and not labelled and not _LASTING_THING.search(plain):
        return None
    if not url and (SOURCE_FILE.search(plain) or PAST.search(plain)):
        return None
    return Find("reference", finding.without_opener(text), (sentence,), PLACE)


_LASTING_THING = re.compile(
    r"(?i)\b(?:docs?|documentation|dashboards?|boards?|wiki|runbooks?|trackers?|specs?|guides?|handbooks?|contract|designs?|"
    r"monitoring|manual|guidelines?|playbooks?|confluence|notion|\w*dokumentation|archives?|papers|icons|assets|recordings|minutes|templates?|slides|source of truth|\w*handbuch|\w*anleitung|tickets?|api)\b|文档|监控|面板|看板|手册|规范|设计稿|需求"
)
_LABELLED_URL = re.compile(
    r"(?i)^(?:[-*] )?(?:[\w/-]+ ){0,3}(?:[\w-]*(?:docs?|documentation|dashboards?|boards?|wiki|runbooks?|tracker|guide|handbook|monitoring|playbook|specs?|schema|swagger|openapi|designs?|portal|dokumentation|handbuch)|[^\s:：]{0,6}(?:文档|面板|看板|监控|手册))\s?[:：=]\s?https?://\S+$"
)


def _placed(plain: str) -> bool:
    """Short lines with a product's name in them hide their language."""
    return any(cues.placed.search(plain) for cues in LANGUAGES.values())


_EQUATED = re.compile(r"(?i)[a-z][\w -]{3,30} = \w")  # "bugs = linear"
TICKET = re.compile(r"\b[A-Z]{2,8}-\d+\b")
_ONE_ITEM = re.compile(
    r"(?i)/(?:issues?|pull|pulls|commit|merge_requests|browse|questions|actions/runs)/[\w-]*\d"
)
CHORE_START = re.compile(
    r"(?i)^(?:please |now |then |can you |could you |bitte )?(?:fetch|open|read|look at|check|see|visit|download|clone|go to|use|fix|implement|add|create|write|update|build|make|test|lies|öffne|prüfe|lade|schau|erstelle?|schreib\w*)\b|^(?:请|帮我)?(?:打开|看一?下|读|下载|实现|写|添加)"
)
SOURCE_FILE = re.compile(
    r"\b[\w-]+\.[a-z]{1,4}\b(?<!\.com)(?<!\.net)(?<!\.org)|\b(?:src|lib|app|tests?)/|\(\)"
)
PAST = re.compile(r"(?i)\b(?:yesterday|last week|was|were|gestern|letzte woche)\b|昨天|上周")
