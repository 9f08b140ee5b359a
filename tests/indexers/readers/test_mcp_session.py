"""What can go wrong with a live server, and what is kept then."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

from tests.indexers.readers.mcp_servers.launch import closed_port, over_http, target
from toolcrib.indexers.readers import mcp_session
from toolcrib.indexers.readers.mcp import McpLimits, list_tools, run_to_end
from toolcrib.indexers.readers.mcp_config import HttpTarget, StdioTarget, Target
from toolcrib.indexers.readers.mcp_session import SessionState

ENDED = "its process ended before it answered initialize; "

PATIENT = McpLimits(timeout_s=8.0)
"""For servers that never answer: long enough to start one on a busy machine."""


@pytest.fixture(scope="module")
def web_url() -> Generator[str]:
    """A web server that is no MCP server."""
    with over_http("web") as address:
        yield address


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (target("broken.py", "dies"), ENDED + "stderr ended with 'Error: API_TOKEN is required'"),
        (target("broken.py", "garbage"), ENDED + "among its answers was something that is not MCP"),
        (
            target("broken.py", "no_list"),
            "answered tools/list with something that is not MCP: tools",
        ),
        (
            target("broken.py", "no_tools"),
            "offers no tools: it answered tools/list with 'Method not",
        ),
        (target("broken.py", "old_version"), "failed at initialize: Unsupported protocol version"),
        (StdioTarget("/tmp"), "the command '/tmp' cannot be started: Permission denied"),
        (StdioTarget("a\0b"), "the command 'a\\x00b' cannot be started: embedded null byte"),
        (
            StdioTarget(sys.executable, cwd="/nowhere"),
            "its folder '/nowhere' cannot be entered: No",
        ),
    ],
    ids=lambda value: value.args[-1] if isinstance(value, StdioTarget) and value.args else "",
)
def test_what_can_go_wrong_with_a_process(server, reason):
    listing = _list(server)

    assert listing.failure.startswith(reason)
    assert listing.tools == []


@pytest.mark.parametrize("command", ["no-such-command", "no-such-command -y pkg"])
def test_arguments_in_a_command_are_told_their_place(command):
    failure = _list(StdioTarget(command)).failure

    assert failure.startswith(f"there is no command '{command}': install it")
    assert ("put its arguments under 'args'" in failure) == (" " in command)


OLDER = ', or give it "type": "sse"'
NO_ENDPOINT = "is no MCP endpoint: it answered initialize with HTTP"
MCP, SSE = (f"check the path, which often ends in /{end}" for end in ("mcp", "sse"))


@pytest.mark.parametrize(
    ("path", "sse", "reason"),
    [
        ("/html", False, f"{NO_ENDPOINT} 200 (text/html); {MCP}"),
        ("/html", True, f"{NO_ENDPOINT} 200 (text/html); {SSE}"),
        ("/nowhere", False, f"{NO_ENDPOINT} 404 (text/plain); {MCP}{OLDER}"),
        ("/nowhere", True, f"{NO_ENDPOINT} 404 (text/plain); {SSE}"),
        ("/nowhere", None, f"{NO_ENDPOINT} 404 (text/plain); {MCP} or /sse"),
        ("/get-only", False, f"{NO_ENDPOINT} 405 (text/html); {MCP}{OLDER}"),
        ("/json", False, f"{NO_ENDPOINT} 200 (application/json); {MCP}"),
        ("/down", False, "is out of order: it answered initialize with HTTP 502 (text/html); try "),
        (
            "/busy",
            False,
            "is out of order: it answered initialize with HTTP 429 (application/json)",
        ),
        ("/locked", False, 'asks for authorization (HTTP 401): put a token under "headers" of '),
        ("/moved", False, "answered initialize with the error 'Redirect to http://example.invalid"),
    ],
)
def test_what_can_go_wrong_with_a_web_server(web_url, path, sse, reason):
    listing = _list(HttpTarget(f"{web_url}{path}", sse=sse))

    assert (listing.server, listing.tools) == ("", [])
    assert listing.failure.startswith(reason)
    assert "s3cret" not in listing.failure


def test_a_token_that_is_refused_is_not_asked_for_again(web_url):
    failure = _list(HttpTarget(f"{web_url}/locked", {"authorization": "Bearer 0ld"})).failure

    assert "refuses the header Authorization of its entry (HTTP 401)" in failure
    assert "login" not in failure
    assert "0ld" not in failure


@pytest.mark.parametrize(
    ("path", "reason", "most"),
    [
        ("/huge", "more than 50,000 bytes", 50_000),
        ("/packed", "is compressed", 50_000),
        ("/cut", "the connection ended within the answer", 200_000),
    ],
)
def test_an_answer_that_is_too_large_or_cut_off_is_not_read(
    web_url, monkeypatch, path, reason, most
):
    monkeypatch.setattr(mcp_session, "MAX_ANSWER_BYTES", most)
    listing = _list(HttpTarget(f"{web_url}{path}"))

    assert (listing.server, listing.tools) == ("huge", [])
    assert listing.failure.startswith("answered tools/list with the error")
    assert reason in listing.failure


def test_an_error_of_the_server_itself_is_quoted(web_url):
    locked = HttpTarget(f"{web_url}/locked", {"Authorization": "Bearer s3cret"})

    assert "the error 'your plan has no tools' (code -32000)" in _list(locked).failure


@pytest.mark.parametrize("sse", [False, True])
def test_a_port_that_nothing_listens_on(sse):
    listing = _list(HttpTarget(f"http://127.0.0.1:{closed_port()}/mcp", sse=sse))

    assert listing.failure.startswith("cannot be reached: All connection attempts failed")


def test_a_url_that_is_none():
    assert _list(HttpTarget("http://[::1/mcp")).failure == "cannot be reached: Invalid port: ':1'"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "kept", "reason"),
    [
        (("--dies-at", "3"), 4, "its process ended before it answered tools/list (page 3); stderr"),
        (("--endless", "same"), 4, "lists tools without end: after page 2 it gave the cursor"),
        (("--endless", "fresh"), 40, "lists tools without end: after 20 pages it still names a"),
    ],
    ids=["dies", "same cursor", "fresh cursors"],
)
def test_what_came_before_a_failure_is_kept(words, kept, reason):
    # The pages come from the SDK's server, which takes its time to be imported.
    server = target("pages.py", *words)
    listing = run_to_end(lambda: list_tools(server, McpLimits(max_pages=20)))

    assert len(listing.tools) == kept
    assert listing.failure.startswith(reason)
    assert listing.failure.endswith(f"; tools kept from before that: {kept}")


@pytest.mark.slow
def test_what_came_before_a_failure_over_http_is_kept():
    with over_http("pages", "--dies-at", "2") as address:
        listing = _list(HttpTarget(f"{address}/mcp"))

    assert listing.failure.startswith(
        "its connection closed before it answered tools/list (page 2)"
    )
    assert [tool["name"] for tool in listing.tools] == ["tool_0", "tool_1"]


def test_half_a_character_costs_no_list():
    listing = _list(target("broken.py", "half_character"))

    assert listing.failure == ""
    assert [tool["description"] for tool in listing.tools] == ["Works ?"]


def _list(server: Target) -> SessionState:
    return run_to_end(lambda: list_tools(server, PATIENT))
