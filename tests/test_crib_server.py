"""Tools and passages on one Qdrant server: each in a collection of its own."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import WITHOUT_MODELS as SETTINGS
from tests.fork_server import ForkedProcess
from tests.store import parallel_indexer
from tests.store.qdrant_over_http import running
from toolcrib import Collection, Crib, Passage, ToolSpec


@pytest.fixture
def server():
    with running() as found:
        yield found


def made(server):
    """The collections that were made on it."""
    paths = (r.path for r in server.requests if r.method == "PUT")
    return {path.split("/")[2].split(".")[0] for path in paths if path.count("/") == 2}


def test_who_has_tools_alone_gets_no_collection_of_passages(server):
    with Crib.open(server.url, settings=SETTINGS) as crib:
        crib.index_tools(ToolSpec(name="send_mail", description="Send a mail."))
        assert crib.route("send a mail to Ann").tools.tools[0].id == "send_mail"
    assert made(server) == {"toolcrib"}


def test_passages_are_there_for_the_next_one_who_opens_it(server):
    passage = Passage("post", "weight.md", "A parcel weighs thirty kilograms at most.", ("Weight",))
    with Crib.open(server.url, settings=SETTINGS) as crib:
        crib.add_collections(Collection(name="post", description="Rules of the post."))
        assert crib.index_passages([passage]).added == (passage.id,)
    assert made(server) == {"toolcrib", "toolcrib-library"}
    with Crib.open(server.url, settings=SETTINGS) as crib:
        assert crib.knowledge.catalogue.names == ("post",)
        assert [each.id for each in crib.knowledge.passages()] == [passage.id]
        found = crib.find_knowledge("how much may a parcel weigh at most?")
        assert found.collections[0].id == "post"
        assert crib.remove_docs("post", "weight.md") == 1
        assert crib.knowledge.count() == 0


def test_collections_that_several_services_add_at_one_moment_are_all_there(server):
    names = [[f"notes-{own}-{number}" for number in range(5)] for own in range(4)]

    def add(own):
        with Crib.open(server.url, settings=SETTINGS) as crib:
            for name in own:
                crib.add_collections(Collection(name=name, description="Notes."))

    with ThreadPoolExecutor(4) as services:
        list(services.map(add, names))
    with Crib.open(server.url, settings=SETTINGS) as crib:
        assert {*crib.knowledge.catalogue.names} == {name for own in names for name in own}


def test_a_rebuild_loses_nothing_that_services_write_meanwhile(server, monkeypatch):
    monkeypatch.setattr("toolcrib.store.qdrant_server.IN_FLIGHT_WRITES_S", 0.2)
    tools = [ToolSpec(name=f"t{n}", description=f"Does {n}.") for n in range(30)]
    with Crib.open(server.url, settings=SETTINGS) as crib:
        crib.index_tools(*tools)
    acknowledged, removed, stop = set[str](), set[str](), threading.Event()

    def add_and_change():
        with Crib.open(server.url, settings=SETTINGS) as service:
            for number in itertools.takewhile(lambda _: not stop.is_set(), itertools.count()):
                added = ToolSpec(name=f"new-{number}", description="Written meanwhile.")
                changed = ToolSpec(name=f"t{number % 15}", description=f"Changed: {number}.")
                service.index_tools(added, changed)
                acknowledged.add(added.name)

    def remove():
        with Crib.open(server.url, settings=SETTINGS) as service:
            for number in range(15, 30):
                service.remove_tools(f"t{number}")
                removed.add(f"t{number}")

    with ThreadPoolExecutor() as pool:
        services = [pool.submit(each) for each in (add_and_change, remove)]
        try:
            for _ in range(2):
                Crib.open(server.url, settings=SETTINGS, rebuild=True).close()
        finally:
            stop.set()
    for service in services:
        service.result()
    with Crib.open(server.url, settings=SETTINGS) as crib:
        found = {each.id: each for each in crib.list_tools()}
    assert acknowledged
    assert acknowledged <= found.keys()
    assert not removed & found.keys()


@pytest.mark.e2e
def test_processes_that_index_parts_at_one_time_make_the_index_of_one_process(server):
    Crib.open(server.url, settings=SETTINGS).close()
    started = [
        ForkedProcess("tests.store.parallel_indexer", server.url, str(part))
        for part in range(parallel_indexer.PARTS)
    ]
    assert [each.stdout.readline() for each in started] == ["planned\n"] * len(started)
    for each in started:
        each.stdin.write("\n")
        each.stdin.flush()
    assert [each.wait() for each in started] == [0] * len(started)
    for each in started:
        each.close()
    tools = parallel_indexer.tools()
    with running() as other, Crib.open(other.url, settings=SETTINGS) as alone:
        alone.index_tools(tools)
        with Crib.open(server.url, settings=SETTINGS) as together:
            assert together.tools.store.read_meta() == alone.tools.store.read_meta()
            for tool in tools:
                assert ranking(together, tool.name) == ranking(alone, tool.name)


def ranking(crib, query):
    return [(hit.id, hit.score) for hit in crib.find_tools(query.replace("_", " ")).tools]


def test_a_search_sends_three_requests_at_most_and_a_turn_four(server):
    tools = [
        ToolSpec(
            name=f"{verb}_{noun}",
            server="acme",
            description=f"{verb} a {noun} of acme.",
            input_schema={"type": "object", "properties": {f"{noun}_id": {"type": "string"}}},
        )
        for verb in ("list", "find", "make", "change")
        for noun in ("mail", "file", "row", "page", "note", "order", "user", "team", "cart")
    ]
    with Crib.open(server.url, settings=SETTINGS) as crib:
        crib.index_tools(tools)
        for call, most in ((crib.find_tools, 3), (crib.route, 4)):
            call("change a page")
            server.requests.clear()
            call("change the order of a user")
            assert 1 < len(server.requests) <= most
