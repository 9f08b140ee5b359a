"""Flow policy: private data and text of others are in a conversation, and a tool sends out."""

from __future__ import annotations

import pytest
from fastmcp.client.elicitation import ElicitResult

from tests.gateway.conftest import Behind, said
from toolcrib import ToolSpec
from toolcrib.gateway.flow import flow_traits

READ = {"name": "read_file", "description": "Read a file.", "does": "echo"}
FETCH = {"name": "get_issue", "description": "Give an issue and its comments.", "does": "echo"}
SEND = {
    "name": "send_mail",
    "description": "Send a mail.",
    "does": "echo",
    "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}},
}
PRIVATE, FOREIGN, OUT = "files__read_file", "tracker__get_issue", "post__send_mail"


def three(behind: Behind, **stated):
    """Servers of files, of a tracker and of mail; `stated` is said of the last one's tools."""
    return {
        "files": [READ],
        "tracker": [FETCH],
        "post": behind.entry("post", SEND, toolcrib=stated),
    }


class Person:
    """A user who answers every question alike, and keeps what was asked."""

    def __init__(self, action: str) -> None:
        self.action, self.asked = action, []

    async def __call__(self, message, response_type, params, context):
        self.asked.append(message)
        return ElicitResult(action=self.action, content={} if self.action == "accept" else None)


async def use(client, *names):
    for name in names:
        await client.call_tool(name, {})


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_the_user_is_asked_with_what_led_to_it(behind: Behind, action, mode):
    person = Person(action)
    how = {"flow": "ask", "mode": mode, "elicitation_handler": person}
    async with behind.client(three(behind), **how) as client:
        await use(client, PRIVATE, FOREIGN)
        answer = await said(client, OUT, to="ada@post.example")

    assert len(person.asked) == 1
    assert all(each in person.asked[0] for each in (PRIVATE, FOREIGN, OUT, "ada@post.example"))
    assert ("was not made" in answer) == (action != "accept")
    assert ("ada@post.example" in answer) == (action == "accept")


async def test_no_argument_hides_behind_a_long_text_or_hidden_characters(behind: Behind):
    person = Person("decline")
    note = "as agreed. " * 500
    async with behind.client(three(behind), flow="ask", elicitation_handler=person) as client:
        await use(client, PRIVATE, FOREIGN)
        await said(client, OUT, note=[note], **{"c\u200bc": [{"to": "\u202eada\u200b@x.example"}]})

    (asked,) = person.asked
    assert "U+202E" in asked
    assert "@x.example" in asked
    assert asked.count("U+200B") == 2
    assert f"{len(note) - 400:,} more" in asked
    assert len(asked) < 1000


async def test_a_call_is_refused_where_the_policy_says_so(behind: Behind):
    async with behind.client(three(behind), flow="refuse") as client:
        await use(client, FOREIGN, PRIVATE)
        answer = await said(client, OUT, to="ada")
        again = await said(client, PRIVATE)

    assert "was not made" in answer
    assert PRIVATE in answer
    assert FOREIGN in answer
    assert "was not made" not in again


async def test_a_client_that_cannot_ask_its_user_sends_nothing(behind: Behind):
    async with behind.client(three(behind), flow="ask") as client:
        await use(client, FOREIGN, PRIVATE)
        assert "No user could be asked" in await said(client, OUT, to="ada")


@pytest.mark.parametrize(
    ("before", "policy"),
    [
        ((PRIVATE,), {"flow": "refuse"}),
        ((FOREIGN,), {"flow": "refuse"}),
        ((), {"flow": "refuse"}),
        ((PRIVATE, FOREIGN), {}),
    ],
    ids=["private", "foreign", "neither", "both, by default"],
)
async def test_either_of_both_alone_may_be_sent_and_without_a_policy_both(
    behind: Behind, before, policy
):
    async with behind.client(three(behind), **policy) as client:
        await use(client, *before)
        assert "was not made" not in await said(client, OUT, to="ada")


async def test_the_configuration_states_what_the_guess_gets_wrong(behind: Behind):
    servers = three(behind, sends_out=[])
    servers["files"] = behind.entry("files", READ, toolcrib={"sends_out": ["read_*"]})
    async with behind.client(servers, flow="refuse") as client:
        await use(client, PRIVATE, FOREIGN)
        assert "was not made" not in await said(client, OUT, to="ada")
        assert "was not made" in await said(client, PRIVATE)


async def test_a_server_with_a_mistake_in_the_configuration_is_not_used(behind: Behind):
    async with behind.client(three(behind, sends_out=7), flow="ask") as client:
        assert "no tool" in await said(client, OUT, to="ada")
        assert "was not made" not in await said(client, PRIVATE)


@pytest.mark.parametrize(
    ("name", "parameters", "hints", "expected"),
    [
        ("read_file", ["path"], {}, {"reads_private"}),
        ("list_inbox", [], {}, {"reads_private", "brings_foreign"}),
        ("fetch", ["url"], {}, {"brings_foreign", "sends_out"}),
        ("get_issue", ["number"], {}, {"brings_foreign"}),
        ("send_message", ["text"], {}, {"sends_out"}),
        ("create_issue", ["title", "body"], {}, {"sends_out"}),
        ("create_pull_request", ["title", "body"], {}, {"sends_out"}),
        ("list_pull_requests", ["state"], {}, {"brings_foreign"}),
        ("createEvent", ["title", "recipients"], {}, {"sends_out"}),
        ("add", ["a", "b"], {}, set()),
        ("lookup", ["word"], {"readOnlyHint": True, "openWorldHint": True}, {"brings_foreign"}),
        ("save", ["text"], {"readOnlyHint": False, "openWorldHint": True}, {"sends_out"}),
        ("send_mail", ["to"], {"readOnlyHint": True, "openWorldHint": False}, {"sends_out"}),
    ],
)
def test_names_parameters_and_hints_tell_what_a_tool_does(name, parameters, hints, expected):
    schema = {"type": "object", "properties": {each: {} for each in parameters}}
    tool = ToolSpec(name=name, server="s", input_schema=schema, annotations=hints)
    assert flow_traits(tool) == expected
