"""Provider rules: reasons why providers refuse definitions, and schemas that all providers accept.

A provider refuses a whole request for one bad definition. All schemas are therefore converted to
one form that all providers accept: one object in JSON Schema 2020-12, without references.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache, partial
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from toolcrib.caches import cached_texts
from toolcrib.indexers.readers.base import is_list
from toolcrib.indexers.readers.json_schema import References, is_reference, map_schemas
from toolcrib.records.codec import is_object, list_of, object_of
from toolcrib.records.definitions import with_digest

# -- rules -----------------------------------------------------------------------------------------


class Provider(StrEnum):
    """Provider of language models whose rules are known."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    GEMINI = "gemini"
    BEDROCK = "bedrock"


class ProviderRule(NamedTuple):
    """Rule of a provider, by its documentation or its errors (`source`), as of the day `read`."""

    provider: Provider
    kind: str
    value: str
    source: str
    read: str


@cache
def provider_rules() -> tuple[ProviderRule, ...]:
    """Rules in `provider_rules.csv`; for Gemini those of `parametersJsonSchema`."""
    path = Path(__file__).with_name("provider_rules.csv")
    with path.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return tuple(ProviderRule(Provider(provider), *rest) for provider, *rest in rows)


STRICT_WITHOUT = "strict-without"
"""Kind of the rules about keywords that a strict tool must not have."""

STRICT_FORMATS = "strict-formats"
"""Kind of the rule about the only formats of values that a strict tool may have."""

PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Property names that every provider accepts."""


class Definition(NamedTuple):
    """Definition of a tool as sent to a provider."""

    name: str
    description: str
    schema: Mapping[str, Any]


def refusals(provider: Provider, given: Definition) -> Iterator[str]:
    """Reasons why a provider refuses a definition, one for each broken rule."""
    rules = (rule for rule in provider_rules() if rule.provider == provider)
    for rule in rules:
        is_strict = rule.kind in {STRICT_WITHOUT, STRICT_FORMATS}
        if not is_strict and (fault := _CHECKS[rule.kind](given, rule.value)):
            yield fault


def _check_property_names(given: Definition, pattern: str) -> str:
    named = (str(name) for name in object_of(given.schema.get("properties")))
    bad = [repr(name) for name in named if not re.fullmatch(pattern, name)]
    return f"its properties {first_names(bad)} are not named {pattern}" if bad else ""


def _check_root_keywords(given: Definition, words: str) -> str:
    bad = [repr(word) for word in words.split() if word in given.schema]
    return f"its schema has {first_names(bad)} at the root" if bad else ""


def _check_array_items(given: Definition, _: str) -> str:
    bad = any("array" in _types(each) and "items" not in each for each in _nodes(given.schema))
    return "an array in its schema has no items" if bad else ""


def _check_required(given: Definition, _: str) -> str:
    bad = [repr(name) for node in _nodes(given.schema) for name in _unknown_required(node)]
    return f"its schema requires {first_names(bad)}, and has no such property" if bad else ""


def _check_json_schema(given: Definition, _: str) -> str:
    schema = {key: value for key, value in given.schema.items() if key != "$schema"}
    return _schema_fault(json.dumps(schema))


@cached_texts(1_000, 20_000)
def _schema_fault(text: str) -> str:
    # Imported here: a checker of schemas takes 0.1 s to import, and a search needs none.
    from jsonschema import Draft202012Validator, SchemaError

    schema = json.loads(text)
    try:
        Draft202012Validator.check_schema(schema)
        References(schema).write_out(schema)
    except SchemaError as error:
        return f"its schema is not valid JSON Schema 2020-12: {error.json_path}: {error.message}"
    except (ValueError, RecursionError) as error:
        return f"its schema cannot be resolved: {error}"
    return ""


_CHECKS: dict[str, Callable[[Definition, str], str]] = {
    "tool-name": lambda given, pattern: (
        "" if re.fullmatch(pattern, given.name) else f"its name {given.name!r} is not {pattern}"
    ),
    "description": lambda given, _: "" if given.description else "it has no description",
    "property-name": _check_property_names,
    "root-without": _check_root_keywords,
    "root-object": lambda given, _: (
        "" if given.schema.get("type") == "object" else 'its schema is not of "type": "object"'
    ),
    "array-items": _check_array_items,
    "required-known": _check_required,
    "json-schema": _check_json_schema,
}


def first_names(names: Sequence[str], most: int = 5) -> str:
    """The first names, and the number of all others: `a, b, c, d, e and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _types(schema: Mapping[str, Any]) -> list[Any]:
    kinds = schema.get("type")
    return list_of(kinds) or [kinds]


def _nodes(schema: Any) -> list[dict[str, Any]]:
    """All schemas in a schema, itself included."""
    found: list[dict[str, Any]] = []

    def keep(node: dict[str, Any]) -> dict[str, Any]:
        found.append(node)
        return node

    map_schemas(schema, keep)
    return found


# -- the form that all providers accept ------------------------------------------------------------


class UnfitSchemaError(ValueError):
    """No object can express the arguments of this schema."""


class FitSchema(NamedTuple):
    """Schema that every provider accepts; `note` describes the alternatives at its root."""

    schema: dict[str, Any]
    note: str = ""


def fit_schema(schema: Mapping[str, Any]) -> FitSchema:
    """Convert a schema to one object in JSON Schema 2020-12, with the author's property names.

    The object accepts all arguments that the schema or one of its alternatives declares. A schema
    in this form stays as it is.

    Raises:
        UnfitSchemaError: the arguments are no object, or the schema is nested too deeply.
    """
    given = dict(schema)
    try:
        folded = _fold(map_schemas(_without_references(given), _in_2020_12))
    except (ValueError, RecursionError) as error:
        raise UnfitSchemaError(f"its schema cannot be written out: {error}") from error
    if folded is None:
        raise UnfitSchemaError("its arguments are not an object")
    empty: dict[str, Any] = {"type": "object", "properties": {}}
    fit = map_schemas({**empty, **folded.schema}, _with_known_required)
    as_given = {**empty, **given}
    if fit == {key: value for key, value in as_given.items() if key != "$schema"}:
        return FitSchema(as_given)
    return FitSchema(fit, folded.note)


def fit_definition(schema: Mapping[str, Any], description: str) -> tuple[dict[str, Any], str]:
    """Schema, with the author's property names, and description for every provider.

    A schema that no object can express keeps all but its type: clients refuse the whole list of
    tools for another type than `object`.
    """
    try:
        fit = fit_schema(schema)
    except UnfitSchemaError:
        return {"properties": {}, **schema, "type": "object"}, description
    return fit.schema, "\n\n".join(filter(None, (description, fit.note)))


def takes_strict(provider: Provider, schema: Mapping[str, Any]) -> bool:
    """True if a provider takes a strict tool with this schema.

    No object may allow unnamed properties. For OpenAI each must require all its own, and every
    value needs a type and, if any, a known format.
    """
    nodes = _nodes(schema)
    rules = {
        each.kind: each.value.split() for each in provider_rules() if each.provider == provider
    }
    excluded = set(rules.get(STRICT_WITHOUT, ()))
    # Every provider accepts `minItems` of 0 or 1.
    if any(key in excluded and (key != "minItems" or n[key] > 1) for n in nodes for key in n):
        return False
    objects = [n for n in nodes if "object" in _types(n) or "properties" in n]
    complete = provider == Provider.OPENAI
    formats = {None, *rules.get(STRICT_FORMATS, ())}
    if complete and any(
        n.get("format") not in formats or n.keys().isdisjoint({"type", "anyOf"}) for n in nodes
    ):
        return False
    return all(
        each.get("additionalProperties") is False
        and not (complete and object_of(each.get("properties")).keys() - each.get("required", ()))
        for each in objects
    )


_OLD_REFERENCES = ("$recursiveRef", "$dynamicRef")
_REFERENCE_WORDS = ("$ref", *_OLD_REFERENCES)


def _without_references(schema: dict[str, Any]) -> Any:
    """Schema with references replaced by their targets; a broken reference allows any value."""
    text = json.dumps(schema, default=str)
    if '"required": true' in text:
        schema = map_schemas(schema, _with_required_properties)
    if not any(f'"{word}"' in text for word in _REFERENCE_WORDS):
        return schema
    references = References(schema)

    def reachable(node: dict[str, Any]) -> dict[str, Any]:
        old = next((node[word] for word in _OLD_REFERENCES if isinstance(node.get(word), str)), "")
        node = {"$ref": old, **node} if old else node
        if tag := object_of(node.get("discriminator")):
            # The mapping refers to definitions that were removed.
            rest = {key: value for key, value in tag.items() if key != "mapping"}
            node = {**node, "discriminator": rest}
        if not is_reference(node):
            return node
        try:
            references.follow(node)
        except ValueError:
            rest = {key: value for key, value in node.items() if key not in _REFERENCE_WORDS}
            return {"description": node["$ref"].rpartition("/")[2], **rest}
        return node

    document = map_schemas(schema, reachable)
    return References(document).write_out(
        {key: value for key, value in document.items() if key not in {"$defs", "definitions"}}
    )


def _with_required_properties(schema: dict[str, Any]) -> dict[str, Any]:
    """Schema that requires the properties with their own `"required": true`."""
    named = object_of(schema.get("properties"))
    needed = [name for name, each in named.items() if object_of(each).get("required") is True]
    listed = list_of(schema.get("required"))
    return {**schema, "required": [*listed, *needed]} if needed else schema


def _unknown_required(schema: Mapping[str, Any]) -> list[str]:
    """Required names of one schema that are none of its own properties."""
    known = object_of(schema.get("properties"))
    return [str(name) for name in list_of(schema.get("required")) if name not in known]


def _with_known_required(schema: dict[str, Any]) -> dict[str, Any]:
    """Schema with a property of any value for each required name without one."""
    unknown = _unknown_required(schema)
    named: dict[str, Any] = {**object_of(schema.get("properties")), **{n: {} for n in unknown}}
    return {**schema, "properties": named} if unknown else schema


# -- 2020-12 ---------------------------------------------------------------------------------------

_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_OTHER_TYPES = {
    **dict.fromkeys(("dict", "map"), "object"),
    **dict.fromkeys(("tuple", "list", "set"), "array"),
    **dict.fromkeys(("float", "double"), "number"),
    **dict.fromkeys(("int", "long"), "integer"),
    **dict.fromkeys(("str", "text", "date"), "string"),
    "bool": "boolean",
    "none": "null",
}
"""Types of other languages, in lower case. An unknown type allows any value."""

_PYTHON_TYPES: dict[str, type] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": NoneType,
}

_TYPE_PARTS = re.compile(r"(\w+)(?:\[.+\]|<.+>)?(?:, optional)?")
"""Type as a language writes it, such as `List[int]` or `str, optional`."""


def _json_type(kind: Any) -> Any:
    """JSON Schema's name of a `type`; None for any value."""
    kinds = list_of(kind) or [kind]
    found = [_TYPE_PARTS.fullmatch(each.lower()) for each in kinds if isinstance(each, str)]
    words = [each[1] for each in found if each]
    known = list(dict.fromkeys(_OTHER_TYPES.get(word, word) for word in words))
    if len(words) < len(kinds) or not _TYPES.issuperset(known):
        return None
    return known if len(known) > 1 else known[0]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == value // 1


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _is_pattern(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(re.compile(value))
    except (re.error, RecursionError, OverflowError):
        return False


def _is_map(check: Callable[[Any], bool], value: Any) -> bool:
    return is_object(value) and all(map(check, value.values()))


def _is_names(value: Any) -> bool:
    return is_list(value) and all(isinstance(name, str) for name in value)


_VALUE_CHECKS: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("minimum maximum exclusiveMinimum exclusiveMaximum", _is_number),
    ("multipleOf", lambda value: _is_number(value) and value > 0),
    ("minLength maxLength minItems maxItems minContains maxContains", _is_count),
    ("minProperties maxProperties", _is_count),
    ("title description format", lambda value: isinstance(value, str)),
    ("contentEncoding contentMediaType", lambda value: isinstance(value, str)),
    ("pattern", _is_pattern),
    ("uniqueItems readOnly writeOnly deprecated", lambda value: isinstance(value, bool)),
    ("enum", lambda value: bool(list_of(value))),
    ("examples", lambda value: isinstance(value, list)),
    ("items additionalProperties unevaluatedItems unevaluatedProperties", _is_schema),
    ("contains propertyNames not if then else contentSchema", _is_schema),
    ("allOf anyOf oneOf prefixItems", lambda v: bool(list_of(v)) and all(map(_is_schema, v))),
    ("properties dependentSchemas", partial(_is_map, _is_schema)),
    ("patternProperties", lambda v: _is_map(_is_schema, v) and all(map(_is_pattern, v))),
    ("required", _is_names),
    ("dependentRequired", partial(_is_map, _is_names)),
)
_CHECK_BY_WORD = {word: check for words, check in _VALUE_CHECKS for word in words.split()}
"""Checks of keywords' values; a keyword with any other value is left out."""

_OLD_WORDS = frozenset({"definitions", "dependencies", "additionalItems"})


def _in_2020_12(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert one schema to JSON Schema 2020-12; the schemas in it are converted before."""
    changed = {k: v for k, v in schema.items() if not k.startswith("$") and k not in _OLD_WORDS}
    if (kind := _json_type(changed.pop("type", None))) is not None:
        changed = {"type": kind, **changed}
    for word, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        # In draft 4 an exclusive bound is a flag beside the bound.
        if changed.get(word) is True and bound in changed:
            changed[word] = changed.pop(bound)
    if isinstance(changed.get("required"), list):
        names = (each for each in changed["required"] if isinstance(each, str))
        changed["required"] = list(dict.fromkeys(names))
    if "properties" in changed:
        named = object_of(changed["properties"])
        anything: Any = {}
        changed["properties"] = {n: s if _is_schema(s) else anything for n, s in named.items()}
    _fit_items(changed, schema.get("additionalItems"))
    _fit_values(changed)
    if "pattern" in changed and not _is_pattern(changed["pattern"]):
        _describe(changed, f"Pattern: {changed['pattern']}")
    checks = _CHECK_BY_WORD
    return {key: value for key, value in changed.items() if key not in checks or checks[key](value)}


def _fit_items(schema: dict[str, Any], more: Any) -> None:
    """Write tuples as `prefixItems`, and give every array its `items`."""
    items = schema.get("items")
    if is_list(items):
        schema["prefixItems"] = [each for each in items if _is_schema(each)]
        schema["items"] = more if is_object(more) else {}
        if more is False:
            schema.setdefault("maxItems", len(schema["prefixItems"]))
    elif items is False and list_of(schema.get("prefixItems")):
        schema.setdefault("maxItems", len(schema["prefixItems"]))
        schema["items"] = {}
    elif not is_object(items) and ("array" in _types(schema) or items is True):
        schema["items"] = {}


def _fit_values(schema: dict[str, Any]) -> None:
    """Keep the values of an `enum` that have its type; an array's values may be of its items."""
    values, kinds = list_of(schema.get("enum")), _types(schema)
    if not values or kinds == [None]:
        return
    if fitting := [each for each in values if _has_type(each, kinds)]:
        schema["enum"] = fitting
    else:
        del schema["enum"]
        if kinds == ["array"] and "enum" not in schema["items"]:
            schema["items"] = {**schema["items"], "enum": values}
            _fit_values(schema["items"])
        else:
            _describe(schema, f"Values: {json.dumps(values, ensure_ascii=False)}")


def _has_type(value: Any, kinds: Sequence[Any]) -> bool:
    if _is_number(value):
        return "number" in kinds or ("integer" in kinds and value == value // 1)
    return any(isinstance(value, _PYTHON_TYPES.get(kind, ())) for kind in kinds)


def _describe(schema: dict[str, Any], text: str) -> None:
    about = (schema.get("description"), text)
    schema["description"] = " ".join(str(each) for each in about if each)


# -- one object ------------------------------------------------------------------------------------

_ROOT_ONLY = frozenset({"allOf", "anyOf", "oneOf", "enum", "const", "not"})
MAX_FORMS = 12
"""Alternatives that a description names."""


def _fold(schema: Any) -> FitSchema | None:
    """Merge the alternatives of an object's schema into one object; None for no object."""
    if not is_object(schema) or not {"object", None} & set(_types(schema)):
        return None
    kept = {key: value for key, value in schema.items() if key not in _ROOT_ONLY}
    folded = FitSchema({**kept, "type": "object"})
    for part in list_of(schema.get("allOf")):
        if (inner := _fold(part)) is None:
            return None
        note = f"{folded.note} {inner.note}".strip()
        folded = FitSchema(_merge_objects(folded.schema, inner.schema), note)
    for word in ("anyOf", "oneOf"):
        if options := list_of(schema.get(word)):
            objects = [each.schema for option in options if (each := _fold(option)) is not None]
            if not objects:
                return None
            either = _merge_alternatives(objects, folded.schema)
            note = f"{folded.note} {_forms(objects, either)}".strip()
            folded = FitSchema(_merge_objects(folded.schema, either), note)
    return folded


def _merge_objects(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Object with the properties of both; of different properties the first is kept."""
    named = {**first.get("properties", {})}
    for name, each in second.get("properties", {}).items():
        known = named.setdefault(name, each)
        if is_object(known) and is_object(each) and not _differences(known, each):
            named[name] = {**each, **known}
    merged = {**second, **first}
    if "additionalProperties" not in first:
        merged.pop("additionalProperties", None)
    required = dict.fromkeys((*first.get("required", ()), *second.get("required", ())))
    merged |= {"properties": named} if named else {}
    return merged | ({"required": list(required)} if required else {})


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> set[str]:
    """Keywords with different values in both schemas; titles and descriptions do not count."""
    common = first.keys() & second.keys() - {"title", "description"}
    return {key for key in common if first[key] != second[key]}


def _merge_alternatives(
    options: Sequence[dict[str, Any]], beside: Mapping[str, Any]
) -> dict[str, Any]:
    """Object that allows the properties of all options, within the limits of `beside`."""
    named: dict[str, list[Any]] = {}
    for option in options:
        for name, each in option.get("properties", {}).items():
            named.setdefault(name, []).append(each)
    common = [
        name
        for name in options[0].get("required", ())
        if all(name in option.get("required", ()) for option in options)
    ]
    # If an option does not describe a property, `beside` does.
    either: dict[str, Any] = {
        "properties": {
            name: _any_of(schemas)
            for name, schemas in named.items()
            if len(schemas) == len(options) or name not in beside.get("properties", {})
        }
    }
    return either | ({"required": common} if common else {})


def _any_of(schemas: Iterable[Any]) -> Any:
    """Schema that allows the values of any of several schemas; constants become an `enum`."""
    different = _unique(schemas)
    if len(different) == 1:
        return different[0]
    if not all(map(_values, different)):
        return {"anyOf": different}
    return {"enum": _unique(chain.from_iterable(map(_values, different)))}


def _unique(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _values(schema: Any) -> list[Any]:
    """Values of a schema's `enum` or `const`; empty without these."""
    known = object_of(schema)
    return [known["const"]] if "const" in known else list_of(known.get("enum"))


def _forms(options: Sequence[dict[str, Any]], either: Mapping[str, Any]) -> str:
    """Sentence about the alternatives of an object; empty if nothing distinguishes them."""
    forms = [_form(option, either.get("required", ())) for option in options]
    different = list(dict.fromkeys(forms))
    if len(different) == 1 or not all(different):
        return ""
    more = ["..."] if len(different) > MAX_FORMS else []
    return f"Give one of: {'; '.join([*different[:MAX_FORMS], *more])}."


def _form(option: Mapping[str, Any], common: Sequence[str]) -> str:
    """Parameters that identify an alternative: its constants, and parameters only it requires."""
    named: dict[str, Any] = option.get("properties", {})
    required = list_of(option.get("required"))
    constants = {name: values[0] for name in named if len(values := _values(named[name])) == 1}
    told = [f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in constants.items()]
    own = [name for name in required if name not in common and name not in constants]
    return ", ".join([*told, *(own or ([] if told else named))])


# -- names of properties ---------------------------------------------------------------------------

_NOT_ALLOWED_IN_PROPERTIES = re.compile(r"[^a-zA-Z0-9_.-]+")


def safe_names(schema: Mapping[str, Any]) -> dict[str, str]:
    """New names, by own name, for properties at any depth whose name a provider refuses."""
    named = {name for node in _nodes(schema) for name in object_of(node.get("properties"))}
    safe: dict[str, str] = {}
    for name in sorted(name for name in named if not PROPERTY_NAME.fullmatch(name)):
        plain = _NOT_ALLOWED_IN_PROPERTIES.sub("_", name).strip("_")
        is_free = PROPERTY_NAME.fullmatch(plain) and plain not in named | set(safe.values())
        safe[name] = plain if is_free else with_digest(name, name)
    return safe


def rename_properties(schema: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Copy of a schema with renamed properties at any depth.

    A renamed property without a description is described by its own name.
    """

    def name_property(name: str, schema: Any) -> Any:
        lacks_text = name in names and is_object(schema) and "description" not in schema
        return {"description": name, **schema} if lacks_text else schema

    def rename_node(node: dict[str, Any]) -> dict[str, Any]:
        changed = dict(node)
        # A rule about names does not apply to the new names.
        changed.pop("propertyNames", None)
        if "properties" in changed:
            changed["properties"] = {k: name_property(k, v) for k, v in node["properties"].items()}
        for word in ("properties", "dependentSchemas"):
            if word in changed:
                changed[word] = {names.get(k, k): item for k, item in changed[word].items()}
        if "required" in changed:
            changed["required"] = [names.get(name, name) for name in node["required"]]
        if "dependentRequired" in changed:
            changed["dependentRequired"] = {
                names.get(name, name): [names.get(each, each) for each in needed]
                for name, needed in node["dependentRequired"].items()
            }
        return changed

    return map_schemas(schema, rename_node)


def rename_arguments(schemas: Iterable[Any], value: Any, names: Mapping[str, str]) -> Any:
    """Copy of a value with renamed properties, as far as these schemas declare the properties.

    `names` map from or to the schemas' own names. Other keys are data, and stay.
    """
    parts = list(_parts(schemas))
    if is_list(value):
        rest: list[Any] = [part["items"] for part in parts if "items" in part]
        prefixes = [list_of(part.get("prefixItems")) for part in parts]
        return [
            rename_arguments([*rest, *(p[at] for p in prefixes if at < len(p))], item, names)
            for at, item in enumerate(value)
        ]
    if not is_object(value):
        return value
    renamed: dict[str, Any] = {}
    for key, item in value.items():
        other = names.get(key, key)
        under = [
            found
            for part in parts
            for own in (key, other)
            if (found := object_of(part.get("properties")).get(own)) is not None
        ]
        rest = [part["additionalProperties"] for part in parts if "additionalProperties" in part]
        renamed[other if under else key] = rename_arguments(under or rest, item, names)
    return renamed


_IN_PLACE = ("allOf", "anyOf", "oneOf", "if", "then", "else")


def _parts(schemas: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Schemas that apply to the same value as these, including themselves."""
    for schema in schemas:
        if is_object(schema):
            yield schema
            for word in _IN_PLACE:
                inner = schema.get(word)
                yield from _parts(list_of(inner) or [inner])
            yield from _parts(object_of(schema.get("dependentSchemas")).values())
