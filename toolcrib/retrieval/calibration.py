"""Calibration and gate: from scores to probabilities, and from those to a verdict.

Every ranked tool gets features from the scores alone, and a logistic regression, fitted on
labelled queries, turns them into the probability that this tool is right. That of the first
tool is the confidence of the answer, by which the gate accepts it, falls back or abstains.
A calibration is kept beside the index that it was made for.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolcrib.errors import CalibrationError, QueryError, SettingsError
from toolcrib.records import FindResult, ToolHit, Verdict
from toolcrib.records.validation import in_words
from toolcrib.retrieval.legs import Head, LegScores
from toolcrib.store.base import Store, point_id
from toolcrib.store.filters import Equals, Filter, HasId, all_of
from toolcrib.store.payload import read_tool

__all__ = [
    "CALIBRATION_KEY",
    "COMPETITORS",
    "COVERAGE",
    "ENABLED",
    "FEATURES",
    "FEATURES_VERSION",
    "GATE_TEXTS",
    "MAX_SET",
    "AcceptanceCurve",
    "Assessor",
    "Calibration",
    "Figures",
    "Floats",
    "Gate",
    "GateJudgement",
    "GateReason",
    "GateSettings",
    "default_calibration",
    "differences",
    "features",
    "least_probability",
    "load_calibration",
    "logistic",
    "probabilities",
    "read_calibration",
    "save_calibration",
    "set_size",
    "softmax",
    "usable_calibration",
]

FEATURES_VERSION = 1
"""Raise it when `features` changes: calibrations of another version are refused."""

FEATURES = (
    "share_sharp",
    "share_soft",
    "log_rank",
    "is_first",
    "gap",
    "best_dense",
    "best_lexical",
)

NOTHING = 0.25
"""The fused score at which "no tool at all" is as good a guess: it competes in the shares, so
that a lonely weak candidate is not sure of itself. Chosen on development splits."""

SHARP, SOFT = 0.02, 0.04
"""Temperatures of the shares."""

COMPETITORS = 20
"""Shares are among these many: what stands lower must not depend on how deep the legs looked."""

_CLIP = 1e-6
_FAR = 30.0
_DEFAULT = Path(__file__).with_name("calibration.json")

Floats = NDArray[np.float64]


def features(scores: Sequence[float], legs: Sequence[LegScores]) -> Floats:
    """What is known of each candidate of one query: float64 [n, len(FEATURES)].

    `scores` are the fused ones in the order of the ranking, in [0, 1]. A share is the logit of
    the candidate's part in a softmax over the first `COMPETITORS` and "nothing"; `gap` is the
    distance to the first one's score.
    """
    fused = np.asarray(scores, dtype=np.float64)
    if not fused.size:
        return np.empty((0, len(FEATURES)))
    dense = np.array([leg.dense for leg in legs])
    lexical = np.array([leg.lexical for leg in legs])
    best_dense, best_lexical = dense[:COMPETITORS].max(), lexical[:COMPETITORS].max()
    ranks = np.arange(1, fused.size + 1)
    columns = (
        _share(fused, SHARP),
        _share(fused, SOFT),
        np.log(ranks),
        ranks == 1,
        fused[0] - fused,
        dense >= best_dense,
        (lexical >= best_lexical) & (lexical > 0),
    )
    return np.column_stack(columns).astype(np.float64)


def probabilities(known: Floats, weights: Floats, offset: float) -> Floats:
    """The logistic function of the weighted `features`: float64 [n] in (0, 1).

    It never rises along the ranking: what stands lower is no more likely.
    """
    # Beyond that, float64 would say 0 or 1, which no probability from data is.
    logits = np.clip(known @ weights + offset, -_FAR, _FAR)
    return np.minimum.accumulate(1 / (1 + np.exp(-logits)))


def _share(scores: Floats, temperature: float) -> Floats:
    top = max(float(scores.max()), NOTHING)
    weights = np.exp((scores - top) / temperature)
    total = weights[:COMPETITORS].sum() + np.exp((NOTHING - top) / temperature)
    share = weights / total
    share = np.clip(share, _CLIP, 1 - _CLIP)
    return np.log(share / (1 - share))


class AcceptanceCurve(BaseModel):
    """What accepting from each threshold on would have meant for the labelled queries.

    `thresholds` ascend in [0, 1]. `precision` is the share of accepted queries whose first tool
    was right, `true_acceptance` that of answerable queries which were accepted, and
    `false_acceptance` that of unanswerable ones (None where there were none).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    queries: int
    thresholds: tuple[float, ...]
    precision: tuple[float, ...]
    true_acceptance: tuple[float, ...]
    false_acceptance: tuple[float, ...] | None = None


class Figures(BaseModel):
    """What a calibration measured of itself, on queries that it was not fitted on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ece: float
    log_loss: float
    auroc: float | None = None
    queries: int = 0


class Calibration(BaseModel):
    """A fitted mapping, and all that tells whether it still holds.

    `identity` names the models and settings whose scores it maps. `method` is how it came
    about: `default`, `rescaled` (the default's slope and offset fitted anew) or `fitted`.
    `threshold` is the recommended one, `server_thresholds` those of servers that had queries
    enough for their own. `curves` by server; "" is over all. `needed` are, ascending, the least
    probabilities that any needed tool had in each answerable labelled query (0 for one that was
    not found).
    `head` is the classifier that was fitted first, and on whose scores all else rests.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    identity: dict[str, Any]
    method: str
    weights: tuple[float, ...] = Field(min_length=len(FEATURES), max_length=len(FEATURES))
    offset: float
    threshold: float = Field(ge=0, le=1)
    server_thresholds: dict[str, float] = Field(default_factory=dict[str, float])
    curves: dict[str, AcceptanceCurve]
    needed: tuple[float, ...]
    seed: int
    data_digest: str
    queries: int
    figures: Figures
    head: Head | None = None

    def probabilities(self, known: Floats) -> Floats:
        """The probability of each candidate being right: float64 [n] in (0, 1), from `features`."""
        return probabilities(known, np.asarray(self.weights), self.offset)

    def mismatch(self, identity: Mapping[str, Any]) -> str:
        """In what the models and settings in use differ; empty when the calibration holds."""
        return differences(self.identity, identity)


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """In what two identities differ, in words; empty when they are equal."""
    return "; ".join(
        f"{key} {found.get(key)!r}, now {wanted.get(key)!r}"
        for key in sorted({*found, *wanted})
        if found.get(key) != wanted.get(key)
    )


def read_calibration(fields: Mapping[str, Any], where: str) -> Calibration:
    """A calibration as it was stored.

    Raises:
        CalibrationError: something is missing, or another version wrote it.
    """
    try:
        return Calibration.model_validate(fields)
    except ValidationError as error:
        raise CalibrationError(
            f"{where}: {in_words(error)}; run `toolcrib calibrate` again"
        ) from error


@cache
def default_calibration() -> Calibration:
    """The calibration that ships with the package, fitted on public development splits."""
    return Calibration.model_validate_json(_DEFAULT.read_bytes())


logger = logging.getLogger(__name__)

CALIBRATION_KEY = "calibration"
"""Where it stands in the store's small document."""


def load_calibration(store: Store, identity: Mapping[str, Any]) -> Calibration | None:
    """The index's own calibration, or the shipped one where it has none and that one holds.

    Raises:
        CalibrationError: the own one cannot be read, or was made for other models or settings
            than those of `identity`.
    """
    fields = store.read_meta().get(CALIBRATION_KEY)
    if fields is None:
        shipped = default_calibration()
        return None if shipped.mismatch(identity) else shipped
    own = read_calibration(fields, "the calibration of this index")
    _require_match(own, identity)
    return own


def usable_calibration(store: Store, identity: Mapping[str, Any]) -> Calibration | None:
    """As `load_calibration`; instead of raising it warns, and there is none."""
    try:
        return load_calibration(store, identity)
    except CalibrationError as error:
        logger.warning("%s; answers have no confidence until then", error)
        return None


def save_calibration(
    store: Store, identity: Mapping[str, Any], calibration: Calibration | None
) -> None:
    """Keep a calibration beside the index; None removes what is kept there.

    Raises:
        CalibrationError: it was made for other models or settings than those of `identity`.
        StoreError: the store refused.
    """
    if calibration is not None:
        _require_match(calibration, identity)
    meta = {key: value for key, value in store.read_meta().items() if key != CALIBRATION_KEY}
    kept = {} if calibration is None else {CALIBRATION_KEY: calibration.model_dump(mode="json")}
    store.write_meta(meta | kept)


def _require_match(calibration: Calibration, identity: Mapping[str, Any]) -> None:
    if differing := calibration.mismatch(identity):
        raise CalibrationError(
            f"the calibration was made with {differing}; run `toolcrib calibrate` again"
        )


FAR = 60.0
"""Beyond this the exponential says 0 or 1, and further out it overflows."""

Key = TypeVar("Key", bound=Hashable)


def logistic(odds: float) -> float:
    """The probability that has these log-odds."""
    return 1 / (1 + math.exp(-max(-FAR, min(FAR, odds))))


def softmax(odds: Mapping[Key, float]) -> dict[Key, float]:
    """The probabilities of things that exclude each other; they add up to 1."""
    top = max(odds.values())
    raised = {key: math.exp(value - top) for key, value in odds.items()}
    total = sum(raised.values())
    return {key: value / total for key, value in raised.items()}


_Probability = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class GateSettings:
    """When an answer is good enough, in one of three ways, and what happens when it is not.

    `threshold`: a probability. `target_precision`: the share of accepted answers whose first
    tool is right. `max_false_acceptance`: the share of unanswerable queries that are accepted.
    The last two are looked up among the labelled queries of the calibration. None of them:
    what the calibration recommends. `fallback` is the id of the general tool, returned in place
    of what does not fit; without one, nothing is returned. `enabled: false` lets all through.
    """

    threshold: _Probability | None = None
    target_precision: _Probability | None = None
    max_false_acceptance: _Probability | None = None
    fallback: str | None = None
    enabled: bool = True

    @property
    def is_explicit(self) -> bool:
        """Whether a user chose when an answer is good enough."""
        return bool(self._given)

    @property
    def _given(self) -> list[float]:
        given = (self.threshold, self.target_precision, self.max_false_acceptance)
        return [value for value in given if value is not None]

    def __post_init__(self) -> None:
        if len(self._given) > 1:
            raise SettingsError(
                "gate: give one of threshold, target_precision and max_false_acceptance"
            )


class GateReason(StrEnum):
    """Why an answer fits or does not; `GATE_TEXTS` has what is said of each."""

    NOTHING_IN_REACH = "nothing-in-reach"
    CALLED_BY_NAME = "called-by-name"
    NOT_CALIBRATED = "not-calibrated"
    SURE_ENOUGH = "sure-enough"
    NOT_SURE = "not-sure"


GATE_TEXTS: Mapping[GateReason, str] = {
    GateReason.NOTHING_IN_REACH: "there is no tool in reach",
    GateReason.CALLED_BY_NAME: "called by its name",
    GateReason.NOT_CALIBRATED: (
        "not calibrated for these models and settings: run `toolcrib calibrate`"
    ),
    GateReason.SURE_ENOUGH: "confidence {:.2f} reaches the threshold {:.2f} ({})",
    GateReason.NOT_SURE: "confidence {:.2f} is below the threshold {:.2f} ({})",
}


@dataclass(frozen=True, slots=True)
class GateJudgement:
    """What the gate says: `fits` or not, why, and against which threshold, from where."""

    fits: bool
    why: GateReason
    confidence: float | None = None
    threshold: float | None = None
    origin: str = ""

    @property
    def reason(self) -> str:
        """Why, in words."""
        return GATE_TEXTS[self.why].format(self.confidence, self.threshold, self.origin)

    def verdict(self, *, fell_back: bool) -> Verdict:
        """The word for it."""
        if self.fits:
            return "accept"
        return "fallback" if fell_back else "abstain"


class Gate:
    """Judges answers by their confidence."""

    def __init__(self, settings: GateSettings, calibration: Calibration | None) -> None:
        self.settings = settings
        self._calibration = calibration
        self._thresholds: dict[str, tuple[float, str]] = {}

    def judge(self, confidence: float | None, server: str) -> GateJudgement:
        """Judge an answer by its confidence; `server` is that of its first tool.

        Raises:
            CalibrationError: the settings ask for what the calibration cannot tell.
        """
        if confidence is None:
            return GateJudgement(fits=True, why=GateReason.NOT_CALIBRATED)
        if server not in self._thresholds:
            self._thresholds[server] = self._threshold(server)
        threshold, origin = self._thresholds[server]
        fits = confidence >= threshold
        why = GateReason.SURE_ENOUGH if fits else GateReason.NOT_SURE
        return GateJudgement(fits, why, confidence, threshold, origin)

    def _threshold(self, server: str) -> tuple[float, str]:
        """The threshold, and where it comes from."""
        settings, calibration = self.settings, self._calibration
        if settings.threshold is not None:
            return settings.threshold, "as set"
        if calibration is None:
            return 0.0, "as nothing is calibrated"
        if settings.target_precision is None and settings.max_false_acceptance is None:
            if server in calibration.server_thresholds:
                return calibration.server_thresholds[server], f"as calibrated for {server}"
            return calibration.threshold, "as calibrated"
        where = f" for {server}" if server in calibration.curves and server else ""
        curve = calibration.curves.get(server) or calibration.curves[""]
        if settings.target_precision is not None:
            found = _first_from(curve, curve.precision, settings.target_precision)
            return found, f"for a precision of {settings.target_precision:.0%}{where}"
        limit = settings.max_false_acceptance or 0.0
        if curve.false_acceptance is None:
            raise CalibrationError(
                "gate.max_false_acceptance: the calibration saw no unanswerable query; add some "
                'with "answerable": false and run `toolcrib calibrate` again'
            )
        rejected = tuple(1 - share for share in curve.false_acceptance)
        found = _first_from(curve, rejected, 1 - limit)
        return found, f"for a false acceptance of {limit:.0%}{where}"


def _first_from(curve: AcceptanceCurve, values: tuple[float, ...], wanted: float) -> float:
    """The lowest threshold from which on the value is reached all the way up; 1 for none."""
    found = 1.0
    for threshold, value in zip(reversed(curve.thresholds), reversed(values), strict=True):
        if value < wanted:
            break
        found = threshold
    return found


ENABLED = Equals("enabled", value=True)


class Assessor:
    """Judges rankings by a calibration; without one there is no confidence, and all passes."""

    def __init__(
        self, store: Store, settings: GateSettings, calibration: Calibration | None
    ) -> None:
        self._store = store
        self._settings = settings
        self._calibration = calibration
        self._gate = Gate(settings, calibration)

    @property
    def calibrated(self) -> bool:
        """Whether there is anything to judge by."""
        return self._calibration is not None

    @property
    def head(self) -> Head | None:
        """The head that the calibration rests on, if there is one."""
        return self._calibration.head if self._calibration else None

    def with_probabilities(self, hits: list[ToolHit], known: Floats) -> list[ToolHit]:
        """The hits with how likely each is right; `known`: float64 [hits, features]."""
        if self._calibration is None:
            return hits
        likely = self._calibration.probabilities(known).tolist()
        return [replace(hit, probability=p) for hit, p in zip(hits, likely, strict=True)]

    def complete(
        self, hits: list[ToolHit], coverage: float | None
    ) -> tuple[list[ToolHit], tuple[str, ...]]:
        """The smallest set that is complete with probability `coverage`, and what it lacks.

        Without a `coverage` it is `COVERAGE`.

        Raises:
            CalibrationError: there is no calibration to tell.
        """
        if self._calibration is None:
            raise CalibrationError(
                'k="auto" needs a calibration for these models and settings: '
                "run `toolcrib calibrate`"
            )
        least = least_probability(
            self._calibration.needed, COVERAGE if coverage is None else coverage
        )
        size = set_size([hit.probability or 0.0 for hit in hits], least)
        return hits[:size], () if least > 0 else ("coverage",)

    def judge(self, result: FindResult, allowed: Filter | None, *, withhold: bool) -> FindResult:
        """The result with the gate's verdict, and without the tools that it withholds."""
        judgement = self._judgement(result)
        general = None if judgement.fits else self.general(allowed)
        first = result.tools[0] if result.tools else None
        judged = replace(
            result,
            confidence=first.probability if first else None,
            verdict=judgement.verdict(fell_back=general is not None),
            reason=judgement.reason,
            threshold=judgement.threshold,
        )
        if judgement.fits or not withhold or not self._settings.enabled:
            return judged
        tools = () if general is None else (general,)
        return replace(judged, tools=tools, fallback=general is not None)

    def _judgement(self, result: FindResult) -> GateJudgement:
        if not result.tools:
            return GateJudgement(fits=False, why=GateReason.NOTHING_IN_REACH)
        first = result.tools[0]
        if first.score >= 1:
            return GateJudgement(fits=True, why=GateReason.CALLED_BY_NAME)
        return self._gate.judge(first.probability, first.server)

    def general(self, allowed: Filter | None) -> ToolHit | None:
        """The tool to fall back to, where one is named, enabled and in the caller's reach."""
        if self._settings.fallback is None:
            return None
        only = HasId(frozenset({point_id(self._settings.fallback)}))
        for record in self._store.scroll(all_of(only, ENABLED, allowed), ("spec",)):
            return ToolHit(rank=1, score=0.0, tool=read_tool(record.payload))
        return None


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
