"""A service that is killed in the middle of writes: whatever it acknowledged is there again."""

from __future__ import annotations

import random
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import httpx2

from tests.faults.processes import client_of, make_key, pages, until
from tests.fork_server import ForkedProcess

ROUNDS = 2
NAMESPACES = ("default", "other")
GONE = "removed"
PATIENT = {"SERVICE__TIMEOUT_S": 120}
"""A document may be converted for half of that: a busy machine refuses none."""


class Books:
    """What may be true of everything written: one state once acknowledged, two before."""

    def __init__(self):
        self.states = defaultdict(set)
        self.acknowledged = 0

    def write(self, thing, state, send):
        """Send a write; raises where no answer came."""
        self.states[thing] = (self.states[thing] or {GONE}) | {state}
        answer = send()
        assert answer.status_code in {200, 204}, answer.text
        assert answer.status_code == 204 or not answer.json().get("refused")
        self.states[thing] = {state}
        self.acknowledged += 1

    def settled(self, kind, namespace):
        """Name and state of what was acknowledged, and is therefore known for sure."""
        return {
            name: next(iter(states))
            for (what, where, name), states in self.states.items()
            if (what, where) == (kind, namespace) and len(states) == 1
        }


def tool(name, state):
    return {"name": name, "description": f"Reads the bolt {name}: {state}."}


def write_tools(client, namespace, books, run, dice):
    for number in range(10_000):
        name = f"bolt{run}x{number}"
        if number % 5 == 4:
            name = f"bolt{run}x{dice.randrange(number)}"
        thing = ("tool", namespace, name)
        if number % 7 == 6 and GONE not in books.states[thing] and books.states[thing]:
            books.write(thing, GONE, partial(client.delete, f"/v1/tools/{name}"))
        else:
            body = {"tools": [tool(name, f"write{number}")]}
            send = partial(client.post, "/v1/tools", json=body)
            books.write(thing, f"write{number}", send)


def write_documents(client, namespace, books, run, dice):
    for number in range(10_000):
        name = f"page{run}x{number}.md"
        if number % 4 == 3:
            name = f"page{run}x{dice.randrange(number)}.md"
        text = f"# Page {number}\n\nThe word of {name} is quux{run}x{number}."
        body = {"collection": "handbook", "documents": [{"name": name, "text": text}]}
        thing = ("document", namespace, name)
        books.write(thing, text, partial(client.post, "/v1/documents", json=body))


def write_feedback(client, namespace, books, run, dice):
    for number in range(10_000):
        decision = client.post("/v1/route", json={"text": f"turn bolt {number}"}).json()["id"]
        said = {"decision_id": decision, "intent": f"intent{run}x{number}"}
        thing = ("feedback", namespace, decision)
        books.write(thing, said["intent"], partial(client.post, "/v1/feedback", json=said))


WRITERS = (write_tools, write_documents, write_feedback)


def until_cut_off(write, *given):
    with suppress(httpx2.TransportError):
        write(*given)


def write_and_kill(service, store, key, books, run, dice):
    """Let all write at once to both namespaces, and kill the service at a moment by chance."""
    clients = [service.client(key, namespace) for namespace in NAMESPACES]
    maker = ForkedProcess("tests.faults.key_maker", str(store))
    before = books.acknowledged
    with ThreadPoolExecutor(len(NAMESPACES) * len(WRITERS)) as pool:
        for client, namespace in zip(clients, NAMESPACES, strict=True):
            for write in WRITERS:
                own = random.Random(dice.random())
                pool.submit(until_cut_off, write, client, namespace, books, run, own)
        first = maker.stdout.readline()
        enough = before + dice.randrange(20, 150)
        until(lambda: books.acknowledged >= enough, "writes that are acknowledged")
        service.kill()
    maker.kill()
    keys = [first, *maker.stdout]
    maker.close()
    for client in clients:
        client.close()
    return [text[:-1] for text in keys if text.endswith("\n")]


def require_tools(client, namespace, books, dice):
    listed = [each for page in pages(client, "/v1/tools", limit=100) for each in page["tools"]]
    held = {each["id"]: each["description"] for each in listed}
    expected = books.settled("tool", namespace)
    assert {
        name: state
        for name, state in expected.items()
        if held.get(name) != (None if state == GONE else tool(name, state)["description"])
    } == {}
    for name, text in held.items():
        states = books.states["tool", namespace, name]
        assert text in {tool(name, state)["description"] for state in states}, name
    there = sorted(name for name, state in expected.items() if state != GONE)
    for name in dice.sample(there, min(3, len(there))):
        found = client.post("/v1/tools/search", json={"query": f"the bolt of {name}", "k": 3})
        assert name in {hit["id"] for hit in found.json()["tools"]}


def require_documents(client, namespace, books, dice):
    expected = books.settled("document", namespace)
    sent = [{"name": name, "text": text} for name, text in expected.items()]
    again = client.post("/v1/documents", json={"collection": "handbook", "documents": sent}).json()
    assert (again["added"], again["changed"], again["refused"]) == (0, 0, [])
    assert again["unchanged"] == len(expected)
    for name in dice.sample(sorted(expected), min(3, len(expected))):
        found = client.post("/v1/knowledge/search", json={"query": expected[name]})
        assert name in {hit["source"] for hit in found.json()["passages"]}


def require_feedback(client, namespace, books, dice):
    for decision, intent in books.settled("feedback", namespace).items():
        record = client.get(f"/v1/decisions/{decision}")
        assert record.status_code == 200, f"feedback was taken for {decision}, which is gone"
        assert [said["intent"] for said in record.json()["feedback"]] == [intent]


def test_killed_at_any_moment_it_keeps_every_write_that_a_caller_saw_acknowledged(serve, tmp_path):
    dice = random.Random(7)
    store, books, keys = tmp_path / "store", Books(), []
    key = make_key(store)
    service = serve(store, PATIENT)
    for run in range(ROUNDS):
        keys += write_and_kill(service, store, key, books, run, dice)
        service = serve(store, PATIENT)
        assert service.ready().status_code == 200
        for namespace in NAMESPACES:
            with service.client(key, namespace) as client:
                require_tools(client, namespace, books, dice)
                require_documents(client, namespace, books, dice)
                require_feedback(client, namespace, books, dice)
        for text in dice.sample(keys, min(5, len(keys))):
            with client_of(service.url, text) as client:
                assert client.get("/v1/me").status_code == 200
    kinds = {what for what, _, _ in books.states}
    assert kinds == {"tool", "document", "feedback"}
    assert service.stop() == 0
