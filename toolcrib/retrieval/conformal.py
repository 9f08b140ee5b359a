"""Sets with a guarantee: as small as they can be, and complete with a stated probability.

Split conformal prediction (Vovk, Gammerman and Shafer 2005; Angelopoulos and Bates 2023,
section 1): over `n` labelled queries, take the `floor((n + 1)(1 - coverage))`-th smallest of the
least probabilities that a needed tool had. A set of all tools from that probability on holds
every needed tool of a new query with probability `coverage` or more, provided that the new
query is exchangeable with the labelled ones: drawn as they were, over the same tools.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from toolcrib.errors import QueryError

__all__ = ["COVERAGE", "MAX_SET", "least_probability", "set_size"]

COVERAGE = 0.95
"""With what probability a set holds every needed tool, where nobody says."""

MAX_SET = 50
"""No set grows beyond this, whatever was asked for."""


def least_probability(needed: Sequence[float], coverage: float) -> float:
    """The probability from which on tools belong to the set; `needed` ascends.

    0 means that no set of found tools can promise this much: too few labelled queries, or too
    many whose tools were not found at all.

    Raises:
        QueryError: `coverage` is no probability.
    """
    if not 0 <= coverage <= 1:
        raise QueryError(f"coverage is {coverage}; it must be between 0 and 1")
    # The small number keeps 10 * (1 - 0.9), which is 0.9999999999999998, from being less than 1.
    place = math.floor((len(needed) + 1) * (1 - coverage) + 1e-9)
    if place > len(needed):
        return 1.0
    return needed[place - 1] if place >= 1 else 0.0


def set_size(probabilities: Sequence[float], least: float) -> int:
    """How many of the ranked tools the set takes; at least one where there is one."""
    size = sum(probability >= least for probability in probabilities[:MAX_SET])
    return max(size, min(1, len(probabilities)))
