"""No secret reaches memory unawares: not by background work, not by the agent, not by a person who does
not insist, and not in any file that is kept beside the memories."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cli.conftest import Ran
from tests.memories import directory, kinds, put
from tests.secret_words import SECRETS, places_of
from tests.sessions import Place, run, use

from lamina.cli.main import main
from lamina.events import Event, Warned
from lamina.layers import dream
from lamina.layers.extraction import LAYER
from lamina.memories import Evidence, InboxItem, Proposal
from lamina.memory.file_store import FileStore
from lamina.memory.review import accept, reject
from lamina.models.scripted import ScriptedModel, Step
from lamina.secrets import scan, secrets_in

pytestmark = pytest.mark.spec("L5.6")
EVERY = pytest.mark.parametrize("kind", list(SECRETS))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def said_with(secret: str) -> str:
    return f"The build server's token is {secret} since the move."


def topic(secret: str, name: str = "Build server") -> str:
    said = said_with(secret)
    return f"---\nname: {name}\ndescription: {said}\ntype: reference\n---\n\n{said}\n"


def waiting(place: Place) -> list[InboxItem]:
    with FileStore(directory(place)) as store:
        return store.inbox.items()


def warnings(heard: list[Event]) -> str:
    return "\n".join(event.message for event in heard if isinstance(event, Warned))


def nowhere(secret: str, place: Place, heard: list[Event], session: Any) -> None:
    """Not on disk, not in what was reported, not in what the layers noted in the ledger."""
    assert places_of(secret, place.home) == []
    assert secret not in warnings(heard)
    noted = [e for e in session.ledger.entries if e["kind"] != "message"]
    assert secret.casefold() not in json.dumps(noted).casefold()


async def told(place: Place, steps: list[Any] | str, words: str) -> tuple[Any, list[Event]]:
    heard: list[Event] = []
    model = steps if isinstance(steps, str) else ScriptedModel(steps)
    wide = {
        "sandbox.profile": "full",
        "permissions.allow": ["Bash"],
    }  # a shell that can write memory files behind our back
    async with place.open(model, on_event=heard.append, interactive=True, config=wide) as session:
        await session.ask(words)
    return session, heard


# ---- background


@EVERY
@pytest.mark.parametrize("leaky_name", [False, True])
def test_extraction_leaves_a_secret_in_the_inbox_masked(
    place: Place, kind: str, leaky_name: bool
) -> None:
    secret = SECRETS[kind]
    slug = "".join(c if c.isalnum() else "_" for c in secret.lower())[:60]
    name = f"reference_{slug}.md" if leaky_name else "reference_build.md"
    fence = f"\n```evidence\nm1: {said_with(secret)}\n```\n"

    def write(_: Any) -> Any:
        path = str(directory(place) / name)
        return use("Write", file_path=path, content=topic(secret) + fence)

    steps = ["Noted.", Step(write, purpose="extraction"), Step("done", purpose="extraction")]
    session, heard = run(told, place, steps, said_with(secret))
    nowhere(secret, place, heard, session)
    [item] = waiting(place)
    assert "secret removed" in item.proposal.body
    assert "since the move" in item.proposal.body
    assert "masked" in item.reason
    assert "looks like a secret" in warnings(heard)
    assert (item.proposal.path == name) is not leaky_name
    [job] = [e for e in kinds(session, "job") if e["name"] == LAYER and e["status"] == "done"]
    assert job["inbox"] == [item.proposal.path]
    assert any("looks like a secret" in one for one in job["warnings"])


@pytest.mark.parametrize("kind", ["npm", "jwt"])  # those that the rules do not leave out themselves
def test_extraction_by_rules_masks_it_too_and_names_no_file_by_it(place: Place, kind: str) -> None:
    secret = SECRETS[kind]
    words = f"The runbook lives at https://wiki.acme.org/{secret}"
    session, heard = run(told, place, "none", words)
    nowhere(secret, place, heard, session)
    [item] = waiting(place)
    assert "secret removed" in item.proposal.body
    assert "looks like a secret" in warnings(heard)
    assert not list(directory(place).rglob("*.md"))


def dreamt(place: Place, model: Any) -> tuple[Any, Any, list[Event]]:
    async def story() -> tuple[Any, Any, list[Event]]:
        heard: list[Event] = []
        async with place.open(model, on_event=heard.append) as session:
            done = await dream.run(session.state)
        return done, session, heard

    return run(story)


def diary(place: Place, entry: str) -> Path:
    path = directory(place) / "logs" / "2026" / "09" / "2026-09-21.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"- 10:00 {entry}\n")
    return path


@EVERY
def test_a_dream_of_a_model_masks_what_it_takes_from_the_diary(place: Place, kind: str) -> None:
    secret = SECRETS[kind]
    put(place, "invoices.md", "Invoices are rounded up to the next cent.")
    log = diary(place, said_with(secret))
    slug = "".join(c if c.isalnum() else "_" for c in secret.lower())[:60]

    def write(name: str) -> Callable[[Any], Any]:
        def reply(_: Any) -> Any:
            [copy] = place.home.glob("projects/*/memory.lamina/dream/copy-*")
            return use("Write", file_path=str(copy / name), content=topic(secret))

        return reply

    replies = [write("reference_build.md"), write(f"reference_{slug}.md"), "done"]
    done, session, heard = dreamt(place, ScriptedModel([Step(r, purpose="dream") for r in replies]))
    log.unlink()  # the diary was written past the gate
    nowhere(secret, place, heard, session)
    assert done.to_json()["inbox"]
    assert all("secret removed" in item.proposal.body for item in waiting(place))
    assert "looks like a secret" in warnings(heard)
    assert any("looks like a secret" in problem for problem in done.problems)
    assert secret not in json.dumps(done.to_json())


@pytest.mark.parametrize("kind", ["npm", "jwt"])
def test_a_dream_by_rules_masks_what_it_takes_from_the_diary(place: Place, kind: str) -> None:
    secret = SECRETS[kind]
    log = diary(place, f"The runbook lives at https://wiki.acme.org/{secret}")
    done, session, heard = dreamt(place, "none")
    log.unlink()
    nowhere(secret, place, heard, session)
    [item] = waiting(place)
    assert "secret removed" in item.proposal.body
    assert "looks like a secret" in warnings(heard)
    assert done.to_json()["inbox"] == [item.proposal.path]


def test_a_dream_puts_no_secret_of_a_handwritten_file_into_the_index(place: Place) -> None:
    secret = SECRETS["github"]
    put(place, "build.md", said_with(secret), type="reference")
    dreamt(place, "none")
    index = (directory(place) / "MEMORY.md").read_text()
    assert "(build.md)" in index
    assert secret not in index
    assert secret in (directory(place) / "build.md").read_text()  # the user's own file stays


@settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(data=st.data())
def test_nothing_that_waits_holds_a_secret_in_any_part(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("memory")
    secret = SECRETS[data.draw(st.sampled_from(sorted(SECRETS)))]
    said = said_with(secret)

    def text(plain: str) -> str:
        return data.draw(st.sampled_from([plain, f"{plain}. {said}", f"{plain} {said[:45]}"]))

    proposal = Proposal(
        "reference_build.md", text("Build"), text("About the build server"), "reference",
        f"{said}\n{text('More')}\n", data.draw(st.sampled_from(["extraction", "dream"])),
        (Evidence(said, "s", "e"),), reason=text("told"), hook=text("The server"), extra={"said": text("2026")},
    )  # fmt: skip
    with FileStore(root / "memory") as store:
        outcome = store.write(proposal)
        assert outcome.decision == "inbox"
        [item] = store.inbox.items()
        accepted = data.draw(st.booleans())
        accept(store, item.id) if accepted else reject(store, item.id)
    assert places_of(secret, root) == []
    assert (root / "memory" / "reference_build.md").exists() is accepted


# ---- the agent


def results(session: Any) -> str:
    tools = [e for e in kinds(session, "message") if e["origins"][0] == "tool"]
    return "\n".join(str(block) for e in tools for block in e["content"])


@EVERY
@pytest.mark.parametrize("tool", ["Remember", "Write", "Edit", "Bash", "diary"])
def test_the_agent_gets_an_error_with_rule_and_line_and_nothing_is_written(
    place: Place, tool: str, kind: str
) -> None:
    secret = SECRETS[kind]
    said = said_with(secret)
    old = put(place, "build.md", "The build server stands in the cellar.", type="reference")
    before = old.read_bytes()
    new = str(directory(place) / "new.md")
    call: dict[str, dict[str, Any]] = {
        "Remember": {"tool_use": [{"name": "Remember", "input": {"content": f"First.\n{said}", "name": "Build", "description": "The build", "type": "reference"}}]},
        "Write": use("Write", file_path=new, content=topic(secret)),
        "Edit": use("Edit", file_path=str(old), old_string="in the cellar.\n", new_string=f"in the cellar.\n{said}\n", replace_all=True),
        "Bash": use("Bash", command=f"cat > '{new}' <<'END'\n{topic(secret)}END\ntouch -d 2026-01-01 '{new}'"),
        "diary": use("Write", file_path=str(directory(place) / "logs/2026/09/2026-09-21.md"), content=f"- {said}\n"),
    }[tool]  # fmt: skip
    read = use("Read", file_path=str(old))
    session, heard = run(told, place, [read, call, "ok"], "Look at the build server")
    answer = results(session)
    rule = scan(said)[0].rule
    assert f"looks like a secret ({rule})" in answer
    assert "Line " in answer
    assert secret not in answer
    nowhere(secret, place, heard, session)
    assert old.read_bytes() == before
    assert [path.name for path in directory(place).rglob("*.md")] == ["build.md"]
    assert waiting(place) == []


def test_a_secret_that_stands_in_a_file_is_no_bar_to_changing_the_rest(place: Place) -> None:
    secret = SECRETS["github"]
    old = put(place, "build.md", "The build server", f"{said_with(secret)}\n", type="reference")
    edit = use("Edit", file_path=str(old), old_string="since the move.\n", new_string="since the move.\n\nThe build server runs Debian.\n")  # fmt: skip
    said = "The build server runs Debian."
    session, _ = run(told, place, [use("Read", file_path=str(old)), edit, "ok"], said)
    assert said in old.read_text()
    assert secret in old.read_text()
    assert "looks like a secret" in results(session)  # the gate's remark is passed on


# ---- the person


@pytest.fixture
def lamina(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Ran]]:
    place = Place(tmp_path)
    monkeypatch.setenv("LAMINA_HOME", str(place.home))
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(place.project)
    (tmp_path / "stdin").touch()

    def run_(*words: str) -> Ran:
        capfd.readouterr()
        code = main(list(words))
        captured = capfd.readouterr()
        return Ran(code, captured.out, captured.err)

    with (tmp_path / "stdin").open() as empty:
        monkeypatch.setattr(sys, "stdin", empty)
        yield run_


@EVERY
def test_memory_add_refuses_a_secret_unless_the_person_insists(
    lamina: Callable[..., Ran], tmp_path: Path, kind: str
) -> None:
    secret, home = SECRETS[kind], tmp_path / "home"
    ran = lamina("memory", "add", said_with(secret))
    assert ran.code == 3
    assert "Line 1 of the" in ran.err
    assert "looks like a secret (" in ran.err
    assert "--allow-secret" in ran.err
    assert secret not in ran.out + ran.err
    assert places_of(secret, home) == []

    ran = lamina("memory", "add", said_with(secret), "--allow-secret")
    assert ran.code == 0
    assert "looks like a secret (" in ran.err
    [file] = home.glob("projects/*/memory/project_*.md")
    assert secret in file.read_text()
    assert not secrets_in(said_with(secret)).named_by(file.name)
    assert secret not in (file.parent / "MEMORY.md").read_text()

    ran = lamina("memory", "forget", file.name, "--purge")
    assert ran.code == 0
    assert places_of(secret, home) == []


@EVERY
def test_remember_that_without_a_model_is_refused_in_words_and_exit_code(
    lamina: Callable[..., Ran], tmp_path: Path, kind: str
) -> None:
    secret = SECRETS[kind]
    ran = lamina("chat", "-p", f"remember that my token is {secret}", "--model", "none")
    assert ran.code == 3
    assert "Not remembered" in ran.out
    assert "looks like a secret (" in ran.out
    assert secret not in ran.out + ran.err
    assert places_of(secret, tmp_path / "home") == []


@EVERY
@pytest.mark.spec("M12")
def test_the_audit_finds_secrets_in_files_that_somebody_wrote_by_hand(
    lamina: Callable[..., Ran], tmp_path: Path, kind: str
) -> None:
    secret = SECRETS[kind]
    file = put(Place(tmp_path), "build.md", "The build server", f"One line.\n{said_with(secret)}\n")
    line = file.read_text().splitlines().index(said_with(secret)) + 1
    ran = lamina("memory", "audit")
    assert ran.code == 1
    assert f"line {line} looks like a secret (" in ran.out
    assert "secret 1" in ran.out
    assert secret not in ran.out + ran.err
    found = lamina("memory", "audit", "--json").json
    [fault] = [one for one in found["faults"] if one["kind"] == "secret"]
    assert (fault["path"], fault["line"], found["counts"]["secret"]) == ("build.md", line, 1)
    assert fault["rule"] in fault["reason"]
    assert secret not in json.dumps(found)
    lamina("memory", "audit", "--fix")  # adds the missing pointer
    assert secret not in (file.parent / "MEMORY.md").read_text()
    assert lamina("memory", "forget", "build.md", "--purge").code == 0
    assert places_of(secret, tmp_path / "home") == []


def test_undo_brings_a_file_with_a_secret_back_and_says_so(
    lamina: Callable[..., Ran], tmp_path: Path
) -> None:
    secret = SECRETS["github"]
    file = put(Place(tmp_path), "build.md", "The build server", f"{said_with(secret)}\n")
    assert lamina("memory", "rename", "build.md", "server.md").code == 0
    assert lamina("memory", "forget", "server.md").code == 0
    ran = lamina("memory", "undo")
    assert ran.code == 0
    assert "looks like a secret" in ran.err
    assert secret in file.with_name("server.md").read_text()
