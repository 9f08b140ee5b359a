"""The OpenAPI document: complete, and true."""

from __future__ import annotations

import re

import pytest
from jsonschema import Draft202012Validator

from scripts.typescript_types import TARGET, written
from toolcrib.http.app import ENDPOINTS
from toolcrib.problems import PROBLEMS


@pytest.fixture(scope="module")
def document(service):
    with service.anonymous() as client:
        return client.get("/openapi.json").json()


@pytest.fixture
def operations(document):
    return {
        (method.upper(), path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }


def resolve(document, value):
    while "$ref" in value:
        found = document
        for step in value["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        value = found
    return value


def body_of(operation):
    return operation["requestBody"]["content"]["application/json"]["schema"]


def test_every_endpoint_is_in_it_and_its_address_is_the_services(operations, document):
    told = {(each.method, each.path.replace(":path", "")) for each in ENDPOINTS}
    assert set(operations) == told
    assert [each["url"] for each in document["servers"]] == ["/"]


def test_a_page_shows_every_operation_and_asks_no_other_address(service, operations, document):
    with service.anonymous() as client:
        answer = client.get("/docs")
    page = answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for method, path in operations:
        assert f"<code>{method} {path}</code>" in page
    linked = set(re.findall(r'href="#([^"]+)"', page))
    assert linked <= set(re.findall(r'id="([^"]+)"', page))
    assert {f"schema-{name}" for name in document["components"]["schemas"]} & linked
    assert re.findall(r"<script|\bsrc=|<link|url\(|href=\"(?:https?:)?//", page) == []


def test_operations_have_names_of_their_own_and_tags_that_are_described(document, operations):
    names = [operation["operationId"] for operation in operations.values()]
    assert len(set(names)) == len(names)
    assert all(operation["summary"] and operation["tags"] for operation in operations.values())
    described = {tag["name"] for tag in document["tags"]}
    assert {tag for each in operations.values() for tag in each["tags"]} == described


def test_every_reference_leads_somewhere(document):
    for value in objects_in(document):
        if isinstance(value.get("$ref"), str):
            resolve(document, value)


def objects_in(value):
    """Every object inside of a value, itself the first."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from objects_in(each)


def test_a_generator_of_clients_can_make_a_class_of_every_schema(document):
    shared = document["components"]["schemas"]
    assert {name: each["title"] for name, each in shared.items()} == {name: name for name in shared}
    # Openapi-python-client leaves out the properties beside an `anyOf`, and arrays of anything.
    assert [name for name, each in shared.items() if {"anyOf", "properties"} <= set(each)] == []
    arrays = [each for each in objects_in(shared) if each.get("type") == "array"]
    assert [each for each in arrays if not {"items", "prefixItems"} & set(each)] == []


def test_schemas_are_described_in_the_words_of_json(document):
    for name, schema in document["components"]["schemas"].items():
        found = re.findall(r"\b(None|True|False|Raises:)", schema.get("description", ""))
        assert found == [], name


def test_what_needs_a_key_says_so(document, operations):
    for (_, path), operation in operations.items():
        is_guarded = path.startswith("/v1/")
        asked = operation.get("security", document["security"])
        assert asked == ([{"bearer": []}, {"header": []}] if is_guarded else [])
        named = {parameter["name"] for parameter in operation.get("parameters", ())}
        assert ("Toolcrib-Namespace" in named) == is_guarded
        statuses = {"401", "403", "413", "422", "429", "500", "503", "504", "507"}
        assert not is_guarded or statuses <= set(operation["responses"])


def test_what_takes_a_body_shows_one(document, operations):
    for operation in operations.values():
        if "requestBody" not in operation:
            continue
        schema = resolve(document, body_of(operation))
        assert schema["additionalProperties"] is False
        assert "415" in operation["responses"]


def test_every_error_is_a_problem_with_the_requests_id(document, operations):
    for operation in operations.values():
        for status, answer in operation["responses"].items():
            told = resolve(document, answer)
            assert "X-Request-Id" in told["headers"]
            if int(status) >= 400:
                assert list(told["content"]) == ["application/problem+json"]
                shown = told["content"]["application/problem+json"]
                assert shown["schema"] == {"$ref": "#/components/schemas/ProblemBody"}
                for example in shown["examples"].values():
                    assert example["value"]["status"] == int(status)


def test_what_an_endpoint_raises_stands_in_it(operations):
    for endpoint in ENDPOINTS:
        operation = operations[endpoint.method, endpoint.path.replace(":path", "")]
        for error in endpoint.errors:
            assert str(PROBLEMS[error].status) in operation["responses"]


def test_headers_of_a_refused_key_stand_in_it(document, service):
    with service.anonymous() as client:
        answer = client.get("/v1/me")
    documented = document["components"]["responses"]["unauthenticated"]["headers"]
    assert answer.status_code == 401
    assert {name.lower() for name in documented} <= set(answer.headers)
    assert "WWW-Authenticate" in documented


def test_examples_of_bodies_are_taken(document, operations, service):
    with service.client(access="admin", namespaces=("*",)) as client:
        client.headers["Toolcrib-Namespace"] = service.namespace()
        for (method, path), operation in operations.items():
            if "requestBody" not in operation or "{" in path:
                continue
            for example in resolve(document, body_of(operation)).get("examples", ()):
                answer = client.request(method, path, json=example)
                # Without their setting, no key changes servers.
                fine = {403} if path == "/v1/servers" else {200, 204, 404, 409}
                assert answer.status_code in fine, (path, answer.text)


@pytest.mark.parametrize("digest", [{}, {"digest": None}])
def test_an_approval_without_a_digest_is_wrong_by_the_document_too(document, service, digest):
    body = {"verdict": "approve", **digest}
    with service.client(access="write") as client:
        answer = client.post("/v1/quarantine/mail/send_mail", json=body)
    assert answer.status_code == 422
    schema = document["components"]["schemas"]["VerdictBody"]
    assert not Draft202012Validator(schema).is_valid(body)


def test_messages_of_a_search_and_of_a_turn_may_hold_parts_as_documented(document, service):
    shared = document["components"]["schemas"]
    contents = [shared[name]["properties"]["content"] for name in ("Message", "MessageBody")]
    assert contents[0] == contents[1]
    assert {"type": "array", "items": {}} in contents[0]["anyOf"]
    history = [{"role": "user", "content": [{"type": "text", "text": "write to Ana"}]}]
    with service.client() as client:
        for path, body in (("tools/search", {"query": "a"}), ("route", {"text": "a"})):
            answer = client.post(f"/v1/{path}", json={**body, "history": history})
            assert answer.status_code == 200


def test_the_types_in_typescript_are_those_of_the_document():
    assert TARGET.read_text(encoding="utf-8") == written(), (
        f"run `make docs`, which writes {TARGET}"
    )
