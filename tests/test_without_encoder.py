"""Without the encoder: words and cues answer alone, and say how sure they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.conftest import ROOT
from toolcrib import Crib, Decision, Settings
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.errors import EncoderError

Decisions: TypeAlias = list[tuple[dict[str, Any], Decision]]


class Lost(BundledEncoder):
    """The shipped encoder, whose model is gone when a query comes."""

    def encode_clauses(self, text: str) -> Any:
        raise EncoderError("no model")

    encode_query = encode_clauses


@pytest.fixture(scope="module")
def crib(sample_copy: Path) -> Iterator[Crib]:
    with Crib.open(sample_copy, settings=Settings(), dense=Lost()) as opened:
        yield opened


@pytest.fixture(scope="module")
def decisions(crib: Crib) -> Decisions:
    rows = (ROOT / "data" / "turns.jsonl").read_text(encoding="utf-8").splitlines()
    turns = [json.loads(row) for row in rows]
    plain = [turn for turn in turns if "hard" not in turn["tags"] and "history" not in turn]
    chosen = [turn for turn in plain if turn["split"] == "dev"]
    return [(turn["labels"], crib.route(turn["text"])) for turn in chosen]


@pytest.mark.slow
def test_most_questions_and_most_tasks_are_answered(decisions: Decisions) -> None:
    asked = [made for labels, made in decisions if labels["route"] == "knowledge"]
    tasks = [(labels, made) for labels, made in decisions if labels["route"] == "tools"]
    assert sum(bool(made.knowledge.passages) for made in asked) > 0.5 * len(asked)
    assert sum(made.tools.verdict == "accept" for _, made in tasks) > 0.6 * len(tasks)
    found = [any(hit.id in labels["tools"] for hit in made.tools.tools) for labels, made in tasks]
    assert sum(found) >= 0.5 * len(tasks)


def test_every_answer_says_what_it_lacks_and_how_sure_it_is(decisions: Decisions) -> None:
    for _, made in decisions:
        assert "dense" in made.degraded
        if made.route.kind != "none":
            assert 0 < (made.knowledge.fit or 0) < 1
            brought = [hit for hit in made.tools.tools if hit.needed_for or hit.goes_with]
            found = [hit for hit in made.tools.tools if hit.score and hit not in brought]
            assert all(0 < (hit.probability or 0) < 1 for hit in found)


def test_passages_found_by_words_alone_are_marked(crib: Crib) -> None:
    found = crib.find_knowledge("how long is the stand-up?")
    assert found.passages
    assert found.degraded == ("dense",)


def test_a_confidence_by_words_tells_likely_from_unlikely(crib: Crib) -> None:
    sure = crib.find_tools("merge the pull request of the repository", gate=False)
    unsure = crib.find_tools("the volcano sang purple", gate=False)
    assert sure.confidence is not None
    assert sure.confidence > 2 * (unsure.confidence or 0)
    assert (sure.verdict, unsure.verdict) == ("accept", "abstain")
    assert crib.find_knowledge("the volcano sang purple").verdict == "abstain"


def test_a_set_is_complete_by_words_as_well(crib: Crib) -> None:
    found = crib.find_tools("merge the pull request of the repository", "auto", coverage=0.5)
    assert 1 <= len(found.tools) < 50
    assert "coverage" not in found.degraded
