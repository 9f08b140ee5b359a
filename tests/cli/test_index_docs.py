"""Documents in and what they are kept in, on the command line."""

from __future__ import annotations

import json

import pytest

from toolcrib import Collection, Crib
from toolcrib.errors import MissingExtraError

RULES = "# Parcels\n\nA parcel may weigh at most thirty kilograms.\n"


@pytest.fixture
def documents(shell):
    """A shell in whose folder there are two documents."""
    folder = shell.folder / "rules"
    folder.mkdir()
    (folder / "weight.md").write_text(RULES)
    (folder / "glass.txt").write_text("Glass is wrapped in paper twice.\n")
    return shell


def index_docs(shell, *arguments, collection="post", **env):
    return shell.json("index-docs", "rules", "--collection", collection, *arguments, **env)


def listed(shell):
    return {each["name"]: each for each in shell.json("collections")}


@pytest.mark.slow
def test_it_counts_what_it_did_and_a_second_run_leaves_all_alone(documents):
    first = index_docs(documents)
    assert first == {"added": 2, "changed": 0, "removed": 0, "unchanged": 0, "refused": []}
    assert index_docs(documents)["unchanged"] == 2
    (documents.folder / "rules" / "weight.md").write_text(RULES.replace("thirty", "forty"))
    assert index_docs(documents)["changed"] == 1


@pytest.mark.slow
def test_prune_removes_what_no_source_names_from_its_collection_alone(documents):
    index_docs(documents)
    index_docs(documents, collection="other")
    (documents.folder / "rules" / "glass.txt").unlink()
    assert index_docs(documents)["removed"] == 0
    assert index_docs(documents, "--prune")["removed"] == 1
    assert [listed(documents)[name]["passages"] for name in ("post", "other")] == [1, 2]


@pytest.mark.slow
def test_prune_passes_over_a_broken_document_but_not_over_a_missing_folder(documents):
    index_docs(documents)
    (documents.folder / "rules" / "glass.txt").unlink()
    (documents.folder / "rules" / "scan.pdf").write_bytes(b"no PDF")
    assert index_docs(documents, "ruels", "--prune")["removed"] == 0
    assert index_docs(documents, "--prune")["removed"] == 1


def test_a_collection_is_described_on_the_command_line(documents):
    index_docs(
        documents,
        *("--description", "How parcels are packed."),
        *("--example", "How heavy may it be?", "--example", "What about glass?"),
        *("--sensitivity", "internal", "--fallback"),
    )
    assert listed(documents)["post"] == {
        "name": "post",
        "description": "How parcels are packed.",
        "examples": ["How heavy may it be?", "What about glass?"],
        "answers": [],
        "sensitivity": "internal",
        "priority": 0.0,
        "fallback": True,
        "passages": 2,
    }


@pytest.mark.slow
def test_what_was_said_of_a_collection_stays_until_something_else_is_said(documents):
    index_docs(documents, "--description", "How parcels are packed.", "--sensitivity", "pii")
    index_docs(documents)
    index_docs(documents, "--description", "Rules of the post.")
    post = listed(documents)["post"]
    assert (post["description"], post["sensitivity"]) == ("Rules of the post.", "pii")


def test_a_collection_that_ships_brings_its_description_unless_another_is_given(documents):
    index_docs(documents, collection="agile")
    index_docs(documents, "--description", "Ours.", collection="testing")
    found = listed(documents)
    assert found["agile"]["description"].startswith("How the team works together")
    assert (found["testing"]["description"], len(found["testing"]["examples"])) == ("Ours.", 10)


def test_collections_are_shown_in_a_table(documents):
    index_docs(documents, "--description", "How [parcels] are packed.", "--sensitivity", "internal")
    done = documents("collections")
    assert done.returncode == 0
    assert done.stdout == "post\t2\tinternal\tHow [parcels] are packed.\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("rules",), "Missing option '--collection'"),
        (("--collection", "post"), "Missing argument"),
        (
            ("rules", "--collection", "post", "--sensitivity", "secret"),
            "'secret' is not one of 'public', 'internal'",
        ),
    ],
)
def test_wrong_usage_exits_with_2_and_no_trace(documents, arguments, told):
    stderr = documents.error("index-docs", *arguments)
    assert told in " ".join(stderr.replace("│", " ").split())
    assert not (documents.folder / ".toolcrib").exists()


def test_doctor_tells_what_the_library_holds_and_what_is_empty(documents, settings):
    index_docs(documents)
    told = documents.json("doctor")
    assert told["library"] == {"collections": {"post": 2}, "passages": 2}
    assert (told["healthy"], told["problems"]) == (True, [])
    with Crib.open(documents.folder / ".toolcrib", settings=settings) as crib:
        crib.add_collections(Collection(name="hollow", description="Nothing yet."))
    told = json.loads(documents("doctor", "--json").stdout)
    assert any("'hollow'" in each for each in [p["what"] for p in told["problems"]])


def test_documents_that_cannot_be_read_make_no_index_and_no_collection(documents):
    assert documents("index-docs", "nowhere.md", "--collection", "hollow").returncode == 1
    assert not (documents.folder / ".toolcrib").exists()
    index_docs(documents)
    assert documents("index-docs", "nowhere.md", "--collection", "hollow").returncode == 1
    assert list(listed(documents)) == ["post"]


def test_without_its_extra_it_leaves_no_collection(documents, monkeypatch):
    def missing():
        raise MissingExtraError("reading documents", "docs")

    monkeypatch.setattr("toolcrib.documents.sources.require_docs", missing)
    stderr = documents.error("index-docs", "rules", "--collection", "post", code=5)
    assert "toolcrib[docs]" in stderr
    assert not (documents.folder / ".toolcrib").exists()
