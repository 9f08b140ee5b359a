"""The sample data set, read once."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.evaluation.dataset import DataSet
from toolcrib.evaluation.loaders import load

DATA = Path(__file__).parent.parent.parent / "data"


@pytest.fixture(scope="session")
def sample() -> DataSet:
    """The sample registry with its labelled queries."""
    return load(str(DATA))
