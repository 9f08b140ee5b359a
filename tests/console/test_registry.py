"""The registry: narrowed, searched, paged, one tool in full, and taken out."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from toolcrib import ToolSpec


@pytest.fixture
def namespace(service):
    """A namespace of the test's own, with a hundred and twenty tools."""
    name = service.namespace()
    crib = service.namespaces.crib(name)
    crib.index_tools([ToolSpec(name=f"job_{n:03}", server=f"s{n % 3}") for n in range(120)])
    return name


def names(page):
    return page.locator(".spec-line b").all_inner_texts()


def test_facets_narrow_the_list_and_stand_in_the_address(browse):
    page = browse("#/registry")
    page.get_by_label("mailbox").check()
    expect(page.locator(".spec-line .server").first).to_have_text("mailbox")
    expect(page.locator(".spec-line")).to_have_count(12)
    assert "server=mailbox" in page.url
    page.get_by_label("mailbox").uncheck()
    expect(page.locator(".spec-line")).not_to_have_count(12)


def test_categories_and_ceilings_narrow_the_list_too(browse, service):
    name = service.namespace()
    secret = ToolSpec(name="secret", category="data", sensitivity="pii")
    others = [ToolSpec(name=name, category=name) for name in ("data", "mail")]
    service.namespaces.crib(name).index_tools([secret, *others])
    page = browse(f"#/registry?ns={name}&category=data&order=name")
    expect(page.locator(".spec-line b")).to_have_text(["data", "secret"])
    page.get_by_text("Ceiling").click()
    page.get_by_label("public").check()
    expect(page.locator(".spec-line b")).to_have_text(["data"])


def test_it_is_sorted_by_keys_alone_and_the_order_stands_in_the_address(browse, namespace):
    page = browse(f"#/registry?ns={namespace}")
    expect(page.locator(".spec-line")).to_have_count(50)
    page.get_by_label("Order").focus()
    page.keyboard.type("name")
    expect(page.locator(".spec-line b").first).to_have_text("job_000")
    assert names(page) == [f"job_{n:03}" for n in range(50)]
    assert "order=name" in page.url
    page.get_by_role("button", name="Next 50").press("Enter")
    expect(page.locator(".spec-line b").first).to_have_text("job_050")
    page.reload()
    expect(page.locator(".spec-line b").first).to_have_text("job_050")
    page.get_by_label("Order").select_option("server")
    expect(page.locator(".spec-line .server").first).to_have_text("s0")
    assert set(page.locator(".spec-line .server").all_inner_texts()) == {"s0", "s1"}


def test_tools_that_are_called_come_first_with_their_calls(browse, service, namespace):
    crib = service.namespaces.crib(namespace)
    decision = crib.route("do job 7").id
    for _ in range(2):
        crib.report_outcome(decision, "s1/job_007", "success")
    page = browse(f"#/registry?ns={namespace}&order=use")
    expect(page.locator(".spec-line").first).to_contain_text("job_007")
    expect(page.locator(".spec-line .figure")).to_have_text(["2\u00a0calls"])


def test_tools_are_listed_by_their_state(browse, service, namespace):
    disabled = ToolSpec(name="job_001", server="s1", enabled=False)
    service.namespaces.crib(namespace).index_tools([disabled])
    page = browse(f"#/registry?ns={namespace}")
    page.get_by_label("State").select_option("off")
    expect(page.locator(".spec-line b")).to_have_text(["job_001"])
    expect(page.locator(".spec-line .tag")).to_have_text(["disabled"])
    page.get_by_label("State").select_option("deprecated")
    expect(page.get_by_text("No tool is like this.")).to_be_visible()


def test_it_is_searched_while_words_are_typed(browse):
    page = browse("#/registry")
    page.get_by_label("Search the registry").press_sequentially("pay money back flurbish")
    expect(page.locator(".spec-line b").first).to_have_text("refundPayment")
    expect(page.get_by_text("In no tool: flurbish")).to_be_visible()
    expect(page.locator("[aria-live]")).to_contain_text("found")
    page.get_by_label("shop").check()
    expect(page.locator(".spec-line .server").first).to_have_text("shop")
    assert set(page.locator(".spec-line .server").all_inner_texts()) == {"shop"}


def test_every_tool_is_on_exactly_one_page(browse, namespace):
    page = browse(f"#/registry?ns={namespace}")
    expect(page.locator(".spec-line")).to_have_count(50)
    first = names(page)
    seen = list(first)
    for expected in (50, 20):
        page.get_by_role("button", name="Next 50").click()
        expect(page.locator(".spec-line b").first).not_to_have_text(seen[-50])
        expect(page.locator(".spec-line")).to_have_count(expected)
        seen += names(page)
    assert sorted(seen) == [f"job_{n:03}" for n in range(120)]
    expect(page.get_by_role("button", name="Next 50")).to_have_count(0)
    for _ in range(2):
        page.get_by_role("button", name="Back").click()
    expect(page.locator(".spec-line b").first).to_have_text(first[0])


def test_one_tool_is_shown_in_full(browse):
    page = browse("#/registry?tool=payments/refundPayment")
    expect(page.get_by_role("heading", level=1)).to_have_text("refundPayment")
    expect(page.locator(".description")).to_contain_text("Give a payment back")
    row = page.get_by_role("row", name="amount.value")
    expect(row).to_contain_text("required")
    expect(row).to_contain_text("In the smallest unit")
    page.get_by_text("The specification as JSON").click()
    expect(page.locator("pre")).to_contain_text('"server": "payments"')


def test_an_unknown_tool_names_those_that_are_near(browse):
    page = browse("#/registry?tool=payments/refundPaymet")
    expect(page.locator(".trouble-title")).to_have_text("There is no such tool")
    page.get_by_role("link", name="payments/refundPayment").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("refundPayment")


def test_a_tool_is_deleted_after_a_question(browse, service, namespace):
    page = browse(f"#/registry?ns={namespace}&tool=s0/job_000")
    page.get_by_role("button", name="Delete this tool").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("s0/job_000")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Delete this tool").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.locator("h1 small")).to_have_text("119 tools")
    with service.client(namespace) as client:
        assert client.get("/v1/tools/s0/job_000").status_code == 404


def test_tools_are_pasted_and_all_of_a_server_are_taken_out(browse, service):
    name = service.namespace()
    page = browse(f"#/registry?ns={name}")
    page.get_by_role("button", name="Add tools").press("Enter")
    dialog = page.get_by_role("dialog")
    lines = '{"name": "send_mail", "server": "mail"}\n{"name": "read_mail", "server": "mail"}'
    dialog.get_by_role("textbox", name="JSON, or a tool a line").fill(lines)
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("2 added")
    page.keyboard.press("Escape")
    expect(page.locator(".spec-line")).to_have_count(2)
    page.get_by_label("mail").check()
    page.get_by_role("button", name="Remove all of mail").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("heading", name="The index is empty")).to_be_visible()


def test_a_file_takes_the_place_of_a_servers_tools(browse, service, namespace, tmp_path):
    file = tmp_path / "tools.json"
    page = browse(f"#/registry?ns={namespace}")
    dialog = page.get_by_role("dialog")
    for tools, said in (
        ('[{"name": "job_001"}, {"name": "new", "description": 3}]', "0 removed, 2 refused"),
        ('[{"name": "job_001"}]', "39 removed, 0 refused"),
    ):
        file.write_text(f'{{"tools": {tools}}}')
        page.get_by_role("button", name="Add tools").click()
        dialog.get_by_label("or from a file").set_input_files(file)
        dialog.get_by_role("textbox", name="in place of the one").fill("s1")
        dialog.get_by_label("Remove the server's other tools").check()
        dialog.get_by_role("button", name="Add", exact=True).click()
        expect(dialog).to_contain_text(said)
        if "2 refused" in said:
            expect(dialog).to_contain_text("but kept: 1 refusal")
        page.keyboard.press("Escape")
    expect(page.locator("h1 small")).to_have_text("81 tools")


def test_a_text_that_is_no_json_is_said(browse, service):
    page = browse(f"#/registry?ns={service.namespace()}")
    page.get_by_role("button", name="Add tools").click()
    page.get_by_role("textbox", name="JSON, or a tool a line").fill("/etc/passwd")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("dialog .trouble")).to_contain_text("This is no JSON")


def test_who_may_only_read_is_offered_nothing_else(browse, service):
    page = browse("#/registry?tool=payments/refundPayment", key=service.key())
    expect(page.locator(".description")).to_be_visible()
    expect(page.get_by_role("button", name="Delete this tool")).to_have_count(0)
    page.go_back()
    expect(page.get_by_role("button", name="Add tools")).to_have_count(0)


def test_the_way_back_from_a_tool_leads_to_its_line_in_the_list(browse):
    page = browse("#/registry", viewport={"width": 1280, "height": 400})
    line = page.locator(".spec-line").last
    line.wait_for()
    page.evaluate("new Promise(done => { addEventListener('scroll', done); scrollTo(0, 9999) })")
    line.click()
    page.locator("article.tool").wait_for()
    assert page.evaluate("scrollY") == 0
    page.go_back()
    expect(line).to_be_in_viewport()
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("link", name="Registry").click()
    page.locator(".spec-line").first.wait_for()
    assert page.evaluate("scrollY") == 0
