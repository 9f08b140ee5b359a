"""Spans known by their shape: URLs, money, versions, paths, code, errors."""

from __future__ import annotations

import pytest

from toolcrib.router.context.entities import pattern_entities


def of_type(kind, text):
    return [entity.text for entity in pattern_entities(text) if entity.type == kind]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://a.example/x?y=1#z.", ["https://a.example/x?y=1#z"]),
        ("(http://a.example/wiki/X_(y))", ["http://a.example/wiki/X_(y)"]),
        ("(see http://a.example/x)", ["http://a.example/x"]),
        ("on http://localhost:8000/docs, or", ["http://localhost:8000/docs"]),
        ("postgres://db.example:5432/shop", ["postgres://db.example:5432/shop"]),
        ("www.a.example and shop.example.com/cart", ["www.a.example", "shop.example.com/cart"]),
        ("views.py, main.rs, ASP.NET, e.g. this.", []),
        ("ann@example.com", []),
    ],
)
def test_a_url_ends_before_the_punctuation_of_the_sentence(text, expected):
    assert of_type("url", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("it costs $1,200.50 a month", ["$1,200.50"]),
        ("between 3 million euros and €4.5m", ["3 million euros", "€4.5m"]),
        ("EUR 480,000 or 42 EUR", ["EUR 480,000", "42 EUR"]),
        ("42 users, 3 dogs, v2", []),
    ],
)
def test_an_amount_of_money_has_a_currency(text, expected):
    assert of_type("money", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("since v2.3.1 it fails", ["v2.3.1"]),
        ("from 1.4.2-rc1 to 2.0.0+build5", ["1.4.2-rc1", "2.0.0+build5"]),
        ("version 4 of it", ["4"]),
        ("on Python 3.11 and node 20", ["3.11", "20"]),
        ("Gitea 1.22 is out", ["1.22"]),
        ("Section 2.4, 3.5 seconds, 12.5 %", []),
        ("10:30, $1.2.3, 1.2", []),
    ],
)
def test_a_version_has_a_v_a_name_or_three_parts(text, expected):
    assert of_type("version", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("look at src/cart/views.py, please", ["src/cart/views.py"]),
        ("in /etc/nginx/nginx.conf.", ["/etc/nginx/nginx.conf"]),
        ("GET /v2/users/{id}", ["/v2/users/{id}"]),
        ("~/.ssh/config and ./run.sh", ["~/.ssh/config", "./run.sh"]),
        (r"open C:\Users\ann\notes.txt", [r"C:\Users\ann\notes.txt"]),
        ("edit Dockerfile and .env", ["Dockerfile", ".env"]),
        ("package.json", ["package.json"]),
        ("Node.js, next.js, console.log, and/or, 3/4", []),
    ],
)
def test_a_path_has_a_slash_before_it_or_the_ending_of_a_file(text, expected):
    assert of_type("path", text) == expected


@pytest.mark.parametrize(
    "name",
    [
        "getUserById",
        "snake_case_name",
        "MAX_RETRIES",
        "HttpClient",
        "os.path.join",
        "a.b.c()",
        "main()",
        "std::vector",
        "$total",
        "_private_name",
        "OPS-318",
    ],
)
def test_code_is_known_by_its_joints(name):
    assert of_type("identifier", f"why is {name} slow") == [name]


def test_what_stands_in_backticks_is_code_without_them():
    assert of_type("identifier", "drop `users` now, not `two words`") == ["users"]


@pytest.mark.parametrize("text", ["GitHub", "iPhone and PayPal", "UTF-8, SHA-256", "hello", "e.g."])
def test_names_of_products_and_standards_are_no_code(text):
    assert of_type("identifier", text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a ValueError in app.errors.NotFoundError", ["ValueError", "app.errors.NotFoundError"]),
        ("it says ECONNREFUSED, then SIGKILL", ["ECONNREFUSED", "SIGKILL"]),
        ("an HTTP 503, then a 404 from it", ["HTTP 503", "404"]),
        ("exit code 137 and error 500", ["exit code 137", "error 500"]),
        ("ORA-00942 and CVE-2024-12345", ["ORA-00942", "CVE-2024-12345"]),
        ("Segmentation fault", ["Segmentation fault"]),
        ("the 404 users, 500 rows, no error at all", []),
    ],
)
def test_an_error_is_a_name_a_code_or_a_classic_sentence(text, expected):
    assert of_type("error", text) == expected
