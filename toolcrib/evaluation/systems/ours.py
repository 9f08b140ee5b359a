"""Our own systems: toolcrib complete, and ablations without one part each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from toolcrib import __version__, build
from toolcrib.crib import Crib
from toolcrib.errors import SettingsError
from toolcrib.evaluation.calibrate import learn
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.systems.base import OWN_SYSTEMS, Answer, Ranked, System
from toolcrib.indexers.enrichment import prepare_entries
from toolcrib.indexers.points import layout
from toolcrib.learning.runs import Run, tool_use
from toolcrib.records import ToolSpec
from toolcrib.retrieval.learned import UseData
from toolcrib.settings import Settings
from toolcrib.store.base import Store, point_id
from toolcrib.store.filters import HasId

FUSION_WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "lexical": {"dense": 0.0, "lexical": 1.0},
    "dense": {"dense": 1.0, "lexical": 0.0, "examples": 0.0, "anti_patterns": 0.0},
    "without-anti-patterns": {"anti_patterns": 0.0},
    "without-prerequisites": {"prerequisites": 0.0},
    "without-companions": {"companions": 0.0},
}
"""Weights by which systems differ from the settings."""


class OwnSystems:
    """Factory of our systems; those that differ only in their search share one index.

    `crib`: an existing index, for the systems that search it unchanged.
    """

    def __init__(self, settings: Settings, crib: Crib | None = None) -> None:
        self._settings = settings
        self._crib = crib
        self._dense = build.make_dense(settings)
        self._stores: dict[bool, tuple[tuple[str, ...], Store]] = {}

    def make(self, name: str, enrichment: str | None = None) -> System:
        """System of this name, over tools that a file enriches if one is named.

        Raises:
            SettingsError: the name is unknown, or needs a reranker that the settings lack.
        """
        if name not in OWN_SYSTEMS:
            raise SettingsError(f"there is no system {name!r}; known are {', '.join(OWN_SYSTEMS)}")
        settings = self._settings
        if name == "fusion+rerank" and settings.encoder.reranker is None:
            raise SettingsError("fusion+rerank: the settings name no encoder.reranker; name one")
        if name in {"lexical", "dense", "fusion"}:
            settings = settings.without_reranker()
        if name in FUSION_WEIGHTS:
            fusion = replace(settings.fusion, **FUSION_WEIGHTS[name])
            settings = settings.model_copy(update={"fusion": fusion})
        return _OwnSystem(settings, name != "without-examples", enrichment, self)

    def open(self, tools: Sequence[ToolSpec], system: _OwnSystem) -> Crib:
        """Crib over an index of these tools, created once for all variants."""
        is_own = system.settings == self._settings and system.with_examples
        if self._crib is not None and is_own and system.enrichment is None:
            return self._crib
        if system.enrichment is not None:
            given = [("", tool) for tool in tools]
            entries, _ = prepare_entries(given, None, (), [system.enrichment])
            tools = [item for _, item in entries if isinstance(item, ToolSpec)]
        store = self._store(tools, with_examples=system.with_examples)
        return Crib.over(store, self._dense, system.settings)

    def close(self) -> None:
        """Close all indexes."""
        for _, store in self._stores.values():
            store.close()
        self._stores.clear()

    def _store(self, tools: Sequence[ToolSpec], *, with_examples: bool) -> Store:
        digests = tuple(tool.digest for tool in tools)
        held = self._stores.get(with_examples)
        if held is not None and held[0] == digests:
            return held[1]
        if held is not None:
            held[1].close()
        store = build.open_store(":memory:", self._settings, layout(self._dense.dimensions))
        self._stores[with_examples] = (digests, store)
        bare = {} if with_examples else {"success_examples": ()}
        given = [tool.model_copy(update=bare) for tool in tools]
        Crib.over(store, self._dense, self._settings).index_tools(given)
        return store


@dataclass(eq=False)
class _OwnSystem:
    """One variant, measured by `Crib.find_tools`, before its gate withholds tools.

    `enrichment`: a file that enriches the tools.
    """

    settings: Settings
    with_examples: bool
    enrichment: str | None
    systems: OwnSystems
    version = f"toolcrib {__version__}"
    _crib: Crib = field(init=False)

    def index(self, tools: Sequence[ToolSpec]) -> None:
        self._crib = self.systems.open(tools, self)

    def learn(self, queries: Sequence[LabelledQuery]) -> None:
        """Fit a head, if possible, and the confidence, for this measurement only."""
        self._crib.tools.use_calibration(learn(self._crib, queries).calibration)

    def search(self, query: str, k: int, among: Sequence[str] | None = None) -> Answer:
        if not query.strip() or k < 1:
            return Answer(())
        where = None if among is None else HasId(frozenset(map(point_id, among)))
        found = self._crib.find_tools(query, k, where=where, gate=False)
        ranked = tuple(Ranked(hit.id, hit.score, hit.probability) for hit in found.tools)
        return Answer(ranked, found.confidence, found.verdict, found.degraded)

    def complete(self, query: str, coverage: float) -> tuple[str, ...]:
        found = self._crib.find_tools(query, "auto", coverage=coverage, gate=False)
        return tuple(hit.id for hit in found.tools)

    def find_step(self, said: str, k: int, called: Sequence[str], task: str) -> tuple[str, ...]:
        found = self._crib.find_tools(said, k, called=called, task=task, gate=False)
        return tuple(hit.id for hit in found.tools)

    def learn_runs(self, runs: Sequence[Sequence[str]]) -> bool:
        made = (Run(str(place), 0.0, "", tuple(run)) for place, run in enumerate(runs))
        use = tool_use(made, 0.0)
        self._crib.tools.use_learned(UseData(use=use))
        return use is not None

    def close(self) -> None:
        """Keep the shared index; `OwnSystems.close` closes it."""
