"""Keys in the console: listed, made and shown once, revoked; for a key with the access admin."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.console.conftest import fill_by_keys, press, serving
from toolcrib.errors import UnauthenticatedError


@pytest.fixture(scope="module")
def kept():
    """A service of the module's own: its keys are all that there are."""
    with serving() as started:
        yield started


@pytest.fixture
def admin(kept):
    return kept.key("Boss", access="admin", namespaces=("*",))


def test_a_key_is_made_by_keys_alone_and_shown_once(browse, kept, admin):
    page = browse("#/keys", key=admin, at=kept)
    page.get_by_role("button", name="Make a key").press("Enter")
    dialog = page.get_by_role("dialog", name="Make a key")
    dialog.get_by_label("Whose it is").focus()
    fill_by_keys(page, "agents", "acme, bolt", "mail")
    dialog.get_by_label("Rate").focus()
    fill_by_keys(page, "5/second", "30", "writing")
    dialog.get_by_label("Access").focus()
    fill_by_keys(page, "read and")
    press(page, "Tab", "Enter")
    text = page.get_by_role("dialog", name="The new key").locator("code").inner_text()
    grant = kept.keys.verify(text).grant
    assert (grant.access, grant.namespaces, grant.servers) == ("write", ("acme", "bolt"), {"mail"})
    assert (grant.rate, grant.profile, grant.max_sensitivity) == ("5/second", "writing", None)
    expect(page.locator("[aria-live]")).to_have_text("key made")
    page.keyboard.press("Escape")
    row = page.get_by_role("listitem").filter(has_text="agents")
    expect(row).to_contain_text("servers only: mail; rate: 5/second; profile: writing")
    expect(page.get_by_role("button", name="Make a key")).to_be_focused()
    expect(page.get_by_text(text)).to_have_count(0)
    assert text not in page.content()


def test_what_cannot_be_meant_is_said_and_can_be_mended(browse, kept, admin):
    page = browse("#/keys", key=admin, at=kept)
    page.get_by_role("button", name="Make a key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Whose it is").fill("x")
    dialog.get_by_label("Rate").fill("5/day")
    dialog.get_by_role("button", name="Make it").click()
    trouble = dialog.locator(".trouble")
    expect(trouble).to_contain_text("rate")
    assert trouble.inner_text().count("should match") == 1
    expect(dialog.get_by_label("Whose it is")).to_have_value("x")
    dialog.get_by_label("Rate").fill("")
    dialog.get_by_role("button", name="Make it").click()
    expect(page.get_by_role("dialog", name="The new key")).to_be_visible()


def test_a_double_click_makes_one_key_that_ends_when_the_field_says(browse, kept, admin):
    page = browse("#/keys", key=admin, at=kept)
    bodies: list[str | None] = []
    page.on("request", lambda each: bodies.append(each.post_data) if each.post_data else None)
    page.get_by_role("button", name="Make a key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Whose it is").fill("twin")
    dialog.get_by_label("Expires after days").press_sequentially("30 days")
    dialog.get_by_role("button", name="Make it").dblclick()
    expect(page.get_by_role("dialog", name="The new key")).to_be_visible()
    assert bodies == ['{"name":"twin","grant":{},"expires_days":30}']


def test_a_key_is_revoked_after_a_question(browse, kept, admin):
    text = kept.key("leaver <b>")
    page = browse("#/keys?state=active", key=admin, at=kept)
    page.get_by_role("button", name="Revoke leaver <b>").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    dialog.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("listitem").filter(has_text="leaver")).to_have_count(0)
    page.get_by_label("State").select_option("revoked")
    expect(page.get_by_role("listitem").filter(has_text="leaver")).to_be_visible()
    assert "state=revoked" in page.url
    with pytest.raises(UnauthenticatedError, match="revoked"):
        kept.keys.verify(text)
