"""OpenAPI 3 and Swagger 2: every operation is a tool."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from itertools import chain, count
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from toolcrib.indexers.readers.base import (
    MAX_NAMES_CHARS,
    Reading,
    Source,
    build_spec,
    is_list,
    is_object,
    kind_of,
    own_fields,
)
from toolcrib.indexers.readers.json_schema import UNIONS, References, is_reference, map_schemas
from toolcrib.records import ToolSpec
from toolcrib.records.codec import list_of, object_of
from toolcrib.records.tools import MCP_DEFAULTS
from toolcrib.text import shorten

logger = logging.getLogger(__name__)

# -- operations ------------------------------------------------------------------------------------

HTTP_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")

HINTS = {
    **{method: {"readOnlyHint": True} for method in ("get", "head", "query")},
    "delete": {"destructiveHint": True},
}
"""MCP hints that a method implies."""

ANY_METHOD = "x-amazon-apigateway-any-method"
"""Extension of API Gateway: an operation without a method of its own."""

PATH_ITEM_FIELDS = frozenset(
    {*HTTP_METHODS, "$ref", "summary", "description", "servers", "parameters"}
    | {"additionalOperations"}
)

PATH_PARAMETER = re.compile(r"\{([^{}+*:=?]++)[^{}]*+\}")
"""Name of a parameter in a path, which some tools write with a type or pattern (`{id:int}`)."""

READABLE_VERSION = re.compile(r"2\.0|3\.\d+(\.\d+)?")

GENERIC_STEM = re.compile(
    r"(?:open-?api|swagger|api([-_.]?docs)?|spec(ification)?|schema|index|doc(ument)?s?|-)?"
    r"(?:[-_.]?v?\d+(?:\.\d+)*)?",
    re.IGNORECASE,
)
"""Stem of a file with a generic name, which tells nothing about the service."""


class OpenApiReader:
    """Reads Swagger 2.0 and OpenAPI 3.x, JSON or YAML, in one file.

    A tool is named by its `operationId`, or if that is missing or taken, by method and path:
    `GET /orders/{id}/items` is `get_orders_id_items`. Webhooks and callbacks are calls to the
    client, and no tools. Extensions named like a field or a hint of ours (`x-sensitivity`,
    `x-safety-tags`, `x-destructiveHint`) become that field.
    """

    format: ClassVar[str] = "openapi"
    reaches_out: ClassVar[bool] = False

    def recognises(self, source: Source) -> bool:
        """True if the file is an object with `openapi` or `swagger`."""
        sample = source.sample
        return isinstance(sample, dict) and ("openapi" in sample or "swagger" in sample)

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every operation; its server is `server`, else the file's stem.

        For a generic stem such as `openapi`, the title or the host is the server.
        """
        document = source.data
        if not is_object(document):
            raise source.error(f"must be an object, not {kind_of(document)}")
        version = document.get("openapi", document.get("swagger"))
        if not READABLE_VERSION.fullmatch(str(version)):
            field = "swagger" if "swagger" in document else "openapi"
            raise source.error(f"version {version!r} is not known; 2.0 and 3.x are read", field)
        named = _server_name(document, source.stem) if server is None else server
        yield from _Operations(source, document, named).read()


def _server_name(document: dict[str, Any], stem: str) -> str:
    """The stem of a file; for a generic stem, the title or the host of its document."""
    if not GENERIC_STEM.fullmatch(stem):
        return stem
    servers = list_of(document.get("servers"))
    url = object_of(servers[0]).get("url") if servers else document.get("host")
    host = urlsplit(url if "://" in str(url) else f"//{url}").hostname if url else None
    names = (object_of(document.get("info")).get("title"), host)
    slugs = (re.sub(r"[^\w.]+", "-", str(name)).strip("-.").lower() for name in names if name)
    return next(filter(None, slugs), stem)


class _Operations:
    def __init__(self, source: Source, document: dict[str, Any], server: str) -> None:
        self._source = source
        self._server = server
        self._document = document
        references = References(_with_children(document), _prepare_schema)
        self._inputs = _Schemas(references, "readOnly")
        self._outputs = _Schemas(references, "writeOnly")
        self._places: dict[str, str] = {}
        self._notes: defaultdict[str, list[str]] = defaultdict(list)

    def read(self) -> Reading:
        """Yield every operation as a tool or a refusal."""
        paths: Any = self._document.get("paths", {})
        if not is_object(paths):
            raise self._source.error(f"must be an object, not {kind_of(paths)}", "paths")
        for path, item in paths.items():
            # Extensions may be among the paths, which start with a slash.
            if path.startswith("x-"):
                continue
            try:
                fields = self._path_item(item)
            except ValueError as error:
                yield self._source.refusal(str(error), path)
                continue
            yield from self._unknown_fields(path, fields)
            more: dict[str, Any] = fields.get("additionalOperations") or {}
            methods = {key: each for key, each in fields.items() if key in HTTP_METHODS} | more
            for method, operation in methods.items():
                yield from self._tool(path, method, fields, operation)
        for note, names in self._notes.items():
            # No refusal: all these tools can be called.
            shown = shorten(", ".join(names), MAX_NAMES_CHARS)
            logger.warning("%s: %s: %s", self._source.name, note, shown)

    def _path_item(self, item: Any) -> dict[str, Any]:
        item = self._inputs.references.follow(item)
        if not is_object(item):
            raise ValueError(f"must be an object, not {kind_of(item)}")
        shared, more = item.get("parameters"), item.get("additionalOperations")
        if not is_list(shared or []):
            raise ValueError(f"parameters: must be a list, not {kind_of(shared)}")
        if not is_object(more or {}):
            raise ValueError(f"additionalOperations: must be an object, not {kind_of(more)}")
        return item

    def _unknown_fields(self, path: str, item: dict[str, Any]) -> Reading:
        """Yield a refusal for each key that is no method, field or extension of a path item."""
        for key in item:
            if key not in PATH_ITEM_FIELDS and (not key.startswith("x-") or key == ANY_METHOD):
                reason = f"{key!r} is no method; write each method by its name in lower case"
                yield self._source.refusal(reason, path)

    def _name(self, method: str, path: str, given: Any, place: str) -> Any:
        """Name of an operation: as given, unless an earlier operation has the name."""
        by_path = _slug(method, path)
        numbered = (f"{by_path}_{number}" for number in count(2))
        names = chain((given, by_path), numbered)
        return next(name for name in names if self._places.setdefault(str(name), place) == place)

    def _tool(self, path: str, method: str, item: dict[str, Any], operation: Any) -> Reading:
        place = f"{method.upper()} {path}"
        if not is_object(operation):
            reason = f"an operation must be an object, not {kind_of(operation)}"
            yield self._source.refusal(reason, place)
            return
        try:
            form = _form(self._inputs, path, item.get("parameters") or [], operation)
        except ValueError as error:
            yield self._source.refusal(str(error), place)
            return
        gives: dict[str, Any] | None = None
        try:
            gives = self._output_schema(operation)
        except ValueError as error:
            self._notes["without a schema of its results"].append(f"{place} ({error})")
        given = operation.get("operationId") or _slug(method, path)
        name = self._name(method, path, given, place)
        tags: Any = operation.get("tags") or []
        more = {key[2:]: value for key, value in operation.items() if key.startswith("x-")}
        said = {name: more[name] for name in MCP_DEFAULTS if isinstance(more.get(name), bool)}
        deprecated = {"deprecated": True} if operation.get("deprecated") is True else {}
        hints = HINTS.get(method.lower(), {}) | said | deprecated
        hints |= {"parameters": form.places} if form.places else {}
        fields: dict[str, Any] = {
            **own_fields(more),
            "name": name,
            "description": _description(operation) or _description(item),
            "server": self._server,
            "input_schema": form.schema(),
            "output_schema": gives,
            "category": tags[0] if is_list(tags) and tags else None,
            "tags": tags,
            "annotations": {"httpMethod": method.upper(), "path": path, **hints},
        }
        spec = build_spec(self._source.name, place, fields)
        if name != given and isinstance(spec, ToolSpec):
            self._notes["named by method and path, as their own names come twice"].append(name)
        yield spec

    def _output_schema(self, operation: dict[str, Any]) -> dict[str, Any] | None:
        """Schema of the first successful response with a schema."""
        responses: Any = operation.get("responses") or {}
        if not is_object(responses):
            raise ValueError(f"responses: must be an object, not {kind_of(responses)}")
        for status in sorted(status for status in responses if status.startswith("2")):
            response = object_of(self._outputs.references.follow(responses[status]))
            if (schema := self._outputs.stated_by(response)) is not None:
                return schema
        return None


def _slug(method: str, path: str) -> str:
    return re.sub(r"\W+", "_", f"{method} {path}").strip("_")


def _description(operation: dict[str, Any]) -> Any:
    """Summary and description as two paragraphs; one paragraph if they are equal."""
    summary, description = operation.get("summary"), operation.get("description")
    if not (isinstance(summary, str) and isinstance(description, str)):
        return description or summary
    if description.strip().startswith(summary.strip().rstrip(".")):
        return description
    return f"{summary}\n\n{description}".strip()


# -- schemas ---------------------------------------------------------------------------------------

NULLABLE = ("nullable", "x-nullable")
"""Keywords that allow null: OpenAPI 3.0's, and an extension for Swagger 2, which has none."""

NOT_JSON_SCHEMA = frozenset(
    {*NULLABLE, "discriminator", "xml", "externalDocs", "$schema", "$id", "$anchor"}
    | {"$recursiveAnchor", "$dynamicAnchor"}
)
"""Keywords that only OpenAPI has, or whose targets are dropped."""

BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}

HIDDEN_KEYS = ("readOnly", "writeOnly")
SCHEMA_PARTS = ("allOf", *UNIONS)


class _Schemas:
    """Schemas of one document, each translated once, without properties of the flag `hidden`."""

    def __init__(self, references: References, hidden: str) -> None:
        self.references = references
        self._hiding_flag = hidden
        self._has_hidden = False
        self._plain_schemas: dict[str, Any] = {}

    def plain(self, schema: Any) -> dict[str, Any]:
        """Convert `schema` to JSON Schema, shared and not to be changed; {} for true or none."""
        key = schema["$ref"] if is_reference(schema) and len(schema) == 1 else None
        if key in self._plain_schemas:
            return self._plain_schemas[key]
        self._has_hidden = False
        plain = map_schemas(self.references.write_out(schema), self._translate)
        if self._has_hidden:
            plain = map_schemas(map_schemas(plain, self._without_requirement), self._without_hidden)
        plain = object_of(plain)
        if key is not None:
            self._plain_schemas[key] = plain
        return plain

    def _translate(self, schema: dict[str, Any]) -> dict[str, Any]:
        self._has_hidden |= schema.get(self._hiding_flag) is True
        tag = schema.get(BRANCH_TAG)
        plain = as_json_schema({k: v for k, v in schema.items() if k != BRANCH_TAG})
        return _with_tag(plain, *tag) if is_list(tag) else plain

    def _without_requirement(self, schema: dict[str, Any]) -> dict[str, Any]:
        hidden = self._hidden_names(schema, *SCHEMA_PARTS)
        return _without_required(schema, hidden) if hidden else schema

    def _without_hidden(self, schema: dict[str, Any]) -> dict[str, Any]:
        hidden = self._hidden_names(schema)
        kept = {k: v for k, v in _properties_of(schema).items() if k not in hidden}
        return {**schema, "properties": kept} if hidden else schema

    def _hidden_names(self, schema: dict[str, Any], *parts: str) -> set[str]:
        """Names of hidden properties of a schema, and of these parts of it."""
        own = _properties_of(schema).items()
        names = {name for name, each in own if object_of(each).get(self._hiding_flag) is True}
        return names.union(*(self._hidden_names(p, *parts) for p in _parts_of(schema, *parts)))

    def stated_by(self, holder: dict[str, Any]) -> dict[str, Any] | None:
        """Schema of a parameter or response, by its `schema` or its `content`."""
        stated = "schema" in holder
        return self.plain(holder["schema"]) if stated else self.of_content(holder.get("content"))

    def of_content(self, content: Any) -> dict[str, Any] | None:
        """Schema of the media type nearest to JSON; None without a schema."""
        media = object_of(content)
        for kind in sorted(media, key=_distance_from_json):
            described = object_of(self.references.follow(media[kind]))
            if "schema" in described:
                return self.plain(described["schema"])
        return None


def _distance_from_json(media_type: str) -> tuple[bool, bool]:
    """Sort key: JSON itself, then types that are written in JSON, such as a JSON Patch."""
    return "json" not in media_type, media_type.partition(";")[0].strip() != "application/json"


def as_json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert a schema of OpenAPI 3.0 to JSON Schema."""
    plain = {key: value for key, value in schema.items() if key not in NOT_JSON_SCHEMA}
    for exclusive, bound in BOUNDS.items():
        # In OpenAPI 3.0 an exclusive bound is a flag; in JSON Schema it is the number.
        if isinstance(marked := plain.get(exclusive), bool):
            del plain[exclusive]
            if marked and bound in plain:
                plain[exclusive] = plain.pop(bound)
    return _with_null(plain) if any(schema.get(key) is True for key in NULLABLE) else plain


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if not isinstance(kind, str):
        beside = {key: schema[key] for key in HIDDEN_KEYS if key in schema}
        return {"anyOf": [schema, {"type": "null"}], **beside}
    with_null = {**schema, "type": [kind, "null"]}
    if is_list(values := schema.get("enum")) and None not in values:
        with_null["enum"] = [*values, None]
    return with_null


def _properties_of(schema: dict[str, Any]) -> dict[str, Any]:
    return object_of(schema.get("properties"))


def _required_of(schema: dict[str, Any]) -> list[str]:
    return [name for name in list_of(schema.get("required")) if isinstance(name, str)]


def _parts_of(schema: dict[str, Any], *keys: str) -> list[dict[str, Any]]:
    return [part for key in keys for part in list_of(schema.get(key)) if is_object(part)]


def _without_required(schema: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Schema in which neither it nor its parts require these properties."""
    copy = dict(schema)
    if "required" in schema:
        copy["required"] = [name for name in _required_of(schema) if name not in names]
    for key in SCHEMA_PARTS:
        if is_list(parts := schema.get(key)):
            copy[key] = [_without_required(p, names) if is_object(p) else p for p in parts]
    return copy


# -- discriminators --------------------------------------------------------------------------------

BRANCH_TAG = "$toolcrib-tag"
"""Mark of a branch of a union: the property that identifies it, and its values."""

BASE_SUFFIX = " (base)"


def _with_children(document: dict[str, Any]) -> dict[str, Any]:
    """Document in which a schema with a discriminator is a union of its child schemas.

    The children extend a copy of the schema without the union, under another name.
    """
    components, definitions = object_of(document.get("components")), document.get("definitions")
    if is_object(schemas := components.get("schemas")):
        united = schemas | _united_schemas(schemas, "#/components/schemas/")
        document = {**document, "components": {**components, "schemas": united}}
    if is_object(definitions):
        united = definitions | _united_schemas(definitions, "#/definitions/")
        document = {**document, "definitions": united}
    return document


def _united_schemas(schemas: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Schemas that replace parents with a discriminator, and their children."""
    bases = {name: _bases(schema, prefix) for name, schema in schemas.items()}
    ancestors = {name: _ancestors(name, bases) for name in schemas}
    extended = {n: object_of(schemas.get(n)) for n in set[str]().union(*ancestors.values())}
    parents = [n for n, each in extended.items() if _tag_of(each) and not _parts_of(each, *UNIONS)]
    united: dict[str, Any] = {}
    for name in parents:
        schema, base = schemas[name], f"{name}{BASE_SUFFIX}"
        mapping = {value: _target_name(each) for value, each in _mapping_of(schema).items()}
        heirs = [each for each in schemas if name in ancestors[each]]
        for heir in heirs:
            if heir not in mapping.values() and heir not in parents:
                mapping[heir] = heir
        mapping = {value: each for value, each in mapping.items() if each in schemas}
        branches = [prefix + (base if each == name else each) for each in mapping.values()]
        united[base] = {key: each for key, each in schema.items() if key != "discriminator"}
        united[name] = {
            **schema,
            "oneOf": [{"$ref": branch} for branch in dict.fromkeys(branches)],
            "discriminator": {"propertyName": _tag_of(schema), "mapping": mapping},
        }
    plain = {f"{prefix}{name}": {"$ref": f"{prefix}{name}{BASE_SUFFIX}"} for name in parents}
    for name, schema in (schemas | united).items():
        if any(base in parents for base in bases.get(name.removesuffix(BASE_SUFFIX), ())):
            targets = (unquote(p["$ref"]) if is_reference(p) else "" for p in schema["allOf"])
            parts = [plain.get(t, p) for t, p in zip(targets, schema["allOf"], strict=True)]
            united[name] = {**schema, "allOf": parts}
    return united


def _bases(schema: Any, prefix: str) -> list[str]:
    parts = _parts_of(object_of(schema), "allOf")
    references = [unquote(part["$ref"]) for part in parts if is_reference(part)]
    return [each.removeprefix(prefix) for each in references if each.startswith(prefix)]


def _ancestors(name: str, bases: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    rest = list(bases.get(name, ()))
    while rest:
        if (base := rest.pop()) not in found:
            found.add(base)
            rest += bases.get(base, ())
    return found


def _tag_of(schema: dict[str, Any]) -> str | None:
    found = schema.get("discriminator")
    name = found.get("propertyName") if is_object(found) else found
    return name if isinstance(name, str) else None


def _mapping_of(schema: dict[str, Any]) -> dict[str, str]:
    mapping = object_of(object_of(schema.get("discriminator")).get("mapping"))
    return {value: target for value, target in mapping.items() if isinstance(target, str)}


def _target_name(reference: str) -> str:
    return unquote(reference.rpartition("/")[2])


def _prepare_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Schema without extensions, its branches marked with the property that identifies them."""
    schema = {k: v for k, v in schema.items() if not k.startswith("x-") or k in NULLABLE}
    tag = _tag_of(schema)
    if tag is None or "defaultMapping" in schema["discriminator"]:
        return schema
    values: dict[str, list[str]] = {}
    for value, target in _mapping_of(schema).items():
        values.setdefault(_target_name(target), []).append(value)

    def mark_branch(branch: Any) -> Any:
        if not is_object(branch):
            return branch
        name = _target_name(branch["$ref"]) if is_reference(branch) else ""
        its_values = values.get(name.removesuffix(BASE_SUFFIX), [])
        return {**branch, BRANCH_TAG: [tag, its_values]}

    return schema | {k: [*map(mark_branch, schema[k])] for k in UNIONS if is_list(schema.get(k))}


def _with_tag(branch: dict[str, Any], tag: str, values: list[str]) -> dict[str, Any]:
    """Branch that requires its tag, with the branch's values."""
    if branch.get("type") not in (None, "object"):
        return branch
    field = object_of(_fields_of(branch)[0].get(tag))
    known = [field["const"]] if "const" in field else field.get("enum")
    narrowed = [value for value in values if not is_list(known) or value in known]
    copy = dict(branch)
    if narrowed and narrowed != known:
        copy["properties"] = {**_properties_of(branch), tag: {**field, "enum": narrowed}}
    if tag not in (required := _required_of(branch)):
        copy["required"] = [*required, tag]
    return copy


# -- parameters and bodies -------------------------------------------------------------------------

EMPTY_OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
"""Body that generators write for operations without one."""

SENT_BY_THE_CLIENT = frozenset({"accept", "authorization", "content-type"})
"""Headers that OpenAPI ignores as parameters, as the HTTP client sets them."""

NOT_A_SCHEMA = frozenset(
    {"name", "in", "required", "collectionFormat", "allowEmptyValue", "example", "examples"}
)
"""Keys of a Swagger 2 parameter that are no keywords of its schema."""


def _form(schemas: _Schemas, path: str, shared: list[Any], operation: dict[str, Any]) -> _Form:
    """Merge path-level parameters (`shared`), the operation's own and its body's properties.

    A body that cannot be merged becomes the property `body`.
    """
    form = _Form(schemas)
    body: tuple[dict[str, Any], dict[str, Any]] | None = None
    declared = _parameters(schemas.references, shared, operation)
    for parameter in [*declared, *_undeclared(path, declared)]:
        if parameter["in"] == "body":
            body = schemas.plain(parameter.get("schema")), parameter
        elif parameter["in"] != "header" or parameter["name"].lower() not in SENT_BY_THE_CLIENT:
            form.add(parameter)
    request = schemas.references.follow(operation.get("requestBody"))
    if is_object(request):
        body = schemas.of_content(request.get("content")) or {}, request
    if body is not None:
        form.add_body(*body)
    return form


def _parameters(
    references: References, shared: list[Any], operation: dict[str, Any]
) -> list[dict[str, Any]]:
    """Parameters in order; the operation's own replace those of its path."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    own: Any = operation.get("parameters") or []
    if not is_list(own):
        raise ValueError("parameters: must be a list")
    for index, reference in enumerate([*shared, *own], -len(shared)):
        fields = object_of(references.follow(reference))
        name, place = fields.get("name"), fields.get("in")
        if not (isinstance(name, str) and isinstance(place, str)):
            where = f"parameters[{index}]" if index >= 0 else "a parameter of the path"
            raise ValueError(f"{where}: needs the fields `name` and `in`")  # noqa: TRY004
        found[name, place] = fields
    return list(found.values())


def _undeclared(path: str, declared: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parameters that a path names, and nothing declares."""
    known = {parameter["name"] for parameter in declared if parameter["in"] != "body"}
    named = [name for name in dict.fromkeys(PATH_PARAMETER.findall(path)) if name not in known]
    return [{"name": name, "in": "path", "schema": {"type": "string"}} for name in named]


class _Form:
    """Properties of an operation's input, and the names of required properties.

    `places`: place of each argument in a request; the others are properties of the body.
    """

    def __init__(self, schemas: _Schemas) -> None:
        self._schemas = schemas
        self.places: dict[str, dict[str, str]] = {}
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []
        self._additional: dict[str, Any] = {}

    def add(self, parameter: dict[str, Any]) -> None:
        """Add a parameter; a repeated name is prefixed with the parameter's place."""
        name = parameter["name"]
        while name in self._properties:
            name = f"{parameter['in']}_{name}"
        schema = self._schema_of(parameter)
        beside = {key: parameter.get(key) for key in ("description", "deprecated")}
        beside["examples"] = self._examples_of(parameter)
        schema = {**schema, **{key: value for key, value in beside.items() if value}}
        required = parameter["in"] == "path" or parameter.get("required") is True
        self._put(name, schema, required=required)
        renamed = {"name": parameter["name"]} if name != parameter["name"] else {}
        self.places[name] = {"in": parameter["in"], **renamed}

    def _schema_of(self, parameter: dict[str, Any]) -> dict[str, Any]:
        if "schema" in parameter or "content" in parameter:
            return self._schemas.stated_by(parameter) or {}
        inline = {k: v for k, v in parameter.items() if k not in NOT_A_SCHEMA}
        if inline.get("type") == "file":
            inline |= {"type": "string", "format": "binary"}
        return self._schemas.plain(inline)

    def _examples_of(self, parameter: dict[str, Any]) -> list[Any]:
        if "example" in parameter:
            return [parameter["example"]]
        listed = object_of(parameter.get("examples")).values()
        examples = (object_of(self._schemas.references.follow(each)) for each in listed)
        return [each[key] for each in examples for key in ("dataValue", "value") if key in each]

    def add_body(self, schema: dict[str, Any], holder: dict[str, Any]) -> None:
        """Add the request body of a holder; the properties of an optional body are optional.

        An optional object without properties is left out: it has nothing to give.
        """
        required = holder.get("required") is True
        if schema == EMPTY_OBJECT and not required:
            return
        properties, needed = _body_fields(schema)
        if not properties or properties.keys() & self._properties.keys():
            name = "body"
            while name in self._properties:
                name = f"request_{name}"
            text = holder.get("description")
            described = {**schema, "description": text} if text else schema
            self._put(name, described, required=required)
            self.places[name] = {"in": "body"}
            return
        for name, field in properties.items():
            self._put(name, field, required=required and name in needed)
        self._additional = _additional_properties(schema)

    def _put(self, name: str, schema: dict[str, Any], *, required: bool) -> None:
        self._properties[name] = schema
        if required:
            self._required.append(name)

    def schema(self) -> dict[str, Any]:
        """Schema of one object with all properties."""
        required = {"required": self._required} if self._required else {}
        return {"type": "object", "properties": self._properties, **required, **self._additional}


def _body_fields(schema: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Properties and required names of a body that can be merged with parameters; else none.

    A body with `patternProperties` cannot: a parameter's name may match a pattern.
    """
    if not _has_properties(schema) or "patternProperties" in schema:
        return {}, set()
    properties, needed = _fields_of(schema)
    for name, field in _conditional_fields(schema).items():
        properties.setdefault(name, field)
    return properties, needed


def _conditional_fields(schema: dict[str, Any]) -> dict[str, Any]:
    """Conditional properties of an object, each with the schemas of all its cases."""
    dependent = object_of(schema.get("dependentSchemas")).values()
    cases = [c for c in (schema.get("then"), schema.get("else"), *dependent) if is_object(c)]
    inner = map(_conditional_fields, (*cases, *_parts_of(schema, *SCHEMA_PARTS)))
    return _fields_of_any([*(_fields_of(case)[0] for case in cases), *inner])


def _additional_properties(schema: dict[str, Any]) -> dict[str, Any]:
    """Keyword for unnamed properties, of an object or a part of it."""
    key = "additionalProperties"
    found = next((p for p in (schema, *_parts_of(schema, "allOf")) if key in p), None)
    return {} if found is None else {key: found[key]}


def _fields_of(schema: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Properties and required names of a schema with all its parts and branches.

    Properties of a union are required only if all branches require them.
    """
    properties: dict[str, Any] = {}
    required = set(_required_of(schema))
    for part in _parts_of(schema, "allOf"):
        inherited, needed = _fields_of(part)
        _add_fields(properties, inherited)
        required |= needed
    _add_fields(properties, _properties_of(schema))
    for key in UNIONS:
        branches = [_fields_of(object_of(branch)) for branch in list_of(schema.get(key))]
        _add_fields(properties, _fields_of_any([fields for fields, _ in branches]))
        if branches:
            required |= set[str].intersection(*(needed for _, needed in branches))
    return properties, required


def _fields_of_any(branches: list[dict[str, Any]]) -> dict[str, Any]:
    """Joint fields of the branches of a union."""
    names = dict.fromkeys(name for fields in branches for name in fields)
    return {name: _either([each[name] for each in branches if name in each]) for name in names}


def _has_properties(schema: dict[str, Any]) -> bool:
    """True if an object has properties outside the branches of unions."""
    return bool(_properties_of(schema)) or any(map(_has_properties, _parts_of(schema, "allOf")))


def _add_fields(fields: dict[str, Any], more: dict[str, Any]) -> None:
    """Add the fields of a second schema, which applies too."""
    for name, field in more.items():
        first = fields.get(name)
        if is_object(first) and is_object(field):
            inner = _properties_of(first) | _properties_of(field)
            fields[name] = first | field | ({"properties": inner} if inner else {})
        else:
            fields[name] = field


def _either(fields: list[Any]) -> Any:
    """Schema of a field that differs in the branches of a union."""
    different = [field for index, field in enumerate(fields) if field not in fields[:index]]
    if len(different) == 1:
        return different[0]
    objects = list(filter(is_object, different))
    values = [f.get("enum", [f["const"]] if "const" in f else None) for f in objects]
    if len(values) < len(different) or not all(map(is_list, values)):
        return {"anyOf": different}
    same = {k: v for k, v in different[0].items() if all(each.get(k) == v for each in different)}
    return {**same, "enum": list(dict.fromkeys(value for listed in values for value in listed))}
