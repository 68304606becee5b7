"""Read: what the model is shown of a file, and what it is refused."""

from __future__ import annotations

import base64
import os
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.examples import examples

if TYPE_CHECKING:
    from tests.tools.conftest import Bench

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F7")]

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


async def test_lines_are_shown_with_their_numbers(bench: Bench) -> None:
    (bench.project / "a.txt").write_text("one\ntwo\nthree\n")
    assert await bench.text("Read", file_path="a.txt") == "     1\tone\n     2\ttwo\n     3\tthree"


async def test_a_range_is_shown_and_the_way_on_is_named(bench: Bench) -> None:
    (bench.project / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    shown = await bench.text("Read", file_path="a.txt", offset=3, limit=2)
    assert shown.startswith("     3\tline 3\n     4\tline 4\n")
    assert "Lines 3 to 4 of 10; continue with offset 5." in shown


async def test_an_offset_past_the_end_says_how_long_the_file_is(bench: Bench) -> None:
    (bench.project / "a.txt").write_text("one\n")
    assert "has only 1 lines" in await bench.error("Read", file_path="a.txt", offset=7)


async def test_an_empty_file_says_so(bench: Bench) -> None:
    (bench.project / "a.txt").touch()
    assert "is empty" in await bench.text("Read", file_path="a.txt")


async def test_a_long_file_is_shown_up_to_the_bound_and_counts_as_seen_in_part(
    bench: Bench,
) -> None:
    path = bench.project / "a.txt"
    path.write_text("x\n" * 5_000)
    shown = await bench.text("Read", file_path=str(path))
    assert "Lines 1 to 2,000 of 5,000" in shown
    assert not bench.context.files[str(path)].whole


async def test_over_long_lines_are_cut_and_the_text_stays_bounded(bench: Bench) -> None:
    (bench.project / "a.txt").write_text(("é" * 9_000 + "\n") * 300)
    shown = await bench.text("Read", file_path="a.txt")
    assert len(shown) < 105_000
    assert "long lines were cut" in shown
    assert "not valid UTF-8" not in shown


async def test_a_file_too_large_to_load_is_shown_from_where_it_is_asked(bench: Bench) -> None:
    path = bench.project / "big.txt"
    with path.open("wb") as file:
        file.write(b"first\n" + b"y" * (40 << 20) + b"\nthird\n" + b"z\n" * 10)
    shown = await bench.text("Read", file_path=str(path), offset=3, limit=1)
    assert shown.startswith("     3\tthird\n")
    assert "continue with offset 4" in shown


async def test_an_image_comes_as_an_image_block(bench: Bench) -> None:
    (bench.project / "dot.png").write_bytes(PIXEL)
    outcome = await bench.run("Read", file_path="dot.png")
    assert isinstance(outcome.content, list)
    source = outcome.content[0]["source"]
    assert source["media_type"] == "image/png"
    assert base64.b64decode(source["data"]) == PIXEL


async def test_an_image_too_large_for_a_model_is_refused(bench: Bench) -> None:
    (bench.project / "dot.png").write_bytes(PIXEL + b"\0" * 4_000_000)
    assert "Make it smaller" in await bench.error("Read", file_path="dot.png")


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"%PDF-1.7\n...", "is a PDF"), (b"\x7fELF\0\0\0", "binary"), (b"\xff\xfea", "UTF-16")],
)
async def test_what_is_not_text_is_refused_with_a_clear_word(
    bench: Bench, content: bytes, word: str
) -> None:
    (bench.project / "thing").write_bytes(content)
    assert word in await bench.error("Read", file_path="thing")


async def test_bytes_that_are_not_text_are_replaced_and_the_reader_is_told(bench: Bench) -> None:
    (bench.project / "latin.txt").write_bytes("Käse\n".encode("latin-1"))
    shown = await bench.text("Read", file_path="latin.txt")
    assert "K\ufffdse" in shown
    assert "not valid UTF-8" in shown


async def test_utf16_and_byte_order_marks_are_understood(bench: Bench) -> None:
    (bench.project / "a.txt").write_bytes("grün\n".encode("utf-16"))
    (bench.project / "b.txt").write_bytes(b"\xef\xbb\xbfgr\xc3\xbcn\r\n")
    assert await bench.text("Read", file_path="a.txt") == "     1\tgrün"
    assert await bench.text("Read", file_path="b.txt") == "     1\tgrün"


async def test_directories_pipes_sockets_and_devices_are_refused_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(bench.project / "pipe")
    monkeypatch.chdir(bench.project)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
    assert "is a directory" in await bench.error("Read", file_path=".")
    for path in ("pipe", "sock", "/dev/zero"):
        assert "device, pipe or socket" in await bench.error("Read", file_path=path)


async def test_the_process_own_environment_can_not_be_read(bench: Bench) -> None:
    assert "window into the system" in await bench.error("Read", file_path="/proc/self/environ")


@pytest.mark.parametrize("path", ["missing", "a\0b", "", "\ud800", "x" * 300])
async def test_a_bad_path_is_one_sentence(bench: Bench, path: str) -> None:
    sentence = await bench.error("Read", file_path=path)
    assert sentence.endswith(".")
    assert "Traceback" not in sentence


async def test_a_link_is_followed_once_and_its_target_is_what_counts(bench: Bench) -> None:
    (bench.project / "a.txt").write_text("x\n")
    (bench.project / "link").symlink_to("a.txt")
    outcome = await bench.run("Read", file_path="link")
    assert outcome.meta["path"] == str(bench.project / "a.txt")


@examples(60, suppress=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400), offset=st.integers(1, 5), limit=st.integers(1, 5))
async def test_any_bytes_give_text_or_one_clear_sentence(
    bench: Bench, data: bytes, offset: int, limit: int
) -> None:
    (bench.project / "any").write_bytes(data)
    outcome = await bench.run("Read", file_path="any", offset=offset, limit=limit)
    if isinstance(outcome.content, str):
        outcome.content.encode("utf-8")
    assert not bench.events
