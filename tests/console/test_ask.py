"""Ask: a turn in, and why it was decided so."""

from __future__ import annotations

import json
import math
import re

import pytest
from playwright.sync_api import expect

from toolcrib.retrieval.fusion import FusionWeights

REFUND = "refund order 8812 and mail the flurbish to ana@example.com"


def decided_last(service):
    with service.client() as client:
        return client.get("/v1/decisions?limit=1").json()["decisions"][0]["id"]


def test_a_turn_shows_its_route_context_tools_and_time(browse):
    page = browse()
    page.get_by_label("What does the user say?").fill(REFUND)
    page.keyboard.press("Enter")
    expect(page.locator(".route-kind b")).to_have_text("tools")
    expect(page.locator(".reason")).to_contain_text("a tool must do this")
    expect(page.locator(".entity")).to_have_text(["ana@example.comemail"])
    expect(page.locator(".chips")).to_contain_text("intent")
    expect(page.locator(".chip", has_text="sensitivity")).to_contain_text("pii")
    expect(page.locator(".hit.given .hit-title").first).to_contain_text("always active")
    expect(page.locator(".unmatched", has_text="flurbish")).to_be_visible()
    for stage in ("encode", "context", "tools"):
        expect(page.locator(".waterfall").first).to_contain_text(stage)


def test_what_is_asked_stands_in_the_address_and_can_be_opened_again(browse):
    page = browse()
    page.get_by_label("What does the user say?").fill("how long is our stand-up?")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator(".answer").wait_for()
    assert "q=how+long+is+our+stand-up" in page.url
    again = browse(f"#{page.url.partition('#')[2]}")
    expect(again.locator(".turn-text")).to_have_text("how long is our stand-up?")


def test_a_step_back_shows_the_answer_that_was_seen_and_decides_nothing_anew(asked, service):
    page = asked("pay the customer back")
    seen = page.locator(".part", has_text="JSON").locator("code").first.inner_text()
    page.get_by_label("What does the user say?").fill("list all orders")
    page.keyboard.press("Enter")
    expect(page.locator(".turn-text")).to_have_text("list all orders")
    last = decided_last(service)
    page.go_back()
    expect(page.locator(".part", has_text="JSON").locator("code").first).to_have_text(seen)
    assert decided_last(service) == last


def test_the_shares_of_the_legs_are_those_of_the_fusion(asked):
    page = asked(REFUND)
    weights = FusionWeights()
    rows = page.locator(".hit:has(.bar-row.col-score)")
    assert rows.count() >= 10
    for number in range(3):
        row = rows.nth(number)
        row.locator(".hit-name").click()
        cells = row.locator("tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.children].map(cell => cell.textContent))"
        )
        said = {name.split()[0]: (float(value), gave) for name, value, gave in cells}
        words = weights.lexical * (1 - math.exp(-said["lexical"][0] / weights.bm25_scale))
        assert float(said["lexical"][1]) == pytest.approx(words, abs=0.001)
        assert float(said["dense"][1]) == pytest.approx(weights.dense * said["dense"][0], abs=0.001)
        score = float(row.locator(".col-score .figure").inner_text())
        gave = sum(float(gave) for _, gave in said.values() if gave != "–")
        assert gave == pytest.approx(score, abs=0.003)


def test_bars_are_as_long_as_the_figures(asked):
    page = asked(REFUND)
    decision = json.loads(page.locator("details.json pre").first.text_content())
    found = {hit["id"]: hit for hit in decision["tools"]["tools"] if hit["probability"]}
    assert found
    for tool, hit in found.items():
        style = page.locator(f'.hit[data-tool="{tool}"] .bar.sure .segment').get_attribute("style")
        width = float(re.search(r"width: ([\d.]+)%", style)[1])
        assert width == pytest.approx(100 * hit["probability"], abs=0.1)


def test_a_tool_called_by_its_name_says_so(asked):
    page = asked("refundPayment")
    bar = page.locator('.hit[data-tool="payments/refundPayment"] .bar').first
    assert bar.get_attribute("aria-label") == "score 1.000: called by name 1.000"


def test_passages_come_with_citations_and_fold_out(asked):
    page = asked("How long is our stand-up?")
    expect(page.locator(".route-kind b")).to_have_text("knowledge")
    first, second = page.locator(".passage").nth(0), page.locator(".passage").nth(1)
    expect(first.locator("cite")).to_contain_text("roles-and-meetings.md, part")
    expect(first.locator(".passage-head")).to_have_attribute("aria-expanded", "true")
    expect(second.locator(".passage-head")).to_have_attribute("aria-expanded", "false")
    second.locator(".passage-head").click()
    expect(second.locator(".passage-text")).to_have_class(re.compile("open"))


def test_what_was_left_out_is_marked(asked):
    page = asked("list all orders&budget=0.001")
    expect(page.locator(".warning")).to_contain_text("Not everything was done")
    expect(page.locator(".part-context")).to_contain_text("Not read, for lack of time.")
    for stage in ("context", "tools", "knowledge"):
        expect(page.locator(".left-out", has_text=stage)).to_be_visible()


def test_history_attachments_and_ceilings_go_with_the_turn(browse):
    page = browse("#/ask")
    page.get_by_text("History, attachments, ceilings").click()
    page.get_by_role("button", name="Add a message").click()
    page.get_by_label("Message 1", exact=True).fill("How long is our stand-up?")
    page.get_by_label("Attachments").fill("notes.csv")
    page.get_by_label("Ceiling of who asks").select_option("public")
    page.get_by_label("What does the user say?").fill("and who may skip it?")
    page.keyboard.press("Enter")
    for signal in ("follow-up:1", "attachment:csv", "ceiling:caller:public"):
        expect(page.locator(".signals code", has_text=signal)).to_be_visible()
    # The explained ranking was searched with the same joined words as the decision.
    expect(page.get_by_text("a search by these words alone")).to_have_count(0)


def test_the_json_can_be_copied(asked):
    page = asked("good morning!", permissions=["clipboard-read", "clipboard-write"])
    expect(page.locator(".route-kind b")).to_have_text("none")
    page.get_by_text("The decision as JSON").click()
    page.get_by_role("button", name="Copy The decision as JSON").click()
    expect(page.locator(".json-body button").first).to_have_text("Copied")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied["context"]["smalltalk"] == "greeting"


def test_a_double_click_asks_once(browse):
    page = browse("#/ask")
    routes: list[str] = []
    page.on("request", lambda each: routes.append(each.url) if "/v1/route" in each.url else None)
    page.get_by_label("What does the user say?").fill("good afternoon!")
    page.get_by_role("button", name="Ask", exact=True).dblclick()
    page.locator(".answer").wait_for()
    assert len(routes) == 1
