"""Names of memories: what they keep of a sentence, and what happens where one is taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.errors import NameTaken
from lamina.memories import Proposal, Writer
from lamina.memory.file_store import FileStore
from lamina.memory.naming import file_name, free_names, negates, title_of, why_bad_name
from lamina.memory.review import accept, inbox_diff
from lamina.testing import a_memory
from lamina.text.likeness import tells_apart

DENIES = (
    "Don't push to main.",
    "Don’t use mocks in the tests",
    "Do not deploy on Friday",
    "We use pnpm, not npm",
    "Never commit generated files",
    "No tabs in Python files",
    "Ship nothing without a review",
    "You can't reach the staging host from the office network in the evening",
    "Please keep the long list of all the exported names in this file, which we do not sort",
    "Kein Deployment am Freitag",
    "Wir deployen am Freitag wegen der vielen Kunden in Europa nicht",
    "Das Feld bleibt nie leer",
    "Niemals ohne Tests mergen",
    "Keine Umlaute in Dateinamen",
    "不要用 npm 安装",
    "别在周五部署 API",
    "我们没用 Redis",
    "请勿修改 main 分支",
    "我们用 pnpm，不用 npm",
)
AFFIRMS = (
    "Push to main.",
    "Do deploy on Friday",
    "No, use pnpm",
    "Use the notary service for signatures",
    "The kernel is nine years old",
    "Wir deployen am Freitag",
    "Der Knoten heißt Nierenstein",
    "特别喜欢 pnpm",
    "不过 API 很快",
    "区别在于 port 8",
)


@pytest.mark.spec("L5.6")
@pytest.mark.parametrize("sentence", [*DENIES, *AFFIRMS])
def test_a_name_and_a_title_say_no_exactly_where_the_sentence_does(sentence: str) -> None:
    wanted = sentence in DENIES
    assert negates(sentence) == wanted
    assert negates(title_of(sentence)) == wanted
    assert negates(file_name("feedback", sentence).removesuffix(".md")) == wanted


@pytest.mark.spec("L5.6")
@settings(max_examples=60)
@given(st.lists(st.sampled_from([*" ".join((*DENIES, *AFFIRMS)).split(), "1", "B"]), max_size=30))
def test_whatever_the_words_the_name_is_a_name_and_keeps_their_polarity(words: list[str]) -> None:
    text = " ".join(words)
    name = file_name("reference", text)
    assert why_bad_name(name) == ""
    assert all(why_bad_name(one) == "" for one in free_names(name, text))
    assert negates(name.removesuffix(".md")) == negates(text)


@pytest.mark.spec("L5.6")
@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("Don't push to main.", "project_dont_push_main.md"),
        ("we use pnpm, not npm", "project_use_pnpm_not_npm.md"),
        ("Use port 8 for the API", "project_use_port_8_api.md"),
        ("the API of shop A is on port 1", "project_api_shop_a_port_1.md"),
        ("the door of shop a", "project_door_shop_a.md"),
        ("A shop is closed", "project_shop_closed.md"),
        ("I am at a shop", "project_shop.md"),
        ("customer 1 wants delivery in week 2", "project_customer_1_wants_delivery_week_2.md"),
        ("für Käse", "project_kaese.md"),
    ],
)
def test_numbers_letters_and_negations_stay_in_the_name(sentence: str, name: str) -> None:
    assert file_name("project", sentence) == name


@pytest.mark.spec("L5.6")
def test_a_title_that_turns_the_memory_round_names_no_file() -> None:
    said = "Don't push to main"
    assert file_name("feedback", "Push to main", said) == "feedback_dont_push_main.md"
    assert file_name("feedback", "Push policy", said) == "feedback_push_policy.md"


@pytest.mark.spec("L5.6")
@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("Shop A is closed", "Shop B is closed", True),
        ("Customer 1 pays in week 9", "Customer 2 pays in week 9", True),
        ("Deploy on Friday", "Don't deploy on Friday", True),
        ("Am Freitag deployen", "Am Freitag nicht deployen", True),
        ("I prefer tabs over spaces", "I prefer four spaces over tabs", True),
        ("Lint before the tests", "Lint after the tests", True),
        ("Shop A is closed", "Shop A is closed today", False),
        ("The build takes 9 minutes", "The build takes 9 minutes on 4 cores", False),
        ("Run the tests, then commit", "Commit, then run the tests", False),
    ],
)
def test_a_letter_a_number_or_a_no_tells_two_memories_apart(
    one: str, other: str, apart: bool
) -> None:
    assert tells_apart(one, other) is apart
    assert tells_apart(other, one) is apart


# ---- where a name is taken

WRITERS: tuple[Writer, ...] = ("user", "agent", "extraction")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    with FileStore(tmp_path / "memory") as opened:
        yield opened


def fact(body: str, writer: Writer = "user", path: str = "project_port.md") -> Proposal:
    return dataclasses.replace(
        a_memory(path, name="Port", description=body, body=body), writer=writer
    )


@pytest.mark.spec("L5.6")
@pytest.mark.parametrize("writer", WRITERS)
def test_another_fact_under_the_same_name_gets_the_next_one(
    store: FileStore, writer: Writer
) -> None:
    for word in ("walrus", "pelican", "otter"):
        store.remember(fact(f"The {word} listens.", writer))
    paths = ["project_port.md", "project_port-2.md", "project_port-3.md"]
    assert sorted(one.path for one in store.list()) == sorted(paths)
    assert [store.read(path).body for path in paths] == [
        f"The {word} listens." for word in ("walrus", "pelican", "otter")
    ]


@pytest.mark.spec("L5.6")
@pytest.mark.parametrize("writer", WRITERS)
def test_the_same_fact_is_not_written_twice_and_more_of_it_updates_its_file(
    store: FileStore, writer: Writer
) -> None:
    store.remember(fact("The walrus listens.", writer))
    again = store.remember(fact("The walrus listens.", writer))
    assert (again.path, again.changed) == ("project_port.md", False)
    grown = store.remember(fact("The walrus listens. It runs at night.", writer))
    assert (grown.path, grown.changed) == ("project_port.md", True)
    assert [one.path for one in store.list()] == ["project_port.md"]


@pytest.mark.spec("L5.6")
def test_the_opposite_never_takes_the_place_of_what_it_contains(store: FileStore) -> None:
    store.remember(fact("Deploy on Friday."))
    store.remember(fact("Don't deploy on Friday."))
    assert store.read("project_port.md").body == "Deploy on Friday."
    assert store.read("project_port-2.md").body == "Don't deploy on Friday."


@pytest.mark.spec("L5.6")
def test_a_pinned_memory_or_one_in_capitals_only_costs_the_name(store: FileStore) -> None:
    store.remember(fact("The walrus listens."))
    store.pin("project_port.md")
    assert store.remember(fact("The otter listens.", "agent")).path == "project_port-2.md"
    (store.directory / "Project_Host.md").write_text("---\nname: Host\n---\n\nA penguin.\n")
    new = store.remember(fact("Quite another host.", "agent", "project_host.md"))
    assert new.path == "project_host-2.md"


@pytest.mark.spec("L5.6")
def test_a_name_that_the_writer_insists_on_is_refused_in_words_for_people(
    store: FileStore,
) -> None:
    store.write(fact("The walrus listens."))
    with pytest.raises(NameTaken, match=r"another memory already\. Give this one another name"):
        store.write(fact("The otter listens."))


@pytest.mark.spec("L5.6")
@pytest.mark.parametrize("exact", [False, True])
def test_what_waited_while_its_name_was_taken_is_accepted_under_the_next(
    store: FileStore, exact: bool
) -> None:
    waiting = dataclasses.replace(fact("The user likes tea.", "agent"), type="user")
    if exact:
        content = b"---\nname: Tea\ndescription: The user likes tea\ntype: user\n---\n\nTea.\n"
        item = store.write_file("project_port.md", content, writer="agent", base=None).inbox_id
    else:
        item = store.remember(waiting).inbox_id
    store.remember(fact("The walrus listens."))
    assert "walrus" not in inbox_diff(store, store.inbox.get(item))
    assert accept(store, item).path == "project_port-2.md"
    assert store.read("project_port.md").body == "The walrus listens."
    assert "ea." in store.read("project_port-2.md").body


def test_a_title_that_is_not_the_whole_sentence_shows_it() -> None:
    said = "We deploy on Thursdays only, so never suggest a Friday release."
    assert title_of(said) == "We deploy on Thursdays only, so never suggest a Friday…"
    assert title_of("Never push to main.") == "Never push to main"
