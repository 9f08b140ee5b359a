"""Links of a tool as its point keeps them: the indexer writes them, retrieval reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.store.filters import YIELDS_FIELD


def phrase_suffixes(phrase: str) -> list[str]:
    """A phrase and its last words: a `pull request` is a `request` as well."""
    words = phrase.split()
    return [" ".join(words[start:]) for start in range(len(words))]


def head_word(phrase: str) -> str:
    """Last word of a phrase: the kind of entity without its attributes."""
    return phrase.rsplit(maxsplit=1)[-1]


_SAME_KIND = (frozenset({"person", "contact", "user", "member"}),)
"""Words that registries use for one kind of entity, in the singular."""


def same_kind(entity: str) -> list[str]:
    """Other words for the kind of entity of a phrase: a contact is a person as well."""
    head = head_word(entity)
    return sorted(word for words in _SAME_KIND if head in words for word in words - {head})


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """Facts of one specification about links to other tools.

    `needs`: parameters, each with entities of which any one fits. `gives`: effort to get an
    entity's id, by entity. `recommended`: names of tools to use first, each with its parameter, or
    empty for the whole tool. `successors`: names of tools that replace a deprecated tool.
    `action`: `make` for a tool that adds an entity, `change` for one that edits or removes it.
    """

    needs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    gives: Mapping[str, float] = field(default_factory=dict[str, float])
    recommended: tuple[tuple[str, str], ...] = ()
    successors: tuple[str, ...] = ()
    action: str = ""

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> LinkFacts:
        """Read the facts of a point."""
        links: Mapping[str, Any] = payload["links"]
        return cls(
            tuple((parameter, tuple(entities)) for parameter, entities in links.get("needs", ())),
            links.get("gives", {}),
            tuple((name, parameter) for name, parameter in links.get("names", ())),
            tuple(links.get("successors", ())),
            links.get("action", ""),
        )

    def payload(self) -> dict[str, Any]:
        """Payload fields `links` and `yields`; searches filter by `yields`.

        `yields` has the entities of `gives` and their suffixes: a pull request is a request.
        """
        links: dict[str, Any] = {
            "needs": [[parameter, list(entities)] for parameter, entities in self.needs],
            "gives": dict(self.gives),
            "names": [list(pair) for pair in self.recommended],
            "successors": list(self.successors),
            "action": self.action,
        }
        yields = sorted({suffix for entity in self.gives for suffix in phrase_suffixes(entity)})
        given = {name: value for name, value in links.items() if value}
        return {"links": given, YIELDS_FIELD: yields}
