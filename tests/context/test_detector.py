"""Detector by utterances: the shipped one on clear cases, and one of a user's own labels."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.router.conftest import write_labels
from toolcrib import Settings
from toolcrib.build import make_dense
from toolcrib.context.classifier import shipped_turn_classifier
from toolcrib.context.cues import load_cues
from toolcrib.context.entities import EntityFinder
from toolcrib.context.labels import label_sets
from toolcrib.context.model import SemanticDetector, fit_context, shipped_context
from toolcrib.context.rules import HeuristicDetector
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.records import SENSITIVITIES
from toolcrib.retrieval.legs import EncodedQuery

CUES = load_cues()
FINDER = EntityFinder()
HEURISTIC = HeuristicDetector(CUES, FINDER)
WORDS = LexicalEncoder(Settings().lexical)


def query_of(text, dense):
    return EncodedQuery(text, dense.encode_query(text), WORDS.encode_query(text))


@pytest.fixture(scope="module")
def shipped():
    """Detects with the shipped model."""
    dense = make_dense(Settings())
    detector = SemanticDetector(shipped_context(CUES), FINDER, shipped_turn_classifier())

    def detect(text, before=None, **how):
        alone = query_of(text, dense)
        if before is None:
            return detector.detect(text, alone, **how)
        return detector.detect(text, query_of(f"{before}\n{text}", dense), own=alone, **how)

    return detect


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A detector of a user's own labels, and what encodes for it."""
    files = write_labels(tmp_path_factory.mktemp("labels"))
    dense = DeterministicEncoder()
    sets = label_sets({field: Path(file) for field, file in files.items()})
    model = fit_context(sets, CUES, FINDER, dense)
    return SemanticDetector(model, FINDER, shipped_turn_classifier()), dense


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hi", "greeting"),
        ("Good morning!", "greeting"),
        ("Thanks a lot, that helped!", "thanks"),
        ("goodbye", "farewell"),
        ("what can you do?", "assistant"),
        ("Who are you?", "assistant"),
    ],
)
def test_small_talk_is_told_and_has_no_intent_domain_or_need(shipped, text, kind):
    context = shipped(text)
    assert context.smalltalk == kind
    assert context.intent is context.domain is context.need is None


def test_what_is_asked_for_in_few_words_or_beside_small_talk_is_none(shipped):
    asked = (
        *("Translate this paragraph into Spanish", "Make this shorter", "Fix this typo"),
        *("delete it", "stop the server", "book a flight to Lisbon"),
        *("thanks, now deploy the build", "good night, switch all lights off"),
        *("good evening, dim the lights", "bye for now, but first set the alarm for six"),
        *("post 'good morning' in #team", "merci beaucoup, tu peux aussi l'imprimer"),
        *("谢谢，现在把灯关掉", "danke dir! mach bitte noch das Licht im Flur aus"),
        "спасибо, теперь перезапусти сервер",
        *("passport", "kindergarten", "basura", "Kalender"),
    )
    assert {text for text in asked if shipped(text).smalltalk} == set()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("who was there", None),
        ("and who of us is that this week?", None),
        ("she prefers mornings", None),
        ("thanks, that was all", "farewell"),
        ("that's everything, thanks", "thanks"),
        ("all good then", "thanks"),
    ],
)
def test_what_refers_to_a_request_is_small_talk_by_its_words_alone(shipped, text, kind):
    assert shipped(text, before="What did the meeting of the clinic decide?").smalltalk == kind


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("What is our notice period for rented offices?", "ask"),
        ("Summarise this report in three sentences", "transform"),
        ("Write unit tests for the invoice parser", "generate"),
        ("Why does the login fail with a 500 since the last deployment?", "debug"),
        ("Please review my pull request and tell me what you think of it", "review"),
    ],
)
def test_clear_intents_are_told(shipped, text, intent):
    context = shipped(text)
    assert (context.intent, context.smalltalk) == (intent, None)


def test_what_fits_no_label_is_said_in_signals(shipped):
    context = shipped("how far away is the moon in parsecs?")
    assert (context.domain, context.intent) == (None, "ask")
    assert context.signals == ("out-of-scope:domain",)


def test_without_a_vector_it_goes_by_the_cues(own):
    detector, _ = own
    text = "What is our retry policy?"
    without = EncodedQuery(text, None, WORDS.encode_query(text), ("dense",))
    assert detector.detect(text, without) == detector.detect(text) == HEURISTIC.detect(text)
    assert detector.detect(text, entities=False) == HEURISTIC.detect(text, entities=False)


def test_a_users_own_labels_are_told(own):
    detector, dense = own
    text = "I want to sell a saw right now"
    context = detector.detect(text, query_of(text, dense))
    assert (context.intent, context.smalltalk, context.urgency) == ("sell", None, "high")
    assert detector.aliases == {"purchase": "buy"}


@given(st.text(max_size=200))
def test_any_text_has_a_context_and_always_the_same(own, text):
    detector, dense = own
    query = query_of(text, dense)
    context = detector.detect(text, query)
    assert context == detector.detect(text, query)
    assert context.sensitivity in SENSITIVITIES
    assert all(0 <= p <= 1 for p in context.confidences.values())
    assert all(text[e.start : e.end] == e.text for e in context.entities)


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "what does the line password = 'tr0ub4dor&3xyz' do in this file?",
        "is 4111 1111 1111 1111 a good example for the docs?",
    ],
)
def test_what_is_surely_secret_or_personal_is_never_public(shipped, text):
    assert shipped(text).sensitivity in {"pii", "safety_critical"}
