"""Gate: accepts an answer, falls back or abstains, and sizes sets that hold all needed tools.

Sets are complete with a stated probability by split conformal prediction (Vovk, Gammerman and
Shafer 2005; Angelopoulos and Bates 2023, section 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, NamedTuple

from pydantic import Field

from toolcrib.errors import CalibrationError, QueryError, SettingsError, distinct_numbers
from toolcrib.numerics import Floats
from toolcrib.records import FindResult, ToolHit, Verdict
from toolcrib.records.codec import settings_section
from toolcrib.retrieval.calibration import AcceptanceCurve, Calibration, default_calibration
from toolcrib.retrieval.examples import ExampleHeads
from toolcrib.store.base import Store, point_id
from toolcrib.store.filters import Equals, Filter, HasId, all_of
from toolcrib.store.payload import read_tool

_Probability = Annotated[float, Field(ge=0, le=1)]

NO_TOOL_REASON = "no tool is in reach (scope, filter or an empty index)"
"""One text for all causes, as another text would reveal tools outside a caller's scope."""


@settings_section
class GateSettings:
    """Threshold of the gate, given in one of three ways, and treatment of rejected answers.

    `threshold`: a probability. `target_precision`: share of accepted answers with a right first
    tool. `max_false_acceptance`: share of unanswerable queries that are accepted. The last two look
    up a threshold on the calibration's labelled queries; without any, the calibration's
    recommendation holds. A rejected answer is returned with its verdict; `withhold` removes its
    tools. `fallback`: id of the general tool, which then follows the answer. `enabled: false`: the
    gate only adds its verdict.
    """

    threshold: _Probability | None = None
    target_precision: _Probability | None = None
    max_false_acceptance: _Probability | None = None
    fallback: str | None = None
    withhold: bool = False
    enabled: bool = True

    @property
    def decides(self) -> bool:
        """True if settings set a threshold or withhold tools: rejected tools decide no route."""
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
    ", and the encoder does not read this language: encoder.dense: multilingual, of the extra "
    "toolcrib[multilingual], reads twelve (`toolcrib docs languages`)"
)


class Judgement(NamedTuple):
    """Verdict on an answer: fit or not, the reason in words, and the threshold."""

    fits: bool
    reason: str
    threshold: float | None = None


def judge(
    settings: GateSettings, calibration: Calibration | None, confidence: float | None, server: str
) -> Judgement:
    """Judge an answer by its confidence; `server`: of its first tool.

    Raises:
        CalibrationError: the calibration lacks what the settings need.
    """
    if confidence is None or calibration is None:
        reason = "not calibrated for these models and settings: run `toolcrib calibrate`"
        return Judgement(fits=True, reason=reason)
    threshold, origin = _threshold(settings, calibration, server)
    fits = confidence >= threshold
    given, least = distinct_numbers(confidence, threshold)
    relation = "reaches" if fits else "is below"
    reason = f"confidence {given} {relation} the threshold {least} ({origin})"
    return Judgement(fits, reason, threshold)


def _threshold(settings: GateSettings, calibration: Calibration, server: str) -> tuple[float, str]:
    """Threshold, and its origin in words."""
    if settings.threshold is not None:
        return settings.threshold, "as set"
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
            "gate.max_false_acceptance: the calibration has no unanswerable queries; add some "
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
    """Assessor of rankings by a calibration; without one there is no confidence, and all pass.

    `examples`: heads over tools' examples. `by_words` assesses rankings of the lexical leg alone,
    by the calibration `lexical`.
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
        """True if the gate removes the tools of a rejected answer."""
        self.calibrated = calibration is not None
        self.head = None if calibration is None else calibration.head
        """Head that the calibration was fitted with."""

    @cached_property
    def by_words(self) -> Assessor:
        """Assessor for a failed encoder; sets are marked as incomplete instead of an error."""
        made = Assessor(self._store, self._settings, self._lexical)
        made._is_degraded = self.calibrated
        return made

    @property
    def is_shipped(self) -> bool:
        """True for the shipped calibration, which was not fitted on this index."""
        return self._calibration is default_calibration()

    @property
    def by_examples(self) -> bool:
        """True if tools' examples get a head; own calibrations need one in their fit."""
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
        """Smallest set that is complete with probability `coverage`, and marks of failures.

        `coverage` is `DEFAULT_COVERAGE` if None.

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
        least = min_set_probability(
            self._calibration.needed, DEFAULT_COVERAGE if coverage is None else coverage
        )
        size = set_size([hit.probability or 0.0 for hit in hits], least)
        return hits[:size], () if least > 0 else ("coverage",)

    def judge(self, result: FindResult, allowed: Filter | None, *, marks: bool) -> FindResult:
        """Add the gate's verdict; without `marks` also apply it.

        The general tool then follows rejected tools, which are removed if the settings withhold.
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
        return replace(
            judged, tools=append_general_tool(kept, general), fallback=general is not None
        )

    def _judgement(self, result: FindResult) -> Judgement:
        if not result.tools:
            return Judgement(fits=False, reason=NO_TOOL_REASON)
        first = result.tools[0]
        if first.score >= 1:
            return Judgement(fits=True, reason="called by its name")
        judged = judge(self._settings, self._calibration, result.confidence, first.server)
        if UNSUPPORTED_LANGUAGE in result.degraded and not judged.fits:
            return judged._replace(reason=judged.reason + LANGUAGE_HINT)
        return judged

    def general(self, allowed: Filter | None) -> ToolHit | None:
        """General tool of the settings, if it is enabled and in the caller's scope."""
        if self._settings.fallback is None or not self._settings.enabled:
            return None
        only = HasId(frozenset({point_id(self._settings.fallback)}))
        for record in self._store.scroll(all_of(only, ENABLED, allowed), ("spec",)):
            return ToolHit(0, 0.0, read_tool(record.payload), {"fallback": 1.0})
        return None


def append_general_tool(hits: Sequence[ToolHit], general: ToolHit | None) -> tuple[ToolHit, ...]:
    """Append the general tool to the hits; if a hit already, it is marked in its place."""
    if general is None:
        return tuple(hits)
    if all(hit.id != general.id for hit in hits):
        return (*hits, replace(general, rank=len(hits) + 1))
    marked = {general.id: general.legs}
    return tuple(replace(hit, legs=hit.legs | marked.get(hit.id, {})) for hit in hits)


def keep_likely_hits(hits: Sequence[ToolHit], least: float) -> list[ToolHit]:
    """Hits of at least this probability, the first hit, and hits called by name."""
    return [
        hit
        for place, hit in enumerate(hits)
        if not place or hit.score >= 1 or hit.probability is None or hit.probability >= least
    ]


DEFAULT_COVERAGE = 0.8
"""Default probability that a set holds every needed tool."""

MAX_SET_TOOLS = 50
"""Maximum number of tools in a set."""


def min_set_probability(needed: Sequence[float], coverage: float) -> float:
    """Minimum probability of a tool in the set; `needed` ascends.

    0 means that no set of found tools reaches the coverage: too few labelled queries, or too many
    with tools that were not found.

    Raises:
        QueryError: `coverage` is no probability.
    """
    if not 0 <= coverage <= 1:
        raise QueryError(f"coverage is {coverage}; it must be between 0 and 1")
    # Rounding: 10 * (1 - 0.9) is 0.9999999999999998, and must count as 1.
    place = math.floor((len(needed) + 1) * (1 - coverage) + 1e-9)
    if place > len(needed):
        return 1.0
    return needed[place - 1] if place >= 1 else 0.0


def set_size(probabilities: Sequence[float], least: float) -> int:
    """Number of ranked tools in the set; at least one if there is any."""
    size = sum(probability >= least for probability in probabilities[:MAX_SET_TOOLS])
    return max(size, min(1, len(probabilities)))
