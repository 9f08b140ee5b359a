"""What a ranking is worth: probabilities, how many tools to return, and the gate's verdict."""

from __future__ import annotations

from dataclasses import replace

from toolcrib.errors import CalibrationError
from toolcrib.records import FindResult, ToolHit
from toolcrib.retrieval.confidence import Calibration, Floats
from toolcrib.retrieval.conformal import COVERAGE, least_probability, set_size
from toolcrib.retrieval.gate import Gate, GateSettings, Judgement
from toolcrib.retrieval.head import Head
from toolcrib.store.filters import Equals, Filter, HasId, all_of
from toolcrib.store.payload import read_tool
from toolcrib.store.base import Store, point_id

__all__ = ["ENABLED", "Assessor"]

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
                "run `toolcrib calibrate`",
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

    def _judgement(self, result: FindResult) -> Judgement:
        if not result.tools:
            return Judgement(fits=False, threshold=None, reason="there is no tool in reach")
        first = result.tools[0]
        if first.score >= 1:
            return Judgement(fits=True, threshold=None, reason="called by its name")
        return self._gate.judge(first.probability, first.server)

    def general(self, allowed: Filter | None) -> ToolHit | None:
        """The tool to fall back to, where one is named, enabled and in the caller's reach."""
        if self._settings.fallback is None:
            return None
        only = HasId(frozenset({point_id(self._settings.fallback)}))
        for record in self._store.scroll(all_of(only, ENABLED, allowed), ("spec",)):
            return ToolHit(rank=1, score=0.0, tool=read_tool(record.payload))
        return None
