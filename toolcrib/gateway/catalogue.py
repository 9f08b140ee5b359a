"""What the gateway offers: tools of all servers, by names that are safe, stable and unambiguous."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from toolcrib.integrations.formats import MAX_NAME, accepted, with_digest
from toolcrib.records import Scope, ToolSpec
from toolcrib.store.base import point_id
from toolcrib.store.filters import Filter, from_scope, matches
from toolcrib.store.payload import tool_payload

__all__ = ["RESERVED", "Catalogue", "Offer"]

MARK_CHARS = 6

RESERVED = ("find_tools", "call_tool", "find_knowledge")
"""The gateway's own tools."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as it is offered: under its own name at its server, under `name` at the gateway."""

    name: str
    spec: ToolSpec
    payload: Mapping[str, Any] = field(repr=False)

    def is_within(self, scope: Scope | None) -> bool:
        """Whether a caller with this scope could find it."""
        return self.fits(from_scope(scope))

    def fits(self, where: Filter | None) -> bool:
        """Whether it passes a filter, as it would in a search."""
        return where is None or matches(where, point_id(self.spec.id), self.payload)


class Catalogue:
    """The tools on offer; never changed, another one takes its place.

    A tool is called `server_name`, so that no server can take the name of another's tool. Where
    two would be called alike, neither is: both get a mark of their ids. So a name never comes
    to mean another tool because a server was added.
    """

    def __init__(
        self, specs: Iterable[ToolSpec] = (), known: Mapping[str, Offer] | None = None
    ) -> None:
        enabled = sorted((spec for spec in specs if spec.enabled), key=lambda spec: spec.id)
        plain = {spec.id: _public(spec) for spec in enabled}
        count = Counter({**Counter(plain.values()), **dict.fromkeys(RESERVED, 2)})
        self._offers = {
            spec.id: _offer(spec, _marked(spec, plain[spec.id], count), known or {})
            for spec in enabled
        }
        self._named = {offer.name: offer for offer in self._offers.values()}

    def __len__(self) -> int:
        return len(self._offers)

    def __iter__(self) -> Iterator[Offer]:
        return iter(self._offers.values())

    def get(self, tool_id: str) -> Offer | None:
        """The tool with this id."""
        return self._offers.get(tool_id)

    def named(self, name: str) -> Offer | None:
        """The tool of this name, of this id, or whose own name it is where only one has it."""
        return self._named.get(name) or self._offers.get(name) or self._only.get(name)

    @cached_property
    def _only(self) -> dict[str, Offer]:
        count = Counter(offer.spec.name for offer in self)
        return {offer.spec.name: offer for offer in self if count[offer.spec.name] == 1}

    def of(self, server: str) -> list[Offer]:
        """The tools of a server."""
        return [offer for offer in self if offer.spec.server == server]

    def within(self, scope: Scope | None) -> list[Offer]:
        """The tools that a caller with this scope could find, by id."""
        where = from_scope(scope)
        return [offer for offer in self if offer.fits(where)]

    def narrowed(self, listings: Mapping[str, Iterable[ToolSpec]]) -> Catalogue:
        """The same catalogue without what these servers do not have, or no longer as it is."""
        kept = {spec.id: spec for specs in listings.values() for spec in specs}
        here = (offer.spec for offer in self)
        return Catalogue(
            (spec for spec in here if spec.server not in listings or kept.get(spec.id) == spec),
            self._offers,
        )

    def replaced(self, listings: Mapping[str, Iterable[ToolSpec]]) -> Catalogue:
        """The same catalogue with other tools of some servers."""
        others = [offer.spec for offer in self if offer.spec.server not in listings]
        return Catalogue(
            [*others, *(spec for specs in listings.values() for spec in specs)], self._offers
        )


def _offer(spec: ToolSpec, name: str, known: Mapping[str, Offer]) -> Offer:
    """An offer; the one that is known, where it is the same."""
    last = known.get(spec.id)
    if last is None or last.spec != spec:
        return Offer(name, spec, tool_payload(spec, 0.0))
    return last if last.name == name else Offer(name, last.spec, last.payload)


def _public(spec: ToolSpec) -> str:
    server, name = _allowed(spec.server), _allowed(spec.name)
    has_it = not server or name.casefold().startswith(f"{server.casefold()}_")
    return (name if has_it else f"{server}_{name}")[:MAX_NAME]


def _marked(spec: ToolSpec, name: str, count: Counter[str]) -> str:
    whole = len(spec.server) + len(spec.name) < MAX_NAME
    if count[name] == 1 and whole:
        return name
    return with_digest(name, spec.id, MARK_CHARS)


def _allowed(text: str) -> str:
    return accepted(text) or ("tool" if text else "")
