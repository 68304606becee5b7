"""What in a sentence is not its speaker's word: quotations, and what is handed over to be worked on.
Pure.
"""

from __future__ import annotations

import re

QUOTE = "\x01"  # stands for each character of a quotation

_QUOTES = re.compile(
    r"`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»|»[^«\n]*«|「[^」\n]*」|『[^』\n]*』|《[^》\n]*》"
    r"|(?<![\w])'[^'\n]{2,}?(?:'\w[^'\n]*?)*'(?!\w)|(?<!\w)‘[^’\n]*’(?!\w)"
)
_MATERIAL = re.compile(
    r"\b(?:translate|rephrase|reword|rewrite|proofread|paraphrase|summari[sz]e|classify|grammar|spell|"
    r"sa(?:ys?|id|ying)|wr(?:ote|itten|ites?(?! (?:(?:this|that|it) )?down\b))|reads?|asked|quote|implement|create|generate|build|"
    r"draft|blog|essay|story|ticket|prompt|example|label|text|mail|e-?mail|letter|comment|error|output|log|"
    r"übersetz\w*|formulier\w*|schreib\w*+(?! dir\b)|sagte?|meinte?|steht|lautet|korrigier\w*|fasse?|beispiel|fehler\w*)\b"
    r"|翻译|改写|润色|总结一下|写着|说|写道|写一|例如|报错|日志",
    re.IGNORECASE,
)


def without_quotations(sentence: str) -> str:
    """Same length, with what stands in quotation marks or backticks blanked out."""
    return _QUOTES.sub(lambda match: QUOTE * len(match[0]), sentence)


def handed_over_in(plain: str) -> str | None:
    """What follows "translate:" or "he said:", which is material and not meant; None if nothing does."""
    colon = _COLON.search(plain)
    return plain[colon.end() :] if colon and _MATERIAL.search(plain, 0, colon.start()) else None


_COLON = re.compile(r":(?=\s|$|\x01)|：")
