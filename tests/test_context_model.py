"""Which detector the settings choose, and what it is made of."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.router.conftest import CountingEncoder, free_of_models, write_labels
from toolcrib import Crib, Settings
from toolcrib.build import make_dense
from toolcrib.context.cues import load_cues
from toolcrib.context.model import (
    SemanticDetector,
    make_context_model,
    make_detector,
    read_context,
    write_context,
)
from toolcrib.context.rules import HeuristicDetector
from toolcrib.encoders.base import LanguageBound
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import SettingsError
from toolcrib.retrieval.gate import UNSUPPORTED_LANGUAGE
from toolcrib.retrieval.legs import EncodedQuery
from toolcrib.settings import load_settings

CUES = load_cues()
OTHER_CUES = """
intents: {buy: {need: act, leads: [get me]}, sell: {need: act, leads: [take my]}}
domains: {fruit: [apple], tools: [saw]}
"""


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    return write_labels(tmp_path_factory.mktemp("labels"))


def query_of(text, dense):
    words = LexicalEncoder(Settings().lexical)
    is_read = not isinstance(dense, LanguageBound) or dense.reads(text)
    marks = () if is_read else (UNSUPPORTED_LANGUAGE,)
    return EncodedQuery(text, dense.encode_query(text), words.encode_query(text), degraded=marks)


def types_of(detector, text):
    return [(entity.type, entity.text) for entity in detector.detect(text).entities]


def detector_of(settings, dense, names=()):
    model = make_context_model(settings.context, dense)
    return make_detector(settings.context, model, dense, names)


def test_by_cues_alone_no_text_is_encoded():
    dense = CountingEncoder()
    detector = detector_of(free_of_models(), dense)
    assert isinstance(detector, HeuristicDetector)
    assert detector.detect("review my pull request").intent == "review"
    assert (dense.queries, dense.documents) == ([], [])


def test_cues_alone_refuse_labels_which_they_would_not_read():
    given = {"detector": "heuristic", "labels": {"domain": "domains.yaml"}}
    with pytest.raises(SettingsError, match=r"context.labels: .*context.detector"):
        detector_of(Settings.model_validate({"context": given}), CountingEncoder())


def test_with_all_that_ships_nothing_has_to_be_fitted(monkeypatch):
    bundled = make_dense(Settings())
    monkeypatch.setattr(type(bundled), "encode_documents", lambda *_: pytest.fail("fitted"))
    detector = detector_of(Settings(), bundled)
    assert isinstance(detector, SemanticDetector)
    context = detector.detect("thank you so much!", query_of("thank you so much!", bundled))
    assert context.smalltalk == "thanks"


def test_a_users_own_labels_are_fitted_on_their_own_texts(labels):
    dense = CountingEncoder()
    detector = detector_of(free_of_models(context={"labels": labels}), dense)
    assert isinstance(detector, SemanticDetector)
    assert "please buy bread" in dense.documents
    assert len(set(dense.documents)) == len(dense.documents) < 100
    text = "I want to sell a saw right now"
    context = detector.detect(text, query_of(text, dense))
    assert (context.intent, context.urgency, context.smalltalk) == ("sell", "high", None)
    assert detector.aliases == {"purchase": "buy"}


def test_what_was_fitted_before_is_used_as_long_as_it_holds(labels, caplog):
    settings = free_of_models(context={"labels": labels})
    kept = write_context(make_context_model(settings.context, CountingEncoder()))
    assert "learn_labels" in caplog.text
    caplog.clear()
    dense = CountingEncoder()
    again = make_context_model(settings.context, dense, kept)
    assert caplog.text == ""
    assert (dict(again.identity), dense.documents) == (dict(read_context(kept, CUES).identity), [])
    need = Path(labels["need"])
    file = need.with_name("changed.yaml")
    file.write_text(need.read_text().replace("who knows", "who can tell"))
    other = free_of_models(context={"labels": {**labels, "need": str(file)}})
    assert make_context_model(other.context, dense, kept).identity != again.identity
    assert "who can tell" in dense.documents


def test_labels_are_named_in_the_settings_file(labels, tmp_path):
    file = tmp_path / "toolcrib.yaml"
    chosen = {"encoder": {"dense": "deterministic"}, "context": {"labels": labels}}
    file.write_text(yaml.safe_dump(chosen))
    with Crib.open(":memory:", settings=load_settings(file)) as crib:
        assert crib.detect("I want to sell a saw right now").intent == "sell"
        assert crib.route("hello").route.kind == "none"


@pytest.mark.parametrize(
    ("context", "told"),
    [
        ({"labels": {"mood": "x.yaml"}}, "context.labels: there is no field 'mood'"),
        ({"labels": {"intent": "gone.yaml"}}, "cannot read the labels of intent 'gone.yaml'"),
        ({"cues": "gone.yaml"}, "cannot read the cues 'gone.yaml'"),
        ({"cues": "gone.yaml", "detector": "heuristic"}, "cannot read the cues 'gone.yaml'"),
    ],
)
def test_files_that_cannot_be_used_are_an_error_that_names_them(context, told):
    settings = free_of_models(context={"detector": "semantic", **context})
    with pytest.raises(SettingsError, match=told):
        detector_of(settings, DeterministicEncoder())
    with Crib.open(":memory:", settings=settings) as crib, pytest.raises(SettingsError, match=told):
        crib.detect("anything")


def test_a_broken_label_file_is_said_with_file_and_place(labels, tmp_path):
    file = tmp_path / "broken.yaml"
    file.write_text("labels: {act: {utterances: [do it]}, know: {utterances: [7]}}")
    settings = free_of_models(context={"labels": {**labels, "need": str(file)}})
    with pytest.raises(SettingsError, match=r"need '.*broken.yaml': labels.know.utterances.0: "):
        detector_of(settings, DeterministicEncoder())


def test_other_cues_take_the_place_of_the_shipped_ones(tmp_path):
    file = tmp_path / "cues.yaml"
    file.write_text(OTHER_CUES)
    chosen = {"detector": "heuristic", "cues": str(file)}
    detector = detector_of(free_of_models(context=chosen), DeterministicEncoder())
    context = detector.detect("get me apples")
    assert (context.intent, context.domain) == ("buy", "fruit")


def test_names_of_tools_gazetteers_and_a_region_are_known():
    chosen = {"detector": "heuristic", "gazetteers": {"team": ["Heron"]}, "region": "US"}
    detector = detector_of(free_of_models(context=chosen), DeterministicEncoder(), ["send_mail"])
    named = types_of(detector, "ask Heron to call send_mail")
    assert named == [("team", "Heron"), ("tool", "send_mail")]
    assert types_of(detector, "ask at (415) 555-2671") == [("phone", "(415) 555-2671")]
    without = detector_of(free_of_models(), DeterministicEncoder())
    assert types_of(without, "ask Heron at (415) 555-2671") == []


@pytest.fixture(scope="module")
def shipped():
    """Detect by what ships; `before` is what was said before."""
    bundled = make_dense(Settings())
    detector = detector_of(Settings(), bundled)
    return lambda text, before="": detector.detect(text, query_of(before + text, bundled))


@pytest.mark.parametrize("before", ["", "translate the handbook to Spanish\n"])
def test_an_opening_states_the_intent_of_its_own_turn_and_not_of_an_earlier_one(shipped, before):
    assert shipped("Fix the crash in it", before).intent == "debug"


@pytest.mark.parametrize("before", ["", "refund invoice 7\n"])
@pytest.mark.parametrize("text", ["Thank you, that's all I needed.", "谢谢你", "Çok teşekkürler"])
def test_thanks_are_small_talk_also_behind_a_request_and_in_other_languages(shipped, text, before):
    assert shipped(text, before).smalltalk == "thanks"


@pytest.mark.parametrize(
    "text",
    [
        "打开厨房的灯",
        "显示我的未读邮件",
        "включи свет на кухне",
        "das ist dringend",
        "c'est urgent",
    ],
)
def test_a_request_in_a_language_that_is_not_read_and_urgency_are_no_small_talk(shipped, text):
    assert shipped(text).smalltalk is None


def test_a_stated_urgency_counts_in_a_language_that_is_not_read(shipped):
    assert shipped("das ist dringend, wo ist mein Paket?").urgency == "high"
    assert shipped("wo ist mein Paket?").urgency == "low"


def test_openings_of_the_shipped_cues_state_no_intent_that_own_labels_lack(labels):
    dense = CountingEncoder()
    detector = detector_of(free_of_models(context={"labels": labels}), dense)
    text = "translate the handbook to Spanish"
    assert detector.detect(text, query_of(text, dense)).intent in {"buy", "sell", None}
