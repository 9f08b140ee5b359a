"""What a library user holds, on the real engine and the bundled model."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from langchain_core.tools import tool

from tests.conftest import SOURCES
from toolcrib import AnyOf, Crib, Equals, Not, Range, Scope, Settings, ToolSpec
from toolcrib.errors import (
    IndexMismatchError,
    QueryError,
    StoreError,
    StoreLockedError,
    UnknownToolError,
)
from toolcrib.settings import EncoderSettings


def spec(name: str, description: str = "", **fields) -> ToolSpec:
    return ToolSpec(name=name, description=description, **fields)


def ids(result) -> list[str]:
    return [hit.id for hit in result.tools]


def test_it_finds_the_tool_that_fits(sample_crib):
    found = sample_crib.find_tools("is it going to rain in the next hour?", k=3)
    assert found.tools[0].id == "weather/rainRadar"
    assert [hit.rank for hit in found.tools] == [1, 2, 3]
    assert all(0 <= hit.score <= 1 for hit in found.tools)
    assert found.degraded == ()


def test_the_same_question_always_gets_the_same_answer(sample_crib):
    first = sample_crib.find_tools("send a message to somebody", k=20, gate=False)
    second = sample_crib.find_tools("send a message to somebody", k=20, gate=False)
    assert ids(first) == ids(second)


def test_scores_fall_with_rank(sample_crib):
    found = sample_crib.find_tools("book a table", k=30, gate=False)
    scores = [hit.score for hit in found.tools]
    assert len(scores) == 30
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("weather/airQuality", "weather/airQuality"),
        ("airQuality", "weather/airQuality"),
        ("air quality", "weather/airQuality"),
        ("create_issue", "codehost/create_issue"),
        ("please call create_issue for this crash", "codehost/create_issue"),
    ],
)
def test_an_exact_name_wins(sample_crib, query, tool):
    best = sample_crib.find_tools(query, k=1).tools[0]
    assert (best.id, best.score) == (tool, 1.0)


def test_ties_are_broken_by_id(crib):
    crib.index_tools(*(spec(name, "the same words", id=f"{name}-id") for name in "dcba"))
    tied = crib.find_tools("the same words", k=2)
    assert ids(tied) == ["a-id", "b-id"]


def test_a_disabled_tool_is_listed_and_never_found(crib):
    crib.index_tools(spec("a", "sends mail", enabled=False), spec("b", "sends parcels"))
    assert ids(crib.find_tools("sends mail", k=5)) == ["b"]
    assert {tool.name for tool in crib.list_tools()} == {"a", "b"}


def test_explain_tells_what_each_leg_contributed_and_which_words_matched_nothing(crib):
    crib.index_tools(
        spec("a", "sends mail", success_examples=("write to Ana",), anti_patterns=("call Ana",)),
        spec("b", "reads files"),
    )
    found = crib.find_tools("mail a zebra", explain=True)
    legs = {hit.id: hit.legs for hit in found.tools}
    assert set(legs["a"]) == {"dense", "lexical", "examples", "anti_patterns"}
    assert set(legs["b"]) == {"dense", "lexical"}
    assert legs["a"]["lexical"] > 0 == legs["b"]["lexical"]
    assert found.unmatched_terms == ("zebra",)
    assert set(found.took_ms) == {"encode", "legs", "fusion", "fetch", "gate", "total"}


def test_filters_hold(crib):
    crib.index_tools(
        spec("a", "sends mail", server="one", tags=("x",), cost_estimate=0.5),
        spec("b", "sends mail", server="two", tags=("x", "y"), cost_estimate=2.0),
        spec("c", "sends mail", server="two"),
    )

    def found(where):
        return sorted(ids(crib.find_tools("sends mail", where=where)))

    assert found(Equals("server", "two")) == ["two/b", "two/c"]
    assert found(AnyOf("tags", ["y", "z"])) == ["two/b"]
    assert found(Not(Equals("tags", "x"))) == ["two/c"]
    assert found(Range("cost_estimate", lte=1.0)) == ["one/a"]
    assert found(AnyOf("server", [])) == []


def test_what_is_out_of_scope_changes_no_score(tmp_path, settings):
    mine = [spec("a", "sends mail to a friend", server="mine"), spec("b", "mail", server="mine")]
    theirs = [spec(f"t{n}", "mail mail friend", server="theirs") for n in range(50)]
    scope = Scope(servers=frozenset({"mine"}))
    answers = []
    for name, tools in (("alone", mine), ("crowded", [*mine, *theirs])):
        with Crib.open(tmp_path / name, settings=settings) as crib:
            # One average for both, so that only the scope is under test.
            crib.index_tools(*tools)
            meta = dict(crib.tools.store.read_meta())
            crib.tools.store.write_meta(meta)
            found = crib.find_tools("mail a friend", scope=scope, explain=True)
            answers.append([(hit.id, hit.legs["dense"]) for hit in found.tools])
            assert {hit.server for hit in found.tools} == {"mine"}
    assert answers[0] == answers[1]


def test_word_frequencies_are_counted_over_the_scope_alone(crib):
    crib.index_tools(
        spec("a", "rare", server="mine"),
        spec("b", "plain", server="mine"),
        *(spec(f"t{n}", "rare", server="theirs") for n in range(20)),
    )
    scope = Scope(servers=frozenset({"mine"}))
    within = crib.find_tools("rare", scope=scope, explain=True).tools[0]
    overall = crib.find_tools("rare", where=Equals("server", "mine"), explain=True).tools[0]
    assert within.id == overall.id == "mine/a"
    assert within.legs["lexical"] > overall.legs["lexical"]


def test_an_empty_scope_finds_nothing(sample_crib):
    nobody = Scope(servers=frozenset())
    assert sample_crib.find_tools("send mail", scope=nobody).tools == ()


def test_safety_tags_can_be_kept_out(crib):
    crib.index_tools(spec("drop", "drops a table", safety_tags=("destructive",)), spec("read"))
    scope = Scope(without_safety_tags=frozenset({"destructive"}))
    assert ids(crib.find_tools("drop a table", scope=scope)) == ["read"]


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
def test_an_empty_query_is_an_error(crib, query):
    with pytest.raises(QueryError) as caught:
        crib.find_tools(query)
    assert str(caught.value) == "the query is empty: say in a few words what the tool must do"


@pytest.mark.parametrize("query", ["🙂🙂", "?!", "→ ★"])
def test_a_query_without_words_finds_nothing_and_says_so(sample_crib, query):
    found = sample_crib.find_tools(query)
    assert (found.tools, found.degraded) == ((), ("no-words",))


def test_a_query_of_a_hundred_thousand_characters_is_cut_and_says_so(sample_crib):
    found = sample_crib.find_tools("is it going to rain " + "and so on " * 10_000, k=3, gate=False)
    assert len(found.tools) == 3
    assert found.degraded == ("query-cut",)


def test_k_below_one_is_an_error(crib):
    with pytest.raises(QueryError) as caught:
        crib.find_tools("mail", k=0)
    assert str(caught.value) == "k is 0; at least one tool must be asked for"


def test_a_filter_on_an_unknown_field_is_an_error(crib):
    with pytest.raises(QueryError) as caught:
        crib.find_tools("mail", where=Equals("colour", "red"))
    assert str(caught.value).startswith(
        "an equality filter cannot use the field 'colour'; it can use always_active, category,",
    )


def test_k_may_exceed_the_number_of_tools(crib):
    crib.index_tools(spec("a"), spec("b"))
    assert len(crib.find_tools("anything", k=1000).tools) == 2


def test_k_beyond_the_depth_of_the_legs_still_fills_the_answer(sample_crib):
    assert len(sample_crib.find_tools("show me something", k=120, gate=False).tools) == 120


def test_an_empty_index_answers_with_nothing(crib):
    assert crib.find_tools("anything").tools == ()


def test_an_unknown_tool_names_its_neighbours(sample_crib):
    with pytest.raises(UnknownToolError) as caught:
        sample_crib.get_tool("weather/airQualty")
    assert caught.value.nearest[0] == "weather/airQuality"
    assert str(caught.value).startswith(
        "no tool has the id 'weather/airQualty'; did you mean 'weather/airQuality'",
    )


def test_removing_needs_every_id_to_be_known(crib):
    crib.index_tools(spec("a"), spec("b"))
    with pytest.raises(UnknownToolError):
        crib.remove_tools("a", "nope")
    assert {tool.id for tool in crib.list_tools()} == {"a", "b"}
    crib.remove_tools("a")
    assert {tool.id for tool in crib.list_tools()} == {"b"}


def test_functions_specifications_and_files_mix(crib, tmp_path):
    def roll_dice(sides: int = 6) -> int:
        """Roll a die."""
        return sides

    file = tmp_path / "tools.yaml"
    file.write_text("- name: from_file\n  description: Read from a file.\n")
    report = crib.index_tools(file, [spec("one"), spec("two")], roll_dice)
    assert set(report.added) == {"from_file", "one", "two", "roll_dice"}
    assert crib.find_tools("roll a die", k=1).tools[0].tool.input_schema["properties"]["sides"]


def test_a_langchain_tool_is_one_tool_alone_and_among_others(crib):
    @tool
    def toss_coin(times: int) -> str:
        """Toss a coin."""
        return "heads" * times

    assert crib.index_tools(toss_coin).added == ("toss_coin",)
    assert crib.index_tools([toss_coin, spec("other")]).added == ("other",)
    assert crib.get_tool("toss_coin").description == "Toss a coin."


def test_an_object_that_is_no_tool_is_refused(crib):
    report = crib.index_tools(42, [spec("good")])  # pyright: ignore[reportArgumentType]
    assert report.added == ("good",)
    [refusal] = report.refused
    assert refusal.reason == "is a int; expected a function or a LangChain tool"


def test_a_rebuild_is_heard(tmp_path, settings):
    with Crib.open(tmp_path / "s", settings=settings) as crib:
        crib.index_tools(spec("a"), spec("b"))
    heard = []
    Crib.open(tmp_path / "s", settings=settings, rebuild=True, progress=heard.append).close()
    assert [p.done for p in heard if p.stage == "write"] == [0, 2]


def test_a_server_given_overrides_a_specifications_own(crib):
    crib.index_tools(spec("a", server="x"), spec("b", server="x", id="fixed"), server="y")
    assert {tool.id: tool.server for tool in crib.list_tools()} == {"y/a": "y", "fixed": "y"}


def test_in_memory_is_a_folder_that_goes_away(settings):
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(spec("a"))
        folder = Path(crib.info()[0].location)
        assert folder.is_dir()
    assert not folder.exists()


def test_it_is_all_there_after_opening_again(tmp_path, settings):
    with Crib.open(tmp_path / "s", settings=settings) as crib:
        crib.index_tools(spec("a", "sends mail"))
    with Crib.open(tmp_path / "s", settings=settings) as crib:
        assert ids(crib.find_tools("sends mail")) == ["a"]


def test_a_closed_crib_says_so(tmp_path, settings):
    crib = Crib.open(tmp_path / "s", settings=settings)
    crib.close()
    crib.close()
    with pytest.raises(StoreError, match="is closed"):
        crib.find_tools("anything")


def test_a_second_opener_gets_a_clear_error_and_does_no_harm(tmp_path, settings):
    with Crib.open(tmp_path / "s", settings=settings) as crib:
        with pytest.raises(StoreLockedError, match="is in use by process"):
            Crib.open(tmp_path / "s", settings=settings)
        crib.index_tools(spec("a"))
        assert ids(crib.find_tools("a")) == ["a"]


def test_an_index_of_another_model_is_refused_with_the_command_that_mends_it(tmp_path, settings):
    with Crib.open(tmp_path / "s", settings=settings) as crib:
        crib.index_tools(spec("a", "sends mail", success_examples=("mail Ana",)), spec("b"))
    other = Settings(encoder=EncoderSettings(dense="deterministic:32"))
    with pytest.raises(IndexMismatchError) as caught:
        Crib.open(tmp_path / "s", settings=other)
    assert str(caught.value) == (
        "the index was built with dense 'deterministic-trigrams-64', now "
        "'deterministic-trigrams-32'; dimensions 64, now 32; build it anew with "
        "`toolcrib index --rebuild`, or go back to those settings"
    )
    with Crib.open(tmp_path / "s", settings=other, rebuild=True) as crib:
        assert ids(crib.find_tools("sends mail", k=1)) == ["a"]
        assert {tool.id for tool in crib.list_tools()} == {"a", "b"}
    with Crib.open(tmp_path / "s", settings=other) as crib:
        assert crib.get_tool("a").success_examples == ("mail Ana",)


async def test_the_asynchronous_twins_let_the_loop_go_on(tmp_path, settings):
    async with Crib.open(tmp_path / "s", settings=settings) as crib:
        report = await crib.aindex_tools(spec("a", "sends mail"), spec("b", "reads files"))
        assert set(report.added) == {"a", "b"}
        answers = await asyncio.gather(*(crib.afind_tools("sends mail", k=1) for _ in range(8)))
    assert {answer.tools[0].id for answer in answers} == {"a"}


def test_threads_search_while_another_writes(crib):
    crib.index_tools(*(spec(f"t{n}", f"thing {n}") for n in range(50)))
    failures: list[BaseException] = []
    stop = threading.Event()

    def search() -> None:
        try:
            while not stop.is_set():
                assert len(crib.find_tools("thing 7", k=5).tools) == 5
        except BaseException as error:  # noqa: BLE001 -- shown by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    crib.index_tools(*(spec(f"u{n}", f"other {n}") for n in range(400)))
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sum(1 for _ in crib.list_tools()) == 450


def test_the_whole_sample_registry_is_read_without_a_refusal(tmp_path, settings):
    with Crib.open(tmp_path / "s", settings=settings) as crib:
        report = crib.index_tools(*SOURCES)
        assert report.refused == ()
        assert len(report.added) >= 150


def test_a_tool_that_is_disabled_later_is_not_found_from_then_on(crib):
    crib.index_tools(spec("a", "sends mail"), spec("b", "sends parcels"))
    assert set(ids(crib.find_tools("sends"))) == {"a", "b"}
    crib.index_tools(spec("a", "sends mail", enabled=False))
    assert ids(crib.find_tools("sends")) == ["b"]
    crib.index_tools(spec("a", "sends mail"))
    assert set(ids(crib.find_tools("sends"))) == {"a", "b"}


def test_examples_that_come_later_are_heard(crib):
    crib.index_tools(spec("a", "x"), spec("b", "y"))
    assert "examples" not in crib.find_tools("zebra crossing", explain=True).tools[0].legs
    crib.index_tools(spec("b", "y", success_examples=("zebra crossing",)))
    best = crib.find_tools("zebra crossing", explain=True).tools[0]
    assert (best.id, round(best.legs["examples"], 3)) == ("b", 1.0)
