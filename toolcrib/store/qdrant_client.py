"""Connection to a Qdrant server: requests with retries, and failures as our errors."""

from __future__ import annotations

import json
import logging
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
"""Older servers leave out `params.idf` without a word: scores would then tell a caller about
points outside its scope."""

MAX_BATCH_BYTES = 4 * 2**20
"""A server refuses bodies above 32 MB by default, and proxies before it often above 8."""

RETRIES = Retries(attempts=3, first_pause_s=0.2, max_pause_s=5.0, jitter_s=0.2)

_BUSY_STATUSES = frozenset({408, 429, 502, 503, 504})

_CLUSTER_FAULT = re.compile(r"operations failed|[Ss]hard \S{1,64} not found")
"""Words of a 500 that passes: a node lacks a new collection or a shard, or a peer is away."""

CLUSTER_PAUSE_S = 1.0
"""Pause before a retry after such a fault: a new collection reaches all nodes in two seconds."""

FOUNDING_PAUSE_S, FOUNDING_CHECKS = 0.2, 150
"""Pause between looks at a new collection, and the number of looks: 30 seconds in all."""

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

_NO_WRITE_ACCESS = re.compile(r"(?:[Ww]rite|[Mm]anage) access")
_START_HINT = "start it with `docker compose up -d`"
_MAX_SERVER_MESSAGE_CHARS = 300

_Answer = TypeVar("_Answer")
_Item = TypeVar("_Item")
_Parameters = ParamSpec("_Parameters")


def connect(url: str, api_key: str | None, timeout_s: float) -> QdrantConnection:
    """A connection to the URL; nothing is sent yet. Seconds are rounded up to whole ones.

    Raises:
        StoreError: the text is not the URL of a server.
    """
    parts = urlsplit(url)
    # Without a user's name and password, fit for messages and logs.
    shown = re.sub(r"//[^/@]*@", "//", url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise StoreError(
            f"{shown!r} is not the URL of a Qdrant server; write it like http://localhost:6333"
        )
    # The type of `timeout` says int; the client rounds up itself.
    timeout = cast("int", timeout_s)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Api key is used with an insecure connection")
        client = QdrantClient(url=url, api_key=api_key, timeout=timeout, check_compatibility=False)
    if api_key is not None and parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS:
        _warn_of_open_key(shown)
    return QdrantConnection(client, shown, owns_client=True)


@cache
def _warn_of_open_key(place: str) -> None:
    """Warn once in a process: every command would repeat it otherwise."""
    logger.warning("the API key goes to %s without encryption; give the server TLS", place)


def batches(
    items: Iterable[_Item], most: int, size_of: Callable[[_Item], int]
) -> Iterator[list[_Item]]:
    """Cut what is written into requests of bounded size, in order; one huge item goes alone."""
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
    """Say whether a server has a collection, or an alias, of this name, without making one."""
    with closing(connect(url, api_key, timeout_s)) as connection:
        return connection.has(name)


class QdrantConnection:
    """Sends requests over one client, which is closed with it where it owns it.

    `place`: the server as messages name it.
    """

    def __init__(self, client: QdrantClient, place: str, *, owns_client: bool = False) -> None:
        self.place = place
        self._client: QdrantClient | None = client
        self._owns_client = owns_client

    @property
    def client(self) -> QdrantClient:
        """The client; an error once the store is closed."""
        if self._client is None:
            raise StoreError(f"the store at {self.place} is closed")
        return self._client

    def ask(
        self,
        what: str,
        call: Callable[_Parameters, _Answer],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> _Answer:
        """Make the call, up to three times; `what` says in messages what was being done.

        Everything a store does can be repeated without harm. A call that timed out is not
        repeated: it has had its time.

        Raises:
            StoreUnavailableError: no answer, or the server says that it is too busy.
            StoreWriteError: the server's disk is full.
            StoreError: the server refused; the message has its words.
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
        """Make a call that writes, and see that it was finished.

        Raises:
            StoreUnavailableError: as `ask`, or the server took the write and is not done with it.
        """
        status = self.ask(what, call, *args, **kwargs).status
        if status != models.UpdateStatus.COMPLETED:
            raise StoreUnavailableError(
                f"the Qdrant server at {self.place} took a write and did not finish it in "
                f"time ({status.value}); repeat it when the server is less busy"
            )

    def another(self) -> QdrantConnection:
        """A second one over the same client; closing either leaves the other as it is."""
        return QdrantConnection(self.client, self.place)

    def close(self) -> None:
        """Take no more calls; a second call does nothing."""
        client, self._client = self._client, None
        if client is not None and self._owns_client:
            client.close()

    # -- collections -----------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Say whether there is a collection, or an alias, of this name."""
        return self.ask(f"looking for the collection {name!r}", self.client.collection_exists, name)

    def describe(self, name: str) -> models.CollectionInfo:
        """Read the server's description of a collection."""
        return self.ask(f"reading about the collection {name!r}", self.client.get_collection, name)

    def make(self, name: str, mark: str, **config: Any) -> None:
        """Make a collection with a mark of ours in its metadata, unless it is there already."""
        create = self.client.create_collection
        try:
            what = f"making the collection {name!r}"
            self.ask(what, create, name, metadata={OWN_META_KEY: mark}, **config)
        except StoreUnavailableError:
            raise
        except StoreError:
            # Another process may have made it since we looked, or our own first try did.
            if not self.has(name):
                raise

    def shard_keys(self, name: str) -> frozenset[str]:
        """The keys of a collection's shards; none where the server cuts it up by itself."""
        if self.describe(name).config.params.sharding_method != models.ShardingMethod.CUSTOM:
            return frozenset()
        found = self.ask(f"reading the shards of {name!r}", self.client.list_shard_keys, name)
        return frozenset(str(each.key) for each in found.shard_keys or ())

    def make_shards(self, name: str, shared: str, keys: Iterable[str]) -> None:
        """Make the shards that are missing: one of the key `shared`, which cannot have more."""
        create, known = self.client.create_shard_key, self.shard_keys(name)
        wanted = {**dict.fromkeys((shared, *keys)), shared: 1}
        for key in (key for key in wanted if key not in known):
            try:
                self.ask(f"making the shard {key!r} of {name!r}", create, name, key, wanted[key])
            except StoreError:
                # Another process may have made it since we looked, or our own first try did.
                if key not in self.shard_keys(name):
                    raise

    def peers(self) -> int:
        """Number of the cluster's nodes; 0 for a server without cluster mode."""
        try:
            found = self.ask("asking for its nodes", self.client.cluster_status)
        except NotImplementedError:  # a client that is its own server
            return 0
        return len(found.peers) if isinstance(found, models.ClusterStatusOneOf1) else 0

    def wait_for_nodes(self, name: str) -> None:
        """Wait until every node answers for a new collection: balancers ask any of them.

        Raises:
            StoreUnavailableError: some node still does not, after half a minute.
        """
        answered, wanted = 0, 2 * self.peers()
        for _ in range(FOUNDING_CHECKS):
            if answered >= wanted:
                return
            try:
                self.client.get_collection(name)
                answered += 1
            except UnexpectedResponse as failure:
                if not _passes(failure):
                    raise self._store_error(f"looking for {name!r}", failure) from failure
                answered = 0
                sleep(FOUNDING_PAUSE_S)
        if answered < wanted:
            raise StoreUnavailableError(
                f"not every node behind {self.place} answers for the new collection {name!r}; "
                "look at the nodes (GET /cluster), then start again"
            )

    def index_fields(
        self, name: str, found: models.CollectionInfo, kinds: Mapping[str, Any]
    ) -> None:
        """Index the fields of a collection that are not indexed yet."""
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
        if isinstance(failure, ResponseHandlingException):
            return _no_answer(server, what, failure.source)
        if isinstance(failure, ResourceExhaustedResponse):
            return StoreUnavailableError(f"{server} is too busy for {what}: {failure}; try later")
        if isinstance(failure, UnexpectedResponse):
            return _refusal(server, what, failure)
        if isinstance(failure, json.JSONDecodeError):
            return _no_answer(server, what, failure)
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
    if _passes(response):
        return StoreUnavailableError(
            f"{server} lacks a node or a shard for {what} ({status}: {words}): look at its nodes"
        )
    if "No space left" in words:
        return StoreWriteError(f"{server} has no space left for {what} ({words}): free some")
    return StoreError(f"{server} refused {what} ({status}: {words})")


def _passes(response: UnexpectedResponse) -> bool:
    """Say whether a failure passes by itself."""
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
    """Decide whether to try again; seconds to wait where the server gives them."""
    match failure:
        case ResponseHandlingException(source=source):
            lost = isinstance(source, httpx.TransportError)
            return lost and not isinstance(source, httpx.TimeoutException)
        case UnexpectedResponse(status_code=500):
            return CLUSTER_PAUSE_S if _passes(failure) else False
        case UnexpectedResponse():
            return _passes(failure)
        case ResourceExhaustedResponse(retry_after_s=seconds):
            return min(max(seconds, RETRIES.first_pause_s), RETRIES.max_pause_s)
        case _:
            return False
