"""Learned choices: outcomes teach routes, collections, classes, capabilities and targets."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from tests.router.conftest import free_of_models
from toolcrib import Collection, Crib, Passage, Scope, ToolSpec, Turn
from toolcrib.errors import UnknownDecisionError
from toolcrib.learning.lessons import MAX_EXAMPLES
from toolcrib.router.decision_log import JsonLinesLog
from toolcrib.router.settings import TelemetrySettings

PASSAGES = [
    Passage("payroll", "payroll.md", "The crew will get the list on the last day of a month."),
    Passage("harbour", "harbour.md", "The crew will get the list on the first day of a month."),
]
ASKED = ["when does the crew get it", "when does the crew see it", "when will the crew have it"]
NOW = "when does the crew get all of it"
QUESTION = {
    "model": "none",
    "question": "Which team is asked?",
    "classes": [{"id": "billing"}, {"id": "support"}, {"id": "sales"}],
}
CAPABILITIES = {
    "capabilities": [
        {"name": "charts", "description": "draw a diagram"},
        {"name": "browser", "description": "open a page of the web"},
    ]
}

TARGETS = {
    "targets": {"desk": {"description": "Questions."}, "field": {"description": "Work outside."}},
    "fallback": "desk",
}


def settings_in(folder: Path):
    written = {"team": QUESTION, "capabilities": CAPABILITIES, "targets": TARGETS}
    files = {name: folder / f"{name}.yaml" for name in written}
    for name, file in files.items():
        file.write_text(yaml.safe_dump(written[name]), encoding="utf-8")
    return free_of_models(
        learning={"enabled": True},
        durability="system",
        questions={"team": str(files["team"])},
        capabilities={"file": str(files["capabilities"])},
        agents={"targets": str(files["targets"])},
    )


@pytest.fixture
def settings(tmp_path):
    return settings_in(tmp_path)


def filled(crib):
    crib.index_tools([ToolSpec(name="post", server="chat", description="Post to a channel.")])
    crib.add_collections(Collection(name="payroll"), Collection(name="harbour"))
    crib.index_passages(PASSAGES)


@pytest.fixture
def crib(tmp_path, settings):
    with Crib.open(tmp_path / "index", settings=settings) as opened:
        filled(opened)
        yield opened


def route_id(crib, text, session, by):
    return crib.turns.route(Turn(text=text, metadata={"session": session}), by=by).id


def class_id(crib, text, session, by):
    made = crib.classify("team", Turn(text=text, metadata={"session": session})).id
    crib.turns.assign(made, by)
    return made


def capabilities_id(crib, text, session, by):
    made = crib.select_capabilities(Turn(text=text, metadata={"session": session})).id
    crib.turns.assign(made, by)
    return made


def likely_route(crib):
    return crib.route(NOW).route.kind


def first_collection(crib):
    return crib.find_knowledge(NOW).collections[0].id


def chosen_class(crib):
    return crib.classify("team", NOW).branch


def chosen_target(crib):
    return crib.route(NOW).agent.target


def active(crib):
    return "charts" if "charts" in crib.select_capabilities(NOW).active else "none"


CHOICES = [
    pytest.param("route", route_id, "route", likely_route, "tools", id="route"),
    pytest.param("collections", route_id, "collections", first_collection, None, id="collections"),
    pytest.param("questions/team", class_id, "labels", chosen_class, "sales", id="question"),
    pytest.param("capabilities", capabilities_id, "labels", active, "charts", id="capabilities"),
    pytest.param("agents", route_id, "labels", chosen_target, "field", id="agents"),
]


def teach(crib, made, field, right, *, by=None, sessions="12345"):
    given = right if field == "route" else (right,)
    for number, session in enumerate(sessions):
        decision = made(crib, ASKED[number % 3], session, by)
        crib.feedback(decision, **{field: given})


def learned(crib):
    return {each.tool: each for each in crib.learning_status().tools}


@pytest.mark.parametrize(("choice", "made", "field", "now", "right"), CHOICES)
def test_outcomes_teach_a_choice_also_after_a_restart_and_can_be_taken_back(
    crib, tmp_path, settings, choice, made, field, now, right
):
    before = now(crib)
    if right is None:
        right = "harbour" if before == "payroll" else "payroll"
    assert before != right
    teach(crib, made, field, right)
    assert now(crib) == right
    row = learned(crib)[f"{choice}:{right}"]
    assert (row.live, row.choice, row.observations) == (True, choice, 5)
    crib.switch_learning(on=False)
    assert now(crib) == before
    crib.switch_learning(on=True)
    crib.close()
    with Crib.open(tmp_path / "index", settings=settings) as again:
        assert now(again) == right
        assert again.undo_learning(f"{choice}:{right}") == 5
        assert (learned(again), now(again)) == ({}, before)


def test_used_passages_imply_their_collection(crib):
    decision = crib.route(ASKED[0])
    crib.feedback(decision.id, passages=["harbour/harbour.md#0"])
    assert learned(crib)["collections:harbour"].observations == 1


@pytest.mark.parametrize("what", ["route", "ana", "today"])
def test_a_choice_is_taken_back_by_its_name_a_key_or_a_day(crib, what):
    teach(crib, route_id, "route", "tools", by="ana")
    day = datetime.now(UTC).date().isoformat()
    assert crib.undo_learning(day if what == "today" else what) == 5


def test_an_option_that_is_not_there_teaches_nothing(crib):
    teach(crib, class_id, "labels", "marketing")
    teach(crib, route_id, "collections", "nowhere")
    teach(crib, route_id, "route", "none")
    assert learned(crib) == {}


def test_a_collection_beyond_the_scope_teaches_nothing(crib):
    scope = Scope(collections=frozenset({"payroll"}))
    decision = crib.route(Turn(text=ASKED[0], scope=scope))
    crib.feedback(decision.id, collections=["harbour"])
    assert learned(crib) == {}


def test_a_session_gives_four_observations_and_a_class_has_twenty_examples(crib):
    teach(crib, class_id, "labels", "sales", sessions="1" * 9)
    assert learned(crib)["questions/team:sales"].observations == 4
    sessions = [str(number) for number in range(MAX_EXAMPLES + 9)]
    teach(crib, class_id, "labels", "sales", by="ana", sessions=sessions)
    crib.replay_learning()
    row = learned(crib)["questions/team:sales"]
    assert row.observations == MAX_EXAMPLES + 13
    assert row.examples <= MAX_EXAMPLES


def test_a_key_that_contradicts_the_others_is_left_out_of_that_choice_alone(crib):
    for key in ("ana", "bob", "cid"):
        teach(crib, class_id, "labels", "support", by=key)
    teach(crib, class_id, "labels", "billing", by="eve")
    teach(crib, route_id, "route", "tools", by="eve")
    crib.replay_learning()
    assert crib.learning_status().left_out == ("eve",)
    assert not learned(crib)["questions/team:billing"].live
    assert learned(crib)["questions/team:support"].live
    assert learned(crib)["route:tools"].live
    assert chosen_class(crib) == "support"


def test_a_need_that_passed_its_threshold_is_not_outvoted_by_the_route_general(crib):
    teach(crib, route_id, "route", "general", sessions="123456789")
    sure = crib.route("post to a channel")
    assert sure.route.kind in {"tools", "both"}


def test_feedback_needs_no_log_where_outcomes_teach_and_an_unknown_decision_is_refused(crib):
    with pytest.raises(UnknownDecisionError):
        crib.feedback("never made", labels=["sales"])


def test_without_learning_choices_have_no_id(tmp_path):
    plain = settings_in(tmp_path).model_copy(update={"learning": free_of_models().learning})
    with Crib.open(tmp_path / "plain", settings=plain) as crib:
        assert crib.classify("team", NOW).id == ""
        assert crib.select_capabilities(NOW).id == ""


def test_a_log_with_words_teaches_routes_and_targets(crib, tmp_path):
    log = JsonLinesLog(tmp_path / "log.jsonl")
    parts = {"telemetry": TelemetrySettings(text=True), "learning": free_of_models().learning}
    telling = settings_in(tmp_path).model_copy(update=parts)
    with Crib.open(tmp_path / "other", settings=telling, log=log) as logging:
        filled(logging)
        decision = logging.route(ASKED[0])
        logging.feedback(decision.id, route="tools", labels=["field"])
    read = crib.turns.require_learner().read_log(log.read())
    assert (read.added, read.known) == (2, 0)
    assert learned(crib).keys() == {"route:tools", "agents:field"}
    assert crib.turns.require_learner().read_log(log.read()).known == 2
