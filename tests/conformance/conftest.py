"""Embedded cribs to compare with."""

from __future__ import annotations

import itertools

import pytest

from tests.router.conftest import free_of_models
from toolcrib.tenants import Tenants


@pytest.fixture(scope="package")
def settings():
    """What all cribs here are made with: no model, no registry too small to search, no audit."""
    return free_of_models(tools={"pass_through": 0}, audit=False)


@pytest.fixture(scope="package")
def new_twin(settings):
    """Gives an empty embedded crib to compare with; making one takes no time."""
    numbers = itertools.count()
    with Tenants.open(":memory:", settings=settings) as namespaces:
        yield lambda: namespaces.crib(f"twin-{next(numbers)}")
