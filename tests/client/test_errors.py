"""What went wrong, told as an embedded crib would have told it."""

from __future__ import annotations

import json

import httpx2
import pytest

from tests.conftest import error_kinds
from toolcrib import errors
from toolcrib.client.transport import (
    LOCAL_ERRORS,
    Reply,
    connection_failure,
    error_class,
    reply_failure,
)
from toolcrib.http.errors import problem_response
from toolcrib.problems import public_text, slug_of

PLACE = "https://example.org"
ALL = error_kinds()
NAMED = {errors.UnknownToolError, errors.UnknownCollectionError}


def told(status, body, kind="application/problem+json", about="", **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    phrase = httpx2.codes.get_reason_phrase(status)
    reply = Reply(status, {"content-type": kind, **headers}, content, phrase)
    return reply_failure(reply, PLACE, about)


def over_the_wire(error, about=""):
    answer = problem_response(error, "r-1")
    reply = Reply(answer.status_code, dict(answer.headers.items()), bytes(answer.body))
    return reply_failure(reply, PLACE, about).error


def test_every_error_is_found_by_the_name_that_problems_have_for_it():
    assert [error_class(slug_of(kind)) for kind in ALL] == ALL
    assert [error_class(slug) for slug in ("internal", "http", "", "value", "x-y")] == [None] * 5


def test_an_error_comes_through_with_its_class_and_words_that_callers_may_read():
    for kind in (k for k in ALL if not issubclass(k, LOCAL_ERRORS) and k not in NAMED):
        error = kind("k is 0")
        again = over_the_wire(error, "k is 0")
        assert (type(again), str(again)) == (kind, public_text(error))
        assert again.__notes__ == ["toolcrib request r-1 at https://example.org"]


@pytest.mark.parametrize("kind", sorted(NAMED, key=str))
@pytest.mark.parametrize("nearest", [(), ("mail/send", "mail/sent")])
def test_what_is_unknown_comes_through_with_what_is_near(kind, nearest):
    error = kind("mail/sned", nearest)
    again = over_the_wire(error, "mail/sned")
    known = {**vars(error), "__notes__": again.__notes__}
    assert (type(again), str(again), vars(again)) == (kind, str(error), known)


def test_when_to_ask_again_comes_through():
    again = over_the_wire(errors.RateLimitedError("too often", retry_after_s=0.25))
    assert (str(again), again.retry_after_s) == ("too often", 0.25)


@pytest.mark.parametrize(
    "error", [errors.MissingExtraError("a PDF", "docs"), errors.SourceError("a.pdf", "1", "torn")]
)
def test_what_speaks_of_the_services_machine_is_not_taken_for_this_one(error):
    again = over_the_wire(error)
    assert type(again) is errors.ServiceError
    assert str(error) in str(again)


def test_a_problem_of_a_newer_service_keeps_its_words():
    failed = told(418, {"type": "urn:toolcrib:problem:teapot", "detail": "short and stout"})
    assert type(failed.error) is errors.ServiceError
    assert str(failed.error).endswith("answered 418 I'm a teapot: short and stout")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, errors.UnauthenticatedError),
        (403, errors.ForbiddenError),
        (404, errors.ServiceError),
        (408, errors.DeadlineError),
        (413, errors.TooLargeError),
        (429, errors.RateLimitedError),
        (500, errors.ServiceError),
        (502, errors.ServiceUnavailableError),
        (503, errors.ServiceUnavailableError),
        (504, errors.DeadlineError),
        (599, errors.ServiceError),
    ],
)
def test_a_page_of_a_proxy_is_told_by_its_status(status, kind):
    error = told(status, b"<html><h1>Something</h1></html>", "text/html; charset=utf-8").error
    assert type(error) is kind
    assert f"answered {status}" in str(error)
    assert "<" not in str(error)
    assert "HTML" in str(error)


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b" upstream\n gone ", "text/plain", ": upstream gone"),
        (b"x" * 2000, "text/plain", ": " + "x" * 300),
        (b"\xff", "", ": \ufffd"),
        (b"", "text/plain", ""),
        (b'{"title": "No"}', "application/json", ": No"),
        (b'["No"]', "application/json", ': ["No"]'),
        (b"{", "application/problem+json", ": {"),
        (b"[" * 9000, "application/json", ": " + "[" * 300),
    ],
)
def test_other_answers_are_told_by_their_words_as_far_as_there_are_some(body, kind, said):
    assert str(told(502, body, kind).error) == (
        f"the service at https://example.org answered 502 Bad Gateway{said}"
    )


@pytest.mark.parametrize(
    ("headers", "body", "after_s"),
    [
        ({"retry-after": "2"}, {}, 2.0),
        ({"retry-after": "2"}, {"retry_after_s": 1.5}, 1.5),
        ({"retry-after": "-2"}, {}, None),
        ({"retry-after": "nan"}, {}, None),
        ({"retry-after": "soon"}, {}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, {}, None),
        ({}, {}, None),
    ],
)
def test_when_to_ask_again_is_read_however_it_is_told(headers, body, after_s):
    failed = told(503, body, "application/json", **headers)
    assert (failed.after_s, failed.error.retry_after_s) == (after_s, after_s)


def test_a_problem_of_strange_shape_is_still_one():
    strange = {"type": "urn:toolcrib:problem:unknown-tool", "nearest": "mail", "detail": None}
    error = told(404, strange, about="x").error
    assert (type(error), error.nearest, error.tool_id) == (errors.UnknownToolError, (), "x")
    empty = told(422, {"type": "urn:toolcrib:problem:query"}).error
    assert (type(empty), str(empty)) == (errors.QueryError, "QueryError")


@pytest.mark.parametrize(
    ("failure", "kind", "transient", "unprocessed"),
    [
        (httpx2.ConnectError("refused"), errors.ServiceUnavailableError, True, True),
        (httpx2.ConnectTimeout("late"), errors.ServiceUnavailableError, True, True),
        (httpx2.ReadError(""), errors.ServiceUnavailableError, True, False),
        (httpx2.RemoteProtocolError("gone"), errors.ServiceUnavailableError, True, False),
        (httpx2.ReadTimeout("late"), errors.DeadlineError, False, False),
        (httpx2.PoolTimeout("late"), errors.DeadlineError, False, False),
        (httpx2.LocalProtocolError("no header"), errors.ServiceError, False, False),
        (httpx2.UnsupportedProtocol("no protocol"), errors.ServiceError, False, False),
        (httpx2.InvalidURL("no URL"), errors.ServiceError, False, False),
    ],
)
def test_silence_is_told_by_its_reason(failure, kind, transient, unprocessed):
    failed = connection_failure(failure, httpx2, PLACE, 10)
    assert type(failed.error) is kind
    assert (failed.transient, failed.unprocessed) == (transient, unprocessed)
    assert PLACE in str(failed.error)
