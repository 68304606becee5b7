"""Changes go into the bytes of a request (I7): only what is replaced is other bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.conversation.bodies import Form, form_of
from lamina.conversation.kept import Changes
from lamina.conversation.reading import Body, Reader

pytestmark = pytest.mark.spec("I7")
PLACE = "where the result stands"
MARKER = "[Old tool result content cleared; all of it is in /x/1a.txt]"


def form(path: str) -> Form:
    found = form_of(path)
    assert found is not None
    return found


def whole(read: Body) -> dict[str, Any]:
    return {read.form.said_in: [one.value for one in read.said], **read.around.given}


def spliced(raw: bytes, form: Form, body: dict[str, Any], changes: Changes) -> bytes:
    reader = Reader()
    reader.read(raw, form)
    read = reader.read(raw, form)  # known by now
    assert whole(read) == body
    return read.spliced(changes)


def result(call: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    others=st.dictionaries(st.text(max_size=6), values, max_size=4),
    content=st.text(max_size=40)
    | st.lists(st.builds(lambda t: {"type": "text", "text": t}, st.text())),
    new=st.text(max_size=20),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
    separators=st.sampled_from([None, (",", ":"), (" ,\t", " :\r\n ")]),
)
@examples(400)
def test_only_the_replaced_value_is_other_bytes_however_a_body_is_written(
    others: dict[str, Any],
    content: Any,
    new: str,
    indent: int | None,
    ascii_only: bool,
    separators: tuple[str, str] | None,
) -> None:
    def written(said: Any) -> tuple[bytes, dict[str, Any]]:
        block = {**others, **result("c1", said), "cache_control": {"type": "ephemeral"}}
        messages = [
            {"role": "user", "content": 'go \\" on'},
            {**others, "role": "user", "content": [{"type": "text", "text": "]}"}, block]},
            {"role": "assistant", "content": [{"type": "thinking", "signature": "s", **others}]},
        ]
        body = {**others, "messages": messages, "system": others}
        layout: Any = {"indent": indent, "ensure_ascii": ascii_only, "separators": separators}
        return json.dumps(body, **layout).encode(), block

    raw, block = written(content)
    changes = Changes("c", {1: {1: {**block, "content": new}}})
    made = spliced(raw, form("/v1/messages"), json.loads(raw), changes)
    around = written(PLACE)[0].split(json.dumps(PLACE).encode())
    assert made == msgspec.json.encode(new).join(around)
    assert len(around) == 2


def test_marks_of_now_are_carried_over_and_those_of_the_record_are_not() -> None:
    mark = {"type": "ephemeral"}
    now = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    body = {"messages": [{"role": "user", "content": [result("c", now)]}]}
    then = [{"type": "text", "text": "short", "cache_control": mark}]
    raw = json.dumps(body).encode()
    changes = Changes("", {0: {0: result("c", then, cache_control=mark)}})
    made = json.loads(spliced(raw, form("/v1/messages"), body, changes))
    assert made["messages"][0]["content"] == [result("c", [{**now[0], "text": "short"}])]


@pytest.mark.parametrize(
    ("path", "body", "block", "expected"),
    [
        (
            "/v1/chat/completions",
            {"messages": [{"role": "tool", "tool_call_id": "c", "content": "long"}]},
            result("c", MARKER),
            {"messages": [{"role": "tool", "tool_call_id": "c", "content": MARKER}]},
        ),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "long", "x": 1}]}]},
            {"type": "text", "text": "short"},
            {
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "short", "x": 1}]}
                ]
            },
        ),
        (
            "/v1/responses",
            {"input": [{"type": "function_call_output", "call_id": "c", "output": "long"}]},
            result("c", MARKER),
            {"input": [{"type": "function_call_output", "call_id": "c", "output": MARKER}]},
        ),
        (
            "/v1beta/models/g:streamGenerateContent",
            {"contents": [{"parts": [{"functionResponse": {"response": {"output": "long"}}}]}]},
            result("c", MARKER),
            {"contents": [{"parts": [{"functionResponse": {"response": {"output": MARKER}}}]}]},
        ),
    ],
)
def test_each_form_has_its_place_for_a_result(
    path: str, body: Any, block: Any, expected: Any
) -> None:
    raw = json.dumps(body, indent=2).encode()
    made = spliced(raw, form(path), body, Changes("", {0: {0: block}}))
    assert json.loads(made) == expected


@pytest.mark.parametrize("own", ["words", [{"type": "text", "text": "words"}]])
def test_what_is_added_comes_last(own: Any) -> None:
    body = {"messages": [{"role": "user", "content": own}]}
    raw = json.dumps(body, indent=2).encode()
    changes = Changes("", {}, {0: [{"type": "text", "text": "recalled"}]})
    made = json.loads(spliced(raw, form("/v1/messages"), body, changes))
    assert [b["text"] for b in made["messages"][0]["content"]] == ["words", "recalled"]


def test_a_name_that_is_there_twice_is_not_followed() -> None:
    raw = b'{"messages":[{"role":"user","content":"a","content":[{"type":"text","text":"b"}]}]}'
    changes = Changes("", {0: {0: {"type": "text", "text": "c"}}})
    with pytest.raises(ValueError, match=r"twice|should be"):
        spliced(raw, form("/v1/messages"), json.loads(raw), changes)


def test_without_changes_it_is_the_very_same() -> None:
    raw = b'{"messages": []}'
    assert spliced(raw, form("/messages"), {"messages": []}, Changes("")) is raw


@given(
    turns=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 3), st.sampled_from(["a", "b"])), max_size=6
    ),
    volatile=st.booleans(),
    ends=st.booleans(),
    indent=st.sampled_from([None, 1]),
)
@examples(150)
def test_what_is_known_already_is_read_as_if_it_were_new(
    turns: list[tuple[int, int, str]], volatile: bool, ends: bool, indent: int | None
) -> None:
    """Histories that grow, go back, branch, and whose marks change, and what is around them."""
    reader, said = Reader(), list[dict[str, Any]]()
    short = {at: {0: result(f"c{at}", "short")} for at in range(0, 40, 2)}
    for number, (back, more, word) in enumerate(turns):
        said = said[: max(0, len(said) - back)]
        said = [{k: v for k, v in one.items() if k != "cache_control"} for one in said]
        said += [result(f"c{n}", f"{word} {n} ]}},") for n in range(len(said), len(said) + more)]
        if said:
            said[-1]["cache_control"] = {"type": "ephemeral"}
        messages = [{"role": "user", "content": [block]} for block in said]
        system = f"instructions {number if volatile else 0}"
        tools = [{"name": "Read"}] * (number if ends else 1)
        raw = json.dumps(
            {"system": system, "messages": messages, "tools": tools}, indent=indent
        ).encode()
        known, new = (one.read(raw, form("/v1/messages")) for one in (reader, Reader()))
        assert whole(known) == whole(new) == json.loads(raw)
        assert (known.spans, known.hashes) == (new.spans, new.hashes)
        assert known.asked() == new.asked()
        assert [one.marked for one in known.said] == [one.marked for one in new.said]
        changes = Changes("", {at: blocks for at, blocks in short.items() if at < len(said)})
        assert known.spliced(changes) == new.spliced(changes)


def test_behind_a_mark_that_moved_on_messages_are_not_read_again() -> None:
    words = [{"role": "user", "content": [{"type": "text", "text": word}]} for word in "abcde"]
    mark, reader = {"cache_control": {"type": "ephemeral"}}, Reader()

    def read(count: int, *marked: int) -> Body:
        said: list[Any] = [{**one} for one in words[:count]]
        for at in marked:
            said[at]["content"] = [{**said[at]["content"][0], **mark}]
        return reader.read(json.dumps({"messages": said}).encode(), form("/v1/messages"))

    before, after = read(4, 1, 3), read(5, 3, 4)
    same = [one is other for one, other in zip(before.said, after.said, strict=False)]
    assert same == [True, False, True, True]  # the mark of the second is gone
    assert [one.marked for one in after.said] == [False, False, False, True, True]


@pytest.mark.parametrize("wrong", [b"{}{}", b"{},{},]", b"{},,{}", b"{},{}}", b"{},{}"])
def test_a_list_that_is_none_is_not_known_by_what_it_begins_with(wrong: bytes) -> None:
    one = json.dumps({"role": "user", "content": "a"}).encode()
    reader = Reader()
    reader.read(b'{"messages":[%b]}' % one, form("/v1/messages"))
    for parts in (wrong, wrong.replace(b",", b" , ")):
        with pytest.raises((ValueError, IndexError)):
            reader.read(b'{"messages":[%b}' % parts.replace(b"{}", one), form("/v1/messages"))
    with pytest.raises((ValueError, IndexError)):
        reader.read(b'{"messages":[%b],"messages":[%b]}' % (one, one), form("/v1/messages"))
    assert reader.read(b'{"messages":[%b , %b ] }' % (one, one), form("/v1/messages")).said


def test_what_stands_behind_the_messages_may_come_and_go() -> None:
    reader, one = Reader(), b'{"role":"user","content":"a"}'
    behind = (b"", b',"stop_sequences":["x"]', b"", b',"n":[{"m":[]}]')
    for number, more in enumerate(behind, 1):
        raw = b'{"messages":[%b]%b}' % (b",".join([one] * number), more)
        assert whole(reader.read(raw, form("/v1/messages"))) == json.loads(raw)


@pytest.mark.parametrize(
    ("path", "said_in", "parts_in"),
    [
        ("/v1/messages", "messages", "content"),
        ("/v1/chat/completions", "messages", "content"),
        ("/v1/responses", "input", "content"),
        ("/v1beta/models/m:generateContent", "contents", "parts"),
    ],
)
def test_a_summary_takes_the_place_of_the_first_messages_and_instructions_stay(
    path: str, said_in: str, parts_in: str
) -> None:
    words: Any = [{"text": "Gone."}] if parts_in == "parts" else "Gone."
    gone, last = {"role": "user", parts_in: words}, {"role": "user", parts_in: words, "n": 1}
    held = [{"role": "system", "content": "Be  brief."}] if parts_in == "content" else []
    body = {"before": 1, said_in: [gone, *held, gone, last], "behind": [2]}
    raw = json.dumps(body, indent=3).encode()
    changes = Changes("", folded=2 + len(held), summary='It "was".')
    own = form(path)
    made = spliced(raw, own, body, changes)
    assert json.loads(made) == own.spliced(body, changes), "as lamina.wrap sends it"
    assert [m["role"] for m in json.loads(made)[said_in]] == [
        "user",
        *["system"] * len(held),
        "user",
    ]
    assert made.startswith(raw[: raw.index(b"{", 1)])
    assert made.endswith(raw[raw.rindex(b'"n"') :])
