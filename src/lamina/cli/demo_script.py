"""The demo's project, questions and script. Values only."""

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

QUESTIONS = (
    "The discount test fails. Please fix it.",
    "Does orders.log show the same problem?",
)


def steps(python: str) -> list[Any]:
    """What the scripted model says; it checks what it is sent."""
    from lamina.models.scripted import Step

    tests = f"{shlex.quote(python)} -m unittest -q"
    old, new = "(1 + discount / 100)", "(1 - discount / 100)"
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
                "tool_use": {
                    "name": "Edit",
                    "input": {"file_path": "cart.py", "old_string": old, "new_string": new},
                },
            },
            {"last_result": ["FAILED", "def total"], "prefix": True},
        ),
        Step({"tool_use": {"name": "Bash", "input": {"command": tests}}}, {"prefix": True}),
        Step(
            "Fixed in cart.py:6: the discount is now subtracted. Both tests pass.",
            {"last_result": "OK", "prefix": True},
        ),
        Step(
            {
                "text": "I look at the log.",
                "tool_use": {"name": "Bash", "input": {"command": "cat orders.log"}},
            },
            {"last_user": "orders.log", "prefix": True},
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
