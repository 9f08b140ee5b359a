"""Everything that is wrong with a request is told as a problem; nothing is a fault of ours."""

from __future__ import annotations

import gzip

import pytest

SEARCH = "/v1/tools/search"
JSON = {"Content-Type": "application/json"}


def problem(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["instance"] == f"urn:toolcrib:request:{answer.headers['x-request-id']}"
    assert body["title"]
    assert body["detail"]
    return body


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "EOF while parsing"),
        (b"{'query': 'x'}", "key must be a string"),
        (b'{"query": "x", "coverage": NaN}', "expected value"),
        (b'{"query": "x", "coverage": Infinity}', "expected value"),
        (b'{"query": "\\ud800"}', "hex escape"),
        (b'{"query": "\xff"}', "invalid unicode"),
        (b"[" * 5000 + b"]" * 5000, "nested deeper than 200 levels"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested deeper than 200 levels"),
        (b" " * 70_000 + b"{", "EOF while parsing"),
        (b"", "EOF while parsing"),
        *((content, "") for content in (b"null", b"[]", b"3", b'"text"')),
    ],
)
def test_what_is_no_object_in_json_is_told_with_its_place(tenant, content, reason):
    told = problem(tenant.post(SEARCH, content=content, headers=JSON))
    assert told["status"] == 422
    [fault] = told["errors"]
    assert fault["place"] == "body"
    assert reason in fault["reason"]


def test_every_wrong_place_is_told(tenant):
    sent = {"query": "", "k": "many", "scope": {"sever": []}, "more": 1}
    told = problem(tenant.post(SEARCH, json=sent))
    assert {fault["place"] for fault in told["errors"]} == {"query", "k", "scope.sever", "more"}
    assert "many" not in told["detail"]


def test_no_more_places_are_told_than_anybody_reads(tenant):
    told = problem(tenant.post(SEARCH, json={str(n): n for n in range(1000)}))
    assert len(told["errors"]) == 20


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 4000])
def test_numbers_may_be_of_any_size(tenant, number):
    content = b'{"query": "x", "coverage": ' + number.encode() + b"}"
    assert problem(tenant.post(SEARCH, content=content, headers=JSON))["status"] == 422


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "", "application/jsonx"])
def test_a_body_must_say_that_it_is_json(tenant, kind):
    told = problem(tenant.post(SEARCH, content=b'{"query": "x"}', headers={"Content-Type": kind}))
    assert (told["status"], told["type"]) == (415, "urn:toolcrib:problem:unsupported-media-type")


@pytest.mark.parametrize(("path", "kind"), [(SEARCH, "json"), ("/v1/tools", "jsonl")])
def test_a_compressed_body_is_not_read(tenant, path, kind):
    content = gzip.compress(b'{"query": "x"}')
    headers = {"Content-Type": f"application/{kind}", "Content-Encoding": "gzip"}
    told = problem(tenant.post(path, content=content, headers=headers))
    assert (told["status"], told["type"]) == (415, "urn:toolcrib:problem:unsupported-media-type")
    assert "gzip" in told["detail"]


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "Application/JSON", "application/x+json"]
)
def test_json_has_several_names_and_may_be_said_to_be_uncompressed(tenant, kind):
    headers = {"Content-Type": kind, "Content-Encoding": "identity"}
    assert tenant.post(SEARCH, content=b'{"query": "x"}', headers=headers).status_code == 200


def test_who_accepts_no_json_gets_none(tenant):
    told = problem(tenant.get("/v1/facets", headers={"Accept": "text/html, image/*"}))
    assert (told["status"], told["type"]) == (406, "urn:toolcrib:problem:not-acceptable")


@pytest.mark.parametrize("kind", ["*/*", "application/*;q=0.1", "text/html, application/json"])
def test_who_accepts_json_gets_it(tenant, kind):
    assert tenant.get("/v1/facets", headers={"Accept": kind}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/nothing", "/v2/tools", "/v1", "/v1/", "/nothing"])
def test_there_is_nothing_where_nothing_is(tenant, path):
    told = problem(tenant.get(path))
    assert (told["status"], told["type"]) == (404, "urn:toolcrib:problem:not-found")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/tools", "GET, HEAD, POST"),
        ("/v1/tools/search", "POST"),
        ("/v1/tools/mail/send_mail", "DELETE, GET, HEAD"),
        ("/v1/documents", "DELETE, POST"),
        ("/v1/facets", "GET, HEAD"),
        ("/healthz", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(tenant, path, allowed):
    answer = tenant.patch(path)
    assert problem(answer)["status"] == 405
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=x", "limit=1e3", "cursor=" + "x" * 1101]
)
def test_parameters_have_bounds(tenant, query):
    told = problem(tenant.get(f"/v1/tools?{query}"))
    assert (told["status"], told["errors"][0]["place"]) == (422, query.partition("=")[0])


def test_cookies_and_preflights_mean_nothing(tenant):
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = tenant.options(SEARCH, headers=asked)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        (SEARCH, {"query": ""}, "empty"),
        ("/v1/collections", {"collections": [{"name": "Kb 1"}]}, "letters"),
    ],
)
def test_a_wrong_text_is_told_in_words(tenant, path, body, reason):
    told = problem(tenant.post(path, json=body))
    assert told["status"] == 422
    assert any(reason in fault["reason"] for fault in told["errors"])


@pytest.mark.parametrize(
    ("method", "path", "meant"),
    [
        ("GET", "/v1/tools?limt=3", "limit"),
        ("GET", "/v1/tools/a?limit=3", ""),
        ("POST", "/v1/tools/search?k=3", ""),
        ("POST", "/v1/tools?prunes=true", "prune"),
    ],
)
def test_an_unknown_parameter_is_refused(tenant, method, path, meant):
    told = problem(tenant.request(method, path, json={"query": "mail"}))
    [fault] = told["errors"]
    assert (told["status"], fault["place"]) == (422, path.partition("?")[2].partition("=")[0])
    assert meant in fault["reason"]


def test_a_parameter_of_one_value_is_given_once(tenant):
    told = problem(tenant.get("/v1/tools?limit=1&limit=2&server=a&server=b"))
    assert told["errors"] == [{"place": "limit", "reason": "given more than once"}]
