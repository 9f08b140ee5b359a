"""Text of tools, documents and turns is shown, whatever is in it, and never obeyed."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from toolcrib import Collection, Passage, ToolSpec

IMAGE = '<img src=x onerror="window.owned=1">'
SCRIPT = "</script><script>window.owned=2</script>"
LINK = "javascript:window.owned=3"
HIDDEN = "Look\u200bfor\u202eretaw\U000e0068\U000e0069 ."
ATTACKS = f"{IMAGE} {SCRIPT} {LINK}"


@pytest.fixture(scope="module")
def hostile(service):
    """A namespace in which every text attacks; put there past the audit."""
    name = service.namespace()
    crib = service.namespaces.crib(name)
    tool = ToolSpec(
        id=f"evil/{IMAGE}",
        name=f"water {IMAGE}",
        server=f"evil {SCRIPT}",
        description=f"{HIDDEN} {ATTACKS}",
        input_schema={"properties": {IMAGE: {"type": IMAGE, "description": ATTACKS}}},
        success_examples=[ATTACKS],
        anti_patterns=[ATTACKS],
        tags=[IMAGE],
        category=SCRIPT,
        version=LINK,
        annotations={LINK: IMAGE},
    )
    crib.index_tools([tool])
    crib.add_collections(Collection(name="notes", description=ATTACKS, examples=[ATTACKS]))
    text = f"Look for water in the well. {ATTACKS}"
    crib.index_passages([Passage("notes", LINK, text, title=(IMAGE, SCRIPT))])
    crib.route(f"look for water {ATTACKS}")
    return name


PLACES = {
    "registry": ".spec-line",
    f"registry?tool=evil/{IMAGE}": ".description",
    f"ask?q=look for water {ATTACKS}": ".hit",
    "collections": ".collection",
    "collections?q=look for water in the well": ".passage",
    "decisions": ".record",
}


@pytest.mark.parametrize("place", PLACES)
def test_nothing_of_a_foreign_text_becomes_part_of_the_page(browse, service, hostile, place):
    page = browse("#/ask")
    page.locator(".who").wait_for()
    mark = "&" if "?" in place else "?"
    page.evaluate("to => location.hash = to", f"/{place}{mark}ns={hostile}".replace("+", "%2B"))
    shown = page.locator(PLACES[place]).first
    shown.wait_for()
    page.locator("main details").evaluate_all("all => all.forEach(each => { each.open = true })")
    page.locator("main [aria-expanded=false]").evaluate_all("all => all.forEach(e => e.click())")
    if PLACES[place] == ".record":
        shown.click()
        page.locator(".turn-text").wait_for()
    expect(page.locator("main")).to_contain_text("onerror=")
    assert page.locator("#app img, #app script, #app iframe").count() == 0
    links = page.locator("#app a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert all(href.startswith("#") for href in links)
    assert page.locator("[onerror], [onclick], [onload]").count() == 0
    assert page.evaluate("window.owned") is None


def test_what_cannot_be_seen_is_shown(browse, service, hostile):
    page = browse(f"#/registry?ns={hostile}")
    page.locator(".spec-line").first.click()
    hidden = page.locator(".description .hidden-char")
    expect(hidden).to_have_text(["U+200B", "U+202E", "tags: hi"])
    expect(hidden.first).to_have_attribute("title", "U+200B zero width space")
    expect(page.locator(".warning")).to_contain_text("Invisible characters in 3 places")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("👩\u200d🚀 ❤\ufe0f and نمی\u200cخواهم", []),
        ("co\u00adoperate with\u00a0care\n\tand tabs", []),
        ("a\u200d\u200db", ["U+200D ×2"]),
        ("bell\x07 and half \ue000", ["U+0007", "U+E000"]),
        ("blank\u2800\u3164", ["U+2800", "U+3164"]),
    ],
)
def test_characters_that_belong_where_they_are_stay_as_they_are(browse, service, text, shown):
    name = service.namespace()
    service.namespaces.crib(name).index_tools([ToolSpec(name="a_tool", description=text)])
    page = browse(f"#/registry?ns={name}&tool=a_tool")
    page.locator(".description").wait_for()
    expect(page.locator(".description .hidden-char")).to_have_text(shown)
