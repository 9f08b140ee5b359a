"""Training queries become examples of their intents."""

from __future__ import annotations

from dataclasses import replace

from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.evaluation.shots import with_shots
from toolcrib.records import ToolSpec

INTENTS = DataSet(
    "intents",
    (ToolSpec(name="greet", success_examples=("hello",)), ToolSpec(name="leave")),
    (
        *(LabelledQuery(f"g{n}", f"good day {n}", "train", {"greet": 1}) for n in range(5)),
        LabelledQuery("l", "good bye", "train", {"leave": 1}),
        LabelledQuery("both", "hello and good bye", "train", {"greet": 1, "leave": 1}),
        LabelledQuery("t", "hi there", "test", {"greet": 1}),
        LabelledQuery("same", "good bye", "test", {"leave": 1}),
        LabelledQuery("none", "what is the time", "train", answerable=False),
    ),
    kind="intents",
)


def _examples(data: DataSet) -> dict[str, tuple[str, ...]]:
    return {tool.id: tool.success_examples for tool in data.tools}


def test_as_many_as_asked_for_or_as_there_are_beside_those_it_has() -> None:
    examples = _examples(with_shots(INTENTS, 3))
    assert examples["greet"][0] == "hello"
    assert len(examples["greet"]) == 4
    assert set(examples["greet"][1:]) <= {f"good day {n}" for n in range(5)}
    assert examples["leave"] == ("good bye",)


def test_what_became_an_example_is_asked_no_more_in_any_split() -> None:
    taught = with_shots(INTENTS, 10)
    assert {query.id for query in taught.queries} == {"both", "t", "none"}


def test_the_choice_is_the_seeds() -> None:
    assert with_shots(INTENTS, 2, seed=1) == with_shots(INTENTS, 2, seed=1)
    assert len({_examples(with_shots(INTENTS, 2, seed=n))["greet"] for n in range(9)}) > 1


def test_tools_are_not_taught_and_none_asked_for_is_none() -> None:
    tools = replace(INTENTS, kind="tools")
    assert with_shots(tools, 10) is tools
    assert with_shots(INTENTS, 0) is INTENTS
