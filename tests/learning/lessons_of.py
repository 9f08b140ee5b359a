"""Observations made for tests: of any day, session and key, with vectors of two dimensions."""

from __future__ import annotations

import itertools

import numpy as np

from toolcrib.clock import DAY_S
from toolcrib.learning.observations import Observation

NOW = 1_800_000_000.0
ENCODER = "an encoder"
_numbers = itertools.count()


def observation(
    tool="a/x", *, angle=0.0, days=0.0, session="s", by="", digest="d", ranking=(), encoder=ENCODER
):
    """One that is so many days old; its request points into a direction, in degrees."""
    radians = np.deg2rad(angle)
    return Observation(
        decision=f"decision-{next(_numbers)}",
        tool=tool,
        digest=digest,
        at=NOW - days * DAY_S,
        session=session,
        by=by,
        encoder=encoder,
        vector=np.array([np.cos(radians), np.sin(radians)], dtype=np.float32),
        ranking=ranking,
    )
