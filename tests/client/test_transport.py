"""Requests over a bad network: what is asked again, and what is said in the end."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from types import NoneType

import pytest

from tests.client.conftest import KEY
from tests.client.faulty import FACETS, answer, drip, drop, garbage, half, hang, problem, refuse
from toolcrib import errors
from toolcrib.client import RemoteCrib, transport
from toolcrib.client.transport import Transport
from toolcrib.clock import ManualClock
from toolcrib.records import Facets
from toolcrib.records.codec import as_json

OUTCOME = ("report_outcome", "d-1", "mail/send", "failure")
BUSY = problem("overloaded", 503, "64 are under way", retry_after_s=0.5)


@pytest.fixture
def get_facets(faulty, ask):
    return lambda **options: ask(faulty.url, "facets", **options)


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
def test_what_may_pass_is_tried_again_where_that_does_no_harm(faulty, get_facets, fault, capfd):
    faulty.script += [fault] * 3
    assert as_json(get_facets()) == FACETS
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (refuse, errors.ServiceUnavailableError),
        (drop, errors.ServiceUnavailableError),
        (BUSY, errors.OverloadedError),
        (problem("store-unavailable", 503), errors.StoreUnavailableError),
        (answer(503, "no", "text/plain"), errors.ServiceUnavailableError),
    ],
)
def test_in_the_end_the_last_failure_is_told(faulty, get_facets, fault, expected):
    faulty.script += [fault] * 4
    with pytest.raises(expected):
        get_facets()
    assert faulty.script == []


@pytest.mark.parametrize(
    ("fault", "attempts", "after_s"),
    [(BUSY, 1, 0.5), (problem("rate-limited", 429, retry_after_s=3600), 4, 3600)],
    ids=["one attempt", "a long wait"],
)
def test_a_failure_at_once_says_when_to_ask_again(faulty, get_facets, fault, attempts, after_s):
    faulty.script += [fault] * 2
    with pytest.raises((errors.OverloadedError, errors.RateLimitedError)) as caught:
        get_facets(attempts=attempts)
    assert (len(faulty.arrived), caught.value.retry_after_s) == (1, after_s)


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
    with pytest.raises((errors.ServiceUnavailableError, errors.StoreUnavailableError)):
        ask(faulty.url, *OUTCOME)
    assert len(faulty.arrived) == 1


@pytest.mark.parametrize("fault", [BUSY, problem("rate-limited", 429), answer(429, "")])
def test_what_was_turned_away_before_any_work_can_be_asked_again(faulty, ask, fault):
    faulty.script += [fault, fault]
    assert ask(faulty.url, *OUTCOME) is None
    assert len(faulty.arrived) == 3


@pytest.mark.parametrize(
    ("status", "slug", "expected"),
    [
        (401, "unauthenticated", errors.UnauthenticatedError),
        (422, "query", errors.QueryError),
        (500, "internal", errors.ServiceError),
        (504, "deadline", errors.DeadlineError),
    ],
)
def test_what_would_fail_again_is_asked_once(faulty, get_facets, status, slug, expected):
    faulty.script.append(problem(slug, status))
    with pytest.raises(expected, match="said so"):
        get_facets()
    assert len(faulty.arrived) == 1


def test_a_service_is_given_the_time_that_it_asks_for(faulty, get_facets, pauses):
    faulty.script += [
        problem("overloaded", 503, "busy", retry_after_s=0.05),
        answer(503, "", "text/html", Retry_After="0"),
        drop,
    ]
    get_facets()
    asked_for, *usual = pauses
    assert 0.05 <= asked_for <= 0.05 * (1 + transport.WAIT_JITTER)
    assert [0.1 <= wait <= 2.0 for wait in usual] == [True, True]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks there")
def test_a_forked_child_has_connections_of_its_own(faulty):
    with RemoteCrib(faulty.url) as crib:
        crib.facets()
        child = multiprocessing.get_context("fork").Process(target=crib.facets)
        child.start()
        child.join()
        crib.facets()
    assert (len(faulty.arrived), faulty.connections) == (3, 2)


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(errors.MissingExtraError, match=r"pip install 'toolcrib\[client\]'"):
        RemoteCrib("https://example.org")


def test_where_nobody_listens_it_says_what_to_do(ask):
    with pytest.raises(errors.ServiceUnavailableError, match="toolcrib serve"):
        ask("http://127.0.0.1:9", "facets")


def test_an_answer_that_does_not_come_is_not_waited_for_twice(faulty, get_facets):
    faulty.script.append(hang)
    with pytest.raises(errors.DeadlineError, match=r"did not answer within 0\.2 s"):
        get_facets(timeout_s=0.2)
    assert len(faulty.arrived) == 1


def test_an_answer_in_drops_does_not_take_for_ever(faulty):
    faulty.script.append(drip)
    sender = Transport(faulty.url, timeout_s=10, clock=ManualClock(step=4))
    with pytest.raises(errors.DeadlineError, match="within 10 s"):
        sender.ask(Facets, "GET", "/v1/facets")


def test_an_answer_without_end_is_not_read_to_its_end(faulty, get_facets, monkeypatch):
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", 100)
    faulty.script.append(answer(200, {"tools": "x" * 200}))
    with pytest.raises(errors.ServiceError, match="more than 100 bytes"):
        get_facets()


@pytest.mark.parametrize(
    "wrong",
    [
        answer(200, "<html>Please log in</html>", "text/html"),
        *(answer(200, body) for body in ("{", "[" * 100_000, [1, 2], {"tools": "many"}, "")),
        answer(204),
        answer(202, FACETS),
    ],
)
def test_an_answer_that_is_not_toolcribs_is_not_taken_for_one(faulty, get_facets, wrong):
    faulty.script.append(wrong)
    with pytest.raises(errors.ServiceError, match="is not toolcrib"):
        get_facets()
    assert len(faulty.arrived) == 1


def test_a_page_in_place_of_nothing_is_no_success(faulty, ask):
    faulty.script.append(answer(200, "<html>Please log in</html>", "text/html"))
    with pytest.raises(errors.ServiceError, match="is not toolcrib"):
        ask(faulty.url, *OUTCOME)


def test_a_packed_answer_that_cannot_be_unpacked_is_told(faulty, get_facets):
    faulty.script.append(answer(200, "no gzip", Content_Encoding="gzip"))
    with pytest.raises(errors.ServiceError, match="failed"):
        get_facets()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_with_the_key(faulty, get_facets, status):
    elsewhere = "https://elsewhere.example/v1/facets?key=secret"
    faulty.script.append(answer(status, "", Location=elsewhere))
    with pytest.raises(errors.ServiceError, match=r"https://elsewhere\.example/v1/facets"):
        get_facets()
    assert len(faulty.arrived) == 1


def test_every_request_brings_key_and_namespace(faulty, ask):
    ask(faulty.url + "/behind/a/proxy/", "facets", namespace="ours")
    request = faulty.arrived[0]
    assert (request.method, request.path) == ("GET", "/behind/a/proxy/v1/facets")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["toolcrib-namespace"] == "ours"
    assert request.headers["accept"] == "application/json"


# -- where a service is ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://tools.example.org", "https://tools.example.org"),
        ("https://tools.example.org/", "https://tools.example.org"),
        ("http://localhost:8642//", "http://localhost:8642"),
        ("https://example.org/agents/tools/", "https://example.org/agents/tools"),
        ("http://[::1]:8642", "http://[::1]:8642"),
    ],
)
def test_a_url_is_taken_with_its_path_and_without_a_slash_at_its_end(url, base):
    assert Transport(url).url == base


@pytest.mark.parametrize(
    "url",
    [
        None,
        "",
        "tools",
        "./tools",
        "/var/lib/tools",
        ":memory:",
        "tools.example.org",
        "localhost:8642",
        "ftp://example.org",
        "https://",
        "https://:8642",
        "https://example.org:http",
        "https://example.org:0",
        "https://[::1",
    ],
)
def test_what_is_no_url_of_a_service_is_refused_with_what_else_there_is(url):
    with pytest.raises(errors.SettingsError, match=r"URL.*Crib\.open"):
        Transport(url)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HTTP_PROXY", "socks9://localhost:1"),
        ("HTTP_PROXY", "http://[::1"),
        ("SSL_CERT_FILE", "nowhere.pem"),
    ],
)
def test_an_environment_that_no_client_takes_is_named(monkeypatch, variable, value):
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv(variable, value)
    with pytest.raises(errors.SettingsError, match=f"http://localhost:1 .*{variable}"):
        Transport("http://localhost:1")


@pytest.mark.parametrize("more", ["?key=1", "#v1"])
def test_a_url_with_more_behind_its_path_is_refused(more):
    with pytest.raises(errors.SettingsError, match="query"):
        Transport(f"https://example.org/{more}")


@pytest.mark.parametrize("protocol", ["https", "ftp"])
def test_a_password_in_a_url_is_refused_and_not_repeated(protocol):
    with pytest.raises(errors.SettingsError) as caught:
        Transport(f"{protocol}://ana:geheim@example.org")
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("key", ["", " ", "tc_a b", "tc_é", "tc_a\r\nX-More: 1"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_repeated(key):
    with pytest.raises(errors.SettingsError, match="api_key") as caught:
        Transport("https://example.org", key)
    assert key.strip() == "" or key not in str(caught.value)


def test_the_key_is_never_shown():
    with RemoteCrib("https://example.org", api_key="tc_geheim") as crib:
        assert repr(crib) == "RemoteCrib('https://example.org')"


@pytest.mark.parametrize(("timeout_s", "attempts"), [(0, 4), (-1, 4), (float("nan"), 4), (1, 0)])
def test_there_must_be_time_and_an_attempt(timeout_s, attempts):
    with pytest.raises(errors.SettingsError, match="attempt"):
        RemoteCrib("https://example.org", timeout_s=timeout_s, attempts=attempts)


# -- connections -------------------------------------------------------------------------


def test_calls_share_a_connection_and_send_no_key_where_there_is_none(faulty):
    with RemoteCrib(faulty.url) as crib:
        for _ in range(5):
            crib.facets()
    assert faulty.connections == 1
    assert not any("authorization" in request.headers for request in faulty.arrived)


def test_threads_may_ask_at_once(faulty):
    with RemoteCrib(faulty.url) as crib, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: crib.facets(), range(8)))
    assert [each.tools for each in found] == [2] * 8


def test_one_event_loop_after_the_other_may_ask(faulty):
    with RemoteCrib(faulty.url) as crib:
        assert [asyncio.run(crib.afacets()).tools for _ in range(3)] == [2, 2, 2]


async def test_a_call_that_is_given_up_is_waited_for_no_longer(faulty):
    faulty.script.append(hang)
    crib = RemoteCrib(faulty.url, timeout_s=60)
    asking = asyncio.ensure_future(crib.afacets())
    await asyncio.to_thread(faulty.reached.wait, 60)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


def test_a_closed_crib_says_so(faulty):
    async def again():
        async with RemoteCrib(faulty.url) as crib:
            await crib.afacets()
        await crib.aclose()
        await crib.afacets()

    with RemoteCrib(faulty.url) as crib:
        crib.facets()
    crib.close()
    with pytest.raises(errors.ServiceError, match="this crib is closed"):
        crib.facets()
    with pytest.raises(errors.ServiceError, match="this crib is closed"):
        asyncio.run(again())


CIRCULAR: list[object] = []
CIRCULAR.append(CIRCULAR)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {1, 2}, object(), "\ud800", CIRCULAR]
)
def test_what_json_has_no_word_for_is_a_bad_query(faulty, value):
    sender = Transport(faulty.url)
    with pytest.raises(errors.QueryError, match="JSON"):
        sender.ask(NoneType, "POST", "/v1/outcomes", {"metadata": {"x": value}})
    assert len(faulty.arrived) == 0
