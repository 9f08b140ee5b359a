"""Overview: figures of the servers, and the calls that agents reported."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from toolcrib import ToolSpec


@pytest.fixture
def place(service):
    """A namespace with one success and one failure of its own two servers."""
    name = service.namespace()
    crib = service.namespaces.crib(name)
    crib.index_tools([ToolSpec(name=f"send_{server}", server=server) for server in ("mail", "fax")])
    decided = crib.route("send a mail").id
    crib.report_outcome(decided, "mail/send_mail", "success", took_ms=12)
    crib.report_outcome(decided, "fax/send_fax", "failure")
    return f"#/overview?ns={name}"


def test_each_server_has_its_tools_and_calls(browse, place):
    page = browse(place)
    expect(page.get_by_role("row", name="fax").locator("td")).to_have_text(["1", "0", "1", "1"])
    expect(page.get_by_role("row", name="mail").locator("td")).to_have_text(["1", "0", "1", "0"])


def test_calls_are_listed_and_opened_by_keys_alone(browse, place):
    page = browse(place)
    expect(page.locator(".record-route")).to_have_text(["failure", "success"])
    expect(page.locator(".record-what")).to_have_text(["fax/send_fax", "mail/send_mail"])
    page.get_by_role("link", name="mail", exact=True).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/decisions.*decision="))
