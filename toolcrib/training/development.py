"""The queries that choose: which checkpoint is kept, and when training ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcrib.encoders.base import DenseEncoder
from toolcrib.evaluation.dataset import DataSet
from toolcrib.training.examples import TrainingData, from_labels, sampled
from toolcrib.extras import import_extra
from toolcrib.training.negatives import mine
from toolcrib.training.splits import DEV

__all__ = ["NAME", "ranking_evaluator", "retrieval_evaluator"]

FEATURE = "choosing on development queries"
NAME = "dev"
LIMIT = 300
"""Queries of a data set that are asked at each check."""

CANDIDATES = 19
"""Texts that a reranker orders beside the right one."""


def retrieval_evaluator(data_sets: Sequence[DataSet], seed: int = 0) -> Any:
    """Asks each data set's development queries of its own tools; None where there are none.

    The mean of nDCG@10 over the data sets decides.
    """
    module = import_extra("sentence_transformers.sentence_transformer.evaluation", FEATURE, "train")
    parts = _parts(data_sets, seed)
    if not parts:
        return None
    return _mean_of_sets([_retrieval(module, part) for part in parts])


def ranking_evaluator(data_sets: Sequence[DataSet], guide: DenseEncoder, seed: int = 0) -> Any:
    """Orders each development query's best twenty candidates; None where there are no queries."""
    module = import_extra("sentence_transformers.cross_encoder.evaluation", FEATURE, "train")
    parts = _parts(data_sets, seed)
    if not parts:
        return None
    data, _ = mine(parts, guide, count=CANDIDATES, seed=seed)
    samples = [
        {
            "query": example.query,
            "positive": [data.documents[example.positive]],
            "negative": [data.documents[place] for place in example.negatives],
        }
        for example in data.examples
    ]
    return module.CrossEncoderRerankingEvaluator(samples, at_k=10, name=NAME, write_csv=False)


def _parts(data_sets: Sequence[DataSet], seed: int) -> list[TrainingData]:
    found = [sampled(from_labels(data, data.split(DEV)), LIMIT, seed) for data in data_sets]
    return [part for part in found if part.examples]


def _retrieval(module: Any, part: TrainingData) -> Any:
    queries = {str(place): example.query for place, example in enumerate(part.examples)}
    relevant = {
        str(place): {str(text) for text in example.relevant}
        for place, example in enumerate(part.examples)
    }
    corpus = {str(place): text for place, text in enumerate(part.documents)}
    return module.InformationRetrievalEvaluator(
        queries,
        corpus,
        relevant,
        ndcg_at_k=[10],
        mrr_at_k=[10],
        map_at_k=[10],
        accuracy_at_k=[1],
        precision_recall_at_k=[10],
        name=part.examples[0].source,
        write_csv=False,
    )


def _mean_of_sets(evaluators: Sequence[Any]) -> Any:
    """Several evaluators as one figure (the library's own takes each one's first: accuracy)."""
    base = import_extra("sentence_transformers.base.evaluation", FEATURE, "train").BaseEvaluator

    class MeanOfSets(base):
        """The mean nDCG@10 over data sets."""

        def __call__(self, model: Any, *_where: Any, **_when: Any) -> dict[str, float]:
            found = [
                evaluator(model)[f"{evaluator.name}_cosine_ndcg@10"] for evaluator in evaluators
            ]
            return {f"{NAME}_ndcg@10": sum(found) / len(found)}

    return MeanOfSets()
