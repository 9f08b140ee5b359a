"""Where a service is, and what every request to it carries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import SplitResult, urlsplit

from toolcrib.errors import SettingsError

__all__ = ["Address"]

FIT_FOR_HEADERS = re.compile(r"[\x21-\x7e]+")

EXAMPLE = "write it like https://tools.example.org"


@dataclass(frozen=True, slots=True)
class Address:
    """A service's base URL, without a slash at its end, and the headers of every request.

    The headers hold the key: they are never shown.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, url: str, api_key: str | None, namespace: str | None) -> Self:
        """The address that a user gives.

        Raises:
            SettingsError: it is no URL of a service, or a header cannot carry the rest.
        """
        headers = {"Accept": "application/json", "User-Agent": "toolcrib"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {_fit('api_key', api_key)}"
        if namespace is not None:
            headers["Toolcrib-Namespace"] = _fit("namespace", namespace)
        return cls(_checked(url), headers)


def _checked(url: str) -> str:
    parts = _split(url)
    if parts.username is not None or parts.password is not None:
        raise SettingsError(
            "the URL of the service holds a user's name or password; leave them out, and give "
            "the key as api_key",
        )
    if parts.query or parts.fragment:
        raise SettingsError(f"{url!r} has something behind its path; {EXAMPLE}")
    return url.rstrip("/")


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise SettingsError(
        f"{_without_secrets(url)!r} is not the URL of a service; {EXAMPLE}, or use Crib.open for "
        "a folder",
    )


def _without_secrets(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)


def _fit(name: str, value: str) -> str:
    """A value as it is, if a header can carry it; it may be a secret, so it is not shown."""
    if FIT_FOR_HEADERS.fullmatch(value) is None:
        raise SettingsError(
            f"{name}: empty, or with characters that no {name} has (spaces, line ends, accents)",
        )
    return value
