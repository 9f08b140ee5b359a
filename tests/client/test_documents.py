"""Documents into a service and out of it, one call after the other."""

from __future__ import annotations

import pytest

from tests.client.test_indexing import named, played
from toolcrib import Collection, Passage, Scope
from toolcrib.client import parcels
from toolcrib.client.answers import Written
from toolcrib.client.documents import (
    add_collections,
    index_passages,
    list_collections,
    read_documents,
    remove_docs,
)
from toolcrib.client.parcels import packed_passages
from toolcrib.errors import QueryError, UnknownCollectionError
from toolcrib.records import IndexReport

EMPTY = Written(IndexReport())
RULES = Collection(name="rules")
WARDS = Collection(name="wards", sensitivity="pii")


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(parcels, "PART", 2)


def packed(*places):
    """Passages named as `collection/document`, packed."""
    counted = {}
    for place in places:
        collection, document = place.split("/")
        position = counted[place] = counted.get(place, -1) + 1
        counted[place] = position
        yield "", Passage(collection, document, f"{place} {position}", (), position)


def sent(calls):
    return [(call.body["collection"], [p["document"] for p in call.body["passages"]])
            for call in calls]  # fmt: skip


def test_files_are_read_and_divided_here(tmp_path):
    (tmp_path / "a.md").write_text("# Rules\n\nAt most thirty kilograms.\n")
    found, refused = read_documents([tmp_path, tmp_path / "none.md"], "rules")
    ((name, (passage,)),) = found["rules"].items()
    assert name.endswith("/a.md")
    assert passage.body["title"] == ["Rules"]
    assert [each.source for each in refused] == [str(tmp_path / "none.md")]


def test_a_document_is_never_divided_between_requests(small_parts):
    heard = []
    places = ["rules/a", "rules/b", "rules/b", "rules/b", "rules/c", "wards/d"]
    steps = index_passages(packed_passages(packed(*places)), progress=heard.append)
    calls, _ = played(steps, EMPTY, EMPTY, EMPTY, EMPTY)
    assert sent(calls) == [
        ("rules", ["a"]), ("rules", ["b", "b", "b"]), ("rules", ["c"]), ("wards", ["d"]),
    ]  # fmt: skip
    assert [each.done for each in heard] == [0, 1, 4, 5, 6]
    assert heard[-1].total == 6
    assert not any(call.body["prune"] for call in calls)


def test_what_is_pruned_goes_in_one_request(small_parts):
    steps = index_passages(packed_passages(packed(*["rules/a"] * 3, "rules/b")), prune="rules")
    (call,), report = played(steps, Written(IndexReport(removed=("rules/old#0",))))
    assert (call.body["prune"], len(call.body["passages"])) == (True, 4)
    assert report.removed == ("rules/old#0",)


def test_a_collection_of_which_nothing_is_left_is_pruned_too():
    (call,), _ = played(index_passages(packed_passages([]), prune="rules"), EMPTY)
    assert call.body == {"collection": "rules", "passages": [], "prune": True}


def test_nothing_is_pruned_while_anything_is_refused(tmp_path):
    found = read_documents([tmp_path / "none.md"], "rules")
    calls, report = played(index_passages(found, prune="rules"))
    assert calls == []
    assert [each.source for each in report.refused] == [str(tmp_path / "none.md"), "--prune"]


def test_what_cannot_be_a_collection_is_refused_before_anything_is_sent():
    with pytest.raises(QueryError, match="'a b' cannot be the name of a collection"):
        played(index_passages(packed_passages(packed("rules/a", "a b/c"))))


def test_documents_are_removed_by_name():
    (_, call), count = played(remove_docs("rules", ["a.md"]), [(RULES, 7)], 3)
    assert (named([call]), count) == (["DELETE /v1/documents"], 3)
    assert call.body == {"collection": "rules", "documents": ["a.md"]}


def test_a_collection_is_counted_before_it_is_removed():
    calls, count = played(remove_docs("rules"), [(RULES, 7), (WARDS, 1)], None)
    assert named(calls) == ["GET /v1/collections", "DELETE /v1/collections/rules"]
    assert count == 7


@pytest.mark.parametrize(("name", "path"), [("..", "%2E%2E"), ("a.b-c_é", "a.b-c_%C3%A9")])
def test_a_name_of_a_collection_is_no_path_of_its_own(name, path):
    (_, call), _ = played(remove_docs(name), [(Collection(name=name), 1)], None)
    assert call.path == f"/v1/collections/{path}"


@pytest.mark.parametrize("documents", [(), ("a.md",)])
def test_an_unknown_collection_is_told_with_what_is_near(documents):
    with pytest.raises(UnknownCollectionError) as caught:
        played(remove_docs("ruels", documents), [(RULES, 2), (WARDS, 1)])
    assert caught.value.nearest == ("rules",)


def test_a_collection_that_is_gone_when_it_is_to_go_is_gone():
    _, count = played(remove_docs("rules"), [(RULES, 2)], UnknownCollectionError("rules"))
    assert count == 0


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        (None, ["rules", "wards"]),
        (Scope(), ["rules", "wards"]),
        (Scope(collections=frozenset({"wards"})), ["wards"]),
        (Scope(max_sensitivity="internal"), ["rules"]),
        (Scope(collections=frozenset()), []),
    ],
)
def test_collections_are_listed_within_a_scope(scope, names):
    _, found = played(list_collections(scope), [(RULES, 2), (WARDS, 1)])
    assert [each.name for each, _ in found] == names


def test_collections_are_sent_whole():
    call = add_collections([WARDS])
    assert call.body == {"collections": [WARDS.model_dump(mode="json")]}
