"""Whether training helped: before and after, on queries that neither has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from toolcrib.evaluation.dataset import DataSet
from toolcrib.evaluation.results import Evaluation, SystemResult
from toolcrib.evaluation.runner import CreateSystem, Report, evaluate
from toolcrib.evaluation.significance import randomisation_tests
from toolcrib.evaluation.systems.ours import OwnSystems
from toolcrib.settings import Settings
from toolcrib.training.splits import TEST

__all__ = ["MEASURES", "Change", "Verdict", "judge"]

MEASURES = ("ndcg@10", "hit@1", "completeness@10")
"""What is shown; the first decides."""

LEVEL = 0.05

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Change:
    """A measure of a data set before and after.

    `p` is that of a paired randomisation test of this measure alone.
    """

    data_set: str
    measure: str
    before: float
    after: float
    p: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What training was worth: `better` or `worse` only where chance is no likely reason.

    nDCG@10 decides, in the mean over the data sets; `p` is that of a paired randomisation test.
    """

    outcome: Literal["better", "no difference", "worse"]
    p: float
    changes: tuple[Change, ...]


def judge(
    data_sets: Sequence[DataSet],
    before: Settings,
    after: Settings,
    *,
    limit: int | None = None,
    seed: int = 0,
    progress: Report | None = None,
) -> Verdict:
    """Measure the whole search with both settings on the test queries of the data sets.

    Raises:
        SettingsError: a data set has no test queries.
        MissingExtraError: the extra `eval` is not installed.
    """
    old, new = OwnSystems(before), OwnSystems(after)
    systems: dict[str, CreateSystem] = {
        "before": lambda: old.make("toolcrib"),
        "after": lambda: new.make("toolcrib"),
    }
    try:
        found = evaluate(data_sets, systems, split=TEST, limit=limit, seed=seed, progress=progress)
    finally:
        old.close()
        new.close()
    return _verdict(found, seed)


def _verdict(found: Evaluation, seed: int) -> Verdict:
    changes: list[Change] = []
    deciding: list[Floats] = []
    for data in found.sets.values():
        before, after = (_measured(data.systems[name]) for name in ("before", "after"))
        if not len(before):
            continue
        differences = after - before
        tests = randomisation_tests(differences, seed)
        changes += (
            Change(data.name, measure, old, new, float(p))
            for measure, old, new, p in zip(
                MEASURES, before.mean(axis=0), after.mean(axis=0), tests, strict=True
            )
        )
        # Every data set weighs the same, however many queries it has.
        deciding.append(differences[:, :1] / len(differences) / len(found.sets))
    if not deciding:
        return Verdict("no difference", 1.0, ())
    weighed = np.concatenate(deciding)
    chance = float(randomisation_tests(weighed, seed)[0])
    if chance >= LEVEL:
        return Verdict("no difference", chance, tuple(changes))
    return Verdict("better" if weighed.sum() > 0 else "worse", chance, tuple(changes))


def _measured(system: SystemResult) -> Floats:
    """float64 [answerable queries, measures]."""
    rows = [outcome.measures for outcome in system.outcomes if outcome.measures]
    return np.array([[row[measure] for measure in MEASURES] for row in rows], dtype=np.float64)
