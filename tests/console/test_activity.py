"""Activity: the calls of a gateway, and the gateway's servers in the overview."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.console.conftest import serving
from toolcrib import ToolSpec, build
from toolcrib.access.activity import ActivityLog
from toolcrib.records.log import GatewayCall, GatewayServer
from toolcrib.settings import Settings


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A service that shows a gateway with two servers and two calls."""
    store = str(tmp_path_factory.mktemp("gateway"))
    db = build.open_records_db(store, Settings())
    log = ActivityLog(db)
    post = GatewayServer("post", "up", tools=2)
    log.write_state([post, GatewayServer("fax", "down", "it died", tools=1, held=1)])
    listing, echo = ("", "claude 1.0", "", "tools/list"), ("", "claude 1.0", "post", "post/echo")
    log.record(GatewayCall(*listing, "success", 0, saved={"post": 900}, kind="list"))
    log.record(GatewayCall(*echo, "success", 12.0, tokens=7))
    text = '{"to": "<b>Ana</b>"}'
    log.record(GatewayCall("", "codex 2", "fax", "fax/send", "failure", 3.0, arguments=text))
    log._queue.flush()
    with serving(service={"gateway": store}) as started:
        started.namespaces.crib().turns.warm_up()
        yield started
    log.close()
    db.close()


def test_calls_are_listed_newest_first_and_arguments_shown_as_text(browse, watched):
    page = browse("#/activity", at=watched)
    calls = page.get_by_role("list", name="Calls, newest first").get_by_role("listitem")
    expect(page.locator(".record-route")).to_have_text(["failure", "success"])
    expect(page.locator(".record-what").nth(1)).to_have_text("post/echo claude 1.0")
    expect(calls.nth(1)).to_contain_text("7\u00a0tokens")
    page.get_by_text("arguments", exact=True).click()
    expect(page.locator("details code")).to_have_text('{"to": "<b>Ana</b>"}')


def test_the_overview_has_the_gateways_servers(browse, watched):
    page = browse("#/overview", at=watched)
    fax = page.get_by_role("row", name="fax").locator("td")
    expect(fax).to_have_text(["1", "1", "1", "1", "0"])
    expect(page.get_by_role("rowheader", name="fax")).to_have_text("fax down it died")
    post = page.get_by_role("row", name="post").locator("td")
    expect(post).to_have_text(["2", "0", "1", "0", "900"])


def test_of_a_server_that_the_index_has_too_both_numbers_are_shown(browse, watched):
    watched.namespaces.crib().index_tools([ToolSpec(name="send", server="fax")])
    page = browse("#/overview", at=watched)
    fax = page.get_by_role("row", name="fax").locator("td")
    expect(fax).to_have_text(["1", "0 gateway\u00a01", "1", "1", "0"])


def test_without_a_gateway_the_page_says_what_to_set(browse):
    page = browse("#/activity")
    expect(page.locator(".calm")).to_contain_text("service.gateway names its store; keys")
