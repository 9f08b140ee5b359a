"""Prerequisites: what a tool needs from others and gives to them, read from its schema and texts.

A required parameter that is the id, code or handle of an entity (`person_id`) needs a tool that
finds or lists that entity (`search_person`). What is read here depends on one specification
alone, so links hold whatever is indexed or removed beside it, and whoever may see what; which
tool meets a need is decided when a query is answered (`retrieval/prerequisites`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from toolcrib.records import ToolSpec
from toolcrib.text import split_identifier, squeeze, tokenise

__all__ = ["link_payload"]

MAX_NAMES = 20
"""Names of other tools, and needs, that are kept of one tool."""

MAX_CHARS = 3_000

# -- words -----------------------------------------------------------------------------------------


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FIND = _set(
    "search searches find finds lookup query queries resolve suggest autocomplete match locate"
)
_LIST = _set(
    "list lists get gets all fetch fetches retrieve retrieves read show view enumerate return"
    " returns discover browse obtain obtains check load provide provides display"
)
_MAKE = _set(
    "create creates add new make register start starts open begin generate initiate upload"
)
_CHANGE = _set(
    "update delete remove set edit modify send cancel put patch post insert move rename close"
    " archive stop run execute validate convert calculate compute download export import share"
    " reply pay book buy order assign unassign enable disable is has can test verify reset"
    " subscribe unsubscribe follow unfollow like unlike save clear apply sort replace merge restart"
    " pause resume"
)
_LOGIN = _set("login logon signin authenticate authorize connect")
_VERBS = _FIND | _LIST | _MAKE | _CHANGE | _LOGIN
_PREPOSITIONS = _set("by for in from of with on to at using via within per and or that which whose")
_FILLING = _set(
    "info information detail details data list id ids uuid name names metadata summary profile"
    " the a an this your each all my own current api endpoint rest v1 v2 v3 v4 s unique specific"
    " valid numeric string"
)
_HANDLES = _set(
    "id ids gid uid sid pid uuid guid code handle symbol slug arn ticker identifier token session"
)
"""What the last word of a parameter is that stands for something of another tool's."""

_PASSES = _set("token session")
_BARE = _set("id ids gid uuid uid guid slug symbol handle code identifier")
_SHORT_LIVED = _set("session job run thread upload task execution query scan crawl report")
"""What is created to be worked with: nobody could look it up before."""

_CREDENTIALS = _set(
    "api access client secret auth bearer refresh private public idempotency request correlation"
)
_STATED = _set(
    "type external custom internal language lang country currency zip postal area error promo"
    " status color next page continuation verification coupon postcode locale phone dial tenant"
)
"""What people say themselves or a client keeps: `country_code`, `external_id`."""

_IRREGULAR = {"people": "person", "children": "child", "indices": "index", "lists": "list"}

_OF = re.compile(
    r"\b(?:ids?|identifiers?|codes?|slug|uuid|handle|symbol|token)\s+(?:of|for)\s+"
    r"((?:[a-z]+ ?){1,4})",
    re.IGNORECASE,
)
_ITS_ID = re.compile(r"\b([a-z]+)(?:'s)?\s+(?:id|identifier|uuid|slug)s?\b", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_LETTERS = re.compile(r"[a-z]+")
_SENTENCE = re.compile(r"(?<=[.;!?\n])\s+")


def _words(name: str) -> list[str]:
    return [word.casefold() for word in split_identifier(name)]


def _phrase(words: Iterable[str]) -> str:
    """Words in the singular, so that `list_repositories` gives a repository."""
    known = [_IRREGULAR.get(word, word) for word in words]
    return " ".join(tokenise(" ".join(known))) if known else ""


def _suffixes(phrase: str) -> list[str]:
    """`pull request` is a request as well."""
    words = phrase.split()
    return [" ".join(words[start:]) for start in range(len(words))]


# -- what a tool needs -----------------------------------------------------------------------------


class _Parameter(NamedTuple):
    name: str
    description: str
    words: list[str]


def _required(spec: ToolSpec) -> Iterator[_Parameter]:
    """The parameters a caller must bring a value for.

    What has a default or a few values to choose from needs no other tool. Without a token or a
    session no call succeeds, whether the schema requires it or, as many do, requires nothing.
    """
    properties: object = spec.input_schema.get("properties")
    listed: object = spec.input_schema.get("required")
    required = cast("list[Any]", listed) if isinstance(listed, list) else []
    if not isinstance(properties, dict):
        return
    for name, field in cast("dict[str, Any]", properties).items():
        words = _words(name)
        if name not in required and (required or not _PASSES.intersection(words)):
            continue
        schema = cast("dict[str, Any]", field) if isinstance(field, dict) else {}
        chosen = "enum" in schema or "const" in schema or "default" in schema
        if not chosen and schema.get("type") not in ("boolean", "object"):
            described = schema.get("description")
            yield _Parameter(name, described if isinstance(described, str) else "", words)


def _entities(parameter: _Parameter, spec: ToolSpec) -> list[str] | None:
    """Of what a parameter is the id; any of several will do. None where it is no id."""
    words = parameter.words
    if "or" in words:
        # `issue_id_or_key`
        words = words[: words.index("or")]
    if words and words[-1] not in _HANDLES and _says_id(parameter):
        words = [*words, "id"]
    if not words or words[-1] not in _HANDLES:
        return None
    own = [word for word in words[:-1] if word not in _PREPOSITIONS | _FILLING]
    if own:
        kept = _STATED.intersection(own) or _CREDENTIALS.issuperset(own)
        return None if kept else [_phrase(own)]
    if words[-1] not in _BARE:
        return [_phrase(words[-1:])]
    told = _in_path(parameter.name, spec) or _in_description(parameter.description)
    return [_phrase(told)] if told else [_phrase([noun]) for noun in _named(spec).nouns]


def _says_id(parameter: _Parameter) -> bool:
    """`channel`: "Channel ID", "ID of the channel"."""
    name = re.escape(" ".join(parameter.words))
    told = rf"\b{name} ids?\b|\bids? (?:of|for) (?:the |a |an )?{name}\b"
    return re.search(told, parameter.description[:MAX_CHARS], re.IGNORECASE) is not None


def _in_path(name: str, spec: ToolSpec) -> list[str]:
    """`/movie/{id}/credits` asks for the id of a movie."""
    before, found, _ = _path(spec).partition(f"/{{{name}}}")
    above = before.rpartition("/")[2]
    return _words(above) if found and not above.endswith("}") else []


def _path(spec: ToolSpec) -> str:
    path = spec.annotations.get("path")
    return path if isinstance(path, str) else spec.name


def _in_description(text: str) -> list[str]:
    """`The ID of the campaign`, `campaign ID`."""
    found = _OF.search(text) or _ITS_ID.search(text)
    told: list[str] = []
    for word in _LETTERS.findall(found.group(1).lower()) if found else ():
        if word in _PREPOSITIONS | {"is", "you"}:
            break
        if word not in _FILLING | _LIST:
            told.append(word)
    return told


# -- what a tool gives -----------------------------------------------------------------------------


class _Named(NamedTuple):
    verb: str
    nouns: list[str]


def _named(spec: ToolSpec) -> _Named:
    """What a tool does, by its name, and to what: `get_user_by_email` gets a user."""
    verb, nouns = "", list[str]()
    for word in _words(_PLACEHOLDER.sub(" ", spec.name)):
        if word in _VERBS:
            verb = word if not verb or word in _FIND else verb
        elif word in _PREPOSITIONS:
            if nouns:
                break
        elif word not in _FILLING and not word.isdigit():
            nouns.append(word)
    return _Named(verb, nouns)


def _effort(verb: str, entity: str) -> float | None:
    """How far from an answer a tool of this verb leaves its caller; None: it gives nothing."""
    if verb in _FIND:
        return 0.0
    if (
        verb in _LIST
        or verb in _LOGIN
        or (verb in _MAKE and _SHORT_LIVED.intersection(entity.split()))
    ):
        return 1.0
    return None


def _gives(spec: ToolSpec, parameters: int) -> dict[str, float]:
    """What entities a tool's answers identify, each with what it takes; less is better."""
    verb, nouns = _named(spec)
    first = _SENTENCE.split(spec.description[:MAX_CHARS].strip(), maxsplit=1)[0].lower()
    told = _LETTERS.findall(first)
    verb = verb or next((w for w in told[:3] if w in _VERBS), "")
    own = _phrase(nouns)
    one = verb in _LIST and not any(word.endswith("s") for word in nouns[-2:])
    effort = _effort(verb, own)
    if effort is None:
        return {}
    base = 0.05 * parameters + (0.3 if one else 0.0) + effort
    others = set(_identified(spec.output_schema))
    others |= {"session", "token"} if verb in _LOGIN else set()
    if not nouns:
        # `search` alone: its description says of what.
        skipped = _PREPOSITIONS | _FILLING | _FIND | _LIST | _MAKE
        others |= {_phrase([word]) for word in told if word not in skipped}
    given = dict.fromkeys(sorted(others)[:MAX_NAMES], base + 0.5)
    given |= {own: base}
    return {phrase: round(cost, 2) for phrase, cost in given.items() if phrase}


def _identified(schema: Mapping[str, Any], around: str = "", depth: int = 4) -> Iterator[str]:
    """The entities whose ids a schema has: by `person_id`, or by the `id` of one of `persons`."""
    properties: object = schema.get("properties")
    if depth == 0:
        return
    if isinstance(properties, dict):
        for name, field in cast("dict[str, Any]", properties).items():
            words = _words(name)
            if len(words) > 1 and words[-1] in ("id", "ids"):
                yield _phrase(words[:-1])
            elif words == ["id"] and around:
                yield _phrase(_words(around))
            if isinstance(field, dict):
                yield from _identified(cast("dict[str, Any]", field), name, depth - 1)
    items: object = schema.get("items")
    if isinstance(items, dict):
        yield from _identified(cast("dict[str, Any]", items), around, depth - 1)


# -- which tools a text names ----------------------------------------------------------------------

_WORD = re.compile(r"[A-Za-z]\w*+(?:[-./]\w++)*+")
_JOINED = re.compile(r"\w[-./_]\w|\A[a-z]+[A-Z]")
_TURNED_AWAY = re.compile(
    r"instead|deprecat|prefer|rather|alternativ|similar|unlike|see also|not use", re.IGNORECASE
)
LED_CHARS = 60
_LED_TO = re.compile(
    r"\b(?:use|call|run|from|via|by|first|before|obtain\w*|return\w*|get|got|after|requires?|find"
    r"|output|using|with|result\w*)\b[^.]{0,40}$",
    re.IGNORECASE,
)


def _names(spec: ToolSpec, parameters: Iterable[_Parameter]) -> list[tuple[str, str]]:
    """The tools that texts say to use first, and for which parameter: empty for the whole tool.

    As far as their names look like names.
    """
    found: dict[str, str] = {}
    for each in parameters:
        text = each.description[:MAX_CHARS]
        if not _TURNED_AWAY.search(text):
            for name in _identifiers(text):
                found.setdefault(name.group().casefold(), each.name)
    for sentence in _SENTENCE.split(spec.description[:MAX_CHARS]):
        if _TURNED_AWAY.search(sentence):
            continue
        for name in _identifiers(sentence):
            if _LED_TO.search(sentence[max(0, name.start() - LED_CHARS) : name.start()]):
                found.setdefault(name.group().casefold(), "")
    return [(n, parameter) for n, parameter in found.items() if n != spec.name.casefold()][
        :MAX_NAMES
    ]


def _identifiers(text: str) -> Iterator[re.Match[str]]:
    """Words that are names of something: `list_users`, `files.list`, `getUser`."""
    return (word for word in _WORD.finditer(text) if _JOINED.search(word.group()))


_DEPRECATED = re.compile(
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
    """The tools that replace a deprecated one, as names without their separators.

    Where a name ends in running text nobody can tell: each beginning of the text is one.
    """
    text = spec.description[:MAX_CHARS]
    if not (spec.annotations.get("deprecated") or _DEPRECATED.search(text[:500])):
        return []
    found: dict[str, None] = {}
    for told in _SUCCESSOR.finditer(text):
        words = (told["quoted"] or told["words"]).split()
        runs = [" ".join(words[:end]) for end in range(len(words), 0, -1)]
        found |= dict.fromkeys(squeeze(run) for run in runs)
    return [name for name in found if name and name != squeeze(spec.name)][:MAX_NAMES]


# -- the payload -----------------------------------------------------------------------------------


def link_payload(spec: ToolSpec) -> dict[str, Any]:
    """What a tool's point keeps of this: `links`, and `yields`, which is searched by.

    `links` has the `needs` (parameter, and the entities of which any will do), what it `gives`
    (by entity, with what it takes), the `names` of tools to use first, each with the parameter that
    it is for, and those of its `successors`.
    `yields` are the entities it gives, and what they are besides: a pull request is a request.
    """
    parameters = list(_required(spec))
    needs = [
        [each.name, [entity for entity in entities if entity]]
        for each in parameters
        if (entities := _entities(each, spec)) is not None
    ]
    needed = {entity.split()[-1] for need in needs for entity in need[1]}
    given = _gives(spec, len(parameters))
    # Who needs the id of a thing gives details of it, not the id.
    given = {entity: cost for entity, cost in given.items() if entity.split()[-1] not in needed}
    links: Mapping[str, Sequence[Any] | Mapping[str, Any]] = {
        "needs": needs[:MAX_NAMES],
        "gives": given,
        "names": [list(named) for named in _names(spec, parameters)],
        "successors": _successors(spec),
    }
    yields = sorted({suffix for entity in given for suffix in _suffixes(entity)})
    return {"links": {name: value for name, value in links.items() if value}, "yields": yields}
