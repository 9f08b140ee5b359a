"""Head: a linear classifier over the examples of tools, fitted where there are enough of them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from toolcrib.crib import Crib
from toolcrib.extras import import_extra
from toolcrib.records import ToolSpec
from toolcrib.retrieval.legs import Head, pack

__all__ = ["fit_head"]

MIN_EXAMPLES = 5
MIN_SHARE = 0.95
MIN_TOOLS, MAX_TOOLS = 2, 1000
"""A head is for registries where all but 5 % of the tools have 5 examples or more."""

INVERSE_REGULARISATION = 10.0
"""On vectors of unit length scikit-learn's 1 is too strong."""


def fit_head(crib: Crib) -> Head | None:
    """A head for the tools of an index; None where too few have examples enough.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    tools = [tool for tool in crib.list_tools() if tool.enabled]
    taught = [tool for tool in tools if len(tool.success_examples) >= MIN_EXAMPLES]
    taught.sort(key=attrgetter("id"))
    if not MIN_TOOLS <= len(taught) <= MAX_TOOLS or len(taught) < MIN_SHARE * len(tools):
        return None
    return _fitted(crib, taught)


def _fitted(crib: Crib, tools: Sequence[ToolSpec]) -> Head:
    linear = import_extra("sklearn.linear_model", "fitting a head", "eval")
    vectors = crib.tools.encode([text for tool in tools for text in tool.success_examples])
    labels = np.repeat(np.arange(len(tools)), [len(tool.success_examples) for tool in tools])
    model = linear.LogisticRegression(C=INVERSE_REGULARISATION, max_iter=500)
    model.fit(vectors, labels)
    weights, offsets = model.coef_, model.intercept_
    if weights.shape[0] == 1:  # scikit-learn gives one row for two classes
        weights = np.vstack([-weights[0], weights[0]])
        offsets = np.array([-offsets[0], offsets[0]])
    return pack([tool.id for tool in tools], weights, offsets)
