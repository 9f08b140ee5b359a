"""The development queries choose: by nDCG@10, the mean over data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.training.tiny import base, jargon
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.indexers.points import dense_text
from toolcrib.training.development import ranking_evaluator, retrieval_evaluator
from toolcrib.training.examples import from_labels
from toolcrib.training.loop import METRIC

GUIDE = DeterministicEncoder()
NAME = METRIC.removeprefix("eval_")
SECOND = 1 / np.log2(3)
"""nDCG of a right answer in the second place."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(base(tmp_path_factory.mktemp("base")), device="cpu")


def _asked_for(name: str, other: int) -> DataSet:
    """Two tools, each asked for in the words of the tool that is so many places further."""
    tools = jargon().tools[:2]
    texts = [dense_text(tools[(at + other) % 2]) for at in range(2)]
    queries = [
        LabelledQuery(f"q{at}", texts[at], "dev", {tool.id: 1}) for at, tool in enumerate(tools)
    ]
    return DataSet(name, tools, tuple(queries))


class Oracle:
    """What a cross-encoder is to the library: it scores pairs, here by a rule."""

    model_card_data = property(lambda self: self)

    def __init__(self, right: Sequence[tuple[str, str]]) -> None:
        self._right = set(right)
        self.asked: list[tuple[str, str]] = []

    def predict(self, pairs: Sequence[Sequence[str]], **_options: Any) -> Any:
        self.asked += [(query, text) for query, text in pairs]
        return np.array([float((query, text) in self._right) for query, text in pairs])

    def set_evaluation_metrics(self, *_about: Any) -> None:
        """Nothing: no card is written."""


class TestRetrieval:
    """For an encoder: each query among the tools of its own data set."""

    def test_a_query_in_a_tools_own_words_finds_it(self, model: Any) -> None:
        assert retrieval_evaluator([_asked_for("a", 0)])(model) == {NAME: pytest.approx(1)}

    def test_a_query_in_the_other_tools_words_finds_it_second(self, model: Any) -> None:
        assert retrieval_evaluator([_asked_for("a", 1)])(model) == {NAME: pytest.approx(SECOND)}

    def test_the_mean_over_data_sets_is_the_figure(self, model: Any) -> None:
        found = retrieval_evaluator([_asked_for("a", 0), _asked_for("b", 1)])(model)
        assert found == {NAME: pytest.approx((1 + SECOND) / 2)}

    def test_sets_without_development_queries_have_no_say(self, model: Any) -> None:
        found = retrieval_evaluator([jargon("train", "test"), _asked_for("a", 1)])(model)
        assert found == {NAME: pytest.approx(SECOND)}

    def test_without_any_there_is_no_evaluator(self) -> None:
        assert retrieval_evaluator([]) is None
        assert retrieval_evaluator([jargon("train", "test")]) is None


class TestRanking:
    """For a reranker: each query's best candidates, the right one among them."""

    def test_one_that_knows_the_right_text_gets_full_marks(self) -> None:
        data = jargon("dev")
        labels = from_labels(data, data.queries)
        right = [(e.query, labels.documents[e.positive]) for e in labels.examples]
        assert ranking_evaluator([data], GUIDE)(Oracle(right))[NAME] == pytest.approx(1)

    def test_one_that_always_prefers_a_wrong_text_gets_less(self) -> None:
        data = jargon("dev")
        labels = from_labels(data, data.queries)
        wrong = [
            (e.query, text)
            for e in labels.examples
            for text in labels.documents
            if text != labels.documents[e.positive]
        ]
        assert ranking_evaluator([data], GUIDE)(Oracle(wrong))[NAME] < 0.5

    def test_each_query_is_asked_of_twenty_texts(self) -> None:
        data, oracle = jargon("dev"), Oracle([])
        ranking_evaluator([data], GUIDE)(oracle)
        queries = [query for query, _ in oracle.asked]
        assert {queries.count(query.text) for query in data.queries} == {20}

    def test_without_development_queries_there_is_no_evaluator(self) -> None:
        assert ranking_evaluator([jargon("train")], GUIDE) is None
