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

from lamina.errors import Conflict, GateRefused, LaminaError, MemoryStoreError, UsageError
from lamina.memories import Change, Memory, Note, Proposal, Verdict
from lamina.ports import MemoryStore

OpenStore: TypeAlias = Callable[[], MemoryStore]


def a_memory(path: str = "user_role.md", **changes: object) -> Proposal:
    """A proposal by the user that every gate accepts."""
    plain = Proposal(
        path=path,
        name=f"About {path.removesuffix('.md').replace('_', ' ')}",
        description=f"The name {path.removesuffix('.md')} is in a check",
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


def files_and_memories_are_the_same_thing(open_store: OpenStore) -> None:
    store = open_store()
    store.write(a_memory())
    whole = store.read_bytes("user_role.md")
    _expect(store.content("user_role.md") == whole, "`content` gives the bytes")
    _expect(store.content("user_role.md", 5) == whole[:5], "`content` gives the first bytes")
    _expect(store.content("absent.md") is None, "what is not there has no content")
    _expect(store.mtime("user_role.md") > 0, "a memory has a time")
    _expect([one.path for one in store.newest(1)] == ["user_role.md"], "`newest` finds it")
    _expect("user_role.md" in store.index().text, "the index points at it")
    before = dict(store.stamps())
    _expect([*before] == ["user_role.md"], "every memory has a stamp, the index has none")
    store.write(a_memory(body="Other words, and many more of them than before."), replace=True)
    _expect(store.stamps() != before, "a change changes the stamp")


def what_is_remembered_finds_its_name(open_store: OpenStore) -> None:
    store = open_store()
    _expect(store.remember(a_memory()).changed, "the first time it is kept")
    _expect(not store.remember(a_memory()).changed, "the second time it is there already")
    other = a_memory(name="Kiosk", description="What a kiosk costs", body="Nine coins a day.")
    outcome = store.remember(other)
    _expect(outcome.path != other.path, "a taken name makes way for the next one")
    _expect("Nine coins" in store.read(outcome.path).body, "and it is kept under that")


def a_file_is_written_over_what_was_read(open_store: OpenStore) -> None:
    store = open_store()
    store.write(a_memory())
    old = store.read_bytes("user_role.md")
    new = old.replace(b"It has two lines.", b"It has another line.")
    store.write_file("user_role.md", new, writer="user", base=old)
    _expect(store.read_bytes("user_role.md") == new, "a file is kept byte for byte")
    late = old.replace(b"It has two lines.", b"It has a late line.")
    _expect_error(
        Conflict,
        lambda: store.write_file("user_role.md", late, writer="user", base=old),
        "writing over what was not read",
    )


def what_waits_is_taken_or_dropped(open_store: OpenStore) -> None:
    store = open_store()
    store.write(a_memory())
    content = store.read_bytes("user_role.md")
    store.forget("user_role.md", tombstone=False)
    doubt = Verdict("inbox", "somebody should look at it")
    item = store.hold(a_memory(), doubt, content)
    _expect([one.id for one in store.waiting()] == [item.id], "it waits")
    _expect(store.waiting_item(item.id[:-1] or item.id).reason == doubt.reason, "with its reason")
    store.accept(item.id)
    _expect(store.read_bytes("user_role.md") == content, "accepted, it is written")
    dropped = store.hold(a_memory("other.md", body="Quite different words."), doubt, b"Other\n")
    store.reject(dropped.id)
    _expect(list(store.waiting()) == [], "nothing waits any more")
    _expect(store.content("other.md") is None, "rejected, it is not written")
    _expect_error(UsageError, lambda: store.waiting_item(dropped.id), "asking for what is gone")


def a_pinned_memory_is_the_users_alone(open_store: OpenStore) -> None:
    store = open_store()
    store.write(a_memory())
    store.pin("user_role.md")
    _expect(store.pinned() == {"user_role.md"}, "a pin holds")
    _expect_error(
        GateRefused, lambda: store.forget("user_role.md", writer="agent"), "the agent taking it"
    )
    store.pin("user_role.md", on=False)
    _expect(store.pinned() == set(), "a pin can be taken away")


def a_wish_to_forget_finds_its_memory(open_store: OpenStore) -> None:
    store = open_store()
    store.write(a_memory())
    _expect(store.meant("walruses in winter").fit == "none", "what nobody said is not found")
    found = store.meant("user_role.md")
    _expect(found.fit == "certain", "a name is certain")
    done = store.forget_meant(found.memories[0], writer="user")
    _expect(done.path == "user_role.md", "it says what went")
    _expect(store.content("user_role.md") is None, "and it went")


def judged_changes_come_in_together(open_store: OpenStore) -> None:
    store = open_store()
    store.write(a_memory())
    old = store.read_bytes("user_role.md")
    changes = [Change("new.md", None, old), Change("user_role.md", old, None)]
    note = Note(writer="dream", subject="a check")

    def stop() -> None:
        raise Conflict("somebody else was here")

    _expect_error(Conflict, lambda: store.apply(changes, note, first=stop), "what `first` stops")
    _expect(store.content("user_role.md") == old, "then nothing changed")
    _expect(store.apply(changes, note, first=lambda: None), "else all of it is done")
    _expect([*store.stamps()] == ["new.md"], "all of it")


def a_history_takes_back_what_it_recorded(open_store: OpenStore) -> None:
    store = open_store()
    store.write(a_memory())
    history, newest = store.history, store.newest_change()
    if history is None:
        _expect(newest == "", "a store without history names no change")
        return
    _expect(history.find(newest) == next(history.log()).id, "the newest change is in the log")
    _expect("user_role.md" in history.undo(newest), "an undo names what it changed")
    _expect(store.content("user_role.md") is None, "and it is as it was before")


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
    files_and_memories_are_the_same_thing,
    what_is_remembered_finds_its_name,
    a_file_is_written_over_what_was_read,
    what_waits_is_taken_or_dropped,
    a_pinned_memory_is_the_users_alone,
    a_wish_to_forget_finds_its_memory,
    judged_changes_come_in_together,
    a_history_takes_back_what_it_recorded,
    a_second_store_sees_the_first_ones_work,
)
