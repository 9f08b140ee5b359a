"""A document from a server, or one line that says why there is none and what to do."""

from __future__ import annotations

import socket

import pytest

from tests.indexers.documents.serving import Answer, serving
from toolcrib.clock import ManualClock
from toolcrib.errors import SourceError
from toolcrib.indexers.documents import fetching
from toolcrib.indexers.documents.sources import fetch, is_url


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with serving() as running:
        yield running


def reason(url, clock=None):
    with pytest.raises(SourceError) as caught:
        fetch(url, clock)
    assert caught.value.source == url
    return caught.value.reason


def test_only_web_addresses_are_urls():
    assert is_url("HTTPS://example.org")
    assert is_url("http://example.org/a.md")
    assert not is_url("file:///etc/hosts")
    assert not is_url("docs/http.md")


def test_what_a_server_sends_comes_with_what_it_says_of_it(site):
    got = fetch(site.put("/a%20b.md?v=1", "Text.", "text/plain; charset=KOI8-R"))
    assert (got.content, got.content_type, got.charset) == (b"Text.", "text/plain", "koi8-r")
    assert got.path == "/a b.md"


def test_a_server_need_not_say_anything(site):
    got = fetch(site.put("/a", "Text."))
    assert (got.content_type, got.charset) == ("", None)


def test_an_address_may_be_written_as_people_write_it(site):
    site.put("/%C3%BCber%20uns?q=%C3%A9", "Text.")
    assert fetch(site.url("/über uns?q=é")).content == b"Text."


def test_redirects_are_followed(site):
    site.put("/new.rst", "Text.")
    site.answers["/old"] = Answer(status=302, headers={"Location": "/new.rst"})
    assert fetch(site.url("/old")).path == "/new.rst"


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
        (404, "the server answered 404 Not Found; check the address"),
        (403, "the server answered 403 Forbidden; it wants a sign-in: save the document as a file"),
        (503, "the server answered 503 Service Unavailable; try again later"),
    ],
)
def test_a_server_that_refuses_is_quoted(site, status, said):
    site.answers["/a"] = Answer(status=status)
    assert reason(site.url("/a")).startswith(said)


def test_what_is_too_large_is_not_fetched_to_its_end(site):
    url = site.put("/a.md", b"x" * (fetching.MAX_BYTES + 1))
    assert reason(url).startswith("larger than 20,000,000 bytes")


def test_what_comes_drop_by_drop_is_given_up(site):
    assert reason(site.put("/a.md", "Text."), ManualClock(step=30)).startswith("not here within 20")


def test_a_server_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(fetching, "TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/a.md"
        assert reason(url).startswith("not here within")


def test_a_connection_that_breaks_is_no_document(site):
    url = site.put("/a.md", "Text.", **{"Content-Length": "100"})
    assert reason(url) == "broke off after 5 of 100 bytes; try again"
    site.put("/b.md", "64\r\nText.", **{"Transfer-Encoding": "chunked"})
    assert "check the address" in reason(site.url("/b.md"))


def test_a_server_that_is_not_there_is_said_to_be_out_of_reach(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    assert "check the address and the network" in reason(f"http://127.0.0.1:{port}/a.md")


@pytest.mark.parametrize("url", ["http://", "http://[", "http://a:b", f"http://{'x' * 70}.org"])
def test_what_is_no_address_is_refused(url):
    assert reason(url)
