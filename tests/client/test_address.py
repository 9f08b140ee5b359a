"""Where a service is: what is taken for its URL, and that its key is never shown."""

from __future__ import annotations

import pytest

from toolcrib.client import RemoteCrib
from toolcrib.client.address import Address
from toolcrib.errors import SettingsError


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://tools.example.org", "https://tools.example.org"),
        ("https://tools.example.org/", "https://tools.example.org"),
        ("http://localhost:8642//", "http://localhost:8642"),
        ("https://example.org/agents/tools/", "https://example.org/agents/tools"),
        ("http://[::1]:8642", "http://[::1]:8642"),
    ],
)
def test_a_url_is_taken_with_its_path_and_without_a_slash_at_its_end(url, base):
    assert Address.of(url, None, None).url == base


@pytest.mark.parametrize(
    "url",
    [
        "",
        "tools",
        "./tools",
        "/var/lib/tools",
        ":memory:",
        "tools.example.org",
        "localhost:8642",
        "ftp://example.org",
        "https://",
        "https://:8642",
        "https://example.org:http",
        "https://example.org:0",
        "https://[::1",
    ],
)
def test_what_is_no_url_of_a_service_is_refused_with_what_else_there_is(url):
    with pytest.raises(SettingsError, match=r"is not the URL of a service.*Crib\.open"):
        Address.of(url, None, None)


def test_a_url_with_more_behind_its_path_is_refused():
    for url in ("https://example.org/?key=1", "https://example.org/#v1"):
        with pytest.raises(SettingsError, match="something behind its path"):
            Address.of(url, None, None)


@pytest.mark.parametrize("url", ["https://ana:geheim@example.org", "ftp://ana:geheim@example.org"])
def test_a_password_in_a_url_is_refused_and_not_repeated(url):
    with pytest.raises(SettingsError) as caught:
        Address.of(url, None, None)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("key", ["", " ", "tc_a b", "tc_é", "tc_a\r\nX-More: 1"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_repeated(key):
    with pytest.raises(SettingsError, match=r"^api_key: ") as caught:
        Address.of("https://example.org", key, None)
    assert key.strip() == "" or key not in str(caught.value)


def test_a_namespace_that_no_header_can_carry_is_refused():
    with pytest.raises(SettingsError, match=r"^namespace: "):
        Address.of("https://example.org", None, "tenant\n1")


def test_without_a_key_none_is_sent():
    headers = Address.of("https://example.org", None, None).headers
    assert headers.keys() == {"Accept", "User-Agent"}


def test_the_key_is_never_shown():
    address = Address.of("https://example.org", "tc_geheim", "ours")
    assert address.headers["Authorization"] == "Bearer tc_geheim"
    with RemoteCrib("https://example.org", api_key="tc_geheim") as crib:
        assert repr(crib) == "RemoteCrib('https://example.org')"
    assert "geheim" not in repr(address)


@pytest.mark.parametrize(("timeout_s", "attempts"), [(0, 4), (-1, 4), (float("nan"), 4), (1, 0)])
def test_there_must_be_time_and_an_attempt(timeout_s, attempts):
    with pytest.raises(SettingsError, match="more than 0 seconds and at least 1 attempt"):
        RemoteCrib("https://example.org", timeout_s=timeout_s, attempts=attempts)
