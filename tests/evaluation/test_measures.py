"""Rankings worked by hand, the rules for ties and silence, and agreement with plain formulas."""

from __future__ import annotations

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import MissingExtraError, UnknownToolError
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.measures import PromptTokens, integer_grades, lower_is_better, measure
from toolcrib.records import ToolSpec

KS = (1, 3, 5)
TOOLS = list("abcdefgh")


def _query(forbidden: str = "", **relevant: float) -> LabelledQuery:
    return LabelledQuery(
        "q", "what?", relevant=relevant, forbidden=frozenset(forbidden), answerable=bool(relevant)
    )


def _one(ranking: str, query: LabelledQuery) -> dict[str, float]:
    return measure([list(ranking)], [query], KS)[0]


def test_graded_ndcg_has_linear_gain_and_a_logarithmic_discount():
    values = _one("xbya", _query(a=2, b=1))
    gain = 1 / math.log2(3) + 2 / math.log2(5)
    ideal = 2 + 1 / math.log2(3)
    assert values["ndcg@5"] == pytest.approx(gain / ideal)
    assert values["ndcg@3"] == pytest.approx((1 / math.log2(3)) / ideal)
    assert values["ndcg@1"] == 0


def test_an_omitted_query_scores_zero_and_its_neighbours_what_they_are_worth():
    answered, omitted = measure([["a"], []], [_query(a=1), _query(a=1)], KS)
    assert set(omitted) == set(answered)
    assert set(omitted.values()) == {0.0}
    assert answered["ndcg@1"] == 1


def test_a_query_without_relevant_tools_scores_zero_even_for_completeness():
    assert set(_one("ab", _query()).values()) == {0.0}


def test_the_order_that_a_system_returns_stands_whatever_its_tools_are_called():
    # trec_eval alone would put "z" before "a" where scores are equal.
    assert _one("az", _query(a=1))["hit@1"] == 1
    assert _one("za", _query(z=1))["hit@1"] == 1
    assert _one("za", _query(a=1))["hit@1"] == 0


def test_a_tool_that_is_returned_twice_counts_where_it_first_stands():
    assert _one("aab", _query(a=1, b=1)) == _one("ab", _query(a=1, b=1))


def test_forbidden_tools_are_counted_for_all_queries_once_any_query_forbids_one():
    free, strict = measure([list("xy"), list("xy")], [_query(a=1), _query("y", x=1)], KS)
    assert (strict["forbidden@1"], strict["forbidden@3"]) == (0, 1)
    assert free["forbidden@3"] == 0
    assert "forbidden@3" not in _one("xy", _query(a=1))


def test_only_forbidden_tools_are_better_fewer():
    assert lower_is_better("forbidden@5")
    assert not lower_is_better("ndcg@5")


def test_fractional_grades_keep_their_proportions():
    assert integer_grades([_query(a=0.5, b=0.25), _query(c=1)]) == [{"a": 2, "b": 1}, {"c": 4}]
    halves, wholes = _query(a=0.5, b=1.5), _query(a=1, b=3)
    assert _one("ab", halves) == _one("ab", wholes)


def test_a_grade_of_zero_is_not_relevant():
    assert integer_grades([_query(a=0, b=1)]) == [{"b": 1}]
    assert _one("ba", _query(a=0, b=1))["completeness@1"] == 1


def test_a_tiny_grade_stays_relevant():
    assert _one("a", _query(a=1e-9))["hit@1"] == 1


def test_ids_of_any_letters_are_measured():
    odd = "a tool\nwith \ud800 and ü"
    assert measure([[odd]], [_query(**{odd: 1.0})], KS)[0]["hit@1"] == 1


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtraError, match=r"toolcrib\[eval\]"):
        _one("a", _query(a=1))


@given(
    st.lists(st.sampled_from(TOOLS), unique=True),
    st.dictionaries(st.sampled_from(TOOLS), st.integers(1, 3), min_size=1),
)
def test_every_measure_agrees_with_its_formula(ranking: list[str], grades: dict[str, int]):
    values = measure([ranking], [_query(**grades)], KS)[0]
    hits = [tool in grades for tool in ranking]
    for k in KS:
        gain = sum(grades.get(t, 0) / math.log2(r + 2) for r, t in enumerate(ranking[:k]))
        best = sorted(grades.values(), reverse=True)[:k]
        assert values[f"ndcg@{k}"] == pytest.approx(
            gain / sum(grade / math.log2(rank + 2) for rank, grade in enumerate(best))
        )
        assert values[f"recall@{k}"] == pytest.approx(sum(hits[:k]) / len(grades))
        assert values[f"precision@{k}"] == pytest.approx(sum(hits[:k]) / k)
        assert values[f"completeness@{k}"] == (sum(hits[:k]) == len(grades))
    assert values["hit@1"] == (hits[:1] == [True])
    assert values["mrr"] == pytest.approx(1 / (hits.index(True) + 1) if any(hits) else 0)
    assert values["returned_precision"] == pytest.approx(sum(hits) / len(hits) if hits else 0)


SHORT = ToolSpec(name="ping")
LONG = ToolSpec(
    name="send_mail",
    description="Send an e-mail. " * 200,
    input_schema={"type": "object", "properties": {"to": {"type": "string"}}},
)


def test_a_definition_costs_its_json_in_tokens():
    # {"type":"function","function":{"name":"ping","description":"","parameters":
    # {"type":"object","properties":{}}}}: 10 words of one piece each, and every mark.
    marks = sum(
        c in '{}":,'
        for c in (
            '{"type":"function","function":{"name":"ping","description":"",'
            '"parameters":{"type":"object","properties":{}}}}'
        )
    )
    words = 10
    assert PromptTokens([SHORT]).count([SHORT.id]) == marks + words


def test_long_definitions_are_counted_to_their_end():
    assert PromptTokens([LONG]).count([LONG.id]) > 200 * 5


def test_tools_add_up_to_the_registry():
    prompt = PromptTokens([SHORT, LONG])
    assert prompt.count([SHORT.id]) + prompt.count([LONG.id]) == prompt.whole_registry
    assert prompt.count([]) == 0


def test_what_is_saved_is_a_share_of_the_registry():
    prompt = PromptTokens([SHORT, LONG])
    assert prompt.saved_share(0) == 1
    assert prompt.saved_share(prompt.whole_registry) == 0
    assert prompt.saved_share(prompt.whole_registry / 4) == pytest.approx(0.75)
    assert PromptTokens([]).saved_share(0) == 0


def test_an_id_that_no_tool_has_is_an_error_that_names_it():
    with pytest.raises(UnknownToolError, match="pong"):
        PromptTokens([SHORT]).count(["pong"])


def test_a_lone_surrogate_in_a_description_is_counted_like_any_letter():
    assert PromptTokens([ToolSpec(name="odd", description="\ud800")]).whole_registry > 0


def test_a_tool_without_a_definition_for_the_client_costs_no_tokens():
    listing = ToolSpec(name="pick", input_schema={"type": "array"})
    prompt = PromptTokens([SHORT, listing])
    assert prompt.count([listing.id]) == 0
    assert prompt.whole_registry == prompt.count([SHORT.id])
