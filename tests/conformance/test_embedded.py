"""The embedded crib keeps the contract: it never disagrees with one that shares its store."""

from __future__ import annotations

import itertools
from contextlib import ExitStack

import pytest

from tests.conformance.conformance import CribContract
from toolcrib import Crib
from toolcrib.router.settings import TelemetrySettings


class TestEmbedded(CribContract):
    @pytest.fixture(scope="class")
    @classmethod
    def new_crib(cls, settings, tmp_path_factory):
        logs, numbers = tmp_path_factory.mktemp("logs"), itertools.count()
        with ExitStack() as opened:

            def new():
                telemetry = TelemetrySettings(path=str(logs / f"{next(numbers)}.jsonl"))
                own = settings.model_copy(update={"telemetry": telemetry})
                return opened.enter_context(Crib.open(":memory:", settings=own))

            yield new

    @pytest.fixture(scope="class")
    @classmethod
    def behind(cls):
        return lambda crib: crib
