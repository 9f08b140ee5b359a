"""Everything by keys alone."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.console.conftest import press


def focused(page) -> str:
    return page.evaluate("document.activeElement.textContent.trim().slice(0, 80)")


def test_the_first_stop_skips_to_the_content(browse):
    page = browse("#/registry")
    page.locator(".spec-line").first.wait_for()
    press(page, "Tab")
    assert focused(page) == "Skip to the content"
    expect(page.locator(".skip")).to_be_in_viewport()
    press(page, "Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_a_turn_is_asked_looked_through_judged_and_sent(browse):
    page = browse("#/registry")
    page.locator(".spec-line").first.wait_for()
    press(page, "1")
    expect(page.get_by_label("What does the user say?")).to_be_focused()
    page.keyboard.type("list all orders")
    press(page, "Enter")
    page.locator(".hit").first.wait_for()
    press(page, "ArrowDown")
    assert focused(page).startswith("–ask_user")
    press(page, "ArrowDown")
    assert focused(page).startswith("1listOrders")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert outline == "2px"
    press(page, "Enter")
    expect(page.locator(".hit-details")).to_be_visible()
    press(page, "Tab", "Space")
    mark = page.get_by_role("button", name="shop/listOrders: right")
    expect(mark).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Send feedback").focus()
    press(page, "Enter")
    expect(page.locator(".landed")).to_be_visible()
    expect(page.locator("[aria-live]")).to_have_text("Feedback recorded")


def test_results_are_walked_from_the_question_to_the_last_and_back(browse):
    page = browse("#/registry")
    page.locator(".spec-line").first.wait_for()
    press(page, "/")
    page.keyboard.type("order")
    expect(page.locator(".specs[aria-label='Tools found'] li")).to_have_count(30)
    press(page, "ArrowDown", "End")
    expect(page.locator(".spec-line").last).to_be_focused()
    press(page, "Home")
    expect(page.locator(".spec-line").first).to_be_focused()
    press(page, "ArrowUp")
    expect(page.get_by_label("Search the registry")).to_be_focused()
    press(page, "ArrowDown", "Enter")
    expect(page.locator(".description")).to_be_visible()
    press(page, "Escape")
    expect(page.locator(".spec-line").first).to_be_visible()


def test_escape_leaves_a_field_and_slash_comes_back_to_it(browse):
    page = browse("#/ask")
    field = page.get_by_label("What does the user say?")
    expect(field).to_be_focused()
    page.keyboard.type("half a thought / with a slash")
    press(page, "Escape")
    expect(field).not_to_be_focused()
    press(page, "/")
    expect(field).to_be_focused()
    expect(field).to_have_value("half a thought / with a slash")


def test_a_question_mark_shows_the_keys_which_can_be_switched_off_and_leave_the_browsers_alone(
    browse,
):
    page = browse("#/collections")
    page.locator(".collection").first.wait_for()
    press(page, "Control+2", "Alt+3", "Meta+4")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Collections")
    press(page, "?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("to the question or search of the view")
    keys.get_by_role("checkbox").uncheck()
    press(page, "Escape")
    expect(keys).to_have_count(0)
    press(page, "?", "2")
    expect(keys).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_contain_text("Collections")
    page.reload()
    page.locator(".collection").first.wait_for()
    press(page, "2")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Collections")
