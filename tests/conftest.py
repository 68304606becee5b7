"""What all tests share: Hypothesis profiles and the plugins of test rooms."""

from __future__ import annotations

import importlib.util
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # `tests.wire` and friends import by name

pytest_plugins = ["tests.wire.plugin"] if (HERE / "wire" / "plugin.py").exists() else []

os.environ["TZ"] = "UTC"  # a day that a test names is another one where the developer lives
time.tzset()

# The same few examples in every run, so that a commit is green or not; LAMINA_EXPLORE=1 looks for new
# ones, and for many more.
settings.register_profile(
    "explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=200
)
settings.register_profile(
    "same", settings.get_profile("explore"), derandomize=True, max_examples=25
)
settings.load_profile("explore" if os.environ.get("LAMINA_EXPLORE") else "same")
if not os.environ.get("LAMINA_EXPLORE"):
    # Else it also draws strings and numbers of whatever modules are loaded by then, and so the examples
    # hang on the order of the tests.
    none = providers._local_constants  # pyright: ignore[reportPrivateUsage]
    providers._get_local_constants = lambda: none  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def shared_data() -> Path:
    """Real recordings beside the repository; tests that need them skip without."""
    place = Path(os.environ.get("LAMINA_DATA") or HERE.parent.parent / "shared" / "data")
    if not place.is_dir():
        pytest.skip(f"no real data at {place} (set LAMINA_DATA)")
    return place


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of a PostgreSQL of our own, for as long as the tests run."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs lamina[postgresql]")
    from tests.team.people import running_postgresql

    with running_postgresql() as address:
        if not address:
            pytest.skip("there is no PostgreSQL server on this machine")
        yield address


@pytest.fixture(autouse=True)
def _no_machine_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No test reads the developer's own home, keys or settings."""
    for name in list(os.environ):
        if (
            name.startswith(("LAMINA_", "ANTHROPIC_", "OPENAI_", "CLAUDE_"))
            and name != "LAMINA_DATA"
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path_factory.getbasetemp() / "home"))
    assert importlib.util.find_spec("lamina")


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Before coverage adds up what all processes measured: half a file would end the whole run."""
    done = yield
    if not hasattr(session.config, "workerinput"):
        for file in half_written(session.config.rootpath):
            file.unlink()
    return done


def half_written(folder: Path) -> list[Path]:
    """Coverage's files of processes that were killed while they wrote them, as some tests do."""
    return [file for file in folder.glob(".coverage.*") if not _is_whole(file)]


def _is_whole(file: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as data:
            data.execute("SELECT version FROM coverage_schema").fetchone()
            return data.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    except sqlite3.Error:
        return False


def pytest_configure() -> None:
    """A shell starts what runs behind it deaf to Ctrl-C; the programs under test must hear it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
