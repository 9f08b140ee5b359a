"""Documents change, shrink and go; only what changed is encoded, and nothing good is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import StoreError
from toolcrib.indexers.lexical_context import LexicalContext
from toolcrib.indexers.passage_sync import PassageSync
from toolcrib.indexers.passages import passage_layout
from toolcrib.indexers.writing import PAGE
from toolcrib.records import IndexProgress, Passage, Refusal
from toolcrib.store.base import LegQuery, point_id
from toolcrib.store.payload import read_passage
from toolcrib.store.qdrant_edge import EdgeStore


class Bench:
    """A sync over a real store, with an encoder that counts."""

    def __init__(self, folder) -> None:
        self.encoder = DeterministicEncoder()
        self.lexical = LexicalEncoder()
        self.store = EdgeStore.open(folder, passage_layout(self.encoder.dimensions))
        self.sync = PassageSync(self.store, self.encoder, self.lexical)

    def run(self, *passages: Passage | Refusal, **options):
        return self.sync.run([("docs", passage) for passage in passages], **options)

    def held(self) -> dict[str, Passage]:
        return {r.payload["id"]: read_passage(r.payload) for r in self.store.scroll()}

    def lexical_score(self, word: str, passage_id: str) -> float:
        [hits] = self.store.search([LegQuery("lexical", self.lexical.encode_query(word), 1000)])
        return {hit.id: hit.score for hit in hits}.get(point_id(passage_id), 0.0)

    def empty(self) -> None:
        self.store.delete([record.id for record in self.store.scroll(fields=("id",))])
        self.store.write_meta({})


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    made = Bench(tmp_path_factory.mktemp("passages"))
    yield made
    made.store.close()


@pytest.fixture
def bench(shared):
    shared.empty()
    return shared


def parts(document: str, *texts: str, collection: str = "notes") -> list[Passage]:
    return [Passage(collection, document, text, (), n) for n, text in enumerate(texts)]


def test_a_second_run_over_the_same_documents_encodes_nothing(bench):
    read = parts("a.md", "one", "two", "three")
    first = bench.run(*read)
    encoded = bench.encoder.encoded_documents
    second = bench.run(*read)
    assert first.added == second.unchanged == ("notes/a.md#0", "notes/a.md#1", "notes/a.md#2")
    assert (second.added, second.changed, second.removed) == ((), (), ())
    assert bench.encoder.encoded_documents == encoded


def test_only_the_part_that_changed_is_encoded_again(bench):
    bench.run(*parts("a.md", "one", "two"), *parts("b.md", "three"))
    before = bench.encoder.encoded_documents
    report = bench.run(*parts("a.md", "one", "two, mended"), *parts("b.md", "three"))
    assert (report.changed, len(report.unchanged)) == (("notes/a.md#1",), 2)
    assert bench.encoder.encoded_documents == before + 1
    assert bench.held()["notes/a.md#1"].text == "two, mended"


def test_a_part_under_another_heading_has_changed(bench):
    bench.run(Passage("notes", "a.md", "one", ("Before",)))
    report = bench.run(Passage("notes", "a.md", "one", ("After",)))
    assert report.changed == ("notes/a.md#0",)


def test_one_name_in_two_collections_is_two_documents(bench):
    bench.run(*parts("a.md", "one"), *parts("a.md", "another", collection="other"))
    assert set(bench.held()) == {"notes/a.md#0", "other/a.md#0"}


def test_the_same_document_named_twice_is_one(bench):
    report = bench.run(*parts("a.md", "one"), *parts("a.md", "one"))
    assert (report.added, report.refused) == (("notes/a.md#0",), ())


def test_what_is_left_over_of_a_document_that_became_shorter_goes(bench):
    bench.run(*parts("a.md", "one", "two", "three"), *parts("b.md", "four"))
    report = bench.run(*parts("a.md", "one, all of it"))
    assert report.removed == ("notes/a.md#1", "notes/a.md#2")
    assert set(bench.held()) == {"notes/a.md#0", "notes/b.md#0"}


def test_the_same_name_in_another_collection_does_not_shorten_a_document(bench):
    bench.run(*parts("a.md", "one", "two"))
    bench.run(*parts("a.md", "one", collection="other"))
    assert set(bench.held()) == {"notes/a.md#0", "notes/a.md#1", "other/a.md#0"}


def test_a_document_that_was_not_read_stays(bench):
    bench.run(*parts("a.md", "one"), *parts("b.md", "two"))
    assert bench.run(*parts("a.md", "one")).removed == ()
    assert set(bench.held()) == {"notes/a.md#0", "notes/b.md#0"}


def test_prune_removes_the_documents_of_its_collection_that_were_not_read(bench):
    bench.run(*parts("a.md", "1"), *parts("b.md", "2", "3"), *parts("c.md", "4", collection="x"))
    report = bench.run(*parts("a.md", "1"), prune="notes")
    assert report.removed == ("notes/b.md#0", "notes/b.md#1")
    assert set(bench.held()) == {"notes/a.md#0", "x/c.md#0"}


def test_prune_with_nothing_read_empties_the_collection(bench):
    bench.run(*parts("a.md", "1"), *parts("c.md", "4", collection="x"))
    bench.run(prune="notes")
    assert set(bench.held()) == {"x/c.md#0"}


def test_prune_removes_no_document_while_anything_is_refused(bench):
    bench.run(*parts("a.md", "one", "two"), *parts("b.md", "three"))
    report = bench.run(*parts("a.md", "one"), Refusal("b.md", "", "broken"), prune="notes")
    assert report.removed == ("notes/a.md#1",)
    assert report.refused[-1] == Refusal(
        "--prune",
        "",
        "1 passages are in no source, but were kept: 1 sources were refused and may hold them; "
        "mend those and prune again",
    )
    assert "notes/b.md#0" in bench.held()


def test_a_refusal_without_anything_to_prune_is_reported_alone(bench):
    refusal = Refusal("b.md", "", "broken")
    assert bench.run(*parts("a.md", "one"), refusal, prune="notes").refused == (refusal,)


def test_two_documents_of_one_name_keep_the_first_and_refuse_the_second(bench):
    report = bench.sync.run(
        [("one/a.md", *parts("a.md", "one")), ("two/a.md", *parts("a.md", "another"))]
    )
    assert report.added == ("notes/a.md#0",)
    assert report.refused == (
        Refusal(
            "two/a.md",
            "part 1",
            "'a.md' already stands for another document, from one/a.md; rename one of them, or "
            "give it another collection",
        ),
    )
    assert bench.held()["notes/a.md#0"].text == "one"


def test_no_part_of_a_second_document_of_one_name_gets_into_the_first(bench):
    second = parts("a.md", "another", "with", "more parts")
    bench.sync.run([("one/a.md", *parts("a.md", "one")), *(("two/a.md", each) for each in second)])
    assert [passage.text for passage in bench.held().values()] == ["one"]


def test_half_a_character_is_refused_and_the_others_are_kept(bench):
    report = bench.run(*parts("a.md", "fine", "half \ud800", "fine too"))
    assert report.added == ("notes/a.md#0", "notes/a.md#2")
    assert report.refused == (
        Refusal("a.md", "part 2", "holds half a character (a lone surrogate); mend the text"),
    )


def test_a_part_that_is_refused_keeps_what_stood_there(bench):
    bench.run(*parts("a.md", "one", "two"))
    report = bench.run(*parts("a.md", "one", "half \ud800"))
    assert (report.changed, report.removed, len(report.refused)) == ((), (), 1)
    assert bench.held()["notes/a.md#1"].text == "two"


def test_prune_removes_no_document_while_half_a_character_is_refused(bench):
    bench.run(*parts("a.md", "one"), *parts("b.md", "two"))
    report = bench.run(*parts("a.md", "half \ud800"), prune="notes")
    assert report.removed == ()
    assert "notes/b.md#0" in bench.held()


def test_a_drifted_average_renews_older_lexical_vectors_without_encoding(bench):
    bench.run(*parts("old.md", "reads mail"))
    before = bench.lexical_score("mail", "notes/old.md#0")
    encoded = bench.encoder.encoded_documents
    bench.run(*parts("long.md", "many words about everything else there is " * 20))
    assert bench.encoder.encoded_documents == encoded + 1
    assert not LexicalContext.from_meta(bench.store.read_meta()).all_stale
    assert bench.lexical_score("mail", "notes/old.md#0") > before


def test_the_average_stays_while_it_drifts_by_less_than_a_tenth(bench):
    bench.run(*(part for n in range(20) for part in parts(f"{n}.md", "red green blue white")))
    average = LexicalContext.from_meta(bench.store.read_meta()).average
    bench.run(*parts("extra.md", "red green blue white black brown"))
    assert LexicalContext.from_meta(bench.store.read_meta()).average == average == 4


def test_what_goes_no_longer_counts_in_the_average(bench):
    bench.run(*parts("a.md", "red green"), *parts("b.md", "red green blue white black brown"))
    bench.run(*parts("a.md", "red green"), prune="notes")
    assert LexicalContext.from_meta(bench.store.read_meta()).average == 2


def test_what_else_the_small_document_holds_is_kept(bench):
    bench.store.write_meta({"catalogue": {"collections": []}})
    bench.run(*parts("a.md", "one"))
    assert bench.store.read_meta()["catalogue"] == {"collections": []}


class InterruptedRunError(Exception):
    """Stands for the end of the process."""


def test_a_run_that_was_broken_off_is_finished_by_the_next(bench, monkeypatch):
    bench.run(*parts("old.md", "reads mail"))
    long = parts("long.md", "many words about everything else there is " * 20)

    def stop(*_):
        raise InterruptedRunError

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "set_sparse", stop)
        with pytest.raises(InterruptedRunError):
            bench.run(*long)
    before = bench.lexical_score("mail", "notes/old.md#0")
    report = bench.run(*long)
    assert report.unchanged == ("notes/long.md#0",)
    assert not LexicalContext.from_meta(bench.store.read_meta()).all_stale
    assert bench.lexical_score("mail", "notes/old.md#0") > before


def test_progress_names_every_passage_once_it_is_durable(bench):
    seen: list[IndexProgress] = []
    bench.run(*parts("a.md", *map(str, range(PAGE + 5))), progress=seen.append)
    written = [each for each in seen if each.stage == "write"]
    assert [each.done for each in written] == [0, PAGE, PAGE + 5]
    assert {i for each in written for i in each.ids} == set(bench.held())
    assert seen[-1].stage == "optimise"


def test_a_store_that_fails_keeps_what_was_reported_before(bench, monkeypatch):
    done: list[str] = []
    real, calls = bench.store.upsert, iter((True, False))

    def upsert(points):
        if not next(calls):
            raise StoreError("the disk is full")
        real(points)

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "upsert", upsert)
        with pytest.raises(StoreError, match="the disk is full"):
            bench.run(
                *parts("a.md", *map(str, range(PAGE * 2))),
                progress=lambda each: done.extend(each.ids),
            )
    assert len(done) == PAGE
    assert set(bench.held()) == set(done)


documents = st.dictionaries(
    st.sampled_from(["a.md", "b.md", "c.md"]),
    st.lists(st.sampled_from(["one", "two words", "and three more words", ""]), max_size=4),
)


@settings(max_examples=30)
@given(st.lists(documents, min_size=1, max_size=5))
def test_any_sequence_of_pruned_runs_ends_in_what_the_last_one_says(shared, runs):
    shared.empty()
    for read in runs:
        told = [part for name, texts in read.items() for part in parts(name, *texts)]
        report = shared.run(*told, prune="notes")
        assert len(report.added) + len(report.changed) + len(report.unchanged) == len(told)
    assert shared.held() == {part.id: part for part in told}


@settings(max_examples=30)
@given(st.lists(documents, min_size=1, max_size=4))
def test_without_pruning_each_document_is_what_the_last_run_that_read_it_says(shared, runs):
    shared.empty()
    last: dict[str, list[Passage]] = {}
    for read in runs:
        last |= {name: parts(name, *texts) for name, texts in read.items() if texts}
        shared.run(*(part for name, texts in read.items() for part in parts(name, *texts)))
    assert shared.held() == {part.id: part for told in last.values() for part in told}
