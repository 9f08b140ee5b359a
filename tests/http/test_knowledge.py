"""Collections and documents over HTTP."""

from __future__ import annotations

import base64

import pytest

from toolcrib.http.routes.knowledge import PassageBody
from toolcrib.records import Collection

HOLIDAYS = "# Holidays\n\nEverybody has thirty days of holidays a year.\n"
HANDBOOK = {
    "name": "handbook",
    "description": "How we work.",
    "examples": ["how many holidays do I have"],
    "answers": [["work", "question"]],
    "sensitivity": "internal",
    "priority": 0.5,
    "fallback": True,
}


def put(client, *documents, **more):
    sent = {"collection": "handbook", "documents": list(documents), **more}
    answer = client.post("/v1/documents", json=sent)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_collections_are_described_and_listed(tenant):
    answer = tenant.post("/v1/collections", json={"collections": [HANDBOOK, {"name": "a"}]})
    plain = Collection(name="a").model_dump(mode="json")
    assert answer.json() == {"collections": [{**plain, "passages": 0}, {**HANDBOOK, "passages": 0}]}
    assert tenant.get("/v1/collections").json() == answer.json()


def test_files_are_sent_as_their_bytes(tenant):
    page = base64.b64encode(b"<h1>Head</h1><p>Words of a page.</p>").decode()
    assert put(tenant, {"name": "page.html", "base64": page})["added"] == 1


def test_what_cannot_be_read_is_refused_and_keeps_nothing_out(tenant):
    unreadable = [{"name": name, "base64": "AAAA"} for name in ("what.bin", "broken.pdf")]
    sent = {"name": "ok.md", "text": HOLIDAYS}, {"name": "empty.md", "text": ""}, *unreadable
    report = put(tenant, *sent)
    assert report["added"] == 1
    assert [each["source"] for each in report["refused"]] == [each["name"] for each in sent[1:]]


def test_two_documents_of_one_name_are_not_mixed(tenant):
    longer = {"name": "a.md", "text": f"{HOLIDAYS}\n## Sick leave\n\nCall before nine.\n"}
    report = put(tenant, {"name": "a.md", "text": HOLIDAYS}, longer)
    assert (report["added"], [each["source"] for each in report["refused"]]) == (1, ["a.md"])
    assert put(tenant, longer, longer)["refused"] == []


def test_passages_are_as_long_as_the_settings_say(start):
    long = {"name": "long.txt", "text": " ".join(f"word{number}" for number in range(100))}
    with start(more={"documents": {"max_tokens": 20}}) as service, service.client() as client:
        assert put(client, long)["added"] > 5


def test_a_text_is_one_whatever_it_is_named(tenant):
    assert put(tenant, {"name": "notes", "text": "Plain words."})["added"] == 1
    assert put(tenant, {"name": "scan.pdf", "text": "Plain words too."})["added"] == 1


@pytest.mark.parametrize(
    "sent",
    [
        {"collection": "a b", "documents": []},
        {"collection": "a\n", "documents": []},
        {"collection": "a"},
        {"collection": "a", "documents": [], "passages": []},
        {"collection": "a", "documents": {"name": "x", "text": ""}},
        {"collection": "a", "documents": [], "prun": True},
    ],
)
def test_a_body_without_one_list_for_one_collection_is_refused(tenant, sent):
    assert tenant.post("/v1/documents", json=sent).status_code == 422


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": "x"}, "base64"),
        ({"name": "x", "text": "", "base64": ""}, "base64"),
        ({"name": " ", "text": ""}, "name"),
        ({"name": "x.md", "base64": "a"}, "base64"),
        ({"name": "x.md", "base64": "AAA=\n"}, "base64"),
        ({"name": "x.md", "text": "", "txt": ""}, "txt"),
        ("/etc/passwd", "be an object"),
    ],
)
def test_an_invalid_document_keeps_no_valid_one_out(tenant, wrong, field):
    report = put(tenant, wrong, {"name": "ok.md", "text": HOLIDAYS})
    [refusal] = report["refused"]
    assert (report["added"], refusal["place"]) == (1, "[0]")
    assert field in refusal["reason"]
    assert not refusal["reason"].startswith("it:")


def test_an_invalid_passage_keeps_no_valid_one_out_and_nothing_is_pruned(tenant):
    put(tenant, {"name": "old.md", "text": HOLIDAYS})
    passages = [{"document": "d", "text": "t"}, {"document": "d", "text": "t", "position": -1}]
    sent = {"collection": "handbook", "passages": passages, "prune": True}
    report = tenant.post("/v1/documents", json=sent).json()
    assert (report["added"], report["removed"]) == (1, 0)
    assert [each["place"] for each in report["refused"]] == ["[1]", ""]
    assert "position" in report["refused"][0]["reason"]


@pytest.mark.parametrize("query", ["", "  ", "?!", 3, None])
def test_a_question_has_words(tenant, query):
    assert tenant.post("/v1/knowledge/search", json={"query": query}).status_code == 422


@pytest.mark.parametrize(
    ("path", "sent", "reads"),
    [
        ("collections", {"collections": [{"name": "a"}]}, (Collection, "model_validate")),
        (
            "documents",
            {"collection": "a", "passages": [{"document": "d", "text": "t"}]},
            (PassageBody, "as_passage"),
        ),
    ],
)
def test_long_bodies_are_read_beside_the_event_loop(tenant, loops_of, path, sent, reads):
    loops = loops_of(*reads)
    assert tenant.post(f"/v1/{path}", json=sent).status_code == 200
    assert set(loops) == {None}
