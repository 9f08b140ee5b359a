"""Whether a logged decision was right, as far as that is known.

A decision that failed counts as wrong wherever confidence is compared with success. Otherwise
what people named as right decides; where only success is known, all that was accepted counts as
right; failing that, a call of the first tool says whether that one was.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.evaluation.decision_log import LoggedDecision, Named

__all__ = [
    "asked_knowledge",
    "asked_tools",
    "knowledge_right",
    "route_right",
    "tools_right",
    "values",
]

TOOL_ROUTES = ("tools", "both", "general")
KNOWLEDGE_ROUTES = ("knowledge", "both")


def asked_tools(one: LoggedDecision) -> bool:
    """Whether the turn went where tools are."""
    return one.row.route.kind in TOOL_ROUTES


def asked_knowledge(one: LoggedDecision) -> bool:
    """Whether the turn went where passages are."""
    return one.row.route.kind in KNOWLEDGE_ROUTES


def route_right(one: LoggedDecision) -> bool | None:
    """Whether the turn went where it should; None where that is not known."""
    said = one.feedback
    if said is None:
        return None
    if said.outcome == "failure":
        return False
    if said.route is not None:
        return one.row.route.kind == said.route
    return True if said.outcome == "success" else None


def tools_right(one: LoggedDecision) -> bool | None:
    """Whether the first tool of the ranking was right; None where that is not known.

    What was withheld or replaced by the general tool is not in the log: only where nothing
    would have been right is it known to be wrong.
    """
    if not asked_tools(one):
        return None
    said, tools = one.feedback, one.row.tools
    if said is not None and (said.outcome == "failure" or said.tools == ()):
        return False
    if not tools.items or tools.fallback:
        return None
    first = tools.items[0].id
    if said is not None and said.tools is not None:
        return first in said.tools
    if said is not None and said.outcome == "success":
        return True if tools.verdict == "accept" else None
    reported = one.outcomes.get(first)
    return None if reported is None else reported == "success"


def knowledge_right(one: LoggedDecision) -> bool | None:
    """Whether the first collection was right; None where that is not known."""
    said, knowledge = one.feedback, one.row.knowledge
    if said is None or not asked_knowledge(one):
        return None
    if said.outcome == "failure":
        return False
    if said.collections is not None:
        return _first_is_in(knowledge.collections, said.collections)
    return True if said.outcome == "success" and knowledge.verdict == "accept" else None


def values(one: LoggedDecision) -> dict[str, float]:
    """What feedback makes of a decision, each in [0, 1]; only what it speaks of is there.

    `success`, `route`, `intent`, `domain` and `knowledge` are 0 or 1. `tool_precision` needs
    something returned, `tool_recall` something right.
    """
    said, row = one.feedback, one.row
    if said is None:
        return {}
    found: dict[str, float] = {}
    if said.outcome is not None:
        found["success"] = said.outcome == "success"
    if said.route is not None:
        found["route"] = row.route.kind == said.route
    if said.intent is not None:
        found["intent"] = (row.context.intent or "") == said.intent
    if said.domain is not None:
        found["domain"] = (row.context.domain or "") == said.domain
    if said.tools is not None:
        found |= _tool_values({tool.id for tool in row.tools.items}, set(said.tools))
    if said.collections is not None:
        found["knowledge"] = _first_is_in(row.knowledge.collections, said.collections)
    return found


def _tool_values(returned: set[str], right: set[str]) -> dict[str, float]:
    both = len(returned & right)
    precision = {"tool_precision": both / len(returned)} if returned else {}
    recall = {"tool_recall": both / len(right)} if right else {}
    return precision | recall


def _first_is_in(asked: Sequence[Named], right: Sequence[str]) -> bool:
    return asked[0].id in right if asked else not right
