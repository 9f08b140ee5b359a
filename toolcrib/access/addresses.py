"""Addresses of the service and the gateway: listening sockets, and loopback hosts."""

from __future__ import annotations

import ipaddress
import os
import socket
from contextlib import ExitStack

from toolcrib.errors import SettingsError


def bind(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes any free port.

    Raises:
        SettingsError: the address is in use, or is not an address of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        with ExitStack() as undo:
            undo.enter_context(made)
            if os.name == "posix":  # On Windows two servers could then have one port.
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            undo.pop_all()
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; "
            "give another --host or --port"
        ) from error
    return made


def url_of(listening: socket.socket) -> str:
    """URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """True for a host name or address of this machine's loopback interface."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_loopback(host: str) -> None:
    """Require that all addresses of a host are loopback addresses.

    Raises:
        SettingsError: other machines could connect without a key.
    """
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, None)} if host else {host}
    except OSError:
        found = {host}
    if not all(map(is_loopback, found)):
        raise SettingsError(
            f"--insecure-local needs a loopback host, and {host!r} is none; "
            "make a key with `toolcrib keys create NAME` and serve without it"
        )
