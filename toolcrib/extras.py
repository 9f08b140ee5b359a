"""Extras: imports packages on first use; an error about a missing package names its extra."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from toolcrib.errors import MissingExtraError, SettingsError


@contextmanager
def needs_extra(feature: str, extra: str) -> Generator[None]:
    """Turn an ImportError within into the error that names the extra.

    Raises:
        MissingExtraError: the extra is not installed; `feature` is what needed it.
    """
    try:
        yield
    except ImportError as missing:
        raise MissingExtraError(feature, extra) from missing


def import_extra(module: str, feature: str, extra: str) -> Any:
    """Import a module of an extra; untyped, as such packages bring few types.

    Raises:
        MissingExtraError: the extra is not installed; `feature` is what needed it.
    """
    with needs_extra(feature, extra):
        return importlib.import_module(module)


@contextmanager
def makes_http_client(place: str) -> Generator[None]:
    """Turn a failure to make an HTTP client for `place` into an error of settings.

    Clients read proxies and certificates from the environment, and refuse some with other errors.

    Raises:
        SettingsError: a variable names an unusable proxy or certificate file, or the URL is wrong.
    """
    try:
        yield
    except Exception as error:  # httpx's InvalidURL is none of the builtin kinds
        raise SettingsError(
            f"no client for {place} can be made ({error}); correct the URL, or the variables for "
            "proxies and certificates (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE)"
        ) from error


@contextmanager
def quiet_loggers(*names: str) -> Generator[None]:
    """Keep libraries' log records off the screen of an application that configured no logging.

    Python prints warnings of loggers without a handler to stderr. A null handler prevents the
    output; an application with its own handlers still gets every record.
    """
    handler = logging.NullHandler()
    for name in names:
        logging.getLogger(name).addHandler(handler)
    try:
        yield
    finally:
        for name in names:
            logging.getLogger(name).removeHandler(handler)


def require_extra(package: str, feature: str, extra: str) -> None:
    """Check that a package is installed, without importing it.

    Raises:
        MissingExtraError: the package is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise MissingExtraError(feature, extra)
