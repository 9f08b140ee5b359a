"""OpenAPI 3 and Swagger 2: what becomes of an operation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from jsonschema import Draft202012Validator

from tests.indexers.readers.conformance import ReaderConformance, read_source, split
from toolcrib.indexers.readers.base import Reader, Source
from toolcrib.indexers.readers.openapi import OpenApiReader
from toolcrib.indexers.readers.registry import read_data
from toolcrib.records import Refusal, ToolSpec

OK: dict[str, Any] = {"responses": {"200": {"description": "ok"}}}
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
ORDER = {"type": "object", "properties": {"sku": STRING}}


def document(paths: dict[str, Any], version: str = "3.1.0", **rest: Any) -> dict[str, Any]:
    key = "swagger" if version.startswith("2") else "openapi"
    return {key: version, "info": {"title": "Shop", "version": "1"}, "paths": paths, **rest}


def read(
    paths: dict[str, Any], version: str = "3.1.0", **rest: Any
) -> tuple[list[ToolSpec], list[Refusal]]:
    return split(read_data(document(paths, version, **rest), "the shop", server="shop"))


def read_all(paths: dict[str, Any], version: str = "3.1.0", **rest: Any) -> list[ToolSpec]:
    tools, refusals = read(paths, version, **rest)
    assert refusals == []
    return tools


class TestOpenApiReader(ReaderConformance):
    reader: ClassVar[Reader] = OpenApiReader()

    def mixed(self, folder: Path) -> Source:
        dangling = {"parameters": [{"$ref": "#/components/parameters/Nope"}]}
        return self.source(folder, {"/a": {"get": OK, "put": dangling}})

    def nothing(self, folder: Path) -> Source:
        return self.source(folder, {})

    def source(self, folder: Path, paths: dict[str, Any]) -> Source:
        path = folder / "shop.json"
        path.write_text(json.dumps(document(paths)), encoding="utf-8")
        return Source.by_name(str(path))


def test_one_tool_an_operation():
    operation = {
        **OK,
        "operationId": "createOrder",
        "summary": "Place an order",
        "description": "Charges the customer.",
        "tags": ["orders", "money"],
    }
    listing, order = read_all({"/orders": {"get": OK, "post": operation}})
    assert (listing.id, listing.name) == ("shop/get_orders", "get_orders")
    assert (order.id, order.category) == ("shop/createOrder", "orders")
    assert order.tags == ("orders", "money")
    assert order.description == "Place an order\n\nCharges the customer."
    assert order.annotations == {"httpMethod": "POST", "path": "/orders"}


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("get", "/orders/{id}/items", "get_orders_id_items"),
        ("post", "/v1/user-groups/{groupId}.json", "post_v1_user_groups_groupId_json"),
        ("get", "/", "get"),
        ("patch", "/straße", "patch_straße"),
    ],
)
def test_names_without_an_operation_id(method, path, name):
    [tool] = read_all({path: {method: OK}})
    assert tool.name == name


@pytest.mark.parametrize(
    ("summary", "description", "expected"),
    [
        ("List.", None, "List."),
        (None, "Lists.", "Lists."),
        ("List.", "All orders.", "List.\n\nAll orders."),
        ("List orders", "List orders of a customer.", "List orders of a customer."),
        ("", "Lists.", "Lists."),
        (None, None, ""),
    ],
)
def test_descriptions(summary, description, expected):
    operation = {**OK, "summary": summary, "description": description}
    [tool] = read_all({"/x": {"get": operation}})
    assert tool.description == expected


def test_annotations_say_what_a_method_promises():
    item: dict[str, Any] = dict.fromkeys(("get", "head", "delete", "put"), OK)
    item["patch"] = {**OK, "deprecated": True}
    tools, _ = read({"/x": item})
    hints = {tool.annotations.pop("httpMethod"): tool.annotations for tool in tools}
    assert hints == {
        "GET": {"path": "/x", "readOnlyHint": True},
        "HEAD": {"path": "/x", "readOnlyHint": True},
        "DELETE": {"path": "/x", "destructiveHint": True},
        "PUT": {"path": "/x"},
        "PATCH": {"path": "/x", "deprecated": True},
    }


def test_extensions_that_say_what_our_fields_do_become_them():
    said = {"x-sensitivity": "pii", "x-safety-tags": "money", "x-cost-estimate": 2, "x-tags": ["t"]}
    odd = {"x-sensitivity": "very", "x-internal": True, "x-destructiveHint": True}
    item = {"get": {**OK, **said, "tags": ["orders"]}, "post": {**OK, **odd}}
    (get, post), _ = read({"/x": item})
    assert (get.sensitivity, get.cost_estimate, get.tags) == ("pii", 2, ("orders",))
    assert get.safety_tags == ("money", "open_world", "read_only")
    assert post.sensitivity == "public"
    assert post.safety_tags == ("destructive", "open_world", "writes")


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        ({"200": {"content": {"application/json": {"schema": STRING}}}}, STRING),
        ({"204": {}, "201": {"content": {"application/json": {"schema": STRING}}}}, STRING),
        ({"2XX": {"content": {"application/json": {"schema": STRING}}}}, STRING),
        ({"404": {"content": {"application/json": {"schema": STRING}}}}, {}),
        ({"200": {"schema": INTEGER}}, INTEGER),
        ({"200": None, "201": {"content": []}, "202": {"content": {"a/b": {}}}}, {}),
        ({"200": {"$ref": "#/components/responses/R"}}, INTEGER),
        ({}, {}),
    ],
)
def test_the_first_success_is_the_output(responses, expected):
    shared = {"responses": {"R": {"content": {"application/json": {"schema": INTEGER}}}}}
    [tool] = read_all({"/x": {"get": {"responses": responses}}}, components=shared)
    assert tool.output_schema == expected


def test_yaml_status_codes_and_versions_are_numbers_to_yaml(tmp_path):
    path = tmp_path / "shop.yaml"
    path.write_text(
        "openapi: 3.1\npaths:\n  /x:\n    get:\n      responses:\n"
        "        200: {content: {application/json: {schema: {type: string}}}}\n"
    )
    [tool], _ = split(read_source(str(path)))
    assert tool.output_schema == STRING


def test_extensions_and_webhooks_are_no_tools():
    paths = {"/x": {"get": OK, "x-internal": True, "summary": "All about x"}, "x-note": "n"}
    [tool] = read_all(paths, webhooks={"paid": {"post": OK}})
    assert tool.name == "get_x"


@pytest.mark.parametrize(
    ("item", "place", "reason"),
    [
        ({"get": []}, "GET /bad", "an operation must be an object, not a list"),
        ({"get": {"parameters": "x"}}, "GET /bad", "parameters: must be a list"),
        ({"get": {"parameters": [{"name": "a"}]}}, "GET /bad", "parameters[0]: needs the fields"),
        ({"parameters": ["x"], "get": {}}, "GET /bad", "a parameter of the path: needs the fields"),
        ({"get": {"operationId": 7}}, "GET /bad", "name: must be text, not a number"),
        ("x", "/bad", "must be an object, not text"),
        ({"parameters": "x"}, "/bad", "parameters: must be a list, not text"),
        ({"additionalOperations": "x"}, "/bad", "additionalOperations: must be an object"),
        ({"$ref": "#/nope"}, "/bad", "$ref '#/nope' leads nowhere: there is no 'nope'"),
    ],
)
def test_a_bad_operation_is_refused_alone(item, place, reason):
    [tool], [refusal] = read({"/bad": item, "/good": {"get": OK}})
    assert (tool.name, refusal.source, refusal.place) == ("get_good", "the shop", place)
    assert refusal.reason.startswith(reason)


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [
        ({"openapi": "4.0.0"}, "openapi", "version '4.0.0' is not known; 2.0 and 3.x are read"),
        ({"swagger": "1.2"}, "swagger", "version '1.2' is not known; 2.0 and 3.x are read"),
        ({"openapi": None}, "openapi", "version None is not known; 2.0 and 3.x are read"),
        ({"openapi": "3.0.0", "paths": []}, "paths", "must be an object, not a list"),
        ({"openapi": "3.0.0"}, "", "holds no tools"),
    ],
)
def test_a_document_that_cannot_be_read(content, place, reason):
    assert list(read_data(content, "the shop")) == [Refusal("the shop", place, reason)]


def takes(operation: dict[str, Any], version: str = "3.1.0", **rest: Any) -> Any:
    """Read one POST operation and give its input schema."""
    [tool] = read_all({"/x": {"post": {**OK, **operation}}}, version, **rest)
    return tool.input_schema


def json_body(schema: Any, **rest: Any) -> dict[str, Any]:
    return {"requestBody": {"content": {"application/json": {"schema": schema}}, **rest}}


def test_parameters_of_path_and_operation_and_body_are_one_object():
    shared = [
        {"name": "id", "in": "path", "required": True, "schema": STRING},
        {"name": "lang", "in": "query", "schema": STRING, "description": "of the path"},
        {"name": "Authorization", "in": "header", "schema": STRING},
    ]
    own = {"name": "lang", "in": "query", "schema": {"enum": ["de"]}, "description": "Language"}
    content = {"application/json": {"schema": INTEGER}}
    filter_ = {"name": "filter", "in": "query", "content": content}
    created = {"type": "string", "readOnly": True}
    body = {
        "type": "object",
        "required": ["amount", "created"],
        "properties": {"amount": INTEGER, "note": STRING, "created": created},
    }
    put = {**OK, "parameters": [own, filter_], **json_body(body, required=True)}
    [tool] = read_all({"/x/{id}": {"parameters": shared, "put": put}})
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "id": STRING,
            "lang": {"enum": ["de"], "description": "Language"},
            "filter": INTEGER,
            "amount": INTEGER,
            "note": STRING,
        },
        "required": ["id", "amount"],
    }


def test_a_body_that_would_hide_a_parameter_becomes_one_property():
    body = {"type": "object", "properties": {"id": INTEGER}}
    parameters = [{"name": "id", "in": "query", "schema": STRING}]
    schema = takes({"parameters": parameters, **json_body(body, required=True)})
    assert schema == {
        "type": "object",
        "properties": {"id": STRING, "body": body},
        "required": ["body"],
    }


@pytest.mark.parametrize(
    "body",
    [{"type": "array", "items": STRING}, STRING, {"oneOf": [STRING, INTEGER]}, {"type": "object"}],
)
def test_a_body_without_properties_becomes_one_property(body):
    assert takes(json_body(body)) == {"type": "object", "properties": {"body": body}}


def test_a_body_as_one_property_has_its_own_description():
    schema = takes(json_body(STRING | {"description": "Any text."}, description="The letter."))
    assert schema["properties"] == {"body": STRING | {"description": "The letter."}}
    parameter = {"name": "pets", "in": "body", "description": "All pets.", "schema": STRING}
    schema = takes({"parameters": [parameter]}, "2.0")
    assert schema["properties"] == {"body": STRING | {"description": "All pets."}}


def test_the_parts_of_an_all_of_are_one_body():
    parts = [True, {"$ref": "#/components/schemas/Base"}, {"properties": {"b": INTEGER}}]
    base = {"type": "object", "properties": {"a": STRING}, "required": ["a"]}
    body = json_body({"allOf": parts}, required=True)
    schema = takes(body, components={"schemas": {"Base": base}})
    assert schema == {
        "type": "object",
        "properties": {"a": STRING, "b": INTEGER},
        "required": ["a"],
    }


def test_a_body_takes_the_properties_that_it_has_in_some_cases_alone():
    first = {"properties": {"k": {"maxLength": 9}, "z": STRING}, "required": ["z"]}
    dependent = {"k": {"properties": {"d": INTEGER}}}
    body = {
        "type": "object",
        "properties": {"k": STRING},
        "if": {"properties": {"k": {"const": "a"}}},
        "then": first,
        "allOf": [{"if": True, "else": {"properties": {"z": INTEGER}}}],
        "dependentSchemas": dependent,
    }
    assert takes(json_body(body, required=True)) == {
        "type": "object",
        "properties": {"k": STRING, "z": {"anyOf": [STRING, INTEGER]}, "d": INTEGER},
    }


@pytest.mark.parametrize("additional", [False, STRING])
def test_a_body_says_what_other_properties_it_takes(additional):
    own = {"type": "object", "properties": {"a": STRING}, "additionalProperties": additional}
    assert takes(json_body(own)) == own
    assert takes(json_body({"allOf": [own]})) == own


def test_a_body_with_patterns_of_names_becomes_one_property():
    body = {"type": "object", "properties": {"a": STRING}, "patternProperties": {"^x-": INTEGER}}
    assert takes(json_body(body)) == {"type": "object", "properties": {"body": body}}


def test_two_parameters_of_one_name_in_two_places():
    parameters = [{"name": "v", "in": place, "schema": STRING} for place in ("query", "header")]
    schema = takes({"parameters": parameters})
    assert schema["properties"] == {"v": STRING, "header_v": STRING}
    parameters.insert(0, {"name": "header_v", "in": "query", "schema": INTEGER})
    schema = takes({"parameters": parameters})
    assert schema["properties"] == {"header_v": INTEGER, "v": STRING, "header_header_v": STRING}


def test_each_argument_has_its_place():
    places = {"id": "path", "body": "query", "request_body": "header"}
    parameters = [{"name": name, "in": place, "schema": STRING} for name, place in places.items()]
    parameters.append({"name": "id", "in": "query", "schema": STRING})
    [merged] = read_all({"/x/{id}": {"post": {"parameters": parameters, **json_body(ORDER)}}})
    [whole] = read_all({"/x": {"post": {"parameters": parameters[1:3], **json_body(STRING)}}})
    assert merged.annotations["parameters"] == {
        **{name: {"in": place} for name, place in places.items()},
        "query_id": {"in": "query", "name": "id"},
    }
    assert merged.input_schema["properties"].keys() == {*places, "query_id", "sku"}
    assert whole.annotations["parameters"]["request_request_body"] == {"in": "body"}
    assert len(whole.input_schema["properties"]) == 3


def test_a_path_that_comes_twice_is_refused(tmp_path):
    text = json.dumps(document({"/a": {"get": OK}, "/b": {"get": OK}, "/c": {"get": OK}}))
    path = tmp_path / "shop.json"
    path.write_text(text.replace("/b", "/a"))
    assert len(split(read_source(str(path)))[0]) == 2
    path.write_text(text.replace('"/b": {"get"', '"/a": {"put"'))
    [refusal] = read_source(str(path))
    assert isinstance(refusal, Refusal)
    assert refusal.reason.startswith("the key '/a' comes again with another value")


def test_json_is_preferred_among_media_types():
    content = {"text/csv": {"schema": STRING}, "application/vnd.x+json": {"schema": INTEGER}}
    schema = takes({"requestBody": {"content": content}})
    assert schema["properties"] == {"body": INTEGER}
    content["application/json; charset=utf-8"] = {"schema": STRING}
    schema = takes({"requestBody": {"content": content}})
    assert schema["properties"] == {"body": STRING}


def test_extensions_of_schemas_are_left_out():
    noted = {**STRING, "x-order": 1, "x-schema": {"$ref": "#/nowhere"}}
    body = {"type": "object", "properties": {"x-a": noted, "b": noted | {"x-nullable": True}}}
    schema = takes(json_body(body))
    assert schema["properties"] == {"x-a": STRING, "b": {"type": ["string", "null"]}}
    parameter = {"name": "q", "in": "query", "type": "string", "x-example": "a"}
    assert takes({"parameters": [parameter]}, "2.0")["properties"] == {"q": STRING}


def test_nullable_and_exclusive_bounds_become_json_schema():
    properties = {
        "a": {"type": "string", "nullable": True},
        "b": {"type": "string", "nullable": True, "enum": ["x"]},
        "c": {"allOf": [INTEGER], "nullable": True},
        "d": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "xml": {"name": "d"}},
        "e": {"type": "number", "maximum": 9, "exclusiveMaximum": False},
        "nullable": {"type": "boolean", "default": {"nullable": True}},
    }
    schema = takes(json_body({"type": "object", "properties": properties}), "3.0.3")
    assert schema["properties"] == {
        "a": {"type": ["string", "null"]},
        "b": {"type": ["string", "null"], "enum": ["x", None]},
        "c": {"anyOf": [{"allOf": [INTEGER]}, {"type": "null"}]},
        "d": {"type": "number", "exclusiveMinimum": 0},
        "e": {"type": "number", "maximum": 9},
        "nullable": {"type": "boolean", "default": {"nullable": True}},
    }


def test_swagger_2():
    parameters = [
        {"name": "q", "in": "query", "type": "array", "items": STRING, "collectionFormat": "csv"},
        {"name": "photo", "in": "formData", "type": "file", "required": True},
        {"$ref": "#/parameters/Page"},
    ]
    page = {"name": "page", "in": "query", "type": "integer", "minimum": 1}
    schema = takes({"parameters": parameters}, "2.0", parameters={"Page": page})
    assert schema == {
        "type": "object",
        "properties": {
            "q": {"type": "array", "items": STRING},
            "photo": {"type": "string", "format": "binary"},
            "page": {"type": "integer", "minimum": 1},
        },
        "required": ["photo"],
    }


def test_a_parameter_without_a_schema_takes_anything():
    parameters = [
        {"name": "a", "in": "query", "content": {}},
        {"name": "b", "in": "query", "schema": True},
        {"name": "c", "in": "query"},
    ]
    schema = takes({"parameters": parameters})
    assert schema["properties"] == {"a": {}, "b": {}, "c": {}}


def test_swagger_2_body():
    pet = {"type": "object", "properties": {"name": STRING}, "required": ["name"]}
    pet_reference = {"$ref": "#/definitions/Pet"}
    body = {"name": "pet", "in": "body", "required": True, "schema": pet_reference}
    schema = takes({"parameters": [body]}, "2.0", definitions={"Pet": pet})
    assert schema == pet


def test_swagger_2_extension_allows_null():
    note = {"type": "string", "x-nullable": True, "enum": ["x"]}
    owner = {"$ref": "#/definitions/Owner", "x-nullable": True}
    pet = {"type": "object", "properties": {"note": note, "owner": owner, "x-nullable": STRING}}
    parameters = [
        {"name": "page", "in": "query", "type": "integer", "x-nullable": True},
        {"name": "size", "in": "query", "type": "integer", "x-nullable": False},
        {"name": "pet", "in": "body", "schema": pet},
    ]
    schema = takes({"parameters": parameters}, "2.0", definitions={"Owner": {"type": "object"}})
    assert schema["properties"] == {
        "page": {"type": ["integer", "null"]},
        "size": INTEGER,
        "note": {"type": ["string", "null"], "enum": ["x", None]},
        "owner": {"type": ["object", "null"]},
        "x-nullable": STRING,
    }


def valid(schema: Any, *bodies: Any) -> list[bool]:
    """Tell of each body whether the schema takes it."""
    checker = Draft202012Validator(schema)
    Draft202012Validator.check_schema(schema)
    return [checker.is_valid(body) for body in bodies]


def test_a_body_that_may_be_left_out_requires_nothing():
    parameters = [{"name": "id", "in": "path", "required": True, "schema": STRING}]
    body = {"type": "object", "required": ["reason"], "properties": {"reason": STRING}}
    schema = takes({"parameters": parameters, **json_body(body)})
    assert schema["required"] == ["id"]
    assert set(schema["properties"]) == {"id", "reason"}


ON = {"required": ["on"], "properties": {"on": STRING, "kind": {"const": "once"}}}
EVERY = {
    "required": ["every", "unit"],
    "properties": {"every": INTEGER, "unit": STRING, "kind": {"enum": ["often", "always"]}},
}
EITHER = {"on": STRING, "kind": {"enum": ["once", "often", "always"]}, "every": INTEGER}


@pytest.mark.parametrize("union", ["oneOf", "anyOf"])
@pytest.mark.parametrize("inside", [False, True])
def test_branches_beside_properties_give_their_properties(union, inside):
    branches = {union: [ON, EVERY]}
    job: dict[str, Any] = {"type": "object", "properties": {"name": STRING}, "required": ["name"]}
    job |= {"allOf": [branches]} if inside else branches
    schema = takes(json_body(job, required=True))
    assert schema["properties"] == {"name": STRING, **EITHER, "unit": STRING}
    assert schema["required"] == ["name"]


def test_what_every_branch_requires_is_required():
    branches: list[Any] = [
        {"required": ["a", "b"], "properties": {"a": STRING, "b": STRING}},
        {"required": ["a"], "properties": {"a": INTEGER}},
    ]
    job = {"properties": {"id": STRING}, "oneOf": branches}
    schema = takes(json_body(job, required=True))
    assert schema["properties"]["a"] == {"anyOf": [STRING, INTEGER]}
    assert schema["required"] == ["a"]
    branches.append(True)
    assert "required" not in takes(json_body(job, required=True))


def test_parts_that_describe_one_property_hold_together():
    first = {
        "properties": {"a": {"type": "string", "maxLength": 9}, "b": {"properties": {"c": {}}}}
    }
    second = {"properties": {"a": {"enum": ["x"]}, "b": {"properties": {"d": {}}}}}
    schema = takes(json_body({"allOf": [first, second]}))
    assert schema["properties"] == {
        "a": {"type": "string", "maxLength": 9, "enum": ["x"]},
        "b": {"properties": {"c": {}, "d": {}}},
    }


def kinds(*names: str, **more: Any) -> dict[str, Any]:
    """Components with a parent that has a discriminator, and the children that extend it."""
    parent = {"type": "object", "required": ["kind"], "properties": {"kind": STRING}, **more}
    children = {
        name: {
            "allOf": [
                {"$ref": "#/components/schemas/Shape"},
                {"properties": {f"{name.lower()}_size": INTEGER}},
            ]
        }
        for name in names
    }
    return {"schemas": {"Shape": parent, **children}}


SHAPE = {"$ref": "#/components/schemas/Shape"}
BY_KIND = {"propertyName": "kind"}
SHORT = {
    "propertyName": "kind",
    "mapping": {"o": "#/components/schemas/Circle", "q": "Square", "gone": "Gone"},
}


@pytest.mark.parametrize(
    ("discriminator", "tags"), [(BY_KIND, ["Circle", "Square"]), (SHORT, ["o", "q"])]
)
def test_a_body_of_a_parent_takes_the_properties_of_its_children(discriminator, tags):
    components = kinds("Circle", "Square", discriminator=discriminator)
    schema = takes(json_body(SHAPE, required=True), components=components)
    assert schema == {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": tags},
            "circle_size": INTEGER,
            "square_size": INTEGER,
        },
        "required": ["kind"],
    }


def test_a_parent_at_any_depth_is_one_of_its_children():
    components = kinds("Circle", "Square", discriminator=SHORT)
    described = {"allOf": [SHAPE], "description": "First"}
    body = {"properties": {"all": {"type": "array", "items": SHAPE}, "first": described}}
    schema = takes(json_body(body), components=components)
    circle, square = {"kind": "o", "circle_size": 1}, {"kind": "q", "square_size": 2}
    assert valid(schema, {"all": [circle, square]}, {"first": square}) == [True, True]
    wrong = {"first": {"kind": "o", "circle_size": "big"}}
    assert not any(valid(schema, {"all": [{"kind": "x"}]}, {"all": [{"circle_size": 1}]}, wrong))


def test_a_child_that_is_named_is_that_child_alone():
    components = kinds("Circle", "Square", discriminator=BY_KIND)
    body = json_body({"$ref": "#/components/schemas/Circle"}, required=True)
    schema = takes(body, components=components)
    assert set(schema["properties"]) == {"kind", "circle_size"}


def test_grandchildren_are_children_and_a_child_may_hold_a_parent():
    components = kinds("Round", discriminator=BY_KIND)
    disc = {"$ref": "#/components/schemas/Round"}
    holds: dict[str, Any] = {"properties": {"r": INTEGER, "inner": SHAPE}}
    components["schemas"]["Disc"] = {"allOf": [disc, holds]}
    schema = takes(json_body(SHAPE), components=components)
    assert schema["properties"]["kind"]["enum"] == ["Round", "Disc"]
    assert schema["properties"]["inner"]["description"] == "Shape (recursive)"


def test_swagger_2_names_the_property_alone():
    definitions = {
        "Pet": {"properties": {"kind": STRING}, "discriminator": "kind"},
        "Cat": {"allOf": [{"$ref": "#/definitions/Pet"}, {"properties": {"lives": INTEGER}}]},
    }
    body = {"name": "pet", "in": "body", "schema": {"$ref": "#/definitions/Pet"}}
    schema = takes({"parameters": [body]}, "2.0", definitions=definitions)
    assert schema["properties"] == {"kind": {"type": "string", "enum": ["Cat"]}, "lives": INTEGER}


@pytest.mark.parametrize("more", [{}, {"defaultMapping": "A"}])
def test_each_branch_requires_the_tag_unless_there_is_a_default(more):
    schemas = {
        "A": {"type": "object", "properties": {"kind": {"const": "a", "default": "a"}}},
        "B": {"type": "object", "properties": {"kind": STRING, "size": INTEGER}},
    }
    union = {
        "oneOf": [{"$ref": f"#/components/schemas/{name}"} for name in schemas],
        "discriminator": {
            "propertyName": "kind",
            "mapping": {"a": "A", "b": "B", "c": "#/components/schemas/B"},
            **more,
        },
    }
    schema = takes(json_body(union), components={"schemas": schemas})
    first, second = schema["properties"]["body"]["oneOf"]
    if more:
        assert (first, second) == (schemas["A"], schemas["B"])
        return
    assert first == {**schemas["A"], "required": ["kind"]}
    assert second["required"] == ["kind"]
    assert second["properties"]["kind"] == {"type": "string", "enum": ["b", "c"]}


def test_what_the_server_sets_is_asked_of_no_caller_at_any_depth():
    set_by_server = {"type": "string", "readOnly": True}
    base = {"type": "object", "properties": {"id": set_by_server, "name": STRING}}
    inner = {
        "allOf": [{"$ref": "#/components/schemas/Base"}, {"required": ["name"]}],
        "required": ["id", "name"],
        "properties": {"secret": {"type": "string", "writeOnly": True}},
    }
    nullable = {"allOf": [STRING], "nullable": True, "readOnly": True}
    lines = {"type": "array", "items": inner}
    order = {"properties": {"lines": lines, "id": set_by_server, "state": nullable}}
    operation = json_body({**order, "required": ["id", "lines"]}, required=True)
    operation["responses"] = {"200": {"content": {"application/json": {"schema": inner}}}}
    paths = {"/x": {"post": operation}}
    [tool] = read_all(paths, components={"schemas": {"Base": base}})
    assert list(tool.input_schema["properties"]) == tool.input_schema["required"] == ["lines"]
    asked = tool.input_schema["properties"]["lines"]["items"]
    assert (asked["allOf"][0]["properties"], asked["required"]) == ({"name": STRING}, ["name"])
    assert list(asked["properties"]) == ["secret"]
    assert tool.output_schema["allOf"][0]["properties"] == {"id": set_by_server, "name": STRING}
    assert tool.output_schema["properties"] == {}


def test_definitions_of_a_body_are_found_and_left_out():
    body = {
        "properties": {"p": {"$ref": "#/$defs/P"}, "q": {"$ref": "#/components/schemas/Q"}},
        "$defs": {"P": {"enum": ["x"]}},
    }
    inner = {"properties": {"p": {"$ref": "#/$defs/P"}}, "$defs": {"P": INTEGER}}
    schema = takes(json_body(body), components={"schemas": {"Q": inner}})
    assert schema["properties"] == {"p": {"enum": ["x"]}, "q": {"properties": {"p": INTEGER}}}


@pytest.mark.parametrize(
    ("mark", "reference"),
    [
        ({"$recursiveAnchor": True}, {"$recursiveRef": "#"}),
        ({"$dynamicAnchor": "node", "$id": "tree"}, {"$dynamicRef": "#node"}),
    ],
)
def test_a_schema_that_refers_to_itself_is_cut(mark, reference):
    tree = {**mark, "properties": {"children": {"type": "array", "items": reference}}}
    body = {"properties": {"tree": {"$ref": "#/components/schemas/Tree"}}}
    schema = takes(json_body(body), components={"schemas": {"Tree": tree}})
    cut = {"type": "object", "description": "Tree (recursive)"}
    assert schema["properties"]["tree"] == {
        "properties": {"children": {"type": "array", "items": cut}}
    }


def test_examples_of_a_parameter_are_in_its_schema():
    listed = {
        "one": {"value": ["red"]},
        "two": {"$ref": "#/components/examples/Blue"},
        "elsewhere": {"externalValue": "https://example.org"},
    }
    parameters = [
        {"name": "q", "in": "query", "schema": STRING, "example": "lamp"},
        {"name": "tag", "in": "query", "schema": {"type": "array"}, "examples": listed},
    ]
    examples = {"Blue": {"dataValue": ["blue"]}}
    schema = takes({"parameters": parameters}, components={"examples": examples})
    assert schema["properties"] == {
        "q": {**STRING, "examples": ["lamp"]},
        "tag": {"type": "array", "examples": [["red"], ["blue"]]},
    }


def test_an_operation_without_a_text_has_that_of_its_path():
    item = {"summary": "Things", "get": OK, "post": {**OK, "summary": "Add a thing"}}
    (get, post), _ = read({"/x": item})
    assert (get.description, post.description) == ("Things", "Add a thing")


def test_methods_of_openapi_3_2():
    more = {"COPY": {**OK, "operationId": "copyThing"}, "LINK": []}
    item = {"query": {**OK, **json_body({"properties": {"q": STRING}})}}
    tools, refusals = read({"/x": {**item, "additionalOperations": more}}, "3.2.0")
    assert [(tool.name, tool.annotations) for tool in tools] == [
        ("query_x", {"httpMethod": "QUERY", "path": "/x", "readOnlyHint": True}),
        ("copyThing", {"httpMethod": "COPY", "path": "/x"}),
    ]
    assert tools[0].input_schema["properties"] == {"q": STRING}
    assert [refusal.place for refusal in refusals] == ["LINK /x"]


def test_a_name_that_is_taken_gets_another_and_refuses_nothing(caplog):
    same = {**OK, "operationId": "list"}
    paths = {"/a": {"put": same, "get": same}, "/a-b": {"get": OK}, "/a_b": {"get": OK}}
    assert [tool.name for tool in read_all(paths)] == ["list", "get_a", "get_a_b", "get_a_b_2"]
    [record] = caplog.records
    assert record.message.startswith("the shop: named by method and path")
    assert record.message.endswith(": get_a, get_a_b_2")


@pytest.mark.parametrize("responses", ["x", {"200": {"$ref": "other.yaml#/responses/a"}}])
def test_an_operation_is_read_without_a_response_that_cannot_be(responses, caplog):
    [tool] = read_all({"/a": {"get": {"operationId": "list", "responses": responses}}})
    assert (tool.name, tool.output_schema) == ("list", {})
    [record] = caplog.records
    assert record.message.startswith("the shop: without a schema of its results: GET /a (")


@pytest.mark.parametrize(
    ("name", "title", "servers", "wanted"),
    [
        ("shop.json", "Other", [], "shop"),
        ("openapi.json", "Swagger Petstore - OpenAPI 3.0", [], "swagger-petstore-openapi-3.0"),
        ("api-docs.v2.json", "Shop", [], "shop"),
        ("openapi.json", "", [{"url": "https://api.shop.example/v1"}], "api.shop.example"),
        ("openapi.json", "", [{"url": "/v1"}], "openapi"),
    ],
)
def test_a_generic_name_of_a_file_gives_way_to_title_or_host(
    tmp_path, name, title, servers, wanted
):
    content = document({"/a": {"get": OK}}, servers=servers) | {"info": {"title": title}}
    path = tmp_path / name
    path.write_text(json.dumps(content), encoding="utf-8")
    (tool,) = split(read_source(str(path)))[0]
    assert tool.server == wanted


@pytest.mark.parametrize("path", ["/orders/{id}", "/orders/{id:int}", "/orders/{id+}"])
def test_parameters_of_a_path_are_required_and_need_no_declaration(path):
    declared = {**OK, "parameters": [{"name": "id", "in": "path", "schema": INTEGER}]}
    tools = read_all({path: {"get": OK, "put": declared}})
    assert [tool.input_schema["properties"] for tool in tools] == [{"id": STRING}, {"id": INTEGER}]
    assert [tool.input_schema["required"] for tool in tools] == [["id"], ["id"]]


def test_a_parameter_of_a_path_that_is_declared_elsewhere_comes_once():
    declared = {**OK, "parameters": [{"name": "id", "in": "query", "schema": INTEGER}]}
    [tool], _ = read({"/orders/{id}": {"get": declared}})
    assert tool.input_schema["properties"] == {"id": INTEGER}


@pytest.mark.parametrize("key", ["GET", "fetch", "x-amazon-apigateway-any-method"])
def test_what_is_no_method_is_reported(key):
    item = {key: OK, "post": OK, "summary": "Orders.", "x-owner": "sales"}
    [tool], [refusal] = read({"/orders": item})
    assert tool.name == "post_orders"
    assert refusal.place == "/orders"
    assert key in refusal.reason


@pytest.mark.parametrize(
    ("schema", "required", "names"),
    [
        ({"type": "object", "properties": {}}, False, []),
        ({"type": "object", "properties": {}}, True, ["body"]),
        ({"type": "object"}, False, ["body"]),
    ],
)
def test_an_optional_body_without_properties_is_none(schema, required, names):
    body = {
        "required": required,
        "content": {"application/x-www-form-urlencoded": {"schema": schema}},
    }
    [tool], _ = read({"/charges": {"get": {**OK, "requestBody": body}}})
    assert list(tool.input_schema["properties"]) == names
