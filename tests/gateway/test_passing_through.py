"""Relay: answers, questions and notifications of a server reach the client unchanged.

`old` speaks the protocol's handshake era over stdio, `new` only the one since 2026, `web` speaks
over streamable HTTP; the client speaks one era or the other.
"""

from __future__ import annotations

import asyncio
import json

import pytest
import pytest_asyncio
from fastmcp.client.elicitation import ElicitResult
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.types import CreateMessageResult, TextContent

from tests.gateway.conftest import Behind, hanging, texts, until, web_server

DOING = (
    *("echo", "fail", "refuse", "babble", "huge", "elicit", "sample", "roots"),
    *("log", "progress", "hang", "tell", "count"),
)
TOOLS = [{"name": name, "does": name} for name in DOING]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def web():
    with web_server() as served:
        yield served


@pytest.fixture(scope="module")
def built(tmp_path_factory, web):
    behind = Behind(tmp_path_factory.mktemp("passing"))
    servers = {
        "old": [*TOOLS],
        "new": behind.entry("new", *TOOLS, options=("--modern",)),
        "web": {"url": web.url},
    }
    # All tests are one conversation, and it leads nowhere.
    return behind, behind.make(servers, guidance=False)


@pytest_asyncio.fixture(loop_scope="module", scope="module", autouse=True)
async def kept(built):
    """The gateway stays up from test to test."""
    behind, gateway = built
    async with behind.client(gateway):
        yield


@pytest_asyncio.fixture(loop_scope="module", params=["auto", "legacy"])
async def client(built, request):
    """A client that is asked, and takes down what it hears."""
    behind, gateway = built
    heard: dict[str, list] = {"log": [], "asked": []}

    async def elicited(message, response_type, params, context):
        if "fails" in heard:
            raise ValueError("no idea")
        heard["asked"].append(message)
        return ElicitResult(action="accept", content={"name": "Ada"})

    async def sampled(messages, params, context):
        heard["asked"].append(messages[0].content.text)
        heard["context"] = params.include_context
        said = TextContent(type="text", text="Hello")
        return CreateMessageResult(role="assistant", model="small", content=said)

    async def logged(entry):
        heard["log"].append(entry)

    async with behind.client(
        gateway,
        mode=request.param,
        elicitation_handler=elicited,
        sampling_handler=sampled,
        roots=["file:///work"],
        log_handler=logged,
    ) as client:
        client.heard = heard
        yield client


EVERYWHERE = pytest.mark.parametrize("server", ["old", "new", "web"])


@EVERYWHERE
@pytest.mark.parametrize("proxied", [True, False])
async def test_results_come_as_they_are(client, server, proxied):
    if proxied:
        call = {"name": f"{server}__echo", "arguments": {"said": "hi"}}
        result = await client.call_tool("call_tool", call)
    else:
        result = await client.call_tool(f"{server}__echo", {"said": "hi"})

    said = {"given": "hi"} if server == "web" else {"given": {"said": "hi"}}
    assert result.structured_content == said
    assert not result.is_error


@EVERYWHERE
async def test_errors_of_tools_come_as_they_are(client, server):
    result = await client.call_tool(f"{server}__fail", {}, raise_on_error=False)

    assert result.is_error
    assert texts(result) == ["no"]
    assert result.structured_content == {"code": 7}


@pytest.mark.parametrize("server", ["old", "new"])
@pytest.mark.parametrize(
    ("does", "told"),
    [
        ("refuse", "refuse failed: not today (code -32050)."),
        ("babble", "sent a reply that is not valid MCP"),
    ],
)
async def test_errors_of_the_protocol_are_told(client, server, does, told):
    result = await client.call_tool(f"{server}__{does}", {}, raise_on_error=False)

    assert result.is_error
    assert told in texts(result)[0]


@EVERYWHERE
async def test_results_of_many_megabytes_pass(client, server):
    result = await client.call_tool(f"{server}__huge", {"chars": 3_000_000})

    assert len(texts(result)[0]) == 3_000_000


@EVERYWHERE
@pytest.mark.parametrize("proxied", [True, False])
async def test_elicitation_reaches_the_user_and_roots_the_server(client, server, proxied):
    name = f"{server}__elicit"
    call = ("call_tool", {"name": name}) if proxied else (name, {})

    result = await client.call_tool(*call)

    assert client.heard["asked"] == ["Who?"]
    assert "Ada" in texts(result)[0]
    assert "file:///work" in texts(await client.call_tool(f"{server}__roots", {}))[0]


@EVERYWHERE
async def test_sampling_reaches_the_clients_model(client, server):
    result = await client.call_tool(f"{server}__sample", {})

    assert client.heard["asked"] == ["Hi"]
    assert "small" in texts(result)[0]
    assert "Hello" in texts(result)[0]
    if server != "web":
        tool = {"name": "look_up", "inputSchema": {"type": "object"}}
        with_tools = await client.call_tool(f"{server}__sample", {"tools": [tool]})
        assert "Hello" in texts(with_tools)[0]


@pytest.mark.parametrize("server", ["old", "new"])
async def test_sampling_takes_no_context_of_other_servers(client, server):
    await client.call_tool(f"{server}__sample", {"includeContext": "thisServer"})

    assert client.heard["context"] is None


@EVERYWHERE
@pytest.mark.parametrize("client", ["legacy"], indirect=True)
async def test_a_question_that_the_client_cannot_answer_is_told_to_the_server(client, server):
    client.heard["fails"] = True
    result = await client.call_tool(f"{server}__elicit", {}, raise_on_error=False)

    assert "no idea" in texts(result)[0]


@EVERYWHERE
async def test_progress_reaches_whoever_wants_to_know(client, server):
    told = []

    async def progress(done, total, message):
        told.append((done, total, message))

    await client.call_tool(f"{server}__progress", {}, progress_handler=progress)

    await until(lambda: len(told) == 2)
    assert told == [(1.0, 2.0, "going"), (2.0, 2.0, "going")]


@pytest.mark.parametrize("server", ["old", "new"])
async def test_a_server_is_asked_for_progress_only_where_the_client_wants_it(client, server):
    result = await client.session.call_tool(f"{server}__progress", {})

    assert json.loads(texts(result)[0]) == {"asked": False}


@EVERYWHERE
async def test_log_entries_reach_the_client_as_they_are(client, server):
    await client.call_tool(f"{server}__log", {})

    def entries():
        return [entry for entry in client.heard["log"] if entry.logger == "deep"]

    await until(lambda: len(entries()) == 2)
    assert [(entry.level, entry.data) for entry in entries()] == [
        ("debug", {"at": "debug"}),
        ("warning", {"at": "warning"}),
    ]


@pytest.mark.parametrize("client", ["legacy"], indirect=True)
async def test_a_client_hears_no_more_than_it_asked_for(client):
    with pytest.warns(MCPDeprecationWarning):
        await client.set_logging_level("warning")

    await client.call_tool("old__log", {})
    await until(lambda: any(entry.logger == "deep" for entry in client.heard["log"]))

    levels = [entry.level for entry in client.heard["log"] if entry.logger == "deep"]
    assert levels == ["warning"]


@EVERYWHERE
async def test_a_cancelled_call_is_cancelled_at_its_server(client, server):
    before = len(await cancelled(client, server))

    call = await hanging(client, f"{server}__hang")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    async def is_told():
        return len(await cancelled(client, server)) > before

    await until(is_told)


async def cancelled(client, server):
    return json.loads(texts(await client.call_tool(f"{server}__tell", {}))[0])["cancelled"]


async def test_calls_at_the_same_time_do_not_wait_for_each_other(client):
    call = await hanging(client, "old__hang")
    result = await client.call_tool("old__echo", {"said": "first"})

    assert json.loads(texts(result)[0]) == {"said": "first"}
    assert not call.done()
    call.cancel()


@pytest.mark.slow
async def test_a_server_is_told_no_more_than_it_may_know(client):
    result = await client.call_tool("old__tell", {}, meta={"acme/trace": "7"})
    told = json.loads(texts(result)[0])
    meta, env = told["meta"], told["env"]

    assert meta["acme/trace"] == "7"
    assert not any(key.startswith("io.modelcontextprotocol/") for key in meta)
    assert "PATH" in env
    assert not any(name.startswith(("PYTEST", "TOOLCRIB")) for name in env)
