"""The nouns: what a tool is, who asks, what a turn is, and what comes back."""

from toolcrib.records.answers import FindResult, ToolHit, Verdict
from toolcrib.records.context import Context, Entity
from toolcrib.records.facets import Facets
from toolcrib.records.indexing import IndexProgress, IndexReport, Refusal
from toolcrib.records.knowledge import (
    Collection,
    CollectionHit,
    KnowledgeResult,
    Passage,
    PassageHit,
)
from toolcrib.records.scope import (
    SENSITIVITIES,
    Scope,
    Sensitivity,
    is_above,
    levels_above,
    lowest,
)
from toolcrib.records.tools import ToolSpec
from toolcrib.records.turn import (
    Attachment,
    Decision,
    Message,
    Outcome,
    Route,
    RouteKind,
    Turn,
)

__all__ = [
    "SENSITIVITIES",
    "Attachment",
    "Collection",
    "CollectionHit",
    "Context",
    "Decision",
    "Entity",
    "Facets",
    "FindResult",
    "IndexProgress",
    "IndexReport",
    "KnowledgeResult",
    "Message",
    "Outcome",
    "Passage",
    "PassageHit",
    "Refusal",
    "Route",
    "RouteKind",
    "Scope",
    "Sensitivity",
    "ToolHit",
    "ToolSpec",
    "Turn",
    "Verdict",
    "is_above",
    "levels_above",
    "lowest",
]
