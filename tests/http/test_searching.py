"""Finding tools over HTTP, in every shape."""

from __future__ import annotations

import pytest

from toolcrib.integrations.formats import FORMATS


def search(client, **sent):
    answer = client.post("/v1/tools/search", json={"query": "send a mail", **sent})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_needs_are_answered_one_by_one(stocked):
    sent = {"needs": ["send a mail", "read a file"], "k": 2}
    answer = stocked.post("/v1/tools/search", json=sent).json()
    assert {hit["id"]: hit["needs"] for hit in answer["tools"]} == {
        "mail/send_mail": [0],
        "files/read_file": [1],
    }
    assert [need["text"] for need in answer["needs"]] == sent["needs"]
    assert len(search(stocked, **sent)["needs"]) == 2


def test_a_step_leaves_out_what_was_called_and_a_history_counts(stocked):
    sent = {"query": None, "task": "send a mail", "called": ["mail/send_mail"]}
    step = search(stocked, **sent)
    assert step["called"] == ["mail/send_mail"]
    assert "mail/send_mail" not in {hit["id"] for hit in step["tools"]}
    assert step["query"] == "send a mail"
    history = [{"role": "user", "content": "read a file"}]
    found = search(stocked, query="do it", history=history, k=1)
    assert found["tools"][0]["id"] == "files/read_file"
    assert "called" not in found


def test_full_hits_bring_their_specification(stocked):
    [hit] = search(stocked, k=1, shape="full")["tools"]
    assert hit["spec"] == stocked.get("/v1/tools/mail/send_mail").json()
    assert hit["rank"] == 1


@pytest.mark.parametrize("shape", sorted(set(FORMATS) - {"json"}))
def test_a_providers_shape_is_its_definitions(stocked, shape):
    found = search(stocked, k=1, shape=shape)
    assert set(found["names"].values()) == {"mail/send_mail"}
    [definition] = found["tools"]
    assert "score" not in definition
    assert found["left_out"] == []


@pytest.mark.parametrize(
    "sent",
    [
        {},
        *({"query": query} for query in ("", " \n", 3)),
        *({"needs": needs} for needs in ([], ["x", " "], ["x"] * 21)),
        *({"query": "x", "k": k} for k in (0, 1001, "5", True)),
        {"query": "x", "history": ["hello"]},
        {"query": "x", "called": "mail/send_mail"},
        {"query": "x", "task": ""},
        {"query": "x", "coverage": 1.5},
        {"query": "x", "gate": "yes"},
        {"query": "x", "shape": "cobol"},
        {"query": "x", "scope": {"sever": ["mail"]}},
        {"query": "x", "where": {"field": "spec", "equals": "a"}},
        {"query": "x", "more": 1},
    ],
)
def test_what_cannot_be_asked_is_refused(tenant, sent):
    answer = tenant.post("/v1/tools/search", json=sent)
    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:toolcrib:problem:query"
