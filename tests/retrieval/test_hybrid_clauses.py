"""Who asks for two things in one breath gets both, and who asks for one notices nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import pytest

from tests.retrieval.conftest import MODEL_FREE
from tests.retrieval.conftest import TOOLS as MODEL_FREE_TOOLS
from toolcrib import Crib, Settings, ToolSpec
from toolcrib.build import make_dense
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.errors import EncoderError
from toolcrib.store.base import Store

TOOLS = {
    "set_thermostat": "Set the temperature of a room.",
    "send_mail": "Send an e-mail to one or more people.",
    "transfer_money": "Pay an invoice by bank transfer.",
    "book_train": "Buy a railway ticket between two cities.",
    "request_leave": "Book holidays for an employee.",
    "resize_picture": "Resize a picture to a width and height in pixels.",
    "translate": "Turn a text from one language into another.",
    "water_garden": "Water the garden for some minutes.",
    "play_music": "Play a song or an album in a room.",
    "order_food": "Order a meal from a restaurant.",
}
ASKED = {
    "set_thermostat": "make the bedroom warmer",
    "transfer_money": "settle the plumber's bill",
    "book_train": "get me from Hamburg to Rome by rail",
    "request_leave": "ask for the first week of May off",
    "resize_picture": "make the photo half as big",
    "play_music": "put on some jazz",
}
JAZZ_AND_BILL = "put on some jazz, then settle the plumber's bill"


def with_share(settings: Settings, clauses: float) -> Settings:
    fusion = replace(settings.fusion, clauses=clauses)
    return settings.model_copy(update={"fusion": fusion})


@pytest.fixture(scope="module")
def crib() -> Iterator[Crib]:
    with Crib.open(":memory:", settings=with_share(Settings(), 1.0)) as opened:
        opened.index_tools([ToolSpec(name=name, description=d) for name, d in TOOLS.items()])
        yield opened


@pytest.fixture(scope="module")
def blurred(crib: Crib) -> Crib:
    """The same index, asked by whole queries only."""
    settings = with_share(Settings(), 0.0)
    return Crib.over(crib.tools.store, make_dense(settings), settings)


def ranking(crib: Crib, query: str) -> list[str]:
    return [hit.id for hit in crib.find_tools(query, k=len(TOOLS), gate=False).tools]


def contributions(crib: Crib, query: str) -> list[dict[str, float]]:
    found = crib.find_tools(query, k=len(TOOLS), gate=False, explain=True)
    return [hit.legs for hit in found.tools]


def test_both_of_two_things_asked_for_come_first(crib: Crib, blurred: Crib) -> None:
    wanted = {"play_music", "transfer_money"}
    assert set(ranking(crib, JAZZ_AND_BILL)[:2]) == wanted
    assert set(ranking(blurred, JAZZ_AND_BILL)[:2]) != wanted


def test_of_many_queries_for_two_things_more_find_both_first(crib: Crib, blurred: Crib) -> None:
    asked = {(a, b): f"{ASKED[a]}, then {ASKED[b]}" for a, b in permutations(ASKED, 2)}
    clear, plain = (
        sum(set(ranking(one, query)[:2]) == set(wanted) for wanted, query in asked.items())
        for one in (crib, blurred)
    )
    assert clear > 1.2 * plain > 0


def test_a_query_for_one_thing_is_answered_as_without_clauses(crib: Crib, blurred: Crib) -> None:
    for query in ASKED.values():
        clear, plain = (
            one.find_tools(query, k=len(TOOLS), gate=False, explain=True).tools
            for one in (crib, blurred)
        )
        assert clear == plain
        assert clear


def test_only_several_clauses_are_told_of(crib: Crib, blurred: Crib) -> None:
    several = contributions(crib, JAZZ_AND_BILL)
    assert all(-1 <= legs["clauses"] <= 1 for legs in several)
    assert any(legs["clauses"] > legs["dense"] for legs in several)
    for one, query in ((crib, "put on some jazz"), (crib, "Hi, put on some jazz")):
        assert all("clauses" not in legs for legs in contributions(one, query))
    assert all("clauses" not in legs for legs in contributions(blurred, JAZZ_AND_BILL))


def test_an_encoder_that_sees_no_clauses_answers_as_before(indexed: Store) -> None:
    query = "send a mail to somebody, then tell where the parcel is"
    answers = [
        Crib.over(indexed, make_dense(settings), settings)
        .find_tools(query, k=5, gate=False, explain=True)
        .tools
        for settings in (MODEL_FREE, with_share(MODEL_FREE, 0.0))
    ]
    assert answers[0] == answers[1]
    assert len(answers[0]) == len(MODEL_FREE_TOOLS)
    assert all("clauses" not in hit.legs for hit in answers[0])


class Blind(BundledEncoder):
    """The shipped encoder, which fails where it is asked for clauses."""

    def encode_clauses(self, text):
        raise EncoderError("no token vectors")


def test_a_failure_over_clauses_leaves_the_lexical_leg_and_says_so(crib: Crib, caplog) -> None:
    found = Crib.over(crib.tools.store, Blind(), Settings()).find_tools(
        "play a song, then pay", k=3, gate=False
    )
    assert found.degraded == ("dense",)
    assert {hit.id for hit in found.tools} == {"play_music", "transfer_money"}
    assert "no token vectors" in caplog.text


def test_where_clauses_do_not_count_none_are_asked_for(crib: Crib) -> None:
    found = Crib.over(crib.tools.store, Blind(), with_share(Settings(), 0.0)).find_tools(
        JAZZ_AND_BILL, gate=False
    )
    assert found.degraded == ()
