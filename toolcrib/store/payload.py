"""Payloads: fields of tools and passages beside their vectors, names, counts of values, links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field
from pydantic_core import PydanticSerializationError

from toolcrib import records
from toolcrib.errors import SpecError
from toolcrib.records import Passage, ToolSpec
from toolcrib.records.codec import adapter, as_json
from toolcrib.records.definitions import provider_name
from toolcrib.store.base import pages
from toolcrib.store.filters import MAX_LIST_VALUES, YIELDS_FIELD, AnyOf, Filter, Or
from toolcrib.text import name_key

FACET_FIELDS = ("server", "category", "tags", "sensitivity")
"""The payload fields that are counted."""

COPIED_FIELDS = {
    *("id", "name", "server", "category", "tags", "requires", "provides"),
    *("version", "sensitivity", "cost_estimate", "avg_latency_ms"),
}
"""Fields of a specification that its payload has unchanged."""

ENRICHED_FIELD = "enriched"
"""Origin of an enriched tool's examples: `author`, or `writer` of the enrichment. Tools without an
enrichment lack the field."""


def tool_payload(spec: ToolSpec) -> dict[str, Any]:
    """The payload of a tool's point.

    Raises:
        SpecError: the specification holds text that no store can keep.
    """
    try:
        text = spec.model_dump_json(exclude_defaults=True)
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise SpecError("holds half a character (a lone surrogate); mend the text") from error
    payload = spec.model_dump(mode="json", include=COPIED_FIELDS, exclude_none=True)
    if spec.enrichment:
        payload[ENRICHED_FIELD] = "author" if spec.success_examples else "writer"
    return {
        **payload,
        "kind": spec.kind,
        "name_key": name_keys(spec),
        "safety_tags": list(spec.all_safety_tags),
        # As text: the embedded engine's boolean index is fifty times slower.
        "enabled": str(spec.enabled).lower(),
        "always_active": str(spec.always_active).lower(),
        "deprecated": str(bool(spec.annotations.get("deprecated"))).lower(),
        "digest": spec.digest,
        "spec": text,
    }


def read_tool(payload: Mapping[str, Any]) -> ToolSpec:
    """The specification that a payload holds."""
    return ToolSpec.model_validate_json(payload["spec"])


def name_keys(tool: ToolSpec) -> list[str]:
    """Keys of a tool: its id, its name, and the letters and digits of its names."""
    whole = {tool.name.casefold(), tool.id.casefold()}
    return sorted(whole | set(map(name_key, (tool.name, tool.id, provider_name(tool)))))


def has_key(keys: Iterable[str]) -> Filter | None:
    """Filter of the tools that have any of these keys; None without keys."""
    listed = sorted({*keys} - {""})
    parts = [AnyOf("name_key", page) for page in pages(listed, MAX_LIST_VALUES)]
    return Or(*parts) if len(parts) > 1 else next(iter(parts), None)


def named_tools(
    names: Iterable[str], list_tools: Callable[[Filter], Iterable[ToolSpec]]
) -> dict[str, tuple[ToolSpec, ...]]:
    """Tools that each name may mean, of those that `list_tools` gives; unknown names are absent.

    The order is: the tool with this id, with this name in providers' definitions, tools with this
    own name. If there are none: tools whose id or names have the same letters and digits.
    `mail/send`, `mail__send`, `mail_send` and `send` all mean the tool `send` of the server `mail`.
    """
    keys = {name: name_key(name) for name in names}
    where = has_key(keys.values())
    found: dict[str, list[ToolSpec]] = {}
    for tool in list_tools(where) if where else ():
        for key in name_keys(tool):
            found.setdefault(key, []).append(tool)
    return {name: _nearest(name, found[key]) for name, key in keys.items() if key in found}


def only_tools(
    names: Iterable[str], list_tools: Callable[[Filter], Iterable[ToolSpec]]
) -> dict[str, ToolSpec]:
    """The tool of each name, as `named_tools`; names of several tools are left out."""
    named = named_tools(names, list_tools)
    return {name: tools[0] for name, tools in named.items() if len(tools) == 1}


def respell(tool: ToolSpec, name: str, named: ToolSpec) -> str:
    """Name of a tool in the same form (id, provider's or own) that `name` has of `named`."""
    if name in {named.id, named.name}:
        return tool.id if name == named.id else tool.name
    return provider_name(tool)


def _nearest(name: str, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    spelt = [(tool, (tool.id, provider_name(tool), tool.name)) for tool in tools]
    exact = ([tool for tool, names in spelt if names[place] == name] for place in range(3))
    return tuple(next(filter(None, exact), tools))


def passage_payload(passage: Passage, digest: str) -> dict[str, Any]:
    """The payload of a passage's point."""
    return {**as_json(passage), "id": passage.id, "digest": digest}


def read_passage(payload: Mapping[str, Any]) -> Passage:
    """The passage that a payload holds."""
    # By hand, in half the time of an adapter: a turn reads sixty passages.
    return Passage(
        collection=payload["collection"],
        document=payload["document"],
        text=payload["text"],
        title=tuple(payload["title"]),
        position=payload["position"],
        start=payload["start"],
    )


def count_facets(payloads: Iterable[Mapping[str, Any]]) -> records.Facets:
    """Facets of tools, the most frequent value first."""
    tools = 0
    counts = {name: Counter[str]() for name in FACET_FIELDS}
    for payload in payloads:
        tools += 1
        for name, counter in counts.items():
            value = payload.get(name) or ()
            counter.update({value} if isinstance(value, str) else set(value))
    ordered = (
        dict(sorted(counter.items(), key=lambda pair: (-pair[1], pair[0])))
        for counter in counts.values()
    )
    return records.Facets(tools, *ordered)


def phrase_suffixes(phrase: str) -> list[str]:
    """All suffixes of a phrase, itself included: a `pull request` is a `request` too."""
    words = phrase.split()
    return [" ".join(words[start:]) for start in range(len(words))]


def head_word(phrase: str) -> str:
    """Last word of a phrase, which names the kind of entity."""
    return phrase.rsplit(maxsplit=1)[-1]


_SAME_KIND = (frozenset({"person", "contact", "user", "member"}),)
"""Words that registries use for one kind of entity, in the singular."""


def same_kind(entity: str) -> list[str]:
    """Synonyms for the kind of entity of a phrase: a contact is a person too."""
    head = head_word(entity)
    return sorted(word for words in _SAME_KIND if head in words for word in words - {head})


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """Facts of one specification about links to other tools, as its point keeps them.

    `needs`: parameters, each with alternative entities. `gives`: cost of an entity's id by this
    tool, by entity. `recommended`: names of tools to use first, each with the parameter it is for,
    empty for the whole tool. `successors`: names of tools that replace a deprecated tool.
    `goes_with`: ids or names of companions. `action`: `make` for a tool that adds an entity,
    `change` for a tool that edits or removes entities.
    """

    needs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    gives: Mapping[str, float] = field(default_factory=dict[str, float])
    recommended: Annotated[tuple[tuple[str, str], ...], Field(alias="names")] = ()
    successors: tuple[str, ...] = ()
    goes_with: tuple[str, ...] = ()
    action: str = ""

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> LinkFacts:
        """Read the facts of a point."""
        return adapter(cls).validate_python(payload["links"])

    def payload(self) -> dict[str, Any]:
        """Payload fields `links` and `yields`; searches filter by `yields`.

        `yields` has the entities of `gives` and their suffixes: a pull request is a request.
        """
        yields = sorted({suffix for entity in self.gives for suffix in phrase_suffixes(entity)})
        given = {name: value for name, value in as_json(self).items() if value}
        return {"links": given, YIELDS_FIELD: yields}
