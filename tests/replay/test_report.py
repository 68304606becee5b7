"""The HTML report is one file that shows everything, loads nothing and trusts nobody."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from lamina.cache.spend import money_text
from lamina.messages import Usage
from lamina.replay.charts import span_text, tokens_text
from lamina.replay.readers import read_recording
from lamina.replay.recording import SkippedPart
from lamina.replay.report import render_report
from lamina.replay.results import (
    Action,
    OwnCall,
    PolicyResult,
    ReplayResult,
    RequestFigures,
    Reread,
    result_of,
)
from lamina.replay.run import NonePolicy, replay

pytestmark = pytest.mark.spec("I4")

EVIL = "<script>alert('x')</script>\"'&</title></svg>\ud800"


def figures(count: int, size: int = 1000, **more: object) -> list[RequestFigures]:
    return [
        RequestFigures(
            1_700_000_000 + 40.0 * n,
            size * (n + 1),
            Usage(5, 40, size * n, size - 5),
            0.01 * n,
            **more,  # type: ignore[arg-type]
        )
        for n in range(count)
    ]


def result(
    policies: list[PolicyResult], file: str = "a.jsonl", skipped: list[SkippedPart] | None = None
) -> ReplayResult:
    requests = len(policies[0].requests) if policies else 0
    return ReplayResult(file, "made", requests, skipped or [], Usage(1, 2, 3, 4), policies)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def parsed(page: str) -> _Tags:
    parser = _Tags()
    parser.feed(page)
    return parser


def svgs(page: str) -> list[ET.Element]:
    return [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_everything_that_is_shown_is_escaped() -> None:
    hostile = figures(
        3,
        thread=EVIL,
        actions=[Action(EVIL, EVIL, 10)],
        rereads=[Reread(EVIL, EVIL, 5)],
        calls=[OwnCall(EVIL, EVIL, Usage(1))],
    )
    policies = [PolicyResult(name, 9000, hostile, [EVIL]) for name in ("none", EVIL, "other")]
    bad = result(policies, file=f"/x/{EVIL}", skipped=[SkippedPart(EVIL, EVIL)])
    page = render_report([bad, bad], title=EVIL)
    tags = parsed(page).tags
    assert not [tag for tag, _ in tags if tag == "script"]
    assert not [name for _, names in tags for name in names if name.startswith("on")]
    assert "alert" in parsed(page).words
    assert len(svgs(page)) == 10  # all well-formed still


def test_characters_that_take_effect_unseen_are_not_passed_on() -> None:
    words = "a\x1b[31mb\x00c\u202ed\x9be"
    hostile = figures(2, actions=[Action(words, words, 10)], rereads=[Reread("quote", words, 5)])
    page = render_report([result([PolicyResult(words, 9000, hostile)], file=words)])
    assert not set(page) & set("\x1b\x00\u202e\x9b")
    assert "a\ufffd[31mb\ufffdc\ufffdd\ufffde" in parsed(page).words


def test_the_page_says_what_its_policies_do() -> None:
    page = render_report([result([PolicyResult(name, 9000, figures(2)) for name in ("none", "x")])])
    assert "put through none (everything is sent), x; costed" in parsed(page).words


def test_the_page_needs_nothing_from_outside() -> None:
    page = render_report([result([PolicyResult("none", 9000, figures(4))])])
    assert "default-src 'none'" in page
    for tag, names in parsed(page).tags:
        assert tag not in {"script", "link", "img", "iframe", "object"}
        assert not {"src", "srcset", "data"} & names.keys()
        assert names.get("href", "#").startswith("#")  # type: ignore[union-attr]
    assert "url(" not in page
    assert "@import" not in page


def test_policies_actions_window_and_rereads_are_drawn() -> None:
    acting = figures(6)
    acting[3] = RequestFigures(
        acting[3].time, 900, acting[3].usage, 0.5, "", [Action("microcompact", "cleared 4", 1500)],
        [Reread("file", "/app/a.py", 300)],
    )  # fmt: skip
    policies = [PolicyResult("none", 5500, figures(6)), PolicyResult("lamina", 5500, acting)]
    page = render_report([result(policies)])
    context, _, _, money = svgs(page)
    titles = [element.text or "" for element in context.iter("title")]
    assert any("cleared 4" in title and "microcompaction" in title for title in titles)
    assert any("file /app/a.py" in title for title in titles)
    assert len([e for e in context.iter("polyline") if "curve" in e.attrib["class"]]) == 2
    assert any("window" in e.attrib.get("class", "") for e in context.iter("line"))
    words = parsed(page).words
    assert "over the window 1 times" in words
    assert "lamina $0.62" in " ".join(money.itertext())
    assert "1 re-read charged (300 tokens)" in words


def test_heights_of_the_stack_are_in_proportion() -> None:
    usage = Usage(input=250, cache_read=500, cache_write=250)
    one = [RequestFigures(0, 1000, usage, 0.1), RequestFigures(1, 1000, usage, 0.1)]
    page = render_report([result([PolicyResult("none", 9000, one)])])
    heights: dict[str, float] = {}
    for group in svgs(page)[1].iter("g"):
        for rect in group.iter("rect"):
            heights[rect.attrib["class"]] = float(rect.attrib["height"])
    assert heights["read"] == pytest.approx(2 * heights["write"], abs=0.02)
    assert heights["write"] == pytest.approx(heights["miss"], abs=0.02)


@pytest.mark.parametrize("many", [2, 6])
def test_names_at_the_ends_of_equal_lines_neither_overlap_nor_leave_the_drawing(many: int) -> None:
    policies = [PolicyResult(f"policy {n}", 7_000, figures(7)) for n in range(many)]
    context, *_, money = svgs(render_report([result(policies)]))
    for drawing in (context, money):
        height = float(drawing.attrib["viewBox"].split()[3])
        places = sorted(
            float(element.attrib["y"])
            for element in drawing.iter("text")
            if (element.text or "").startswith("policy")
        )
        assert len(places) == many
        assert places[0] >= 10
        assert places[-1] <= height
        assert all(after - before >= 14.9 for before, after in pairwise(places))


def test_what_costs_as_much_is_neither_praised_nor_blamed() -> None:
    policies = [PolicyResult(name, 9_000, figures(4)) for name in ("none", "other")]
    page = render_report([result(policies)])
    assert '<small class="same">±0.0%</small>' in page


def test_narrow_screens_are_told_the_names_of_lines_and_rows() -> None:
    acting = figures(3, actions=[Action("microcompact", "cleared 4", 1500)])
    policies = [PolicyResult("none", 9_000, figures(3)), PolicyResult("lamina", 9_000, acting)]
    page = render_report([result(policies)])
    legends = re.findall(r'<p class="legend[^>]*>(.*?)</p>', page)
    told = [re.sub(r"<[^>]+>", " ", legend).split() for legend in legends]
    assert ["none", "lamina"] in told
    assert ["L2", "microcompaction"] in told
    assert any(words[0] == "lamina" and "written" in words for words in told)


def test_thousands_of_requests_stay_a_small_file() -> None:
    policies = [PolicyResult(name, 200_000, figures(6000, 20)) for name in ("none", "lamina")]
    assert len(render_report([result(policies)])) < 900_000


@pytest.mark.parametrize("count", [0, 1, 2])
def test_tiny_results_are_drawn(count: int) -> None:
    page = render_report([result([PolicyResult("none", 100, figures(count))])])
    assert len(svgs(page)) == (3 if count else 0)
    assert render_report([result([])])
    nothing = [RequestFigures(0, 0, Usage(), 0.0)]
    assert render_report([result([PolicyResult("none", 100, nothing)])])


@pytest.mark.parametrize(("seconds", "drawn"), [(299, 0), (301, 1)])
def test_a_pause_longer_than_a_short_lived_cache_lives_is_drawn(seconds: int, drawn: int) -> None:
    first, second = figures(2)
    late = replace(second, time=first.time + seconds)
    page = render_report([result([PolicyResult("none", 100, [first, late])])])
    assert page.count("nothing sent for 5 min") == drawn


def test_the_largest_of_many_requests_drawn_together_is_seen() -> None:
    flat = [RequestFigures(n, 1000, Usage(1000), 0.01) for n in range(3000)]
    flat[1501] = replace(flat[1501], context=9000)
    page = render_report([result([PolicyResult("none", 10**9, flat)])])
    context = re.findall(r'<polyline class="curve p0" points="([^"]*)"', page)[0]
    heights = sorted({float(point.split(",")[1]) for point in context.split()})
    assert len(heights) == 2
    assert heights[1] - heights[0] > 150


def test_one_percent_is_told() -> None:
    spent = [PolicyResult("none", 100, [RequestFigures(0, 1, Usage(1), 1.0)])]
    for name, money in (("less", 0.99), ("more", 1.01)):
        spent.append(PolicyResult(name, 100, [RequestFigures(0, 1, Usage(1), money)]))
    page = render_report([result(spent)])
    assert '<small class="less">-1.0%</small>' in page
    assert '<small class="more">+1.0%</small>' in page


def test_one_request_is_a_line_that_can_be_seen() -> None:
    page = render_report([result([PolicyResult("none", 100, figures(1))])])
    drawn = re.findall(r'<polyline class="curve p0" points="([^"]*)"', page)
    assert len(drawn) == 2
    for points in drawn:
        left, right = (float(point.split(",")[0]) for point in points.split())
        assert right - left > 10


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 300])
def test_no_number_of_a_request_is_written_twice_at_its_place(count: int) -> None:
    page = render_report([result([PolicyResult("none", 100, figures(count))])])
    for svg in re.findall(r"<svg.*?</svg>", page):
        ticks = re.findall(r'<text class="tick" x="([\d.]+)" y="[\d.]+" text-anchor="middle">', svg)
        assert ticks
        assert len(ticks) == len(set(ticks))


def test_several_files_get_an_overview_that_links_to_each() -> None:
    files = [result([PolicyResult("none", 900, figures(3))], file=f"/d/{n}.jsonl") for n in "ab"]
    page = render_report(files)
    tags = parsed(page).tags
    assert [names["href"] for tag, names in tags if tag == "a"] == ["#file0", "#file1"]
    assert {names.get("id") for tag, names in tags if tag == "section"} == {"file0", "file1"}
    assert "2 recordings, 6 requests" in parsed(page).words


def test_figures_read_well() -> None:
    assert [tokens_text(v) for v in (0, 999, 1000, 12_340, 154_700, 999_600, 1_250_000, 16_300_000)] == [
        "0", "999", "1k", "12.3k", "155k", "1M", "1.25M", "16.3M",
    ]  # fmt: skip
    assert [span_text(s) for s in (4, 61, 3600, 3661, 90_000)] == [
        "4 s", "1 min", "1 h", "1 h 1 min", "1 d 1 h",
    ]  # fmt: skip
    assert [money_text(v) for v in (0, 0.00123, 1, 1234.5)] == [
        "$0.00", "$0.0012", "$1.00", "$1,234.50",
    ]  # fmt: skip


def test_a_real_session_is_reported(real_data: Path) -> None:
    path = min((real_data / "claude-code-sessions").glob("*.jsonl"))
    recording = read_recording(path)
    page = render_report([result_of(recording, [replay(recording, NonePolicy())])])
    assert len(svgs(page)) == 3
    assert path.name in page
