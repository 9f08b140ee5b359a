"""`toolcrib store`: the collections of a server, and the namespaces of any store."""

from __future__ import annotations

import pytest

from tests.store.qdrant_over_http import running
from toolcrib import Settings, ToolSpec
from toolcrib.settings import EncoderSettings
from toolcrib.tenants import Tenants

SETTINGS = Settings(encoder=EncoderSettings(dense="deterministic"))


def test_it_makes_what_is_missing_and_refuses_to_change_what_is_there(shell):
    with running() as server:
        where = ("--store", server.url)
        asked = ("--shards", "6", "--replicas", "2", "--on-disk", "--quantization", "none")
        done = shell("store", "init", *asked, *where)
        made = [r for r in server.requests if r.method == "PUT" and r.path.endswith(".g0001")]
        assert [r.path.removeprefix("/collections/") for r in made] == [
            "toolcrib.g0001",
            "toolcrib-library.g0001",
            "toolcrib-tenants.g0001",
            "toolcrib-tenants-library.g0001",
        ]
        assert {(r.body["shard_number"], r.body["replication_factor"]) for r in made} == {(6, 2)}
        assert made[0].body["vectors"]["dense"]["on_disk"]
        assert made[0].body["vectors"]["dense"].get("quantization_config") is None
        assert done.returncode == 0


@pytest.mark.slow
def test_it_says_how_the_collections_are_kept(shell):
    with running() as server:
        found = shell.json("store", "init", "--quantization", "int8", "--store", server.url)
        assert [each["quantization"] for each in found["collections"]] == ["int8"] * 4
        again = shell("store", "init", "--quantization", "none", "--store", server.url)
        assert again.returncode != 0
        assert "index --rebuild" in again.stderr


def test_a_refused_plan_makes_no_collection(shell):
    tools = shell.write("tools.jsonl", {"name": "send_mail", "server": "mail"})
    with running() as server:
        assert shell("index", tools, "--store", server.url).returncode == 0
        done = shell("store", "init", "--on-disk", "--store", server.url)
        assert "'toolcrib' exists already, with on_disk" in done.stderr.replace("\n", " ")
        made = [r.path for r in server.requests if r.method == "PUT" and r.path.endswith(".g0001")]
        assert made == ["/collections/toolcrib.g0001"]


@pytest.mark.slow
def test_namespaces_get_shards_of_their_own_and_the_default_one_none(shell):
    with running() as server:
        asked = ("--tenant-shard", "zoo", "--tenant-shard", "acme", "--store", server.url)
        for _ in range(2):
            found = shell.json("store", "init", *asked)
            shards = [each["tenant_shards"] for each in found["collections"]]
            assert shards == [None, None, ["acme", "zoo"], ["acme", "zoo"]]
        other = shell("store", "init", "--tenant-shard", "acme", "--store", server.url)
        assert "exists already, with tenant_shards ('acme', 'zoo')" in other.stderr


@pytest.mark.parametrize(
    ("name", "why"), [("Acme", "is no namespace"), ("default", "has its own collections")]
)
def test_what_can_be_no_namespace_with_a_shard_gets_none(shell, name, why):
    with running() as server:
        stderr = shell.error("store", "init", "--tenant-shard", name, "--store", server.url)
        assert f"server.tenant_shards: {name!r}" in stderr.replace("\n", " ")
        assert why in stderr
        assert not any(request.method == "PUT" for request in server.requests)


def test_a_folder_needs_none_of_it(shell):
    assert "is a folder" in shell.error("store", "init", "--store", "here")


def test_a_namespace_is_listed_and_removed_with_its_keys_and_all_it_holds(shell, tmp_path):
    rules = tmp_path / "rules.md"
    rules.write_text("No dogs.")
    store = ("--store", str(tmp_path / "store"))
    with Tenants.open(store[1], settings=SETTINGS) as tenants:
        for name, tools in ("default", 1), ("acme", 2), ("bolt", 3):
            crib = tenants.crib(name)
            crib.index_tools(ToolSpec(name=f"{name}_{number}") for number in range(tools))
        tenants.crib("acme").index_docs(rules, collection="rules")
        tenants.crib("acme").route("are dogs allowed?")
    for namespaces in "--namespace acme", "--namespace acme --namespace bolt", "--namespace bolt":
        shell("keys", "create", "ann", *namespaces.split(), *store)
    listed = shell.json("store", "namespaces", *store)["namespaces"]
    assert [tuple(each.values()) for each in listed] == [
        ("default", 1, 0),
        ("acme", 2, 1),
        ("bolt", 3, 0),
    ]
    assert len(shell.json("store", "remove", "acme", *store)["revoked"]) == 1
    listed = shell.json("store", "namespaces", *store)["namespaces"]
    assert [each["namespace"] for each in listed] == ["default", "bolt"]
    keys = shell.json("keys", "list", *store)["keys"]
    assert [key["state"] for key in keys] == ["revoked", "active", "active"]
    with Tenants.open(store[1], settings=SETTINGS) as tenants:
        assert not any("acme" in table for table in tenants.records_db.tables())


def test_a_namespace_that_is_not_there_and_the_default_one_are_not_removed(shell, tmp_path):
    store = ("--store", str(tmp_path))
    with Tenants.open(tmp_path, settings=SETTINGS) as tenants:
        tenants.crib("acme").index_tools([ToolSpec(name="send")])
    assert "'acme'" in shell.error("store", "remove", "acmee", *store)
    assert "default namespace" in shell.error("store", "remove", "default", *store)
