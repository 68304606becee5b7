"""The local ranker: what it finds, what it leaves out, and that its index tells no lies."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.memories import Memory
from lamina.recall import CONFIDENT, Match, chances, likeliest
from lamina.recall.rank import Document, Ranker, is_manual, tool_terms

DAY = 86_400.0
NOW = 1_800_000_000.0

MEMORIES = (
    Document(
        "feedback_transactions.md",
        "Wrap related writes",
        "Several database writes that belong together go into one transaction",
        "A sync once lost rows when the insert failed after the delete.",
        "feedback",
    ),
    Document(
        "user_role.md",
        "Who the user is",
        "Data engineer from Lisbon, prefers short answers",
        "Works with Spark and dislikes long summaries.",
        "user",
    ),
    Document(
        "reference_grafana.md",
        "Dashboards",
        "Where the latency dashboards are",
        "Grafana board 12 shows request latency for the gateway.",
        "reference",
    ),
    Document(
        "project_release.md",
        "Release freeze",
        "Merges stop on Thursday 2026-03-05 for the mobile release",
        "The mobile team cuts a branch that day.",
        "project",
    ),
)


def ranker(*documents: Document) -> Ranker:
    index = Ranker()
    for document in documents or MEMORIES:
        index.add(document)
    return index


def ids(hits: list[Match]) -> list[str]:
    return [hit.id for hit in hits]


@pytest.mark.spec("M7")
def test_the_memory_that_answers_comes_first() -> None:
    cases: list[tuple[str, str]] = [
        ("How should I delete and insert rows in the database?", "feedback_transactions.md"),
        ("Where can I see the gateway's latency?", "reference_grafana.md"),
        ("When do merges stop for the release?", "project_release.md"),
        ("What is my role?", "user_role.md"),
    ]
    for question, expected in cases:
        assert ids(ranker().search(question, now=NOW))[0] == expected


def test_a_related_word_finds_a_memory_that_shares_none_of_the_question_s_words() -> None:
    index = ranker(
        Document("a.md", body="The physician moved the surgery to Monday."),
        Document("b.md", body="The gardener planted tulips and roses."),
    )
    assert ids(index.search("doctor hospital", now=NOW))[:1] == ["a.md"]
    assert ids(index.search("flowers", now=NOW))[:1] == ["b.md"]


def test_a_word_of_like_meaning_counts_less_than_the_word_itself_and_never_twice() -> None:
    index = ranker(
        Document("own.md", body="They purchase the pump on Monday."),
        Document("like.md", body="They buy the pump on Monday."),
        Document("both.md", body="They buy, or purchase, the lamp on Sunday."),
        Document("none.md", body="They paint the pump on Monday."),
    )
    score = {hit.id: hit.parts["body"] for hit in index.search("purchase", now=NOW)}
    assert score["own.md"] > score["like.md"] > score.get("none.md", 0.0)
    assert 0.3 < score["like.md"] / score["own.md"] < 0.5
    assert score["both.md"] <= score["own.md"]


@pytest.mark.spec("M11")
def test_the_parts_of_a_score_add_up_to_it() -> None:
    hits = ranker().search("my database writes on Thursday", now=NOW)
    assert hits
    for hit in hits:
        assert math.isclose(sum(hit.parts.values()), hit.score, rel_tol=1e-5)
        assert set(hit.parts) == {
            "name",
            "description",
            "body",
            "embedding",
            "recency",
            "use",
            "type",
        }
        assert 0 < hit.confidence < 1


@pytest.mark.spec("M7")
def test_a_question_that_shares_nothing_recalls_nothing() -> None:
    index = ranker()
    assert index.search("zxqv blorp", now=NOW) == []
    assert index.search("Did Brunhilde sell her accordion?", now=NOW, at_least=CONFIDENT) == []


def test_a_good_match_passes_the_confidence_line() -> None:
    hits = ranker().search("which database writes go into one transaction", now=NOW)
    assert hits[0].confidence >= CONFIDENT


def test_of_two_equal_memories_the_fresher_the_more_used_and_the_fitting_type_win() -> None:
    text = "deploy with the blue script"
    fresh = ranker(
        Document("a", body=text, mtime=NOW - 400 * DAY), Document("b", body=text, mtime=NOW)
    )
    assert ids(fresh.search("deploy script", now=NOW)) == ["b", "a"]
    used = ranker(Document("a", body=text), Document("b", body=text, uses=9))
    assert ids(used.search("deploy script", now=NOW)) == ["b", "a"]
    used.used("a", 100)
    assert ids(used.search("deploy script", now=NOW)) == ["a", "b"]
    typed = ranker(Document("a", body=text, type="project"), Document("b", body=text, type="user"))
    assert ids(typed.search("my deploy script", now=NOW)) == ["b", "a"]
    assert ids(typed.search("deploy script", now=NOW)) == ["a", "b"]


def test_freshness_and_use_never_lift_a_memory_that_does_not_fit() -> None:
    index = ranker(
        Document("fits", body="the quarterly budget for travel", mtime=0),
        Document("fresh", body="a note on shell aliases", mtime=NOW, uses=10_000, type="user"),
    )
    assert ids(index.search("travel budget of my quarter", now=NOW))[0] == "fits"


@pytest.mark.spec("M7")
def test_manuals_of_tools_in_use_are_left_out_and_warnings_about_them_stay() -> None:
    index = ranker(
        Document(
            "m.md", "Playwright usage", "How to use Playwright, its commands", "", "reference"
        ),
        Document("w.md", "Playwright pitfalls", "Playwright fails on WebKit here", "", "reference"),
        Document("f.md", "Playwright guide by the user", "How to use Playwright", "", "feedback"),
    )
    question = "write a playwright check"
    assert set(ids(index.search(question, now=NOW))) == {"m.md", "w.md", "f.md"}
    assert set(ids(index.search(question, now=NOW, tools_in_use=["Playwright"]))) == {
        "w.md",
        "f.md",
    }
    served = ["mcp__playwright__browser_click"]
    assert set(ids(index.search(question, now=NOW, tools_in_use=served))) == {"w.md", "f.md"}
    assert set(ids(index.search(question, now=NOW, tools_in_use=["Grep"]))) == {
        "m.md",
        "w.md",
        "f.md",
    }


def test_what_is_excluded_makes_room_for_the_next() -> None:
    many = [Document(f"{n:03}.md", body="shared topic") for n in range(200)]
    index = ranker(*many)
    shown = [f"{n:03}.md" for n in range(190)]
    assert ids(index.search("shared topic", 5, now=NOW, exclude=shown)) == [
        f"{n}.md" for n in range(190, 195)
    ]


def test_other_scripts_and_spellings_are_found() -> None:
    cases: list[tuple[str, str]] = [
        ("数据库在哪里", "zh.md"),
        ("发布冻结是什么时候", "zh2.md"),
        ("デプロイの手順", "ja.md"),
        ("テストは何で書く", "ja2.md"),
        ("résumé", "fr.md"),
        ("RESUME", "fr.md"),
        ("ｄａｔａｂａｓｅ", "en.md"),
    ]
    for question, expected in cases:
        index = ranker(
            Document("zh.md", body="我们的数据库运行在上海的服务器。"),
            Document("zh2.md", body="移动版发布之前，周四开始冻结代码。"),
            Document("ja.md", body="本番へのデプロイは金曜日を避ける。手順は社内文書にある。"),
            Document("ja2.md", body="単体テストは必ずpytestで書くこと。"),
            Document("fr.md", body="Le résumé hebdomadaire part le lundi."),
            Document("en.md", body="The database lives in Oslo."),
        )
        assert ids(index.search(question, now=NOW))[0] == expected


def test_identifiers_are_found_whole_and_by_their_parts() -> None:
    index = ranker(
        Document("a.md", body="call resetKeyCache() after stubbing the environment"),
        Document("b.md", body="the table user_login_events grows fast"),
        Document("c.md", body="nothing to see"),
    )
    assert ids(index.search("resetKeyCache", now=NOW))[0] == "a.md"
    assert ids(index.search("reset the cache", now=NOW))[0] == "a.md"
    assert ids(index.search("login events", now=NOW))[0] == "b.md"


def test_a_memory_is_taken_as_the_store_gives_it() -> None:
    memory = Memory("team/x.md", "Style", "Tabs, not spaces", "feedback", "Use tabs.", mtime=5.0)
    assert Document.of(memory, uses=3) == Document(
        "team/x.md", "Style", "Tabs, not spaces", "Use tabs.", "feedback", 5.0, 3
    )


def test_empty_and_garbage_questions_find_nothing() -> None:
    cases: list[str] = ["", "   ", "?!…", "the of and", "\x00\ud800", "a" * 100_000]
    for question in cases:
        assert ranker().search(question, now=NOW) == []
        assert Ranker().search("database", now=NOW) == []


def test_hostile_sizes_are_bounded() -> None:
    index = ranker(
        Document("huge.md", "n" * 10_000, "d " * 50_000, "database " * 400_000),
        Document("odd.md", body="\x00\ud800 database \U0001f600", mtime=-1e18, uses=-5),
        Document("future.md", body="database", mtime=1e18, uses=10**9),
        Document("broken.md", body="database", mtime=math.nan),
        Document("never.md", body="database", mtime=-math.inf),
    )
    found = index.search("database " * 50_000, 10, now=NOW)
    assert set(ids(found)) == {"huge.md", "odd.md", "future.md", "broken.md", "never.md"}
    assert all(math.isfinite(hit.score) for hit in found)


words = st.sampled_from(
    ["alpha", "beta", "gamma", "数据", "库", "database", "databases", "running", "Oslo", "x_y"]
)
texts = st.lists(words, max_size=8).map(" ".join)
documents = st.builds(
    Document,
    id=st.sampled_from([f"{letter}.md" for letter in "abcdefgh"]),
    name=texts,
    description=texts,
    body=texts,
    type=st.sampled_from([None, "user", "feedback"]),
    mtime=st.floats(0, NOW),
    uses=st.integers(0, 50),
)
steps = st.lists(
    st.one_of(documents, st.sampled_from([f"{c}.md" for c in "abcdefgh"])), max_size=25
)


@examples(60)
@given(
    steps=steps,
    question=texts,
    k=st.integers(0, 6),
    exclude=st.sets(st.sampled_from(["a.md", "b.md"])),
)
def test_an_index_that_grew_step_by_step_answers_like_one_built_anew(
    steps: list[Document | str], question: str, k: int, exclude: set[str]
) -> None:
    grown, left = Ranker(), dict[str, Document]()
    for step in steps:
        if isinstance(step, str):
            assert grown.remove(step) == (step in left)
            left.pop(step, None)
        else:
            grown.add(step)
            left[step.id] = step
    built = ranker(*sorted(left.values(), key=lambda doc: doc.id)) if left else Ranker()
    hits = grown.search(question, k, now=NOW, exclude=exclude)
    assert hits == built.search(question, k, now=NOW, exclude=exclude)
    assert hits == grown.search(question, k, now=NOW, exclude=exclude)
    assert len(hits) <= k
    assert len(set(ids(hits))) == len(hits)
    assert set(ids(hits)) <= set(left) - exclude
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_removing_many_sweeps_the_index_and_forgets_them() -> None:
    index = ranker(*(Document(f"{n}.md", body=f"topic word{n}") for n in range(300)))
    for n in range(0, 300, 2):
        index.remove(f"{n}.md")
    kept = ranker(*(Document(f"{n}.md", body=f"topic word{n}") for n in range(1, 300, 2)))
    assert index.search("topic word8", 500, now=NOW) == kept.search("topic word8", 500, now=NOW)
    assert index.search("word9", now=NOW)[0].id == "9.md"


def test_an_index_that_is_saved_between_two_searches_finds_the_same() -> None:
    index = ranker(*(Document(f"{n}.md", body=f"topic word{n} " + "more " * n) for n in range(9)))
    index.remove("0.md")
    hits = index.search("topic word8", 9, now=NOW)
    index.to_state()
    assert index.search("topic word8", 9, now=NOW) == hits != []


def test_a_manual_is_told_from_a_warning_and_from_other_tools() -> None:
    grep = tool_terms(["Grep"])
    assert is_manual("grep usage", "options of grep", "reference", grep)
    assert not is_manual("grep usage", "grep fails on links", "reference", grep)
    assert not is_manual("sed usage", "options of sed", "reference", grep)
    assert not is_manual("grep at work", "the user likes grep", "reference", grep)
    assert not is_manual("grep usage", "how to use grep", "feedback", grep)
    assert not is_manual("grep usage", "options of grep", "reference", tool_terms(["", "__"]))


def match_of(score: float, confidence: float = 0.95) -> Match:
    return Match("a.md", score, {}, confidence)


def test_what_people_are_shown_falls_with_rivals_and_with_doubt() -> None:
    clear, close = (chances([match_of(10), match_of(next_)]) for next_ in (2, 9.8))
    assert clear[0] > 0.8
    assert 0.5 > close[0] > close[1] > clear[1]
    assert chances([match_of(10, 0.3), match_of(2)])[0] < clear[0]
    assert chances([match_of(10, 0.3)]) == [0.3]
    assert chances([]) == []


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1)), max_size=6))
def test_a_chance_is_a_share_whatever_was_found(found: list[tuple[float, float]]) -> None:
    matches = [match_of(*one) for one in sorted(found, reverse=True)]
    assert all(0 <= chance <= 1 for chance in chances(matches))
    shown = [chance for _, _, chance in likeliest([(one, "") for one in matches])]
    assert shown == sorted(chances(matches), reverse=True)


def test_a_last_word_that_is_half_typed_becomes_the_word_that_most_memories_hold() -> None:
    ranker = Ranker()
    for number, text in enumerate(["deploy", "deploy", "depth", "billing"]):
        ranker.add(Document(f"{number}.md", body=text))
    assert ranker.finished("when to dep") == "when to deploy"
    assert ranker.finished("billi") == "bill"
    for known in ("depth", "dep of it", "x", "", "zebra", "when to "):
        assert ranker.finished(known) == known
    ranker.add(Document("new.md", body="zebras"))
    assert ranker.finished("zeb") == "zebra"


@pytest.mark.parametrize(
    "word", ["database", "release", "normalise", "französische", "Überweisung"]
)
def test_every_beginning_of_a_word_finds_it_whatever_its_stem_and_its_accents(word: str) -> None:
    ranker = Ranker()
    ranker.add(Document("wanted.md", body=word))
    ranker.add(Document("other.md", body="something else"))
    for end in range(3, len(word) + 1):
        [found] = ranker.search(ranker.finished(word[:end]), 1, now=0)
        assert found.id == "wanted.md"


def test_a_small_word_behind_others_is_finished() -> None:
    ranker = Ranker()
    ranker.add(Document("0.md", body="the index of the database"))
    assert ranker.finished("sign in") == "sign in"
    assert ranker.finished("in") == "index"
