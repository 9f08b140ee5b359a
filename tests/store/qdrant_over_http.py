"""A server on loopback that speaks Qdrant's HTTP, answered by qdrant-client's local mode.

It parses what arrives with the client's own models, which refuse unknown fields, so that a
request which is not Qdrant's fails; it records every request; and it misbehaves when told to
(`qdrant_faults.json` has the faults of a real server and of a cluster, by name). As there, points
of one score come in any order.
With a URL in `QDRANT_DOUBLE_URL` a real server answers in place of local mode (`make test-qdrant`);
every double begins by removing what that server holds.
"""

from __future__ import annotations

import json
import os
import random
import re
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from weakref import WeakKeyDictionary

import httpx
from pydantic import BaseModel, TypeAdapter
from qdrant_client import QdrantClient, models

TITLE, VERSION = "qdrant - vector search engine", "1.19.1"

Call = Callable[[QdrantClient, str, Any], Any]

SHARDS: WeakKeyDictionary[QdrantClient, dict[str, list[str]]] = WeakKeyDictionary()
"""The shard keys of collections that are cut up by them; local mode knows none."""

INDEXED: WeakKeyDictionary[QdrantClient, set[tuple[str, str]]] = WeakKeyDictionary()
"""Collections and fields: a server orders by, and counts, only what has an index."""


@dataclass(frozen=True)
class Request:
    """What arrived: `path` without its query string, `query` as lists, `body` as JSON."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Reply:
    """What to answer instead; `status` 0 closes the connection, -1 never answers."""

    status: int
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])


CLOSE = Reply(0)
HANG = Reply(-1)

FAULTS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("qdrant_faults.json").read_text(encoding="utf-8")
)


def fault(name: str) -> Reply:
    status, words, is_json = (FAULTS[name][key] for key in ("status", "words", "is_json"))
    return _refusal(status, words) if is_json else Reply(status, words)


MAX_VECTOR_SIZE = 65_536


class RefusedError(Exception):
    """A request that a server refuses, with its status and words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status

    @classmethod
    def of(cls, error: Exception) -> RefusedError:
        words = str(error.args[0]) if error.args else ""
        if "already exists" in words:
            return cls(409, f"Wrong input: {words}!")
        if "not found" in words.lower():
            return cls(404, f"Not found: {words}")
        return cls(400, f"Bad request: {error}")


def _create(client: QdrantClient, name: str, body: Any) -> bool:
    wanted = models.CreateCollection.model_validate(body)
    for vector in (wanted.vectors or {}).values() if isinstance(wanted.vectors, dict) else ():
        if vector.size > MAX_VECTOR_SIZE:
            words = f"vectors.?.size: value {vector.size} invalid, must be from 1 to 65536"
            raise RefusedError(422, f"Validation error in JSON body: [{words}]")
    if client.collection_exists(name):
        raise RefusedError(409, f"Wrong input: Collection `{name}` already exists!")
    if wanted.sharding_method == models.ShardingMethod.CUSTOM:
        SHARDS.setdefault(client, {})[name] = []
    return client.create_collection(
        name,
        vectors_config=wanted.vectors,
        sparse_vectors_config=wanted.sparse_vectors,
        metadata=wanted.metadata,
    )


def _describe(client: QdrantClient, name: str, body: Any) -> Any:
    found = client.get_collection(name)
    params = found.config.params
    if _live(client, name) in SHARDS.get(client, {}):
        params = params.model_copy(update={"sharding_method": models.ShardingMethod.CUSTOM})
    return found.model_copy(update={"config": found.config.model_copy(update={"params": params})})


def _live(client: QdrantClient, name: str) -> str:
    aliases = client.get_aliases().aliases
    return next((each.collection_name for each in aliases if each.alias_name == name), name)


def _make_shard(client: QdrantClient, name: str, body: Any) -> bool:
    if not PEERS.get(client, 1):
        raise RefusedError(405, "Qdrant is running in standalone mode")
    key, keys = str(models.CreateShardingKey.model_validate(body).shard_key), SHARDS[client]
    if key in keys[_live(client, name)]:
        raise ValueError(f"Shard key {key!r} already exists")
    keys[_live(client, name)].append(key)
    return True


def _shards(client: QdrantClient, name: str, body: Any) -> models.ShardKeysResponse:
    keys = SHARDS[client][_live(client, name)]
    known = [models.ShardKeyDescription(key=key) for key in keys]
    return models.ShardKeysResponse(shard_keys=known)


def _require_shard(client: QdrantClient, name: str, shard: Any) -> None:
    """Refuse, as a server does, a write that names no shard, or one that is not there."""
    keys = SHARDS.get(client, {}).get(_live(client, name))
    asked = {"target": shard, "fallback": shard} if isinstance(shard, str) else shard
    if (keys is None) is not (asked is None):
        raise ValueError("Shard key not specified" if asked is None else "Shard key not expected")
    if asked is not None and not {asked["target"], asked["fallback"]} & set(keys or ()):
        target, fallback = json.dumps(asked["target"]), json.dumps(asked["fallback"])
        words = f"Neither target shard key {target} nor fallback shard key {fallback} exist"
        raise RefusedError(404, f"Not found: {words} not found")


def _remove(client: QdrantClient, name: str, body: Any) -> bool:
    SHARDS.get(client, {}).pop(name, None)
    return client.delete_collection(name)


def _move_alias(client: QdrantClient, name: str, body: Any) -> bool:
    changes = models.ChangeAliasesOperation.model_validate(body)
    return client.update_collection_aliases(changes.actions)


def _update_metadata(client: QdrantClient, name: str, body: Any) -> bool:
    changed = models.UpdateCollection.model_validate(body)
    return client.update_collection(name, metadata=changed.metadata)


def _index(client: QdrantClient, name: str, body: Any) -> models.UpdateResult:
    wanted = models.CreateFieldIndex.model_validate(body)
    INDEXED.setdefault(client, set()).add((_live(client, name), wanted.field_name))
    return models.UpdateResult(operation_id=0, status=models.UpdateStatus.COMPLETED)


def _upsert(client: QdrantClient, name: str, body: Any) -> models.UpdateResult:
    _require_shard(client, name, body.get("shard_key"))
    return client.upsert(name, models.PointsList.model_validate(body).points)


def _update_vectors(client: QdrantClient, name: str, body: Any) -> models.UpdateResult:
    _require_shard(client, name, body.get("shard_key"))
    points = models.UpdateVectors.model_validate(body).points
    there = {record.id for record in client.retrieve(name, [point.id for point in points])}
    known = [point for point in points if point.id in there]
    done = client.update_vectors(name, known) if known else None
    if missing := [point.id for point in points if point.id not in there]:
        raise RefusedError(404, f"Not found: No point with id {missing[0]} found")
    return done or models.UpdateResult(operation_id=0, status=models.UpdateStatus.COMPLETED)


def _delete(client: QdrantClient, name: str, body: Any) -> models.UpdateResult:
    chosen: TypeAdapter[Any] = TypeAdapter(models.PointIdsList | models.FilterSelector)
    return client.delete(name, chosen.validate_python(body))


def _query(client: QdrantClient, name: str, body: Any) -> Any:
    searches = models.QueryRequestBatch.model_validate(body).searches
    answers = client.query_batch_points(name, searches)
    for search, answer in zip(searches, answers, strict=True):
        if search.query is not None:
            answer.points.sort(key=lambda hit: (-hit.score, random.random()))
    return answers


def _retrieve(client: QdrantClient, name: str, body: Any) -> list[models.Record]:
    wanted = models.PointRequest.model_validate(body)
    return client.retrieve(
        name,
        wanted.ids,
        with_payload=wanted.with_payload or False,
        with_vectors=wanted.with_vector or False,
    )


def _scroll(client: QdrantClient, name: str, body: Any) -> dict[str, Any]:
    wanted = models.ScrollRequest.model_validate(body)
    if isinstance(wanted.order_by, models.OrderBy):
        _require_index(client, name, wanted.order_by.key)
    points, offset = client.scroll(
        name,
        scroll_filter=wanted.filter,
        limit=wanted.limit or 10,
        offset=wanted.offset,
        order_by=wanted.order_by,
        with_payload=True if wanted.with_payload is None else wanted.with_payload,
    )
    if isinstance(wanted.order_by, models.OrderBy):
        by, sign = wanted.order_by.key, -1 if wanted.order_by.direction == "desc" else 1
        points.sort(key=lambda record: (sign * (record.payload or {})[by], random.random()))
    return {"points": points, "next_page_offset": offset}


def _count(client: QdrantClient, name: str, body: Any) -> models.CountResult:
    wanted = models.CountRequest.model_validate(body)
    return client.count(name, wanted.filter, exact=bool(wanted.exact))


def _facet(client: QdrantClient, name: str, body: Any) -> models.FacetResponse:
    wanted = models.FacetRequest.model_validate(body)
    _require_index(client, name, wanted.key)
    limit = wanted.limit or 10
    found = client.facet(name, wanted.key, wanted.filter, limit=limit).hits
    every = client.facet(name, wanted.key, None, limit=limit).hits
    rest = {hit.value for hit in every} - {hit.value for hit in found}
    hits = [*found, *(models.FacetValueHit(value=value, count=0) for value in sorted(rest))]
    return models.FacetResponse(hits=hits[:limit])


def _require_index(client: QdrantClient, name: str, field: str) -> None:
    if (_live(client, name), field) not in INDEXED.get(client, set()):
        raise RefusedError(400, f"Bad request: No index for {field!r}")


ROUTES: dict[tuple[str, str], Call] = {
    ("GET", ""): _describe,
    ("GET", "/shards"): _shards,
    ("PUT", "/shards"): _make_shard,
    ("GET", "/exists"): lambda client, name, _: {"exists": client.collection_exists(name)},
    ("PUT", ""): _create,
    ("DELETE", ""): _remove,
    ("PATCH", ""): _update_metadata,
    ("PUT", "/index"): _index,
    ("PUT", "/points"): _upsert,
    ("POST", "/points"): _retrieve,
    ("PUT", "/points/vectors"): _update_vectors,
    ("POST", "/points/delete"): _delete,
    ("POST", "/points/query/batch"): _query,
    ("POST", "/points/scroll"): _scroll,
    ("POST", "/points/count"): _count,
    ("POST", "/facet"): _facet,
}


def _nodes(client: QdrantClient, name: str, body: Any) -> Any:
    """Status of a cluster with the nodes of `PEERS`; without nodes it is off."""
    peers = {
        str(number): {"uri": f"http://node-{number}:6335"} for number in range(PEERS.get(client, 1))
    }
    raft = {"term": 1, "commit": 1, "pending_operations": 0, "is_voter": True}
    on = {"status": "enabled", "peer_id": 0, "peers": peers, "raft_info": raft}
    more = {"consensus_thread_status": {"consensus_thread_status": "stopped"}}
    failures = {"message_send_failures": {}}
    return {"result": {**on, **more, **failures} if peers else {"status": "disabled"}}


PEERS: WeakKeyDictionary[QdrantClient, int] = WeakKeyDictionary()
"""Number of nodes, 1 unless stated; 0 for a server without cluster mode."""

ROOTS: dict[tuple[str, str], Call] = {
    ("GET", "/"): lambda client, name, body: {"title": TITLE, "version": VERSION},
    ("GET", "/cluster"): _nodes,
    ("GET", "/aliases"): lambda client, name, body: {"result": client.get_aliases()},
    ("GET", "/collections"): lambda client, name, body: {"result": client.get_collections()},
    ("POST", "/collections/aliases"): lambda client, name, body: {
        "result": _move_alias(client, name, body)
    },
}

_JSON: TypeAdapter[Any] = TypeAdapter(Any)


class LocalQdrant:
    """The server's state. `misbehave` holds what to answer first, in order, instead."""

    def __init__(self) -> None:
        self._real_url = os.environ.get("QDRANT_DOUBLE_URL")
        if self._real_url:
            self.client = QdrantClient(self._real_url, check_compatibility=False)
            for each in self.client.get_collections().collections:
                self.client.delete_collection(each.name)
        else:
            self.client = QdrantClient(":memory:")
        self.unready = 0
        """Number of looks at a collection that meet a node which does not have it yet."""
        self.delay_s = 0.0
        """Time on the way to the server and back."""
        self.requests: list[Request] = []
        self.misbehave: list[Reply] = []
        self.url = ""
        self.released = threading.Event()
        self._lock = threading.Lock()

    @property
    def is_real(self) -> bool:
        return self._real_url is not None

    def answer(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            if self.misbehave:
                return self.misbehave.pop(0)
            is_look = request.method == "GET" and re.fullmatch(
                r"/collections/[^/]+\.g\d+", request.path
            )
            if self.unready and is_look:
                self.unready -= 1
                return _refusal(500, "Service internal error: 0 of 0 read operations failed")
            return self._call(request)

    def _forward(self, request: Request) -> Reply:
        found = httpx.request(
            request.method,
            f"{self._real_url}{request.path}",
            params=request.query,
            json=request.body,
            timeout=60,
        )
        return Reply(found.status_code, found.text)

    def _call(self, request: Request) -> Reply:
        if self._real_url:
            return self._forward(request)
        root = ROOTS.get((request.method, request.path))
        found = re.fullmatch(r"/collections/([^/]+)(/.*)?", request.path)
        route = ROUTES.get((request.method, found[2] or "")) if found else None
        try:
            if root is not None:
                answer = root(self.client, "", request.body)
            elif found is not None and route is not None:
                answer = {"result": route(self.client, found[1], request.body)}
            else:
                return _refusal(404, f"no route {request.method} {request.path}")
        except RefusedError as refused:
            return _refusal(refused.status, str(refused))
        except (ValueError, KeyError) as error:
            refused = RefusedError.of(error)
            return _refusal(refused.status, str(refused))
        text = _JSON.dump_json({"status": "ok", "time": 0.0, **answer}, fallback=_plain)
        return Reply(200, text.decode())

    def sent_to(self, path: str) -> list[Any]:
        """The bodies of the requests whose path ends like this."""
        return [request.body for request in self.requests if request.path.endswith(path)]


def _refusal(status: int, words: str) -> Reply:
    return Reply(status, json.dumps({"status": {"error": words}, "time": 0.0}))


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)


def _handler(server: LocalQdrant) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(size)
            url = urlsplit(self.path)
            time.sleep(server.delay_s)
            reply = server.answer(
                Request(
                    method=self.command,
                    path=url.path,
                    query=parse_qs(url.query),
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=json.loads(body) if body else None,
                )
            )
            self._send(reply)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815

        def _send(self, reply: Reply) -> None:
            if reply.status == HANG.status:
                server.released.wait(30)
            if reply.status in (HANG.status, CLOSE.status):
                self.close_connection = True
                return
            body = reply.body.encode()
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: the requests are recorded."""

    return Handler


@contextmanager
def running() -> Generator[LocalQdrant]:
    state = LocalQdrant()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(state)) as http:
        state.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            state.released.set()
            http.shutdown()
            thread.join()
            state.client.close()
