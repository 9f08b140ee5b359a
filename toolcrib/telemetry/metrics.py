"""Prometheus metrics of a service, in a registry of their own; no label ever names a tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from toolcrib.extras import import_extra
from toolcrib.telemetry.served import UNMATCHED, Served

__all__ = ["Metrics"]

FEATURE, EXTRA = "toolcrib serve", "service"

METHODS = frozenset({"GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"})
"""Others are counted as one: anybody can make them up."""

REQUEST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
STAGE_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)


class Metrics:
    """Counts what is served. Safe for several threads."""

    def __init__(self) -> None:
        self._library = library = import_extra("prometheus_client", FEATURE, EXTRA)
        registry: Any = library.CollectorRegistry()
        library.ProcessCollector(registry=registry)

        def counter(name: str, says: str, *labels: str) -> Any:
            return _Family(library.Counter(f"toolcrib_{name}", says, labels, registry=registry))

        def histogram(name: str, says: str, label: str, buckets: tuple[float, ...]) -> Any:
            made = library.Histogram(
                f"toolcrib_{name}", says, (label,), registry=registry, buckets=buckets
            )
            return _Family(made)

        self._registry = registry
        self._requests = counter("requests", "Requests answered.", "method", "route", "status")
        self._turned_away = counter("turned_away", "Requests not worked on.", "reason")
        self._verdicts = counter("verdicts", "What the gate made of answers.", "verdict")
        self._degraded = counter("degraded", "Answers that lack something.", "stage")
        self._took = histogram("request_seconds", "Time to an answer.", "route", REQUEST_S)
        self._stages = histogram("stage_seconds", "Time of a stage.", "stage", STAGE_S)

    def watch(self, name: str, says: str, value: Callable[[], float]) -> None:
        """Show a value that is asked for whenever metrics are read; left out where that fails."""
        self._registry.register(_Watched(f"toolcrib_{name}", says, value))

    def count(self, served: Served) -> None:
        """Take one more request into account."""
        method = served.method if served.method in METHODS else "OTHER"
        self._requests(method, served.route, str(served.status)).inc()
        if served.route != UNMATCHED:
            self._took(served.route).observe(served.took_ms / 1000)
        if served.turned_away is not None:
            self._turned_away(served.turned_away).inc()
        if served.verdict is not None:
            self._verdicts(served.verdict).inc()
        for stage in served.degraded:
            self._degraded(stage).inc()
        for stage, took_ms in served.stages.items():
            self._stages(stage).observe(took_ms / 1000)

    def text(self) -> tuple[bytes, str]:
        """All metrics in Prometheus' text format, and its content type."""
        return self._library.generate_latest(self._registry), self._library.CONTENT_TYPE_LATEST


class _Family:
    """A metric by its labels; each is looked up once, since that costs more than counting."""

    def __init__(self, metric: Any) -> None:
        self._metric = metric
        self._known: dict[tuple[str, ...], Any] = {}

    def __call__(self, *labels: str) -> Any:
        """The one with these labels."""
        known = self._known.get(labels)
        if known is None:
            known = self._known[labels] = self._metric.labels(*labels)
        return known


class _Watched:
    """A collector of one value."""

    def __init__(self, name: str, says: str, value: Callable[[], float]) -> None:
        self._family: Any = import_extra("prometheus_client.core", FEATURE, EXTRA).GaugeMetricFamily
        self._name = name
        self._says = says
        self._value = value

    def describe(self) -> list[Any]:
        """Nothing: to look at the value is what tells."""
        return []

    def collect(self) -> Iterator[Any]:
        """The value as it is now."""
        try:
            now = self._value()
        except Exception:  # noqa: BLE001 -- metrics are most wanted while something fails
            return
        yield self._family(self._name, self._says, value=now)
