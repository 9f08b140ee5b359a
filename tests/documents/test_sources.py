"""Whatever is named gives passages, or a refusal that says why there are none."""

from __future__ import annotations

import logging
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.documents.making import docx, notebook, pdf
from tests.documents.serving import Answer, serving
from toolcrib.clock import ManualClock
from toolcrib.documents import sources
from toolcrib.documents.chunking import approximate_tokens
from toolcrib.documents.sources import fetch, passages
from toolcrib.errors import MissingExtraError
from toolcrib.records import Passage, Refusal


def write(folder, **files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def read(source, max_tokens=200, **options):
    """Give the passages of a source and its refusals."""
    found = list(passages(source, collection="handbook", max_tokens=max_tokens, **options))
    refused = [item for _, item in found if isinstance(item, Refusal)]
    assert [where for where, item in found if isinstance(item, Refusal)] == [
        refusal.source for refusal in refused
    ]
    return [item for _, item in found if isinstance(item, Passage)], refused


def below(folder, found):
    """Give the documents of passages as they lie in a folder."""
    return [Path(passage.document).relative_to(folder).as_posix() for passage in found]


def reasons(source):
    found, refused = read(source)
    assert found == []
    return [refusal.reason for refusal in refused]


def test_a_file_becomes_passages_that_say_where_they_stand(tmp_path):
    write(tmp_path, **{"leave.md": "# Leave\n\nAsk first.\n\n## Sick\n\nCall in.\n"})
    file = str(tmp_path / "leave.md")
    assert list(passages(Path(file), collection="handbook", max_tokens=200)) == [
        (file, Passage("handbook", file, "Ask first.", ("Leave",), 0, 9)),
        (file, Passage("handbook", file, "Call in.", ("Leave", "Sick"), 1, 30)),
    ]


@pytest.mark.slow
def test_a_document_is_called_as_it_was_named(tmp_path, monkeypatch):
    write(tmp_path, **{"docs/team/leave.md": "Ask first."})
    monkeypatch.chdir(tmp_path)
    for named in ("docs", "./docs/", "docs/team/leave.md", "docs/../docs/team"):
        found, _ = read(named)
        assert [passage.document for passage in found] == ["docs/team/leave.md"]


def test_documents_of_every_kind_are_read_from_one_folder(tmp_path):
    write(
        tmp_path,
        **{
            "a.md": "# Words of a\n\nkeys",
            "b.rst": "Words of b\n==========\n\nkeys",
            "c.html": "<h1>Words of c</h1><p>keys</p>",
            "d.txt": "keys",
            "e.pdf": pdf("keys"),
            "f.docx": docx(("Heading1", "Words of f"), ("", "keys")),
            "g.ipynb": notebook(("markdown", "# Words of g\n\nkeys")),
            "h.py": "keys",
        },
    )
    found, refused = read(tmp_path)
    assert refused == []
    assert [(Path(p.document).name, p.title, p.text.strip()) for p in found] == [
        ("a.md", ("Words of a",), "keys"),
        ("b.rst", ("Words of b",), "keys"),
        ("c.html", ("Words of c",), "keys"),
        ("d.txt", ("d",), "keys"),
        ("e.pdf", ("e", "page 1"), "keys"),
        ("f.docx", ("Words of f",), "keys"),
        ("g.ipynb", ("Words of g",), "keys"),
        ("h.py", ("h.py",), "keys"),
    ]


def test_the_citation_of_a_passage_of_a_pdf_names_the_page_on_which_it_begins(tmp_path):
    lines = ["Cover", "\f", "\f", *["Rotate every key within ninety days."] * 30, "\f", "Revoke."]
    write(tmp_path, **{"keys.pdf": pdf(*lines)})
    found, _ = read(tmp_path)
    assert [passage.title for passage in found] == [("keys", "page 1"), *[("keys", "page 3")] * 2]
    assert "keys › page 3 (" in found[-1].citation
    assert found[-1].text.endswith("Revoke.")


def test_a_folder_is_walked_in_order_and_without_what_is_no_document(tmp_path):
    files = ["b/two.md", "a.txt", ".hidden.md", ".git/x.md", "node_modules/x.md", "x.png", "x.ts"]
    write(tmp_path, **dict.fromkeys(files, "Text."))
    write(tmp_path, **{"b/one.md": "Text.", "x.ts": b"G\0\0", "pkg/__init__.py": "\n"})
    found, refused = read(str(tmp_path))
    assert below(tmp_path, found) == ["a.txt", "b/one.md", "b/two.md"]
    assert refused == []


def test_files_of_no_known_kind_are_counted_in_the_log(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    write(tmp_path, **dict.fromkeys(["a.md", "a.xls", "b/b.xls", "b/README", ".x.xls"], "Text."))
    read(tmp_path)
    [record] = caplog.records
    assert record.args == (tmp_path, "files of no known kind", ".xls (2), no ending (1)")


def test_binary_and_minified_files_of_a_known_kind_are_counted_in_the_log(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    index = "Search.setIndex({" + "word:[1,2]," * 90 + "})\n"
    write(
        tmp_path, **{"a.md": "Text.", "b.md": b"a\0", "b/c.html": b"\0", "d.py": "", "e.js": index}
    )
    read(tmp_path)
    [record] = caplog.records
    assert record.args == (
        tmp_path,
        "binary, minified or empty files",
        ".html (1), .js (1), .md (1), .py (1)",
    )


def test_a_bad_file_does_not_lose_the_good_ones(tmp_path):
    write(tmp_path, **{"a.docx": "no zip", "b.md": "Text.", "c.ipynb": "{", "d.md": "# Alone"})
    found, refused = read(tmp_path)
    assert below(tmp_path, found) == ["b.md"]
    assert [Path(refusal.source).name for refusal in refused] == ["a.docx", "c.ipynb", "d.md"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.exe", b"MZ", "a file of no known kind; documents"),
        ("a.md", b"\0", "holds NUL bytes"),
        ("a.txt", b" \n", "holds no text"),
        ("a.py", b"", "holds no text"),
        ("a.md", b"# Alone", "holds no text beside its headings"),
        ("a.pdf", pdf(), "holds no text; if it was scanned"),
    ],
)
def test_a_file_that_was_named_is_read_or_refused(tmp_path, name, content, said):
    write(tmp_path, **{name: content})
    (reason,) = reasons(tmp_path / name)
    assert reason.startswith(said)


@pytest.mark.parametrize("name", ["nowhere.md", "nowhere", "a\0b.md", "x" * 5000])
def test_what_is_not_there_is_refused(tmp_path, name):
    assert reasons(f"{tmp_path}/{name}") == ["there is no such file or folder"]


def test_a_list_of_names_is_refused():
    ((_, refusal),) = passages(["a.md"], collection="docs", max_tokens=200)
    assert "list" in refusal.reason


def test_a_folder_without_documents_is_refused(tmp_path):
    write(tmp_path, **{"x.png": "no text"})
    (reason,) = reasons(tmp_path)
    assert reason.startswith("the folder holds nothing that is read; documents (.md")


def test_a_file_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_DOCUMENT_BYTES", 1_000)
    write(tmp_path, **{"a.md": "x" * 1_001})
    assert reasons(tmp_path) == ["larger than 1,000 bytes, the most that is read"]


def test_links_inside_a_folder_are_followed_and_those_out_of_it_refused(tmp_path):
    write(tmp_path, **{"docs/a.md": "Text.", "secret.md": "Text."})
    (tmp_path / "docs" / "b.md").symlink_to("a.md")
    (tmp_path / "docs" / "c.md").symlink_to("../secret.md")
    (tmp_path / "docs" / "d.md").symlink_to("gone.md")
    (tmp_path / "docs" / "e.md").symlink_to("e.md")
    found, refused = read(tmp_path / "docs")
    assert below(tmp_path / "docs", found) == ["a.md", "b.md"]
    causes = [refusal.reason.partition(";")[0] for refusal in refused]
    assert causes == ["a link out of the folder", "not a file", "not a file"]
    # Each stands for its own document alone, so that --prune can remove others.
    assert all(refusal.source == refusal.place for refusal in refused)


def test_a_link_to_a_folder_is_refused_only_where_it_leads_out(tmp_path):
    write(tmp_path, **{"docs/sub/a.md": "Text.", "other/b.md": "Text."})
    (tmp_path / "docs" / "again").symlink_to("sub")
    (tmp_path / "docs" / "self").symlink_to(".")
    (tmp_path / "docs" / "out").symlink_to("../other")
    (tmp_path / "docs" / ".hidden").symlink_to("../other")
    found, [refusal] = read(tmp_path / "docs")
    assert below(tmp_path / "docs", found) == ["sub/a.md"]
    assert (Path(refusal.source).name, "link" in refusal.reason) == ("out", True)
    assert refusal.place == refusal.source


def test_an_address_of_another_kind_is_refused_as_one():
    (reason,) = reasons("ftp://127.0.0.1/a.md")
    assert "https://" in reason


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "a.md")
    assert reasons(tmp_path) == ["not a file"]


def test_a_name_that_is_no_text_is_spelled_as_far_as_it_can_be(tmp_path):
    (tmp_path / os.fsdecode(b"caf\xe9.md")).write_text("Text.", encoding="utf-8")
    ((passage,), _) = read(tmp_path)
    assert (Path(passage.document).name, passage.title) == ("caf\ufffd.md", ("caf\ufffd",))


def test_what_may_not_be_read_is_refused(tmp_path, monkeypatch):
    def deny(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    def walk(folder, onerror):
        onerror(PermissionError(13, "Permission denied", str(folder)))
        return iter(())

    write(tmp_path, **{"a.md": "Text."})
    monkeypatch.setattr(Path, "open", deny)
    assert reasons(tmp_path / "a.md") == ["cannot be read: Permission denied"]
    monkeypatch.setattr(sources.os, "walk", walk)
    assert reasons(tmp_path) == ["cannot be read: Permission denied"]


def test_passages_are_numbered_and_as_large_as_was_asked(tmp_path):
    write(tmp_path, **{"a.txt": " ".join(f"word{n}" for n in range(100))})
    found, _ = read(tmp_path, max_tokens=20)
    assert [p.position for p in found] == list(range(len(found)))
    assert all(10 < approximate_tokens(p.text) <= 20 for p in found)
    with pytest.raises(ValueError, match="at least one token"):
        read(tmp_path, max_tokens=0)


def test_without_the_splitter_nothing_can_be_read(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "semantic_text_splitter", None)
    with pytest.raises(MissingExtraError, match="needs the extra 'docs'"):
        list(passages(tmp_path, collection="handbook", max_tokens=200))


def test_without_a_converter_the_other_documents_are_still_read(tmp_path, monkeypatch):
    write(tmp_path, **{"path/mammoth.py": "raise ImportError", "docs/b.md": "Text."})
    write(tmp_path, **{"docs/a.docx": docx(("", "keys"))})
    monkeypatch.syspath_prepend(tmp_path / "path")
    found, (refusal,) = read(tmp_path / "docs")
    assert below(tmp_path, found) == ["docs/b.md"]
    assert refusal.reason.startswith("reading documents needs the extra 'docs'")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def site():
    with serving() as running:
        yield running


def test_a_url_is_its_document_wherever_it_leads(site):
    site.put("/guide/set%20up.md", "Ask first.", "text/plain")
    site.answers["/old"] = Answer(status=301, headers={"Location": "/guide/set%20up.md"})
    url = site.url("/old")
    [passage], _ = read(url)
    assert passage == Passage("handbook", url, "Ask first.", ("set up",), 0, 0)


def test_a_place_in_a_page_is_no_document_of_its_own(site):
    site.put("/guide.md", "Ask first.", "text/markdown")
    [passage], _ = read(site.url("/guide.md#who"))
    assert passage.document == site.url("/guide.md")


def test_a_url_without_a_document_is_refused(site):
    assert reasons(site.url("/gone"))[0].startswith("the server answered 404")
    [picture] = reasons(site.put("/logo", b"\x89PNG", "image/png"))
    assert picture.startswith("the server sent image/png; documents")
    assert "a kind that it does not name" in reasons(site.put("/x", b"x"))[0]


def reason(url, clock=None):
    refusal = fetch(url, clock)
    assert isinstance(refusal, Refusal)
    assert (refusal.source, refusal.place) == (url, "")
    return refusal.reason


def test_what_a_server_sends_comes_with_what_it_says_of_it(site):
    got = fetch(site.put("/a%20b.md?v=1", "Text.", "text/plain; charset=KOI8-R"))
    assert (got.content, got.kind, got.charset) == (b"Text.", "markdown", "koi8-r")
    assert got.path == "/a b.md"


def test_an_address_may_be_written_as_people_write_it(site):
    site.put("/%C3%BCber%20uns?q=%C3%A9", "Text.", "text/plain")
    assert fetch(site.url("/über uns?q=é")).content == b"Text."


@pytest.mark.parametrize(
    ("elsewhere", "said"),
    [
        ("ftp://127.0.0.1/a.md", "unknown url type: ftp"),
        ("file:///etc/hosts", "Redirection to url 'file:///etc/hosts' is not allowed"),
    ],
)
def test_a_redirect_leads_nowhere_but_to_the_web(site, elsewhere, said):
    site.answers["/old"] = Answer(status=302, headers={"Location": elsewhere})
    assert said in reason(site.url("/old"))


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, "404 Not Found; check the address"),
        (403, "403 Forbidden; it wants a sign-in"),
        (503, "503 Service Unavailable; try again later"),
    ],
)
def test_a_server_that_refuses_is_quoted(site, status, said):
    site.answers["/a"] = Answer(status=status)
    assert reason(site.url("/a")).startswith(f"the server answered {said}")


def test_what_is_too_large_is_not_fetched_to_its_end(site):
    url = site.put("/a.md", b"x" * (sources.MAX_FETCHED_BYTES + 1))
    assert reason(url).startswith("larger than 20,000,000 bytes")


def test_what_comes_drop_by_drop_is_given_up(site):
    assert reason(site.put("/a.md", "Text."), ManualClock(step=30)).startswith("not here within 20")


def test_a_server_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(sources, "PAGE_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/a.md"
        assert reason(url).startswith("not here within")


def test_a_connection_that_breaks_is_no_document(site):
    url = site.put("/a.md", "Text.", **{"Content-Length": "100"})
    assert reason(url) == "broke off after 5 of 100 bytes; try again"
    site.put("/b.md", "64\r\nText.", **{"Transfer-Encoding": "chunked"})
    assert "check the address" in reason(site.url("/b.md"))


def test_a_server_that_is_not_there_is_said_to_be_out_of_reach():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    assert "check the address and the network" in reason(f"http://127.0.0.1:{port}/a.md")


@pytest.mark.parametrize("url", ["http://", "http://[", "http://a:b", f"http://{'x' * 70}.org"])
def test_what_is_no_address_is_refused(url):
    assert reason(url)
