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


def by_model(dense, reply, faults=(), text="my parcel never arrived", file="support.yaml", **llm):
    """What a model that replies so answers, and requests that it got."""
    with ChatServer(reply, faults, slow_s=5) as server:
        settings = patient(server, attempts=1, **llm)
        found = question_classifier(DATA / file, settings, dense=dense).classify(text)
    return found, server.requests


def patient(server: ChatServer | None = None, **changed) -> Settings:
    """Settings with a server's model, that wait for it however busy this machine is."""
    own = {} if server is None else server.settings
    uses = {"questions": {"timeout_s": 60.0}}
    return Settings.model_validate({"llm": {**own, "uses": uses, **changed}})


def test_a_models_thought_is_not_its_answer(dense):
    found, _ = by_model(dense, '<think>{"branch": "shipping"}</think>\n{"branch": "billing"}')
    assert (found.branch, found.matched, found.degraded) == ("billing", True, ())


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        *((reply, None) for reply in ({}, {"error": "overloaded"}, "<think>billing, or is it")),
        *(({"branch": "sales"}, fault) for fault in ("wrong-schema", "garbage")),
    ],
)
def test_where_there_is_no_answer_examples_answer_and_it_says_so(dense, reply, fault):
    found, _ = by_model(dense, lambda _: reply, lambda _: fault)
    assert (found.branch, found.degraded) == ("shipping", ("llm",))


@pytest.mark.parametrize("text", ["", "  ", "?!", "🙂"])
def test_without_words_comes_the_default_and_no_match(support, text):
    found = support.classify(text)
    assert (found.branch, found.matched) == ("billing", False)


def test_what_no_class_fits_goes_to_the_default(dense):
    classes = [
        {"id": "fish", "description": "Keeping aquarium fish."},
        {"id": "none", "description": "Repairs of church organs."},
    ]
    config = {"model": "m", "question": "?", "default": "none", "classes": classes}
    made = question_classifier(config, Settings(), dense=dense)
    found = made.classify("who won the election in France")
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
    found, (asked,) = by_model(dense, said)
    assert (found.branch, found.matched, found.confidence) == (branch, matched, None)
    assert found.degraded == ()
    body = asked.body
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("gpt-4o-mini", 0, 16)
    assert "my parcel never arrived" in asked.messages[-1].content


def test_a_template_without_the_text_is_asked_with_it(dense):
    _, (asked,) = by_model(dense, {"branch": "appointment"}, text="come in?", file="clinic.yaml")
    assert asked.messages[-1].content == "What does the patient want?\n\ncome in?"


def test_words_that_name_no_class_are_the_default_unless_the_encoder_is_asked_for(dense):
    prose = "I would be glad to help with that!"
    found, _ = by_model(dense, lambda _: prose)
    assert (found.branch, found.matched, found.degraded) == ("billing", False, ())
    with ChatServer(lambda _: prose) as server:
        question = load_question(DATA / "support.yaml").model_copy(update={"unmatched": "examples"})
        made = question_classifier(question, patient(server, attempts=1), dense=dense)
        guess = made.classify("where is my parcel?")
    assert (guess.branch, guess.degraded) == ("shipping", ("llm",))


def test_of_very_long_texts_the_model_is_shown_head_and_tail(dense):
    _, (asked,) = by_model(dense, {"branch": "other"}, text=f"first {'x ' * 5_000} last")
    shown = asked.text
    assert len(shown) < 8_000
    assert "first" in shown
    assert "last" in shown


def test_where_the_model_is_late_examples_answer(dense):
    uses = {"questions": {"timeout_s": 0.05}}
    found, _ = by_model(dense, {"branch": "sales"}, ["slow"], uses=uses)
    assert (found.branch, found.degraded) == ("shipping", ("llm",))


def test_with_a_third_of_faults_every_text_is_answered_and_degraded_is_right(dense):
    faults = faulty_share(0.3, kinds=["error", "cut", "not-json", "made-up-labels"])
    with ChatServer({"branch": "sales"}, faults) as server:
        settings = patient(server, attempts=1)
        made = question_classifier(DATA / "support.yaml", settings, dense=dense)
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
