"""Decisions, collections and reports: what was, what is written, what was measured."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

REPORT = """<!doctype html><html lang="en"><head><style>h1 { color: rgb(1, 2, 3) }</style>
<script>parent.document.title = "owned"</script></head>
<body><h1 style="margin: 7px">Figures</h1><img src="x" onerror="parent.owned = 1">
<a id="out" href="javascript:parent.owned = 2">out</a></body></html>"""


@pytest.fixture
def namespace(service):
    """A namespace of the test's own, in which two turns were decided."""
    name = service.namespace()
    for text in ("good morning!", "send a letter to Ana"):
        service.namespaces.crib(name).route(text)
    return name


def later(page):
    """Let so much time pass that the page has looked at the service again."""
    with page.expect_response("**/readyz"):
        page.clock.fast_forward(20_000)


def test_the_newest_decision_comes_first_and_new_ones_by_themselves(browse, service, namespace):
    page = browse(f"#/decisions?ns={namespace}", clock=True)
    texts = page.locator(".record-text")
    expect(texts).to_have_text(["send a letter to Ana", "good morning!"])
    service.namespaces.crib(namespace).route("and a parcel to Ben")
    page.clock.fast_forward(3_500)
    expect(texts).to_have_text(["and a parcel to Ben", "send a letter to Ana", "good morning!"])


def test_live_refresh_can_be_switched_off(browse, service, namespace):
    page = browse(f"#/decisions?ns={namespace}", clock=True)
    expect(page.locator(".record")).to_have_count(2)
    page.get_by_label("live").uncheck()
    later(page)
    service.namespaces.crib(namespace).route("and a parcel to Ben")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    later(page)
    assert not [url for url in asked if "/v1/decisions" in url]
    expect(page.locator(".record")).to_have_count(2)


def test_decisions_are_narrowed_by_route_and_words(browse, namespace):
    page = browse(f"#/decisions?ns={namespace}")
    page.get_by_role("combobox", name="Route").select_option("none")
    expect(page.locator(".record-text")).to_have_text(["good morning!"])
    page.get_by_role("combobox", name="Route").select_option("")
    page.get_by_label("Holds").fill("letter ana")
    expect(page.locator(".record-text")).to_have_text(["send a letter to Ana"])
    page.get_by_label("Holds").fill("confidence")
    expect(page.get_by_text("None of those that were read is like this.")).to_be_visible()


def test_older_ones_are_read_on_request(browse, service):
    name = service.namespace()
    crib = service.namespaces.crib(name)
    for number in range(60):
        crib.route(f"good morning number {number}!")
    page = browse(f"#/decisions?ns={name}")
    expect(page.locator(".record")).to_have_count(50)
    page.get_by_role("button", name="Older ones").click()
    expect(page.locator(".record")).to_have_count(60)
    texts = page.locator(".record-text").all_inner_texts()
    assert texts == [f"good morning number {number}!" for number in reversed(range(60))]
    expect(page.get_by_role("button", name="Older ones")).to_have_count(0)


def test_one_is_opened_decided_again_and_given_feedback(asked):
    page = asked("the customer wants her money back")
    page.get_by_role("link", name="Decisions").click()
    page.locator(".record").first.click()
    expect(page.locator(".turn-text")).to_have_text("the customer wants her money back")
    page.get_by_role("button", name="Decide it again").click()
    expect(page.locator(".replay [role=status]")).to_contain_text("It is decided as it was.")
    page.get_by_role("button", name="payments/refundPayment: right").click()
    page.get_by_role("button", name="Send feedback").click()
    expect(page.locator(".landed")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator(".record").nth(1).click()
    kept = page.get_by_role("list", name="Feedback that is kept")
    expect(kept).to_contain_text("right tools: payments/refundPayment")


def test_an_outcome_that_was_reported_stands_beside_its_tool(browse, service):
    crib = service.namespaces.crib()
    decision = crib.route("the customer wants her money back")
    crib.report_outcome(decision.id, "payments/refundPayment", "failure", took_ms=812)
    page = browse(f"#/decisions?decision={decision.id}")
    row = page.locator(".given-list li", has_text="payments/refundPayment")
    expect(row).to_contain_text("call: failure, 812 ms")


def test_a_collection_is_asked(browse):
    page = browse("#/collections")
    expect(page.locator(".collection")).to_contain_text(["agile"])
    page.get_by_label("Question").fill("how do we estimate?")
    page.get_by_role("combobox", name="to").select_option("agile")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".passage").first).to_contain_text("Estimation")
    assert "collection=agile" in page.url


def test_a_report_is_shown_with_its_styles_and_runs_nothing(browse, service):
    folder = Path(service.namespaces.settings.service.reports)
    (folder / "figures.html").write_text(REPORT, encoding="utf-8")
    page = browse("#/reports")
    page.get_by_role("link", name="figures.html").click()
    heading = page.frame_locator("iframe").locator("h1")
    expect(heading).to_have_text("Figures")
    expect(heading).to_have_css("color", "rgb(1, 2, 3)")
    expect(heading).to_have_css("margin-top", "7px")
    assert page.locator("iframe").get_attribute("sandbox") == "allow-same-origin"
    assert page.frame_locator("iframe").locator("#out").get_attribute("href") is None
    time.sleep(0.1)
    assert page.evaluate("window.owned") is None
    assert page.title() == "figures.html · toolcrib"
