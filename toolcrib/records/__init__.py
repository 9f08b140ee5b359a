"""Records: tools, scopes, turns and answers, as the library, HTTP and `--json` have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.records.answers import (
    FindResult,
    NeedResult,
    ToolHit,
    ToolLink,
    ToolLinks,
    ToolSelection,
    Verdict,
)
from toolcrib.records.knowledge import (
    Collection,
    CollectionHit,
    KnowledgeResult,
    Passage,
    PassageHit,
)
from toolcrib.records.scope import SENSITIVITIES, Scope, Sensitivity
from toolcrib.records.tools import Enrichment, ToolSpec
from toolcrib.records.turns import (
    AgentDecision,
    Attachment,
    Context,
    Decision,
    Entity,
    Guidance,
    GuidanceInjection,
    Message,
    Outcome,
    Route,
    RouteKind,
    TrajectoryEvent,
    TrajectoryPattern,
    Turn,
)

if TYPE_CHECKING:
    from toolcrib.records.reports import (
        Facets,
        IndexProgress,
        IndexReport,
        Refusal,
    )

__all__ = [
    "SENSITIVITIES",
    "AgentDecision",
    "Attachment",
    "Collection",
    "CollectionHit",
    "Context",
    "Decision",
    "Enrichment",
    "Entity",
    "Facets",
    "FindResult",
    "Guidance",
    "GuidanceInjection",
    "IndexProgress",
    "IndexReport",
    "KnowledgeResult",
    "Message",
    "NeedResult",
    "Outcome",
    "Passage",
    "PassageHit",
    "Refusal",
    "Route",
    "RouteKind",
    "Scope",
    "Sensitivity",
    "ToolHit",
    "ToolLink",
    "ToolLinks",
    "ToolSelection",
    "ToolSpec",
    "TrajectoryEvent",
    "TrajectoryPattern",
    "Turn",
    "Verdict",
]


def __getattr__(name: str) -> Any:
    """Import reports when one is first used: a search has none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from toolcrib.records import reports

    return getattr(reports, name)
