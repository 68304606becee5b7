"""The demo's project, what the user says in its three sessions, and what the scripted model answers.
Values only; the script checks what it is sent.
"""

from __future__ import annotations

import shlex
from typing import Any

PRICED_AS = "anthropic:claude-sonnet-4-6"

_LOG = "".join(
    f"2026-11-{n % 28 + 1:02} 12:{n % 60:02} order {10_000 + n} quantity {n % 13} "
    f"net {n * 7 % 900}.{n % 100:02} EUR {'ok' if n % 97 else 'REJECTED: negative discount'}\n"
    for n in range(900)
)

FILES = {
    "cart.py": '''"""A shopping cart."""


def total(prices, discount=0):
    """The sum of the prices, less a discount in percent."""
    return sum(prices) * (1 + discount / 100)
''',
    "test_cart.py": """import unittest

from cart import total


class Total(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(total([1, 2, 3]), 6)

    def test_discount(self):
        self.assertEqual(total([100], discount=10), 90)


if __name__ == "__main__":
    unittest.main()
""",
    "orders.log": _LOG,
}

# What somebody left in the memory directory by hand: said twice, and a pointer to nothing.
BY_HAND = {
    "reference_tracker.md": (
        "---\nname: Issue tracker\ndescription: Bugs are tracked in the SHOP board\n"
        "type: reference\n---\nBugs of the shop are tracked in the SHOP board.\n"
    ),
    "reference_bug_board.md": (
        "---\nname: Bug board\ndescription: Bugs are tracked in the SHOP board\n"
        "type: reference\n---\nBugs of the shop are tracked in the SHOP board.\n"
    ),
}
INDEX_BY_HAND = "- [Old plan](project_old_plan.md) — a file that is gone\n"

FIRST = (
    "The discount test fails. Please fix it.",
    "No, don't round prices anywhere in this project. The shop goes live in three weeks.",
)
SECOND = ("Does orders.log show the same problem?",)
THIRD = ("Can I round prices in the monthly report?",)


def first(python: str) -> list[Any]:
    from lamina.models.scripted import Step

    tests = f"{shlex.quote(python)} -m unittest -q"
    old, new = "(1 + discount / 100)", "round((1 - discount / 100), 2)"
    plain = "(1 - discount / 100)"
    return [
        Step(
            {
                "text": "I run the tests and read the code.",
                "tool_use": [
                    {"name": "Bash", "input": {"command": tests}},
                    {"name": "Read", "input": {"file_path": "cart.py"}},
                ],
            },
            {"last_user": "discount test fails", "tools": ["Read", "Edit", "Bash"]},
        ),
        Step(
            {
                "text": "The discount is added instead of taken off.",
                "tool_use": _edit(old, new),
            },
            {"last_result": ["FAILED", "def total"], "prefix": True},
        ),
        Step({"tool_use": {"name": "Bash", "input": {"command": tests}}}, {"prefix": True}),
        Step(
            "Fixed in cart.py:6: the discount is now subtracted, and the factor rounded. "
            "Both tests pass.",
            {"last_result": "OK", "prefix": True},
        ),
        Step(
            {"text": "Then without rounding.", "tool_use": _edit(new, plain)},
            {"last_user": "don't round", "prefix": True},
        ),
        Step({"tool_use": {"name": "Bash", "input": {"command": tests}}}, {"prefix": True}),
        Step(
            "Done: nothing is rounded, and the tests pass.", {"last_result": "OK", "prefix": True}
        ),
    ]


def _edit(old: str, new: str) -> dict[str, Any]:
    given = {"file_path": "cart.py", "old_string": old, "new_string": new}
    return {"name": "Edit", "input": given}


def second() -> list[Any]:
    from lamina.models.scripted import Step

    return [
        Step(
            {
                "text": "I look at the log.",
                "tool_use": {"name": "Bash", "input": {"command": "cat orders.log"}},
            },
            {"last_user": "orders.log"},
        ),
        Step(
            {
                "text": "The log is long; it is on disk now, and I search it.",
                "tool_use": {
                    "name": "Grep",
                    "input": {"pattern": "REJECTED", "path": "orders.log", "output_mode": "count"},
                },
            },
            {"last_result": "<persisted-output>", "prefix": True},
        ),
        Step(
            "Yes: ten orders were rejected for a negative discount, which is the same sign error.",
            {"last_result": "10", "prefix": True},
        ),
    ]


def third() -> list[Any]:
    from lamina.models.scripted import Step

    return [
        Step(
            {
                "text": "Let me see what you told me.",
                "tool_use": {"name": "Glob", "input": {"pattern": "*.py"}},
            },
            {"last_user": "round prices"},
        ),
        Step(
            "No. You said not to round prices anywhere in this project.",
            {"contains": ["Memory (saved", "round prices"], "prefix": True},
        ),
    ]
