"""toolcrib hands an AI agent the tools and passages that its turn needs, out of thousands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.client import RemoteCrib
    from toolcrib.crib import Crib
    from toolcrib.errors import ToolcribError
    from toolcrib.records import (
        Attachment,
        Collection,
        Context,
        Decision,
        Entity,
        FindResult,
        IndexProgress,
        IndexReport,
        KnowledgeResult,
        Message,
        NeedResult,
        Passage,
        PassageHit,
        Refusal,
        Route,
        Scope,
        ToolHit,
        ToolSpec,
        Turn,
    )
    from toolcrib.records.codec import as_json
    from toolcrib.retrieval.options import SearchOptions
    from toolcrib.router.recovery import RecoveryPolicy
    from toolcrib.settings import Settings
    from toolcrib.store.filters import And, AnyOf, Equals, Not, Or, Range

__all__ = [
    "And",
    "AnyOf",
    "Attachment",
    "Collection",
    "Context",
    "Crib",
    "Decision",
    "Entity",
    "Equals",
    "FindResult",
    "IndexProgress",
    "IndexReport",
    "KnowledgeResult",
    "Message",
    "NeedResult",
    "Not",
    "Or",
    "Passage",
    "PassageHit",
    "Range",
    "RecoveryPolicy",
    "Refusal",
    "RemoteCrib",
    "Route",
    "Scope",
    "SearchOptions",
    "Settings",
    "ToolHit",
    "ToolSpec",
    "ToolcribError",
    "Turn",
    "__version__",
    "as_json",
]

__version__ = "0.1.0"

_MODULES = {
    "Crib": "toolcrib.crib",
    "RemoteCrib": "toolcrib.client",
    "as_json": "toolcrib.records.codec",
    "Settings": "toolcrib.settings",
    "ToolcribError": "toolcrib.errors",
    **dict.fromkeys(("And", "AnyOf", "Equals", "Not", "Or", "Range"), "toolcrib.store.filters"),
    "RecoveryPolicy": "toolcrib.router.recovery",
    "SearchOptions": "toolcrib.retrieval.options",
}
"""Modules of the public names that are not in `records`."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import toolcrib` itself stays cheap."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES.get(name, "toolcrib.records")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
