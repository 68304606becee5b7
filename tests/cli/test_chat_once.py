"""`lamina chat -p`: one question for scripts and pipes, with the scripted model and real tools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamina.session import Session

Run = Callable[..., Any]


def script(world: Path, *steps: Any, **more: Any) -> str:
    path = world / "script.json"
    path.write_text(json.dumps({"steps": list(steps), **more}))
    return f"scripted:{path}"


LOOK = {
    "reply": {"text": "Let me look.", "tool_use": {"name": "Read", "input": {"file_path": "a.txt"}}}
}


@pytest.mark.spec("I2", "F11")
def test_the_answer_alone_goes_to_stdout(lamina: Run, world: Path, stdin: Any) -> None:
    (world / "project" / "a.txt").write_text("forty-two")
    model = script(world, LOOK, {"expect": {"last_result": "forty-two"}, "reply": "It says 42."})
    ran = lamina("chat", "-p", "What does it say?", "--model", model)
    assert (ran.code, ran.out, ran.err) == (0, "It says 42.\n", "")


@pytest.mark.spec("I2", "F11")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_answer_is_there_before_the_session_ends(world: Path, form: list[str]) -> None:
    out, seen = world / "out.txt", world / "seen.txt"
    (world / "home").mkdir()
    hook = f'[[hooks.SessionEnd]]\ncommand = "cp {out} {seen}"\n'
    (world / "home" / "settings.toml").write_text(hook)
    words = ["chat", "-p", "Hi", *form, "--model", script(world, "Here it is.")]
    with out.open("wb") as stdout:
        subprocess.run(
            [sys.executable, "-m", "lamina.cli.main", *words],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            check=True,
        )
    assert "Here it is." in seen.read_text()


@pytest.mark.spec("I2")
def test_json_is_one_object_with_text_usage_session_and_events(
    lamina: Run, world: Path, stdin: Any
) -> None:
    (world / "project" / "a.txt").write_text("x")
    ran = lamina("chat", "-p", "Look", "--json", "--model", script(world, LOOK, "Done."))
    assert ran.code == 0
    result = ran.json
    assert (result["text"], result["stop"]) == ("Done.", "end_turn")
    assert result["usage"]["output"] > 0
    kinds = [event["kind"] for event in result["events"]]
    assert kinds[0] == "turn_started"
    assert {"tool_started", "tool_finished", "model_called"} <= set(kinds)
    [listed] = lamina("sessions", "list", "--json").json
    assert listed["id"] == result["session"]


@pytest.mark.spec("I2")
def test_stream_json_is_every_event_as_a_line_and_the_result_last(
    lamina: Run, world: Path, stdin: Any
) -> None:
    ran = lamina("chat", "-p", "Hi", "--stream-json", "--model", script(world, "Hello there."))
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert lines[-1]["kind"] == "result"
    assert lines[-1]["text"] == "Hello there."
    assert "".join(e["text"] for e in lines if e["kind"] == "text_delta") == "Hello there."


@pytest.mark.spec("I2", "L5.6")
def test_what_is_piped_in_is_added_and_is_not_the_users_own_word(
    lamina: Run, world: Path, stdin: Any
) -> None:
    stdin(b"a diff with a bad byte \xff")
    model = script(world, {"expect": {"last_user": ["Review this", "a diff"]}, "reply": "Fine."})
    assert lamina("chat", "-p", "Review this", "--model", model).out == "Fine.\n"
    entries = lamina("sessions", "show", "--json").json["entries"]
    asked = [entry for entry in entries if entry.get("role") == "user"][-1]
    assert asked["origins"] == ["typed", "pasted"]
    stdin(b"only piped")
    assert lamina("chat", "--model", script(world, "Read.")).out == "Read.\n"


@pytest.mark.spec("I2", "L5.6")
def test_what_is_only_piped_in_is_not_said_to_be_kept(lamina: Run, stdin: Any) -> None:
    stdin(b"I prefer tabs over spaces.")
    assert "this session only" in lamina("chat", "--model", "none").out
    assert lamina("memory", "list", "--json").json == []
    stdin(b"")
    kept = lamina("chat", "-p", "I prefer tabs over spaces.", "--model", "none").out
    assert kept == "Noted: I prefer tabs over spaces.\n"


@pytest.mark.spec("F11", "I2")
def test_continue_and_resume_go_on_with_the_same_session(
    lamina: Run, world: Path, stdin: Any
) -> None:
    first = lamina("chat", "-p", "One", "--json", "--model", script(world, "1")).json["session"]
    again = script(world, {"expect": {"contains": ["One", "Two"]}, "reply": "2"})
    ran = lamina("chat", "-p", "Two", "--json", "--continue", "--model", again)
    assert (ran.json["session"], ran.json["text"]) == (first, "2")
    third = script(world, {"expect": {"contains": ["One", "Two", "Three"]}, "reply": "3"})
    ran = lamina("chat", "-p", "Three", "--json", "--resume", first[:8], "--model", third)
    assert ran.json["session"] == first
    fork = script(world, {"expect": {"contains": ["Three", "Four"]}, "reply": "4"})
    ran = lamina("chat", "-p", "Four", "--json", "--continue", "--fork", "--model", fork)
    assert ran.json["session"] != first
    assert ran.json["text"] == "4"


@pytest.mark.spec("I2")
def test_continue_passes_over_a_session_in_which_nothing_was_said(
    lamina: Run, world: Path, stdin: Any
) -> None:
    first = lamina("chat", "-p", "One", "--json", "--model", script(world, "1")).json["session"]
    with Session.open(model="none") as idle:
        assert idle.id != first
    ran = lamina("chat", "-p", "Two", "--json", "--continue", "--model", script(world, "2"))
    assert ran.json["session"] == first


@pytest.mark.spec("I2")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["-p", "  "], 2, "nothing to ask"),
        (["-p", "x", "--continue"], 2, "no sessions here yet"),
        (["-p", "x", "--resume", "zzz"], 2, "no sessions here yet"),
        (["-p", "x", "--continue", "--resume", "a"], 2, "not allowed with"),
        (["-p", "x", "--fork"], 2, "--fork needs"),
        (["-p", "x", "--project", "/nowhere/at/all"], 2, "There is no directory"),
        (["-p", "x", "--model", "scripted:/nowhere.json"], 2, "/nowhere.json"),
        (["-p", "x", "--model", "abacus:1"], 2, "abacus"),
        (["-p", "x", "--model", "anthropic:claude-sonnet-5-5"], 2, "ANTHROPIC_API_KEY"),
    ],
)
def test_bad_input_is_a_sentence_and_an_exit_code(
    lamina: Run, stdin: Any, words: list[str], code: int, said: str
) -> None:
    ran = lamina("chat", *words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_model_that_fails_is_a_sentence_and_exit_code_1(
    lamina: Run, world: Path, stdin: Any
) -> None:
    model = script(world, {"reply": {"error": "unreachable", "message": "No answer from there."}})
    ran = lamina("chat", "-p", "x", "--model", model)
    assert (ran.code, ran.out, ran.err) == (1, "", "lamina: No answer from there.\n")


def test_too_much_piped_in_is_refused(
    lamina: Run, stdin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lamina.cli import chat

    monkeypatch.setattr(chat, "LARGEST_INPUT", 10)
    stdin(b"x" * 11)
    ran = lamina("chat", "-p", "x")
    assert (ran.code, "More than 20 MB" in ran.err) == (2, True)


def test_a_pipe_that_nobody_writes_to_does_not_hang_it(world: Path) -> None:
    read, write = os.pipe()
    code = "import sys; from lamina.cli import chat, main; chat.SECONDS_FOR_INPUT = 0.01; sys.exit(main.main())"
    model = script(world, "Still here.")
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, "chat", "-p", "x", "--model", model],
            stdin=read,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(read)
        os.close(write)
    assert (done.returncode, done.stdout) == (0, "Still here.\n")
    assert "Nothing came through the pipe" in done.stderr


def test_a_conversation_is_refused_where_there_is_no_terminal(lamina: Run, stdin: Any) -> None:
    ran = lamina("chat")
    assert (ran.code, "nothing to ask" in ran.err) == (2, True)


@pytest.mark.spec("F11")
def test_an_interrupt_ends_the_turn_with_130_and_a_ledger_that_goes_on(
    lamina: Run, world: Path, stdin: Any
) -> None:
    import signal

    model = script(world, {"reply": {"hang": True}})
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "lamina.cli.main",
            "chat",
            "-p",
            "x",
            "--stream-json",
            "--model",
            model,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["kind"] == "turn_started"
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        said = process.stderr.read()
        assert (process.wait(60), said) == (130, "lamina: Interrupted.\n")
    go_on = script(world, {"expect": {"contains": ["x", "again"]}, "reply": "Here."})
    assert lamina("chat", "-p", "again", "--continue", "--model", go_on).out == "Here.\n"


def test_json_is_whole_where_the_output_knows_no_unicode(world: Path) -> None:
    words = ["chat", "-p", "hi", "--json", "--model", script(world, "Grüße …")]
    done = subprocess.run(
        [sys.executable, "-m", "lamina.cli.main", *words],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout.decode("ascii"))["text"] == "Grüße …"


@pytest.mark.spec("L6.1", "I2")
def test_a_script_does_not_wait_for_a_dream_at_its_end(
    lamina: Run, world: Path, stdin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_DREAM_SESSIONS", "0")
    ran = lamina("chat", "-p", "Hello.", "--model", script(world, {"reply": "Hi."}))
    assert (ran.code, ran.out) == (0, "Hi.\n")
    assert not list((world / "home").rglob(".consolidate-lock"))
    assert not list((world / "home").rglob("dream/status.json"))


# ---- what is remembered, and how a script learns that it was not


def remembered(lamina: Run) -> list[str]:
    return sorted(one["description"] for one in lamina("memory", "list", "-n", "0", "--json").json)


@pytest.mark.spec("L5.8", "I2")
def test_many_facts_of_one_form_are_all_kept(lamina: Run, world: Path, stdin: Any) -> None:
    facts = [f"customer {n} wants delivery in week {n}" for n in range(1, 13)]
    told = [lamina("chat", "-p", f"remember that {fact}", "--model", "none") for fact in facts]
    assert [ran.code for ran in told] == [0] * 12
    assert all("Memory updated: project_customer_" in ran.out for ran in told)
    assert remembered(lamina) == sorted(facts)


@pytest.mark.spec("L5.8", "L6.6")
@pytest.mark.parametrize(
    "facts",
    [
        ["Use port 8 for the API", "Use port 9 for the API"],
        [f"the API of shop {letter} is closed" for letter in "ABC"],
        ["Don't deploy on Friday", "Do deploy on Friday"],
        ["I prefer tabs over spaces", "I prefer spaces over tabs"],
        [
            f"customer {n} of the Hamburg branch wants delivery in the first week by truck"
            for n in (1, 2)
        ],
    ],
)
def test_facts_that_differ_in_a_letter_a_number_or_a_no_stand_beside_each_other(
    lamina: Run, world: Path, stdin: Any, facts: list[str]
) -> None:
    for fact in facts:
        ran = lamina("chat", "-p", f"remember that {fact}", "--model", "none")
        assert (ran.code, ran.out.split(":")[0]) == (0, "Memory updated")
    assert remembered(lamina) == sorted(facts)
    index = lamina("memory", "show").out
    assert "source:" not in index, "what the user typed is theirs, however like a memory it sounds"
    assert lamina("memory", "inbox", "--json").json == []


@pytest.mark.spec("L6.6")
def test_a_dream_keeps_what_differs_in_a_letter_and_drops_what_the_newer_word_denies(
    lamina: Run, world: Path, stdin: Any
) -> None:
    for fact in ("shop A is closed", "shop B is closed", "Don't deploy on Friday"):
        lamina("chat", "-p", f"remember that {fact}", "--model", "none")
    lamina("chat", "-p", "remember that Do deploy on Friday", "--model", "none")
    assert lamina("dream", "--model", "none").code == 0
    assert remembered(lamina) == ["Do deploy on Friday", "shop A is closed", "shop B is closed"]
    assert "Don't deploy" in lamina("memory", "log", "project_dont_deploy_friday.md", "--json").out


@pytest.mark.spec("L5.6", "I2")
def test_said_again_it_is_told_that_it_stands_there(lamina: Run, world: Path, stdin: Any) -> None:
    words = ("chat", "-p", "remember that the mascot is a walrus", "--model", "none")
    lamina(*words)
    ran = lamina(*words)
    assert (ran.code, ran.out) == (0, "project_mascot_walrus.md says this already.\n")


@pytest.mark.spec("L5.6", "I2")
def test_a_refusal_by_the_gate_is_a_sentence_for_people_and_exit_code_3(
    lamina: Run, world: Path, stdin: Any
) -> None:
    ran = lamina("chat", "-p", "remember that the host is peli\u202ecan", "--model", "none")
    assert ran.code == 3
    assert ran.out.startswith("Not remembered: project_host_pelican.md would hold U+202E")
    assert remembered(lamina) == []


@pytest.mark.spec("F6", "I2")
def test_a_refusal_by_a_permission_is_exit_code_3(lamina: Run, world: Path, stdin: Any) -> None:
    (world / "home").mkdir()
    (world / "home" / "settings.toml").write_text('[permissions]\ndeny = ["Bash"]\n')
    assert lamina("chat", "-p", "run true", "--model", "none").code == 3
    call = {"reply": {"tool_use": {"name": "Bash", "input": {"command": "true"}}}}
    (world / "project" / "a.txt").write_text("x")
    assert lamina("chat", "-p", "go", "--model", script(world, call, "I may not.")).code == 3
    another_way = script(world, call, LOOK, "Found it otherwise.")
    assert lamina("chat", "-p", "go", "--model", another_way).code == 0


@pytest.mark.spec("L5.6", "I2")
def test_a_model_whose_wish_to_remember_was_refused_ends_with_3_unless_it_found_a_way(
    lamina: Run, world: Path, stdin: Any
) -> None:
    (world / "project" / "a.txt").write_text("x")

    def wish(words: str) -> dict[str, Any]:
        given = {"content": words, "name": "host", "description": words, "type": "project"}
        return {"reply": {"tool_use": {"name": "Remember", "input": given}}}

    refused, taken = wish("The host is peli\u202ecan"), wish("The host is pelican")
    words = ("chat", "-p", "remember that the host is pelican", "--model")
    assert lamina(*words, script(world, refused, LOOK, "Sorry.")).code == 3
    assert lamina(*words, script(world, refused, taken, "Done.")).code == 0
    waits = wish("Tabs are preferred by the user")
    waits["reply"]["tool_use"]["input"]["type"] = "user"
    ran = lamina(*words, script(world, waits, taken, "Done."))
    assert ran.code == 3, "the one does not stand in for the other"
    assert "waits in the inbox" in ran.err


@pytest.mark.spec("L5.6", "I2")
def test_what_waits_in_the_inbox_is_told_with_the_command_that_saves_it(
    lamina: Run, world: Path, stdin: Any
) -> None:
    (world / "home").mkdir()
    (world / "home" / "settings.toml").write_text("[memory]\ninbox_all = true\n")
    ran = lamina("chat", "-p", "remember that the mascot is a walrus", "--model", "none")
    [item] = lamina("memory", "inbox", "--json").json
    assert ran.code == 3
    assert f"It is not remembered yet: `lamina memory inbox` shows it, and `lamina memory inbox accept {item['id']}` saves it." in ran.out  # fmt: skip
    assert lamina("memory", "inbox", "accept", item["id"]).code == 0
    assert remembered(lamina) == ["the mascot is a walrus"]


@pytest.mark.spec("I2", "L5.8")
@pytest.mark.parametrize("words", ["what is the meaning of this?", "read missing.py"])
def test_without_a_model_and_a_rule_that_helps_the_exit_code_is_1(
    lamina: Run, world: Path, stdin: Any, words: str
) -> None:
    ran = lamina("chat", "-p", words, "--json", "--model", "none")
    assert (ran.code, ran.json["stop"]) == (1, "unanswered")


@pytest.mark.spec("I2")
def test_where_something_is_looks_beyond_the_first_lines_that_speak_of_it(
    lamina: Run, world: Path, stdin: Any
) -> None:
    uses = "".join(f"get(timeout={number})\n" for number in range(400))
    (world / "project" / "a.py").write_text(uses)
    ask = ("chat", "--model", "none", "-p", "where is the timeout handled?")
    assert lamina(*ask).out.splitlines()[1:] == [f"a.py:{n + 1}:get(timeout={n})" for n in (0, 1)]
    (world / "project" / "z.py").write_text("def after_timeout():\n    retry()\n")
    assert "z.py:1:def after_timeout():" in lamina(*ask).out.splitlines()


@pytest.mark.spec("F9")
@pytest.mark.parametrize("file", ["settings.toml", "settings.local.toml"])
@pytest.mark.parametrize("key", ["model", "small_model"])
@pytest.mark.usefixtures("stdin")
def test_a_cloned_repository_does_not_choose_who_drives_the_agent(
    lamina: Run, world: Path, file: str, key: str
) -> None:
    brought = world / "project" / ".lamina"
    brought.mkdir()
    (brought / file).write_text(f'{key} = "scripted:.lamina/m.json"\n')
    steps = [
        {"reply": {"tool_use": [{"name": "Bash", "input": {"command": "touch ran"}}]}},
        {"reply": "Hi"},
    ]
    (brought / "m.json").write_text(json.dumps({"steps": steps, "otherwise": {"*": "[]"}}))
    ran = lamina("chat", "-p", "hi, what is this project?")
    assert ran.code == 2
    assert ran.err == (
        f"lamina: {brought / file} is inside the project and may not set {key}. "
        "Set it with `lamina settings set --user`, or delete it there.\n"
    )
    assert not (world / "project" / "ran").exists()


@pytest.mark.spec("F7")
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.usefixtures("stdin")
def test_bash_sees_a_token_of_another_service_only_if_the_user_listed_it(
    lamina: Run,
    world: Path,
    monkeypatch: pytest.MonkeyPatch,
    listed: bool,
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "CANARY")
    if listed:
        lamina("settings", "set", "bash.environment", "GITHUB_TOKEN")
    command = 'echo "[$GITHUB_TOKEN]" > seen'
    calls = {"reply": {"tool_use": [{"name": "Bash", "input": {"command": command}}]}}
    assert lamina("chat", "-p", "go", "--model", script(world, calls, {"reply": "ok"})).code == 0
    assert (world / "project" / "seen").read_text() == ("[CANARY]\n" if listed else "[]\n")


@pytest.mark.spec("L5.6", "I2")
@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ("Remember", "waits in the inbox"),
        ("Write", "waits in the inbox"),
        ("Forget", "Not forgotten: project_dock.md"),
    ],
)
def test_what_the_gate_keeps_back_is_told_even_if_the_model_does_not(
    lamina: Run, world: Path, stdin: Any, tool: str, told: str
) -> None:
    lamina(
        "memory", "add", "Crates leave from dock 4", "--type", "project", "--file", "project_dock"
    )
    memory = Path(lamina("memory", "export").json["directory"])
    text = "---\nname: Tabs\ndescription: Prefers tabs\ntype: user\n---\n\nThe user prefers tabs.\n"
    calls = {
        "Remember": {
            "content": "Prefers tabs.",
            "name": "x",
            "description": "Tabs",
            "type": "user",
        },
        "Write": {"file_path": str(memory / "user_tabs.md"), "content": text},
        "Forget": {"memory": "project_dock.md"},
    }
    model = script(world, {"reply": {"tool_use": {"name": tool, "input": calls[tool]}}}, "Done.")
    ran = lamina("chat", "-p", "Tidy the docks, please.", "--model", model)
    assert (ran.code, ran.out) == (3, "Done.\n")
    assert told in ran.err
    assert ("`lamina memory inbox` shows it." in ran.err) == (tool != "Forget")
    script(world, {"reply": {"tool_use": {"name": tool, "input": calls[tool]}}}, "Done.")
    assert lamina("chat", "--quiet", "-p", "Tidy the docks again.", "--model", model).err == ""
