"""A registry that nobody has, and that looks like one: verbs x objects x servers, by a seed.

Tool `i` is the same whatever the size asked for, so a registry of 1,000 is the beginning of one
of 100,000. Every name and text was made up for this project.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

from toolcrib.records import ToolSpec

SEED = 20
SERVERS = 100
HINTED = 10
"""One tool in this many has two success examples and an anti-pattern."""

_BRANDS_TEXT = (
    "acorn beacon cobalt delta ember fjord garnet harbor indigo juniper kestrel lumen meadow "
    "nimbus orchard pepper quartz raven summit tundra"
)
_KINDS = ("mail", "desk", "ledger", "docs", "cloud")
_VERBS_TEXT = (
    "create get list update delete search archive restore assign export import merge share "
    "duplicate approve reject schedule cancel publish validate convert download upload "
    "rename move tag lock unlock invite remove summarize compare monitor pause resume submit "
    "verify track attach subscribe"
)
_OBJECTS_TEXT = (
    "issue invoice customer contact message channel calendar_event meeting document folder "
    "file spreadsheet report dashboard metric alert incident deployment container database "
    "table record query user team role permission token webhook workflow pipeline build "
    "release branch commit pull_request comment review task project milestone sprint ticket "
    "order payment refund subscription product price shipment address campaign "
    "email_template survey form payslip expense contract certificate backup snapshot domain"
)
_BRANDS, _VERBS, _OBJECTS = (
    tuple(text.split()) for text in (_BRANDS_TEXT, _VERBS_TEXT, _OBJECTS_TEXT)
)
_HOW = (
    "Filters by status, owner and date range",
    "Accepts either an identifier or a full reference",
    "Works on one item or on a batch of up to one hundred",
    "Runs in the background and reports its progress",
    "Needs the caller to have edit rights in the workspace",
    "Keeps the previous version so that the change can be undone",
    "Pages through long results with a cursor",
    "Checks every field first and changes nothing when one is wrong",
)
_WHEN = (
    "Use it when somebody asks about the current state",
    "Prefer it over the bulk variant for a handful of items",
    "Useful before a review or at the end of the month",
    "Call it once the identifier is known",
    "Not meant for deleted or archived entries",
    "Helpful for onboarding, audits and clean-ups",
)
_RETURNS = (
    "Returns the identifier, a link and the time of the last change",
    "Returns a list with name, owner and status of each",
    "Returns nothing but a confirmation",
    "Returns the full object as the server keeps it",
)
_PARAMETERS = (
    ("id", "string", "Identifier of the {thing}"),
    ("query", "string", "Words to look for in the {thing}"),
    ("limit", "integer", "How many entries to return at most"),
    ("owner", "string", "Only what belongs to this person"),
    ("since", "string", "Only what changed after this date, in ISO 8601"),
    ("dry_run", "boolean", "Check the request without changing the {thing}"),
    ("notify", "boolean", "Tell everybody who follows the {thing}"),
)
_OPENERS = ("", "", "i want to ", "how do i ", "please ", "can you ")
_TAILS = ("", " for the team", " from last week", " before friday", " that is overdue", " by name")

CAPACITY = SERVERS * len(_VERBS) * len(_OBJECTS)


def generated_tools(start: int, stop: int) -> Iterator[ToolSpec]:
    """Tools `start` to `stop` of the registry, spread evenly over its servers."""
    if stop > CAPACITY:
        raise SystemExit(f"the generator makes {CAPACITY:,} tools at most, not {stop:,}")
    servers = [f"{brand}-{kind}" for kind in _KINDS for brand in _BRANDS]
    kinds = list(itertools.product(_VERBS, _OBJECTS))
    orders: dict[str, list[tuple[str, str]]] = {}
    for position in range(start, stop):
        server = servers[position % SERVERS]
        if server not in orders:
            orders[server] = random.Random(f"{SEED}/{server}").sample(kinds, len(kinds))
        yield _tool(server, *orders[server][position // SERVERS], position)


def _tool(server: str, verb: str, thing: str, position: int) -> ToolSpec:
    chance = random.Random(SEED * 1_000_003 + position)
    words, place = thing.replace("_", " "), server.replace("-", " ").title()
    how, end = chance.choice(_HOW), chance.choice((*_WHEN, *_RETURNS))
    hints: dict[str, Any] = {}
    if position % HINTED == 0:
        other = chance.choice(_VERBS)
        hints = {
            "success_examples": (f"{verb} the {words} of our biggest account", f"{words}, {verb}!"),
            "anti_patterns": (f"{other} the {words}",),
        }
    return ToolSpec(
        name=_spelled(verb, thing, server),
        server=server,
        description=f"{verb.title()} a {words} in {place}. {how}. {end}.",
        input_schema=_schema(chance, words),
        category=server.rpartition("-")[2],
        **hints,
    )


def _spelled(verb: str, thing: str, server: str) -> str:
    """A server spells all its names in one of three ways."""
    match sum(server.encode()) % 3:
        case 0:
            return f"{verb}_{thing}"
        case 1:
            return f"{verb}-{thing}".replace("_", "-")
        case _:
            return verb + "".join(part.title() for part in thing.split("_"))


def _schema(chance: random.Random, words: str) -> dict[str, Any]:
    chosen = chance.sample(_PARAMETERS, chance.randint(2, 4))
    properties = {
        name: {"type": kind, "description": text.format(thing=words)} for name, kind, text in chosen
    }
    return {"type": "object", "properties": properties, "required": [chosen[0][0]]}


def generated_queries(count: int) -> list[str]:
    """Short questions, four to nine words, all different."""
    chance = random.Random(SEED)
    found: dict[str, None] = {}
    while len(found) < count:
        verb, thing = chance.choice(_VERBS), chance.choice(_OBJECTS).replace("_", " ")
        article = chance.choice(("a", "the", "every"))
        found[f"{chance.choice(_OPENERS)}{verb} {article} {thing}{chance.choice(_TAILS)}"] = None
    return list(found)
