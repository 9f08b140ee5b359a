"""Evaluation reports over HTTP."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    for number, name in enumerate(("old.html", "new report.html", "notes.txt", ".hidden.html")):
        (folder / name).write_text(f"<p>{name}</p><script>alert(1)</script>")
        os.utime(folder / name, (1_000 + number, 1_000 + number))
    (folder / "sub.html").mkdir()
    (folder / "link.html").symlink_to(folder / "notes.txt")
    return folder


@pytest.fixture(scope="module")
def shown(start, folder):
    with start(reports=str(folder)) as started:
        yield started


def test_reports_are_listed_newest_first(shown):
    with shown.client(access="read") as client:
        found = client.get("/v1/reports").json()["reports"]
    assert [each["name"] for each in found] == ["new report.html", "old.html"]
    assert (found[1]["modified"], found[1]["bytes"]) == (1000.0, 40)


def test_a_report_is_shown_without_being_trusted(shown):
    with shown.client() as client:
        answer = client.get("/v1/reports/new%20report.html")
    assert answer.text.startswith("<p>new report.html</p>")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "script-src" not in policy


@pytest.mark.parametrize(
    "name",
    [
        "nothing.html",
        "notes.txt",
        ".hidden.html",
        "sub.html",
        "link.html",
        "..%2Freports%2Fold.html",
        "%2Fetc%2Fpasswd",
        "old.html%0A",
        "old.html%00",
    ],
)
def test_nothing_but_reports_is_shown(shown, name):
    with shown.client() as client:
        assert client.get(f"/v1/reports/{name}").status_code == 404


def test_a_key_that_does_not_see_all_sees_no_report(shown):
    for grant in ({"servers": {"mail"}}, {"namespaces": ("other",)}):
        with shown.client(**grant) as client:
            assert client.get("/v1/reports").json() == {"reports": []}
            assert client.get("/v1/reports/old.html").status_code == 404


def test_without_a_folder_there_are_none(service):
    with service.client() as client:
        assert client.get("/v1/reports").json() == {"reports": []}
        assert client.get("/v1/reports/old.html").status_code == 404
