"""The detector by cues: deterministic, without a model, honest about what it does not know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.records.scope import SENSITIVITIES
from toolcrib.router.context.cues import Cues, IntentCues, UrgencyCues
from toolcrib.router.context.detector import Detector
from toolcrib.router.context.entities import EntityFinder
from toolcrib.router.context.rules import HeuristicDetector

DETECTOR = HeuristicDetector()


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("What is our retry policy?", "ask"),
        ("Could you please explain the outbox pattern", "ask"),
        ("summarise these notes in three sentences", "transform"),
        ("Hi team, can you translate this paragraph into Dutch", "transform"),
        ("write a Python function that finds duplicates", "generate"),
        ("please book a room for four", "generate"),
        ("plan the move from polling to webhooks, step by step", "plan"),
        ("why does the build fail since the upgrade", "debug"),
        ("the import crashes with a KeyError", "debug"),
        ("review my pull request", "review"),
        ("I'd like your opinion: is this naming any good?", "review"),
    ],
)
def test_the_verb_that_leads_and_the_phrases_tell_the_intent(text, intent):
    assert DETECTOR.detect(text).intent == intent


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("refactor this class and its unit tests", "code"),
        ("which clause of the contract covers liability", "legal"),
        ("move the story to the next sprint", "agile"),
        ("circuit breaker or bulkhead between the services", "architecture"),
        ("which endpoint needs the bearer token", "api"),
        ("refund the customer's last order", "product"),
        ("look at `getUserById`", "code"),
    ],
)
def test_the_words_of_a_field_tell_the_domain(text, domain):
    assert DETECTOR.detect(text).domain == domain


@pytest.mark.parametrize(
    ("text", "urgency"),
    [
        ("restart the worker immediately", "high"),
        ("production outage in both regions", "high"),
        ("what is an outage", "low"),
        ("explain this outage right now", "high"),
        ("send it by Friday", "medium"),
        ("no rush, but the outage page needs a fix", "low"),
        ("not urgent: rename the folder", "low"),
        ("list the folders", "low"),
    ],
)
def test_urgency_is_what_is_said_of_time_and_trouble(text, urgency):
    assert DETECTOR.detect(text).urgency == urgency


@pytest.mark.parametrize(
    ("text", "need"),
    [("send the notes to the squad", "act"), ("how do we run a retro", "know")],
)
def test_what_answers_the_turn_is_told(text, need):
    assert DETECTOR.detect(text).need == need


def test_a_request_has_all_its_confidences_and_the_lesser_counts():
    context = DETECTOR.detect("write unit tests for the parser by Friday")
    assert set(context.confidences) == {
        "intent",
        "domain",
        "urgency",
        "sensitivity",
        "need",
        "smalltalk",
    }
    assert context.confidence == min(context.confidences["intent"], context.confidences["domain"])


def test_small_talk_has_no_intent_domain_or_need():
    context = DETECTOR.detect("Thank you so much!")
    assert (context.smalltalk, context.intent, context.domain, context.need) == (
        "thanks",
        None,
        None,
        None,
    )
    assert context.confidence == context.confidences["smalltalk"]


def test_where_no_cue_is_heard_there_is_no_label_and_little_confidence():
    context = DETECTOR.detect("purple elephants under moonlight")
    assert (context.intent, context.domain, context.urgency) == (None, None, "low")
    assert context.confidence < 0.5


def test_what_is_polite_is_passed_over_to_see_the_verb():
    plain = DETECTOR.detect("deploy the branch")
    polite = DETECTOR.detect("hi team, could you please deploy the branch")
    assert polite.intent == plain.intent == "generate"


def test_signals_say_what_was_heard_and_no_personal_data():
    context = DETECTOR.detect("please deploy it immediately and mail ann@example.com")
    assert "intent: 'deploy'" in context.signals
    assert "urgency: 'immediately'" in context.signals
    assert "sensitivity: holds email" in context.signals
    assert not any("ann@" in signal for signal in context.signals)


def test_without_entities_neither_they_nor_personal_data_are_looked_for():
    context = DETECTOR.detect("mail ann@example.com", entities=False)
    assert (context.entities, context.sensitivity) == ((), "public")


def test_the_given_finder_is_used():
    detector = HeuristicDetector(finder=EntityFinder({"team": ["Heron"]}))
    assert [(e.type, e.text) for e in detector.detect("ask Heron").entities] == [("team", "Heron")]


def test_a_request_after_a_long_text_is_heard():
    log = "10:00 worker-1 handled the message\n" * 1000
    assert DETECTOR.detect(f"{log}\nreview this, asap").urgency == "high"
    assert DETECTOR.detect(f"summarise this: {log}").intent == "transform"


def test_other_cues_have_other_labels():
    cues = Cues(
        intents={"buy": IntentCues(leads=("get me",), need="act")},
        domains={"fruit": ("apple",), "tools": ("saw",)},
        urgency=UrgencyCues(high=("hungry",)),
    )
    context = HeuristicDetector(cues).detect("get me apples, I am hungry")
    assert (context.intent, context.domain, context.urgency) == ("buy", "fruit", "high")


def test_it_leans_as_its_cues_say():
    assert DETECTOR.leans("and for staging?") == 1
    assert DETECTOR.leans("book a room for tomorrow") < 0.5


def test_it_is_a_detector():
    detector: Detector = DETECTOR
    assert detector.detect("hello", None).smalltalk == "greeting"


@given(st.text(max_size=200))
def test_any_text_has_a_context_and_always_the_same(text):
    context = DETECTOR.detect(text)
    assert context == DETECTOR.detect(text)
    assert context.sensitivity in SENSITIVITIES
    assert context.urgency in {"low", "medium", "high"}
    assert all(0 <= p <= 1 for p in context.confidences.values())
    assert context.text == text


@pytest.mark.parametrize("piece", ["and ", "please ", "not ", "hi, ", ".", "why ", "it "])
def test_a_text_of_one_cue_alone_is_read_to_its_end(piece):
    # Every clause begins where the last one's polite words end: no word is passed over twice.
    assert DETECTOR.detect(piece * 20_000).text == piece * 20_000
