"""semantic-router: a route a tool, found by its utterances; dense alone, or with TF-IDF."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

from benchmarks.peers.names import spaced
from toolcrib.encoders.base import DenseEncoder
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.systems.base import Baseline
from toolcrib.records import ToolSpec

Aggregation: TypeAlias = Literal["mean", "max", "sum"]
AGGREGATIONS: tuple[Aggregation, ...] = ("mean", "max", "sum")
MOST_LEARNED = 500

_LEAST = 5
"""The library's own `top_k`: how many utterances it finds before it ranks their routes."""


class SemanticRouter(Baseline):
    """`IndexedRouter`: a route's score is the mean cosine of those of its utterances it found.

    Utterances are the tool's success examples and `name: description`. `top_k` is raised from
    the library's 5 to what `k` routes need; all else is its default. Where it may learn, it
    takes the aggregation (mean, max or sum) that has the right route first most often; its own
    `fit` sets thresholds, which change no ranking.
    """

    name = "semantic-router"
    package = "semantic-router"
    modules = ("semantic_router",)

    def __init__(self, encoder: DenseEncoder) -> None:
        super().__init__(encoder)
        self._router: Any = None
        self._routes: list[Any] = []
        self._most = 1

    def _build(self, tools: Sequence[ToolSpec]) -> None:
        from semantic_router import Route

        self._routes = [Route(name=spec.id, utterances=_utterances(spec)) for spec in tools]
        self._most = max(len(route.utterances) for route in self._routes)
        self._router = self._aggregating(AGGREGATIONS[0])

    def _aggregating(self, aggregation: Aggregation) -> Any:
        from semantic_router import IndexedRouter

        return IndexedRouter(
            encoder=_wrapped(self._encoder),
            routes=self._routes,
            sparse_encoder=self._sparse(),
            aggregation=aggregation,
        )

    def learn(self, queries: Sequence[LabelledQuery]) -> None:
        """Choose the aggregation by up to 500 answerable queries."""
        asked = [query for query in queries if query.relevant][:MOST_LEARNED]
        best = -1
        routers = [self._aggregating(aggregation) for aggregation in AGGREGATIONS]
        for router in routers:
            self._router, before = router, self._router
            first = [self.search(query.text, 1).ranked for query in asked]
            right = sum(
                bool(ranked) and ranked[0].id in query.relevant
                for ranked, query in zip(first, asked, strict=True)
            )
            best, self._router = (right, router) if right > best else (best, before)

    def _sparse(self) -> Any:
        return None

    def _rank(self, query: str, depth: int) -> Iterable[tuple[str, float]]:
        # This many utterances belong to at least `depth` routes.
        self._router.top_k = max(_LEAST, depth * self._most)
        return ((each.name, each.confidence) for each in self._router(query, limit=None)[:depth])

    def close(self) -> None:
        """Drop the router and its index."""
        super().close()
        self._router = None


class HybridRouter(SemanticRouter):
    """`IndexedRouter` with the library's TF-IDF beside the vectors, `alpha` 0.7 as it comes.

    Its BM25 would fetch a tokeniser from the network; TF-IDF is its other fitted encoder.
    """

    name = "semantic-router-hybrid"

    def _sparse(self) -> Any:
        from semantic_router.encoders import TfidfEncoder

        return TfidfEncoder()


def _utterances(spec: ToolSpec) -> list[str]:
    said = f"{spaced(spec.name)}: {spec.description}" if spec.description else spaced(spec.name)
    return list(dict.fromkeys([*spec.success_examples, said]))


def _wrapped(encoder: DenseEncoder) -> Any:
    """The encoder as the library's own kind, which knows queries from documents."""
    from semantic_router.encoders import DenseEncoder as TheirEncoder
    from semantic_router.encoders.base import AsymmetricDenseMixin

    class Wrapped(TheirEncoder, AsymmetricDenseMixin):
        def encode_queries(self, docs: list[str]) -> list[list[float]]:
            return [encoder.encode_query(text).tolist() for text in docs]

        def encode_documents(self, docs: list[str]) -> list[list[float]]:
            return encoder.encode_documents(docs).tolist()

    return Wrapped(name=encoder.name)
