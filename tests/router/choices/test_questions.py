"""Questions read from files and mappings: what is wrong is said, the first thing first."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import QuestionError, QuestionRenderError
from toolcrib.router.choices.questions import Condition, QuestionTemplate, load_question

GOOD = {
    "model": "m",
    "question": "Which team? {{ text }}",
    "classes": [{"id": "bill", "description": "Money."}, {"id": "ship"}],
}


def wrong(**changed):
    return {**GOOD, **changed}


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        ({}, "model: Field required"),
        (wrong(model=" ", question="", classes=[]), "model: String should have at least 1"),
        (wrong(question=None, classes=[{}]), "question: Input should be a valid string"),
        (wrong(classes=[{"id": ""}, {}], temperature=-1), "classes.0.id: String should have"),
        (wrong(classes=[{"id": "a"}], question="{{ "), "classes: there must be at least two"),
        (wrong(classes=[{"id": "a"}, {"id": "A"}]), "classes: the id 'A' occurs more than once"),
        (wrong(classes=[{"id": True}, {"id": "a"}]), "classes.0.id: put the value in quotes"),
        (wrong(default="bil"), "default: there is no class 'bil'; did you mean 'bill'?"),
        (wrong(question="{% if %}"), "question: is no template"),
        (wrong(question="{{ text"), "question: is no template"),
        (wrong(api_base="ftp://x"), "api_base: String should match"),
        (wrong(colour="red"), "colour: unknown field"),
        (wrong(run_if={"from": "a"}), "run_if: give exactly one of eq, ne, in"),
        (wrong(run_if={"from": "a", "eq": 1, "gt": 1}), "run_if: give exactly one of"),
        (wrong(run_if={"and": None}), "run_if: give exactly one of"),
        (wrong(run_if={"from": "a", "op": "like", "value": 1}), "run_if: op: there is no 'like'"),
        (wrong(run_if={"eq": 1}), "run_if: `from` must name a node"),
        (wrong(run_if={"from": "a", "not": {"from": "a", "eq": 1}}), "run_if: `from` goes with"),
    ],
)
def test_the_first_thing_that_is_wrong_is_said_in_order(given_, told):
    with pytest.raises(QuestionError) as caught:
        load_question(given_)
    assert str(caught.value).startswith(f"question: {told}")


def test_numbers_are_ids_too_and_the_first_class_is_the_default():
    found = load_question(wrong(classes=[{"id": 1}, {"id": 2}]))
    assert found.otherwise == "1"
    assert load_question(wrong(default="ship")).otherwise == "ship"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("q.json", "{", "is not JSON"),
        ("q.yaml", "a: [", "is not YAML"),
        ("q.yaml", "- a", "must hold `model`, `question` and `classes`"),
        ("q.yaml", "model: m", "question: Field required"),
        ("gone.yaml", None, "cannot be read"),
    ],
)
def test_a_file_is_named_where_it_is_wrong_or_not_there(tmp_path, name, text, told):
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    with pytest.raises(QuestionError) as caught:
        load_question(file)
    assert str(caught.value).startswith(f"{file}: {told}")


@pytest.mark.parametrize("name", ["q.json", "q.yaml"])
def test_json_and_yaml_say_the_same(tmp_path, name):
    file = tmp_path / name
    file.write_text(json.dumps(GOOD))
    assert load_question(str(file)) == load_question(GOOD)


def test_a_key_is_not_shown():
    found = load_question(wrong(api_base="http://x", api_key="sk-secret"))
    assert "sk-secret" not in repr(found)


# -- templates -------------------------------------------------------------------------------


def test_a_template_is_filled_in():
    template = QuestionTemplate("{{ text }} {{ outputs.a.b }}")
    assert template.render({"text": "hi", "outputs": {"a": {"b": 1}}}) == "hi 1"
    assert template.variables == {"text", "outputs"}


@pytest.mark.parametrize(
    "text",
    [
        "{{ missing }}",
        "{{ text.a.b }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ 1 / 0 }}",
        "{{ outputs.update({}) }}",
        "{{ text | tojson(indent='x') + 1 }}",
        "{% include 'etc' %}",
    ],
)
def test_what_is_missing_or_not_allowed_is_an_error_of_its_own(text):
    with pytest.raises(QuestionRenderError, match=r"^question"):
        QuestionTemplate(text).render({"text": "hi", "outputs": {}})


# -- conditions ------------------------------------------------------------------------------

OUTPUTS = {"triage": {"branch": "bill", "score": 0.7, "items": [{"n": 3}], "none": None}}


@pytest.mark.parametrize(
    ("said", "holds"),
    [
        ({"path": "branch", "eq": "bill"}, True),
        ({"path": "branch", "eq": "ship"}, False),
        ({"path": "gone", "eq": None}, False),
        ({"path": "none", "eq": None}, True),
        ({"path": "branch", "ne": "ship"}, True),
        ({"path": "gone", "ne": "ship"}, True),
        ({"path": "branch", "in": ["bill", "ship"]}, True),
        ({"path": "gone", "in": ["bill"]}, False),
        ({"path": "score", "gt": 0.5}, True),
        ({"path": "score", "gt": 0.7}, False),
        ({"path": "score", "lt": 1}, True),
        ({"path": "branch", "gt": 1}, False),
        ({"path": "none", "lt": 1}, False),
        ({"path": "branch", "lt": "c"}, True),
        ({"path": "items.0.n", "eq": 3}, True),
        ({"path": "items.1.n", "exists": True}, False),
        ({"path": "items.x", "exists": False}, True),
        ({"exists": True}, True),
        ({"path": "branch", "op": "eq", "value": "bill"}, True),
        ({"path": "branch", "op": "eq", "value": "ship"}, False),
    ],
)
def test_comparisons_of_what_a_node_gave(said, holds):
    assert Condition.model_validate({"from": "triage", **said}).holds(OUTPUTS) is holds


YES, NO = {"from": "triage", "exists": True}, {"from": "other", "exists": True}


@pytest.mark.parametrize(
    ("said", "holds"),
    [
        ({"and": [YES, NO]}, False),
        ({"and": [YES, YES]}, True),
        ({"or": [NO, YES]}, True),
        ({"or": [NO]}, False),
        ({"not": NO}, True),
        ({"not": {"and": [YES, {"not": NO}]}}, False),
    ],
)
def test_conditions_are_combined(said, holds):
    assert Condition.model_validate(said).holds(OUTPUTS) is holds


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab0"), inner),
    max_leaves=5,
)


@given(json_values, st.sampled_from(["", "a", "a.b", "0.a", "a..b"]))
def test_no_output_breaks_a_condition_and_not_turns_it_round(output, path):
    for operator, value in (("eq", 1), ("ne", 1), ("in", [1]), ("gt", 1), ("lt", "a")):
        said = {"from": "n", "path": path, operator: value}
        holds = Condition.model_validate(said).holds({"n": output})
        assert Condition.model_validate({"not": said}).holds({"n": output}) is not holds


def test_a_long_id_is_not_cut_by_the_limit_of_tokens():
    question = load_question(wrong(classes=[{"id": "x" * 80}, {"id": "b"}]))
    assert question.answer_tokens >= 50 > question.max_tokens
