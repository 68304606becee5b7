"""What a write removes is judged like what it adds."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.errors import GateRefused
from lamina.memories import Evidence, Memory, Outcome, Writer
from lamina.memory.file_store import FileStore
from lamina.memory.gate import GateContext
from lamina.memory.removal import left_out, still_said, takes_back
from lamina.memory.review import accept, attribute, inbox_diff, reject
from lamina.memory.scan import LARGEST, nothing_new
from lamina.memory.topics import new_topic
from lamina.messages import Origin
from lamina.text.claims import carries

pytestmark = pytest.mark.spec("L5.9", "L5.6")

ROLE = "The user is a senior data scientist."
NUTS = "The user is allergic to peanuts."
TYPED_NUTS = "I am also allergic to peanuts"


def topic(*lines: str, type: str = "user", name: str = "role", description: str = "") -> bytes:
    text = "\n".join(lines) + "\n"
    return new_topic(
        name=name, description=description or lines[0].rstrip("."), type=type, body=text
    )  # type: ignore[arg-type]


class Talk:
    """What the user typed, by entry; `at` is when."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}
        self.at: dict[str, float] = {}

    def type(self, words: str, at: float = 0.0) -> Evidence:
        entry = f"e{len(self.said)}"
        self.said[entry] = words
        self.at[entry] = at or time.time() + 60
        return Evidence(words, "s", entry)

    def gate(self) -> GateContext:
        def blocks(_session: str, entry: str) -> list[tuple[Origin, str]]:
            return [("typed", self.said[entry])] if entry in self.said else []

        return GateContext(origin_text=blocks, said_at=lambda _, entry: self.at.get(entry, 0.0))


@pytest.fixture
def talk() -> Talk:
    return Talk()


@pytest.fixture
def store(tmp_path: Path, talk: Talk) -> Iterator[FileStore]:
    with FileStore(tmp_path / "memory", gate=talk.gate()) as opened:
        yield opened


def by_hand(store: FileStore, path: str, content: bytes) -> bytes:
    store.directory.mkdir(parents=True, exist_ok=True)
    (store.directory / path).write_bytes(content)
    store.catch_up()
    return content


def by_user(store: FileStore, path: str, content: bytes) -> bytes:
    store.write_file(path, content, writer="user", base=None, pointer=True)
    return content


def rewrite(
    store: FileStore,
    path: str,
    content: bytes,
    *evidence: Evidence,
    writer: Writer = "agent",
    takes_back: tuple[Evidence, ...] = (),
) -> Outcome:
    return store.write_file(
        path,
        content,
        writer=writer,
        base=store.read_bytes(path),
        evidence=evidence,
        takes_back=takes_back,
        session="s",
    )


PUT = {"by hand": by_hand, "by the user": by_user}


@pytest.mark.parametrize("writer", ["agent", "extraction"])
@pytest.mark.parametrize("put", PUT)
@pytest.mark.parametrize("type_", ["user", "feedback", "project", "reference"])
def test_a_rewrite_that_drops_what_a_person_said_waits_with_its_diff_and_can_be_accepted(
    store: FileStore, talk: Talk, writer: Writer, put: str, type_: str
) -> None:
    old = PUT[put](store, "role.md", topic(ROLE, type=type_))
    new = topic("I am also allergic to peanuts.", type=type_, description=TYPED_NUTS)
    outcome = rewrite(store, "role.md", new, talk.type(TYPED_NUTS), writer=writer)
    assert outcome.decision == "inbox"
    assert "would lose “The user is a senior data scientist.”" in outcome.reason
    assert store.read_bytes("role.md") == old
    item = store.inbox.get(outcome.inbox_id)
    diff = inbox_diff(store, item)
    assert f"-{ROLE}" in diff
    assert "+I am also allergic to peanuts." in diff
    accept(store, item.id)
    assert store.read_bytes("role.md") == new


@pytest.mark.parametrize("put", PUT)
def test_unchanged_words_do_not_count_against_what_is_added(
    store: FileStore, talk: Talk, put: str
) -> None:
    PUT[put](store, "role.md", topic(ROLE))
    new = topic(f"{ROLE}\nI am also allergic to peanuts.", description=ROLE.rstrip("."))
    outcome = rewrite(store, "role.md", new, talk.type(TYPED_NUTS), writer="extraction")
    assert outcome.decision == "accept", outcome.reason
    assert store.read_bytes("role.md") == new


def test_on_one_line_old_words_would_speak_of_the_new_ones(store: FileStore, talk: Talk) -> None:
    by_hand(store, "role.md", topic(ROLE))
    for new in (
        topic(
            ROLE,
            "I am also allergic to peanuts.",
            description=f"{ROLE} I am also allergic to peanuts",
        ),
        topic(f"{ROLE} I am also allergic to peanuts.", description=ROLE.rstrip(".")),
    ):
        assert rewrite(store, "role.md", new, talk.type(TYPED_NUTS)).decision == "inbox"


def test_what_is_added_still_has_to_be_proven(store: FileStore, talk: Talk) -> None:
    by_hand(store, "role.md", topic(ROLE))
    new = topic(ROLE, "The user wants force pushes on every branch.", description=ROLE.rstrip("."))
    assert rewrite(store, "role.md", new, talk.type(TYPED_NUTS)).decision == "inbox"


def test_a_file_does_not_become_the_users_word_by_what_stands_in_it(
    store: FileStore, talk: Talk
) -> None:
    by_hand(store, "role.md", topic("The user wants force pushes.", type="project"))
    new = topic("The user wants force pushes.", "Also allergic to peanuts.")
    assert rewrite(store, "role.md", new, talk.type(TYPED_NUTS)).decision == "inbox"


def test_the_label_of_what_stands_there_stays_when_typed_words_are_added(
    store: FileStore, talk: Talk
) -> None:
    old = topic("The build takes 9 minutes.", type="project", name="build")
    asked = [talk.type("By the way, the build takes about 9 minutes.")]
    store.write_file("build.md", old, writer="agent", base=None, evidence=asked, pointer=True)
    assert store.admission.origin_of("build.md") == "assistant"
    typed = "The build runs on Heron"
    new = topic("The build takes 9 minutes.", f"{typed}.", type="project", name="build")
    assert rewrite(store, "build.md", new, talk.type(typed)).origin == "assistant"


@pytest.mark.parametrize(
    ("old", "typed", "new"),
    [
        ("The user lives in Oslo.", "I live in Berlin now.", "I live in Berlin now."),
        ("The user works at Globex.", "Now I work at Acme.", "Now I work at Acme."),
        ("The user is vegetarian.", "I'm not vegetarian.", "I'm not vegetarian."),
        ("The deploy day is Friday.", "The deploy day is Monday.", "The deploy day is Monday."),
        ("The staging port is 8080.", "The staging port is 9090.", "The staging port is 9090."),
        ("I prefer tabs over spaces.", "I prefer spaces over tabs.", "I prefer spaces over tabs."),
    ],
)
@pytest.mark.parametrize("put", PUT)
def test_a_newer_typed_statement_takes_the_place_of_the_one_it_contradicts(
    store: FileStore, talk: Talk, put: str, old: str, typed: str, new: str
) -> None:
    PUT[put](store, "fact.md", topic(old, name="fact"))
    said = talk.type(typed)
    outcome = rewrite(store, "fact.md", topic(new, name="fact"), said, takes_back=(said,))
    assert outcome.decision == "accept", outcome.reason
    assert store.read("fact.md").body.strip() == new


def test_an_older_typed_statement_takes_nothing_back(store: FileStore, talk: Talk) -> None:
    by_user(store, "home.md", topic("The user lives in Oslo.", name="home"))
    said = talk.type("I live in Berlin.", at=time.time() - 3600)
    new = topic("I live in Berlin.", name="home")
    assert rewrite(store, "home.md", new, said, takes_back=(said,)).decision == "inbox"


def test_words_that_nobody_typed_take_nothing_back(store: FileStore, talk: Talk) -> None:
    by_user(store, "home.md", topic("The user lives in Oslo.", name="home"))
    typed = talk.type("I like Berlin.")
    forged = Evidence("I live in Berlin.", "s", typed.entry)
    new = topic("The user lives in Oslo.", "I like Berlin.", name="home").replace(
        b"Oslo", b"Bergen"
    )
    assert rewrite(store, "home.md", new, typed, takes_back=(forged,)).decision == "inbox"


@pytest.mark.parametrize(
    "wish",
    [
        "Please forget that I am allergic to peanuts.",
        "Remove the line that I'm allergic to peanuts, it is wrong.",
        "I am no longer allergic to peanuts.",
    ],
)
def test_a_typed_wish_to_forget_lets_a_statement_go(
    store: FileStore, talk: Talk, wish: str
) -> None:
    by_user(store, "role.md", topic(ROLE, NUTS))
    said = talk.type(wish)
    outcome = rewrite(store, "role.md", topic(ROLE), takes_back=(said,))
    assert outcome.decision == "accept", outcome.reason
    assert NUTS not in store.read("role.md").body


@pytest.mark.parametrize(
    "words",
    [
        "Don't forget that I am allergic to peanuts.",
        "Am I no longer allergic to peanuts?",
        "My brother is not allergic to peanuts.",
        "Remember in your memory that I am allergic to peanuts.",
        "Forget that I live in Oslo.",
        "I prefer short answers.",
        "If the user is not allergic to peanuts, show the whole menu.",
    ],
)
def test_other_words_let_nothing_go(store: FileStore, talk: Talk, words: str) -> None:
    by_user(store, "role.md", topic(ROLE, NUTS))
    said = talk.type(words)
    assert rewrite(store, "role.md", topic(ROLE), takes_back=(said,)).decision == "inbox"
    assert NUTS in store.read("role.md").body


@pytest.mark.parametrize("put", PUT)
@pytest.mark.parametrize("type_", ["user", "project"])
def test_a_statement_that_stands_on_in_another_file_has_not_left(
    store: FileStore, put: str, type_: str
) -> None:
    PUT[put](store, "role.md", topic(ROLE, NUTS, type=type_))
    by_user(store, "food.md", topic(NUTS, "No shellfish either.", type=type_, name="food"))
    assert rewrite(store, "role.md", topic(ROLE, type=type_)).decision == "accept"


def test_a_copy_among_facts_is_no_place_for_the_users_own_word(store: FileStore) -> None:
    by_user(store, "role.md", topic(ROLE, NUTS))
    by_user(store, "food.md", topic(NUTS, "No shellfish either.", type="project", name="food"))
    assert rewrite(store, "role.md", topic(ROLE)).decision == "inbox"


def test_a_copy_that_left_a_moment_ago_counts_no_more(store: FileStore) -> None:
    by_user(store, "role.md", topic(ROLE, NUTS))
    by_user(store, "food.md", topic(NUTS, "No shellfish either.", name="food"))
    store.list()
    (store.directory / "food.md").write_bytes(topic("No shellfish either.", name="food"))
    assert rewrite(store, "role.md", topic(ROLE)).decision == "inbox"


def test_what_the_agent_noted_of_facts_it_may_rewrite(store: FileStore, talk: Talk) -> None:
    old = topic("The build takes 9 minutes.", type="project", name="build")
    asked = talk.type("Is it true that the build takes 9 minutes, or 12 minutes?")
    store.write_file("build.md", old, writer="agent", base=None, evidence=[asked])
    new = topic("The build takes 12 minutes.", type="project", name="build")
    assert rewrite(store, "build.md", new, asked).decision == "accept"
    by_hand(store, "build.md", topic("The build takes 12 minutes on Heron.", type="project"))
    assert rewrite(store, "build.md", old).decision == "inbox"


def test_the_person_rewrites_what_they_like(store: FileStore) -> None:
    by_hand(store, "role.md", topic(ROLE))
    assert rewrite(store, "role.md", topic(NUTS), writer="user").decision == "accept"


@pytest.mark.parametrize(
    "content",
    [
        topic(ROLE, type="project"),
        topic(ROLE, description="Somebody"),
        topic(ROLE.replace("senior ", "")),
        topic("The user is not a senior data scientist."),
        topic("The user was a senior data scientist."),
        topic("The user's brother is a senior data scientist."),
    ],
    ids=["type", "description", "a word", "a not", "the past", "somebody else"],
)
def test_type_description_sign_and_person_belong_to_what_is_said(
    store: FileStore, content: bytes
) -> None:
    old = by_hand(store, "me.md", topic(ROLE, description="Allergic to peanuts"))
    with_rest = content.replace(b"---\n\n", b"---\n\nAllergic to peanuts.\n")
    if b"Somebody" in content:
        with_rest = content
    assert rewrite(store, "me.md", with_rest).decision == "inbox"
    assert store.read_bytes("me.md") == old


def test_code_and_headings_are_said_too() -> None:
    body = "# Never deploy on Fridays\n\nRun it so:\n\n```sh\nmake deploy\n```\n"
    before = Memory("a.md", "a", "", "feedback", body)
    lost = [one.text for one in left_out(before, Memory("a.md", "a", "", "feedback", "Run it so:"))]
    assert lost == ["Never deploy on Fridays", "```sh\nmake deploy\n```"]
    assert left_out(before, before) == []


@pytest.mark.parametrize(
    ("text", "statement", "carried"),
    [
        ("The user is a nurse who likes Rust.", "The user is a nurse.", True),
        ("The user is a nurse, not a doctor.", "The user is a nurse.", True),
        ("Never use mocks.", "Use mocks.", False),
        ("Use mocks.", "Never use mocks.", False),
        ("The port is 8081.", "The port is 8080.", False),
        ("Bob reports to Alice.", "Alice reports to Bob.", False),
        ("The user eats meat.", "The user only eats meat.", False),
        ("My wife is a nurse.", "The user is a nurse.", False),
    ],
)
def test_a_statement_is_carried_with_its_words_numbers_order_sign_and_person(
    text: str, statement: str, carried: bool
) -> None:
    assert carries(text, statement) is carried


@pytest.mark.parametrize(
    "text",
    [
        f"~~{NUTS}~~",
        f"<!-- {NUTS} -->",
        f"[//]: # ({NUTS})",
        f"It is a lie that {NUTS[:1].lower()}{NUTS[1:]}",
        f"Outdated: {NUTS}",
        "The user is allergic to peanuts, which is false.",
        "The user is allergic to peanuts? No.",
        "Nobody believes that the user is allergic to peanuts.",
        "The user denies being allergic to peanuts.",
        "The user is supposedly allergic to peanuts.",
        "The user is hardly allergic to peanuts.",
    ],
)
def test_what_is_repeated_to_call_it_in_question_is_said_no_more(
    store: FileStore, text: str
) -> None:
    by_hand(store, "nuts.md", topic(NUTS, type="project", name="nuts"))
    assert rewrite(store, "nuts.md", topic(text, type="project", name="nuts")).decision == "inbox"


# ---- behind the store's back


@pytest.mark.parametrize("put", PUT)
@pytest.mark.parametrize("type_", ["user", "project"])
def test_a_file_that_a_tool_removed_comes_back_and_its_removal_waits(
    store: FileStore, put: str, type_: str
) -> None:
    old = PUT[put](store, "role.md", topic(ROLE, type=type_))
    (store.directory / "role.md").unlink()
    [outcome] = attribute(store, writer="agent", reason="Bash")
    assert not isinstance(outcome, GateRefused)
    assert outcome.decision == "inbox"
    assert store.read_bytes("role.md") == old
    item = store.inbox.get(outcome.inbox_id)
    assert f"-{ROLE}" in inbox_diff(store, item)
    assert "+++ /dev/null" in inbox_diff(store, item)
    accept(store, item.id)
    assert list(store.list()) == []
    assert len(store.tombstones.all()) == 1
    assert store.inbox.items() == []


def test_a_rejected_removal_forgets_nothing(store: FileStore, talk: Talk) -> None:
    by_hand(store, "role.md", topic(ROLE))
    (store.directory / "role.md").unlink()
    [outcome] = attribute(store, writer="agent")
    assert isinstance(outcome, Outcome)
    reject(store, outcome.inbox_id)
    assert store.tombstones.all() == []
    new = topic(ROLE, "I am also allergic to peanuts.", description=ROLE.rstrip("."))
    assert rewrite(store, "role.md", new, talk.type(TYPED_NUTS)).decision == "accept"


def test_rejecting_a_rewrite_keeps_only_its_new_words_away(store: FileStore, talk: Talk) -> None:
    by_hand(store, "role.md", topic(ROLE, NUTS))
    outcome = rewrite(store, "role.md", topic(ROLE, "The user hates every kind of test."))
    reject(store, outcome.inbox_id)
    typed = talk.type("I live in Oslo with two cats")
    new = topic(ROLE, NUTS, "I live in Oslo with two cats.")
    assert rewrite(store, "role.md", new, typed, writer="extraction").decision == "accept"


def test_a_file_goes_by_a_tool_if_the_user_asked_for_it(store: FileStore, talk: Talk) -> None:
    by_user(store, "role.md", topic(ROLE))
    wish = talk.type("Forget that I am a senior data scientist.")
    (store.directory / "role.md").unlink()
    [outcome] = attribute(store, writer="agent", session="s", takes_back=lambda _: [wish])
    assert isinstance(outcome, Outcome)
    assert outcome.decision == "accept"
    assert list(store.list()) == []


def test_two_files_of_one_command_do_not_vouch_for_each_other(store: FileStore) -> None:
    by_user(store, "a.md", topic(ROLE, NUTS, name="a"))
    by_user(store, "b.md", topic("The user lives in Oslo.", NUTS, name="b"))
    (store.directory / "a.md").write_bytes(topic(ROLE, name="a"))
    (store.directory / "b.md").write_bytes(topic("The user lives in Oslo.", name="b"))
    attribute(store, writer="agent")
    assert any(NUTS in (store.directory / name).read_text() for name in ("a.md", "b.md"))


def test_a_statement_moved_to_a_file_that_the_gate_does_not_take_stays(store: FileStore) -> None:
    by_hand(store, "a.md", topic(ROLE, NUTS, name="a"))
    (store.directory / "a.md").write_bytes(topic(ROLE, name="a"))
    (store.directory / "z.md").write_bytes(topic(NUTS, name="z"))
    attribute(store, writer="agent")
    assert NUTS in (store.directory / "a.md").read_text()


def test_lines_of_the_index_that_no_memory_says_stay(store: FileStore) -> None:
    by_user(store, "role.md", topic(ROLE))
    index = store.directory / "MEMORY.md"
    prose = "The office is closed on Tuesdays."
    index.write_text(f"{prose}\n{index.read_text()}")
    store.catch_up()
    before = index.read_text()
    index.write_text(before.replace(prose, ""))
    [outcome] = attribute(store, writer="agent")
    assert isinstance(outcome, Outcome)
    assert outcome.decision == "inbox"
    index.unlink()
    [refused] = attribute(store, writer="agent")
    assert isinstance(refused, GateRefused)
    assert index.read_text() == before


def _grow(file: Path) -> None:
    file.write_text("a" * (LARGEST + 1))


def _link(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/null")


def _folder(file: Path) -> None:
    file.unlink()
    (file / "more").mkdir(parents=True)


def _lock(file: Path) -> None:
    file.write_bytes(topic("The user hates tests."))
    file.chmod(0o400)


def _same_time(file: Path) -> None:
    known = file.stat()
    with file.open("r+b") as opened:
        opened.seek(-10, os.SEEK_END)
        opened.write(b"X")
    os.utime(file, ns=(known.st_atime_ns, known.st_mtime_ns))


def _whole_directory(file: Path) -> None:
    shutil.rmtree(file.parent)


def _moved_directory(file: Path) -> None:
    file.parent.rename(file.parent.with_name("elsewhere"))


@pytest.mark.parametrize(
    "trick", [_grow, _link, _folder, _lock, _same_time, _whole_directory, _moved_directory]
)
def test_no_trick_of_a_command_hides_what_it_did_to_a_file(
    store: FileStore, trick: Callable[[Path], None]
) -> None:
    for name in ("role.md", "rule.md"):
        kind, said = (
            ("user", ROLE) if name == "role.md" else ("feedback", "Never deploy on Fridays.")
        )
        by_user(store, name, topic(said, type=kind, name=name[:4]))
        os.utime(store.directory / name, (1e9, 1e9))
    store.catch_up()
    before = {path.name: path.read_bytes() for path in store.directory.glob("*.md")}
    trick(store.directory / "role.md")
    rule = store.directory / "rule.md"
    if rule.exists():
        rule.write_bytes(before["rule.md"].replace(b"Never", b"Always"))
    assert not nothing_new(store.files, store.scanner)
    outcomes = attribute(store, writer="agent")
    assert all(isinstance(one, GateRefused) or one.decision == "inbox" for one in outcomes)
    assert {path.name: path.read_bytes() for path in store.directory.glob("*.md")} == before


def test_a_file_that_a_person_let_grow_too_large_stays(store: FileStore) -> None:
    by_hand(store, "role.md", topic(ROLE))
    _grow(store.directory / "role.md")
    store.catch_up()
    (store.directory / "other.md").write_text("x")
    attribute(store, writer="agent")
    assert (store.directory / "role.md").stat().st_size == LARGEST + 1


@pytest.mark.parametrize("how", ["empty", "gone"])
def test_an_index_that_leads_to_memories_is_not_emptied_by_a_command(
    store: FileStore, how: str
) -> None:
    by_hand(store, "role.md", topic(ROLE, description=ROLE))
    index = store.directory / "MEMORY.md"
    index.write_text(f"- [role](role.md) — {ROLE}\n")
    store.catch_up()
    before = index.read_bytes()
    index.write_text("") if how == "empty" else index.unlink()
    [outcome] = attribute(store, writer="agent")
    assert isinstance(outcome, GateRefused) or outcome.decision == "inbox"
    assert index.read_bytes() == before


LINES = [
    ROLE,
    NUTS,
    "The user lives in Oslo.",
    "Never deploy on Fridays.",
    "The staging port is 8080.",
    "Alice reviews before Bob.",
]
TYPED = ["I live in Bergen now.", "Forget that I am allergic to peanuts.", "Hello there."]
NEW = ["The user lives in Bergen.", "Deploy on Fridays.", "The staging port is 8081.", "Hello there."]  # fmt: skip
FILES = st.dictionaries(
    st.sampled_from(["a.md", "b.md"]),
    st.tuples(
        st.sampled_from(["user", "feedback", "project"]),
        st.lists(st.sampled_from(LINES), min_size=1, max_size=4, unique=True),
    ),
    min_size=1,
)
WISH = st.one_of(st.none(), st.lists(st.sampled_from(LINES + NEW), max_size=4, unique=True))


@examples(200, suppress=[HealthCheck.function_scoped_fixture])
@given(files=FILES, wishes=st.dictionaries(st.sampled_from(["a.md", "b.md"]), WISH, min_size=1),
       typed=st.sampled_from(TYPED), bash=st.booleans(), hand=st.booleans())  # fmt: skip
def test_whatever_a_writer_does_each_statement_stands_or_the_user_took_it_back(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, tuple[str, list[str]]],
    wishes: dict[str, list[str] | None],
    typed: str,
    bash: bool,
    hand: bool,
) -> None:
    talk = Talk()
    with FileStore(tmp_path_factory.mktemp("any") / "memory", gate=talk.gate()) as store:
        for path, (type_, lines) in files.items():
            put = by_hand if hand else by_user
            put(store, path, topic(*lines, type=type_, name=path[0]))
        said = talk.type(typed)
        before = list(map(store.read, files))
        for path, wish in wishes.items():
            kind = files.get(path, ("user", []))[0]
            content = topic(*wish, type=kind, name=path[0]) if wish else None
            if bash:
                file = store.directory / path
                file.unlink(missing_ok=True) if content is None else file.write_bytes(content)
            elif content is not None:
                old = store.files.read(path)
                try:
                    store.write_file(path, content, writer="agent", base=old, evidence=[said],
                                     takes_back=[said], session="s")  # fmt: skip
                except GateRefused:
                    continue
        if bash:
            attribute(store, writer="agent", session="s", evidence=[said], takes_back=lambda _: [said])  # fmt: skip
        now = [store.read(memory.path) for memory in store.list()]
        for memory in before:
            for line in memory.body.splitlines():
                assert still_said(line, now) or takes_back(typed, line, memory.path), line


@pytest.mark.parametrize(
    "hidden",
    [
        topic("`The merge freeze ends on Friday.`", type="project"),
        topic("Nothing new here.", type="project").replace(
            b"type: project\n", b"type: project\nnote: The merge freeze ends on Friday.\n"
        ),
    ],
    ids=["in backticks", "in a key that nobody reads"],
)
def test_a_statement_that_is_only_shown_or_put_aside_has_left(
    store: FileStore, hidden: bytes, talk: Talk
) -> None:
    by_hand(store, "freeze.md", topic("The merge freeze ends on Friday.", type="project"))
    asked = talk.type("Is there nothing new here to see?")
    assert rewrite(store, "freeze.md", hidden, asked).decision == "inbox"


def test_a_file_of_the_agents_own_does_not_take_over_what_a_person_said(
    store: FileStore, talk: Talk
) -> None:
    freeze = topic("The merge freeze ends on Friday.", type="project", name="freeze")
    by_hand(
        store, "freeze.md", topic("The merge freeze ends on Friday.", "Ana knows.", type="project")
    )
    asked = talk.type("Is it true that the merge freeze ends on Friday?")
    store.write_file("copy.md", freeze, writer="agent", base=None, evidence=[asked], session="s")
    rest = topic("Ana knows.", type="project")
    assert rewrite(store, "freeze.md", rest, asked).decision == "inbox"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("I moved, I live in Munich now.", "The user lives in Berlin."),
        ("Ich wohne jetzt in Bonn.", "Der Nutzer wohnt in Köln."),
        ("Ich bin umgezogen, ich wohne jetzt in Bonn.", "Der Nutzer wohnt in Köln."),
        ("我搬家了，现在住在北京", "用户住在上海"),
    ],
)
def test_a_new_home_ends_the_old_one_also_after_a_word_on_the_move(typed: str, said: str) -> None:
    assert takes_back(typed, said, "user_home.md")
    assert not takes_back(typed, typed.replace("jetzt ", ""), "user_home.md")
