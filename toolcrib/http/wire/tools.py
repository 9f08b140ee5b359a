"""Tools over the wire: in, found, listed, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field

from toolcrib.http.wire.base import AS_WHOLE, Answer, Body, Count, Text
from toolcrib.http.wire.quarantine import HeldAnswer
from toolcrib.http.wire.scope import ScopeBody
from toolcrib.indexers.readers.registry import formats
from toolcrib.records import Sensitivity, ToolSpec, Verdict
from toolcrib.store.filters import FilterJson

__all__ = [
    "MAX_PAGE",
    "Cursor",
    "FacetsAnswer",
    "FindAnswer",
    "HitAnswer",
    "IndexAnswer",
    "IndexBody",
    "ListBody",
    "RefusalAnswer",
    "ReportAnswer",
    "SearchBody",
    "Shape",
    "ToolsAnswer",
]

Shape = Literal[
    "summary",
    "full",
    "mcp",
    "openai",
    "openai-namespaces",
    "anthropic",
    "anthropic-deferred",
    "tool_reference",
]
"""How found tools are written: ours in short or with the whole specification, or definitions
for a provider."""

if TYPE_CHECKING:
    SentFormat: TypeAlias = str
else:
    SentFormat = Literal[formats(sent=True)]
"""The formats of data that a request may hold, as the registry of readers has them."""

MAX_PAGE = 500

Cursor = Annotated[str, Field(min_length=1, max_length=1100)]
"""The id of the last tool of the page before."""

EXAMPLE_TOOL: dict[str, Any] = {
    "name": "send_mail",
    "server": "mail",
    "description": "Send a mail to one or more people.",
    "input_schema": {"type": "object", "properties": {"to": {"type": "string"}}},
    "tags": ["mail"],
}

EXAMPLE_HIT: dict[str, Any] = {
    "id": "mail/send_mail",
    "name": "send_mail",
    "server": "mail",
    "score": 0.874311,
    "probability": 0.912004,
    "rank": 1,
    "description": "Send a mail to one or more people.",
}


class IndexBody(Body):
    """Tools to put in, in any format that is read.

    `tools` is a list of definitions (ours, MCP, OpenAI, Anthropic) or one document: an answer
    to `tools/list`, an OpenAPI document, an object with a list under `tools`. `server` overrides
    every tool's. `prune` removes what is not named (of `server` only, when given).
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"tools": [EXAMPLE_TOOL], "server": "mail"}]}
    )

    tools: list[dict[str, Any]] | dict[str, Any]
    format: SentFormat | None = None
    server: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    prune: bool = False


class RefusalAnswer(Answer):
    """Something that was not taken: where it stands and why."""

    source: str
    place: str
    reason: str


class IdsAnswer(Answer):
    """The ids of what came to each outcome."""

    added: list[str]
    changed: list[str]
    removed: list[str]
    unchanged: list[str]


class ReportAnswer(Answer):
    """What became of what was sent: counts and ids, and what was refused."""

    added: int
    changed: int
    removed: int
    unchanged: int
    refused: list[RefusalAnswer]
    ids: IdsAnswer


class IndexAnswer(ReportAnswer):
    """The same for tools; `quarantined` ones are held back until somebody approves them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "added": 1,
                    "changed": 0,
                    "removed": 0,
                    "unchanged": 0,
                    "refused": [],
                    "ids": {
                        "added": ["mail/send_mail"],
                        "changed": [],
                        "removed": [],
                        "unchanged": [],
                    },
                    "quarantined": [],
                }
            ]
        }
    )

    quarantined: list[HeldAnswer]


class ToolsAnswer(Answer):
    """One page of tools; `next` is the cursor of the page behind it, null on the last one."""

    tools: list[ToolSpec]
    next: str | None


class SearchBody(Body):
    """What the tools must do.

    `k` tools, or with `auto` as many as hold all that are needed with the probability
    `coverage`. Without `gate` nothing is withheld. `explain` adds what each leg contributed.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "write to a colleague", "k": 3}]}
    )

    query: Text
    k: Count | Literal["auto"] = 5
    coverage: float = Field(default=0.95, ge=0, le=1)
    gate: bool = True
    explain: bool = False
    scope: ScopeBody | None = None
    where: FilterJson | None = None
    shape: Shape = "summary"


class ListBody(Body):
    """Which tools to list, from which one on."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE), AS_WHOLE] = 50
    cursor: Cursor | None = None
    where: FilterJson | None = None
    scope: ScopeBody | None = None


class HitAnswer(Answer):
    """One ranked tool; `legs` when explained, `spec` in the shape `full`."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_HIT]})

    id: str
    name: str
    server: str
    score: float = Field(ge=0, le=1)
    probability: float | None
    rank: int
    description: str
    legs: dict[str, float] = Field(default={})
    spec: ToolSpec | None = None


class FindAnswer(Answer):
    """The answer to a query, as the command line gives it.

    In a provider's shape `tools` holds its definitions, and `names` says which tool's id each
    of their names stands for.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "query": "write to a colleague",
                    "tools": [EXAMPLE_HIT],
                    "confidence": 0.912004,
                    "verdict": "accept",
                    "reason": "",
                    "threshold": 0.35,
                    "fallback": False,
                    "took_ms": {"encode": 1.1, "legs": 0.9, "total": 2.4},
                    "degraded": [],
                }
            ]
        }
    )

    query: str
    tools: list[HitAnswer] | list[dict[str, Any]]
    confidence: float | None
    verdict: Verdict
    reason: str
    threshold: float | None
    fallback: bool
    took_ms: dict[str, float]
    degraded: list[str]
    unmatched_terms: list[str] = Field(default=[])
    names: dict[str, str] = Field(default={})


class FacetsAnswer(Answer):
    """How many tools there are in reach, and of what kinds."""

    tools: int
    servers: dict[str, int]
    tags: dict[str, int]
    categories: dict[str, int]
    sensitivities: dict[Sensitivity, int]
