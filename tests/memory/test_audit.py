"""The audit: every kind of fault is found, counted and explained, and only safe repairs are planned."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.memories import Memory
from lamina.memory.audit import KINDS, Audit, audit, plan_fixes
from lamina.memory.topics import read_topic
from lamina.text.claims import superseding
from lamina.text.pairs import alike_pairs, one_apart

pytestmark = pytest.mark.spec("M12")

DAY = 86_400.0
NOW = 1_800_000_000.0  # 2027-01-15
WHY = "\n**Why:** asked for.\n**How to apply:** everywhere."


def memory(path: str, body: str, **changes: Any) -> Memory:
    values: dict[str, Any] = {
        "path": path,
        "name": path.removesuffix(".md"),
        "description": f"About {path.removesuffix('.md').replace('_', ' ')}",
        "type": "user",
        "body": body,
        "mtime": NOW,
    }
    return Memory(**(values | changes))


def index_of(*memories: Memory) -> bytes:
    return "".join(f"- [{m.name}]({m.path}) — x\n" for m in memories).encode()


def look(*memories: Memory, index: bytes | None = None, **more: Any) -> Audit:
    return audit(memories, index_of(*memories) if index is None else index, now=NOW, **more)


def kinds(found: Audit) -> list[str]:
    return [fault.kind for fault in found.faults]


GOOD = memory("user_role.md", "Accountant for a shipping company; learned Python last year.")


def test_a_good_memory_has_no_fault() -> None:
    found = look(GOOD)
    assert found.faults == ()
    assert found.checked == 1
    assert dict(found.counts) == dict.fromkeys(KINDS, 0)


@pytest.mark.parametrize(
    ("body", "description", "certain"),
    [
        ("", "", True),
        ("TODO", "", True),
        ("the memory itself", "", True),
        ("User said hello!", "", False),
        ("Yes", "greeting", False),
        ("```\n" + "$ make\nok\n" * 60 + "```", "output of make, today", False),
    ],
)
def test_junk(body: str, description: str, certain: bool) -> None:
    junk = memory("junk.md", body, description=description)
    found = look(junk)
    (fault,) = [fault for fault in found.faults if fault.kind == "junk"]
    assert fault.doubtful is not certain
    deleted = [step.path for step in plan_fixes([junk], found) if step.action == "delete"]
    assert deleted == (["junk.md"] if certain else [])


def test_duplicates_name_the_older_one_and_only_exact_ones_are_removed() -> None:
    text = "Prefers small pull requests with one change each and a short description of it."
    old = memory("old.md", text, description="Pull requests", mtime=NOW - DAY)
    new = memory("new.md", text, description="Pull requests")
    near = memory("near.md", f"{text} Always.", description="Pull requests", mtime=NOW - 2 * DAY)
    exact = look(old, new)
    assert [(f.kind, f.path, f.other, f.doubtful) for f in exact.faults] == [
        ("duplicate", "old.md", "new.md", False)
    ]
    assert [(s.action, s.path) for s in plan_fixes([old, new], exact)] == [("delete", "old.md")]
    alike = look(near, new)
    assert [(f.path, f.doubtful) for f in alike.faults] == [("near.md", True)]
    assert plan_fixes([near, new], alike) == ()


def test_of_three_equal_memories_one_stays() -> None:
    three = [
        memory(f"{n}.md", "Same words in all of these memories", description="d") for n in "abc"
    ]
    found = look(*three)
    assert [(one.path, one.other) for one in found.faults] == [("a.md", "c.md"), ("b.md", "c.md")]
    deleted = {step.path for step in plan_fixes(three, found) if step.action == "delete"}
    assert deleted == {"a.md", "b.md"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Releases are deployed on Friday evening.", "Releases are deployed on Monday evening."),
        ("The tests may use the network in CI.", "The tests may not use the network in CI."),
        (
            "The invoice job runs at 04:00 every night.",
            "The invoice job runs at 06:30 every night.",
        ),
        (
            "Feature flags are enabled for beta customers.",
            "Feature flags are disabled for beta customers.",
        ),
    ],
)
def test_contradictions_are_reported_as_doubtful(one: str, other: str) -> None:
    pair = [memory("a.md", one, description="one"), memory("b.md", other, description="two")]
    found = look(*pair)
    (fault,) = [fault for fault in found.faults if fault.kind == "contradiction"]
    assert (fault.path, fault.other, fault.doubtful) == ("a.md", "b.md", True)
    assert not [step for step in plan_fixes(pair, found) if step.path == "a.md"]


def test_different_things_do_not_contradict() -> None:
    found = look(
        memory("a.md", "Releases are deployed on Friday evening.", description="one"),
        memory("b.md", "Retrospectives take place on Monday morning.", description="two"),
        memory("c.md", "The port of the web server is 8080.", description="three"),
        memory("d.md", "The port of the mail relay is 2525.", description="four"),
    )
    assert "contradiction" not in kinds(found)


@pytest.mark.spec("M11")
def test_stale_is_what_drifted_or_was_superseded_or_is_both_old_and_unused() -> None:
    old = memory("p.md", f"A fact about the team.{WHY}", type="project", mtime=NOW - 900 * DAY)
    assert kinds(look(old)) == [], "age alone says nothing"
    assert kinds(look(old, last_used={"other.md": NOW})) == ["stale"]
    assert kinds(look(old, last_used={"p.md": NOW - DAY})) == []
    modified = replace(old, extra={"metadata.modified": "2027-01-10T10:00:00.000Z"})
    assert kinds(look(modified, last_used={"other.md": NOW})) == []
    named = memory("n.md", f"The parser is in `src/old/parser.py`.{WHY}", type="project")
    there = {"src", "src/new/parser.py"}
    assert kinds(look(named, exists=there.__contains__)) == ["stale"]
    assert kinds(look(named, exists={"lib"}.__contains__)) == [], "another project's folder"
    newer = memory("q.md", f"This supersedes [[p]].{WHY}", type="project")
    assert "supersedes" in look(old, newer).faults[0].reason


@pytest.mark.parametrize(
    "line",
    [
        "Superseded by [the new host](project_host_new.md).",
        "**Status: superseded by** [the new host](./project_host_new.md#now)",
        'Ersetzt durch [den neuen Rechner](<project_host_new.md> "neu").',
        "Replaced by [[project_host_new|the new host]].",
        "Replaced by [[project_host_new]].",
        "Superseded by project_host_new.md.",
    ],
)
def test_what_took_a_memorys_place_may_be_named_by_a_link(line: str) -> None:
    old = memory("project_host.md", f"{line}\n\nThe build host is pelican.", type="project")
    new = memory("project_host_new.md", "Builds run on heron since March.", type="project")
    faults = [one for one in look(old, new).faults if one.kind == "stale"]
    assert [(one.path, one.reason) for one in faults] == [
        ("project_host.md", "project_host_new.md supersedes it")
    ]


def test_a_memory_may_name_by_a_link_what_it_supersedes() -> None:
    old = memory("project_host.md", "The build host is pelican.", type="project")
    new = memory("project_heron.md", "Heron builds; it replaces [Host](project_host.md).")
    assert "supersedes" in next(x.reason for x in look(old, new).faults if x.kind == "stale")


def test_an_empty_file_of_a_person_s_stays_and_gets_no_line_before_its_words() -> None:
    empty = memory("later.md", "", description="")
    found = audit([empty], b"", now=NOW)
    assert {fault.kind for fault in found.faults} >= {"junk", "dangling"}
    assert [one.action for one in plan_fixes([empty], found)] == ["delete"]
    assert plan_fixes([empty], found, lambda _: True) == ()


def test_dangling_pointers_and_missing_ones_are_repaired() -> None:
    team = memory("team/x.md", "The wiki is at the usual place.", type="reference")
    index = b"- [Gone](gone.md) - x\n- [Web](https://x.io/a.md)\n"
    found = audit([GOOD, team], index, now=NOW, team_index=b"- [No](no.md)\n")
    assert [(fault.kind, fault.path) for fault in found.faults] == [
        ("dangling", "gone.md"),
        ("dangling", "team/no.md"),
        ("dangling", "team/x.md"),
        ("dangling", "user_role.md"),
    ]
    steps = plan_fixes([GOOD, team], found)
    assert [(step.action, step.path) for step in steps] == [
        ("drop_pointer", "gone.md"),
        ("drop_pointer", "team/no.md"),
        ("add_pointer", "team/x.md"),
        ("add_pointer", "user_role.md"),
    ]
    assert audit([GOOD], now=NOW, with_index=False).faults == ()


def test_a_link_to_no_memory_is_doubtful() -> None:
    linking = memory("a.md", "See [[user_role]], [[user-role|him]], [[nobody]] and `[[^x]]`.")
    found = look(GOOD, linking)
    assert [(fault.path, fault.doubtful) for fault in found.faults] == [("a.md", True)]
    assert "[[nobody]]" in found.faults[0].reason


def test_oversized_files_and_indexes() -> None:
    long = memory("long.md", "One more different line of words\n" * 201)
    assert [fault.path for fault in look(long).faults] == ["long.md"]
    index = index_of(GOOD) + b"- [x](user_role.md) " + b"y" * 150 + b"\n" + b"\n" * 200
    reasons = [fault.reason for fault in look(GOOD, index=index).faults]
    assert len(reasons) == 2
    assert "more than 150 characters in line 2" in reasons
    one = memory("one.md", " ".join(f"host{number} runs nginx," for number in range(300)))
    assert look(one).faults[0].reason.startswith("1 line, ")


def test_unlabelled_memories_get_the_type_that_their_name_says() -> None:
    bare = memory("feedback_commits.md", "Keep commits separate.", type=None, description="")
    other = memory("notes.md", "The printer is on the second floor.", type=None)
    found = look(bare, other)
    assert kinds(found) == ["unlabelled", "unlabelled"]
    assert found.faults[0].reason == "it has no type and no description"
    steps = plan_fixes([bare, other], found)
    assert [(step.action, step.path, step.value) for step in steps] == [
        ("set_type", "feedback_commits.md", "feedback")
    ]


def test_feedback_without_why_and_how_is_whole() -> None:
    found = look(memory("f.md", "Keep commits separate.", type="feedback"))
    assert found.faults == (), "as Lamina itself writes it"


def test_text_in_the_index_belongs_into_topic_files() -> None:
    found = look(GOOD, index=index_of(GOOD) + b"# Notes\nBuild with make.\n")
    assert [(fault.kind, fault.path) for fault in found.faults] == [("unlabelled", "MEMORY.md")]
    assert found.faults[0].reason.startswith("no pointer in line 3: ")
    more = look(GOOD, index=index_of(GOOD) + b"Build with make.\nTest with make.\n")
    assert more.faults[0].reason.startswith("no pointer in 2 lines, the first is line 2: ")


@pytest.mark.parametrize(
    "line",
    ["| Topic | Why |\n|---|---|\n", "Role: see `user_role.md`.\n", "1. [Role](role)\n",
     "<!-- kept by hand -->\n", "\ufeff# Memory\n", "[1]: ./user_role.md\n"],
)  # fmt: skip
def test_what_heads_a_table_or_names_a_file_in_another_way_is_no_text(line: str) -> None:
    assert look(GOOD, index=line.encode() + index_of(GOOD)).faults == ()


@pytest.mark.spec("M13")
def test_real_memory_directories_are_audited(shared_data: Path) -> None:
    checked = 0
    for folder in sorted((shared_data / "memory-dirs").glob("*/.claude/memory")):
        files = {file.name: file.read_bytes() for file in folder.glob("*.md")}
        index = files.pop("MEMORY.md")
        memories = [read_topic(name, content, mtime=NOW) for name, content in sorted(files.items())]
        found = audit(memories, index, now=NOW)
        assert found.counts["junk"] == found.counts["duplicate"] == 0
        assert not [step for step in plan_fixes(memories, found) if step.action == "delete"]
        checked += found.checked
    assert checked > 30


_WORDS = st.frozensets(st.sampled_from("abcdefghij"), max_size=8)


@given(st.lists(_WORDS, max_size=12), st.sampled_from([0.3, 0.5, 0.72, 1.0]))
def test_pairs_found_by_rare_words_are_those_found_by_comparing_all(
    sets: list[frozenset[str]], least: float
) -> None:
    slow = {
        (one, other)
        for other in range(len(sets))
        for one in range(other)
        if sets[one] and len(sets[one] & sets[other]) >= least * len(sets[one] | sets[other])
        if sets[one] & sets[other]
    }
    assert {(one, other) for one, other, _ in alike_pairs(sets, least)} == slow
    near = {
        (one, other)
        for one, other in slow
        if max(len(sets[one] - sets[other]), len(sets[other] - sets[one])) <= 1
    }
    assert {(one, other) for one, other, _ in alike_pairs(sets, least, apart=1)} == near


_DECIDES = frozenset("ab")  # words that are beside the point here


@given(st.lists(_WORDS, max_size=12), st.sampled_from([0.5, 0.72, 1.0]))
def test_pairs_that_part_at_a_word_are_those_found_by_comparing_all(
    sets: list[frozenset[str]], least: float
) -> None:
    slow = [
        (one, other)
        for other in range(len(sets))
        for one in range(other)
        if sets[one] & sets[other]
        if len(sets[one] & sets[other]) >= least * len(sets[one] | sets[other])
        if max(len(sets[one] - sets[other]), len(sets[other] - sets[one])) <= 2
        if len(sets[one] - sets[other] - _DECIDES) <= 1
        if len(sets[other] - sets[one] - _DECIDES) <= 1
    ]
    assert sorted(one_apart(sets, least, _DECIDES)) == sorted(slow)


@given(
    st.lists(st.tuples(st.text(max_size=60), st.text(max_size=30)), max_size=6),
    st.binary(max_size=80),
)
def test_any_memories_and_index_are_audited_and_a_fix_never_repeats(
    texts: list[tuple[str, str]], index: bytes
) -> None:
    memories = [
        memory(f"m{number}.md", body, description=description)
        for number, (body, description) in enumerate(texts)
    ]
    found = audit(memories, index, now=NOW)
    assert sum(found.counts.values()) == len(found.faults)
    deleted = [step.path for step in plan_fixes(memories, found) if step.action == "delete"]
    assert len(deleted) == len(set(deleted))


def test_hundreds_of_memories_are_audited_quickly() -> None:
    vocabulary = [f"{a}{b}{c}" for a in "bcdfg" for b in "aeiou" for c in "klmnprst"]
    memories = [
        memory(f"m{n}.md", " ".join(vocabulary[(n * 7 + k * k) % 200] for k in range(40)))
        for n in range(500)
    ]
    start = time.process_time()
    look(*memories)
    assert time.process_time() - start < 3


@pytest.mark.parametrize(
    "named",
    [
        "`./project_other.md`",
        "`../sibling/README.md`",
        "`src/.../x.ts`",
        "`src/.env.local`",
        "`src/YYYY-MM-DD.md`",
        "Planned: create `src/new.py`",
    ],
)
def test_a_path_that_no_checkout_has_or_that_is_still_to_come_has_not_drifted(named: str) -> None:
    said = memory("project_a.md", f"The notes are in {named} for all.", description="notes")
    there = {".", "..", "src"}
    assert "stale" not in kinds(look(said, exists=there.__contains__))
    gone = memory("project_a.md", "The notes are in `src/old.py`.", description="notes")
    assert "stale" in kinds(look(gone, exists=there.__contains__))


@pytest.mark.parametrize("word", ["Superseded by [[{}]]", "Statut : remplacé par `{}.md`"])
def test_a_memory_that_says_what_took_its_place_is_stale(word: str) -> None:
    old = memory("auth_old.md", word.format("auth") + " on 2026-05-01. Cookies.", description="old")
    new = memory("auth.md", "Tokens that rotate.", description="new")
    found = look(old, new)
    assert [one.path for one in found.faults if one.kind == "stale"] == ["auth_old.md"]


@pytest.mark.spec("M12")
def test_lines_of_signs_above_what_replaces_a_memory_take_no_time() -> None:
    start = time.process_time()
    assert superseding("replaces old.md\n" + "\n---- " * 20_000)[1] == ""
    links = "replaces old.md\n" + "[a](x" * 20_000 + "[[b" * 20_000
    assert superseding(links)[1] == ""
    assert superseding("text\n\n> **Status: superseded by** [new](new.md)")[1] == "new.md"
    assert time.process_time() - start < 2


def test_a_foreign_folder_named_team_is_pointed_to_by_the_index_beside_it() -> None:
    there = memory("team/oncall.md", "The week on call begins on Monday.", type="project")
    found = look(there, index=b"- [On call](team/oncall.md)\n")
    assert "dangling" not in kinds(found)


def test_a_link_in_an_index_of_latin_letters_leads_to_its_file() -> None:
    there = memory("größen.md", "Shirts: XL for guests, M for the band.")
    found = look(there, index="- [Größen](größen.md) - Hemden\n".encode("latin-1"))
    assert "dangling" not in kinds(found)


@pytest.mark.parametrize(("kind", "faults"), [("user", []), ("project", ["junk"])])
def test_one_word_of_the_user_on_themselves_says_something(kind: Any, faults: list[str]) -> None:
    said = memory("a.md", "I am a nurse.\n", description="I am a nurse", type=kind)
    assert [one.kind for one in look(said).faults if one.kind == "junk"] == faults
