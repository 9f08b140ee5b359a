"""The entities of a text: none over another, the longer first, and never at any price."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.records.context import Entity
from toolcrib.router.context.entities import MAX_CHARS, EntityFinder, head_of

FINDER = EntityFinder({"team": ["Falcon"]}, ["send_mail", "Falcon"], region="US")

PIECES = (
    *(
        "ann@example.com",
        "+44 20 7946 0958",
        "http://(a",
        "a.b.c",
        "10.0.0.1",
        "4111 1111 1111 1111",
    ),
    *("DE89 3704 0044 0532 0130 00", "password = 'x9!y8?z7'", "`", "$", "€ 5", "v1.2.", "/a/b"),
    *(
        "12 Mill Lane",
        "2024-05-03",
        "in May",
        "ERR_A",
        "snake_",
        "aB",
        "::",
        "東京",
        "é",
        "\n",
        " ",
    ),
)
TEXTS = st.text(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=30).map("".join)

HOSTILE = (
    *("a", "1", " ", "a@", "@a", "a.", "1 ", "1-", "(1)", "/a", "\\a", "a_", "aB", "`", "$", "€1"),
    *(":", "::a", "1:", "v1.", "1st ", "the ", "and ", "in ", "12 Main ", "rue a ", "jan ", "0:"),
    *("http://", "http://(", "www.", "a.com/", "eyJ", "sk-", "token=", "password ", "'", '"a', "-"),
    *(
        "HTTP ",
        "error ",
        "Error",
        "A.",
        "E",
        "--BEGIN ",
        "DE12 ",
        "+1",
        "\n",
        "\x00",
        "é",
        "\u0301",
    ),
)


def found(text, finder=FINDER):
    return [(entity.type, entity.text) for entity in finder.find(text)]


def test_entities_come_in_the_order_of_the_text():
    text = "Mail ann@example.com about src/app.py by Friday, team Falcon saw a KeyError in v1.2.3"
    assert found(text) == [
        ("email", "ann@example.com"),
        ("path", "src/app.py"),
        ("date", "Friday"),
        ("team", "Falcon"),
        ("error", "KeyError"),
        ("version", "v1.2.3"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ValueError", [("error", "ValueError")]),
        ("/api/v1.2.3/x", [("path", "/api/v1.2.3/x")]),
        ("2024-05-03 10:00", [("date", "2024-05-03 10:00")]),
        ("http://10.0.0.1/x.py", [("url", "http://10.0.0.1/x.py")]),
        ("getUserById()", [("identifier", "getUserById()")]),
        ("4111 1111 1111 1111", [("card", "4111 1111 1111 1111")]),
    ],
)
def test_of_spans_that_lie_over_one_another_the_longer_counts(text, expected):
    assert found(text) == expected


def test_a_secret_counts_even_within_a_longer_span():
    assert ("secret", "hunter2x") in found("postgres://admin:hunter2x@db.example.com/shop")


def test_a_gazetteer_comes_before_a_tools_name_and_that_before_code():
    assert found("Falcon, send_mail") == [("team", "Falcon"), ("tool", "send_mail")]


def test_names_of_one_or_two_letters_are_not_looked_for():
    assert found("q ls grep", EntityFinder(names=["q", "ls", "grep"])) == [("tool", "grep")]


def test_without_a_region_only_what_says_so_is_a_telephone_number():
    assert found("415-555-2671, call 415-555-2672", EntityFinder()) == [("phone", "415-555-2672")]


def test_of_a_long_text_only_the_head_is_searched():
    text = f"ann@example.com {'x ' * MAX_CHARS} bob@example.com"
    assert found(text) == [("email", "ann@example.com")]


def test_the_head_ends_between_two_words():
    assert head_of("a" * 10 + " " + "b" * MAX_CHARS) == "a" * 10
    assert head_of("a" * 2 * MAX_CHARS) == "a" * MAX_CHARS
    assert head_of(" " * 2 * MAX_CHARS) == ""
    assert head_of("short") == "short"


@given(TEXTS)
def test_entities_lie_in_the_text_one_after_the_other(text):
    at = 0
    for entity in FINDER.find(text):
        assert isinstance(entity, Entity)
        assert at <= entity.start < entity.end
        assert text[entity.start : entity.end] == entity.text
        at = entity.end


@given(TEXTS)
def test_the_same_text_has_the_same_entities(text):
    assert FINDER.find(text) == FINDER.find(text)


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_text_made_to_cost_is_read_to_its_end(piece):
    # A pattern that backtracks without bound would not come back from these at all.
    text = (piece * MAX_CHARS)[:MAX_CHARS]
    assert all(entity.end <= MAX_CHARS for entity in FINDER.find(text))
