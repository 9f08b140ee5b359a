"""Calls over a wire that is not always good: what is asked again, and what is said in the end."""

from __future__ import annotations

import sys

import pytest
import stamina

from tests.client.conftest import KEY
from tests.client.faulty import (
    FACETS,
    answer,
    drip,
    drop,
    garbage,
    half,
    hang,
    problem,
    refuse,
)
from toolcrib.client import RemoteCrib, wire
from toolcrib.client.address import Address
from toolcrib.client.lines import Line
from toolcrib.client.wire import Manner, Wire
from toolcrib.clock import ManualClock
from toolcrib.errors import (
    DeadlineError,
    MissingExtraError,
    OverloadedError,
    QueryError,
    RateLimitedError,
    ServiceError,
    ServiceUnavailableError,
    StoreUnavailableError,
    UnauthenticatedError,
)

OUTCOME = ("report_outcome", "d-1", "mail/send", "failure")
BUSY = problem("overloaded", 503, "64 are under way", retry_after_s=0.5)


def arrived(server):
    return len(server.record.arrived)


@pytest.mark.parametrize(
    "fault",
    [
        refuse,
        drop,
        half,
        garbage,
        BUSY,
        problem("rate-limited", 429),
        problem("store-unavailable", 503),
        answer(503, "<html>Sorry</html>", "text/html", Retry_After="1"),
        answer(502, "<html>Bad Gateway</html>", "text/html"),
    ],
)
def test_what_may_pass_is_tried_again_where_that_does_no_harm(faulty, ask, fault):
    faulty.script += [fault] * 3
    assert ask(faulty.url, "facets").as_dict() == FACETS


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (refuse, ServiceUnavailableError),
        (drop, ServiceUnavailableError),
        (BUSY, OverloadedError),
        (problem("store-unavailable", 503), StoreUnavailableError),
        (answer(503, "no", "text/plain"), ServiceUnavailableError),
    ],
)
def test_in_the_end_the_last_failure_is_told(faulty, ask, fault, expected):
    faulty.script += [fault] * 4
    with pytest.raises(expected):
        ask(faulty.url, "facets")
    assert faulty.script == []


def test_attempts_are_as_many_as_asked_for(faulty, ask):
    faulty.script += [BUSY, BUSY]
    with pytest.raises(OverloadedError) as caught:
        ask(faulty.url, "facets", attempts=1)
    assert (arrived(faulty), caught.value.retry_after_s) == (1, 0.5)


@pytest.mark.parametrize(
    "fault",
    [
        drop,
        half,
        answer(502, "", "text/html"),
        answer(503, "", "text/html"),
        problem("store-unavailable", 503),
    ],
)
def test_what_may_have_been_done_is_not_done_twice(faulty, ask, fault):
    faulty.script.append(fault)
    with pytest.raises((ServiceUnavailableError, StoreUnavailableError)):
        ask(faulty.url, *OUTCOME)
    assert arrived(faulty) == 1


@pytest.mark.parametrize("fault", [BUSY, problem("rate-limited", 429), answer(429, "")])
def test_what_was_turned_away_before_any_work_can_be_asked_again(faulty, ask, fault):
    faulty.script += [fault, fault]
    assert ask(faulty.url, *OUTCOME) is None
    assert arrived(faulty) == 3


@pytest.mark.parametrize(
    ("status", "slug", "expected"),
    [
        (401, "unauthenticated", UnauthenticatedError),
        (422, "query", QueryError),
        (500, "internal", ServiceError),
        (504, "deadline", DeadlineError),
    ],
)
def test_what_would_fail_again_is_asked_once(faulty, ask, status, slug, expected):
    faulty.script.append(problem(slug, status))
    with pytest.raises(expected, match="said so"):
        ask(faulty.url, "facets")
    assert arrived(faulty) == 1


def test_who_is_to_wait_long_is_told_so_at_once(faulty, ask):
    faulty.script.append(problem("rate-limited", 429, "wait", retry_after_s=3600))
    with pytest.raises(RateLimitedError) as caught:
        ask(faulty.url, "facets")
    assert (arrived(faulty), caught.value.retry_after_s) == (1, 3600)


def test_a_service_is_given_the_time_that_it_asks_for(faulty, ask):
    waits = []
    faulty.script += [
        problem("overloaded", 503, "busy", retry_after_s=0.05),
        answer(503, "", "text/html", Retry_After="0"),
        drop,
    ]
    stamina.instrumentation.set_on_retry_hooks([lambda told: waits.append(told.wait_for)])
    stamina.set_testing(False)
    try:
        ask(faulty.url, "facets")
    finally:
        stamina.instrumentation.set_on_retry_hooks(None)
    asked_for, *usual = waits
    assert 0.05 <= asked_for <= 0.05 * (1 + wire.SPREAD)
    assert [wire.FIRST_WAIT_S <= wait <= wire.LONGEST_WAIT_S for wait in usual] == [True, True]


@pytest.mark.parametrize("missing", ["httpx2", "stamina"])
def test_without_the_extra_it_says_what_to_install(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'toolcrib\[client\]'"):
        RemoteCrib("https://example.org")


def test_where_nobody_listens_it_says_what_to_do(ask):
    with pytest.raises(ServiceUnavailableError, match=r"cannot be reached .*toolcrib serve"):
        ask("http://127.0.0.1:9", "facets")


def test_an_answer_that_does_not_come_is_not_waited_for_twice(faulty, ask):
    faulty.script.append(hang)
    with pytest.raises(DeadlineError, match=r"did not answer within 0\.2 s"):
        ask(faulty.url, "facets", timeout_s=0.2)
    assert arrived(faulty) == 1


def test_an_answer_in_drops_does_not_take_for_ever(faulty):
    faulty.script.append(drip)
    manner = Manner(timeout_s=10, clock=ManualClock(step=4))
    with RemoteCrib(faulty.url) as crib:
        crib._line = Line(Wire(Address.of(faulty.url, None, None), manner))
        with pytest.raises(DeadlineError, match="within 10 s"):
            crib.facets()


def test_an_answer_without_end_is_not_read_to_its_end(faulty, ask, monkeypatch):
    monkeypatch.setattr(wire, "MAX_ANSWER_BYTES", 100)
    faulty.script.append(answer(200, {"tools": "x" * 200}))
    with pytest.raises(ServiceError, match="more than 100 bytes"):
        ask(faulty.url, "facets")


@pytest.mark.parametrize(
    "wrong",
    [
        answer(200, "<html>Please log in</html>", "text/html"),
        answer(200, "{", "application/json"),
        answer(200, "[" * 100_000, "application/json"),
        answer(200, [1, 2]),
        answer(200, {"tools": "many"}),
        answer(200, "", "application/json"),
        answer(204, ""),
        answer(202, FACETS),
    ],
)
def test_an_answer_that_is_not_toolcribs_is_not_taken_for_one(faulty, ask, wrong):
    faulty.script.append(wrong)
    with pytest.raises(ServiceError, match="did not answer as toolcrib does"):
        ask(faulty.url, "facets")
    assert arrived(faulty) == 1


def test_a_page_in_place_of_nothing_is_no_success(faulty, ask):
    faulty.script.append(answer(200, "<html>Please log in</html>", "text/html"))
    with pytest.raises(ServiceError, match="did not answer as toolcrib does"):
        ask(faulty.url, *OUTCOME)


def test_a_packed_answer_that_cannot_be_unpacked_is_told(faulty, ask):
    faulty.script.append(answer(200, "no gzip", Content_Encoding="gzip"))
    with pytest.raises(ServiceError, match="cannot be asked"):
        ask(faulty.url, "facets")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_with_the_key(faulty, ask, status):
    elsewhere = "https://elsewhere.example/v1/facets?key=secret"
    faulty.script.append(answer(status, "", Location=elsewhere))
    with pytest.raises(ServiceError, match=r"sends to 'https://elsewhere.example/v1/facets'"):
        ask(faulty.url, "facets")
    assert arrived(faulty) == 1


def test_every_request_brings_key_and_namespace(faulty, ask):
    ask(faulty.url + "/behind/a/proxy/", "facets", namespace="ours")
    request = faulty.record.arrived[0]
    assert (request.method, request.path) == ("GET", "/behind/a/proxy/v1/facets")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["toolcrib-namespace"] == "ours"
    assert request.headers["accept"] == "application/json"
