"""From a specification alone come queries in a user's words, and the texts that answer them."""

from __future__ import annotations

from importlib import resources
from string import Formatter

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.indexers.points import clean, dense_text
from toolcrib.records import ToolSpec
from toolcrib.text import split_identifier
from toolcrib.training.data import Example, imitate

SEEDS = range(150)
DELETE = ToolSpec(name="purge", description="Deletes tags from a key. Needs the owner's right.")
PHRASES = yaml.safe_load(
    resources.files("toolcrib.training").joinpath("phrases.yaml").read_text("utf-8")
)


def pairs(*specs):
    """The last tool's text and query, of many seeds."""
    for seed in SEEDS:
        data = imitate(specs, "corpus", seed=seed)
        example: Example = data.examples[-1]
        yield data.documents[example.positive], example.query


def queries(spec):
    return [query.casefold() for _, query in pairs(spec)]


def tool(description, name="purge", server="", **properties):
    schema = {"properties": properties}
    return ToolSpec(name=name, description=description, server=server, input_schema=schema)


@pytest.mark.parametrize(
    ("field", "places"),
    [
        ("frames", 1),
        ("noun_frames", 1),
        ("preambles", 0),
        ("joints", 2),
        ("server_frames", 2),
        ("value_frames", 3),
    ],
)
def test_every_phrase_has_as_many_places_as_are_filled(field, places):
    for phrase in PHRASES[field]:
        named = [name for _, name, *_ in Formatter().parse(phrase) if name is not None]
        assert named == [""] * places, phrase


def test_values_are_words_and_the_kinds_that_others_fall_back_to_are_there():
    assert {"name", "number"} <= set(PHRASES["values"])
    for kind, values in PHRASES["values"].items():
        assert split_identifier(kind) == [kind]
        assert values
        assert all(isinstance(value, str) and value == clean(value) for value in values)


@pytest.mark.parametrize(
    ("description", "wish"),
    [
        ("Deletes tags from a key. More.", "delete tags from a key"),
        ("Delete tags from a key", "delete tags from a key"),
        ("Searches the notes of today.", "search the notes of today"),
        ("Copies a file elsewhere.", "copy a file elsewhere"),
        ("Sending mail to people.", "send mail to people"),
        ("This tool allows you to list open issues.", "list open issues"),
        ("A tool that sends mail to people.", "send mail to people"),
        ("Use this endpoint to create an invoice.", "create an invoice"),
        ("** Returns the weather of today: **", "return the weather of today"),
        ("getUser\nReturns the user of an id.", "return the user of an id"),
        ("Ping it. Sees if a host is up.", "sees if a host is up"),
        ("One. Two. Finds the third thing.", "find the third thing"),
        ("Weather of\u200b the\tweek ahead.", "weather of the week ahead"),
    ],
)
def test_the_purpose_is_told_as_a_wish(description, wish):
    told = queries(tool(description, name="x1"))
    assert any(wish in query for query in told)
    assert not any("this tool" in query or "a tool that" in query for query in told)


@pytest.mark.parametrize(
    "description",
    ["", "Ping.", "On. Off. Up. Finds the fourth thing.", "word " * 41, "搜索 所有 文件"],
)
def test_where_no_sentence_says_it_the_names_words_do(description):
    told = queries(tool(description, name="listOpenIssues"))
    assert any("list open issues" in query for query in told)
    assert not any("fourth" in query or "word" in query for query in told)


def test_names_of_things_keep_their_capitals():
    assert any("GitHub issues of today" in q for _, q in pairs(tool("GitHub issues of today.")))


@pytest.mark.parametrize("name", ["ping", "搜索_所有_文件"])
def test_a_tool_whose_purpose_cannot_be_told_is_passed_over(name):
    data = imitate([tool("搜索所有 的 文件 和 目录。", name=name)], "corpus")
    assert (data.documents, data.examples) == ((), ())


def test_tools_of_one_text_count_once():
    same = [DELETE, DELETE.on_server("a"), DELETE.model_copy(update={"name": "PURGE"})]
    assert len(imitate(same, "corpus").examples) == 1


def test_a_wish_with_a_verb_is_a_deed_and_any_other_is_a_thing():
    deed, thing = "delete old tags", "weather of today"
    deeds = [query for query in queries(tool("Delete old tags.")) if deed in query]
    things = [query for query in queries(tool("Weather of today.")) if thing in query]
    assert any(f"want to {deed}" in query for query in deeds)
    assert not any(f"looking for {deed}" in query for query in deeds)
    assert any(f"looking for {thing}" in query for query in things)
    assert not any(f"want to {thing}" in query for query in things)


def test_half_of_the_texts_lose_what_the_query_was_made_from():
    texts = [text for text, _ in pairs(DELETE)]
    assert set(texts) == {dense_text(DELETE), "purge: Needs the owner's right"}
    assert 0.4 < texts.count(dense_text(DELETE)) / len(texts) < 0.6


def test_parameters_speak_for_a_tool_of_which_no_more_than_a_name_is_left():
    texts = {text for text, _ in pairs(tool("Deletes tags from a key.", key_id={}, force={}))}
    assert texts == {"purge: Deletes tags from a key.", "purge: key_id, force"}


def test_a_query_is_of_the_name_only_where_the_text_still_tells_the_purpose():
    told = list(pairs(tool("Deletes tags from a key.", name="purge_labels")))
    named = {text for text, query in told if "purge labels" in query.casefold()}
    assert named == {"purge labels: Deletes tags from a key."}


def test_most_texts_name_the_server_and_few_queries_do():
    told = list(pairs(DELETE.on_server("vault")))
    assert 0.7 < sum(text.startswith("vault ") for text, _ in told) / len(told) < 1
    assert 0 < sum("vault" in query for _, query in told) / len(told) < 0.3


def test_a_purpose_of_few_words_names_the_server_more_often():
    short, long = (
        sum("vault" in query for query in queries(tool(text, server="vault")))
        for text in ("Get some suggestions", "Get some suggestions for the weekend of next week")
    )
    assert short > 2 * long > 0


@pytest.mark.parametrize(
    ("name", "schema", "values"),
    [
        pytest.param("mode", {"enum": ["swift", "slow"]}, ["swift", "slow"], id="enum"),
        pytest.param("mode", {"example": "swift"}, ["swift"], id="example"),
        pytest.param("mode", {"default": 17, "example": ""}, ["17"], id="default"),
        pytest.param("home_city", {}, PHRASES["values"]["city"], id="kind"),
        pytest.param("city_id", {"enum": []}, PHRASES["values"]["id"], id="last word"),
        pytest.param("depth", {"type": "integer"}, PHRASES["values"]["number"], id="number"),
        pytest.param("owner", {"enum": ["x" * 41]}, PHRASES["values"]["name"], id="too long"),
        pytest.param("owner", True, PHRASES["values"]["name"], id="no schema"),
        pytest.param("owner", {"enum": "no list"}, PHRASES["values"]["name"], id="no list"),
    ],
)
def test_some_queries_give_a_parameter_a_value_of_its_kind(name, schema, values):
    shown = " ".join(split_identifier(name)).casefold()
    told = [q for q in queries(tool("Deletes all old tags.", **{name: schema})) if shown in q]
    assert told
    assert len(told) < len(SEEDS) / 2
    valued = [q for q in told if any(value.casefold() in q for value in values)]
    # A few lose the value with other words.
    assert len(valued) > 0.7 * len(told)


@pytest.mark.parametrize("schema", [{}, {"properties": ["key"]}])
def test_a_schema_without_properties_gives_no_value(schema):
    bare = DELETE.model_copy(update={"input_schema": schema})
    assert list(pairs(bare)) == list(pairs(DELETE))


def test_some_queries_want_what_the_tool_before_does_as_well_and_its_text_answers_them():
    first, second = tool("Lists all open issues.", name="first"), DELETE
    doubled = 0
    for seed in SEEDS:
        data = imitate([first, second], "corpus", seed=seed)
        alone, example = data.examples
        assert alone.relevant == {alone.positive}
        assert example.positive in example.relevant
        if len(example.relevant) > 1:
            doubled += 1
            (other,) = example.relevant - {example.positive}
            assert data.documents[other].startswith("first")
    assert 0.08 < doubled / len(SEEDS) < 0.25


def test_what_the_tool_before_does_is_told_before_or_after_what_this_one_does():
    first = tool("Lists all open issues.", name="first")
    told = [query for _, query in pairs(first, DELETE)]
    both = [query for query in told if "issues" in query and "tags" in query]
    assert {query.index("issues") < query.index("tags") for query in both} == {True, False}


def test_some_queries_lose_words_have_a_preamble_or_a_capital():
    told = [query for _, query in pairs(DELETE)]
    assert any("tags" not in query.casefold() for query in told)
    assert any(query.startswith(tuple(PHRASES["preambles"])) for query in told)
    assert {"delete tags from a key", "Delete tags from a key"} <= set(told)


def test_at_least_two_words_of_a_wish_stay():
    for query in queries(tool("Delete old tags.", name="x1")):
        assert sum(word in query for word in ("delete", "old", "tags")) >= 2


WORDS = st.lists(
    st.sampled_from(
        [
            "This",
            "tool",
            "that",
            "lists",
            "deletes",
            "the",
            "open",
            "issues.",
            "GitHub",
            "of",
            "a",
            "{city}",
            "搜索",
            "%s",
        ]
    ),
    max_size=12,
).map(" ".join)
SPECS = st.lists(
    st.builds(
        ToolSpec,
        name=st.from_regex(r"[a-z]{1,6}([_A-Z][a-z0-9]{1,6}){0,3}", fullmatch=True),
        server=st.sampled_from(("", "vault", "git")),
        description=WORDS,
        input_schema=st.sampled_from(({}, {"properties": {"$": {"enum": [None, "a \n b"]}}})),
    ),
    max_size=8,
)


@given(SPECS, st.integers())
def test_queries_say_something_and_point_to_texts_that_are_there(specs, seed):
    data = imitate(specs, "corpus", seed=seed)
    assert len(data.examples) <= len(specs)
    assert len(set(data.documents)) == len(data.documents)
    for example in data.examples:
        assert example.query
        assert example.query == clean(example.query)
        assert example.positive in example.relevant <= set(range(len(data.documents)))
        assert example.source == "corpus"
        assert example.negatives == ()


@given(SPECS, st.integers())
def test_pairs_are_the_seeds(specs, seed):
    assert imitate(specs, "corpus", seed=seed) == imitate(iter(specs), "corpus", seed=seed)


def test_nearly_every_tool_of_the_sample_registry_is_asked_for(sample):
    data = imitate(sample.tools, "sample")
    assert len(data.examples) > 0.95 * len(sample.tools)
    assert len({example.query for example in data.examples}) == len(data.examples)
