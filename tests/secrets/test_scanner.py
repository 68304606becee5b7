"""The scanner finds tokens where they stand, lets ordinary text through, and never repeats one."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from lamina.secrets import own_rules, redact, scan
from lamina.secrets.rules import compiled
from lamina.secrets.scanner import entropy

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("LAMINA_DATA") or ROOT.parent / "shared" / "data")
GITHUB = "ghp_" + "q7Lm2Xc9Rt4Vb8Nz1Kd6Wf3Hs5Jg0Pa2Ye4U"


@pytest.fixture(scope="module")
def bench() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "bench" / "secret_scan.py"))


@pytest.mark.spec("L5.6")
def test_at_least_150_kinds_are_known_and_every_pattern_compiles() -> None:
    rules = own_rules().rules
    assert len({rule.id for rule in rules}) == len(rules) >= 150
    for rule in rules:
        assert compiled(rule.pattern).groups >= rule.group
        assert rule.keywords
        assert all(rule.keywords)


@pytest.mark.spec("L5.6")
@pytest.mark.parametrize("seed", [1, 2])
def test_95_percent_of_samples_of_the_published_formats_are_found(
    bench: dict[str, Any], seed: int
) -> None:
    samples = bench["make_samples"](seed, 2)
    share, missed = bench["found_share"](samples)
    assert share >= 0.95, sorted(set(missed))


@pytest.mark.spec("L5.6")
@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not here")
def test_false_alarms_on_real_memory_files_stay_under_5_percent(bench: dict[str, Any]) -> None:
    share, count, rules = bench["alarm_share"](bench["memory_files"]())
    assert count > 40
    assert share <= 0.05, rules


@pytest.mark.parametrize(
    "text",
    [
        'password = "hunter2!x"',
        "my password is Xk29vLq1!",
        "export PGPASSWORD=s3cr3tpassw0rd",
        "api_key: oHwLMeaZqo9DZDNjN1GTPdVKsb1DS2S5",
        "AUTH_TOKEN: KtwtwKsxVbJTtnXolARgtuZB",
        "export DB_PASS=Tr0ub4dor&3",
        "Das Passwort für den Server lautet: hG7kLp92",
        "Kennwort ist qW3rty99",
        "La contraseña es Gato2024x",
        "mot de passe : Ab9cDe7f",
        "пароль: Qwe9rty7",
        "密码是 Abc8xyz7",
        "the wifi key is 8f3kd92mfa",
        "The Wi-Fi password at home is kitten4Tuna",
        "WLAN-Schlüssel: 48151623ABCxyz",
        "WIFI:T:WPA;S:home;P:correcthorse9;;",
        "otpauth://totp/Acme:me@acme.org?secret=JBSWY3DPEHPK3PXP&issuer=Acme",
        "my card is 4539578763621486",
        "Visa 4539 5787 6362 1486 exp 11/27",
        "redis://:a8f7d6s5e4@cache:6379",
        "Server=db;Database=x;User Id=sa;Password=Pa55w0rd!99;",
        "Authorization: Basic YWRtaW46czNjcjN0cHc=",
        "mysql -u root --password=Zx9vB3nM",
        "lamina login --token 9fK2mQ8xLr4T",
        "ssh root@10.0.0.5 password Xk8mPq2z",
        "sshpass -p 'Wq7rTy5u' ssh host",
        "curl -u admin:Pq8wErt5 https://x.org",
        "<password>Gh5kLm92</password>",
        '<add key="Password" value="Gh5kLm92x" />',
        'val apiKey = "a9F3kLm2Qx8Zt5Vb"',
        'config.put("password", "Jk8mNb5v")',
        "spring.datasource.password=Dk8sJw2q",
        'FROBNICATE = "zq8Xk3LmV9tR2bN7cW5y"',
        "acmecorp_9aXk3LmV9tR2bN7cW5yQ4eT8uI1oP",
        "dropbox_key = qwtfjeown7znmryadmidw0",  # few digits, and letters that nobody could say
        "DATADOG_APP = gre2itjp99453fhd4cwntiimsevaeatiszuqqks",
        "The NAS password is still hunter2-Garage!9.",
        "I changed my password to Ferret_Moon91 yesterday",
        "Das Passwort lautet Möwe77!Hafen, bitte nach dem Test ändern.",
        "mot de passe : Été2026!plage",
        "the passphrase: correct-horse-battery-staple-88",
        "Staging login: admin / Qw7!vbn-Zeta22",
        "Der Zugang lautet tester / Birne!2026x",
        "angemeldet mit dem Passwort Kaffee#Tasse47",
        "Mein API-Schlüssel heißt ogFBnd25Dl09Jq7Nj1z3yXUwdeU5svM4.",
        "WLAN im Büro: Netz „Lerche“, Schlüssel: blaue7Tasse!Regen",
        "La clé d'API de Mapbidule, c'est 6VMpyDAIbr29zfGm3dwcgEqOIzyV",
        "La clave del wifi es Olivo_Azul_2207",
        "接口的密钥为RMyPQjzVrRSvZOXhVmZKr18BE48OjJje",
        "APIキーは「b3v8LQK9D6mTwjoijArTN1R4」を使って",
        "Key for the maps API → KtUKqmi2ufHrnqhZYtoZDYXp1Ip8",
        "My PIN for the card is 7391.",
        "The door code for the server room: 48213#",
        "bearerToken: >-\n  Y8rWheDHkzcflDE53AIjA8eChant9k3c",
        "aws_secret_access_key = \\\n  FmjCSpbEeFDzSp/5wgf+MzXk7Np0MQOHBCRjxrsM",
        '- name: DB_PASSWORD\n  value: "Quartz!Lamp62"',
        "amqp://worker:Lime$Peel44@rabbit:5672",
        "User ID=svc;Password=Maple.Dusk{58};Encrypt=true;",
        "The 2FA seed is KV43 AQ7G 7MAR O2C4 IXCG F55S JG33 H6F2",
        "recovery codes:\n90372-b0834\nb425a-cd8a1\n1b5ec-6fab7",
        "the panel's password was set to Kelp&Stone40 on Friday",
        "New password for reporting = vIolet-Tram.83",
        "La contraseña del router: Naranja_Sol55",
        "Das Root-Passwort wurde auf Zinn.Dose.81 geändert.",
        "数据库密码改成了 Hua#Dong2207",
        "サーバーの暗証番号は 9174 です",
        "SIM PUK: 48201937",
        "The safe's combination is 27-14-93.",
        "Voici le jeton d'accès : bMrh3MqzUpvpKSRCjf6AYJwFQK3cEUfK",
        "ENV DB_PASS maple-Syrup77",
        "redis-cli -a Pewter-Fox22 ping",
        "ldap://cn=admin:Brass!Owl6@dc1.corp.example.net",
        "Authorization: token b5616c0b49c49a2bb096707aad75d46df1f99b35",
        "License: 7QK2M-XW9RD-4TJ8P-VB3NH-6YCF5",
        "passkey recovery: Q7TX-M2LD-9RWK-4HZB-P8VC",
        "recovery codes: / 90372-b0834 / b425a-cd8a1 / 1b5ec-6fab7",
        "BEGIN EC PRIVATE KEY / CP11n2Pa9Jke0PvE7gusdtkv1cvTnBFHTRielloDM5e7/jc2/KRKsRmJVHSi1A3d",
        "Backup codes: 4821 9930, 1187 2045, 7752 6631",
        "seed phrase is: abandon ribbon velvet orbit canyon maple tunnel frost glory pencil robust wagon",
        "mysql -u root -pBamboo77!x orders",
        f"first\\n{GITHUB}\\nlast",
        f"{GITHUB},{GITHUB[:-1]}Z",
        "Benutzer/Passwort Sommer2024! im Wiki",
        "user/password hunter2X9! for staging",
    ],
)
def test_a_secret_by_name_or_form_is_found(text: str) -> None:
    assert scan(text)


@pytest.mark.parametrize(
    "text",
    [
        "token: string",
        "dropbox_client = production2adapter3settings",
        "password=$DB_PASSWORD",
        "Fingerprint: SHA256:q0V3n9dYtL1xZbK8mWf7RsP2uHcJ4eGaTi6oNyXwB5M (ED25519)",
        "Das Kennwort ist übrigens noch gültig, frag Jörg.",
        "WARN no such session input=../../etc/passwd generated_id=2026-01-27-da8007e2-27a0",
        "password: ${{ secrets.DB }}",
        'api_key = os.environ["API_KEY_2"]',
        "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "the token limit is 200000 and the key idea is caching",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "postgres://localhost/db",
        "secret_key = settings.load_secret_key(2)",
        "--- PASS: TestIsShadowBranch/7_hex_chars (0.00s)",
        "CalculateTokenUsageFromFile: 1.487125ms",
        "id: toolu_01LkL8B2LhEXmhHiBmrPykn8",
        "order 4539578763621487 and the card 1234 5678 9012 3456",
        "the password is wrong, the wifi key is on the fridge",
        "integrity = sha512-9aXk3LmV9tR2bN7cW5yQ4eT8uI1oP",
        "postgres://user:password@localhost:5432/mydb",
        "SECRET_NAME=prod/db/main-v2",
        "secret: ref+vault://team/db#password2",
        "password_hash_algorithm = argon2id_v19",
        '"keep_old_secret_active_for_24_hours": keep_old_secret_active_for_24_hours',
        "licence key format: XXXX-XXXX-XXXX-XXXX",
        "Le mot de passe expire le 01/12/2026.",
        "credentials: same as staging / prod",
        "Server=.;Password=%DB_PASS2%;",
        "public key: age1xfrjm3rh4kekn8k7e43x5u0xdv2lkp4n9kj6g4tsz8tsvjt6cex70dxc7u",
        "The PIN is set by the bank. My login: anna / team platform",
        "Backup codes:\n- see the wiki\n- ask Lindemann",
        "The seed phrase is never typed into any website and never stored anywhere else at all.",
        "Das WLAN heißt Lerche5G, den Schlüssel gibt es am Empfang.",
        "La clave primaria es id_cliente2",
        "mysql -u root -p orders",
        "Serial number: 2024-0001-0002",
        "",
        "Pin is 2048 chars wide",
        "lock combination 1-2-3 in tests",
        "password changed to argon2id",
        "token changed to jwt-rs256",
        "login as bob / carol2024 team",
        "Zugangsdaten liegen im Vault / 1Password.",
    ],
)
def test_what_people_write_in_the_place_of_secrets_is_let_through(text: str) -> None:
    assert scan(text) == []


@pytest.mark.spec("L5.6")
def test_the_lines_of_the_benchmark_are_told_apart(bench: dict[str, Any]) -> None:
    lines = list(bench["forms"]())
    assert [text for _, secret, text in lines if not secret and scan(text)] == []
    share, missed = bench["found_share"]([one for one in lines if one[1]])
    assert share >= 0.9, missed


def test_a_finding_names_rule_line_and_column_but_never_the_secret() -> None:
    text = f"erste Zeile: größer 🙂\n  key {GITHUB} end\n"
    (found,) = scan(text)
    assert (found.rule, found.line, found.column) == ("github-personal", 2, 7)
    assert text[found.start : found.end] == GITHUB
    assert GITHUB not in str(found)
    assert GITHUB not in repr(found)


def test_redacting_keeps_everything_else() -> None:
    text = f"ä {GITHUB}\nrest"
    assert redact(text) == "ä [secret removed: github-personal]\nrest"
    assert redact("nothing here") == "nothing here"


@examples(60)
@given(st.text(max_size=80), st.text(max_size=80))
def test_a_token_is_found_and_blanked_between_any_text(before: str, after: str) -> None:
    text = f"{before} {GITHUB} {after}"
    found = scan(text)
    clean = text.encode("utf-8", "replace").decode()
    assert any(clean[item.start : item.end] == GITHUB for item in found)
    assert GITHUB not in redact(text)


@examples(100)
@given(st.text(max_size=400))
def test_findings_are_ordered_disjoint_and_inside_the_text(text: str) -> None:
    end = 0
    for found in scan(text):
        assert end <= found.start < found.end <= len(text)
        end = found.end


def test_hostile_text_costs_linear_time() -> None:
    def cost(size: int) -> float:
        text = "password=" * size + "a" * size + "token:" * size + "://" * size + ":AA" * size
        start = time.process_time()
        scan(text)
        return time.process_time() - start

    cost(100)
    assert cost(20_000) <= 40 * max(cost(2_000), 0.005)


def test_entropy_is_shannons() -> None:
    assert entropy(b"") == 0
    assert entropy(b"aaaa") == 0
    assert entropy(b"abcd") == 2


def test_importing_the_scanner_does_not_load_re2() -> None:
    code = "import sys, lamina.secrets; sys.exit('re2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("books are identified by ISBN-13", False),
        ("each record is identified by UUIDv7", False),
        ("CREATE USER app IDENTIFIED BY tr0ub4dor&3", True),
        ("the community Postgres16 image is what we use", False),
        ("snmpwalk with the community s3cr3tRead9", True),
        ("users log in with SAML2.0", False),
    ],
)
def test_words_announce_a_secret_only_where_accounts_are_spoken_of(line: str, secret: bool) -> None:
    assert bool(scan(line)) == secret
