"""Keys and namespaces: who is let in, what is kept of a key, and what is said to the others."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from toolcrib import ToolSpec


def kept(page):
    return page.evaluate("[sessionStorage['toolcrib.key'] ?? '', JSON.stringify(localStorage)]")


def test_without_a_key_the_page_asks_for_one_and_goes_on_with_it(browse, service):
    page = browse("#/registry", key=None)
    expect(page.get_by_role("heading", level=1)).to_have_text("This service wants a key")
    page.get_by_label("API key").fill(service.writer)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Registry")
    session, local = kept(page)
    assert session == service.writer
    assert service.writer not in local
    assert service.writer not in page.url


def test_a_key_that_does_not_hold_is_said_to(browse):
    page = browse(key=None)
    page.get_by_label("API key").fill("tc_000000000000_" + "0" * 64)
    page.get_by_role("button", name="Use it").click()
    expect(page.get_by_role("alert")).to_contain_text("The key does not hold.")
    expect(page.get_by_label("API key")).to_have_value("")


def test_a_key_that_is_revoked_meanwhile_ends_the_session(browse, service):
    made, text = service.keys.create("short-lived", service.keys.verify(service.writer).grant)
    page = browse("#/registry", key=text)
    page.locator(".spec-line").first.wait_for()
    service.keys.revoke(made.id)
    page.wait_for_timeout(2_100)
    page.get_by_role("link", name="Collections").click()
    expect(page.get_by_role("alert")).to_contain_text("The key does not hold.")


def test_a_key_can_be_forgotten(browse):
    page = browse()
    page.get_by_role("button", name="You are Ana").click()
    page.get_by_role("button", name="Forget the key").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("This service wants a key")
    assert kept(page)[0] == ""


def test_with_another_key_nothing_of_the_first_one_is_shown(browse, service):
    page = browse("#/registry")
    expect(page.locator("h1 small")).to_have_text("48 tools")
    page.get_by_role("button", name="You are Ana").click()
    page.get_by_label("API key").fill(service.key("Ben", servers=("desk",)))
    page.get_by_role("button", name="Use it").click()
    expect(page.get_by_role("button", name="You are Ben")).to_be_visible()
    expect(page.locator("h1 small")).to_have_text("7 tools")


def test_who_one_is_and_what_the_key_allows_is_told(browse, service):
    key = service.key("Ben", servers=("shop", "desk"), max_sensitivity="internal")
    page = browse(key=key)
    page.get_by_role("button", name="You are Ben").click()
    told = page.get_by_role("dialog")
    for fact in ("read only", "default", "desk, shop", "internal"):
        expect(told).to_contain_text(fact)
    page.keyboard.press("Escape")
    expect(told).to_have_count(0)
    expect(page.get_by_role("button", name="You are Ben")).to_be_focused()


def test_another_namespace_is_chosen_and_stands_in_the_address(browse, service):
    name = service.namespace()
    service.namespaces.crib(name).index_tools([ToolSpec(name="lone_tool")])
    key = service.key(namespaces=("default", name))
    page = browse("#/registry", key=key)
    page.get_by_role("button", name="You are Ana").click()
    page.get_by_role("combobox", name="Namespace").select_option(name)
    expect(page.locator(".spec-line b")).to_have_text(["lone_tool"])
    assert f"ns={name}" in page.url
    page.get_by_role("link", name="Decisions").click()
    assert f"ns={name}" in page.url


def test_the_head_names_the_namespace_and_counts_no_other(browse, service):
    name = service.namespace()
    page = browse(f"#/registry?ns={name}", key=service.key(namespaces=("default", name)))
    expect(page.locator(".pulse")).to_have_text("ready")
    expect(page.locator(".who small")).to_have_text(name)


@pytest.mark.parametrize(
    ("name", "spaces", "trouble"),
    [
        ("elsewhere", ("default",), "Not allowed to this key"),
        ("UPPER", ("*",), "The request cannot be answered as it is"),
    ],
)
def test_a_namespace_out_of_reach_is_said_to_be(browse, service, name, spaces, trouble):
    page = browse(f"#/registry?ns={name}", key=service.key(namespaces=spaces))
    expect(page.locator(".trouble-title")).to_have_text(trouble)
    page.get_by_role("button", name=f"Leave namespace {name}").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Registry")


@pytest.mark.parametrize("access", ["read", "write"])
@pytest.mark.parametrize(("view", "button"), [("Keys", "Make a key"), ("Servers", "Add servers")])
def test_what_is_for_admins_is_offered_to_no_other_key(browse, service, access, view, button):
    page = browse(f"#/{view.lower()}", key=service.key(access=access))
    expect(page.get_by_text("toolcrib keys create my-name --admin")).to_be_visible()
    expect(page.get_by_role("button", name=button)).to_have_count(0)
    expect(page.get_by_role("link", name=view, exact=True)).to_have_count(0)


@pytest.mark.parametrize(
    ("grant", "count"), [({"access": "read"}, 0), ({"servers": {"desk"}}, 0), ({}, 1)]
)
def test_learning_is_offered_to_a_key_that_may_see_it(browse, service, grant, count):
    page = browse("#/registry", key=service.key(**{"access": "write", **grant}))
    page.locator(".who").wait_for()
    expect(page.get_by_role("link", name="Learning", exact=True)).to_have_count(count)


def test_too_many_requests_are_said_with_the_time_to_wait(browse, service):
    page = browse("#/registry", key=service.key(rate="3/minute"))
    page.locator(".who").wait_for()
    for name in ("Collections", "Quarantine", "Registry", "Collections"):
        page.get_by_role("link", name=name).click()
        page.wait_for_timeout(50)
    expect(page.locator(".trouble-title").first).to_have_text("Too many requests of this key")
    expect(page.get_by_role("button", name="Try again in").first).to_be_disabled()
