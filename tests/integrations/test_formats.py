"""Definitions that providers accept, whatever a tool is called."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import ToolHit, ToolSpec
from toolcrib.errors import QueryError
from toolcrib.integrations.formats import FORMATS, Definitions, export, named_ids
from toolcrib.records.definitions import FORMAT_NAMES, provider_name
from toolcrib.records.tools import Skill

TOOL = ToolSpec(
    name="send mail",
    server="mail",
    description="Sends.",
    input_schema={"type": "object", "properties": {"to": {"type": "string"}}},
    output_schema={"type": "string"},
    annotations={"readOnlyHint": False},
)


MAIL = TOOL.model_copy(update={"name": "send", "id": "mail/send"})
NAMED = {"name": "mail__send", "description": "Sends."}


@pytest.mark.parametrize(
    ("format", "shown"),
    [
        ("openai", {"type": "function", "function": {**NAMED, "parameters": TOOL.input_schema}}),
        ("anthropic", {**NAMED, "input_schema": TOOL.input_schema}),
        (
            "mcp",
            {
                "name": "send",
                "description": "Sends.",
                "inputSchema": TOOL.input_schema,
                "outputSchema": {"type": "string"},
                "annotations": {"readOnlyHint": False},
            },
        ),
    ],
)
def test_a_definition_is_what_its_provider_takes(format, shown):
    assert export([MAIL], format) == [shown]


def test_json_is_a_specification_that_reads_back():
    [shown] = export([TOOL], "json")
    assert ToolSpec.model_validate(shown) == TOOL


@pytest.mark.parametrize("format", FORMATS)
def test_a_skill_is_shown_or_named_as_left_out(format):
    refunds = ToolSpec(name="refunds", server="skills", skill=Skill(body="Ask first."))
    made = Definitions.of([MAIL, refunds], format)
    assert [each.id for each in made.left_out] == ["skills/refunds"] * (2 - len(made.tools))
    assert (len(made.tools) == 2) == (format in {"signature", "json"})


def test_a_tool_without_a_schema_takes_no_arguments():
    [shown] = export([ToolSpec(name="ping")], "anthropic")
    assert shown["input_schema"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("server", "name", "called"),
    [
        ("mail", "send", "mail__send"),
        ("", "send_mail", "send_mail"),
        ("github", "github-search", "github__github-search"),
        ("mail", "send.mail", r"mail__send_mail_[0-9a-f]{12}"),
        ("my server", "send", r"my_server__send_[0-9a-f]{12}"),
        ("mail", "x" * 60, r"mail__x{45}_[0-9a-f]{12}"),
        ("", "发送", r"tool_[0-9a-f]{12}"),
        ("", "mail__send", r"mail__send_[0-9a-f]{12}"),
        ("mail_", "send", r"mail___send_[0-9a-f]{12}"),
        ("", "find_tools", r"find_tools_[0-9a-f]{12}"),
        ("3scale", "send", r"tool_3scale__send_[0-9a-f]{12}"),
        ("3" * 70, "send", r"tool_3{40}__send_[0-9a-f]{12}"),
        ("github.com/" + "a" * 40 + "/files", "read_file", r"files__read_file_[0-9a-f]{12}"),
        ("s" * 40, "x" * 60, r"s{16}__x{33}_[0-9a-f]{12}"),
    ],
)
def test_a_name_says_server_and_tool_and_has_a_digest_where_that_is_not_exact(server, name, called):
    assert re.fullmatch(called, provider_name(ToolSpec(server=server, name=name)))


def test_a_tool_of_another_id_than_its_names_give_has_a_digest():
    named = provider_name(ToolSpec(server="mail", name="send", id="mine"))
    assert re.fullmatch(r"mail__send_[0-9a-f]{12}", named)


def test_a_name_that_looks_digested_is_not_taken_for_the_digested_name_of_another():
    digested = ToolSpec(name="send.mail", server="mail")
    server, _, name = provider_name(digested).partition("__")
    copy = ToolSpec(name=name, server=server)
    assert provider_name(copy) != provider_name(digested)
    assert set(named_ids([digested, copy], "openai").values()) == {digested.id, copy.id}


def test_a_tool_that_is_there_twice_is_exported_once_and_two_of_one_id_are_refused():
    assert export([MAIL, MAIL], "openai") == export([MAIL], "openai")
    other = MAIL.model_copy(update={"description": "Sends a fax."})
    for give in (export, named_ids):
        with pytest.raises(QueryError, match="'mail__send'"):
            give([MAIL, other], "openai")


def test_an_unknown_format_is_an_error():
    with pytest.raises(QueryError, match=f"'cobol'; known are {', '.join(FORMATS)}"):
        export([TOOL], "cobol")


TWINS = [
    *(ToolSpec(name="search", server=each) for each in ("files", "web")),
    ToolSpec(name="ping"),
]


def test_namespaces_hold_the_deferred_functions_of_a_server():
    function = {
        "type": "function",
        # Else the Responses API would require all properties.
        "strict": False,
        "description": "",
        "parameters": {"type": "object", "properties": {}},
        "defer_loading": True,
    }
    search = {**function, "name": "search"}
    spaces = [
        {"type": "namespace", "name": name, "description": f"Tools of {name}.", "tools": [search]}
        for name in ("files", "web")
    ]
    assert export(TWINS, "openai-namespaces") == [*spaces, {**function, "name": "ping"}]


def test_tool_references_name_deferred_definitions():
    names = ["files__search", "web__search", "ping"]
    deferred = export(TWINS, "anthropic-deferred")
    assert [(each["name"], each["defer_loading"]) for each in deferred] == [
        (n, True) for n in names
    ]
    referred = [{"type": "tool_reference", "tool_name": name} for name in names]
    assert export(TWINS, "tool_reference") == referred


def test_names_lead_back_to_ids():
    assert named_ids(TWINS, "mcp") == {"ping": "ping"}  # what two have leads nowhere
    for format, mark in (("openai", "__"), ("openai-namespaces", ".")):
        ids = {f"{server}{mark}search": f"{server}/search" for server in ("files", "web")}
        assert named_ids(TWINS, format) == {**ids, "ping": "ping"}


NAME, IDENTIFIER = r"[a-zA-Z0-9_-]{1,64}", r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"
PATTERNS = {
    **dict.fromkeys(("openai", "anthropic", "anthropic-deferred", "tool_reference"), NAME),
    **dict.fromkeys(("typescript", "python-stub"), IDENTIFIER),
    "openai-namespaces": rf"({NAME}\.)?{NAME}",
}
"""Names that providers and languages take."""

# Few letters, so that names often differ in what a provider does not accept alone.
words = st.one_of(
    st.text("ab_-. ", max_size=9), st.text("a_", min_size=55, max_size=70), st.text(max_size=30)
)
specs = st.builds(
    lambda server, name, id: ToolSpec(server=server, name=name, id=id),
    words,
    words.filter(lambda name: any(letter.isalnum() for letter in name)),
    st.one_of(st.just(""), st.text(min_size=1, max_size=9).filter(str.strip)),
)


@given(st.lists(specs, max_size=10, unique_by=lambda tool: tool.id), st.data())
def test_names_are_accepted_unique_lasting_and_lead_back(tools, data):
    some = data.draw(st.permutations(tools))[: len(tools) // 2]
    for format, pattern in PATTERNS.items():
        ids = named_ids(tools, format)
        assert list(ids.values()) == [tool.id for tool in tools]
        assert all(re.fullmatch(pattern, name) for name in ids)
        assert named_ids(some, format).items() <= ids.items()


@pytest.mark.parametrize("name", ["-0", "-class", "_-9_"])
def test_a_name_that_begins_with_a_dash_becomes_an_identifier(name):
    (given,) = named_ids([ToolSpec(name=name)], "python-stub")
    assert re.fullmatch(IDENTIFIER, given)


@given(st.lists(specs, max_size=8, unique_by=lambda tool: tool.id))
def test_the_names_in_definitions_are_those_that_lead_back(tools):
    def names(format):
        return [each["name"] for each in export(tools, format)]

    assert names("anthropic") == names("anthropic-deferred") == list(named_ids(tools, "anthropic"))
    assert [each["function"]["name"] for each in export(tools, "openai")] == names("anthropic")
    inside = {
        f"{each['name']}.{function['name']}"
        for each in export(tools, "openai-namespaces")
        for function in each.get("tools", ())
    }
    alone = {each["name"] for each in export(tools, "openai-namespaces") if "tools" not in each}
    assert inside | alone == set(named_ids(tools, "openai-namespaces"))


def test_tools_of_an_answer_are_exported_as_they_are():
    hit = ToolHit(rank=1, score=0.5, tool=MAIL)
    assert export([hit], "openai") == export([MAIL], "openai")
    assert named_ids([hit], "openai") == named_ids([MAIL], "openai")
    with pytest.raises(QueryError, match="ToolSpec"):
        export([MAIL.id], "openai")


def test_each_named_format_has_a_writer():
    assert tuple(FORMATS) == FORMAT_NAMES
