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
        ("Session tokens expire after 30 minutes.", "Session tokens expire after 24 hours."),
        ("The nightly sync runs every 15 minutes.", "The nightly sync runs every hour."),
        ("Upload limit: 25 MB per file.", "Upload limit: 100 MB per file."),
        ("Angefangene Stunden werden aufgerundet.", "Angefangene Stunden werden abgerundet."),
        ("Le serveur est éteint le week-end.", "Le serveur n'est pas éteint le week-end."),
        ("Les listes sont envoyées le lundi.", "Les listes sont envoyées le jeudi."),
        ("Sempre responder em português.", "Nunca responder em português."),
        (
            "The full export starts at 01:30 and writes one file per tenant.",
            "The full export starts at 03:00, and it takes an hour.",
        ),
        (
            "What we agreed upon in the call: old mails are deleted on Mondays.",
            "Old mails are deleted on Fridays, as the works council wants it.",
        ),
        ("デプロイは田中さんが担当する。", "デプロイは鈴木さんが担当する。"),
        ("管理画面のセッションは30分で切れる。", "管理画面のセッションは2時間で切れる。"),
        ("상태 관리는 Zustand를 쓴다.", "상태 관리는 Redux를 쓴다."),
        ("휴가는 3일 전에 신청한다.", "휴가는 7일 전에 신청한다."),
        (
            "Take the jumper off, since the watchdog resets the board after 2 seconds.",
            "The watchdog resets the board after 8 seconds.",
        ),
        ("이미지는 S3에 저장한다.", "이미지는 로컬 디스크에 저장한다."),
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
        ("Session tokens expire after 60 minutes.", "Session tokens expire after 1 hour."),
        (
            "Snapshot tests are forbidden, except for emails.",
            "Snapshot tests are allowed for emails.",
        ),
        ("If the tenant is new, invoices go by mail.", "If the tenant is new, ask Ines first."),
        (
            "The languages are German, French and Dutch.",
            "The languages are Polish, Czech and Dutch.",
        ),
        ("She prefers calls over mails.", "He prefers mails over calls."),
        ("Queue `mail` is drained by two hosts.", "Queue `thumbs` is drained by two hosts."),
        ("The starter plan would cost 19 euros.", "The starter plan costs 15 euros."),
        ("The team had an outage in March.", "The team had an outage in April."),
        ("A real demo's\n  362 classes need 9 bits.", "What one would never see in a real demo."),
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


def told_of(sentences: list[str]) -> list[tuple[str, str]]:
    texts = [(f"{n}.md", f"{chr(97 + n) * 5}\n{n}.md", text) for n, text in enumerate(sentences)]
    return [(one, other) for one, other, _ in contradictions(texts, len(texts))]


def test_what_many_files_say_in_one_form_each_says_of_its_own_thing() -> None:
    one, other = "Production deploys need an approval.", "Production deploys need no approval."
    assert told_of([one, other]) == [("0.md", "1.md")]
    assert told_of([f"{text} It has {n} parts." for n in range(2) for text in (one, other)]) == []
    assert told_of([f"Nightly builds run for {n} minutes." for n in (10, 20, 30)]) == []


def test_files_of_a_series_quarrel_over_nothing_else_that_they_say() -> None:
    hosts = [
        f"Nightly backups run for {n} minutes.\n\n{more}"
        for n, more in ((5, "Reboots need a ticket."), (6, ""), (7, "Reboots need no ticket."))
    ]
    assert told_of(hosts) == []


def test_two_texts_that_part_at_several_places_speak_of_two_things() -> None:
    upgrades = "Security upgrades are done on {}."
    both = f"{upgrades} Nightly snapshots are kept for {{}} days."
    assert len(told_of([upgrades.format("Monday"), upgrades.format("Thursday")])) == 1
    assert told_of([both.format("Monday", 14), both.format("Thursday", 7)]) == []


def test_of_copies_one_speaks_for_all() -> None:
    one, other = "The full export starts at 01:30.", "The full export starts at 03:00."
    assert told_of([one] * 5 + [other] * 5) == [("0.md", "5.md")]


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
