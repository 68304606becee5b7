"""The dream without a model: what it merges, drops, rewrites and repairs, and that it loses nothing."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.local.consolidator import ConsolidationPlan, consolidate
from lamina.local.working_set import WorkingSet
from lamina.memories import Memory, MemoryType
from lamina.memory.index import LOADED_BYTES, LOADED_LINES, pointers_of
from lamina.memory.topics import read_topic
from lamina.text.claims import declares_over, judge, statements
from lamina.text.wording import content_stems, hard_tokens

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def memory(path: str, body: str, *, at: float = 1.0, kind: MemoryType = "project", **extra: str) -> Memory:  # fmt: skip
    return Memory(path, path.removesuffix(".md"), body.partition("\n")[0][:150], kind, body + "\n", extra, mtime=at)  # fmt: skip


def dream(*memories: Memory, index: str = "", **more: object) -> ConsolidationPlan:
    return consolidate(memories, index=index, now=NOW, **more)  # pyright: ignore[reportArgumentType]


def again(plan: ConsolidationPlan, **more: object) -> ConsolidationPlan:
    return consolidate(plan.memories, index=plan.index, now=NOW, **more)  # pyright: ignore[reportArgumentType]


# --- near-duplicates ---


def test_copies_become_one_whatever_they_compare() -> None:
    text = "The corpus demo decodes end to end, and nobody reads it by hand any more."
    plan = dream(*(memory(f"copy_{number}.md", text) for number in range(4)))
    assert [(one.into, len(one.absorbed)) for one in plan.merges] == [("copy_0.md", 3)]
    assert again(plan).empty


@pytest.mark.spec("L6.6")
def test_what_says_the_same_becomes_one_and_keeps_the_extra_fact() -> None:
    one = memory("deploy.md", "We deploy the warehouse service from the release branch.")
    two = memory("deploying.md", "The warehouse service: we deploy it from the release branch.\n\nMarta signs off.")  # fmt: skip
    plan = dream(one, two, memory("other.md", "Invoices are rounded up."))
    assert [(merge.into, merge.absorbed) for merge in plan.merges] == [("deploying.md", ("deploy.md",))]  # fmt: skip
    assert "Marta signs off" in plan.merges[0].after.body
    assert again(plan).empty


@pytest.mark.spec("L6.6")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Related: [[a]], [[b]].", "Related: [[c]]."),
        ("api: see server api.", "under: see server under."),
    ],
)
def test_what_says_little_is_merged_only_if_it_says_it_in_the_same_words(
    one: str, other: str
) -> None:
    assert not dream(memory("a.md", one), memory("b.md", other)).merges


def test_the_memory_that_is_used_is_the_one_that_stays() -> None:
    one = memory("a.md", "Always run the linter before a commit.", kind="feedback")
    two = memory("b.md", "Run the linter always before a commit.", kind="feedback")
    assert dream(one, two, uses={"b.md": 3}).merges[0].into == "b.md"


def test_a_reworded_rule_with_the_opposite_sense_is_never_merged() -> None:
    one = memory("a.md", "Use the shared fixtures in every integration test of the shop.", at=5)
    two = memory("b.md", "Do not use the shared fixtures in any unit test of the shop.", at=5)
    assert not dream(one, two).merges


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Use the shared fixtures in shop tests.", "Never use the shared fixtures in shop tests."),
        ("Der Laden nimmt die Karte von Kim an.", "Der Laden nimmt die Karte von Kim nicht an."),
    ],
)
def test_what_differs_by_a_no_alone_is_never_merged(one: str, two: str) -> None:
    more = " Kim wrote it on the board beside the door."
    assert not dream(memory("a.md", one + more, at=5), memory("b.md", two + more, at=5)).merges


@pytest.mark.spec("L6.6")
def test_a_merge_keeps_code_and_the_later_day_and_mixes_no_origins() -> None:
    same = "The release of the shop is built by the script below."
    one = memory("a.md", f"{same}\n\n```sh\nmake release\n```", said="2026-01-05")
    two = memory("b.md", f"{same}\n\n```sh\nmake sign\n```", said="2026-02-05")
    [merge] = dream(one, two).merges
    assert "make release" in merge.after.body
    assert "make sign" in merge.after.body
    assert merge.after.extra["said"] == "2026-02-05"
    assert not dream(one, two, labels={"b.md": " (source: tool)"}).merges


@pytest.mark.spec("L6.6")
def test_what_was_replaced_leaves_the_description_too() -> None:
    old = memory("a.md", "The port is 8080.\n\nKim owns the gate.", at=1.0)
    new = memory("b.md", "The port is 9090.", at=9.0)
    [rewrite] = dream(old, new).rewrites
    assert rewrite.after.body == "Kim owns the gate.\n"
    assert rewrite.after.description == "Kim owns the gate."


@pytest.mark.spec("L6.6")
def test_dates_in_code_stay_as_they_are() -> None:
    code = "Run `at tomorrow` for it.\n\n```\nremind tomorrow\n```"
    assert not dream(memory("a.md", code, said="2026-05-27")).rewrites


@pytest.mark.spec("M4", "L5.6")
def test_a_line_without_its_source_gets_it_back() -> None:
    one = memory("a.md", "The gate is blue.")
    plan = dream(one, index="- [a](a.md) — The gate is blue.\n", labels={"a.md": " (source: tool)"})
    assert plan.index == "- [a](a.md) — The gate is blue. (source: tool)\n"


def test_a_note_that_a_longer_one_repeats_goes_into_it() -> None:
    short = memory("short.md", "Marta signs the release.")
    plan = dream(short, memory("long.md", "Marta signs the release on paper.\n\nOrders close at noon.\n\nInvoices follow in May."))  # fmt: skip
    assert [merge.absorbed for merge in plan.merges] == [("short.md",)]
    assert again(plan).empty


def test_parallel_facts_with_other_numbers_stay_apart() -> None:
    one = memory("a.md", "Worker one of the billing cluster listens on port 8081 behind the proxy.")
    two = memory("b.md", "Worker two of the billing cluster listens on port 8082 behind the proxy.")
    plan = dream(one, two)
    assert len(plan.memories) == 2


# --- contradictions ---


@pytest.mark.spec("L6.6")
@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The staging port is 8080.", "The staging port is 9090."),
        ("The release day is Tuesday.", "The release day is Thursday."),
        ("The wiki is at https://a.example/x.", "The wiki is at https://b.example/y."),
        ("The build tool is Bazel.", "The build tool is Gradle."),
        ("We deploy on Fridays.", "We no longer deploy on Fridays."),
        ("Use tabs in Makefiles.", "Never use tabs in Makefiles."),
        ("Der Port der Testumgebung ist 8080.", "Der Port der Testumgebung ist 9090."),
    ],
)
def test_the_later_word_on_the_same_subject_replaces_the_earlier(earlier: str, later: str) -> None:
    plan = dream(memory("old.md", earlier, at=1), memory("new.md", later, at=2))
    assert [(drop.path, drop.because) for drop in plan.drops] == [("old.md", "new.md")]
    assert again(plan).empty


@pytest.mark.spec("L6.6")
@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The service uses Postgres.", "The service uses Redis."),
        ("The user prefers tea.", "The user prefers coffee."),
        ("The API is slow.", "The API is documented."),
    ],
)
def test_what_can_both_be_true_is_never_dropped(earlier: str, later: str) -> None:
    plan = dream(memory("a.md", earlier, at=1), memory("b.md", later, at=2))
    assert not plan.drops
    assert len(plan.memories) == 2


@pytest.mark.spec("L6.6")
def test_only_the_replaced_statement_leaves_a_memory_with_more_to_say() -> None:
    old = memory("old.md", "The staging port is 8080. Logs are kept for a week.", at=1)
    plan = dream(old, memory("new.md", "The staging port is 9090.", at=2))
    assert not plan.drops
    assert plan.rewrites[0].after.body == "Logs are kept for a week.\n"


def test_of_two_with_the_same_age_neither_wins_and_both_are_reported() -> None:
    plan = dream(memory("a.md", "The port is 1."), memory("b.md", "The port is 2."))
    assert not plan.drops
    assert plan.doubtful[0].paths == ("a.md", "b.md")


@pytest.mark.spec("L5.6")
def test_a_memory_of_foreign_origin_replaces_and_takes_in_nothing_of_the_users() -> None:
    own = memory("own.md", "The staging port is 8080.", at=1)
    read = memory("read.md", "The staging port is 9090.", at=2)
    plan = dream(own, read, labels={"read.md": " (from a tool)"})
    assert not plan.drops
    assert plan.doubtful
    assert "(from a tool)" in plan.index


def test_pinned_and_team_memories_are_never_changed() -> None:
    pinned = memory("old.md", "The staging port is 8080.", at=1, pinned="true")
    team = memory("team/old.md", "The staging port is 7070.", at=1)
    plan = dream(pinned, team, memory("new.md", "The staging port is 9090.", at=2))
    assert {kept.path for kept in plan.memories} == {"old.md", "team/old.md", "new.md"}
    assert pinned in plan.memories
    assert team in plan.memories


# --- dates ---


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("bucket 41 of the region north", "bucket 57 of the region north"),
        ("`north_archive` of the region", "`south_archive` of the region"),
    ],
)
def test_facts_alike_in_all_but_their_numbers_or_names_stay_two(one: str, two: str) -> None:
    long = "Marta lets the nightly export of the warehouse service write its files to "
    plan = dream(memory("a.md", f"{long}{one}."), memory("b.md", f"{long}{two}."))
    assert not plan.merges
    assert not plan.drops


def test_a_team_memory_neither_replaces_nor_is_doubted() -> None:
    own = memory("port.md", "The staging port is 8080.", at=1)
    team = memory("team/port.md", "The staging port is 9090.", at=9)
    assert team.team
    plan = dream(own, team)
    assert (plan.drops, plan.rewrites, plan.doubtful) == ((), (), ())


def test_what_is_over_ends_only_what_is_of_its_kind_and_says_about_as_much() -> None:
    rule = memory("a.md", "Deploy the shop on Fridays.", kind="feedback")
    over = memory("b.md", "We no longer deploy the shop on Fridays.", at=5)
    assert not dream(rule, over).drops
    assert declares_over("We no longer deploy the shop on Fridays.", "We deploy on Fridays.")
    assert not declares_over("We no longer deploy the shop on Fridays.", "Deploy.")
    long = (
        "We no longer ship it on Fridays; Marta, Kim, Tom and Ida agreed on Monday, over tea, late."
    )
    assert not declares_over(long, "We ship on Fridays.")


def test_a_memory_that_took_another_in_takes_it_along_when_it_goes() -> None:
    one, two, three = (memory(f"{name}.md", f"Fact {name}.") for name in "abc")
    working = WorkingSet([one, two, three], {}, frozenset(), {}, NOW)
    working.doubt(["a.md", "c.md"], "they may contradict each other")
    working.merge(one, two)
    working.drop("a.md", "it is past")
    assert [(drop.path, drop.reason) for drop in working.drops()] == [
        ("a.md", "it is past"),
        ("b.md", "it is past"),
    ]
    assert working.merges() == ()
    assert working.doubts() == (), "nobody need look at what is gone"


@pytest.mark.spec("L6.6")
def test_dates_of_facts_are_written_out_from_the_day_they_were_said() -> None:
    fact = memory("a.md", "The audit starts next Monday.", said="2026-05-27")
    habit = memory("b.md", "Friday deploys are forbidden.", said="2026-05-27")
    own = memory("c.md", "Ask me again tomorrow about the name.", kind="feedback", said="2026-05-27")  # fmt: skip
    plan = dream(fact, habit, own)
    assert [rewrite.path for rewrite in plan.rewrites] == ["a.md"]
    assert "next Monday (2026-06-01)" in plan.rewrites[0].after.body
    assert again(plan).empty


@pytest.mark.spec("L6.6")
def test_what_the_index_shows_of_a_fact_has_its_dates_written_out_too() -> None:
    one = memory("demo.md", "The demo is tomorrow.", said="2026-05-27")
    index = "- [demo](demo.md) — The demo is tomorrow. (source: tool)\n"
    plan = dream(one, index=index, labels={"demo.md": " (source: tool)"})
    assert plan.memories[0].description == "The demo is tomorrow (2026-05-28)."
    assert plan.index == "- [demo](demo.md) — The demo is tomorrow (2026-05-28). (source: tool)\n"
    assert again(plan, labels={"demo.md": " (source: tool)"}).empty
    own = memory("ask.md", "Ask me again tomorrow.", kind="feedback", said="2026-05-27")
    assert dream(own, index="- [ask](ask.md) — Ask me again tomorrow.\n").empty


@pytest.mark.spec("L6.6")
def test_what_had_no_end_gets_none_by_what_it_takes_in() -> None:
    lasting = memory("train.md", "The release train of the shop leaves every month. Kim owns it.")
    dated = memory(
        "trains.md", "The release train of the shop leaves every month.", due="2026-01-01"
    )
    plan = dream(lasting, dated, uses={"train.md": 1, "trains.md": 1})
    assert [merge.into for merge in plan.merges] == ["train.md"]
    assert "due" not in plan.merges[0].after.extra
    both = dream(
        memory("a.md", "The shop freeze for the audit ends soon, says Kim.", due="2026-07-01"),
        memory("b.md", "The shop freeze for the audit ends soon, says Kim.", due="2026-08-01"),
    )
    assert both.merges[0].after.extra["due"] == "2026-08-01"


@pytest.mark.spec("L6.6")
def test_a_past_and_unused_project_fact_ages_out_and_a_used_one_stays() -> None:
    past = memory("past.md", "The demo is due.", due="2026-03-01")
    used = memory("used.md", "The fair ends by 2026-03-02.")
    since = memory("since.md", "Since 2025-01-01 releases are signed.")
    plan = dream(past, used, since, uses={"used.md": 1})
    assert [drop.path for drop in plan.drops] == ["past.md"]


@pytest.mark.spec("L6.6", "M11")
def test_use_decides_how_long_a_past_project_fact_stays() -> None:
    two_weeks = memory("two_weeks.md", "The demo is due.", due="2026-05-18")
    long_ago = memory("long_ago.md", "The fair ends by 2026-01-02.")
    uses = {"long_ago.md": 3}
    assert not dream(two_weeks, long_ago, uses=uses).drops

    shown = dream(two_weeks, long_ago, uses=uses, in_vain=["two_weeks.md", "long_ago.md"])
    assert [(drop.path, "never to any use" in drop.reason) for drop in shown.drops] == [("two_weeks.md", True)]  # fmt: skip
    late = dream(two_weeks, long_ago, uses=uses, last_used={"long_ago.md": date(2026, 5, 1)})
    assert not late.drops
    early = dream(two_weeks, long_ago, uses=uses, last_used={"long_ago.md": date(2026, 2, 1)})
    assert [drop.path for drop in early.drops] == ["long_ago.md"]
    assert "last used on 2026-02-01" in early.drops[0].reason


@pytest.mark.spec("M11")
def test_what_is_not_past_never_ages_out_however_often_it_was_shown_in_vain() -> None:
    coming = memory("coming.md", "The demo is due.", due="2026-06-20")
    timeless = memory("timeless.md", "Invoices are rounded up.")
    own = memory("own.md", "I ship by 2026-01-01.", kind="user")
    assert not dream(coming, timeless, own, in_vain=["coming.md", "timeless.md", "own.md"]).drops


# --- the index ---


def test_what_is_due_later_stays_however_long_ago_it_was_used() -> None:
    fact = memory("a.md", "The audit is due.", due="2026-05-20")
    used = {"uses": {"a.md": 1}, "last_used": {"a.md": date(2025, 1, 1)}}
    assert not dream(fact, **used).drops
    assert dream(memory("a.md", "The audit is due.", due="2026-04-20"), **used).drops


def test_a_pointer_that_may_mean_two_files_is_taken_for_neither() -> None:
    both = [memory("one/the_plan.md", "We sail."), memory("two/the-plan.md", "They rest.")]
    plan = dream(*both, index="- [Plan](The_Plan.md) — what is planned\n")
    assert {pointer.file for pointer in pointers_of(plan.index.encode())} == {m.path for m in both}
    assert "[Plan]" not in plan.index
    assert [doubt.paths for doubt in plan.doubtful] == [("The_Plan.md",)]


def test_pointers_stay_where_prose_alone_is_longer_than_what_is_loaded() -> None:
    prose = "\n".join(f"A line of prose, number {n}." for n in range(LOADED_LINES + 50))
    index = f"{prose}\n\n- [A](a.md) — about a\n"
    plan = dream(memory("a.md", "About a."), memory("b.md", "We sail at dawn."), index=index)
    assert "(a.md)" in plan.index
    assert "(b.md)" not in plan.index
    assert [doubt.paths for doubt in plan.doubtful] == [("b.md",), ("MEMORY.md",)]


FULL = "".join(f"{n} {'prose ' * 40}\n" for n in range(102))  # an index that is not loaded whole


def test_the_source_in_a_long_index_line_does_not_move_into_the_file() -> None:
    hook = "the gateway of the warehouse answers on " + "a very long address indeed, " * 8
    label = " (source: tool)"
    index = f"{FULL}- [Gateway](a.md) — {hook.strip()}{label}\n"
    plan = dream(memory("a.md", "About the gateway."), index=index, labels={"a.md": label})
    [after] = [rewrite.after for rewrite in plan.rewrites]
    assert "very long address" in after.body
    assert "source: tool" not in after.body


@pytest.mark.spec("L6.6", "M4")
def test_the_index_points_at_everything_and_at_nothing_else_and_keeps_its_lines() -> None:
    memories = [
        memory("project_b.md", "The shop closes at nine."),
        memory("user_a.md", "I write Go.", kind="user"),
        memory("feedback_tests.md", "Write tests first.", kind="feedback"),
    ]
    index = (
        "- [Gone](gone.md) — was here\n- [B](project_b.md) — closing time\n"
        "- [B again](project_b.md) — twice\n- [Tests](Feedback-Tests.md) — first\n"
    )
    plan = dream(*memories, index=index)
    assert plan.index == (
        "- [B](project_b.md) — closing time\n- [B again](project_b.md) — twice\n"
        "- [Tests](Feedback-Tests.md) — first\n- [user_a](user_a.md) — I write Go.\n"
    )
    assert "gone.md" in plan.doubtful[0].paths
    assert again(plan).empty


@pytest.mark.spec("L6.4")
@pytest.mark.parametrize("head", ["", "## Project\n"])
def test_what_only_a_line_of_the_index_says_stays_though_its_file_is_gone(head: str) -> None:
    index = (
        f"{head}- [Bank](project_bank.md) — the account is applied for, not opened yet\n"
        "- [B](project_b.md) — closing time\n- [B again](project_b.md) — Ulrike holds the key\n"
        "- [Shop](project_shop.md) — The shop closes at nine.\n"
    )
    plan = dream(memory("project_b.md", "The shop closes at nine."), index=index)
    assert "- Bank — the account is applied for, not opened yet\n" in plan.index
    assert "- [B again](project_b.md) — Ulrike holds the key\n" in plan.index
    assert {one.file for one in pointers_of(plan.index.encode())} == {"project_b.md"}
    assert "project_shop" not in plan.index, "a memory says it"
    assert again(plan).empty


@pytest.mark.spec("L6.3", "M4")
def test_a_long_index_line_moves_into_its_topic_file_where_the_index_is_too_long() -> None:
    hook = "orders are frozen at noon, " * 8 + "and Ulrike holds the key to the archive"
    line = f"- [A](a.md) — {hook}\n"
    assert dream(memory("a.md", "Shop hours."), index=line).empty, "it fits, so it stays"
    plan = dream(memory("a.md", "Shop hours."), index=FULL + line)
    assert "Ulrike holds the key" in plan.memories[0].body
    assert plan.index == f"{FULL}- [A](a.md) — Shop hours.\n"
    assert again(plan).empty


@pytest.mark.spec("L6.3")
def test_a_long_index_line_that_its_file_contradicts_stays_and_is_reported() -> None:
    said = "The invoice export of the warehouse is not built yet"
    line = f"- [A](a.md) — {said}, {'see the plan of the spring ' * 8}\n"
    plan = dream(memory("a.md", "The invoice export of the warehouse is built."), index=FULL + line)
    assert (plan.index, plan.rewrites) == (FULL + line, ())
    assert "says otherwise" in plan.doubtful[0].reason


@pytest.mark.spec("L6.3", "M4")
@pytest.mark.parametrize(
    "line",
    [
        "- **[A](a.md)** — bold",
        "- ✅ **[A](./a.md)** — with a sign",
        "- See [A](a.md) for more",
        "- [B](b.md) / [A](a.md) / [C](c.md)",
        "| [A](a.md) | a table |",
        "Details: `a.md`, read it first.",
        "- [[a]] — by name",
        "- [B](b.md) — goes with [[a]]",
        "- [A](a%2Emd) — encoded",
        "1. [A](a.md) — counted",
    ],
)
def test_a_pointer_in_whatever_form_is_read_and_kept(line: str) -> None:
    memories = [memory(f"{name}.md", f"All about {name}{name}.") for name in "abc"]
    index = f"# Ours\n\n{line}\n- [B](b.md) — bee\n- [C](c.md) — sea\n"
    assert dream(*memories, index=index).empty


def test_a_link_may_leave_out_the_type_and_the_folder() -> None:
    one = memory("retros/feedback_tests.md", "Test first.", kind="feedback")
    assert dream(one, index="See [[tests]].\n").empty
    assert dream(one, index="- everything in `retros/`\n").empty


def test_prose_and_sections_of_an_index_stay_word_for_word() -> None:
    index = (
        "# Ours\n\nRead this first.\n\n## Feedback\n\n- [T](t.md) — tests\n\n## Else\n\nNothing.\n"
    )
    plan = dream(memory("t.md", "Test first.", kind="feedback"), memory("u.md", "Ask early.", kind="feedback"), index=index)  # fmt: skip
    assert plan.index == index.replace("— tests\n", "— tests\n- [u](u.md) — Ask early.\n")
    assert again(plan).empty


@pytest.mark.spec("M4")
def test_a_full_index_keeps_the_used_ones_within_both_limits() -> None:
    memories = [memory(f"project_{i:03}.md", f"Fact {i} about room {i * 7} of wing {i * 13}.") for i in range(300)]  # fmt: skip
    plan = dream(*memories, uses={"project_299.md": 4})
    assert len(plan.index.splitlines()) <= LOADED_LINES
    assert len(plan.index.encode()) <= LOADED_BYTES
    assert "project_299.md" in plan.index
    assert len(plan.memories) == 300
    assert again(plan, uses={"project_299.md": 4}).empty


@pytest.mark.spec("M4", "M11")
def test_in_a_full_index_what_was_shown_in_vain_gives_up_its_place_first() -> None:
    memories = [memory(f"project_{i:03}.md", f"Fact {i} about room {i * 7} of wing {i * 13}.") for i in range(300)]  # fmt: skip
    assert "project_000.md" in dream(*memories).index
    plan = dream(*memories, in_vain=["project_000.md"])
    assert "project_000.md" not in plan.index
    assert len(plan.memories) == 300
    assert again(plan, in_vain=["project_000.md"]).empty


# --- properties ---

SENTENCES = st.sampled_from(
    [
        "The staging port is 8080.", "The staging port is 9090.", "We deploy on Fridays.",
        "We no longer deploy on Fridays.", "Use tabs in Makefiles.", "Never use tabs in Makefiles.",
        "Marta owns the billing service.", "The billing service is owned by Marta.",
        "The demo is tomorrow.", "Bis Freitag muss das Angebot fertig sein.", "下周三开始代码冻结。",
        "**Why:** it broke twice", "- a list item about invoices", "```\ncode = 1\n```", "# Heading",
        "Invoices are rounded up.", "Rounded up are the invoices, always.", "", "\u202e odd \x00 text",
    ]
)  # fmt: skip
KINDS: st.SearchStrategy[MemoryType | None] = st.sampled_from(["user", "feedback", "project", "reference", None])  # fmt: skip


@st.composite
def stores(draw: st.DrawFn) -> tuple[list[Memory], str]:
    paths = draw(st.lists(st.sampled_from([f"m{i}.md" for i in range(8)] + ["team/t.md"]), unique=True, max_size=7))  # fmt: skip
    memories = [
        Memory(
            path, draw(st.sampled_from([path, "Deploys", "Ports"])), draw(SENTENCES).partition("\n")[0], draw(KINDS),
            "\n\n".join(draw(st.lists(SENTENCES, max_size=4))), {},
            mtime=draw(st.sampled_from([0.0, 1.7e9, 1.75e9, 1.77e9])),
        )
        for path in paths
    ]  # fmt: skip
    lines = draw(st.lists(st.sampled_from([
        "- [One](m1.md) — one", "- [Gone](gone.md) — nothing", "- [Two](m2.md) — " + "long words " * 20,
        "# Memory", "## Feedback", "prose that stays", "", "- [T](team/t.md)", "- [One](m1.md) — twice",
    ]), max_size=8))  # fmt: skip
    return memories, "".join(line + "\n" for line in lines)


@pytest.mark.spec("L6.6")
@examples(250)
@given(stores(), st.dictionaries(st.sampled_from(["m1.md", "m2.md"]), st.integers(0, 3)))
def test_a_second_dream_changes_nothing(store: tuple[list[Memory], str], uses: dict[str, int]) -> None:  # fmt: skip
    plan = consolidate(store[0], index=store[1], now=NOW, uses=uses)
    second = consolidate(plan.memories, index=plan.index, now=NOW, uses=uses)
    assert second.empty, second
    assert plan == consolidate(store[0], index=store[1], now=NOW, uses=uses)


@pytest.mark.spec("L6.6")
@examples(250)
@given(stores())
def test_every_statement_is_still_said_or_was_replaced_by_a_later_one(
    store: tuple[list[Memory], str],
) -> None:
    plan = consolidate(store[0], index=store[1], now=NOW)
    aged = {drop.path for drop in plan.drops if not drop.because}
    said = [part.text for memory in plan.memories for part in statements(memory.body)]
    said += [text for memory in plan.memories for text in (memory.name, memory.description)]
    said = [re.sub(r" \(\d{4}-\d\d-\d\d\)", "", text) for text in said]  # dates written out
    everything = [part.text for memory in store[0] for part in statements(memory.body)]
    for memory in store[0]:
        if memory.path in aged:
            continue
        dropped_with_rule = memory.path in {drop.path for drop in plan.drops}
        for part in statements(memory.body):
            kept = any(
                content_stems(part.text) <= content_stems(other)
                and hard_tokens(part.text) <= hard_tokens(other)
                for other in said
            )
            replaced = any(judge(other, part.text) == "sure" for other in everything)
            assert kept or replaced or (part.label and dropped_with_rule), part.text


@examples(150)
@given(stores())
def test_the_index_points_only_at_what_is_there(store: tuple[list[Memory], str]) -> None:
    plan = consolidate(store[0], index=store[1], now=NOW)
    there = {memory.path for memory in plan.memories}
    files = [pointer.file for pointer in pointers_of(plan.index.encode())]
    assert set(files) <= there
    assert {path for path in there if not path.startswith("team/")} <= set(files)


def test_directories_that_real_agents_wrote_lose_nothing(shared_data: Path) -> None:
    for index in sorted(shared_data.glob("memory-dirs/*/.claude/memory/MEMORY.md")):
        files = [file for file in sorted(index.parent.glob("*.md")) if file != index]
        memories = [read_topic(file.name, file.read_bytes(), mtime=1.77e9) for file in files]
        plan = consolidate(memories, index=index.read_text(encoding="utf-8"), now=NOW)
        assert not plan.merges
        assert not plan.drops
        assert consolidate(plan.memories, index=plan.index, now=NOW).empty


@pytest.mark.spec("L6.6")
@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-03-10: the demo is tomorrow.", "2026-03-10: the demo is tomorrow (2026-03-11)."),
        ("Anna said on 2026-03-10 that it is tomorrow", "Anna said on 2026-03-10 that it is tomorrow (2026-03-11)"),
        ("- **2026-03-10** demo\n  - cut yesterday\n- tomorrow", "- **2026-03-10** demo\n  - cut yesterday (2026-03-09)\n- tomorrow"),
        ("## 2026-04-03\nShipped today.\n\n## Next\nSent tomorrow.", "## 2026-04-03\nShipped today (2026-04-03).\n\n## Next\nSent tomorrow."),
        ("The freeze of 2026-03-10 ends tomorrow", "The freeze of 2026-03-10 ends tomorrow"),
        ("Incident (Mar 6, 2026): the CSVs ended at Mar 4", "Incident (Mar 6, 2026): the CSVs ended at Mar 4"),
        ("2026-03-10: \"tomorrow\", bis heute", "2026-03-10: \"tomorrow\", bis heute"),
        ("The demo is tomorrow.", "The demo is tomorrow."),
    ],
)  # fmt: skip
def test_a_relative_date_counts_from_its_own_entry_and_never_from_the_files_time(
    text: str, written: str
) -> None:
    plan = dream(memory("a.md", text, kind="reference"))
    assert plan.memories[0].body.strip() == written


def _by_hand(_path: str) -> bool:
    return True


@pytest.mark.spec("L6.6")
def test_what_somebody_named_apart_by_hand_stays_apart() -> None:
    steps = "1. Bump version\n2. Tag\n3. Upload to {}\n4. Wait for review"
    rules = "Use semantic HTML. Prefer CSS grid. Test in Safari"
    apart = (
        memory("release_ios.md", steps.format("TestFlight")),
        memory("release_android.md", steps.format("Play Console")),
        memory("rules_web.md", rules + "."),
        memory("rules_web_v2.md", rules + " and Firefox."),
    )
    assert not dream(*apart, by_hand=_by_hand).merges
    closes = "The shop closes at nine in the evening."
    folders = [memory("shop.md", closes), memory("archive/shop.md", f"So far: {closes}")]
    assert not dream(*folders, by_hand=_by_hand).merges
    copies = [memory(path, closes) for path in ("shop.md", "archive/shop.md")]
    assert not dream(*copies, by_hand=_by_hand).merges
    assert dream(*copies).merges
    same = [
        memory(name, "The shop closes at nine in the evening.")
        for name in ("shop.md", "shop_hours.md")
    ]
    assert dream(*same, by_hand=_by_hand).merges


@pytest.mark.spec("L6.6")
def test_an_index_of_too_many_lines_loses_empty_ones_and_no_pointer() -> None:
    memories = [memory(f"item_{n}.md", f"Subject number {n} of many.") for n in range(90)]
    index = "".join(
        f"## Group {n}\n\n- [item_{n}](item_{n}.md) — {m.description}\n\n"
        for n, m in enumerate(memories)
    )
    plan = dream(*memories, index=index, by_hand=_by_hand)
    assert plan.index.split() == index.split()
    assert plan.index.count("\n") == 181
    assert again(plan, by_hand=_by_hand).empty
    table = (
        "| file |\n|---|\n"
        + "".join(f"| [x](item_{n}.md) |\n" for n in range(90))
        + "- prose\n" * 120
    )
    lines = "".join(
        f"- [item_{n}](item_{n}.md) — {m.description}\n" for n, m in enumerate(memories)
    )
    plan = dream(*memories, index=table + lines, by_hand=_by_hand)
    assert plan.index == table + lines
    assert plan.doubtful[-1].paths == ("MEMORY.md",)


@pytest.mark.spec("L6.3")
@pytest.mark.parametrize(
    ("said", "now"),
    [
        ("researched, NOT built; owner Kim", "All phases done on 2026-07-01."),
        ("the budget of the hall is 105 k; owner Kim", "The budget of the hall is 100 k."),
    ],
)
def test_a_long_line_whose_file_is_further_stays_and_is_reported(said: str, now: str) -> None:
    line = f"- [Hall](hall.md) — {said}, {'see the plan of the spring ' * 8}\n"
    plan = dream(memory("hall.md", now), index=FULL + line)
    assert (plan.index, plan.rewrites) == (FULL + line, ())
    assert "says otherwise" in plan.doubtful[0].reason


@pytest.mark.spec("L6.6")
def test_words_of_an_index_line_stay_though_its_file_is_gone_and_another_says_them() -> None:
    index = "- [Token](project_token.md) — after the MVP\n- [Plan](plan.md) — the plan\n"
    plan = dream(memory("plan.md", "The token comes after the MVP."), index=index)
    assert plan.index.startswith("- Token — after the MVP\n")


def test_a_pointer_into_a_folder_named_team_stays() -> None:
    there = memory("team/oncall.md", "The week on call begins on Monday.")
    index = "- [On call](team/oncall.md)\n"
    assert dream(there, index=index).index == index


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("ログは共有サーバーに保存し、毎週月曜日に確認する。", "ログは共有サーバーに保存し、毎週金曜日に確認する。"),
        ("設定画面では通知メールを有効にする。", "設定画面では通知メールを無効にする。"),
        ("数据库备份每天凌晨两点执行,结果发到运维群。", "数据库备份每天凌晨四点执行,结果发到运维群。"),
        ("결제 모듈 담당자는 민수다. 문의는 메신저로 한다.", "결제 모듈 담당자는 지영이다. 문의는 메신저로 한다."),
    ],
)  # fmt: skip
def test_what_contradicts_itself_without_spaces_is_never_merged(one: str, two: str) -> None:
    assert dream(memory("a.md", one), memory("b.md", two, at=2.0)).merges == ()
