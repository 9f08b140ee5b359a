"""Gate: accepts an answer, falls back or abstains, and sizes sets that hold all needed tools.

Sets are complete with a stated probability by split conformal prediction (Vovk, Gammerman and
Shafer 2005; Angelopoulos and Bates 2023, section 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, NamedTuple

from pydantic import Field

from toolcrib.errors import CalibrationError, QueryError, SettingsError, distinct_numbers
from toolcrib.numerics import Floats
from toolcrib.records import FindResult, ToolHit, Verdict
from toolcrib.retrieval.calibration import AcceptanceCurve, Calibration, default_calibration
from toolcrib.retrieval.examples import ExampleHeads
from toolcrib.store.base import Store, point_id
from toolcrib.store.filters import Equals, Filter, HasId, all_of
from toolcrib.store.payload import read_tool

_Probability = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class GateSettings:
    """When an answer is good enough, in one of three ways, and what happens when it is not.

    `threshold`: a probability. `target_precision`: the share of accepted answers whose first
    tool is right. `max_false_acceptance`: the share of unanswerable queries that are accepted.
    The last two are looked up among the labelled queries of the calibration. None of them:
    what the calibration recommends. What does not fit is returned with its verdict; with
    `withhold` it is held back. `fallback` is the id of the general tool, which then comes behind
    it. `enabled: false`: the verdict is all that the gate adds.
    """

    threshold: _Probability | None = None
    target_precision: _Probability | None = None
    max_false_acceptance: _Probability | None = None
    fallback: str | None = None
    withhold: bool = False
    enabled: bool = True

    @property
    def decides(self) -> bool:
        """True if no turn goes to doubted tools alone: a user set a limit, or withholds them."""
        return self.enabled and (self.withhold or bool(self._limits))

    @property
    def _limits(self) -> list[float]:
        given = (self.threshold, self.target_precision, self.max_false_acceptance)
        return [value for value in given if value is not None]

    def __post_init__(self) -> None:
        if len(self._limits) > 1:
            raise SettingsError(
                "gate: give one of threshold, target_precision and max_false_acceptance"
            )


UNSUPPORTED_LANGUAGE = "unsupported-language"
"""Mark of an answer whose query is in a language that the encoder cannot read."""


LANGUAGE_HINT = (
    ", as the encoder does not read this language: set encoder.dense to multilingual, of the extra "
    "toolcrib[multilingual] (`toolcrib docs languages`)"
)


class Judgement(NamedTuple):
    """Judgement of an answer: fit or not, the reason in words, and the threshold."""

    fits: bool
    reason: str
    threshold: float | None = None


def judge(
    settings: GateSettings, calibration: Calibration | None, confidence: float | None, server: str
) -> Judgement:
    """Judge an answer by its confidence; `server` is that of its first tool.

    Raises:
        CalibrationError: the settings ask for what the calibration cannot tell.
    """
    if confidence is None:
        reason = "not calibrated for these models and settings: run `toolcrib calibrate`"
        return Judgement(fits=True, reason=reason)
    threshold, origin = _threshold(settings, calibration, server)
    fits = confidence >= threshold
    given, least = distinct_numbers(confidence, threshold)
    relation = "reaches" if fits else "is below"
    reason = f"confidence {given} {relation} the threshold {least} ({origin})"
    return Judgement(fits, reason, threshold)


def _threshold(
    settings: GateSettings, calibration: Calibration | None, server: str
) -> tuple[float, str]:
    """The threshold, and its origin in words."""
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
        found = lowest_threshold(curve, curve.precision, settings.target_precision)
        return found, f"for a precision of {settings.target_precision:.0%}{where}"
    limit = settings.max_false_acceptance or 0.0
    if curve.false_acceptance is None:
        raise CalibrationError(
            "gate.max_false_acceptance: the calibration saw no unanswerable query; add some "
            'with "answerable": false and run `toolcrib calibrate` again'
        )
    rejected = tuple(1 - share for share in curve.false_acceptance)
    found = lowest_threshold(curve, rejected, 1 - limit)
    return found, f"for a false acceptance of {limit:.0%}{where}"


def lowest_threshold(curve: AcceptanceCurve, values: tuple[float, ...], wanted: float) -> float:
    """Lowest threshold from which all values reach `wanted`; 1 if none does."""
    found = 1.0
    for threshold, value in zip(reversed(curve.thresholds), reversed(values), strict=True):
        if value < wanted:
            break
        found = threshold
    return found


ENABLED = Equals("enabled", value=True)


class Assessor:
    """Assessor of rankings by a calibration; without one answers have no confidence and all pass.

    `examples` are the heads over tools' examples. `by_words` judges rankings of the lexical leg
    alone, by the calibration `lexical`.
    """

    def __init__(
        self,
        store: Store,
        settings: GateSettings,
        calibration: Calibration | None,
        lexical: Calibration | None = None,
        examples: ExampleHeads | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._calibration = calibration
        self._lexical = lexical
        self.examples = examples or ExampleHeads(store)
        self._is_degraded = False
        self.withholds = settings.enabled and settings.withhold
        """True if an answer that does not fit is held back."""
        self.calibrated = calibration is not None
        self.head = None if calibration is None else calibration.head
        """Head that the calibration was fitted with."""

    @cached_property
    def by_words(self) -> Assessor:
        """Assessor for a failed encoder; a set is then marked as incomplete, not refused."""
        made = Assessor(self._store, self._settings, self._lexical)
        made._is_degraded = self.calibrated
        return made

    @property
    def is_shipped(self) -> bool:
        """True for the shipped calibration, which was not fitted on this index."""
        return self._calibration is default_calibration()

    @property
    def by_examples(self) -> bool:
        """True if tools' examples get a head; own calibrations need one in their scores."""
        return self._calibration is None or self.is_shipped or self._calibration.by_examples

    def estimate(self, known: Floats, query: Floats) -> tuple[float | None, list[float]]:
        """Confidence of an answer, and the probability of each hit.

        `known`: float64 [hits, features]. `query`: float64 [query features].
        """
        assert self._calibration is not None, "only calibrated answers have probabilities"
        confidence = self._calibration.confidence(known, query)
        return confidence, self._calibration.probabilities(known, confidence).tolist()

    def complete(
        self, hits: list[ToolHit], coverage: float | None
    ) -> tuple[list[ToolHit], tuple[str, ...]]:
        """Smallest set that is complete with probability `coverage`, and marks of what it lacks.

        `coverage` is `DEFAULT_COVERAGE` where None.

        Raises:
            CalibrationError: there is no calibration.
        """
        if self._calibration is None:
            if self._is_degraded:
                return hits, ("coverage",)
            raise CalibrationError(
                'k="auto" needs a calibration for these models and settings: '
                "run `toolcrib calibrate`"
            )
        least = least_probability(
            self._calibration.needed, DEFAULT_COVERAGE if coverage is None else coverage
        )
        size = set_size([hit.probability or 0.0 for hit in hits], least)
        return hits[:size], () if least > 0 else ("coverage",)

    def judge(self, result: FindResult, allowed: Filter | None, *, marks: bool) -> FindResult:
        """Add the gate's verdict; without `marks` act on it too.

        Tools that do not fit are then followed by the general tool, and held back where the
        settings withhold.
        """
        judgement = self._judgement(result)
        general = None if judgement.fits else self.general(allowed)
        unfit: Verdict = "abstain" if general is None else "fallback"
        judged = replace(
            result,
            verdict="accept" if judgement.fits else unfit,
            reason=judgement.reason,
            threshold=judgement.threshold,
        )
        if judgement.fits or marks or not self._settings.enabled:
            return judged
        kept = () if self.withholds else result.tools
        return replace(judged, tools=with_general(kept, general), fallback=general is not None)

    def _judgement(self, result: FindResult) -> Judgement:
        if not result.tools:
            return Judgement(fits=False, reason="there is no tool in reach")
        first = result.tools[0]
        if first.score >= 1:
            return Judgement(fits=True, reason="called by its name")
        judged = judge(self._settings, self._calibration, result.confidence, first.server)
        if UNSUPPORTED_LANGUAGE in result.degraded and not judged.fits:
            return judged._replace(reason=judged.reason + LANGUAGE_HINT)
        return judged

    def general(self, allowed: Filter | None) -> ToolHit | None:
        """General tool of the settings, if it is enabled and in the caller's reach."""
        if self._settings.fallback is None or not self._settings.enabled:
            return None
        only = HasId(frozenset({point_id(self._settings.fallback)}))
        for record in self._store.scroll(all_of(only, ENABLED, allowed), ("spec",)):
            return ToolHit(0, 0.0, read_tool(record.payload), {"fallback": 1.0})
        return None


def with_general(hits: Sequence[ToolHit], general: ToolHit | None) -> tuple[ToolHit, ...]:
    """Append the general tool to the hits; a general tool among the hits is marked in its place."""
    if general is None:
        return tuple(hits)
    if all(hit.id != general.id for hit in hits):
        return (*hits, replace(general, rank=len(hits) + 1))
    marked = {general.id: general.legs}
    return tuple(replace(hit, legs=hit.legs | marked.get(hit.id, {})) for hit in hits)


def likely_enough(hits: Sequence[ToolHit], least: float) -> list[ToolHit]:
    """Hits of at least this probability, the first hit, and hits called by name."""
    return [
        hit
        for place, hit in enumerate(hits)
        if not place or hit.score >= 1 or hit.probability is None or hit.probability >= least
    ]


DEFAULT_COVERAGE = 0.8
"""Probability that a set holds every needed tool, where the settings give none."""

MAX_SET = 50
"""Limit of tools in a set."""


def least_probability(needed: Sequence[float], coverage: float) -> float:
    """Least probability of a tool in the set; `needed` ascends.

    0 means that no set of found tools can reach the coverage: too few labelled queries, or too
    many of them with tools that were not found.

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
    """Number of ranked tools in the set; at least one where there is one."""
    size = sum(probability >= least for probability in probabilities[:MAX_SET])
    return max(size, min(1, len(probabilities)))
