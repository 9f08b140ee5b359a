"""What became of one request: the only thing that metrics, traces and logs are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["UNMATCHED", "Served"]

UNMATCHED = "unmatched"
"""The route of what no endpoint takes."""


@dataclass(frozen=True, slots=True)
class Served:
    """A request that was answered.

    `route` is the template, never the path: that may name a tool. `stages` are milliseconds by
    stage, in their order. `turned_away` says why it was not worked on. `text` is the user's, and
    for traces alone, where the settings allow it. `traceparent` came with the request.
    """

    request_id: str
    method: str
    route: str
    status: int
    took_ms: float
    key_id: str = ""
    namespace: str = ""
    stages: Mapping[str, float] = field(default_factory=dict[str, float])
    verdict: str | None = None
    degraded: tuple[str, ...] = ()
    turned_away: str | None = None
    text: str | None = None
    traceparent: str | None = None
