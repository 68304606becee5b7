"""Which sentences of two memories can't both be right, and which only look like it."""

from __future__ import annotations

import pytest

from lamina.text.likeness import contradictions


def reasons(one: str, other: str) -> list[str]:
    texts = [(path, f"{path} {text}", text) for path, text in (("one.md", one), ("two.md", other))]
    return [reason for _, _, reason in contradictions(texts, len(texts))]


@pytest.mark.spec("L6.6")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Never use tabs.", "Always use tabs."),
        ("The staging API listens on port 8443.", "The staging API listens on port 9443."),
        ("The release train leaves on Tuesday.", "The release train leaves on Thursday."),
        ("Generated files are committed.", "Generated files are not committed."),
        ("The owner of the billing module is Marta.", "The owner of the billing module is Pavel."),
        ("Keine Emojis in Commits verwenden.", "Emojis in Commits verwenden."),
        ("Prefer composition over inheritance.", "Prefer inheritance over composition."),
    ],
)
def test_the_same_thing_said_otherwise_is_found_with_its_reason(one: str, other: str) -> None:
    [reason] = reasons(one, other)
    assert " / " in reason


@pytest.mark.spec("L6.6")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Plan 033 covers the login page.", "Plan 034 covers the login page."),
        ("There are 12 failing tests in the suite.", "There are 9 failing tests in the suite."),
        ("Related: [[plan-12]], [[plan-13]].", "Related: [[plan-14]], [[plan-15]]."),
        ("Customer 1 wants monthly invoices.", "Customer 2 wants weekly invoices."),
        ("The staging API listens on port 8443.", "The production API listens on port 9443."),
        ("2026-03-04: deployed to everyone.", "2026-03-11: not deployed to everyone."),
        ("The score threshold is 15.", "The score threshold is 15.0."),
        ("Coverage is 81% (was 74%).", "Coverage was 74%."),
        ("Full writeup in docs/a.md.", "Full writeup in docs/b.md."),
        ("Every value is kept in the\nfile that holds it.", "What is not in the\nfile is lost."),
    ],
)
def test_other_things_times_and_scopes_are_no_contradiction(one: str, other: str) -> None:
    assert reasons(one, other) == []


def test_the_same_sentence_in_two_files_is_no_contradiction_whatever_it_compares() -> None:
    assert reasons("The demo decodes end to end.", "The demo decodes end to end.") == []
