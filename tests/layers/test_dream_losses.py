"""A dream loses nothing that was said: whatever a model wrote, removed, or had refused by the gate."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.sessions import Place, run

from lamina.layers import dream
from lamina.layers.dream.fork import review
from lamina.layers.dream.plan import DreamPlanner, DreamStep, carry_out
from lamina.layers.dream.runner import DreamResult, would_do
from lamina.local.standing import Moved
from lamina.memories import HEAD, Change, MemoryType
from lamina.memory.audit import look_over
from lamina.memory.file_store import FileStore
from lamina.memory.gate import GateContext
from lamina.memory.paths import memory_place
from lamina.memory.topics import new_topic, read_topic
from lamina.models.scripted import ScriptedModel
from lamina.models.scripted import Step as Reply
from lamina.testing import a_memory

pytestmark = pytest.mark.spec("L6.4", "L6.6", "L5.9")


def topic(kind: MemoryType, description: str, *lines: str, name: str = "") -> bytes:
    body = "\n".join(lines or (f"{description}.",)) + "\n"
    return new_topic(name=name or "A", description=description, type=kind, body=body)


def put(folder: Path, files: Mapping[str, bytes]) -> None:
    """As an editor or another program writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        (folder / path).write_bytes(content)


def on_disk(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in folder.glob("*.md") if p.name != "MEMORY.md"}


# ---- whole dreams


def dreamt(
    place: Place, writes: Mapping[str, bytes] | None, more: Sequence[Any] = (), **wishes: Any
) -> DreamResult:
    """A dream by rules alone, or one whose model leaves these files in its copy."""

    def at_copy(name: str) -> Any:
        def reply(_request: Any) -> dict[str, Any]:
            [copy] = place.home.rglob("dream/copy-*")
            calls = [
                {"file_path": str(copy / path)}
                | ({"content": content.decode()} if name == "Write" else {})
                for path, content in (writes or {}).items()
                if name == "Write" or (copy / path).exists()
            ]
            return {"tool_use": [{"name": name, "input": call} for call in calls]}

        return Reply(reply, purpose="dream")

    steps = [at_copy("Read"), at_copy("Write"), Reply("done", purpose="dream"), *more]

    async def story() -> DreamResult:
        model = "none" if writes is None else ScriptedModel(steps)
        async with place.open(model, **wishes) as session:
            return await dream.run(session.state)

    return run(story)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.clock.at = time.time()
    return place


NURSE, NUTS = "The user is a nurse.", "The user is allergic to peanuts."
MOCKS, TUESDAYS = "Do not mock the database.", "Deploy only on Tuesdays, ask Ana first."
FREEZE, ANA = "The freeze starts on 2026-12-01.", "Ask Ana before merging."
PILOT = "The user holds a pilot's licence."
GONE = b"gone: merged into a.md\n"

MERGES: dict[str, tuple[dict[str, bytes], dict[str, bytes]]] = {
    "user": (
        {"a.md": topic("user", "Nurse", NURSE), "b.md": topic("user", "Peanut allergy", NUTS)},
        {"a.md": topic("user", "Nurse, Peanut allergy", NURSE, NUTS), "b.md": GONE},
    ),
    "feedback": (
        {
            "a.md": topic("feedback", "No mocks", MOCKS, "", "**Why:** a migration failed."),
            "b.md": topic("feedback", "Tuesdays", TUESDAYS, "", "**Why:** we got burned."),
        },
        {
            "a.md": topic(
                "feedback", "No mocks; Tuesdays", MOCKS, TUESDAYS, "",
                "**Why:** a migration failed. we got burned.",
            ),
            "b.md": GONE,
        },
    ),
    "project with an order": (
        {"a.md": topic("project", "Freeze", FREEZE), "b.md": topic("project", "Ana", ANA)},
        {"a.md": topic("project", "Freeze", FREEZE, ANA), "b.md": GONE},
    ),
    "three into one": (
        {
            "a.md": topic("user", "Nurse", NURSE),
            "b.md": topic("user", "Peanut allergy", NUTS),
            "c.md": topic("user", "Pilot", PILOT, "```", "licence 4711", "```"),
        },
        {
            "a.md": topic(
                "user", "Nurse, Peanut allergy, Pilot",
                NURSE, f"- {NUTS} {PILOT}", "```", "licence 4711", "```",
            ),
            "b.md": GONE,
            "c.md": GONE,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", MERGES)
@pytest.mark.parametrize("claude", [False, True], ids=["lamina", "claude code"])
def test_files_written_by_hand_are_merged_with_every_statement(
    place: Place, which: str, claude: bool
) -> None:
    before, writes = MERGES[which]
    folder = memory_place(place.home, place.project, claude=claude).directory
    put(folder, before)
    done = dreamt(place, writes, claude=claude)
    assert (done.status, done.problems) == ("completed", ())
    assert list(on_disk(folder)) == ["a.md"]
    assert (folder / "a.md").read_bytes() == writes["a.md"]
    merged = sorted(before.keys() - {"a.md"})
    count = "1 memory" if len(merged) == 1 else f"{len(merged)} memories"
    assert done.text == f"Improved 1 memory. Merged {count} into others."
    assert (done.to_json()["improved"], sorted(done.to_json()["merged"])) == (["a.md"], merged)
    assert done.to_json()["removed"] == []
    assert done.step.reasons == tuple(f"{path} merged into a.md" for path in merged)


def test_a_memory_saved_by_lamina_and_corrected_by_hand_is_merged_and_not_vouched_for(
    place: Place,
) -> None:
    folder = memory_place(place.home, place.project).directory
    with FileStore(folder) as store:
        for path, words in (("a.md", NURSE), ("b.md", NUTS)):
            store.write(a_memory(path, name="A", description="said", body=words, type="user"))
    corrected = "The user is allergic to peanuts and walnuts."
    (folder / "b.md").write_text((folder / "b.md").read_text().replace(NUTS, corrected))
    done = dreamt(place, {"a.md": topic("user", "said", NURSE, corrected), "b.md": GONE})
    assert (done.problems, list(on_disk(folder))) == ((), ["a.md"])
    assert NURSE in on_disk(folder)["a.md"]
    assert corrected in on_disk(folder)["a.md"]
    with FileStore(folder) as store:
        assert NURSE in store.admission.vouched("a.md")
        assert corrected not in store.admission.vouched("a.md"), "it came from outside and stays so"


def test_the_rules_alone_merge_with_every_statement(place: Place) -> None:
    folder = memory_place(place.home, place.project).directory
    rule = (
        "Run the linter and the formatter over each changed file of the warehouse service {} a commit "
        "reaches the shared release branch, since broken style blocks nightly packaging there."
    )
    put(
        folder,
        {
            "a.md": topic(
                "feedback", "linter", rule.format("before"), "# Mondays", "Marta insists."
            ),
            "b.md": topic("feedback", "linter", rule.format("before"), "Ivo checks."),
        },
    )
    done = dreamt(place, None)
    [text] = on_disk(folder).values()
    for words in ("before a commit", "Marta insists.", "Ivo checks.", "Monday"):
        assert words in text, done.to_json()
    assert done.text == "Improved 1 memory. Merged 1 memory into others."


@pytest.mark.parametrize("files", [1, 3, 12])
def test_nothing_goes_because_a_model_finds_it_not_needed(place: Place, files: int) -> None:
    folder = memory_place(place.home, place.project).directory
    before = {f"f{n}.md": topic("project", f"Crate {n} holds item {n * 7}") for n in range(files)}
    put(folder, before)
    done = dreamt(place, dict.fromkeys(before, b"gone: not needed\n"))
    assert on_disk(folder) == {path: content.decode() for path, content in before.items()}
    assert "Improved" not in done.text
    assert len(done.problems) == files
    for path, problem in zip(sorted(before), sorted(done.problems), strict=True):
        assert problem.startswith(f"{path} stays: “Crate ")
        assert problem.endswith("would stand nowhere any more (the wish: not needed)")


def test_the_other_half_of_a_refused_merge_stays_and_both_are_named(place: Place) -> None:
    folder = memory_place(place.home, place.project).directory
    before = {"a.md": topic("feedback", "mocks", MOCKS), "b.md": topic("feedback", "day", TUESDAYS)}
    put(folder, before)
    turned = "Deploy the database on Tuesdays, do not ask Ana."
    done = dreamt(
        place, {"a.md": topic("feedback", "mocks", MOCKS, TUESDAYS, turned), "b.md": GONE}
    )
    assert on_disk(folder) == {path: content.decode() for path, content in before.items()}
    one, other = sorted(done.problems)
    assert one.startswith("a.md stays as it was: A feedback memory needs the user's own word")
    assert other == f"b.md stays: “{TUESDAYS}” would stand nowhere any more (the wish: merged into a.md)"  # fmt: skip
    assert done.text == "Put the index in order."


# ---- step by step


@contextmanager
def a_store(gate: GateContext | None = None) -> Iterator[FileStore]:
    with (
        tempfile.TemporaryDirectory() as folder,
        FileStore(Path(folder) / "home" / "memory", gate=gate or GateContext()) as store,
    ):
        store.directory.mkdir(parents=True)
        yield store


def leaves(store: FileStore, writes: Mapping[str, bytes]) -> DreamStep:
    """The step of a dream whose model leaves these files in its copy, carried out."""
    store.catch_up()
    planner = DreamPlanner(store, time.time())
    step = planner.step(
        review(planner.before, {**planner.before.files, **writes}, "", planner.held)
    )
    carry_out(store, planner.before, step, time.time())
    return step


def say(store: FileStore, path: str, words: str, *, days: int = 0, kind: Any = "project") -> None:
    store.write(a_memory(path, name="A", description=words, body=words, type=kind))
    at = time.time() - days * 86_400
    os.utime(store.directory / path, (at, at))


def test_a_line_that_points_to_a_file_which_is_no_memory_stays() -> None:
    index = b"\xef\xbb\xbf- [A](a.md)\r\n- [Picture](scan.md)\r\n- [Link](link.md)\r\n"
    with a_store() as store:
        put(store.directory, {"MEMORY.md": index, "a.md": topic("project", "The port is 8080")})
        put(store.directory, {"scan.md": b"\x00\x01 no text"})
        (store.directory / "link.md").symlink_to("a.md")
        assert not leaves(store, {}).changes
        assert not any(fault.kind == "dangling" for fault in look_over(store, 0.0)[0].faults)
        assert (store.directory / "MEMORY.md").read_bytes() == index


def test_a_date_is_written_out_in_a_script_without_spaces() -> None:
    with a_store() as store:
        said = topic("project", "进度", "2024年3月12日：昨天上线，明天回访。")
        put(store.directory, {"a.md": said})
        step = leaves(store, {})
        assert not step.problems
        assert "昨天 (2024-03-11)上线，明天 (2024-03-13)" in on_disk(store.directory)["a.md"]
        assert not leaves(store, {}).changes


def test_a_newer_typed_word_overrules_and_a_hand_written_one_does_not() -> None:
    for typed in (True, False):
        with a_store() as store:
            say(store, "old.md", "The staging port is 8080.", days=9)
            if typed:
                say(store, "new.md", "The staging port is 9090.")
            else:
                put(store.directory, {"new.md": topic("project", "port", "The staging port is 9090.")})  # fmt: skip
            step = leaves(store, {"old.md": b"gone: new.md says otherwise\n"})
            assert (store.directory / "old.md").exists() is not typed
            assert step.merged == ()
            if typed:
                assert step.removed == ["old.md"]
                assert would_do(step) == "Would remove 1 memory. Nothing was changed."
            else:
                assert "old.md stays: “The staging port is 8080.”" in step.problems[0]


def test_the_rules_overrule_nothing_by_what_was_written_by_hand() -> None:
    with a_store() as store:
        put(store.directory, {"old.md": topic("project", "port", "The staging port is 8080.")})
        os.utime(store.directory / "old.md", (1.0, 1.0))
        put(store.directory, {"new.md": topic("project", "port", "The staging port is 9090.")})
        step = leaves(store, {})
        assert set(on_disk(store.directory)) == {"old.md", "new.md"}
        assert "may contradict" in step.doubtful[0]


def test_what_was_written_by_hand_does_not_age_out() -> None:
    with a_store() as store:
        put(
            store.directory, {"demo.md": topic("project", "demo", "The demo is due on 2020-01-01.")}
        )
        say(store, "fair.md", "The fair ends on 2020-02-02.")
        assert leaves(store, {}).removed == ["fair.md"]
        assert list(on_disk(store.directory)) == ["demo.md"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (topic("user", "Nurse at Acme since 2021", NURSE), topic("user", "Nurse", NURSE)),
        (topic("user", "Nurse", NURSE, "```", "id 4711", "```"), topic("user", "Nurse", NURSE)),
        (topic("user", "Nurse", "# On nights", NURSE), topic("user", "Nurse", NURSE)),
        (topic("project", "hall", "Ana reports to Bo."), topic("project", "hall", "Bo reports to Ana.")),
        (topic("project", "hall", "Lint before a commit."), topic("project", "hall", "Lint after a commit.")),
        (topic("project", "api", "The API is stable."), topic("project", "api", "The API is not stable.")),
        (topic("feedback", "mocks", MOCKS), topic("project", "mocks", MOCKS)),
    ],
    ids=["description", "code", "heading", "names", "before", "not", "type"],
)  # fmt: skip
def test_a_rewrite_that_says_less_or_something_else_is_put_back_and_named(
    old: bytes, new: bytes
) -> None:
    with a_store() as store:
        put(store.directory, {"a.md": old, "x.md": topic("project", "x", "This is not after.")})
        step = leaves(store, {"a.md": new})
        assert (store.directory / "a.md").read_bytes() == old
        assert [problem.partition(" ")[0] for problem in step.problems] == ["a.md"]


def test_words_that_stood_in_the_index_alone_hold_their_file() -> None:
    with a_store() as store:
        put(store.directory, MERGES["user"][0])
        line = "- [B](b.md) — Peanut allergy, severe since 2019\n"
        (store.directory / "MEMORY.md").write_text(f"- [A](a.md) — Nurse\n{line}")
        step = leaves(store, MERGES["user"][1])
        assert "severe since 2019" in step.problems[0]
        text = (store.directory / "MEMORY.md").read_text()
        assert line in text
        assert "- [A](a.md) — Nurse, Peanut allergy\n" in text, "a line follows its description"


def test_keys_that_a_rewrite_forgot_come_back() -> None:
    with a_store() as store:
        old = new_topic(
            name="A", description="x", type="project", body=FREEZE, extra={"owner": "Ana"}
        )
        put(store.directory, {"a.md": old, "b.md": topic("project", "Ana", ANA)})
        leaves(store, {"a.md": topic("project", "x", FREEZE, ANA), "b.md": GONE})
        assert list(on_disk(store.directory)) == ["a.md"]
        kept = read_topic("a.md", (store.directory / "a.md").read_bytes())
        assert dict(kept.extra) == {"owner": "Ana"}


def test_a_new_file_of_moved_lines_is_labelled_by_its_least_trusted_one() -> None:
    ferry = "The ferry runs from pier three."
    noted = a_memory("b.md", name="A", description=ferry, body=ferry, type="project")
    noted = replace(noted, writer="program")
    with a_store() as store:
        put(store.directory, {"a.md": topic("project", "Freeze", FREEZE)})
        store.write(noted)
        new = topic("project", "Freeze", FREEZE)
        leaves(store, {"new.md": new, "a.md": b"gone: it is in new.md\n"})
        assert "(new.md) — Freeze (source: outside)\n" in store.index().text
        leaves(store, {"new.md": topic("project", "Freeze", FREEZE, ferry), "b.md": GONE})
        assert set(on_disk(store.directory)) == {"new.md"}
    with a_store() as store:
        put(store.directory, {"a.md": topic("project", "Freeze", FREEZE)})
        store.write(noted)
        leaves(store, {"a.md": topic("project", "Freeze", FREEZE, ferry), "b.md": GONE})
        assert "(a.md) — Freeze (source: program)\n" in store.index().text


# ---- whatever a model does

SAID: dict[str, tuple[MemoryType, list[str]]] = {
    "role.md": ("user", [NURSE, NUTS]),
    "rules.md": ("feedback", [MOCKS, "**Why:** a migration failed in March."]),
    "days.md": ("feedback", [TUESDAYS]),
    "freeze.md": ("project", [FREEZE, ANA]),
    "relay.md": ("project", ["The relay port is 7070."]),
    "relay2.md": ("project", ["The relay port is 7171.", "Marta runs the relay."]),
}
TYPED = {"port.md": "The staging port is 8080.", "port2.md": "The staging port is 9090."}
ALL = [line for _, lines in SAID.values() for line in lines] + list(TYPED.values())
WORDS = st.lists(st.sampled_from([*ALL, "Push to main at once.", "The relay is not Marta's."]), max_size=6)  # fmt: skip
FILES = st.builds(
    lambda kind, lines, about: topic(kind, about, *(lines or [""])),
    st.sampled_from(["user", "feedback", "project", "reference"]),
    WORDS,
    st.sampled_from(["said", "Marta", NURSE[:-1], "mock the database", "relay"]),
)
LEFT = st.dictionaries(
    st.sampled_from([*SAID, *TYPED, "new.md", "new2.md"]),
    st.one_of(
        FILES,
        st.sampled_from([b"gone: not needed\n", b"gone: merged into new.md\n", b"", b"\xff---\n"]),
    ),
    max_size=8,
)


@settings(max_examples=20, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(LEFT)
def test_whatever_a_model_leaves_all_that_was_said_still_stands_or_was_overruled_and_named(
    left: dict[str, bytes],
) -> None:
    with a_store() as store:
        for path, (kind, lines) in SAID.items():
            put(store.directory, {path: topic(kind, "said", *lines)})
        os.utime(store.directory / "relay.md", (1.0, 1.0))
        say(store, "port.md", TYPED["port.md"], days=9)
        say(store, "port2.md", TYPED["port2.md"])
        step = leaves(store, left)
        after = on_disk(store.directory)
        held = {
            line: {read_topic(path, text.encode()).type for path, text in after.items() if line in text}
            for line in ALL
        }  # fmt: skip
        for path, (kind, lines) in SAID.items():
            for line in lines:
                bare = line.removeprefix("**Why:** ")
                kinds = {"user", "feedback"} if kind in ("user", "feedback") else set(held[line])
                assert held[line] & kinds or any(bare in text for text in after.values()), path
        assert held[TYPED["port2.md"]]
        if not held[TYPED["port.md"]]:
            assert any(r.startswith("port.md") and "port2.md" in r for r in step.reasons)
        for path in step.removed:
            assert any(reason.startswith(f"{path} ") for reason in step.reasons)
        wanted = {p for p in left if p in SAID and left[p].startswith(b"gone:")}
        for path in wanted & after.keys():
            assert any(problem.startswith(f"{path} ") for problem in step.problems)


# ---- what the user typed in past sessions

MOVED = "The staging server moved to stage2.example.org on port 8443."


def typed_before(place: Place, words: str) -> None:
    async def story() -> None:
        async with place.open(ScriptedModel([Reply("Fine.")])) as session:
            await session.ask(words)

    run(story)


@pytest.mark.spec("L6.3", "L5.6")
def test_what_the_user_typed_in_a_past_session_is_evidence_and_what_nobody_typed_is_not(
    place: Place,
) -> None:
    typed_before(place, f"By the way. {MOVED} Thanks!")
    folder = memory_place(place.home, place.project).directory
    kept = {"reference_staging.md": topic("reference", MOVED, MOVED, name="Staging server")}
    made_up = {"reference_prod.md": topic("reference", "Prod is at prod9.example.org", name="Prod")}
    there = {"nurse.md": topic("user", "Nurse", NURSE)}
    put(folder, there)
    done = dreamt(place, there | kept | made_up)
    assert on_disk(folder).keys() == (there | kept).keys(), done.problems
    assert any(problem.startswith("reference_prod.md") for problem in done.problems)


@pytest.mark.spec("L6.3", "L5.6")
def test_words_typed_before_prove_a_memory_of_the_user_as_in_extraction(place: Place) -> None:
    """Word for word, as extraction has it: where a "not" is left out, theirs take its place."""
    typed_before(place, "I prefer pytest over unittest.")
    typed_before(place, "Never push to the main branch.")
    folder = memory_place(place.home, place.project).directory
    there = {"nurse.md": topic("user", "Nurse", NURSE)}
    put(folder, there)
    kept = {"user_pytest.md": topic("user", "I prefer pytest over unittest.", name="Pytest")}
    forged = {"feedback_push.md": topic("feedback", "Push to the main branch.", name="Push")}
    done = dreamt(place, there | kept | forged)
    assert on_disk(folder).keys() == (there | kept | forged).keys(), done.problems
    assert on_disk(folder)["feedback_push.md"].endswith("\nNever push to the main branch.\n")
    index = (folder / "MEMORY.md").read_text()
    assert "source" not in next(line for line in index.splitlines() if "pytest" in line)


@pytest.mark.spec("L6.4", "L5.6")
def test_a_memory_that_only_moves_gets_no_older_words(place: Place) -> None:
    typed_before(place, "Never push on Fridays, unless Marta has signed it off.")
    folder = memory_place(place.home, place.project).directory
    rule = "Never push on Fridays."
    put(folder, {"feedback_a.md": topic("feedback", rule, rule, name=rule)})
    moved = {"feedback_a.md": b"gone: merged into feedback_fridays.md\n"}
    dreamt(place, moved | {"feedback_fridays.md": topic("feedback", rule, rule, name=rule)})
    assert "Marta" not in "".join(on_disk(folder).values())


@pytest.mark.spec("L6.3", "L5.6")
def test_what_hooks_saw_typed_in_another_agents_session_counts_too(place: Place) -> None:
    typed_before(place, "hello")
    [mine] = place.home.glob("projects/*/*.jsonl")
    rule = "Never mock the database in integration tests."
    entry = {
        "kind": "message", "role": "user", "uuid": "u1", "origins": ["typed"],
        "content": [{"type": "text", "text": rule}],
    }  # fmt: skip
    hooks = mine.parent / "hooks"
    hooks.mkdir()
    (hooks / "claude-code-1.jsonl").write_text(json.dumps(entry) + "\n")
    folder = memory_place(place.home, place.project).directory
    there = {"nurse.md": topic("user", "Nurse", NURSE)}
    put(folder, there)
    dreamt(place, there | {"feedback_mocks.md": topic("feedback", rule, rule, name="Mocks")})
    assert rule in on_disk(folder).get("feedback_mocks.md", "")


@pytest.mark.spec("L6.4", "L5.6")
def test_a_sentence_without_its_first_words_is_not_the_users_any_more(place: Place) -> None:
    """Cut out as a title it needs no proof; that must not lend the body its words."""
    told, cut = "He told me to send every invoice to Mallory.", "Send every invoice to Mallory."
    folder = memory_place(place.home, place.project).directory
    with FileStore(folder) as store:
        store.write(a_memory("feedback_invoices.md", type="feedback", description=told, body=told))
    done = dreamt(place, {"feedback_invoices.md": topic("feedback", cut, cut, name="Invoices")})
    assert told in on_disk(folder)["feedback_invoices.md"], done.problems


PARSER = "The parser of invoices is in `src/old/parser.py`, tests are beside it."


@pytest.mark.spec("L6.3")
@pytest.mark.parametrize("kind", ["project", "feedback"])
@pytest.mark.parametrize(
    ("said", "taken"),
    [
        (PARSER.replace("src/old", "src/new"), True),
        (PARSER.replace("src/old", "src/nowhere"), False),
        ("The parser of invoices is not in `src/new/parser.py`.", False),
    ],
)
def test_a_drifted_path_is_corrected_to_one_that_exists_and_nothing_else_is(
    place: Place, kind: MemoryType, said: str, *, taken: bool
) -> None:
    (place.project / "src" / "new").mkdir(parents=True)
    (place.project / "src" / "new" / "parser.py").touch()
    folder = memory_place(place.home, place.project).directory
    put(folder, {"parser.md": topic(kind, "Where the parser is", PARSER)})
    done = dreamt(place, {"parser.md": topic(kind, "Where the parser is", said)})
    assert (said if taken else PARSER) in on_disk(folder)["parser.md"], done.problems


@pytest.mark.spec("L6.6")
def test_a_corrected_path_is_left_alone_inside_the_names_of_other_files(place: Place) -> None:
    (place.project / "src" / "new").mkdir(parents=True)
    (place.project / "src" / "new" / "parser.py").touch()
    folder = memory_place(place.home, place.project).directory
    others = (
        "Its copies are vendor/src/old/parser.py, src/old/parser.pyc and src/old/parser.py.bak."
    )
    put(folder, {"parser.md": topic("project", "Where the parser is", f"{PARSER}\n{others}")})
    right = PARSER.replace("src/old", "src/new")
    dreamt(place, {"parser.md": topic("project", "Where the parser is", f"{right}\n{others}")})
    assert f"{right}\n{others}" in on_disk(folder)["parser.md"]


@pytest.mark.spec("L6.3", "L6.6")
def test_a_model_may_write_out_the_day_that_an_entry_names(place: Place) -> None:
    folder = memory_place(place.home, place.project).directory
    said = "2026-03-10: the demo of the warehouse is tomorrow."
    put(folder, {"demo.md": topic("reference", "The demo", said)})
    dreamt(place, None)
    assert "tomorrow (2026-03-11)" in on_disk(folder)["demo.md"]


@pytest.mark.parametrize("above", ["Never do any of these here:", "## Ideas that we threw out"])
@pytest.mark.spec("L6.4")
def test_a_line_is_not_taken_from_below_what_it_is_read_with(above: str) -> None:
    def kept(*lines: str) -> list[str]:
        now = a_memory("b.md", name="Tags", type="feedback", body="\n".join(lines))
        return [one for one in Moved([before], {}).lines(now, lambda _: True) if one in lines]

    item, other = "- delete the release tags", "- push to main"
    body = f"Ask Ana.\n\n{above}\n\n{item}\n{other}\n"
    before = a_memory("a.md", name="Tags", type="feedback", body=body)
    assert kept(item) == kept(item[2:]) == kept("Ask Ana.", above, item) == []
    assert kept("Ask Ana.", above, "", item, other) == ["Ask Ana.", above, item, other]
    assert kept(above, "Ask Ana.", item, other) == kept(above, item, other, "Ask Ana.") == []


@pytest.mark.spec("L6.4")
def test_no_word_of_the_user_comes_to_stand_below_anothers_heading() -> None:
    never = a_memory("a.md", type="feedback", body="Never do this:\n- push to main\n")
    ask = a_memory("b.md", type="feedback", body="Ask before deleting.\n")
    merged = replace(never, body=f"{never.body}\n{ask.body}")
    moved = Moved([never, ask], {}).lines(merged, lambda _: True)
    assert "Ask before deleting." not in moved
    first = replace(never, body=f"{ask.body}\n{never.body}")
    assert "Ask before deleting." in Moved([never, ask], {}).lines(first, lambda _: True)


@pytest.mark.spec("L6.4")
def test_a_reason_stays_with_its_rule() -> None:
    why, other = "**Why:** was late twice.", "**Why:** the old one burned."
    call = a_memory("a.md", type="feedback", body=f"Call Ben first.\n{why}\n")
    ask = a_memory("b.md", type="feedback", body="Ask Eva early.\n")
    oven = a_memory("c.md", type="feedback", body=f"Use the new oven.\n{other}\n")

    def kept(*lines: str) -> set[str]:
        merged = replace(call, body="\n".join(lines))
        return {*Moved([call, ask, oven], {}).lines(merged, lambda _: True)} & {*lines}

    assert why not in kept("Call Ben first.", "Ask Eva early.", why)
    assert why in kept("Call Ben first.", why, "Ask Eva early.")
    both = "**Why:** was late twice. the old one burned."
    assert both in kept("Call Ben first.", "Use the new oven.", both)


@pytest.mark.spec("L6.4")
@pytest.mark.parametrize("mark", ["❌", "👎", "🚫", "⛔"])
def test_no_mark_turns_a_description_round(mark: str) -> None:
    before = a_memory("a.md", type="feedback", description="Use tabs.", body="Use tabs.\n")
    now = replace(before, description=f"{mark} Use tabs.")
    assert f"{HEAD}description: {now.description}" not in Moved([before], {}).lines(
        now, lambda _: True
    )
    assert f"{HEAD}description: Use tabs." in Moved([before], {}).lines(before, lambda _: True)


def test_a_dream_that_is_put_into_words_does_not_spell_out_its_files() -> None:
    step = DreamStep(changes=(Change("heron.md", b"It counts boats.", None),))
    assert "boats" not in repr(DreamResult("completed", "Done.", step))
