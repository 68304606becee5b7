"""Times as people write them on the command line: a day, a moment, or how long ago. Pure."""

from __future__ import annotations

import argparse
import re
from datetime import datetime, timedelta

_AGO = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add_times(parser: argparse.ArgumentParser) -> None:
    """`--since` and `--until`."""
    parser.add_argument(
        "--since",
        type=since,
        metavar="TIME",
        help="from then on: 2026-11-01, 12h, 3d, 2w, yesterday",
    )
    parser.add_argument("--until", type=until, metavar="TIME", help="up to then; a day is included")


def since(words: str) -> float:
    """When it begins."""
    return _moment(words)[0]


def until(words: str) -> float:
    """When it ends: a day is over when the next one begins."""
    return _moment(words)[1]


def _moment(words: str) -> tuple[float, float]:
    """Beginning and end of what the words name, by local time."""
    now = datetime.now().astimezone()
    word = words.strip().lower()
    try:
        if match := _AGO.fullmatch(word):
            then = now - timedelta(**{_UNITS[match[2]]: int(match[1])})
            return then.timestamp(), then.timestamp()
        if word in ("today", "yesterday"):
            day = now.replace(hour=0, minute=0, second=0, microsecond=0)
            return _day(day - timedelta(days=word == "yesterday"))
        then = datetime.fromisoformat(words.strip())
        if len(word) <= len("2026-11-01"):
            return _day(then)
        return then.timestamp(), then.timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{words!r} is no time; write 2026-11-01, 2026-11-01T14:30, 12h, 3d, 2w, today or yesterday"
        ) from None


def _day(begins: datetime) -> tuple[float, float]:
    ends = begins.replace(tzinfo=None) + timedelta(days=1, microseconds=-1)
    return begins.timestamp(), ends.timestamp()
