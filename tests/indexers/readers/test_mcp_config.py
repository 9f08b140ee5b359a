"""What an mcp.json means: each way to write a server, and each way to write it wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.indexers.readers.conformance import write
from toolcrib.errors import SourceError
from toolcrib.indexers.readers.base import Source
from toolcrib.indexers.readers.mcp_config import (
    Expander,
    HttpTarget,
    ServerEntry,
    StdioTarget,
    ToolFilter,
    find_servers,
    server_entries,
    without_comments,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("raw", "target"),
    [
        ({"command": "npx"}, StdioTarget("npx")),
        (
            {
                "type": "stdio",
                "command": "${BIN}/server",
                "args": ["--port", 8080, True, "${BIN}"],
                "env": {"TOKEN": "${TOKEN:-none}", "DEBUG": False, "UNSET": None},
                "cwd": "${BIN}",
                "disabled": False,
                "alwaysAllow": ["read"],
            },
            StdioTarget(
                "/bin/server",
                ("--port", "8080", "true", "/bin"),
                {"TOKEN": "none", "DEBUG": "false"},
                "/bin",
            ),
        ),
        ({"url": "https://a/mcp"}, HttpTarget("https://a/mcp")),
        ({"serverUrl": "https://a/mcp"}, HttpTarget("https://a/mcp")),
        ({"httpUrl": "https://a/mcp", "url": "https://a/sse"}, HttpTarget("https://a/mcp")),
        (
            {"url": "https://a/mcp", "requestOptions": {"headers": {"X": "$BIN"}}},
            HttpTarget("https://a/mcp", {"X": "/bin"}),
        ),
        ({"type": "http", "url": "https://a/mcp"}, HttpTarget("https://a/mcp", sse=False)),
        (
            {"type": "streamable-http", "url": "https://a${BIN}", "headers": {"X": "${BIN}"}},
            HttpTarget("https://a/bin", {"X": "/bin"}, sse=False),
        ),
        ({"type": "sse", "url": "https://a/sse"}, HttpTarget("https://a/sse", sse=True)),
        ({"isActive": True, "baseUrl": "https://a/mcp"}, HttpTarget("https://a/mcp")),
    ],
)
def test_every_way_to_write_a_server(raw, target):
    assert list(server_entries({"it": raw}, {"BIN": "/bin"})) == [ServerEntry("it", target)]


NOT_SET = "needs the environment variable 'TOKEN', which is not set; set it, or write "
NOT_KNOWN = ", which only editors know; write its value"
WRONG: list[tuple[Any, str]] = [
    ({}, "has neither 'command' nor 'url'; add one"),
    ({"type": "stdio", "url": "x"}, "is of type stdio but has no 'command'; add one"),
    ({"type": "http", "command": "x"}, "is of type http but has no 'url'; add one"),
    ({"type": "ws", "url": "ws://a"}, "'type' is 'ws'; use stdio, http, streamable-http or sse"),
    ({"command": "x", "envFile": ".env"}, "'envFile' is not read; put its variables under 'env'"),
    ({"command": ["x", "y"]}, "'command' must be text"),
    (
        {"command": "x", "args": [[]], "env": {"A": {}, "B": []}},
        "'args' must be a list of texts; 'env' must be an object of texts",
    ),
    ({"url": "https://a", "headers": "y"}, "'headers' must be an object of texts"),
    ({"url": "https://a", "headers": {"X=s3cret": ""}}, "a name under 'headers' has other char"),
    ({"command": "x", "disabled": "perhaps"}, "'disabled' must be true or false"),
    ({"command": "x", "disabled": True, "enabled": []}, "'enabled' must be true or false"),
    ({"command": "x", "excludeTools": "a"}, "'excludeTools' must be a list of names, not text"),
    ({"command": "x", "tools": {"a": {}}}, "'tools' must be a list of names, not an object"),
    (
        {"url": "https://a", "enabled_tools": [1]},
        "'enabled_tools' must be a list of names, not a l",
    ),
    ({"command": "x", "tools": [{"name": "a"}]}, "'tools' must be a list of names, not a list of"),
    ({"command": "x", "exclude_tags": ["a"]}, "'exclude_tags' is not supported"),
    ("npx server", "must be an object, not text"),
    (
        {"command": "x", "args": ["${TOKEN}", "${TOKEN}"], "env": {"B": "${TOKEN}"}},
        "; ".join(
            f"{place} {NOT_SET}${{TOKEN:-default}}" for place in ("args[0]", "args[1]", "env.B")
        ),
    ),
]


@pytest.mark.parametrize(("raw", "problem"), WRONG)
def test_a_wrong_server_is_refused_by_name_and_the_next_is_read(raw, problem):
    [wrong, right] = server_entries({"wrong": raw, "right": {"command": "npx"}}, {})

    assert (wrong.name, wrong.target) == ("wrong", None)
    assert wrong.problem.startswith(problem)
    assert right == ServerEntry("right", StdioTarget("npx"))


def allowed(*names: str, **keys: Any) -> list[str]:
    """The names that an entry with these keys switches on."""
    [entry] = server_entries({"it": {"command": "npx", **keys}}, {})
    assert entry.target is not None, entry.problem
    return [name for name in names if entry.tools.allows(name)]


@pytest.mark.parametrize(
    "key",
    [
        *("includeTools", "include_tools", "allowedTools", "allowed_tools", "enabledTools"),
        *("enabled_tools", "available_tools", "tools"),
    ],
)
def test_only_what_a_host_includes_is_on(key):
    assert allowed("read", "write", **{key: ["read"]}) == ["read"]
    assert allowed("read", "write", **{key: ["*"]}) == ["read", "write"]
    assert allowed("read", "write", **{key: None}) == ["read", "write"]
    assert allowed("read", **{key: []}) == []


@pytest.mark.parametrize(
    "key", ["excludeTools", "exclude_tools", "disabledTools", "disabled_tools", "deniedTools"]
)
def test_what_a_host_excludes_is_off_though_it_is_included(key):
    assert allowed("read", "write", **{key: ["write"]}) == ["read"]
    assert allowed("read", "write", tools=["*"], **{key: ["w*"]}) == ["read"]
    assert allowed("read", "write", **{key: []}) == ["read", "write"]


def test_names_are_globs_and_may_have_arguments():
    names = ("get_user", "get_users", "a[1]", "drop")

    assert allowed(*names, includeTools=["get_*", "a[[]1]"]) == ["get_user", "get_users", "a[1]"]
    assert allowed(*names, includeTools=["a[1]"]) == ["a[1]"]
    assert allowed(*names, includeTools=["get_user(id)"]) == ["get_user"]
    assert allowed(*names, excludeTools=["drop(table)", "get_user?"]) == ["get_user", "a[1]"]


def test_of_several_lists_each_must_include_a_tool():
    keys = {"tools": ["*"], "includeTools": ["read", "write"], "excludeTools": ["write"]}

    assert allowed("read", "write", "drop", **keys) == ["read"]
    assert allowed("write", excludeTools=["read"], disabledTools=["write"]) == []


def test_a_key_that_may_be_meant_as_a_filter_is_a_warning():
    [entry] = server_entries({"it": {"command": "npx", "hideTools": ["a"], "tools": ["a"]}}, {})

    assert entry.target == StdioTarget("npx")
    assert entry.warnings == ("'hideTools' is not known; write 'includeTools' or 'excludeTools'",)


@pytest.mark.parametrize(("key", "meant"), [("arg", "args"), ("disable", "disabled")])
def test_a_key_that_is_nearly_one_of_ours_is_told(key, meant):
    others = {"transportType": "x", "autoApprove": "x"}
    [entry] = server_entries({"it": {"command": "npx", **others, key: "x"}}, {})

    [warning] = entry.warnings
    assert repr(meant) in warning


@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_a_file_that_names_a_server_twice_is_refused(tmp_path, key):
    entry = '"post": {"command": "%s"}, // mine\n'

    with pytest.raises(SourceError, match="the key 'post' comes again"):
        servers_in(tmp_path, f'{{"{key}": {{{entry % "a"}{entry % "b"}}}}}')


def test_patterns_that_fit_no_tool_are_found():
    tools = ToolFilter((("get_*", "raed"),), ("drop", "write"))

    assert tools.idle_patterns(["get_user", "write"]) == ["raed", "drop"]


@given(st.dictionaries(st.sampled_from(["tools", "excludeTools"]), JSON, min_size=1))
def test_a_filter_is_read_or_refused_and_never_passed_over(keys):
    [entry] = server_entries({"it": {"command": "npx", **keys}}, {})
    given_keys = [key for key, value in keys.items() if value is not None]

    if entry.target is None:
        assert any(repr(key) in entry.problem for key in given_keys)
    else:
        assert (entry.tools != ToolFilter()) == any(
            keys[key] or key == "tools" for key in given_keys
        )


@pytest.mark.parametrize(
    "off", [{"disabled": True}, {"enabled": False}, {"disabled": "true"}, {"isActive": False}]
)
def test_servers_that_are_switched_off_are_left_out(off):
    servers = {"off": {"args": 7, **off}, "on": {"command": "npx"}}

    assert [entry.name for entry in server_entries(servers, {})] == ["on"]


def test_secrets_are_not_in_the_repr():
    assert "s3cret" not in repr(StdioTarget("npx", env={"TOKEN": "s3cret"}))
    assert "s3cret" not in repr(HttpTarget("https://a", {"A": "s3cret"}))


def test_vs_code_writes_comments_and_trailing_commas(tmp_path):
    text = """
    // Servers of this workspace
    {
      "inputs": [],
      "servers": {
        "docs": { /* hosted */ "url": "https://a//mcp", "note": "a, } /* b */", },
      },
    }
    """

    docs = {"url": "https://a//mcp", "note": "a, } /* b */"}
    assert servers_in(tmp_path, text) == {"docs": docs}


@given(JSON)
def test_taking_comments_out_leaves_json_as_it_is(value):
    assert json.loads(without_comments(json.dumps(value))) == value
    assert json.loads(without_comments(json.dumps(value, indent=1, ensure_ascii=False))) == value


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"mcpServers": {}}, True),
        ({"mcpServers": {"a": 1}, "numStartups": 5}, True),
        ({"servers": {"a": {"command": "x"}}}, True),
        ({"servers": {"a": {"url": "x"}}}, True),
        ({"servers": {}, "inputs": []}, True),
        ({"mcp": {"servers": {"a": {"command": "x"}}}}, True),
        ({"mcp": {"a": {"type": "remote", "url": "https://a"}}}, True),
        ({"mcp": {"allowed": ["a"]}}, False),
        ({"inputs": []}, False),
        ({"servers": {"production": {"host": "x"}}}, False),
        ({"openapi": "3.1.0", "servers": [{"url": "https://a"}]}, False),
        ({"mcpServers": []}, False),
        ([], False),
        ("mcpServers", False),
    ],
)
def test_what_counts_as_a_list_of_servers(tmp_path, document, found):
    assert (servers_in(tmp_path, json.dumps(document)) is not None) is found


def test_servers_under_two_keys_are_all_found(tmp_path):
    document = {"mcpServers": {"a": {"command": "x"}}, "servers": {"b": {"url": "https://b"}}}

    assert list(servers_in(tmp_path, document) or {}) == ["b", "a"]


def test_open_code_writes_a_command_as_a_list_and_variables_in_braces(tmp_path):
    near = {
        "type": "local",
        "command": ["npx", "-y", "near"],
        "environment": {"KEY": "{env:KEY}", "OTHER": "${env:OTHER}"},
    }
    far = {"type": "remote", "url": "https://far", "headers": {"X": "{env:KEY}"}}
    found = servers_in(tmp_path, {"mcp": {"near": near, "far": far, "off": {"enabled": False}}})

    assert found is not None
    assert [each.target for each in server_entries(found, {"KEY": "k", "OTHER": "o"})] == [
        StdioTarget("npx", ("-y", "near"), {"KEY": "k", "OTHER": "o"}),
        HttpTarget("https://far", {"X": "k"}),
    ]


def test_codex_refuses_one_server_whose_variables_are_no_object(tmp_path):
    servers = {"wrong": {"command": "x", "env": "A", "env_vars": ["B"]}, "right": {"command": "x"}}
    found = servers_in(tmp_path, {"mcp_servers": servers})
    problems = [each.problem for each in server_entries(found or {}, {})]

    assert problems == ["'env' must be an object of texts", ""]


@pytest.mark.parametrize(
    ("tools", "is_usable"),
    [
        ({"read": {"approval_mode": "approve"}}, True),
        ({"read": {"approval_mode": "approve", "enabled": False}}, False),
        ({"read": False}, False),
    ],
)
def test_codex_writes_approvals_of_tools_into_an_entry(tmp_path, tools, is_usable):
    found = servers_in(tmp_path, {"mcp_servers": {"a": {"command": "x", "tools": tools}}})
    [entry] = server_entries(found or {}, {})

    assert (entry.problem == "") is is_usable


def test_continue_writes_secrets_in_double_braces_and_some_a_transport_as_an_object(tmp_path):
    near = {"command": "x", "env": {"KEY": "${{ secrets.KEY }}"}}
    far = {"transport": {"type": "http", "url": "https://far"}}
    found = servers_in(tmp_path, {"mcpServers": {"near": near, "far": far}})

    assert [each.target for each in server_entries(found or {}, {"KEY": "k"})] == [
        StdioTarget("x", env={"KEY": "k"}),
        HttpTarget("https://far", sse=False),
    ]


CONTINUE = [{"name": "a", "command": "x"}, {"name": "a", "url": "https://b"}, {"command": "y"}]


def test_continue_writes_servers_as_a_list(tmp_path):
    document = {"name": "mine", "version": "1", "schema": "v1", "mcpServers": CONTINUE}

    named = dict(zip(["a", "a-2", "server"], CONTINUE, strict=True))
    assert servers_in(tmp_path, document) == named


@pytest.mark.parametrize(
    ("lists", "on"),
    [
        ({"mcp": {"allowed": ["a", "b"], "excluded": ["b"]}}, ["a"]),
        ({"mcp": {"excluded": ["b"], "serverCommand": "x"}}, ["a", "c"]),
        ({"allowMCPServers": ["c"]}, ["c"]),
        ({"excludeMCPServers": ["a", "nobody"]}, ["b", "c"]),
        ({"disabledMcpServers": ["a"]}, ["b", "c"]),
        ({"mcp": {"allowed": []}}, []),
        ({"mcp": {"allowed": None}, "excludeMCPServers": None}, ["a", "b", "c"]),
    ],
)
def test_hosts_list_the_servers_that_are_on(tmp_path, lists, on):
    servers = {name: {"command": name} for name in "abc"}
    found = servers_in(tmp_path, {"mcpServers": servers, **lists})

    assert [entry.name for entry in server_entries(found or {}, {})] == on


def test_a_list_of_servers_that_is_none_is_never_passed_over(tmp_path):
    document = {"mcpServers": {"a": {"command": "x"}}, "mcp": {"excluded": {"a": True}}}

    with pytest.raises(SourceError, match="must be a list of servers, not an object") as caught:
        servers_in(tmp_path, document)
    assert caught.value.place == "mcp.excluded"


def package(kind: str = "npm", **more: Any) -> dict[str, Any]:
    """A package as an entry of the MCP registry has it."""
    stdio = {"transport": {"type": "stdio"}}
    return {"registryType": kind, "identifier": "weather", "version": "1.2", **stdio, **more}


REMOTE = {
    "type": "sse",
    "url": "https://{HOST}/sse",
    "headers": [
        {"name": "X-Key", "value": "Bearer {KEY}", "isSecret": True},
        {"name": "X-Unit", "isRequired": False},
    ],
}
VARIABLES = [{"name": "KEY", "isRequired": True}, {"name": "UNIT", "default": "m"}, {"name": "L"}]
WORDS = [
    {"type": "positional", "value": "serve"},
    {"type": "named", "name": "--key", "isRequired": True},
    {"type": "named", "name": "--log"},
    {"type": "named", "name": "--unit", "default": "m"},
]
INIT = [{"type": "positional", "value": "--init"}]
DOCKER = ("run", "-i", "--rm", "--init", "-e", "KEY", "weather:1.2")


@pytest.mark.parametrize(
    ("published", "target"),
    [
        ({"packages": [package()]}, StdioTarget("npx", ("-y", "weather@1.2"))),
        ({"packages": [package("pypi")]}, StdioTarget("uvx", ("weather@1.2",))),
        (
            {"packages": [package("mcpb"), package(environmentVariables=VARIABLES)]},
            StdioTarget("npx", ("-y", "weather@1.2"), {"KEY": "k", "UNIT": "m"}),
        ),
        (
            {"packages": [package(packageArguments=WORDS)]},
            StdioTarget("npx", ("-y", "weather@1.2", "serve", "--key", "k", "--unit", "m")),
        ),
        (
            {
                "packages": [
                    package("oci", environmentVariables=VARIABLES[:1], runtimeArguments=INIT)
                ]
            },
            StdioTarget("docker", DOCKER, {"KEY": "k"}),
        ),
        (
            {"packages": [package()], "remotes": [REMOTE]},
            HttpTarget("https://example.org/sse", {"X-Key": "Bearer k"}, sse=True),
        ),
    ],
)
def test_an_entry_of_the_registry_is_a_server(tmp_path, published, target):
    document = {"name": "io.example/weather", "description": "W", "version": "1.2", **published}
    found = servers_in(tmp_path, document) or {}
    [entry] = server_entries(found, {"KEY": "k", "HOST": "example.org"})

    assert entry == ServerEntry("io.example/weather", target)


def test_an_entry_of_the_registry_that_cannot_be_started_says_so(tmp_path):
    document = {"name": "io.example/weather", "packages": [package("mcpb")]}
    [entry] = server_entries(servers_in(tmp_path, document) or {}, {})

    assert (entry.target, entry.problem) == (None, "has neither 'command' nor 'url'; add one")


def test_a_file_that_is_broken_beyond_comments_says_where(tmp_path):
    with pytest.raises(SourceError, match=r"not valid JSON: .* at line 1 column 21"):
        servers_in(tmp_path, '{"mcpServers": {"a" 1}}')


def servers_in(folder: Path, content: Any) -> dict[str, Any] | None:
    return find_servers(Source.by_name(write(folder, "mcp.json", content)))


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
PLAIN = st.text().filter(lambda text: "${" not in text)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${HOST}", "example.org"),
        ("https://${HOST}:${PORT:-8080}/mcp", "https://example.org:8080/mcp"),
        ("${env:HOST}", "example.org"),
        ("${env:PORT:-1}", "1"),
        ("${HOST:-other}", "example.org"),
        ("${PORT:-}", ""),
        ("${PORT:-a:-b}", "a:-b"),
        ("${EMPTY:-default}", ""),
        ("Bearer $HOST", "Bearer example.org"),
        ("https://$HOST/mcp?x=$unset", "https://example.org/mcp?x=$unset"),
        ("pa$HOST stays, as do $$HOST and ${HOST", "pa$HOST stays, as do $$HOST and ${HOST"),
        ("echo ${HOST%.org} ${#HOST}", "echo ${HOST%.org} ${#HOST}"),
        ("${TRICKY}", "${HOST}"),
        ("${workspaceFolder}/server", "/project/server"),
    ],
)
def test_what_becomes_of_each_form(text, expanded):
    env = {"HOST": "example.org", "EMPTY": "", "TRICKY": "${HOST}", "workspaceFolder": "/project"}
    expander = Expander(env)

    assert expander.text("url", text) == expanded
    assert expander.problems == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Bearer ${TOKEN}", NOT_SET + "${TOKEN:-default}"),
        ("${env:TOKEN}", NOT_SET + "${TOKEN:-default}"),
        ("Bearer $TOKEN", NOT_SET + "${TOKEN:-default}"),
        ("${input:api-key}", "needs an interactive input (${input:api-key}), which only editors"),
        ("${workspaceFolder}/x", "uses ${workspaceFolder}" + NOT_KNOWN),
        ("${config:my.setting}", "uses ${config:my.setting}" + NOT_KNOWN),
        ("${A:-${B}}", "has one placeholder inside another; write the inner one out"),
    ],
)
def test_what_cannot_be_filled_in_is_named(text, problem):
    expander = Expander({})

    expander.text("headers.Authorization", text)

    [found] = expander.problems
    assert found.startswith(f"headers.Authorization {problem}")


@given(st.dictionaries(NAMES, st.text(), min_size=1), st.data())
def test_values_take_the_place_of_their_names_and_are_not_expanded_again(env, data):
    forms, names = (
        st.sampled_from(["${%s}", "${env:%s}", "${%s:-other}"]),
        st.sampled_from(sorted(env)),
    )
    pairs = data.draw(st.lists(st.tuples(forms, names)))
    expander = Expander(env)

    expanded = expander.text("url", "|".join(form % name for form, name in pairs))

    assert expanded == "|".join(env[name] for _, name in pairs)
    assert expander.problems == []
