"""The gate: accept what was found, fall back to something general, or abstain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from toolcrib.errors import CalibrationError, SettingsError
from toolcrib.records import Verdict
from toolcrib.retrieval.confidence import AcceptanceCurve, Calibration

__all__ = ["Gate", "GateSettings", "Judgement"]

Probability = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class GateSettings:
    """When an answer is good enough, in one of three ways, and what happens when it is not.

    `threshold`: a probability. `target_precision`: the share of accepted answers whose first
    tool is right. `max_false_acceptance`: the share of unanswerable queries that are accepted.
    The last two are looked up among the labelled queries of the calibration. None of them:
    what the calibration recommends. `fallback` is the id of the general tool, returned in place
    of what does not fit; without one, nothing is returned. `enabled: false` lets all through.
    """

    threshold: Probability | None = None
    target_precision: Probability | None = None
    max_false_acceptance: Probability | None = None
    fallback: str | None = None
    enabled: bool = True

    @property
    def is_explicit(self) -> bool:
        """Whether a user chose when an answer is good enough."""
        given = (self.threshold, self.target_precision, self.max_false_acceptance)
        return any(value is not None for value in given)

    def __post_init__(self) -> None:
        given = (self.threshold, self.target_precision, self.max_false_acceptance)
        if sum(value is not None for value in given) > 1:
            raise SettingsError(
                "gate: give one of threshold, target_precision and max_false_acceptance",
            )


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the gate says: `fits` or not, against which threshold, and why."""

    fits: bool
    threshold: float | None
    reason: str

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

    def judge(self, confidence: float | None, server: str) -> Judgement:
        """Judge an answer by its confidence; `server` is that of its first tool.

        Raises:
            CalibrationError: the settings ask for what the calibration cannot tell.
        """
        if confidence is None:
            reason = "not calibrated for these models and settings: run `toolcrib calibrate`"
            return Judgement(fits=True, threshold=None, reason=reason)
        if server not in self._thresholds:
            self._thresholds[server] = self._threshold(server)
        threshold, origin = self._thresholds[server]
        fits = confidence >= threshold
        sign = "reaches" if fits else "is below"
        reason = f"confidence {confidence:.2f} {sign} the threshold {threshold:.2f} ({origin})"
        return Judgement(fits, threshold, reason)

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
                'with "answerable": false and run `toolcrib calibrate` again',
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
