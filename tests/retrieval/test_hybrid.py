"""Hybrid retrieval of one query: hints work, clauses count, and failures degrade."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.retrieval.calibrations import calibration
from toolcrib import Crib, Settings, ToolSpec
from toolcrib.build import make_dense
from toolcrib.clock import ManualClock
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.errors import EncoderError, QueryError
from toolcrib.indexers.points import FieldWeights, layout
from toolcrib.indexers.sync import ToolSync
from toolcrib.retrieval.fusion import FusionWeights
from toolcrib.retrieval.gate import Assessor, GateSettings
from toolcrib.retrieval.hybrid import HybridRetriever
from toolcrib.retrieval.learned import LearnedTools, UseData
from toolcrib.retrieval.legs import name_keys
from toolcrib.retrieval.options import FULL_PLAN, InterleaveSettings, SearchOptions
from toolcrib.retrieval.rerank import RerankSettings, tool_reranker
from toolcrib.store.base import point_id
from toolcrib.store.qdrant_edge import EdgeStore

TOOLS = [
    ToolSpec(name="send_mail", description="Send a mail to somebody."),
    ToolSpec(name="send_parcel", description="Send a parcel to somebody."),
    ToolSpec(name="read_mail", description="Read the mail of today."),
]


ANY_LEAD = 1.0
"""A reranker is asked however far the first candidate leads."""


class Recording(DeterministicEncoder):
    """The double, failing when told to."""

    broken = False

    def encode_query(self, text):
        if self.broken:
            raise EncoderError("the model is gone")
        return super().encode_query(text)


class Reversing:
    """A reranker that likes what comes last, or fails."""

    name = "reversing"

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.seen: list[str] = []

    def score(self, query, texts):
        if self.broken:
            raise RuntimeError("out of memory")
        start = len(self.seen)
        self.seen += texts
        return np.arange(start, start + len(texts), dtype=np.float32) * 2 - 2


@pytest.fixture
def encoder():
    return Recording()


@pytest.fixture
def retriever(tmp_path, encoder):
    """Make retrievers over one store that holds `TOOLS`."""
    lexical = LexicalEncoder()
    with EdgeStore.open(tmp_path, layout(encoder.dimensions)) as store:
        ToolSync(store, encoder, lexical, FieldWeights()).run([("here", tool) for tool in TOOLS])

        def make(
            weights: FusionWeights = FusionWeights(),  # noqa: B008
            reranker=None,
            rerank_settings: RerankSettings = RerankSettings(lead=ANY_LEAD),  # noqa: B008
            clock=None,
            **options,
        ):
            options["reranker"] = tool_reranker(reranker, rerank_settings, clock)
            return HybridRetriever(store, encoder, lexical, weights, clock=clock, **options)

        yield make


def ids(result):
    return [hit.id for hit in result.tools]


def test_a_failing_encoder_leaves_the_lexical_leg_and_says_so(retriever, encoder, caplog):
    encoder.broken = True
    found = retriever().find("send a parcel", SearchOptions(k=3))
    assert ids(found)[0] == "send_parcel"
    assert found.degraded == ("dense",)
    assert "the dense encoder deterministic-trigrams-64 failed" in caplog.text


@pytest.mark.parametrize("vector", [None, [1.0], np.ones((1, 64)), np.full(64, np.nan)])
def test_an_unusable_vector_leaves_the_lexical_leg(retriever, encoder, monkeypatch, vector):
    monkeypatch.setattr(encoder, "encode_query", lambda _text: vector)
    found = retriever().find("send a parcel", SearchOptions(k=3))
    assert (ids(found)[0], found.degraded) == ("send_parcel", ("dense",))


def test_rank_fusion_is_available(retriever):
    weights = FusionWeights(method="rrf")
    found = retriever(weights).find("send a parcel to somebody", SearchOptions(k=3))
    assert ids(found)[0] == "send_parcel"
    assert found.tools[0].score == pytest.approx(2 / 61)


def test_a_reranker_reorders_and_its_word_is_shown(retriever):
    plain = retriever().find("send a mail", SearchOptions(k=3))
    found = retriever(reranker=Reversing()).find("send a mail", SearchOptions(k=3, explain=True))
    assert ids(found) == ids(plain)[::-1]
    assert [hit.legs["rerank"] for hit in found.tools] == [2.0, 0.0, -2.0]
    assert "rerank" in found.took_ms
    scores = [hit.score for hit in found.tools]
    assert scores == sorted(scores, reverse=True)


def test_without_explain_no_contributions_are_shown(retriever):
    found = retriever(reranker=Reversing()).find("send a mail", SearchOptions(k=3))
    assert [hit.legs for hit in found.tools] == [{}, {}, {}]


def test_a_failing_reranker_leaves_the_first_stage_and_says_so(retriever, caplog):
    plain = retriever().find("send a mail", SearchOptions(k=3))
    found = retriever(reranker=Reversing(broken=True)).find("send a mail", SearchOptions(k=3))
    assert ids(found) == ids(plain)
    assert found.degraded == ("rerank",)
    assert "the reranker reversing failed" in caplog.text


def test_times_come_from_the_clock(retriever):
    found = retriever(clock=ManualClock(step=0.25)).find("send a mail", SearchOptions(k=1))
    stages = dict.fromkeys(("encode", "legs", "fusion", "fetch", "gate"), 250.0)
    assert found.took_ms == {**stages, "total": 1250.0}


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("create_issue", {"create_issue", "createissue"}),
        ("Create Issue", {"createissue"}),
        ("please call create_issue now", {"create_issue", "pleasecallcreateissuenow"}),
        ("use github/create-issue", {"github/create-issue", "usegithubcreateissue"}),
        ("run getUserById", {"getuserbyid", "rungetuserbyid"}),
        ("create_issueを実行", {"create_issueを実行", "createissueを実行", "create_issue"}),
        ("x" * 500, set()),
        ("?!", set()),
    ],
)
def test_the_names_that_a_query_may_be_asking_for(query, keys):
    assert name_keys(query) == keys


def test_a_selection_may_be_longer_than_a_name():
    names = [f"list_of_the_{number}th_organisation" for number in range(40)]
    assert {name.replace("_", "") for name in names} <= name_keys(f"select:{','.join(names)}")


def first_right(case: str, without: set[str]) -> int:
    """How many of a case's queries get a right tool first, some fields left out."""
    folder = ROOT / "data" / "cases" / case
    tools = [
        ToolSpec.model_validate({k: v for k, v in json.loads(line).items() if k not in without})
        for line in (folder / "tools.jsonl").read_text().splitlines()
    ]
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    with Crib.open(":memory:", settings=Settings()) as crib:
        crib.index_tools(tools)
        found = [crib.find_tools(query["text"], k=1, gate=False) for query in queries]
        firsts = [result.tools[0].id for result in found]
    return sum(first in query["relevant"] for first, query in zip(firsts, queries, strict=True))


EXAMPLES, ANTI_PATTERNS = "success_examples", "anti_patterns"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "hint", "queries"),
    [
        ("examples_explain_jargon", EXAMPLES, 13),
        ("anti_patterns_hold_back", ANTI_PATTERNS, 14),
        ("twins_without_a_difference", EXAMPLES, 10),
    ],
)
def test_hints_mend_what_the_plain_index_gets_wrong(case, hint, queries):
    plain = first_right(case, without={EXAMPLES, ANTI_PATTERNS})
    hinted = first_right(case, without={EXAMPLES, ANTI_PATTERNS} - {hint})
    assert plain <= 0.6 * queries
    assert hinted >= 0.8 * queries


def judged(retriever, calibration, **options):
    """A retriever whose answers are judged by this calibration."""
    assessor = Assessor(retriever()._store, GateSettings(), calibration)
    return retriever(assessor=assessor, **options)


def test_probabilities_follow_the_order_of_the_reranker_and_the_confidence_stays(retriever):
    made = calibration({})
    plain = judged(retriever, made).find("send a mail", SearchOptions(k=3, gate=False))
    found = judged(retriever, made, reranker=Reversing()).find(
        "send a mail", SearchOptions(k=3, gate=False)
    )
    assert ids(found) == ids(plain)[::-1]
    likely = [hit.probability for hit in found.tools]
    assert likely == sorted(likely, reverse=True)
    assert likely[0] != plain.tools[0].probability
    assert found.confidence == plain.confidence


def test_what_a_reranker_never_saw_weighs_as_much_whether_it_is_returned_or_not(retriever):
    made, options = calibration({}), RerankSettings(depth=1, lead=ANY_LEAD)
    one, three = (
        judged(retriever, made, reranker=Reversing(), rerank_settings=options)
        .find("send a mail", SearchOptions(k=k, gate=False))
        .confidence
        for k in (1, 3)
    )
    assert one == pytest.approx(three)


def test_each_of_many_tied_tools_has_a_probability():
    query = "sing a song"
    tools = [
        ToolSpec(name=f"dock_{n}", description=f"Open dock {n}.", anti_patterns=[query])
        for n in range(60)
    ]
    with Crib.open(":memory:") as crib:
        crib.index_tools(tools)
        found = crib.find_tools(query, k=30)
    assert [hit.score for hit in found.tools] == [0.0] * 30
    assert None not in [hit.probability for hit in found.tools]


@pytest.mark.parametrize("reranker", [None, Reversing()])
def test_evidence_is_what_answers_are_judged_by(retriever, reranker):
    made = calibration({})
    asked = judged(retriever, made, reranker=reranker)
    found = asked.find("send a mail", SearchOptions(k=3, gate=False))
    if reranker is not None:
        reranker.seen.clear()
    evidence = asked.evidence("send a mail")
    assert [tool_id for tool_id, _ in evidence.tools] == ids(found)
    assert made.probabilities(evidence.features, found.confidence).tolist() == pytest.approx(
        [hit.probability for hit in found.tools]
    )


@pytest.mark.parametrize("query", ["", " \n"])
def test_an_empty_query_has_no_evidence(retriever, query):
    with pytest.raises(QueryError):
        retriever().evidence(query)


CLAUSE_TOOLS = {
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
        opened.index_tools([ToolSpec(name=name, description=d) for name, d in CLAUSE_TOOLS.items()])
        yield opened


@pytest.fixture(scope="module")
def blurred(crib: Crib) -> Crib:
    """The same index, asked by whole queries only."""
    settings = with_share(Settings(), 0.0)
    return Crib.over(crib.tools.store, make_dense(settings), settings)


def ranking(crib: Crib, query: str) -> list[str]:
    return [hit.id for hit in crib.find_tools(query, k=len(CLAUSE_TOOLS), gate=False).tools]


def contributions(crib: Crib, query: str) -> list[dict[str, float]]:
    found = crib.find_tools(query, k=len(CLAUSE_TOOLS), gate=False, explain=True)
    return [hit.legs for hit in found.tools]


def test_both_of_two_things_asked_for_come_first(crib: Crib, blurred: Crib) -> None:
    wanted = {"play_music", "transfer_money"}
    assert set(ranking(crib, JAZZ_AND_BILL)[:2]) == wanted
    assert set(ranking(blurred, JAZZ_AND_BILL)[:2]) != wanted


def test_a_query_for_one_thing_is_answered_as_without_clauses(crib: Crib, blurred: Crib) -> None:
    for query in ASKED.values():
        clear, plain = (
            one.find_tools(query, k=len(CLAUSE_TOOLS), gate=False, explain=True).tools
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


def test_clauses_raise_no_score_where_the_dense_leg_is_off(crib: Crib) -> None:
    assert any("clause_gain" in legs for legs in contributions(crib, JAZZ_AND_BILL))
    settings = Settings(fusion=FusionWeights(dense=0.0))
    lexical = Crib.over(crib.tools.store, make_dense(settings), settings)
    assert all("clause_gain" not in legs for legs in contributions(lexical, JAZZ_AND_BILL))


class Blind(BundledEncoder):
    """The shipped encoder, which fails where it is asked for clauses."""

    def encode_clauses(self, text):
        raise EncoderError("no token vectors")


class Flat(BundledEncoder):
    """The shipped encoder, which gives one vector where it is asked for rows."""

    def encode_clauses(self, text):
        return self.encode_query(text)


@pytest.mark.parametrize(
    ("encoder", "words"), [(Blind(), "no token vectors"), (Flat(), "of shape")]
)
def test_a_failure_over_clauses_leaves_the_lexical_leg_and_says_so(
    crib: Crib, caplog, encoder, words
) -> None:
    found = Crib.over(crib.tools.store, encoder, Settings()).find_tools(
        "play a song, then pay", k=3, gate=False
    )
    assert found.degraded == ("dense",)
    assert {hit.id for hit in found.tools} == {"play_music", "transfer_money"}
    assert words in caplog.text


class Bilingual(DeterministicEncoder):
    """An encoder that knows what the words in capitals are in English."""

    cosine_factor = 0.5

    def translate(self, text):
        return text.lower() if text.isupper() else None


def test_a_translated_query_is_searched_for_by_its_english_words_and_at_lower_cosines(indexed):
    by = HybridRetriever(indexed, Bilingual(), LexicalEncoder(), FusionWeights())
    plan = (FULL_PLAN,)
    plain, translated = by.encode("send mail", plan), by.encode("SEND MAIL", plan)
    assert plain.cosine_factor == 1 > translated.cosine_factor == Bilingual.cosine_factor
    np.testing.assert_array_equal(translated.lexical.indices, plain.lexical.indices)


# -- a second ranking ----------------------------------------------------------------------------

QUERY = "send something to somebody"


def ranked(by, plan=FULL_PLAN):
    found = by.find(QUERY, SearchOptions(k=3), plan)
    return [(hit.id, hit.score) for hit in found.tools]


def test_a_second_ranking_has_its_own_weights(retriever):
    words = FusionWeights(dense=0.0, lexical=1.0)
    by_words = InterleaveSettings("by words", fusion=words).plan
    assert ranked(retriever(), by_words) == ranked(retriever(weights=words)) != ranked(retriever())


def test_a_second_ranking_does_without_the_reranker_where_it_is_told_to(retriever):
    first = retriever(reranker=Reversing())
    plain = InterleaveSettings("plain", rerank=False).plan
    assert ranked(first, plain) == ranked(retriever()) != ranked(first)
    assert first.rerank_stage == "rerank"


def test_a_second_ranking_forgets_what_use_has_taught_where_it_is_told_to(retriever):
    near = {"1": DeterministicEncoder().encode_query(QUERY)}
    taught = retriever(
        learned=UseData(LearnedTools.of({point_id("read_mail"): ((1.0, 1.0), near)}))
    )
    assert ranked(taught) != ranked(retriever())
    assert ranked(taught, InterleaveSettings("untaught", learning=False).plan) == ranked(
        retriever()
    )
    assert ranked(taught, InterleaveSettings("plain", rerank=False).plan) == ranked(taught)


def test_a_second_ranking_is_taught_though_rank_fusion_comes_first(retriever):
    near = {"1": DeterministicEncoder().encode_query(QUERY)}
    learned = UseData(LearnedTools.of({point_id("read_mail"): ((1.0, 1.0), near)}))
    by_ranks = FusionWeights(method="rrf")
    taught = retriever(weights=by_ranks, learned=learned)
    assert ranked(taught) == ranked(retriever(weights=by_ranks))
    convex = InterleaveSettings("convex", fusion=FusionWeights()).plan
    assert ranked(taught, convex) == ranked(retriever(learned=learned))
