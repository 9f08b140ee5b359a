"""Selector of capabilities: what is active for a turn, whoever fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import encoded_once
from toolcrib import Crib
from toolcrib.build import capability_selector
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.errors import EncoderError
from toolcrib.evaluation.choices import read_labelled
from toolcrib.language_models.testing import ChatServer, faulty_share
from toolcrib.records import Message, Turn
from toolcrib.router.choices.capabilities import (
    Capability,
    CapabilityRegistry,
    CapabilitySelector,
)
from toolcrib.router.choices.flow import LoopState
from toolcrib.settings import Settings

DATA = Path(__file__).parents[3] / "data" / "capabilities"
FILE = DATA / "capabilities.yaml"
PLOT = "plot the signups of this year"


@pytest.fixture(scope="module")
def dense() -> Iterator[BundledEncoder]:
    with encoded_once():
        yield BundledEncoder()


@pytest.fixture(scope="module")
def office(dense) -> CapabilitySelector:
    return capability_selector(FILE, Settings(), dense=dense)


def needs(*names: str):
    """Answers of a model that finds these needed."""

    def reply(request):
        return {"reason": "so", "active": any(f"{name!r}" in request.text for name in names)}

    return reply


def by_model(server: ChatServer, dense, timeout_s=60.0, parallel=5, **changed):
    # However busy this machine is, no answer is late.
    own = {"attempts": 1, "parallel": parallel, "uses": {"capabilities": {"timeout_s": timeout_s}}}
    settings = Settings.model_validate({"llm": {**server.settings, **own}, **changed})
    return capability_selector(FILE, settings, dense=dense)


def selected(dense, reply=None, faults=(), turn=PLOT, slow_s=0.05, **changed):
    """What a model that replies so selects for a turn, and requests that the model got."""
    with ChatServer(reply or needs(), faults, slow_s=slow_s) as server:
        found = by_model(server, dense, **changed).select(turn)
    return found, server.requests


# -- without a model -------------------------------------------------------------------------


def test_examples_and_descriptions_select_and_it_says_so(office):
    found = office.select(PLOT)
    assert found.active == ("safety", "figures", "charts")
    assert found.degraded == ("llm",)
    assert found.probabilities["charts"] > 0.5 > found.probabilities["travel"]


def test_a_turn_of_two_clauses_may_need_two(office):
    found = office.select("translate this into Spanish, and open a bug for the broken export")
    assert {"translation", "tickets"} <= set(found.active)


@pytest.mark.parametrize("text", ["good morning!", "", "?!"])
def test_nothing_selected_is_an_outcome(office, text):
    found = office.select(text)
    assert found.active == ("safety",)
    assert found.signals == ("nothing_selected",)
    assert found.update["capabilities"] == ("safety",)


def test_an_example_of_no_need_keeps_it_off(dense):
    def likely(**more):
        paint = Capability(name="paint", description="Paints walls.", **more)
        selector = capability_selector(CapabilityRegistry([paint]), Settings(), dense=dense)
        return selector.select("paint me a picture of a dog").probabilities["paint"]

    of_no_need = {"query": "paint me a picture of a cat", "use": False}
    assert likely() > 2 * likely(examples=[of_no_need])


def test_the_shipped_capabilities_are_selected_well_enough_without_a_model(office):
    right = named = 0
    for each in read_labelled(DATA / "turns.jsonl", "capabilities", "dev"):
        chosen = set(office.select(each.turn).active) - office.always
        right += len(chosen & each.right)
        named += len(chosen) + len(each.right)
    assert 2 * right / named > 0.65


def test_where_the_encoder_fails_too_the_turn_goes_on(dense):
    class Failing:
        name, dimensions = dense.name, dense.dimensions
        encode_documents = staticmethod(dense.encode_documents)

        def encode_query(self, text: str):
            raise EncoderError(f"no vector of {len(text)} characters")

    found = capability_selector(FILE, Settings(), dense=Failing()).select(PLOT)
    assert found.active == ("safety",)
    assert found.degraded == ("llm", "encoder")
    assert len(found.failed) == 10


def test_a_callers_encoder_gets_no_empty_list_and_its_vectors_are_scaled(dense):
    class Served:
        name, dimensions = "served", dense.dimensions

        def encode_query(self, text):
            return (3 * dense.encode_query(text)).tolist()

        def encode_documents(self, texts):
            assert texts
            return (3 * dense.encode_documents(texts)).tolist()

    registry = CapabilityRegistry([Capability(name="charts", description="Draws a chart.")])
    own, shipped = (
        capability_selector(registry, Settings(), dense=each).select(PLOT)
        for each in (Served(), dense)
    )
    assert own.probabilities == pytest.approx(shipped.probabilities)


def test_without_any_there_is_nothing_to_select(dense):
    found = capability_selector(CapabilityRegistry(), Settings(), dense=dense).select("hello")
    assert (found.active, found.degraded) == ((), ())


# -- bypass ----------------------------------------------------------------------------------

OFF, ON = Message(content="/caps:off"), Message(content="/caps:on again")


@pytest.mark.parametrize(
    ("turn", "bypass", "setting", "all_"),
    [
        (Turn(text="hi"), None, False, False),
        (Turn(text="hi"), None, True, True),
        (Turn(text="hi"), True, False, True),
        (Turn(text="hi"), False, True, False),
        (Turn(text="/caps:off hi"), None, False, True),
        (Turn(text="hi", history=(OFF,)), None, False, True),
        (Turn(text="hi", history=(OFF, ON)), None, True, False),
        (Turn(text="hi", history=(OFF,)), False, False, False),
        (Turn(text="/CAPS:OFF"), None, False, True),
        (Turn(text="hi", history=(OFF, *[Message(content="ok")] * 30)), None, False, True),
        (Turn(text="what does /caps:off do?"), None, False, False),
        (Turn(text="what is x/caps:off?"), None, False, False),
        (Turn(text="hi", history=(Message(role="assistant", content="/caps:off"),)), None, 0, 0),
    ],
)
def test_bypass_activates_all_by_call_conversation_or_setting(dense, turn, bypass, setting, all_):
    settings = Settings.model_validate({"capabilities": {"bypass": bool(setting)}})
    found = capability_selector(FILE, settings, dense=dense).select(turn, bypass=bypass)
    assert found.bypassed is bool(all_)
    assert (len(found.active) == 11) is bool(all_)


# -- what comes next -------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "node"), [("plan_first", "plan"), ("reactive", "orchestrator")])
def test_the_orchestration_mode_says_where_the_loop_goes_next(dense, mode, node):
    settings = Settings.model_validate({"orchestration_mode": mode})
    assert capability_selector(FILE, settings, dense=dense).select(PLOT).next == node


# -- with a model ----------------------------------------------------------------------------


def test_each_is_asked_by_itself_but_those_that_are_always_active(dense):
    found, requests = selected(dense, needs("charts"), turn=Turn(text=PLOT, history=(OFF, ON)))
    assert found.active == ("safety", "figures", "charts")
    assert (found.probabilities, found.degraded) == ({}, ())
    assert len(requests) == 10
    assert PLOT in requests[0].text
    assert "Request:" in requests[0].text


@pytest.mark.parametrize("said", [{"active": "true"}, {"active": 1}, {"active": "Yes."}, "Yes."])
def test_a_yes_of_another_shape_is_a_yes(dense, said):
    def reply(request):
        return said if "'charts'" in request.text else {"active": "No."}

    found, _ = selected(dense, reply)
    assert "charts" in found.active
    assert "mail" not in found.active
    assert (found.failed, found.degraded) == ((), ())


@pytest.mark.parametrize("said", [{}, {"error": "loading"}, {"active": None}, {"active": "maybe"}])
def test_an_answer_that_is_neither_yes_nor_no_is_reported(dense, said):
    found, _ = selected(dense, lambda each: said if "'mail'" in each.text else {"active": True})
    assert [each.name for each in found.failed] == ["mail"]
    assert found.degraded == ("llm",)


def test_a_turn_above_its_ceiling_is_shown_to_no_model():
    card = Turn(text="charge card 4111 1111 1111 1111", max_sensitivity="internal")
    with ChatServer(needs("charts")) as server:
        named = {"llm": server.settings, "capabilities": {"file": str(FILE)}}
        with Crib.open(":memory:", settings=Settings.model_validate(named)) as crib:
            found = crib.select_capabilities(card)
    assert server.requests == []
    assert (found.degraded, found.failed) == (("llm",), ())


def test_examples_are_shuffled_the_same_way_for_the_same_seed(dense):
    said = []
    for seed in (0, 0, 1):
        _, requests = selected(dense, capabilities={"seed": seed})
        said.append(sorted(each.messages[0].content for each in requests))
    assert said[0] == said[1] != said[2]


def test_one_that_fails_is_off_and_reported_and_the_turn_goes_on(dense):
    def reply(request):
        return "perhaps" if "'mail'" in request.text else needs("mail", "travel")(request)

    found, _ = selected(dense, reply)
    assert found.active == ("safety", "travel")
    assert [each.name for each in found.failed] == ["mail"]
    assert found.degraded == ("llm",)


def test_calls_one_after_the_other_share_one_deadline(dense):
    found, _ = selected(dense, needs("travel"), lambda _: "slow", timeout_s=3.0, parallel=1)
    assert (found.active, found.failed) == (("safety", "travel"), ())


def test_where_all_fail_examples_decide(dense):
    found, _ = selected(dense, faults=lambda _: "error")
    assert found.active == ("safety", "figures", "charts")
    assert (found.failed, found.degraded) == ((), ("llm",))


def test_with_a_third_of_faults_what_is_missing_is_told_and_nothing_else(dense):
    faults = faulty_share(0.3, kinds=["error", "cut", "garbage"])
    with ChatServer(needs("travel"), faults) as server:
        selector = by_model(server, dense)
        for _ in range(4):
            found = selector.select(PLOT)
            assert bool(found.failed) is ("llm" in found.degraded)
            off = {each.name for each in found.failed}
            assert ("travel" in found.active) is ("travel" not in off)
            assert server.settings["api_key"] not in repr(found)
            assert PLOT not in repr(found.failed)


# -- again after a failure -------------------------------------------------------------------


def test_after_a_failure_it_is_told_and_counted_and_limited(dense):
    failed = LoopState(task="x", capabilities=("mail",), failure="mail has no access")
    with ChatServer(needs("travel")) as server:
        selector = by_model(server, dense)
        found = selector.select(PLOT, state=failed)
        assert all("mail has no access" in each.text for each in server.requests)
        again = LoopState(capabilities=("mail",), failure="no", reclassifications=1)
        limited = selector.select(PLOT, state=again)
        assert len(server.requests) == 10
    assert (found.reclassifications, found.signals, found.next) == (1, ("reclassified",), "plan")
    assert limited.next == "error"
    assert (limited.active, limited.signals) == (("mail",), ("reclassification_limit",))


def test_a_server_that_hangs_costs_the_time_of_one_call_for_all_capabilities(dense):
    slow = {"faults": lambda _: "slow", "slow_s": 30}
    found, asked = selected(dense, timeout_s=0.3, parallel=1, **slow)
    assert "llm" in found.degraded
    # With a time for each, the next call would be sent after the first was given up.
    assert len(asked) == 1
