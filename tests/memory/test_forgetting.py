"""Which memory a wish to forget means, and how it stays away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import Conflict, GateRefused, MemoryStoreError
from lamina.memories import Meant, Memory, Parted
from lamina.memory.file_store import FileStore
from lamina.memory.forgetting import forget, keep_away, meant, not_forgotten
from lamina.memory.removal import parted
from lamina.memory.review import attribute
from lamina.testing import a_memory
from lamina.text.asks import ForgetWish, asks_to_forget, forget_wish
from lamina.text.wording import content_stems

pytestmark = pytest.mark.spec("M10")

TABS = a_memory(
    "user_tabs.md",
    type="user",
    name="Tabs",
    description="Prefers tabs over spaces in Python files",
    body="I prefer tabs over spaces in Python files.",
)
HERON = a_memory(
    "project_heron.md",
    name="Heron",
    description="The staging server is called Heron",
    body="The staging server is called Heron and stands in Berlin.",
    writer="agent",
)
BERLIN = a_memory(
    "user_home.md",
    type="user",
    name="Home",
    description="Lives in Berlin",
    body="I live in Berlin since March 2024.",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    with FileStore(tmp_path / "memory") as opened:
        for one in (TABS, HERON, BERLIN):
            opened.remember(one)
        opened.catch_up()
        yield opened


def paths(found: Meant) -> set[str]:
    return {memory.path for memory in found.memories}


# ---- the wish


@pytest.mark.parametrize(
    ("sentence", "words", "claim"),
    [
        ("forget that I prefer tabs", "I prefer tabs", True),
        ("Please forget what I said about my salary.", "my salary", False),
        ("could you forget that we deploy on Fridays?", "we deploy on Fridays", True),
        ("forget the fact that I live in Berlin. Thanks!", "I live in Berlin", True),
        ("Forget everything about Project Heron", "Project Heron", False),
        ("forget my birthday", "my birthday", False),
        ("can you forget the thing about Heron", "Heron", False),
        ("forget where I live", "I live", False),
        ("forget `user_role.md`", "user_role.md", False),
        ("vergiss, dass ich bei Siemens arbeite", "ich bei Siemens arbeite", True),
        ("Bitte vergiss, was ich dir über mein Gehalt gesagt habe.", "mein Gehalt", False),
        ("Kannst du bitte vergessen, dass ich Tee mag?", "ich Tee mag", True),
        ("Please don't remember that I live in Oslo.", "I live in Oslo", True),
        ("I don't want you to remember that I live in Oslo", "I live in Oslo", True),
        ("Never save that my salary is low", "my salary is low", True),
        ("Merk dir bitte nicht, dass ich Tee mag.", "ich Tee mag", True),
        ("不要记住我喜欢喝茶", "喜欢喝茶", True),
        ("忘掉我喜欢喝茶", "喜欢喝茶", True),
        ("请忘记我住在柏林这件事。", "住在柏林", True),
        ("把我喜欢喝茶这件事忘掉吧", "喜欢喝茶", True),
        ("忘记我说过的关于工资的事情", "工资", False),
    ],
)
def test_a_wish_to_forget_is_understood(sentence: str, words: str, claim: bool) -> None:
    assert forget_wish(sentence) == ForgetWish(words, claim=claim)


@pytest.mark.parametrize(
    "sentence",
    [
        "forget it",
        "Forget that.",
        "forget that idea",
        "forget about the last change",
        "forget about it",
        "forget my last message",
        "forget what I said",
        "forget that I asked",
        "forget the tests for now",
        "forget that you are an assistant",
        "don't forget that I prefer tabs",
        "do not forget that I prefer tabs",
        "never forget that I prefer tabs",
        "I forgot that I prefer tabs",
        "did you forget that I prefer tabs?",
        "You never remember that I prefer tabs",
        "I don't remember that name",
        "Don't store passwords in plain text",
        "Never keep that in the repository",
        "vergiss es",
        "vergiss nicht, dass ich Tee mag",
        "vergiss meine letzte Nachricht",
        "别忘记我喜欢喝茶",
        "不要忘记我住在柏林",
        "忘掉它",
        "忘记刚才的修改",
        "我忘记带钥匙了",
        "",
    ],
)
def test_what_only_sounds_like_it_is_none(sentence: str) -> None:
    assert forget_wish(sentence) is None


@given(st.text(max_size=400))
def test_any_words_are_read_without_harm(words: str) -> None:
    for start in ("", "forget that ", "vergiss, dass ", "忘掉"):
        wish = forget_wish(start + words)
        assert wish is None or wish.words


def test_a_reminder_not_to_forget_is_no_reason_to() -> None:
    assert asks_to_forget("forget what you know", about_it=False)
    assert asks_to_forget("忘掉吧", about_it=False)
    assert asks_to_forget("tabs are no longer my thing", about_it=True)
    assert not asks_to_forget("remove the unused import", about_it=False)
    for keep in ("Don't forget the deadline", "不要忘记", "Vergiss nicht: Tabs", "I like tabs"):
        assert not asks_to_forget(keep, about_it=True)


# ---- what is meant


@pytest.mark.parametrize(
    ("wish", "path"),
    [
        ("I prefer tabs", "user_tabs.md"),
        ("the staging server is called Heron", "project_heron.md"),
        ("I live in Berlin", "user_home.md"),
        ("user_tabs.md", "user_tabs.md"),
        ("user_tabs", "user_tabs.md"),
        ("heron", "project_heron.md"),  # its name
    ],
)
def test_one_that_certainly_fits_is_meant(store: FileStore, wish: str, path: str) -> None:
    found = meant(store, wish)
    assert (found.fit, paths(found)) == ("certain", {path})
    whole = meant(store, f"{store.directory}/{path}")
    assert paths(whole) == {path}


def test_of_several_none_is_meant(store: FileStore) -> None:
    found = meant(store, "Berlin")
    assert (found.fit, paths(found)) == ("several", {"project_heron.md", "user_home.md"})
    told = not_forgotten(found, "Berlin", "`/forget NAME` forgets one of them.").sentence
    assert "none was forgotten" in told
    assert "- user_home.md: Lives in Berlin" in told


@pytest.mark.parametrize(
    "wish",
    [
        "I live in Hamburg since March 2024",  # another town
        "I live in Berlin since March 2023",  # another year
        "I never prefer tabs over spaces in Python files",  # the opposite
        "user_tab.md",  # no such file
    ],
)
def test_what_only_looks_alike_is_named_and_not_meant(store: FileStore, wish: str) -> None:
    assert meant(store, wish).fit in ("near", "none")


def test_what_nobody_said_is_not_found(store: FileStore) -> None:
    assert meant(store, "my cat eats parsnips").fit == "none"
    assert meant(store, "the").fit == "none"
    for wrong in ("../outside.md", "/etc/passwd", "\x00.md", "x" * 300):
        assert meant(store, wrong).fit in ("near", "none")
    with pytest.raises(MemoryStoreError, match="index"):
        meant(store, "MEMORY.md")


def test_a_memory_that_says_much_else_is_not_forgotten_for_a_part_of_it(store: FileStore) -> None:
    body = (
        "Writes Kotlin.\n\nEats parsnips daily.\n\nPlays chess badly.\n\nOwns two violins.\n\n"
        "Walks to the office.\n\n**Why:** told over lunch\n"
    )
    store.remember(
        a_memory("user_all.md", type="user", name="Profile", description="Who", body=body)
    )
    found = meant(store, "I eat parsnips daily")
    assert (found.fit, paths(found)) == ("among", {"user_all.md"})
    assert "among other things" in not_forgotten(found, "x", "").sentence
    assert found.part is None, "nobody knows what the lunch was about"


# ---- a part of one

BOTH = a_memory(
    "user_use_vim_live_oslo.md",
    type="user",
    name="I use vim and I live in Oslo",
    description="I use vim and I live in Oslo",
    body="I use vim and I live in Oslo.",
)


@pytest.mark.parametrize(
    ("body", "wish", "rest"),
    [
        ("I use vim and I live in Oslo.", "I live in Oslo", "I use vim."),
        ("I use vim and I live in Oslo.", "I use vim", "I live in Oslo."),
        ("I use vim; we live in Oslo.", "we live in Oslo", "I use vim."),
        (
            "I use vim, I live in Oslo, and my cat is called Tom.",
            "I live in Oslo",
            "I use vim, and my cat is called Tom.",
        ),
        ("I live in Oslo. I use vim.", "I live in Oslo", "I use vim."),
        ("- I use vim\n- I live in Oslo\n- I ski", "I live in Oslo", "- I use vim\n- I ski"),
        ("Ich nutze Vim und ich wohne in Oslo.", "ich wohne in Oslo", "Ich nutze Vim."),
        ("我用vim，我住在奥斯陆。", "住在奥斯陆", "我用vim。"),
        (
            "We use Nomad and we ship on Mondays.\n\n**How to apply:** We use Nomad and we ship on Mondays",
            "we ship on Mondays",
            "We use Nomad.\n\n**How to apply:** We use Nomad",
        ),
    ],
)
def test_what_else_a_memory_says_stays(body: str, wish: str, rest: str) -> None:
    head = body.splitlines()[0].removeprefix("- ")
    memory = Memory("user_x.md", name=head, description=head, type="user", body=f"{body}\n")
    found = parted(memory, content_stems(wish) - {"ich", "in"})
    assert found is not None
    assert found.rest.body == f"{rest}\n"
    for shown in (found.rest.name, found.rest.description, found.rest.body):
        assert not content_stems(wish) - content_stems(rest) & content_stems(shown)


@pytest.mark.parametrize(
    ("body", "wish"),
    [
        ("I like my cat and the dog.", "the dog"),  # no statement of its own
        ("In Oslo, I use vim.", "I use vim"),
        ("If I use vim and I live in Oslo, shout.", "I live in Oslo"),  # they hold together
        ("I know that I use vim and I live in Oslo.", "I use vim"),
        ("I live in Oslo. It is cold there.", "I live in Oslo"),  # the rest speaks of it
        ("I live in Oslo. The flat is near the zoo.", "I live in Oslo"),
        ("I use vim and I live in Oslo and I like Oslo.", "I live in Oslo"),  # it says it too
        ("I use vim and I live in Oslo.\n\n**Why:** the rent", "I live in Oslo"),
        ("I use vim and I live in Oslo.\n```\nOslo\n```", "I live in Oslo"),
        ("I use vim and I live in Oslo.", "I use vim and I live in Oslo"),  # all of it
    ],
)
def test_what_can_not_be_told_apart_for_sure_is_not_parted(body: str, wish: str) -> None:
    head = body.splitlines()[0]
    memory = Memory("user_x.md", name=head, description=head, type="user", body=f"{body}\n")
    assert parted(memory, content_stems(wish)) is None


def test_what_has_a_day_or_is_the_teams_or_leans_on_it_from_another_paragraph_is_not_parted() -> (
    None
):
    words = "I use vim and I live in Oslo."
    both = Memory("user_x.md", name="X", description=words, type="user", body=f"{words}\n")
    wanted = content_stems("I live in Oslo")
    assert parted(both, wanted) is not None
    assert parted(replace(both, extra={"due": "2026-12-01"}), wanted) is None, "whose day is it?"
    assert parted(replace(both, path="team/user_x.md"), wanted) is None
    leaning = "I live in Oslo.\n\nMarta found it for me."
    assert parted(replace(both, description="Me", body=leaning), wanted) is None
    about_it = replace(both, description="Lives in Oslo", body="I live in Oslo.\n\nRent is high.")
    assert parted(about_it, wanted) is None, "its description says that it is about just that"
    assert parted(replace(about_it, description="Of the user"), wanted) is not None


@given(st.text(alphabet="I uselivn.,;and我，。\n-*`", max_size=120), st.text(max_size=30))
def test_parting_adds_no_word(body: str, wish: str) -> None:
    memory = Memory("user_x.md", name="X", description=body[:40], type="user", body=body)
    wanted = content_stems(wish) or frozenset({"live"})
    found = parted(memory, wanted)
    if found is not None:
        assert found.gone
        assert content_stems(found.rest.body) <= content_stems(body)
        assert len(found.rest.body) < len(body) + 2


def test_a_part_goes_in_one_step_that_can_be_taken_back(store: FileStore) -> None:
    store.remember(BOTH)
    found = meant(store, "I live in Oslo")
    assert found.part is not None
    done = forget(store, found.memories[0], part=found.part, writer="user", reason="/forget")
    assert "“I live in Oslo”, a part of user_use_vim_live_oslo.md" in done.sentence
    assert (done.path, done.rest) == (BOTH.path, "user_use_vim.md")
    left = store.read("user_use_vim.md")
    assert (left.name, left.description, left.body) == ("I use vim", "I use vim", "I use vim.")
    whole = "".join(one.read_text() for one in store.directory.rglob("*.md"))
    assert "oslo" not in (whole + str([*store.directory.rglob("*")])).casefold()
    assert store.catch_up() == []
    again = replace(
        BOTH,
        path="user_home_town.md",
        name="Home",
        description="I live in Oslo",
        writer="extraction",
    )
    with pytest.raises(GateRefused, match="forgotten"):
        store.write(replace(again, body="I live in Oslo."))
    commit = done.sentence.partition("lamina memory undo ")[2].partition("`")[0]
    store.history.undo(commit)
    assert store.read(BOTH.path).body == BOTH.body
    assert store.files.read("user_use_vim.md") is None
    assert "(user_use_vim_live_oslo.md)" in store.index().text
    assert store.tombstones.all() == []


def test_a_part_keeps_clear_of_a_name_that_is_taken_and_of_an_edit(store: FileStore) -> None:
    store.remember(BOTH)
    store.remember(a_memory("user_use_vim.md", body="Another one with that name."))
    found = meant(store, "I live in Oslo")
    (store.directory / BOTH.path).write_text("I use vim and I live in Oslo. And in Bergen.\n")
    with pytest.raises(Conflict, match="changed just now"):
        forget(store, found.memories[0], part=found.part, writer="user")
    store.remember(
        replace(BOTH, path="user_live_oslo_use_vim.md", body="I use vim; I live in Oslo.")
    )
    (store.directory / BOTH.path).unlink()
    found = meant(store, "I live in Oslo")
    done = forget(store, found.memories[0], part=found.part, writer="user")
    assert done.rest == "user_use_vim-2.md"
    assert "Another one" in store.read("user_use_vim.md").body


def test_no_part_goes_whose_tombstone_would_stand_in_the_way_of_the_rest(store: FileStore) -> None:
    crew = "with the staging crew of Lund in Oslo"
    words = f"I ski {crew} and I work {crew}."
    store.remember(a_memory("user_keep.md", type="user", description=words, body=words))
    found = meant(store, "I ski")
    assert (found.fit, found.part) == ("certain", None)


def test_the_gate_looks_at_what_is_left_over(store: FileStore) -> None:
    store.remember(BOTH)
    found = meant(store, "I live in Oslo")
    assert found.part is not None
    hidden = Parted(replace(found.part.rest, body="I use\u200b vim."), found.part.gone)
    with pytest.raises(GateRefused):
        forget(store, found.memories[0], part=hidden, writer="user")
    assert store.read(BOTH.path).body == BOTH.body
    assert store.tombstones.all() == []


def test_what_others_wrote_is_not_parted(store: FileStore) -> None:
    """The line that is left over would count as the user's own."""
    store.write(replace(BOTH, type="project", writer="program"))
    found = meant(store, "I live in Oslo")
    assert (found.fit, found.part) == ("certain", None)


def test_a_pinned_memory_is_parted_by_the_user_alone(store: FileStore) -> None:
    store.remember(BOTH)
    store.pin(BOTH.path)
    found = meant(store, "I live in Oslo")
    with pytest.raises(GateRefused, match="pinned"):
        forget(store, found.memories[0], part=found.part, writer="agent")
    forget(store, found.memories[0], part=found.part, writer="user")
    assert store.pinned() == {"user_use_vim.md"}


# ---- forgetting it


def test_forgetting_says_what_went_and_how_to_take_it_back(store: FileStore) -> None:
    [memory] = meant(store, "I prefer tabs").memories
    done = forget(store, memory, writer="user", reason="/forget")
    assert "user_tabs.md (“Prefers tabs over spaces in Python files”)" in done.sentence
    assert "(user_tabs.md)" not in store.index().text
    assert store.tombstones.all()
    commit = done.sentence.partition("lamina memory undo ")[2].partition("`")[0]
    store.remember(a_memory("later.md", body="Written since, of something else."))
    assert "user_tabs.md" in store.history.undo(commit)
    assert store.read("user_tabs.md").body == TABS.body
    assert "(user_tabs.md)" in store.index().text
    assert store.tombstones.all() == []


def test_a_statement_that_was_not_saved_yet_can_be_kept_away(store: FileStore) -> None:
    assert keep_away(store, "my sister Zora breeds alpacas")
    assert not keep_away(store, "my sister")
    near = [store.read("project_heron.md")]
    assert not keep_away(store, "the staging server is not called Heron", near), (
        "it stays changeable"
    )
    proposal = a_memory(
        "user_sister.md",
        type="project",
        name="Sister",
        description="My sister Zora breeds alpacas",
        body="My sister Zora breeds alpacas.",
        writer="extraction",
    )
    with pytest.raises(GateRefused, match="forgotten"):
        store.write(proposal)
    assert store.remember(replace(proposal, writer="user")).decision == "accept"
    assert store.tombstones.all() == []


# ---- what tools remove by themselves


def test_what_a_tool_removes_by_itself_is_forgotten_by_the_agent(store: FileStore) -> None:
    (store.directory / "project_heron.md").unlink()
    [outcome] = attribute(store, writer="agent", session="s-9", reason="Bash")
    assert not isinstance(outcome, GateRefused)
    assert "(project_heron.md)" not in store.index().text
    [stone] = store.tombstones.all()
    assert stone.kind == "removed"
    assert store.catch_up() == []
    commit = next(store.journal.history.log("project_heron.md"))
    assert (commit.writer, commit.session, commit.reason) == ("agent", "s-9", "Bash")
    for writer in ("extraction", "dream"):
        with pytest.raises(GateRefused, match="removed by the agent"):
            store.write(replace(HERON, path="project_server.md", writer=writer))  # type: ignore[arg-type]
    store.history.undo(commit.id)
    assert store.read("project_heron.md").body == HERON.body
    assert store.tombstones.all() == []


def test_the_agent_may_save_again_what_it_removed_itself(store: FileStore) -> None:
    (store.directory / "project_heron.md").unlink()
    attribute(store, writer="agent")
    assert store.write(replace(HERON, writer="agent")).decision == "accept"
    assert store.tombstones.all() == []
    store.forget("project_heron.md")
    assert store.write(replace(HERON, writer="agent")).decision == "inbox"


def test_what_was_moved_or_worked_into_another_is_not_forgotten(store: FileStore) -> None:
    store.write(replace(HERON, writer="user"), replace=True)  # of a quotation no word would move
    store.catch_up()
    (store.directory / "project_heron.md").rename(store.directory / "project_staging.md")
    attribute(store, writer="agent")
    assert store.tombstones.all() == []
    assert store.read("project_staging.md").body == HERON.body
    store.remember(
        a_memory("project_ports.md", name="Ports", description="Ports", body="Port 22.\n")
    )
    store.catch_up()
    with (store.directory / "project_ports.md").open("a") as file:
        file.write(f"\n{HERON.body}\n")
    (store.directory / "project_staging.md").unlink()
    attribute(store, writer="agent")
    assert store.tombstones.all() == []
    assert "Heron" in store.read("project_ports.md").body


def test_a_memory_moved_to_a_name_that_is_refused_stays_where_it_was(store: FileStore) -> None:
    (store.directory / "project_heron.md").rename(store.directory / "Bad Name.md")
    outcomes = attribute(store, writer="agent")
    assert all(isinstance(outcome, GateRefused) for outcome in outcomes)
    assert store.read("project_heron.md").body == HERON.body
    assert not (store.directory / "Bad Name.md").exists()
    assert store.tombstones.all() == []
