"""Feedback: what would have been right, and that it is kept."""

from __future__ import annotations

from playwright.sync_api import expect


def send(page, service):
    """Send feedback, and return what the service keeps of it."""
    page.get_by_role("button", name="Send feedback").click()
    expect(page.locator(".landed")).to_contain_text("Recorded. The service now keeps 1 remark")
    decision = page.locator(".part", has_text="JSON").locator("code").first.inner_text()
    with service.client() as client:
        [said] = client.get(f"/v1/decisions/{decision}").json()["feedback"]
    return {name: value for name, value in said.items() if name not in {"kind", "decision", "at"}}


def test_marks_become_feedback_that_lands_in_the_store(asked, service):
    page = asked("the customer of order 8812 wants her money back")
    page.get_by_role("button", name="route: right").click()
    page.get_by_role("button", name="payments/refundPayment: right").click()
    page.get_by_role("button", name="desk/ask_user: wrong").click()
    to_send = page.get_by_role("list", name="What will be sent")
    expect(to_send).to_contain_text("right tools: payments/refundPayment")
    assert send(page, service) == {"route": "tools", "tools": ["payments/refundPayment"]}


def test_a_missing_tool_is_searched_and_added(asked, service):
    page = asked("How long is our stand-up?")
    page.get_by_role("combobox", name="This tool was missing").fill("send a mail later")
    options = page.get_by_role("listbox", name="Tools found").get_by_role("option")
    expect(options.first).to_contain_text("mailbox/")
    chosen = options.nth(1).locator("b").inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("list", name="Missing tools")).to_contain_text(chosen)
    assert send(page, service) == {"tools": [chosen]}


def test_a_wrong_route_asks_which_one_is_right(asked, service):
    page = asked("list all orders")
    page.get_by_role("button", name="route: wrong").click()
    page.get_by_label("Which would have been right?").select_option("both")
    assert send(page, service) == {"route": "both"}


def test_a_passage_counts_for_its_collection(asked, service):
    page = asked("How long is our sprint?")
    page.locator(".passage").first.get_by_role("button", name="wrong").click()
    assert send(page, service) == {"collections": []}


def test_labels_outcome_and_a_note_can_be_given(asked, service):
    page = asked("write to Ana")
    page.get_by_text("Intent, domain, outcome, note").click()
    page.get_by_label("Right intent").fill("none")
    page.get_by_label("Right domain").fill("product")
    page.get_by_label("What became of it").select_option("failure")
    page.get_by_label("Note").fill("took the wrong Ana")
    said = {"intent": "", "domain": "product", "outcome": "failure", "note": "took the wrong Ana"}
    assert send(page, service) == said


def test_the_same_mark_twice_takes_it_away_and_nothing_cannot_be_sent(asked):
    page = asked("list all orders")
    mark = page.get_by_role("button", name="shop/listOrders: right")
    mark.click()
    expect(mark).to_have_attribute("aria-pressed", "true")
    mark.click()
    expect(mark).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_role("button", name="Send feedback")).to_be_disabled()


def test_feedback_that_does_not_land_is_not_called_recorded(asked):
    page = asked("list all orders")
    page.route("**/v1/feedback", lambda route: route.abort())
    mark = page.get_by_role("button", name="route: right")
    mark.click()
    page.get_by_role("button", name="Send feedback").click()
    expect(page.locator(".trouble-title")).to_have_text("The service cannot be reached")
    expect(page.locator(".landed")).to_have_count(0)
    expect(mark).to_have_attribute("aria-pressed", "true")
