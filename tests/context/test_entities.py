"""Entities of a text: dates, spans known by their shape, none over another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.context.entities import (
    MAX_ENTITY_TEXT_CHARS,
    EntityFinder,
    head_of,
    numeric_dates,
    pattern_entities,
)
from toolcrib.records import Entity

FINDER = EntityFinder({"team": ["Falcon"]}, ["send_mail", "Falcon"], region="US")

PIECES = (
    *("ann@example.com", "+44 20 7946 0958", "http://(a", "a.b.c", "10.0.0.1", "12 Mill Lane"),
    *("4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00", "password = 'x9!y8?z7'", "`", "$"),
    *("€ 5", "v1.2.", "/a/b", "2024-05-03", "in May", "ERR_A", "snake_", "aB", "::", "東京"),
    *("é", "\n", " "),
)
TEXTS = st.text(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


def found(text, finder=FINDER):
    return [(entity.type, entity.text) for entity in finder.find(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ValueError", [("error", "ValueError")]),
        ("/api/v1.2.3/x", [("path", "/api/v1.2.3/x")]),
        ("2024-05-03 10:00", [("date", "2024-05-03 10:00")]),
        ("http://10.0.0.1/x.py", [("url", "http://10.0.0.1/x.py")]),
        ("getUserById()", [("identifier", "getUserById()")]),
        ("4111 1111 1111 1111", [("card", "4111 1111 1111 1111")]),
        # A gazetteer comes before a tool's name, and that before code.
        ("Falcon, send_mail", [("team", "Falcon"), ("tool", "send_mail")]),
        (
            "Mail ann@example.com about src/app.py by Friday, team Falcon saw a KeyError in v1.2.3",
            [
                *(("email", "ann@example.com"), ("path", "src/app.py"), ("date", "Friday")),
                *(("team", "Falcon"), ("error", "KeyError"), ("version", "v1.2.3")),
            ],
        ),
    ],
)
def test_entities_come_in_order_and_of_spans_over_one_another_the_longer(text, expected):
    assert found(text) == expected


def test_a_secret_counts_even_within_a_longer_span():
    assert ("secret", "hunter2x") in found("postgres://admin:hunter2x@db.example.com/shop")


def test_names_of_one_or_two_letters_are_not_looked_for():
    assert found("q ls grep", EntityFinder(names=["q", "ls", "grep"])) == [("tool", "grep")]


def test_of_a_long_text_only_the_head_is_searched():
    text = f"ann@example.com {'x ' * MAX_ENTITY_TEXT_CHARS} bob@example.com"
    assert found(text) == [("email", "ann@example.com")]


def test_the_head_ends_between_two_words():
    assert head_of("a" * 10 + " " + "b" * MAX_ENTITY_TEXT_CHARS) == "a" * 10
    assert head_of("a" * 2 * MAX_ENTITY_TEXT_CHARS) == "a" * MAX_ENTITY_TEXT_CHARS
    assert head_of(" " * 2 * MAX_ENTITY_TEXT_CHARS) == ""
    assert head_of("short") == "short"


@given(TEXTS)
def test_entities_lie_in_the_text_one_after_the_other(text):
    at = 0
    for entity in FINDER.find(text):
        assert isinstance(entity, Entity)
        assert at <= entity.start < entity.end
        assert text[entity.start : entity.end] == entity.text
        at = entity.end


def of_type(kind, text):
    found = sorted([*pattern_entities(text), *numeric_dates(text)], key=lambda each: each.start)
    return [each.text for each in found if each.type == kind]


DATES = (
    *("2024-05-03", "2024-05-03T12:30:00Z", "2024-05-03 12:30", "2024/05/03", "3/14/2024"),
    *("14.3.2024", "14-03-2024", "14/03/24", "12:30", "5pm", "5:30 pm", "3rd of May 2024"),
    *("3 May", "May 3rd, 2024", "August 2024", "tomorrow", "next Monday morning", "Fridays"),
    *("last quarter", "next Tue", "end of the month", "in 3 days", "within two weeks"),
    *("in half an hour", "two days ago", "3 days ago", "last 24 hours", "six am", "Q3 2024"),
    "EOD",
)


def test_a_date_is_found_in_the_many_ways_of_writing_it():
    found = [max(of_type("date", f"look at it {date}, please"), key=len) for date in DATES]
    assert found == [*DATES]


IDENTIFIERS = (
    *("getUserById", "snake_case_name", "MAX_RETRIES", "HttpClient", "os.path.join"),
    *("a.b.c()", "main()", "std::vector", "$total", "_private_name", "OPS-318"),
)
SPANS = {
    "date": {  # has a preposition, which is no part of it, or a place in the calendar
        "in March it rained": ["March"],
        "since 2019": ["2019"],
        "the year 2016 and 2015": ["2016", "2015"],
        "on the 14th at noon": ["14th", "noon"],
        "by the 3rd.": ["3rd"],
        "2024-13-03, 31/31/2024, 2023-02-29": [],
        "this may break after the 4th click in the 3rd row": [],
        "25:30, a ratio of 4:100, 2019 users": [],
        "march on, second to none": [],
        "src/2024/05, version 1.2.3": [],
    },
    "identifier": {  # has the joints of code, or stands in backticks
        **{f"why is {name} slow": [name] for name in IDENTIFIERS},
        "drop `users` now, not `two words`": ["users"],
        "GitHub, iPhone and PayPal, UTF-8, SHA-256, hello, e.g.": [],
    },
    "url": {  # ends before the punctuation of the sentence
        "see https://a.example/x?y=1#z.": ["https://a.example/x?y=1#z"],
        "(http://a.example/wiki/X_(y))": ["http://a.example/wiki/X_(y)"],
        "(see http://a.example/x)": ["http://a.example/x"],
        "on http://localhost:8000/docs, or": ["http://localhost:8000/docs"],
        "postgres://db.example:5432/shop": ["postgres://db.example:5432/shop"],
        "www.a.example and shop.example.com/cart": ["www.a.example", "shop.example.com/cart"],
        "views.py, main.rs, ASP.NET, e.g. this.": [],
        "ann@example.com": [],
    },
    "money": {  # has a currency
        "it costs $1,200.50 a month": ["$1,200.50"],
        "between 3 million euros and €4.5m": ["3 million euros", "€4.5m"],
        "EUR 480,000 or 42 EUR": ["EUR 480,000", "42 EUR"],
        "42 users, 3 dogs, v2": [],
    },
    "version": {  # has a v, a name or three parts
        "since v2.3.1 it fails": ["v2.3.1"],
        "from 1.4.2-rc1 to 2.0.0+build5": ["1.4.2-rc1", "2.0.0+build5"],
        "version 4 of it": ["4"],
        "on Python 3.11 and node 20": ["3.11", "20"],
        "Gitea 1.22 is out": ["1.22"],
        "Section 2.4, 3.5 seconds, 12.5 %": [],
        "10:30, $1.2.3, 1.2": [],
    },
    "path": {  # has a slash before it or the ending of a file
        "look at src/cart/views.py, please": ["src/cart/views.py"],
        "in /etc/nginx/nginx.conf.": ["/etc/nginx/nginx.conf"],
        "GET /v2/users/{id}": ["/v2/users/{id}"],
        "~/.ssh/config and ./run.sh": ["~/.ssh/config", "./run.sh"],
        r"open C:\Users\ann\notes.txt": [r"C:\Users\ann\notes.txt"],
        "edit Dockerfile and .env": ["Dockerfile", ".env"],
        "package.json": ["package.json"],
        "Node.js, next.js, console.log, and/or, 3/4": [],
    },
    "error": {  # is a name, a code or a classic sentence
        "a ValueError in app.errors.NotFoundError": ["ValueError", "app.errors.NotFoundError"],
        "it says ECONNREFUSED, then SIGKILL": ["ECONNREFUSED", "SIGKILL"],
        "an HTTP 503, then a 404 from it": ["HTTP 503", "404"],
        "exit code 137 and error 500": ["exit code 137", "error 500"],
        "ORA-00942 and CVE-2024-12345": ["ORA-00942", "CVE-2024-12345"],
        "Segmentation fault": ["Segmentation fault"],
        "the 404 users, 500 rows, no error at all": [],
    },
}


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [(kind, *case) for kind, cases in SPANS.items() for case in cases.items()],
)
def test_spans_are_known_by_their_shape(kind, text, expected):
    assert of_type(kind, text) == expected


WHOLE_HASH = "3caee16946575e71e90ead9ac531f5a3a1259307"


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("repository", "clone acme/checkout and open a pull request", ["acme/checkout"]),
        ("repository", "is the label in the sorter-sim repo?", ["sorter-sim"]),
        ("repository", "no repo partner-sdk, na branch release/2.4", ["partner-sdk"]),
        ("repository", "git@git.example.com:acme/infra.git does not build", ["acme/infra"]),
        ("repository", "a third-party repo, our open-source repository, the repo", []),
        ("repository", "fix the CI of acme/checkout-api", ["acme/checkout-api"]),
        ("repository", "a build of client/server code, issues of and/or", []),
        ("repository", "the pipeline for feature/login-2, releases from 2024/2025", []),
        ("repository", "client/server, and/or, 24/7", []),
        ("commit", "what did commit 3f2a91c change?", ["3f2a91c"]),
        ("commit", "revert 7f3c9e01aa, then cherry-pick `0aa41b2`", ["7f3c9e01aa", "0aa41b2"]),
        ("commit", "it broke between 1a2b3c4 and 5d6e7f8", ["1a2b3c4", "5d6e7f8"]),
        ("commit", f"it fails after {WHOLE_HASH}", [WHOLE_HASH]),
        ("commit", "from 20261122 to 20261123, since decade, order 1234567", []),
        ("service", "p99 of quote-svc and checkout-api, please", ["quote-svc", "checkout-api"]),
        ("service", "a self-service rest-api of our co-workers, service-to-service", []),
        ("service", "open src/mail-worker/main.py on mail-worker.example.com", []),
        ("product", "why Redis and not Postgres? ask in Slack", ["Redis", "Postgres", "Slack"]),
        ("product", "the kubernetes cluster and GITHUB actions", ["kubernetes", "GITHUB actions"]),
        ("product", "a linear notion: excel, zoom in, and cut me some slack", []),
    ],
)  # fmt: skip
def test_what_is_worked_on_is_found_without_a_model(kind, text, found):
    assert [entity.text for entity in FINDER.find(text) if entity.type == kind] == found


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("url", "https://example.jp/aを開いて", ["https://example.jp/a"]),
        ("url", "ページはhttps://example.jp/aです", ["https://example.jp/a"]),
        ("date", "2024-05-03に予約", ["2024-05-03"]),
        ("money", "￥15,000を振り込む", ["￥15,000"]),
        ("phone", "電話：０３－１２３４－５６７８", ["０３－１２３４－５６７８"]),
        ("email", "宛先はａｎｎ＠ｅｘａｍｐｌｅ．ｃｏｍ", ["ａｎｎ＠ｅｘａｍｐｌｅ．ｃｏｍ"]),
        ("date", "الموعد ٠٣/٠٥/٢٠٢٤", ["٠٣/٠٥/٢٠٢٤"]),
    ],
)
def test_spans_in_other_scripts_are_those_of_the_text(kind, text, found):
    assert [entity.text for entity in FINDER.find(text) if entity.type == kind] == found
