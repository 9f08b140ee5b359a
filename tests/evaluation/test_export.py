"""The JSON contract, name by name."""

from __future__ import annotations

import json

import pytest

from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.export import as_json
from toolcrib.evaluation.results import (
    Comparison,
    Evaluation,
    Interval,
    Outcome,
    SetResult,
    SystemResult,
)
from toolcrib.evaluation.systems.protocol import Answer

OUTCOMES = (
    Outcome(LabelledQuery("q1", "?"), Answer(()), 1, 0, {"ndcg@10": 1 / 3}),
    Outcome(LabelledQuery("q2", "?", answerable=False), Answer(()), 1, 0),
)
FIRST = SystemResult(
    name="toolcrib",
    version="toolcrib 1",
    measures={"ndcg@10": Interval(1 / 3, 0.25, 0.5)},
    latency_ms={"p50": 1.23456, "p99": 2.0},
    prompt_tokens=123.456,
    tokens_saved=2 / 3,
    gates={"auroc": 0.9},
    outcomes=OUTCOMES,
)
SECOND = SystemResult(
    name="other",
    version="other 2",
    measures={"ndcg@10": Interval(0.1, 0.0, 0.2)},
    latency_ms={"p50": 1.0, "p99": 2.0},
    prompt_tokens=1,
    tokens_saved=0.5,
    against_first={"ndcg@10": Comparison(-7 / 30, 0.0123456)},
)
EVALUATION = Evaluation(
    sets={
        "office": SetResult(
            "office", "test", 5, 2, 1, {"toolcrib": FIRST, "other": SECOND}, ("note",), ("warn",)
        )
    },
    macro={"toolcrib": {"ndcg@10": 1 / 3}},
    settings={"seed": "0"},
)


def test_every_name_stands_where_the_contract_has_it():
    assert as_json(EVALUATION) == {
        "datasets": {
            "office": {
                "toolcrib": {
                    "ndcg@10": {"mean": 0.33333, "low": 0.25, "high": 0.5},
                    "auroc": 0.9,
                    "latency_ms": {"p50": 1.235, "p99": 2.0},
                    "prompt_tokens": 123.5,
                    "tokens_saved": 0.66667,
                    "version": "toolcrib 1",
                    "against_first": {},
                },
                "other": {
                    "ndcg@10": {"mean": 0.1, "low": 0.0, "high": 0.2},
                    "latency_ms": {"p50": 1.0, "p99": 2.0},
                    "prompt_tokens": 1,
                    "tokens_saved": 0.5,
                    "version": "other 2",
                    "against_first": {
                        "ndcg@10": {"difference": -0.23333, "p": 0.012346, "significant": True}
                    },
                },
            }
        },
        "macro": {"toolcrib": {"ndcg@10": 0.33333}},
        "macro_against_first": {},
        "sets": {
            "office": {
                "split": "test",
                "tools": 5,
                "queries": 2,
                "unanswerable": 1,
                "notes": ["note"],
                "warnings": ["warn"],
            }
        },
        "settings": {"seed": "0"},
    }


def test_single_queries_are_there_when_asked_for_and_unanswerable_ones_never():
    assert as_json(EVALUATION, per_query=True)["per_query"] == {
        "office": {"toolcrib": {"q1": {"ndcg@10": pytest.approx(1 / 3, abs=1e-5)}}, "other": {}}
    }


def test_it_survives_being_written_and_read():
    exported = as_json(EVALUATION, per_query=True)
    assert json.loads(json.dumps(exported, allow_nan=False)) == exported
