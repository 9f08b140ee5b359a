"""What a caller may not ask changes nothing: the answer is that of a library without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.router.knowledge_shelf import (
    GARDEN,
    KITCHEN,
    ask,
    context,
    open_library,
    passages,
    router,
)
from toolcrib import Crib, Scope, Turn
from toolcrib.records import Collection, KnowledgeResult, Passage
from toolcrib.records.codec import as_json
from toolcrib.router.settings import MapEntry

EGG = "how long should an egg cook?"
QUESTIONS = (EGG, "carrots", "when are tomatoes watered", "who holds the key to the safe")
COOKING = context("food", "cook")

VAULT = Collection(
    name="vault",
    description="Eggs, carrots, tomatoes, keys and safes.",
    examples=QUESTIONS,
    answers=(("food", "cook"),),
    sensitivity="pii",
    priority=50.0,
    fallback=True,
)
"""Speaks for itself wherever it can: the map, a priority, the fallback, the very questions."""

SECRETS = [
    Passage("vault", f"{n}.md", f"{question}: ask Miss Okafor. " + "Bring papers. " * 20 * n)
    for n, question in enumerate(QUESTIONS)
]
kept_out = pytest.mark.parametrize(
    ("scope", "ceiling"),
    [
        pytest.param(Scope(collections=frozenset({"kitchen", "garden"})), None, id="by-name"),
        pytest.param(Scope(max_sensitivity="internal"), None, id="by-the-callers-ceiling"),
        pytest.param(None, "public", id="by-the-destinations-ceiling"),
    ],
)


@pytest.fixture(scope="module")
def never():
    """A library that never had the vault."""
    opened = open_library(KITCHEN, GARDEN)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def full():
    """The same, and the vault."""
    opened = open_library(KITCHEN, GARDEN)
    opened.define([VAULT])
    opened.put([("", secret) for secret in SECRETS])
    yield opened
    opened.close()


def same(found: KnowledgeResult, expected: KnowledgeResult) -> bool:
    """Whether two answers say the same, with numbers to the last digit that is ever shown."""
    words, numbers = zip(*map(_parts, (found, expected)), strict=True)
    return words[0] == words[1] and numbers[0] == pytest.approx(numbers[1], abs=5e-7)


def _parts(result: KnowledgeResult):
    words = (result.verdict, result.reason, result.signals, result.threshold)
    asked = [hit.id for hit in result.collections]
    told = [(hit.rank, hit.passage) for hit in result.passages]
    sure = [hit.confidence for hit in result.collections]
    scores = [hit.score for hit in result.passages]
    return (words, asked, told), [result.confidence, result.fit, *sure, *scores]


@pytest.mark.parametrize("question", QUESTIONS)
def test_who_may_ask_the_vault_hears_it_first(full, question):
    reach = full.catalogue.within(Scope(max_sensitivity="pii"))
    found = router(full).find(ask(question), None, reach)
    assert (found.verdict, found.collections[0].id) == ("accept", "vault")


@kept_out
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        pytest.param({}, None, id="default"),
        pytest.param({"threshold": 1.0}, None, id="unsure"),
        pytest.param({"least": 0.0, "threshold": 0.0, "collections": 9}, None, id="eager"),
        pytest.param({"passages": 1}, None, id="brief"),
        pytest.param({}, COOKING, id="what-it-answers"),
        pytest.param(
            {"map": (MapEntry("plants", "grow", ("vault",)),)}, context("plants", "grow"), id="map"
        ),
    ],
)
def test_the_answer_is_that_of_a_library_without_it(
    never, full, scope, ceiling, question, settings, told
):
    reach = full.catalogue.within(Turn(scope=scope, max_sensitivity=ceiling).reach)
    found = router(full, **settings).find(ask(question), told, reach)
    assert same(found, router(never, **settings).find(ask(question), told))


def test_where_nothing_may_be_asked_nothing_is_said_of_what_there_is(full):
    found = router(full).find(ask(EGG), COOKING, ())
    assert found == KnowledgeResult(reason="no collection is in reach")


def test_an_empty_library_and_one_whose_passages_are_out_of_reach_say_the_same(full):
    attic = Collection(name="attic")
    empty, beside = (open_library(attic, texts=texts) for texts in ([], passages("kitchen")))
    for library in (empty, beside):
        found = router(library).find(ask(EGG), None, (attic,))
        library.close()
        assert found == KnowledgeResult(reason=found.reason)
        assert "hold no passages" in found.reason


# -- through the front door ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def cribs():
    """A crib without the vault, and one with it."""
    with Crib.open(":memory:") as without, Crib.open(":memory:") as having:
        for crib in (without, having):
            crib.add_collections(KITCHEN, GARDEN)
            crib.index_passages([*passages("kitchen"), *passages("garden")])
        having.add_collections(VAULT)
        having.index_passages(SECRETS)
        yield without, having


@kept_out
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_turn_is_decided_the_same(cribs, question, scope, ceiling):
    turn = Turn(text=question, scope=scope, max_sensitivity=ceiling)
    less, more = (crib.route(turn) for crib in cribs)
    assert same(more.knowledge, less.knowledge)
    assert replace(more.route, confidence=None) == replace(less.route, confidence=None)
    assert more.route.confidence == pytest.approx(less.route.confidence, abs=5e-7)
    assert (more.tools.verdict, more.tools.reason) == (less.tools.verdict, less.tools.reason)
    assert (more.context, more.signals) == (less.context, less.signals)
    assert "vault" not in str(as_json(more))
