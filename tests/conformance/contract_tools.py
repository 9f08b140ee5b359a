"""What every crib promises about tools: in, found, listed, counted, out."""

from __future__ import annotations

import json
from functools import partial

import pytest

from toolcrib import And, AnyOf, Equals, Not, Or, Range, Scope, ToolSpec
from toolcrib.errors import UnknownToolError

TOOLS = (
    ToolSpec(
        name="send_mail",
        server="mail",
        description="Send a mail to somebody.",
        success_examples=("write to Ana",),
        anti_patterns=("call Ana",),
        tags=("out", "text"),
        cost_estimate=0.5,
    ),
    ToolSpec(
        name="read_mail", server="mail", description="Read the mail of today.", tags=("text",)
    ),
    ToolSpec(name="send_parcel", server="post", description="Send a parcel to somebody."),
    ToolSpec(
        name="track_parcel", server="post", description="Tell where a parcel is.", cost_estimate=2.0
    ),
    ToolSpec(
        name="patient_file",
        server="clinic",
        description="Read the file of a patient.",
        sensitivity="pii",
        category="health",
        safety_tags=("private",),
    ),
    ToolSpec(name="old_mail", server="mail", description="Send a mail by horse.", enabled=False),
)
WHOLE = ToolSpec(
    name="Überweisen",
    server="bank",
    id="bank::überweisen/v2",
    description="Send money.\n\nTo anybody, 100 % safe; “quoted”, \u202fspaced, 💶.",
    input_schema={"type": "object", "properties": {"to": {"type": "string", "minLength": 1}}},
    output_schema={"type": "object", "properties": {"ok": {"type": "boolean"}}},
    success_examples=("pay Ana",),
    anti_patterns=("how rich am I",),
    cost_estimate=0.25,
    avg_latency_ms=12.5,
    safety_tags=("money",),
    sensitivity="internal",
    category="banking",
    tags=("a", "b"),
    annotations={"deprecated": False, "nested": {"list": [1, 2.5, None, True]}},
    requires=("account",),
    provides=("receipt",),
    version="2.1",
)
MAIL = Scope(servers=frozenset({"mail"}))
NO_PII = Scope(max_sensitivity="internal")
FILTERS = (
    Equals("server", "post"),
    AnyOf("tags", ["out", "none"]),
    AnyOf("server", []),
    Range("cost_estimate", gt=0.5),
    Range("cost_estimate", lte=2.0),
    Not(Equals("tags", "text")),
    And(Equals("server", "mail"), Not(Equals("tags", "out"))),
    Or(Equals("category", "health"), Equals("server", "post")),
    Equals("enabled", value=False),
    And(),
    Or(),
)
ODD_IDS = (
    "a/b/c", "a/../b", "..", "./x", "a//b", "/a", "a/",
    "a b", "a?b#c", "%41", "ü/é", "search", "a:b", "list",
)  # fmt: skip


def ids(hits):
    return [hit["id"] for hit in hits]


def which(found):
    """The tools that were found; words of removed ones may count in the scores for a while."""
    return sorted(ids(found["tools"]))


def listed_ids(crib, **how):
    return sorted(tool.id for tool in crib.list_tools(**how))


def filled(both):
    both(lambda crib: crib.index_tools(*TOOLS))
    return both


class Tools:
    @pytest.fixture(scope="class")
    @classmethod
    def stocked(cls, new_both):
        """Filled once, for tests that only read."""
        return filled(new_both())

    @pytest.fixture
    def mine(self, both):
        """The same, for a test that writes."""
        return filled(both)

    def test_what_is_put_in_is_reported(self, both):
        assert both(lambda crib: crib.index_tools(*TOOLS))["added"] == 6
        assert both(lambda crib: crib.index_tools(TOOLS))["unchanged"] == 6
        changed = TOOLS[0].model_copy(update={"description": "Send one."})
        told = both(lambda crib: crib.index_tools(changed, *TOOLS[1:3]))
        assert (told["changed"], told["unchanged"]) == (1, 2)

    def test_wrong_entries_are_refused_and_keep_none_out(self, both, tmp_path):
        file = tmp_path / "tools.json"
        file.write_text(json.dumps([{"name": "good"}, {"nmae": "bad"}, {"name": "x", "tags": 5}]))
        told = both(lambda crib: crib.index_tools(file, tmp_path / "none.json"))
        assert (told["added"], len(told["refused"])) == (1, 3)
        sources = {each["source"] for each in told["refused"]}
        assert sources == {str(file), str(tmp_path / "none.json")}

    def test_two_tools_of_one_id_are_told_apart(self, both):
        other = ToolSpec(name="send_mail", server="mail", description="Another one.")
        told = both(lambda crib: crib.index_tools(TOOLS[0], TOOLS[0], [other]))
        (refused,) = told["refused"]
        assert (told["added"], refused["place"]) == (1, "mail/send_mail")

    def test_what_cannot_be_kept_is_refused(self, both):
        half = ToolSpec(name="half", description="a \ud800 character")
        told = both(lambda crib: crib.index_tools(half, TOOLS[0]))
        assert (told["added"], len(told["refused"])) == (1, 1)

    def test_a_tool_that_is_read_twice_is_named_as_a_copy(self, both, tmp_path):
        for name in ("one.json", "two.json"):
            (tmp_path / name).write_text('[{"name": "ping", "tags": []}]')
        told = both(lambda crib: crib.index_tools(tmp_path / "one.json", tmp_path / "two.json"))
        [copy] = told["copies"]
        assert (told["added"], copy["source"]) == (1, str(tmp_path / "two.json"))
        assert copy["reason"].endswith(str(tmp_path / "one.json"))

    def test_functions_are_tools_and_a_server_can_be_given(self, both):
        def weigh(parcel: str) -> float:
            """Weigh a parcel."""
            return len(parcel)

        both(lambda crib: crib.index_tools(weigh, TOOLS[1], server="desk"))
        assert both(lambda crib: crib.get_tool("desk/weigh"))["description"] == "Weigh a parcel."
        assert both(listed_ids) == ["desk/read_mail", "desk/weigh"]

    @pytest.mark.parametrize("server", [None, "mail"])
    def test_what_no_source_names_goes_where_that_is_asked(self, mine, server):
        told = mine(lambda crib: crib.index_tools(TOOLS[0], prune=True, server=server))
        assert told["removed"] == (5 if server is None else 2)
        mine(listed_ids)
        assert mine(lambda crib: crib.find_tools("send it"), but=which)["tools"]

    def test_nothing_goes_while_anything_is_refused(self, mine, tmp_path):
        missing = tmp_path / "none.json"
        told = mine(lambda crib: crib.index_tools(TOOLS[0], missing, prune=True))
        assert told["removed"] == 0
        assert [each["source"] for each in told["refused"]] == [str(missing), "--prune"]

    def test_an_operation_under_another_name_keeps_nothing(self, mine, tmp_path):
        operation = {"operationId": "list", "responses": {}}
        paths = {"/a": {"get": operation}, "/b": {"get": operation}}
        file = tmp_path / "shop.json"
        file.write_text(json.dumps({"openapi": "3.1.0", "info": {}, "paths": paths}))
        told = mine(lambda crib: crib.index_tools(file, prune=True))
        assert (told["added"], told["removed"]) == (2, 6)
        assert told["refused"] == []

    @pytest.mark.parametrize("query", ["send a mail to somebody", "mail/send_mail", "where is it?"])
    @pytest.mark.parametrize("scope", [None, Scope(), MAIL, NO_PII, Scope(servers=frozenset())])
    def test_the_same_tools_are_found_with_the_same_scores(self, stocked, query, scope):
        told = stocked(lambda crib: crib.find_tools(query, 4, scope=scope))
        shown = stocked(lambda crib: crib.find_tools(query, 4, scope=scope, explain=True))
        assert ids(told["tools"]) == ids(shown["tools"])
        assert "mail/old_mail" not in ids(told["tools"])
        assert bool(told["tools"]) == (scope is None or scope.servers != frozenset())

    @pytest.mark.parametrize("where", FILTERS, ids=repr)
    def test_filters_hold_in_searches_and_lists(self, stocked, where):
        stocked(lambda crib: crib.find_tools("send it somewhere", 9, where=where, gate=False))
        stocked(lambda crib: crib.find_tools("send it", 9, where=where, scope=MAIL))
        stocked(partial(listed_ids, where=where))
        stocked(partial(listed_ids, where=where, scope=MAIL))

    def test_words_that_no_tool_has_are_told(self, stocked):
        told = stocked(lambda crib: crib.find_tools("send a zebra", explain=True))
        assert told["unmatched_terms"] == ["zebra"]

    def test_a_tool_comes_back_as_it_was_put_in(self, both):
        both(lambda crib: crib.index_tools(WHOLE))
        assert both.crib.get_tool(WHOLE.id) == WHOLE
        assert list(both.crib.list_tools()) == [WHOLE]
        assert both.crib.find_tools("send money").tools[0].tool == WHOLE

    def test_a_tool_is_found_by_its_id_whatever_that_is(self, both):
        both(lambda crib: crib.index_tools(ToolSpec(name="odd", id=each) for each in ODD_IDS))
        for tool_id in ODD_IDS:
            assert both.crib.get_tool(tool_id) == both.twin.get_tool(tool_id)
        both(lambda crib: crib.remove_tools(*ODD_IDS[::2]))
        assert both(listed_ids) == sorted(ODD_IDS[1::2])
        for tool_id in ODD_IDS[::2]:
            raised = both.fails(lambda crib, tool_id=tool_id: crib.get_tool(tool_id))
            assert (raised.kind, raised.knows["tool_id"]) == (UnknownToolError, tool_id)

    def test_within_a_scope_the_rest_is_unknown(self, stocked):
        assert stocked(lambda crib: crib.get_tool("mail/send_mail", scope=MAIL))
        raised = stocked.fails(lambda crib: crib.get_tool("post/send_parcel", scope=MAIL))
        assert not any(near.startswith("post") for near in raised.knows["nearest"])

    def test_a_list_goes_on_behind_any_tool(self, stocked):
        for crib in (stocked.crib, stocked.twin):
            order = [tool.id for tool in crib.list_tools()]
            assert len(order) == 6
            for n, tool_id in enumerate(order):
                assert [tool.id for tool in crib.list_tools(after=tool_id)] == order[n + 1 :]

    @pytest.mark.parametrize("scope", [None, MAIL, NO_PII, Scope(tags=frozenset({"text"}))])
    def test_tools_are_counted_by_what_they_are(self, stocked, scope):
        told = stocked(lambda crib: crib.facets(scope=scope))
        assert sum(told["servers"].values()) == told["tools"] > 0

    def test_tools_go_all_or_none(self, mine):
        mine.fails(lambda crib: crib.remove_tools("mail/read_mail", "mail/raed_mail"))
        assert mine(lambda crib: crib.facets())["tools"] == 6
        mine(lambda crib: crib.remove_tools("mail/read_mail", "post/send_parcel"))
        mine(lambda crib: crib.remove_tools())
        assert mine(partial(listed_ids, scope=MAIL)) == ["mail/old_mail", "mail/send_mail"]
        mine(lambda crib: crib.find_tools("send a parcel"), but=which)

    def test_an_empty_crib_finds_nothing(self, both):
        assert both(lambda crib: crib.find_tools("send a mail"))["verdict"] == "abstain"
        assert both(lambda crib: list(crib.list_tools())) == []
        assert both(lambda crib: crib.facets())["tools"] == 0

    def test_progress_ends_with_all_of_it(self, both):
        for crib in (both.crib, both.twin):
            heard = []
            crib.index_tools(*TOOLS, progress=heard.append)
            assert (heard[0].done, heard[-1].done, heard[-1].total) == (0, 6, 6)
            assert {each for told in heard for each in told.ids} == {tool.id for tool in TOOLS}

    def test_it_says_what_it_stands_on(self, stocked):
        told, expected = stocked.each(lambda crib: crib.info()[0])
        assert (told.engine, told.points) == (expected.engine, expected.points)
        dense = stocked.each(lambda crib: crib.info()[1]["dense"])
        assert dense[0] == dense[1]
