"""The wire of `toolcrib gateway` in the handshake era, line by line, as any client reads it."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.fork_server import ForkedProcess
from tests.gateway.conftest import ECHO, Behind
from tests.gateway.test_command import HELLO, forked

PROGRESS = {"name": "progress", "does": "progress"}
NOISE = {"name": "noise", "does": "noise"}
TOKENS = ["of mine", 0, 7]


class Wire:
    """A gateway that is written to and read from by hand, in the protocol of 2025."""

    def __init__(self, process: ForkedProcess) -> None:
        self._process = process
        self._asked = 100
        self.hello = self._read(HELLO)[0]["result"]
        self._write({"method": "notifications/initialized"})

    def request(self, method: str, **params: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The answer to a request, and the notifications that came before it."""
        # Others than the gateway itself asks its servers with.
        self._asked += 1
        return self._read({"id": self._asked, "method": method, "params": params})

    def call(self, name: str, token: Any = None, /, **arguments: Any) -> Any:
        """The result of a call, and what was told of its progress or anything else."""
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        answer, told = self.request("tools/call", name=name, arguments=arguments, **meta)
        ours = "notifications/message", "notifications/tools/list_changed"
        return answer["result"], [each for each in told if each["method"] not in ours]

    def said(self, name: str, /, **arguments: Any) -> str:
        return self.call(name, **arguments)[0]["content"][0]["text"]

    def _write(self, message: dict[str, Any]) -> None:
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def _read(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        self._write(request)
        told: list[dict[str, Any]] = []
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == request["id"]:
                return message, told
            told.append(message)
        raise AssertionError("the gateway has ended")


@contextmanager
def wired(behind: Behind, servers: dict[str, Any], *options: str, **env: str) -> Generator[Wire]:
    behind.config(**servers)
    with forked(behind, "--store", str(behind.store), *options, **env) as process:
        yield Wire(process)
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.fixture(scope="module")
def wire(tmp_path_factory):
    """A gateway that shows a search, in front of a server of either era."""
    behind = Behind(tmp_path_factory.mktemp("wire"))
    tools = (ECHO, PROGRESS, NOISE)
    servers = {
        "old": [*tools],
        "new": behind.entry("new", *tools, options=("--modern",)),
    }
    with wired(behind, servers) as made:
        yield made


def progress_of(told: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    assert {each["method"] for each in told} <= {"notifications/progress"}
    return [(each["params"]["progressToken"], each["params"]["progress"]) for each in told]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("server", ["old", "new"])
@pytest.mark.parametrize("way", ["direct", "by call_tool"])
def test_progress_comes_once_under_the_token_of_the_clients_request(wire, server, way, token):
    name = f"{server}__progress"
    called = (name, token) if way == "direct" else ("call_tool", token)
    _, told = wire.call(*called, **({} if way == "direct" else {"name": name}))
    assert progress_of(told) == [(token, 1.0), (token, 2.0)]


@pytest.mark.parametrize("server", ["old", "new"])
def test_what_is_between_the_gateway_and_a_server_stays_there(wire, server):
    assert progress_of(wire.call(f"{server}__noise", "mine")[1]) == [("mine", 1.0)]
    assert wire.call(f"{server}__noise")[1] == []


# -- calls by way of the search --------------------------------------------------------------------


def test_what_the_search_takes_is_plain(wire):
    tools = {each["name"]: each for each in wire.request("tools/list")[0]["result"]["tools"]}
    for tool in tools.values():
        for taken in tool["inputSchema"]["properties"].values():
            assert isinstance(taken["type"], str)
            assert "anyOf" not in taken
    arguments = tools["call_tool"]["inputSchema"]["properties"]["arguments"]
    assert (arguments["type"], arguments["additionalProperties"]) == ("object", True)


ADA = {"to": "Ada", "times": [1, 2]}


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        ({"arguments": ADA}, ADA),
        ({"arguments": json.dumps(ADA)}, ADA),
        ({"arguments": json.dumps(json.dumps(ADA))}, ADA),
        (ADA, ADA),
        ({**ADA, "arguments": None}, ADA),
        ({**ADA, "arguments": {}}, ADA),
        ({**ADA, "arguments": ""}, ADA),
        ({"to": "Ada", "arguments": {"times": [1, 2]}}, ADA),
        ({}, {}),
        ({"arguments": None}, {}),
        ({"arguments": " "}, {}),
    ],
)
def test_arguments_are_understood_as_models_write_them(wire, given, understood):
    result, _ = wire.call("call_tool", name="old__echo", **given)
    assert result["structuredContent"] == {"given": understood}


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("call_tool", {}, "the call: 'name' is missing (text)"),
        ("call_tool", {"tool": "old__echo"}, "the call: 'name' is missing (text)"),
        ("call_tool", {"name": 7}, "name: must be text, not a number 7"),
        ("call_tool", {"name": "old__echo", "arguments": [1]}, "must be an object, not a list"),
        ("call_tool", {"name": "old__echo", "arguments": "{to: Ada}"}, "not valid JSON"),
        ("call_tool", {"name": "old__echo", "arguments": "[" * 9000}, "not valid JSON"),
        ("call_tool", {"name": "old__echo", "arguments": "7"}, "must be an object, not"),
        ("find_tools", {}, "the call: 'query' is missing (text)"),
        ("find_tools", {"query": ["echo"]}, "query: must be text, not a list"),
        ("find_tools", {"query": "echo", "k": "many"}, "k: must be a whole number, not text"),
        ("find_tools", {"query": "echo", "k": 0}, "k: 0 is less than the minimum of 1"),
        ("find_tools", {"query": "echo", "k": "4000"}, "k: 4000 is greater than the maximum of 50"),
        ("find_tools", {"query": "echo", "limit": 3}, "there is no property 'limit'"),
    ],
)
def test_a_mistake_in_the_call_of_the_search_is_told_in_words(wire, tool, given, said):
    result, _ = wire.call(tool, **given)
    text = result["content"][0]["text"]
    assert result["isError"]
    assert said in text
    assert "It takes: " in text
    assert "pydantic" not in text
    assert "http" not in text


@pytest.mark.parametrize("k", [None, 1, "1", 1.0])
def test_how_many_is_meant_as_well_as_it_can_be(wire, k):
    found = wire.call("find_tools", query="repeat what is said", k=k)[0]["structuredContent"]
    assert found["tools"][0]["name"].endswith("_echo")


# -- what is announced -----------------------------------------------------------------------------


@pytest.mark.slow
def test_only_what_is_served_is_announced(wire):
    changing = {kind: {"listChanged": True} for kind in ("tools", "prompts", "resources")}
    listing = {"toolcrib/tools-list": {"query": True, "filter": ["namePatterns"]}}
    assert wire.hello["capabilities"] == {**changing, "logging": {}, "experimental": listing}
    assert wire.hello["serverInfo"]["name"] == "toolcrib"
    assert "call find_tools" in wire.hello["instructions"]


# -- a list by a query or a filter -----------------------------------------------------------------


def listed(wire: Wire, **params: Any) -> tuple[list[str], dict[str, Any]]:
    """Names of the listed tools, and what the answer says of them."""
    result = wire.request("tools/list", **params)[0]["result"]
    return [tool["name"] for tool in result["tools"]], result.get("_meta", {})


def test_a_list_with_a_query_has_the_best_tools_and_how_sure_they_are(wire):
    result = wire.request("tools/list", query="repeat what is said")[0]["result"]
    first, *others = result["tools"]
    assert first["name"].endswith("_echo")
    assert "inputSchema" in first
    scores = [tool["_meta"]["toolcrib/score"] for tool in (first, *others)]
    assert scores == sorted(scores, reverse=True)
    assert result["_meta"]["toolcrib/verdict"] in {"accept", "abstain"}
    assert wire.call(first["name"], to="Ada")[0]["structuredContent"] == {"given": {"to": "Ada"}}


def test_a_list_with_a_filter_has_the_tools_of_its_patterns(wire):
    names, meta = listed(wire, filter={"namePatterns": ["old__*", "new__ech?"]})
    assert (names, meta) == (["new__echo", "old__echo", "old__noise", "old__progress"], {})
    both = listed(wire, query="repeat what is said", filter={"namePatterns": ["new__*"]})[0]
    assert both[0] == "new__echo"
    assert all(name.startswith("new__") for name in both)


@pytest.mark.parametrize(
    "params",
    [
        {"filter": {"tags": ["a"]}},
        {"filter": {"namePatterns": ["[" * 201]}},
        {"query": " "},
        {"query": 7},
    ],
)
def test_a_list_by_what_it_does_not_take_is_an_error(wire, params):
    assert wire.request("tools/list", **params)[0]["error"]["code"] == -32602
