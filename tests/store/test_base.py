"""A point that an engine would not survive, or would take without a word, is stopped before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.store.samples import LAYOUT, WIDTH, a_full_point, point, sparse, unit
from toolcrib.encoders.base import SparseVector
from toolcrib.errors import BadPointError
from toolcrib.store.base import Point, check_point


def _dense(vector: Any, name: str = "description") -> Point:
    return replace(point("bad"), dense={name: vector})


def _lexical(indices: Any, values: Any) -> Point:
    vector = SparseVector(np.array(indices, np.uint32), np.array(values, np.float32))
    return replace(point("bad"), sparse={"lexical": vector})


BAD_POINTS: dict[str, Callable[[], Point]] = {
    "an id that is no number": lambda: replace(point("bad"), id="tool-1"),
    "a negative id": lambda: replace(point("bad"), id=-1),
    "an id of 64 bits": lambda: replace(point("bad"), id=2**63),
    "an unknown dense vector": lambda: _dense(unit(1), name="nowhere"),
    "a vector that is too short": lambda: _dense(unit(1)[:-1]),
    "a vector that is too long": lambda: _dense(np.append(unit(1), np.float32(0))),
    "a matrix for a vector": lambda: _dense(unit(1)[np.newaxis]),
    "NaN in a vector": lambda: _dense(np.full(WIDTH, np.nan, dtype=np.float32)),
    "infinity in a vector": lambda: _dense(np.full(WIDTH, np.inf, dtype=np.float32)),
    "a zero vector": lambda: _dense(np.zeros(WIDTH, dtype=np.float32)),
    "a vector of length two": lambda: _dense(2 * unit(1)),
    "float64 numbers": lambda: _dense(unit(1).astype(np.float64)),
    "a multivector without rows": lambda: point("bad", multi=np.zeros((0, WIDTH), np.float32)),
    "a vector for a multivector": lambda: point("bad", multi=unit(1)),
    "NaN in a row": lambda: point("bad", multi=np.full((2, WIDTH), np.nan, np.float32)),
    "an unknown sparse vector": lambda: replace(point("bad"), sparse={"nowhere": sparse({1: 1})}),
    "more indices than values": lambda: _lexical([1, 2], [1.0]),
    "more values than indices": lambda: _lexical([1], [1.0, 2.0]),
    "an index twice": lambda: _lexical([1, 1], [1.0, 2.0]),
    "indices out of order": lambda: _lexical([2, 1], [1.0, 2.0]),
    "NaN in a sparse vector": lambda: _lexical([1], [float("nan")]),
    "NaN in the payload": lambda: point("bad", cost_estimate=float("nan")),
    "infinity deep in the payload": lambda: point("bad", schema={"max": [float("inf")]}),
    "half a character in the payload": lambda: point("bad", category="\ud800"),
    "half a character deep in the payload": lambda: point("bad", tags=["\ud800"]),
    "half a character in a field's name": lambda: point("bad", **{"\ud800": 1}),
    "a payload that JSON cannot hold": lambda: point("bad", tags={"a", "b"}),
}


def test_a_full_point_is_taken():
    check_point(a_full_point(), LAYOUT)


@pytest.mark.parametrize("bad", BAD_POINTS.values(), ids=BAD_POINTS.keys())
def test_a_bad_point_is_refused(bad):
    with pytest.raises(BadPointError):
        check_point(bad(), LAYOUT)
