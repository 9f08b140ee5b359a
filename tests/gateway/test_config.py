"""An mcp.json as editors and agents write it, and what it may say of its servers' tools."""

from __future__ import annotations

import json
import re

import pytest

from toolcrib.errors import SettingsError, SourceError
from toolcrib.gateway.config import McpFile
from toolcrib.indexers.readers.mcp_config import HttpTarget, Overlay, StdioTarget
from toolcrib.records import ToolSpec

LOCAL = {"command": "npx", "args": ["-y", "post"], "env": {"TOKEN": "${TOKEN}"}}
REMOTE = {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${KEY:-none}"}}


@pytest.fixture
def read(tmp_path):
    def read_it(document, only=(), **env):
        path = tmp_path / "mcp.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return McpFile(path, env, only).read()

    return read_it


@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_servers_are_read_as_editors_write_them(read, key):
    post, remote = read({key: {"post": LOCAL, "remote": REMOTE}}, TOKEN="t0p")

    assert post.name == "post"
    assert post.target == StdioTarget("npx", ("-y", "post"), {"TOKEN": "t0p"})
    assert remote.target == HttpTarget("https://example.com/mcp", {"Authorization": "Bearer none"})


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({}, "env.TOKEN needs the environment variable 'TOKEN'"),
        ({"excludeTools": 7}, "'excludeTools' must be a list of names"),
        ({"toolcrib": {"disable": ["x"]}}, "toolcrib.disable: unknown field"),
    ],
)
def test_a_server_that_cannot_be_used_keeps_no_other_from_being_used(read, keys, problem):
    post, remote = read({"mcpServers": {"post": {**LOCAL, **keys}, "remote": REMOTE}})

    assert post.target is None
    assert problem in post.problem
    assert remote.target is not None


def test_a_key_that_may_be_meant_as_a_filter_is_a_warning(read):
    [post] = read({"mcpServers": {"post": {**LOCAL, "hideTools": ["x"]}}}, TOKEN="t0p")

    assert post.target is not None
    assert post.warnings == ("'hideTools' is not known; write 'includeTools' or 'excludeTools'",)


def test_only_the_servers_asked_for_are_taken(read):
    servers = {"mcpServers": {"post": LOCAL, "remote": REMOTE}}

    assert [each.name for each in read(servers, only=("remote",))] == ["remote"]
    with pytest.raises(SettingsError, match=r"has no server 'pots'.*there are post, remote"):
        read(servers, only=("pots",))


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"mcpServers": {}}, "names no MCP servers"),
        ({"tools": []}, "names no MCP servers"),
        ('{"mcpServers": ', "line 1"),
        ({"mcpServers": {"off": {**LOCAL, "disabled": True}}}, "every server is switched off"),
    ],
)
def test_a_file_without_a_server_is_refused(read, tmp_path, document, reason):
    with pytest.raises(SourceError, match=reason) as caught:
        read(document)

    assert caught.value.source == str(tmp_path / "mcp.json")


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"args": []}, "neither 'command' nor 'url'"),
        ({"toolcrib": []}, "toolcrib: Input should be an object"),
        ({"toolcrib": {"sensitivity": "top"}}, r"toolcrib\.sensitivity: Input should be"),
        ({"toolcrib": {"disable": ["x"]}}, r"toolcrib\.disable: unknown field"),
        ({"toolcrib": {"disabled": "x"}}, r"toolcrib\.disabled: Input should be a list"),
        ({"disabledTools": "x"}, "'disabledTools' must be a list of names, not text"),
    ],
)
def test_an_unusable_entry_is_named_with_its_field(read, entry, reason):
    whole = entry if "args" in entry else {**REMOTE, **entry}
    (post,) = read({"mcpServers": {"post": whole}})
    assert post.target is None
    assert re.search(reason, post.problem)


def test_an_entry_switches_tools_off_in_a_hosts_words_and_in_ours(read):
    entry = {**REMOTE, "disabledTools": ["drop"], "toolcrib": {"disabled": ["wipe_*"]}}
    (remote,) = read({"mcpServers": {"remote": entry}})

    tools = [ToolSpec(name=name, server="remote") for name in ("drop", "wipe_all", "read")]
    assert [remote.as_offered(each).enabled for each in tools] == [False, False, True]


def test_what_a_file_says_of_tools_comes_to_what_they_say_of_themselves():
    spec = ToolSpec(name="read", server="files", description="Read.", tags=("disk",))
    overlay = Overlay(
        tags=("home", "disk"),
        sensitivity="pii",
        disabled=frozenset({"wipe"}),
        always_active=frozenset({"read"}),
    )

    offered = overlay.on(spec)

    assert offered.tags == ("disk", "home")
    assert (offered.sensitivity, offered.always_active, offered.enabled) == ("pii", True, True)
    assert not overlay.on(ToolSpec(name="wipe", server="files")).enabled
    assert Overlay().on(spec).digest == spec.digest
