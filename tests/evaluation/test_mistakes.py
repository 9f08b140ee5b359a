"""What goes wrong and why: the worst queries, tools taken for others, words in no tool."""

from __future__ import annotations

from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.results import (
    Confusion,
    Mistake,
    QueryResult,
    UnmatchedWord,
    confusions,
    find_mistakes,
    unmatched_words,
    worst_queries,
)
from toolcrib.evaluation.systems.base import Answer, Ranked
from toolcrib.records import ToolSpec


def _outcome(
    id: str, expected: dict[str, float], returned: str, value: float, confidence: float = 0.0
) -> QueryResult:
    query = LabelledQuery(id, f"text of {id}", relevant=expected, answerable=bool(expected))
    answer = Answer(tuple(Ranked(tool, 1.0) for tool in returned), confidence)
    return QueryResult(query, answer, 1.0, 0, {"ndcg@10": value} if expected else {})


RIGHT = _outcome("right", {"a": 1}, "ab", 1.0)
HALF = _outcome("half", {"a": 1}, "ba", 0.63)
UNSURE = _outcome("unsure", {"c": 1, "a": 2}, "bc", 0.0, confidence=0.2)
SURE = _outcome("sure", {"a": 1}, "b", 0.0, confidence=0.9)
NOTHING = _outcome("nothing", {}, "a", 0.0)
ALL = (RIGHT, HALF, UNSURE, SURE, NOTHING)


def test_the_worst_come_first_and_among_equals_the_surest():
    assert [mistake.query_id for mistake in worst_queries(ALL)] == ["sure", "unsure", "half"]
    assert [mistake.query_id for mistake in worst_queries(ALL, count=1)] == ["sure"]
    assert worst_queries([]) == ()


def test_a_mistake_says_what_was_expected_returned_and_missing():
    assert worst_queries([UNSURE]) == (
        Mistake("unsure", "text of unsure", "ndcg@10", 0.0, ("a", "c"), ("b", "c"), ("a",), 0.2),
    )


def test_confusions_count_what_stands_first_instead():
    assert confusions(ALL) == (Confusion("a", "b", 3), Confusion("c", "b", 1))


def test_a_query_that_nothing_answers_confuses_no_tools():
    assert confusions([NOTHING]) == ()


TOOLS = (
    ToolSpec(name="send_mail", description="Send a message to GitHub users."),
    ToolSpec(name="weather", input_schema={"properties": {"city": {"type": "string"}}}),
)


def _asking(*texts: str) -> list[LabelledQuery]:
    return [LabelledQuery(f"q{n}", text) for n, text in enumerate(texts)]


def test_words_of_which_no_tool_has_any_are_counted_once_a_query():
    queries = _asking("Mow the lawn, the LAWN!", "send my lawn a message", "weather in cities")
    assert unmatched_words(queries, TOOLS) == (
        UnmatchedWord("lawn", 2, "q0"),
        UnmatchedWord("mow", 1, "q0"),
    )


def test_a_compound_matches_with_any_of_its_parts():
    assert unmatched_words(_asking("github SendLetter"), TOOLS) == ()


def test_stop_words_are_not_missed():
    assert unmatched_words(_asking("what is the weather"), TOOLS) == ()


def test_all_kinds_together():
    found = find_mistakes(ALL, TOOLS, count=2)
    assert len(found.worst) == 2
    assert found.confusions == confusions(ALL)
    assert found.unmatched[0].word == "text"
