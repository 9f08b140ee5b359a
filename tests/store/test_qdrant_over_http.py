"""The double of a Qdrant server answers by another server where it is told to."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import httpx

from tests.store.qdrant_over_http import FAULTS, PEERS, fault, running
from tests.store.samples import LAYOUT, dense_leg, point, unit
from toolcrib.store.qdrant_server import ServerStore


def test_a_double_hands_requests_to_the_server_of_the_environment(monkeypatch):
    with running() as real:
        monkeypatch.setenv("QDRANT_DOUBLE_URL", real.url)
        with running() as double, closing(ServerStore.open(double.url, LAYOUT)) as store:
            store.upsert([point("here", dense=unit(1))])
            assert [hit.score for hit in store.search([dense_leg(unit(1))])[0]] == [1.0]
            assert real.client.count("toolcrib").count == 1
            assert double.sent_to("/points") == real.sent_to("/points")


def test_a_double_begins_empty(monkeypatch):
    with running() as real:
        ServerStore.open(real.url, LAYOUT).close()
        monkeypatch.setenv("QDRANT_DOUBLE_URL", real.url)
        with running() as double:
            assert double.client.get_collections().collections == []


def test_the_double_answers_as_a_server_does():
    here = Path(__file__).with_name("qdrant_exchanges.jsonl")
    exchanges = [json.loads(line) for line in here.read_text(encoding="utf-8").splitlines()]
    with running() as double, httpx.Client(base_url=double.url) as client:
        for each in exchanges:
            if double.is_real and each["server"] != "any":
                continue
            PEERS[double.client] = 0 if each["server"] == "one server" else 1
            answer = client.request(each["method"], each["path"], json=each["body"])
            assert answer.status_code == each["status"], (each, answer.text)
            assert _contains(answer.json(), each["answer"]), (each, answer.text)


def _contains(answer: Any, wanted: Any) -> bool:
    """Whether an answer has all that is wanted, wherever it has more."""
    match wanted:
        case dict():
            pairs = cast("dict[str, Any]", wanted).items()
            return all(key in answer and _contains(answer[key], value) for key, value in pairs)
        case list():
            each = cast("list[Any]", wanted)
            return len(answer) == len(each) and all(map(_contains, answer, each))
        case _:
            return answer == wanted


def test_points_of_one_score_come_in_any_order():
    with running() as double, closing(ServerStore.open(double.url, LAYOUT)) as store:
        store.upsert([point(f"t{number}", dense=unit(1)) for number in range(8)])
        orders = {tuple(hit.id for hit in store.search([dense_leg(unit(1))])[0]) for _ in range(20)}
    assert len(orders) > 1
    assert len({frozenset(order) for order in orders}) == 1


def test_a_fault_is_told_in_the_words_of_a_server():
    with running() as double:
        double.misbehave = [fault(name) for name in FAULTS]
        told = [httpx.get(f"{double.url}/cluster") for _ in FAULTS]
    assert [each.status_code for each in told] == [each["status"] for each in FAULTS.values()]
    assert all(
        each["words"].partition("\n")[0] in answer.text
        for each, answer in zip(FAULTS.values(), told, strict=True)
    )
