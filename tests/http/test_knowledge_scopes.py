"""A key's collections and its ceiling hold for whatever is known."""

from __future__ import annotations

import pytest

from tests.http.conftest import same_answer

TEXTS = {"faq": "Where is the door? On the left.", "secret": "The door's code is in the safe."}


@pytest.fixture
def owner(tenant):
    """A client of a namespace with a public and a sensitive collection."""
    described = [{"name": "faq"}, {"name": "secret", "sensitivity": "pii"}]
    tenant.post("/v1/collections", json={"collections": described})
    for collection, text in TEXTS.items():
        sent = {"collection": collection, "documents": [{"name": "d.md", "text": text}]}
        assert tenant.post("/v1/documents", json=sent).json()["added"] == 1
    return tenant


@pytest.fixture(params=[{"collections": {"faq"}}, {"max_sensitivity": "internal"}])
def narrow(request, service, owner, namespace):
    with service.client(namespace, **request.param) as client:
        yield client


def test_only_collections_in_scope_are_listed(narrow):
    [each] = narrow.get("/v1/collections").json()["collections"]
    assert (each["name"], each["passages"]) == ("faq", 1)


def test_only_collections_in_scope_are_asked(narrow):
    found = narrow.post("/v1/knowledge/search", json={"query": "the code of the door"}).json()
    assert {hit["id"] for hit in found["collections"]} <= {"faq", "all"}
    assert {hit["collection"] for hit in found["passages"]} == {"faq"}
    decision = narrow.post("/v1/route", json={"text": "what is the code of the door?"}).json()
    assert "secret" not in str(decision["knowledge"])


def test_a_scope_that_is_asked_for_never_widens(narrow):
    sent = {"query": "the code of the door", "scope": {"collections": ["secret"]}}
    assert narrow.post("/v1/knowledge/search", json=sent).json()["passages"] == []


@pytest.mark.parametrize(
    ("path", "field"), [("/v1/knowledge/search", "query"), ("/v1/route", "text")]
)
def test_a_collection_that_is_out_of_scope_is_asked_like_none(narrow, path, field):
    def ask(collection):
        sent = {field: "the code of the door", "collections": [collection]}
        return narrow.post(path, json=sent)

    answer = same_answer(ask, "secret", "sceret")
    assert answer.status_code == 422
    assert answer.json()["detail"] == "there is no collection 'secret'"


def test_unknown_and_forbidden_collections_look_alike(narrow):
    def remove_document(collection):
        sent = {"collection": collection, "documents": ["d.md"]}
        return narrow.request("DELETE", "/v1/documents", json=sent)

    for ask in (lambda name: narrow.delete(f"/v1/collections/{name}"), remove_document):
        answer = same_answer(ask, "secret", "sceret")
        assert (answer.status_code, answer.json()["nearest"]) == (404, [])


def test_nothing_is_written_to_a_collection_out_of_scope(narrow, owner):
    documents = [{"name": "d.md", "text": "Changed."}]
    answer = narrow.post("/v1/documents", json={"collection": "secret", "documents": documents})
    assert answer.status_code == 403
    sent = {"collections": [{"name": "faq", "description": "New."}, {"name": "secret"}]}
    assert narrow.post("/v1/collections", json=sent).status_code == 403
    kept = {each["name"]: each for each in owner.get("/v1/collections").json()["collections"]}
    assert kept["secret"]["sensitivity"] == "pii"
    assert kept["faq"]["description"] == ""


def test_a_new_collection_out_of_scope_is_refused_in_the_same_words(service, owner, namespace):
    with service.client(namespace, collections={"faq"}) as client:
        answer = same_answer(
            lambda name: client.post("/v1/documents", json={"collection": name, "documents": []}),
            "secret",
            "other",
        )
    assert answer.status_code == 403


def test_a_collection_may_not_be_made_more_sensitive_than_the_key_sees(service, owner, namespace):
    with service.client(namespace, max_sensitivity="internal") as client:
        sent = {"collections": [{"name": "faq", "sensitivity": "pii"}]}
        assert client.post("/v1/collections", json=sent).status_code == 403
