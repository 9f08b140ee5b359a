"""What a library user holds, on the real engine and the bundled model."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolcrib import And, Collection, Crib, Equals, Passage, Scope, Settings, ToolSpec, Turn, build
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.errors import (
    IndexMismatchError,
    QueryError,
    StoreError,
    StoreLockedError,
    UnknownToolError,
)
from toolcrib.records.answers import FilterEffect
from toolcrib.retrieval.options import SearchOptions
from toolcrib.settings import ContextSettings, EncoderSettings


def spec(name: str, description: str = "", **fields) -> ToolSpec:
    return ToolSpec(name=name, description=description, **fields)


def ids(result) -> list[str]:
    return [hit.id for hit in result.tools]


BY_MODEL = Settings(context=ContextSettings(detector="llm"))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda crib: crib.route(3), "turn .* not int"),
        (lambda crib: crib.detect(None), "turn .* not NoneType"),
        (lambda crib: crib.find_tools(3), "query .* not int"),
        (lambda crib: crib.find_knowledge(["a"]), "question .* not list"),
        (lambda crib: crib.find_tools("rain", kk=2), "no option 'kk'.*'k'"),
        (lambda crib: crib.find_tools("rain", k="two"), "k is 'two'"),
        (lambda crib: crib.find_tools("rain", scope={}), "scope must be a Scope, not dict"),
        (lambda crib: crib.find_tools("rain", where="x"), "filter .* not str"),
        (lambda crib: crib.route("rain", passages=0), "number of passages is 0"),
        (lambda crib: crib.get_tool(5), "id .* not int"),
        (lambda _: Crib.open(5), "location .* not int"),
        (lambda _: Crib.open(""), "location .* is empty"),
        (lambda _: Crib.open(":memory:", settings="toolcrib.yaml"), "settings .* not str"),
        (lambda _: Crib.open(":memory:", dense="multilingual"), "DenseEncoder .* not str"),
        (
            lambda _: Crib.open(":memory:", dense=DeterministicEncoder),
            "DenseEncoder .* <class",
        ),
        (lambda _: Crib.open(":memory:", reranker="llm"), "Reranker .* not str"),
        (
            lambda _: Crib.open(":memory:", settings=BY_MODEL, models={"context": 5}),
            "'context' .* not int",
        ),
    ],
)
def test_a_value_of_another_type_is_an_error_in_words(sample_crib, call, words):
    with pytest.raises(QueryError, match=words):
        call(sample_crib)


def test_it_finds_the_tool_that_fits(sample_crib):
    found = sample_crib.find_tools("is it going to rain in the next hour?", k=3)
    assert found.tools[0].id == "weather/rainRadar"
    assert [hit.rank for hit in found.tools] == [1, 2, 3]
    assert all(0 <= hit.score <= 1 for hit in found.tools)
    assert found.degraded == ()


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


def test_explain_tells_what_each_leg_contributed_and_which_words_matched_nothing(crib):
    crib.index_tools(
        spec("a", "sends mail", success_examples=("write to Ana",), anti_patterns=("call Ana",)),
        spec("b", "reads files"),
    )
    found = crib.find_tools("mail many zebras", explain=True)
    legs = {hit.id: hit.legs for hit in found.tools}
    assert set(legs["a"]) == {"dense", "lexical", "examples", "anti_patterns"}
    assert set(legs["b"]) == {"dense", "lexical"}
    assert legs["a"]["lexical"] > 0 == legs["b"]["lexical"]
    assert found.unmatched_terms == ("many", "zebras")
    stages = {"encode", "legs", "fusion", "fetch", "gate", "prerequisites", "total"}
    assert set(found.took_ms) == stages


def test_explain_tells_what_the_callers_own_filter_left_out_and_nothing_of_another_scope(crib):
    hints = {"readOnlyHint": True}
    crib.index_tools(
        spec("a", "sends mail", server="mail"),
        spec("b", "reads mail", server="mail", annotations=hints),
        spec("c", "reads files", server="files"),
        spec("d", "reads mail", server="theirs"),
    )
    where = And(Equals("safety_tags", "read_only"), Equals("server", "mail"))
    scope = Scope(servers=frozenset({"mail", "files"}))
    found = crib.find_tools("mail", explain=True, where=where, scope=scope)
    lacking = {"no read-only hint": 2, "not server mail": 1}
    assert found.filtered == FilterEffect(3, 2, lacking)
    assert crib.find_tools("mail", explain=True).filtered is None
    assert crib.find_tools("mail", where=where).filtered is None


def test_a_query_of_a_hundred_thousand_characters_is_cut_and_says_so(sample_crib):
    found = sample_crib.find_tools("is it going to rain " + "and so on " * 10_000, k=3, gate=False)
    assert len(found.tools) == 3
    assert found.degraded == ("query-cut",)


def test_an_unknown_tool_names_its_neighbours(sample_crib):
    with pytest.raises(UnknownToolError) as caught:
        sample_crib.get_tool("weather/airQualty")
    assert caught.value.nearest[0] == "weather/airQuality"
    assert "'weather/airQualty'; did you mean 'weather/airQuality'" in str(caught.value)


def test_a_rebuild_is_heard(tmp_path, settings):
    with Crib.open(tmp_path / "s", settings=settings) as crib:
        crib.index_tools(spec("a"), spec("b"))
    heard = []
    Crib.open(tmp_path / "s", settings=settings, rebuild=True, progress=heard.append).close()
    assert [p.done for p in heard if p.stage == "write"] == [0, 2]


def test_in_memory_is_a_folder_that_goes_away(settings):
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(spec("a"))
        folder = Path(crib.info()[0].location)
        assert folder.is_dir()
    assert not folder.exists()


def test_a_closed_crib_says_so(tmp_path, settings):
    crib = Crib.open(tmp_path / "s", settings=settings)
    crib.close()
    crib.close()
    with pytest.raises(StoreError, match="is closed"):
        crib.find_tools("anything")


class BrokenLog:
    """A caller's own decision log, whose disk is gone."""

    def write(self, *_record):
        raise OSError("no disk")

    close = read = find = write


def test_a_callers_own_log_that_fails_costs_no_answer_and_leaves_no_folder_locked(
    tmp_path, settings
):
    by_cues = settings.model_copy(update={"context": ContextSettings(detector="heuristic")})
    crib = Crib.open(tmp_path / "s", settings=by_cues, log=BrokenLog())
    crib.index_tools(spec("a", "sends mail"))
    assert ids(crib.route("send a mail").tools) == ["a"]
    with pytest.raises(OSError, match="no disk"):
        crib.close()
    with Crib.open(tmp_path / "s", settings=by_cues) as crib:
        assert crib.get_tool("a")


@pytest.mark.parametrize("by_setting", [True, False])
def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch, settings, by_setting):
    monkeypatch.setenv("HOME", str(tmp_path))
    location = "~/index"
    if by_setting:
        settings, location = Settings(**{**dict(settings), "store": location}), None
    with Crib.open(location, settings=settings) as crib:
        crib.index_tools(spec("a"))
    assert (tmp_path / "index").is_dir()


def test_a_change_of_the_current_folder_leaves_the_index_where_it_is(
    tmp_path, monkeypatch, settings
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with Crib.open("index", settings=settings) as crib:
        crib.index_tools(spec("a"))
        monkeypatch.chdir(tmp_path / "elsewhere")
        crib.index_tools(spec("b"))
        crib.add_collections(Collection(name="notes"))
    assert not any(Path.cwd().iterdir())
    with Crib.open(tmp_path / "index", settings=settings) as crib:
        assert sorted(tool.id for tool in crib.list_tools()) == ["a", "b"]
        assert [each.name for each, _ in crib.list_collections()] == ["notes"]


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
    with pytest.raises(IndexMismatchError, match=r"trigrams-64.*trigrams-32.*--rebuild"):
        Crib.open(tmp_path / "s", settings=other)
    with Crib.open(tmp_path / "s", settings=other, rebuild=True) as crib:
        assert ids(crib.find_tools("sends mail", k=1)) == ["a"]
        assert {tool.id for tool in crib.list_tools()} == {"a", "b"}
    with Crib.open(tmp_path / "s", settings=other) as crib:
        assert ids(crib.find_tools("sends mail", k=1)) == ["a"]
        assert crib.get_tool("a").success_examples == ("mail Ana",)


async def test_what_is_awaited_lets_the_loop_go_on(tmp_path, settings):
    async with Crib.open(tmp_path / "s", settings=settings) as crib:
        report = await crib.aindex_tools(spec("a", "sends mail"), spec("b", "reads files"))
        assert set(report.added) == {"a", "b"}
        answers = await asyncio.gather(*(crib.afind_tools("sends mail", k=1) for _ in range(8)))
        assert {answer.tools[0].id for answer in answers} == {"a"}
        assert {tool.id async for tool in crib.alist_tools()} == {"a", "b"}
        await crib.aremove_tools("b")
        with pytest.raises(UnknownToolError):
            await crib.aget_tool("b")


def test_each_part_can_be_used_alone(tmp_path, settings):
    by_cues = settings.model_copy(update={"context": ContextSettings(detector="heuristic")})
    tools, knowledge, make_turns = build.open_parts(str(tmp_path / "s"), by_cues)
    turns = make_turns()
    tools.index(spec("a", "sends mail"))
    assert ids(tools.find("sends mail", SearchOptions(k=1))) == ["a"]
    assert not knowledge.exists
    knowledge.put([("", Passage("post", "a.md", "A parcel weighs little."))])
    assert knowledge.count("post") == 1
    assert turns.route(Turn(text="send a mail")).tools.tools[0].id == "a"
    for part in (turns, knowledge, tools):
        part.close()


def test_every_write_makes_another_version_and_reading_makes_none(crib):
    seen = {(crib.tools.version, crib.knowledge.version)}
    writes = (
        lambda: crib.index_tools(spec("a", "sends mail")),
        lambda: crib.tools.use_calibration(None),
        lambda: crib.add_collections(Collection(name="post")),
        lambda: crib.knowledge.put([("", Passage("post", "a.md", "A parcel weighs little."))]),
        lambda: crib.remove_docs("post"),
        lambda: crib.remove_tools("a"),
        crib.refresh,
    )
    for number, write in enumerate(writes, start=2):
        write()
        crib.find_tools("mail")
        crib.list_collections()
        seen.add((crib.tools.version, crib.knowledge.version))
        assert len(seen) == number


def test_looking_makes_no_knowledge_base(tmp_path, settings):
    with Crib.open(tmp_path / "s", settings=settings) as crib:
        assert crib.list_collections() == [*crib.knowledge.passages()] == []
        assert crib.knowledge.count() == 0
        assert not (tmp_path / "s" / "library").exists()


def test_threads_search_while_another_writes(crib):
    crib.index_tools(*(spec(f"t{n}", f"thing {n}") for n in range(50)))
    stop = threading.Event()

    def search() -> None:
        while not stop.is_set():
            assert len(crib.find_tools("thing 7", k=5).tools) == 5

    with ThreadPoolExecutor() as pool:
        searches = [pool.submit(search) for _ in range(3)]
        try:
            crib.index_tools(*(spec(f"u{n}", f"other {n}") for n in range(400)))
        finally:
            stop.set()
    assert [each.result() for each in searches] == [None] * 3
    assert sum(1 for _ in crib.list_tools()) == 450


def test_a_tool_that_is_disabled_later_is_not_found_from_then_on(crib):
    crib.index_tools(spec("a", "sends mail"), spec("b", "sends parcels"))
    assert set(ids(crib.find_tools("sends"))) == {"a", "b"}
    crib.index_tools(spec("a", "sends mail", enabled=False))
    assert ids(crib.find_tools("sends")) == ["b"]
    crib.index_tools(spec("a", "sends mail"))
    assert set(ids(crib.find_tools("sends"))) == {"a", "b"}
