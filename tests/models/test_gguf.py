"""Local models: the file, the form of the conversation, and (mark `model`) a real one that chats,
calls a tool under a JSON schema and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import (
    BadResponse,
    ModelConfigError,
    ModelError,
    ModelUnreachable,
    PromptTooLong,
)
from lamina.events import Event, TextDelta, quiet
from lamina.messages import Request, Response, Usage, text, tool_result, tool_use
from lamina.models import open_model
from lamina.models.gguf import (
    GgufModel,
    Speech,
    _NoGrammar,
    _refused,
    answer_schema,
    context_length,
    find_weights,
    plain_chat,
    read_answer,
)
from lamina.ports import Model

READ = {
    "name": "Read",
    "description": "Reads a file.\nMore about it.",
    "input_schema": {
        "type": "object",
        "properties": {"file_path": {"type": "string", "maxLength": 30}},
        "required": ["file_path"],
        "additionalProperties": False,
    },
}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": [text(b) if isinstance(b, str) else b for b in blocks]}


def answer(*blocks: Any) -> dict[str, Any]:
    return {**user(*blocks), "role": "assistant"}


# ---- the file


def packed(key: bytes, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + value


def header(*pairs: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs)


def test_the_window_is_read_from_the_header_past_strings_and_arrays(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    words = struct.pack("<Q", 2) + b"ab" + struct.pack("<Q", 0)
    file.write_bytes(
        header(
            packed(b"general.name", 8, struct.pack("<Q", 4) + b"tiny"),
            packed(b"tokens", 9, struct.pack("<IQ", 8, 2) + words),
            packed(b"scores", 9, struct.pack("<IQ", 6, 3) + b"\0" * 12),
            packed(b"f", 6, b"\0" * 4),
            packed(b"llama.context_length", 4, struct.pack("<I", 2048)),
        )
    )
    assert context_length(file) == 2048
    file.write_bytes(header(packed(b"x", 0, b"\x01")))
    assert context_length(file) is None


@pytest.mark.spec("F6")
@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"PK\x03\x04", "is not a GGUF file"),
        (b"GGUF\x03", "is damaged"),
        (header(packed(b"x", 8, struct.pack("<Q", 2**60))), "is damaged"),
        (header(packed(b"x", 99, b"")), "is damaged"),
        (header(packed(b"x", 8, struct.pack("<Q", 50) + b"short")), "is damaged"),
    ],
)
def test_a_file_that_is_no_model_is_a_clear_sentence(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(content)
    with pytest.raises(ModelConfigError, match=complaint):
        context_length(file)


@given(st.binary(max_size=200))
def test_no_header_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, tail: bytes) -> None:
    file = tmp_path_factory.mktemp("m") / "m.gguf"
    file.write_bytes(b"GGUF" + tail)
    with contextlib.suppress(ModelConfigError):  # nothing else may come out
        assert isinstance(context_length(file), int | None)


def test_weights_are_found_by_path_or_by_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "llm_tiny_one"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('never imported')")
    (package / "tiny.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_weights("tiny-one") == package / "tiny.gguf"
    assert find_weights(str(package / "tiny.gguf")) == package / "tiny.gguf"
    with pytest.raises(ModelConfigError, match="There is no GGUF model 'nobody'"):
        find_weights("nobody")
    with pytest.raises(ModelConfigError, match="There is no file"):
        find_weights("./nobody.gguf")


# ---- the form


def test_a_conversation_with_tools_is_told_in_plain_words() -> None:
    request = Request(
        [text("Be brief.")],
        [READ],
        [
            user("look", {"type": "image", "source": {}}),
            answer(
                {"type": "thinking", "thinking": "hm"}, "On it.", tool_use("t", "Read", {"a": "ü"})
            ),
            user(tool_result("t", "x = 1")),
            answer(tool_use("u", "Read", {})),
            user(tool_result("u", "gone", is_error=True), tool_result("?", "y")),
        ],
    )
    system, *chat = plain_chat(request)
    assert system["content"].startswith("Be brief.\n\nAnswer with one JSON object")
    assert "- Read(file_path): Reads a file." in system["content"]
    assert [m["content"] for m in chat] == [
        "look\n[a picture or document, which this model can't see]",
        '{"say":"On it."}\n{"tool":"Read","input":{"a":"ü"}}',
        "Read answered:\nx = 1",
        '{"tool":"Read","input":{}}',
        "Read failed:\ngone\nthe tool answered:\ny",
    ]


def test_a_conversation_without_tools_stays_as_it_is() -> None:
    assert plain_chat(Request([], [], [user("a"), answer("b"), user("c")])) == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]


def test_an_answer_is_words_or_one_call() -> None:
    assert read_answer('{"say": "hi"}', number=1, cut_off=False) == ([text("hi")], None)
    call = '{"tool": "Read", "input": {"file_path": "a"}}'
    assert read_answer(call, number=2, cut_off=False) == (
        [tool_use("gguf_0002", "Read", {"file_path": "a"})],
        None,
    )
    for bad in ("{", "[]", '{"say": 1}', '{"tool": "Read"}'):
        with pytest.raises(ValueError, match=r"Expecting|neither words nor a call"):
            read_answer(bad, number=1, cut_off=False)


@given(st.text(max_size=60), st.integers(min_value=0, max_value=200))
def test_words_that_broke_off_are_kept_as_far_as_they_go(words: str, at: int) -> None:
    whole = json.dumps({"say": words})
    if at >= len(whole):
        return
    content, cut = read_answer(whole[:at], number=1, cut_off=True)
    kept = content[0]["text"] if content else ""
    assert words.startswith(kept)
    assert cut in (None, "")


def test_a_call_that_broke_off_is_named() -> None:
    assert read_answer('{"tool": "Write", "input": {"x": "', number=1, cut_off=True) == (
        [],
        "Write",
    )


def test_the_schema_offers_words_and_every_tool() -> None:
    forms = answer_schema([READ])["oneOf"]
    assert [sorted(form["properties"]) for form in forms] == [["say"], ["input", "tool"]]
    assert forms[1]["properties"]["input"] == READ["input_schema"]
    other = {**READ, "name": "Other"}
    for choice, names in (
        ({"type": "any"}, ["Read", "Other"]),
        ({"type": "tool", "name": "Other"}, ["Other"]),
    ):
        called = answer_schema([READ, other], choice)["oneOf"]
        assert [form["properties"]["tool"]["const"] for form in called] == names
    assert len(answer_schema([READ], {"type": "none"})["oneOf"]) == 1
    loose = answer_schema([READ], exact=False)["oneOf"]
    assert loose[1]["properties"]["input"] == {"type": "object"}


# ---- a real one


def with_model(
    work: Callable[[GgufModel], Awaitable[Any]], name: str = "smollm2", **options: Any
) -> Any:
    async def whole() -> Any:
        given: dict[str, Any] = {"window": 1024, "threads": 1, **options}
        model = open_model(f"gguf:{name}", options=given)
        assert isinstance(model, GgufModel)
        assert isinstance(model, Model)
        try:
            return await work(model)
        finally:
            await model.close()

    return asyncio.run(whole())


@pytest.mark.model
@pytest.mark.spec("F6")
def test_a_real_model_chats_calls_a_tool_under_a_schema_and_goes_on() -> None:
    async def story(model: GgufModel) -> None:
        heard: list[Event] = []
        greeting = Request([text("You are kind.")], [], [user("Say hello.")], max_tokens=16)
        first = await model.complete(greeting, heard.append)
        assert first.text
        assert "".join(e.text for e in heard if isinstance(e, TextDelta)) == first.text
        assert first.usage.input > 0
        assert 0 < first.usage.output <= 16

        # A call is demanded: left alone, a model this small would rather talk.
        asked = Request(
            [text("Use tools.")],
            [READ],
            [user("Read the file a.py")],
            max_tokens=80,
            params={"tool_choice": {"type": "any"}},
        )
        second = await model.complete(asked, quiet)
        [use] = second.tool_uses
        assert (use["name"], second.stop_reason) == ("Read", "tool_use")
        assert set(use["input"]) == {"file_path"}

        after = Request(
            asked.system,
            asked.tools,
            [*asked.messages, answer(*second.content), user(tool_result(use["id"], "x = 1"))],
            max_tokens=60,
        )
        third = await model.complete(after, quiet)
        assert third.stop_reason in ("end_turn", "tool_use", "max_tokens")
        assert third.usage.input > second.usage.input

    with_model(story)


@pytest.mark.model
@pytest.mark.spec("F6", "F11")
def test_a_real_model_says_when_the_prompt_is_too_long_and_goes_on() -> None:
    async def story(model: GgufModel) -> None:
        assert model.capabilities.window == 1024
        with pytest.raises(PromptTooLong) as caught:
            await model.complete(Request([], [], [user("word " * 2000)]), quiet)
        assert caught.value.gap is not None
        assert caught.value.gap > 500
        process = model._process
        again = await model.complete(Request([], [], [user("Hi")], max_tokens=4), quiet)
        assert again.stop_reason == "max_tokens"
        assert model._process is process

    with_model(story)


@pytest.mark.model
@pytest.mark.spec("F11")
def test_cancelling_a_real_model_kills_its_process_and_the_next_call_works() -> None:
    async def story(model: GgufModel) -> None:
        begun = asyncio.Event()
        endless = Request([], [], [user("Tell me a long story.")], max_tokens=900)
        call = asyncio.create_task(model.complete(endless, lambda _: begun.set()))
        await begun.wait()
        process = model._process
        assert process is not None
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert process.returncode is not None
        again = await model.complete(Request([], [], [user("Hi")], max_tokens=4), quiet)
        assert again.content

    with_model(story)


@pytest.mark.model
def test_a_real_model_under_two_callers_serves_one_after_the_other() -> None:
    async def story(model: GgufModel) -> None:
        calls = [
            model.complete(Request([], [], [user(f"Count to {n}")], max_tokens=6), quiet)
            for n in (3, 4)
        ]
        assert all(response.content for response in await asyncio.gather(*calls))

    with_model(story)


@pytest.mark.model
def test_a_schema_that_makes_no_grammar_is_loosened() -> None:
    async def story(model: GgufModel) -> None:
        odd = {
            **READ,
            "input_schema": {"type": "object", "properties": {"x": {"$ref": "#/nowhere"}}},
        }
        params = {"tool_choice": {"type": "any"}}
        request = Request([], [odd], [user("Hi")], max_tokens=60, params=params)
        with pytest.raises(Exception, match=r"grammar|schema"):
            await model._answer(request, model._body(request), quiet)
        response = await model.complete(request, quiet)
        assert response.tool_uses or response.extra["cut_tool_use"] == "Read"

    with_model(story)


@pytest.mark.model
def test_a_process_that_dies_or_stays_silent_is_a_clear_sentence() -> None:
    async def story(model: GgufModel) -> None:
        await model.complete(Request([], [], [user("Hi")], max_tokens=2), quiet)
        assert model._process is not None
        model._process.kill()
        await model._process.wait()
        again = await model.complete(Request([], [], [user("Hi")], max_tokens=2), quiet)
        assert again.content
        model._timeout = 0.001
        with pytest.raises(ModelUnreachable, match="gave nothing for"):
            await model.complete(Request([], [], [user("Other words")], max_tokens=50), quiet)
        assert model._process is None

    with_model(story)


@pytest.mark.spec("F6")
def test_weights_that_can_not_be_loaded_are_a_clear_sentence(tmp_path: Path) -> None:
    file = tmp_path / "broken.gguf"
    file.write_bytes(header(packed(b"llama.context_length", 4, struct.pack("<I", 2048))))

    async def story() -> None:
        model = GgufModel(str(file), window=4096)
        assert (model.name, model.capabilities.window) == (f"gguf:{file}", 2048)
        # Whether the run-time is there or not, a child process says so and is gone afterwards.
        with pytest.raises(ModelError, match=r"can't be loaded|process of"):
            await model.complete(Request([], [], [user("Hi")]), quiet)
        assert model._process is None
        await model.close()

    asyncio.run(story())


def test_an_answer_under_a_schema_becomes_blocks_and_only_words_are_streamed(
    tmp_path: Path,
) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(header())
    model = GgufModel(str(file))
    asked = Request([], [READ], [user("Hi")])
    heard: list[Event] = []

    def whole(said: str, stop: str = "end_turn") -> Response:
        plain = Response([text(said)], stop, Usage(input=5, cache_read=3, output=2))
        return model._whole(asked, plain, heard.append)

    assert whole('{"say": "hi"}').content == [text("hi")]
    assert heard == [TextDelta("hi")]
    assert whole('{"say": "hi"}').usage == Usage(input=8, output=2)
    assert whole('{"tool": "Read", "input": {}}').stop_reason == "tool_use"
    assert whole('{"tool": "Read", "in', "max_tokens").extra["cut_tool_use"] == "Read"
    with pytest.raises(BadResponse, match="can't be read"):
        whole("[]")


@given(st.text(), st.booleans(), st.integers(1, 7))
def test_words_under_a_schema_are_heard_as_they_come(words: str, ascii_: bool, size: int) -> None:
    heard: list[str] = []
    speech = Speech(heard.append)
    whole = json.dumps({"say": words}, ensure_ascii=ascii_)
    for at in range(0, len(whole), size):
        speech.hear(whole[at : at + size])
        assert words.startswith(speech.said)
        assert len(speech.said) >= len("".join(heard))
    assert "".join(heard) == speech.said == words


def test_a_call_under_a_schema_is_not_heard() -> None:
    speech = Speech(pytest.fail)
    for letter in '{"tool": "Say", "input": {"say": "hello"}}':
        speech.hear(letter)
    assert not speech.said


def test_what_the_run_time_refuses_is_told_apart() -> None:
    long = "request (3031 tokens) exceeds the available context size (2048 tokens)"
    refused = _refused({"message": long})
    assert isinstance(refused, PromptTooLong)
    assert refused.gap == 983
    assert isinstance(_refused({"message": "failed to parse grammar"}), _NoGrammar)
    assert "rejected the request: no" in str(_refused({"message": "no"}))
