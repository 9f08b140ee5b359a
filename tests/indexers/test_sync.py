"""Only what changed is encoded, nothing good is lost, and every moment is safe to stop in."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import EncoderError, StoreError
from toolcrib.indexers.points import TOOL_TERMS, FieldWeights, draft, layout, passage_layout
from toolcrib.indexers.sync import Entry, NamePrefixes, PassageSync, ToolSync, is_current
from toolcrib.indexers.writer import ITEMS_PER_PAGE
from toolcrib.records import Enrichment, IndexProgress, Passage, Refusal, ToolSpec
from toolcrib.store.base import LegQuery, Point, point_id
from toolcrib.store.filters import Equals
from toolcrib.store.payload import read_passage, read_tool
from toolcrib.store.qdrant_edge import EdgeStore


class Bench:
    """A sync over a real store, with an encoder that counts."""

    def __init__(self, folder, layout, sync, read) -> None:
        self.encoder = DeterministicEncoder()
        self.lexical = LexicalEncoder()
        self.store = EdgeStore.open(folder, layout(self.encoder.dimensions))
        self.sync = sync(self.store, self.encoder, self.lexical)
        self.read = read

    def run(self, *items, **options):
        return self.sync.run([("source", item) for item in items], **options)

    def held(self):
        return {record.payload["id"]: self.read(record.payload) for record in self.store.scroll()}

    @property
    def prefixes(self) -> NamePrefixes:
        return NamePrefixes.from_meta(self.store.read_meta())

    def lexical_score(self, query: str, item_id: str) -> float:
        [hits] = self.store.search([LegQuery("lexical", self.lexical.encode_query(query), 1000)])
        return {hit.id: hit.score for hit in hits}.get(point_id(item_id), 0.0)

    def close(self):
        self.store.close()

    def empty(self):
        self.store.delete([record.id for record in self.store.scroll(fields=("id",))])
        self.store.write_meta(dict.fromkeys(self.store.read_meta()))
        self.encoder.encoded_documents = 0
        return self


def tool_bench(folder):
    return Bench(folder, layout, lambda *parts: ToolSync(*parts, FieldWeights()), read_tool)


@pytest.fixture(scope="module")
def shared_tools(tmp_path_factory):
    with closing(tool_bench(tmp_path_factory.mktemp("tools"))) as made:
        yield made


@pytest.fixture
def bench(shared_tools):
    return shared_tools.empty()


def spec(name: str, description: str = "", **fields) -> ToolSpec:
    return ToolSpec(name=name, description=description, **fields)


TOOL_AND_SKILL = {"tool": spec("a", "one"), "skill": spec("a", "two", skill={"body": "Do it."})}


def test_a_second_run_over_the_same_tools_encodes_nothing(bench):
    tools = [spec(f"tool_{number}", "does a thing") for number in range(10)]
    first = bench.run(*tools)
    second = bench.run(*tools)
    assert (len(first.added), len(second.unchanged)) == (10, 10)
    assert bench.encoder.encoded_documents == 10


def test_tools_are_current_while_all_of_a_filter_are_stored_as_they_are(bench):
    a, b = spec("a", "one", server="x"), spec("b", "two", server="x")
    bench.run(a, b, spec("c", server="y"))
    of_x = Equals("server", "x")

    assert is_current(bench.store, [a, b], of_x)
    for others in ([a], [a, spec("b", "two, mended", server="x")], [a, b, spec("d", server="x")]):
        assert not is_current(bench.store, others, of_x)


def test_only_what_changed_is_encoded_again(bench):
    bench.run(spec("a", "one"), spec("b", "two"))
    report = bench.run(spec("a", "one"), spec("b", "two, mended"))
    assert (report.changed, report.unchanged) == (("b",), ("a",))
    assert bench.encoder.encoded_documents == 3


def test_examples_and_anti_patterns_are_vectors_of_their_own(bench):
    bench.run(spec("a", "one", success_examples=("x", "y"), anti_patterns=("z",)))
    assert bench.encoder.encoded_documents == 4
    query = bench.encoder.encode_query("y")
    legs = [LegQuery(name, query, 5) for name in ("examples", "anti_patterns")]
    [examples, anti] = bench.store.search(legs)
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
    assert bench.held() == {"mail/send": tool}


def test_prune_of_one_server_leaves_the_others_alone(bench):
    bench.run(spec("a", server="one"), spec("b", server="one"), spec("c", server="two"))
    report = bench.run(spec("a", server="one"), prune=True, prune_server="one")
    assert report.removed == ("one/b",)
    assert bench.held().keys() == {"one/a", "two/c"}


def test_prune_removes_nothing_while_anything_is_refused(bench):
    bench.run(spec("a"), spec("b"))
    report = bench.run(spec("a"), Refusal("source", "line 2", "broken"), prune=True)
    assert report.removed == ()
    prune = report.refused[-1]
    assert prune.source == "--prune"
    assert "1 tool in no source, but kept: 1 refusal" in prune.reason
    assert bench.held().keys() == {"a", "b"}


def test_two_different_tools_of_one_id_keep_the_first_and_refuse_the_second(bench):
    report = bench.run(spec("a", "one"), spec("a", "another"))
    assert report.added == ("a",)
    [refusal] = report.refused
    assert (refusal.source, refusal.place) == ("source", "a")
    assert "already stands for a different tool in source" in refusal.reason
    assert bench.held()["a"].description == "one"


@pytest.mark.parametrize("kinds", [("tool", "skill"), ("skill", "tool")])
def test_a_skill_and_a_tool_of_one_id_do_not_take_each_others_place(bench, kinds):
    first, second = (TOOL_AND_SKILL[kind] for kind in kinds)
    bench.run(first)
    unread = Refusal("source", "line 2", "broken")
    for others, how in (
        ((), {}),
        ((), {"prune": True, "prune_server": "other"}),
        ((unread,), {"prune": True}),
    ):
        refused = {each.place: each.reason for each in bench.run(second, *others, **how).refused}
        assert f"already stands for a different {first.kind} in the index" in refused["a"]
        assert bench.held() == {"a": first}


def test_a_refusal_at_the_id_of_a_listed_tool_does_not_keep_what_no_source_has(bench):
    bench.run(spec("a"), spec("b"))
    report = bench.run(spec("a"), Refusal("source", "a", "has another name"), prune=True)
    assert report.removed == ("b",)
    assert [each.place for each in report.refused] == ["a"]


@pytest.mark.parametrize("kinds", [("tool", "skill"), ("skill", "tool")])
def test_with_prune_a_tool_that_became_a_skill_is_one_and_the_reverse(bench, kinds):
    first, second = (TOOL_AND_SKILL[kind] for kind in kinds)
    bench.run(first)
    refused = bench.run(first, second, prune=True).refused
    assert [each.place for each in refused] == ["a"]
    assert bench.held() == {"a": first}
    report = bench.run(second, prune=True)
    assert (report.changed, report.removed, report.refused) == (("a",), (), ())
    assert bench.held() == {"a": second}


def test_a_lone_surrogate_is_refused_and_the_others_are_kept(bench):
    bad = spec("bad", input_schema={"properties": {"x": {"description": "\ud800"}}})
    report = bench.run(bad, spec("good"))
    assert report.added == ("good",)
    [refusal] = report.refused
    assert (refusal.place, "half a character" in refusal.reason) == ("bad", True)


def test_an_encoder_that_gives_too_few_vectors_is_named(bench, monkeypatch):
    encode = bench.encoder.encode_documents
    monkeypatch.setattr(bench.encoder, "encode_documents", lambda texts: encode(texts)[1:])
    with pytest.raises(EncoderError, match="trigrams-64 gave an array"):
        bench.run(*(ToolSpec(name=name) for name in ("pay", "refund")))
    assert bench.held() == {}


def test_progress_names_every_tool_once_it_is_durable(bench):
    seen: list[IndexProgress] = []
    tools = [spec(f"tool_{number}") for number in range(ITEMS_PER_PAGE + 5)]
    bench.run(*tools, progress=seen.append)
    written = [progress for progress in seen if progress.stage == "write"]
    assert [progress.done for progress in written] == [0, ITEMS_PER_PAGE, ITEMS_PER_PAGE + 5]
    assert {i for progress in written for i in progress.ids} == {tool.id for tool in tools}


def test_how_long_other_texts_are_changes_no_weight(bench):
    bench.run(spec("short", "reads mail"), spec("other", "x"))
    before = bench.lexical_score("mail", "short")
    bench.run(spec("other", "writes many words about everything else there is " * 20))
    assert bench.lexical_score("mail", "short") == before


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


def test_only_tools_that_every_scope_takes_together_share_a_prefix(bench):
    def acme(verb: str, **fields: str) -> ToolSpec:
        return spec(f"acme_{verb}", server="s", **fields)

    bench.run(acme("read"), *(acme(v, sensitivity="pii") for v in ("write", "list", "drop", "cut")))
    assert bench.lexical_score("acme", "s/acme_read") > 0.0
    assert bench.lexical_score("acme", "s/acme_list") == 0.0


class InterruptedRunError(Exception):
    """Stands for the end of the process."""


def test_a_run_that_was_broken_off_is_finished_by_the_next(bench, monkeypatch):
    bench.run(spec("acme_read", server="s"))
    before = bench.lexical_score("acme", "s/acme_read")
    new = [spec(f"acme_{verb}", server="s") for verb in ("write", "list", "drop")]

    def stop(*_):
        raise InterruptedRunError

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "set_sparse", stop)
        with pytest.raises(InterruptedRunError):
            bench.run(*new)
    assert bench.prefixes.stale
    assert not is_current(bench.store, [], Equals("server", "t"))
    other = bench.run(spec("mail", server="t"))
    assert other.added == ("t/mail",)
    assert not bench.prefixes.stale
    assert bench.lexical_score("acme", "s/acme_read") == 0.0 < before


def test_safety_tags_of_an_enrichment_count_for_the_group_of_a_tool(bench):
    """A scope sees these tags, so a run finds the prefix that the next run finds."""
    enrichment = Enrichment(purpose="Changes things.", safety_tags=("writes",))
    tools = [spec(f"acme_{n}", server="s", enrichment=enrichment) for n in "abc"]
    tools.append(spec("acme_d", server="s"))
    bench.run(*tools)
    first = bench.prefixes
    bench.run(*tools)
    assert bench.prefixes == first == NamePrefixes()


@pytest.fixture
def reads(monkeypatch) -> list[int]:
    """Ids of the points that were read from any store."""
    found: list[int] = []

    def counted(read):
        def wrapped(*arguments, **options):
            for record in read(*arguments, **options):
                found.append(record.id)
                yield record

        return wrapped

    for name in ("scroll", "retrieve"):
        monkeypatch.setattr(EdgeStore, name, counted(getattr(EdgeStore, name)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("stored", [300, 3_000])
def test_one_tool_reads_its_group_alone_however_large_the_index_is(bench, reads, stored):
    servers = {f"server_{n}": ("a", "b")[: n % 3] for n in range(stored // 10)}
    bench.store.upsert([point for each in servers.items() for point in points_of(bench, *each)])
    reads.clear()
    bench.run(spec("x_item", "new", server="server_0"))
    assert len(reads) == 10
    reads.clear()
    bench.run(spec("x_item", "changed", server="server_0", tags=("a",)))
    assert len(reads) == 1 + 11
    reads.clear()
    bench.run(spec("alone"))
    assert reads == []


def points_of(bench, server: str, tags: tuple[str, ...]) -> list[Point]:
    """Ten tools of one group without a shared prefix, as a run writes them."""
    specs = [spec(f"{letter}_item", server=server, tags=tags) for letter in "abcdefghij"]
    drafts = [draft(each, bench.lexical, FieldWeights(), ()) for each in specs]
    vectors = bench.encoder.encode_documents([text for each in drafts for text in each.texts])
    return [
        each.point(vectors[n : n + 1], bench.lexical, TOOL_TERMS) for n, each in enumerate(drafts)
    ]


def test_a_new_prefix_reads_the_tools_of_its_group_alone(bench, reads):
    bench.run(*(spec(f"tool_{n}", server=f"t{n}") for n in range(50)), spec("acme_a", server="s"))
    reads.clear()
    bench.run(*(spec(f"acme_{verb}", server="s") for verb in ("write", "list", "drop")))
    assert {*reads} <= {point_id(tool_id) for tool_id in bench.held() if tool_id.startswith("s/")}


def test_pruning_reads_everything(bench, reads):
    bench.run(*(spec(f"tool_{n}", server=f"t{n}") for n in range(5)))
    reads.clear()
    assert len(bench.run(spec("tool_0", server="t0"), prune=True).removed) == 4
    assert len(reads) == 5


def test_a_store_that_fails_keeps_what_was_reported_before(bench, monkeypatch):
    done: list[str] = []
    real = bench.store.upsert
    calls = iter((True, False))

    def upsert(points):
        if not next(calls):
            raise StoreError("the disk is full")
        real(points)

    monkeypatch.setattr(bench.store, "upsert", upsert)
    tools = [spec(f"tool_{number}") for number in range(ITEMS_PER_PAGE * 2)]
    with pytest.raises(StoreError, match="the disk is full"):
        bench.run(*tools, progress=lambda progress: done.extend(progress.ids))
    assert len(done) == ITEMS_PER_PAGE
    assert bench.held().keys() == set(done)


names = st.text("abc_", min_size=1, max_size=4).filter(lambda n: n.strip("_"))


@settings(max_examples=20)
@given(
    st.lists(
        st.dictionaries(names, st.sampled_from(["one", "two words", ""]), max_size=6),
        min_size=1,
        max_size=4,
    )
)
def test_after_any_sequence_of_pruned_runs_the_store_is_the_last_source(shared_tools, runs):
    shared_tools.empty()
    for tools in runs:
        report = shared_tools.run(*(spec(n, d) for n, d in tools.items()), prune=True)
        assert len(report.added + report.changed + report.unchanged) == len(tools)
    assert shared_tools.held() == {name: spec(name, text) for name, text in runs[-1].items()}


def test_a_tool_that_is_read_twice_is_named_as_a_copy(bench):
    report = bench.sync.run([("a.json", spec("x")), ("a.json", spec("x")), ("b.json", spec("x"))])
    assert (report.added, report.refused) == (("x",), ())
    reason = "a copy of the tool in a.json"
    assert report.copies == (Refusal("a.json", "x", reason), Refusal("b.json", "x", reason))


def test_copies_keep_nothing_from_being_pruned(bench):
    bench.run(spec("old"))
    report = bench.run(spec("x"), spec("x"), prune=True)
    assert (report.removed, len(report.copies)) == (("old",), 1)


def counted(report) -> int:
    """The number of entries that a report accounts for."""
    parts = (report.added, report.changed, report.unchanged, report.refused, report.copies)
    return sum(map(len, parts))


anything = st.one_of(
    st.builds(Refusal, st.just("s"), names, st.just("broken")),
    st.builds(
        spec,
        st.sampled_from(["a", "b", "c_d"]),
        st.sampled_from(["", "one", "half \ud800"]),
        skill=st.sampled_from([None, {"body": "Do it."}]),
    ),
)


@settings(max_examples=30)
@given(st.lists(st.lists(anything, max_size=8), min_size=1, max_size=3))
def test_whatever_is_read_is_counted_once(shared_tools, runs):
    shared_tools.empty()
    for items in runs:
        assert counted(shared_tools.run(*items)) == len(items)


def test_one_text_alone_and_in_a_page_gets_the_same_place(bench):
    entries: list[Entry] = [("s", spec(f"t{n}", "word " * n)) for n in range(1, 9)]
    bench.sync.run(entries)
    alone = bench.encoder.encode_documents(["t3: " + " ".join(["word"] * 3)])[0]
    [hits] = bench.store.search([LegQuery("dense", alone, 8)])
    assert hits[0].id == point_id("t3")
    assert np.isclose(hits[0].score, 1.0, atol=1e-5)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("passages")
    with closing(Bench(folder, passage_layout, PassageSync, read_passage)) as made:
        yield made


@pytest.fixture
def passage_bench(shared):
    return shared.empty()


def parts(document: str, *texts: str, collection: str = "notes") -> list[Passage]:
    return [Passage(collection, document, text, (), n) for n, text in enumerate(texts)]


def test_a_second_run_over_the_same_documents_encodes_nothing(passage_bench):
    read = parts("a.md", "one", "two", "three")
    first = passage_bench.run(*read)
    second = passage_bench.run(*read)
    assert first.added == second.unchanged == ("notes/a.md#0", "notes/a.md#1", "notes/a.md#2")
    assert (second.added, second.changed, second.removed) == ((), (), ())
    assert passage_bench.encoder.encoded_documents == 3


def test_only_the_part_that_changed_is_encoded_again(passage_bench):
    passage_bench.run(*parts("a.md", "one", "two"), *parts("b.md", "three"))
    report = passage_bench.run(*parts("a.md", "one", "two, mended"), *parts("b.md", "three"))
    assert (report.changed, len(report.unchanged)) == (("notes/a.md#1",), 2)
    assert passage_bench.encoder.encoded_documents == 4
    assert passage_bench.held()["notes/a.md#1"].text == "two, mended"


def test_a_part_under_another_heading_has_changed(passage_bench):
    passage_bench.run(Passage("notes", "a.md", "one", ("Before",)))
    report = passage_bench.run(Passage("notes", "a.md", "one", ("After",)))
    assert report.changed == ("notes/a.md#0",)


def test_the_same_name_in_another_collection_does_not_shorten_a_document(passage_bench):
    passage_bench.run(*parts("a.md", "one", "two"))
    passage_bench.run(*parts("a.md", "one", collection="other"))
    assert set(passage_bench.held()) == {"notes/a.md#0", "notes/a.md#1", "other/a.md#0"}


def test_prune_removes_the_documents_of_its_collection_that_were_not_read(passage_bench):
    others = parts("b.md", "2", "3") + parts("c.md", "4", collection="x")
    passage_bench.run(*parts("a.md", "1"), *others)
    report = passage_bench.run(*parts("a.md", "1"), prune="notes")
    assert report.removed == ("notes/b.md#0", "notes/b.md#1")
    assert set(passage_bench.held()) == {"notes/a.md#0", "x/c.md#0"}


def test_a_document_that_is_refused_keeps_its_own_passages_alone(passage_bench):
    passage_bench.run(*parts("a.md", "one"), *parts("b.md", "two"), *parts("c.md", "three"))
    broken = Refusal("b.md", "b.md", "broken")
    report = passage_bench.run(*parts("a.md", "one"), broken, prune="notes")
    assert (report.refused, report.removed) == ((broken,), ("notes/c.md#0",))
    assert "notes/b.md#0" in passage_bench.held()


def test_prune_removes_no_document_while_anything_is_refused(passage_bench):
    passage_bench.run(*parts("a.md", "one", "two"), *parts("b.md", "three"))
    report = passage_bench.run(*parts("a.md", "one"), Refusal("b.md", "", "broken"), prune="notes")
    assert report.removed == ("notes/a.md#1",)
    prune = report.refused[-1]
    assert prune.source == "--prune"
    assert "1 passage in no source, but kept: 1 refusal" in prune.reason
    assert "notes/b.md#0" in passage_bench.held()


def test_two_documents_of_one_name_keep_the_first_and_refuse_the_second(passage_bench):
    second = [("two/a.md", each) for each in parts("a.md", "another", "with", "more parts")]
    report = passage_bench.sync.run([("one/a.md", *parts("a.md", "one")), *second])
    assert report.added == ("notes/a.md#0",)
    assert [refusal.place for refusal in report.refused] == ["part 1", "part 2", "part 3"]
    assert report.refused[0].source == "two/a.md"
    assert "one/a.md" in report.refused[0].reason
    assert [passage.text for passage in passage_bench.held().values()] == ["one"]


def test_two_parts_of_one_position_are_refused_by_their_position(passage_bench):
    first, second = (Passage("notes", "a.md", text) for text in ("one", "two"))
    report = passage_bench.sync.run([("", first), ("", second)])
    assert (report.added, len(report.refused)) == (("notes/a.md#0",), 1)
    assert "position 0" in report.refused[0].reason


def test_a_document_that_is_read_twice_is_named_as_a_copy(passage_bench):
    read = [(source, part) for source in ("a.md", "./a.md") for part in parts("a.md", "1", "2")]
    report = passage_bench.sync.run(read)
    assert (len(report.added), report.refused) == (2, ())
    reason = "a copy of the part of 'a.md' from a.md"
    copies = [Refusal("./a.md", f"part {number}", reason) for number in (1, 2)]
    assert report.copies == tuple(copies)


def test_a_part_that_one_source_gives_twice_is_no_copy_from_itself(passage_bench):
    [part] = parts("a.md", "1")
    [copy] = passage_bench.sync.run([("", part), ("", part)]).copies
    assert (copy.place, "from" in copy.reason, "twice" in copy.reason) == ("part 1", False, True)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["s", "t"]),
            st.one_of(
                st.builds(Refusal, st.just("s"), names, st.just("broken")),
                st.builds(
                    Passage,
                    st.just("notes"),
                    st.sampled_from(["a.md", "b.md"]),
                    st.sampled_from(["one", "two", "half \ud800"]),
                    st.just(()),
                    st.integers(0, 2),
                ),
            ),
        ),
        max_size=9,
    )
)
def test_whatever_part_is_read_is_counted_once(shared, entries):
    shared.empty()
    assert counted(shared.sync.run(entries)) == len(entries)


def test_a_part_that_is_refused_keeps_what_stood_there(passage_bench):
    passage_bench.run(*parts("a.md", "one", "two"))
    report = passage_bench.run(*parts("a.md", "one", "half \ud800", "new"))
    assert (report.added, report.changed, report.removed) == (("notes/a.md#2",), (), ())
    [refusal] = report.refused
    assert (refusal.source, refusal.place) == ("a.md", "part 2")
    assert "half a character" in refusal.reason
    assert passage_bench.held()["notes/a.md#1"].text == "two"


def test_how_long_other_passages_are_changes_no_weight(passage_bench):
    passage_bench.run(*parts("a.md", "red green"), *parts("b.md", "blue"))
    before = passage_bench.lexical_score("red", "notes/a.md#0")
    passage_bench.run(*parts("b.md", "blue white black brown " * 50))
    assert passage_bench.lexical_score("red", "notes/a.md#0") == before > 0


@pytest.mark.parametrize("stored", [30, 300])
def test_one_document_reads_its_own_passages_alone(passage_bench, reads, stored):
    for number in range(0, stored, 10):
        passage_bench.run(
            *(part for each in range(number, number + 10) for part in parts(f"{each}.md", "x", "y"))
        )
    reads.clear()
    report = passage_bench.run(*parts("7.md", "z"))
    assert (report.changed, report.removed) == (("notes/7.md#0",), ("notes/7.md#1",))
    assert {*reads} == {point_id("notes/7.md#0"), point_id("notes/7.md#1")}


def test_what_else_the_small_document_holds_is_kept(passage_bench):
    passage_bench.store.write_meta({"collection/notes": {"vectors": ""}})
    passage_bench.run(*parts("a.md", "one"))
    assert passage_bench.store.read_meta()["collection/notes"] == {"vectors": ""}


documents = st.dictionaries(
    st.sampled_from(["a.md", "b.md", "c.md"]),
    st.lists(st.sampled_from(["one", "two words", "and three more words", ""]), max_size=4),
)


@given(st.lists(documents, min_size=1, max_size=5))
def test_any_sequence_of_pruned_runs_ends_in_what_the_last_one_says(shared, runs):
    shared.empty()
    for read in runs:
        told = [part for name, texts in read.items() for part in parts(name, *texts)]
        report = shared.run(*told, prune="notes")
        assert len(report.added) + len(report.changed) + len(report.unchanged) == len(told)
    assert shared.held() == {part.id: part for part in told}


@given(st.lists(documents, min_size=1, max_size=4))
def test_without_pruning_each_document_is_what_the_last_run_that_read_it_says(shared, runs):
    shared.empty()
    last: dict[str, list[Passage]] = {}
    for read in runs:
        last |= {name: parts(name, *texts) for name, texts in read.items() if texts}
        shared.run(*(part for name, texts in read.items() for part in parts(name, *texts)))
    assert shared.held() == {part.id: part for told in last.values() for part in told}


def test_a_tool_whose_number_another_has_is_refused_and_takes_no_ones_place(tmp_path, monkeypatch):
    monkeypatch.setattr("toolcrib.indexers.sync.point_id", len)
    monkeypatch.setattr("toolcrib.indexers.points.point_id", len)
    with closing(tool_bench(tmp_path)) as bench:
        first = bench.run(ToolSpec(name="aa"), ToolSpec(name="bb"))
        assert (first.added, [each.place for each in first.refused]) == (("aa",), ["bb"])
        again = bench.run(ToolSpec(name="cc", description="Another."), ToolSpec(name="ccc"))
        assert again.added == ("ccc",)
        assert "'aa'" in again.refused[0].reason
        assert set(bench.held()) == {"aa", "ccc"}
