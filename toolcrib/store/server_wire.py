"""Requests to a Qdrant server: sent, tried again where that can help, their failures made ours."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast
from urllib.parse import urlsplit

import httpx
from pydantic import ValidationError
from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import (
    ApiException,
    ResponseHandlingException,
    UnexpectedResponse,
)

from toolcrib.errors import StoreError, StoreUnavailableError, StoreWriteError

__all__ = ["API_KEY_SETTING", "MIN_SERVER", "Wire", "connect", "shown"]

API_KEY_SETTING = "TOOLCRIB_SERVER__API_KEY"
MIN_SERVER = (1, 19)
"""Older servers leave out `params.idf` without a word: scores would then tell a caller about
points outside its scope."""

TRIES = 3
FIRST_PAUSE_S = 0.2

_TOO_BUSY = frozenset({429, 502, 503, 504})
_START_IT = "start it with `docker compose up -d`"
_MAX_WORDS = 300

Answer = TypeVar("Answer")
Given = ParamSpec("Given")


def connect(url: str, api_key: str | None, timeout_s: float) -> QdrantClient:
    """A client for the URL; nothing is sent yet. Seconds are rounded up to whole ones.

    Raises:
        StoreError: the text is not the URL of a server.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise StoreError(
            f"{shown(url)!r} is not the URL of a Qdrant server; "
            "write it like http://localhost:6333",
        )
    # The type of `timeout` says int; the client rounds up itself.
    timeout = cast("int", timeout_s)
    return QdrantClient(url=url, api_key=api_key, timeout=timeout, check_compatibility=False)


def shown(url: str) -> str:
    """The URL without a user's name and password, fit for messages and logs."""
    return re.sub(r"//[^/@]*@", "//", url)


class Wire:
    """Sends requests over one client.

    `place`: the server as messages name it. `pause`: called with seconds between two tries.
    """

    def __init__(
        self,
        client: QdrantClient,
        place: str,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.place = place
        self._client: QdrantClient | None = client
        self._pause = pause

    @property
    def client(self) -> QdrantClient:
        """The client.

        Raises:
            StoreError: the store is closed.
        """
        if self._client is None:
            raise StoreError(f"the store at {self.place} is closed")
        return self._client

    def ask(
        self,
        what: str,
        call: Callable[Given, Answer],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Answer:
        """Make the call, up to three times; `what` says in messages what was being done.

        Everything a store does can be repeated without harm. A call that timed out is not
        repeated: it has had its time.

        Raises:
            StoreUnavailableError: no answer, or the server says that it is too busy.
            StoreWriteError: the server's disk is full.
            StoreError: the server refused; the message has its words.
        """
        for attempt in range(1, TRIES + 1):
            try:
                return call(*args, **kwargs)
            except (ApiException, QdrantException, ValueError, KeyError) as failure:
                if attempt == TRIES or not _may_pass(failure):
                    raise self._explained(what, failure) from failure
                self._pause(_pause_s(attempt, failure))
        raise AssertionError("unreachable: the last try returns or raises")

    def another(self) -> Wire:
        """A second one over the same client; closing either leaves the other as it is."""
        return Wire(self.client, self.place, self._pause)

    def close(self, *, client_too: bool) -> None:
        """Take no more calls; a second call does nothing."""
        client, self._client = self._client, None
        if client is not None and client_too:
            client.close()

    def require_version(self) -> str:
        """The server's version.

        Raises:
            StoreError: it is older than `MIN_SERVER`, or not a Qdrant server.
        """
        version = self.ask("asking for its version", self.client.info).version
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers is None or (int(numbers[1]), int(numbers[2])) < MIN_SERVER:
            wanted = ".".join(map(str, MIN_SERVER))
            raise StoreError(
                f"the Qdrant server at {self.place} has version {version}; "
                f"toolcrib needs {wanted} or newer: update it (docker-compose.yml pins one)",
            )
        return version

    def _explained(self, what: str, failure: Exception) -> StoreError:
        server = f"the Qdrant server at {self.place}"
        if isinstance(failure, ResponseHandlingException):
            return _silence(server, what, failure.source)
        if isinstance(failure, ResourceExhaustedResponse):
            return StoreUnavailableError(f"{server} is too busy for {what}: {failure}; try later")
        if isinstance(failure, UnexpectedResponse):
            return _refusal(server, what, failure)
        if isinstance(failure, json.JSONDecodeError):
            return _silence(server, what, failure)
        return StoreError(f"{server} gave no usable answer when {what}: {_gist(failure)}")


def _silence(server: str, what: str, source: Exception) -> StoreError:
    if isinstance(source, httpx.TimeoutException):
        return StoreUnavailableError(
            f"{server} did not answer in time when {what}: {_START_IT}, or raise server.timeout_s",
        )
    if isinstance(source, httpx.TransportError):
        reason = _gist(source) or type(source).__name__
        return StoreUnavailableError(
            f"{server} cannot be reached ({reason}) when {what}: {_START_IT}, or correct the URL",
        )
    return StoreError(
        f"{server} did not answer as Qdrant does when {what} ({_gist(source)}): "
        "check that the URL is that of a Qdrant server",
    )


def _refusal(server: str, what: str, response: UnexpectedResponse) -> StoreError:
    status, words = response.status_code, _words(response)
    if status in (401, 403):
        return StoreError(
            f"{server} refused the API key ({status}: {words}) when {what}: "
            f"set {API_KEY_SETTING} to a key that may do this",
        )
    if status in _TOO_BUSY:
        return StoreUnavailableError(f"{server} is too busy for {what} ({status}: {words})")
    if "No space left" in words:
        return StoreWriteError(f"{server} has no space left for {what} ({words}): free some")
    return StoreError(f"{server} refused {what} ({status}: {words})")


def _words(response: UnexpectedResponse) -> str:
    """What the server says is wrong, whether or not it said so in Qdrant's form."""
    text = response.content.decode("utf-8", "replace").strip()
    try:
        body: Any = json.loads(text)
        text = str(body["status"]["error"])
    except (ValueError, KeyError, TypeError):
        pass
    return text[:_MAX_WORDS] or response.reason_phrase or "no reason given"


def _gist(failure: Exception) -> str:
    if isinstance(failure, ValidationError):
        fault = failure.errors()[0]
        # The first place is the client's own name for the whole answer.
        return f"{'.'.join(map(str, fault['loc'][1:]))}: {fault['msg']}"[:_MAX_WORDS]
    return str(failure).strip().partition("\n")[0][:_MAX_WORDS]


def _may_pass(failure: Exception) -> bool:
    if isinstance(failure, ResponseHandlingException):
        source = failure.source
        lost = isinstance(source, httpx.TransportError)
        return lost and not isinstance(source, httpx.TimeoutException)
    if isinstance(failure, UnexpectedResponse):
        return failure.status_code in _TOO_BUSY
    return isinstance(failure, ResourceExhaustedResponse)


def _pause_s(attempt: int, failure: Exception) -> float:
    """Doubling, with a random part, so that many clients do not come back at one moment."""
    pause = FIRST_PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)  # noqa: S311
    if isinstance(failure, ResourceExhaustedResponse):
        return min(max(pause, failure.retry_after_s), 5.0)
    return pause
