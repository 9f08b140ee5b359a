"""What a model must not see stays out of what it learns from, and is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.records import ToolSpec
from toolcrib.training.examples import pruned, sampled
from toolcrib.training.gathering import Gathered, gather
from toolcrib.training.near_duplicates import HeldOut

ISSUE = "show me every open issue of the website that nobody has looked at since last March"
MAIL = "send the quarterly report to all of my colleagues in the Oslo office by mail"

TOOLS = (
    ToolSpec(name="list_issues", server="git", description="Lists the issues of a repository."),
    ToolSpec(name="send_mail", server="post", description="Sends a mail to one or many people."),
)
PARCEL = ToolSpec(name="track_parcel", server="ship", description="Tells where a parcel is now.")


def labelled(text, split="train", tool="git/list_issues"):
    return LabelledQuery(f"{split}: {text}", text, split, {tool: 1} if tool else {})


def desk(*queries):
    return DataSet("desk", TOOLS, queries)


def asked(gathered, source):
    part = gathered.parts.get(source)
    return [example.query for example in part.examples] if part else []


def gathered_from(*queries, **options) -> Gathered:
    return gather([desk(*queries)], {}, imitated=False, **options)


def test_only_training_queries_that_a_tool_answers_teach():
    found = gathered_from(labelled(MAIL), labelled("hello", tool=""), labelled("red", "test"))
    assert asked(found, "desk") == [MAIL]
    assert found.pairs == {"desk": 1}
    assert found.left_out == {"desk": 0}


@pytest.mark.parametrize("split", ["dev", "test"])
@pytest.mark.parametrize("repeat", [ISSUE, ISSUE.upper(), ISSUE.replace("March", "April")])
def test_a_training_query_that_nearly_repeats_one_held_back_is_left_out_and_counted(split, repeat):
    found = gathered_from(labelled(MAIL), labelled(repeat), labelled(ISSUE, split))
    assert asked(found, "desk") == [MAIL]
    assert found.left_out == {"desk": 1}


def test_queries_of_another_set_are_held_back_as_well_even_unanswerable_ones():
    other = DataSet("other", TOOLS, (labelled(ISSUE, "test", tool=""),))
    trained_on = gather([desk(labelled(ISSUE)), other], {}, imitated=False)
    kept_out = gathered_from(labelled(ISSUE), unseen=[other])
    assert trained_on.pairs == kept_out.pairs == {}
    assert trained_on.left_out == {"desk": 1, "other": 0}
    assert kept_out.left_out == {"desk": 1}


def test_training_queries_that_repeat_each_other_all_stay():
    assert gathered_from(labelled(ISSUE), labelled(ISSUE.upper())).pairs == {"desk": 2}


def test_the_tools_of_a_data_set_make_pairs_of_their_own():
    found = gather([desk(labelled(MAIL))], {})
    assert found.pairs == {"desk": 1, "desk: tools": 2}
    assert {e.source for e in found.parts["desk: tools"].examples} == {"desk: tools"}


def test_an_imitated_query_that_repeats_one_held_back_is_left_out():
    made = asked(gather([desk()], {}), "desk: tools")
    again = gather([desk(labelled(made[0], "test"))], {})
    assert asked(again, "desk: tools") == made[1:]


def test_tools_alone_teach():
    found = gather([], {"shipping": iter([PARCEL])})
    assert found.pairs == {"shipping": 1}
    assert found.left_out == {"shipping": 0}


@pytest.mark.parametrize(
    "copy",
    [
        TOOLS[0],
        TOOLS[0].on_server("hub"),
        ToolSpec(name="listIssues", description="lists the issues, of a repository"),
        ToolSpec(name="list_issues", description=TOOLS[0].description, tags=("new",)),
    ],
)
def test_a_corpus_tool_that_repeats_one_of_a_data_set_is_left_out_and_counted(copy):
    found = gather([desk()], {"corpus": [copy, PARCEL]}, imitated=False)
    assert found.pairs == {"corpus": 1}
    assert found.left_out == {"desk": 0, "corpus": 1}
    assert all("issues" not in text for text in found.parts["corpus"].documents)


def test_a_corpus_tool_that_repeats_one_of_an_unseen_set_is_left_out():
    found = gather([], {"corpus": [TOOLS[0], PARCEL]}, unseen=[desk()])
    assert found.pairs == {"corpus": 1}
    assert found.left_out == {"corpus": 1}


def test_a_query_from_a_corpus_that_repeats_one_held_back_is_left_out():
    (query,) = asked(gather([], {"corpus": [PARCEL]}), "corpus")
    held_back = desk(labelled(query, "test"))
    assert gather([], {"corpus": [PARCEL]}, unseen=[held_back]).pairs == {}


def test_a_source_that_gives_nothing_is_no_part():
    found = gather([desk()], {"empty": []}, imitated=False)
    assert found.parts == {}
    assert found.left_out == {"desk": 0, "empty": 0}


def test_a_data_set_gives_at_most_its_limit_and_so_do_its_tools():
    queries = [labelled(f"word{n}") for n in range(20)]
    assert gather([desk(*queries)], {}, limit=1).pairs == {"desk": 1, "desk: tools": 1}
    assert gathered_from(*queries, limit=20).pairs == {"desk": 20}


def test_a_corpus_gives_all_it_has_unless_it_is_bounded():
    specs = [ToolSpec(name=f"item{n}", description=f"Counts the items of {n}.") for n in range(9)]
    assert gather([], {"corpus": specs}, limit=1).pairs == {"corpus": 9}
    bounded = gather([], {"corpus": specs}, corpus_limit=4)
    assert bounded.pairs == {"corpus": 4}
    whole = gather([], {"corpus": specs}).parts["corpus"]
    assert bounded.parts["corpus"] == pruned(sampled(whole, 4, 0))
    assert len(bounded.parts["corpus"].documents) < len(whole.documents)


def test_a_data_set_keeps_the_texts_of_all_its_tools_however_few_pairs_it_gives():
    found = gathered_from(labelled(MAIL), labelled(ISSUE), limit=1)
    assert len(found.parts["desk"].documents) == len(TOOLS)


def test_every_source_is_named_as_its_turn_comes():
    named: list[str] = []
    other = replace(desk(), name="other")
    gather([desk(), other], {"corpus": [PARCEL]}, progress=named.append)
    assert named == ["desk", "other", "corpus"]


def test_what_is_gathered_is_the_seeds():
    specs = [ToolSpec(name=f"item{n}", description=f"Counts the items of {n}.") for n in range(9)]
    one, same, other = (gather([], {"c": specs}, corpus_limit=4, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.parts["c"].digest != other.parts["c"].digest


def test_of_the_sample_data_no_pair_repeats_what_is_held_back(sample):
    found = gather([sample], {"copy": sample.tools})
    held = HeldOut(query.text for query in sample.queries if query.split != "train")
    assert found.left_out["copy"] == len(sample.tools)
    assert set(found.parts) == {"data", "data: tools"}
    assert not [e.query for p in found.parts.values() for e in p.examples if e.query in held]
    answered = [query for query in sample.split("train") if query.relevant]
    kept = {example.query for example in found.parts["data"].examples}
    assert len(kept) + found.left_out["data"] == len(answered)
