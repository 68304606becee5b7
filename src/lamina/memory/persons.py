"""Whether words speak of somebody else than the user: "my colleague is a data scientist" says nothing
about who types it. Clauses are looked at one by one; a memory that names that somebody is about them
and may say so. Pure: text in, a word out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lamina.memory import wording

_PERSON = (
    r"(?:(?:team|tech|project|product) )?(?:colleague|co-?worker|boss|manager|supervisor|wife|husband|spouse"
    r"|partner|girlfriend|boyfriend|fianc[ée]e?|friend|buddy|flatmate|roommate|neighbou?r|brother|sister"
    r"|mother|father|mom|mum|dad|son|daughter|kid|cousin|uncle|aunt|teammate|mentor|intern|trainee"
    r"|student|teacher|professor|client|customer|contractor|freelancer|cto|ceo|cfo|lead|owner|designer"
    r"|developer|dev|engineer|tester|admin|analyst|architect|consultant|guy|person|man|woman"
    r"|kolleg(?:e|in)|chef(?:in)?|vorgesetzter?|frau|mann|freund(?:in)?|bruder|schwester|vater|mutter"
    r"|sohn|tochter|mitbewohner(?:in)?|nachbar(?:in)?|kund(?:e|in)|praktikant(?:in)?|azubi"
    r"|(?:team|projekt)leiter(?:in)?|collègue|patron|femme|mari|amie?|frère|sœur|colega|jef[ea]|esposa"
    r"|marido|amig[oa]|herman[oa])s?"
)
_DOES = (
    r"(?:(?:also|only|just|mostly|always|never|really|actually|auch|nur) )?"
    r"(?:is|was|are|were|works?|worked|has|have|had|likes?|prefers?|wants?|hates?|loves?|uses?|knows?|writes?"
    r"|leads?|runs?|does|speaks?|lives?|stud(?:y|ies|ied)|comes|teaches|manages|owns|joined|started"
    r"|ist|war|sind|arbeitet|hat|mag|will|möchte|nutzt|kennt|schreibt|leitet|bevorzugt|studiert|wohnt"
    r"|est|travaille|aime|préfère|es|trabaja|prefiere)\b"
)
_OWNER = r"(?:my|our|the|his|her|their|this|that|an?|one of (?:my|our|the)|meine?|unsere?|der|die|eine?|mon|ma|notre|mi|nuestr[oa])"
_KNOWN = re.compile(
    rf"{_OWNER} (?:[\w-]+ ){{0,2}}?(?P<who>{_PERSON})\b(?P<name>(?: [\w'-]+)?)(?: (?:from|in|at|on|of|over) (?:[\w-]+ ){{1,3}})? ?(?:['’]s|{_DOES})"
)
_PRONOUN = re.compile(rf"(?P<who>he|she|they|er|sie|il|elle|él|ella)(?:['’](?:s|re|ve)| {_DOES})")
_NAMED = re.compile(rf"(?P<who>[\w-]+)(?P<name>) (?=(?:is|was|ist|war) |works|arbeitet){_DOES}")
_CHINESE = re.compile(
    r"(?:我们?的?|她的?|他的?)?(?P<who>同事|老板|上司|经理|朋友|妻子|老婆|太太|丈夫|老公|哥哥|姐姐|弟弟|妹妹|爸爸|妈妈|儿子|女儿"
    r"|客户|同学|室友|实习生|老师|学生|他们?|她们?)(?P<name>[^是在]{0,4})(?:是|在|喜欢|会|用|负责|做|想)"
)
_WHO = re.compile(
    rf"(?<![\w'-])(?P<who>[\w'-]+),? (?:who|der|die) (?:{_DOES})|(?:with|from|for|by|to|and|mit|von|für) (?P<name>[\w'-]+), (?:an?|our|the|my|eine?|unsere?) "
)
_NOT_SOMEBODY = frozenset(
    """i im we it this that there here what who which whose my our you your everything nothing all name
    work job role title position nickname location timezone email age experience employer city
    language me us them him her mir uns mich dir profession background focus home office stack degree major team company
    today now ich wir das es dies hier was mein meine name beruf arbeit one someone anyone never always
    and or so because""".split()  # noqa: SIM905 - a word list
)
_SELF = re.compile(r"(?i)\b(?:i|i['’]m|i['’]ve|me|myself|ich|mir|mich|je|j['’]|moi|yo|me)\b|我")
_CLAUSE = re.compile(
    r"[;:.!?()。；，！？\n]+|,\s(?!(?:who|an?|our|the|my|der|die|eine?|unsere?)\b)|\s[–—-]\s|\b(?:and|but|while|whereas|because|und|aber|während|weil|et|mais|y|pero)\b",
    re.IGNORECASE,
)
_ABOUT_ANYBODY = re.compile(
    rf"(?i)\b(?:he|she|they|his|her|their|er|sie|{_PERSON})\b|他|她|同事|老板|朋友"
)


def speaks_of(claim: str, sentences: Iterable[str]) -> str:
    """ "" or the one whom the words are about that a claim about the user rests on."""
    stems = wording.content_stems(claim)
    own: set[str] = set()
    others: list[tuple[str, frozenset[str]]] = []
    for sentence in sentences:
        for clause in filter(str.strip, _CLAUSE.split(wording.fold(sentence))):
            who, name, said = _subject(clause.strip())
            mine = wording.content_stems(clause[: len(clause) - len(said)] if who else clause)
            own |= mine
            if who and not _names(claim, who, name):
                others.append((f"{who} {name}".strip(), wording.content_stems(said)))
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
    found = _NAMED.match(plain)
    if found and found["who"] not in _NOT_SOMEBODY and not _SELF.search(clause):
        return found["who"], "", clause[found.end() :]
    return "", "", ""


def _names(claim: str, who: str, name: str) -> bool:
    """Does the claim say whom it is about?"""
    if who in ("he", "she", "they", "er", "sie", "il", "elle", "él", "ella", "他", "她"):
        return bool(_ABOUT_ANYBODY.search(claim))
    return bool(wording.content_stems(f"{who} {name}") & wording.content_stems(claim))
