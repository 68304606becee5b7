"""`lamina chat` in a real terminal, with the scripted model and real tools."""

from __future__ import annotations

import json
import os
import pty
import signal
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.screen import LAUNCH, PROMPT, Screen
from tests.wire.server import WireServer, says

from lamina.cli.chat_commands import COMMANDS
from lamina.config import load

Talk = Callable[..., Screen]


@pytest.fixture
def talk(world: Path) -> Iterator[Talk]:
    """Start a conversation whose model follows these steps."""
    screens: list[Screen] = []

    def start(
        *steps: Any,
        words: tuple[str, ...] = (),
        columns: int = 100,
        launch: str = LAUNCH,
        **more: Any,
    ) -> Screen:
        path = world / f"script{len(screens)}.json"
        path.write_text(json.dumps({"name": "demo", "steps": list(steps), **more}))
        model = [] if "--model" in words else ["--model", f"scripted:{path}"]
        env = {**os.environ, "COLUMNS": str(columns)}
        screen = Screen(["chat", *model, *words], world / "project", env, columns, launch)
        screens.append(screen)
        return screen

    yield start
    for screen in screens:
        screen.close()


def recorded(world: Path) -> list[dict[str, Any]]:
    from lamina.cli import sessions
    from lamina.ledger.log import read

    config = load(world / "project", home=world / "home", env={}, managed=None)
    return read(sessions.find(config)[0]).entries


@pytest.mark.spec("I2", "F11")
def test_a_question_a_tool_and_an_answer(talk: Talk, world: Path) -> None:
    (world / "project" / "a.txt").write_text("forty-two")
    screen = talk(
        {
            "reply": {
                "text": "Let me look.",
                "tool_use": {"name": "Read", "input": {"file_path": "a.txt"}},
            }
        },
        {"expect": {"last_result": "forty-two"}, "reply": "It says \u001b[31m42."},
    )
    screen.expect("Lamina 0.")
    screen.expect("/help")
    screen.say("What does it say?")
    screen.expect("Let me look.\n• Read a.txt\n")
    screen.expect("It says ␛[31m42.\n")
    screen.expect(PROMPT)
    screen.expect("demo · ")
    assert "tokens" in screen.expect(" · cache ")
    screen.press("\x04")
    assert screen.leave() == 0


@pytest.mark.spec("T1", "T4")
def test_what_the_team_has_for_a_person_is_said_once_before_the_prompt(
    talk: Talk, world: Path
) -> None:
    from lamina.memory import open_store, team_folder

    config = load(world / "project", home=world / "home", env={}, managed=None)
    with open_store(config, lambda _: None) as store:
        news = team_folder(store.state) / "news"
    news.parent.mkdir(parents=True)
    news.write_text("suite.md waits for you: what ana wrote gives an order.\n" * 2)
    screen = talk("One.", otherwise={"main": "More."})
    screen.expect("suite.md waits for you: what ana wrote gives an order.\n")
    screen.say("Hello")
    assert "waits for you" not in screen.expect("One.")
    assert not news.exists()
    screen.expect(PROMPT)
    screen.press("\x04")
    assert screen.leave() == 0


@pytest.mark.spec("I2")
def test_commands_are_listed_and_do_what_they_say(talk: Talk, world: Path) -> None:
    screen = talk("One.", otherwise={"main": "More."})
    screen.say("/help")
    listed = screen.expect("Ctrl-D leaves")
    assert all(name in listed for name in COMMANDS)
    screen.say("First question")
    screen.expect("One.\n")
    screen.say("/context")
    screen.expect("tokens (")
    assert "system" in screen.expect("messages")
    screen.say("/hlep")
    screen.expect("There is no command /hlep. Did you mean /help?")
    screen.say("/model")
    screen.expect("The model is demo.")
    screen.say("/model none")
    screen.expect("The model is none.")
    screen.say("/model abacus:9")
    screen.expect("lamina: ")
    screen.say("/clear")
    screen.expect("Lamina 0.")
    screen.expect("no model: memory and search · session")
    screen.say("/resume")
    screen.expect("First question")
    first = load_first_id(world)
    screen.say(f"/resume {first[:8]}")
    screen.expect("continuing: 1 message from you so far")
    screen.say("/exit")
    assert screen.leave() == 0


def load_first_id(world: Path) -> str:
    from lamina.cli import sessions, transcript

    config = load(world / "project", home=world / "home", env={}, managed=None)
    files = sessions.find(config)
    return next(f.stem for f in files if transcript.summary(f)["title"] == "First question")


@pytest.mark.spec("I2", "F11")
def test_ctrl_c_stops_the_answer_and_the_session_goes_on(talk: Talk, world: Path) -> None:
    begun = world / "project" / "begun"
    os.mkfifo(begun)
    screen = talk(
        {
            "reply": {
                "tool_use": {"name": "Bash", "input": {"command": "echo x > begun; sleep 999"}}
            }
        },
        {"expect": {"contains": "and now"}, "reply": "I am still here."},
    )
    screen.say("Wait for ever")
    screen.expect("• Bash echo x > begun; sleep 999")
    screen.expect("n(o)?")
    screen.press("y\r")
    with begun.open("rb") as pipe:  # opens when the command does
        assert pipe.read() == b"x\n"
    screen.press("\x03")
    screen.expect("Stopped. What was done so far is kept.")
    screen.say("and now?")
    screen.expect("I am still here.\n")
    screen.expect(PROMPT)
    screen.press("\x03")
    screen.expect("Ctrl-D leaves.")
    screen.expect(PROMPT)
    screen.press("\x04")
    assert screen.leave() == 0


@pytest.mark.spec("F7", "F13")
def test_permission_questions_take_yes_no_and_always(talk: Talk, world: Path) -> None:
    outside = [world / f"outside{number}.txt" for number in range(2)]
    inside = [world / "project" / f"inside{number}.txt" for number in range(2)]

    def write(path: Path) -> dict[str, Any]:
        given = {"file_path": str(path), "content": "x"}
        return {"reply": {"tool_use": {"name": "Write", "input": given}}}

    screen = talk(*(write(path) for path in [*outside, *inside]), "All done.")
    screen.say("Write them")
    allowed = ("Write on this path", "Write on this path", "Write on any file of this project")
    for answers, always in zip(("maybe\rn\r", "y\r", "a\r"), allowed, strict=True):
        screen.expect("? Write this file?")
        screen.expect(f"always: {always}, until this session ends")
        screen.expect("n(o)?")
        screen.press(answers)
    screen.expect("All done.\n")
    assert [path.exists() for path in [*outside, *inside]] == [False, True, True, True]


@pytest.mark.spec("F7", "F13")
@pytest.mark.parametrize("ahead", ["y\r", "a", "never mind\ry\r"])
def test_what_was_typed_before_a_question_does_not_answer_it(
    ahead: str, talk: Talk, world: Path
) -> None:
    begun, go_on = world / "project" / "begun", world / "project" / "go_on"
    for pipe in (begun, go_on):
        os.mkfifo(pipe)
    outside = {"file_path": str(world / "outside.txt"), "content": "x"}
    screen = talk(
        {
            "reply": {
                "tool_use": {"name": "Bash", "input": {"command": "echo x > begun; cat go_on"}}
            }
        },
        {"reply": {"tool_use": {"name": "Write", "input": outside}}},
        otherwise={"main": "Done."},
    )
    screen.say("Do both")
    screen.expect("n(o)?")
    screen.press("y\r")
    begun.read_bytes()  # the command runs
    screen.press(ahead)
    go_on.write_bytes(b"x")
    screen.expect("? Write this file?")
    screen.expect("n(o)?")
    screen.press("no\r")
    screen.expect("Done.")
    screen.say("!")  # behind whatever is on the line
    screen.expect("Done.")
    assert not (world / "outside.txt").exists()
    screen.expect(PROMPT)
    screen.leave("\x04")
    said = [one["content"][0].get("text") for one in recorded(world) if one.get("role") == "user"]
    first = ahead.partition("\r")[0] + ("" if "\r" in ahead else "!")
    assert first in said, said


@pytest.mark.spec("F13")
def test_ctrl_d_is_heard_while_a_command_runs(talk: Talk, world: Path) -> None:
    begun, go_on = world / "project" / "begun", world / "project" / "go_on"
    for pipe in (begun, go_on):
        os.mkfifo(pipe)
    bash = {"name": "Bash", "input": {"command": "echo x > begun; cat go_on"}}
    screen = talk({"reply": {"tool_use": bash}}, otherwise={"main": "Done."})
    screen.say("Wait")
    screen.expect("n(o)?")
    screen.press("y\r")
    begun.read_bytes()  # the command runs, and nobody reads keys
    screen.press("\x04")
    go_on.write_bytes(b"x")
    screen.expect("Done.")
    assert screen.leave() == 0


@pytest.mark.spec("F13")
def test_enter_stays_enter_between_two_prompts_and_while_something_is_printed() -> None:
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.input.vt100 import Vt100Input

    from lamina.cli.chat_repl import keys_as_pressed

    master, slave = pty.openpty()
    as_it_was = termios.tcgetattr(slave)
    with os.fdopen(slave) as file, create_app_session(input=Vt100Input(file)) as session:
        with keys_as_pressed(), session.input.cooked_mode():
            with keys_as_pressed():  # an agent beside it asks
                pass
            os.write(master, b"go\r")
            assert os.read(slave, 10) == b"go\r"
        assert termios.tcgetattr(slave) == as_it_was
    os.close(master)


def _is_cooked(screen: Screen) -> bool:
    modes = termios.tcgetattr(screen.terminal)[3]
    return bool(modes & termios.ICANON and modes & termios.ECHO)


@pytest.mark.spec("F13")
def test_whoever_is_ended_at_the_prompt_gives_the_terminal_back(talk: Talk) -> None:
    screen = talk()
    screen.expect(PROMPT)
    screen.expect("tokens")
    assert not _is_cooked(screen)
    screen.process.terminate()
    assert screen.leave() == -signal.SIGTERM
    assert _is_cooked(screen)


@pytest.mark.spec("F13")
def test_ctrl_z_at_the_prompt_stops_with_the_terminal_as_it_was_and_goes_on(talk: Talk) -> None:
    screen = talk(otherwise={"main": "Here."}, launch=_AS_A_SHELL)
    screen.expect(PROMPT)
    screen.expect("tokens")
    screen.press("half\x1a")
    screen.expect("stopped: True")
    # Drawn again, so raw again: until then the terminal makes a new line of Enter.
    screen.expect("half")
    screen.press(" a line\r")
    screen.expect("Here.")
    screen.expect(PROMPT)
    screen.press("\x04")
    assert screen.leave() == 0


# Runs the command as a shell does: a job of its own in front, taken back when it stops.
_AS_A_SHELL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if not job:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    from lamina.cli.main import main
    sys.exit(main())
while True:
    _, state = os.waitpid(job, os.WUNTRACED)
    if not os.WIFSTOPPED(state):
        sys.exit(os.waitstatus_to_exitcode(state))
    modes = termios.tcgetattr(0)[3]
    os.tcsetpgrp(0, os.getpid())
    print("stopped:", bool(modes & termios.ICANON and modes & termios.ECHO), flush=True)
    os.tcsetpgrp(0, job)
    os.kill(job, signal.SIGCONT)
"""


@pytest.mark.spec("I2", "L5.6")
def test_several_lines_history_and_pastes(talk: Talk, world: Path) -> None:
    screen = talk(otherwise={"main": "Noted."})
    screen.expect(PROMPT)
    screen.press("one\\\rtwo\x1b\rthree\nfour\r")
    screen.expect("Noted.\n")
    screen.expect(PROMPT)
    screen.press("look at \x1b[200~line 1\r\nline 2\x1b[201~ please\r")
    screen.expect("Noted.\n")
    screen.expect(PROMPT)
    screen.press("\x1b[200~a word\x1b[201~\r")
    screen.expect("Noted.\n")
    screen.expect(PROMPT)
    screen.press("\x1b[200~x\ny\x1b[201~\r")
    screen.expect("Noted.\n")
    screen.expect(PROMPT)
    screen.press("\x04")
    assert screen.leave() == 0
    said = [entry for entry in recorded(world) if entry.get("role") == "user"]
    asked = [entry for entry in said if not entry.get("reminder")]
    texts = [[block["text"] for block in entry["content"]] for entry in asked]
    assert texts == [
        ["one\ntwo\nthree\nfour"],
        ["look at [pasted 1: 2 lines] please", "[pasted 1: 2 lines]\nline 1\nline 2"],
        ["a word"],
        ["x\ny"],
    ]
    assert [entry["origins"] for entry in asked] == [
        ["typed"],
        ["typed", "pasted"],
        ["typed"],
        ["pasted"],
    ]
    history = world / "home" / "history"
    assert "+two" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


@pytest.mark.spec("I2")
def test_a_narrow_terminal_breaks_lines_between_words(talk: Talk) -> None:
    answer = "It stands in the notes.\n\n```\nrm -rf build dist out of tree copies\n```"
    screen = talk(answer, columns=30)
    screen.say("/help")
    screen.expect("  /clear\n      start a new session;\n      this one stays recorded\n")
    screen.say("Where is it?")
    screen.expect("It stands in the notes.\n\n```\nrm -rf build dist out of tree copies\n```\n")
    screen.say("/nothing-of-this-kind")
    screen.expect("lamina: There is no command\n/nothing-of-this-kind. /help\nlists them.")


@pytest.mark.spec("F1", "I2")
def test_a_session_that_is_open_elsewhere_leaves_the_conversation_where_it_was(
    talk: Talk, world: Path
) -> None:
    first, second = talk(otherwise={"main": "Noted."}), talk(otherwise={"main": "Heard."})
    for screen, words in ((first, "First question"), (second, "Second question")):
        screen.say(words)
        screen.expect("ed.\n" if screen is first else "Heard.\n")
    second.say(f"/resume {load_first_id(world)[:8]}")
    second.expect("is open in another process")
    second.expect("continuing: 1 message from you so far")
    second.say("Still there?")
    second.expect("Heard.\n")


@pytest.mark.spec("F11", "I2")
def test_leaving_says_what_is_waited_for_and_ctrl_c_ends_the_wait(
    talk: Talk, world: Path, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.anthropic_url)
    silent = says("never", fault="half_open")
    wire.will(says("Noted."), silent)
    screen = talk(words=("--model", "anthropic:claude-sonnet-4-6"))
    screen.say("I always use tabs")
    screen.expect("Noted.\n")
    screen.expect(PROMPT)
    screen.press("\x04")
    screen.expect("Finishing extraction (Ctrl-C leaves it for next time) …")
    assert silent.silent.wait(30)
    screen.press("\x03")
    assert screen.leave() == 0
    assert silent.left.wait(30)
    jobs = [entry["status"] for entry in recorded(world) if entry["kind"] == "job"]
    assert jobs == ["started", "deferred"]  # the next open takes it up


def test_a_failing_model_is_told_and_the_conversation_goes_on(talk: Talk) -> None:
    screen = talk({"reply": {"error": "overloaded", "message": "Too many people."}}, "Better now.")
    screen.say("Hello")
    screen.expect("lamina: Too many people.")
    screen.say("Again")
    screen.expect("Better now.\n")


def test_a_talk_with_its_output_elsewhere_is_refused(world: Path, tmp_path: Path) -> None:
    import pty
    import subprocess
    import sys

    master, slave = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "lamina.cli.main", "chat"],
        stdin=slave,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(master)
    os.close(slave)
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs a terminal" in done.stderr


@pytest.mark.spec("I2")
def test_what_the_background_says_goes_above_the_line_being_typed(talk: Talk, world: Path) -> None:
    broken = {"error": "overloaded", "message": "no room"}
    screen = talk("One.", {"purpose": "extraction", "reply": broken}, "Two.")
    screen.say("First")
    screen.expect("One.\n")
    screen.expect("extraction failed")
    before = screen.raw[: screen.raw.rindex("extraction failed")]
    assert "\x1b[J" in before[before.rindex(PROMPT) :]  # the prompt was taken away first
    screen.expect(PROMPT)  # and is there again
    screen.press("\x04")
    assert screen.leave() == 0


@pytest.mark.spec("I2")
def test_tab_completes_commands_their_words_and_files(talk: Talk, world: Path) -> None:
    (world / "project" / "src").mkdir()
    (world / "project" / "src" / "payments.py").write_text("")
    (world / "project" / ".secret").write_text("")
    screen = talk(otherwise={"main": "Read."})
    screen.expect(PROMPT)
    screen.press("/mo\t")
    screen.expect("del")
    screen.press("\r")
    screen.expect("The model is")
    screen.expect(PROMPT)
    screen.press("/dream sta\t")
    screen.expect("tus")
    screen.press("\r")
    screen.expect("No dream is running")
    screen.expect(PROMPT)
    screen.press("see s\t")
    screen.expect("rc/")
    screen.press("pay\t")
    screen.expect("ments.py")
    screen.press("\r")
    screen.expect("Read.")
    screen.expect(PROMPT)
    screen.press("\x04")
    screen.leave()
    said = [one["content"][0]["text"] for one in recorded(world) if one.get("role") == "user"]
    assert "see src/payments.py" in said


@pytest.mark.spec("I2")
def test_a_command_that_takes_its_time_shows_that_it_runs(talk: Talk, world: Path) -> None:
    go_on = world / "project" / "go_on"
    os.mkfifo(go_on)
    command = {"name": "Bash", "input": {"command": "cat go_on"}}
    screen = talk({"reply": {"tool_use": command}}, "It went on.")
    screen.say("Wait for it")
    screen.expect("always: just this command")
    screen.expect("n(o)?")
    screen.press("y\r")
    screen.expect("Bash cat go_on · ")
    screen.expect(" s · Ctrl-C stops it")
    go_on.write_bytes(b"x")
    screen.expect("It went on.\n")
    assert "Ctrl-C stops it" not in screen.text  # the line is gone


@pytest.mark.spec("I2")
def test_a_session_that_goes_on_shows_where_it_stopped(talk: Talk) -> None:
    first = talk("The lights are in hall B.")
    first.say("Where are the lights?")
    first.expect("hall B.\n")
    first.expect(PROMPT)
    first.press("\x04")
    first.leave()
    second = talk(words=("--continue",), otherwise={"main": "Yes."})
    second.expect("  you: Where are the lights?\n  The lights are in hall B.\n")
    second.expect(PROMPT)
