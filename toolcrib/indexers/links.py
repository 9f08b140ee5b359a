"""Links: entities that a tool needs and returns, tools that it names, and its companions.

A required parameter that takes the id, code or handle of an entity (`person_id`) needs a tool that
finds or lists that entity (`search_person`). Links are read from a single specification, so they
depend neither on other tools nor on a caller's scope. Retrieval decides which tool meets a need
(`retrieval/prerequisites`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from toolcrib.records import ToolSpec
from toolcrib.records.codec import list_of, object_of
from toolcrib.store.payload import LinkFacts, head_word
from toolcrib.text import name_key, split_identifier, tokenise

MAX_LINK_NAMES = 20
"""Most names of other tools, and most needs, of one tool."""

MAX_LINK_TEXT_CHARS = 3_000

# -- words -----------------------------------------------------------------------------------------


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FIND_VERBS = _word_set(
    "search searches find finds lookup query queries resolve suggest autocomplete match locate"
)
_LIST_VERBS = _word_set(
    "list lists get gets all fetch fetches retrieve retrieves read show view enumerate return"
    " returns discover browse obtain obtains check load provide provides display describe describes"
)
_CREATE_VERBS = _word_set(
    "create creates add new make register start starts open begin generate initiate upload"
)
_CHANGE_VERBS = _word_set(
    "update delete remove set edit modify send cancel put patch post insert move rename close"
    " archive stop run execute validate convert calculate compute download export import share"
    " reply pay book buy order assign unassign enable disable is has can test verify reset"
    " subscribe unsubscribe follow unfollow like unlike save clear apply sort replace merge restart"
    " pause resume"
)
_ADD_VERBS = _word_set("create creates add new make register insert post upload")
_EDIT_VERBS = _word_set("update delete remove edit modify rename archive")
_LOGIN_VERBS = _word_set("login logon signin authenticate authorize connect")
_VERBS = _FIND_VERBS | _LIST_VERBS | _CREATE_VERBS | _CHANGE_VERBS | _LOGIN_VERBS
_PREPOSITIONS = _word_set(
    "by for in from of with on to at using via within per and or that which whose"
)
_FILLER_WORDS = _word_set(
    "info information detail details data list id ids uuid name names metadata summary profile"
    " the a an this your each all my own current api endpoint rest v1 v2 v3 v4 s unique specific"
    " valid numeric string"
)
_HANDLE_WORDS = _word_set(
    "id ids gid uid sid pid uuid guid code handle symbol slug arn ticker identifier token session"
)
"""Last word of the name of a parameter that takes the id of an entity."""

_HANDLES_WITHOUT_ENTITY = _word_set("id ids gid uuid uid guid slug symbol handle code identifier")
_SHORT_LIVED = _word_set("session job run thread upload task execution query scan crawl report")
"""Entities that a run creates itself, so that no search finds them before."""

_CREDENTIALS = _word_set(
    "api access client secret auth bearer refresh private public idempotency request correlation"
)
_KNOWN_TO_CALLER = _word_set(
    "type external custom internal language lang country currency zip postal area error promo"
    " status color next page continuation verification coupon postcode locale phone dial tenant"
)
"""Words of ids and codes that users or clients know: `country_code`, `external_id`."""

_IRREGULAR = {"people": "person", "children": "child", "indices": "index", "lists": "list"}

_ID_OF_ENTITY = re.compile(
    r"\b(?:ids?|identifiers?|codes?|slug|uuid|handle|symbol|token)\s+(?:of|for)\s+"
    r"((?:[a-z]+ ?){1,4})",
    re.IGNORECASE,
)
_ENTITY_ID = re.compile(r"\b([a-z]+)(?:'s)?\s+(?:id|identifier|uuid|slug)s?\b", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_LETTERS = re.compile(r"[a-z]+")
_SENTENCE = re.compile(r"(?<=[.;!?\n])\s+")


def _words(name: str) -> list[str]:
    return [word.casefold() for word in split_identifier(name)]


def _phrase(words: Iterable[str]) -> str:
    """Join words in the singular: `list_repositories` returns a repository."""
    known = [_IRREGULAR.get(word, word) for word in words]
    return " ".join(tokenise(" ".join(known))) if known else ""


# -- what a tool needs -----------------------------------------------------------------------------


class _Parameter(NamedTuple):
    name: str
    description: str
    words: list[str]


def _required_parameters(spec: ToolSpec) -> Iterator[_Parameter]:
    """Yield the parameters for which a caller needs a value.

    A parameter with a default or an enumeration needs no other tool. A token or a session counts
    as required in a schema without required parameters.
    """
    required = list_of(spec.input_schema.get("required"))
    for name, field in object_of(spec.input_schema.get("properties")).items():
        words = _words(name)
        if name not in required and (required or {"token", "session"}.isdisjoint(words)):
            continue
        schema = object_of(field)
        chosen = "enum" in schema or "const" in schema or "default" in schema
        if not chosen and schema.get("type") not in ("boolean", "object"):
            described = schema.get("description")
            yield _Parameter(name, described if isinstance(described, str) else "", words)


def _entities(parameter: _Parameter, spec: ToolSpec) -> list[str] | None:
    """Alternative entities whose id a parameter takes; None if it takes no id."""
    words = parameter.words
    if "or" in words:
        # `issue_id_or_key`
        words = words[: words.index("or")]
    if words and words[-1] not in _HANDLE_WORDS and _describes_id(parameter):
        words = [*words, "id"]
    if not words or words[-1] not in _HANDLE_WORDS:
        return None
    own = [word for word in words[:-1] if word not in _PREPOSITIONS | _FILLER_WORDS]
    if own:
        # A page's token is of a list, its id of a document.
        known = _KNOWN_TO_CALLER - ({"page"} if words[-1] in ("id", "ids") else set[str]())
        kept = known.intersection(own) or _CREDENTIALS.issuperset(own)
        return None if kept else [_phrase(own)]
    if words[-1] not in _HANDLES_WITHOUT_ENTITY:
        return [_phrase(words[-1:])]
    entity = _entity_of_path(parameter.name, spec) or _entity_of_description(parameter.description)
    return [_phrase(entity)] if entity else [_phrase([noun]) for noun in _action(spec)[1]]


def _describes_id(parameter: _Parameter) -> bool:
    """True if the description states an id: "Channel ID", "ID of the channel"."""
    name = re.escape(" ".join(parameter.words))
    pattern = rf"\b{name} ids?\b|\bids? (?:of|for) (?:the |a |an )?{name}\b"
    return bool(re.search(pattern, parameter.description[:MAX_LINK_TEXT_CHARS], re.IGNORECASE))


def _entity_of_path(name: str, spec: ToolSpec) -> list[str]:
    """Read an entity from a path: the id of `/movie/{id}/credits` is a movie's."""
    path = spec.annotations.get("path")
    before, found, _ = (path if isinstance(path, str) else spec.name).partition(f"/{{{name}}}")
    above = before.rpartition("/")[2]
    return _words(above) if found and not above.endswith("}") else []


def _entity_of_description(text: str) -> list[str]:
    """Read an entity from a description: `The ID of the campaign`, `campaign ID`."""
    found = _ID_OF_ENTITY.search(text) or _ENTITY_ID.search(text)
    words: list[str] = []
    for word in _LETTERS.findall(found.group(1).lower()) if found else ():
        if word in _PREPOSITIONS | {"is", "you"}:
            break
        if word not in _FILLER_WORDS | _LIST_VERBS:
            words.append(word)
    return words


# -- what a tool gives -----------------------------------------------------------------------------


def _action(spec: ToolSpec) -> tuple[str, list[str]]:
    """Verb and nouns of a tool's name: `get_user_by_email` is `get` and `user`."""
    verb, nouns = "", list[str]()
    for word in _words(_PLACEHOLDER.sub(" ", spec.name)):
        if word in _VERBS:
            verb = word if not verb or word in _FIND_VERBS else verb
        elif word in _PREPOSITIONS:
            if nouns:
                break
        elif word not in _FILLER_WORDS and not word.isdigit():
            nouns.append(word)
    return verb, nouns


def _returned_entities(spec: ToolSpec, parameters: int) -> dict[str, float]:
    """Entities whose ids a tool returns, each with a cost; lower is better."""
    verb, nouns = _action(spec)
    first = _SENTENCE.split(spec.description[:MAX_LINK_TEXT_CHARS].strip(), maxsplit=1)[0].lower()
    opening = _LETTERS.findall(first)
    verb = verb or next((w for w in opening[:3] if w in _VERBS), "")
    own = _phrase(nouns)
    one = verb in _LIST_VERBS and not any(word.endswith("s") for word in nouns[-2:])
    makes_short_lived = verb in _CREATE_VERBS and _SHORT_LIVED.intersection(own.split())
    if verb not in _FIND_VERBS | _LIST_VERBS | _LOGIN_VERBS and not makes_short_lived:
        return {}
    base = 0.05 * parameters + (0.3 if one else 0.0) + (0.0 if verb in _FIND_VERBS else 1.0)
    others = set(_schema_entities(spec.output_schema))
    others |= {"session", "token"} if verb in _LOGIN_VERBS else set()
    if not nouns:
        # `search` alone: the description names the entity.
        skipped = _PREPOSITIONS | _FILLER_WORDS | _FIND_VERBS | _LIST_VERBS | _CREATE_VERBS
        others |= {_phrase([word]) for word in opening if word not in skipped}
    given = dict.fromkeys(sorted(others)[:MAX_LINK_NAMES], base + 0.5)
    given |= {own: base}
    return {phrase: round(cost, 2) for phrase, cost in given.items() if phrase}


def _schema_entities(schema: Mapping[str, Any], parent: str = "", depth: int = 4) -> Iterator[str]:
    """Yield entities whose ids a schema has: by `person_id`, or by `id` within `persons`."""
    if depth == 0:
        return
    for name, field in object_of(schema.get("properties")).items():
        words = _words(name)
        if len(words) > 1 and words[-1] in ("id", "ids"):
            yield _phrase(words[:-1])
        elif words == ["id"] and parent:
            yield _phrase(_words(parent))
        yield from _schema_entities(object_of(field), name, depth - 1)
    yield from _schema_entities(object_of(schema.get("items")), parent, depth - 1)


# -- names of other tools ------------------------------------------------------------------------

_NAME = re.compile(r"[A-Za-z]\w*+(?:[-./]\w++)*+")
_IDENTIFIER_SHAPE = re.compile(r"\w[-./_]\w|\A[a-z]+[A-Z]")
_DISCOURAGEMENT = re.compile(
    r"instead|deprecat|prefer|rather|alternativ|similar|unlike|see also|not use", re.IGNORECASE
)
_LEAD_CHARS = 60
_RECOMMENDATION = re.compile(
    r"\b(?:use|call|run|from|via|by|first|obtain\w*|return\w*|get|got|after|requires?|find"
    r"|output|using|with|result\w*)\b[^.]{0,40}$",
    re.IGNORECASE,
)
_FOLLOW_UP_LEAD = re.compile(
    r"\b(?:then|next|afterwards?|later|before|monitor\w*|track|poll|pass\w*|feed)\b[^.]{0,40}$"
    r"|\b(?:usable|used?) (?:\w+ ){0,3}(?:with|in|by)\W*$",
    re.IGNORECASE,
)
"""Words before the name of a tool to use after this tool: "monitor with X", "then use X"."""


def _recommended_tools(spec: ToolSpec, parameters: Iterable[_Parameter]) -> list[tuple[str, str]]:
    """Names of tools to use first, by the texts, each with its parameter ("" for the tool)."""
    found: dict[str, str] = {}
    for each in parameters:
        for name in _identifiers(each.description[:MAX_LINK_TEXT_CHARS]):
            found.setdefault(name.group().casefold(), each.name)
    for sentence in _SENTENCE.split(spec.description[:MAX_LINK_TEXT_CHARS]):
        for name in _identifiers(sentence):
            lead = sentence[max(0, name.start() - _LEAD_CHARS) : name.start()]
            if _RECOMMENDATION.search(lead) and not _FOLLOW_UP_LEAD.search(lead):
                found.setdefault(name.group().casefold(), "")
    found.pop(spec.name.casefold(), None)
    return list(found.items())[:MAX_LINK_NAMES]


def _identifiers(text: str) -> Iterator[re.Match[str]]:
    """Yield words like identifiers (`files.list`, `getUser`), unless the text discourages."""
    words = _NAME.finditer("" if _DISCOURAGEMENT.search(text) else text)
    return (word for word in words if _IDENTIFIER_SHAPE.search(word.group()))


_DEPRECATION = re.compile(
    r"\A\W*(?:\w+\W+){0,8}?(?:deprecat\w+|obsolete|superseded)"
    r"|\b(?:tool|endpoint|method|operation|action|function|api|route|call)\b[^.]{0,40}"
    r"\b(?:deprecated|obsolete|superseded|replaced)\b",
    re.IGNORECASE,
)
_SUCCESSOR = re.compile(
    r"\b(?:use|prefer|replaced (?:by|with)|superseded by|in favou?r of|"
    r"migrat\w+ (?:\w+ ){0,6}to|switch to)\s+(?:the |new |our )*"
    r"""(?:[`"'\[]+(?P<quoted>[^`"'\]]{2,80})|(?P<words>(?:[\w/{}.-]+ ?){1,5}))""",
    re.IGNORECASE,
)


def _successors(spec: ToolSpec) -> list[str]:
    """Names of tools that replace a deprecated tool, without separators.

    Running text does not show where a name ends, so each prefix of the words is a name.
    """
    text = spec.description[:MAX_LINK_TEXT_CHARS]
    if not (spec.annotations.get("deprecated") or _DEPRECATION.search(text[:500])):
        return []
    found: dict[str, None] = {}
    for found_name in _SUCCESSOR.finditer(text):
        words = (found_name["quoted"] or found_name["words"]).split()
        runs = [" ".join(words[:end]) for end in range(len(words), 0, -1)]
        found |= dict.fromkeys(name_key(run) for run in runs)
    return [name for name in found if name and name != name_key(spec.name)][:MAX_LINK_NAMES]


# -- the payload -----------------------------------------------------------------------------------


def link_payload(spec: ToolSpec) -> dict[str, Any]:
    """Payload fields of a tool's links, as `LinkFacts.payload`."""
    parameters = list(_required_parameters(spec))
    needs = [
        (each.name, tuple(entity for entity in entities if entity))
        for each in parameters
        if (entities := _entities(each, spec)) is not None
    ]
    needed = {head_word(entity) for _, entities in needs for entity in entities}
    given = _returned_entities(spec, len(parameters))
    words = set(_words(spec.name))
    # A tool that takes the id of an entity returns its details, not the id.
    written = spec.enrichment.goes_with if spec.enrichment else ()
    facts = LinkFacts(
        needs=tuple(needs[:MAX_LINK_NAMES]),
        gives={entity: cost for entity, cost in given.items() if head_word(entity) not in needed},
        recommended=tuple(_recommended_tools(spec, parameters)),
        successors=tuple(_successors(spec)),
        goes_with=tuple(dict.fromkeys((*spec.goes_with, *written)))[:MAX_LINK_NAMES],
        action="change" if words & _EDIT_VERBS else "make" if words & _ADD_VERBS else "",
    )
    return facts.payload()
