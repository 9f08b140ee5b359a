"""What is remembered of decisions: their log, what was said of them, and what failed."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.router.conftest import Shelves
from toolcrib import Scope, Settings, Turn, build, errors
from toolcrib.context import model as context_model
from toolcrib.context.rules import HeuristicDetector
from toolcrib.language_models.testing import ChatServer, faulty_share
from toolcrib.router.decision_log import open_log
from toolcrib.router.settings import TelemetrySettings

MAIL = "send a mail to Ottilie Brandt"
PARCEL = Turn(text="send a parcel to somebody")


def ids(hits):
    return [hit.id for hit in hits]


def asking(server, *uses):
    """Settings of a language model that is asked once for each of these uses."""
    own = {use: {"timeout_s": 60} for use in uses}
    return {**server.settings, "attempts": 1, "uses": own}


def read_by_a_model(llm):
    """Reader of turns; a crib with it would fit a classifier for its encoder, for a minute."""
    return build.make_reader(Settings.model_validate({"llm": llm, "context": {"detector": "llm"}}))


@pytest.fixture(scope="module")
def shelves():
    filled = Shelves()
    yield filled
    filled.close()


@pytest.fixture
def logged(shelves, tmp_path):
    """A crib that logs its decisions, and how to read the log."""
    path = str(tmp_path / "made" / "log.jsonl")
    crib = shelves.crib(telemetry={"path": path})

    def records():
        log = open_log(TelemetrySettings(path=path))
        found = list(log.read())
        log.close()
        return found

    yield crib, records
    crib.turns.close()


@pytest.fixture
def unlogged(shelves):
    return shelves.crib()


def test_where_no_model_of_turns_can_be_fitted_cues_read_them_until_one_can(
    shelves, monkeypatch, caplog
):
    crib, asked = shelves.crib(), []

    def fit(*_):
        asked.append(len(asked))
        if len(asked) < 4:
            raise errors.EncoderError("the embeddings do not answer")

    monkeypatch.setattr(context_model, "make_context_model", fit)
    assert crib.route(MAIL).route.kind == "tools"
    assert crib.find_knowledge("How heavy may a parcel be?").passages
    assert "the embeddings do not answer" in caplog.text
    with pytest.raises(errors.EncoderError):
        shelves.crib().learn_labels()
    for _ in range(2):
        crib.route(MAIL)
    assert len(asked) == 4


def test_a_new_model_of_turns_that_cannot_be_fitted_is_tried_again(shelves, monkeypatch):
    crib, asked = shelves.crib(), []
    crib.route(MAIL)

    def fit(*_):
        asked.append(len(asked))
        if len(asked) < 2:
            raise errors.EncoderError("the embeddings do not answer")

    monkeypatch.setattr(context_model, "make_context_model", fit)
    monkeypatch.setattr(crib.turns, "_stored_context", lambda: b"of another process")
    monkeypatch.setattr(crib.turns, "_versioned_router", None)
    for _ in range(3):
        crib.route(MAIL)
    assert len(asked) == 2


def test_every_decision_is_logged_by_its_id(logged):
    crib, records = logged
    decisions = [crib.route(text) for text in (MAIL, "hi", "")]
    assert [record["id"] for record in records()] == [each.id for each in decisions]
    first = records()[0]
    assert (first["kind"], first["route"]["kind"]) == ("decision", "tools")
    assert [item["id"] for item in first["tools"]["items"]] == ids(decisions[0].tools.tools)


def test_what_only_looks_is_not_logged(logged):
    crib, records = logged
    crib.detect(MAIL)
    crib.find_knowledge("how much may a parcel weigh?")
    crib.alternates("mail/send_mail", MAIL)
    assert records() == []


def test_no_word_of_the_user_is_logged_unless_that_is_set(logged, shelves, tmp_path):
    crib, records = logged
    crib.route(MAIL)
    assert "Ottilie" not in json.dumps(records())
    path = tmp_path / "whole.jsonl"
    shelves.crib(telemetry={"path": str(path), "text": True}).route(MAIL)
    assert json.loads(path.read_text())["text"]["turn"] == MAIL


def test_outcomes_and_feedback_are_logged_beside_their_decision(logged):
    crib, records = logged
    decision = crib.route(MAIL)
    crib.report_outcome(decision.id, "mail/send_mail", "failure", took_ms=12.5)
    crib.feedback(decision.id, route="tools", tools=["mail/read_mail"], note="the other one")
    _, outcome, feedback = records()
    call = {"tool": "mail/send_mail", "outcome": "failure", "took_ms": 12.5}
    assert outcome.items() >= {"kind": "outcome", "decision": decision.id, **call}.items()
    assert (feedback["kind"], feedback["decision"]) == ("feedback", decision.id)
    assert feedback["tools"] == ["mail/read_mail"]
    assert "note" not in feedback


def test_feedback_on_a_decision_that_was_never_made_is_an_error(logged):
    crib, records = logged
    crib.route(MAIL)
    with pytest.raises(errors.UnknownDecisionError, match="there is no decision 'nope'"):
        crib.feedback("nope", route="tools")
    assert len(records()) == 1


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, "at least one of its fields"),
        ({"rout": "tools"}, "rout: unknown field"),
        ({"route": "nowhere"}, "route: "),
        ({"tools": "mail/send_mail"}, "tools: "),
        ({"outcome": "meh"}, "outcome: "),
    ],
)
def test_feedback_that_cannot_be_understood_is_an_error_that_names_the_field(logged, said, told):
    crib, records = logged
    decision = crib.route(MAIL)
    with pytest.raises(errors.FeedbackError, match=f"^(?!feedback:).*{told}"):
        crib.feedback(decision.id, **said)
    assert len(records()) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda crib: crib.route(MAIL, k="all"),
        lambda crib: crib.route(MAIL, budget_ms="5"),
        lambda crib: crib.alternates("mail/send_mail", MAIL, k="auto"),
        lambda crib: crib.alternates(5, MAIL),
        lambda crib: crib.report_outcome("d-1", 5, "success"),
        lambda crib: crib.report_outcome(crib.route(MAIL), "mail/send_mail", "success"),
    ],
)
def test_a_value_of_another_type_is_an_error(unlogged, ask):
    with pytest.raises(errors.QueryError):
        ask(unlogged)


@pytest.mark.parametrize(
    ("outcome", "took_ms", "told"),
    [
        (True, None, "outcome is True; it must be one of success, failure"),
        *(("success", took_ms, "took_ms") for took_ms in (-1, float("nan"), "12")),
    ],
)
def test_what_no_call_can_come_to_is_an_error_and_is_not_logged(logged, outcome, took_ms, told):
    crib, records = logged
    decision = crib.route(MAIL)
    with pytest.raises(errors.QueryError, match=told):
        crib.report_outcome(decision.id, "mail/send_mail", outcome, took_ms=took_ms)
    assert len(records()) == 1


def test_without_a_log_decisions_are_made_and_outcomes_taken_but_feedback_has_no_place(unlogged):
    decision = unlogged.route(MAIL)
    unlogged.report_outcome(decision.id, "mail/send_mail", "success")
    with pytest.raises(errors.SettingsError, match=r"telemetry\.path.*learning\.enabled"):
        unlogged.feedback(decision.id, route="tools")


def full(folder):
    """A device that is always full."""
    path = folder / "log.jsonl"
    path.symlink_to("/dev/full")
    return path


def in_a_file(folder):
    """A place that nobody can write to: its folder is a file."""
    (folder / "file").write_text("not a folder")
    return folder / "file" / "log.jsonl"


def a_folder(folder):
    path = folder / "log.jsonl"
    path.mkdir()
    return path


NO_DEVICE = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


@pytest.mark.parametrize("place", [pytest.param(full, marks=NO_DEVICE), in_a_file, a_folder])
def test_a_log_that_cannot_be_written_costs_its_record_and_never_the_answer(
    shelves, tmp_path, caplog, place
):
    crib = shelves.crib(telemetry={"path": str(place(tmp_path))})
    decision = crib.route(MAIL)
    assert decision.tools.tools[1].id == "mail/send_mail"
    crib.report_outcome(decision.id, "mail/send_mail", "failure")
    told = [record.message for record in caplog.records]
    assert told == ["a decision could not be logged"] * 2
    found = crib.alternates("mail/read_mail", MAIL, decision_id=decision.id)
    assert "mail/send_mail" not in [hit.id for hit in found]
    crib.turns.close()


def test_feedback_that_cannot_be_written_is_an_error(shelves, tmp_path):
    path = tmp_path / "log.jsonl"
    crib = shelves.crib(telemetry={"path": str(path)})
    decision = crib.route(MAIL)
    path.rename(f"{path}.1")
    path.symlink_to(tmp_path / "gone" / "log.jsonl")
    with pytest.raises(errors.StoreWriteError, match=r"telemetry\.path"):
        crib.feedback(decision.id, route="tools")


def test_what_failed_before_in_the_turn_is_never_offered_again(shelves):
    crib = shelves.crib()
    decision = crib.route(PARCEL)
    failed, gone = "post/send_parcel", []
    while found := crib.alternates(failed, PARCEL, decision_id=decision.id):
        assert set(ids(found)).isdisjoint({failed, *gone})
        gone.append(failed)
        crib.report_outcome(decision.id, failed, "failure")
        failed = found[0].id
    assert len(gone) == 6


def test_an_exported_name_is_reported_as_its_id(logged, caplog):
    crib, records = logged
    decision = crib.route(MAIL)
    crib.report_outcome(decision.id, "post__send_parcel", "failure")
    crib.feedback(decision.id, tools=["mail__send_mail"])
    _, outcome, feedback = records()
    assert (outcome["tool"], feedback["tools"]) == ("post/send_parcel", ["mail/send_mail"])
    found = crib.alternates("mail__send_mail", MAIL, decision_id=decision.id)
    assert found
    assert {"mail/send_mail", "post/send_parcel"}.isdisjoint(ids(found))
    assert not caplog.records


def test_a_name_of_no_tool_is_kept_with_a_warning(logged, caplog):
    crib, records = logged
    decision = crib.route(MAIL)
    crib.report_outcome(decision.id, "nope", "success")
    crib.feedback(decision.id, tools=["nope"])
    assert [record["tool"] for record in records() if record["kind"] == "outcome"] == ["nope"]
    assert ["'nope'" in record.message for record in caplog.records] == [True, True]


def test_ceilings_and_limits_hold_for_alternates(shelves):
    crib = shelves.crib()
    failed, text = "mail/read_mail", "read the file of a patient"
    assert "clinic/patient_file" in ids(crib.alternates(failed, text))
    held = Turn(text=text, max_sensitivity="internal")
    scoped = Turn(text=text, scope=Scope(servers=frozenset({"mail", "post"})))
    assert "clinic/patient_file" not in ids(crib.alternates(failed, held, k=10))
    assert {h.server for h in crib.alternates(failed, scoped, k=10)} == {"mail", "post"}
    limited = shelves.crib(tools={"servers": ["web"]})
    assert ids(limited.alternates(failed, text)) == ["web/search"]


def test_no_model_ranks_alternates_for_a_turn_above_its_ceiling(shelves):
    turn = Turn(text="charge card 4111 1111 1111 1111", max_sensitivity="internal")
    with ChatServer({"tools": [1]}) as server:
        crib = shelves.crib(llm=server.settings, rerank="llm")
        crib.alternates("mail/read_mail", turn)
        assert server.requests == []
        crib.alternates("mail/read_mail", turn.model_copy(update={"max_sensitivity": "pii"}))
        assert server.requests != []


def test_the_level_of_a_message_is_detected_once(shelves, monkeypatch):
    texts, detect = [], HeuristicDetector.detect

    def counting(self, text, *args, **named):
        texts.append(text)
        return detect(self, text, *args, **named)

    monkeypatch.setattr(HeuristicDetector, "detect", counting)
    crib, turn = shelves.crib(), Turn(text=MAIL, max_sensitivity="internal")
    assert crib.turns.may_show_to_model(turn)
    assert crib.turns.may_show_to_model(turn)
    assert texts.count(MAIL) == 1


def test_alternates_of_an_unknown_tool_are_an_error_with_its_neighbours(unlogged):
    with pytest.raises(errors.UnknownToolError, match="did you mean 'mail/send_mail'"):
        unlogged.alternates("mail/send_mial", MAIL)


def test_a_failed_tool_out_of_scope_is_unknown(unlogged):
    scoped = Turn(text=MAIL, scope=Scope(servers=frozenset({"post"})))
    with pytest.raises(errors.UnknownToolError):
        unlogged.alternates("mail/send_mail", scoped)


class TestWithALanguageModelAsReranker:
    """It orders the tools where there is time, and the decision says what became of it."""

    @pytest.fixture
    def decide(self, shelves):
        def decide(faults=(), **own):
            with ChatServer({"tools": [1]}, faults) as server:
                crib = shelves.crib(llm=asking(server, "rerank"), rerank="llm", **own)
                made = crib.route(Turn(text="send something to somebody"))
                crib.turns.close()
            return made, server.requests

        return decide

    def test_what_it_was_asked_is_accounted_for(self, decide):
        made, asked = decide()
        (usage,) = made.usage
        assert (usage.use, usage.model, usage.calls) == ("rerank", "double", len(asked))
        assert len(asked) in {1, 2}
        assert made.took_ms["llm"] > 0
        assert made.degraded == ()

    def test_a_failure_costs_the_order_and_nothing_else(self, decide):
        made, _ = decide(lambda _: "error")
        assert made.tools.tools
        assert "rerank" in made.degraded
        assert made.usage[0].failed == made.usage[0].calls

    def test_the_stage_takes_no_longer_than_it_may(self, decide):
        made, _ = decide(lambda _: "slow", limits={"stage_ms": {"llm": 50}})
        assert "rerank-late" in made.degraded
        assert made.tools.tools


class TestReadByALanguageModel:
    """`context.detector: llm` reads turns where there is time, if they may leave the house."""

    SAID = MappingProxyType({"intent": "debug", "domain": "code", "need": "act"})

    def routed(self, shelves, turn, faults=()):
        with ChatServer(self.SAID, faults) as server:
            crib = shelves.crib()
            crib.turns._reader = read_by_a_model(asking(server, "context"))
            made = crib.route(turn)
            crib.turns.close()
        return made, server.requests

    def test_the_decision_has_its_labels(self, shelves):
        made, asked = self.routed(shelves, Turn(text="send a mail to Ottilie Brandt"))
        assert (made.context.intent, made.context.domain) == ("debug", "code")
        assert [usage.use for usage in made.usage] == ["context"]
        assert len(asked) == 1

    def test_its_failure_is_marked(self, shelves):
        made, _ = self.routed(shelves, Turn(text="send a mail"), lambda _: "error")
        assert "context-llm" in made.degraded

    def test_what_must_not_leave_the_house_is_not_shown_to_it(self, shelves):
        turn = Turn(text="mail my card 4111 1111 1111 1111", max_sensitivity="internal")
        assert self.routed(shelves, turn)[1] == []


class TestWithAServerThatMisbehaves:
    """Three requests of ten go wrong; turns are answered, and marked where they lack something."""

    MARKS = frozenset({"llm", "rerank", "rerank-late", "context-llm", "context-llm-late"})

    def test_every_turn_is_answered_marked_and_nothing_is_told(self, shelves, caplog):
        caplog.set_level(logging.DEBUG)
        faults = faulty_share(0.3, seed=2)

        def reply(request):
            reranks = "Tools:" in request.messages[1].content
            return {"tools": [1]} if reranks else {"intent": "debug", "domain": "code"}

        with ChatServer(reply, faults, slow_s=0.01) as server:
            llm = asking(server, "rerank", "context")
            crib = shelves.crib(llm=llm, rerank="llm")
            crib.turns._reader = read_by_a_model(llm)
            asked, lacking = 0, 0
            for number in range(25):
                made = crib.route(Turn(text=f"send parcel {number} to Zebulon Quickwater"))
                own, asked = server.requests[asked:], len(server.requests)
                marks = set(made.degraded) & self.MARKS
                went_wrong = any(faults(each) for each in own)
                assert made.tools.tools
                assert went_wrong or not marks
                assert {usage.use for usage in made.usage} >= {"context"}
                lacking += bool(marks)
            crib.turns.close()
        assert lacking > 0
        assert "Zebulon" not in caplog.text
        assert server.settings["api_key"] not in caplog.text


def test_the_log_says_which_of_two_rankings_gave_a_tool(shelves, tmp_path):
    path = str(tmp_path / "log.jsonl")
    second = {"name": "by words", "fusion": {"dense": 0, "lexical": 1}}
    crib = shelves.crib(telemetry={"path": path}, interleave=second)
    decision = crib.route("send a mail to somebody")
    (logged,) = open_log(TelemetrySettings(path=path)).read()
    assert logged["tools"]["interleaved"] == decision.tools.interleaved == "by words"
    teams = {hit.id: hit.team for hit in decision.tools.tools}
    assert set(teams.values()) == {"own", "other", None}
    assert teams["agent/think"] is None
    assert {each["id"]: each.get("team") for each in logged["tools"]["items"]} == teams
    crib.turns.close()
