"""One line gives any FastMCP server our search, and what it hides stays hidden."""

from __future__ import annotations

import json

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.middleware import Middleware
from fastmcp.tools import Tool

from toolcrib import Crib, Settings
from toolcrib.integrations import fastmcp as integration
from toolcrib.integrations.fastmcp import ToolcribSearchTransform
from toolcrib.integrations.fastmcp import search_answer as answered
from toolcrib.records import FindResult, ToolHit, ToolSpec
from toolcrib.settings import EncoderSettings

PLAIN = Settings(encoder=EncoderSettings(dense="deterministic"))
MAIL = ToolHit(1, 0.5, ToolSpec(name="send_mail"))
GENERAL = ToolHit(2, 0.0, ToolSpec(name="web_search"), {"fallback": 1.0})


def server() -> FastMCP:
    mcp = FastMCP("office")

    @mcp.tool(tags={"math"})
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @mcp.tool
    def send_mail(to: str) -> str:
        """Send a mail to somebody."""
        return f"sent to {to}"

    @mcp.tool(tags={"rooms"})
    def book_room(room: str) -> str:
        """Book a meeting room."""
        return f"booked {room}"

    return mcp


@pytest.fixture
def transform():
    made = ToolcribSearchTransform(settings=PLAIN)
    yield made
    made.close()


@pytest.fixture
def office(transform):
    mcp = server()
    mcp.add_transform(transform)
    return mcp


async def found(client, query, **more):
    return (await client.call_tool("find_tools", {"query": query, **more})).structured_content


def names(answer):
    return [tool["name"] for tool in answer["tools"]]


async def call(client, name, **arguments):
    """Result of a tool that is called by the search; also an error."""
    asked = {"name": name, **({"arguments": arguments} if arguments else {})}
    return await client.call_tool("call_tool", asked, raise_on_error=False)


async def refused(mcp, tool, **arguments):
    """Text of the error with which a tool of the search answers."""
    async with Client(mcp) as client:
        answer = await client.call_tool(tool, arguments, raise_on_error=False)
    assert answer.is_error
    return answer.content[0].text


async def test_what_is_found_comes_with_its_schema_and_can_be_called(office):
    async with Client(office) as client:
        shown = await client.list_tools()
        answer = await client.call_tool("find_tools", {"query": "send a mail", "k": 1})
        called = await call(client, "send_mail", to="Ada")
        directly = await client.call_tool("send_mail", {"to": "Ada"})

    assert [tool.name for tool in shown] == ["find_tools", "call_tool"]
    assert shown[0].annotations.read_only_hint
    (mail,) = answer.structured_content["tools"]
    assert mail["name"] == "send_mail"
    assert mail["description"] == "Send a mail to somebody."
    assert mail["inputSchema"]["required"] == ["to"]
    assert json.loads(answer.content[0].text) == answer.structured_content
    assert called.data == directly.data == "sent to Ada"


NEEDS = ["Send a mail to somebody", "Add two numbers"]


@pytest.mark.parametrize("needs", [NEEDS, json.dumps(NEEDS), "\n".join(NEEDS)])
async def test_a_model_says_what_tools_it_wishes_for(office, needs):
    async with Client(office) as client:
        answer = (await client.call_tool("find_tools", {"needs": needs})).structured_content

    met = [(tool["name"], tool["needs"]) for tool in answer["tools"][:2]]
    assert met == [("send_mail", [0]), ("add", [1])]
    assert [need["text"] for need in answer["needs"]] == NEEDS


@pytest.mark.parametrize(
    ("asked", "told"), [({"query": " "}, "the query is empty"), ({"k": 2}, "'query' is missing")]
)
async def test_a_search_for_nothing_says_what_is_missing(office, asked, told):
    assert told in await refused(office, "find_tools", **asked)


async def test_some_tools_can_stay_listed_and_the_usual_number_be_set():
    mcp = server()
    transform = ToolcribSearchTransform(k=1, always_visible=["add"], settings=PLAIN)
    mcp.add_transform(transform)
    async with Client(mcp) as client:
        shown = [tool.name for tool in await client.list_tools()]
        assert shown == ["add", "find_tools", "call_tool"]
        assert len(names(await found(client, "mail room numbers"))) == 1
        assert "add" not in names(await found(client, "add two numbers"))
        assert (await call(client, "add", a=1, b=2)).data == 3
    transform.close()


async def test_that_nothing_fits_is_said_in_so_many_words():
    mcp = server()
    transform = ToolcribSearchTransform()
    mcp.add_transform(transform)
    async with Client(mcp) as client:
        answer = await found(client, "who won the battle of Hastings in 1066")
    transform.close()

    assert (answer["tools"] != [], answer["verdict"]) == (True, "abstain")
    assert answer["confidence"] < 0.2
    assert answer["note"].startswith("Perhaps none of these fits: confidence 0.")


@pytest.mark.parametrize(
    ("hits", "note"),
    [([], "No tool here fits."), ([MAIL, GENERAL], "Perhaps none of these fits: a guess. ")],
)
def test_a_general_tool_is_said_to_be_one_and_no_tools_are_no_next_best(hits, note):
    result = FindResult("x", tuple(hits), {}, verdict="fallback", reason="a guess")
    answer = answered(result, lambda hit: {"name": hit.name}).structured_content
    assert answer["note"].startswith(note)
    assert ("general" in answer["note"]) is bool(hits)


async def test_an_unknown_name_is_answered_with_those_like_it(office):
    unknown = await refused(office, "call_tool", name="Send-Mail")
    assert "'Send-Mail'. Did you mean send_mail? Call find_tools" in unknown
    search = await refused(office, "call_tool", name="find_tools")
    assert "find_tools belongs to the search" in search


@pytest.mark.parametrize("k", [0, -1, 51])
async def test_a_number_of_tools_out_of_bounds_is_refused(office, k):
    assert "k: " in await refused(office, "find_tools", query="x", k=k)
    async with Client(office) as client:
        (search, _) = await client.list_tools()
    bounds = search.input_schema["properties"]["k"]
    assert (bounds["minimum"], bounds["maximum"]) == (1, 50)


async def test_arguments_that_are_broken_json_are_told_with_their_place(office):
    broken = '{"to": "Ada" "copy": true}'
    told = await refused(office, "call_tool", name="send_mail", arguments=broken)
    assert "JSON" in told
    assert "column 14" in told


async def test_what_the_server_hides_is_neither_found_nor_called(office):
    office.disable(tags={"rooms"})
    async with Client(office) as client:
        answer = await found(client, "book a meeting room", k=9)
        called = await call(client, "book_room", room="A")

    assert sorted(names(answer)) == ["add", "send_mail"]
    assert called.is_error
    assert "book_room" not in called.content[0].text.partition("'. ")[2]


async def test_what_middleware_hides_from_one_is_found_by_another(office):
    hidden = set()

    class Hide(Middleware):
        async def on_list_tools(self, context, call_next):
            return [tool for tool in await call_next(context) if tool.name not in hidden]

    office.add_middleware(Hide())
    async with Client(office) as client:
        hidden.add("send_mail")
        without = await found(client, "send a mail", k=9)
        hidden.clear()
        with_it = await found(client, "send a mail", k=9)

    assert "send_mail" not in names(without)
    assert names(with_it)[0] == "send_mail"


async def test_auth_checks_of_tools_hold(transform):
    def never(context):
        return False

    mcp = server()
    mcp.add_tool(Tool.from_function(lambda: 1, name="secret", description="Secret.", auth=never))
    mcp.add_transform(transform)
    async with Client(mcp) as client:
        assert "secret" not in names(await found(client, "secret", k=9))
        called = await call(client, "secret")

    assert called.content[0].text.startswith("There is no tool 'secret'")


async def test_only_what_changed_is_encoded_again(office, transform, monkeypatch):
    indexed = []
    index_tools = Crib.index_tools

    def noted(self, specs, **how):
        indexed.extend(spec.name for spec in specs)
        return index_tools(self, specs, **how)

    monkeypatch.setattr(Crib, "index_tools", noted)
    async with Client(office) as client:
        await found(client, "mail")
        await found(client, "room")
        assert sorted(indexed) == ["add", "book_room", "send_mail"]

        @office.tool(name="send_fax")
        def send_fax(to: str) -> str:
            """Send a fax."""
            return to

        assert "send_fax" in names(await found(client, "send a fax"))
        assert indexed[3:] == ["send_fax"]


async def test_tools_that_nobody_sees_any_more_are_let_go_of(office, transform, monkeypatch):
    monkeypatch.setattr(integration, "MAX_UNSEEN_TOOLS", 0)
    async with Client(office) as client:
        await found(client, "mail")
        office.disable(names={"add", "book_room"})
        for number in range(3):
            office.add_tool(Tool.from_function(lambda: 1, name=f"t{number}", description="T."))
        office.disable(names={"t0", "t1", "t2"})
        assert names(await found(client, "mail")) == ["send_mail"]

    assert len(transform._index._kept_ids) == 2


async def test_a_tool_that_cannot_be_read_is_passed_over(office):
    office.add_tool(Tool.from_function(lambda: 1, name="odd", description="x" * 300_000))
    async with Client(office) as client:
        assert "odd" not in names(await found(client, "odd", k=9))
        called = await call(client, "odd")

    assert called.content[0].text == "1"


async def test_it_is_one_search_for_fastmcps_own_callers_too(transform):
    tools = [
        Tool.from_function(lambda: 1, name="send_mail", description="Send a mail to somebody."),
        Tool.from_function(lambda: 1, name="book_room", description="Book a meeting room."),
    ]

    ranked = await transform._search(tools, "book a room")

    assert [tool.name for tool in ranked] == ["book_room", "send_mail"]
