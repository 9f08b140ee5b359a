"""The console's files over HTTP: whole, to anybody, and with nothing from elsewhere."""

from __future__ import annotations

import re

import pytest

from toolcrib.http import app

FILES = sorted(path.name for path in app.CONSOLE.iterdir() if path.is_file())


@pytest.fixture
def anybody(service):
    with service.anonymous() as client:
        yield client


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_served_as_it_is_and_the_page_at_the_root(anybody, name):
    answer = anybody.get("/" if name == "index.html" else f"/{name}")
    assert answer.status_code == 200
    assert answer.content == (app.CONSOLE / name).read_bytes()


def test_nothing_but_our_own_files_may_be_loaded(anybody):
    for path in ("/", f"/{FILES[0]}"):
        headers = anybody.get(path).headers
        rules = dict(
            rule.strip().split(" ", 1) for rule in headers["content-security-policy"].split(";")
        )
        assert rules["default-src"] == "'self'"
        assert rules["object-src"] == "'none'"
        assert not any("unsafe" in rule or "data:" in rule for rule in rules.values())
        assert rules["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert anybody.get("/").headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=", anybody.get("/").text)


def test_what_has_not_changed_is_not_sent_again(anybody):
    tag = anybody.get("/").headers["etag"]
    for known in (tag, f"W/{tag}", f'"old", {tag}'):
        again = anybody.get("/", headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
    assert anybody.get("/", headers={"If-None-Match": '"old"'}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/nothing.js", "/../index.html", "/%2e%2e/__init__.py", "/static/"]
)
def test_nothing_else_is_served(anybody, path):
    assert anybody.get(path).status_code == 404


def test_pages_are_not_written_to(anybody):
    assert anybody.post("/").status_code == 405


def test_without_its_files_there_is_no_console(monkeypatch, tmp_path):
    monkeypatch.setattr(app, "CONSOLE", tmp_path / "nothing")
    assert app._console() == []
