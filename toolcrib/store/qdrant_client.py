"""Connection to a Qdrant server: requests with retries; failures become our errors."""

from __future__ import annotations

import json
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import cache, partial
from time import sleep
from typing import Any, ParamSpec, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import ValidationError

from toolcrib.errors import (
    MissingExtraError,
    StoreError,
    StoreReadOnlyError,
    StoreUnavailableError,
    StoreWriteError,
)
from toolcrib.extras import makes_http_client
from toolcrib.retries import Retries

try:
    import httpx
    from qdrant_client import QdrantClient, models
    from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
    from qdrant_client.http.exceptions import (
        ApiException,
        ResponseHandlingException,
        UnexpectedResponse,
    )
except ModuleNotFoundError as missing:
    raise MissingExtraError("a Qdrant server", "server") from missing

logger = logging.getLogger(__name__)

OWN_META_KEY = "toolcrib"
"""Key in the metadata of a collection that toolcrib made."""

API_KEY_SETTING = "TOOLCRIB_SERVER__API_KEY"
MIN_SERVER_VERSION = (1, 19)
"""Older servers silently ignore `params.idf`: scores would then depend on points outside a caller's
scope."""

MAX_BATCH_BYTES = 4 * 2**20
"""By default a server refuses bodies above 32 MB; many proxies refuse those above 8 MB."""

RETRIES = Retries(attempts=3, first_pause_s=0.2, max_pause_s=5.0, jitter_s=0.2)

_BUSY_STATUSES = frozenset({408, 429, 502, 503, 504})

_CLUSTER_FAULT = re.compile(r"operations failed|[Ss]hard \S{1,64} not found")
"""Words of a transient status 500: a node lacks a new collection or a shard, or a peer is down."""

CLUSTER_PAUSE_S = 1.0
"""Pause after a cluster fault: a new collection reaches all nodes in two seconds."""

NODE_CHECK_PAUSE_S, MAX_NODE_CHECKS = 0.2, 150
"""Pause between checks of all nodes for a new collection, and most checks: 30 seconds in all."""

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

_NO_WRITE_ACCESS = re.compile(r"(?:[Ww]rite|[Mm]anage) access")
_START_HINT = "start it with `docker compose up -d`"
_MAX_SERVER_MESSAGE_CHARS = 300

_Answer = TypeVar("_Answer")
_Item = TypeVar("_Item")
_Parameters = ParamSpec("_Parameters")


def connect(url: str, api_key: str | None, timeout_s: float) -> QdrantConnection:
    """A connection to the URL; nothing is sent yet. The timeout is rounded up to whole seconds.

    Raises:
        StoreError: the text is not the URL of a server.
        SettingsError: no client can be made for it.
    """
    # Messages and logs must not show a user name and password.
    shown = re.sub(r"//[^/@]*@", "//", url)
    wrong = f"{shown!r} is not the URL of a Qdrant server; write it like http://localhost:6333"
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        raise StoreError(wrong) from None
    if not is_server:
        raise StoreError(wrong)
    # The type of `timeout` says int; the client rounds up itself.
    timeout = cast("int", timeout_s)
    make = partial(_make_client, url=url, api_key=api_key, timeout=timeout)
    with makes_http_client(shown):
        client = make()
    if api_key is not None and parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS:
        _warn_of_open_key(shown)
    return QdrantConnection(client, shown, make=make)


def _make_client(**given: Any) -> QdrantClient:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Api key is used with an insecure connection")
        return QdrantClient(**given, check_compatibility=False)


@cache
def _warn_of_open_key(place: str) -> None:
    """Warn once in a process, not for every connection."""
    logger.warning("the API key goes to %s without encryption; give the server TLS", place)


def batches(
    items: Iterable[_Item], most: int, size_of: Callable[[_Item], int]
) -> Iterator[list[_Item]]:
    """Split items into requests of bounded size, in order; an oversized item goes alone."""
    batch: list[_Item] = []
    size = 0
    for item in items:
        weight = size_of(item)
        if batch and (len(batch) == most or size + weight > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += weight
    if batch:
        yield batch


def has_collection(url: str, name: str, *, api_key: str | None, timeout_s: float) -> bool:
    """True if a server has a collection or an alias of this name; makes none."""
    with closing(connect(url, api_key, timeout_s)) as connection:
        return connection.has(name)


class QdrantConnection:
    """Sends requests over a client, which it closes.

    `place`: the server as messages name it. `make` makes the client of a forked child.
    """

    def __init__(
        self, client: QdrantClient, place: str, *, make: Callable[[], QdrantClient] | None = None
    ) -> None:
        self.place = place
        self._client: QdrantClient | None = client
        self._make, self._process = make, os.getpid()

    @property
    def client(self) -> QdrantClient:
        """The client; an error after `close`."""
        if self._client is None:
            raise StoreError(f"the store at {self.place} is closed")
        if self._make is not None and self._process != os.getpid():
            # On connections from before a fork, parent and child read each other's answers.
            self._client, self._process = self._make(), os.getpid()
        return self._client

    def ask(
        self,
        what: str,
        call: Callable[_Parameters, _Answer],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> _Answer:
        """Make the call, up to three times; `what` is the action, for messages.

        All requests of a store are idempotent. A timeout is not retried: the time is used up.

        Raises:
            StoreUnavailableError: the server does not answer, or is too busy.
            StoreWriteError: the server's disk is full.
            StoreError: the server refused; the message quotes it.
        """
        try:
            return RETRIES(partial(call, *args, **kwargs), _retry_after)
        except (ApiException, QdrantException, ValueError, KeyError) as failure:
            raise self._store_error(what, failure) from failure

    def write(
        self,
        what: str,
        call: Callable[_Parameters, models.UpdateResult],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> None:
        """Make a call that writes, and check that the write is complete.

        Raises:
            StoreUnavailableError: as `ask`, or the write is accepted but not complete.
        """
        status = self.ask(what, call, *args, **kwargs).status
        if status != models.UpdateStatus.COMPLETED:
            raise StoreUnavailableError(
                f"the Qdrant server at {self.place} accepted a write and did not finish it in "
                f"time ({status.value}); repeat the write when the server is less busy"
            )

    def close(self) -> None:
        """Refuse further calls; a second call of `close` does nothing."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    # -- collections -----------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """True if there is a collection or an alias of this name."""
        return self.ask(f"looking for the collection {name!r}", self.client.collection_exists, name)

    def describe(self, name: str) -> models.CollectionInfo:
        """Read the server's description of a collection."""
        return self.ask(f"reading about the collection {name!r}", self.client.get_collection, name)

    def make(self, name: str, mark: str, **config: Any) -> None:
        """Make a collection with our `mark` in its metadata, if missing."""
        create = self.client.create_collection
        try:
            what = f"making the collection {name!r}"
            self.ask(what, create, name, metadata={OWN_META_KEY: mark}, **config)
        except StoreUnavailableError:
            raise
        except StoreError:
            # Another process, or our own first attempt, may have made it meanwhile.
            if not self.has(name):
                raise

    def shard_keys(self, name: str) -> frozenset[str]:
        """The keys of a collection's shards; empty if the server shards it automatically."""
        if self.describe(name).config.params.sharding_method != models.ShardingMethod.CUSTOM:
            return frozenset()
        found = self.ask(f"reading the shards of {name!r}", self.client.list_shard_keys, name)
        return frozenset(str(each.key) for each in found.shard_keys or ())

    def make_shards(self, name: str, shared: str, keys: Iterable[str]) -> None:
        """Make missing shards: several for each of `keys`, and one for the key `shared`."""
        create, known = self.client.create_shard_key, self.shard_keys(name)
        wanted = {**dict.fromkeys((shared, *keys)), shared: 1}
        for key in (key for key in wanted if key not in known):
            try:
                self.ask(f"making the shard {key!r} of {name!r}", create, name, key, wanted[key])
            except StoreError:
                # Another process, or our own first attempt, may have made it meanwhile.
                if key not in self.shard_keys(name):
                    raise

    def peers(self) -> int:
        """Number of the cluster's nodes; 0 for a server without cluster mode."""
        found = self.ask("asking for its nodes", self.client.cluster_status)
        return len(found.peers) if isinstance(found, models.ClusterStatusOneOf1) else 0

    def wait_for_nodes(self, name: str) -> None:
        """Wait until every node knows a new collection: a load balancer may pick any node.

        Raises:
            StoreUnavailableError: after half a minute a node still does not know it.
        """
        answered, wanted = 0, 2 * self.peers()
        for _ in range(MAX_NODE_CHECKS):
            if answered >= wanted:
                return
            try:
                self.client.get_collection(name)
                answered += 1
            except UnexpectedResponse as failure:
                if not _is_transient(failure):
                    raise self._store_error(f"looking for {name!r}", failure) from failure
                answered = 0
                sleep(NODE_CHECK_PAUSE_S)
        if answered < wanted:
            raise StoreUnavailableError(
                f"some nodes behind {self.place} do not know the new collection {name!r}; "
                "check the nodes (GET /cluster), then start again"
            )

    def index_fields(
        self, name: str, found: models.CollectionInfo, kinds: Mapping[str, Any]
    ) -> None:
        """Index the payload fields of a collection that have no index yet."""
        index = self.client.create_payload_index
        for field, kind in kinds.items():
            if field not in found.payload_schema:
                self.ask(f"indexing the field {field!r}", index, name, field, kind)

    def require_version(self) -> str:
        """The server's version; an error below `MIN_SERVER_VERSION`."""
        version = self.ask("asking for its version", self.client.info).version
        numbers = re.match(r"\A(\d+)\.(\d+)", version)
        if numbers is None or (int(numbers[1]), int(numbers[2])) < MIN_SERVER_VERSION:
            wanted = ".".join(map(str, MIN_SERVER_VERSION))
            raise StoreError(
                f"the Qdrant server at {self.place} has version {version}; "
                f"toolcrib needs {wanted} or newer: update it (docker-compose.yml pins one)"
            )
        return version

    def _store_error(self, what: str, failure: Exception) -> StoreError:
        server = f"the Qdrant server at {self.place}"
        if isinstance(failure, ResponseHandlingException | json.JSONDecodeError):
            return _no_answer(server, what, getattr(failure, "source", failure))
        if isinstance(failure, ResourceExhaustedResponse):
            return StoreUnavailableError(f"{server} is too busy for {what}: {failure}; try later")
        if isinstance(failure, UnexpectedResponse):
            return _refusal(server, what, failure)
        return StoreError(f"{server} gave no usable answer when {what}: {_first_line(failure)}")


def _no_answer(server: str, what: str, source: Exception) -> StoreError:
    if isinstance(source, httpx.TimeoutException):
        return StoreUnavailableError(
            f"{server} did not answer in time when {what}: {_START_HINT}, or raise server.timeout_s"
        )
    if isinstance(source, httpx.TransportError):
        reason = _first_line(source) or type(source).__name__
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            return StoreUnavailableError(
                f"the certificate of {server} is not trusted when {what}: name the file of its "
                "authority in SSL_CERT_FILE"
            )
        return StoreUnavailableError(
            f"{server} cannot be reached ({reason}) when {what}: {_START_HINT}, or correct the URL"
        )
    return StoreError(
        f"{server} did not answer as Qdrant does when {what} ({_first_line(source)}): "
        "check that the URL is that of a Qdrant server"
    )


def _refusal(server: str, what: str, response: UnexpectedResponse) -> StoreError:
    status, words = response.status_code, _server_message(response)
    if status == 403 and _NO_WRITE_ACCESS.search(words):  # noqa: PLR2004
        logger.error("%s: the key in %s may not write (%s)", server, API_KEY_SETTING, words)
        return StoreReadOnlyError(
            f"{server} lets this key only read ({words}) when {what}: "
            f"set {API_KEY_SETTING} to a key that may write"
        )
    if status in (401, 403):
        return StoreError(
            f"{server} refused the API key ({status}: {words}) when {what}: "
            f"set {API_KEY_SETTING} to a key that may do this"
        )
    if status in _BUSY_STATUSES:
        return StoreUnavailableError(f"{server} is too busy for {what} ({status}: {words})")
    if _is_transient(response):
        return StoreUnavailableError(
            f"{server} lacks a node or a shard for {what} ({status}: {words}): look at its nodes"
        )
    if "No space left" in words:
        return StoreWriteError(f"{server} has no space left for {what} ({words}): free some")
    return StoreError(f"{server} refused {what} ({status}: {words})")


def _is_transient(response: UnexpectedResponse) -> bool:
    """True if a retry may succeed."""
    status = response.status_code
    is_fault = status == 500 and _CLUSTER_FAULT.search(_server_message(response))  # noqa: PLR2004
    return status in _BUSY_STATUSES or bool(is_fault)


def _server_message(response: UnexpectedResponse) -> str:
    """The server's error message, in Qdrant's form or any other."""
    text = response.content.decode("utf-8", "replace").strip()
    try:
        body: Any = json.loads(text)
        text = str(body["status"]["error"])
    except (ValueError, KeyError, TypeError):
        pass
    return text[:_MAX_SERVER_MESSAGE_CHARS] or response.reason_phrase or "no reason given"


def _first_line(failure: Exception) -> str:
    if isinstance(failure, ValidationError):
        fault = failure.errors()[0]
        # The first place is the client's own name for the whole answer.
        return f"{'.'.join(map(str, fault['loc'][1:]))}: {fault['msg']}"[:_MAX_SERVER_MESSAGE_CHARS]
    return str(failure).strip().partition("\n")[0][:_MAX_SERVER_MESSAGE_CHARS]


def _retry_after(failure: Exception) -> bool | float:
    """Retry after a failure: False, True for the usual pause, or the server's seconds."""
    match failure:
        case ResponseHandlingException(source=source):
            lost = isinstance(source, httpx.TransportError)
            return lost and not isinstance(source, httpx.TimeoutException)
        case UnexpectedResponse(status_code=500):
            return CLUSTER_PAUSE_S if _is_transient(failure) else False
        case UnexpectedResponse():
            return _is_transient(failure)
        case ResourceExhaustedResponse(retry_after_s=seconds):
            return min(max(seconds, RETRIES.first_pause_s), RETRIES.max_pause_s)
        case _:
            return False
