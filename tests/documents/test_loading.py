"""Every kind of document becomes text that can be split, whatever it was written in."""

from __future__ import annotations

import codecs
import json
import logging
import sys
import warnings
from pathlib import Path

import pytest
from docutils.parsers.rst import directives, roles
from hypothesis import given
from hypothesis import strategies as st

from tests.documents.making import docx, notebook, pdf
from toolcrib.documents import loading
from toolcrib.documents.loading import DOCUMENT_ENDINGS, kind_of_name, kind_of_type, load
from toolcrib.errors import MissingExtraError, SourceError

GERMAN = "Die Zugriffsberechtigung für Benutzerkonten wird täglich überprüft. " * 5
RUSSIAN = "Поисковая система делит длинный документ на небольшие части. "


def paragraph(text, how=""):
    return f"<w:p><w:r><w:rPr>{how}</w:rPr><w:t>{text}</w:t></w:r></w:p>"


def run(text):
    return f"<m:r><m:t>{text}</m:t></m:r>"


def of(kind, properties="", **parts):
    """An element of an equation, its parts by name."""
    inside = "".join(
        f"<m:{name}>{part if part[:1] == '<' else run(part)}</m:{name}>"
        for name, part in parts.items()
    )
    return f"<m:{kind}><m:{kind}Pr>{properties}</m:{kind}Pr>{inside}</m:{kind}>"


def loaded(content, name, charset=None):
    content = content.encode() if isinstance(content, str) else content
    return load(content, name, kind_of_name(name), charset)


def text_of(content, name, charset=None):
    return loaded(content, name, charset).text


def reason(content, name):
    with pytest.raises(SourceError) as caught:
        text_of(content, name)
    assert caught.value.source == name
    return caught.value.reason


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.md", "markdown"),
        ("a/b.MDX", "markdown"),
        ("a.rst", "rst"),
        ("a.htm", "html"),
        ("a.adoc", "text"),
        ("a.pdf", "pdf"),
        ("a.docx", "docx"),
        ("a.ipynb", "notebook"),
        ("prices.CSV", "table"),
        ("a.tsx", "source"),
        ("a.exe", None),
        ("md", None),
    ],
)
def test_a_name_tells_the_kind(name, kind):
    assert kind_of_name(name) == kind


HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "documents.md"


def test_the_page_has_a_row_for_every_kind_of_document():
    page = HOW_TO.read_text("utf-8")
    lacking = [ending for ending in DOCUMENT_ENDINGS.split() if f"| `{ending}" not in page]
    assert lacking == [], f"{HOW_TO.name} has no row for these endings"


@pytest.mark.parametrize(
    ("content_type", "path", "kind"),
    [
        ("text/html", "/page.md", "html"),
        ("text/markdown", "/", "markdown"),
        ("text/plain", "/raw/README.rst", "rst"),
        ("text/plain", "/LICENSE", "text"),
        ("application/octet-stream", "/paper.pdf", "pdf"),
        ("application/octet-stream", "/paper", None),
        ("image/png", "/logo", None),
    ],
)
def test_a_server_tells_the_kind_and_where_it_does_not_the_name_does(content_type, path, kind):
    assert kind_of_type(content_type, path) == kind


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-8", codecs.BOM_UTF8),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
        ("utf-32-le", codecs.BOM_UTF32_LE),
    ],
)
def test_a_byte_order_mark_says_the_encoding_and_is_no_text(encoding, mark):
    assert text_of(mark + GERMAN.encode(encoding), "a.txt") == GERMAN


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "cp1252"),
        ("Café", "latin-1"),
        (RUSSIAN, "cp1251"),
        ("検索システムは長い文書を分割します。見出しごとに分けられます。", "shift_jis"),
        ("检索系统把长文档切成小段,每一段都带有它上面的标题。", "gb18030"),
        ("تصدر شهادة السكن خلال ثلاثة أيام عمل. الرسوم 12 يورو.", "cp1256"),
        ("יש לרשום כתובת חדשה בתוך שבועיים מיום המעבר.", "cp1255"),
        ("ผู้ที่ย้ายที่อยู่ต้องแจ้งภายในสิบห้าวัน", "cp874"),
    ],
)
def test_what_is_no_unicode_is_guessed(text, encoding):
    assert text_of(text.encode(encoding), "a.txt") == text


def test_a_charset_that_was_declared_comes_before_a_guess_and_after_unicode():
    assert text_of("Ελλάδα".encode("iso8859-7"), "a.txt", charset="iso-8859-7") == "Ελλάδα"
    assert text_of("Ελλάδα", "a.txt", charset="iso-8859-7") == "Ελλάδα"
    assert text_of("Café".encode("latin-1"), "a.txt", charset="no such charset") == "Café"


def test_japanese_in_seven_bits_is_told_by_its_escapes():
    text = "ポンプの保守について説明します。"
    assert text_of(text.encode("iso2022_jp"), "a.txt") == text
    page = f"<meta charset='iso-2022-jp'><p>{text}</p>".encode("iso2022_jp")
    assert text in text_of(page, "a.html")
    assert text_of("a \x1b$ sign", "a.txt") == "a \x1b$ sign"


def test_damaged_unicode_loses_only_what_is_damaged():
    assert text_of(f"{RUSSIAN}".encode() + b"\xd0 end", "a.txt") == f"{RUSSIAN}\ufffd end"


def test_without_charset_normalizer_what_is_no_unicode_is_western(monkeypatch):
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    assert text_of(GERMAN.encode("cp1252"), "a.txt") == GERMAN


def test_a_binary_file_is_refused_whatever_its_name():
    assert reason(b"\x00\x01\x02", "a.md").startswith("holds NUL bytes")


def test_line_ends_are_those_of_unix():
    assert text_of("a\r\nb\rc\n", "a.txt") == "a\nb\nc\n"


def test_front_matter_is_no_text_but_names_a_document():
    page = loaded("---\r\ntitle: Set up\r\ntags: [a]\r\n---\r\nText.\n", "a.md")
    assert (page.text, page.title) == ("Text.\n", "Set up")
    assert loaded("---\ndraft: true\n---\nText.\n", "b.md").title == "b"
    page = loaded('+++\ntitle = "Set up"\n[extra]\nweight = 1\n+++\nText.\n', "c.md")
    assert (page.text, page.title) == ("Text.\n", "Set up")


@pytest.mark.parametrize(
    "title", ["Spindle: the user's run-in", "[Draft] Set up", "*Set* up", '"Set" up', "@home"]
)
@pytest.mark.parametrize("more", ["", "date: {{ date }}", "tags:\n- a\n- b", "title: again"])
def test_a_title_that_is_no_yaml_is_read_as_it_stands(title, more):
    lines = [f"title: {title}", "# a comment", "owner: QA"]
    lines.insert(0 if more.startswith("title") else 1, more)
    page = loaded("\n".join(["---", *lines, "---", "Text.\n"]), "a.md")
    assert (page.text, page.title) == ("Text.\n", title)


@pytest.mark.parametrize(
    "text",
    [
        "+++\nwords\n+++\nText.",
        "---\nwords\n---\nText.",
        "---\n**a:** [b]\nc: d\n---\nText.",
        "--- \nText.",
    ],
)
def test_what_only_looks_like_front_matter_stays(text):
    assert text_of(text, "a.md") == text


@pytest.mark.parametrize("comment", ["<!-- Licence\n\nof X -->", "{/* do not edit */}"])
def test_comments_of_markdown_are_no_text_outside_code(comment):
    code = f"```html\n{comment}\n```\nSee `{comment}`.\n"
    assert text_of(f"{comment}\n---\ntitle: A\n---\n{code}{comment}\n", "a.md") == code
    unclosed = f"{code}~~~\n~~~ a\n{comment}\n"
    assert text_of(f"{comment}\n{unclosed}", "a.md") == unclosed
    assert text_of(f"Text\n{comment[:-1]}\n", "a.md") == f"Text\n{comment[:-1]}\n"


@pytest.mark.parametrize("text", ["{/*\n" * 50_000, "~" * 50_000 + "\na" * 50_000])
def test_comments_and_code_without_an_end_are_text(text):
    assert text_of(text, "a.md") == text
    assert text_of("~~~\n<!-- a -->\n", "a.md") == "~~~\n<!-- a -->\n"


def test_texts_and_source_files_are_as_they_are_and_go_by_their_names():
    code = "# no heading\nx = 1\n"
    source = load(code.encode(), "lib/main.py", "source")
    assert (source.text, source.kind, source.title) == (code, "text", "main.py")
    assert load(b"words", "logs/today.log", "text").title == "today"


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_table_of_values_has_its_first_row_as_head(separator):
    rows = ["part", "price"], ["KX-2210/B", "4 a|b" if separator != "|" else "4 a"], [], ["", ""]
    content = "\r\n".join(separator.join(row) for row in rows).encode()
    found = load(content, "lists/prices.csv", "table")
    cell = "4 a" if separator == "|" else r"4 a\|b"
    assert found.text == f"| part | price |\n| --- | --- |\n| KX-2210/B | {cell} |"
    assert (found.kind, found.title) == ("markdown", "prices")


def test_separators_in_quotes_do_not_tell_how_a_table_is_separated():
    content = b'"Name, first\nand, last";"Age"\n"Ana, B.";3\n'
    text = "| Name, first and, last | Age |\n| --- | --- |\n| Ana, B. | 3 |"
    assert load(content, "people.csv", "table").text == text


def test_a_cell_of_a_table_may_have_separators_and_lines():
    content = b'part,note\nKX-1,"red, round\nand ""hot""\nand dry"\n'
    assert load(content, "a.csv", "table").text.endswith('| KX-1 | red, round and "hot" and dry |')


def test_a_table_without_rows_has_no_text():
    assert load(b" ,\n,\n", "a.csv", "table").text == ""


def test_a_cell_of_any_length_is_refused():
    with pytest.raises(SourceError, match="not a table"):
        load(b"part\n" + b"x" * 200_000, "a.csv", "table")


def test_a_notebook_is_its_words_and_its_code_without_what_came_out():
    content = notebook(
        ("markdown", "# Load\n\nRead *it*."),
        ("code", "x = 1\nx"),
        ("code", " "),
        ("raw", "left out"),
        ("code", 'print("```")'),
        language="julia",
    )
    assert text_of(content, "a.ipynb") == (
        '# Load\n\nRead *it*.\n\n```julia\nx = 1\nx\n```\n\n````julia\nprint("```")\n````'
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not a notebook: not valid JSON: EOF"),
        ("[]", "not a notebook of format 4"),
        (json.dumps({"cells": "none"}), "not a notebook of format 4"),
    ],
)
def test_what_is_no_notebook_is_refused(content, said):
    assert said in reason(content, "a.ipynb")


def test_cells_of_another_shape_do_not_matter():
    cells = [7, {"cell_type": "code", "source": "x"}, {"cell_type": "markdown", "source": 5}]
    assert text_of(json.dumps({"cells": cells}), "a.ipynb") == "```\nx\n```\n\n"


def test_the_title_of_a_word_document_is_above_its_headings():
    styles = '<w:style w:type="paragraph" w:styleId="Titel"><w:name w:val="Title"/></w:style>'
    content = docx(("Titel", "Lathe"), ("Heading1", "Oil"), ("", "HLP 46."), styles=styles)
    assert text_of(content, "a.docx") == "# Lathe\n\n## Oil\n\nHLP 46."


def test_word_documents_keep_their_headings():
    content = docx(("Heading1", "Leave"), ("", "Ask the_lead *first*."), ("Heading2", "Sick"))
    assert text_of(content, "a.docx") == "# Leave\n\nAsk the_lead *first*.\n\n## Sick"


def test_word_documents_keep_links_lists_tables_and_what_stands_for_pictures():
    cells = "".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in ("Key", "Days"))
    body = f"""{paragraph("Gone", "<w:dstrike/>")}{paragraph("Now", "<w:b/>")}
    <w:tbl><w:tr>{cells}</w:tr><w:tr>{cells}</w:tr></w:tbl>"""
    assert text_of(docx(body=body), "a.docx") == (
        "~~Gone~~\n\n**Now**\n\n| Key | Days |\n| --- | --- |\n| Key | Days |"
    )


def test_a_style_that_lacks_what_it_may_lack_does_not_matter():
    styles = '<w:style w:styleId="Odd"/><w:style w:type="paragraph"/>'
    assert text_of(docx(("Odd", "Text."), styles=styles), "a.docx") == "Text."


@pytest.mark.parametrize(
    ("equation", "latex"),
    [
        (of("f", num="a", den="b"), r"\frac{a}{b}"),
        (of("sSup", e="x", sup="2") + run("+1"), "x^{2}+1"),
        (of("sSubSup", e="x", sub="i", sup="2"), "x_{i}^{2}"),
        (of("rad", deg="", e="n") + of("rad", deg="3", e="m"), r"\sqrt{n}\sqrt[3]{m}"),
        (of("nary", "<m:chr m:val='∑'/>", sub="i=1", sup="n", e="i"), "∑_{i=1}^{n}i"),
        (of("nary", sub="0", sup="1", e="x"), "∫_{0}^{1}x"),
        (of("d", "<m:begChr m:val='['/><m:endChr m:val=']'/>", e="α"), "[α]"),
        (of("func", fName="sin", e="x"), "sin(x)"),
        (of("acc", e="x"), "x\u0302"),
        (of("m", mr=of("e", e="a") + of("e", e="b")), r"\begin{matrix}a&b\end{matrix}"),
        (of("box", e=run("p")), "p"),
    ],
)
def test_equations_of_word_documents_are_latex(equation, latex):
    body = f"<w:p><w:r><w:t>So </w:t></w:r><m:oMath>{equation}</m:oMath></w:p>"
    assert text_of(docx(body=body), "a.docx") == f"So ${latex}$"


def test_a_word_document_that_unpacks_to_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(loading, "MAX_UNPACKED_BYTES", 100)
    assert "100 are read at most" in reason(docx(("", "Text.")), "a.docx")


def test_the_dots_of_a_table_of_contents_are_few():
    page = loaded(pdf("Keys . . . . .", ". . . . . . . 7", "Wait... no.... 8"), "policy.pdf")
    assert " ".join(page.text.split()) == "Keys ... 7 Wait... no... 8"


def test_the_lines_of_a_pdf_are_text():
    page = loaded(pdf("Rotate every key", "within ninety days."), "policy.pdf")
    assert " ".join(page.text.split()) == "Rotate every key within ninety days."
    assert (page.kind, page.title) == ("pages", "policy")


@pytest.mark.parametrize(
    ("name", "said"),
    [("a.docx", "cannot be read as DOCX: BadZipFile"), ("a.pdf", "cannot be read as PDF: ")],
)
def test_a_damaged_document_is_refused_in_one_line(name, said):
    told = reason(b"%PDF-1.4 no more than that", name)
    assert told.startswith(said)
    assert "\n" not in told


def test_a_pdf_with_a_password_is_refused_by_this_reason():
    keys = b"/O (%s) /U (%s) /P -4" % (b"o" * 32, b"u" * 32)
    locked = b"/Encrypt << /Filter /Standard /V 1 /R 2 %s >> /ID [(a) (b)] /Root" % keys
    assert "password" in reason(pdf("Rotate").replace(b"/Root", locked), "a.pdf")


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("a.html", "bs4"),
        ("a.html", "markdownify"),
        ("a.rst", "docutils.core"),
        ("a.docx", "mammoth"),
        ("a.pdf", "pdfminer.high_level"),
    ],
)
def test_what_needs_a_library_that_is_missing_names_the_extra(monkeypatch, name, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match="needs the extra 'docs'"):
        text_of(docx(("", "Text.")), name) if name == "a.docx" else text_of("Text.", name)


@pytest.mark.parametrize("name", ["a.md", "a.txt", "a.py", "a.ipynb"])
def test_markdown_text_and_code_need_no_converter(monkeypatch, name):
    for module in ("markdownify", "docutils", "bs4", "charset_normalizer"):
        monkeypatch.setitem(sys.modules, module, None)
    content = notebook(("markdown", "# A\n\nText.")) if name == "a.ipynb" else b"# A\n\nText."
    assert text_of(content, name) == "# A\n\nText."


def test_libraries_say_nothing_while_they_read(capfd):
    logger = logging.getLogger("pdfminer.test")
    with loading._conversion_errors("PDF"):
        logger.warning("of no interest")
        warnings.warn("of no interest either", stacklevel=1)
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("pdfminer").handlers == []


@given(st.binary(max_size=200), st.sampled_from(["a.md", "a.txt", "a.html", "a.rst", "a.ipynb"]))
def test_any_bytes_are_text_or_refused(content, name):
    try:
        text = text_of(content, name)
    except SourceError as error:
        text = error.reason
        assert text
    assert text.encode().decode() == text
    assert not {"\r", "\0"} & set(text)


PAGE = """<!DOCTYPE html><html><head><title> Set up - Docs </title><style>p {}</style></head>
<body><nav>Home</nav><script>run()</script>
<h1>Set up<a class="headerlink" href="#set-up">¶</a></h1><p>Call <code>get_user</code> *now*.</p>
<pre>make install</pre><footer>All rights</footer></body></html>"""


def html(text, charset=None):
    return loaded(text, "a.html", charset)


def test_a_page_is_its_content_without_what_is_on_every_page():
    page = html(PAGE)
    assert page.text == "# Set up\n\nCall `get_user` *now*.\n\n```\nmake install\n```"
    assert page.title == "Set up - Docs"


def test_the_main_part_of_a_page_is_enough_where_there_is_one():
    assert html("<body><p>Menu</p><main><p>Text.</p></main></body>").text == "Text."
    several = html("<p>One</p><main><p>Two</p></main><main><p>Three</p></main>").text
    assert several.split() == ["One", "Two", "Three"]


def test_the_landmarks_of_a_page_without_such_elements_are_its_roles():
    menu, foot = '<div role="navigation">Menu</div>', '<div role="contentinfo">All rights</div>'
    assert html(f"{menu}<p>Text.</p>{foot}").text == "Text."
    assert html(f'<p>Top</p><div role="main">{menu}<p>Text.</p></div>').text == "Text."
    path, foot = '<div id="breadcrumb-section">Handbook</div>', '<div id="footer">Made by</div>'
    assert html(f"{path}<p>Text.</p>{foot}").text == "Text."
    line = '<div class="page-metadata">Created by Ana, last modified on May 2</div>'
    assert html(f"{line}<p>Text.</p>").text == "Text."
    nested = '<main><div role="main"><p>Text.</p></div></main><p>Beside</p>'
    assert html(nested).text == "Text."


def test_macros_of_confluence_keep_their_code_titles_and_tasks():
    page = html(
        '<ac:structured-macro ac:name="code"><ac:parameter ac:name="language">sh</ac:parameter>'
        '<ac:parameter ac:name="title">Connect</ac:parameter><ac:plain-text-body>'
        "<![CDATA[hblink login\nhblink status > x]]></ac:plain-text-body></ac:structured-macro>"
        "<ac:task-list><ac:task><ac:task-id>1</ac:task-id><ac:task-status>complete"
        "</ac:task-status><ac:task-body>Order it</ac:task-body></ac:task></ac:task-list>"
    )
    assert (
        page.text
        == "Connect\n\n```\nhblink login\nhblink status > x\n```\n\n* complete\n\n  Order it"
    )


def test_a_heading_keeps_its_links_but_not_the_one_to_itself():
    page = html(
        '<h1><a href="/"><img alt="Logo" src="l.png"></a></h1>'
        '<h2>Keys<a href="#keys">#</a></h2><h2><a href="https://x.org">Rotation</a></h2>'
    )
    assert page.text == "# Logo\n\n## Keys\n\n## [Rotation](https://x.org)"


def test_links_and_pictures_within_a_site_are_their_words():
    words = "".join(f'<a href="{to}">{to[:1]}</a> ' for to in ("a.html#b", "#c", "/d", "HTTP://x"))
    assert html(f'<p>{words}<img src="e.gif"><img alt="f" src="f.gif"></p>').text == (
        "a # / [H](HTTP://x) f"
    )


def test_elements_of_a_page_need_no_end_tags():
    assert html("<ul><li>a<li>b<ul><li>c<li>d</ul></ul>e").text == "* a\n* b\n  + c\n  + d\n\ne"
    assert html("<dl><dt>a<dd>b<dt>c<dd>d</dl><h2>e</h2>").text == ("a\n:   b\n\nc\n:   d\n\n## e")
    rows = table(["<th>a</th>", "<th>b</th>"], ["<td>c</td>", "<td>d</td>"])
    assert html("<table><tr><th>a<th>b<tr><td>c<td><p>d</table>").text == rows
    assert html("<p>a<p>b<ol><li><p>c<p>d<li><p>e</ol>").text == ("a\n\nb\n\n1. c\n\n   d\n2. e")


def test_a_long_definition_is_a_section_where_nothing_is_behind_it():
    terms = "<dl><dt>work_mem<a href='#w'>¶</a><dd>{}<dl><dt>unit<dd>kB</dl><dt>jit<dd>On.</dl>"
    long = "Memory of a query. " * 40
    page = html(f"<div>{terms.format(long)}</div><!-- end --><div><h2>More</h2></div>").text
    assert page == (
        f"#### work_mem\n\n{long.strip()}\n\n##### unit\n\nkB\n\n#### jit\n\nOn.\n\n## More"
    )
    assert html(f"<main>{terms.format(long)}</main><p>Foot</p>").text == page.removesuffix(
        "\n\n## More"
    )
    assert "\n##### work_mem\n" in html(f"<h4>Memory</h4>{terms.format(long)}").text
    for definition, behind in (("Memory.", ""), (long, "<p>Restart.</p>")):
        assert "#" not in html(terms.format(definition) + behind).text


def test_a_table_of_contents_is_no_text():
    link = '<li><a href="#{0}">{0}</a>{1}</li>'
    contents = link.format("Keys", f"<ul>{link.format('New ones', '')}</ul>")
    assert html(f"<ol>{contents}{link.format('Locks', '')}</ol><p>Text.</p>").text == "Text."
    described = f"<ul>{link.format('Keys', ': two a head')}{link.format('Locks', '')}</ul>"
    assert html(described).text == "* Keys: two a head\n* Locks"


def test_a_line_of_a_page_that_begins_with_a_number_sign_is_no_heading():
    page = html("<h1>Filters</h1><p>Everything from\n# up to the line's end</p><pre># x</pre>")
    assert page.text == "# Filters\n\nEverything from\n\\# up to the line's end\n\n```\n# x\n```"


def table(*rows, before=""):
    written = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return html(f"<table>{before}{written}</table>").text


def test_a_cell_that_spans_rows_is_repeated_in_each():
    head = [f"<th>{name}</th>" for name in ("System", "Copy", "Owner")]
    first = ['<td rowspan="2">Files</td>', "<td>weekly</td>", '<td rowspan="3">Ana</td>']
    rows = table(head, first, ["<td>monthly</td>"], ["<td colspan=2>None</td>"])
    assert rows.splitlines()[2:] == [
        "| Files | weekly | Ana |",
        "| Files | monthly | Ana |",
        "| None | | Ana |",
    ]


def test_a_table_in_a_cell_is_one_line_of_it():
    inner = (
        "<table><tr><th>C1</th><td>supplies</td></tr>"
        "<tr><th>C2</th><td><a href='/d'>drives</a></td></tr></table>"
    )
    rows = table(["<th>Aisle</th>", "<th>Content</th>"], ["<td>C</td>", f"<td>Boxes{inner}</td>"])
    assert rows.splitlines()[-1] == "| C | Boxes C1, supplies; C2, drives |"


def test_the_button_of_a_heading_that_opens_is_its_text():
    assert html("<h2><button>May I?</button></h2><p>Yes.</p>").text == "## May I?\n\nYes."


@pytest.mark.parametrize("rows", ["<tr>{}</tr>", "<tbody><tr>{}</tr></tbody>"])
def test_code_beside_line_numbers_keeps_its_lines(rows):
    cells = (
        '<td class="linenos"><div><pre>1\n2</pre></div></td>'
        '<td class="code"><div><pre>def f():\n    return 1\n<button>Copy</button></pre></div></td>'
    )
    assert html(f"<table>{rows.format(cells)}</table>").text == "```\ndef f():\n    return 1\n```"


def test_a_table_with_a_number_for_each_line_of_code_stays_a_table():
    rows = [[f'<td class="linenos">{n}</td>', f"<td>line {n}</td>"] for n in (1, 2)]
    assert table(*rows).splitlines()[2:] == ["| 1 | line 1 |", "| 2 | line 2 |"]
    assert html('<td class="linenos">1</td><p>Text.</p>').text.endswith("Text.")


def test_a_cell_spans_no_further_than_its_group_of_rows():
    head = "<tbody><tr><td rowspan=9>Files</td><td>weekly</td></tr></tbody>"
    rows = html(f"<table>{head}<tbody><tr><td>Mail</td><td>daily</td></tr></tbody></table>").text
    assert rows.endswith("| Mail | daily |")


def test_a_long_cell_that_spans_rows_comes_once():
    rows = table([f"<td rowspan='2'>{'long ' * 50}</td>", "<td>a</td>"], ["<td>b</td>"])
    assert (rows.count("long long"), rows.splitlines()[-1]) == (25, "|  | b |")


@pytest.mark.parametrize("before", ["<caption>Loads</caption>", "<colgroup><col></colgroup>"])
def test_a_table_keeps_its_head_below_a_caption(before):
    rows = table(["<th>Lift</th>"], ["<td>1|2</td>"], before=before)
    assert rows.endswith("| Lift |\n| --- |\n| 1\\|2 |")
    assert ("Loads\n\n|" in rows) == ("Loads" in before)


def test_a_page_without_a_title_goes_by_its_file():
    assert html("<p>Text.</p>").title == "a"


@pytest.mark.parametrize("page", [b'<meta charset="iso-8859-7">%s', b"%s"])
def test_a_page_is_read_as_it_or_its_server_says_that_it_is_written(page):
    charset = None if b"meta" in page else "iso-8859-7"
    assert "Ελλάδα" in html(page % "Ελλάδα".encode("iso8859-7"), charset=charset).text


def test_a_page_nested_beyond_reason_is_still_words():
    assert html("<div>" * 3000 + "deep words" + "</div>" * 3000).text == "deep words"


def rst(text):
    return text_of(text, "a.rst")


def test_restructured_text_keeps_headings_lists_tables_and_code():
    text = rst(
        "Title\n=====\n\nPart\n----\n\n* one\n\n.. code-block:: python\n\n   # no heading\n\n"
        "== ==\na  b\n== ==\n1  2\n== ==\n"
    )
    for piece in ("# Title\n", "## Part\n", "* one\n", "```\n# no heading\n```", "| 1 | 2 |"):
        assert piece in text


def test_what_only_sphinx_knows_keeps_its_words(capfd):
    text = rst(
        ".. toctree::\n   :maxdepth: 2\n\n   intro\n\n"
        ".. py:function:: get_user(id)\n   :noindex:\n\n   Gives the *user*.\n\n"
        ".. tab-set::\n\n   .. tab-item:: Linux\n\n      Use the archive.\n\n"
        ".. code-block:: sh\n   :caption: x\n   :emphasize-lines: 1\n\n   make all\n\n"
        "See :ref:`the guide <guide>`, :func:`~lib.get_user` and |release|, or `nowhere`_.\n"
    )
    assert "intro" not in text
    assert "get\\_user" not in text
    for piece in (
        "get_user(id)\n\nGives the *user*.",
        "Linux\n\nUse the archive.",
        "```\nmake all\n```",
        "See the guide, lib.get_user and |release|, or `nowhere`_.",
    ):
        assert piece in text
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "text",
    [
        "==== ===\nbad  table words\n====\n",
        ".. code-block:: sh\n   :number-lines: many\n\n   table words\n",
        "Title\n=====\n\n* item\n\n  words\n  =====\n",
        "Too short\n==\n\nwords\n",
    ],
)
def test_what_is_wrong_in_restructured_text_is_not_lost(text):
    assert "words" in rst(text)


def test_restructured_text_reads_no_other_file(tmp_path):
    (tmp_path / "secret.txt").write_text("the secret", encoding="utf-8")
    (tmp_path / "secret.svg").write_text("<svg><text>the secret</text></svg>", encoding="utf-8")
    text = rst(
        f"Words.\n\n.. include:: {tmp_path}/secret.txt\n\n"
        f".. literalinclude:: {tmp_path}/secret.txt\n\n"
        f".. csv-table::\n   :file: {tmp_path}/secret.txt\n\n"
        f".. image:: {tmp_path}/secret.svg\n   :loading: embed\n   :alt: A picture\n\n"
        ".. raw:: html\n\n   <b>the secret</b>\n"
    )
    assert "Words." in text
    assert "A picture" in text
    assert "the secret" not in text


def test_docutils_knows_no_more_afterwards_than_before():
    found = directives.directive, roles.role
    rst(".. no-such-directive:: words\n\n:no-such-role:`words`\n")
    assert (directives.directive, roles.role) == found


def test_restructured_text_that_docutils_fails_on_is_refused(monkeypatch):
    import docutils.core

    def fail(*_, **__):
        raise RuntimeError("broken\ninside")

    monkeypatch.setattr(docutils.core, "publish_doctree", fail)
    with pytest.raises(SourceError, match="cannot be read as reStructuredText: RuntimeError: brok"):
        rst("Words.")
