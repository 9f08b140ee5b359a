"""Addresses that the service and the gateway listen at."""

from __future__ import annotations

import pytest

from toolcrib.access.addresses import bind, is_loopback, require_loopback, url_of
from toolcrib.errors import SettingsError


@pytest.mark.parametrize(("host", "written"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_any_free_port_may_be_taken_and_is_part_of_the_url(host, written):
    with bind(host, 0) as listening:
        assert listening.getsockname()[1] > 0
        assert url_of(listening) == f"http://{written}:{listening.getsockname()[1]}"


def test_a_port_that_is_taken_is_told():
    with bind("127.0.0.1", 0) as listening:
        listening.listen()
        port = listening.getsockname()[1]
        with pytest.raises(SettingsError, match=f"cannot listen on 127.0.0.1 port {port}: "):
            bind("127.0.0.1", port)


def test_an_address_that_is_elsewhere_is_told():
    with pytest.raises(SettingsError, match="cannot listen on no such host"):
        bind("no such host", 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_loopback_is_this_machine_alone(host):
    require_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "no such host"])
def test_everything_else_is_not(host):
    with pytest.raises(SettingsError, match="needs a loopback host"):
        require_loopback(host)


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_this_machine_is_known(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "localhost.evil", "10.1.1.1", "example.org"])
def test_other_machines_are_known(host):
    assert not is_loopback(host)
