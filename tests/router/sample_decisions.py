"""Decisions made by hand, and a believable log of many: seeded, without models or an index."""

from __future__ import annotations

import random

from toolcrib.records import (
    CollectionHit,
    Context,
    Decision,
    FindResult,
    KnowledgeResult,
    Passage,
    PassageHit,
    Route,
    ToolHit,
    ToolSpec,
)
from toolcrib.router.decision_log import Feedback, decision_record, feedback_record

MARCH = 1_772_323_200.0
"""2026-03-01 at midnight, UTC."""

TOOLS = ("mail/send", "mail/read", "files/read", "shop/refund")
COLLECTIONS = ("handbook", "contracts")


def found(*ids, query="a question", sure=0.8, verdict="accept", **fields):
    """Tools that were returned, best first."""
    hits = tuple(
        ToolHit(rank, 1 / rank, ToolSpec(name=id.split("/")[1], server=id.split("/")[0]))
        for rank, id in enumerate(ids, start=1)
    )
    return FindResult(query, hits, {}, confidence=sure, verdict=verdict, **fields)


def known(*collections, sure=0.7, verdict="accept"):
    """Collections that were asked, best first, with a passage of the first."""
    passages = (
        [PassageHit.of(Passage(collections[0], "a.md", "Words."), 1, 0.9)] if collections else []
    )
    hits = tuple(CollectionHit(name, sure) for name in collections)
    return KnowledgeResult(hits, tuple(passages), confidence=sure, verdict=verdict)


def decision(
    id="d1", kind="tools", *, context=None, tools=None, knowledge=None, sure=0.9, **fields
):
    """A decision that found what its route asks for, unless told otherwise."""
    asked = kind in {"tools", "both"}
    if tools is None:
        tools = found(TOOLS[0]) if asked else found(sure=None, verdict="abstain")
    if knowledge is None:
        asked = kind in {"knowledge", "both"}
        knowledge = known(COLLECTIONS[0]) if asked else KnowledgeResult()
    route = Route(kind, "it looks like it", confidence=sure)
    context = context or Context("a question", intent="ask", domain="office", confidence=0.9)
    fields = {"took_ms": {"route": 1.0, "total": 4.0}, "search_text": context.text} | fields
    return Decision(id, context, route, tools, knowledge, **fields)


def record(made=None, *, at=MARCH, text=False, **fields):
    """A decision as it is logged; `fields` are those of `decision`."""
    return decision_record(made or decision(**fields), text=text, at=at)


def said(id="d1", *, at=MARCH + 60, text=False, **fields):
    """Feedback as it is logged."""
    return feedback_record(id, Feedback(**fields), text=text, at=at)


def believable(count=600, days=9):
    """Decisions over some days, of which every third was given feedback."""
    rng = random.Random(5)
    records = []
    for number in range(count):
        id, at = f"d{number}", MARCH + rng.random() * days * 86_400
        kind = rng.choices(("tools", "knowledge", "both", "none", "general"), (9, 4, 2, 2, 1))[0]
        sure, base = rng.betavariate(4, 1.5), {"none": 0.3, "both": 6.0}.get(kind, 3.0)
        wanted, asked = rng.choice(TOOLS), rng.choice(COLLECTIONS)
        right = rng.random() < sure
        first = wanted if right else rng.choice([tool for tool in TOOLS if tool != wanted])
        verdict = "accept" if sure > 0.5 else "abstain"
        first_of = asked if rng.random() < 0.4 + 0.5 * sure else "contracts"
        returned = found(first, *rng.sample(TOOLS[:3], 2), sure=sure, verdict=verdict)
        fields: dict[str, object] = {}
        if kind == "general":
            fields["tools"] = found("web/search", sure=sure, verdict="fallback", fallback=True)
        elif kind in {"tools", "both"}:
            fields["tools"] = returned
        if kind in {"knowledge", "both"}:
            fields["knowledge"] = known(first_of, sure=0.55 + 0.4 * sure)
        made = decision(
            id,
            kind,
            sure=rng.betavariate(8, 1),
            took_ms={"total": base * rng.lognormvariate(0, 0.5)},
            degraded=("rerank",) if rng.random() < 0.04 else (),
            **fields,
        )
        records.append(record(made, at=at, text=True))
        if number % 3 == 0:
            tools = (wanted,) if kind in {"tools", "both"} else None
            known_well = (asked,) if kind in {"knowledge", "both"} else None
            route = kind if rng.random() < 0.9 else "tools"
            records.append(said(id, at=at + 60, route=route, tools=tools, collections=known_well))
    return records
