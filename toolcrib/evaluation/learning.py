"""All that an index can learn from labelled queries: a head where it pays, and a calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolcrib.crib import Crib
from toolcrib.evaluation.calibration import calibrate
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.evidence import gather_evidence
from toolcrib.evaluation.head import fit_head
from toolcrib.retrieval.confidence import Calibration, default_calibration

__all__ = ["learn"]


def learn(
    crib: Crib,
    queries: Sequence[LabelledQuery],
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Calibration:
    """Fit a calibration to the tools of an index; it is neither used nor kept by this.

    The head is fitted on the tools' examples and the calibration on the queries, so the queries
    must not be those examples.

    Raises:
        CalibrationError: the queries tell too little.
        MissingExtraError: scikit-learn is not installed.
    """
    head = fit_head(crib)
    evidence = gather_evidence(crib, queries, head=head, progress=progress)
    identity = crib.tools.calibration_fingerprint()
    start = default_calibration()
    # A head changes all scores: what was fitted without it is nothing to start from. Nor is the
    # index's own calibration, which may have been fitted on these very queries.
    holds = head is None and not start.mismatch(identity)
    fitted = calibrate(evidence, identity, seed=seed, start=start if holds else None)
    return fitted.model_copy(update={"head": head})
