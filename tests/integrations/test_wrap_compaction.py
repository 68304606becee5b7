"""`lamina.wrap` near the end of the window (I1, L4.1): a summary of the list's older part, its end as it is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.integrations.conftest import READ, hearing, lines
from tests.wire.cache import PromptCache
from tests.wire.server import Answer, WireServer, fails

import lamina
from lamina.cli.main import main
from lamina.config import load
from lamina.conversation.bodies import ANTHROPIC, FORMS, Form
from lamina.conversation.kept import Conversations
from lamina.integrations.mcp_calls import Calls
from lamina.ledger.tokens import LONG_BETA, LONG_SUFFIX
from lamina.messages import Usage, dicts

if TYPE_CHECKING:
    import anthropic

Json = dict[str, Any]
pytestmark = [pytest.mark.spec("I1"), pytest.mark.spec("L4.1")]
MODEL, WINDOW = "claude-haiku-4-5", 200_000
CHAT = FORMS["openai"]["chat.completions"]
RESPONSES = FORMS["openai"]["responses"]
READ_CHAT: Json = {
    "type": "function",
    "function": {"name": "Read", "parameters": READ["input_schema"]},
}
ASKED = "Make the tests of the payment service pass, and never touch the ledger's schema."


def rounds(form: Form, number: int, words: str) -> list[Json]:
    """An answer that calls a tool, and what that gave."""
    name, path = f"call{number}", f"/src/part_{number}.py"
    if form is ANTHROPIC:
        thought = {
            "type": "thinking",
            "thinking": f"Part {number} next.",
            "signature": f"s{number}",
        }
        says = {"type": "text", "text": f"Part {number} it is."}
        call = {"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": path}}
        result = {"type": "tool_result", "tool_use_id": name, "content": words}
        return [
            {"role": "assistant", "content": [thought, says, call]},
            {"role": "user", "content": [result]},
        ]
    given = {"name": "Read", "arguments": json.dumps({"file_path": path})}
    if form is RESPONSES:
        return [
            {"type": "reasoning", "id": f"r{number}", "summary": []},
            {"type": "function_call", "call_id": name, **given},
            {"type": "function_call_output", "call_id": name, "output": words},
        ]
    call = {"id": name, "type": "function", "function": given}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "content": words},
    ]


def size_of(body: Json) -> int:
    return len(json.dumps(body)) // 4


@pytest.fixture
def strict(wire: WireServer) -> WireServer:
    """A server that refuses what is longer than the window, as providers do."""

    def served(body: Json) -> Answer:
        size = size_of(body)
        if size + (body.get("max_tokens") or 0) > WINDOW:
            return fails(400, "invalid_request_error", "prompt is too long")
        return Answer(usage={"input_tokens": size, "output_tokens": 5})

    wire.rule = served
    return wire


def narrow(bare: Any, project: Path, home: Path) -> Any:
    """A wrapped client that compacts early."""
    home.mkdir()
    (home / "settings.toml").write_text("[compact]\nwindow = 60000\n")
    return lamina.wrap(bare, project, files=False, home=home)


def ask(client: Any, messages: list[Json], **more: Any) -> None:
    given = {"model": MODEL, "max_tokens": 1_000, "system": "Be brief.", "tools": [READ], **more}
    client.messages.create(messages=messages, **given)


def sent(wire: WireServer, at: int = -1, where: str = "messages") -> list[Json]:
    return wire.received[at].body[where]


def breaks(wire: WireServer, first: int = 0, where: str = "messages") -> int:
    """How often a request did not begin with the one before it, to the byte."""
    bodies = [json.dumps(one.body[where])[:-1] for one in wire.received[first:]]
    return sum(not later.startswith(earlier) for earlier, later in pairwise(bodies))


def is_summary(message: Json) -> bool:
    return message.get("role") == "user" and str(message["content"]).startswith("<summary>")


def work(
    send: Callable[[list[Json]], None],
    form: Form,
    count: int,
    messages: list[Json],
    start: int = 0,
    lines_each: int = 400,
) -> list[Json]:
    for number in range(start, start + count):
        messages += rounds(form, number, lines(str(number), lines_each))
        whole = json.dumps(messages)
        send(messages)
        assert json.dumps(messages) == whole, "the program's list is its own"
    return messages


# ---- a loop that is longer than the window


def test_an_anthropic_loop_beyond_the_window_is_never_refused(
    bare: anthropic.Anthropic, strict: WireServer, project: Path, home: Path
) -> None:
    client = lamina.wrap(bare, project, files=False, home=home)
    first: Json = {"role": "user", "content": ASKED}
    messages = work(lambda m: ask(client, m), ANTHROPIC, 20, [first], lines_each=1200)
    assert size_of({"messages": messages}) > 1.2 * WINDOW
    assert len(strict.received) == 20, "no request was sent twice"
    assert breaks(strict) == 1, "the beginning changes with the compaction, and then no more"
    body = strict.received[-1].body
    assert (body["system"], body["tools"]) == ("Be brief.", [READ])
    shown = body["messages"]
    assert is_summary(shown[0])
    assert "never touch the ledger's schema" in shown[0]["content"]
    assert "Expand" not in shown[0]["content"]
    assert shown[1:] == messages[-len(shown) + 1 :], "the end is the program's own, thinking too"
    assert [m["role"] for m in shown] == ["user", "assistant"] * (len(shown) // 2) + ["user"]


def test_an_openai_loop_beyond_the_window_is_never_refused(
    strict: WireServer, project: Path, home: Path
) -> None:
    (home / "settings.toml").parent.mkdir(parents=True)
    (home / "settings.toml").write_text("[compact]\nwindow = 200000\n")
    messages: list[Json] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": ASKED},
    ]
    with openai.OpenAI(base_url=strict.openai_url, api_key="k", max_retries=0) as bare:
        client: Any = lamina.wrap(bare, project, files=False, home=home)

        def send(said: list[Json]) -> None:
            client.chat.completions.create(model="gpt-5", messages=said, tools=[READ_CHAT])

        work(send, CHAT, 20, messages, lines_each=1200)
    assert size_of({"messages": messages}) > 1.2 * WINDOW
    assert (len(strict.received), breaks(strict)) == (20, 1)
    shown = sent(strict)
    assert shown[0] == messages[0], "instructions stay where they are"
    assert is_summary(shown[1])
    assert "never touch the ledger's schema" in shown[1]["content"]
    assert shown[2:] == messages[-len(shown) + 2 :]
    assert [m["role"] for m in shown[2:]] == ["assistant", "tool"] * (len(shown[2:]) // 2)


def test_the_responses_api_is_compacted_too(strict: WireServer, project: Path, home: Path) -> None:
    (home / "settings.toml").parent.mkdir(parents=True)
    (home / "settings.toml").write_text("[compact]\nwindow = 100000\n")
    items: list[Json] = [{"role": "user", "content": ASKED}]
    with openai.OpenAI(base_url=strict.openai_url, api_key="k", max_retries=0) as bare:
        client: Any = lamina.wrap(bare, project, files=False, home=home)
        work(
            lambda m: client.responses.create(model="gpt-5", input=m),
            RESPONSES,
            10,
            items,
            lines_each=800,
        )
    assert breaks(strict, where="input") == 1
    shown = sent(strict, where="input")
    assert is_summary(shown[0])
    assert shown[1]["type"] == "reasoning", "which goes with the call behind it"
    assert shown[1:] == items[-len(shown) + 1 :]


# ---- the same bytes


def test_a_compacted_conversation_goes_on_in_another_process(
    bare: anthropic.Anthropic, strict: WireServer, project: Path, home: Path
) -> None:
    client = narrow(bare, project, home)
    messages = work(lambda m: ask(client, m), ANTHROPIC, 12, [{"role": "user", "content": ASKED}])
    assert is_summary(sent(strict)[0])
    messages += rounds(ANTHROPIC, 12, lines("12", 40))
    program = (
        "import anthropic, json, lamina, sys\n"
        "url, project, home, body = sys.argv[1:]\n"
        "client = lamina.wrap(anthropic.Anthropic(base_url=url, api_key='k'), project,\n"
        "    files=False, home=home)\n"
        "client.messages.create(**json.load(open(body)))\n"
    )
    given = {"model": MODEL, "max_tokens": 1_000, "system": "Be brief.", "tools": [READ]}
    body = project / "body.json"
    body.write_text(json.dumps({**given, "messages": messages}))
    command = [sys.executable, "-c", program, strict.anthropic_url, str(project), str(home)]
    subprocess.run([*command, str(body)], check=True, capture_output=True)
    assert breaks(strict, -2) == 0
    messages += rounds(ANTHROPIC, 13, lines("13", 40))
    ask(client, messages)
    assert breaks(strict, -3) == 0, "and this process goes on from there"


def test_a_branch_behind_the_summary_has_it_and_one_before_it_is_whole(
    bare: anthropic.Anthropic, strict: WireServer, project: Path, home: Path
) -> None:
    client = narrow(bare, project, home)
    messages: list[Json] = [{"role": "user", "content": ASKED}]
    for number in range(20):
        work(lambda m: ask(client, m), ANTHROPIC, 1, messages, start=number)
        if is_summary(sent(strict)[0]):
            break
    compacted = sent(strict)
    assert is_summary(compacted[0])
    again = [*messages[:-1], *rounds(ANTHROPIC, len(messages) // 2 - 1, "Nothing.")[1:]]
    ask(client, again)
    assert sent(strict)[:-1] == compacted[:-1], "the last result was another one"
    assert sent(strict)[-1] == again[-1]
    early = [*messages[:5], *rounds(ANTHROPIC, 90, "Nothing.")]
    ask(client, early)
    assert sent(strict) == early


# ---- the notes that it stands on


def notes_of(home: Path) -> dict[str, str]:
    """The notes of each conversation that has some, by its name."""
    found = home.glob("projects/*/conversations/*/session-memory/summary.md")
    return {path.parents[1].name: path.read_text("utf-8") for path in found}


def sources(home: Path) -> list[str]:
    """What the summaries of all conversations were made from."""
    logs = home.glob("projects/*/conversations/*.jsonl")
    entries = [json.loads(line) for log in logs for line in log.read_text("utf-8").splitlines()]
    return [one["boundary"]["source"] for one in entries if one.get("boundary")]


@pytest.mark.spec("L3.2")
@pytest.mark.spec("L3.5")
def test_notes_are_kept_without_a_call_and_the_summary_is_made_from_them(
    bare: anthropic.Anthropic,
    strict: WireServer,
    project: Path,
    home: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    client = narrow(bare, project, home)
    first: Json = {"role": "user", "content": ASKED}
    messages = work(lambda m: ask(client, m), ANTHROPIC, 7, [first], lines_each=150)
    ((name, early),) = notes_of(home).items()
    assert ASKED in early
    assert "/src/part_1.py" in early
    work(lambda m: ask(client, m), ANTHROPIC, 13, messages, start=7, lines_each=150)
    assert len(strict.received) == 20, "no call but the program's"
    assert set(sources(home)) == {"notes"}
    summary = sent(strict)[0]["content"]
    assert is_summary(sent(strict)[0])
    assert "# Task specification" in summary
    assert str(home) not in summary, "nobody is sent to a file that no tool can read"
    own = ["--home", str(home), "--project", str(project)]
    assert main(["sessions", "show", name[:8], "--notes", *own]) == 0
    assert capsys.readouterr().out.strip() == notes_of(home)[name].strip()
    calls = Calls(str(project), str(home))
    assert calls.call("notes", {}) == (notes_of(home)[name], False)
    calls.close()


@pytest.mark.spec("L3.2")
def test_switched_off_there_are_no_notes_and_the_record_serves(
    bare: anthropic.Anthropic, strict: WireServer, project: Path, home: Path
) -> None:
    home.mkdir()
    (home / "settings.toml").write_text("[compact]\nwindow = 60000\n[notes]\nenabled = false\n")
    client = lamina.wrap(bare, project, files=False, home=home)
    first: Json = {"role": "user", "content": ASKED}
    work(lambda m: ask(client, m), ANTHROPIC, 20, [first], lines_each=150)
    assert is_summary(sent(strict)[0])
    assert notes_of(home) == {}
    assert set(sources(home)) == {"local"}


def test_a_branch_has_notes_of_its_own(
    bare: anthropic.Anthropic, strict: WireServer, project: Path, home: Path
) -> None:
    client = lamina.wrap(bare, project, files=False, home=home)
    first: Json = {"role": "user", "content": ASKED}
    messages = work(lambda m: ask(client, m), ANTHROPIC, 3, [first], lines_each=500)
    work(lambda m: ask(client, m), ANTHROPIC, 6, messages[:3], start=20, lines_each=500)
    one, other = sorted(notes_of(home).values(), key=lambda words: "part_20" in words)
    assert "part_1.py" in one
    assert "part_0.py" in other
    assert "part_1.py" not in other
    assert len(strict.received) == 9


def test_notes_that_can_not_be_written_cost_no_summary(
    bare: anthropic.Anthropic, strict: WireServer, project: Path, home: Path
) -> None:
    client = narrow(bare, project, home)
    messages = work(lambda m: ask(client, m), ANTHROPIC, 1, [{"role": "user", "content": ASKED}])
    (log,) = home.glob("projects/*/conversations/*.jsonl")
    log.with_suffix("").mkdir(exist_ok=True)
    (log.with_suffix("") / "session-memory").write_text("in the way")
    with pytest.warns(RuntimeWarning, match="notes failed"):
        work(lambda m: ask(client, m), ANTHROPIC, 11, messages, start=1)
    assert is_summary(sent(strict)[0])


# ---- the way back


def test_the_summary_names_a_file_that_has_all_of_it(
    bare: anthropic.Anthropic, strict: WireServer, project: Path, home: Path
) -> None:
    home.mkdir()
    on_disk = "[tool_results]\nenabled = false\n[microcompact]\nworn = false\n"
    (home / "settings.toml").write_text(f"[compact]\nwindow = 60000\n{on_disk}")
    client = lamina.wrap(bare, project, home=home)
    messages = work(lambda m: ask(client, m), ANTHROPIC, 12, [{"role": "user", "content": ASKED}])
    shown = sent(strict)
    found = re.search(r"All of them are in (\S+),", shown[0]["content"])
    assert found
    whole = Path(found[1]).read_text("utf-8")
    assert ASKED in whole
    gone = messages[2 : len(messages) - len(shown) + 1 : 2]
    assert len(gone) > 3
    assert all(message["content"][0]["content"] in whole for message in gone)


# ---- switched off


@pytest.mark.parametrize("off", ["argument", "setting"])
def test_switched_off_the_list_goes_out_whole_to_the_byte(
    off: str, bare: anthropic.Anthropic, strict: WireServer, project: Path, home: Path
) -> None:
    home.mkdir()
    auto = "auto = false\n" if off == "setting" else ""
    (home / "settings.toml").write_text(f"[compact]\nwindow = 40000\n{auto}")
    client = lamina.wrap(bare, project, files=False, compact=off != "argument", home=home)
    messages = work(lambda m: ask(client, m), ANTHROPIC, 8, [{"role": "user", "content": ASKED}])
    ask(bare, messages)
    assert strict.received[-1].raw == strict.received[-2].raw


def test_a_list_that_was_compacted_is_whole_again_when_switched_off(
    bare: anthropic.Anthropic, strict: WireServer, project: Path, home: Path
) -> None:
    client = narrow(bare, project, home)
    messages = work(lambda m: ask(client, m), ANTHROPIC, 12, [{"role": "user", "content": ASKED}])
    assert is_summary(sent(strict)[0])
    messages += rounds(ANTHROPIC, 12, "Nothing.")
    ask(lamina.wrap(bare, project, files=False, compact=False, home=home), messages)
    assert sent(strict) == messages


def test_a_message_that_is_larger_than_the_window_is_cut_and_that_is_told(
    bare: anthropic.Anthropic, strict: WireServer, project: Path, home: Path
) -> None:
    client = lamina.wrap(bare, project, files=False, home=home)
    with hearing() as told:
        ask(client, [{"role": "user", "content": "word " * 200_000}])
    assert len(strict.received) == 1
    assert ["too large for this model's window" in one for one in told] == [True]


def test_a_server_that_tells_nothing_of_the_prompt_is_not_believed_that_it_was_empty(
    bare: anthropic.Anthropic, wire: WireServer, project: Path, home: Path
) -> None:
    wire.rule = lambda body: Answer(usage={"input_tokens": 0, "output_tokens": 5})
    client = narrow(bare, project, home)
    work(lambda m: ask(client, m), ANTHROPIC, 9, [{"role": "user", "content": ASKED}])
    assert is_summary(sent(wire)[0])


def test_a_long_answer_is_given_its_room(
    bare: anthropic.Anthropic, strict: WireServer, project: Path, home: Path
) -> None:
    client = lamina.wrap(bare, project, files=False, home=home)
    said: list[Json] = [{"role": "user", "content": ASKED}]
    work(
        lambda m: ask(client, m, max_tokens=64_000, timeout=600),
        ANTHROPIC,
        15,
        said,
        lines_each=1200,
    )
    assert len(strict.received) == 15


@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")
@pytest.mark.parametrize(
    "way", ["the client's header", "a copy's header", "the call's", "a beta", "the model", "none"]
)
def test_a_window_of_a_million_is_seen_wherever_it_is_asked_for(
    way: str, bare: anthropic.Anthropic, wire: WireServer, project: Path, home: Path
) -> None:
    header = {"Anthropic-Beta": f"other-beta, {LONG_BETA}"}
    bare = bare.copy(default_headers=header) if way == "the client's header" else bare
    client: Any = lamina.wrap(bare, project, files=False, home=home)
    client = client.with_options(default_headers=header) if way == "a copy's header" else client
    client = client.beta if way == "a beta" else client
    more: Json = {"extra_headers": header} if way == "the call's" else {}
    more |= {"betas": [LONG_BETA]} if way == "a beta" else {}
    parts = [rounds(ANTHROPIC, number, lines(str(number), 1200)) for number in range(20)]
    messages = [{"role": "user", "content": ASKED}, *(one for part in parts for one in part)]
    model = "claude-sonnet-4-5" + LONG_SUFFIX * (way == "the model")
    ask(client, messages, model=model, **more)
    assert is_summary(sent(wire)[0]) == (way == "none")


# ---- whatever a program's list looks like

WORDS = st.integers(1, 30).map(lambda n: lines(str(n), 8 * n))


@st.composite
def programs(draw: st.DrawFn) -> tuple[Form, list[list[Json]]]:
    """A form, and what each step of a program adds to its list: answers with several calls, results
    with words behind them, plain talk, instructions in between."""
    form = draw(st.sampled_from([ANTHROPIC, CHAT]))
    steps: list[list[Json]] = []
    for number in range(draw(st.integers(3, 7))):
        calls = draw(st.integers(0, 3))
        pairs = [rounds(form, 10 * number + at, draw(WORDS)) for at in range(calls)]
        words = draw(st.sampled_from(["", "Go on.", lines("w", 60)]))
        asks = {"role": "user", "content": words or "And?"}
        if not calls:
            steps.append([{"role": "assistant", "content": "Done."}, asks])
        elif form is ANTHROPIC:
            answer = [block for answer, _ in pairs for block in answer["content"]]
            results = [result["content"][0] for _, result in pairs]
            more = [{"type": "text", "text": words}] if words else []
            said = {"role": "user", "content": [*results, *more]}
            steps.append([{"role": "assistant", "content": answer}, said])
        else:
            given = [answer["tool_calls"][0] for answer, _ in pairs]
            told = [{"role": "system", "content": "Mind the time."}] if draw(st.booleans()) else []
            results = [result for _, result in pairs]
            more = [asks] if words else []
            steps.append([{**pairs[0][0], "tool_calls": given}, *results, *told, *more])
    return form, steps


def calls_and_results(message: Json) -> tuple[set[str], set[str]]:
    blocks = dicts(message["content"])
    uses = {one["id"] for one in message.get("tool_calls", ())}
    uses |= {one["id"] for one in blocks if one["type"] == "tool_use"}
    results = {one["tool_use_id"] for one in blocks if one["type"] == "tool_result"}
    return uses, results | ({message["tool_call_id"]} if message["role"] == "tool" else set())


@examples(8)
@given(programs())
def test_no_call_is_parted_from_its_result_and_the_rest_is_verbatim(
    tmp_path_factory: pytest.TempPathFactory, program: tuple[Form, list[list[Json]]]
) -> None:
    form, steps = program
    folder = tmp_path_factory.mktemp("kept")
    (folder / "home").mkdir()
    (folder / "home" / "settings.toml").write_text("[window]\ntokens = 10000\n")
    config = load(folder, home=folder / "home")
    messages: list[Json] = [{"role": "user", "content": ASKED}]
    for step in steps:
        messages += step
        kept = Conversations(folder / "kept", config, compacts=True)  # a new process each time
        body = {"model": "small", "messages": messages}
        asked = form.asked(body, files=False)
        assert asked is not None
        changes = kept.changes(asked)
        kept.answered(changes.conversation, Usage(size_of(body), 10), "small")
        shown = form.spliced(body, changes)["messages"]
        waiting: set[str] = set()
        for message in shown:
            uses, results = calls_and_results(message)
            assert results <= waiting, "a result without its call"
            assert not (waiting and message["role"] == "assistant"), "a call without its result"
            waiting = (waiting - results) | uses
        assert not waiting
        if not changes.folded:
            assert len(shown) == len(messages)
            continue
        rest = messages[changes.folded :]
        assert rest[0]["role"] == "assistant"
        tail = shown[-len(rest) :]
        untouched = [n for n in range(len(rest)) if n + changes.folded not in changes.replaced]
        assert all(tail[n] == rest[n] for n in untouched)
        before = shown[: -len(rest)]
        stays = [m for m in messages[: changes.folded] if m["role"] == "system"]
        assert [m for m in before if m["role"] == "system"] == stays
        assert [is_summary(m) for m in before if m["role"] != "system"] == [True]


# ---- a cache that breaks


def cached(wire: WireServer) -> None:
    """The server bills by a cache that works."""
    cache = PromptCache()

    def served(body: Json) -> Answer:
        system = [{"type": "text", "text": body["system"]}]
        usage, _ = cache.serve({**body, "system": system, "messages": _as_blocks(body["messages"])})
        return Answer(usage={**usage, "output_tokens": 5})

    wire.rule = served


def _as_blocks(messages: list[Json]) -> list[Json]:
    worded = [isinstance(m["content"], str) for m in messages]
    blocks = [[{"type": "text", "text": m["content"]}] for m in messages]
    return [
        {**m, "content": own if words else m["content"]}
        for m, own, words in zip(messages, blocks, worded, strict=True)
    ]


def marked(messages: list[Json]) -> list[Json]:
    *rest, last = messages[-1]["content"]
    mark = {**last, "cache_control": {"type": "ephemeral"}}
    return [*messages[:-1], {**messages[-1], "content": [*rest, mark]}]


@pytest.mark.spec("F12")
def test_a_cache_that_the_provider_lost_is_not_laid_at_the_programs_door(
    wire: WireServer, project: Path, home: Path
) -> None:
    wire.rule = lambda body: Answer(usage={"input_tokens": size_of(body), "output_tokens": 5})
    messages: list[Json] = [{"role": "user", "content": ASKED}]
    with openai.OpenAI(base_url=wire.openai_url, api_key="k") as bare, hearing() as told:
        client: Any = lamina.wrap(bare, project, files=False, home=home)
        work(lambda m: client.chat.completions.create(model="gpt-5", messages=m), CHAT, 4, messages)
    assert (len(wire.received), told) == (4, [])


@pytest.mark.spec("F12")
def test_what_the_program_does_to_its_cache_is_told_and_our_own_doing_is_not(
    bare: anthropic.Anthropic, wire: WireServer, project: Path, home: Path
) -> None:
    cached(wire)
    client = narrow(bare, project, home)
    with hearing() as heard:
        first: Json = {"role": "user", "content": ASKED}
        messages = work(lambda m: ask(client, marked(m)), ANTHROPIC, 12, [first])
    assert is_summary(sent(wire)[0]), "which broke the cache, and had to"
    assert heard == []
    for number, told in ((12, True), (13, False)):
        messages += rounds(ANTHROPIC, number, "Nothing.")
        with hearing() as heard:
            ask(client, marked(messages), system=f"It is {number} o'clock.")
        assert ["system prompt changed" in one for one in heard] == [True] * told, "once a cause"
