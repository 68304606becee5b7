"""The session's file: acknowledged means on disk, torn tails are repaired, damage is named."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.ledger.strategies import extra, json_values, words

from lamina.errors import LedgerError, SessionBusy
from lamina.ledger import edits, joining, log
from lamina.ledger.record import Ledger, fork_file


def _file(tmp_path: Path, *lines: bytes) -> Path:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(lines))
    return path


def _line(n: int, **more: Any) -> bytes:
    entry = {
        "kind": "message",
        "uuid": f"u{n}",
        "role": "user",
        "content": [{"type": "text", "text": f"m{n}"}],
        **more,
    }
    return msgspec.json.encode(entry) + b"\n"


@pytest.mark.spec("F1")
@examples(1_000)
@given(st.lists(st.tuples(words, extra, json_values), max_size=5))
def test_unknown_fields_and_kinds_survive_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, said: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("round") / "s.jsonl"
    entries = [
        {"kind": "novelty" if n % 2 else "state", "value": value, "name": word, **more}
        for n, (word, more, value) in enumerate(said)
    ]
    ledger = Ledger(None, lambda: 0.0)
    written = ledger.append(*entries)
    path.write_bytes(b"".join(log.encode(entry) + b"\n" for entry in written))
    reading = log.read(path)
    assert reading.entries == written
    assert reading.problems == []
    for entry, value in zip(written, entries, strict=True):
        assert {k: entry[k] for k in value} == value


@pytest.mark.spec("F1")
def test_each_entry_is_a_line_that_grep_can_find_chained_to_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "p" / "s.jsonl"
    ledger = Ledger.open(path)
    first, second = ledger.append(edits.message("user", "find me", "typed"), edits.state("a", 1))
    ledger.close()
    assert b"find me" in path.read_bytes().splitlines()[0]
    assert first["parentUuid"] is None
    assert second["parentUuid"] == first["uuid"]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.spec("F1")
@given(cut=st.integers(1, 60))
def test_a_torn_last_line_is_repaired_and_nothing_acknowledged_is_lost(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("torn") / "s.jsonl"
    torn = _line(3)[:-cut]
    path.write_bytes(_line(1) + _line(2) + torn)
    ledger = Ledger.open(path)
    names = [e["uuid"] for e in ledger.entries if e["kind"] == "message"]
    whole = cut == 1  # only the newline was missing
    assert names == (["u1", "u2", "u3"] if whole else ["u1", "u2"])
    assert len(ledger.problems) == (0 if whole else 1)
    ledger.append(edits.message("user", "goes on", "typed"))
    ledger.close()
    again = Ledger.open(path)
    assert again.problems == []  # known by now
    assert [e.get("uuid") for e in again.entries if e["kind"] == "message"][: len(names)] == names
    assert path.read_bytes().startswith(_line(1) + _line(2) + torn)  # never rewritten
    again.close()


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (b"{broken\n", "not JSON"),
        (b"\x00\x00\x00\x00\n", "not JSON"),
        (b"[1,2]\n", "not a JSON object"),
        (b'{"kind": 5, "uuid": "x"}\n', "kind or uuid"),
        (b"\xff\xfe{}\n", "not JSON"),
        (b"[" * 100_000 + b"\n", "not JSON"),
    ],
)
def test_a_corrupt_line_in_the_middle_is_named_and_the_rest_is_served(
    tmp_path: Path, damage: bytes, reason: str
) -> None:
    path = _file(tmp_path, _line(1), damage, _line(2))
    ledger = Ledger.open(path)
    [problem] = ledger.problems
    assert problem.line == 2
    assert reason in str(problem)
    assert [b["text"] for b in ledger.view().messages[0]["content"]] == ["m1", "m2"]
    ledger.close()
    assert [p.known for p in log.read(path).problems] == [True]


@pytest.mark.spec("F1")
def test_a_line_without_end_is_passed_over_without_reading_it(tmp_path: Path) -> None:
    path = _file(tmp_path, _line(1))
    with path.open("r+b") as file:
        file.seek(257 << 20, os.SEEK_END)  # a hole: the file system stores nothing
        file.write(b"\n" + _line(2))
    reading = log.read(path)
    assert [e["uuid"] for e in reading.entries] == ["u1", "u2"]
    assert "longer than 256 MB" in str(reading.problems[0])


@pytest.mark.spec("F1")
def test_a_second_writer_is_refused_and_a_fork_goes_its_own_way(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    ledger = Ledger.open(path)
    ledger.append(edits.message("user", "hi", "typed"))
    with pytest.raises(SessionBusy, match="open already in this program"):
        Ledger.open(path)
    copy = tmp_path / "copy.jsonl"
    fork_file(path, copy)
    fork = Ledger.open(copy)
    assert joining.request_bytes(fork.view()) == joining.request_bytes(ledger.view())
    fork.append(edits.message("user", "apart", "typed"))
    ledger.close()
    assert b"apart" not in path.read_bytes()
    fork.close()
    Ledger.open(path).close()  # the lock is gone with its holder


_WRITER = """
import sys
from pathlib import Path
from lamina.ledger import edits
from lamina.ledger.record import Ledger
ledger = Ledger.open(Path(sys.argv[1]))
n = 0
while True:
    ledger.append(edits.message("user", f"number {n} " + "x" * (n % 700), "typed"))
    print(n, flush=True)
    n += 1
"""


@pytest.mark.spec("F1")
@pytest.mark.parametrize("after", [1, 7, 23])
def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path, after: int) -> None:
    path = tmp_path / "s.jsonl"
    child = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout
    acknowledged = -1
    for line in child.stdout:
        acknowledged = int(line)
        if acknowledged >= after:
            break
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().split()
    child.stdout.close()
    child.wait()
    acknowledged = max([acknowledged, *map(int, rest)])
    ledger = Ledger.open(path)
    texts = [e["content"][0]["text"] for _, e in ledger.messages()]
    assert [t.split()[1] for t in texts][: acknowledged + 1] == [
        str(n) for n in range(acknowledged + 1)
    ]
    ledger.append(edits.message("user", "on", "typed"))
    ledger.close()


@pytest.mark.spec("F1")
def test_a_full_disk_is_one_clear_sentence_and_adds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    script = f"""
import resource, signal
from pathlib import Path
from lamina.errors import LedgerError
from lamina.ledger import edits
from lamina.ledger.record import Ledger
ledger = Ledger.open(Path({str(path)!r}))
ledger.append(edits.message("user", "kept", "typed"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    ledger.append(edits.message("user", "x" * 5000, "typed"))
except LedgerError as error:
    print(error)
assert len(list(ledger.messages())) == 1
ledger.append(edits.message("user", "small", "typed"))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "Nothing was added" in done.stdout
    reading = log.read(path)
    assert reading.problems == []
    assert [e["content"][0]["text"] for e in reading.entries] == ["kept", "small"]


@pytest.mark.spec("F1")
def test_a_failing_disk_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.open(tmp_path / "s.jsonl")
    ledger.append(edits.message("user", "kept", "typed"))

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(log, "sync", full)
    with pytest.raises(LedgerError, match="the disk is full"):
        ledger.append(edits.message("user", "lost", "typed"))
    monkeypatch.undo()
    ledger.append(edits.message("user", "after", "typed"))
    ledger.close()
    texts = [e["content"][0]["text"] for e in log.read(tmp_path / "s.jsonl").entries]
    assert texts == ["kept", "after"]


@pytest.mark.spec("F1")
def test_a_home_that_is_a_file_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("not a folder")
    with pytest.raises(LedgerError, match="Can't open the session file"):
        Ledger.open(tmp_path / "home" / "s.jsonl")
    with pytest.raises(LedgerError, match="Can't read the session file"):
        log.read(tmp_path / "nowhere.jsonl")


@pytest.mark.spec("F1")
def test_states_and_jobs_are_the_last_ones_written(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    ledger = Ledger.open(path)
    ledger.append(
        edits.state("todos", [1]), edits.job("notes", "running", "c1"), edits.state("todos", [2])
    )
    ledger.close()
    again = Ledger.open(path)
    assert again.state("todos") == [2]
    assert again.state("none", "default") == "default"
    job = again.job("notes")
    assert job
    assert job["cursor"] == "c1"
    assert again.job("dream") is None
    again.close()


@pytest.mark.spec("F1")
def test_a_file_taken_away_just_before_it_was_locked_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.jsonl"
    lock = fcntl.flock

    def late(fd: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        path.unlink()  # as a session that could not begin does
        lock(fd, how)

    monkeypatch.setattr(fcntl, "flock", late)
    opened, _ = log.LogFile.open(path)
    opened.write(b'{"kind":"note"}\n')
    opened.close()
    assert path.read_bytes() == b'{"kind":"note"}\n'
