"""Settings of a crib that learns from outcomes."""

from __future__ import annotations

import pytest

from tests.router.conftest import free_of_models


@pytest.fixture
def settings():
    return free_of_models(learning={"enabled": True}, durability="system")
