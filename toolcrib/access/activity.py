"""Activity of a gateway: its calls and the state of its servers, in the records database."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolcrib.access.server_file import OPTION_NAME
from toolcrib.context.pii import SECRET_NAME, without_secrets
from toolcrib.indexers.readers.base import is_list
from toolcrib.parsing import parse_json
from toolcrib.records.codec import adapter, as_json, is_object, iso_time
from toolcrib.records.log import GatewayActivity, GatewayCall, GatewayServer
from toolcrib.router.decision_log_db import WriteBehind
from toolcrib.store.records_db import DbRow, RecordsDb

CALLS, GATEWAYS = "gateway/calls", "gateway/running"
"""Tables: calls, and one row for each gateway with the state of its servers."""

MAX_KEPT_CALLS = 10_000
"""Calls that are kept; some 8 MB."""

PRUNE_EVERY_CALLS = 500
PAGE_CALLS = 200

STATE_EVERY_S = 15.0
MAX_STATE_AGE_S = 45.0
"""Age after which a state is ignored: its gateway was killed, or cannot write."""

MAX_ARGUMENTS_CHARS = 2_000
MAX_SCANNED_ARGUMENTS_CHARS = 20_000
"""Characters of arguments that are searched for secrets; the rest is not kept."""


class ActivityLog:
    """Log of one gateway's calls and servers; a call is written a moment later.

    The newest `MAX_KEPT_CALLS` calls of all gateways of a database are kept.
    """

    def __init__(self, db: RecordsDb, now: Callable[[], float] = time.time) -> None:
        self._db, self._now = db, now
        self._id = secrets.token_hex(8)
        self._queue = WriteBehind(self._put)
        self._unpruned = 0

    def record(self, call: GatewayCall) -> None:
        """Record a call; dropped where the database does not keep up."""
        at = self._now()
        row_id = f"{time.time_ns():019}-{secrets.token_hex(4)}"
        self._queue.add(DbRow(row_id, at, as_json(replace(call, at=iso_time(at, "milliseconds")))))

    def write_state(self, servers: Sequence[GatewayServer]) -> None:
        """Write the state of the servers, which counts for `MAX_STATE_AGE_S`."""
        body = {"servers": [as_json(each) for each in servers]}
        self._db.put(GATEWAYS, DbRow(self._id, self._now(), body))

    def close(self) -> None:
        """Write the remaining calls, and delete the state."""
        self._queue.close()
        self._db.delete(GATEWAYS, self._id)

    def _put(self, rows: list[DbRow]) -> None:
        self._db.put_all(CALLS, rows)
        self._unpruned += len(rows)
        if self._unpruned < PRUNE_EVERY_CALLS:
            return
        self._unpruned = 0
        kept = self._db.newest(CALLS, limit=MAX_KEPT_CALLS)
        if len(kept) == MAX_KEPT_CALLS:
            self._db.prune(CALLS, before=kept[-1].at)
        self._db.prune(GATEWAYS, before=self._now() - MAX_STATE_AGE_S)


class ActivityReader:
    """Reader of the activity in a records database; reads only new calls. Thread-safe."""

    def __init__(self, db: RecordsDb, now: Callable[[], float] = time.time) -> None:
        self._db, self._now = db, now
        self._calls: dict[str, GatewayCall] = {}
        self._lock = threading.Lock()

    def read(self, limit: int = PAGE_CALLS) -> GatewayActivity:
        """Read servers and totals of all kept calls, and the last calls."""
        with self._lock:
            self._read_new()
            every = list(self._calls.values())
        running = self._db.newest(GATEWAYS)
        # A row of the future is of a gateway that was killed before the clock was set back.
        live = [row for row in running if abs(self._now() - row.at) < MAX_STATE_AGE_S]
        read = adapter(GatewayServer).validate_python
        # If several gateways have a server, the gateway that wrote last counts.
        written = (each for row in reversed(live) for each in row.body["servers"])
        listed: dict[str, Any] = {each["name"]: read(each) for each in written}
        calls = [call for call in every if call.kind == "call"]
        answers = sum(call.tokens for call in calls if not call.server)
        servers = _with_call_figures(listed, every)
        return GatewayActivity(
            len(live),
            servers,
            tuple(calls[::-1][:limit]),
            len(calls),
            sum(call.outcome == "failure" for call in calls),
            sum(call.tokens for call in calls),
            sum(sum(call.saved.values()) for call in every) - answers,
            every[0].at if every else None,
        )

    def _read_new(self) -> None:
        """Read the pages down to the first that holds a known call."""
        found: dict[str, GatewayCall] = {}
        mark: tuple[float, str] | None = None
        read = adapter(GatewayCall).validate_python
        while page := self._db.newest(CALLS, limit=PAGE_CALLS, before=mark):
            new = [row for row in page if row.id not in self._calls]
            found.update((row.id, read(row.body)) for row in new)
            if len(new) < len(page) or len(found) >= MAX_KEPT_CALLS:
                break
            mark = page[-1].at, page[-1].id
        if found:
            both = sorted((self._calls | found).items())[-MAX_KEPT_CALLS:]
            self._calls = dict(both)


def _with_call_figures(
    servers: Mapping[str, GatewayServer], calls: Sequence[GatewayCall]
) -> tuple[GatewayServer, ...]:
    """Servers with the figures of their calls, by name; servers without a gateway too."""
    made, failed, tokens, saved = (Counter[str]() for _ in range(4))
    for call in calls:
        saved.update(call.saved)
        if call.kind == "call":
            made[call.server] += 1
            failed[call.server] += call.outcome == "failure"
            tokens[call.server] += call.tokens
    names = sorted({*servers, *made} - {""})
    return tuple(
        replace(
            servers.get(name) or GatewayServer(name, None),
            calls=made[name],
            failures=failed[name],
            tokens=tokens[name],
            saved=saved[name],
        )
        for name in names
    )


def redacted_arguments(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON, shortened, with asterisks in place of secrets."""
    text = _as_text(_redact_named(arguments))
    return without_secrets(text[:MAX_SCANNED_ARGUMENTS_CHARS])[:MAX_ARGUMENTS_CHARS]


def _redact_named(value: Any, name: str = "") -> Any:
    """Copy of JSON values with asterisks for secrets, and for values with the name of one."""
    # All that stands below the name of a secret is a part of it.
    secret = name if SECRET_NAME.search(name) else ""
    if is_object(value):
        # In a pair such as `{"name": "Authorization", "value": ...}` one member names the other.
        names = {key: key for key in value} | {"value": str(value.get("name") or value.get("key"))}
        return {key: _redact_named(each, secret or names[key]) for key, each in value.items()}
    if is_list(value):
        options = (OPTION_NAME.fullmatch(str(each)) for each in ["", *value])
        names = (secret or (option[1] if option else name) for option in options)
        return list(map(_redact_named, value, names))
    if secret:
        return "***"
    return _redact_text(value) if isinstance(value, str) else value


def _redact_text(text: str) -> str:
    """Text without its secrets; JSON in it, as models write arguments, is read."""
    text = text[:MAX_SCANNED_ARGUMENTS_CHARS]
    try:
        parsed: Any = parse_json(text) if text.lstrip().startswith(("{", "[")) else None
    except ValueError:
        parsed = None
    # In the JSON of all arguments, quotes of this text are escaped, which hides secrets.
    return without_secrets(text) if parsed is None else _as_text(_redact_named(parsed))


def _as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
