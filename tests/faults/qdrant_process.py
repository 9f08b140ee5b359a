"""The project's Qdrant over HTTP in a process of its own: it can be killed, frozen and slowed.

`python qdrant_process.py FOLDER PORT` keeps its points in the folder, as a real one does, and
says where it listens. `PUT /orders` with a list of orders says how to misbehave, until the next
ones come. Each is about a `method` and a `path` (how it must end), any by default. With `hold`
requests wait until other orders come; with `refuse` those behind so many are refused; with `die`
it kills itself at the one behind so many: before that is done, or with `done` once it is.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from http.server import ThreadingHTTPServer
from typing import Any

from qdrant_client import QdrantClient

from tests.store import qdrant_over_http as fake


class _Everything(set[tuple[str, str]]):
    """Fields have an index on a server that is started again, too."""

    def __contains__(self, _field: object) -> bool:
        return True


class KeptQdrant(fake.LocalQdrant):
    """A server whose points outlive it, and which takes orders."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.client.close()
        self.client = QdrantClient(path=folder, force_disable_check_same_thread=True)
        fake.INDEXED[self.client] = _Everything()
        self._orders: list[tuple[dict[str, Any], itertools.count[int]]] = []

    def answer(self, request: fake.Request) -> fake.Reply:
        if request.path == "/orders":
            self._orders = [(order, itertools.count()) for order in request.body]
            return fake.Reply(200, "{}")
        orders, dies = self._orders, False
        for order, count in orders:
            if not _meant(request, order):
                continue
            while order.get("hold") and orders is self._orders:
                time.sleep(0.02)
            number = next(count)
            if number >= order.get("refuse", number + 1):
                return fake.Reply(503, '{"status": {"error": "no more"}}')
            dies = number == order.get("die")
            if dies and not order.get("done"):
                _die()
        reply = super().answer(request)
        if dies:
            _die()
        return reply


def _meant(request: fake.Request, order: dict[str, Any]) -> bool:
    is_there = request.path.endswith(order.get("path", ""))
    return is_there and order.get("method", request.method) == request.method


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    kept, port = KeptQdrant(sys.argv[1]), int(sys.argv[2])
    with ThreadingHTTPServer(("127.0.0.1", port), fake._handler(kept)) as http:
        sys.stdout.write(f"http://127.0.0.1:{http.server_address[1]}\n")
        sys.stdout.flush()
        http.serve_forever(poll_interval=0.05)
