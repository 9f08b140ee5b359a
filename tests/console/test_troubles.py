"""When there is nothing, or nothing answers: it is said, and nothing turns for ever."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.console.conftest import WITHOUT_MODELS, serving
from tests.store.qdrant_over_http import CLOSE, running
from toolcrib import ToolSpec


def test_an_empty_index_says_how_it_is_filled(browse, service):
    name = service.namespace()
    page = browse(f"#/ask?ns={name}")
    expect(page.get_by_role("heading", level=2)).to_have_text("The index is empty")
    command = page.locator(".command code").first
    expect(command).to_contain_text(f"{service.url}/v1/tools")
    expect(command).to_contain_text(f"Toolcrib-Namespace: {name}")
    for view, said in {
        "registry": "The index is empty",
        "collections": "There are no collections",
        "quarantine": "Nothing is held back.",
        "decisions": "Nothing has been decided yet.",
        "reports": "There are no reports",
    }.items():
        page.goto(f"{service.url}/#/{view}?ns={name}")
        expect(page.get_by_text(said)).to_be_visible()


def test_a_dead_store_is_said_and_noticed_when_it_comes_back(browse):
    with running() as store, serving(store.url, **WITHOUT_MODELS) as service:
        service.namespaces.crib().index_tools([ToolSpec(name="lone_tool")])
        page = browse("#/registry", at=service, clock=True)
        expect(page.locator(".spec-line b")).to_have_text(["lone_tool"])
        store.misbehave = [CLOSE] * 10_000
        page.get_by_role("link", name="Collections").click()
        page.get_by_role("link", name="Registry").click()
        expect(page.locator(".trouble-title")).to_have_text("The store is down")
        expect(page.locator(".pulse.bad")).to_have_text("not ready")
        store.misbehave = []
        page.clock.fast_forward(5_000)
        expect(page.locator(".spec-line b")).to_have_text(["lone_tool"])
        expect(page.locator(".pulse .dot.on")).to_be_visible()


def test_a_store_that_is_dead_from_the_start_is_no_question_of_keys(browse):
    with running() as store, serving(store.url, **WITHOUT_MODELS) as service:
        store.misbehave = [CLOSE] * 10_000
        page = browse("#/registry", at=service, clock=True)
        expect(page.locator(".trouble-title")).to_have_text("The store is down")
        expect(page.get_by_label("API key")).to_have_count(0)
        store.misbehave = []
        page.clock.fast_forward(5_000)
        expect(page.get_by_role("heading", level=2)).to_have_text("The index is empty")


def test_a_service_that_has_stopped_is_said_to_be_out_of_reach(browse):
    with serving(**WITHOUT_MODELS) as service:
        page = browse("#/quarantine", at=service)
        expect(page.get_by_text("Nothing is held back.")).to_be_visible()
    page.get_by_role("link", name="Collections").click()
    expect(page.locator(".trouble-title")).to_have_text("The service cannot be reached")
    expect(page.locator(".pulse.bad")).to_have_text("not reached")
    expect(page.get_by_role("button", name="Try again")).to_be_enabled()


def test_being_offline_is_told_from_a_service_that_is_away(browse):
    page = browse("#/quarantine", alone=True)
    expect(page.get_by_role("heading", level=1)).to_contain_text("0 tools")
    page.context.set_offline(True)
    page.get_by_role("link", name="Registry").click()
    expect(page.locator(".trouble")).to_contain_text("This computer is offline.")
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".spec-line").first).to_be_visible()


def test_an_answer_that_never_comes_is_not_waited_for_for_ever(browse):
    page = browse(alone=True)
    page.locator(".who").wait_for()
    page.clock.install()
    page.route("**/v1/route", lambda route: None)
    page.get_by_label("What does the user say?").fill("list all orders")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Deciding …")).to_be_attached()
    expect(page.get_by_role("button", name="Asking …")).to_be_disabled()
    page.clock.fast_forward(21_000)
    expect(page.locator(".trouble-title")).to_have_text("No answer in time")
    expect(page.get_by_role("button", name="Ask", exact=True)).to_be_enabled()


def test_a_search_that_fails_leaves_the_decision_standing(browse):
    page = browse()
    page.locator(".who").wait_for()
    page.route("**/v1/tools/search", lambda route: route.abort())
    page.get_by_label("What does the user say?").fill("the customer wants her money back")
    page.keyboard.press("Enter")
    expect(page.locator(".route-kind b")).to_have_text("tools")
    expect(page.get_by_text("The search that explains the ranking failed")).to_be_visible()
    expect(page.locator('.hit[data-tool="payments/refundPayment"]')).to_be_visible()


def test_an_answer_of_somebody_else_is_no_answer(browse):
    page = browse()
    page.locator(".who").wait_for()
    page.route("**/v1/quarantine", lambda route: route.fulfill(body="<h1>Log in</h1>"))
    page.get_by_role("link", name="Quarantine").click()
    expect(page.locator(".trouble-title")).to_have_text("The answer cannot be read")
