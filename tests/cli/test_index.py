"""`toolcrib index`: shards of a source on several machines make the index of one run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.cli.conftest import ENV
from tests.fork_server import ForkedProcess
from tests.store.qdrant_over_http import LocalQdrant, running
from toolcrib.indexers.sync import LEXICAL_META_PREFIX

VERBS = ("send", "read", "list", "move", "mark", "find")
TOOLS = [
    {"name": f"acme_{verb}", "description": f"Can {verb} a letter.", "server": "acme"}
    for verb in VERBS
] + [{"name": f"{verb}_parcel", "server": "post"} for verb in VERBS]


@pytest.fixture
def servers() -> Iterator[tuple[LocalQdrant, LocalQdrant]]:
    with running() as one, running() as other:
        yield one, other


def content(server: LocalQdrant) -> tuple[dict[Any, Any], Any]:
    """Payload and vectors of every tool by id, and the prefixes that the index keeps."""
    records, _ = server.client.scroll("toolcrib", limit=1_000, with_vectors=True)
    described = server.client.get_collection("toolcrib").config.metadata or {}
    kept = {
        key: text
        for key, text in described.items()
        if key.startswith(f"toolcrib/{LEXICAL_META_PREFIX}")
    }
    return {each.id: (each.payload, each.vector) for each in records}, kept


@pytest.mark.slow
def test_shards_indexed_at_one_time_make_the_index_of_one_run(shell, servers):
    alone, shared = servers
    shell("store", "init", "--store", shared.url)
    shards = [shell.write(f"tools-{n}.jsonl", *TOOLS[n::2]) for n in range(2)]
    shell.json("index", shell.write("tools.jsonl", *TOOLS), "--store", alone.url)
    env = {**os.environ, **ENV}
    with ExitStack() as stack:
        machines = [
            ForkedProcess(
                "toolcrib", "index", shard, "--store", shared.url, cwd=shell.folder, env=env
            )
            for shard in shards
        ]
        for machine in machines:
            stack.callback(machine.close)
        assert [machine.wait() for machine in machines] == [0, 0]
    report = shell.json("index", *shards, "--store", shared.url)
    assert report["unchanged"] == len(TOOLS)
    assert content(shared) == content(alone)
    assert len(content(alone)[1]) == 1


@pytest.mark.slow
def test_shards_of_documents_need_no_last_run(shell, servers):
    for number in range(4):
        folder = shell.folder / f"part-{number % 2}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.md").write_text(f"# Leave {number}\n\nThirty days of leave.\n")
    runs = [("part-0", "part-1")], [("part-0",), ("part-1",)]
    found: list[Any] = []
    for server, shards in zip(servers, runs, strict=True):
        for shard in shards:
            shell.json("index-docs", *shard, "--collection", "leave", "--store", server.url)
        records, _ = server.client.scroll("toolcrib-library", limit=1_000, with_vectors=True)
        found.append({each.id: (each.payload, each.vector) for each in records})
    assert found[0] == found[1]
    assert len(found[0]) == 4


def test_a_tilde_in_the_store_is_the_home_folder(shell):
    tools = shell.write("tools.jsonl", {"name": "send_mail", "server": "mail"})
    done = shell("index", tools, "--store=~/index", HOME=str(shell.folder))
    assert done.returncode == 0
    assert (shell.folder / "index").is_dir()
    assert "mail/send_mail" in shell("list", "--store=~/index", HOME=str(shell.folder)).stdout
