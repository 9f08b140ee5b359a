"""`toolcrib store init` makes the collections of a server to a plan."""

from __future__ import annotations

import pytest

from tests.store.qdrant_over_http import running


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
