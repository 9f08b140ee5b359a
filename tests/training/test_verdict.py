"""Before and after on test queries: better or worse only where chance is no likely reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.training.tiny import jargon
from toolcrib.errors import SettingsError
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.settings import EncoderSettings, Settings
from toolcrib.training.verdict import MEASURES, Verdict, judge

ASKED = (
    "compose correspondence for my grandmother",
    "put on some music",
    "will it rain in Berlin tomorrow",
    "I need accommodation for tonight",
    "how do you say thanks in Paris",
    "what is my balance",
    "my son has a fever",
    "railway journey to Vienna",
    "sketch the geography of Spain",
    "what happened in politics",
    "shut the entrance",
    "look up a novel",
)
"""For each tool of the toy problem, words that its text does not hold."""

POOR = Settings(encoder=EncoderSettings(dense="deterministic:16"))
GOOD = Settings(encoder=EncoderSettings(dense="bundled"))


@pytest.fixture(scope="module")
def asked() -> DataSet:
    tools = jargon().tools
    queries = tuple(
        LabelledQuery(tool.id, text, "test", {tool.id: 1})
        for tool, text in zip(tools, ASKED, strict=True)
    )
    return DataSet("asked", tools, queries)


@pytest.fixture(scope="module")
def improved(asked: DataSet) -> Verdict:
    return judge([asked], POOR, GOOD)


def _named(data: DataSet, name: str) -> DataSet:
    return replace(data, name=name)


def test_a_model_is_no_better_than_itself(asked: DataSet) -> None:
    found = judge([asked], POOR, POOR)
    assert (found.outcome, found.p) == ("no difference", 1)
    assert all(change.before == change.after for change in found.changes)


def test_a_model_that_understands_is_better_than_one_that_does_not(improved: Verdict) -> None:
    assert improved.outcome == "better"
    assert improved.p < 0.05


def test_the_other_way_round_it_is_worse(asked: DataSet, improved: Verdict) -> None:
    found = judge([asked], GOOD, POOR)
    assert (found.outcome, found.p) == ("worse", pytest.approx(improved.p, abs=0.01))
    before = [(change.measure, change.before) for change in found.changes]
    assert before == [(change.measure, change.after) for change in improved.changes]


def test_each_measure_of_each_set_is_told_the_deciding_one_first(improved: Verdict) -> None:
    assert [change.measure for change in improved.changes] == list(MEASURES)
    assert MEASURES[0] == "ndcg@10"
    for change in improved.changes:
        assert change.data_set == "asked"
        assert 0 <= change.before <= change.after <= 1
        assert 0 <= change.p <= 1


def test_so_few_queries_prove_nothing(asked: DataSet) -> None:
    found = judge([asked], POOR, GOOD, limit=3)
    assert found.outcome == "no difference"
    assert found.changes[0].before < found.changes[0].after


def test_only_test_queries_judge(asked: DataSet) -> None:
    trained = tuple(replace(query, split="train") for query in asked.queries)
    with pytest.raises(SettingsError, match="asked"):
        judge([replace(asked, queries=trained)], POOR, GOOD)


def test_over_several_sets_the_mean_decides(asked: DataSet) -> None:
    easy = [
        replace(q, text=tool.description)
        for q, tool in zip(asked.queries, asked.tools, strict=True)
    ]
    sets = [_named(asked, "hard"), replace(asked, name="easy", queries=tuple(easy))]
    found = judge(sets, POOR, GOOD)
    assert found.outcome == "better"
    assert [change.data_set for change in found.changes] == ["hard"] * 3 + ["easy"] * 3


def test_progress_is_told_of_both(asked: DataSet) -> None:
    told: Counter[str] = Counter()
    judge([asked], POOR, POOR, progress=lambda step: told.update([step.system]))
    assert set(told) == {"before", "after"}


def test_queries_that_nothing_answers_have_no_say(asked: DataSet, improved: Verdict) -> None:
    unanswerable = LabelledQuery("none", "mow the lawn", "test", answerable=False)
    found = judge([replace(asked, queries=(*asked.queries, unanswerable))], POOR, GOOD)
    assert found == improved


def test_where_nothing_can_be_answered_nothing_is_known(asked: DataSet) -> None:
    nothing = tuple(replace(query, relevant={}, answerable=False) for query in asked.queries)
    found = judge([replace(asked, queries=nothing)], POOR, GOOD)
    assert found.outcome == "no difference"
