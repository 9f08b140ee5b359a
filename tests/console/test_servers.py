"""Servers of a gateway in the console: only by a setting, for a key with the access admin."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.console.conftest import press, serving


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"post": {"command": "post-server"}}}))
    return path


@pytest.fixture
def beside(config):
    """A service that may change the servers of a gateway."""
    with serving(service={"gateway_config": str(config)}) as started:
        yield started


@pytest.fixture
def open_page(browse, beside):
    key = beside.key("Boss", access="admin", namespaces=("*",))
    return lambda **how: browse("#/servers", key=key, at=beside, **how)


def entries(config):
    return json.loads(config.read_text())["mcpServers"]


def test_servers_are_added_by_keys_alone_and_no_secret_is_kept(open_page, config):
    page = open_page()
    expect(page.get_by_text("starts the command of a server on its machine")).to_be_visible()
    page.get_by_role("button", name="Add servers").press("Enter")
    page.get_by_role("textbox", name="An mcp.json, or a server.json").focus()
    issues = {"command": "npx", "args": ["issues"], "env": {"API_TOKEN": "f81d4fae7dec"}}
    page.keyboard.insert_text(json.dumps({"mcpServers": {"issues": issues}}))
    press(page, "Tab", "Tab", "Enter")
    dialog = page.get_by_role("dialog", name="Servers")
    expect(dialog).to_contain_text("API_TOKEN is to be set for the gateway (issues: env.API_TOKEN)")
    page.keyboard.press("Escape")
    entry = page.get_by_role("listitem").filter(has_text="issues")
    expect(entry).to_contain_text("npx; needs API_TOKEN")
    assert entries(config)["issues"] == {**issues, "env": {"API_TOKEN": "${API_TOKEN}"}}


def test_a_file_is_read_by_the_browser(open_page, config, tmp_path):
    file = tmp_path / "server.json"
    package = {"registryType": "pypi", "identifier": "mail-mcp", "version": "1.2.0"}
    file.write_text(json.dumps({"name": "io.example/mail", "packages": [package]}))
    page = open_page()
    page.get_by_role("button", name="Add servers").click()
    page.get_by_label("or from a file").set_input_files(file)
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("Added: io.example/mail")
    assert entries(config)["io.example/mail"]["args"] == ["mail-mcp@1.2.0"]


def test_a_server_is_switched_off_and_removed(open_page, config):
    page = open_page()
    page.get_by_role("button", name="Switch off post").click()
    expect(page.locator(".entry .tag")).to_have_text("off")
    assert entries(config)["post"]["disabled"] is True
    page.get_by_role("button", name="Switch on post").click()
    expect(page.locator(".entry .tag")).to_have_count(0)
    page.get_by_role("button", name="Remove post").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.locator(".entry")).to_have_count(0)
    assert entries(config) == {}


def test_what_is_no_file_of_servers_is_said(open_page, config):
    page = open_page()
    page.get_by_role("button", name="Add servers").click()
    for text, said in (("rm -rf /", "This is no JSON"), ('{"tools": []}', "names no MCP servers")):
        page.get_by_role("textbox", name="An mcp.json, or a server.json").fill(text)
        page.get_by_role("button", name="Add", exact=True).click()
        expect(page.locator("dialog .trouble")).to_contain_text(said)
    assert set(entries(config)) == {"post"}


def test_without_the_setting_the_page_says_what_to_set_and_why(browse):
    with serving() as alone:
        key = alone.key(access="admin", namespaces=("*",))
        page = browse("#/servers", key=key, at=alone)
        expect(page.locator(".calm")).to_be_visible()
    expect(page.locator(".calm")).to_contain_text("service.gateway_config")
    expect(page.locator(".calm")).to_contain_text("start programs")
    expect(page.get_by_role("button", name="Add servers")).to_have_count(0)
