"""What a regular expression's hits must hold: no hit is ever passed over, and most other text is."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lamina.recall.expressions import Way, plain_of

PIECES = (
    r"abc", r"a", r"b.c", r"x*", r"y?", r"(ab)", r"(ab)?", r"a{0,2}", r"b+", r"[abc]", r"|", r"\.",
    r"\d", r"(?:ab)", r"(a|b)", r"^", r"$", r"\x61", r".", r"_", r"{", r"-", r"(?i:A)", r"\bab", "K",
    "s", "数据", "é", "É", r"(?!b)", r"(?<=a)", r"[]|]", r"\\", r"\(", r"a|", "(?#(|)", r"a{2}?", r"x++",
)  # fmt: skip
patterns = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
words = st.text(alphabet="abcxyABKks._-1 {|(\\\u212a\u017fıİ数据éÉ", max_size=14)


@given(patterns, words, st.sampled_from(["", "-i", "(?i)"]), st.booleans())
@example("ab*c", "ac", "", False)
@example("ks", "\u212a\u017f", "-i", True)
@example("ks", "\u212a\u017f", "(?i)", False)
@example("数据", "数据", "-i", True)
@example("É", "é", "-i", True)
def test_no_hit_is_passed_over(pattern: str, said: str, case: str, by_number: bool) -> None:
    try:
        prefix = case if case == "(?i)" else ""
        wanted = re.compile(prefix + pattern, re.IGNORECASE if case == "-i" else 0)
    except re.error:
        return
    if wanted.search(said):
        line = json.dumps({"text": said}, ensure_ascii=by_number).encode()
        assert plain_of(wanted).may_be_in(line)


@pytest.mark.parametrize(
    ("pattern", "ways"),
    [
        ("connection refused", [("connection", "refused")]),
        (r"Timeout\.Error|Refused", [("Timeout.Error",), ("Refused",)]),
        ("(?i)Timeout", [("timeout",)]),
        (r"colou?r", [("colo", "r")]),
        (r"(?:read|write)_only", [("_only",)]),
        ("a|", []),
        (r"\x41bc", []),
        ("(?x) a b", []),
        (".*", []),
    ],
)
def test_the_plain_parts_of_each_branch_are_found(
    pattern: str, ways: list[tuple[str, ...]]
) -> None:
    found = [
        tuple(part.decode() for part in way.parts) for way in plain_of(re.compile(pattern)).ways
    ]
    assert found == ways


def test_chinese_is_looked_for_as_it_is_and_by_number() -> None:
    plain = plain_of(re.compile("数据库"))
    assert plain.ways == (
        Way(("数据库".encode(),), lowered=False),
        Way((rb"\u6570\u636e\u5e93",), lowered=True),
    )
    assert plain.may_be_in(rb'{"text":"\u6570\u636E\u5E93"}')
    assert not plain.may_be_in('{"text":"数据"}'.encode())


def test_letters_of_another_case_elsewhere_are_known_by_number_too() -> None:
    kelvin = plain_of(re.compile("kelvin", re.IGNORECASE))
    assert kelvin.may_be_in(rb'"\u212Aelvin"')
    assert kelvin.may_be_in("\u212aelvin".encode())
    assert not kelvin.may_be_in(rb'"\u2126elvin"')
