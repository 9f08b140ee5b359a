"""Steps: the tools that an agent may need next, by its words, its calls and other runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolcrib import Crib, Scope, ToolSpec
from toolcrib.errors import QueryError
from toolcrib.records.definitions import provider_name
from toolcrib.retrieval.learned import NO_LEARNED_DATA, UseData
from toolcrib.retrieval.options import MAX_CALLED
from toolcrib.retrieval.steps import (
    MAX_SENTENCES,
    SERVER_DECAY,
    SERVER_GAIN,
    USE_WEIGHT,
    VERB_WEIGHT,
    ToolUse,
    last_sentences,
    verb_ratio,
    verb_ratios,
)
from toolcrib.store.base import point_id
from toolcrib.store.filters import Equals

TASK = "Put the figures of May into the sheet and mail it to Ada"
TOOLS = [
    ToolSpec(name=name, server=server, description=description)
    for name, server, description in (
        ("read_sheet", "sheets", "Read the cells of a sheet."),
        ("write_sheet", "sheets", "Write cells of a sheet."),
        ("format_sheet", "sheets", "Format cells of a sheet."),
        ("send_mail", "mail", "Send a mail to somebody."),
        ("read_mail", "mail", "Read the mail of today."),
        ("read_table", "slides", "Read the cells of a table on a slide."),
        ("delete_table", "slides", "Delete the cells of a table on a slide."),
        ("wait", "clock", "Do nothing for a while."),
    )
]


@pytest.fixture(scope="module")
def crib():
    with Crib.open(":memory:") as crib:
        crib.index_tools(*TOOLS)
        yield crib


def ids(found):
    return [hit.id for hit in found.tools]


def by_id(found):
    return {hit.id: hit for hit in found.tools}


def test_called_tools_take_no_place_and_are_named_apart(crib):
    called = ["sheets/read_sheet", "mail/read_mail", "sheets/read_sheet"]
    found = crib.find_tools("Read the cells of the sheet", k=3, called=called, task=TASK)
    assert len(found.tools) == 3
    assert set(ids(found)).isdisjoint(called)
    assert found.called == ("mail/read_mail", "sheets/read_sheet")


def test_a_name_stands_for_an_id_where_one_tool_has_it(crib):
    called = ["send_mail", "wait", "nobody"]
    assert crib.find_tools("Go on", called=called).called == ("mail/send_mail", "clock/wait")


@pytest.mark.parametrize("spell", [provider_name, lambda tool: tool.id.replace("/", "_")])
def test_a_name_that_was_exported_stands_for_its_id(spell):
    tools = [
        ToolSpec(name="send.fax", server="office", description="Send a fax to somebody."),
        ToolSpec(name="send_mail", server="office", description="Send a mail to somebody."),
        ToolSpec(name="send_mail", server="home", id="mine", description="Write a mail."),
    ]
    with Crib.open(":memory:") as crib:
        crib.index_tools(*tools)
        called = [spell(tool) for tool in (*tools[:2], tools[0])]
        found = crib.find_tools("Write a mail", called=called, task=TASK)
    assert found.called == ("office/send_mail", "office/send.fax")
    assert ids(found) == ["mine"]


def test_tools_of_a_server_in_use_come_before_others_like_them(crib):
    step = {"query": "Read the cells", "k": 8, "task": TASK, "explain": True}
    before = by_id(crib.find_tools(**step))
    after = by_id(crib.find_tools(called=["slides/delete_table"], **step))
    gained = after["slides/read_table"].score - before["slides/read_table"].score
    assert gained == pytest.approx(SERVER_GAIN)
    assert after["slides/read_table"].legs["server_in_use"] == SERVER_GAIN
    assert after["sheets/read_sheet"].score == before["sheets/read_sheet"].score


def test_a_server_gains_less_with_each_server_used_since(crib):
    calls = ["mail/read_mail", "slides/delete_table", "clock/wait", "mail/read_mail"]
    step = {"query": "Read the cells", "k": 8, "task": TASK, "explain": True}
    found = by_id(crib.find_tools(called=calls, **step))
    gains = {tool: found[tool].legs.get("server_in_use") for tool in found}
    assert gains["mail/send_mail"] == SERVER_GAIN
    assert gains["slides/read_table"] == pytest.approx(SERVER_GAIN * SERVER_DECAY**2)
    assert gains["sheets/read_sheet"] is None


def test_a_search_of_the_agents_own_only_leaves_out_what_was_called(crib):
    plain = crib.find_tools("Read the cells", k=8)
    found = crib.find_tools("Read the cells", k=8, called=["slides/delete_table"])
    left = [hit for hit in plain.tools if hit.id != "slides/delete_table"]
    assert ids(found) == [hit.id for hit in left]
    assert [hit.score for hit in found.tools] == [hit.score for hit in left]


def test_verbs_that_agents_call_gain_and_others_lose(crib):
    assert verb_ratio("read_sheet") > 0 > verb_ratio("sheet_delete")
    assert verb_ratio("sheet") == verb_ratios()[""]
    found = by_id(crib.find_tools("cells of a sheet", k=8, task=TASK, explain=True))
    legs = found["slides/delete_table"].legs
    assert legs["verb"] == pytest.approx(VERB_WEIGHT * verb_ratio("delete"))


def test_the_last_sentences_are_searched_by_themselves(crib):
    said = "The weather was fine, and so was the whole of last week at sea. Now send a mail."
    whole = crib.find_tools(said, k=1).tools[0].score
    found = crib.find_tools(said, k=1, task=TASK)
    assert ids(found) == ["mail/send_mail"]
    assert found.tools[0].score > whole
    assert last_sentences("One. Two! Three? Four: five") == ["Two!", "Three?", "Four:", "five"]
    assert len(last_sentences("a\n" * 50)) == MAX_SENTENCES
    assert last_sentences("Only one sentence.") == []


def test_the_last_sentence_of_a_very_long_thought_is_searched(crib):
    thought = "The weather was fine at sea. " * 400
    found = crib.find_tools(f"{thought} Now send a mail.", k=1, task=TASK)
    assert (ids(found), found.degraded) == (["mail/send_mail"], ("query-cut",))


def test_a_step_without_words_is_searched_by_its_task(crib):
    found = crib.find_tools(task="Send a mail to somebody", k=1)
    assert (ids(found), found.query) == (["mail/send_mail"], "Send a mail to somebody")


def test_a_scope_and_a_filter_hold_for_what_is_in_use(crib):
    called = ["slides/read_table", "no/such_tool"]
    step = {"query": "Read the cells", "k": 8, "called": called, "task": TASK}
    narrow = crib.find_tools(scope=Scope(servers=frozenset({"sheets", "mail"})), **step)
    assert narrow.called == ()
    assert {hit.server for hit in narrow.tools} == {"sheets", "mail"}
    filtered = crib.find_tools(where=Equals("server", "sheets"), **step)
    assert {hit.server for hit in filtered.tools} == {"sheets"}
    assert filtered.called == ("slides/read_table",)


def test_needs_of_a_step_are_searched_by_themselves(crib):
    needs = ["Read the cells of a table", "Send a mail"]
    step = crib.find_tools(needs=needs, k=2, called=["mail/send_mail"], task=TASK)
    assert ids(step) == ["slides/read_table", "mail/read_mail"]
    assert step.called == ("mail/send_mail",)


def test_the_verdict_is_on_called_tools_too(crib):
    query = "Read the cells of a sheet."
    step = crib.find_tools(query, called=["sheets/read_sheet"])
    assert step.confidence == crib.find_tools(query).confidence


def test_a_step_has_the_same_tools_by_rank_fusion_as_a_search(crib):
    settings = crib.tools.settings
    fusion = replace(settings.fusion, method="rrf")
    by_ranks = Crib.over(
        crib.tools.store, crib.tools.dense, settings.model_copy(update={"fusion": fusion})
    )
    query = "Read the cells. Then send a mail."
    assert by_ranks.find_tools(query, task=TASK).tools == by_ranks.find_tools(query).tools


@pytest.mark.parametrize("called", ["sheets/read_sheet", ["x"] * (MAX_CALLED + 1)])
def test_a_list_of_calls_that_is_none_or_too_long_is_refused(crib, called):
    with pytest.raises(QueryError, match="call"):
        crib.find_tools("Read the cells", called=called)


class TestUse:
    """What other runs called, and what they called next."""

    @pytest.fixture
    def used(self, crib):
        wait, mail, sheet = map(point_id, ("clock/wait", "mail/send_mail", "sheets/read_sheet"))
        crib.tools.use_learned(UseData(use=ToolUse({wait: 0.5, mail: 0.2}, {sheet: {mail: 1.0}})))
        yield crib
        crib.tools.use_learned(NO_LEARNED_DATA)

    def test_what_other_runs_called_and_called_next_comes_first(self, used):
        step = {"query": "Go on", "k": 8, "task": TASK, "explain": True}
        plain = used.find_tools(**step)
        after = used.find_tools(called=["sheets/read_sheet"], **step)
        assert ids(plain)[0] == "clock/wait"
        assert ids(after)[0] == "mail/send_mail"
        assert 0 < by_id(after)["mail/send_mail"].legs["use"] <= USE_WEIGHT

    def test_a_search_of_the_agents_own_does_not_heed_it(self, used):
        found = used.find_tools("Read the cells", k=8, called=["clock/wait"])
        assert "use" not in used.find_tools("Read the cells", explain=True).tools[0].legs
        assert ids(found)[0] == ids(used.find_tools("Read the cells"))[0]

    def test_a_tool_out_of_scope_stays_out(self, used):
        scope = Scope(servers=frozenset({"sheets"}))
        found = used.find_tools("Go on", k=8, task=TASK, scope=scope)
        assert {hit.server for hit in found.tools} == {"sheets"}
