"""Only what changed is encoded, nothing good is lost, and every moment is safe to stop in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import StoreError
from toolcrib.indexers.lexical_context import LexicalContext
from toolcrib.indexers.points import layout
from toolcrib.indexers.render import FieldWeights
from toolcrib.indexers.sync import Entry, ToolSync
from toolcrib.indexers.writing import PAGE
from toolcrib.records import IndexProgress, Refusal, ToolSpec
from toolcrib.store.base import LegQuery, point_id
from toolcrib.store.payload import read_tool
from toolcrib.store.qdrant_edge import EdgeStore


class Bench:
    """A sync over a real store, with an encoder that counts."""

    def __init__(self, folder: Path) -> None:
        self.encoder = DeterministicEncoder()
        self.lexical = LexicalEncoder()
        self.store = EdgeStore.open(folder, layout(self.encoder.dimensions))
        self.sync = ToolSync(self.store, self.encoder, self.lexical, FieldWeights())

    def run(self, *specs: ToolSpec | Refusal, **options):
        return self.sync.run([("tools.jsonl", spec) for spec in specs], **options)

    def ids(self) -> set[str]:
        return {record.payload["id"] for record in self.store.scroll(fields=("id",))}

    def lexical_score(self, query: str, tool_id: str) -> float:
        vector = self.lexical.encode_query(query)
        [hits] = self.store.search([LegQuery("lexical", vector, 1000)])
        return {hit.id: hit.score for hit in hits}.get(point_id(tool_id), 0.0)


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path / "store")
    yield made
    made.store.close()


def spec(name: str, description: str = "", **fields) -> ToolSpec:
    return ToolSpec(name=name, description=description, **fields)


def test_a_second_run_over_the_same_tools_encodes_nothing(bench):
    tools = [spec(f"tool_{number}", "does a thing") for number in range(10)]
    first = bench.run(*tools)
    encoded = bench.encoder.encoded_documents
    second = bench.run(*tools)
    assert (len(first.added), len(second.unchanged)) == (10, 10)
    assert bench.encoder.encoded_documents == encoded == 10


def test_only_what_changed_is_encoded_again(bench):
    bench.run(spec("a", "one"), spec("b", "two"))
    before = bench.encoder.encoded_documents
    report = bench.run(spec("a", "one"), spec("b", "two, mended"))
    assert (report.changed, report.unchanged) == (("b",), ("a",))
    assert bench.encoder.encoded_documents == before + 1


def test_examples_and_anti_patterns_are_vectors_of_their_own(bench):
    bench.run(spec("a", "one", success_examples=("x", "y"), anti_patterns=("z",)))
    assert bench.encoder.encoded_documents == 4
    query = bench.encoder.encode_query("y")
    [examples, anti] = bench.store.search(
        [LegQuery("examples", query, 5), LegQuery("anti_patterns", query, 5)],
    )
    half_precision = 1e-3
    assert examples[0].score == pytest.approx(1.0, abs=half_precision)
    assert anti[0].score < 0.9


def test_what_the_store_holds_is_the_whole_specification(bench):
    tool = spec(
        "send",
        "Sends. " * 50,
        server="mail",
        input_schema={"type": "object", "properties": {"to": {"type": "string"}}},
        cost_estimate=0.25,
        tags=("a", "b"),
        annotations={"readOnlyHint": False},
        success_examples=("write to Ana",),
        enabled=False,
    )
    bench.run(tool)
    [record] = bench.store.retrieve([point_id("mail/send")])
    assert read_tool(record.payload) == tool


def test_prune_removes_what_no_source_names(bench):
    bench.run(spec("a"), spec("b"), spec("c"))
    report = bench.run(spec("a"), prune=True)
    assert report.removed == ("b", "c")
    assert bench.ids() == {"a"}


def test_prune_of_one_server_leaves_the_others_alone(bench):
    bench.run(spec("a", server="one"), spec("b", server="one"), spec("c", server="two"))
    report = bench.run(spec("a", server="one"), prune=True, prune_server="one")
    assert report.removed == ("one/b",)
    assert bench.ids() == {"one/a", "two/c"}


def test_without_prune_nothing_is_removed(bench):
    bench.run(spec("a"), spec("b"))
    assert bench.run(spec("a")).removed == ()
    assert bench.ids() == {"a", "b"}


def test_prune_removes_nothing_while_anything_is_refused(bench):
    bench.run(spec("a"), spec("b"))
    report = bench.run(spec("a"), Refusal("tools.jsonl", "line 2", "broken"), prune=True)
    assert report.removed == ()
    assert report.refused[-1] == Refusal(
        "--prune",
        "",
        "1 tools are in no source, but were kept: 1 entries were refused and may stand for "
        "them; mend those and prune again",
    )
    assert bench.ids() == {"a", "b"}


def test_two_different_tools_of_one_id_keep_the_first_and_refuse_the_second(bench):
    report = bench.run(spec("a", "one"), spec("a", "another"))
    assert report.added == ("a",)
    assert report.refused == (
        Refusal(
            "tools.jsonl",
            "a",
            "the id 'a' already stands for a different tool in tools.jsonl; give one of them "
            "another name, server or id",
        ),
    )
    [record] = bench.store.retrieve([point_id("a")])
    assert read_tool(record.payload).description == "one"


def test_the_same_tool_twice_is_one_tool(bench):
    report = bench.run(spec("a", "one"), spec("a", "one"))
    assert (report.added, report.refused) == (("a",), ())


def test_a_lone_surrogate_is_refused_and_the_others_are_kept(bench):
    bad = spec("bad", input_schema={"properties": {"x": {"description": "\ud800"}}})
    report = bench.run(bad, spec("good"))
    assert report.added == ("good",)
    assert report.refused == (
        Refusal("", "bad", "holds half a character (a lone surrogate); mend the text"),
    )


def test_progress_names_every_tool_once_it_is_durable(bench):
    seen: list[IndexProgress] = []
    tools = [spec(f"tool_{number}") for number in range(PAGE + 5)]
    bench.run(*tools, progress=seen.append)
    written = [progress for progress in seen if progress.stage == "write"]
    assert [progress.done for progress in written] == [0, PAGE, PAGE + 5]
    assert {i for progress in written for i in progress.ids} == {tool.id for tool in tools}


def test_a_drifted_average_renews_older_lexical_vectors_without_encoding(bench):
    bench.run(spec("old", "reads mail"))
    before = bench.lexical_score("mail", "old")
    encoded = bench.encoder.encoded_documents
    bench.run(spec("long", "writes many words about everything else there is " * 20))
    context = LexicalContext.from_meta(bench.store.read_meta())
    assert bench.encoder.encoded_documents == encoded + 1
    assert not context.all_stale
    assert bench.lexical_score("mail", "old") > before


def test_the_average_stays_while_it_drifts_by_less_than_a_tenth(bench):
    bench.run(*(spec(f"t{n}", "one two three four") for n in range(20)))
    average = LexicalContext.from_meta(bench.store.read_meta()).average
    bench.run(spec("extra", "one two three four five six"))
    assert LexicalContext.from_meta(bench.store.read_meta()).average == average


def test_a_prefix_that_all_tools_of_a_server_share_does_not_make_them_match(bench):
    bench.run(
        *(spec(f"acme_{verb}", server="s") for verb in ("read", "write", "list", "drop")),
        spec("anvil", "made by acme"),
    )
    assert bench.lexical_score("acme", "s/acme_read") == 0.0
    assert bench.lexical_score("acme", "anvil") > 0.0


def test_a_prefix_that_appears_later_renews_the_older_tools_of_its_server(bench):
    bench.run(spec("acme_read", server="s"), spec("other", server="t"))
    assert bench.lexical_score("acme", "s/acme_read") > 0.0
    bench.run(*(spec(f"acme_{verb}", server="s") for verb in ("write", "list", "drop")))
    assert bench.lexical_score("acme", "s/acme_read") == 0.0


class InterruptedRunError(Exception):
    """Stands for the end of the process."""


def test_a_run_that_was_broken_off_is_finished_by_the_next(bench, monkeypatch):
    bench.run(spec("old", "reads mail"))
    long = spec("long", "writes many words about everything else there is " * 20)

    def stop(*_):
        raise InterruptedRunError

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "set_sparse", stop)
        with pytest.raises(InterruptedRunError):
            bench.run(long)
    assert LexicalContext.from_meta(bench.store.read_meta()).all_stale
    before = bench.lexical_score("mail", "old")
    report = bench.run(long)
    assert report.unchanged == ("long",)
    assert not LexicalContext.from_meta(bench.store.read_meta()).all_stale
    assert bench.lexical_score("mail", "old") > before


def test_a_store_that_fails_keeps_what_was_reported_before(tmp_path, bench, monkeypatch):
    done: list[str] = []
    real = bench.store.upsert
    calls = iter((True, False))

    def upsert(points):
        if not next(calls):
            raise StoreError("the disk is full")
        real(points)

    monkeypatch.setattr(bench.store, "upsert", upsert)
    tools = [spec(f"tool_{number}") for number in range(PAGE * 2)]
    with pytest.raises(StoreError, match="the disk is full"):
        bench.run(*tools, progress=lambda progress: done.extend(progress.ids))
    assert len(done) == PAGE
    assert bench.ids() == set(done)


names = st.text("abc_", min_size=1, max_size=4).filter(lambda n: n.strip("_"))


@settings(max_examples=20)
@given(
    st.lists(
        st.dictionaries(names, st.sampled_from(["one", "two words", ""]), max_size=6),
        min_size=1,
        max_size=4,
    ),
)
def test_after_any_sequence_of_pruned_runs_the_store_is_the_last_source(runs):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for tools in runs:
            report = bench.run(*(spec(n, d) for n, d in tools.items()), prune=True)
            kinds = (report.added, report.changed, report.unchanged)
            assert sum(map(len, kinds)) == len(tools)
        held = {r.payload["id"]: read_tool(r.payload) for r in bench.store.scroll()}
        bench.store.close()
    assert held == {name: spec(name, text) for name, text in runs[-1].items()}


def test_one_text_alone_and_in_a_page_gets_the_same_place(bench):
    entries: list[Entry] = [("s", spec(f"t{n}", "word " * n)) for n in range(1, 9)]
    bench.sync.run(entries)
    alone = bench.encoder.encode_documents(["t3: " + " ".join(["word"] * 3)])[0]
    [hits] = bench.store.search([LegQuery("dense", alone, 8)])
    assert hits[0].id == point_id("t3")
    assert np.isclose(hits[0].score, 1.0, atol=1e-5)
