"""Services and engines that are ended with their test, however it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import Engine, Served, make_key


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts services over a store; a later one of the same log follows an earlier one."""
    started: list[Served] = []

    def start(store: Path | str, settings: Any = None, **how: Any) -> Served:
        started.append(Served(store, tmp_path / "service.log", settings=settings, **how))
        return started[-1]

    yield start
    for service in started:
        service.kill()


@dataclass
class Cluster:
    """Two services over one engine, and a key to both.

    `patient` gives the engine two seconds for each request. `hasty` gives it more than all the
    time there is, yet its own callers have an answer after two seconds; it takes eight at once,
    and has four threads for them.
    """

    engine: Engine
    patient: Served
    hasty: Served
    key: str


PATIENT = {"SERVER__TIMEOUT_S": 2, "SERVICE__TIMEOUT_S": 60}
HASTY = {
    "SERVER__TIMEOUT_S": 600,
    "SERVICE__TIMEOUT_S": 2,
    "SERVICE__CONCURRENT": 8,
    "SERVICE__WORKERS": 4,
}


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for all tests, since it takes seconds to start."""
    folder = tmp_path_factory.mktemp("cluster")
    engine = Engine(folder / "engine")
    services: list[Served] = []
    try:
        key = make_key(engine.url)
        for name, settings in (("patient", PATIENT), ("hasty", HASTY)):
            services.append(Served(engine.url, folder / f"{name}.log", settings=settings))
        yield Cluster(engine, *services, key)
    finally:
        for service in services:
            service.kill()
        engine.kill()


@pytest.fixture
def cluster(running_cluster: Cluster) -> Iterator[Cluster]:
    yield running_cluster
    running_cluster.engine.mend()
