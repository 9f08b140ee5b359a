"""What goes over the socket to a Qdrant server."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from tests.store.qdrant_over_http import Reply
from tests.store.samples import (
    LAYOUT,
    a_full_point,
    dense_leg,
    multi_leg,
    point,
    sparse,
    sparse_leg,
    unit,
)
from toolcrib.errors import StoreError
from toolcrib.store.base import point_id
from toolcrib.store.filters import KEYWORD_FIELDS, NUMBER_FIELDS, TENANT_FIELD, YIELDS_FIELD, Equals
from toolcrib.store.namespaced import NamespacedStore
from toolcrib.store.qdrant_client import connect
from toolcrib.store.qdrant_server import CollectionPlan, ServerStore


def test_a_new_collection_is_made_for_the_layout(server):
    ServerStore.open(server.url, LAYOUT, plan=CollectionPlan(3, 2)).close()
    made = next(r for r in server.requests if r.method == "PUT")
    assert made.path == "/collections/toolcrib.g0001"
    assert made.body == {
        "vectors": {
            "description": {
                "size": 8,
                "distance": "Cosine",
                "quantization_config": {"scalar": {"type": "int8", "always_ram": True}},
            },
            "examples": {
                "size": 8,
                "distance": "Cosine",
                "multivector_config": {"comparator": "max_sim"},
            },
        },
        "sparse_vectors": {"lexical": {"modifier": "idf"}},
        "shard_number": 3,
        "replication_factor": 2,
        "metadata": {"toolcrib": "{}"},
    }
    (alias,) = server.sent_to("/collections/aliases")
    assert alias["actions"] == [
        {"create_alias": {"collection_name": "toolcrib.g0001", "alias_name": "toolcrib"}}
    ]


def test_every_field_that_is_filtered_by_gets_an_index(server):
    ServerStore.open(server.url, LAYOUT).close()
    made = [r for r in server.requests if r.path.endswith("/index")]
    kinds = {request.body["field_name"]: request.body["field_schema"] for request in made}
    assert kinds == {
        **dict.fromkeys((*KEYWORD_FIELDS, YIELDS_FIELD), "keyword"),
        **dict.fromkeys(NUMBER_FIELDS, "float"),
        TENANT_FIELD: {"type": "keyword", "is_tenant": True},
    }
    assert all(request.query["wait"] == ["true"] for request in made)


def test_an_upsert_waits_and_carries_every_kind_of_vector(wired):
    wired.store.upsert([a_full_point(category="日本")])
    (request,) = wired.server.requests
    assert (request.method, request.path) == ("PUT", "/collections/toolcrib/points")
    assert request.query["wait"] == ["true"]
    (sent,) = request.body["points"]
    assert sent == {
        "id": point_id("full"),
        "payload": {"name": "full", "category": "日本"},
        "vector": {
            "description": [1.0] + [0.0] * 7,
            "examples": [[1.0] + [0.0] * 7, [0.0, 1.0] + [0.0] * 6],
            "lexical": {"indices": [1, 2], "values": [1.0, 0.5]},
        },
    }


def test_a_large_upsert_is_cut_into_bounded_requests(wired):
    wired.store.upsert([point(f"t{n}", dense=unit(1)) for n in range(600)])
    assert [len(body["points"]) for body in wired.server.sent_to("/points")] == [256, 256, 88]
    wired.server.requests.clear()
    long = "x" * 1_500_000
    wired.store.upsert([point(f"t{n}", category=long) for n in range(5)])
    sizes = [len(json.dumps(body)) for body in wired.server.sent_to("/points")]
    assert len(sizes) == 3
    assert max(sizes) < 4.5 * 2**20


def test_a_search_is_one_request_with_the_filter_in_every_query(wired):
    acme = Equals("server", "acme")
    wired.store.search(
        [
            dense_leg(unit(1), 5, where=acme, idf_corpus=acme),
            multi_leg(unit(1), 6, where=acme, idf_corpus=acme),
            sparse_leg({1: 1.0}, 7, where=acme, idf_corpus=acme),
        ]
    )
    (request,) = wired.server.requests
    assert request.path == "/collections/toolcrib/points/query/batch"
    dense, multi, lexical = request.body["searches"]
    condition = {"must": [{"key": "server", "match": {"value": "acme"}}]}
    for search, limit in ((dense, 5), (multi, 6), (lexical, 7)):
        bare = {"with_payload": False, "with_vector": False}
        assert search.items() >= {"filter": condition, "limit": limit, **bare}.items()
    assert dense["query"] == {"nearest": [1.0] + [0.0] * 7}
    assert dense["params"]["quantization"] == {"rescore": True, "oversampling": 2.0}
    assert multi["query"] == {"nearest": [[1.0] + [0.0] * 7]}
    assert lexical["query"] == {"nearest": {"indices": [1], "values": [1.0]}}
    assert lexical["params"]["idf"] == {"corpus": condition}


def test_what_cannot_match_is_not_asked(wired):
    assert wired.store.search([dense_leg(unit(1), 0), sparse_leg({})]) == [[], []]
    assert wired.server.requests == []


def test_scroll_follows_the_pages(wired):
    wired.store.upsert([point(f"t{n}") for n in range(1100)])
    wired.server.requests.clear()
    assert len(list(wired.store.scroll(fields=["name"]))) == 1101
    bodies = wired.server.sent_to("/points/scroll")
    assert [body["limit"] for body in bodies] == [500, 500, 500]
    assert all(body["with_payload"] == ["name"] for body in bodies)
    assert "offset" not in bodies[0]
    assert bodies[1]["offset"] < bodies[2]["offset"]


def test_each_entry_of_the_meta_document_is_a_key_that_the_server_merges(wired):
    wired.store.write_meta({"model": "é", "old": None})
    (request,) = wired.server.requests
    assert (request.method, request.path) == ("PATCH", "/collections/toolcrib")
    assert request.body["metadata"] == {"toolcrib/model": '"\\u00e9"', "toolcrib/old": None}


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection:UserWarning")
def test_the_api_key_goes_with_every_request_and_into_no_message(server):
    with closing(ServerStore.open(server.url, LAYOUT, api_key="s3cret")) as store:
        assert {request.headers.get("api-key") for request in server.requests} == {"s3cret"}
        server.misbehave.append(Reply(401, "Must provide an API key"))
        with pytest.raises(StoreError) as refused:
            store.count()
    assert "s3cret" not in str(refused.value)


def test_an_index_that_is_built_anew_is_kept_as_before_but_for_what_is_said(server):
    plan = CollectionPlan(on_disk=True, quantization="none")
    with closing(ServerStore.open(server.url, LAYOUT, plan=plan)) as store:
        assert (store.plan().on_disk, store.plan().quantization) == (True, "none")
    with closing(ServerStore.open(server.url, LAYOUT, plan=CollectionPlan(shards=6))) as store:
        with store.renew(LAYOUT):
            pass
        assert (store.plan().on_disk, store.plan().quantization) == (True, "none")
    (made,) = [r.body for r in server.requests if r.path.endswith(".g0002") and r.method == "PUT"]
    assert made["shard_number"] == 6
    assert made["hnsw_config"] == {"on_disk": True}
    assert made["sparse_vectors"]["lexical"]["index"] == {"on_disk": True}


def test_a_tenants_points_are_asked_for_in_its_shard_and_in_the_shared_one_without(server):
    plan = CollectionPlan(tenant_shards=("acme",))
    with closing(ServerStore.open(server.url, LAYOUT, plan=plan)) as store:
        made = next(r.body for r in server.requests if r.path.endswith(".g0001"))
        assert made["sharding_method"] == "custom"
        keys = [
            (r.body["shard_key"], r.body.get("shards_number"))
            for r in server.requests
            if (r.method, r.path) == ("PUT", "/collections/toolcrib.g0001/shards")
        ]
        assert keys == [("SHARED", 1), ("acme", None)]
        server.requests.clear()
        ours = NamespacedStore(store, "zoo")
        ours.upsert([a_full_point()])
        ours.set_sparse("lexical", {point_id("full"): sparse({1: 2.0})})
        assert len(ours.search([dense_leg(unit(1), 5)])[0]) == 1
        assert len(ours.retrieve([point_id("full")])) == 1
        assert ours.vectors([point_id("full")], "description")
        ours.write_meta({"model": "a"})
        ours.clear()
        asked = [
            part
            for r in server.requests
            if "/points" in r.path
            for part in r.body.get("searches", [r.body])
        ]
        assert {json.dumps(part.get("shard_key")) for part in asked} == {
            json.dumps({"target": target, "fallback": "SHARED"})
            # The server may have moved a tenant: what it left behind is cleared, too.
            for target in ("zoo", ":meta")
        }
        with store.renew(LAYOUT):
            pass
        assert store.plan().tenant_shards == ("acme",)


def test_shards_that_another_process_makes_meanwhile_are_taken_and_each_is_made_once(
    monkeypatch, server
):
    plan = CollectionPlan(tenant_shards=("acme",))
    with closing(ServerStore.open(server.url, LAYOUT, plan=plan)) as store:
        late = connect(server.url, None, 10)
        known, seen = late.shard_keys, iter([frozenset[str]()])
        monkeypatch.setattr(late, "shard_keys", lambda name: next(seen, None) or known(name))
        late.make_shards("toolcrib", "SHARED", ("acme", "zoo", "zoo", "SHARED"))
        late.close()
        assert store.plan().tenant_shards == ("acme", "zoo")
