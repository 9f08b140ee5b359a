"""Answerability: what is known of a query as a whole, worked by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import Crib, FindResult, Settings, ToolSpec
from toolcrib.retrieval.calibration import (
    LEAD_DEPTH_TOOLS,
    QUERY_FEATURES,
    USUAL_DENSE_SCORE,
    USUAL_FUSED_SCORE,
    Answerability,
    default_calibration,
    query_features,
)
from toolcrib.retrieval.fusion import Candidates, FusionWeights, LegScores, rank
from toolcrib.retrieval.gate import UNSUPPORTED_LANGUAGE

ANY = (1.0,) * len(QUERY_FEATURES)


def _found(*legs: LegScores, fused: tuple[float, ...] = (), terms: int = 2) -> Candidates:
    scores = dict(enumerate(legs))
    ranking = rank(dict(enumerate(fused or [0.5] * len(legs))), set())
    return Candidates(ranking, scores, terms)


def _known(found: Candidates) -> dict[str, float]:
    return dict(zip(QUERY_FEATURES, query_features(found).tolist(), strict=True))


class TestFeatures:
    """Of all candidates, whichever comes first."""

    def test_the_best_cosine_is_that_of_tool_example_or_half_the_clause(self) -> None:
        assert _known(_found(LegScores(0.2), LegScores(0.6)))["top_meaning"] == 0.6
        assert _known(_found(LegScores(0.2, examples=0.7)))["top_meaning"] == 0.7
        assert _known(_found(LegScores(0.2, clauses=0.8)))["top_meaning"] == pytest.approx(0.5)

    def test_leads_are_over_the_last_of_the_list_or_what_usually_stands_there(self) -> None:
        few = _known(_found(LegScores(0.9), LegScores(0.8), fused=(0.6, 0.5)))
        assert few["meaning_lead"] == pytest.approx(0.9 - USUAL_DENSE_SCORE)
        assert few["fused_lead"] == pytest.approx(0.6 - USUAL_FUSED_SCORE)
        many = [LegScores(0.9 - 0.01 * place) for place in range(LEAD_DEPTH_TOOLS + 5)]
        assert _known(_found(*many))["meaning_lead"] == pytest.approx(0.01 * (LEAD_DEPTH_TOOLS - 1))

    def test_the_best_words_count_as_they_are_and_by_the_querys_length(self) -> None:
        known = _known(_found(LegScores(0.1, 30.0), LegScores(0.9), terms=5))
        assert known["top_lexical"] == pytest.approx(1 - math.exp(-0.3))
        assert known["top_term"] == pytest.approx(6.0)

    @given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 500)), max_size=40))
    def test_they_are_always_numbers_and_so_is_the_probability(
        self, legs: list[tuple[float, float]]
    ) -> None:
        known = query_features(_found(*(LegScores(*leg) for leg in legs)))
        assert np.isfinite(known).all()
        for weights in (ANY, tuple(-1e6 for _ in ANY)):
            assert 0 < Answerability(weights=weights, offset=0.0).probability(known) < 1


TOOLS = [
    ToolSpec(name="send_mail", description="Send a mail to somebody."),
    ToolSpec(name="create_invoice", description="Create an invoice for a customer."),
    ToolSpec(name="resize_image", description="Change the size of an image."),
    ToolSpec(
        name="consultar_nomina",
        description="Consulta la nómina de una persona: salario neto, retenciones y mes de pago.",
    ),
]


@pytest.fixture(scope="module")
def real() -> Iterator[Crib]:
    """The bundled encoder, a registry in English, and one tool in Spanish."""
    with Crib.open(":memory:", settings=Settings()) as crib:
        crib.index_tools(*TOOLS)
        yield crib


def _asked() -> list[tuple[str, str]]:
    lines = Path(__file__).with_name("languages.jsonl").read_text(encoding="utf-8").splitlines()
    return [(row["language"], row["text"]) for row in map(json.loads, lines)]


class TestLanguage:
    """A query that the encoder cannot read."""

    @pytest.mark.parametrize("language", ["es", "pt", "de", "fr", "zh", "other"])
    def test_no_other_language_is_sure_of_the_one_tool_in_it(
        self, real: Crib, language: str
    ) -> None:
        threshold = default_calibration().threshold
        told = [real.find_tools(text) for its, text in _asked() if its == language]
        marked = [found for found in told if UNSUPPORTED_LANGUAGE in found.degraded]
        assert len(marked) >= 0.9 * len(told)
        assert all((found.confidence or 0.0) < threshold for found in marked)
        assert all("multilingual" in found.reason for found in marked)

    def test_english_with_foreign_names_and_ids_is_not_marked(self, real: Crib) -> None:
        told = [real.find_tools(text) for its, text in _asked() if its == "en"]
        assert not [f.query for f in told if UNSUPPORTED_LANGUAGE in f.degraded]

    def test_words_that_the_tool_has_bear_it_out(self, real: Crib) -> None:
        def sure(text: str) -> FindResult:
            return real.find_tools(text, gate=False)

        ours, other = (
            sure("consulta el salario neto de una persona"),
            sure("apaga las luces de mi casa"),
        )
        assert UNSUPPORTED_LANGUAGE in ours.degraded
        assert (ours.confidence or 0) > 2 * (other.confidence or 0)

    def test_words_outvote_an_encoder_that_cannot_read(self, real: Crib) -> None:
        found = real.find_tools("consulta el salario neto de una persona", explain=True)
        first = found.tools[0]
        words = 1 - math.exp(-first.legs["lexical"] / FusionWeights().bm25_scale)
        cosine = first.legs["dense"]
        assert words > 0
        assert first.score == pytest.approx(0.1 * cosine + 0.9 * words, abs=0.02)

    def test_an_encoder_that_does_not_say_so_reads_everything(self, crib: Crib) -> None:
        crib.index_tools(*TOOLS)
        assert crib.find_tools("apaga las luces de mi casa").degraded == ()
