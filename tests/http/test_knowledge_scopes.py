"""A key's collections and its ceiling hold for whatever is known."""

from __future__ import annotations

import pytest

TEXTS = {"faq": "Where is the door? On the left.", "secret": "The door's code is in the safe."}


@pytest.fixture
def name(service):
    """A namespace with a public and a sensitive collection."""
    name = service.namespace()
    with service.client(name) as owner:
        described = [{"name": "faq"}, {"name": "secret", "sensitivity": "pii"}]
        owner.post("/v1/collections", json={"collections": described})
        for collection, text in TEXTS.items():
            sent = {"collection": collection, "documents": [{"name": "d.md", "text": text}]}
            assert owner.post("/v1/documents", json=sent).json()["added"] == 1
    return name


@pytest.fixture(params=[{"collections": {"faq"}}, {"max_sensitivity": "internal"}])
def narrow(request, service, name):
    with service.client(name, **request.param) as client:
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
    told = []
    for collection in ("secret", "sceret"):
        sent = {field: "the code of the door", "collections": [collection]}
        answer = narrow.post(path, json=sent)
        told.append((answer.status_code, answer.json()["detail"].replace(collection, "X")))
    assert told[0] == told[1] == (422, "there is no collection 'X'")


def test_unknown_and_forbidden_collections_look_alike(narrow):
    for ask in (
        lambda c: narrow.delete(f"/v1/collections/{c}"),
        lambda c: narrow.request(
            "DELETE", "/v1/documents", json={"collection": c, "documents": ["d.md"]}
        ),
    ):
        told = []
        for collection in ("secret", "sceret"):
            answer = ask(collection)
            assert (answer.status_code, answer.json()["nearest"]) == (404, [])
            told.append(answer.json()["detail"].replace(collection, "X"))
        assert told[0] == told[1]


def test_nothing_is_written_to_a_collection_out_of_scope(narrow, service, name):
    documents = [{"name": "d.md", "text": "Changed."}]
    answer = narrow.post("/v1/documents", json={"collection": "secret", "documents": documents})
    assert answer.status_code == 403
    sent = {"collections": [{"name": "faq", "description": "New."}, {"name": "secret"}]}
    assert narrow.post("/v1/collections", json=sent).status_code == 403
    with service.client(name) as owner:
        kept = {each["name"]: each for each in owner.get("/v1/collections").json()["collections"]}
    assert kept["secret"]["sensitivity"] == "pii"
    assert kept["faq"]["description"] == ""


def test_a_new_collection_out_of_scope_is_refused_in_the_same_words(service, name):
    told = []
    with service.client(name, collections={"faq"}) as client:
        for collection in ("secret", "other"):
            answer = client.post("/v1/documents", json={"collection": collection, "documents": []})
            assert answer.status_code == 403
            told.append(answer.json()["detail"].replace(collection, "X"))
    assert told[0] == told[1]


def test_a_collection_may_not_be_made_more_sensitive_than_the_key_sees(service, name):
    with service.client(name, max_sensitivity="internal") as client:
        sent = {"collections": [{"name": "faq", "sensitivity": "pii"}]}
        assert client.post("/v1/collections", json=sent).status_code == 403
