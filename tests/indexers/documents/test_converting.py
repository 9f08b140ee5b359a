"""What a page says is kept, and what stands around it on every page is not."""

from __future__ import annotations

import pytest

from toolcrib.indexers.documents.loading import load

PAGE = """<!DOCTYPE html><html><head><title> Set up - Docs </title><style>p {}</style></head>
<body><nav>Home</nav><script>run()</script>
<h1>Set up<a class="headerlink" href="#set-up">¶</a></h1><p>Call <code>get_user</code> *now*.</p>
<pre>make install</pre><footer>All rights</footer></body></html>"""


def html(text, **options):
    return load(text if isinstance(text, bytes) else text.encode(), "a.html", "html", **options)


def test_a_page_is_its_content_without_what_is_on_every_page():
    page = html(PAGE)
    assert page.text == "# Set up\n\nCall `get_user` *now*.\n\n```\nmake install\n```"
    assert page.title == "Set up - Docs"


def test_the_main_part_of_a_page_is_enough_where_there_is_one():
    assert html("<body><p>Menu</p><main><p>Text.</p></main></body>").text == "Text."
    several = html("<p>One</p><main><p>Two</p></main><main><p>Three</p></main>").text
    assert several.split() == ["One", "Two", "Three"]


def test_a_heading_keeps_its_links_but_not_the_one_to_itself():
    page = html(
        '<h1><a href="/"><img alt="Logo" src="l.png"></a></h1>'
        '<h2>Keys<a href="#keys">#</a></h2><h2><a href="https://x.org">Rotation</a></h2>',
    )
    assert page.text.split("\n\n") == [
        "# [![Logo](l.png)](/)",
        "## Keys",
        "## [Rotation](https://x.org)",
    ]


def test_a_page_without_a_title_goes_by_its_file():
    assert html("<p>Text.</p>").title == "a"


@pytest.mark.parametrize("page", [b'<meta charset="iso-8859-7">%s', b"%s"])
def test_a_page_is_read_as_it_or_its_server_says_that_it_is_written(page):
    charset = None if b"meta" in page else "iso-8859-7"
    assert "Ελλάδα" in html(page % "Ελλάδα".encode("iso8859-7"), charset=charset).text


def test_a_page_nested_beyond_reason_is_still_words():
    assert html("<div>" * 3000 + "deep words" + "</div>" * 3000).text == "deep words"
