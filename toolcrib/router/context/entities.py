"""The entities of a turn: typed spans, found without any model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from toolcrib.records.context import Entity
from toolcrib.router.context.dates import dates
from toolcrib.router.context.personal import personal_entities
from toolcrib.router.context.phrases import PhraseIndex, words_of
from toolcrib.router.context.secrets import secrets
from toolcrib.router.context.shapes import shapes

__all__ = ["MAX_CHARS", "EntityFinder", "head_of"]

MAX_CHARS = 8_000
"""What is looked at of a turn; a log of 200 KB that is pasted in says no more than its head."""

MIN_NAME_CHARS = 3
"""Shorter names of tools (`q`, `ls`) are letters of a sentence more often than tools."""

_CERTAIN = frozenset({"secret", "card", "iban", "ssn"})
"""Held against any longer span: a password within a URL is what matters there."""

_ORDER = (
    "tool",
    "email",
    "url",
    "date",
    "ip",
    "phone",
    "money",
    "error",
    "path",
    "version",
    "identifier",
    "address",
)
"""Which type a span has that several claim; a gazetteer's comes before all of these."""

_RANKS = {kind: rank for rank, kind in enumerate(_ORDER)}


def head_of(text: str) -> str:
    """The first `MAX_CHARS` characters, cut at white space so that no entity is cut in two."""
    if len(text) <= MAX_CHARS:
        return text
    parts = text[:MAX_CHARS].rsplit(maxsplit=1)
    return parts[0] if parts else ""


class EntityFinder:
    """Finds mail addresses, numbers, dates, code, errors, secrets, and the names that it is given.

    `gazetteers` are phrases by the type that they make an entity of; `names` those of tools,
    packages and services, found as type `tool`. Both match on word borders, whatever the case.
    `region` is the country (ISO 3166, `DE`) whose telephone numbers are also known without its
    code; None: only where a word says that they are telephone numbers.
    """

    def __init__(
        self,
        gazetteers: Mapping[str, Iterable[str]] = MappingProxyType({}),
        names: Iterable[str] = (),
        *,
        region: str | None = None,
    ) -> None:
        given = ((phrase, kind) for kind, phrases in gazetteers.items() for phrase in phrases)
        tools = ((name, "tool") for name in names if len(name) >= MIN_NAME_CHARS)
        self._gazetteers = PhraseIndex(given)
        self._names = PhraseIndex(tools)
        self._region = region

    def find(self, text: str) -> tuple[Entity, ...]:
        """The entities of the text's head by their start; none lies over another.

        Of two that do the longer counts, except that a secret, a card, an account or a social
        security number always does.
        """
        head = head_of(text)
        found = itertools.chain(
            self._given(head),
            secrets(head),
            personal_entities(head, self._region),
            dates(head),
            shapes(head),
        )
        kept: list[Entity] = []
        taken = bytearray(len(head))
        for entity in sorted(found, key=_precedence):
            if not any(taken[entity.start : entity.end]):
                taken[entity.start : entity.end] = b"\1" * (entity.end - entity.start)
                kept.append(entity)
        return tuple(sorted(kept, key=lambda entity: entity.start))

    def _given(self, text: str) -> Iterator[Entity]:
        words = words_of(text)
        for index in (self._gazetteers, self._names):
            for match in index.find(words):
                start, end = words.spans[match.first][0], words.spans[match.last - 1][1]
                yield Entity(match.labels[0], text[start:end], start, end)


def _precedence(entity: Entity) -> tuple[bool, int, int, int]:
    length = entity.end - entity.start
    return entity.type not in _CERTAIN, -length, _RANKS.get(entity.type, -1), entity.start
