"""Knowledge in two hops: the collections that fit, then the passages that go to the agent."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.router.knowledge_shelf import (
    BIKES,
    GARDEN,
    KITCHEN,
    SHELF,
    TEXTS,
    ask,
    context,
    open_library,
    passages,
    router,
)
from toolcrib.records import Collection, KnowledgeResult, Passage
from toolcrib.records.definitions import estimated_tokens
from toolcrib.retrieval.fusion import LegScores
from toolcrib.retrieval.options import KnowledgeOptions
from toolcrib.retrieval.passages import RankedPassage
from toolcrib.router.knowledge import (
    ALL_COLLECTIONS,
    MIN_SHARE_OF_FIRST,
    TIE_SCORE_DIFFERENCE,
    VERSION_SIGNAL,
    VERSION_WORD_SHARE,
    likelier_first,
    passage_shares,
    select_passages,
)
from toolcrib.router.settings import MapEntry

EGG = "how long should an egg cook?"
BRAKES = "my bicycle brakes squeal, what now?"
NOWHERE = "what is the capital of Mongolia?"
COOKING = context("food", "cook")
TWO = KnowledgeOptions(k=2)


@pytest.fixture(scope="module")
def library():
    """The three collections, and one that nobody filled; no test writes to it."""
    opened = open_library(*SHELF)
    opened.define([Collection(name="attic", description="Old letters.")])
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def make_library():
    """Makes libraries that are closed in the end."""
    opened = []

    def make(*collections, texts=None):
        opened.append(open_library(*collections, texts=texts))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def hits(result: KnowledgeResult) -> list[str]:
    return [hit.id for hit in result.collections]


def sources(result: KnowledgeResult) -> set[str]:
    return {hit.passage.collection for hit in result.passages}


def to(*names: str, domain: str = "food", intent: str | None = "cook") -> MapEntry:
    return MapEntry(domain, intent, names)


# -- by evidence ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        (EGG, "kitchen/0.md#0"),
        ("when are tomatoes watered", "garden/1.md#0"),
        (BRAKES, "bikes/2.md#0"),
    ],
)
def test_a_question_goes_where_its_answer_stands(library, question, passage):
    found = router(library).find(ask(question))
    assert (found.verdict, hits(found)[0]) == ("accept", passage.split("/")[0])
    assert found.passages[0].passage.id == passage
    assert found.fit >= found.confidence == found.collections[0].confidence > 0.5


def test_a_collection_that_is_surely_wrong_is_named_and_gives_nothing(library):
    found = router(library, collections=3).find(ask("carrots"))
    likely = [
        h.id for h in found.collections if h.confidence >= MIN_SHARE_OF_FIRST * found.confidence
    ]
    assert (hits(found)[:2], likely) == (["garden", "kitchen"], ["garden", "kitchen"])
    assert sources(found) == {"garden", "kitchen"}


def test_no_more_passages_of_a_collection_are_taken_than_wanted(library):
    found = router(library, passages=1).find(ask("carrots"))
    taken = [hit.passage.collection for hit in found.passages]
    assert sorted(taken) == ["garden", "kitchen"]


def test_what_is_taken_fits_into_the_budget(library):
    found = router(library, token_budget=50).find(ask("carrots"))
    assert 1 < len(found.passages) < 6
    assert sum(estimated_tokens(hit.passage.text) for hit in found.passages) <= 50


def test_one_text_in_two_collections_is_given_once(make_library):
    both = [
        *passages("kitchen"),
        *(Passage("copy", p.document, p.text) for p in passages("kitchen")),
    ]
    found = router(make_library(texts=both)).find(ask(EGG))
    told = [hit.passage.text for hit in found.passages]
    assert sorted(told) == sorted(TEXTS["kitchen"])
    given = {(hit.passage.collection, hit.passage.document) for hit in found.passages}
    others = {(each.collection, each.document) for each in both} - given
    assert set(found.signals) == {f"{VERSION_SIGNAL}:{'/'.join(other)}" for other in others}


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("how many days of leave do I have in the United States?", "a_us"),
        ("how many days of leave do I have in Germany?", "b_de"),
    ],
)
def test_of_like_passages_the_one_of_the_likelier_collection_comes_first(
    make_library, question, first
):
    twins, texts = [], []
    for name, country, days in (("a_us", "the United States", 15), ("b_de", "Germany", 30)):
        twins.append(Collection(name=name, description=f"Leave rules for staff in {country}"))
        text = f"Everybody has {days} days of leave a year."
        texts.append(Passage(name, "leave.md", text, ("Leave",)))
    found = router(make_library(*twins, texts=texts)).find(ask(question), options=TWO)
    assert found.passages[0].collection == hits(found)[0] == first
    citations = {hit.collection: hit.citation for hit in found.passages}
    assert citations == {name: f"Leave ({name}/leave.md, part 1)" for name in ("a_us", "b_de")}


def test_of_collections_that_fit_alike_the_one_of_higher_priority_is_asked_first(make_library):
    twins = [
        Collection(name=name, description="Eggs.", priority=p) for name, p in (("a", 0), ("b", 1))
    ]
    texts = [Passage(each.name, "0.md", TEXTS["kitchen"][0]) for each in twins]
    found = router(make_library(*twins, texts=texts)).find(ask(EGG))
    assert hits(found) == ["b", "a"]


def test_of_collections_that_are_alike_in_all_the_names_decide(make_library):
    texts = [Passage(name, "0.md", TEXTS["kitchen"][0]) for name in "cab"]
    eager = router(make_library(texts=texts), collections=3, least=0.0, threshold=0.0)
    assert hits(eager.find(replace(ask(EGG), dense=None))) == ["a", "b", "c"]


def test_a_collection_without_passages_is_not_what_fits(make_library):
    full = make_library(KITCHEN)
    full.define([Collection(name="attic", priority=20.0)])
    found = router(full, collections=1).find(ask(EGG))
    assert (hits(found), sources(found)) == (["kitchen"], {"kitchen"})


# -- when nothing fits well enough -------------------------------------------------------------


def test_where_nothing_fits_nothing_is_given(library):
    found = router(library).find(ask(NOWHERE))
    assert (found.verdict, found.passages) == ("abstain", ())
    assert all(hit.confidence < found.fit for hit in found.collections)
    assert found.fit < 0.25
    assert found.reason == f"no passage fits (probability {found.fit:.2f}, below 0.25)"


def test_a_reason_prints_different_numbers_differently(library):
    fit = router(library).find(ask(NOWHERE)).fit
    assert fit is not None
    reason = router(library, least=fit + 1e-6).find(ask(NOWHERE)).reason
    told, least = re.findall(r"0\.\d+", reason)
    assert float(told) < float(least)


def test_where_no_collection_is_sure_enough_all_are_asked(library):
    found = router(library, threshold=1.0).find(ask("carrots"))
    assert (found.verdict, hits(found)) == ("fallback", [ALL_COLLECTIONS])
    assert found.collections[0].confidence == found.fit
    assert sources(found) == {"garden", "kitchen"}
    assert found.reason.endswith("below 1.00); searched instead: all")


def test_where_there_is_a_fallback_collection_it_alone_is_asked(make_library):
    general = BIKES.model_copy(update={"fallback": True})
    found = router(make_library(KITCHEN, GARDEN, general), threshold=1.0).find(ask(EGG))
    assert (found.verdict, hits(found), sources(found)) == ("fallback", ["bikes"], {"bikes"})
    assert found.reason.endswith("searched instead: bikes")


def test_where_the_fallback_collection_holds_nothing_all_are_asked(make_library):
    full = make_library(KITCHEN)
    full.define([Collection(name="attic", fallback=True)])
    assert router(full, threshold=1.0).find(ask(EGG)).passages


def test_the_thresholds_are_what_they_say(library):
    sure = router(library).find(ask("carrots"))
    for threshold, verdict in ((sure.confidence, "accept"), (sure.confidence + 1e-9, "fallback")):
        assert router(library, threshold=threshold).find(ask("carrots")).verdict == verdict
    assert router(library, least=sure.fit).find(ask("carrots")).verdict == "accept"
    assert router(library, least=sure.fit + 1e-9).find(ask("carrots")).verdict == "abstain"


# -- by the map -----------------------------------------------------------------------------


def test_a_collection_that_says_what_it_answers_is_asked_whatever_else_speaks(library):
    found = router(library).find(ask(BRAKES), COOKING)
    assert (found.verdict, hits(found), sources(found)) == ("accept", ["kitchen"], {"kitchen"})
    assert (found.reason, found.signals) == ("the map chooses kitchen", ("mapped",))


def test_the_map_goes_by_domain_and_intent_together(library):
    mapped = router(library, map=(to("garden", domain="plants", intent="grow"),))
    assert hits(mapped.find(ask(BRAKES), context("plants", "grow"))) == ["garden"]
    for other in (context("plants", "cook"), context("food", "grow"), context("plants", None)):
        assert hits(mapped.find(ask(BRAKES), other))[0] == "bikes"


def test_a_rule_without_an_intent_holds_where_none_was_seen(library):
    mapped = router(library, map=(to("garden", domain="plants", intent=None),))
    assert hits(mapped.find(ask(BRAKES), context("plants", None))) == ["garden"]
    for other in (context("plants", "cook"), context("plants", None, 0.49)):
        assert hits(mapped.find(ask(BRAKES), other))[0] == "bikes"


def test_the_map_may_use_other_words_for_intents(library):
    aliases = {"prepare": "make", "cook": "make"}
    mapped = router(library, aliases, map=(to("garden", intent="prepare"),))
    assert set(hits(mapped.find(ask(BRAKES), context("food", "make")))) == {"garden", "kitchen"}


@pytest.mark.parametrize(
    "unsure", [None, context(None, "cook"), context("food", None), context("food", "cook", 0.49)]
)
def test_a_context_that_is_not_sure_enough_leaves_the_choice_to_evidence(library, unsure):
    found = router(library, map=(to("garden"),)).find(ask(BRAKES), unsure)
    assert found == router(library).find(ask(BRAKES))


def test_collections_of_the_map_come_by_priority_and_then_by_evidence(make_library):
    first = GARDEN.model_copy(update={"priority": 0.001})
    mapped = router(make_library(KITCHEN, BIKES, first), map=(to("bikes", "garden"),))
    assert hits(mapped.find(ask(BRAKES), COOKING)) == ["garden", "bikes", "kitchen"]


@pytest.mark.parametrize(
    ("names", "signals"),
    [
        (("cellar", "barn"), ("map-missing:barn", "map-missing:cellar")),
        (("attic",), ("map-empty:attic",)),
    ],
)
def test_a_map_that_names_no_passages_says_so_and_evidence_decides(library, names, signals):
    mapped = router(library, map=(to(*names, intent="store"),))
    found = mapped.find(ask(BRAKES), context("food", "store"))
    assert found.signals == signals
    assert (found.verdict, hits(found)[0]) == ("accept", "bikes")
    assert found.passages[0].passage.id == "bikes/2.md#0"


def test_the_map_finds_what_a_hundred_better_passages_hide(make_library):
    crowd = [Passage("crowd", f"{n}.md", f"Squealing bicycle brakes, case {n}.") for n in range(70)]
    full = make_library(KITCHEN, texts=[*passages("kitchen"), *crowd])
    found = router(full).find(ask(BRAKES), COOKING)
    assert (hits(found), sources(found)) == (["kitchen"], {"kitchen"})


# -- shares ---------------------------------------------------------------------------------


def test_shares_add_up_and_who_has_no_passage_has_none(library):
    probe = router(library).best_passages(ask(EGG))
    votes = passage_shares(probe, ["kitchen", "garden", "bikes", "attic"])
    assert sum(votes.values()) == pytest.approx(1.0)
    assert max(votes, key=lambda name: votes[name]) == "kitchen"
    assert votes["attic"] == 0.0


def texts(chosen) -> list[str]:
    return [each.passage.text for each in chosen]


def alike(one: str, other: str) -> bool:
    a, b = set(one.casefold().split()), set(other.casefold().split())
    return bool(a | b) and len(a & b) / len(a | b) >= VERSION_WORD_SHARE


words = st.lists(st.sampled_from("abcdefg"), max_size=12).map(" ".join)
found_passages = st.lists(st.tuples(st.sampled_from(["x", "y"]), words), max_size=12).map(
    lambda pairs: [
        RankedPassage(Passage(collection, f"{n}.md", text), 0.5, LegScores(0.5, 0.0))
        for n, (collection, text) in enumerate(pairs)
    ]
)


def test_passages_of_other_words_or_scores_keep_their_order():
    likely = {"a": 0.1, "b": 0.9}
    far, near = TIE_SCORE_DIFFERENCE * 2, TIE_SCORE_DIFFERENCE / 2

    def ordered(other, difference):
        pairs = [("a", "rest well at home", 0.5), ("b", other, 0.5 - difference)]
        given = [
            RankedPassage(Passage(name, "x.md", text), score, LegScores(score, 0.0))
            for name, text, score in pairs
        ]
        return "".join(each.passage.collection for each in likelier_first(given, likely))

    assert ordered("rest well at work", near) == "ba"
    assert ordered("rest well at work", far) == "ab"
    assert ordered("nothing in common", near) == "ab"


@given(found_passages, st.integers(1, 5), st.integers(1, 20))
def test_what_is_chosen_keeps_every_promise(found, per_collection, budget):
    kept, versions = select_passages(found, per_collection, budget)
    assert all(any(alike(text, other) for other in texts(kept)) for text in texts(versions) if text)
    assert kept == [each for each in found if each in kept]
    assert kept[:1] == found[:1]
    for name in ("x", "y"):
        assert sum(each.passage.collection == name for each in kept) <= per_collection
    assert len(kept) <= 1 or sum(map(estimated_tokens, texts(kept))) <= budget
    for place, each in enumerate(kept):
        assert not any(alike(each.passage.text, other) for other in texts(kept[:place]))


@given(found_passages, st.integers(1, 8), st.integers(1, 20))
def test_where_a_number_is_asked_for_it_holds_for_all_collections_together(found, k, budget):
    every, _ = select_passages(found, len(found) + 1, budget)
    assert select_passages(found, 1, budget, k)[0] == every[:k]


@given(found_passages, st.integers(1, 5), st.integers(1, 20))
def test_whatever_is_left_out_has_a_reason(found, per_collection, budget):
    kept, _ = select_passages(found, per_collection, budget)
    for place, each in enumerate(found):
        above = [other for other in kept if other in found[:place]]
        same = [o for o in above if o.passage.collection == each.passage.collection]
        reasons = (
            len(same) == per_collection,
            estimated_tokens(each.passage.text) > budget - sum(map(estimated_tokens, texts(above))),
            any(alike(each.passage.text, other) for other in texts(above)),
        )
        assert (each not in kept) == (bool(above) and any(reasons))
