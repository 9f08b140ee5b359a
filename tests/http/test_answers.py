"""Answers are what the OpenAPI document says, field by field."""

from __future__ import annotations

import json

import jsonschema
import pytest

from tests.http.conftest import TOOLS
from toolcrib.http.app import ENDPOINTS, openapi

# Python has no \p in its regular expressions.
DOCUMENT = json.loads(openapi().replace(rb"\\p{L}\\p{N}_", rb"\\w"))

ASKED = [
    ("GET", "/v1/tools", "/v1/tools", None),
    ("POST", "/v1/tools/list", "/v1/tools/list", {}),
    ("GET", "/v1/tools/{id:path}", "/v1/tools/mail/send_mail", None),
    ("POST", "/v1/tools/links", "/v1/tools/links", {"id": "mail/send_mail"}),
    ("POST", "/v1/tools/check", "/v1/tools/check", {"ids": ["mail/send_mail", "no/such"]}),
    ("GET", "/v1/facets", "/v1/facets", None),
    ("POST", "/v1/tools", "/v1/tools", {"tools": [{"name": "", "version": "1"}]}),
    ("POST", "/v1/tools/search", "/v1/tools/search", {"query": "mail"}),
    ("POST", "/v1/tools/search", "/v1/tools/search", {"query": "zeppelin mail", "explain": True}),
    ("POST", "/v1/tools/search", "/v1/tools/search", {"query": "mail", "shape": "full"}),
    ("POST", "/v1/tools/search", "/v1/tools/search", {"query": "mail", "shape": "openai"}),
    ("GET", "/v1/collections", "/v1/collections", None),
    ("POST", "/v1/collections", "/v1/collections", {"collections": [{"name": "a"}]}),
    ("POST", "/v1/documents", "/v1/documents", {"collection": "a", "documents": []}),
    ("DELETE", "/v1/documents", "/v1/documents", {"collection": "faq", "documents": ["x"]}),
    ("POST", "/v1/knowledge/search", "/v1/knowledge/search", {"query": "the door"}),
    ("POST", "/v1/detect", "/v1/detect", {"text": "mail ana@example.org tomorrow"}),
    ("POST", "/v1/route", "/v1/route", {"text": "where is the door, and send a mail"}),
    ("POST", "/v1/route", "/v1/route", {"text": "send a mail", "shape": "openai-namespaces"}),
    ("POST", "/v1/guidance", "/v1/guidance", {"trajectory": [{"type": "prompt", "text": "mail"}]}),
    ("POST", "/v1/alternates", "/v1/alternates", {"failed_tool": "mail/send_mail", "turn": "send"}),
    ("GET", "/v1/decisions", "/v1/decisions", None),
    ("GET", "/v1/quarantine", "/v1/quarantine", None),
    ("GET", "/v1/me", "/v1/me", None),
    ("GET", "/v1/keys", "/v1/keys", None),
    ("POST", "/v1/keys", "/v1/keys", {"name": "ann", "expires_days": 1}),
    ("GET", "/v1/servers", "/v1/servers", None),
    ("GET", "/v1/reports", "/v1/reports", None),
    ("GET", "/v1/outcomes", "/v1/outcomes?limit=5", None),
    ("POST", "/v1/capabilities", "/v1/capabilities", {"text": "draw a chart"}),
    ("GET", "/healthz", "/healthz", None),
    ("GET", "/readyz", "/readyz", None),
]


@pytest.fixture(scope="module")
def client(service):
    with service.client(access="admin", namespaces=("*",)) as client:
        client.headers["Toolcrib-Namespace"] = service.namespace()
        client.post("/v1/tools", json={"tools": TOOLS}).raise_for_status()
        faq = [{"name": "faq.md", "text": "Where is the door? On the left."}]
        sent = {"collection": "faq", "documents": faq}
        client.post("/v1/documents", json=sent).raise_for_status()
        client.post("/v1/route", json={"text": "send a mail"}).raise_for_status()
        yield client


@pytest.mark.slow
@pytest.mark.parametrize(("method", "template", "path", "body"), ASKED)
def test_an_answer_is_what_the_document_says(client, method, template, path, body):
    answer = client.request(method, path, json=body)
    assert answer.status_code == 200, answer.text
    told = DOCUMENT["paths"][template.replace(":path", "")][method.lower()]["responses"]["200"]
    schema = told["content"]["application/json"]["schema"]
    jsonschema.validate(answer.json(), schema | {"components": DOCUMENT["components"]})


def test_every_endpoint_with_an_answer_is_asked():
    asked = {(method, template) for method, template, _, _ in ASKED}
    told = {(each.method, each.path) for each in ENDPOINTS if each.answer is not None}
    # Learning is off here; its answers are looked at in test_learning.
    asked |= {each for each in told if each[1].startswith("/v1/learning")}
    # No question and no gateway are set up here; test_turns, test_activity, test_servers have one.
    asked |= {("POST", "/v1/classify"), ("GET", "/v1/activity"), ("POST", "/v1/servers")}
    assert told - asked == {("GET", "/v1/decisions/{id}")}
