"""Whatever fails or is late in a turn costs its part of the answer, and is named."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

import pytest

from tests.router.conftest import CountingEncoder, WatchedStore, failing
from toolcrib import Message, Turn
from toolcrib.clock import ManualClock
from toolcrib.context.rules import HeuristicDetector
from toolcrib.errors import StoreError, StoreUnavailableError, StoreWriteError

MAIL = "send a mail to somebody"
GLASS = "How is glass wrapped in a parcel?"
WRITES = ("upsert", "set_sparse", "delete", "write_meta", "renew", "optimise")
HISTORY = (Message(content="a parcel to Graz"), Message(content="a mail to Ana"))


def read_only(store):
    """A store that fails on any write."""
    refuse = failing(StoreWriteError("nobody may write here"))
    return WatchedStore(store, **dict.fromkeys(WRITES, refuse))


def watching(watched, **more):
    """Does something more whenever one of these methods of this store is used."""
    return lambda store: WatchedStore(store, **more) if store is watched else store


NO_ANSWER = failing(StoreUnavailableError("the server does not answer"))


class SlowHouse:
    """A crib on a clock that encoding and searching move by so many milliseconds each."""

    def __init__(self, shelves, *, encode=1, tools=10, passages=20, limits=None):
        self.clock = ManualClock()

        class SlowEncoder(CountingEncoder):
            def encode_query(_self, text):  # noqa: N805
                self.pass_by(encode)
                return super().encode_query(text)

            def encode_documents(_self, texts):  # noqa: N805
                self.pass_by(5)
                return super().encode_documents(texts)

        def watch(store):
            takes = tools if store is shelves.tools else passages
            return WatchedStore(store, scroll=lambda: None, retrieve=lambda: self.pass_by(takes))

        self.crib = shelves.crib(
            dense=SlowEncoder(), clock=self.clock, watch=watch, limits=limits or {}
        )

    def pass_by(self, ms):
        self.clock.now += ms / 1000

    def route(self, text, budget_ms=None, history=HISTORY):
        return self.crib.route(Turn(text=text, history=history), budget_ms=budget_ms)


@pytest.mark.parametrize("text", [MAIL, GLASS, "hi", "and that one?"])
def test_detecting_writes_no_store_and_looks_nothing_up(shelves, text):
    def watch(store):
        refuse = failing(AssertionError("detecting looks nothing up"))
        return WatchedStore(read_only(store), search=refuse, retrieve=refuse)

    crib = shelves.crib(watch=watch)
    assert crib.detect(Turn(text=text, history=HISTORY)).text == text


@pytest.mark.parametrize("text", [MAIL, GLASS, "hi", "", "where is my parcel now"])
def test_deciding_writes_no_store(shelves, text):
    decision = shelves.crib(watch=read_only).route(Turn(text=text, history=HISTORY))
    assert decision.context.text == text


def test_collections_that_do_not_answer_cost_the_passages_and_not_the_tools(shelves):
    crib = shelves.crib(watch=watching(shelves.passages, search=NO_ANSWER))
    for text, kind in ((MAIL, "tools"), (GLASS, "general")):
        decision = crib.route(text)
        assert decision.degraded == ("knowledge",)
        assert (decision.route.kind, decision.knowledge.passages) == (kind, ())
        assert len(decision.tools.tools) == 6
    with pytest.raises(StoreUnavailableError):
        crib.find_knowledge(GLASS)


def test_tools_that_do_not_answer_are_an_error_and_no_half_answer(shelves):
    crib = shelves.crib(watch=watching(shelves.tools, search=NO_ANSWER))
    with pytest.raises(StoreError, match="the server does not answer"):
        crib.route(MAIL)


def test_an_encoder_that_fails_leaves_the_words_and_is_named(shelves):
    dense = CountingEncoder()
    crib = shelves.crib(dense=dense)
    dense.fails = True
    decision = crib.route(MAIL)
    assert decision.degraded == ("dense",)
    assert decision.tools.tools[1].id == "mail/send_mail"
    assert crib.detect(MAIL).intent == "generate"
    leaning = crib.route(Turn(text="and to Linz?", history=HISTORY))
    assert {"follow_up", "dense"} <= set(leaning.degraded)
    dense.fails = False
    assert crib.route(MAIL).degraded == ()


def test_without_a_limit_everything_is_done_and_timed(shelves):
    decision = SlowHouse(shelves).route("and to Linz?")
    assert decision.degraded == ()
    assert decision.took_ms == pytest.approx(
        {"follow_up": 5, "encode": 3, "context": 0, "tools": 10, "knowledge": 20, "total": 38}
    )


@pytest.mark.parametrize(
    ("budget_ms", "lost", "done"),
    [
        (36.5, set(), {"follow_up", "context", "knowledge", "tools"}),
        (33.0, {"follow_up"}, {"context", "knowledge", "tools"}),
        (30.5, {"knowledge"}, {"context", "tools"}),
        (10.5, {"knowledge", "tools"}, {"context"}),
    ],
)
def test_what_does_not_fit_is_left_out_cheapest_loss_first_and_named(
    shelves, budget_ms, lost, done
):
    house = SlowHouse(shelves)
    house.route("and to Linz?")
    decision = house.route("and to Linz?", budget_ms)
    assert lost <= set(decision.degraded)
    assert done <= decision.took_ms.keys()
    assert decision.took_ms.keys().isdisjoint(decision.degraded)
    assert decision.took_ms["total"] <= budget_ms + 1


def test_a_request_taken_for_small_talk_keeps_its_entities_without_time(shelves, monkeypatch):
    house, detect = SlowHouse(shelves), HeuristicDetector.detect

    def detect_greeting(*given, by_words=False, **more):
        house.pass_by(1)
        found = detect(*given, **more)
        return found if by_words else replace(found, smalltalk="greeting")

    monkeypatch.setattr(HeuristicDetector, "detect", detect_greeting)
    monkeypatch.setattr(HeuristicDetector, "may_take_for_smalltalk", lambda *_: True)
    text = "hello ana@example.org"
    assert house.route(text, history=()).degraded == ()
    decision = house.route(text, 12.5, history=())
    assert "context" in decision.degraded
    assert [each.type for each in decision.context.entities] == ["email"]
    assert (decision.context.sensitivity, decision.context.smalltalk) == ("pii", None)


def test_what_took_too_long_is_left_out_of_later_turns_and_tried_again_some_day(shelves):
    house = SlowHouse(shelves, limits={"total_ms": 25})
    degraded = [house.route(GLASS, history=()).degraded for _ in range(8)]
    assert degraded[0] == ("knowledge",)
    assert any("knowledge" not in lost for lost in degraded[1:])


def test_what_a_process_loads_first_is_charged_to_no_turn(shelves):
    first, *later = (SlowHouse(shelves, limits={"total_ms": 50}).route(MAIL) for _ in range(2))
    assert {decision.degraded for decision in (first, *later)} == {()}
    assert first.route.kind == "tools"


def test_no_time_at_all_still_is_a_decision(shelves):
    decision = shelves.crib().route(MAIL, budget_ms=0)
    assert {"entities", "context", "tools", "knowledge"} <= set(decision.degraded)
    assert (decision.route.kind, decision.route.reason) == ("general", "no time was left")
    assert decision.route.confidence is None
    assert [hit.id for hit in decision.tools.tools] == ["agent/think"]
    assert decision.context.text == MAIL


def test_many_threads_may_decide_at_once(shelves):
    crib = shelves.crib()
    with ThreadPoolExecutor(8) as pool:
        decided = list(pool.map(crib.route, [Turn(text=MAIL, history=HISTORY)] * 24))
    assert {decision.route.kind for decision in decided} == {"tools"}
    assert len({decision.id for decision in decided}) == 24


def test_who_comes_while_the_desk_is_being_stocked_waits_for_it(shelves):
    entered, go = threading.Event(), threading.Event()

    def hold_on():
        entered.set()
        go.wait(10)

    crib = shelves.crib(watch=watching(shelves.tools, scroll=hold_on))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(crib.detect, MAIL)
        assert entered.wait(10)
        second = pool.submit(crib.detect, MAIL)
        wait([second], timeout=0.2)
        go.set()
        assert first.result() == second.result()
