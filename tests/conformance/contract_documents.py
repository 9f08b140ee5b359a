"""What every crib promises about documents and collections."""

from __future__ import annotations

from operator import itemgetter

import pytest

from toolcrib import Collection, Context, Passage, Scope

COLLECTIONS = (
    Collection(
        name="post_rules",
        description="How parcels are packed, weighed and paid for.",
        examples=("how heavy may a parcel be?",),
        answers=(("post", "ask"),),
        priority=1.5,
    ),
    Collection(name="wards", description="Rules of the wards of the clinic.", sensitivity="pii"),
)
PASSAGES = (
    Passage("post_rules", "weight.md", "A parcel may weigh at most thirty kilograms.", ("Post",)),
    Passage("post_rules", "glass.md", "Glass in a parcel is wrapped in paper twice."),
    Passage("post_rules", "glass.md", "A vase needs a box of its own.", ("Post", "Glass"), 1, 44),
    Passage("wards", "visits.md", "Patients are visited between two and six in the afternoon."),
)
RULES = "# Parcels\n\nA parcel may weigh at most thirty kilograms.\n"
QUESTION = "How heavy may a parcel be?"
PUBLIC = Scope(max_sensitivity="public")
WARDS = Scope(collections=frozenset({"wards"}))


def which(found):
    """The passages that were found; words of removed ones may count in the scores for a while."""
    return sorted(passage["id"] for passage in found["passages"])


def with_passages(both):
    both(lambda crib: crib.add_collections(*COLLECTIONS))
    both(lambda crib: crib.index_passages(PASSAGES))
    return both


class Documents:
    @pytest.fixture(scope="class")
    @classmethod
    def read(cls, new_both):
        """Filled once, for tests that only read."""
        return with_passages(new_both())

    @pytest.fixture
    def rules(self, tmp_path):
        folder = tmp_path / "rules"
        folder.mkdir()
        (folder / "weight.md").write_text(RULES)
        (folder / "old.md").write_text("# Old\n\nParcels were carried by horses.\n")
        return folder

    def test_documents_are_indexed_by_what_changed(self, both, rules):
        assert both(lambda crib: crib.index_docs(rules, collection="post"))["added"] == 2
        assert both(lambda crib: crib.index_docs(rules, collection="post"))["unchanged"] == 2
        (rules / "weight.md").write_text(RULES.replace("thirty", "forty"))
        assert both(lambda crib: crib.index_docs(rules, collection="post"))["changed"] == 1
        told = both(lambda crib: crib.find_knowledge(QUESTION))
        assert "forty" in " ".join(passage["text"] for passage in told["passages"])

    def test_documents_that_no_source_names_go_where_that_is_asked(self, both, rules):
        both(lambda crib: crib.index_docs(rules, collection="post"))
        (rules / "old.md").unlink()
        assert both(lambda crib: crib.index_docs(rules, collection="post"))["removed"] == 0
        told = both(lambda crib: crib.index_docs(rules, collection="post", prune=True))
        assert (told["removed"], told["unchanged"]) == (1, 1)

    def test_nothing_goes_while_anything_is_refused(self, both, rules):
        both(lambda crib: crib.index_docs(rules, collection="post"))
        some = (rules / "weight.md", rules / "none.md")
        told, expected = both.each(lambda c: c.index_docs(*some, collection="post", prune=True))
        assert (told.removed, expected.removed) == ((), ())
        assert [each.source for each in told.refused] == [each.source for each in expected.refused]

    def test_what_cannot_be_read_keeps_no_other_out(self, both, rules):
        (rules / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
        told = both(lambda crib: crib.index_docs(rules, rules / "none.md", collection="post"))
        assert (told["added"], len(told["refused"])) == (2, 2)

    def test_a_shorter_document_leaves_nothing_over(self, both):
        with_passages(both)
        told = both(lambda crib: crib.index_passages(PASSAGES[1:2]))
        assert (told["removed"], told["unchanged"]) == (1, 1)

    def test_passages_that_cannot_be_kept_are_refused(self, both):
        half = Passage("post_rules", "half.md", "a \ud800 character", position=3)
        other = Passage("post_rules", "glass.md", "Something else.")
        told = both(lambda crib: crib.index_passages([*PASSAGES[:2], half, other]))
        assert (told["added"], len(told["refused"])) == (2, 2)

    def test_collections_are_as_they_were_described(self, read):
        told = read(lambda crib: crib.list_collections())
        assert [(each["name"], count) for each, count in told] == [("post_rules", 3), ("wards", 1)]
        assert [each for each, _ in read.crib.list_collections()] == list(COLLECTIONS)

    @pytest.mark.parametrize("scope", [PUBLIC, WARDS, Scope(), Scope(collections=frozenset())])
    def test_collections_are_listed_within_a_scope(self, read, scope):
        told = read(lambda crib: crib.list_collections(scope=scope))
        assert len(told) == len(read.crib.list_collections(scope=scope)) < 3

    def test_a_collection_that_ships_is_described(self, both):
        both(lambda crib: crib.index_passages([Passage("agile", "a.md", "We meet at nine.")]))
        ((collection, count),) = both(lambda crib: crib.list_collections())
        assert (collection["name"], bool(collection["description"]), count) == ("agile", True, 1)

    @pytest.mark.parametrize("scope", [None, PUBLIC, WARDS, Scope(collections=frozenset())])
    @pytest.mark.parametrize(
        "question", [QUESTION, "When are patients visited?", "glass", "Who won the cup?"]
    )
    def test_the_same_passages_answer(self, read, question, scope):
        told = read(lambda crib: crib.find_knowledge(question, scope=scope))
        if scope is PUBLIC:
            assert "wards" not in {hit["collection"] for hit in told["passages"]}

    @pytest.mark.parametrize(
        "asked",
        [
            {"k": 1},
            {"token_budget": 20},
            {"collections": ["post_rules"]},
            {"collections": ["wards", "post_rules"], "k": 2},
            {"collections": []},
        ],
        ids=str,
    )
    def test_passages_come_as_many_and_whence_they_are_wanted(self, read, asked):
        told = read(lambda crib: crib.find_knowledge(QUESTION, **asked))
        # Of a turn, `k` counts tools.
        turn = {("passages" if name == "k" else name): value for name, value in asked.items()}
        decided = read(lambda crib: crib.route(QUESTION, **turn), but=itemgetter("knowledge"))
        assert decided["knowledge"]["passages"] == told["passages"]
        whence = {hit["collection"] for hit in told["passages"]}
        assert whence <= {*asked.get("collections", ["post_rules"])}
        assert len(told["passages"]) <= asked.get("k", 3)
        assert bool(told["passages"]) == (asked.get("collections") != [])

    def test_passages_for_a_context_are_those_of_the_map(self, read):
        seen = Context(QUESTION, intent="ask", domain="product", confidence=0.9)
        told = read(lambda crib: crib.find_knowledge(QUESTION, context=seen))
        assert told["passages"]

    def test_documents_are_removed_by_name_and_collections_as_a_whole(self, both):
        with_passages(both)
        assert both(lambda crib: crib.remove_docs("post_rules", "glass.md", "none.md")) == 2
        assert both(lambda crib: crib.remove_docs("wards")) == 1
        told = both(lambda crib: crib.list_collections())
        assert [(each["name"], count) for each, count in told] == [("post_rules", 1)]
        both(lambda crib: crib.find_knowledge(QUESTION), but=which)

    def test_without_documents_there_are_no_collections_and_no_answers(self, both):
        assert both(lambda crib: crib.list_collections()) == []
        assert both(lambda crib: crib.find_knowledge(QUESTION))["passages"] == []
