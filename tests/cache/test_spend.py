"""The ledger of spending: every call booked, caps for background work alone."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lamina.cache.spend import Spend, grouped
from lamina.messages import Usage

NOON = 1_790_000_000.0
USAGE = Usage(input=1_000_000)
PRICES = {"m": {"input": 2.0, "output": 10.0}}


def spend(folder: Path, **caps: object) -> Spend:
    return Spend(folder, prices=PRICES, **caps)  # type: ignore[arg-type]


def book(ledger: Spend, purpose: str, at: float = NOON) -> float:
    return ledger.book(purpose=purpose, model="m", usage=USAGE, session="s", at=at)


@pytest.mark.spec("F10")
def test_every_call_is_booked_with_purpose_tokens_and_money(tmp_path: Path) -> None:
    ledger = spend(tmp_path)
    assert book(ledger, "main") == pytest.approx(2.0)
    book(ledger, "dream")
    [one, two] = ledger.calls()
    assert (one["purpose"], one["input"], one["cost"], one["session"]) == (
        "main",
        1_000_000,
        2.0,
        "s",
    )
    assert [(g.name, g.calls, g.cost) for g in grouped(ledger.calls(), "layer")] == [
        ("main", 1, 2.0),
        ("dream", 1, 2.0),
    ]
    assert grouped([one, two], "day")[0].usage.input == 2_000_000
    assert len(grouped([one, two], "model")) == len(grouped([one, two], "session")) == 1


@pytest.mark.spec("F10")
def test_caps_stop_background_work_in_words_and_never_the_user_s_turn(tmp_path: Path) -> None:
    ledger = spend(tmp_path, daily_cap=5.0, layer_caps={"dream": 3.0})
    assert ledger.refusal("dream", NOON) == ""
    book(ledger, "dream")
    assert ledger.refusal("dream", NOON) == ""
    book(ledger, "dream")
    assert "dream stopped: today's cap of $3" in ledger.refusal("dream", NOON)
    assert ledger.refusal("notes", NOON) == ""
    book(ledger, "notes")
    assert "cap of $5" in ledger.refusal("notes", NOON)
    assert ledger.refusal("main", NOON) == ledger.refusal("agent", NOON) == ""
    assert ledger.refusal("notes", NOON + 86_400) == ""  # a new day


@pytest.mark.spec("F10")
def test_a_cap_that_is_just_spent_is_spent(tmp_path: Path) -> None:
    ledger = spend(tmp_path, daily_cap=4.0, layer_caps={"notes": 2.0})
    book(ledger, "notes")  # two dollars
    assert "notes" in ledger.refusal("notes", NOON)
    assert ledger.refusal("dream", NOON) == ""
    book(ledger, "dream")
    assert "spend.daily_cap" in ledger.refusal("dream", NOON)


@pytest.mark.spec("F10")
def test_a_line_that_another_process_has_half_written_counts_once_it_is_whole(
    tmp_path: Path,
) -> None:
    other, ledger = spend(tmp_path / "other"), spend(tmp_path / "own", daily_cap=1.0)
    book(other, "notes")
    [written] = (tmp_path / "other").iterdir()
    line = written.read_bytes()
    path = tmp_path / "own" / written.name
    path.parent.mkdir()
    path.write_bytes(line[:50])
    assert ledger.refusal("notes", NOON) == ""
    path.write_bytes(line)
    assert ledger.refusal("notes", NOON)


@pytest.mark.spec("F10")
def test_the_user_s_own_turns_do_not_use_up_the_caps(tmp_path: Path) -> None:
    ledger = spend(tmp_path, daily_cap=1.0)
    for _ in range(5):
        book(ledger, "main")
    assert ledger.refusal("extraction", NOON) == ""


@pytest.mark.spec("F10")
def test_many_processes_share_one_file_without_tearing_a_line(tmp_path: Path) -> None:
    ledgers = [spend(tmp_path, daily_cap=1e9) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda ledger: [book(ledger, "notes") for _ in range(50)], ledgers))
    assert len(list(ledgers[0].calls())) == 400


@pytest.mark.spec("F10")
def test_half_a_line_costs_only_itself(tmp_path: Path) -> None:
    ledger = spend(tmp_path)
    book(ledger, "main")
    [path] = tmp_path.iterdir()
    with path.open("ab") as file:
        file.write(b'{"ts": "2026-11-')
    book(ledger, "notes")
    book(ledger, "dream")
    assert [row["purpose"] for row in ledger.calls()] == ["main", "notes", "dream"]


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from lamina.cache.spend import Spend
from lamina.messages import Usage

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = Path(sys.argv[1])
ledger = Spend(folder)

def book(purpose):
    ledger.book(purpose=purpose, model="none", usage=Usage(1), session="s", at=1.7e9)
    return ledger.problem

assert book("main") == ""
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
size = next(folder.iterdir()).stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, most))
assert "Can't write spending" in book("notes")
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
assert book("dream") == ""
print(*(row["purpose"] for row in ledger.calls()))
"""


@pytest.mark.spec("F10")
def test_a_disk_that_fills_in_the_middle_of_a_line_is_told_and_costs_that_line(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "spend")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("main dream\n", "")


@pytest.mark.spec("F10")
def test_a_folder_that_can_t_be_written_never_stops_a_call(tmp_path: Path) -> None:
    (tmp_path / "spend").write_text("a file")
    ledger = spend(tmp_path / "spend")
    assert book(ledger, "main") == pytest.approx(2.0)
    assert "Can't write spending" in ledger.problem
    assert list(ledger.calls()) == []


def test_torn_lines_are_passed_over(tmp_path: Path) -> None:
    ledger = spend(tmp_path)
    book(ledger, "main")
    [file] = tmp_path.iterdir()
    with file.open("ab") as handle:
        handle.write(b'{"torn": \n[1]\n')
    assert len(list(ledger.calls())) == 1


@pytest.mark.spec("F10")
@pytest.mark.parametrize("cost", ['"much"', "null", "-9", "1e308", "true", "[1]", "{}"])
def test_a_damaged_cost_counts_as_nothing_and_gives_no_money_back(
    tmp_path: Path, cost: str
) -> None:
    ledger = spend(tmp_path, daily_cap=1.0)
    book(ledger, "dream")
    [path] = tmp_path.rglob("*.jsonl")
    day = next(iter(ledger.calls()))["ts"]
    line = f'{{"ts":"{day}","purpose":"dream","model":["x"],"input":"many","cost":{cost}}}\n'
    path.write_text(line + path.read_text() + line)
    for by in ("layer", "day", "session", "model"):
        assert sum(group.cost for group in grouped(ledger.calls(), by)) == pytest.approx(2.0)
    again = spend(tmp_path, daily_cap=1.0)
    assert "cap of $1" in again.refusal("dream", NOON)
