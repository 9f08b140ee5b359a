"""How it looks: on a phone and a desk, light and dark, still and accessible."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from toolcrib.access.activity import ActivityLog
from toolcrib.records.log import GatewayCall, GatewayServer

AXE = Path(__file__).parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"
RULES = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']"
# Of what passes, one place for each rule: to describe all takes a third of the time.
CHECK = f"axe.run(document, {{runOnly: {RULES}, resultTypes: ['violations']}})"

OPEN = "all => all.forEach(each => { each.open = true })"

PLACES = {
    "ask": ".example",
    "ask?q=refund order 8812 and mail ana@example.com, please": ".hit",
    "ask?q=How long is our stand-up?&budget=0.001": ".warning",
    "overview": "td",
    "registry?server=desk&order=use&state=on": ".spec-line",
    "registry?server=desk&q=pay": ".spec-line",
    "registry?tool=payments/refundPayment": ".description",
    "registry?tool=nothing": ".trouble",
    "quarantine": ".calm",
    "collections?q=how do we estimate?": ".passage",
    "decisions": ".record",
    "learning": ".calm",
    "reports": ".record, .empty",
    "activity": ".record",
    "keys": ".entry",
    "servers": ".entry",
}
DARK = [*[*PLACES][:3], "registry?server=desk&order=use&state=on", "keys", "servers"]
DIALOGS = {
    "keys": "Make a key",
    "servers": "Add servers",
    "registry?server=desk&order=use&state=on": "Add tools",
}
"""Button of a view that opens a dialog."""

BEYOND_A_PHONE = """[...document.querySelectorAll("body *:not(.unseen, .unseen *, option, bdi)")]
    .filter(e => e.getBoundingClientRect().right > 400.5).map(e => e.outerHTML)"""

LINES = """all => all.map(each => {
    const range = document.createRange();
    range.selectNodeContents(each);
    return new Set([...range.getClientRects()].map(rect => rect.top)).size;
})"""
"""Number of lines that the text of each element takes."""

LONG = "a-very-long-word-without-any-place-to-break-it" * 4


@pytest.fixture(scope="module")
def admin(service):
    """A key that every view is shown to."""
    return service.key(access="admin", namespaces=("*",))


@pytest.fixture(scope="module", autouse=True)
def decided(service):
    """At least one decision, and one call at a gateway, to look at."""
    service.namespaces.crib().route(LONG)
    log = ActivityLog(service.namespaces.records_db)
    log.write_state([GatewayServer("fax", "needs_authorisation", f"run {LONG}")])
    made = GatewayCall("", LONG, "fax", f"fax/{LONG}", "failure", 12, by="k", arguments=LONG)
    log.record(made)
    yield
    log.close()


def show(page, place):
    """Wait for what stands at a place, and open all that can be opened there."""
    page.locator(PLACES[place]).first.wait_for()
    page.locator("main details").evaluate_all(OPEN)
    if place in DIALOGS:
        page.get_by_role("button", name=DIALOGS[place]).click()


def test_nothing_stands_out_beyond_a_phone(browse, service, admin):
    page = browse(key=admin, viewport={"width": 400, "height": 800})
    for place in PLACES:
        page.goto(f"{service.url}/#/{place}")
        show(page, place)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(BEYOND_A_PHONE) == [], (place, scheme)
            assert page.evaluate("document.documentElement.scrollWidth") == 400, (place, scheme)


def test_words_and_numbers_stay_whole_on_a_tablet_and_a_phone(browse, service, admin):
    page = browse("#/overview", key=admin, viewport={"width": 720, "height": 800})
    page.locator("td").first.wait_for()
    for width in (720, 390):
        page.set_viewport_size({"width": width, "height": 800})
        words = page.locator("nav a, thead th").filter(has_not_text=re.compile(r"\w \w"))
        assert set(words.evaluate_all(LINES)) == {1}, width


def test_a_long_name_of_a_tool_is_broken(asked):
    page = asked("refund order 8812")
    page.locator(".hit-name b").first.evaluate("(e, name) => { e.textContent = name }", "x" * 180)
    assert page.evaluate("document.documentElement.scrollWidth") == 1280


def test_paper_has_the_answer_with_its_bars_and_no_navigation(asked):
    page = asked("refund order 8812")
    page.evaluate("document.documentElement.dataset.look = 'dark'")
    page.emulate_media(media="print", color_scheme="light")
    expect(page.locator("body")).to_have_css("background-color", "rgb(255, 255, 255)")
    expect(page.locator(".head")).to_be_hidden()
    expect(page.locator(".segment").first).to_have_css("print-color-adjust", "exact")


@pytest.mark.parametrize(
    ("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(21, 23, 26)")]
)
def test_it_is_light_or_dark_as_the_reader_prefers_or_chooses(browse, scheme, paper):
    page = browse(color_scheme=scheme)
    body = page.locator("body")
    expect(body).to_have_css("background-color", paper)
    other = {"light": "dark", "dark": "light"}[scheme]
    button = page.get_by_role("button", name="Look: ")
    while f"Look: {other}" not in (button.get_attribute("aria-label") or ""):
        button.click()
    expect(body).not_to_have_css("background-color", paper)
    page.reload()
    expect(body).not_to_have_css("background-color", paper)


def test_who_wants_no_motion_gets_none(browse):
    page = browse("#/ask", reduced_motion="reduce")
    page.locator(".example").first.wait_for()
    page.route("**/v1/route", lambda route: None)
    page.get_by_role("button", name="good morning!").click()
    expect(page.locator(".waiting")).to_have_css("animation-delay", "0s")
    expect(page.locator(".waiting")).to_have_css("animation-duration", "0s")


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: npm ci in console/")
def test_an_accessibility_checker_finds_nothing(browse, admin):
    page = browse(key=admin)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    for place in PLACES:
        page.evaluate("to => location.hash = to", f"/{place}")
        show(page, place)
        for scheme in ("light", "dark") if place in DARK else ("light",):
            page.emulate_media(color_scheme=scheme)
            found = page.evaluate(CHECK)
            assert len(found["passes"]) > 20
            told = [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]]
            assert told == [], (place, scheme)
        page.keyboard.press("Escape")
