"""Recovery: the class of an error, and the step that follows it."""

from __future__ import annotations

import asyncio
from email.message import Message
from random import Random
from urllib.error import HTTPError

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import MCPError
from pydantic import TypeAdapter
from pydantic import ValidationError as WrongArguments

from toolcrib.errors import (
    LanguageModelRefusedError,
    MissingExtraError,
    RateLimitedError,
    SettingsError,
    StoreUnavailableError,
    UnknownToolError,
)
from toolcrib.router.recovery import USER_MESSAGES, RecoveryPolicy, diagnose
from toolcrib.router.settings import RecoverySettings

STEADY = RecoverySettings(jitter=0.0)


def step(error, attempt=1, settings=STEADY, **how):
    return RecoveryPolicy(settings).next_step(error, attempt, **how)


def test_what_may_work_later_is_tried_again_and_waits_double_each_time():
    policy = RecoveryPolicy(RecoverySettings(max_attempts=5, jitter=0.0))
    steps = [policy.next_step(503, attempt) for attempt in range(1, 5)]
    assert [taken.after_s for taken in steps] == [0.5, 1.0, 2.0, 4.0]
    assert {taken.action for taken in steps} == {"retry"}


def test_after_the_last_attempt_another_tool_is_called_if_there_is_one():
    assert step(503, 3).action == "alternate"
    assert step(503, 3, alternates=False).action == "stop"


@pytest.mark.parametrize(
    ("error", "action"), [(503, "retry"), (404, "reclassify"), (422, "replan"), (403, "stop")]
)
def test_each_class_has_its_step(error, action):
    assert step(error).action == action


@pytest.mark.parametrize(
    ("error", "action"),
    [
        ('{"error": {"code": 503, "message": "down"}}', "retry"),
        ('{"code":"403","message":"no"}', "stop"),
        ({"error": "slow down", "code": 429}, "retry"),
        ({"code": -32601, "message": "nope"}, "reclassify"),
        ({"error": "rate limit exceeded"}, "retry"),
        ('{"zip": 50321, "code": 50321}', "replan"),
    ],
)
def test_an_object_of_a_server_is_read_for_its_code(error, action):
    assert step(error).action == action


def test_a_reason_names_the_rule_and_never_repeats_the_error():
    reason = step("Timed out with token sk-123").reason
    assert reason == "retriable (the error says that it may work later), attempt 1 of 3"


def test_what_a_server_asks_is_waited_for_when_it_is_longer():
    assert step("overloaded, retry-after: 7").after_s == 7.0
    assert step("overloaded, retry-after: 0.1").after_s == 0.5


def test_nobody_waits_longer_than_the_cap():
    taken = step("rate limit, try again in 31 s")
    assert (taken.action, taken.after_s) == ("alternate", 0.0)
    assert taken.reason.endswith("the requested wait of 31 s is too long")
    assert step("rate limit, try again in 31 s", alternates=False).action == "stop"
    assert step(503, 400, RecoverySettings(max_attempts=5_000, jitter=0.0)).after_s == 30.0
    assert step(503, 4_000, RecoverySettings(max_attempts=5_000, jitter=0.0)).after_s == 30.0


@pytest.mark.parametrize("error", [TimeoutError(), 503, "connection reset by peer"])
def test_what_may_have_been_carried_out_is_not_done_twice(error):
    taken = step(error, repeatable=False)
    assert taken.action == "replan"
    assert taken.reason.endswith("the call may have run, and must not run twice")
    assert step(error, 3, repeatable=False).action == "stop"


def test_what_was_turned_away_can_be_repeated_even_so():
    assert step(429, repeatable=False).action == "retry"
    assert step("HTTP 429: slow down", repeatable=False).action == "retry"


def test_waits_of_equal_sources_are_equal_and_vary_by_the_share_of_jitter():
    def waits(seed):
        policy = RecoveryPolicy(RecoverySettings(jitter=0.1), Random(seed))
        return [policy.next_step(503, 1).after_s for _ in range(50)]

    assert waits(1) == waits(1) != waits(2)
    assert all(0.45 <= wait <= 0.55 for wait in waits(1))
    assert max(waits(1)) - min(waits(1)) > 0.05


def test_a_first_wait_above_the_longest_is_refused():
    with pytest.raises(SettingsError, match=r"recovery.base_s is 5, above recovery.cap_s \(1\)"):
        RecoverySettings(base_s=5, cap_s=1)


ERRORS = st.one_of(
    st.text(max_size=60),
    st.integers(),
    st.sampled_from([TimeoutError(), ValueError("x"), PermissionError(), KeyError("retry")]),
)


@given(error=ERRORS, attempt=st.integers(-3, 10**6), alternates=st.booleans())
def test_any_error_gets_a_step_and_a_wait_within_bounds(error, attempt, alternates):
    settings = RecoverySettings(max_attempts=10)
    policy = RecoveryPolicy(settings, Random(0))
    taken = policy.next_step(error, attempt, alternates=alternates)
    assert 0 <= taken.after_s <= settings.cap_s
    assert taken.after_s == 0 or taken.action == "retry"
    assert alternates or taken.action != "alternate"
    again = RecoveryPolicy(settings, Random(0)).next_step(error, attempt, alternates=alternates)
    assert again == taken


MARCH = "Tue, 04 Mar 2025"
REQUEST = httpx.Request("GET", "https://example.org/")


def answered(status, **headers):
    """The error of an HTTP client over an answer."""
    response = httpx.Response(status, headers=headers, request=REQUEST)
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    return caught.value


def wrong_arguments():
    with pytest.raises(WrongArguments) as caught:
        TypeAdapter(dict[str, int]).validate_python({"timeout": "soon"})
    return caught.value


DIAGNOSES = {
    "retriable": [
        *(408, 423, 425, 429, 500, 502, 503, 504, 599, -32000, -32001, -32050, -32603),
        TimeoutError(),
        ConnectionResetError("peer"),
        StoreUnavailableError("the server does not answer"),
        httpx.ReadTimeout(""),
        httpx.ConnectError("all connection attempts failed"),
        answered(503),
        HTTPError("https://example.org", 504, "late", Message(), None),
        MCPError(-32001, "Request timed out"),
        "The read operation timed out",
        "Rate limit exceeded, slow down",
        "upstream error: 503 Service Unavailable",
        "Temporary failure in name resolution",
        {"message": "API rate limit exceeded for installation ID 7.", "status": "403"},
        "ERROR:  deadlock detected\nDETAIL:  Process 12 waits for ShareLock",
        "FATAL:  sorry, too many clients already",
        "server closed the connection unexpectedly",
        "The connection to the server 10.0.0.1:6443 was refused",
        "An error occurred (RequestLimitExceeded) when calling CreateTags: Request limit exceeded.",
        "An error occurred (InternalError) when calling the CreateSnapshot operation: no",
        "MongoNetworkError: connect ECONNREFUSED 10.0.0.5:27017",
        "Client error '429 Too Many Requests' for url 'https://example.org'",
    ],
    "critical": [
        *(401, 402, 403, 407, 451, 511, -32042),
        PermissionError("denied"),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
        MemoryError(),
        answered(401),
        MCPError(-32603, "Unauthorized"),
        "HTTP 403",
        "The API key is wrong: authentication failed",
        "Permission denied: /etc/shadow",
        {"errorSummary": "You do not have permission to perform the requested action"},
        '{"ok":false,"error":"missing_scope","needed":"chat:write"}',
        '{"ok":false,"error":"invalid_auth"}',
        "An error occurred (ExpiredTokenException) when calling the CreateTags operation: no",
        'HttpError 403 when requesting https://example.org returned "Required permission"',
        "400 Bad Request: the prompt was blocked by our content policy",
        "refused by the safety system",
    ],
    "reclassify": [
        *(404, 405, 410, 501, -32601, -32002),
        UnknownToolError("a/b"),
        NotImplementedError(),
        MissingExtraError("reading MCP servers", "mcp"),
        MCPError(-32601, "Method not found"),
        MCPError(-32602, "Unknown tool: make_tea"),
        "Unknown tool: 'make_tea'",
        str(UnknownToolError("make_tea", ("make_coffee",))),
        "The method resources/list is not supported",
        "tool make_tea doesn't exist",
        '{"error": "tool_not_found"}',
        "404 Not Found",
    ],
    "replan": [
        *(400, 406, 409, 413, 415, 418, 422, -32600, -32602, -32700),
        ValueError("no"),
        TypeError("f() missing 1 required positional argument: 'timeout'"),
        wrong_arguments(),
        MCPError(-32602, "Invalid params"),
        "1 validation error for call[fetch]\ntimeout\n  Field required",
        "Error executing tool fetch: days must be at least 1",
        "MCP error -32603: request failed with status code 422",
        "no inspection in the safety register for that lift",
        'psycopg2.errors.UndefinedColumn: column "regio" does not exist',
        "Table 'shop.ordres' doesn't exist",
        "(InvalidInstanceID.NotFound) when calling the StopInstances operation: i-7 does not exist",
        'Error from server (NotFound): pods "checkout-7d9f" not found',
        {"errorSummary": "Not found: Resource not found: 00u1x (User)"},
        {"errorMessages": ["Issue does not exist or you do not have permission to see it."]},
        {"message": "User 17 not found", "code": 404},
        '{"ok":false,"error":"channel_not_found"}',
        "something went wrong",
        "",
    ],
}
"""Statuses, exceptions, exceptions that carry a status, and texts by their class."""


@pytest.mark.parametrize(
    ("kind", "error"),
    [(kind, error) for kind, errors in DIAGNOSES.items() for error in errors],
    ids=repr,
)
def test_an_error_has_a_class(kind, error):
    assert diagnose(error).kind == kind


def test_a_vague_code_lets_the_text_speak_and_a_clear_one_does_not():
    assert diagnose("status 500: invalid argument 'days'").kind == "replan"
    assert diagnose("status 500").kind == "retriable"
    assert diagnose("status 403: temporarily unavailable").kind == "critical"


@pytest.mark.parametrize("number", [0, 7, 200, 302, 1_000, -1, True])
def test_a_number_that_is_no_error_status_says_nothing(number):
    assert diagnose(number).why == "no rule matches"


def test_the_cause_is_asked_where_the_error_says_nothing():
    outer = RuntimeError("the tool did not do its work")
    outer.__cause__ = answered(503)
    assert (diagnose(outer).kind, diagnose(outer).status) == ("retriable", 503)


def test_a_circle_of_causes_ends():
    first, second = RuntimeError("one"), RuntimeError("two")
    first.__cause__, second.__cause__ = second, first
    assert diagnose(first).why == "no rule matches"


def test_of_a_group_the_first_member_counts():
    inner = ExceptionGroup("inner", [answered(429), ValueError()])
    assert diagnose(ExceptionGroup("outer", [inner])).kind == "retriable"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
        ({"date": f"{MARCH} 10:00:00 GMT", "retry-after": f"{MARCH} 10:00:20 GMT"}, 20.0),
        ({"retry-after": f"{MARCH} 10:00:20 GMT"}, None),
        ({"date": f"{MARCH} 10:00:00", "retry-after": f"{MARCH} 10:00:20 GMT"}, None),
    ],
)
def test_the_header_says_how_long_to_wait(headers, seconds):
    assert diagnose(answered(503, **headers)).retry_after_s == seconds


@pytest.mark.parametrize("kind", [LanguageModelRefusedError, RateLimitedError])
def test_an_error_of_ours_says_how_long_to_wait(kind):
    assert diagnose(kind("status 429", retry_after_s=7.0)).retry_after_s == 7.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("429: retry after 20", 20.0),
        ('{"retry_after": 1.5}', 1.5),
        ("Please try again in 8.2s.", 8.2),
        ("retry in 3 seconds", 3.0),
        ("Please try again in 6m0s.", None),
        ("retry after 5 minutes", None),
        ("try again later", None),
    ],
)
def test_the_words_say_how_long_to_wait(text, seconds):
    assert diagnose(text).retry_after_s == seconds


def test_an_endless_text_is_read_no_further_than_its_beginning():
    assert diagnose("x" * 10_000 + " timed out").kind == "replan"
    assert diagnose("timed out " + "x" * 1_000_000).kind == "retriable"


# -- what is said of an error beside it ------------------------------------------------------


class DeclaredError(Exception):
    """An error that says itself how bad it is."""

    severity = "fatal"
    user_message = "The archive is closed."


@pytest.mark.parametrize(
    ("error", "more", "kind"),
    [
        (DeclaredError(), {}, "fatal"),
        (DeclaredError(), {"severity": "retriable"}, "retriable"),
        (TimeoutError(), {"severity": "critical"}, "critical"),
        (ValueError("timeout"), {"in_classification": True}, "critical"),
        (TypeError(), {"in_classification": True}, "critical"),
        (ValueError("request timed out"), {}, "retriable"),
        (TimeoutError(), {"in_classification": True}, "retriable"),
        (503, {"severity": "replan"}, "replan"),
        (type("RatedError", (Exception,), {"severity": ["high"]})(), {}, "replan"),
    ],
)
def test_a_severity_that_is_handed_in_goes_before_what_is_read(error, more, kind):
    assert diagnose(error, **more).kind == kind


def test_a_user_is_told_the_errors_own_words_or_those_of_its_class():
    step = RecoveryPolicy().next_step(DeclaredError(), 1)
    assert (step.action, step.user_message) == ("stop", "The archive is closed.")
    assert "try again" in RecoveryPolicy().next_step(TimeoutError("secret"), 3).user_message
    assert all("secret" not in said for said in USER_MESSAGES.values())


def test_the_first_repetition_may_follow_at_once():
    policy = RecoveryPolicy(RecoverySettings(first_at_once=True, jitter=0, max_attempts=9, cap_s=3))
    waits = [policy.next_step(TimeoutError(), attempt).after_s for attempt in (1, 2, 3, 4, 5)]
    assert waits == [0.0, 0.5, 1.0, 2.0, 3.0]
    assert policy.next_step("rate limit, retry after 2 s", 1).after_s == 2.0
