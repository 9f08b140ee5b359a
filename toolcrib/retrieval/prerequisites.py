"""Prerequisites of chosen tools, their companions, and successors of deprecated tools.

Links by authors (`requires`, `provides`) override links that the indexer read from schemas and
texts (`indexers/links`). Companions (`goes_with`) come from authors, enrichment and use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from toolcrib.records import FindResult, ToolHit, ToolLink, ToolLinks, ToolSpec
from toolcrib.records.answers import with_ranks
from toolcrib.retrieval.fusion import FusionWeights
from toolcrib.retrieval.gate import ENABLED
from toolcrib.store.base import ListRequest, Record, Store, point_id
from toolcrib.store.filters import YIELDS_FIELD, AnyOf, Equals, Filter, Or, all_of
from toolcrib.store.payload import LinkFacts, head_word, phrase_suffixes, read_tool, same_kind
from toolcrib.text import tokenise

# -- links by authors ------------------------------------------------------------------------------

MAX_UNMET_SIGNALS = 5
"""People read signals: the first few show the fault of a registry."""

MAX_SIGNAL_NAME_CHARS = 80

_FIELDS = ("id", "name", "server", "provides", "spec")


class _Requirement(NamedTuple):
    """Requirement, the server of the requiring tool, and the chosen tool at the root."""

    name: str
    server: str
    root: str


def required_tools(
    store: Store, chosen: Sequence[ToolSpec], allowed: Filter | None, limit: int
) -> tuple[dict[str, list[ToolSpec]], tuple[str, ...]]:
    """Enabled tools within `allowed` that the chosen tools require, at most `limit`, and signals.

    The result is by id of the chosen tool, in the order found. A tool meets a requirement by its
    id, its name, or what it provides; of several the tool with that id wins, then one of the same
    server, then the first by id. Each step from requirements to further requirements is one search.

    Signals are `requires-capped` if the limit omitted tools, and `requires-unmet:NAME` for a
    requirement that no tool in scope meets.
    """
    added: dict[str, list[ToolSpec]] = {}
    settled = {name for spec in chosen for name in _names(spec)}
    unmet: list[str] = []
    left = limit
    needs = [need for spec in chosen for need in _requirements(spec, spec.id)]
    while left and (names := {need.name for need in needs} - settled):
        meeting = _tools_by_requirement(store, names, allowed)
        unmet += dict.fromkeys(need.name for need in needs if need.name in names - meeting.keys())
        settled |= names - meeting.keys()
        open_needs, needs = needs, list[_Requirement]()
        for need in open_needs:
            if need.name in settled:
                continue
            if not left:
                needs.append(need)
                continue
            best = min(meeting[need.name], key=partial(_preference, need))
            spec = read_tool(best.payload)
            settled.update(_names(spec))
            added.setdefault(need.root, []).append(spec)
            needs += _requirements(spec, need.root)
            left -= 1
    capped = any(need.name not in settled for need in needs)
    unmet_signals = [
        f"requires-unmet:{name[:MAX_SIGNAL_NAME_CHARS]}" for name in unmet[:MAX_UNMET_SIGNALS]
    ]
    return added, (*(["requires-capped"] if capped else []), *unmet_signals)


def _requirements(spec: ToolSpec, root: str) -> list[_Requirement]:
    return [_Requirement(name, spec.server, root) for name in spec.requires]


def _names(spec: ToolSpec) -> tuple[str, ...]:
    return (spec.id, spec.name, *spec.provides)


def _tools_by_requirement(
    store: Store, names: set[str], allowed: Filter | None
) -> dict[str, list[Record]]:
    """Tools that meet each requirement; unmet requirements are missing."""
    keys = {name.casefold() for name in names}
    where = Or(AnyOf("provides", sorted(names)), AnyOf("name_key", sorted(keys)))
    found: dict[str, list[Record]] = {}
    for record in store.scroll(all_of(where, ENABLED, allowed), _FIELDS):
        own = record.payload
        for name in names & {own["id"], own["name"], *own["provides"]}:
            found.setdefault(name, []).append(record)
    return found


def _preference(need: _Requirement, record: Record) -> tuple[bool, bool, str]:
    tool_id: str = record.payload["id"]
    return tool_id != need.name, record.payload["server"] != need.server, tool_id


# -- linked tools of an answer ---------------------------------------------------------------------

Companions: TypeAlias = Mapping[str, Sequence[str]]
"""Ids of the companions of each tool, by its id."""

COMPANION_CONSUMERS = 6
"""First tools that bring companions; 3 and 10 changed nothing on a development split."""

MAX_BROUGHT_COMPANIONS = 8
"""Maximum number of companions of one tool, so that no author fills an answer."""

PROVIDER_CONSUMERS = 3
"""First tools that bring providers; more of them push out right tools."""

MAX_BROUGHT_TOOLS = 3
MAX_EFFORT = 2.5
"""Maximum effort of a provider: one that needs two more tools first is not worth its place."""

SAME_KIND_EFFORT = 1.0
"""Effort of a provider with another word for the entity: a contact for a person."""

MIN_SHARED_NEED_HITS = 4
"""Minimum number of a server's hits, all with a need for one entity, that makes it a need of the
server."""

MAX_TIED_PROVIDERS = 3
"""Maximum number of tied providers; of more none is brought."""

MAX_CONSUMER_CANDIDATES = 1_000
"""Tools of a server that are searched for consumers of one of them."""

MAX_PROVIDERS = 200
"""Providers in one search: hundreds of tools may give a user."""

_LINKS = ("id", "name_key", "server", "requires", "provides", "links")
_PROVIDER = (*_LINKS, "spec")

_WORD = re.compile(r"[\w#@]+(?:-[\w]+)*")
_COMMON_NUMBER = re.compile(
    r"\d{4}-\d\d-\d\d|\d+(?:st|nd|rd|th|am|pm|k|m|g|mb|gb|kg|px|d|s|h|min|km|usd|x|bit|p)?"
    r"|\d+-[a-z]+",
    re.IGNORECASE,
)
"""Numbers that are dates, amounts or sizes, unless they are long."""

_CAPITALS = re.compile(r"[A-Z]{2,6}")

_YEAR = re.compile(r"(?:19|20)\d\d")

LONG_HANDLE_CHARS, HANDLE_WINDOW_WORDS = 6, 5

_CAPITAL_HANDLES = frozenset({"symbol", "ticker", "code"})
"""Kinds of handles that people know by heart and write in capitals: `AAPL`, `LHR`."""


@dataclass(frozen=True, slots=True)
class _LinkedTool:
    """Tool with its links and its record."""

    id: str
    server: str
    keys: frozenset[str]
    requires: tuple[str, ...]
    provides: frozenset[str]
    links: LinkFacts
    record: Record

    @classmethod
    def from_record(cls, record: Record) -> _LinkedTool:
        own = record.payload
        keys, provides = frozenset(own["name_key"]), frozenset(own["provides"])
        links = LinkFacts.from_payload(own)
        return cls(own["id"], own["server"], keys, tuple(own["requires"]), provides, links, record)


class _Demand(NamedTuple):
    """Demand of a chosen tool: a value for a parameter, from an entity or from named tools.

    Without a parameter it is a demand for a tool that must run before, or for a companion. `link`:
    field of a hit that names the consumer. A stated demand may name a tool of any server.
    """

    consumer: _LinkedTool
    parameter: str = ""
    entities: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    link: Literal["needed_for", "goes_with"] = "needed_for"
    is_stated: bool = False


def bring_linked_tools(
    store: Store,
    read: Mapping[int, Record],
    found: FindResult,
    limits: Filter | None,
    *,
    shares: FusionWeights,
    k: int | Literal["auto"],
    authors: bool,
    learned: Companions,
) -> list[ToolHit]:
    """Add providers and companions of the first hits, and successors of deprecated hits.

    A provider or companion within `limits` gets a share of its consumer's score, or keeps a higher
    score of its own; `needed_for` or `goes_with` names the consumer. It may displace the last of
    `k`, but no tool that the query calls by name; providers of the first tool stay. A successor
    takes the place of the deprecated tool, which moves one place down. Without `authors` the
    requirements of authors are ignored. `learned`: further companions. Records in `read` are not
    read again. Hits are ranked anew.
    """
    hits, query = found.tools, found.query
    share = {"needed_for": shares.prerequisites, "goes_with": shares.companions}
    if not hits or not any(share.values()):
        return list(hits)
    points = [point_id(hit.id) for hit in hits]
    missing = [point for point in points if point not in read]
    records = [read[point] for point in points if point in read]
    records += store.retrieve(missing) if missing else []
    known = {record.payload["id"]: record for record in records}
    first = [hit.id for hit in hits[:COMPANION_CONSUMERS]]
    chosen = [_LinkedTool.from_record(known[each]) for each in first if each in known]
    open_demands = [
        *(
            demand
            for each in chosen[:PROVIDER_CONSUMERS]
            for demand in _demands(each, authors=authors)
        ),
        *(demand for each in chosen for demand in _companions(each, learned)),
    ]
    open_demands = [demand for demand in open_demands if share[demand.link]]
    words = [(word, set(tokenise(word))) for word in _WORD.findall(query)] if open_demands else []
    demands = [each for each in open_demands if not _states_value(words, each.parameter)]
    succeeded = [
        hit for hit in hits if hit.id in known and known[hit.id].payload["links"].get("successors")
    ]
    if not demands and not succeeded:
        return list(hits)
    own = {hit.id: _LinkedTool.from_record(known[hit.id]) for hit in hits if hit.id in known}
    siblings = _siblings(store, demands, [own[hit.id] for hit in succeeded], limits)
    ranking = _Ranking(list(hits), siblings)
    for hit in succeeded:
        ranking.succeed(hit, _successor(own[hit.id], siblings))
    for demand in demands:
        if (best := _provider(demand, siblings)) is not None:
            is_shared = _is_shared(demand, list(own.values()))
            ranking.bring(best.id, demand, 0.0 if is_shared else share[demand.link])
    return ranking.first(len(hits) if k == "auto" else k, cut=k != "auto")


def _is_shared(demand: _Demand, found: Sequence[_LinkedTool]) -> bool:
    """True if all found tools of the consumer's server need this entity, as `user_id`.

    Callers mostly know such an id. Tokens and sessions are exceptions: each tool needs them.
    """
    here = [each for each in found if each.server == demand.consumer.server]
    needing = [each for each in here if demand.entities in dict(each.links.needs).values()]
    is_access = not {"token", "session"}.isdisjoint(map(head_word, demand.entities))
    return len(needing) >= MIN_SHARED_NEED_HITS and len(needing) == len(here) and not is_access


def _demands(consumer: _LinkedTool, *, authors: bool = True) -> Iterator[_Demand]:
    """Demands of a tool: its author's requirements, or otherwise its links."""
    if consumer.requires:
        for name in consumer.requires if authors else ():
            yield _Demand(consumer, names=(name,), is_stated=True)
        return
    named: dict[str, list[str]] = {}
    for name, parameter in consumer.links.recommended:
        named.setdefault(parameter, []).append(name)
    yield from (_Demand(consumer, names=(name,)) for name in named.pop("", ()))
    for parameter, entities in {**dict.fromkeys(named, ()), **dict(consumer.links.needs)}.items():
        names = tuple(named.get(parameter, ()))
        if names or entities:
            yield _Demand(consumer, parameter, entities, names)


def _companions(consumer: _LinkedTool, learned: Companions) -> Iterator[_Demand]:
    """Demands for companions: stated by the author or the enrichment, then learned."""
    named = dict.fromkeys((*consumer.links.goes_with, *learned.get(consumer.id, ())))
    for name in islice(named, MAX_BROUGHT_COMPANIONS):
        yield _Demand(consumer, names=(name,), link="goes_with", is_stated=True)


def _states_value(words: Sequence[tuple[str, set[str]]], parameter: str) -> bool:
    """True if a query has the value: an id behind the parameter's name.

    `words`: words of the query, each with its terms.
    """
    wanted = set(tokenise(parameter)) - {"name"}
    found = [word for word, _ in words]
    if wanted & _CAPITAL_HANDLES and any(_CAPITALS.fullmatch(word) for word in found):
        return True
    places = [place for place, (_, terms) in enumerate(words, start=1) if wanted & terms]
    return any(
        _is_number(found[place : place + 1])
        or any(map(_is_handle, found[place : place + HANDLE_WINDOW_WORDS]))
        for place in places
    )


def _is_number(words: Sequence[str]) -> bool:
    """True if the words begin with a number that is no year: `movie 550`."""
    return bool(words) and words[0].isdigit() and not _YEAR.fullmatch(words[0])


def _is_handle(word: str) -> bool:
    if not any(letter.isdigit() for letter in word):
        return False
    return (
        len(word) >= LONG_HANDLE_CHARS or not _COMMON_NUMBER.fullmatch(word) or word.startswith("#")
    )


def _siblings(
    store: Store,
    demands: Sequence[_Demand],
    deprecated: Sequence[_LinkedTool],
    limits: Filter | None,
) -> list[_LinkedTool]:
    """Find tools that may meet a demand or replace a deprecated tool, in one search."""
    entities = {
        name
        for demand in demands
        for entity in demand.entities
        for name in (*phrase_suffixes(entity), *same_kind(entity))
    }
    named = {name for demand in demands for name in demand.names}
    keys = {name.casefold() for name in named}
    named |= {demand.parameter for demand in demands if demand.parameter}
    keys |= {key for each in deprecated for key in each.links.successors}
    meets = Or(
        AnyOf(YIELDS_FIELD, sorted(entities)),
        AnyOf("provides", sorted(named)),
        AnyOf("name_key", sorted(keys)),
    )
    servers = {demand.consumer.server for demand in demands} | {each.server for each in deprecated}
    stated = {name for demand in demands if demand.is_stated for name in demand.names}
    anywhere = (
        AnyOf("provides", sorted(stated)),
        AnyOf("name_key", sorted({name.casefold() for name in stated})),
    )
    meets = Or(all_of(meets, AnyOf("server", sorted(servers))) or meets, *anywhere)
    listing = ListRequest(all_of(meets, ENABLED, limits), MAX_PROVIDERS, _PROVIDER)
    _, (found,) = store.search_and_list((), [listing])
    return [*map(_LinkedTool.from_record, found)]


def _provider(demand: _Demand, siblings: Iterable[_LinkedTool]) -> _LinkedTool | None:
    """Provider that meets the demand at the least effort.

    Of several the one whose name is most like the consumer's; None for more than
    `MAX_TIED_PROVIDERS`. The only provider may cost more than `MAX_EFFORT`.
    """
    found = [
        (round(effort, 2), -_name_overlap(demand.consumer.id, each.id), each.id, each)
        for each in siblings
        if (effort := _effort(demand, each)) is not None
    ]
    if not found:
        return None
    best = min(found, key=lambda one: one[:3])
    level = sum(one[:2] == best[:2] for one in found)
    is_dear = best[0] > MAX_EFFORT and len(found) > 1
    return None if is_dear or level > MAX_TIED_PROVIDERS else best[3]


def _name_overlap(consumer: str, provider: str) -> float:
    """Share of the words in a consumer's name that a provider's name has too."""
    words = set(tokenise(consumer))
    return len(words & set(tokenise(provider))) / max(1, len(words))


def _effort(demand: _Demand, sibling: _LinkedTool) -> float | None:
    """Effort of this tool to meet the demand; None if it cannot."""
    consumer = demand.consumer
    if sibling.id == consumer.id:
        return None
    named = _effort_by_name(demand, sibling)
    if named is not None:
        return named
    if consumer.server != sibling.server:
        return None
    if (consumer.links.action, sibling.links.action) == ("change", "make"):
        # An entity that is to be changed exists already.
        return None
    needs = sibling.links.needs
    heads = {head_word(entity) for entity in demand.entities}
    if any(
        name == demand.parameter or heads & set(map(head_word, entities))
        for name, entities in needs
    ):
        return None
    known = {entities for _, entities in consumer.links.needs}
    further = sum(entities not in known for _, entities in needs)
    efforts = (
        effort + further + name_effort
        for one, effort in sibling.links.gives.items()
        for entity in demand.entities
        if (name_effort := _name_effort(entity, one)) is not None
    )
    return min(efforts, default=None)


def _effort_by_name(demand: _Demand, sibling: _LinkedTool) -> float | None:
    """Negative effort of a tool that authors or texts name, the least on the same server."""
    here = demand.consumer.server == sibling.server
    away = 0.0 if here else 1.0
    if sibling.provides.intersection((demand.parameter, *demand.names)):
        return away - 3.0
    if not any(name.casefold() in sibling.keys for name in demand.names):
        return None
    # A text may name an earlier step (`for bookings made with book_room`).
    led = here and (demand.parameter or sibling.links.gives)
    return away - 2.0 if demand.is_stated or led else None


def _name_effort(needed: str, given: str) -> float | None:
    """Effort by the names of entities; None for two different entities.

    One phrase may end in the other: a `pull request` is a `request`.
    """
    if needed in phrase_suffixes(given) or given in phrase_suffixes(needed):
        lengths = abs(len(needed.split()) - len(given.split()))
        return 0.5 + 0.1 * lengths if lengths else 0.0
    return SAME_KIND_EFFORT if head_word(given) in same_kind(needed) else None


def _successor(deprecated: _LinkedTool, siblings: Iterable[_LinkedTool]) -> str | None:
    """Id of the tool that the deprecated tool's description recommends."""
    here = [each for each in siblings if each.server == deprecated.server]
    others = [each for each in here if each.id != deprecated.id]
    named = ([each.id for each in others if n in each.keys] for n in deprecated.links.successors)
    return next((min(ids) for ids in named if ids), None)


def links_of(store: Store, tool_id: str, limits: Filter | None, learned: Companions) -> ToolLinks:
    """Tools within `limits` that a tool needs, its companions, and its consumers."""
    (own,) = map(_LinkedTool.from_record, store.retrieve([point_id(tool_id)]))
    demands = [*_demands(own), *_companions(own, learned)]
    found = _siblings(store, demands, [own], limits)
    met = [
        (demand, ToolLink(best.id, demand.parameter))
        for demand in demands
        if (best := _provider(demand, found)) is not None
    ]
    here = all_of(Equals("server", own.server), ENABLED, limits)
    records = islice(store.scroll(here, _LINKS), MAX_CONSUMER_CANDIDATES)
    siblings = [*map(_LinkedTool.from_record, records)]
    candidates = [
        demand for each in siblings for demand in _demands(each) if _effort(demand, own) is not None
    ]
    users = [
        demand
        for demand in candidates
        if (best := _provider(demand, siblings)) is not None and best.id == own.id
    ]
    return ToolLinks(
        needs=tuple(link for demand, link in met if demand.link == "needed_for"),
        needed_by=tuple(ToolLink(demand.consumer.id, demand.parameter) for demand in users),
        goes_with=tuple(dict.fromkeys(link for d, link in met if d.link == "goes_with")),
        replaced_by=_successor(own, siblings),
    )


class _Ranking:
    """Ranking of hits into which successors, providers and companions are inserted."""

    def __init__(self, hits: list[ToolHit], siblings: Sequence[_LinkedTool]) -> None:
        self._hits = hits
        self._siblings = {each.id: each for each in siblings}
        self._first = hits[0].id
        self._named_count = sum(hit.score >= 1 for hit in hits)
        self._brought_count = 0

    def succeed(self, deprecated: ToolHit, successor: str | None) -> None:
        """Put the successor in the place of the deprecated hit, unless it ranks higher."""
        if successor is None:
            return
        place = self._place(deprecated.id)
        self._hits[place] = replace(self._hits[place], replaced_by=successor)
        other = self._place(successor)
        # A tool called by name stays first.
        if other < place or deprecated.score >= 1:
            return
        hit = self._take(other, successor)
        likely = max((p for p in (hit.probability, deprecated.probability) if p), default=None)
        score = max(hit.score, deprecated.score)
        self._hits.insert(place, replace(hit, score=score, probability=likely))

    def bring(self, provider: str, demand: _Demand, share: float) -> None:
        """Put the provider or companion at `share` of its consumer's score, or higher."""
        is_needed = demand.link == "needed_for"
        user, other = self._place(demand.consumer.id), self._place(provider)
        if other == len(self._hits) and is_needed:
            if self._brought_count == MAX_BROUGHT_TOOLS:
                return
            self._brought_count += 1
        elif other < user:
            # In a cycle only one of the two tools is a provider.
            if is_needed and provider not in self._hits[user].needed_for:
                self._mark(other, demand)
            return
        hit = self._take(other, provider)
        score = max(hit.score, share * self._hits[user].score)
        place = user + 1
        while place < len(self._hits) and self._hits[place].score >= score:
            place += 1
        self._hits.insert(place, replace(hit, score=score))
        if is_needed or score > hit.score:
            self._mark(place, demand)

    def first(self, k: int, *, cut: bool) -> list[ToolHit]:
        """First `k` hits, or all; unnamed hits give way to providers of the first tool."""
        hits = self._hits
        if cut:
            room = max(0, k - max(1, self._named_count))
            late = [hit for hit in hits[k:] if self._first in hit.needed_for][:room]
            hits = [*hits[: k - len(late)], *late]
        return list(with_ranks(hits))

    def _place(self, tool_id: str) -> int:
        return next((n for n, hit in enumerate(self._hits) if hit.id == tool_id), len(self._hits))

    def _take(self, place: int, tool_id: str) -> ToolHit:
        if place < len(self._hits):
            return self._hits.pop(place)
        return ToolHit(0, 0.0, read_tool(self._siblings[tool_id].record.payload))

    def _mark(self, place: int, demand: _Demand) -> None:
        hit = self._hits[place]
        known = hit.needed_for if demand.link == "needed_for" else hit.goes_with
        users = tuple(dict.fromkeys((*known, demand.consumer.id)))
        self._hits[place] = replace(hit, **{demand.link: users})
