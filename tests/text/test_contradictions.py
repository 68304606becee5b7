"""Which sentences of two memories can't both be right, and which only look like it."""

from __future__ import annotations

import time

import pytest

from lamina.text.contradictions import contradictions
from lamina.text.statements import COMPARED


def reasons(one: str, other: str) -> list[str]:
    texts = [(path, f"{text}\n{path}", text) for path, text in (("one.md", one), ("two.md", other))]
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
        ("Deploys happen on Tuesdays at 10:00.", "Deploys happen on Thursdays at 10:00."),
        ("Every merge needs two approvals.", "Every merge needs one approval."),
        ("Le serveur de test utilise PostgreSQL 14.", "Le serveur de test utilise PostgreSQL 16."),
        ("Guest passes live for two weeks.", "Guest passes live for five weeks."),
        ("The search index is built by hand.", "The search index is built automatically."),
        ("The chat client is built with Qt.", "The chat client is built with React Native."),
        ("Der Nutzer will immer gefragt werden.", "Der Nutzer will nie gefragt werden."),
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
        ("The budget of topic 1 is 10 k.", "The budget of topic 2 is 20 k."),
        (
            "Status 2026-03-01: half is moved. The move is not finished.",
            "Status 2026-04-01: all is moved. The move is finished.",
        ),
        ("There are 12 failing tests in the suite.", "There are 9 failing tests in the suite."),
        ("Related: [[plan-12]], [[plan-13]].", "Related: [[plan-14]], [[plan-15]]."),
        ("Customer 1 wants monthly invoices.", "Customer 2 wants weekly invoices."),
        ("The staging API listens on port 8443.", "The production API listens on port 9443."),
        ("2026-03-04: deployed to everyone.", "2026-03-11: not deployed to everyone."),
        ("The test of 12 May failed.", "The test of 13 May did not fail."),
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


@pytest.mark.spec("L6.6")
def test_what_is_refused_the_other_way_round_is_found_among_names_of_things() -> None:
    one, other = (
        "Branch from `develop`, never from `main`.",
        "Branch from `main`, never from `develop`.",
    )
    texts = [("branching.md", "Branching", one), ("git.md", "Git habits", other)]
    assert [reason.split(" (")[0] for *_, reason in contradictions(texts, 2)] == [
        "the other way round"
    ]


@pytest.mark.parametrize(
    ("title", "another"),
    [
        ("Sprint 11", "Sprint 12"),
        ("env-dev", "env-prod"),
        ("Client Aydin", "Client Berg"),
        ("topic 4", "topic 5"),
    ],
)
def test_files_of_a_series_speak_of_two_things(title: str, another: str) -> None:
    texts = [
        (f"{name}.md", f"{name}\n{name}.md", f"The contact is {who}. It is read every {days} days.")
        for name, who, days in ((title, "Elif", 4), (another, "Jonas", 5))
    ]
    assert list(contradictions(texts, 2)) == []


def test_a_folder_of_one_topic_is_no_series() -> None:
    texts = [
        (
            "testing.md",
            "Testing\ntesting.md how to test",
            "Run the browser tests in headless mode.",
        ),
        ("ci.md", "CI\nci.md", "Never run the browser tests in headless mode."),
    ]
    assert len(list(contradictions(texts, 2))) == 1


def test_files_of_one_form_that_differ_in_more_than_one_thing_are_a_series() -> None:
    def told(*sentences: tuple[str, str]) -> int:
        texts = [
            (f"{place}.md", f"Region {place}\n{place}.md", "\n\n".join(said))
            for place, said in zip(("Oslo", "Bern"), zip(*sentences, strict=True), strict=True)
        ]
        return len(list(contradictions(texts, 2)))

    opens = ("The support desk opens at 8:00.", "The support desk opens at 9:00.")
    paid = ("Invoices are sent by email.", "Invoices are sent by post.")
    assert (told(opens), told(opens, paid)) == (1, 0)


def test_more_than_two_files_of_one_form_are_a_series() -> None:
    texts = [
        (f"{name}.md", f"Host {name}\n{name}.md", f"SSH listens on port {port}.")
        for name, port in (("alpha", 22), ("beta", 2222), ("gamma", 22))
    ]
    assert (len(list(contradictions(texts[:2], 2))), list(contradictions(texts, 3))) == (1, [])


@pytest.mark.parametrize(
    "row", ["端口{}由值班组在北京机房的服务器上使用。", "The velocity is over {} points."]
)
def test_rows_of_a_long_table_are_not_held_against_each_other(
    row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[object] = []

    def counted(one: object, _: object) -> object:
        compared.append(one)
        return ("", False) if isinstance(one, str) else ""

    monkeypatch.setattr("lamina.text.contradictions.parting", counted)
    monkeypatch.setattr("lamina.text.contradictions._quarrel", counted)
    for rows in (20, 400):
        compared.clear()
        texts = [(f"{n}.md", f"{n}\n{n}.md", row.format(8000 + n)) for n in range(rows)]
        assert not list(contradictions(texts, rows))
        assert len(compared) > rows if rows == 20 else len(compared) <= rows


def test_a_long_word_is_looked_through_in_linear_time() -> None:
    def cost(size: int) -> float:
        start = time.process_time()
        COMPARED.findall("a0" * size)
        return time.process_time() - start

    cost(100)
    assert cost(20_000) <= 40 * max(cost(2_000), 0.005)
