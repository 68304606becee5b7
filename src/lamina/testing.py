"""Checks that any store of memories must pass, for people who write their own.

Each check takes a function that opens a new, empty store, and raises AssertionError with a sentence
where the store breaks the protocol of `lamina.ports.MemoryStore`. With pytest:

    @pytest.mark.parametrize("check", lamina.testing.STORE_CHECKS, ids=lambda check: check.__name__)
    def test_my_store_keeps_the_protocol(check, tmp_path):
        check(lambda: MyStore(tmp_path))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from lamina.errors import Conflict, GateRefused, LaminaError, MemoryStoreError
from lamina.memories import Memory, Proposal
from lamina.ports import MemoryStore

OpenStore: TypeAlias = Callable[[], MemoryStore]


def a_memory(path: str = "user_role.md", **changes: object) -> Proposal:
    """A proposal by the user that every gate accepts."""
    plain = Proposal(
        path=path,
        name=f"About {path.removesuffix('.md').replace('_', ' ')}",
        description=f"What {path.removesuffix('.md')} stands for",
        type="project",
        body=f"The file {path} was written by a check.\nIt has two lines.",
        writer="user",
    )
    return replace(plain, **changes)


def _expect(holds: object, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


def _expect_error(kind: type[LaminaError], action: Callable[[], object], what: str) -> None:
    try:
        action()
    except kind:
        return
    raise AssertionError(f"{what} must raise {kind.__name__}")


def an_empty_store_lists_nothing(open_store: OpenStore) -> None:
    store = open_store()
    _expect(list(store.list()) == [], "a new store lists no memories")
    _expect(list(store.search("anything at all")) == [], "a new store finds nothing")
    _expect_error(MemoryStoreError, lambda: store.read("absent.md"), "reading what is not there")


def what_is_written_is_read_again(open_store: OpenStore) -> None:
    store = open_store()
    wanted = a_memory(body="Line one: ünïcode — “quotes”.\n\n- a list\n", extra={"source": "check"})
    outcome = store.write(wanted)
    _expect((outcome.decision, outcome.changed) == ("accept", True), "a plain write is accepted")
    found = store.read(wanted.path)
    _expect(found.path == wanted.path, "a memory knows its path")
    _expect(found.name == wanted.name, "the name survives")
    _expect(found.description == wanted.description, "the description survives")
    _expect(found.type == wanted.type, "the type survives")
    _expect(found.body.strip() == wanted.body.strip(), "the body survives")
    _expect(found.extra.get("source") == "check", "keys that nobody knows survive")


def every_type_survives(open_store: OpenStore) -> None:
    store = open_store()
    for kind in ("user", "feedback", "project", "reference"):
        store.write(
            a_memory(f"{kind}_x.md", type=kind, body=f"Only {kind} words here: {kind * 3}.")
        )
        _expect(store.read(f"{kind}_x.md").type == kind, f"the type {kind} survives")


def the_list_is_complete_and_newest_first(open_store: OpenStore) -> None:
    store = open_store()
    for path in ("alpha.md", "beta.md", "team/gamma.md"):
        store.write(a_memory(path))
    listed = list(store.list())
    paths = {memory.path for memory in listed}
    _expect(paths == {"alpha.md", "beta.md", "team/gamma.md"}, "every memory is listed, no index")
    times = [memory.mtime for memory in listed]
    _expect(times == sorted(times, reverse=True), "the newest memory comes first")


def the_same_again_changes_nothing(open_store: OpenStore) -> None:
    store = open_store()
    store.write(a_memory())
    _expect(not store.write(a_memory()).changed, "writing the same again changes nothing")


def a_blind_overwrite_is_a_conflict(open_store: OpenStore) -> None:
    store = open_store()
    store.write(a_memory())
    other = a_memory(body="Something else altogether.")
    _expect_error(Conflict, lambda: store.write(other), "overwriting without having read")
    _expect("two lines" in store.read(other.path).body, "a conflict changes nothing")
    store.write(other, replace=True)
    _expect("else altogether" in store.read(other.path).body, "`replace` overwrites")


def an_update_names_what_it_read(open_store: OpenStore) -> None:
    store = open_store()
    store.write(a_memory())
    base = store.read("user_role.md")
    store.write(a_memory(body="Changed.", description=base.description), base=base)
    _expect(store.read("user_role.md").body.strip() == "Changed.", "an update is written")
    gone = store.read("user_role.md")
    store.forget("user_role.md")
    late = a_memory(body="Late.")
    _expect_error(Conflict, lambda: store.write(late, base=gone), "updating what was removed")


def two_changes_that_fit_are_both_kept(open_store: OpenStore) -> None:
    store = open_store()
    body = "one\ntwo\nthree\nfour\nfive"
    store.write(a_memory(body=body))
    base = store.read("user_role.md")
    store.write(a_memory(body=body.replace("one", "ONE")), base=base)
    store.write(a_memory(body=body.replace("five", "FIVE")), base=base)
    found = store.read("user_role.md").body.split()
    _expect(found == ["ONE", "two", "three", "four", "FIVE"], "both writers' lines are kept")


def two_changes_that_clash_are_a_conflict(open_store: OpenStore) -> None:
    store = open_store()
    store.write(a_memory(body="one\ntwo"))
    base = store.read("user_role.md")
    store.write(a_memory(body="one\nTWO"), base=base)
    late = a_memory(body="one\n2")
    _expect_error(Conflict, lambda: store.write(late, base=base), "a clash")
    _expect(store.read("user_role.md").body.split() == ["one", "TWO"], "the first one stays")


def a_rename_moves_everything(open_store: OpenStore) -> None:
    store = open_store()
    store.write(a_memory("old.md"))
    before = store.read("old.md")
    store.rename("old.md", "new.md")
    after = store.read("new.md")
    _expect(_words(after) == _words(before), "a rename changes no word")
    _expect_error(MemoryStoreError, lambda: store.read("old.md"), "reading the old name")
    store.write(a_memory("other.md", body="Quite different words, to be no double."))
    _expect_error(LaminaError, lambda: store.rename("other.md", "new.md"), "taking a taken name")


def _words(memory: Memory) -> tuple[str, str, object, str]:
    return memory.name, memory.description, memory.type, memory.body


def what_is_forgotten_is_gone_and_stays_gone(open_store: OpenStore) -> None:
    store = open_store()
    store.write(a_memory())
    store.forget("user_role.md")
    _expect_error(MemoryStoreError, lambda: store.read("user_role.md"), "reading the forgotten")
    _expect(list(store.list()) == [], "the forgotten is not listed")
    again = a_memory("other_name.md", writer="extraction")
    again = replace(again, name=a_memory().name, description=a_memory().description)
    again = replace(again, body=a_memory().body)
    _expect_error(GateRefused, lambda: store.write(again), "extraction bringing it back")
    _expect_error(MemoryStoreError, lambda: store.forget("user_role.md"), "forgetting twice")


def search_finds_words_in_any_form(open_store: OpenStore) -> None:
    store = open_store()
    store.write(a_memory("deploys.md", description="How deployments run", body="Blue and green."))
    store.write(a_memory("tests.md", description="How tests are written", body="Real parts only."))
    hits = store.search("deployment")
    _expect([hit.memory.path for hit in hits] == ["deploys.md"], "only what shares words is found")
    _expect(len(store.search("how written deployment real green", limit=1)) == 1, "the limit holds")


def bad_names_are_refused(open_store: OpenStore) -> None:
    store = open_store()
    for path in _BAD_NAMES:
        _expect_error(
            LaminaError, lambda path=path: store.write(a_memory(path)), f"the name {path!r}"
        )
    _expect(list(store.list()) == [], "a refused write leaves nothing")


_BAD_NAMES = (
    *("", ".md", "x", "x.txt", "/etc/x.md", "../x.md", "a/../../x.md", "a//b.md", "./x.md"),
    *("X.md", "a b.md", "con.md", "nul.md", "a\x00b.md", "x.md/", "..md/../y.md", "\\\\h\\x.md"),
    *("x" * 81 + ".md", "memory.md", "ünï.md", "a\u202eb.md", "%2e%2e%2fx.md", "c:x.md", "x\n.md"),
)


def hidden_characters_are_refused(open_store: OpenStore) -> None:
    store = open_store()
    sneaky = a_memory(body="plain\u202e text \u200b here")
    _expect_error(GateRefused, lambda: store.write(sneaky), "hidden characters")


def a_second_store_sees_the_first_ones_work(open_store: OpenStore) -> None:
    first, second = open_store(), open_store()
    first.write(a_memory("alpha.md"))
    _expect([one.path for one in second.list()] == ["alpha.md"], "both look at the same memory")
    second.write(a_memory("beta.md", body="Quite different words, to be no double."))
    _expect(len(first.list()) == 2, "each sees what the other wrote")


STORE_CHECKS: tuple[Callable[[OpenStore], None], ...] = (
    an_empty_store_lists_nothing,
    what_is_written_is_read_again,
    every_type_survives,
    the_list_is_complete_and_newest_first,
    the_same_again_changes_nothing,
    a_blind_overwrite_is_a_conflict,
    an_update_names_what_it_read,
    two_changes_that_fit_are_both_kept,
    two_changes_that_clash_are_a_conflict,
    a_rename_moves_everything,
    what_is_forgotten_is_gone_and_stays_gone,
    search_finds_words_in_any_form,
    bad_names_are_refused,
    hidden_characters_are_refused,
    a_second_store_sees_the_first_ones_work,
)
