"""Turns, as a library user has them decided, with the models that ship and without any."""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import REGISTRY, ROOT, WITHOUT_MODELS, encoded_once
from tests.router.conftest import PASSAGES, TOOLS, CountingEncoder, free_of_models, write_labels
from tests.test_knowledge_base import Counting
from toolcrib import Collection, Crib, Scope, Settings, ToolSpec, Turn
from toolcrib.build import MEMORY, make_dense, open_store
from toolcrib.context.classifier import TurnClassifier
from toolcrib.errors import QueryError, StoreError
from toolcrib.indexers.points import layout
from toolcrib.store.folder import LazyStore

STAND_UP = "How long is our daily stand-up and who speaks first?"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """Part of the sample registry and a collection, with the shipped models; read only."""
    named = [next(REGISTRY.glob(f"{name}.*")) for name in ("mailbox", "helpdesk", "crm", "desk")]
    with Crib.open(tmp_path_factory.mktemp("house"), settings=Settings()) as opened:
        with encoded_once():
            opened.index_tools(*named, REGISTRY / "weather.json")
            opened.index_docs(ROOT / "data" / "collections" / "agile", collection="agile")
        yield opened


@pytest.fixture
def settings():
    return free_of_models()


def ids(decision):
    return [hit.id for hit in decision.tools.tools]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("will it rain in Graz tomorrow?", "weather/forecast"),
        ("reply to the customer in ticket 3118: it is on its way", "helpdesk/reply_to_ticket"),
    ],
)
def test_a_request_gets_its_tool_behind_those_that_are_always_active(house, text, tool):
    decision = house.route(text)
    assert decision.route.kind in {"tools", "both"}
    assert ids(decision)[:2] == ["desk/ask_user", tool]
    assert decision.tools.confidence > 0.2


def test_a_question_gets_the_passages_that_answer_it(house):
    decision = house.route(STAND_UP)
    assert decision.route.kind == "knowledge"
    assert decision.knowledge.collections[0].id == "agile"
    best = [each.passage.text.lower() for each in decision.knowledge.passages[:2]]
    assert any("stand-up" in text for text in best)
    assert ids(decision) == ["desk/ask_user"]


def test_a_turn_is_encoded_once_for_context_tools_and_knowledge(house):
    dense = Counting(make_dense(Settings()))
    passages = LazyStore(house.knowledge._lazy.open, lambda: True)
    crib = Crib.over(house.tools.store, dense, Settings(), passages=passages)
    for text in (STAND_UP, "mail Ana the report and then book a room", "hi"):
        dense.texts.clear()
        assert crib.route(text).route.kind == house.route(text).route.kind
        assert dense.texts == [text]


def test_a_turn_alone_is_classified_beside_its_encoding(house, monkeypatch):
    begun = []

    def begin(_, text):
        begun.append(text)
        house.route("and who books a room meanwhile?")

    monkeypatch.setattr(TurnClassifier, "begin", begin)
    house.route(STAND_UP)
    assert begun == [STAND_UP]


async def test_turns_can_be_decided_while_the_loop_goes_on(house):
    decisions = await asyncio.gather(*(house.aroute(STAND_UP, k=3) for _ in range(6)))
    assert {decision.route.kind for decision in decisions} == {"knowledge"}


@pytest.mark.parametrize("call", [Crib.find_knowledge, Crib.route])
def test_an_unknown_collection_is_an_error_where_nothing_is_indexed(settings, call):
    stated = settings.model_copy(update={"collections": (Collection(name="rules"),)})
    with Crib.open(MEMORY, settings=stated) as crib:
        call(crib, STAND_UP, collections=["rules"])
        with pytest.raises(QueryError, match="there is no collection 'rulse'; did you mean 'rules"):
            call(crib, STAND_UP, collections=["rulse"])


def test_a_decision_is_made_where_nothing_is_indexed(settings):
    with Crib.open(MEMORY, settings=settings) as crib:
        decision = crib.route("send a mail")
        assert (decision.route.kind, ids(decision)) == ("general", [])
        assert decision.knowledge.verdict == "abstain"
        found = crib.find_knowledge("how much may a parcel weigh?")
        assert found.reason == "no collection is in reach"


def test_tools_that_are_indexed_or_removed_are_so_in_the_next_turn(settings):
    with Crib.open(MEMORY, settings=settings) as crib:
        assert ids(crib.route("send a mail")) == []
        crib.index_tools(*TOOLS[:1])
        assert ids(crib.route("send a mail")) == ["mail/send_mail"]
        assert [e.type for e in crib.detect("call send_mail").entities] == ["tool"]
        crib.remove_tools("mail/send_mail")
        assert ids(crib.route("send a mail")) == []
        assert [e.type for e in crib.detect("call send_mail").entities] == ["identifier"]


def test_a_crib_that_was_made_without_a_library_decides_and_says_so_for_documents(settings):
    dense = CountingEncoder()
    store = open_store(MEMORY, settings, layout(dense.dimensions))
    with Crib.over(store, dense, settings) as crib:
        crib.index_tools(*TOOLS)
        assert ids(crib.route("send a mail"))[0] == "mail/send_mail"
        with pytest.raises(StoreError, match="made without a knowledge base"):
            crib.index_passages(PASSAGES)


def test_what_was_fitted_for_a_users_labels_is_not_fitted_again_when_tools_change(tmp_path):
    labelled = free_of_models(context={"labels": write_labels(tmp_path)})
    dense = CountingEncoder()
    store = open_store(MEMORY, labelled, layout(dense.dimensions))
    with Crib.over(store, dense, labelled) as crib:
        assert crib.detect("I want to sell a saw right now").intent == "sell"
        crib.index_tools(*TOOLS)
        dense.documents.clear()
        assert crib.route("I want to sell a saw right now").context.intent == "sell"
        assert dense.documents == []


def test_a_caller_with_a_scope_does_not_learn_what_is_named_beyond_it(tmp_path):
    with Crib.open(tmp_path, settings=WITHOUT_MODELS) as crib:
        crib.index_tools(ToolSpec(name="drop_ledger", server="vault"))
        said = "what does drop_ledger in the vault do?"
        everybody = {(each.type, each.text) for each in crib.detect(said).entities}
        assert everybody == {("tool", "drop_ledger"), ("service", "vault")}
        scope = Scope(servers=frozenset({"mail"}))
        asked = Turn(text=said, scope=scope)
        for context in (crib.detect(asked), crib.route(asked).context):
            assert {each.type for each in context.entities} <= {"identifier"}
