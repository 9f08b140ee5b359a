"""What an index and a calibration rest on: all that moves a score, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from toolcrib import Settings
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.lexical import LexicalEncoder, LexicalSettings
from toolcrib.fingerprint import calibration_fingerprint, mismatch_message, tool_fingerprint
from toolcrib.retrieval.rerank import RerankSettings
from toolcrib.settings import ServerSettings

DEFAULTS = Settings()


class Judge:
    """A reranker that is never asked."""

    def __init__(self, name: str) -> None:
        self.name = name

    def score(self, query: str, texts: list[str]) -> Any:
        return np.zeros(len(texts))


def _index(settings: Settings = DEFAULTS, dimensions: int = 64) -> dict[str, Any]:
    encoder = DeterministicEncoder(dimensions)
    return dict(tool_fingerprint(encoder, LexicalEncoder(settings.lexical), settings))


def _calibration(settings: Settings = DEFAULTS, judge: Judge | None = None) -> dict[str, Any]:
    encoder = DeterministicEncoder(64)
    return dict(calibration_fingerprint(_index(settings), encoder, settings, judge))


class TaughtEncoder(DeterministicEncoder):
    """An encoder that was taught another's vectors."""

    @property
    def name(self) -> str:
        return "taught"

    @property
    def space(self) -> str:
        return DeterministicEncoder(self.dimensions).name


def _with(**fields: Any) -> Settings:
    return DEFAULTS.model_copy(update=fields)


def test_an_index_rests_on_models_weights_and_versions() -> None:
    identity = _index()
    assert set(identity) == {"format", "dense", "dimensions", "lexical", "fields"}
    assert (identity["dense"], identity["dimensions"]) == ("deterministic-trigrams-64", 64)
    assert {"version", "name", "description", "examples"} <= identity["fields"].keys()


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        (_with(lexical=LexicalSettings(b=0.5)), "lexical"),
        (_with(fields=replace(DEFAULTS.fields, name=9.0)), "fields"),
    ],
)
def test_what_changes_a_point_changes_both(settings: Settings, what: str) -> None:
    for made in (_index, _calibration):
        plain, changed = made(), made(settings)
        assert [key for key in plain if plain[key] != changed[key]] == [what]


@pytest.mark.parametrize("weights", [{"lexical": 0.9}, {"clauses": 0.25}, {"clauses": 0.0}])
def test_what_changes_a_score_changes_a_calibration_alone(weights: dict[str, float]) -> None:
    changed = _with(fusion=replace(DEFAULTS.fusion, **weights))
    assert _index(changed) == _index()
    assert _calibration(changed)["fusion"] != _calibration()["fusion"]


def test_a_reranker_and_how_much_it_counts_are_part_of_a_calibration() -> None:
    light = _with(rerank=RerankSettings(weight=0.1))
    assert _calibration()["reranker"] is None
    assert _calibration(light) == _calibration()
    seen = [_calibration(s, Judge(name)) for s in (DEFAULTS, light) for name in ("one", "other")]
    assert len({repr(identity["reranker"]) for identity in seen}) == 4


def test_what_moves_no_score_changes_nothing() -> None:
    elsewhere = _with(
        store="elsewhere",
        gate=replace(DEFAULTS.gate, threshold=0.9),
        server=ServerSettings(collection="other"),
    )
    assert _calibration(elsewhere) == _calibration()
    assert _index(elsewhere) == _index()


def test_a_difference_names_all_that_differs_and_what_to_do() -> None:
    told = mismatch_message(_index(dimensions=32), _index())
    assert "dense 'deterministic-trigrams-32', now 'deterministic-trigrams-64'" in told
    assert "dimensions 32, now 64; rebuild the index with `toolcrib index --rebuild`" in told


def test_an_encoder_taught_anothers_vectors_has_its_calibration_and_an_index_of_its_own() -> None:
    taught, lexical = TaughtEncoder(64), LexicalEncoder(DEFAULTS.lexical)
    index = tool_fingerprint(taught, lexical, DEFAULTS)
    assert index["dense"] == "taught"
    assert calibration_fingerprint(index, taught, DEFAULTS, None) == _calibration()
