"""A crib that learns from use: successful calls re-order answers, and can be taken back."""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from toolcrib import Crib, Scope, ToolSpec, Turn
from toolcrib.learning import learner
from toolcrib.learning.learner import BACKGROUND_FROM_OBSERVATIONS
from toolcrib.router.decision_log import JsonLinesLog
from toolcrib.router.decision_log_db import DecisionPruner
from toolcrib.router.settings import TelemetrySettings
from toolcrib.settings import LearningSettings

TOOLS = [
    ToolSpec(name="post", server="chat", description="Post a message in a channel."),
    ToolSpec(name="note", server="chat", description="Write a note about the team."),
    ToolSpec(name="send", server="mail", description="Send a mail."),
]
ASKED = ["tell the team about it", "tell the team we are late", "tell the team that it is done"]
NOW = "tell the team now"


@pytest.fixture
def crib(tmp_path, settings):
    with Crib.open(tmp_path, settings=settings) as opened:
        opened.index_tools(TOOLS)
        yield opened


@contextmanager
def logged_crib(tmp_path, settings):
    """A crib that learns nothing and logs users' words, and its log."""
    log = JsonLinesLog(tmp_path / "log.jsonl")
    telling = settings.model_copy(
        update={"telemetry": TelemetrySettings(text=True), "learning": LearningSettings()}
    )
    with Crib.open(tmp_path / "other", settings=telling, log=log) as logging:
        logging.index_tools(TOOLS)
        yield logging, log


def teach(crib, tool="chat/post", by=None, sessions=("1", "2", "3")):
    for session, text in zip(sessions, ASKED, strict=True):
        decision = crib.turns.route(Turn(text=text, metadata={"session": session}), by=by)
        crib.report_outcome(decision.id, tool, "success")


def first(crib, **options):
    return crib.find_tools(NOW, gate=False, **options).tools[0].id


def learned(crib):
    return {each.tool: each for each in crib.turns.learner.status().tools}


def test_what_was_called_with_success_comes_first_also_after_a_restart(crib, tmp_path, settings):
    assert first(crib) == "chat/note"
    teach(crib)
    assert first(crib) == "chat/post"
    hit = crib.find_tools(NOW, gate=False, explain=True).tools[0]
    assert 0 < hit.legs["learned"] < hit.score < 1
    crib.close()
    with Crib.open(tmp_path, settings=settings) as again:
        assert first(again) == "chat/post"
        assert again.get_tool("chat/post").success_examples == ()


def test_each_tool_that_a_decision_called_with_success_teaches_once_and_a_failure_does_not(crib):
    decision = crib.route(ASKED[0])
    crib.report_outcome(decision.id, "mail/send", "failure")
    for tool in ("chat/post", "chat/note", "chat/post"):
        crib.report_outcome(decision.id, tool, "success")
    crib.report_outcome("never made", "mail/send", "success")
    observations = {tool: each.observations for tool, each in learned(crib).items()}
    assert observations == {"chat/note": 1, "chat/post": 1}


def test_what_decisions_called_together_is_brought_until_it_is_taken_back(crib):
    def mates():
        return [each.id for each in crib.tool_links("chat/post").goes_with]

    for session, text in zip("123", ASKED, strict=True):
        decision = crib.turns.route(Turn(text=text, metadata={"session": session}))
        for tool in ("chat/post", "mail/send"):
            crib.report_outcome(decision.id, tool, "success")
    assert mates() == ["mail/send"]
    assert learned(crib)["chat/post"].goes_with == ("mail/send",)
    crib.turns.learner.switch(on=False)
    assert mates() == []
    crib.turns.learner.switch(on=True)
    assert mates() == ["mail/send"]
    crib.turns.learner.undo("mail/send")
    assert mates() == []


def test_a_key_that_contradicts_the_others_is_left_out_alone(crib):
    for key in ("ana", "bob", "cid"):
        teach(crib, by=key)
    teach(crib, tool="chat/note", by="eve")
    status = crib.turns.learner.status()
    assert status.left_out == ("eve",)
    assert learned(crib)["chat/note"].reason.startswith("its keys' calls contradict")
    assert learned(crib)["chat/post"].live
    assert first(crib) == "chat/post"


def test_a_key_that_is_left_out_gives_no_examples_and_is_still_counted(crib, monkeypatch):
    monkeypatch.setattr(learner, "contradicting_keys", lambda *_: ("eve",))
    teach(crib, by="ana")
    teach(crib, by="eve")
    teach(crib, tool="chat/note", by="eve")
    post, note = (learned(crib)[tool] for tool in ("chat/post", "chat/note"))
    assert (post.observations, post.examples, post.live) == (6, 3, True)
    assert (note.observations, note.examples, note.live) == (3, 0, False)


@pytest.mark.slow
def test_many_observations_are_chosen_from_behind_the_call_and_kept(crib, tmp_path, settings):
    for number in range(BACKGROUND_FROM_OBSERVATIONS + 60):
        decision = crib.route(Turn(text=ASKED[number % 3], metadata={"session": str(number)}))
        crib.report_outcome(decision.id, "chat/post", "success")
    crib.close()
    with Crib.open(tmp_path, settings=settings) as again:
        status = again.turns.learner.status()
        assert status.observations > BACKGROUND_FROM_OBSERVATIONS
        assert first(again) == "chat/post"


def has_words(folder):
    return any(b"late" in file.read_bytes() for file in folder.rglob("ledger.db*"))


@contextmanager
def telling_crib(folder, settings):
    """A crib that learns and keeps users' words."""
    telling = settings.model_copy(update={"telemetry": TelemetrySettings(text=True)})
    with Crib.open(folder, settings=telling) as opened:
        yield opened


def test_words_are_kept_only_where_the_user_allows_it(crib, tmp_path, settings):
    teach(crib)
    assert learned(crib)["chat/post"].texts == ()
    crib.close()
    assert not has_words(tmp_path)
    with telling_crib(tmp_path, settings) as opened:
        teach(opened, sessions="456")
        assert set(learned(opened)["chat/post"].texts) == set(ASKED)


def test_words_are_kept_without_secrets(tmp_path, settings):
    secret = "sk-ant-api03-AbCdEf0123456789AbCdEf0123456789"
    with telling_crib(tmp_path, settings) as opened:
        opened.index_tools(TOOLS)
        decision = opened.turns.route(Turn(text=f"tell the team: {secret}"))
        opened.report_outcome(decision.id, "chat/post", "success")
        assert learned(opened)["chat/post"].texts == ("tell the team: ***",)


def test_words_go_when_decisions_do_and_what_they_taught_stays(crib, tmp_path, settings):
    crib.close()
    with telling_crib(tmp_path, settings) as opened:
        teach(opened)
        assert has_words(tmp_path)
        db = opened.turns.learner._table.database()
        DecisionPruner(db, 60.0, now=lambda: time.time() + 61).prune()
        post = learned(opened)["chat/post"]
        assert (post.texts, post.observations) == ((), 3)
        assert not has_words(tmp_path)


def test_words_are_taken_back_with_what_they_taught(crib, tmp_path, settings):
    crib.close()
    with telling_crib(tmp_path, settings) as opened:
        teach(opened)
        opened.undo_learning("chat/post")
        assert not has_words(tmp_path)


def test_of_keys_one_session_does_not_teach_but_two_do(crib):
    teach(crib, by="ana", sessions="111")
    told = learned(crib)["chat/post"]
    assert (told.live, told.reason, told.by) == (False, "only one session used it", {"ana": 3})
    assert first(crib) == "chat/note"
    teach(crib, by="bob", sessions="123")
    assert learned(crib)["chat/post"].live
    assert first(crib) == "chat/post"


def test_a_session_gives_four_observations_of_a_tool_at_most(crib):
    for _ in range(3):
        teach(crib, sessions="111")
    assert learned(crib)["chat/post"].observations == 4


def test_a_session_has_one_quota_also_after_a_restart(crib, tmp_path, settings):
    with logged_crib(tmp_path, settings) as (logging, log):
        for _ in range(2):
            teach(logging, sessions="111")
    records = list(log.read())
    once = crib.turns.learner.read_log(records)
    assert (once.added, once.known, once.without_tool, once.over_quota) == (4, 0, 0, 2)
    crib.close()
    with Crib.open(tmp_path, settings=settings) as again:
        twice = again.turns.learner.read_log(records)
        assert (twice.added, twice.known, twice.over_quota) == (0, 4, 2)


def test_a_log_that_is_read_again_adds_no_calls_to_runs(crib, tmp_path, settings):
    with logged_crib(tmp_path, settings) as (logging, log):
        for _ in range(6):
            decision = logging.route(ASKED[0])
            for tool in ("chat/post", "mail/send"):
                logging.report_outcome(decision.id, tool, "success")
    runs = crib.turns.learner.runs
    for _ in range(2):
        crib.turns.learner.read_log(log.read())
        # Two of the six are beyond the day's quota, so they have no observation.
        assert [run.tools for run in runs.read()] == [("chat/post", "mail/send")] * 6


@pytest.mark.parametrize("what", ["chat/post", "ana", "today"])
def test_it_is_taken_back_by_day_key_or_tool(crib, what):
    teach(crib, by="ana")
    day = next(iter(learned(crib)["chat/post"].days))
    assert crib.turns.learner.undo(day if what == "today" else what) == 3
    assert (learned(crib), first(crib)) == ({}, "chat/note")
    assert crib.turns.learner.undo("nobody") == 0


def test_it_can_be_switched_off_and_on(crib):
    teach(crib)
    crib.turns.learner.switch(on=False)
    assert first(crib) == "chat/note"
    assert not learned(crib)["chat/post"].live
    crib.turns.learner.switch(on=True)
    assert first(crib) == "chat/post"


def test_scope_and_removal_hold_and_a_changed_tool_counts_half(crib):
    teach(crib)
    assert first(crib, scope=Scope(servers=frozenset({"mail"}))) == "mail/send"

    def lift():
        hits = crib.find_tools(NOW, gate=False, explain=True).tools
        return next(hit.legs.get("learned") for hit in hits if hit.id == "chat/post")

    before = lift()
    crib.index_tools([TOOLS[0].model_copy(update={"tags": ("new",)})])
    assert lift() < before
    crib.remove_tools("chat/post")
    assert first(crib) == "chat/note"
    assert not learned(crib)["chat/post"].live
    assert learned(crib)["chat/post"].reason == "the tool is gone"


def test_what_another_encoder_made_is_left_aside(crib, tmp_path, settings):
    teach(crib)
    crib.close()
    other = settings.encoder.model_copy(update={"dense": "deterministic:32"})
    other = settings.model_copy(update={"encoder": other})
    with Crib.open(tmp_path, settings=other, rebuild=True) as opened:
        assert first(opened) == "chat/note"
        assert learned(opened)["chat/post"].reason == "another encoder made its vectors"
        opened.turns.learner.learn()
        assert learned(opened)["chat/post"].examples == 0


def test_a_log_with_words_teaches_once(crib, tmp_path, settings):
    log = JsonLinesLog(tmp_path / "log.jsonl")
    parts = {"telemetry": TelemetrySettings(text=True), "learning": LearningSettings()}
    telling = settings.model_copy(update=parts)
    with Crib.open(tmp_path / "other", settings=telling, log=log) as logging:
        logging.index_tools(TOOLS)
        assert logging.turns.learner is None
        teach(logging)
    learner = crib.turns.learner
    # A log knows no sessions: what is asked on one day is one.
    now = datetime.now(UTC)
    records = [
        {**record, "at": (now - timedelta(days=3 - number // 2)).isoformat()}
        for number, record in enumerate(log.read())
    ]
    told = learner.read_log(records)
    assert (told.added, told.known) == (3, 0)
    assert learner.read_log(records).known == 3
    assert first(crib) == "chat/post"
    bare = [{**record, "text": None} for record in log.read()]
    assert learner.read_log(bare).without_text == 3
    lost = [{**r, "tool": "no/tool"} if r["kind"] == "outcome" else r for r in log.read()]
    learner.undo("chat/post")
    assert learner.read_log(lost).without_tool == 3
