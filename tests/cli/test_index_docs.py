"""Documents in and what they are kept in, on the command line."""

from __future__ import annotations

import json

import pytest

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


def test_it_counts_what_it_did_and_a_second_run_leaves_all_alone(documents):
    first = index_docs(documents)
    assert first == {"added": 2, "changed": 0, "removed": 0, "unchanged": 0, "refused": []}
    assert index_docs(documents)["unchanged"] == 2
    (documents.folder / "rules" / "weight.md").write_text(RULES.replace("thirty", "forty"))
    assert index_docs(documents)["changed"] == 1


def test_prune_removes_what_no_source_names_from_its_collection_alone(documents):
    index_docs(documents)
    index_docs(documents, collection="other")
    (documents.folder / "rules" / "glass.txt").unlink()
    assert index_docs(documents)["removed"] == 0
    assert index_docs(documents, "--prune")["removed"] == 1
    assert [listed(documents)[name]["passages"] for name in ("post", "other")] == [1, 2]


def test_it_says_in_words_what_it_did_and_what_it_refused(documents):
    done = documents("index-docs", "rules", "none.md", "--collection", "post")
    assert done.returncode == 0
    assert "2 added, 0 changed, 0 removed, 0 unchanged in" in done.stdout
    assert "1 refused:" in done.stdout
    assert "none.md" in done.stdout


def test_strict_fails_when_anything_was_refused_and_keeps_the_good(documents):
    done = documents("index-docs", "rules", "none.md", "--collection", "post", "--strict")
    assert done.returncode == 1
    assert listed(documents)["post"]["passages"] == 2


def test_sources_of_which_nothing_could_be_read_fail(shell):
    done = shell("index-docs", "none.md", "--collection", "post", "--json")
    assert done.returncode == 1
    [refusal] = json.loads(done.stdout)["refused"]
    assert refusal["source"] == "none.md"
    assert refusal["reason"]


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
    row = next(line for line in done.stdout.splitlines() if line.startswith("post"))
    assert row.split()[:3] == ["post", "2", "internal"]
    assert done.stdout.splitlines()[0].split()[:3] == ["collection", "passages", "sensitivity"]


def test_brackets_in_a_description_are_shown_as_they_are(documents):
    index_docs(documents, "--description", "How [parcels] are packed [/b].")
    done = documents("collections")
    assert "How [parcels] are packed [/b]." in done.stdout


def test_an_index_without_collections_has_none_to_list(indexed):
    assert indexed.json("collections") == []
    assert indexed("collections").returncode == 0


def test_collections_where_nothing_is_say_how_to_begin(shell):
    done = shell("collections")
    assert done.returncode == 3
    assert done.stderr.startswith("error: there is no index in .toolcrib; make one with")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("rules",), "Missing option '--collection'"),
        (("--collection", "post"), "Missing argument"),
        (
            ("rules", "--collection", "post", "--sensitivity", "secret"),
            "known are public, internal",
        ),
    ],
)
def test_wrong_usage_exits_with_2_and_no_trace(documents, arguments, told):
    done = documents("index-docs", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert told in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize("name", ["", "two words", "../elsewhere", "x" * 201])
def test_a_name_that_no_collection_may_have_is_one_line(documents, name):
    done = documents("index-docs", "rules", "--collection", name)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_documents_of_another_model_are_refused_with_the_command_that_mends_it(documents):
    index_docs(documents)
    other = {"TOOLCRIB_ENCODER__DENSE": "deterministic:32"}
    done = documents("collections", **other)
    assert done.returncode == 4
    assert "`toolcrib index --rebuild`" in done.stderr


def test_doctor_tells_what_the_library_holds_and_what_is_empty(documents):
    index_docs(documents)
    told = json.loads(documents("doctor", "--json").stdout)
    assert told["library"] == {"collections": {"post": 2}, "passages": 2}
    assert documents("index-docs", "nowhere.md", "--collection", "hollow").returncode == 1
    told = json.loads(documents("doctor", "--json").stdout)
    assert "the collection 'hollow' holds no passages" in [p["what"] for p in told["problems"]]
