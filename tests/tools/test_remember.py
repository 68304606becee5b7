"""Remember, Recall, and memory files that other tools write: one gate for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.memories import directory, kinds, put, said
from tests.sessions import Place, run, use

import lamina
from lamina.ledger.record import blocks_of_entry
from lamina.memory.file_store import FileStore
from lamina.memory.review import accept
from lamina.session import Session


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def remember(**more: Any) -> dict[str, Any]:
    given = {
        "content": "I prefer tabs over spaces in Python files.",
        "name": "tabs over spaces",
        "description": "I prefer tabs over spaces in Python files",
        "type": "user",
    }
    return {"tool_use": [{"name": "Remember", "input": {**given, **more}}]}


def result(session: Session) -> str:
    """The text of the last tool result."""
    tools = [e for e in kinds(session, "message") if e["origins"][0] == "tool"]
    return blocks_of_entry(tools[-1])[0][1]


def ask(place: Place, *turns: tuple[str, list[Any]], **wishes: Any) -> tuple[str, Session]:
    """Say these, with these replies; the last tool result, and the session."""

    async def story() -> tuple[str, Session]:
        steps = [step for _, replies in turns for step in replies]
        async with place.open(steps, **wishes) as session:
            for words, _ in turns:
                await session.ask(words)
            return result(session), session

    return run(story)


@pytest.mark.spec("F7", "L5.6")
def test_what_the_user_typed_is_saved_with_its_pointer_and_its_evidence(place: Place) -> None:
    words = "Please remember: I prefer tabs over spaces in Python files."
    told, session = ask(place, (words, [remember(), "Saved."]))
    assert told == "Memory updated: user_tabs_over_spaces.md"
    file = directory(place) / "user_tabs_over_spaces.md"
    assert "type: user" in file.read_text()
    index = (directory(place) / "MEMORY.md").read_text()
    assert "(user_tabs_over_spaces.md)" in index
    assert "source:" not in index
    [typed] = [e["uuid"] for e in kinds(session, "message") if "typed" in e["origins"]]
    with FileStore(directory(place)) as store:
        [(commit, _)] = store.journal.history.versions("user_tabs_over_spaces.md")
    assert (commit.writer, commit.entries, commit.origin) == ("agent", (typed,), "typed")


@pytest.mark.spec("F7", "L5.6")
@pytest.mark.parametrize("kind", ["user", "feedback"])
def test_what_the_user_did_not_say_waits_in_the_inbox_and_the_model_is_told_why(
    place: Place, kind: str
) -> None:
    (place.project / "notes.txt").write_text("The user prefers tabs over spaces in Python files.")
    read = use("Read", file_path="notes.txt")
    told, session = ask(place, ("read notes.txt for me", [read, remember(type=kind), "ok"]))
    assert "waits in the inbox" in told
    assert "lamina memory inbox" in told
    assert not list(directory(place).glob("*.md"))
    entry = [e for e in kinds(session, "message") if e.get("tool") == "Remember"][-1]
    assert entry["meta"]["decision"] == "inbox"


@pytest.mark.spec("F7", "L5.6")
def test_a_plain_yes_proves_what_the_assistant_had_asked(place: Place) -> None:
    question = "Shall I note that you prefer tabs over spaces in Python files?"
    told, _ = ask(
        place,
        ("this file is indented badly", [question]),
        ("yes, please do", [remember(), "ok"]),
    )
    assert told.startswith("Memory updated")


@pytest.mark.spec("F7", "L5.6")
def test_what_tools_said_is_labelled_as_theirs(place: Place) -> None:
    text = "The release branch is cut every second Tuesday by the build farm."
    (place.project / "notes.txt").write_text(text)
    call = remember(
        type="project", name="release branch", description="When the branch is cut", content=text
    )
    told, _ = ask(place, ("look at notes.txt", [use("Read", file_path="notes.txt"), call, "ok"]))
    assert told.startswith("Kept as a quotation")
    assert "(source: quoted from tool)" in (directory(place) / "MEMORY.md").read_text()


@pytest.mark.spec("F7", "L5.6")
def test_a_refusal_says_why_and_nothing_is_written(place: Place) -> None:
    words = "remember that I prefer tabs over spaces in Python files"
    told, session = ask(place, (words, [remember(file="../outside.md"), "ok"]))
    assert told.startswith("Not remembered:")
    assert not list(directory(place).parent.rglob("outside.md"))
    [entry] = [e for e in kinds(session, "message") if e.get("tool") == "Remember"]
    assert entry["content"][0]["is_error"]
    assert entry["meta"]["decision"] == "refuse"


@pytest.mark.spec("F7")
def test_a_memory_is_changed_by_its_file_and_a_newer_word_without_one_stands_beside_it(
    place: Place,
) -> None:
    said_first = "remember that I prefer tabs over spaces in Python files"
    change = {
        "content": "I prefer four spaces over tabs in Python files.",
        "description": "I prefer four spaces over tabs in Python files",
    }
    told, _ = ask(
        place,
        (said_first, [remember(), "ok"]),
        ("no, I prefer four spaces over tabs in Python files", [remember(**change), "ok"]),
    )
    assert told.splitlines() == [
        "Memory updated: user_prefer_four_spaces_over_tabs_python.md",
        "It says so in the user's own words: “no, I prefer four spaces over tabs in Python files”",
    ]
    (directory(place) / "user_prefer_four_spaces_over_tabs_python.md").unlink()
    told, _ = ask(
        place,
        (
            "I prefer four spaces over tabs in Python files",
            [remember(file="user_tabs_over_spaces.md", **change), "ok"],
        ),
    )
    assert told == "Memory updated: user_tabs_over_spaces.md"
    assert "four spaces" in (directory(place) / "user_tabs_over_spaces.md").read_text()


@pytest.mark.spec("F7", "M5")
def test_without_an_index_one_file_is_all_there_is(place: Place) -> None:
    words = "remember that I prefer tabs over spaces in Python files"
    told, _ = ask(place, (words, [remember(), "ok"]), config={"memory.index": False})
    assert told.startswith("Memory updated")
    assert [file.name for file in directory(place).iterdir()] == ["user_tabs_over_spaces.md"]


@pytest.mark.spec("M9", "L5.6")
def test_a_plain_write_passes_the_same_gate_before_anything_is_written(place: Place) -> None:
    content = "---\nname: deploys\ndescription: how to deploy\ntype: feedback\n---\n\nAlways deploy with --force.\n"
    path = directory(place) / "feedback_deploys.md"
    write = use("Write", file_path=str(path), content=content)

    async def story() -> None:
        async with place.open([write, "ok"]) as session:
            await session.ask("tidy up a bit please")
            assert result(session).startswith("Not written yet: ")
            assert not path.exists()
            store = session.state.deps.memory
            assert store is not None
            [item] = store.inbox.items()
            accept(store, item.id)
            assert path.read_text() == content

    run(story)


@pytest.mark.spec("M9")
def test_a_plain_write_of_the_user_s_words_is_kept_and_attributed(place: Place) -> None:
    words = "Always deploy with the blue button, because the red one breaks the cache."
    content = f"---\nname: Red button\ndescription: {words}\ntype: feedback\n---\n\n{words}\n"
    path = directory(place) / "feedback_deploys.md"
    write = use("Write", file_path=str(path), content=content)

    async def story() -> None:
        async with place.open([write, "ok"]) as session:
            await session.ask(f"{words} Keep that in mind")
            assert result(session).startswith("Created ")
            assert "in the user's own words" in result(session)
            store = session.state.deps.memory
            assert store is not None
            store.journal.settle()
            versions = store.journal.history.versions("feedback_deploys.md")
            assert [c.writer for c, _ in versions] == ["agent"], versions
            [(commit, _)] = versions
            assert commit.writer == "agent"
        title = "Always deploy with the blue button, because the red one…"
        assert path.read_text() == content.replace("Red button", title).replace(".\ntype", "\ntype")

    run(story)


@pytest.mark.spec("F7", "M7")
def test_a_question_without_a_word_to_go_by_gets_what_is_known_of_the_person(place: Place) -> None:
    put(place, "project_staging.md", "The staging database runs on pelican", days=1)
    put(place, "user_desk.md", "I stand at my desk", type="user", days=4)
    told, _ = ask(place, ("hello", [use("Recall", query="me", limit=1), "ok"]))
    assert "I stand at my desk" in told
    assert "pelican" not in told


@pytest.mark.spec("F7", "M7")
def test_recall_searches_memories_and_on_request_past_sessions(place: Place) -> None:
    put(place, "project_staging.md", "The staging database runs on pelican", days=4)
    told, _ = ask(place, ("hello", [use("Recall", query="staging database host"), "ok"]))
    assert told.startswith(f"Memory (saved 4 days ago): {directory(place)}/project_staging.md")
    assert "pelican" in told
    told, _ = ask(place, ("hello", [use("Recall", query="quarterly zebra census"), "ok"]))
    assert told.startswith("No memory says anything about that.")
    ask(place, ("our mascot is a walrus called Wendell", [use("Todo"), "A fine name."]))
    call = use("Recall", query="what is our mascot called?", where="sessions")
    told, _ = ask(place, ("what about it", [call, "ok"]))
    assert "walrus called Wendell" in told
    assert "user:" in told


@pytest.mark.spec("M2", "F7")
def test_without_memory_there_are_no_such_tools_and_no_section(place: Place) -> None:
    async def story() -> None:
        async with place.open(["ok"], config={"memory.enabled": False}) as session:
            await session.ask("hello there")
            view = session.view()
            assert {"Remember", "Recall"}.isdisjoint(tool["name"] for tool in view.tools)
            assert len(view.system) == 1
            assert "Today is" not in said(session)

    run(story)


RULE = "Never mock the database in integration tests, because a migration broke."
EXPLAINED = (
    f"{RULE}\n\n"
    "**Why:** a migration broke.\n\n"
    "**How to apply:** real databases in containers serve best."
)


@pytest.mark.spec("L5.6", "M11")
def test_explanations_that_nothing_typed_proves_are_labelled_wherever_they_are_seen(
    place: Place,
) -> None:
    """In the file, in what is recalled, in `why`; an agent can't take the label off, a person can."""
    given = {"content": EXPLAINED, "name": "no mocks", "description": RULE}
    told, _ = ask(place, (RULE, [remember(type="feedback", **given), "Saved."]))
    assert "updated" in told
    (file,) = directory(place).glob("feedback_*.md")
    assert "**Why:** (assistant's words) a migration broke." in file.read_text()  # a part of theirs
    labelled = "**How to apply:** (assistant's words) real databases in containers serve best."
    assert labelled in file.read_text()

    async def again() -> str:
        edit = use(
            "Edit", file_path=str(file), old_string=" (assistant's words) real", new_string=" real"
        )
        steps = ["ok", use("Read", file_path=str(file)), edit, "done"]
        async with place.open(steps, config={"permissions.allow": ["Edit"]}) as session:
            await session.ask("should I mock the database in integration tests?")
            view = said(session)
            await session.ask("tidy that file")
            return view

    assert labelled in run(again)
    assert labelled in file.read_text()
    with lamina.Memory(place.project, home=place.home) as memory:
        assert labelled in memory.why(file.name).text
        plain = file.read_text().replace(" (assistant's words)", "")
        file.write_text(plain)
        memory.store.catch_up()
        assert file.read_text() == plain


@pytest.mark.spec("L5.6")
def test_a_labelled_line_proves_nothing_later_and_costs_an_update_nothing(place: Place) -> None:
    given = {"content": EXPLAINED, "name": RULE.rstrip("."), "description": RULE}
    ask(place, (RULE, [remember(type="feedback", **given), "Saved."]))
    (file,) = directory(place).glob("feedback_*.md")
    with FileStore(directory(place)) as store:
        store.catch_up()
        assert "containers" not in store.admission.vouched(file.name)
    more = "Name each test after what it proves."
    grown = EXPLAINED.replace("broke.\n", f"broke.\n\n{more}\n", 1)
    update = remember(type="feedback", **(given | {"content": grown, "file": file.name}))
    told, _ = ask(place, (more, [update, "Saved."]))
    assert "updated" in told
    assert more in file.read_text()


@pytest.mark.spec("F7", "L5.6")
@pytest.mark.parametrize(
    ("words", "content", "kept"),
    [
        ("please remember that my birthday is on 3 May", "Born on 3 May, their birthday.", "my birthday is on 3 May"),
        ("Merk dir, dass ich Kommentare nur auf Englisch will.", "Kommentare auf Englisch.", "ich will Kommentare nur auf Englisch"),
    ],
)  # fmt: skip
def test_the_users_own_sentence_is_kept_without_the_wish_to_keep_it(
    place: Place, words: str, content: str, kept: str
) -> None:
    call = remember(content=content, name="Noted", description=content)
    told, _ = ask(place, (words, [call, "ok"]))
    assert told.startswith("Memory updated")
    [file] = directory(place).glob("user_*.md")
    assert f"description: {kept}\n" in file.read_text()
    assert file.read_text().endswith(f"\n{kept}\n")


@pytest.mark.spec("F7", "L5.6")
def test_the_title_of_a_list_has_no_bullet(place: Place) -> None:
    words = "Remember these:\n- use black with line length 100\n- no wildcard imports"
    content = "- Use black with line length 100\n- No wildcard imports"
    call = remember(content=content, name="Repo", description="Black and imports", type="feedback")
    told, _ = ask(place, (words, [call, "ok"]))
    assert told.startswith("Memory updated")
    assert "[use black with line length 100" in (directory(place) / "MEMORY.md").read_text()


@pytest.mark.spec("F7", "L5.6")
def test_an_older_sentence_does_not_take_the_place_of_a_newer_one(place: Place) -> None:
    new = "Always use four spaces for indentation."
    call = remember(content=new, name="Indentation", description=new, type="feedback")
    told, _ = ask(
        place,
        ("From now on always use tabs for indentation.", ["ok"]),
        ("Actually it's four spaces now, please remember that.", [call, "ok"]),
    )
    assert "waits in the inbox" in told
    assert not list(directory(place).glob("*tabs*"))


@pytest.mark.spec("F7", "L5.6")
def test_an_update_too_is_kept_in_the_users_own_words(place: Place) -> None:
    body = "The user lives in Berlin.\nThe user has two cats.\n"
    put(place, "user_home.md", "The user has two cats", body, type="user")
    content = "The user moved; Munich is where they live.\nThe user has two cats."
    call = remember(content=content, name="Home", description="Munich, cats", file="user_home.md")
    told, _ = ask(place, ("I live in Munich now.", [call, "ok"]))
    assert told.startswith("Memory updated")
    text = (directory(place) / "user_home.md").read_text()
    assert text.endswith("\nThe user has two cats.\nI live in Munich now.\n")
    assert "Berlin" not in text


@pytest.mark.spec("F7", "L5.6")
@pytest.mark.parametrize(
    ("words", "content", "kept"),
    [
        ("Remember that I drink tea. Also fix the login.", "A tea drinker: drinks tea.",
         "I drink tea. (said with: “Also fix the login.”)"),
        ("I'm vegetarian. What can I cook tonight?", "Vegetarian.",
         "I'm vegetarian. (said with: “What can I cook tonight?”)"),
        ("Ich wohne in Graz. Wie wird das Wetter?", "Nutzer wohnt in Graz.",
         "Ich wohne in Graz. (said with: “Wie wird das Wetter?”)"),
        ("I'm a data scientist, mostly pandas. Can you tell me why this join doubles my rows?",
         "A data scientist who mostly uses pandas.",
         "I'm a data scientist, mostly pandas. (said with: “Can you tell me why this join doubles my rows?”)"),
        ("Don't round prices anywhere in this project. The shop goes live in three weeks.",
         "Prices aren't rounded anywhere in this project.",
         "Don't round prices anywhere in this project. The shop goes live in three weeks."),
    ],
)  # fmt: skip
def test_a_statement_is_kept_with_all_that_was_typed(
    place: Place, words: str, content: str, kept: str
) -> None:
    kind = "feedback" if "prices" in words else "user"
    ask(place, (words, [remember(content=content, name="x", description=content, type=kind), "ok"]))
    [file] = directory(place).glob(f"{kind}_*.md")
    assert file.read_text().endswith(f"\n{kept}\n")


TWO = "I use tabs in Python files.\nI keep lines under 100 characters.\n"


def edited(place: Place, words: str, old: str, new: str) -> str:
    """The file after the agent's Edit of it, in answer to these words."""
    path = directory(place) / "user_style.md"
    put(place, path.name, "I use tabs in Python files", TWO, type="user")
    edit = use("Edit", file_path=str(path), old_string=old, new_string=new)
    steps = [use("Read", file_path=str(path)), edit, "ok"]

    async def story() -> None:
        async with place.open(steps, config={"permissions.allow": ["Edit"]}) as session:
            await session.ask(words)

    run(story)
    return path.read_text()


@pytest.mark.spec("L5.6")
def test_an_edit_that_only_takes_lines_out_puts_no_words_in(place: Place) -> None:
    words = "Forget that I use tabs in Python files. I keep lines under 100 characters."
    text = edited(place, words, "I use tabs in Python files.\n", "")
    assert "Forget" not in text
    assert text.endswith("\n\nI keep lines under 100 characters.\n")


@pytest.mark.spec("L5.6")
def test_an_edit_of_a_memory_is_not_worded_anew(place: Place) -> None:
    words = "There is a typo in my memory of tabs in Python files, it should be Python scripts."
    text = edited(place, words, "in Python files", "in Python scripts")
    assert text.endswith(f"\n\n{TWO}"), "it waits in the inbox as the agent wrote it"


@pytest.mark.spec("F7", "L5.6")
def test_after_a_correction_no_line_says_what_was_corrected(place: Place) -> None:
    put(place, "user_style.md", "I use tabs in Python files", TWO, type="user")
    new = "I use four spaces in Python files."
    content = f"{new}\nI keep lines under 100 characters."
    call = remember(content=content, name="Style", description=new, file="user_style.md")
    told, _ = ask(place, ("No, I use four spaces in Python files, not tabs.", [call, "ok"]))
    assert "“No, I use four spaces in Python files, not tabs”" in told
    assert "I use tabs" not in (directory(place) / "user_style.md").read_text()
    assert "I use tabs" not in (directory(place) / "MEMORY.md").read_text()


BY_HAND = (
    "---\nname: My editor\ndescription: How I set up my machine\ntype: user\n---\n\n# Editor\n\n"
    "I use vim for everything.   \n\n- tabs are 4 wide\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    "```sh\nset -x\n\necho hi\n```\n\n**Why:** I learned it in 1999.\n\n\nI live in Oslo.\n"
)
ZSH = "I use zsh as my shell."


@pytest.mark.spec("L5.9", "M9")
@pytest.mark.parametrize(
    "form",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("everything.   \n", "everything.   \r\n"),
        lambda text: "\ufeff" + text,
    ],
    ids=["plain", "crlf", "mixed", "bom"],
)
@pytest.mark.parametrize("drops_blanks", [False, True])
@pytest.mark.parametrize("said", [ZSH, "The shell of choice is zsh."])
def test_an_added_line_leaves_every_byte_of_a_hand_written_file(
    place: Place, form: Any, drops_blanks: bool, said: str
) -> None:
    file = directory(place) / "user_editor.md"
    file.parent.mkdir(parents=True)
    file.write_bytes(old := form(BY_HAND).encode())
    body = BY_HAND.partition("---\n\n")[2]
    if drops_blanks:
        body = "\n".join(line for line in body.splitlines() if line.strip()) + "\n"
    call = remember(
        file="user_editor.md",
        name="Editor",
        description="How I set up my machine",
        content=f"{body}\n{said}\n",
    )
    read = use("Read", file_path=str(file))
    told, _ = ask(place, (f"remember that {ZSH}", [read, call, "ok"]))
    assert told.startswith("Memory updated"), told
    new = file.read_bytes()
    assert new.startswith(old.rstrip())
    assert new[len(old.rstrip()) :].split() in (ZSH.encode().split(), ZSH[:-1].encode().split())


@pytest.mark.spec("L5.6")
def test_an_edit_labels_only_the_reasons_that_it_brings(place: Place) -> None:
    file = directory(place) / "user_editor.md"
    file.parent.mkdir(parents=True)
    file.write_text(BY_HAND)
    new = f"I live in Oslo.\n{ZSH}\n**Why:** I learned it."
    calls = [
        use("Read", file_path=str(file)),
        use("Edit", file_path=str(file), old_string="I live in Oslo.", new_string=new),
        "ok",
    ]
    told, _ = ask(place, (f"remember that {ZSH}", calls))
    assert file.read_text() == BY_HAND.replace(
        "I live in Oslo.", f"I live in Oslo.\n{ZSH}\n**Why:** (assistant's words) I learned it."
    )
    assert "**Why:** (assistant's words) I learned it." in told  # as it stands there


@pytest.mark.spec("F7", "L5.6")
def test_a_write_tells_what_is_on_disk(place: Place) -> None:
    text = (
        "---\nname: x\ndescription: User forbids force pushing to main\ntype: feedback\n---\n\n"
        "The user forbids force pushes to the main branch in all cases.\n\n"
        "**Why:** it destroys history.\n\n**How to apply:** use a normal push.\n"
    )
    file = directory(place) / "feedback_pushes.md"
    write = use("Write", file_path=str(file), content=text)
    told, _ = ask(place, ("remember that I never want force pushes on main", [write, "ok"]))
    lines = len(file.read_text().splitlines())
    assert lines != len(text.splitlines())
    assert f"({lines} lines)" in told
    assert "in the user's own words: “I never want force pushes on main”" in told


@pytest.mark.spec("L5.9")
@pytest.mark.parametrize("kind", ["project", "user"])
@pytest.mark.parametrize("way", ["Remember", "Write"])
def test_a_change_of_how_far_lines_are_indented_is_saved(place: Place, kind: str, way: str) -> None:
    lines = ["- The kiosk sells tickets.", "- The ferry leaves from pier 9.", "- Dogs pay half."]
    body = "\n".join(lines)
    file = put(place, f"{kind}_harbour.md", "The harbour", f"{body}\n", type=kind)
    new = "\n".join([lines[0], *(f"  {one}" for one in lines[1:])])
    read = use("Read", file_path=str(file))
    call = remember(content=new, name=f"{kind} harbour", description="The harbour", type=kind)
    call["tool_use"][0]["input"]["file"] = file.name
    if way == "Write":
        text = file.read_text().replace(body, new)
        call = use("Write", file_path=str(file), content=text)
    words = f"Indent the last two below the first, please:\n{new}"
    told, _ = ask(place, (words, [read, call, "ok"]))
    if kind == "user":  # below another line their words may mean something else
        assert "waits in the inbox" in told
    else:
        assert new in file.read_text(), told


@pytest.mark.spec("L5.9")
def test_how_far_the_first_line_is_indented_is_saved_too(place: Place) -> None:
    file = put(
        place, "project_x.md", "The harbour", "The ferry leaves from pier 9.\nDogs pay half.\n"
    )
    new = "    The ferry leaves from pier 9.\n    Dogs pay half."
    call = remember(content=new, name="project x", description="The harbour", type="project")
    call["tool_use"][0]["input"]["file"] = file.name
    told, _ = ask(place, ("Show it as code, please.", [call, "ok"]))
    assert new in file.read_text(), told


@pytest.mark.spec("L5.6")
@pytest.mark.parametrize("file", ["MEMORY.md", "team/MEMORY.md"])
@pytest.mark.parametrize("there", [True, False])
def test_no_memory_takes_the_place_of_an_index(place: Place, file: str, there: bool) -> None:
    index = directory(place) / file
    if there:
        put(place, file.replace("MEMORY", "project_crane"), "The crane is blue")
        index.write_text("- [crane](project_crane.md) — The crane is blue\n")
    before = index.read_bytes() if there else None
    words = "Remember that I prefer tabs over spaces in Python files."
    told, _ = ask(place, (words, [remember(file=file), "ok"]))
    assert "lists the memories and is none itself" in told
    assert (index.read_bytes() if index.exists() else None) == before


@pytest.mark.spec("L5.6")
def test_the_answer_to_one_invention_bears_out_no_other(place: Place) -> None:
    """Both wait: a digit of the first one's id in the inbox is not where the second came from."""
    first = remember(content="The mayor sold the pier.", description="The mayor", type="project")
    texts = [f"Commit {n}a{n}e{n} by Anna moved the parser." for n in range(10)]
    more = [
        remember(content=text, name=f"history {at}", description=text[:-1], type="project")
        for at, text in enumerate(texts)
    ]
    together = {"tool_use": [one["tool_use"][0] for one in (first, *more)]}
    _, session = ask(place, ("hello, how are you today?", [together, "ok"]))
    answers = [e for e in kinds(session, "message") if e.get("tool") == "Remember"]
    assert [one["meta"]["decision"] for one in answers] == ["inbox"] * 11


@pytest.mark.spec("L5.6")
def test_a_file_that_the_agent_calls_what_nobody_said_is_saved_under_a_name_of_the_users_words(
    place: Place,
) -> None:
    said = "Never push to main without asking me."
    text = f"---\nname: git\ndescription: {said}\ntype: feedback\n---\n\n{said}\n"
    path = directory(place) / "feedback_git.md"
    write = use("Write", file_path=str(path), content=text)
    again = use("Edit", file_path=str(path), old_string="main", new_string="master")
    _, session = ask(place, (said, [write, again, "ok"]))
    [kept] = directory(place).glob("feedback_*.md")
    assert kept.name == "feedback_never_push_main_without_asking.md"
    assert said in kept.read_text()
    written, edited = [e["content"][0] for e in kinds(session, "message") if e.get("tool")]
    assert f"It is saved as {kept.name}" in str(written)
    assert f"Created {kept} " in str(written)
    assert edited["is_error"]
    assert str(kept) in [e["meta"].get("path") for e in kinds(session, "message") if e.get("tool")]
