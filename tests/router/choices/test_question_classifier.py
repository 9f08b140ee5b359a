"""Classifier of a question: by examples where no language model answers, else by its word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import encoded_once
from toolcrib.build import question_classifier
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.errors import QuestionRenderError
from toolcrib.evaluation.choices import read_labelled
from toolcrib.language_models.testing import ChatServer, faulty_share
from toolcrib.records import Turn
from toolcrib.router.choices.questions import load_question
from toolcrib.settings import Settings

DATA = Path(__file__).parents[3] / "data" / "questions"


@pytest.fixture(scope="module")
def dense() -> Iterator[BundledEncoder]:
    with encoded_once():
        yield BundledEncoder()


@pytest.fixture(scope="module")
def support(dense):
    return question_classifier(DATA / "support.yaml", Settings(), dense=dense)


def test_without_a_model_examples_and_descriptions_answer_and_it_says_so(support):
    found = support.classify("my parcel never arrived")
    assert (found.branch, found.matched, found.degraded) == ("shipping", True, ("llm",))
    assert found.confidence > 0.9


def by_model(dense, reply):
    with ChatServer(lambda _: reply) as server:
        settings = Settings.model_validate({"llm": {**server.settings, "attempts": 1}})
        return question_classifier(DATA / "support.yaml", settings, dense=dense).classify(
            "my parcel never arrived"
        )


def test_a_models_thought_is_not_its_answer(dense):
    found = by_model(dense, '<think>{"branch": "shipping"}</think>\n{"branch": "billing"}')
    assert (found.branch, found.matched, found.degraded) == ("billing", True, ())


@pytest.mark.parametrize("reply", [{}, {"error": "overloaded"}, "<think>billing, or is it"])
def test_no_answer_falls_back_to_examples_and_says_so(dense, reply):
    found = by_model(dense, reply)
    assert (found.branch, found.degraded) == ("shipping", ("llm",))


@pytest.mark.parametrize("text", ["", "  ", "?!", "🙂"])
def test_without_words_comes_the_default_and_no_match(support, text):
    found = support.classify(text)
    assert (found.branch, found.matched) == ("billing", False)


def test_what_no_class_fits_goes_to_the_default(dense):
    config = {
        "model": "m",
        "question": "?",
        "default": "none",
        "classes": [
            {"id": "fish", "description": "Keeping aquarium fish."},
            {"id": "none", "description": "Repairs of church organs."},
        ],
    }
    found = question_classifier(config, Settings(), dense=dense).classify(
        "who won the election in France"
    )
    assert (found.branch, found.matched) == ("none", False)
    assert found.confidence > 0.5


def test_examples_teach_what_descriptions_do_not_say(dense):
    classes = [
        {"id": "a", "description": "First."},
        {"id": "b", "description": "Second.", "examples": ["the cat has fleas", "worms"]},
    ]
    config = {"model": "m", "question": "?", "classes": classes}
    made = question_classifier(config, Settings(), dense=dense)
    assert made.classify("my dog has ticks").branch == "b"


def test_a_question_is_asked_only_where_its_condition_holds(dense):
    config = {
        "model": "m",
        "question": "{{ outputs.triage.branch }}: {{ tone }} {{ text }}",
        "classes": [{"id": "angry"}, {"id": "calm"}],
        "run_if": {"from": "triage", "path": "branch", "eq": "complaint"},
    }
    made = question_classifier(config, Settings(), dense=dense)
    skipped = made.classify("hello", outputs={"triage": {"branch": "praise"}})
    assert (skipped.branch, skipped.matched, skipped.skipped) == (None, False, True)
    outputs = {"triage": {"branch": "complaint"}}
    asked = made.classify(Turn(text="I am furious"), outputs=outputs, variables={"tone": "?"})
    assert asked.branch == "angry"
    with pytest.raises(QuestionRenderError, match="'tone' is undefined"):
        made.classify("hello", outputs=outputs)


def test_the_kinds_of_development_tasks_are_labelled_alike_and_none_is_an_example():
    question = yaml.safe_load((DATA / "development.yaml").read_text("utf-8"))
    examples = {text for each in question["classes"] for text in each["examples"]}
    for split in ("dev", "test"):
        turns = read_labelled(DATA / "development.jsonl", "branch", split)
        counted = Counter(label for each in turns for label in each.right)
        assert counted == dict.fromkeys((each["id"] for each in question["classes"]), 5)
        assert not examples & {each.turn.text for each in turns}


def test_the_shipped_questions_are_told_apart_without_a_model(dense):
    turns = read_labelled(DATA / "turns.jsonl", "branch", "dev")
    made = {
        name: question_classifier(DATA / name, Settings(), dense=dense)
        for name in {each.config for each in turns}
    }
    right = [made[each.config].classify(each.turn).branch in each.right for each in turns]
    assert len(made) == 4
    assert sum(right) / len(right) > 0.8


# -- with a language model -------------------------------------------------------------------


def asked(server: ChatServer, dense, **changed):
    """A classifier by the model of a server."""
    return question_classifier(DATA / "support.yaml", patient(server, **changed), dense=dense)


def patient(server: ChatServer | None = None, **changed) -> Settings:
    """Settings with a server's model, that wait for it however busy this machine is."""
    own = {} if server is None else server.settings
    uses = {"questions": {"timeout_s": 60.0}}
    return Settings.model_validate({"llm": {**own, "uses": uses, **changed}})


@pytest.mark.parametrize(
    ("said", "branch", "matched"),
    [
        ({"branch": "sales"}, "sales", True),
        ({"branch": "SALES"}, "sales", True),
        ("It is about sales.", "sales", True),
        ({"branch": "biotech"}, "billing", False),
    ],
)
def test_the_models_word_counts_and_tells_no_probability(dense, said, branch, matched):
    with ChatServer(said) as server:
        found = asked(server, dense).classify("where is my parcel?")
    assert (found.branch, found.matched, found.confidence) == (branch, matched, None)
    assert found.degraded == ()
    body = server.requests[0].body
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("gpt-4o-mini", 0, 16)
    assert "where is my parcel?" in server.requests[0].messages[-1].content


def test_a_template_without_the_text_is_asked_with_it(dense):
    with ChatServer({"branch": "appointment"}) as server:
        made = question_classifier(DATA / "clinic.yaml", patient(server), dense=dense)
        made.classify("come in?")
    assert server.requests[0].messages[-1].content == "What does the patient want?\n\ncome in?"


def test_words_that_name_no_class_are_the_default_unless_the_encoder_is_asked_for(dense):
    prose = "I would be glad to help with that!"
    found = by_model(dense, prose)
    assert (found.branch, found.matched, found.degraded) == ("billing", False, ())
    with ChatServer(lambda _: prose) as server:
        question = load_question(DATA / "support.yaml").model_copy(update={"unmatched": "examples"})
        settings = Settings.model_validate({"llm": {**server.settings, "attempts": 1}})
        guess = question_classifier(question, settings, dense=dense).classify("where is my parcel?")
    assert (guess.branch, guess.degraded) == ("shipping", ("llm",))


@pytest.mark.parametrize("fault", ["wrong-schema", "garbage"])
def test_where_the_model_fails_examples_answer_and_it_says_so(dense, fault):
    with ChatServer({"branch": "sales"}, lambda _: fault) as server:
        found = asked(server, dense, attempts=1).classify("where is my parcel?")
    assert (found.branch, found.degraded) == ("shipping", ("llm",))


def test_where_the_model_is_late_examples_answer(dense):
    with ChatServer({"branch": "sales"}, ["slow"], slow_s=5) as server:
        made = asked(server, dense, uses={"questions": {"timeout_s": 0.05}})
        found = made.classify("where is my parcel?")
    assert (found.branch, found.degraded) == ("shipping", ("llm",))


def test_with_a_third_of_faults_every_text_is_answered_and_degraded_is_right(dense):
    faults = faulty_share(0.3, kinds=["error", "cut", "not-json", "made-up-labels"])
    with ChatServer({"branch": "sales"}, faults) as server:
        made = asked(server, dense, attempts=1)
        found = [made.classify("where is my parcel?") for _ in range(12)]
    assert {each.branch for each in found if each.degraded} <= {"shipping"}
    assert {each.branch for each in found if not each.degraded} <= {"sales", "billing"}
    assert all(each.matched is (each.branch != "billing") for each in found)


def test_a_question_may_have_a_server_of_its_own_which_never_gets_anothers_key(dense):
    config = {"model": "m", "question": "?", "classes": [{"id": "a"}, {"id": "b"}]}
    with ChatServer({"branch": "b"}) as own, ChatServer({"branch": "a"}) as other:
        settings = patient(other)
        named = {**config, "api_base": own.url}
        assert question_classifier(named, settings, dense=dense).classify("x").branch == "b"
        keyed = {**named, "api_key": "of-the-question"}
        elsewhere = patient(uses={"questions": {"timeout_s": 60.0, "model": "of-another-server"}})
        question_classifier(keyed, elsewhere, dense=dense).classify("x")
    assert not other.requests
    assert {each.body["model"] for each in own.requests} == {"m"}
    assert [each.key for each in own.requests] == ["none", "of-the-question"]
