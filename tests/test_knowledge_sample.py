"""The sample documents, from files to answers: what a team asks is found where it stands."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from toolcrib import Crib, Scope, Settings

DOCUMENTS = ROOT / "data" / "collections"
NAMES = sorted(folder.name for folder in DOCUMENTS.iterdir() if folder.is_dir())


@pytest.fixture(scope="module")
def crib():
    """The six sample collections with the bundled model; no test writes to it."""
    with Crib.open(":memory:", settings=Settings()) as opened:
        for name in NAMES:
            report = opened.index_docs(DOCUMENTS / name, collection=name)
            assert report.refused == ()
        yield opened


@pytest.mark.parametrize(
    ("question", "collection", "document"),
    [
        ("What is our definition of done?", "agile", "definition-of-done.md"),
        ("How do we write an architecture decision record?", "architecture", "decision-records.md"),
        (
            "How should commit messages be written?",
            "coding_guidelines",
            "commits-and-versioning.md",
        ),
        ("How do I retry a Celery task?", "framework_docs", "celery-jobs.md"),
        ("How are secrets rotated?", "security", "secrets-handling.md"),
        ("What do we do with a flaky test?", "testing", "flaky-tests.rst"),
    ],
)
def test_a_question_is_answered_from_the_document_that_holds_the_answer(
    crib, question, collection, document
):
    found = crib.find_knowledge(question)
    assert (found.verdict, found.collections[0].id) == ("accept", collection)
    assert found.passages[0].passage.document.endswith(f"/{collection}/{document}")


def test_a_turn_that_asks_gets_passages_with_citations(crib):
    decision = crib.route("How should commit messages be written?")
    assert decision.route.kind == "knowledge"
    first = decision.knowledge.passages[0]
    assert first.passage.title
    assert first.passage.citation.endswith(f"part {first.passage.position + 1})")


def test_thanks_look_nothing_up(crib):
    decision = crib.route("thank you very much!")
    assert (decision.route.kind, decision.knowledge.passages) == ("none", ())


def test_who_may_ask_one_collection_hears_of_no_other(crib):
    scope = Scope(collections=frozenset({"testing"}))
    for question in ("How are secrets rotated?", "What do we do with a flaky test?"):
        found = crib.find_knowledge(question, scope=scope)
        assert {hit.passage.collection for hit in found.passages} <= {"testing"}
        assert {hit.id for hit in found.collections} <= {"testing", "all"}


def test_what_nobody_wrote_about_is_not_answered(crib):
    found = crib.find_knowledge("Which wine goes with grilled sea bass?")
    assert (found.verdict, found.passages) == ("abstain", ())


def test_a_second_run_changes_nothing(crib):
    before = crib.knowledge.count()
    report = crib.index_docs(DOCUMENTS / "agile", collection="agile", prune=True)
    assert (report.added, report.changed, report.removed) == ((), (), ())
    assert len(report.unchanged) > 6
    assert crib.knowledge.count() == before
