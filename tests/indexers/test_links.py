"""Prerequisites: what a specification says it needs from other tools, and gives to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import ToolSpec
from toolcrib.indexers.links import link_payload

ID = {"type": "string"}


def takes(*names, required=None, **described):
    fields = dict.fromkeys(names, ID) | {n: {"description": d} for n, d in described.items()}
    return {"type": "object", "properties": fields, "required": required or list(fields)}


def links(name="do_it", **fields):
    return link_payload(ToolSpec(name=name, **fields))["links"]


def needs(**fields):
    return dict(links(**fields).get("needs", ()))


@pytest.mark.parametrize(
    ("parameter", "entities"),
    [
        ("person_id", ["person"]),
        ("personId", ["person"]),
        ("pull_request_ids", ["pull request"]),
        ("issue_handle", ["issu"]),
        ("page_id", ["page"]),
        ("session", ["session"]),
    ],
)
def test_an_id_a_code_or_a_handle_of_an_entity_is_needed_from_another(parameter, entities):
    assert needs(input_schema=takes(parameter)) == {parameter: entities}


@pytest.mark.parametrize(
    "parameter",
    [
        *("name", "type", "query", "api_key", "access_token", "external_id", "country_code"),
        *("page_token", "next_page_id"),
    ],
)
def test_what_people_say_or_a_client_keeps_is_needed_from_nobody(parameter):
    assert needs(input_schema=takes(parameter)) == {}


@pytest.mark.parametrize(
    "field", [{"enum": ["a", "b"]}, {"default": "a"}, {"type": "boolean"}, {"const": "a"}]
)
def test_what_is_chosen_from_a_list_or_has_a_default_needs_no_tool(field):
    schema = {"type": "object", "properties": {"team_id": field}, "required": ["team_id"]}
    assert needs(input_schema=schema) == {}


def test_only_required_parameters_are_needed():
    schema = takes("team_id", "user_id", required=["team_id"])
    assert list(needs(input_schema=schema)) == ["team_id"]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "report", "input_schema": takes(id="The ID of the campaign to report on")},
        {"name": "report", "input_schema": takes(id="Campaign ID")},
        {"annotations": {"path": "/campaigns/{id}/report"}, "input_schema": takes("id")},
        {"name": "get_campaign", "input_schema": takes("id")},
    ],
)
def test_an_id_alone_is_of_what_description_path_or_name_say(fields):
    assert needs(**fields) == {"id": ["campaign"]}


@pytest.mark.parametrize(
    "name",
    [
        *("search_people", "person-search", "GET /search/person", "listPersons"),
        *("get_person_by_name", "DescribePersons"),
    ],
)
def test_what_finds_or_lists_an_entity_gives_it(name):
    assert "person" in link_payload(ToolSpec(name=name))["yields"]


@pytest.mark.parametrize("name", ["delete_person", "update_person", "create_person", "personal"])
def test_what_changes_an_entity_gives_none(name):
    assert link_payload(ToolSpec(name=name))["yields"] == []


def test_what_is_made_to_be_worked_with_is_given_by_who_makes_it():
    assert "session" in links("create_session")["gives"]


def test_details_of_a_thing_are_no_way_to_its_id():
    spec = ToolSpec(name="get_person", input_schema=takes("person_id"))
    assert link_payload(spec)["yields"] == []


def test_outputs_and_for_a_bare_verb_the_description_say_what_is_given():
    output = {"properties": {"results": {"items": {"properties": {"album_id": ID}}}}}
    assert "album" in links("find_music", output_schema=output)["gives"]
    assert {"artist", "track"} <= set(links("search", description="Artists and tracks.")["gives"])


def test_a_text_names_the_tool_to_use_first_and_for_what():
    found = links(
        description="Reads a page. Call list_books first. Prefer get_page instead.",
        input_schema=takes(key="As returned by `find-keys`"),
    )
    assert found["names"] == [["find-keys", "key"], ["list_books", ""]]


@pytest.mark.parametrize(
    "description",
    [
        "Starts a crawl. Monitor with get_status.",
        "Starts a crawl, then use get_status.",
        "Run this before get_status.",
        "Gives ids that can be used with get_status.",
    ],
)
def test_a_tool_that_comes_after_is_no_tool_to_use_first(description):
    assert "names" not in links(description=description)


@pytest.mark.parametrize(
    ("name", "action"), [("add_task", "make"), ("updateTask", "change"), ("find_task", None)]
)
def test_what_adds_and_what_changes_an_entity_are_told_apart(name, action):
    assert links(name).get("action") == action


@pytest.mark.parametrize(
    ("description", "successor"),
    [
        ("Deprecated: use send_mail instead.", "sendmail"),
        ("[DEPRECATED - use /mails] Sends.", "mails"),
        ("Sends. This endpoint is deprecated, migrate to the new `Send Mail`.", "sendmail"),
    ],
)
def test_a_deprecated_tool_names_its_successor(description, successor):
    assert successor in links(description=description)["successors"]


def test_a_deprecated_parameter_deprecates_no_tool():
    told = "Sends a mail to a person. The parameter `to` is deprecated, use `receiver` instead."
    assert "successors" not in links(description=told)
    assert "successors" in links(description="Use send.", annotations={"deprecated": True})


@given(st.text(), st.dictionaries(st.text(), st.none() | st.text() | st.booleans()))
def test_any_text_and_any_schema_are_read(text, field):
    schema = {"properties": {text: field, "id": field}, "required": [text]}
    link_payload(ToolSpec(name=f"a{text[:100]}", description=text, input_schema=schema))
