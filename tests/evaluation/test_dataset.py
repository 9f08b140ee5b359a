"""Rows of queries and intents: what is accepted, and what is said about the rest."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import SourceError
from toolcrib.evaluation.dataset import (
    STRICTNESS,
    DataSet,
    LabelledQuery,
    LocatedQuery,
    checked_data_set,
    name_leak,
    read_intents,
    read_queries,
    with_shots,
)
from toolcrib.records import Refusal, ToolSpec

GOOD = {"id": "q1", "text": "ring Ada", "relevant": {"call": 1}}


def write(path, *rows):
    path.write_text("".join(f"{r if isinstance(r, str) else json.dumps(r)}\n" for r in rows))
    return path


def one(tmp_path, **fields):
    (item,) = read_queries(write(tmp_path / "queries.jsonl", {**GOOD, **fields}))
    return item


def test_a_row_becomes_a_query_with_its_place(tmp_path):
    expected = LabelledQuery("q1", "ring Ada", "test", {"call": 1.0}, answerable=True)
    assert one(tmp_path) == LocatedQuery("queries.jsonl: line 1", expected)


def test_every_field_is_read(tmp_path):
    full = {
        "split": "dev",
        "relevant": {"call": 2, "dial": 0.5},
        "answerable": True,
        "forbidden": ["hang_up"],
        "candidates": ["call", "dial", "hang_up"],
        "kind": "direct",
        "meta": {"unknown": "keys are ignored"},
    }
    assert one(tmp_path, **full).query == LabelledQuery(
        "q1",
        "ring Ada",
        "dev",
        {"call": 2.0, "dial": 0.5},
        forbidden=frozenset({"hang_up"}),
        candidates=("call", "dial", "hang_up"),
    )


def test_null_stands_for_not_given(tmp_path):
    nulls = dict.fromkeys(
        ("split", "answerable", "forbidden", "candidates", "unanswerable_scope", "meta")
    )
    assert one(tmp_path, **nulls) == one(tmp_path)


def test_a_query_without_relevant_tools_is_unanswerable(tmp_path):
    query = one(tmp_path, relevant={}, unanswerable_scope="no_tool_needed").query
    assert (query.answerable, query.unanswerable_scope) == (False, "no_tool_needed")


@pytest.mark.parametrize("name", ["validation", "valid", "val", "dev"])
def test_the_development_split_has_several_names(tmp_path, name):
    assert one(tmp_path, split=name).query.split == "dev"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"text": None}, "text: Field required"),
        ({"text": " \n"}, "text: empty"),
        ({"text": 7.5, "id": ""}, "id: String should have at least 1 character"),
        ({"relevant": {"call": 0}}, "relevant.call: Input should be greater than 0"),
        ({"relevant": {"call": -1}}, "relevant.call: Input should be greater than 0"),
        (
            {"relevant": {"call": 2e6}},
            "relevant.call: Input should be less than or equal to 1000000",
        ),
        ({"relevant": ["call"]}, "relevant: Input should be an object"),
        ({"split": ["dev"]}, "split: Input should be a valid string"),
        ({"answerable": False}, "answerable: false, although relevant names tools"),
        ({"answerable": True, "relevant": {}}, "answerable: true, although relevant names no tool"),
        ({"forbidden": ["call"]}, "forbidden: 'call' is relevant as well"),
        (
            {"unanswerable_scope": "world"},
            "unanswerable_scope: Input should be '', 'corpus', 'candidates' or 'no_tool_needed'",
        ),
        ({"text": None, "id": None}, "id: Field required (and 1 more)"),
    ],
)
def test_a_bad_row_is_refused_with_line_field_and_reason(tmp_path, fields, reason):
    path = write(tmp_path / "queries.jsonl", GOOD, {**GOOD, **fields})
    good, bad = read_queries(path)
    assert isinstance(good, LocatedQuery)
    assert bad == Refusal(str(path), "line 2", reason)


def test_a_line_that_is_no_json_object_loses_only_itself(tmp_path):
    path = write(tmp_path / "queries.jsonl", "{oops", GOOD, "[1]", {**GOOD, "id": "q2"})
    items = list(read_queries(path))
    assert [item.query.id for item in items if isinstance(item, LocatedQuery)] == ["q1", "q2"]
    assert [item.place for item in items if isinstance(item, Refusal)] == ["line 1", "line 3"]


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(SourceError, match="no such file"):
        list(read_queries(tmp_path / "queries.jsonl"))


def test_an_intent_becomes_a_tool_described_by_its_name(tmp_path):
    path = write(
        tmp_path / "intents.jsonl",
        {"name": "cardArrival_late", "domain": "banking"},
        {"id": "x", "name": "bye", "description": "ends the talk", "domain": None},
        {"id": "y", "domain": "banking"},
    )
    late, bye, bad = read_intents(path)
    assert (late.id, late.description, late.category) == (
        "cardArrival_late",
        "card arrival late",
        "banking",
    )
    assert (bye.id, bye.name, bye.description) == ("x", "bye", "ends the talk")
    assert bad == Refusal(str(path), "line 3", "name: Field required")


CALL, DIAL = ToolSpec(name="call"), ToolSpec(name="dial")


def located(id, text, split="test", *, line=1, relevant=("call",), **fields):
    grades = dict.fromkeys(relevant, 1.0)
    query = LabelledQuery(id, text, split, grades, answerable=bool(grades), **fields)
    return LocatedQuery(f"q.jsonl: line {line}", query)


def test_what_is_sound_passes_without_a_note():
    queries = [located("a", "ring Ada"), located("b", "sing", relevant=())]
    data = checked_data_set("set", [CALL, DIAL], queries)
    assert (data.name, data.kind, data.notes) == ("set", "tools", ())
    assert data.tools == (CALL, DIAL)
    assert data.queries == tuple(item.query for item in queries)


def test_refusals_are_counted_and_only_the_first_are_shown():
    refused = [Refusal("/home/me/q.jsonl", f"line {n}", "text: empty") for n in range(2, 7)]
    data = checked_data_set("set", [CALL], [located("a", "ring Ada"), *refused])
    assert data.notes == (
        (
            "queries left out: 5 (q.jsonl: line 2: text: empty; q.jsonl: line 3: text: empty; "
            "q.jsonl: line 4: text: empty; …)"
        ),
    )


def test_the_first_of_equal_tool_ids_stays():
    other = CALL.model_copy(update={"description": "another"})
    data = checked_data_set("set", [CALL, other], [located("a", "ring Ada")])
    assert data.tools == (CALL,)
    assert data.notes == ("tools left out, their id is taken: 1 ('call')",)


def test_a_tool_that_is_switched_off_is_left_out():
    off = ToolSpec(name="fax", enabled=False)
    data = checked_data_set("set", [CALL, off], [located("a", "ring Ada")])
    assert data.tools == (CALL,)
    assert data.notes == ("tools left out, they are switched off: 1 ('fax')",)


def test_the_first_of_equal_query_ids_stays():
    data = checked_data_set(
        "set", [CALL], [located("a", "ring Ada"), located("a", "ring Bob", line=2)]
    )
    assert [query.text for query in data.queries] == ["ring Ada"]
    assert data.notes == ("queries left out, their id is taken: 1 (q.jsonl: line 2: id: 'a')",)


def test_labels_of_unknown_tools_are_dropped():
    item = located(
        "a",
        "ring Ada",
        relevant=("call", "gone"),
        forbidden=frozenset({"lost"}),
        candidates=("call", "gone", "dial"),
    )
    data = checked_data_set("set", [CALL, DIAL], [item])
    (query,) = data.queries
    assert query.relevant == {"call": 1.0}
    assert query.forbidden == frozenset()
    assert query.candidates == ("call", "dial")
    assert data.notes == (
        (
            "labels left out, no tool has such an id: 3 (q.jsonl: line 1: relevant: 'gone'; "
            "q.jsonl: line 1: forbidden: 'lost'; q.jsonl: line 1: candidates: 'gone')"
        ),
    )


@pytest.mark.parametrize(
    "lost",
    [
        located("b", "sing", line=2, relevant=("gone",)),
        located("b", "sing", line=2, relevant=(), candidates=("gone",)),
    ],
)
def test_a_query_that_loses_all_its_tools_is_left_out(lost):
    data = checked_data_set("set", [CALL], [located("a", "ring Ada"), lost])
    assert [query.id for query in data.queries] == ["a"]
    assert data.notes[-1] == ("queries left out, none of their tools exists: 1 (q.jsonl: line 2)")


def test_a_text_of_several_splits_stays_in_the_strictest():
    queries = [
        located("a", "Ring  Ada", "train", line=1),
        located("b", "ring ada", "test", line=2),
        located("c", "RING ADA\n", "dev", line=3),
        located("d", "ring Bob", "train", line=4),
    ]
    data = checked_data_set("set", [CALL], queries)
    assert [query.id for query in data.queries] == ["b", "d"]
    assert data.notes == (
        (
            "queries left out, their text stands in another split: 2 "
            "(q.jsonl: line 1: train and test; q.jsonl: line 3: dev and test)"
        ),
    )


def test_a_split_of_another_name_is_noted():
    queries = [located("a", "ring Ada"), located("b", "ring Bob", "tset", line=2)]
    data = checked_data_set("set", [CALL], queries)
    assert [query.id for query in data.queries] == ["a", "b"]
    assert data.notes == (
        "queries of a split that is none of train, dev and test: 1 (q.jsonl: line 2: 'tset')",
    )


def test_a_set_without_any_label_is_noted():
    query = LabelledQuery("a", "ring Ada", answerable=False)
    (note,) = checked_data_set("set", [CALL], [LocatedQuery("q.jsonl: line 1", query)]).notes
    assert "relevant" in note


def test_a_text_may_stand_twice_in_one_split_and_is_noted():
    data = checked_data_set("set", [CALL], [located("a", "ring Ada"), located("b", "Ring  Ada")])
    note = "queries with the text of another: intervals are too narrow: 1 (q.jsonl: line 1)"
    assert (len(data.queries), data.notes) == (2, (note,))


def test_an_example_of_a_right_tool_is_no_test_and_is_noted():
    tool = CALL.model_copy(update={"success_examples": ("Ring Ada",)})
    queries = [located("a", "ring Ada"), located("b", "ring Bob", split="train")]
    (note,) = checked_data_set("set", [tool], queries).notes
    assert note.startswith("queries whose text is an example of a right tool: figures are too good")
    learned = [located("a", "ring Ada", split="train")]
    assert checked_data_set("set", [tool], learned).notes == ()


def test_without_tools_the_first_refusal_is_raised():
    refused = Refusal("tools.jsonl", "line 1", "name: missing")
    with pytest.raises(SourceError) as caught:
        checked_data_set("set", [refused], [located("a", "ring Ada")])
    assert str(caught.value) == "tools.jsonl: line 1: holds no tools to use; name: missing"


def test_an_empty_index_is_not_taken_for_a_file_without_tools():
    with pytest.raises(SourceError, match="index some first"):
        checked_data_set("queries.jsonl", [], [located("a", "ring Ada")])


def test_without_queries_the_error_says_where_they_went():
    with pytest.raises(SourceError) as caught:
        checked_data_set("set", [DIAL], [located("a", "ring Ada")])
    assert str(caught.value) == (
        "set: holds no queries to use; labels left out, no tool has such an id: 1 "
        "(q.jsonl: line 1: relevant: 'call'); queries left out, none of their tools exists: 1 "
        "(q.jsonl: line 1)"
    )


IDS = st.sampled_from(["call", "dial", "gone", "lost"])
ITEMS = st.builds(
    located,
    st.sampled_from("abcdef"),
    st.sampled_from(["ring Ada", "RING ada", "sing", "Sing ", "whistle"]),
    st.sampled_from([*STRICTNESS, "extra"]),
    relevant=st.lists(IDS, max_size=3),
    forbidden=st.frozensets(IDS, max_size=2),
    candidates=st.none() | st.lists(IDS, max_size=3).map(tuple),
)


@given(st.lists(ITEMS, max_size=8))
def test_whatever_comes_in_a_sound_set_comes_out(items):
    base = located("base", "hum a tune")
    data = checked_data_set("set", [CALL, DIAL], [base, *items])
    tools = {tool.id for tool in data.tools}
    assert len({query.id for query in data.queries}) == len(data.queries)
    splits: dict[str, str] = {}
    for query in data.queries:
        text = " ".join(query.text.lower().split())
        assert splits.setdefault(text, query.split) == query.split
        labels = {*query.relevant, *query.forbidden, *(query.candidates or ())}
        assert labels <= tools
        assert query.answerable == bool(query.relevant)
    came_through = data.queries == tuple(item.query for item in [base, *items])
    assert came_through == (data.notes == ())


PRICE = ToolSpec(name="get_stock_price", id="price")
MAIL = ToolSpec(name="sendMail", id="mail")
TOOLS = (PRICE, MAIL)


def query(text, *relevant):
    return LabelledQuery(
        "q", text, relevant=dict.fromkeys(relevant, 1.0), answerable=bool(relevant)
    )


def leak(text, *relevant):
    return name_leak([query(text, *relevant)], TOOLS)


@pytest.mark.parametrize(
    "text",
    ["get_stock_price ACME", "please GET_STOCK_PRICE.", "(get_stock_price)", "a get_stock_price"],
)
def test_a_name_is_spelt_literally_whatever_its_case_and_punctuation(text):
    assert leak(text, "price") == (1, 1)


@pytest.mark.parametrize(
    "text",
    ["Get stock price for ACME", "the getStockPrice", "get-stock-price", "GET\nstock  price"],
)
def test_a_name_spelt_as_words_is_no_literal_leak(text):
    assert leak(text, "price") == (0, 1)


def test_camel_case_is_taken_apart():
    assert leak("send mail to Ada", "mail") == (0, 1)
    assert leak("sendmail to Ada", "mail") == (1, 0)


@pytest.mark.parametrize(
    "text", ["budget_stock_prices", "get the stock price", "get stock prices", "stock price", ""]
)
def test_parts_of_a_name_and_longer_words_are_none(text):
    assert leak(text, "price") == (0, 0)


def test_shares_are_of_the_answerable_queries():
    queries = [
        query("get_stock_price", "price"),
        query("get stock price", "price"),
        query("what does ACME cost", "price"),
        query("what is ACME worth", "price"),
        query("get_stock_price of nothing"),
    ]
    assert name_leak(queries, TOOLS) == (0.25, 0.5)


def test_without_answerable_queries_nothing_leaks():
    assert name_leak([], TOOLS) == (0, 0)
    assert leak("get_stock_price") == (0, 0)


def test_names_of_other_tools_and_labels_without_a_tool_are_passed_over():
    assert leak("get_stock_price", "gone") == (0, 0)
    assert leak("sendMail and send mail", "price") == (0, 0)
    assert leak("send mail", "price", "mail") == (0, 1)


def test_names_in_other_scripts_and_with_signs_are_found():
    tools = [ToolSpec(name="天气", id="w"), ToolSpec(name="C++ (run)", id="c")]
    queries = [query("查一下 天气", "w"), query("use c++ (run) now", "c")]
    assert name_leak(queries, tools)[0] == 1


WORDS = st.lists(st.from_regex(r"[a-z]{2,8}", fullmatch=True), min_size=1, max_size=4)


@given(name=WORDS, before=WORDS, after=WORDS)
def test_whatever_stands_around_it_a_name_is_found(name, before, after):
    tools = [ToolSpec(name="_".join(name), id="t")]
    around = [" ".join(before), None, " ".join(after)]
    for spelt, literal in (("_".join(name), True), (" ".join(name), len(name) == 1)):
        text = " ".join(part or spelt for part in around)
        as_it_stands, as_words = name_leak([query(text, "t")], tools)
        assert as_words == 1
        assert as_it_stands == 1 or not literal


INTENTS = DataSet(
    "intents",
    (ToolSpec(name="greet", success_examples=("hello",)), ToolSpec(name="leave")),
    (
        *(LabelledQuery(f"g{n}", f"good day {n}", "train", {"greet": 1}) for n in range(5)),
        LabelledQuery("l", "good bye", "train", {"leave": 1}),
        LabelledQuery("both", "hello and good bye", "train", {"greet": 1, "leave": 1}),
        LabelledQuery("t", "hi there", "test", {"greet": 1}),
        LabelledQuery("same", "good bye", "test", {"leave": 1}),
        LabelledQuery("none", "what is the time", "train", answerable=False),
    ),
    kind="intents",
)


def _examples(data: DataSet) -> dict[str, tuple[str, ...]]:
    return {tool.id: tool.success_examples for tool in data.tools}


def test_as_many_as_asked_for_or_as_there_are_beside_those_it_has() -> None:
    examples = _examples(with_shots(INTENTS, 3))
    assert examples["greet"][0] == "hello"
    assert len(examples["greet"]) == 4
    assert set(examples["greet"][1:]) <= {f"good day {n}" for n in range(5)}
    assert examples["leave"] == ("good bye",)


def test_what_became_an_example_is_asked_no_more_in_any_split() -> None:
    taught = with_shots(INTENTS, 10)
    assert {query.id for query in taught.queries} == {"both", "t", "none"}


def test_the_choice_is_the_seeds() -> None:
    assert with_shots(INTENTS, 2, seed=1) == with_shots(INTENTS, 2, seed=1)
    assert len({_examples(with_shots(INTENTS, 2, seed=n))["greet"] for n in range(9)}) > 1


def test_tools_are_not_taught_and_none_asked_for_is_none() -> None:
    tools = replace(INTENTS, kind="tools")
    assert with_shots(tools, 10) is tools
    assert with_shots(INTENTS, 0) is INTENTS
