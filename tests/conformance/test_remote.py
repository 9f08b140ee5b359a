"""The crib behind a URL keeps the contract, over a real server and with a key."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.conformance.conformance import CribContract
from tests.serving import running_service


class TestRemote(CribContract):
    @pytest.fixture(scope="class")
    @classmethod
    def service(cls, settings):
        with running_service(settings) as started:
            yield started

    @pytest.fixture(scope="class")
    @classmethod
    def new_crib(cls, service):
        with ExitStack() as opened:
            yield lambda: opened.enter_context(service.crib())

    @pytest.fixture(scope="class")
    @classmethod
    def behind(cls, service):
        return service.behind
