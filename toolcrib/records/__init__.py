"""The nouns: what a tool is, who asks, what a turn is, and what comes back."""

from toolcrib.records.answers import (
    Alternates,
    FindResult,
    NeedResult,
    ToolHit,
    ToolPage,
    ToolSelection,
    Verdict,
)
from toolcrib.records.knowledge import (
    Collection,
    CollectionHit,
    CollectionList,
    CountedCollection,
    KnowledgeResult,
    Passage,
    PassageHit,
)
from toolcrib.records.reports import (
    Facets,
    IndexProgress,
    IndexReport,
    Refusal,
    Removed,
    ServiceInfo,
)
from toolcrib.records.scope import SENSITIVITIES, Scope, Sensitivity
from toolcrib.records.tools import ToolSpec
from toolcrib.records.turns import (
    Attachment,
    Context,
    Decision,
    Entity,
    Message,
    Outcome,
    Route,
    RouteKind,
    Turn,
)

__all__ = [
    "SENSITIVITIES",
    "Alternates",
    "Attachment",
    "Collection",
    "CollectionHit",
    "CollectionList",
    "Context",
    "CountedCollection",
    "Decision",
    "Entity",
    "Facets",
    "FindResult",
    "IndexProgress",
    "IndexReport",
    "KnowledgeResult",
    "Message",
    "NeedResult",
    "Outcome",
    "Passage",
    "PassageHit",
    "Refusal",
    "Removed",
    "Route",
    "RouteKind",
    "Scope",
    "Sensitivity",
    "ServiceInfo",
    "ToolHit",
    "ToolPage",
    "ToolSelection",
    "ToolSpec",
    "Turn",
    "Verdict",
]
