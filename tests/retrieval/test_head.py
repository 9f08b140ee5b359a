"""A linear classifier over tools with many examples, and what it adds to a ranking."""

from __future__ import annotations

import math

import numpy as np
import pytest

from toolcrib.retrieval.fusion import FusionWeights, LegScores, convex
from toolcrib.retrieval.head import Head, pack
from toolcrib.store.base import point_id

HEAD = pack(
    ["a", "b", "c"],
    np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=np.float32),
    np.array([0.0, 0.5, 0.0], dtype=np.float32),
)
QUERY = np.array([1.0, 0.0], dtype=np.float32)
A, B, C = map(point_id, "abc")


def test_probabilities_are_those_of_a_softmax_over_the_candidates() -> None:
    known = HEAD.log_probabilities(QUERY, [A, B])
    total = math.exp(1.0) + math.exp(0.5)
    assert known == pytest.approx({A: 1.0 - math.log(total), B: 0.5 - math.log(total)}, abs=1e-5)


def test_a_tool_out_of_reach_changes_no_other_tools_probability() -> None:
    among_all = HEAD.log_probabilities(QUERY, [A, B, C])
    alone = HEAD.log_probabilities(QUERY, [B])
    assert sum(math.exp(value) for value in among_all.values()) == pytest.approx(1.0, abs=1e-5)
    assert alone == pytest.approx({B: 0.0}, abs=1e-6)


def test_tools_that_it_never_saw_are_left_out() -> None:
    assert HEAD.log_probabilities(QUERY, [point_id("new")]) == {}
    assert set(HEAD.log_probabilities(QUERY, [point_id("new"), A])) == {A}


def test_it_is_kept_as_json_to_half_precision() -> None:
    again = Head.model_validate_json(HEAD.model_dump_json())
    assert again == HEAD
    assert again.log_probabilities(QUERY, [A, B, C]) == HEAD.log_probabilities(QUERY, [A, B, C])


def test_its_word_joins_the_score_and_examples_count_in_full() -> None:
    weights = FusionWeights(dense=1.0, lexical=0.0, examples=0.4, head=0.1)
    taught = LegScores(dense=0.3, examples=0.8, head=-1.0)
    plain = LegScores(dense=0.3, examples=0.8)
    fused = convex({"taught": taught, "plain": plain}, weights)
    assert fused == pytest.approx({"taught": 0.8 - 0.1, "plain": 0.3 + 0.4 * 0.5})
