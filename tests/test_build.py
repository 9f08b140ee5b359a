"""When a reranker is loaded: before the first query, or beside it; models that are passed in."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from tests.router.conftest import TOOLS, free_of_models
from toolcrib import Crib, Message, Scope, Settings, ToolSpec, Turn
from toolcrib.clock import ManualClock
from toolcrib.language_models import LanguageModel
from toolcrib.language_models.langchain import LangChainChatModel
from toolcrib.language_models.testing import ChatServer
from toolcrib.tenants import Tenants

QUERY = "send something to somebody"
FOLLOW_UP = Turn(text="the second one", history=(Message(content="list the mails"),))


class Slow:
    """A reranker whose first call takes a minute of the clock, and waits until it may go on."""

    name = "slow"

    def __init__(self, *, held: bool = False, fails: bool = False) -> None:
        self.clock, self.fails = ManualClock(), fails
        self.may_load, self.loaded = threading.Event(), threading.Event()
        if not held:
            self.may_load.set()

    def score(self, _query, texts):
        if self.fails:
            raise OSError("no such file: model.onnx")
        if not self.loaded.is_set():
            assert self.may_load.wait(60)
            self.clock.now += 60
            self.loaded.set()
        return np.zeros(len(texts), dtype=np.float32)


def opened(reranker, load):
    settings = free_of_models(rerank={"load": load, "lead": 1.0}, tools={"pass_through": 0})
    crib = Crib.open(":memory:", settings=settings, reranker=reranker)
    crib.index_tools(TOOLS)
    return crib


def test_a_reranker_is_loaded_before_the_first_query():
    reranker = Slow()
    with opened(reranker, "open") as crib:
        before = reranker.clock.now
        assert crib.find_tools(QUERY).degraded == ()
        assert (before, reranker.clock.now) == (60, 60)


def test_queries_do_without_a_reranker_that_is_loading_beside_them():
    reranker = Slow(held=True)
    with opened(reranker, "background") as crib:
        assert crib.find_tools(QUERY).degraded == ("rerank",)
        reranker.may_load.set()
        second = crib.tools.reranker
        assert second.name == "slow"
        second.wait()
        assert crib.find_tools(QUERY).degraded == ()


def test_who_only_writes_can_leave_it_to_the_first_query():
    reranker = Slow()
    with opened(reranker, "use") as crib:
        assert not reranker.loaded.is_set()
        crib.find_tools(QUERY)
        assert reranker.loaded.is_set()


@pytest.mark.parametrize("load", ["open", "background"])
def test_a_reranker_that_cannot_be_loaded_is_warned_of_and_done_without(load, caplog):
    with opened(Slow(fails=True), load) as crib:
        if load == "background":
            crib.tools.reranker.wait()
        assert crib.find_tools(QUERY).degraded == ("rerank",)
    told = [record.message for record in caplog.records]
    assert told[0] == "the reranker slow cannot be loaded"


def test_many_cribs_over_one_store_share_what_was_loaded_once(monkeypatch):
    reranker = Slow()
    monkeypatch.setattr("toolcrib.build.make_reranker", lambda _settings: reranker)
    with Tenants.open(":memory:", settings=free_of_models(rerank={"lead": 1.0})) as tenants:
        assert reranker.clock.now == 60
        tenants.crib("one").index_tools(TOOLS)
        assert tenants.crib("one").find_tools(QUERY).degraded == ()


FILE = {"file": "data/capabilities/capabilities.yaml"}
QUESTIONS = {"questions": {"support": "data/questions/support.yaml"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("use", "settings", "ask"),
    [
        ("context", {"context": {"detector": "llm"}}, lambda crib: crib.detect("why so slow?")),
        ("conversation", {}, lambda crib: crib.route(FOLLOW_UP)),
        ("agents", {"agents": {"targets": "preset"}}, lambda crib: crib.route("list the orders")),
        ("rerank", {"rerank": "llm"}, lambda crib: crib.find_tools("send it")),
        ("capabilities", {"capabilities": FILE}, lambda crib: crib.select_capabilities("mail Ana")),
        ("questions", QUESTIONS, lambda crib: crib.classify("support", "I paid twice")),
    ],
)
def test_a_chat_model_of_langchain_can_be_passed_for_each_use(use, settings, ask):
    asked = []

    class Fake(GenericFakeChatModel):
        def _generate(self, messages, *_, **__):
            asked.append(messages)
            return ChatResult(generations=[ChatGeneration(message=AIMessage("no answer"))])

    model = LanguageModel(LangChainChatModel(Fake(messages=iter([]))), {use: 60.0})
    settings = Settings.model_validate(settings)
    with Crib.open(":memory:", settings=settings, models={use: model}) as crib:
        crib.index_tools([ToolSpec(name="send_mail"), ToolSpec(name="send_sms")])
        ask(crib)
    assert asked
    assert {each.use for each in model.meter.usage} == {use}


CARD = "I paid twice with the card 4111 1111 1111 1111"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("turn", "is_shown"),
    [
        (Turn(text=CARD), True),
        (Turn(text=CARD, max_sensitivity="pii"), True),
        (Turn(text=CARD, max_sensitivity="internal"), False),
        (Turn(text=CARD, scope=Scope(max_sensitivity="internal")), False),
    ],
)
def test_a_turn_above_a_ceiling_is_classified_without_a_model(turn, is_shown):
    with ChatServer(lambda _: {"answer": "billing"}) as server:
        settings = Settings.model_validate({"llm": server.settings, **QUESTIONS})
        with Crib.open(":memory:", settings=settings) as crib:
            found = crib.classify("support", turn)
            assert bool(server.requests) is is_shown
            assert ("llm" in found.degraded) is not is_shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "is_shown"),
    [
        ({"variables": {"note": "I paid twice"}}, True),
        ({"variables": {"note": CARD}}, False),
        ({"variables": {"note": ["so it is. " * 900, CARD, "so it is. " * 900]}}, False),
        ({"variables": {"note": "", "unused": CARD}}, True),
        ({"variables": {"note": ""}, "outputs": {"before": {"said": CARD}}}, False),
    ],
)
def test_what_a_template_shows_above_a_ceiling_is_classified_without_a_model(
    given, is_shown, tmp_path
):
    classes = [{"id": "billing", "name": "Bills"}, {"id": "other", "name": "Else"}]
    question = {"model": "m", "question": "{{ note }} {{ outputs }}", "classes": classes}
    (tmp_path / "q.json").write_text(json.dumps(question))
    asked = {"questions": {"support": str(tmp_path / "q.json")}}
    with ChatServer(lambda _: {"branch": "billing"}) as server:
        settings = Settings.model_validate({"llm": server.settings, **asked})
        with Crib.open(":memory:", settings=settings) as crib:
            turn = Turn(text="Which team?", max_sensitivity="internal")
            crib.classify("support", turn, **given)
    assert bool(server.requests) is is_shown
