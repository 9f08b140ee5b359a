"""Secrets by the format of their issuer, or behind a word that names one."""

from __future__ import annotations

import pytest

from toolcrib.router.context.pii import secrets

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlLW9mLW5vdGhpbmc"  # {"alg":"HS256"}


def found(text):
    return [entity.text for entity in secrets(text)]


@pytest.mark.parametrize(
    "key",
    [
        "AKIA" + "Z" * 16,
        "ghp_" + "a1" * 18,
        "github_pat_" + "a1" * 12,
        "glpat-" + "a1" * 10,
        "sk-" + "proj-a1" * 4,
        "AIza" + "a1" * 17 + "b",
        "npm_" + "a1" * 18,
        "xoxb-" + "12345-67890-abcdef",
        "hf_" + "abcde" * 6,
        TOKEN,
    ],
)
def test_a_key_is_known_by_its_format_wherever_it_stands(key):
    assert found(f"this one, {key} , leaked") == [key]


def test_a_key_that_is_given_twice_is_found_twice():
    key = "AKIA" + "Z" * 16
    text = f"{key} then {key}"
    assert [entity.start for entity in secrets(text)] == [0, len(key) + 6]


def test_a_private_key_is_known_by_its_head():
    text = "-----BEGIN RSA PRIVATE KEY-----\nMIIB"
    assert found(text) == ["-----BEGIN RSA PRIVATE KEY-----"]


def test_the_password_of_a_url_is_a_secret():
    assert "hunter2x" in found("postgres://admin:hunter2x@db.example.com/shop")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("my password is Sommer2024!", "Sommer2024!"),
        ("password for the vpn is 'fake99pass'", "fake99pass"),
        ("API_KEY=9f8e7d6c5b4a", "9f8e7d6c5b4a"),
        ('api-key: "9f8e7d6c5b4a"', "9f8e7d6c5b4a"),
        ("{'client_secret': 'q8!x-42ab'}", "q8!x-42ab"),
        ("token := tk42-zx81-qq", "tk42-zx81-qq"),
        ("the token is tk42zx81qq.", "tk42zx81qq"),
        ('db_password => "p4ssw0rd-x"', "p4ssw0rd-x"),
        ('password "q8x-42ab"', "q8x-42ab"),
    ],
)
def test_a_value_behind_a_word_for_secrets_is_one(text, secret):
    assert found(text) == [secret]


@pytest.mark.parametrize(
    "text",
    [
        "the password is required",
        "reset the password: how do I do that",
        "token: expired",
        "password = ${DB_PASSWORD}",
        "password: <your password>",
        "api_key = os.environ['KEY_1']",
        "secret: ********",
        "password=xxxxxxxx1",
        "token: string",
        "client_secret = get_secret(42)",
        "password: a1",
        "password: 'must be at least 8 characters'",
        "pass 1234567 to the function",
        "compass: north-by-northwest2",
        "Unexpected token: StartArray.",
        "password=aaaaaaaa1",
    ],
)
def test_words_placeholders_and_code_are_none(text):
    assert found(text) == []


def test_a_secret_lies_where_it_stands():
    text = "pw: see below\npassword = tk42-zx81-qq"
    (secret,) = secrets(text)
    assert text[secret.start : secret.end] == secret.text == "tk42-zx81-qq"
    assert secret.type == "secret"
