"""Findings of an audit, and the audited texts of a specification."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from toolcrib.records import Enrichment, ToolSpec
from toolcrib.records.codec import is_object
from toolcrib.records.reports import Finding, Severity

# -- findings --------------------------------------------------------------------------------------

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "block")
"""Severities, the worst last: an oddity; text of some honest tools; text of no honest tool."""


@dataclass(frozen=True, slots=True)
class Sign:
    """Match of a rule in one text, without the text's place.

    `excerpt` shows hidden characters. Signs of different `group` in one tool strengthen each
    other; signs without a group do not.
    """

    rule: str
    severity: Severity
    excerpt: str
    why: str
    group: str = ""


def blocks(findings: Iterable[Finding], *, strict: bool = False) -> bool:
    """True if a finding blocks the tool; with `strict` warnings block too."""
    blocking = {"block", "warning"} if strict else {"block"}
    return any(each.severity in blocking for each in findings)


# -- texts of a specification ----------------------------------------------------------------------

MAX_AUDITED_CHARS = 100_000
"""Characters of one tool that are audited; the longest of 100,000 real tools has a fifth."""

_TEXT_FIELDS = ("name", "server", "id", "description", "category", "version")
_EXAMPLE_FIELDS = ("success_examples", "anti_patterns")
_LIST_FIELDS = (*_EXAMPLE_FIELDS, "tags", "safety_tags", "requires", "provides", "goes_with")
_OBJECT_FIELDS = ("input_schema", "output_schema", "annotations")

_NAME_FIELDS = frozenset({"name", "server", "id", "required", "tags", "category"})
"""Fields whose texts are identifiers: words joined by underscores or capitals."""

_MAP_KEYWORDS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
"""Keys of a schema whose own keys are the author's names."""

KEYWORDS = frozenset(
    {
        *("$anchor", "$comment", "$id", "$ref", "$schema", "additionalItems"),
        *("additionalProperties", "allOf", "anyOf", "const", "contains", "contentEncoding"),
        *("contentMediaType", "contentSchema", "default", "dependentRequired", "deprecated"),
        *("description", "discriminator", "else", "enum", "example", "examples"),
        *("exclusiveMaximum", "exclusiveMinimum", "externalDocs", "format", "if", "items"),
        *("maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains"),
        *("minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "nullable"),
        *("oneOf", "pattern", "prefixItems", "propertyNames", "readOnly", "required", "then"),
        *("title", "type", "unevaluatedItems", "unevaluatedProperties", "uniqueItems"),
        *("url", "writeOnly", "xml", *_MAP_KEYWORDS, *Enrichment.model_fields),
    }
)
"""Keys of JSON Schema and OpenAPI, which are no author's words."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$][\w$-]*", re.ASCII)
_PROPERTY = re.compile(r"\.properties[.\[]")


@dataclass(frozen=True, slots=True)
class ToolText:
    """One text and its place; `is_name` for an identifier."""

    place: str
    text: str
    is_name: bool = False

    @property
    def is_property(self) -> bool:
        """True for the name of a property of a schema."""
        return self.is_name and _PROPERTY.search(self.place) is not None


def texts_of(spec: ToolSpec) -> list[ToolText]:
    """Distinct texts of a specification with their first places; `MAX_AUDITED_CHARS` at most.

    Keys of an object are texts if the author chose them: names of properties, and keys that are
    no keyword of JSON Schema.
    """
    found: dict[tuple[str, bool], ToolText] = {}
    left = MAX_AUDITED_CHARS
    for text in _all_texts(spec):
        if text.text and (text.text, text.is_name) not in found:
            read = replace(text, text=text.text[:left])
            found[text.text, text.is_name] = read
            left -= len(read.text)
            if not left:
                break
    return list(found.values())


def is_too_long(spec: ToolSpec) -> bool:
    """True if a specification exceeds the limit of `texts_of`."""
    left = MAX_AUDITED_CHARS
    return any((left := left - len(text)) < 0 for text in {each.text for each in _all_texts(spec)})


def _all_texts(spec: ToolSpec) -> Iterator[ToolText]:
    for field in _TEXT_FIELDS:
        yield ToolText(field, getattr(spec, field), field in _NAME_FIELDS)
    for field in _LIST_FIELDS:
        for number, value in enumerate(cast("tuple[str, ...]", getattr(spec, field))):
            yield ToolText(f"{field}[{number}]", value, field in _NAME_FIELDS)
    for field in _OBJECT_FIELDS:
        yield from _within(field, getattr(spec, field))
    if spec.skill:
        yield ToolText("skill.body", spec.skill.body)
        for path, text in spec.skill.files.items():
            yield ToolText(f"skill.files.{path}", path, is_name=True)
            yield ToolText(f"skill.files.{path}", text or "")
    if spec.enrichment:
        yield from _within("enrichment", spec.enrichment.model_dump(mode="json"))


def _within(place: str, value: Any) -> Iterator[ToolText]:
    # No recursion: a schema may be nested deeper than Python's call stack. The key of a value
    # tells its kind: names under `required`, schemas under `properties`.
    stack: list[tuple[str, str, Any]] = [(place, place, value)]
    while stack:
        path, key, held = stack.pop()
        if isinstance(held, str):
            yield ToolText(path, held, key in _NAME_FIELDS)
        elif is_object(held):
            inner = [(_step(path, name), name, each) for name, each in held.items()]
            for step, name, _ in inner:
                if key in _MAP_KEYWORDS or name not in KEYWORDS:
                    yield ToolText(step, name, is_name=True)
            stack += [
                (step, "" if key in _MAP_KEYWORDS else name, each)
                for step, name, each in reversed(inner)
            ]
        elif isinstance(held, list | tuple):
            items = cast("list[Any]", held)
            stack += [(f"{path}[{n}]", key, items[n]) for n in range(len(items) - 1, -1, -1)]


def _step(path: str, name: str) -> str:
    return f"{path}.{name}" if _PLAIN_KEY.fullmatch(name) else f"{path}[{name!a}]"
